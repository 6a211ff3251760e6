"""Emulations: programs behind the links of a scenario, in real time."""

from __future__ import annotations

import contextlib
import csv
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, SupportsIndex

from . import _native
from ._cc import Maker, bound
from ._run import Run
from ._scenario import RoughlinkWarning, Scenario, quantity, warn, whole
from ._scenario import scenario as scenario_of
from ._table import Column, Table


class Emulation(Run):
    """Result of an emulation. Emulations can be pickled.

    ``result`` also has the fields of emulations (``docs/reference/results.md``): ``conversations`` between programs,
    ``lateness_us``, and ``programs`` with their exit codes.
    """

    def __init__(
        self, native: _native.Run, folder: Path | None, output: dict[str, str], tables: dict[str, Table]
    ) -> None:
        super().__init__(native)
        self.folder = folder
        """Result folder; ``None`` if the call gave none."""
        self.output = output
        """Standard output and standard error of the program at each node."""
        self._tables = tables

    @property
    def captures(self) -> list[Path]:
        """Captures (pcapng) in the folder; empty without a folder."""
        return [] if self.folder is None else sorted(self.folder.glob("*.pcapng"))

    def series(self, name: str) -> Table:
        """Returns a series of the emulation with ten samples per second.

        Args:
            name: ``"links"`` (queues, losses, rates), ``"conversations"`` (bytes and RTT of the eight largest), or
                ``"lateness"``.

        Raises:
            KeyError: No series has this name.
        """
        if name not in self._tables:
            raise KeyError(f"unknown series `{name}`; expected one of {', '.join(self._tables)}")
        return self._tables[name]

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self._native.json(), self.folder, self.output, self._tables)

    def __repr__(self) -> str:
        r = self.result
        return f"<roughlink.Emulation of {r['name']!r}, replica {r['replica']}: {r['sim_s']:g} s in real time>"


