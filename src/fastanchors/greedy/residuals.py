"""Squared distances of all rows to the span of the chosen directions, as accurate as SPA needs them.

Every row has a value from the last time it was read, which bounds its residual from then on. The rows with the largest
values form a *pool* that is kept in memory and up to date. As long as the best of the pool exceeds the largest value
outside it (the *ceiling*), no other row is read. Otherwise the ceiling is lowered and more rows join the pool. If they
would be too many, their values are updated in place (those of all rows, if they are many) and a new pool is formed. A
small matrix is entirely in the pool.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CorruptStoreError
from .lazy import MAX_REREAD_ROWS, Leaders, exact_leaders, level, seeds
from .reader import Reader, row_sums_of_squares
from .span import NEGLIGIBLE, Span
from .ties import TIE

__all__ = ["Residuals"]

_SMALL = 1 << 17  # largest number of entries of a matrix in memory that is entirely in the pool
_POOL = (1 << 15, 1 << 19)  # fewest and most entries of a full pool
_POOL_SHARE = 32  # one in this many entries is in a full pool
_FIRST = 2  # a new pool is a full one divided by this, then it doubles; dense rows in memory fill it at once
_MOST = 0.5  # if at least this fraction of the rows must be read, all are
_LEAST = -1e308  # values of candidates are above this
_SMALL_ERROR = 1e-2  # sufficient relative error if there is no rival


class Residuals(Span):
    """Squared distances of the rows to the span of the directions removed so far.

    Parameters
    ----------
    reader
        The rows.
    capacity
        The largest number of directions.
    eager
        Keep every row up to date, in :attr:`values`.
    lazy
        Use a pool of some rows, however small the matrix.
    """

    def __init__(self, reader: Reader, capacity: int, *, eager: bool = False, lazy: bool = False) -> None:
        super().__init__(reader, capacity)
        self._values = self.squared_norms.copy()  # from when a row was last read; −∞: not a candidate
        self._values[self.squared_norms == 0] = -np.inf
        self._seen: NDArray[np.int32] | int = 0  # number of directions removed: common to all rows, or per row
        self._single = reader.single
        self._pool: _Pool | None = None
        self._ceiling = np.inf
        if eager or (reader.nnz <= _SMALL and reader.in_memory and not lazy):
            single = reader.single and not eager
            rows = np.arange(reader.shape[0])
            self._pool = _Pool(rows, reader, self._values, self.squared_norms, single, reader.norm_error)
            self._ceiling = -np.inf
        self._all = self.squared_norms.copy() if eager else None

    @property
    def values(self) -> NDArray[np.float64]:
        """Squared residuals of all rows, candidates or not, in eager mode."""
        assert self._all is not None
        return self._all

    def candidates(self) -> NDArray[np.float64]:
        """Squared residuals of all rows in eager mode, −∞ for rows that are no longer candidates."""
        assert self._pool is not None
        return self._pool.values

    def front(self, among: NDArray[np.bool_]) -> tuple[NDArray[np.intp], NDArray[np.float64], float]:
        """Some candidates, upper bounds of their squared residuals, and one bound for all other candidates.

        Rows that are not ``among`` those marked are left out.
        """
        pool = self._pool
        if pool is None:
            rows = np.flatnonzero((self._values > -np.inf) & among)
            upper = self._values[rows]
            upper += self._error(self._single)
            return rows, upper, 0.0
        at = np.flatnonzero((pool.values > -np.inf) & among[pool.rows])
        return pool.rows[at], pool.values[at] + self._pool_error(), self._ceiling + self._error(self._single)

    def remove(self, q: NDArray[np.float64], projections: NDArray[np.float64] | None = None) -> None:
        """Remove the unit direction ``q``, orthogonal to the basis, from every row.

        ``projections`` are the products of all rows with it, in double precision, if already known.
        """
        super().remove(q)
        if self._pool is not None:
            squares = self._pool.project(q) if projections is None else projections.copy()
            squares *= squares
            self._pool.values -= squares
            if self._all is not None:
                self._all -= squares

    def bar(self, rows: NDArray[np.intp] | int) -> None:
        """Exclude those rows from the candidates."""
        self._values[rows] = -np.inf
        if self._pool is not None and self._pool.values is not self._values:
            self._pool.bar(rows)

    # --- leaders -------------------------------------------------------------------------------------------------

    def leaders(self, within: float = TIE, *, rough: bool = False) -> Leaders:
        """Every row that may be ``within`` that fraction of the largest, with accurate distances.

        The default covers the rows that :func:`~fastanchors.greedy.ties.choose` may compare. With ``rough`` the
        distance of a row without a rival may be less accurate, as its error bound states.
        """
        if self._pool is None and self._step == 0:
            return self._exact_leaders(within, rough)
        at = self._close_to_best(within)
        if at is None:
            if not self._gather(within):
                return self._exact_leaders(within, rough)
            at = self._close_to_best(within)
            if at is None:
                what = "the sums do not match the entries"
                raise CorruptStoreError(f"{what}; run fa.verify, and restore the store from a copy")
        return self._pool_leaders(at, within, rough)

    def largest(self) -> float:
        """The largest distance left among the candidates, or a bound of it if many rows would have to be read."""
        near, pool = self._close_to_best(TIE), self._pool
        if near is None:
            floor = self._floor()
            wanted = np.count_nonzero(self._values >= self._reach(floor, TIE))
            if wanted > min(MAX_REREAD_ROWS, self._capacity()):
                inside = -np.inf if pool is None else pool.best() + self._pool_error()
                outside = min(self._ceiling, float(self._values.max())) + self._error(self._single)
                return math.sqrt(max(0.0, inside, outside))
        elif near.size > MAX_REREAD_ROWS:
            assert pool is not None
            return math.sqrt(pool.best() + self._pool_error())
        values = self.leaders().values
        return math.sqrt(values.max()) if values.size else 0.0

    def _close_to_best(self, within: float) -> NDArray[np.intp] | None:
        """Positions in the pool that may be within that fraction of the largest; None if rows outside may be, too."""
        pool = self._pool
        if pool is None:
            return None
        error, best = self._pool_error(), pool.best()
        bound = (1 - within) * (best - error)
        if self._ceiling + self._error(self._single) > bound:
            return None
        return (pool.values >= bound - error).nonzero()[0] if best > -np.inf else np.zeros(0, dtype=np.intp)

    def _pool_leaders(self, at: NDArray[np.intp], within: float, rough: bool) -> Leaders:
        """The rows at those positions of the pool, with accurate distances."""
        pool = self._pool
        assert pool is not None
        rows, values, error = pool.rows[at], pool.values[at], self._pool_error()
        if at.size == 0:
            return Leaders(rows, values, values, values)
        if at.size == 1 and error <= (_SMALL_ERROR if rough else NEGLIGIBLE) * values[0]:
            return Leaders(rows, values, np.array([error]), pool.norms[at])
        self.reader.check_room(at.size)
        known = self.exact(rows)
        floor = (known.values - known.errors).max()
        return known.take(known.values + known.errors >= (1 - within) * floor)

    def _exact_leaders(self, within: float, rough: bool) -> Leaders:
        """The same without a pool: all rows whose value is near the largest are read."""
        error = self._error(self._single)
        floor = max(0.0, float(self._values.max()) - error)  # the largest values are up to date
        near = self._values >= (1 - within) * floor - error
        self.reader.check_room(int(np.count_nonzero(near)))
        pending = np.flatnonzero(near)
        if rough and pending.size == 1 and error <= _SMALL_ERROR * floor:
            values = self._values[pending]
            return Leaders(pending, values, np.array([error]), self.squared_norms[pending])
        return exact_leaders(pending, self._values[pending] + error, self.exact, floor, within)

    # --- the pool ------------------------------------------------------------------------------------------------

    def _error(self, single: bool) -> float:
        """Error bound of all squared residuals computed in that precision."""
        return self.slack(single=single) * self.largest_norm**2

    def _pool_error(self) -> float:
        """Error bound of all squared residuals in the pool."""
        assert self._pool is not None
        return (self.slack(single=self._pool.single) + self._pool.norm_error) * self.largest_norm**2

    def _capacity(self) -> int:
        """Number of rows of a full pool."""
        per_row, most = self.reader.per_row, self.reader.nnz // _POOL_SHARE
        return max(1, min(max(_POOL[0], most), _POOL[1]) // per_row)

    def _floor(self) -> float:
        """A lower bound of the largest squared residual."""
        if self._pool is not None:
            return max(0.0, self._pool.best() - self._pool_error())
        rows = seeds(self._values)
        if rows.size == 0:
            return 0.0
        known = self.exact(rows)
        return max(0.0, float((known.values - known.errors).max()))

    def _reach(self, floor: float, within: float) -> float:
        """Rows with at least this value must be in the pool if the largest squared residual is at least ``floor``."""
        pool_error = self._error(self._in_single(floor))
        return (1 - within) * (floor - 2 * pool_error) - 2 * self._error(self._single)

    def _in_single(self, floor: float) -> bool:
        """Whether a pool in single precision is accurate enough if the largest squared residual is about ``floor``."""
        return self._single and 64 * self._error(True) < floor

    def _gather(self, within: float) -> bool:
        """Form a pool that contains all leaders; False if there are too many."""
        # The first direction is common to all rows: dense rows are all read, unless they are on disk.
        reader = self.reader
        at_hand = not reader.sparse and (reader.at_hand or not reader.data.in_process)
        common = self._step == 1 and self._pool is None and at_hand
        size = 0 if self._pool is None else len(self._pool.rows)
        capacity, floor = self._capacity(), np.inf if common else self._floor()
        while True:
            reach = -np.inf if floor == np.inf else self._reach(floor, within)
            wanted = None if floor == np.inf else np.flatnonzero(self._values >= reach)
            if wanted is not None and wanted.size <= capacity and reader.fits(wanted):
                break
            best = self._look(wanted, floor)
            if best is None:
                self._pool, self._ceiling = None, np.inf
                return False
            size, floor = 0, max(0.0, best - self._error(self._single))
        first = capacity if reader.in_memory and not reader.sparse else capacity // _FIRST
        some = level(self._values, min(capacity, max(1, 2 * size, first)))
        rows = wanted if some >= reach else np.flatnonzero(self._values >= max(some, _LEAST))
        if rows.size > 2 * capacity or not reader.fits(rows):  # many have equal values, or many entries
            some, rows = reach, wanted
        self._fill(rows, self._in_single(floor))
        self._ceiling = min(reach, some)
        return True

    def _look(self, rows: NDArray[np.intp] | None, floor: float) -> float | None:
        """Update the values of those rows (None: all); return the largest, or None if all were up to date.

        If most rows are wanted, all are updated, which costs no more.
        """
        single = self._single and 4 * self._error(True) < floor
        if rows is not None and single == self._single:
            if isinstance(self._seen, int):
                rows = rows if self._seen < self._step else rows[:0]
            else:
                rows = rows[self._seen[rows] < self._step]
            if rows.size == 0:
                return None
            if rows.size < self._most() * self._values.size:
                return self._look_at_some(rows, single)
        if isinstance(self._seen, int) and single == self._single:
            missed = self._directions[self._seen : self._step]
            self._values -= self.reader.removed(None, missed, single=single)[1]
        else:
            squares, removed = self.reader.removed(None, self.basis, single=single)
            barred = self._values == -np.inf
            self._values = squares - removed
            self._values[barred] = -np.inf
        self._seen, self._single = self._step, single
        return float(self._values.max())

    def _most(self) -> float:
        """Fraction of wanted rows from which all are read: reading dense rows at hand in order is cheap."""
        if self.reader.sparse or not self.reader.at_hand:
            return _MOST
        last = self._step >= len(self._directions) - 1
        return _MOST if last else 0.0  # further steps would need other rows

    def _look_at_some(self, rows: NDArray[np.intp], single: bool) -> float:
        squares, removed = self.reader.removed(rows, self.basis, single=single)
        values = squares - removed
        self._values[rows] = values
        if isinstance(self._seen, int):
            self._seen = np.full(self._values.size, self._seen, dtype=np.int32)
        self._seen[rows] = self._step
        return float(values.max())

    def _rough(self, rows: NDArray[np.intp], floor: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Squared distances of those rows and error bounds; far below ``floor`` they may be inaccurate."""
        single = self.reader.single and 4 * self._error(True) < floor
        squares, removed = self.reader.removed(rows, self.basis, single=single)
        return squares - removed, self.slack(single=single) * squares

    def _fill(self, rows: NDArray[np.intp], single: bool) -> None:
        """Make those rows the pool, with current values."""
        self.reader.looks += rows.size
        matrix = self.reader.raw(rows, single=single)
        norms = self.squared_norms[rows] if single else _squared_norms(matrix)
        products = matrix @ np.ascontiguousarray(self.basis.T, dtype=matrix.dtype)
        self._pool = _Pool(rows, matrix, norms - row_sums_of_squares(products), norms, single)


