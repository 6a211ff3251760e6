"""Congestion control in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Union

from . import _native
from ._native import Ack, Congestion, Flow, LinkEvent, Sent

UNLIMITED = 2**64 - 1
"""A slow-start threshold that there is not."""

Permit = Union[int, "tuple[int, float]", None]
"""What :meth:`CongestionControl.permit` returns: bytes that may be in flight; these and a pacing rate, bit/s; or ``None``: nothing may leave."""


class CongestionControl:
    """A congestion control of your own, for one connection: a subclass says what happens on acknowledgements and losses.

    Methods are those of the Rust trait ``cc::CongestionControl``, and are called when it is called. Only :meth:`on_ack` and
    :meth:`on_congestion` are necessary. After each call the attributes are read: `cwnd` and `rate_bps` are what may be sent, unless the
    class has a :meth:`permit` of its own; all are in the series of the run.

    An exception ends the run, and the caller of :meth:`Scenario.run` gets it. The result is the same each time if the class does the same
    each time: use neither clocks nor random numbers without a seed.

    Args:
        flow: the connection at its start: `mss`, `initial_window` and `initial_ssthresh` are known.
    """

    cwnd: float
    """Congestion window, bytes; a fraction is left out when it is used."""
    ssthresh: float
    """Slow-start threshold, bytes, :data:`UNLIMITED` if there is none. After ``Congestion.LOSS`` it is what recovery aims at."""
    rate_bps: float | None = None
    """Pacing rate, bit/s; ``None``: acknowledgements alone are the clock."""
    phase: str = "python"
    """Its name for what it is doing, for the series."""

    def __init__(self, flow: Flow) -> None:
        self.cwnd = flow.initial_window
        self.ssthresh = flow.initial_ssthresh

    def on_ack(self, flow: Flow, ack: Ack) -> None:
        """An acknowledgement arrived; called in every state, for duplicates, too. Grow only if ``ack.may_grow``."""
        raise NotImplementedError(f"{type(self).__name__} has no on_ack")

    def on_congestion(self, flow: Flow, cause: Congestion) -> None:
        """A loss episode begins: reduce `cwnd` and `ssthresh`. What `flow` says of bytes in flight is from before it was detected."""
        raise NotImplementedError(f"{type(self).__name__} has no on_congestion")

    def permit(self, flow: Flow) -> Permit:
        """What may be sent now. Asked before every segment: without a method of its own, a class is much faster.

        Returns:
            Bytes in flight, by default ``flow.window(cwnd)``, which is what recovery allows while it is in charge; or bytes and a pacing rate
            in bit/s; or ``None``, which freezes the connection and its timers, and may begin and end in `on_link` and `on_timer` only.
        """
        window = flow.window(int(self.cwnd))
        return window if self.rate_bps is None else (window, self.rate_bps)

    def on_sent(self, flow: Flow, sent: Sent) -> None:
        """A segment left."""

    def on_recovered(self, flow: Flow) -> None:
        """Recovery or loss ended. Called before `on_ack` of the same acknowledgement."""

    def on_undo(self, flow: Flow) -> None:
        """The last episode was spurious: take the reduction back."""

    def on_link(self, flow: Flow, event: LinkEvent) -> None:
        """A link on the path changed, and this host was told of it."""

    def on_timer(self, flow: Flow) -> None:
        """The time that `timer` asked for has come; it must ask for another, or for none."""

    def timer(self) -> float | None:
        """When `on_timer` is wanted, s since the start of the scenario. Asked after each of the other methods."""
        return None

    def rto_sample(self, flow: Flow, ack: int, measured: float | None) -> float | None:
        """The round-trip time, s, that the retransmission time-out takes in for an acknowledgement up to offset `ack`; the endpoint
        `measured` this."""
        return measured

    def starts_anew(self) -> bool:
        """Whether the endpoint forgets its round-trip times when `permit` no longer returns ``None``, because the path is another one."""
        return False


Maker = Callable[[Flow], CongestionControl]
"""What makes an algorithm for a connection: a class, or a function that returns an instance."""

_registered: dict[str, Maker] = {}


def register(name: str, algorithm: Maker) -> None:
    """Gives an algorithm a name, which scenarios can have from now on: ``load("hello").set("tcp.cc", "mine")``. The same name again means the
    new class, in runs that begin from then on.

    The name is known to this process only. :func:`sweep` refuses it: its run store takes results from runs before, and cannot see that a
    class has changed.

    Args:
        name: small letters, digits, ``-`` and ``_``.
        algorithm: a subclass of :class:`CongestionControl`, or what makes an instance of one: ``lambda flow: Mine(flow, gain=0.7)``.

    Raises:
        ValueError: the name is that of a built-in algorithm, or none.
    """
    if not callable(algorithm):
        raise TypeError(f"a class or a function is expected, not {algorithm!r}")
    if not name or name.strip("abcdefghijklmnopqrstuvwxyz0123456789-_"):
        raise ValueError(f"{name!r} is no name for an algorithm: small letters, digits, - and _")
    if name not in _registered:
        summary = (algorithm.__doc__ or "").strip().partition("\n")[0]
        _native.register(name, summary or "a class of your own")
    _registered[name] = algorithm


def bound(used: list[str], given: Mapping[str, Maker] | None) -> list[tuple[str, Maker]]:
    """The algorithms in Python for flows with these: those `given`, else those that are registered."""
    for name in given or ():
        if name not in _registered:
            raise ValueError(f"{name!r} is not a registered name: roughlink.register({name!r}, ...) before the scenario is made")
        if name not in used:
            raise ValueError(f"no flow has the algorithm {name!r}: set it, scenario.set('tcp.cc', {name!r})")
    found = {name: _registered[name] for name in used if name in _registered}
    found.update(given or {})
    return list(found.items())
