"""RTT samples of the algorithm and needless retransmissions, in simulation and in the kernel.

The kernel reports its smoothed RTT before each acknowledgment (trace event `tcp_probe`); two consecutive values give
the sample between them. The receiver also rejects segments with an old timestamp (PAWS, RFC 7323), which the sender
must then retransmit. The needless retransmissions are those in excess of the packets that the link lost or dropped and
of the segments that the receiver rejected.
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
from roughlink_validation.matrix import append_line
from roughlink_validation.simulators import Failed, Missing, call, parse

ALGORITHMS = ("reno", "cubic", "bbr")
SEEDS, TRIES = (1, 2, 3), 4
# Largest relative difference of the mean RTT, and largest difference of the share of needless segments.
RTT, NEEDLESS = 0.05, 0.002
# Emulations on this machine may share the destination port, so the source port selects the connection.
EVENT = re.compile(r" src=\S*:(\d+) dest=\S*:7000 .* srtt=(\d+) ")


@dataclass(frozen=True)
class Link:
    """A link of 20 Mbit/s and 33 ms each way with a queue of 200 packets."""

    name: str
    seconds: int
    keys: tuple[str, ...]


def burst(mean: str) -> str:
    return f'noise = {{ kind = "burst", mean = "{mean} %", length = [1, 4], direction = "forward" }}'


def jitter(ms: int) -> tuple[str, ...]:
    return f'jitter = "{ms} ms"', "reorder = true", 'asymmetric = { delay = "33 ms", jitter = "0 s", reorder = false }'


LINKS = (
    Link("1 % loss in bursts", 15, (burst("1"),)),
    Link("2 ms of jitter", 60, jitter(2)),
    Link("2 ms of jitter, 0.1 % loss", 60, (*jitter(2), burst("0.1"))),
)


@dataclass(frozen=True)
class Outcome:
    """Goodput, RTT samples in ms, retransmissions, and segments that the receiver rejected (PAWS)."""

    goodput_mbps: float
    rtt_min_ms: float
    rtt_mean_ms: float
    rtt_p99_ms: float
    rtt_max_ms: float
    segments: int
    retransmits: int
    rejected: int
    needless: int


OUTCOME = [f.name for f in fields(Outcome)]


def scenario(link: Link, cc: str, traffic: bool) -> str:
    lines = ['name = "samples of the RTT"', f'duration = "{link.seconds} s"',
             "[tcp]", 'stack = "linux"', f'cc = "{cc}"', 'write_size = "256 KiB"',
             "[[node]]", 'name = "server"', "[[node]]", 'name = "client"', "[[link]]", 'name = "link"',
             'between = ["server", "client"]', 'rate = "20 Mbit/s"', 'delay = "33 ms"', 'queue = "200 pkt"', *link.keys]
    if traffic:
        lines += ["[[flow]]", 'name = "download"', 'kind = "bulk"', 'from = "server"', 'to = "client"']
    return "\n".join(lines) + "\n"


def simulate(roughlink: Path, link: Link, cc: str, seed: int) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "samples.toml"
        file.write_text(scenario(link, cc, True))
        result = parse(
            "roughlink", call([str(roughlink), "run", str(file), "--json", "--quiet", "--seed", str(seed)]).stdout
        )
    flow, forward = result["flows"][0], result["links"][0]["forward"]
    rtt, rejected = flow["rtt_ms"], flow["paws_rejected"]
    needless = flow["retransmits"] - forward["lost"] - forward["dropped"] - rejected
    return Outcome(flow["delivered_bytes"] * 8 / link.seconds / 1e6, rtt["min"], rtt["mean"], rtt["p99"], rtt["max"],
                   forward["packets"], flow["retransmits"], rejected, needless)


def measure_one(roughlink: Path, link: Link, cc: str, seed: int) -> tuple[Outcome, str]:
    with tempfile.TemporaryDirectory() as folder:
        mount = Path(folder) / "trace"
        mount.mkdir()
        if subprocess.run(["mount", "-t", "tracefs", "none", str(mount)], capture_output=True, check=False).returncode:
            raise Missing("reading the kernel's trace events needs root and tracefs")
        try:
            event = mount / "events" / "tcp" / "tcp_probe"
            (event / "filter").write_text("dport == 7000")
            (mount / "buffer_size_kb").write_text("65536")
            (mount / "trace").write_text("")
            (event / "enable").write_text("1")
            try:
                run = kernel.transfer(roughlink, scenario(link, cc, False), [(cc, 0)], link.seconds, seed, 1650.0)
            finally:
                (event / "enable").write_text("0")
            with (mount / "trace").open() as stream:
                smoothed = [int(found[2]) for line in stream
                            if (found := EVENT.search(line)) and int(found[1]) in run.ports]
            (event / "filter").write_text("0")
            (mount / "trace").write_text("")
        finally:
            subprocess.run(["umount", str(mount)], check=True)
    # srtt = 7/8 srtt + 1/8 sample.
    samples = [(8 * after - 7 * before) / 1e3 for before, after in zip(smoothed, smoothed[1:])
               if before and before != after]
    if not samples:
        raise Failed("the kernel's trace has no `tcp_probe` event")
    last, forward = run.samples[-1], run.result["links"][0]["forward"]
    rejected, lost = run.counters["PAWSEstab"], forward["lost"] + forward["dropped"]
    return Outcome(sum(run.delivered) * 8 / link.seconds / 1e6, last["min_rtt_ms"], statistics.fmean(samples),
                   cli.quantile(samples, 0.99), max(samples), forward["packets"], last["retransmits"], rejected,
                   last["retransmits"] - lost - rejected), kernel.release()


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
                    except kernel.LateLink:
                        continue
                    append(table, (link.name, cc, seed), outcome, release)
                    print(f"{link.name}, {cc}, seed {seed}: {outcome}", file=sys.stderr, flush=True)
                    break


def append(table: Path, key: tuple[str, str, int], outcome: Outcome, release: str) -> None:
    values = [f"{v:.3f}" if isinstance(v, float) else v for v in astuple(outcome)]
    append_line(table, ["link", "cc", "seed", *OUTCOME, "kernel"], [*key, *values, release])


def read(table: Path) -> dict[tuple[str, str, int], Outcome]:
    if not table.exists():
        return {}
    with table.open(newline="") as stream:
        return {(line["link"], line["cc"], int(line["seed"])): Outcome(*(f.type(line[f.name]) for f in fields(Outcome)))
                for line in csv.DictReader(stream)}


def compare(roughlink: Path, table: Path) -> list[dict]:
    """Returns means over the seeds for both sides, the range of the mean RTT, and the largest RTT sample."""
    links, groups = {link.name: link for link in LINKS}, defaultdict(list)
    order = [(link.name, cc, seed) for link in LINKS for cc in ALGORITHMS for seed in SEEDS]
    rows = read(table)
    for (name, cc, seed), theirs in ((key, rows[key]) for key in order if key in rows):
        groups[name, cc].append((theirs, simulate(roughlink, links[name], cc, seed)))
    rows = []
    for (name, cc), runs in groups.items():
        row = {"link": name, "cc": cc, "runs": len(runs)}
        for number, side in enumerate(("linux", "roughlink")):
            outcomes = [run[number] for run in runs]
            for key in OUTCOME:
                row[f"{side}_{key}"] = (max if key == "rtt_max_ms" else statistics.fmean)(
                    getattr(o, key) for o in outcomes
                )
            means = [o.rtt_mean_ms for o in outcomes]
            row[f"{side}_rtt_mean_range_ms"] = [min(means), max(means)]
        rows.append(row)
    return rows


def within(rows: list[dict]) -> bool:
    """Returns true if the mean RTT and the share of needless retransmissions are within their bounds."""
    return all(
        abs(r["roughlink_rtt_mean_ms"] / r["linux_rtt_mean_ms"] - 1) <= RTT
        and abs(r["roughlink_needless"] / r["roughlink_segments"] - r["linux_needless"] / r["linux_segments"])
        <= NEEDLESS
        for r in rows
    )


def pair(row: dict, key: str, digits: int) -> tuple[str, ...]:
    """Returns the value of both sides; adding 0 turns -0 into 0."""
    return tuple(f"{round(row[f'{side}_{key}'], digits) + 0:.{digits}f}" for side in ("linux", "roughlink"))


def ranges(row: dict) -> tuple[str, ...]:
    return tuple("{:.0f}-{:.0f}".format(*row[f"{side}_rtt_mean_range_ms"]) for side in ("linux", "roughlink"))


def show(rows: list[dict]) -> None:
    print(
        f"{'link':<28}{'cc':<7}{'Mbit/s':^16}{'RTT min':^16}{'mean':^16}{'of single runs':^16}{'p99':^16}"
        f"{'max, ms':^16}{'retransmitted':^16}{'rejected':^16}{'needless':^16}"
    )
    for r in rows:
        pairs = [pair(r, "goodput_mbps", 2), pair(r, "rtt_min_ms", 1), pair(r, "rtt_mean_ms", 1), ranges(r),
                 pair(r, "rtt_p99_ms", 1), pair(r, "rtt_max_ms", 1),
                 *(pair(r, key, 0) for key in ("retransmits", "rejected", "needless"))]
        print(f"{r['link']:<28}{r['cc']:<7}" + "".join(f"{a:>8}{b:>8}" for a, b in pairs))


def tables(rows: list[dict]) -> str:
    lines = [
        "| link | algorithm | Mbit/s | mean RTT, ms | of single runs | 99th percentile | largest "
        "| retransmissions | rejected | needless |",
        "|---" * 10 + "|",
    ]
    for r in rows:
        pairs = [pair(r, "goodput_mbps", 1), pair(r, "rtt_mean_ms", 1), ranges(r), pair(r, "rtt_p99_ms", 1),
                 pair(r, "rtt_max_ms", 1), *(pair(r, key, 0) for key in ("retransmits", "rejected", "needless"))]
        lines.append(f"| {r['link']} | {r['cc']} | " + " | ".join(" / ".join(values) for values in pairs) + " |")
    return "\n".join(lines)
