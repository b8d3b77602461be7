"""Kernels of a sparse block: find entries, set them, gather rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._jit import jit
from .forest import LANES, LEAF_BITS, Array

__all__ = ["count_rows", "divide_rows", "fill_rows", "find", "put"]


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
def count_rows(begin: Array, end: Array, data: Array, indices: Array, indptr: Array) -> None:
    """Non-zeros of the rows asked for, accumulated into ``indptr``."""
    indptr[0] = 0
    for k in range(indices.size):
        count = np.int64(0)
        for at in range(begin[indices[k]], end[indices[k]]):
            count += np.int64(data[at] != 0)
        indptr[k + 1] = indptr[k] + count


@jit
def fill_rows(
    begin: Array,
    end: Array,
    other: Array,
    data: Array,
    indices: Array,
    indptr: Array,
    out_columns: Array,
    out_data: Array,
) -> None:
    """The non-zeros of those rows, in their order."""
    for k in range(indices.size):
        put = indptr[k]
        for at in range(begin[indices[k]], end[indices[k]]):
            if data[at] != 0:
                out_columns[put] = other[at]
                out_data[put] = data[at]
                put += 1


@jit
def divide_rows(indptr: Array, data: Array, l1: Array) -> None:
    """Each row of a compressed matrix divided by its l1 norm, in double precision."""
    for k in range(l1.size):
        for at in range(indptr[k], indptr[k + 1]):
            data[at] = data[at] / l1[k]
