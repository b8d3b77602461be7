"""The rows that may be vertices: those farthest along many directions of the coordinates, found in one look at them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["extreme_rows"]

_DIRECTIONS = 256
_DEPTH = 16  # rows kept at each end of each direction
_BLOCK = 1 << 14
_RANKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)


def extreme_rows(
    values: NDArray[np.float32], noise: NDArray[np.float64], *, directions: int = _DIRECTIONS, depth: int = _DEPTH
) -> NDArray[np.intp]:
    """About ``directions``·``depth`` rows at most, sorted, whatever the number of rows.

    Directions lie in the first 1, 2, 3, 4, 6, … coordinates, half of them whitened. A row is taken for as far as it
    reaches less its noise, so noisy rows are not preferred. Costs m·d·``directions`` products.
    """
    m, d = values.shape
    rng = np.random.default_rng(0)
    ranks = [r for r in _RANKS if r < d] + [d]
    spread = np.maximum(values[:: max(1, m // 4096)].astype(np.float64).std(axis=0), 1e-300)
    U = np.zeros((d, directions))
    for j in range(directions):
        r = ranks[j % len(ranks)]
        u = rng.standard_normal(r) / (spread[:r] if j // len(ranks) % 2 else spread[0])
        U[:r, j] = u / np.linalg.norm(u)
    towards = np.hstack([U, -U]).T.astype(np.float32)
    best = np.full((len(towards), depth), -np.inf, dtype=np.float32)
    rows = np.full((len(towards), depth), -1, dtype=np.intp)
    for start in range(0, m, _BLOCK):
        reach = towards @ values[start : start + _BLOCK].T - noise[start : start + _BLOCK].astype(np.float32)
        farther = reach > best.min(axis=1, keepdims=True)
        for j in np.flatnonzero(farther.any(axis=1)).tolist():
            new = np.flatnonzero(farther[j])
            if len(new) > depth:
                new = new[np.argpartition(-reach[j, new], depth - 1)[:depth]]
            both = np.concatenate([best[j], reach[j, new]])
            keep = np.argsort(-both, kind="stable")[:depth]
            best[j] = both[keep]
            rows[j] = np.concatenate([rows[j], new + start])[keep]
    found = np.unique(rows)
    return found[found >= 0]
