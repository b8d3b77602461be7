"""Kernels of a forest: a sum tree over each segment of one flat array.

A *segment* is a row or a column of a compressed sparse layout or of a dense array. Its tree has leaf blocks of 32
entries and inner nodes of 16 children. The terms (squares, and absolute values if l1 norms are stored) are computed
from the entries on the fly. Only the sums of leaf blocks and above are stored, in double precision, and separately the
sum of each segment. A segment of at most 32 entries has no nodes.

Nodes need no pointers. The tree of a segment that begins at position ``p`` of the flat layout begins at node
``p >> 4``, level by level from the leaf blocks up: ``length`` > 32 entries need at most ``length >> 4`` nodes, so trees
never overlap, and a tree takes half a byte per entry.

Parents are always recomputed from their children in a fixed order, never corrected by a difference: after any number
of updates each sum equals that of a fresh build, bit for bit.

Kernels take plain arrays and loop over a batch inside: a call per entry would count references to every array, and
calls from Python pay for each array of a tuple. Only kernels that read entries are compiled for each type of entry;
those that work on sums are compiled once. A group of lanes first loads the data of all lanes and then computes, so that
their cache misses overlap.
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
    "locate",
    "renew",
    "weigh",
]

Array: TypeAlias = NDArray[Any]
Int: TypeAlias = int | np.int64  # kernels compile once for both

LEAF_BITS = 5
LEAF = 1 << LEAF_BITS
FAN_BITS = 4
FAN = 1 << FAN_BITS
LANES = 32  # items processed together, so that their cache misses overlap

NO_INDEX = np.zeros(0, np.int32)
NO_SCALE = np.zeros(0)


class Forest(NamedTuple):
    """The segments of one side of a matrix, with the sums above them.

    Segment s is ``begin[s]`` … ``end[s]`` − 1 of ``data``, with the other index of each entry in ``other`` (sparse);
    or, if these are empty, it has ``width`` entries, ``step`` apart (dense: a row has step 1, a column step n).
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
    """Zeros for the nodes of all segments of a flat array of ``entries`` entries."""
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
    """Sums of the leaf blocks of segments ``low`` … ``high`` − 1 (of step 1), or of a segment with a single one."""
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
def weigh(
    data: Array,
    other: Array,
    scale: Array,
    step: Int,
    power: Int,
    first: Array,
    start: Array,
    count: Array,
    lanes: Int,
    weights: Array,
) -> float:
    """Weights of the entries of one leaf block per lane, 32 per lane: squares (``power`` 2) or magnitudes (1).

    The block of lane w is ``count[w]`` entries from ``data[first[w]]`` on, ``step`` apart, beginning with entry
    ``start[w]`` of its segment. Entries are multiplied by the ``scale`` of their row, if any. Indices are unsigned to
    avoid the test for negative ones. The return value keeps the compiler from removing the loads.
    """
    touched = 0.0
    stride = np.uint64(step)
    rows = np.uint64(scale.size)
    for w in range(lanes):
        if count[w] == 0:
            continue
        at = np.uint64(first[w])
        last = np.uint64(count[w] - 1)
        for c in range(np.uint64(0), last, np.uint64(8) if step == 1 else np.uint64(1)):
            touched += data[at + c * stride]
        touched += data[at + last * stride]
        if scale.size > 0 and other.size > 0:
            touched += other[at] + other[at + last // np.uint64(2)] + other[at + last]
    for w in range(lanes):
        at = np.uint64(first[w])
        put = np.uint64(w * LEAF)
        size = np.uint64(count[w])
        if scale.size == 0 and power == 2:
            for c in range(size):
                x = np.float64(data[at + c * stride])
                weights[put + c] = x * x
        elif scale.size == 0:
            for c in range(size):
                weights[put + c] = abs(np.float64(data[at + c * stride]))
        elif other.size > 0:
            for c in range(size):
                row = np.uint64(other[at + c])
                x = np.float64(data[at + c]) * (scale[row] if row < rows else 0.0)
                weights[put + c] = x * x
        else:
            top = np.uint64(start[w])
            for c in range(size):
                x = np.float64(data[at + c * stride]) * scale[top + c]
                weights[put + c] = x * x
    return touched


@jit
def locate(
    begin: Array,
    end: Array,
    width: Int,
    step: Int,
    size: Int,
    s: Array,
    leaf: Array,
    group: Int,
    lanes: Int,
    first: Array,
    start: Array,
    count: Array,
) -> None:
    """The position of leaf block ``leaf`` of segment ``s``, for each lane of a group: arguments of :func:`weigh`.

    It has no entries if it would be outside the segment, or the segment outside the ``size`` entries.
    """
    for w in range(lanes):
        k = group + w
        start[w] = leaf[k] << LEAF_BITS
        if width == 0:
            first[w] = begin[s[k]] + start[w]
            count[w] = min(np.int64(LEAF), np.int64(end[s[k]]) - first[w])
            if count[w] <= 0 or start[w] < 0 or begin[s[k]] < 0 or end[s[k]] > size:
                first[w] = 0
                count[w] = 0
        else:
            first[w] = s[k] * width + start[w] if step == 1 else s[k] + start[w] * step
            count[w] = min(np.int64(LEAF), width - start[w])


@jit
def renew_leaves(
    data: Array,
    other: Array,
    scale: Array,
    begin: Array,
    end: Array,
    width: Int,
    step: Int,
    power: Int,
    nodes: Array,
    sums: Array,
    s: Array,
    leaf: Array,
) -> float:
    """Recompute the sums of leaf blocks ``leaf`` of segments ``s``."""
    first, start, count = np.empty(LANES, np.int64), np.empty(LANES, np.int64), np.empty(LANES, np.int64)
    weights = np.empty(LANES * LEAF)
    touched = 0.0
    for group in range(0, leaf.size, LANES):
        lanes = min(LANES, leaf.size - group)
        locate(begin, end, width, step, data.size, s, leaf, group, lanes, first, start, count)
        touched += weigh(data, other, scale, step, power, first, start, count, lanes, weights)
        for w in range(lanes):
            k = group + w
            total = 0.0
            for at in range(np.uint64(w * LEAF), np.uint64(w * LEAF + count[w])):
                total += weights[at]
            p = np.int64(begin[s[k]]) if width == 0 else s[k] * width
            length = np.int64(end[s[k]]) - p if width == 0 else width
            if length > LEAF:
                if count[w] > 0 and (p + length) >> FAN_BITS <= nodes.size:
                    nodes[(p >> FAN_BITS) + leaf[k]] = total
            else:
                sums[s[k]] = total
    return touched


@jit
def renew_above(begin: Array, end: Array, width: Int, nodes: Array, sums: Array, s: Array, leaf: Array) -> None:
    """Recompute every sum above leaf blocks ``leaf`` of segments ``s``. O(log length) each."""
    for k in range(leaf.size):
        p = np.int64(begin[s[k]]) if width == 0 else s[k] * width
        length = np.int64(end[s[k]]) - p if width == 0 else width
        child = leaf[k]
        offset = p >> FAN_BITS
        count = ((length - 1) >> LEAF_BITS) + 1
        if length <= LEAF or p < 0 or (p + length) >> FAN_BITS > nodes.size or not 0 <= child < count:
            continue
        while count > FAN:
            child >>= FAN_BITS
            start = offset + (child << FAN_BITS)
            total = 0.0
            for at in range(np.uint64(start), np.uint64(min(start + FAN, offset + count))):
                total += nodes[at]
            offset += count
            nodes[offset + child] = total
            count = ((count - 1) >> FAN_BITS) + 1
        total = 0.0
        for at in range(np.uint64(offset), np.uint64(offset + count)):
            total += nodes[at]
        sums[s[k]] = total


@jit
def renew(forest: Forest, scale: Array, s: Array, leaf: Array) -> None:
    """Recompute every sum above the leaf blocks ``leaf`` of segments ``s`` (int64), whose entries have changed."""
    begin, end, other, data, nodes, sums, l1_nodes, l1_sums, width, step = forest
    renew_leaves(data, other, scale, begin, end, width, step, 2, nodes, sums, s, leaf)
    renew_above(begin, end, width, nodes, sums, s, leaf)
    if l1_sums.size > 0:
        renew_leaves(data, other, scale, begin, end, width, step, 1, l1_nodes, l1_sums, s, leaf)
        renew_above(begin, end, width, l1_nodes, l1_sums, s, leaf)
