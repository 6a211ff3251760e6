#!/usr/bin/env python3
"""Comparison of roughlink with ns-3 3.44 on random networks: 24 seeds, 8 MB, SACK on and off.

Each seed draws the rate of the slow link (2 to 50 Mbit/s), its queue, both delays and the probability that a burst of
losses starts (0 to 1.2 %). The output is the median of roughlink / ns-3 throughput and the spread of single pairs: the
90th percentile of max(r, 1/r). The two simulators draw different losses, so pairs differ even if the models are the
same. Each throughput is therefore the mean of --runs runs. A comparison of ns-3 with itself under other random streams
gives the noise floor.
"""

import json
import random
import sys

from roughlink_validation import cli
from roughlink_validation.scenario import VARIANTS, Scenario
from roughlink_validation.simulators import Ns3, Roughlink, throughput

OTHER_STREAM = 1000  # added to the seed for the second ns-3 run


def options():
    parser = cli.parser(__doc__)
    parser.add_argument("--seeds", type=int, default=24)
    parser.add_argument("--runs", type=int, default=6, help="runs per network and simulator, averaged")
    parser.add_argument("--bytes", type=int, default=8_000_000)
    parser.add_argument("--cc", choices=VARIANTS, default="newreno", metavar="NAME", help=", ".join(VARIANTS))
    parser.add_argument("--segment", type=int, default=1448)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--strict", type=float, metavar="FACTOR",
                        help="exit code 5 unless the medians lie within FACTOR, e.g. 1.05")
    parser.add_argument(
        "--noise-floor-only", action="store_true", help="compare ns-3 with itself; roughlink is not needed"
    )
    return parser.parse_args()


def draw(seed: int, o) -> Scenario:
    luck = random.Random(f"differential {seed}")
    rate = round(2 * 25 ** luck.random(), 3)
    return Scenario(
        cc=o.cc,
        bytes=o.bytes,
        segment=o.segment,
        seed=seed,
        rate2_mbps=rate,
        delay1_ms=round(luck.uniform(1, 60), 3),
        delay2_ms=round(luck.uniform(0.1, 5), 3),
        queue=luck.choice((50, 100, 200)),
        burst_start=round(luck.uniform(0, 0.012), 6),
    )


def mean_throughput(simulator, scenario: Scenario, runs: int, stream: int = 0) -> float:
    seeds = (scenario.seed * 10_000 + stream + run for run in range(runs))
    return sum(throughput(simulator.run(scenario.with_(seed=seed))) for seed in seeds) / runs


def summary(ratios: list[float]) -> dict:
    return {
        "median": cli.quantile(ratios, 0.5),
        "geometric_mean": cli.geometric_mean(ratios),
        "p90_stray": cli.quantile([max(r, 1 / r) for r in ratios], 0.9),
    }


def main() -> int:
    o = options()
    ns3 = Ns3()
    roughlink = None if o.noise_floor_only else Roughlink(o.roughlink)
    pairs = []
    for sack in (True, False):
        for seed in range(1, o.seeds + 1):
            scenario = draw(seed, o).with_(sack=sack)
            cli.progress(f"sack {'on' if sack else 'off'}, seed {seed} of {o.seeds}")
            pair = {
                "seed": seed,
                "sack": sack,
                "rate_mbps": scenario.rate2_mbps,
                "rtt_ms": 2 * (scenario.delay1_ms + scenario.delay2_ms),
                "queue_pkt": scenario.queue,
                "burst_start": scenario.burst_start,
                "ns3_mbps": mean_throughput(ns3, scenario, o.runs),
                "ns3_again_mbps": mean_throughput(ns3, scenario, o.runs, OTHER_STREAM),
            }
            if roughlink:
                pair["roughlink_mbps"] = mean_throughput(roughlink, scenario, o.runs)
            pairs.append(pair)
    cli.progress_end()

    groups = {}
    for sack in (True, False):
        chosen = [pair for pair in pairs if pair["sack"] == sack]
        name = "sack on" if sack else "sack off"
        groups[f"ns-3 / ns-3, {name}"] = summary([p["ns3_again_mbps"] / p["ns3_mbps"] for p in chosen])
        if roughlink:
            groups[f"roughlink / ns-3, {name}"] = summary([p["roughlink_mbps"] / p["ns3_mbps"] for p in chosen])
    if o.json:
        print(
            json.dumps(
                {"cc": o.cc, "bytes": o.bytes, "segment": o.segment, "summary": groups, "pairs": pairs}, indent=1
            )
        )
    else:
        print(f"{o.cc}, {o.seeds} random networks, {o.bytes / 1e6:g} MB each, means of {o.runs} runs")
        print(f"{'':<28}{'median':>8}{'geo. mean':>11}{'p90 spread':>11}")
        for name, s in groups.items():
            print(f"{name:<28}{s['median']:>8.3f}{s['geometric_mean']:>11.3f}{s['p90_stray']:>10.2f}x")
    if o.strict and roughlink:
        medians = [s["median"] for name, s in groups.items() if name.startswith("roughlink")]
        return 0 if all(1 / o.strict <= m <= o.strict for m in medians) else cli.EXPECTATION
    return 0


if __name__ == "__main__":
    sys.exit(cli.guarded(main))
