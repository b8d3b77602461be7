"""A sum tree over a vector of weights (row weights or column totals), in the layout of :mod:`.segment_trees`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._jit import jit
from .segment_trees import FAN, FAN_BITS, LEAF, LEAF_BITS, NO_INDEX, NO_SCALE, Array, Forest, Int, fresh_nodes
from .tree_draws import draw

__all__ = ["Tree", "build_tree", "draw_from_tree", "fresh_tree", "renew_tree"]


class Tree(NamedTuple):
    """Weights, the sums above them, and the ``total``."""

    data: Array
    nodes: Array
    total: Array


@jit
def _span(values: Array, start: Int, stop: Int) -> float:
    total = 0.0
    for at in range(start, stop):
        total += values[at]
    return total


@jit
def renew_tree(data: Array, nodes: Array, total: Array, t: Array) -> None:
    """Recompute every sum above the weights ``t``, which have changed, once.

    A node that is to be recomputed is marked by −1, which no sum can be; this finds duplicates without sorting.
    """
    work = t.copy()
    waiting = t.size
    leaves = True  # whether the children are the weights themselves
    offset = np.int64(0)
    count = data.size
    while count > (LEAF if leaves else FAN):
        bits = LEAF_BITS if leaves else FAN_BITS
        above = np.int64(0) if leaves else offset + count
        distinct = 0
        for k in range(waiting):
            parent = work[k] >> bits
            if nodes[above + parent] != -1.0:
                nodes[above + parent] = -1.0
                work[distinct] = parent
                distinct += 1
        waiting = distinct
        for k in range(waiting):
            start = work[k] << bits
            stop = min(start + (1 << bits), count)
            nodes[above + work[k]] = _span(data, start, stop) if leaves else _span(nodes, offset + start, offset + stop)
        leaves = False
        offset = above
        count = ((count - 1) >> bits) + 1
    total[0] = _span(data, 0, count) if leaves else _span(nodes, offset, offset + count)


def build_tree(tree: Tree) -> None:
    """Compute all sums."""
    starts = np.arange(0, max(1, len(tree.data)), LEAF)
    renew_tree(tree.data, tree.nodes, tree.total, starts)


def fresh_tree(weights: Array) -> Tree:
    """A tree over ``weights`` (float64, not copied)."""
    tree = Tree(weights, fresh_nodes(len(weights)), np.zeros(1))
    build_tree(tree)
    return tree


def draw_from_tree(tree: Tree, u: Array) -> Array:
    """The index that contains each ``u``, 0 ≤ u < total."""
    none = NO_SCALE
    one = Forest(NO_INDEX, NO_INDEX, NO_INDEX, tree.data, tree.nodes, none, none, none, width=len(tree.data))
    return draw(one, none, np.zeros(len(u), np.int64), u, power=1)
