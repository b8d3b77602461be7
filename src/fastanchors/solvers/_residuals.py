"""What SPA keeps instead of a residual matrix: an orthonormal basis, and one number per row with its error bound.

The residual of row i is a_i less its projection on the chosen directions q_1 … q_j. Its squared norm follows from
u_i ← u_i − p², p = fl(a_i·q): one pass over the matrix per direction. That subtraction cancels, so a bound of its
error is carried along: with |p − a_i·q| ≤ γ·‖a_i‖, one step adds at most γ·‖a_i‖·(2·|p| + γ·‖a_i‖). The rows that may
be the largest are then known for certain, and those few whose error is not negligible are projected anew, which
leaves an error of γ·‖a_i‖·√u_i only. This makes the choice independent of the condition of the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._jit import jit
from ..errors import InvalidInputError
from ._rows import DOUBLE, MatrixRows

__all__ = ["EQUAL", "TIE", "Residuals", "Step", "choose", "too_large"]

#: Rows whose squared residual is within this fraction of the largest are tied (as in FastSepNMF of N. Gillis).
TIE = 1e-6

#: Squared norms closer than this fraction count as equal: copies of a row may differ by the rounding of a view.
EQUAL = 1e-6

_NEGLIGIBLE = 1e-9  # relative error of a squared residual that cannot matter beside TIE
_VANISHING = 1e-290  # squared norms below this lose digits
_WORTH_TELLING = 4096  # rows that are read again only to report a residual


def choose(squared_residuals: NDArray[np.float64], squared_norms: NDArray[np.float64]) -> int:
    """The selection rule of SPA, in one place: the position of the row to extract next.

    Among the rows whose squared residual is within ``TIE`` (relative) of the largest, the one with the largest
    squared norm in the original matrix; among those whose norms are ``EQUAL``, the first.

    A solver that looks at fewer rows chooses as full SPA does if it passes, in increasing order of index, every
    row whose squared residual is at least (1 − TIE) times the largest.
    """
    tied = np.flatnonzero(squared_residuals >= (1 - TIE) * squared_residuals.max())
    norms = squared_norms[tied]
    return int(tied[np.argmax(norms >= (1 - EQUAL) * norms.max())])


def too_large(row: int) -> InvalidInputError:
    """Its squared norm overflows: say so, and what to do about it."""
    return InvalidInputError(f"A[{row}] is too large to be squared; divide the matrix by its largest entry")


@dataclass(frozen=True)
class Step:
    """What is extracted next: a row, and the point it stands for (itself, or the average of ``group``).

    ``projections`` are the products of every row with the point's unit residual, where they are known already.
    """

    index: int
    point: NDArray[np.float64]
    projections: NDArray[np.float64] | None = None
    group: NDArray[np.intp] | None = None


class Residuals:
    """Squared distances of the rows to the span of the directions removed so far.

    Memory: four float64 numbers per row and the ``capacity`` directions.
    """

    def __init__(self, data: MatrixRows, capacity: int) -> None:
        self.data = data
        self.squared_norms = data.squared_norms()
        largest = float(self.squared_norms.max())
        if not math.isfinite(largest):
            raise too_large(int(np.argmax(self.squared_norms)))
        if largest < _VANISHING and data.dot(np.ones(data.shape[1])).any():
            raise InvalidInputError("the entries of A are so small that their squares vanish; divide A by its largest")
        self.largest_norm = math.sqrt(largest)
        self.values = self.squared_norms.copy()
        self._norms = np.sqrt(self.squared_norms)
        self._gamma = (data.terms + 2) * DOUBLE
        self._error = self._gamma * self.squared_norms
        self._barred = self.squared_norms == 0
        self._directions = np.empty((capacity, data.shape[1]))
        self._count = 0

    @property
    def basis(self) -> NDArray[np.float64]:
        """The removed directions, orthonormal, one per row."""
        return self._directions[: self._count]

    def leaders(self, within: float = TIE, *, beside: NDArray[np.float64] | None = None) -> NDArray[np.intp]:
        """Every row that may be ``within`` that fraction of the largest, in order; their ``values`` are made accurate.

        The default is what the rule of :func:`choose` may look at. With ``beside`` it is the rows of largest
        ``values + beside``, for distances that have another part besides that to the span.
        """
        value = self.values if beside is None else self.values + beside
        leaders = _near_largest(value, self._error, self._barred, within)
        doubtful = leaders[self._error[leaders] > _NEGLIGIBLE * value[leaders]]
        if doubtful.size:
            self.values[doubtful] = self.exact(doubtful)
            self._error[doubtful] = 2 * self._gamma * self._norms[doubtful] * np.sqrt(self.values[doubtful])
        return leaders

    def surely_above(self, level: float, *, beside: NDArray[np.float64] | None = None) -> NDArray[np.intp]:
        """Candidates whose squared residual (and what is ``beside`` it) exceeds ``level`` for all its error."""
        value = self.values if beside is None else self.values + beside
        return np.flatnonzero(~self._barred & (value - self._error > level))

    def exact(self, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Squared residuals of those rows by projection in double precision."""
        result = np.empty(rows.size)
        for place, block in self.data.row_chunks(rows):
            rest = self.off_basis(block)
            result[place] = np.einsum("ij,ij->i", rest, rest)
        return result

    def off_basis(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """The points less their projection on the basis; done twice, which is enough (Kahan, Parlett)."""
        for _ in range(2):
            points = points - (points @ self.basis.T) @ self.basis
        return points

    def direction(self, point: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        """The unit residual of a point, orthogonal to the basis to machine precision, and its size."""
        rest = self.off_basis(point)
        size = float(np.linalg.norm(rest))
        q = self.off_basis(rest / size)
        return q / np.linalg.norm(q), size

    def project(self, q: NDArray[np.float64]) -> NDArray[np.float64]:
        """a_i·q for every row: one pass."""
        return self.data.project(q)

    def remove(self, q: NDArray[np.float64], projections: NDArray[np.float64]) -> None:
        """Take the unit direction ``q``, orthogonal to the basis, out of every row."""
        self._directions[self._count] = q
        self._count += 1
        _downdate(self.values, self._error, self._norms, projections, self._gamma)

    def bar(self, rows: NDArray[np.intp] | int) -> None:
        """Those rows are no longer candidates."""
        self._barred[rows] = True

    def upper(self) -> NDArray[np.float64]:
        """Upper bounds of the squared residuals of all rows."""
        return self.values + self._error

    def candidates(self) -> NDArray[np.float64]:
        """Squared residuals as far as they are known, −1 for rows that are no longer candidates."""
        return np.where(self._barred, -1.0, self.values)

    def largest(self, *, beside: NDArray[np.float64] | None = None) -> float:
        """The largest residual norm left among the candidates, or a bound of it.

        A bound when all is rounding: then thousands of rows may be the largest, and to tell which would cost as much
        as many passes.
        """
        value = self.values if beside is None else self.values + beside
        rows = _near_largest(value, self._error, self._barred, TIE)
        if rows.size > _WORTH_TELLING:
            return math.sqrt((value[rows] + self._error[rows]).max())
        rows = self.leaders(beside=beside)
        value = self.values if beside is None else self.values + beside
        return math.sqrt(value[rows].max()) if rows.size else 0.0


@jit
def _near_largest(
    values: NDArray[np.float64], error: NDArray[np.float64], barred: NDArray[np.bool_], within: float
) -> NDArray[np.intp]:
    """Rows not barred whose value, as far as it is known, may be within that fraction of the largest."""
    largest = 0.0
    for i in range(len(values)):
        if not barred[i] and values[i] - error[i] > largest:
            largest = values[i] - error[i]
    bound = (1 - within) * largest
    count = 0
    for i in range(len(values)):
        if not barred[i] and values[i] + error[i] >= bound:
            count += 1
    rows = np.empty(count, dtype=np.intp)
    count = 0
    for i in range(len(values)):
        if not barred[i] and values[i] + error[i] >= bound:
            rows[count] = i
            count += 1
    return rows


@jit
def _downdate(
    values: NDArray[np.float64],
    error: NDArray[np.float64],
    norms: NDArray[np.float64],
    projections: NDArray[np.float64],
    gamma: float,
) -> None:
    """u − p² and its error, never below zero."""
    for i in range(len(values)):
        slack = gamma * norms[i]
        error[i] += slack * (2 * abs(projections[i]) + slack)
        values[i] = max(values[i] - projections[i] * projections[i], 0.0)
