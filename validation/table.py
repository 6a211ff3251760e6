#!/usr/bin/env python3
"""Comparison of the throughput of every variant on the V2G scenario between roughlink and ns-3 3.44.

Each cell is the mean over the seeds +- its 95 % confidence interval; the ratio is roughlink / ns-3. The two draw
different losses, so single seeds do not match. Two means agree if they differ by less than their intervals allow
(column `sigma`: the difference in standard errors; beyond 3 is a real difference).

A burst that is counted in packets can hit every retransmission of a stalled sender, which then gives up after 6
(--data-retries). Such flows count with the bytes delivered until then, and their number is shown.
"""

import json
import math
import sys

from roughlink_validation import cli
from roughlink_validation.scenario import VARIANTS, Scenario
from roughlink_validation.simulators import Ns3, Roughlink, throughput

LOSSES = {"5": 0.02, "0.25": 0.001}  # average loss in percent -> probability that a burst starts


def options():
    parser = cli.parser(__doc__)
    parser.add_argument("--bytes", type=int, default=100_000_000, help="per flow (default 100 MB)")
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--cc", nargs="+", choices=VARIANTS, metavar="NAME",
                        default=[cc for cc in VARIANTS if cc not in ("linux-reno", "bbr")], help=", ".join(VARIANTS))
    parser.add_argument("--loss", nargs="+", choices=LOSSES, default=list(LOSSES), help="average loss, percent")
    parser.add_argument("--no-sack", action="store_true")
    parser.add_argument("--segment", type=int, default=1460, help="payload bytes (1460 fragments, 1448 does not)")
    parser.add_argument("--queue", type=int, default=200,
                        help="packets; a window of 128 KiB in fragments is 178, so 100 would drop (default 200)")
    parser.add_argument("--queue-disc", choices=("none", "default"), default="none", help="ns-3 only")
    parser.add_argument("--data-retries", type=int, default=6)
    parser.add_argument("--only", choices=("ns3", "roughlink"), help="run only this simulator")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def measure(simulator, scenario: Scenario, seeds: int) -> tuple[float, float, int]:
    """Returns the mean throughput, the half width of its confidence interval, and the number of incomplete runs."""
    values = []
    incomplete = 0
    for seed in range(1, seeds + 1):
        cli.progress(f"{simulator.name} {scenario.cc} start {scenario.burst_start:g} seed {seed} of {seeds}")
        result = simulator.run(scenario.with_(seed=seed))
        values.append(throughput(result))
        incomplete += not all(flow["completed"] for flow in result["flows"])
    return *cli.mean_ci(values), incomplete


def main() -> int:
    o = options()
    simulators = {}
    if o.only != "roughlink":
        simulators["ns3"] = Ns3()
    if o.only != "ns3":
        simulators["roughlink"] = Roughlink(o.roughlink)
    cells = []
    for loss in o.loss:
        for cc in o.cc:
            scenario = Scenario(cc=cc, bytes=o.bytes, burst_start=LOSSES[loss], sack=not o.no_sack, segment=o.segment,
                                queue=o.queue, queue_disc=o.queue_disc, data_retries=o.data_retries)
            cell = {"loss_percent": float(loss), "cc": cc}
            for name, simulator in simulators.items():
                mean, ci95, incomplete = measure(simulator, scenario, o.seeds)
                cell |= {f"{name}_mbps": mean, f"{name}_ci95": ci95, f"{name}_incomplete": incomplete}
            if len(simulators) == 2:
                cell["ratio"] = cell["roughlink_mbps"] / cell["ns3_mbps"]
                error = math.hypot(cell["ns3_ci95"], cell["roughlink_ci95"]) / cli.T95[min(o.seeds, 30) - 2]
                cell["sigma"] = (cell["roughlink_mbps"] - cell["ns3_mbps"]) / error if error else 0.0
            cells.append(cell)
    cli.progress_end()
    if o.json:
        print(json.dumps({"bytes": o.bytes, "seeds": o.seeds, "sack": not o.no_sack, "segment": o.segment,
                          "queue": o.queue, "queue_disc": o.queue_disc, "cells": cells}, indent=1))
        return 0
    print(f"{o.bytes / 1e6:g} MB x {o.seeds} seeds, SACK {'off' if o.no_sack else 'on'}, segment {o.segment} B, Mbit/s")
    print(f"{'loss %':>6}  {'variant':<11}{'ns-3':>17}{'roughlink':>17}{'ratio':>8}{'sigma':>7}  gave up")
    for cell in cells:
        row = f"{cell['loss_percent']:>6}  {cell['cc']:<11}"
        for name in ("ns3", "roughlink"):
            shown = f"{cell[f'{name}_mbps']:.3f} +- {cell[f'{name}_ci95']:.3f}" if name in simulators else "-"
            row += f"{shown:>17}"
        if "ratio" in cell:
            row += f"{cell['ratio']:>8.3f}{cell['sigma']:>7.1f}"
        row += "  " + ", ".join(
            f"{name} {cell[f'{name}_incomplete']}" for name in simulators if cell[f"{name}_incomplete"]
        )
        print(row)
    return 0


if __name__ == "__main__":
    sys.exit(cli.guarded(main))
