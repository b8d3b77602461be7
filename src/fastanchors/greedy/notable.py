"""Find the rows of a tall matrix that its summary keeps: the extreme ones and a sample, in one pass.

Dense rows are first projected in single precision, with a bound of the rounding error. Only rows that may be extreme
within that bound, and those of the sample, are projected in double precision; the others cost no copy in double
precision. The result is that of double precision.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..matrix import RowMatrix, Rows
from ..matrix.contract import SINGLE
from .anchoring import SAMPLE, spread_of_noise
from .coordinates import Coordinates, Frame, block_coordinates, check_not_negative, products
from .extremes import Extremes, towards

__all__ = ["Notable", "filled_rows", "notable_rows"]

_PIECE = 1 << 18  # entries projected together: they stay in the cache
_FIRST = 4096  # rows of the pilot that set the first thresholds
#: Rounding errors of a sum of n products are below 8·√n·(unit roundoff) with a probability of 1 − 3e-14 (Higham and
#: Mary, A new approach to probabilistic rounding error analysis, SIAM J. Sci. Comput. 2019, Theorem 2.4).
_LIKELY = 8.0
_STEPS = 32  # roundings of an entry before the product: those of its sum, the quotient, centre and scale
_ROUNDING = 1e-6  # spread along a direction, relative to the largest, that may be rounding
_MANY = 0.5  # if so many rows may be extreme within the errors of single precision, all are projected in double
_SPARSELY = 50  # NumPy draws one row in this many without a permutation of all
_SUMS = (1e-30, 1e30)  # rows with sums outside are projected in double precision

_Floats = NDArray[np.float32]
_Array = NDArray[np.float64]


class Notable:
    """Extreme and sampled rows of a part of a matrix, and their coordinates."""

    def __init__(self, extremes: Extremes, drawn: NDArray[np.int64], parts: list[tuple[Any, ...]]) -> None:
        self.extremes, self.drawn = extremes, drawn
        rows = np.concatenate([part[0] for part in parts])
        keep = np.isin(rows, np.union1d(extremes.rows(), drawn))
        self.rows = rows[keep]
        self.kept = [np.concatenate([part[i] for part in parts])[keep] for i in (1, 2, 3)]
        self.filled = sum(part[4] for part in parts)

    def coordinates(self, frame: Frame) -> Coordinates:
        return Coordinates(frame, *self.kept)

    def sample(self) -> NDArray[np.int64]:
        """The sampled rows that are not zero."""
        return np.intersect1d(self.drawn, self.rows)


def filled_rows(start: int, block: Rows, frame: Frame) -> tuple[NDArray[Any], ...]:
    """The nonzero rows of a block, and their coordinates. Raises if an entry is negative."""
    check_not_negative(block)
    values, left, sums = block_coordinates(start, block, frame)
    full = np.flatnonzero(sums > 0)
    return start + full, values[full], left[full], sums[full]


def notable_rows(
    matrix: RowMatrix, frame: Frame, pilot: Rows, filled: float, *, most_drawn: int = sys.maxsize
) -> Notable:
    """The extreme rows of a matrix and a uniform sample of its rows.

    ``pilot`` are some of its rows that are not zero, ``filled`` about the fraction of rows that are not zero. Of a
    matrix of which nearly all rows are zero, at most ``most_drawn`` rows are drawn. Raises if an entry is negative.
    """
    some = pilot[:: max(1, pilot.shape[0] // _FIRST)]
    values, left, _ = block_coordinates(0, some, frame)
    spread = values.std(axis=0)
    varying = int(np.count_nonzero(spread > _ROUNDING * spread.max()))
    extremes = Extremes(towards(values, among=max(1, varying)))
    extremes.look(values, spread_of_noise(frame, left), np.arange(len(values)))
    extremes.rows()
    # The rows of the matrix include those of the pilot, so they reach at least as far, up to rounding.
    extremes.floor -= np.float32(1e-4) * np.abs(extremes.floor)
    m = matrix.shape[0]
    drawn = _drawn(m, int(SAMPLE / filled), most_drawn)
    rough = _Rough(frame, single=not sp.issparse(pilot))
    rough.single = rough.single and bool(rough.candidates(some, extremes)[1].mean() < _MANY)
    found = matrix.map_parts(_look, rough, extremes.directions, extremes.floor, np.sort(drawn))
    first = found[0]
    for other in found[1:]:
        first.extremes.merge(other.extremes)
    return Notable(first.extremes, first.drawn, [(each.rows, *each.kept, each.filled) for each in found])


def _drawn(m: int, count: int, most: int) -> NDArray[np.int64]:
    """About ``count`` of m rows, but not more than ``most``."""
    rng = np.random.default_rng(0)
    if m <= most or count <= min(most, m // _SPARSELY):
        return rng.choice(m, min(m, count), replace=False)
    return np.unique(rng.integers(0, m, min(count, most)))  # NumPy would permute all m


def _look(
    part: RowMatrix, first: int, rough: _Rough, directions: _Floats, floor: _Floats, drawn: NDArray[np.int64]
) -> Notable:
    """The notable rows of one part, whose first row is row ``first`` of the matrix."""
    extremes = Extremes(directions)
    extremes.floor = floor
    frame = rough.frame

    def look(start: int, block: Rows, divisors: _Array | None) -> tuple[Any, ...]:
        if divisors is None:  # rows with divisors have been checked: their sums are those of absolute values
            check_not_negative(block)
        filled, wanted = rough.candidates(block, extremes)
        here = slice(*np.searchsorted(drawn, [first + start, first + start + block.shape[0]]))
        sampled = np.zeros(len(wanted), np.bool_)
        sampled[drawn[here] - (first + start)] = True
        at = np.flatnonzero(wanted | sampled)
        places, values, left, sums = filled_rows(0, _of_the_view(block, divisors, at), frame)
        at = at[places]
        rows = first + start + at
        keep = np.flatnonzero(extremes.look(values, spread_of_noise(frame, left), rows) | sampled[at])
        return rows[keep], values[keep], left[keep], sums[keep], filled

    return Notable(extremes, drawn, part.map_stored(look, block_rows=part.default_block_rows()))


def _of_the_view(block: Rows, divisors: _Array | None, at: NDArray[np.intp]) -> Rows:
    """Some rows of a block of stored rows, as those of the view: divided in double precision, and rounded."""
    if divisors is None:
        return block[at]
    by = divisors[at]
    quotients = block[at] / np.where(by > 0, by, 1.0)[:, None]
    return quotients.astype(block.dtype if block.dtype.kind == "f" else np.float64, copy=False)


class _Rough:
    """Projections of rows in the coordinates of a frame: of dense rows in single precision, where that is enough."""

    def __init__(self, frame: Frame, *, single: bool) -> None:
        self.frame = frame
        self.single = single
        self.centre = frame.centre.astype(np.float32)
        self.directions = frame.directions.astype(np.float32) if single else np.empty((0, 0), np.float32)
        self.scale = frame.scale.astype(np.float32) if frame.exponent else None
        self.length = float(np.linalg.norm(frame.centre * frame.scale))
        self.relative = SINGLE * (_LIKELY * math.sqrt(len(frame.centre)) + _STEPS)

    def candidates(self, block: Rows, extremes: Extremes) -> tuple[int, NDArray[np.bool_]]:
        """The number of rows that are not zero, and which rows may be extreme."""
        if sp.issparse(block) or not self.single:
            values, left, sums = block_coordinates(0, block, self.frame)
            full = sums > 0
            return int(full.sum()), full & extremes.within_reach(values, -spread_of_noise(self.frame, left))
        wanted = np.zeros(len(block), np.bool_)
        step = max(1, _PIECE // block.shape[1])
        z = np.empty((min(step, len(block)), block.shape[1]), np.float32)
        filled = 0
        with np.errstate(all="ignore"):  # of rows that are projected in double precision
            for start in range(0, len(block), step):
                piece = block[start : start + step]
                count, wanted[start : start + step] = self._dense(piece, z[: len(piece)], extremes)
                filled += count
        return filled, wanted

    def _dense(self, block: NDArray[Any], z: _Floats, extremes: Extremes) -> tuple[int, NDArray[np.bool_]]:
        single = block.dtype == np.float32 and block.flags.c_contiguous  # then sums are pairwise
        sums = block.sum(axis=1, dtype=np.float32 if single else np.float64)
        full = sums > 0
        np.multiply(block, (1 / sums)[:, None], out=z, casting="unsafe")
        z -= self.centre
        if self.scale is not None:
            z *= self.scale
        squares = np.vecdot(z, z)
        values = products(z, self.directions)
        length = np.sqrt(squares)
        error = self.relative * length + SINGLE * _STEPS * self.length
        least = squares - np.vecdot(values, values) - 6 * error * length  # of the residual beyond the directions
        noise = spread_of_noise(self.frame, np.maximum(least, 0.0))
        known = np.isfinite(squares) & (sums > _SUMS[0]) & (sums < _SUMS[1])
        values[~known] = 0.0
        near = extremes.within_reach(values, np.where(known, error - noise, -np.inf))
        return int(full.sum()), full & (near | ~known)
