"""The nearest neighbours of every point: by a tree in few dimensions, by all products of points in more."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from .._jit import jit

__all__ = ["nearest_points", "smallest_of_rows"]

_TREE, _DEEP = 10, 24  # in more dimensions than this, comparing all pairs of points is faster than a tree…
_MANY = 1 << 13  # …the second if there are more points than this
_PRODUCTS = 1 << 17  # products of points computed in one batch: they stay in the cache
_LANES = 128  # entries compared together

_Array = NDArray[np.float64]


def nearest_points(points: _Array, count: int) -> tuple[_Array, NDArray[np.intp]]:
    """Distances and indices of the ``count`` points nearest to each point, itself included, nearest first."""
    if points.shape[1] <= (_TREE if len(points) <= _MANY else _DEEP):
        return cKDTree(points).query(points, count)
    distances, near = np.empty((len(points), count)), np.empty((len(points), count), dtype=np.intp)
    moved = np.ascontiguousarray(points - points.mean(axis=0))
    squares = np.einsum("ij,ij->i", moved, moved)
    step = max(1, _PRODUCTS // len(points))
    for start in range(0, len(points), step):
        at = slice(start, start + step)
        smallest_of_rows(moved[at] @ moved.T, squares, moved, start, distances[at], near[at])
    return np.sqrt(distances), near


@jit
def smallest_of_rows(products: Any, squares: Any, points: Any, start: int, distances: Any, near: Any) -> None:
    """For points ``start``, … the nearest of all points, by their products; then their squared distances, in order.

    Of equally near points, those with the lowest index come first.
    """
    m, n = products.shape
    count = near.shape[1]
    least, place = np.empty(_LANES), np.empty(_LANES, dtype=np.intp)
    for i in range(m):
        row, value, index = products[i], distances[i], near[i]
        for j in range(n):
            row[j] = squares[j] - 2 * row[j]
        held, worst = 0, _reach(row, count, least, place)
        for low in range(0, n, _LANES):
            high = min(n, low + _LANES)
            hits = 0
            for j in range(low, high):
                hits += row[j] <= worst
            for j in range(low, high if hits else low):
                if row[j] <= worst and (held < count or row[j] < value[count - 1]):
                    held = min(held + 1, count)
                    _insert(value, index, held - 1, row[j], j)
        point = points[start + i]
        for c in range(count):
            other = points[index[c]]
            square = 0.0
            for a in range(len(point)):
                square += (other[a] - point[a]) ** 2
            _insert(value, index, c, square, index[c])


@jit
def _reach(row: Any, count: int, least: Any, place: Any) -> float:
    """A number that at least ``count`` entries of a row do not exceed: of the least entries of some parts of it."""
    n, lanes = len(row), len(least)
    if n < 2 * lanes or 2 * count > lanes:
        return np.inf
    for lane in range(lanes):
        least[lane] = row[lane]
    for low in range(lanes, n - lanes + 1, lanes):
        part = row[low : low + lanes]
        for lane in range(lanes):
            least[lane] = part[lane] if part[lane] < least[lane] else least[lane]
    for lane in range(lanes):
        if lane < count or least[lane] < least[count - 1]:
            _insert(least, place, min(lane, count - 1), least[lane], 0)
    return float(least[count - 1])


@jit
def _insert(values: Any, indices: Any, at: int, value: float, index: int) -> None:
    """Insert into the sorted first ``at`` entries, after smaller ones; of equal ones the lowest index is first."""
    while at > 0 and (values[at - 1] > value or (values[at - 1] == value and indices[at - 1] > index)):
        values[at], indices[at] = values[at - 1], indices[at - 1]
        at -= 1
    values[at], indices[at] = value, index
