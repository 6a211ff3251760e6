"""TCP Wave over a handover: roughlink's sender with a Linux receiver, and Linux senders over the same handover."""

from roughlink_validation.captures import at, recovery_s, throughput_mbps
from roughlink_validation.paper_runs import KERNEL, MODEL, PAPER, AtLeast, Claim, Observed, Run, Unfinished, ratio

NODES = ("source", "r1", "r2", "sink")
PORT = 42000
PAYLOAD = 948  # of packets of 1000 bytes with timestamps
LINKS = {"terrestrial": ("2 Mbit/s", "30 ms", 2e6), "satellite": ("8 Mbit/s", "240 ms", 8e6)}
OURS = ("wave", "wave-fr")  # not available in a kernel: simulated in every column

SCENARIO = """
name = "handover"
duration = "{duration} s"
node = [{{ name = "source" }}, {{ name = "r1" }}, {{ name = "r2" }}, {{ name = "sink" }}]

[tcp]
{tcp}

[[link]]
name = "local1"
between = ["source", "r1"]
rate = "100 Mbit/s"
delay = "1 ms"
queue = "1000 pkt"

[[link]]
name = "bottleneck"
between = ["r1", "r2"]
rate = "{rate}"
delay = "{delay}"
queue = "100 pkt"
timeline = [
    {{ at = "{at} s", for = "{outage} s", up = false }},
    {{ at = "{at} s", rate = "{new_rate}", delay = "{new_delay}" }},
]

[[link]]
name = "local2"
between = ["r2", "sink"]
rate = "100 Mbit/s"
delay = "1 ms"
queue = "1000 pkt"
"""
FLOW = """
[[flow]]
name = "transfer"
kind = "bulk"
from = "source"
to = "sink"
start = "3 s"
"""
# The paper's simulator, as in experiments/wave. Wave has a separate rule about fast retransmit after a time-out.
NS2 = """stack = "ns2"
mss = "960 B"
mss_includes_options = true
timestamps = true
window_scaling = true
initial_window = 1
"""
WINDOW_BASED = """fr_off_until = "last_acked"
impatient = false
limited_transmit = false
"""
PLENTY = """snd_buf = "128 MiB"
rcv_buf = "128 MiB"
"""
# Linux's acknowledgments, and the maximum size of its receive buffer.
LINUX_RECEIVER = """delayed_ack = 2
delayed_ack_timeout = "40 ms"
quick_ack = true
compress_sacks = true
snd_buf = "128 MiB"
rcv_buf = "6 MiB"
"""
LINUX = """stack = "linux"
mss = "960 B"
mss_includes_options = true
snd_buf = "4 MiB"
rcv_buf = "6 MiB"
"""


def tcp(cc: str, column: str) -> str:
    text = f'cc = "{cc}"\n'
    if cc in OURS:
        return text + NS2 + (PLENTY if column == PAPER else LINUX_RECEIVER)
    return text + (NS2 + WINDOW_BASED + PLENTY if column == PAPER else LINUX)


