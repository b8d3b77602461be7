"""What FAS() takes besides matrices in memory: files, read in one pass or through a store made for the purpose."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import weakref
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._jit import jit
from .._validate import as_matrix, check_finite
from ..errors import InvalidTypeError
from ..io import Source, open_source
from ..io.addresses import path_of
from ..io.numpy_files import map_npy
from ..io.row_source import block_bytes, split
from ..matrix.contract import Rows
from ..matrix.cost import Cost
from ..solvers._rows import MatrixRows, as_rows

__all__ = ["Beginning", "rows_of"]

_LARGEST = np.finfo(np.float64).max
_IN_MEMORY = 1 << 30  # bytes of a file that is read into memory; a larger one is streamed or built into a store
_PIECES = 8  # of a budget that a file is read in; none is begun that might exceed it
_SMALLEST_ROW = 8  # bytes of a sparse row without entries


def rows_of(A: Any, *, one_pass: bool, small: int, budget: int | None = None) -> MatrixRows:
    """The rows of an array, a sparse matrix, a sample matrix, a store, a source, or a path to a store or a file.

    With ``one_pass`` a dense array of more than ``small`` entries is not looked at before: its entries are checked as
    they are read. With a ``budget`` no more rows of a file are read than that.
    """
    if isinstance(A, str | os.PathLike):
        return _rows_of_path(path_of(A), one_pass, small, budget)
    if isinstance(A, Source):
        return _rows_of_source(A, budget)
    if isinstance(A, Iterator):
        raise InvalidTypeError(
            "A is an iterator, which can be read only once; build a store of its row blocks with "
            "fa.build(blocks, folder) and seek on that"
        )
    if one_pass and (isinstance(A, np.ndarray) or sp.issparse(A)):
        return _Unchecked(as_matrix(A, finite=False))
    data = as_rows(A)
    if data.row_names is None and hasattr(A, "to_numpy") and hasattr(A, "index"):  # a data frame
        named = A.index.dtype.kind not in "iu"  # numbers are where a row is, not what it is called
        data.row_names = A.index if named else None
    return data


def _rows_of_path(path: Any, one_pass: bool, small: int, budget: int | None) -> MatrixRows:
    if isinstance(path, Path) and (path / "manifest.json").exists():
        from ..store.store import open as open_store

        return as_rows(open_store(path))
    if isinstance(path, Path) and path.suffix == ".npy" and path.is_file():
        array = map_npy(path)
        if array.ndim == 2 and array.flags.c_contiguous and array.dtype.kind in "iuf":
            at_once = budget is None and not (one_pass and array.size > small)
            array = as_matrix(np.asarray(array), finite=at_once)
            data = MatrixRows(array, array.shape) if at_once else _Unchecked(array)
            data.how = "streamed from the file"
            return data
    return _rows_of_source(open_source(path if isinstance(path, Path) else str(path)), budget)


def _rows_of_source(source: Source, budget: int | None) -> MatrixRows:
    """In memory, as far as the budget goes; or in a temporary store, where there are too many for memory.

    Most files can only be read from their beginning. A format with blocks of its own, such as Parquet, may give more
    rows at a time than were asked for: those beyond the budget are not looked at.
    """
    fits = budget is None or (source.shape[0] is not None and source.shape[0] <= budget)
    most = sys.maxsize if budget is None or fits else budget
    row = _SMALLEST_ROW if source.is_sparse else source.dtype.itemsize * source.shape[1]
    blocks = source.blocks(min(1 << 26, max(1, most // _PIECES) * row))
    held: deque[Rows] = deque()
    rows, size, largest = 0, 0, 1
    while rows + largest <= most:
        block = next(blocks, None)
        if block is None:
            return _Held(_joined(held, source), source)
        held.append(block)
        rows, size, largest = rows + block.shape[0], size + block_bytes(block), max(largest, block.shape[0])
        if size > _IN_MEMORY:
            if fits:
                return _built(source, held, blocks)
            break
    return Beginning(_joined(held, source)[:most], source)


def _joined(held: deque[Rows], source: Source) -> Rows:
    whole = sp.vstack(held, format="csr") if source.is_sparse else np.concatenate(held)
    held.clear()
    return as_matrix(whole, name=source.matrix_name)


def _built(source: Source, held: deque[Rows], rest: Iterator[Rows]) -> MatrixRows:
    """A file too large to hold, and not to be read at random: a store in a temporary place, gone with the result.

    What was read of it already is built first and let go, so that the file is read once.
    """
    from .stores import build

    def blocks(max_bytes: int) -> Iterator[Rows]:
        while held:
            yield from split(held.popleft(), max_bytes)
        for block in rest:
            yield from split(block, max_bytes)

    names = {"row_names": source.row_names, "column_names": source.column_names}
    again = Source(source.name, source.shape, source.dtype, source.is_sparse, blocks, **names)
    place = tempfile.mkdtemp(prefix="fastanchors-")
    try:
        store = build(again, Path(place) / "store", normalize=None, columns=False)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    weakref.finalize(store, shutil.rmtree, place, ignore_errors=True)
    data = as_rows(store)
    data.how = "built into a temporary store"
    data.charge(store.shape[0])
    return data


class _Held(MatrixRows):
    """The rows of a file that was read into memory: read once, whatever is done with them there."""

    how = "read into memory"

    def __init__(self, matrix: Rows, source: Source) -> None:
        super().__init__(matrix, matrix.shape)
        self.row_names = source.row_names

    @property
    def cost(self) -> Cost:
        return Cost(rows_read=self.shape[0])

    @property
    def left(self) -> int:
        return sys.maxsize

    def spend(self, rows: int) -> None:
        """They are read already."""


class Beginning(_Held):
    """The first rows of a file that can only be read from its beginning: all that a budget allows."""

    def __init__(self, matrix: Rows, source: Source) -> None:
        super().__init__(matrix, source)
        self.whole_shape = (source.shape[0] or sys.maxsize, source.shape[1])


class _Unchecked(MatrixRows):
    """A matrix whose entries are checked when they are read: rows at once, blocks of a pass by :meth:`check`."""

    checked = False

    def __init__(self, matrix: Rows) -> None:
        super().__init__(matrix, matrix.shape)

    def raw_rows(self, indices: Any) -> Rows:
        rows = super().raw_rows(indices)
        values = rows.data if sp.issparse(rows) else rows
        low, high = values.min(initial=0), values.max(initial=0)
        if not (low >= 0 and np.isfinite(high)):
            check_finite(self.source)  # says where
        return rows

    def check(self, start: int, block: Rows) -> None:
        if sp.issparse(block) or _suspicious(block):
            check_finite(block, first_row=start)


@jit
def _suspicious(A: Any) -> bool:
    """Whether an entry is negative, infinite or NaN; written so that it compiles to vector instructions."""
    bad = 0
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            bad |= (not A[i, j] >= 0) | (not A[i, j] <= _LARGEST)
    return bad != 0
