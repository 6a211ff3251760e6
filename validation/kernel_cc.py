#!/usr/bin/env python3
"""Comparison of roughlink's algorithms in the running kernel with the same algorithms in simulation.

The simulations use `stack = "linux"`. The link has 10 Mbit/s and a queue of 100 packets; round trips take 22 and 80 ms.
There is no loss, or 0.1 to 5 % of the data in bursts of one to four packets. Kernels are at both ends of the emulated
link, and the sending one uses the algorithm. Packet n of the data meets the same fate in simulation and emulation. A
cell's ratio is the mean goodput in simulation over the mean goodput in the kernel, for the same seeds.

--matrix takes the links of linux.py up to 10 Mbit/s instead, with other rates, delays and queues, reordering and four
flows.

Parallel runs share the machine; a run whose link was late is repeated. The algorithms are always unloaded at the end.
With --table the runs are kept, one per line, and only missing runs are measured, so the script can be stopped and
resumed.

Needs root and a roughlink with the algorithms (`make kernel`), else exits with 3. With --kept, the runs of the table
are compared again, which needs neither. With --strict the exit code is 5 unless, for each algorithm, the median of
|ratio - 1| is within 5 % and every cell within 15 %.
"""

import itertools
import json
import signal
import statistics
import sys
import tempfile
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from roughlink_validation import cli, matrix, page
from roughlink_validation.comparison import compare, summary
from roughlink_validation.loading import algorithms, loaded
from roughlink_validation.matrix import Cell
from roughlink_validation.measuring import measure
from roughlink_validation.simulators import Failed, Missing

REFERENCE = Path(__file__).resolve().parent / "reference" / "kernel-cc-6.18.csv"
MEDIAN, CELL = 0.05, 0.15
LOSSES = [0, 0.1, 0.5, 1, 2, 5]
RTTS = [22, 80]
OWN = ["reno", "cubic"]
# Linux repairs all holes of a window at once, like `wave-fr`, and the BPF program `wave` uses the measurements of
# `wave-fr`.
SIMULATED_AS = {"wave": "wave-fr"}


def options():
    parser = cli.parser(__doc__)
    parser.add_argument("--cc", nargs="+", metavar="NAME",
                        help="algorithms (default: all that roughlink provides for the kernel)")
    parser.add_argument("--own", nargs="*", default=OWN, metavar="NAME",
                        help="the kernel's own algorithms: their differences are a reference for the others")
    parser.add_argument("--loss", nargs="+", type=float, default=LOSSES, metavar="PERCENT")
    parser.add_argument("--rtt", nargs="+", type=int, default=RTTS, metavar="MS", help="round trips, even numbers")
    parser.add_argument("--seconds", type=int, default=20, help="duration of a run")
    parser.add_argument("--seeds", type=int, default=2, help="runs of each cell with losses; other cells have one")
    parser.add_argument("--matrix", action="store_true",
                        help="the links of linux.py up to 10 Mbit/s instead")
    parser.add_argument("--quick", action="store_true", help="one seed, 5 s, 22 ms, 0 and 1 %%")
    parser.add_argument("--load", type=float, default=30, metavar="MBIT", help="total rate of parallel emulations")
    parser.add_argument("--jobs", type=int, default=4, help="parallel emulations")
    parser.add_argument("--table", type=Path, metavar="FILE",
                        help=f"file for the kernel's runs (default: none; with --kept {REFERENCE.name})")
    parser.add_argument("--kept", action="store_true", help="compare the runs of the table without measuring")
    parser.add_argument("--page", type=Path, metavar="FILE",
                        help="rewrite the tables of this page (docs/validation/kernel-cc.md)")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--strict", action="store_true", help="exit code 5 unless the ratios are within their bounds")
    o = parser.parse_args()
    if any(rtt < 2 or rtt % 2 for rtt in o.rtt):
        parser.error("--rtt: give even numbers of milliseconds; the delay of each way is half the value")
    if o.quick:
        o.loss, o.rtt, o.seconds, o.seeds = [0, 1], [22], 5, 1
    return o


