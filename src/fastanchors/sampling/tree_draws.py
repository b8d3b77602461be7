"""Draws from the trees of a forest: many descents in lockstep, so that their cache misses overlap."""

from __future__ import annotations

import numpy as np

from .._jit import jit
from .segment_trees import FAN, FAN_BITS, LANES, LEAF, LEAF_BITS, Array, Forest, Int, locate, weigh
from .threads import in_chunks

__all__ = ["descend", "draw", "pick_entries"]


@jit
def descend(begin: Array, end: Array, width: Int, nodes: Array, s: Array, u: Array, child: Array) -> float:
    """For each draw, the leaf block ``child`` of segment ``s`` that contains ``u``; leaves in ``u`` the remainder.

    On each level the child is the first whose prefix sum exceeds ``u``. It is found by counting: no branch depends on
    ``u``, so the processor can continue with the next lane. A child of weight zero is never chosen; if rounding leads
    beyond the last child, the last one of non-zero weight is chosen. 0 ≤ u < sum of the segment. The return value keeps
    the compiler from removing the loads.
    """
    level = np.empty(LANES, np.int64)
    offset = np.empty(LANES, np.int64)
    last = np.empty(LANES, np.int64)
    touched = 0.0
    for group in range(0, u.size, LANES):
        lanes = min(LANES, u.size - group)
        deepest = 0
        for w in range(lanes):
            k = group + w
            p = np.int64(begin[s[k]]) if width == 0 else s[k] * width
            length = np.int64(end[s[k]]) - p if width == 0 else width
            depth = 0
            at = p >> FAN_BITS
            if length > LEAF and p >= 0 and (p + length) >> FAN_BITS <= nodes.size:
                depth = 1
                count = ((length - 1) >> LEAF_BITS) + 1
                while count > FAN:
                    at += count
                    count = ((count - 1) >> FAN_BITS) + 1
                    depth += 1
            level[w] = depth
            offset[w] = at
            last[w] = length - 1
            child[k] = 0
            deepest = max(deepest, depth)
        for r in range(deepest, 0, -1):
            for w in range(lanes):
                if level[w] == r:
                    low = offset[w] + (child[group + w] << FAN_BITS)
                    touched += nodes[low] + nodes[min(low + 8, nodes.size - 1)]
            for w in range(lanes):
                if level[w] != r:
                    continue
                k = group + w
                low = offset[w] + (child[k] << FAN_BITS)
                high = min(low + FAN, offset[w] + (last[w] >> (LEAF_BITS + FAN_BITS * (r - 1))) + 1)
                x = u[k]
                total = 0.0
                below = 0.0
                at = low
                for c in range(np.uint64(low), np.uint64(high)):
                    total += nodes[c]
                    at += np.int64(total <= x)
                    below = total if total <= x else below
                if at < high:
                    u[k] = x - below
                else:
                    at -= 1
                    while at > low and nodes[at] == 0.0:
                        at -= 1
                    u[k] = nodes[at]
                child[k] = at - offset[w]
                level[w] = r - 1
                if r > 1:
                    offset[w] -= (last[w] >> (LEAF_BITS + FAN_BITS * (r - 2))) + 1
    return touched


@jit
def pick_entries(
    data: Array,
    other: Array,
    scale: Array,
    begin: Array,
    end: Array,
    width: Int,
    step: Int,
    power: Int,
    s: Array,
    child: Array,
    u: Array,
    out: Array,
) -> float:
    """The entry of each leaf block that contains ``u``: its index in ``other``, or else its position in the segment.

    Weights are squares (``power`` 2) or absolute values (1) of the entries times the ``scale`` of their row. −1 for a
    segment that has no entries or is outside the arrays.
    """
    first, start, count = np.empty(LANES, np.int64), np.empty(LANES, np.int64), np.empty(LANES, np.int64)
    weights = np.empty(LANES * LEAF)
    touched = 0.0
    for group in range(0, u.size, LANES):
        lanes = min(LANES, u.size - group)
        locate(begin, end, width, step, data.size, s, child, group, lanes, first, start, count)
        touched += weigh(data, other, scale, step, power, first, start, count, lanes, weights)
        for w in range(lanes):
            if count[w] == 0:
                out[group + w] = -1
                continue
            x = u[group + w]
            total = 0.0
            chosen = np.int64(0)
            for at in range(np.uint64(w * LEAF), np.uint64(w * LEAF + count[w])):
                total += weights[at]
                chosen += np.int64(total <= x)
            if chosen == count[w]:
                chosen -= 1
                while chosen > 0 and weights[w * LEAF + chosen] == 0.0:
                    chosen -= 1
            if other.size > 0:
                out[group + w] = other[first[w] + chosen]
            else:
                out[group + w] = start[w] + chosen
    return touched


def draw(forest: Forest, scale: Array, s: Array, u: Array, power: int = 2) -> Array:
    """Draw one entry of each segment ``s`` (int64) for ``u`` in [0, sum of the segment)."""
    begin, end, other, data, nodes, _, _, _, width, step = forest
    out = np.empty(len(s), np.int64)

    def work(low: int, high: int) -> None:
        at = slice(low, high)
        rest, child = u[at].copy(), np.empty(high - low, np.int64)
        descend(begin, end, width, nodes, s[at], rest, child)
        pick_entries(data, other, scale, begin, end, width, step, power, s[at], child, rest, out[at])

    in_chunks(work, len(s))
    return out
