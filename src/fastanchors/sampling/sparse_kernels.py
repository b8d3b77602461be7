"""Kernels of a sparse block: look entries up, write them, gather rows, exact column sums."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._jit import jit
from .forest import Array, Forest, forest_path, tree_path
from .loose import Loose, find_loose, insert
from .view import DRIFTED, NONZERO, View, inverse, row_changed

__all__ = ["Sides", "column_squares", "count_rows", "fill_rows", "lookup", "write"]


class Sides(NamedTuple):
    """The entries of a block by row and by column; ``columns`` is empty in a block without a column side."""

    rows: Forest
    columns: Forest


@jit
def find(forest: Forest, s: int, other: int) -> int:
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
def lookup(rows: Forest, loose: Loose, n: int, i: Array, j: Array, out: Array) -> None:
    """The stored entries (i, j)."""
    for k in range(i.size):
        at = find(rows, i[k], j[k])
        if at >= 0:
            out[k] = rows.data[at]
            continue
        at = find_loose(loose, i[k] * n + j[k])
        out[k] = loose.rows.data[loose.row_place[at]] if at >= 0 else 0


@jit
def row_sums(rows: Forest, loose: Loose, i: int) -> tuple[float, float]:
    """Σ a_ij² and, where it is kept, Σ |a_ij| of a row over both tiers."""
    square = rows.sums[i]
    l1 = rows.l1_sums[i] if rows.l1_sums.size > 0 else 0.0
    if loose.rows.sums.size > 0:
        square += loose.rows.sums[i]
        if rows.l1_sums.size > 0:
            l1 += loose.rows.l1_sums[i]
    return square, l1


@jit
def renew_total(sides: Sides, view: View, loose: Loose, j: int) -> None:
    total = sides.columns.sums[j]
    if loose.columns.sums.size > 0:
        total += loose.columns.sums[j]
    tree_path(view.totals, j, total)


@jit
def refresh_row(sides: Sides, view: View, loose: Loose, n: int, i: int) -> None:
    """The scale of row ``i`` has changed: recompute the column trees above its entries. O(nnz(row) · log m)."""
    rows, columns = sides.rows, sides.columns
    for at in range(rows.begin[i], rows.end[i]):
        if rows.data[at] != 0:
            j = rows.other[at]
            forest_path(columns, view.scale, j, find(columns, j, i) - columns.begin[j])
            renew_total(sides, view, loose, j)
    if loose.rows.sums.size > 0:
        start = loose.rows.begin[i]
        for at in range(start, start + loose.row_length[i]):
            if loose.rows.data[at] != 0:
                j = loose.rows.other[at]
                place = loose.column_place[find_loose(loose, np.int64(i) * n + j)]
                forest_path(loose.columns, view.scale, j, place - loose.columns.begin[j])
                renew_total(sides, view, loose, j)


@jit
def write(sides: Sides, view: View, loose: Loose, n: int, i: Array, j: Array, x: Array, done: int) -> int:
    """Set the entries from ``done`` on; return how many are done: fewer than all where the loose tier must grow."""
    rows, columns = sides.rows, sides.columns
    no_scale = view.scale[:0]
    has_columns = columns.sums.size > 0
    for k in range(done, i.size):
        r, c = i[k], j[k]
        at = find(rows, r, c)
        if at >= 0:
            before = rows.data[at]
            rows.data[at] = x[k]
            forest_path(rows, no_scale, r, at - rows.begin[r])
            if has_columns:
                at = find(columns, c, r)
                columns.data[at] = x[k]
                forest_path(columns, view.scale, c, at - columns.begin[c])
        else:
            at = find_loose(loose, r * n + c)
            if at >= 0:
                place = loose.row_place[at]
                before = loose.rows.data[place]
                loose.rows.data[place] = x[k]
                forest_path(loose.rows, no_scale, r, place - loose.rows.begin[r])
                if has_columns:
                    place = loose.column_place[at]
                    loose.columns.data[place] = x[k]
                    forest_path(loose.columns, view.scale, c, place - loose.columns.begin[c])
            elif x[k] == 0:
                continue
            else:
                before = x[k] * 0
                if not insert(loose, no_scale, view.scale, n, r, c, x[k]):
                    return k
        view.counters[NONZERO] += np.int64(x[k] != 0) - np.int64(before != 0)
        if has_columns:
            renew_total(sides, view, loose, c)
        square, l1 = row_sums(rows, loose, r)
        if row_changed(view, r, square, l1) and has_columns:
            refresh_row(sides, view, loose, n, r)
    return i.size


@jit
def _walk_column(forest: Forest, rows: Forest, loose: Loose, s: int, stop: int) -> float:
    total = 0.0
    for at in range(forest.begin[s], stop):
        square, l1 = row_sums(rows, loose, forest.other[at])
        x = forest.data[at] * inverse(l1)
        total += x * x
    return total


@jit
def column_squares(sides: Sides, view: View, loose: Loose, n: int, j: Array, out: Array) -> None:
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
                i = view.drifted[d]
                at = find(columns, c, i)
                x = 0.0
                if at >= 0:
                    x = np.float64(columns.data[at])
                else:
                    at = find_loose(loose, i * n + c)
                    if at >= 0:
                        x = np.float64(loose.rows.data[loose.row_place[at]])
                square, l1 = row_sums(rows, loose, i)
                now = x * inverse(l1)
                stale = x * view.scale[i]
                total += (now - stale) * (now + stale)
        elif drifted > 0:
            total = _walk_column(columns, rows, loose, c, columns.end[c])
            if loose.columns.sums.size > 0:
                total += _walk_column(loose.columns, rows, loose, c, loose.columns.begin[c] + loose.column_length[c])
        out[k] = total


@jit
def count_rows(rows: Forest, loose: Loose, indices: Array, indptr: Array) -> None:
    """Non-zeros of the rows asked for, accumulated into ``indptr``."""
    indptr[0] = 0
    for k in range(indices.size):
        i = indices[k]
        count = 0
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
    """The non-zeros of those rows in order of their columns, divided by the row's l1 norm where asked."""
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
            if loose.row_length[i] > 0:
                order = np.argsort(columns[indptr[k] : put])
                columns[indptr[k] : put] = columns[indptr[k] : put][order]
                data[indptr[k] : put] = data[indptr[k] : put][order]
        if divide:
            square, l1 = row_sums(rows, loose, i)
            for at in range(indptr[k], put):
                data[at] = data[at] / l1
