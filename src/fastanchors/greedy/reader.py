"""Read rows for the engine: squared norms in a first pass, then projections of chosen rows.

Rows of an array or a CSR matrix in memory are read in place, in their own type: single precision (and integers that fit
into it) is multiplied in single precision, with a bound of the rounding error. Any other matrix is read through its
contract, so that the work is done where its rows are stored. Results depend on blocks and number of threads only within
that bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._parallel import map_ranges, one_blas_thread
from .._validate import check_finite
from ..errors import InvalidInputError
from ..matrix import ArrayMatrix, MeteredMatrix, RowMatrix
from ..matrix.contract import DOUBLE, SINGLE, Rows, SampleAccess, dense
from ..matrix.metered import RoomExceeded

__all__ = ["DOUBLE", "SINGLE", "Reader", "row_sums_of_squares", "too_large"]

_BLOCK = 1 << 17  # entries read together: they stay in the cache
_PRODUCTS = 1_000_000  # products of a block with all directions: below this OpenBLAS uses a fast path
_WORTH_THREADS = 1 << 24  # smallest number of entries for which threads pay off
_DENSE_ENOUGH = 0.2  # if at least this fraction of a range of rows is wanted, all of it is multiplied, to save a copy
_FEW = 64  # up to this many rows of a store are multiplied directly, without threads
_COPY_SHARE = 0.5  # of the memory for rows, if that is limited
_TINY = 1 << 16  # arrays up to this many entries are converted to double precision once, which is cheapest
_SINGLE_RANGE = (1e-18, 1e30)  # largest squared norms for which single precision neither overflows nor underflows
_SUM_RANGE = (1e-12, 1e15)  # rows with sums in this range are divided by them after the products, not before
_VANISHING = 1e-290  # squared norms below this lose digits
_FLOAT32_EXACT = (np.float32, np.uint8, np.int8, np.uint16, np.int16)  # types that single precision holds exactly
_ALL = slice(None)

_Look = Callable[[Rows, slice, Any], None]  # a block of rows, their place in the result, and which of them


def too_large(row: int) -> InvalidInputError:
    """The error for a row whose squared norm overflows, with advice."""
    return InvalidInputError(f"the squared norm of A[{row}] overflows; divide A by its largest entry")


class Reader:
    """The rows of a matrix as the engine sees them.

    Parameters
    ----------
    data : RowMatrix
        Any matrix. Unchecked entries of a matrix in memory are checked in the first pass.
    squared_norms : ndarray or None
        Given if the caller knows them to double precision.

    Attributes
    ----------
    squared_norms : ndarray
        Squared norms of all rows, with relative error ``norm_error``.
    largest : float
        An upper bound of the largest norm.
    single : bool
        Whether products in single precision are useful.
    sparse : bool
        Whether rows are sparse.
    terms : int
        The largest number of products summed in one A_(i)·q; its rounding error grows with it.
    per_row : int
        Average number of entries of a row.
    looks : int
        Number of row updates so far, without the first pass.
    """

    def __init__(self, data: RowMatrix, squared_norms: NDArray[np.float64] | None = None) -> None:
        self.data = data
        self.shape = data.shape
        self._meter = data if isinstance(data, MeteredMatrix) and data.budget is not None else None
        inner = data.matrix if isinstance(data, MeteredMatrix) else data
        self._memory = inner if isinstance(inner, ArrayMatrix) else None
        self._matrix: Any = None if self._memory is None else self._memory.data
        self.sparse, self.nnz, self.terms = data.is_sparse, data.nnz, data.terms
        self.per_row = max(1, self.nnz // self.shape[0]) if self.sparse else self.shape[1]
        self.single = data.in_process and data.dtype.type in _FLOAT32_EXACT
        if self.single and self.nnz <= _TINY:
            self._matrix, self.single = None if self._matrix is None else _double(self._matrix), False
        # Stored norms of rows, from before a view rounds them, are accurate enough for single precision.
        self._kept = inner if isinstance(inner, SampleAccess) and inner.rounded else None
        self.looks = 0
        if squared_norms is None:
            self.squared_norms, self.norm_error = self._first_look()
        else:
            self.squared_norms, self.norm_error = squared_norms, (self.terms + 2) * DOUBLE
        self._within_range()

    def _first_look(self) -> tuple[NDArray[np.float64], float]:
        """Compute squared norms and check the entries in one pass."""
        m = self.shape[0]
        if self._memory is None:
            if self.single and self._kept is not None:
                return np.asarray(self._kept.row_norm(np.arange(m))) ** 2, (self.terms + 4) * SINGLE
            return self.data.squared_norms(), (self.terms + 2) * DOUBLE
        self._charge(m)
        squares = np.empty(m)
        checked = self._memory.checked

        def look(block: Rows, place: slice, _: Any) -> None:
            found = _squares(block if self.single else _double(block))
            squares[place] = found
            # NaN and infinite entries are visible in the squares.
            if not checked and not (_nonnegative(block) and np.isfinite(found.max())):
                check_finite(block, first_row=place.start)

        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            self._in_blocks(look, None)
        return squares, (self.terms + 2) * (SINGLE if self.single else DOUBLE)

    def _within_range(self) -> None:
        """Switch to double precision if the squares exceed the single range; raise if they exceed the double range."""
        largest = float(self.squared_norms.max())
        if self.single and not _SINGLE_RANGE[0] < largest < _SINGLE_RANGE[1]:
            self.single = False
            self.squared_norms, self.norm_error = self._first_look()
            largest = float(self.squared_norms.max())
        if not math.isfinite(largest):
            raise too_large(int(np.argmax(self.squared_norms)))
        if largest < _VANISHING and self.data.row_sums().any():
            raise InvalidInputError("the squares of A underflow; divide A by its largest entry")
        self.largest = math.sqrt(largest * (1 + self.norm_error))

    # --- rows themselves -------------------------------------------------------------------------------------------

    def rows(self, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Those rows, dense, in double precision."""
        return dense(self.raw(rows))

    def raw(self, rows: NDArray[np.intp], *, single: bool = False) -> Rows:
        """Those rows in double or single precision; sparse rows stay sparse."""
        if self._matrix is None:
            found = self.data.rows(rows)
        else:
            self._charge(rows.size)
            found = self._matrix[rows] if self.sparse else self._matrix.take(rows, axis=0)
        return found.astype(np.float32 if single else np.float64, copy=False)

    def fits(self, rows: NDArray[np.intp]) -> bool:
        """Whether there is memory for a copy of those rows and its squares, if memory is limited."""
        data = self.data
        return not isinstance(data, MeteredMatrix) or data.fitting(rows, share=_COPY_SHARE) == rows.size

    def check_room(self, rows: int) -> None:
        """Raise if there is no memory to compare that many rows, if memory is limited."""
        if isinstance(self.data, MeteredMatrix) and rows > self.data.most_compared():
            raise RoomExceeded(f"there is no memory to compare {rows} rows")

    def row(self, index: int) -> NDArray[np.float64]:
        """One row, dense, in double precision."""
        if self._matrix is None or self.sparse:
            return self.rows(np.array([index]))[0]
        self._charge(1)
        return np.array(self._matrix[index], dtype=np.float64)

    # --- projections -----------------------------------------------------------------------------------------------

    def quiet_blas(self) -> AbstractContextManager[None]:
        """A context in which BLAS uses one thread: for thin products its threads mostly wait for each other."""
        return one_blas_thread() if self.nnz > _TINY else nullcontext()

    @property
    def in_memory(self) -> bool:
        """Whether rows are read in place."""
        return self._memory is not None

    @property
    def at_hand(self) -> bool:
        """Whether reading all rows costs little more than the products."""
        return self._memory is not None or self.data.at_hand

    def project_all(self, q: NDArray[np.float64], *, single: bool = False) -> NDArray[Any]:
        """a·q for every row, in double or single precision."""
        matrix = self._matrix
        wanted = np.dtype(np.float32 if single else np.float64)
        if matrix is None or matrix.dtype != wanted or self.nnz > _WORTH_THREADS:
            return self.project(None, q[None], single=single)[:, 0]
        self._count(self.shape[0])
        return np.asarray(matrix @ q.astype(wanted, copy=False))

    def project(
        self, rows: NDArray[np.intp] | None, directions: NDArray[np.float64], *, single: bool
    ) -> NDArray[np.float64]:
        """a·q for the rows (sorted; None for all) and each direction: rows × directions."""
        if self._matrix is None:
            self.looks += self.shape[0] if rows is None else rows.size
            if rows is None:
                return self.data.dot(np.ascontiguousarray(directions.T))
            return self.data.project(rows.astype(np.int64, copy=False), directions)
        result = np.empty((self.shape[0] if rows is None else rows.size, len(directions)))
        Q = _columns(directions, single)

        def look(block: Rows, place: slice, pick: Any) -> None:
            result[place] = ((block if single else _double(block)) @ Q)[pick]

        self._count(len(result))
        self._in_blocks(look, rows, len(directions))
        return result

    def removed(
        self, rows: NDArray[np.intp] | None, directions: NDArray[np.float64], *, single: bool
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Squared norms of the rows (sorted; None for all), and squared lengths of their projections on the span.

        In single precision the norms are those of the first pass and must not be modified.
        """
        if self._matrix is None:
            return self._removed_elsewhere(rows, directions, single)
        count = self.shape[0] if rows is None else rows.size
        squares = self._known_squares(rows) if single else np.empty(count)
        removed: NDArray[Any] = np.empty(count, dtype=np.float32 if single else np.float64)
        Q = _columns(directions, single)
        Q = Q[:, 0] if len(directions) == 1 else Q

        def look(block: Rows, place: slice, pick: Any) -> None:
            if not single:
                block = _double(block)
                squares[place] = _squares(block)[pick]
            found = row_sums_of_squares(block @ Q)
            removed[place] = found if pick is _ALL else found[pick]

        self._count(count)
        self._in_blocks(look, rows, len(directions))
        return squares, removed

    def _known_squares(self, rows: NDArray[np.intp] | None) -> NDArray[np.float64]:
        return self.squared_norms if rows is None else self.squared_norms[rows]

    def _removed_elsewhere(
        self, rows: NDArray[np.intp] | None, directions: NDArray[np.float64], single: bool
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The same through the contract: in one pass if all rows are wanted."""
        self.looks += self.shape[0] if rows is None else rows.size
        Q = _columns(directions, single)
        if rows is None:
            found = self.data.map_stored(_removed_of_stored, Q) if single else self.data.map_blocks(_removed, Q)
        elif rows.size <= _FEW and self.data.in_process and self.fits(rows):  # too few for threads
            found = [_removed(None, self.data.rows(rows), Q)]
        else:
            found = self.data.map_rows(_removed, rows.astype(np.int64, copy=False), Q)
        if not found:
            return np.zeros(0), np.zeros(0)
        squares, removed = np.concatenate(found, axis=1)
        return self._known_squares(rows) if single else squares, removed

    # --- blocks of a matrix in memory ------------------------------------------------------------------------------

    def _charge(self, rows: int) -> None:
        """Count rows that are read, within the budget."""
        if self._meter is not None:
            self._meter.check(rows)
        assert self._memory is not None
        self._memory.cost.rows_read += rows

    def _count(self, rows: int) -> None:
        self._charge(rows)
        self.looks += rows

    def _in_blocks(self, look: _Look, rows: NDArray[np.intp] | None, directions: int = 0) -> None:
        """``look(block, place, pick)`` over blocks: ``block[pick]`` are the rows at ``place`` of ``rows``.

        Ranges of rows are used in place if enough of their rows are wanted; otherwise the rows are copied.
        """
        matrix = self._matrix
        count = self.shape[0] if rows is None else rows.size
        step = max(1, min(_BLOCK, _PRODUCTS // max(1, directions)) // self.per_row)
        if rows is not None:  # so that the range that contains them is no larger
            step = max(1, int(step * max(_DENSE_ENOUGH, count / self.shape[0])))

        def work(place: slice) -> None:
            if rows is None:
                look(_range(matrix, place.start, place.stop), place, _ALL)
                return
            here = rows[place]
            first, last = int(here[0]), int(here[-1]) + 1
            if last - first == here.size:
                look(_range(matrix, first, last), place, _ALL)
            elif _DENSE_ENOUGH * (last - first) <= here.size:
                look(_range(matrix, first, last), place, here - first)
            else:
                look(matrix[here] if self.sparse else matrix.take(here, axis=0), place, _ALL)

        def some(low: int, high: int) -> None:
            for start in range(low * step, min(high * step, count), step):
                work(slice(start, min(start + step, count)))

        blocks = -(-count // step)
        if count * self.per_row >= _WORTH_THREADS:
            map_ranges(some, blocks)
        else:
            some(0, blocks)


def _removed(_: Any, block: Rows, Q: NDArray[Any]) -> NDArray[np.float64]:
    """Squared norms (in double precision only) and squared lengths of projections of a block, wherever it is stored."""
    m, n = block.shape
    found = np.zeros((2, m))
    per_row = max(1, block.nnz // max(1, m)) if sp.issparse(block) else n
    step = max(1, min(_BLOCK, _PRODUCTS // max(1, Q.shape[1])) // per_row)
    for start in range(0, m, step):
        place = slice(start, min(start + step, m))
        part = _range(block, place.start, place.stop).astype(Q.dtype, copy=False)
        if Q.dtype == np.float64:
            found[0, place] = _squares(part)
        found[1, place] = row_sums_of_squares(part @ (Q[:, 0] if Q.shape[1] == 1 else Q))
    return found


def _removed_of_stored(_: Any, block: Rows, sums: NDArray[np.float64] | None, Q: NDArray[Any]) -> NDArray[np.float64]:
    """The same for rows as they are stored, in single precision."""
    if sums is None:
        return _removed(None, block, Q)
    by = np.where(sums > 0, sums, 1.0)
    if not _SUM_RANGE[0] < by.min(initial=1.0) <= by.max(initial=1.0) < _SUM_RANGE[1]:
        return _removed(None, (block / by[:, None]).astype(np.float32), Q)
    found = _removed(None, block, Q)
    found[1] /= by**2
    return found


def row_sums_of_squares(products: NDArray[Any]) -> NDArray[Any]:
    """The sum of squares of each short row; squares in place, and adds by BLAS, which is faster than NumPy."""
    products *= products
    return products if products.ndim == 1 else products @ np.ones(products.shape[1], dtype=products.dtype)


def _range(matrix: Any, first: int, last: int) -> Rows:
    """A range of rows without a copy of its entries, also for a CSR matrix."""
    if not sp.issparse(matrix):
        return matrix[first:last]
    if first == 0 and last == matrix.shape[0]:
        return matrix
    ends = matrix.indptr[first : last + 1]
    entries = slice(ends[0], ends[-1])
    part = sp.csr_array((last - first, matrix.shape[1]), dtype=matrix.dtype)
    part.data, part.indices, part.indptr = matrix.data[entries], matrix.indices[entries], ends - ends[0]
    return part


def _columns(directions: NDArray[np.float64], single: bool) -> NDArray[Any]:
    return np.ascontiguousarray(directions.T, dtype=np.float32 if single else np.float64)


def _double(block: Rows) -> Rows:
    return block.astype(np.float64, copy=False)


def _nonnegative(block: Rows) -> bool:
    values = block.data if sp.issparse(block) else block
    return values.dtype.kind == "u" or values.size == 0 or bool(values.min() >= 0)


def _squares(block: Rows) -> NDArray[Any]:
    """‖a‖² of every row, in the precision of its type (single for small integers)."""
    if not sp.issparse(block):
        if block.dtype.kind != "f":
            block = block.astype(np.float32)
        return np.asarray(np.vecdot(block, block) if block.shape[1] > 64 else np.einsum("ij,ij->i", block, block))
    values = block.data if block.dtype.kind == "f" else block.data.astype(np.float32)
    result = np.zeros(block.shape[0], dtype=values.dtype)
    filled = np.flatnonzero(np.diff(block.indptr))
    if filled.size:
        result[filled] = np.add.reduceat(values * values, block.indptr[filled])
    return result
