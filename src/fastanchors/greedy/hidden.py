"""Anchors that are mixtures of other anchors within the noise, and so are no corners.

If the rows show fewer directions than k anchors have, some anchors may lie in the hull of the others, or outside it by
less than the noise. The farthest points are then made by the noise. But rows near anchors are many: where mixtures are
sparse, as they mostly are, an anchor is the densest group of rows apart from the other anchors.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .corners import distance_from_hull
from .neighbours import nearest_points

__all__ = ["dense_groups_for_hidden"]

_HIDDEN = 3.5  # a corner nearer to the hull of the others than this many times the noise may be made by the noise
_SPARE = 4  # corners beyond d + 1 up to which anchors are sought; with more, k exceeds what the rows show by far
_GROUP = 20  # points of a group
_APART = 5.0  # a group is farther from other corners than this many times the noise of a point
_POINTS, _STEP = 3000, 4  # points that are compared, at most; every so many of them may be the middle of a group

_Array = NDArray[np.float64]


def dense_groups_for_hidden(corners: _Array, points: _Array, noise: float) -> _Array:
    """Replace corners that the noise may have made by the means of the densest groups apart from all other corners.

    Parameters
    ----------
    corners : k × d array
        Corners of the hull of the points, more than d + 1.
    points : m × d array
        A uniform sample of the rows.
    noise : float
        Standard deviation of a typical point in each coordinate.
    """
    if len(corners) - points.shape[1] - 1 > _SPARE:
        return corners
    shown = _standing_out(corners, noise)
    if len(shown) == len(corners):
        return corners
    points = points[:: -(-len(points) // _POINTS)]
    distances, near = nearest_points(points, min(_GROUP, len(points)), _STEP)
    order = np.argsort(distances[:, -1], kind="stable")
    reach = _APART * noise * np.sqrt(points.shape[1])
    found = list(corners[shown])
    for corner in np.delete(corners, shown, axis=0):
        gaps = np.min([np.linalg.norm(points[::_STEP] - other, axis=1) for other in found], axis=0)
        apart = order[gaps[order] > reach]
        found.append(points[near[apart[0]]].mean(axis=0) if len(apart) else corner)
    return np.array(found)


def _standing_out(corners: _Array, noise: float) -> list[int]:
    """Corners farther from the hull of the others than the noise, without the nearest one in turn; at least d + 1.

    Distances only grow if a corner is left out, so the least of those known is computed again until it stays the least.
    """
    corners = np.ascontiguousarray(corners)
    kept, others = np.ones(len(corners), dtype=np.bool_), ~np.eye(len(corners), dtype=np.bool_)
    gaps = np.array([distance_from_hull(corner, corners, rest) for corner, rest in zip(corners, others)])
    while kept.sum() > corners.shape[1] + 1:
        at = int(np.argmin(gaps))
        gaps[at] = distance_from_hull(corners[at], corners, kept & others[at])
        if gaps[at] > gaps.min():
            continue
        if gaps[at] > _HIDDEN * noise:
            break
        kept[at], gaps[at] = False, np.inf
    return [int(j) for j in np.flatnonzero(kept)]
