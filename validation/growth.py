#!/usr/bin/env python3
"""Growth of costs, decade by decade: of a packet with chain length, number of flows, queue, window and loss, and of a
finished sweep with its cells and runs.

valgrind's callgrind counts the instructions of two runs: one of each size, and one in which no packet arrives. If files
grow with the size, the second run uses the same file, else any file with one flow. The difference is divided by the
delivered packets. The cost of set-up (reading, building and results) is that of the second run, per element of the
file. Figures are independent of the machine's load and contain no cache misses; docs/validation/speed.md has times.

With --strict the exit code is 5 if a size costs more than a stated factor of the size before it. If the cost of a
packet is proportional to the size, the script fails. --long adds sizes that take too long for CI. --page writes the
table into docs/validation/speed.md. The exit code is 3 if valgrind is missing.

--profile NAME SIZE FILE writes the profile of one run, for callgrind_annotate. The scenario is then in FILE with the
suffix .toml.
"""

import itertools
import sys
from dataclasses import dataclass, field
from pathlib import Path

from roughlink_validation import cli, counting, page
from roughlink_validation.axes import AXES, FOREVER_S, NOTHING_S, SEGMENT, Axis
from roughlink_validation.folders import FOLDERS, costs
from roughlink_validation.simulators import Failed

PAGE = Path(__file__).resolve().parent.parent / "docs" / "validation" / "speed.md"
NAMES = [*AXES, *FOLDERS]


def options():
    parser = cli.parser(__doc__)
    parser.add_argument("--axis", nargs="+", choices=NAMES, default=NAMES, metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--long", action="store_true", help="add the sizes that take too long for CI")
    parser.add_argument("--strict", action="store_true", help="exit code 5 if a size costs too much more")
    parser.add_argument("--profile", nargs=3, metavar=("NAME", "SIZE", "FILE"), help="write a profile and its scenario")
    parser.add_argument("--page", action="store_true", help="write the tables into docs/validation/speed.md")
    return parser.parse_args()


@dataclass
class Row:
    """Costs of an axis by size, in instructions per packet (or per packet and link, or per element)."""

    name: str
    per: str
    factor: float
    costs: dict[int, float] = field(default_factory=dict)

    def growth(self) -> list[tuple[int, int, float]]:
        """Returns neighboring sizes and how many times as much the second costs."""
        sizes = list(self.costs)
        return [(a, b, self.costs[b] / self.costs[a]) for a, b in zip(sizes, sizes[1:])]

    def worst(self) -> float:
        return max((times for _, _, times in self.growth()), default=1.0)


def packets(result: dict) -> int:
    return sum(-(-flow["delivered_bytes"] // SEGMENT) for flow in result["flows"])


def files_of(axis: Axis, sizes: tuple[int, ...]) -> list[str]:
    """Returns the files to run: one for each size, then the same without packets if files grow."""
    ends = (FOREVER_S, NOTHING_S) if axis.elements else (FOREVER_S,)
    return [axis.text(size, end) for end in ends for size in sizes]


def rows(name: str, axis: Axis, sizes: tuple[int, ...], counts: list[tuple[int, dict]], start: int) -> list[Row]:
    """Returns the costs of an axis; `start` is the cost of a file with one flow and no packets."""
    run, setup = Row(name, axis.per, axis.factor), Row(f"{name}: set-up", axis.elements, axis.setup or 0)
    idle = [before for before, _ in counts[len(sizes):]] or [start] * len(sizes)
    for size, (instructions, result), before in zip(sizes, counts, idle):
        delivered = packets(result)
        if delivered == 0:
            raise Failed(f"{name}, {size}: nothing was delivered")
        run.costs[size] = (instructions - before) / axis.units(size, delivered)
        setup.costs[size] = (before - start) / size
    return [run, setup] if axis.setup else [run]


def measure_folders(binary: Path, names: list[str], long: bool) -> list[Row]:
    """Returns two rows for each axis of folders: the repeated sweep, and its report."""
    found = []
    for name in names:
        axis = FOLDERS[name]
        pair = [Row(f"{name}: {command}", axis.element, axis.factor) for command in ("repeated", "reported")]
        start = costs(binary, 1, 1)
        for size in axis.sizes + (axis.longer if long else ()):
            for row, count, before in zip(pair, costs(binary, *axis.shape(size)), start):
                row.costs[size] = (count - before) / size
        found += pair
    return found


def measure(binary: Path, names: list[str], long: bool) -> list[Row]:
    sizes = {name: AXES[name].sizes + (AXES[name].longer if long else ()) for name in names}
    files = {name: files_of(AXES[name], sizes[name]) for name in names if sizes[name]}
    one_flow = AXES["links in a chain"].text(1, NOTHING_S)
    counts = iter(counting.instructions(binary, [one_flow, *itertools.chain(*files.values())]))
    start = next(counts)[0]
    found = (rows(name, AXES[name], sizes[name], [next(counts) for _ in files[name]], start) for name in files)
    return list(itertools.chain(*found))


def table(found: list[Row]) -> str:
    sizes = sorted({size for row in found for size in row.costs})
    lines = ["| axis | instructions per | " + " | ".join(f"{size:,}" for size in sizes) + " | largest step | allowed |",
             "|---" * (len(sizes) + 4) + "|"]
    for row in found:
        cells = (f"{row.costs[size]:,.0f}" if size in row.costs else "" for size in sizes)
        lines.append(f"| {row.name} | {row.per} | " + " | ".join(cells) + f" | {row.worst():.2f} | {row.factor:g} |")
    return "\n".join(lines)


def main() -> int:
    o = options()
    binary = counting.program(o.roughlink)
    if o.profile:
        name, size, profile = o.profile
        if name in FOLDERS:
            print(f"{costs(binary, *FOLDERS[name].shape(int(size)), profile)[0]:,} instructions")
            return 0
        text = AXES[name].text(int(size), FOREVER_S)
        Path(profile).with_suffix(".toml").write_text(text)
        print(f"{counting.counted(binary, text, profile)[0]:,} instructions")
        return 0
    found = measure(binary, [name for name in o.axis if name in AXES], o.long)
    found += measure_folders(binary, [name for name in o.axis if name in FOLDERS], o.long)
    print(table(found))
    if o.page:
        page.renew(PAGE, "growth.py", table(found))
    grown = [(row, a, b, times) for row in found for a, b, times in row.growth() if times > row.factor]
    for row, a, b, times in grown:
        print(f"error: {row.name}: {b:,} costs {times:.2f} times as much per {row.per} as {a:,}; allowed are "
              f"{row.factor:g}", file=sys.stderr)
    if o.strict and grown:
        name = grown[0][0].name.partition(": ")[0]
        print(f"help: see where with validation/growth.py --profile '{name}' {grown[0][2]} FILE, then "
              "callgrind_annotate FILE", file=sys.stderr)
        return cli.EXPECTATION
    return 0


if __name__ == "__main__":
    sys.exit(cli.guarded(main))
