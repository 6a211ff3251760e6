#!/usr/bin/env python3
"""Comparison of CoDel, FQ-CoDel and DCTCP with ns-3 3.44: marks or drops, goodput and the delay in the queue.

Bulk transfers run for a minute over 10 Mbit/s with a round-trip time of 40 ms. Transfers use NewReno, with and without
ECN, and DCTCP over a queue that marks from 20 packets on. Both simulators use the parameters of the RFCs. Only the hash
of fq_codel is random, so there is one run each.

Two differences are by construction. ns-3's device holds one packet (1.2 ms) in addition to the one on the wire, both
outside the discipline. For a mark ns-3 reduces the window step by step (PRR); the `ns3` stack here reduces it at once.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from roughlink_validation import cli
from roughlink_validation.simulators import Failed, Missing

sys.path.insert(0, str(Path(__file__).resolve().parent / "ns3"))
import build  # noqa: E402

CASES = [
    # Discipline, its keys, congestion control; the names of both in ns-3.
    ("codel", "ecn = {ecn}", "newreno", "CoDel", "NewReno"),
    ("fq_codel", "ecn = {ecn}", "newreno", "FqCoDel", "NewReno"),
    ("threshold", 'at = "20 pkt"', "dctcp", "Red", "Dctcp"),
]
SCENARIO = """
duration = "{duration} s"
tcp = {{ stack = "ns3", cc = "{cc}", ecn = {ecn}, mss = "1448 B", snd_buf = "4 MiB", rcv_buf = "4 MiB", \
write_size = "1448 B" }}
node = [{{ name = "server" }}, {{ name = "router" }}, {{ name = "client" }}]
[[link]]
name = "access"
between = ["server", "router"]
rate = "100 Mbit/s"
delay = "10 ms"
overhead = "2 B"
queue = "10000 pkt"
[[link]]
name = "bottleneck"
between = ["router", "client"]
rate = "10 Mbit/s"
delay = "10 ms"
overhead = "2 B"
queue = "1000 pkt"
qdisc = {{ kind = "{disc}", {keys} }}
"""
FLOW = """
[[flow]]
name = "f{i}"
kind = "bulk"
from = "server"
to = "client"
"""


def options():
    parser = cli.parser(__doc__)
    parser.add_argument("--duration", type=int, default=60, help="seconds of simulated time")
    parser.add_argument("--flows", type=int, nargs="+", default=[1, 4])
    return parser.parse_args()


def ours(binary: Path, case: tuple, flows: int, ecn: bool, duration: int) -> dict:
    disc, keys, cc, *_ = case
    ecn = str(ecn).lower()
    text = SCENARIO.format(disc=disc, keys=keys.format(ecn=ecn), cc=cc, ecn=ecn, duration=duration)
    text += "".join(FLOW.format(i=i) for i in range(flows))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scenario.toml"
        file.write_text(text)
        done = subprocess.run([str(binary), "run", str(file), "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(done.stderr)
    result = json.loads(done.stdout)
    link = result["links"][1]["forward"]
    delay = link["qdisc"]["delay_ms"]
    return {
        "marked": link["qdisc"]["marked"],
        "dropped": link["dropped"],
        "goodput_mbps": sum(f["delivered_bytes"] for f in result["flows"]) * 8 / duration / 1e6,
        "delay_p50_ms": delay["p50"],
        "delay_p95_ms": delay["p95"],
    }


def theirs(case: tuple, flows: int, ecn: bool, duration: int) -> dict:
    program = build.build(name="queues")
    *_, disc, variant = case
    flags = [
        f"--disc={disc}",
        f"--variant={variant}",
        f"--flows={flows}",
        f"--ecn={int(ecn)}",
        f"--duration={duration}",
    ]
    done = subprocess.run([str(program), *flags], capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(done.stderr)
    return json.loads(done.stdout)


def main() -> None:
    args = options()
    if not args.roughlink.exists():
        raise Missing(
            f"cannot find roughlink at {args.roughlink}\n"
            "help: run `cargo build --release`, or pass --roughlink PATH"
        )
    try:
        build.build(name="queues")
    except build.Missing as missing:
        raise Missing(str(missing))
    head = (f"{'discipline':10} {'flows':>5} {'ecn':>5}   {'':9} "
            f"{'marked':>7} {'dropped':>7} {'Mbit/s':>8} {'p50 ms':>7} {'p95 ms':>7}")
    print(head)
    for case in CASES:
        disc = case[0]
        for flows in args.flows:
            for ecn in (True,) if disc == "threshold" else (True, False):
                runs = {
                    "roughlink": ours(args.roughlink, case, flows, ecn, args.duration),
                    "ns-3": theirs(case, flows, ecn, args.duration),
                }
                for name, r in runs.items():
                    print(f"{disc:10} {flows:5} {str(ecn).lower():>5}   {name:9} {r['marked']:7} {r['dropped']:7} "
                          f"{r['goodput_mbps']:8.3f} {r['delay_p50_ms']:7.2f} {r['delay_p95_ms']:7.2f}")


if __name__ == "__main__":
    sys.exit(cli.guarded(main))
