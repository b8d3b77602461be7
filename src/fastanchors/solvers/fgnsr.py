"""FGNSR, row-sparse self-expression by a fast gradient method.

N. Gillis and R. Luce, "A fast gradient method for nonnegative sparse regression with self dictionary", IEEE Trans.
Image Process. 27, 2018; the convex model goes back to E. Esser, M. Möller, S. Osher, G. Sapiro and J. Xin, IEEE Trans.
Image Process. 21, 2012, and E. Elhamifar, G. Sapiro and R. Vidal, CVPR 2012.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from .._jit import jit
from .._parallel import one_blas_thread
from .._validate import check_flag, check_memory, check_number, check_size
from ..anchors import Certificate
from ..fas.coreset import residual_bounds
from ..fas.index import build_index
from ..greedy.nnls import NonnegativeSystem
from ..greedy.reader import Reader
from ..greedy.successive import successive_projection
from ..matrix import ArrayMatrix, MeteredMatrix, RowMatrix
from ._lp import distinct_points
from ._solver import Selection, Solver

__all__ = ["FGNSR"]

_NEWTON_STEPS = 60  # limit for the multiplier of the trace; a few are needed
_ROUND = 50  # gradient steps between two passes over all candidates
_NOTHING = 1e-150  # rows whose sum is below this fraction of the largest count as zero
_BLOCK_ENTRIES = 1 << 21  # entries of the gradient computed at a time: 16 MB


class FGNSR(Solver):
    """Fast gradient for non-negative sparse regression with self dictionary (FGNSR): Gillis and Luce 2018.

    Every row is written as a mixture of few rows, A ≈ Xᵀ·A:

        minimise ½‖A − XᵀA‖_F²  over  Ω = {X : 0 ≤ X_ji ≤ (w_i/w_j)·X_jj, X_jj ≤ 1},  trace X ≤ k,

    with w the l1 norms of the rows. X_jj is the weight of row j as an anchor. Unlike greedy methods, it weighs all rows
    at once.

    Parameters
    ----------
    candidates
        The largest number of rows to weigh. Of a larger matrix only the rows are used that FAS keeps in its coreset and
        that are nearest to being chosen.
    iterations
        The largest number of gradient steps.
    tol
        Stop when the objective is proved to be within ``tol`` of the optimum, relative to the spread: half the sum of
        squared distances of the rows from their mean. The certificate's ``details`` have the ``objective`` and the
        ``gap`` in this unit, and whether the gap is small enough (``converged``).
    allow_fewer
        Return fewer than k anchors if the rows have lower rank, instead of raising ``RankError``.

    Notes
    -----
    The published method has a penalty μ on the trace that must be tuned. Here the trace is bounded by k, and the
    penalty is the multiplier of that bound, computed in each projection on Ω (a monotone equation in one unknown). As
    published, it starts from the anchors of SPA and the encoding of all rows in them. Gradient steps are accelerated
    (Nesterov) and restart when the momentum points uphill. Few rows of X are non-zero, so steps update only these
    *active* rows. After every 50 steps or more, the gradient of all candidates is computed, and the k that decrease
    the objective fastest become active. The same gradient gives the gap, max ⟨∇, X − Z⟩ over all allowed Z, which
    bounds the distance of the objective from its minimum (Frank and Wolfe 1956). If the rows are mixtures of k of them
    without noise, the start is the optimum, with weight 1 on every anchor. With noise the gap closes slowly, and the
    steps may run out first. The k anchors are chosen by SPA on the rows scaled by X_jj, so that of near copies of an
    anchor, which share its weight, only one is chosen.

    With c candidates of rank r, a of them active, a step costs O(a·c·r) and a full gradient O(c²·r). Memory is 5·a·c
    numbers, at most 5·c²: use it for at most a few thousand candidates.

    Examples
    --------
    >>> import fastanchors as fa
    >>> made = fa.datasets.separable(200, 10, 4, noise=0.01, rng=0)
    >>> fa.metrics.anchor_recovery(fa.FGNSR().seek(made.A, 4).indices, made.labels)
    1.0
    """

    name: ClassVar[str] = "fgnsr"
    _limit: ClassVar[Literal["rank", "rows"]] = "rank"

    def __init__(
        self, *, candidates: int = 1000, iterations: int = 1000, tol: float = 1e-4, allow_fewer: bool = False
    ) -> None:
        self.candidates = check_size(candidates, name="candidates")
        self.iterations = check_size(iterations, name="iterations")
        self.tol = check_number(tol, name="tol", minimum=0.0)
        self.allow_fewer = check_flag(allow_fewer, name="allow_fewer")

    def _select(self, data: RowMatrix, k: int, rng: np.random.Generator) -> Selection:
        limit, iterations, tol = self.candidates, self.iterations, self.tol
        pool = np.arange(data.shape[0])
        known = data
        if len(pool) > max(limit, k):
            check_weights(max(limit, k))
            pool, known = nearest_to_chosen(data, k, max(limit, k), rng)
        places, points = distinct_points(known, 1, "hull")
        sums = points.sum(axis=1)
        counts = sums > _NOTHING * sums.max(initial=0.0)
        places, points = places[counts], points[counts]
        check_weights(len(points))
        with one_blas_thread():  # the order of summation must not depend on the number of threads
            found = self_expression(points, k, iterations, tol)
            scaled = found.weight[:, None] * points
            path = successive_projection(Reader(ArrayMatrix(scaled)), k, allow_fewer=self.allow_fewer)
        chosen = np.asarray(path.indices)
        converged = found.gap <= tol
        stopped = "" if converged else f" ({tol:.2g} was requested)"
        statement = (
            f"{found.iterations} gradient steps on {len(points)} candidates of {data.shape[0]} rows; the objective is "
            f"at most {found.gap:.2g} above its optimum, relative to the spread of the rows{stopped}; "
            f"the anchors have {found.weight[chosen].sum():.3g} of the total weight {found.weight.sum():.3g}"
        )
        details = {
            "weight": found.weight[chosen],
            "candidates": len(points),
            "iterations": found.iterations,
            "converged": converged,
            "objective": found.objective,
            "gap": found.gap,
        }
        return Selection(pool[places[chosen]], Certificate("none", statement, details))


def check_weights(count: int) -> None:
    """Raise :class:`TooLargeError` if there is not enough memory for the weights of so many candidates."""
    check_memory(40 * count**2, f"the {count}×{count} weights of the candidates", "use fewer candidates")


def nearest_to_chosen(
    data: RowMatrix, k: int, limit: int, rng: np.random.Generator
) -> tuple[NDArray[np.intp], RowMatrix]:
    """Up to ``limit`` rows of FAS's coreset, those whose residual is nearest to that of SPA's choice at any step."""
    index = build_index(data if isinstance(data, MeteredMatrix) else MeteredMatrix(data), k, rng)
    coreset, run = index.coreset, index.run
    if len(coreset) > limit:
        bounds = residual_bounds(coreset.rows, coreset.squared_norms, run.thresholds.basis, len(run))
        near = (bounds / np.maximum(run.residuals, np.finfo(float).tiny)).max(axis=1)
        keep = np.zeros(len(coreset), dtype=bool)
        keep[np.argsort(-near, kind="stable")[:limit]] = True
        coreset = coreset.take(keep)
    return coreset.indices.astype(np.intp), ArrayMatrix(coreset.rows)


@dataclass(frozen=True)
class Expression:
    """The diagonal of X, and relative to the spread its objective and the bound ``gap`` on its distance to the optimum.

    ``objective − gap`` is always a lower bound of the optimum, converged or not.
    """

    weight: NDArray[np.float64]
    objective: float
    gap: float
    iterations: int


def self_expression(points: NDArray[np.float64], k: int, iterations: int, tol: float) -> Expression:
    """Solve the program of :class:`FGNSR`. Only the rows ``active`` of X are stored; the others are zero."""
    w = points.sum(axis=1)
    U, sigma, _ = np.linalg.svd(points, full_matrices=False)
    rank = np.count_nonzero(sigma > sigma[0] * 1e-14)
    P = np.ascontiguousarray(U[:, :rank] * sigma[:rank])  # the same inner products in fewer columns
    unit = 0.5 * max(float(np.square(P - P.mean(axis=0)).sum()), 1e-12 * float(sigma @ sigma))
    active, X = greedy_start(points, P, w, k)
    taken, price, patience = 0, 0.0, _ROUND
    while True:
        residual = P - X.T @ P[active]
        gain = gains(P, residual, w)
        best = np.sort(gain)[-k:]
        gap = float(np.maximum(best, 0.0).sum() - np.vdot(P[active] @ residual.T, X)) / unit
        if gap <= tol or taken == iterations:
            break
        joining = worth_joining(active, gain, price if taken else float(best[0]), k)
        if len(joining):
            active, X = widened(active, X, joining)
        patience = _ROUND if len(joining) else 2 * patience  # no new active row: longer rounds
        steps = min(patience, iterations - taken)
        X, price = descend(P, active, X, w, k, steps)
        taken += steps
    weight = np.zeros(len(points))
    weight[active] = X[np.arange(len(active)), active]
    return Expression(weight, 0.5 * float(np.vdot(residual, residual)) / unit, max(gap, 0.0), taken)


def greedy_start(
    points: NDArray[np.float64], P: NDArray[np.float64], w: NDArray[np.float64], k: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """SPA's choice and the encoding of all rows in it, moved into Ω."""
    chosen = successive_projection(Reader(ArrayMatrix(points)), k, allow_fewer=True).indices
    active = np.asarray(chosen, dtype=np.intp)
    X = np.ascontiguousarray(NonnegativeSystem(P[active].T).solve(P).T)
    project(X, active, w, float(k))
    return active, X


