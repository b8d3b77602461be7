"""Read Parquet in batches of rows: dense columns, or row/column/value triplets."""

from __future__ import annotations

import contextlib
import json
import operator
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._tables import NULLABLE, is_index_level
from .._validate import check_choice, check_extent, check_whole_objects
from ..errors import InvalidInputError, InvalidTypeError, MissingExtraError, StoreError
from .addresses import openable
from .arrays import read_at, rows_of_columns
from .compressed import check_triplets
from .name_spool import NameSpool
from .row_grouper import RowGrouper
from .row_source import Source, check_claim, read_names, reading, requested_dtype, row_slices
from .scratch import scratch_file

__all__ = ["read_parquet"]

_TRIPLETS = {("row", "column", "value"), ("row", "col", "value"), ("row", "col", "data"), ("i", "j", "value")}
_BATCH = 1 << 15
_BUFFER = 1 << 16
_PAGE = 1 << 20  # usual bytes of a page
_PAGES = 3  # pages per column in memory: its dictionary, a page compressed and uncompressed
_OPEN = 3  # memory limit of all open pages, in blocks (a block is about a twelfth of the memory)
_NAMES = 1 << 12  # names that are objects of Python together
_NAME_BYTES = 128  # upper estimate of a name as a Python string
_INDEX = np.dtype(np.int64)
_Labels = list[str] | range  # the columns of the row names, or the labels of a range


def read_parquet(
    path: Path,
    *,
    layout: str | None = None,
    shape: tuple[int, int] | None = None,
    row_names: Any = None,
    column_names: Any = None,
    dtype: Any = None,
) -> Source:
    """Parquet with one column per feature (``layout="dense"``) or triplets (``layout="triplets"``).

    Three columns named row, column and value (or col, i, j) are read as 0-based triplets. In a dense table the row
    names are the column ``row_names``, or those of the pandas frame that was written: its index, else the columns that
    pandas names ``__index_level_0__``, … (never data, also without the metadata of pandas), else the first column of
    strings, else the labels of a range that does not count from 0. The shape of triplets is ``shape``, or else is
    found by an extra pass over the two index columns. Entries have the common type of all columns, or ``dtype``; an
    integer that this type cannot represent is an error. Decimal columns are float64; their fractions are rounded.
    """
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError("reading Parquet needs pyarrow: pip install 'fastanchors[io]'") from error
    if path.is_dir():
        raise StoreError(f"{path} is a directory of files; build a store from the first file, and append the others")
    with reading(path):
        # With a small buffer only one page of each column is in memory, not its whole column chunk.
        file = pq.ParquetFile(openable(path), buffer_size=_BUFFER, pre_buffer=False, page_checksum_verification=True)
        fields = list(file.schema_arrow)
    names = [field.name for field in fields]
    if len(set(names)) < len(names):
        twice = next(name for at, name in enumerate(names) if name in names[:at])
        raise InvalidInputError(f"{path}: two columns are named {twice!r}; rename one")
    check_choice(layout, ("dense", "triplets", None), name="layout")
    check_claim(str(path), int(file.metadata.num_rows) * len(names), path.stat().st_size)  # at least a byte per value
    levels = {field.name: NULLABLE.get(str(field.type), "object") for field in fields if is_index_level(field.name)}
    index = _index_columns(file) or levels
    fields = [field for field in fields if field.name in index or field.name not in levels]
    table = _Table(str(path), file, {field.name: field.type for field in fields}, index)
    table.extensions = {field.name for field in fields if b"ARROW:extension:name" in (field.metadata or {})}
    values = tuple(name for name in table.fields if name not in table.index)
    if layout == "triplets" or (layout is None and values in _TRIPLETS):
        return _triplets(table, shape, row_names, column_names, dtype)
    return _dense(table, row_names, column_names, dtype)


