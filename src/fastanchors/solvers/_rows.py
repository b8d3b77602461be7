"""One way to read rows for every solver, whatever the matrix is held in.

A dense array and a SciPy sparse matrix are taken as they stand; an object with sample access (``SampleMatrix``,
a store) as its view shows it. Sparse rows stay sparse. Reads are counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from .._jit import jit
from .._validate import as_matrix
from ..sampling.access import Rows, SampleAccess
from ..sampling.cost import Cost

__all__ = ["DOUBLE", "SINGLE", "MatrixRows", "as_rows"]

_BLOCK_BYTES = 1 << 25  # a block of rows converted to float64 at a time
_CACHE_BYTES = 1 << 20  # the same where the block is only passed through once: it stays in the cache

#: unit roundoff of single and of double precision
SINGLE = 2.0**-24
DOUBLE = 2.0**-53


def as_rows(A: Any) -> MatrixRows:
    """The rows of ``A``: an array, a sparse matrix, or anything with sample access. Checks non-negativity."""
    if isinstance(A, MatrixRows):
        return A
    if isinstance(A, SampleAccess):
        return MatrixRows(A, A.shape)
    matrix = as_matrix(A)
    return MatrixRows(matrix, matrix.shape)


class MatrixRows:
    """Rows of a matrix with counted reads. All values leave here in float64."""

    def __init__(self, source: Any, shape: tuple[int, int]) -> None:
        self.source = source
        self.shape = shape
        self._sampled = isinstance(source, SampleAccess)
        self._sparse = sp.issparse(source)
        self._own_cost = Cost()
        self._start = source.cost.copy() if self._sampled else Cost()

    @property
    def cost(self) -> Cost:
        """Sample access used through this object since it was made."""
        return self.source.cost - self._start if self._sampled else self._own_cost.copy()

    @property
    def names(self) -> Any:
        """Names of the rows, where the source has any."""
        return getattr(self.source, "row_names", None)

    @property
    def terms(self) -> int:
        """The largest number of products that one A_(i)·q sums: what its rounding error grows with."""
        return int(np.diff(self.source.indptr).max()) if self._sparse else self.shape[1]

    @property
    def roundoff(self) -> float:
        """Unit roundoff of :meth:`project`: single precision for dense values that float32 holds exactly."""
        if self._sampled or self._sparse:
            return DOUBLE
        dtype = self.source.dtype
        exact_in_single = dtype.itemsize <= (4 if dtype.kind == "f" else 2)
        return SINGLE if exact_in_single else DOUBLE

    def rows(self, indices: ArrayLike) -> NDArray[np.float64]:
        """Those rows, dense, in that order."""
        indices = np.asarray(indices, dtype=np.intp)
        if self._sampled:
            block = self.source.rows(indices)
        else:
            self._own_cost.rows_read += indices.size
            block = self.source[indices]
        return np.asarray(block.toarray() if sp.issparse(block) else block, dtype=np.float64)

    def row_chunks(self, indices: NDArray[np.intp]) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Those rows, dense, a bounded number at a time: (their place in ``indices``, the rows)."""
        step = max(1, _BLOCK_BYTES // (8 * self.shape[1]))
        for start in range(0, indices.size, step):
            place = slice(start, min(start + step, indices.size))
            yield place, self.rows(indices[place])

    def blocks(self, *, nbytes: int = _BLOCK_BYTES) -> Iterator[tuple[int, Rows]]:
        """One pass in order: (first row, block), each block a float64 array or float64 CSR."""
        m, n = self.shape
        if self._sampled:
            for start, block in self.source.row_blocks():
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
        result = np.empty((self.shape[0], *V.shape[1:]))
        for start, block in self.blocks():
            result[start : start + block.shape[0]] = block @ V
        return result

    def transposed_dot(self, U: NDArray[np.float64]) -> NDArray[np.float64]:
        """Aᵀ·U for a dense m×d matrix U, in one pass."""
        result = np.zeros((self.shape[1], U.shape[1]))
        for start, block in self.blocks():
            result += block.T @ U[start : start + block.shape[0]]
        return result

    def project(self, q: NDArray[np.float64], *, double: bool = False) -> NDArray[np.float64]:
        """A·q in one pass, at the speed of the memory: no copy of the matrix is made.

        Computed with unit roundoff :attr:`roundoff`, so |error| ≤ (terms + 2)·roundoff·‖A_(i)‖·‖q‖ for row i;
        ``double`` asks for double precision whatever the matrix is held in.
        """
        if self._sparse:
            self._own_cost.rows_read += self.shape[0]
            result = np.empty(self.shape[0])
            _csr_project(self.source.indptr, self.source.indices, self.source.data, q, result)
            return result
        if self._sampled or (double and self.source.dtype != np.float64):
            return self.dot(q)
        single = self.roundoff == SINGLE
        q = q.astype(np.float32) if single else q
        if self.source.dtype == q.dtype:
            self._own_cost.rows_read += self.shape[0]
            return np.asarray(self.source @ q, dtype=np.float64)
        return self._project_integers(q)

    def _project_integers(self, q: NDArray[Any]) -> NDArray[np.float64]:
        m, n = self.shape
        self._own_cost.rows_read += m
        result = np.empty(m)
        step = max(1, _CACHE_BYTES // (q.itemsize * n))
        for start in range(0, m, step):
            result[start : start + step] = self.source[start : start + step].astype(q.dtype) @ q
        return result

    def squared_norms(self) -> NDArray[np.float64]:
        """‖A_(i)‖² for every row."""
        if self._sampled:
            return np.asarray(self.source.row_norm(np.arange(self.shape[0]))) ** 2
        result = np.empty(self.shape[0])
        if self._sparse:
            self._own_cost.rows_read += self.shape[0]
            _csr_squared_norms(self.source.indptr, self.source.data, result)
            return result
        for start, block in self.blocks(nbytes=_CACHE_BYTES):
            result[start : start + block.shape[0]] = np.einsum("ij,ij->i", block, block)
        return result


@jit
def _csr_project(
    indptr: NDArray[Any], indices: NDArray[Any], data: NDArray[Any], q: NDArray[np.float64], result: NDArray[np.float64]
) -> None:
    for i in range(result.size):
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
