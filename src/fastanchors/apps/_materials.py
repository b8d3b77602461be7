"""The spectra of the materials of a scene: by the noise-aware engine where pixels are mixtures, else by groups.

Where pixels are mixtures of k spectra within their noise, every pixel tells where the facets of the simplex are, and
the vertices that :mod:`fastanchors.greedy` refines by their likelihood are far better than any pixel. The spectra of a
real material vary, though, and vertices that explain each of them are too far out. Two things tell:

* what k − 1 directions leave of the pixels is white noise where they are mixtures: along the next direction there is
  no more of it than the upper edge of the Marchenko-Pastur law, (1 + √(bands/pixels))² times the average. Variation is
  a few directions with far more;
* the likelihood has a part for rows that no mixture explains.

Where either is more than a little, or where mixtures of the groups' spectra miss less of the pixels (vertices are
then wasted on errors of the instrument), the materials are groups of pixels instead, whose means are extreme.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import RankError
from ..greedy.anchoring import Found, find_anchors
from ..greedy.coordinates import DIRECTIONS, Coordinates, coordinates
from ..matrix.array import ArrayMatrix
from ..solvers.spa import SPA
from ._groups import Judge, Pixels, best_groups, refined_spectra
from ._outliers import ScaledPixels
from ._smoothed import nearest_to_means

__all__ = ["Materials", "find_materials"]

_UNEXPLAINED = 0.02  # part of the pixels beyond which they are no mixtures; as in greedy.refine
_WHITE = 2.0  # times the edge of the Marchenko-Pastur law is still white
_MEDIAN = 0.4549  # of the square of a standard normal variable
_TIP = 0.9  # quantile of the shares in a group that stands for its pure pixels

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Materials:
    """What was found.

    Attributes
    ----------
    spectra
        k × bands.
    groups
        For each material the pixels that speak for it.
    anchors
        For each material the pixel most like it.
    method
        ``"vertices"`` that explain all pixels, ``"refined"`` from groups of extreme pixels, or those ``"groups"``; or
        the rule that was asked for.
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
    """The k materials of pixels without outliers; only the ``sound`` bands say where.

    About ``count`` pixels speak for each, or ``exactly`` so many. A ``selection`` other than ``"auto"`` is that rule of
    the engine alone.
    """
    if selection != "auto":
        return _by_rule(X, sound, k, count, selection)
    pixels = ScaledPixels(X, np.flatnonzero(sound))
    points = Pixels.of(X, sound, pixels, k)
    groups = best_groups(points, k, count, exactly=exactly)  # refuses pixels of a lower rank
    grouped = Materials(points.spectra(groups), groups, nearest_to_means(points.scaled, groups), "groups")
    if k == 1 or method != "auto":
        return grouped
    where = _coordinates(X, sound, k)
    found = _vertices(where, k)
    judge = Judge(X, sound)
    materials = None if found is None else _at_vertices(X, sound, where, found, count)
    if materials is None or _missed(judge, materials, sound) > _missed(judge, grouped, sound):
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
    assert found is not None  # rules with a name always find
    return replace(_at_vertices(X, sound, where, found, count), method=rule)


def _at_vertices(X: NDArray[Any], sound: NDArray[np.bool_], where: Coordinates, found: Found, count: int) -> Materials:
    """The spectra of vertices, as bright as the pixels near them."""
    groups, anchors = _near(where, found.vertices, count)
    spectra = np.array([np.median(X[group], axis=0) for group in groups], dtype=np.float64)
    brightness = [np.median(where.sums[group]) for group in groups]
    spectra[:, sound] = found.profiles * np.array(brightness)[:, None]
    return Materials(spectra, groups, anchors, "vertices")


def _refined(
    grouped: Materials, X: NDArray[Any], pixels: ScaledPixels, sound: NDArray[np.bool_], count: int
) -> Materials:
    """The spectra of groups refined by all pixels; in unsound bands, medians of the ``count`` purest pixels."""
    spectra, shares = refined_spectra(pixels, grouped.spectra[:, sound], grouped.groups)
    whole = grouped.spectra.copy()
    if not sound.all():
        for j, purest in enumerate(np.argpartition(-shares, count - 1, axis=0)[:count].T):
            level = spectra[j].sum() / max(float(np.median(pixels.brightness[purest])), 1e-300)
            whole[j, ~sound] = np.median(X[purest][:, ~sound], axis=0) * level
    whole[:, sound] = spectra
    return replace(grouped, spectra=whole, method="refined")


def _missed(judge: Judge, materials: Materials, sound: NDArray[np.bool_]) -> float:
    """What non-negative mixtures of the spectra miss of the pixels."""
    return float(judge.missed(materials.spectra[:, sound]).mean())


def _vertices(where: Coordinates, k: int) -> Found | None:
    """The vertices that the engine finds, if it finds that the pixels are mixtures of them."""
    if not _white(where, k):
        return None
    try:
        found = find_anchors(where, k, "auto", rng=np.random.default_rng(0))
    except RankError:
        return None
    refined = None if found is None else found.refined
    return found if refined is not None and refined.kept and refined.odd <= _UNEXPLAINED else None


def _white(where: Coordinates, k: int) -> bool:
    """Whether the k-th direction has no more of a typical pixel than the average of those after it, as noise has."""
    (m, d), n = where.shape, len(where.frame.centre)
    if d < k or n < k + 2:
        return False
    along = where.values[:, k - 1].astype(np.float64) ** 2
    beyond = (where.leading(k - 1)[1] - along) / (n - 1 - k)
    seen = (where.sums > 0) & (beyond > 0)
    if not seen.any():
        return False
    edge = (1 + np.sqrt(n / m)) ** 2
    return bool(np.median(along[seen] / beyond[seen]) <= _WHITE * edge * _MEDIAN)


def _near(where: Coordinates, vertices: _Array, count: int) -> tuple[list[NDArray[np.intp]], NDArray[np.intp]]:
    """The pixels nearest to each vertex, noise counted, without those that have little of it; and the nearest."""
    k = len(vertices)
    points, left = where.leading(k - 1)
    noise = left * ((k - 1) / max(1, len(where.frame.centre) - k))
    shares = np.column_stack([np.ones(len(points)), points]) @ np.linalg.pinv(np.column_stack([np.ones(k), vertices]))
    groups, anchors = [], np.zeros(k, dtype=np.intp)
    for j in range(k):
        gap = points - vertices[j]
        squares = np.where(where.sums > 0, np.einsum("ij,ij->i", gap, gap) + noise, np.inf)
        group = np.argpartition(squares, count - 1)[:count]
        squares[anchors[:j]] = np.inf
        anchors[j] = np.argmin(squares)
        own = shares[group, j] >= np.quantile(shares[group, j], _TIP, method="lower") / 2
        groups.append(np.union1d(group[own], anchors[j : j + 1]))
    return groups, anchors
