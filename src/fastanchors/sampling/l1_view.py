"""The l1 view of a block: row weights, column sums, and the scale of each row in the column trees.

The l1 view divides each row by its l1 norm without storing the quotients. Draws inside a row do not depend on the
factor. The column trees store (a_ij · scale_i)², and ``scale_i`` would change with every change of the row. It is
therefore allowed to be *stale*, larger or smaller than the true factor 1/l1_i. The true weight of row i in any column
is ``ratio_i`` = (1/(l1_i · scale_i))² times the stale one. Let F ≥ 1 be the largest ratio so far. A draw from a column
tree that ends at row i is accepted with probability ratio_i / F, which makes it exact. When the l1 norm has changed by
more than a factor of 2 since the scale was set, the row's entries in the column trees are rewritten with scale 1/l1. So
1/4 ≤ ratio ≤ F ≤ 4, a draw takes at most 16 attempts on average, and updates cost O(log m + log n) amortised. After
small changes ratios and F stay close to 1. Rows that were never changed have scale exactly 1/l1. A rebuilt block has no
stale scales, and F = 1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._jit import jit
from .segment_trees import Array
from .tree import Tree

__all__ = [
    "DRIFTED",
    "NONZERO",
    "View",
    "fresh_view",
    "renew_rows",
    "view_dtype",
    "view_scale",
    "view_weights",
    "with_marks",
]

BAND = 2.0  # factor by which the l1 norm of a row may change, up or down, before its entries are rewritten

NONZERO, DRIFTED = 0, 1  # positions in ``counters``


class View(NamedTuple):
    """``weights``: ‖row‖² of the view; ``totals``: sums of the column trees (with stale scales).

    ``scale`` is empty for ``normalize=None``. ``drifted[:counters[DRIFTED]]`` lists the rows whose scale may be stale,
    each once (``mark``); both are allocated at the first update. ``bound`` is F.
    """

    weights: Tree
    totals: Tree
    scale: Array
    mark: Array
    drifted: Array
    counters: Array
    bound: Array


def fresh_view(weights: Tree, totals: Tree, scale: Array, nonzero: int) -> View:
    drifted = np.zeros(0, np.int32 if scale.size < 2**31 else np.int64)
    return View(weights, totals, scale, np.zeros(0, np.uint8), drifted, np.array([nonzero, 0], np.int64), np.ones(1))


def with_marks(view: View) -> View:
    """The same view with arrays for drifted rows."""
    if view.mark.size == view.scale.size:
        return view
    m = view.scale.size
    return view._replace(mark=np.zeros(m, np.uint8), drifted=np.zeros(m, view.drifted.dtype))


def view_weights(squares: Array, l1: Array) -> Array:
    """‖row‖² of the view from the sums of the stored rows; without l1 sums, the squares themselves (not a copy)."""
    if l1.size == 0:
        return squares
    positive = np.where(l1 > 0, l1, 1.0)
    return squares / positive / positive


def view_scale(l1: Array) -> Array:
    """The factors of the rows in the view: 1/l1, and 0 for a row of zeros."""
    return np.divide(1.0, l1, out=np.zeros_like(l1), where=l1 > 0)


def view_dtype(stored: np.dtype[Any]) -> np.dtype[Any]:
    """The type of rows of an l1 view: float32 for float32, else float64."""
    return np.dtype(np.float32 if stored == np.float32 else np.float64)


@jit
def renew_rows(view: View, i: Array, squares: Array, l1: Array, rewrite: Array) -> bool:
    """Update the weights of rows ``i`` of an l1 view from their new sums, and list rows with stale scales.

    Marks in ``rewrite`` the rows whose entries in the column trees must be rewritten; returns whether there are any.
    """
    weights, scale, mark, drifted = view.weights.data, view.scale, view.mark, view.drifted
    counters, bound = view.counters, view.bound
    some = False
    for k in range(i.size):
        row = i[k]
        rewrite[k] = False
        if l1[k] == 0.0:  # the row is zero: its scale has no effect
            weights[row] = 0.0
            scale[row] = 0.0
            continue
        weights[row] = squares[k] / l1[k] / l1[k]
        now = 1.0 / l1[k]
        stale = scale[row]
        if stale == now:
            continue
        if not (now <= BAND * stale and stale <= BAND * now):  # also where a forged sum is not a number
            scale[row] = now
            rewrite[k] = True
            some = True
            continue
        ratio = now / stale
        bound[0] = max(bound[0], ratio * ratio)
        if mark[row] == 0:
            mark[row] = 1
            drifted[counters[DRIFTED]] = row
            counters[DRIFTED] += 1
    return some
