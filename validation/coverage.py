#!/usr/bin/env python3
"""Coverage of the 95 % intervals: the share of comparisons whose interval contains the true value.

The truth is a comparison with `--truth` replicas. Each trial is the same comparison with another seed and `--replicas`
replicas, as a user would run it. `compare` is the interval that the program prints. The other intervals are computed
here from the same samples: Student's for the paired differences, Welch's for unpaired samples, and Student's for each
mean (`ci95`).
"""

import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import variance

from roughlink_validation import cli

NOISE = 'link.*.noise={ kind = "burst", start = "%s", length = [1, 4] }'
CASES = {
    "10 MB, 0.1 %": ["--set", NOISE % "0.1 %"],
    "1 MB, 0.1 %": ["--set", NOISE % "0.1 %", "--set", "flow.*.bytes=1 MB"],
    "10 MB, 1 %": ["--set", NOISE % "1 %"],
}


def compare(program: Path, case: list[str], replicas: int, seed: int) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "compare", "hello", "--cc", "reno,cubic", "--metric", "throughput_mbps", *case]
        command += ["--replicas", str(replicas), "--seed", str(seed), "--json", "--quiet", "-o", folder]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def welch(a: list[float], b: list[float]) -> float:
    """Returns half the width of Welch's interval, for samples of equal size."""
    va, vb = variance(a) / len(a), variance(b) / len(b)
    if va + vb == 0:
        return 0.0
    freedom = (va + vb) ** 2 / ((va**2 + vb**2) / (len(a) - 1))
    return cli.T95[int(freedom) - 1] * math.sqrt(va + vb)


def main() -> None:
    parser = cli.parser(__doc__)
    parser.add_argument("--replicas", type=int, default=10, help="replicas of each comparison, 2 to 16")
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--truth", type=int, default=4000)
    args = parser.parse_args()
    print(f"{args.trials} comparisons of {args.replicas} replicas each; share of 95 % intervals that contain the truth")
    print(f"{'':14} {'compare':>8} {'Student':>8} {'Welch':>8} {'mean reno':>10} {'mean cubic':>10}")
    for name, case in CASES.items():
        reno, cubic = (cell["measured"] for cell in compare(args.roughlink, case, args.truth, 1_000_000)["cells"])
        hits = dict.fromkeys(("compare", "student", "welch", "reno", "cubic"), 0)
        for seed in range(args.trials):
            result = compare(args.roughlink, case, args.replicas, seed + 1)
            a, b = (cell["samples"] for cell in result["cells"])
            differences = [y - x for x, y in zip(a, b, strict=True)]
            mean, half = cli.mean_ci(differences)
            interval = result["compared"][0]["interval"]
            hits["compare"] += interval is not None and interval[0] <= cubic - reno <= interval[1]
            hits["student"] += abs(mean - (cubic - reno)) <= half
            hits["welch"] += abs(mean - (cubic - reno)) <= welch(a, b)
            for key, cell, truth in zip(("reno", "cubic"), result["cells"], (reno, cubic), strict=True):
                hits[key] += abs(cell["measured"] - truth) <= (cell["ci95"] or 0.0)
        shares = [f"{100 * hit / args.trials:.1f} %" for hit in hits.values()]
        print(f"{name:14} " + " ".join(f"{s:>{w}}" for s, w in zip(shares, (8, 8, 8, 10, 10), strict=True)), flush=True)


if __name__ == "__main__":
    sys.exit(cli.guarded(main))
