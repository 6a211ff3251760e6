"""Runs of either simulator with its JSON result, and a cache of ns-3's results, which take minutes."""

import csv
import gzip
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

from roughlink_validation.matrix import Cell, Outcome
from roughlink_validation.scenario import Scenario

HERE = Path(__file__).resolve().parent.parent
CACHE = HERE / ".cache"
DEFAULT_BINARY = HERE.parent / "target" / "release" / "roughlink"

sys.path.insert(0, str(HERE / "ns3"))
import build as ns3_build  # noqa: E402  (the compile step is next to the C++ source)
sys.path.insert(0, str(HERE / "htsim"))
import build_htsim  # noqa: E402

Missing = ns3_build.Missing


class Failed(Exception):
    """A simulator ended with an error; the message contains its output."""


@dataclass(frozen=True)
class Segment:
    """A data segment as the sender passes it to IP. `seq` counts from the first byte of the stream."""

    time_ns: int
    seq: int
    length: int
    retransmission: bool


class Ns3:
    name = "ns-3"

    def __init__(self, program: Path | None = None) -> None:
        self.program = program.resolve() if program else ns3_build.build(quiet=False)

    def run(self, scenario: Scenario, cached: bool = True) -> dict:
        flags = scenario.ns3_flags()
        key = hashlib.sha256("\n".join([self.program.name, *flags]).encode()).hexdigest()[:24]
        kept = CACHE / f"{key}.json"
        if cached and kept.exists():
            return json.loads(kept.read_text())
        result = parse(self.name, call([str(self.program), *flags]).stdout)
        if cached:
            CACHE.mkdir(exist_ok=True)
            unfinished = kept.with_suffix(f".{os.getpid()}")
            unfinished.write_text(json.dumps(result))
            unfinished.replace(kept)
        return result

    def trace(self, scenario: Scenario, path: Path, kinds: str = "data,arrive") -> dict:
        flags = scenario.ns3_flags() + [f"--trace={path}", f"--trace-kinds={kinds}"]
        return parse(self.name, call([str(self.program), *flags]).stdout)


class Htsim:
    name = "htsim"

    def __init__(self, source: Path | None) -> None:
        self.program = build_htsim.build(source)

    def run(self, scenario: Scenario) -> dict:
        return parse(self.name, call([str(self.program), *scenario.htsim_flags()]).stdout)


class Roughlink:
    name = "roughlink"

    def __init__(self, binary: Path) -> None:
        if not binary.exists():
            raise Missing(
                f"cannot find roughlink at {binary}\n"
                "help: run `cargo build --release`, or pass --roughlink PATH"
            )
        self.binary = binary.resolve()

    def run(self, scenario: Scenario, watch_memory: bool = False) -> dict:
        """Runs the scenario and returns the result with `cpu_s` and, on request, `peak_rss_kb` added.

        `cpu_s` is user + system time of the whole process, unless the process reports its own.
        """
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "scenario.toml"
            file.write_text(scenario.toml())
            done = call([str(self.binary), "run", str(file), "--json"], watch_memory)
        result = parse(self.name, done.stdout)
        result.setdefault("cpu_s", done.cpu_s)
        if watch_memory:
            result.setdefault("peak_rss_kb", done.peak_rss_kb)
        return result

    def reproduce(self, paper: str, folder: Path, options: tuple[str, ...] = ()) -> dict:
        """Reproduces a paper, or a part of it, and returns the results in `folder`."""
        call([str(self.binary), "reproduce", paper, *options, "--quiet", "-o", str(folder)])
        return json.loads((folder / "results.json").read_text())

    def segments(self, scenario: Scenario) -> list[Segment]:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "scenario.toml"
            file.write_text(scenario.toml())
            output = Path(folder) / "out"
            call([str(self.binary), "run", str(file), "-o", str(output)])
            return read_roughlink_segments(output)


