"""Self-expression made row-sparse by a fast gradient method: FGNSR.

N. Gillis and R. Luce, "A fast gradient method for nonnegative sparse regression with self dictionary", IEEE Trans.
Image Process. 27, 2018; the convex model goes back to E. Esser, M. Möller, S. Osher, G. Sapiro and J. Xin, IEEE Trans.
Image Process. 21, 2012, and E. Elhamifar, G. Sapiro and R. Vidal, CVPR 2012.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from .._blas import one_blas_thread
from .._jit import jit
from .._validate import check_number, check_size
from ..anchors import Certificate
from ._lp import check_memory, distinct_points
from ._rows import MatrixRows
from ._solver import Selection, Solver
from .fas_coreset import residual_bounds
from .fas_index import build_index
from .spa import successive_projection

__all__ = ["FGNSR"]

_NEWTON_STEPS = 60  # for the multiplier of the trace; a few are taken


class FGNSR(Solver):
    """Fast gradient for non-negative sparse regression with self dictionary (FGNSR): Gillis and Luce 2018.

    Every row is written as a mixture of rows, A ≈ Xᵀ·A, where few may be used:

        minimise ½‖A − XᵀA‖_F²  over  Ω = {X : 0 ≤ X_ji ≤ (w_i/w_j)·X_jj, X_jj ≤ 1},  trace X ≤ k,

    with w the l1 norms of the rows. X_jj says how much of an anchor row j is. All rows are weighed against each other
    at once, where greedy methods choose one after the other.

    Parameters
    ----------
    candidates : at most so many rows are weighed. A larger matrix is cut down to the pool of rows that FAS keeps, those
        that come nearest to being chosen; the answer is then among them.
    iterations : of the gradient method, at most.
    tol : it stops when no entry of X moves by more.
    allow_fewer : return fewer than k anchors when the rows have lower rank, instead of raising ``RankError``.

    Notes
    -----
    The published method puts a price μ on the trace and tunes it; here the trace is bounded by k and the price is
    the multiplier of that bound, found anew in each projection on Ω (a monotone equation in one unknown), so that
    there is nothing to tune. Gradient steps are accelerated (Nesterov) and restart when they point uphill.
    The k anchors are chosen by SPA on the rows scaled by X_jj: near copies of an anchor share its weight, and are
    taken once.

    An iteration costs O(c²·min(c, n)) for c candidates, memory 5·c² numbers: for a few thousand candidates.
    """

    name: ClassVar[str] = "fgnsr"
    _limit: ClassVar[Literal["rank", "rows"]] = "rank"

    def __init__(
        self, *, candidates: int = 1000, iterations: int = 300, tol: float = 1e-4, allow_fewer: bool = False
    ) -> None:
        self.candidates = candidates
        self.iterations = iterations
        self.tol = tol
        self.allow_fewer = allow_fewer

    def _select(self, data: MatrixRows, k: int, rng: np.random.Generator) -> Selection:
        limit = check_size(self.candidates, name="candidates")
        iterations = check_size(self.iterations, name="iterations")
        tol = check_number(self.tol, name="tol", minimum=0.0)
        pool = np.arange(data.shape[0])
        known = data
        if len(pool) > max(limit, k):
            pool, known = nearest_to_chosen(data, k, max(limit, k), rng)
        places, points = distinct_points(known, 1, "hull")
        check_memory(40 * len(points) ** 2, f"the {len(points)}×{len(points)} weights of the candidates")
        with one_blas_thread():  # the same sums whatever the number of threads
            found = self_expression(points, k, iterations, tol)
            scaled = found.weight[:, None] * points
            path = successive_projection(MatrixRows(scaled, scaled.shape), k, allow_fewer=self.allow_fewer)
        chosen = np.asarray(path.indices)
        stopped = "" if found.converged else " (stopped before tol was reached)"
        statement = (
            f"{found.iterations} gradient steps{stopped} on {len(points)} candidates of {data.shape[0]} rows; "
            f"the anchors hold {found.weight[chosen].sum():.3g} of {found.weight.sum():.3g} of the weight"
        )
        details = {
            "weight": found.weight[chosen],
            "candidates": len(points),
            "iterations": found.iterations,
            "converged": found.converged,
            "objective": found.objective,
        }
        return Selection(pool[places[chosen]], Certificate("none", statement, details))


def nearest_to_chosen(
    data: MatrixRows, k: int, limit: int, rng: np.random.Generator
) -> tuple[NDArray[np.intp], MatrixRows]:
    """At most ``limit`` rows of FAS's pool, those whose residual comes nearest to that of SPA's choice at any step."""
    index = build_index(data, k, rng)
    coreset, run = index.coreset, index.run
    if len(coreset) > limit:
        bounds = residual_bounds(coreset.rows, coreset.squared_norms, run.thresholds.basis, len(run))
        near = (bounds / np.maximum(run.residuals, np.finfo(float).tiny)).max(axis=1)
        keep = np.zeros(len(coreset), dtype=bool)
        keep[np.argsort(-near, kind="stable")[:limit]] = True
        coreset = coreset.take(keep)
    return coreset.indices.astype(np.intp), MatrixRows(coreset.rows, coreset.rows.shape)


@dataclass(frozen=True)
class Expression:
    """The solution: the diagonal of X, half the squared residual, how many steps it took, and whether they sufficed."""

    weight: NDArray[np.float64]
    objective: float
    iterations: int
    converged: bool


def self_expression(points: NDArray[np.float64], k: int, iterations: int, tol: float) -> Expression:
    """The program of :class:`FGNSR`, by accelerated projected gradients with restarts."""
    m, n = points.shape
    w = points.sum(axis=1)
    factor = points / np.linalg.norm(points, 2)  # so that the gradient moves by at most as much as X
    gram = factor @ factor.T
    X = np.zeros((m, m))
    Y, speed, price, taken, converged = X, 1.0, 0.0, 0, False
    while taken < iterations and not converged:
        taken += 1
        product = factor @ (factor.T @ Y) if 2 * n < m else gram @ Y
        new = Y - product + gram
        price = project(new, w, float(k), price)
        step = new - X
        uphill = np.vdot(Y - new, step) > 0
        faster = 1.0 if uphill else (1.0 + np.sqrt(1.0 + 4.0 * speed**2)) / 2.0
        Y = new if uphill else new + (speed - 1.0) / faster * step
        X, speed = new, faster
        converged = bool(np.abs(step).max() <= tol)
    gap = points - X.T @ points
    return Expression(np.diag(X).copy(), 0.5 * float(np.vdot(gap, gap)), taken, converged)


def project(X: NDArray[np.float64], w: NDArray[np.float64], k: float, guess: float = 0.0) -> float:
    """Move X, in place, to the nearest point of Ω with trace at most k; returns the multiplier of the trace.

    With multiplier ν, row j of the result is min(max(X_ji, 0), (w_i/w_j)·t_j) with its own diagonal t_j(ν); the
    trace Σ t_j(ν) falls with ν, piecewise linearly, and Newton's method kept inside a bracket finds where it is k.
    """
    peak, slope = np.empty(len(X)), np.empty(len(X))
    peaks(X, w, 0.0, peak, slope)
    low, high, price = 0.0, np.inf, 0.0
    if peak.sum() > k:
        price = guess
        for _ in range(_NEWTON_STEPS):
            peaks(X, w, price, peak, slope)
            excess = peak.sum() - k
            if abs(excess) <= 1e-10 * k:
                break
            low, high = (price, high) if excess > 0 else (low, price)
            fall = slope.sum()
            price = price + excess / fall if fall > 0 else np.inf
            if not low < price < high:
                price = (low + high) / 2 if np.isfinite(high) else 2 * low + 1.0
    clip(X, w, peak)
    return price


@jit
def peaks(
    X: NDArray[np.float64], w: NDArray[np.float64], price: float, peak: NDArray[np.float64], slope: NDArray[np.float64]
) -> None:
    """For each row j the t that minimises (t + price − X_jj)² + Σ_i (max(X_ji, 0) − (w_i/w_j)·t)₊², cut to [0, 1].

    ``slope`` is −dt/dprice. The derivative is concave in t, so Newton's method from the left never overshoots, and it
    ends when the set of terms above their bound stays the same.
    """
    for j in range(len(X)):
        scale = 1.0 / w[j]
        own = X[j, j] - price
        t, curvature = own, 1.0
        while True:
            top, below = own, 1.0
            bar = max(t, 0.0) * scale
            for i in range(len(X)):
                x = X[j, i]
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
        peak[j] = min(max(t, 0.0), 1.0)
        slope[j] = 1.0 / curvature if inside else 0.0


@jit
def clip(X: NDArray[np.float64], w: NDArray[np.float64], peak: NDArray[np.float64]) -> None:
    """X_ji ← min(max(X_ji, 0), (w_i/w_j)·t_j), X_jj ← t_j."""
    for j in range(len(X)):
        bar = peak[j] / w[j]
        for i in range(len(X)):
            X[j, i] = min(max(X[j, i], 0.0), bar * w[i])
        X[j, j] = peak[j]
