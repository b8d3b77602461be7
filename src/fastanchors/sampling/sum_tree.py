"""Kernels of the flat 16-ary sum tree (Lemma 1 of Chen et al.), on plain arrays.

A tree over n non-negative weights is a float64 array ``nodes`` and a small int64 array ``offsets``: level l is
``nodes[offsets[l]:offsets[l + 1]]``. Level 0 has the weights (``nodes[:n]``), each entry of the next level is the sum
of 16 entries below it, and the last level is the total ``nodes[-1]``. Levels are padded with zeros to whole groups of
16, so kernels need no bounds.

Two rules keep the tree exact:

* A parent is always *recomputed* from its children in one order, never changed by a difference. After any number of
  updates the tree is bit for bit that of a fresh build.
* The stored sum is the last of the prefix sums that a draw compares with. So ``u < sum`` always falls into a child
  whose weight increased the prefix, and a zero weight is never drawn. If the remainder is rounded up to the sum, the
  last child of non-zero weight is chosen.

Level 0 may itself hold sums: :class:`~fastanchors.VectorSampler` stores values in groups of 16, computes their squares
on the fly, and uses level 0 for the sums of the groups.

A build costs n + n/15 additions; a draw or an update costs 16 per level, that is 16·log₁₆ n. Batches work level by
level: the cache misses of many draws overlap, and a parent shared by many updates is recomputed once.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .._jit import jit

__all__ = [
    "FANOUT",
    "LANES",
    "TOUCHED",
    "aligned_zeros",
    "build",
    "choose",
    "descend",
    "draw",
    "level_offsets",
    "make_tree",
    "mark_parents",
    "new_scratch",
    "parent_sum",
    "refresh_parents",
    "set_many",
    "set_one",
]

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

FANOUT = 16
ONE, TWO, THREE, FOUR, EIGHT, TWELVE = map(np.uint64, (1, 2, 3, 4, 8, 12))  # unsigned: no test for negative indices
LANES = 32  # draws that descend together: enough memory requests in flight, few enough for the L1 cache
TOUCHED = 8  # position in the scratch array for prefetched values, so that the compiler keeps the reads


def level_offsets(n: int) -> Ints:
    """Where the levels of a tree over ``n`` ≥ 1 weights start in ``nodes``; the last entry is its length."""
    offsets = [0]
    size = n
    while True:
        groups = -(-size // FANOUT)
        offsets.append(offsets[-1] + groups * FANOUT)
        size = groups
        if size == 1:
            offsets.append(offsets[-1] + 1)
            return np.array(offsets, dtype=np.int64)


def aligned_zeros(size: int) -> Floats:
    """Zeros whose groups of 16 fall on whole cache lines."""
    line = 128
    raw = np.zeros(size * 8 + line, dtype=np.uint8)
    start = -raw.ctypes.data % line
    return raw[start : start + size * 8].view(np.float64)


def make_tree(weights: Floats) -> tuple[Floats, Ints]:
    """``(nodes, offsets)`` of the tree over ``weights`` (finite, non-negative, at least one; copied)."""
    offsets = level_offsets(weights.size)
    nodes = aligned_zeros(int(offsets[-1]))
    nodes[: weights.size] = weights
    build(nodes, offsets)
    return nodes, offsets


@jit
def quad_sum(weights: Floats, at: Any) -> float:
    """The sum of four weights, from left to right."""
    return ((weights[at] + weights[at + ONE]) + weights[at + TWO]) + weights[at + THREE]


@jit
def parent_sum(weights: Floats, start: int) -> float:
    """The sum of the 16 weights from ``start`` on: four sums of four, all from left to right."""
    at = np.uint64(start)
    left = quad_sum(weights, at) + quad_sum(weights, at + FOUR)
    return (left + quad_sum(weights, at + EIGHT)) + quad_sum(weights, at + TWELVE)


@jit
def build(nodes: Floats, offsets: Ints) -> None:
    """Fill every level above level 0."""
    for level in range(1, offsets.size - 1):
        below, here = offsets[level - 1], offsets[level]
        for group in range((here - below) // FANOUT):
            nodes[here + group] = parent_sum(nodes, below + group * FANOUT)


@jit
def set_one(nodes: Floats, offsets: Ints, index: int, weight: float) -> int:
    """Set one weight and recompute its path to the root; returns the number of nodes recomputed."""
    nodes[index] = weight
    for level in range(1, offsets.size - 1):
        index //= FANOUT
        nodes[offsets[level] + index] = parent_sum(nodes, offsets[level - 1] + index * FANOUT)
    return offsets.size - 2


@jit
def set_many(nodes: Floats, offsets: Ints, indices: Ints, weights: Floats) -> int:
    """Set ``nodes[indices] = weights`` (of equal indices the last wins) and recompute each node above them once.

    Returns the number of nodes recomputed.
    """
    for k in range(indices.size):
        nodes[indices[k]] = weights[k]
    return refresh_parents(nodes, offsets, indices.copy(), indices.size)


@jit
def refresh_parents(nodes: Floats, offsets: Ints, work: Ints, count: int) -> int:
    """Recompute every node above the level-0 entries ``work[:count]`` once, and return the number of these nodes.

    ``work`` is overwritten.
    """
    recomputed = 0
    for level in range(1, offsets.size - 1):
        below, here = offsets[level - 1], offsets[level]
        count = mark_parents(nodes, here, work, count)
        for k in range(count):
            nodes[here + work[k]] = parent_sum(nodes, below + work[k] * FANOUT)
        recomputed += count
    return recomputed


@jit
def mark_parents(nodes: Floats, here: int, work: Ints, count: int) -> int:
    """Replace ``work[:count]`` by the distinct parents of its entries, on the level that starts at ``here``.

    A node that is to be recomputed is marked by −1, which no sum can be; this finds duplicates without sorting and
    without extra memory. The caller must recompute every node returned. Returns their number.
    """
    distinct = 0
    for k in range(count):
        parent = work[k] // FANOUT
        if nodes[here + parent] != -1.0:
            nodes[here + parent] = -1.0
            work[distinct] = parent
            distinct += 1
    return distinct


@jit
def new_scratch() -> tuple[Ints, Floats]:
    """Scratch arrays of a batch: the starts of the groups of the lanes, and the array for :func:`choose`."""
    return np.zeros(LANES, np.int64), np.zeros(9)


@jit
def choose(weights: Floats, starts: Ints, u: Floats, index: Ints, scratch: Floats) -> int:
    """One step down for each lane: the child among the 16 weights from ``starts[lane]`` on that contains ``u[lane]``.

    Appends the child to ``index`` (index·16 + child) and leaves in ``u`` the remainder within the child. It first finds
    the right four of the sixteen, then the right one of the four. Comparisons are counted and sums are looked up in
    ``scratch`` (of :func:`new_scratch`), because a branch on random numbers is mispredicted half the time. The loop
    over lanes is inside, because a call per lane would count references to its arrays. Returns the number of groups
    read.
    """
    for lane in range(u.size):
        start = np.uint64(starts[lane])
        x = u[lane]
        first = quad_sum(weights, start)
        second = first + quad_sum(weights, start + FOUR)
        third = second + quad_sum(weights, start + EIGHT)
        total = third + quad_sum(weights, start + TWELVE)
        scratch[1] = first
        scratch[2] = second
        scratch[3] = third
        quad = np.int64(first <= x) + np.int64(second <= x) + np.int64(third <= x)
        rest = x - scratch[np.uint64(quad)]

        at = start + np.uint64(4 * quad)
        one = weights[at]
        two = one + weights[at + ONE]
        three = two + weights[at + TWO]
        four = three + weights[at + THREE]
        scratch[5] = one
        scratch[6] = two
        scratch[7] = three
        child = np.int64(one <= rest) + np.int64(two <= rest) + np.int64(three <= rest)
        if four <= rest or total <= x:  # rounded up to the sum: choose the last non-zero weight
            child = 4 * quad + 3
            while child > 0 and weights[start + np.uint64(child)] == 0.0:
                child -= 1
            x = weights[start + np.uint64(child)]
        else:
            x = rest - scratch[np.uint64(4 + child)]
            child += 4 * quad
        u[lane] = x
        index[lane] = index[lane] * FANOUT + child
    return u.size


@jit
def descend(nodes: Floats, offsets: Ints, u: Floats, index: Ints, starts: Ints, scratch: Floats) -> int:
    """The level-0 ``index`` that each ``u`` in [0, total) falls into; leaves in ``u`` the remainder there.

    Processes at most LANES draws in lockstep: on each level the memory of all lanes is read before any of it is used,
    so that the cache misses overlap. Returns the number of groups read.
    """
    visits = 0
    index[:] = 0
    for level in range(offsets.size - 3, -1, -1):
        touched = 0.0
        for lane in range(u.size):
            start = offsets[level] + index[lane] * FANOUT
            starts[lane] = start
            touched += nodes[start] + nodes[start + FANOUT // 2]
        scratch[TOUCHED] = touched
        visits += choose(nodes, starts, u, index, scratch)
    return visits


@jit
def draw(nodes: Floats, offsets: Ints, u: Floats, index: Ints) -> int:
    """``index[k]`` = i with probability weight i / total, for uniform ``u`` in [0, 1); ``u`` is overwritten.

    The total must not be zero. Returns the number of groups read.
    """
    starts, scratch = new_scratch()
    visits = 0
    for first in range(0, u.size, LANES):
        lanes = slice(first, min(first + LANES, u.size))
        u[lanes] *= nodes[-1]
        visits += descend(nodes, offsets, u[lanes], index[lanes], starts, scratch)
    return visits
