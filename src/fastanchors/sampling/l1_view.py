"""What a block keeps of the view: row weights, column sums, and the scale of each row in the column trees.

The l1 view divides each row by its l1 norm without storing the quotients. A row's own tree does not care about the
factor. The column trees hold (a_ij · scale_i)², and ``scale_i`` would have to change with every change of the row: so
it is allowed to be *stale*, on either side of the true factor 1/l1_i. The true weight of row i in any column is
``ratio_i`` = (1/(l1_i · scale_i))² times the stale one. With F the largest ratio so far (1 while none is above it), a
draw from a column tree that ends at row i is accepted with probability ratio_i / F, which makes it exact. Only when the
l1 norm has changed by more than a factor of 2 since the row's scale was set are its entries in the column trees
rewritten, with the scale exactly 1/l1 again. So 1/4 ≤ ratio ≤ F ≤ 4, a draw takes at most 16 attempts on average, and
each rewriting of a row is paid for by a change of its norm by a constant factor: O(log m + log n) amortised per update.
Small changes, of one entry among many, cost next to nothing in draws: ratios and F stay close to 1.
Rows never touched have scale exactly 1/l1. A rebuilt block has no stale scales, and F = 1.
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

BAND = 2.0  # by how much the l1 norm of a row may change, either way, before its entries are rewritten

NONZERO, DRIFTED = 0, 1  # places in ``counters``


class View(NamedTuple):
    """``weights``: ‖row‖² of the view; ``totals``: sums of the column trees (with stale scales).

    ``scale`` is empty for ``normalize=None``. ``drifted[:counters[DRIFTED]]`` lists the rows whose scale may differ
    from 1/l1, each once (``mark``); both are allocated with the first update. ``bound`` holds F.
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
    """The same view, ready to note drifted rows."""
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
    """The type of rows of an l1 view: single precision stays so, all else is double."""
    return np.dtype(np.float32 if stored == np.float32 else np.float64)


@jit
def renew_rows(view: View, i: Array, squares: Array, l1: Array, rewrite: Array) -> bool:
    """Rows ``i`` of an l1 view have these sums now: renew their weights, and list those that have drifted.

    ``rewrite`` says whose entries in the column trees must be rewritten with a new scale; returns whether any must.
    """
    weights, scale, mark, drifted = view.weights.data, view.scale, view.mark, view.drifted
    counters, bound = view.counters, view.bound
    some = False
    for k in range(i.size):
        row = i[k]
        rewrite[k] = False
        if l1[k] == 0.0:  # no entry of the row has any weight, whatever the scale
            weights[row] = 0.0
            scale[row] = 0.0
            continue
        weights[row] = squares[k] / l1[k] / l1[k]
        now = 1.0 / l1[k]
        stale = scale[row]
        if stale == now:
            continue
        if now > BAND * stale or stale > BAND * now:
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
