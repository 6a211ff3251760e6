"""Goals of `rough` between two Linux kernels: the scenarios of `rough_links.py` over an emulated link, one seed each.

The RTT is TCP's smoothed one, sampled every 10 ms. Measured values are kept in a table, one line per run.
"""

import csv
import itertools
import math
import re
import statistics
import sys
from dataclasses import replace
from pathlib import Path

from roughlink_validation import cli, kernel
from roughlink_validation import rough_links as links
from roughlink_validation.loading import loaded
from roughlink_validation.matrix import append_line
from roughlink_validation.measuring import measure_each
from roughlink_validation.simulators import Failed

TABLE = Path(__file__).resolve().parents[1] / "reference" / "rough-goals-6.18.csv"
COLUMNS = ("goal", "value", "seconds", "late_p99_us", "kernel")
# Parallel emulations, attempts to measure a run without a late link, and the largest 99th percentile of lateness, us.
JOBS, TRIES, LATEST = 1, 3, 1000
# With seed 1, the noise drops a packet of the handshake, which costs 2 s.
SEED = 2
# Longest run, s.
LONGEST = 30
# Limits that `rough` implies in simulation and cannot set in the kernel: of the RTO, and of retransmissions.
SYSCTLS = {"tcp_rto_max_ms": "1000", "tcp_retries2": "255"}
# Longest wait for fair shares, base RTTs.
LONGEST_WAIT = 100
# Starts of the flow whose overflows are counted, s.
STARTS = (0, 0.3, 0.6, 0.9)
# Duration of a charging loop, s.
SESSION = 60
# Algorithms of downloads beside a charging loop; `None` = no download.
DOWNLOADS = (None, "cubic", "rough")
# Largest lateness beside a session, us. The programs of a session run rarely, so a few late wake-ups exceed 1 %.
SESSION_LATEST = 3000

# Sizes in bytes as in `V2gMessage::CurrentDemand`, times in s as in charging-firmware.toml.
LOOP = """
request, response, period, answer = 57, 52, 0.1, 0.01

def received(connection, size):
    data = b""
    while len(data) < size:
        data += connection.recv(size - len(data)) or sys.exit()

def prepared(connection):
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
    return connection
"""
CHARGER = LOOP + """
listener = socket.create_server(("0.0.0.0", 15118))
open(folder + "/charging", "w").close()
connection = prepared(listener.accept()[0])
while True:
    received(connection, request)
    time.sleep(answer)
    connection.sendall(bytes(response))
"""
# Writes the response times in ms.
CAR = LOOP + """
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
while not os.path.exists(folder + "/charging"):
    time.sleep(0.01)
connection = prepared(socket.create_connection((os.environ["ROUGHLINK_CHARGER"], 15118)))
times = []
try:
    while True:
        asked = time.monotonic()
        connection.sendall(bytes(request))
        received(connection, response)
        times.append((time.monotonic() - asked) * 1e3)
        time.sleep(max(0, asked + period - time.monotonic()))
finally:
    with open(folder + "/client.json", "w") as f:
        json.dump(times, f)
"""


def read() -> dict[str, tuple[float, float]]:
    """Returns the kept value of each goal, and the duration of its run in s."""
    if not TABLE.exists():
        return {}
    with TABLE.open(newline="") as stream:
        return {row["goal"]: (float(row["value"]), float(row["seconds"])) for row in csv.DictReader(stream)}


def with_simulated() -> dict[str, tuple[float, float]]:
    """Returns the kept value of each goal, and its value in a simulation of the same run."""
    kept = read()
    made = [goal for goal in links.goals("rough", range(SEED, SEED + 1)) if goal.name in kept]
    results = links.run_all(same_run(goal, kept[goal.name][1]) for goal in made)
    return {goal.name: (kept[goal.name][0], goal.measure(result)) for goal, result in zip(made, results)}


def simulated(goals: list[links.Goal]) -> list[float]:
    """Returns the values of overflows or joining flows in simulations of the same runs."""

    def recorded(run) -> dict:
        return {"rows": links.delivered_rows(run), "dropped": links.dropped_rows(run, "link")}

    results = links.run_all((same_run(goal, goal.seconds) for goal in goals), recorded, series=True, sample="1 ms")
    return [goal.measure(result) for goal, result in zip(goals, results)]


def same_run(goal: links.Goal, seconds: float) -> str:
    """Returns the scenario of a run between kernels, with simulated flows."""
    return f"seed = {SEED}\n{scenario(goal, seconds, links.TCP)}" + links.endless(goal.flows, "server", "client")