def run(cc: str, column: str, to: str, outage: float, start: float, duration: float, seed: int) -> Run:
    """Returns a run with a handover to one of the links. The seed determines only the time of the handover."""
    begin = round(start + 0.3 * (seed - 1), 1)
    old, new = (LINKS[name] for name in (("satellite", to) if to == "terrestrial" else ("terrestrial", to)))
    text = SCENARIO.format(duration=duration, tcp=tcp(cc, column), rate=old[0], delay=old[1], new_rate=new[0],
                           new_delay=new[1], at=begin, outage=outage)
    real_sender = column == KERNEL and cc not in OURS
    programs = ()
    if column == KERNEL:
        programs = (("sink", ("sink", str(PORT))),)
        if real_sender:
            programs += (("source", ("send", "sink", str(PORT), "--cc", cc, "--mss", "960", "--start", "3")),)
    back, rate = begin + outage, new[2] / 8 * PAYLOAD / 1000

    def measure(seen: Observed) -> dict:
        transfer = seen.transfers["source"]
        steps = transfer.delivered()
        took, reached = recovery_s(steps, back, duration, rate)
        after = [s.time for s in transfer.arrived if s.time > back]
        flow = seen.result["flows"][0] if seen.result["flows"] else None
        if not steps:
            raise Unfinished  # the sink did not listen in time
        final = seen.traces.get("source", {}).get("final", {}).get(str(PORT), {})
        return {
            "recovery_s": took, "recovered": reached,
            "was_moving": throughput_mbps(steps, begin - 5, begin) >= 0.75 * 2 * PAYLOAD / 1000,
            "first_after_s": after[0] - back if after else None,
            "arrived_4s": sum(t <= back + 4 + 0.242 for t in after),
            "arrived_8s": sum(t <= back + 8 + 0.242 for t in after),
            "start_mbps": throughput_mbps(steps, 4.5, 8),
            "before_mbps": throughput_mbps(steps, begin - 5, begin),
            "mbps_after_10s": throughput_mbps(steps, back, back + 10),
            "timeouts": flow["timeouts"] if flow else final.get("total_rto"),
            "retransmits": flow["retransmits"] if flow else final.get("total_retrans"),
            "dropped": sum(link["forward"]["dropped"] for link in seen.result["links"]),
            "rates_mbps": [round((at(steps, t + 1) - at(steps, t)) * 8 / 1e6, 2) for t in range(int(duration) - 1)],
        }

    return Run(f"{cc} {outage:g} s to {to}", column, seed, text + ("" if real_sender else FLOW), NODES, duration,
               ("source",), measure, programs, ("source", "sink"))


# congestion control, to, outage, time, duration, columns
CASES = [(cc, to, outage, 30, duration, (PAPER, MODEL, KERNEL)) for cc, to, outage, duration in (
    ("wave", "satellite", 2, 60), ("wave", "satellite", 10, 65), ("wave", "satellite", 0.5, 125),
    ("wave", "terrestrial", 2, 60), ("wave", "terrestrial", 10, 65), ("wave", "terrestrial", 0.5, 90),
    ("wave-fr", "satellite", 2, 60), ("wave-fr", "satellite", 0.5, 60), ("wave-fr", "terrestrial", 2, 60),
    ("reno", "satellite", 2, 90))]
# A window-based TCP leaves the satellite after it has filled the link: Linux's at 60 s, the published one at 300 s.
PUBLISHED_START = 300
CASES += [("reno", "terrestrial", outage, 60, 80 + outage, (PAPER, MODEL, KERNEL)) for outage in (0.5, 2, 10)]
CASES += [(cc, "satellite", 2, 30, 75, (MODEL, KERNEL)) for cc in ("cubic", "bbr")]
CASES += [(cc, "terrestrial", 2, 60, 80, (MODEL, KERNEL)) for cc in ("cubic", "bbr")]
QUICK = ([("wave", to, 2, 30, 45, (PAPER, MODEL, KERNEL)) for to in LINKS]
         + [("cubic", "satellite", 2, 30, 45, (MODEL, KERNEL))])


def runs(seeds: int, quick: bool) -> list[Run]:
    chosen = QUICK if quick else CASES
    made = []
    for seed in range(1, seeds + 1):
        for cc, to, outage, start, duration, columns in chosen:
            for column in columns:
                later = PUBLISHED_START - start if column == PAPER and start > 30 else 0
                made.append(run(cc, column, to, outage, start + later, duration + later, seed))
    return made


def recovery(get, case: str):
    """Returns the recovery time, or None if the transfer did not reach the slower link's rate before the handover."""
    value = get(case, "recovery_s")
    if value is None or not get(case, "was_moving"):
        return None
    return value if get(case, "recovered") else AtLeast(value)


def slower(case: str, than: str):
    return lambda get: ratio(recovery(get, case), recovery(get, than))


def more(case: str, than: str):
    return lambda get: ratio(get(case, "mbps_after_10s"), get(than, "mbps_after_10s"))


def of(case: str, metric: str):
    return lambda get: get(case, metric)


def time_of(case: str):
    return lambda get: recovery(get, case)


