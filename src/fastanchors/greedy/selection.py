"""Rules that choose k vertices among points in k − 1 coordinates.

All work on the simplex that profiles form (see :mod:`.coordinates`): the points are *translated* to their centre and
*lifted* by a constant coordinate, so that all vertices count equally (Barbarino and Gillis, *On the robustness of the
successive projection algorithm*, 2024). They differ in what may be a vertex:

``"lifted"``
    a point.
``"whitened"``
    a point, after whitening (Gillis and Ma, SIAM J. Imaging Sci. 2015).
``"smoothed"``
    the mean of the points farthest in a direction (Bhattacharyya and Kannan, *Finding a latent k-simplex*, SODA 2020;
    Nadisic, Gillis and Kervazo, Linear Algebra Appl. 2023). Many directions are tried at each step and improved, so
    that a single outlier cannot decide the result.
``"smoothed-one"``
    the same from one direction per step, as in the second paper: that of the point farthest from the span.
``"pseudo-points"``
    the mean of a point and its nearest neighbours; points with distant neighbours are dropped (Jin, Ke, Moryoussef,
    Tang and Wang, *Improved algorithm and bounds for successive projection*, ICLR 2024). Noisy points have less weight.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .._validate import check_choice
from ..errors import RankError
from ..matrix import ArrayMatrix
from . import successive
from .corners import grown
from .neighbours import nearest_points
from .principal import settled
from .reader import Reader

__all__ = [
    "RULES",
    "Selection",
    "best_volume",
    "check_selection",
    "groups_by_rule",
    "lifted",
    "select",
    "smoothed_groups",
    "successive_projection",
]

Selection = Literal["auto", "spa", "smoothed", "smoothed-one", "pseudo-points", "lifted", "whitened"]
RULES = ("auto", "spa", "smoothed", "smoothed-one", "pseudo-points", "lifted", "whitened")

_STARTS = 16  # farthest points tried as directions, besides the principal axes in both orientations
_AXES = 64  # the axes are tried only up to this dimension: their cost is cubic in the dimension
_CLIMBS = 4  # the best of these are followed to their local maximum
_SHADOWS = 1 << 18  # projections of points on directions computed in one batch
_ROUNDS = 50
_ZERO = 1e-10  # residual, relative to the first, that counts as zero
_ISOLATED = 5.0  # a point is isolated if its last neighbour is farther than this many times the median
_TIE = (
    1e-9  # values that differ by less, relative to the largest, are equal: the first is taken, whatever their rounding
)
_SWAPS = 3  # largest number of exchanges per vertex

_Array = NDArray[np.float64]


def check_selection(selection: object) -> str:
    """Return the name of a rule; raise if it is not one."""
    check_choice(selection, RULES, name="selection")
    return str(selection)


def select(points: _Array, k: int, rule: str, *, neighbours: int = 10, precision: _Array | None = None) -> _Array:
    """The k vertices that the rule chooses: k × (k − 1)."""
    if rule == "lifted":
        return points[successive_projection(lifted(points), k)]
    if rule == "whitened":
        flat = np.column_stack([np.ones(len(points)), points])
        values, vectors = np.linalg.eigh(flat.T @ flat)
        return points[successive_projection(flat @ vectors / np.sqrt(np.maximum(values, 1e-300)), k)]
    count = min(neighbours, len(points))
    if rule in ("smoothed", "smoothed-one"):
        starts = "one" if rule == "smoothed-one" else "many"
        return np.array([points[group].mean(axis=0) for group in smoothed_groups(lifted(points), k, count, starts)])
    means = pseudo_points(points, count, np.ones(len(points)) if precision is None else precision)
    if rule == "auto" and k > points.shape[1] + 1:
        return means[hull_corners(means, k)]
    chosen = successive_projection(lifted(means), k)
    return means[best_volume(means, chosen)] if rule == "auto" else means[chosen]


def groups_by_rule(points: _Array, k: int, count: int, rule: str, starts: str = "many") -> list[NDArray[np.intp]]:
    """k groups of points that represent the vertices a rule chooses, in the order of extraction.

    Groups have ``count`` points for ``"auto"``, which is ``"smoothed"`` here, ``"smoothed-one"`` and
    ``"pseudo-points"``. They are single points for the rules whose vertices are points.
    """
    if rule == "smoothed-one":
        return smoothed_groups(points, k, count, "one")
    if rule in ("auto", "smoothed"):
        return smoothed_groups(points, k, count, starts)
    if rule == "spa":
        return list(successive_projection(points, k)[:, None])
    size = min(count, len(points)) if rule == "pseudo-points" else 1
    groups = []
    for vertex in select(points, k, rule, neighbours=size):
        gaps = points - vertex
        groups.append(_top(-np.einsum("ij,ij->i", gaps, gaps), size))
    return groups


def lifted(points: _Array) -> _Array:
    """Centre the points and append a constant coordinate equal to the largest distance from the mean."""
    moved = points - points.mean(axis=0)
    height = np.sqrt(np.einsum("ij,ij->i", moved, moved).max(initial=0.0))
    return np.column_stack([moved, np.full(len(points), height if height > 0 else 1.0)])


def successive_projection(points: _Array, k: int) -> NDArray[np.intp]:
    """SPA by the greedy engine: repeatedly choose the point farthest from the span of those already chosen."""
    path = successive.successive_projection(Reader(ArrayMatrix(points)), k, tol=_ZERO)
    return np.array(path.indices, dtype=np.intp)


def best_volume(points: _Array, chosen: NDArray[np.intp]) -> NDArray[np.intp]:
    """Exchange single vertices while that enlarges the simplex (N-FINDR's steps, from a good start).

    Replacing vertex j by a point whose barycentric coordinate there is w multiplies the volume by |w|.
    """
    chosen = chosen.copy()
    flat = np.column_stack([np.ones(len(points)), points])
    for _ in range(_SWAPS * len(chosen)):
        weights = np.abs(flat @ _inverse(flat[chosen]))
        first = int(np.argmax(weights >= (1 - _TIE) * weights.max()))
        point, vertex = np.unravel_index(first, weights.shape)
        if weights[point, vertex] <= 1.0 + 1e-9:
            break
        chosen[vertex] = point
    return chosen


def _inverse(simplex: _Array) -> _Array:
    """The inverse of the vertices of a simplex; the pseudo-inverse, which takes longer, if they are dependent."""
    try:
        return np.asarray(np.linalg.inv(simplex))
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.pinv(simplex))


def hull_corners(points: _Array, k: int) -> NDArray[np.intp]:
    """Choose k corners of the hull of points in fewer than k − 1 dimensions, from a simplex of full dimension."""
    simplex = best_volume(points, successive_projection(lifted(points), points.shape[1] + 1))
    return grown(points, simplex, k)


def pseudo_points(points: _Array, count: int, precision: _Array) -> _Array:
    """For every point the mean of its ``count`` nearest, weighted by precision; isolated points are dropped."""
    if count < 2:
        return points
    distances, near = nearest_points(points, count)
    supported = distances[:, -1] <= _ISOLATED * np.median(distances[:, -1])
    kept = supported if supported.sum() > points.shape[1] + 1 else np.ones(len(points), dtype=bool)
    weights = precision[near[kept]]
    weights /= weights.sum(axis=1, keepdims=True)
    return np.asarray(np.einsum("ij,ijk->ik", weights, points[near[kept]]))


def smoothed_groups(points: _Array, k: int, count: int, starts: str = "many") -> list[NDArray[np.intp]]:
    """k groups of ``count`` points each, whose means are the vertices, in the order of extraction.

    This is SPA on the hull of the means of any ``count`` points: in direction u its farthest point is the mean of the
    ``count`` points farthest along u. From each start, u is replaced by the direction of that mean until it converges.

    Costs k·(16 + 2·d) products and partial sorts of m numbers for m points in d dimensions; k·16 if d is above 64
    or ``starts="points"`` omits the principal axes. Memory: one copy.
    """
    residuals = points.copy()
    groups: list[NDArray[np.intp]] = []
    first = 0.0
    for _ in range(k):
        group, size = _farthest_mean(residuals, count, starts)
        first = first or size
        if size <= _ZERO * first:
            raise _exhausted(len(groups), k)
        direction = residuals[group].mean(axis=0)
        direction /= np.linalg.norm(direction)
        for _ in range(2):  # twice makes them orthogonal up to rounding
            residuals -= np.outer(residuals @ direction, direction)
        groups.append(group)
    return groups


def _farthest_mean(residuals: _Array, count: int, starts: str) -> tuple[NDArray[np.intp], float]:
    """The group whose mean residual is longest among the local maxima found, and that length."""
    if starts == "one":
        farthest_point = residuals[_top(np.einsum("ij,ij->i", residuals, residuals), 1)[0]]
        group = _top(residuals @ farthest_point, count)
        return group, float(np.linalg.norm(residuals[group].mean(axis=0)))
    directions = _directions(residuals, axes=starts == "many" and residuals.shape[1] <= _AXES)
    sizes = _mean_lengths(residuals, directions, count)
    best, farthest = np.arange(count), -1.0
    for start in np.argsort(-np.round(sizes / (_TIE * sizes.max() or 1.0)), kind="stable")[:_CLIMBS]:
        group, size = _climb(residuals, directions[start], count)
        if size > farthest * (1 + _TIE):
            best, farthest = group, size
    return best, farthest


def _mean_lengths(residuals: _Array, directions: _Array, count: int) -> _Array:
    """For each direction the length of the mean of the ``count`` points farthest along it, computed in batches."""
    sizes = np.empty(len(directions))
    batch = max(1, _SHADOWS // len(residuals))
    for start in range(0, len(directions), batch):
        at = slice(start, start + batch)
        groups = np.argpartition(-directions[at] @ residuals.T, count - 1, axis=1)[:, :count]
        sizes[at] = np.linalg.norm(residuals[np.sort(groups, axis=1)].mean(axis=1), axis=1)
    return sizes


def _climb(residuals: _Array, direction: _Array, count: int) -> tuple[NDArray[np.intp], float]:
    group, size = np.arange(count), 0.0
    for _ in range(_ROUNDS):
        tried = _top(residuals @ direction, count)
        mean = residuals[tried].mean(axis=0)
        length = float(np.linalg.norm(mean))
        if length <= size * (1 + _TIE):
            break
        group, size, direction = tried, length, mean / length
    return group, size


def _directions(residuals: _Array, *, axes: bool) -> _Array:
    """Start directions: towards the farthest points and, with ``axes``, both ways along the principal axes."""
    squares = np.einsum("ij,ij->i", residuals, residuals)
    starts = residuals[_top(squares, min(_STARTS, squares.size))]
    if axes:
        values, vectors = np.linalg.eigh(residuals.T @ residuals)
        main = settled(values[::-1], vectors[:, ::-1]).T
        starts = np.concatenate([starts, main, -main])
    lengths = np.linalg.norm(starts, axis=1)
    return np.asarray(starts[lengths > 0] / lengths[lengths > 0, None])


def _top(values: _Array, count: int) -> NDArray[np.intp]:
    """Indices of the ``count`` largest values, in increasing order of index; of equal values the first."""
    last, tie = np.partition(values, -count)[-count], _TIE * np.abs(values).max()
    larger = np.flatnonzero(values > last + tie)
    return np.sort(np.append(larger, np.flatnonzero(np.abs(values - last) <= tie)[: count - len(larger)]))


def _exhausted(found: int, k: int) -> RankError:
    return RankError(
        f"only {found} of {k} anchors found: the residual is numerically zero at rank {found}; use k ≤ {found}", found
    )
