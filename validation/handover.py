#!/usr/bin/env python3
"""Comparison of the Wave paper's window-based TCPs with ns-3.23, the simulator of that paper.

Recovery times of `reproduce wave` are compared with those that ns-3.23 itself has in the same scenario. The segments of
Reno and NewReno are also compared one by one, over the handover to the satellite with an outage of 2 s. The results of
ns-3.23 are stored in reference/ns3-3.23, so the comparison needs no ns-3. --program writes them again, with a program
of ns3/release.py. Links of ns-3 add a PPP header of 2 bytes to each packet.
"""

import csv
import gzip
import io
import itertools
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from roughlink_validation import cli
from roughlink_validation.captures import recovery_s
from roughlink_validation.simulators import Failed, Missing, Roughlink, read_ns3_segments, read_roughlink_segments
from segments import divergence, print_context

STORED = Path(__file__).resolve().parent / "reference" / "ns3-3.23"
VARIANTS = {"reno": "Reno", "newreno": "NewReno", "tahoe": "Tahoe", "westwood": "Westwood"}
OUTAGES = (0.5, 2.0, 10.0)
PAYLOAD = 948  # bytes of a packet of 1000 bytes
# destination -> flags of ns3/handover.cc, start of the outage and end of the run in s, rate of the new link in bit/s
TO = {
    "L2": (["--rate1=2Mbps", "--delay1=0.03", "--rate2=8Mbps", "--delay2=0.24"], 30, 400, 8e6),
    "L1": (["--rate1=8Mbps", "--delay1=0.24", "--rate2=2Mbps", "--delay2=0.03"], 300, 500, 2e6),
}
EXPERIMENTS = ["table1-to-l2", "table1-to-l1", "table1-westwood-to-l1"]
TRACED = ("reno", "newreno")
# Recovery times must agree within this share, or this time.
SHARE, LEAST_S = 0.05, 0.3
# Segments must leave within this time of ns-3's.
TOLERANCE_US = 100.0


def options():
    parser = cli.parser(__doc__)
    parser.add_argument("--program", type=Path, metavar="PATH", help="write ns-3's results with this handover program")
    parser.add_argument("--set", action="append", default=[], metavar="FLAG",
                        help="with --program: a flag such as queue=50; prints the recovery times and writes nothing")
    parser.add_argument("--strict", action="store_true", help="exit code 5 if a comparison fails")
    return parser.parse_args()


def simulate(program: Path, variant: str, to: str, outage: float, duration: float, more=()) -> str:
    flags, at, _, _ = TO[to]
    command = [str(program.resolve()), f"--variant={VARIANTS[variant]}", *flags, f"--at={at}", f"--outage={outage}",
               f"--duration={duration}", *more]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"`{' '.join(command)}` failed:\n{done.stderr}")
    return done.stdout


def recovery(output: str, kind: str, to: str, outage: float) -> str:
    """Returns the recovery time in s by the bytes read (`read`) or sent (`data`), empty if there is none."""
    _, at, end, rate = TO[to]
    total, steps = 0, []
    for row in csv.DictReader(io.StringIO(output)):
        if row["kind"] == kind:
            total += int(row["len"])
            steps.append((int(row["time_ns"]) / 1e9, total))
    time, exact = recovery_s(steps, at + outage, end, rate / 8 * PAYLOAD / (PAYLOAD + 52))
    return f"{time:.1f}" if exact else ""


