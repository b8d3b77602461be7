"""Count the reads of one seek, and enforce its budget."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .array import LoadedMatrix
from .contract import RowMatrix, Rows, SampleAccess
from .cost import Cost

__all__ = ["BudgetExceeded", "MeteredMatrix", "RoomExceeded"]

_Result = TypeVar("_Result")


class BudgetExceeded(Exception):
    """A read would go beyond the budget; nothing of it was read."""


class RoomExceeded(BudgetExceeded):
    """Rows to compare would take more memory than allowed; none of them was read."""


class MeteredMatrix(RowMatrix):
    """The rows of ``matrix`` with counters that start at zero.

    Parameters
    ----------
    matrix : RowMatrix
        The matrix to read.
    budget : int or None
        The largest number of rows to read. A read or pass that would exceed it raises :class:`BudgetExceeded` before
        it starts.
    """

    def __init__(self, matrix: RowMatrix, budget: int | None = None) -> None:
        self.matrix = matrix
        self.budget = None if isinstance(matrix, LoadedMatrix) else budget  # rows in memory were read on opening
        self.row_names, self.column_names = matrix.row_names, matrix.column_names
        self.provenance = matrix.provenance
        self._start = matrix.cost.copy()
        self._start.rows_read -= matrix.rows_read_on_opening

    def reading(self) -> AbstractContextManager[None]:
        return self.matrix.reading()

    def check_entries(self, *, signed: bool = False, name: str = "A") -> None:
        self.matrix.check_entries(signed=signed, name=name)

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.matrix.dtype

    @property
    def is_sparse(self) -> bool:
        return self.matrix.is_sparse

    @property
    def normalize(self) -> Literal["l1"] | None:
        return self.matrix.normalize

    @property
    def in_process(self) -> bool:
        return self.matrix.in_process

    @property
    def at_hand(self) -> bool:
        return self.matrix.at_hand

    @property
    def nnz(self) -> int:
        return self.matrix.nnz

    @property
    def terms(self) -> int:
        return self.matrix.terms

    @property
    def norms_known(self) -> bool:
        return self.matrix.norms_known

    def row_entries(self, indices: ArrayLike) -> NDArray[np.int64]:
        return self.matrix.row_entries(indices)

    @property
    def cost(self) -> Cost:
        """Cost since this object was created."""
        return self.matrix.cost - self._start

    @property
    def left(self) -> int:
        """How many rows may still be read; ``sys.maxsize`` without a budget."""
        return sys.maxsize if self.budget is None else max(0, self.budget - self.cost.rows_read)

    @property
    def sampled(self) -> SampleAccess | None:
        """The matrix if it has sample access, else None."""
        return self.matrix if isinstance(self.matrix, SampleAccess) else None

    @property
    def shape_of_source(self) -> tuple[int, int]:
        """The shape of the whole source, of which a budget may have loaded only the first rows."""
        rows = self.matrix.rows_in_file if isinstance(self.matrix, LoadedMatrix) else None
        return (self.shape[0] if rows is None else rows), self.shape[1]

    def check(self, rows: int) -> None:
        """Raise :class:`BudgetExceeded` if ``rows`` more rows would exceed the budget."""
        if self.budget is not None and rows > self.left:
            raise BudgetExceeded(f"{rows} more rows would exceed the budget of {self.budget}")

    def weight(self, rows: NDArray[np.int64]) -> int:
        """Bytes of those rows in memory; 0 if memory is not limited."""
        return 0

    def fitting(self, rows: NDArray[np.int64], held: int = 0, share: float = 1.0) -> int:
        """How many of those rows, from the first on, fit besides ``held`` bytes into a share of the memory for rows."""
        return len(rows)

    def most_compared(self, held: int = 0) -> int:
        """How many rows can be compared, by numbers of each, besides ``held`` bytes; ``sys.maxsize`` for any number."""
        return sys.maxsize

    def default_block_rows(self) -> int:
        return self.matrix.default_block_rows()

    def rows(self, indices: ArrayLike) -> Rows:
        self.check(np.size(indices))
        return self.matrix.rows(indices)

    def blocks(self, block_rows: int | None = None) -> Iterator[tuple[int, Rows]]:
        self.check(self.shape[0])
        return self.matrix.blocks(block_rows)

    def map_blocks(
        self, function: Callable[..., _Result], *shared: Any, block_rows: int | None = None
    ) -> list[_Result]:
        self.check(self.shape[0])
        return self.matrix.map_blocks(function, *shared, block_rows=block_rows)

    def map_stored(
        self, function: Callable[..., _Result], *shared: Any, block_rows: int | None = None
    ) -> list[_Result]:
        self.check(self.shape[0])
        return self.matrix.map_stored(function, *shared, block_rows=block_rows)

    def map_rows(
        self, function: Callable[..., _Result], indices: NDArray[np.int64], *shared: Any, block_rows: int | None = None
    ) -> list[_Result]:
        self.check(len(indices))
        return self.matrix.map_rows(function, indices, *shared, block_rows=block_rows)

    def map_parts(self, function: Callable[..., _Result], *shared: Any) -> list[_Result]:
        self.check(self.shape[0])
        return self.matrix.map_parts(function, *shared)

    def squared_norms(self) -> NDArray[np.float64]:
        if not self.norms_known:
            self.check(self.shape[0])
        return self.matrix.squared_norms()

    def row_sums(self) -> NDArray[np.float64]:
        self.check(self.shape[0])
        return self.matrix.row_sums()

    def dot(self, B: NDArray[np.float64]) -> NDArray[np.float64]:
        self.check(self.shape[0])
        return self.matrix.dot(B)

    def transposed_dot(self, B: NDArray[np.float64]) -> NDArray[np.float64]:
        self.check(self.shape[0])
        return self.matrix.transposed_dot(B)

    def project(self, indices: NDArray[np.int64], Q: NDArray[np.float64]) -> NDArray[np.float64]:
        self.check(np.size(indices))
        return self.matrix.project(indices, Q)
