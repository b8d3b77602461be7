"""A block of rows of a sample matrix: a set of named arrays, with draws, queries and updates.

A :class:`~fastanchors.SampleMatrix` in memory is normally one block; a store has one per shard. Rows are numbered
inside the block. The interface to a store:

- ``block.arrays()`` returns all arrays by name. Together with the shape and ``l1`` they are the complete state.
- ``SparseBlock.from_arrays(arrays, shape, l1=…)`` and ``DenseBlock.from_arrays`` restore a block without reading the
  arrays. These may be memory maps, opened copy-on-write (mode ``"c"``) so that updates stay in memory.
- ``block.write(i, j, x)`` sets entries. A block with new non-zeros or stale scales is not ``pristine``, and has no
  ``arrays()``; ``block.rebuilt()`` returns a pristine block of the same matrix.
- ``build(A, l1=…, columns=False)`` omits the column side.
- ``block.check()`` recomputes every sum and raises if one differs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .._distinct import distinct
from ..errors import CorruptStoreError
from ..matrix.contract import Rows
from .entry_kernels import NO_SUMS, InsertedSums, renew_sums
from .l1_view import DRIFTED, NONZERO, View, fresh_view, view_scale, view_weights, with_marks
from .segment_trees import NO_SCALE, Array, Forest, build_leaves, lift
from .sparse_kernels import within
from .threads import in_threads, shares
from .tree import Tree, build_tree, draw_from_tree, renew_tree
from .tree_draws import draw

__all__ = ["Block", "Sides", "drawn", "refuse_unless"]

_CHUNK = 1 << 13  # entries written at a time, so that temporary arrays stay in the cache


class Sides(NamedTuple):
    """The entries of a block by row and by column; ``columns`` is empty in a block without a column side."""

    rows: Forest
    columns: Forest


class Block(ABC):
    """Base class of dense and sparse blocks: forests over both sides, and trees of row weights and column totals."""

    is_sparse: ClassVar[bool]

    def __init__(self, shape: tuple[int, int], view: View, sides: Sides) -> None:
        self.shape = shape
        self.view = view
        self.sides = sides

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

    def moved(self, move: Callable[[dict[str, Array]], Mapping[str, Array]]) -> Block:
        """The same matrix in the arrays that ``move`` makes of those of a block, such as maps of a file."""
        fresh = self if self.pristine else self.rebuilt()
        return self.from_arrays(move(fresh.arrays()), self.shape, l1=self.l1)

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of all arrays."""

    @abstractmethod
    def raw(self, i: Array, j: Array) -> Array:
        """The stored entries."""

    @abstractmethod
    def rows(self, indices: Array, *, view: bool) -> Rows:
        """The rows at ``indices``, of the view or as stored."""

    @abstractmethod
    def check(self) -> None: ...

    @abstractmethod
    def _put(self, i: Array, j: Array, x: Array) -> None:
        """Set entries, and update the sums of rows and columns above them."""

    @abstractmethod
    def _renew_columns(self, i: Array) -> Array:
        """Update the column trees above all entries of rows ``i``; returns their columns."""

    @abstractmethod
    def _column_square(self, j: int) -> float:
        """The squared norm of a column of the view, computed from its entries."""

    # --- properties -------------------------------------------------------------------------------------------------

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.sides.rows.data.dtype

    @property
    def entries(self) -> Array:
        """The array of stored entries; it is replaced when the block is rebuilt in place."""
        return self.sides.rows.data

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
        """Whether draws from the column side need an acceptance test."""
        return bool(self.view.counters[DRIFTED] > 0)

    @property
    def pristine(self) -> bool:
        return not self.drifted

    # --- sums -------------------------------------------------------------------------------------------------------

    @property
    def row_total(self) -> float:
        return float(self.view.weights.total[0])

    def row_weights(self, i: Array) -> Array:
        return self.view.weights.data[i]

    def squares(self, i: Array) -> Array:
        """Squared norms of the stored rows."""
        return self.sides.rows.sums[i]

    def l1_norms(self, i: Array | slice) -> Array:
        """l1 norms of the stored rows; for an l1 view only."""
        return self.sides.rows.l1_sums[i]

    @property
    def column_total(self) -> float:
        """Sum of :meth:`column_weights`: equal (up to rounding) to ``row_total`` if no scale is stale."""
        return float(self.view.totals.total[0] * self.view.bound[0])

    def column_weights(self, j: Array) -> Array:
        """Weights of the columns before rejection: F times the sums of the column trees, with their stale scales."""
        return self.view.totals.data[j] * self.view.bound[0]

    def acceptance(self, i: Array) -> Array:
        """Probability ratio / F with which a draw that ends at these rows (of non-zero weight) is accepted."""
        return (1.0 / (self.l1_norms(i) * self.view.scale[i])) ** 2 / self.view.bound[0]

    def column_squares(self, j: Array) -> Array:
        """Exact squared norms of columns of the view.

        O(1) if no scale is stale; otherwise the stale sum is corrected for the drifted rows (their weight in it is at
        most 4 times the true one, so there is no severe cancellation), or the column is summed again, whichever is
        shorter.
        """
        drifted = self.view.drifted[: self.view.counters[DRIFTED]].astype(np.int64)
        totals = self.view.totals.data[j]
        if len(drifted) == 0:
            return totals
        columns = self.sides.columns
        length = columns.end[j] - columns.begin[j] if columns.width == 0 else np.full(len(j), columns.width)
        now, stale = view_scale(self.l1_norms(drifted)), self.view.scale[drifted]
        factor = (now - stale) * (now + stale)
        for k in range(len(j)):
            if 8 * len(drifted) < length[k]:
                x = self.raw(drifted, np.full(len(drifted), j[k])).astype(np.float64)
                totals[k] += float((x * x * factor).sum())
            else:
                totals[k] = self._column_square(int(j[k]))
        return totals

    # --- draws ------------------------------------------------------------------------------------------------------

    def draw_rows(self, u: Array) -> Array:
        return draw_from_tree(self.view.weights, u)

    def draw_columns(self, u: Array) -> Array:
        """A column for each ``u`` in [0, column_total)."""
        return draw_from_tree(self.view.totals, u / self.view.bound[0])

    def draw_in_row(self, i: Array, r: Array) -> Array:
        """A column for each row ``i`` (of non-zero weight) and uniform ``r``."""
        return drawn(self.sides.rows, NO_SCALE, i, r * self.sides.rows.sums[i], self.shape[1])

    def draw_in_column(self, j: Array, r: Array) -> Array:
        """A row for each column ``j``, by the stale weights; accept it with probability :meth:`acceptance`."""
        return drawn(self.sides.columns, self.view.scale, j, r * self.sides.columns.sums[j], self.shape[0])

    # --- updates ----------------------------------------------------------------------------------------------------

    def write(self, i: Array, j: Array, x: Array) -> None:
        """Set entries in order; indices are int64, values of the block's type."""
        self.view = with_marks(self.view)
        if len(i) <= _CHUNK:
            self._write(i, j, x)
            return
        for start in range(0, len(i), _CHUNK):
            at = slice(start, start + _CHUNK)
            self._write(i[at], j[at], x[at])

    def _write(self, i: Array, j: Array, x: Array) -> None:
        """Set entries and update the trees of their rows and columns, then the weights and totals above them."""
        self._put(i, j, x)
        rewrite = np.empty(len(i), np.bool_)
        if renew_sums(i, j, *self.sides, self.view, self._inserted_sums(), rewrite):
            self._rewrite(i[rewrite])

    def _inserted_sums(self) -> InsertedSums:
        """Sums of inserted entries, which are stored separately."""
        return NO_SUMS

    def _rewrite(self, i: Array) -> None:
        """Update the entries of rows with a new scale in the column trees."""
        if self.has_columns:
            self._renew_totals(self._renew_columns(distinct(i)))

    def _renew_totals(self, j: Array) -> None:
        """Update the totals of columns after their trees have changed."""
        renew_tree(*self.view.totals, j)


