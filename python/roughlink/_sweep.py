"""Sweeps: many runs, stored in a folder, with means and intervals."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import index
from pathlib import Path
from typing import Any, SupportsIndex, TextIO

from . import _native
from ._cc import Maker, register, register_absent
from ._experiment import Experiment
from ._run import Run
from ._scenario import Scenario, algorithms, optional, warn, whole
from ._scenario import scenario as scenario_of
from ._table import Column, Table
from ._vary import axes_of


class Sweep(Experiment):
    """Results of a sweep. Sweeps can be pickled."""

    def __init__(self, folder: Path, result: dict[str, Any], runs: Table, planned: int | None = None) -> None:
        super().__init__(result)
        self.folder = folder
        """Result folder. The command line can also read it (``roughlink report FOLDER``) and continue it (``roughlink
        sweep``)."""
        self.runs = runs
        """Table with a row per finished run: varied values, replica, seed, and every metric."""
        # The working directory may change, and another sweep may take the folder.
        self._place, self._identity = folder.absolute(), _native.identity(folder)
        self.planned: int = len(runs) if planned is None else planned
        """Number of planned runs. An unfinished sweep has fewer in `runs`."""

    def _cells(self, metric: str) -> tuple[dict[str, str], list[dict[str, Any]]]:
        if metric in self.metrics:
            return super()._cells(metric)
        # Stored runs have more quantities than the metrics of the sweep.
        self._know_algorithms()
        found = json.loads(_native.measure(self._place, self._identity, metric, max(self.planned, 1)))
        if sum(cell["replicas"] for cell in found["cells"]) != len(self.runs):
            raise _native.RoughlinkError(f"{str(self.folder)!r} has further runs by now: read it again")
        if not any(cell["samples"] or cell.get("at_least") for cell in found["cells"]):
            raise KeyError(f"{metric} was not measured; expected one of {', '.join(self.metrics)}, or a column of runs")
        return found["metrics"][0], found["cells"]

    def scenario(self, row: SupportsIndex) -> Scenario:
        """Returns the scenario of a row of `runs`, with the values of that run. ``runs["replica"][row]`` is its
        replica.

        Raises:
            IndexError: There is no such row.
            RoughlinkError: The folder was removed, or has another sweep.
        """
        return self._stored(row)[0]

    def rerun(
        self, row: SupportsIndex, *, series: bool = True, sample: str = "0 s", max_series: SupportsIndex = 4_000_000_000
    ) -> Run:
        """Simulates the run of a row of `runs` again, with the same result. The new run can have series, which a sweep
        does not keep.

        Args:
            row: Number of the row.
            series: Keep time series.
            sample: Minimum time between rows of the same flow or link direction.
            max_series: Limit for the series, bytes.

        Returns:
            The run, with series if `series` is true.

        Raises:
            IndexError: There is no such row.
            ValueError: A kernel carried the runs, and a simulation would give other results.
            RoughlinkError: The folder was removed, or has another sweep or runs of another version.
        """
        if "kernel" in self.result["stacks"]:
            raise ValueError("the runs were carried by a kernel, so they cannot be simulated again")
        scenario, replica = self._stored(row)
        return scenario.run(replica=replica, series=series, sample=sample, max_series=max_series)

    def series(
        self,
        name: str,
        *,
        sample: str = "0 s",
        rows: Iterable[SupportsIndex] | None = None,
        jobs: SupportsIndex | None = None,
    ) -> Table:
        """Simulates runs again (:meth:`rerun`) and returns one series of all these runs.

        Args:
            name: Name of the series or column, as for :meth:`Run.series`.
            sample: Minimum time between rows of the same flow or link direction.
            rows: Rows of `runs`, by default all.
            jobs: Number of parallel runs, by default the number of processors.

        Returns:
            A table with the series of the runs, one after the other. The first columns are ``row`` (the number of the
            run's row in `runs`), the varied keys and the replica.

        Raises:
            KeyError: No series has this name.
            IndexError: There is no such row.
            ValueError: `rows` is empty, or a kernel carried the runs.
            RoughlinkError: The folder was removed, or has another sweep or runs of another version.
        """
        every = range(len(self.runs))
        chosen = list(every) if rows is None else [every[index(row)] for row in rows]
        keys = [column for column in self.runs.columns if column.name in {*self._axes(), "replica"}]

        def one(row: int) -> Table:
            return self.rerun(row, sample=sample).series(name)

        self._know_algorithms()  # threads must not register the same name at once
        with ThreadPoolExecutor(optional(jobs, "jobs") or os.cpu_count() or 1) as pool:
            tables = list(pool.map(one, chosen))
        if not tables:
            raise ValueError("no rows were chosen")
        labels = [Column("row", "int", "", "number of the row in `runs`"), *keys]
        values: list[list[Any]] = [[] for _ in (*labels, *tables[0])]
        for row, table in zip(chosen, tables, strict=True):
            at = [row, *(self.runs[row][key.name] for key in keys)]
            for column, value in zip(values, at):
                column.extend([value] * len(table))
            for column, name_of in zip(values[len(labels) :], table):
                column.extend(table[name_of])
        headings = [*labels, *tables[0].columns]
        return Table.of([(h.name, h.type, h.unit, h.meaning, v) for h, v in zip(headings, values, strict=True)])

    def _axes(self) -> set[str]:
        names = [axis["name"] for axis in self.result["axes"]]
        return {*names, *(f"axis.{name}" for name in names)}

    def _know_algorithms(self) -> None:
        """Makes the names of Python classes known that this process has not registered: only a run needs the class."""
        known = {each["name"] for each in algorithms()}
        for axis in self.result["axes"]:
            keys = _native.split_list(axis["name"])
            for value in axis["values"]:
                for key, word in zip(keys, value["value"].split(", ")):
                    if key.split(".")[-1] == "cc" and "{" not in word and word not in known:
                        register_absent(word)

    def _stored(self, row: SupportsIndex) -> tuple[Scenario, int]:
        at = self.runs[row]
        names = {axis["name"]: axis["name"] for axis in self.result["axes"]}
        names.update({name: f"axis.{name}" for name in names if f"axis.{name}" in at})
        values = {name: at[column] for name, column in names.items()}
        self._know_algorithms()
        found = _native.stored_run(self._place, self._identity, values, at["replica"], max(self.planned, 1))
        if found is None:
            raise _native.RoughlinkError(f"{str(self.folder)!r} does not describe its runs: begin the sweep again")
        return Scenario(found), at["replica"]

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
    vary: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *,
    replicas: SupportsIndex = 3,
    metrics: str | Sequence[str] = (),
    seed: SupportsIndex | None = None,
    folder: str | os.PathLike[str] | None = None,
    jobs: SupportsIndex | None = None,
    progress: bool | None = None,
    max_memory: SupportsIndex | None = None,
    max_runs: SupportsIndex = 1_000_000,
    engine: str = "local",
    ray_address: str | None = None,
    stack: str | None = None,
    part: str | None = None,
    cc: Mapping[str, tuple[Maker, str]] | None = None,
) -> Sweep:
    """Runs a scenario for all combinations of the given values, on all cores. Runs with a result in the folder are not
    repeated. The folder has the same format as one of ``roughlink sweep``: the command line can continue a sweep that
    this function began, and vice versa.

    Args:
        what: The scenario, in any form that :func:`scenario` accepts.
        vary: Values of each key: ``{"tcp.cc": ["cubic", "bbr"]}``. A single value applies to all runs. Keys
            separated by commas vary together: ``{"link.plc.rate,link.plc.queue": [["5 Mbit/s", "50 pkt"], ["10 Mbit/s",
            "100 pkt"]]}``. A function computes the value from the values of other keys: ``{"link.plc.rate":
            ["5 Mbit/s", "10 Mbit/s"], "link.plc.queue": lambda at: f"{round(rl.quantity(at['link.plc.rate']) / 1e5)}
            pkt"}``. Or a list with the values of all keys for each combination: ``[{"tcp.cc": "cubic", "seed": 1},
            {"tcp.cc": "bbr", "seed": 2}]``.
        replicas: Runs of each combination, each with different random numbers.
        metrics: Names of metrics (``roughlink metric list``), by default the usual ones for the flows.
        seed: Seed of all random streams, instead of the scenario's.
        folder: Result folder. By default a folder below ``results``: the one that already has this sweep, or a new one.
            The folder may have an earlier sweep of the same scenario and keys with other values, metrics or replicas.
            The runs of that sweep are reused.
        jobs: Number of parallel runs, by default the number of processors. On Ray, number of tasks in progress, by
            default twice the number of CPUs of the cluster.
        progress: Show progress on standard error: one line on terminals and in notebooks, elsewhere (a log) a line
            every minute. Shown by default.
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
        part: Execute only a part of the runs: ``"3/20"`` is the third of twenty and has every twentieth run. The result
            has only the runs of this part. :func:`merge` combines the folders of all parts
            (``docs/how-to/job-arrays.md``).
        cc: Algorithms that are Python classes, with a version: ``cc={"mine": (Mine, "v3")}``, then ``vary={"tcp.cc":
            ["mine", "cubic"]}``. In the results, the name has the version: ``mine-v3``. Runs with the same version are
            reused, so change the version whenever you change the class. Python executes one such run at a time.

    Returns:
        The results, also of runs that were in the folder before.

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
    if ray_address is not None and engine != "ray":
        raise ValueError("ray_address needs engine='ray'")
    if stack is not None and engine == "ray":
        raise ValueError("stack='kernel' needs this machine's kernel, but engine='ray' runs on other machines")
    if part is not None and engine == "ray":
        raise ValueError("part needs engine='local': Ray divides the runs itself")
    if cc and (engine == "ray" or stack is not None):
        raise ValueError("cc needs engine='local' and a simulated stack: a class exists only in this process")
    own = _registered(cc)
    given = scenario_of(what)
    names = {name: full for name, (full, _) in own.items()}
    varied = [axis.texts() for axis in axes_of(given, vary, whole(max_runs, "max_runs"), names)]
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
    name += "" if part is None else f"-part-{part.replace('/', '-of-')}"
    kept = plan.folder(Path("results") / name) if folder is None else folder
    shown = _Progress(progress is not False)
    threads = optional(jobs, "jobs") or os.cpu_count() or 1
    try:
        if engine == "ray":
            from . import _ray

            path, text, runs = _ray.work(plan, kept, optional(jobs, "jobs"), most, ray_address, shown.report)
        else:
            path, text, runs = plan.work(kept, threads, most, shown.report, part, list(own.values()))
    finally:
        shown.end()
    if shown.repeated:
        warn([f"{shown.repeated} runs repeated: the emulated link fell behind real time"])
    return Sweep(Path(path), json.loads(text), Table(runs), len(plan))


def merge(
    folders: Iterable[str | os.PathLike[str]],
    folder: str | os.PathLike[str],
    *,
    max_runs: SupportsIndex = 1_000_000,
    cc: Mapping[str, tuple[Maker, str]] | None = None,
) -> Sweep:
    """Merges the parts of a sweep (``part`` of :func:`sweep`, ``roughlink sweep --part``), like ``roughlink merge``.

    Args:
        folders: The folders of the parts.
        folder: Result folder of the whole sweep. If it has the same sweep, the missing runs are added.
        max_runs: Limit for the number of runs of the whole sweep.
        cc: The argument `cc` of the sweep, if it had one. The command line cannot merge such parts.

    Returns:
        The whole sweep.

    Raises:
        RoughlinkError: Runs are missing, the parts are of different sweeps or versions, two parts have different
            results for the same run, or a folder cannot be read or written.
    """
    _registered(cc)
    path, text, runs = _native.merge([os.fspath(each) for each in folders], folder, whole(max_runs, "max_runs"))
    return Sweep(Path(path), json.loads(text), Table(runs))


def _registered(cc: Mapping[str, tuple[Maker, str]] | None) -> dict[str, tuple[str, Maker]]:
    """Registers algorithms under their names with versions. Returns the new name and the class of each algorithm."""
    found: dict[str, tuple[str, Maker]] = {}
    for name, pair in (cc or {}).items():
        if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[1], str):
            raise TypeError(f"expected a class and a version for {name!r}, such as (Mine, 'v1'), not {pair!r}")
        full = f"{name}-{pair[1]}"
        if any(full == other for other, _ in found.values()):
            raise ValueError(f"two algorithms have the name {full!r} with their versions")
        register(full, pair[0])
        found[name] = (full, pair[0])
    return found


