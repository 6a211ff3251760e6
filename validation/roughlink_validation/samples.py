"""RTT samples of the algorithm and needless retransmissions, in simulation and in the kernel.

The kernel reports its smoothed RTT before each acknowledgment (trace event `tcp_probe`); two consecutive values give
the sample between them. On both sides, the needless retransmissions are those in excess of the packets that the link
lost or dropped.
"""

import csv
import re
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from roughlink_validation import cli, kernel
from roughlink_validation.simulators import Failed, Missing, call, parse

ALGORITHMS = ("reno", "cubic", "bbr")
SEEDS, SECONDS, TRIES = (1, 2, 3), 15, 4
# Largest relative difference of the mean RTT, and largest difference of the share of needless segments.
RTT, NEEDLESS = 0.25, 0.02
EVENT = re.compile(r"dest=\S*:7000 .* srtt=(\d+) ")


@dataclass(frozen=True)
class Link:
    """A link of 20 Mbit/s and 33 ms each way with a queue of 200 packets."""

    name: str
    keys: tuple[str, ...]


def burst(mean: str) -> str:
    return f'noise = {{ kind = "burst", mean = "{mean} %", length = [1, 4], direction = "forward" }}'


def jitter(ms: int) -> tuple[str, ...]:
    return f'jitter = "{ms} ms"', "reorder = true", 'asymmetric = { delay = "33 ms", jitter = "0 s", reorder = false }'


LINKS = (
    Link("1 % loss in bursts", (burst("1"),)),
    Link("2 ms of jitter", jitter(2)),
    Link("2 ms of jitter, 0.1 % loss", (*jitter(2), burst("0.1"))),
)


@dataclass(frozen=True)
class Outcome:
    """Goodput, RTT samples in ms, and retransmissions."""

    goodput_mbps: float
    rtt_min_ms: float
    rtt_mean_ms: float
    rtt_p99_ms: float
    rtt_max_ms: float
    segments: int
    retransmits: int
    needless: int


OUTCOME = [f.name for f in fields(Outcome)]


def scenario(link: Link, cc: str, traffic: bool) -> str:
    lines = ['name = "samples of the RTT"', f'duration = "{SECONDS} s"', "[tcp]", 'stack = "linux"', f'cc = "{cc}"',
             'write_size = "256 KiB"', "[[node]]", 'name = "server"', "[[node]]", 'name = "client"', "[[link]]", 'name = "link"',
             'between = ["server", "client"]', 'rate = "20 Mbit/s"', 'delay = "33 ms"', 'queue = "200 pkt"', *link.keys]
    if traffic:
        lines += ["[[flow]]", 'name = "download"', 'kind = "bulk"', 'from = "server"', 'to = "client"']
    return "\n".join(lines) + "\n"


def simulate(roughlink: Path, link: Link, cc: str, seed: int) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "samples.toml"
        file.write_text(scenario(link, cc, True))
        result = parse("roughlink", call([str(roughlink), "run", str(file), "--json", "--quiet", "--seed", str(seed)]).stdout)
    flow, forward = result["flows"][0], result["links"][0]["forward"]
    rtt = flow["rtt_ms"]
    return Outcome(flow["delivered_bytes"] * 8 / SECONDS / 1e6, rtt["min"], rtt["mean"], rtt["p99"], rtt["max"],
                   forward["packets"], flow["retransmits"], flow["retransmits"] - forward["lost"] - forward["dropped"])


def measure_one(roughlink: Path, link: Link, cc: str, seed: int) -> tuple[Outcome, str]:
    with tempfile.TemporaryDirectory() as folder:
        mount = Path(folder) / "trace"
        mount.mkdir()
        if subprocess.run(["mount", "-t", "tracefs", "none", str(mount)], capture_output=True, check=False).returncode:
            raise Missing("trace events of the kernel need root and tracefs")
        try:
            event = mount / "events" / "tcp" / "tcp_probe"
            (event / "filter").write_text("dport == 7000")
            (mount / "buffer_size_kb").write_text("65536")
            (mount / "trace").write_text("")
            (event / "enable").write_text("1")
            try:
                run = kernel.transfer(roughlink, scenario(link, cc, False), [cc], SECONDS, seed, 1650.0)
            finally:
                (event / "enable").write_text("0")
            with (mount / "trace").open() as stream:
                smoothed = [int(found[1]) for line in stream if (found := EVENT.search(line))]
            (event / "filter").write_text("0")
            (mount / "trace").write_text("")
        finally:
            subprocess.run(["umount", str(mount)], check=True)
    # srtt = 7/8 srtt + 1/8 sample.
    samples = [(8 * after - 7 * before) / 1e3 for before, after in zip(smoothed, smoothed[1:]) if before and before != after]
    if not samples:
        raise Failed("the kernel's trace has no event")
    last, forward = run.samples[-1], run.result["links"][0]["forward"]
    lost = forward["lost"] + forward["dropped"]
    return Outcome(sum(run.delivered) * 8 / SECONDS / 1e6, last["min_rtt_ms"], statistics.fmean(samples), cli.quantile(samples, 0.99),
                   max(samples), forward["packets"], last["retransmits"], last["retransmits"] - lost), kernel.release()