def wanted(o, names: list[str]) -> list[Cell]:
    if o.matrix:
        slow = [cell for cell in matrix.cells() if cell.cc == "reno" and cell.rate_mbit <= 10]
        return [replace(cell, cc=cc) for cc in [*names, *o.own] for cell in slow]
    product = itertools.product(o.rtt, o.loss, [*names, *o.own])
    return [Cell(cc, 10, rtt // 2, 100, float(loss), duration_s=o.seconds) for rtt, loss, cc in product]


def chosen(o, there: list[str]) -> list[str]:
    if unknown := set(o.cc or []) - set(there):
        raise Failed(
            f"roughlink does not provide {', '.join(sorted(unknown))} for the kernel; expected {', '.join(there)}"
        )
    return o.cc or there


def rows_of(o, roughlink: Path) -> dict[Cell, list[matrix.Row]]:
    with nullcontext() if o.table or o.kept else tempfile.TemporaryDirectory() as folder:
        table = o.table or (REFERENCE if o.kept else Path(folder) / "runs.csv")
        if o.kept:
            names = chosen(
                o, [cc for cc in dict.fromkeys(row.cell.cc for row in matrix.read(table)) if cc not in o.own]
            )
        else:
            names = chosen(o, algorithms(roughlink))
            with loaded(roughlink, names) as held:
                in_kernel = {cc: name for cc, (name, _) in held.items()}
                measure(roughlink, table, wanted(o, names), o.seeds, o.load, o.jobs, in_kernel)
        rows = matrix.by_cell(matrix.read(table))
    return {cell: rows[cell] for cell in wanted(o, names) if cell in rows}


def by_algorithm(cells: list[dict]) -> dict[str, list[dict]]:
    return {cc: [c for c in cells if c["cc"] == cc] for cc in dict.fromkeys(c["cc"] for c in cells)}


def link(c: dict) -> str:
    return f"{2 * c['delay_ms']} ms, {c['loss_pct']:g} %"


def off(c: dict) -> float:
    return abs(c["ratio"] - 1)


def spread(cells: list[dict]) -> float | None:
    spreads = [c["spread"] for c in cells if c["spread"] is not None]
    return statistics.median(spreads) if spreads else None


def show(cells: list[dict]) -> None:
    print(f"{'':<34}{'Mbit/s':^24}{'':>8}{'retransmissions':>16}{'queue, packets':>18}")
    print(
        f"{'cell':<34}{'kernel':>8}{'here':>8}{'ratio':>8}{'seeds':>8}{'kernel':>8}{'here':>8}{'kernel':>9}{'here':>8}"
    )
    for c in cells:
        between = f"±{c['spread'] / 2:.2f}" if c["spread"] is not None else ""
        print(
            f"{c['cc']:<14}{link(c):<20}"
            f"{c['linux_goodput_mbps']:>8.2f}{c['roughlink_goodput_mbps']:>8.2f}{c['ratio']:>8.2f}{between:>8}"
            f"{c['linux_retransmits']:>8.0f}{c['roughlink_retransmits']:>8.0f}"
            f"{c['linux_queue_pkt_mean']:>9.1f}{c['roughlink_queue_pkt_mean']:>8.1f}"
        )
    print(f"\n{'':<14}{'cells':>6}{'|ratio - 1|: median':>21}{'furthest':>10}  {'where':<14}{'between seeds':>16}")
    for name, group in [*by_algorithm(cells).items(), ("all", cells)]:
        worst, between = max(group, key=off), spread(group)
        print(
            f"{name:<14}{len(group):>6}{summary(group)['median_off']:>21.3f}{worst['ratio']:>10.2f}  {link(worst):<14}"
            f"{f'{between:.3f}' if between is not None else '':>16}"
        )


def heading(cells: list[dict]) -> str:
    whole = summary(cells)
    return (
        f"{whole['cells']} cells, {whole['runs']} runs of the kernel. "
        f"Of |ratio - 1| the median is **{page.percent(whole['median_off'])}**; "
        f"{sum(off(c) <= CELL for c in cells)} cells are within 15 %. Beyond 5 % in italics, beyond 15 % bold:\n\n"
    )


def matrix_table(cells: list[dict]) -> str:
    rows = [["part of the matrix", "cells", "median \\|ratio - 1\\|", "furthest ratio", "its cell"]]
    for block in dict.fromkeys(c["block"] for c in cells):
        group = [c for c in cells if c["block"] == block]
        worst = max(group, key=off)
        rows.append([block, str(len(group)), page.percent(summary(group)["median_off"]), page.shade(worst["ratio"]),
                     worst["cell"]])
    return heading(cells) + page.table(rows)


def tables(cells: list[dict]) -> str:
    links = list(dict.fromkeys(map(link, cells)))
    lines = [
        "| | " + " | ".join(links) + " | median \\|ratio - 1\\| | between seeds |",
        "|---" * (len(links) + 3) + "|",
    ]
    for name, group in by_algorithm(cells).items():
        ratios, between = {link(c): c["ratio"] for c in group}, spread(group)
        lines.append(
            f"| {name} | "
            + " | ".join(page.shade(ratios.get(at)) for at in links)
            + f" | {page.percent(summary(group)['median_off'])}"
            f" | {page.percent(between) if between is not None else ''} |"
        )
    return heading(cells) + "\n".join(lines)


def main() -> int:
    o = options()
    # Treat SIGTERM like Ctrl-C, so that everything is cleaned up.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    roughlink = o.roughlink.resolve()
    if not roughlink.exists():
        raise Missing(
            f"cannot find roughlink at {o.roughlink}\n"
            "help: run `make kernel`, or pass --roughlink PATH"
        )
    rows = rows_of(o, roughlink)
    if not rows:
        raise Missing("the table has no matching cell")
    cells = compare(roughlink, rows, SIMULATED_AS)
    if o.page:
        page.renew(o.page, "kernel_cc.py", matrix_table(cells) if o.matrix else tables(cells))
    if o.json:
        print(
            json.dumps(
                {"algorithms": {cc: summary(group) for cc, group in by_algorithm(cells).items()}, "cells": cells},
                indent=1,
            )
        )
    else:
        show(cells)
    good = all(
        summary(group)["median_off"] <= MEDIAN and max(map(off, group)) <= CELL
        for group in by_algorithm(cells).values()
    )
    return cli.EXPECTATION if o.strict and not good else 0


if __name__ == "__main__":
    sys.exit(cli.guarded(main))
