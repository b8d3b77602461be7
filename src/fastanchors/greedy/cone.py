"""Squared distances of all rows to the cone of the anchors, or to their convex hull with the origin.

The residual a − h·A_R has two orthogonal parts, outside and inside the span of the anchors. The first is that of SPA
(:mod:`fastanchors.greedy.span`). The second has norm ‖y − R·h‖, where y and R are the coordinates of the row and of the
anchors in an orthonormal basis. So no residual matrix is formed, and the small least-squares problems have the
condition number of the anchors, not its square. Both kinds of distance decrease as anchors are added, so they are
evaluated as lazily as SPA's: about one least-squares problem per row in a whole run.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .._parallel import map_ranges
from .lazy import Distances, Leaders
from .nnls import NonnegativeSystem
from .reader import Reader
from .span import Span

__all__ = ["ConeDistances"]

_CHUNK = 1 << 14  # rows solved together: bounds the temporaries
_WORTH_THREADS = 1 << 12  # smallest number of problems for which threads pay off
_IN_SPAN = 1e-10  # an anchor whose relative residual is below this adds no direction


class ConeDistances(Distances):
    """Squared distances of the rows to the cone of the anchors, or (``bounded``) to mixtures of them of sum ≤ 1.

    Memory: two numbers per row and the anchors.
    """

    def __init__(self, reader: Reader, capacity: int, *, bounded: bool) -> None:
        super().__init__(reader)
        self.bounded = bounded
        self.span = Span(reader, min(capacity, reader.shape[1]))
        self.points = np.zeros((0, reader.shape[1]))
        self._anchors = np.zeros((0, 0))  # R: anchors in the columns
        self._system: NonnegativeSystem | None = None

    def add(self, row: int) -> None:
        """Make ``row`` an anchor."""
        point = self.reader.row(row)
        self.points = np.vstack([self.points, point])
        outside = np.linalg.norm(self.span.off_basis(point))
        if outside > _IN_SPAN * np.linalg.norm(point) and len(self.span.basis) < self.reader.shape[1]:
            self.span.remove(self.span.direction(point)[0])
        self._anchors = R = self.span.basis @ self.points.T
        if self.bounded:  # the origin is one more anchor, and coefficients then sum to one
            R = np.column_stack([R, np.zeros(len(R))])
        self._system = NonnegativeSystem(R, sum_to=1.0 if self.bounded else None)
        self._step += 1
        self.bar(row)

    def coefficients(self, rows: NDArray[np.intp] | None = None) -> NDArray[np.float64]:
        """The coefficients h of those rows (None: all): their nearest points are h·A_R."""
        return self._solve(self.reader.project(rows, self.span.basis, single=False))

    def residual(self, row: int) -> NDArray[np.float64]:
        """The residual a − h·A_R of one row."""
        point = self.reader.row(row)
        if self._system is None:
            return point
        return point - self._solve(point[None] @ self.span.basis.T)[0] @ self.points

    def all_values(self) -> NDArray[np.float64]:
        """Squared distances of all rows, barred ones included, in double precision."""
        rows = np.arange(self.reader.shape[0])
        return self.exact(rows).values

    def outside(self, distance: float) -> NDArray[np.intp]:
        """The candidates certainly beyond that distance; if there are none, those that may be the farthest."""
        rows = np.flatnonzero(self._upper > distance**2)
        looked = self._note(self.exact(rows)) if self._step else self.exact(rows)
        sure = rows[looked.values - looked.errors > distance**2]
        return sure if sure.size else self.leaders().rows

    def _rough(self, rows: NDArray[np.intp] | None, floor: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        rows = np.arange(self.reader.shape[0]) if rows is None else rows
        slack = 2 * self.span.slack(single=True)
        single = self.reader.single and 4 * slack * self.largest_norm**2 < floor
        slack = slack if single else 2 * self.span.slack(single=False)
        values = np.empty(rows.size)
        for start in range(0, rows.size, _CHUNK):
            place = slice(start, start + _CHUNK)
            Y = self.reader.project(rows[place], self.span.basis, single=single)
            inside = self._inside(Y)
            values[place] = self.squared_norms[rows[place]] - np.einsum("ij,ij->i", Y, Y) + inside
        # The coordinates have error at most √t·δ·‖a‖, and the distance changes by no more than they do.
        return values, (slack + self.reader.norm_error) * self.squared_norms[rows]

    def exact(self, rows: NDArray[np.intp]) -> Leaders:
        looked = self.span.exact(rows)
        if self._system is None:
            return looked
        values = looked.values.copy()
        for start in range(0, rows.size, _CHUNK):
            place = slice(start, start + _CHUNK)
            values[place] += self._inside(self.reader.project(rows[place], self.span.basis, single=False))
        # The error of the inside part is that of the coordinates, relative to the largest norm.
        gamma = self.span.gamma
        return Leaders(rows, values, looked.errors + gamma * (2 * np.sqrt(values) + gamma), looked.norms)

    def _inside(self, Y: NDArray[np.float64]) -> NDArray[np.float64]:
        """‖y − R·h‖² for each row of coordinates."""
        rest = Y - self._solve(Y) @ self._anchors.T
        return np.asarray(np.einsum("ij,ij->i", rest, rest))

    def _solve(self, Y: NDArray[np.float64]) -> NDArray[np.float64]:
        system, count = self._system, len(self.points)
        if system is None:
            return np.zeros((len(Y), 0))
        if len(Y) < _WORTH_THREADS:
            return system.solve(Y)[:, :count]
        H = np.empty((len(Y), count))

        def work(low: int, high: int) -> None:
            H[low:high] = system.solve(Y[low:high])[:, :count]

        map_ranges(work, len(Y), smallest=_WORTH_THREADS)
        return H
