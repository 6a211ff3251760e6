"""Networks with flows that agents control: the common part of all environments.

Every array has a row for each controlled flow, sorted by network and then in the order of `flows`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, Literal, Union

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from . import _native
from ._cc import bound
from ._deployed import OBSERVATION, Decisions, Numbers
from ._scenario import Scenario
from ._scenario import scenario as scenario_of

ScenarioLike = Union[Scenario, str, "os.PathLike[str]", "Mapping[str, Any]"]
"""A scenario, its name, or its keys."""
ScenarioMaker = Callable[[np.random.Generator], ScenarioLike]
"""Function that returns the scenario of an episode, for example with a random rate."""
Info = dict[str, NDArray[Any]]
"""Values beside the observation, by name: arrays with a value for each row. See :class:`roughlink.gym.TransportEnv`."""
Observe = Callable[[Numbers, Info], Numbers]
"""Function that computes other observations, row by row, from the nine numbers of each row and the information."""
Rate = Callable[[Numbers, Info], NDArray[Any]]
"""Function that computes the reward of each row from its nine numbers and the information."""


@dataclass(frozen=True)
class Reward:
    """Weights of a reward."""

    throughput: float = 1.0
    """Reward per Mbit/s delivered."""
    delay: float = 10.0
    """Penalty per second of round-trip time above the minimum."""
    loss: float = 0.0
    """Penalty for a loss of 100 %."""
    silence: float = 0.0
    """Penalty per second since the last acknowledgment. The other terms are 0 during an outage."""

    def __call__(self, seen: Numbers, info: Info) -> NDArray[np.float64]:
        """Returns the reward of each row."""
        numbers = seen.astype(np.float64)
        queued = np.where(numbers[:, 2] > 0, numbers[:, 2] - numbers[:, 3], 0.0)
        rewards: NDArray[np.float64] = (
            self.throughput * numbers[:, 0]
            - self.delay * queued
            - self.loss * numbers[:, 4]
            - self.silence * info["since_ack_s"]
        )
        return rewards


class Agents:
    """Networks, each with the windows or rates that its agents have set."""

    def __init__(
        self,
        scenarios: Sequence[ScenarioLike],
        flows: Sequence[str],
        *,
        action: Literal["window", "rate"],
        multiplicative: bool,
        interval_s: float | None,
        round_trips: float,
        max_window: float,
        max_rate_mbps: float,
        reward: Rate | None,
        observe: Observe | None,
        history: int,
        privileged: bool,
        threads: int = 1,
    ) -> None:
        if history < 1:
            raise ValueError(f"history is {history}; expected at least 1")
        self.decisions = Decisions(action, multiplicative, max_window, max_rate_mbps)
        self.batch = _native.Batch(_read(scenarios), list(flows), interval_s, round_trips, threads)
        self.networks = len(scenarios)
        self.each = max(len(flows), 1)
        self.rows = self.networks * self.each
        self.reward = reward or Reward()
        self.observe, self.history, self.privileged = observe, history, privileged
        self.replicas = np.zeros(self.networks, np.int64)
        self.value = np.full(self.rows, self.decisions.first)
        self.seen, self.info = self._look()
        low, high = (-1.0, 1.0) if multiplicative else (self.decisions.least, self.decisions.most)
        self.action_space = Box(np.float32(low), np.float32(high), (1,), np.float32)
        self._shape: tuple[int, ...] | None = None
        own = self._own()
        most = np.array([np.inf, np.inf, np.inf, np.inf, 1, np.inf, np.inf, 1, np.inf], np.float32)
        least = np.zeros(len(most), np.float32)
        if observe:
            least, most = np.full(own.shape[1:], -np.inf, np.float32), np.full(own.shape[1:], np.inf, np.float32)
        if history > 1:
            least, most = np.stack([least] * history), np.stack([most] * history)
        self.observation_space = Box(least, most, dtype=np.float32)
        # Changed in place: callers copy what they return.
        self.observations = _stacked(own, history).copy()

    def reset(self, which: Sequence[int], replicas: Sequence[int], scenarios: Sequence[ScenarioLike] = ()) -> None:
        """Starts an episode in the networks `which`, with new `scenarios` if there are any."""
        for i, (scenario, classes) in zip(which, _read(scenarios)):
            self.batch.replace(i, scenario, classes)
        self.batch.reset(list(zip(which, replicas, strict=True)))
        self.replicas[list(which)] = replicas
        rows = np.repeat(np.isin(np.arange(self.networks), list(which)), self.each)
        self.value[rows] = self.decisions.first
        self.seen, self.info = self._look()
        own = self._own()
        self.observations[rows] = _stacked(own, self.history)[rows]

    def step(self, actions: NDArray[Any], active: NDArray[np.bool_]) -> NDArray[np.uint8]:
        """Applies the actions of the rows in `active`, and runs their networks for an interval. Returns the outcome
        of each row: :data:`GOES_ON`, :data:`TERMINATED` or :data:`TRUNCATED`."""
        given = np.asarray(actions, np.float64)
        if given.size != self.rows or (given.ndim > 1 and len(given) != self.rows):
            raise ValueError(f"the actions have the shape {given.shape}; expected {(self.rows, 1)}")
        given = given.reshape(self.rows)
        if not np.isfinite(given[active]).all():
            raise ValueError(f"an action is not a finite number: {given}")
        decides = active & np.array(self.batch.started())
        self.value = np.where(decides, self.decisions.after(self.value, given), self.value)
        both = np.zeros((self.rows, 2))
        if self.decisions.action == "window":
            both[:, 0] = self.value
        else:
            both[:, 0], both[:, 1] = self.decisions.max_window, self.value
        runs = np.repeat(active.reshape(self.networks, self.each).any(axis=1), self.each)
        both[~runs, 0] = -1
        outcomes = np.frombuffer(self.batch.step(both.tobytes()), np.uint8)
        self.seen, self.info = self._look()
        own = self._own()
        if self.history == 1:
            self.observations[runs] = own[runs]
        else:
            self.observations[runs] = np.concatenate([self.observations[runs, 1:], own[runs, None]], axis=1)
        return outcomes

    def rewards(self) -> NDArray[np.float64]:
        """Returns the reward of each row for the last interval."""
        rewards = np.asarray(self.reward(*self._copies()), np.float64)
        if rewards.shape != (self.rows,):
            raise ValueError(f"the reward has the shape {rewards.shape}; expected {(self.rows,)}")
        return rewards

    def _look(self) -> tuple[Numbers, Info]:
        """Returns the nine numbers of each row, and the information."""
        seen = np.frombuffer(self.batch.observations(), np.float32).reshape(self.rows, len(OBSERVATION)).copy()
        info: Info = {
            "time_s": np.repeat(self.batch.times(), self.each),
            "replica": np.repeat(self.replicas, self.each),
            "since_ack_s": np.array(self.batch.silences()),
        }
        if self.privileged:
            states = np.frombuffer(self.batch.path_states(), np.float64).reshape(self.rows, 3)
            info["rate_mbps"] = states[:, 0].copy()
            info["queue_packets"] = states[:, 1].astype(np.int64)
            info["link_up"] = states[:, 2] > 0
        return seen, info

    def _copies(self) -> tuple[Numbers, Info]:
        """Returns arguments that a function of the user may change."""
        return self.seen.copy(), {name: values.copy() for name, values in self.info.items()}

    def _own(self) -> Numbers:
        if self.observe is None:
            return self.seen
        own = np.array(self.observe(*self._copies()), np.float32)
        expected = (self.rows, *(self._shape if self._shape is not None else own.shape[1:]))
        if own.ndim < 2 or own.shape != expected:
            raise ValueError(f"observe returned the shape {own.shape}; expected {expected}")
        self._shape = own.shape[1:]
        return own


OPTIONS = frozenset(signature(Agents).parameters) - {"scenarios", "flows"}
"""Arguments that all environments pass on to :class:`Agents`."""


def _stacked(seen: Numbers, history: int) -> Numbers:
    """Returns the history of each row before the first step: the observation, repeated."""
    return seen if history == 1 else np.repeat(seen[:, None], history, axis=1)


def first_of(scenario: ScenarioLike | ScenarioMaker) -> ScenarioLike:
    """Returns the scenario, or an example from a function, for the time before the first reset."""
    return scenario(np.random.default_rng(0)) if callable(scenario) else scenario


def known(options: dict[str, Any] | None, names: Sequence[str] = ()) -> dict[str, Any]:
    """Checks and returns the options of a reset.

    Raises:
        ValueError: An option is not in `names`.
    """
    unknown = sorted(set(options or ()) - set(names))
    if unknown:
        raise ValueError(f"unknown option {unknown[0]!r} of reset; expected {' or '.join(names) or 'none'}")
    return options or {}


def _read(sources: Sequence[ScenarioLike]) -> list[tuple[_native.Scenario, list[tuple[str, Any]]]]:
    """Creates the scenarios, with the Python algorithms of their flows. An object that occurs several times in
    `sources` is read only once."""
    made: dict[int, Scenario] = {}
    for each in sources:
        if id(each) not in made:
            made[id(each)] = scenario_of(each)
    natives = [made[id(each)]._native for each in sources]
    return [(native, bound(native.algorithms, None)) for native in natives]


GOES_ON, TERMINATED, TRUNCATED = range(3)
