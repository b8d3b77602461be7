"""The rest of the family, obvious and slow: whole matrices, textbook formulas."""

from __future__ import annotations

import numpy as np


def truncated_pinv(A, k):
    """A_k⁺ by the full SVD."""
    U, sigma, Vt = np.linalg.svd(A, full_matrices=False)
    return Vt[:k].T @ np.diag(1.0 / sigma[:k]) @ U[:, :k].T


def truncated(A, k):
    """A_k by the full SVD."""
    U, sigma, Vt = np.linalg.svd(A, full_matrices=False)
    return (U[:, :k] * sigma[:k]) @ Vt[:k]


def sampled_regression(A, b, V, rows, draws):
    """The least-squares coefficients of b in A·V from some rows, each weighted by 1/P(among the draws)."""
    total = (A**2).sum()
    k = V.shape[1]
    G, c = np.zeros((k, k)), np.zeros(k)
    for i in rows:
        inside = 1 - (1 - (A[i] ** 2).sum() / total) ** draws
        a = A[i] @ V
        G += np.outer(a, a) / inside
        c += a * b[i] / inside
    return np.linalg.solve(G, c)


def cur_core(A, rows, columns, k, core):
    """The core of C·U·R, entry by entry as the formulas say."""
    C, R = A[:, columns], A[rows]
    if core == "sampled":
        Dr = np.diag([1 / np.linalg.norm(A[i]) for i in rows])
        Dc = np.diag([1 / np.linalg.norm(A[:, j]) for j in columns])
        return Dc @ truncated_pinv(Dr @ A[np.ix_(rows, columns)] @ Dc, k) @ Dr
    Qc, Qr = np.linalg.qr(C)[0], np.linalg.qr(R.T)[0]
    return np.linalg.pinv(C) @ Qc @ truncated(Qc.T @ A @ Qr, k) @ Qr.T @ np.linalg.pinv(R)


def rotation_angle(v, depth, node):
    """The Y rotation that splits one node of the binary tree over v between its two halves."""
    width = len(v) >> depth
    part = v[node * width : (node + 1) * width]
    left, right = part[: width // 2], part[width // 2 :]
    if width == 2:
        return 2 * np.arctan2(right[0], left[0])
    return 2 * np.arctan2(np.linalg.norm(right), np.linalg.norm(left))


def multiplexed_state(levels):
    """The amplitudes after choosing, level by level, left with cos(θ/2) and right with sin(θ/2)."""
    amplitudes = [1.0]
    for level in levels:
        amplitudes = [
            part * amplitude
            for amplitude, angle in zip(amplitudes, level)
            for part in (np.cos(angle / 2), np.sin(angle / 2))
        ]
    return np.array(amplitudes)


def best_unseen(A, V, user, n, exclude_seen=True):
    """The n items with the largest (A·V·Vᵀ)_(user, j), by forming the matrix and sorting."""
    row = (A @ V @ V.T)[user]
    items = [j for j in range(A.shape[1]) if not (exclude_seen and A[user, j] != 0)]
    return sorted(items, key=lambda j: (-row[j], j))[:n]
