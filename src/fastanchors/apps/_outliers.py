"""Outlier pixels and hot bands of a scene: those that make a direction of the data by themselves.

A hot detector or a transmission error puts one huge number into a spectrum. Squared, it outweighs a material: the
leading singular directions then point at the error. What gives it away is that it stands alone. With U·Σ·Vᵀ the
singular value decomposition of the pixels, the leverage ‖U_i‖² of pixel i is the share it has in the directions: 1 for
the only pixel on a direction, 1/c for one of c alike (Hoaglin and Welsch, *The hat matrix in regression and ANOVA*,
Am. Stat. 1978). A material covers many pixels and many bands, and they share its direction; an error in one pixel
has a leverage near 1 whatever its size, and so has, on the side of V, a band that is hot in many pixels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._spikes import find_spikes, noisy_bands

__all__ = ["ScaledPixels", "find_outliers"]

_COMPANY = 4  # fewer pixels than these carry no direction of their own
_HOT = 0.7  # a band with more than this share in the leading k directions is hot
_SPREAD = 8  # bands per material below which one may well have a band for itself
_SUPPORT = 50  # pixels per direction; with fewer, leverages are large by themselves
_MOST = 0.2  # of the pixels may be outliers; beyond that they are the scene
_ROUNDS = 20
_ZERO = 1e-12  # eigenvalues below this share of the first are rounding
_CHUNK_BYTES = 1 << 25


class ScaledPixels:
    """The pixels over some ``bands``, divided by their brightness (their l1 norm), a block at a time."""

    def __init__(self, X: NDArray[Any], bands: NDArray[np.intp]) -> None:
        self._X = X
        self._bands = None if bands.size == X.shape[1] else bands
        self.brightness = np.empty(len(X))
        for rows, block in self._raw():
            self.brightness[rows] = block.sum(axis=1)
        self._median = float(np.median(self.brightness))

    def blocks(self, least: float) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """What is darker than ``least`` times the median is not scaled up beyond that: it stays short."""
        divisors = self.divisors(least)
        for rows, block in self._raw():
            block /= divisors[rows, None]
            yield rows, block

    def divisors(self, least: float) -> NDArray[np.float64]:
        """What each pixel is divided by."""
        return np.maximum(self.brightness, max(least * self._median, np.finfo(np.float64).tiny))

    def axes(self, kept: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Squared singular values, falling, and right singular vectors of the pixels ``kept``, dark ones left dark."""
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
    """Which pixels are outliers and which bands are bad, where ``count`` pixels speak for a material.

    Spikes come first (:mod:`fastanchors.apps._spikes`). An outlier takes a direction from others, which then hide: what
    is found is left out until nothing more is found. Bands that are far noisier than the others come last. Three
    passes over the pixels a round; a clean scene takes one round.
    """
    outliers, hot = find_spikes(X)
    if count == 1:  # where single pixels are asked for, they are no outliers
        outliers[:] = False
    limit = 1 / min(_COMPANY, count)
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
            bad = noisy_bands(values, axes, int(np.count_nonzero(~outliers)))
            hot[np.flatnonzero(~hot)[bad]] = True
            break
        hot[np.flatnonzero(~hot)[bad]] = True
        pixels = ScaledPixels(X, np.flatnonzero(~hot))
    return outliers, hot
