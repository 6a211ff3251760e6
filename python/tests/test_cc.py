"""Congestion controls in Python."""

from __future__ import annotations

import copy
import inspect
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import roughlink as rl


class NewReno(rl.CongestionControl):
    """NewReno (RFC 5681) with the arithmetic of Linux."""

    def __init__(self, flow: rl.Flow) -> None:
        super().__init__(flow)
        self.count = 0
        self.prior: tuple[float, float] = (0, rl.UNLIMITED)
        self.note()

    def on_ack(self, flow: rl.Flow, ack: rl.Ack) -> None:
        if not ack.may_grow or ack.segments == 0:
            return
        segments = ack.segments
        if self.cwnd < self.ssthresh:  # slow start, not beyond ssthresh
            grown = min(self.cwnd + segments * flow.mss, self.ssthresh)
            segments -= int(grown - self.cwnd) // flow.mss
            self.cwnd = grown
        if segments > 0:  # a segment more for each window of segments
            window = max(int(self.cwnd) // flow.mss, 1)
            if self.count >= window:
                self.count = 0
                self.cwnd += flow.mss
            self.count += segments
            self.cwnd += self.count // window * flow.mss
            self.count %= window
        self.note()

    def on_congestion(self, flow: rl.Flow, cause: rl.Congestion) -> None:
        if cause != rl.Congestion.TIMEOUT_AGAIN:
            if flow.state in ("open", "disorder"):
                self.prior = self.cwnd, self.ssthresh
            self.ssthresh = max(max(int(self.cwnd) // flow.mss, 1) // 2, 2) * flow.mss
        self.cwnd = flow.mss if cause.is_timeout else self.ssthresh
        self.count = 0
        self.note()

    def on_undo(self, flow: rl.Flow) -> None:
        self.cwnd = max(self.cwnd, self.prior[0])
        self.ssthresh = max(self.ssthresh, self.prior[1])
        self.note()

    def note(self) -> None:
        self.phase = "slow start" if self.cwnd < self.ssthresh else "congestion avoidance"


class AskedNewReno(NewReno):
    """NewReno with a `permit` method, which the sender calls before every segment."""

    def permit(self, flow: rl.Flow) -> rl.Permit:
        return flow.window(int(self.cwnd))


rl.register("py-newreno", NewReno)
rl.register("py-asked", AskedNewReno)


class Fixed(rl.CongestionControl):
    """Algorithm with a constant window."""

    def __init__(self, flow: rl.Flow, segments: int = 4) -> None:
        super().__init__(flow)
        self.cwnd = segments * flow.mss

    def on_ack(self, flow: rl.Flow, ack: rl.Ack) -> None:
        pass

    def on_congestion(self, flow: rl.Flow, cause: rl.Congestion) -> None:
        pass


rl.register("fixed", Fixed)
FIXED = rl.load("hello").set("tcp.cc", "fixed")


def achieved(run: rl.Run) -> dict[str, Any]:
    """Returns a result without the fields that may differ: the wall-clock time and the name of the algorithm."""
    result = {key: value for key, value in run.result.items() if key != "wall_s"}
    result["flows"] = [{**flow, "cc": None} for flow in result["flows"]]
    return result


# Use the `linux` stack, on which the arithmetic of NewReno depends.
LINUX = {"tcp.stack": "linux"}


@pytest.mark.parametrize("name", ["py-newreno", "py-asked"])
@pytest.mark.parametrize(
    "scenario",
    [
        rl.load("hello").set({**LINUX, "link.wire.noise": "{ kind = 'random', loss = '1 %' }"}),
        rl.load("charging-download").set({**LINUX, "duration": "300 s"}),
        rl.load("three-cars").set(LINUX),
        rl.load("satellite-handover").set({**LINUX, "duration": "30 s"}),
        rl.load("train-tunnels").set({**LINUX, "duration": "300 s"}),
    ],
    ids=lambda scenario: str(scenario.name),
)
def test_newreno_in_python_matches_the_built_in_one(scenario: rl.Scenario, name: str) -> None:
    losses = 0
    for replica in range(2):
        rust = scenario.set("tcp.cc", "newreno").run(replica=replica, series=True)
        mine = scenario.set("tcp.cc", name).run(replica=replica, series=True)
        assert achieved(mine) == achieved(rust)
        assert mine.series("cwnd")["cwnd_bytes"] == rust.series("cwnd")["cwnd_bytes"]
        losses += sum(flow["retransmits"] for flow in rust.result["flows"])
    assert losses > 0


def test_class_passed_to_a_run_replaces_the_registered_one() -> None:
    small = FIXED.run()
    large = FIXED.run(cc={"fixed": lambda flow: Fixed(flow, segments=8)})
    assert large.flows["throughput_mbps"][0] > 1.2 * small.flows["throughput_mbps"][0]
    assert achieved(FIXED.run()) == achieved(small)


def test_registering_a_name_again_replaces_the_class() -> None:
    scenario = FIXED.set("duration", "1 s")
    before = scenario.run()
    try:
        rl.register("fixed", lambda flow: Fixed(flow, segments=1))
        assert achieved(scenario.run()) != achieved(before)
    finally:
        rl.register("fixed", Fixed)
    assert achieved(scenario.run()) == achieved(before)


@pytest.mark.parametrize("name", ["cubic", "", "Mine", "a b"])
def test_invalid_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError):
        rl.register(name, Fixed)


def test_classes_without_a_flow_are_refused() -> None:
    with pytest.raises(ValueError, match="is not registered"):
        FIXED.run(cc={"never-heard-of": Fixed})
    with pytest.raises(ValueError, match="no flow"):
        FIXED.run(cc={"py-newreno": NewReno})


class Trouble(Exception):
    pass


def raises(method: str) -> type[rl.CongestionControl]:
    def fails(self: object, *args: object) -> None:
        raise Trouble(method)

    return type("Fails", (Fixed,), {method: fails})


METHODS = [
    "__init__",
    "on_ack",
    "on_congestion",
    "permit",
    "on_sent",
    "on_recovered",
    "timer",
    "rto_sample",
    "starts_anew",
]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("series", [False, True])
def test_exceptions_end_the_run_and_propagate(method: str, series: bool) -> None:
    lossy = FIXED.set("link.wire.noise", "{ kind = 'random', loss = '5 %' }")
    with pytest.raises(Trouble, match=method):
        lossy.run(cc={"fixed": raises(method)}, series=series)


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("cwnd", -1),
        ("cwnd", float("nan")),
        ("cwnd", "10"),
        ("cwnd", None),
        ("ssthresh", -5),
        ("rate_bps", 0),
        ("rate_bps", -1.0),
    ],
)
def test_invalid_values_end_the_run(attribute: str, value: object) -> None:
    class Odd(Fixed):
        def on_ack(self, flow: rl.Flow, ack: rl.Ack) -> None:
            setattr(self, attribute, value)

    with pytest.raises(ValueError, match=attribute):
        FIXED.run(cc={"fixed": Odd})


