#!/usr/bin/env python3
"""A passenger's download through a stop without coverage; runs at the node `train` of an emulation.

usage: train.py ROUGHLINK SCENARIO SECONDS CC GATEWAY    (GATEWAY is 1 or 0)

Starts an agent that plays the scenario's coverage, and the gateway avoca-rx beside it if requested, and downloads from
the node `server`. Prints JSON: bytes received, and for each return of coverage the time until the next data, s.
"""

import json
import os
import socket
import subprocess
import sys
import threading
import time

roughlink, scenario, seconds, cc, gateway = sys.argv[1:]
SOCKET = f"/tmp/agent-{os.getpid()}.sock"
server = os.environ["ROUGHLINK_SERVER"]
agent = subprocess.Popen([roughlink, "agent", "--replay", scenario, "--socket", SOCKET, "--json"],
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
began = time.monotonic()
covered, arrivals, total = [], [], 0


def follow() -> None:
    for line in agent.stdout:
        if json.loads(line)["event"] == "configured":
            covered.append(time.monotonic())


threading.Thread(target=follow, daemon=True).start()
if gateway == "1":
    while not os.path.exists(SOCKET):
        time.sleep(0.01)
    words = [roughlink, "gateway", "run", "avoca-rx", "--queue", "5", "--install", "--coverage", SOCKET]
    running = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    for line in running.stderr:
        if "press Ctrl-C" in line:
            break
connection = None
while connection is None:
    try:
        connection = socket.create_connection((server, 5000), 1)
    except OSError:
        time.sleep(0.2)
connection.sendall(cc.encode().ljust(16))
connection.settimeout(0.5)
while time.monotonic() < began + float(seconds):
    try:
        n = len(connection.recv(1 << 20))
    except TimeoutError:
        continue
    if n == 0:
        break
    total += n
    arrivals.append(time.monotonic())
waits = [min((at - back for at in arrivals if at >= back), default=None) for back in covered[1:]]
print(json.dumps({"bytes": total, "waits": waits}))
if gateway == "1":
    running.terminate()
    running.wait()
agent.kill()
