"""Train with intermittent coverage: avoca-rx on the train between a Linux server and a Linux client."""

from roughlink_validation.captures import at, throughput_mbps
from roughlink_validation.paper_runs import KERNEL, MODEL, PAPER, AtLeast, Claim, Observed, Run, ratio

NODES = ("server", "train")
PORT = 42000
SCENARIO = """
name = "{name}"
duration = "{duration} s"
node = [{{ name = "server" }}, {{ name = "train" }}]

[tcp]
{tcp}

[[link]]
name = "air"
between = ["server", "train"]
rate = "10 Mbit/s"
delay = "16 ms"
queue = "100 pkt"
noise = {{ kind = "random", loss = "{loss}" }}

[[gateway]]
name = "agent"
node = "train"
link = "air"
kind = "{agent}"

[[coverage]]
name = "line"
link = "air"
{warning}timetable = [{stops}]
"""
FLOW = """
[[flow]]
name = "download"
kind = "bulk"
from = "server"
to = "train"
start = "{start} s"
"""
ROUND_TRIP_S = 0.0336  # two delays of 16 ms and the transmission times of two packets
DWELL = 20
STOPS = [(0, 25), (60, 85), (150, 175)]  # arrivals and departures of the line, seconds
LINE_S = 175


def tcp(cc: str, column: str) -> str:
    if column == PAPER:
        return (f'stack = "ns2"\ncc = "{cc}"\ndelayed_ack = 2\nrcv_buf = "1 MiB"\nsnd_buf = "1 MiB"\n'
                "window_scaling = true\n")
    return f'stack = "linux"\ncc = "{cc}"\n'


def run(case: str, cc: str, agent: str, column: str, stops: list, duration: float, loss: str, seed: int) -> Run:
    start = round(1 + 0.2 * (seed - 1), 1)
    times = ", ".join(f'{{ name = "S{n}", arrive = "{a} s", depart = "{d} s" }}' for n, (a, d) in enumerate(stops))
    text = SCENARIO.format(name="train", duration=duration, tcp=tcp(cc, column), loss=loss, agent=agent, stops=times,
                           warning='warning = "1 s"\n' if agent != "none" else "")
    programs = ()
    if column == KERNEL:
        programs = (
            ("train", ("sink", str(PORT))),
            ("server", ("send", "train", str(PORT), "--cc", cc, "--start", str(start))),
        )
    else:
        text += FLOW.format(start=start)
    backs = [arrive for arrive, _ in stops[1:]]

    def measure(seen: Observed) -> dict:
        transfer = seen.transfers["server"]
        steps = transfer.delivered()
        flow = seen.result["flows"][0] if seen.result["flows"] else None
        trace = seen.traces.get("server", {})
        final = trace.get("final", {}).get(str(PORT), {})
        sent = [segment.time for segment in transfer.sent]
        waits = [next((t - back for t in sent if t >= back), None) for back in backs]
        return {
            "resume_s": max(duration - back if wait is None else wait for wait, back in zip(waits, backs)),
            "resumed": None not in waits, "waits_s": waits,
            "megabytes": steps[-1][1] / 1e6 if steps else 0.0,
            "timeouts": flow["timeouts"] if flow else final.get("total_rto"),
            "retransmits": flow["retransmits"] if flow else final.get("total_retrans"),
            "mbps_10s": throughput_mbps(steps, backs[0], backs[0] + 10),
            "last_window": next((w for t, _, w in reversed(transfer.windows) if t < backs[0]), None),
            "sent_in_tunnel": sum(stops[0][1] < t < backs[0] for t in sent),
            "rates_mbps": [round((at(steps, t + 1) - at(steps, t)) * 8 / 1e6, 2) for t in range(int(duration) - 1)],
            "counters": {k: v for k, v in trace.get("counters", {}).items() if k in INTERESTING},
        }

    return Run(case, column, seed, text, NODES, duration, ("server",), measure, programs, NODES)


INTERESTING = ("TCPTimeouts", "TCPLossProbes", "TCPSpuriousRTOs", "RetransSegs", "TCPFromZeroWindowAdv",
               "TCPToZeroWindowAdv", "TCPWinProbe", "TCPKeepAlive", "TCPDSACKRecv", "TCPSlowStartRetrans",
               "TCPLostRetransmit", "TCPFullUndo", "TCPDSACKUndo", "TCPTSReorder")
OUTAGES = (5, 20, 50)
# Meaning of "TCP": the paper's algorithm in its column, Linux's default in the others. BBR and AVOCA run as well.
TCP = {PAPER: "newreno", MODEL: "cubic", KERNEL: "cubic"}
BOTH = (MODEL, KERNEL)


