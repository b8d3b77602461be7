"""One kernel for setting entries that a sparse block holds: everything that depends on them, in one call.

A call from Python costs microseconds, as much as the work for one entry; this is the sum of the kernels it calls.
"""

from __future__ import annotations

import numpy as np

from .._jit import jit
from .forest import Array, renew_above, renew_leaves
from .sparse_kernels import find, put
from .tree import renew_tree
from .view import NONZERO, renew_rows

__all__ = ["set_stored"]


@jit
def set_stored(
    i: Array,
    j: Array,
    x: Array,
    begin: Array,
    end: Array,
    other: Array,
    data: Array,
    nodes: Array,
    sums: Array,
    l1_nodes: Array,
    l1_sums: Array,
    column_begin: Array,
    column_end: Array,
    column_other: Array,
    column_data: Array,
    column_nodes: Array,
    column_sums: Array,
    weights: Array,
    weight_nodes: Array,
    weight_total: Array,
    totals: Array,
    total_nodes: Array,
    total: Array,
    scale: Array,
    mark: Array,
    drifted: Array,
    counters: Array,
    bound: Array,
    loose_sums: Array,
    loose_l1_sums: Array,
    loose_column_sums: Array,
    rewrite: Array,
) -> int:
    """Set stored entries and every sum above them; returns −1, and has done nothing, where one is not stored.

    Else 1 where rows are marked in ``rewrite``, whose entries in the column trees must be rewritten, or 0.
    ``loose_*`` are the sums of the loose tier, empty where there is none.
    """
    at = np.empty(i.size, np.int64)
    leaf = np.empty(i.size, np.int64)
    if not find(begin, end, other, i, j, at, leaf):
        return -1
    counters[NONZERO] += put(data, at, x)
    plain = scale[:0]  # a row's own tree is of the entries as they are
    renew_leaves(data, other, plain, begin, end, 0, 1, 2, nodes, sums, i, leaf)
    renew_above(begin, end, 0, nodes, sums, i, leaf)
    if l1_sums.size > 0:
        renew_leaves(data, other, plain, begin, end, 0, 1, 1, l1_nodes, l1_sums, i, leaf)
        renew_above(begin, end, 0, l1_nodes, l1_sums, i, leaf)
    if column_sums.size > 0:
        find(column_begin, column_end, column_other, j, i, at, leaf)
        put(column_data, at, x)
        renew_leaves(
            column_data, column_other, scale, column_begin, column_end, 0, 1, 2, column_nodes, column_sums, j, leaf
        )
        renew_above(column_begin, column_end, 0, column_nodes, column_sums, j, leaf)
    return _renew_above_rows(
        i,
        j,
        sums,
        l1_sums,
        column_sums,
        weights,
        weight_nodes,
        weight_total,
        totals,
        total_nodes,
        total,
        scale,
        mark,
        drifted,
        counters,
        bound,
        loose_sums,
        loose_l1_sums,
        loose_column_sums,
        rewrite,
    )


@jit
def _renew_above_rows(
    i: Array,
    j: Array,
    sums: Array,
    l1_sums: Array,
    column_sums: Array,
    weights: Array,
    weight_nodes: Array,
    weight_total: Array,
    totals: Array,
    total_nodes: Array,
    total: Array,
    scale: Array,
    mark: Array,
    drifted: Array,
    counters: Array,
    bound: Array,
    loose_sums: Array,
    loose_l1_sums: Array,
    loose_column_sums: Array,
    rewrite: Array,
) -> int:
    """The weights of rows ``i`` and the totals of columns ``j`` from their sums, and the trees over these."""
    squares = sums[i]
    if loose_sums.size > 0:
        squares += loose_sums[i]
    some = False
    if scale.size > 0:
        l1 = l1_sums[i]
        if loose_l1_sums.size > 0:
            l1 += loose_l1_sums[i]
        some = renew_rows(weights, scale, mark, drifted, counters, bound, i, squares, l1, rewrite)
    else:
        for k in range(i.size):
            weights[i[k]] = squares[k]
    renew_tree(weights, weight_nodes, weight_total, i)
    if column_sums.size > 0:
        if loose_column_sums.size > 0:
            for k in range(j.size):
                totals[j[k]] = column_sums[j[k]] + loose_column_sums[j[k]]
        renew_tree(totals, total_nodes, total, j)
    return 1 if some else 0
