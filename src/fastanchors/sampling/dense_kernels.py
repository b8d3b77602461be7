"""Kernels of a dense block: both sides read the one C-ordered array; column trees read it with a stride."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._jit import jit
from .forest import FAN_BITS, LEAF, LEAF_BITS, Array, Int, build_segment, lift, path, tree_path
from .view import DRIFTED, NONZERO, View, inverse, row_changed

__all__ = ["Dense", "build_columns", "build_rows", "column_squares", "write"]


class Dense(NamedTuple):
    """The array, flat, and the sums above its rows and columns; l1 sums are empty for ``normalize=None``."""

    data: Array
    row_nodes: Array
    row_sums: Array
    l1_nodes: Array
    l1_sums: Array
    column_nodes: Array
    column_sums: Array


@jit
def build_rows(dense: Dense, none: Array, n: Int, low: Int, high: Int) -> Any:
    """Trees of the rows ``low`` … ``high`` − 1; returns their number of non-zeros."""
    data = dense.data
    nonzero = np.int64(0)
    for i in range(low, high):
        p = i * n
        dense.row_sums[i] = build_segment(data, none, none, 1, 2, dense.row_nodes, p, n, p)
        if dense.l1_sums.size > 0:
            dense.l1_sums[i] = build_segment(data, none, none, 1, 1, dense.l1_nodes, p, n, p)
        for k in range(p, p + n):
            nonzero += np.int64(data[k] != 0)
    return nonzero


@jit
def build_columns(dense: Dense, scale: Array, m: Int, n: Int, low: Int, high: Int) -> None:
    """Trees of the columns ``low`` … ``high`` − 1, in one pass over the rows: 32 at a time make a leaf block."""
    sums = np.empty(high - low)
    for start in range(0, m, LEAF):
        sums[:] = 0.0
        for i in range(start, min(start + LEAF, m)):
            factor = scale[i] if scale.size > 0 else 1.0
            for j in range(low, high):
                x = dense.data[i * n + j] * factor
                sums[j - low] += x * x
        if m > LEAF:
            for j in range(low, high):
                dense.column_nodes[(j * m >> FAN_BITS) + (start >> LEAF_BITS)] = sums[j - low]
        else:
            dense.column_sums[low:high] = sums
    if m > LEAF:
        for j in range(low, high):
            dense.column_sums[j] = lift(dense.column_nodes, j * m, m)


@jit
def _column_path(dense: Dense, view: View, none: Array, m: Int, n: Int, i: Int, j: Int) -> None:
    total = path(dense.data, none, view.scale, n, 2, dense.column_nodes, j * m, m, j, i)
    dense.column_sums[j] = total
    tree_path(view.totals, j, total)


@jit
def write(dense: Dense, view: View, none: Array, m: Int, n: Int, i: Array, j: Array, x: Array) -> None:
    """Set entries, one after another."""
    data = dense.data
    no_scale = view.scale[:0]
    has_columns = dense.column_sums.size > 0
    for k in range(i.size):
        r, c = i[k], j[k]
        p = r * n
        view.counters[NONZERO] += np.int64(x[k] != 0) - np.int64(data[p + c] != 0)
        data[p + c] = x[k]
        square = path(data, none, no_scale, 1, 2, dense.row_nodes, p, n, p, c)
        dense.row_sums[r] = square
        l1 = 0.0
        if dense.l1_sums.size > 0:
            l1 = path(data, none, no_scale, 1, 1, dense.l1_nodes, p, n, p, c)
            dense.l1_sums[r] = l1
        refresh = row_changed(view, r, square, l1)
        if has_columns and refresh:
            for other in range(n):
                if data[p + other] != 0 or other == c:
                    _column_path(dense, view, none, m, n, r, other)
        elif has_columns:
            _column_path(dense, view, none, m, n, r, c)


@jit
def column_squares(dense: Dense, view: View, m: Int, n: Int, j: Array, out: Array) -> None:
    """Exact squared column norms of the view; as for sparse blocks, O(1) where no row has drifted."""
    drifted = view.counters[DRIFTED]
    for k in range(j.size):
        c = j[k]
        total = view.totals.data[c]
        if drifted > 0 and drifted < m:
            for d in range(drifted):
                i = np.int64(view.drifted[d])
                now = dense.data[i * n + c] * inverse(dense.l1_sums[i])
                stale = dense.data[i * n + c] * view.scale[i]
                total += (now - stale) * (now + stale)
        elif drifted > 0:
            total = 0.0
            for row in range(m):
                now = dense.data[row * n + c] * inverse(dense.l1_sums[row])
                total += now * now
        out[k] = total
