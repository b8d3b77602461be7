"""Choose corners of the convex hull of points, if there are more corners than dimensions plus one.

The next corner is always the point farthest from the hull of those chosen (Gillis, *Successive nonnegative projection
algorithm*, SIAM J. Imaging Sci. 2014). Every point has a known mixture of the corners, whose distance bounds that from
the hull, and only points with a bound above the largest distance found are examined. For these, Wolfe's active set
(*Finding the nearest point in a polytope*, Math. Program. 1976) starts from the known mixture.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._jit import jit

__all__ = ["Hull", "grown", "nearest_mixtures"]

_SWEEPS, _SPARE = 2, 4  # sweeps that choose every corner again, if there are at most this many more than a simplex has
_MARGIN = 1 + 1e-9  # for the rounding of bounds
_ROUNDING = 1e-14  # of a product, relative to the lengths of its vectors
_DEPENDENT = (
    1e-13  # squared distance from the affine span of other corners that counts as zero, in units of the largest
)

_Array = NDArray[np.float64]
_Indices = NDArray[np.intp]


def grown(points: _Array, simplex: _Indices, k: int) -> _Indices:
    """Add corners to those of a simplex until there are k, then choose each again, given the others."""
    hull = Hull(points, simplex, k)
    for at in range(len(simplex), k):
        hull.put(at, hull.farthest())
    if k - len(simplex) <= _SPARE:
        hull.sweep()
    return hull.chosen


class Hull:
    """The hull of some points, and for every point a mixture of the corners that is near it.

    Parameters
    ----------
    points : m × d array
        All points.
    simplex : array
        The first corners, affinely independent.
    k : int
        The largest number of corners.
    """

    def __init__(self, points: _Array, simplex: _Indices, k: int) -> None:
        self._points = np.ascontiguousarray(points)
        self.chosen = np.full(k, -1, dtype=np.intp)
        self._corners = np.zeros((k, points.shape[1]))
        self._usable = np.zeros(k, dtype=np.bool_)
        for at, point in enumerate(simplex):
            self.put(at, point)
        flat = np.column_stack([np.ones(len(points)), points])
        shares = np.maximum(flat @ np.linalg.pinv(flat[simplex]), 0.0)  # of points inside the simplex: exact
        self._shares = np.zeros((len(points), k))
        self._shares[:, : len(simplex)] = shares / shares.sum(axis=1, keepdims=True)
        self._bounds = self._gaps(self._shares)

    def put(self, at: int, point: int) -> None:
        """Make a point the corner with number ``at``; the mixtures must not use that corner, or be changed too."""
        self.chosen[at], self._corners[at], self._usable[at] = point, self._points[point], True

    def _gaps(self, shares: _Array) -> _Array:
        """Distance of every point from its mixture, rounded up."""
        gaps = self._points - shares @ self._corners
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", gaps, gaps)) * _MARGIN)

    def farthest(self) -> int:
        """The point farthest from the hull; bounds of points that had to be examined become smaller."""
        examined = np.zeros(len(self._points), dtype=np.bool_)
        return self._farthest(self._shares, self._bounds, examined)

    def _farthest(self, shares: _Array, bounds: _Array, examined: NDArray[np.bool_]) -> int:
        """The same for given mixtures and bounds of all points, which are improved."""
        first = np.argmax(bounds)
        best = self._examine(np.array([first]), shares, bounds, examined, 0.0)
        others = np.flatnonzero((bounds >= best) & ~examined)
        self._examine(others[np.argsort(-bounds[others], kind="stable")], shares, bounds, examined, best)
        return int(np.argmax(np.where(examined, bounds, -1.0)))

    def _examine(
        self, order: _Indices, shares: _Array, bounds: _Array, examined: NDArray[np.bool_], best: float
    ) -> float:
        """Distances of points in that order while bounds reach the largest distance so far, which is returned."""
        return float(nearest_mixtures(self._corners, self._usable, self._points, order, best, shares, bounds, examined))

    def nearest(self, point: int) -> _Array:
        """The shares of the corners in the nearest mixture of one of the points."""
        shares, bounds, examined = np.zeros((1, len(self._corners))), np.full(1, np.inf), np.zeros(1, dtype=np.bool_)
        place = self._points[point : point + 1]
        nearest_mixtures(self._corners, self._usable, place, np.zeros(1, np.intp), 0.0, shares, bounds, examined)
        return shares[0]

    def sweep(self) -> None:
        """Choose each corner again, in a few rounds: the point farthest from the hull of the others.

        In the mixtures of all points, the mixture of the other corners that is nearest to a corner takes its place.
        """
        unchanged = 0
        for at in list(range(len(self.chosen))) * _SWEEPS:
            corner = int(self.chosen[at])
            self._usable[at] = False
            without = self._replaced(at, self.nearest(corner))
            bounds, examined = self._gaps(without), np.zeros(len(self._points), dtype=np.bool_)
            found = self._farthest(without, bounds, examined)
            self.put(at, found)
            unchanged += 1
            if found != corner:
                unchanged = 0
                self._shares = self._replaced(at, self.nearest(corner))
                self._bounds = self._gaps(self._shares)
            nearer = examined & (bounds < self._bounds)
            self._shares[nearer], self._bounds[nearer] = without[nearer], bounds[nearer]
            if unchanged >= len(self.chosen):
                break

    def _replaced(self, at: int, mixture: _Array) -> _Array:
        """The shares of all points with a mixture in place of a corner."""
        shares = self._shares + np.outer(self._shares[:, at], mixture)
        shares[:, at] -= self._shares[:, at]
        return shares


@jit
def nearest_mixtures(
    corners: Any, usable: Any, points: Any, order: Any, best: float, shares: Any, bounds: Any, examined: Any
) -> float:
    """Nearest mixtures of the usable corners by Wolfe's method, for points in this order whose bounds reach ``best``.

    ``best`` is the largest distance so far; returns the largest. Shares are where the search starts. They are replaced,
    as are bounds, by distances, or by smaller bounds if these are below ``best``.
    """
    k, d = corners.shape
    V, L, index = np.empty((k, d)), np.empty((d + 2, d + 2)), np.empty(d + 2, dtype=np.intp)
    weights, target, gap = np.empty(d + 2), np.empty(d + 2), np.empty(d)
    for i in order:
        if bounds[i] < best:
            break
        examined[i], bounds[i], share = True, np.inf, shares[i]
        lift, p = _start(corners, usable, points[i], share, V, index, weights)
        ready = 0
        for _ in range(20 * (k + d)):
            p = _factor(V, lift, ready, p, L, index, weights)
            ready = _step(p, L, weights, target)
            if ready < p:
                p = _without_zeros(p, index, weights)
                continue
            square = 0.0
            for a in range(d):
                gap[a] = 0.0
                for c in range(p):
                    gap[a] += weights[c] * V[index[c], a]
                square += gap[a] * gap[a]
            if np.sqrt(square) >= bounds[i]:
                break
            bounds[i] = np.sqrt(square)
            share[:] = 0.0
            for c in range(p):
                share[index[c]] = weights[c]
            entering, least = -1, square - _ROUNDING * np.sqrt(lift * square)
            for j in range(k):
                along = 0.0
                for a in range(d):
                    along += V[j, a] * gap[a]
                if usable[j] and along < least:
                    entering, least = j, along
            if entering < 0 or p > d or bounds[i] < best:
                break
            index[p], weights[p] = entering, 0.0
            p += 1
        best = max(best, bounds[i])
    return best


@jit
def _start(corners: Any, usable: Any, y: Any, share: Any, V: Any, index: Any, weights: Any) -> tuple[float, int]:
    """The corners relative to y, the largest squared distance, and the number of corners of the first mixture.

    These are the corners with the given shares, at most d + 1 of them, or the nearest one.
    """
    k, d = corners.shape
    largest, least, nearest = 0.0, np.inf, 0
    p, total = 0, 0.0
    for j in range(k):
        square = 0.0
        for a in range(d):
            V[j, a] = corners[j, a] - y[a]
            square += V[j, a] * V[j, a]
        if usable[j]:
            largest = max(largest, square)
            if square < least:
                least, nearest = square, j
            if share[j] > 0.0 and p <= d:
                index[p], weights[p] = j, share[j]
                total += share[j]
                p += 1
    if p == 0:
        index[0], weights[0], total, p = nearest, 1.0, 1.0, 1
    for c in range(p):
        weights[c] /= total
    return largest, p


@jit
def _factor(V: Any, lift: float, ready: int, p: int, L: Any, index: Any, weights: Any) -> int:
    """Complete the Cholesky factor of the products of p corners, all raised by ``lift``, whose first rows are ready.

    Without the lift there is none if y is in the affine span of the corners. A corner that depends on those before it
    is left out, and its weight given to the others; returns how many are left. The diagonal is inverted.
    """
    for at in range(ready, p):
        j = index[at]
        index[ready], weights[ready] = j, weights[at]
        total = 0.0
        for c in range(ready + 1):
            total = lift
            for a in range(V.shape[1]):
                total += V[j, a] * V[index[c], a]
            for e in range(c):
                total -= L[ready, e] * L[c, e]
            if c < ready:
                L[ready, c] = total * L[c, c]
        if total > _DEPENDENT * lift or ready == 0:
            L[ready, ready] = 1.0 / np.sqrt(total) if total > 0.0 else 1.0
            ready += 1
    if ready < p:
        total = 0.0
        for c in range(ready):
            total += weights[c]
        for c in range(ready):
            weights[c] /= total
    return ready


@jit
def _step(p: int, L: Any, weights: Any, target: Any) -> int:
    """Go towards the nearest point of the affine span of p corners, until a weight vanishes; returns which, or p."""
    for c in range(p):
        total = 1.0
        for e in range(c):
            total -= L[c, e] * target[e]
        target[c] = total * L[c, c]
    total = 0.0
    for c in range(p - 1, -1, -1):
        target[c] *= L[c, c]
        for e in range(c):
            target[e] -= L[c, e] * target[c]
        total += target[c]
    step, blocking = 1.0, p
    for c in range(p):
        target[c] /= total
        if target[c] <= 0.0:
            ratio = weights[c] / (weights[c] - target[c]) if weights[c] > 0.0 else 0.0
            if ratio < step or blocking == p:
                step, blocking = ratio, c
    for c in range(p):
        weights[c] += step * (target[c] - weights[c])
    if blocking < p:
        weights[blocking] = 0.0
    first = p
    for c in range(p - 1, -1, -1):
        if weights[c] <= 0.0:
            first = c
    return first


@jit
def _without_zeros(p: int, index: Any, weights: Any) -> int:
    """Remove the corners without weight; returns how many are left."""
    kept = 0
    for c in range(p):
        if weights[c] > 0.0:
            index[kept], weights[kept] = index[c], weights[c]
            kept += 1
    return kept
