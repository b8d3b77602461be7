"""The quantities that FAS bounds, computed directly; and matrices that are difficult for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp


def residual_norms(A: Any, anchors: Any) -> np.ndarray:
    """‖a_i − (projection on the first t anchors)‖ for t = 0 … len(anchors), m × (len + 1), in long double."""
    R = dense(A).astype(np.longdouble)
    columns = [np.sqrt((R**2).sum(axis=1))]
    for i in anchors:
        q = R[i] / np.sqrt((R[i] ** 2).sum())
        R = R - np.outer(R @ q, q)
        R = R - np.outer(R @ q, q)
        columns.append(np.sqrt((R**2).sum(axis=1)))
    return np.array(columns).T


def dense(A: Any) -> np.ndarray:
    return A.toarray() if sp.issparse(A) else np.asarray(A)


def separable(rng: np.random.Generator, m: int, n: int, k: int, alpha: float = 1.0) -> np.ndarray:
    """Mixtures of k points; each point occurs once."""
    F = rng.dirichlet(np.full(k, alpha), m)
    F[rng.choice(m, k, replace=False)] = np.eye(k)
    return F @ rng.random((k, n))


def copies(rng, A):
    return A[rng.integers(0, len(A) // 3 + 1, len(A))]


def scaled_copies(rng, A):
    A = copies(rng, A) * rng.integers(1, 6, (len(A), 1))
    return A / A.sum(axis=1, keepdims=True)


def wild_norms(rng, A):
    return A * 10.0 ** rng.uniform(-6, 6, (len(A), 1))


def zero_rows(rng, A):
    return A * (rng.random((len(A), 1)) < 0.7)


def near_ties(rng, A):
    """Ten copies of every row, with norms that differ by 1e-7."""
    return np.vstack([A] + [A * (1 + 1e-7 * rng.standard_normal((len(A), 1))) for _ in range(10)])


def band_ties(rng, A):
    """Copies whose squared norms lie at the edge of the band within which SPA treats rows as tied."""
    edges = 1e-6 * (1 + rng.choice([0, 1e-9, -1e-9, 1e-4, -1e-4, 1e-2, -1e-2], 3))
    return np.vstack([A] + [A * np.sqrt(1 - edge) for edge in edges])


def small_integers(rng, A):
    return np.round(A * 5)


def sparse_counts(rng, A):
    return (rng.random(A.shape) < 0.15) * rng.integers(1, 4, A.shape).astype(float)


def steep(rng, A):
    """Residuals that span twelve orders of magnitude."""
    return A * np.logspace(0, -12, A.shape[1])


def ill_conditioned(rng, A):
    return A * np.logspace(0, -5, A.shape[1])


def last_row_only(rng, A):
    """One row repeated, and other directions only in the last two rows, which any pilot misses."""
    A = np.zeros_like(A)
    A[:, 0] = 1
    A[-1, 1:] = 5 * rng.random(A.shape[1] - 1)
    A[-2, -1] = 1e-3
    return A


def noisy(rng, A):
    return np.maximum(A + 0.05 * rng.standard_normal(A.shape), 0)


AWKWARD = {
    make.__name__: make
    for make in (
        copies,
        scaled_copies,
        wild_norms,
        zero_rows,
        near_ties,
        band_ties,
        small_integers,
        sparse_counts,
        steep,
        ill_conditioned,
        last_row_only,
        noisy,
    )
}
