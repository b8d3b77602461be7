"""Kernels of a stack of blocks: find the block of each item of a batch, and sort the items by block."""

from __future__ import annotations

import numpy as np

from .._jit import jit
from .segment_trees import Array, Int

__all__ = ["choose_blocks", "count_blocks", "holding_blocks", "place_blocks", "split_uniforms"]


@jit
def holding_blocks(starts: Array, blocks: Int, values: Array, which: Array) -> None:
    """The last block b with ``starts[b]`` ≤ value, for each value, by a branch-free binary search."""
    for k in range(values.size):
        value = values[k]
        low = np.int64(0)
        size = np.int64(blocks)
        while size > 1:
            half = size >> 1
            low += half * np.int64(starts[low + half] <= value)
            size -= half
        which[k] = low


@jit
def split_uniforms(below: Array, total: float, last: Int, r: Array, which: Array, u: Array) -> None:
    """A block for each uniform, where block b begins at ``below[b]`` of ``total``, and the remainder inside the block.

    A block of weight zero is never chosen: the next one begins at the same place. Blocks after ``last`` are ignored.
    """
    for k in range(r.size):
        u[k] = r[k] * total
    holding_blocks(below, last + 1, u, which)
    for k in range(r.size):
        u[k] -= below[which[k]]


@jit
def choose_blocks(sums: Array, line: Array, r: Array, which: Array) -> None:
    """A block for each uniform by the weights whose running sums are in a line of ``sums``; never one of weight zero.

    If rounding leads beyond the last sum, the last block of non-zero weight is chosen.
    """
    blocks = sums.shape[1]
    for k in range(line.size):
        at = line[k]
        total = sums[at, blocks - 1]
        value = r[k] * total
        low = np.int64(0)  # how many sums are at most the value
        size = np.int64(blocks)
        while size > 0:
            half = (size + 1) >> 1
            low += half * np.int64(sums[at, low + half - 1] <= value)
            size -= half
        low = min(low, blocks - 1)
        while low > 0 and sums[at, low - 1] == total:
            low -= 1
        which[k] = low


@jit
def count_blocks(which: Array, counts: Array) -> None:
    for k in range(which.size):
        counts[which[k]] += 1


@jit
def place_blocks(which: Array, first: Int, put: Array, order: Array) -> None:
    """Write the number of each item (from ``first`` on) at ``put`` of its block, the next free position."""
    for k in range(which.size):
        order[put[which[k]]] = first + k
        put[which[k]] += 1
