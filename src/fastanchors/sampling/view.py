"""What a block keeps of the view: row weights, column sums, and the scale of each row in the column trees.

The l1 view divides each row by its l1 norm without storing the quotients. A row's own tree does not care about the
factor. The column trees hold (a_ij · scale_i)², and ``scale_i`` would have to change with every change of the row: so
it is allowed to be stale, within bounds: 1/l1_i ≤ LIFT · scale_i. Where a row has drifted, a draw from a column tree is
accepted with probability (1/(l1_i · scale_i · LIFT))², which makes it exact, and only when the two drift apart by more
than a constant factor are the row's entries in the column trees rewritten: O(log m + log n) amortised per update. A
matrix never touched has scale exactly 1/l1, and there every draw is accepted as it is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._jit import jit
from .forest import Array, Int, Tree, tree_path

__all__ = [
    "DRIFTED",
    "LIFT",
    "NONZERO",
    "View",
    "fresh_view",
    "inverse",
    "row_changed",
    "view_dtype",
    "view_scale",
    "view_weights",
    "with_marks",
]

LIFT = 1.25  # scale · l1 is at least 1/LIFT: the l1 norm of a row never touched may fall by a fifth
HEADROOM = 1.25  # scale · l1 after a refresh: the norm may fall by a third before the next
SLACK = 3.2  # scale · l1 is at most this: acceptance is never below 1/(SLACK · LIFT)² = 1/16

NONZERO, DRIFTED = 0, 1  # places in ``counters``


class View(NamedTuple):
    """``weights``: ‖row‖² of the view; ``totals``: sums of the column trees (with stale scales).

    ``scale`` is empty for ``normalize=None``. ``drifted[:counters[DRIFTED]]`` lists the rows whose scale may differ
    from 1/l1, each once (``mark``); both are allocated with the first update.
    """

    weights: Tree
    totals: Tree
    scale: Array
    mark: Array
    drifted: Array
    counters: Array


def fresh_view(weights: Tree, totals: Tree, scale: Array, nonzero: int) -> View:
    drifted = np.zeros(0, np.int32 if scale.size < 2**31 else np.int64)
    return View(weights, totals, scale, np.zeros(0, np.uint8), drifted, np.array([nonzero, 0], np.int64))


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
def inverse(l1: float) -> float:
    """The factor of a row in the view: 1/l1, and 0 for a row of zeros."""
    return 1.0 / l1 if l1 > 0.0 else 0.0


@jit
def row_changed(view: View, i: Int, square: float, l1: float) -> bool:
    """Row ``i`` now has these sums: renew its weight; True if its entries in the column trees must be rewritten."""
    if view.scale.size == 0:
        tree_path(view.weights, i, square)
        return False
    if l1 == 0.0:
        tree_path(view.weights, i, 0.0)
        view.scale[i] = 0.0
        return False
    tree_path(view.weights, i, square / l1 / l1)
    now = 1.0 / l1
    stale = view.scale[i]
    if stale == now:
        return False
    if view.mark[i] == 0:
        view.mark[i] = 1
        view.drifted[view.counters[DRIFTED]] = i
        view.counters[DRIFTED] += 1
    if now <= LIFT * stale and stale <= SLACK * now:
        return False
    view.scale[i] = HEADROOM * now
    return True
