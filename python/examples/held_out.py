"""Links that are not used in training, and the comparison of algorithms on them: `learn.py evaluate`."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import roughlink as rl
from learn import Policy, between, cable

ALGORITHMS = ["learned", "cubic", "newreno", "newreno-sc", "illinois-aa", "bbr"]
"""Compared algorithms. Tables also have the differences of `learned` from CUBIC and BBR; the picture shows some of the
algorithms relative to CUBIC."""


@dataclass(frozen=True)
class Link:
    """A kind of link. `make` creates the scenario of a replica, with random values or from a built-in scenario."""

    name: str
    what: str
    make: Callable[[np.random.Generator], rl.Scenario]
    flow: str = "download"
    alike: bool = False
    """True if the other flow uses the same algorithm."""


def near(
    rate_mbps: float, delay_ms: float, loss_percent: float, queue: int, burst: int = 4
) -> Callable[[np.random.Generator], rl.Scenario]:
    """Returns a function that creates a cable. It multiplies the rate and the delay by random factors from 0.8 to
    1.25."""

    def make(random: np.random.Generator) -> rl.Scenario:
        rate, delay = (x * between(random, 0.8, 1.25) for x in (rate_mbps, delay_ms))
        return cable(round(rate, 3), round(delay, 3), loss_percent, queue, burst)

    return make


def fixed(name: str, **keys: object) -> Callable[[np.random.Generator], rl.Scenario]:
    """Returns a function that creates a built-in scenario with the Linux stack."""
    values = {"tcp.stack": "linux", **{key.replace("__", "."): str(value) for key, value in keys.items()}}
    return lambda random: rl.load(name).set(values)


def shared(loss_percent: float, start: str = "0 s") -> Callable[[np.random.Generator], rl.Scenario]:
    """Returns a function that creates a cable of about 10 Mbit/s with a second download, `other`, which uses CUBIC."""

    def make(random: np.random.Generator) -> rl.Scenario:
        one = near(10, 10, loss_percent, 100)(random)
        other = '\n[[flow]]\nname = "other"\nkind = "bulk"\nfrom = "server"\nto = "car"\ncc = "cubic"\n'
        other += f'start = "{start}"\n'
        return rl.scenario(one.text + other)

    return make


LINKS = [
    Link(
        "cable 1 %",
        "10 Mbit/s, 10 ms, 100 packets, 1 % in bursts of 1 to 4: within the ranges of training",
        near(10, 10, 1, 100),
    ),
    Link("cable 5 %", "the same with 5 %: more noise than in training", near(10, 10, 5, 100)),
    Link("cable, long bursts", "the same with 5 % in bursts of 1 to 16", near(10, 10, 5, 100, 16)),
    Link("fast cable", "50 Mbit/s, 10 ms, 200 packets, 2 %: a higher rate than in training", near(50, 10, 2, 200)),
    Link("slow cable", "1 Mbit/s, 10 ms, 10 packets, 2 %: a lower rate and a shorter queue", near(1, 10, 2, 10)),
    Link("far server", "10 Mbit/s, 100 ms, 100 packets, 1 %: a longer path", near(10, 100, 1, 100)),
    Link("clean cable", "10 Mbit/s, 10 ms, 100 packets, no noise", near(10, 10, 0, 100)),
    Link("clean, far server", "10 Mbit/s, 100 ms, 50 packets, no noise", near(10, 100, 0, 50)),
    Link(
        "Green PHY",
        "charging-download, the Green PHY cable with heavy noise: the modems retransmit, so TCP loses no packets",
        fixed(
            "charging-download",
            link__cable__noise='{ kind = "measured", class = "heavy" }',
            duration="60 s",
            flow__cable__bytes="unlimited",
        ),
        "cable",
    ),
    Link(
        "charging session",
        "charging-firmware: a download beside a charging session that waits at most 250 ms for an answer",
        fixed("charging-firmware"),
        "firmware",
    ),
    Link("satellite", "8 Mbit/s, 250 ms, 200 packets, 0.2 %", near(8, 250, 0.2, 200)),
    Link(
        "handover",
        "satellite-handover: 2 Mbit/s and 30 ms until 30 s, then 8 Mbit/s and 240 ms",
        fixed("satellite-handover"),
        "transfer",
    ),
    Link("train", "train-tunnels, 600 s: outages", fixed("train-tunnels", duration="600 s")),
    Link("with CUBIC, 1 %", "cable 1 % with a second download, under CUBIC", shared(1)),
    Link("with CUBIC, clean", "clean cable with a second download, under CUBIC", shared(0)),
    Link(
        "with its like, 1 %",
        "cable 1 % with a second download under the same algorithm, from 10 s on",
        shared(1, "10 s"),
        alike=True,
    ),
]


def metrics(flow: dict[str, Any], other: dict[str, Any] | None) -> dict[str, float]:
    """Returns the compared metrics of the flow, and of the run's other flow if there is one."""
    found = {
        "throughput, Mbit/s": flow["throughput_mbps"],
        "95th percentile of the round-trip time, ms": flow["rtt_ms"]["p95"],
        "segments that are retransmissions, %": 100 * flow["retransmits"] / flow["segments"],
    }
    if other and "session" in other:
        found["violated limits of the charging session"] = float(sum(other["session"]["violations"].values()))
    elif other:
        found["throughput of the other flow, Mbit/s"] = other["throughput_mbps"]
    return found


