#!/usr/bin/env python3
"""Comparison of CPU time per delivered packet and of memory per flow of roughlink, ns-3 3.44 and csg-htsim.

Groups of up to three flows share one chain of links; groups share nothing. Rounds alternate between the simulators, and
the result is the median of the rounds' ratios, because a busy machine affects all. Only the event loop counts. The
peers report its user CPU time; for roughlink, the CPU time of a process without packets is subtracted. roughlink and
htsim simulate longer than ns-3, because their runs would be too short to be timed. Applications write whole segments
unless --write is 512, ns-3's default, which costs ns-3 time and memory.

htsim has neither SACK nor delayed ACKs. Because it acknowledges every packet, roughlink also runs with an ACK for each
packet. The script fetches and compiles htsim with git, or takes it from --htsim. A missing simulator is left out, with
the reason. ns-3 is left out with 9,999 flows, where a run takes minutes.

Memory per flow is the difference of peaks over the difference of flows, from 3 to 999 and from 999 to 9,999 flows.
--page writes the tables into docs/validation/speed.md.
"""

import json
import os
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

from roughlink_validation import cli, page
from roughlink_validation.scenario import Scenario
from roughlink_validation.simulators import Failed, Htsim, Missing, Ns3, Roughlink, delivered_packets

PAGE = Path(__file__).resolve().parent.parent / "docs" / "validation" / "speed.md"
BASE = Scenario(bytes=0, segment=1448, send_size=1448, delay1_ms=10.0, delay2_ms=0.9)
# End of a run in which no packet arrives.
NOTHING_S = 0.001


@dataclass(frozen=True)
class Case:
    """A workload with the time that ns-3 simulates; the others simulate `stretch` times as long."""

    scenario: Scenario
    stretch: float = 10.0
    ns3: bool = True


CASES = {
    "1": Case(BASE.with_(duration_s=60)),
    "21": Case(BASE.with_(groups=7, flows_per_group=3, duration_s=20)),
    "21-burst": Case(BASE.with_(groups=7, flows_per_group=3, duration_s=60, burst_start=0.02)),
    "999": Case(BASE.with_(groups=333, flows_per_group=3, duration_s=2), stretch=5.0),
    "9999": Case(BASE.with_(groups=3333, flows_per_group=3, duration_s=2), stretch=1.0, ns3=False),
}
# roughlink with an ACK for each packet
EACH_ACK = "each_ack"
# ratio -> the simulator that takes longer, the one that it is compared with
RATIOS = {"ns3": ("ns3", "roughlink"), "htsim": ("htsim", "roughlink"), "htsim_each_ack": ("htsim", EACH_ACK)}
# Steps of the memory: number of flows -> groups before and after
STEPS = {"999": (1, 333), "9999": (333, 3333)}


def options():
    parser = cli.parser(__doc__)
    parser.add_argument("--case", nargs="+", choices=CASES, default=list(CASES), help="numbers of flows")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cc", default="newreno", help="congestion control of roughlink and ns-3")
    parser.add_argument("--write", type=int, default=BASE.send_size, help="bytes that applications write at once")
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument("--only", nargs="+", choices=("ns3", "htsim", "roughlink"), help="run only these simulators")
    parser.add_argument("--htsim", type=Path, metavar="PATH", help="a git repository or checkout of csg-htsim")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--page", action="store_true", help="write the tables into docs/validation/speed.md")
    return parser.parse_args()


def simulators(o) -> tuple[dict, dict[str, str]]:
    """Returns the simulators by name, and why others are missing."""
    makers = {"ns3": Ns3, "htsim": lambda: Htsim(o.htsim), "roughlink": lambda: Roughlink(o.roughlink)}
    found, missing = {}, {}
    for name in o.only or makers:
        try:
            found[name] = makers[name]()
        except Missing as why:
            if name == "roughlink" or o.only:
                raise
            missing[name] = str(why)
    return found, missing


def cpu_s(simulator, scenario: Scenario) -> tuple[float, dict]:
    """Returns the CPU time of the event loop, and the result."""
    if isinstance(simulator, Roughlink):
        result, start = simulator.run(scenario), simulator.run(scenario.with_(duration_s=NOTHING_S))
        return result["cpu_s"] - start["cpu_s"], result
    result = simulator.run(scenario, cached=False) if isinstance(simulator, Ns3) else simulator.run(scenario)
    return result["user_s"], result


def nanoseconds_per_packet(simulator, scenario: Scenario) -> float:
    cpu, result = cpu_s(simulator, scenario)
    packets = delivered_packets(result, scenario)
    if packets == 0:
        raise Failed(f"{simulator.name} delivered nothing")
    return cpu / packets * 1e9


