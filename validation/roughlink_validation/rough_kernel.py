"""Goals of `rough` between two Linux kernels: the scenarios of `rough_links.py` over an emulated link, one seed each.

The RTT is TCP's smoothed one, sampled every 10 ms. Measured values are kept in a table, one line per run.
"""

import csv
import math
import statistics
import sys
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


def outages() -> list[links.Goal]:
    """Returns the outages of `links.recoveries` as goals; the value is the time to the full rate."""
    made = []
    for rtt in (22, 80):
        for outage in links.OUTAGES:
            name = f"outage of {outage} s, {rtt} ms"
            made.append(links.Goal(name, 1, links.outage_link(rtt, outage), [("rough", 0)], 18 + outage, [name],
                                   lambda r, rtt=rtt, outage=outage: recovery(r["samples"], rtt / 1e3, outage),
                                   at_most=True))
    return made


def recovery(samples: list[dict], rtt: float, outage: float) -> float:
    """Returns the time from the end of an outage to the full rate as `links.seconds_to_full_rate`, or infinity.

    The outage begins at 10 s of the emulation, which starts up to a second before the sender. The last acknowledgment
    arrives a round trip after the outage begins. Acknowledged data was delivered half a round trip earlier.
    """
    acked = [(row["time_s"], row["acked_bytes"]) for row in samples]
    grown = [now for (_, before), (now, after) in zip(acked, acked[1:]) if after > before]
    _, last = max((next_ - last, last) for last, next_ in zip(grown, grown[1:]) if 8.5 < last < 10.5)
    end = last - rtt + outage

    def delivered_until(time: float) -> int:
        return max(count for now, count in acked if now <= time + rtt / 2)

    for k in range(60):
        at = end + 0.1 * k
        if at + 0.3 > acked[-1][0]:
            break
        if (delivered_until(at + 0.3) - delivered_until(at)) * 8e-6 / 0.3 >= 0.9 * 10 * links.PAYLOAD:
            return round(0.1 * k, 1)
    return math.inf


def measure(roughlink: Path) -> None:
    """Measures the goals that the table lacks. Needs root and a roughlink with the algorithms for the kernel."""
    have, same_run = read(), {}
    for goal in [*links.goals("rough", range(SEED, SEED + 1)), *outages()]:
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
