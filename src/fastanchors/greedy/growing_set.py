"""Start values for non-negative least squares with many variables, few of them positive: sets that grow one by one.

Block principal pivoting (:mod:`fastanchors.greedy.nnls`) starts from the unconstrained solution, in which about half
of the k variables are positive: O(k³) for each row. If only a few are positive in the end, it is faster to add
variables one at a time, the one with the largest gradient first (Lawson and Hanson, 1974), on the Gram matrix (Bro and
de Jong, J. Chemometrics 1997): O(p·k) for each of p variables. :mod:`fastanchors.greedy.active_set` follows the same
method on an orthogonal factor, O(r·k) for each variable: slower, but correct for dependent columns too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._jit import jit

__all__ = ["growing_sets"]

_DEPENDENT = 1e-8  # a variable with a smaller squared pivot depends on those chosen and is not added


def growing_sets(G: Any, B: Any, e: Any, total: float, limits: Any) -> Any:
    """For each row b of B the x ≥ 0 that minimises x·G·x/2 − b·x, with Σ e·x = ``total`` unless that is NaN.

    G has a unit diagonal, except for zero columns. Gradients up to those in ``limits`` count as zero. The solution is
    exact up to rounding, unless variables depend on each other.
    """
    k = len(G)
    X = np.zeros(B.shape)
    work = (np.empty((k, k)), np.empty(k, dtype=np.intp), np.empty(k, dtype=np.bool_), np.empty((4, k)))
    _grow_rows(G, B, e, total, np.ascontiguousarray(limits), X, work)
    return X


@jit
def _grow_rows(G: Any, B: Any, e: Any, total: float, limits: Any, X: Any, work: Any) -> None:
    for i in range(B.shape[0]):
        _grow(G, B[i], e, total, limits[i], X[i], work)


@jit
def _grow(G: Any, b: Any, e: Any, total: float, limit: float, x: Any, work: Any) -> None:
    """Compute x in place, from the nearest vertex if the sum is fixed, else from zero."""
    L, index, refused, room = work
    u, v, z, w = room[0], room[1], room[2], room[3]
    k = len(b)
    refused[:] = False
    p, multiplier = 0, 0.0
    if not np.isnan(total):
        first = _nearest_vertex(G, b, e, total)
        if first < 0:
            return
        index[0] = first
        _append(G, L, index, 0)
        p = 1
        x[first] = total / e[first]
        multiplier = (b[first] - G[first, first] * x[first]) / e[first]
    for _ in range(3 * k + 10):
        for j in range(k):  # the gradients
            w[j] = b[j] - multiplier * e[j]
        for a in range(p):
            for j in range(k):
                w[j] -= G[index[a], j] * x[index[a]]
        entering = -1
        for j in range(k):
            if x[j] == 0.0 and not refused[j] and w[j] > (limit if entering < 0 else w[entering]):
                entering = j
        if entering < 0:
            return
        index[p] = entering
        if not _append(G, L, index, p):
            refused[entering] = True
            continue
        p += 1
        while True:
            multiplier = _solve(L, index, p, b, e, total, u, v, z)
            step = 1.0
            for a in range(p):
                if z[a] <= 0.0:
                    step = min(step, x[index[a]] / (x[index[a]] - z[a]) if x[index[a]] > 0.0 else 0.0)
            kept = 0
            for a in range(p):
                j = index[a]
                x[j] += step * (z[a] - x[j])
                if z[a] > 0.0 or x[j] > 1e-15:
                    index[kept] = j
                    kept += 1
                else:
                    x[j] = 0.0
                    if j == entering:  # it would leave as soon as it enters
                        refused[j] = True
            if kept == p:
                break
            p = kept
            for a in range(p):
                _append(G, L, index, a)


@jit
def _nearest_vertex(G: Any, b: Any, e: Any, total: float) -> int:
    """The single variable that attains the sum at the least cost; −1 if none can."""
    best, least = -1, np.inf
    for j in range(len(b)):
        if e[j] > 0.0:
            height = total / e[j]
            value = height * (0.5 * G[j, j] * height - b[j])
            if value < least:
                best, least = j, value
    return best


@jit
def _append(G: Any, L: Any, index: Any, p: int) -> bool:
    """Row p of the Cholesky factor of G over ``index``, its diagonal inverted; False if it depends on the others."""
    j = index[p]
    for c in range(p):
        total = G[j, index[c]]
        for d in range(c):
            total -= L[p, d] * L[c, d]
        L[p, c] = total * L[c, c]
    pivot = G[j, j]
    for d in range(p):
        pivot -= L[p, d] * L[p, d]
    if not pivot > _DEPENDENT:
        return False
    L[p, p] = 1.0 / np.sqrt(pivot)
    return True


@jit
def _solve(L: Any, index: Any, p: int, b: Any, e: Any, total: float, u: Any, v: Any, z: Any) -> float:
    """The unconstrained solution z over ``index``; returns the multiplier of the sum."""
    for a in range(p):
        u[a] = b[index[a]]
        v[a] = e[index[a]]
        for d in range(a):
            u[a] -= L[a, d] * u[d]
            v[a] -= L[a, d] * v[d]
        u[a] *= L[a, a]
        v[a] *= L[a, a]
    for a in range(p - 1, -1, -1):
        u[a] *= L[a, a]
        v[a] *= L[a, a]
        for d in range(a):
            u[d] -= L[a, d] * u[a]
            v[d] -= L[a, d] * v[a]
    multiplier = 0.0
    if not np.isnan(total):
        excess, weight = -total, 0.0
        for a in range(p):
            excess += e[index[a]] * u[a]
            weight += e[index[a]] * v[a]
        multiplier = excess / weight
    for a in range(p):
        z[a] = u[a] - multiplier * v[a]
    return multiplier
