"""Result folders of the command line."""

from __future__ import annotations

import json
import os
from typing import Any

from . import _native


def read(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The results in a folder: of ``roughlink run -o`` the object that it prints with ``--json``; of ``sweep``, ``compare`` and ``reproduce`` that
    of ``results.json``, with a list of ``experiments``. Series and runs are Parquet files there, which Polars and pandas read.

    Raises:
        RoughlinkError: it is no result folder.
    """
    found: dict[str, Any] = json.loads(_native.read(folder))
    return found
