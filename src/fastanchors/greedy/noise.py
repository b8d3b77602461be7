"""Estimate the noise of each row from its residual beyond the leading directions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

__all__ = ["Noise", "can_estimate", "clipped_noise", "estimate_noise", "without_clipping"]

_NONE = 1e-12  # squared noise, relative to the squared spread of the rows, that is rounding
_FREEDOM = 3  # smallest number of residual dimensions in which noise can be detected
_NEGLIGIBLE = 0.03  # relative noise below which a single row is as good as a mean
_PRIOR = 4.0  # weight of the typical row in the estimate of each row, in dimensions

_ZEROS = 0.005  # fraction of the entries that must be zero before clipping is suspected
_AGREE = 0.05  # largest difference between predicted and observed fractions of zeros
_STEPS = 512  # grid points per unit of the ratio
_RATIOS = np.linspace(0.0, 8.0, 8 * _STEPS + 1)  # entries without their noise, in units of the noise
_HALVINGS = 16  # bisection steps for the noise

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
        return int(np.clip(round(1 + 80 * self.relative), 2, max(2, min(40, rows // (4 * k)))))


def can_estimate(columns: int, dimensions: int) -> bool:
    """Whether enough dimensions are left beyond the leading ones; profiles lie in columns − 1 dimensions."""
    return columns - 1 - dimensions >= _FREEDOM


def estimate_noise(points: _Array, left: _Array, columns: int) -> Noise:
    """Estimate the noise of rows from their leading coordinates and the squared residual beyond them, ``left``.

    Noise is equal in all directions once columns are scaled, so a row's noise variance in one coordinate is its squared
    residual divided by the number of residual dimensions, shrunk a little towards that of the typical row.
    """
    freedom = columns - 1 - points.shape[1]
    spread = float(np.einsum("ij,ij->", points, points)) / max(len(points), 1)
    if not can_estimate(columns, points.shape[1]) or float(left.mean()) <= _NONE * (spread + float(left.mean())):
        return Noise(np.zeros(len(points)), 0.0, 0.0, False)
    typical = float(np.median(left)) / freedom
    each = np.sqrt((left + _PRIOR * typical) / (freedom + _PRIOR))
    level = float(np.median(each))
    relative = level * np.sqrt(points.shape[1]) / np.sqrt(spread) if spread > 0 else np.inf
    return Noise(np.maximum(each, 1e-6 * np.sqrt(spread / max(points.shape[1], 1))), level, float(relative), True)


def clipped_noise(profiles: _Array, zeros: float, variance: float) -> float:
    """Standard deviation of Gaussian noise that was clipped at zero; 0 if no clipping is detected.

    max(h + σ·N(0, 1), 0) has mean σ·(z·Φ(z) + φ(z)), z = h/σ, so clipping raises the mean of small entries. Given
    ``profiles`` of some rows without their noise, the noise variance of a row, summed over columns, determines σ, and
    σ predicts how many entries are zero. If the prediction holds, the noise was clipped.
    """
    if zeros < _ZEROS or variance <= 0:
        return 0.0
    _, spread, zero = _by_ratio()
    low, high = 0.0, float(np.sqrt(variance / profiles.shape[1]) * 4)
    for _ in range(_HALVINGS):
        sigma = (low + high) / 2
        total = sigma**2 * float(_interpolated(spread, profiles / sigma).sum(axis=1).mean())
        low, high = (sigma, high) if total < variance else (low, sigma)
    predicted = float(_interpolated(zero, profiles / sigma).mean())
    return sigma if abs(predicted - zeros) <= _AGREE else 0.0


def without_clipping(profiles: _Array, sigma: float) -> _Array:
    """Profiles before the noise of their rows was clipped at zero."""
    z, _, _ = _by_ratio()
    ratio = profiles / sigma
    found = np.maximum(np.where(ratio < _RATIOS[-1], _interpolated(z, ratio), ratio) * sigma, 0.0)
    return np.asarray(found / found.sum(axis=1, keepdims=True))


@cache
def _by_ratio() -> tuple[_Array, _Array, _Array]:
    """For means r of x = max(z + N(0, 1), 0) on an even grid: z, the variance of x, and the probability of x = 0."""
    grid = np.linspace(-8.0, 9.0, 3401)
    bell = np.exp(-0.5 * grid**2) / np.sqrt(2 * np.pi)
    above = ndtr(grid)
    mean = grid * above + bell
    variance = np.maximum((grid**2 + 1) * above + grid * bell - mean**2, 0.0)
    z = np.interp(_RATIOS, mean, grid)
    return z, np.interp(_RATIOS, mean, variance), ndtr(-z)


def _interpolated(table: _Array, ratios: _Array) -> _Array:
    """Values of a table over the grid of ratios, by linear interpolation; beyond the grid, the last value."""
    at = np.minimum(ratios * _STEPS, len(table) - 1.0)
    below = np.minimum(at.astype(np.intp), len(table) - 2)
    part = at - below
    return np.asarray(table[below] * (1.0 - part) + table[below + 1] * part)
