#!/usr/bin/env python3
"""Comparison of the pages about the papers with the results of `roughlink reproduce`.

The marked parts of docs/validation/PAPER.md are generated: the verdicts, the claims of the paper that are not
confirmed, and tables of published values. Without --page each of these parts is compared with a new run, or with
--from. Wave and PLC take three minutes on two cores, AVOCA three and V2G eight.
"""

import difflib
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from roughlink_validation import cli, page
from roughlink_validation.simulators import Failed, Missing, Roughlink

PAGES = Path(__file__).resolve().parent.parent / "docs" / "validation"
# paper -> its own stack, experiments whose published values the page shows
PAPERS = {
    "v2g": ("ns3-3.27", ["table2"]),
    "wave": ("ns2", ["table1-to-l2", "table1-to-l1", "table1-westwood-to-l1", "table1-wave-to-l1"]),
    "avoca": ("ns2", []),
    "plc": ("ns2", []),
}
MEDIANS = ("plc",)  # papers judged by medians, whose intervals are not symmetric
VERDICTS = ("confirmed", "undecided", "not confirmed")
ORIGINS = ("paper", "derived", "ours")


def options():
    parser = cli.parser(__doc__)
    parser.add_argument("paper", nargs="*", default=[], metavar="PAPER",
                        help=f"{', '.join(PAPERS)} (default: wave and plc)")
    parser.add_argument("--from", dest="stored", type=Path, metavar="DIR",
                        help="folder with a folder of results for each PAPER")
    parser.add_argument("--page", action="store_true", help="write the parts into the pages")
    parser.add_argument("--strict", action="store_true", help="exit code 5 if a page differs")
    return parser.parse_args()


def reproduced(roughlink: Roughlink, paper: str) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        cli.progress(f"reproducing {paper} ...")
        done = subprocess.run([str(roughlink.binary), "reproduce", paper, "--quiet", "-o", folder],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        cli.progress_end()
        if done.returncode != 0:
            raise Failed(f"`roughlink reproduce {paper}` failed:\n{done.stderr}")
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
        any(experiment["quick"] for experiment in results["experiments"]) or not found.issuperset(tables)
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
    lines = ["| stack | claims | number | confirmed | undecided | not confirmed |", "|---|---|---|---|---|---|"]
    origins = {"paper": "of the paper", "derived": "derived from the paper", "ours": "ours"}
    for stack in stacks(results):
        for origin in ORIGINS:
            found = [v["verdict"] for c in results["claims"] if c["origin"] == origin and (v := verdict(c, stack))]
            if found:
                numbers = " | ".join(str(found.count(word)) for word in VERDICTS)
                lines.append(f"| `{stack}` | {origins[origin]} | {len(found)} | {numbers} |")
    return "\n".join(lines)


def number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def interval(found: dict, symmetric: bool) -> str:
    bound = ">" if found.get("lower_bound") else "<" if found.get("upper_bound") else ""
    figure = f"{bound} {number(found['measured'])}".strip()
    return f"{figure} ± {number(found['ci95'])}" if found["ci95"] and symmetric else figure


def not_confirmed(results: dict, stack: str, symmetric: bool) -> str:
    """Returns the claims of and from the paper that are not confirmed on its stack, with the reasons."""
    lines = ["| claim | verdict | measured | criterion | reason |", "|---|---|---|---|---|"]
    for claim in results["claims"]:
        found = verdict(claim, stack)
        if claim["origin"] == "ours" or not found or found["verdict"] == "confirmed":
            continue
        figure = f"{interval(found, symmetric)} {claim['unit']}"
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
        metric = experiment["metrics"][0]["name"]
        for cell in experiment["cells"]:
            if cell["stack"] == stack and cell["published"] is not None and cell["metric"] == metric:
                row = labels[1][cell["axes"][second["name"]]]
                column = labels[0][cell["axes"][first["name"]]] + (f", to {where}" if where else "")
                measured = "none" if cell["measured"] is None else f"{cell['measured']:.{places(cell)}f}"
                cells[row, column] = f"{cell['published']:g}, **{measured}**"
                rows[row] = columns[column] = None
    lines = [f"| {' | '.join(['', *columns])} |", f"|{'---|' * (len(columns) + 1)}"]
    lines += [f"| {' | '.join([row, *(cells.get((row, column), '') for column in columns)])} |" for row in rows]
    return "\n".join(lines)


def places(cell: dict) -> int:
    return 1 if cell["metric"] == "recovery_s" else 3


def groups(results: dict, stack: str) -> str:
    """Returns confirmed / undecided / not confirmed claims by group (the R1 to R16 of the PLC page) and origin."""
    table = {}
    for claim in results["claims"]:
        found = verdict(claim, stack)
        name = re.match(r"(R\d+); ", claim["place"])
        if found:
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
    made = {"verdicts": counts(results), "not confirmed": not_confirmed(results, stack, paper not in MEDIANS)}
    if tables:
        made["published"] = published(results, tables, stack)
    if paper == "plc":
        made["groups"] = groups(results, stack)
    return made


def main() -> int:
    o = options()
    unknown = [paper for paper in o.paper if paper not in PAPERS]
    if unknown:
        raise Missing(f"unknown paper {unknown[0]}: choose among {', '.join(PAPERS)}")
    differ = []
    for paper in o.paper or ["wave", "plc"]:
        results = stored(paper, o.stored / paper) if o.stored else reproduced(Roughlink(o.roughlink), paper)
        file = PAGES / f"{paper}.md"
        for name, text in parts(paper, results).items():
            script = f"results.py {name}"
            if o.page:
                page.renew(file, script, text)
                continue
            label, old = f"{file.name}, {name}", page.current(file, script).splitlines()
            lines = list(difflib.unified_diff(old, text.splitlines(), label, "results", lineterm=""))
            differ += [paper] if lines else []
            print("\n".join(lines) if lines else f"{label}: as in the results")
    if differ:
        print(f"help: validation/results.py --page {' '.join(dict.fromkeys(differ))}")
    return cli.EXPECTATION if o.strict and differ else 0


if __name__ == "__main__":
    sys.exit(cli.guarded(main))
