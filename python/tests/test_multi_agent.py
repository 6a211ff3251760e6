"""Environments with several agents."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest

pytest.importorskip("pettingzoo", reason="pettingzoo is not installed")

import roughlink as rl  # noqa: E402
import roughlink.gym as rg  # noqa: E402
from pettingzoo.test import parallel_api_test, parallel_seed_test  # noqa: E402
from roughlink.multi_agent import TransportParallelEnv  # noqa: E402

CARS = rl.load("three-cars").set({"duration": "20 s", "flow.*.bytes": "2 MB", "flow.*.start": "0 s"})
DELIVERED, WINDOW = rg.OBSERVATION.index("delivered"), rg.OBSERVATION.index("window")


def test_pettingzoo_checks_pass() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel_api_test(TransportParallelEnv(CARS), num_cycles=100)
        parallel_seed_test(lambda: TransportParallelEnv(CARS), num_cycles=50)


def test_agents_share_the_link_as_their_windows_say() -> None:
    env = TransportParallelEnv(
        CARS.set("flow.*.bytes", "unlimited"), interval_s=0.5, multiplicative=False
    )
    seen, infos = env.reset(seed=1)
    assert env.agents == env.possible_agents == ["car1", "car2", "car3"] == list(seen) == list(infos)
    windows = {"car1": 4.0, "car2": 8.0, "car3": 16.0}
    for _ in range(6):
        actions = {agent: np.array([n], np.float32) for agent, n in windows.items()}
        seen, rewards, terminated, truncated, infos = env.step(actions)
    assert {agent: float(each[WINDOW]) for agent, each in seen.items()} == windows
    car1, car2, car3 = (float(seen[agent][DELIVERED]) for agent in windows)
    # All queues are in the modems of the cable, so shares follow the windows roughly.
    assert 1.4 < car2 / car1 < 2.6 and 1.4 < car3 / car2 < 2.6, (car1, car2, car3)
    assert rewards["car3"] > rewards["car1"]
    assert not any(terminated.values()) and len({info["time_s"] for info in infos.values()}) == 1


def test_one_agent_acts_as_in_the_single_environment() -> None:
    scenario = CARS.set({"flow.car2.cc": "bbr"})
    several = TransportParallelEnv(scenario, ["car2"], history=2)
    one = rg.TransportEnv(scenario, flow="car2", history=2)
    (seen,) = several.reset(seed=5)[0].values()
    assert np.array_equal(seen, one.reset(seed=5)[0])
    steps = 0
    while several.agents:
        action = np.array([0.4 if steps < 30 else 0], np.float32)
        got = several.step({"car2": action})
        expected = one.step(action)
        assert np.array_equal(got[0]["car2"], expected[0])
        assert tuple(part["car2"] for part in got[1:]) == expected[1:]
        steps += 1
    assert steps > 20


def test_agents_leave_when_their_flows_are_over() -> None:
    env = TransportParallelEnv(CARS.set("flow.car2.bytes", "100 kB"))
    env.reset(seed=1)
    left = []
    while env.agents:
        before = env.agents
        _, _, terminated, truncated, _ = env.step({agent: np.array([0.2], np.float32) for agent in before})
        assert list(terminated) == before
        assert env.agents == [agent for agent in before if not (terminated[agent] or truncated[agent])]
        left += [agent for agent in before if terminated[agent]]
    assert left[0] == "car2"
    assert env.step({}) == ({}, {}, {}, {}, {})


def test_rewards_can_judge_fairness() -> None:
    def smallest(seen: rg.Numbers, info: rg.Info) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.full(len(seen), float(seen[:, DELIVERED].min()))

    env = TransportParallelEnv(CARS, reward=smallest, interval_s=0.3)
    again = pickle.loads(pickle.dumps(TransportParallelEnv(CARS, interval_s=0.3)))
    env.reset(seed=1), again.reset(seed=1)
    for _ in range(3):
        seen, rewards, *_ = env.step({agent: np.zeros(1, np.float32) for agent in env.agents})
    assert len(set(rewards.values())) == 1
    assert rewards["car1"] == min(float(each[DELIVERED]) for each in seen.values())
    with pytest.raises(ValueError, match="no action for car2, car3"):
        env.step({"car1": np.zeros(1, np.float32)})


@pytest.mark.parametrize("flows", [[], ["car1", "car1"], ["nobody"]])
def test_invalid_flows_are_refused(flows: list[str]) -> None:
    with pytest.raises(ValueError):
        TransportParallelEnv(CARS, flows)


def test_decisions_before_the_start_are_ignored() -> None:
    env = TransportParallelEnv(CARS.set({"flow.car2.start": "3 s", "duration": "6 s"}), interval_s=0.5)
    env.reset(seed=1)
    for _ in range(6):
        seen, *_ = env.step({agent: np.ones(1, np.float32) for agent in env.agents})
    assert seen["car2"][WINDOW] == 10
    spaces = [env.action_space(agent) for agent in env.possible_agents]
    assert len({id(space) for space in spaces}) == 3 and spaces[0] == spaces[1]
