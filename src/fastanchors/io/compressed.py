"""Read sparse matrices stored as three arrays (CSR, CSC, COO), piece by piece, from memory or from files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._validate import check_extent
from ..errors import StoreError
from .row_grouper import RowGrouper
from .row_source import Source, reading

__all__ = ["Reader", "SliceReader", "compressed_source", "coo_source"]

_PIECE = 1 << 18  # entries processed at a time when regrouping
_INT32 = np.iinfo(np.int32).max


class Reader(Protocol):
    """A one-dimensional array that is read sequentially."""

    def read(self, count: int) -> NDArray[Any]:
        """The next ``count`` elements, or fewer at the end."""
        ...


class SliceReader:
    """Reads anything that can be sliced: an array, a memory map, an HDF5 data set."""

    def __init__(self, array: Any) -> None:
        self.array, self.at = array, 0

    def read(self, count: int) -> NDArray[Any]:
        piece = np.asarray(self.array[self.at : self.at + count])
        self.at += piece.size
        return piece


def compressed_source(
    name: str,
    shape: tuple[int, int],
    dtype: Any,
    open_readers: Callable[[], tuple[Reader, Reader, Reader]],
    *,
    entries: int,
    by_column: bool = False,
    **names: Any,
) -> Source:
    """A CSR (or, ``by_column``, CSC) matrix; ``open_readers`` returns new readers of indptr, indices and data.

    ``entries`` is the number of entries, to refuse shapes that cannot be right. CSR is streamed; CSC entries are
    regrouped by rows through temporary files.
    """
    m, n = (int(shape[0]), int(shape[1]))
    check_extent((m, n), entries, name)

    def rows(max_bytes: int) -> Iterator[sp.csr_array]:
        for _, block in _major_blocks(name, m, n, open_readers, max_bytes):
            yield block

    def columns(max_bytes: int) -> Iterator[sp.csr_array]:
        grouper = RowGrouper(m, n, dtype, max_bytes, name=name)
        try:
            for first, block in _major_blocks(name, n, m, open_readers, max_bytes // 8):
                column = first + np.repeat(np.arange(block.shape[0]), np.diff(block.indptr))
                for at in range(0, block.nnz, _PIECE):
                    piece = slice(at, at + _PIECE)
                    grouper.add(block.indices[piece], column[piece], block.data[piece])
            yield from grouper.blocks()
        finally:
            grouper.close()

    return Source(name, (m, n), dtype, True, columns if by_column else rows, **names)


def _major_blocks(
    name: str, major: int, minor: int, open_readers: Callable[[], tuple[Reader, Reader, Reader]], max_bytes: int
) -> Iterator[tuple[int, sp.csr_array]]:
    """(first major index, block) of a compressed matrix, in order, each at most about ``max_bytes``."""
    pointers, indices, data = open_readers()
    last = int(_take(pointers, 1, name, "indptr")[0])
    if last != 0:
        raise StoreError(f"{name}: indptr starts with {last}, not 0")
    entry_bytes = 16
    first = 0
    ends = np.empty(0, dtype=np.int64)  # ends of segments that were read but not yet yielded
    while first < major:
        if ends.size == 0:
            ends = _take(pointers, min(major - first, max(1, max_bytes // 32)), name, "indptr").astype(np.int64)
            if np.any(np.diff(ends, prepend=last) < 0):
                raise StoreError(f"{name}: indptr decreases near segment {first}")
        weight = entry_bytes * (ends - last) + 16 * np.arange(1, ends.size + 1)
        count = max(1, int(np.searchsorted(weight, max_bytes, side="right")))
        entries = int(ends[count - 1]) - last
        index = _take(indices, entries, name, "indices")
        if entries and (int(index.min()) < 0 or int(index.max()) >= minor):
            raise StoreError(f"{name}: an index near segment {first} is outside 0 … {minor - 1}")
        block_ends = np.concatenate(([0], ends[:count] - last))
        if entries <= _INT32 and index.dtype == np.int32:  # else SciPy would convert the indices to int64
            block_ends = block_ends.astype(np.int32)
        block = sp.csr_array((_take(data, entries, name, "data"), index, block_ends), shape=(count, minor))
        yield first, block
        first += count
        last = int(ends[count - 1])
        ends = ends[count:]
    _check_end((pointers, indices, data), name)


def coo_source(
    name: str,
    shape: tuple[int, int],
    dtype: Any,
    open_readers: Callable[[], tuple[Reader, Reader, Reader]],
    *,
    entries: int,
    **names: Any,
) -> Source:
    """A matrix of ``entries`` triplets; ``open_readers`` returns new readers of 0-based rows, columns, and values."""
    m, n = (int(shape[0]), int(shape[1]))
    check_extent((m, n), entries, name)

    def blocks(max_bytes: int) -> Iterator[sp.csr_array]:
        grouper = RowGrouper(m, n, dtype, max_bytes, name=name)
        readers = open_readers()
        try:
            while True:
                with reading(name):
                    rows, columns, values = (reader.read(_PIECE) for reader in readers)
                if not rows.size == columns.size == values.size:
                    raise StoreError(f"{name}: rows, columns and values have different lengths")
                if rows.size == 0:
                    break
                check_triplets(rows, columns, (m, n), name)
                grouper.add(rows, columns, values)
            yield from grouper.blocks()
        finally:
            grouper.close()

    return Source(name, (m, n), dtype, True, blocks, **names)


def check_triplets(rows: NDArray[Any], columns: NDArray[Any], shape: tuple[int, int], name: str) -> None:
    """Raise if a 0-based index is outside the shape."""
    for what, index, length in (("row", rows, shape[0]), ("column", columns, shape[1])):
        if index.dtype.kind not in "iu":
            raise StoreError(f"{name}: {what} indices must be whole numbers, got {index.dtype}")
        if index.size and (index.min() < 0 or index.max() >= length):
            bad = int(index.min() if index.min() < 0 else index.max())
            raise StoreError(f"{name}: {what} index {bad} is outside 0 … {length - 1}")


def _take(reader: Reader, count: int, name: str, what: str) -> NDArray[Any]:
    with reading(name):
        piece = reader.read(count)
    if piece.ndim != 1 or piece.size != count:
        raise StoreError(f"{name}: {what} is truncated ({piece.size} of {count} elements left)")
    if what != "data" and piece.dtype.kind not in "iu":
        raise StoreError(f"{name}: {what} must hold whole numbers, got {piece.dtype}")
    return piece


def _check_end(readers: tuple[Reader, ...], name: str) -> None:
    """Raise if an array has data after its last row."""
    for what, reader in zip(("indptr", "indices", "data"), readers, strict=True):
        with reading(name):
            more = reader.read(1).size
        if more:
            raise StoreError(f"{name}: {what} holds more than the {'shape' if what == 'indptr' else 'indptr'} says")
