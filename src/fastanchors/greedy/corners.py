"""Choose corners of the convex hull of points, if there are more corners than dimensions plus one.

The next corner is always the point farthest from the hull of those chosen (Gillis, *Successive nonnegative projection
algorithm*, SIAM J. Imaging Sci. 2014), or, if no point is outside, the one farthest from the corners. Every point has a
known mixture of the corners, whose distance bounds that from the hull, and only points with a bound above the largest
distance found are examined. For these, Wolfe's active set (*Finding the nearest point in a polytope*, Math. Program.
1976) starts from the nearest corner: nearest mixtures have few corners, and adding these takes fewer steps than
removing those that a known mixture has in excess.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._jit import jit

__all__ = ["Hull", "distance_from_hull", "grown", "nearest_mixtures"]

_SWEEPS, _SPARE = 2, 4  # sweeps that choose every corner again, if there are at most this many more than a simplex has
_MARGIN = 1 + 1e-9  # for the rounding of bounds
_INSIDE = 1e-6  # distances from the hull, and differences of distances, that are rounding: times the largest coordinate
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


def distance_from_hull(point: _Array, corners: _Array, usable: NDArray[np.bool_]) -> float:
    """The distance of a point from the hull of the usable corners."""
    shares, bounds, examined = np.zeros((1, len(corners))), np.full(1, np.inf), np.zeros(1, dtype=np.bool_)
    return float(nearest_mixtures(corners, usable, point[None], np.zeros(1, np.intp), 0.0, shares, bounds, examined))


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
        self._tie = _INSIDE * float(np.abs(points).max(initial=0.0))
        self.chosen = np.full(k, -1, dtype=np.intp)
        self._corners = np.zeros((k, points.shape[1]))
        self._usable = np.zeros(k, dtype=np.bool_)
        for at, point in enumerate(simplex):
            self.put(at, point)
        flat = np.column_stack([np.ones(len(points)), points])
        shares = np.maximum(flat @ np.linalg.pinv(flat[simplex]), 0.0)  # of points inside the simplex: exact
        self._shares = np.zeros((len(points), k))
        self._shares[:, : len(simplex)] = shares / shares.sum(axis=1, keepdims=True)
        self._bounds = self._gaps(self._points, self._shares)

    def put(self, at: int, point: int) -> None:
        """Make a point the corner with number ``at``; the mixtures must not use that corner, or be changed too."""
        self.chosen[at], self._corners[at], self._usable[at] = point, self._points[point], True

    def _gaps(self, points: _Array, shares: _Array) -> _Array:
        """Distances of points from their mixtures, rounded up."""
        gaps = points - shares @ self._corners
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", gaps, gaps)) * _MARGIN)

    def farthest(self) -> int:
        """The point farthest from the hull; bounds of points that had to be examined become smaller."""
        examined = np.zeros(len(self._points), dtype=np.bool_)
        return self._farthest(self._shares, self._bounds, examined)

    def _farthest(self, shares: _Array, bounds: _Array, examined: NDArray[np.bool_]) -> int:
        """The same for given bounds; improves those of points examined, and writes their mixtures to ``shares``."""
        first = np.argmax(bounds)
        best = self._examine(np.array([first]), shares, bounds, examined, 0.0)
        others = np.flatnonzero((bounds >= best) & ~examined)
        best = self._examine(others[np.argsort(-bounds[others], kind="stable")], shares, bounds, examined, best)
        return self._apart() if best <= self._tie else int(np.argmax(np.where(examined, bounds, -1.0)))

    def _apart(self) -> int:
        """The point farthest from its nearest corner; of equally far ones the first."""
        gaps = np.min([np.linalg.norm(self._points - corner, axis=1) for corner in self._corners[self._usable]], axis=0)
        return int(np.argmax(gaps >= gaps.max() - self._tie))

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

        In the mixtures that use a corner, the mixture of the other corners that is nearest to it takes its place.
        """
        unchanged, without = 0, np.empty_like(self._shares)
        for at in list(range(len(self.chosen))) * _SWEEPS:
            corner, using = int(self.chosen[at]), np.flatnonzero(self._shares[:, at])
            points, shares = self._points[using], self._shares[using]
            self._usable[at] = False
            bounds, examined = self._bounds.copy(), np.zeros(len(self._points), dtype=np.bool_)
            bounds[using] = self._gaps(points, _replaced(shares, at, self.nearest(corner)))
            found = self._farthest(without, bounds, examined)
            self.put(at, found)
            unchanged += 1
            if found != corner:
                unchanged = 0
                self._shares[using] = shares = _replaced(shares, at, self.nearest(corner))
                self._bounds[using] = self._gaps(points, shares)
            nearer = examined & (bounds < self._bounds)
            self._shares[nearer], self._bounds[nearer] = without[nearer], bounds[nearer]
            if unchanged >= len(self.chosen):
                break


def _replaced(shares: _Array, at: int, mixture: _Array) -> _Array:
    """Shares with a mixture in place of a corner."""
    replaced = shares + np.outer(shares[:, at], mixture)
    replaced[:, at] -= shares[:, at]
    return replaced