def gains(P: NDArray[np.float64], residual: NDArray[np.float64], w: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rate of decrease of the objective as X_jj grows and row j follows optimally: −∇_jj + Σ_i (w_i/w_j)·(−∇_ji)₊."""
    gain = np.empty(len(P))
    step = max(1, _BLOCK_ENTRIES // len(P))
    for start in range(0, len(P), step):
        rows = np.arange(start, min(start + step, len(P)))
        downhill = P[rows] @ residual.T
        own = downhill[rows - start, rows]
        gain[rows] = own - np.maximum(own, 0.0) + np.maximum(downhill, 0.0) @ w / w[rows]
    return gain


def worth_joining(active: NDArray[np.intp], gain: NDArray[np.float64], price: float, k: int) -> NDArray[np.intp]:
    """The k best inactive rows among those whose gain exceeds the price of the trace.

    More would slow the steps down, because the curvature grows with the number of active rows.
    """
    outside = np.setdiff1d(np.flatnonzero(gain > price), active)
    return outside[np.argsort(-gain[outside], kind="stable")][:k]


def widened(
    active: NDArray[np.intp], X: NDArray[np.float64], joining: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Remove active rows that have become zero, and add those in ``joining``."""
    kept = X[np.arange(len(active)), active] > 0
    return np.concatenate([active[kept], joining]), np.vstack([X[kept], np.zeros((len(joining), X.shape[1]))])


def descend(
    P: NDArray[np.float64], active: NDArray[np.intp], X: NDArray[np.float64], w: NDArray[np.float64], k: int, steps: int
) -> tuple[NDArray[np.float64], float]:
    """Accelerated projected gradient steps on the active rows, with restarts: the new rows, the price of the trace."""
    own = P[active]
    curvature = float(np.linalg.norm(own, 2)) ** 2
    Y, speed, price = X, 1.0, 0.0
    for _ in range(steps):
        new = Y + own @ (P - Y.T @ own).T / curvature
        price = project(new, active, w, float(k), price)
        step = new - X
        uphill = np.vdot(Y - new, step) > 0
        faster = 1.0 if uphill else (1.0 + np.sqrt(1.0 + 4.0 * speed**2)) / 2.0
        Y = new if uphill else new + (speed - 1.0) / faster * step
        X, speed = new, faster
    return X, price * curvature


def project(
    X: NDArray[np.float64], active: NDArray[np.intp], w: NDArray[np.float64], k: float, guess: float = 0.0
) -> float:
    """Move X, in place, to the nearest point of Ω with trace at most k; returns the multiplier of the trace.

    With multiplier ν, row j of the result is min(max(X_ji, 0), (w_i/w_j)·t_j) with its own diagonal t_j(ν); the
    trace Σ t_j(ν) decreases piecewise linearly in ν, and Newton's method inside a bracket finds where it is k.
    """
    peak, slope = np.empty(len(X)), np.empty(len(X))
    low, high, price = -np.inf, np.inf, guess
    for _ in range(_NEWTON_STEPS):
        peaks(X, active, w, price, peak, slope)
        excess = peak.sum() - k
        if abs(excess) <= 1e-10 * k or (price == 0 and excess <= 0):
            break
        low, high = (price, high) if excess > 0 else (low, price)
        fall = slope.sum()
        price = max(price + excess / fall, 0.0) if fall > 0 else np.inf
        if not low < price < high:
            price = (max(low, 0.0) + high) / 2 if np.isfinite(high) else 2 * low + 1.0
    clip(X, active, w, peak)
    return price


@jit
def peaks(
    X: NDArray[np.float64],
    active: NDArray[np.intp],
    w: NDArray[np.float64],
    price: float,
    peak: NDArray[np.float64],
    slope: NDArray[np.float64],
) -> None:
    """For each row j the t that minimises (t + price − X_jj)² + Σ_i (max(X_ji, 0) − (w_i/w_j)·t)₊², cut to [0, 1].

    ``slope`` is −dt/dprice. The derivative is concave in t, so Newton's method from the left never overshoots. It stops
    when the set of terms above their bound no longer changes.
    """
    for a in range(len(X)):
        j = active[a]
        scale = 1.0 / w[j]
        own = X[a, j] - price
        t, curvature = own, 1.0
        while True:
            top, below = own, 1.0
            bar = max(t, 0.0) * scale
            for i in range(X.shape[1]):
                x = X[a, i]
                if x > bar * w[i] and i != j:
                    u = w[i] * scale
                    top += u * x
                    below += u * u
            curvature = below
            better = top / below
            if better <= t:
                break
            t = better
        inside = 0.0 < t < 1.0
        peak[a] = min(max(t, 0.0), 1.0)
        slope[a] = 1.0 / curvature if inside else 0.0


@jit
def clip(X: NDArray[np.float64], active: NDArray[np.intp], w: NDArray[np.float64], peak: NDArray[np.float64]) -> None:
    """X_ji ← min(max(X_ji, 0), (w_i/w_j)·t_j), X_jj ← t_j."""
    for a in range(len(X)):
        bar = peak[a] / w[active[a]]
        for i in range(X.shape[1]):
            X[a, i] = min(max(X[a, i], 0.0), bar * w[i])
        X[a, active[a]] = peak[a]
