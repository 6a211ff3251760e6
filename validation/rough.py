#!/usr/bin/env python3
"""Goals of the algorithm `rough`, beside other algorithms: loss, delay, fairness, outages, a handover, random links.

The random links are held out: the search for its parameters (`rough_search.py`) never saw them, nor these seeds. On
each, all flows use the same algorithm, and the yardstick is the better of BBR and CUBIC. --ablate shows what each
ingredient contributes. --papers measures only the experiments of the papers. --page writes the tables, also those of
the papers, into docs/validation/rough.md. Run it as `.ci/python goals`.
"""

import argparse
import statistics
import sys

from roughlink_validation import cli, page, rough_papers
from roughlink_validation import rough_links as links
from roughlink_validation.building import ROOT

PAGE = ROOT / "docs" / "validation" / "rough.md"
OTHERS = ("bbr", "bbr3", "copa", "cubic", "vegas", "illinois-aa", "wave-fr")
SEEDS = range(1001, 1009)
OUTAGES = (0.5, 1, 2, 5, 10)
# Ingredients, and the parameters that leave them out.
ABLATIONS = {
    "noise of the RTT": {"noise_percent": 0},
    "loss that comes with delay": {"excess_permille": 1000},
    "competition": {"compete": False},
    "tries of delay while competing": {"attempt": False},
    "return after a time-out": {"restart": False},
    "velocity": {"max_velocity": 1},
}


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--links", type=int, default=200, help="number of random links")
    parser.add_argument("--papers", action="store_true", help="measure only the experiments of the papers")
    parser.add_argument("--ablate", action="store_true", help="leave out one ingredient at a time")
    parser.add_argument("--page", action="store_true", help="write docs/validation/rough.md; implies --ablate")
    return parser.parse_args()


def known(names) -> list[str]:
    registered = {entry["name"] for entry in links.rl.algorithms()}
    return [name for name in names if name in registered]


def goals_table() -> str:
    names = ["rough", *known(OTHERS)]
    columns = []
    for name in names:
        made = links.goals(name, SEEDS)
        columns.append(links.measured(made))
    lines = [f"| goal | bound | {' | '.join(names)} |", "|---" * (len(names) + 2) + "|"]
    for row, goal in enumerate(made):
        means = [statistics.fmean(column[row]) for column in columns]
        cells = [f"{mean:.3f}" for mean in means]
        ours = columns[0][row]
        mark = "" if goal.is_reached(ours) else "*"
        cells[0] = f"{mark}{means[0]:.3f}{mark} ({min(ours):.3f} to {max(ours):.3f})"
        lines.append(f"| {goal.name} | {'at most ' if goal.at_most else ''}{goal.bound} | {' | '.join(cells)} |")
    return "\n".join(lines)


def changes_table() -> str:
    names = ["rough", *known(("bbr", "bbr3", "copa", "cubic", "wave-fr"))]
    lines = [f"| time to 90 % of the rate, s | goal | {' | '.join(names)} |", "|---" * (len(names) + 2) + "|"]

    def shown(seconds: float | None) -> str:
        return "never" if seconds is None else f"{seconds:g}"

    for rtt in (22, 80):
        cells = [", ".join(shown(links.after_outage(name, rtt, outage)) for outage in OUTAGES) for name in names]
        lines.append(f"| outages of {', '.join(map(str, OUTAGES))} s, {rtt} ms | 1 | {' | '.join(cells)} |")
    for up, what in ((True, "2 to 8 Mbit/s"), (False, "8 to 2 Mbit/s")):
        cells = [shown(links.after_handover(name, up)) for name in names]
        lines.append(f"| handover, {what} | 2 | {' | '.join(cells)} |")
    return "\n".join(lines)


def on_links(count: int, others: list[int], params: dict | None = None, cc: str = "rough") -> list[float]:
    seeds = range(links.HELD_OUT, links.HELD_OUT + count)
    results = links.run_all(links.on_random_link(seed, cc, params) for seed in seeds)
    return [links.delivered(result) / other for result, other in zip(results, others)]


def sum_of(ratios: list[float]) -> str:
    low = sum(ratio < 0.7 for ratio in ratios)
    return f"{min(ratios):.3f} | {low} of {len(ratios)} | {statistics.median(ratios):.3f} |"


def links_table(ours: list[float], others: list[int]) -> str:
    lines = ["| | smallest ratio | below 0.7 | median |", "|---|---|---|---|", f"| rough | {sum_of(ours)}"]
    for name in known(("bbr", "bbr3", "copa", "cubic")):
        lines.append(f"| {name} | {sum_of(on_links(len(ours), others, cc=name))}")
    return "\n".join(lines)


def worst(ours: list[float]) -> str:
    lines = ["| ratio | Mbit/s | RTT, ms | queue, packets | flows | other keys |", "|---|---|---|---|---|---|"]
    for ratio, seed in sorted(zip(ours, range(links.HELD_OUT, links.HELD_OUT + len(ours))))[:5]:
        link, flows, _ = links.random_link(seed)
        keys = "; ".join(f"`{key}`" for key in link.keys.split("\n") if key)
        lines.append(f"| {ratio:.3f} | {link.rate:g} | {link.rtt:g} | {link.queue} | {flows} | {keys} |")
    return "\n".join(lines)


def ablations(ours: list[float], others: list[int]) -> str:
    lines = ["| left out | goals reached | smallest ratio on random links | below 0.7 | median |",
             "|---|---|---|---|---|"]
    for what, params in {"nothing": {}, **ABLATIONS}.items():
        made = links.goals("rough", SEEDS, params)
        reached = sum(goal.is_reached(values) for goal, values in zip(made, links.measured(made)))
        ratios = on_links(len(ours), others, params) if params else ours
        lines.append(f"| {what} | {reached} of {len(made)} | {sum_of(ratios)}")
    return "\n".join(lines)


def main() -> int:
    chosen = options()
    if chosen.papers:
        print(rough_papers.tables())
        return 0
    others = links.best_of_others(range(links.HELD_OUT, links.HELD_OUT + chosen.links))
    ours = on_links(chosen.links, others)
    parts = [
        f"Means of {len(SEEDS)} seeds, with the range for `rough`; goals that the mean misses are in italics:",
        goals_table(),
        "Time from the end of a change to 90 % of the new rate, on one seed:",
        changes_table(),
        f"Bytes delivered on {chosen.links} random links held out from the search, divided by the larger of what BBR "
        "and CUBIC deliver there:",
        links_table(ours, others),
        "The links on which `rough` is worst:",
        worst(ours),
    ]
    if chosen.ablate or chosen.page:
        parts += ["Without one ingredient at a time:", ablations(ours, others)]
    if chosen.page:
        parts.append(rough_papers.tables())
    text = "\n\n".join(parts)
    if chosen.page:
        page.renew(PAGE, "rough.py", text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(cli.guarded(main))
