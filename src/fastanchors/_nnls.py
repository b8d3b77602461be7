"""Non-negative least squares for many right-hand sides that share one small matrix.

For every row y of Y, find x ≥ 0 that minimises ‖R·x − y‖, optionally with Σx fixed. R is r × k: the triangular
factor of the anchors (C = Rᵀ·Qᵀ, y = Qᵀ·a), so that n features have shrunk to r ≤ k numbers without squaring
the condition number; or a square root of their Gram matrix where that is all there is.

Two methods, tried in this order for each row, on columns scaled to unit length:

1. *Block principal pivoting* (Kim & Park, SIAM J. Sci. Comput. 33, 2011): exchange every variable of the wrong
   sign at once, solve on the free ones by a Cholesky factor of their Gram matrix, repeat; a few exchanges as a
   rule. Where the pivots show a condition number above 100 or so, the solution gets one step of refinement with
   the residual taken through R (corrected semi-normal equations, as accurate as QR).
2. *Active set* (Lawson & Hanson, 1974) with a re-orthogonalised QR of the free columns of R, when the free columns
   are nearly dependent, when dependent anchors leave the sign of a gradient to rounding, or when the exchanges do
   not settle. A dependent column never enters, so collinear anchors
   get a basic solution, as from :func:`scipy.optimize.nnls`.

The sum is kept by a multiplier, exactly, not by a penalty.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._jit import jit

__all__ = ["TOLERANCE", "NonnegativeSystem", "nnls_gram"]

#: A variable becomes free for a gain of more than this, relative to ‖y‖ and unit columns: some units of rounding.
TOLERANCE = 1e-14
_WELL_CONDITIONED = 1e-2  # smallest singular value of unit columns above which a small gradient means a small gain
_REFINE = 1e-3  # smallest squared pivot that needs no refinement
_DOUBTFUL = 1e-8  # squared pivots below this are left to the QR
_DEPENDENT = 1e-13  # a unit column this close to the span of the others is in it
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
            # One more coordinate, equal for all anchors and for y: it changes nothing where the sum is right, and
            # makes the columns independent as soon as the anchors are affinely so (a zero anchor included).
            self._lift = float(np.sqrt((R * R).sum(axis=0).max(initial=0.0))) or 1.0
            R = np.vstack([R, np.full((1, R.shape[1]), self._lift / sum_to)])
        norms = np.sqrt((R * R).sum(axis=0))
        # A zero column can improve nothing: its gradient is always 0 and it never becomes free.
        self._scale = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
        self._R = np.ascontiguousarray(R * self._scale)
        self._G = np.ascontiguousarray(self._R.T @ self._R)
        smallest = np.linalg.svd(self._R, compute_uv=False).min(initial=1.0) if len(R) >= R.shape[1] else 0.0
        self._band = self.tol if smallest < _WELL_CONDITIONED else -np.inf
        # The unconstrained solution tells most signs; where R is near singular the second method starts afresh.
        self._guess = np.ascontiguousarray(np.linalg.pinv(self._R).T) if R.size else np.zeros(R.shape)

    def solve(self, Y: ArrayLike, X0: ArrayLike | None = None) -> _Array:
        """The solutions for all rows of ``Y``, one per row; ``X0`` tells which variables are likely positive."""
        Y = np.asarray(Y, dtype=np.float64)
        if self._lift:
            Y = np.hstack([Y, np.full((Y.shape[0], 1), self._lift)])
        Y = np.ascontiguousarray(Y)
        X = Y @ self._guess if X0 is None else np.array(X0, dtype=np.float64, order="C")
        _solve_rows(self._R, self._G, Y @ self._R, Y, self._scale, self.total, self.tol, self._band, X)
        if self._lift:
            X *= self.total / X.sum(axis=1, keepdims=True)
        return X


def nnls_gram(
    G: ArrayLike, B: ArrayLike, *, tol: float = TOLERANCE, X0: ArrayLike | None = None, sum_to: float | None = None
) -> _Array:
    """For each row b of ``B`` the x ≥ 0 that minimises ½·xᵀGx − bᵀx, optionally with Σx = ``sum_to``.

    ``G`` = C·Cᵀ is the Gram matrix of k anchors (the rows of C), ``B`` = A·Cᵀ the products of the data with them.
    G may be singular. For Σx ≤ 1 append a zero row and column to G and a zero column to B: the origin becomes an
    anchor. The answer is as accurate as G, that is, to the square of the anchors' condition number times rounding;
    ``fa.encode`` works from the anchors themselves and loses only the condition number.

    Parameters
    ----------
    G : k × k, symmetric positive semi-definite.
    B : m × k.
    tol : gradient, relative to the size of the problem, that counts as zero.
    X0 : m × k; its positive entries are the first guess of what is positive in the solution.
    sum_to : None, or the sum of every x.
    """
    G = np.asarray(G, dtype=np.float64)
    B = np.asarray(B, dtype=np.float64)
    scale = np.sqrt(G.diagonal())
    scale = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
    values, vectors = np.linalg.eigh(G * scale * scale[:, None])
    keep = values > len(values) * np.finfo(np.float64).eps * values.max(initial=0.0)
    roots = np.sqrt(values[keep])
    inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
    R = (roots * vectors[:, keep]).T * inverse
    Y = (B * scale) @ (vectors[:, keep] / roots)
    return NonnegativeSystem(R, sum_to=sum_to, tol=tol).solve(Y, X0)


@jit
def _solve_rows(
    R: _Array, G: _Array, B: _Array, Y: _Array, scale: _Array, total: float, tol: float, band: float, X: _Array
) -> None:
    """Every row of X, in place. Solves for x / scale, whose weighted sum Σ scale·(x / scale) is ``total``."""
    r, k = R.shape
    square = np.empty((k, k))
    Q = np.empty((k, r))
    free = np.empty(k, dtype=np.bool_)
    wrong = np.empty(k, dtype=np.bool_)
    index = np.empty(k, dtype=np.intp)
    z, v, w, residual = np.empty(k), np.empty(k), np.empty(k), np.empty(r)
    for i in range(Y.shape[0]):
        norm = 0.0
        for a in range(r):
            norm += Y[i, a] * Y[i, a]
        norm = np.sqrt(norm)
        x = X[i]
        if not _block_pivoting(
            R, G, B[i], Y[i], scale, total, tol * norm, band * norm, x, square, free, wrong, index, z, v, residual
        ):
            _active_set(R, Y[i], scale, total, tol * norm, x, Q, square, free, wrong, index, z, v, w, residual)
        for j in range(k):
            x[j] *= scale[j]


@jit
def _block_pivoting(
    R: Any,
    G: Any,
    b: Any,
    y: Any,
    e: Any,
    total: float,
    limit: float,
    band: float,
    x: Any,
    L: Any,
    free: Any,
    wrong: Any,
    index: Any,
    z: Any,
    v: Any,
    residual: Any,
) -> bool:
    """x by exchanges from the signs of x; False, with x unspecified, where this cannot be trusted."""
    k = len(b)
    for j in range(k):
        free[j] = x[j] > 0
    fewest, patience = k + 1, _PATIENCE
    for _ in range(5 * k + 10):
        p = 0
        for j in range(k):
            if free[j]:
                index[p] = j
                p += 1
        smallest = _cholesky(G, index, p, L)
        if smallest < _DOUBTFUL:
            return False
        for a in range(p):
            z[a] = b[index[a]]
        multiplier = _normal_solve(L, index, p, e, total, z, v)
        if p == 0 and total == total:
            return False
        if smallest < _REFINE:
            _refine(R, y, L, index, p, e, total, z, v, residual)
        count, last, doubtful = 0, -1, False
        for j in range(k):
            x[j] = 0.0
        for a in range(p):
            x[index[a]] = z[a]
        for j in range(k):
            if free[j]:
                wrong[j] = x[j] < 0
            else:
                gradient = b[j] - multiplier * e[j]
                for a in range(p):
                    gradient -= G[j, index[a]] * z[a]
                wrong[j] = gradient > limit
                doubtful |= gradient > -band
            if wrong[j]:
                count += 1
                last = j
        if count == 0:
            return not doubtful
        if count < fewest:
            fewest, patience = count, _PATIENCE
        elif patience > 0:
            patience -= 1
        else:  # Murty's rule, which cannot cycle
            for j in range(last):
                wrong[j] = False
        for j in range(k):
            free[j] = free[j] != wrong[j]
    return False


@jit
def _cholesky(G: Any, index: Any, p: int, L: Any) -> float:
    """The factor of G on ``index`` into L, with inverted diagonal; returns the smallest squared pivot (≤ 1)."""
    smallest = 1.0
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
            if pivot < _DOUBTFUL:
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


@jit
def _active_set(
    R: Any,
    y: Any,
    e: Any,
    total: float,
    limit: float,
    x: Any,
    Q: Any,
    T: Any,
    free: Any,
    refused: Any,
    index: Any,
    z: Any,
    v: Any,
    w: Any,
    residual: Any,
) -> None:
    """x by Lawson and Hanson's method from nothing (from the best single anchor, where the sum is fixed)."""
    r, k = R.shape
    x[:] = 0.0
    free[:] = False
    refused[:] = False
    p = 0
    multiplier = 0.0
    if total == total:
        best = np.inf
        for j in range(k):
            if e[j] > 0:
                distance = 0.0
                for a in range(r):
                    distance += (R[a, j] * (total / e[j]) - y[a]) ** 2
                if distance < best:
                    best = distance
                    index[0] = j
        p = _orthogonalise(R, index, 0, 1, Q, T)
        multiplier = _triangular_solve(Q, T, y, index, p, e, total, z, v)
        x[index[0]] = z[0]
        free[index[0]] = True
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
        if not z[p] * T[p, p] > limit:  # a gradient of rounding only
            refused[entering] = True
            continue
        free[entering] = True
        p += 1
        while True:
            step, first = 1.0, p
            for a in range(p):
                if z[a] <= 0:
                    ratio = x[index[a]] / (x[index[a]] - z[a])
                    if ratio < step or first == p:
                        step, first = ratio, a
            if first == p:
                break
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
            candidate = _triangular_solve(Q, T, y, index, p, e, total, z, v)
        multiplier = candidate
        for a in range(p):
            x[index[a]] = z[a]
        refused[:] = False


@jit
def _orthogonalise(R: Any, index: Any, start: int, stop: int, Q: Any, T: Any) -> int:
    """Columns ``start`` … ``stop`` − 1 of the QR of R[:, index]: q's in the rows of Q, factor in T.

    Gram–Schmidt, twice. Stops before a column that depends on those before it; returns how many there are.
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
    """y − R·z for the least-squares z, orthogonal to the free columns to rounding of itself, not of y.

    Gradients towards columns that nearly depend on the free ones are differences of this size.
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
