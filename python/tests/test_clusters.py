"""Files for clusters, executed without a cluster: a job array for Slurm, an indexed Job for Kubernetes.

A short program replaces `sbatch`, and a folder replaces the volume of the pods.
"""

from __future__ import annotations

import argparse
import inspect
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import roughlink as rl
from conftest import same

ROOT = Path(__file__).parents[2]
FILES = ROOT / "packaging/cluster"
PAGE = (ROOT / "docs/how-to/job-arrays.md").read_text()
MERGE = "roughlink merge parts/* -o whole"


def sbatch() -> None:
    """Replaces the program: executes all tasks before it returns. An unknown option is an error."""
    options = argparse.ArgumentParser(allow_abbrev=False)
    for name in ["array", "cpus-per-task", "dependency", "time", "wrap"]:
        options.add_argument(f"--{name}")
    for name in ["parsable", "requeue"]:
        options.add_argument(f"--{name}", action="store_true")
    options.add_argument("script", nargs="?")
    given = options.parse_args()
    text = f"#!/bin/sh\n{given.wrap}" if given.wrap else Path(given.script).read_text()
    assert text.startswith("#!")
    # The command line has precedence over the script.
    given = options.parse_args(shlex.split(" ".join(re.findall("^#SBATCH (.*)", text, re.MULTILINE))) + sys.argv[1:])
    if given.dependency:
        condition, job = given.dependency.split(":")
        assert condition == "afterany" and Path(f"job-{job}").exists()
    job = len([*Path().glob("job-*")]) + 1
    script = Path(f"job-{job}")
    script.write_text(text)
    script.chmod(0o755)
    tasks: dict[str, dict[str, str]] = {f"slurm-{job}.out": {}}
    if given.array:
        ranges = [[*map(int, item.split("-"))] for item in given.array.split(",")]
        numbers = [number for each in ranges for number in range(each[0], each[-1] + 1)]
        tasks = {f"slurm-{job}_{number}.out": {"SLURM_ARRAY_TASK_ID": str(number)} for number in numbers}
    for name, variables in tasks.items():
        environment = {**os.environ, **variables, "SLURM_CPUS_PER_TASK": given.cpus_per_task or "1"}
        with open(name, "w") as output:
            subprocess.run([script.resolve()], env=environment, stdout=output, stderr=output, check=False)
    print(job if given.parsable else f"Submitted batch job {job}")


class Shell:
    """Folder with the scenario, and a search path with `roughlink` and `sbatch`."""

    def __init__(self, home: Path, program: Path) -> None:
        self.home = home
        programs = home / "bin"
        programs.mkdir()
        (programs / "roughlink").symlink_to(program)
        imports = "import argparse, os, re, shlex, subprocess, sys\nfrom pathlib import Path"
        (programs / "sbatch").write_text(f"#!{sys.executable}\n{imports}\n{inspect.getsource(sbatch)}sbatch()\n")
        (programs / "sbatch").chmod(0o755)
        path = f"{programs}{os.pathsep}{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path, "NO_COLOR": "1", "REPLICAS": "100"}
        scenario = re.search(r"^Save as `charger.toml`:\n\n```toml\n(.*?)^```", (ROOT / "README.md").read_text(), FENCE)
        assert scenario
        (home / "charger.toml").write_text(scenario[1].replace('"20 MB"', '"100 kB"'))

    def run(
        self, command: str | list[str], begin: Callable[[], None] | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "-c", command] if isinstance(command, str) else command,
            cwd=self.home,
            env={**self.environment, **variables},
            preexec_fn=begin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def kill(self, command: str | list[str], part: str, **variables: str) -> bytes:
        """Executes a command that the kernel kills while it writes a run. Returns the lines that it wrote before."""
        out = self.run(command, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)), **variables)
        assert out.returncode == -signal.SIGXFSZ, out.stderr
        written = self.store(part)
        kept = written[: written.rindex(b"\n") + 1]
        assert kept.count(b"\n") > 1
        return kept

    def store(self, part: str) -> bytes:
        """Returns the run store of a part."""
        return (self.home / "parts" / part / "runs.jsonl").read_bytes()

    def merged(self) -> rl.Table:
        found = rl.read(self.home / "whole")
        assert isinstance(found, rl.Sweep)
        return found.runs


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    program = os.environ.get("ROUGHLINK")
    if program is None:
        pytest.skip("ROUGHLINK does not name the program")
    return Shell(tmp_path, Path(program).resolve())