@jit
def nearest_mixtures(
    corners: Any, usable: Any, points: Any, order: Any, best: float, shares: Any, bounds: Any, examined: Any
) -> float:
    """Nearest mixtures of the usable corners by Wolfe's method, for points in this order whose bounds reach ``best``.

    ``best`` is the largest distance so far; returns the largest. Bounds are replaced by distances, or by smaller bounds
    if these are below ``best``; the shares of the corners in these mixtures are written to ``shares``.

    Inner loops run along corners or coordinates, never along the terms of a sum: these keep their order, and the loops
    are compiled to vector instructions.
    """
    k, d = corners.shape
    V, across, products, known = np.empty((k, d)), np.empty((d, k)), np.empty((k, k)), np.empty(k, dtype=np.bool_)
    L, U, index = np.empty((d + 2, d + 2)), np.empty((d + 2, d + 2)), np.empty(d + 2, dtype=np.intp)
    weights, target, gap, along = np.empty(d + 2), np.empty(d + 2), np.empty(d), np.empty(k)
    for i in order:
        if bounds[i] < best:
            break
        examined[i], bounds[i], share = True, np.inf, shares[i]
        lift, index[0] = _start(corners, usable, points[i], V, across, along)
        known[:] = False
        weights[0], ready, p = 1.0, 0, 1
        for _ in range(20 * (k + d)):
            p = _factor(V, across, lift, ready, p, products, known, L, U, target, index, weights)
            ready = _step(p, L, U, weights, target)
            if ready < p:
                p = _without_zeros(p, index, weights)
                continue
            gap[:] = 0.0
            for c in range(p):
                corner, weight = V[index[c]], weights[c]
                for a in range(d):
                    gap[a] += weight * corner[a]
            square = 0.0
            for a in range(d):
                square += gap[a] * gap[a]
            if np.sqrt(square) >= bounds[i]:
                break
            bounds[i] = np.sqrt(square)
            share[:] = 0.0
            for c in range(p):
                share[index[c]] = weights[c]
            if p > d or bounds[i] < best:
                break
            _add_products(across, gap, along, 0.0)
            entering, least = -1, square - _ROUNDING * np.sqrt(lift * square)
            for j in range(k):
                if usable[j] and along[j] < least:
                    entering, least = j, along[j]
            if entering < 0:
                break
            index[p], weights[p] = entering, 0.0
            p += 1
        best = bounds[i] if bounds[i] > best else best
    return best


@jit
def _start(corners: Any, usable: Any, y: Any, V: Any, across: Any, squares: Any) -> tuple[float, int]:
    """The corners relative to y, in both layouts; returns the largest squared distance, and the nearest corner."""
    k, d = corners.shape
    for j in range(k):
        corner, own = corners[j], V[j]
        for a in range(d):
            own[a] = corner[a] - y[a]
    squares[:] = 0.0
    for a in range(d):
        row = across[a]
        for j in range(k):
            row[j] = V[j, a]
        for j in range(k):
            squares[j] += row[j] * row[j]
    largest, least, nearest = 0.0, np.inf, 0
    for j in range(k):
        if usable[j]:
            largest = squares[j] if squares[j] > largest else largest
            if squares[j] < least:
                least, nearest = squares[j], j
    return largest, nearest


@jit
def _add_products(across: Any, vector: Any, along: Any, lift: float) -> None:
    """The products of a vector with all corners (d × k), raised by ``lift``."""
    along[:] = lift
    for a in range(len(vector)):
        row, part = across[a], vector[a]
        for j in range(len(along)):
            along[j] += row[j] * part


@jit
def _factor(
    V: Any,
    across: Any,
    lift: float,
    ready: int,
    p: int,
    products: Any,
    known: Any,
    L: Any,
    U: Any,
    row: Any,
    index: Any,
    weights: Any,
) -> int:
    """Complete the Cholesky factor of the products of p corners, all raised by ``lift``, whose first rows are ready.

    Without the lift there is none if y is in the affine span of the corners. A corner that depends on those before it
    is left out, and its weight given to the others; returns how many are left. The diagonal is inverted. U is the
    transpose of L; ``products`` of corners are computed when they are needed first.
    """
    for at in range(ready, p):
        j = index[at]
        if not known[j]:
            known[j] = True
            _add_products(across, V[j], products[j], lift)
        index[ready], weights[ready] = j, weights[at]
        for c in range(ready + 1):
            row[c] = products[j, index[c]]
        for e in range(ready):
            entry, later = row[e] * L[e, e], U[e]
            L[ready, e] = later[ready] = entry
            for c in range(e + 1, ready + 1):
                row[c] -= entry * later[c]
        if row[ready] > _DEPENDENT * lift or ready == 0:
            L[ready, ready] = 1.0 / np.sqrt(row[ready]) if row[ready] > 0.0 else 1.0
            ready += 1
    if ready < p:
        total = 0.0
        for c in range(ready):
            total += weights[c]
        for c in range(ready):
            weights[c] /= total
    return ready


@jit
def _step(p: int, L: Any, U: Any, weights: Any, target: Any) -> int:
    """Go towards the nearest point of the affine span of p corners, until a weight vanishes; returns which, or p."""
    target[:p] = 1.0
    for e in range(p):
        target[e] *= L[e, e]
        entry, later = target[e], U[e]
        for c in range(e + 1, p):
            target[c] -= later[c] * entry
    total = 0.0
    for c in range(p - 1, -1, -1):
        target[c] *= L[c, c]
        entry, row = target[c], L[c]
        for e in range(c):
            target[e] -= row[e] * entry
        total += entry
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
