"""SNPA, the successive nonnegative projection algorithm (Gillis, SIAM J. Imaging Sci. 2014)."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from .._validate import check_flag, check_tolerance
from ..anchors import Certificate
from ..errors import RankError
from ..greedy.cone import ConeDistances
from ..greedy.reader import Reader
from ..greedy.ties import choose
from ..matrix import RowMatrix
from ._solver import Selection, Solver

__all__ = ["SNPA"]

_ZERO = 1e-12  # relative distance that is rounding


class SNPA(Solver):
    """Select the row farthest from the convex hull of the origin and the rows selected so far, k times.

    SPA projects on their span, SNPA on {Σ h_j·a_j : h ≥ 0, Σ h ≤ 1}. It is more robust to noise, and finds anchors that
    are linearly dependent, such as 20 vertices in 10 dimensions. Ties are broken by
    :func:`fastanchors.solvers.choose`, as in SPA. Distances decrease as anchors are added, so only rows that can still
    be selected are updated: about one small quadratic problem per row for all k steps, solved exactly. Memory: 2
    numbers per row.

    Parameters
    ----------
    tol
        A distance below ``tol`` times the largest row norm counts as zero; the default is the rounding level, 1e-12.
    allow_fewer
        Return fewer than k anchors if every row lies in the hull, instead of raising ``RankError``.

    Examples
    --------
    >>> import fastanchors as fa
    >>> X = [[1.0, 0.0], [0.0, 1.0], [0.2, 0.2], [0.5, 0.5]]
    >>> fa.SNPA().seek(X, 2).indices.tolist()
    [0, 1]
    """

    name: ClassVar[str] = "snpa"
    _limit = "rows"

    def __init__(self, *, tol: float | None = None, allow_fewer: bool = False) -> None:
        self.tol = check_tolerance(tol)
        self.allow_fewer = check_flag(allow_fewer, name="allow_fewer")

    def _checks(self) -> bool:
        return True

    def _select(self, matrix: RowMatrix, k: int, rng: np.random.Generator) -> Selection:
        reader = Reader(matrix)
        with reader.quiet_blas():
            return self._farthest(ConeDistances(reader, k, bounded=True), k)

    def _farthest(self, hull: ConeDistances, k: int) -> Selection:
        floor = hull.largest_norm * (_ZERO if self.tol is None else self.tol)
        indices: list[int] = []
        residuals: list[float] = []
        while len(indices) < k:
            leaders = hull.leaders()
            if leaders.rows.size == 0 or leaders.values.max() <= floor**2:
                if self.allow_fewer and indices:
                    break
                raise exhausted(len(indices), k, "convex hull")
            at = choose(leaders.values, leaders.norms)
            indices.append(int(leaders.rows[at]))
            residuals.append(math.sqrt(leaders.values[at]))
            hull.add(indices[-1])
        return Selection(indices, hull_certificate(hull, "SNPA"), residuals)


def exhausted(found: int, k: int, what: str) -> RankError:
    """The error for the case that no row is left outside the hull or the cone."""
    if found == 0:
        return RankError("every row of A is zero: it has no anchors", 0)
    return RankError(
        f"only {found} of {k} anchors found: every row lies in the {what} of these {found}; "
        f"use k ≤ {found}, or pass allow_fewer=True",
        found,
    )


def hull_certificate(hull: ConeDistances, name: str) -> Certificate:
    """A certificate with the largest remaining distance and no claim about SPA."""
    details: dict[str, Any] = {"largest_remaining_residual": hull.largest(), "largest_norm": hull.largest_norm}
    return Certificate("none", f"{name} considered all rows at every step; SPA may select other rows", details)
