#!/usr/bin/env python3
"""Compare the algorithm `rough` with its goals and with other algorithms.

Measures loss, delay, fairness, outages, handovers, joining flows, queues, a charging session and random links.

Seeds and random links are held out: the search for the parameters (`rough_search.py`) uses others. All flows of a
random link use the same algorithm. Their total is compared with the better of BBR and CUBIC on that link.

Run it as `.ci/python goals`.
"""

import argparse
import math
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

from roughlink_validation import cli, page, rough_kernel, rough_papers
from roughlink_validation import rough_links as links
from roughlink_validation.building import ROOT

PAGE = ROOT / "docs" / "validation" / "rough.md"
COMPARED = ("rough", "bbr", "bbr3", "copa", "cubic", "newreno-sc", "vegas", "illinois-aa", "wave-fr")
# Heads of the columns, where `rough` also has values from Linux.
IN_LINUX = ("rough", "rough in Linux", *COMPARED[1:])
BESIDE_LINUX = (*IN_LINUX[:2], "the same runs simulated", *COMPARED[1:])
SEEDS = range(1001, 1009)
# Ingredients, and the parameters that leave them out.
ABLATIONS = {
    "noise of the RTT": {"noise_percent": 0},
    "doubled increase": {"probe_rounds": 100_000},
    "bound on loss": {"max_loss_permille": 1000},
    "competition": {"compete": False},
    "tries of delay while competing": {"attempt": False},
    "return after a time-out": {"restart": False},
}


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--links", type=int, default=200, help="number of random links")
    parser.add_argument("--kernel", type=Path, metavar="ROUGHLINK",
                        help="measure the goals that lack a value from Linux kernels, with this program; needs root")
    parser.add_argument("--papers", action="store_true", help="measure only the experiments of the papers")
    parser.add_argument("--ablate", action="store_true", help="leave out one ingredient at a time")
    parser.add_argument("--page", action="store_true", help="write docs/validation/rough.md; implies --ablate")
    return parser.parse_args()


def goals_table() -> str:
    columns = []
    for name in COMPARED:
        made = links.goals(name, SEEDS)
        columns.append(links.measured(made))
    in_kernel, rows = rough_kernel.with_simulated(), []
    for row, goal in enumerate(made):
        means = [statistics.fmean(column[row]) for column in columns]
        cells = [f"{mean:.3f}" for mean in means]
        ours = columns[0][row]
        mark = "" if goal.is_reached(ours) else "*"
        cells[0] = f"{mark}{means[0]:.3f}{mark} ({min(ours):.3f} to {max(ours):.3f})"
        value, same = in_kernel[goal.name]
        mark = "" if goal.is_reached([value]) else "*"
        linux = f"{mark}{value:.3f}{mark} ({same:.3f})"
        rows.append([goal.name, f"{'at most ' if goal.at_most else ''}{goal.bound}", cells[0], linux, *cells[1:]])
    return page.table([["goal", "bound", *IN_LINUX], *rows])


def shown(time: float | None) -> str:
    return "never" if time in (None, math.inf) else f"{time:g}"


def changes_table() -> str:
    columns = [links.recoveries(name) for name in COMPARED]
    kept = rough_kernel.read()
    in_kernel = [[shown(kept[goal.name][0]) for goal in goals] for goals in rough_kernel.changes()]
    lengths = ", ".join(map(str, links.OUTAGES))
    count = len(links.OUTAGES)
    rows = []
    for at, rtt in ((0, 22), (count, 80)):
        ours, *cells = [", ".join(map(shown, outages[at:at + count])) for outages, _ in columns]
        linux = ", ".join(in_kernel[0][at:at + count])
        rows.append([f"outages of {lengths} s, {rtt} ms", "1", ours, linux, *cells])
    for at, (outage, up) in enumerate(links.HANDOVERS):
        rates = "2 to 8 Mbit/s" if up else "8 to 2 Mbit/s"
        bound = "2" if outage == 2 else ""
        ours, *cells = [shown(handovers[at]) for _, handovers in columns]
        rows.append([f"handover, {rates}, outage of {outage} s", bound, ours, in_kernel[1][at], *cells])
    return page.table([["time to 90 % of the rate, s", "goal", *IN_LINUX], *rows])


