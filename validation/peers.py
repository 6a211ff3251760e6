#!/usr/bin/env python3
"""Comparison of roughlink with netem, Rattan and Mahimahi, and lateness of an emulated link on this machine.

The same two programs (ends.c) run at both ends of a path. The emulators take turns in rounds, so that a busy machine
affects them alike:

- `tcp`: one TCP connection over a pair without a limit. Throughput, retransmissions.
- `echo`: 200 datagrams a second over 10 ms each way, with answers. Repeated beside 10 and 100 Mbit/s of other
  datagrams.
- `cpu`: cost of a packet at 5,000 and 20,000 packets of 200 B a second over 10 ms.
- `rate`: links of 10 and 100 Mbit/s with 1.5 times as much offered. Rate, and spacing of packets of 1500 B.
- `loss`: losses among 2,000 packets a second at 1 %, and whether the same packets are lost in each round.

`--only roughlink` measures the lateness that roughlink reports. Emulators that are not installed are skipped, with the
reason. Needs root and a C compiler; Linux only. The exit code is 3 if this machine cannot measure, 1 if a run fails.

The first command below measures; the second rewrites the tables of the page:

  validation/peers.py --rattan PATH --mahimahi DIR --json validation/reference/peers-MACHINE.json

  validation/peers.py --from validation/reference/peers-*.json --page docs/validation/peers.md
"""

import argparse
import datetime
import hashlib
import json
import os
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from roughlink_validation import cli, page
from roughlink_validation.emulators import Emulator, Link, Run, found, run
from roughlink_validation.simulators import Failed, Missing

HERE = Path(__file__).resolve().parent
WAY_MS = 10
ASKED = 200
PACKET, HEADERS = 1500, 28
CC = "cubic"
QUIET = 0.02  # more steal than this marks a run


@dataclass(frozen=True)
class Case:
    """Programs to run outside and inside a path, and the evaluation of their output."""

    link: Link
    outside: list[str]
    inside: list[str]
    result: Callable[[Run, float], dict]


def cases(rates: list[float], seconds: float) -> dict[str, Case]:
    delay = Link(delay_ms=WAY_MS)
    made = {"tcp": Case(Link(), [f"tcp-send OUT 7000 {seconds} {CC}"], ["tcp-read OUT $PEER 7000"], tcp)}
    for load in (0, 10, 100):
        outside, inside = ["echo OUT 7000"], [f"ask OUT $PEER 7000 {seconds} {ASKED}"]
        if load:
            outside.insert(0, "udp-read OUT 7001")
            inside.insert(0, f"udp-send OUT $PEER 7001 {seconds} {load * 1e6 / 8 / PACKET} {PACKET - HEADERS}")
        made[f"echo-{load}"] = Case(delay, outside, inside, echo)
    for rate in (5_000, 20_000):
        made[f"cpu-{rate}"] = Case(delay, *flood(seconds, rate, 200 - HEADERS), lambda r, s, rate=rate: cpu(r, rate))
    for rate in rates:
        # Offer more than the link carries: the queue bridges times in which the sender waits for a processor.
        offered = 1.5 * rate * 1e6 / 8 / PACKET
        made[f"rate-{rate:g}"] = Case(Link(delay_ms=WAY_MS, rate_mbit=rate), *flood(seconds, offered, PACKET - HEADERS),
                                      lambda r, s, rate=rate: limited(r, s, rate))
    made["loss"] = Case(Link(loss=0.01), *flood(seconds, 2_000, 200 - HEADERS), loss)
    return made


def flood(seconds: float, rate: float, size: int) -> tuple[list[str], list[str]]:
    return ["udp-read OUT 7001"], [f"udp-send OUT $PEER 7001 {seconds} {rate} {size}"]


def wanted(emulator: Emulator, case: str) -> bool:
    """Returns true if the case applies: variants are measured in some cases only, and plain devices have no delay,
    rate or loss."""
    if emulator.name == "veth":
        return case in ("tcp", "echo-0") or case.startswith("cpu")
    if "," in emulator.name:
        return case in ("tcp", "echo-0", "echo-100") or case.startswith("rate")
    return True


