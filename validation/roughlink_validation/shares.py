"""Shares of a queue: flows of several algorithms on one link, in simulation and between Linux kernels.

The link has 20 Mbit/s, 20 ms each way and no losses, so a run depends only on the algorithms and the start times of the
flows. Single runs are sensitive to these times, so the comparison uses means over the offsets.
"""

import csv
import os
import statistics
import sys
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from roughlink_validation import kernel
from roughlink_validation.matrix import append_line
from roughlink_validation.measuring import measure_each
from roughlink_validation.simulators import call, parse

RATE_MBIT, DELAY_MS, SECONDS = 20, 20, 30
# Largest difference of a flow's mean share of the goodput, and attempts to measure a run without a late link.
SHARE, TRIES = 0.05, 4
COLUMNS = ("algorithms", "queue_pkt", "apart_ms", "goodput_mbps", "retransmits", "queue_pkt_mean", "late_p50_us",
           "late_p99_us", "kernel")


@dataclass(frozen=True, order=True)
class Mix:
    """Flows that share a queue: their algorithms in the order of their starts."""

    algorithms: tuple[str, ...]
    queue_pkt: int
    apart_ms: int

    def __str__(self) -> str:
        return f"{', '.join(self.algorithms)}: queue of {self.queue_pkt}, starts {self.apart_ms} ms apart"

    def scenario(self, traffic: bool = True) -> str:
        """Returns the scenario: with flows for a simulation (`traffic`), or without them for programs at both nodes."""
        lines = [
            f'name = "{self}"',
            f'duration = "{SECONDS} s"',
            "[tcp]",
            'stack = "linux"',
            'write_size = "256 KiB"',  # like the sending program in kernel runs
            "[[node]]",
            'name = "server"',
            "[[node]]",
            'name = "client"',
            "[[link]]",
            'name = "link"',
            'between = ["server", "client"]',
            f'rate = "{RATE_MBIT} Mbit/s"',
            f'delay = "{DELAY_MS} ms"',
            f'queue = "{self.queue_pkt} pkt"',
        ]
        for number, cc in enumerate(self.algorithms if traffic else ()):
            lines += ["[[flow]]", f'name = "flow{number}"', 'kind = "bulk"', 'from = "server"', 'to = "client"',
                      f'cc = "{cc}"', f'start = "{number * self.apart_ms} ms"']
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Outcome:
    """Goodput and retransmissions of each flow, and the mean queue."""

    goodput_mbps: tuple[float, ...]
    retransmits: tuple[int, ...]
    queue_pkt_mean: float


@dataclass(frozen=True)
class Row:
    """A run of the kernel: one line of the table."""

    mix: Mix
    outcome: Outcome
    late_us: tuple[float, float]
    kernel: str


def mixes() -> list[Mix]:
    """Returns all mixes: every group of flows with the first offset, then every group with the next one."""
    pairs = [("cubic", "reno"), ("cubic", "bbr"), ("reno", "bbr")]
    short = [(p, 20) for pair in pairs for p in (pair, pair[::-1])]
    groups = [*short, (("bbr", "bbr"), 400), (("cubic", "reno", "bbr", "cubic"), 20), (("bbr",) * 4, 400)]
    offsets = (100, 300, 1000, 50, 170, 520)
    return [Mix(algorithms, queue, apart) for apart in offsets for algorithms, queue in groups]


def simulate(roughlink: Path, mix: Mix, settings: tuple[str, ...] = ()) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "shares.toml"
        file.write_text(mix.scenario())
        words = [str(roughlink), "run", str(file), "--json", "--quiet"]
        for setting in settings:
            words += ["--set", setting]
        result = parse("roughlink", call(words).stdout)
    flows = result["flows"]
    return Outcome(
        tuple(flow["delivered_bytes"] * 8 / SECONDS / 1e6 for flow in flows),
        tuple(flow["retransmits"] for flow in flows),
        result["links"][0]["forward"]["queue_mean_pkt"],
    )


def measure_one(roughlink: Path, mix: Mix) -> Row:
    flows = [(cc, number * mix.apart_ms / 1e3) for number, cc in enumerate(mix.algorithms)]
    run = kernel.transfer(roughlink, mix.scenario(traffic=False), flows, SECONDS, 1, 1000.0)
    last = {row["flow"]: row["retransmits"] for row in run.samples}
    outcome = Outcome(
        tuple(n * 8 / SECONDS / 1e6 for n in run.delivered),
        tuple(last[number] for number in range(len(mix.algorithms))),
        run.result["links"][0]["forward"]["queue_mean_pkt"] * run.result["sim_s"] / SECONDS,
    )
    return Row(mix, outcome, run.late_us, kernel.release())


