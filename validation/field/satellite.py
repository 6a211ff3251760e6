"""Paper 2's handover with real clients: curl downloads over an emulated link that becomes a satellite's and returns."""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from field import pepsal
from field.common import WORK, cable, host, program, sh, table
from roughlink_validation import cli
from roughlink_validation.simulators import Failed

HERE = Path(__file__).resolve().parent
# The link returns one second after each of these times, s.
TO_SATELLITE, BACK, END = 15, 40, 58
OUTAGE = 1
RATES = {TO_SATELLITE: 10, BACK: 100}
BIN = 0.1
# Port of the datagram that shows when the emulation began.
PROBE = 99
EVENTS = ('{{ at = "{at} s", for = "{outage} s", up = false }}, '
          '{{ at = "{at} s", rate = "{rate} Mbit/s", delay = "{delay}" }}')
TIMELINE = ", ".join(EVENTS.format(at=at, outage=OUTAGE, rate=rate, delay=delay)
                     for (at, rate), delay in zip(RATES.items(), ("250 ms", "10 ms"), strict=True))
LINKS = f"""
duration = "{END + 1} s"
node = [{{ name = "server" }}, {{ name = "hub" }}, {{ name = "gate" }}, {{ name = "client" }}]
[[link]]
name = "internet"
between = ["server", "hub"]
rate = "1 Gbit/s"
delay = "5 ms"
queue = "1000 pkt"
[[link]]
name = "satellite"
between = ["gate", "client"]
rate = "100 Mbit/s"
delay = "10 ms"
queue = "400 pkt"
timeline = [{TIMELINE}]
"""
# Proxy at the hub, its congestion control, and the server's.
ROWS = {
    "plain cubic": ("", "", "cubic"),
    "plain bbr": ("", "", "bbr"),
    "roughlink, wave": ("roughlink", "wave", "cubic"),
    "roughlink, wave-fr": ("roughlink", "wave-fr", "cubic"),
    "roughlink, cubic": ("roughlink", "cubic", "cubic"),
    "PEPsal, cubic": ("pepsal", "cubic", "cubic"),
    "PEPsal, bbr": ("pepsal", "bbr", "cubic"),
}


def network() -> None:
    """server - internet - hub - satellite - client; one emulation in `sky` has both links."""
    for name in ("server", "hub", "sky", "client"):
        host(name)
    cable("server", "eth0", "sky", "server")
    cable("hub", "net", "sky", "hub")
    cable("hub", "sat", "sky", "gate")
    cable("client", "eth0", "sky", "client")
    for n, (end, device) in enumerate((("server", "net"), ("client", "sat")), 1):
        sh(f"ip -n hub addr add 10.9.{n}.1/24 dev {device}")
        sh(f"ip -n {end} addr add 10.9.{n}.2/24 dev eth0")
        sh(f"ip -n {end} route add default via 10.9.{n}.1")
    sh("ip netns exec hub sysctl -qw net.ipv4.ip_forward=1")


def proxy(o, kind: str, cc: str):
    """Returns the proxy at the hub, not yet started."""
    if kind == "roughlink":
        words = [o.roughlink, "gateway", "run", "pep", "--queue", "5", "--install", "--inside", "net",
                 "--set", f"cc={cc}"]
        return program("hub", words, "press Ctrl-C")
    return pepsal.running(o.pepsal, "hub", "sat", cc) if kind else contextlib.nullcontext()


def emulated(o, kind: str, cc: str, server: str) -> dict:
    network()
    (WORK / "satellite.toml").write_text(LINKS)
    words = [o.roughlink, "emulate", WORK / "satellite.toml", "--json", "--max-lateness", "10 s", "--quiet"]
    words += [w for node in ("server", "hub", "gate", "client") for w in ("--interface", f"{node}={node}")]
    with contextlib.ExitStack() as stack:
        stack.enter_context(proxy(o, kind, cc))
        stack.enter_context(program("server", [sys.executable, HERE / "web.py", "10.9.1.2", server]))
        emulation = subprocess.Popen(["ip", "netns", "exec", "sky", *map(str, words)], stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, text=True)
        stack.callback(emulation.kill)
        time.sleep(1)
        probed = probe()
        arrivals = download()
        stdout, stderr = emulation.communicate()
    if emulation.returncode != 0:
        raise Failed(stderr)
    result = json.loads(stdout)
    began = probed - next(c["start_s"] for c in result["conversations"] if c["to"].endswith(f":{PROBE}"))
    bins = [0.0] * round(END / BIN)
    for at, size in arrivals:
        if 0 <= (n := int((at - began) / BIN)) < len(bins):
            bins[n] += size * 8e-6 / BIN
    return {**judged(bins), "late": result["lateness_us"]["over_1ms"]}


