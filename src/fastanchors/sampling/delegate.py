"""Base class of matrices that wrap a ``SampleMatrix`` and delegate to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._rng import RngLike
from ..matrix.contract import Mutable, Rows, SampleAccess
from ..matrix.cost import Cost
from .matrix import SampleMatrix

__all__ = ["SampleDelegate"]

_Result = TypeVar("_Result")


class SampleDelegate(SampleAccess, Mutable):
    """The reading methods of :class:`~fastanchors.SampleMatrix`, delegated to ``_matrix``."""

    _matrix: SampleMatrix

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self._matrix.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the stored entries."""
        return self._matrix.dtype

    @property
    def is_sparse(self) -> bool:
        """Whether rows are CSR."""
        return self._matrix.is_sparse

    @property
    def normalize(self) -> Literal["l1"] | None:
        """``"l1"`` if the view divides rows by their l1 norm."""
        return self._matrix.normalize

    @property
    def nnz(self) -> int:
        """Number of non-zero entries."""
        return self._matrix.nnz

    @property
    def terms(self) -> int:
        """The largest number of entries of a row, or a bound of it."""
        return self._matrix.terms

    def row_entries(self, indices: ArrayLike) -> NDArray[np.int64]:
        """Number of stored entries of each of those rows."""
        return self._matrix.row_entries(indices)

    @property
    def memory(self) -> int:
        """Bytes of all arrays, mapped ones included."""
        return self._matrix.memory

    @property
    def cost(self) -> Cost:
        """Running counters."""
        return self._matrix.cost

    @property
    def frobenius_norm(self) -> float:
        """‖A‖_F of the view. O(1)."""
        return self._matrix.frobenius_norm

    def __getitem__(self, index: tuple[Any, Any]) -> Any:
        """``S[i, j]``: an entry of the view, or an array of entries for broadcast index arrays."""
        return self._matrix[index]

    def raw(self, i: ArrayLike, j: ArrayLike) -> Any:
        """The stored entry (i, j), or an array of entries for broadcast index arrays."""
        return self._matrix.raw(i, j)

    def row_norm(self, i: ArrayLike) -> Any:
        """‖A_(i)‖ of the view. O(1) each."""
        return self._matrix.row_norm(i)

    def column_norm(self, j: ArrayLike) -> Any:
        """‖A^(j)‖ of the view."""
        return self._matrix.column_norm(j)

    def l1_norm(self, i: ArrayLike) -> Any:
        """The l1 norm of the stored row, by which the l1 view divides."""
        return self._matrix.l1_norm(i)

    def rows(self, indices: ArrayLike) -> Rows:
        """The rows of the view at ``indices``, in that order: a 2-D array, or CSR if the matrix is sparse."""
        return self._matrix.rows(indices)

    def raw_rows(self, indices: ArrayLike) -> Rows:
        """The stored rows at ``indices``, without normalisation, in that order and in the stored type."""
        return self._matrix.raw_rows(indices)

    def blocks(self, block_rows: int | None = None) -> Iterator[tuple[int, Rows]]:
        """One pass over the view in order: (first row, block of rows)."""
        return self._matrix.blocks(block_rows)

    def map_stored(
        self, function: Callable[..., _Result], *shared: Any, block_rows: int | None = None
    ) -> list[_Result]:
        """``function(start, block, sums, *shared)`` with rows as they are stored."""
        return self._matrix.map_stored(function, *shared, block_rows=block_rows)

    def sample_rows(self, size: int | None = None, *, rng: RngLike = None) -> Any:
        """Rows with probability ‖A_(i)‖² / ‖A‖_F². O(log m) each."""
        return self._matrix.sample_rows(size, rng=rng)

    def sample_columns(self, size: int | None = None, *, rng: RngLike = None) -> Any:
        """Columns with probability ‖A^(j)‖² / ‖A‖_F². O(log n) each."""
        return self._matrix.sample_columns(size, rng=rng)

    def sample_in_row(self, i: ArrayLike, size: int | None = None, *, rng: RngLike = None) -> Any:
        """Columns with probability A_ij² / ‖A_(i)‖²; for an array ``i`` of shape s, an array s + (size,)."""
        return self._matrix.sample_in_row(i, size, rng=rng)

    def sample_in_column(self, j: ArrayLike, size: int | None = None, *, rng: RngLike = None) -> Any:
        """Rows with probability A_ij² / ‖A^(j)‖²; for an array ``j`` of shape s, an array s + (size,)."""
        return self._matrix.sample_in_column(j, size, rng=rng)

    def reading(self) -> AbstractContextManager[None]:
        """A context in which writes of other threads raise, so that several reads see the same state."""
        return self._matrix.reading()

    @property
    def cursor(self) -> int:
        """The current position in the log of changes, for :meth:`changes_since`."""
        return self._matrix.cursor

    def changes_since(self, cursor: int) -> NDArray[np.int64]:
        """Distinct rows written or appended since ``cursor``, sorted."""
        return self._matrix.changes_since(cursor)

    def check(self) -> None:
        """Recompute every sum from the entries and raise if one differs in a single bit."""
        self._matrix.check()
