"""Reinforcement-learning environments: an agent controls the window or the pacing rate of a flow. Needs gymnasium 1.1
or later.

    >>> import gymnasium, roughlink.gym
    >>> env = gymnasium.make("roughlink/Transport-v0", scenario="charging-download")
    >>> many = gymnasium.make_vec("roughlink/Transport-v0", num_envs=1000, scenario="charging-download")

The network is simulated in this process, without compilation, sockets or other processes.

**Observation**, nine numbers (float32) of the last interval:

===  ============  ========  =====================================================================
 no  name          unit      meaning
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

**Reward**: ``w.throughput * delivered - w.delay * (rtt - min_rtt) - w.loss * loss - w.silence * since_ack``, where
``w`` is a :class:`Reward` with the weights. The delay term is 0 if no round-trip time was measured. Functions can
compute other rewards and other observations.

An episode begins with the first data segment and a window of 10 segments. The episode is terminated when all bytes have
arrived or the connection gives up, and truncated at the end of the scenario.

With :class:`Deployed`, a policy can also control any flow of any scenario outside these environments.
:mod:`roughlink.multi_agent` has an environment for several agents in one network.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from operator import index
from typing import Any, Literal, SupportsIndex

import gymnasium
import numpy as np
from gymnasium.spaces import Space
from gymnasium.utils import EzPickle
from gymnasium.utils.seeding import np_random
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from ._agents import (
    GOES_ON,
    OPTIONS,
    TERMINATED,
    TRUNCATED,
    Agents,
    Info,
    Observe,
    Rate,
    Reward,
    ScenarioLike,
    ScenarioMaker,
    first_of,
    known,
)
from ._deployed import OBSERVATION, Deployed, Numbers
from ._scenario import Scenario

__all__ = ["OBSERVATION", "Deployed", "Info", "Numbers", "Reward", "TransportEnv", "TransportVectorEnv"]


class TransportEnv(gymnasium.Env[Numbers, Numbers], EzPickle):
    """Environment with one controlled flow: ``gymnasium.make("roughlink/Transport-v0", scenario=...)``.

    Args:
        scenario: A scenario, its name, or its keys. Or a function that returns one for each episode, such as ``lambda
            random: rl.load("hello").set("link.wire.rate", f"{random.uniform(5, 50)} Mbit/s")``. The function's argument
            is the environment's generator of random numbers.
        flow: Name of the controlled transfer, by default the first. The agent replaces its congestion control. The
            other flows may use any algorithm, including registered Python classes.
        action: The controlled quantity, ``"window"`` (segments) or ``"rate"`` (pacing, Mbit/s).
        multiplicative: If true, an action is the binary logarithm of a factor, from -1 to 1; otherwise it is the new
            value.
        interval_s: Length of a step, s. By default `round_trips` determines the length.
        round_trips: Length of a step in smoothed round-trip times; at least 10 ms and at most 1 s.
        max_window: Largest window, segments. With ``action="rate"`` the window always has this size.
        max_rate_mbps: Largest pacing rate, Mbit/s.
        reward: Weights, or a function ``reward(seen, info)`` that returns an array of rewards. Each row of `seen` has
            the nine numbers of a controlled flow, and each value of `info` is an array with an entry for each row.
        observe: Function ``observe(seen, info)`` with the same arguments that returns an array with another observation
            in each row. The first call determines the shape; its numbers are zeros.
        history: Number of observations that the agent receives at each step, the latest last. If this is more than 1,
            it is the first dimension of the observation. A reset repeats the first observation this many times.
        privileged: Add values to `info` that a sender cannot observe.
        render_mode: ``"ansi"`` for a line of text, or ``"rgb_array"`` for a picture of the episode so far (480 by 640
            pixels; needs matplotlib).

    Raises:
        ScenarioError: The scenario is invalid.
        ValueError: The scenario has no such transfer, an argument is out of range, or a function returned an array of
            another shape.

    The seed of :meth:`reset` determines all random numbers. Later episodes without a seed differ from each other in a
    reproducible way. `info` has:

    ================= ======= =====================================================================
    key               unit    meaning
    ================= ======= =====================================================================
    ``time_s``        s       time since the start of the scenario
    ``replica``               ``scenario.run(replica=info["replica"])`` uses the same random numbers
    ``since_ack_s``   s       time since the last acknowledgment, or else since the first segment
    ``rate_mbps``     Mbit/s  lowest rate of the links on the path (`privileged`)
    ``queue_packets`` packets packets that wait on the path, of all flows (`privileged`)
    ``link_up``       bool    true if all links on the path are up (`privileged`)
    ================= ======= =====================================================================

    Pickling keeps the arguments of an environment but not its episode: call :meth:`reset` after unpickling.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 10}

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
        reward: Reward | Rate | None = None,
        observe: Observe | None = None,
        history: int = 1,
        privileged: bool = False,
        render_mode: Literal["ansi", "rgb_array"] | None = None,
    ) -> None:
        options = {name: value for name, value in locals().items() if name in OPTIONS}
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"unknown render_mode {render_mode!r}; expected 'ansi' or 'rgb_array'")
        EzPickle.__init__(self, scenario, flow=flow, render_mode=render_mode, **options)
        self.render_mode = render_mode
        self._maker = scenario if callable(scenario) else None
        self._agents = Agents([first_of(scenario)], () if flow is None else (flow,), **options)
        self.observation_space: Space[Numbers] = self._agents.observation_space
        self.action_space: Space[Numbers] = self._agents.action_space
        self._over = True
        self._shown: list[tuple[float, Numbers]] = []

    def reset(
        self, *, seed: SupportsIndex | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Numbers, dict[str, Any]]:
        """Starts an episode. There are no `options`.

        Returns:
            The observation and `info`. The observation has the shape ``(9,)``, or ``(history, 9)`` with a `history`
            above 1. With `observe`, a row of its result takes the place of the nine numbers.

        Raises:
            ValueError: `options` has an entry.
        """
        known(options)
        super().reset(seed=None if seed is None else index(seed))
        self._over = True
        replica = int(self.np_random.integers(2**32))
        self._agents.reset([0], [replica], [self._maker(self.np_random)] if self._maker else ())
        self._over = False
        self._shown = []
        return self._agents.observations[0].copy(), self._info()

    def step(self, action: Numbers) -> tuple[Numbers, float, bool, bool, dict[str, Any]]:
        """Applies an action, and runs the network for a step.

        Args:
            action: Array with one number: its shape is ``(1,)``.

        Returns:
            The observation, the reward, true if the episode is terminated, true if it is truncated, and `info`. The
            observation has the shape that :meth:`reset` describes.

        Raises:
            gymnasium.error.ResetNeeded: The episode is over.
            ValueError: The action or its shape is invalid.
        """
        if self._over:
            raise gymnasium.error.ResetNeeded("the episode is over: call reset()")
        end = int(self._agents.step(action, np.ones(1, np.bool_))[0])
        self._over = end != GOES_ON
        info = self._info()
        if self.render_mode == "rgb_array":
            self._shown.append((info["time_s"], self._agents.seen[0]))
        reward = float(self._agents.rewards()[0])
        return self._agents.observations[0].copy(), reward, end == TERMINATED, end == TRUNCATED, info

    def render(self) -> Any:
        """Returns the last step as a line of text (``"ansi"``), or a picture of the episode so far (``"rgb_array"``).
        The picture shows the delivered rate, the round-trip time and the window, as an array of 480 by 640 pixels with
        3 bytes each."""
        if self.render_mode == "rgb_array":
            from ._plot import episode

            return episode(self._shown)
        if self.render_mode == "ansi":
            numbers = ", ".join(f"{name} {n:.4g}" for name, n in zip(OBSERVATION, self._agents.seen[0], strict=True))
            return f"{self._info()['time_s']:.3f} s: {numbers}"
        gymnasium.logger.warn("render() without a render_mode: pass one when the environment is made")
        return None

    def _info(self) -> dict[str, Any]:
        return {name: values[0].item() for name, values in self._agents.info.items()}


