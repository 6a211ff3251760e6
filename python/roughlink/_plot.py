"""Pictures."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ._run import Run


def new_axes() -> Any:
    """New axes of matplotlib."""
    try:
        from matplotlib import pyplot
    except ImportError as e:
        raise ImportError("pictures need matplotlib: pip install 'roughlink[plot]'") from e
    return pyplot.subplots(layout="constrained")[1]


def throughput(run: Run, axes: Axes | None) -> Axes:
    """The throughput of each flow over time."""
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
        warnings.warn(f"not drawn, as there is no series of what they deliver: {', '.join(left_out)}", stacklevel=3)
    return drawn


_INTERVALS = 100
