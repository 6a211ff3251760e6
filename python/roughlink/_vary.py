"""Axes of a sweep, from the argument `vary`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from math import prod
from typing import Any

from . import _native
from ._scenario import Scenario, Value, text_of

At = Mapping[str, Any]
"""Values of one combination. Keys that do not vary have the values of the scenario."""


class Axis:
    """Keys that vary together, and their values."""

    def __init__(self, keys: Sequence[str], points: Sequence[Sequence[Any]]) -> None:
        self.keys, self.points = tuple(keys), [tuple(point) for point in points]

    def texts(self) -> tuple[str, list[str]]:
        """Returns the key and the values in the form of `--set`.

        Raises:
            ValueError: There are no values, or one occurs twice.
        """
        name = ",".join(self.keys)
        if len(self.keys) == 1:
            found = [text_of(point[0], name) for point in self.points]
        else:
            each = [[text_of(value, key) for key, value in zip(self.keys, point)] for point in self.points]
            found = [json.dumps(texts, ensure_ascii=False) for texts in each]
        if not found:
            raise ValueError(f"{name} has no values")
        twice = [value for value, count in Counter(found).items() if count > 1]
        if twice:
            raise ValueError(f"{name} has a value twice: {', '.join(sorted(twice))}")
        return name, found


_Sources = tuple[Scenario, Callable[[str, Any], Any]]
"""The scenario, and a function that returns the full name of an algorithm with a version."""


class _Combination(Mapping[str, Any]):
    """One combination of values. Records the varied keys that are read."""

    def __init__(self, sources: _Sources, values: Mapping[str, Any], read: set[str], later: set[str]) -> None:
        self._scenario, self._known = sources
        self._values, self._read, self._later = values, read, later
        self._made: Scenario | None = None

    def __getitem__(self, key: str) -> Any:
        if key in self._later:
            raise ValueError(f"a function reads {key}, which a later function of vary computes: change their order")
        if key in self._values:
            self._read.add(key)
            return self._values[key]
        # A varied key may determine the value under another name, or a default.
        if self._made is None:
            pairs = [(name, text_of(self._known(name, value), name)) for name, value in self._values.items()]
            self._made = Scenario(self._scenario._native.set(pairs))
        found = self._made[key]
        if found != self._scenario[key]:
            self._read.update(self._values)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def axes_of(
    scenario: Scenario, vary: Mapping[str, Any] | Sequence[Mapping[str, Any]], max_runs: int, names: Mapping[str, str]
) -> list[Axis]:
    """Returns the axes for the argument `vary` of :func:`sweep`, with the full names of the algorithms in `names`.

    A function becomes a part of the axis whose keys it reads. If it reads keys of several axes, they become one.

    Raises:
        ValueError: The rows of a list have different keys, or keys that vary together do not have one value each. Or a
            function reads a key that another function computes later, there are more combinations than `max_runs`, or
            no value has a name in `names`.
        TypeError: `vary` is neither a dictionary nor a list of dictionaries.
    """
    axes = _axes(scenario, vary, max_runs, names)
    used = set()

    def replaced(key: str, value: Any) -> Any:
        full = _full_name(names, key, value)
        if full is not value:
            used.add(value)
        return full

    made = [
        Axis(axis.keys, [[replaced(key, value) for key, value in zip(axis.keys, point)] for point in axis.points])
        for axis in axes
    ]
    for name in names:
        if name not in used:
            raise ValueError(f"no value in vary uses the algorithm {name!r}: vary={{'tcp.cc': [{name!r}, ...]}}")
    return made


def _full_name(names: Mapping[str, str], key: str, value: Any) -> Any:
    """Returns the name of an algorithm with its version, and any other value unchanged."""
    return names.get(value, value) if key.split(".")[-1] == "cc" and isinstance(value, str) else value


def _axes(
    scenario: Scenario, vary: Mapping[str, Any] | Sequence[Mapping[str, Any]], max_runs: int, names: Mapping[str, str]
) -> list[Axis]:
    if isinstance(vary, (str, bytes)) or not isinstance(vary, (Mapping, Sequence)):
        raise TypeError(f"vary is a {type(vary).__name__}; expected a dictionary of keys, or a list of dictionaries")
    if not isinstance(vary, Mapping):
        rows = list(vary)
        if not all(isinstance(row, Mapping) for row in rows):
            raise TypeError("the rows of vary must be dictionaries of keys and values")
        keys = list(rows[0]) if rows else []
        if any(set(row) != set(keys) for row in rows):
            raise ValueError(f"the rows of vary have different keys; expected {', '.join(keys)} in each")
        return [Axis(keys, [[row[key] for key in keys] for row in rows])] if keys else []
    axes = [_given(name, values) for name, values in vary.items() if not callable(values)]
    functions = {name: function for name, function in vary.items() if callable(function)}
    for n, (name, function) in enumerate(functions.items()):
        later = {key for other in list(functions)[n + 1 :] for key in _keys(other)}
        count = prod(len(axis.points) for axis in axes)
        if count > max_runs:
            raise ValueError(f"{count} combinations, more than max_runs={max_runs}")
        axes = _computed((scenario, partial(_full_name, names)), axes, name, function, later)
    return axes


def _keys(name: str) -> list[str]:
    return [key.strip() for key in _native.split_list(name)]


def _given(name: str, values: Any) -> Axis:
    keys = _keys(name)
    if hasattr(values, "tolist"):
        values = values.tolist()
    if isinstance(values, (str, Mapping)) or not isinstance(values, Iterable):
        values = [values]
    if len(keys) == 1:
        return Axis(keys, [[value] for value in values])
    return Axis(keys, [_point(name, keys, _native.values(name, p) if isinstance(p, str) else p) for p in values])


def _point(name: str, keys: Sequence[str], values: Any) -> Sequence[Any]:
    """Checks that there is a value for each key."""
    if isinstance(values, (str, Mapping)) or not isinstance(values, Sequence) or len(values) != len(keys):
        raise ValueError(f"{name} are {len(keys)} keys; expected a list of as many values, not {values!r}")
    return values


def _computed(
    sources: _Sources, axes: list[Axis], name: str, function: Callable[[At], object], later: set[str]
) -> list[Axis]:
    """Adds the key, or the keys, that a function computes."""
    read: set[str] = set()
    keys = _keys(name)
    found = []
    for points in product(*(axis.points for axis in axes)):
        values = {key: value for axis, point in zip(axes, points) for key, value in zip(axis.keys, point)}
        value = function(_Combination(sources, values, read, later))
        found.append((points, [value] if len(keys) == 1 else _point(name, keys, value)))
    joined = [axis for axis in axes if read.intersection(axis.keys)]
    at = [n for n, axis in enumerate(axes) if axis in joined]
    merged: dict[str, tuple[Any, ...]] = {}
    for points, value in found:
        chosen = [value for n in at for value in points[n]]
        merged.setdefault(text_of(chosen), (*chosen, *value))
    whole = Axis([*(key for axis in joined for key in axis.keys), *keys], list(merged.values()))
    first = at[0] if at else len(axes)
    others = [axis for axis in axes if axis not in joined]
    return [*others[:first], whole, *others[first:]]
