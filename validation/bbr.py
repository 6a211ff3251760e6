#!/usr/bin/env python3
"""Comparison of BBR on the `ns3` stack with BBR of ns-3 3.44 over segment sizes, rates, delays and queues.

Each simulator sends an endless transfer over the two links of the other comparisons. A link's row has goodput,
retransmissions, and the mean queueing delay at the bottleneck, which is what BBR controls. BBR enters ProbeBW in a
random phase, which each simulator draws from its own generator. Each figure is therefore a mean of --runs runs; the
range of the single runs follows ns-3's queue.

Before ProbeBW nothing is random, so the segments are also compared one by one. Two segments agree if sequence, length
and retransmission are the same and the departures differ by at most 0.1 ms. The last column has the number of leading
segments that agree, and the time until which all do.
"""

import json
import statistics
import sys
import tempfile
from pathlib import Path

from roughlink_validation import cli
from roughlink_validation.scenario import Scenario
from roughlink_validation.simulators import Ns3, Roughlink, read_ns3_segments
from segments import same

HEADERS = 20 + 32 + 2  # IPv4, TCP with timestamps, PPP
BASE = Scenario(cc="bbr", bytes=0, duration_s=30, rate1_mbps=40, delay1_ms=1, delay2_ms=19, queue=1600,
                snd_buf=4 << 20, rcv_buf=4 << 20, min_rto_ms=200, link_overhead=2)
# name -> changes to the base scenario
LINKS = {
    "short": {},
    "long": {"delay2_ms": 149},
    "fast": {"rate1_mbps": 200, "rate2_mbps": 50, "delay2_ms": 9},
    "slow": {"rate2_mbps": 1, "delay2_ms": 30},
    "short queue": {"queue": 15},
    "loss": {"random_loss": 0.01},
}
# Largest difference of the mean RTT where nothing is lost, and of goodput.
DELAY_BOUND = 0.10
GOODPUT_BOUND = 0.05
TOLERANCE_US = 100


def options():
    parser = cli.parser(__doc__)
    parser.add_argument("--segment", nargs="+", type=int, default=[536, 1000, 1448], metavar="BYTES")
    parser.add_argument("--link", nargs="+", choices=LINKS, default=list(LINKS), metavar="NAME", help=", ".join(LINKS))
    parser.add_argument("--runs", type=int, default=4, help="runs per row and simulator")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--strict", action="store_true",
                        help=f"exit code 5 if a mean RTT without losses differs by more than {DELAY_BOUND:.0%}% or a "
                             f"goodput by more than {GOODPUT_BOUND:.0%}%")
    return parser.parse_args()


def measured(result: dict, scenario: Scenario, link: str) -> dict:
    bottleneck = next(each for each in result["links"] if each["name"] == link)["forward"]
    packet_ms = (scenario.segment + HEADERS) * 8 / scenario.rate2_mbps / 1000
    flow = result["flows"][0]
    return {
        "queue_ms": bottleneck["queue_mean_pkt"] * packet_ms,
        "goodput_mbps": flow["delivered_bytes"] * 8 / scenario.duration_s / 1e6,
        "retransmits": flow["retransmits"],
    }


def means(runs: list[dict]) -> dict:
    return {name: statistics.fmean(run[name] for run in runs) for name in runs[0]}


def agreement(ns3: Ns3, roughlink: Roughlink, scenario: Scenario) -> dict:
    """Returns the number of leading segments that agree, the departure time of the first one that does not, and the
    total."""
    short = scenario.with_(duration_s=min(5, scenario.duration_s))
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.csv"
        ns3.trace(short, trace, kinds="data")
        theirs = read_ns3_segments(trace)
    ours = roughlink.segments(short)
    pairs = zip(theirs, ours)
    agree = next((n for n, (a, b) in enumerate(pairs) if not same(a, b, TOLERANCE_US)), min(len(theirs), len(ours)))
    return {"same": agree, "of": len(theirs), "until_s": theirs[min(agree, len(theirs) - 1)].time_ns / 1e9}


def row(ns3: Ns3, roughlink: Roughlink, name: str, segment: int, runs: int) -> dict:
    scenario = BASE.with_(segment=segment, **LINKS[name])
    seeds = [scenario.with_(seed=seed) for seed in range(1, runs + 1)]
    theirs = [measured(ns3.run(each), scenario, "plc") for each in seeds]
    ours = [measured(roughlink.run(each), scenario, "plc") for each in seeds]
    base_ms = 2 * (scenario.delay1_ms + scenario.delay2_ms)
    a, b = means(theirs), means(ours)
    return {
        "link": name,
        "segment": segment,
        "ns3": a,
        "ns3_queue_ms_range": [min(r["queue_ms"] for r in theirs), max(r["queue_ms"] for r in theirs)],
        "roughlink": b,
        "rtt_error": (b["queue_ms"] - a["queue_ms"]) / (base_ms + a["queue_ms"]),
        "goodput_error": b["goodput_mbps"] / a["goodput_mbps"] - 1,
        "segments": agreement(ns3, roughlink, scenario),
    }


def line(r: dict) -> str:
    a, b, (low, high), s = r["ns3"], r["roughlink"], r["ns3_queue_ms_range"], r["segments"]
    queue = f"{b['queue_ms']:.1f}, {a['queue_ms']:.1f} ({low:.1f} to {high:.1f})"
    goodput = f"{b['goodput_mbps']:.3f}, {a['goodput_mbps']:.3f}"
    again = f"{b['retransmits']:.0f}, {a['retransmits']:.0f}"
    return (f"| {r['link']}, {r['segment']} B | {queue} | {r['rtt_error']:+.1%} | {goodput} | {again} "
            f"| {s['same']}, {s['until_s']:.3f} s |")


def is_beyond(r: dict) -> bool:
    # With losses the queue depends on when BBR's bandwidth estimate falls, so the queues of ns-3's runs differ by a
    # factor of three.
    lossless = r["ns3"]["retransmits"] == 0
    return lossless and abs(r["rtt_error"]) > DELAY_BOUND or abs(r["goodput_error"]) > GOODPUT_BOUND


def main() -> int:
    o = options()
    ns3, roughlink = Ns3(), Roughlink(o.roughlink)
    rows = []
    if not o.json:
        print(
            "| link, segment | queue ms: roughlink, ns-3 (range) | RTT off by | Mbit/s | retransmissions "
            "| segments that agree, until |"
        )
        print("|---|---|---|---|---|---|")
    for name in o.link:
        for segment in o.segment:
            rows.append(row(ns3, roughlink, name, segment, o.runs))
            if not o.json:
                print(line(rows[-1]), flush=True)
    if o.json:
        print(json.dumps(rows, indent=1))
    beyond = [r for r in rows if is_beyond(r)]
    if not o.json:
        print(
            f"{len(rows) - len(beyond)} of {len(rows)} rows within {DELAY_BOUND:.0%} of RTT "
            f"and {GOODPUT_BOUND:.0%} of goodput"
        )
    return cli.EXPECTATION if o.strict and beyond else 0


if __name__ == "__main__":
    sys.exit(cli.guarded(main))
