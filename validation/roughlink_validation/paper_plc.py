"""Home behind a power-line modem that rewrites windows: Linux servers and a Linux host in the house."""

import bisect

from roughlink_validation.captures import Transfer, at, throughput_mbps
from roughlink_validation.paper_runs import KERNEL, MODEL, PAPER, Claim, Observed, Run, ratio

SERVERS = ("japan", "usa")
PORTS = ("42000", "42001")
DURATION = 60
SCENARIO = """
name = "home"
duration = "{duration} s"
node = [{nodes}]

[tcp]
{tcp}

[[link]]
name = "from japan"
between = ["japan", "router"]
rate = "100 Mbit/s"
delay = "29 ms"
queue = "1000 pkt"
[[link]]
name = "from the usa"
between = ["usa", "router"]
rate = "100 Mbit/s"
delay = "89 ms"
queue = "1000 pkt"
[[link]]
name = "internet"
between = ["router", "modem1"]
rate = "100 Mbit/s"
delay = "1 ms"
queue = "100 pkt"

[[link]]
name = "plc"
kind = "hdplc"
between = ["modem1", "modem2"]
rate = "18.62 Mbit/s"
queue = "256 pkt"
noise = {{ kind = "inverter45", mean = "7 %" }}
mac = {{ duplex = "full" }}

[[link]]
name = "home"
between = ["modem2", "house"]
rate = "100 Mbit/s"
delay = "0.3 ms"
queue = "1000 pkt"

[[gateway]]
name = "modem"
node = "modem1"
kind = "{scheme}"
"""
FLOWS = """
[[flow]]
name = "flow1"
kind = "bulk"
from = "japan"
to = "house"
start = "1 s"
[[flow]]
name = "flow2"
kind = "bulk"
from = "usa"
to = "house"
start = "6 s"
"""
CALLS = """
[[link]]
name = "caller's line"
between = ["caller", "router"]
rate = "100 Mbit/s"
delay = "29 ms"
[[link]]
name = "telephone's line"
between = ["modem2", "telephone"]
rate = "100 Mbit/s"
delay = "0.3 ms"
queue = "1000 pkt"
[[link]]
name = "crossroad"
between = ["elsewhere", "router"]
rate = "100 Mbit/s"
delay = "1 ms"
queue = "1000 pkt"
[[flow]]
name = "call1"
kind = "voip"
from = "caller"
to = "telephone"
[[flow]]
name = "call2"
kind = "voip"
from = "caller"
to = "telephone"
[[flow]]
name = "cross"
kind = "cbr"
from = "elsewhere"
to = "modem1"
rate = "90 Mbit/s"
packet = "1500 B"
start = "20 s"
stop = "40 s"
"""
HOUSE = ("japan", "usa", "router", "modem1", "modem2", "house")
WITH_CALLS = HOUSE + ("caller", "telephone", "elsewhere")
# One-way delays in seconds: from a server to the modem, and from the modem's peer to the house.
BEFORE = {"japan": 0.030 + 2 * 120e-6, "usa": 0.090 + 2 * 120e-6}
AFTER = 0.0003 + 120e-6
FRAME = 31
NS2 = """stack = "ns2"
cc = "newreno"
sack = true
recovery = "sack"
window_scaling = true
snd_buf = "1 MiB"
rcv_buf = "1 MiB"
initial_ssthresh = "290 pkt"
"""


def run(cc: str, scheme: str, column: str, calls: bool, seed: int) -> Run:
    nodes = WITH_CALLS if calls else HOUSE
    tcp = NS2 if column == PAPER else f'stack = "linux"\ncc = "{cc}"\n'
    text = SCENARIO.format(duration=DURATION, nodes=", ".join(f'{{ name = "{node}" }}' for node in nodes), tcp=tcp,
                           scheme=scheme)
    text += ("" if column == KERNEL else FLOWS) + (CALLS if calls else "")
    programs = ()
    if column == KERNEL:
        programs = (("house", ("sink", *PORTS)), ("japan", ("send", "house", PORTS[0], "--cc", cc, "--start", "1")),
                    ("usa", ("send", "house", PORTS[1], "--cc", cc, "--start", "6")))

    def measure(seen: Observed) -> dict:
        steps = [seen.transfers[server].delivered() for server in SERVERS]
        begin = 11
        rates = [throughput_mbps(s, begin, DURATION) for s in steps]
        tens = [jain([throughput_mbps(s, t, t + 10) for s in steps]) for t in range(begin, DURATION - 9)]
        queue = backlog(seen.transfers, begin, DURATION)
        plc = next(link for link in seen.result["links"] if link["name"] == "plc")["forward"]
        voices = [flow["voip"][0] for flow in seen.result["flows"] if flow["kind"] == "voip"]
        return {
            "jain": jain(rates), "jain_min_10s": min(tens), "mbps": rates, "total_mbps": sum(rates),
            "ahead_mbps": rates[0] - rates[1],
            "queue_mean": plc["queue_mean_pkt"], "queue_max": plc["queue_max_pkt"], "dropped": plc["dropped"],
            "backlog_mean": queue[0], "backlog_p95": queue[1],
            "retransmits": sum(f["retransmits"] for f in seen.result["flows"] if f["kind"] == "bulk")
            + sum(final["total_retrans"] for node in SERVERS
                  for final in seen.traces.get(node, {}).get("final", {}).values()),
            "windows_kB": [[round(w / 1e3) for w in least_and_most(seen.transfers[server], begin)]
                           for server in SERVERS],
            "rates_mbps": [[round((at(s, t + 1) - at(s, t)) * 8 / 1e6, 2) for t in range(DURATION - 1)] for s in steps],
            **({"voice_p99_ms": max(v["delay_ms"]["p99"] for v in voices),
                "voice_over_150ms": max(v["over_150ms"] for v in voices),
                "voice_p50_ms": max(v["delay_ms"]["p50"] for v in voices)} if voices else {}),
        }

    name = f"{'calls, ' if calls else ''}{scheme}, {'TCP' if cc == TCP[column] else cc}"
    return Run(name, column, seed, text, nodes, DURATION, SERVERS, measure, programs, (*SERVERS, "house"))


