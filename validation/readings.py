#!/usr/bin/env python3
"""Comparison of other readings of the V2G paper with the published numbers.

Each reading is a set of overrides of the experiments table2, fig11a and fig6. The marked table of
docs/validation/v2g.md is generated: --page writes it, and without --page it is printed. All readings take ten minutes
on two cores.
"""

import math
import statistics
import sys
from pathlib import Path

from roughlink_validation import cli, page
from roughlink_validation.simulators import Failed, Roughlink

PAGE = Path(__file__).resolve().parent.parent / "docs" / "validation" / "v2g.md"
STACK = "ns3"
SIZES = ["10 MB", "50 MB", "100 MB"]
# reading -> overrides; `plc` stands for the power line, which has another name with 21 cars, and so has `internet`
READINGS = {
    "**`ns3-3.27`**": [],
    "`ns3-3.29` (and 3.30)": ["tcp.stack=ns3-3.29"],
    "`ns3` (3.44: PRR, initial window 10)": ["tcp.stack=ns3"],
    "RFC 6675 on `ns3`, initial window 1": ["tcp.stack=ns3", "tcp.recovery=sack", "tcp.initial_window=1"],
    "`ns3-3.27`, initial window 10": ["tcp.initial_window=10"],
    "`ns3-3.27`, no SACK": ["tcp.sack=false"],
    "`ns3-3.27`, no fragments": ["tcp.mss_includes_options=true"],
    "`ns3-3.27`, 0.9 ms": ["link.internet.delay=0.9 ms"],
    "`ns3-3.27`, 10 ms": ["link.internet.delay=10 ms"],
    "`ns3-3.27`, queue 100": ["link.plc.queue=100 pkt"],
    "`ns3-3.27`, FQ-CoDel": ['link.plc.qdisc={ kind = "fq_codel" }'],
    "`ns3-3.29`, FQ-CoDel": ["tcp.stack=ns3-3.29", 'link.plc.qdisc={ kind = "fq_codel" }'],
}
HEAD = ["reading", "RMS", "within", "Vegas, Illinois to the paper", "NewReno, Illinois at 0.25 %",
        "Illinois over NewReno at 5 %", "AA over Illinois at 5 %", "SC over Illinois at 3.75 and 5 %",
        "21 cars: NewReno, Illinois at 0.25 %", "21 cars: Illinois over NewReno at 5 %"]


def options():
    parser = cli.parser(__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path("results/readings"), metavar="DIR",
                        help="folder of the results; a run that was interrupted continues (default: %(default)s)")
    parser.add_argument("--page", action="store_true", help="write the table into the page")
    return parser.parse_args()


def cells(results: dict, experiment: str) -> dict:
    """Returns the cells of an experiment by algorithm and the value of the other axis."""
    found = next(e for e in results["experiments"] if e["experiment"] == f"v2g/{experiment}")
    other = next(axis["name"] for axis in found["axes"] if axis["name"] != "cc")
    return {(c["axes"]["cc"], c["axes"][other]): c for c in found["cells"] if c["metric"] == "throughput_mbps"}


def times(all_cells: dict, a: str, b: str, at: str) -> str:
    """Returns the ratio of two algorithms' mean throughputs and its 95 % interval; runs are paired by their seeds."""
    over, under = (all_cells[cc, at]["samples"] for cc in (a, b))
    if len(over) != len(under):
        raise Failed(f"{a} and {b} at {at} have {len(over)} and {len(under)} runs")
    mean = statistics.fmean(under)
    ratio = statistics.fmean(over) / mean
    _, half = cli.mean_ci([(x - ratio * y) / mean for x, y in zip(over, under)])
    return f"{ratio:.2f} ± {half:.2f}"


def row(roughlink: Roughlink, name: str, sets: list[str], output: Path) -> list[str]:
    def reproduced(experiments: list[str], only: list[str], changes: list[str], part: str) -> dict:
        arguments = [*experiments, "--stack", STACK, *(f"--only={x}" for x in only), *(f"--set={x}" for x in changes)]
        return roughlink.reproduce("v2g", output / f"{list(READINGS).index(name)}-{part}", tuple(arguments))

    cli.progress(f"{name} ...")
    many = [x.replace("link.plc.", "link.segment*.").replace("link.internet.", "link.internet*.") for x in sets]
    one = reproduced(["table2", "fig11a"], [f"bytes={','.join(SIZES)}", "loss=0.25 %,3.75 %,5 %"], sets, "one")
    cars = reproduced(["fig6"], ["cc=newreno,illinois", "loss=0.25 %,5 %"], many, "cars")
    table, variants, shared = cells(one, "table2"), cells(one, "fig11a"), cells(cars, "fig6")
    logs = {key: math.log(c["measured"] / c["published"]) for key, c in table.items()}
    rms = [math.exp(math.sqrt(statistics.fmean(x * x for (_, at), x in logs.items() if at == size))) for size in SIZES]
    mean = {key: c["measured"] for key, c in {**variants, **{("21", *k): c for k, c in shared.items()}}.items()}
    return [
        name, ", ".join(f"{x:.2f}" for x in rms), str(sum(abs(x) <= math.log(1.5) for x in logs.values())),
        ", ".join(f"{math.exp(logs[cc, '100 MB']):.2f}" for cc in ("vegas", "illinois")),
        ", ".join(f"{mean[cc, '0.25 %']:.2f}" for cc in ("newreno", "illinois")),
        times(variants, "illinois", "newreno", "5 %"), times(variants, "illinois-aa", "illinois", "5 %"),
        ", ".join(times(variants, "newreno-sc", "illinois", loss) for loss in ("3.75 %", "5 %")),
        ", ".join(f"{mean['21', cc, '0.25 %']:.2f}" for cc in ("newreno", "illinois")),
        times(shared, "illinois", "newreno", "5 %"),
    ]


def main() -> int:
    o = options()
    roughlink = Roughlink(o.roughlink)
    paper = ["paper", "", "", "", "7.53, 9.32", "4.67", "1.41", "above 1", "2.70, 2.92", "3.45"]
    rows = [paper, *(row(roughlink, name, sets, o.output) for name, sets in READINGS.items())]
    cli.progress_end()
    lines = [f"| {' | '.join(cells)} |" for cells in [HEAD, ["---"] * len(HEAD), *rows]]
    text = "\n".join(lines)
    if o.page:
        page.renew(PAGE, "readings.py", text)
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(cli.guarded(main))