def tcp(r: Run, _: float) -> dict:
    total, ns = r.saw["tcp-read"]
    retransmissions, accepted = r.saw["tcp-send"]
    segments = total / (PACKET - 52) / ns * (r.cpu["to"] - r.cpu["from"])
    return {"mbps": total * 8e3 / ns, "retransmissions": retransmissions, "cc_accepted": bool(accepted),
            **per_packet(r, segments)}


def echo(r: Run, _: float) -> dict:
    """Returns delay errors in us: `rtt` in the program, `path` between kernel timestamps, without wake-up times."""
    saw = r.saw["ask"]
    if not saw:
        raise Failed("no answer came back")
    should = 2e6 * r.way_ms
    rtt = [(ns - should) / 1e3 for ns in saw[::3]]
    path = [(there + back - should) / 1e3 for there, back in zip(saw[1::3], saw[2::3])]
    made = {"answers": len(rtt)}
    for name, errors in (("rtt", rtt), ("path", path)):
        size = sorted(abs(error) for error in errors)
        made[name] = {"mean": statistics.fmean(errors), "p50": cli.quantile(size, 0.5), "p99": cli.quantile(size, 0.99),
                      "max": size[-1]}
    if "udp-send" in r.saw:
        made["load_lost"] = 1 - len(r.saw["udp-read"]) / 2 / max(1, r.saw["udp-send"][0])
    return made


def cpu(r: Run, rate: float) -> dict:
    sent, _, ns = r.saw["udp-send"]
    if sent * 1e9 / ns < 0.9 * rate:
        raise Failed(f"the sender reached only {sent * 1e9 / ns:.0f} packets/s for lack of processor time")
    packets = sum(r.cpu["from"] <= t < r.cpu["to"] for t in r.saw["udp-read"][1::2])
    return {**per_packet(r, packets), "arrived": len(r.saw["udp-read"]) / 2 / sent}


def per_packet(r: Run, packets: float) -> dict:
    """Returns processor time in us; empty if a program had ended before the measurement."""
    return {f"{who}_us": r.cpu[who] / packets * 1e6 for who in ("emulator", "ends") if r.cpu[who] >= 0}


def limited(r: Run, seconds: float, rate: float) -> dict:
    """Evaluates the time with a full queue: from half a second after the first packet until the sender stops."""
    times = r.saw["udp-read"][1::2]
    sent, _, ns = r.saw["udp-send"]
    offered = sent * PACKET * 8e3 / ns
    if offered < 1.2 * rate or len(times) < 100:
        raise Failed(
            f"the sender reached only {offered:.1f} Mbit/s for lack of processor time; {len(times)} packets arrived"
        )
    times = [t for t in times if times[0] + 5e8 <= t <= times[0] + seconds * 1e9]
    should = PACKET * 8e3 / rate
    errors = sorted(abs(b - a - should) / 1e3 for a, b in zip(times, times[1:]))
    got = (len(times) - 1) * PACKET * 8e3 / (times[-1] - times[0])
    return {"mbps": got, "rate_error": got / rate - 1,
            "offered_mbps": offered,
            "spacing_us": {"p50": cli.quantile(errors, 0.5), "p99": cli.quantile(errors, 0.99), "max": errors[-1]}}


def loss(r: Run, _: float) -> dict:
    sent = sum(r.saw["udp-send"][:2])
    lost = sorted(set(range(sent)) - set(r.saw["udp-read"][::2]))
    return {"sent": sent, "lost": len(lost), "share": len(lost) / sent, "first": lost[:12],
            "list": hashlib.sha256(repr(lost).encode()).hexdigest()[:16]}


def compiled(folder: Path) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        raise Missing("compiling validation/ends.c needs a C compiler (cc)")
    subprocess.run([compiler, "-O2", "-o", folder / "ends", HERE / "ends.c"], check=True)
    return folder / "ends"


