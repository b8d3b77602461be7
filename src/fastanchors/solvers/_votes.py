"""Find the extreme rows of random projections, block by block: ends of lines, and corners of planar hulls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .._jit import jit

__all__ = ["Corners", "Ends", "Votes"]

_LEAST = np.finfo(np.float64).smallest_subnormal
_TURNS = np.stack([np.cos(np.arange(16) * np.pi / 8), np.sin(np.arange(16) * np.pi / 8)], axis=1)


class Votes(Protocol):
    """Collects projections block by block, rows in increasing order, and then yields (row, votes) of extreme rows."""

    def add(self, rows: NDArray[np.intp], P: NDArray[np.float64]) -> None: ...

    def votes(self) -> Iterator[tuple[int, float]]: ...


class Ends:
    """The two ends of the data on each of s lines; each end has one vote.

    Projections closer than ``tie``, relative to the largest, count as equal: the lower row wins.
    """

    def __init__(self, s: int, tie: float) -> None:
        self.tie = tie
        self.value = np.full((2, s), -np.inf)  # largest projection, largest negated projection
        self.row = np.full((2, s), -1, dtype=np.intp)

    def add(self, rows: NDArray[np.intp], P: NDArray[np.float64]) -> None:
        slack = self.tie * np.abs(P).max(axis=0)
        for end, side in enumerate((P, -P)):
            best = side.max(axis=0)
            better = best > self.value[end] + slack
            first = np.argmax(side >= best - slack, axis=0)
            self.row[end, better] = rows[first[better]]
            np.maximum(self.value[end], best, out=self.value[end])

    def votes(self) -> Iterator[tuple[int, float]]:
        for row in self.row.ravel().tolist():
            if row >= 0:
                yield row, 1.0


class Corners:
    """The corners of the data's hull in each of s planes (columns 2p and 2p + 1 of the projections).

    A corner has its exterior angle over π as votes. That is the expected number of times it is an end of a random line
    in the plane, so the votes of a plane sum to 2, like those of a line. ``tie`` is the width of a grid, relative to
    the largest coordinate; of points in the same cell the lower row wins. Points are kept in units of that grid, so
    that their products neither overflow nor vanish.
    """

    def __init__(self, s: int, tie: float) -> None:
        self.tie = tie
        self.quantum = np.zeros(s)
        self.points = [np.empty((0, 2)) for _ in range(s)]
        self.rows = [np.empty(0, dtype=np.intp) for _ in range(s)]

    def add(self, rows: NDArray[np.intp], P: NDArray[np.float64]) -> None:
        by_plane = np.ascontiguousarray(P.T)
        for plane in range(len(self.rows)):
            x, y = by_plane[2 * plane], by_plane[2 * plane + 1]
            if self.quantum[plane] == 0.0:  # set by the first block that is not all zero
                largest = max(np.abs(x).max(), np.abs(y).max())
                self.quantum[plane] = max(self.tie * largest, _LEAST) if largest > 0.0 else 0.0
            if self.quantum[plane] > 0.0:
                x, y = x / self.quantum[plane], y / self.quantum[plane]
            outer = np.flatnonzero(not_inside(x, y, _TURNS, 4.0))
            xy = np.round(np.stack([x[outer], y[outer]], axis=1))  # copies of a row differ in rounding only
            together = np.vstack([self.points[plane], xy])
            number = np.concatenate([self.rows[plane], rows[outer]])
            order = np.lexsort((number, together[:, 1], together[:, 0]))
            sorted_xy = together[order]
            distinct = np.ones(len(order), dtype=bool)
            distinct[1:] = np.any(sorted_xy[1:] != sorted_xy[:-1], axis=1)
            sorted_xy, order = np.ascontiguousarray(sorted_xy[distinct]), order[distinct]
            corner = hull_corners(sorted_xy)
            self.points[plane], self.rows[plane] = sorted_xy[corner], number[order[corner]]

    def votes(self) -> Iterator[tuple[int, float]]:
        for xy, rows in zip(self.points, self.rows):
            yield from zip(rows.tolist(), exterior_angles(xy) / np.pi)


@jit
def not_inside(
    x: NDArray[np.float64], y: NDArray[np.float64], turns: NDArray[np.float64], margin: float
) -> NDArray[np.bool_]:
    """False for points that lie deeper than ``margin`` inside the polygon of the extremes in the given directions.

    These points, usually nearly all, cannot be corners of the hull and need no sorting (Akl and Toussaint). ``turns``
    are unit vectors in counter-clockwise order.
    """
    ends = np.empty(len(turns), dtype=np.intp)
    size = 0
    for t in range(len(turns)):
        best, at = -np.inf, 0
        for i in range(len(x)):
            value = turns[t, 0] * x[i] + turns[t, 1] * y[i]
            if value > best:
                best, at = value, i
        if size == 0 or (at != ends[size - 1] and at != ends[0]):
            ends[size] = at
            size += 1
    keep = np.ones(len(x), dtype=np.bool_)
    if size < 3:
        return keep
    for i in range(len(x)):
        inside = True
        for e in range(size):
            a, b = ends[e], ends[(e + 1) % size]
            dx, dy = x[b] - x[a], y[b] - y[a]
            if dx * (y[i] - y[a]) - dy * (x[i] - x[a]) <= margin * (abs(dx) + abs(dy)):
                inside = False
                break
        keep[i] = not inside
    return keep


@jit
def hull_corners(xy: NDArray[np.float64]) -> NDArray[np.intp]:
    """Corners of the hull of distinct points sorted by (x, y), counter-clockwise (Andrew's monotone chain)."""
    n = len(xy)
    if n <= 2:
        return np.arange(n)
    hull = np.empty(n + 1, dtype=np.intp)
    size = 0
    for turn in range(2):  # lower chain from left to right, upper chain back
        base = size
        for step in range(n):
            i = step if turn == 0 else n - 1 - step
            while size >= base + 2:
                a, b = hull[size - 2], hull[size - 1]
                cross = (xy[b, 0] - xy[a, 0]) * (xy[i, 1] - xy[a, 1]) - (xy[b, 1] - xy[a, 1]) * (xy[i, 0] - xy[a, 0])
                if cross > 0.0:
                    break
                size -= 1
            hull[size] = i
            size += 1
        size -= 1  # the last point of a chain is the first of the other
    return hull[:size].copy()


def exterior_angles(corners: NDArray[np.float64]) -> NDArray[np.float64]:
    """Exterior angle at each corner of a convex polygon given counter-clockwise; they sum to 2π.

    A single point has 2π, the two ends of a segment have π each.
    """
    if len(corners) == 1:
        return np.array([2.0 * np.pi])
    edges = np.roll(corners, -1, axis=0) - corners
    heading = np.arctan2(edges[:, 1], edges[:, 0])
    return np.asarray(np.mod(heading - np.roll(heading, 1), 2.0 * np.pi))
