"""Runs cases and finds faults in their outcomes."""

import json
import os
import re
import stat
import subprocess
import threading
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from roughlink_validation.hostile.cases import SCRIPT, Case, Special

ERRORS_KB = 100
# Hard limits of the process, in case the program exceeds its own limits.
KILL_CPU_S, KILL_MEMORY, KILL_FILE, KILL_WALL_S = 20, 6 << 30, 1 << 30, 120
# Contents of the file that links in result folders lead to. No case may change or show it.
SECRET = b'{"secret": "seen through a link"}\n'
SECRET_NAME = "outside.json"


@dataclass(frozen=True)
class Programs:
    """The program, and Python with the package if it is available."""

    roughlink: Path
    python: Path | None
    # Folder with the package `roughlink`.
    package: Path


@dataclass
class Outcome:
    code: int
    cpu: float
    memory: float
    out: bytes
    err: str


def write(case: Case, folder: Path) -> None:
    """Writes the files of a case into a folder."""
    (folder / SECRET_NAME).write_bytes(SECRET)
    for name, what in case.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        match what:
            case bytes():
                path.write_bytes(what)
            case Special.FIFO:
                os.mkfifo(path)
            case Special.FOLDER:
                path.mkdir()
            case Special.SOCKET:
                os.mknod(path, stat.S_IFSOCK | 0o600)
            case Special.LOOP:
                path.symlink_to(path.name)
            case Special.OUTSIDE:
                path.symlink_to(folder / SECRET_NAME)
            case Special.SPARSE | Special.HUGE:
                with path.open("wb") as file:
                    file.truncate(1 << 30 if what is Special.SPARSE else 1 << 33)
            case str():
                path.symlink_to(what)


def run(programs: Programs, case: Case, folder: Path) -> Outcome:
    if case.python:
        command = [programs.python, "-c", READ, *case.arguments]
    else:
        command = [programs.roughlink, *case.arguments]
    environment = {**os.environ, "NO_COLOR": "1", "PYTHONPATH": str(programs.package), "PYTHONDONTWRITEBYTECODE": "1",
                   "ROUGHLINK": str(programs.roughlink)}  # fmt: skip

    # The shell sets the limits before the program starts, and is replaced by it.
    limits = [f"-t {KILL_CPU_S}", f"-v {KILL_MEMORY >> 10}", f"-f {KILL_FILE >> 9}"]
    limits += [f"-S -s {case.bounds.stack >> 10}"] if case.bounds.stack else []
    script = " && ".join([*(f"ulimit {limit}" for limit in limits), 'exec "$@"'])
    command = ["/bin/sh", "-c", script, "sh", *command]
    with (folder / ".out").open("w+b") as out, (folder / ".err").open("w+b") as err:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err
        )
        timer = threading.Timer(KILL_WALL_S, process.kill)
        timer.start()
        _, status, used = os.wait4(process.pid, 0)
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        text = err.read(ERRORS_KB * 4000).decode("utf-8", "replace")
        return Outcome(process.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss / 1000, out.read(), text)


def acts(text: str) -> str | None:
    """Returns a control character that a terminal would interpret, if there is one."""
    for c in sorted(set(text) - {"\n", "\t"}):
        if (
            unicodedata.category(c) == "Cc"
            or c in "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
        ):
            return c
    return None


# Positions in refusals: the line, the file, the override, the element, or the limit of a run.
PLACE = re.compile(
    r"scenario\d*\.toml[^\n]{0,40}:\d+:\d+|scenario\d*\.toml(?: with overrides)?: |cannot read `scenario\d*\.toml`: "
    r"|override `|is not a setting|flow `[^`]*` has no path|the run has more than"
    r"|the paths of all flows|the grid has|has no effect|invalid value '[^']*' for '--"
)


def faults(case: Case, o: Outcome, folder: Path) -> list[str]:
    """Returns the faults of an outcome."""
    found = []
    if o.code not in case.codes:
        found.append(f"exit code {o.code}")
    if o.cpu > case.bounds.cpu_s:
        found.append(f"{o.cpu:.1f} s of CPU")
    if o.memory > case.bounds.memory_mb:
        found.append(f"{o.memory:.0f} MB of memory")
    elif "out of memory" in o.err:
        found.append("out of memory")
    refusal = re.sub(r"\s*\n\s*(?:│ )?", " ", o.err) + o.err
    if o.code in case.codes and o.code != 0 and not (
        PLACE.search(refusal) or any(place in refusal for place in case.places)
    ):
        found.append("a refusal without a position")
    out = o.out.decode("utf-8", "replace")
    if (c := acts(o.err if case.has_json_output else o.err + out)) is not None:
        found.append(f"character U+{ord(c):04X} on the terminal")
    if len(o.err) > ERRORS_KB * 1000:
        found.append(f"{len(o.err)} characters of messages")
    if len(o.out) > case.bounds.results_mb * 1e6 + 50 * case.input_size:
        found.append(f"{len(o.out)} bytes of results")
    if o.code == 0 and case.has_json_output:
        try:
            json.loads(o.out)
        except ValueError as e:
            found.append(f"results that are not JSON: {e}")
    return found + files_faults(case, folder, o.err + out)


def files_faults(case: Case, folder: Path, shown: str) -> list[str]:
    """Returns the faults in the files that a command has left."""
    found = []
    outside = folder / SECRET_NAME
    if not outside.exists() or outside.read_bytes() != SECRET:
        found.append("a file outside of the result folder was changed")
    if "seen through a link" in shown:
        found.append("a file outside of the result folder was shown")
    written = 0
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_file():
            continue
        size = path.stat().st_size
        name = str(path.relative_to(folder))
        known = case.files.get(name)
        unchanged = known in (Special.SPARSE, Special.HUGE) or isinstance(known, bytes) and len(known) == size
        if name.startswith(".") or unchanged:
            continue
        written += size
        if path.suffix == ".html" and size < 100_000_000:
            text = path.read_text("utf-8", "replace")
            if SCRIPT in text:
                found.append(f"{path.name} executes a name as a script")
            if "seen through a link" in text:
                found.append(f"{path.name} shows a file outside of the result folder")
    if written > 30_000_000 + 50 * case.input_size:
        found.append(f"{written} bytes of files")
    return found


# Reads a folder and everything in it. The error of a refusal becomes exit code 2, any other exception code 1.
READ = """
import sys
import roughlink as rl
try:
    found = rl.read(sys.argv[1])
    print(repr(found))
    shown, tables = [found], []
    if isinstance(found, rl.Emulation):
        tables = [found.flows, found.links, *(found.series(name) for name in ("links", "conversations", "lateness"))]
    elif isinstance(found, rl.Run):
        tables = [found.flows, found.links]
        for name in ("flows", "links", "segments", "gateways"):
            try:
                tables.append(found.series(name))
            except ValueError as e:
                if "has no series" not in str(e):
                    raise
    elif isinstance(found, rl.Sweep):
        tables = [found.runs]
    else:
        shown += found.experiments.values()
    for each in shown + tables:
        each._repr_html_()
    for table in tables:
        table.__arrow_c_stream__()
except rl.RoughlinkError as e:
    print(e, file=sys.stderr)
    sys.exit(2)
"""
