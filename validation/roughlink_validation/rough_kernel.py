"""Goals of `rough` between two Linux kernels: the scenarios of `rough_links.py` over an emulated link, one seed each.

The RTT is TCP's smoothed one, sampled every 10 ms. Measured values are kept in a table, one line per run.
"""

import csv
import itertools
import math
import statistics
import sys
from dataclasses import replace
from pathlib import Path

from roughlink_validation import kernel
from roughlink_validation import rough_links as links
from roughlink_validation.loading import loaded
from roughlink_validation.matrix import append_line
from roughlink_validation.measuring import measure_each

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
    texts = []
    for goal in made:
        text = scenario(goal, kept[goal.name][1], links.TCP)
        texts.append(f"seed = {SEED}\n{text}" + links.endless(goal.flows, "server", "client"))
    results = links.run_all(texts)
    return {goal.name: (kept[goal.name][0], goal.measure(result)) for goal, result in zip(made, results)}


def scenario(goal: links.Goal, seconds: float, tcp: str = '[tcp]\nstack = "linux"') -> str:
    link = goal.link
    return (
        f'duration = "{seconds} s"\n{tcp}\n[[node]]\nname = "server"\n[[node]]\nname = "client"\n'
        f'[[link]]\nname = "link"\nbetween = ["server", "client"]\nrate = "{link.rate} Mbit/s"\n'
        f'delay = "{link.rtt / 2} ms"\nqueue = "{link.queue} pkt"\n{link.keys}\n'
    )


def transferred(roughlink: Path, goal: links.Goal, names: dict[str, str]) -> tuple[kernel.Run, float]:
    """Runs the flows of a goal between kernels, and returns the run and its duration in s."""
    algorithms = [names.get(cc, cc) for cc, _ in goal.flows]
    seconds = min(goal.seconds, LONGEST)
    apart = goal.flows[-1][1] / max(1, len(goal.flows) - 1)
    sysctls = SYSCTLS if all(cc == "rough" for cc, _ in goal.flows) else None
    run = kernel.transfer(roughlink, scenario(goal, seconds), algorithms, seconds, SEED, LATEST, apart, sysctls=sysctls)
    return run, seconds


def as_result(goal: links.Goal, run: kernel.Run, seconds: float) -> dict:
    """Returns the keys of a simulation's result from which goals are computed, and the samples of TCP_INFO."""
    flows = []
    for number, ((_, start), delivered) in enumerate(zip(goal.flows, run.delivered, strict=True)):
        rtts = [row["srtt_ms"] for row in run.samples if row["flow"] == number and row["srtt_ms"] > 0]
        rtt = {"mean": statistics.fmean(rtts), "p95": statistics.quantiles(rtts, n=20)[-1]}
        flows.append({"delivered_bytes": delivered, "start_s": start, "rtt_ms": rtt})
    return {"sim_s": seconds, "flows": flows, "samples": run.samples}


def changes() -> tuple[list[links.Goal], list[links.Goal]]:
    """Returns the outages and the handovers of `links.recoveries` as goals; the value is the time to the full rate."""

    def goal(name: str, before: links.Link, after: links.Link, outage: float, step: float) -> links.Goal:
        steps = [f'{{ at = "10 s", for = "{outage} s", up = false }}',
                 f'{{ at = "10 s", rate = "{after.rate} Mbit/s", delay = "{after.rtt / 2} ms" }}']
        link = replace(before, keys=f"timeline = [{', '.join(steps)}]")
        return links.Goal(name, 1, link, [("rough", 0)], 18 + outage, [name],
                          lambda r: recovery(r["samples"], before.rtt / 1e3, after, outage, step), at_most=True)

    outages = [goal(f"outage of {outage} s, {rtt} ms", links.Link(rtt=rtt), links.Link(rtt=rtt), outage, 0.1)
               for rtt in (22, 80) for outage in links.OUTAGES]
    slow, fast = links.Link(2, 60), links.Link(8, 480)
    handovers = []
    for outage, up in links.HANDOVERS:
        before, after = (slow, fast) if up else (fast, slow)
        name = f"handover to {after.rate} Mbit/s, outage of {outage} s"
        handovers.append(goal(name, before, after, outage, links.handover_step(outage)))
    return outages, handovers


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


def measure(roughlink: Path) -> None:
    """Measures the goals that the table lacks. Needs root and a roughlink with the algorithms for the kernel."""
    have, same_run = read(), {}
    for goal in [*links.goals("rough", range(SEED, SEED + 1)), *itertools.chain(*changes())]:
        if goal.name not in have:
            same_run.setdefault(goal.texts[0], []).append(goal)
    todo = {goals[0].name: goals for goals in same_run.values()}

    def keep(name: str, found: tuple[kernel.Run, float]) -> None:
        run, seconds = found
        for goal in todo[name]:
            value = goal.measure(as_result(goal, run, seconds))
            append_line(TABLE, COLUMNS,
                        [goal.name, f"{value:.4f}", f"{seconds:g}", f"{run.late_us[1]:.0f}", kernel.release()])
            print(f"{goal.name}: {value:.3f}", file=sys.stderr, flush=True)

    with loaded(roughlink, ["rough"]) as held:
        names = {"rough": held["rough"][0], "newreno": "reno"}
        measure_each(list(todo), JOBS, TRIES, lambda name: transferred(roughlink, todo[name][0], names), keep)
