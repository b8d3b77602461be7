"""Divide-and-conquer anchoring by its definition: one projection at a time, on a dense array."""

from __future__ import annotations

import numpy as np


def line_votes(A, directions):
    votes = np.zeros(len(A))
    for direction in directions.T:
        values = [row @ direction for row in A]
        votes[values.index(max(values))] += 1
        votes[values.index(min(values))] += 1
    return votes


def plane_votes(A, plane, steps=20_000):
    """Ends of many lines through one plane, evenly turned: the integral that an exterior angle is."""
    angles = (np.arange(steps) + 0.5) * np.pi / steps
    P = A @ plane
    values = P @ np.stack([np.cos(angles), np.sin(angles)])
    votes = np.bincount(values.argmax(axis=0), minlength=len(A)) + np.bincount(values.argmin(axis=0), minlength=len(A))
    return votes / steps


def choose(points, votes, k):
    chosen = []
    while len(chosen) < k:
        best, best_score = None, 0.0
        for i in range(len(points)):
            if i in chosen:
                continue
            nearest = min((np.sum((points[i] - points[j]) ** 2) for j in chosen), default=1.0)
            if votes[i] * nearest > best_score:
                best, best_score = i, votes[i] * nearest
        if best is None:
            break
        chosen.append(best)
    return chosen
