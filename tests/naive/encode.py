"""Non-negative least squares one row at a time, and with a fixed sum by trying every support."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from scipy.optimize import nnls


def encode(X: Any, components: Any) -> np.ndarray:
    """A loop over :func:`scipy.optimize.nnls`."""
    return np.array([nnls(np.asarray(components).T, x)[0] for x in np.asarray(X)])


def encode_sum_to(X: Any, components: Any, total: float = 1.0) -> np.ndarray:
    """The best non-negative one of the 2^k − 1 equality-constrained least-squares solutions, row by row."""
    X, C = np.asarray(X), np.asarray(components)
    k = len(C)
    result = np.zeros((len(X), k))
    for i, x in enumerate(X):
        best = np.inf
        for size in range(1, k + 1):
            for support in combinations(range(k), size):
                # c_0 + Σ (c_j − c_0)·h_j: the sum constraint is eliminated.
                first, others = C[support[0]] * total, C[list(support[1:])]
                h = np.linalg.lstsq((others - C[support[0]]).T, x - first, rcond=None)[0]
                w = np.concatenate([[total - h.sum()], h])
                error = np.linalg.norm(w @ C[list(support)] - x)
                if (w >= 0).all() and error < best:
                    best = error
                    result[i] = 0.0
                    result[i, list(support)] = w
    return result
