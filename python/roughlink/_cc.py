"""Congestion control in Python."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, Union

from . import _native
from ._native import Ack, Congestion, Flow, LinkEvent, Sent

UNLIMITED = 2**64 - 1
"""Slow-start threshold that never limits."""

Permit = Union[int, "tuple[int, float]", None]
"""Result of :meth:`CongestionControl.permit`: the bytes that may be in flight; a tuple of these bytes and a pacing rate
in bit/s; or ``None`` to send nothing."""


class CongestionControl:
    """Base class of congestion controls in Python, one instance per connection.

    The methods match the Rust trait ``cc::CongestionControl`` and are called at the same times. Subclasses must
    define :meth:`on_ack` and :meth:`on_congestion`. The simulator reads the attributes `cwnd`, `ssthresh`, `rate_bps`
    and `phase` after the constructor, after each ``on_`` method, and after :meth:`lower_window`. They also appear in
    the series of the run. `cwnd` and `rate_bps` limit the sender, unless the class overrides :meth:`permit`.

    An exception ends the run and reaches the caller of :meth:`Scenario.run`. Runs are reproducible if the class is
    deterministic: use no clock and no random numbers without a seed.

    Args:
        flow: The connection at its start, with `mss`, `initial_window` and `initial_ssthresh`.
    """

    cwnd: float
    """Congestion window, bytes. Fractions are truncated on use."""
    ssthresh: float
    """Slow-start threshold, bytes, or :data:`UNLIMITED`. After ``Congestion.LOSS``, recovery lowers the window to this
    value."""
    rate_bps: float | None = None
    """Pacing rate, bit/s; ``None`` for no pacing."""
    phase: str = "python"
    """Name of the current phase, for the series."""

    def __init__(self, flow: Flow) -> None:
        self.cwnd = flow.initial_window
        self.ssthresh = flow.initial_ssthresh

    def on_ack(self, flow: Flow, ack: Ack) -> None:
        """Processes an acknowledgment. Called in every state, also for duplicates. Grow only if ``ack.may_grow``."""
        raise NotImplementedError(f"{type(self).__name__} has no on_ack")

    def on_congestion(self, flow: Flow, cause: Congestion) -> None:
        """Reduces `cwnd` and `ssthresh`. Called at the start of each episode of losses or ECN marks, and for repeated
        timeouts. `flow.in_flight` and `flow.outstanding` are the values at the detection."""
        raise NotImplementedError(f"{type(self).__name__} has no on_congestion")

    def permit(self, flow: Flow) -> Permit:
        """Returns the current limit of the sender. Called before every segment; classes that do not override it are
        much faster.

        Returns:
            Bytes that may be in flight; or bytes and a pacing rate in bit/s; or ``None``. By default the bytes are
            ``flow.window(cwnd)``: `cwnd`, or the limit of recovery while it is active. The default rate is `rate_bps`.
            ``None`` freezes the connection and its timers. The result may change to or from ``None`` only after a call
            of `on_link` or `on_timer`.
        """
        window = flow.window(int(self.cwnd))
        return window if self.rate_bps is None else (window, self.rate_bps)

    def on_sent(self, flow: Flow, sent: Sent) -> None:
        """Processes the departure of a segment."""

    def on_recovered(self, flow: Flow) -> None:
        """Processes the end of recovery, before `on_ack` of the same acknowledgment."""

    def lower_window(self, flow: Flow, cwnd: int, ssthresh: int) -> None:
        """Sets `cwnd` and `ssthresh`, bytes, after an idle time or while the application does not fill the window.
        If the algorithm has a model of the path, override this method with an empty one: a pause does not change the
        path."""
        self.cwnd = cwnd
        self.ssthresh = ssthresh

    def on_undo(self, flow: Flow) -> None:
        """Undoes the reduction of the last episode, which was spurious."""

    def on_link(self, flow: Flow, event: LinkEvent) -> None:
        """Processes an event of a link on the path."""

    def on_timer(self, flow: Flow) -> None:
        """Processes the expiry of `timer`, which must then return a later time or ``None``."""

    def timer(self) -> float | None:
        """Returns the time of the next `on_timer`, s since the start of the scenario. Called whenever the simulator
        reads the attributes."""
        return None

    def rto_sample(self, flow: Flow, ack: int, measured: float | None) -> float | None:
        """Returns the round-trip time, s, that the retransmission timeout uses for an acknowledgment up to offset
        `ack`. `measured` is the endpoint's sample."""
        return measured

    def starts_anew(self) -> bool:
        """Returns true if the path has changed while `permit` returned ``None``. The endpoint then discards its
        round-trip times and its timeout when it may send again."""
        return False


