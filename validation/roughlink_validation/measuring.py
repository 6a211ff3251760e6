"""Measurement of many cells of the matrix with the kernel, several in parallel, with results appended to the table."""

import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from roughlink_validation import kernel, matrix
from roughlink_validation.matrix import Cell
from roughlink_validation.simulators import Failed, Missing, run_cell

# Maximum repetitions of a run whose link was late.
TRIES = 4


@dataclass
class Room:
    """Limit of the total rate of parallel runs. A run above this limit runs alone."""

    load: float
    jobs: int
    used: float = 0.0
    running: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)

    def enter(self, load: float) -> None:
        with self.changed:
            self.changed.wait_for(
                lambda: self.running == 0 or (self.running < self.jobs and self.used + load <= self.load)
            )
            self.used += load
            self.running += 1

    def leave(self, load: float) -> None:
        with self.changed:
            self.used -= load
            self.running -= 1
            self.changed.notify_all()


def measure_each(
    todo: list, jobs: int, tries: int, run: Callable[[Any], Any], keep: Callable[[Any, Any], None]
) -> None:
    """Calls `run` with each of `todo`, `jobs` at a time, and `keep` with it and its result, one at a time.

    A run whose link was late is repeated, at most `tries` times altogether.
    """
    lock, failed = threading.Lock(), []

    def one(item: Any) -> None:
        for _ in range(tries):
            try:
                result = run(item)
            except kernel.LateLink:
                print(f"late: {item}", file=sys.stderr, flush=True)
                continue
            with lock:
                keep(item, result)
            return
        failed.append(item)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, todo))
    if failed:
        raise Failed(f"{len(failed)} runs were late {tries} times; repeat the command")


def measure(
    roughlink: Path,
    table: Path,
    cells: list[Cell],
    seeds: int,
    load: float,
    jobs: int,
    names: Mapping[str, str] | None = None,
) -> None:
    """Measures the runs missing from the table: first one run of each cell, then the other seeds.

    `names` maps algorithms to different names in the kernel.
    """
    have = {(row.cell, row.seed) for row in matrix.read(table)}
    wanted = [(cell, seed) for seed in range(1, seeds + 1) for cell in cells if seed == 1 or cell.random]
    todo = [run for run in wanted if run not in have]
    expected = {run: run_cell(roughlink, *run).goodput_mbps for run in todo}
    room, lock, threads = Room(load, jobs), threading.Lock(), []
    done, late, failed, stopped = 0, 0, [], threading.Event()
    began = time.monotonic()

    def one(cell: Cell, seed: int) -> None:
        nonlocal done, late
        try:
            for attempt in range(TRIES):
                if stopped.is_set():
                    return
                try:
                    row, _ = kernel.measure(roughlink, cell, seed, (names or {}).get(cell.cc))
                    break
                except kernel.LateLink:
                    with lock:
                        late += 1
            else:
                failed.append(f"{cell}, seed {seed}: late {TRIES} times")
                return
            with lock:
                matrix.append(table, row)
                done += 1
                print(
                    f"{done}/{len(todo)} {time.monotonic() - began:.0f} s, {late} late: {cell}, seed {seed}: "
                    f"{row.outcome.goodput_mbps:.2f} Mbit/s, expected {expected[cell, seed]:.2f}",
                    file=sys.stderr,
                    flush=True,
                )
        except (Failed, Missing, OSError) as wrong:
            failed.append(f"{cell}, seed {seed}: {wrong}")
            stopped.set()
        finally:
            room.leave(expected[cell, seed])

    try:
        for run in todo:
            room.enter(expected[run])
            if stopped.is_set():
                room.leave(expected[run])
                break
            threads.append(threading.Thread(target=one, args=run))
            threads[-1].start()
    finally:
        stopped.set() if sys.exc_info()[0] else None
        for thread in threads:
            thread.join()
    print(f"{done} runs added to {table.name}; {late} discarded because the link was late")
    for line in failed:
        print(line, file=sys.stderr)
    if failed:
        raise Failed(f"{len(failed)} runs are missing; repeat the command")
