"""The solvers as their papers state them: dense, with the full residual matrix, and every sum recomputed."""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls


def choose(squared_residuals: np.ndarray, squared_norms: np.ndarray) -> int:
    tied = [i for i, r in enumerate(squared_residuals) if r >= (1 - 1e-6) * max(squared_residuals)]
    longest = max(squared_norms[i] for i in tied)
    return min(i for i in tied if squared_norms[i] >= (1 - 1e-6) * longest)


def spa(A: np.ndarray, k: int) -> list[int]:
    R = A.astype(float)
    norms = (R**2).sum(axis=1)
    chosen: list[int] = []
    for _ in range(k):
        i = choose((R**2).sum(axis=1), norms)
        chosen.append(i)
        Q, _ = np.linalg.qr(A[chosen].astype(float).T)
        for _ in range(3):
            R = R - (R @ Q) @ Q.T
    return chosen


def preconditioned_spa(A: np.ndarray, k: int) -> list[int]:
    return spa(A @ np.linalg.pinv(A[spa(A, k)]), k)


def minimum_volume_ellipsoid(X: np.ndarray, steps: int = 5000) -> tuple[np.ndarray, np.ndarray]:
    """(P, weights) by multiplicative updates of the D-optimal design: λ_i ← λ_i·ω_i/d (Titterington 1976)."""
    m, d = X.shape
    weights = np.full(m, 1.0 / m)
    for _ in range(steps):
        inverse = np.linalg.inv((X.T * weights) @ X)
        omega = np.einsum("ij,jk,ik->i", X, inverse, X)
        weights = weights * omega / d
    return inverse / omega.max(), weights


def project_on_hull(anchors: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Coefficients h ≥ 0, Σh ≤ 1 of the nearest point, by trying every support (exponential time)."""
    r = len(anchors)
    points = np.vstack([anchors, np.zeros(anchors.shape[1])])
    best, answer = np.inf, np.zeros(r + 1)
    for mask in range(1, 2 ** (r + 1)):
        S = [j for j in range(r + 1) if mask >> j & 1]
        base, D = points[S[0]], points[S[1:]] - points[S[0]]
        t = np.linalg.lstsq(D.T, a - base, rcond=None)[0] if len(S) > 1 else np.zeros(0)
        h = np.concatenate([[1 - t.sum()], t])
        if h.min() < -1e-12:
            continue
        error = np.linalg.norm(a - h @ points[S])
        if error < best - 1e-13:
            best = error
            answer = np.zeros(r + 1)
            answer[S] = h
    return answer[:r]


def snpa(A: np.ndarray, k: int) -> list[int]:
    norms = (A**2).sum(axis=1)
    chosen: list[int] = []
    R = A.astype(float)
    for _ in range(k):
        chosen.append(choose((R**2).sum(axis=1), norms))
        W = A[chosen]
        R = np.array([a - project_on_hull(W, a) @ W for a in A])
    return chosen


def xray(A: np.ndarray, k: int, selection: str = "max") -> list[int]:
    chosen: list[int] = []
    R = A.astype(float)
    for _ in range(k):
        pull = np.maximum(R @ A.T, 0)
        if selection == "greedy":
            scores = (pull**2).sum(axis=0) / (A**2).sum(axis=1)
        else:
            size = (R**2).sum(axis=1) if selection == "max" else (pull**2).sum(axis=1)
            scores = A @ R[np.argmax(size)] / A.sum(axis=1)
        scores[chosen] = -np.inf
        chosen.append(int(np.argmax(scores)))
        W = A[chosen]
        R = np.array([a - nnls(W.T, a)[0] @ W for a in A])
    return chosen


def separable(rng: np.random.Generator, m: int, n: int, k: int, *, noise: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """H·W + noise, non-negative, with the anchors at random rows; returns the matrix and the anchors."""
    W = rng.random((k, n)) + 0.1
    H = np.vstack([np.eye(k), rng.dirichlet(np.full(k, 0.7), m - k)])
    order = rng.permutation(m)
    A = (H @ W)[order]
    A += noise * rng.random(A.shape)
    return A, np.argsort(order)[:k]
