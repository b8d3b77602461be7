"""Estimate the spectra of materials: by the noise-aware engine if the pixels are mixtures, otherwise by groups.

If the pixels are mixtures of k spectra within their noise, every pixel constrains the facets of the simplex, and the
vertices that :mod:`fastanchors.greedy` refines by their likelihood are far better than any pixel. The spectra of a
real material vary, however, and vertices that explain all of them are too far out. Two tests detect this case:

* If the pixels are mixtures, the residual of k − 1 directions is white noise. Variation of spectra shows as a few
  directions with far more variance (:func:`fastanchors.greedy.groups.variance_beyond`).
* The likelihood has a component for rows that no mixture explains; its weight is small for mixtures.

If either test fails, or if mixtures of the groups' spectra have no larger residual (vertices are then wasted on
instrument errors), the materials are instead groups of pixels whose means are extreme.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import RankError
from ..greedy.anchoring import TIE, Found, find_anchors
from ..greedy.coordinates import DIRECTIONS, Coordinates, coordinates
from ..greedy.groups import VARIES, variance_beyond
from ..greedy.noise import estimate_noise
from ..matrix.array import ArrayMatrix
from ..solvers.spa import SPA
from ._groups import Judge, Pixels, best_groups, refined_spectra
from ._outliers import ScaledPixels
from ._smoothed import nearest_to_means

__all__ = ["Materials", "find_materials"]

_UNEXPLAINED = 0.02  # largest fraction of unexplained pixels for mixtures; as in greedy.refine
_TIP = 0.9  # quantile of the shares in a group that represents its pure pixels

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Materials:
    """The estimated materials.

    Attributes
    ----------
    spectra
        k × bands.
    groups
        For each material the pixels that represent it.
    anchors
        For each material the pixel most similar to it.
    method
        ``"vertices"`` that explain all pixels, ``"refined"`` from groups of extreme pixels, or the unrefined
        ``"groups"``; or the requested rule.
    """

    spectra: _Array
    groups: list[NDArray[np.intp]]
    anchors: NDArray[np.intp]
    method: str


def find_materials(
    X: NDArray[Any],
    sound: NDArray[np.bool_],
    k: int,
    count: int,
    method: str = "auto",
    *,
    selection: str = "auto",
    exactly: bool = False,
) -> Materials:
    """Estimate the k materials of pixels without outliers; only the ``sound`` bands are used to locate them.

    About ``count`` pixels represent each material, or exactly ``count`` with ``exactly``. A ``selection`` other than
    ``"auto"`` uses only that rule of the engine; a single material is the same for all but ``"spa"``.
    """
    if selection != "auto" and (k > 1 or selection == "spa"):
        return _by_rule(X, sound, k, count, selection)
    pixels = ScaledPixels(X, np.flatnonzero(sound))
    points = Pixels.of(X, sound, pixels, k)
    groups = best_groups(points, k, count, exactly=exactly)  # rejects pixels of a lower rank
    grouped = Materials(points.spectra(groups), groups, nearest_to_means(points.scaled, groups), "groups")
    if k == 1 or method != "auto":
        return grouped
    where = _coordinates(X, sound, k)
    found = _vertices(where, k)
    judge = Judge(X, sound)
    materials = None if found is None else _at_vertices(X, sound, where, found, count)
    if materials is None or judge.error(materials.spectra[:, sound]) >= judge.error(grouped.spectra[:, sound]):
        materials = _refined(grouped, X, pixels, sound, count)
    return replace(materials, spectra=materials.spectra * judge.as_bright(materials.spectra[:, sound]))


def _coordinates(X: NDArray[Any], sound: NDArray[np.bool_], k: int) -> Coordinates:
    return coordinates(ArrayMatrix(X if sound.all() else X[:, sound]), max(DIRECTIONS, k))


def _by_rule(X: NDArray[Any], sound: NDArray[np.bool_], k: int, count: int, rule: str) -> Materials:
    """The pixels that plain SPA selects, or the vertices of another rule of the engine."""
    if rule == "spa":
        anchors = SPA().seek(X if sound.all() else X[:, sound], k).indices
        return Materials(X[anchors].astype(np.float64), list(anchors[:, None]), anchors, "spa")
    where = _coordinates(X, sound, k)
    found = find_anchors(where, k, rule, rng=np.random.default_rng(0))
    assert found is not None  # named rules always return a result
    return replace(_at_vertices(X, sound, where, found, count), method=rule)


def _at_vertices(X: NDArray[Any], sound: NDArray[np.bool_], where: Coordinates, found: Found, count: int) -> Materials:
    """The spectra of vertices, with the median brightness of the pixels near them."""
    groups, anchors = _near(where, found.vertices, count)
    spectra = np.array([np.median(X[group], axis=0) for group in groups], dtype=np.float64)
    brightness = [np.median(where.sums[group]) for group in groups]
    spectra[:, sound] = found.profiles * np.array(brightness)[:, None]
    return Materials(spectra, groups, anchors, "vertices")


def _refined(
    grouped: Materials, X: NDArray[Any], pixels: ScaledPixels, sound: NDArray[np.bool_], count: int
) -> Materials:
    """The spectra of groups refined with all pixels; in unsound bands, medians of the ``count`` purest pixels."""
    spectra, shares = refined_spectra(pixels, grouped.spectra[:, sound], grouped.groups)
    whole = grouped.spectra.copy()
    if not sound.all():
        for j, purest in enumerate(np.argpartition(-shares, count - 1, axis=0)[:count].T):
            level = spectra[j].sum() / max(float(np.median(pixels.brightness[purest])), 1e-300)
            whole[j, ~sound] = np.median(X[purest][:, ~sound], axis=0) * level
    whole[:, sound] = spectra
    return replace(grouped, spectra=whole, method="refined")


def _vertices(where: Coordinates, k: int) -> Found | None:
    """The vertices that the engine estimates, or None if the pixels are not mixtures of them.

    With very little noise the purest pixels are as likely as refined vertices, and rounding decides which are returned;
    without any they are the vertices. Both are far better than groups if few pixels are pure.
    """
    (_, d), n = where.shape, len(where.frame.centre)
    if d < k or n < k + 2:
        return None
    clean = not estimate_noise(*where.leading(k - 1), n, where.frame.rounding).seen  # all that is left is rounding
    if not clean and not variance_beyond(where, k) <= VARIES:  # or it is not known
        return None
    try:
        found = None if clean else find_anchors(where, k, "auto", rng=np.random.default_rng(0))
        if found is None:
            return find_anchors(where, k, "lifted")
    except RankError:
        return None
    refined = found.refined
    return found if refined is not None and refined.fitted and refined.outliers <= _UNEXPLAINED else None


def _near(where: Coordinates, vertices: _Array, count: int) -> tuple[list[NDArray[np.intp]], NDArray[np.intp]]:
    """Nearest pixels of each vertex (distances include noise) without those with a small share of it; the anchors."""
    k = len(vertices)
    points, left = where.leading(k - 1)
    noise = left * ((k - 1) / max(1, len(where.frame.centre) - k))
    shares = np.column_stack([np.ones(len(points)), points]) @ np.linalg.pinv(np.column_stack([np.ones(k), vertices]))
    groups, anchors, tie = [], np.zeros(k, dtype=np.intp), TIE * np.abs(points).max()
    for j in range(k):
        gap = points - vertices[j]
        squares = np.where(where.sums > 0, np.einsum("ij,ij->i", gap, gap) + noise, np.inf)
        group = np.argpartition(squares, count - 1)[:count]
        squares[anchors[:j]] = np.inf
        anchors[j] = np.argmax(np.sqrt(squares) <= np.sqrt(squares.min()) + tie)  # of equally near ones the first
        own = shares[group, j] >= np.quantile(shares[group, j], _TIP, method="lower") / 2
        groups.append(np.union1d(group[own], anchors[j : j + 1]))
    return groups, anchors
