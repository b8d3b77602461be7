"""Sample access to the co-occurrence of words, computed from the document-word matrix and never formed.

Q_vw counts how often two different tokens of a document are the words v and w. For counts H (documents × words) with
lengths n, following Arora et al. (*A practical algorithm for topic modeling with provable guarantees*, ICML 2013),

    Q = H̃ᵀ·H̃ − diag(Σ_d Ĥ_d),    H̃_d = H_d / √(n_d − 1),    Ĥ_d = H_d / (n_d − 1):

the second term removes the pairs of a token with itself; otherwise every word would co-occur most with itself. The row
sums s are the counts of the words. The paper divides by n_d once more, so that all documents have the same weight. Here
all tokens have the same weight; otherwise notes of ten words would dominate the rows of most words. Either is unbiased
for its own mixture of documents. The data points are the rows Q_w/s_w, the distributions of co-occurring words.

For usual vocabularies, Q with its V × V numbers does not fit in memory; H does. A product costs two products with H. A
row costs as many operations as its documents have words. Only a few rows are held at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from .._cached import cached
from .._rng import RngLike, as_generator
from .._validate import as_matrix, check_index
from ..errors import InvalidInputError
from ..matrix.contract import SampleAccess
from ..matrix.cost import Cost
from ._counts import check_whole

__all__ = ["Cooccurrence"]

_BLOCK_BYTES = 1 << 25


class Cooccurrence(SampleAccess):
    """The rows Q_w/s_w of the ``words`` given (by default every word that has a row), as an object with sample access.

    Documents with fewer than two tokens have no co-occurrence and are left out. Memory: two copies of the
    counts in float64, and one block of rows at a time.
    """

    def __init__(self, counts: Any, words: ArrayLike | None = None) -> None:
        H = check_whole(sp.csr_array(as_matrix(counts, name="counts"))).astype(np.float64)
        lengths = H.sum(axis=1)
        H, lengths = H[lengths >= 2], lengths[lengths >= 2]
        if H.shape[0] == 0:
            raise InvalidInputError("no document has two words or more: there is no co-occurrence")
        sums = np.asarray(H.sum(axis=0))
        if words is None:
            words = np.flatnonzero(sums > 0)
        self.words = check_index(words, H.shape[1], name="word")
        if np.any(sums[self.words] == 0):
            missing = int(self.words[np.argmax(sums[self.words] == 0)])
            raise InvalidInputError(f"word {missing} occurs in no document of two words or more: it has no row")
        self.word_probability: NDArray[np.float64] = sums / sums.sum()
        self._diagonal = (H.T @ (1 / (lengths - 1)))[self.words]
        self._sums = sums[self.words]
        self._H = sp.csr_array(sp.diags_array(1 / np.sqrt(lengths - 1)) @ H)
        self._C = sp.csr_array(self._H[:, self.words].T)
        self.cost = Cost()

    cost: Cost = Cost()
    is_sparse = True
    dtype = np.dtype(np.float64)

    @property
    def shape(self) -> tuple[int, int]:
        return self.words.size, self._H.shape[1]

    # --- products that solvers need -----------------------------------------------------------------------------------

    def dot(self, V: NDArray[np.float64]) -> NDArray[np.float64]:
        """Q̄·V by two sparse products."""
        scale = self._column(self._sums, V)
        return np.asarray((self._C @ (self._H @ V) - self._column(self._diagonal, V) * V[self.words]) / scale)

    def transposed_dot(self, U: NDArray[np.float64]) -> NDArray[np.float64]:
        """Q̄ᵀ·U by two sparse products."""
        U = U / self._column(self._sums, U)
        result = np.asarray(self._H.T @ (self._C.T @ U))
        np.subtract.at(result, self.words, self._column(self._diagonal, U) * U)
        return result

    @staticmethod
    def _column(values: NDArray[np.float64], like: NDArray[np.float64]) -> NDArray[np.float64]:
        return values.reshape(-1, *[1] * (like.ndim - 1))

    # --- rows ---------------------------------------------------------------------------------------------------------

    def rows(self, indices: ArrayLike) -> sp.csr_array:
        """The given rows, sparse."""
        at = check_index(indices, self.shape[0], name="row").reshape(-1)
        self.cost.rows_read += at.size
        block = self._C[at] @ self._H
        own = (self._diagonal[at], (np.arange(at.size), self.words[at]))
        block = sp.csr_array(block - sp.csr_array(own, shape=block.shape))
        block.data /= np.repeat(self._sums[at], np.diff(block.indptr))
        np.maximum(block.data, 0.0, out=block.data)  # h² − h is 0 up to rounding if all counts h of a word are 1
        return block

    def blocks(self, block_rows: int | None = None) -> Iterator[tuple[int, sp.csr_array]]:
        """All rows in order, a bounded number at a time."""
        step = max(1, min(block_rows or self.shape[0], _BLOCK_BYTES // (16 * self.shape[1])))
        for start in range(0, self.shape[0], step):
            yield start, self.rows(np.arange(start, min(start + step, self.shape[0])))

    @cached
    def _norms(self) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
        """Squared norms of rows and of columns, and the number of non-zeros, from one pass over all rows."""
        squared_rows, squared_columns, entries = np.empty(self.shape[0]), np.zeros(self.shape[1]), 0
        for start, block in self.blocks():
            squares = block.power(2)
            squared_rows[start : start + block.shape[0]] = squares.sum(axis=1)
            squared_columns += squares.sum(axis=0)
            entries += int(np.count_nonzero(block.data))
        return squared_rows, squared_columns, entries

    # --- the rest of the sample model ---------------------------------------------------------------------------------

    @property
    def nnz(self) -> int:
        return self._norms[2]

    @property
    def frobenius_norm(self) -> float:
        return float(np.sqrt(self._norms[0].sum()))

    def __getitem__(self, index: tuple[Any, Any]) -> Any:
        i, j = np.broadcast_arrays(
            check_index(index[0], self.shape[0], name="row"), check_index(index[1], self.shape[1], name="column")
        )
        self.cost.queries += i.size
        flat, back = np.unique(i.reshape(-1), return_inverse=True)
        values = np.asarray(self.rows(flat)[back, j.reshape(-1)]).reshape(i.shape)
        return values if values.ndim else float(values)

    def row_norm(self, i: ArrayLike) -> Any:
        return self._norm(self._norms[0], check_index(i, self.shape[0], name="row"))

    def column_norm(self, j: ArrayLike) -> Any:
        return self._norm(self._norms[1], check_index(j, self.shape[1], name="column"))

    def _norm(self, squares: NDArray[np.float64], at: NDArray[np.intp]) -> Any:
        self.cost.queries += at.size
        norms = np.sqrt(squares[at])
        return norms if norms.ndim else float(norms)

    def sample_rows(self, size: int | None = None, *, rng: RngLike = None) -> Any:
        return self._draw(self._norms[0], size, as_generator(rng))

    def sample_columns(self, size: int | None = None, *, rng: RngLike = None) -> Any:
        return self._draw(self._norms[1], size, as_generator(rng))

    def sample_in_row(self, i: ArrayLike, size: int | None = None, *, rng: RngLike = None) -> Any:
        return self._draw_in(i, size, rng, self.shape[0], lambda at: self.rows([at]).toarray()[0])

    def sample_in_column(self, j: ArrayLike, size: int | None = None, *, rng: RngLike = None) -> Any:
        return self._draw_in(j, size, rng, self.shape[1], self._whole_column)

    def _whole_column(self, j: int) -> NDArray[np.float64]:
        unit = np.zeros(self.shape[1])
        unit[j] = 1.0
        return np.maximum(self.dot(unit), 0.0)

    def _draw(self, weights: NDArray[np.float64], size: int | None, rng: np.random.Generator) -> Any:
        cumulative = np.cumsum(weights)
        if cumulative[-1] <= 0:
            raise InvalidInputError("every entry of the matrix is zero: there is nothing to sample from")
        drawn = np.searchsorted(cumulative, rng.random(size) * cumulative[-1], side="right")
        self.cost.samples += np.size(drawn)
        return int(drawn) if size is None else drawn.astype(np.intp)

    def _draw_in(self, index: ArrayLike, size: int | None, rng: RngLike, length: int, line: Any) -> Any:
        generator = as_generator(rng)
        at = check_index(index, length, name="index")
        drawn = np.array([self._draw(line(int(i)) ** 2, size, generator) for i in at.reshape(-1)], dtype=np.intp)
        drawn = drawn.reshape(at.shape if size is None else (*at.shape, size))
        return int(drawn) if drawn.ndim == 0 else drawn
