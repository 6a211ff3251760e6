"""Tables that other libraries can use without a copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from operator import index
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn, SupportsIndex, overload

from . import _native

if TYPE_CHECKING:
    from pandas import DataFrame


class Column(NamedTuple):
    """Heading of a column."""

    name: str
    """Name of the column, including the unit if it has one."""
    type: str
    """Type of the values: ``int``, ``float``, ``bool`` or ``str``."""
    unit: str
    """Unit of the values; empty if they have none."""
    meaning: str
    """Description of the values."""


class Table:
    """Columns of the same length, each with a unit and a meaning.

    ``polars.DataFrame(table)``, ``pyarrow.table(table)`` and ``pandas.DataFrame.from_arrow(table)`` use a table through
    ``__arrow_c_stream__`` without a copy. Without these libraries, ``table["name"]`` is a list and ``table.rows()``
    yields dictionaries. The metadata of the Arrow fields also has units and meanings. Tables are immutable and can be
    pickled.
    """

    def __init__(self, native: _native.Table) -> None:
        self._native = native

    @staticmethod
    def of(columns: Sequence[tuple[str, str, str, str, Sequence[object]]]) -> Table:
        """Returns a table of columns, each with the four fields of a :class:`Column` and its values.

        Raises:
            TypeError: A value does not have the type of its column.
            ValueError: The columns have different lengths.
        """
        return Table(_native.Table.of([(*column[:4], list(column[4])) for column in columns]))

    @property
    def columns(self) -> list[Column]:
        """Headings of the columns."""
        return [Column(*each) for each in self._native.columns()]

    def __len__(self) -> int:
        """Returns the number of rows."""
        return len(self._native)

    @overload
    def __getitem__(self, what: str) -> list[Any]: ...

    @overload
    def __getitem__(self, what: slice) -> Table: ...

    @overload
    def __getitem__(self, what: SupportsIndex) -> dict[str, Any]: ...

    def __getitem__(self, what: str | slice | SupportsIndex) -> list[Any] | Table | dict[str, Any]:
        """Returns a column, some rows, or one row. ``table["name"]`` is a list of the column's values, with ``None``
        for missing values. ``table[10:20]`` is a table of these rows, without a copy. ``table[0]`` and ``table[-1]``
        are rows as dictionaries.

        Raises:
            KeyError: No column has this name.
            IndexError: There is no such row.
            ValueError: The slice has a step other than 1.
        """
        if isinstance(what, slice):
            first, end, step = what.indices(len(self))
            if step != 1:
                raise ValueError(f"a table has no slices with the step {step}")
            return Table(self._native.part(first, max(0, end - first)))
        if not isinstance(what, str):
            rows = range(len(self))
            if not -len(rows) <= index(what) < len(rows):
                raise IndexError(f"no row {index(what)}: the table has {len(rows)}")
            row = rows[index(what)]
            return next(self[row : row + 1].rows())
        return self._native.column(what)

    def keys(self) -> list[str]:
        """Returns the names of the columns, so that ``dict(table)`` has a list per column."""
        return list(self)

    def to_pandas(self) -> DataFrame:
        """Returns a pandas data frame. Needs pandas 3 or later."""
        import pandas

        return pandas.DataFrame.from_arrow(self)

    def __array__(self, *arguments: Any, **more: Any) -> NoReturn:
        """Raises an error, because the columns have different types.

        Raises:
            TypeError: Always. Without this method ``pandas.DataFrame(table)`` would have the names as its data.
        """
        raise TypeError("a table has columns of different types: use table.to_pandas() or numpy.array(table['NAME'])")

    def select(self, *names: str) -> Table:
        """Returns a table of these columns, without a copy.

        Raises:
            KeyError: One of the names is not a column.
        """
        return Table(self._native.select(list(names)))

    def head(self, count: int) -> Table:
        """Returns a table of the first rows, without a copy."""
        return self[:count]

    def __contains__(self, name: object) -> bool:
        """Returns true if a column has this name."""
        return any(column.name == name for column in self.columns)

    def __iter__(self) -> Iterator[str]:
        """Iterates over the names of the columns."""
        return iter([column.name for column in self.columns])

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yields the rows as dictionaries."""
        names = [column.name for column in self.columns]
        for values in zip(*(self[name] for name in names), strict=True):
            yield dict(zip(names, values, strict=True))

    def __eq__(self, other: object) -> bool:
        """Returns true for a table with the same columns and values."""
        if not isinstance(other, Table):
            return NotImplemented
        return self.columns == other.columns and all(self[name] == other[name] for name in self)

    __hash__: ClassVar[None]  # type: ignore[assignment]

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Exports the table to other libraries (Arrow PyCapsule interface)."""
        return self._native.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """Exports the types of the columns to other libraries."""
        return self._native.__arrow_c_schema__()

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self._native.ipc(),)

    def __deepcopy__(self, memo: dict[int, Any]) -> Table:
        return self

    def __repr__(self) -> str:
        names = ", ".join(column.name for column in self.columns)
        return f"<roughlink.Table of {len(self)} rows: {names}>"

    def _repr_html_(self, most: int = 20) -> str:
        head = "".join(f'<th title="{escape(c.meaning)}">{escape(c.name)}</th>' for c in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{_shown(value)}</td>" for value in row.values()) + "</tr>"
            for row in self.head(most).rows()
        )
        more = f"<p>{len(self)} rows; only the first are shown</p>" if len(self) > most else ""
        return f"<table><tr>{head}</tr>{body}</table>{more}"


def _again(ipc: bytes) -> Table:
    return Table(_native.Table.from_ipc(ipc))


def _shown(value: Any) -> str:
    """Formats a value as HTML."""
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else escape(str(value))

