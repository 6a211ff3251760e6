"""Statistics of many runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from . import _native
from ._estimate import Estimate
from ._scenario import Value, text_of
from ._table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
        """Returns the common unit of a key's values, which is empty for plain numbers. Returns ``None`` if values are
        not numbers or their units differ."""
        values = [value for axis in self.result["axes"] if axis["name"] == key for value in axis["values"]]
        if not values or any(value.get("number") is None for value in values):
            return None
        units = {value["value"].strip().lstrip("0123456789.+-eE").strip() for value in values}
        return units.pop() if len(units) == 1 else None

    def curves(self) -> Table:
        """Returns the curves of the experiment's figure, such as windows over time. Empty without such a figure.

        Returns:
            A row for each point: ``stack``, ``label``, ``metric``, ``replica`` (missing for a mean over replicas),
            ``x`` and ``y``. The meanings of ``x`` and ``y`` are the labels of the figure, with their units.
        """
        points = [(c, x, y) for c in self.result["curves"] for x, y in zip(c["x"], c["y"], strict=True)]
        words = [(name, "str", "", meaning, [c[name] for c, _, _ in points]) for name, meaning in (
            ("stack", "stack of the curve; empty for a function"), ("label", "name of the curve"),
            ("metric", "name of the quantity y"),
        )]  # fmt: skip
        figure = self.result["figure"]
        return Table.of(
            [
                *words,
                ("replica", "int", "", "number of the run", [c["replica"] for c, _, _ in points]),
                ("x", "float", "", figure["x_label"], [x for _, x, _ in points]),
                ("y", "float", "", figure["y_label"], [y for _, _, y in points]),
            ]
        )

    def plot(
        self,
        metric: str | None = None,
        *,
        x: str | None = None,
        by: str | Sequence[str] | None = None,
        axes: Axes | None = None,
    ) -> Axes:
        """Plots means with their 95 % intervals, one line per combination of the other keys. Crosses are the published
        values of a paper. If the experiment ran on several stacks, only the first is shown, unless `by` has
        ``"stack"``. If the experiment has curves over time, plots a line for each curve. Needs matplotlib.

        Args:
            metric: Name of the metric, by default the main one; for curves, their metric.
            x: Key of the x axis, one of the keys of the rows. By default the key with the most values; keys with
                numbers take precedence.
            by: Keys of the rows, as for :meth:`summary`.
            axes: Axes to draw on; new ones by default.

        Returns:
            The axes.

        Raises:
            KeyError: The metric was not measured, a key of `by` was not varied, or `x` is not a key of the rows.
            ValueError: Nothing was varied.
        """
        from ._plot import curves, means

        lines = [curve["metric"] for curve in self.result["curves"]]
        if lines and x is None and by is None and (metric is None or metric in lines):
            return curves(self, metric or lines[0], axes)
        return means(self, metric or self.metrics[0], x, by, axes)

    def summary(
        self,
        metric: str | None = None,
        *,
        by: str | Sequence[str] | None = None,
        against: Mapping[str, Value] | None = None,
        level: float = 0.95,
        quantiles: Sequence[float] = (),
    ) -> Table:
        """Returns means as the command line computes them, and their differences from a reference row.

        A row has:

        - The values of the keys. If all values of a key are numbers with the same unit, or all without a unit,
          ``KEY.number`` is the number.
        - ``mean``, ``low`` and ``high``: the mean and its confidence interval. The interval is Student's; for shares of
          runs it is Wilson's, and for percentiles it comes from order statistics. The ``mean`` of a metric such as
          ``duration_s:p90`` is that percentile.
        - ``median``, and a column such as ``q0.9`` for each of `quantiles`: quantiles of the runs. If the row averages
          over other keys, they are quantiles of the averages within replicas.
        - ``bound``, a lower bound of the median, if the median is unknown. This is possible only if some runs ended
          before their value was known, such as the time of an event that had not happened yet. With such runs, ``mean``
          is ``None``, and ``difference`` is the median of the differences.
        - ``published`` and ``ratio``, if the paper has a value: that value, and the mean divided by it.
        - ``runs`` and ``values``: the number of runs, and the number of runs that have a value.
        - ``difference``, ``difference_low`` and ``difference_high``: the difference from the reference row and its
          interval. Each difference is taken within a replica, in which both rows use the same random numbers
          (``docs/reference/statistics.md``).

        A field without a value is ``None``. For example, a deterministic metric has no interval. If runs ended
        before their value was known, one end of the interval may be unknown.

        Args:
            metric: Name of the metric, by default the main one. A :class:`Sweep` also accepts other metrics
                of its runs: columns of `runs`, and metrics of one flow or link (``"throughput_mbps@download"``).
            by: Keys of the rows, by default all varied keys. Each combination of their values is a row. The mean is
                taken over the other keys with equal weights, and the interval is Student's over the replicas.
            against: Values that select the reference row, by default the first row. The other keys keep the values of
                the compared row. ``{"tcp.cc": "cubic"}`` compares each algorithm with CUBIC under the same noise.
            level: Confidence level of the intervals, such as 0.9.
            quantiles: Probabilities of further quantiles, from 0 to 1.

        Raises:
            KeyError: The metric was not measured, a key of `by` was not varied, or a key of `against` is not a key of
                the rows.
            ValueError: No run had the given value of a key, or a number is out of range.
        """
        if len({_named(q) for q in quantiles}) < len(quantiles):
            raise ValueError(f"quantiles has a value twice: {quantiles}")
        if not 0 < level <= _MAX_LEVEL:
            raise ValueError(f"level is {level}; expected a number between 0 and {_MAX_LEVEL}, such as 0.95")
        for q in quantiles:
            if not 0 <= q <= 1:
                raise ValueError(f"a quantile is {q}; expected a number from 0 to 1")
        wanted = metric or self.metrics[0]
        about, found = self._cells(wanted)
        axes = {axis["name"]: {v["value"]: v.get("number") for v in axis["values"]} for axis in self.result["axes"]}
        if len(self.result["stacks"]) > 1:
            axes = {_STACK: dict.fromkeys(self.result["stacks"]), **axes}
        keys = list(axes) if by is None else [by] if isinstance(by, str) else list(dict.fromkeys(by))
        for key in keys:
            if key not in axes:
                raise KeyError(f"{key} was not varied; expected one of {', '.join(axes)}")
        # Keys that vary together have a list of values.
        fixed = {
            key: ", ".join(text_of(v, key) for v in value) if isinstance(value, (list, tuple)) else text_of(value, key)
            for key, value in (against or {}).items()
        }
        for key, text in fixed.items():
            if key not in keys:
                raise KeyError(f"{key} is not a key of the rows; expected one of {', '.join(keys)}")
            if text not in axes[key]:
                raise ValueError(f"{key} was never {text}; expected one of {', '.join(axes[key])}")
        groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        for cell in found:
            groups.setdefault(tuple(_value(cell, key) for key in keys), []).append(cell)
        estimates = {values: Estimate.of(cells) for values, cells in groups.items()}
        numbers = {key: axes[key] for key in keys if self.unit(key) is not None}
        rows = []
        for values, estimate in estimates.items():
            cells, named = groups[values], dict(zip(keys, values, strict=True))
            # A percentile of the runs is known even if some ended before their value was.
            is_percentile = len(cells) == 1 and ":p" in wanted
            mean = cells[0]["measured"] if is_percentile else estimate.mean
            compared = tuple({**named, **fixed}.values()) if fixed else next(iter(estimates))
            low, high = estimate.interval(level) if len(cells) > 1 else _interval(cells[0], estimate, level)
            # An unfinished sweep may lack the reference row.
            others = groups.get(compared, [])
            difference, (below, above) = None, (None, None)
            if len(cells) == len(others) == 1 and cells is not others:
                difference, (below, above) = _native.difference(json.dumps(cells[0]), json.dumps(others[0]), level)
            elif others:
                estimated = estimate.minus(estimates[compared])
                difference, (below, above) = estimated.mean, estimated.interval(level)
            rows.append(
                {
                    **named,
                    **{f"{key}.number": of[named[key]] for key, of in numbers.items()},
                    "mean": mean,
                    "low": low,
                    "high": high,
                    "median": _quantile(cells, estimate, 0.5),
                    **{_named(q): _quantile(cells, estimate, q) for q in quantiles},
                    "bound": cells[0].get("bound") if len(cells) == 1 else None,
                    "published": (published := cells[0].get("published") if len(cells) == 1 else None),
                    "ratio": mean / published if published and mean is not None else None,
                    "runs": sum(cell["replicas"] for cell in cells),
                    "values": sum(len(cell["samples"]) for cell in cells),
                    "difference": difference,
                    "difference_low": below,
                    "difference_high": above,
                }
            )
        percent = f"{100 * level:g} %"
        meanings = {
            "mean": about["label"],
            "low": f"lower end of the {percent} interval of the mean, or of the median if the mean is unknown",
            "high": f"upper end of the {percent} interval of the mean, or of the median if the mean is unknown",
            "median": "median of the runs",
            **{_named(q): f"{100 * q:g} % quantile of the runs" for q in quantiles},
            "bound": "lower bound of the median, if only that is known",
            "difference": "difference from the reference row, within replicas",
            "difference_low": f"lower end of the {percent} interval of the difference",
            "difference_high": f"upper end of the {percent} interval of the difference",
        }
        if any(row["published"] is not None for row in rows):
            meanings |= {"published": "value of the paper", "ratio": "mean divided by the published value"}
        units = {"ratio": ""}
        columns = [
            *((key, "str", "", "value of the key") for key in keys),
            *((f"{key}.number", "float", self.unit(key) or "", f"number of {key}") for key in numbers),
            *((name, "float", units.get(name, about["unit"]), meaning) for name, meaning in meanings.items()),
        ]
        counts = [("runs", "int", "", "number of runs"), ("values", "int", "", "number of runs that have a value")]
        at = next(n for n, column in enumerate(columns) if column[0] == "difference")
        columns[at:at] = counts
        return Table.of([(*column, [row[column[0]] for row in rows]) for column in columns])

    def _cells(self, metric: str) -> tuple[dict[str, str], list[dict[str, Any]]]:
        """Returns the description and the cells of a metric.

        Raises:
            KeyError: The metric was not measured.
        """
        about = next((each for each in self.result["metrics"] if each["name"] == metric), None)
        if about is None:
            raise KeyError(f"{metric} was not measured; expected one of {', '.join(self.metrics)}")
        return about, [cell for cell in self.result["cells"] if cell["metric"] == metric]

    def __repr__(self) -> str:
        return f"<roughlink.Experiment {self.result['experiment']!r}: {self.result['title']}>"

    def _repr_html_(self) -> str:
        table = self.summary()
        kept = [name for name in table if not name.endswith(".number")]
        return f"<p>{escape(self.metrics[0])}</p>" + table.select(*kept)._repr_html_(most=len(table))


def _value(cell: dict[str, Any], key: str) -> str:
    """Returns the value of a key in a cell: the stack or the value of an axis."""
    found: str = cell["stack"] if key == _STACK else cell["axes"][key]
    return found


def _interval(cell: dict[str, Any], estimate: Estimate, level: float) -> tuple[float | None, float | None]:
    """Returns the interval of one cell. Shares of runs and percentiles have other kinds of intervals than means."""
    has_own = cell.get("interval") or cell.get("quantile") is not None
    return _native.cell_interval(json.dumps(cell), level) if has_own else estimate.interval(level)


def _quantile(cells: Sequence[dict[str, Any]], estimate: Estimate, q: float) -> float | None:
    """Returns a quantile of the runs of a row, or of the averages within replicas."""
    if len(cells) == 1:
        return _native.quantile(cells[0]["samples"], cells[0].get("at_least", []), q)
    if estimate.values is None:
        return estimate.mean if estimate.error == 0 else None
    return _native.quantile(list(estimate.values.values()), [], q)


def _named(q: float) -> str:
    """Returns the name of the column of a quantile."""
    return f"q{q:.12g}"


_STACK = "stack"
_MAX_LEVEL = 0.999999
"""Largest level at which the quantiles of Student's distribution are exact."""