def test_objects_that_are_no_algorithm_are_refused() -> None:
    with pytest.raises(TypeError, match="expected a roughlink.CongestionControl, found int"):
        FIXED.run(cc={"fixed": lambda flow: 5})  # type: ignore[dict-item, return-value]
    with pytest.raises(TypeError):
        rl.register("five", 5)  # type: ignore[arg-type]


def test_timer_that_does_not_advance_ends_the_run() -> None:
    class Stuck(Fixed):
        def timer(self) -> float:
            return 0.5

    with pytest.raises(ValueError, match="on_timer"):
        FIXED.run(cc={"fixed": Stuck}, max_events=100_000)


def test_timer_fires_at_the_requested_time() -> None:
    times: list[float] = []

    class Timed(Fixed):
        wanted = 0.5

        def timer(self) -> float:
            return self.wanted

        def on_timer(self, flow: rl.Flow) -> None:
            times.append(flow.now)
            self.wanted = flow.now + 0.1

    FIXED.set("duration", "1 s").run(cc={"fixed": Timed})
    assert sorted(set(times)) == pytest.approx([0.5, 0.6, 0.7, 0.8, 0.9, 1.0])


def test_pacing_limits_the_rate() -> None:
    class RateAttribute(Fixed):
        def __init__(self, flow: rl.Flow) -> None:
            super().__init__(flow, segments=100)
            self.rate_bps = 400_000.0

    class RatePermit(Fixed):
        def permit(self, flow: rl.Flow) -> rl.Permit:
            return 100 * flow.mss, 400_000.0

    runs = [FIXED.run(cc={"fixed": algorithm}) for algorithm in (RateAttribute, RatePermit)]
    assert achieved(runs[0]) == achieved(runs[1])
    # The first ten segments leave at once, as in Linux.
    flows = runs[0].flows
    paced = 1 - 10 * 1448 / flows["delivered_bytes"][0]
    assert 0.3 < flows["throughput_mbps"][0] * paced < 0.4


