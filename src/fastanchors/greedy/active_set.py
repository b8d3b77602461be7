"""Lawson and Hanson's active set for one row, on an orthogonal factor: slow, but correct for dependent anchors.

This is the second method of :mod:`fastanchors.greedy.nnls`, in the same notation: min ‖R·x − y‖ over x ≥ 0, where the
columns of R have unit length, and Σ e·x = total unless total is NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._jit import jit

__all__ = ["active_set_rows"]

_DEPENDENT = 1e-13  # a unit column this close to the span of the others counts as in it


def active_set_rows(R: Any, Y: Any, e: Any, total: float, limits: Any, X: Any) -> None:
    """Compute every row of X in place, for the right-hand sides in Y; gains up to ``limits`` count as rounding."""
    r, k = R.shape
    flags, values = np.empty((2, k), dtype=np.bool_), np.empty((3, k))
    work = (np.empty((k, r)), np.empty((k, k)), *flags, np.empty(k, dtype=np.intp), *values, np.empty(r))
    _solve_rows(R, Y, e, total, np.ascontiguousarray(limits), X, work)


@jit
def _solve_rows(R: Any, Y: Any, e: Any, total: float, limits: Any, X: Any, work: Any) -> None:
    for i in range(Y.shape[0]):
        active_set(R, Y[i], e, total, limits[i], X[i], work)


@jit
def active_set(R: Any, y: Any, e: Any, total: float, limit: float, x: Any, work: Any) -> None:
    """Compute x in place, one variable at a time, from its positive entries (a fixed sum must hold, or x be 0).

    A variable becomes free only if that lowers ‖R·x − y‖ by more than rounding, ``limit``. A column that depends on the
    free ones never becomes free.
    """
    Q, T, free, refused, index, z, v, w, residual = work
    r, k = R.shape
    refused[:] = False
    p, multiplier = _start(R, y, e, total, x, work)
    for _ in range(10 * k + 10):
        _residual(Q, T, y, index, p, e, multiplier, residual, v)
        for j in range(k):
            w[j] = -multiplier * e[j]
        for a in range(r):
            for j in range(k):
                w[j] += R[a, j] * residual[a]
        entering = -1
        for j in range(k):
            if not free[j] and not refused[j] and w[j] > 0 and (entering < 0 or w[j] > w[entering]):
                entering = j
        if entering < 0:
            return
        index[p] = entering
        if _orthogonalise(R, index, p, p + 1, Q, T) == p:
            refused[entering] = True
            continue
        candidate = _triangular_solve(Q, T, y, index, p + 1, e, total, z, v)
        if not z[p] * T[p, p] > limit:  # the gradient is only rounding
            refused[entering] = True
            continue
        free[entering] = True
        p += 1
        p, candidate = _retreat(R, y, e, total, x, p, candidate, work)
        multiplier = candidate
        for a in range(p):
            x[index[a]] = z[a]
        refused[:] = False


@jit
def _start(R: Any, y: Any, e: Any, total: float, x: Any, work: Any) -> tuple[int, float]:
    """Free the positive variables, or with a fixed sum and x = 0 the best single anchor; least squares on these."""
    Q, T, free, _, index, z, v, _, _ = work
    p = 0
    for j in range(len(x)):
        free[j] = x[j] > 0
        if free[j]:
            index[p] = j
            p += 1
    if p > 0 and _orthogonalise(R, index, 0, p, Q, T) < p:  # dependent columns: no valid start
        p = 0
    if p == 0:
        x[:] = 0.0
        free[:] = False
        if total != total:
            return 0, 0.0
        index[0] = nearest_anchor(R, y, e, total)
        free[index[0]] = True
        x[index[0]] = total / e[index[0]]
        p = _orthogonalise(R, index, 0, 1, Q, T)
    multiplier = _triangular_solve(Q, T, y, index, p, e, total, z, v)
    p, multiplier = _retreat(R, y, e, total, x, p, multiplier, work)
    for a in range(p):
        x[index[a]] = z[a]
    return p, multiplier


@jit
def nearest_anchor(R: Any, y: Any, e: Any, total: float) -> int:
    """The j whose multiple of weight ``total`` is nearest to y."""
    best, nearest = np.inf, 0
    for j in range(R.shape[1]):
        if e[j] > 0:
            distance = 0.0
            for a in range(len(y)):
                distance += (R[a, j] * (total / e[j]) - y[a]) ** 2
            if distance < best:
                best, nearest = distance, j
    return nearest


@jit
def _retreat(R: Any, y: Any, e: Any, total: float, x: Any, p: int, multiplier: float, work: Any) -> tuple[int, float]:
    """Move from x towards z, binding variables that become zero on the way, until z is non-negative."""
    Q, T, free, _, index, z, v, _, _ = work
    while True:
        step, first = 1.0, p
        for a in range(p):
            if z[a] <= 0:
                ratio = x[index[a]] / (x[index[a]] - z[a])
                if ratio < step or first == p:
                    step, first = ratio, a
        if first == p:
            return p, multiplier
        blocking = index[first]
        for a in range(p):
            x[index[a]] += step * (z[a] - x[index[a]])
        kept, changed = 0, p
        for a in range(p):
            j = index[a]
            if j == blocking or x[j] <= 0:
                x[j] = 0.0
                free[j] = False
                changed = min(changed, a)
            else:
                index[kept] = j
                kept += 1
        p = _orthogonalise(R, index, changed, kept, Q, T)
        multiplier = _triangular_solve(Q, T, y, index, p, e, total, z, v)


@jit
def _orthogonalise(R: Any, index: Any, start: int, stop: int, Q: Any, T: Any) -> int:
    """Columns ``start`` … ``stop`` − 1 of the QR of R[:, index]: q's in the rows of Q, factor in T.

    Gram–Schmidt, twice. Stops before a column that depends on the previous ones; returns the number of columns.
    """
    r = R.shape[0]
    for c in range(start, stop):
        for a in range(r):
            Q[c, a] = R[a, index[c]]
        for d in range(c):
            T[d, c] = 0.0
        for _ in range(2):
            for d in range(c):
                overlap = 0.0
                for a in range(r):
                    overlap += Q[d, a] * Q[c, a]
                T[d, c] += overlap
                for a in range(r):
                    Q[c, a] -= overlap * Q[d, a]
        norm = 0.0
        for a in range(r):
            norm += Q[c, a] * Q[c, a]
        norm = np.sqrt(norm)
        if norm <= _DEPENDENT or c == r:
            return c
        T[c, c] = norm
        for a in range(r):
            Q[c, a] /= norm
    return stop


@jit
def _triangular_solve(Q: Any, T: Any, y: Any, index: Any, p: int, e: Any, total: float, z: Any, v: Any) -> float:
    """Least squares on the columns in Q·T, with Σ e·z = total unless total is NaN; returns the multiplier."""
    for c in range(p):
        z[c] = 0.0
        for a in range(len(y)):
            z[c] += Q[c, a] * y[a]
    _back_substitute(T, p, z)
    if total != total:
        return 0.0
    _forward_substitute(T, index, p, e, v)
    _back_substitute(T, p, v)
    excess, weight = -total, 0.0
    for c in range(p):
        excess += e[index[c]] * z[c]
        weight += e[index[c]] * v[c]
    multiplier = excess / weight
    for c in range(p):
        z[c] -= multiplier * v[c]
    return multiplier


@jit
def _back_substitute(T: Any, p: int, z: Any) -> None:
    for c in range(p - 1, -1, -1):
        for d in range(c + 1, p):
            z[c] -= T[c, d] * z[d]
        z[c] /= T[c, c]


@jit
def _forward_substitute(T: Any, index: Any, p: int, e: Any, v: Any) -> None:
    """v ← T⁻ᵀ·e on the free variables."""
    for c in range(p):
        v[c] = e[index[c]]
        for d in range(c):
            v[c] -= T[d, c] * v[d]
        v[c] /= T[c, c]


@jit
def _residual(Q: Any, T: Any, y: Any, index: Any, p: int, e: Any, multiplier: float, residual: Any, v: Any) -> None:
    """y − R·z for the least-squares z, orthogonal to the free columns up to rounding of the residual, not of y.

    Gradients of columns that nearly depend on the free ones are differences of this size.
    """
    r = len(y)
    for a in range(r):
        residual[a] = y[a]
    for _ in range(2):
        for c in range(p):
            overlap = 0.0
            for a in range(r):
                overlap += Q[c, a] * residual[a]
            for a in range(r):
                residual[a] -= overlap * Q[c, a]
    if multiplier != 0.0:
        _forward_substitute(T, index, p, e, v)
        for c in range(p):
            for a in range(r):
                residual[a] += multiplier * v[c] * Q[c, a]
