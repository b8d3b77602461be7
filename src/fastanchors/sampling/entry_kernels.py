"""Kernels that set entries of a block and update every sum that depends on them.

A call from Python costs microseconds, as much as the work for one entry, so a batch is processed in one call.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._jit import jit
from .l1_view import NONZERO, View, renew_rows
from .segment_trees import NO_SCALE, Array, Forest, renew
from .sparse_kernels import find, put
from .tree import renew_tree

__all__ = ["NO_SUMS", "InsertedSums", "renew_sums", "set_stored"]


class InsertedSums(NamedTuple):
    """Sums of the entries that were inserted after a sparse block was built; empty if there are none."""

    squares: Array
    l1: Array
    columns: Array


NO_SUMS = InsertedSums(NO_SCALE, NO_SCALE, NO_SCALE)


@jit
def set_stored(
    i: Array, j: Array, x: Array, rows: Forest, columns: Forest, view: View, inserted: InsertedSums, rewrite: Array
) -> int:
    """Set stored entries of a sparse block and update every sum above them.

    Returns −1, without any change, if one of them is not stored, and −2 if it is missing in the column side; else the
    result of :func:`renew_sums`.
    """
    at, leaf = np.empty(i.size, np.int64), np.empty(i.size, np.int64)
    if not find(rows.begin, rows.end, rows.other, i, j, at, leaf):
        return -1
    if columns.sums.size > 0:
        across, leaf_across = np.empty(i.size, np.int64), np.empty(i.size, np.int64)
        if not find(columns.begin, columns.end, columns.other, j, i, across, leaf_across):
            return -2
        put(columns.data, across, x)
        renew(columns, view.scale, j, leaf_across)
    view.counters[NONZERO] += put(rows.data, at, x)
    renew(rows, view.scale[:0], i, leaf)  # the tree of a row has unscaled entries
    return renew_sums(i, j, rows, columns, view, inserted, rewrite)


@jit
def renew_sums(
    i: Array, j: Array, rows: Forest, columns: Forest, view: View, inserted: InsertedSums, rewrite: Array
) -> int:
    """Update the weights of rows ``i`` and the totals of columns ``j`` from their sums, and the trees over these.

    Returns 1 if rows are marked in ``rewrite``: their entries in the column trees must be rewritten with a new scale;
    else 0.
    """
    squares = rows.sums[i]
    if inserted.squares.size > 0:
        squares += inserted.squares[i]
    weights = view.weights
    some = False
    if view.scale.size > 0:
        l1 = rows.l1_sums[i]
        if inserted.l1.size > 0:
            l1 += inserted.l1[i]
        some = renew_rows(view, i, squares, l1, rewrite)
    else:
        for k in range(i.size):
            weights.data[i[k]] = squares[k]
    renew_tree(weights.data, weights.nodes, weights.total, i)
    if columns.sums.size > 0:
        totals = view.totals
        if inserted.columns.size > 0:
            for k in range(j.size):
                totals.data[j[k]] = columns.sums[j[k]] + inserted.columns[j[k]]
        renew_tree(totals.data, totals.nodes, totals.total, j)
    return 1 if some else 0
