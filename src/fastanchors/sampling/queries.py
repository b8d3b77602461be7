"""Entries, norms and rows of a matrix that consists of blocks of rows.

:class:`Queries` does not depend on where the blocks are. A matrix in memory calls them directly; a matrix on workers
sends messages.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from .._validate import check_index
from ..errors import InvalidInputError, InvalidTypeError
from ..matrix.contract import Rows, SampleAccess, row_sums_of
from .access_guard import reads
from .segment_trees import Array

__all__ = ["BlockTotals", "Queries", "pair"]


class BlockTotals(Protocol):
    """Totals of a block of rows that are known without a call to the block."""

    @property
    def row_total(self) -> float:
        """Sum of the squared row norms."""

    @property
    def column_total(self) -> float:
        """Sum of the weights of the columns."""

    @property
    def has_columns(self) -> bool:
        """Whether it has a column side."""

    @property
    def drifted(self) -> bool:
        """Whether draws from columns need an acceptance test, because rows of an l1 view were updated."""


class Queries(SampleAccess):
    """Queries and norms in terms of abstract methods that call the blocks."""

    _starts: Array  # the first row of each block, and the total number of rows

    @property
    @abstractmethod
    def _blocks(self) -> Sequence[BlockTotals]:
        """The blocks, in order."""

    @abstractmethod
    def _by_row(self, rows: Array, method: str) -> Array:
        """``block.method(rows)`` for these rows, each in its block."""

    @abstractmethod
    def _raw(self, i: Array, j: Array) -> Array:
        """Stored entries."""

    @abstractmethod
    def _gather(self, rows: Array, *, view: bool) -> Rows:
        """These rows, of the view or as stored."""

    @abstractmethod
    def _column_squares(self, columns: Array) -> Array:
        """Squared norms of columns of the view."""

    @reads
    def __getitem__(self, index: tuple[Any, Any]) -> Any:
        """``S[i, j]``: an entry of the view, or an array of entries for broadcast index arrays."""
        i, j, shape = self._places(index)
        self.cost.queries += len(i)
        values = self._raw(i, j)
        if self.normalize is not None:
            l1 = self._by_row(i, "l1_norms")
            values = values / np.where(l1 > 0, l1, 1.0)
        return values[0].item() if shape == () else values.reshape(shape)

    @reads
    def raw(self, i: ArrayLike, j: ArrayLike) -> Any:
        """The stored entry (i, j), or an array of entries for broadcast index arrays."""
        rows, columns, shape = self._places((i, j))
        self.cost.queries += len(rows)
        values = self._raw(rows, columns)
        return values[0].item() if shape == () else values.reshape(shape)

    @property
    @reads
    def frobenius_norm(self) -> float:
        """‖A‖_F of the view. O(1)."""
        return float(np.sqrt(sum(block.row_total for block in self._blocks)))

    @reads
    def row_norm(self, i: ArrayLike) -> Any:
        """‖A_(i)‖ of the view. O(1) each."""
        rows = check_index(i, self.shape[0], name="row")
        return self._answer(np.sqrt(self._by_row(rows.reshape(-1), "row_weights")), rows.shape)

    @reads
    def column_norm(self, j: ArrayLike) -> Any:
        """‖A^(j)‖ of the view."""
        self._need_columns()
        columns = check_index(j, self.shape[1], name="column")
        flat = columns.reshape(-1).astype(np.int64, copy=False)
        return self._answer(np.sqrt(self._column_squares(flat)), columns.shape)

    @reads
    def l1_norm(self, i: ArrayLike) -> Any:
        """The l1 norm of the stored row, by which the l1 view divides. O(1) each for an l1 view, else O(n)."""
        rows = check_index(i, self.shape[0], name="row")
        flat = rows.reshape(-1)
        if self.normalize is None:
            stored = self._gather(flat, view=False)
            return self._answer(row_sums_of(abs(stored)), rows.shape)
        return self._answer(self._by_row(flat, "l1_norms"), rows.shape)

    def _answer(self, values: Array, shape: tuple[int, ...]) -> Any:
        self.cost.queries += values.size
        return float(values[0]) if shape == () else values.reshape(shape)

    @reads
    def rows(self, indices: ArrayLike) -> Rows:
        """The rows of the view at ``indices``, in that order: a 2-D array, or CSR if the matrix is sparse.

        Normalised rows are float32 for a float32 matrix, else float64; without normalisation they have the stored type.
        """
        rows = check_index(indices, self.shape[0], name="row").reshape(-1)
        self.cost.rows_read += len(rows)
        return self._gather(rows, view=True)

    @reads
    def raw_rows(self, indices: ArrayLike) -> Rows:
        """The stored rows at ``indices``, without normalisation, in that order and in the stored type."""
        rows = check_index(indices, self.shape[0], name="row").reshape(-1)
        self.cost.rows_read += len(rows)
        return self._gather(rows, view=False)

    def _need_columns(self) -> None:
        if not all(block.has_columns for block in self._blocks):
            raise InvalidInputError("this matrix was built without a column side; build it with columns=True")

    def _places(self, index: tuple[Any, Any]) -> tuple[Array, Array, tuple[int, ...]]:
        rows, columns = pair(index)
        i = check_index(rows, self.shape[0], name="row")
        j = check_index(columns, self.shape[1], name="column")
        try:
            if i.shape != j.shape:
                i, j = (np.array(a) for a in np.broadcast_arrays(i, j))  # copies: kernels take writable arrays
        except ValueError:
            raise InvalidInputError(f"index arrays do not fit together: shapes {i.shape} and {j.shape}") from None
        flat = (np.ascontiguousarray(a, np.int64).reshape(-1) for a in (i, j))
        return (*flat, i.shape)  # type: ignore[return-value]


def pair(index: Any) -> tuple[Any, Any]:
    """The row and the column of an index ``S[i, j]``."""
    if not isinstance(index, tuple) or len(index) != 2:
        raise InvalidTypeError("pass a row and a column, as in S[i, j]; use S.rows(i) for whole rows")
    return index
