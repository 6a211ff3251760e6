"""The statistics of many runs."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from ._estimate import Estimate
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

    def summary(self, metric: str | None = None, *, by: str | Sequence[str] | None = None) -> list[dict[str, Any]]:
        """Means, as the command line computes them, and their differences from the first row.

        A row has the values of the keys; ``mean``, ``low`` and ``high`` (95 % interval, Student; of shares of runs Wilson); ``runs``;
        ``difference``, ``difference_low`` and ``difference_high`` (95 %, Welch). ``None`` where there is none: the mean of what was not
        reached in every run, the interval of what is not random.

        Args:
            metric: its name; the main one if none is given.
            by: keys that make a row. Over the others the mean is taken, each combination of their values counting the same, and its
                interval is Student's over the replicas; all keys that were varied if none are given.

        Raises:
            KeyError: it was not measured, or the key not varied.
        """
        wanted = metric or self.metrics[0]
        if wanted not in self.metrics:
            raise KeyError(f"{wanted} was not measured: there are {', '.join(self.metrics)}")
        varied = [axis["name"] for axis in self.result["axes"]]
        if len(self.result["stacks"]) > 1:
            varied = [_STACK, *varied]
        keys = varied if by is None else [by] if isinstance(by, str) else list(by)
        for key in keys:
            if key not in varied:
                raise KeyError(f"{key} was not varied: there are {', '.join(varied)}")
        groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        for cell in self.result["cells"]:
            if cell["metric"] == wanted:
                groups.setdefault(tuple(_value(cell, key) for key in keys), []).append(cell)
        rows = []
        first: Estimate | None = None
        for values, cells in groups.items():
            estimate = Estimate.of(cells)
            first = first or estimate
            low, high = estimate.interval() if len(cells) > 1 else _interval(cells[0], estimate)
            difference = estimate.minus(first)
            below, above = difference.interval()
            rows.append(
                {
                    **dict(zip(keys, values, strict=True)),
                    "mean": estimate.mean,
                    "low": low,
                    "high": high,
                    "runs": sum(cell["replicas"] for cell in cells),
                    "difference": difference.mean,
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
        head = "".join(f"<th>{escape(key)}</th>" for key in rows[0])
        body = "".join("<tr>" + "".join(f"<td>{shown(v)}</td>" for v in row.values()) + "</tr>" for row in rows)
        return f"<p>{escape(self.metrics[0])}</p><table><tr>{head}</tr>{body}</table>"


def _value(cell: dict[str, Any], key: str) -> str:
    """Of a cell's stack or one of its axes."""
    found: str = cell["stack"] if key == _STACK else cell["axes"][key]
    return found


def _interval(cell: dict[str, Any], estimate: Estimate) -> tuple[float | None, float | None]:
    """That of one cell; a share of runs has Wilson's."""
    wilson = cell.get("interval")
    return (wilson[0], wilson[1]) if wilson else estimate.interval()


_STACK = "stack"
