"""Sweeps whose transfers this machine's kernel carries."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import roughlink as rl
from conftest import Command, default_signals, said
from test_sweeps import SCENARIO

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


def cable() -> rl.Scenario:
    """Returns a transfer of half a second."""
    return rl.scenario(SCENARIO).set("flow.download.bytes", "300 kB")


@pytest.fixture
def supported(command: Command, tmp_path: Path) -> None:
    """Skips the test if this build or this machine lacks a requirement; a failure to load fails the test."""
    check = command("cc", "check", "--json", cwd=tmp_path)
    if "make kernel" in check.stderr:
        pytest.skip("this build lacks the algorithms for the Linux kernel")
    for need in json.loads(check.stdout):
        if need["name"] != "load" and need["fix"] is not None:
            pytest.skip(f"{need['name']}: {need['found']}")
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        pytest.skip("no access to /dev/net/tun")


@pytest.mark.usefixtures("supported")
def test_kernel_carries_a_sweep(tmp_path: Path) -> None:
    ccs = ["cubic", "newreno-sc"]
    carried = rl.sweep(cable(), {"tcp.cc": ccs}, replicas=2, folder=tmp_path / "kernel", stack="kernel")
    simulated = rl.sweep(cable().set("tcp.stack", "linux"), {"tcp.cc": ccs}, replicas=2, folder=tmp_path / "simulated")
    assert carried.result["stacks"] == ["kernel"]
    for row, other in zip(carried.summary().rows(), simulated.summary().rows(), strict=True):
        assert row["values"] == 2 and 0.1 < row["mean"] < 5, row
        assert row["mean"] != other["mean"], "one is a simulation"
    # A second measurement would give other values.
    again = rl.sweep(cable(), {"tcp.cc": ccs}, replicas=2, folder=tmp_path / "kernel", stack="kernel")
    assert again.result["cells"] == carried.result["cells"]
    read = rl.read(tmp_path / "kernel")
    assert isinstance(read, rl.Sweep) and read.summary() == carried.summary()
    with pytest.raises(rl.RoughlinkError, match="neither roughlink nor this kernel provides `cubic`"):
        rl.sweep(cable(), {"tcp.cc": "cubic{beta=0.6}"}, folder=tmp_path / "unknown", stack="kernel")
    with pytest.raises(rl.RoughlinkError, match="`download`.*`tcp.initial_window` is decided by the kernel"):
        rl.sweep(cable(), {"tcp.initial_window": 3}, folder=tmp_path / "refused", stack="kernel")


LONG = """
from pathlib import Path
import roughlink as rl
from roughlink import _native
s = rl.scenario(Path("cable.toml").read_text()).set("duration", "600 s")
plan = _native.sweep(s._native, [("tcp.cc", ["newreno-sc"])], 4, None, [], 10, on_kernel=True)
plan.work("kept", 2, None, lambda *told: print("runs", told[1], flush=True), None, [])
"""


@pytest.mark.usefixtures("supported")
def test_ctrl_c_ends_runs_on_the_kernel(tmp_path: Path) -> None:
    (tmp_path / "cable.toml").write_text(SCENARIO)
    program, pipe = [sys.executable, "-c", LONG], subprocess.PIPE
    with subprocess.Popen(
        program, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True, preexec_fn=default_signals
    ) as child:
        assert child.stdout is not None
        reports = [child.stdout.readline() for _ in range(3)]
        loaded = f"r{child.pid}_0"
        assert loaded in AVAILABLE.read_text().split(), reports
        child.send_signal(signal.SIGINT)
        try:
            _, text = child.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            child.kill()
            raise
    assert text.strip().endswith("KeyboardInterrupt"), text
    kept = rl.read(tmp_path / "kept")
    assert isinstance(kept, rl.Sweep) and (len(kept.runs), kept.planned) == (0, 4)
    # The kernel removes the algorithm soon after the process has ended.
    for _ in range(1000):
        if loaded not in AVAILABLE.read_text().split():
            return
        time.sleep(0.01)
    pytest.fail(f"the kernel still has {loaded}")


WITHOUT_RIGHTS = """
import os, tempfile
import roughlink as rl
if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
with tempfile.TemporaryDirectory() as folder:
    try:
        rl.sweep("hello", {}, folder=folder + "/out", stack="kernel")
    except rl.RoughlinkError as e:
        print(e)
"""


def test_error_names_the_missing_requirement(command: Command, tmp_path: Path) -> None:
    has_kernel = "make kernel" not in command("cc", "check", cwd=tmp_path).stderr
    out = subprocess.run([sys.executable, "-c", WITHOUT_RIGHTS], cwd="/", capture_output=True, text=True, check=True)
    text = " ".join(out.stdout.replace("│", "").split())
    if has_kernel:
        assert "measuring the kernel's TCP needs root help: run Python as root;" in text, text
    else:
        assert "this build lacks the algorithms for the Linux kernel (feature `kernel`)" in text, text
        assert "pip install . -C build-args='--features kernel'" in text, text


def test_invalid_kernel_sweeps_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown stack 'linux'; expected 'kernel'"):
        rl.sweep(cable(), {}, folder=tmp_path / "never", stack="linux")
    with pytest.raises(ValueError, match="needs this machine's kernel"):
        rl.sweep(cable(), {}, folder=tmp_path / "never", stack="kernel", engine="ray")
    with pytest.raises(rl.RoughlinkError) as error:
        rl.sweep(cable(), {}, metrics="throughput_mbps[1..2]", folder=tmp_path / "never", stack="kernel")
    assert "`throughput_mbps[1..2]` is not measured on a kernel help: leave out the metric" in said(error)
    assert not (tmp_path / "never").exists()
