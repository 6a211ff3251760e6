"""Executes the notebooks in this folder with the current interpreter, each in a new folder: ``make notebooks``.

Without ``--check`` the notebooks get new outputs. Execution counts, times and versions are left out, since they change
each time. With ``--check`` nothing is written, and a cell whose output differs from the file is an error. Only the
presence of a picture is compared, because its pixels depend on fonts.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import difflib
import io
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import nbformat
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode
from PIL import Image

FOLDER = Path(__file__).parent
LIMIT_S = 180
"""Time limit of a notebook, s."""


class ThisInterpreter(KernelSpecManager):
    """Manager that starts every kernel with the current interpreter and ignores installed kernel specs."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        words = [sys.executable, "-Xfrozen_modules=off", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=words, display_name="Python 3", language="python")


def executed(path: Path) -> NotebookNode:
    """Executes a notebook and returns it with new outputs.

    Raises:
        CellExecutionError: a cell raised an exception.
        TimeoutError: the notebook took longer than `LIMIT_S`.
    """
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "IPYTHONDIR": str(Path(folder) / ".ipython"),
            "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        }
        client = NotebookClient(
            notebook,
            km=AsyncKernelManager(
                kernel_spec_manager=ThisInterpreter(),
                transport="ipc",
                connection_file=str(Path(folder) / ".kernel.json"),
            ),
            resources={"metadata": {"path": folder}},
            coalesce_streams=True,
            record_timing=False,
            shutdown_kernel="immediate",
            timeout=None,
        )
        asyncio.run(asyncio.wait_for(client.async_execute(env=environment, cleanup_kc=True), LIMIT_S))
    return lasting(notebook)


def lasting(notebook: NotebookNode) -> NotebookNode:
    """Removes the fields that differ from one execution to the next, and returns the notebook."""
    notebook.metadata = NotebookNode(
        kernelspec={"name": "python3", "display_name": "Python 3", "language": "python"},
        language_info={"name": "python"},
    )
    for cell in notebook.cells:
        cell.metadata = NotebookNode()
        if cell.cell_type != "code":
            continue
        cell.execution_count = None
        for output in cell.outputs:
            if output.output_type == "stream":
                # A progress line is padded to the length of the previous one.
                output.text = "".join(line.rstrip() + "\n" for line in output.text.splitlines())
            elif output.output_type == "execute_result":
                output.execution_count = None
            if "metadata" in output:
                output.metadata = NotebookNode()
            if "image/png" in output.get("data", {}):
                output.data["image/png"] = small(output.data["image/png"])
    return notebook


def small(picture: str) -> str:
    """Converts a picture to a palette, which takes a third of the space."""
    with Image.open(io.BytesIO(base64.b64decode(picture))) as drawn, io.BytesIO() as png:
        drawn.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(png, "png", optimize=True)
        return base64.b64encode(png.getvalue()).decode()


def differences(path: Path, found: NotebookNode) -> list[str]:
    """Returns a diff between the outputs in the file and the new ones, as lines to print."""
    committed = nbformat.read(path, as_version=4)
    lines: list[str] = []
    for number, (old, new) in enumerate(zip(committed.cells, found.cells, strict=True), 1):
        where = f"{path.name}, cell {number}"
        lines += difflib.unified_diff(said(old), said(new), f"{where}, in the file", f"{where}, now", lineterm="")
    return lines


def said(cell: NotebookNode) -> list[str]:
    """Returns the output of a cell as lines, without the contents of pictures."""
    lines: list[str] = []
    for output in cell.get("outputs", []):
        if output.output_type == "stream":
            lines += [f"{output.name}:", *output.text.splitlines()]
            continue
        for kind, content in sorted(output.get("data", {}).items()):
            lines += [f"{kind}:", *(content.splitlines() if kind.startswith("text/") else [])]
    return lines


def main(words: Sequence[str] | None = None) -> int:
    """Executes a command line. Returns the exit code: 0, or 1 if a notebook fails or its output differs."""
    parser = argparse.ArgumentParser(description="Executes notebooks.")
    parser.add_argument("notebooks", nargs="*", type=Path, help="default: all beside this script")
    parser.add_argument("--check", action="store_true", help="compare the outputs with the files; write nothing")
    given = parser.parse_args(words)
    wrong = False
    for path in given.notebooks or sorted(FOLDER.glob("*.ipynb")):
        begin = time.monotonic()
        try:
            found = executed(path)
        except (CellExecutionError, TimeoutError) as e:
            why = f"took longer than {LIMIT_S} s" if isinstance(e, TimeoutError) else str(e)
            print(f"{path.name}: {why}", file=sys.stderr)
            wrong = True
            continue
        lines = differences(path, found) if given.check else []
        if lines:
            print("\n".join([*lines, "`make notebooks` renews the outputs"]), file=sys.stderr)
            wrong = True
        elif not given.check:
            nbformat.write(found, path)
        print(f"{path.name}: {time.monotonic() - begin:.1f} s", file=sys.stderr)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
