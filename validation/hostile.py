#!/usr/bin/env python3
"""Test with hostile files: each must be read, or be refused with position, reason and fix.

A seed and a number determine each case, so a finding can be repeated:

    hostile.py --seed 1 --only 4711

The kinds are:
- scenarios: scenario files for `run`. The shipped ones are cut, and bytes are flipped. Keys are changed, added and
  removed, within the program's schema or just beyond it. There are large networks and timelines, names with terminal
  control characters, referenced files of the wrong type, and overrides.
- folders: result folders for `report`, `merge` and `roughlink.read` of the Python package. Values, lines and bytes of
  valid folders are changed; FIFOs, links, sparse files and others replace files.
- chains: paths over up to 20,000 links, for `run`, `scenario check`, `sweep` and `compare` with call stacks down to
  512 KiB
- products: two parts of a scenario or a grid that are small but multiply, such as flows and the links of their paths
- interfaces: `interface`, `kernel` and `--netns` with names of files, devices and namespaces. Nothing needs root or
  changes the machine.

A finding is
- an exit code other than 0 and 2; 3 is good where the machine may lack something (unwritable folders, emulation),
- more than 2 s of CPU (4 s for folders, sweeps and comparisons) or 500 MB of memory, with higher bounds for some
  products; a limit of events ends long runs,
- a refusal that names neither a position in the file, nor a key, nor an element, nor a file,
- a control character on the terminal,
- a long message, or far more results than there are flows,
- a file outside of a result folder that is shown or changed, or a report that executes a name.

The files of findings are kept, with the command that repeats each. The exit code is 5 if there are findings. Linux
only. Without the compiled module of the Python package (`.ci/python build`), only the program reads folders.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from roughlink_validation.hostile import chains, interfaces
from roughlink_validation.hostile.cases import Case
from roughlink_validation.hostile.folders import FolderMaker, templates
from roughlink_validation.hostile.products import ProductMaker
from roughlink_validation.hostile.running import Programs, faults, run, write
from roughlink_validation.hostile.scenarios import EVENTS, ScenarioMaker

ROOT = Path(__file__).resolve().parent.parent
# Share of each kind, in percent. Chains and products take about as long as all others together.
KINDS = {"scenarios": 61, "folders": 30, "chains": 2, "products": 3, "interfaces": 4}


class Maker:
    """Cases by number."""

    def __init__(self, programs: Programs, seed: int):
        self.seed, self.reads = seed, programs.python is not None
        schema = subprocess.run([programs.roughlink, "schema"], check=True, capture_output=True).stdout
        self.schema = json.loads(schema)
        files = sorted([*(ROOT / "scenarios").rglob("*.toml"), *(ROOT / "experiments").rglob("*.toml")])
        self.shipped = {str(path.relative_to(ROOT)): path.read_text() for path in files}
        with tempfile.TemporaryDirectory() as folder:
            self.templates = templates(programs.roughlink, Path(folder))

    def kind(self, number: int) -> str:
        return self.random(number, "kind").choices([*KINDS], [*KINDS.values()])[0]

    def random(self, number: int, what: str = "case") -> random.Random:
        return random.Random(f"{self.seed}:{number}:{what}")

    def case(self, number: int) -> Case:
        r, kind = self.random(number), self.kind(number)
        match kind:
            case "scenarios":
                made = ScenarioMaker(r, self.schema, self.shipped).case()
            case "folders":
                made = FolderMaker(r, self.templates, self.reads).case()
            case "chains":
                made = chains.case(r)
            case "products":
                made = ProductMaker(r).case()
            case _:
                made = interfaces.case(r)
        made.kind = f"{kind}/{made.kind}"
        return made

    def numbers(self, kinds: list[str], count: int) -> Iterator[int]:
        """Yields the numbers of the first cases of some kinds."""
        number = 0
        while count:
            if self.kind(number) in kinds:
                yield number
                count -= 1
            number += 1


def python_of(path: Path, package: Path) -> tuple[Path | None, str]:
    """Returns the absolute path of a Python that can import the package, or the error message."""
    environment = {**os.environ, "PYTHONPATH": str(package)}
    try:
        tried = subprocess.run([path, "-c", "import roughlink"], env=environment, capture_output=True, text=True)
    except OSError as e:
        return None, str(e)
    if tried.returncode:
        return None, (tried.stderr.strip().splitlines() or ["it failed"])[-1]
    return path.absolute(), ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--roughlink", type=Path, default=ROOT / "target/release/roughlink", help="the program")
    parser.add_argument("--python", type=Path, default=Path(sys.executable),
                        help="Python that reads folders with the package of this repository (default: this Python)")
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"kinds of cases, by default {','.join(KINDS)}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--files", type=int, default=20_000, help="number of cases")
    parser.add_argument("--only", type=int, help="number of one case to try and explain")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--keep", type=Path, default=ROOT / "target/hostile", help="folder for the files of findings")
    args = parser.parse_args()
    kinds = args.kinds.split(",")
    if unknown := set(kinds) - set(KINDS):
        parser.error(f"unknown kind {min(unknown)}; expected {', '.join(KINDS)}")
    package = ROOT / "python"
    python, why = python_of(args.python, package)
    if python is None and "folders" in kinds:
        print(f"skipped: reading folders with Python: {why}", file=sys.stderr)
    programs = Programs(args.roughlink.resolve(), python, package)
    maker = Maker(programs, args.seed)

    def attempt(number: int):
        case = maker.case(number)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write(case, folder)
            outcome = run(programs, case, folder)
            found = faults(case, outcome, folder)
            if found or args.only is not None:
                kept = args.keep / f"{args.seed}-{number}"
                shutil.rmtree(kept, ignore_errors=True)
                # Special files are written again: they cannot be copied.
                kept.mkdir(parents=True)
                write(case, kept)
                shutil.copy(folder / ".err", kept / ".err")
        case.files.clear()
        return number, case, outcome, found

    if args.only is not None:
        _, case, outcome, found = attempt(args.only)
        print(outcome.err[:10_000], end="")
        words = " ".join(word if len(word) < 200 else word[:200] + "..." for word in case.arguments[:40])
        print(f"kind {case.kind}; {'roughlink.read' if case.python else 'roughlink'} {words!r}")
        print(f"kept in {args.keep / f'{args.seed}-{args.only}'}")
        print(f"exit code {outcome.code}, {outcome.cpu:.2f} s, {outcome.memory:.0f} MB; findings: {found or 'none'}")
        return 5 if found else 0

    codes, outcomes, findings, cut = Counter(), Counter(), 0, 0
    times, slowest, largest = Counter(), {}, 0.0
    with ThreadPoolExecutor(args.jobs) as pool:
        for number, case, outcome, found in pool.map(attempt, maker.numbers(kinds, args.files)):
            codes[outcome.code] += 1
            outcomes[case.kind, outcome.code == 0] += 1
            times[case.kind] += outcome.cpu
            cut += "allow more events with --max-events" in outcome.err
            slowest[case.kind] = max(slowest.get(case.kind, 0.0), outcome.cpu)
            largest = max(largest, outcome.memory)
            if found:
                findings += 1
                print(f"{number} ({case.kind}): {'; '.join(found)}", flush=True)
                print(f"    validation/hostile.py --seed {args.seed} --only {number} --roughlink {args.roughlink}",
                      flush=True)
    for kind in sorted(slowest):
        print(f"{kind:22} {outcomes[kind, True]:6} ran {outcomes[kind, False]:6} refused or cut off"
              f" {times[kind]:7.0f} s of CPU, at most {slowest[kind]:.2f} s")  # fmt: skip
    codes = ", ".join(f"{n} with code {code}" for code, n in sorted(codes.items()))
    print(f"{args.files} cases with seed {args.seed}: {codes}; {cut} of them valid and cut off after {EVENTS} events")
    print(f"at most {max(slowest.values(), default=0):.2f} s of CPU and {largest:.0f} MB; {findings} findings")
    return 5 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
