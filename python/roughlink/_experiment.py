"""Statistics of many runs."""

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
    """Metrics of many runs, by the values of the varied keys."""

    def __init__(self, result: dict[str, Any]) -> None:
        self.result = result
        """The JSON object of ``roughlink sweep --json`` (``docs/reference/results.md``)."""

    @property
    def metrics(self) -> list[str]:
        """Names of the metrics, the main one first."""
        return [metric["name"] for metric in self.result["metrics"]]

    def unit(self, key: str) -> str | None:
        """Returns the common unit of a key's values. Only a :class:`Sweep` has units; otherwise returns ``None``."""
        del key
        return None

    def summary(
        self,
        metric: str | None = None,
        *,
        by: str | Sequence[str] | None = None,
        against: Mapping[str, Value] | None = None,
    ) -> list[dict[str, Any]]:
        """Returns means as the command line computes them, and their differences from a reference row.

        A row has:

        - The values of the keys. If all values of a key are numbers with the same unit, or all without a unit,
          ``KEY.number`` is the number.
        - ``mean``, ``low`` and ``high``: the mean and its 95 % interval. The interval is Student's; for shares of runs
          it is Wilson's, and for percentiles it comes from order statistics. The ``mean`` of a metric such as
          ``duration_s:p90`` is that percentile.
        - ``runs`` and ``values``: the number of runs, and the number of runs that have a value.
        - ``difference``, ``difference_low`` and ``difference_high``: the difference from the reference row and its 95 %
          interval. Each difference is taken within a replica, in which both rows use the same random numbers
          (``docs/reference/statistics.md``).
        - ``median`` and ``bound``, if some runs ended before their value was known, such as the time of an event that
          had not happened yet. Then ``mean`` is ``None``, and either ``median`` is the median of all runs or ``bound``
          is a lower bound of it. ``difference`` is the median of the differences.

        A field without a value is ``None``. For example, a deterministic metric has no interval. If runs ended
        before their value was known, one end of the interval may be unknown.

        Args:
            metric: Name of the metric, by default the main one.
            by: Keys of the rows, by default all varied keys. Each combination of their values is a row. The mean is
                taken over the other keys with equal weights, and the interval is Student's over the replicas.
            against: Values that select the reference row, by default the first row. The other keys keep the values of
                the compared row. ``{"tcp.cc": "cubic"}`` compares each algorithm with CUBIC under the same noise.

        Raises:
            KeyError: The metric was not measured, a key of `by` was not varied, or a key of `against` is not a key of
                the rows.
            ValueError: No run had the given value of a key.
        """
        wanted = metric or self.metrics[0]
        if wanted not in self.metrics:
            raise KeyError(f"{wanted} was not measured; expected one of {', '.join(self.metrics)}")
        axes = {axis["name"]: {v["value"]: v.get("number") for v in axis["values"]} for axis in self.result["axes"]}
        if len(self.result["stacks"]) > 1:
            axes = {_STACK: dict.fromkeys(self.result["stacks"]), **axes}
        keys = list(axes) if by is None else [by] if isinstance(by, str) else list(by)
        for key in keys:
            if key not in axes:
                raise KeyError(f"{key} was not varied; expected one of {', '.join(axes)}")
        fixed = {key: text_of(value, key) for key, value in (against or {}).items()}
        for key, text in fixed.items():
            if key not in keys:
                raise KeyError(f"{key} is not a key of the rows; expected one of {', '.join(keys)}")
            if text not in axes[key]:
                raise ValueError(f"{key} was never {text}; expected one of {', '.join(axes[key])}")
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
            # An unfinished sweep may lack the reference row.
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
    """Returns the value of a key in a cell: the stack or the value of an axis."""
    found: str = cell["stack"] if key == _STACK else cell["axes"][key]
    return found


def _interval(cell: dict[str, Any], estimate: Estimate) -> tuple[float | None, float | None]:
    """Returns the interval of one cell. Shares of runs and percentiles have a stored one."""
    own = cell.get("interval")
    return (own[0], own[1]) if own else estimate.interval()


_STACK = "stack"
