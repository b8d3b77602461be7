"""A stack of blocks of rows: find the block of each row, and combine the results of the blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._validate import check_index
from ..matrix.contract import Rows
from ..matrix.cost import Cost
from .access_guard import AccessGuard, Writing, reads
from .block_stack_kernels import count_blocks, holding_blocks, place_blocks
from .gather import gathered, in_order, is_range
from .l1_view import view_dtype
from .row_block import Block
from .segment_trees import Array
from .sparse_block import SparseBlock
from .threads import in_chunks, in_pieces, in_threads, shares
from .write_log import Entries, WriteLog

__all__ = ["BlockStack", "by_block", "sorted_places"]


class BlockStack:
    """The blocks of a matrix, all of one kind, width and type; row b of block k is row ``_starts[k]`` + b."""

    _held: list[Block]
    _log: WriteLog
    _guard: AccessGuard
    _starts: Array
    _cost: Cost

    @property
    def _blocks(self) -> list[Block]:
        """The blocks, after flushing buffered entries."""
        if self._log.buffered:
            self._flush()
        return self._held

    def _flush(self) -> None:
        """Write the buffered entries."""
        with self._guard.lock:
            if self._log.buffered:
                self._guard.check_alone()
                self._log.flush(self._write_entries)

    def _write_entries(self, entries: Entries) -> None:
        with Writing(self._guard):
            self._write(*entries)

    def _set_blocks(self, blocks: list[Block]) -> None:
        self._held = blocks
        self._starts = np.cumsum([0, *(block.shape[0] for block in blocks)])

    @property
    def shape(self) -> tuple[int, int]:
        return int(self._starts[-1]), self._held[0].shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the stored entries."""
        return self._held[0].dtype

    @property
    def is_sparse(self) -> bool:
        return self._held[0].is_sparse

    @property
    @reads
    def nnz(self) -> int:
        """Number of non-zero entries."""
        return sum(block.nnz for block in self._blocks)

    @property
    @reads
    def terms(self) -> int:
        """The largest number of entries of a row, or a bound of it."""
        if not self.is_sparse:
            return self.shape[1]
        return max(block.longest for block in cast(list[SparseBlock], self._blocks))

    @reads
    def row_entries(self, indices: ArrayLike) -> NDArray[np.int64]:
        """Number of stored entries of each of those rows."""
        rows = check_index(indices, self.shape[0], name="row").reshape(-1)
        found = np.full(rows.size, self.shape[1], dtype=np.int64)
        if self.is_sparse:
            blocks = cast(list[SparseBlock], self._blocks)
            for b, at, local in self._split_rows(rows):
                found[at] = blocks[b].row_entries(local)
        return found

    @property
    @reads
    def memory(self) -> int:
        """Bytes of all arrays, including the copy of the matrix."""
        return sum(block.nbytes for block in self._blocks)

    def _split_rows(self, rows: Array) -> Iterator[tuple[int, Any, Array]]:
        """Yield (block number, which of ``rows`` are in it, their numbers in the block)."""
        if len(self._blocks) == 1:
            yield 0, slice(None), rows.astype(np.int64, copy=False)
            return
        for b, at in by_block(self._holding(rows), len(self._blocks)):
            yield b, at, rows[at].astype(np.int64, copy=False) - self._starts[b]

    def _holding(self, rows: Array) -> Array:
        """The block of each row."""
        which = np.zeros(len(rows), np.int32)
        if len(self._blocks) > 1:
            blocks = len(self._blocks)
            in_chunks(
                lambda low, high: holding_blocks(self._starts, blocks, rows[low:high], which[low:high]), len(rows)
            )
        return which

    def _each(self, which: Array, work: Callable[[int, Any], None]) -> None:
        """``work(b, at)`` for the positions ``at`` where block b occurs in ``which``, in chunks, in threads."""
        if len(self._blocks) == 1:
            work(0, slice(None))
            return
        order, bounds = sorted_places(which, len(self._blocks))
        in_pieces(lambda b, low, high: work(b, order[low:high]), bounds)

    def _by_row(self, rows: Array, method: str) -> Array:
        out = np.empty(len(rows))
        for b, at, local in self._split_rows(rows):
            out[at] = getattr(self._blocks[b], method)(local)
        return out

    def _drawn(
        self, method: str, which: Array, *arguments: Array, numbered: bool = False, dtype: Any = np.int64
    ) -> Array:
        """``block.method(*arguments)`` for the positions where each block occurs in ``which``, in threads.

        With ``numbered`` the results are row numbers of the matrix.
        """
        out = np.empty(len(which), dtype)

        def work(b: int, at: Any) -> None:
            answer = getattr(self._blocks[b], method)(*(argument[at] for argument in arguments))
            out[at] = answer + self._starts[b] if numbered else answer

        self._each(which, work)
        return out

    def _column_squares(self, columns: Array) -> Array:
        return sum((block.column_squares(columns) for block in self._blocks), start=np.zeros(len(columns)))

    def _column_weights(self, columns: Array) -> list[Array]:
        return [block.column_weights(columns) for block in self._blocks]

    def _raw(self, i: Array, j: Array) -> Array:
        out = np.empty(len(i), self.dtype)
        for b, at, local in self._split_rows(i):
            out[at] = self._blocks[b].raw(local, j[at])
        return out

    def _write(self, i: Array, j: Array, x: Array) -> None:
        """Write validated entries, block by block.

        It uses one thread: most of the time is page faults of mapped files, which are slower in parallel.
        """
        for b, at, local in self._split_rows(i):
            self._held[b].write(local, j[at], x[at])

    def _gather(self, rows: Array, *, view: bool) -> Rows:
        if len(self._blocks) == 1 or len(rows) == 0:
            return self._blocks[0].rows(rows, view=view)
        if not self.is_sparse and is_range(rows):
            return self._range(int(rows[0]), int(rows[-1]) + 1, view=view)
        groups = list(by_block(self._holding(rows), len(self._blocks)))
        if not self.is_sparse:
            parts = [self._blocks[b].rows(rows[at] - self._starts[b], view=view) for b, at in groups]
            return in_order(parts, [at for _, at in groups], len(rows))
        starts, blocks = self._starts.tolist(), cast(list[SparseBlock], self._blocks)
        taken = [blocks[b].taken(rows, starts[b], at, view=view) for b, at in groups]
        dtype = view_dtype(self.dtype) if view and blocks[0].l1 else self.dtype
        return gathered(taken, (len(rows), self.shape[1]), dtype)

    def _range(self, start: int, stop: int, *, view: bool) -> Rows:
        """Rows ``start`` … ``stop`` − 1 of dense blocks."""
        first, last = np.searchsorted(self._starts, [start, stop - 1], side="right").tolist()
        parts = []
        for b in range(first - 1, last):
            low, high = int(self._starts[b]), int(self._starts[b + 1])
            own = np.arange(max(start, low) - low, min(stop, high) - low)
            parts.append(self._blocks[b].rows(own, view=view))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


def by_block(which: Array, blocks: int) -> Iterator[tuple[int, Array]]:
    """Each block that occurs in ``which``, with the positions where it occurs."""
    order, bounds = sorted_places(which, blocks)
    for b, (low, high) in enumerate(pairwise(bounds)):
        if low < high:
            yield b, order[low:high]


def sorted_places(which: Array, blocks: int) -> tuple[Array, list[int]]:
    """The positions of ``which`` sorted by block (stable), and where each block begins among them.

    A counting sort, O(positions + blocks), in threads if there are many positions.
    """
    order = np.empty(len(which), np.int64)
    cuts = shares(len(which))
    counts = np.zeros((len(cuts) - 1, blocks), np.int64)
    in_threads(lambda low, high: count_blocks(which[low:high], counts[cuts.index(low)]), cuts)
    ends = np.cumsum(counts.T).reshape(blocks, -1).T
    put = np.ascontiguousarray(ends - counts)
    in_threads(lambda low, high: place_blocks(which[low:high], low, put[cuts.index(low)], order), cuts)
    return order, [0, *ends[-1].tolist()]
