#!/usr/bin/env python3
"""Calibration: the loss in each class of Circle line stations, fitted to the AVOCA paper's volumes of its "TCP".

The paper measured the channel in each station and does not publish it. Rate and delay are known from its table 4; the
loss of each class and day is unknown. The script runs the loop at a common loss, for a grid of losses. For each class
it interpolates the loss at which the stations carry the published volume (table 3). The totals of table 2 are not the
sums of table 3. For table 2 all four losses of a day are multiplied by one factor to match the day's total.

The paper's TCP is read as ns-2's SCTP agent; `--transport tcp` fits the other reading. AVOCA's volumes are not used:
the volume that AVOCA carries at the fitted losses is a prediction, which the script prints. With as many parameters as
volumes there are no degrees of freedom, so any remaining error is chance. The fit uses the same replicas as the
experiments. Experiments with another `--seed` show how large this error is.
"""

import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

from roughlink_validation.cli import guarded, parser
from roughlink_validation.simulators import Failed

DAYS = ("normal", "bank-holiday", "rush-hour")
CLASSES = ("low", "mod-low", "mod-high", "high")
# MB, table 2 and table 3, TCP and AVOCA.
TOTAL = {"normal": 861.44, "bank-holiday": 780.36, "rush-hour": 724.19}
BY_CLASS = {"normal": (177, 128, 93, 59), "bank-holiday": (175, 122, 75, 47), "rush-hour": (173, 123, 65, 42)}
AVOCA_TOTAL = {"normal": 1221.39, "bank-holiday": 1073.11, "rush-hour": 1010.76}
AVOCA_BY_CLASS = {"normal": (230, 177, 138, 100), "bank-holiday": (224, 162, 117, 75), "rush-hour": (224, 158, 109, 59)}
# Losses of the grid, from less to more than any class needs.
GRIDS = {"sctp": [0.012 * 1.3**i for i in range(9)], "tcp": [0.004 * 1.35**i for i in range(10)]}
# Overrides that turn the scenario's flow into AVOCA; the baseline runs without them.
AVOCA = {
    "sctp": ["flow.download.cc=avoca", 'flow.download.cc_params={ inner = "sctp", params = { min_ssthresh = 2 } }'],
    "tcp": ["flow.download.cc=avoca"],
}
# Replicas of the experiments: the fit uses their runs.
REPLICAS = {2: 16, 3: 24}
# The volume falls faster than the loss rises, so a full step would overshoot.
STEP = 0.6
SCENARIO = Path(__file__).resolve().parent.parent / "scenarios" / "circle-line.toml"
# Errors below this need no further round.
GOOD = 0.015
METRICS = ["covered_mb", *(f"covered_mb@{c}" for c in CLASSES)]


def sweep(roughlink: Path, replicas: int, settings: list[str]) -> list[dict[str, float]]:
    """Returns the metrics of each cell, in the order of the varied value."""
    with tempfile.TemporaryDirectory() as folder:
        command = [roughlink, "sweep", SCENARIO, "--json", "--quiet", "--replicas", str(replicas),
                   "-o", Path(folder) / "sweep", "--metric", ",".join(METRICS)]
        for setting in settings:
            command += ["--set", setting]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(done.stderr.strip())
    cells = json.loads(done.stdout)["cells"]
    by_place: dict[str, dict[str, float]] = {}
    for cell in cells:
        by_place.setdefault(json.dumps(cell["axes"]), {})[cell["metric"]] = cell["measured"]
    return list(by_place.values())


def percent(loss: float) -> str:
    return f"{100 * loss:.3g} %"


def between(xs: list[float], ys: list[float], y: float) -> float:
    """Returns the x at which the falling curve through the points (linear in both logarithms) is y."""
    for (x0, y0), (x1, y1) in zip(zip(xs, ys), zip(xs[1:], ys[1:])):
        if y0 >= y >= y1:
            return math.exp(math.log(x0) + (math.log(x1) - math.log(x0)) * math.log(y0 / y) / math.log(y0 / y1))
    raise Failed(f"{y} MB is outside the range of the grid of losses, {ys[0]:.0f} to {ys[-1]:.0f} MB")


