"""Preconditioning for SPA: a linear map T that makes the anchors well-conditioned, for robustness to noise.

Every method returns T (n×k); SPA then runs on the m×k points A·T. Three choices of T:

* ``"spa"``: T = A_R⁺, the pseudo-inverse of the anchors a first SPA found (Gillis and Ma, SIAM J. Imaging Sci. 2015).
* ``"svd"``: T = V_k·Σ_k⁻¹, whitening (same paper).
* ``"mve"``: T = V_k·P^(1/2), where {x : xᵀPx ≤ 1} is the ellipsoid of least volume centred at the origin that contains
  the points A·V_k. For separable data the anchors become orthonormal (Gillis and Vavasis, SIAM J. Optim. 2015).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .._jit import jit
from .._parallel import one_blas_thread
from ..errors import InvalidInputError, RankError
from ..greedy.reader import Reader
from ..greedy.successive import successive_projection
from ..matrix import ArrayMatrix, RowMatrix
from ..matrix.scaled import finite

__all__ = ["minimum_volume_ellipsoid", "preconditioner", "singular_space"]


_OVERSAMPLING = 10
_ITERATIONS = 30
_SMALLEST = 1e-150  # singular values below this have no inverse squares
_FLAT = 1e-6  # singular values below this part of the largest are lost in a matrix of products
_SETTLED = 1e-8  # relative change of the singular values at which subspace iteration stops


@one_blas_thread()  # the order of summation must not depend on the number of threads
def preconditioner(
    method: str,
    data: RowMatrix,
    k: int,
    *,
    anchors: NDArray[np.float64] | None = None,
    outliers: Sequence[int] = (),
    tol: float | None = None,
    allow_fewer: bool = False,
) -> NDArray[np.float64]:
    """The n×k map T of the method; ``"spa"`` needs the ``anchors`` of the first SPA, as points.

    The ellipsoid ignores the rows ``outliers``. With ``allow_fewer``, T has fewer columns if the rank is below k.
    """
    if method == "spa":
        assert anchors is not None
        return np.asarray(np.linalg.pinv(anchors, rcond=1e-15), dtype=np.float64)
    V, sigma = singular_space(data, k)
    if 0 < sigma[0] < _SMALLEST:
        raise InvalidInputError("the squares of A underflow; divide A by its largest entry")
    small = max(1e-13, tol or 0.0)
    rank = int(np.count_nonzero(sigma > small * sigma[0]))
    if rank < k and (rank == 0 or not allow_fewer):
        raise RankError(
            f"the matrix has numerical rank {rank}, below k = {k}; use k ≤ {rank}, or pass allow_fewer=True", rank
        )
    V, sigma = V[:, :rank], sigma[:rank]
    whitening = V / sigma
    if method == "svd":
        return whitening
    # The ellipsoid is affine-invariant; whitened points keep its iteration well-conditioned.
    points = data.dot(whitening)
    if len(outliers):
        points = np.delete(points, outliers, axis=0)
        spread = np.linalg.svd(points, compute_uv=False)
        spanned = int(np.count_nonzero(spread > _FLAT * spread.max(initial=0.0)))
        if spanned < rank:
            raise RankError(
                f"the rows that were not set aside span {spanned} directions, below k = {rank}; use a smaller k, lower "
                "support or raise radius",
                spanned,
            )
    return whitening @ np.linalg.cholesky(minimum_volume_ellipsoid(points))


def singular_space(data: RowMatrix, k: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The leading k right singular vectors (n×k) and singular values, by block subspace iteration.

    Vectors are orthonormalised after each of the two passes of an iteration, so small singular values are not lost as
    they would be in AᵀA. The start is fixed, so the result is deterministic. Memory: m·(k + 10) numbers.
    """
    m, n = data.shape
    width = min(m, n, k + _OVERSAMPLING)
    V, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((n, width)))
    last = np.zeros(k)
    for _ in range(_ITERATIONS):
        with np.errstate(over="ignore", invalid="ignore"):
            U, _ = np.linalg.qr(finite(data.dot(V)))
            V, R = np.linalg.qr(finite(data.transposed_dot(U)))
        _, sigma, W = np.linalg.svd(finite(R.T))  # A ≈ U·Rᵀ·Vᵀ
        if width == min(m, n) or np.all(np.abs(sigma[:k] - last) <= _SETTLED * sigma[:k] + 1e-15 * sigma[0]):
            break
        last = sigma[:k]
    return V @ W[:k].T, sigma[:k]


