#!/usr/bin/env python3
"""Programs at the Linux ends of an emulated path: one sends as much as its kernel accepts, the other reads.

    ends.py send NODE PORT [--cc reno] [--mss 960] [--start 1.0] [--trace FILE]
    ends.py sink PORT... [--trace FILE]

Both run until SIGTERM, which `roughlink emulate` sends at the end of the scenario. Then they write FILE: the kernel's
TCP_INFO of each connection (at the end and every 100 ms), and the counters of the network namespace.

Without privileges only the algorithms in net.ipv4.tcp_allowed_congestion_control are available; as root the programs
may use any in `tcp_available_congestion_control`.
"""

import argparse
import json
import os
import select
import signal
import socket
import struct
import sys
import time
from pathlib import Path

# Fields read from struct tcp_info (linux/tcp.h): name, offset.
FIELDS = {
    "B": {"state": 0, "ca_state": 1, "retransmits": 2, "probes": 3, "backoff": 4},
    "I": {"rto_us": 8, "snd_mss": 16, "unacked": 24, "sacked": 28, "lost": 32, "retrans": 36, "rtt_us": 68,
          "ssthresh": 76, "cwnd": 80, "total_retrans": 100, "min_rtt_us": 148, "snd_wnd": 228},
    "Q": {"bytes_acked": 120, "bytes_received": 128, "busy_us": 168, "rwnd_limited_us": 176, "sndbuf_limited_us": 184},
    "H": {"total_rto": 240},
}
SAMPLE_S = 0.1
BLOCK = bytes(1 << 16)


def tcp_info(connection: socket.socket) -> dict:
    """Returns the kernel's TCP_INFO of a connection. Older kernels provide fewer fields."""
    raw = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return {
        name: struct.unpack_from("=" + form, raw, at)[0]
        for form, fields in FIELDS.items()
        for name, at in fields.items()
        if at + struct.calcsize("=" + form) <= len(raw)
    }


def counters() -> dict:
    """Returns the TCP counters of this network namespace."""
    seen = {}
    for name in ("snmp", "netstat"):
        lines = Path("/proc/net", name).read_text().splitlines()
        for names, values in zip(lines[::2], lines[1::2]):
            if names.startswith("Tcp"):
                seen.update(zip(names.split()[1:], map(int, values.split()[1:])))
    return seen


class StopRequest(Exception):
    """Request to end: SIGTERM has arrived."""


def send(node: str, port: int, cc: str | None, mss: int | None, start: float, record) -> None:
    to = os.environ["ROUGHLINK_" + "".join(c if c.isalnum() else "_" for c in node).upper()]
    time.sleep(start)
    while True:
        connection = socket.socket()
        if cc:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cc.encode())
        if mss:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, mss)
        try:
            connection.connect((to, port))
            break
        except ConnectionRefusedError:  # not listening yet
            connection.close()
            time.sleep(0.05)
    record.connections[port] = connection
    connection.setblocking(False)
    while True:
        if select.select([], [connection], [], SAMPLE_S)[1]:
            try:
                connection.send(BLOCK)
            except BlockingIOError:
                pass
        record.look()


def sink(ports: list[int], record) -> None:
    listening = {socket.create_server(("0.0.0.0", port)): port for port in ports}
    waiting, buffer = list(listening), bytearray(1 << 18)
    while waiting:
        for ready in select.select(waiting, [], [])[0]:
            if ready in listening:
                connection, _ = ready.accept()
                record.connections[listening[ready]] = connection
                waiting.append(connection)
            elif not ready.recv_into(buffer):
                waiting.remove(ready)


class Record:
    """Record of a program's connections."""

    def __init__(self) -> None:
        self.before, self.connections, self.samples, self.due = counters(), {}, [], 0.0

    def look(self) -> None:
        if (now := time.monotonic()) >= self.due:
            self.samples += [{"t": round(now, 3), "port": port, **tcp_info(c)} for port, c in self.connections.items()]
            self.due = now + SAMPLE_S

    def write(self, file: Path) -> None:
        grown = {name: value - self.before.get(name, 0) for name, value in counters().items()}
        final = {port: tcp_info(c) for port, c in self.connections.items()}
        unfinished = file.with_suffix(".part")
        unfinished.write_text(json.dumps({"final": final, "counters": {k: v for k, v in grown.items() if v},
                                          "samples": self.samples}))
        unfinished.replace(file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    kinds = parser.add_subparsers(dest="kind", required=True)
    sender, reader = kinds.add_parser("send"), kinds.add_parser("sink")
    sender.add_argument("node")
    sender.add_argument("port", type=int)
    sender.add_argument("--cc")
    sender.add_argument("--mss", type=int, help="maximum segment size, including TCP options")
    sender.add_argument("--start", type=float, default=0.0)
    reader.add_argument("port", type=int, nargs="+")
    for kind in (sender, reader):
        kind.add_argument("--trace", type=Path)
    options = parser.parse_args()

    def stop(*_):
        raise StopRequest

    signal.signal(signal.SIGTERM, stop)
    try:
        os.nice(-10)  # measure the kernel, not the load of other programs
    except PermissionError:
        pass
    record = Record()
    try:
        if options.kind == "send":
            send(options.node, options.port, options.cc, options.mss, options.start, record)
        else:
            sink(options.port, record)
    except OSError as error:
        sys.exit(f"{options.kind}: {error}")
    except StopRequest:
        pass
    if options.trace:
        record.write(options.trace)


if __name__ == "__main__":
    main()
