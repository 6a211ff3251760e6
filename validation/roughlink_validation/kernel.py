"""Transfers between two Linux kernels, with programs at the nodes of `roughlink emulate`."""

import csv
import json
import os
import platform
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from roughlink_validation.matrix import SYSCTLS, Cell, Outcome, Row
from roughlink_validation.simulators import Failed, Missing, parse

# Common start of both programs: it sets the limits of the buffers, and the same priority as the emulated link. If
# unread data narrows the window, the kernel acknowledges only after the program has read. A reader that waits for a
# core would therefore acknowledge many segments at once.
BOTH = """
import json, os, selectors, signal, socket, struct, subprocess, sys, time
folder = sys.argv[1]
try:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
except OSError:
    pass
for key, value in json.loads(os.environ["SYSCTLS"]).items():
    with open("/proc/sys/net/ipv4/" + key, "w") as f:
        f.write(value)
"""

# Receiving program: after SIGTERM from the emulation it writes [[time, port of the sender, bytes], ...] and the TcpExt
# counters of its network namespace.
RECEIVER = BOTH + """
if sys.argv[2] == "each":
    route = subprocess.run(["ip", "-4", "route", "show", os.environ["ROUGHLINK_SERVER"]], \
capture_output=True, text=True, check=True)
    subprocess.run(["ip", "route", "change", *route.stdout.split(), "quickack", "1"], check=True)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
listener = socket.create_server(("0.0.0.0", 7000))
select = selectors.DefaultSelector()
select.register(listener, selectors.EVENT_READ)
rows = []
open(folder + "/listening", "w").close()
try:
    while True:
        for key, _ in select.select():
            if key.fileobj is listener:
                connection, (_, port) = listener.accept()
                select.register(connection, selectors.EVENT_READ, port)
            elif data := key.fileobj.recv(1 << 18):
                rows.append((time.monotonic(), key.data, len(data)))
            else:
                select.unregister(key.fileobj)
finally:
    with open("/proc/net/netstat") as f:
        lines = [line.split() for line in f]
    tables = {names[0]: dict(zip(names[1:], map(int, values[1:]))) for names, values in zip(lines[::2], lines[1::2])}
    with open(folder + "/received.json", "w") as f:
        json.dump(dict(rows=rows, counters=tables["TcpExt:"]), f)
"""

# Sending program: opens a connection per algorithm, each at its start. At the end it writes its own start, the port of
# each connection, and the TCP_INFO (linux/tcp.h) of each connection, sampled every 10 ms.
SENDER = BOTH + """
flows, seconds = json.loads(sys.argv[2]), float(sys.argv[3])
while not os.path.exists(folder + "/listening"):
    time.sleep(0.01)
select = selectors.DefaultSelector()
connections, block, rows = [], bytes(1 << 18), []
start = time.monotonic()

def connect(algorithm):
    c = socket.socket()
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, algorithm.encode())
    c.setblocking(False)
    c.connect_ex((os.environ["ROUGHLINK_CLIENT"], 7000))
    select.register(c, selectors.EVENT_WRITE)
    connections.append(c)

def sample(number, c):
    i = c.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    u32 = lambda at: struct.unpack_from("=I", i, at)[0]
    u64 = lambda at: struct.unpack_from("=Q", i, at)[0]
    mss, cwnd, ssthresh = u32(16), u32(80), u32(76)
    return dict(time_s=time.monotonic() - start, flow=number, cwnd_pkt=cwnd, \
ssthresh_pkt=None if ssthresh >= 0x7fffffff else ssthresh,
                srtt_ms=u32(68) / 1e3, rttvar_ms=u32(72) / 1e3, min_rtt_ms=u32(148) / 1e3, rto_ms=u32(8) / 1e3,
                unacked_pkt=u32(24), sacked_pkt=u32(28), lost_pkt=u32(32), retransmits=u32(100), state=i[1],
                pacing_mbps=u64(104) * 8 / 1e6, delivery_mbps=u64(160) * 8 / 1e6, acked_bytes=u64(120), \
reordering=u32(88),
                dsacks=u32(216), reorder_seen=u32(220), peer_window=u32(228), rwnd_limited_s=u64(176) / 1e6,
                sndbuf_limited_s=u64(184) / 1e6, sent_segments=u32(156), mss=mss)

now = time.monotonic()
due = start
while now < start + seconds:
    while flows and now >= start + flows[0][1]:
        connect(flows.pop(0)[0])
    following = start + flows[0][1] if flows else due
    for key, _ in select.select(max(0, min(due, following, start + seconds) - now)):
        try:
            key.fileobj.send(block)
        except BlockingIOError:
            pass
    now = time.monotonic()
    if now >= due:
        rows += [sample(number, c) for number, c in enumerate(connections)]
        due += 0.01 * (1 + int((now - due) / 0.01))
rows += [sample(number, c) for number, c in enumerate(connections)]
with open(folder + "/sent.json", "w") as f:
    json.dump(dict(start=start, ports=[c.getsockname()[1] for c in connections], rows=rows), f)
time.sleep(0.05)
os._exit(0)
"""