def minimum_volume_ellipsoid(X: NDArray[np.float64], tol: float = 1e-8) -> NDArray[np.float64]:
    """P (d×d) of the least-volume ellipsoid {x : xᵀPx ≤ 1} centred at the origin that contains the rows of ``X``.

    Solves the dual problem, D-optimal design: maximise log det Σ λ_i·x_i·x_iᵀ over the simplex. At the optimum
    ω_i = x_iᵀ(Σ λ_j·x_j·x_jᵀ)⁻¹x_i is d where λ_i > 0 and at most d elsewhere, and P = (Σ λ·x·xᵀ)⁻¹ / d. Coordinate
    ascent with away steps (Khachiyan 1996; Todd and Yıldırım 2007) on an active set, to which the rows that violate
    ω_i ≤ d·(1 + tol) most are added until there are none. The rows must span d dimensions.
    """
    d = X.shape[1]
    if d == 1:  # a step of the iteration would divide by zero: all weight goes to the largest row
        return 1.0 / np.max(X**2, axis=0, keepdims=True)
    active = _spanning_rows(X)
    weights = np.full(active.size, 1.0 / active.size)
    while True:
        weights = _design(X[active], weights, tol / 2)
        inverse = np.linalg.inv((X[active].T * weights) @ X[active])
        inverse = (inverse + inverse.T) / 2
        omega = np.einsum("ij,ij->i", X @ inverse, X)
        offenders = np.flatnonzero(omega > d * (1 + tol))
        offenders = np.setdiff1d(offenders[np.argsort(-omega[offenders], kind="stable")[: 2 * d]], active)
        if offenders.size == 0:
            return inverse / max(d, float(omega.max()))
        active = np.concatenate([active[weights > 0], offenders])
        weights = np.concatenate([weights[weights > 0], np.zeros(offenders.size)])


def _spanning_rows(X: NDArray[np.float64]) -> NDArray[np.intp]:
    """d rows that span the space, selected by SPA."""
    return np.array(successive_projection(Reader(ArrayMatrix(X)), X.shape[1]).indices, dtype=np.intp)


@jit
def _design(X: NDArray[np.float64], weights: NDArray[np.float64], tol: float) -> NDArray[np.float64]:
    """Weights of the D-optimal design on the rows of X, to relative accuracy tol in ω."""
    m, d = X.shape
    weights = weights.copy()
    omega = np.empty(m)
    inverse = np.empty((d, d))
    for step in range(200_000):
        if step % 500 == 0:  # recompute: rank-one updates accumulate rounding errors
            M = np.zeros((d, d))
            for i in range(m):
                for a in range(d):
                    for b in range(d):
                        M[a, b] += weights[i] * X[i, a] * X[i, b]
            inverse[:] = np.linalg.inv(M)
            for i in range(m):
                omega[i] = 0.0
                for a in range(d):
                    for b in range(d):
                        omega[i] += X[i, a] * inverse[a, b] * X[i, b]
        high = 0
        low = -1
        for i in range(m):
            if omega[i] > omega[high]:
                high = i
            if weights[i] > 0 and (low < 0 or omega[i] < omega[low]):
                low = i
        excess = omega[high] / d - 1
        deficit = 1 - omega[low] / d
        if max(excess, deficit) <= tol:
            break
        i = high if excess >= deficit else low
        beta = (omega[i] / d - 1) / (omega[i] - 1) if omega[i] != 1 else -np.inf
        drop = i == low and excess < deficit and (omega[i] <= 1 or beta <= -weights[i] / (1 - weights[i]))
        if drop:
            beta = -weights[i] / (1 - weights[i])
        scale = beta / (1 - beta + beta * omega[i])
        y = np.zeros(d)
        for a in range(d):
            for b in range(d):
                y[a] += inverse[a, b] * X[i, b]
        for j in range(m):
            t = 0.0
            for a in range(d):
                t += X[j, a] * y[a]
            omega[j] = (omega[j] - scale * t * t) / (1 - beta)
            weights[j] *= 1 - beta
        for a in range(d):
            for b in range(d):
                inverse[a, b] = (inverse[a, b] - scale * y[a] * y[b]) / (1 - beta)
        weights[i] = 0.0 if drop else weights[i] + beta
    return weights
