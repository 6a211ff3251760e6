"""Sweeps: many runs, stored in a folder, with means and intervals."""

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
    """Results of a sweep. Sweeps can be pickled."""

    def __init__(self, folder: Path, result: dict[str, Any], runs: Table, planned: int | None = None) -> None:
        super().__init__(result)
        self.folder = folder
        """Result folder. The command line can also read it (``roughlink report FOLDER``) and continue it (``roughlink
        sweep``)."""
        self.runs = runs
        """Table with a row per finished run: varied values, replica, seed, and every metric."""
        self.planned = len(runs) if planned is None else planned
        """Number of planned runs. An unfinished sweep has fewer in `runs`."""

    def unit(self, key: str) -> str | None:
        """Returns the common unit of a key's values, which is empty for plain numbers. Returns ``None`` if values are
        not numbers or their units differ."""
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
        """Plots means with their 95 % intervals, one line per combination of the other keys. Needs matplotlib.

        Args:
            metric: Name of the metric, by default the main one.
            x: Key of the x axis, one of the keys of the rows. By default the key with the most values; keys with
                numbers take precedence.
            by: Keys of the rows, as for :meth:`summary`.
            axes: Axes to draw on; new ones by default.

        Returns:
            The axes.

        Raises:
            KeyError: The metric was not measured, a key of `by` was not varied, or `x` is not a key of the rows.
            ValueError: Nothing was varied.
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
    stack: str | None = None,
) -> Sweep:
    """Runs a scenario for all combinations of the given values, on all cores. Runs with a result in the folder are not
    repeated. The folder has the same format as one of ``roughlink sweep``: the command line can continue a sweep that
    this function began, and vice versa.

    Args:
        what: The scenario, in any form that :func:`scenario` accepts.
        vary: Values of each key: ``{"tcp.cc": ["cubic", "bbr"]}``. A single value applies to all runs.
        replicas: Runs of each combination, each with different random numbers.
        metrics: Names of metrics (``roughlink metric list``), by default the usual ones for the flows.
        seed: Seed of all random streams, instead of the scenario's.
        folder: Result folder. By default a folder below ``results``: the one that already has this sweep, or a new one.
            If the folder has the same sweep with fewer replicas, the missing replicas are added.
        jobs: Number of parallel runs, by default the number of processors. On Ray, number of tasks in progress, by
            default twice the number of CPUs of the cluster.
        progress: Show progress on standard error; by default only on terminals and in notebooks.
        max_memory: Limit for the packets and segment records of a run, bytes; 256 MB by default.
        max_runs: Limit for the number of runs. A larger sweep raises an error.
        engine: ``"local"``, or ``"ray"`` for a Ray cluster (``pip install ray``). On Ray the runs execute on the
            cluster, with the same results, and the folder is on this machine. Workers need this package in the same
            version. Files that the scenario reads are sent to them. Tasks of a lost node are repeated.
        ray_address: Address of the cluster, as for ``ray.init``, if the program is not already connected to one.
        stack: ``"kernel"`` runs all transfers over the TCP of this machine's kernel, in real time over emulated links
            (``docs/how-to/experiments.md``). Needs Linux, root and a build with the feature ``kernel``. A run whose
            link was late is repeated, up to three times, and a warning gives the number of repeated runs. By default
            all runs are simulated, on the stack of the key ``tcp.stack``.

    Raises:
        ScenarioError: One of the scenarios is invalid.
        ValueError: A key has no values or the same value twice, or a number is out of range.
        KeyboardInterrupt: Ctrl-C was pressed. Repeat the call to execute the remaining runs.
        RoughlinkError: The folder has other results, or cannot be written. With ``stack="kernel"``: this build or
            this machine lacks a requirement, or a transfer needs a setting that the kernel does not have.
    """
    if engine not in ("local", "ray"):
        raise ValueError(f"unknown engine {engine!r}; expected 'local' or 'ray'")
    if stack not in (None, "kernel"):
        raise ValueError(f"unknown stack {stack!r}; expected 'kernel', or set tcp.stack for a simulated stack")
    if stack is not None and engine == "ray":
        raise ValueError("stack='kernel' needs this machine's kernel, but engine='ray' runs on other machines")
    given = scenario_of(what)
    varied = [(key, _values(key, values)) for key, values in vary.items()]
    measured = [metrics] if isinstance(metrics, str) else list(metrics)
    most = optional(max_memory, "max_memory")
    replicas = whole(replicas, "replicas", 2**32 - 1)
    plan = _native.sweep(
        given._native,
        varied,
        replicas,
        optional(seed, "seed"),
        measured,
        whole(max_runs, "max_runs"),
        on_kernel=stack == "kernel",
    )
    warn(plan.warnings)
    name = "sweep-" + "".join(c if c.isalnum() else "-" for c in given.name.lower()).strip("-")
    kept = plan.folder(Path("results") / name) if folder is None else folder
    shown = _Progress(_is_watched() if progress is None else progress)
    threads = optional(jobs, "jobs") or os.cpu_count() or 1
    try:
        if engine == "ray":
            from . import _ray

            path, text, runs = _ray.work(plan, kept, jobs, most, ray_address, shown.report)
        else:
            path, text, runs = plan.work(kept, threads, most, shown.report)
    finally:
        shown.end()
    if shown.repeated:
        warn([f"{shown.repeated} runs repeated: the emulated link fell behind real time"])
    return Sweep(Path(path), json.loads(text), Table(runs))


class _Progress:
    """Progress line on standard error, if shown, and the number of repeated runs."""

    def __init__(self, show: bool) -> None:
        self.show = show
        self.begin = time.monotonic()
        self.said = ""
        self.repeated = 0

    def report(self, runs: int, done: int, kept: int, cost: int, spent: int, repeated: int = 0) -> None:
        self.repeated = repeated
        if not self.show:
            return
        share = spent / cost if cost else 1.0
        left = (time.monotonic() - self.begin) * (1 - share) / share if share else None
        said = f"{done} of {runs} runs" + (f" ({kept} reused)" if kept else "")
        said += "" if left is None or done == runs else f", {left:.0f} s left"
        print("\r" + said.ljust(len(self.said)), end="", file=sys.stderr, flush=True)
        self.said = said

    def end(self) -> None:
        if self.said:
            print(file=sys.stderr)


def _is_watched() -> bool:
    """Returns true if progress is visible at once: on a terminal or in a notebook."""
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
