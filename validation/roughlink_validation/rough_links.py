"""Scenarios and goals of the algorithm `rough`: loss, fairness, changes, short queues, a session, random links.

Links of the search and held-out links differ only in the seeds of `random_link`. Everything runs through the Python
package, with as many threads as cores.
"""

import math
import os
import random
import re
import statistics
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import roughlink as rl

from roughlink_validation.building import ROOT

# Share of payload in a full packet, with timestamps.
PAYLOAD = 1448 / 1500
TCP = '[tcp]\nstack = "linux"\nmss_includes_options = true\nsnd_buf = "64 MiB"\nrcv_buf = "64 MiB"'
# Transmission time of a full packet on the bottleneck and the fast link, ms.
SERIALIZATION = 1.22
# First seeds of the random links: for the search, and held out from it.
SEARCH, HELD_OUT = 7000, 20000
# RTTs of the goals, ms.
RTTS = (22, 80)
# Lengths of outages, s.
OUTAGES = (0.5, 1, 2, 5, 10)
# Outages of handovers, s, and whether the path gets faster and longer.
HANDOVERS = ((2, True), (2, False), (0.5, True), (0.5, False))
# Starts of a flow that joins others, s, numbers of flows with it, and the longest wait for fair shares, base RTTs.
JOINS = (20, 20.3, 20.6, 20.9, 21.2)
JOINING = (2, 4, 8)
LONGEST_WAIT = 500


@dataclass(frozen=True)
class Link:
    """A bottleneck: rate in Mbit/s, base RTT in ms, queue in packets, further keys of the link."""

    rate: float = 10
    rtt: float = 22
    queue: int = 100
    keys: str = ""

    def scenario(self, flows: list[tuple[str, float]], seconds: float, seed: int, params: dict | None = None) -> str:
        """Returns a scenario with endless flows, each given as an algorithm and a start in s."""
        near = 1 if self.rtt > 4 else self.rtt / 4
        parts = [
            f'seed = {seed}\nduration = "{seconds} s"\n{TCP}',
            '[[node]]\nname = "s"\n[[node]]\nname = "r"\n[[node]]\nname = "c"',
            f'[[link]]\nname = "fast"\nbetween = ["s", "r"]\nrate = "{max(500, 10 * self.rate)} Mbit/s"',
            f'delay = "{self.rtt / 2 - near} ms"\nqueue = "100000 pkt"',
            f'[[link]]\nname = "rough"\nbetween = ["r", "c"]\nrate = "{self.rate} Mbit/s"\ndelay = "{near} ms"',
            f'queue = "{self.queue} pkt"\n{self.keys}',
        ]
        return "\n".join([*parts, endless(flows, "s", "c", params)])


# Links that drop early, with the number of flows and the time between their starts, s.
SHORT_QUEUES = {
    "4 flows, queue 4, 6 ms": (Link(rtt=6, queue=4), 4, 0.1),
    "1 flow, queue 2, 40 ms": (Link(rtt=40, queue=2), 1, 0),
    "1 flow, policer with 15 kB, 40 ms": (
        Link(rate=100, rtt=40, keys='qdisc = { kind = "police", rate = "10 Mbit/s", burst = "15 kB" }'), 1, 0),
    "16 flows, queue 100, 22 ms": (Link(), 16, 0.1),
}
# Links that can hold a long queue.
LONG_QUEUES = {
    "1 flow, 300 kbit/s, 40 ms, queue 200": (Link(0.3, 40, 200), 1, 0),
    "1 flow, 10 Mbit/s, 40 ms, queue 1000": (Link(10, 40, 1000), 1, 0),
    "the same after a stall of 5 s that keeps packets": (
        Link(10, 40, 1000, 'timeline = { steps = [{ at = "10 s", for = "5 s", up = false }], policy = "keep" }'), 1, 0),
    "4 flows, 10 Mbit/s, 22 ms, queue 200": (Link(queue=200), 4, 1.3),
    "10 flows, 10 Mbit/s, 22 ms, queue 200": (Link(queue=200), 10, 1.3),
    "2 flows, 2 Mbit/s, 22 ms, queue 200": (Link(2, 22, 200), 2, 1.3),
    "10 flows, 2 Mbit/s, 22 ms, queue 200": (Link(2, 22, 200), 10, 1.3),
}


def endless(flows: list[tuple[str, float]], source: str, sink: str, params: dict | None = None) -> str:
    """Returns endless flows, each given as an algorithm and a start in s."""
    return "\n".join(
        f'[[flow]]\nname = "{number}"\nkind = "bulk"\nfrom = "{source}"\nto = "{sink}"\nstart = "{start} s"\n'
        f'cc = "{cc}"{own_keys(cc, params)}'
        for number, (cc, start) in enumerate(flows))


