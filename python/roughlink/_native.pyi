"""Compiled part of the package, without a stable interface: use the names of `roughlink` instead."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import ClassVar, Literal, final

__all__ = [
    "Ack",
    "Batch",
    "Congestion",
    "Fault",
    "Flow",
    "LimitError",
    "LinkEvent",
    "Plan",
    "RateSample",
    "RoughlinkError",
    "Run",
    "Running",
    "Scenario",
    "ScenarioError",
    "Sent",
    "Share",
    "Table",
    "Work",
    "__version__",
    "algorithms",
    "cell_interval",
    "choices",
    "difference",
    "engine",
    "exp2",
    "identity",
    "interval",
    "measure",
    "merge",
    "metrics",
    "names",
    "quantile",
    "quantity",
    "read",
    "register",
    "rows",
    "schema",
    "split_list",
    "stored_run",
    "student",
    "sweep",
    "values",
]
__version__: str
"""Version of the package."""
engine: str

class RoughlinkError(Exception):
    """Base class of roughlink's errors; the message has the reason and advice."""

class ScenarioError(RoughlinkError):
    """A scenario is invalid; the message has the position. The attributes belong to the first problem."""

    key: str | None
    """Name of the key; ``None`` if unknown."""
    line: int | None
    """Line of the file, from 1; ``None`` if unknown."""
    help: str | None
    """Advice; ``None`` if there is none."""

class LimitError(RoughlinkError):
    """A run or a stored table exceeds a limit."""

class Fault(RoughlinkError):
    """A bug in roughlink; please report it."""

@final
class Scenario:
    name: str
    text: str
    seed: int
    duration_s: float
    nodes: list[str]
    flows: list[str]
    algorithms: list[str]
    transfers: list[str]
    links: list[str]
    warnings: list[str]
    @staticmethod
    def read(name: str, allow_outside: bool) -> Scenario: ...
    @staticmethod
    def from_text(
        text: str,
        name: str,
        folder: str | PathLike[str] | None,
        allow_outside: bool,
        overrides: list[tuple[str, str]],
        given: list[tuple[str, str]] | None = None,
    ) -> Scenario: ...
    @staticmethod
    def from_json(json: str, name: str, folder: str | PathLike[str] | None) -> Scenario: ...
    def set(self, pairs: list[tuple[str, str]]) -> Scenario: ...
    def get(self, key: str) -> str | None: ...
    def parts(self) -> tuple[str, str, PathLike[str] | None, bool, list[tuple[str, str]], list[tuple[str, str]]]: ...
    def run(
        self,
        replica: int,
        series: tuple[str, int] | None,
        limits: tuple[int | None, int | None],
        threads: int | None,
        cc: Sequence[tuple[str, Callable[[Flow], object]]],
    ) -> Run: ...
    def save(
        self,
        folder: str | PathLike[str],
        replica: int,
        series: tuple[str, int],
        limits: tuple[int | None, int | None],
        cc: Sequence[tuple[str, Callable[[Flow], object]]],
        captures: bool,
        force: bool,
    ) -> Run: ...

@final
class Run:
    folder: PathLike[str] | None
    @staticmethod
    def from_json(json: str, series: Sequence[tuple[str, Table]] | None) -> Run: ...
    def json(self) -> str: ...
    def flows(self) -> Table: ...
    def links(self) -> Table: ...
    def series(self, name: str) -> Table | None: ...
    @staticmethod
    def series_columns() -> list[tuple[str, list[str]]]: ...

@final
class Table:
    @staticmethod
    def of(columns: list[tuple[str, str, str, str, list[object]]]) -> Table: ...
    @staticmethod
    def from_ipc(bytes: bytes) -> Table: ...
    def ipc(self) -> bytes: ...
    def __len__(self) -> int: ...
    def columns(self) -> list[tuple[str, str, str, str]]: ...
    def part(self, first: int, count: int) -> Table: ...
    def select(self, names: list[str]) -> Table: ...
    def column(self, name: str) -> list[object]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...

@final
class Plan:
    warnings: list[str]
    def __len__(self) -> int: ...
    def folder(self, base: str | PathLike[str]) -> PathLike[str]: ...
    def work(
        self,
        folder: str | PathLike[str],
        threads: int,
        max_memory: int | None,
        report: Callable[[int, int, int, int, int, int], None],
        part: str | None,
        cc: Sequence[tuple[str, Callable[[Flow], object]]],
    ) -> tuple[PathLike[str], str, Table]: ...

