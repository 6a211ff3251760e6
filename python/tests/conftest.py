"""Fixtures and helpers of all tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import roughlink as rl

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def command() -> Command:
    """Returns a function that runs the command line in a folder."""
    program = os.environ.get("ROUGHLINK")
    if program is None:
        pytest.skip("ROUGHLINK does not name the program")
    path = str(Path(program).resolve())

    def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "NO_COLOR": "1", "LANG": "C.UTF-8"}
        return subprocess.run(
            [path, *words], cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False
        )

    return run


def default_signals() -> None:
    """Restores the signal handlers in a child: under `nohup` or in the background the tests ignore some signals."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


def results(out: subprocess.CompletedProcess[str]) -> Any:
    """Returns the JSON that a command printed with `--json`."""
    assert out.returncode == 0, out.stderr
    return json.loads(out.stdout)


def timeless(result: dict[str, Any]) -> dict[str, Any]:
    """Returns a result without its wall-clock time."""
    return {key: value for key, value in result.items() if key != "wall_s"}


def same(one: rl.Table, other: rl.Table) -> bool:
    """Returns true if values, types, units and meanings are equal."""
    a, b = pa.table(one), pa.table(other)
    return a.schema.equals(b.schema, check_metadata=True) and bool(a.equals(b)) and [*one.rows()] == [*other.rows()]


def said(error: pytest.ExceptionInfo[BaseException]) -> str:
    """Returns the text of an exception with its lines joined."""
    return " ".join(str(error.value).replace("│", "").split())
