"""Obvious twins of the noise-aware selection."""

from __future__ import annotations

import numpy as np


def naive_spa(points, k):
    """Farthest row from the span of those taken, by a fresh least squares each time."""
    chosen = []
    for _ in range(k):
        if chosen:
            basis = points[chosen].T
            rest = points - (basis @ np.linalg.lstsq(basis, points.T, rcond=None)[0]).T
        else:
            rest = points
        chosen.append(int(np.argmax([row @ row for row in rest])))
    return chosen


def naive_pseudo_points(points, count, precision):
    means = []
    for point in points:
        near = np.argsort([np.linalg.norm(point - other) for other in points], kind="stable")[:count]
        means.append(np.average(points[near], axis=0, weights=precision[near]))
    return np.array(means)


def naive_extremes(values, directions, depth):
    """The rows at both ends of the same directions, by sorting everything."""
    m, d = values.shape
    rng = np.random.default_rng(0)
    ranks = [r for r in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64) if r < d] + [d]
    spread = values[:: max(1, m // 4096)].astype(float).std(axis=0)
    rows = []
    for j in range(directions):
        r = ranks[j % len(ranks)]
        u = np.zeros(d)
        u[:r] = rng.standard_normal(r) / (spread[:r] if j // len(ranks) % 2 else spread[0])
        order = np.argsort(values @ (u / np.linalg.norm(u)), kind="stable")
        rows += [*order[:depth], *order[-depth:]]
    return rows
