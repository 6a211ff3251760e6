"""Results of a run."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

from . import _native
from ._table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Run:
    """Result of a run. Pickling includes the series, which are first read from the folder if necessary."""

    def __init__(self, native: _native.Run, again: Callable[..., Run] | None = None) -> None:
        self._native = native
        self._again = again
        self._series: dict[str, _native.Table | None] = {}

    @cached_property
    def result(self) -> dict[str, Any]:
        """The JSON object of ``roughlink run --json`` (``docs/reference/results.md``)."""
        found: dict[str, Any] = json.loads(self._native.json())
        return found

    @cached_property
    def flows(self) -> Table:
        """Table with the results of each flow."""
        return Table(self._native.flows())

    @cached_property
    def links(self) -> Table:
        """Table with the counters of each link direction: carried, lost and dropped packets."""
        return Table(self._native.links())

    def series(self, name: str) -> Table:
        """Returns a time series, if the run kept series (``series=True``) or its folder has them (:func:`read`).

        Args:
            name: Name of a table or of one column. The tables are ``"flows"``, ``"links"``, ``"segments"`` and
                ``"gateways"``. The unit in the name of a column is optional (``"cwnd"``, ``"rtt_ms"``). The table of
                a single column also has the columns that identify a row: the time (ns), and the flow, gateway, link or
                direction.

        Raises:
            KeyError: No series has this name.
            ValueError: The run has no series.
            LimitError: The series in the folder exceeds `max_series` of :func:`read`.
            RoughlinkError: The folder was removed or now has another run.
        """
        all_columns = dict(_native.Run.series_columns())
        table, columns = name, None
        if name not in all_columns:
            found = [(t, c) for t, cs in all_columns.items() for c in cs if c == name or c.rsplit("_", 1)[0] == name]
            if not found:
                known = ", ".join([*all_columns, *(c for cs in all_columns.values() for c in cs)])
                raise KeyError(f"unknown series `{name}`; expected one of {known}")
            table, column = found[0]
            keys: list[str] = [
                key for key in ("time_ns", "gateway", "flow", "link", "direction") if key in all_columns[table]
            ]
            columns = [*keys, column] if column not in keys else [*keys]
        if table not in self._series:
            self._series[table] = self._native.series(table)
        native = self._series[table]
        if native is None:
            folder = self._native.folder
            raise ValueError(
                "the run kept no series: run it with series=True"
                if folder is None
                else f"{folder} has no series `{table}`"
            )
        return Table(native) if columns is None else Table(native.select(columns))

    def save(
        self,
        folder: str | os.PathLike[str],
        *,
        sample: str = "0 s",
        captures: bool = True,
        force: bool = False,
    ) -> Run:
        """Writes the results into a folder, with series and captures, like ``roughlink run -o``. This simulates the run
        a second time; :meth:`Scenario.run` with a `folder` simulates only once.

        Args:
            folder: The folder, which must be new or empty.
            sample: Minimum time between rows of the same flow or link direction in the series.
            captures: Write a capture (pcapng) for each node.
            force: Replace the results of another run in `folder`.

        Returns:
            The run in the folder, whose series are read from there.

        Raises:
            ValueError: The run was read from a folder or unpickled, or the second run had another result because its
                Python algorithm is not deterministic.
            RoughlinkError: The folder is not empty or cannot be written.
        """
        if self._again is None:
            raise ValueError(
                "only a run that this process made, and that is in no folder yet, can be saved: run the scenario with "
                "folder=..."
            )
        saved = self._again(folder=folder, sample=sample, captures=captures, force=force)
        if {**saved.result, "wall_s": 0} != {**self.result, "wall_s": 0}:
            raise ValueError(f"the second run had another result, now in {str(folder)!r}: a Python algorithm is random")
        return saved

    def plot(self, axes: Axes | None = None) -> Axes:
        """Plots the throughput of transfers over time: the mean of each hundredth of the run, in Mbit/s. Needs
        matplotlib and a run with series. Flows of other kinds are left out with a warning.

        Args:
            axes: Axes to draw on; new ones by default.

        Returns:
            The axes.

        Raises:
            ValueError: The run has no series.
        """
        from ._plot import throughput

        return throughput(self, axes)

    def __reduce__(self) -> tuple[Any, ...]:
        # Series that were read stay available after the folder is removed.
        read = self._series
        tables = {
            name: read[name] if name in read else self._native.series(name) for name, _ in _native.Run.series_columns()
        }
        return _again, (
            self._native.json(),
            {name: Table(table) for name, table in tables.items() if table is not None} or None,
        )

    def __repr__(self) -> str:
        r = self.result
        return f"<roughlink.Run of {r['name']!r}, replica {r['replica']}: {r['sim_s']:g} s simulated>"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>" + self.flows._repr_html_()


def _again(result: str, series: dict[str, Table] | None) -> Run:
    kept = None if series is None else [(name, table._native) for name, table in series.items()]
    return Run(_native.Run.from_json(result, kept))