def emulate(
    what: Scenario | str | os.PathLike[str] | Mapping[str, Any],
    *,
    programs: Mapping[str, Sequence[str]] | None = None,
    duration: str | None = None,
    folder: str | os.PathLike[str] | None = None,
    captures: bool = True,
    kernel: str | Sequence[str] = (),
    interface: Mapping[str, str] | None = None,
    until: str | None = None,
    replica: SupportsIndex = 0,
    max_lateness: str | None = None,
    linger: str | None = None,
    check: bool = True,
    progress: bool = False,
) -> Emulation:
    """Runs programs behind the links of a scenario, in real time, like ``roughlink emulate``
    (``docs/how-to/emulating.md``). Needs Linux with TUN devices, and root unless the machine allows user namespaces.
    Uses the program in the wheel, or the one that the environment variable ``ROUGHLINK`` names.

    If a flow uses an algorithm that is a Python class, the emulation runs in this process. This needs root and gives no
    folder, captures, series or conversations. The class must decide within microseconds, or packets are late.

    Does not block other Python threads. Ctrl-C in the main thread ends the programs and the emulation; the results so
    far stay in `folder`.

    Args:
        what: The scenario, in any form that :func:`scenario` accepts.
        programs: Command at each node, as a list of words: ``{"car": ["iperf3", "-c", "server"]}``. Programs start in
            the working directory and find the other nodes by name.
        duration: Maximum duration, such as ``"10 s"``, instead of the scenario's. The emulation ends earlier if all
            programs have ended, or if one of them fails.
        folder: New or empty folder for the results, in the form of ``roughlink emulate -o``.
        captures: Write a capture (pcapng) into `folder`.
        kernel: Further nodes with their own network namespace.
        interface: Network device of this machine to attach at each node: ``{"car": "eth1"}``.
        until: End the emulation when the program at this node ends.
        replica: Number of the run, from 0; each has different random numbers.
        max_lateness: Limit for the lateness of packets and programs, ``"1 ms"`` by default. If more than 1 % exceed it,
            a warning gives the likely cause.
        linger: Maximum wait for the acknowledgment of data after all programs have ended, ``"10 s"`` by default.
        check: Raise an error if a program fails. Otherwise ``result["programs"]`` has its exit code.
        progress: Print addresses and the output of programs on standard error during the emulation.

    Returns:
        The results, with samples over time and the output of each program.

    Raises:
        ScenarioError: The scenario is invalid.
        ValueError: A number is out of range, or `folder` is given with an algorithm that is a Python class.
        TypeError: A command is text instead of a list.
        RoughlinkError: A program failed; the message has the end of its output. Or the package lacks the program
            ``roughlink``, the machine cannot emulate, a node does not exist, or the folder is not empty.
        RuntimeError: Another emulation with a Python class runs in this process.
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    with warnings.catch_warnings():
        # The command issues these warnings again, except for those that do not apply to emulations.
        warnings.simplefilter("ignore", RoughlinkWarning)
        given = scenario_of(what)
    for node, command in (programs or {}).items():
        if isinstance(command, str):
            raise TypeError(f"programs[{node!r}] is text; expected a list of words: ['sh', '-c', {command!r}]")
        if not command or "--exec" in command:
            raise ValueError(f"programs[{node!r}] is {list(command)}; expected words, none of which is --exec")
    nodes = [kernel] if isinstance(kernel, str) else list(kernel)
    if classes := bound(given._native.algorithms, None):
        if until is not None and until not in (programs or {}):
            raise ValueError(f"until is {until!r}; expected a node of programs")
        if folder is not None:
            raise ValueError(f"an emulation with the Python class `{classes[0][0]}` writes no folder")
        keys: dict[str, Any] = {f'node."{node}".kernel': True for node in (*nodes, *(programs or ()))}
        keys.update({f'node."{node}".interface': device for node, device in (interface or {}).items()})
        keys.update({} if duration is None else {"duration": duration})
        late, wait = quantity(max_lateness or "1 ms"), quantity(linger or "10 s")
        for name, seconds in (("max_lateness", late), ("linger", wait)):
            if not 0 <= seconds < float("inf"):
                raise ValueError(f"{name} is {seconds} s; expected a time of at least 0 s")
        number = whole(replica, "replica", 2**32 - 1)
        # Programs find their node by the process of the emulation.
        if not _ONE.acquire(blocking=False):
            raise RuntimeError("another emulation with a Python class runs in this process: wait for its end")
        try:
            return _here(given.set(keys), classes, programs or {}, until, number, late, wait, check)
        finally:
            _ONE.release()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        out = Path(temporary, "results") if folder is None else Path(folder)
        file = _write(given, Path(temporary))
        words = [_program(), "emulate", str(file), "--json", "--allow-outside", "-o", str(out)]
        words += ["--no-capture"] if folder is None or not captures else []
        words += [f"--replica={whole(replica, 'replica', 2**32 - 1)}"]
        options = {"--for": duration, "--until": until, "--max-lateness": max_lateness, "--linger": linger}
        words += [f"{option}={value}" for option, value in options.items() if value is not None]
        words += [f"--kernel={node}" for node in nodes]
        words += [f"--interface={node}={device}" for node, device in (interface or {}).items()]
        for node, command in (programs or {}).items():
            words += ["--exec", node, "--", *command]
        code, text, output = _execute(words, list(programs or ()), progress)
        text = text.replace(f"{file.parent}{os.sep}", "")
        # The caller has seen the warnings about a `Scenario`.
        warn(w.rstrip() for w in _WARNINGS.findall(text) if given is not what or "⚠" not in w)
        if drawn := _ERROR.search(text):
            raise _native.RoughlinkError(f"\n{drawn[0].rstrip()}")
        if not (out / "summary.json").exists():
            raise _native.RoughlinkError(text.strip())
        found = read_emulation(out, output, is_kept=folder is not None)
    message = text.strip().rpartition("\n")[2]
    if found.result["ended"] == "failed":
        if check:
            nodes = [p["node"] for p in found.result["programs"] if p["exit_code"] and not p["stopped"]]
            raise _native.RoughlinkError("\n".join([message, *(output[n].rstrip()[-_MAX_SHOWN:] for n in nodes)]))
    elif code == _LATE:
        warn([message])
    elif code:
        raise _native.RoughlinkError(message)
    return found


def _here(
    given: Scenario,
    classes: list[tuple[str, Maker]],
    programs: Mapping[str, Sequence[str]],
    until: str | None,
    replica: int,
    max_lateness_s: float,
    linger_s: float,
    check: bool,
) -> Emulation:
    """Emulates in this process, with algorithms that are Python classes."""
    children: dict[str, subprocess.Popen[bytes]] = {}
    with contextlib.ExitStack() as files:
        texts = {node: files.enter_context(tempfile.TemporaryFile()) for node in programs}
        running = _native.Running(given._native, replica, classes)
        try:
            for node, command in programs.items():
                words = [_program(), "shell", "--process", str(os.getpid()), node, "--", *command]
                # Ctrl-C of the terminal must reach only this process, which then ends the program.
                null, out, error = subprocess.DEVNULL, texts[node], subprocess.STDOUT
                children[node] = subprocess.Popen(words, stdin=null, stdout=out, stderr=error, start_new_session=True)
            codes: dict[str, int | None] = {}
            while not running.is_over():
                codes = {node: child.poll() for node, child in children.items()}
                if any(codes.values()) or (until and codes.get(until) is not None):
                    break
                if codes and None not in codes.values():
                    last = time.monotonic() + linger_s
                    while running.undelivered() and time.monotonic() < last and not running.is_over():
                        time.sleep(_LOOK_S)
                    break
                time.sleep(_LOOK_S)
        finally:
            stopped = [node for node, child in children.items() if child.poll() is None]
            for node in stopped:
                children[node].terminate()
            for child in children.values():
                try:
                    child.wait(_GRACE_S)
                except subprocess.TimeoutExpired:
                    child.kill()
            native, faults = running.finish(max_lateness_s)
        output = {}
        for node, file in texts.items():
            file.seek(0)
            output[node] = _OF_SHELL.sub("", file.read().decode(errors="replace"))
    failed = [node for node, code in codes.items() if code]
    ended = [
        {
            "node": node,
            "command": " ".join(words),
            "exit_code": _code(children[node].returncode),
            "stopped": node in stopped,
        }
        for node, words in programs.items()
    ]
    if failed and check:
        text = f"`{' '.join(programs[failed[0]])}` at `{failed[0]}` failed: exit code {codes[failed[0]]}"
        raise _native.RoughlinkError("\n".join([text, output[failed[0]].rstrip()[-_MAX_SHOWN:]]))
    warn(faults)
    why = "failed" if failed else "programs" if codes and not stopped else "duration"
    result = {**json.loads(native.json()), "programs": ended, "ended": why}
    return _again(json.dumps(result), None, output, {})


def _code(code: int) -> int:
    """Returns an exit code, for a signal as shells do."""
    return code if code >= 0 else 128 - code


def _program() -> str:
    """Returns the path of the program ``roughlink``.

    Raises:
        RoughlinkError: The package lacks the program.
    """
    from .__main__ import PROGRAM

    path = os.environ.get("ROUGHLINK")
    if not path and not PROGRAM.exists():
        raise _native.RoughlinkError(
            "this package was built without the program, so it cannot emulate\nhelp: install a wheel (`make wheel`), "
            "or set the environment variable ROUGHLINK to the path of a program that `cargo build --release` made"
        )
    return path or str(PROGRAM)


def _write(given: Scenario, folder: Path) -> Path:
    """Writes a scenario and its files below a folder, and returns the path of the scenario."""
    _, name, _, _, _, files = given._native.parts()
    # References such as `../trace.csv` must not leave the folder.
    depth = max((Path(reference).parts.count("..") for reference, _ in files), default=0)
    home = folder.joinpath(*["scenario"] * (depth + 1))
    home.mkdir(parents=True)
    for reference, text in files:
        if not Path(reference).is_absolute():
            (home / reference).parent.mkdir(parents=True, exist_ok=True)
            (home / reference).write_text(text, encoding="utf-8")
    file = home / (Path(name).name.removesuffix(".toml") + ".toml")
    file.write_text(given.text, encoding="utf-8")
    return file


def _execute(words: list[str], nodes: list[str], progress: bool) -> tuple[int, str, dict[str, str]]:
    """Executes the command, and returns its exit code, its messages, and the output of the program at each node."""
    linux = sys.platform == "linux"
    # The emulation also ends if this process is killed.
    prepare = partial(ctypes.CDLL(None).prctl, _PR_SET_PDEATHSIG, signal.SIGTERM) if linux else None
    lines: dict[str, list[str]] = {node: [] for node in nodes}
    messages = []
    # In its own session, the child does not also receive the terminal's Ctrl-C: a second signal would end it at once.
    with subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=prepare,
    ) as child:
        assert child.stderr is not None
        try:
            for raw in child.stderr:
                line = raw.decode(errors="replace")
                if progress:
                    print(line, end="", file=sys.stderr)
                node, _, printed = line.partition("| ")
                if node in lines:
                    lines[node].append(printed)
                else:
                    messages.append(_COLORS.sub("", line))
        except BaseException:
            child.send_signal(signal.SIGINT)
            for _ in child.stderr:
                pass
            child.wait()
            raise
    return child.returncode, "".join(messages), {node: "".join(texts) for node, texts in lines.items()}


def read_emulation(folder: Path, output: dict[str, str] | None = None, *, is_kept: bool = True) -> Emulation:
    """Reads a result folder. Without `output`, reads the output of programs from its files, too."""
    if output is None:
        files = folder.glob("output-*.txt")
        texts = [(file.stem, file.read_bytes().decode(errors="replace")) for file in sorted(files)]
        output = {stem.removeprefix("output-"): text for stem, text in texts}
    try:
        tables = {name: _samples(folder / f"{name}.csv", columns) for name, columns in _SERIES.items()}
        result = (folder / "summary.json").read_text(encoding="utf-8")
    except (OSError, KeyError, ValueError) as e:
        raise _native.RoughlinkError(f"cannot read the emulation in {str(folder)!r}: {type(e).__name__}: {e}") from e
    return _again(result, folder if is_kept else None, output, tables)


def _samples(path: Path, columns: Sequence[Column]) -> Table:
    """Reads a file of samples."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    values = [[_PARSERS[c.type](row[c.name]) if row[c.name] else None for row in rows] for c in columns]
    return Table.of([(c.name, c.type, c.unit, c.meaning, v) for c, v in zip(columns, values, strict=True)])