def measure(o, case: str, found: dict) -> dict:
    """Returns the spread of each simulator's cost, and of the ratios of the same round."""
    kind = CASES[case]
    scenario = kind.scenario.with_(cc=o.cc, send_size=o.write)
    longer = scenario.with_(duration_s=scenario.duration_s * kind.stretch)
    turns = {name: (simulator, scenario if name == "ns3" else longer) for name, simulator in found.items()
             if kind.ns3 or name != "ns3"}
    if {"htsim", "roughlink"} <= turns.keys():
        turns[EACH_ACK] = (found["roughlink"], longer.with_(delayed_ack=1))
    costs = {name: [] for name in turns}
    for turn in range(o.rounds):
        for name, (simulator, work) in turns.items():
            cli.progress(f"{case} flows, round {turn + 1} of {o.rounds}, {simulator.name}")
            costs[name].append(nanoseconds_per_packet(simulator, work))
    entry = {"case": case, "ns_per_packet": {name: spread(values) for name, values in costs.items()}}
    entry["ratio"] = {name: spread([a / b for a, b in zip(costs[slow], costs[fast])])
                      for name, (slow, fast) in RATIOS.items() if slow in costs and fast in costs}
    return entry


def peak_rss_kb(simulator, scenario: Scenario) -> int:
    option = {"roughlink": {"watch_memory": True}, "ns-3": {"cached": False}}.get(simulator.name, {})
    return simulator.run(scenario, **option)["peak_rss_kb"]


def memory(o, found: dict) -> dict[str, dict[str, float]]:
    """Returns kB per flow by simulator and by the larger number of flows."""
    all = {}
    for name, simulator in found.items():
        for case, groups in STEPS.items():
            if name == "ns3" and not CASES[case].ns3:
                continue
            cli.progress(f"memory, {simulator.name}, {case} flows")
            few, many = (BASE.with_(cc=o.cc, groups=n, flows_per_group=3, duration_s=seconds(name, n)) for n in groups)
            flows = 3 * (many.groups - few.groups)
            all.setdefault(name, {})[case] = (peak_rss_kb(simulator, many) - peak_rss_kb(simulator, few)) / flows
    return all


def seconds(name: str, groups: int) -> float:
    """Returns the time to simulate for the memory. Once windows are open, memory does not change with time, but a
    short run of roughlink is over before it can be measured."""
    return max(1.0, 1000 / groups) if name == "roughlink" else 1.0


def spread(values: list[float]) -> dict:
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def shown(s: dict | None, scale: float = 1.0, digits: int = 0) -> str:
    number = lambda key: f"{s[key] * scale:,.{digits}f}"
    return "" if s is None else f"{number('median')} ({number('min')} to {number('max')})"


def text(results: dict) -> str:
    rows = [["flows", "burst start", "ns-3, us", "htsim, ns", "roughlink, ns", "with an ACK per packet",
             "faster than ns-3", "than htsim", "than htsim, ACK per packet"]]
    for entry in results["cases"]:
        flows, _, burst = entry["case"].partition("-")
        cost, ratio = entry["ns_per_packet"], entry["ratio"]
        rows.append([f"{int(flows):,}", "2 %" if burst else "0", shown(cost.get("ns3"), 1e-3, 1),
                     *(shown(cost.get(name)) for name in ("htsim", "roughlink", EACH_ACK)),
                     *(shown(ratio.get(name), digits=0 if name == "ns3" else 1) for name in RATIOS)])
    parts = [f"Cost per delivered packet, median (range) of {results['rounds']} rounds on {results['machine']} with "
             f"{os.cpu_count()} cores and a load of {results['load']:.0f}; {results['cc']}:", page.table(rows)]
    parts += [f"{name} was left out: {why}." for name, why in results["missing"].items()]
    if results["memory"]:
        rows = [["kB per flow", "from 3 to 999 flows", "from 999 to 9,999"]]
        rows += [[{"ns3": "ns-3"}.get(name, name), *(f"{by[case]:.1f}" if case in by else "" for case in STEPS)]
                 for name, by in results["memory"].items()]
        parts.append(page.table(rows))
    return "\n\n".join(parts)


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return os.uname().machine


def main() -> int:
    o = options()
    found, missing = simulators(o)
    results = {"machine": processor(), "rounds": o.rounds, "cc": o.cc, "missing": missing}
    results["cases"] = [measure(o, case, found) for case in o.case]
    results["memory"] = {} if o.no_memory else memory(o, found)
    results["load"] = os.getloadavg()[2]
    cli.progress_end()
    print(json.dumps(results, indent=1) if o.json else text(results))
    if o.page:
        page.renew(PAGE, "speed.py", text(results))
    return 0


if __name__ == "__main__":
    sys.exit(cli.guarded(main))
