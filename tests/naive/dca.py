"""Divide-and-conquer anchoring by its definition: one projection at a time, on a dense array."""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls


def line_votes(A, directions):
    votes = np.zeros(len(A))
    for direction in directions.T:
        values = [row @ direction for row in A]
        votes[values.index(max(values))] += 1
        votes[values.index(min(values))] += 1
    return votes


def plane_votes(A, plane, steps=20_000):
    """Votes of many evenly rotated lines in one plane, which approximate the exterior angles."""
    angles = (np.arange(steps) + 0.5) * np.pi / steps
    P = A @ plane
    values = P @ np.stack([np.cos(angles), np.sin(angles)])
    votes = np.bincount(values.argmax(axis=0), minlength=len(A)) + np.bincount(values.argmin(axis=0), minlength=len(A))
    return votes / steps


def choose(points, votes, k):
    chosen = [int(np.argmax(votes))]
    while len(chosen) < k:
        scores = [np.sqrt(votes[i]) * squared_distance(points[i], points[chosen]) for i in range(len(points))]
        best = int(np.argmax(scores))
        if scores[best] < 1e-9:
            break
        chosen.append(best)
    return chosen


def squared_distance(point, others):
    """Squared distance to the hull of others; a heavily weighted equation makes the weights sum to one."""
    heavy = 1e4
    system = np.vstack([others.T, np.full(len(others), heavy)])
    weights, _ = nnls(system, np.append(point, heavy))
    return np.sum((point - weights @ others) ** 2)
