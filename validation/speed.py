#!/usr/bin/env python3
"""Measurement of CPU time per delivered packet and memory per flow of roughlink and ns-3 3.44.

Groups of up to three flows share one chain of links; groups share nothing. Rounds alternate between the simulators, and
the result is the median of the rounds' ratios, because a busy machine affects both. For ns-3 only the user CPU time of
the event loop counts. For roughlink the whole process counts, including start-up, unless its JSON result has a `cpu_s`.
In that case the figures of both simulators are those of their event loops. roughlink simulates --stretch times as long,
so that a run lasts long enough to be timed. Both applications write whole segments unless --write is 512, ns-3's
default: the pieces cost ns-3 time and memory. Memory per flow = (peak with 999 flows - peak with 3) / 996.
"""

import json
import statistics
import sys

from roughlink_validation import cli
from roughlink_validation.scenario import Scenario
from roughlink_validation.simulators import Failed, Ns3, Roughlink, delivered_packets

BASE = Scenario(bytes=0, segment=1448, send_size=1448, delay1_ms=10.0, delay2_ms=0.9)
# name -> scenario; the simulated time is ns-3's
CASES = {
    "1": BASE.with_(duration_s=60),
    "21": BASE.with_(groups=7, flows_per_group=3, duration_s=20),
    "21-burst": BASE.with_(groups=7, flows_per_group=3, duration_s=60, burst_start=0.02),
    "999": BASE.with_(groups=333, flows_per_group=3, duration_s=2),
}


def options():
    parser = cli.parser(__doc__)
    parser.add_argument("--case", nargs="+", choices=CASES, default=list(CASES), help="numbers of flows")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--stretch", type=float, default=10.0)
    parser.add_argument("--cc", default="newreno")
    parser.add_argument("--write", type=int, default=BASE.send_size, help="bytes that both applications write at once")
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument("--only", choices=("ns3", "roughlink"), help="run only this simulator")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def nanoseconds_per_packet(simulator, scenario: Scenario) -> float:
    if isinstance(simulator, Ns3):
        result = simulator.run(scenario, cached=False)
        cpu = result["user_s"]
    else:
        result = simulator.run(scenario)
        cpu = result["cpu_s"]
    packets = delivered_packets(result, scenario)
    if packets == 0:
        raise Failed(f"{simulator.name} delivered nothing")
    return cpu / packets * 1e9


def peak_rss_kb(simulator, scenario: Scenario) -> int:
    if isinstance(simulator, Ns3):
        return simulator.run(scenario, cached=False)["peak_rss_kb"]
    return simulator.run(scenario, watch_memory=True)["peak_rss_kb"]


def spread(values: list[float]) -> dict:
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def main() -> int:
    o = options()
    simulators = {}
    if o.only != "roughlink":
        simulators["ns3"] = Ns3()
    if o.only != "ns3":
        simulators["roughlink"] = Roughlink(o.roughlink)
    stretch = {"ns3": 1.0, "roughlink": o.stretch}
    cases = []
    for case in o.case:
        scenario = CASES[case].with_(cc=o.cc, send_size=o.write)
        costs = {name: [] for name in simulators}
        for turn in range(o.rounds):
            for name, simulator in simulators.items():
                cli.progress(f"{case} flows, round {turn + 1} of {o.rounds}, {simulator.name}")
                duration = scenario.duration_s * stretch[name]
                costs[name].append(nanoseconds_per_packet(simulator, scenario.with_(duration_s=duration)))
        entry = {"case": case, **{f"{name}_ns_per_packet": spread(values) for name, values in costs.items()}}
        if len(simulators) == 2:
            entry["ratio"] = spread([a / b for a, b in zip(costs["ns3"], costs["roughlink"])])
        cases.append(entry)
    memory = {}
    if not o.no_memory:
        many, few = CASES["999"].with_(cc=o.cc, duration_s=1), BASE.with_(cc=o.cc, flows_per_group=3, duration_s=1)
        for name, simulator in simulators.items():
            cli.progress(f"memory, {simulator.name}")
            # A run with few flows is over before its memory can be measured, so simulate it for longer. Once windows
            # are open, memory does not change with time.
            peaks = [peak_rss_kb(simulator, s.with_(duration_s=s.duration_s * stretch[name] * scale))
                     for s, scale in ((many, 1), (few, 100 if name == "roughlink" else 1))]
            memory[f"{name}_kb_per_flow"] = (peaks[0] - peaks[1]) / 996
    cli.progress_end()
    if o.json:
        print(json.dumps({"cases": cases, "memory": memory}, indent=1))
        return 0
    print(f"CPU per delivered packet, median [min .. max] of {o.rounds} rounds")
    print(f"{'flows':>9}  {'ns-3, us':>26}  {'roughlink, ns':>26}  {'times faster':>24}")
    for entry in cases:
        theirs = shown(entry.get("ns3_ns_per_packet"), 1e-3)
        ours = shown(entry.get("roughlink_ns_per_packet"), 1.0)
        print(f"{entry['case']:>9}  {theirs:>26}  {ours:>26}  {shown(entry.get('ratio'), 1.0):>24}")
    for name, kb in memory.items():
        print(f"memory, {name.removesuffix('_kb_per_flow')}: {kb:.1f} kB per flow")
    return 0


def shown(s: dict | None, scale: float) -> str:
    return "-" if s is None else f"{s['median'] * scale:.1f} [{s['min'] * scale:.1f} .. {s['max'] * scale:.1f}]"


if __name__ == "__main__":
    sys.exit(cli.guarded(main))