def volume(xs: list[float], ys: list[float], x: float) -> float:
    """Returns the volume at a loss on the same curve, extrapolated at its ends."""
    i = min(max(sum(1 for a in xs if a <= x) - 1, 0), len(xs) - 2)
    t = math.log(x / xs[i]) / math.log(xs[i + 1] / xs[i])
    return ys[i] * (ys[i + 1] / ys[i]) ** t


def factor(grid: list[float], curves: dict[str, list[float]], losses: dict[str, float], total: float) -> float:
    """Returns the factor for the losses of a day that gives the day's total."""
    low, high = 0.01, 10.0
    for _ in range(60):
        middle = math.sqrt(low * high)
        if sum(volume(grid, curves[c], middle * losses[c]) for c in CLASSES) > total:
            low = middle
        else:
            high = middle
    return math.sqrt(low * high)


def settings(losses: dict[str, float]) -> list[str]:
    return [f"coverage.circle.classes.{c}.noise.loss={percent(losses[c])}" for c in CLASSES]


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--transport", choices=sorted(GRIDS), default="sctp",
                           help="reading of the paper's TCP (default: sctp)")
    arguments.add_argument("--rounds", type=int, default=5, help="maximum rounds of correction after the first guess")
    given = arguments.parse_args()
    grid = GRIDS[given.transport]
    baseline = [f"flow.download.transport={given.transport}"]
    avoca = baseline + AVOCA[given.transport]
    everywhere = "{ " + ", ".join(f"{c} = {{}}" for c in CLASSES) + " }"
    cells = sweep(given.roughlink, REPLICAS[2] // 2, baseline + [
        f"coverage.circle.classes={everywhere}",
        "link.air.noise.loss=" + ",".join(percent(loss) for loss in grid),
    ])
    curves = {c: [cell[f"covered_mb@{c}"] for cell in cells] for c in CLASSES}
    worst = 0.0
    for table, which in ((3, "its classes"), (2, "its total")):
        print(f"# Table {table}: each day fitted on {which}")
        for day in DAYS:
            losses = {c: between(grid, curves[c], mb) for c, mb in zip(CLASSES, BY_CLASS[day])}
            wanted = {f"covered_mb@{c}": mb for c, mb in zip(CLASSES, BY_CLASS[day])}
            if table == 2:
                k = factor(grid, curves, losses, TOTAL[day])
                losses = {c: k * loss for c, loss in losses.items()}
                wanted = {"covered_mb": TOTAL[day]}
            # Every loss rate loses different packets, so keep the best of several rounds.
            best = (math.inf, losses, {})
            for _ in range(given.rounds):
                found = sweep(given.roughlink, REPLICAS[table], baseline + settings(losses))[0]
                errors = {name: found[name] / mb - 1 for name, mb in wanted.items()}
                best = min(best, (max(abs(e) for e in errors.values()), losses, errors), key=lambda b: b[0])
                if best[0] < GOOD:
                    break
                losses = {c: loss * (1 + errors.get(f"covered_mb@{c}", errors.get("covered_mb"))) ** STEP
                          for c, loss in losses.items()}
            error, losses, errors = best
            worst = max(worst, error)
            print(f"\n[axis.set.{day}]")
            for c in CLASSES:
                print(f'"coverage.circle.classes.{c}.noise.loss" = "{percent(losses[c])}"')
            print("# fit error: " + ", ".join(f"{name} {100 * e:+.1f} %" for name, e in errors.items()))
            predicted = sweep(given.roughlink, REPLICAS[table], avoca + settings(losses))[0]
            published = {f"covered_mb@{c}": mb for c, mb in zip(CLASSES, AVOCA_BY_CLASS[day])}
            published["covered_mb"] = AVOCA_TOTAL[day]
            print(
                "# AVOCA, predicted: "
                + ", ".join(
                    f"{name} {predicted[name]:.1f} MB for {published[name]} "
                    f"({100 * (predicted[name] / published[name] - 1):+.1f} %)"
                    for name in errors
                ),
                flush=True,
            )
        volumes = len(DAYS) * (1 if table == 2 else len(CLASSES))
        beside = " in addition to the twelve of table 3" if table == 2 else ""
        print(f"\n# {volumes} volumes, {volumes} parameters{beside}: no degrees of freedom\n")
    print(f"# the largest fit error is {100 * worst:.1f} %")
    return 0


if __name__ == "__main__":
    sys.exit(guarded(main))
