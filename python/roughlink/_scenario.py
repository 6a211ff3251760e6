"""Scenarios: networks with their traffic and duration."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterable, Mapping
from functools import partial
from html import escape
from math import isfinite
from operator import index
from pathlib import Path
from typing import Any, SupportsFloat, SupportsIndex, SupportsInt, Union

from . import _native
from ._cc import Maker, bound, place, register_from
from ._run import Run

Value = Union[str, int, float, bool, SupportsInt, "list[Any]", "dict[str, Any]"]
"""Value of a key: text as after ``--set KEY=`` on the command line; a number; a boolean; a list; or a table."""


class Scenario:
    """A network with its traffic and duration. Immutable: :meth:`set` returns a new one.

    Created by :func:`load` and :func:`scenario`. Scenarios can be compared and pickled, together with the files that
    they read. A process that loads a pickle imports the Python algorithms that it has not registered. If an import
    fails, :meth:`run` raises an error.
    """

    def __init__(self, native: _native.Scenario) -> None:
        self._native = native

    @property
    def name(self) -> str:
        """Title of the scenario."""
        return self._native.name

    @property
    def text(self) -> str:
        """The scenario as TOML, with all overrides applied."""
        return self._native.text

    @property
    def seed(self) -> int:
        """Seed of the random streams."""
        return self._native.seed

    @property
    def duration_s(self) -> float:
        """Longest simulated time, s."""
        return self._native.duration_s

    @property
    def nodes(self) -> list[str]:
        """Names of the nodes."""
        return self._native.nodes

    @property
    def links(self) -> list[str]:
        """Names of the links."""
        return self._native.links

    @property
    def flows(self) -> list[str]:
        """Names of the flows."""
        return self._native.flows

    def set(self, key: str | Mapping[str, Value], value: Value | None = None) -> Scenario:
        """Returns a copy with one or several keys changed: ``s.set("link.plc.rate", "5 Mbit/s")``,
        ``s.set({"tcp.cc": "cubic", "seed": 7})``. Keys have the form of ``--set`` on the command line.

        Raises:
            ScenarioError: The key does not exist, or the value is invalid.
        """
        pairs: Mapping[str, Any] = {key: value} if isinstance(key, str) else key
        return _made(self._native.set([(name, text_of(each, name)) for name, each in pairs.items()]))

    def __getitem__(self, key: str) -> Any:
        """Returns the value of a key: the written value, or else the value in effect, such as the stack's for
        ``s["tcp.min_rto"]``. Returns ``None`` if the key is absent and has no default. `key` is a path as in
        :meth:`set`, without ``*``.

        Raises:
            KeyError: The scenario cannot have such a key.
        """
        found = self._native.get(key)
        if found is None:
            return self.name if key == "name" else None
        return json.loads(found)

    def __contains__(self, key: str) -> bool:
        """Returns true if a key has a value."""
        try:
            return self[key] is not None
        except KeyError:
            return False

    __iter__ = None

    def run(
        self,
        *,
        replica: SupportsIndex = 0,
        series: bool = False,
        sample: str = "0 s",
        max_memory: SupportsIndex | None = None,
        max_series: SupportsIndex = 4_000_000_000,
        max_events: SupportsIndex | None = None,
        threads: SupportsIndex | None = None,
        cc: Mapping[str, Maker] | None = None,
        folder: str | os.PathLike[str] | None = None,
        captures: bool = True,
        force: bool = False,
    ) -> Run:
        """Simulates the scenario without blocking other Python threads. Ctrl-C ends a run in the main thread; runs in
        other threads continue to their end.

        Args:
            replica: Number of the run, from 0; each has different random numbers.
            series: Keep time series of flows, links and segments (:meth:`Run.series`).
            sample: Minimum time between rows of the same flow or link direction; changes of state always get a row.
                ``"0 s"`` keeps all rows.
            max_memory: Limit for packets in flight and the senders' segment records, bytes; 256 MB by default.
            max_series: Limit for the series, bytes; a row of a flow takes about 150.
            max_events: Limit for the number of events; none by default.
            threads: Number of threads, one per core by default. Parts of the network that share no link run in
                parallel, with the same results, unless `series`, `max_events`, `folder` or a Python algorithm is used.
            cc: Python algorithms for this run, by name, instead of the ones given to :func:`register`.
            folder: Folder for the results, with series and captures, in the form of ``roughlink run -o``
                (``docs/reference/results.md``). Series are then read from there. The manifest has no command line.
            captures: Write a capture (pcapng) for each node into `folder`.
            force: Replace the results of another run in `folder`.

        Returns:
            The results, with series if `series` is true or `folder` is given.

        Raises:
            ScenarioError: A flow has no path.
            RoughlinkError: The folder is not empty or cannot be written.
            LimitError: The run exceeds `max_memory`, `max_series` or `max_events`.
            ValueError: A number is out of range.
            KeyboardInterrupt: Ctrl-C was pressed.

        Exceptions of Python algorithms reach the caller unchanged.
        """
        mine = bound(self._native.algorithms, cc)
        kept = (sample, whole(max_series, "max_series")) if series else None
        limits = (optional(max_memory, "max_memory"), optional(max_events, "max_events"))
        number = whole(replica, "replica", 2**32 - 1)
        if folder is not None:
            all_series = (sample, whole(max_series, "max_series"))
            return Run(self._native.save(folder, number, all_series, limits, mine, captures, force))
        again = partial(self.run, replica=number, max_memory=max_memory, max_events=max_events, cc=cc)
        return Run(self._native.run(number, kept, limits, optional(threads, "threads"), mine), again)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scenario) and self._native.parts() == other._native.parts()

    def __hash__(self) -> int:
        return hash(self._native.text)

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process has to register the Python algorithms, too.
        places = {name: place(maker) for name, maker in bound(self._native.algorithms, None)}
        return _again, (*self._native.parts(), places)

    def __repr__(self) -> str:
        return f"<roughlink.Scenario {self.name!r}: {_counted(self)}>"

    def _repr_html_(self) -> str:
        return f"<p><b>{escape(self.name)}</b>: {_counted(self)}</p><pre>{escape(self.text)}</pre>"


def load(name: str | os.PathLike[str], *, allow_outside: bool = False) -> Scenario:
    """Loads a scenario file or a built-in scenario (:func:`scenarios`).

    Args:
        name: A path, or the name of a built-in scenario such as ``"hello"``.
        allow_outside: Permit references to files outside the scenario's folder.

    Returns:
        The scenario. Valid but probably unintended settings cause a :class:`RoughlinkWarning`.

    Raises:
        ScenarioError: The file is invalid; the message has the position.
        RoughlinkError: The file does not exist.
    """
    return _made(_native.Scenario.read(os.fspath(name), allow_outside))


def scenario(
    what: Scenario | str | os.PathLike[str] | Mapping[str, Any], *, folder: str | os.PathLike[str] | None = None
) -> Scenario:
    """Creates a scenario from a dictionary, from the text of a file (any text with a line break), or from a path or
    name as in :func:`load`.

    Args:
        what: The keys of a scenario file, the text of one, a path, or a name.
        folder: Folder of the files that a dictionary or text refers to, by default the working directory. Not used
            for a path or a name.

    Returns:
        The scenario, or `what` itself if it is a :class:`Scenario`. Valid but probably unintended settings cause a
        :class:`RoughlinkWarning`.

    Raises:
        ScenarioError: The scenario is invalid.
    """
    if isinstance(what, Scenario):
        return what
    if isinstance(what, (str, os.PathLike)):
        if not isinstance(what, str) or "\n" not in what:
            return load(what)
        return _made(_native.Scenario.from_text(what, "scenario", folder or Path(), False, []))
    if not isinstance(what, Mapping):
        raise TypeError(f"expected a scenario as a dictionary, text, path or name, not {type(what).__name__}")
    return _made(_native.Scenario.from_json(plain(what, ""), "scenario", folder or Path()))


def scenarios() -> list[str]:
    """Returns the names of the built-in scenarios."""
    return _native.names()


def algorithms() -> list[dict[str, Any]]:
    """Returns the congestion controls: ``name``, ``summary``, ``source``, ``tcp`` (keys that it sets) and
    ``parameters`` by stack, as in ``roughlink cc list --json``."""
    found: list[dict[str, Any]] = json.loads(_native.algorithms())
    return found


def metrics() -> list[dict[str, str]]:
    """Returns the metrics of :func:`sweep`: ``name``, ``of`` (flow, link or run), ``unit`` and ``meaning``, as in
    ``roughlink metric list --json``."""
    found: list[dict[str, str]] = json.loads(_native.metrics())
    return found


def quantity(value: str | SupportsFloat | None) -> float:
    """Returns the number of a quantity in base units: s, bit/s, B or packets. A percentage becomes a share, and a
    plain number is returned unchanged.

        >>> quantity("10 Mbit/s") * quantity("20 ms") / 8       # bandwidth-delay product, B
        25000.0

    Raises:
        ValueError: The text is not a number with a known unit, or the value is ``None``, as of a key without a value.
    """
    if value is None:
        raise ValueError("the key has no value")
    return _native.quantity(value) if isinstance(value, str) else float(value)


def schema() -> dict[str, Any]:
    """Returns the JSON Schema of scenario files."""
    found: dict[str, Any] = json.loads(_native.schema())
    return found


def run(
    what: Scenario | str | os.PathLike[str] | Mapping[str, Any],
    *,
    replica: SupportsIndex = 0,
    series: bool = False,
    sample: str = "0 s",
    max_memory: SupportsIndex | None = None,
    max_series: SupportsIndex = 4_000_000_000,
    max_events: SupportsIndex | None = None,
    cc: Mapping[str, Maker] | None = None,
    folder: str | os.PathLike[str] | None = None,
    captures: bool = True,
    force: bool = False,
) -> Run:
    """Creates a scenario (:func:`scenario`) and runs it with the options of :meth:`Scenario.run`.

    Returns:
        The results, as of :meth:`Scenario.run`.

    Raises:
        ScenarioError: The scenario is invalid. :meth:`Scenario.run` lists the other errors.
    """
    return scenario(what).run(
        replica=replica,
        series=series,
        sample=sample,
        max_memory=max_memory,
        max_series=max_series,
        max_events=max_events,
        cc=cc,
        folder=folder,
        captures=captures,
        force=force,
    )


def text_of(value: Value, key: str = "") -> str:
    """Formats a value in the form of `--set`."""
    return value if isinstance(value, str) else _toml(json.loads(plain(value, key)))


def _toml(value: Any) -> str:
    """Formats a JSON value as TOML."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_toml(name)} = {_toml(inner)}" for name, inner in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(inner) for inner in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def plain(value: object, key: str) -> str:
    """Formats a value as JSON. NumPy numbers and arrays become numbers and lists.

    Raises:
        TypeError: The value cannot be part of a scenario.
    """

    def default(other: object) -> object:
        for method in ("tolist", "item", "__fspath__"):
            if hasattr(other, method):
                return getattr(other, method)()
        raise TypeError(f"{key or 'a scenario'} cannot be {other!r}, a {type(other).__name__}")

    def check(part: object, at: str) -> None:
        if part is None:
            raise TypeError(f"{at or 'a scenario'} cannot be None: leave the key out")
        if isinstance(part, float) and not isfinite(part):
            raise TypeError(f"{at} cannot be {part}")
        if isinstance(part, Mapping):
            for name, inner in part.items():
                check(inner, f"{at}.{name}" if at else str(name))
        elif isinstance(part, (list, tuple)):
            for inner in part:
                check(inner, at)

    check(value, key)
    return json.dumps(value, default=default)