def refuse_unless(sound: bool) -> None:
    """Raise if a kernel found indices outside the block, which can only come from a damaged file."""
    if not sound:
        raise CorruptStoreError("indices are outside the matrix; run fa.verify, and restore the store from a copy")


def build_forest(forest: Forest, scale: Array) -> None:
    """Build every tree of a forest of step 1; threads work on ranges of segments."""
    begin, end, other, data, nodes, sums, l1_nodes, l1_sums, width, _ = forest
    if len(sums) == 0:
        return

    def work(low: int, high: int) -> None:
        build_leaves(data, other, scale, begin, end, width, nodes, sums, l1_nodes, l1_sums, low, high)
        lift_forest(forest, low, high)

    cuts = [cut // width if width else int(np.searchsorted(begin, cut)) for cut in shares(len(data), 1 << 16)[1:-1]]
    in_threads(work, [0, *cuts, len(sums)])


def lift_forest(forest: Forest, low: int, high: int) -> None:
    """Compute the sums above the leaf blocks."""
    lift(forest.begin, forest.end, forest.width, forest.nodes, forest.sums, low, high)
    if forest.l1_sums.size > 0:
        lift(forest.begin, forest.end, forest.width, forest.l1_nodes, forest.l1_sums, low, high)


def without_sums(forest: Forest) -> Forest:
    """The same forest with new arrays for its sums, to be recomputed; those of segments are zero."""
    return forest._replace(
        nodes=forest.nodes.copy(),
        sums=np.zeros_like(forest.sums),
        l1_nodes=forest.l1_nodes.copy(),
        l1_sums=np.zeros_like(forest.l1_sums),
    )


def drawn(forest: Forest, scale: Array, s: Array, u: Array, limit: int) -> Array:
    """Draw one entry of each segment ``s`` for ``u`` in [0, sum of the segment); returns its other index."""
    found = draw(forest, scale, s, u)
    refuse_unless(within(found, limit))
    return found


def view_arrays(view: View, *, own_weights: bool) -> dict[str, Array]:
    """The arrays of a pristine view; for ``normalize=None`` the weights are the row sums themselves."""
    arrays = {"weight_nodes": view.weights.nodes, "weight_total": view.weights.total, "counters": view.counters}
    if own_weights:
        arrays |= {"scale": view.scale, "weights": view.weights.data}
    if view.totals.data.size > 0:
        arrays |= {"total_nodes": view.totals.nodes, "total": view.totals.total}
    return arrays


def view_from_arrays(arrays: Mapping[str, Array], row_sums: Array, column_sums: Array) -> View:
    """The view of a pristine block, from arrays that may be damaged."""
    counters = arrays["counters"]
    refuse_unless(0 <= counters[NONZERO] <= arrays["data"].size and counters[DRIFTED] == 0)
    return view_of_arrays(arrays, row_sums, column_sums)


def view_of_arrays(arrays: Mapping[str, Array], row_sums: Array, column_sums: Array) -> View:
    """The view with those weights, totals, scales and counters, and without marks."""
    none = np.zeros(0)
    weights = Tree(arrays.get("weights", row_sums), arrays.get("weight_nodes", none), arrays["weight_total"])
    totals = Tree(column_sums, arrays.get("total_nodes", none), arrays.get("total", none))
    return fresh_view(weights, totals, arrays.get("scale", none), 0)._replace(counters=arrays["counters"])


def check_view(block: Block, column_sums: Array) -> None:
    """Raise if a weight or a total does not match the sums of rows and columns."""
    every = np.arange(block.shape[0])
    l1 = block.l1_norms(every) if block.l1 else NO_SCALE
    check_equal("row weights", (block.view.weights.data, view_weights(block.squares(every), l1)))
    check_tree(block.view.weights, "row weights")
    if block.has_columns:
        check_equal("column totals", (block.view.totals.data, column_sums))
        check_tree(block.view.totals, "column totals")


def check_forest(forest: Forest, fresh: Forest, name: str) -> None:
    """Raise if the sums of a forest differ from recomputed ones."""
    check_equal(name, *zip(forest[4:8], fresh[4:8], strict=True))


def check_tree(tree: Tree, name: str) -> None:
    """Raise if a sum of ``tree`` does not match its weights."""
    fresh = Tree(tree.data, np.zeros_like(tree.nodes), np.zeros(1))
    build_tree(fresh)
    check_equal(name, (tree.nodes, fresh.nodes), (tree.total, fresh.total))


def check_equal(name: str, *pairs: tuple[Array, Array]) -> None:
    """Raise if two arrays of sums differ in a single bit."""
    for kept, fresh in pairs:
        if not np.array_equal(kept, fresh):
            raise CorruptStoreError(f"the sums of the {name} differ from those of their entries; rebuild the matrix")
