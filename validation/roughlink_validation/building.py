"""Builds of the program from the sources of this or another revision."""

import contextlib
import fcntl
import os
import subprocess
import sys
from pathlib import Path

from roughlink_validation.simulators import Failed

ROOT = Path(__file__).resolve().parent.parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
BUILD = ["cargo", "build", "--workspace", "--locked", "--profile", "test", "--bin", "roughlink"]


def git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(done.stderr.strip())
    return done.stdout.strip()


def build(tree: Path, target: Path, *arguments: str) -> Path:
    """Builds the program from the sources in `tree` and returns its path; cargo reports on standard error."""
    own = os.environ | {"CARGO_TARGET_DIR": str(target)}
    done = subprocess.run([*BUILD, *arguments], cwd=tree, env=own, stdout=sys.stderr)
    if done.returncode != 0:
        raise Failed(f"{' '.join(BUILD)} failed in {tree}")
    return target / "debug" / "roughlink"


@contextlib.contextmanager
def alone(folder: Path):
    """Locks `folder`, so that anything found in it is the leftover of a killed process."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another comparison in this folder")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
