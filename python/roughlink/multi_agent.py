"""Environment for several agents: each controls a flow of the same network. Needs PettingZoo 1.25 and gymnasium.

    >>> import roughlink.multi_agent
    >>> env = roughlink.multi_agent.TransportParallelEnv("three-cars", flows=["car1", "car2", "car3"])

Each agent has the observations, actions and rewards of :mod:`roughlink.gym`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from operator import index
from typing import Any, Literal, SupportsIndex

import numpy as np
from gymnasium.spaces import Box
from gymnasium.utils import EzPickle
from gymnasium.utils.seeding import np_random
from numpy.typing import NDArray
from pettingzoo import ParallelEnv

from ._agents import GOES_ON, OPTIONS, TERMINATED, TRUNCATED, Agents, Observe, Rate, Reward
from ._agents import ScenarioLike, ScenarioMaker, first_of
from ._deployed import Numbers
from ._scenario import scenario as scenario_of

__all__ = ["TransportParallelEnv"]


class TransportParallelEnv(ParallelEnv, EzPickle):  # type: ignore[misc]  # PettingZoo has no type information
    """Environment with several controlled flows of one network, for the parallel API of PettingZoo. Agents have the
    names of their flows.

    All agents decide at the same times. An episode begins when the first of their flows sends data. Decisions for
    a flow that has not sent data are ignored. An agent leaves `agents` when its flow is over.

    Args:
        scenario: A scenario or a function, as for :class:`roughlink.gym.TransportEnv`.
        flows: Names of the controlled transfers, by default all transfers of the scenario.
        interval_s: Length of a step, s. By default `round_trips` determines the length.
        round_trips: Length of a step in smoothed round-trip times, taking the longest among the agents; at least 10 ms
            and at most 1 s.
        reward: Weights or a function, as for :class:`roughlink.gym.TransportEnv`. A function gets the rows of all
            agents at once, so that it can judge fairness.

    The other arguments are the same as for :class:`roughlink.gym.TransportEnv`. ``info[agent]`` has the same values as
    `info` there.

    Raises:
        ScenarioError: The scenario is invalid.
        ValueError: `flows` is empty or has a name twice. :class:`roughlink.gym.TransportEnv` lists other reasons.
    """

    metadata: dict[str, Any] = {"name": "roughlink_transport_v0", "render_modes": []}

    def __init__(
        self,
        scenario: ScenarioLike | ScenarioMaker = "three-cars",
        flows: Sequence[str] | None = None,
        *,
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
        render_mode: None = None,
    ) -> None:
        options = {name: value for name, value in locals().items() if name in OPTIONS}
        EzPickle.__init__(self, scenario, flows, **options)
        self.render_mode = render_mode
        first = scenario_of(first_of(scenario))
        self.possible_agents: list[str] = first._native.transfers if flows is None else list(flows)
        if not self.possible_agents or len(set(self.possible_agents)) < len(self.possible_agents):
            raise ValueError(f"the controlled flows are {self.possible_agents}; expected at least one, each once")
        self.agents: list[str] = []
        self._maker = scenario if callable(scenario) else None
        self._all = Agents([first], self.possible_agents, **options)
        spaces = self._all.observation_space, self._all.action_space
        # Each agent has its own, so that each can be seeded.
        self._spaces = {agent: deepcopy(spaces) for agent in self.possible_agents}
        self._random = np.random.default_rng()

    def observation_space(self, agent: str) -> Box:
        """Returns the space of the observations, which is the same for all agents."""
        return self._spaces[agent][0]

    def action_space(self, agent: str) -> Box:
        """Returns the space of the actions, which is the same for all agents."""
        return self._spaces[agent][1]

    def reset(
        self, seed: SupportsIndex | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Numbers], dict[str, dict[str, Any]]]:
        """Starts an episode. `options` is ignored, because PettingZoo's checks pass options that no environment has.

        Returns:
            The observation and the information of each agent. An observation has the shape that
            :meth:`roughlink.gym.TransportEnv.reset` describes.
        """
        if seed is not None:
            self._random = np_random(index(seed))[0]
        self.agents = []
        replica = int(self._random.integers(2**32))
        self._all.reset([0], [replica], [self._maker(self._random)] if self._maker else ())
        self.agents = self.possible_agents[:]
        return self._seen(self.agents), self._infos(self.agents)

    def step(
        self, actions: Mapping[str, NDArray[Any]]
    ) -> tuple[
        dict[str, Numbers], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]
    ]:
        """Applies the action of each agent in `agents`, and runs the network for a step.

        Args:
            actions: Action of each agent by name, an array with one number.

        Returns:
            Observations, rewards, terminated and truncated agents, and information, each as a dictionary by agent.

        Raises:
            ValueError: An agent has no action, or an action is not a finite number.
        """
        if not self.agents:
            return {}, {}, {}, {}, {}
        missing = [agent for agent in self.agents if agent not in actions]
        if missing:
            raise ValueError(f"no action for {', '.join(missing)}")
        active = np.array([agent in self.agents for agent in self.possible_agents])
        given = np.zeros(len(active))
        for row in np.flatnonzero(active):
            given[row] = np.asarray(actions[self.possible_agents[row]], np.float64).reshape(1)[0]
        ends = dict(zip(self.possible_agents, self._all.step(given, active), strict=True))
        rewards = dict(zip(self.possible_agents, self._all.rewards().tolist(), strict=True))
        told, self.agents = self.agents, [agent for agent in self.agents if ends[agent] == GOES_ON]
        return (
            self._seen(told),
            {agent: rewards[agent] for agent in told},
            {agent: bool(ends[agent] == TERMINATED) for agent in told},
            {agent: bool(ends[agent] == TRUNCATED) for agent in told},
            self._infos(told),
        )

    def _seen(self, agents: Sequence[str]) -> dict[str, Numbers]:
        return {agent: self._all.observations[self.possible_agents.index(agent)].copy() for agent in agents}

    def _infos(self, agents: Sequence[str]) -> dict[str, dict[str, Any]]:
        row = self.possible_agents.index
        return {a: {name: values[row(a)].item() for name, values in self._all.info.items()} for a in agents}
