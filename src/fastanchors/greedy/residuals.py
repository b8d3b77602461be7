"""Squared distances of all rows to the span of the chosen directions: what SPA needs.

A rough look takes u = ‖a‖² − Σ (a·q_j)². With |fl(a·q) − a·q| ≤ δ·‖a‖ for unit q, where δ = (terms + 2)·(unit roundoff)
whatever the order of the sum, u is known to within (2·√t·δ + t·δ²)·‖a‖² after t directions, and the error of ‖a‖² is
added. An exact look projects the row out in double precision, twice, which leaves an error of about γ·(largest
norm)·√u only. So the choice is that of exact arithmetic as long as √u is well above γ·(largest norm).

A pool of the rows of largest bound is kept at hand and up to date. As long as the best of it is farther out than the
largest bound outside (the *ceiling*), no other row is asked. A small matrix is all pool.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .lazy import WORTH_TELLING, Distances, Leaders, level
from .reader import DOUBLE, SINGLE, Reader
from .ties import TIE

__all__ = ["Residuals"]

_SMALL = 1 << 19  # entries of a matrix in memory that is all pool
_POOL = (1 << 17, 1 << 18)  # fewest and most entries of a pool
_POOL_SHARE = 64  # of so many entries one is in the pool
_SMALL_ERROR = 1e-2  # the same where there is no rival
_NEGLIGIBLE = 1e-9  # relative error of a squared residual that cannot matter beside TIE
_CHUNK = 1 << 20  # entries in double precision projected out together
_SHRUNK = 1e-5  # what is left of a point so small beside it is made orthogonal once more


class Residuals(Distances):
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
        Keep no pool, however small the matrix.
    """

    _most = 0.5  # a look is cheap

    def __init__(self, reader: Reader, capacity: int, *, eager: bool = False, lazy: bool = False) -> None:
        super().__init__(reader)
        m, n = reader.shape
        self._directions = np.empty((capacity, n))
        self._pool: _Pool | None = None
        if eager or (reader.nnz <= _SMALL and reader.in_memory and not lazy):
            single = reader.single and not eager
            self._pool = _Pool(np.arange(m), reader, self.squared_norms, reader.norm_error, single)
            self._pool.values[self.squared_norms == 0] = -np.inf
        self._ceiling = -np.inf if self._pool is not None else np.inf
        self._all = self.squared_norms.copy() if eager else None

    @property
    def basis(self) -> NDArray[np.float64]:
        """The removed directions, orthonormal, one per row."""
        return self._directions[: self._step]

    @property
    def values(self) -> NDArray[np.float64]:
        """Squared residuals of all rows, candidates or not, where they are kept (``eager``)."""
        assert self._all is not None
        return self._all

    def candidates(self) -> NDArray[np.float64]:
        """Squared residuals of all rows in eager mode, −∞ for rows that are no longer candidates."""
        assert self._pool is not None
        return self._pool.values

    def upper(self) -> NDArray[np.float64]:
        """Upper bounds of the squared residuals of all candidates, as far as they are known; zero for other rows."""
        upper = self._upper.copy()
        if self._pool is not None:
            upper[self._pool.rows] = np.minimum(upper[self._pool.rows], self._pool.values + self._pool_error())
        return np.maximum(upper, 0.0)

    # --- looks ---------------------------------------------------------------------------------------------------

    def slack(self, *, single: bool) -> float:
        """What ‖a‖² − Σ (a·q)² may be wrong by, relative to ‖a‖²."""
        unit = SINGLE if single else DOUBLE
        delta, t = (self.reader.terms + 2) * unit, self._step
        norm_error = self.reader.norm_error if single else delta
        return 1.01 * (2 * math.sqrt(t) * delta + t * delta * delta + norm_error + (t + 2) * unit)

    def _rough(self, rows: NDArray[np.intp] | None, floor: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        slack = self.slack(single=True)
        single = self.reader.single and 4 * slack * self.largest_norm**2 < floor
        slack = slack if single else self.slack(single=False)
        squares, removed = self.reader.removed(rows, self.basis, single=single)
        return squares - removed, slack * squares

    def exact(self, rows: NDArray[np.intp]) -> Leaders:
        if not self.reader.sparse:
            return self._projected_out(rows)
        squares, removed = self.reader.removed(rows, self.basis, single=False)
        looked = Leaders(rows, squares - removed, self.slack(single=False) * squares, squares)
        doubtful = np.flatnonzero(looked.errors > _NEGLIGIBLE * looked.values)
        if doubtful.size:
            better = self._projected_out(rows[doubtful])
            looked.values[doubtful], looked.errors[doubtful] = better.values, better.errors
        return looked

    def _projected_out(self, rows: NDArray[np.intp]) -> Leaders:
        values, norms = np.empty(rows.size), np.empty(rows.size)
        step = max(1, _CHUNK // self.reader.shape[1])
        for start in range(0, rows.size, step):
            place = slice(start, start + step)
            points = self.reader.rows(rows[place])
            norms[place] = np.einsum("ij,ij->i", points, points)
            rest = self.off_basis(points)
            values[place] = np.einsum("ij,ij->i", rest, rest)
        gamma = self.gamma
        return Leaders(rows, values, gamma * (2 * np.sqrt(values) + gamma), norms)

    @property
    def gamma(self) -> float:
        """What an exact residual norm may be wrong by."""
        return (self.reader.terms + 2 * self._step + 2) * DOUBLE * self.largest_norm

    # --- directions ----------------------------------------------------------------------------------------------

    def off_basis(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """The points less their projection on the basis; done twice, which is enough (Kahan, Parlett)."""
        basis = self.basis
        if self._step:
            for _ in range(2):
                points = points - (points @ basis.T) @ basis
        return points

    def direction(self, point: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        """The unit residual of a point, orthogonal to the basis to machine precision, and its size."""
        rest = self.off_basis(point)
        size = math.sqrt(rest @ rest)
        q = rest / size
        if size * size < _SHRUNK**2 * (point @ point):
            q = self.off_basis(q)
            q /= math.sqrt(q @ q)
        return q, size

    def remove(self, q: NDArray[np.float64], projections: NDArray[np.float64] | None = None) -> None:
        """Take the unit direction ``q``, orthogonal to the basis, out of every row.

        ``projections`` are the products of all rows with it, in double precision, where they are known already.
        """
        self._directions[self._step] = q
        self._step += 1
        if self._pool is not None:
            products = self._pool.project(q) if projections is None else projections
            squares = products * products
            self._pool.values -= squares
            if self._all is not None:
                self._all -= squares

    def bar(self, rows: NDArray[np.intp] | int) -> None:
        super().bar(rows)
        if self._pool is not None:
            self._pool.bar(rows)

    # --- leaders -------------------------------------------------------------------------------------------------

    def leaders(self, within: float = TIE, *, rough: bool = False) -> Leaders:
        leaders = self._of_the_pool(within, rough)
        if leaders is not None:
            return leaders
        floor = self._bring_up_to_date(self._first_floor())
        if self._step == 0:  # the first direction is common to all rows: a pool of the longest would soon be empty
            return self._told_apart(floor, within)
        self._refill(floor)
        leaders = self._of_the_pool(within, rough)
        return self._told_apart(floor, within) if leaders is None else leaders

    def largest(self) -> float:
        near = self._near_the_best(TIE)
        if near is None:
            return super().largest()
        if near.size > WORTH_TELLING:
            assert self._pool is not None
            return math.sqrt(self._pool.best() + self._pool_error())
        values = self.leaders().values
        return math.sqrt(values.max()) if values.size else 0.0

    def _first_floor(self) -> float:
        if self._pool is None or self._step == 0:
            return super()._first_floor()
        return max(0.0, self._pool.best() - self._pool_error())

    def _pool_error(self) -> float:
        """Of all squared residuals in the pool."""
        assert self._pool is not None
        return (self.slack(single=self._pool.single) + self._pool.norm_error) * self.largest_norm**2

    def _near_the_best(self, within: float) -> NDArray[np.intp] | None:
        """Places in the pool that may be within that fraction of the largest; None where others may be as well."""
        pool = self._pool
        if pool is None:
            return None
        error, best = self._pool_error(), pool.best()
        bound = (1 - within) * (best - error) - error
        if self._ceiling > bound:
            return None
        return (pool.values >= bound).nonzero()[0] if best > -np.inf else np.zeros(0, dtype=np.intp)

    def _of_the_pool(self, within: float, rough: bool) -> Leaders | None:
        """The leaders, where the pool has them all."""
        at, pool = self._near_the_best(within), self._pool
        if at is None or pool is None:
            return None
        rows, values, error = pool.rows[at], pool.values[at], self._pool_error()
        if at.size == 0:
            return Leaders(rows, values, values, values)
        if at.size == 1 and error <= (_SMALL_ERROR if rough else _NEGLIGIBLE) * values[0]:
            return Leaders(rows, values, np.array([error]), pool.norms[at])
        looked = self.exact(rows)
        floor = (looked.values - looked.errors).max()
        return looked.take(looked.values + looked.errors >= (1 - within) * floor)

    def _refill(self, floor: float) -> None:
        """Take the rows of largest bound into the pool."""
        m, n = self.reader.shape
        per_row = max(1, self.reader.nnz // m) if self.reader.sparse else n
        count = min(max(_POOL[0], m * per_row // _POOL_SHARE), _POOL[1]) // per_row
        rows = np.flatnonzero(self._upper >= max(0.0, level(self._upper, count)))
        if rows.size > 4 * count:  # too many are alike
            self._pool, self._ceiling = None, np.inf
            return
        single = self.reader.single and 64 * self.slack(single=True) * self.largest_norm**2 < floor
        matrix = self.reader.raw(rows, single=single)
        norms = self.squared_norms[rows] if single else _squared_norms(matrix)
        norm_error = self.reader.norm_error if single else (self.reader.terms + 2) * DOUBLE
        self._pool = _Pool(rows, matrix, norms, norm_error, single)
        if self._step:
            self._pool.values -= _squared_norms(matrix @ np.ascontiguousarray(self.basis.T, dtype=matrix.dtype))
        kept = self._upper[rows]
        self._upper[rows] = -np.inf
        self._ceiling = float(self._upper.max())
        self._upper[rows] = kept


class _Pool:
    """Rows at hand: their squared norms, and squared residuals that are always up to date, −∞ where barred."""

    def __init__(
        self,
        rows: NDArray[np.intp],
        matrix: Any,
        norms: NDArray[np.float64],
        norm_error: float,
        single: bool = False,
    ) -> None:
        self.rows, self.norms, self.norm_error, self.single = rows, norms, norm_error, single
        self.values = norms.copy()
        self._matrix = matrix

    def project(self, q: NDArray[np.float64]) -> NDArray[np.float64]:
        """a·q of its rows."""
        if isinstance(self._matrix, Reader):
            return self._matrix.project_all(q, single=self.single)
        return np.asarray(self._matrix @ q.astype(self._matrix.dtype, copy=False))

    def best(self) -> float:
        """The largest squared residual."""
        return float(self.values[self.values.argmax()]) if self.values.size else -np.inf

    def bar(self, rows: NDArray[np.intp] | int) -> None:
        if isinstance(self._matrix, Reader):
            self.values[rows] = -np.inf
        else:
            rows = np.atleast_1d(rows)
            at = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
            self.values[at[self.rows[at] == rows]] = -np.inf


def _squared_norms(matrix: Any) -> NDArray[np.float64]:
    if isinstance(matrix, np.ndarray):
        return np.asarray(np.einsum("ij,ij->i", matrix, matrix), dtype=np.float64)
    return np.asarray(matrix.multiply(matrix).sum(axis=1))
