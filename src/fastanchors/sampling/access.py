"""The protocol of sample access: what every algorithm of the paper asks of a matrix, and nothing more.

:class:`~fastanchors.SampleMatrix` (in memory) and the on-disk store both offer it; so can any other object.
Algorithms are written against this protocol alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, TypeAlias, runtime_checkable

from numpy.typing import ArrayLike

from .._rng import RngLike
from .cost import Cost

__all__ = ["Rows", "SampleAccess"]

#: A block of rows of the view: a dense 2-D array, or CSR when the matrix is stored sparse.
Rows: TypeAlias = Any


@runtime_checkable
class SampleAccess(Protocol):
    """Matrix sample model (Proposition 1 of Chen et al.): query, norms, and draws by squared entries.

    Everything speaks of the *view*: the matrix after normalisation, where one was asked for.
    Index arguments are ints or arrays of ints, negative indices are refused.
    """

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def nnz(self) -> int: ...

    @property
    def frobenius_norm(self) -> float: ...

    @property
    def cost(self) -> Cost:
        """Running counters; an algorithm reports the difference between end and start."""
        ...

    def __getitem__(self, index: tuple[Any, Any]) -> Any:
        """``S[i, j]``: one entry, or for index arrays the entries of the broadcast pairs (as in NumPy)."""
        ...

    def row_norm(self, i: ArrayLike) -> Any: ...

    def column_norm(self, j: ArrayLike) -> Any: ...

    def sample_rows(self, size: int | None = None, *, rng: RngLike = None) -> Any:
        """Rows with probability ‖A_(i)‖² / ‖A‖_F²."""
        ...

    def sample_columns(self, size: int | None = None, *, rng: RngLike = None) -> Any:
        """Columns with probability ‖A^(j)‖² / ‖A‖_F²."""
        ...

    def sample_in_row(self, i: ArrayLike, size: int | None = None, *, rng: RngLike = None) -> Any:
        """Column indices with probability A_ij² / ‖A_(i)‖²; for an array ``i`` of shape s, an array s + (size,)."""
        ...

    def sample_in_column(self, j: ArrayLike, size: int | None = None, *, rng: RngLike = None) -> Any:
        """Row indices with probability A_ij² / ‖A^(j)‖²; for an array ``j`` of shape s, an array s + (size,)."""
        ...

    def rows(self, indices: ArrayLike) -> Rows:
        """Those rows of the view, in that order."""
        ...

    def row_blocks(self, block_rows: int | None = None) -> Iterator[tuple[int, Rows]]:
        """One pass over the view in order: (first row, block of rows)."""
        ...