def measure(options) -> dict:
    built = dict(text.split("=", 1) for text in options.built)
    here, absent = found(options.roughlink, options.rattan, options.mahimahi, built)
    if options.only:
        named = lambda text: any(text.lower().startswith(name.lower()) for name in options.only)
        here, absent = [e for e in here if named(e.name)], [line for line in absent if named(line)]
        if not here:
            raise Missing("; ".join(absent) or "no emulator matches --only")
    for line in absent:
        print(f"skipped: {line}", file=sys.stderr)
    todo = cases(options.rates, options.seconds)
    if options.cases:
        todo = {name: case for name, case in todo.items() if name.split("-")[0] in options.cases}
    made = {"when": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
            "seconds": options.seconds,
            "rounds": options.rounds, "kernel": os.uname().release, "processors": os.cpu_count(),
            "processor": processor(),
            "note": options.note, "cc": CC, "versions": {e.name: e.version for e in here if "," not in e.name},
            "absent": absent, "runs": []}
    with tempfile.TemporaryDirectory(prefix="roughlink-peers-") as name:
        # Programs inside Mahimahi run as `nobody`.
        top = Path(name)
        top.chmod(0o755)
        ends, folder = compiled(top), top / "run"
        folder.mkdir()
        folder.chmod(0o777)
        for number in range(options.rounds):
            # Start each round with another emulator, so that none is always first.
            order = here[number % len(here):] + here[:number % len(here)]
            for case_name, case in todo.items():
                for emulator in order:
                    if not wanted(emulator, case_name):
                        continue
                    cli.progress(f"round {number + 1} of {options.rounds}: {case_name}, {emulator.name}")
                    row = {"round": number, "case": case_name, "emulator": emulator.name}
                    try:
                        r = run(emulator, case.link, case.outside, case.inside, folder, ends, options.seconds)
                        row |= {"result": case.result(r, options.seconds), "machine": r.machine, "cpu": r.cpu}
                        if "lateness_us" in r.settled:
                            row["own"] = r.settled
                    except (Failed, KeyError, ZeroDivisionError, ValueError) as wrong:
                        row["failed"] = str(wrong)
                        print(f"\n{case_name}, {emulator.name}: {wrong}", file=sys.stderr)
                    made["runs"].append(row)
            if options.json:
                write(options.json, made)
    cli.progress_end()
    return made


def write(file: Path, made: dict) -> None:
    """Writes JSON with a line for each run."""
    made = rounded(made)
    head = "".join(f" {json.dumps(key)}: {json.dumps(value)},\n" for key, value in made.items() if key != "runs")
    file.write_text("{\n" + head + ' "runs": [\n' + ",\n".join(f"  {json.dumps(row)}" for row in made["runs"])
                    + "\n ]\n}\n")


def rounded(value):
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {name: rounded(inner) for name, inner in value.items()}
    return [rounded(inner) for inner in value] if isinstance(value, list) else value


def processor() -> str:
    text = Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)
    return model.group(1).strip() if model else platform.machine()


# The tables.

def spread(values: list[float], digits: int = 0) -> str:
    """Formats the median and, for several rounds, the smallest and largest value."""
    if not values:
        return "-"
    middle = f"{statistics.median(values):,.{digits}f}"
    if len(values) == 1:
        return middle
    return f"{middle} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"


def lists(seen: list[str]) -> str:
    different = len(set(seen))
    return "the same in all rounds" if different == 1 and len(seen) > 1 else f"{different} in {len(seen)} rounds"