class _Pool:
    """Rows in memory: their squared norms, and squared residuals that are always up to date, −∞ if excluded."""

    def __init__(
        self,
        rows: NDArray[np.intp],
        matrix: Any,
        values: NDArray[np.float64],
        norms: NDArray[np.float64],
        single: bool,
        norm_error: float = 0.0,  # beyond that of the precision of its products
    ) -> None:
        self.rows, self.values, self.norms, self.single, self.norm_error = rows, values, norms, single, norm_error
        self._matrix = matrix

    def project(self, q: NDArray[np.float64]) -> NDArray[Any]:
        """a·q for its rows."""
        if isinstance(self._matrix, Reader):
            return self._matrix.project_all(q, single=self.single)
        return np.asarray(self._matrix @ q.astype(self._matrix.dtype, copy=False))

    def best(self) -> float:
        """The largest squared residual."""
        return float(self.values[self.values.argmax()]) if self.values.size else -np.inf

    def bar(self, rows: NDArray[np.intp] | int) -> None:
        at = self.rows.searchsorted(rows)
        if isinstance(rows, int):
            if at < len(self.rows) and self.rows[at] == rows:
                self.values[at] = -np.inf
        else:
            at = np.minimum(at, len(self.rows) - 1)
            self.values[at[self.rows[at] == rows]] = -np.inf


def _squared_norms(matrix: Any) -> NDArray[np.float64]:
    if isinstance(matrix, np.ndarray):
        return np.asarray(np.einsum("ij,ij->i", matrix, matrix), dtype=np.float64)
    return np.asarray(matrix.multiply(matrix).sum(axis=1))
