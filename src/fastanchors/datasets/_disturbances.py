"""Disturbances of real scenes: spiky bands, dark shores, shade, rare materials, bad columns.

Each function takes pixels × bands and returns a changed copy. ``datasets.hyperspectral`` and the benchmark of unmixing
use the same functions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["bad_columns", "dim", "rare_weights", "shore_pixels", "spiky_bands"]

_EDGE = 3  # number of bands on each side of a gap
_SPIKE = 0.1  # size of the noise in these bands, relative to the mean of the band
_GAINS = (0.7, 1.3)  # gains of the bad columns, alternating

_Array = NDArray[np.float64]


def spiky_bands(A: _Array, gaps: int, rng: np.random.Generator) -> tuple[_Array, NDArray[np.intp]]:
    """Heavy-tailed noise (Student's t, two degrees of freedom) in the three bands on each side of each gap."""
    centres = [(i + 1) * A.shape[1] // (gaps + 1) for i in range(gaps)]
    near = [band for centre in centres for band in range(centre - _EDGE, centre + _EDGE)]
    bands = np.unique(np.clip(near, 0, A.shape[1] - 1)).astype(np.intp)
    A = A.copy()
    for band in bands:
        A[:, band] += _SPIKE * A[:, band].mean() * rng.standard_t(2, len(A))
    return np.maximum(A, 0.0), bands


def shore_pixels(weights: _Array, count: int) -> NDArray[np.intp]:
    """The pixels nearest to an equal mixture of the most common material and the others: its boundary."""
    common = int(np.argmax(weights.mean(axis=0)))
    gap = np.abs(2 * weights[:, common] / np.maximum(weights.sum(axis=1), 1e-300) - 1)
    return np.sort(np.argsort(gap, kind="stable")[:count])


def dim(A: _Array, pixels: NDArray[np.intp], light: _Array) -> _Array:
    """Scale the given pixels to ``light`` times the median brightness."""
    A = A.copy()
    brightness = A.sum(axis=1)
    A[pixels] *= (light * np.median(brightness) / np.maximum(brightness[pixels], 1e-300))[:, None]
    return A


def rare_weights(weights: _Array, share: float, material: int) -> _Array:
    """Restrict a material to the fraction ``share`` of the pixels that have most of it."""
    weights = weights.copy()
    order = np.argsort(-weights[:, material], kind="stable")
    weights[order[max(1, round(share * len(weights))) :], material] = 0.0
    left = weights.sum(axis=1, keepdims=True)
    others = np.arange(weights.shape[1]) != material
    weights[left[:, 0] <= 0] = others / max(1, others.sum())
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def bad_columns(
    A: _Array, width: int, count: int, rng: np.random.Generator, column_of: NDArray[np.intp] | None = None
) -> tuple[_Array, NDArray[np.intp]]:
    """Change the gain of ``count`` columns of an image to 0.7 or 1.3 in half of the bands.

    ``column_of`` is the column of every pixel; by default pixels are in row-major order.
    """
    column_of = np.arange(len(A)) % width if column_of is None else column_of
    columns = np.sort(rng.choice(width, count, replace=False)).astype(np.intp)
    A = A.copy()
    for i, column in enumerate(columns):
        bands = rng.choice(A.shape[1], A.shape[1] // 2, replace=False)
        A[np.ix_(column_of == column, bands)] *= _GAINS[i % len(_GAINS)]
    return A, columns