def own_keys(cc: str, params: dict | None) -> str:
    """Returns the parameters of `rough` as keys of a flow or of [tcp]."""
    if cc != "rough" or not params:
        return ""
    given = ", ".join(f"{key} = {str(value).lower()}" for key, value in params.items())
    return f"\ncc_params = {{ {given} }}"


def bursts(percent: float, longest: int = 4) -> str:
    """Returns noise that loses `percent` of the packets in bursts of 1 to `longest`."""
    if not percent:
        return ""
    return f'noise = {{ kind = "burst", mean = "{percent} %", length = [1, {longest}], direction = "forward" }}'


def run_all(texts: Iterable[str], measure: Callable[[rl.Run], Any] = lambda run: run.result, **options) -> list:
    """Runs scenarios with options of `Scenario.run`, and returns what `measure` computes from each run."""
    with warnings.catch_warnings(), ThreadPoolExecutor(os.cpu_count()) as pool:
        warnings.simplefilter("ignore", rl.RoughlinkWarning)
        return list(pool.map(lambda text: measure(rl.scenario(text).run(threads=1, **options)), texts))


def rate(result: dict, flow: int = 0) -> float:
    """Returns the goodput of a flow since its start, Mbit/s."""
    flow = result["flows"][flow]
    return flow["delivered_bytes"] * 8e-6 / (result["sim_s"] - flow["start_s"])


def jain(rates: list[float]) -> float:
    total = sum(rates)
    return total**2 / len(rates) / sum(x * x for x in rates) if total else 0.0


# ---- Random links ----------------------------------------------------------------------------------------------------


def random_link(seed: int) -> tuple[Link, int, float]:
    """Returns a link, the number of flows, and the duration in s."""
    draw = random.Random(seed)

    def between(low: float, high: float) -> float:
        return math.exp(draw.uniform(math.log(low), math.log(high)))

    mbps, rtt = round(between(1, 100), 3), round(between(2, 600), 2)
    product = mbps * 1e3 * rtt / 8 / 1500
    queue = max(4, round(product * between(0.1, 10)))
    keys = []
    loss = draw.choice([0, 0, draw.uniform(0, 2), draw.uniform(0, 10)])
    longest = draw.choice([1, 4])
    if loss:
        keys.append(bursts(round(loss, 3), longest))
    if draw.random() < 0.3:
        keys.append(f'jitter = "{rtt * draw.uniform(0.02, 0.3):.3f} ms"')
        if draw.random() < 0.5:
            keys.append("reorder = true")
    if draw.random() < 0.25:
        keys.append(f'asymmetric = {{ rate = "{mbps * draw.uniform(0.05, 0.3):.4f} Mbit/s" }}')
    flows = draw.choice([1, 1, 2, 4])
    seconds = min(30 if mbps > 30 else 60, 15 + rtt / 5)
    return Link(mbps, rtt, queue, "\n".join(keys)), flows, round(seconds, 1)


def on_random_link(seed: int, cc: str, params: dict | None = None) -> str:
    link, flows, seconds = random_link(seed)
    return link.scenario([(cc, round(0.37 * i, 2)) for i in range(flows)], seconds, seed, params)


def delivered(result: dict) -> int:
    return sum(flow["delivered_bytes"] for flow in result["flows"])


def best_of_others(seeds: Iterable[int]) -> list[int]:
    """Returns the larger of the bytes that BBR and CUBIC deliver over each random link."""
    seeds = list(seeds)
    results = run_all(on_random_link(seed, cc) for seed in seeds for cc in ("bbr", "cubic"))
    return [max(delivered(results[i]), delivered(results[i + 1])) for i in range(0, len(results), 2)]


# ---- Goals -----------------------------------------------------------------------------------------------------------


@dataclass
class Goal:
    """A goal with its link and flows, and their scenarios for each seed; larger is better unless `at_most`.

    With `series`, the value needs the series of the links.
    """

    name: str
    bound: float
    link: Link
    flows: list[tuple[str, float]]
    seconds: float
    texts: list[str]
    measure: Callable[[dict], float]
    at_most: bool = False
    series: bool = False

    def score(self, values: list[float]) -> float:
        """Returns 1 if all values reach the goal, else less the further they are from it, with weight on the worst."""
        ratios = [min(1.0, self.bound / value if self.at_most else value / self.bound) for value in values]
        return 0.4 * statistics.fmean(ratios) + 0.6 * min(ratios)

    def is_reached(self, values: list[float]) -> bool:
        mean = statistics.fmean(values)
        return mean <= self.bound if self.at_most else mean >= self.bound


