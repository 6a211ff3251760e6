"""Commands ``roughlink`` and ``python -m roughlink``: the program that the wheel contains.

``sweep --ray`` runs in Python instead, because Ray needs it. A package without the program, built by ``pip install .``,
has only ``sweep``.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from . import RoughlinkError, __version__, _native, load, sweep


PROGRAM = Path(__file__).with_name("_bin") / "roughlink"


def main(words: Sequence[str] | None = None) -> int:
    """Executes a command line and returns the exit code, unless the program replaces this process.

    The code is 0 for success, 2 for an error, 3 for a missing package, and 130 for Ctrl-C.
    """
    given = list(sys.argv[1:] if words is None else words)
    in_python = given[:1] == ["sweep"] and any(word.split("=")[0] == "--ray" for word in given)
    if PROGRAM.exists() and not in_python:
        os.execv(PROGRAM, ["roughlink", *given])
    if given[:1] and given[0] not in ("sweep", "-h", "--help", "--version"):
        print(
            f"this package was built without the program, so it cannot {given[0]}\n"
            "help: install a wheel, or build the program with `cargo build --release`",
            file=sys.stderr,
        )
        return 3
    return _in_python(given)


def _in_python(words: list[str]) -> int:
    """Executes ``sweep`` in this process."""
    parser = argparse.ArgumentParser(prog="roughlink", description="Simulates transport over links that lose packets.")
    parser.add_argument("--version", action="version", version=f"roughlink {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    of = commands.add_parser(
        "sweep",
        help="run a scenario over a grid of values",
        description="Runs a scenario over a grid of values. Repeat the command to continue an interrupted sweep.",
    )
    of.add_argument("scenario", help="a scenario file, or the name of a built-in scenario")
    of.add_argument("--set", action="append", default=[], metavar="KEY=A,B,...", help="a key and its values")
    of.add_argument("--rows", metavar="FILE", help="a CSV file of keys that vary together")
    of.add_argument("--replicas", type=int, default=3, metavar="N", help="runs of each cell (3)")
    of.add_argument("--metric", action="append", default=[], metavar="NAME", help="metrics to measure")
    of.add_argument("--seed", type=int, metavar="N", help="seed of all random streams, instead of the scenario's")
    of.add_argument(
        "--max-runs", type=int, default=1_000_000, metavar="N", help="refuse a grid with more runs than N (1000000)"
    )
    of.add_argument("--jobs", type=int, metavar="N", help="runs at a time; tasks at a time on Ray")
    of.add_argument("--allow-outside", action="store_true", help="let the scenario read files outside its own folder")
    of.add_argument("-o", dest="folder", metavar="DIR", help="result folder; a sweep in it is resumed")
    of.add_argument(
        "--ray", metavar="ADDRESS", help="Ray cluster: an address, `auto` for a running one, or `local` for a new one"
    )
    given = parser.parse_args(words)
    try:
        vary: dict[str, list[str]] = dict([_native.rows(given.rows)] if given.rows else [])
        for text in given.set:
            key, values = _native.choices(text)
            if key in vary:
                raise RoughlinkError(f"`{key}` is set twice: put all values into one --set")
            vary[key] = values
        found = sweep(
            load(given.scenario, allow_outside=given.allow_outside),
            vary,
            replicas=given.replicas,
            metrics=[name for names in given.metric for name in names.split(",")],
            seed=given.seed,
            folder=given.folder,
            jobs=given.jobs,
            max_runs=given.max_runs,
            engine="local" if given.ray is None else "ray",
            ray_address=given.ray,
        )
    except (RoughlinkError, ValueError) as e:
        print(_with_options(str(e)), file=sys.stderr)
        return 2
    except ImportError as e:
        print(e, file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        print("stopped; repeat the command to continue", file=sys.stderr)
        return 130
    for metric in found.metrics:
        print(metric)
        for row in found.summary(metric).rows():
            mean, low, high, runs = (row[key] for key in ("mean", "low", "high", "runs"))
            at = ", ".join(f"{axis['name']}={row[axis['name']]}" for axis in found.result["axes"])
            shown = "-" if mean is None else f"{mean:.4g}" + ("" if low is None else f" ({low:.4g} to {high:.4g})")
            print(f"  {at + ': ' if at else ''}{shown}, {runs} runs")
    print(f"results: {found.folder}", file=sys.stderr)
    return 0


def _with_options(text: str) -> str:
    """Replaces Python arguments in a message with command-line options."""
    for argument, option in _OPTIONS.items():
        text = text.replace(argument, option)
    return text


_OPTIONS = {
    "allow_outside=True": "--allow-outside",
    "max_runs=": "--max-runs ",
    "replicas=": "--replicas ",
    "folder=...": "-o",
}


if __name__ == "__main__":
    sys.exit(main())
