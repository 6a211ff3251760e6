"""Runs of a scenario, simulated or emulated, with the same measurements; claims and their verdicts."""

import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from roughlink_validation import captures
from roughlink_validation.simulators import Failed, Missing, parse

# Columns of the table: location of a run's endpoints.
PAPER, MODEL, KERNEL = "paper", "model", "kernel"
COLUMNS = {PAPER: "simulated, as published", MODEL: "simulated, Linux's rules", KERNEL: "emulated, Linux kernel"}
ENDS = Path(__file__).resolve().parent / "ends.py"
# Captures are large, and the loop that writes them must not wait for a disk.
MEMORY = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None
# A run with a larger 99th percentile of lateness is repeated, up to TRIES runs in total. The run with the smallest
# percentile counts.
LATE_US, TRIES = 2000, 2
VERSION = 1  # version of the definitions below; stored runs of other versions are ignored


@dataclass
class Observed:
    """Output of a run."""

    transfers: dict[str, captures.Transfer]  # by sending node
    result: dict
    traces: dict[str, dict]  # by node, of the programs of ends.py


@dataclass(frozen=True)
class Run:
    """One run of a case."""

    case: str
    column: str
    seed: int
    toml: str
    nodes: tuple[str, ...]
    duration_s: float
    clients: tuple[str, ...]  # nodes that send
    measure: Callable[[Observed], dict] = field(compare=False)
    programs: tuple[tuple[str, tuple[str, ...]], ...] = ()  # node, arguments of ends.py
    captured: tuple[str, ...] = ()  # nodes, in simulations

    @property
    def name(self) -> str:
        return f"{self.case}, seed {self.seed}, {COLUMNS[self.column]}"

    def key(self, program: str) -> str:
        said = json.dumps([VERSION, program, self.column, self.seed, self.toml, self.programs, self.duration_s])
        return hashlib.sha256(said.encode()).hexdigest()[:20]

    def perform(self, roughlink: Path) -> dict:
        if self.column != KERNEL:
            return self.once(roughlink)
        kept = None
        for _ in range(TRIES):
            try:
                seen = self.once(roughlink)
            except Unfinished:
                continue
            if kept is None or seen["late_us"] < kept["late_us"]:
                kept = seen
            if kept["late_us"] <= LATE_US:
                break
        if kept is None:
            raise Failed(f"{self.name}: programs wrote no results in {TRIES} attempts")
        return kept

    def once(self, roughlink: Path) -> dict:
        with tempfile.TemporaryDirectory(dir=MEMORY) as made:
            folder = Path(made)
            folder.chmod(0o777)  # without root the programs run as another user
            scenario = folder / "scenario.toml"
            scenario.write_text(self.toml)
            if self.column == KERNEL:
                result, traces, capture = self.emulate(roughlink, folder, scenario)
            else:
                out = folder / "out"
                words = [roughlink, "run", scenario, "--seed", self.seed, "--json", "-q", "-o", out, "--one-capture",
                         "--snaplen", 128]
                words += ["--sample", "10 s", "--capture-at", ",".join(self.captured)]
                done = self.call(words)
                result, traces, capture = parse("roughlink", done.stdout), {}, out / "capture.pcapng"
            transfers = captures.read(capture, list(self.nodes), list(self.clients))
            late = (result.get("lateness_us") or {}).get("p99", 0.0)
            return {"case": self.case, "column": self.column, "seed": self.seed, "late_us": late,
                    **self.measure(Observed(transfers, result, traces))}

    def emulate(self, roughlink: Path, folder: Path, scenario: Path) -> tuple[dict, dict, Path]:
        capture = folder / "capture.pcapng"
        words = [roughlink, "emulate", scenario, "--seed", self.seed, "--json", "-q", "--max-lateness", "1000 s",
                 "--capture", capture]
        for number, (node, arguments) in enumerate(self.programs):
            words += ["--exec", node, "--", sys.executable, ENDS, *arguments, "--trace", folder / f"{number}.json"]
        done = self.call(words)
        files = {node: folder / f"{number}.json" for number, (node, _) in enumerate(self.programs)}
        if not all(file.exists() for file in files.values()):
            raise Unfinished
        traces = {node: json.loads(file.read_text()) for node, file in files.items()}
        return parse("roughlink", done.stdout), traces, capture

    def call(self, words: list) -> subprocess.CompletedProcess:
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
        if done.returncode == 3:
            raise Missing(done.stderr.strip())
        if done.returncode != 0:
            raise Failed(f"{self.name}: code {done.returncode}: {done.stderr.strip()[-2000:]}")
        return done


