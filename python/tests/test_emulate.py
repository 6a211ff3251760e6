"""Emulations: real programs behind the links of a scenario."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import roughlink as rl
from conftest import Command, default_signals, results, said

CABLE: dict[str, Any] = {
    "name": "Cable",
    "duration": "20 s",
    "node": [{"name": "server"}, {"name": "car"}],
    "link": [{"name": "plc", "between": ["server", "car"], "rate": "20 Mbit/s", "delay": "10 ms"}],
}
ECHO = """
import socket
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own.bind(("0.0.0.0", 7000))
data, sender = own.recvfrom(100)
own.sendto(data, sender)
print("received", len(data), "bytes")
"""
PING = """
import os, socket, time
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own.connect((os.environ["ROUGHLINK_SERVER"], 7000))
own.settimeout(0.3)
for _ in range(20):
    begin = time.perf_counter()
    own.send(b"hello")
    try:
        own.recv(100)
        break
    except OSError:  # the server does not listen yet
        time.sleep(0.05)
print(1e3 * (time.perf_counter() - begin))
"""
TOWN = """
duration = "1 s"
node = [{ name = "server", kernel = true }, { name = "car" }, { name = "hut" }]
[[link]]
name = "near"
between = ["server", "car"]
rate = "1 Mbit/s"
delay = "5 ms"
timeline = { file = "delays.csv" }
[[link]]
name = "far"
between = ["server", "hut"]
rate = "1 Mbit/s"
delay = "5 ms"
timeline = { file = "../rates.csv" }
"""
ON_BUSY_MACHINES: dict[str, Any] = {"max_lateness": "10 s"}


@pytest.fixture(scope="module")
def possible(command: Command, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skips the test if this machine cannot emulate."""
    here = results(command("doctor", "--json", cwd=tmp_path_factory.mktemp("doctor")))
    if not (here["namespaces"] is True and here["tun"] is True or here["rootless"] is True):
        pytest.skip(", ".join(f"{name}: {here[name]}" for name in ("namespaces", "tun", "rootless")))


