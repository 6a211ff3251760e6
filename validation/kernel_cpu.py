#!/usr/bin/env python3
"""Cost of an acknowledgment in the sending kernel, for roughlink's algorithms and the kernel's own cubic.

Two namespaces are joined by a pair of virtual devices, and both programs run on one processor. Packets have one
segment, and the route holds the window at 64 segments, so that each algorithm does the same work. Each round has three
connections: with cubic, with the algorithm, and with the algorithm while the kernel counts the time of BPF programs
(kernel.bpf_stats_enabled). Counting itself costs time. The counted connection gives the programs' time in ns and their
number per ACK. The other two give, for each round, the ratio of the processor time per ACK that the sender received,
summed over both ends. A comparison of cubic with cubic shows the noise.

Wave paces bursts and derives its pace from the arrivals of each burst. To measure it, use packets that hold a whole
burst (--segments 10). The processor then mostly waits for the clock, so Wave and cubic differ in more than the cost of
their arithmetic.

Needs root and a roughlink with the algorithms (`make kernel`), else exits with 3. At the end the algorithms and
namespaces are always removed and the setting is restored.
"""

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from roughlink_validation import cli, machine
from roughlink_validation.emulators import APART, PREPARE, Link, Veth
from roughlink_validation.loading import algorithms, loaded
from roughlink_validation.simulators import Failed

STATS = Path("/proc/sys/kernel/bpf_stats_enabled")
CUBIC = "cubic"
WINDOW = 64

BOTH = """
import json, os, select, socket, struct, sys, time
folder, processor = sys.argv[1], int(sys.argv[2])
os.sched_setaffinity(0, {processor})
"""

READER = BOTH + """
listener = socket.create_server(("0.0.0.0", 7000))
with open(folder + "/part", "w") as f:
    f.write(str(os.getpid()))
os.rename(folder + "/part", folder + "/reader")
buffer = bytearray(1 << 18)
while True:
    connection, _ = listener.accept()
    try:
        while connection.recv_into(buffer):
            pass
    except ConnectionResetError:
        pass
    connection.close()
"""

# Program: opens a connection for each input line (algorithm, seconds) and prints a line of counts for that time, from
# ACK 200 on.
SENDER = BOTH + """
while not os.path.exists(folder + "/reader"):
    time.sleep(0.01)
with open(folder + "/reader") as f:
    reader = "/proc/" + f.read() + "/schedstat"

def spent():
    with open(reader) as f:
        return int(f.read().split()[0]) + time.process_time_ns()

def info(c):
    i = c.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return dict(cwnd=struct.unpack_from("=I", i, 80)[0], acks=struct.unpack_from("=I", i, 140)[0])

block = bytes(1 << 16)

def send_for(c, seconds, acks=1 << 32):
    windows, begin = [], time.monotonic()
    while (now := time.monotonic() - begin) < seconds:
        try:
            c.send(block)
        except BlockingIOError:
            select.select([], [c], [], seconds - now)
        if len(windows) < 1000 * now:
            windows.append(info(c)["cwnd"])
            if info(c)["acks"] >= acks:
                break
    return time.monotonic() - begin, windows

# The kernel applies a route's window through its TCP metrics of the destination. It creates these metrics when the
# first connection is closed in the normal way.
with socket.create_connection((os.environ["PEER"], 7000)) as c:
    c.send(block)
    c.shutdown(socket.SHUT_WR)
    c.recv(1)
for line in sys.stdin:
    name, seconds = line.split()
    c = socket.socket()
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
    # Discard unsent data at the end.
    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    c.connect((os.environ["PEER"], 7000))
    c.setblocking(False)
    send_for(c, 10, 200)
    cpu, before = spent(), info(c)["acks"]
    took, windows = send_for(c, float(seconds))
    cpu, acks = spent() - cpu, info(c)["acks"]
    c.close()
    print(json.dumps(dict(cpu_ns=cpu, acks=acks - before, all_acks=acks, s=took, cwnd=sum(windows) / len(windows))), \
flush=True)
"""


def options():
    parser = cli.parser(__doc__)
    parser.add_argument("--cc", nargs="+", metavar="NAME",
                        help="algorithms (default: all that roughlink provides for the kernel)")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=0.5, help="duration of a connection; each round has three")
    parser.add_argument(
        "--segments", type=int, default=1, help="largest number of segments in a packet of the sender's device"
    )
    parser.add_argument("--quick", action="store_true", help="three rounds of 0.2 s")
    parser.add_argument("--json", action="store_true")
    o = parser.parse_args()
    if o.quick:
        o.rounds, o.seconds = 3, 0.2
    return o


