"""Non-negative least squares for many right-hand sides that share one small matrix.

For every row y of Y, find x ≥ 0 that minimises ‖R·x − y‖, optionally with Σx fixed. R is r × k: the triangular
factor of the anchors (C = Rᵀ·Qᵀ, y = Qᵀ·a), so that n features have shrunk to r ≤ k numbers without squaring
the condition number.

Two methods, tried in this order for each row, on columns scaled to unit length:

1. *Block principal pivoting* (Kim & Park, SIAM J. Sci. Comput. 33, 2011): exchange every variable of the wrong
   sign at once, solve anew, repeat; a few exchanges as a rule. With p of k variables free this takes a Cholesky
   factor of p rows of the Gram matrix, or equally one of k − p rows of its inverse for the gradients of the others;
   the smaller is taken, the inverse only where the condition number is small. Where pivots show a condition number
   above 30 or so, the solution gets one step of refinement with the residual taken through R (corrected semi-normal
   equations, as accurate as QR).
2. *Active set* (Lawson & Hanson, 1974) with a re-orthogonalised QR of the free columns of R, when the free columns
   are nearly dependent, when dependent anchors leave the sign of a gradient to rounding, or when the exchanges do
   not settle. A dependent column never enters, so collinear anchors get a basic solution, as from
   :func:`scipy.optimize.nnls`.

The sum is kept by a multiplier, exactly, not by a penalty.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._jit import jit
from .active_set import active_set, nearest_anchor

__all__ = ["TOLERANCE", "NonnegativeSystem"]

#: A variable becomes free for a gain of more than this, relative to ‖y‖ and unit columns: some units of rounding.
TOLERANCE = 1e-14
_WELL_CONDITIONED = 0.03  # smallest singular value of unit columns for which inverse and gradients are to be trusted
_REFINE = 1e-3  # smallest squared pivot that needs no refinement
_DOUBTFUL = 1e-8  # squared pivots below this are left to the QR
_FAR = 1e10  # in units of the anchors: beyond, the nearest mixture is the vertex farthest in the row's direction
_PATIENCE = 3  # block exchanges without progress before single ones

_Array = NDArray[np.float64]


class NonnegativeSystem:
    """min ‖R·x − y‖ over x ≥ 0 (and Σx = ``sum_to``), prepared once for any number of y.

    Parameters
    ----------
    R : r × k matrix; its columns are the anchors in some orthonormal basis.
    sum_to : the sum every solution must have; None leaves it free.
    tol : gradient, relative to ‖y‖ and unit columns, that counts as zero.

    :meth:`solve` costs O(rk) per row and O(p³ + pk) per exchange, p the number of free variables. It holds the GIL
    only between kernels, keeps no state, and so may be called from several threads.
    """

    def __init__(self, R: ArrayLike, *, sum_to: float | None = None, tol: float = TOLERANCE) -> None:
        R = np.asarray(R, dtype=np.float64)
        self.tol = float(tol)
        self.total = np.nan if sum_to is None else float(sum_to)
        self._lift = 0.0
        if sum_to is not None:
            # A power of two that makes the largest entry about one, exactly: no square vanishes.
            self._unit = float(np.ldexp(1.0, np.frexp(np.abs(R).max(initial=0.0))[1]))
            R = R / self._unit
            # One more coordinate, equal for all anchors and for y: it changes nothing where the sum is right, and
            # makes the columns independent as soon as the anchors are affinely so (a zero anchor included).
            self._lift = float(np.sqrt((R * R).sum(axis=0).max(initial=0.0))) or 1.0
            R = np.vstack([R, np.full((1, R.shape[1]), self._lift / sum_to)])
        largest = np.abs(R).max(axis=0, initial=0.0)
        units = np.divide(R, largest, out=np.zeros_like(R), where=largest > 0)  # whose squares do not vanish
        norms = largest * np.sqrt((units * units).sum(axis=0))
        # A zero column can improve nothing: its gradient is always 0 and it never becomes free.
        self._scale = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
        self._R = np.ascontiguousarray(R * self._scale)
        self._G = np.ascontiguousarray(self._R.T @ self._R)
        self._prepare()

    def _prepare(self) -> None:
        """The solution x̂ without x ≥ 0, linear in y, and the matrix K by which gradients w of bound variables change
        it: x = x̂ − K·w."""
        k = self._R.shape[1]
        U, values, Vt = np.linalg.svd(self._R, full_matrices=False)
        self._trusted = bool(len(values) == k and values[-1] >= _WELL_CONDITIONED)
        inverse = np.divide(1.0, values, out=np.zeros_like(values), where=values > 1e-15 * values[0])
        self._guess = (U * inverse) @ Vt
        self._shift = np.zeros(k)
        self._K = self._guess.T @ self._guess
        if self._lift and self._trusted:
            direction = self._K @ self._scale
            weight = self._scale @ direction
            self._K -= np.outer(direction, direction) / weight
            self._shift = direction * (self.total / weight)
            self._guess -= np.outer(self._guess @ self._scale, direction / weight)

    def solve(self, Y: ArrayLike, X0: ArrayLike | None = None) -> _Array:
        """The solutions for all rows of ``Y``, one per row; ``X0`` tells which variables are likely positive."""
        Y = np.asarray(Y, dtype=np.float64)
        if self._lift:
            # Of rows very far away only the direction matters.
            near = np.maximum(self._unit, np.abs(Y).max(axis=1, keepdims=True, initial=0.0) / _FAR)
            Y = np.hstack([Y / near, np.full((len(near), 1), self._lift)])
        Y = np.ascontiguousarray(Y)
        free = Y @ self._guess + self._shift
        X = free.copy() if X0 is None else np.array(X0, dtype=np.float64, order="C")
        _solve_rows(
            self._R, self._G, self._K, Y, Y @ self._R, free, self._scale, self.total, self.tol, self._trusted, X
        )
        if self._lift:
            X *= self.total / X.sum(axis=1, keepdims=True)
        return X


@jit
def _solve_rows(
    R: Any, G: Any, K: Any, Y: Any, B: Any, free: Any, e: Any, total: float, tol: float, trusted: bool, X: Any
) -> None:
    """Every row of X in place: found for unit columns, then multiplied by the scale e. Σ x = total unless NaN."""
    r, k = R.shape
    square, Q = np.empty((k, k)), np.empty((k, r))
    is_free, flags = np.empty(k, dtype=np.bool_), np.empty(k, dtype=np.bool_)
    index = np.empty(k, dtype=np.intp)
    z, v, w, residual = np.empty(k), np.empty(k), np.empty(k), np.empty(r)
    work = (Q, square, is_free, flags, index, z, v, w, residual)
    for i in range(Y.shape[0]):
        norm = 0.0
        for a in range(r):
            norm += Y[i, a] * Y[i, a]
        limit = tol * np.sqrt(norm)
        x = X[i]
        if not _block_pivoting(R, G, K, Y[i], B[i], free[i], e, total, limit, trusted, x, work):
            active_set(R, Y[i], e, total, limit, x, work)
        weight = 0.0
        for j in range(k):
            x[j] *= e[j]
            weight += x[j]
        if total == total and not weight > 0.5 * total:  # y is so far that the sum is lost in rounding
            x[:] = 0.0
            x[nearest_anchor(R, Y[i], e, total)] = total


@jit
def _block_pivoting(
    R: Any,
    G: Any,
    K: Any,
    y: Any,
    b: Any,
    unbound: Any,
    e: Any,
    total: float,
    limit: float,
    trusted: bool,
    x: Any,
    work: Any,
) -> bool:
    """x by exchanges from the signs of x; False where it cannot be trusted, with x as a start for the active set."""
    k = len(b)
    _, _, free, wrong, _, _, _, w, _ = work
    bound = 0
    for j in range(k):
        free[j] = x[j] > 0
        bound += not free[j]
    fewest, patience = k + 1, _PATIENCE
    for _ in range(5 * k + 10):
        if trusted and 2 * bound <= k:
            _solve_bound(K, unbound, bound, x, work)
        elif not _solve_free(R, G, y, b, e, total, k - bound, x, work):
            break
        count, last, doubtful = 0, -1, False
        for j in range(k):
            wrong[j] = x[j] < 0 if free[j] else w[j] > limit
            doubtful |= not free[j] and w[j] > -limit
            if wrong[j]:
                count += 1
                last = j
        if count == 0:
            # Near a dependent column the smallest gradient may be a large gain, and its sign is not known.
            return trusted or not doubtful
        if count < fewest:
            fewest, patience = count, _PATIENCE
        elif patience > 0:
            patience -= 1
        else:  # Murty's rule, which cannot cycle
            for j in range(last):
                wrong[j] = False
        for j in range(k):
            if wrong[j]:
                bound += 1 if free[j] else -1
                free[j] = not free[j]
    x[:] = 0.0
    return False


@jit
def _solve_bound(K: Any, unbound: Any, q: int, x: Any, work: Any) -> None:
    """x and the gradients w by a system in the q bound variables: K·w = x̂ there, x = x̂ − K·w elsewhere."""
    _, L, free, _, index, z, _, w, _ = work
    k = len(x)
    at = 0
    for j in range(k):
        x[j] = unbound[j]
        if not free[j]:
            index[at] = j
            z[at] = unbound[j]
            at += 1
    _cholesky(K, index, q, L)
    _cholesky_solve(L, q, z)
    for a in range(q):
        for j in range(k):
            x[j] -= K[index[a], j] * z[a]
    for a in range(q):
        x[index[a]] = 0.0
        w[index[a]] = z[a]


@jit
def _solve_free(R: Any, G: Any, y: Any, b: Any, e: Any, total: float, p: int, x: Any, work: Any) -> bool:
    """x and the gradients w by a system in the p free variables; False where these are nearly dependent."""
    _, L, free, _, index, z, v, w, residual = work
    k = len(x)
    if p == 0 and total == total:
        return False
    at = 0
    for j in range(k):
        if free[j]:
            index[at] = j
            z[at] = b[j]
            at += 1
    smallest = _cholesky(G, index, p, L)
    if smallest < _DOUBTFUL:
        return False
    multiplier = _normal_solve(L, index, p, e, total, z, v)
    if smallest < _REFINE:
        _refine(R, y, L, index, p, e, total, z, v, residual)
    for j in range(k):
        x[j] = 0.0
    for a in range(p):
        x[index[a]] = z[a]
    for j in range(k):
        if not free[j]:
            gradient = b[j] - multiplier * e[j]
            for a in range(p):
                gradient -= G[j, index[a]] * z[a]
            w[j] = gradient
    return True


@jit
def _cholesky(G: Any, index: Any, p: int, L: Any) -> float:
    """The factor of G on ``index`` into L, with inverted diagonal; returns the smallest squared pivot.

    A pivot that is not positive ends it.
    """
    smallest = np.inf
    for a in range(p):
        for c in range(a):
            total = G[index[a], index[c]]
            for d in range(c):
                total -= L[a, d] * L[c, d]
            L[a, c] = total * L[c, c]
        pivot = G[index[a], index[a]]
        for d in range(a):
            pivot -= L[a, d] * L[a, d]
        if pivot < smallest:
            smallest = pivot
            if not pivot > 0:
                break
        L[a, a] = 1.0 / np.sqrt(pivot)
    return smallest


@jit
def _cholesky_solve(L: Any, p: int, z: Any) -> None:
    """z ← (L·Lᵀ)⁻¹·z for the first p entries."""
    for a in range(p):
        total = z[a]
        for d in range(a):
            total -= L[a, d] * z[d]
        z[a] = total * L[a, a]
    for a in range(p - 1, -1, -1):
        z[a] *= L[a, a]
        for d in range(a):
            z[d] -= L[a, d] * z[a]


@jit
def _normal_solve(L: Any, index: Any, p: int, e: Any, total: float, z: Any, v: Any) -> float:
    """z ← the solution for the right-hand side in z, with Σ e·z = total unless total is NaN; the multiplier."""
    _cholesky_solve(L, p, z)
    if total != total or p == 0:
        return 0.0
    for a in range(p):
        v[a] = e[index[a]]
    _cholesky_solve(L, p, v)
    excess, weight = -total, 0.0
    for a in range(p):
        excess += e[index[a]] * z[a]
        weight += e[index[a]] * v[a]
    multiplier = excess / weight
    for a in range(p):
        z[a] -= multiplier * v[a]
    return multiplier


@jit
def _refine(R: Any, y: Any, L: Any, index: Any, p: int, e: Any, total: float, z: Any, v: Any, residual: Any) -> None:
    """One step z ← z + G⁻¹·Rᵀ(y − R·z) on the free columns, with the sum kept."""
    missing = total
    for a in range(len(y)):
        residual[a] = y[a]
        for c in range(p):
            residual[a] -= R[a, index[c]] * z[c]
    for c in range(p):
        missing -= e[index[c]] * z[c]
    step = np.zeros(p)
    for a in range(len(y)):
        for c in range(p):
            step[c] += R[a, index[c]] * residual[a]
    _normal_solve(L, index, p, e, missing, step, v)
    for c in range(p):
        z[c] += step[c]
