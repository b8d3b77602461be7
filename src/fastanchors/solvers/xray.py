"""XRAY, fast conical hull algorithms (Kumar, Sindhwani and Kambadur, ICML 2013)."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._validate import check_choice, check_flag, check_tolerance
from ..greedy.cone import ConeDistances
from ..greedy.lazy import Leaders
from ..greedy.reader import Reader
from ..matrix import RowMatrix
from ._solver import Selection, Solver
from .snpa import exhausted, hull_certificate

__all__ = ["XRAY"]

SELECTIONS = ("max", "rand", "dist", "greedy")

_ZERO = 1e-12  # relative distance that is rounding
_TIED = 1e-10  # relative difference of two scores that is rounding: rows on one ray have equal scores
_BLOCK_ROWS = 1 << 11  # side of the blocks in which pairs of rows are processed


class XRAY(Solver):
    """Find extreme rays of the cone of the rows, one at a time.

    With the residuals r_i = a_i − h_i·A_R of the rows from the cone of the anchors so far (h_i ≥ 0), a row outside it
    determines an extreme ray: argmax_j r_i·a_j / ‖a_j‖₁. The length of rows has no effect, so no l1 scaling is needed.
    Ties go to the lowest index. No residual matrix is formed.

    Parameters
    ----------
    selection
        Which row outside the cone to use: ``"max"`` the one of largest residual; ``"rand"`` a random one; ``"dist"``
        the one with the largest ‖(r_i·Aᵀ)₊‖. ``"greedy"`` uses all: argmax_j ‖(R·a_j)₊‖² / ‖a_j‖², the largest decrease
        of the error by one more row, which need not be an extreme ray even without noise (the first choice rarely is).
        The first two cost a pass per anchor, and about one least-squares problem per row in total; the last two need
        the products of all pairs of rows (m²·n).
    tol
        A residual below ``tol`` times the largest row norm counts as zero; the default is the rounding level, 1e-12.
    allow_fewer
        Return fewer than k anchors when every row lies in the cone, instead of raising ``RankError``.

    Notes
    -----
    Memory: 3 numbers per row.

    Examples
    --------
    >>> import fastanchors as fa
    >>> made = fa.datasets.separable(200, 10, 4, rng=0)
    >>> set(fa.XRAY().seek(made.A, 4).indices) == set(made.anchors)
    True
    """

    name: ClassVar[str] = "xray"
    _limit = "rows"

    def __init__(
        self,
        *,
        selection: Literal["max", "rand", "dist", "greedy"] = "max",
        tol: float | None = None,
        allow_fewer: bool = False,
    ) -> None:
        check_choice(selection, SELECTIONS, name="selection")
        self.selection = selection
        self.tol = check_tolerance(tol)
        self.allow_fewer = check_flag(allow_fewer, name="allow_fewer")

    def _checks(self) -> bool:
        return True

    def _select(self, matrix: RowMatrix, k: int, rng: np.random.Generator) -> Selection:
        reader = Reader(matrix)
        with reader.quiet_blas():
            return self._farthest(ConeDistances(reader, k, bounded=False), k, rng)

    def _farthest(self, hull: ConeDistances, k: int, rng: np.random.Generator) -> Selection:
        sums = hull.reader.data.row_sums()
        floor = hull.largest_norm * (_ZERO if self.tol is None else self.tol)
        barred = hull.squared_norms == 0
        indices: list[int] = []
        residuals: list[float] = []
        while len(indices) < k:
            leaders = hull.leaders()
            largest = math.sqrt(leaders.values.max()) if leaders.rows.size else 0.0
            if largest <= floor:
                if self.allow_fewer and indices:
                    break
                raise exhausted(len(indices), k, "cone")
            scores = self._scores(hull, leaders, floor, sums, rng)
            scores[barred] = -np.inf
            index = _first_of_largest(scores)
            hull.add(index)
            barred[index] = True
            indices.append(index)
            residuals.append(largest)
        return Selection(indices, hull_certificate(hull, f"XRAY ({self.selection})"), residuals)

    def _scores(
        self,
        hull: ConeDistances,
        leaders: Leaders,
        floor: float,
        sums: NDArray[np.float64],
        rng: np.random.Generator,
    ) -> NDArray[np.float64]:
        if self.selection == "greedy":
            _, pulled = _pulls(hull)
            return _ratio(pulled, np.ldexp(hull.squared_norms, -_exponent(hull)))
        if self.selection == "max":
            at = int(leaders.rows[_first_of_largest(leaders.values)])
        elif self.selection == "rand":
            at = int(rng.choice(hull.outside(floor)))
        else:
            at = _first_of_largest(_pulls(hull)[0])
        return _ratio(hull.reader.project_all(hull.residual(at)), sums)


def _first_of_largest(values: NDArray[np.float64]) -> int:
    """The lowest index among the values equal to the largest up to rounding."""
    largest = values.max()
    return int(np.argmax(values >= largest - _TIED * abs(largest)))


def _ratio(numerator: NDArray[np.float64], denominator: NDArray[np.float64]) -> NDArray[np.float64]:
    """Their quotient, −∞ for zero rows."""
    return np.divide(numerator, denominator, out=np.full_like(numerator, -np.inf), where=denominator > 0)


def _exponent(hull: ConeDistances) -> int:
    """The power of two of the largest squared norm: squares of products divided by it neither overflow nor vanish."""
    return int(np.frexp(hull.squared_norms.max())[1])


def _pulls(hull: ConeDistances) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Σ_j (r_i·a_j)₊² for every i, and Σ_i (r_i·a_j)₊² for every j, block by block from A·Aᵀ − H·(A_R·Aᵀ).

    The products are divided by the power of two of the largest squared norm.
    """
    data = hull.reader.data
    exponent = _exponent(hull)
    m = data.shape[0]
    products = data.dot(hull.points.T) if len(hull.points) else np.zeros((m, 0))  # a_j·A_Rᵀ
    coefficients = hull.coefficients()
    by_row, by_column = np.zeros(m), np.zeros(m)
    for first, rows in data.blocks(_BLOCK_ROWS):
        here = slice(first, first + rows.shape[0])
        rows = rows.astype(np.float64, copy=False)
        for second, columns in data.blocks(_BLOCK_ROWS):
            there = slice(second, second + columns.shape[0])
            gram = rows @ columns.T.astype(np.float64, copy=False)
            pull = (gram.toarray() if sp.issparse(gram) else gram) - coefficients[here] @ products[there].T
            np.ldexp(np.maximum(pull, 0.0, out=pull), -exponent, out=pull)
            by_row[here] += np.einsum("ij,ij->i", pull, pull)
            by_column[there] += np.einsum("ij,ij->j", pull, pull)
    return by_row, by_column