@contextmanager
def pair(folder: Path, segments: int) -> Iterator[subprocess.Popen]:
    """Starts a sender that reads its rounds from its input, and a reader behind a pair of devices."""
    # Use the last processor: the first handles most of a small machine's interrupts.
    arguments = [str(folder), str(machine.PROCESSORS - 1)]
    for name, program in (("outside", READER), ("inside", SENDER)):
        (folder / f"{name}.py").write_text(program)
        (folder / name).write_text(f"exec {sys.executable} {folder}/{name}.py {' '.join(arguments)}\n")
    lines = Veth("veth", "", "PEER", "").script(Link(), folder).splitlines()
    lines.insert(-3, f"ip -n inside link set in gso_max_segs {segments}")
    lines.insert(-3, f"ip -n inside route change 10.9.0.0/24 dev in cwnd lock {WINDOW}")  # before the ends
    (folder / "run").write_text(PREPARE + "\n".join(lines) + "\n")
    (folder / "outside").chmod(0o755)
    (folder / "inside").chmod(0o755)
    ends = subprocess.Popen(
        [*APART, "sh", str(folder / "run")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield ends
    finally:
        ends.kill()
        ends.wait()


@contextmanager
def kept_setting() -> Iterator[None]:
    before = STATS.read_text()
    try:
        yield
    finally:
        STATS.write_text(before)


def round_of(ends: subprocess.Popen, name: str, seconds: float, softirqs: Path) -> dict:
    before = machine.ran(softirqs)
    try:
        ends.stdin.write(f"{name} {seconds}\n")
        ends.stdin.flush()
    except BrokenPipeError:
        pass
    line = ends.stdout.readline()
    if not line:
        raise Failed(f"{name}: {ends.stderr.read().strip()[-1500:] or 'the sender ended'}")
    done = json.loads(line)
    # The kernel's softirq thread takes over work from the two programs: count its time as theirs.
    done["cpu_ns"] += (machine.ran(softirqs) - before) * 1e9
    return done


def programs(loader: int) -> tuple[int, int]:
    """Returns the time in ns and the number of runs of a process's BPF programs."""
    total = {}
    for file in Path(f"/proc/{loader}/fdinfo").iterdir():
        said = dict(line.split(":", 1) for line in file.read_text().splitlines() if ":" in line)
        if "run_time_ns" in said:
            total[said["prog_id"].strip()] = int(said["run_time_ns"]), int(said["run_cnt"])
    return sum(t for t, _ in total.values()), sum(n for _, n in total.values())


def softirq_thread() -> Path:
    for file in Path("/proc").glob("[0-9]*/comm"):
        try:
            if file.read_text().strip() == f"ksoftirqd/{machine.PROCESSORS - 1}":
                return file.parent
        except OSError:
            continue
    raise Failed("the last processor has no ksoftirqd thread")


def measure(o, names: list[str], held: dict[str, tuple[str, int]], folder: Path) -> dict[str, list[dict]]:
    rounds, softirqs = {cc: [] for cc in [CUBIC, *names]}, softirq_thread()
    with kept_setting(), pair(folder, o.segments) as ends:
        STATS.write_text("0")
        round_of(ends, CUBIC, o.seconds, softirqs)  # caches, neighbors
        for number in range(o.rounds):
            cli.progress(f"round {number + 1} of {o.rounds}")
            for cc in rounds:
                name, loader = held.get(cc, (CUBIC, 0))
                cubic, ours = (round_of(ends, who, o.seconds, softirqs) for who in (CUBIC, name))
                row = {
                    "cubic_ns": cubic["cpu_ns"] / cubic["acks"],
                    "ns": ours["cpu_ns"] / ours["acks"],
                    "cwnd": ours["cwnd"],
                    "acks_per_s": ours["acks"] / ours["s"],
                }
                if loader:
                    STATS.write_text("1")
                    before = programs(loader)
                    counted = round_of(ends, name, o.seconds, softirqs)
                    STATS.write_text("0")
                    time, runs = (after - at_first for after, at_first in zip(programs(loader), before))
                    row |= {"program_ns": time / counted["all_acks"], "programs": runs / counted["all_acks"]}
                rounds[cc].append(row)
    cli.progress_end()
    return rounds


def summed(rounds: list[dict]) -> dict:
    ratios = [r["ns"] / r["cubic_ns"] for r in rounds]
    done = {key: statistics.median(r[key] for r in rounds) for key in rounds[0]}
    return done | {
        "ratio": statistics.median(ratios),
        "ratio_from": cli.quantile(ratios, 0.25),
        "ratio_to": cli.quantile(ratios, 0.75),
    }


def show(table: dict[str, dict]) -> None:
    print(f"{'':<14}{'programs':>24}{'':>8}{'processor time per ACK, ns':>28}{'ratio':>8}{'':>16}")
    print(
        f"{'':<14}{'ns per ACK':>12}{'per ACK':>12}{'window':>8}{'cubic':>14}{'this':>14}{'':>8}{'quartiles':>16}"
        f"{'ACKs/s':>10}"
    )
    for cc, t in table.items():
        programs = f"{t['program_ns']:>12.0f}{t['programs']:>12.2f}" if "programs" in t else " " * 24
        print(f"{cc:<14}{programs}{t['cwnd']:>8.0f}{t['cubic_ns']:>14.0f}{t['ns']:>14.0f}{t['ratio']:>8.3f}"
              f"{t['ratio_from']:>9.3f}-{t['ratio_to']:.3f}{t['acks_per_s']:>11.0f}")


def main() -> int:
    o = options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    roughlink = o.roughlink.resolve()
    there = algorithms(roughlink)
    if unknown := set(o.cc or []) - set(there):
        raise Failed(
            f"roughlink does not provide {', '.join(sorted(unknown))} for the kernel; expected {', '.join(there)}"
        )
    names = o.cc or there
    with loaded(roughlink, names) as held, tempfile.TemporaryDirectory() as folder:
        table = {cc: summed(rounds) for cc, rounds in measure(o, names, held, Path(folder)).items()}
    if o.json:
        print(json.dumps(table, indent=1))
    else:
        show(table)
    return 0


if __name__ == "__main__":
    sys.exit(cli.guarded(main))