class LateLink(Exception):
    """The emulated link fell behind real time; the measurement is invalid."""


def release() -> str:
    return platform.release().split("-")[0]


def latest_us(cell: Cell) -> float:
    """Returns the limit of the 99th percentile of lateness: 1 ms, or on long paths a fortieth of the round trip."""
    return max(1000.0, cell.delay_ms * 2 * 1000 / 40)


@dataclass(frozen=True)
class Run:
    """Transfers between kernels."""

    ports: list[int]  # of each connection at the sender
    received: list[tuple[float, int, int]]  # time of each read in s after the sender's start, connection, bytes
    samples: list[dict]  # TCP_INFO of each connection every 10 ms
    counters: dict[str, int]  # TcpExt counters of the receiver
    result: dict  # result of the emulation
    links: list[dict[str, str]]  # series of the links, if requested
    written: dict[str, list]  # output of each further program

    @property
    def delivered(self) -> list[int]:
        """Returns the bytes of each connection that the receiver read before the end."""
        totals = [0] * len(self.ports)
        for _, connection, count in self.received:
            totals[connection] += count
        return totals

    @property
    def late_us(self) -> tuple[float, float]:
        return self.result["lateness_us"]["p50"], self.result["lateness_us"]["p99"]


def transfer(
    roughlink: Path, scenario: str, flows: list[tuple[str, float]], seconds: float, seed: int, latest: float,
    ack: str = "delayed", sysctls: dict[str, str] | None = None, programs: dict[str, str] | None = None,
    series: bool = False
) -> Run:
    """Sends from `server` to `client` for `seconds`, over connections given as an algorithm and a start in s, in order.

    `sysctls` are further settings below net.ipv4 of all namespaces. `programs` has a further program for some nodes,
    which follows `BOTH` and may write the JSON file `folder/NODE.json`. With `series`, the result has a series of the
    links.
    """
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        at.chmod(0o777)
        (at / "link.toml").write_text(scenario)
        words = [str(roughlink), "emulate", str(at / "link.toml"), "--json", "--quiet", "--seed", str(seed),
                 "--max-lateness", f"{latest:g} us"]
        words += ["-o", str(at / "series"), "--no-capture"] if series else []
        words += ["--until", "server", "--for", f"{seconds + 30:g} s"]
        words += ["--exec", "client", "--", sys.executable, "-c", RECEIVER, folder, ack]
        words += ["--exec", "server", "--", sys.executable, "-c", SENDER, folder, json.dumps(flows), f"{seconds:g}"]
        for node, program in (programs or {}).items():
            words += ["--exec", node, "--", sys.executable, "-c", BOTH + program, folder]
        settings = {**os.environ, "SYSCTLS": json.dumps(SYSCTLS | (sysctls or {}))}
        done = subprocess.run(words, check=False, capture_output=True, text=True, env=settings)
        if done.returncode == 3:
            raise Missing(done.stderr.strip())
        if done.returncode == 4:
            raise LateLink(done.stderr.strip())
        if done.returncode != 0:
            raise Failed(f"{flows}: emulate failed with code {done.returncode}: {done.stderr.strip()[-2000:]}")
        sent, read = json.loads((at / "sent.json").read_text()), json.loads((at / "received.json").read_text())
        links = []
        if series:
            with (at / "series" / "links.csv").open(newline="") as stream:
                links = list(csv.DictReader(stream))
        written = {node: json.loads(file.read_text()) for node in programs or {}
                   if (file := at / f"{node}.json").exists()}
    numbers = {port: number for number, port in enumerate(sent["ports"])}
    received = [(time - sent["start"], numbers[port], count) for time, port, count in read["rows"]
                if port in numbers and time <= sent["start"] + seconds]
    return Run(sent["ports"], received, sent["rows"], read["counters"], parse("roughlink", done.stdout), links, written)


def measure(roughlink: Path, cell: Cell, seed: int, name: str | None = None) -> tuple[Row, list[dict]]:
    """Runs a cell between kernels and returns its row and samples of TCP_INFO.

    `name` is the kernel's name of the algorithm if it differs from the cell's.
    """
    flows = [(name or cell.cc, 0.0)] * cell.flows
    run = transfer(roughlink, cell.scenario(traffic=False), flows, cell.duration_s, seed, latest_us(cell),
                   ack=cell.ack)
    last = {row["flow"]: row for row in run.samples}
    rtts = [row["srtt_ms"] for row in run.samples if row["srtt_ms"] > 0]
    link = run.result["links"][0]["forward"]
    outcome = Outcome(
        goodput_mbps=sum(run.delivered) * 8 / cell.duration_s / 1e6,
        retransmits=sum(row["retransmits"] for row in last.values()),
        rtt_ms=sum(rtts) / len(rtts) if rtts else 0.0,
        queue_pkt_mean=link["queue_mean_pkt"] * run.result["sim_s"] / cell.duration_s,
        queue_drops=link["dropped"],
        lost=link["lost"],
    )
    return Row(cell, seed, outcome, *run.late_us, release()), run.samples
