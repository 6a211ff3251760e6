"""The split-TCP proxy under load: many connections at once, memory, and throughput of one processor."""

import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

from field import pepsal
from field.common import Path2, cpu, program, sh, table
from roughlink_validation import cli
from roughlink_validation.simulators import Failed

CROWD = [sys.executable, str(Path(__file__).with_name("crowd.py"))]
SIZE = 16 << 10
ENDS, PROXY = "0", "1"
PLAIN = "the kernel alone"
KINDS = (PLAIN, "roughlink at queues", "roughlink between devices", "PEPsal")


@contextlib.contextmanager
def forwarder(o, kind: str):
    """Runs a proxy between the hosts `a` and `b`, on one processor; yields the path and the proxy, if any."""
    path = Path2(routes=kind != "roughlink between devices")
    for namespace, device in (("a", "eth0"), ("b", "eth0"), ("m", "toa"), ("m", "tob")):
        # Packets of one segment each, as on a wire.
        sh(f"ip -n {namespace} link set {device} gso_max_segs 1")
    pinned = ("taskset", "-c", PROXY)
    if kind == PLAIN:
        running = contextlib.nullcontext()
    elif kind == "PEPsal":
        running = pepsal.running(o.pepsal, "m", "toa", "cubic", pinned)
    else:
        place = ["--queue", "5", "--install", "--inside", "toa"]
        place = ["--between", "toa", "tob"] if kind.endswith("devices") else place
        words = [*pinned, o.roughlink, "gateway", "run", "pep", *place, "--set", "cc=cubic"]
        running = program("m", words, "press Ctrl-C")
    with running as child:
        yield path, child


def throughput(o, kind: str, streams: int) -> tuple[float, float]:
    """Returns Mbit/s of iperf3, and Mbit per second of the proxy's processor time."""
    pinned = ("taskset", "-c", ENDS)
    with forwarder(o, kind) as (path, child), program("b", [*pinned, "iperf3", "-s", "-1"]):
        spent = cpu(child) if child else 0.0
        words = ["ip", "netns", "exec", "a", *pinned, "iperf3", "-c", path.address, "-C", "cubic", "-P", str(streams),
                 "-t", str(o.load_seconds), "-J"]
        done = json.loads(subprocess.run(words, capture_output=True, text=True).stdout)
        if "error" in done:
            raise Failed(f"{kind}: {done['error']}")
        spent = cpu(child) - spent if child else 0.0
    received = done["end"]["sum_received"]
    return received["bits_per_second"] / 1e6, received["bytes"] * 8e-6 / spent if spent else float("nan")


def resident_kb(child) -> tuple[int, int]:
    """Returns the resident memory of a program and its peak, kB."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{child.pid}/status").read_text().splitlines())
    return tuple(int(fields[key].split()[0]) for key in ("VmRSS", "VmHWM"))


def slab_kb() -> int:
    """Returns the kernel's memory for small objects, such as sockets and pipes, kB."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("Slab")).split()[1])


def crowd(o, kind: str, connections: int) -> dict:
    """Opens all connections at once, sends over each, and returns failures and the memory per connection."""
    with forwarder(o, kind) as (path, child):
        for namespace in "abm":
            sh(f"ip netns exec {namespace} sysctl -qw net.core.somaxconn=4096")
        before, slab = resident_kb(child)[0] if child else 0, slab_kb()
        with program("b", [*CROWD, "echo", path.address, "7"]):
            words = ["ip", "netns", "exec", "a", *CROWD, "open", path.address, "7", str(connections), str(SIZE)]
            client = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            try:
                opened = int(client.stdout.readline().split()[1])
                time.sleep(1)
                idle, slab = resident_kb(child)[0] if child else 0, slab_kb() - slab
                client.stdin.write("\n")
                client.stdin.flush()
                result = json.loads(client.stdout.readline())
                peak = resident_kb(child)[1] if child else 0
                client.communicate("\n")
            finally:
                client.kill()
                client.wait()
    return {"opened": opened, **result, "idle_kb": (idle - before) / connections,
            "peak_kb": (peak - before) / connections, "slab_kb": slab / connections}


def measure(o) -> dict:
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    if files < o.connections + 100:
        raise Failed(f"a process may open only {files} files, fewer than {o.connections} connections")
    if len(os.sched_getaffinity(0)) < 2:
        raise Failed("`load` needs two processors: one for the proxy and one for the ends")
    o.pepsal = pepsal.found(o)
    kinds = [kind for kind in KINDS if kind != "PEPsal" or o.pepsal]
    rates, crowds = {kind: {1: [], 10: []} for kind in kinds}, {}
    for n in range(o.rounds):
        for streams in (1, 10):
            for kind in kinds:
                cli.progress(f"load: round {n + 1}, {kind}, {streams}")
                rates[kind][streams].append(throughput(o, kind, streams))
    for kind in kinds:
        cli.progress(f"load: {o.connections} connections, {kind}")
        most = (files - 100) // pepsal.FILES_EACH if kind == "PEPsal" else o.connections
        crowds[kind] = crowd(o, kind, min(o.connections, most))
    middle = lambda runs: [statistics.median(column) for column in zip(*runs, strict=True)]
    return {"throughput": {kind: {n: middle(runs) for n, runs in by.items()} for kind, by in rates.items()},
            "crowd": crowds}


def text(found: dict) -> str:
    per_cpu = lambda value: "" if value != value else f"{value:,.0f}"
    rows = [[kind, *(cell for rate, cost in by.values() for cell in (f"{rate:,.0f}", per_cpu(cost)))]
            for kind, by in found["throughput"].items()]
    cost = "Mbit per s of processor time"
    first = table(["between the hosts", "1 connection, Mbit/s", cost, "10 connections, Mbit/s", cost], rows)
    memory = lambda kind, value: "" if kind == PLAIN else f"{value:.1f}"
    rows = [[kind, f"{row['opened']:,}", f"{row['exact']:,}", f"{row['seconds']:.1f}", memory(kind, row["idle_kb"]),
             memory(kind, row["peak_kb"]), f"{row['slab_kb']:.1f}"] for kind, row in found["crowd"].items()]
    second = table(["many connections through", "open at once", f"{SIZE >> 10} KiB exact both ways",
                    "time, s", "kB each, idle", "kB each, peak", "kernel's slab, kB each"], rows)
    return f"{first}\n\n{second}"
