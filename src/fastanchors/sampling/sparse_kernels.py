"""Kernels of a sparse block: find entries, set them, gather rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._jit import jit
from .segment_trees import LANES, LEAF_BITS, Array, Int

__all__ = ["count_rows", "fill_rows", "find", "put"]


@jit
def find(begin: Array, end: Array, other: Array, s: Array, sought: Array, at: Array, leaf: Array) -> bool:
    """Where the entries (s, sought) are, or -1, and in which leaf block of their segment; whether all were found.

    Binary searches in lockstep.
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
            if size[w] == 0:
                low[w] = 0  # a place that can be read, if there is any
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
    """``data[at] = x``, one after another; returns by how many there are more non-zeros."""
    more = np.int64(0)
    for k in range(at.size):
        more += np.int64(x[k] != 0) - np.int64(data[at[k]] != 0)
        data[at[k]] = x[k]
    return more


@jit
def count_rows(begin: Array, end: Array, data: Array, wanted: Array, first: Int, places: Array, counts: Array) -> None:
    """Non-zeros of the rows ``wanted[places]`` − ``first``, into ``counts`` at their places.

    Without ``data`` every stored entry is one.
    """
    for k in range(places.size):
        row = wanted[places[k]] - first
        low, high = np.int64(begin[row]), np.int64(end[row])
        count = high - low
        if data.size > 0:
            for at in range(low, high):
                count -= np.int64(data[at] == 0)
        counts[places[k]] = count


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
    indptr: Array,
    out_columns: Array,
    out_data: Array,
) -> None:
    """The non-zeros of those rows as rows ``places`` of a compressed matrix, divided by their ``l1`` where given.

    The quotient is taken in double precision whatever the type of the result.
    """
    for k in range(places.size):
        row = wanted[places[k]] - first
        put = indptr[places[k]]
        for at in range(begin[row], end[row]):
            if data[at] != 0:
                out_columns[put] = other[at]
                if l1.size > 0:
                    out_data[put] = data[at] / l1[row]
                else:
                    out_data[put] = data[at]
                put += 1
