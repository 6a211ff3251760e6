#!/usr/bin/env python3
"""Comparison of the pages about the papers with the results of `roughlink reproduce`.

The marked parts of docs/validation/PAPER.md are generated: the verdicts, the claims of the paper that are not
confirmed, and tables of published values. Without --page each of these parts is compared with a new run, or with
--from. The summary in README.md and docs/validation.md is made from the four pages. On two cores Wave and
PLC take a minute each, AVOCA three and V2G seven.
"""

import difflib
import json
import re
import statistics
import sys
import tempfile
from pathlib import Path

from roughlink_validation import cli, page
from roughlink_validation.simulators import Failed, Missing, Roughlink

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "validation"
SUMMARIES = (ROOT / "README.md", ROOT / "docs" / "validation.md")
# paper -> its own stack, and experiments whose published values a part of the page shows
PAPERS = {
    "v2g": ("ns3-3.27", {"published": ["table2"]}),
    "wave": ("ns2", {"published": ["table1-to-l2", "table1-to-l1", "table1-westwood-to-l1", "table1-wave-to-l1"]}),
    "avoca": ("ns2", {"table 2": ["table2"], "table 3": ["table3"]}),
    "plc": ("ns2", {}),
}
VERDICTS = ("confirmed", "undecided", "not confirmed")
ORIGINS = ("paper", "derived", "ours")


def options():
    parser = cli.parser(__doc__)
    parser.add_argument("paper", nargs="*", default=[], metavar="PAPER",
                        help=f"{', '.join(PAPERS)} (default: wave)")
    parser.add_argument("--from", dest="stored", type=Path, metavar="DIR",
                        help="folder with a folder of results for each PAPER")
    parser.add_argument("--page", action="store_true", help="write the parts into the pages")
    parser.add_argument("--strict", action="store_true", help="exit code 5 if a page differs")
    return parser.parse_args()


def reproduced(roughlink: Roughlink, paper: str) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        cli.progress(f"reproducing {paper} ...")
        roughlink.reproduce(paper, Path(folder))
        cli.progress_end()
        return stored(paper, Path(folder))


def stored(paper: str, folder: Path) -> dict:
    """Returns the results in a folder, which must be those of the whole paper."""
    file = folder / "results.json"
    try:
        results = json.loads(file.read_text())
    except FileNotFoundError:
        raise Missing(f"cannot find {file}\nhelp: run `roughlink reproduce {paper} -o {folder}`")
    stack, tables = PAPERS[paper]
    found = {experiment["experiment"].split("/")[1] for experiment in results["experiments"]}
    judged = [verdict(claim, stack) for claim in results["claims"]]
    part = (
        any(experiment["quick"] for experiment in results["experiments"])
        or not found.issuperset(sum(tables.values(), []))
        or any(word in results["command"] for word in ("--set", "--only"))
        or not any(judged) or any(v and v["verdict"] == "not run" for v in judged)
    )
    if part:
        raise Failed(f"{file} has only a part of the paper's results, or changed ones: {results['command']}")
    return results


def verdict(claim: dict, stack: str) -> dict | None:
    return next((v for v in claim["verdicts"] if v["stack"] == stack), None)


def stacks(results: dict) -> list[str]:
    return list(dict.fromkeys(v["stack"] for claim in results["claims"] for v in claim["verdicts"]))


def counts(results: dict) -> str:
    """Returns the claims by stack, origin and verdict, and the published values that are met within factors."""
    lines = ["| stack | claims | number | confirmed | undecided | not confirmed |", "|---|---|---|---|---|---|"]
    origins = {"paper": "of the paper", "derived": "derived from the paper", "ours": "ours"}
    for stack in stacks(results):
        for origin in ORIGINS:
            found = [v["verdict"] for c in results["claims"] if c["origin"] == origin and (v := verdict(c, stack))]
            if found:
                numbers = " | ".join(str(found.count(word)) for word in VERDICTS)
                lines.append(f"| `{stack}` | {origins[origin]} | {len(found)} | {numbers} |")
    stack = stacks(results)[0]
    found = ratios(results, stack)
    if found:
        met = [sum(max(r, 1 / r) <= limit for r in found if r) for limit in (1.5, 2)]
        close = sum(abs(r - 1) <= 0.15 for r in found)
        lines += ["", f"Of {len(found)} published values, {met[0]} are met within a factor of 1.5, {met[1]} within a "
                      f"factor of 2, and {close} within 15 % (`{stack}`). The median of measured / published is "
                      f"{statistics.median(found):.2f}."]
    return "\n".join(lines)


def ratios(results: dict, stack: str) -> list[float]:
    """Returns measured / published for each value, 0 without a measured one; repeated values count once."""
    return [
        (cell["measured"] or 0) / cell["published"]
        for experiment in results["experiments"] for cell in experiment["cells"]
        if cell["stack"] == stack and cell["published"] and not cell.get("published_again")
    ]


def summary() -> str:
    """Returns the first stack's claims of the paper and published values of all four pages."""
    head = "| paper | stack | published values within a factor of 1.5 | claims confirmed | undecided | not confirmed |"
    lines = [head, "|---|---|---|---|---|---|"]
    for paper in PAPERS:
        found = page.current(PAGES / f"{paper}.md", "results.py verdicts")
        first = re.search(r"\| `(\S+)` \| of the paper \| \d+ \| (\d+) \| (\d+) \| (\d+) \|", found)
        values = re.search(r"Of (\d+) published values, (\d+)", found)
        if not first:
            raise Failed(f"{paper}.md has no verdicts: write them with --page")
        stack, *numbers = first.groups()
        met = f"{values[2]} of {values[1]}" if values else "curves only"
        names = {"v2g": "V2G", "wave": "Wave"}
        lines.append(f"| {names.get(paper, paper.upper())} | `{stack}` | {met} | {' | '.join(numbers)} |")
    note = "The losses in AVOCA's stations are fitted to the values of the paper's TCP, which count here, too."
    return "\n".join([*lines, "", note])