def overflows_table() -> str:
    ours, *counts = [str(links.overflows(name)) for name in COMPARED]
    kept, goals = rough_kernel.read(), rough_kernel.overflows()
    runs = [kept[goal.name][0] for goal in goals], rough_kernel.simulated(goals)
    linux = [", ".join(map(shown, values)) for values in runs]
    return page.table([["", "bound", *BESIDE_LINUX], ["overflows", "1", ours, *linux, *counts]])


def joins_table() -> str:
    kept, rows = rough_kernel.read(), []
    for flows in links.JOINING:
        for rtt in links.RTTS:
            columns = [links.to_fair_shares(name, flows, rtt) for name in COMPARED]
            goals = rough_kernel.joins(flows, rtt)
            columns[1:1] = [kept[goal.name][0] for goal in goals], rough_kernel.simulated(goals)
            cells = []
            for waits in columns:
                median, least, most = (shown(of(waits)) for of in (statistics.median, min, max))
                cells.append(median if least == most else f"{median} ({least} to {most})")
            rows.append([f"{flows} flows, {rtt} ms", "20", *cells])
    return page.table([["base RTTs to fair shares", "bound", *BESIDE_LINUX], *rows])


def session_table() -> str:
    kept = rough_kernel.read()
    columns = {"": {cc: links.beside_session(cc, SEEDS) for cc in (None, *COMPARED)}}
    columns[" in Linux"] = {cc: [kept[name][0] for name in rough_kernel.session_names(cc)]
                            for cc in rough_kernel.DOWNLOADS}
    head, *rows = (["", "bound"], ["99th percentile of the response time, ms", ""],
                   ["the same over the value alone", "1.1"], ["download, Mbit/s", ""])
    for where, values in columns.items():
        alone = values[None][0]
        for cc, (p99, *mbps) in values.items():
            head.append((cc or "alone") + where)
            cells = f"{p99:.1f}", f"{p99 / alone:.2f}", f"{mbps[0]:.2f}" if cc else ""
            for row, cell in zip(rows, cells):
                row.append(cell)
    return page.table([head, *rows])


def queues_table(places: dict, head: str, cell: Callable[[float, float, float, float], str]) -> str:
    rows = [[name, *(cell(*links.on_queue(place, cc)) for cc in COMPARED)] for name, place in places.items()]
    return page.table([[head, *COMPARED], *rows])


def short_queues_table() -> str:
    return queues_table(links.SHORT_QUEUES, "sent again, Jain's index, share of the limit",
                        lambda resent, index, share, _: f"{100 * resent:.1f} %, {index:.2f}, {share:.2f}")


def long_queues_table() -> str:
    return queues_table(links.LONG_QUEUES, "mean queue in packets, Jain's index, share of the limit",
                        lambda _, index, share, queue: f"{queue:.1f}, {index:.2f}, {share:.2f}")


def on_links(count: int, others: list[int], params: dict | None = None, cc: str = "rough") -> list[float]:
    seeds = range(links.HELD_OUT, links.HELD_OUT + count)
    results = links.run_all(links.on_random_link(seed, cc, params) for seed in seeds)
    return [links.delivered(result) / other for result, other in zip(results, others)]


def sum_of(ratios: list[float]) -> list[str]:
    low = sum(ratio < 0.7 for ratio in ratios)
    return [f"{min(ratios):.3f}", f"{low} of {len(ratios)}", f"{statistics.median(ratios):.3f}"]


def links_table(ours: list[float], others: list[int]) -> str:
    rows = [["rough", *sum_of(ours)]]
    for name in ("bbr", "bbr3", "copa", "cubic"):
        rows.append([name, *sum_of(on_links(len(ours), others, cc=name))])
    return page.table([["", "smallest ratio", "below 0.7", "median"], *rows])


def worst(ours: list[float]) -> str:
    rows = []
    for ratio, seed in sorted(zip(ours, range(links.HELD_OUT, links.HELD_OUT + len(ours))))[:5]:
        link, flows, _ = links.random_link(seed)
        keys = "; ".join(f"`{key}`" for key in link.keys.split("\n") if key)
        rows.append([f"{ratio:.3f}", f"{link.rate:g}", f"{link.rtt:g}", str(link.queue), str(flows), keys])
    return page.table([["ratio", "Mbit/s", "RTT, ms", "queue, packets", "flows", "other keys"], *rows])


