"""Read the rows of a store without keeping the pages that were read, so that long scans need little memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._parallel import map_ordered
from ..matrix import MeteredMatrix, RowMatrix, Rows

__all__ = ["ReadOnce"]

_Result = TypeVar("_Result")

# Bytes of the room per row that is compared with others: half of its sketch, or a third of the numbers of tied rows.
_COMPARED = 64


class ReadOnce(MeteredMatrix):
    """A matrix read by :meth:`~fastanchors.RowMatrix.rows_once`. Rows held by other processes are read by those.

    Parameters
    ----------
    matrix : RowMatrix
        The matrix to read.
    most_rows : int or None
        The largest number of rows in a block; None for the default blocks of the matrix.
    block_bytes : int or None
        The largest size of a block of several sparse rows, which may differ in length; None for any.
    room : int or None
        Bytes of rows, in double precision, that may be held besides blocks; None for any number.
    """

    def __init__(
        self,
        matrix: RowMatrix,
        most_rows: int | None = None,
        *,
        block_bytes: int | None = None,
        room: int | None = None,
    ) -> None:
        super().__init__(matrix)
        self._most_rows, self._block_bytes, self._room = most_rows, block_bytes, room
        self._entry = 12 if matrix.is_sparse else 8
        if block_bytes is not None and not (matrix.is_sparse and matrix.in_process):
            self._block_bytes = None  # all rows have the same length, or are read elsewhere

    def weight(self, rows: NDArray[np.int64]) -> int:
        return 0 if self._room is None else self._entry * int(self.row_entries(rows).sum())

    def fitting(self, rows: NDArray[np.int64], held: int = 0, share: float = 1.0) -> int:
        if self._room is None:
            return len(rows)
        ends = self._entry * np.cumsum(self.row_entries(rows))
        return int(np.searchsorted(ends, self._room * share - held, side="right"))

    def most_compared(self, held: int = 0) -> int:
        return super().most_compared() if self._room is None else max(0, self._room - held) // _COMPARED

    def rows(self, indices: ArrayLike) -> Rows:
        return self.matrix.rows_once(indices)

    def _parts(self, rows: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Those rows in parts of the size of a block, but of at least one row."""
        if self._block_bytes is None:
            yield rows
            return
        ends = self._entry * np.cumsum(self.row_entries(rows))
        start = 0
        while start < len(rows):
            before = ends[start - 1] if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, before + self._block_bytes, side="right")))
            yield rows[start:stop]
            start = stop

    def blocks(self, block_rows: int | None = None) -> Iterator[tuple[int, Rows]]:
        if self._most_rows is None:
            yield from super().blocks(block_rows)
            return
        step = min(block_rows or self.default_block_rows(), self._most_rows)
        for start in range(0, self.shape[0], step):
            for part in self._parts(np.arange(start, min(start + step, self.shape[0]))):
                yield int(part[0]), self.rows(part)

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
        step = block_rows or self.default_block_rows()
        parts = (part for at in range(0, len(indices), step) for part in self._parts(indices[at : at + step]))
        return map_ordered(lambda some, rows: function(some, rows, *shared), ((p, self.rows(p)) for p in parts))

    def map_parts(self, function: Callable[..., _Result], *shared: Any) -> list[_Result]:
        if not self.in_process:
            return super().map_parts(function, *shared)
        return RowMatrix.map_parts(self, function, *shared)  # the part is this object

    def dot(self, B: NDArray[np.float64]) -> NDArray[np.float64]:
        return super().dot(B) if self._block_bytes is None else RowMatrix.dot(self, B)  # by blocks() above

    def project(self, indices: NDArray[np.int64], Q: NDArray[np.float64]) -> NDArray[np.float64]:
        return super().project(indices, Q) if self._block_bytes is None else RowMatrix.project(self, indices, Q)