def goals(cc: str, seeds: range, params: dict | None = None) -> list[Goal]:
    """Returns the goals for loss, delay and fairness."""
    made = []

    def add(name: str, bound: float, link: Link, flows: list, seconds: float, measure, at_most: bool = False) -> None:
        texts = [link.scenario(flows, seconds, seed, params) for seed in seeds]
        made.append(Goal(name, bound, link, flows, seconds, texts, measure, at_most))

    def add_beside(other: str, what: str, bound: float, link: Link, seconds: float) -> None:
        # Without noise, only the start of the other flow makes the seeds differ.
        starts = [round(random.Random(seed).uniform(0, 2), 2) for seed in seeds]
        texts = [link.scenario([(cc, 0), (other, start)], seconds, seed, params) for seed, start in zip(seeds, starts)]
        made.append(Goal(f"Jain's index beside {other}, {what}", bound, link, [(cc, 0), (other, starts[0])], seconds,
                         texts, lambda r: jain([rate(r, 0), rate(r, 1)])))

    for rtt in RTTS:
        for loss, share in ((0, 0.98), (5, 0.98 if rtt == 22 else 0.97), (10, 0.9)):
            link = Link(rtt=rtt, keys=bursts(loss))
            limit = link.rate * PAYLOAD * (1 - loss / 100)
            add(f"share of the limit, {loss} % loss, {rtt} ms", share, link, [(cc, 0)], 60,
                lambda r, limit=limit: rate(r) / limit)
            if loss < 10:
                add(f"p95 of the RTT over the base, {loss} % loss, {rtt} ms", 1.15, link, [(cc, 0)], 60,
                    lambda r, rtt=rtt: r["flows"][0]["rtt_ms"]["p95"] / (rtt + SERIALIZATION), at_most=True)
    for other in ("cubic", "newreno"):
        for rtt in RTTS:
            for queue, loss in ((20, 0), (100, 0), (100, 1)):
                what = f"queue {queue}" if not loss else f"queue {queue}, {loss} % loss"
                add_beside(other, f"{what}, {rtt} ms", 0.9 if loss else 0.95,
                           Link(rtt=rtt, queue=queue, keys=bursts(loss)), 100)
    for other in ("cubic", "newreno"):
        add_beside(other, "2 Mbit/s, queue 200, 40 ms", 0.9, Link(2, 40, 200), 120)
    for mbps, rtt in ((2, 40), (1, 150), (50, 40)):
        base = rtt + 12 / mbps
        add(f"mean RTT over the base, {mbps} Mbit/s, queue 200, {rtt} ms", 2, Link(mbps, rtt, 200), [(cc, 0)], 60,
            lambda r, base=base: r["flows"][0]["rtt_ms"]["mean"] / base, at_most=True)
    slow, fast = 5, 100
    keys = f'timeline = [{{ at = "0 s", for = "10 s", rate = "{slow} Mbit/s" }}]'
    add(f"share of the limit, {slow} Mbit/s for 10 s, then {fast}, queue 1000, 100 ms", 0.9,
        Link(fast, 100, 1000, keys), [(cc, 0)], 30, lambda r: rate(r) / ((slow + 2 * fast) / 3 * PAYLOAD))
    for flows in JOINING:
        for rtt in RTTS:
            add(f"Jain's index of {flows} flows, {rtt} ms", 0.97, Link(rtt=rtt),
                [(cc, round(0.1 * i, 1)) for i in range(flows)], 60,
                lambda r, flows=flows: jain([rate(r, i) for i in range(flows)]))
    return made


def measured(made: list[Goal]) -> list[list[float]]:
    """Runs the scenarios of goals, equal ones once, and returns the values of each."""
    texts = list(dict.fromkeys(text for goal in made for text in goal.texts))
    results = dict(zip(texts, run_all(texts)))
    return [[goal.measure(results[text]) for text in goal.texts] for goal in made]


# ---- Changes of the path ---------------------------------------------------------------------------------------------


def seconds_to_full_rate(text_until: Callable[[float], str], end: float, mbps: float, step: float) -> float | None:
    """Returns the time after `end` from which a flow gets 90 % of `mbps` over three steps; `None` after 60 steps."""
    times = [end + step * k for k in range(63)]
    bytes_until = [delivered(result) for result in run_all(text_until(round(t, 3)) for t in times)]
    steps = steps_to_full_rate(bytes_until, mbps, step)
    return None if steps is None else round(times[steps] - end, 3)


