"""AroraLP, the first algorithm for separable NMF: one small linear program for each row.

S. Arora, R. Ge, R. Kannan and A. Moitra, "Computing a nonnegative matrix factorization – provably", STOC 2012.
"""

from __future__ import annotations

import heapq
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from .._validate import check_flag, check_memory, check_number
from ..anchors import Certificate
from ..errors import FastAnchorsError, RankError
from ..matrix import RowMatrix
from ._lp import (
    FEWER_ROWS,
    MAX_WORK,
    Geometry,
    check_geometry,
    check_limit,
    check_work,
    minimise,
    program_points,
)
from ._solver import Selection, Solver

__all__ = ["AroraLP"]


class AroraLP(Solver):
    """The LP of Arora et al.: a row is an anchor if it lies outside the hull of the others (a "loner").

    The distance is in the l1 norm, min ‖A_(i) − Σ c_j·A_(j)‖₁ over c ≥ 0, Σ c_j = 1: a linear program for HiGHS.

    Parameters
    ----------
    radius
        None removes rows one at a time, always the one nearest to the hull of those that remain, until k are left.
        Without noise the removed rows are those inside the hull, as in the paper's algorithm; with noise, near copies
        of an anchor are removed until one is left. The noise level need not be known. A number is the paper's form for
        known noise: for every row the distance to the hull of the rows farther than ``radius`` from it (l1, relative
        to the largest row) is computed, and the k rows with the largest distances that are farther than ``radius``
        from each other are selected.
    geometry
        ``"hull"`` treats rows as points, ``"cone"`` as rays (rows scaled to unit l1 norm).
    tolerance
        A row whose distance to the hull, relative to the largest l1 norm of a row, is below this lies in it. Of rows
        that lie in each other's hull, one remains.
    max_work
        Raise :class:`TooLargeError` if the m programs of m×n entries together have more entries than this, copies
        included.
    allow_fewer
        Return fewer than k anchors when fewer rows lie outside the hull of the others, instead of raising
        ``RankError``.

    Notes
    -----
    Zero rows are never anchors; exact copies are removed first. k may exceed the number of columns. At least m programs
    with m + 2n variables and n + 1 equations are solved, so it is for at most a few thousand rows. A program needs a
    few times 8·(n + 1)·(m + 2n) bytes. Of rows with equal distances the smaller one is removed first, then the one with
    the higher index. Entries up to 1e-9 of the largest row count as zero.

    Examples
    --------
    >>> import fastanchors as fa
    >>> X = [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0], [0.3, 0.7]]
    >>> sorted(fa.AroraLP().seek(X, 2).indices.tolist())
    [0, 2]
    """

    name: ClassVar[str] = "arora-lp"
    _limit: ClassVar[Literal["rank", "rows"]] = "rows"

    def __init__(
        self,
        *,
        radius: float | None = None,
        geometry: Geometry = "hull",
        tolerance: float = 1e-8,
        max_work: float = MAX_WORK,
        allow_fewer: bool = False,
    ) -> None:
        check_geometry(geometry)
        self.radius = None if radius is None else check_number(radius, name="radius", minimum=0.0)
        self.geometry = geometry
        self.tolerance = check_number(tolerance, name="tolerance", minimum=0.0)
        self.max_work = check_limit(max_work)
        self.allow_fewer = check_flag(allow_fewer, name="allow_fewer")

    def _select(self, data: RowMatrix, k: int, rng: np.random.Generator) -> Selection:
        tolerance = self.tolerance
        m, n = data.shape
        check_work(data.shape, self.max_work, "one linear program per row,")
        what = f"one linear program of {n + 1} equations and {m + 2 * n} variables"
        check_memory(40 * (n + 1) * (m + 2 * n), what, FEWER_ROWS)
        rows, points = program_points(data, 1 if self.allow_fewer else k, self.geometry)
        if self.radius is None:
            kept, distance, programs = remove_nearest(points, k, tolerance)
        else:
            kept, distance, programs = robust_loners(points, k, self.radius, tolerance)
        if len(kept) < k and not self.allow_fewer:
            raise RankError(
                f"only {len(kept)} rows lie outside the hull of the others, k = {k} were requested; use "
                f"k ≤ {len(kept)}, or pass allow_fewer=True",
                rank=len(kept),
            )
        certificate = Certificate(
            "none",
            f"{programs} linear programs: the distance of each anchor to the hull of the other rows is at least "
            f"{distance.min():.3g} (l1, relative to the largest row)",
            {"programs": programs, "distances": distance},
        )
        return Selection(rows[kept], certificate, residuals=distance)


