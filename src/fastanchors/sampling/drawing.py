"""The four kinds of draw of Proposition 1, from blocks stacked on each other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._rng import RngLike, as_generator
from .._validate import check_index, check_size
from ..errors import InvalidInputError
from .forest import Array
from .stack import Stack, by_block

__all__ = ["Draws", "refuse_zero", "split"]

_CHUNK = 1 << 20  # draws made together: bounds the memory besides the answer


class Draws(Stack):
    """Draws of rows, of columns and inside either; exact, also after updates. Mixed into the matrix."""

    def sample_rows(self, size: int | None = None, *, rng: RngLike = None) -> Any:
        """Rows with probability ‖A_(i)‖² / ‖A‖_F². O(log m) each."""
        generator = as_generator(rng)
        totals = self._positive([block.row_total for block in self._blocks])

        def draw(count: int) -> Array:
            which, u = split(totals, generator.random(count))
            out = np.empty(count, np.int64)
            for b, at in by_block(which, len(self._blocks)):
                out[at] = self._starts[b] + self._blocks[b].draw_rows(u[at])
            return out

        return self._many(draw, size)

    def sample_columns(self, size: int | None = None, *, rng: RngLike = None) -> Any:
        """Columns with probability ‖A^(j)‖² / ‖A‖_F². O(log n) each.

        Where rows have been updated under ``"l1"``, a row entry is drawn along with the column, and the pair accepted
        with the probability that corrects the weight that the column trees have for that row (at least 1/16).
        """
        self._need_columns()
        generator = as_generator(rng)
        totals = self._positive([block.column_total for block in self._blocks])

        def draw(count: int) -> Array:
            out = np.empty(count, np.int64)
            pending = np.arange(count)
            while pending.size:
                which, u = split(totals, generator.random(pending.size))
                accepted = np.ones(pending.size, bool)
                for b, at in by_block(which, len(self._blocks)):
                    block = self._blocks[b]
                    columns = block.draw_columns(u[at])
                    out[pending[at]] = columns
                    if block.drifted:
                        rows = block.draw_in_column(columns, generator.random(len(at)))
                        accepted[at] = generator.random(len(at)) < block.acceptance(rows)
                pending = pending[~accepted]
            return out

        return self._many(draw, size)

    def sample_in_row(self, i: ArrayLike, size: int | None = None, *, rng: RngLike = None) -> Any:
        """Columns with probability A_ij² / ‖A_(i)‖²; for an array ``i`` of shape s, an array s + (size,)."""
        generator = as_generator(rng)
        rows = check_index(i, self.shape[0], name="row")
        refuse_zero(self._by_row(rows.reshape(-1), "row_weights"), rows, "row")

        def draw(rows: Array) -> Array:
            r = generator.random(len(rows))
            out = np.empty(len(rows), np.int64)
            for block, at, local in self._split_rows(rows):
                out[at] = block.draw_in_row(local, r[at])
            return out

        return self._many_in(draw, rows, size)

    def sample_in_column(self, j: ArrayLike, size: int | None = None, *, rng: RngLike = None) -> Any:
        """Rows with probability A_ij² / ‖A^(j)‖²; for an array ``j`` of shape s, an array s + (size,)."""
        self._need_columns()
        generator = as_generator(rng)
        columns = check_index(j, self.shape[1], name="column")
        refuse_zero(np.sum(self._column_weights(columns.reshape(-1)), axis=0), columns, "column")

        def draw(columns: Array) -> Array:
            out = np.empty(len(columns), np.int64)
            pending = np.arange(len(columns))
            while pending.size:
                which = self._blocks_of(columns[pending], generator)
                accepted = np.ones(pending.size, bool)
                for b, at in by_block(which, len(self._blocks)):
                    block = self._blocks[b]
                    rows = block.draw_in_column(columns[pending[at]], generator.random(len(at)))
                    out[pending[at]] = self._starts[b] + rows
                    if block.drifted:
                        accepted[at] = generator.random(len(at)) < block.acceptance(rows)
                pending = pending[~accepted]
            return out

        return self._many_in(draw, columns, size)

    def _blocks_of(self, columns: Array, generator: np.random.Generator) -> Array:
        """A block for each column, by the column's weight in it."""
        if len(self._blocks) == 1:
            return np.zeros(len(columns), np.int64)
        sums = np.cumsum(self._column_weights(columns), axis=0)
        u = generator.random(len(columns)) * sums[-1]
        # Past the last sum by rounding: the last block in which the column is not zero.
        return np.minimum((sums <= u).sum(axis=0), np.argmax(sums == sums[-1], axis=0))

    def _column_weights(self, columns: Array) -> list[Array]:
        """Of each block."""
        return [block.column_weights(columns) for block in self._blocks]

    def _many(self, draw: Any, size: int | None) -> Any:
        count = 1 if size is None else check_size(size, name="size", minimum=0)
        self._cost.samples += count
        out = np.empty(count, np.int64)
        for start in range(0, count, _CHUNK):
            out[start : start + _CHUNK] = draw(min(_CHUNK, count - start))
        return int(out[0]) if size is None else out

    def _many_in(self, draw: Any, which: Array, size: int | None) -> Any:
        each = 1 if size is None else check_size(size, name="size", minimum=0)
        flat = np.repeat(which.reshape(-1).astype(np.int64, copy=False), each)
        self._cost.samples += len(flat)
        out = np.empty(len(flat), np.int64)
        for start in range(0, len(flat), _CHUNK):
            out[start : start + _CHUNK] = draw(flat[start : start + _CHUNK])
        if size is None:
            return int(out[0]) if which.shape == () else out.reshape(which.shape)
        return out.reshape((*which.shape, each))

    def _need_columns(self) -> None:
        if not all(block.has_columns for block in self._blocks):
            raise InvalidInputError("this matrix was built without its column side; build it with columns=True")

    def _positive(self, totals: list[float]) -> Array:
        if not sum(totals) > 0:
            raise InvalidInputError("every entry of the matrix is zero: there is nothing to draw")
        return np.array(totals)


def split(totals: Array, r: Array) -> tuple[Array, Array]:
    """A block for each uniform ``r`` by the blocks' totals, and what is left of it inside the block's total."""
    if len(totals) == 1:
        return np.zeros(len(r), np.int64), r * totals[0]
    sums = np.cumsum(totals)
    u = r * sums[-1]
    which = np.minimum(np.searchsorted(sums, u, side="right"), np.flatnonzero(totals)[-1])
    return which, u - (sums - totals)[which]


def refuse_zero(weights: Array, which: Array, what: str) -> None:
    if weights.size and not weights.min() > 0:
        bad = which.reshape(-1)[int(np.argmin(weights))]
        raise InvalidInputError(f"{what} {bad} is zero, or its squares are: there is nothing to draw in it")
