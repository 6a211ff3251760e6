#!/usr/bin/env python3
"""CPU time per delivered packet and memory per flow when many flows share one link.

`growth.py` counts instructions, which do not show cache misses. Here, each flow has a window of four segments on a link
that never fills. The flows take turns, so each packet needs the state of another flow. Rounds alternate between the
numbers of flows. Only the difference of two durations counts. --page writes the table into docs/validation/speed.md.
"""

import sys
import tempfile
from pathlib import Path

from peers import spread
from roughlink_validation import cli, page
from roughlink_validation.axes import CUBIC, SEGMENT, bulk, file, link, stack
from roughlink_validation.counting import RUN
from roughlink_validation.simulators import call, parse

PAGE = Path(__file__).resolve().parent.parent / "docs" / "validation" / "speed.md"
# Numbers of flows, and two durations for each, s. All flows have started after one second.
DURATIONS = {1000: (20, 60), 10_000: (3, 10), 100_000: (2, 4)}
FOREVER = 10**9


def scenario(flows: int, seconds: float) -> str:
    tcp = stack(*CUBIC) + f'mss = "{SEGMENT} B"\nwrite_size = "{SEGMENT} B"\nrcv_buf = "{4 * SEGMENT} B"\n'
    transfers = (bulk(i, "a", "b", FOREVER, f'start = "{i % 1000} ms"\n') for i in range(flows))
    return file(seconds, "ab", [link("a", "b", 100_000, 100, 1_000_000)], transfers, tcp)


def run(roughlink: Path, flows: int, seconds: float) -> tuple[float, float, float]:
    """Returns the CPU time in s, the delivered packets, and the peak of the memory in kB."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "crowd.toml"
        path.write_text(scenario(flows, seconds))
        done = call([str(roughlink), *RUN, str(path)], watch_memory=True)
    delivered = sum(flow["delivered_bytes"] for flow in parse("roughlink", done.stdout)["flows"])
    return done.cpu_s, delivered / SEGMENT, done.peak_rss_kb


def main() -> int:
    parser = cli.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--page", action="store_true", help="write the table into docs/validation/speed.md")
    options = parser.parse_args()
    costs, peaks = {flows: [] for flows in DURATIONS}, {}
    for _ in range(options.rounds):
        for flows, durations in DURATIONS.items():
            cli.progress(f"{flows} flows")
            (cpu, packets, _), (more_cpu, more, peaks[flows]) = (run(options.roughlink, flows, s) for s in durations)
            costs[flows].append((more_cpu - cpu) / (more - packets) * 1e9)
    cli.progress_end()
    fewest = min(DURATIONS)
    rows = [["flows on one link", "ns per packet", "times the cost of 1,000", "kB per flow"]]
    for flows, values in costs.items():
        ratios = [value / base for value, base in zip(values, costs[fewest])]
        row = [f"{flows:,}", spread(values, 0), "", ""]
        if flows != fewest:
            row[2:] = spread(ratios, 1), f"{(peaks[flows] - peaks[fewest]) / (flows - fewest):.1f}"
        rows.append(row)
    text = page.table(rows)
    print(text)
    if options.page:
        page.renew(PAGE, "crowd.py", text)
    return 0


if __name__ == "__main__":
    sys.exit(cli.guarded(main))