def whole(value: SupportsIndex, name: str, most: int = 2**63 - 1) -> int:
    """Checks an argument that must be a whole number from 0 to `most`.

    Raises:
        TypeError: The argument is not a whole number.
        ValueError: The number is out of range.
    """
    try:
        number = index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}; expected a whole number") from None
    if not 0 <= number <= most:
        raise ValueError(f"{name} is {number}; expected a whole number from 0 to {most}")
    return number


def optional(value: SupportsIndex | None, name: str) -> int | None:
    """Checks an optional argument with :func:`whole`."""
    return None if value is None else whole(value, name)


class RoughlinkWarning(UserWarning):
    """A setting that is valid but probably unintended, or a result that needs attention."""


def warn(texts: Iterable[str]) -> None:
    """Issues a warning for each text, at the line of the caller outside this package."""
    level, frame = 1, sys._getframe()
    package = os.path.dirname(__file__)
    while frame.f_back and os.path.dirname(frame.f_code.co_filename) == package:
        level, frame = level + 1, frame.f_back
    for text in texts:
        warnings.warn(f"\n{text}" if "\n" in text else text, RoughlinkWarning, stacklevel=level)


def _made(native: _native.Scenario) -> Scenario:
    warn(native.warnings)
    return Scenario(native)


def _again(
    text: str,
    name: str,
    folder: os.PathLike[str] | None,
    allow_outside: bool,
    overrides: Iterable[tuple[str, str]],
    files: Iterable[tuple[str, str]] = (),
    places: Mapping[str, tuple[str, str]] | None = None,
) -> Scenario:
    for algorithm, where in (places or {}).items():
        register_from(algorithm, where)
    return Scenario(_native.Scenario.from_text(text, name, folder, allow_outside, list(overrides), list(files)))


def _counted(s: Scenario) -> str:
    def number(n: int, what: str) -> str:
        return f"{n} {what}" if n == 1 else f"{n} {what}s"

    parts = [number(len(s.nodes), "node"), number(len(s.links), "link"), number(len(s.flows), "flow")]
    return f"{', '.join(parts)}, {s.duration_s:g} s"