class Results:
    """The runs of one file."""

    def __init__(self, made: dict) -> None:
        self.made = made
        self.order = list(dict.fromkeys(r["emulator"] for r in sorted(made["runs"], key=lambda r: (r["round"], 0))))
        first = ["veth", "netem", "roughlink"]
        self.order.sort(key=lambda name: (first.index(base) if (base := name.split(",")[0]) in first else len(first)))

    def rows(self, case: str, emulator: str) -> list[dict]:
        return [r for r in self.made["runs"] if r["case"] == case and r["emulator"] == emulator]

    def marked(self, rows: list[dict]) -> str:
        """Counts runs with more than QUIET of steal, and runs without a result (often for lack of processor time)."""
        failed = sum("failed" in r for r in rows)
        steal = sum(r.get("machine", {}).get("steal", 0) > QUIET for r in rows)
        text = [f"{steal} of {len(rows)}" if steal else "", f"{failed} without result" if failed else ""]
        return ", ".join(part for part in text if part) or "-"

    def table(self, case: str, head: list[str], cells: Callable[[list[dict]], list[str]]) -> str:
        lines = ["| " + " | ".join(["", *head, "steal"]) + " |", "|---" * (len(head) + 2) + "|"]
        for emulator in self.order:
            rows = self.rows(case, emulator)
            good = [r for r in rows if "failed" not in r]
            if rows:
                shown = cells(good) if good else ["-"] * len(head)
                lines.append("| " + " | ".join([emulator, *shown, self.marked(rows)]) + " |")
        return "\n".join(lines)

    def cases(self, kind: str) -> list[str]:
        return list(dict.fromkeys(r["case"] for r in self.made["runs"] if r["case"].split("-")[0] == kind))


def of(rows: list[dict], *path: str) -> list[float]:
    """Returns the values of a field in the runs that have it."""
    values = []
    for row in rows:
        for name in path:
            row = row.get(name, {})
        if row != {}:
            values.append(row)
    return values


def tables(made: dict) -> str:
    res = Results(made)
    out = [
        f"Measured {made['when']}: {made['rounds']} rounds, {made['seconds']:g} s each, "
        f"{made['processors']} processors ({made['processor']}), "
        f"Linux {made['kernel']}. {made['note']}".strip(),
        "",
    ]
    out += [f"- {name}: {version}" for name, version in made["versions"].items()]
    out += [f"- left out: {line}" for line in made["absent"]]
    machine = [r["machine"] for r in made["runs"] if "machine" in r]
    if machine:
        out += [f"- steal {spread([100 * m['steal'] for m in machine], 1)} % of the processors, other programs "
                f"{spread([100 * m['others'] for m in machine], 1)} %, load {spread([m['load'] for m in machine], 1)}"]
    for case in res.cases("tcp"):
        out += ["", f"**One TCP connection ({made['cc']}), no limit**", "", res.table(
            case, ["Mbit/s", "retransmissions", "processor, us per segment: emulator", "ends"],
            lambda rows: [spread(of(rows, "result", "mbps")), spread(of(rows, "result", "retransmissions")),
                          *(spread(of(rows, "result", f"{who}_us"), 1) for who in ("emulator", "ends"))])]
    for case in res.cases("echo"):
        load = case.split("-")[1]
        beside = f"beside {load} Mbit/s" if load != "0" else "nothing else"
        out += ["", f"**A path of {2 * WAY_MS} ms, {ASKED} echoes a second, {beside}: error, us**", "", res.table(
            case, ["path, mean", "p99", "longest", "as the program sees it, mean", "p99"],
            lambda rows: [*(spread(of(rows, "result", "path", q)) for q in ("mean", "p99", "max")),
                          *(spread(of(rows, "result", "rtt", q)) for q in ("mean", "p99"))])]
    for case in res.cases("rate"):
        rate = float(case.split("-")[1])
        out += ["", f"**A link of {rate:g} Mbit/s, full: a packet each {12e3 / rate:,.0f} us**", "", res.table(
            case, ["Mbit/s", "error of spacing, us: median", "p99", "longest"],
            lambda rows, rate=rate: [spread(of(rows, "result", "mbps"), 3 if rate < 50 else 2),
                                     *(spread(of(rows, "result", "spacing_us", q)) for q in ("p50", "p99", "max"))])]
    for case in res.cases("cpu"):
        out += ["", f"**Processor time per packet, us, at {int(case.split('-')[1]):,} packets a second**", "",
                res.table(
            case, ["emulator", "ends", "arrived, %"],
            lambda rows: [spread(of(rows, "result", "emulator_us"), 1), spread(of(rows, "result", "ends_us"), 1),
                          spread([100 * x for x in of(rows, "result", "arrived")], 1)])]
    for case in res.cases("loss"):
        out += ["", "**Loss of 1 %**", "", res.table(
            case, ["lost, %", "lists of lost packets", "the first lost packets of a round"],
            lambda rows: [spread([100 * x for x in of(rows, "result", "share")], 2),
                          lists(of(rows, "result", "list")), ", ".join(map(str, rows[0]["result"]["first"][:5]))])]
    own = [name for name in res.order if any("own" in r for r in made["runs"] if r["emulator"] == name)]
    if own:
        out += [
            "",
            "**How late roughlink is by its own account: from when a packet is due until the kernel has it**",
            "",
            "| case | priority | p50 us | p99 us | longest us | later than 1 ms, % | overruns | loop ran, % "
            "| waited, % |",
            "|---" * 9 + "|",
        ]
        for case in dict.fromkeys(r["case"] for r in made["runs"]):
            for name in own:
                rows = [r["own"] for r in res.rows(case, name) if r.get("own", {}).get("lateness_us")]
                if rows:
                    late = [spread(of(rows, "lateness_us", q), 1) for q in ("p50", "p99", "max")]
                    over = spread([100 * x for x in of(rows, "lateness_us", "over_1ms")], 2)
                    rest = [
                        spread(of(rows, "overruns")),
                        *(spread([100 * x for x in of(rows, part)]) for part in ("loop_ran", "loop_waited")),
                    ]
                    priority = "SCHED_FIFO" if rows[0]["real_time"] else "ordinary"
                    out.append("| " + " | ".join([case, priority, *late, over, *rest]) + " |")
    return "\n".join(out) + "\n"