def measure(roughlink: Path, table: Path, jobs: int) -> None:
    """Measures the mixes missing from the table, `jobs` at a time, and appends a line for each."""
    have = {row.mix for row in read(table)}

    def keep(mix: Mix, row: Row) -> None:
        append(table, row)
        print(f"{mix}: {' '.join(f'{g:.2f}' for g in row.outcome.goodput_mbps)} Mbit/s", file=sys.stderr, flush=True)

    todo = [mix for mix in mixes() if mix not in have]
    measure_each(todo, jobs, TRIES, lambda mix: measure_one(roughlink, mix), keep)


def read(table: Path) -> list[Row]:
    if not table.exists():
        return []
    rows = []
    with table.open(newline="") as stream:
        for line in csv.DictReader(stream):
            mix = Mix(tuple(line["algorithms"].split()), int(line["queue_pkt"]), int(line["apart_ms"]))
            outcome = Outcome(
                tuple(float(g) for g in line["goodput_mbps"].split()),
                tuple(int(r) for r in line["retransmits"].split()),
                float(line["queue_pkt_mean"]),
            )
            rows.append(Row(mix, outcome, (float(line["late_p50_us"]), float(line["late_p99_us"])), line["kernel"]))
    return rows


def append(table: Path, row: Row) -> None:
    o = row.outcome
    append_line(table, COLUMNS, [
        " ".join(row.mix.algorithms), row.mix.queue_pkt, row.mix.apart_ms,
        " ".join(f"{g:.3f}" for g in o.goodput_mbps), " ".join(map(str, o.retransmits)),
        f"{o.queue_pkt_mean:.2f}", *(f"{late:.1f}" for late in row.late_us), row.kernel,
    ])


def compare(roughlink: Path, table: Path, settings: tuple[str, ...] = ()) -> list[dict]:
    """Returns the means of both sides over the offsets for each group of flows, in the order of their starts."""
    rows = sorted(read(table), key=lambda row: row.mix)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        ours = list(pool.map(lambda row: simulate(roughlink, row.mix, settings), rows))
    groups = defaultdict(list)
    for row, here in zip(rows, ours, strict=True):
        groups[row.mix.algorithms, row.mix.queue_pkt].append((row.outcome, here))
    compared = []
    for (algorithms, queue), runs in groups.items():
        sides = [means([run[side] for run in runs]) for side in (0, 1)]
        totals = [sum(side["goodput_mbps"]) for side in sides]
        shares = [[g / total for g in side["goodput_mbps"]] for side, total in zip(sides, totals)]
        compared.append({
            "algorithms": algorithms,
            "queue_pkt": queue,
            "runs": len(runs),
            "difference": max(abs(a - b) for a, b in zip(*shares)),
            "total_ratio": totals[1] / totals[0],
            **{f"{name}_{key}": value for name, side in zip(("linux", "roughlink"), sides)
               for key, value in side.items()},
        })
    return compared


def means(outcomes: list[Outcome]) -> dict:
    return {
        "goodput_mbps": [statistics.fmean(g) for g in zip(*(o.goodput_mbps for o in outcomes))],
        "goodput_range_mbps": [(min(g), max(g)) for g in zip(*(o.goodput_mbps for o in outcomes))],
        "retransmits": [statistics.fmean(r) for r in zip(*(o.retransmits for o in outcomes))],
        "queue_pkt_mean": statistics.fmean(o.queue_pkt_mean for o in outcomes),
    }


def tables(groups: list[dict]) -> str:
    lines = [
        "| flows, in the order of their starts | queue | runs | Mbit/s, Linux | Mbit/s, roughlink "
        "| retransmissions, Linux | roughlink |",
        "|---" * 7 + "|",
    ]
    for g in groups:
        cells = [" + ".join(f"{x:.{digits}f}" for x in g[f"{side}_{key}"])
                 for key, digits in (("goodput_mbps", 1), ("retransmits", 0)) for side in ("linux", "roughlink")]
        lines.append(f"| {', '.join(g['algorithms'])} | {g['queue_pkt']} | {g['runs']} | " + " | ".join(cells) + " |")
    furthest = max(groups, key=lambda g: g["difference"])
    return "\n".join(lines) + (
        f"\n\nA flow's share differs from the kernel's by at most {furthest['difference']:.1%} of the total goodput "
        f"({', '.join(furthest['algorithms'])})."
    )


def show(groups: list[dict]) -> None:
    print(
        f"{'flows, in the order of their starts':<40}{'queue':>6}{'runs':>5}  "
        "goodput in Mbit/s: Linux | roughlink (retransmissions) | difference of shares"
    )
    for g in groups:
        sides = [" ".join(f"{x:.1f}" for x in g[f"{side}_goodput_mbps"]) + " ("
                 + " ".join(f"{x:.0f}" for x in g[f"{side}_retransmits"])
                 + f"; q {g[f'{side}_queue_pkt_mean']:.0f})" for side in ("linux", "roughlink")]
        print(
            f"{', '.join(g['algorithms']):<40}{g['queue_pkt']:>6}{g['runs']:>5}  "
            f"{sides[0]} | {sides[1]} | {g['difference']:.0%}"
        )
