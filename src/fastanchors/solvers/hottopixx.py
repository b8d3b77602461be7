"""Hottopixx: all anchors from one linear program.

V. Bittorf, B. Recht, C. Ré and J. A. Tropp, "Factoring nonnegative matrices with linear programs", NIPS 2012;
N. Gillis, "Robustness analysis of Hottopixx, a linear programming model for factoring nonnegative matrices",
SIAM J. Matrix Anal. Appl. 34, 2013; N. Gillis and R. Luce, "Robust near-separable nonnegative matrix factorization
using linear optimization", JMLR 15, 2014.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._validate import check_flag, check_memory, check_number
from ..anchors import Certificate
from ..errors import FastAnchorsError, InvalidInputError, RankError
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
from ._votes import Ends
from .arora_lp import remove_nearest
from .dca import choose

__all__ = ["Hottopixx"]

_PRICE = 1e-7  # a column enters the program if its reduced cost is below minus this (relative to the largest row)


class Hottopixx(Solver):
    """Hottopixx: a localising matrix C with A ≈ C·A and trace k; its diagonal marks the anchors.

    Every row is a mixture of all rows: 0 ≤ C_ij ≤ C_jj ≤ 1, and rows of C sum to one. The trace limits the total weight
    of anchors to k.

    Parameters
    ----------
    noise
        None minimises Σ_i ‖A_(i) − C_(i)·A‖₁ under trace k, so the noise level need not be known; solved by column
        generation, to the same optimum as with all m columns. A number ε requires ‖A_(i) − C_(i)·A‖₁ ≤ 2ε for every row
        (l1, relative to the largest row) and minimises pᵀ·diag(C); solved with all columns.
    robust
        True collects diagonal weight that is spread over near copies of an anchor: it uses the smallest radius at which
        k disjoint neighbourhoods each have more than k/(k + 1) of weight (Gillis 2013). With ``noise`` it also leaves
        the trace free and keeps p within 1 % of one, which minimises the total weight (Gillis and Luce 2014). False is
        the program as first published: trace k, p random, the k largest diagonal entries. It selects cheap rows where
        2ε allows it, so it needs a small ε.
    geometry
        ``"hull"`` treats rows as points, ``"cone"`` as rays (rows scaled to unit l1 norm).
    max_work
        Raise :class:`TooLargeError` if m×m weights of rows with n entries have more entries than this, copies included.
    allow_fewer
        Return fewer than k anchors if fewer explain all rows, instead of raising ``RankError``.

    Notes
    -----
    Zero rows are never anchors; exact copies are removed first. k may exceed the number of columns. The program has
    m·c + 2·m·n + c variables and m·c inequalities with c columns: all m with ``noise``, a few times k otherwise. Use it
    for hundreds of rows, or a few thousand without ``noise``. Without ``noise`` the rates of all columns take another
    24·m² bytes. :class:`TooLargeError` reports the memory needed if there is not enough, before it is used. Entries up
    to 1e-9 of the largest row count as zero.

    Examples
    --------
    >>> import fastanchors as fa
    >>> X = [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0], [0.3, 0.7]]
    >>> sorted(fa.Hottopixx().seek(X, 2).indices.tolist())
    [0, 2]
    """

    name: ClassVar[str] = "hottopixx"
    _limit: ClassVar[Literal["rank", "rows"]] = "rows"

    def __init__(
        self,
        *,
        noise: float | None = None,
        robust: bool = True,
        geometry: Geometry = "hull",
        max_work: float = MAX_WORK,
        allow_fewer: bool = False,
    ) -> None:
        check_geometry(geometry)
        self.noise = None if noise is None else check_number(noise, name="noise", minimum=0.0, maximum=1e150)
        self.robust = check_flag(robust, name="robust")
        self.geometry = geometry
        self.max_work = check_limit(max_work)
        self.allow_fewer = check_flag(allow_fewer, name="allow_fewer")

    def _select(self, data: RowMatrix, k: int, rng: np.random.Generator) -> Selection:
        check_work(data.shape, self.max_work, "the localising matrix")
        rows, points = program_points(data, 1 if self.allow_fewer else k, self.geometry)
        k = min(k, len(points))
        if self.noise is None:
            program = by_columns(points, k, rng)
        else:
            price = rng.random(len(points))
            if self.robust:
                price = 1.0 + 0.01 * price
            program = solve(
                points, np.arange(len(points)), None if self.robust else k, price=price, bound=2.0 * self.noise
            )
        weight = np.zeros(len(points))
        weight[program.columns] = program.diagonal
        chosen = gather(points, weight, k) if self.robust else np.argsort(-weight, kind="stable")[:k]
        corners, _, _ = remove_nearest(points[chosen], len(chosen), _PRICE)
        if len(corners) < k:  # surplus weight went to rows that are mixtures of the others
            if not self.allow_fewer:
                raise RankError(
                    f"{len(corners)} rows explain all the others, k = {k} were requested; use k ≤ {len(corners)}, or "
                    "pass allow_fewer=True",
                    rank=len(corners),
                )
            chosen = chosen[np.sort(corners)]
        certificate = Certificate(
            "none",
            f"the optimum of a linear program over {len(program.columns)} of {len(points)} columns; the anchors have "
            f"{weight[chosen].sum():.3g} of its diagonal weight {weight.sum():.3g}",
            {"diagonal": weight[chosen], "objective": program.objective, "columns": len(program.columns)},
        )
        return Selection(rows[chosen], certificate)


@dataclass(frozen=True)
class Program:
    """A solved program over some columns: the optimum, the diagonal, and the duals that price other columns."""

    columns: NDArray[np.intp]
    diagonal: NDArray[np.float64]
    objective: float
    residual_dual: NDArray[np.float64]  # m×n
    sum_dual: NDArray[np.float64]  # m
    trace_dual: float


def solve(
    points: NDArray[np.float64],
    columns: NDArray[np.intp],
    trace: int | None,
    *,
    price: NDArray[np.float64] | None = None,
    bound: float | None = None,
) -> Program:
    """The program restricted to anchors among ``columns``.

    Variables: C (m×c, row-major), the positive and negative parts of the residual (m×n each), the diagonal d (c), with
    C_ij ≤ d_j ≤ 1. C_jj may be less than d_j, which never improves the objective, so the optimum is the same. With
    ``bound`` the residual of each row is bounded and ``price``ᵀd is minimised, otherwise the residual is minimised.
    ``trace=None`` leaves Σ d free.
    """
    (m, n), c = points.shape, len(columns)
    check_memory(_program_bytes(m, n, c), f"the linear program of {m}×{c} weights and {m}×{n} residuals", FEWER_ROWS)
    W = sp.csr_array(points[columns].T)
    one, parts = sp.eye_array(m, format="csr"), sp.eye_array(m * n, format="csr")
    blocks = [
        [sp.kron(one, W), parts, -parts, None],
        [sp.kron(one, np.ones((1, c))), None, None, sp.csr_array((m, c))],
    ]
    right = [points.ravel(), np.ones(m)]
    if trace is not None:
        blocks.append([None, None, None, np.ones((1, c))])
        right.append(np.array([float(trace)]))
    below = [sp.eye_array(m * c), sp.csr_array((m * c, 2 * m * n)), -sp.kron(np.ones((m, 1)), sp.eye_array(c))]
    inequalities = sp.hstack(below)
    limits = np.zeros(m * c)
    cost = np.zeros(m * c + 2 * m * n + c)
    if bound is None:
        cost[m * c : -c] = 1.0
    else:
        cost[-c:] = 0.0 if price is None else price[columns]
        total = sp.kron(np.ones((1, 2)), sp.kron(one, np.ones((1, n))))
        inequalities = sp.vstack([inequalities, sp.hstack([sp.csr_array((m, m * c)), total, sp.csr_array((m, c))])])
        limits = np.concatenate([limits, np.full(m, bound)])
    upper = np.full(len(cost), np.inf)
    upper[-c:] = 1.0
    solution = minimise(
        cost,
        A_ub=inequalities.tocsc(),
        b_ub=limits,
        A_eq=sp.block_array(blocks, format="csc"),
        b_eq=np.concatenate(right),
        bounds=np.stack([np.zeros(len(cost)), upper], axis=1),
        method="highs-ipm",
    )
    if solution is None and trace is None:  # every row explains itself; this is a failure by rounding
        raise FastAnchorsError(f"HiGHS found no weights for {m} rows; use a larger noise, or noise=None")
    if solution is None:
        raise InvalidInputError(
            f"no {trace} rows explain the others within 2·noise = {bound:.3g} of the largest row; use a larger noise "
            "or k, or noise=None"
        )
    dual = solution.eqlin.marginals
    return Program(
        columns,
        solution.x[-c:],
        float(solution.fun),
        dual[: m * n].reshape(m, n),
        dual[m * n : m * n + m],
        0.0 if trace is None else float(dual[-1]),
    )


def _program_bytes(m: int, n: int, c: int) -> int:
    """Memory of the program of m×n points with c columns, in HiGHS and before."""
    return 100 * (m * c * (n + 3) + 4 * m * n)


def by_columns(points: NDArray[np.float64], k: int, rng: np.random.Generator) -> Program:
    """The least residual under trace k, by column generation: start from extreme rows, add improving columns.

    A column j together with all its weights C_ij ∈ [0, d_j] changes the cost at the rate
    −t − Σ_i max(0, y_i·A_(j) + s_i), with t, y, s the duals of the trace, the residuals and the sums. When no rate is
    negative, the restricted optimum is the optimum over all columns.
    """
    (m, n), size = points.shape, min(len(points), 3 * k)
    what = f"the linear program of {m}×{size} weights and the rates of {m}×{m}"
    check_memory(_program_bytes(m, n, size) + 24 * m * m, what, FEWER_ROWS)
    columns = np.sort(_extreme(points, size, k, rng))
    while True:
        program = solve(points, columns, k)
        gain = np.maximum(program.residual_dual @ points.T + program.sum_dual[:, None], 0.0).sum(axis=0)
        rate = -program.trace_dual - gain
        rate[columns] = 0.0
        paying = np.argsort(rate, kind="stable")[: 2 * k]
        paying = paying[rate[paying] < -_PRICE]
        if paying.size == 0:
            return program
        columns = np.sort(np.concatenate([columns, paying]))


def _extreme(points: NDArray[np.float64], size: int, k: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Rows to start from: ends of random lines, far from each other; if there are too few, the first rows."""
    ends = Ends(20 * k, 1e-11)
    ends.add(np.arange(len(points)), points @ rng.standard_normal((points.shape[1], 20 * k)))
    votes = np.zeros(len(points))
    for row, weight in ends.votes():
        votes[row] += weight
    seen = np.flatnonzero(votes)
    start = seen[choose(points[seen], votes[seen], size)]
    return np.concatenate([start, np.setdiff1d(np.arange(len(points)), start)[: max(0, k - len(start))]])


