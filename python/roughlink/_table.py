"""Tables."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any, NamedTuple

from . import _native


class Column(NamedTuple):
    """The heading of a column."""

    name: str
    """Its name, which carries the unit if there is one."""
    type: str
    """``int``, ``float``, ``bool`` or ``str``."""
    unit: str
    """Its unit; empty if it has none."""
    meaning: str
    """What it is."""


class Table:
    """Columns of one length, each with a unit and a meaning.

    ``polars.DataFrame(table)``, ``pyarrow.table(table)`` and ``pandas.DataFrame.from_arrow(table)`` take it through
    ``__arrow_c_stream__`` without a copy. Without any of them, ``table["name"]`` is a list and ``table.rows()`` gives dictionaries.
    Units and meanings are in the metadata of the Arrow fields, too. A table does not change; it can be pickled.
    """

    def __init__(self, native: _native.Table) -> None:
        self._native = native

    @property
    def columns(self) -> list[Column]:
        """The headings."""
        return [Column(*each) for each in self._native.columns()]

    def __len__(self) -> int:
        return len(self._native)

    def __getitem__(self, name: str) -> list[Any]:
        """The values of a column; ``None`` where there is none.

        Raises:
            KeyError: there is no such column.
        """
        return self._native.column(name)

    def select(self, *names: str) -> Table:
        """These columns of it, without a copy.

        Raises:
            KeyError: there is no such column.
        """
        return Table(self._native.select(list(names)))

    def head(self, count: int) -> Table:
        """Its first rows, without a copy."""
        return Table(self._native.head(count))

    def __contains__(self, name: object) -> bool:
        """Whether it has a column of this name."""
        return any(column.name == name for column in self.columns)

    def __iter__(self) -> Iterator[str]:
        """The names of its columns."""
        return iter([column.name for column in self.columns])

    def rows(self) -> Iterator[dict[str, Any]]:
        """Its rows."""
        names = [column.name for column in self.columns]
        for values in zip(*(self[name] for name in names), strict=True):
            yield dict(zip(names, values, strict=True))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The table for other libraries (Arrow PyCapsule interface)."""
        return self._native.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """The types of its columns for other libraries."""
        return self._native.__arrow_c_schema__()

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self._native.ipc(),)

    def __deepcopy__(self, memo: dict[int, Any]) -> Table:
        return self

    def __repr__(self) -> str:
        names = ", ".join(column.name for column in self.columns)
        return f"<roughlink.Table of {len(self)} rows: {names}>"

    def _repr_html_(self) -> str:
        head = "".join(f'<th title="{escape(c.meaning)}">{escape(c.name)}</th>' for c in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{shown(value)}</td>" for value in row.values()) + "</tr>"
            for row in self.head(_SHOWN).rows()
        )
        more = f"<p>{len(self)} rows, of which these are the first</p>" if len(self) > _SHOWN else ""
        return f"<table><tr>{head}</tr>{body}</table>{more}"


def _again(ipc: bytes) -> Table:
    return Table(_native.Table.of_ipc(ipc))


def shown(value: Any) -> str:
    """A value in HTML."""
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else escape(str(value))


_SHOWN = 20
