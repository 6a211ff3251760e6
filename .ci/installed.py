"""Tests the installed package with nothing but Python's standard library and no compiler on the path."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import distribution
from pathlib import Path

for name in ("cc", "gcc", "clang", "ld", "cargo", "rustc"):
    assert shutil.which(name) is None, f"{name} is on the path"

import roughlink as rl

about = distribution("roughlink")
root = Path(rl.__file__).parent
assert Path(sys.prefix) in root.parents, root
assert about.version == rl.__version__
assert about.metadata["Requires-Python"] == ">=3.10"
assert about.metadata["License-Expression"] == "MIT OR Apache-2.0"
assert any(url.startswith("Repository, https://") for url in about.metadata.get_all("Project-URL", []))
assert all("extra ==" in needed for needed in about.requires or []), about.requires
files = {path.name for path in about.files or []}
assert {"py.typed", "_native.pyi", "LICENSE-APACHE", "LICENSE-MIT"} <= files, files

run = rl.load("hello").run(series=True)
(throughput,) = run.flows["throughput_mbps"]
assert 9 < throughput < 10, throughput
cwnd = run.series("cwnd")
assert len(cwnd) > 100 and max(cwnd["cwnd_bytes"]) > 10_000
again = pickle.loads(pickle.dumps(run))
assert again.result == run.result and again.series("cwnd")["cwnd_bytes"] == cwnd["cwnd_bytes"]
try:
    rl.load("hello").set("tcp.cc", "cubik")
except rl.ScenarioError as e:
    assert "did you mean `cubic`?" in str(e), e
else:
    raise AssertionError("an invalid value was accepted")

with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    noisy = rl.load("hello").set("link.wire.noise", {"kind": "random", "loss": "1 %"})
    vary = {"tcp.cc": ["newreno", "cubic"], "link.wire.noise.loss": ["0.5 %", "2 %"]}
    swept = rl.sweep(noisy, vary, replicas=2, folder="out", progress=False)
    rows = swept.summary()
    assert len(rows) == 4 and len(swept.runs) == 8 and rows[0]["mean"] > rows[1]["mean"] > 0, rows
    read = rl.read("out")
    assert isinstance(read, rl.Sweep) and read.summary() == rows
    assert list(read.runs.rows()) == list(swept.runs.rows())
    try:
        rl.sweep(noisy, {}, folder="kernel", stack="kernel")
    except rl.RoughlinkError as e:
        assert "this build lacks the algorithms for the Linux kernel" in " ".join(str(e).replace("│", "").split()), e
    else:
        raise AssertionError("a build without the feature `kernel` ran on the kernel")

# The command is the program, and leaves Python.
command = str(Path(sys.executable).with_name("roughlink"))


def said(*words: str) -> str:
    return subprocess.run([command, *words], check=True, capture_output=True, text=True).stdout


assert said("--version").split()[:2] == ["roughlink", rl.__version__]
assert all(name in said("--help") for name in ("run", "sweep", "compare", "report", "merge", "reproduce", "emulate"))
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    assert "Mbit/s" in said("run", "hello", "-q")
    options = ("hello", "--set", "tcp.cc=newreno,cubic", "--replicas", "2", "-q")
    for part in ("1", "2"):
        said("sweep", *options, "--part", f"{part}/2", "-o", f"part{part}")
    said("merge", "part1", "part2", "-o", "whole", "-q")
    said("report", "whole")
    merged = rl.read("whole")
    assert isinstance(merged, rl.Sweep) and len(merged.runs) == 4
    assert "v2g" in said("reproduce")
command = sys.executable
assert "hello" in said("-m", "roughlink", "scenario", "list")

print(f"roughlink {rl.__version__} in Python {sys.version.split()[0]}: {throughput:.3f} Mbit/s")
