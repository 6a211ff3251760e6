"""Result folders: reading gives the same numbers as in the program that wrote them."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib
import pytest
import roughlink as rl
from roughlink import _native
from conftest import Command, said, same, timeless
from test_sweeps import SCENARIO, VARY, runs

matplotlib.use("Agg")

SERIES = ("flows", "links", "segments", "gateways")


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.filterwarnings("ignore::UserWarning")  # flows that would start later; calls are not drawn
@pytest.mark.parametrize("name", ["hello", "hdplc-home"])
def test_run_folder_reads_back(name: str, command: Command, tmp_path: Path) -> None:
    duration = "5 s"
    words = ["run", name, "--set", f"duration={duration}", "--replica", "1", "-o", "out", "--no-capture", "--quiet"]
    assert command(*words, cwd=tmp_path).returncode == 0
    live = rl.load(name).set("duration", duration).run(replica=1, series=True)
    read = rl.read(tmp_path / "out")
    assert isinstance(read, rl.Run)
    assert timeless(read.result) == timeless(live.result) and read.result["wall_s"] > 0
    assert same(read.flows, live.flows) and same(read.links, live.links)
    for series in SERIES:
        assert same(read.series(series), live.series(series)), series
    assert len(read.series("segments")) > 100
    assert (len(read.series("gateways")) > 0) == (name == "hdplc-home")
    assert same(read.series("queue"), live.series("queue"))
    assert repr(read) == repr(live) and read._repr_html_() == live._repr_html_()
    pictures: list[Any] = [read.plot().patches, live.plot().patches]
    drawn = [[list(curve.get_data().values) for curve in curves] for curves in pictures]
    assert drawn[0] == drawn[1] and drawn[0]


def test_broken_series_raise_errors(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert command("run", "hello", "-o", "out", "--no-capture", "--quiet", cwd=tmp_path).returncode == 0
    (tmp_path / "out" / "links.parquet").unlink()
    read = rl.read(tmp_path / "out")
    assert isinstance(read, rl.Run) and len(read.series("cwnd")) > 100
    with pytest.raises(ValueError, match="out has no series `links`"):
        read.series("queue")
    monkeypatch.chdir(tmp_path / "out")
    small = rl.read(".", max_series=1000)
    monkeypatch.chdir(tmp_path)
    assert isinstance(small, rl.Run) and small.flows["delivered_bytes"] == read.flows["delivered_bytes"]
    with pytest.raises(rl.LimitError, match="max_series"):
        small.series("segments")
    flows = tmp_path / "out" / "flows.parquet"
    flows.write_bytes(flows.read_bytes()[:-100])
    damaged = rl.read(tmp_path / "out")
    assert isinstance(damaged, rl.Run)
    with pytest.raises(rl.RoughlinkError) as error:
        damaged.series("cwnd")
    assert "cannot read" in said(error) and "out/flows.parquet`: " in said(error)
    (tmp_path / "out" / "summary.json").write_text("{}")
    with pytest.raises(rl.RoughlinkError) as error:
        rl.read(tmp_path / "out")
    assert "cannot read" in said(error) and "out/summary.json`: missing field" in said(error)


def test_series_belong_to_the_run_that_was_read(command: Command, tmp_path: Path) -> None:
    """The folder may be gone, or have another run, before the series are read."""
    words = ["run", "hello", "--set", "duration=2 s", "-o", "out", "--no-capture", "--quiet"]
    assert command(*words, cwd=tmp_path).returncode == 0
    read = rl.read(tmp_path / "out")
    assert isinstance(read, rl.Run)
    again = pickle.loads(pickle.dumps(read))
    assert same(again.series("flows"), read.series("flows"))
    assert command(*words, "--set", "seed=7", "--force", cwd=tmp_path).returncode == 0
    anew = rl.read(tmp_path / "out")
    assert isinstance(anew, rl.Run) and len(anew.series("links")) > 10
    (tmp_path / "out").rename(tmp_path / "moved")
    for run in (read, anew):
        assert "out` no longer has the run that was read from it: cannot read" in _lost(run)
        # Series that were read before stay available.
        assert len(run.series("links" if run is anew else "flows")) > 10
    (tmp_path / "moved").rename(tmp_path / "out")
    assert len(anew.series("segments")) > 10 and pickle.dumps(anew)
    assert "it now has another run" in _lost(read)


def _lost(run: rl.Run) -> str:
    """Returns the message for a run whose series are no longer in the folder."""
    texts = []
    for wants in (lambda: run.series("segments"), lambda: pickle.dumps(run)):
        with pytest.raises(rl.RoughlinkError) as error:
            wants()
        texts.append(said(error))
    assert texts[0] == texts[1]
    return texts[0]


def test_emulation_keeps_its_additional_fields(command: Command, tmp_path: Path) -> None:
    """The result of an emulation has more fields than a run's, and its series are CSV files."""
    out = command("run", "hello", "--json", "--quiet", cwd=tmp_path)
    (tmp_path / "summary.json").write_text(json.dumps({**json.loads(out.stdout), "lateness_us": {"p99": 12.5}}))
    (tmp_path / "links.csv").write_text("time_s,link\n")
    read = rl.read(tmp_path)
    assert isinstance(read, rl.Run) and read.result["lateness_us"] == {"p99": 12.5} and len(read.links) == 2
    with pytest.raises(ValueError, match="has no series `gateways`"):
        read.series("gateways")


