#!/usr/bin/env python3
"""Compiles bulk.cc, or handover.cc for 3.23, against a release of ns-3 older than the wheel, from its source tree.

Old releases have no wheel, and their build scripts need Python 2. This script compiles only the modules that the
program needs, which takes two to five minutes, and prints the path of the program. Use it with `segments.py --program`,
or with `handover.py --program` for 3.23.
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
        command = [compiler, *flags, "-c", str(source), "-o", str(unfinished)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"cannot compile {source}:\n{done.stderr}")
        unfinished.rename(target)
    return target


def build(release: str, tree: Path) -> Path:
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
    program = folder / ("handover" if release == "3.23" else "bulk")
    own = program.with_suffix(".o")
    own.unlink(missing_ok=True)
    compiled(compiler, HERE / f"{program.name}.cc", own,
             [*flags, f"-DNS3_RELEASE={number}", f'-DNS3_VERSION="{release}"'])
    subprocess.run([compiler, str(own), *map(str, objects), "-lpthread", "-o", str(program)], check=True)
    return program


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("release", choices=["3.23", "3.27", "3.29", "3.30"], help="the release that the tree has")
    parser.add_argument("tree", type=Path, help="root of the source tree of ns-3")
    o = parser.parse_args()
    if not (o.tree / "src" / "internet").is_dir():
        print(f"error: {o.tree} has no src/internet: pass the root of the source tree of ns-3", file=sys.stderr)
        return 2
    try:
        print(build(o.release, o.tree))
    except RuntimeError as failed:
        print(f"error: {failed}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