CLAIMS = [
    Claim("full rate on the satellite",
          "Wave has the full rate of the satellite within 3.2 s of its activation, after an outage of 2 s", "3.3",
          time_of("wave 2 s to satellite"), most=3.2, published=3.2, unit="s"),
    Claim("… after 10 s", "the same after an outage of 10 s, within 5.6 s", "table 1",
          time_of("wave 10 s to satellite"), most=5.6, published=5.6, unit="s"),
    Claim("sooner than Reno", "to the satellite Reno needs at least 5 % longer than Wave", "3.4",
          slower("reno 2 s to satellite", "wave 2 s to satellite"), least=1.05, published=84, unit="times"),
    Claim("sooner than CUBIC", "to the satellite CUBIC needs longer than Wave", "ours",
          slower("cubic 2 s to satellite", "wave 2 s to satellite"), least=1.05, origin="ours", unit="times"),
    Claim("sooner than BBR", "to the satellite BBR needs longer than Wave", "ours",
          slower("bbr 2 s to satellite", "wave 2 s to satellite"), least=1.05, origin="ours", unit="times"),
    *(Claim(f"more than {cc} in 10 s",
            f"in the 10 s after activation of the satellite Wave carries more than {cc}", "ours",
            more("wave 2 s to satellite", f"{cc.lower()} 2 s to satellite"), least=1.05, origin="ours", unit="times")
      for cc in ("Reno", "CUBIC", "BBR")),
    Claim("500 packets in 4 s", "Wave sends more than 500 packets in the 4 s after activation of the satellite", "3.2",
          of("wave 2 s to satellite", "arrived_4s"), least=501, published=500),
    Claim("250 packets in 8 s", "window-based TCP (NewReno; here Reno) sends about 250 packets in 8 s (within 25 %)",
          "3.2", of("reno 2 s to satellite", "arrived_8s"), least=188, most=312, published=250),
    Claim("suffers from a short outage",
          "to the satellite Wave needs at least ten times as long after 0.5 s as after 2 s", "3.4",
          slower("wave 0.5 s to satellite", "wave 2 s to satellite"), least=10, published=25, unit="times"),
    Claim("no time-out after a short outage", "from the satellite Wave has no time-out after 0.5 s", "3.4",
          lambda get: (get("wave 0.5 s to terrestrial", "timeouts")
                       if get("wave 0.5 s to terrestrial", "was_moving") else None), most=0),
    Claim("worst after a short outage",
          "from the satellite Wave needs at least ten times as long as Reno after 0.5 s", "3.4",
          slower("wave 0.5 s to terrestrial", "reno 0.5 s to terrestrial"), least=10, published=49, unit="times"),
    Claim("slows down", "from the satellite Wave is steady within 1.5 s, after an outage of 2 s", "3.3",
          time_of("wave 2 s to terrestrial"), most=1.5, published=1.5, unit="s"),
    Claim("sooner than Reno to L1", "from the satellite Reno needs longer than Wave", "3.4",
          slower("reno 2 s to terrestrial", "wave 2 s to terrestrial"), least=1.05, published=4.8, unit="times"),
    Claim("… after 10 s", "the same after an outage of 10 s", "3.4",
          slower("reno 10 s to terrestrial", "wave 10 s to terrestrial"), least=1.05, published=6.7, unit="times"),
    Claim("sooner than CUBIC to L1", "from the satellite CUBIC needs longer than Wave", "ours",
          slower("cubic 2 s to terrestrial", "wave 2 s to terrestrial"), least=1.05, origin="ours", unit="times"),
    Claim("starts at once", "started on the satellite, Wave has 95 % of the link's rate from 1.5 s on", "3.2",
          of("wave 2 s to terrestrial", "start_mbps"), least=7.2, unit="Mbit/s"),
    Claim("wave-fr recovers from the short outage",
          "with `wave-fr`, recovery on the satellite takes at most 5 s after an outage of 0.5 s", "ours",
          time_of("wave-fr 0.5 s to satellite"), most=5, origin="ours", unit="s"),
    Claim("wave-fr to the satellite", "with `wave-fr`, recovery takes at most 3.2 s after an outage of 2 s", "ours",
          time_of("wave-fr 2 s to satellite"), most=3.2, origin="ours", unit="s"),
]
