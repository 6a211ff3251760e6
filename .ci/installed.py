"""Tests the installed package with nothing but Python's standard library and no compiler on the path.

``installed.py extras`` has other tests: the environments of the extras ``gym`` and ``agents``, and an emulation if the
machine can run one.
"""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

if sys.argv[1:] != ["extras"]:
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

if sys.argv[1:] == ["extras"]:
    import gymnasium
    import numpy as np
    import roughlink.gym as rg
    from roughlink.multi_agent import TransportParallelEnv

    env = gymnasium.make("roughlink/Transport-v0", scenario="hello", history=2, privileged=True)
    seen, info = env.reset(seed=1)
    assert seen.shape == (2, 9) and info["link_up"]
    many = gymnasium.make_vec("roughlink/Transport-v0", num_envs=8, scenario="hello", autoreset_mode="SameStep")
    many.reset(seed=1)
    assert all(many.step(np.zeros((8, 1), np.float32))[1].shape == (8,) for _ in range(20))
    cars = TransportParallelEnv(rl.load("three-cars").set({"flow.*.start": "0 s", "duration": "2 s"}))
    cars.reset(seed=1)
    steps = 0
    while cars.agents:
        cars.step({agent: np.zeros(1, np.float32) for agent in cars.agents})
        steps += 1
    assert steps > 20
    rl.register("still", lambda flow: rg.Deployed(flow, lambda seen: 0.0))
    (throughput,) = rl.load("hello").set("tcp.cc", "still").run().flows["throughput_mbps"]
    assert 5 < throughput < 6, throughput  # ten segments of 1,448 B in each round trip of 20 ms
    if os.geteuid() == 0 and os.path.exists("/dev/net/tun") and shutil.which("ip"):
        program = [sys.executable, "-c", "print('here')"]
        hello = rl.load("hello").set("duration", "5 s")
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "out"
            emulated = rl.emulate(hello, programs={"client": program}, max_lateness="1 s", folder=out)
            assert emulated.output == {"client": "here\n"} and emulated.captures
    else:
        print("skipped: an emulation: needs root, a TUN device and ip")
    print(f"roughlink {rl.__version__} learns: {steps} steps of three agents")
    sys.exit()

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
    rows = swept.summary(level=0.9, quantiles=[0.9])
    assert len(rows) == 4 and len(swept.runs) == 8 and rows[0]["mean"] > rows[1]["mean"] > 0, rows
    assert next(column.unit for column in rows.columns if column.name == "q0.9") == "Mbit/s"
    read = rl.read("out")
    assert isinstance(read, rl.Sweep) and read.summary(level=0.9, quantiles=[0.9]) == rows
    assert len(read.summary("timeouts")) == 4 and len(read.rerun(5).series("cwnd")) > 100

    def queue(at: Mapping[str, Any]) -> str:
        return f"{int(rl.quantity(at['link.wire.rate']) / 1e5)} pkt"

    rates = {"link.wire.rate": ["5 Mbit/s", "10 Mbit/s"], "link.wire.queue": queue}
    computed = rl.sweep(noisy, rates, replicas=2, folder="computed", progress=False)
    assert [computed.scenario(row)["link.wire.queue"] for row in (0, 3)] == ["50 pkt", "100 pkt"]
    assert noisy["tcp.min_rto"] == noisy.set("seed", 2)["tcp.min_rto"]
    saved = noisy.run(folder="saved")
    assert any(name.endswith(".pcapng") for name in os.listdir("saved")) and len(saved.series("cwnd")) > 100
    parts = [rl.sweep(noisy, vary, replicas=2, folder=f"p{n}", part=f"{n}/2", progress=False).folder for n in (1, 2)]
    assert rl.merge(parts, "merged").summary(level=0.9, quantiles=[0.9]) == rows
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