def test_algorithm_gets_flow_and_ack_and_reports_its_phase() -> None:
    seen: list[tuple[rl.Flow, rl.Ack]] = []

    class Looks(Fixed):
        phase = "looking"

        def on_ack(self, flow: rl.Flow, ack: rl.Ack) -> None:
            if ack.acked > 1:  # the receiving end sends only its FIN, which counts as one byte
                seen.append((flow, ack))

    run = FIXED.run(cc={"fixed": Looks}, series=True)
    flow, ack = seen[-1]
    # Views that the algorithm kept do not change later.
    assert seen[0][0].now < flow.now and seen[0][0].delivered < flow.delivered
    assert flow.srtt is not None and flow.min_rtt is not None and 0 < flow.min_rtt <= flow.srtt < 1
    assert ack.rate is not None and 0 < ack.rate.delivered
    assert "looking" in run.series("phase")["phase"]


@pytest.mark.parametrize("view", [rl.Flow, rl.Ack, rl.RateSample, rl.Sent, rl.LinkEvent])
def test_every_attribute_of_a_view_has_a_docstring(view: type) -> None:
    shown = [name for name in dir(view) if not name.startswith("_")]
    assert shown and all(inspect.getdoc(getattr(view, name)) for name in shown)


def test_threads_run_their_own_classes() -> None:
    results: dict[int, float] = {}

    def work(segments: int) -> None:
        run = FIXED.run(cc={"fixed": lambda flow: Fixed(flow, segments)})
        results[segments] = run.flows["throughput_mbps"][0]

    threads = [threading.Thread(target=work, args=(segments,)) for segments in (1, 2, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results[1] < results[2] < results[4]


def test_python_algorithm_cannot_be_an_inner_one() -> None:
    with pytest.raises(rl.RoughlinkError, match="part of another"):
        rl.load("hello").set({"tcp.cc": "avoca", "tcp.cc_params.inner": "fixed"}).run()


def test_sweeps_refuse_python_classes(tmp_path: Any) -> None:
    with pytest.raises(rl.RoughlinkError, match="Python class"):
        rl.sweep(rl.load("hello"), {"tcp.cc": ["cubic", "fixed"]}, folder=tmp_path)


POOL = """
import multiprocessing
import roughlink as rl
{algorithm}

def delivered(scenario):
    return int(scenario.run().flows["delivered_bytes"][0])

if __name__ == "__main__":
    rl.register("fixed", Fixed)
    scenario = rl.load("hello").set({{"tcp.cc": "fixed", "flow.*.bytes": "100 kB"}})
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(delivered, [scenario, scenario]))
"""
CLASS = """
class Fixed(rl.CongestionControl):
    cwnd = 20_000

    def on_ack(self, flow, ack):
        pass

    def on_congestion(self, flow, cause):
        pass
"""


def pool(algorithm: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "fixed.py").write_text("import roughlink as rl\n" + CLASS)
    (folder / "pool.py").write_text(POOL.format(algorithm=algorithm))
    return subprocess.run([sys.executable, "pool.py"], cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("algorithm", [CLASS, "from fixed import Fixed"])
def test_other_processes_import_the_algorithms_of_a_scenario(algorithm: str, tmp_path: Path) -> None:
    done = pool(algorithm, tmp_path)
    assert done.stdout == "[100000, 100000]\n", done.stderr


def test_algorithm_that_cannot_be_imported_is_an_error_and_not_a_wait(tmp_path: Path) -> None:
    done = pool("from fixed import Fixed as Class\nFixed = lambda flow: Class(flow)", tmp_path)
    assert "cannot import the Python algorithm 'fixed'" in done.stderr, done.stderr


def test_unpickling_keeps_the_registered_class() -> None:
    rl.register("kept", NewReno)
    scenario = rl.load("hello").set("tcp.cc", "kept")
    packed = pickle.dumps(scenario)
    rl.register("kept", AskedNewReno)
    assert pickle.loads(packed) == copy.deepcopy(scenario) == scenario
    made: list[type] = []

    def maker(flow: rl.Flow) -> rl.CongestionControl:
        made.append(AskedNewReno)
        return AskedNewReno(flow)

    rl.register("kept", maker)
    pickle.loads(pickle.dumps(scenario)).run()
    assert made
