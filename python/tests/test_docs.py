"""Examples of the documentation: they run, and their types are correct."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import matplotlib
import pytest

matplotlib.use("Agg")

ROOT = Path(__file__).parents[2]
PAGES = ["docs/how-to/python.md"]
# The last needs a cluster to run.
TYPED = [*PAGES, "docs/how-to/job-arrays.md"]
CHECKERS = {
    "mypy": ["mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml"), "."],
    "pyright": ["pyright", "--pythonpath", sys.executable],
}
# Pandas has no type information. The value of an expression is shown in a notebook.
STRICT = "# pyright: strict, reportMissingTypeStubs=false, reportUnusedExpression=false\n"


def examples(page: str) -> str:
    """Returns all examples of a page as one program."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)
    assert blocks
    return "\n".join(blocks)


@pytest.mark.parametrize("page", PAGES)
def test_examples_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(examples(page), page, "exec"), {"__name__": "example"})


@pytest.mark.parametrize("checker", CHECKERS)
def test_examples_have_the_right_types(checker: str, tmp_path: Path) -> None:
    for page in TYPED:
        (tmp_path / f"{Path(page).stem.replace('-', '_')}_examples.py").write_text(STRICT + examples(page))
    environment = {**os.environ, "MYPYPATH": str(ROOT / "python"), "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    command = [sys.executable, "-m", *CHECKERS[checker]]
    out = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert out.returncode == 0, out.stdout + out.stderr
