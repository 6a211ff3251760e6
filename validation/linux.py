#!/usr/bin/env python3
"""Comparison of the `linux` stack with Linux 6.18: the same links with the TCP of the kernel and of roughlink.

The matrix has reno, cubic and bbr at 2, 10 and 100 Mbit/s, 2, 10, 40 and 150 ms each way, and queues of 10 and 100
packets, without loss and with 1 % in bursts. The edges of the matrix have other losses, packets that overtake each
other, four flows, and a receiver that acknowledges every segment. The kernel's results are in
reference/linux-matrix-6.18.csv, measured with `roughlink emulate` and real Linux TCP at both nodes. The same seeds are
simulated here with `stack = "linux"`: packet n of the data meets the same fate on both sides. A cell's ratio is the
mean goodput of roughlink divided by the kernel's.

Three more comparisons follow the matrix:
- one link measured with iperf3 and another relay (reference/linux-6.18.csv),
- shares of flows in one queue (linux-shares-6.18.csv),
- RTT samples and needless retransmissions (linux-rtt-6.18.csv).

With --measure the kernel produces the results missing from the table of the matrix, or of the given part. Each run
appends one line, so the measurement can be stopped and resumed. Measuring needs root or user namespaces, half an hour
to an hour, and an otherwise idle machine. Runs in which the link was late are repeated.

ns-3 is not needed. With --strict the exit code is 5 unless all of these hold. Over the cells, the median of |ratio - 1|
is within 5 % and its 90th percentile within 15 %. On the one link, every ratio is within 25 % and their median within
10 %. Every flow's share of the goodput is within 5 percentage points of the kernel's. The mean RTT is within 5 %, and
needless retransmissions within 0.2 % of the segments.
"""

import csv
import json
import sys
from pathlib import Path

from roughlink_validation import cli, matrix, one_link, page, samples, shares
from roughlink_validation.comparison import compare, summary
from roughlink_validation.measuring import measure
from roughlink_validation.simulators import Missing

REFERENCE = Path(__file__).resolve().parent / "reference" / "linux-matrix-6.18.csv"
SHARES, SAMPLES = REFERENCE.with_name("linux-shares-6.18.csv"), REFERENCE.with_name("linux-rtt-6.18.csv")
MEDIAN, NINTH_DECILE = 0.05, 0.15


def options():
    parser = cli.parser(__doc__)
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="KEY=VALUE[,VALUE]",
        help="only matching cells, such as cc=bbr rate_mbit=2,10",
    )
    parser.add_argument("--part", choices=("matrix", "one-link", "shares", "samples"), help="one of the comparisons")
    parser.add_argument(
        "--replicas", type=int, default=10, help="simulations of the one link; the matrix uses the measured seeds"
    )
    parser.add_argument("--cells", action="store_true", help="print every cell, not only those beyond 15 %%")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write all cells of the matrix to this file")
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help="rewrite the tables of this page (docs/validation/linux.md)"
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--strict", action="store_true", help="exit code 5 unless the ratios are within their bounds")
    parser.add_argument("--reference", type=Path, default=REFERENCE, metavar="FILE", help="the kernel's table")
    measuring = parser.add_argument_group("measuring")
    measuring.add_argument(
        "--measure", action="store_true", help="measure the kernel's runs that are missing from the table"
    )
    measuring.add_argument(
        "--seeds", type=int, default=3, help="runs per cell with losses or reordering; other cells have one"
    )
    measuring.add_argument("--load", type=float, default=30, metavar="MBIT", help="total rate of parallel emulations")
    measuring.add_argument("--jobs", type=int, default=4, help="parallel emulations")
    return parser.parse_args()


