#!/usr/bin/env python3
"""Cost of a packet in an emulation: system calls, processor time, lateness and throughput, beside other programs.

The other programs are a plain copier between two TUN devices (copier.c), once with TCP segments joined by the kernel,
and Rattan, if it is installed. All take turns in rounds, so that a busy machine affects them alike. The programs at the
ends are those of ends.c. Cases:

- `tcp`: one TCP connection over a pair without a limit. Throughput.
- `tcp-100`: one TCP connection over 100 Mbit/s and 10 ms. How late packets leave, by roughlink's own account.
- `cpu-5000`: 5,000 packets of 200 B a second over 10 ms (the copier has no delay).
- `echo-100`: 200 echoes a second beside 100 Mbit/s, over 10 ms each way. Lateness as the ends see it.

System calls are counted with `perf stat` in separate runs before the rounds, since counting takes processor time; a
packet is one that reaches the other end, without the acknowledgments. `--also` measures another build of roughlink in
the same rounds. Needs root and a C compiler; Linux only. The exit code is 3 if this machine cannot measure, 1 if a run
fails.
"""

import dataclasses
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from peers import Case, cases, compiled, of, per_packet, processor, rounded, spread, tcp
from roughlink_validation import cli
from roughlink_validation.emulators import Copier, Emulator, Link, Run, found, run
from roughlink_validation.simulators import Failed, Missing

HERE = Path(__file__).resolve().parent
RATE = 100


def chosen(seconds: float) -> dict[str, Case]:
    made = cases([RATE], seconds)
    limited = dataclasses.replace(made["tcp"], link=Link(delay_ms=10, rate_mbit=RATE))
    return {"tcp": made["tcp"], f"tcp-{RATE}": limited, "cpu-5000": made["cpu-5000"],
            f"echo-{RATE}": made[f"echo-{RATE}"]}


def wanted(emulator: Emulator, case: str) -> bool:
    return emulator.delays or not case.startswith((f"tcp-{RATE}", "echo"))


def packets(case: str, r: Run) -> float:
    """Returns the number of data packets that reached the other end in the middle of the run."""
    ns = r.cpu["to"] - r.cpu["from"]
    if case.startswith("tcp"):
        total, lasted = r.saw["tcp-read"]
        return total / (1500 - 52) / lasted * ns
    return sum(r.cpu["from"] <= t < r.cpu["to"] for t in r.saw["udp-read"][1::2])


def emulators(options, folder: Path) -> list[Emulator]:
    here, absent = found(options.roughlink, options.rattan, None, {})
    base = [e for e in here if e.name.startswith("roughlink")]
    also = [dataclasses.replace(e, name=e.name.replace("roughlink", name), program=str(Path(path).resolve()))
            for name, path in (text.split("=", 1) for text in options.also) for e in base]
    rattan = [e for e in here if e.name in ("Rattan", "Rattan, SCHED_FIFO")]
    for line in absent:
        if line.startswith("Rattan"):
            print(f"skipped: {line}", file=sys.stderr)
    copier = str(folder / "copier")
    subprocess.run(["cc", "-O2", "-o", copier, HERE / "copier.c"], check=True)
    copiers = [Copier("copier", copier, "PEER", "", fifo=True),
               Copier("copier, joined", copier, "PEER", "", fifo=True, joined=True)]
    every = [*copiers, *base, *also, *rattan]
    if options.only:
        every = [e for e in every if any(e.name.startswith(name) for name in options.only)]
    return every


