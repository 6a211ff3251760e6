#!/usr/bin/env python3
"""Count of instructions per delivered packet, including its acknowledgment: a cost independent of the machine's load.

valgrind's callgrind counts the instructions of two runs of a scenario, one longer than the other. The difference,
divided by the difference in delivered packets, is the cost of a packet without start-up. The count is the same in every
run, so a change of 1 % is visible. `instructions.toml` keeps the figures of a binary with the tests' profile, built
as CI builds it: CARGO_INCREMENTAL=0 .ci/with-kernel cargo build --workspace --profile test. An incremental build
divides the code differently and costs 2 % more.

With --strict the exit code is 5 if a case differs from the file by more than 2 %: costs have risen, or the file is out
of date. The same holds if docs/validation/speed.md has other figures than the file. Use --against PATH to compare with
another binary instead of the file, and --update to write the file and the page. The exit code is 3 if valgrind is
missing. ns-3 is not needed.
"""

import re
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

from roughlink_validation import cli, counting, page
from roughlink_validation.scenario import Scenario
from roughlink_validation.simulators import Failed, delivered_packets

FIGURES = Path(__file__).resolve().parent / "instructions.toml"
PAGE = FIGURES.parent.parent / "docs" / "validation" / "speed.md"
TOLERANCE = 0.02

ONE = Scenario(bytes=0, segment=1448, send_size=1448, delay1_ms=10.0, delay2_ms=0.9)
MANY = ONE.with_(groups=7, flows_per_group=3)
# The stack determines all other settings.
LINUX = ('stack = "ns3"', 'stack = "linux"')
CABLE = re.compile(r'name = "plc"\n(between = .*)\n(?:.*\n)*?mtu = .*\n')


@dataclass(frozen=True)
class Case:
    """A scenario and the end times of its two runs in s. `changes` edit its file: patterns and their replacements."""

    scenario: Scenario
    seconds: tuple[float, float]
    changes: tuple[tuple[str | re.Pattern, str], ...] = ()

    def toml(self, seconds: float) -> str:
        text = self.scenario.with_(duration_s=seconds).toml()
        for pattern, replacement in self.changes:
            text, times = re.subn(pattern, replacement, text)
            assert times, f"nothing matches {pattern}"
        return text


CASES = {
    "newreno, 1 flow": Case(ONE, (10, 60)),
    "newreno, 21 flows": Case(MANY, (5, 12)),
    "newreno, 21 flows, 2 % bursts": Case(MANY.with_(burst_start=0.02), (5, 25)),
    "cubic on linux, 1 flow": Case(ONE.with_(cc="cubic"), (10, 60), (LINUX,)),
    "bbr on linux, 21 flows, 2 % bursts": Case(MANY.with_(cc="bbr", burst_start=0.02), (5, 12), (LINUX,)),
    "Green PHY, 1 flow": Case(ONE, (10, 60), ((CABLE, r'name = "plc"\nkind = "greenphy"\n\1\n'),)),
    "HD-PLC, 1 flow": Case(
        ONE,
        (10, 40),
        ((CABLE, r'name = "plc"\nkind = "hdplc"\n\1\nrate = "18.62 Mbit/s"\nnoise = { kind = "inverter45" }\n'),),
    ),
}


def options():
    parser = cli.parser(__doc__)
    parser.add_argument("--case", nargs="+", choices=CASES, default=list(CASES), metavar="NAME",
                        help=", ".join(CASES).replace("%", "%%"))
    parser.add_argument("--against", type=Path, metavar="PATH", help="compare with this roughlink program")
    parser.add_argument("--strict", action="store_true",
                        help="exit code 5 unless every case is within 2 %% of the file")
    parser.add_argument("--update", action="store_true", help="write the figures to instructions.toml and the page")
    return parser.parse_args()


def per_packet(binary: Path, names: list[str]) -> dict[str, float]:
    """Returns the cost of each case."""
    runs = [(CASES[name], seconds) for name in names for seconds in CASES[name].seconds]
    counts = counting.instructions(binary, [case.toml(seconds) for case, seconds in runs])
    costs = {}
    for name, (short, before), (long, after) in zip(names, counts[::2], counts[1::2]):
        packets = delivered_packets(after, CASES[name].scenario) - delivered_packets(before, CASES[name].scenario)
        if packets <= 0:
            raise Failed(f"{name}: the longer run delivered nothing more")
        costs[name] = (long - short) / packets
    return costs


def figures() -> dict[str, float]:
    return tomllib.loads(FIGURES.read_text())["per_packet"] if FIGURES.exists() else {}


def write(costs: dict[str, float]) -> None:
    lines = [
        "# Written by instructions.py --update: instructions per delivered packet, profile of the tests.",
        "[per_packet]",
    ]
    lines += [f'"{name}" = {costs[name]:.0f}' for name in CASES if name in costs]
    FIGURES.write_text("\n".join(lines) + "\n")
    page.renew(PAGE, "instructions.py", table())


def table() -> str:
    rows = [f"| {name} | {cost:,.0f} |" for name, cost in figures().items()]
    return "\n".join(["| workload | instructions per packet |", "|---|---|", *rows])


def main() -> int:
    o = options()
    costs = per_packet(counting.program(o.roughlink), o.case)
    before = per_packet(counting.program(o.against), o.case) if o.against else figures()
    other = "other program" if o.against else "file"
    print(f"{'instructions per delivered packet':<36}{'now':>10}{other:>14}{'change':>12}")
    wrong = []
    for name, cost in costs.items():
        old = before.get(name)
        if old is None:
            print(f"{name:<36}{cost:>10.0f}{'-':>14}")
            wrong.append(f"{name}: no figure to compare with")
            continue
        change = cost / old - 1
        print(f"{name:<36}{cost:>10.0f}{old:>14.0f}{change:>+11.1%}")
        if abs(change) > TOLERANCE:
            wrong.append(f"{name}: {change:+.1%}, {'more' if change > 0 else 'less'} than the {other}")
    if page.current(PAGE, "instructions.py") != table():
        wrong.append("docs/validation/speed.md has other figures than the file")
    if o.update:
        write({**figures(), **costs})
    elif o.strict and wrong:
        for line in wrong:
            print(f"error: {line}", file=sys.stderr)
        print(
            f"help: if this is intended, run python3 validation/instructions.py --roughlink {o.roughlink} --update",
            file=sys.stderr,
        )
        return cli.EXPECTATION
    return 0


if __name__ == "__main__":
    sys.exit(cli.guarded(main))
