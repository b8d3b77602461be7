"""Detect spikes by comparing bands with their spectral neighbours.

Reflectance is smooth: a band that differs from its neighbours by more than twice a typical pixel's mean is an
instrument error. If such errors are spread over all bands, the pixels are hot. If a few bands have most of them, these
bands are bad; they usually lie at the edge of a gap where water vapour absorbs all light.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._parallel import map_ordered

__all__ = ["find_spikes"]

_SPIKE = 2.0  # threshold for the gap to the neighbours, in means of the pixel or of a typical one
_SAMPLE = 4096  # pixels from which the usual ratio of each band to its neighbours is estimated
_FAIR = 4.0  # a band with more than this multiple of the mean number of spikes is bad...
_CHANCE = 5.0  # ... with this margin for chance, in standard deviations of a count...
_RARE = 1e-3  # ... and spikes in more than this fraction of the pixels
_MOST = 0.2  # largest fraction of hot pixels; beyond it they are part of the scene
_CHUNK = 1 << 13  # pixels processed at a time

_Flags = NDArray[np.bool_]


def find_spikes(X: NDArray[Any]) -> tuple[_Flags, _Flags]:
    """Detect pixels that are hot in a band, and bands with spikes in many pixels."""
    m, n = X.shape
    pixels, bands = np.zeros(m, dtype=bool), np.zeros(n, dtype=bool)
    if n < 4:
        return pixels, bands
    some = X[:: max(1, m // _SAMPLE)].astype(np.float64)
    middle = _neighbours(some)
    ratios = np.divide(some, middle, out=np.ones_like(some), where=middle > 0)
    usual, level = np.median(ratios, axis=0), float(np.median(some.mean(axis=1)))

    def look(start: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        block = X[start : start + _CHUNK].astype(np.float64)
        limit = _SPIKE * np.maximum(block.mean(axis=1), level)
        gap = np.abs(block - usual * _neighbours(block))
        rows, at = np.nonzero((gap > limit[:, None]) & _highest(gap))
        return rows + start, at

    found = map_ordered(look, ((start,) for start in range(0, m, _CHUNK)))
    rows, at = (np.concatenate(parts) for parts in zip(*found, strict=True))
    counts = np.bincount(at, minlength=n)
    fair = counts.mean()
    bands = counts > max(_FAIR * fair + _CHANCE * np.sqrt(fair + 1), _RARE * m)
    pixels[rows[~bands[at]]] = True
    return (pixels if np.count_nonzero(pixels) <= _MOST * m else np.zeros(m, dtype=bool)), bands


def _neighbours(block: NDArray[np.float64]) -> NDArray[np.float64]:
    """For every entry the mean of the entries in the two neighbouring bands."""
    middle = np.empty_like(block)
    middle[:, 1:-1] = (block[:, :-2] + block[:, 2:]) / 2
    middle[:, 0], middle[:, -1] = block[:, 1], block[:, -2]
    return middle


def _highest(gap: NDArray[np.float64]) -> _Flags:
    """Which entries are local maxima: a spike also causes a gap of half its height in both neighbours."""
    above = np.ones(gap.shape, dtype=bool)
    above[:, 1:] &= gap[:, 1:] > gap[:, :-1]
    above[:, :-1] &= gap[:, :-1] >= gap[:, 1:]
    return above
