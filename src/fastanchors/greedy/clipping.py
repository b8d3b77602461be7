"""Recognise noise that was clipped at zero, and undo what clipping does to mixtures.

Clipping raises the mean of small entries. Mixtures have fewer small entries than anchors, so their mean profiles do not
lie in the simplex of those of the anchors but on a curved surface: vertices that continue it straight are wrong, and
the more so the fewer rows are nearly pure. :class:`Unclipped` makes it straight before the vertices are refined.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from .coordinates import Frame, normalised

__all__ = ["Unclipped", "clipped_noise", "with_clipping"]

_ZEROS = 0.005  # fraction of the entries that must be zero before clipping is suspected
_AGREE = 0.05  # largest difference between predicted and observed fractions of zeros
_STEPS = 512  # grid points per unit of the ratio
_RATIOS = np.linspace(0.0, 8.0, 8 * _STEPS + 1)  # entries without their noise, in units of the noise
_HALVINGS = 16  # bisection steps for the noise
_FITTED, _EACH = 512, 16  # points, and points per dimension, to which the plane of unclipped profiles is fitted
_PIECE = 1 << 16  # entries processed together, in the cache
_TURNS = 8  # iterations that find the sum of a profile after clipping

_Array = NDArray[np.float64]


class Unclipped:
    """Coordinates in which mixtures with clipped noise are mixtures again.

    A point is converted to a profile, its clipping is undone, and the result is projected on the plane that fits such
    profiles best. Coordinates in that plane are those for which points are moved only by the curvature, so the noise of
    a point remains what it was.

    Parameters
    ----------
    frame : Frame
        The coordinate system of the points.
    sample : m × d array
        A sample of the rows in the leading coordinates.
    sigma : float
        Standard deviation of the noise before clipping, from :func:`clipped_noise`. If it is 0, nothing is changed.
    """

    def __init__(self, frame: Frame, sample: _Array, sigma: float) -> None:
        self._frame, self.sigma = frame, sigma
        if sigma > 0:
            d = sample.shape[1]
            spread = frame.directions[:, :d].T / frame.scale
            self._ratios = (np.vstack([frame.centre, spread]) / sigma).astype(np.float32)
            some = sample[:: max(1, len(sample) // max(_FITTED, _EACH * d))]
            undone = self._undone(some)
            fitted = (np.linalg.pinv(_flat(some)) / undone.sum(axis=1)).astype(np.float32) @ undone
            self._base, self._span = fitted[0].astype(np.float64), fitted[1:].astype(np.float64)
            self._across = np.linalg.pinv(self._span)

    def points(self, clipped: _Array) -> _Array:
        """The points without clipping."""
        if self.sigma == 0:
            return clipped
        found, step = np.empty((len(clipped), clipped.shape[1] + 1)), max(1, _PIECE // len(self._base))
        across = np.column_stack([self._across, np.ones(len(self._base))]).astype(np.float32)
        for start in range(0, len(clipped), step):
            at = slice(start, start + step)
            found[at] = self._undone(clipped[at]) @ across
        return np.asarray(found[:, :-1] / found[:, -1:] - self._base @ self._across)

    def clipped(self, points: _Array) -> _Array:
        """Points without clipping in the coordinates of the frame, as the mean of their rows with clipping."""
        if self.sigma == 0:
            return points
        return self._frame.points(with_clipping(self.profiles(points), self.sigma), points.shape[1])

    def profiles(self, points: _Array) -> _Array:
        """Convert points without clipping to profiles: non-negative, with sum one."""
        return self._frame.profiles(points) if self.sigma == 0 else normalised(self._base + points @ self._span)

    def _undone(self, clipped: _Array) -> NDArray[np.float32]:
        """The profiles of points without clipping, in units of the noise."""
        ratio = _flat(clipped).astype(np.float32) @ self._ratios
        np.maximum(ratio, 0.0, out=ratio)
        at = ratio * np.float32(_STEPS)
        at += np.float32(0.5)
        ratio += _moved()[np.minimum(at, np.float32(len(_RATIOS) - 1), out=at).astype(np.int32)]
        return ratio


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


def with_clipping(profiles: _Array, sigma: float) -> _Array:
    """Mean profiles of rows whose noise is clipped at zero.

    The noise is relative to profiles that have sum one after clipping, so they are scaled until they have.
    """
    found, scale = profiles, np.ones((len(profiles), 1))
    for _ in range(_TURNS):  # Newton's method: the sum is convex in the scale
        z = profiles * (scale / sigma)
        above = ndtr(z)
        found = sigma * (z * above + np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi))
        scale += (1.0 - found.sum(axis=1, keepdims=True)) / np.sum(profiles * above, axis=1, keepdims=True)
        scale = np.maximum(scale, 0.0)
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


@cache
def _moved() -> NDArray[np.float32]:
    """How far entries move if clipping is undone, on the grid of ratios: none becomes negative, large ones stay."""
    found = np.maximum(_by_ratio()[0], 0.0) - _RATIOS
    found[-1] = 0.0
    return found.astype(np.float32)


def _interpolated(table: _Array, ratios: _Array) -> _Array:
    """Values of a table over the grid of ratios, by linear interpolation; beyond the grid, the last value."""
    at = np.minimum(ratios * _STEPS, len(table) - 1.0)
    below = np.minimum(at.astype(np.intp), len(table) - 2)
    part = at - below
    return np.asarray(table[below] * (1.0 - part) + table[below + 1] * part)


def _flat(points: _Array) -> _Array:
    return np.column_stack([np.ones(len(points)), points])
