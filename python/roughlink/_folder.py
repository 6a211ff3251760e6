"""Result folders."""

from __future__ import annotations

import json
import os
from html import escape
from pathlib import Path
from typing import Any

from . import _native
from ._emulate import read_emulation
from ._experiment import Experiment
from ._run import Run
from ._scenario import whole
from ._sweep import Sweep
from ._table import Table


class Paper:
    """Results of ``roughlink reproduce``: the experiments of a paper and the verdicts on its claims."""

    def __init__(self, folder: Path, result: dict[str, Any]) -> None:
        self.folder = folder
        """Result folder."""
        self.result = result
        """JSON object in ``results.json`` (``docs/reference/results.md``)."""

    @property
    def title(self) -> str:
        """Title of the paper."""
        title: str = self.result["title"]
        return title

    @property
    def experiments(self) -> dict[str, Experiment]:
        """Experiments by name, such as ``"v2g/table2"``, in the order of the paper."""
        return {each["experiment"]: Experiment(each) for each in self.result["experiments"]}

    @property
    def claims(self) -> list[dict[str, Any]]:
        """Claims of the paper, with a verdict for each stack."""
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


def read(
    folder: str | os.PathLike[str], *, max_series: int = 4_000_000_000, max_runs: int = 1_000_000
) -> Run | Sweep | Paper:
    """Reads the results in a folder. All numbers are the same, bit for bit, as in the program that wrote them.

    Args:
        folder: The folder.
        max_series: Limit for a series or the table of runs in memory, bytes.
        max_runs: Limit for the planned runs of an unfinished sweep.

    Returns:
        A :class:`Run` for folders of ``roughlink run -o``. Series are read on first use, so the folder must not change
        until then.

        An :class:`Emulation` for folders of :func:`emulate` and ``roughlink emulate -o``.

        A :class:`Sweep` for folders of :func:`sweep`, ``roughlink sweep`` and ``compare``. An unfinished sweep, or
        one part of a sweep (``--part``), has only the finished runs. :attr:`Sweep.planned` is the number of all runs.

        A :class:`Paper` for folders of ``roughlink reproduce``.

    Raises:
        RoughlinkError: The folder has no results, or a file in it is damaged.
        LimitError: A table exceeds `max_series`.
    """
    found = _native.read(folder, whole(max_series, "max_series"), whole(max_runs, "max_runs"))
    if isinstance(found, _native.Run):
        return read_emulation(Path(folder)) if (Path(folder) / "emulation.json").exists() else Run(found)
    text, runs, planned = found
    result = json.loads(text)
    if runs is None:
        return Paper(Path(folder), result)
    return Sweep(Path(folder), result["experiments"][0], Table(runs), planned)