def steps_to_full_rate(bytes_until: list[int], mbps: float, step: float) -> int | None:
    """Returns the number of steps of `step` s from which a flow gets 90 % of `mbps` over three steps."""
    for k in range(len(bytes_until) - 3):
        if (bytes_until[k + 3] - bytes_until[k]) * 8e-6 / (3 * step) >= 0.9 * mbps:
            return k
    return None


def recoveries(cc: str, params: dict | None = None) -> tuple[list[float | None], list[float | None]]:
    """Returns the times to the full rate after each of `OUTAGES` at 22 and 80 ms, and after each of `HANDOVERS`, s."""
    outages = [after_outage(cc, rtt, outage, params) for rtt in RTTS for outage in OUTAGES]
    return outages, [after_handover(cc, up, outage, params) for outage, up in HANDOVERS]


def after_outage(cc: str, rtt: float, seconds: float, params: dict | None = None) -> float | None:
    """Returns the time from the end of an outage to the full rate, s."""
    link = Link(rtt=rtt, keys=f'timeline = [{{ at = "10 s", for = "{seconds} s", up = false }}]')
    return seconds_to_full_rate(lambda end: link.scenario([(cc, 0)], end, 1, params), 10 + seconds, 10 * PAYLOAD, 0.1)


def handover(cc: str, up: bool, outage: float, end: float, params: dict | None = None) -> str:
    """Returns the Wave paper's handover, upward or downward, with an outage in s, until `end` in s."""
    file = (ROOT / "scenarios" / "satellite-handover.toml").read_text()
    file = file.replace('stack = "ns2"', 'stack = "linux"').replace("initial_window = 1\n", "")
    if not up:
        slow, fast = 'rate = "2 Mbit/s"\ndelay = "30 ms"', 'rate = "8 Mbit/s"\ndelay = "240 ms"'
        head, tail = file.split("timeline = [")
        tail = tail.replace('rate = "8 Mbit/s", delay = "240 ms"', 'rate = "2 Mbit/s", delay = "30 ms"')
        file = head.replace(slow, fast) + "timeline = [" + tail
    file = re.sub(r'\ncc = "wave"', f'\ncc = "{cc}"' + own_keys(cc, params), file)
    return file.replace('for = "2 s"', f'for = "{outage} s"').replace('duration = "60 s"', f'duration = "{end} s"')


def after_handover(cc: str, up: bool, outage: float, params: dict | None = None) -> float | None:
    """Returns the time from the end of the handover to the full rate, s."""
    mbps = (8 if up else 2) * 948 / 1000
    return seconds_to_full_rate(lambda end: handover(cc, up, outage, end, params), 30 + outage, mbps,
                                handover_step(outage))


def handover_step(outage: float) -> float:
    """Returns the resolution of the time after a handover, s."""
    return 0.25 if outage >= 2 else 0.5


def overflows(cc: str, params: dict | None = None) -> int:
    """Counts overflows of the queue from the start of the downward handover, at 30 s, to 60 s."""

    def counted(run: rl.Run) -> int:
        return count_overflows(dropped_rows(run, "bottleneck"), 30, full_rtt(0.064, 1000))

    return run_all([handover(cc, False, 2, 60, params)], counted, series=True)[0]


def dropped_rows(run: rl.Run, name: str) -> list[tuple[int, int]]:
    """Returns the packets that a link has dropped forward by each time in ns, of a run that recorded series."""
    series = run.series("links")
    rows = sorted(zip(series["time_ns"], series["link"], series["direction"], series["dropped_pkt"]))
    return [(time_ns, count) for time_ns, link, direction, count in rows if (link, direction) == (name, "forward")]


def full_rtt(rtt: float, size: int) -> float:
    """Returns the round trip through a queue of 100 packets of `size` bytes at 2 Mbit/s, s."""
    return rtt + 100 * size * 8 / 2e6


def count_overflows(dropped: list[tuple[int, int]], since: float, rtt: float) -> int:
    """Counts overflows after `since`, in s, given the packets dropped by each time in ns.

    Drops closer together than `rtt`, in s, are one overflow.
    """
    drops = [now * 1e-9 for (_, before), (now, after) in zip([(0, 0), *dropped], dropped) if after != before]
    drops = [now for now in drops if now >= since]
    return sum(now - before > rtt for before, now in zip([-math.inf, *drops], drops))


# ---- A flow that joins others ----------------------------------------------------------------------------------------


