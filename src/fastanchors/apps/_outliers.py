"""Detect outlier pixels and hot bands of a scene: those that form a direction of the data by themselves.

A hot detector or a transmission error puts one huge number into a spectrum. Squared, it outweighs a material: the
leading singular directions then point at the error. It is detected because it is isolated. With U·Σ·Vᵀ the singular
value decomposition of the pixels, the leverage ‖U_i‖² of pixel i is its share in the directions: 1 for the only pixel
on a direction, 1/c for one of c similar pixels (Hoaglin and Welsch, *The hat matrix in regression and ANOVA*,
Am. Stat. 1978). A material covers many pixels and many bands, which share its direction. An error in one pixel has a
leverage near 1 whatever its size. So has a band that is hot in many pixels, with V in place of U.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..greedy.noise import excess_noise
from ._spikes import find_spikes

__all__ = ["ScaledPixels", "find_outliers"]

_FEWEST_ALIKE = 4  # fewer pixels than this that share a direction are outliers
_HOT = 0.7  # a band with more than this share in the leading k directions is hot
_SPREAD = 8  # with fewer bands per material than this, a material may dominate a band legitimately
_SUPPORT = 50  # pixels per direction; with fewer, all leverages are large
_MOST = 0.2  # largest fraction of outlier pixels; beyond it they are part of the scene
_ROUNDS = 20
_ZERO = 1e-12  # eigenvalues below this fraction of the first are rounding errors
_CHUNK_BYTES = 1 << 25


class ScaledPixels:
    """The pixels in some ``bands``, divided by their brightness (their l1 norm), a block at a time."""

    def __init__(self, X: NDArray[Any], bands: NDArray[np.intp]) -> None:
        self._X = X
        self._bands = None if bands.size == X.shape[1] else bands
        self.brightness = np.empty(len(X))
        for rows, block in self._raw():
            self.brightness[rows] = block.sum(axis=1)
        self._median = float(np.median(self.brightness))

    def blocks(self, least: float) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Blocks of scaled pixels; those darker than ``least`` times the median are divided by that bound instead."""
        divisors = self.divisors(least)
        for rows, block in self._raw():
            block /= divisors[rows, None]
            yield rows, block

    def divisors(self, least: float) -> NDArray[np.float64]:
        """The divisor of each pixel."""
        return np.maximum(self.brightness, max(least * self._median, np.finfo(np.float64).tiny))

    def axes(self, kept: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Squared singular values, decreasing, and right singular vectors of ``kept`` pixels; dark ones stay dark."""
        gram: NDArray[np.float64] | float = 0.0
        for rows, block in self.blocks(1.0):
            some = block[kept[rows]]
            gram = gram + some.T @ some
        values, axes = np.linalg.eigh(gram)
        return values[::-1], axes[:, ::-1]

    def leverages(self, values: NDArray[np.float64], axes: NDArray[np.float64]) -> NDArray[np.float64]:
        result = np.empty(len(self._X))
        for rows, block in self.blocks(1.0):
            result[rows] = (block @ axes) ** 2 @ (1 / values)
        return result

    def _raw(self) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Copies in float64."""
        step = max(1, _CHUNK_BYTES // (8 * self._X.shape[1]))
        for start in range(0, len(self._X), step):
            rows = slice(start, min(start + step, len(self._X)))
            block = self._X[rows].astype(np.float64)
            yield rows, block if self._bands is None else block[:, self._bands]


def find_outliers(X: NDArray[Any], k: int, count: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Detect outlier pixels and bad bands, if ``count`` pixels represent a material.

    Spikes are detected first (:mod:`fastanchors.apps._spikes`). An outlier can use up a direction and so mask others:
    detected ones are excluded and detection is repeated until nothing more is found. Bands that are far noisier than
    the others are detected last. Each round takes three passes over the pixels; a clean scene takes one round.
    """
    outliers, hot = find_spikes(X)
    if count == 1:  # if single pixels may represent a material, they are not outliers
        outliers[:] = False
    limit = 1 / min(_FEWEST_ALIKE, count)
    pixels = ScaledPixels(X, np.flatnonzero(~hot))
    for _ in range(_ROUNDS):
        values, axes = pixels.axes(~outliers)
        use = values > _ZERO * values[0]
        use[max(k, np.count_nonzero(~outliers) // _SUPPORT) :] = False
        found = ~outliers & (pixels.leverages(values[use], axes[:, use]) > limit)
        if np.count_nonzero(outliers | found) > _MOST * len(X):
            break
        outliers |= found
        if found.any():
            continue
        share = np.sum(axes[:, :k] ** 2, axis=1)
        bad = share > _HOT if share.size >= _SPREAD * k else np.zeros(share.size, dtype=bool)
        if not bad.any():
            sizes = np.sqrt(axes**2 @ np.maximum(values, 0.0))
            bad = excess_noise(values, axes, sizes, int(np.count_nonzero(~outliers))) > 1
            hot[np.flatnonzero(~hot)[bad]] = True
            break
        hot[np.flatnonzero(~hot)[bad]] = True
        pixels = ScaledPixels(X, np.flatnonzero(~hot))
    return outliers, hot
