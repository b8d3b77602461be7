"""Distances of all rows to the cone, or to the convex hull with the origin, of the anchors chosen so far.

The residual a_i − h_i·A_R has a part outside the span of the anchors and one inside it, orthogonal to each other:
the first is what SPA keeps (:mod:`fastanchors.solvers._residuals`), the second is ‖y_i − R·h_i‖ with the
coordinates y_i of the row and R of the anchors in the orthonormal basis. So no residual matrix is formed, for sparse
input least of all, an anchor costs one pass, and the small least-squares problems see the condition number of the
anchors once, not squared.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..greedy.nnls import NonnegativeSystem
from ._residuals import TIE, Residuals
from ._rows import DOUBLE, MatrixRows, in_threads

__all__ = ["Hull"]

_CHUNK = 1 << 14  # rows solved together: bounds the temporaries
_IN_SPAN = 1e-10  # an anchor whose relative residual is below this adds no direction


class Hull:
    """The rows' best approximations from the cone of the anchors, or (``bounded``) with coefficients of sum ≤ 1.

    Memory: m × (2k + 4) numbers.
    """

    def __init__(self, data: MatrixRows, capacity: int, *, bounded: bool) -> None:
        m, n = data.shape
        self.data = data
        self.span = Residuals(data, min(capacity, n))
        self.bounded = bounded
        self.inside = np.zeros(m)  # squared distance within the span
        self.points = np.zeros((0, n))
        self._anchors = np.zeros((0, 0))  # R: anchors in the columns
        self._all_coefficients = np.zeros((m, capacity))
        self._all_coordinates = np.zeros((m, min(capacity, n)))

    @property
    def coefficients(self) -> NDArray[np.float64]:
        """h_i for every row."""
        return self._all_coefficients[:, : len(self.points)]

    @property
    def coordinates(self) -> NDArray[np.float64]:
        """y_i for every row, in the basis of the span."""
        return self._all_coordinates[:, : len(self.span.basis)]

    @property
    def squared_distances(self) -> NDArray[np.float64]:
        """‖a_i − h_i·A_R‖² for every row."""
        return self.span.values + self.inside

    def leaders(self, within: float = TIE) -> NDArray[np.intp]:
        """The rows whose distance may be the largest, or ``within`` that fraction of it, made accurate."""
        return self.span.leaders(within, beside=self.inside)

    def outside(self, distance: float) -> NDArray[np.intp]:
        """The rows at more than that distance beyond doubt; if there are none, those that may be the farthest."""
        sure = self.span.surely_above(distance**2, beside=self.inside)
        return sure if sure.size else self.leaders()

    def residual(self, row: int) -> NDArray[np.float64]:
        """a_i − h_i·A_R itself, of one row."""
        return self.data.rows([row])[0] - self.coefficients[row] @ self.points

    def add(self, row: int) -> None:
        """Make ``row`` an anchor and approximate all rows anew: at most one pass."""
        point = self.data.rows([row])[0]
        self.points = np.vstack([self.points, point])
        outside = np.linalg.norm(self.span.off_basis(point))
        if outside > _IN_SPAN * np.linalg.norm(point) and len(self.span.basis) < self.data.shape[1]:
            q, _ = self.span.direction(point)
            projections = self.span.project(q)
            self.span.remove(q, projections)
            self.coordinates[:, -1] = projections
        self._anchors = self.span.basis @ self.points.T
        self.span.bar(row)
        self._solve()

    def _solve(self) -> None:
        R = self._anchors
        if self.bounded:  # the origin is one more anchor, and coefficients then sum to one
            R = np.column_stack([R, np.zeros(len(R))])
        system = NonnegativeSystem(R, sum_to=1.0 if self.bounded else None)

        def work(low: int, high: int) -> None:
            for start in range(low, high, _CHUNK):
                self._solve_rows(system, slice(start, min(start + _CHUNK, high)))

        m = len(self.coefficients)
        in_threads(work, m, m * R.size)

    def _solve_rows(self, system: NonnegativeSystem, rows: slice) -> None:
        Y, H = self.coordinates[rows], self.coefficients[rows]
        # A row moves only if the new anchor pulls at it harder than those it rests on.
        pull = (Y - H @ self._anchors.T) @ self._anchors
        rest = pull[:, :-1].max(axis=1, initial=0.0) if self.bounded else 0.0
        slack = 8 * DOUBLE * np.linalg.norm(self._anchors[:, -1]) * np.linalg.norm(Y, axis=1)
        moves = np.flatnonzero(pull[:, -1] - rest > slack)
        if moves.size:
            H[moves] = system.solve(Y[moves])[:, : H.shape[1]]
        inside = Y - H @ self._anchors.T
        self.inside[rows] = np.einsum("ij,ij->i", inside, inside)
