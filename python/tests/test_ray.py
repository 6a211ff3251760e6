"""Sweeps on a Ray cluster, and their parts: plans sent together with their files, chunks of runs, one run store.

The cluster is local and has two nodes. A watchdog ends the process of a test that hangs.
"""

from __future__ import annotations

import faulthandler
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import roughlink as rl
from conftest import default_signals
from roughlink import _native, _ray
from roughlink.__main__ import main

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

TRACED = """
duration = "1 s"
[[node]]
name = "a"
[[node]]
name = "b"
[[link]]
name = "l"
between = ["a", "b"]
rate = "2 Mbit/s"
delay = "5 ms"
noise = { kind = "random", loss = "2 %" }
timeline = { file = "rates.csv" }
[[flow]]
name = "f"
kind = "bulk"
from = "a"
to = "b"
"""


@pytest.fixture(autouse=True)
def watchdog() -> Iterator[None]:
    faulthandler.dump_traceback_later(LONGEST_S, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def records(folder: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Returns the runs in a store in the order of their keys, without their wall-clock time. Duplicates are kept."""
    lines = (Path(folder) / "runs.jsonl").read_text().splitlines()[1:]
    found = [json.loads(line) for line in lines]
    for record in found:
        record["result"]["wall_s"] = record["check"] = None
    return sorted(found, key=lambda record: record["key"])


def traced(home: Path) -> rl.Scenario:
    home.mkdir()
    (home / "s.toml").write_text(TRACED)
    (home / "rates.csv").write_text("time_s,rate_mbps\n0,20\n0.4,10\n")
    return rl.load(home / "s.toml")


def plan_of(scenario: rl.Scenario, ccs: list[str], replicas: int) -> _native.Plan:
    return _native.sweep(scenario._native, [("tcp.cc", ccs)], replicas, None, [], 1000)


def remove(home: Path) -> None:
    for file in home.iterdir():
        file.unlink()
    home.rmdir()


def test_pickled_scenario_keeps_its_files(tmp_path: Path) -> None:
    scenario = traced(tmp_path / "home")
    text = scenario.run().result
    packed = pickle.dumps(scenario)
    remove(tmp_path / "home")
    again = pickle.loads(packed)
    assert again == scenario
    result = again.set("seed", again.seed).run().result
    assert {**result, "wall_s": 0} == {**text, "wall_s": 0}


def test_chunks_cover_the_whole_sweep(tmp_path: Path) -> None:
    scenario = traced(tmp_path / "home")
    whole = rl.sweep(scenario, {"tcp.cc": ["cubic", "bbr"]}, replicas=4, folder=tmp_path / "whole")
    plan = plan_of(scenario, ["cubic", "bbr"], 4)
    work = _native.Work(plan, tmp_path / "parts", None)
    description = work.description()
    remove(tmp_path / "home")  # as on another machine
    share = _native.Share(description)
    seen: list[int] = []
    arrived: list[bytes] = []
    while chunk := work.chunk(1, 3):
        seen += chunk[0]
        lines, faults = share.work(chunk[0])
        assert faults == []
        work.keep(lines)
        work.keep(lines)  # a task that was done twice
        arrived.append(lines)
    assert sorted(seen) == list(range(8))
    assert work.progress()[:3] == (8, 8, 0)
    with pytest.raises(rl.RoughlinkError, match="damaged"):
        work.keep(arrived[0].replace(b'"replica":', b'"replicb":'))
    with pytest.raises(rl.RoughlinkError, match=r"in[\s│]+use"):
        _native.Work(plan, tmp_path / "parts", None)
    assert json.loads(work.finish()[1]) == whole.result
    work.close()
    with pytest.raises(RuntimeError, match="closed"):
        work.keep(arrived[0])
    assert records(tmp_path / "parts") == records(whole.folder)
    # A worker rejects the plan of another engine.
    with pytest.raises(rl.RoughlinkError, match="a worker has roughlink"):
        _native.Share(description.replace(_native.engine.encode(), b"0.0.9+0123"))


def test_unassigned_run_is_refused(tmp_path: Path) -> None:
    scenario = rl.load("hello").set("flow.*.bytes", "10 kB")
    work = _native.Work(plan_of(scenario, ["cubic"], 2), tmp_path / "one", None)
    other = _native.Work(plan_of(scenario.set("seed", 7), ["cubic"], 2), tmp_path / "two", None)
    assert work.chunk(1, 1) and other.chunk(1, 1)
    lines, _ = _native.Share(other.description()).work([0])
    with pytest.raises(rl.RoughlinkError, match="a run that it was not given"):
        work.keep(lines)
    work.close()
    other.close()


def test_a_run_that_fails_is_reported(tmp_path: Path) -> None:
    work = _native.Work(plan_of(rl.load("v2g-one-car"), ["cubic"], 2), tmp_path / "x", 10_000)
    lines, faults = _native.Share(work.description()).work([0, 1])
    assert lines == b"" and [ours for ours, _ in faults] == [False, False]
    assert "memory" in faults[0][1]
    work.close()


def test_command_runs_the_sweep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sweep", "hello", "--set", "tcp.cc=cubic,newreno", "--set", "flow.*.bytes=10 kB", "--replicas", "2"]
    assert main([*words, "-o", str(tmp_path / "x")]) == 0
    assert "tcp.cc=newreno: " in capsys.readouterr().out
    assert len(records(tmp_path / "x")) == 4
    assert main(["sweep", "hello", "--set", "tcp.cc=cubik,bbr", "-o", str(tmp_path / "y")]) == 2
    assert "did you mean" in capsys.readouterr().err
    assert main([*words, "--set", "tcp.cc=bbr", "-o", str(tmp_path / "y")]) == 2
    assert "set twice" in capsys.readouterr().err
    for wrong, help in [
        (["--replicas", "0"], "--replicas 1 or more"),
        (["--replicas", "-1"], "replicas is -1"),
        (["--max-runs", "3"], "allow all with --max-runs 4"),
        (["--seed", "7", "-o", str(tmp_path / "x")], "name another folder with -o"),
    ]:
        assert main([*words, "-o", str(tmp_path / "y"), *wrong]) == 2
        assert help in capsys.readouterr().err


def test_unknown_engine_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="unknown engine 'dask'; expected 'local' or 'ray'"):
        rl.sweep("hello", {}, engine="dask")


def test_missing_cluster_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install ray")
    monkeypatch.setattr(_ray, "_ANSWER_S", 1.0)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)

    def refuse(address: str, *reasons: str) -> None:
        with pytest.raises(rl.RoughlinkError, match="no connection to") as error:
            rl.sweep("hello", {}, folder=tmp_path / "x", engine="ray", ray_address=address)
        assert any(reason in str(error.value) for reason in reasons), error.value
        assert "\nhelp: start one with `ray start --head`" in str(error.value)

    with socket.create_server(("", 0)) as server:
        silent = f"127.0.0.1:{server.getsockname()[1]}"
        refuse(silent, "timed out")  # as a firewall, or a head node that does not run
        refuse(f"ray://{silent}", "timed out")

        def greet() -> None:
            with server.accept()[0] as stream:
                stream.sendall(b"SSH-2.0-OpenSSH_9.2p1\r\n")
                stream.recv(100)

        # The two connections before are still in the queue.
        for _ in range(2):
            server.accept()[0].close()
        threading.Thread(target=greet, daemon=True).start()
        refuse(silent, "not Ray")
    refuse(silent, "refused")
    refuse(f"ray://{silent}", "refused")
    refuse("head.invalid:6379", "head.invalid")
    refuse("head.invalid", "Invalid address")
    monkeypatch.setenv("RAY_ADDRESS", silent)
    refuse("auto", "refused")
    # The folder is not in use.
    rl.sweep("hello", {}, folder=tmp_path / "x")


@pytest.fixture
def cluster() -> Iterator[Any]:
    """Starts a cluster of two nodes with one processor each. A test may remove the second node, `victim`."""
    ray: Any = pytest.importorskip("ray", reason="Ray is not installed: pip install ray")
    cluster_utils: Any = pytest.importorskip("ray.cluster_utils")
    found = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        found.victim = found.add_node(num_cpus=1)
        found.wait_for_nodes(timeout=60)
        ray.init(address=found.address, log_to_driver=False)
        yield found
    finally:
        ray.shutdown()
        found.shutdown()


def test_killed_node_neither_loses_nor_repeats_runs(tmp_path: Path, cluster: Any) -> None:
    scenario = traced(tmp_path / "home").set("duration", "400 s")
    scenario = pickle.loads(pickle.dumps(scenario))
    remove(tmp_path / "home")  # driver and workers use the pickled texts of the files
    vary = {"tcp.cc": ["cubic", "bbr", "newreno"]}
    local = rl.sweep(scenario, vary, replicas=40, folder=tmp_path / "local")

    killed = threading.Event()
    store = tmp_path / "ray" / "runs.jsonl"

    def kill() -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if store.exists() and store.read_bytes().count(b"\n") > 10:
                cluster.remove_node(cluster.victim, allow_graceful=False)
                if store.read_bytes().count(b"\n") < 100:
                    killed.set()
                return
            time.sleep(0.02)

    killer = threading.Thread(target=kill)
    killer.start()
    found = rl.sweep(scenario, vary, replicas=40, folder=tmp_path / "ray", engine="ray")
    killer.join(timeout=90)
    assert killed.is_set(), "the sweep is longer than this test"
    assert records(found.folder) == records(local.folder)
    assert found.result == local.result
    # All runs are finished, so neither engine adds any.
    before = store.read_bytes()
    assert rl.sweep(scenario, vary, replicas=40, folder=tmp_path / "ray").result == local.result
    assert rl.sweep(scenario, vary, replicas=40, folder=tmp_path / "ray", engine="ray").result == local.result
    assert store.read_bytes() == before


def test_failures_on_workers_reach_the_caller(tmp_path: Path, cluster: Any) -> None:
    vary = {"tcp.cc": ["cubic", "bbr"]}
    with pytest.raises(rl.LimitError, match="memory"):
        rl.sweep("v2g-one-car", vary, replicas=1, folder=tmp_path / "x", engine="ray", max_memory=10_000)
    # Runs that did not fail are kept, and the folder is no longer in use.
    rl.sweep("v2g-one-car", vary, replicas=1, folder=tmp_path / "x")


def test_busy_cluster_is_reported(tmp_path: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ray, "_WAIT_S", 0.5)
    ray: Any = pytest.importorskip("ray")
    free = tmp_path / "free"

    def occupy(number: int) -> None:
        (tmp_path / f"{number}").touch()
        while not free.exists():
            time.sleep(0.02)

    others = [ray.remote(num_cpus=1)(occupy).remote(number) for number in range(2)]
    while not all((tmp_path / f"{number}").exists() for number in range(2)):
        time.sleep(0.02)
    threading.Timer(3.0, free.touch).start()
    with pytest.warns(rl.RoughlinkWarning, match="no task has started .*: all 2 CPUs are in use"):
        found = rl.sweep("hello", {}, replicas=2, folder=tmp_path / "x", engine="ray")
    assert len(found.runs) == 2
    ray.get(others)


def test_ctrl_c_on_the_driver_loses_nothing(tmp_path: Path, cluster: Any) -> None:
    home = tmp_path / "home"
    traced(home)
    out = tmp_path / "out"
    words = [sys.executable, "-m", "roughlink", "sweep", str(home / "s.toml"),
             "--set", "duration=400 s", "--replicas", "120"]
    words += ["-o", str(out), "--ray", cluster.address]
    pipe = subprocess.PIPE
    driver = subprocess.Popen(words, stderr=pipe, stdout=pipe, text=True, preexec_fn=default_signals)
    store = out / "runs.jsonl"
    try:
        end = time.monotonic() + 90
        while not (store.exists() and store.read_bytes().count(b"\n") > 5):
            assert driver.poll() is None, driver.communicate()
            assert time.monotonic() < end
            time.sleep(0.02)
        before = records(out)
        driver.send_signal(signal.SIGINT)
        _, said = driver.communicate(timeout=60)
    finally:
        driver.kill()
        driver.wait(timeout=10)
    assert driver.returncode == 130, said
    assert "repeat the command to continue" in said
    after = records(out)
    assert 0 < len(before) <= len(after) < 120
    assert all(record in after for record in before)
    # The folder is no longer in use, and the same command continues after the finished runs.
    again = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert again.returncode == 0, again.stderr
    whole = rl.sweep(rl.load(home / "s.toml").set("duration", "400 s"), {}, replicas=120, folder=tmp_path / "whole")
    assert records(out) == records(whole.folder)


LONGEST_S = 240