def write(o) -> int:
    flags = [f"--{flag}" for flag in o.set]
    rows = []
    for to, variant, outage in itertools.product(TO, VARIANTS, OUTAGES):
        output = simulate(o.program, variant, to, outage, TO[to][2], flags)
        rows.append([variant, to, outage, *(recovery(output, kind, to, outage) for kind in ("read", "data"))])
        print(*rows[-1], flush=True)
    if flags:
        return 0
    STORED.mkdir(exist_ok=True)
    with (STORED / "recovery.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([["cc", "to", "outage_s", "recovery_s", "sender_s"], *rows])
    for variant in TRACED:
        lines = simulate(o.program, variant, "L2", 2.0, 60).splitlines(keepends=True)
        data = "".join(line for line in lines if not line.startswith("read"))
        (STORED / f"{variant}.csv.gz").write_bytes(gzip.compress(data.encode(), mtime=0))
    return 0


def call(roughlink: Roughlink, *arguments: str) -> str:
    command = [str(roughlink.binary), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"`{' '.join(command)}` failed:\n{done.stderr}")
    return done.stdout


def measured(roughlink: Roughlink, folder: Path) -> dict[tuple[str, str, float], float]:
    """Returns the recovery times of `reproduce wave` by algorithm, destination and outage."""
    out = folder / "wave"
    call(roughlink, "reproduce", "wave", *EXPERIMENTS, "--stack", "ns2", "--quiet", "-o", str(out))
    results = json.loads((out / "results.json").read_text())
    times = {}
    for experiment in results["experiments"]:
        to = experiment["experiment"][-2:].upper()
        for cell in experiment["cells"]:
            if cell["metric"] == "recovery_s":
                times[cell["axes"]["cc"], to, float(cell["axes"]["outage"].split()[0])] = cell["measured"]
    return times


def compare_times(roughlink: Roughlink, folder: Path) -> list[bool]:
    ours = measured(roughlink, folder)
    good = []
    print(f"{'':<10} {'to':<3} {'outage':>6}  {'roughlink':>9}  {'ns-3.23':>9}  {'its sender':>10}")
    with (STORED / "recovery.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    if len(rows) != len(TO) * len(VARIANTS) * len(OUTAGES):
        raise Failed(f"{file.name} has {len(rows)} rows")
    for row in rows:
        key = (row["cc"], row["to"], float(row["outage_s"]))
        time, theirs = ours.get(key), float(row["recovery_s"] or "inf")
        good.append(time is not None and abs(time - theirs) <= max(SHARE * theirs, LEAST_S))
        shown = "never" if time is None else f"{time:.1f}"
        print(f"{key[0]:<10} {key[1]:<3} {key[2]:>6}  {shown:>9}  {theirs:>9.1f}  {row['sender_s']:>10}"
              f"{'' if good[-1] else '  differs'}")
    return good


def compare_segments(roughlink: Roughlink, folder: Path) -> list[bool]:
    good = []
    for variant in TRACED:
        theirs = read_ns3_segments(STORED / f"{variant}.csv.gz")
        keys = {
            "tcp.cc": variant, "tcp.cc_params.halve": "unacknowledged", "tcp.initial_ssthresh": "unlimited",
            "tcp.min_rto": "1 s", "tcp.clock_granularity": "1 ms", "tcp.fr_off_until": "last_acked",
            "tcp.impatient": "false", "tcp.limited_transmit": "false",
            **{f"link.{name}.overhead": "2 B" for name in ("local1", "bottleneck", "local2")},
        }
        out = folder / variant
        call(roughlink, "run", "satellite-handover", "--quiet", "-o", str(out),
             *(word for key, value in keys.items() for word in ("--set", f"{key}={value}")))
        ours = read_roughlink_segments(out)
        at = divergence(theirs, ours, TOLERANCE_US) if theirs else 0
        good.append(at is None)
        if at is None:
            off = max(abs(a.time_ns - b.time_ns) / 1000 for a, b in zip(theirs, ours))
            print(f"{variant}: all {len(theirs)} segments agree; time off by {off:.1f} us at most")
        else:
            print(f"{variant}: differs at segment {at} of {len(theirs)}")
            print_context(theirs, ours, at, 5)
    return good


def main() -> int:
    o = options()
    if o.program:
        if not o.program.is_file():
            raise Missing(f"cannot find {o.program}\nhelp: validation/ns3/release.py 3.23 TREE builds it")
        return write(o)
    if o.set:
        raise Missing("--set needs --program")
    roughlink = Roughlink(o.roughlink)
    with tempfile.TemporaryDirectory() as folder:
        good = compare_times(roughlink, Path(folder)) + compare_segments(roughlink, Path(folder))
    print(f"{sum(good)} of {len(good)} comparisons agree")
    return cli.EXPECTATION if o.strict and not all(good) else 0


if __name__ == "__main__":
    sys.exit(cli.guarded(main))