def ablations(ours: list[float], others: list[int]) -> str:
    rows = [["left out", "goals reached", "outages below 1 s", "handovers, s", "sent again on short queues",
             "smallest ratio on random links", "below 0.7", "median"]]
    for what, params in {"nothing": {}, **ABLATIONS}.items():
        cli.progress(f"without one ingredient: {what}")
        made = links.goals("rough", SEEDS, params)
        reached = sum(goal.is_reached(values) for goal, values in zip(made, links.measured(made)))
        outages, handovers = links.recoveries("rough", params)
        short = sum(time is not None and time < 1 for time in outages)
        resent = [links.on_queue(place, "rough", params)[0] for place in links.SHORT_QUEUES.values()]
        ratios = on_links(len(ours), others, params) if params else ours
        rows.append([what, f"{reached} of {len(made)}", f"{short} of {len(outages)}", ", ".join(map(shown, handovers)),
                     ", ".join(f"{100 * share:.0f} %" for share in resent), *sum_of(ratios)])
    return page.table(rows)


def main() -> int:
    chosen = options()
    if chosen.kernel:
        rough_kernel.measure(chosen.kernel.resolve())
        return 0
    if chosen.papers:
        print(rough_papers.tables())
        return 0
    cli.progress("random links")
    others = links.best_of_others(range(links.HELD_OUT, links.HELD_OUT + chosen.links))
    ours = on_links(chosen.links, others)
    parts = []

    def add(what: str, text: str, made: Callable[[], str]) -> None:
        cli.progress(what)
        parts.extend([text, made()])

    add("goals", f"Means of {len(SEEDS)} seeds, with the range for `rough`; goals that the mean or Linux misses are in "
        "italics. The six goals at other rates than 10 Mbit/s are our own additions. CUBIC or NewReno start up to 2 s "
        f"later; the seed sets when. In Linux: one run of at most {rough_kernel.LONGEST} s between two kernels, with "
        f"the smoothed RTT; in parentheses, a simulation of the same run. Both use seed {rough_kernel.SEED}, because "
        "with seed 1 the noise drops a packet of the handshake, which costs 2 s:", goals_table)
    add("changes of the path", "Time from the end of a change to 90 % of the new rate, on one seed:", changes_table)
    add("overflows", "Overflows of the queue from the start of the handover to 2 Mbit/s, at 30 s, to 60 s. Drops "
        "closer together than a round trip through the full queue are one overflow. In Linux: packets of 1,500 instead "
        f"of 1,000 bytes, one link, and {len(rough_kernel.STARTS)} runs whose flows start 0.3 s apart:",
        overflows_table)
    add("joining flows", "Time from the start of a flow until all flows have fair shares. Shares are fair "
        "if Jain's index reaches 0.97 over 5 base RTTs, and on average over the next four stretches of 5. Medians and "
        f"ranges of {len(links.JOINS)} starts, in base RTTs to the end of the first stretch, at most "
        f"{links.LONGEST_WAIT}; for Linux, with one link, at most {rough_kernel.LONGEST_WAIT}:",
        joins_table)
    add("charging session", "The charging loop of `charging-firmware`, alone and beside a download. The session uses "
        f"CUBIC, the download the algorithm of the column. Means of {len(SEEDS)} seeds. In Linux: one seed, "
        "programs with messages of the same size, and a charger behind the charge point. Their loop lasts for "
        f"{rough_kernel.SESSION} s:", session_table)
    add("short queues", "Short queues and a policer at 10 Mbit/s, on one seed of 60 s:", short_queues_table)
    add("long queues", "Links that can hold a long queue, on one seed of 60 s. Flows start 1.3 s apart:",
        long_queues_table)
    add("random links", f"Bytes delivered on {chosen.links} random links held out from the search, divided by the "
        "larger of what BBR and CUBIC deliver there:", lambda: links_table(ours, others))
    add("random links", "The links on which `rough` is worst:", lambda: worst(ours))
    if chosen.ablate or chosen.page:
        add("ablations", "Without one ingredient at a time. Times after handovers and shares sent again are in the "
            "order of the tables above:",
            lambda: ablations(ours, others))
    if chosen.page:
        parts.append(rough_papers.tables())
    cli.progress_end()
    text = "\n\n".join(parts)
    if chosen.page:
        page.renew(PAGE, "rough.py", text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(cli.guarded(main))