class TransportVectorEnv(VectorEnv[Numbers, Numbers, NDArray[Any]], EzPickle):
    """Vector of :class:`TransportEnv` in one process, each with a separate network:
    ``gymnasium.make_vec("roughlink/Transport-v0", num_envs=1000, scenario=...)``.

    Results do not depend on the number of threads.

    Args:
        num_envs: Number of environments.
        scenario: One scenario for all, or a list with one for each. Or a function as for :class:`TransportEnv`.
        autoreset_mode: Reaction to the end of an episode. ``NEXT_STEP``: the next step starts the next episode; its
            action is ignored, and its reward is 0. ``SAME_STEP``: the step that ends an episode also starts the next
            one. The last observation and information are then ``info["final_obs"]`` and ``info["final_info"]``.
            ``DISABLED``: call :meth:`reset` with ``options={"reset_mask": ...}``.
        threads: Number of threads. Each step starts new ones, which pays off only with hundreds of environments.

    The other arguments are the same as for :class:`TransportEnv`. Each value of `info` is an array with an entry for
    each environment.

    Raises:
        ScenarioError: A scenario is invalid.
        ValueError: The number of scenarios is not `num_envs`. :class:`TransportEnv` lists other reasons.
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
        reward: Reward | Rate | None = None,
        observe: Observe | None = None,
        history: int = 1,
        privileged: bool = False,
        threads: int = 1,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: None = None,
    ) -> None:
        options = {name: value for name, value in locals().items() if name in OPTIONS}
        EzPickle.__init__(self, num_envs, scenario, flow=flow, autoreset_mode=autoreset_mode, **options)
        self.mode: AutoresetMode = AutoresetMode(autoreset_mode)
        self.metadata = {**self.metadata, "autoreset_mode": self.mode}
        self._maker = scenario if callable(scenario) else None
        first = first_of(scenario) if callable(scenario) else scenario
        scenarios = [first] * num_envs if isinstance(first, (Scenario, str, os.PathLike, Mapping)) else list(first)
        if len(scenarios) != num_envs:
            raise ValueError(f"{len(scenarios)} scenarios for {num_envs} environments")
        self.num_envs = num_envs
        self.render_mode: str | None = render_mode
        self._agents = Agents(scenarios, () if flow is None else (flow,), **options)
        self.single_observation_space: Space[Any] = self._agents.observation_space
        self.single_action_space: Space[Any] = self._agents.action_space
        self.observation_space: Space[Any] = batch_space(self.single_observation_space, num_envs)
        self.action_space: Space[Any] = batch_space(self.single_action_space, num_envs)
        generators = [np_random() for _ in range(num_envs)]
        self._random, self._seeds = [random for random, _ in generators], [seed for _, seed in generators]
        self._over = np.ones(num_envs, np.bool_)

    @property
    def np_random(self) -> Any:
        """Generators of random numbers, one for each environment."""
        return tuple(self._random)

    @np_random.setter
    def np_random(self, value: Any) -> None:
        """Sets the generators, one for each environment."""
        self._random, self._seeds = list(value), [-1] * self.num_envs

    @property
    def np_random_seed(self) -> Any:
        """Seeds of the generators."""
        return tuple(self._seeds)

    def reset(
        self,
        *,
        seed: SupportsIndex | Sequence[SupportsIndex | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Numbers, dict[str, Any]]:
        """Restarts all environments, or those in ``options["reset_mask"]``. With a number as `seed`, environment i gets
        ``seed + i``.

        Returns:
            The observations and `info`. The observations have a row for each environment, with the shape that
            :meth:`TransportEnv.reset` describes.

        Raises:
            ValueError: `options` has another entry, or the number of seeds is wrong.
        """
        mask = np.asarray(known(options, ("reset_mask",)).get("reset_mask", np.ones(self.num_envs, np.bool_)))
        if mask.shape != (self.num_envs,) or mask.dtype != np.bool_:
            raise ValueError(f"reset_mask must be an array of {self.num_envs} booleans, not {mask!r}")
        seeds: Sequence[SupportsIndex | None]
        if seed is None:
            seeds = [None] * self.num_envs
        elif isinstance(seed, SupportsIndex) and not isinstance(seed, np.ndarray):
            seeds = [index(seed) + i for i in range(self.num_envs)]
        else:
            seeds = list(seed)
        if len(seeds) != self.num_envs:
            raise ValueError(f"{len(seeds)} seeds for {self.num_envs} environments")
        which = [int(i) for i in np.flatnonzero(mask)]
        for i in which:
            given = seeds[i]
            if given is not None:
                self._random[i], self._seeds[i] = np_random(index(given))
        self._begin(which)
        return self._agents.observations.copy(), dict(self._agents.info)

    def step(
        self, actions: Numbers
    ) -> tuple[Numbers, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Applies the actions, and runs each network for a step.

        Args:
            actions: Array with one number for each environment: its shape is ``(num_envs, 1)``.

        Returns:
            The observations as of :meth:`reset`, the rewards, the terminated and the truncated episodes, and `info`.
            Each array has a row or a value for each environment.

        Raises:
            gymnasium.error.ResetNeeded: An episode is over, and the mode is ``DISABLED``.
            ValueError: An action or the shape of `actions` is invalid.
        """
        again = self._over.copy()
        if self.mode == AutoresetMode.DISABLED and again.any():
            raise gymnasium.error.ResetNeeded(f"episodes are over: reset {np.flatnonzero(again).tolist()}")
        ends = self._agents.step(actions, ~again)
        rewards = np.where(again, 0.0, self._agents.rewards())
        self._begin(np.flatnonzero(again).tolist())
        over = ends != GOES_ON
        self._over = over.copy()
        info: dict[str, Any] = dict(self._agents.info)
        if self.mode == AutoresetMode.SAME_STEP and over.any():
            final: dict[str, Any] = {"final_obs": self._agents.observations.copy(), "final_info": info}
            self._begin(np.flatnonzero(over).tolist())
            # As in Gymnasium's own vectors: an object for each environment, `None` if its episode continues.
            last = np.full(self.num_envs, None, object)
            for i in np.flatnonzero(over):
                last[i] = final["final_obs"][i]
            masked = {f"_{name}": over for name in info}
            info = {**self._agents.info, "final_obs": last, "_final_obs": over}
            info |= {"final_info": final["final_info"] | masked, "_final_info": over}
        return self._agents.observations.copy(), rewards, ends == TERMINATED, ends == TRUNCATED, info

    def _begin(self, which: Sequence[int]) -> None:
        """Begins an episode in some environments."""
        if not which:
            return
        replicas = [int(self._random[i].integers(2**32)) for i in which]
        self._over[which] = True
        self._agents.reset(which, replicas, [self._maker(self._random[i]) for i in which] if self._maker else ())
        self._over[which] = False


gymnasium.register(
    id="roughlink/Transport-v0",
    entry_point="roughlink.gym:TransportEnv",
    vector_entry_point="roughlink.gym:TransportVectorEnv",
    order_enforce=False,
)