def test_sweep_folder_reads_back(tmp_path: Path) -> None:
    live = rl.sweep(rl.scenario(SCENARIO), VARY, replicas=3, folder=tmp_path / "out")
    read = rl.read(tmp_path / "out")
    assert isinstance(read, rl.Sweep) and read.folder == tmp_path / "out"
    assert read.result == live.result and read.summary() == live.summary() and read.metrics == live.metrics
    assert read.summary(by="tcp.cc") == live.summary(by="tcp.cc")
    assert same(read.runs, live.runs) and read.planned == len(read.runs) == 12
    assert repr(read) == repr(live) and read._repr_html_() == live._repr_html_()
    with pytest.raises(rl.LimitError):
        rl.read(tmp_path / "out", max_series=100)


def test_sweep_without_its_table_is_incomplete(tmp_path: Path) -> None:
    rl.sweep(rl.scenario(SCENARIO), VARY, replicas=1, folder=tmp_path)
    results, table = tmp_path / "results.json", tmp_path / "runs.parquet"
    rows = table.read_bytes()
    table.unlink()
    with pytest.raises(rl.RoughlinkError) as error:
        rl.read(tmp_path)
    assert "` is not a complete result of a sweep or comparison: it has no runs.parquet" in said(error)
    table.write_bytes(rows)
    written = json.loads(results.read_text())
    for experiments, n in ([], 0), (written["experiments"] * 2, 2):
        results.write_text(json.dumps({**written, "experiments": experiments}))
        with pytest.raises(rl.RoughlinkError) as error:
            rl.read(tmp_path)
        assert f"results.json has {n} experiments, not one" in said(error)
    results.write_text(json.dumps(written))
    assert isinstance(rl.read(tmp_path), rl.Sweep)


def test_comparison_folder_reads_back(command: Command, tmp_path: Path) -> None:
    (tmp_path / "cable.toml").write_text(SCENARIO)
    words = ["compare", "cable.toml", "--cc", "newreno,cubic", "--replicas", "3", "-o", "out", "--quiet", "--json"]
    printed = json.loads(command(*words, cwd=tmp_path).stdout)
    read = rl.read(tmp_path / "out")
    assert isinstance(read, rl.Sweep) and read.result == printed and read.planned == len(read.runs) == 6
    rows = list(read.summary().rows())
    assert [row["cc"] for row in rows] == ["newreno", "cubic"]
    assert [row["mean"] for row in rows] == [c["measured"] for c in printed["cells"] if c["metric"] == read.metrics[0]]


def test_paper_folder_reads_back(command: Command, tmp_path: Path) -> None:
    words = ["reproduce", "wave", "start-on-l2", "--quick", "--replicas", "2", "-o", "out", "--quiet"]
    assert command(*words, cwd=tmp_path).returncode == 0
    written = json.loads((tmp_path / "out" / "results.json").read_text())
    read = rl.read(tmp_path / "out")
    assert isinstance(read, rl.Paper) and read.title == written["title"] and read.claims == written["claims"]
    (experiment,) = read.experiments.values()
    assert experiment.result == written["experiments"][0] and experiment.result["stacks"] == ["ns2", "linux"]
    rows = list(experiment.summary().rows())
    assert {row["stack"] for row in rows} == {"ns2", "linux"} and len(rows) > 2
    cells = [cell for cell in experiment.result["cells"] if cell["metric"] == experiment.metrics[0]]
    assert [row["mean"] for row in rows] == [cell["measured"] for cell in cells]
    for html in (read._repr_html_(), experiment._repr_html_()):
        assert "<table" in html
    assert "1 experiments" in repr(read) and "start-on-l2" in repr(experiment)
    # Ignore other files in the folder.
    (tmp_path / "out" / "runs.parquet").write_bytes(b"no table")
    assert isinstance(rl.read(tmp_path / "out"), rl.Paper)


