#!/usr/bin/env python3
"""Comparison of all results with the results of a commit, to prove that a rewrite changes none.

    unchanged.py main~3
    unchanged.py --old ./roughlink-before --new target/debug/roughlink

The first form builds the commit in a temporary git worktree, and the program of the working tree, both with the tests'
profile (builds of commits are kept). The second form takes two programs. Both programs run every built-in scenario with
`--json` and every paper with `reproduce PAPER --quick`. The comparison covers the statistics and all single runs, bit
for bit. Fields that measure or describe the program itself are not compared (NOT_RESULTS). Use --ignore for a new
field; the commit that adds the field must explain it.

Exits with 1 if anything differs, or if a scenario or paper of the commit is gone. New ones are listed and do not count.
"""

import argparse
import contextlib
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

from roughlink_validation import cli
from roughlink_validation.building import ROOT, TARGET, alone, build, git, say
from roughlink_validation.simulators import Failed, Missing

# Field names: the wall-clock time of a run, and the revision in the head of a report.
NOT_RESULTS = {"wall_s", "Revision"}
WIDTH = 80


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision", nargs="?", help="commit to compare with")
    parser.add_argument("--old", type=Path, metavar="PATH", help="this program instead of a commit")
    parser.add_argument("--new", type=Path, metavar="PATH", help="this program instead of the working tree's")
    parser.add_argument("--target-dir", type=Path, default=TARGET,
                        help="build folder for both, so that dependencies are built once (default: target)")
    parser.add_argument("--limit", type=float, default=1200, metavar="S", help="seconds that a run may take (1200)")
    parser.add_argument("--only", action="append", default=[], metavar="NAME",
                        help="this scenario or paper; repeatable")
    parser.add_argument("--ignore", action="append", default=[], metavar="FIELD",
                        help="a field not to compare; repeatable")
    chosen = parser.parse_args()
    if (chosen.revision is None) == (chosen.old is None):
        parser.error("name a commit, or a program with --old")
    return chosen


# ---- The two programs ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def worktree(commit: str, at: Path):
    """Checks out the commit at `at` for the duration of the context."""

    def remove():
        with uninterrupted(), contextlib.suppress(Failed):
            git("worktree", "remove", "--force", str(at))

    remove()
    try:
        git("worktree", "add", "--force", "--detach", str(at), commit)
        yield at
    finally:
        remove()


@contextlib.contextmanager
def uninterrupted():
    kept = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def program_of(revision: str, target: Path) -> Path:
    """Returns the program of a commit. The worktree always has the same path, so cargo replaces its files."""
    commit = git("rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}")
    folder = target / "unchanged"
    kept = folder / f"roughlink-{commit[:12]}"
    with alone(folder):
        if not kept.exists():
            say(f"building {revision}")
            with worktree(commit, folder / "tree") as tree:
                unfinished = kept.with_suffix(".unfinished")
                shutil.copy2(build(tree, target), unfinished)
                unfinished.replace(kept)
    return kept


# ---- Their results ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Side:
    """A program, and a folder for its output."""

    program: Path
    folder: Path

    @contextlib.contextmanager
    def started(self, arguments: list[str]):
        """Starts the program with output to files, so that neither side blocks on an unread pipe."""
        with (self.folder / "stdout").open("w+") as out, (self.folder / "stderr").open("w+") as err:
            process = subprocess.Popen([self.program, *arguments], cwd=self.folder, stdout=out, stderr=err)
            try:
                yield process
            finally:
                process.kill()
                process.wait()

    def printed(self, arguments: list[str], code: int):
        if code != 0:
            said = (self.folder / "stderr").read_text().strip()[-2000:]
            raise Failed(f"{self.program} {' '.join(arguments)} failed with code {code}:\n{said}")
        try:
            return json.loads((self.folder / "stdout").read_text())
        except json.JSONDecodeError as e:
            raise Failed(f"{self.program} {' '.join(arguments)} did not print JSON: {e}") from None


def both(sides: list[Side], arguments: list[str], limit: float) -> list:
    """Runs both programs at the same time and returns the JSON of each."""
    end = time.monotonic() + limit
    with contextlib.ExitStack() as stack:
        started = [stack.enter_context(side.started(arguments)) for side in sides]
        try:
            codes = [process.wait(end - time.monotonic()) for process in started]
        except subprocess.TimeoutExpired as late:
            raise Failed(f"{' '.join(map(str, late.cmd))} took more than {limit:.0f} s (--limit)") from None
    return [side.printed(arguments, code) for side, code in zip(sides, codes)]


def names(sides: list[Side], limit: float) -> list[list[tuple[str, str]]]:
    """Returns the scenarios and papers of each program, as (kind, name)."""
    scenarios, papers = (
        both(sides, list_, limit) for list_ in (["scenario", "list", "--json"], ["reproduce", "--json"])
    )
    return [[("run", e["name"]) for e in s] + [("reproduce", e["paper"]) for e in p] for s, p in zip(scenarios, papers)]


