"""Kernels of a sparse block: look entries up, write them, gather rows, exact column sums."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._jit import jit
from .forest import Array, Forest, Int, forest_path, tree_path
from .loose import Loose, find_loose, insert
from .view import DRIFTED, NONZERO, View, inverse, row_changed

__all__ = [
    "Sides",
    "column_squares",
    "count_rows",
    "fill_rows",
    "lookup",
    "put",
    "put_loose",
    "renew_rows",
    "renew_totals",
    "rescale",
    "rescale_loose",
]


class Sides(NamedTuple):
    """The entries of a block by row and by column; ``columns`` is empty in a block without a column side."""

    rows: Forest
    columns: Forest


@jit
def find(forest: Forest, s: Int, other: Int) -> Any:
    """Place of the entry of segment ``s`` at ``other``, or -1. O(log length)."""
    low = np.int64(forest.begin[s])
    high = np.int64(forest.end[s])
    end = high
    while low < high:
        middle = (low + high) >> 1
        if forest.other[middle] < other:
            low = middle + 1
        else:
            high = middle
    return low if low < end and forest.other[low] == other else -1


@jit
def lookup(rows: Forest, loose: Loose, n: Int, i: Array, j: Array, out: Array) -> None:
    """The stored entries (i, j)."""
    for k in range(i.size):
        at = find(rows, i[k], j[k])
        if at >= 0:
            out[k] = rows.data[at]
            continue
        at = find_loose(loose, i[k] * n + j[k])
        out[k] = loose.rows.data[loose.row_place[at]] if at >= 0 else 0


@jit
def row_sums(rows: Forest, loose: Loose, i: Int) -> tuple[float, float]:
    """Σ a_ij² and, where it is kept, Σ |a_ij| of a row over both tiers."""
    square = rows.sums[i]
    l1 = rows.l1_sums[i] if rows.l1_sums.size > 0 else 0.0
    if loose.rows.sums.size > 0:
        square += loose.rows.sums[i]
        if rows.l1_sums.size > 0:
            l1 += loose.rows.l1_sums[i]
    return square, l1


@jit
def put(forest: Forest, scale: Array, s: Array, other: Array, x: Array, found: Array) -> Any:
    """Set the entries (s, other) that the forest has, and the sums above them; returns the growth of its non-zeros."""
    more = np.int64(0)
    for k in range(s.size):
        at = find(forest, s[k], other[k])
        found[k] = at >= 0
        if at >= 0:
            more += np.int64(x[k] != 0) - np.int64(forest.data[at] != 0)
            forest.data[at] = x[k]
            forest_path(forest, scale, s[k], at - forest.begin[s[k]])
    return more


@jit
def put_loose(loose: Loose, view: View, n: Int, i: Array, j: Array, x: Array, start: Int) -> Any:
    """Set entries of the loose tier from ``start`` on, new ones included; where it must grow first, returns there."""
    no_scale = view.scale[:0]
    rows, columns = loose.rows, loose.columns
    for k in range(start, i.size):
        at = find_loose(loose, i[k] * n + j[k])
        if at < 0 and x[k] == 0:
            continue
        if at < 0:
            at = insert(loose, no_scale, view.scale, n, i[k], j[k])
            if at < 0:
                return k
        place = np.int64(loose.row_place[at])
        view.counters[NONZERO] += np.int64(x[k] != 0) - np.int64(rows.data[place] != 0)
        rows.data[place] = x[k]
        forest_path(rows, no_scale, i[k], place - rows.begin[i[k]])
        if columns.sums.size > 0:
            place = np.int64(loose.column_place[at])
            columns.data[place] = x[k]
            forest_path(columns, view.scale, j[k], place - columns.begin[j[k]])
    return i.size


@jit
def renew_rows(view: View, rows: Forest, loose: Loose, i: Array, stale: Array) -> None:
    """Weights of rows after their entries have changed; ``stale`` says whose scale in the column trees is new."""
    for k in range(i.size):
        square, l1 = row_sums(rows, loose, i[k])
        stale[k] = row_changed(view, i[k], square, l1)


@jit
def renew_totals(view: View, columns: Forest, loose: Forest, j: Array) -> None:
    """Totals of columns after their trees have changed."""
    for k in range(j.size):
        total = columns.sums[j[k]]
        if loose.sums.size > 0:
            total += loose.sums[j[k]]
        tree_path(view.totals, j[k], total)


@jit
def rescale(rows: Forest, columns: Forest, scale: Array, i: Array) -> None:
    """These rows have new scales: renew the column trees above their entries. O(nnz(row) · log m) each."""
    for k in range(i.size):
        for at in range(rows.begin[i[k]], rows.end[i[k]]):
            if rows.data[at] != 0:
                j = np.int64(rows.other[at])
                forest_path(columns, scale, j, find(columns, j, i[k]) - columns.begin[j])


@jit
def rescale_loose(loose: Loose, scale: Array, n: Int, i: Array) -> None:
    """The same for their entries in the loose tier."""
    for k in range(i.size):
        start = loose.rows.begin[i[k]]
        for at in range(start, start + loose.row_length[i[k]]):
            j = np.int64(loose.rows.other[at])
            place = np.int64(loose.column_place[find_loose(loose, i[k] * n + j)])
            forest_path(loose.columns, scale, j, place - loose.columns.begin[j])


@jit
def _walk_column(forest: Forest, rows: Forest, loose: Loose, s: Int, stop: Int) -> float:
    total = 0.0
    for at in range(forest.begin[s], stop):
        _, l1 = row_sums(rows, loose, np.int64(forest.other[at]))
        x = forest.data[at] * inverse(l1)
        total += x * x
    return total


@jit
def column_squares(sides: Sides, view: View, loose: Loose, n: Int, j: Array, out: Array) -> None:
    """Exact squared column norms of the view.

    O(1) where no row has drifted; otherwise the stale sum is corrected by the drifted rows (their weight in it is at
    most 16 times the true one, so nothing cancels badly), or the column is summed anew, whichever is shorter.
    """
    rows, columns = sides.rows, sides.columns
    drifted = view.counters[DRIFTED]
    for k in range(j.size):
        c = j[k]
        total = view.totals.data[c]
        length = np.int64(columns.end[c]) - columns.begin[c]
        if drifted > 0 and 8 * drifted < length:
            for d in range(drifted):
                i = np.int64(view.drifted[d])
                at = find(columns, c, i)
                x = 0.0
                if at >= 0:
                    x = np.float64(columns.data[at])
                else:
                    at = find_loose(loose, i * n + c)
                    if at >= 0:
                        x = np.float64(loose.rows.data[loose.row_place[at]])
                _, l1 = row_sums(rows, loose, i)
                now = x * inverse(l1)
                stale = x * view.scale[i]
                total += (now - stale) * (now + stale)
        elif drifted > 0:
            total = _walk_column(columns, rows, loose, c, np.int64(columns.end[c]))
            if loose.columns.sums.size > 0:
                total += _walk_column(loose.columns, rows, loose, c, loose.columns.begin[c] + loose.column_length[c])
        out[k] = total


@jit
def count_rows(rows: Forest, loose: Loose, indices: Array, indptr: Array) -> None:
    """Non-zeros of the rows asked for, accumulated into ``indptr``."""
    indptr[0] = 0
    for k in range(indices.size):
        i = indices[k]
        count = np.int64(0)
        for at in range(rows.begin[i], rows.end[i]):
            count += np.int64(rows.data[at] != 0)
        if loose.rows.sums.size > 0:
            start = loose.rows.begin[i]
            for at in range(start, start + loose.row_length[i]):
                count += np.int64(loose.rows.data[at] != 0)
        indptr[k + 1] = indptr[k] + count


@jit
def fill_rows(
    rows: Forest, loose: Loose, indices: Array, indptr: Array, columns: Array, data: Array, divide: bool
) -> None:
    """The non-zeros of those rows, loose ones last, divided by the row's l1 norm where asked."""
    for k in range(indices.size):
        i = indices[k]
        put = indptr[k]
        for at in range(rows.begin[i], rows.end[i]):
            if rows.data[at] != 0:
                columns[put] = rows.other[at]
                data[put] = rows.data[at]
                put += 1
        if loose.rows.sums.size > 0:
            start = loose.rows.begin[i]
            for at in range(start, start + loose.row_length[i]):
                if loose.rows.data[at] != 0:
                    columns[put] = loose.rows.other[at]
                    data[put] = loose.rows.data[at]
                    put += 1
        if divide:
            _, l1 = row_sums(rows, loose, i)
            for at in range(indptr[k], put):
                data[at] = data[at] / l1