def runs(seeds: int, quick: bool) -> list[Run]:
    made = []
    for seed in range(1, seeds + 1):
        for outage in OUTAGES[1:2] if quick else OUTAGES:
            back = DWELL + outage
            for agent in ("none", "avoca-rx"):
                until = back + (10 if quick or agent != "none" else outage + 10)
                stops = [(0, DWELL), (back, until)]
                made += [run(f"TCP, {agent}, {outage} s", cc, agent, column, stops, until, "0 %", seed)
                         for column, cc in TCP.items()]
                if not quick:
                    made += [run(f"BBR, {agent}, {outage} s", "bbr", agent, column, stops, until, "0 %", seed)
                             for column in BOTH]
            made.append(run(f"AVOCA, {outage} s", "avoca", "none", PAPER, stops, until, "0 %", seed))
        if quick:
            continue
        for agent in ("none", "avoca-rx"):
            made += [run(f"TCP, {agent}, line", cc, agent, column, STOPS, LINE_S, "0.5 %", seed)
                     for column, cc in TCP.items()]
            made += [run(f"BBR, {agent}, line", "bbr", agent, column, STOPS, LINE_S, "0.5 %", seed) for column in BOTH]
        made.append(run("AVOCA, line", "avoca", "none", PAPER, STOPS, LINE_S, "0.5 %", seed))
    return made


def resume(get, case: str):
    wait = get(case, "resume_s")
    return wait if wait is None or get(case, "resumed") else AtLeast(wait)


def longest(name: str):
    """Returns a function that computes the longest wait after the outages."""

    def value(get):
        waits = [wait for outage in OUTAGES if (wait := resume(get, f"{name}, {outage} s")) is not None]
        return max(waits, default=None)

    return value


def total(name: str, metric: str):
    def value(get):
        values = [count for outage in OUTAGES if (count := get(f"{name}, {outage} s", metric)) is not None]
        return sum(values) if values else None

    return value


def gain(name: str, of: str = "avoca-rx"):
    """Returns a function that computes the gain over a run without the agent, in percent."""

    def value(get):
        more = ratio(get(f"{name}, {of}, line" if of == "avoca-rx" else f"{of}, line", "megabytes"),
                     get(f"{name}, none, line", "megabytes"))
        return None if more is None else (more - 1) * 100

    return value


CLAIMS = [
    Claim("TCP waits after coverage returns",
          "the longest wait after outages of 5, 20 and 50 s is longer than 1 s (12.3 s in the paper "
          "after 50 s, up to RTO.max in general)", "VIII", longest("TCP, none"), least=1, published=12.3, unit="s"),
    Claim("… and BBR", "the same with BBR", "ours", longest("BBR, none"), least=1, origin="ours", unit="s"),
    Claim("AVOCA sends at once", "AVOCA at the server sends within 1 ms after coverage returns", "VIII",
          longest("AVOCA"), most=0.001, published=0, unit="s"),
    Claim("avoca-rx: within a round trip",
          "with the agent an unchanged server sends within a round trip (33.6 ms) after each outage", "ours",
          longest("TCP, avoca-rx"), most=ROUND_TRIP_S, origin="ours", unit="s"),
    Claim("… and BBR", "the same with BBR", "ours", longest("BBR, avoca-rx"), most=ROUND_TRIP_S, origin="ours",
          unit="s"),
    Claim("avoca-rx: no time-outs", "with the agent the server has no time-out in any of the outages", "ours",
          total("TCP, avoca-rx", "timeouts"), most=0, origin="ours"),
    Claim("… and BBR", "the same with BBR", "ours", total("BBR, avoca-rx", "timeouts"), most=0, origin="ours"),
    Claim("nothing is sent into the tunnel", "with the agent the server sends no data while there is no coverage",
          "ours", total("TCP, avoca-rx", "sent_in_tunnel"), most=0, origin="ours"),
    Claim("AVOCA delivers more",
          "AVOCA delivers more than TCP over a line with tunnels (38 to 42 % in the paper's day)", "VII",
          gain("TCP", "AVOCA"), least=0.001, published=40, unit="%"),
    Claim("avoca-rx delivers more", "with the agent, TCP (CUBIC on Linux) delivers more over the same line", "ours",
          gain("TCP"), least=0.001, origin="ours", unit="%"),
    Claim("… and BBR", "the same with BBR", "ours", gain("BBR"), least=0.001, origin="ours", unit="%"),
]
