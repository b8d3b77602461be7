"""The span of the chosen directions, and the distances of rows to it.

A rough distance is u = ‖a‖² − Σ (a·q_j)². For unit q, |fl(a·q) − a·q| ≤ δ·‖a‖ with δ = (terms + 2)·(unit roundoff),
whatever the order of the sum. So after t directions u has error at most (2·√t·δ + t·δ²)·‖a‖², plus the error of ‖a‖².
An exact distance removes the projection twice in double precision, with an error of only about γ·(largest norm)·√u. So
the choice is that of exact arithmetic as long as √u is well above γ·(largest norm).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .lazy import Leaders
from .reader import DOUBLE, SINGLE, Reader

__all__ = ["NEGLIGIBLE", "Span"]

NEGLIGIBLE = 1e-9  # relative error of a squared residual that is negligible compared with TIE
_CHUNK = 1 << 20  # entries in double precision projected together
_LOST = float(np.finfo(np.float64).tiny)  # squares lose less than this by underflow
_SHRUNK = 1e-5  # a residual smaller than this, relative to its point, is orthogonalised again
_KEPT = 0.5  # a unit vector that keeps more than this is orthogonal now; others are orthogonalised again
_ATTEMPTS = 4


class Span:
    """An orthonormal basis that grows, and squared distances of rows to its span.

    Parameters
    ----------
    reader
        The rows.
    capacity
        The largest number of directions.
    """

    def __init__(self, reader: Reader, capacity: int) -> None:
        self.reader = reader
        self.squared_norms = reader.squared_norms
        self.largest_norm = reader.largest
        self._directions = np.empty((capacity, reader.shape[1]))
        self._step = 0
        self._slacks: dict[bool, float] = {}

    @property
    def basis(self) -> NDArray[np.float64]:
        """The removed directions, orthonormal, one per row."""
        return self._directions[: self._step]

    def remove(self, q: NDArray[np.float64]) -> None:
        """Add the unit direction ``q``, orthogonal to the basis, to the basis."""
        self._directions[self._step] = q
        self._step += 1
        self._slacks.clear()

    def off_basis(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """The points minus their projection on the basis; done twice, which is enough (Kahan, Parlett)."""
        if self._step:
            basis = self.basis
            across = basis.T
            points = points - (points @ across) @ basis
            points -= (points @ across) @ basis
        return points

    def direction(self, point: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        """The unit residual of a point, orthogonal to the basis to machine precision, and its size.

        It is zero if there is no residual, or only rounding errors within the span.
        """
        rest = self.off_basis(point)
        size = math.sqrt(rest @ rest)
        if size == 0:
            return rest, 0.0
        q = rest / size
        if size * size >= _SHRUNK**2 * (point @ point):
            return q, size
        for _ in range(_ATTEMPTS):
            q = self.off_basis(q)
            left = math.sqrt(q @ q)
            if left == 0:  # the residual was rounding
                return q, 0.0
            q /= left
            if left > _KEPT:
                return q, size
        return np.zeros_like(q), size  # rounding within the span: nothing to remove

    # --- distances -----------------------------------------------------------------------------------------------

    def slack(self, *, single: bool) -> float:
        """Error bound of ‖a‖² − Σ (a·q)², relative to ‖a‖²."""
        if single not in self._slacks:
            self._slacks[single] = self._slack(single)
        return self._slacks[single]

    def _slack(self, single: bool) -> float:
        unit = SINGLE if single else DOUBLE
        delta, t = (self.reader.terms + 4) * unit, self._step  # two more in case a view rounds its rows
        norm_error = self.reader.norm_error if single else delta
        return 1.01 * (2 * math.sqrt(t) * delta + t * delta * delta + norm_error + (t + 2) * unit)

    def exact(self, rows: NDArray[np.intp]) -> Leaders:
        """Those rows with distances accurate to double precision."""
        if not self.reader.sparse:
            return self._projected_out(rows)
        squares, removed = self.reader.removed(rows, self.basis, single=False)
        errors = self.slack(single=False) * squares + _LOST
        known = Leaders(rows, squares - removed, errors, squares)
        doubtful = np.flatnonzero(known.errors > NEGLIGIBLE * known.values)
        if doubtful.size:
            better = self._projected_out(rows[doubtful])
            known.values[doubtful], known.errors[doubtful] = better.values, better.errors
        return known

    def _projected_out(self, rows: NDArray[np.intp]) -> Leaders:
        values, norms = np.empty(rows.size), np.empty(rows.size)
        step = max(1, _CHUNK // self.reader.shape[1])
        for start in range(0, rows.size, step):
            place = slice(start, start + step)
            points = self.reader.rows(rows[place])
            norms[place] = np.einsum("ij,ij->i", points, points)
            rest = self.off_basis(points)
            values[place] = np.einsum("ij,ij->i", rest, rest)
        gamma = self.gamma
        return Leaders(rows, values, gamma * (2 * np.sqrt(values) + gamma), norms)

    @property
    def gamma(self) -> float:
        """Error bound of an exact residual norm."""
        return (self.reader.terms + 2 * self._step + 2) * DOUBLE * self.largest_norm
