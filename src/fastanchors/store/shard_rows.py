"""Prepare and write the rows of a shard: validate them, convert them to the type of the store, build their block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._validate import check_finite
from ..errors import InvalidInputError, TooLargeError
from ..io import open_source
from ..io.row_source import Source, rebatch, row_slices
from ..matrix.contract import Rows
from ..sampling.entries import as_values, check_squares
from ..sampling.make_block import make_block
from ..sampling.matrix import SampleMatrix
from ..sampling.row_block import Block
from ..sampling.segment_trees import LEAF, Array
from .arrays_file import write_arrays
from .files import remove_file
from .manifest import Shard
from .names import encode_names
from .sidecars import Sidecar

__all__ = [
    "SMALLEST_LIMIT",
    "block_of",
    "bytes_of_names",
    "check_rows",
    "check_width",
    "new_rows",
    "row_overhead",
    "shard_bytes",
    "shards_at_once",
    "stacked",
    "stored_rows",
    "write_shard",
]

SMALLEST_LIMIT = 1 << 22
# Memory per byte of a shard's rows: while it is built (rows, both sides, trees, temporaries), and while the next one is
# read (the shard, and the buffer of its reader). Under a small limit two are built while one is read.
_MADE, _READ = 5, 2
_MEMORY_PER_BYTE = 2 * _MADE + _READ
# Larger limits do not give larger shards, but more of them at a time, one per thread.
_LARGEST_SHARD = 40 << 20
# Memory that does not depend on the size of a shard: buffers, caches, and overhead of allocators.
_FIXED = 8 << 20
_COLUMN_BYTES = 40  # bytes per column of a sparse matrix: pointers, sums and trees of the two shards being built
# Bytes per row, in terms of the size of its entries: plans multiply these, so they are smaller than what is needed.
_SPARSE_SUMS, _NAME = 32, 32
_SAMPLE = 1000  # names whose length is measured
_SUMS = 96  # bytes of the sums, weights and factors of a row, and of temporary arrays of them
_AT_A_TIME = 1 << 16  # entries that are converted to another type together


def shard_bytes(memory_limit: int, largest: int = _LARGEST_SHARD) -> int:
    """Bytes of rows (as CSR or dense) in a shard under a memory limit; it does not depend on the number of threads."""
    return min(_for_shards(memory_limit) // _MEMORY_PER_BYTE, largest)


def shards_at_once(memory_limit: int, columns: int) -> int:
    """How many shards may be built at a time under a memory limit; ``columns`` is 0 for dense matrices."""
    by_rows = (_for_shards(memory_limit) // shard_bytes(memory_limit) - _READ) // _MADE
    return max(2, min(by_rows, memory_limit // (_COLUMN_BYTES * columns))) if columns else by_rows


def _for_shards(memory_limit: int) -> int:
    return memory_limit - min(memory_limit // 4, _FIXED)


def row_overhead(rows: Any, sidecars: Sequence[Sidecar], name_bytes: int) -> int:
    """Bytes to add to the size of each row of a source or store when rows are divided into shards.

    They are for its sums, what sidecars make of it, and its name. A dense row has none for sums if it is so large that
    they are small compared to it: its entries are in memory twice, with three trees of half a byte per entry.
    """
    n, size = rows.shape[1], rows.dtype.itemsize
    beside = sum(sidecar.row_bytes(n) for sidecar in sidecars)
    if rows.is_sparse:
        return _SPARSE_SUMS + beside // 3 + name_bytes
    needed = 2 * n * size + 3 * n // 2 + _SUMS + beside
    return max(0, -(-needed // _MADE) - n * size) + name_bytes


def bytes_of_names(names: Sequence[str] | None) -> int:
    """Overhead per row of its name: the average length of the first names, if that is long."""
    if names is None:
        return 0
    first = names[:_SAMPLE]
    return max(_NAME, sum(map(len, first)) // max(1, len(first)))


def check_width(source: Source, columns: bool, memory_limit: int) -> None:
    """Raise if a single row, or the column side of a single shard, exceeds the memory limit."""
    n = source.shape[1]
    if source.is_sparse:
        needed, cure = n * (_COLUMN_BYTES if columns else 0), ", or columns=False to omit the column side"
    else:
        needed, cure = n * source.dtype.itemsize * _MEMORY_PER_BYTE, ", or make it sparse"
    needed += min(memory_limit // 4, _FIXED)
    if needed > memory_limit:
        raise TooLargeError(
            f"{source.name} has {n:,} columns: building a shard takes about {needed:,} bytes of memory, memory_limit "
            f"is {memory_limit:,}; pass at least memory_limit={needed}{cure}"
        )


def check_rows(rows: Rows, normalize: str | None, first_row: int, name: str = "A") -> None:
    """Raise on an entry that the sample model does not allow, with source, row and column."""
    check_finite(rows, signed=normalize is None, first_row=first_row, name=name)
    check_squares(rows, first_row=first_row)


def block_of(rows: Rows, normalize: str | None, columns: bool) -> Block:
    """The block of validated rows."""
    block = make_block(rows, l1=normalize == "l1", columns=columns)
    if not (np.isfinite(block.squares(np.arange(rows.shape[0]))).all() and np.isfinite(block.row_total)):
        raise InvalidInputError("the sum of the squares overflows; divide the matrix by its largest entry")
    return block


def stored_rows(block: Block) -> Rows:
    """All rows of a block as stored."""
    return block.rows(np.arange(block.shape[0]), view=False)


def stacked(parts: Sequence[Rows]) -> Rows:
    """Concatenated rows."""
    if len(parts) == 1:
        return parts[0]
    return sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.concatenate(parts)


def new_rows(
    source: Any, store: Any, sidecars: Sequence[Sidecar], options: dict[str, Any]
) -> Iterator[tuple[Rows, Sequence[str] | None]]:
    """Rows to append, in pieces of the size of a shard, validated and converted to the layout of the store."""
    opened = open_source(source, **options)
    if opened.shape[1] != store.shape[1]:
        raise InvalidInputError(f"{opened.name} has {opened.shape[1]} columns, the store has {store.shape[1]}")
    order = _column_order(opened, store)
    first = 0
    size = shard_bytes(store.memory_limit)
    blocks = opened.blocks(size, signed=store.normalize is None, warn_gaps=True)

    def per_row() -> int:  # the names of a stream are known with its first rows
        wider = 0 if store.is_sparse or opened.is_sparse else max(0, store.dtype.itemsize - opened.dtype.itemsize)
        return row_overhead(opened, sidecars, bytes_of_names(opened.row_names)) + wider * store.shape[1]

    for rows in rebatch(blocks, 2 * size, row_bytes=per_row):
        check_rows(rows, store.normalize, first, opened.matrix_name)
        fitted = _fitted(rows if order is None else _reordered(rows, order), store, first)
        start, first = first, first + rows.shape[0]
        names = opened.row_names
        del rows
        yield fitted, (names[start:first] if names is not None else None)
        del fitted  # before the next piece is read


def _column_order(source: Source, store: Any) -> Array | None:
    """For each column of the store the column of the source with that name; None if the order is the same.

    Missing or duplicate names are errors.
    """
    new, known = source.column_names, store.column_names
    if new is None or known is None or all(a == b for a, b in zip(new, known, strict=True)):
        return None
    place = {name: j for j, name in enumerate(new)}
    for name in known:
        if name not in place:
            raise InvalidInputError(
                f"{source.name} has no column {name!r}, but the store has; rename its columns, or pass "
                "column_names=store.column_names if they are in the same order"
            )
    if len(place) < len(new):
        twice = next(name for j, name in enumerate(new) if place[name] != j)
        raise InvalidInputError(f"{source.name}: two columns are named {twice!r}; names must be unique")
    return np.array([place[name] for name in known])


def _reordered(rows: Rows, order: Array) -> Rows:
    """The rows with their columns in the given order; sparse rows stay canonical."""
    if not sp.issparse(rows):
        return np.ascontiguousarray(rows[:, order])
    place = np.empty(order.size, rows.indices.dtype)
    place[order] = np.arange(order.size)
    turned = sp.csr_array((rows.data.copy(), place[rows.indices], rows.indptr), shape=rows.shape)
    turned.sort_indices()  # in place: the entries must not be the caller's
    return turned


def _fitted(rows: Rows, store: SampleMatrix, first: int) -> Rows:
    """The rows converted to sparse or dense and to the type of the store; raises if a value does not fit."""
    if store.is_sparse:
        rows = sp.csr_array(rows)
    elif sp.issparse(rows):
        rows = rows.toarray()
    if rows.dtype == store.dtype:
        return rows
    signed = store.normalize is None
    if store.is_sparse:
        i = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        values = as_values(rows.data, i + first, rows.indices, store.dtype, signed=signed)
        return sp.csr_array((values, rows.indices, rows.indptr), shape=rows.shape)
    fitted = np.empty(rows.shape, store.dtype)
    for start, stop in row_slices(rows.shape[0], rows.shape[1], _AT_A_TIME):  # their places take 16 bytes per entry
        i, j = np.divmod(np.arange((stop - start) * rows.shape[1]), rows.shape[1])
        values = as_values(rows[start:stop].reshape(-1), i + start + first, j, store.dtype, signed=signed)
        fitted[start:stop] = values.reshape(stop - start, -1)
    return fitted


def _without_idle_nodes(arrays: dict[str, Array], shape: tuple[int, int]) -> dict[str, Array]:
    """Drop node arrays that are not used because all rows, or all columns, have at most 32 entries."""
    for name, ends, width in (
        ("row_nodes", "indptr", shape[1]),
        ("l1_nodes", "indptr", shape[1]),
        ("column_nodes", "column_indptr", shape[0]),
    ):
        if name in arrays and (np.diff(arrays[ends]).max() if ends in arrays else width) <= LEAF:
            arrays[name] = arrays[name][:0]
    return arrays


def write_shard(
    folder: Path, number: int, block: Block, names: Sequence[str] | None, sidecars: Sequence[Sidecar], first_row: int
) -> Shard:
    """Write a pristine block, its names and its sidecars as shard ``number``; removes the files if it fails."""
    arrays = _without_idle_nodes(block.arrays(), block.shape)
    if names is not None:
        arrays |= encode_names(names)
    shard = Shard(block.shape[0], write_arrays(folder / f"shard-{number:06d}.bin", arrays))
    try:
        for sidecar in sidecars:
            arrays = dict(sidecar.add_block(block, first_row))
            if arrays:
                file = folder / f"shard-{number:06d}.{sidecar.name}.bin"
                shard.extras[sidecar.name] = write_arrays(file, arrays, durable=not sidecar.temporary)
    except BaseException:
        for description in shard.files():
            remove_file(folder / description["file"])
        raise
    return shard
