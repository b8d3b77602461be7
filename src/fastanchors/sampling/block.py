"""A block of rows of a sample matrix: a bag of named plain arrays, and the draws and queries they answer.

:class:`~fastanchors.SampleMatrix` in memory is normally one block; a store has one per shard. Rows are numbered inside
the block. What a store needs to know:

- ``block.arrays()`` returns every array of the block by name. Nothing else is kept but the shape and whether the view
  is l1-normalised. Save them as they are.
- ``SparseBlock.from_arrays(arrays, shape, l1=…)`` and ``DenseBlock.from_arrays`` take them back without reading them:
  they may be memory maps, opened copy-on-write (mode ``"c"``) so that updates stay in memory.
- ``block.write(i, j, x)`` sets entries; a block with new non-zeros or drifted scales is not ``pristine``, and
  ``block.rebuilt()`` returns a fresh, pristine block of the same matrix. ``arrays()`` is of a pristine block only.
- ``build(A, l1=…, columns=False)`` leaves out the column side.
- ``block.check()`` recomputes every sum and raises where one differs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..errors import CorruptStoreError
from .access import Rows
from .forest import Array, Tree, draw_from_tree, tree_build
from .view import DRIFTED, LIFT, NONZERO, View, fresh_view

__all__ = ["Block", "in_threads", "make_block"]

THREADS = 2


def make_block(A: Rows, *, l1: bool, columns: bool = True) -> Block:
    """A block that owns its arrays, from a checked CSR or C-ordered array (which is copied)."""
    from .dense_block import DenseBlock
    from .sparse_block import SparseBlock

    return (SparseBlock if sp.issparse(A) else DenseBlock).build(A, l1=l1, columns=columns)


def in_threads(work: Callable[[int, int], Any], bounds: list[int]) -> list[Any]:
    """``work(low, high)`` over consecutive bounds, in threads; what it computes must not depend on the bounds."""
    pairs = [(low, high) for low, high in pairwise(bounds) if low < high]
    if len(pairs) == 1:
        return [work(*pairs[0])]
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(lambda pair: work(*pair), pairs))


class Block(ABC):
    """What dense and sparse blocks share: the trees of row weights and column totals, and the scales."""

    def __init__(self, shape: tuple[int, int], view: View) -> None:
        self.shape = shape
        self.view = view

    @classmethod
    @abstractmethod
    def build(cls, A: Rows, *, l1: bool, columns: bool = True) -> Block: ...

    @classmethod
    @abstractmethod
    def from_arrays(cls, arrays: Mapping[str, Array], shape: tuple[int, int], *, l1: bool) -> Block: ...

    @abstractmethod
    def arrays(self) -> dict[str, Array]: ...

    @abstractmethod
    def rebuilt(self) -> Block: ...

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]: ...

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of every array held."""

    @abstractmethod
    def raw(self, i: Array, j: Array) -> Array:
        """The stored entries."""

    @abstractmethod
    def l1_norms(self, i: Array) -> Array:
        """l1 norms of the stored rows; kept for an l1 view only."""

    @abstractmethod
    def squares(self, i: Array) -> Array:
        """Squared norms of the stored rows."""

    @abstractmethod
    def column_squares(self, j: Array) -> Array:
        """Exact squared norms of columns of the view."""

    @abstractmethod
    def draw_in_row(self, i: Array, r: Array) -> Array:
        """A column for each row ``i`` (of non-zero weight) and uniform ``r``."""

    @abstractmethod
    def draw_in_column(self, j: Array, r: Array) -> Array:
        """A row for each column ``j``, by the stale weights: to be accepted with :meth:`acceptance`."""

    @abstractmethod
    def write(self, i: Array, j: Array, x: Array) -> None: ...

    @abstractmethod
    def rows(self, indices: Array, *, view: bool) -> Rows:
        """Those rows, of the view or as stored."""

    @abstractmethod
    def check(self) -> None: ...

    @property
    def l1(self) -> bool:
        return self.view.scale.size > 0

    @property
    def has_columns(self) -> bool:
        return self.view.totals.data.size > 0

    @property
    def nnz(self) -> int:
        return int(self.view.counters[NONZERO])

    @property
    def drifted(self) -> bool:
        """Whether draws from the column side must be accepted or rejected."""
        return bool(self.view.counters[DRIFTED] > 0)

    @property
    def pristine(self) -> bool:
        return not self.drifted

    @property
    def row_total(self) -> float:
        return float(self.view.weights.total[0])

    @property
    def _lift(self) -> float:
        """What the column trees must be multiplied by to bound the true weights from above."""
        return LIFT * LIFT if self.drifted else 1.0

    @property
    def column_total(self) -> float:
        """A bound on the sum of the squares of the view, from the column trees; exact where nothing has drifted."""
        return float(self.view.totals.total[0]) * self._lift

    def row_weights(self, i: Array) -> Array:
        return self.view.weights.data[i]

    def column_weights(self, j: Array) -> Array:
        """The same bound on the squares of columns."""
        return self.view.totals.data[j] * self._lift

    def draw_rows(self, u: Array) -> Array:
        return draw_from_tree(self.view.weights, u)

    def draw_columns(self, u: Array) -> Array:
        """A column for each ``u``, 0 ≤ u < ``column_total``, by the stale weights."""
        return draw_from_tree(self.view.totals, u / self._lift)

    def acceptance(self, i: Array) -> Array:
        """The weight of these rows (which is not zero) over their bound in the column trees of a drifted block."""
        return (1.0 / (self.l1_norms(i) * self.view.scale[i] * LIFT)) ** 2


def view_arrays(view: View, *, own_weights: bool) -> dict[str, Array]:
    """The arrays of a pristine view; for ``normalize=None`` the weights are the row sums themselves."""
    arrays = {"weight_nodes": view.weights.nodes, "weight_total": view.weights.total, "counters": view.counters}
    if own_weights:
        arrays |= {"scale": view.scale, "weights": view.weights.data}
    if view.totals.data.size > 0:
        arrays |= {"total_nodes": view.totals.nodes, "total": view.totals.total}
    return arrays


def view_from_arrays(arrays: Mapping[str, Array], row_sums: Array, column_sums: Array) -> View:
    none = np.zeros(0)
    weights = Tree(arrays.get("weights", row_sums), arrays["weight_nodes"], arrays["weight_total"])
    totals = Tree(column_sums, arrays.get("total_nodes", none), arrays.get("total", none))
    return fresh_view(weights, totals, arrays.get("scale", none), 0)._replace(counters=arrays["counters"])


def check_tree(tree: Tree, name: str) -> None:
    """Raise where a sum of ``tree`` is not that of its weights."""
    fresh = Tree(tree.data, np.zeros_like(tree.nodes), np.zeros(1))
    tree_build(fresh)
    check_equal(name, (tree.nodes, fresh.nodes), (tree.total, fresh.total))


def check_equal(name: str, *pairs: tuple[Array, Array]) -> None:
    """Raise where two arrays of sums differ in a single bit."""
    for kept, fresh in pairs:
        if not np.array_equal(kept, fresh):
            raise CorruptStoreError(f"the sums of the {name} differ from those of their entries; rebuild the matrix")
