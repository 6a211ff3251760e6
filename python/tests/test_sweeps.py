"""Sweeps, and the run store that they share with the command line."""

from __future__ import annotations

import io
import json
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import polars as pl
import pytest
import roughlink as rl
from conftest import Command, default_signals, results, said, timeless

from matplotlib.container import ErrorbarContainer
from roughlink._sweep import _Progress

matplotlib.use("Agg")

VARY: dict[str, Any] = {"tcp.cc": ["newreno", "cubic"], "link.plc.noise.loss": ["0.5 %", "2 %"]}
SCENARIO = """
duration = "10 s"
node = [{ name = "server" }, { name = "car" }]
[[link]]
name = "plc"
between = ["server", "car"]
rate = "5 Mbit/s"
delay = "10 ms"
noise = { kind = "random", loss = "1 %" }
[[flow]]
name = "download"
kind = "bulk"
from = "server"
to = "car"
"""


def runs(folder: Path) -> dict[str, Any]:
    """Returns the records of a run store by key."""
    lines = (folder / "runs.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines[1:] if line.startswith("{")]
    return {r["key"]: timeless(r["result"]) for r in records if "key" in r}


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "cable.toml"
    path.write_text(SCENARIO)
    return path


def test_store_matches_the_command(scenario: Path, command: Command, tmp_path: Path) -> None:
    sets = [word for key, values in VARY.items() for word in ("--set", f"{key}={','.join(values)}")]
    words = ["sweep", "cable.toml", *sets, "--replicas", "4", "--quiet", "--json"]
    from_command = results(command(*words, "-o", "command", cwd=tmp_path))
    swept = rl.sweep(rl.load(scenario), VARY, replicas=4, folder=tmp_path / "python")
    assert runs(tmp_path / "python") == runs(tmp_path / "command") and len(runs(tmp_path / "python")) == 16
    assert swept.result["cells"] == from_command["cells"]
    assert pl.DataFrame(swept.runs).equals(pl.read_parquet(tmp_path / "command" / "runs.parquet"))
    # Command line and Python can continue each other's sweeps, and no run is repeated.
    before = (tmp_path / "command" / "runs.jsonl").read_bytes()
    rl.sweep(rl.load(scenario), VARY, replicas=4, folder=tmp_path / "command")
    assert (tmp_path / "command" / "runs.jsonl").read_bytes() == before
    read = rl.read(tmp_path / "command")
    assert isinstance(read, rl.Sweep) and read.result["cells"] == from_command["cells"]


def test_summaries_match_the_cells(scenario: Path, tmp_path: Path) -> None:
    swept = rl.sweep(rl.load(scenario), VARY, replicas=4, folder=tmp_path / "out")
    rows = list(swept.summary().rows())
    assert [(r["tcp.cc"], r["link.plc.noise.loss"]) for r in rows] == [
        (cc, loss) for cc in VARY["tcp.cc"] for loss in VARY["link.plc.noise.loss"]
    ]
    cells = [c for c in swept.result["cells"] if c["metric"] == swept.metrics[0]]
    for row, cell in zip(rows, cells, strict=True):
        assert row["mean"] == cell["measured"] and row["runs"] == 4
        assert row["high"] - row["mean"] == pytest.approx(cell["ci95"])
        assert row["difference"] == pytest.approx(row["mean"] - rows[0]["mean"])
    assert rows[1]["difference_low"] < rows[1]["difference"] < rows[1]["difference_high"] < 0
    by = swept.summary(by=["tcp.cc"])
    assert by["mean"] == pytest.approx([(rows[i]["mean"] + rows[i + 1]["mean"]) / 2 for i in (0, 2)])
    assert by["runs"] == [8, 8] and by[0]["low"] < by[0]["mean"] < by[0]["high"]
    assert swept.summary(by="tcp.cc") == by
    # A key without effect must not narrow the interval: all its cells have the same random numbers.
    names = rl.sweep(rl.load(scenario), {"name": [f"n{i}" for i in range(5)]}, replicas=4, folder=tmp_path / "names")
    (one,), each = names.summary(by=[]).rows(), names.summary()[0]
    assert [one["low"], one["high"]] == pytest.approx([each["low"], each["high"]])
    with pytest.raises(KeyError, match="not measured"):
        swept.summary("throughput")
    with pytest.raises(KeyError, match="not varied"):
        swept.summary(by=["cc"])
    html = swept._repr_html_()
    assert "<table" in html and "link.plc.noise.loss" in html and ".number" not in html


def test_summaries_have_units_and_other_levels_and_quantiles(scenario: Path, tmp_path: Path) -> None:
    swept = rl.sweep(rl.load(scenario), VARY, replicas=9, folder=tmp_path / "out", metrics="throughput_mbps")
    plain = swept.summary()
    assert isinstance(plain, rl.Table)
    units = {column.name: column.unit for column in plain.columns}
    assert units["mean"] == units["high"] == units["difference_low"] == "Mbit/s" and units["runs"] == ""
    assert units["link.plc.noise.loss.number"] == "%"
    assert plain.to_pandas()["mean"].tolist() == plain["mean"] == [row["mean"] for row in plain.rows()]
    samples = [c["samples"] for c in swept.result["cells"]]
    assert plain["median"] == [sorted(values)[4] for values in samples]
    narrow, wide = swept.summary(level=0.5, quantiles=[0, 0.9]), swept.summary(level=0.99)
    assert narrow["q0"] == [min(values) for values in samples]
    assert narrow["q0.9"] == pytest.approx([np.quantile(values, 0.9) for values in samples])
    for row, less, more in zip(plain.rows(), narrow.rows(), wide.rows(), strict=True):
        # Student's quantiles with 8 degrees of freedom, from a table.
        error = (row["high"] - row["mean"]) / 2.306
        assert less["high"] - less["mean"] == pytest.approx(0.7064 * error, rel=1e-3)
        assert more["mean"] - more["low"] == pytest.approx(3.355 * error, rel=1e-3)
        if row["difference_low"] is not None:
            assert more["difference_low"] < row["difference_low"] < less["difference_low"] < row["difference"]
    (by,) = swept.summary(by=[], quantiles=[1]).rows()
    assert by["low"] < by["median"] < by["q1"]
    for wrong in ({"level": 95}, {"level": 0.0}, {"quantiles": [90]}):
        with pytest.raises(ValueError, match="expected a number"):
            swept.summary(**wrong)


def test_summaries_cover_metrics_that_were_not_asked_for(scenario: Path, tmp_path: Path) -> None:
    every = ["timeouts", "rtt_p95_ms", "completed", "lost@plc.forward", "throughput_mbps@download"]
    swept = rl.sweep(rl.load(scenario), VARY, replicas=4, folder=tmp_path / "out", metrics="throughput_mbps")
    asked = rl.sweep(rl.load(scenario), VARY, replicas=4, folder=tmp_path / "all", metrics=every)
    for metric in every:
        assert swept.summary(metric, level=0.9) == asked.summary(metric, level=0.9)
    columns = [c.name for c in swept.runs.columns if c.type == "float" and c.name in {m["name"] for m in rl.metrics()}]
    assert len(columns) > 10
    for name in columns:
        # A row for each combination of two keys with two values.
        assert len(swept.summary(name)) == 4, name
    with pytest.raises(KeyError, match="voice_mos was not measured"):
        swept.summary("voice_mos")
    with pytest.raises(KeyError, match="speed was not measured: unknown metric"):
        swept.summary("speed")


def test_differences_use_the_given_baseline(scenario: Path, tmp_path: Path) -> None:
    swept = rl.sweep(rl.load(scenario), VARY, replicas=4, folder=tmp_path / "out")
    key = "link.plc.noise.loss"
    assert (swept.unit(key), swept.unit("tcp.cc")) == ("%", None)
    rows = list(swept.summary(against={"tcp.cc": "newreno"}).rows())
    assert [r[f"{key}.number"] for r in rows] == [0.5, 2.0] * 2 and "tcp.cc.number" not in rows[0]
    for cubic, newreno in zip(rows[2:], rows[:2], strict=True):
        assert cubic[key] == newreno[key] and (newreno["difference"], newreno["difference_low"]) == (0, None)
        assert cubic["difference"] == pytest.approx(cubic["mean"] - newreno["mean"])
        assert cubic["difference_low"] < cubic["difference"] < cubic["difference_high"]
    assert swept.summary(against={"tcp.cc": "newreno", key: "0.5 %"}) == swept.summary()
    (_, cubic) = list(swept.summary(by="tcp.cc", against={"tcp.cc": "newreno"}).rows())
    assert cubic == swept.summary(by="tcp.cc")[1]
    with pytest.raises(KeyError, match="is not a key of the rows"):
        swept.summary(by="tcp.cc", against={key: "2 %"})
    with pytest.raises(ValueError, match="tcp.cc was never reno; expected one of newreno, cubic"):
        swept.summary(against={"tcp.cc": "reno"})


def test_differences_are_paired_by_replica(scenario: Path, tmp_path: Path) -> None:
    # A key without effect has a difference of exactly 0, although the replicas differ from each other.
    names = {"name": ["one", "two"], "tcp.cc": ["newreno", "cubic"]}
    swept = rl.sweep(rl.load(scenario), names, replicas=6, folder=tmp_path / "out")
    (one, _, two, _) = list(swept.summary(against={"name": "one"}).rows())
    assert one["low"] < one["mean"] < one["high"] and (two["runs"], two["values"]) == (6, 6)
    assert [two[key] for key in ("difference", "difference_low", "difference_high")] == [0, 0, 0]
    (_, both) = list(swept.summary(by="name").rows())
    assert [both[key] for key in ("difference", "difference_low", "difference_high")] == [0, 0, 0]


def test_unfinished_runs_give_a_median_or_its_bound(scenario: Path, tmp_path: Path) -> None:
    size = {"flow.*.bytes": "1 MB"}
    vary = {**size, "duration": "60 s"}
    whole = rl.sweep(rl.load(scenario), vary, replicas=10, metrics="duration_s", folder=tmp_path / "whole")
    ends = sorted(whole.result["cells"][0]["samples"])
    for finished, known in [(8, True), (3, False)]:
        end = f"{(ends[finished - 1] + ends[finished]) / 2:.9f} s"
        vary = {**size, "duration": end}
        part = rl.sweep(rl.load(scenario), vary, replicas=10, metrics="duration_s", folder=tmp_path / str(finished))
        (row,) = list(part.summary().rows())
        assert (row["mean"], row["values"], row["runs"]) == (None, finished, 10)
        assert row["median"] == (pytest.approx((ends[4] + ends[5]) / 2) if known else None)
        assert row["bound"] == (None if known else pytest.approx(float(end[:-2])))
        assert row["high"] is None


def test_plots_show_the_cells(scenario: Path, tmp_path: Path) -> None:
    swept = rl.sweep(
        rl.load(scenario), VARY, replicas=4, folder=tmp_path / "out", metrics=["throughput_mbps", "timeouts"]
    )
    axes = swept.plot()
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("link.plc.noise.loss, %", "Throughput per flow, Mbit/s")
    drawn = [(bars.get_label(), bars) for bars in axes.containers]
    assert [label for label, _ in drawn] == ["newreno", "cubic"]
    rows = list(swept.summary().rows())
    for n, (_, bars) in enumerate(drawn):
        assert isinstance(bars, ErrorbarContainer)
        line, _, (reach,) = bars.lines
        of = rows[2 * n : 2 * n + 2]
        assert line is not None
        assert np.asarray(line.get_xydata()).tolist() == [[r["link.plc.noise.loss.number"], r["mean"]] for r in of]
        for segment, row in zip(reach.get_segments(), of, strict=True):
            assert [y for _, y in segment] == pytest.approx([row["low"], row["high"]])
    over_algorithms = swept.plot("timeouts", x="tcp.cc", by="tcp.cc")
    assert over_algorithms.get_legend() is None and over_algorithms.get_xlabel() == "tcp.cc"
    assert [label.get_text() for label in over_algorithms.get_xticklabels()] == ["newreno", "cubic"]
    assert swept.plot(axes=axes) is axes and len(axes.containers) == 4
    with pytest.raises(KeyError, match="is not a key of the rows"):
        swept.plot(x="link.plc.noise.loss", by="tcp.cc")
    with pytest.raises(ValueError, match="nothing was varied"):
        rl.sweep(rl.load(scenario), {}, folder=tmp_path / "one").plot()


def test_more_replicas_are_added(scenario: Path, tmp_path: Path) -> None:
    few, many = (rl.sweep(rl.load(scenario), VARY, replicas=n, folder=tmp_path / "out") for n in (2, 3))
    assert (len(few.runs), len(many.runs)) == (8, 12)
    for before, after in zip(few.result["cells"], many.result["cells"], strict=True):
        assert after["samples"][:2] == before["samples"] and len(after["samples"]) == 3
    assert rl.sweep(rl.load(scenario), VARY, replicas=2, folder=tmp_path / "out").summary() == few.summary()


def test_invalid_sweeps_are_refused(
    scenario: Path, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    s = rl.load(scenario.name)
    cases: list[tuple[dict[str, Any], dict[str, Any], list[str]]] = [
        ({"tcp.cx": ["a", "b"]}, {}, ["--set", "tcp.cx=a,b"]),
        ({"tcp.cc": ["cubic", "cubik"]}, {}, ["--set", "tcp.cc=cubic,cubik"]),
        ({}, {"metrics": ["throughput"]}, ["--metric", "throughput"]),
    ]
    for vary, options, words in cases:
        out = command("sweep", "cable.toml", *words, "-o", "never", cwd=tmp_path)
        with pytest.raises(rl.RoughlinkError) as error:
            rl.sweep(s, vary, folder=tmp_path / "never", **options)
        assert out.returncode == 2 and str(error.value).split() == out.stderr.split()
    for values, text in [([], "has no values"), (["cubic", "cubic"], "twice: cubic")]:
        with pytest.raises(ValueError, match=text):
            rl.sweep(s, {"tcp.cc": values}, folder=tmp_path / "never")
    assert not (tmp_path / "never").exists()
    with pytest.warns(UserWarning, match="never starts: the scenario ends first"):
        rl.sweep(s, {"flow.download.start": ["0 s", "20 s"]}, replicas=1, folder=tmp_path / "late")
    helps: list[tuple[dict[str, Any], str]] = [
        ({"replicas": 0}, "help: use replicas=1 or more"),
        ({"max_runs": 5}, "help: vary fewer values, or allow all with max_runs=6"),
        ({"folder": tmp_path / "late"}, "help: name another folder with folder=..., or remove this one"),
    ]
    for options, text in helps:
        with pytest.raises(rl.RoughlinkError) as error:
            rl.sweep(s, {"tcp.cc": ["cubic", "bbr"]}, **{"folder": tmp_path / "never", **options})
        assert text in said(error)
    for name in ("replicas", "seed", "jobs", "max_memory", "max_runs"):
        for number in (-1, 2**64):
            with pytest.raises(ValueError, match=f"^{name} is {number}; expected a whole number from 0 to"):
                rl.sweep(s, {}, folder=tmp_path / "never", **{name: number})  # type: ignore[arg-type]
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("dear")
    with pytest.raises(rl.RoughlinkError, match="letter.txt"):
        rl.sweep(s, VARY, folder=tmp_path / "full")


LONG = """
import sys
import roughlink as rl
s = rl.load("cable.toml").set({"duration": "60 s"})
done = []
def said(*told):
    print("runs", told[1], flush=True)
from roughlink import _native
plan = _native.sweep(s._native, [("seed", [str(n) for n in range(2000)])], 1, None, [], 10000)
plan.work("kept", 2, None, said, None, [])
"""


def test_finished_runs_survive_ctrl_c(scenario: Path, tmp_path: Path) -> None:
    """Ctrl-C stops a sweep in the middle, and the finished runs can be read."""
    program = [sys.executable, "-c", LONG]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        program, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True, preexec_fn=default_signals
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if int(line.split()[1]) >= 20:
                break
        # The finished runs can be read while the sweep continues.
        now = rl.read(tmp_path / "kept")
        assert child.poll() is None
        child.send_signal(signal.SIGINT)
        try:
            _, said = child.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            child.kill()
            raise
    assert said.strip().endswith("KeyboardInterrupt"), said
    kept = runs(tmp_path / "kept")
    then = rl.read(tmp_path / "kept")
    assert isinstance(now, rl.Sweep) and isinstance(then, rl.Sweep)
    assert 20 <= len(now.runs) <= len(then.runs) == len(kept) < then.planned == now.planned == 2000
    assert 20 <= len(kept) < 2000
    s = rl.load(scenario).set("duration", "60 s")
    for result in list(kept.values())[:10]:
        assert timeless(s.set("seed", result["seed"]).run().result) == result


def test_parts_are_merged_into_the_whole_sweep(scenario: Path, tmp_path: Path) -> None:
    whole = rl.sweep(rl.load(scenario), VARY, replicas=4, folder=tmp_path / "whole")
    parts = [tmp_path / name for name in ("first", "second")]
    for number, folder in enumerate(parts, 1):
        part = rl.sweep(rl.load(scenario), VARY, replicas=4, folder=folder, part=f"{number}/2")
        assert (len(part.runs), part.planned) == (8, 16)
    with pytest.raises(rl.RoughlinkError, match="8 of 16 runs are missing, in part 2 of 2"):
        rl.merge(parts[:1], tmp_path / "half")
    merged = rl.merge(parts, tmp_path / "merged")
    assert merged.result["cells"] == whole.result["cells"] and runs(merged.folder) == runs(whole.folder)
    with pytest.raises(rl.RoughlinkError, match="3/2"):
        rl.sweep(rl.load(scenario), VARY, folder=tmp_path / "x", part="3/2")
    with pytest.raises(ValueError, match="ray_address needs engine='ray'"):
        rl.sweep(rl.load(scenario), VARY, folder=tmp_path / "x", ray_address="auto")


def test_progress_is_printed_at_most_five_times_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    for stream, pause, begin in ((Terminal(), 0.2, "\r"), (io.StringIO(), 60.0, "")):
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
        now = 0.0
        shown = _Progress(True)
        for k in range(1, 1001):
            now = k * pause / 10
            shown.report(1000, k, 0, 1000, k)
        shown.end()
        said = stream.getvalue()
        assert 99 <= said.count(" of 1000 runs") <= 101 and said.startswith(f"{begin}10 of 1000 runs"), said[:200]
        assert ("\r" in said) == bool(begin) and said.endswith("\n")
    silent = io.StringIO()
    monkeypatch.setattr(sys, "stderr", silent)
    _Progress(False).report(10, 10, 0, 10, 10)
    assert silent.getvalue() == ""


class Halving(rl.CongestionControl):
    """Reno without slow start."""

    made = 0
    fails = False

    def __init__(self, flow: rl.Flow) -> None:
        super().__init__(flow)
        Halving.made += 1

    def on_ack(self, flow: rl.Flow, ack: rl.Ack) -> None:
        if Halving.fails:
            raise ZeroDivisionError("on purpose")
        if ack.may_grow:
            self.cwnd += flow.mss * ack.acked / self.cwnd

    def on_congestion(self, flow: rl.Flow, cause: rl.Congestion) -> None:
        self.cwnd = max(self.cwnd / 2, 2 * flow.mss)


def test_sweeps_take_python_algorithms_with_a_version(scenario: Path, tmp_path: Path) -> None:
    given = rl.load(scenario)
    vary = {"tcp.cc": ["halving", "cubic"], "link.plc.noise.loss": ["0.5 %", "2 %"]}

    def swept(version: str, folder: str = "out") -> rl.Sweep:
        before = Halving.made
        found = rl.sweep(given, vary, replicas=2, folder=tmp_path / folder, cc={"halving": (Halving, version)})
        made.append(Halving.made - before)
        return found

    made: list[int] = []
    first = swept("v1")
    assert made[-1] == 4, "a sending end in each of four runs; the other end only receives"
    assert [row["tcp.cc"] for row in first.summary().rows()] == ["halving-v1", "halving-v1", "cubic", "cubic"]
    rl.register("halving-by-hand", Halving)
    alone = given.set({"tcp.cc": "halving-by-hand", "link.plc.noise.loss": "2 %"}).run(replica=1)
    (stored,) = [
        row["throughput_mbps"]
        for row in first.runs.rows()
        if (row["tcp.cc"], row["link.plc.noise.loss"], row["replica"]) == ("halving-v1", "2 %", 1)
    ]
    assert [stored] == alone.flows["throughput_mbps"]
    assert swept("v1").result == first.result and made[-1] == 0
    assert isinstance(rl.read(tmp_path / "out"), rl.Sweep)
    # Another version runs again.
    assert swept("v2").runs["tcp.cc"][0] == "halving-v2" and made[-1] == 4
    assert swept("v1").result == first.result and made[-1] == 0
    Halving.fails = True
    try:
        with pytest.raises(ZeroDivisionError, match="on purpose"):
            swept("v3", "failing")
    finally:
        Halving.fails = False
    assert len(swept("v3", "failing").runs) == 8
    with pytest.raises(ValueError, match="no value in vary uses the algorithm 'halving'"):
        rl.sweep(given, {"tcp.cc": ["cubic"]}, cc={"halving": (Halving, "v1")})
    with pytest.raises(ValueError, match="cc needs engine='local'"):
        rl.sweep(given, vary, cc={"halving": (Halving, "v1")}, engine="ray")
    wrong: Any = {"halving": Halving}
    with pytest.raises(TypeError, match="a class and a version"):
        rl.sweep(given, vary, cc=wrong)
    both = [rl.sweep(given, vary, replicas=2, folder=tmp_path / part, part=f"{part}/2", cc={"halving": (Halving, "v1")})
            for part in "12"]  # fmt: skip
    whole = rl.merge([part.folder for part in both], tmp_path / "merged", cc={"halving": (Halving, "v1")})
    assert whole.result["cells"] == first.result["cells"]
    with pytest.raises(rl.RoughlinkError, match=r"sweep\(cc="):
        rl.sweep(given, {"tcp.cc": ["halving-by-hand"]}, folder=tmp_path / "x")


def test_keys_separated_by_commas_vary_together(scenario: Path, command: Command, tmp_path: Path) -> None:
    keys = "link.plc.rate,link.plc.queue"
    vary: dict[str, list[Any]] = {
        keys: [["5 Mbit/s", "50 pkt"], ("10 Mbit/s", "100 pkt")],
        "tcp.cc": ["newreno", "cubic"],
    }
    swept = rl.sweep(rl.load(scenario), vary, replicas=2, folder=tmp_path / "out")
    rows = list(swept.summary().rows())
    assert [row[keys] for row in rows] == ["5 Mbit/s, 50 pkt"] * 2 + ["10 Mbit/s, 100 pkt"] * 2
    for row in rows:
        rate, queue = row[keys].split(", ")
        alone = rl.load(scenario).set({"link.plc.rate": rate, "link.plc.queue": queue, "tcp.cc": row["tcp.cc"]})
        mean = sum(alone.run(replica=replica).flows["throughput_mbps"][0] for replica in (0, 1)) / 2
        assert row["mean"] == pytest.approx(mean)
    words = ["sweep", "cable.toml", "--set", f'{keys}=["5 Mbit/s","50 pkt"],["10 Mbit/s","100 pkt"]']
    words += ["--set", "tcp.cc=newreno,cubic", "--replicas", "2", "--quiet", "--json", "-o", "command"]
    assert results(command(*words, cwd=tmp_path))["cells"] == swept.result["cells"]
    with pytest.raises(ValueError, match="are 2 keys"):
        rl.sweep(rl.load(scenario), {keys: [["5 Mbit/s"], ["6 Mbit/s"]]})
    with pytest.raises(rl.RoughlinkError, match="`link.plc.rate` is varied twice"):
        rl.sweep(rl.load(scenario), {**vary, "link.plc.rate": ["1 Mbit/s", "2 Mbit/s"]})


def test_folder_takes_other_values_metrics_and_replicas(scenario: Path, tmp_path: Path) -> None:
    first = rl.sweep(rl.load(scenario), VARY, replicas=4, folder=tmp_path / "out")
    more = {**VARY, "link.plc.noise.loss": ["0.5 %", "2 %", "4 %"]}
    before = runs(tmp_path / "out")
    second = rl.sweep(rl.load(scenario), more, replicas=2, folder=tmp_path / "out", metrics="timeouts")
    after = runs(tmp_path / "out")
    assert len(before) == 16 and len(after) == 20 and before.items() < after.items()
    fresh = rl.sweep(rl.load(scenario), more, replicas=2, folder=tmp_path / "fresh", metrics="timeouts")
    assert second.summary() == fresh.summary() and second.runs == fresh.runs
    assert rl.read(tmp_path / "out").summary() == fresh.summary()  # type: ignore[union-attr]
    assert rl.sweep(rl.load(scenario), VARY, replicas=4, folder=tmp_path / "out").summary() == first.summary()
    with pytest.raises(rl.RoughlinkError, match="results of another experiment"):
        rl.sweep(rl.load(scenario), {"link.plc.delay": ["1 ms", "2 ms"]}, folder=tmp_path / "out")


def test_functions_compute_values_from_those_of_other_keys(scenario: Path, tmp_path: Path) -> None:
    def bdp(at: Any) -> str:
        packets = rl.quantity(at["link.plc.rate"]) * 2 * rl.quantity(at["link.plc.delay"]) / 8 / 1500
        return f"{max(round(packets), 1)} pkt"

    s = rl.load(scenario)
    rates = ["5 Mbit/s", "10 Mbit/s", "20 Mbit/s"]
    vary: dict[str, Any] = {"link.plc.queue": bdp, "tcp.cc": ["cubic", "bbr"], "link.plc.rate": rates}
    swept = rl.sweep(s, vary, replicas=1, folder=tmp_path / "out")
    assert {axis["name"] for axis in swept.result["axes"]} == {"tcp.cc", "link.plc.rate,link.plc.queue"}
    assert swept.summary(by="link.plc.rate,link.plc.queue")["link.plc.rate,link.plc.queue"] == [
        "5 Mbit/s, 8 pkt", "10 Mbit/s, 17 pkt", "20 Mbit/s, 33 pkt"
    ]
    for row in range(len(swept.runs)):
        made = swept.scenario(row)
        assert made["link.plc.queue"] == bdp(made)
    # A function of two axes joins them.
    both = {"link.plc.delay": ["1 ms", "10 ms"], "link.plc.rate": rates[:2], "link.plc.queue": bdp}
    joined = rl.sweep(s, both, replicas=1, folder=tmp_path / "both")
    (axis,) = joined.result["axes"]
    assert axis["name"] == "link.plc.delay,link.plc.rate,link.plc.queue" and len(axis["values"]) == 4
    # A function may compute several keys, and read the keys of an earlier function.
    chain = {
        "link.plc.rate": rates[:2],
        "link.plc.queue,link.plc.noise.loss": lambda at: [bdp(at), "3 %"],
        "seed": lambda at: int(at["link.plc.queue"].split()[0]),
    }
    chained = rl.sweep(s, chain, replicas=1, folder=tmp_path / "chain")
    assert [chained.scenario(row)["seed"] for row in (0, 1)] == [8, 17]
    assert chained.scenario(1)["link.plc.noise.loss"] == "3 %"
    with pytest.raises(ValueError, match="reads seed, which a later function"):
        rl.sweep(s, {"link.plc.queue": lambda at: f"{at['seed']} pkt", "seed": lambda at: 7})
    with pytest.raises(ValueError, match="are 2 keys"):
        rl.sweep(s, {"link.plc.queue,seed": lambda at: "9 pkt"})
    # Without other keys it is a constant.
    fixed = rl.sweep(s, {"tcp.cc": ["cubic", "bbr"], "link.plc.queue": lambda at: "9 pkt"}, folder=tmp_path / "fixed")
    assert [axis["name"] for axis in fixed.result["axes"]] == ["tcp.cc"]
    assert fixed.scenario(0)["link.plc.queue"] == "9 pkt"


def test_rows_list_the_combinations(scenario: Path, command: Command, tmp_path: Path) -> None:
    s = rl.load(scenario)
    rows: list[dict[str, Any]] = [
        {"tcp.cc": "mine", "link.plc.rate": "5 Mbit/s", "seed": 7},
        {"tcp.cc": "bbr", "link.plc.rate": "7 Mbit/s", "seed": "8"},
    ]
    swept = rl.sweep(s, rows, replicas=2, folder=tmp_path / "out", cc={"mine": (Gentle, "v1")})
    assert len(swept.runs) == 4
    assert [swept.scenario(row)["link.plc.rate"] for row in range(4)] == ["5 Mbit/s"] * 2 + ["7 Mbit/s"] * 2
    text = "tcp.cc, link.plc.rate, link.plc.noise.loss\ncubic, 5 Mbit/s, 1 %\nbbr, 7 Mbit/s, 2 %\n"
    (tmp_path / "rows.csv").write_text(text)
    words = ["sweep", "cable.toml", "--rows", "rows.csv", "--replicas", "2", "--json", "-q"]
    theirs = results(command(*words, "-o", "theirs", cwd=tmp_path))
    heading, *lines = [[word.strip() for word in line.split(",")] for line in text.splitlines()]
    same = rl.sweep(s, [dict(zip(heading, line)) for line in lines], replicas=2, folder=tmp_path / "same")
    assert same.result["cells"] == theirs["cells"] and len(same.runs) == 4
    assert swept.scenario(0)["tcp.cc"] == "mine-v1" and swept.scenario(3)["seed"] == 8
    cases: list[tuple[Any, str]] = [
        ([{"seed": 1}, {"tcp.cc": "bbr"}], "different keys"),
        ([{"seed": 1}, {"seed": 1}], "a value twice"),
        ({"seed,tcp.cc": [[1, "bbr"], [2]]}, "expected a list of as many values"),
        ({"seed": []}, "no values"),
    ]
    others: list[Any] = ["tcp.cc=cubic", swept.runs]
    for other in others:
        with pytest.raises(TypeError, match="expected a dictionary of keys"):
            rl.sweep(s, other, folder=tmp_path / "wrong")
    (tmp_path / "one.csv").write_text("tcp.cc,link.plc.rate\ncubic,5 Mbit/s\n")
    out = command("sweep", "cable.toml", "--rows", "one.csv", "--set", "tcp.cc=reno,bbr", "-q", cwd=tmp_path)
    assert out.returncode == 2 and "`tcp.cc` is varied twice" in out.stderr
    for wrong, said in cases:
        with pytest.raises(ValueError, match=said):
            rl.sweep(s, wrong, folder=tmp_path / "wrong")


class Gentle(rl.CongestionControl):
    """Reno without a decrease."""

    def on_ack(self, flow: rl.Flow, ack: rl.Ack) -> None:
        if ack.may_grow:
            self.cwnd += flow.mss * ack.acked / self.cwnd

    def on_congestion(self, flow: rl.Flow, cause: rl.Congestion) -> None:
        pass


def test_runs_of_a_sweep_can_be_repeated_with_series(scenario: Path, tmp_path: Path) -> None:
    swept = rl.sweep(rl.load(scenario), VARY, replicas=2, folder=tmp_path / "out")
    for row in (0, 3, -1):
        again = swept.rerun(row)
        assert again.result["flows"][0]["throughput_mbps"] == swept.runs[row]["throughput_mbps"]
        assert len(again.series("cwnd")) > 10
    both = swept.series("cwnd", sample="100 ms", rows=[1, 6])
    assert list(both)[:5] == ["row", "tcp.cc", "link.plc.noise.loss", "replica", "time_ns"]
    assert set(both["row"]) == {1, 6} and set(both["tcp.cc"]) == {"newreno", "cubic"}
    part = swept.rerun(6, sample="100 ms").series("cwnd")
    first = both["row"].index(6)
    assert both["cwnd_bytes"][first:] == part["cwnd_bytes"] and both["time_ns"][first:] == part["time_ns"]
    assert len(set(swept.series("delivered_bytes", sample="1 s")["row"])) == 8
    with pytest.raises(IndexError):
        swept.rerun(8)
    # An unfinished sweep has the rows of its finished runs.
    part2 = rl.sweep(rl.load(scenario), VARY, replicas=2, folder=tmp_path / "part", part="2/3")
    assert [part2.scenario(row)["tcp.cc"] for row in range(len(part2.runs))] == part2.runs["tcp.cc"]
    assert part2.rerun(1).result["replica"] == part2.runs["replica"][1]


def test_sweep_does_not_return_runs_of_another_one(
    scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    s, key = rl.load(scenario), "link.plc.rate"
    monkeypatch.chdir(tmp_path)
    first = rl.sweep(s, {key: ["5 Mbit/s", "10 Mbit/s"]}, replicas=1, folder="out", metrics="throughput_mbps")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert first.scenario(1)[key] == "10 Mbit/s" and len(first.summary("timeouts")) == 2
    part = rl.sweep(s, {key: ["5 Mbit/s", "10 Mbit/s"]}, replicas=3, folder=tmp_path / "part", part="2/3")
    rows = [(row[key], row["replica"]) for row in part.runs.rows()]
    rl.sweep(s, {key: ["5 Mbit/s", "10 Mbit/s"]}, replicas=3, folder=tmp_path / "part")
    with pytest.raises(rl.RoughlinkError, match="has further runs by now: read it again"):
        part.summary("timeouts")
    for n, (rate, replica) in enumerate(rows):
        again = part.rerun(n)
        assert (part.scenario(n)[key], again.result["replica"]) == (rate, replica)
        assert again.result["flows"][0]["throughput_mbps"] == part.runs[n]["throughput_mbps"]
    rl.sweep(s, {key: ["20 Mbit/s", "5 Mbit/s"]}, replicas=1, folder=tmp_path / "out")
    for use in (lambda: first.scenario(0), lambda: first.rerun(0), lambda: first.summary("timeouts")):
        with pytest.raises(rl.RoughlinkError, match=r"no\W+longer\W+has\W+the\W+sweep"):
            use()
    assert first.summary()["mean"] == first.runs["throughput_mbps"]


def test_scenarios_of_a_sweep_can_be_pickled_with_their_files(scenario: Path, tmp_path: Path) -> None:
    (tmp_path / "rates.csv").write_text("time_s,rate_mbps\n0,5\n2,3\n")
    text = scenario.read_text().replace('delay = "10 ms"', 'delay = "10 ms"\ntimeline = { file = "rates.csv" }')
    scenario.write_text(text)
    swept = rl.sweep(scenario, {"tcp.cc": ["cubic", "bbr"]}, replicas=1, folder=tmp_path / "out")
    (tmp_path / "rates.csv").unlink()
    again = pickle.loads(pickle.dumps(swept.scenario(1)))
    assert again.run().result["flows"][0]["throughput_mbps"] == swept.runs["throughput_mbps"][1]


def test_percentiles_are_known_although_some_runs_ended_early(scenario: Path, tmp_path: Path) -> None:
    s = rl.load(scenario).set({"flow.download.bytes": "400 kB", "duration": "1300 ms", "link.plc.noise.loss": "5 %"})
    swept = rl.sweep(s, {"tcp.cc": ["newreno", "bbr"]}, replicas=12, folder=tmp_path / "out", metrics="duration_s:p20")
    (cell, _) = swept.result["cells"]
    row = swept.summary(level=0.8)[0]
    assert 3 < len(cell["samples"]) < 12, "the test needs runs of both kinds"
    assert row["mean"] == cell["measured"] is not None
    few = rl.sweep(s, {"tcp.cc": ["bbr"]}, replicas=5, folder=tmp_path / "few", metrics="rtt_mean_ms:p50")
    (row,) = few.summary(level=0.9).rows()
    samples = few.result["cells"][0]["samples"]
    # Order statistics: 2 of 32 outcomes are outside the range of five values.
    assert (row["low"], row["high"]) == (min(samples), max(samples)) and few.summary()["low"] == [None]
    with pytest.raises(ValueError, match="a value twice"):
        few.summary(quantiles=[0.5, 0.5])


def test_functions_see_values_under_other_names(scenario: Path, tmp_path: Path) -> None:
    s = rl.load(scenario)
    vary: dict[str, Any] = {
        "link.0.rate": ["5 Mbit/s", "10 Mbit/s"],
        "tcp.stack": ["linux", "rfc"],
        "seed": lambda at: round(rl.quantity(at["link.plc.rate"]) / 1e6 + 1000 * rl.quantity(at["tcp.min_rto"])),
    }
    swept = rl.sweep(s, vary, replicas=1, folder=tmp_path / "out")
    assert sorted(swept.scenario(row)["seed"] for row in range(4)) == [205, 210, 1005, 1010]
    # The full name of an own algorithm is known to functions, too.
    own: dict[str, Any] = {"tcp.cc": ["mine", "reno"], "link.*.rate": ["5 Mbit/s", "9 Mbit/s"], "seed": lambda at:
                           round(rl.quantity(at["link.plc.rate"]) / 1e6)}  # fmt: skip
    mine = rl.sweep(s, own, replicas=1, folder=tmp_path / "mine", cc={"mine": (Gentle, "v9")})
    assert sorted(mine.scenario(row)["seed"] for row in range(4)) == [5, 5, 9, 9]
    assert "tcp.cc" in s and "link.plc.noise.mean" not in s and s["name"] == "cable"
    with pytest.raises(ValueError, match="3375000 combinations, more than max_runs=1000"):
        many = [f"{n} Mbit/s" for n in range(1, 151)]
        keys = {"link.plc.rate": many, "seed": range(150), "link.plc.queue": [f"{n} pkt" for n in range(1, 151)]}
        rl.sweep(s, {**keys, "name": lambda at: "x"}, max_runs=1000)