def scenario(goal: links.Goal, seconds: float, tcp: str = '[tcp]\nstack = "linux"') -> str:
    link = goal.link
    return (
        f'duration = "{seconds} s"\n{tcp}\n[[node]]\nname = "server"\n[[node]]\nname = "client"\n'
        f'[[link]]\nname = "link"\nbetween = ["server", "client"]\nrate = "{link.rate} Mbit/s"\n'
        f'delay = "{link.rtt / 2} ms"\nqueue = "{link.queue} pkt"\n{link.keys}\n'
    )


def transferred(roughlink: Path, goal: links.Goal, names: dict[str, str]) -> kernel.Run:
    """Runs the flows of a goal between kernels."""
    flows = [(names.get(cc, cc), start) for cc, start in goal.flows]
    sysctls = SYSCTLS if all(cc == "rough" for cc, _ in goal.flows) else None
    return kernel.transfer(roughlink, scenario(goal, goal.seconds), flows, goal.seconds, SEED, LATEST, sysctls=sysctls,
                           series=goal.series)


def as_result(goal: links.Goal, run: kernel.Run) -> dict:
    """Returns a run in the form of a simulation's result, with the keys that goals need."""
    totals, rows = [0] * len(goal.flows), []
    for time, flow, count in run.received:
        totals[flow] += count
        rows.append((time, flow, totals[flow]))
    flows = []
    for number, ((_, start), delivered) in enumerate(zip(goal.flows, totals)):
        rtts = [row["srtt_ms"] for row in run.samples if row["flow"] == number and row["srtt_ms"] > 0]
        rtt = {"mean": statistics.fmean(rtts), "p95": statistics.quantiles(rtts, n=20)[-1]}
        flows.append({"delivered_bytes": delivered, "start_s": start, "rtt_ms": rtt})
    dropped = [(int(row["time_ns"]), int(row["dropped_pkt"])) for row in run.links if row["direction"] == "forward"]
    return {"sim_s": goal.seconds, "flows": flows, "samples": run.samples, "rows": rows, "dropped": dropped}


def changes() -> tuple[list[links.Goal], list[links.Goal]]:
    """Returns the outages and the handovers of `links.recoveries` as goals; the value is the time to the full rate."""

    def goal(
        name: str, before: links.Link, after: links.Link, outage: float, step: float, seconds: float
    ) -> links.Goal:
        return links.Goal(name, 1, changing(before, after, 10, outage), [("rough", 0)], seconds, [name],
                          lambda r: recovery(r["samples"], before.rtt / 1e3, after, outage, step), at_most=True)

    outages = []
    for rtt, outage in itertools.product(links.RTTS, links.OUTAGES):
        link = links.Link(rtt=rtt)
        outages.append(goal(f"outage of {outage} s, {rtt} ms", link, link, outage, 0.1, 18 + outage))
    slow, fast = links.Link(2, 60), links.Link(8, 480)
    handovers = []
    for outage, up in links.HANDOVERS:
        before, after = (slow, fast) if up else (fast, slow)
        name = f"handover to {after.rate} Mbit/s, outage of {outage} s"
        handovers.append(goal(name, before, after, outage, links.handover_step(outage), 40 + outage))
    return outages, handovers


def changing(before: links.Link, after: links.Link, at: float, outage: float) -> links.Link:
    """Returns a link whose path changes `at` a time in s, with an outage in s."""
    steps = [f'{{ at = "{at} s", for = "{outage} s", up = false }}',
             f'{{ at = "{at} s", rate = "{after.rate} Mbit/s", delay = "{after.rtt / 2} ms" }}']
    return replace(before, keys=f"timeline = [{', '.join(steps)}]")


def recovery(samples: list[dict], rtt: float, after: links.Link, outage: float, step: float) -> float:
    """Returns the time from the end of an outage to the full rate as `links.seconds_to_full_rate`, or infinity.

    The outage begins at 10 s of the emulation, which starts up to a second before the sender. The last acknowledgment
    arrives a round trip after the outage begins. Acknowledged data was delivered half a round trip earlier.
    """
    acked = [(row["time_s"], row["acked_bytes"]) for row in samples]
    grown = [now for (_, before), (now, later) in zip(acked, acked[1:]) if later > before]
    _, last = max((later - last, last) for last, later in zip(grown, grown[1:]) if 8.5 < last < 11)
    end = last - rtt + outage

    def delivered_until(time: float) -> int:
        return max(count for now, count in acked if now <= time + after.rtt / 2e3)

    times = (end + step * k for k in itertools.count())
    known = itertools.takewhile(lambda time: time + after.rtt / 2e3 < acked[-1][0], times)
    steps = links.steps_to_full_rate([delivered_until(time) for time in known], after.rate * links.PAYLOAD, step)
    return math.inf if steps is None else round(step * steps, 2)