def show(cells: list[dict], every: bool) -> None:
    print(f"{'':<44}{'Mbit/s':^24}{'retransmissions':>18}{'queue, packets':>18}")
    print(f"{'cell':<44}{'Linux':>8}{'here':>8}{'ratio':>8}{'':>7}{'Linux':>8}{'here':>8}{'Linux':>9}{'here':>8}")
    for c in cells:
        if every or abs(c["ratio"] - 1) > NINTH_DECILE:
            interval = f"±{c['ratio_error']:.2f}" if c["ratio_error"] is not None else ""
            print(
                f"{c['cell']:<44}{c['linux_goodput_mbps']:>8.2f}{c['roughlink_goodput_mbps']:>8.2f}{c['ratio']:>8.2f} "
                f"{interval:<6}{c['linux_retransmits']:>8.0f}{c['roughlink_retransmits']:>8.0f}"
                f"{c['linux_queue_pkt_mean']:>9.1f}{c['roughlink_queue_pkt_mean']:>8.1f}"
            )
    print()
    print(
        f"{'':<20}{'cells':>6}{'median ratio':>14}{'|ratio - 1|: median':>21}{'90th percentile':>17}{'within 15 %':>13}"
    )
    groups = {"all": cells}
    for key in ("block", "cc", "rate_mbit", "delay_ms", "queue_pkt"):
        for value in dict.fromkeys(c[key] for c in cells):
            groups[value if isinstance(value, str) else f"{key} {value}"] = [c for c in cells if c[key] == value]
    for name, group in groups.items():
        s = summary(group)
        print(
            f"{name:<20}{s['cells']:>6}{s['median_ratio']:>14.3f}{s['median_off']:>21.3f}{s['p90_off']:>17.3f}"
            f"{s['within_15']:>12.0%}"
        )


def main() -> int:
    o = options()
    if not o.roughlink.exists():
        raise Missing(
            f"cannot find roughlink at {o.roughlink}\n"
            "help: run `cargo build --release`, or pass --roughlink PATH"
        )
    roughlink = o.roughlink.resolve()
    if o.measure and o.part == "shares":
        shares.measure(roughlink, SHARES, min(o.jobs, 2))
        return 0
    if o.measure and o.part == "samples":
        samples.measure(roughlink, SAMPLES)
        return 0
    if o.measure:
        measure(roughlink, o.reference, matrix.chosen(matrix.cells(), o.only), seeds=o.seeds, load=o.load, jobs=o.jobs)
        return 0
    result, good = {}, True
    if o.part in (None, "matrix"):
        rows = matrix.by_cell(matrix.read(o.reference))
        wanted = set(matrix.chosen(rows, o.only))
        rows = {cell: runs for cell, runs in rows.items() if cell in wanted}
        if not rows:
            raise Missing(f"{o.reference.name} has no matching cell")
        cells = compare(roughlink, rows)
        result["matrix"] = {**summary(cells), "table": cells}
        good &= result["matrix"]["median_off"] <= MEDIAN and result["matrix"]["p90_off"] <= NINTH_DECILE
        if o.csv:
            with o.csv.open("w", newline="") as stream:
                writer = csv.DictWriter(stream, cells[0].keys(), lineterminator="\n")
                writer.writeheader()
                writer.writerows({k: f"{v:.4g}" if isinstance(v, float) else v for k, v in c.items()} for c in cells)
        if o.page:
            page.write(o.page, cells, summary)
        if not o.json:
            show(cells, o.cells)
    if o.part in (None, "one-link") and not o.only:
        table = one_link.compare(roughlink, o.replicas)
        result["one_link"] = table
        good &= one_link.within(table)
        if not o.json:
            print("\nOne link of 10 Mbit/s and 10.9 ms, iperf3 through another relay:\n")
            one_link.show(table)
    if o.part in (None, "shares") and not o.only:
        groups = shares.compare(roughlink, SHARES)
        result["shares"] = groups
        good &= all(g["difference"] <= shares.SHARE for g in groups)
        if o.page:
            page.renew(o.page, "linux.py shares", shares.tables(groups))
        if not o.json:
            print("\nShares of a queue:\n")
            shares.show(groups)
    if o.part in (None, "samples") and not o.only:
        rows = samples.compare(roughlink, SAMPLES)
        result["samples"] = rows
        good &= samples.within(rows)
        if o.page:
            page.renew(o.page, "linux.py samples", samples.tables(rows))
        if not o.json:
            print("\nRTT samples and retransmissions, Linux and roughlink:\n")
            samples.show(rows)
    if o.json:
        print(json.dumps(result, indent=1))
    return cli.EXPECTATION if o.strict and not good else 0


if __name__ == "__main__":
    sys.exit(cli.guarded(main))
