"""Shared by the linear-programming solvers: distinct rows as points, the call of HiGHS, and checks of size."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from .._validate import check_choice, check_memory, check_number
from ..errors import FastAnchorsError, RankError, TooLargeError, one_line
from ..matrix import RowMatrix
from ..matrix.scaled import finite

__all__ = [
    "FEWER_ROWS",
    "MAX_WORK",
    "Geometry",
    "check_geometry",
    "check_limit",
    "check_work",
    "distinct_points",
    "minimise",
    "program_points",
]

Geometry: TypeAlias = Literal["hull", "cone"]

# Tighter than HiGHS's default of 1e-7: distances to a hull are then accurate to 1e-9 of the scale of the data.
_TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
_INFEASIBLE = 2
_INTERIOR_STEPS = 1000  # of the interior-point method; it converges in tens, or oscillates without end
_DROPPED = 1e-9  # HiGHS ignores smaller entries of a matrix, but not on the right-hand side

MAX_WORK = 1e11  # entries of all programs; that many take days
_OTHER_SOLVERS = "use SPA, SNPA, XRAY, DCA or FAS"
FEWER_ROWS = f"{_OTHER_SOLVERS}, or a sample of the rows"


def minimise(cost: NDArray[np.float64], *, method: str, **program: Any) -> Any | None:
    """Solve a linear program with HiGHS; None if it is infeasible. Arguments as in ``scipy.optimize.linprog``.

    If HiGHS cannot reach the tight tolerances, the default ones are used, and if the interior-point method fails, the
    dual simplex method. The number of iterations is limited, so that every call ends.
    """
    pivots = 10_000 + 100 * len(cost)
    attempts = [(method, _TIGHT), (method, {})] + [("highs-ds", _TIGHT)] * (method != "highs-ds")
    infeasible = False
    for each, tolerances in attempts:
        limit = _INTERIOR_STEPS if each == "highs-ipm" else pivots
        solution = linprog(cost, method=each, options={**tolerances, "maxiter": limit}, **program)
        if solution.status == 0:
            return solution
        infeasible |= solution.status == _INFEASIBLE
    if infeasible:
        return None
    raise FastAnchorsError(
        f"HiGHS could not solve a program of {len(cost)} variables: {one_line(solution.message, 200)}; {_OTHER_SOLVERS}"
    )


def check_limit(max_work: float) -> float:
    """The option ``max_work``: a number that is not negative, or infinity."""
    endless = isinstance(max_work, float) and max_work == np.inf
    return max_work if endless else check_number(max_work, name="max_work", minimum=0.0)


def check_work(shape: tuple[int, int], max_work: float, what: str) -> None:
    """Raise :class:`TooLargeError` if ``what``, m×m weights of rows with n entries, are more entries than allowed."""
    m, n = shape
    entries = float(m) * m * n
    if entries > max_work:
        raise TooLargeError(
            f"{what} for {m} rows and {n} columns: {entries:.3g} entries, more than max_work = {max_work:.3g}; "
            f"{FEWER_ROWS}; or raise max_work, if most rows are copies"
        )


def check_geometry(geometry: str) -> None:
    """Raise unless the option is "hull" or "cone"."""
    check_choice(geometry, ("hull", "cone"), name="geometry")


def program_points(data: RowMatrix, k: int, geometry: Geometry) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """:func:`distinct_points` for HiGHS: entries that it would ignore are zero, so that both sides agree."""
    return distinct_points(data, k, geometry, smallest=_DROPPED)


def distinct_points(
    data: RowMatrix, k: int, geometry: Geometry, *, smallest: float = 0.0
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """(rows, points): the distinct non-zero rows, first copy of each, scaled to a largest l1 norm of one.

    Zero rows are never anchors. With ``"cone"`` every row has l1 norm one, and rows on the same ray (up to 12 digits)
    are copies. Scaled entries up to ``smallest`` become zero.
    """
    m, n = data.shape
    check_memory(44 * m * n, f"holding {m} rows of {n} columns as points", FEWER_ROWS)
    points = data.dense_rows(np.arange(m))
    with np.errstate(over="ignore"):
        sums = finite(points.sum(axis=1))
    rows = np.flatnonzero(sums > 0)
    if rows.size == 0:
        raise RankError("every row of A is zero: it has no anchors", rank=0)
    points = points[rows] / (sums[rows, None] if geometry == "cone" else sums.max())
    points[points <= smallest] = 0.0
    _, first = np.unique(np.round(points, 12), axis=0, return_index=True)
    first.sort()
    if first.size < k:
        raise RankError(
            f"only {first.size} distinct non-zero rows, k = {k} were requested; use k ≤ {first.size}",
            rank=int(first.size),
        )
    return rows[first], points[first]
