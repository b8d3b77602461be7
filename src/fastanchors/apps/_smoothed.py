"""Select rows that represent the groups of points whose means are vertices (:mod:`fastanchors.greedy.selection`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["nearest_to_means"]


def nearest_to_means(points: NDArray[np.float64], groups: list[NDArray[np.intp]]) -> NDArray[np.intp]:
    """For each group the member nearest to its mean that was not assigned to an earlier group."""
    taken: list[int] = []
    for group in groups:
        distances = np.linalg.norm(points[group] - points[group].mean(axis=0), axis=1)
        distances[np.isin(group, taken)] = np.inf
        taken.append(int(group[np.argmin(distances)]))
    return np.array(taken, dtype=np.intp)