def read_roughlink_segments(folder: Path) -> list[Segment]:
    """Reads the data segments of flow 0 from a result folder.

    Only this function depends on roughlink's trace format: segments.csv with time_ns, flow, seq, len, retransmission.
    """
    file = folder / "segments.csv"
    if not file.exists():
        raise Failed(
            f"roughlink wrote no {file.name} into its result folder: {sorted(p.name for p in folder.iterdir())}"
        )
    with file.open(newline="") as stream:
        return from_first_byte(
            Segment(int(row["time_ns"]), int(row["seq"]), int(row["len"]), row["retransmission"] in ("1", "true"))
            for row in csv.DictReader(stream)
            if row["flow"] in ("0", "download")
        )


def read_ns3_segments(file: Path) -> list[Segment]:
    """Reads the data segments of flow 0 from a trace of bulk.cc, where the first byte of the stream is number 1."""
    opened = gzip.open(file, "rt", newline="") if file.suffix == ".gz" else file.open(newline="")
    with opened as stream:
        return from_first_byte(
            Segment(int(row["time_ns"]), int(row["seq"]), int(row["len"]), row["retransmission"] == "1")
            for row in csv.DictReader(stream)
            if row["kind"] == "data" and row["flow"] == "0"
        )


def from_first_byte(rows) -> list[Segment]:
    segments = list(rows)
    first = segments[0].seq if segments else 0
    return [Segment(s.time_ns, s.seq - first, s.length, s.retransmission) for s in segments]


def run_cell(roughlink: Path, cell: Cell, seed: int) -> Outcome:
    """Simulates a cell of the comparison with Linux."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "link.toml"
        file.write_text(cell.scenario())
        result = parse(
            "roughlink", call([str(roughlink), "run", str(file), "--json", "--quiet", "--seed", str(seed)]).stdout
        )
    flows, link = result["flows"], result["links"][0]["forward"]
    return Outcome(
        goodput_mbps=sum(flow["delivered_bytes"] for flow in flows) * 8 / cell.duration_s / 1e6,
        retransmits=sum(flow["retransmits"] for flow in flows),
        rtt_ms=sum(flow["rtt_ms"]["mean"] for flow in flows) / len(flows),
        queue_pkt_mean=link["queue_mean_pkt"],
        queue_drops=link["dropped"],
        lost=link["lost"],
    )


def delivered_packets(result: dict, scenario: Scenario) -> int:
    """Returns the delivered bytes in full segments, counted in the same way for both simulators."""
    return sum(-(-flow["delivered_bytes"] // scenario.segment) for flow in result["flows"])


def throughput(result: dict) -> float:
    flows = result["flows"]
    return sum(flow["throughput_mbps"] or 0.0 for flow in flows) / len(flows)


@dataclass(frozen=True)
class Done:
    stdout: str
    cpu_s: float
    peak_rss_kb: int


def call(command: list[str], watch_memory: bool = False) -> Done:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = subprocess.Popen(command, stdout=out, stderr=err)
        peak = PeakMemory(child.pid) if watch_memory else None
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if peak:
            peak.stop()
        out.seek(0)
        err.seek(0)
        stdout = out.read().decode(errors="replace")
        if child.returncode != 0:
            said = err.read().decode(errors="replace").strip() or "nothing"
            raise Failed(f"{' '.join(command)}\n  failed with code {child.returncode}: {said[-2000:]}")
    return Done(stdout, usage.ru_utime + usage.ru_stime, peak.kb if peak else 0)


class PeakMemory:
    """Largest VmHWM during a process's life. ru_maxrss would include this Python's size at fork."""

    def __init__(self, pid: int) -> None:
        self.kb = 0
        self._status = Path(f"/proc/{pid}/status")
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._ended.is_set():
            try:
                for line in self._status.read_text().splitlines():
                    if line.startswith("VmHWM:"):
                        self.kb = int(line.split()[1])
            except OSError:
                return
            self._ended.wait(0.002)

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()


def parse(who: str, text: str) -> dict:
    try:
        return json.loads(text)
    except json.JSONDecodeError as wrong:
        raise Failed(f"{who} printed no JSON object ({wrong}): {text[:200]!r}")


def read_arrivals(ns3: Ns3, scenario: Scenario) -> list[int]:
    """Reads the sequence number of every packet that reaches the car, by arrival number (0 for later fragments)."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.csv"
        ns3.trace(scenario, trace, kinds="arrive")
        with trace.open(newline="") as stream:
            return [int(row["seq"]) for row in csv.DictReader(stream)]
