"""Kernels of a forest: one sum tree over each segment of one flat array.

A *segment* is a row or a column of a compressed sparse layout or of a dense array. Its tree has leaf blocks of 32
entries and inner nodes of 16 children. The terms (squares, and absolute values where l1 norms are kept) are computed
from the entries on the fly; only the sums over leaf blocks and above are stored, in double precision, and the sum of
the segment itself beside them. A segment of at most 32 entries has no nodes at all.

Nodes need no pointers. The tree of a segment that begins at position ``p`` of the flat layout begins at node
``p >> 4``, level after level from the leaf blocks up: ``length`` > 32 entries need at most ``length >> 4`` nodes, so
trees never overlap, and one sum costs half a byte per entry.

Parents are always recomputed from their children in a fixed order, never corrected by a difference: after any number
of updates each sum equals that of a fresh build, bit for bit.

Kernels take plain arrays and loop inside, over a batch: a call per entry would count references to every array it is
handed, and calls from Python pay for each array of a tuple. Only kernels that read entries are compiled for each type
of entry; those that work on sums are compiled once. Before a group of lanes computes, it loads what all of them need:
with nothing to wait for in between, the memory system serves these loads together.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .._jit import jit

__all__ = [
    "FAN",
    "FAN_BITS",
    "LANES",
    "LEAF",
    "LEAF_BITS",
    "NO_INDEX",
    "NO_SCALE",
    "Array",
    "Forest",
    "Int",
    "build_leaves",
    "fresh_nodes",
    "lift",
    "renew",
]

Array: TypeAlias = NDArray[Any]
Int: TypeAlias = int | np.int64  # kernels compile once for both

LEAF_BITS = 5
LEAF = 1 << LEAF_BITS
FAN_BITS = 4
FAN = 1 << FAN_BITS
LANES = 32  # items worked on together, so that their cache misses overlap

NO_INDEX = np.zeros(0, np.int32)
NO_SCALE = np.zeros(0)


class Forest(NamedTuple):
    """The segments of one side of a matrix, with the sums above them.

    Segment s is ``begin[s]`` … ``end[s]`` − 1 of ``data``, with the other index of each entry in ``other`` (sparse);
    or, where these are empty, it has ``width`` entries, ``step`` apart (dense: a row has step 1, a column step n).
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
    width: int = 0
    step: int = 1


def fresh_nodes(entries: int) -> Array:
    """Room for the nodes of all segments of a flat array of ``entries`` entries, all zero."""
    return np.zeros(entries >> FAN_BITS)


@jit
def build_leaves(
    data: Array,
    other: Array,
    scale: Array,
    begin: Array,
    end: Array,
    width: Int,
    nodes: Array,
    sums: Array,
    l1_nodes: Array,
    l1_sums: Array,
    low: Int,
    high: Int,
) -> None:
    """Sums of the leaf blocks of segments ``low`` … ``high`` − 1 (of step 1), or of the whole where it is but one."""
    for s in range(low, high):
        p = np.int64(begin[s]) if width == 0 else s * width
        stop = np.int64(end[s]) if width == 0 else p + width
        leaf = p >> FAN_BITS
        square = 0.0
        absolute = 0.0
        for start in range(p, stop, LEAF):
            square = 0.0
            absolute = 0.0
            for at in range(start, min(start + LEAF, stop)):
                x = np.float64(data[at])
                if scale.size > 0:
                    x *= scale[np.int64(other[at])]
                square += x * x
                absolute += abs(x)
            if stop - p > LEAF:
                nodes[leaf] = square
                if l1_sums.size > 0:
                    l1_nodes[leaf] = absolute
                leaf += 1
        if stop - p <= LEAF:
            sums[s] = square
            if l1_sums.size > 0:
                l1_sums[s] = absolute


@jit
def lift(begin: Array, end: Array, width: Int, nodes: Array, sums: Array, low: Int, high: Int) -> None:
    """Fill the levels above the leaf blocks of segments ``low`` … ``high`` − 1, and their sums."""
    for s in range(low, high):
        p = np.int64(begin[s]) if width == 0 else s * width
        length = np.int64(end[s]) - p if width == 0 else width
        if length <= LEAF:
            continue
        offset = p >> FAN_BITS
        count = ((length - 1) >> LEAF_BITS) + 1
        while count > FAN:
            above = offset + count
            for start in range(offset, above, FAN):
                total = 0.0
                for at in range(start, min(start + FAN, above)):
                    total += nodes[at]
                nodes[above + ((start - offset) >> FAN_BITS)] = total
            offset = above
            count = ((count - 1) >> FAN_BITS) + 1
        total = 0.0
        for at in range(offset, offset + count):
            total += nodes[at]
        sums[s] = total


