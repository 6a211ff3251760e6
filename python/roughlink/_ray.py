"""Sweeps on a Ray cluster: chunks of runs are tasks, and the driver keeps their results in its run store.

A worker needs only this package in the same version. The plan that it receives has the text of all files that the
scenarios read.
"""

from __future__ import annotations

import hashlib
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from os import PathLike
from typing import Any
from urllib.parse import urlsplit

from . import _native
from ._scenario import warn

Report = Callable[[int, int, int, int, int], object]


def work(
    plan: _native.Plan,
    folder: str | PathLike[str],
    jobs: int | None,
    max_memory: int | None,
    address: str | None,
    report: Report,
) -> tuple[PathLike[str], str, _native.Table]:
    """Executes the missing runs of a plan on the cluster at `address`. Returns the same as `_native.Plan.work`.

    Raises `RoughlinkError` if the connection to the cluster fails.
    """
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
    try:
        _connect(ray, address)
        yield
    finally:
        ray.shutdown()


def _connect(ray: Any, address: str | None) -> None:
    cluster = "a Ray cluster"
    advice = "start one with `ray start --head`, or give the address of a head node that this machine can reach"
    try:
        found = _resolve(address)
        if found is not None:
            cluster = f"the Ray cluster at `{found.removeprefix('//')}`"
            _probe(found)
        advice = (
            "use the same versions of Ray and Python on all machines, and run this on a node of the cluster or "
            "connect to `ray://HOST:10001`"
        )
        ray.init(address=address, log_to_driver=False)
    except Exception as e:
        why = getattr(e, "strerror", None) or e
        raise _native.RoughlinkError(f"no connection to {cluster}: {why}\nhelp: {advice}") from e


def _resolve(address: str | None) -> str | None:
    """Returns the URL that `ray.init` connects to, ``//HOST:PORT`` or ``ray://HOST:PORT``.

    Returns ``None`` if Ray starts a new cluster on this machine. Raises `ConnectionError` if ``auto`` finds no cluster
    and `ValueError` if the address is invalid.
    """
    if address in (None, "auto"):
        address = os.environ.get("RAY_ADDRESS") or address
    if address is not None and "://" in address:
        return address
    try:
        services: Any = import_module("ray._private.services")
        services.find_gcs_addresses.cache_clear()  # The cluster may have changed; `ray.init` does the same.
        found: str | None = services.canonicalize_bootstrap_address(address)
    except ConnectionError as e:
        raise ConnectionError("none runs on this machine") from e
    except (ImportError, AttributeError):
        return None  # another version of Ray, whose addresses cannot be checked
    return None if found is None else f"//{found}"


def _probe(url: str) -> None:
    """Raises `OSError` if no gRPC server answers at `url`. `ray.init` would try for a quarter of an hour."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port or _CLIENT_PORT), _ANSWER_S) as stream:
        if os.environ.get("RAY_USE_TLS", "").lower() in ("1", "true"):
            return
        # The kernel accepts connections even for a stopped process. Both ends of HTTP/2 begin with SETTINGS
        # (RFC 9113, section 3.4).
        stream.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _SETTINGS)
        if stream.makefile("rb").read(len(_SETTINGS))[3:4] != _SETTINGS[3:4]:
            raise ConnectionError("the server at this port is not Ray")


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
        self.first: Any = None
        """Task that ends as soon as the cluster has a CPU for this sweep."""
        self.waiting_since = time.monotonic()
        self.files = -1
        self.described: Any = None
        self.digest = ""
        self.cost = 0
        self.seconds = 0.0
        self.faults: list[tuple[bool, str]] = []

    def drive(self) -> None:
        """Submits tasks until all runs are in the store. Results that have arrived are kept even after an error."""
        more = True
        try:
            while more or self.under_way:
                cpus = int(self.ray.cluster_resources().get("CPU", 0))
                room = self.jobs or 2 * max(cpus, 1)
                while more and len(self.under_way) < room:
                    more = self.give()
                if self.under_way:
                    self.take(timeout=1.0)
                    self.warn_if_waiting(cpus)
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
        """Submits the next chunk. Returns false if there is none."""
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
        if self.first is None:
            self.first = self.ray.remote(num_cpus=1)(_started).remote()
        # Ray does not resolve a reference inside a list, so a worker fetches the description only once (`_runs`).
        self.under_way[self.task.remote([self.described], self.digest, numbers)] = cost
        return True

    def warn_if_waiting(self, cpus: int) -> None:
        """Warns every minute while none of the cluster's `cpus` is available to this sweep."""
        now = time.monotonic()
        if cpus > 0 and (self.seconds > 0 or self.ray.wait([self.first], timeout=0)[0]):
            self.waiting_since = now
        elif now - self.waiting_since > _WAIT_S:
            self.waiting_since = now
            state = f"all {cpus} CPUs are in use" if cpus else "no node has a CPU"
            warn([
                f"no task has started on the Ray cluster for {_WAIT_S:.0f} s: {state}\n"
                "help: wait for other programs on the cluster, add nodes, or stop with Ctrl-C and repeat the call later"
            ])

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
        for task in [self.first, *self.under_way]:
            if task is not None:
                self.ray.cancel(task, force=True)


def _started() -> None:
    """Does nothing. A task with this function ends as soon as the cluster has a CPU for it."""


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
_ANSWER_S = 15.0
"""Time limit for the head node to accept a connection, and again to answer, s."""
_CLIENT_PORT = 10001
"""Default port of addresses with ``ray://``."""
_WAIT_S = 60.0
"""Time without a CPU after which the driver warns, s."""
_SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""Empty SETTINGS frame of HTTP/2 (RFC 9113, section 6.5)."""
