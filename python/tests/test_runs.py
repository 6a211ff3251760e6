"""Runs and their tables."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import matplotlib
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import roughlink as rl
from conftest import Command, results, timeless

from matplotlib.patches import StepPatch

matplotlib.use("Agg")

SAMPLES = ["hello", "cbr-cross-traffic", "charging-session", "charging-firmware", "three-cars"]


@pytest.mark.parametrize("name", SAMPLES)
def test_results_are_those_of_the_command(name: str, command: Command, tmp_path: Path) -> None:
    words = ["run", name, "--json", "--quiet", "--replica", "2", "--set", "duration=20 s"]
    from_command = timeless(results(command(*words, cwd=tmp_path)))
    s = rl.load(name).set("duration", "20 s")
    for series in (False, True):
        assert timeless(s.run(replica=2, series=series, sample="10 ms").result) == from_command


def test_series_are_those_of_the_command(command: Command, tmp_path: Path) -> None:
    out = command("run", "hello", "-o", "out", "--no-capture", "--quiet", "--json", cwd=tmp_path)
    run = rl.load("hello").run(series=True)
    assert timeless(results(out)) == timeless(run.result)
    for name in ("flows", "links", "segments"):
        written = pl.read_parquet(tmp_path / "out" / f"{name}.parquet")
        kept = pl.DataFrame(run.series(name))
        assert kept.equals(written), name
        assert len(written) > 100


def test_a_column_comes_with_its_time() -> None:
    run = rl.load("hello").run(series=True)
    cwnd = run.series("cwnd")
    assert [c.name for c in cwnd.columns] == ["time_ns", "flow", "cwnd_bytes"]
    assert cwnd["cwnd_bytes"] == run.series("flows")["cwnd_bytes"] == pl.DataFrame(cwnd)["cwnd_bytes"].to_list()
    assert cwnd.columns[2].unit == "B" and cwnd.columns[2].meaning == "congestion window"
    queue = run.series("queue")
    assert list(queue) == ["time_ns", "link", "direction", "queue_pkt"] and "direction" in queue
    assert list(queue.head(3).rows()) == list(queue.rows())[:3]
    with pytest.raises(KeyError, match="cwnd_bytes"):
        run.series("cwmd")
    with pytest.raises(ValueError, match="series=True"):
        rl.load("hello").run().series("cwnd")


def test_other_libraries_take_tables() -> None:
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


def test_limits() -> None:
    with pytest.raises(rl.LimitError, match="more than 10 events"):
        rl.load("hello").run(max_events=10)
    with pytest.raises(rl.LimitError, match="series take more than 1 MB"):
        rl.load("hello").run(series=True, max_series=1_000_000)
    with pytest.raises(rl.RoughlinkError, match="no unit"):
        rl.load("hello").run(series=True, sample="3")


def test_runs_in_threads_are_the_same() -> None:
    s = rl.load("charging-download").set("duration", "30 s")
    expected, found = timeless(s.run().result), []
    threads = [threading.Thread(target=lambda: found.append(timeless(s.run().result))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert found == [expected] * 4


def test_pictures() -> None:
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
    with subprocess.Popen(program, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        time.sleep(1)
        child.send_signal(signal.SIGINT)
        try:
            _, said = child.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            child.kill()
            raise
    assert said.strip().endswith("KeyboardInterrupt"), said