def test_part_folder_reads_back(command: Command, tmp_path: Path) -> None:
    (tmp_path / "cable.toml").write_text(SCENARIO)
    words = ["sweep", "cable.toml", "--set", "tcp.cc=newreno,cubic", "--replicas", "4", "--quiet"]
    assert command(*words, "-o", "whole", cwd=tmp_path).returncode == 0
    assert command(*words, "--part", "2/3", "-o", "part", cwd=tmp_path).returncode == 0
    before = content(tmp_path / "part")
    whole, part = rl.read(tmp_path / "whole"), rl.read(tmp_path / "part")
    assert isinstance(whole, rl.Sweep) and isinstance(part, rl.Sweep)
    assert (len(part.runs), part.planned, len(whole.runs)) == (3, 8, 8)
    assert "3 of 8 runs" in repr(part) and "3 of 8 runs" in part._repr_html_()
    rows = list(whole.runs.rows())
    assert list(part.runs.rows()) == rows[1::3]
    assert [row["runs"] for row in part.summary().rows()] == [1, 2]
    assert part.summary()[0]["mean"] == rows[1]["throughput_mbps"] and part.summary()[0]["low"] is None
    assert part.summary()[1]["mean"] == pytest.approx((rows[4]["throughput_mbps"] + rows[7]["throughput_mbps"]) / 2)
    assert content(tmp_path / "part") == before


def test_finished_runs_of_a_large_sweep_keep_their_files(tmp_path: Path) -> None:
    """Most scenarios of a large sweep are read just before their runs, and their files with them."""
    names = [f"{n}.csv" for n in range(1200)]
    for n, name in enumerate(names):
        (tmp_path / name).write_text(f"time_s,rate_mbps\n0,{1 + n}\n")
    text = SCENARIO.replace("noise = ", 'timeline = { file = "0.csv" }\nnoise = ')
    (tmp_path / "cable.toml").write_text(text)
    plan = _native.sweep(
        rl.load(tmp_path / "cable.toml")._native, [("link.plc.timeline.file", names)], 1, None, [], 2000
    )

    def stop(runs: int, done: int, kept: int, cost: int, spent: int, repeated: int) -> None:
        if done >= 100:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        plan.work(tmp_path / "out", 1, None, stop, None, [])
    read = rl.read(tmp_path / "out")
    assert isinstance(read, rl.Sweep) and 100 <= len(read.runs) == len(runs(tmp_path / "out")) < read.planned == 1200
    assert {row["link.plc.timeline.file"] for row in read.runs.rows()} & set(names[1000:])


def test_parts_of_unknown_origin_are_refused(command: Command, tmp_path: Path) -> None:
    (tmp_path / "cable.toml").write_text(SCENARIO)
    words = ["sweep", "cable.toml", "--set", "tcp.cc=newreno,cubic", "--part", "1/2", "-o", "part", "--quiet"]
    assert command(*words, cwd=tmp_path).returncode == 0
    plan = tmp_path / "part" / "plan.json"
    plan.write_text(plan.read_text().replace('"engine": "', '"engine": "0.'))
    with pytest.raises(rl.RoughlinkError) as error:
        rl.read(tmp_path / "part")
    assert f"part` was made by roughlink 0.{rl.__version__}" in said(error)
    plan.unlink()
    with pytest.raises(rl.RoughlinkError) as error:
        rl.read(tmp_path / "part")
    assert "part` is not finished: it has 3 runs and no plan.json" in said(error)
    store = tmp_path / "part" / "runs.jsonl"
    assert len(runs(store.parent)) == 3
    store.write_text("my own notes\n")
    with pytest.raises(rl.RoughlinkError) as error:
        rl.read(tmp_path / "part")
    assert "part` holds files that are not results" in said(error)


