"""The statistics of many runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from . import _native
from ._estimate import Estimate
from ._scenario import Value, text_of
from ._table import shown


class Experiment:
    """What was measured in many runs, and what was varied in them."""

    def __init__(self, result: dict[str, Any]) -> None:
        self.result = result
        """The object that ``roughlink sweep --json`` prints (``docs/reference/results.md``)."""

    @property
    def metrics(self) -> list[str]:
        """The names of what was measured, the main one first."""
        return [metric["name"] for metric in self.result["metrics"]]

    def unit(self, key: str) -> str | None:
        """The unit that all values of a key have, as far as it is known: of sweeps."""
        del key
        return None

    def summary(
        self,
        metric: str | None = None,
        *,
        by: str | Sequence[str] | None = None,
        against: Mapping[str, Value] | None = None,
    ) -> list[dict[str, Any]]:
        """Means, as the command line computes them, and their differences from one of them.

        A row has the values of the keys, and of those that are quantities of one unit also the number, ``KEY.number``; ``mean``, ``low``
        and ``high`` (95 % interval, Student; of shares of runs Wilson; of percentiles order statistics); ``runs`` and ``values``, the
        number of runs that have a value; ``difference``, ``difference_low`` and ``difference_high`` (95 %), taken within replicas,
        which share their random numbers (``docs/reference/statistics.md``). Where some runs ended before their value was reached,
        ``mean`` is ``None``, ``median`` is the median of all runs, or ``bound`` a lower bound of it, and ``difference`` the median of
        the differences. The ``mean`` of a metric such as ``duration_s:p90`` is that percentile. ``None`` where there is none: the
        interval of what is not random, an end of an interval beyond the end of the runs.

        Args:
            metric: its name; the main one if none is given.
            by: keys that make a row. Over the others the mean is taken, each combination of their values counting the same, and its
                interval is Student's over the replicas; all keys that were varied if none are given.
            against: what a row's difference is from: the row that has these values, and of other keys the same as it. With
                ``{"tcp.cc": "cubic"}`` each algorithm is compared with CUBIC under the same noise. The first row if none are given.

        Raises:
            KeyError: it was not measured, or a key does not make rows.
            ValueError: a key never had the value.
        """
        wanted = metric or self.metrics[0]
        if wanted not in self.metrics:
            raise KeyError(f"{wanted} was not measured: there are {', '.join(self.metrics)}")
        axes = {axis["name"]: {v["value"]: v.get("number") for v in axis["values"]} for axis in self.result["axes"]}
        if len(self.result["stacks"]) > 1:
            axes = {_STACK: dict.fromkeys(self.result["stacks"]), **axes}
        keys = list(axes) if by is None else [by] if isinstance(by, str) else list(by)
        for key in keys:
            if key not in axes:
                raise KeyError(f"{key} was not varied: there are {', '.join(axes)}")
        fixed = {key: text_of(value, key) for key, value in (against or {}).items()}
        for key, text in fixed.items():
            if key not in keys:
                raise KeyError(f"{key} does not make rows: there are {', '.join(keys)}")
            if text not in axes[key]:
                raise ValueError(f"{key} was not {text}: there are {', '.join(axes[key])}")
        groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        for cell in self.result["cells"]:
            if cell["metric"] == wanted:
                groups.setdefault(tuple(_value(cell, key) for key in keys), []).append(cell)
        estimates = {values: Estimate.of(cells) for values, cells in groups.items()}
        numbers = {key: axes[key] for key in keys if self.unit(key) is not None}
        rows = []
        for values, estimate in estimates.items():
            cells, named = groups[values], dict(zip(keys, values, strict=True))
            compared = tuple({**named, **fixed}.values()) if fixed else next(iter(estimates))
            low, high = estimate.interval() if len(cells) > 1 else _interval(cells[0], estimate)
            one = cells[0] if len(cells) == 1 and cells[0].get("at_least") else {}
            # Of an unfinished sweep there may be nothing to compare with.
            others = groups.get(compared, [])
            difference, below, above = None, None, None
            if len(cells) == len(others) == 1 and cells is not others:
                difference, below, above = _native.difference(json.dumps(cells[0]), json.dumps(others[0]))
            elif others:
                estimated = estimate.minus(estimates[compared])
                difference, (below, above) = estimated.mean, estimated.interval()
            rows.append(
                {
                    **named,
                    **{f"{key}.number": of[named[key]] for key, of in numbers.items()},
                    "mean": estimate.mean,
                    "low": low,
                    "high": high,
                    "median": one.get("measured"),
                    "bound": one.get("bound"),
                    "runs": sum(cell["replicas"] for cell in cells),
                    "values": sum(len(cell["samples"]) for cell in cells),
                    "difference": difference,
                    "difference_low": below,
                    "difference_high": above,
                }
            )
        return rows

    def __repr__(self) -> str:
        return f"<roughlink.Experiment {self.result['experiment']!r}: {self.result['title']}>"

    def _repr_html_(self) -> str:
        rows = self.summary()
        if not rows:
            return f"<p>{escape(self.result['title'])}</p>"
        heading = [key for key in rows[0] if not key.endswith(".number")]
        head = "".join(f"<th>{escape(key)}</th>" for key in heading)
        body = "".join("<tr>" + "".join(f"<td>{shown(row[key])}</td>" for key in heading) + "</tr>" for row in rows)
        return f"<p>{escape(self.metrics[0])}</p><table><tr>{head}</tr>{body}</table>"


def _value(cell: dict[str, Any], key: str) -> str:
    """Of a cell's stack or one of its axes."""
    found: str = cell["stack"] if key == _STACK else cell["axes"][key]
    return found


def _interval(cell: dict[str, Any], estimate: Estimate) -> tuple[float | None, float | None]:
    """That of one cell; shares of runs and percentiles have their own."""
    own = cell.get("interval")
    return (own[0], own[1]) if own else estimate.interval()


_STACK = "stack"