def distance_to_hull(point: NDArray[np.float64], others: NDArray[np.float64]) -> tuple[float, NDArray[np.intp]]:
    """(distance, support): l1 distance of a point to the hull of others, and the others with positive weight."""
    size, n = others.shape
    if size == 0:
        return float(np.abs(point).sum()), np.empty(0, dtype=np.intp)  # distance to the origin
    if size == 1:  # exactly the same from either side
        return float(np.abs(point - others[0]).sum()), np.zeros(1, dtype=np.intp)
    equations = np.zeros((n + 1, size + 2 * n))
    equations[:n, :size] = others.T
    equations[:n, size : size + n] = np.eye(n)
    equations[:n, size + n :] = -np.eye(n)
    equations[n, :size] = 1.0
    cost = np.concatenate([np.zeros(size), np.ones(2 * n)])
    solution = minimise(cost, A_eq=equations, b_eq=np.append(point, 1.0), bounds=(0, None), method="highs-ds")
    if solution is None:  # a solution always exists; this is a failure by rounding
        raise FastAnchorsError(f"HiGHS found no mixture of {size} points; rescale the rows")
    return max(float(solution.fun), 0.0), np.flatnonzero(solution.x[:size] > 0.0)


def remove_nearest(
    points: NDArray[np.float64], k: int, tolerance: float
) -> tuple[NDArray[np.intp], NDArray[np.float64], int]:
    """Remove the point nearest to the hull of the others until k remain and none of them lies in the hull.

    The last point is never removed: it is the hull. Of points with equal distances the smaller is removed first.
    Distances only grow as points are removed, so an old distance is a lower bound. A program is solved again only when
    its point has the smallest bound, and only if a point with positive weight in its solution was removed since then
    (otherwise the solution is still optimal). That is about one program per point without noise, two with much noise.
    """
    order = np.argsort(-np.round(np.abs(points).sum(axis=1), 12), kind="stable")  # largest first
    points = points[order]
    alive = np.ones(len(points), dtype=bool)
    queue = [(0.0, -i, False) for i in range(len(points))]  # (bound, −index: higher index first, is the bound exact?)
    heapq.heapify(queue)
    support: dict[int, NDArray[np.intp]] = {}
    programs = 0
    while queue:
        bound, negative, solved = queue[0]
        i = -negative
        outside = bound > tolerance or len(queue) == 1
        if len(queue) <= k and solved and outside and alive[support[i]].all():
            break
        heapq.heappop(queue)
        if not (solved and alive[support[i]].all()):
            others = np.flatnonzero(alive)
            others = others[others != i]
            bound, carrying = distance_to_hull(points[i], points[others])
            support[i] = others[carrying]
            programs += 1
        outside = bound > tolerance or not queue
        if outside and (len(queue) < k or (queue and (bound, negative) > queue[0][:2])):
            heapq.heappush(queue, (bound, negative, True))
        else:
            alive[i] = False
    final = sorted((-bound, -negative) for bound, negative, _ in queue)
    kept = np.array([i for _, i in final], dtype=np.intp)
    return order[kept], np.array([-bound for bound, _ in final]), programs


def robust_loners(
    points: NDArray[np.float64], k: int, radius: float, tolerance: float
) -> tuple[NDArray[np.intp], NDArray[np.float64], int]:
    """Distances to the hull of the points farther than ``radius``; the largest first, one for each neighbourhood.

    The point with the largest distance is always among them.
    """
    distance = np.empty(len(points))
    for i, point in enumerate(points):
        far = np.abs(points - point).sum(axis=1) > radius
        far[i] = False
        distance[i] = distance_to_hull(point, points[far])[0]
    kept: list[int] = []
    for i in np.argsort(-distance, kind="stable"):
        if len(kept) == k or (kept and distance[i] <= tolerance):
            break
        if all(np.abs(points[i] - points[j]).sum() > radius for j in kept):
            kept.append(int(i))
    return np.array(kept, dtype=np.intp), distance[kept], len(points)
