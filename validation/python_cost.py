#!/usr/bin/env python3
"""Cost of Python compared with the command line.

The script measures the CPU time of 1000 small runs, in one process per variant and in alternating rounds. Then it
measures the time to move 5 million rows of series to Polars. The interpreter needs `roughlink` and `polars`.

    PYTHONPATH=python target/python/bin/python validation/python_cost.py --roughlink target/release/roughlink
"""

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUN = """
import roughlink as rl
s = rl.load("hello").set("duration", "5 s")
for seed in range(RUNS):
    rl.run(s.set("seed", seed))
"""
SWEEP = """
import roughlink as rl
rl.sweep(rl.load("hello").set("duration", "5 s"), {"seed": list(range(RUNS))}, replicas=1, folder="FOLDER", jobs=1)
"""


def cpu(words: list[str], cwd: Path) -> float:
    """Returns the CPU seconds of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, cwd=cwd, check=True, capture_output=True, timeout=3600)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def rows() -> None:
    """Prints the time to turn a table of some five million rows into a Polars frame."""
    import polars as pl
    import roughlink as rl

    s = rl.load("v2g-21-cars").set({"duration": "8000 s", "flow.*.bytes": "unlimited"})
    run = s.run(series=True, sample="0 s")
    table = run.series("flows")
    begin = time.perf_counter()
    frame = pl.DataFrame(table)
    took = time.perf_counter() - begin
    print(f"{len(frame)} rows of {frame.width} columns: {took * 1e3:.1f} ms")


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--roughlink", default="target/release/roughlink")
    p.add_argument("--runs", type=int, default=1000)
    p.add_argument("--rounds", type=int, default=3)
    args = p.parse_args()
    program = str(Path(args.roughlink).resolve())
    seeds = ",".join(map(str, range(args.runs)))
    times: dict[str, list[float]] = {"command": [], "run": [], "sweep": []}
    for _ in range(args.rounds):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            sets = ["--set", "duration=5 s", "--set", f"seed={seeds}", "--replicas", "1", "--jobs", "1"]
            times["command"].append(cpu([program, "sweep", "hello", *sets, "--quiet", "-o", "a"], folder))
            run = RUN.replace("RUNS", str(args.runs))
            sweep = SWEEP.replace("RUNS", str(args.runs)).replace("FOLDER", "b")
            times["run"].append(cpu([sys.executable, "-c", run], folder))
            times["sweep"].append(cpu([sys.executable, "-c", sweep], folder))
    for what in ("run", "sweep"):
        ratios = [a / b for a, b in zip(times[what], times["command"], strict=True)]
        print(
            f"rl.{what} / roughlink sweep, CPU of {args.runs} runs: {statistics.median(ratios):.3f} {min(ratios):.3f} "
            f"to {max(ratios):.3f}"
        )
    rows()


if __name__ == "__main__":
    main()
