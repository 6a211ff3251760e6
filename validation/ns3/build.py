#!/usr/bin/env python3
"""Compiles bulk.cc, or another program in its folder, against the ns-3 wheel of the current interpreter.

The program is kept in validation/ns3/build/ under a name that contains a hash of everything it depends on,
so a second call costs nothing. Exits with 3 if the wheel or a C++ compiler is missing.
"""

import argparse
import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
WANTED = "3.44"
MODULES = ["applications", "point-to-point", "internet", "traffic-control", "network", "stats", "core"]
FLAGS = ["-std=c++20", "-O2", "-Wall", "-Wextra",
         "-DNS3_BUILD_PROFILE_RELEASE", "-DNS3_LOG_ENABLE", "-DNS3_ASSERT_ENABLE"]


class Missing(Exception):
    """Missing dependency; the message names it and how to get it."""


def wheel() -> tuple[Path, str]:
    """Returns the path of the ns-3 wheel and its version."""
    try:
        found = importlib.metadata.distribution("ns3")
    except importlib.metadata.PackageNotFoundError:
        raise Missing(f"ns-3 is not installed for {sys.executable}: pip install -r validation/requirements.txt")
    if not found.version.startswith(WANTED):
        raise Missing(f"ns-3 {found.version} is installed; the comparison needs {WANTED}")
    return Path(str(found.locate_file("ns3"))), found.version


def library(folder: Path, module: str) -> Path:
    found = sorted(folder.glob(f"lib64/libns3*-{module}.so")) or sorted(folder.glob(f"lib/libns3*-{module}.so"))
    if not found:
        raise Missing(f"the ns-3 wheel in {folder} has no {module} library")
    return found[0]


def build(quiet: bool = True, name: str = "bulk") -> Path:
    """Returns the path of the compiled program; compiles it if something has changed."""
    sources = [HERE / f"{name}.cc", HERE / "watch.h"]
    folder, version = wheel()
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler is None:
        raise Missing("a C++ compiler is missing: install g++ 12 or later, or set CXX")
    libraries = [library(folder, module) for module in MODULES]
    ingredients = [
        *[path.read_bytes() for path in sources],
        version.encode(),
        str(folder).encode(),
        compiler.encode(),
        " ".join(FLAGS).encode(),
    ]
    program = HERE / "build" / f"{name}-{hashlib.sha256(b'|'.join(ingredients)).hexdigest()[:12]}"
    if program.exists():
        return program
    program.parent.mkdir(exist_ok=True)
    unfinished = program.with_suffix(f".{os.getpid()}")
    command = [compiler, *FLAGS, "-isystem", str(folder / "include"), str(sources[0]), "-o", str(unfinished)]
    command += [str(path) for path in libraries]
    command += [f"-Wl,-rpath,{libraries[0].parent}", "-Wl,--allow-shlib-undefined"]
    if not quiet:
        print(f"compiling {sources[0].name} ...", file=sys.stderr)
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{compiler} failed:\n{done.stderr}")
    unfinished.rename(program)
    return program


def main() -> int:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    try:
        print(build(quiet=False))
    except Missing as missing:
        print(f"skipped: {missing}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
