"""The sample model of a vector; every sum is recomputed exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


class NaiveVector:
    def __init__(self, values: Sequence[float]) -> None:
        self.entries = [float(x) for x in values]

    def set(self, index: int, value: float) -> None:
        self.entries[index] = float(value)

    @property
    def norm(self) -> float:
        return math.sqrt(math.fsum(x * x for x in self.entries))

    def probabilities(self) -> np.ndarray:
        total = math.fsum(x * x for x in self.entries)
        return np.array([x * x / total for x in self.entries])

    def draw(self, u: float) -> int:
        """The first entry whose cumulative sum of squares exceeds u·‖x‖²."""
        target = u * math.fsum(x * x for x in self.entries)
        for i in range(len(self.entries)):
            if math.fsum(x * x for x in self.entries[: i + 1]) > target:
                return i
        return max(i for i, x in enumerate(self.entries) if x != 0)


def naive_tree(weights: Sequence[float]) -> list[list[float]]:
    """All levels of the 16-ary sum tree, from the weights to the total, sums of four first."""
    levels = [list(map(float, weights))]
    while len(levels) < 2 or len(levels[-1]) > 1:
        below = levels[-1]
        level = []
        for start in range(0, len(below), 16):
            group = below[start : start + 16] + [0.0] * (start + 16 - min(start + 16, len(below)))
            quads = [((group[q] + group[q + 1]) + group[q + 2]) + group[q + 3] for q in (0, 4, 8, 12)]
            level.append(((quads[0] + quads[1]) + quads[2]) + quads[3])
        levels.append(level)
    return levels
