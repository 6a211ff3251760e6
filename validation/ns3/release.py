#!/usr/bin/env python3
"""Compiles bulk.cc, handover.cc (3.23) or lan.cc (3.27) against a release of ns-3 older than the wheel.

Old releases have no wheel, and their build scripts need Python 2. This script compiles only the modules that the
program needs from the source tree, which takes two to five minutes, and prints the path of the program. Use bulk with
`segments.py --program` and handover with `handover.py --program`. lan prints the throughput of cars on a CSMA channel.
"""

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODULES = ["core", "network", "internet", "point-to-point", "applications", "traffic-control", "bridge", "stats",
           "csma", "mpi"]
# Later compilers no longer include these headers in others.
FLAGS = ["-std=gnu++17", "-O1", "-w", "-fpermissive", "-DNS3_BUILD_PROFILE_RELEASE",
         *(f"-include{name}" for name in ("limits", "cstdint", "memory", "string", "functional"))]
DEFINED = ["HAVE___UINT128_T", "INT64X64_USE_128", "HAVE_STDINT_H", "HAVE_INTTYPES_H", "HAVE_SYS_TYPES_H",
           "HAVE_SYS_STAT_H", "HAVE_DIRENT_H", "HAVE_STDLIB_H", "HAVE_GETENV", "HAVE_SIGNAL_H", "HAVE_PTHREAD_H",
           "HAVE_RT"]
# Files for other systems, and headers that are not for users.
NOT_COMPILED = ("win32", "sqlite", "int64x64-cairo", "cairo-wide", "omnet", "nsc-")
NOT_INCLUDED = (*NOT_COMPILED, "private", "impl.h", "int64x64-", "fd-reader.h", "realtime", "unix-", "synchronizer.h",
                "wall-clock", "system-")


# The programs, each with a release that it compiles with.
PAIRS = {("handover", "3.23"), ("lan", "3.27"), ("bulk", "3.27"), ("bulk", "3.29"), ("bulk", "3.30")}


def files(source: Path, module: str, ending: str, without: tuple[str, ...]) -> list[Path]:
    folders = [source / module / part for part in ("model", "helper", "utils")]
    found = sorted(path for folder in folders for path in folder.glob(f"*{ending}"))
    return [path for path in found if not any(word in path.name for word in without)]


def headers(source: Path, folder: Path) -> None:
    """Collects the headers of all modules, and writes those that the build scripts of ns-3 generate."""
    folder.mkdir(parents=True, exist_ok=True)
    for module in MODULES:
        for header in files(source, module, ".h", ()):
            (folder / header.name).write_bytes(header.read_bytes())
        names = [header.name for header in files(source, module, ".h", NOT_INCLUDED)]
        included = "".join(f'#include "ns3/{name}"\n' for name in names)
        (folder / f"{module}-module.h").write_text(f"#pragma once\n{included}")
    (folder / "core-config.h").write_text("#pragma once\n" + "".join(f"#define {name} 1\n" for name in DEFINED))


def compiled(compiler: str, source: Path, target: Path, flags: list[str]) -> Path:
    if not target.exists():
        unfinished = target.with_suffix(".tmp")
        run([compiler, *flags, "-c", str(source), "-o", str(unfinished)], f"compile {source}")
        unfinished.rename(target)
    return target


def run(command: list[str], what: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        raise RuntimeError(f"cannot {what}: {command[0]} is not installed")
    if done.returncode != 0:
        raise RuntimeError(f"cannot {what}:\n{done.stderr}")


def build(release: str, tree: Path, name: str) -> Path:
    compiler = os.environ.get("CXX", "g++")
    folder = HERE / "build" / f"ns-{release}"
    (folder / "objects").mkdir(parents=True, exist_ok=True)
    source = tree / "src"
    headers(source, folder / "ns3")
    flags = [*FLAGS, f"-I{folder}"]
    sources = [path for module in MODULES for path in files(source, module, ".cc", NOT_COMPILED)]
    targets = [folder / "objects" / f"{'-'.join(path.relative_to(source).parts)}.o" for path in sources]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(lambda pair: compiled(compiler, *pair, flags), zip(sources, targets)))
    number = "".join(part.zfill(width) for part, width in zip(release.split("."), (1, 2)))
    program = folder / name
    own = program.with_suffix(".o")
    own.unlink(missing_ok=True)
    compiled(compiler, HERE / f"{program.name}.cc", own,
             [*flags, f"-DNS3_RELEASE={number}", f'-DNS3_VERSION="{release}"'])
    run([compiler, str(own), *map(str, objects), "-lpthread", "-o", str(program)], f"link {program}")
    return program


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("release", choices=["3.23", "3.27", "3.29", "3.30"], help="the release that the tree has")
    parser.add_argument("tree", type=Path, help="root of the source tree of ns-3")
    parser.add_argument("--program", choices=["bulk", "handover", "lan"],
                        help="what to build (default: handover for 3.23, otherwise bulk)")
    o = parser.parse_args()
    program = o.program or ("handover" if o.release == "3.23" else "bulk")
    if (program, o.release) not in PAIRS:
        print(f"error: {program} does not compile with {o.release}: see --help", file=sys.stderr)
        return 2
    if not (o.tree / "src" / "internet").is_dir():
        print(f"error: {o.tree} has no src/internet: pass the root of the source tree of ns-3", file=sys.stderr)
        return 2
    try:
        print(build(o.release, o.tree, program))
    except RuntimeError as failed:
        print(f"error: {failed}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