@final
class Flow:
    """State of a connection at the time of a method call. Sizes are bytes of payload, times are seconds."""

    @property
    def now(self) -> float:
        """Current time, s since the start of the scenario."""
    @property
    def mss(self) -> int:
        """Payload of a full segment, bytes."""
    @property
    def state(self) -> Literal["open", "disorder", "recovery", "loss", "cwr"]:
        """State of loss recovery, with Linux's names: 'open', 'disorder', 'recovery', 'loss' or 'cwr'."""
    @property
    def in_flight(self) -> int:
        """Bytes believed to be in the network ('pipe' of RFC 6675)."""
    @property
    def outstanding(self) -> int:
        """Bytes sent and not cumulatively acknowledged (FlightSize of RFC 5681)."""
    @property
    def delivered(self) -> int:
        """Bytes delivered so far: cumulatively or selectively acknowledged, each counted once."""
    @property
    def snd_una(self) -> int:
        """Offset of the first unacknowledged byte in the stream."""
    @property
    def snd_nxt(self) -> int:
        """Offset of the next new byte in the stream."""
    @property
    def srtt(self) -> float | None:
        """Smoothed round-trip time (RFC 6298), s; None if not measured yet."""
    @property
    def latest_rtt(self) -> float | None:
        """Last round-trip time sample, s; None if not measured yet."""
    @property
    def min_rtt(self) -> float | None:
        """Smallest round-trip time of the connection, s; None if not measured yet."""
    @property
    def rto(self) -> float:
        """Retransmission timeout, s, including back-off."""
    @property
    def initial_window(self) -> int:
        """Initial window, bytes."""
    @property
    def initial_ssthresh(self) -> int:
        """Initial slow-start threshold, bytes; UNLIMITED if not set."""
    @property
    def send_window(self) -> int:
        """Window advertised by the peer, bytes."""
    @property
    def recovery_window(self) -> int | None:
        """Bytes that recovery allows in flight while it is active; else None."""
    @property
    def cwnd_limited(self) -> bool:
        """True if the sender has used its whole congestion window since the last acknowledgment."""
    @property
    def app_limited(self) -> bool:
        """True from when the application runs out of data until all data then in flight has been delivered."""
    @property
    def max_outstanding(self) -> int:
        """Largest number of outstanding bytes during the last window of data."""
    def window(self, cwnd: int) -> int:
        """Returns `cwnd`, or the limit of recovery while it is active; bytes."""

@final
class Ack:
    """An acknowledgment, after it was processed."""

    @property
    def acked(self) -> int:
        """Bytes newly acknowledged cumulatively."""
    @property
    def delivered(self) -> int:
        """Bytes newly delivered: acknowledged cumulatively or selectively for the first time."""
    @property
    def segments(self) -> int:
        """Whole segments credited to window growth. For a duplicate: 0, or the segments that it newly acknowledges
        selectively."""
    @property
    def rtt(self) -> float | None:
        """Round-trip time sample, s; None if there is no sample."""
    @property
    def may_grow(self) -> bool:
        """True if the window may grow: not in recovery, not limited by the application."""
    @property
    def prior_una(self) -> int:
        """Flow.snd_una before this acknowledgment."""
    @property
    def prior_in_flight(self) -> int:
        """Flow.in_flight before this acknowledgment, bytes."""
    @property
    def rate(self) -> RateSample | None:
        """Delivery rate sample; None if nothing was delivered."""
    @property
    def ecn_echo(self) -> bool:
        """True if the acknowledgment carries ECE and ECN was negotiated: the network marked packets."""

@final
class RateSample:
    """A sample of the delivery rate (Linux's rate_sample)."""

    @property
    def delivered(self) -> int:
        """Bytes delivered over `interval`."""
    @property
    def prior_delivered(self) -> int:
        """Flow.delivered when the acknowledged segment was sent."""
    @property
    def interval(self) -> float:
        """The longer of the send and the acknowledgment interval, s."""
    @property
    def rtt(self) -> float | None:
        """Round-trip time of the segment, s; None if the segment was retransmitted."""
    @property
    def sent_at(self) -> float:
        """Time at which the segment was sent last, s."""
    @property
    def losses(self) -> int:
        """Bytes detected as lost since the previous sample."""
    @property
    def acked_sacked(self) -> int:
        """Bytes that this acknowledgment delivered."""
    @property
    def prior_in_flight(self) -> int:
        """Flow.in_flight before this acknowledgment, bytes."""
    @property
    def app_limited(self) -> bool:
        """Flow.app_limited when the segment was sent."""
    @property
    def retransmitted(self) -> bool:
        """True if the segment was retransmitted."""

@final
class Sent:
    """A segment that has just been sent."""

    @property
    def seq(self) -> int:
        """Stream offset of the first byte."""
    @property
    def len(self) -> int:
        """Payload, bytes."""
    @property
    def retransmission(self) -> bool:
        """True for a retransmission."""
    @property
    def tx_start(self) -> bool:
        """True if nothing was in flight before."""

