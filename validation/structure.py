#!/usr/bin/env python3
"""Figures of the structure of the sources, at a past revision and today, with their bounds and goals.

    files in circles      files of a crate that depend on one another in a circle; a file and its submodules do not
                          count. Counted by the test no_files_depend_on_one_another_in_a_circle
    pairs                 functions `x` that have a twin `x_observed`
    files for ...         source files to change for a noise, a key of [tcp], an algorithm and an application, without
                          tests and generated files. `dummies/` has a patch for each. All are applied to a copy of the
                          tree, which is built, and a scenario for each shows its effect
    lines of example ...  lines of a program that uses the crates
    parses per frame ...  how often the IP header of one frame is parsed, from a test that counts it

The program exits with 1 if a patch fails. With --strict, it also exits with 1 if a figure is above its bound, or if
docs/architecture.md has other numbers of files than the patches. Use --skip-build to count the files of the patches
without building them.
"""

import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from roughlink_validation import cli, dummies
from roughlink_validation.building import ROOT
from roughlink_validation.simulators import Failed

# The revision to compare with. Figures that cannot be counted there are from a review of it.
BEFORE = "e76a0a9"
REVIEWED = {
    "files for a noise": "5",
    "files for a key": "2",
    "files for an algorithm": "3",
    "files for an application": "14",
    "parses per frame, TAP": "6 to 8",
    "parses per frame, TUN": "4",
}
# Bounds and goals of all figures except circles, whose bound is 0. Lower a bound when its figure falls.
BOUNDS = {
    "pairs": (0, 0),
    "files for a noise": (4, 4),
    "files for a key": (1, 1),
    "files for an algorithm": (2, 2),
    "files for an application": (7, 7),
    "lines of example bridge": (33, 119),
    "lines of example echo_server": (119, 119),
    "parses per frame, TAP": (1, 1),
    "parses per frame, TUN": (1, 1),
}
CIRCLES = ["cargo", "test", "--workspace", "--test", "modules", "--locked", "in_a_circle", "--", "--nocapture"]
# A test that counts the parses of a frame asserts these constants.
PARSES = re.compile(r"^\s*const PARSES_PER_(TAP|TUN)_FRAME: \w+ = (\d+);", re.MULTILINE)
# Row of "How to extend it" in docs/architecture.md, by its start, for each patch.
ROWS = {"noise": "a noise", "key": "a key of `[tcp]`", "algorithm": "an algorithm", "application": "an application"}


@dataclass
class Figure:
    name: str
    before: str
    today: int | None
    bound: int
    goal: int

    def is_worse(self) -> bool:
        return self.today is not None and self.today > self.bound


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strict", action="store_true", help="exit code 1 if a figure is above its bound")
    parser.add_argument("--skip-build", action="store_true", help="do not build the patches in dummies/")
    return parser.parse_args()


# ---- The counts ------------------------------------------------------------------------------------------------------


def sources(tree: Path) -> list[str]:
    return [path.read_text() for path in sorted(tree.glob("crates/*/src/**/*.rs"))]


def circles(tree: Path) -> dict[str, int]:
    """Returns the number of files in circles of each crate."""
    done = subprocess.run(CIRCLES, cwd=ROOT, env=os.environ | {"TREE": str(tree)}, capture_output=True, text=True)
    found = re.findall(r"^circles in roughlink-(\w+): (\d+)$", done.stdout, re.MULTILINE)
    if not found:
        raise Failed(f"{' '.join(CIRCLES)} printed no figures:\n{done.stderr[-4000:]}")
    return {crate: int(number) for crate, number in found}


def pairs(tree: Path) -> int:
    count = 0
    for text in sources(tree):
        functions = set(re.findall(r"\bfn (\w+)", text))
        count += sum(name.removesuffix("_observed") in functions - {name} for name in functions)
    return count


def example(tree: Path, name: str) -> int | None:
    path = tree / "crates" / "roughlink-host" / "examples" / f"{name}.rs"
    return len(path.read_text().splitlines()) if path.exists() else None


def parses(tree: Path) -> dict[str, int]:
    texts = [path.read_text() for path in sorted(tree.glob("crates/*/tests/*.rs"))] + sources(tree)
    return {device: int(number) for text in texts for device, number in PARSES.findall(text)}


def counts(tree: Path) -> dict[str, int | None]:
    """Returns the figures that need no build."""
    devices = parses(tree)
    return {
        "pairs": pairs(tree),
        "lines of example bridge": example(tree, "bridge"),
        "lines of example echo_server": example(tree, "echo_server"),
        "parses per frame, TAP": devices.get("TAP"),
        "parses per frame, TUN": devices.get("TUN"),
    }


def unpacked(revision: str, at: Path) -> bool:
    """Unpacks the sources of a revision; returns false if this clone does not have it."""
    archive = subprocess.run(["git", "-C", ROOT, "archive", revision, "crates"], capture_output=True)
    if archive.returncode != 0:
        return False
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
        files.extractall(at, filter="data")
    return True


# ---- The table -------------------------------------------------------------------------------------------------------


def figures(files: dict[str, dummies.Touched]) -> list[Figure]:
    circle, count = circles(ROOT), counts(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        there = unpacked(BEFORE, Path(folder))
        old_circle, old_count = (circles(Path(folder)), counts(Path(folder))) if there else ({}, {})
    made = [Figure(f"files in circles, {crate}", shown(old_circle.get(crate)), number, 0, 0)
            for crate, number in circle.items()]
    count |= {f"files for {article(name)} {name}": len(found.files) for name, found in files.items()}
    for name, (bound, goal) in BOUNDS.items():
        made.append(Figure(name, REVIEWED.get(name) or shown(old_count.get(name)), count[name], bound, goal))
    return made


def article(name: str) -> str:
    return "an" if name[0] in "aeiou" else "a"


def shown(number: int | None) -> str:
    return "none" if number is None else str(number)


def documented(name: str) -> int | None:
    """Returns the number of files in docs/architecture.md."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    row = re.search(rf"^\| {re.escape(ROWS[name])}[^|]*\|[^|]*\| (\d+)", page, re.MULTILINE)
    return int(row[1]) if row else None


def main() -> int:
    chosen = options()
    files = {name: dummies.touched(name) for name in dummies.NAMES} if chosen.skip_build else dummies.files_to_add()
    table = figures(files)
    print(f"{'':<30}{BEFORE:>10}{'today':>8}{'bound':>8}{'goal':>8}")
    for figure in table:
        print(f"{figure.name:<30}{figure.before:>10}{shown(figure.today):>8}{figure.bound:>8}{figure.goal:>8}")
    wrong = [f"{figure.name}: {figure.today} is above {figure.bound}" for figure in table if figure.is_worse()]
    for name, found in files.items():
        tests = f"; tests, which do not count: {', '.join(found.tests)}" if found.tests else ""
        print(f"{name}: {', '.join(found.files)}{tests}")
        if documented(name) != len(found.files):
            wrong.append(f"docs/architecture.md: {documented(name)} files for {article(name)} {name}, "
                         f"but validation/dummies/{name}.patch changes {len(found.files)}")
    print(f"generated, and not counted: {dummies.FORM}")
    for line in wrong:
        print(f"error: {line}", file=sys.stderr)
    return 1 if chosen.strict and wrong else 0


if __name__ == "__main__":
    sys.exit(cli.guarded(main))
