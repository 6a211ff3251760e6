#!/usr/bin/env python3
"""How late an emulated link is, and how much it carries, on this machine.

For each rate a program floods the link with UDP datagrams of 1472 B of payload at nine tenths of the rate, and the lateness of
`roughlink emulate` is printed; one TCP transfer over a link without a limit that matters shows the throughput; a UDP echo over a path of 20 ms shows the
error of a round trip. Rounds alternate between the cases, so that a busy machine treats them alike; the table has the median of the rounds.

Needs root, or user namespaces; Linux only. Code 3: emulation is not possible here.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

PAIR = """
duration = "3600 s"
node = [{{ name = "a" }}, {{ name = "b" }}]
[[link]]
name = "wire"
between = ["a", "b"]
rate = "{rate}"
delay = "{delay}"
queue = "{queue}"
"""

SINK = """
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("0.0.0.0", 7000))
while True:
    s.recv(2048)
"""

FLOOD = """
import os, socket, sys, time
rate, seconds = float(sys.argv[1]), float(sys.argv[2])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); to = (os.environ["ROUGHLINK_B"], 7000)
payload, start, sent = bytes(1472), time.monotonic(), 0
while (now := time.monotonic() - start) < seconds:
    while sent * 1500 * 8 < now * rate:
        s.sendto(payload, to); sent += 1
    time.sleep(0.0002)
"""

RECEIVE = """
import socket, time
l = socket.create_server(("0.0.0.0", 7000)); c = l.accept()[0]
total, start = 0, time.monotonic()
while data := c.recv(1 << 20):
    total += len(data)
print("mbps", total * 8 / (time.monotonic() - start) / 1e6)
"""

SEND = """
import os, socket, sys, time
for _ in range(500):
    try:
        c = socket.create_connection((os.environ["ROUGHLINK_B"], 7000)); break
    except OSError:
        time.sleep(0.01)
block, end = bytes(1 << 18), time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    c.sendall(block)
info = c.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
print("retransmissions", int.from_bytes(info[100:104], "little"))
"""

ECHO = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("0.0.0.0", 7000))
while True:
    data, who = s.recvfrom(100); s.sendto(data, who)
"""

ASK = """
import os, socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect((os.environ["ROUGHLINK_B"], 7000)); s.settimeout(0.2)
end, times = time.monotonic() + float(sys.argv[1]), []
while time.monotonic() < end:
    start = time.perf_counter(); s.send(b"x")
    try:
        s.recv(10); times.append((time.perf_counter() - start) * 1e3)
    except OSError:
        pass
    time.sleep(0.01)
times.sort()
print("rtt", sum(times) / len(times), times[int(len(times) * 0.99)], times[-1])
"""


def emulate(roughlink, folder, link, server, client, *args):
    """One emulation; what it says as JSON, and the lines of its programs by their first word."""
    with open(os.path.join(folder, "pair.toml"), "w") as f:
        f.write(PAIR.format(**link))
    words = [roughlink, "emulate", f.name, "--json", "--max-lateness", "100 s", "--until", "a"]
    words += ["--exec", "b", "--", sys.executable, "-c", server]
    words += ["--exec", "a", "--", sys.executable, "-c", client, *map(str, args)]
    out = subprocess.run(words, capture_output=True, text=True)
    if out.returncode == 3:
        print(out.stderr, file=sys.stderr)
        sys.exit(3)
    if not out.stdout:
        sys.exit(out.stderr)
    lines = (line.split("| ", 1)[-1].split() for line in out.stderr.splitlines())
    return json.loads(out.stdout), {line[0]: [float(x) for x in line[1:]] for line in lines if line and line[0] in ("rtt", "mbps", "retransmissions")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--roughlink", default="target/release/roughlink")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rates", type=float, nargs="+", default=[10, 100, 500], metavar="MBIT")
    options = parser.parse_args()
    seen = {}
    with tempfile.TemporaryDirectory() as folder:
        run = lambda *args: emulate(options.roughlink, folder, *args)
        for _ in range(options.rounds):
            for rate in options.rates:
                link = dict(rate=f"{rate} Mbit/s", delay="1 ms", queue="1000 pkt")
                result, _ = run(link, SINK, FLOOD, rate * 0.9e6, options.seconds)
                late = result["lateness_us"]
                carried = result["links"][0]["forward"]["bytes"] * 8 / options.seconds / 1e6
                values = [late["p50"], late["p99"], late["max"], late["over_1ms"] * 100, carried, result["overruns"],
                          result["loop_ran_s"] / result["wall_s"] * 100, result["loop_waited_s"] / result["wall_s"] * 100]
                seen.setdefault(f"UDP at 0.9 of {rate:g} Mbit/s", []).append(values)
            result, said = run(dict(rate="100 Gbit/s", delay="0 ms", queue="10000 pkt"), RECEIVE, SEND, options.seconds)
            late = result["lateness_us"]
            seen.setdefault("TCP, no limit", []).append(
                [late["p50"], late["p99"], late["max"], late["over_1ms"] * 100, said.get("mbps", [0])[0], result["overruns"],
                 result["loop_ran_s"] / result["wall_s"] * 100, result["loop_waited_s"] / result["wall_s"] * 100])
            seen.setdefault("retransmissions", []).append(said.get("retransmissions", [0]))
            _, said = run(dict(rate="100 Mbit/s", delay="10 ms", queue="1000 pkt"), ECHO, ASK, options.seconds)
            seen.setdefault("echo over 20 ms", []).append(said["rtt"])
    with open("/proc/loadavg") as f:
        print(f"load when done: {f.read().split()[:3]}; real-time priority: {result['real_time']}\n")
    print("| case | p50 us | p99 us | max us | over 1 ms % | Mbit/s | overruns | loop ran % | waited % |\n|---|---|---|---|---|---|---|---|---|")
    for case, rows in seen.items():
        middle = [statistics.median(column) for column in zip(*rows)]
        if case.startswith("echo"):
            print(f"\n{case}: mean {middle[0]:.2f} ms, p99 {middle[1]:.2f} ms, max {middle[2]:.2f} ms")
        elif case == "retransmissions":
            print(f"\nTCP retransmissions: {middle[0]:.0f}")
        else:
            print(f"| {case} | " + " | ".join(f"{x:.1f}" for x in middle) + " |")


if __name__ == "__main__":
    main()
