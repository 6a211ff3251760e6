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

    from ._experiment import Experiment
    from ._run import Run


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


def means(
    experiment: Experiment, metric: str, x: str | None, by: str | Sequence[str] | None, axes: Axes | None
) -> Axes:
    """Plots the means of a metric with their intervals, and published values."""
    rows = list(experiment.summary(metric, by=by).rows())
    stacks = experiment.result["stacks"]
    if by is None and len(stacks) > 1:
        rows = [row for row in rows if row["stack"] == stacks[0]]
    keys: list[str] = [axis["name"] for axis in experiment.result["axes"] if rows and axis["name"] in rows[0]]
    if not keys:
        raise ValueError("nothing was varied, so there is no x axis")
    if x is None:
        # Prefer keys whose values are numbers, then the key with the most values, then the first.
        x = max(keys, key=lambda key: (f"{key}.number" in rows[0], len({row[key] for row in rows})))
    elif x not in keys:
        raise KeyError(f"{x} is not a key of the rows; expected one of {', '.join(keys)}")
    labels = {axis["name"]: {v["value"]: v["label"] for v in axis["values"]} for axis in experiment.result["axes"]}
    rows = [{**row, **{key: labels[key][row[key]] for key in keys}} for row in rows]
    at = f"{x}.number" if f"{x}.number" in rows[0] else x
    lines: dict[str, list[dict[str, Any]]] = {}
    others = [key for key in ("stack", *keys) if key != x and (key in keys or (by is not None and key in rows[0]))]
    for row in rows:
        lines.setdefault(", ".join(row[key] for key in others), []).append(row)
    drawn: Axes = new_axes() if axes is None else axes
    many = len(lines) > 12
    for (label, line), marker in zip(lines.items(), cycle("os^Dv")):
        known = [row for row in line if row["mean"] is not None]
        reach = [[0.0 if row[end] is None else abs(row["mean"] - row[end]) for row in known] for end in ("low", "high")]
        xs, ys = ([row[key] for row in known] for key in (at, "mean"))
        bars = drawn.errorbar(xs, ys, reach, marker=marker, capsize=3, label=label or None)
        paper = [(row[at], row["published"]) for row in line if row.get("published") is not None]
        color = bars[0].get_color()
        drawn.plot([a for a, _ in paper], [b for _, b in paper], "x", color=color, markersize=9, linestyle="none")
    if any(row.get("published") is not None for row in rows):
        drawn.plot([], [], "x", color="black", markersize=9, linestyle="none", label="published")
    about, _ = experiment._cells(metric)
    drawn.set_xlabel(_with_unit(x, experiment.unit(x)))
    drawn.set_ylabel(_with_unit(about["label"], about["unit"]))
    if others:
        drawn.legend(title=", ".join(others), fontsize="x-small" if many else None, ncols=2 if many else 1)
    return drawn


def curves(experiment: Experiment, metric: str, axes: Axes | None) -> Axes:
    """Plots the curves of a metric."""
    drawn: Axes = new_axes() if axes is None else axes
    lines = [curve for curve in experiment.result["curves"] if curve["metric"] == metric]
    for curve in lines:
        y = [float("nan") if value is None else value for value in curve["y"]]
        drawn.plot(curve["x"], y, label=" ".join(word for word in (curve["label"], curve["stack"]) if word))
    figure = experiment.result["figure"]
    drawn.set_xlabel(figure["x_label"])
    drawn.set_ylabel(figure["y_label"] or metric)
    drawn.set_xscale("log" if figure["log_x"] else "linear")
    drawn.set_yscale("log" if figure["log_y"] else "linear")
    drawn.legend()
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
    drawn = figure.subplots(len(rows), sharex=True)
    for axes, (label, column) in zip(drawn, rows, strict=True):
        axes.plot([time for time, _ in steps], [seen[column] for _, seen in steps])
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
    drawn[-1].set_xlabel("time, s")
    canvas.draw()
    import numpy as np

    pixels: NDArray[np.uint8] = np.asarray(canvas.buffer_rgba())[..., :3].copy()
    return pixels


def _missing() -> ImportError:
    return ImportError("plots need matplotlib: pip install 'roughlink[plot]'")


def _with_unit(what: str, unit: str | None) -> str:
    return f"{what}, {unit}" if unit else what


_INTERVALS = 100
