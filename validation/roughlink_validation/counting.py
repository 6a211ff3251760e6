"""Count of instructions of whole runs by valgrind's callgrind, which is the same in every run on any load."""

import re
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from os import cpu_count
from pathlib import Path

from roughlink_validation.simulators import Failed, Missing, call, parse

# The long forms exceed the default limit of a run's memory.
RUN = ("run", "--json", "--quiet", "--max-memory", "16000")


def program(path: Path) -> Path:
    """Returns the absolute path of the program to count; fails if it or valgrind is missing."""
    if shutil.which("valgrind") is None:
        raise Missing("counting instructions needs valgrind")
    if not path.exists():
        raise Missing(f"cannot find roughlink at {path}")
    return path.resolve()


def instructions(binary: Path, scenarios: list[str]) -> list[tuple[int, dict]]:
    """Returns the instructions and the result of a run of each scenario file; runs share the machine's cores."""
    with ThreadPoolExecutor(cpu_count()) as pool:
        return list(pool.map(lambda text: counted(binary, text), scenarios))


def counted(binary: Path, text: str, profile: str = "/dev/null") -> tuple[int, dict]:
    """Counts one run; `profile` is a file for callgrind_annotate."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scenario.toml"
        file.write_text(text)
        count, output = counted_command(binary, [*RUN, str(file)], profile)
    return count, parse("roughlink", output)


def counted_command(binary: Path, words: list[str], profile: str = "/dev/null") -> tuple[int, str]:
    """Counts one command, and returns its output, too."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile}", f"--log-file={log}"]
        done = call([*valgrind, str(binary), *words])
        said = log.read_text()
    collected = re.search(r"Collected : (\d+)", said)
    if collected is None:
        raise Failed(f"callgrind counted nothing: {said[-2000:]}")
    return int(collected[1]), done.stdout
