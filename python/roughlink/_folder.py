"""Result folders."""

from __future__ import annotations

import json
import os
from html import escape
from pathlib import Path
from typing import Any

from . import _native
from ._experiment import Experiment
from ._run import Run
from ._scenario import whole
from ._sweep import Sweep
from ._table import Table


class Paper:
    """The results of ``roughlink reproduce``: a paper's experiments, and what became of its claims."""

    def __init__(self, folder: Path, result: dict[str, Any]) -> None:
        self.folder = folder
        """The result folder."""
        self.result = result
        """The object of ``results.json`` (``docs/reference/results.md``)."""

    @property
    def title(self) -> str:
        """Its title."""
        title: str = self.result["title"]
        return title

    @property
    def experiments(self) -> dict[str, Experiment]:
        """Its experiments by name, such as ``"v2g/table2"``, in the order of the paper."""
        return {each["experiment"]: Experiment(each) for each in self.result["experiments"]}

    @property
    def claims(self) -> list[dict[str, Any]]:
        """Its claims, with the verdict for each stack."""
        claims: list[dict[str, Any]] = self.result["claims"]
        return claims

    def __repr__(self) -> str:
        return f"<roughlink.Paper {self.title!r}: {len(self.experiments)} experiments, {len(self.claims)} claims>"

    def _repr_html_(self) -> str:
        verdicts = [(claim, verdict) for claim in self.claims for verdict in claim["verdicts"]]
        cells = [(c["claim"], c["text"], v["stack"], v["verdict"]) for c, v in verdicts]
        body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in cells)
        head = "".join(f"<th>{name}</th>" for name in ("claim", "text", "stack", "verdict"))
        return f"<p>{escape(self.title)}</p>" + (f"<table><tr>{head}</tr>{body}</table>" if cells else "")


def read(folder: str | os.PathLike[str], *, max_series: int = 4_000_000_000, max_runs: int = 1_000_000) -> Run | Sweep | Paper:
    """The results in a folder, as those who made it got them.

    Of ``roughlink run -o`` and ``emulate -o`` a :class:`Run`; its series are read when they are asked for, if there are any, for which the folder
    has to stay as it is. Of :func:`sweep`, ``roughlink sweep`` and ``compare`` a :class:`Sweep`, with the runs that there are so far if it is not
    finished or is one part of several (:attr:`Sweep.planned`). Of ``roughlink reproduce`` a :class:`Paper`. All numbers are the same bits as in the
    program that wrote them.

    Args:
        folder: the folder.
        max_series: bytes that a series, or the table of runs, may take in memory.
        max_runs: a sweep that is not finished and is to be of more runs is refused.

    Raises:
        RoughlinkError: it is no result folder, or a file in it is damaged.
        LimitError: a table takes more than `max_series`.
    """
    found = _native.read(folder, whole(max_series, "max_series"), whole(max_runs, "max_runs"))
    if isinstance(found, _native.Run):
        return Run(found)
    text, runs, planned = found
    result = json.loads(text)
    if runs is None:
        return Paper(Path(folder), result)
    return Sweep(Path(folder), result["experiments"][0], Table(runs), planned)
