"""Anchors of rows that vary by more than their noise: medians of groups of rows.

The spectra of a real material vary from row to row. Vertices that explain all rows as mixtures within their noise then
lie on the rim of the variation, and the material is in its middle: the median of many rows that are nearly pure. Such
rows vary along more directions than k anchors have, which :func:`variance_beyond` measures.

How many rows are nearly pure is not known. Groups of several sizes are therefore found by smoothed SPA, and the size is
taken with which mixtures of the medians explain the rows best: too large a group has mixtures in it, and the purest
rows are then outside the simplex; too small a group is on the rim of the variation, away from the plane of most rows.
So residuals are measured in all directions that are kept, not only in the first k − 1.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ..errors import RankError
from .coordinates import Coordinates
from .nnls import NonnegativeSystem
from .selection import lifted, smoothed_groups

__all__ = ["VARIES", "cores", "group_medians", "group_sizes", "squared_residual", "variance_beyond"]

VARIES = 4.0  # rows vary along the k-th direction by more than their noise: twice as much, in squares
_MEDIAN = 0.4549  # of the square of a standard normal variable
_TIP = 0.9  # quantile of the weights in a group that represents its pure points
_LARGEST = 4  # the largest groups have one part in this many of the rows that an anchor has if all are equally common
_FEWEST = 4  # minimum number of points in a group smaller than requested…
_RAREST = 1e-3  # …and minimum fraction of all points
_ROWS, _JUDGES = 3_000, 1_000  # rows among which groups are found, and on which their residuals are compared, at most
_WORSE = 2.0  # groups may add as much squared residual as refined vertices leave

_Array = NDArray[np.float64]
_Groups = list[NDArray[np.intp]]


def variance_beyond(coordinates: Coordinates, k: int, rows: NDArray[np.intp] | slice = slice(None)) -> float:
    """The variance of a typical row along the k-th direction, relative to that of white noise; NaN if it is not known.

    The rows of k anchors vary along k − 1 directions and have noise beyond. If the noise is white, its variance along
    the next direction is at most the upper edge of the Marchenko-Pastur law, (1 + √(columns/rows))² times the average.
    """
    d, n = coordinates.shape[1], len(coordinates.frame.centre)
    if d < k or n < k + 2:
        return float("nan")
    values, left = coordinates.leading(k, rows)
    along, beyond = values[:, k - 1] ** 2, left / (n - 1 - k)
    seen = (coordinates.sums[rows] > 0) & (beyond > 0)
    if not seen.any():
        return float("nan")
    edge = (1 + np.sqrt(n / len(along))) ** 2
    return float(np.median(along[seen] / beyond[seen]) / (edge * _MEDIAN))


def group_medians(rows: _Array, k: int, vertices: _Array) -> _Array | None:
    """Medians of k groups of rows, k × d; None if they explain the rows clearly worse than the vertices.

    Parameters
    ----------
    rows : m × d array
        A uniform sample of the rows without outliers, in all coordinates; the first k − 1 are used to find groups.
    k : int
        Number of anchors.
    vertices : k × d array
        Vertices refined for all rows.

    Notes
    -----
    Costs smoothed SPA on 3,000 rows and non-negative least squares of 1,000 rows for each of at most log₂(250/k) + 1
    sizes.
    """
    some = rows[:: -(-len(rows) // _ROWS)]
    judges = some[:: -(-len(some) // _JUDGES)]
    points = lifted(some[:, : k - 1])
    first = -(-len(some) // (_LARGEST * k))
    found, least = None, _WORSE * squared_residual(judges, vertices)
    for size in group_sizes(first, first, len(some), 2):
        try:
            groups = cores(points, smoothed_groups(points, k, size))
        except RankError:
            continue
        medians = np.array([np.median(some[group], axis=0) for group in groups])
        residual = squared_residual(judges, medians)
        if residual < least:
            found, least = medians, residual
    return found


def squared_residual(rows: _Array, vertices: _Array) -> float:
    """The mean squared distance of rows from the nearest mixtures of the vertices."""
    height = np.sqrt(np.einsum("ij,ij->i", vertices, vertices).max())  # vertices about the origin would be dependent
    R = np.linalg.qr(np.column_stack([vertices, np.full(len(vertices), height)]).T)
    lifted_rows = np.column_stack([rows, np.full(len(rows), height)])
    Y = lifted_rows @ R[0]
    gap = Y - NonnegativeSystem(R[1], sum_to=1.0).solve(Y) @ R[1].T
    outside = np.einsum("ij,ij->", lifted_rows, lifted_rows) - np.einsum("ij,ij->", Y, Y)
    return float(max(outside, 0.0) + np.einsum("ij,ij->", gap, gap)) / len(rows)


def group_sizes(first: int, surely: int, rows: int, factor: int) -> Iterator[int]:
    """Sizes of groups, each smaller than the previous one by a factor; below ``surely``, no group of a few rows."""
    size = min(first, rows)
    while size >= 1 and (size >= surely or size >= max(_FEWEST, _RAREST * rows)):
        yield size
        size //= factor


def cores(points: _Array, groups: _Groups) -> _Groups:
    """Remove points that do not belong to the vertex of their group, if a vertex has fewer points than its group.

    With the means as a basis, each point of a group has a weight for the mean of its group. Similar points have weights
    near 1. A group with unrelated points has two kinds: its own, far above 1, and the others near 0. Points with less
    than half the weight of the group's purest tenth are removed. This is done twice, as the first means are diluted.
    """
    kept = groups
    for _ in range(2):
        weights = points @ np.linalg.pinv(np.array([points[group].mean(axis=0) for group in kept]))
        tips = [np.quantile(weights[group, i], _TIP, method="lower") for i, group in enumerate(groups)]
        kept = [group[weights[group, i] >= min(tips[i] / 2, tips[i])] for i, group in enumerate(groups)]
    return kept
