"""Kernels of a sparse block: find entries, set them, gather rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._jit import jit
from .segment_trees import LANES, LEAF_BITS, Array, Int

__all__ = ["count_rows", "fill_rows", "find", "put", "within"]


@jit
def find(begin: Array, end: Array, other: Array, s: Array, sought: Array, at: Array, leaf: Array) -> bool:
    """Find the entries (s, sought): their positions or -1, and their leaf blocks. Returns whether all were found.

    Runs binary searches in lockstep.
    """
    low = np.empty(LANES, np.int64)
    size = np.empty(LANES, np.int64)
    every = True
    for group in range(0, s.size, LANES):
        lanes = min(LANES, s.size - group)
        longest = np.int64(0)
        for w in range(lanes):
            low[w] = begin[s[group + w]]
            size[w] = np.int64(end[s[group + w]]) - low[w]
            if size[w] <= 0 or low[w] < 0 or end[s[group + w]] > other.size:
                low[w] = 0  # a position that can be read, if there is any
                size[w] = 0
            longest = max(longest, size[w])
        while longest > 1:
            for w in range(lanes):
                half = size[w] >> 1
                low[w] += half * np.int64(other[low[w] + half] <= sought[group + w])
                size[w] -= half
            longest -= longest >> 1
        for w in range(lanes):
            if size[w] > 0 and other[low[w]] == sought[group + w]:
                at[group + w] = low[w]
                leaf[group + w] = (low[w] - np.int64(begin[s[group + w]])) >> LEAF_BITS
            else:
                at[group + w] = -1
                every = False
    return every


@jit
def put(data: Array, at: Array, x: Array) -> Any:
    """``data[at] = x``, in order; returns the increase of the number of non-zeros."""
    more = np.int64(0)
    for k in range(at.size):
        more += np.int64(x[k] != 0) - np.int64(data[at[k]] != 0)
        data[at[k]] = x[k]
    return more


@jit
def count_rows(
    begin: Array, end: Array, size: Int, data: Array, wanted: Array, first: Int, places: Array, counts: Array
) -> bool:
    """Write the number of non-zeros of the rows ``wanted[places]`` − ``first`` to ``counts[places]``.

    With empty ``data`` every stored entry counts. Returns False if a row is outside the ``size`` entries.
    """
    for k in range(places.size):
        row = wanted[places[k]] - first
        low, high = np.int64(begin[row]), np.int64(end[row])
        if low < 0 or high < low or high > size:
            return False
        count = high - low
        if data.size > 0:
            for at in range(low, high):
                count -= np.int64(data[at] == 0)
        counts[places[k]] = count
    return True


@jit
def fill_rows(
    begin: Array,
    end: Array,
    other: Array,
    data: Array,
    l1: Array,
    wanted: Array,
    first: Int,
    places: Array,
    columns: Int,
    indptr: Array,
    out_columns: Array,
    out_data: Array,
) -> bool:
    """Write the non-zeros of these rows to rows ``places`` of a compressed matrix, divided by ``l1`` if that is given.

    The quotient is computed in double precision for every type of the result. Returns False if an entry is outside the
    ``columns``, if the number of non-zeros differs from ``indptr``, or if a row with norm zero has any.
    """
    sound, largest = True, np.uint64(0)  # a negative column is far beyond the largest
    for k in range(places.size):
        row = wanted[places[k]] - first
        put = indptr[places[k]]
        norm = l1[row] if l1.size > 0 else 1.0
        for at in range(begin[row], end[row]):
            if data[at] != 0:
                largest = max(largest, np.uint64(other[at]))
                out_columns[put] = other[at]
                if l1.size > 0:
                    if norm == 0:
                        return False
                    out_data[put] = data[at] / norm
                else:
                    out_data[put] = data[at]
                put += 1
        sound &= put == indptr[places[k] + 1]
    return bool(sound and (largest < np.uint64(columns) or indptr[-1] == 0))


@jit
def within(indices: Array, limit: Int) -> bool:
    """Whether all are from 0 to ``limit`` − 1."""
    sound = True
    for k in range(indices.size):
        sound &= 0 <= indices[k] < limit
    return sound