def measure(options) -> dict:
    made = {"runs": [], "seconds": options.seconds, "rounds": options.rounds, "processor": processor()}
    todo = {name: case for name, case in chosen(options.seconds).items() if name in (options.cases or [name])}
    with tempfile.TemporaryDirectory(prefix="roughlink-cost-") as name:
        ends, folder = compiled(Path(name)), Path(name) / "run"
        folder.mkdir()
        here = emulators(options, Path(name))
        if not here:
            raise Missing("no emulator matches --only")
        for number in range(-1, options.rounds):
            # Round -1 counts system calls. Start each round with another emulator, so that none is always first.
            start = max(0, number) % len(here)
            for case_name, case in todo.items():
                for emulator in here[start:] + here[:start]:
                    if not wanted(emulator, case_name):
                        continue
                    cli.progress(f"round {number + 1} of {options.rounds}: {case_name}, {emulator.name}")
                    row = {"round": number, "case": case_name, "emulator": emulator.name}
                    try:
                        r = run(emulator, case.link, case.outside, case.inside, folder, ends, options.seconds,
                                count=number < 0)
                        row |= {"machine": r.machine, "cpu": r.cpu, "own": r.settled}
                        if number < 0:
                            rate = packets(case_name, r) / (r.cpu["to"] - r.cpu["from"]) * 1e9
                            row["calls"] = {name: calls / rate for name, calls in r.calls.items()}
                        else:
                            row["result"] = evaluated(case_name, case, r, options.seconds)
                    except (Failed, KeyError, ZeroDivisionError, ValueError) as wrong:
                        row["failed"] = str(wrong)
                        print(f"\n{case_name}, {emulator.name}: {wrong}", file=sys.stderr)
                    made["runs"].append(row)
            if options.json:
                options.json.write_text(json.dumps(rounded(made)))
    cli.progress_end()
    return made


def evaluated(name: str, case: Case, r: Run, seconds: float) -> dict:
    return {**case.result(r, seconds), **per_packet(r, packets(name, r))}


def tables(made: dict) -> str:
    out = [f"{made['rounds']} rounds, {made['seconds']:g} s each ({made['processor']}); median (range)"]
    for case in dict.fromkeys(row["case"] for row in made["runs"]):
        head = ["", "Mbit/s" if case.startswith("tcp") else "path p50, p99, us" if case.startswith("echo") else "",
                "emulator, us per packet", "ends, us", "late p50, us", "p99, us", "calls per packet", "of these",
                "steal, %"]
        out += ["", f"**{case}**", "", "| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
        for name in dict.fromkeys(row["emulator"] for row in made["runs"]):
            every = [row for row in made["runs"] if (row["case"], row["emulator"]) == (case, name)]
            rows = [row for row in every if "result" in row]
            if not every:
                continue
            calls = next((row["calls"] for row in every if row.get("calls")), {})
            kinds = sorted(((n, c) for n, c in calls.items() if n != "all" and c >= 0.005), key=lambda kind: -kind[1])
            first = {"t": spread(of(rows, "result", "mbps")), "c": "", "e": ", ".join(
                spread(of(rows, "result", "path", q)) for q in ("p50", "p99"))}[case[0]]
            out.append("| " + " | ".join([
                name, first, *(spread(of(rows, "result", f"{who}_us"), 2) for who in ("emulator", "ends")),
                *(spread(of(rows, "own", "lateness_us", q), 1) for q in ("p50", "p99")),
                f"{calls['all']:.2f}" if calls else "-", ", ".join(f"{n} {c:.2f}" for n, c in kinds) or "-",
                spread([100 * x for x in of(rows, "machine", "steal")], 1)]) + " |")
    return "\n".join(out)


def main() -> int:
    parser = cli.parser(__doc__)
    parser.add_argument("--rattan", default="rattan", metavar="PATH", help="Rattan's program (default: in PATH)")
    parser.add_argument("--also", action="append", default=[], metavar="NAME=PATH", help="another roughlink to measure")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="names of emulators, or their beginnings")
    parser.add_argument("--cases", nargs="+", choices=list(chosen(1)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep all results in this file, after each round")
    options = parser.parse_args()
    made = measure(options)
    print(tables(made))
    return int(any("failed" in row for row in made["runs"]))


if __name__ == "__main__":
    sys.exit(cli.guarded(main))
