"""Kernels of a forest: one sum tree over each segment of one flat array.

A *segment* is a row of a compressed sparse layout, a row or a column of a dense array, or a whole vector of weights.
Its tree has leaf blocks of 32 entries and inner nodes of 16 children. The terms (squares, or absolute values) are
computed from the entries on the fly; only the sums over leaf blocks and above are stored, in double precision, and
the sum of the segment itself is kept by the caller. A segment of at most 32 entries has no nodes at all.

Nodes need no pointers. The tree of a segment that begins at position ``p`` of the flat array begins at node
``p >> 4``, level after level from the leaf blocks up: ``length`` > 32 entries need at most ``length >> 4`` nodes, so
trees never overlap, and one sum costs half a byte per entry.

Parents are always recomputed from their children in a fixed order, never corrected by a difference: after any number
of updates each sum equals that of a fresh build, bit for bit.

Arguments shared by the kernels
-------------------------------
data, step : entry ``t`` of a segment is ``data[first + t * step]`` (``step`` > 1: a column of a dense array).
other : the other index of each entry (the row, for a column); empty for dense layouts.
scale : factor of each row, for columns of the l1 view; empty for no factor.
power : 2 for squares, 1 for absolute values.
nodes, p, length : the stored sums, where the segment begins in the flat layout, and how long it is.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .._jit import jit

__all__ = [
    "Array",
    "Forest",
    "Int",
    "Tree",
    "build_segments",
    "draw_many",
    "forest_path",
    "fresh_nodes",
    "fresh_tree",
    "lift",
    "path",
    "tree_path",
]

Array: TypeAlias = NDArray[Any]
Int: TypeAlias = int | np.int64  # kernels compile once for both

LEAF_BITS = 5
LEAF = 1 << LEAF_BITS
FAN_BITS = 4
FAN = 1 << FAN_BITS
LANES = 32  # descents walked together, so that their cache misses overlap


class Forest(NamedTuple):
    """The segments of one side of a compressed sparse matrix, with the sums above them.

    ``l1_nodes`` and ``l1_sums`` are the sums of absolute values (rows of an l1 view), else empty.
    """

    begin: Array
    end: Array
    other: Array
    data: Array
    nodes: Array
    sums: Array
    l1_nodes: Array
    l1_sums: Array


class Tree(NamedTuple):
    """One sum tree over a vector of weights; ``total`` holds their one sum."""

    data: Array
    nodes: Array
    total: Array


def fresh_nodes(entries: int) -> Array:
    """Room for the nodes of all segments of a flat array of ``entries`` entries, all zero."""
    return np.zeros(entries >> FAN_BITS)


@jit
def span_sum(values: Array, start: Int, stop: Int) -> float:
    total = 0.0
    for k in range(start, stop):
        total += values[k]
    return total


@jit
def leaf_sum(data: Array, other: Array, scale: Array, step: Int, power: Int, first: Int, count: Int) -> float:
    """Sum of the terms of ``count`` entries from ``data[first]`` on."""
    total = 0.0
    if scale.size == 0:
        if power == 2:
            for t in range(count):
                x = np.float64(data[first + t * step])
                total += x * x
        else:
            for t in range(count):
                total += abs(np.float64(data[first + t * step]))
    elif other.size > 0:
        for t in range(count):
            x = data[first + t] * scale[np.int64(other[first + t])]
            total += x * x
    else:
        row = first // step
        for t in range(count):
            x = data[first + t * step] * scale[row + t]
            total += x * x
    return total


@jit
def term(data: Array, other: Array, scale: Array, step: Int, power: Int, first: Int, t: Int) -> float:
    """The term of one entry, as :func:`leaf_sum` adds it up."""
    x = np.float64(data[first + t * step])
    if scale.size > 0:
        x *= scale[np.int64(other[first + t])] if other.size > 0 else scale[first // step + t]
    return x * x if power == 2 else abs(x)


@jit
def leaf_pick(data: Array, other: Array, scale: Array, step: Int, power: Int, first: Int, count: Int, u: float) -> Int:
    """The entry of a leaf block that holds ``u``; as :func:`pick`, without a branch that depends on ``u``."""
    total = 0.0
    k = np.int64(0)
    if scale.size == 0:
        if power == 2:
            for t in range(count):
                x = np.float64(data[first + t * step])
                total += x * x
                k += np.int64(total <= u)
        else:
            for t in range(count):
                total += abs(np.float64(data[first + t * step]))
                k += np.int64(total <= u)
    elif other.size > 0:
        for t in range(count):
            x = data[first + t] * scale[np.int64(other[first + t])]
            total += x * x
            k += np.int64(total <= u)
    else:
        row = first // step
        for t in range(count):
            x = data[first + t * step] * scale[row + t]
            total += x * x
            k += np.int64(total <= u)
    if k == count:
        k -= 1
        while k > 0 and term(data, other, scale, step, power, first, k) == 0.0:
            k -= 1
    return k


@jit
def path(
    data: Array,
    other: Array,
    scale: Array,
    step: Int,
    power: Int,
    nodes: Array,
    p: Int,
    length: Int,
    first: Int,
    t: Int,
) -> float:
    """Recompute every sum above entry ``t`` of a segment; return the sum of the segment. O(log length)."""
    if length <= LEAF:
        return leaf_sum(data, other, scale, step, power, first, length)
    k = t >> LEAF_BITS
    start = k << LEAF_BITS
    offset = p >> FAN_BITS
    count = ((length - 1) >> LEAF_BITS) + 1
    nodes[offset + k] = leaf_sum(data, other, scale, step, power, first + start * step, min(LEAF, length - start))
    while count > FAN:
        k >>= FAN_BITS
        start = k << FAN_BITS
        nodes[offset + count + k] = span_sum(nodes, offset + start, offset + min(start + FAN, count))
        offset += count
        count = ((count - 1) >> FAN_BITS) + 1
    return span_sum(nodes, offset, offset + count)


@jit
def lift(nodes: Array, p: Int, length: Int) -> float:
    """Fill the levels above the leaf blocks of a segment of more than 32 entries; return its sum."""
    offset = p >> FAN_BITS
    count = ((length - 1) >> LEAF_BITS) + 1
    while count > FAN:
        above = ((count - 1) >> FAN_BITS) + 1
        for k in range(above):
            start = k << FAN_BITS
            nodes[offset + count + k] = span_sum(nodes, offset + start, offset + min(start + FAN, count))
        offset += count
        count = above
    return span_sum(nodes, offset, offset + count)


@jit
def build_segment(
    data: Array, other: Array, scale: Array, step: Int, power: Int, nodes: Array, p: Int, length: Int, first: Int
) -> float:
    """Fill the whole tree of one segment; return its sum. O(length)."""
    if length <= LEAF:
        return leaf_sum(data, other, scale, step, power, first, length)
    offset = p >> FAN_BITS
    for k in range(((length - 1) >> LEAF_BITS) + 1):
        start = k << LEAF_BITS
        nodes[offset + k] = leaf_sum(data, other, scale, step, power, first + start * step, min(LEAF, length - start))
    return lift(nodes, p, length)


@jit
def build_segments(
    data: Array,
    other: Array,
    scale: Array,
    power: Int,
    nodes: Array,
    begin: Array,
    end: Array,
    sums: Array,
    low: Int,
    high: Int,
) -> None:
    """Trees of the segments ``low`` … ``high`` − 1 of a compressed layout. Segments may go to different threads."""
    for s in range(low, high):
        p = np.int64(begin[s])
        sums[s] = build_segment(data, other, scale, 1, power, nodes, p, end[s] - p, p)


@jit
def pick(values: Array, start: Int, stop: Int, u: float) -> tuple[Int, float]:
    """The child that holds ``u``, and what is left of ``u`` in it; a child of weight zero is never taken.

    It is the first whose prefix sum exceeds ``u``, found by counting: no branch depends on ``u``, so that the
    processor runs ahead into the next lane. Where rounding carries ``u`` beyond the last child, the last child of
    non-zero weight is taken.
    """
    total = 0.0
    below = 0.0
    k = np.int64(start)
    for at in range(start, stop):
        total += values[at]
        k += np.int64(total <= u)
        below = total if total <= u else below
    if k < stop:
        return k, u - below
    k -= 1
    while k > start and values[k] == 0.0:
        k -= 1
    return k, values[k]


@jit
def _touch_leaves(
    data: Array,
    other: Array,
    scale: Array,
    step: Int,
    length: Array,
    first: Array,
    child: Array,
    group: Int,
    lanes: Int,
) -> float:
    """Load what the leaf blocks of all lanes need, with nothing to wait for in between."""
    touched = 0.0
    for w in range(lanes):
        start = child[w] << LEAF_BITS
        at = first[group + w] + start * step
        last = min(LEAF, length[group + w] - start) - 1
        if step == 1:
            for t in (0, last >> 1, last):
                touched += data[at + t]
                if other.size > 0:
                    touched += other[at + t]
        else:
            for t in range(last + 1):
                touched += data[at + t * step]
    if scale.size > 0 and other.size > 0:
        for w in range(lanes):
            start = child[w] << LEAF_BITS
            at = first[group + w] + start
            for t in range(min(LEAF, length[group + w] - start)):
                touched += scale[np.int64(other[at + t])]
    return touched


@jit
def draw_many(
    data: Array,
    other: Array,
    scale: Array,
    step: Int,
    power: Int,
    nodes: Array,
    p: Array,
    length: Array,
    first: Array,
    u: Array,
    out: Array,
) -> float:
    """For each draw d, ``out[d]`` = the entry of its segment that holds ``u[d]``, 0 ≤ u[d] < sum of the segment.

    Walks 32 descents in lockstep, level by level. The first loads of a level are made for all lanes before any lane
    branches on them, which is what lets the memory system serve them together; what they add up to is returned only
    so that they are not optimised away.
    """
    level = np.empty(LANES, np.int64)
    offset = np.empty(LANES, np.int64)
    child = np.empty(LANES, np.int64)
    rest = np.empty(LANES)
    touched = 0.0
    for group in range(0, len(u), LANES):
        lanes = min(LANES, len(u) - group)
        deepest = 0
        for w in range(lanes):
            size = length[group + w]
            depth = 0
            at = p[group + w] >> FAN_BITS
            if size > LEAF:
                depth = 1
                count = ((size - 1) >> LEAF_BITS) + 1
                while count > FAN:
                    at += count
                    count = ((count - 1) >> FAN_BITS) + 1
                    depth += 1
            level[w] = depth
            offset[w] = at
            child[w] = 0
            rest[w] = u[group + w]
            deepest = max(deepest, depth)
        for r in range(deepest, 0, -1):
            for w in range(lanes):
                if level[w] == r:
                    low = offset[w] + (child[w] << FAN_BITS)
                    touched += nodes[low] + nodes[min(low + 8, nodes.size - 1)]
            for w in range(lanes):
                if level[w] == r:
                    last = length[group + w] - 1
                    at = offset[w]
                    low = at + (child[w] << FAN_BITS)
                    high = min(low + FAN, at + (last >> (LEAF_BITS + FAN_BITS * (r - 1))) + 1)
                    k, rest[w] = pick(nodes, low, high, rest[w])
                    child[w] = k - at
                    level[w] = r - 1
                    if r > 1:
                        offset[w] = at - ((last >> (LEAF_BITS + FAN_BITS * (r - 2))) + 1)
        touched += _touch_leaves(data, other, scale, step, length, first, child, group, lanes)
        for w in range(lanes):
            start = child[w] << LEAF_BITS
            count = min(LEAF, length[group + w] - start)
            at = first[group + w] + start * step
            out[group + w] = start + leaf_pick(data, other, scale, step, power, at, count, rest[w])
    return touched


@jit
def forest_path(forest: Forest, scale: Array, s: Int, t: Int) -> None:
    """Recompute every sum above entry ``t`` of segment ``s``."""
    p = np.int64(forest.begin[s])
    size = forest.end[s] - p
    forest.sums[s] = path(forest.data, forest.other, scale, 1, 2, forest.nodes, p, size, p, t)
    if forest.l1_sums.size > 0:
        forest.l1_sums[s] = path(forest.data, forest.other, scale, 1, 1, forest.l1_nodes, p, size, p, t)


@jit
def tree_path(tree: Tree, t: Int, weight: float) -> None:
    """Set weight ``t`` of a tree."""
    tree.data[t] = weight
    none = tree.data[:0]
    tree.total[0] = path(tree.data, none, none, 1, 1, tree.nodes, 0, tree.data.size, 0, t)


@jit
def tree_build(tree: Tree) -> None:
    none = tree.data[:0]
    tree.total[0] = build_segment(tree.data, none, none, 1, 1, tree.nodes, 0, tree.data.size, 0)


def fresh_tree(weights: Array) -> Tree:
    """A tree over ``weights`` (float64, kept by reference)."""
    tree = Tree(weights, fresh_nodes(len(weights)), np.zeros(1))
    tree_build(tree)
    return tree


def draw_from_tree(tree: Tree, u: Array) -> Array:
    """The index that holds each ``u``, 0 ≤ u < total."""
    out = np.empty(len(u), np.int64)
    zero = np.zeros(len(u), np.int64)
    none = tree.data[:0]
    size = np.full(len(u), len(tree.data), np.int64)
    draw_many(tree.data, none, none, 1, 1, tree.nodes, zero, size, zero, u, out)
    return out
