#!/usr/bin/env python3
"""Comparison of the segments of roughlink's endpoint with those of ns-3 when the same packets are lost.

The default release is 3.44, which the wheel has. Traces of an older one (--release) are stored in reference/, or
written by a program that ns3/release.py has built.

Transfers of 2 MB use NewReno and an ACK for every second segment, without SACK unless --sack is given. Each case loses
packets by their arrival number at the car, so no random number is involved. The SYN is 0, the ACK of the handshake 1,
and every IP fragment counts. Sequence, length and retransmission flag of every data segment must agree. The difference
in time is reported, and bounded by --time-tolerance.

Links of ns-3 add a PPP header of 2 bytes to each packet, 1.6 us at 10 Mbit/s. Times drift by that much per packet
unless roughlink's links do the same (--link-overhead 2). The bulk application of ns-3 writes 512 bytes at a time, so a
full send buffer makes it send short segments. The send buffer here is 1 MiB, larger than the window, except in
`send-buffer`.

Use --write DIR to store traces of ns-3, and --from DIR to compare with stored traces without ns-3, with all of them
unless --case is given.
"""

import dataclasses
import gzip
import json
import random
import statistics
import sys
import tempfile
from pathlib import Path

from roughlink_validation import cli
from roughlink_validation.scenario import Scenario
from roughlink_validation.simulators import (
    Failed, Missing, Ns3, Roughlink, Segment, read_arrivals, read_ns3_segments,
)

BASE = Scenario(bytes=2_000_000, segment=1448, snd_buf=1 << 20, sack=False)
# release -> changes to the scenario: its defaults, and a queue that never fills, because drops of full queues differ
RELEASES = {
    "3.44": {},
    "3.27": {"release": "3.27", "recovery": "ClassicRecovery", "initial_window": 1, "queue": 400},
    "3.29": {"release": "3.29", "recovery": "ClassicRecovery", "initial_window": 1, "queue": 400},
}
MANY = tuple(sorted(random.Random("segments").sample(range(40, 1300), 25)))


def bursts(seed: str) -> tuple[int, ...]:
    """Returns the noise of the V2G paper at 5 %: 2 % of the packets begin a burst of one to four."""
    random_numbers, dropped, at = random.Random(seed), [], 40
    while at < 6000:
        length = random_numbers.randint(1, 4) if random_numbers.random() < 0.02 else 0
        dropped += range(at, at + length)
        at += max(length, 1)
    return tuple(dropped)


def lost_retransmission(ns3: Ns3, scenario: Scenario) -> tuple[int, ...]:
    """Returns packet 30 and the arrival number of its retransmission."""
    arrivals = read_arrivals(ns3, scenario.with_(drop=(30,)))
    seq = arrivals[30]
    return (30, next(n for n, s in enumerate(arrivals) if s == seq and n > 30))


def last(count: int):
    def numbers(ns3: Ns3, scenario: Scenario) -> tuple[int, ...]:
        total = len(read_arrivals(ns3, scenario))
        return tuple(range(total - count, total))
    return numbers


# name -> packets to drop (numbers, or a function that takes them from a run of ns-3), and changes to the base scenario
CASES = {
    "no-loss": ((), {}),
    "single": ((30,), {}),
    "two-in-a-window": ((30, 33), {}),
    "three-in-a-window": ((30, 31, 33), {}),
    "burst-of-four": ((100, 101, 102, 103), {}),
    "late-single": ((200,), {}),
    "lost-retransmission": (lost_retransmission, {}),
    "last-packet": (last(1), {}),
    "last-three": (last(3), {}),
    "syn": ((0,), {}),
    "handshake-ack": ((1,), {}),
    "many": (MANY, {}),
    "fragments-single": ((60,), {"segment": 1460, "queue": 200}),
    "fragments-burst-of-four": ((100, 101, 102, 103), {"segment": 1460, "queue": 200}),
    "fragments-many": (MANY, {"segment": 1460, "queue": 200}),
    "no-delayed-ack": (MANY, {"delayed_ack": 1}),
    "bursts": (bursts("bursts"), {}),
    "fragments-bursts": (bursts("bursts"), {"segment": 1460, "queue": 200}),
    "send-buffer": ((), {"snd_buf": 131072}),
}


def options():
    parser = cli.parser(__doc__)
    parser.add_argument("--case", nargs="+", choices=CASES, metavar="NAME", help=", ".join(CASES))
    parser.add_argument("--cc", default="newreno", metavar="NAME")
    parser.add_argument("--release", choices=RELEASES, default="3.44", help="release of ns-3")
    parser.add_argument("--program", type=Path, metavar="PATH", help="bulk.cc built with ns3/release.py")
    parser.add_argument("--sack", action="store_true", help="with SACK (3.44 uses PRR in any case)")
    parser.add_argument("--link-overhead", type=int, default=0, metavar="BYTES")
    parser.add_argument("--time-tolerance", type=float, metavar="US",
                        help="a larger difference in time is a divergence")
    parser.add_argument("--context", type=int, default=5, help="segments shown before and after a divergence")
    parser.add_argument("--from", dest="stored", type=Path, metavar="DIR")
    parser.add_argument("--write", type=Path, metavar="DIR", help="only store ns-3's traces")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--strict", action="store_true", help="exit code 5 when a case diverges")
    return parser.parse_args()


