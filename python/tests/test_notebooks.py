"""Notebooks: they run, and their outputs are the committed ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat import v4

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def execute(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Executes notebooks as `make notebooks` does."""
    command = [sys.executable, str(ROOT / "notebooks" / "execute.py"), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_outputs_are_current(path: Path) -> None:
    out = execute("--check", path)
    assert out.returncode == 0, out.stderr
    assert path.stat().st_size < 150_000


def written(folder: Path, *sources: str) -> Path:
    path = folder / "written.ipynb"
    cells = [v4.new_code_cell(source, id=f"cell-{n}") for n, source in enumerate(sources)]
    nbformat.write(v4.new_notebook(cells=cells), path)
    return path


def test_notebook_output_is_saved_and_compared(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "import roughlink as rl\nrl.load('hello').run().flows['completed']",
        "import sys\nprint('1 of 2', end='', file=sys.stderr)\nprint('\\r2 of 2  ', file=sys.stderr)",
        "import matplotlib.pyplot as plt\nplt.plot([1, 2]);",
    )
    assert execute(path).returncode == 0
    first = path.read_bytes()
    assert execute(path).returncode == 0 and path.read_bytes() == first
    value, progress, picture = (cell.outputs[0] for cell in nbformat.read(path, as_version=4).cells)
    assert value.data["text/plain"] == "[True]" and progress.text == "2 of 2\n" and "image/png" in picture.data
    stale = (
        first.replace(b"[True]", b"[False]").replace(b'"2 of 2\\n"', b'"3 of 3\\n"').replace(b"image/png", b"image/gif")
    )
    path.write_bytes(stale)
    out = execute("--check", path)
    assert out.returncode == 1 and path.read_bytes() == stale
    for line in ["-[False]", "+[True]", "-3 of 3", "+2 of 2", "-image/gif:", "+image/png:"]:
        assert line in out.stderr.splitlines(), out.stderr


def test_failing_cell_is_an_error(tmp_path: Path) -> None:
    path = written(tmp_path, "import roughlink as rl\nrl.load('hallo')")
    before = path.read_bytes()
    out = execute(path)
    assert out.returncode == 1 and "hallo" in out.stderr and path.read_bytes() == before