def gather(points: NDArray[np.float64], weight: NDArray[np.float64], k: int) -> NDArray[np.intp]:
    """k rows from a spread-out diagonal: one for each neighbourhood that has the weight of an anchor.

    Uses the smallest radius at which k disjoint neighbourhoods have more than k/(k + 1) each, heaviest first; if noise
    leaves no such radius, the one at which the k-th is heaviest. Returns the row of largest weight of each. Of equally
    heavy neighbourhoods, that of the largest row comes first.
    """
    support = np.flatnonzero(weight > 1e-9)
    if len(support) <= k:
        return support[np.argsort(-weight[support], kind="stable")]
    own = weight[support]
    distance = np.stack([np.abs(points[support] - points[i]).sum(axis=1) for i in support])
    by_size = np.argsort(-np.round(points[support].sum(axis=1), 12), kind="stable")
    best = np.argsort(-own, kind="stable")[:k]
    best_least = -1.0
    for radius in np.unique(np.round(distance, 12)):
        near = distance <= radius + 1e-12
        left = own.copy()
        chosen = np.empty(k, dtype=np.intp)
        least = np.inf
        for position in range(k):
            mass = near @ left
            centre = int(by_size[np.argmax(mass[by_size] >= mass.max() - 1e-9)])
            least = min(least, float(mass[centre]))
            chosen[position] = np.argmax(np.where(near[centre], left, -1.0))
            left[near[centre]] = 0.0
        if least > best_least and len(np.unique(chosen)) == k:
            best, best_least = chosen, least
        if least > k / (k + 1.0):
            break
    return support[best]
