"""Observations and actions of an agent, and a congestion control that runs its policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Union

import numpy as np
from numpy.typing import NDArray

from . import _native
from ._cc import UNLIMITED, CongestionControl, Permit
from ._native import Ack, Congestion, Flow, Sent

Numbers = NDArray[np.float32]
"""Array of observations or actions."""

OBSERVATION = ("delivered", "sent", "rtt", "min_rtt", "loss", "window", "in_flight", "recovering", "interval")
"""Names of the observed values, in order."""


class Decisions:
    """Translation of actions to windows or rates."""

    def __init__(
        self, action: Literal["window", "rate"], multiplicative: bool, max_window: float, max_rate_mbps: float
    ) -> None:
        if action not in ("window", "rate"):
            raise ValueError(f"unknown action {action!r}; expected 'window' or 'rate'")
        self.action = action
        self.multiplicative = multiplicative
        self.max_window = max_window
        self.least, self.most, first = (1.0, max_window, 10.0) if action == "window" else (0.01, max_rate_mbps, 1.0)
        if not self.least < self.most < np.inf:
            raise ValueError(f"the largest {action} is {self.most}; expected a finite number above {self.least}")
        self.first = min(first, self.most)

    def after(self, value: NDArray[np.float64], given: NDArray[np.float64]) -> NDArray[np.float64]:
        """Applies actions to the previous windows or rates."""
        if self.multiplicative:
            # The last bits of NumPy's powers differ between machines.
            factors = np.frombuffer(_native.exp2(np.clip(given, -1, 1).tobytes()), np.float64)
            given = value * factors.reshape(value.shape)
        clipped: NDArray[np.float64] = np.clip(given, self.least, self.most)
        return clipped


class Deployed(CongestionControl):
    """Congestion control that runs a policy, for any flow of any scenario. Observations and decisions are the same, bit
    for bit, as for the agent of :class:`TransportEnv` with the same arguments.

        >>> import roughlink, roughlink.gym as rg
        >>> roughlink.register("learned", lambda flow: rg.Deployed(flow, lambda seen: 0.1 if seen[4] < 0.01 else -0.1))

    The cost is a few microseconds per segment plus one call of the policy per step. A policy for other observations
    (`observe`) computes them itself.

    Args:
        flow: The connection, as for every algorithm.
        policy: Function from an observation to an action, called once per step. A policy that keeps state must not be
            shared between connections.

    The other arguments are the same as for :class:`TransportEnv`.

    Raises:
        ValueError: An argument is out of range. During a run: `policy` returned a number that is not finite.
    """

    cwnd: float
    ssthresh: float
    rate_bps: float | None = None
    phase: str = "controlled"

    def __init__(
        self,
        flow: Flow,
        policy: Callable[[Numbers], Union[float, NDArray[Any]]],
        *,
        action: Literal["window", "rate"] = "window",
        multiplicative: bool = True,
        interval_s: float | None = None,
        round_trips: float = 1.0,
        max_window: float = 10_000,
        max_rate_mbps: float = 1000,
        history: int = 1,
    ) -> None:
        super().__init__(flow)
        if interval_s is not None and not 1e-6 <= interval_s < np.inf or not 0 < round_trips < np.inf:
            raise ValueError("a step must take at least a microsecond, or a positive number of round trips")
        self._decisions = Decisions(action, multiplicative, max_window, max_rate_mbps)
        self._policy, self._history = policy, history
        self._past: list[Numbers] = []
        self._interval_s, self._round_trips = interval_s, round_trips
        self._value = np.array([self._decisions.first])
        self._window = FIRST_WINDOW  # segments
        self.cwnd, self.ssthresh = int(self._window * flow.mss), UNLIMITED
        self._flow = flow
        # Whole nanoseconds. `_due` stays `None` at the receiving end, which makes no decisions.
        self._since = 0
        self._due: int | None = None
        self._begin()

    def _begin(self) -> None:
        """Begins an interval."""
        self._delivered = self._lost = self._sent = self._rtts = self._rtt = 0

    def on_ack(self, flow: Flow, ack: Ack) -> None:
        if self._due is None:
            return
        self._look(flow)
        self._delivered += ack.delivered
        rate, rtt = ack.rate, ack.rtt
        if rate is not None:
            self._lost += rate.losses
        if rtt is not None:
            self._rtt += round(rtt * 1e9)
            self._rtts += 1
        self._flow = flow

    def on_sent(self, flow: Flow, sent: Sent) -> None:
        if self._due is None:
            if sent.len <= 1:  # a FIN, which counts as one byte
                return
            self._since = round(flow.now * 1e9)
            self._due = self._since + 1
        self._look(flow)
        self._sent += sent.len
        self._flow = flow

    def on_congestion(self, flow: Flow, cause: Congestion) -> None:
        self._look(flow)

    def on_timer(self, flow: Flow) -> None:
        self._look(flow)

    def timer(self) -> float | None:
        return None if self._due is None else self._due / 1e9

    def permit(self, flow: Flow) -> Permit:
        self._look(flow)
        window = max(int(self._window * flow.mss), flow.mss)
        return window if self.rate_bps is None else (window, self.rate_bps)

    def _look(self, flow: Flow) -> None:
        """Makes a decision if one is due. The decision takes effect one nanosecond after the observed interval."""
        if self._due is None or round(flow.now * 1e9) < self._due:
            return
        now = self._due - 1
        seen = self._seen(now - self._since)
        if self._history > 1:
            # Before the first step all are the same, as in the environment.
            self._past = [*self._past[1:], seen] if self._past else [seen] * self._history
            seen = np.stack(self._past)
        given = np.asarray(self._policy(seen), np.float64).reshape(1)
        if not np.isfinite(given[0]):
            raise ValueError(f"an action is not a finite number: {given}")
        self._value = self._decisions.after(self._value, given)
        if self._decisions.action == "window":
            self._window = float(self._value[0])
        else:
            self._window, self.rate_bps = self._decisions.max_window, int(max(self._value[0] * 1e6, 1.0))
        self.cwnd = int(self._window * flow.mss)
        if self._interval_s is not None:
            length = int(self._interval_s * 1e9 + 0.5)
        else:
            length = int((self._flow.srtt or 0.0) * self._round_trips * 1e9 + 0.5)
            length = min(max(length, INTERVALS_NS[0]), INTERVALS_NS[1])
        self._since, self._due = now, now + length + 1
        self._begin()

    def _seen(self, took_ns: int) -> Numbers:
        took, flow = took_ns / 1e9, self._flow
        numbers = [
            self._delivered * 8e-6 / took if took else 0.0,
            self._sent * 8e-6 / took if took else 0.0,
            self._rtt / 1e9 / self._rtts if self._rtts else 0.0,
            flow.min_rtt or 0.0,
            self._lost / max(self._lost + self._delivered, 1),
            self._window,
            flow.in_flight / flow.mss,
            float(flow.state not in ("open", "disorder")),
            took,
        ]
        return np.array(numbers, np.float32)


FIRST_WINDOW = 10.0
"""Window before the first decision, segments (RFC 6928)."""
INTERVALS_NS = (10_000_000, 1_000_000_000)
"""Shortest and longest step if steps are given in round trips, ns."""