def scenario_of(name: str, o, ns3: Ns3) -> Scenario:
    drop, changes = CASES[name]
    scenario = BASE.with_(cc=o.cc, sack=o.sack, **changes).with_(**RELEASES[o.release])
    return scenario.with_(drop=drop(ns3, scenario) if callable(drop) else drop)


def store(ns3: Ns3, scenario: Scenario, folder: Path, name: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        trace = Path(temporary) / "trace.csv"
        result = ns3.trace(scenario, trace, kinds="data")
        with (folder / f"{name}.csv.gz").open("wb") as file, gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as zipped:
            zipped.write(trace.read_bytes())
    kept = {"scenario": dataclasses.asdict(scenario), "flags": scenario.ns3_flags(), "flow": result["flows"][0]}
    (folder / f"{name}.json").write_text(json.dumps(kept) + "\n")


def stored(folder: Path, name: str) -> tuple[Scenario, list[Segment]]:
    try:
        fields = json.loads((folder / f"{name}.json").read_text())["scenario"]
    except FileNotFoundError:
        raise Missing(f"{folder} has no trace {name}: write it with --write {folder}")
    return Scenario(**{**fields, "drop": tuple(fields["drop"])}), read_ns3_segments(folder / f"{name}.csv.gz")


def traced(ns3: Ns3, scenario: Scenario) -> list[Segment]:
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.csv"
        ns3.trace(scenario, trace, kinds="data")
        return read_ns3_segments(trace)


def same(a: Segment, b: Segment, tolerance_us: float | None) -> bool:
    if (a.seq, a.length, a.retransmission) != (b.seq, b.length, b.retransmission):
        return False
    return tolerance_us is None or abs(a.time_ns - b.time_ns) <= tolerance_us * 1000


def divergence(theirs: list[Segment], ours: list[Segment], tolerance_us: float | None) -> int | None:
    """Returns the index of the first pair that differs, or of the end of the shorter list; None if all agree."""
    for index, (a, b) in enumerate(zip(theirs, ours)):
        if not same(a, b, tolerance_us):
            return index
    return None if len(theirs) == len(ours) else min(len(theirs), len(ours))


def print_context(theirs: list[Segment], ours: list[Segment], at: int, around: int) -> None:
    print(f"    {'':>6}  {'ns-3 time':>13} {'seq':>9} {'len':>5}      {'roughlink time':>14} {'seq':>9} {'len':>5}")
    for index in range(max(0, at - around), at + around + 1):
        sides = [line(side[index]) if index < len(side) else f"{'-':>13} {'':>9} {'':>5}  " for side in (theirs, ours)]
        print(f"  {'>' if index == at else ' '} {index:>6}  {sides[0]}    {sides[1]}")


def line(s: Segment) -> str:
    return f"{s.time_ns / 1e6:>10.4f} ms {s.seq:>9} {s.length:>5} {'R' if s.retransmission else ' '}"


def names(o) -> list[str]:
    """Returns the cases, or the names of the stored traces; without --case all of them."""
    if not o.stored:
        return o.case or list(CASES)
    if o.case:
        return [f"{o.cc}-{case}" for case in o.case]
    found = sorted(path.stem for path in o.stored.glob("*.json"))
    if not found:
        raise Missing(f"{o.stored} has no traces: write them with --write {o.stored}")
    return found


def main() -> int:
    o = options()
    if o.release != "3.44" and not (o.stored or o.program):
        raise Missing(f"ns-3 {o.release} has no wheel: pass --from, or --program with a program of ns3/release.py")
    ns3 = None if o.stored else Ns3(o.program)
    if o.write:
        for name in o.case or CASES:
            store(ns3, scenario_of(name, o, ns3), o.write, f"{o.cc}-{name}")
        print(f"{len(o.case or CASES)} traces written into {o.write}")
        return 0
    roughlink = Roughlink(o.roughlink)
    report = []
    for name in names(o):
        if o.stored:
            scenario, theirs = stored(o.stored, name)
        else:
            scenario = scenario_of(name, o, ns3)
            theirs = traced(ns3, scenario)
        entry = {"case": name, "dropped": list(scenario.drop), "ns3_segments": len(theirs)}
        report.append(entry)
        try:
            ours = roughlink.segments(scenario.with_(link_overhead=o.link_overhead))
        except Failed as failed:
            entry |= {"agree": False, "error": str(failed)}
            if not o.json:
                print(f"{name:<32} error: {failed}")
            continue
        at = divergence(theirs, ours, o.time_tolerance)
        compared = len(theirs) if at is None else at
        differences = [abs(a.time_ns - b.time_ns) / 1000 for a, b in zip(theirs[:compared], ours[:compared])] or [0.0]
        entry |= {
            "agree": at is None,
            "roughlink_segments": len(ours),
            "first_divergence": at,
            "time_difference_us": {"median": statistics.median(differences), "max": max(differences)},
        }
        if o.json:
            continue
        verdict = f"all {compared} segments agree" if at is None else f"differs at segment {at} of {len(theirs)}"
        print(
            f"{name:<32} {verdict}; time off by {statistics.median(differences):.1f} us (median), "
            f"{max(differences):.1f} us (most)"
        )
        if at is not None:
            print_context(theirs, ours, at, o.context)
    if o.json:
        print(json.dumps(report, indent=1))
    agree = sum(entry["agree"] for entry in report)
    if not o.json:
        print(f"{agree} of {len(report)} cases agree")
    return cli.EXPECTATION if o.strict and agree < len(report) else 0


if __name__ == "__main__":
    sys.exit(cli.guarded(main))