def test_wrong_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("dear")
    for wrong in (tmp_path, tmp_path / "absent", tmp_path / "notes.txt"):
        with pytest.raises(rl.RoughlinkError) as error:
            rl.read(wrong)
        assert f"{wrong.name}`" in said(error) and "with summary.json or results.json" in said(error)
    (tmp_path / "results.json").write_text("[]")
    with pytest.raises(rl.RoughlinkError, match=r"cannot read"):
        rl.read(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["notes.txt", "results.json"]


def test_partly_failed_sweep_shows_the_other_runs(tmp_path: Path) -> None:
    s = rl.load("hello")
    vary: dict[str, Any] = {"tcp.cc": ["newreno", "cubic"], "flow.*.bytes": ["100 kB", "10 MB"]}
    whole = rl.sweep(s, vary, replicas=1, folder=tmp_path / "whole")
    with pytest.raises(rl.LimitError) as error:
        rl.sweep(s, vary, replicas=1, folder=tmp_path / "out", max_memory=1)
    assert said(error).endswith("allow more memory with max_memory=...")
    read = rl.read(tmp_path / "out")
    assert isinstance(read, rl.Sweep) and read.planned == 4 and len(read.runs) == 2
    for row, all_of_it in zip(read.summary().rows(), whole.summary().rows(), strict=True):
        assert row["mean"] == (all_of_it["mean"] if row["runs"] else None)
    # A second call continues after the finished runs.
    again = rl.sweep(s, vary, replicas=1, folder=tmp_path / "out")
    assert again.summary() == whole.summary() and len(again.runs) == 4


def test_runs_are_saved_as_by_the_command(command: Command, tmp_path: Path) -> None:
    s = rl.load("hello").set("flow.download.bytes", "200 kB")
    run = s.run(replica=3)
    saved = run.save(tmp_path / "saved")
    command("run", "hello", "--set", "flow.download.bytes=200 kB", "--replica", "3", "-o", "theirs", "-q", cwd=tmp_path)
    theirs = rl.read(tmp_path / "theirs")
    assert isinstance(theirs, rl.Run) and timeless(saved.result) == timeless(theirs.result) == timeless(run.result)
    assert saved.series("cwnd")["cwnd_bytes"] == theirs.series("cwnd")["cwnd_bytes"]
    names = {path.name for path in (tmp_path / "theirs").iterdir()}
    assert names == {path.name for path in (tmp_path / "saved").iterdir()} and any(n.endswith("pcapng") for n in names)
    for name in names:
        if name.endswith(("pcapng", "csv", "parquet")):
            assert (tmp_path / "saved" / name).read_bytes() == (tmp_path / "theirs" / name).read_bytes(), name
    with pytest.raises(rl.RoughlinkError, match=r"not\W+empty"):
        s.run(folder=tmp_path / "saved")
    again = s.run(folder=tmp_path / "saved", force=True, captures=False, sample="1 s")
    assert len(again.series("cwnd")) < len(theirs.series("cwnd"))
    assert not any(path.name.endswith("pcapng") for path in (tmp_path / "saved").iterdir())
    with pytest.raises(ValueError, match="only a run that this process made"):
        theirs.save(tmp_path / "other")
    with pytest.raises(ValueError, match="only a run that this process made"):
        pickle.loads(pickle.dumps(run)).save(tmp_path / "other")


class Failing(rl.CongestionControl):
    """Fails in the middle."""

    count = 0

    def on_ack(self, flow: rl.Flow, ack: rl.Ack) -> None:
        Failing.count += 1
        if flow.now > 0.2:
            raise RuntimeError("in the middle")
        self.cwnd += flow.mss * (1 + Failing.count % 7)

    def on_congestion(self, flow: rl.Flow, cause: rl.Congestion) -> None:
        pass


def test_python_algorithms_can_be_saved(tmp_path: Path) -> None:
    rl.register("failing", Failing)
    s = rl.load("hello").set({"tcp.cc": "failing", "flow.download.bytes": "2 MB"})
    with pytest.raises(RuntimeError, match="in the middle"):
        s.run(folder=tmp_path / "failed")
    assert not (tmp_path / "failed" / "summary.json").exists()
    with pytest.raises(ValueError, match="a Python algorithm is random"):
        s.set("flow.download.bytes", "50 kB").run().save(tmp_path / "random")
    with pytest.raises(rl.LimitError):
        s.set("tcp.cc", "cubic").run(folder=tmp_path / "limited", max_events=100)


def test_experiments_of_a_paper_show_published_values(command: Command, tmp_path: Path) -> None:
    words = ["reproduce", "v2g", "fig4", "congestion", "fig9-10", "--replicas", "2"]
    command(*words, "--quick", "--quiet", "-o", "v2g", cwd=tmp_path)
    paper = rl.read(tmp_path / "v2g")
    assert isinstance(paper, rl.Paper)
    figure = paper.experiments["v2g/fig4"]
    rows = [row for row in figure.summary().rows() if row["published"] is not None]
    cells = [cell for cell in figure.result["cells"] if cell["published"] is not None]
    assert [row["published"] for row in rows] == [cell["published"] for cell in cells] and len(rows) > 10
    assert all(row["ratio"] == pytest.approx(row["mean"] / row["published"]) for row in rows)
    assert "published" not in paper.experiments["v2g/congestion"].summary()
    axes = figure.plot()
    lines: list[Any] = list(axes.lines)
    crosses = [line for line in lines if line.get_marker() == "x" and len(line.get_xdata())]
    first = figure.result["stacks"][0]
    shown = sorted(float(y) for line in crosses for y in line.get_ydata())
    assert shown == sorted(cell["published"] for cell in cells if cell["stack"] == first)
    assert axes.get_xlabel() == "loss, %" and figure.unit("loss") == "%"
    alpha = paper.experiments["v2g/fig9-10"]
    assert len(alpha.curves()) == sum(len(curve["x"]) for curve in alpha.result["curves"]) > 500
    assert len(alpha.plot().lines) == sum(curve["metric"] == "alpha" for curve in alpha.result["curves"]) == 2
    assert alpha.plot("beta").get_ylabel()


class LateFault(rl.CongestionControl):
    """Fails when hardly any event is left."""

    def on_ack(self, flow: rl.Flow, ack: rl.Ack) -> None:
        self.cwnd = 2 * flow.mss
        if flow.now > 0.5:
            raise RuntimeError("late")

    def on_congestion(self, flow: rl.Flow, cause: rl.Congestion) -> None:
        pass


def test_run_that_raised_leaves_no_results(tmp_path: Path) -> None:
    rl.register("late-fault", LateFault)
    s = rl.load("hello").set({"tcp.cc": "late-fault", "link.wire.rate": "300 kbit/s", "link.wire.delay": "200 ms"})
    for _ in range(2):
        with pytest.raises(RuntimeError, match="late"):
            s.set("duration", "5 s").run(folder=tmp_path / "out")
        with pytest.raises(rl.RoughlinkError):
            rl.read(tmp_path / "out")


def test_compared_scenarios_keep_their_files(command: Command, tmp_path: Path) -> None:
    for name, rate in (("a", 2), ("b", 20)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "t.csv").write_text(f"time_s,rate_mbps\n0,{rate}\n")
        text = SCENARIO.replace('delay = "10 ms"', 'delay = "10 ms"\ntimeline = { file = "t.csv" }')
        (tmp_path / name / "s.toml").write_text(text.replace("loss = \"1 %\"", "loss = \"0 %\""))
    command("compare", "a/s.toml", "b/s.toml", "--replicas", "1", "-o", "out", "-q", cwd=tmp_path)
    both = rl.read(tmp_path / "out")
    assert isinstance(both, rl.Sweep)
    for row, most in ((0, 2), (1, 20)):
        again = both.scenario(row).set("seed", 9).run().flows["throughput_mbps"][0]
        assert 0.5 * most < again < most


def test_metrics_of_a_folder_need_no_python_class(tmp_path: Path) -> None:
    program = f"""
import roughlink as rl
class Mine(rl.CongestionControl):
    def on_ack(self, flow, ack): self.cwnd = 4 * flow.mss
    def on_congestion(self, flow, cause): pass
s = rl.load("hello").set("flow.download.bytes", "100 kB")
rl.sweep(s, {{"tcp.cc": ["mine", "cubic"]}}, cc={{"mine": (Mine, "v7")}}, folder={str(tmp_path / "out")!r}, replicas=1)
"""
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    found = rl.read(tmp_path / "out")
    assert isinstance(found, rl.Sweep) and len(found.summary("timeouts")) == 2
    assert len(found.rerun(1).series("cwnd")) > 10
    with pytest.raises(RuntimeError, match="lacks the Python algorithm 'mine-v7'"):
        found.rerun(0)
