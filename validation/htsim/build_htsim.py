#!/usr/bin/env python3
"""Compiles bulk.cpp against htsim (Broadcom/csg-htsim), which is fetched with git or taken from a given folder.

Sources and program are kept in validation/htsim/build/, the program under a name that contains a hash of everything it
depends on. Exits with 3 if the sources, git, make or a C++ compiler are missing.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = HERE / "build"
URL = "https://github.com/Broadcom/csg-htsim"
COMMIT = "841d9e7be46bb968eece766aa4b6c044c7799f67"
FLAGS = ["-std=c++11", "-O3", "-Wall", "-Wextra", "-Wno-unused-parameter"]

sys.path.insert(0, str(HERE.parent / "ns3"))
from build import Missing  # noqa: E402


def run(*command: str | Path, **options) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)


def git(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    return run("git", "-C", folder, *arguments, env=os.environ | {"GIT_TERMINAL_PROMPT": "0"})


def fetched() -> Path:
    """Returns a repository that contains the wanted commit, fetched at the first call."""
    repository = BUILD / "csg-htsim"
    repository.mkdir(parents=True, exist_ok=True)
    git(repository, "init", "--quiet", "--bare")
    if git(repository, "cat-file", "-e", f"{COMMIT}:sim").returncode:
        done = git(repository, "fetch", "--quiet", "--depth", "1", URL, COMMIT)
        if done.returncode:
            raise Missing(f"csg-htsim cannot be fetched: {done.stderr.strip().splitlines()[-1]}")
    return repository


def extracted(source: Path) -> Path:
    """Returns a folder with the sources of the simulator: those of the wanted commit, or of a checkout."""
    commit = next((c for c in (COMMIT, "HEAD") if not git(source, "cat-file", "-e", f"{c}:sim").returncode), None)
    if commit is None:
        if not (source / "sim" / "tcp.h").exists():
            raise Missing(f"{source} is neither a git repository nor a checkout of csg-htsim")
        folder, content = BUILD / "sim-checkout", None
    else:
        name = git(source, "rev-parse", f"{commit}:sim").stdout.strip()
        folder, content = BUILD / f"sim-{name[:12]}", ["git", "-C", str(source), "archive", f"{commit}:sim"]
    if (folder / "complete").exists() and content:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    if content is None:
        shutil.copytree(source / "sim", folder)
    else:
        folder.mkdir(parents=True)
        archive = subprocess.run(content, capture_output=True)
        if archive.returncode:
            raise Missing(f"{source} lacks files of csg-htsim: {archive.stderr.decode(errors='replace').strip()}")
        subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    (folder / "complete").touch()
    return folder


def build(source: Path | None = None) -> Path:
    """Returns the path of the compiled program; compiles it if something has changed."""
    for needed in ("git", "make", "g++"):
        if shutil.which(needed) is None:
            raise Missing(f"htsim needs {needed}")
    sources = extracted(source.resolve() if source else fetched())
    if not (sources / "libhtsim.a").exists():
        print("compiling htsim ...", file=sys.stderr)
        # The flags of htsim's own build, which include -O3.
        done = run("make", "-C", sources, f"-j{os.cpu_count()}", "libhtsim.a")
        if done.returncode:
            raise RuntimeError(f"htsim does not compile:\n{done.stderr[-2000:]}")
    driver = HERE / "bulk.cpp"
    ingredients = [driver.read_bytes(), (sources / "libhtsim.a").read_bytes(), " ".join(FLAGS).encode()]
    program = BUILD / f"bulk-{hashlib.sha256(b'|'.join(ingredients)).hexdigest()[:12]}"
    if not program.exists():
        unfinished = program.with_suffix(f".{os.getpid()}")
        done = run("g++", *FLAGS, "-isystem", sources, driver, sources / "libhtsim.a", "-o", unfinished)
        if done.returncode:
            raise RuntimeError(f"{driver.name} does not compile:\n{done.stderr}")
        unfinished.rename(program)
    return program


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--htsim", type=Path, metavar="PATH", help="a git repository or checkout of csg-htsim")
    try:
        print(build(parser.parse_args().htsim))
    except Missing as missing:
        print(f"skipped: {missing}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
