"""Read arrays and sparse matrices in memory, iterators of row blocks, and column-major arrays."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._tables import as_frame
from .._validate import as_array, check_extent, check_sparse, computed, numeric
from ..errors import InvalidInputError, StoreError, one_line
from ..matrix.frames import column_labels, is_labelled
from .compressed import SliceReader, compressed_source
from .name_spool import NameSpool
from .row_grouper import unsummed_csr
from .row_source import Source, read_names, reading, rebatch, row_slices, split
from .scratch import scratch_file

__all__ = [
    "add_names",
    "counted_from",
    "dense_source",
    "from_array",
    "from_blocks",
    "is_row",
    "plain_rows",
    "read_at",
    "rows_of_columns",
    "spooled",
    "spooled_columns",
]

_NAMES_AT_ONCE = 1 << 16


def dense_source(name: str, array: Any, *, chunk_rows: int = 1, **names: Any) -> Source:
    """Rows of any two-dimensional object that can be sliced; slices are multiples of ``chunk_rows`` if possible."""
    m, n = (int(size) for size in array.shape)
    blocks = functools.partial(_slices, name, array, chunk_rows)  # no closure: results that keep it can be pickled
    return Source(name, (m, n), array.dtype, False, blocks, **names)


def _slices(name: str, array: Any, chunk_rows: int, max_bytes: int) -> Iterator[NDArray[Any]]:
    m, n = (int(size) for size in array.shape)
    step = max(1, max_bytes // (n * array.dtype.itemsize))
    step = step // chunk_rows * chunk_rows or step
    for start, stop in row_slices(m, 1, step):
        with reading(name):
            block = np.asarray(array[start:stop])
        yield block


def from_array(A: Any, *, row_names: Any = None, column_names: Any = None, name: str = "the matrix") -> Source:
    """A NumPy array or a SciPy sparse matrix (kept sparse)."""
    if sp.issparse(A):
        csr = _as_csr(A, name)
        source = compressed_source(
            name,
            csr.shape,
            csr.data.dtype,
            lambda: _array_readers(csr),
            entries=int(csr.nnz),
            row_names=read_names(row_names, "row"),
            column_names=read_names(column_names, "column"),
        )
        return source
    array = as_array(A, "A" if name.startswith("the ") else name)
    if array.ndim != 2:
        raise InvalidInputError(f"{name} must be two-dimensional, got shape {array.shape}")
    if array.dtype.kind == "O":
        array = numeric(array, "A" if name.startswith("the ") else f"{name}: A")
    return dense_source(
        name, array, row_names=read_names(row_names, "row"), column_names=read_names(column_names, "column")
    )


def is_row(block: Any) -> bool:
    """Whether the first of a list is a row of numbers, rather than a block of rows."""
    try:
        return not sp.issparse(block) and np.ndim(block) == 1
    except ValueError:  # it has lists of several lengths
        return True


def plain_rows(rows: Any) -> NDArray[Any]:
    """A list of rows as an array; raises if their lengths differ, or if entries are masked."""
    rows = computed(rows, "A")
    first = _row_shape(rows[0])
    for i, row in enumerate(rows):
        if (shape := _row_shape(row)) != first:
            raise InvalidInputError(f"row {i} has {math.prod(shape)} numbers, row 0 has {math.prod(first)}")
    return as_array(rows, "A")


def _row_shape(row: Any) -> tuple[int, ...]:
    try:
        return np.shape(row)
    except ValueError:  # it has lists of several lengths, which the conversion to an array refuses
        return (len(row),)


def _array_readers(csr: sp.csr_array) -> Any:
    # SciPy allows data and indices to be longer than nnz.
    return SliceReader(csr.indptr), SliceReader(csr.indices[: csr.nnz]), SliceReader(csr.data[: csr.nnz])


def _as_csr(A: Any, name: str = "the matrix") -> sp.csr_array:
    """``A`` as CSR with duplicates, which :class:`Source` adds up (SciPy's sums could overflow in small types)."""
    check_sparse(A, name)
    check_extent(A.shape, A.nnz, name)
    csr = sp.csr_array(A)
    if A.format != "csr":  # formats that check_sparse does not cover, such as lil, are checked after conversion
        check_sparse(csr, name)
    if A.format == "coo" and csr.nnz < A.nnz:
        return unsummed_csr(A.row, A.col, A.data, A.shape)
    return csr


def from_blocks(blocks: Iterable[Any], *, row_names: Any = None, column_names: Any = None) -> Source:
    """Any iterator of row blocks (arrays or sparse matrices of one width); it is consumed once.

    Blocks are copied, so the iterator may reuse its buffer. Data frames and Arrow batches must have the same columns in
    the same order, whose names are those of the matrix. Labels of their pandas indexes name the rows, unless all are
    ranges that count from 0, in each block or through all blocks. Rows of blocks without labels beside them, and
    counted rows before the first label, have their numbers as names.
    """
    given = iter(blocks)
    head = next(given, given)
    if head is given:
        raise InvalidInputError("the iterator of row blocks is empty; at least one block is needed")
    first = _as_block(head, 0)
    waiting, columns, keeps_labels = [first], first.columns, row_names is None

    def parts(max_bytes: int) -> Iterator[Any]:
        index = row = 0
        while True:  # enumerate() would keep each block until the next one is made
            block: Any = waiting.pop() if waiting else next(given, given)
            if block is given:
                return
            block = _as_block(block, index, columns) if index else block
            rows, labels = source.fitted(block.rows, f"row block {index} (at row {row})"), block.labels
            if keeps_labels:
                add_names(source, labels, row, rows.shape[0])
            index, row = index + 1, row + rows.shape[0]
            del block, labels
            for part in split(rows, max_bytes // 2):
                yield part.copy()
                del part
            del rows  # before the next block is made

    del head
    source = Source(
        "the row blocks",
        (None, first.rows.shape[1]),
        first.rows.dtype,
        sp.issparse(first.rows),
        lambda max_bytes: rebatch(parts(max_bytes), max_bytes),
        row_names=read_names(row_names, "row"),
        column_names=read_names(columns if column_names is None else column_names, "column"),
    )
    if keeps_labels and first.labels is not None and counted_from(first.labels) != 0:
        source.row_names = NameSpool()  # builds reckon with its memory
    del first
    return source


class _Block(NamedTuple):
    """A block of rows, the names of its columns, and its pandas index."""

    rows: Any
    columns: list[str] | None
    labels: Any


def _as_block(block: Any, index: int, expected: list[str] | None = None) -> _Block:
    """Block number ``index``; raises if its columns have other names than ``expected``."""
    name = f"row block {index}"
    block = computed(block, name)
    if sp.issparse(block):
        return _Block(_as_csr(block, name), None, None)
    frame = as_frame(block, name)
    columns = column_labels(block, frame) if is_labelled(frame) and hasattr(frame, "columns") else None
    for found, wanted in zip(columns or (), expected or (), strict=False):
        if found != wanted:
            raise InvalidInputError(
                f"{name} has the column {one_line(found, 60)!r} where the first block has {one_line(wanted, 60)!r}; "
                "give all blocks the same columns in the same order"
            )
    matrix = as_array(frame, name)
    if matrix.ndim != 2:
        raise InvalidInputError(f"{name} must be two-dimensional, got shape {matrix.shape}")
    labels = frame.index if is_labelled(frame) and hasattr(frame, "index") else None
    return _Block(matrix, columns, labels)


def add_names(source: Source, labels: Any, row: int, count: int) -> None:
    """Add the names of ``count`` rows from ``row`` on, unless these and all rows before them are only counted."""
    if source.row_names is None and (labels is None or counted_from(labels) in (0, row)):
        return
    names = source.row_names if isinstance(source.row_names, NameSpool) else NameSpool()
    for start, stop in row_slices(row - len(names), 1, _NAMES_AT_ONCE):  # of the rows before the first label
        names.extend(map(str, range(start, stop)))
    names.extend(map(str, range(row, row + count) if labels is None else labels))
    source.row_names = names


def counted_from(labels: Any) -> int | None:
    """The first label of a pandas index that only counts (a range with steps of 1; 0 if it is empty), else None."""
    if len(labels) == 0:
        return 0
    is_range = type(labels).__name__ == "RangeIndex" and (labels.step == 1 or len(labels) == 1)
    return int(labels[0]) if is_range else None


@contextlib.contextmanager
def spooled(stream: Any, size: int, dtype: Any, max_bytes: int) -> Iterator[Callable[[int, int], NDArray[Any]]]:
    """Random access to the ``size`` entries of a stream through a temporary file: ``read(first, count)``."""
    with scratch_file() as file:
        left = size
        while left > 0:
            piece = stream.read(min(left, max(1, max_bytes // dtype.itemsize)))
            if piece.size == 0:
                break
            file.write(np.ascontiguousarray(piece, dtype).view(np.uint8).data)
            left -= piece.size
        if left > 0:
            raise StoreError(f"{stream.place} is truncated: {left} of {size} entries are missing")
        if left < 0 or stream.read(1).size:
            raise StoreError(f"{stream.place} holds more than the {size} entries of its shape")
        yield functools.partial(read_at, file, 0, dtype)


def read_at(file: IO[bytes], offset: int, dtype: Any, first: int, count: int) -> NDArray[Any]:
    file.seek(offset + first * dtype.itemsize)
    return np.frombuffer(file.read(count * dtype.itemsize), dtype)


def spooled_columns(stream: Any, shape: tuple[int, int], dtype: Any, max_bytes: int) -> Iterator[NDArray[Any]]:
    """Row blocks of a column-major stream, through a temporary file."""
    with spooled(stream, shape[0] * shape[1], dtype, max_bytes) as read:
        yield from rows_of_columns(read, shape, dtype, max_bytes)


def rows_of_columns(
    read: Callable[[int, int], NDArray[Any]], shape: tuple[int, int], dtype: Any, max_bytes: int
) -> Iterator[NDArray[Any]]:
    """Row blocks of a column-major array, with one read per column and block."""
    m, n = shape
    for start, stop in row_slices(m, n * dtype.itemsize, max_bytes):
        block = np.empty((stop - start, n), dtype)
        for j in range(n):
            block[:, j] = read(j * m + start, stop - start)
        yield block