def measure(roughlink: Path, table: Path) -> None:
    """Measures the runs missing from the table, one after the other, and appends a line for each."""
    have = set(read(table))
    for seed in SEEDS:
        for link in LINKS:
            for cc in ALGORITHMS:
                if (link.name, cc, seed) in have:
                    continue
                for _ in range(TRIES):
                    try:
                        outcome, release = measure_one(roughlink, link, cc, seed)
                    except kernel.Late:
                        continue
                    append(table, (link.name, cc, seed), outcome, release)
                    print(f"{link.name}, {cc}, seed {seed}: {outcome}", file=sys.stderr, flush=True)
                    break


def append(table: Path, key: tuple[str, str, int], outcome: Outcome, release: str) -> None:
    new = not table.exists()
    with table.open("a", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        if new:
            writer.writerow(["link", "cc", "seed", *OUTCOME, "kernel"])
        writer.writerow([*key, *(f"{v:.3f}" if isinstance(v, float) else v for v in astuple(outcome)), release])


def read(table: Path) -> dict[tuple[str, str, int], Outcome]:
    if not table.exists():
        return {}
    with table.open(newline="") as stream:
        return {(line["link"], line["cc"], int(line["seed"])): Outcome(*(f.type(line[f.name]) for f in fields(Outcome)))
                for line in csv.DictReader(stream)}


def compare(roughlink: Path, table: Path) -> list[dict]:
    """Returns the means of both sides over the seeds, and the largest RTT sample of all seeds."""
    links, groups = {link.name: link for link in LINKS}, defaultdict(list)
    order = [(link.name, cc, seed) for link in LINKS for cc in ALGORITHMS for seed in SEEDS]
    rows = read(table)
    for (name, cc, seed), theirs in ((key, rows[key]) for key in order if key in rows):
        groups[name, cc].append((theirs, simulate(roughlink, links[name], cc, seed)))
    return [{"link": name, "cc": cc, "runs": len(runs), **{
        f"{side}_{key}": (max if key == "rtt_max_ms" else statistics.fmean)(getattr(run[number], key) for run in runs)
        for number, side in enumerate(("linux", "roughlink")) for key in OUTCOME}} for (name, cc), runs in groups.items()]


def within(rows: list[dict]) -> bool:
    """Returns true if the mean RTT and the share of needless retransmissions are within their bounds."""
    return all(abs(r["roughlink_rtt_mean_ms"] / r["linux_rtt_mean_ms"] - 1) <= RTT
               and abs(r["roughlink_needless"] / r["roughlink_segments"] - r["linux_needless"] / r["linux_segments"]) <= NEEDLESS
               for r in rows)


def show(rows: list[dict]) -> None:
    print(f"{'link':<28}{'cc':<7}{'Mbit/s':^15}{'RTT min':^15}{'mean':^15}{'p99':^15}{'max, ms':^15}{'retransmissions':^17}{'needless':^14}")
    for r in rows:
        pairs = [(f"{r['linux_' + key]:.{digits}f}", f"{r['roughlink_' + key]:.{digits}f}") for key, digits in (
            ("goodput_mbps", 2), ("rtt_min_ms", 1), ("rtt_mean_ms", 1), ("rtt_p99_ms", 1), ("rtt_max_ms", 1), ("retransmits", 0), ("needless", 0))]
        print(f"{r['link']:<28}{r['cc']:<7}" + "".join(f"{a:>8}{b:>7}" for a, b in pairs))


def tables(rows: list[dict]) -> str:
    lines = ["| link | algorithm | Mbit/s | mean RTT, ms | 99th percentile | largest | retransmissions | needless |", "|---" * 8 + "|"]
    for r in rows:
        cells = [f"{r['linux_' + key]:.{digits}f} / {r['roughlink_' + key]:.{digits}f}" for key, digits in (
            ("goodput_mbps", 1), ("rtt_mean_ms", 1), ("rtt_p99_ms", 1), ("rtt_max_ms", 1), ("retransmits", 0), ("needless", 0))]
        lines.append(f"| {r['link']} | {r['cc']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)