def overflows() -> list[links.Goal]:
    """Returns the numbers of overflows after the handover of `links.overflows`, for each of `STARTS`, as goals."""
    link = changing(links.Link(8, 480), links.Link(2, 60), 30, 2)
    rtt = links.full_rtt(0.06, 1500)

    def goal(start: float) -> links.Goal:
        name = f"overflows after a handover, start at {start} s"
        return links.Goal(name, 1, link, [("rough", start)], 60, [name],
                          lambda r: links.count_overflows(r["dropped"], 30, rtt), at_most=True, series=True)

    return [goal(start) for start in STARTS]


def joins(flows: int, rtt: float) -> list[links.Goal]:
    """Returns the runs of `links.to_fair_shares` as goals; the value is the number of base RTTs to fair shares."""
    base = links.base_rtt(rtt)

    def goal(start: float) -> links.Goal:
        name = f"{flows} flows, {rtt} ms, the last from {start} s"
        seconds = links.joined_seconds(start, base, LONGEST_WAIT)
        return links.Goal(name, 20, links.Link(rtt=rtt), links.joining("rough", flows, start), seconds, [name],
                          lambda r: links.rtts_to_fair_shares(r["rows"], flows, start, base, LONGEST_WAIT),
                          at_most=True)

    return [goal(start) for start in links.JOINS]


def session(roughlink: Path, cc: str | None, names: dict[str, str]) -> tuple[float, float, kernel.Run]:
    """Returns the values of `links.beside_session` between kernels, and the run.

    The charger is a separate node, behind a fast link without delay. The loop lasts for the whole run.
    """
    head, _ = (links.ROOT / "scenarios" / "charging-firmware.toml").read_text().split("[[flow]]", 1)
    head = re.sub(r'duration = ".*"', f'duration = "{SESSION + 30} s"', head)
    head = re.sub(', from = "8.7 s", until = ".*?"', "", head)
    head = head.replace('"sa"', '"server"').replace('"evcc"', '"client"')
    text = head + """
[[node]]
name = "charger"
[[link]]
name = "charger"
between = ["charger", "secc"]
rate = "500 Mbit/s"
delay = "0 s"
"""
    flows = [(names.get(cc, cc), 0.0)] if cc else []
    programs = {"charger": CHARGER, "client": CAR}
    run = kernel.transfer(roughlink, text, flows, SESSION, SEED, SESSION_LATEST,
                          sysctls=SYSCTLS if cc == "rough" else None, programs=programs)
    times = run.written["client"]
    if sum(max(time, 100) for time in times) < 1e3 * (SESSION - 1):
        raise Failed(f"the charging loop ended after {len(times)} answers")
    return cli.quantile(times, 0.99), sum(run.delivered) * 8e-6 / SESSION, run


def measure(roughlink: Path) -> None:
    """Measures the goals that the table lacks. Needs root and a roughlink with the algorithms for the kernel."""
    have, shared = read(), {}
    short = [replace(goal, seconds=min(goal.seconds, LONGEST)) for goal in links.goals("rough", range(SEED, SEED + 1))]
    joining = [goal for flows in links.JOINING for rtt in links.RTTS for goal in joins(flows, rtt)]
    for goal in [*short, *itertools.chain(*changes()), *overflows(), *joining]:
        if goal.name not in have:
            shared.setdefault(goal.texts[0], []).append(goal)
    todo = {goals[0].name: goals for goals in shared.values()}

    def append(name: str, value: float, seconds: float, run: kernel.Run) -> None:
        line = [name, f"{value:.4f}", f"{seconds:g}", f"{run.late_us[1]:.0f}", kernel.release()]
        append_line(TABLE, COLUMNS, line)
        print(f"{name}: {value:.3f}", file=sys.stderr, flush=True)

    def keep(name: str, run: kernel.Run) -> None:
        for goal in todo[name]:
            append(goal.name, goal.measure(as_result(goal, run)), goal.seconds, run)

    def keep_session(cc: str | None, found: tuple[float, float, kernel.Run]) -> None:
        for what, value in zip(session_names(cc), found):
            append(what, value, SESSION, found[2])

    with loaded(roughlink, ["rough"]) as held:
        names = {"rough": held["rough"][0], "newreno": "reno"}
        measure_each(list(todo), JOBS, TRIES, lambda name: transferred(roughlink, todo[name][0], names), keep)
        downloads = [cc for cc in DOWNLOADS if any(name not in have for name in session_names(cc))]
        measure_each(downloads, JOBS, TRIES, lambda cc: session(roughlink, cc, names), keep_session)


def session_names(cc: str | None) -> list[str]:
    """Returns the names of the values of `session` in the table."""
    p99 = "99th percentile of the response time, ms"
    return [f"{p99}, beside {cc}", f"download with {cc} beside a session, Mbit/s"] if cc else [f"{p99}, alone"]
