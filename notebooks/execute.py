"""Executes the notebooks beside it, each in a new folder, by the interpreter that runs this: ``make notebooks``.

Without ``--check`` they get new outputs, without what changes each time: counts of executions, times, versions. With it nothing is
written, and it is an error if a cell says something else than in the file. What pictures look like is not compared, as it depends on
fonts; whether there is one is.
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
"""How long a notebook may take."""


class ThisInterpreter(KernelSpecManager):
    """Kernels are this interpreter, whatever is installed elsewhere under their name."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        words = [sys.executable, "-Xfrozen_modules=off", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=words, display_name="Python 3", language="python")


def executed(path: Path) -> NotebookNode:
    """The notebook with new outputs.

    Raises:
        CellExecutionError: a cell raised something.
        TimeoutError: it took longer than `LIMIT_S`.
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
    """The notebook without what differs from one execution to the next."""
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
                # A line of progress was filled up to the length of the one before.
                output.text = "".join(line.rstrip() + "\n" for line in output.text.splitlines())
            elif output.output_type == "execute_result":
                output.execution_count = None
            if "metadata" in output:
                output.metadata = NotebookNode()
            if "image/png" in output.get("data", {}):
                output.data["image/png"] = small(output.data["image/png"])
    return notebook


def small(picture: str) -> str:
    """A picture with a palette, which takes a third of the space."""
    with Image.open(io.BytesIO(base64.b64decode(picture))) as drawn, io.BytesIO() as png:
        drawn.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(png, "png", optimize=True)
        return base64.b64encode(png.getvalue()).decode()


def differences(path: Path, found: NotebookNode) -> list[str]:
    """Where the text of outputs differs from that in the file, as lines to print."""
    committed = nbformat.read(path, as_version=4)
    lines: list[str] = []
    for number, (old, new) in enumerate(zip(committed.cells, found.cells, strict=True), 1):
        where = f"{path.name}, cell {number}"
        lines += difflib.unified_diff(said(old), said(new), f"{where}, in the file", f"{where}, now", lineterm="")
    return lines


def said(cell: NotebookNode) -> list[str]:
    """What a cell put out, but for the contents of pictures."""
    lines: list[str] = []
    for output in cell.get("outputs", []):
        if output.output_type == "stream":
            lines += [f"{output.name}:", *output.text.splitlines()]
            continue
        for kind, content in sorted(output.get("data", {}).items()):
            lines += [f"{kind}:", *(content.splitlines() if kind.startswith("text/") else [])]
    return lines


def main(words: Sequence[str] | None = None) -> int:
    """Does what the words of a command line say. Returns the exit code: 0, or 1 for a notebook that fails or says something else."""
    parser = argparse.ArgumentParser(description="Executes notebooks.")
    parser.add_argument("notebooks", nargs="*", type=Path, help="those beside this program, if none are named")
    parser.add_argument("--check", action="store_true", help="write nothing, and compare what they say with the file")
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
