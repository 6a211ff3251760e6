"""Plots with matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

from ._scenario import warn

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from matplotlib.axes import Axes

    from ._run import Run
    from ._sweep import Sweep


def new_axes() -> Any:
    """Creates matplotlib axes."""
    try:
        from matplotlib import pyplot
    except ImportError as e:
        raise _missing() from e
    return pyplot.subplots(layout="constrained")[1]


def throughput(run: Run, axes: Axes | None) -> Axes:
    """Plots the throughput of each flow over time."""
    table = run.series("delivered_bytes")
    drawn: Axes = new_axes() if axes is None else axes
    end_s = run.result["sim_s"]
    width = end_s / _INTERVALS
    edges = [n * width for n in range(_INTERVALS + 1)]
    left_out = []
    for flow, kind in zip(run.flows["flow"], run.flows["kind"], strict=True):
        if kind != "bulk":
            left_out.append(f"{flow} ({kind})")
            continue
        delivered = [0] * (_INTERVALS + 1)
        for time, name, count in zip(table["time_ns"], table["flow"], table["delivered_bytes"], strict=True):
            if name == flow:
                last = min(int(time / 1e9 / width) + 1, _INTERVALS) if width else _INTERVALS
                delivered[last] = max(delivered[last], count)
        for n in range(_INTERVALS):
            delivered[n + 1] = max(delivered[n + 1], delivered[n])
        rates = [(b - a) * 8e-6 / width for a, b in zip(delivered, delivered[1:])]
        drawn.stairs(rates, edges, label=flow)
    drawn.set_xlabel("time, s")
    drawn.set_ylabel("throughput, Mbit/s")
    drawn.set_ylim(bottom=0)
    if len(left_out) < len(run.flows):
        drawn.legend()
    if left_out:
        warn([f"not drawn, because they are not transfers: {', '.join(left_out)}"])
    return drawn


def means(sweep: Sweep, metric: str, x: str | None, by: str | Sequence[str] | None, axes: Axes | None) -> Axes:
    """Plots the means of a metric with their intervals."""
    rows = list(sweep.summary(metric, by=by).rows())
    keys = [axis["name"] for axis in sweep.result["axes"] if axis["name"] in rows[0]]
    if not keys:
        raise ValueError("nothing was varied, so there is no x axis")
    if x is None:
        # Prefer keys whose values are numbers, then the key with the most values, then the first.
        x = max(keys, key=lambda key: (f"{key}.number" in rows[0], len({row[key] for row in rows})))
    elif x not in keys:
        raise KeyError(f"{x} is not a key of the rows; expected one of {', '.join(keys)}")
    at = f"{x}.number" if f"{x}.number" in rows[0] else x
    lines: dict[str, list[dict[str, Any]]] = {}
    others = [key for key in keys if key != x]
    for row in rows:
        lines.setdefault(", ".join(row[key] for key in others), []).append(row)
    drawn: Axes = new_axes() if axes is None else axes
    for (label, line), marker in zip(lines.items(), cycle("os^Dv")):
        known = [row for row in line if row["mean"] is not None]
        reach = [[0.0 if row[end] is None else abs(row["mean"] - row[end]) for row in known] for end in ("low", "high")]
        xs, ys = ([row[key] for row in known] for key in (at, "mean"))
        drawn.errorbar(xs, ys, reach, marker=marker, capsize=3, label=label or None)
    about, _ = sweep._cells(metric)
    drawn.set_xlabel(_with_unit(x, sweep.unit(x)))
    drawn.set_ylabel(_with_unit(about["label"], about["unit"]))
    if others:
        drawn.legend(title=", ".join(others))
    return drawn


def episode(steps: Sequence[tuple[float, NDArray[np.float32]]]) -> NDArray[np.uint8]:
    """Draws the steps of an episode, each with its time and observation, as pixels."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as e:
        raise _missing() from e
    figure = Figure(figsize=(6.4, 4.8), dpi=100, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    rows = (("delivered, Mbit/s", 0), ("round-trip time, s", 2), ("window, segments", 5))
    for axes, (label, column) in zip(figure.subplots(len(rows), sharex=True), rows, strict=True):
        axes.plot([time for time, _ in steps], [seen[column] for _, seen in steps])
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
    axes.set_xlabel("time, s")
    canvas.draw()
    import numpy as np

    pixels: NDArray[np.uint8] = np.asarray(canvas.buffer_rgba())[..., :3].copy()
    return pixels


def _missing() -> ImportError:
    return ImportError("plots need matplotlib: pip install 'roughlink[plot]'")


def _with_unit(what: str, unit: str | None) -> str:
    return f"{what}, {unit}" if unit else what


_INTERVALS = 100
