"""Environments for reinforcement learning."""

from __future__ import annotations

import pickle
import tomllib
import warnings
from typing import Any

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium", reason="gymnasium is not installed")

import roughlink as rl  # noqa: E402
import roughlink.gym as rg  # noqa: E402
from gymnasium.utils.env_checker import check_env  # noqa: E402

NOISY = rl.load("hello").set({"link.wire.noise": "{ kind = 'random', loss = '1 %' }", "flow.download.bytes": "1 MB"})
SEEN = rg.OBSERVATION.index


def env(**options: Any) -> rg.TransportEnv:
    made = gymnasium.make("roughlink/Transport-v0", scenario=NOISY, **options).unwrapped
    assert isinstance(made, rg.TransportEnv)
    return made


def value(x: float) -> rg.Numbers:
    return np.array([x], np.float32)


@pytest.mark.parametrize("action", ["window", "rate"])
@pytest.mark.parametrize("multiplicative", [False, True])
@pytest.mark.parametrize("interval_s", [None, 0.05])
def test_gymnasium_checks_pass(action: str, multiplicative: bool, interval_s: float | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Rates and times have no upper bound, and observations keep their units instead of a normalized range.
        warnings.filterwarnings("ignore", message=".*(infinity|symmetric and normalized|render_mode).*")
        check_env(env(action=action, multiplicative=multiplicative, interval_s=interval_s))


def episode(e: rg.TransportEnv, seed: int | None, actions: int) -> list[tuple[bytes, float, bool, bool]]:
    random = np.random.default_rng(actions)
    seen, _ = e.reset(seed=seed)
    rows = [(seen.tobytes(), 0.0, False, False)]
    while not (rows[-1][2] or rows[-1][3]):
        seen, reward, terminated, truncated, _ = e.step(random.uniform(-1, 1, 1).astype(np.float32))
        rows.append((seen.tobytes(), reward, terminated, truncated))
        assert len(rows) < 10_000
    return rows


def test_seeds_reproduce_episodes() -> None:
    first, second = env(), env()
    a = [episode(first, 3, 1), episode(first, None, 1)]
    b = [episode(second, 3, 1), episode(second, None, 1)]
    assert a == b
    assert a[0] != a[1]
    assert a[0] != episode(first, 4, 1)


def test_a_window_sets_the_throughput() -> None:
    e = env(multiplicative=False, interval_s=0.2)
    _, info = e.reset(seed=1)
    begin = info["time_s"]
    rates = []
    for window in (2, 4, 8):
        for _ in range(2):
            seen, _, _, _, info = e.step(value(window))
        assert seen[SEEN("window")] == window
        assert seen[SEEN("in_flight")] <= window
        assert 0.02 <= seen[SEEN("min_rtt")] <= seen[SEEN("rtt")] < 0.1
        assert seen[SEEN("interval")] == pytest.approx(0.2)
        # The flow delivers at most one window per round trip, which takes 20 ms plus the transmission time of a packet.
        assert seen[SEEN("delivered")] <= window * 1448 * 8e-6 / 0.02
        rates.append(seen[SEEN("delivered")])
    assert rates[0] * 1.5 < rates[1] and rates[1] * 1.5 < rates[2]
    assert info["time_s"] - begin == pytest.approx(1.2)


def test_rate_sets_the_pacing() -> None:
    e = env(action="rate", multiplicative=False, interval_s=0.5)
    e.reset(seed=1)
    for _ in range(2):
        seen, *_ = e.step(value(2))
    assert 1.7 < seen[SEEN("sent")] < 2.05


def test_multiplicative_actions_double_and_halve() -> None:
    e = env(max_window=40)
    e.reset(seed=1)
    windows = [e.step(value(a))[0][SEEN("window")] for a in (1, 1, 1, -1, 0, 5)]
    assert windows == [20, 40, 40, 20, 20, 40]


def test_larger_window_takes_effect_without_an_ack() -> None:
    e = env(multiplicative=False, interval_s=0.001)
    e.reset(seed=1)
    while e.step(value(2))[0][SEEN("in_flight")] < 2:
        pass
    seen, *_ = e.step(value(9))
    assert seen[SEEN("in_flight")] >= 8


def test_an_episode_ends_with_the_flow_or_the_scenario() -> None:
    e = env(multiplicative=False)
    e.reset(seed=1)
    ended = False
    while not ended:
        _, _, ended, truncated, info = e.step(value(30))
        assert not truncated
    assert 0.8 < info["time_s"] < 60
    with pytest.raises(gymnasium.error.ResetNeeded):
        e.step(value(30))
    short = rg.TransportEnv(NOISY.set("duration", "100 ms"), interval_s=0.04)
    short.reset(seed=1)
    # The handshake has already taken a round trip of 20 ms.
    assert [short.step(value(0))[2:4] for _ in range(2)] == [(False, False), (False, True)]


def test_an_episode_begins_with_the_first_data() -> None:
    e = env()
    seen, info = e.reset(seed=1)
    assert 0.02 < info["time_s"] < 0.03
    assert (
        seen[SEEN("window")], seen[SEEN("in_flight")], seen[SEEN("delivered")], seen[SEEN("interval")]
    ) == (10, 10, 0, 0)
    down = rg.TransportEnv(NOISY.set({"link.wire.timeline": "[{ at = '0 s', up = false }]", "duration": "2 s"}))
    _, info = down.reset(seed=1)
    assert info["time_s"] == 2
    assert down.step(value(0))[2:4] == (False, True)


def test_round_trip_step_lasts_one_round_trip() -> None:
    e = env(multiplicative=False)
    e.reset(seed=1)
    for _ in range(20):
        seen, *_ = e.step(value(4))
    assert seen[SEEN("interval")] == pytest.approx(seen[SEEN("rtt")], rel=0.2)


def test_rewards_follow_their_weights() -> None:
    weights = rg.Reward(throughput=2, delay=3, loss=5)
    e = env(multiplicative=False, reward=weights, interval_s=0.3)
    e.reset(seed=1)
    seen, reward, *_ = e.step(value(50))
    delivered, _, rtt, least, loss = (float(x) for x in seen[:5])
    assert rtt > least > 0
    assert reward == pytest.approx(2 * delivered - 3 * (rtt - least) - 5 * loss)


class Recorded:
    """Policy that reacts to queue and losses, and records its observations."""

    def __init__(self, scale: float) -> None:
        self.scale = scale
        self.seen: list[rg.Numbers] = []

    def __call__(self, seen: rg.Numbers) -> rg.Numbers:
        self.seen.append(seen)
        queued = (seen[SEEN("rtt")] - seen[SEEN("min_rtt")]) / (seen[SEEN("rtt")] or 1)
        return value(self.scale * (0.3 - 1.1 * queued - 0.2 * seen[SEEN("loss")]))


rl.register("deployed", lambda flow: rg.Deployed(flow, Recorded(1)))


@pytest.mark.parametrize(
    ("options", "scale"),
    [
        ({}, 1),
        ({"round_trips": 2.5}, 1),
        ({"action": "rate"}, 1),
        ({"action": "rate", "multiplicative": False, "interval_s": 0.1}, 10),
    ],
)
@pytest.mark.parametrize(
    ("scenario", "flow"),
    [
        (NOISY.set({"flow.download.bytes": "unlimited", "duration": "11 s"}), "download"),
        (rl.load("three-cars").set({"duration": "45 s", "flow.car3.start": "12345 us"}), "car3"),
        (rl.load("satellite-handover").set("tcp.stack", "linux"), "transfer"),
        (rl.load("charging-firmware").set("duration", "40 s"), "firmware"),
    ],
    ids=["noisy", "three-cars", "handover", "charging"],
)
def test_deployed_policy_acts_as_in_the_environment(
    scenario: rl.Scenario, flow: str, options: dict[str, Any], scale: float
) -> None:
    scenario = scenario.set(f"flow.{flow}.cc", "deployed")
    e = rg.TransportEnv(scenario, flow=flow, **options)
    agent = Recorded(scale)
    seen, info = e.reset(seed=3)
    over = False
    while not over:
        seen, _, terminated, truncated, info = e.step(agent(seen))
        over = terminated or truncated
    ends: list[Recorded] = []

    def algorithm(connection: rl.Flow) -> rl.CongestionControl:
        ends.append(Recorded(scale))
        return rg.Deployed(connection, ends[-1], **options)

    scenario.run(replica=info["replica"], cc={"deployed": algorithm})
    # The receiving end makes no decisions.
    (sender,) = [end for end in ends if end.seen]
    assert len(agent.seen) > 100 and np.array_equal(sender.seen, agent.seen)


@pytest.mark.parametrize(
    "options", [{"interval_s": 0.0}, {"round_trips": 0.0}, {"action": "colour"}, {"max_window": 0.5}]
)
def test_invalid_deployment_options_end_the_run(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        rl.load("hello").set("tcp.cc", "deployed").run(
            cc={"deployed": lambda flow: rg.Deployed(flow, lambda seen: 0.0, **options)}
        )


def test_an_action_of_a_deployed_policy_must_be_a_number() -> None:
    with pytest.raises(ValueError, match="not a finite number"):
        rl.load("hello").set("tcp.cc", "deployed").run(
            cc={"deployed": lambda flow: rg.Deployed(flow, lambda seen: float("nan"))}
        )


@pytest.mark.parametrize(
    "options",
    [{"flow": "nobody"}, {"action": "colour"}, {"interval_s": 0.0}, {"round_trips": -1.0}, {"max_window": 0.5}],
)
def test_invalid_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        rg.TransportEnv(NOISY, **options)


def test_invalid_actions_are_refused() -> None:
    e = env()
    e.reset(seed=1)
    for wrong in (np.array([np.nan]), np.array([1.0, 2.0])):
        with pytest.raises(ValueError):
            e.step(wrong)


def test_a_function_returns_the_link_of_each_episode() -> None:
    drawn: list[float] = []

    def scenario(random: np.random.Generator) -> rl.Scenario:
        drawn.append(float(random.uniform(2, 50)))
        return rl.load("hello").set({"link.wire.rate": f"{drawn[-1]} Mbit/s", "duration": "2 s"})

    def best(env: rg.TransportEnv, **options: Any) -> float:
        env.reset(**options)
        rates = []
        for _ in range(1000):
            seen, _, _, over, _ = env.step(np.array([0.5], np.float32))
            rates.append(float(seen[0]))
            if over:
                break
        return max(rates)

    env = rg.TransportEnv(scenario)
    drawn.clear()
    found = [best(env, seed=np.int64(7)), best(env), best(env)]
    assert len(set(drawn)) == 3
    assert np.argsort(found).tolist() == np.argsort(drawn).tolist(), (found, drawn)
    again = drawn[:]
    drawn.clear()
    assert [best(env, seed=7), best(env), best(env)] == found and drawn == again
    # The generator of an environment depends only on the seed.
    many = rg.TransportVectorEnv(3, scenario)
    drawn.clear()
    many.reset(seed=[1, 2, 7])
    assert len(set(drawn)) == 3 and drawn[2] == again[0]
    with pytest.raises(ValueError, match="unknown option 'link' of reset; expected none"):
        env.reset(options={"link": 1})
    with pytest.raises(ValueError, match="expected reset_mask"):
        many.reset(options={"link": 1})


OUTAGE = rl.load("hello").set(
    {"link.wire.timeline": "[{ at = '1 s', up = false }, { at = '2 s', up = true }]", "duration": "3 s"}
)


def test_information_shows_an_outage_to_the_reward_and_the_observation() -> None:
    def ramp(seen: rg.Numbers, info: rg.Info) -> rg.Numbers:
        return np.stack([seen[:, 0], info["since_ack_s"], info["link_up"]], axis=1)

    e = rg.TransportEnv(
        OUTAGE, interval_s=0.1, reward=rg.Reward(silence=2), observe=ramp, privileged=True, multiplicative=False
    )
    check_env(e, skip_render_check=True)
    e.reset(seed=1)
    rows = []
    over = False
    while not over:
        seen, reward, _, over, info = e.step(value(20))
        rows.append((info["time_s"], seen, reward, info))
    down = [row for row in rows if 1.15 < row[0] <= 1.99]
    assert len(down) >= 7
    for time, seen, reward, info in down:
        assert not info["link_up"] and seen[2] == 0
        assert info["since_ack_s"] == pytest.approx(time - 1, abs=0.06)
        assert (seen[0], seen[1]) == (0, np.float32(info["since_ack_s"]))
        assert reward == pytest.approx(-2 * info["since_ack_s"])
    early = [info for time, _, _, info in rows if 0.3 < time < 1]
    assert all(info["rate_mbps"] == 10 and info["link_up"] and info["since_ack_s"] < 0.02 for info in early)
    # The pipe holds 17 of 20 segments (10 Mbit/s, 20 ms), and the others wait.
    assert all(1 <= info["queue_packets"] <= 4 for info in early), early
    blind = rg.TransportEnv(OUTAGE).reset(seed=1)[1]
    assert set(blind) == {"time_s", "replica", "since_ack_s"}


def test_history_stacks_the_last_observations() -> None:
    plain, stacked = env(), env(history=3)
    check_env(stacked, skip_render_check=True)
    first, _ = plain.reset(seed=4)
    seen, _ = stacked.reset(seed=4)
    expected = [first] * 3
    assert np.array_equal(seen, expected)
    for _ in range(6):
        expected = [*expected[1:], plain.step(value(0.3))[0]]
        assert np.array_equal(stacked.step(value(0.3))[0], expected)
    many = rg.TransportVectorEnv(2, NOISY, history=3)
    both, _ = many.reset(seed=4)
    assert np.array_equal(both[0], [first] * 3)
    ends = 0
    for _ in range(60):
        before, over = both, many._over.copy()
        both, *_ = many.step(np.ones((2, 1), np.float32))
        for i in range(2):
            begin = np.stack([both[i, -1]] * 3) if over[i] else np.concatenate([before[i, 1:], both[i, -1:]])
            assert np.array_equal(both[i], begin)
        ends += int(over.sum())
    assert ends > 1


def test_deployed_policies_see_the_history_of_the_environment() -> None:
    scenario = NOISY.set({"tcp.cc": "deployed", "flow.download.bytes": "unlimited", "duration": "4 s"})
    e = rg.TransportEnv(scenario, history=4)
    agent: list[rg.Numbers] = []
    seen, info = e.reset(seed=3)
    over = False
    while not over:
        agent.append(seen)
        seen, _, _, over, info = e.step(value(0.02 * float(seen[0, 0] - seen[-1, 0])))
    ends: list[list[rg.Numbers]] = []

    def algorithm(connection: rl.Flow) -> rl.CongestionControl:
        mine: list[rg.Numbers] = []
        ends.append(mine)

        def policy(seen: rg.Numbers) -> float:
            mine.append(seen)
            return 0.02 * float(seen[0, 0] - seen[-1, 0])

        return rg.Deployed(connection, policy, history=4)

    scenario.run(replica=info["replica"], cc={"deployed": algorithm})
    (sender,) = [end for end in ends if end]
    assert len(agent) > 50 and np.array_equal(sender, agent)


def test_steps_can_be_rendered() -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    pictures = gymnasium.make("roughlink/Transport-v0", scenario=NOISY, render_mode="rgb_array")
    pictures.reset(seed=1)
    empty = pictures.render()
    for _ in range(5):
        pictures.step(value(0.5))
    picture = pictures.render()
    assert picture.shape == (480, 640, 3) and picture.dtype == np.uint8
    assert not np.array_equal(picture, empty)
    words = env(render_mode="ansi")
    words.reset(seed=1)
    words.step(value(1))
    line = words.render()
    assert line.startswith("0.0") and "window 20" in line, line
    with pytest.raises(ValueError, match="unknown render_mode 'human'"):
        rg.TransportEnv(NOISY, render_mode="human")  # type: ignore[arg-type]


def test_a_pickled_environment_is_made_again() -> None:
    again = pickle.loads(pickle.dumps(env(history=2, interval_s=0.05)))
    fresh = env(history=2, interval_s=0.05)
    assert np.array_equal(again.reset(seed=9)[0], fresh.reset(seed=9)[0])
    assert np.array_equal(again.step(value(1))[0], fresh.step(value(1))[0])
    many = pickle.loads(pickle.dumps(rg.TransportVectorEnv(2, NOISY, autoreset_mode="SameStep")))
    assert many.mode == gymnasium.vector.AutoresetMode.SAME_STEP and many.reset(seed=1)[0].shape == (2, 9)


class Timid(rl.CongestionControl):
    """Holds the window at two segments."""

    def on_ack(self, flow: rl.Flow, ack: rl.Ack) -> None:
        self.cwnd = 2 * flow.mss

    def on_congestion(self, flow: rl.Flow, cause: rl.Congestion) -> None:
        pass


class Broken(Timid):
    """Fails after a while."""

    def on_ack(self, flow: rl.Flow, ack: rl.Ack) -> None:
        if flow.now > 1.5:
            raise RuntimeError("as it was meant")


rl.register("timid", Timid)
rl.register("broken", Broken)
CARS = rl.load("three-cars").set("duration", "60 s")


def test_other_flows_may_use_python_and_deployed_algorithms() -> None:
    """The same scenario outside the environment gives the same result."""
    scenario = CARS.set({"flow.car1.cc": "deployed", "flow.car2.cc": "timid", "flow.car3.cc": "deployed"})
    e = rg.TransportEnv(scenario, flow="car1", interval_s=0.5)
    _, info = e.reset(seed=3)
    agent = Recorded(1)
    seen = np.zeros(9, np.float32)
    while info["time_s"] < 30:
        seen, _, _, _, info = e.step(agent(seen))
    alone = rg.TransportEnv(scenario.set("flow.car2.cc", "cubic"), flow="car1", interval_s=0.5)
    alone.reset(seed=3)
    other = Recorded(1)
    seen = np.zeros(9, np.float32)
    for _ in agent.seen:
        seen, *_ = alone.step(other(seen))
    assert not np.array_equal(agent.seen, other.seen)
    for made in (rg.TransportEnv, lambda s, **more: rg.TransportVectorEnv(40, s, threads=2, **more)):
        failing = made(CARS.set("flow.car2.cc", "broken"), flow="car1", interval_s=0.5)
        failing.reset(seed=1)
        with pytest.raises(RuntimeError, match="as it was meant"):
            for _ in range(200):
                failing.step(np.zeros_like(failing.action_space.sample()))
        failing.reset(seed=2)


def test_episode_after_an_exception_is_as_usual() -> None:
    scenario = CARS.set({"flow.car2.cc": "broken", "flow.car2.start": "1 s", "duration": "8 s"})

    def returns(env: rg.TransportEnv) -> list[float]:
        env.reset(seed=1)
        rewards = []
        for _ in range(10):
            rewards.append(env.step(value(0.1))[1])
        return rewards

    failing = rg.TransportEnv(scenario, flow="car1", interval_s=0.5)
    with pytest.raises(RuntimeError):
        returns(failing)
    with pytest.raises(RuntimeError):  # again, instead of a mute flow
        returns(failing)
    many = rg.TransportVectorEnv(2, [scenario, CARS.set("flow.car2.cc", "timid")], flow="car1", interval_s=0.5)
    many.reset(seed=1)
    with pytest.raises(RuntimeError):
        for _ in range(20):
            many.step(np.zeros((2, 1), np.float32))
    _, info = many.reset(options={"reset_mask": np.array([False, True])})
    assert info["since_ack_s"].max() < 100


def test_connection_that_gave_up_ends_the_episode() -> None:
    """Other flows continue, so that the network has further events."""
    down = "[{ at = '2 s', up = false }]"
    keys: dict[str, Any] = {"link.segment.timeline": down, "tcp.data_retries": 2, "duration": "120 s"}
    cross = {"name": "calls", "kind": "cbr", "from": "sa", "to": "secc", "rate": "1 Mbit/s", "packet": "1000 B"}
    text = tomllib.loads(CARS.set(keys).text)
    text["flow"].append(cross)
    scenario = rl.scenario(text)
    e = rg.TransportEnv(scenario, flow="car1", interval_s=1.0)
    _, info = e.reset(seed=1)
    failed = scenario.run(replica=info["replica"]).flows[0]
    assert failed["failed"]
    over = False
    while not over:
        _, _, over, truncated, info = e.step(value(0))
        assert not truncated
    assert 0 <= info["time_s"] - failed["failed_s"] <= 1.5


def test_last_information_is_that_of_the_end() -> None:
    slow = rl.load("hello").set({"link.wire.timeline": "[{ at = '1 s', rate = '2 Mbit/s' }]", "duration": "3 s"})
    e = rg.TransportEnv(slow, interval_s=0.5, privileged=True, multiplicative=False)
    e.reset(seed=1)
    truncated = False
    while not truncated:
        _, _, _, truncated, info = e.step(value(60))
    assert info["rate_mbps"] == 2 and info["queue_packets"] > 20


def test_results_do_not_change_with_the_arrays_of_the_caller() -> None:
    def own(seen: rg.Numbers, info: rg.Info) -> rg.Numbers:
        seen /= 100
        return seen

    kept, spoiled = env(history=3), env(history=3)
    a, b = kept.reset(seed=1)[0], spoiled.reset(seed=1)[0]
    for _ in range(5):
        assert np.array_equal(a, b)
        b *= 0
        a, b = kept.step(value(0.2))[0], spoiled.step(value(0.2))[0]
    plain, scaled = env(), env(observe=own)
    plain.reset(seed=1), scaled.reset(seed=1)
    for _ in range(5):
        (a, first, *_), (b, second, *_) = plain.step(value(0.2)), scaled.step(value(0.2))
        assert first == second and np.allclose(a, 100 * b)
    many = rg.TransportVectorEnv(2, NOISY, history=2)
    first_seen, _ = many.reset(seed=1)
    copy = first_seen.copy()
    many.step(np.ones((2, 1), np.float32))
    assert np.array_equal(first_seen, copy)


class Reentrant(Timid):
    """Steps the environment that calls it."""

    def on_ack(self, flow: rl.Flow, ack: rl.Ack) -> None:
        LOOPING[0].batch.times()


LOOPING: list[Any] = []
rl.register("reentrant", Reentrant)


def test_environments_are_used_by_one_thread_at_a_time() -> None:
    e = rg.TransportEnv(CARS.set({"flow.car2.cc": "reentrant", "flow.car2.start": "0 s"}), flow="car1", interval_s=1.0)
    LOOPING[:] = [e._agents]
    with pytest.raises(RuntimeError, match="another thread uses these environments"):
        e.reset(seed=1)
        e.step(value(0))


def test_observations_keep_their_shape() -> None:
    shapes = [3, 3, 1]

    def own(seen: rg.Numbers, info: rg.Info) -> rg.Numbers:
        info["since_ack_s"] += 1000
        return np.zeros((len(seen), shapes.pop(0) if len(shapes) > 1 else shapes[0]), np.float32)

    e = rg.TransportEnv(NOISY, observe=own, reward=rg.Reward(silence=1, throughput=0, delay=0))
    e.reset(seed=1)
    with pytest.raises(ValueError, match=r"observe returned the shape \(1, 1\); expected \(1, 3\)"):
        e.step(value(0))
    with pytest.raises(ValueError, match="observe returned the shape"):
        rg.TransportEnv(NOISY, observe=lambda seen, info: seen[:, 0])
