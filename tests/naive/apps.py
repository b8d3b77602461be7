"""Naive implementations of the applications: dense co-occurrence, and smoothed SPA by trying every group."""

from __future__ import annotations

from itertools import combinations

import numpy as np


def cooccurrence(counts):
    """Q by pairs of tokens, one document after the other; rows scaled to sum one."""
    Q = np.zeros((counts.shape[1], counts.shape[1]))
    for document in np.asarray(counts):
        tokens = np.repeat(np.arange(document.size), document)
        if tokens.size < 2:
            continue
        for a in range(tokens.size):
            for b in range(tokens.size):
                if a != b:
                    Q[tokens[a], tokens[b]] += 1 / (tokens.size - 1)
    return Q / Q.sum(axis=1, keepdims=True)


def smoothed_projection(points, k, count):
    """k groups of ``count`` points; each has the mean farthest from the span of the earlier means, among all groups."""
    residuals = points.copy()
    groups = []
    for _ in range(k):
        best = max(
            combinations(range(len(points)), count),
            key=lambda group: np.linalg.norm(residuals[list(group)].mean(axis=0)),
        )
        direction = residuals[list(best)].mean(axis=0)
        direction /= np.linalg.norm(direction)
        residuals = residuals - np.outer(residuals @ direction, direction)
        groups.append(list(best))
    return groups


def divergence(q, p):
    """KL(q ‖ p)."""
    at = q > 0
    return float(np.sum(q[at] * np.log(q[at] / p[at])))


def posterior(counts, topics, share, mixture):
    """Log-likelihood of a document's words, plus the prior: one token distributed like ``share``."""
    at = counts > 0
    return float(np.sum(counts[at] * np.log((mixture @ topics)[at])) + np.sum(share * np.log(mixture)))


def scaled_space(counts, k, regularization):
    """Leading eigenvalues of the scaled co-occurrence, and the rows Q_w/s_w in its leading eigenvectors."""
    paired = np.asarray(counts)[np.asarray(counts).sum(axis=1) >= 2]
    sums = paired.sum(axis=0)
    rows = cooccurrence(counts)
    scale = 1 / np.sqrt(sums + regularization * sums.mean())
    values, vectors = np.linalg.eigh((rows * sums[:, None]) * scale[:, None] * scale)
    order = np.argsort(-values)[:k]
    return values[order], rows @ (vectors[:, order] * scale[:, None])


def leverages(rows: np.ndarray, d: int) -> np.ndarray:
    """The share that each row has in the leading d singular directions."""
    return np.sum(np.linalg.svd(rows, full_matrices=False)[0][:, :d] ** 2, axis=1)


def cautious_npmi(counts, v, w):
    """NPMI of sharing a document, with j − 1.28·√j for the number j of documents shared."""
    A = np.asarray(counts.toarray()) > 0
    n, joint = len(A), int(np.sum(A[:, v] & A[:, w]))
    sure = joint - 1.28 * np.sqrt(joint)
    if sure <= 0:
        return -1.0
    return np.log((sure / n) / (A[:, v].mean() * A[:, w].mean())) / -np.log(sure / n)
