"""One link between hosts with Linux 6.18, measured with iperf3 and a relay other than roughlink.

reference/linux-6.18.csv has runs of 20 s of iperf3, with two seeds each. The relay emulates a link of 10 Mbit/s and
10.9 ms each way with a queue of 100 packets. Losses come in bursts of one to four packets, in the direction of the
data. Kernel and simulation draw different losses, so means match and single runs do not. Without loss, single runs must
match.
"""

import csv
import statistics
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from roughlink_validation import cli
from roughlink_validation.simulators import call, parse

REFERENCE = Path(__file__).resolve().parent.parent / "reference" / "linux-6.18.csv"
CELL, MEDIAN = 0.25, 0.10

SCENARIO = """
name = "One link in front of a Linux stack"
duration = "20 s"

[tcp]
stack = "linux"

[[node]]
name = "server"
[[node]]
name = "client"

[[link]]
name = "link"
between = ["server", "client"]
rate = "10 Mbit/s"
delay = "10.9 ms"
queue = "100 pkt"
noise = { kind = "burst", start = "0 %", length = [1, 4], direction = "forward" }

[[flow]]
name = "download"
kind = "bulk"
from = "server"
to = "client"
"""


@dataclass(frozen=True)
class Cell:
    """Goodput in Mbit/s and retransmissions, run by run."""

    goodput: tuple[float, ...]
    retransmits: tuple[int, ...]


def reference() -> dict[tuple[str, float], Cell]:
    """Returns the kernel's runs by (algorithm, burst start in percent), all on the link that SCENARIO describes."""
    rows = defaultdict(list)
    with REFERENCE.open(newline="") as file:
        for row in csv.DictReader(file):
            link = (row["rate_mbit"], row["one_way_ms"], row["queue_pkt"], row["duration_s"])
            assert link == ("10", "10.9", "100", "20"), f"{REFERENCE.name} has another link: {row}"
            rows[row["cc"].replace("_", "-"), float(row["burst_start_pct"])].append(row)
    return {
        at: Cell(tuple(float(r["goodput_mbps"]) for r in runs), tuple(int(r["retransmits"]) for r in runs))
        for at, runs in rows.items()
    }


def simulate(roughlink: Path, replicas: int, file: Path, cc: str, start: float) -> Cell:
    flows = []
    for replica in range(replicas):
        done = call([
            str(roughlink), "run", str(file), "--json", "--quiet", "--replica", str(replica),
            "--set", f"tcp.cc={cc}", "--set", f"link.link.noise.start={start:g} %",
        ])
        flows.append(parse("roughlink", done.stdout)["flows"][0])
    return Cell(tuple(f["throughput_mbps"] for f in flows), tuple(f["retransmits"] for f in flows))


def compare(roughlink: Path, replicas: int) -> list[dict]:
    kernel = reference()
    cells = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "linux.toml"
        file.write_text(SCENARIO)
        for (cc, start), theirs in kernel.items():
            cli.progress(f"{cc} {start:g} %")
            ours = simulate(roughlink, replicas, file, cc, start)
            goodput = statistics.fmean(ours.goodput)
            cells.append({
                "cc": cc,
                "burst_start_percent": start,
                "kernel_mbps": statistics.fmean(theirs.goodput),
                "roughlink_mbps": goodput,
                "ratio": goodput / statistics.fmean(theirs.goodput),
                "kernel_retransmits": statistics.fmean(theirs.retransmits),
                "roughlink_retransmits": statistics.fmean(ours.retransmits),
            })
    cli.progress_end()
    return cells


def within(cells: list[dict]) -> bool:
    """Returns true if every ratio is within 25 % of one, and their median within 10 %."""
    ratios = [cell["ratio"] for cell in cells]
    return all(abs(r - 1) <= CELL for r in ratios) and abs(statistics.median(ratios) - 1) <= MEDIAN


def show(cells: list[dict]) -> None:
    print(f"{'':<12}{'':>8}{'Mbit/s':^26}{'retransmissions':>22}")
    print(f"{'cc':<12}{'start':>8}{'Linux':>9}{'here':>8}{'ratio':>9}{'Linux':>13}{'here':>9}")
    for c in cells:
        print(f"{c['cc']:<12}{c['burst_start_percent']:>6.1f} %{c['kernel_mbps']:>9.2f}{c['roughlink_mbps']:>8.2f}"
              f"{c['ratio']:>9.2f}{c['kernel_retransmits']:>13.0f}{c['roughlink_retransmits']:>9.0f}")

    ratios = [c["ratio"] for c in cells]
    print(f"\nratio roughlink / Linux 6.18: median {statistics.median(ratios):.3f}, "
          f"furthest {max(ratios, key=lambda r: abs(r - 1)):.3f}, {len(cells)} cells")