def jain(rates: list[float]) -> float:
    squares = sum(r * r for r in rates)
    return sum(rates) ** 2 / (len(rates) * squares) if squares else 1.0


def least_and_most(transfer: Transfer, begin: float) -> tuple[int, int]:
    windows = [window for time, _, window in transfer.windows if time >= begin] or [0]
    return min(windows), max(windows)


def backlog(transfers: dict[str, Transfer], begin: float, end: float) -> tuple[float, float]:
    """Returns the mean and 95th percentile of the number of packets between the modem's input and its peer's output.

    These packets wait, are being sent, or are held back until an earlier packet has been retransmitted.
    """
    entered, left = [], []
    for server, transfer in transfers.items():
        for sent, arrived in transfer.ways():
            entered.append(sent + BEFORE[server])
            left.append(arrived - AFTER)
    entered.sort()
    left.sort()
    counts = [bisect.bisect_right(entered, t) - bisect.bisect_right(left, t)
              for t in (begin + k / 100 for k in range(int((end - begin) * 100)))]
    return sum(counts) / len(counts), float(sorted(counts)[int(len(counts) * 0.95)])


# Meaning of "TCP": ns-2's NewReno with SACK in the paper's column, the closest algorithm in the others.
TCP = {PAPER: "newreno", MODEL: "reno", KERNEL: "reno"}
SCHEMES = ("none", "mizutani", "muniz")


def runs(seeds: int, quick: bool) -> list[Run]:
    made = []
    for seed in range(1, seeds + 1):
        for scheme in SCHEMES[::2] if quick else SCHEMES:
            made += [run(cc, scheme, column, False, seed) for column, cc in TCP.items()]
            if not quick:
                made += [run("cubic", scheme, column, False, seed) for column in (MODEL, KERNEL)
                         if scheme != "mizutani"]
                made += [run("bbr", scheme, column, False, seed) for column in (MODEL, KERNEL) if scheme != "mizutani"]
                made += [run(cc, scheme, column, True, seed) for column, cc in TCP.items() if scheme != "mizutani"]
    return made


def of(case: str, metric: str):
    return lambda get: get(case, metric)


def over(metric: str, a: str, b: str):
    return lambda get: ratio(get(a, metric), get(b, metric))


CLAIMS = [
    Claim("plain TCP: the queue drops", "without a gateway the modem's queue overflows", "R1",
          of("none, TCP", "dropped"), least=1),
    Claim("plain TCP: the queue is high", "the queue of 256 packets is at least half full on average", "R1",
          of("none, TCP", "queue_mean"), least=128, unit="packets"),
    Claim("plain TCP is unfair", "Jain's index is below 0.85 over at least one interval of 10 s", "R2",
          of("none, TCP", "jain_min_10s"), most=0.85),
    Claim("previous scheme: short queue", "the mean queue is at most three frames, 93 packets", "R4",
          of("mizutani, TCP", "queue_mean"), most=93, unit="packets"),
    Claim("previous scheme is unfair", "Jain's index is at most 0.9 (with the queue of all flows, the default)", "R5",
          of("mizutani, TCP", "jain"), most=0.9, origin="ours"),
    Claim("muniz is fair", "Jain's index of the two flows is at least 0.95", "R9", of("muniz, TCP", "jain"),
          least=0.95),
    Claim("muniz: short queue", "the mean queue is at most two frames, 62 packets", "R9",
          of("muniz, TCP", "queue_mean"), most=62, origin="ours", unit="packets"),
    Claim("muniz: no drops", "the queue drops nothing", "R1", of("muniz, TCP", "dropped"), most=0),
    Claim("muniz: no less throughput", "the total is at least 95 % of plain TCP's", "R14",
          over("total_mbps", "muniz, TCP", "none, TCP"), least=0.95, origin="ours"),
    Claim("muniz, CUBIC: fair", "the same index with CUBIC", "ours", of("muniz, cubic", "jain"), least=0.95,
          origin="ours"),
    Claim("muniz, CUBIC: short queue", "the same queue with CUBIC", "ours", of("muniz, cubic", "queue_mean"), most=62,
          origin="ours", unit="packets"),
    Claim("muniz, CUBIC: throughput", "the same total with CUBIC", "ours",
          over("total_mbps", "muniz, cubic", "none, cubic"), least=0.95, origin="ours"),
    Claim("muniz, BBR: fair", "the same index with BBR", "ours", of("muniz, bbr", "jain"), least=0.95, origin="ours"),
    Claim("muniz, BBR: short queue", "the same queue with BBR", "ours", of("muniz, bbr", "queue_mean"), most=62,
          origin="ours", unit="packets"),
    Claim("plain TCP: calls are late", "1 % of the voice packets take more than 150 ms", "R8",
          of("calls, none, TCP", "voice_over_150ms"), least=0.01),
    Claim("muniz: calls in time", "99 % of the voice packets take at most 150 ms", "R13",
          of("calls, muniz, TCP", "voice_p99_ms"), most=150, unit="ms"),
]
