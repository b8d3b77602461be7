"""Non-negative least squares for many right-hand sides that share one small matrix.

For every row y of Y, find x ≥ 0 that minimises ‖R·x − y‖, optionally with Σx fixed. R is r × k: the triangular
factor of the anchors (C = Rᵀ·Qᵀ, y = Qᵀ·a). This reduces n features to r ≤ k numbers without squaring the condition
number.

Two methods, tried in this order, on columns scaled to unit length:

1. *Block principal pivoting* (Kim & Park, SIAM J. Sci. Comput. 33, 2011), for all rows together: exchange every
   variable of the wrong sign at once, solve again, and continue with the rows that still change. A few exchanges are
   usually enough. It starts from the unconstrained solution. With more than 64 variables, usually few of them positive,
   it starts from sets that grow one by one (:mod:`fastanchors.greedy.growing_set`).
   With p of k variables free this takes a Cholesky factor of p rows of the Gram matrix, or equivalently one of k − p
   rows of its inverse for the gradients of the others. The smaller is used; the inverse only if the condition number is
   small. If pivots show a condition number above about 30, the solution gets one step of refinement with the residual
   computed through R (corrected semi-normal equations, as accurate as QR).
2. *Active set* (Lawson & Hanson, 1974) on an orthogonal factor, for rows whose free columns are nearly dependent, rows
   where rounding hides the sign of a gradient, and rows whose exchanges do not converge. A dependent column never
   enters, so collinear anchors get a basic solution. A few such rows are solved by :func:`scipy.optimize.nnls`, many by
   a kernel (:mod:`fastanchors.greedy.active_set`) that is compiled only then.

A multiplier keeps the sum exactly; there is no penalty term.

Only the factorisations run in a kernel, :func:`principal_pivot`, which compiles in half a second; everything else is
a few array operations per exchange.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls

from .._jit import jit
from ..matrix.scaled import divided, unit_of
from .active_set import active_set_rows
from .growing_set import growing_sets

__all__ = ["TOLERANCE", "NonnegativeSystem", "principal_pivot"]

#: A variable becomes free for a gain of more than this, relative to ‖y‖ and unit columns: some units of rounding.
TOLERANCE = 1e-14
_WELL_CONDITIONED = 0.03  # smallest singular value of unit columns for which inverse and gradients are reliable
_REFINE = 1e-3  # smallest squared pivot that needs no refinement
_DOUBTFUL = 1e-8  # squared pivots below this are left to the active set
_FAR = 1e10  # in units of the anchors: beyond this, the nearest mixture is the vertex farthest in the row's direction
_PATIENCE = 3  # block exchanges without progress before single ones
_FEW = 1000
_MANY = 64  # with more variables than this, sets are grown rather than reduced

_Array = NDArray[np.float64]
_Flags = NDArray[np.bool_]


class NonnegativeSystem:
    """min ‖R·x − y‖ over x ≥ 0 (and Σx = ``sum_to``), prepared once for any number of y.

    Parameters
    ----------
    R
        r × k matrix; its columns are the anchors in some orthonormal basis.
    sum_to
        The sum every solution must have; None leaves it free.
    tol
        Gradient, relative to ‖y‖ and unit columns, that counts as zero.
    few
        Up to this many rows of one call are solved by SciPy if pivoting fails: compiling a kernel would take longer.

    Notes
    -----
    :meth:`solve` costs O(rk) per row and O(p³ + pk) per exchange for p free variables. It keeps no state, so it may be
    called from several threads.
    """

    def __init__(self, R: ArrayLike, *, sum_to: float | None = None, tol: float = TOLERANCE, few: int = _FEW) -> None:
        R = np.asarray(R, dtype=np.float64)
        self.tol, self.few = float(tol), few
        self.total = np.nan if sum_to is None else float(sum_to)
        self._lift = 0.0
        if sum_to is not None:
            # Dividing by a power of two is exact; it makes the largest entry about one, so no square underflows.
            self._unit = float(np.ldexp(1.0, np.frexp(np.abs(R).max(initial=0.0))[1]))
            R = R / self._unit
            # One more coordinate, equal for all anchors and for y: it changes nothing if the sum is right, and makes
            # the columns independent if the anchors are affinely independent (a zero anchor included).
            self._lift = float(np.sqrt((R * R).sum(axis=0).max(initial=0.0))) or 1.0
            R = np.vstack([R, np.full((1, R.shape[1]), self._lift / sum_to)])
        largest = np.abs(R).max(axis=0, initial=0.0)
        units = np.divide(R, largest, out=np.zeros_like(R), where=largest > 0)  # their squares do not underflow
        norms = largest * np.sqrt((units * units).sum(axis=0))
        # A zero column can improve nothing: its gradient is always 0 and it never becomes free.
        self._scale = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms >= np.finfo(np.float64).tiny)
        self._R = np.ascontiguousarray(R * self._scale)
        self._prepare()

    def _prepare(self) -> None:
        """Prepare the solution x̂ without x ≥ 0, linear in y, and the matrix K that corrects it for the gradients w of
        bound variables: x = x̂ − K·w."""
        k = self._R.shape[1]
        U, values, Vt = np.linalg.svd(self._R, full_matrices=False)
        self._trusted = bool(len(values) == k and values[-1] >= _WELL_CONDITIONED)
        inverse = np.divide(1.0, values, out=np.zeros_like(values), where=values > 1e-15 * values[0])
        self._guess = (U * inverse) @ Vt
        self._shift = np.zeros(k)
        K = self._guess.T @ self._guess
        if self._lift and self._trusted:
            direction = K @ self._scale
            weight = self._scale @ direction
            K -= np.outer(direction, direction) / weight
            self._shift = direction * (self.total / weight)
            self._guess -= np.outer(self._guess @ self._scale, direction / weight)
        self._matrices = np.stack([self._R.T @ self._R, K])

    def solve(self, Y: ArrayLike, X0: ArrayLike | None = None) -> _Array:
        """The solutions for all rows of ``Y``, one per row; ``X0`` shows which variables are likely positive."""
        Y = np.asarray(Y, dtype=np.float64)
        if self._lift:
            # For rows very far away only the direction matters.
            near = np.maximum(self._unit, np.abs(Y).max(axis=1, keepdims=True, initial=0.0) / _FAR)
            Y = np.hstack([Y / near, np.full((len(near), 1), self._lift)])
        unit = 1.0 if self._lift else unit_of(Y)  # squares must not underflow
        Y = np.ascontiguousarray(divided(Y, unit))
        limit = self.tol * np.sqrt(np.einsum("ij,ij->i", Y, Y))[:, None]
        if X0 is None and self._R.shape[1] > _MANY:
            X0 = growing_sets(self._matrices[0], Y @ self._R, self._scale, self.total, limit[:, 0])
        X, settled = self._pivot(Y, limit, None if X0 is None else np.asarray(X0) > 0)
        if not settled.all():
            rest = np.flatnonzero(~settled)
            X[rest] = self._active_set(Y[rest], limit[rest], X[rest])
        X *= self._scale
        X *= unit
        if self._lift:
            sums = X.sum(axis=1, keepdims=True)
            lost = np.flatnonzero(~(sums > 0.5 * self.total))  # y is so far that the sum is lost in rounding
            if lost.size:
                X[lost] = np.eye(X.shape[1])[self._nearest_anchor(Y[lost])]
                sums[lost] = 1.0
            X *= self.total / sums
        return X

    def _pivot(self, Y: _Array, limit: _Array, free: _Flags | None) -> tuple[_Array, _Flags]:
        """Solutions for unit columns by exchanges from the variables in ``free``, and which of them are reliable.

        The others are start values for the active set.
        """
        m, k = len(Y), self._R.shape[1]
        unbound, B = Y @ self._guess + self._shift, Y @ self._R
        free = unbound > 0 if free is None else free.copy()
        X, settled = np.zeros((m, k)), np.zeros(m, dtype=np.bool_)
        rows, fewest, patience, ones = np.arange(m), np.full(m, k + 1.0), np.full(m, _PATIENCE), np.ones(k)
        for _ in range(5 * k + 10):
            U, sound = self._values(Y, B, unbound, free)
            wrong = (limit < U) ^ free
            count = wrong @ ones
            go = sound & (count > 0)
            if not go.all():
                done = np.flatnonzero(sound & (count == 0))
                X[rows[done]] = np.where(free[done], U[done], 0.0)
                settled[rows[done]] = self._trusted or ~self._doubtful(Y[done], U[done], free[done], limit[done])
                if len(done) == len(rows) or not go.any():
                    break
                rows, limit, wrong, count = rows[go], limit[go], wrong[go], count[go]
                Y, B, unbound, free = Y[go], B[go], unbound[go], free[go]
                fewest, patience = fewest[go], patience[go]
            patience = np.where(count < fewest, _PATIENCE, patience - 1)
            fewest = np.minimum(count, fewest)
            single = np.flatnonzero(patience < 0)  # Murty's rule, which cannot cycle: only the last one
            if single.size:
                last = k - 1 - np.argmax(wrong[single, ::-1], axis=1)
                wrong[single] = np.arange(k) == last[:, None]
            free ^= wrong
        return X, settled

    def _doubtful(self, Y: _Array, U: _Array, free: _Flags, limit: _Array) -> _Flags:
        """For which rows rounding hides the sign of a gradient: near a dependent column the gain may be large.

        If the residual itself is rounding, nothing can be gained.
        """
        residual = Y - np.where(free, U, 0.0) @ self._R.T
        open_ended = np.einsum("ij,ij->i", residual, residual) > limit[:, 0] ** 2
        return open_ended & (~free & (-limit < U)).any(axis=1)

    def _values(self, Y: _Array, B: _Array, unbound: _Array, free: _Flags) -> tuple[_Array, _Flags]:
        """Values of the free variables and gradients of the bound ones; and for which rows these are accurate."""
        k = free.shape[1]
        many = free @ np.ones(k)
        by_bound = self._trusted & (2 * many >= k)
        U, smallest = self._transform(np.where(by_bound[:, None], unbound, B), by_bound, free, self.total)
        sound = by_bound | (smallest >= _DOUBTFUL)
        if self._lift:
            sound &= many > 0
        blurred = np.flatnonzero(sound & (smallest < _REFINE) & ~by_bound)
        if blurred.size:
            X = np.where(free[blurred], U[blurred], 0.0)
            missing = self.total - X @ self._scale
            B = (Y[blurred] - X @ self._R.T) @ self._R
            steps, _ = self._transform(B, by_bound[blurred], free[blurred], missing)
            U[blurred] = X + steps
        return U, sound

    def _transform(self, B: _Array, by_bound: _Flags, free: _Flags, total: Any) -> tuple[_Array, _Array]:
        """The principal pivot transform of B, with Σ e·x = ``total`` if the sum is fixed; and the smallest pivots."""
        m, k = B.shape
        sides = np.empty((m, 2 if self._lift else 1, k))
        sides[:, 0] = B
        sides[:, 1:] = self._scale
        factor, index, smallest = np.empty((k + 2, k)), np.empty(k, dtype=np.intp), np.empty(m)
        principal_pivot(self._matrices, by_bound, free ^ by_bound[:, None], sides, factor, index, smallest)
        if not self._lift:
            return sides[:, 0], smallest
        # The inverse keeps the sum by itself; its rows have no second right-hand side.
        free_scale = np.where(free, self._scale, 0.0)
        excess = np.einsum("ij,ij->i", free_scale, sides[:, 0])
        weight = np.einsum("ij,ij->i", free_scale, sides[:, 1])
        multiplier = np.divide(excess - total, weight, out=np.zeros(m), where=~by_bound & (weight > 0))
        return sides[:, 0] - multiplier[:, None] * sides[:, 1], smallest

    def _active_set(self, Y: _Array, limit: _Array, X: _Array) -> _Array:
        """Solutions for unit columns, from those in X or from zero."""
        if len(Y) <= self.few:
            try:
                return np.array([self._nnls(y) for y in Y])
            except RuntimeError:  # it did not converge
                pass
        active_set_rows(self._R, Y, self._scale, self.total, limit[:, 0], X)
        return X

    def _nnls(self, y: _Array) -> _Array:
        """Solve one row by SciPy.

        With a fixed sum, x are the weights of the point nearest to y in the hull of the columns p_j. For D = P − y·1ᵀ
        and any t > 0, the minimiser λ ≥ 0 of ‖D·λ‖² + t²·(1 − Σλ)² is proportional to these weights. With t the
        distance to the nearest column, and unit columns, rounding is relative to that distance.
        """
        patience = 30 * len(self._scale)
        if not self._lift:
            return nnls(self._R, y, maxiter=patience)[0]
        multiple = self.total / self._scale
        D = self._R * multiple - y[:, None]
        D[-1] = 0.0  # the lift is the same in all columns and in y
        distances = np.linalg.norm(D, axis=0)
        D[-1] = distances.min()
        if not D[-1, 0]:
            return np.where(np.arange(len(multiple)) == distances.argmin(), multiple, 0.0)
        lengths = np.hypot(distances, D[-1])
        weights = nnls(D / lengths, np.eye(len(y))[-1], maxiter=patience)[0] / lengths
        return weights / weights.sum() * multiple

    def _nearest_anchor(self, Y: _Array) -> NDArray[np.intp]:
        """For every row the anchor whose multiple with the right sum is nearest."""
        points = (self._R * (self.total / self._scale)).T
        return np.array([((points - y) ** 2).sum(axis=1).argmin() for y in Y])


@jit
def principal_pivot(matrices: Any, which: Any, sets: Any, U: Any, L: Any, index: Any, smallest: Any) -> None:
    """For every row i with set S and matrix M, and right-hand sides U[i]: U_S ← z, U_T ← U_T − M_TS·z, M_SS·z = U_S.

    T are the indices not in S. The second matrix uses the first right-hand side only. L and ``index`` are work space;
    ``smallest`` receives the smallest squared pivot of the Cholesky factor of M_SS. If that is not positive, z is not
    valid.
    """
    m, sides, k = U.shape
    for i in range(m):
        M = matrices[int(which[i])]
        q = 1 if which[i] else sides
        p = 0
        for j in range(k):
            if sets[i, j]:
                index[p] = j
                p += 1
        low = np.inf
        for a in range(p + q):  # the right-hand sides are further rows of the factor; its diagonal is inverted
            for c in range(min(a + 1, p)):
                total = M[index[a], index[c]] if a < p else U[i, a - p, index[c]]
                for d in range(c):
                    total -= L[a, d] * L[c, d]
                if c < a:
                    L[a, c] = total * L[c, c]
                else:
                    low = min(low, total)
                    L[a, a] = 1.0 / np.sqrt(total) if total > 0.0 else 0.0
        for c in range(q):
            z = L[p + c]
            for a in range(p - 1, -1, -1):
                z[a] *= L[a, a]
                for d in range(a):
                    z[d] -= L[a, d] * z[a]
            for a in range(p):
                for j in range(k):
                    U[i, c, j] -= M[index[a], j] * z[a]
            for a in range(p):
                U[i, c, index[a]] = z[a]
        smallest[i] = low
