"""Axes of a sweep, from the argument `vary`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
        twice = {value for value in found if found.count(value) > 1}
        if twice:
            raise ValueError(f"{name} has a value twice: {', '.join(sorted(twice))}")
        return name, found


class _Combination(Mapping[str, Any]):
    """One combination of values. Records the varied keys that are read."""

    def __init__(self, scenario: Scenario, values: Mapping[str, Any], read: set[str], later: set[str]) -> None:
        self._scenario, self._values, self._read, self._later = scenario, values, read, later

    def __getitem__(self, key: str) -> Any:
        if key in self._later:
            raise ValueError(f"a function reads {key}, which a later function of vary computes: change their order")
        if key in self._values:
            self._read.add(key)
            return self._values[key]
        # A varied key may determine the value under another name, or a default.
        usual = self._scenario[key]
        try:
            found = self._scenario.set(self._values)[key]
        except _native.ScenarioError:
            return usual
        if found != usual:
            self._read.update(self._values)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def axes_of(
    scenario: Scenario, vary: Mapping[str, Any] | Sequence[Mapping[str, Any]], max_runs: int
) -> list[Axis]:
    """Returns the axes for the argument `vary` of :func:`sweep`.

    A function becomes a part of the axis whose keys it reads. If it reads keys of several axes, they become one.

    Raises:
        ValueError: The rows of a list have different keys, or keys that vary together do not have one value each. Or a
            function reads a key that another function computes later. Or there are more combinations than `max_runs`.
    """
    if not isinstance(vary, Mapping):
        rows = list(vary)
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
        axes = _computed(scenario, axes, name, function, later)
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
    scenario: Scenario, axes: list[Axis], name: str, function: Callable[[At], object], later: set[str]
) -> list[Axis]:
    """Adds the key, or the keys, that a function computes."""
    read: set[str] = set()
    keys = _keys(name)
    found = []
    for points in product(*(axis.points for axis in axes)):
        values = {key: value for axis, point in zip(axes, points) for key, value in zip(axis.keys, point)}
        value = function(_Combination(scenario, values, read, later))
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


def versioned(axes: list[Axis], names: Mapping[str, str]) -> list[Axis]:
    """Replaces each algorithm in `names` by its name with the version.

    Raises:
        ValueError: No value has such a name.
    """
    used = set()

    def replaced(key: str, value: Any) -> Any:
        if key.split(".")[-1] != "cc" or not isinstance(value, str) or value not in names:
            return value
        used.add(value)
        return names[value]

    made = [
        Axis(axis.keys, [[replaced(key, value) for key, value in zip(axis.keys, point)] for point in axis.points])
        for axis in axes
    ]
    for name in names:
        if name not in used:
            raise ValueError(f"no value in vary uses the algorithm {name!r}: vary={{'tcp.cc': [{name!r}, ...]}}")
    return made