Maker = Callable[[Flow], CongestionControl]
"""Constructor of an algorithm for a connection: a class, or a function that returns an instance."""

_registered: dict[str, Maker] = {}


def register(name: str, algorithm: Maker) -> None:
    """Registers an algorithm under a name for use in scenarios: ``load("hello").set("tcp.cc", "mine")``. Registering a
    name again replaces the class in runs that start later.

    The name exists only in this process. :func:`sweep` rejects it: the run store reuses earlier results and cannot
    detect that a class has changed. The argument `cc` of :func:`sweep` takes a class with a version instead.

    Args:
        name: Lower-case letters, digits, ``-`` and ``_``.
        algorithm: A subclass of :class:`CongestionControl`, or a function that returns an instance, such as
            ``lambda flow: Mine(flow, gain=0.7)``.

    Raises:
        ValueError: The name is invalid or belongs to a built-in algorithm.
    """
    if not callable(algorithm):
        raise TypeError(f"expected a class or a function, not {algorithm!r}")
    if not name or name.strip("abcdefghijklmnopqrstuvwxyz0123456789-_"):
        raise ValueError(f"invalid name {name!r}: use lower-case letters, digits, - and _")
    if name not in _registered:
        summary = (algorithm.__doc__ or "").strip().partition("\n")[0]
        _native.register(name, summary or "a class of your own")
    _registered[name] = algorithm


def bound(used: list[str], given: Mapping[str, Maker] | None) -> list[tuple[str, Maker]]:
    """Returns the Python algorithm of each name in `used`: the one in `given`, or else the registered one."""
    for name in given or ():
        if name not in _registered:
            raise ValueError(
                f"{name!r} is not registered: call roughlink.register({name!r}, ...) before creating the scenario"
            )
        if name not in used:
            raise ValueError(f"no flow uses the algorithm {name!r}: call scenario.set('tcp.cc', {name!r})")
    found = {name: _registered[name] for name in used if name in _registered}
    found.update(given or {})
    return list(found.items())


def place(maker: Maker) -> tuple[str, str]:
    """Returns the module and the name by which other processes find an algorithm."""
    return str(getattr(maker, "__module__", "")), str(getattr(maker, "__qualname__", ""))


def register_from(name: str, where: tuple[str, str]) -> None:
    """Imports and registers an algorithm, unless this process has already registered `name`. `where` is the result of
    :func:`place`. Never raises: an exception while a worker of ``multiprocessing`` loads its task would leave the pool
    waiting forever."""
    if name in _registered:
        return
    module, attribute = where
    try:
        maker: Any = importlib.import_module(module)
        for part in attribute.split("."):
            maker = getattr(maker, part)
        register(name, maker)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        text = f"cannot import the Python algorithm {name!r} in this process ({reason}): define it in a module"
        _register_error(name, text)


def register_absent(name: str) -> None:
    """Registers the name of an algorithm whose class this process does not have. A run with it raises an error."""
    if name not in _registered and not name.strip("abcdefghijklmnopqrstuvwxyz0123456789-_"):
        text = f"this process lacks the Python algorithm {name!r}: call roughlink.register({name!r}, ...)"
        _register_error(name, text)


def _register_error(name: str, text: str) -> None:
    def unknown(flow: Flow) -> CongestionControl:
        raise RuntimeError(text)

    register(name, unknown)
