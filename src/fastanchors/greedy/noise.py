"""How much noise there is, seen from what the leading directions leave of each row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

__all__ = ["Noise", "clipped_noise", "estimate_noise", "without_clipping"]

_NONE = 1e-12  # squared noise relative to the squared spread of the rows that is rounding
_FREEDOM = 3  # dimensions that must be left over to see noise in them
_HARDLY = 0.03  # relative noise below which a single row is as good as a mean
_PRIOR = 4.0  # dimensions that the typical row counts for in the estimate of each row

_ZEROS = 0.005  # part of the entries that must be zero before clipping is suspected
_AGREE = 0.05  # how well predicted and observed parts of zeros must agree
_GRID = np.linspace(-8.0, 8.0, 1601)  # means in units of the noise

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
        Whether there is any; False where what is left is rounding, or nothing is left to see it in.
    """

    each: _Array
    typical: float
    relative: float
    seen: bool

    def neighbours(self, rows: int, k: int) -> int:
        """How many near points to average: one for hardly any noise, 40 for much."""
        if self.relative < _HARDLY:
            return 1
        return int(np.clip(round(1 + 80 * self.relative), 2, max(2, min(40, rows // (4 * k)))))


def estimate_noise(points: _Array, left: _Array, columns: int) -> Noise:
    """Noise of rows with these leading coordinates and what is left beyond them, squared.

    Noise is alike in all directions once columns are scaled, so a row's noise in one coordinate is the mean of
    what is left over the dimensions it is left in; typical rows enter the estimate for few dimensions.
    """
    freedom = columns - 1 - points.shape[1]  # profiles lie in columns − 1 dimensions
    spread = float(np.einsum("ij,ij->", points, points)) / max(len(points), 1)
    if freedom < _FREEDOM or float(left.mean()) <= _NONE * (spread + float(left.mean())):
        return Noise(np.zeros(len(points)), 0.0, 0.0, False)
    typical = float(np.median(left)) / freedom
    each = np.sqrt((left + _PRIOR * typical) / (freedom + _PRIOR))
    level = float(np.median(each))
    relative = level * np.sqrt(points.shape[1]) / np.sqrt(spread) if spread > 0 else np.inf
    return Noise(np.maximum(each, 1e-6 * np.sqrt(spread / max(points.shape[1], 1))), level, float(relative), True)


def clipped_noise(profiles: _Array, zeros: float, variance: float) -> float:
    """Standard deviation of Gaussian noise that was clipped at zero; 0 where there is no sign of it.

    max(h + σ·N(0, 1), 0) has mean σ·(z·Φ(z) + φ(z)), z = h/σ, so that clipping lifts small entries. Given
    ``profiles`` of some rows without their noise, the noise variance of a row, all columns together, determines σ, and
    σ predicts how many entries are zero. Where the prediction holds, the noise was clipped.
    """
    if zeros < _ZEROS or variance <= 0:
        return 0.0
    mean, spread, _ = _clipped()
    low, high = 0.0, float(np.sqrt(variance / profiles.shape[1]) * 4)
    for _ in range(25):
        sigma = (low + high) / 2
        total = sigma**2 * float(np.interp(profiles / sigma, mean, spread).sum(axis=1).mean())
        low, high = (sigma, high) if total < variance else (low, sigma)
    predicted = float(ndtr(-np.interp(profiles / sigma, mean, _GRID)).mean())
    return sigma if abs(predicted - zeros) <= _AGREE else 0.0


def without_clipping(profiles: _Array, sigma: float) -> _Array:
    """Profiles before the noise of their rows was clipped at zero."""
    mean, _, _ = _clipped()
    ratio = profiles / sigma
    z = np.where(ratio < mean[-1], np.interp(ratio, mean, _GRID), ratio)
    found = np.maximum(z * sigma, 0.0)
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def _clipped() -> tuple[_Array, _Array, _Array]:
    """Mean and variance of max(z + N(0, 1), 0) over the grid, and the probability of zero."""
    bell = np.exp(-0.5 * _GRID**2) / np.sqrt(2 * np.pi)
    above = ndtr(_GRID)
    mean = _GRID * above + bell
    return mean, np.maximum((_GRID**2 + 1) * above + _GRID * bell - mean**2, 0.0), 1.0 - above
