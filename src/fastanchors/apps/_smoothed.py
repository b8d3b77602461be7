"""Smoothed SPA: successive projection on the means of many points instead of on single points.

SPA takes the point farthest from the span of those taken. One bad point (a dark pixel whose noise l1 scaling blows up,
a dead detector) is the farthest of all. Let K be the hull of the means of any c of the points: every vertex of it
speaks for c points, and one outlier moves none of them by more than 1/c of its size. K shrinks towards the simplex of
the materials from outside as noise averages out, so its extreme points are better estimates of the vertices than any
point is (Bhattacharyya and Kannan, *Finding a latent k-simplex*, SODA 2020; Nadisic, Gillis and Kervazo, *Smoothed
separable nonnegative matrix factorization*, Linear Algebra Appl. 2023). This is SPA on K.

In the direction u the farthest point of K is the mean of the c points that project furthest on u. The farthest point
from the span of what was taken maximises a convex function over K: from several directions, u is replaced by the
direction of the mean it leads to until the mean no longer moves. Every round gains, so each start ends in a local
maximum; the best is taken. The papers take the one direction of the farthest single point, which an outlier decides.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..errors import RankError

__all__ = ["cores", "nearest_to_means", "smoothed_projection"]

_STARTS = 16  # farthest points tried as directions, besides the principal axes both ways
_AXES = 64  # the axes are tried in no more dimensions than this: their cost is cubic in the dimension
_CLIMBS = 4  # the best of these are followed to their local maximum
_ROUNDS = 50
_TIP = 0.9  # quantile of the weights in a group that stands for its pure points
_ZERO = 1e-10  # residual, relative to the first, that counts as none


def smoothed_projection(points: NDArray[np.float64], k: int, count: int) -> list[NDArray[np.intp]]:
    """k groups of ``count`` points each, whose means are the vertices, in the order of extraction.

    Costs k·(16 + 2·d) products and partial sorts of m numbers for m points in d dimensions; memory: one copy.
    """
    residuals = points.copy()
    groups: list[NDArray[np.intp]] = []
    first = 0.0
    for _ in range(k):
        group, size = _farthest_mean(residuals, count)
        first = first or size
        if size <= _ZERO * first:
            raise RankError(
                f"only {len(groups)} of {k} vertices found: what is left of the data is numerically zero; "
                f"ask for k ≤ {len(groups)}",
                len(groups),
            )
        direction = residuals[group].mean(axis=0)
        direction /= np.linalg.norm(direction)
        for _ in range(2):  # twice is enough to be orthogonal to rounding
            residuals -= np.outer(residuals @ direction, direction)
        groups.append(group)
    return groups


def nearest_to_means(points: NDArray[np.float64], groups: list[NDArray[np.intp]]) -> NDArray[np.intp]:
    """For each group the member nearest to its mean that no earlier group was given."""
    taken: list[int] = []
    for group in groups:
        distances = np.linalg.norm(points[group] - points[group].mean(axis=0), axis=1)
        distances[np.isin(group, taken)] = np.inf
        taken.append(int(group[np.argmin(distances)]))
    return np.array(taken, dtype=np.intp)


def cores(points: NDArray[np.float64], groups: list[NDArray[np.intp]]) -> list[NDArray[np.intp]]:
    """The groups without the points that are not of their vertex, where a vertex has fewer points than its group.

    Written in the means as a basis, the points of a group have weights in its mean. Those of points alike are near 1. A
    group filled up with strangers has two kinds: its own, far above 1, and the rest near 0. Points of less than
    half the weight of the group's purest tenth are dropped; twice, for the first means are diluted.
    """
    kept = groups
    for _ in range(2):
        weights = points @ np.linalg.pinv(np.array([points[group].mean(axis=0) for group in kept]))
        tips = [np.quantile(weights[group, i], _TIP, method="lower") for i, group in enumerate(groups)]
        kept = [group[weights[group, i] >= tips[i] / 2] for i, group in enumerate(groups)]
    return kept


def _farthest_mean(residuals: NDArray[np.float64], count: int) -> tuple[NDArray[np.intp], float]:
    """The group whose mean residual is longest among the local maxima found, and that length."""
    starts = _directions(residuals)
    sizes = [float(np.linalg.norm(residuals[_top(residuals @ u, count)].mean(axis=0))) for u in starts]
    best, farthest = np.arange(count), -1.0
    for start in np.argsort(-np.array(sizes), kind="stable")[:_CLIMBS]:
        group, size = _climb(residuals, starts[start], count)
        if size > farthest * (1 + 1e-12):
            best, farthest = group, size
    return best, farthest


def _climb(
    residuals: NDArray[np.float64], direction: NDArray[np.float64], count: int
) -> tuple[NDArray[np.intp], float]:
    group, size = np.arange(count), 0.0
    for _ in range(_ROUNDS):
        tried = _top(residuals @ direction, count)
        mean = residuals[tried].mean(axis=0)
        length = float(np.linalg.norm(mean))
        if length <= size * (1 + 1e-12):
            break
        group, size, direction = tried, length, mean / length
    return group, size


def _directions(residuals: NDArray[np.float64]) -> NDArray[np.float64]:
    """Where to start: towards the farthest points and along the principal axes, both ways."""
    squares = np.einsum("ij,ij->i", residuals, residuals)
    starts = residuals[_top(squares, min(_STARTS, squares.size))]
    if residuals.shape[1] <= _AXES:
        axes = np.linalg.eigh(residuals.T @ residuals)[1].T
        starts = np.concatenate([starts, axes, -axes])
    lengths = np.linalg.norm(starts, axis=1)
    return np.asarray(starts[lengths > 0] / lengths[lengths > 0, None])


def _top(values: NDArray[np.float64], count: int) -> NDArray[np.intp]:
    """Indices of the ``count`` largest values, in rising order of index."""
    return np.sort(np.argpartition(-values, count - 1)[:count])
