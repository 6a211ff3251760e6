"""Additions to the program that show what an addition costs: a noise, a key of `[tcp]`, an algorithm, an application.

Each is a patch in `dummies/`, with a scenario that uses it. All patches are applied to a copy of the working tree,
which is built once.
"""

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from roughlink_validation.building import ROOT, TARGET, alone, build, say
from roughlink_validation.simulators import Failed

FOLDER = ROOT / "validation" / "dummies"
NAMES = ("noise", "key", "algorithm", "application")
# The form of scenario files, which a test of the scenario crate writes.
FORM = Path("crates/roughlink-scenario/src/form.json")
CRATES = ("roughlink-core", "roughlink-scenario", "roughlink-lab", "roughlink-host", "roughlink-cli")
WRITE_FORM = ["cargo", "test", "-p", "roughlink-scenario", "--lib", "--locked", "form_matches"]


@dataclass(frozen=True)
class Touched:
    """Files that a patch changes: those that count, and tests."""

    files: tuple[str, ...]
    tests: tuple[str, ...]


def patch(name: str) -> Path:
    return FOLDER / f"{name}.patch"


def touched(name: str) -> Touched:
    files = re.findall(r"^diff --git a/(\S+) b/", patch(name).read_text(), re.MULTILINE)
    tests = [file for file in files if re.search(r"(^|/)tests(/|\.rs$)", file)]
    return Touched(tuple(file for file in files if file not in tests), tuple(tests))


def copy(tree: Path) -> None:
    """Copies the files of the working tree that git does not ignore."""
    shutil.rmtree(tree, ignore_errors=True)
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                            capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)


def apply(name: str, tree: Path) -> None:
    # Not as a part of the repository around the copy, in which git would look for the paths.
    alone = os.environ | {"GIT_CEILING_DIRECTORIES": str(tree.parent)}
    done = subprocess.run(["git", "apply", str(patch(name))], cwd=tree, env=alone, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(
            f"validation/dummies/{name}.patch does not apply:\n{done.stderr.strip()}\n"
            f"help: renew validation/dummies/{name}.patch: apply it with `git apply --3way`, resolve the conflicts,\n"
            "      write it with `git diff HEAD -U2 crates`, and undo the changes in `crates`"
        )


def built(tree: Path) -> Path:
    """Returns the program with all additions."""
    copy(tree)
    for name in NAMES:
        apply(name, tree)
    before = (tree / FORM).read_text()
    # The build folder has the dependencies. The program goes elsewhere, so it does not replace the usual one.
    target = tree.parent / "target"
    config = [f"--config=profile.test.package.{name}.opt-level=0" for name in CRATES]
    config.append(f"--config=build.build-dir='{TARGET.resolve()}'")
    variables = os.environ | {"CARGO_TARGET_DIR": str(target), "INSTA_UPDATE": "always"}
    write = subprocess.run([*WRITE_FORM, *config], cwd=tree, env=variables, capture_output=True, text=True)
    if (tree / FORM).read_text() == before:
        said = write.stdout[-2000:] + write.stderr[-4000:]
        raise Failed(f"the patches in validation/dummies do not build: renew them\n{said}")
    return build(tree, target, *config)


def run(program: Path, name: str, *arguments: str) -> dict:
    done = subprocess.run([program, "run", FOLDER / f"{name}.toml", "--json", "--quiet", *arguments],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"validation/dummies/{name}.toml does not run:\n{done.stderr.strip()}")
    return json.loads(done.stdout)


def check(program: Path) -> None:
    """Checks that each addition has its effect."""

    def expect(name: str, what: str, holds: bool) -> None:
        if not holds:
            raise Failed(f"the dummy {name} has no effect: expected {what}")

    line = run(program, "noise")["links"][0]["forward"]
    expect("noise", f"half of {line['packets']} packets to be lost, not {line['lost']}",
           line["packets"] > 100 and abs(line["packets"] / 2 - line["lost"]) <= 1)

    [slow, fast] = (run(program, "key", *more)["flows"][0]["end_s"] for more in (["--set", "tcp.initial_factor=1"], []))
    expect("key", f"less than {slow} s with three times the initial window, not {fast} s", fast < slow - 0.1)

    rate = run(program, "algorithm")["flows"][0]["throughput_mbps"]
    window = 4 * 1448 * 8 / 0.1 / 1e6
    expect("algorithm", f"{window:.3f} Mbit/s with 4 segments per round trip, not {rate}", abs(rate / window - 1) < 0.1)

    ticks = run(program, "application")["flows"][0]
    expect("application", f"10 datagrams of 100 B, not {ticks['segments']} with {ticks['delivered_bytes']} B",
           (ticks["segments"], ticks["delivered_bytes"]) == (10, 1000))


def files_to_add() -> dict[str, Touched]:
    """Builds and runs all additions. Returns the files that each changes."""
    folder = TARGET.resolve() / "structure"
    with alone(folder):
        say("building the program with a dummy noise, key, algorithm and application")
        check(built(folder / "tree"))
    return {name: touched(name) for name in NAMES}
