"""Sweeps on a Ray cluster: chunks of runs are tasks, and what they give is kept in the one run store of the driver.

A worker needs this package in the same version and nothing else: the plan goes to it with the texts of all files that the scenarios read.
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
    """Does the runs of a plan that the folder lacks on the cluster at `address`, and gives what :meth:`_native.Plan.work` gives."""
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
    """Connected to a cluster; to the one that the program uses already, if it does."""
    if ray.is_initialized():
        yield
        return
    ray.init(address=address, log_to_driver=False)
    try:
        yield
    finally:
        ray.shutdown()


class _Driver:
    """What is under way on the cluster."""

    def __init__(self, ray: Any, todo: _native.Work, jobs: int | None, report: Report) -> None:
        self.ray = ray
        self.todo = todo
        self.jobs = jobs
        self.report = report
        self.task = ray.remote(num_cpus=1, max_retries=_RETRIES)(_runs)
        self.under_way: dict[Any, int] = {}
        """The cost of each task that was given out."""
        self.files = -1
        self.described: Any = None
        self.digest = ""
        self.cost = 0
        self.seconds = 0.0
        self.faults: list[tuple[bool, str]] = []

    def drive(self) -> None:
        """Until all runs are in the store. What has arrived is there, however it ends."""
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
            # As on one machine: a run that fails does not end the others.
            ours, text = sorted(self.faults, key=lambda fault: not fault[0])[0]
            others = len(self.faults) - 1
            text += f"\nSo have {others} other runs." if others else ""
            raise (_native.Fault if ours else _native.LimitError)(text)

    def give(self) -> bool:
        """Gives out the next chunk; whether there was one."""
        # The first are of one run each: then it is known how long a run takes.
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
        # In a list, it is not fetched for a task whose process has it already.
        self.under_way[self.task.remote([self.described], self.digest, numbers)] = cost
        return True

    def take(self, timeout: float) -> None:
        """Keeps what has arrived; waits so long if nothing has, s."""
        all_tasks = list(self.under_way)
        if not self.ray.wait(all_tasks, num_returns=1, timeout=timeout)[0]:
            return
        for task in self.ray.wait(all_tasks, num_returns=len(all_tasks), timeout=0)[0]:
            try:
                lines, faults, seconds = self.ray.get(task, timeout=_FETCH_S)
            except self.ray.exceptions.GetTimeoutError:
                continue  # its node was lost, and it is done again
            except self.ray.exceptions.RayTaskError as e:
                if isinstance(e.cause, _native.RoughlinkError):
                    raise e.cause from None
                raise _native.RoughlinkError(
                    f"a worker failed: {e.cause or e}\nIt needs Python with roughlink {_native.__version__}: pip install it on every node, "
                    "or name it in the runtime_env of ray.init"
                ) from e
            except self.ray.exceptions.RayError as e:
                raise _native.RoughlinkError(
                    f"a task was lost {_RETRIES + 1} times: {e}\nWhat was finished is kept: the same call goes on from there."
                ) from e
            self.todo.keep(lines)
            # From here on it is in the store; before, it is still fetched if Ctrl-C comes.
            self.cost += self.under_way.pop(task)
            self.seconds += seconds
            self.faults += faults

    def end(self) -> None:
        """Keeps what has arrived and gives up the rest."""
        try:
            if self.under_way:
                self.take(timeout=0)
        except Exception:
            pass  # what ended it is raised instead
        for task in self.under_way:
            self.ray.cancel(task, force=True)


_shares: dict[str, _native.Share] = {}


def _runs(described: list[Any], digest: str, numbers: list[int]) -> tuple[bytes, list[tuple[bool, str]], float]:
    """The task: does these runs of a plan. Gives lines of the run store, what failed, and how long it took, s."""
    share = _shares.get(digest)
    if share is None:
        _shares.clear()
        share = _shares[digest] = _native.Share(import_module("ray").get(described[0]))
    begin = time.perf_counter()
    lines, faults = share.work(numbers)
    return lines, faults, time.perf_counter() - begin


_CHUNK_S = 2.0
"""How long a task is to take: long beside what Ray needs for one, short beside what a lost node costs."""
_MOST_RUNS = 1000
_RETRIES = 10
_FETCH_S = 10.0