def probe() -> float:
    """Sends a datagram to the server and returns when, s; its time in the results shows when the emulation began."""
    words = ["ip", "netns", "exec", "client", sys.executable, HERE / "ends.py", "probe", "10.9.1.2", str(PROBE)]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(done.stderr)
    return float(done.stdout)


def download() -> list[tuple[float, int]]:
    """Downloads by curl until the end of the emulation; returns when how many bytes arrived."""
    words = ["curl", "--silent", "--no-buffer", "--max-time", str(END), "http://10.9.1.2/"]
    client = subprocess.Popen(["ip", "netns", "exec", "client", *words], stdout=subprocess.PIPE)
    arrivals = []
    while data := os.read(client.stdout.fileno(), 1 << 20):
        arrivals.append((time.monotonic(), len(data)))
    client.wait()
    return arrivals


def simulated(o, kind: str, cc: str, server: str) -> dict:
    sets = ["tcp.rcv_buf=6 MB", "tcp.snd_buf=4 MB", f"duration={END} s", f"tcp.cc={server}", "flow.download.start=1 s",
            f"link.satellite.timeline=[{TIMELINE}]"]
    sets.append(f"gateway.pep.params.cc={cc}" if kind else "gateway.pep.kind=none")
    spans = [f"throughput_mbps[{n * BIN:.1f}..{(n + 1) * BIN:.1f}]" for n in range(round(END / BIN))]
    with tempfile.TemporaryDirectory(dir=WORK) as folder:
        words = [str(o.roughlink), "sweep", "satellite-pep", "--replicas", "1", "--json", "--quiet", "-o", folder,
                 *(w for span in spans for w in ("--metric", span)), *(w for s in sets for w in ("--set", s))]
        done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(done.stderr)
    cells = {cell["metric"]: cell["measured"] or 0.0 for cell in json.loads(done.stdout)["cells"]}
    return judged([cells[span] for span in spans])


def judged(bins: list[float]) -> dict:
    """Returns recovery times and volumes of a download; `bins` has its rates in Mbit/s, each for `BIN` seconds."""
    second = round(1 / BIN)
    result = {}
    for (at, rate), until, name in zip(RATES.items(), (BACK, END), ("satellite", "return"), strict=True):
        first, last = (round(s / BIN) for s in (at + OUTAGE, until))
        steady = lambda n: all(sum(bins[n + k * second:n + (k + 1) * second]) / second >= 0.9 * rate for k in range(5))
        start = next((n for n in range(first, last - 5 * second + 1) if steady(n)), None)
        result[f"{name}_s"] = None if start is None else (start - first) * BIN
        result[f"{name}_mb"] = sum(bins[round(at / BIN):last]) * BIN / 8
    return result


def measure(o) -> list[dict]:
    available = sh("cat /proc/sys/net/ipv4/tcp_available_congestion_control").split()
    o.pepsal = pepsal.found(o)
    rows = {}
    for name, (kind, cc, server) in ROWS.items():
        needed = {server, *([cc] if kind == "pepsal" else [])} - set(available)
        if needed:
            print(f"skipped: {name}: the kernel has no {', '.join(needed)}", file=sys.stderr)
        elif kind != "pepsal" or o.pepsal:
            rows[name] = []
    for n in range(o.satellite_rounds):
        for name, runs in rows.items():
            cli.progress(f"satellite: round {n + 1}, {name}")
            runs.append(emulated(o, *ROWS[name]))
    return [{"hub": name, "emulated": runs, "simulated": simulated(o, *ROWS[name])} for name, runs in rows.items()]


def text(found: list[dict]) -> str:
    time_of = lambda s: "never" if s is None else f"{s:.1f}"
    lines = []
    for row in found:
        line = [row["hub"]]
        for phase in ("satellite", "return"):
            times = [run[f"{phase}_s"] for run in row["emulated"]]
            ordered = sorted(times, key=lambda s: float("inf") if s is None else s)
            line.append(f"{time_of(ordered[len(ordered) // 2])} ({time_of(ordered[0])} to {time_of(ordered[-1])})")
            line.append(time_of(row["simulated"][f"{phase}_s"]))
            line.append(f"{statistics.median(run[f'{phase}_mb'] for run in row['emulated']):.1f}")
            line.append(f"{row['simulated'][f'{phase}_mb']:.1f}")
        lines.append(line)
    late = max(run["late"] for row in found for run in row["emulated"])
    tables = table(["at the hub", "recovery on the satellite, s", "simulated", "MB on the satellite", "simulated",
                  "recovery after the return, s", "simulated", "MB after the return", "simulated"], lines)
    rounds = len(found[0]["emulated"])
    return (f"{tables}\n\nMedian of {rounds} rounds, with the smallest and largest time. In each run at most "
            f"{late:.1%} of the packets left the emulated links more than 1 ms late.")
