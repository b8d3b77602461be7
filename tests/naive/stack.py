"""Batches over several blocks, one item at a time."""

from __future__ import annotations

import numpy as np


def holding(starts, values):
    """The last block that begins at or before each value."""
    return [max(b for b in range(len(starts)) if starts[b] <= value) for value in values]


def choose(weights, r):
    """The first block of non-zero weight whose running sum exceeds ``r`` times the total."""
    sums = np.cumsum(weights)
    for b, weight in enumerate(weights):
        if weight > 0 and sums[b] > r * sums[-1]:
            return b
    return int(np.flatnonzero(weights)[-1])


def sorted_places(which, blocks):
    """Positions sorted by block, and where each block begins among them."""
    places = [[k for k, w in enumerate(which) if w == b] for b in range(blocks)]
    bounds = [0]
    for some in places:
        bounds.append(bounds[-1] + len(some))
    return [k for some in places for k in some], bounds
