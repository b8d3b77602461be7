"""A separable matrix of any number of rows in a few megabytes, with exact sample access.

Most rows repeat a table of mixtures of k anchors; each anchor occurs once, at a random place. Norms, probabilities and
entries are exact, so an algorithm that sees the matrix through sample access alone cannot tell it from one that is
held whole: what it draws and what it pays are the same. That makes 10⁷, or 10¹², rows affordable.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastanchors import SampleAccess
from fastanchors.matrix.cost import Cost


class ImplicitSeparable(SampleAccess):
    """m × n, row sums 1: k anchors, once each; the other rows repeat ``mixtures`` Dirichlet(1) mixtures of them."""

    shape: tuple[int, int] = (0, 0)
    is_sparse = False
    dtype = np.dtype(np.float64)
    cost = Cost()

    def __init__(self, m: int, n: int, k: int, *, mixtures: int = 2000, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        anchors = rng.dirichlet(np.full(n, 0.3), size=k)
        self.mixtures = min(mixtures, m - k)
        self.table = np.vstack([anchors, rng.dirichlet(np.ones(k), size=self.mixtures) @ anchors])
        self.anchors = np.sort(rng.choice(m, size=k, replace=False))
        self.shape = (m, n)
        self.cost = Cost()
        places = (m - np.arange(self.mixtures) + self.mixtures - 1) // self.mixtures
        places -= np.bincount(self.anchors % self.mixtures, minlength=self.mixtures)
        self.counts = np.concatenate([np.ones(k), places])
        self._squares = self.table**2
        self._in_row = np.cumsum(self._squares, axis=1)
        self._in_column = np.cumsum(self.counts[:, None] * self._squares, axis=0)
        self._rows = np.cumsum(self.counts * self._in_row[:, -1])

    @property
    def nnz(self) -> int:
        return int((self.counts * np.count_nonzero(self.table, axis=1)).sum())

    @property
    def frobenius_norm(self) -> float:
        return float(np.sqrt(self._rows[-1]))

    @property
    def singular_values(self) -> NDArray[np.float64]:
        """Exact, from AᵀA; those of the k-dimensional row space."""
        weighted = np.sqrt(self.counts)[:, None] * self.table
        return np.linalg.svd(weighted, compute_uv=False)[: len(self.anchors)]

    def kind(self, i: ArrayLike) -> NDArray[np.intp]:
        """Which row of the table row ``i`` is."""
        i = np.asarray(i)
        at = np.minimum(np.searchsorted(self.anchors, i), len(self.anchors) - 1)
        return np.where(self.anchors[at] == i, at, len(self.anchors) + i % self.mixtures)

    def _place(self, kinds: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.intp]:
        """A uniformly random row of each kind."""
        k, m = len(self.anchors), self.shape[0]
        result = self.anchors[np.minimum(kinds, k - 1)].copy()
        open_ = np.flatnonzero(kinds >= k)
        while open_.size:
            residue = kinds[open_] - k
            repeats = (m - residue + self.mixtures - 1) // self.mixtures
            drawn = residue + self.mixtures * (rng.random(open_.size) * repeats).astype(np.intp)
            result[open_] = drawn
            open_ = open_[np.isin(drawn, self.anchors)]
        return result

    def __getitem__(self, index: tuple[Any, Any]) -> Any:
        self.cost.queries += np.broadcast(*index).size
        return self.table[self.kind(index[0]), index[1]]

    def row_norm(self, i: ArrayLike) -> Any:
        self.cost.queries += np.size(i)
        return np.sqrt(self._in_row[self.kind(i), -1])

    def column_norm(self, j: ArrayLike) -> Any:
        self.cost.queries += np.size(j)
        return np.sqrt(self._in_column[-1, j])

    def sample_rows(self, size: int | None = None, *, rng: Any = None) -> Any:
        rng = np.random.default_rng(rng)
        count = 1 if size is None else size
        self.cost.samples += count
        kinds = np.searchsorted(self._rows, rng.random(count) * self._rows[-1], side="right")
        drawn = self._place(np.minimum(kinds, len(self.table) - 1), rng)
        return int(drawn[0]) if size is None else drawn

    def sample_columns(self, size: int | None = None, *, rng: Any = None) -> Any:
        self.cost.samples += 1 if size is None else size
        return np.random.default_rng(rng).choice(self.shape[1], size, p=self._in_column[-1] / self._rows[-1])

    def sample_in_row(self, i: ArrayLike, size: int | None = None, *, rng: Any = None) -> Any:
        rng = np.random.default_rng(rng)
        cumulative = self._in_row[self.kind(i)]
        u = rng.random(np.shape(i) + ((1,) if size is None else (size,)))
        self.cost.samples += u.size
        drawn = (cumulative[..., None, :] <= u[..., None] * cumulative[..., None, -1:]).sum(axis=-1)
        drawn = np.minimum(drawn, self.shape[1] - 1)
        return drawn[..., 0] if size is None else drawn

    def sample_in_column(self, j: ArrayLike, size: int | None = None, *, rng: Any = None) -> Any:
        rng = np.random.default_rng(rng)
        j = np.asarray(j)
        u = rng.random(j.shape + ((1,) if size is None else (size,)))
        self.cost.samples += u.size
        flat, kinds = np.broadcast_to(j[..., None], u.shape).ravel(), np.empty(u.size, dtype=np.intp)
        for column in np.unique(flat):
            mine = flat == column
            cumulative = self._in_column[:, column]
            kinds[mine] = np.searchsorted(cumulative, u.ravel()[mine] * cumulative[-1], side="right")
        drawn = self._place(np.minimum(kinds, len(self.table) - 1), rng).reshape(u.shape)
        return drawn[..., 0] if size is None else drawn

    def rows(self, indices: ArrayLike) -> NDArray[np.float64]:
        self.cost.rows_read += np.size(indices)
        return self.table[self.kind(indices)]

    def blocks(self, block_rows: int | None = None) -> Iterator[tuple[int, NDArray[np.float64]]]:
        step = block_rows or 1 << 16
        for start in range(0, self.shape[0], step):
            yield start, self.rows(np.arange(start, min(start + step, self.shape[0])))
