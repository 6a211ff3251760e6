"""Runs and their tables."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import matplotlib
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import roughlink as rl
from conftest import Command, default_signals, results, said, same, timeless
from roughlink import _native

from matplotlib.patches import StepPatch

matplotlib.use("Agg")

SAMPLES = ["hello", "cbr-cross-traffic", "charging-session", "charging-firmware", "three-cars"]


@pytest.mark.parametrize("name", SAMPLES)
def test_results_match_the_command(name: str, command: Command, tmp_path: Path) -> None:
    words = ["run", name, "--json", "--quiet", "--replica", "2", "--set", "duration=20 s"]
    from_command = timeless(results(command(*words, cwd=tmp_path)))
    s = rl.load(name).set("duration", "20 s")
    for series in (False, True):
        assert timeless(s.run(replica=2, series=series, sample="10 ms").result) == from_command


def test_threads_do_not_change_results(command: Command, tmp_path: Path) -> None:
    text = 'duration = "5 s"\n[tcp]\nstack = "linux"\n'
    for i in range(5):
        text += f'[[node]]\nname = "a{i}"\n[[node]]\nname = "b{i}"\n'
        text += f'[[link]]\nname = "l{i}"\nbetween = ["a{i}", "b{i}"]\nrate = "{i + 1} Mbit/s"\ndelay = "10 ms"\n'
        text += 'noise = { kind = "random", loss = "1 %" }\n'
        text += f'[[flow]]\nname = "f{i}"\nkind = "bulk"\nfrom = "a{i}"\nto = "b{i}"\n'
    (tmp_path / "apart.toml").write_text(text)
    apart = rl.load(tmp_path / "apart.toml")
    alone = timeless(apart.run(threads=1).result)
    assert len({flow["delivered_bytes"] for flow in alone["flows"]}) == 5
    assert timeless(apart.run(threads=3).result) == alone
    for threads in ("1", "2", "7"):
        out = command("run", "apart.toml", "--json", "--quiet", "--threads", threads, cwd=tmp_path)
        assert timeless(results(out)) == alone, threads


def test_series_match_the_command(command: Command, tmp_path: Path) -> None:
    out = command("run", "hello", "-o", "out", "--no-capture", "--quiet", "--json", cwd=tmp_path)
    run = rl.load("hello").run(series=True)
    assert timeless(results(out)) == timeless(run.result)
    for name in ("flows", "links", "segments"):
        written = pl.read_parquet(tmp_path / "out" / f"{name}.parquet")
        kept = pl.DataFrame(run.series(name))
        assert kept.equals(written), name
        assert len(written) > 100


def test_series_of_a_column_includes_time() -> None:
    run = rl.load("hello").run(series=True)
    cwnd = run.series("cwnd")
    assert [c.name for c in cwnd.columns] == ["time_ns", "flow", "cwnd_bytes"]
    assert cwnd["cwnd_bytes"] == run.series("flows")["cwnd_bytes"] == pl.DataFrame(cwnd)["cwnd_bytes"].to_list()
    assert cwnd.columns[2].unit == "B" and cwnd.columns[2].meaning == "congestion window"
    queue = run.series("queue")
    assert list(queue) == ["time_ns", "link", "direction", "queue_pkt"] and "direction" in queue
    assert list(queue.head(3).rows()) == list(queue.rows())[:3]
    assert list(queue[2:5].rows()) == list(queue.rows())[2:5] and list(queue[-2:].rows()) == list(queue.rows())[-2:]
    assert len(queue[5:2]) == 0
    with pytest.raises(ValueError, match="step 2"):
        queue[::2]
    assert dict(queue) == {name: queue[name] for name in queue}
    with pytest.raises(TypeError, match=r"to_pandas\(\)"):
        pd.DataFrame(queue)
    assert queue.to_pandas().equals(pd.DataFrame.from_arrow(queue))
    with pytest.raises(KeyError, match="cwnd_bytes"):
        run.series("cwmd")
    with pytest.raises(ValueError, match="series=True"):
        rl.load("hello").run().series("cwnd")


def test_other_libraries_read_tables() -> None:
    run = rl.load("hello").run()
    for table in (run.flows, run.links):
        rows = list(table.rows())
        assert pl.DataFrame(table).to_dicts() == rows
        arrow = pa.table(table)
        assert arrow.to_pylist() == rows and len(table) == len(rows)
        assert pd.DataFrame.from_arrow(table).columns.to_list() == [c.name for c in table.columns]
        units = {f.name: f.metadata[b"unit"].decode() for f in arrow.schema}
        assert units == {c.name: c.unit for c in table.columns}
    flow, result = next(run.flows.rows()), run.result["flows"][0]
    assert flow["throughput_mbps"] == result["throughput_mbps"] and flow["rtt_p50_ms"] == result["rtt_ms"]["p50"]
    assert run.links["packets"] == [run.result["links"][0][way]["packets"] for way in ("forward", "reverse")]
    assert all(c.meaning for c in [*run.flows.columns, *run.links.columns])
    with pytest.raises(KeyError, match="throughput_mbps"):
        run.flows["throughput"]


def test_tables_are_not_copied() -> None:
    run = rl.load("hello").run(series=True)
    first, second = (pa.table(run.series("flows")) for _ in range(2))
    addresses = [t["cwnd_bytes"].chunk(0).buffers()[1].address for t in (first, second)]
    assert addresses[0] == addresses[1]


def test_limits_raise_errors() -> None:
    with pytest.raises(rl.LimitError, match=r"more than 10 events.*\n.*allow more events with max_events=\.\.\."):
        rl.load("hello").run(max_events=10)
    with pytest.raises(rl.LimitError) as error:
        rl.load("hello").run(max_memory=1000)
    assert said(error).endswith("allow more memory with max_memory=...")
    with pytest.raises(rl.LimitError, match="series take more than 1 MB"):
        rl.load("hello").run(series=True, max_series=1_000_000)
    with pytest.raises(rl.RoughlinkError, match="no unit"):
        rl.load("hello").run(series=True, sample="3")


@pytest.mark.parametrize("name", ["replica", "max_memory", "max_events", "max_series"])
def test_numbers_out_of_range_are_refused(name: str) -> None:
    s = rl.load("hello")
    for wrong in (-1, 2**64):
        with pytest.raises(ValueError, match=f"^{name} is {wrong}; expected a whole number from 0 to [0-9]+$"):
            s.run(series=True, **{name: wrong})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=f"^{name} is 1.5; expected a whole number$"):
        s.run(series=True, **{name: 1.5})  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore::UserWarning")  # flows that would start later
def test_runs_can_be_copied_and_pickled(command: Command, tmp_path: Path) -> None:
    s = rl.load("hdplc-home").set("duration", "2 s")
    command("run", "hdplc-home", "--set", "duration=2 s", "-o", "out", "--no-capture", "--quiet", cwd=tmp_path)
    folder = rl.read(tmp_path / "out")
    assert isinstance(folder, rl.Run)
    for run in (s.run(series=True), folder):
        expected = {name: run.series(name) for name in ("flows", "links", "segments", "gateways")}
        bytes_of_it = pickle.dumps(run)
        if run is folder:
            (tmp_path / "out").rename(tmp_path / "gone")
        for other in (
            pickle.loads(bytes_of_it),
            copy.copy(pickle.loads(bytes_of_it)),
            copy.deepcopy(pickle.loads(bytes_of_it)),
        ):
            assert other.result == run.result and repr(other) == repr(run)
            assert same(other.flows, run.flows) and same(other.links, run.links)
            assert all(same(other.series(name), table) for name, table in expected.items())
    bare = pickle.loads(pickle.dumps(s.run()))
    assert timeless(bare.result) == timeless(folder.result)
    with pytest.raises(ValueError, match="series=True"):
        bare.series("cwnd")
    changed = copy.deepcopy(folder)
    changed.result["name"] = "other"
    assert folder.result["name"] != "other"


def test_tables_can_be_copied_and_pickled() -> None:
    run = rl.load("hello").run(series=True)
    queue = run.series("queue")
    for table in (run.flows, run.series("flows"), queue, queue.head(7), run.series("gateways"), run.flows.select("cc")):
        for other in (pickle.loads(pickle.dumps(table)), copy.deepcopy(table), copy.copy(table)):
            assert same(other, table) and other.columns == table.columns
    assert pl.DataFrame(pickle.loads(pickle.dumps(queue))).equals(pl.DataFrame(queue))
    integers = pa.ipc.new_stream(sink := pa.BufferOutputStream(), schema := pa.schema([("n", pa.int32())]))
    integers.write_table(pa.table({"n": [1]}, schema=schema))
    integers.close()
    others = (b"no stream", "cannot read the table"), (sink.getvalue().to_pybytes(), "unsupported column type Int32")
    for wrong, said in others:
        with pytest.raises(ValueError, match=said):
            _native.Table.from_ipc(wrong)
    with pytest.raises(ValueError, match="invalid result of a run"):
        _native.Run.from_json("{}", None)


def test_runs_in_processes_give_the_same_results() -> None:
    s = rl.load("hello")
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        other = pool.submit(s.run, replica=1, series=True, sample="10 ms").result(timeout=120)
    run = s.run(replica=1, series=True, sample="10 ms")
    assert timeless(other.result) == timeless(run.result) and same(other.series("flows"), run.series("flows"))


def test_runs_in_threads_give_the_same_results() -> None:
    s = rl.load("charging-download").set("duration", "30 s")
    expected, found = timeless(s.run().result), []
    threads = [threading.Thread(target=lambda: found.append(timeless(s.run().result))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert found == [expected] * 4


def test_plots_show_the_series() -> None:
    run = rl.load("hello").run(series=True)
    axes = run.plot()
    (stairs,) = axes.patches
    assert isinstance(stairs, StepPatch)
    rates: Any = stairs.get_data()[0]
    mean = sum(rates) / 100
    total = run.result["flows"][0]["delivered_bytes"] * 8e-6 / run.result["sim_s"]
    assert mean == pytest.approx(total, rel=1e-6)
    assert axes.get_ylabel() == "throughput, Mbit/s" and run.plot(axes) is axes
    assert "download" in run._repr_html_() and "<table" in run._repr_html_()
    assert "<img" not in rl.load("hello").set("name", "<img src=x>").run()._repr_html_()
    assert "first" in run.series("flows")._repr_html_()
    with pytest.warns(UserWarning, match=r"not drawn.*cross \(cbr\)"):
        rl.load("cbr-cross-traffic").set("duration", "5 s").run(series=True).plot()


ENDLESS = """
import roughlink as rl
s = rl.load("charging-download").set({"duration": "1000000 s", "flow.*.bytes": "unlimited"})
print("ready", flush=True)
WHAT
"""


@pytest.mark.parametrize(
    "what", ["s.run()", "s.run(series=True, sample='1 s')", "rl.sweep(s, {'seed': [1, 2, 3]}, folder='kept', jobs=2)"]
)
def test_ctrl_c_ends_a_long_run(what: str, tmp_path: Path) -> None:
    program = [sys.executable, "-c", ENDLESS.replace("WHAT", what)]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        program, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True, preexec_fn=default_signals
    ) as child:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        time.sleep(1)
        child.send_signal(signal.SIGINT)
        try:
            _, said = child.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            child.kill()
            raise
    assert said.strip().endswith("KeyboardInterrupt"), said


def test_ctrl_c_ends_a_notebook_cell() -> None:
    """The kernel runs cells in its main thread, and continues after an interrupted cell."""
    manager = pytest.importorskip("jupyter_client.manager", reason="Jupyter is not installed")
    pytest.importorskip("ipykernel", reason="Jupyter is not installed")
    kernel = manager.KernelManager()
    kernel.kernel_spec.argv[0] = sys.executable
    kernel.start_kernel()
    client = kernel.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)

        def answer(cell: str, interrupt: bool = False) -> Any:
            asked = client.execute(cell, stop_on_error=False)
            while interrupt and "ready" not in client.get_iopub_msg(timeout=60)["content"].get("text", ""):
                pass
            if interrupt:
                time.sleep(1)
                kernel.interrupt_kernel()
            while (reply := client.get_shell_msg(timeout=60))["parent_header"]["msg_id"] != asked:
                pass
            return reply["content"]

        first, ready, last = ENDLESS.partition('print("ready", flush=True)')
        assert last.strip() == "WHAT" and answer(first)["status"] == "ok"
        for what in (
            "s.run()",
            "rl.sweep(s, {'seed': [1, 2]}, folder=__import__('tempfile').mkdtemp(), progress=False)",
        ):
            stopped = answer(f"{ready}\n{what}", interrupt=True)
            assert (stopped["status"], stopped.get("ename")) == ("error", "KeyboardInterrupt"), stopped
        assert answer("assert rl.load('hello').run().flows['delivered_bytes'] == [10_000_000]")["status"] == "ok"
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)
