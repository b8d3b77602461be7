"""Blocks of rows stacked on each other: which rows are where, and answers put together from the blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .access import Rows
from .block import Block
from .cost import Cost
from .forest import Array
from .gather import in_order

__all__ = ["Stack", "by_block"]


class Stack:
    """What a matrix knows of its blocks, all of one kind, width and type; row b of block k is ``_starts[k]`` + b."""

    _blocks: list[Block]
    _starts: Array
    _cost: Cost

    def _set_blocks(self, blocks: list[Block]) -> None:
        self._blocks = blocks
        self._starts = np.cumsum([0, *(block.shape[0] for block in blocks)])

    @property
    def shape(self) -> tuple[int, int]:
        return int(self._starts[-1]), self._blocks[0].shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the stored entries."""
        return self._blocks[0].dtype

    @property
    def is_sparse(self) -> bool:
        from .sparse_block import SparseBlock

        return isinstance(self._blocks[0], SparseBlock)

    @property
    def nnz(self) -> int:
        """Number of entries that are not zero."""
        return sum(block.nnz for block in self._blocks)

    @property
    def memory(self) -> int:
        """Bytes held, the copy of the matrix included."""
        return sum(block.nbytes for block in self._blocks)

    def _split_rows(self, rows: Array) -> Iterator[tuple[Block, Any, Array]]:
        """(block, which of ``rows`` are in it, their numbers in the block)."""
        if len(self._blocks) == 1:
            yield self._blocks[0], slice(None), rows.astype(np.int64, copy=False)
            return
        which = np.searchsorted(self._starts, rows, side="right") - 1
        for b, at in by_block(which, len(self._blocks)):
            yield self._blocks[b], at, rows[at].astype(np.int64) - self._starts[b]

    def _by_row(self, rows: Array, method: str) -> Array:
        out = np.empty(len(rows))
        for block, at, local in self._split_rows(rows):
            out[at] = getattr(block, method)(local)
        return out

    def _l1(self, rows: Array) -> Array:
        return self._by_row(rows, "l1_norms")

    def _raw(self, i: Array, j: Array) -> Array:
        out = np.empty(len(i), self.dtype)
        for block, at, local in self._split_rows(i):
            out[at] = block.raw(local, j[at])
        return out

    def _gather(self, rows: Array, *, view: bool) -> Rows:
        if len(self._blocks) == 1:
            return self._blocks[0].rows(rows, view=view)
        parts, order = [], []
        for block, at, local in self._split_rows(rows):
            parts.append(block.rows(local, view=view))
            order.append(at)
        if not parts:
            return self._blocks[0].rows(rows, view=view)
        return in_order(parts, order, len(rows))


def by_block(which: Array, blocks: int) -> Iterator[tuple[int, Array]]:
    """Each block that occurs in ``which``, with the places where it does."""
    if blocks == 1:
        yield 0, np.arange(len(which))
        return
    order = np.argsort(which, kind="stable")
    bounds = np.searchsorted(which[order], np.arange(blocks + 1))
    for b in range(blocks):
        if bounds[b] < bounds[b + 1]:
            yield b, order[bounds[b] : bounds[b + 1]]
