"""Estimate the noise of each row from its residual beyond the leading directions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInputError

__all__ = ["Noise", "can_estimate", "estimate_noise"]

_NONE = 1e-12  # squared noise, relative to the squared spread of the rows, that is rounding
_FREEDOM = 1  # smallest number of residual dimensions in which noise can be detected
_NEGLIGIBLE = 0.03  # relative noise below which a single row is as good as a mean
_PRIOR = 4.0  # weight of the typical row in the estimate of each row, in dimensions

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
    each = np.sqrt((left + _PRIOR * typical) / (freedom + _PRIOR))
    level = float(np.median(each))
    relative = level * np.sqrt(points.shape[1]) / np.sqrt(spread) if spread > 0 else np.inf
    return Noise(np.maximum(each, 1e-6 * np.sqrt(spread / max(points.shape[1], 1))), level, float(relative), True)
