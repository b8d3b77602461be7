"""The interface between matrices and algorithms: ``RowMatrix``, ``SampleAccess`` and ``Mutable``.

A solver uses the methods of :class:`RowMatrix` and no others. A new kind of matrix implements ``shape``, ``dtype``,
``is_sparse``, ``cost``, ``rows`` and ``blocks``; the other methods have default implementations in terms of these, and
can be overridden by faster ones. :class:`SampleAccess` adds the draws of the paper, :class:`Mutable` adds changes.

Entries are those of the *view*: the matrix after normalisation, if any. Sparse rows stay sparse.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from .._parallel import map_ordered, one_blas_thread
from .._rng import RngLike
from .._types import Rows
from .._validate import as_array, check_index, check_size, check_unrounded
from ..errors import InvalidInputError, InvalidTypeError
from .cost import Cost

__all__ = [
    "DOUBLE",
    "SINGLE",
    "Mutable",
    "RowMatrix",
    "Rows",
    "SampleAccess",
    "check_factor",
    "dense",
    "squared_norms_of",
]

_Result = TypeVar("_Result")

BLOCK_BYTES = 1 << 23  # bytes of a block in double precision
_AT_HAND = 1 << 31  # bytes of rows in a file that the system holds on to
#: unit roundoff of single and of double precision
SINGLE = 2.0**-24
DOUBLE = 2.0**-53


def dense(block: Rows) -> NDArray[np.float64]:
    """A block of rows as a dense array in double precision."""
    return np.asarray(block.toarray() if sp.issparse(block) else block, dtype=np.float64)


class RowMatrix(ABC):
    """A matrix that is read by rows.

    Attributes
    ----------
    row_names, column_names : sequence of str or None
        Names, where the source has any.
    provenance : str or None
        How the rows were obtained ("read into memory"), if the certificate should say so.
    rows_read_on_opening : int
        Rows of a file that were read to make this matrix; they are part of the cost of a seek.

    Examples
    --------
    >>> import fastanchors as fa
    >>> matrix = fa.open_matrix([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> isinstance(matrix, fa.RowMatrix), matrix.shape
    (True, (3, 2))
    >>> matrix.rows([2, 0]).tolist()
    [[5.0, 6.0], [1.0, 2.0]]
    """

    row_names: Sequence[str] | None = None
    column_names: Sequence[str] | None = None
    provenance: str | None = None
    rows_read_on_opening: int = 0

    # --- abstract: every matrix implements these --------------------------------------------------------------------

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """Type of the entries that :meth:`rows` returns."""

    @property
    @abstractmethod
    def is_sparse(self) -> bool:
        """Whether :meth:`rows` and :meth:`blocks` return CSR."""

    @property
    @abstractmethod
    def cost(self) -> Cost:
        """Running counters of what was read; an algorithm reports the difference between its end and its start."""

    @abstractmethod
    def rows(self, indices: ArrayLike) -> Rows:
        """The rows at ``indices``, in that order, as ``dtype``."""

    @abstractmethod
    def blocks(self, block_rows: int | None = None) -> Iterator[tuple[int, Rows]]:
        """One pass over all rows in order, as (first row, block). ``block_rows`` is the largest size of a block."""

    # --- default implementations: override them where the matrix has a faster way -----------------------------------

    @property
    def normalize(self) -> Literal["l1"] | None:
        """``"l1"`` if the rows of the view are divided by their sums."""
        return None

    @property
    def nnz(self) -> int:
        """Number of stored entries; an upper bound where counting them would take a pass."""
        return self.shape[0] * self.shape[1]

    @property
    def terms(self) -> int:
        """The largest number of products in one A_(i)·q, which bounds its rounding error."""
        return self.shape[1]

    @property
    def rounded(self) -> bool:
        """Whether the entries were divided and rounded to single precision: an l1 view of float32."""
        return self.normalize is not None and self.dtype == np.float32

    @property
    def norms_known(self) -> bool:
        """Whether :meth:`squared_norms` reads no row."""
        return False

    @property
    def in_process(self) -> bool:
        """Whether functions passed to :meth:`map_blocks` run in this process and may write to its arrays."""
        return True

    @property
    def at_hand(self) -> bool:
        """Whether a pass over the rows costs little: they are here, and not so many that each reads a disk."""
        if not self.in_process:
            return False
        return (self.dtype.itemsize + (4 if self.is_sparse else 0)) * self.nnz <= _AT_HAND

    def reading(self) -> AbstractContextManager[None]:
        """A context in which no other thread can change the matrix, so that several reads see the same state."""
        return nullcontext()

    def check_entries(self, *, signed: bool = False, name: str = "A") -> None:  # noqa: B027 (most have no such check)
        """Make a check that was deferred on opening: entries must be finite and, unless ``signed``, not negative."""

    def rows_once(self, indices: ArrayLike) -> Rows:
        """Like :meth:`rows`, but releases the pages of mapped files afterwards, to save memory in long scans."""
        return self.rows(indices)

    def row_entries(self, indices: ArrayLike) -> NDArray[np.int64]:
        """Number of entries of each of those rows in memory; the average of sparse rows that would have to be read."""
        m, n = self.shape
        count = check_index(indices, m, name="row").size
        return np.full(count, self.nnz // max(m, 1) + 1 if self.is_sparse else n, dtype=np.int64)

    def dense_rows(self, indices: ArrayLike) -> NDArray[np.float64]:
        """The rows at ``indices`` as a dense array in double precision."""
        return dense(self.rows(indices))

    def map_blocks(
        self, function: Callable[..., _Result], *shared: Any, block_rows: int | None = None
    ) -> list[_Result]:
        """``function(start, block, *shared)`` for every block of one pass; results in order.

        Blocks are processed in threads, or on the workers that hold them. The combined result must not depend on how
        the rows are divided into blocks.
        """
        step = self._block_rows(block_rows)
        return map_ordered(lambda start, block: function(start, block, *shared), self.blocks(step))

    def map_stored(
        self, function: Callable[..., _Result], *shared: Any, block_rows: int | None = None
    ) -> list[_Result]:
        """``function(start, block, sums, *shared)`` as :meth:`map_blocks`, with rows as stored and not to be changed.

        Rows of the view are those of the block divided by ``sums``, where these are given, and rounded to the type of
        the view. For what does not need the quotients themselves.
        """
        return self.map_blocks(_as_stored, function, *shared, block_rows=block_rows)

    def map_rows(
        self, function: Callable[..., _Result], indices: NDArray[np.int64], *shared: Any, block_rows: int | None = None
    ) -> list[_Result]:
        """``function(indices of the block, rows, *shared)`` for blocks of the rows at ``indices``; results in order.

        Runs in threads, or on the workers that hold the rows. ``indices`` must be sorted.
        """
        step = self._block_rows(block_rows)
        pieces = (indices[at : at + step] for at in range(0, len(indices), step))
        return map_ordered(lambda some, rows: function(some, rows, *shared), ((p, self.rows(p)) for p in pieces))

    def map_parts(self, function: Callable[..., _Result], *shared: Any) -> list[_Result]:
        """``function(part, first row, *shared)`` for consecutive parts of the rows; results in order.

        A part is a RowMatrix whose rows are local to the process that runs the function: the whole matrix, or the rows
        of one worker. Use it for few large results; :meth:`map_blocks` returns one result per block.
        """
        return [function(self, 0, *shared)]

    def _block_rows(self, given: int | None) -> int:
        return self.default_block_rows() if given is None else check_size(given, name="block_rows")

    def default_block_rows(self) -> int:
        """Number of rows in a block that fits in the cache; it depends on shape and ``nnz`` only."""
        m, n = self.shape
        per_row = 16 * (self.nnz // max(m, 1) + 1) if self.is_sparse else 8 * n
        return max(1, BLOCK_BYTES // per_row)

    def l1_scaled(self) -> RowMatrix:
        """The same matrix with every row divided by its sum; raises where the view is fixed and not normalised."""
        if self.normalize == "l1":
            return self
        raise InvalidInputError(f"a {type(self).__name__} cannot be rescaled; build it with normalize='l1'")

    def squared_norms(self) -> NDArray[np.float64]:
        """‖A_(i)‖² for every row."""
        return np.concatenate(self.map_blocks(_squared_norms))

    def row_sums(self) -> NDArray[np.float64]:
        """Σ_j A_ij for every row."""
        return np.concatenate(self.map_blocks(_row_sums))

    def dot(self, B: NDArray[np.float64]) -> NDArray[np.float64]:
        """A·B for a dense matrix or vector B, in one pass."""
        return np.concatenate(self.map_blocks(_dot, check_factor(B, self.shape[1])))

    def transposed_dot(self, B: NDArray[np.float64]) -> NDArray[np.float64]:
        """Aᵀ·B for a dense matrix B, in one pass."""
        B = check_factor(B, self.shape[0], vector=False)
        result = np.zeros((self.shape[1], B.shape[1]))
        with one_blas_thread():  # the order of summation must not depend on the number of threads
            for start, block in self.blocks(self.default_block_rows()):
                result += block.T @ B[start : start + block.shape[0]]
        return result

    def project(self, indices: NDArray[np.int64], Q: NDArray[np.float64]) -> NDArray[np.float64]:
        """A_(i)·q_j for the rows at ``indices`` (sorted) and the rows q_j of Q: len(indices) × len(Q).

        In double precision: errors are at most (terms + 2)·DOUBLE·‖A_(i)‖·‖q_j‖, in any order of summation.
        """
        Q = check_factor(np.transpose(as_array(Q, "Q")), self.shape[1], vector=False, name="Qᵀ").T
        found = self.map_rows(_project, check_index(indices, self.shape[0], name="row").reshape(-1), Q)
        return np.concatenate(found) if found else np.zeros((0, len(Q)))


def check_factor(B: Any, length: int, *, vector: bool = True, name: str = "B") -> NDArray[Any]:
    """``B`` as an array of numbers with ``length`` rows: the right factor of a product."""
    array = as_array(B, name)
    if array.dtype.kind not in "biuf":
        raise InvalidTypeError(f"{name} must hold real numbers, got dtype {array.dtype}")
    if array.ndim not in ((1, 2) if vector else (2,)) or array.shape[0] != length:
        shapes = f"({length},) or ({length}, …)" if vector else f"({length}, …)"
        raise InvalidInputError(f"{name} must have the shape {shapes}, got {array.shape}")
    check_unrounded(array, name)
    return array


def squared_norms_of(block: Rows) -> NDArray[np.float64]:
    """‖a‖² of every row of a block, in double precision."""
    if sp.issparse(block):
        block = block.astype(np.float64)
        return np.asarray(block.multiply(block).sum(axis=1)).reshape(-1)
    block = block.astype(np.float64, copy=False)
    return np.asarray(np.einsum("ij,ij->i", block, block))


def row_sums_of(block: Rows) -> NDArray[np.float64]:
    """Σ_j A_ij of every row of a block, in double precision; SciPy adds float32 in float32, whatever the dtype."""
    if sp.issparse(block):
        doubles = block.data.astype(np.float64, copy=False)
        block = sp.csr_array((doubles, block.indices, block.indptr), shape=block.shape, copy=False)
    with np.errstate(over="ignore"):  # whoever needs the sums says which row overflows
        return np.asarray(block.sum(axis=1, dtype=np.float64)).reshape(-1)


def _as_stored(start: int, block: Rows, function: Callable[..., _Result], *shared: Any) -> _Result:
    return function(start, block, None, *shared)


def _squared_norms(start: int, block: Rows) -> NDArray[np.float64]:
    return squared_norms_of(block)


def _row_sums(start: int, block: Rows) -> NDArray[np.float64]:
    return row_sums_of(block)


def _dot(start: int, block: Rows, B: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(block.astype(np.float64, copy=False) @ B)


def _project(indices: NDArray[np.int64], rows: Rows, Q: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(rows.astype(np.float64, copy=False) @ Q.T)


class SampleAccess(RowMatrix):
    """The matrix sample model (Proposition 1 of Chen et al.): query, norms, and draws by squared entries.

    Index arguments are ints or arrays of ints; negative indices are refused.

    Examples
    --------
    >>> import fastanchors as fa
    >>> S = fa.SampleMatrix([[3.0, 0.0], [0.0, 4.0]], normalize=None)
    >>> isinstance(S, fa.SampleAccess)
    True
    >>> float(S.row_norm(1)), float(S.frobenius_norm)
    (4.0, 5.0)
    """

    @property
    @abstractmethod
    def frobenius_norm(self) -> float:
        """‖A‖_F."""

    @abstractmethod
    def __getitem__(self, index: tuple[Any, Any]) -> Any:
        """``S[i, j]``: one entry, or for index arrays the entries of the broadcast pairs (as in NumPy)."""

    @abstractmethod
    def row_norm(self, i: ArrayLike) -> Any:
        """‖A_(i)‖."""

    @abstractmethod
    def column_norm(self, j: ArrayLike) -> Any:
        """‖A^(j)‖."""

    @abstractmethod
    def sample_rows(self, size: int | None = None, *, rng: RngLike = None) -> Any:
        """Rows with probability ‖A_(i)‖² / ‖A‖_F²."""

    @abstractmethod
    def sample_columns(self, size: int | None = None, *, rng: RngLike = None) -> Any:
        """Columns with probability ‖A^(j)‖² / ‖A‖_F²."""

    @abstractmethod
    def sample_in_row(self, i: ArrayLike, size: int | None = None, *, rng: RngLike = None) -> Any:
        """Column indices with probability A_ij² / ‖A_(i)‖²; for an array ``i`` of shape s, an array s + (size,)."""

    @abstractmethod
    def sample_in_column(self, j: ArrayLike, size: int | None = None, *, rng: RngLike = None) -> Any:
        """Row indices with probability A_ij² / ‖A^(j)‖²; for an array ``j`` of shape s, an array s + (size,)."""

    def norm_bound(self) -> float:
        """An upper bound of the largest row norm, without reading the norm of each row."""
        return 1.0 if self.normalize == "l1" else self.frobenius_norm

    def squared_norms(self) -> NDArray[np.float64]:
        """‖A_(i)‖² for every row, from the norms the model keeps."""
        if not self.norms_known:
            return super().squared_norms()
        return np.asarray(self.row_norm(np.arange(self.shape[0])), dtype=np.float64) ** 2

    @property
    def norms_known(self) -> bool:
        """False for rounded views, because the stored norms are those of the rows before rounding."""
        return not self.rounded


class Mutable(ABC):
    """A matrix that can change: changes are appended to one log, which each reader follows from its own cursor."""

    @property
    @abstractmethod
    def cursor(self) -> int:
        """The current end of the log."""

    @abstractmethod
    def changes_since(self, cursor: int) -> NDArray[np.int64] | None:
        """The rows changed or appended since ``cursor``, sorted; None if the log no longer reaches back that far."""