class _Progress:
    """Progress line on standard error, if shown, and the number of repeated runs."""

    def __init__(self, show: bool) -> None:
        stream: TextIO | None = sys.stderr
        self.show = show and stream is not None
        # On a terminal and in a notebook a line is replaced at most five times a second; a log gets a line a minute.
        self.replaces = "ipykernel" in sys.modules or (show and stream is not None and stream.isatty())
        self.pause = 0.2 if self.replaces else 60.0
        self.begin = self.last = time.monotonic()
        self.said = ""
        self.repeated = 0

    def report(self, runs: int, done: int, kept: int, cost: int, spent: int, repeated: int = 0) -> None:
        self.repeated = repeated
        now = time.monotonic()
        is_end = done == runs and self.replaces
        if not self.show or (now < self.last + self.pause and not is_end):
            return
        self.last = now
        share = spent / cost if cost else 1.0
        left = (now - self.begin) * (1 - share) / share if share else None
        said = f"{done} of {runs} runs" + (f" ({kept} reused)" if kept else "")
        said += "" if left is None or done == runs else f", {left:.0f} s left"
        begin, end = ("\r", "") if self.replaces else ("", "\n")
        print(begin + said.ljust(len(self.said) if self.replaces else 0), end=end, file=sys.stderr, flush=True)
        self.said = said

    def end(self) -> None:
        if self.said and self.replaces:
            print(file=sys.stderr)
