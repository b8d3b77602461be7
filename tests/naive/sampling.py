"""The sample model with a dense array and ``Generator.choice``; every sum is recomputed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fastanchors import SampleAccess
from fastanchors.matrix.cost import Cost


class NaiveSampleMatrix(SampleAccess):
    """Implements :class:`fastanchors.SampleAccess` on a dense copy of the matrix."""

    is_sparse = False
    dtype = np.dtype(np.float64)
    normalize: Any = None
    cost = Cost()

    def __init__(self, A: Any, normalize: str | None = "l1") -> None:
        dense = A.toarray() if hasattr(A, "toarray") else A
        self.stored = np.array(dense, dtype=np.float64)
        self.normalize = normalize
        self.cost = Cost()

    @property
    def view(self) -> np.ndarray:
        if self.normalize is None:
            return self.stored
        l1 = np.abs(self.stored).sum(axis=1, keepdims=True)
        return np.divide(self.stored, l1, out=np.zeros_like(self.stored), where=l1 > 0)

    @property
    def shape(self) -> tuple[int, int]:
        return self.stored.shape

    @property
    def nnz(self) -> int:
        return int(np.count_nonzero(self.stored))

    @property
    def frobenius_norm(self) -> float:
        return float(np.linalg.norm(self.view))

    def __getitem__(self, index: tuple[Any, Any]) -> Any:
        self.cost.queries += int(np.broadcast(*index).size)
        return self.view[index]

    def __setitem__(self, index: tuple[Any, Any], value: Any) -> None:
        self.stored[index] = value

    def raw(self, i: Any, j: Any) -> Any:
        return self.stored[i, j]

    def update(self, rows: ArrayLike, columns: ArrayLike, values: ArrayLike) -> None:
        for i, j, x in zip(*np.broadcast_arrays(rows, columns, values)):
            self.stored[i, j] = x

    def add(self, rows: ArrayLike, columns: ArrayLike, deltas: ArrayLike) -> None:
        for i, j, x in zip(*np.broadcast_arrays(rows, columns, deltas)):
            self.stored[i, j] += x

    def row_norm(self, i: ArrayLike) -> Any:
        self.cost.queries += np.size(i)
        return np.linalg.norm(self.view, axis=1)[i]

    def column_norm(self, j: ArrayLike) -> Any:
        self.cost.queries += np.size(j)
        return np.linalg.norm(self.view, axis=0)[j]

    def sample_rows(self, size: int | None = None, *, rng: Any = None) -> Any:
        return self._draw((self.view**2).sum(axis=1), size, rng)

    def sample_columns(self, size: int | None = None, *, rng: Any = None) -> Any:
        return self._draw((self.view**2).sum(axis=0), size, rng)

    def sample_in_row(self, i: ArrayLike, size: int | None = None, *, rng: Any = None) -> Any:
        return self._draw_each(self.view, i, size, rng)

    def sample_in_column(self, j: ArrayLike, size: int | None = None, *, rng: Any = None) -> Any:
        return self._draw_each(self.view.T, j, size, rng)

    def _draw_each(self, matrix: np.ndarray, which: ArrayLike, size: int | None, rng: Any) -> Any:
        rng = np.random.default_rng(rng)
        which = np.asarray(which)
        tail = () if size is None else (size,)
        drawn = [self._draw(matrix[w] ** 2, size, rng) for w in which.reshape(-1)]
        result = np.array(drawn, dtype=np.intp).reshape(which.shape + tail)
        return int(result) if result.ndim == 0 else result

    def _draw(self, weights: np.ndarray, size: int | None, rng: Any) -> Any:
        self.cost.samples += 1 if size is None else size
        return np.random.default_rng(rng).choice(len(weights), size, p=weights / weights.sum())

    def rows(self, indices: ArrayLike) -> np.ndarray:
        self.cost.rows_read += np.size(indices)
        return self.view[np.asarray(indices)]

    def blocks(self, block_rows: int | None = None) -> Iterator[tuple[int, np.ndarray]]:
        step = block_rows or 1024
        for start in range(0, self.shape[0], step):
            block = self.view[start : start + step]
            self.cost.rows_read += len(block)
            yield start, block
