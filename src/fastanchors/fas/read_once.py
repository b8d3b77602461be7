"""Read the rows of a store without keeping the pages that were read, so that long scans need little memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..matrix import MeteredMatrix, RowMatrix, Rows

__all__ = ["ReadOnce"]

_Result = TypeVar("_Result")


class ReadOnce(MeteredMatrix):
    """A matrix read by :meth:`~fastanchors.RowMatrix.rows_once`. Rows held by other processes are read by those.

    Parameters
    ----------
    matrix : RowMatrix
        The matrix to read.
    most_rows : int or None
        The largest number of rows in a block; None for the default blocks of the matrix.
    """

    def __init__(self, matrix: RowMatrix, most_rows: int | None = None) -> None:
        super().__init__(matrix)
        self._most_rows = most_rows

    def rows(self, indices: ArrayLike) -> Rows:
        return self.matrix.rows_once(indices)

    def blocks(self, block_rows: int | None = None) -> Iterator[tuple[int, Rows]]:
        if self._most_rows is None:
            yield from super().blocks(block_rows)
            return
        step = min(block_rows or self.default_block_rows(), self._most_rows)
        for start in range(0, self.shape[0], step):
            yield start, self.rows(np.arange(start, min(start + step, self.shape[0])))

    def map_blocks(
        self, function: Callable[..., _Result], *shared: Any, block_rows: int | None = None
    ) -> list[_Result]:
        if self._most_rows is None or not self.in_process:
            return super().map_blocks(function, *shared, block_rows=block_rows)
        return RowMatrix.map_blocks(self, function, *shared, block_rows=block_rows)  # by blocks() above

    def map_stored(
        self, function: Callable[..., _Result], *shared: Any, block_rows: int | None = None
    ) -> list[_Result]:
        if self._most_rows is None or not self.in_process:
            return super().map_stored(function, *shared, block_rows=block_rows)
        if self.is_sparse:
            return RowMatrix.map_stored(self, function, *shared, block_rows=block_rows)  # by blocks() above
        step = min(block_rows or self.default_block_rows(), self._most_rows)
        return super().map_stored(function, *shared, block_rows=step)  # without copies

    def map_rows(
        self, function: Callable[..., _Result], indices: NDArray[np.int64], *shared: Any, block_rows: int | None = None
    ) -> list[_Result]:
        if not self.in_process:
            return super().map_rows(function, indices, *shared, block_rows=block_rows)
        return RowMatrix.map_rows(self, function, indices, *shared, block_rows=block_rows)  # by rows() above

    def map_parts(self, function: Callable[..., _Result], *shared: Any) -> list[_Result]:
        if not self.in_process:
            return super().map_parts(function, *shared)
        return RowMatrix.map_parts(self, function, *shared)  # the part is this object