class _Table:
    """An open file: batches of columns as NumPy arrays, with errors that name row and column."""

    def __init__(self, name: str, file: Any, fields: dict[str, Any], index: dict[str, str]) -> None:
        self.name, self.file, self.fields, self.index = name, file, fields, index
        self.rows = int(file.metadata.num_rows)
        self.extensions: set[str] = set()  # columns whose numbers stand for something else, such as periods of pandas

    def batches(
        self, rows: int, columns: Sequence[str], *, group: int | None = None, first: int = 0
    ) -> Iterator[tuple[int, Any]]:
        """(first row, record batch) of at most ``rows`` rows each, of the file or of one row group."""
        groups = None if group is None else [group]
        with reading(self.name):
            for batch in self.file.iter_batches(rows, row_groups=groups, columns=list(columns), use_threads=False):
                yield first, batch
                first += batch.num_rows

    def together(self, keys: Sequence[str], max_bytes: int) -> list[list[str]]:
        """The columns in groups whose open pages fit into memory at the same time."""
        metadata = self.file.metadata
        if metadata.num_row_groups == 0 or metadata.num_columns * _PAGES * _PAGE <= _OPEN * max_bytes:
            return [list(keys)]
        longest = max(range(metadata.num_row_groups), key=lambda i: metadata.row_group(i).num_rows)
        for key in self.file.schema_arrow.names:
            next(self.batches(1, [key], group=longest), None)  # raises if damaged, where Arrow's `column` aborts
        group = metadata.row_group(longest)
        parts = [group.column(j) for j in range(group.num_columns)]
        sizes = {part.path_in_schema: _PAGES * min(_PAGE, part.total_uncompressed_size) for part in parts}
        groups: list[list[str]] = [[]]
        held = 0
        for key in keys:
            size = sizes.get(key, _PAGES * _PAGE)
            if groups[-1] and held + size > _OPEN * max_bytes:
                groups.append([])
                held = 0
            groups[-1].append(key)
            held += size
        return groups

    def numbers(self, batch: Any, first_row: int, key: str, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Column ``key`` as ``dtype``; raises on a missing value, or on an integer that does not fit ``dtype``."""
        column = batch.column(key)
        if column.null_count:
            row = first_row + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise InvalidInputError(f"{self.name}: row {row} of column {key!r} is missing; remove or impute it first")
        values = _values(column, f"{self.name}: column {key!r}")
        if np.can_cast(values.dtype, dtype, "safe") and (values.dtype.itemsize < 8 or values.dtype.kind == dtype.kind):
            return values
        if dtype.kind == "f" and values.dtype.kind == "f":
            return values  # requested with dtype=…
        with np.errstate(invalid="ignore"):
            kept = values.astype(dtype)
            changed = (kept != values) | (kept.astype(values.dtype) != values) | ((kept < 0) != (values < 0))
        if changed.any():
            at = int(np.argmax(changed))
            raise InvalidInputError(
                f"{self.name}: row {first_row + at} of column {key!r} is {values[at]}, which does not fit {dtype}; "
                "convert all columns to one type"
            )
        return kept


def _dense(table: _Table, row_names: Any, column_names: Any, dtype: Any) -> Source:
    name, fields = table.name, table.fields
    labels: _Labels = [row_names] if isinstance(row_names, str) and row_names in fields else []
    if row_names is None:
        labels = (
            list(table.index) or [key for key, kind in fields.items() if _is_text(kind)][:1] or _range_index(table.file)
        )
    read = [] if isinstance(labels, range) else labels
    keys = [key for key in fields if key not in {*read, *table.index}]
    non_numeric = [key for key in keys if key in table.extensions or not _is_number(fields[key])]
    if non_numeric or not keys:
        first = [*non_numeric, *read][0]
        raise InvalidTypeError(
            f"{name}: column {first!r} does not hold numbers of NumPy, but {fields[first]}; convert it, or drop it"
        )
    common = _common_type(_entry_type(fields[key]) for key in keys)
    entry_type = requested_dtype(common if dtype is None else dtype)
    found = NameSpool() if labels else None

    def blocks(max_bytes: int) -> Iterator[NDArray[Any]]:
        import pyarrow as pa

        if found is not None:
            found.clear()
        wanted = [*keys, *read]
        if len(table.together(wanted, max_bytes)) > 1:
            yield from _spooled_groups(table, keys, labels, entry_type, found, max_bytes)
            return
        release_unused = pa.default_memory_pool().release_unused
        # A block, its columns and the names as Python strings are in memory together.
        row_bytes = entry_type.itemsize * len(keys) + _NAME_BYTES * bool(labels)
        for first, batch in table.batches(max(1, max_bytes // (2 * row_bytes)), wanted):
            block = np.empty((batch.num_rows, len(keys)), dtype=entry_type)
            for j, key in enumerate(keys):
                block[:, j] = table.numbers(batch, first, key, entry_type)
            if found is not None:
                _add_names(found, table, batch, labels, first)
            release_unused()  # else Arrow keeps the memory of pages that were read
            yield block

    return Source(
        name,
        (table.rows, len(keys)),
        entry_type,
        False,
        blocks,
        row_names=found if labels else read_names(row_names, "row"),
        column_names=keys if column_names is None else read_names(column_names, "column"),
    )


def _spooled_groups(
    table: _Table,
    keys: list[str],
    labels: _Labels,
    dtype: np.dtype[Any],
    names: NameSpool | None,
    max_bytes: int,
) -> Iterator[NDArray[Any]]:
    """The rows of a table that is too wide to have a page of every column in memory.

    A few columns at a time are written to a temporary file, which has one row group, column by column.
    """
    import pyarrow as pa

    place = {key: j for j, key in enumerate(keys)}
    first_row = 0
    for group in range(table.file.metadata.num_row_groups):
        count = table.file.metadata.row_group(group).num_rows
        if names is not None:
            read = keys[:1] if isinstance(labels, range) else labels
            step = max(1, max_bytes // (4 * (_NAME_BYTES + 8) * len(read)))
            for first, batch in table.batches(step, read, group=group, first=first_row):
                _add_names(names, table, batch, labels, first)
        with scratch_file() as file:
            for columns in table.together(keys, max_bytes):
                step = max(1, max_bytes // (4 * 8 * len(columns)))
                for first, batch in table.batches(step, columns, group=group, first=first_row):
                    for key in columns:
                        values = table.numbers(batch, first, key, dtype).astype(dtype, copy=False)
                        file.seek((place[key] * count + first - first_row) * dtype.itemsize)
                        file.write(values.tobytes())
                pa.default_memory_pool().release_unused()
            yield from rows_of_columns(partial(read_at, file, 0, dtype), (count, len(keys)), dtype, max_bytes // 2)
        first_row += count


def _pandas_index(file: Any) -> list[Any]:
    """What pandas has written about the index of its frame: names of columns, or a range; empty for other writers."""
    try:
        found = json.loads((file.schema_arrow.metadata or {})[b"pandas"])["index_columns"]
    except (KeyError, TypeError, ValueError, RecursionError):
        return []
    return found if isinstance(found, list) else []


def _index_columns(file: Any) -> dict[str, str]:
    """The columns that pandas has written as the index of its frame, and their types in pandas."""
    keys = [key for key in _pandas_index(file) if isinstance(key, str) and key in file.schema_arrow.names]
    types = dict.fromkeys(keys, "")
    with contextlib.suppress(KeyError, TypeError, ValueError, RecursionError):
        for column in json.loads(file.schema_arrow.metadata[b"pandas"])["columns"]:
            if column["field_name"] in types:
                types[column["field_name"]] = str(column["numpy_type"])
    return types


def _range_index(file: Any) -> range:
    """The labels of a frame whose index was a range, which is no column; empty if they are 0, 1, 2, …"""
    try:
        (found,) = _pandas_index(file)
        labels = range(*(operator.index(found[part]) for part in ("start", "stop", "step")))
        known = found["kind"] == "range" and len(labels) == file.metadata.num_rows  # else of a frame with other rows
        return labels if known and labels != range(len(labels)) else range(0)
    except (KeyError, TypeError, ValueError, OverflowError):
        return range(0)


def _add_names(names: NameSpool, table: _Table, batch: Any, labels: _Labels, first_row: int) -> None:
    """Add the names of the rows of a batch, few at a time, because objects of Python take much memory."""
    for start, stop in row_slices(batch.num_rows, 1, _NAMES):
        names.extend(_names(table, batch.slice(start, stop - start), labels, first_row + start))


def _names(table: _Table, batch: Any, labels: _Labels, first_row: int) -> Iterator[str]:
    """The names of the rows as pandas shows them; those of several columns are tuples."""
    if isinstance(labels, range):
        return map(str, labels[first_row : first_row + batch.num_rows])
    columns = [_labels(table, batch.column(label), label) for label in labels]
    return map(str, columns[0] if len(columns) == 1 else zip(*columns))


def _labels(table: _Table, column: Any, key: str) -> Iterable[Any]:
    """A column of row names; the numbers of a period and the ends of an interval become what pandas shows for them."""
    import pyarrow.types as types

    written = table.index.get(key, "")
    special = written.startswith(("period", "interval"))
    timed = types.is_timestamp(column.type) or types.is_duration(column.type)
    if not written or not (special or timed or column.null_count):
        return list(column.to_pylist())
    try:
        from pandas.api.types import pandas_dtype
    except ImportError:
        if not special:
            return list(column.to_pylist())
        cure = "pip install 'fastanchors[pandas]', or pass the names as row_names=…"
        raise MissingExtraError(f"{table.name}: the row names in {key!r} are a {written}: {cure}") from None
    with reading(table.name):
        dtype = pandas_dtype(written)
        read = getattr(dtype, "__from_arrow__", None)
        return list(column.to_pandas() if read is None else read(column))


def _common_type(types: Iterable[Any]) -> Any:
    """The common type; integer columns become int64 rather than float64 (uint64 values that do not fit are errors)."""
    kinds = [np.dtype(kind) for kind in types]
    common = np.result_type(*kinds)
    return np.int64 if common.kind == "f" and all(kind.kind in "iub" for kind in kinds) else common


def _is_number(kind: Any) -> bool:
    import pyarrow.types as types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind))


def _entry_type(kind: Any) -> Any:
    """The type of NumPy for a column of numbers; decimal fractions become float64, as those of text do."""
    import pyarrow.types as types

    return np.float64 if types.is_decimal(kind) else kind.to_pandas_dtype()


def _values(column: Any, name: str) -> NDArray[Any]:
    """The numbers of a column; raises on whole decimals that float64 would round."""
    import pyarrow.types as types

    if not types.is_decimal(column.type):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    values = np.empty(len(column))
    for start in range(0, len(column), _BATCH):  # objects of Python, which take much memory
        objects = column.slice(start, _BATCH).to_numpy(zero_copy_only=False)
        check_whole_objects(objects, name)
        values[start : start + _BATCH] = objects.astype(np.float64)
    return values


def _is_text(kind: Any) -> bool:
    import pyarrow.types as types

    if types.is_dictionary(kind):  # what pandas calls categorical
        kind = kind.value_type
    checks = (getattr(types, name, None) for name in ("is_string", "is_large_string", "is_string_view"))
    return any(check is not None and check(kind) for check in checks)  # views of strings are newer


def _triplets(table: _Table, shape: tuple[int, int] | None, row_names: Any, column_names: Any, dtype: Any) -> Source:
    import pyarrow.types as types

    name, fields = table.name, {key: kind for key, kind in table.fields.items() if key not in table.index}
    if len(fields) != 3:
        raise InvalidInputError(f"{name}: triplets need three columns (row, column, value), it has {len(fields)}")
    (row, row_type), (column, column_type), (value, value_type) = fields.items()
    if not (types.is_integer(row_type) and types.is_integer(column_type) and _is_number(value_type)):
        raise InvalidTypeError(f"{name}: triplets need two integer columns and one of numbers, got {list(fields)}")
    names = {"row_names": read_names(row_names, "row"), "column_names": read_names(column_names, "column")}
    if shape is None:
        shape = _largest(table, row, column)
        known = (names["row_names"], names["column_names"])
        m, n = (max(size, len(given) if given else 0) for size, given in zip(shape, known, strict=True))
    else:
        m, n = (int(size) for size in shape)
    check_extent((m, n), table.rows, name)
    entry_type = requested_dtype(_entry_type(value_type) if dtype is None else dtype)

    def blocks(max_bytes: int) -> Iterator[Any]:
        grouper = RowGrouper(m, n, entry_type, max_bytes, name=name, entries=table.rows)
        try:
            for first, batch in table.batches(min(_BATCH, max(1, max_bytes // 256)), list(fields)):
                rows, columns = (table.numbers(batch, first, key, _INDEX) for key in (row, column))
                check_triplets(rows, columns, (m, n), name)
                grouper.add(rows, columns, table.numbers(batch, first, value, entry_type))
            yield from grouper.blocks()
        finally:
            grouper.close()

    return Source(name, (m, n), entry_type, True, blocks, **names)


def _largest(table: _Table, row: str, column: str) -> tuple[int, int]:
    """The shape by the largest row and column number, of any integer type."""
    m = n = 0
    for first, batch in table.batches(_BATCH, [row, column]):
        if batch.num_rows:
            rows, columns = (table.numbers(batch, first, key, _INDEX) for key in (row, column))
            m, n = max(m, int(rows.max()) + 1), max(n, int(columns.max()) + 1)
    return m, n
