"""Kernel of a dense block: build the column trees row by row, in the memory order of the array."""

from __future__ import annotations

import numpy as np

from .._jit import jit
from .segment_trees import FAN_BITS, LEAF, LEAF_BITS, Array, Int

__all__ = ["build_column_leaves"]


@jit
def build_column_leaves(
    data: Array, scale: Array, m: Int, n: Int, nodes: Array, column_sums: Array, low: Int, high: Int
) -> None:
    """Leaf blocks of the columns ``low`` … ``high`` − 1, in one pass over the rows; 32 rows make a leaf block."""
    sums = np.empty(high - low)
    for start in range(0, m, LEAF):
        sums[:] = 0.0
        for i in range(start, min(start + LEAF, m)):
            factor = scale[i] if scale.size > 0 else 1.0
            for j in range(low, high):
                x = data[i * n + j] * factor
                sums[j - low] += x * x
        for j in range(low, high):
            if m > LEAF:
                nodes[(j * m >> FAN_BITS) + (start >> LEAF_BITS)] = sums[j - low]
            else:
                column_sums[j] = sums[j - low]
