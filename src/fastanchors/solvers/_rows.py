"""One way to read rows for every solver, whatever the matrix is held in.

A dense array and a SciPy sparse matrix are taken as they stand; an object with sample access (``SampleMatrix``,
a store) as its view shows it. Sparse rows stay sparse. Reads are counted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from .._jit import jit
from .._parallel import threads_allowed
from ..matrix.array import ArrayMatrix
from ..matrix.contract import RowMatrix, Rows, SampleAccess
from ..matrix.cost import Cost
from ..matrix.door import open_matrix
from ..matrix.metered import BudgetExceeded, MeteredMatrix

__all__ = ["DOUBLE", "SINGLE", "BudgetSpent", "MatrixRows", "as_rows", "in_threads", "row_matrix"]

_BLOCK_BYTES = 1 << 25  # a block of rows converted to float64 at a time
_CACHE_BYTES = 1 << 20  # the same where the block is only passed through once: it stays in the cache
_WORTH_THREADS = 1 << 18  # entries above which a pass is worth starting threads for
_THREADS = min(4, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)

#: unit roundoff of single and of double precision
SINGLE = 2.0**-24
DOUBLE = 2.0**-53


BudgetSpent = BudgetExceeded


def as_rows(A: Any) -> MatrixRows:
    """The rows of ``A``, whatever :func:`fastanchors.open_matrix` opens. Checks non-negativity."""
    if isinstance(A, MatrixRows):
        return A
    if isinstance(A, MeteredMatrix):
        A = A.matrix
    if isinstance(A, ArrayMatrix):
        data = MatrixRows(A.data, A.shape)
        data._own_cost, data.row_names = A.cost, A.row_names
        return data
    if isinstance(A, RowMatrix):
        return MatrixRows(A, A.shape)
    return as_rows(open_matrix(A))


def row_matrix(data: MatrixRows) -> RowMatrix:
    """The same rows by the contract of :class:`RowMatrix`, with the same counters and budget."""
    matrix = data.source if isinstance(data.source, RowMatrix) else _SharedCost(data)
    return matrix if data.limit is None else MeteredMatrix(matrix, budget=data.left)


class _SharedCost(ArrayMatrix):
    """The array behind some rows, counted with them."""

    def __init__(self, data: MatrixRows) -> None:
        super().__init__(data.source, row_names=data.row_names, checked=data.checked)
        self._cost = data._own_cost


class MatrixRows:
    """Rows of a matrix with counted reads. All values leave here in float64.

    ``how`` says how the rows are come by where that is worth saying, ``row_names`` names them where the source does
    not. Where a ``limit`` is set, no more rows than that are ever read: what would exceed it raises
    :class:`BudgetSpent` beforehand, a pass before its first block.
    """

    how: str | None = None
    limit: int | None = None
    row_names: Any = None
    checked: bool = True  # whether the entries are known to be finite and not negative

    def __init__(self, source: Any, shape: tuple[int, int]) -> None:
        self.source = source
        self.shape = shape
        self._contract = isinstance(source, RowMatrix)
        self._sampled = isinstance(source, SampleAccess)
        self._sparse = sp.issparse(source)
        self._own_cost = Cost()
        self._start = source.cost.copy() if self._contract else Cost()

    @property
    def cost(self) -> Cost:
        """Sample access used through this object since it was made."""
        return self.source.cost - self._start if self._contract else self._own_cost.copy()

    def charge(self, rows: int) -> None:
        """Count rows that were read on the way to this object, such as those of a file built into a store."""
        if self._contract:
            self._start.rows_read -= rows
        else:
            self._own_cost.rows_read += rows

    @property
    def left(self) -> int:
        """How many rows may still be read."""
        return sys.maxsize if self.limit is None else max(0, self.limit - self.cost.rows_read)

    def spend(self, rows: int) -> None:
        """Raise where so many rows may not be read any more."""
        if self.limit is not None and rows > self.left:
            raise BudgetSpent

    @property
    def names(self) -> Any:
        """Names of the rows, where the source has any."""
        return getattr(self.source, "row_names", self.row_names)

    @property
    def sampled(self) -> bool:
        """Whether the source offers sample access."""
        return self._sampled

    @property
    def terms(self) -> int:
        """The largest number of products that one A_(i)·q sums: what its rounding error grows with."""
        return int(np.diff(self.source.indptr).max()) if self._sparse else self.shape[1]

    def rows(self, indices: ArrayLike) -> NDArray[np.float64]:
        """Those rows, dense, in that order."""
        block = self.raw_rows(indices)
        return np.asarray(block.toarray() if sp.issparse(block) else block, dtype=np.float64)

    def raw_rows(self, indices: ArrayLike) -> Rows:
        """Those rows in the type they are held in, sparse ones sparse."""
        indices = np.asarray(indices, dtype=np.intp)
        self.spend(indices.size)
        if self._contract:
            return self.source.rows(indices)
        self._own_cost.rows_read += indices.size
        return self.source[indices]

    def row_chunks(self, indices: NDArray[np.intp]) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Those rows, dense, a bounded number at a time: (their place in ``indices``, the rows)."""
        step = max(1, _BLOCK_BYTES // (8 * self.shape[1]))
        for start in range(0, indices.size, step):
            place = slice(start, min(start + step, indices.size))
            yield place, self.rows(indices[place])

    def raw_blocks(self, step: int) -> Iterator[tuple[int, Rows]]:
        """One pass in order, about ``step`` rows at a time, in the type they are held in: (first row, block)."""
        self.spend(self.shape[0])
        if self._contract:
            yield from self.source.blocks(step)
            return
        for start in range(0, self.shape[0], step):
            block = self.source[start : start + step]
            self._own_cost.rows_read += block.shape[0]
            yield start, block

    def check(self, start: int, block: Rows) -> None:
        """Raise where a block of :meth:`raw_blocks` holds what no solver takes; here it was checked before."""

    def blocks(self, *, nbytes: int = _BLOCK_BYTES) -> Iterator[tuple[int, Rows]]:
        """One pass in order: (first row, block), each block a float64 array or float64 CSR."""
        m, n = self.shape
        self.spend(m)
        if self._contract:
            for start, block in self.source.blocks():
                yield start, block.astype(np.float64, copy=False)
            return
        per_row = 16 * max(1, self.source.nnz // m) if self._sparse else 8 * n
        step = max(1, nbytes // per_row)
        for start in range(0, m, step):
            block = self.source[start : start + step]
            self._own_cost.rows_read += block.shape[0]
            yield start, block.astype(np.float64, copy=False)

    def dot(self, V: NDArray[np.float64]) -> NDArray[np.float64]:
        """A·V for a dense n×d matrix (or a vector) V, in one pass."""
        if self._contract:
            self.spend(self.shape[0])
            return self.source.dot(V)
        result = np.empty((self.shape[0], *V.shape[1:]))
        for start, block in self.blocks():
            result[start : start + block.shape[0]] = block @ V
        return result

    def transposed_dot(self, U: NDArray[np.float64]) -> NDArray[np.float64]:
        """Aᵀ·U for a dense m×d matrix U, in one pass."""
        if self._contract:
            self.spend(self.shape[0])
            return self.source.transposed_dot(U)
        result = np.zeros((self.shape[1], U.shape[1]))
        for start, block in self.blocks():
            result += block.T @ U[start : start + block.shape[0]]
        return result

    def project(self, q: NDArray[np.float64]) -> NDArray[np.float64]:
        """A·q in one pass at the speed of the memory: in double precision, without a copy of the matrix.

        For row i, |error| ≤ (terms + 2)·DOUBLE·‖A_(i)‖·‖q‖, in whatever order the products are summed.
        """
        if self._contract:
            return self.dot(q)
        self.spend(self.shape[0])
        self._own_cost.rows_read += self.shape[0]
        if not self._sparse and self.source.dtype == np.float64:
            return np.asarray(self.source @ q)
        result = np.empty(self.shape[0])
        A = self.source
        if self._sparse:

            def work(low: int, high: int) -> None:
                _csr_project(A.indptr, A.indices, A.data, q, low, high, result)
        else:

            def work(low: int, high: int) -> None:
                _dense_project(A, q, low, high, result)

        in_threads(work, self.shape[0], A.nnz if self._sparse else A.size)
        return result

    def squared_norms(self) -> NDArray[np.float64]:
        """‖A_(i)‖² for every row."""
        if self._contract:
            if not self.source.norms_known:
                self.spend(self.shape[0])
            return self.source.squared_norms()
        result = np.empty(self.shape[0])
        if self._sparse:
            self.spend(self.shape[0])
            self._own_cost.rows_read += self.shape[0]
            _csr_squared_norms(self.source.indptr, self.source.data, result)
            return result
        for start, block in self.blocks(nbytes=_CACHE_BYTES):
            part = result[start : start + block.shape[0]]
            if sp.issparse(block):
                _csr_squared_norms(block.indptr, block.data, part)
            else:
                part[:] = np.einsum("ij,ij->i", block, block)
        return result


def in_threads(work: Callable[[int, int], None], m: int, size: int) -> None:
    """``work(low, high)`` over m rows, each row as it would be alone; a job of small ``size`` stays in this thread."""
    if size < _WORTH_THREADS or _THREADS == 1 or not threads_allowed():
        work(0, m)
        return
    bounds = np.linspace(0, m, _THREADS + 1).astype(int)
    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(work, bounds[:-1], bounds[1:]))


@jit
def _dense_project(A: NDArray[Any], q: NDArray[np.float64], low: int, high: int, result: NDArray[np.float64]) -> None:
    """Entries are widened one by one in registers; eight sums in flight hide the latency of the additions."""
    n = A.shape[1]
    whole = n - n % 8
    for i in range(low, high):
        a = b = c = d = e = f = g = h = 0.0
        for j in range(0, whole, 8):
            a += np.float64(A[i, j]) * q[j]
            b += np.float64(A[i, j + 1]) * q[j + 1]
            c += np.float64(A[i, j + 2]) * q[j + 2]
            d += np.float64(A[i, j + 3]) * q[j + 3]
            e += np.float64(A[i, j + 4]) * q[j + 4]
            f += np.float64(A[i, j + 5]) * q[j + 5]
            g += np.float64(A[i, j + 6]) * q[j + 6]
            h += np.float64(A[i, j + 7]) * q[j + 7]
        total = ((a + b) + (c + d)) + ((e + f) + (g + h))
        for j in range(whole, n):
            total += np.float64(A[i, j]) * q[j]
        result[i] = total


@jit
def _csr_project(
    indptr: NDArray[Any],
    indices: NDArray[Any],
    data: NDArray[Any],
    q: NDArray[np.float64],
    low: int,
    high: int,
    result: NDArray[np.float64],
) -> None:
    for i in range(low, high):
        total = 0.0
        for at in range(indptr[i], indptr[i + 1]):
            total += np.float64(data[at]) * q[indices[at]]
        result[i] = total


@jit
def _csr_squared_norms(indptr: NDArray[Any], data: NDArray[Any], result: NDArray[np.float64]) -> None:
    for i in range(result.size):
        total = 0.0
        for at in range(indptr[i], indptr[i + 1]):
            value = np.float64(data[at])
            total += value * value
        result[i] = total
