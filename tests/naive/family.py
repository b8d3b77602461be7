"""Naive CUR, linear systems, QDCA, recommendation, FGNSR and NMF: dense matrices, textbook formulas."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog, minimize


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
    """The core of C·U·R by its formula, entry by entry."""
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


def project_row(x, j, w, price):
    """Row j of Ω nearest to x with ``price`` on its diagonal, by trying every set of entries above their bound."""

    def cut(t):
        y = np.clip(x, 0.0, w / w[j] * t)
        y[j] = t
        return y

    def cost(t):
        return 0.5 * ((cut(t) - x) ** 2).sum() + price * t

    ratio = w / w[j]
    order = [i for i in np.argsort(-x / ratio) if i != j]
    tries = []
    for count in range(len(x)):  # the optimum has the first few of these above their bound
        above = order[:count]
        t = (x[j] - price + (ratio[above] * x[above]).sum()) / (1 + (ratio[above] ** 2).sum())
        tries.append(min(max(t, 0.0), 1.0))
    return cut(min(tries, key=cost))


def project_on_omega(X, w, k):
    """The nearest point of Ω with trace at most k: bisection on the price of the trace."""

    def at(price):
        return np.array([project_row(X[j].copy(), j, w, price) for j in range(len(X))])

    if np.trace(at(0.0)) <= k:
        return at(0.0)
    low, high = 0.0, float(np.abs(X).sum() * len(X))
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if np.trace(at(middle)) > k else (low, middle)
    return at(high)


def self_expression(A, k):
    """min ½‖A − XᵀA‖² over Ω with trace at most k, by a general solver."""
    m, w = len(A), A.sum(axis=1)

    def residual(x):
        return 0.5 * ((A - x.reshape(m, m).T @ A) ** 2).sum()

    def gradient(x):
        return -(A @ (A - x.reshape(m, m).T @ A).T).ravel()

    rows = [np.eye(m).ravel()]
    upper = [float(k)]
    for j in range(m):
        for i in range(m):
            if i != j:
                below = np.zeros((m, m))
                below[j, i], below[j, j] = 1.0, -w[i] / w[j]
                rows.append(below.ravel())
                upper.append(0.0)
    constraint = {
        "type": "ineq",
        "fun": lambda x: np.array(upper) - np.array(rows) @ x,
        "jac": lambda x: -np.array(rows),
    }
    bounds = [(0.0, 1.0 if i == j else None) for j in range(m) for i in range(m)]
    start = np.eye(m).ravel() * k / m
    options = {"maxiter": 1000, "ftol": 1e-12}
    return minimize(residual, start, jac=gradient, bounds=bounds, constraints=[constraint], options=options)


def spread(A):
    """Half the sum of squared distances of the rows from their mean."""
    return 0.5 * sum(((row - A.mean(axis=0)) ** 2).sum() for row in A)


def best_direction(A, X, k):
    """max ⟨∇, X − Z⟩ over Z in Ω with trace at most k: a linear program, by a general solver."""
    m, w = len(A), A.sum(axis=1)
    gradient = -(A @ (A - X.T @ A).T)
    rows, upper = [np.eye(m).ravel()], [float(k)]
    for j in range(m):
        for i in range(m):
            if i != j:
                below = np.zeros((m, m))
                below[j, i], below[j, j] = 1.0, -w[i] / w[j]
                rows.append(below.ravel())
                upper.append(0.0)
    bounds = [(0.0, 1.0 if i == j else None) for j in range(m) for i in range(m)]
    least = linprog(gradient.ravel(), A_ub=np.array(rows), b_ub=upper, bounds=bounds)
    return (gradient * X).sum() - least.fun


def hals(X, W, H, iterations):
    """Hierarchical alternating least squares: each entry of W, then of H, to its best non-negative value in turn.

    Returns the factors and the error ‖X − W·H‖ before and after every iteration.
    """
    W, H = W.copy(), H.copy()
    errors = [np.linalg.norm(X - W @ H)]
    for _ in range(iterations):
        for A, F, G in ((X, W, H), (X.T, H.T, W.T)):  # views: F is changed in place
            for i in range(len(F)):
                for t in range(F.shape[1]):
                    without = A[i] - F[i] @ G + F[i, t] * G[t]
                    F[i, t] = max(without @ G[t] / (G[t] @ G[t]), 0.0)
        errors.append(np.linalg.norm(X - W @ H))
    return W, H, errors