def _again(result: str, folder: Path | None, output: dict[str, str], tables: dict[str, Table]) -> Emulation:
    return Emulation(_native.Run.from_json(result, None), folder, output, tables)


_PARSERS: dict[str, Callable[[str], object]]
_PARSERS = {"int": int, "float": float, "str": str, "bool": lambda text: text == "1"}
_TIME = Column("time_ns", "int", "ns", "time since the start")
_SERIES = {
    "links": [
        _TIME,
        Column("link", "str", "", "name of the link"),
        Column("direction", "str", "", "forward or reverse"),
        Column("up", "bool", "", "true if the link carries packets"),
        Column("queue_pkt", "int", "pkt", "packets waiting"),
        Column("dropped_pkt", "int", "pkt", "packets dropped by a full queue or its discipline, since the start"),
        Column("lost_pkt", "int", "pkt", "packets lost to noise, since the start"),
        Column("sent_pkt", "int", "pkt", "IP packets serialized, since the start"),
        Column("sent_bytes", "int", "B", "bytes of these packets"),
        Column("rate_mbps", "float", "Mbit/s", "rate"),
        Column("delay_ms", "float", "ms", "propagation delay"),
        Column("loss", "float", "", "loss probability of each packet; null if it differs between packets"),
    ],
    "conversations": [
        _TIME,
        Column("protocol", "str", "", "protocol"),
        Column("from", "str", "", "address and port of the sender"),
        Column("to", "str", "", "address and port of the receiver"),
        Column("delivered_bytes", "int", "B", "payload that arrived, since the start"),
        Column("in_flight_pkt", "int", "pkt", "packets in the network"),
        Column("lost_pkt", "int", "pkt", "packets that will not arrive, since the start"),
        Column("retransmits", "int", "", "segments that the kernel retransmitted, since the start"),
        Column("srtt_ms", "float", "ms", "latest smoothed RTT"),
    ],
    "lateness": [
        _TIME,
        Column("p50_us", "float", "us", "median lateness of the packets since the last row"),
        Column("p99_us", "float", "us", "99th percentile"),
        Column("max_us", "float", "us", "maximum"),
        Column("over_1ms", "float", "", "share of packets later than 1 ms"),
    ],
}
_COLORS = re.compile(r"\x1b\[[0-9;]*m")
_WARNINGS = re.compile(r"^  ⚠ .+?\n$|(?<=^warning: )[^\n]+", re.MULTILINE | re.DOTALL)
_ERROR = re.compile(r"^  × .+", re.MULTILINE | re.DOTALL)
_LATE = 4
"""Exit code for an emulation that was late."""
_MAX_SHOWN = 2000
"""Maximum length of a program's output in an error."""
_ONE = threading.Lock()
"""Lock of the only emulation in this process."""
_OF_SHELL = re.compile(r"(interrupted|the command failed: exit code \d+)\n\Z")
"""Last line of `roughlink shell`, behind the output of its command."""
_LOOK_S = 0.01
"""Interval at which programs are polled, s."""
_GRACE_S = 2
"""Time for a program to end after the request, s."""
_PR_SET_PDEATHSIG = 1
"""Option of prctl: signal at the death of the parent."""
