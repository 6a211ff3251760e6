"""Sweeps: many runs, kept in a folder, with means and intervals."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from . import _native
from ._experiment import Experiment
from ._scenario import Scenario, Value, optional, text_of, warn, whole
from ._scenario import scenario as scenario_of
from ._table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Sweep(Experiment):
    """The results of a sweep. They can be pickled."""

    def __init__(self, folder: Path, result: dict[str, Any], runs: Table, planned: int | None = None) -> None:
        super().__init__(result)
        self.folder = folder
        """The result folder, which the command line reads and continues, too: ``roughlink report FOLDER``."""
        self.runs = runs
        """A row for each run that is finished: what was varied, replica, seed, and every metric."""
        self.planned = len(runs) if planned is None else planned
        """How many runs it has once it is finished."""

    def unit(self, key: str) -> str | None:
        """The unit that all values of a key have, empty if they are plain numbers; ``None`` if they are no numbers or differ in it."""
        names = {f"{key}.number", f"axis.{key}.number"}
        return next((column.unit for column in self.runs.columns if column.name in names), None)

    def plot(
        self,
        metric: str | None = None,
        *,
        x: str | None = None,
        by: str | Sequence[str] | None = None,
        axes: Axes | None = None,
    ) -> Axes:
        """Draws means with their 95 % intervals, a line for each combination of the other keys. It needs matplotlib.

        Args:
            metric: its name; the main one if none is given.
            x: the key along the x axis; of those that make rows, the one with the most values that are numbers, if none is given.
            by: as for :meth:`summary`.
            axes: where to draw; new ones if none are given.

        Returns:
            The axes.

        Raises:
            KeyError: as for :meth:`summary`, or `x` does not make rows.
            ValueError: nothing was varied.
        """
        from ._plot import means

        return means(self, metric or self.metrics[0], x, by, axes)

    def __repr__(self) -> str:
        return f"<roughlink.Sweep of {self._counted()} in {str(self.folder)!r}>"

    def _repr_html_(self) -> str:
        unfinished = f"<p>{self._counted()}</p>" if len(self.runs) < self.planned else ""
        return unfinished + super()._repr_html_()

    def _counted(self) -> str:
        done = len(self.runs)
        return f"{done} runs" if done == self.planned else f"{done} of {self.planned} runs"


def sweep(
    what: Scenario | str | os.PathLike[str] | Mapping[str, Any],
    vary: Mapping[str, Value | Iterable[Value]],
    *,
    replicas: int = 3,
    metrics: str | Sequence[str] = (),
    seed: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    progress: bool | None = None,
    max_memory: int | None = None,
    max_runs: int = 1_000_000,
    engine: str = "local",
    ray_address: str | None = None,
) -> Sweep:
    """Runs a scenario over the product of the values of keys, on all cores: ``roughlink sweep``, with its run store, so that either goes on
    with what the other began. A run whose result the folder has is not repeated.

    Args:
        what: the scenario, or what :func:`scenario` makes one of.
        vary: for each key its values: ``{"tcp.cc": ["cubic", "bbr"]}``; a single one is fixed.
        replicas: runs of each combination, with other random numbers.
        metrics: names of what is measured (``roughlink metric list``); if none are given, what is usual for the flows.
        seed: of all random streams, instead of the scenario's.
        folder: where results are kept; one below ``results`` that is free or has those of the same sweep, if none is given. To a folder
            that has the same sweep with fewer replicas, those that are missing are added.
        jobs: runs at a time; as many as there are processors, if no number is given. On Ray, tasks at a time.
        progress: show progress on standard error; if it is not said, at a terminal and in notebooks.
        max_memory: bytes that packets and records of a run may take; 256 MB if none is given.
        max_runs: a sweep of more runs is refused.
        engine: ``"local"``, or ``"ray"`` for a Ray cluster (``pip install ray``): the folder is here, the runs are done there, with the same
            results. Workers need this package in the same version; files that the scenario reads go with it. Tasks whose node is lost
            are done again.
        ray_address: of the cluster, as ``ray.init`` takes it, if the program is not connected to one.

    Raises:
        ScenarioError: one of the scenarios is wrong.
        ValueError: a key has no values, or one twice; or a number is out of its range.
        KeyboardInterrupt: Ctrl-C was pressed; the same call goes on from what was finished.
        RoughlinkError: the folder has other results, or cannot be written.
    """
    if engine not in ("local", "ray"):
        raise ValueError(f"engine={engine!r}: there are \"local\" and \"ray\"")
    given = scenario_of(what)
    varied = [(key, _values(key, values)) for key, values in vary.items()]
    measured = [metrics] if isinstance(metrics, str) else list(metrics)
    most = optional(max_memory, "max_memory")
    replicas = whole(replicas, "replicas", 2**32 - 1)
    plan = _native.sweep(given._native, varied, replicas, optional(seed, "seed"), measured, whole(max_runs, "max_runs"))
    warn(plan.warnings)
    name = "sweep-" + "".join(c if c.isalnum() else "-" for c in given.name.lower()).strip("-")
    kept = plan.folder(Path("results") / name) if folder is None else folder
    show = _is_watched() if progress is None else progress
    shown = _Progress() if show else None
    threads = optional(jobs, "jobs") or os.cpu_count() or 1
    try:
        report = shown.report if shown else _silent
        if engine == "ray":
            from . import _ray

            path, text, runs = _ray.work(plan, kept, jobs, most, ray_address, report)
        else:
            path, text, runs = plan.work(kept, threads, most, report)
    finally:
        if shown:
            shown.end()
    return Sweep(Path(path), json.loads(text), Table(runs))


class _Progress:
    """A line on standard error."""

    def __init__(self) -> None:
        self.begin = time.monotonic()
        self.said = ""

    def report(self, runs: int, done: int, kept: int, cost: int, spent: int) -> None:
        share = spent / cost if cost else 1.0
        left = (time.monotonic() - self.begin) * (1 - share) / share if share else None
        said = f"{done} of {runs} runs" + (f", {kept} of them before" if kept else "")
        said += "" if left is None or done == runs else f", {left:.0f} s left"
        print("\r" + said.ljust(len(self.said)), end="", file=sys.stderr, flush=True)
        self.said = said

    def end(self) -> None:
        if self.said:
            print(file=sys.stderr)


def _silent(runs: int, done: int, kept: int, cost: int, spent: int) -> None:
    """Shows nothing."""


def _is_watched() -> bool:
    """Whether somebody reads standard error as it is written: at a terminal, or in a notebook."""
    return "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())


def _values(key: str, values: Any) -> list[str]:
    if hasattr(values, "tolist"):
        values = values.tolist()
    if isinstance(values, (str, Mapping)) or not isinstance(values, Iterable):
        return [text_of(cast(Value, values), key)]
    found = [text_of(value, key) for value in values]
    if not found:
        raise ValueError(f"{key} has no values")
    twice = {value for value in found if found.count(value) > 1}
    if twice:
        raise ValueError(f"{key} has a value twice: {', '.join(sorted(twice))}")
    return found
