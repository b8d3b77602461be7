"""Select rows that represent the groups of points whose means are vertices (:mod:`fastanchors.greedy.selection`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["cores", "nearest_to_means"]

_TIP = 0.9  # quantile of the weights in a group that represents its pure points


def nearest_to_means(points: NDArray[np.float64], groups: list[NDArray[np.intp]]) -> NDArray[np.intp]:
    """For each group the member nearest to its mean that was not assigned to an earlier group."""
    taken: list[int] = []
    for group in groups:
        distances = np.linalg.norm(points[group] - points[group].mean(axis=0), axis=1)
        distances[np.isin(group, taken)] = np.inf
        taken.append(int(group[np.argmin(distances)]))
    return np.array(taken, dtype=np.intp)


def cores(points: NDArray[np.float64], groups: list[NDArray[np.intp]]) -> list[NDArray[np.intp]]:
    """Remove points that do not belong to the vertex of their group, if a vertex has fewer points than its group.

    With the means as a basis, each point of a group has a weight for the mean of its group. Similar points have weights
    near 1. A group with unrelated points has two kinds: its own, far above 1, and the others near 0. Points with less
    than half the weight of the group's purest tenth are removed. This is done twice, as the first means are diluted.
    """
    kept = groups
    for _ in range(2):
        weights = points @ np.linalg.pinv(np.array([points[group].mean(axis=0) for group in kept]))
        tips = [np.quantile(weights[group, i], _TIP, method="lower") for i, group in enumerate(groups)]
        kept = [group[weights[group, i] >= tips[i] / 2] for i, group in enumerate(groups)]
    return kept