Samples = dict[str, list[dict[str, float]]]
"""Metrics of each replica, by algorithm."""


def measure(link: Link, replicas: Iterable[int]) -> Samples:
    """Runs every algorithm in every replica. All algorithms get the same link and random numbers in a replica."""
    found: Samples = {name: [] for name in ALGORITHMS}
    for replica in replicas:
        scenario = link.make(np.random.default_rng([SEED, replica]))
        for name in ALGORITHMS:
            both = {"flow.other.cc": name} if link.alike else {}
            result = scenario.set({f"flow.{link.flow}.cc": name, **both}).run(replica=SEED + replica).result
            flow = next(flow for flow in result["flows"] if flow["name"] == link.flow)
            other = next((flow for flow in result["flows"] if flow["name"] in ("other", "session")), None)
            found[name].append(metrics(flow, other))
    return found


SEED = 2_000_000
"""First seed of the evaluation; training uses other seeds."""


def row(found: Samples, metric: str) -> list[str]:
    """Formats the mean of each algorithm, and the differences of `learned` from CUBIC and BBR in the same replicas."""
    cells = [f"{rl.Estimate.of_samples([sample[metric] for sample in found[name]]).mean:.3g}" for name in ALGORITHMS]
    for name in ("cubic", "bbr"):
        pairs = zip(found["learned"], found[name], strict=True)
        difference = rl.Estimate.of_samples([mine[metric] - its[metric] for mine, its in pairs])
        low, high = difference.interval()
        cells.append(
            f"{difference.mean:+.3g}" + ("" if low is None or high is None else f" ({low:+.3g} to {high:+.3g})")
        )
    return cells


def evaluate(policy: Policy, replicas: int, names: list[str] | None, picture: Path | None) -> int:
    """Runs the command `evaluate`: prints a Markdown table for each metric."""
    known = [link.name for link in LINKS]
    for name in names or ():
        if name not in known:
            print(f"learn.py: unknown link {name!r}; expected one of {', '.join(known)}", file=sys.stderr)
            return 2
    rl.register("learned", policy.algorithm)
    measured: list[tuple[Link, Samples]] = []
    for link in LINKS:
        if names is None or link.name in names:
            print(f"{link.name}: {link.what}", file=sys.stderr, flush=True)
            measured.append((link, measure(link, range(replicas))))
    for metric in dict.fromkeys(metric for _, found in measured for metric in found["cubic"][0]):
        print(f"\n{metric}, mean of {replicas} replicas; differences with 95 % intervals:\n")
        print("| link | " + " | ".join(ALGORITHMS) + " | learned - cubic | learned - bbr |")
        print("|---|" + "---|" * (len(ALGORITHMS) + 2))
        for link, found in [(link, found) for link, found in measured if metric in found["cubic"][0]]:
            print("| " + " | ".join([link.name, *row(found, metric)]) + " |")
    if picture:
        draw(measured, picture)
    return 0


def draw(measured: list[tuple[Link, Samples]], path: Path) -> None:
    """Draws results relative to CUBIC in the same replicas: geometric means with their 95 % intervals."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shown = {
        "learned": ("#1f5fa8", "o", 8.0),
        "bbr": ("#c8571b", "s", 6.0),
        "illinois-aa": ("#3a8f4d", "^", 6.0),
        "newreno-sc": ("#8a8a8a", "D", 5.0),
    }
    titles = {
        "throughput, Mbit/s": "Throughput",
        "95th percentile of the round-trip time, ms": "Round-trip time, 95th percentile",
    }
    figure, both = plt.subplots(2, 1, figsize=(7, 13), layout="constrained")
    for axes, (metric, title) in zip(both, titles.items(), strict=True):
        for y, (_, found) in enumerate(measured):
            for i, (name, (color, marker, size)) in enumerate(shown.items()):
                pairs = zip(found[name], found["cubic"], strict=True)
                ratio = rl.Estimate.of_samples([math.log(mine[metric] / its[metric]) for mine, its in pairs])
                low, high = ratio.interval()
                at = y + (i - 1.5) * 0.18
                middle = math.exp(ratio.mean or 0.0)
                if low is not None and high is not None:
                    axes.plot([math.exp(low), math.exp(high)], [at, at], color=color, linewidth=2)
                axes.plot([middle], [at], marker, color=color, markersize=size, label=name if y == 0 else None)
        axes.axvline(1, color="black", linewidth=1)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
        axes.set_yticks(range(len(measured)), [link.name for link, _ in measured], fontsize=13)
        axes.invert_yaxis()
        for y in range(1, len(measured)):
            axes.axhline(y - 0.5, color="#dddddd", linewidth=0.8)
        axes.set_title(f"{title} (CUBIC's is 1)", fontsize=14, loc="left")
        axes.tick_params(axis="x", labelsize=13)
        axes.spines[["top", "right"]].set_visible(False)
    figure.legend(*both[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=13, frameon=False)
    figure.savefig(path, dpi=200)
