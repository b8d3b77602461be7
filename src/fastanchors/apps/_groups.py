"""Groups of pixels whose means are vertices: how large they are, who belongs to them, and the spectra they stand for.

The groups are those of smoothed SPA (:func:`fastanchors.greedy.selection.smoothed_groups`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..encoder import encode
from ..greedy.selection import smoothed_groups
from ._outliers import ScaledPixels
from ._smoothed import cores

__all__ = ["extreme_groups", "refined_spectra"]

_FINER = 4  # groups become smaller by this factor
_FEWEST = 4  # points in a group that was not asked for...
_RAREST = 1e-3  # ... and part of all points
_MISSED = 1.0  # smaller groups are tried where some miss the simplex by more than this part of its least height
_DARK = 0.1  # as where the points come from

_Array = NDArray[np.float64]


def extreme_groups(points: _Array, k: int, count: int) -> list[NDArray[np.intp]]:
    """The k groups of ``count`` points whose means are extreme, or smaller ones where those pass over a vertex.

    A material that is rarer than the groups are large has no group. Its points then lie outside the simplex of the
    means, and if they are farther from it than the least of its own vertices is from the others, they are the better
    vertex: groups of a quarter of the size are sought, and so on, but none of less than a thousandth of
    the points, or four. Points that are not of their group's vertex are left out.
    """
    groups = cores(points, smoothed_groups(points, k, count))
    while k > 1 and count // _FINER >= max(_FEWEST, _RAREST * len(points)):
        means = np.array([points[group].mean(axis=0) for group in groups])
        outside = points - encode(points, means, sum_to_one=True) @ means
        far = smoothed_groups(outside, 1, count // _FINER)[0] if outside.any() else np.arange(1)
        if np.linalg.norm(outside[far].mean(axis=0)) <= _MISSED * _least_height(means):
            break
        count //= _FINER
        groups = cores(points, smoothed_groups(points, k, count))
    return groups


def _least_height(vertices: _Array) -> float:
    """The least distance of a vertex from the affine span of the others."""
    heights = []
    for j in range(len(vertices)):
        first, *others = np.delete(vertices, j, axis=0)
        edges = np.array(others).reshape(-1, vertices.shape[1]) - first
        basis = np.linalg.qr(edges.T)[0]
        gap = vertices[j] - first
        heights.append(float(np.linalg.norm(gap - basis @ (basis.T @ gap))))
    return min(heights)


def refined_spectra(pixels: ScaledPixels, spectra: _Array, groups: list[NDArray[np.intp]]) -> tuple[_Array, _Array]:
    """One round of least squares from the spectra of groups: shares of all pixels, then the spectra that fit them best.

    All pixels tell more than those of the groups, above all where none is pure. Brightness is divided out as for the
    groups, and dark pixels count less; pixels count so that every material has the same weight, however rare; and
    those of a group count once more, as pure. A second round would move on where spectra of a material vary.
    Returns the spectra, as bright as they were, and the shares of all pixels.
    """
    k, bands = spectra.shape
    sums = spectra.sum(axis=1, keepdims=True)
    start = spectra / np.where(sums > 0, sums, 1.0)
    light = np.minimum(1.0, pixels.brightness / np.median(pixels.brightness)) ** 2
    shares = np.empty((len(light), k))
    for rows, block in pixels.blocks(_DARK):
        shares[rows] = encode(block, start, sum_to_one=True)
    main = shares.argmax(axis=1)
    common = np.bincount(main, minlength=k)
    weights = light * (len(light) / (k * np.maximum(common, 1)))[main]
    left, right = (shares * weights[:, None]).T @ shares, np.zeros((k, bands))
    for rows, block in pixels.blocks(_DARK):
        right += (shares[rows] * weights[rows, None]).T @ block
    pure = np.array([weights[group].sum() for group in groups])
    found = np.maximum(np.linalg.lstsq(left + np.diag(pure), right + pure[:, None] * start, rcond=None)[0], 0.0)
    lengths = found.sum(axis=1, keepdims=True)
    return np.where(lengths > 0, found / np.where(lengths > 0, lengths, 1.0), start) * sums, shares
