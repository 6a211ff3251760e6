"""Sweeps on a Ray cluster: chunks of runs are tasks, and the driver keeps their results in its run store.

A worker needs only this package in the same version. The plan that it receives has the text of all files that the
scenarios read.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from os import PathLike
from typing import Any

from . import _native

Report = Callable[[int, int, int, int, int], object]


def work(
    plan: _native.Plan,
    folder: str | PathLike[str],
    jobs: int | None,
    max_memory: int | None,
    address: str | None,
    report: Report,
) -> tuple[PathLike[str], str, _native.Table]:
    """Executes the missing runs of a plan on the cluster at `address`. Returns the same as `_native.Plan.work`."""
    try:
        ray: Any = import_module("ray")
    except ImportError as e:
        raise ImportError("engine='ray' needs Ray: pip install ray") from e
    todo = _native.Work(plan, folder, max_memory)
    try:
        with _cluster(ray, address):
            _Driver(ray, todo, jobs, report).drive()
        return todo.finish()
    finally:
        todo.close()


@contextmanager
def _cluster(ray: Any, address: str | None) -> Iterator[None]:
    """Connects to a cluster for the duration of the context, or uses a connection that the program already has."""
    if ray.is_initialized():
        yield
        return
    ray.init(address=address, log_to_driver=False)
    try:
        yield
    finally:
        ray.shutdown()


class _Driver:
    """Tasks in progress on the cluster."""

    def __init__(self, ray: Any, todo: _native.Work, jobs: int | None, report: Report) -> None:
        self.ray = ray
        self.todo = todo
        self.jobs = jobs
        self.report = report
        self.task = ray.remote(num_cpus=1, max_retries=_RETRIES)(_runs)
        self.under_way: dict[Any, int] = {}
        """Cost of each task in progress."""
        self.files = -1
        self.described: Any = None
        self.digest = ""
        self.cost = 0
        self.seconds = 0.0
        self.faults: list[tuple[bool, str]] = []

    def drive(self) -> None:
        """Works until all runs are in the store. Results that have arrived are kept even after an error."""
        more = True
        try:
            while more or self.under_way:
                room = self.jobs or 2 * max(int(self.ray.cluster_resources().get("CPU", 0)), 1)
                while more and len(self.under_way) < room:
                    more = self.give()
                if self.under_way:
                    self.take(timeout=1.0)
                self.report(*self.todo.progress())
        except BaseException:
            self.end()
            raise
        if self.faults:
            # As on one machine, the other runs continue after a failed one, and the error is raised at the end.
            ours, text = sorted(self.faults, key=lambda fault: not fault[0])[0]
            others = len(self.faults) - 1
            text += f"\n{others} other runs also failed" if others else ""
            raise (_native.Fault if ours else _native.LimitError)(text)

    def give(self) -> bool:
        """Submits the next chunk. Returns false if there was none."""
        # The first chunks have one run each and show how long a run takes.
        budget = int(self.cost / self.seconds * _CHUNK_S) if self.seconds > 0 else 1
        chunk = self.todo.chunk(max(budget, 1), _MOST_RUNS)
        if chunk is None:
            return False
        numbers, cost = chunk
        if self.todo.files != self.files:
            self.files = self.todo.files
            description = self.todo.description()
            self.digest = hashlib.sha256(description).hexdigest()
            self.described = self.ray.put(description)
        # Ray does not resolve a reference inside a list, so a worker fetches the description only once (`_runs`).
        self.under_way[self.task.remote([self.described], self.digest, numbers)] = cost
        return True

    def take(self, timeout: float) -> None:
        """Keeps the results that have arrived; waits up to `timeout` s for the first."""
        all_tasks = list(self.under_way)
        if not self.ray.wait(all_tasks, num_returns=1, timeout=timeout)[0]:
            return
        for task in self.ray.wait(all_tasks, num_returns=len(all_tasks), timeout=0)[0]:
            try:
                lines, faults, seconds = self.ray.get(task, timeout=_FETCH_S)
            except self.ray.exceptions.GetTimeoutError:
                continue  # The task's node was lost; Ray repeats the task.
            except self.ray.exceptions.RayTaskError as e:
                if isinstance(e.cause, _native.RoughlinkError):
                    raise e.cause from None
                raise _native.RoughlinkError(
                    f"a worker failed: {e.cause or e}\n"
                    f"help: install roughlink {_native.__version__} with pip on every node, or name it in the "
                    "runtime_env of ray.init"
                ) from e
            except self.ray.exceptions.RayError as e:
                raise _native.RoughlinkError(
                    f"a task was lost {_RETRIES + 1} times: {e}\n"
                    "help: repeat the call; finished runs are kept"
                ) from e
            self.todo.keep(lines)
            # Remove the task only after its results are in the store, in case of Ctrl-C.
            self.cost += self.under_way.pop(task)
            self.seconds += seconds
            self.faults += faults

    def end(self) -> None:
        """Keeps the results that have arrived and cancels the other tasks."""
        try:
            if self.under_way:
                self.take(timeout=0)
        except Exception:
            pass  # The caller raises the original error.
        for task in self.under_way:
            self.ray.cancel(task, force=True)


_shares: dict[str, _native.Share] = {}


def _runs(described: list[Any], digest: str, numbers: list[int]) -> tuple[bytes, list[tuple[bool, str]], float]:
    """Executes runs of a plan in a task. Returns lines of the run store, failures, and the time taken, s."""
    share = _shares.get(digest)
    if share is None:
        _shares.clear()
        share = _shares[digest] = _native.Share(import_module("ray").get(described[0]))
    begin = time.perf_counter()
    lines, faults = share.work(numbers)
    return lines, faults, time.perf_counter() - begin


_CHUNK_S = 2.0
"""Target duration of a task, s: long enough that Ray's overhead is small, short enough that a lost node costs
little."""
_MOST_RUNS = 1000
_RETRIES = 10
_FETCH_S = 10.0
