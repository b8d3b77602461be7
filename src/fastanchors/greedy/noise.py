"""Estimate the noise of each row from its residual beyond the leading directions, and find columns that are noisier.

The noise of a column is estimated by regression on the other columns. With R the matrix of second moments of the rows,
the mean square residual of column b after least squares on all other columns is 1/(R⁻¹)_bb (Roger and Arnold, *Reliably
estimating the noise in AVIRIS hyperspectral images*, Int. J. Remote Sens. 1996; HySime, Bioucas-Dias and Nascimento,
IEEE TGRS 2008).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInputError

__all__ = ["ROUNDING", "Noise", "can_estimate", "estimate_noise", "excess_noise"]

_NONE = 1e-12  # squared noise, relative to the squared spread of the rows, that is rounding
ROUNDING = 1e-6  # the smallest noise of a row, relative to that spread
_FREEDOM = 1  # smallest number of residual dimensions in which noise can be detected
_NEGLIGIBLE = 0.03  # relative noise below which a single row is as good as a mean
_PRIOR = 4.0  # weight of the typical row in the estimate of each row, in dimensions
_NOISY = 5.0  # a column is noisy if its noise is more than this multiple of that of the median column…
_CLEAN = 0.01  # …and more than this fraction of its size
_MOST = 0.2  # largest fraction of noisy columns: the noisiest
_SUPPORT = 2  # minimum number of rows per column; with fewer, other columns explain everything
_COLUMNS = 8  # with fewer, there is no typical column

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Noise:
    """The noise of rows in the leading coordinates.

    Attributes
    ----------
    each
        Standard deviation of each row in each coordinate.
    typical
        Its median.
    relative
        Typical noise relative to the spread of the rows, both over all leading coordinates.
    seen
        Whether noise is detected; False if the residual is rounding or has too few dimensions.
    """

    each: _Array
    typical: float
    relative: float
    seen: bool

    def neighbours(self, rows: int, k: int) -> int:
        """How many near points to average: from 1 for very little noise to at most 40."""
        if self.relative < _NEGLIGIBLE:
            return 1
        if not math.isfinite(self.relative):
            raise InvalidInputError("the noise of the rows is not finite; check the entries (fa.verify checks a store)")
        return int(np.clip(round(1 + 80 * self.relative), 2, max(2, min(40, rows // (4 * k)))))


def can_estimate(columns: int, dimensions: int) -> bool:
    """Whether enough dimensions are left beyond the leading ones; profiles lie in columns − 1 dimensions."""
    return columns - 1 - dimensions >= _FREEDOM


def estimate_noise(points: _Array, left: _Array, columns: int, rounding: float = 0.0) -> Noise:
    """Estimate the noise of rows from their leading coordinates and the squared residual beyond them, ``left``.

    Noise is equal in all directions once columns are scaled, so a row's noise variance in one coordinate is its squared
    residual divided by the number of residual dimensions, shrunk a little towards that of the typical row. Rows whose
    mean squared distance from the centre is at most ``rounding`` are alike and have none.
    """
    freedom = columns - 1 - points.shape[1]
    spread = float(np.einsum("ij,ij->", points, points)) / max(len(points), 1)
    mean, alike = float(left.mean()), points.shape[1] > 0 and spread <= rounding
    if alike or not can_estimate(columns, points.shape[1]) or mean <= _NONE * (spread + mean):
        return Noise(np.zeros(len(points)), 0.0, 0.0, False)
    typical = float(np.median(left)) / freedom
    least = ROUNDING * np.sqrt(spread / max(points.shape[1], 1))
    each = np.maximum(np.sqrt((left + _PRIOR * typical) / (freedom + _PRIOR)), least)
    level = float(np.median(each))
    relative = level * np.sqrt(points.shape[1]) / np.sqrt(spread) if spread > 0 else np.inf
    return Noise(each, level, float(relative), True)


def excess_noise(values: _Array, axes: _Array, sizes: _Array, rows: int) -> _Array:
    """How many times noisier than the median column each noisy column is; 1 for all others.

    Parameters
    ----------
    values, axes
        Eigenvalues, decreasing, and eigenvectors of the second moments, or of the covariance, of the columns.
    sizes
        Root mean squares of the columns, in the same units.
    rows
        Number of rows.
    """
    n = len(values)
    excess = np.ones(n)
    if rows < _SUPPORT * n or n < _COLUMNS or not values[0] > 0:
        return excess
    noise = 1 / np.sqrt(axes**2 @ (1 / np.maximum(values, 1e-12 * values[0])))
    noisy = (noise > _NOISY * np.median(noise)) & (noise > _CLEAN * sizes)
    if np.count_nonzero(noisy) > _MOST * n:
        noisy &= noise >= np.sort(noise)[-max(1, int(_MOST * n))]
    excess[noisy] = noise[noisy] / np.median(noise)
    return excess
