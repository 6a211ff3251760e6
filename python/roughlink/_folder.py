"""Result folders of the command line."""

from __future__ import annotations

import json
import os
from typing import Any

from . import _native


def read(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The results in a folder that ``roughlink run -o``, ``sweep``, ``compare`` or ``reproduce`` left: the object that they print with
    ``--json``. Series and runs are Parquet files there, which Polars and pandas read.

    Raises:
        RoughlinkError: it is no result folder.
    """
    kind, text = _native.read(folder)
    found: dict[str, Any] = json.loads(text)
    return found