def python(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def shell(text: str) -> list[str]:
    return ["sh", "-c", text]


@pytest.mark.usefixtures("possible")
def test_programs_talk_over_the_link(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    programs = {"server": python(ECHO), "car": python(PING)}
    with warnings.catch_warnings():
        # Without flows, a simulation of the scenario would cause a warning.
        warnings.simplefilter("error")
        run = rl.emulate(CABLE, programs=programs, folder=tmp_path / "out", **ON_BUSY_MACHINES)
    assert capfd.readouterr() == ("", "")
    assert 20 <= float(run.output["car"]) < 1000, "two delays of 10 ms"
    assert run.output["server"] == "received 5 bytes\n"
    assert run.folder == tmp_path / "out" and run.captures == [tmp_path / "out" / "capture.pcapng"]
    assert run.captures[0].read_bytes()[:4] == b"\x0a\x0d\x0d\x0a", "section header of pcapng"
    assert (run.result["name"], run.result["ended"], run.result["faults"]) == ("Cable", "programs", [])
    assert [p["exit_code"] for p in run.result["programs"]] == [0, 0] and run.result["lateness_us"]["p50"] >= 0
    [talk] = [c for c in run.result["conversations"] if c["to"] == "10.0.0.1:7000"]
    assert talk["forward"]["delivered_bytes"] >= 5 and talk["reverse"]["delivered_bytes"] == 5
    assert run.links["direction"] == ["forward", "reverse"]
    links = run.series("links")
    assert links[0]["link"] == "plc" and links[0]["up"] is True and links[0]["delay_ms"] == 10 and len(links) > 1
    assert {c.name: c.unit for c in run.series("lateness").columns}["p50_us"] == "us"
    assert run.series("conversations").columns[0] == links.columns[0]
    with pytest.raises(KeyError, match="unknown series `flows`; expected one of links, conversations, lateness"):
        run.series("flows")
    again = pickle.loads(pickle.dumps(run))
    assert (repr(again), again.output, again.series("links")) == (repr(run), run.output, links)
    read = rl.read(tmp_path / "out")
    assert isinstance(read, rl.Emulation) and read.result == run.result
    assert (read.output, read.captures, read.series("links")) == (run.output, run.captures, links)


@pytest.mark.usefixtures("possible")
@pytest.mark.filterwarnings("ignore:flow `download` does not run")
def test_results_without_a_folder_are_kept_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    run = rl.emulate("hello", kernel=["server", "client"], duration="200 ms", replica=3, **ON_BUSY_MACHINES)
    assert (run.result["ended"], run.result["replica"], run.output) == ("duration", 3, {})
    assert run.folder is None and run.captures == [] and len(run.series("links")) >= 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("possible")
def test_scenario_keeps_its_files_and_overrides(tmp_path: Path) -> None:
    home = tmp_path / "inner"
    home.mkdir()
    (home / "delays.csv").write_text("time_s,delay_ms\n0,25\n")
    (tmp_path / "rates.csv").write_text("time_s,rate_mbps\n0,7\n")
    (home / "town.toml").write_text(TOWN)
    scenario = rl.load(home / "town.toml", allow_outside=True).set("link.far.delay", "3 ms")
    for file in (home / "town.toml", home / "delays.csv", tmp_path / "rates.csv"):
        file.unlink()
    run = rl.emulate(scenario, duration="0.3 s", **ON_BUSY_MACHINES)
    assert run.result["name"] == "town"
    last = {row["link"]: row for row in run.series("links").rows()}
    assert (last["near"]["delay_ms"], last["far"]["rate_mbps"], last["far"]["delay_ms"]) == (25, 7, 3)


@pytest.mark.usefixtures("possible")
def test_failed_program_is_an_error_with_its_output(tmp_path: Path) -> None:
    programs = {"server": shell("exec sleep 60"), "car": shell("echo no such charger >&2; exit 7")}
    with pytest.raises(rl.RoughlinkError) as error:
        rl.emulate(CABLE, programs=programs, folder=tmp_path / "out", **ON_BUSY_MACHINES)
    command = "`sh -c echo no such charger >&2; exit 7` at `car` failed: exit code 7"
    assert str(error.value) == f"{command}; the others were stopped\nno such charger"
    assert (tmp_path / "out" / "summary.json").exists()
    run = rl.emulate(CABLE, programs=programs, check=False, **ON_BUSY_MACHINES)
    codes = {p["node"]: (p["exit_code"], p["stopped"]) for p in run.result["programs"]}
    assert (run.result["ended"], codes["car"], codes["server"][1]) == ("failed", (7, False), True)
    assert run.output == {"server": "", "car": "no such charger\n"}


@pytest.mark.usefixtures("possible")
def test_progress_shows_output_and_addresses(capfd: pytest.CaptureFixture[str]) -> None:
    printing = shell(r"printf '10 %%\r20 %%\nfile| name\n'")
    run = rl.emulate(CABLE, programs={"car": printing}, kernel="server", progress=True, **ON_BUSY_MACHINES)
    assert run.output == {"car": "10 %\r20 %\nfile| name\n"}
    shown = capfd.readouterr().err
    assert "server: 10.0.0.1, fd00::1 at plc0\n" in shown and "car| file| name\n" in shown, shown


@pytest.mark.usefixtures("possible")
def test_lateness_is_a_warning_at_the_call() -> None:
    asking = "for i in 1 2 3; do (echo > /dev/udp/10.0.0.1/9) 2>/dev/null; done; sleep 0.2"
    with pytest.warns(rl.RoughlinkWarning, match="^the link was late: 1 % of packets left late by") as caught:
        run = rl.emulate(CABLE, programs={"car": ["bash", "-c", asking]}, kernel="server", max_lateness="1 ns")
    assert {Path(warning.filename) for warning in caught} == {Path(__file__)}
    assert run.result["faults"] and run.result["max_lateness_ms"] == 1e-6


@pytest.mark.usefixtures("command")
@pytest.mark.filterwarnings("ignore::roughlink.RoughlinkWarning")  # the scenario has no flow and one kernel node
def test_errors_have_the_text_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({}, "× nothing to emulate: the scenario has no kernel node help: name a node with"),
        ({"programs": {"cra": ["true"]}}, "node `cra` help: did you mean `car`?"),
        ({"programs": {"car": ["true"]}, "until": "server"}, "× --until server: no program was given for this node"),
        ({"kernel": "car", "duration": "3"}, "× 3 has no unit ╭─[scenario.toml with overrides:1:12]"),
        ({"kernel": "car", "linger": "soon"}, "× --linger soon: expected a number and a unit"),
        ({"interface": {"cra": "eth1"}}, "node `cra` help: did you mean `car`?"),
    )
    for arguments, expected in cases:
        with pytest.raises(rl.RoughlinkError) as error:
            rl.emulate(CABLE, **arguments)
        assert expected in said(error), said(error)
    with pytest.raises(TypeError) as refused:
        rl.emulate(CABLE, programs={"car": "ls -l"})
    assert str(refused.value) == "programs['car'] is text; expected a list of words: ['sh', '-c', 'ls -l']"
    with pytest.raises(ValueError, match="replica is -1"):
        rl.emulate(CABLE, kernel="car", replica=-1)


@pytest.mark.usefixtures("possible")
def test_results_are_not_replaced(tmp_path: Path) -> None:
    programs = {"car": shell("exit 3")}
    old = rl.emulate(CABLE, programs=programs, folder=tmp_path, captures=False, check=False, **ON_BUSY_MACHINES)
    assert old.captures == [] and len(old.series("links")) >= 2
    with pytest.raises(rl.RoughlinkError, match="the folder is not empty\n  help: name a new or empty folder"):
        rl.emulate(CABLE, programs=programs, folder=tmp_path, check=False)
    assert json.loads((tmp_path / "summary.json").read_text()) == old.result


SINK = """
import socket
with socket.create_server(("", 42000)) as own, own.accept()[0] as connection:
    print(sum(map(len, iter(lambda: connection.recv(65536), b""))), "bytes")
"""


class Still(rl.CongestionControl):
    """Holds a window of ten segments, and counts the acknowledgments."""

    acks = 0

    def on_ack(self, flow: rl.Flow, ack: rl.Ack) -> None:
        Still.acks += 1
        self.cwnd = 10 * flow.mss

    def on_congestion(self, flow: rl.Flow, cause: rl.Congestion) -> None:
        if flow.now > 3:
            raise RuntimeError("it failed on purpose")


def test_python_class_sends_to_a_kernel() -> None:
    if os.geteuid() != 0:
        pytest.skip("an emulation with a Python class needs root")
    rl.register("still", Still)
    keys = {"flow.download.bytes": "500 kB", "flow.download.start": "500 ms", "flow.download.cc": "still"}
    scenario = rl.load("hello").set({**keys, "duration": "20 s"})
    before = Still.acks
    run = rl.emulate(scenario, programs={"client": [sys.executable, "-c", SINK]}, max_lateness="1 s")
    assert run.output == {"client": "500000 bytes\n"} and Still.acks > before + 50
    (flow,) = run.flows.rows()
    # The window of 14,480 bytes leaves once in each round trip of at least 20 ms.
    assert flow["cc"] == "still" and flow["delivered_bytes"] == 500_000 and 3 < flow["throughput_mbps"] < 5.8
    assert run.result["ended"] == "programs" and run.result["programs"][0]["exit_code"] == 0
    with pytest.raises(rl.RoughlinkError, match="exit code 7"):
        rl.emulate(scenario, programs={"client": ["sh", "-c", "exit 7"]}, max_lateness="1 s")
    for wrong, text in [
        ({"programs": {"client": []}}, "expected words"),
        ({"programs": {"client": ["echo", "--exec", "server", "--", "touch", "x"]}}, "none of which is --exec"),
        ({"until": "nobody"}, "expected a node of programs"),
        ({"max_lateness": "-1"}, "max_lateness"),
    ]:
        with pytest.raises(ValueError, match=text):
            rl.emulate(scenario, **wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="writes no folder"):
        rl.emulate(scenario, kernel="client", folder="never")
    # Time-outs begin because nothing answers.
    silent = scenario.set({"link.wire.timeline": "[{ at = '800 ms', up = false }]", "flow.download.bytes": "unlimited"})
    with pytest.raises(RuntimeError, match="on purpose"):
        rl.emulate(silent, programs={"client": [sys.executable, "-c", SINK]}, max_lateness="1 s")


def test_package_without_the_program_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROUGHLINK", raising=False)
    monkeypatch.setattr("roughlink.__main__.PROGRAM", Path("/nowhere/roughlink"))
    with pytest.raises(rl.RoughlinkError, match="built without the program, so it cannot emulate\nhelp: "):
        rl.emulate(CABLE, kernel="car")


LONG = """
import json, sys
import roughlink as rl
programs = {"car": ["sh", "-c", "trap 'echo ended; exit' TERM; echo begun; while :; do sleep 0.05; done"]}
rl.emulate(json.loads(sys.argv[1]), programs=programs, kernel="server", folder=sys.argv[2], max_lateness="10 s")
"""


def start(folder: Path) -> subprocess.Popen[str]:
    """Starts an emulation of 20 s in another process and session, and waits until its program runs."""
    child = subprocess.Popen(
        [sys.executable, "-c", LONG, json.dumps(CABLE), str(folder)],
        env={**os.environ, "MARKER": str(folder)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=default_signals,
    )
    output = folder / "output-car.txt"
    wait_until(lambda: child.poll() is not None or output.exists() and output.read_text() != "")
    return child


def wait_until(is_true: Callable[[], bool]) -> None:
    for _ in range(1000):
        if is_true():
            return
        time.sleep(0.01)
    pytest.fail("waited for more than 10 s")


def marked(marker: Path) -> list[str]:
    """Returns the command lines of the processes of an emulation that :func:`start` began."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"MARKER={marker}".encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text())
        except OSError:  # ended meanwhile
            pass
    return found


@pytest.mark.usefixtures("possible")
def test_ctrl_c_ends_an_emulation(tmp_path: Path) -> None:
    with start(tmp_path / "out") as child:
        os.killpg(child.pid, signal.SIGINT)  # as a terminal does
        _, text = child.communicate(timeout=10)
    assert text.strip().endswith("KeyboardInterrupt") and child.returncode == -signal.SIGINT, text
    assert marked(tmp_path / "out") == []
    run = rl.read(tmp_path / "out")
    assert isinstance(run, rl.Run) and run.result["ended"] == "interrupted"
    assert (tmp_path / "out" / "output-car.txt").read_text() == "begun\nended\n"


@pytest.mark.usefixtures("possible")
def test_emulation_ends_with_the_killed_process(tmp_path: Path) -> None:
    with start(tmp_path / "out") as child:
        assert len(marked(tmp_path / "out")) > 1
        child.kill()
        wait_until(lambda: not marked(tmp_path / "out"))
