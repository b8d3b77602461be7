"""Arrow tables and two-dimensional arrays of xarray as pandas frames, so that all tables are checked in one place.

pandas writes the levels of an index without names as columns ``__index_level_0__``, ``__index_level_1__``, … Other
programs keep these columns and lose the note of pandas that they are the index. So a column with such a name is never
data: it is the index, in every kind of table.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ._openers import opener
from ._packing import check_unpacked
from ._signals import from_handler
from .errors import FastAnchorsError, InvalidTypeError, MissingExtraError, one_line

__all__ = ["NULLABLE", "as_frame", "is_arrow", "is_index_level", "is_named_array"]

_LEVEL = re.compile(r"__index_level_\d+__")

# Integers of Arrow, which to_pandas() rounds to float64 if some are missing, and the types of pandas that keep them.
NULLABLE = {f"{sign}int{bits}": f"{sign.upper()}Int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}


def is_arrow(source: Any) -> bool:
    """Whether this is a ``pyarrow.Table`` or ``RecordBatch``, determined without importing pyarrow."""
    return _has_class(source, "pyarrow", ("Table", "RecordBatch"))


def is_named_array(source: Any) -> bool:
    """Whether this is a ``DataArray`` of xarray with two axes, whose coordinates may name rows and columns."""
    return _has_class(source, "xarray", ("DataArray",)) and source.ndim == 2


def is_index_level(column: Any) -> bool:
    """Whether a column has a name that pandas gives to a level of an index without a name."""
    return isinstance(column, str) and _LEVEL.fullmatch(column) is not None


def as_frame(source: Any, name: str, *, first_row: int = 0) -> Any:
    """An Arrow table or a two-dimensional ``DataArray`` as a pandas frame; all other objects as they are.

    Of a ``DataArray`` with fewer or more axes, the values.

    The index of a frame that pandas has written to Arrow is the index again, also if only the names of its columns say
    so (:func:`is_index_level`); pandas frames with such columns get that index, and polars frames become pandas frames.
    Coordinates of a ``DataArray`` are index and columns; an axis without them is counted from 0. Raises if its
    attributes say that its numbers are packed. ``first_row`` is the number of its first row in errors.
    """
    if is_arrow(source):
        return _with_index(_frame_of_arrow(source, name))
    if _has_class(source, "pandas", ("DataFrame",)):
        return _with_index(source)
    if _has_class(source, "polars", ("DataFrame",)) and any(map(is_index_level, source.columns)):
        return _with_index(_frame_of_polars(source, name))
    if not _has_class(source, "xarray", ("DataArray",)):
        return source
    import pandas as pd  # xarray needs it

    try:
        labels = [source.indexes.get(axis) for axis in source.dims]
        values = _numbers(source, name)
    except FastAnchorsError:
        raise
    except (TypeError, ValueError, RuntimeError) as error:  # of indexes and arrays that are not those of NumPy
        raise InvalidTypeError(f"{name} cannot be converted to an array: {one_line(str(error))}") from None
    check_unpacked(source, values, name, first_row)
    return pd.DataFrame(values, *labels) if source.ndim == 2 else values


def _numbers(source: Any, name: str) -> Any:
    """The values of a ``DataArray``; NaN where blocks of Dask are masked, as xarray does with masked arrays."""
    values = opener("computed")(source.data, name) if hasattr(source.data, "dask") else source.to_numpy()
    return np.where(values.mask, np.nan, values.data) if np.ma.is_masked(values) else np.asarray(values)


def _has_class(source: Any, library: str, names: tuple[str, ...]) -> bool:
    return any(each.__module__.partition(".")[0] == library and each.__name__ in names for each in type(source).__mro__)


def _frame_of_arrow(table: Any, name: str) -> Any:
    try:
        import pandas as pd
    except ImportError:
        advice = "pip install 'fastanchors[pandas]'"
        raise MissingExtraError(f"{name} is an Arrow table, which is read with pandas: {advice}") from None
    gaps = {field.type for field, column in zip(table.schema, table.columns, strict=True) if column.null_count}
    nullable = {kind: pd.api.types.pandas_dtype(NULLABLE[str(kind)]) for kind in gaps if str(kind) in NULLABLE}
    try:
        return _with_labels(table, table.to_pandas(types_mapper=nullable.get))
    except Exception as error:  # Arrow has many classes of its own
        if isinstance(error, MemoryError) or from_handler(error):
            raise
        raise InvalidTypeError(f"{name} cannot be converted to a pandas frame: {one_line(str(error))}") from None


def _frame_of_polars(frame: Any, name: str) -> Any:
    try:
        table = frame.to_arrow()
    except ImportError:
        column = next(filter(is_index_level, frame.columns))
        cure = "pip install 'fastanchors[io,pandas]', or drop the column"
        raise MissingExtraError(
            f"{name}: column {column!r} is an index of pandas, which needs pyarrow: {cure}"
        ) from None
    return _frame_of_arrow(table, name)


def _with_index(frame: Any) -> Any:
    """The pandas frame without columns that are levels of an index; they are its index if that is only a range."""
    levels = [place for place, column in enumerate(frame.columns) if is_index_level(column)]
    if not levels:
        return frame
    import pandas as pd

    rest = frame.iloc[:, [place for place in range(frame.shape[1]) if place not in levels]]
    if not isinstance(frame.index, pd.RangeIndex):
        return rest
    labels = [pd.Index(frame.iloc[:, place], name=None) for place in levels]
    return rest.set_axis(labels[0] if len(labels) == 1 else pd.MultiIndex.from_arrays(labels), axis=0)


def _with_labels(table: Any, frame: Any) -> Any:
    """The frame with periods and intervals in its index, where ``to_pandas()`` leaves the numbers that Arrow stores."""
    import pandas as pd

    known = table.schema.pandas_metadata or {}
    types = {column["field_name"]: str(column["numpy_type"]) for column in known.get("columns", ())}
    keys = [key for key in known.get("index_columns", ()) if isinstance(key, str) and key in table.schema.names]
    special = [types.get(key, "").startswith(("period", "interval")) for key in keys]
    if any(special) and frame.index.nlevels == len(keys):
        levels = [
            pd.api.types.pandas_dtype(types[key]).__from_arrow__(table.column(key))
            if is_special
            else frame.index.get_level_values(at)
            for at, (key, is_special) in enumerate(zip(keys, special, strict=True))
        ]
        frame.index = pd.Index(levels[0]) if len(levels) == 1 else pd.MultiIndex.from_arrays(levels)
    return frame
