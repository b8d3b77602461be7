"""Read tables in memory (pandas and polars frames, Arrow tables, arrays of xarray) a few rows at a time.

Columns of several types, and columns of Arrow, become an array only by a copy. A copy of all rows would take the memory
of the table once or twice more; a copy of a slice of rows takes what the caller of ``Source.blocks`` plans for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._tables import as_frame, is_arrow, is_named_array
from .._validate import as_array, check_finite, numeric, package
from ..matrix.frames import (
    column_labels,
    frame_values,
    holds_numbers,
    label_place,
    take_labels,
    without_column,
)
from .row_source import Source, read_names, row_slices

__all__ = ["SlicedTable", "from_table"]

_COPIES = 3  # of a slice: as a frame, as an array, and as an array in C order


class SlicedTable:
    """The numbers of a table. Its first row determines their type, and which column names the rows.

    Attributes
    ----------
    shape, dtype
        Of the array of all numbers.
    column_names
        Their names, or None.
    """

    def __init__(self, table: Any, numbers: Any, place: int | None, name: str) -> None:
        self._table, self._place, self._name = table, place, name
        self.shape = _height(table), numbers.shape[1]
        self.column_names = column_labels(table, numbers)
        self.dtype = self[0:1].dtype

    @classmethod
    def of(cls, table: Any, name: str) -> SlicedTable | None:
        """A table whose columns are numbers, except those that name the rows; None for other tables.

        Those are tables of objects, categories and unknown libraries: their type can depend on all rows.
        """
        is_known = package(table) in ("pandas", "polars", "pyarrow", "xarray") and hasattr(table, "shape")
        if not is_known or 0 in table.shape:
            return None
        head = as_frame(_slice(table, 0, 1), name)
        place = label_place(head)
        numbers = head if place is None else without_column(head, place)
        names = {str(column) for column in numbers.columns}
        plain = all(map(_is_plain, numbers.dtypes)) and 0 < numbers.shape[1] == len(names)
        return cls(table, numbers, place, name) if plain else None

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        """The rows ``start:stop`` as an array."""
        start = rows.start
        frame = as_frame(_slice(self._table, start, rows.stop), self._name, first_row=start)
        if self._place is not None:
            frame = without_column(frame, self._place)
        return numeric(as_array(frame_values(frame, self._name), "A"), "A", first_row=start)

    def row_names(self) -> list[str] | None:
        """The names of the rows, from the columns that are not numbers, or None."""
        table, numbers = self._table, set(self.column_names or ())
        if is_named_array(table):
            return take_labels(table[:, :0], name=self._name)[1]
        columns = table.schema.names if is_arrow(table) else table.columns
        others = [place for place, column in enumerate(columns) if str(column) not in numbers]
        if package(table) == "pandas":
            return take_labels(table.iloc[:, others], name=self._name)[1]
        chosen = others if is_arrow(table) else [columns[place] for place in others]
        return take_labels(table.select(chosen), name=self._name)[1]

    def blocks(self, max_bytes: int) -> Iterator[NDArray[Any]]:
        row_bytes = _COPIES * self.shape[1] * self.dtype.itemsize
        for start, stop in row_slices(self.shape[0], row_bytes, max_bytes):
            values = self[start:stop]
            if not np.can_cast(values.dtype, self.dtype, "safe"):  # integers, of which some are missing
                check_finite(values, signed=True, first_row=start)
            yield values


def from_table(table: SlicedTable, *, row_names: Any = None, column_names: Any = None) -> Source:
    """The rows of a table, converted a few at a time."""
    names = {"row_names": read_names(row_names, "row"), "column_names": read_names(column_names, "column")}
    return Source("the matrix", table.shape, table.dtype, False, table.blocks, **names)


def _is_plain(dtype: Any) -> bool:
    """Whether a column of pandas or polars holds numbers of one type of NumPy, perhaps with missing ones."""
    if hasattr(dtype, "is_numeric"):
        return bool(dtype.is_integer() or dtype.is_float() or str(dtype) == "Boolean")
    return getattr(dtype, "categories", None) is None and holds_numbers(dtype)


def _height(table: Any) -> int:
    return int(table.num_rows if is_arrow(table) else table.shape[0])


def _slice(table: Any, start: int, stop: int) -> Any:
    if package(table) == "pandas":
        return table.iloc[start:stop]
    return table[start:stop] if is_named_array(table) else table.slice(start, stop - start)
