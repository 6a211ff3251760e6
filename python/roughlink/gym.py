"""Reinforcement-learning environments: an agent controls the window or the pacing rate of a flow. Needs gymnasium 1.1
or later.

    >>> import gymnasium, roughlink.gym
    >>> env = gymnasium.make("roughlink/Transport-v0", scenario="charging-download")
    >>> many = gymnasium.make_vec("roughlink/Transport-v0", num_envs=1000, scenario="charging-download")

The network is simulated in this process, without compilation, sockets or other processes.

**Observation**, nine numbers (float32) of the last interval:

===  ============  ========  =====================================================================
  0  delivered     Mbit/s    newly acknowledged payload
  1  sent          Mbit/s    payload sent, retransmissions included
  2  rtt           s         mean round-trip time; 0 if not measured
  3  min_rtt       s         smallest round-trip time of the connection; 0 if not measured
  4  loss          share     lost bytes divided by lost and delivered bytes
  5  window        segments  current window
  6  in_flight     segments  estimated segments in the network
  7  recovering    0 or 1    1 while losses are repaired
  8  interval      s         length of the interval
===  ============  ========  =====================================================================

**Action**, one number that sets the window (segments) or the pacing rate (Mbit/s). By default it is the binary
logarithm of a factor for the current value, from -1 (half) to 1 (double). With ``multiplicative=False`` it is the new
value. The endpoint repairs losses; they do not change the window.

**Reward**: ``w.throughput * delivered - w.delay * (rtt - min_rtt) - w.loss * loss``, where ``w`` is a :class:`Reward`
with the weights. The delay term is 0 if no round-trip time was measured.

An episode begins with the first data segment and a window of 10 segments. The episode is terminated when all bytes have
arrived or the connection gives up, and truncated at the end of the scenario.

A policy can also control any flow of any scenario outside these environments: :class:`Deployed`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, Literal, SupportsIndex, Union

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from . import _native
from ._deployed import OBSERVATION, Decisions, Deployed, Numbers
from ._scenario import Scenario, scenario as scenario_of

__all__ = ["OBSERVATION", "Deployed", "Numbers", "Reward", "TransportEnv", "TransportVectorEnv"]

ScenarioLike = Union[Scenario, str, "Mapping[str, Any]"]
ScenarioMaker = Callable[[np.random.Generator], ScenarioLike]
"""Function that returns the scenario of an episode, for example with a random rate."""


@dataclass(frozen=True)
class Reward:
    """Weights of a reward."""

    throughput: float = 1.0
    """Reward per Mbit/s delivered."""
    delay: float = 10.0
    """Penalty per second of round-trip time above the minimum."""
    loss: float = 0.0
    """Penalty for a loss of 100 %."""

    def of(self, seen: Numbers) -> NDArray[np.float64]:
        """Returns the reward of each observation (row)."""
        numbers = seen.astype(np.float64)
        queued = np.where(numbers[:, 2] > 0, numbers[:, 2] - numbers[:, 3], 0.0)
        rewards: NDArray[np.float64] = (
            self.throughput * numbers[:, 0] - self.delay * queued - self.loss * numbers[:, 4]
        )
        return rewards


class _Flows:
    """Networks, each with the window or rate that its agent has set."""

    def __init__(
        self,
        scenarios: list[Scenario],
        *,
        flow: str | None,
        action: Literal["window", "rate"],
        multiplicative: bool,
        interval_s: float | None,
        round_trips: float,
        max_window: float,
        max_rate_mbps: float,
        reward: Reward | None,
        threads: int,
    ) -> None:
        self.decisions = Decisions(action, multiplicative, max_window, max_rate_mbps)
        self.batch = _native.Batch([made._native for made in scenarios], flow, interval_s, round_trips, threads)
        self.count = len(scenarios)
        self.reward = reward or Reward()
        self.value = np.full(self.count, self.decisions.first)
        low, high = (-1.0, 1.0) if multiplicative else (self.decisions.least, self.decisions.most)
        self.action_space = Box(np.float32(low), np.float32(high), (1,), np.float32)
        most = np.array([np.inf, np.inf, np.inf, np.inf, 1, np.inf, np.inf, 1, np.inf], np.float32)
        self.observation_space = Box(np.zeros(len(most), np.float32), most, dtype=np.float32)

    def reset(self, which: list[int], replicas: list[int], scenarios: list[ScenarioLike] | None = None) -> None:
        made = [scenario_of(scenario) for scenario in scenarios or ()]
        for i, scenario in zip(which, made):
            self.batch.replace(i, scenario._native)
        self.batch.reset(list(zip(which, replicas, strict=True)))
        self.value[which] = self.decisions.first

    def step(self, actions: NDArray[Any], active: NDArray[np.bool_]) -> NDArray[np.uint8]:
        given = np.asarray(actions, np.float64).reshape(self.count)
        if not np.isfinite(given[active]).all():
            raise ValueError(f"an action is not a finite number: {given}")
        self.value = np.where(active, self.decisions.after(self.value, given), self.value)
        both = np.zeros((self.count, 2))
        if self.decisions.action == "window":
            both[:, 0] = self.value
        else:
            both[:, 0], both[:, 1] = self.decisions.max_window, self.value
        both[~active, 0] = -1
        return np.frombuffer(self.batch.step(both.tobytes()), np.uint8)

    def observations(self) -> Numbers:
        return np.frombuffer(self.batch.observations(), np.float32).reshape(self.count, len(OBSERVATION)).copy()


class TransportEnv(gymnasium.Env[Numbers, Numbers]):
    """Environment with one controlled flow: ``gymnasium.make("roughlink/Transport-v0", scenario=...)``.

    Args:
        scenario: A scenario, its name, or its keys. Or a function that returns one for each episode, such as ``lambda
            random: rl.load("hello").set("link.wire.rate", f"{random.uniform(5, 50)} Mbit/s")``. The argument is the
            environment's generator of random numbers.
        flow: Name of the controlled transfer, by default the first. The agent replaces its congestion control.
        action: The controlled quantity, ``"window"`` (segments) or ``"rate"`` (pacing, Mbit/s).
        multiplicative: If true, an action is the binary logarithm of a factor, from -1 to 1; otherwise it is the new
            value.
        interval_s: Length of a step, s. By default `round_trips` determines the length.
        round_trips: Length of a step in smoothed round-trip times; at least 10 ms and at most 1 s.
        max_window: Largest window, segments. With ``action="rate"`` the window always has this size.
        max_rate_mbps: Largest pacing rate, Mbit/s.
        reward: Weights.
        render_mode: Must be ``None``.

    The seed of :meth:`reset` determines all random numbers. Later episodes without a seed differ from each other in a
    reproducible way. ``info`` has ``time_s`` and ``replica``. ``scenario.run(replica=info["replica"])`` uses the same
    random numbers.
    """

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(
        self,
        scenario: ScenarioLike | ScenarioMaker = "hello",
        *,
        flow: str | None = None,
        action: Literal["window", "rate"] = "window",
        multiplicative: bool = True,
        interval_s: float | None = None,
        round_trips: float = 1.0,
        max_window: float = 10_000,
        max_rate_mbps: float = 1000,
        reward: Reward | None = None,
        render_mode: None = None,
    ) -> None:
        self.render_mode = render_mode
        self._maker = scenario if callable(scenario) else None
        self._flows = _Flows(
            [_first(scenario)],
            flow=flow,
            action=action,
            multiplicative=multiplicative,
            interval_s=interval_s,
            round_trips=round_trips,
            max_window=max_window,
            max_rate_mbps=max_rate_mbps,
            reward=reward,
            threads=1,
        )
        self.observation_space = self._flows.observation_space
        self.action_space = self._flows.action_space
        self._replica = 0
        self._over = True

    def reset(
        self, *, seed: SupportsIndex | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Numbers, dict[str, Any]]:
        """Starts an episode. There are no `options`.

        Raises:
            ValueError: `options` has an entry.
        """
        _known(options, ())
        super().reset(seed=None if seed is None else index(seed))
        self._over = True
        replica = int(self.np_random.integers(2**32))
        self._flows.reset([0], [replica], [self._maker(self.np_random)] if self._maker else None)
        self._replica = replica
        self._over = False
        return self._flows.observations()[0], self._info()

    def step(self, action: Numbers) -> tuple[Numbers, float, bool, bool, dict[str, Any]]:
        if self._over:
            raise gymnasium.error.ResetNeeded("the episode is over: call reset()")
        end = int(self._flows.step(action, np.ones(1, np.bool_))[0])
        self._over = end != _GOES_ON
        seen = self._flows.observations()
        reward = float(self._flows.reward.of(seen)[0])
        return seen[0], reward, end == _TERMINATED, end == _TRUNCATED, self._info()

    def _info(self) -> dict[str, Any]:
        return {"time_s": self._flows.batch.times()[0], "replica": self._replica}


class TransportVectorEnv(VectorEnv[Numbers, Numbers, NDArray[Any]]):
    """Vector of :class:`TransportEnv` in one process and on all cores, each with a separate network:
    ``gymnasium.make_vec("roughlink/Transport-v0", num_envs=1000, scenario=...)``.

    The step after the end of an episode starts the next episode. The action of this step is ignored, and its reward is
    0 (``AutoresetMode.NEXT_STEP``). Results do not depend on the number of threads.

    Args:
        num_envs: Number of environments.
        scenario: One scenario for all, or a list with one for each. Or a function as for :class:`TransportEnv`.
        threads: Number of threads. Each step starts them, which pays only with hundreds of environments.

    The other arguments are the same as for :class:`TransportEnv`.
    """

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_modes": []}

    def __init__(
        self,
        num_envs: int = 1,
        scenario: ScenarioLike | Sequence[ScenarioLike] | ScenarioMaker = "hello",
        *,
        flow: str | None = None,
        action: Literal["window", "rate"] = "window",
        multiplicative: bool = True,
        interval_s: float | None = None,
        round_trips: float = 1.0,
        max_window: float = 10_000,
        max_rate_mbps: float = 1000,
        reward: Reward | None = None,
        threads: int = 1,
        render_mode: None = None,
    ) -> None:
        self._maker = scenario if callable(scenario) else None
        if callable(scenario):
            scenario = _first(scenario)
        scenarios: list[ScenarioLike] = (
            [scenario] * num_envs if isinstance(scenario, (Scenario, str, Mapping)) else list(scenario)
        )
        if len(scenarios) != num_envs:
            raise ValueError(f"{len(scenarios)} scenarios for {num_envs} environments")
        self.num_envs = num_envs
        self.render_mode = render_mode
        self._flows = _Flows(
            _made(scenarios),
            flow=flow,
            action=action,
            multiplicative=multiplicative,
            interval_s=interval_s,
            round_trips=round_trips,
            max_window=max_window,
            max_rate_mbps=max_rate_mbps,
            reward=reward,
            threads=threads,
        )
        self.single_observation_space = self._flows.observation_space
        self.single_action_space = self._flows.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._random = [np.random.default_rng() for _ in range(num_envs)]
        self._replica = np.zeros(num_envs, np.int64)
        self._over = np.ones(num_envs, np.bool_)

    def reset(
        self,
        *,
        seed: SupportsIndex | Sequence[SupportsIndex | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Numbers, dict[str, Any]]:
        """Restarts all environments, or those in ``options["reset_mask"]``. With a number as `seed`, environment i gets
        ``seed + i``.

        Raises:
            ValueError: `options` has another entry, or the number of seeds is wrong.
        """
        mask = _known(options, ("reset_mask",)).get("reset_mask", np.ones(self.num_envs, np.bool_))
        seeds: Sequence[SupportsIndex | None]
        if seed is None:
            seeds = [None] * self.num_envs
        elif isinstance(seed, SupportsIndex):
            seeds = [index(seed) + i for i in range(self.num_envs)]
        else:
            seeds = seed
        if len(seeds) != self.num_envs:
            raise ValueError(f"{len(seeds)} seeds for {self.num_envs} environments")
        which = [int(i) for i in np.flatnonzero(mask)]
        for i in which:
            given = seeds[i]
            if given is not None:
                self._random[i] = gymnasium.utils.seeding.np_random(index(given))[0]
        self._begin(which)
        return self._flows.observations(), self._info()

    def step(
        self, actions: Numbers
    ) -> tuple[Numbers, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        again = self._over.copy()
        ends = self._flows.step(actions, ~again)
        self._begin([int(i) for i in np.flatnonzero(again)])
        self._over = ends != _GOES_ON
        seen = self._flows.observations()
        rewards = np.where(again, 0.0, self._flows.reward.of(seen))
        return seen, rewards, ends == _TERMINATED, ends == _TRUNCATED, self._info()

    def _begin(self, which: list[int]) -> None:
        if which:
            replicas = [int(self._random[i].integers(2**32)) for i in which]
            self._over[which] = True
            scenarios = [self._maker(self._random[i]) for i in which] if self._maker else None
            self._flows.reset(which, replicas, scenarios)
            self._replica[which] = replicas
            self._over[which] = False

    def _info(self) -> dict[str, Any]:
        return {"time_s": np.array(self._flows.batch.times()), "replica": self._replica.copy()}


def _first(scenario: ScenarioLike | ScenarioMaker) -> Scenario:
    """Returns the scenario, or one of those that a function returns: episodes start only at a reset."""
    return scenario_of(scenario(np.random.default_rng(0)) if callable(scenario) else scenario)


def _known(options: dict[str, Any] | None, names: Sequence[str]) -> dict[str, Any]:
    unknown = sorted(set(options or ()) - set(names))
    if unknown:
        raise ValueError(f"unknown option {unknown[0]!r} of reset; expected {' or '.join(names) or 'none'}")
    return options or {}


def _made(sources: list[ScenarioLike]) -> list[Scenario]:
    """Creates the scenarios. An object that occurs several times in `sources` is read only once."""
    made: dict[int, Scenario] = {}
    return [made[id(each)] if id(each) in made else made.setdefault(id(each), scenario_of(each)) for each in sources]


_GOES_ON, _TERMINATED, _TRUNCATED = range(3)

gymnasium.register(
    id="roughlink/Transport-v0",
    entry_point="roughlink.gym:TransportEnv",
    vector_entry_point="roughlink.gym:TransportVectorEnv",
    order_enforce=False,
)