def delivered_until(rows: Iterable[tuple[float, int, int]], flows: int, times: list[float]) -> list[list[int]]:
    """Returns the bytes of each flow by each of the times in s, given the bytes by the time of each row, in order."""
    now = [0] * flows
    made = []
    for time, flow, count in rows:
        while len(made) < len(times) and time > times[len(made)]:
            made.append(list(now))
        now[flow] = count
    return made + [list(now)] * (len(times) - len(made))


def delivered_rows(run: rl.Run) -> list[tuple[float, int, int]]:
    """Returns the rows of `delivered_until` of a run that recorded series."""
    series = run.series("flows")
    times = (time_ns * 1e-9 for time_ns in series["time_ns"])
    return sorted(zip(times, map(int, series["flow"]), series["delivered_bytes"]))


def rtts_to_fair_shares(
    rows: Iterable[tuple[float, int, int]], flows: int, join: float, base: float, longest: int
) -> float:
    """Returns the base RTTs from the start of the last of `flows` at `join` until all have fair shares.

    Shares are fair if Jain's index reaches 0.97 over 5 base RTTs, and on average over the next four stretches of 5. The
    value is the end of the first stretch, or infinity after `longest`. `rows` is as in `delivered_until`.
    """
    counts = delivered_until(rows, flows, [join + base * k for k in range(longest + 21)])
    shares = [jain([new - old for old, new in zip(*pair)]) for pair in zip(counts, counts[5:])]
    for k in range(longest - 4):
        if shares[k] >= 0.97 and statistics.fmean(shares[k + 5:k + 21:5]) >= 0.97:
            return k + 5
    return math.inf


def joined_seconds(join: float, base: float, longest: int) -> float:
    """Returns the duration of a run in which a flow that starts at `join` has `longest` base RTTs for fair shares."""
    return round(join + base * (longest + 21), 3)


def joining(cc: str, flows: int, join: float) -> list[tuple[str, float]]:
    return [*((cc, round(0.1 * i, 1)) for i in range(flows - 1)), (cc, join)]


def base_rtt(rtt: float) -> float:
    """Returns the base RTT of a path at 10 Mbit/s with `rtt` in ms, s."""
    return (rtt + SERIALIZATION) / 1e3


def to_fair_shares(cc: str, flows: int, rtt: float, params: dict | None = None) -> list[float]:
    """Returns `rtts_to_fair_shares` for each of `JOINS`."""
    base = base_rtt(rtt)

    def waited(run: rl.Run) -> float:
        join = run.result["flows"][-1]["start_s"]
        return rtts_to_fair_shares(delivered_rows(run), flows, join, base, LONGEST_WAIT)

    texts = [Link(rtt=rtt).scenario(joining(cc, flows, join), joined_seconds(join, base, LONGEST_WAIT), 1, params)
             for join in JOINS]
    return run_all(texts, waited, series=True, sample="1 ms")


# ---- Short and long queues -------------------------------------------------------------------------------------------


def on_queue(place: tuple, cc: str, params: dict | None = None) -> tuple[float, float, float, float]:
    """Returns the share of segments sent again, Jain's index, the share of the limit, and the mean queue in packets.

    The limit is 10 Mbit/s or the rate of the link.
    """
    link, flows, apart = place
    text = link.scenario([(cc, round(apart * i, 1)) for i in range(flows)], 60, 1, params)
    result = run_all([text])[0]
    resent, sent = (sum(flow[key] for flow in result["flows"]) for key in ("retransmits", "segments"))
    rates = [rate(result, i) for i in range(flows)]
    share = delivered(result) * 8e-6 / result["sim_s"] / (min(10, link.rate) * PAYLOAD)
    return resent / sent, jain(rates), share, result["links"][1]["forward"]["queue_mean_pkt"]


# ---- A charging session beside a download ----------------------------------------------------------------------------


def beside_session(cc: str | None, seeds: range, params: dict | None = None) -> tuple[float, float]:
    """Returns the 99th percentile of the charging loop's response time in ms, and the rate of a download in Mbit/s.

    Both are means over the seeds. Without `cc`, the session runs alone.
    """
    file = (ROOT / "scenarios" / "charging-firmware.toml").read_text()
    # The download is the last table of the file.
    download = f'cc = "{cc}"{own_keys(cc, params)}' if cc else 'bytes = "1 B"'
    results = run_all(file.replace("seed = 1", f"seed = {seed}") + download for seed in seeds)
    messages = [m for result in results for m in result["flows"][0]["session"]["messages"]]
    loops = [m["latency_ms"]["p99"] for m in messages if m["message"] == "current_demand"]
    return statistics.fmean(loops), statistics.fmean(rate(result, 1) for result in results)