@jit
def renew_leaves(
    data: Array,
    other: Array,
    scale: Array,
    begin: Array,
    end: Array,
    width: Int,
    step: Int,
    nodes: Array,
    sums: Array,
    l1_nodes: Array,
    l1_sums: Array,
    s: Array,
    t: Array,
) -> float:
    """Recompute the leaf blocks of entries ``t`` of segments ``s``. What is returned keeps the loads ahead alive."""
    first = np.empty(LANES, np.int64)
    count = np.empty(LANES, np.int64)
    touched = 0.0
    for group in range(0, t.size, LANES):
        lanes = min(LANES, t.size - group)
        for w in range(lanes):
            k = group + w
            start = (np.int64(t[k]) >> LEAF_BITS) << LEAF_BITS
            if width == 0:
                p = np.int64(begin[s[k]])
                first[w] = p + start
                count[w] = min(np.int64(LEAF), np.int64(end[s[k]]) - first[w])
            else:
                first[w] = s[k] * width + start if step == 1 else s[k] + start * step
                count[w] = min(np.int64(LEAF), width - start)
        for w in range(lanes):
            stride = max(np.int64(1), count[w] >> 2) if step == 1 else np.int64(1)
            for c in range(0, count[w], stride):
                touched += data[first[w] + c * step]
        if scale.size > 0 and other.size > 0:
            for w in range(lanes):
                touched += other[first[w]] + other[first[w] + count[w] - 1]
            for w in range(lanes):
                for c in range(count[w]):
                    touched += scale[np.int64(other[first[w] + c])]
        for w in range(lanes):
            k = group + w
            start = (np.int64(t[k]) >> LEAF_BITS) << LEAF_BITS
            at = first[w]
            square = 0.0
            absolute = 0.0
            for c in range(count[w]):
                x = np.float64(data[at + c * step])
                if scale.size > 0:
                    x *= scale[np.int64(other[at + c])] if other.size > 0 else scale[start + c]
                square += x * x
                absolute += abs(x)
            p = np.int64(begin[s[k]]) if width == 0 else s[k] * width
            length = np.int64(end[s[k]]) - p if width == 0 else width
            if length > LEAF:
                leaf = (p >> FAN_BITS) + (start >> LEAF_BITS)
                nodes[leaf] = square
                if l1_sums.size > 0:
                    l1_nodes[leaf] = absolute
            else:
                sums[s[k]] = square
                if l1_sums.size > 0:
                    l1_sums[s[k]] = absolute
    return touched


@jit
def renew_above(begin: Array, end: Array, width: Int, nodes: Array, sums: Array, s: Array, t: Array) -> None:
    """Recompute every sum above the leaf blocks of entries ``t`` of segments ``s``. O(log length) each."""
    for k in range(t.size):
        p = np.int64(begin[s[k]]) if width == 0 else s[k] * width
        length = np.int64(end[s[k]]) - p if width == 0 else width
        if length <= LEAF:
            continue
        child = np.int64(t[k]) >> LEAF_BITS
        offset = p >> FAN_BITS
        count = ((length - 1) >> LEAF_BITS) + 1
        while count > FAN:
            child >>= FAN_BITS
            start = offset + (child << FAN_BITS)
            total = 0.0
            for at in range(start, min(start + FAN, offset + count)):
                total += nodes[at]
            offset += count
            nodes[offset + child] = total
            count = ((count - 1) >> FAN_BITS) + 1
        total = 0.0
        for at in range(offset, offset + count):
            total += nodes[at]
        sums[s[k]] = total


def renew(forest: Forest, scale: Array, s: Array, t: Array) -> None:
    """Recompute every sum above entries ``t`` (counted inside the segment) of segments ``s`` (int64)."""
    begin, end, other, data, nodes, sums, l1_nodes, l1_sums, width, step = forest
    renew_leaves(data, other, scale, begin, end, width, step, nodes, sums, l1_nodes, l1_sums, s, t)
    renew_above(begin, end, width, nodes, sums, s, t)
    if l1_sums.size > 0:
        renew_above(begin, end, width, l1_nodes, l1_sums, s, t)