def results(sides: list[Side], kind: str, name: str, limit: float) -> list:
    if kind == "run":
        return both(sides, ["run", name, "--json", "--quiet"], limit)
    statistics = both(sides, ["reproduce", name, "--quick", "--json", "--quiet", "-o", name], limit)
    old, new = (with_runs(result, side.folder / name / "runs.jsonl") for result, side in zip(statistics, sides))
    if old["runs"].keys().isdisjoint(new["runs"]):
        # The keys depend on names in the source: pair the runs by their content.
        for side in (old, new):
            side["runs"] = sorted(side["runs"].values(), key=content)
    return [old, new]


def content(record: dict) -> str:
    return json.dumps(record | {"result": {k: v for k, v in record["result"].items() if k not in NOT_RESULTS}})


def with_runs(statistics: dict, store: Path) -> dict:
    """Returns the statistics of a paper with all its single runs."""
    statistics["facts"] = dict(statistics["facts"])
    runs = {}
    for line in store.read_text().splitlines()[1:]:
        record = json.loads(line)
        del record["check"]  # the checksum of the line
        # The last part of the key is the hash of the sources.
        runs[record.pop("key").rpartition("-")[0]] = record
    return {"runs": dict(sorted(runs.items())), "statistics": statistics}


# ---- The comparison --------------------------------------------------------------------------------------------------

ABSENT = object()


def differences(old, new, ignored: set[str], path: str = ""):
    """Yields (path, old, new) of every field that differs, in the order of the results."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            if key not in ignored:
                yield from differences(old.get(key, ABSENT), new.get(key, ABSENT), ignored, f"{path}.{key}".lstrip("."))
    elif isinstance(old, list) and isinstance(new, list):
        for i in range(max(len(old), len(new))):
            pair = [side[i] if i < len(side) else ABSENT for side in (old, new)]
            yield from differences(*pair, ignored, f"{path}[{label(pair[0], i)}]")
    # `repr` of floats is exact and distinguishes -0 from 0.
    elif type(old) is not type(new) or repr(old) != repr(new):
        yield path, old, new


def label(element, i: int):
    return element.get("name", i) if isinstance(element, dict) else i


def shown(value) -> str:
    if value is ABSENT:
        return "absent"
    return textwrap.shorten(json.dumps(value), 40, placeholder=" ...")


def by_how_much(old, new) -> str:
    number = all(isinstance(side, int | float) and not isinstance(side, bool) for side in (old, new))
    return f" ({100 * (new - old) / old:+.3g} %)" if number and old else ""


def row(kind: str, name: str, text: str) -> str:
    return textwrap.fill(text, WIDTH, initial_indent=f"{kind:<10} {name:<23} ", subsequent_indent=" " * 35,
                         break_on_hyphens=False)


def compare(sides: list[Side], chosen) -> int:
    had, has = names(sides, chosen.limit)
    plan = [entry for entry in had + [e for e in has if e not in had] if not chosen.only or entry[1] in chosen.only]
    unknown = set(chosen.only) - {name for _, name in plan}
    if unknown:
        raise Failed(f"unknown scenario or paper {', '.join(sorted(unknown))}")
    not_compared = NOT_RESULTS | set(chosen.ignore)
    differing = 0
    for i, (kind, name) in enumerate(plan, 1):
        step = f"{i} of {len(plan)}: {kind} {name}"
        cli.progress(step) if sys.stderr.isatty() else say(step)
        if (kind, name) not in has:
            found, text = True, "gone"
        elif (kind, name) not in had:
            found, text = False, "new"
        else:
            found = list(differences(*results(sides, kind, name, chosen.limit), not_compared))
            text = told(found) if found else "same"
        differing += bool(found)
        cli.progress_end()
        print(row(kind, name, text), flush=True)
    print(f"{differing} of {len(plan)} differ; not compared: {', '.join(sorted(not_compared))}")
    return 1 if differing else 0


def told(found: list) -> str:
    path, was, now = found[0]
    fields = "1 field differs" if len(found) == 1 else f"{len(found)} fields differ, first"
    return f"{fields}: {path} was {shown(was)}, is {shown(now)}{by_how_much(was, now)}"


def main() -> int:
    chosen = options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    target = chosen.target_dir.resolve()
    old = chosen.old or program_of(chosen.revision, target)
    if not chosen.new:
        say("building the working tree")
    new = chosen.new or build(ROOT, target)
    with tempfile.TemporaryDirectory() as folder:
        sides = []
        for side, program in (("old", old), ("new", new)):
            if not program.exists():
                raise Missing(f"cannot find roughlink at {program}")
            own = Path(folder) / side
            own.mkdir()
            # Use a copy, so that a concurrent build does not replace the program.
            sides.append(Side(Path(shutil.copy2(program.resolve(), own / "roughlink")), own))
        return compare(sides, chosen)


if __name__ == "__main__":
    sys.exit(cli.guarded(main))
