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

from .._validate import as_matrix
from ..sampling.access import Rows, SampleAccess
from ..sampling.cost import Cost

__all__ = ["MatrixRows", "as_rows"]

_BLOCK_BYTES = 1 << 25  # a block of rows converted to float64 at a time


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

    def rows(self, indices: ArrayLike) -> NDArray[np.float64]:
        """Those rows, dense, in that order."""
        indices = np.asarray(indices, dtype=np.intp)
        if self._sampled:
            block = self.source.rows(indices)
        else:
            self._own_cost.rows_read += indices.size
            block = self.source[indices]
        return np.asarray(block.toarray() if sp.issparse(block) else block, dtype=np.float64)

    def blocks(self) -> Iterator[tuple[int, Rows]]:
        """One pass in order: (first row, block), each block a float64 array or float64 CSR."""
        m, n = self.shape
        if self._sampled:
            for start, block in self.source.row_blocks():
                yield start, block.astype(np.float64, copy=False)
            return
        if sp.issparse(self.source):
            per_row = 16 * max(1, self.source.nnz // m)
        else:
            per_row = 8 * n
        step = max(1, _BLOCK_BYTES // per_row)
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

    def squared_norms(self) -> NDArray[np.float64]:
        """‖A_(i)‖² for every row."""
        if self._sampled:
            return np.asarray(self.source.row_norm(np.arange(self.shape[0]))) ** 2
        result = np.empty(self.shape[0])
        for start, block in self.blocks():
            stop = start + block.shape[0]
            if sp.issparse(block):
                result[start:stop] = block.multiply(block).sum(axis=1)
            else:
                result[start:stop] = np.einsum("ij,ij->i", block, block)
        return result