class Unfinished(Exception):
    """A program ended before it had written its results."""


class AtLeast(float):
    """Lower bound of a time that extends beyond the end of the run."""


class AtMost(float):
    """Upper bound of a ratio whose divisor is such a lower bound."""


def ratio(a: float | None, b: float | None) -> float | None:
    """Returns a / b, or None if the bounds of one of them do not allow a ratio."""
    if a is None or b is None or not b or (isinstance(a, AtLeast) and isinstance(b, AtLeast)):
        return None
    return AtLeast(a / b) if isinstance(a, AtLeast) else AtMost(a / b) if isinstance(b, AtLeast) else a / b


@dataclass(frozen=True)
class Claim:
    """A statement to judge in each column."""

    name: str
    text: str
    place: str
    value: Callable[[Callable[[str, str], float | None]], float | None]  # reads one run of each case
    least: float | None = None
    most: float | None = None
    origin: str = "paper"
    published: float | None = None
    unit: str = ""

    def met(self, value: float) -> bool | None:
        """Returns true if a value meets the claim, None if the value is a bound that decides nothing."""
        if isinstance(value, AtLeast):
            if self.most is not None:
                return False if value > self.most else None
            return True if value >= self.least else None
        if isinstance(value, AtMost):
            if self.least is not None:
                return False if value < self.least else None
            return True if value <= self.most else None
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)

    def judge(self, values: list[float]) -> str:
        """Returns the verdict: confirmed if every run meets the claim, refuted if none does."""
        verdicts = [self.met(value) for value in values]
        if not verdicts:
            return "-"
        return "confirmed" if all(verdicts) else "refuted" if all(v is False for v in verdicts) else "undecided"


def summary(values: list[float]) -> str:
    """Formats the median and the range of the runs."""
    if not values:
        return "-"
    ordered = sorted(values)
    middle = (
        statistics.median_low(ordered)
        if any(isinstance(v, AtLeast | AtMost) for v in ordered)
        else statistics.median(ordered)
    )
    if len(ordered) == 1 or shown(ordered[0]) == shown(ordered[-1]):
        return shown(middle)
    return f"{shown(middle)} [{shown(ordered[0])}, {shown(ordered[-1])}]"


def shown(value: float) -> str:
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 0.1 or value == 0 else 4
    text = f"{value:.{digits}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return ("> " if isinstance(value, AtLeast) else "< " if isinstance(value, AtMost) else "") + text


class Store:
    """Store of results of runs, each written at once to a separate file."""

    def __init__(self, folder: Path, roughlink: Path) -> None:
        self.folder = folder
        self.program = hashlib.sha256(roughlink.read_bytes()).hexdigest()
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, run: Run) -> Path:
        return self.folder / f"{run.key(self.program)}.json"

    def get(self, run: Run) -> dict | None:
        path = self.path(run)
        return json.loads(path.read_text()) if path.exists() else None

    def put(self, run: Run, seen: dict) -> None:
        path = self.path(run)
        unfinished = path.with_suffix(".part")
        unfinished.write_text(json.dumps(seen))
        unfinished.replace(path)

    def clear(self) -> None:
        shutil.rmtree(self.folder)
