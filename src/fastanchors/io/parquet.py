"""Parquet, by batches of rows: dense columns, or row/column/value triplets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInputError, InvalidTypeError, MissingExtraError, StoreError
from .compressed import check_triplets
from .remote import openable
from .source import Source, read_names
from .triplets import RowGrouper

__all__ = ["read_parquet"]

_TRIPLETS = {("row", "column", "value"), ("row", "col", "value"), ("row", "col", "data"), ("i", "j", "value")}
_BATCH = 1 << 17


def read_parquet(
    path: Path,
    *,
    layout: str | None = None,
    shape: tuple[int, int] | None = None,
    row_names: Any = None,
    column_names: Any = None,
) -> Source:
    """Parquet with one column per feature (``layout="dense"``) or triplets (``layout="triplets"``).

    Three columns named row, column and value (or col, i, j) are taken for 0-based triplets. In a dense table the first
    column of strings gives the row names, or the column that ``row_names`` names. The shape of triplets is ``shape``,
    else one more look at the two index columns finds it.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError("reading Parquet needs pyarrow: pip install 'fastanchors[io]'") from error
    try:
        file = pq.ParquetFile(openable(path))
        fields = {field.name: field.type for field in file.schema_arrow}
    except (pa.ArrowException, OSError) as error:
        raise StoreError(f"cannot read {path}: {error}") from error
    if layout not in (None, "dense", "triplets"):
        raise InvalidInputError(f"layout must be 'dense' or 'triplets', got {layout!r}")
    if layout == "triplets" or (layout is None and tuple(fields) in _TRIPLETS):
        return _triplets(path, file, fields, shape, row_names, column_names)
    return _dense(path, file, fields, row_names, column_names)


def _dense(path: Path, file: Any, fields: dict[str, Any], row_names: Any, column_names: Any) -> Source:
    import pyarrow.types as types

    name = str(path)
    label = row_names if isinstance(row_names, str) and row_names in fields else None
    strings = [key for key, kind in fields.items() if types.is_string(kind) or types.is_large_string(kind)]
    if label is None and row_names is None and strings:
        label = strings[0]
    keys = [key for key in fields if key != label]
    odd = [key for key in keys if not _is_number(fields[key])]
    if odd or not keys:
        raise InvalidTypeError(f"{name}: column {odd[0] if odd else label!r} does not hold numbers; drop it first")
    dtype = np.result_type(*(fields[key].to_pandas_dtype() for key in keys))
    found: list[str] | None = [] if label is not None else read_names(row_names, "row")

    def blocks(max_bytes: int) -> Iterator[NDArray[Any]]:
        if label is not None and found is not None:
            found.clear()
        size = max(1, max_bytes // (2 * dtype.itemsize * len(keys)))
        wanted = keys if label is None else [*keys, label]
        first = 0
        for batch in file.iter_batches(size, columns=wanted):
            block = np.empty((batch.num_rows, len(keys)), dtype=dtype)
            for j, key in enumerate(keys):
                column = batch.column(key)
                if column.null_count:
                    row = first + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
                    raise InvalidInputError(
                        f"{name}: row {row} of column {key!r} is missing; remove or impute it first"
                    )
                block[:, j] = column.to_numpy(zero_copy_only=False)
            if label is not None and found is not None:
                found.extend(str(value) for value in batch.column(label).to_pylist())
            first += batch.num_rows
            yield block

    names = keys if column_names is None else read_names(column_names, "column")
    rows = file.metadata.num_rows
    return Source(name, (rows, len(keys)), dtype, False, blocks, row_names=found, column_names=names)


def _is_number(kind: Any) -> bool:
    import pyarrow.types as types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def _triplets(
    path: Path, file: Any, fields: dict[str, Any], shape: tuple[int, int] | None, row_names: Any, column_names: Any
) -> Source:
    import pyarrow.types as types

    name = str(path)
    if len(fields) != 3:
        raise InvalidInputError(f"{name}: triplets need three columns (row, column, value), it has {len(fields)}")
    (row, row_type), (column, column_type), (value, value_type) = fields.items()
    if not (types.is_integer(row_type) and types.is_integer(column_type) and _is_number(value_type)):
        raise InvalidTypeError(f"{name}: triplets need two integer columns and one of numbers, got {list(fields)}")
    names = {"row_names": read_names(row_names, "row"), "column_names": read_names(column_names, "column")}
    if shape is None:
        shape = _largest(file, row, column, name)
        known = (names["row_names"], names["column_names"])
        m, n = (max(size, len(given) if given else 0) for size, given in zip(shape, known, strict=True))
    else:
        m, n = (int(size) for size in shape)
    dtype = np.dtype(value_type.to_pandas_dtype())

    def blocks(max_bytes: int) -> Iterator[Any]:
        grouper = RowGrouper(m, n, dtype, max_bytes, name=name, entries=file.metadata.num_rows)
        try:
            for batch in file.iter_batches(_BATCH):
                rows, columns, values = (_column(batch, key, name) for key in (row, column, value))
                check_triplets(rows, columns, (m, n), name)
                grouper.add(rows, columns, values)
            yield from grouper.blocks()
        finally:
            grouper.close()

    return Source(name, (m, n), dtype, True, blocks, **names)


def _column(batch: Any, key: str, name: str) -> NDArray[Any]:
    column = batch.column(key)
    if column.null_count:
        raise InvalidInputError(f"{name}: column {key!r} has missing values; remove them first")
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _largest(file: Any, row: str, column: str, name: str) -> tuple[int, int]:
    largest = [-1, -1]
    for batch in file.iter_batches(_BATCH, columns=[row, column]):
        for at, key in enumerate((row, column)):
            largest[at] = max(largest[at], int(_column(batch, key, name).max(initial=-1)))
    return largest[0] + 1, largest[1] + 1
