"""Result folders that grow in cells or in runs: a finished sweep is repeated, which reads its runs, then reported."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from roughlink_validation.counting import counted_command
from roughlink_validation.simulators import call

WINDOWS = 10


@dataclass(frozen=True)
class FolderAxis:
    """Sweeps of several sizes. `shape` returns the numbers of seeds and of replicas for a size; each seed has
    `WINDOWS` cells. From each size to the next, the cost per element may rise by at most `factor`. `longer` are sizes
    that take too long for CI.
    """

    shape: Callable[[int], tuple[int, int]]
    element: str
    sizes: tuple[int, ...] = (300, 3000)
    longer: tuple[int, ...] = (30_000,)
    factor: float = 1.3


FOLDERS = {
    "cells of a finished sweep": FolderAxis(lambda size: (size // WINDOWS, 1), "cell"),
    "runs of a finished sweep": FolderAxis(lambda size: (1, size // WINDOWS), "run"),
}


def costs(binary: Path, seeds: int, replicas: int, profile: str = "/dev/null") -> tuple[int, int]:
    """Returns the instructions of a sweep whose runs are all finished, and of its report; `profile` is of the first."""
    with tempfile.TemporaryDirectory() as folder:
        numbers = [",".join(str(i + 1) for i in range(count)) for count in (seeds, WINDOWS)]
        sweep = ["sweep", "hello", "--set", "duration=1 ms", "--set", f"seed={numbers[0]}",
                 "--set", f"tcp.initial_window={numbers[1]}", "--replicas", str(replicas), "--quiet", "-o", folder]
        call([str(binary), *sweep])
        repeated, _ = counted_command(binary, sweep, profile)
        reported, _ = counted_command(binary, ["report", folder])
    return repeated, reported
