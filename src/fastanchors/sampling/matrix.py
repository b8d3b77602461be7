"""The matrix sample model in memory (Proposition 1): query, norms and length-squared draws, under updates."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from .._parallel import map_ordered
from .._signals import deferred_signals
from .._validate import as_matrix, check_choice, check_size, name_list
from ..errors import InvalidInputError, InvalidTypeError, one_line
from ..matrix.array import ArrayMatrix
from ..matrix.columns import column_order
from ..matrix.contract import Mutable, Rows
from ..matrix.cost import Cost
from ..matrix.frames import in_memory
from .access_guard import AccessGuard, Reading, reads, writes
from .block_stack import BlockStack
from .drawing import Draws
from .entries import as_entries, as_values, check_squares, is_plain, summed
from .make_block import make_block
from .queries import pair
from .row_block import Block
from .segment_trees import Array
from .write_log import Entries, WriteLog

__all__ = ["SampleMatrix"]

_Result = TypeVar("_Result")

_BLOCK_ENTRIES = 1 << 22  # default number of entries in a block of rows


class SampleMatrix(BlockStack, Draws, Mutable):
    """Sample access to a matrix A (Proposition 1 of Chen et al.), in memory, with updates.

    Rows are drawn with probability ‖A_(i)‖²/‖A‖_F², columns with ‖A^(j)‖²/‖A‖_F², entries of a row or a column by
    their squares. Every draw is exact, also after updates. A zero is never drawn.

    Parameters
    ----------
    A
        Array, any SciPy sparse matrix, pandas or polars frame, or AnnData. The data is copied; its type and sparsity
        are kept.
    normalize
        With ``"l1"`` the view is A with each row divided by its l1 norm, without a scaled copy; entries must be
        non-negative, and a row of zeros stays zero. With ``None`` the view is A itself, with signs.
    row_names, column_names
        Optional names, one for each row and column; by default those of a frame or of AnnData.

    Notes
    -----
    Building reads A a few times: O(nnz), or O(mn) for a dense array. A draw costs O(log m + log n), a query O(1)
    (dense) or O(log n) (sparse). Setting an entry, new non-zeros included, costs O(log m + log n) amortised; entries
    set one by one are buffered and written together before the next read. Under ``"l1"`` this holds as long as the l1
    norm of the row changes by bounded factors; an update that changes it by a large factor costs O(nnz(row)·log m).
    Column norms are O(1) until rows are updated under ``"l1"``; then each costs the smaller of the column's length and
    the number of updated rows.

    The structure takes at most 3 times the bytes of A (as CSR if sparse), including both sides and the copy of A, if
    there are at least about 5 non-zeros (sparse) or 128 entries (dense uint8) per row and column. New non-zeros take
    about 100 bytes each until they are merged, at the latest when they exceed 4096 and a 24th of the rest.

    Magnitudes of non-zeros must be between 2^-511 and 2^500, so that sums of their squares neither overflow nor
    underflow; others are refused. Under ``"l1"`` an entry below 2^-511 times its row's l1 norm has a square of zero and
    counts as zero in draws and norms.

    Any number of threads may read at once if none writes (the counters of :attr:`cost` may then be too low); a
    concurrent write raises :class:`~fastanchors.errors.ConcurrentAccessError` and changes nothing.

    Examples
    --------
    >>> import fastanchors as fa
    >>> S = fa.SampleMatrix([[3.0, 1.0], [0.0, 4.0]])
    >>> float(S[0, 0]), float(S.raw(0, 0))
    (0.75, 3.0)
    >>> S[1, 0] = 4.0
    >>> float(S[1, 0])
    0.5
    >>> S.sample_in_row(1, 3, rng=0).shape
    (3,)
    """

    def __init__(
        self,
        A: Any,
        normalize: Literal["l1"] | None = "l1",
        *,
        row_names: Sequence[str] | None = None,
        column_names: Sequence[str] | None = None,
    ) -> None:
        self._set_normalize(normalize)
        A, rows, columns = (A.data, A.row_names, A.column_names) if isinstance(A, ArrayMatrix) else in_memory(A, "A")
        row_names = rows if row_names is None else row_names
        column_names = columns if column_names is None else column_names
        matrix = as_matrix(A, signed=normalize is None)
        check_squares(matrix)
        self._set_blocks([self._made(matrix)])
        self.row_names: Sequence[str] | None = _names(row_names, self.shape[0], "row_names")
        self.column_names: Sequence[str] | None = _names(column_names, self.shape[1], "column_names")

    @classmethod
    def from_blocks(cls, blocks: Sequence[Block], normalize: Literal["l1"] | None) -> SampleMatrix:
        """A matrix that consists of these blocks (not copied), all of one kind, width and type."""
        self = cls.__new__(cls)
        self._set_normalize(normalize)
        self._set_blocks(list(blocks))
        self.row_names = self.column_names = None
        return self

    def _set_normalize(self, normalize: Literal["l1"] | None) -> None:
        check_choice(normalize, ("l1", None), name="normalize")
        self._normalize = normalize
        self._cost = Cost()
        self._log, self._guard = WriteLog(), AccessGuard()

    def _made(self, matrix: Rows) -> Block:
        block = make_block(matrix, l1=self._normalize is not None)
        every = np.arange(matrix.shape[0])
        if not np.isfinite(block.squares(every)).all() or not np.isfinite(block.row_total):
            raise InvalidInputError("the sum of the squares of A overflows; divide A by its largest entry")
        return block

    # --- properties -------------------------------------------------------------------------------------------------

    @property
    def normalize(self) -> Literal["l1"] | None:
        return self._normalize

    @property
    def cost(self) -> Cost:
        return self._cost

    def __repr__(self) -> str:
        kind = "sparse" if self.is_sparse else "dense"
        return f"SampleMatrix({self.shape[0]}×{self.shape[1]} {kind} {self.dtype}, normalize={self._normalize!r})"

    def __copy__(self) -> SampleMatrix:
        """A copy of its own: two matrices that share some rows would change each other."""
        return copy.deepcopy(self)

    # --- rows -------------------------------------------------------------------------------------------------------

    def blocks(self, block_rows: int | None = None) -> Iterator[tuple[int, Rows]]:
        """One pass over the view in order: (first row, block of rows). Default blocks have about 4 million entries."""
        m, n = self.shape
        if block_rows is None:
            entries = max(1, self.nnz // m if self.is_sparse else n)
            block_rows = max(1, _BLOCK_ENTRIES // entries)
        step = check_size(block_rows, name="block_rows")
        for start in range(0, m, step):
            yield start, self.rows(np.arange(start, min(start + step, m)))

    def map_stored(
        self,
        function: Callable[..., _Result],
        *shared: Any,
        block_rows: int | None = None,
        passed: Callable[[int], None] | None = None,
    ) -> list[_Result]:
        """As in :class:`RowMatrix`, without copies of dense rows; ``passed(b)`` is called after block b was read."""
        if self.is_sparse:
            return super().map_stored(function, *shared, block_rows=block_rows)
        step = self._block_rows(block_rows)
        with self.reading():
            return map_ordered(lambda *piece: function(*piece, *shared), self._stored(step, passed))

    def _stored(self, step: int, passed: Callable[[int], None] | None) -> Iterator[tuple[int, Rows, Array | None]]:
        """(first row, stored rows, their l1 norms if the view divides by them)."""
        for b, block in enumerate(self._blocks):
            matrix, first = block.entries.reshape(block.shape), int(self._starts[b])
            for start in range(0, len(matrix), step):
                rows = matrix[start : start + step]
                self._cost.rows_read += len(rows)
                yield first + start, rows, block.l1_norms(slice(start, start + step)) if block.l1 else None
            if passed is not None:
                passed(b)

    # --- updates ----------------------------------------------------------------------------------------------------

    def __setitem__(self, index: tuple[Any, Any], value: ArrayLike) -> None:
        """``S[i, j] = x`` sets stored entries, new non-zeros included."""
        i, j = pair(index)
        if self.dtype == np.float64 and is_plain(i, j, value, self.shape, signed=self._normalize is None):
            self._set_plain(i, j, value)  # type: ignore[arg-type]
        else:
            self.update(i, j, value)

    @writes
    def update(self, rows: ArrayLike, columns: ArrayLike, values: ArrayLike) -> None:
        """Set many stored entries; of several values for one entry the last wins.

        All values are checked first: if one is refused, nothing changes.
        """
        i, j, x = as_entries(rows, columns, values, self.shape)
        self._set(i, j, as_values(x, i, j, self.dtype, signed=self._normalize is None))

    @writes
    def add(self, rows: ArrayLike, columns: ArrayLike, deltas: ArrayLike) -> None:
        """Add to many stored entries; several deltas for one entry are summed first (in double precision)."""
        i, j, x = as_entries(rows, columns, deltas, self.shape)
        _, first, inverse = np.unique(i * self.shape[1] + j, return_index=True, return_inverse=True)
        ui, uj = i[first], j[first]
        total = summed(self._raw(ui, uj), x, i, j, inverse.reshape(-1), self.dtype)
        self._set(ui, uj, as_values(total, ui, uj, self.dtype, signed=self._normalize is None))

    def _set(self, i: Array, j: Array, x: Array) -> None:
        with np.errstate(over="ignore"):
            new = float(np.square(x.astype(np.float64)).sum())
            kept = sum(block.row_total for block in self._blocks)
            if self._normalize is not None:
                kept = float(self._by_row(i, "squares").max(initial=0.0))
        if not np.isfinite(kept + new):
            raise InvalidInputError("the sum of the squares would overflow; divide the matrix by its largest entry")
        self._flush()  # earlier writes first
        with deferred_signals():
            self._log.record(Entries(i, j, x))
            try:
                self._write(i, j, x)
            except BaseException:
                self._log.withdraw()
                raise

    def _set_plain(self, i: int, j: int, x: float) -> None:
        """Buffer one validated entry; it is written before the next read."""
        with self._guard.lock:
            self._guard.check_alone()
            if self._log.buffer(i, j, x):
                self._flush()

    def reading(self) -> Reading:
        """A context in which writes of other threads raise, so that several reads see the same state."""
        return Reading(self._guard, self._flush)

    @property
    @reads
    def cursor(self) -> int:
        """The current position in the log of changes, for :meth:`changes_since`."""
        return self._log.end

    @reads
    def changes_since(self, cursor: int) -> NDArray[np.int64]:
        """Distinct rows written or appended since ``cursor``, sorted."""
        cursor = check_size(cursor, name="cursor", minimum=0)
        return self._log.rows_since(cursor, self.shape[0])

    @writes
    def append(self, rows: Any, *, row_names: Sequence[str] | None = None) -> None:
        """Append rows; values must fit the type of the matrix. O(entries · log m) amortised.

        The columns of a frame are matched by name, if the matrix has names too.
        """
        signed = self._normalize is None
        rows, labels, columns = in_memory(rows, "rows")
        row_names = labels if row_names is None and self.row_names is not None else row_names
        matrix = as_matrix(rows, signed=signed, name="rows")
        if matrix.shape[1] != self.shape[1]:
            raise InvalidInputError(f"rows have {matrix.shape[1]} columns, the matrix has {self.shape[1]}")
        order = column_order(columns, self.column_names, "the rows", "the matrix")
        if order is not None:
            matrix = as_matrix(matrix[:, order], signed=signed, name="rows")
        if self.is_sparse:
            matrix = sp.csr_array(matrix)
        elif sp.issparse(matrix):
            matrix = matrix.toarray()
        values = matrix.data if self.is_sparse else matrix.reshape(-1)
        i, j = (
            (np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)), matrix.indices)
            if self.is_sparse
            else np.divmod(np.arange(values.size), matrix.shape[1])
        )
        values = as_values(values, i, j, self.dtype, signed=signed)
        if self.is_sparse:
            matrix = sp.csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)
        else:
            matrix = values.reshape(matrix.shape)
        names = _names(row_names, matrix.shape[0], "row_names")
        if (names is None) != (self.row_names is None):
            raise InvalidInputError("pass row_names for the new rows if and only if the matrix has row names")
        block = self._made(matrix)
        if not np.isfinite(block.row_total + sum(b.row_total for b in self._blocks)):
            raise InvalidInputError("the sum of the squares would overflow; divide the matrix by its largest entry")
        blocks = [*self._blocks, block]
        # Each block is more than twice as large as the next, so there are few, and each row is copied few times.
        while len(blocks) > 1 and blocks[-2].shape[0] <= 2 * blocks[-1].shape[0]:
            last = [b.rows(np.arange(b.shape[0]), view=False) for b in blocks[-2:]]
            blocks[-2:] = [self._made(sp.vstack(last, format="csr") if self.is_sparse else np.concatenate(last))]
        with deferred_signals():
            self._log.record_append(self.shape[0])
            self._set_blocks(blocks)
            if names is not None and self.row_names is not None:
                self.row_names = [*self.row_names, *names]

    @writes
    def consolidate(self) -> None:
        """Rebuild the blocks that were updated: merges new non-zeros, and column draws need no rejection any more."""
        blocks = [block if block.pristine else block.rebuilt() for block in self._blocks]
        with deferred_signals():
            self._set_blocks(blocks)

    @reads
    def check(self) -> None:
        """Recompute every sum from the entries and raise if one differs in a single bit."""
        for block in self._blocks:
            block.check()


def _names(names: Sequence[str] | None, length: int, what: str) -> list[str] | None:
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InvalidTypeError(f"{what} must be a sequence of {length} names, got {one_line(repr(names), 60)}")
    kept = name_list(names, what)
    if len(kept) != length:
        raise InvalidInputError(f"{what} must have {length} names, got {len(kept)}")
    return kept
