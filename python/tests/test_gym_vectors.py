"""Vectors of environments for reinforcement learning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium", reason="gymnasium is not installed")

import roughlink.gym as rg  # noqa: E402
from test_gym import NOISY, OUTAGE, SEEN, env, value  # noqa: E402


def test_vector_environment_matches_single_environments() -> None:
    count, steps = 40, 120
    many = gymnasium.make_vec("roughlink/Transport-v0", num_envs=count, scenario=NOISY, threads=3)
    assert isinstance(many.unwrapped, rg.TransportVectorEnv)
    assert many.metadata["autoreset_mode"] == gymnasium.vector.AutoresetMode.NEXT_STEP
    single = [env() for _ in range(count)]
    seen, _ = many.reset(seed=7)
    expected = [e.reset(seed=7 + i)[0] for i, e in enumerate(single)]
    assert np.array_equal(seen, expected)
    random = np.random.default_rng(1)
    over, episodes = [False] * count, 0
    for _ in range(steps):
        actions = random.uniform(-0.5, 1, (count, 1)).astype(np.float32)
        seen, rewards, terminated, truncated, _ = many.step(actions)
        for i, e in enumerate(single):
            if over[i]:
                row: tuple[Any, ...] = (e.reset()[0], 0.0, False, False)
                episodes += 1
            else:
                row = e.step(actions[i])[:4]
            assert np.array_equal(seen[i], row[0])
            assert (rewards[i], terminated[i], truncated[i]) == row[1:]
            over[i] = row[2] or row[3]
    assert episodes > count / 2


def test_replicas_identify_episodes_of_the_vector_environment() -> None:
    """Replica numbers equal those in single environments, and a replica number is enough to reproduce its episode.

    This includes episodes that the vector environment starts after the end of the previous one.
    """
    count = 5
    many = rg.TransportVectorEnv(count, NOISY, threads=2)
    single = [env() for _ in range(count)]
    seen, info = many.reset(seed=3)
    begun = [
        (int(r), int(e.reset(seed=3 + i)[1]["replica"]))
        for i, (e, r) in enumerate(zip(single, info["replica"], strict=True))
    ]
    assert len({r for r, _ in begun}) == count and all(a == b for a, b in begun)
    random = np.random.default_rng(2)
    rows: list[list[tuple[Any, ...]]] = [[] for _ in range(count)]
    episodes: list[tuple[int, list[tuple[Any, ...]]]] = []
    over = np.zeros(count, np.bool_)
    for _ in range(150):
        actions = random.uniform(-0.5, 1, (count, 1)).astype(np.float32)
        last = info["replica"]
        seen, _, terminated, truncated, info = many.step(actions)
        for i in range(count):
            if over[i]:
                episodes.append((int(last[i]), rows[i]))
                rows[i] = []
                assert info["replica"][i] == single[i].reset()[1]["replica"] != last[i] and info["time_s"][i] < 0.03
            else:
                assert info["replica"][i] == last[i]
                rows[i].append((actions[i], seen[i], info["time_s"][i]))
        over = terminated | truncated
    assert len(episodes) >= 2 * count and len({replica for replica, _ in episodes}) == len(episodes)
    agents = rg.TransportEnv(NOISY)._agents
    for replica, episode in episodes:
        agents.reset([0], [replica])
        for action, expected, time_s in episode:
            agents.step(action, np.ones(1, np.bool_))
            assert np.array_equal(agents.observations[0], expected) and agents.batch.times() == [time_s]


def test_thread_count_does_not_change_results() -> None:
    rows = []
    for threads in (1, 2, 5):
        many = rg.TransportVectorEnv(100, NOISY, threads=threads)
        many.reset(seed=1)
        rows.append([many.step(np.full((100, 1), 0.2, np.float32))[0] for _ in range(30)])
    assert np.array_equal(rows[0], rows[1]) and np.array_equal(rows[0], rows[2])


def test_environments_can_be_reset_selectively() -> None:
    many = rg.TransportVectorEnv(3, NOISY)
    many.reset(seed=1)
    many.step(np.ones((3, 1), np.float32))
    _, info = many.reset(options={"reset_mask": np.array([False, True, False])})
    assert list(info["time_s"] < 0.03) == [False, True, False]


def test_each_environment_can_have_a_scenario_of_its_own() -> None:
    rates = ["2 Mbit/s", "20 Mbit/s"]
    scenarios = [NOISY.set("link.wire.rate", rate) for rate in rates]
    many = rg.TransportVectorEnv(2, scenarios)
    both, _ = many.reset(seed=[5, 6])
    alone = [rg.TransportEnv(scenario) for scenario in scenarios]
    assert np.array_equal(both, [e.reset(seed=5 + i)[0] for i, e in enumerate(alone)])
    for _ in range(15):
        both, *_ = many.step(np.full((2, 1), 0.1, np.float32))
        assert np.array_equal(both, [e.step(value(0.1))[0] for e in alone])
    assert both[1, SEEN("delivered")] > 3 * both[0, SEEN("delivered")]
    with pytest.raises(ValueError, match="2 scenarios for 3"):
        rg.TransportVectorEnv(3, scenarios)


def test_functions_take_the_place_of_rewards_in_vectors() -> None:
    def power(seen: rg.Numbers, info: rg.Info) -> np.ndarray[Any, np.dtype[np.float64]]:
        return np.where(seen[:, 2] > 0, seen[:, 0] / np.maximum(seen[:, 2], 1e-9), 0.0).astype(np.float64)

    many = rg.TransportVectorEnv(3, NOISY, reward=power)
    many.reset(seed=1)
    for _ in range(5):
        seen, rewards, *_ = many.step(np.full((3, 1), 0.5, np.float32))
    assert rewards == pytest.approx(seen[:, 0] / seen[:, 2]) and rewards.min() > 0
    with pytest.raises(ValueError, match="the reward has the shape"):
        wrong = rg.TransportEnv(NOISY, reward=lambda seen, info: np.zeros(7))
        wrong.reset(seed=1)
        wrong.step(value(0))
    with pytest.raises(ValueError, match="observe returned the shape"):
        rg.TransportEnv(NOISY, observe=lambda seen, info: seen[:, 0])
    with pytest.raises(ValueError, match="history is 0"):
        rg.TransportEnv(NOISY, history=0)


def test_vectors_restart_in_the_same_step_as_in_gymnasium() -> None:
    """Gymnasium's own vector of single environments is the reference."""
    mode = gymnasium.vector.AutoresetMode.SAME_STEP
    own = rg.TransportVectorEnv(6, NOISY, autoreset_mode=mode)
    theirs = gymnasium.vector.SyncVectorEnv([lambda: rg.TransportEnv(NOISY)] * 6, autoreset_mode=mode)
    assert own.metadata["autoreset_mode"] == mode
    assert np.array_equal(own.reset(seed=2)[0], theirs.reset(seed=2)[0])
    random = np.random.default_rng(1)
    ends = 0
    for _ in range(120):
        actions = random.uniform(-0.5, 1, (6, 1)).astype(np.float32)
        a, b = own.step(actions), theirs.step(actions)
        for x, y in zip(a[:4], b[:4], strict=True):
            assert np.array_equal(x, y)
        info, expected = a[4], b[4]
        assert np.array_equal(info["replica"], expected["replica"])
        assert ("final_obs" in info) == ("final_obs" in expected)
        if "final_obs" in expected:
            assert np.array_equal(info["_final_obs"], expected["_final_obs"])
            for i in np.flatnonzero(info["_final_obs"]):
                ends += 1
                assert np.array_equal(info["final_obs"][i], expected["final_obs"][i])
                assert info["final_info"]["replica"][i] == expected["final_info"]["replica"][i]
    assert ends > 6


def test_vectors_without_autoreset_wait_for_a_reset() -> None:
    many = rg.TransportVectorEnv(2, OUTAGE.set("duration", "300 ms"), interval_s=0.2, autoreset_mode="Disabled")
    many.reset(seed=1)
    actions = np.zeros((2, 1), np.float32)
    while not many.step(actions)[3].all():
        pass
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"reset \[0, 1\]"):
        many.step(actions)
    many.reset(options={"reset_mask": np.array([True, False])})
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"reset \[1\]"):
        many.step(actions)


def test_invalid_arguments_of_vectors_are_refused() -> None:
    many = rg.TransportVectorEnv(3, NOISY)
    for mask in (np.array([0, 2]), np.array([True] * 4), None):
        with pytest.raises(ValueError, match="an array of 3 booleans"):
            many.reset(options={"reset_mask": mask})
    many.reset(seed=np.array([1, 2, 3]))
    assert many.np_random_seed == (1, 2, 3)
    with pytest.raises(ValueError, match=r"the actions have the shape \(1, 3\)"):
        many.step(np.zeros((1, 3), np.float32))
    many.reset(seed=5)
    first = [random.integers(100) for random in many.np_random]
    many.reset(seed=5)
    assert [random.integers(100) for random in many.np_random] == first