def number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def interval(found: dict) -> str:
    bound = ">" if found.get("lower_bound") else "<" if found.get("upper_bound") else ""
    figure = f"{bound} {number(found['measured'])}".strip()
    low, high = found.get("interval", (None, None))
    ends = f"{number(low)} to {number(high)}" if None not in (low, high) else \
        f"> {number(low)}" if low is not None else f"< {number(high)}"
    return f"{figure} ({ends})" if "interval" in found else figure


def not_confirmed(results: dict, stack: str) -> str:
    """Returns the claims of and from the paper that are not confirmed on its stack, with the reasons."""
    lines = ["| claim | verdict | measured | criterion | reason |", "|---|---|---|---|---|"]
    for claim in results["claims"]:
        found = verdict(claim, stack)
        if claim["origin"] not in ("paper", "derived") or not found or found["verdict"] == "confirmed":
            continue
        figure = f"{interval(found)} {claim['unit']}"
        row = [f"{claim['text']} ({claim['place']})", found["verdict"], figure, claim["criterion"], found.get("reason")]
        lines.append(f"| {' | '.join((cell or '').replace('|', chr(92) + '|') for cell in row)} |")
    return "\n".join(re.sub(" +", " ", line) for line in lines)


def published(results: dict, names: list[str], stack: str) -> str:
    """Returns the published and measured values of experiments with the same rows and columns."""
    cells, rows, columns = {}, {}, {}
    for experiment in results["experiments"]:
        if experiment["experiment"].split("/")[1] not in names:
            continue
        first, second = experiment["axes"]
        labels = [{v["value"]: v["label"] for v in axis["values"]} for axis in (first, second)]
        where = experiment["experiment"].split("-to-")[1].upper() if "-to-" in experiment["experiment"] else ""
        for cell in experiment["cells"]:
            if cell["stack"] == stack and cell["published"] is not None:
                _, _, part = cell["metric"].partition("@")
                row = labels[1][cell["axes"][second["name"]]] + (f": {part}" if part else "")
                column = labels[0][cell["axes"][first["name"]]] + (f", to {where}" if where else "")
                measured = "none" if cell["measured"] is None else f"{cell['measured']:.{places(cell)}f}"
                cells[row, column] = f"{cell['published']:g}, **{measured}**"
                rows[row] = columns[column] = None
    lines = [f"| {' | '.join(['', *columns])} |", f"|{'---|' * (len(columns) + 1)}"]
    lines += [f"| {' | '.join([row, *(cells.get((row, column), '') for column in columns)])} |" for row in rows]
    return "\n".join(lines)


def places(cell: dict) -> int:
    return 3 if cell["metric"] == "throughput_mbps" else 1


def groups(results: dict, stack: str) -> str:
    """Returns confirmed / undecided / not confirmed claims by group (the R1 to R16 of the PLC page) and origin."""
    table = {}
    for claim in results["claims"]:
        found = verdict(claim, stack)
        name = re.match(r"(R\d+); ", claim["place"])
        if found and claim["origin"] in ORIGINS:
            row = table.setdefault(name[1] if name else "", {})
            row.setdefault(claim["origin"], []).append(found["verdict"])
    lines = ["| group | paper's | derived | ours |", "|---|---|---|---|"]
    for name in sorted(table, key=lambda name: int(name[1:] or 99)):
        row = table[name]
        numbers = (" / ".join(str(row[origin].count(word)) for word in VERDICTS) if origin in row else ""
                   for origin in ORIGINS)
        lines.append(f"| {name or 'none'} | {' | '.join(numbers)} |")
    return "\n".join(lines)


def parts(paper: str, results: dict) -> dict[str, str]:
    """Returns the generated parts of a page by name."""
    stack, tables = PAPERS[paper]
    made = {"verdicts": counts(results), "not confirmed": not_confirmed(results, stack)}
    for name, experiments in tables.items():
        made[name] = published(results, experiments, stack)
    if paper == "plc":
        made["groups"] = groups(results, stack)
    return made


def differs(file: Path, name: str, text: str, write: bool) -> bool:
    """Writes the part into the page, or prints where the page differs from it."""
    if write:
        page.renew(file, f"results.py {name}", text)
        return False
    label, old = f"{file.name}, {name}", page.current(file, f"results.py {name}").splitlines()
    lines = list(difflib.unified_diff(old, page.wrapped(text).splitlines(), label, "results", lineterm=""))
    print("\n".join(lines) if lines else f"{label}: as in the results")
    return bool(lines)


def main() -> int:
    o = options()
    unknown = [paper for paper in o.paper if paper not in PAPERS]
    if unknown:
        raise Missing(f"unknown paper {unknown[0]}: choose among {', '.join(PAPERS)}")
    differ = []
    for paper in o.paper or ["wave"]:
        results = stored(paper, o.stored / paper) if o.stored else reproduced(Roughlink(o.roughlink), paper)
        for name, text in parts(paper, results).items():
            differ += [paper] if differs(PAGES / f"{paper}.md", name, text, o.page) else []
    for file in SUMMARIES:
        differ += o.paper[:1] or ["wave"] if differs(file, "summary", summary(), o.page) else []
    if differ:
        print(f"help: validation/results.py --page {' '.join(dict.fromkeys(differ))}")
    return cli.EXPECTATION if o.strict and differ else 0


if __name__ == "__main__":
    sys.exit(cli.guarded(main))
