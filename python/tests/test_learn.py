"""The training example, and the committed policy that it trained."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="gymnasium is not installed")

EXAMPLES = Path(__file__).parents[1] / "examples"
sys.path.insert(0, str(EXAMPLES))

import held_out  # noqa: E402
import learn  # noqa: E402
import roughlink as rl  # noqa: E402
import roughlink.gym as rg  # noqa: E402

SMALL = learn.Plan(generations=8, pairs=8, cables=3, steps=60, rate=0.1)


def test_training_is_reproducible_and_improves() -> None:
    curves: list[list[float]] = []
    ends = []
    for threads in (1, 2):
        curve: list[float] = []
        ends.append(learn.train(SMALL, threads, lambda generation, value, weights: curve.append(value), every=4))
        curves.append(curve)
    assert np.array_equal(ends[0], ends[1]) and curves[0] == curves[1]
    assert len(curves[0]) == 3
    assert curves[0][-1] > curves[0][0] + 0.1


def test_committed_policy_repeats_its_actions() -> None:
    policy = learn.Policy.load(learn.COMMITTED)
    link = learn.cable(10, 10, 1, 100)
    env = rg.TransportEnv(link, max_window=learn.MAX_WINDOW)
    actor = learn.Actor(policy.weights[None])
    seen, _ = env.reset(seed=1)
    actions = []
    for _ in range(200):
        action = actor.act(seen[None])[0]
        actions.append(float(action[0]).hex())
        seen, *_ = env.step(action)
    # These bits are the same on every machine.
    assert actions[:4] + actions[-1:] == ACTIONS
    assert float(learn.returns(policy.weights[None], [(link, 10)], 200, 1, 1)[0, 0]).hex() == RETURN


ACTIONS = [
    "0x1.fdfed60000000p-2",
    "0x1.770d1a0000000p-2",
    "0x1.eae2a40000000p-3",
    "0x1.71ce740000000p-2",
    "-0x1.1d8a740000000p-2",
]
RETURN = "0x1.8e47f1cab0b9ep-1"


def test_policy_file_round_trips(tmp_path: Path) -> None:
    policy = learn.Policy(np.random.default_rng(1).standard_normal(learn.PARAMETERS), {"command": "none"})
    policy.save(tmp_path / "p.json")
    again = learn.Policy.load(tmp_path / "p.json")
    assert np.array_equal(again.weights, policy.weights) and again.made == policy.made
    assert [path.name for path in tmp_path.iterdir()] == ["p.json"]


GOOD: dict[str, Any] = json.loads(learn.COMMITTED.read_text())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "No such file"),
        ("{", "is not JSON"),
        ("[]", "is not a policy"),
        ("{}", "is not a policy"),
        (json.dumps({**GOOD, "features": ["speed"]}), "other features"),
        (json.dumps({**GOOD, "weights": GOOD["weights"][1:]}), f"{learn.PARAMETERS - 1} weights"),
        (json.dumps({**GOOD, "weights": [float("nan"), *GOOD["weights"][1:]]}), "finite"),
        (json.dumps({**GOOD, "weights": ["1", *GOOD["weights"][1:]]}), "numbers"),
    ],
)
def test_invalid_policy_files_are_explained(
    text: str | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.json"
    if text is not None:
        path.write_text(text)
    monkeypatch.setattr(sys, "argv", ["learn.py", "evaluate", "--policy", str(path)])
    assert learn.main() == 1
    out = capsys.readouterr()
    assert out.out == "" and out.err.startswith(f"learn.py: {path}") and said in out.err


def test_ctrl_c_saves_the_policy_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stops(*args: Any) -> Any:
        raise KeyboardInterrupt

    real = learn.returns
    calls = iter([real, stops])
    monkeypatch.setattr(learn, "returns", lambda *args: next(calls)(*args))
    monkeypatch.setattr(sys, "argv", ["learn.py", "train", "--generations", "2", "--out", str(tmp_path / "p.json")])
    assert learn.main() == 130
    assert learn.Policy.load(tmp_path / "p.json").made["generations"] == 0
    assert "stopped" in capsys.readouterr().err


def test_evaluation_compares_the_same_links(capsys: pytest.CaptureFixture[str]) -> None:
    policy = learn.Policy.load(learn.COMMITTED)
    names = ["cable 5 %", "with CUBIC, 1 %", "charging session"]
    assert held_out.evaluate(policy, 3, names, None) == 0
    lines = capsys.readouterr().out.splitlines()
    # Five metrics: all links have throughput, round-trip time and retransmissions. One link also has a second download,
    # and one has a session.
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 5 * 2 + 3 * 3 + 1 + 1
    assert all(line.count("|") == len(held_out.ALGORITHMS) + 4 for line in table)
    link = next(link for link in held_out.LINKS if link.name == "cable 5 %")
    found = held_out.measure(link, range(2))
    assert all(len(samples) == 2 for samples in found.values())
    metric = "throughput, Mbit/s"
    assert min(mine[metric] / its[metric] for mine, its in zip(found["learned"], found["cubic"], strict=True)) > 1.5
    assert held_out.evaluate(policy, 1, ["nowhere"], None) == 2
    assert "nowhere" in capsys.readouterr().err


RANGES = {"rate": (2, 20), "delay": (4, 40), "loss": (0.1, 2.5), "queue": (25, 200), "burst": (4, 4)}
"""Ranges of the links that training draws, as listed in docs/how-to/learning.md."""


def parameters(scenario: rl.Scenario) -> dict[str, float] | None:
    """Returns the parameters of a cable with one flow, or None for another scenario. A cable without loss has neither
    `loss` nor `burst`."""
    text = scenario.text
    if 'name = "Cable"' not in text or text.count('"bulk"') != 1:
        return None
    links = {name: part for part in text.split("[[") for name in ("internet", "plc") if f'name = "{name}"' in part}
    patterns = [
        ("rate", "plc", r'rate = "([\d.]+) Mbit/s"'),
        ("delay", "internet", r'delay = "([\d.]+) ms"'),
        ("queue", "plc", r'queue = "(\d+) pkt"'),
        ("loss", "plc", r'mean = "([\d.]+) %"'),
        ("burst", "plc", r"length = \[1, (\d+)\]"),
    ]
    matches = {name: re.search(pattern, links[link]) for name, link, pattern in patterns}
    found = {name: float(match[1]) for name, match in matches.items() if match}
    # 0.9 ms of the delay are on the cable.
    return {**found, "delay": found["delay"] + 0.9}


def is_trained_on(scenario: rl.Scenario) -> bool:
    found = parameters(scenario)
    return found is not None and all(
        RANGES[name][0] - 1e-6 <= value <= RANGES[name][1] + 1e-6 for name, value in found.items()
    )


def test_evaluation_links_differ_from_training_links() -> None:
    random = np.random.default_rng([1, 0])
    drawn = [learn.drawn(random)[0] for _ in range(300)]
    assert all(is_trained_on(scenario) for scenario in drawn)
    for name, (low, high) in RANGES.items():
        values = [found[name] for scenario in drawn if (found := parameters(scenario)) and name in found]
        assert min(values) < low * 1.1 and max(values) > high / 1.1, f"{name} is from {min(values)} to {max(values)}"
    # Only the two links below are within the ranges of training; their random numbers differ from training's.
    made = [
        (link.name, link.make(np.random.default_rng([held_out.SEED, n]))) for link in held_out.LINKS for n in range(24)
    ]
    same = {name for name, scenario in made if is_trained_on(scenario)}
    assert same == {"cable 1 %", "clean cable"}
    plan = learn.Plan()
    seeds = range(learn.FIRST_SEED - learn.CHECKED, learn.FIRST_SEED + plan.generations * plan.cables)
    assert not any(held_out.SEED + replica in seeds for replica in range(1000))
    assert held_out.SEED not in range(plan.seed, plan.seed + 1000), "links are drawn with other numbers"
    for link in held_out.LINKS:
        scenario = link.make(np.random.default_rng(1))
        assert link.flow in scenario.flows, link.name


def test_policy_runs_as_an_algorithm() -> None:
    policy = learn.Policy.load(learn.COMMITTED)
    rl.register("learned", policy.algorithm)
    run = learn.cable(10, 10, 1, 100).set({"tcp.cc": "learned", "duration": "5 s"}).run()
    assert run.flows["throughput_mbps"][0] > 8
