"""Theorem 1, Lemma 7 and Algorithm 2 on dense arrays."""

from __future__ import annotations

import numpy as np


def squared_distribution(v: np.ndarray) -> np.ndarray:
    """D_v."""
    return v**2 / (v**2).sum()


def total_variation(p: np.ndarray, q: np.ndarray) -> float:
    return 0.5 * np.abs(p - q).sum()


def fkv_vectors(A: np.ndarray, rows: np.ndarray, columns: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """V̂ (n × k) and σ from the rows and columns drawn, by the definition."""
    n = A.shape[1]
    total = (A**2).sum()
    S = np.zeros((len(rows), n))
    for t, i in enumerate(rows):
        P = (A[i] ** 2).sum() / total
        S[t] = A[i] / np.sqrt(len(rows) * P)
    C = np.zeros((len(rows), len(columns)))
    for u, j in enumerate(columns):
        P = (S[:, j] ** 2).sum() / (S**2).sum()
        C[:, u] = S[:, j] / np.sqrt(len(columns) * P)
    U, sigma, _ = np.linalg.svd(C)
    return np.stack([S.T @ U[:, j] / sigma[j] for j in range(k)], axis=1), sigma[:k]


def alpha(V: np.ndarray) -> float:
    """The least α of the definition of α-orthonormal, pair by pair."""
    k = V.shape[1]
    worst = 0.0
    for s in range(k):
        for t in range(k):
            inner = V[:, s] @ V[:, t]
            worst = max(worst, abs(inner - 1) if s == t else abs(inner))
    return k * worst


def algorithm_2(U: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> tuple[int, int]:
    """One draw from D_{Uy} by Algorithm 2 with the missing squares added, and the number of trials."""
    k = U.shape[1]
    trials = 0
    while True:
        trials += 1
        j = rng.choice(k, p=squared_distribution(np.linalg.norm(U, axis=0) * y))
        s = rng.choice(len(U), p=squared_distribution(U[:, j]))
        ratio = (U[s] @ y) ** 2 / (k * sum((y[i] * U[s, i]) ** 2 for i in range(k)))
        if rng.random() < ratio:
            return int(s), trials


def successive_projections(A: np.ndarray, k: int) -> list[int]:
    """SPA with the residual computed by least squares at every step."""
    chosen: list[int] = []
    for _ in range(k):
        if chosen:
            basis = A[chosen].T
            R = A - (basis @ np.linalg.lstsq(basis, A.T, rcond=None)[0]).T
        else:
            R = A
        chosen.append(int(np.argmax((R**2).sum(axis=1))))
    return chosen