def fences(heading: str) -> list[str]:
    """Returns the contents of all fences in a section of the page."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return [textwrap.dedent(text) for text in re.findall(r"^ *```\w*\n(.*?)^ *```", section, FENCE)]


def test_slurm_array_merges_into_the_whole_sweep(shell: Shell) -> None:
    script, submit, again = fences("Slurm")
    assert script == (FILES / "sweep.sbatch").read_text()
    assert MERGE in submit
    (shell.home / "sweep.sbatch").write_text(script)
    vary = {"tcp.cc": ["cubic", "bbr"], "link.plc.noise.start": ["0.1 %", "0.5 %", "2 %"]}
    undivided = rl.sweep(shell.home / "charger.toml", vary, replicas=100, folder=shell.home / "undivided")

    kept = shell.kill(["sh", "sweep.sbatch"], "3", SLURM_ARRAY_TASK_ID="3", SLURM_CPUS_PER_TASK="8")
    out = shell.run(submit)
    assert out.returncode == 0, out.stderr
    # The task that was killed continued after its results.
    assert shell.store("3").startswith(kept)
    assert same(shell.merged(), undivided.runs), (shell.home / "slurm-2.out").read_text()

    for folder in ["parts/3", "parts/17", "whole"]:
        shutil.rmtree(shell.home / folder)
    out = shell.run(MERGE)
    assert out.returncode == 2
    missing = "runs are missing, in parts 3,17 of 20:"
    assert f"60 of 600 {missing}" in out.stderr and missing in PAGE
    out = shell.run(again)
    assert out.returncode == 0, out.stderr
    assert len([*shell.home.glob("slurm-3_*.out")]) == 2
    out = shell.run(MERGE)
    assert out.returncode == 0, out.stderr
    assert same(shell.merged(), undivided.runs)


def test_kubernetes_job_merges_into_the_whole_sweep(shell: Shell) -> None:
    yaml: Any = pytest.importorskip("yaml", reason="PyYAML is not installed: pip install pyyaml")
    text = fences("Kubernetes")[0]
    assert text == (FILES / "sweep.yaml").read_text()
    job = yaml.safe_load(text)
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
    assert re.fullmatch("[a-z0-9-]+", job["metadata"]["name"])
    spec = job["spec"]
    pod = spec["template"]["spec"]
    # Kubernetes accepts backoffLimitPerIndex only with these two.
    assert (spec["completionMode"], pod["restartPolicy"]) == ("Indexed", "Never")
    assert spec["backoffLimitPerIndex"] > 0
    (container,) = pod["containers"]
    (mount,) = container["volumeMounts"]
    assert [volume["name"] for volume in pod["volumes"]] == [mount["name"]]
    assert f"--jobs {container['resources']['limits']['cpu']} " in container["args"][0]
    given = {variable["name"]: variable["value"] for variable in container["env"]}
    assert given == {"REPLICAS": "500"}
    # Kubernetes replaces $(NAME) by the variable NAME of `env`, and leaves all else to the shell.
    words = [
        re.sub(r"\$\(([^)]*)\)", lambda found: given.get(found[1], found[0]), word).replace(
            mount["mountPath"], str(shell.home)
        )
        for word in [*container["command"], *container["args"]]
    ]

    kept = shell.kill(words, "3", JOB_COMPLETION_INDEX="2")
    for index in range(spec["completions"]):
        out = shell.run(words, JOB_COMPLETION_INDEX=str(index))
        assert out.returncode == 0, out.stderr
    assert shell.store("3").startswith(kept)
    out = shell.run(MERGE)
    assert out.returncode == 0, out.stderr
    vary = {"tcp.cc": ["cubic", "bbr"]}
    undivided = rl.sweep(shell.home / "charger.toml", vary, replicas=100, folder=shell.home / "undivided")
    assert same(shell.merged(), undivided.runs)


FENCE = re.DOTALL | re.MULTILINE
