"""The nearest neighbours of every point: by a tree in few dimensions, by all products of points in more.

The products are in single precision. They leave a few points of which the distances are computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from .._jit import jit

__all__ = ["nearest_points", "smallest_of_rows"]

_TREE, _DEEP = 8, 24  # in more dimensions than this, comparing all pairs of points is faster than a tree, by far…
_MANY = 1 << 13  # …the second if there are more points than this
_PRODUCTS = 1 << 17  # products of points computed in one batch: they stay in the cache
_LANES = 128  # entries compared together
_ERRORS = 32 * 2.0**-24  # error of the bound per dimension: of two rough distances of points within three norms

_Array = NDArray[np.float64]


def nearest_points(points: _Array, count: int, every: int = 1) -> tuple[_Array, NDArray[np.intp]]:
    """Distances and indices of the ``count`` points nearest to each point, itself included, nearest first.

    For each point, or for the first of ``every`` so many.
    """
    if points.shape[1] <= (_TREE if len(points) <= _MANY else _DEEP):
        return cKDTree(points).query(points[::every], count)
    moved = np.ascontiguousarray(points - points.mean(axis=0))
    unit = np.frexp(np.abs(moved).max())[1]
    moved = np.ldexp(moved, -unit)  # squares neither overflow nor vanish
    asked, error = np.ascontiguousarray(moved[::every]), _ERRORS * (points.shape[1] + 4)
    squares, ones = np.einsum("ij,ij->i", moved, moved), np.ones(len(asked))
    left, right = (np.column_stack(pair).astype(np.float32) for pair in ((asked, ones), (-2 * moved, squares)))
    distances, near = np.empty((len(asked), count)), np.empty((len(asked), count), dtype=np.intp)
    step = max(1, _PRODUCTS // len(points))
    for start in range(0, len(asked), step):
        at = slice(start, start + step)
        smallest_of_rows(left[at] @ right.T, error, moved, asked[at], distances[at], near[at])
    return np.ldexp(np.sqrt(distances), unit), near


@jit
def smallest_of_rows(rough: Any, error: float, points: Any, asked: Any, distances: Any, near: Any) -> None:
    """For the points asked the nearest of all points, and their squared distances, in order.

    ``rough`` are squared distances minus the squared norm of the point asked, with an error of at most ``error``
    times the squared norms. Distances are computed for the points that may be among the nearest: those of the lanes
    (every so many entries of a row) whose least entry is small. Of equally near points, those with the lowest index
    come first.
    """
    m, n = rough.shape
    count = near.shape[1]
    least, some, place = np.empty(_LANES, dtype=np.float32), np.empty(count), np.empty(count, dtype=np.intp)
    for i in range(m):
        row, point, value, index = rough[i], asked[i], distances[i], near[i]
        held, size = 0, 0.0
        for a in range(len(point)):
            size += point[a] * point[a]
        _least_of_lanes(row, least)
        reach = _raised(_reach(least, some, place), error, size)
        for lane in range(_LANES):
            for j in range(lane, n if least[lane] <= reach else 0, _LANES):
                if row[j] <= reach:
                    square = _squared_distance(points[j], point)
                    if held < count or square < value[held - 1] or (square == value[held - 1] and j < index[held - 1]):
                        held += held < count
                        _insert(value, index, held - 1, square, j)
                        if held == count:
                            nearer = _raised(value[count - 1] - size, error, size)
                            reach = nearer if nearer < reach else reach


@jit
def _raised(value: float, error: float, size: float) -> Any:
    """A rough distance with its error; infinity stays."""
    return np.float32(value + error * (size + abs(value)) if value < np.inf else value)


@jit
def _squared_distance(one: Any, other: Any) -> float:
    square = 0.0
    for a in range(len(one)):
        gap = one[a] - other[a]
        square += gap * gap
    return square


@jit
def _least_of_lanes(row: Any, least: Any) -> None:
    """The least of the entries lane, lane + lanes, … of a row, for each lane."""
    n, lanes = len(row), len(least)
    least[:] = np.inf
    for low in range(0, n - lanes + 1, lanes):
        part = row[low : low + lanes]
        for lane in range(lanes):
            least[lane] = part[lane] if part[lane] < least[lane] else least[lane]
    rest = row[n - n % lanes :]
    for lane in range(len(rest)):
        least[lane] = rest[lane] if rest[lane] < least[lane] else least[lane]


@jit
def _reach(least: Any, some: Any, place: Any) -> float:
    """The least of some lanes, as many as points are wanted, are at most this; infinity if there are too few lanes."""
    count = len(some)
    if 2 * count > len(least):
        return np.inf
    for lane in range(len(least)):
        if lane < count or least[lane] < some[count - 1]:
            _insert(some, place, lane if lane < count else count - 1, np.float64(least[lane]), 0)
    return float(some[count - 1])


@jit
def _insert(values: Any, indices: Any, at: int, value: float, index: int) -> None:
    """Insert into the sorted first ``at`` entries, after smaller ones; of equal ones the lowest index is first."""
    while at > 0 and (values[at - 1] > value or (values[at - 1] == value and indices[at - 1] > index)):
        values[at], indices[at] = values[at - 1], indices[at - 1]
        at -= 1
    values[at], indices[at] = value, index
