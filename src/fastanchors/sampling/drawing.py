"""The four kinds of draw of Proposition 1, from a stack of blocks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._rng import RngLike, as_generator
from .._validate import check_draws, check_index
from ..errors import CorruptStoreError, InvalidInputError
from .access_guard import reads
from .block_stack_kernels import choose_blocks, split_uniforms
from .queries import Queries
from .segment_trees import Array
from .threads import in_chunks

__all__ = ["Draws", "refuse_zero", "split"]

_CHUNK = 1 << 20  # draws made at a time, to bound the working memory
_ATTEMPTS = 10_000  # an attempt is accepted with probability 1/16 at least
_SUMS = 1 << 22  # column weights (columns × blocks) in memory at a time


class Draws(Queries):
    """Draws of rows, of columns, inside rows and inside columns; exact, also after updates."""

    @abstractmethod
    def _holding(self, rows: Array) -> Array:
        """The block of each row."""

    @abstractmethod
    def _drawn(
        self, method: str, which: Array, *arguments: Array, numbered: bool = False, dtype: Any = np.int64
    ) -> Array:
        """``block.method(*arguments)`` for the positions where each block occurs in ``which``.

        With ``numbered`` the results are row numbers of the matrix.
        """

    @abstractmethod
    def _column_weights(self, columns: Array) -> list[Array]:
        """The weights of the columns in each block."""

    @reads
    def sample_rows(self, size: int | None = None, *, rng: RngLike = None) -> Any:
        """Rows with probability ‖A_(i)‖² / ‖A‖_F². O(log m) each."""
        generator = as_generator(rng)
        totals = self._positive([block.row_total for block in self._blocks])

        def draw(count: int) -> Array:
            return self._drawn("draw_rows", *split(totals, np.asarray(generator.random(count))), numbered=True)

        return self._many(draw, size)

    @reads
    def sample_columns(self, size: int | None = None, *, rng: RngLike = None) -> Any:
        """Columns with probability ‖A^(j)‖² / ‖A‖_F². O(log n) each.

        If rows were updated under ``"l1"``, a row is drawn along with the column, and the pair is accepted with the
        probability that corrects the stale weight of that row in the column trees (at least 1/16).
        """
        self._need_columns()
        generator = as_generator(rng)
        totals = self._positive([block.column_total for block in self._blocks])

        def draw(count: int) -> tuple[Array, Array]:
            which, u = split(totals, generator.random(count))
            columns = self._drawn("draw_columns", which, u)
            r, chance = self._to_accept(count, generator)
            at = self._drifted(which)
            rows = self._drawn("draw_in_column", which[at], columns[at], r[at]) if at.size else at
            return columns, self._accepted(which, at, rows, chance)

        return self._many(lambda count: _until_accepted(lambda at: draw(len(at)), count), size)

    def _to_accept(self, count: int, generator: np.random.Generator) -> Array:
        """Two uniforms per draw if some column draws need an acceptance test, else none."""
        drifted = any(block.drifted for block in self._blocks)
        return generator.random((2, count if drifted else 0))

    def _drifted(self, which: Array) -> Array:
        """The positions of draws that need an acceptance test."""
        drifted = np.array([block.drifted for block in self._blocks])
        return np.flatnonzero(drifted[which]) if drifted.any() else np.zeros(0, np.int64)

    def _accepted(self, which: Array, at: Array, rows: Array, chance: Array) -> Array:
        """Whether each draw is accepted; those at ``at`` need a test, for ``rows`` of their blocks."""
        accepted = np.ones(len(which), bool)
        if at.size:
            accepted[at] = chance[at] < self._drawn("acceptance", which[at], rows, dtype=np.float64)
        return accepted

    @reads
    def sample_in_row(self, i: ArrayLike, size: int | None = None, *, rng: RngLike = None) -> Any:
        """Columns with probability A_ij² / ‖A_(i)‖²; for an array ``i`` of shape s, an array s + (size,)."""
        generator = as_generator(rng)
        rows = check_index(i, self.shape[0], name="row")
        refuse_zero(self._by_row(rows.reshape(-1), "row_weights"), rows, "row")

        def draw(rows: Array) -> Array:
            which, r = self._holding(rows), generator.random(len(rows))
            local = rows if len(self._blocks) == 1 else rows - self._starts[which]
            return self._drawn("draw_in_row", which, local, r)

        return self._many_in(draw, rows, size)

    @reads
    def sample_in_column(self, j: ArrayLike, size: int | None = None, *, rng: RngLike = None) -> Any:
        """Rows with probability A_ij² / ‖A^(j)‖²; for an array ``j`` of shape s, an array s + (size,)."""
        self._need_columns()
        generator = as_generator(rng)
        columns = check_index(j, self.shape[1], name="column")

        def draw(columns: Array) -> tuple[Array, Array]:
            which, r = self._blocks_of(columns, generator), generator.random(len(columns))
            rows = self._drawn("draw_in_column", which, columns, r, numbered=True)
            _, chance = self._to_accept(len(columns), generator)
            at = self._drifted(which)
            return rows, self._accepted(which, at, rows[at] - self._starts[which[at]], chance)

        def exact(columns: Array) -> Array:
            return _until_accepted(lambda at: draw(columns[at]), len(columns))

        return self._many_in(exact, columns, size)

    def _blocks_of(self, columns: Array, generator: np.random.Generator) -> Array:
        """A block for each column, drawn by the column's weight in it; raises if the column is zero."""
        which = np.zeros(len(columns), np.int32)
        n, blocks = self.shape[1], len(self._blocks)
        if blocks == 1:
            refuse_zero(self._column_weights(columns)[0], columns, "column")
            return which
        r = generator.random(len(columns))
        step = max(1, _SUMS // blocks)
        if n <= min(step, len(columns)):  # fewer columns than draws: compute the sums of all columns once
            sums = self._running_sums(np.arange(n))
            refuse_zero(sums[columns, -1], columns, "column")
            in_chunks(lambda low, high: choose_blocks(sums, columns[low:high], r[low:high], which[low:high]), len(r))
            return which
        for start in range(0, len(columns), step):
            at = slice(start, start + step)
            sums = self._running_sums(columns[at])
            refuse_zero(sums[:, -1], columns[at], "column")
            choose_blocks(sums, np.arange(len(sums)), r[at], which[at])
        return which

    def _running_sums(self, columns: Array) -> Array:
        """Cumulative sums of the column weights over the blocks: one line per column."""
        sums = np.stack(self._column_weights(columns), axis=1)
        return np.cumsum(sums, axis=1, out=sums)

    def _many(self, draw: Any, size: int | None) -> Any:
        count = 1 if size is None else check_draws(size)
        self.cost.samples += count
        out = np.empty(count, np.int64)
        for start in range(0, count, _CHUNK):
            out[start : start + _CHUNK] = draw(min(_CHUNK, count - start))
        return int(out[0]) if size is None else out

    def _many_in(self, draw: Any, which: Array, size: int | None) -> Any:
        each = 1 if size is None else check_draws(size, each=max(1, which.size))
        flat = np.repeat(which.reshape(-1).astype(np.int64, copy=False), each)
        self.cost.samples += len(flat)
        out = np.empty(len(flat), np.int64)
        for start in range(0, len(flat), _CHUNK):
            out[start : start + _CHUNK] = draw(flat[start : start + _CHUNK])
        if size is None:
            return int(out[0]) if which.shape == () else out.reshape(which.shape)
        return out.reshape((*which.shape, each))

    def _positive(self, totals: list[float]) -> Array:
        if not sum(totals) > 0:
            raise InvalidInputError("every entry of the matrix is zero: there is nothing to sample from")
        return np.array(totals)


def _until_accepted(attempt: Callable[[Array], tuple[Array, Array]], count: int) -> Array:
    """Draw ``count`` times; draws that are not accepted are repeated."""
    pending = np.arange(count)
    out, accepted = attempt(pending)
    for _ in range(_ATTEMPTS):
        if accepted.all():
            return out
        pending = pending[~accepted]
        out[pending], accepted = attempt(pending)
    raise CorruptStoreError("the sums do not match the entries; run fa.verify, and restore the store from a copy")


def split(totals: Array, r: Array) -> tuple[Array, Array]:
    """A block for each uniform ``r``, drawn by the totals of the blocks, and the remainder inside that total."""
    which = np.zeros(len(r), np.int32)
    if len(totals) == 1:
        return which, r * totals[0]
    sums = np.cumsum(totals)
    below, last, u = np.append(0.0, sums[:-1]), int(np.flatnonzero(totals)[-1]), np.empty(len(r))

    def work(low: int, high: int) -> None:
        split_uniforms(below, sums[-1], last, r[low:high], which[low:high], u[low:high])

    in_chunks(work, len(r))
    return which, u


def refuse_zero(weights: Array, which: Array, what: str) -> None:
    if weights.size and not weights.min() > 0:
        bad = which.reshape(-1)[int(np.argmin(weights))]
        raise InvalidInputError(f"{what} {bad} is zero, or its squares underflow: there is nothing to sample from")