MARK = re.compile(r"(<!-- measured -->\n).*?(<!-- end of what was measured -->)", re.DOTALL)


def rewrite(page: Path, text: str) -> None:
    old = page.read_text()
    if not MARK.search(old):
        raise Failed(f"{page} has no text between `<!-- measured -->` and `<!-- end of what was measured -->`")
    page.write_text(MARK.sub(lambda m: f"{m[1]}\n{text}\n{m[2]}", old))


def main() -> int:
    parser = cli.parser(__doc__)
    parser.add_argument("--rattan", default="rattan", metavar="PATH", help="Rattan's program (default: in PATH)")
    parser.add_argument("--mahimahi", metavar="DIR", help="folder of mm-delay, mm-link and mm-loss (default: in PATH)")
    parser.add_argument("--built", action="append", default=[], metavar="NAME=TEXT",
                        help="build of `rattan` or `mahimahi`: commit, flags")
    parser.add_argument("--note", default="", help="other load on the machine during the measurement")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="veth, netem, roughlink, rattan, mahimahi")
    parser.add_argument("--cases", nargs="+", choices=("tcp", "echo", "cpu", "rate", "loss"))
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rates", type=float, nargs="+", default=[10, 100], metavar="MBIT")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep all results in this file, after each round")
    parser.add_argument("--from", type=Path, nargs="+", dest="read", metavar="FILE",
                        help="read these results instead of measuring")
    parser.add_argument("--page", type=Path, metavar="FILE", help="rewrite the tables of this page")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if options.read:
        results = [json.loads(file.read_text()) for file in options.read]
    else:
        results = [measure(options)]
    text = page.wrapped("\n".join(tables(made) for made in results))
    if options.page:
        rewrite(options.page, text)
    else:
        print(text)
    return int(any("failed" in r for made in results for r in made["runs"]))


if __name__ == "__main__":
    sys.exit(cli.guarded(main))