@final
class LinkEvent:
    """An event of a link on the flow's path, as reported to the host."""

    @property
    def kind(self) -> Literal["down", "up", "configured", "signal", "rate", "delay", "threshold"]:
        """'down', 'up', 'configured', 'signal', 'rate', 'delay' or 'threshold'."""
    @property
    def value(self) -> float | None:
        """Value in dBm for 'signal' and 'threshold', bit/s for 'rate', s (one way) for 'delay'; else None."""
    @property
    def hysteresis(self) -> float | None:
        """For 'threshold': coverage ends at `value` and begins this many dB above it; else None."""

@final
class Congestion:
    """Reason why the window must shrink. An episode is reported once, apart from repeated timeouts (TIMEOUT_AGAIN)."""

    LOSS: ClassVar[Congestion]
    """Fast retransmit."""
    TIMEOUT: ClassVar[Congestion]
    """Retransmission timeout."""
    TIMEOUT_AGAIN: ClassVar[Congestion]
    """Another timeout in the same episode. Keep ssthresh and reduce the window to one segment."""
    ECN: ClassVar[Congestion]
    """ECN-Echo."""

    @property
    def is_timeout(self) -> bool:
        """True for a retransmission timeout, whether the first of its episode or not."""

@final
class Batch:
    def __new__(
        cls,
        scenarios: Sequence[tuple[Scenario, Sequence[tuple[str, Callable[[Flow], object]]]]],
        flows: list[str],
        seconds: float | None,
        round_trips: float,
        threads: int,
    ) -> Batch: ...
    def replace(self, i: int, scenario: Scenario, classes: Sequence[tuple[str, Callable[[Flow], object]]]) -> None: ...
    def reset(self, which: list[tuple[int, int]]) -> None: ...
    def step(self, actions: bytes) -> bytes: ...
    def observations(self) -> bytes: ...
    def started(self) -> list[bool]: ...
    def silences(self) -> list[float]: ...
    def path_states(self) -> bytes: ...
    def times(self) -> list[float]: ...

@final
class Running:
    def __new__(
        cls, scenario: Scenario, replica: int, cc: Sequence[tuple[str, Callable[[Flow], object]]]
    ) -> Running: ...
    def is_over(self) -> bool: ...
    def undelivered(self) -> int: ...
    def finish(self, most_late: float) -> tuple[Run, list[str]]: ...

def exp2(logs: bytes) -> bytes: ...
def register(name: str, summary: str) -> None: ...

@final
class Work:
    files: int
    def __new__(cls, plan: Plan, folder: str | PathLike[str], max_memory: int | None) -> Work: ...
    def chunk(self, cost: int, most: int) -> tuple[list[int], int] | None: ...
    def description(self) -> bytes: ...
    def keep(self, lines: bytes) -> None: ...
    def progress(self) -> tuple[int, int, int, int, int]: ...
    def finish(self) -> tuple[PathLike[str], str, Table]: ...
    def close(self) -> None: ...

@final
class Share:
    def __new__(cls, description: bytes) -> Share: ...
    def work(self, numbers: list[int]) -> tuple[bytes, list[tuple[bool, str]]]: ...

def algorithms() -> str: ...
def choices(text: str) -> tuple[str, list[str]]: ...
def merge(
    folders: list[str], output: str | PathLike[str], max_runs: int
) -> tuple[PathLike[str], str, Table]: ...
def metrics() -> str: ...
def names() -> list[str]: ...
def quantity(text: str) -> float: ...
def schema() -> str: ...
def split_list(text: str) -> list[str]: ...
def sweep(
    scenario: Scenario,
    vary: list[tuple[str, list[str]]],
    replicas: int,
    seed: int | None,
    metrics: list[str],
    max_runs: int,
    on_kernel: bool = False,
) -> Plan: ...
def student(freedom: float, level: float) -> float: ...
def interval(values: list[float], level: float) -> tuple[float, float] | None: ...
def quantile(values: list[float], at_least: list[float], q: float) -> float | None: ...
def cell_interval(cell: str, level: float) -> tuple[float | None, float | None]: ...
def difference(
    cell: str, other: str, level: float
) -> tuple[float | None, tuple[float | None, float | None]]: ...
def identity(folder: str | PathLike[str]) -> str | None: ...
def stored_run(
    folder: str | PathLike[str], identity: str | None, at: dict[str, str], replica: int, max_runs: int
) -> Scenario | None: ...
def values(key: str, text: str) -> list[str]: ...
def rows(path: str | PathLike[str]) -> tuple[str, list[str]]: ...
def measure(folder: str | PathLike[str], identity: str | None, metric: str, max_runs: int) -> str: ...
def read(folder: str | PathLike[str], most: int, max_runs: int) -> Run | tuple[str, Table | None, int | None]: ...
