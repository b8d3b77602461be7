"""A sparse block: the matrix by row and by column (CSR and CSC), and a forest of sum trees over each side.

Both sides store the same entries, so that drawing inside a column is as fast as inside a row. Their arrays never grow:
an entry set to zero keeps its place with weight zero, and a new non-zero goes to the inserted entries
(:mod:`.inserted_entries`). When these exceed 1/24 of the block, the block is rebuilt.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import scipy.sparse as sp

from ..errors import CorruptStoreError
from ..matrix.contract import Rows
from .entry_kernels import NO_SUMS, InsertedSums, set_stored
from .gather import Taken, gathered
from .inserted_entries import InsertedEntries, Pools
from .l1_view import NONZERO, View, fresh_view, view_dtype, view_scale, view_weights, with_marks
from .merging import MakeArrays, by_column, merged
from .row_block import (
    Block,
    Sides,
    build_forest,
    check_forest,
    check_view,
    drawn,
    refuse_unless,
    view_arrays,
    view_from_arrays,
    without_sums,
)
from .segment_trees import FAN_BITS, LEAF, NO_SCALE, Array, Forest, fresh_nodes, renew
from .sparse_kernels import find, put, within
from .tree import fresh_tree, renew_tree

__all__ = ["SparseBlock"]

_INSERTED_AT_LEAST = 4096
_INSERTED_SHARE = 24  # rebuild when there is one inserted entry per this many others


class SparseBlock(Block):
    """See :mod:`fastanchors.sampling.row_block`."""

    is_sparse = True

    def __init__(self, shape: tuple[int, int], view: View, sides: Sides, indptrs: tuple[Array, Array]) -> None:
        super().__init__(shape, view, sides)
        self._indptrs = indptrs
        self.inserted: InsertedEntries | None = None
        self.make_arrays: MakeArrays | None = None  # for the entries when the block is rebuilt; None: in memory

    @classmethod
    def build(cls, A: Rows, *, l1: bool, columns: bool = True) -> SparseBlock:
        """From canonical CSR (sorted, no duplicates)."""
        indptr, indices = _index_type(A.indptr, A.nnz), _index_type(A.indices, max(A.shape))
        owned = sp.csr_array((A.data.copy(), indices, indptr), shape=A.shape, copy=False)
        return cls._adopt(owned, by_column(owned, columns), l1=l1)

    @classmethod
    def _adopt(cls, A: Rows, C: Rows, *, l1: bool) -> SparseBlock:
        """From the arrays of canonical CSR and CSC; these become arrays of the block."""
        rows = _forest(A.indptr, A.indices, A.data, l1=l1)
        build_forest(rows, NO_SCALE)
        scale = view_scale(rows.l1_sums)
        other = _forest(C.indptr, C.indices, C.data, l1=False)
        build_forest(other, scale)
        weights = view_weights(rows.sums, rows.l1_sums)
        nonzero = int(np.count_nonzero(A.data))
        view = fresh_view(fresh_tree(weights), fresh_tree(other.sums), scale, nonzero)
        return cls(A.shape, view, Sides(rows, other), (A.indptr, C.indptr))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], shape: tuple[int, int], *, l1: bool) -> SparseBlock:
        arrays = {name: np.asarray(array) for name, array in arrays.items()}
        indptr = arrays["indptr"]
        rows = Forest(
            indptr[:-1],
            indptr[1:],
            arrays["indices"],
            arrays["data"],
            arrays.get("row_nodes", NO_SCALE),
            arrays["row_sums"],
            arrays.get("l1_nodes", NO_SCALE),
            arrays.get("l1_sums", NO_SCALE),
        )
        across = arrays.get("column_indptr", indptr[:1])
        columns = Forest(
            across[:-1],
            across[1:],
            arrays.get("column_indices", rows.other[:0]),
            arrays.get("column_data", rows.data[:0]),
            arrays.get("column_nodes", NO_SCALE),
            arrays.get("column_sums", NO_SCALE),
            NO_SCALE,
            NO_SCALE,
        )
        view = view_from_arrays(arrays, rows.sums, columns.sums)
        return cls(shape, view, Sides(rows, columns), (indptr, across))

    def arrays(self) -> dict[str, Array]:
        if not self.pristine:
            raise ValueError("arrays() needs a pristine block; call rebuilt() first")
        rows, columns = self.sides
        arrays = {
            "indptr": self._indptrs[0],
            "indices": rows.other,
            "data": rows.data,
            "row_nodes": rows.nodes,
            "row_sums": rows.sums,
        }
        if self.l1:
            arrays |= {"l1_nodes": rows.l1_nodes, "l1_sums": rows.l1_sums}
        if self.has_columns:
            arrays |= {
                "column_indptr": self._indptrs[1],
                "column_indices": columns.other,
                "column_data": columns.data,
                "column_nodes": columns.nodes,
                "column_sums": columns.sums,
            }
        return arrays | view_arrays(self.view, own_weights=self.l1)

    @property
    def pristine(self) -> bool:
        return not self.drifted and self.inserted is None

    def rebuilt(self) -> SparseBlock:
        if self.make_arrays is not None:
            return self._adopt(*merged(self, self.make_arrays), l1=self.l1)
        stored = self.rows(np.arange(self.shape[0]), view=False)
        return self._adopt(stored, by_column(stored, self.has_columns), l1=self.l1)

    @property
    def nbytes(self) -> int:
        rows, columns = self.sides
        # ``end`` is ``begin`` shifted by one: the same memory.
        held = [rows.begin, columns.begin, *rows[2:8], *columns[2:8]]
        held += [*self.view.weights, *self.view.totals, *self.view[2:]]
        held += self.inserted.arrays() if self.inserted is not None else []
        return sum({id(a): a.nbytes for a in held}.values())

    # --- queries ----------------------------------------------------------------------------------------------------

    @property
    def longest(self) -> int:
        """An upper bound of the entries of a row."""
        new = 0 if self.inserted is None else int(self.inserted.rows.length.max(initial=0))
        return min(self.shape[1], int(np.diff(self._indptrs[0]).max(initial=0)) + new)

    def row_entries(self, i: Array) -> Array:
        """Numbers of stored entries of rows; within the shape, whatever the pointers of a forged file are."""
        rows = self.sides.rows
        found = rows.end[i].astype(np.int64) - rows.begin[i]
        if self.inserted is not None:
            found += self.inserted.rows.length[i]
        return np.clip(found, 0, self.shape[1])

    def raw(self, i: Array, j: Array) -> Array:
        rows = self.sides.rows
        at, _, every = _find(rows, i, j)
        if every:
            return rows.data[at]
        known = at >= 0
        out = np.zeros(len(i), self.dtype)
        out[known] = rows.data[at[known]]
        if self.inserted is not None:
            slot = self.inserted.find(i, j)
            out[slot >= 0] = self.inserted.values[slot[slot >= 0]]
        return out

    def squares(self, i: Array) -> Array:
        sums = self.sides.rows.sums[i]
        return sums if self.inserted is None else sums + self.inserted.rows.forest.sums[i]

    def l1_norms(self, i: Array | slice) -> Array:
        sums = self.sides.rows.l1_sums[i]
        return sums if self.inserted is None else sums + self.inserted.rows.forest.l1_sums[i]

    def _column_square(self, j: int) -> float:
        forests = [self.sides.columns, *([self.inserted.columns.forest] if self.inserted is not None else [])]
        total = 0.0
        for forest in forests:
            at = slice(forest.begin[j], forest.end[j])
            refuse_unless(within(forest.other[at], self.shape[0]))
            total += float(((forest.data[at] * view_scale(self.l1_norms(forest.other[at]))) ** 2).sum())
        return total

    def rows(self, indices: Array, *, view: bool) -> Rows:
        indices = indices.astype(np.int64, copy=False)
        dtype = view_dtype(self.dtype) if view and self.l1 else self.dtype
        taken = self.taken(indices, 0, np.arange(len(indices)), view=view)
        return gathered([taken], (len(indices), self.shape[1]), dtype)

    def taken(self, wanted: Array, first: int, places: Array, *, view: bool) -> Taken:
        """Rows ``wanted[places]`` − ``first`` for :func:`.gather.gathered`."""
        rows = self.sides.rows
        if self.inserted is None:
            zeros = bool(self.view.counters[NONZERO] < len(rows.data))
            l1 = rows.l1_sums if view else NO_SCALE
            return Taken(rows.begin, rows.end, rows.other, rows.data, l1, wanted, first, places, zeros)
        indices = wanted[places] - first
        merged = self._with_inserted(indices)
        l1 = self.l1_norms(indices) if view and self.l1 else NO_SCALE
        numbers = np.empty(len(wanted), np.int64)
        numbers[places] = np.arange(len(places))
        return Taken(merged.indptr[:-1], merged.indptr[1:], merged.indices, merged.data, l1, numbers, 0, places)

    def _with_inserted(self, indices: Array) -> Rows:
        """The stored rows at ``indices``, with their inserted entries merged in."""
        assert self.inserted is not None
        rows, pools, places = self.sides.rows, self.inserted.rows, np.arange(len(indices))
        begin = pools.forest.begin
        values = self.inserted.values[pools.slot[: pools.used[0]]]
        own = Taken(rows.begin, rows.end, rows.other, rows.data, NO_SCALE, indices, 0, places)
        new = own._replace(begin=begin, end=begin + pools.length, other=pools.forest.other, data=values)
        base, more = (gathered([tier], (len(indices), self.shape[1]), self.dtype) for tier in (own, new))
        more.has_sorted_indices = False
        more.sort_indices()
        return base + more

    # --- draws ------------------------------------------------------------------------------------------------------

    def draw_in_row(self, i: Array, r: Array) -> Array:
        if self.inserted is None:
            return super().draw_in_row(i, r)
        return _draw_tiers(self.sides.rows, self.inserted.rows, NO_SCALE, i, r, self.shape[1])

    def draw_in_column(self, j: Array, r: Array) -> Array:
        if self.inserted is None:
            return super().draw_in_column(j, r)
        return _draw_tiers(self.sides.columns, self.inserted.columns, self.view.scale, j, r, self.shape[0])

    # --- updates ----------------------------------------------------------------------------------------------------

    def _write(self, i: Array, j: Array, x: Array) -> None:
        if not self._set_stored(i, j, x):
            super()._write(i, j, x)
        if self.inserted is not None and self.inserted.count > max(
            _INSERTED_AT_LEAST, len(self.sides.rows.data) // _INSERTED_SHARE
        ):
            fresh = self.rebuilt()
            self.sides, self.view, self.inserted = fresh.sides, with_marks(fresh.view), None
            self._indptrs = fresh._indptrs

    def _set_stored(self, i: Array, j: Array, x: Array) -> bool:
        """Do :meth:`_write` in one kernel and return True, if every entry is stored already; else change nothing."""
        rewrite = np.empty(len(i), np.bool_)
        done = set_stored(i, j, x, *self.sides, self.view, self._inserted_sums(), rewrite)
        refuse_unless(done != -2)
        if done > 0:
            self._rewrite(i[rewrite])
        return bool(done >= 0)

    def _inserted_sums(self) -> InsertedSums:
        inserted = self.inserted
        if inserted is None:
            return NO_SUMS
        return InsertedSums(inserted.rows.forest.sums, inserted.rows.forest.l1_sums, inserted.columns.forest.sums)

    def _put(self, i: Array, j: Array, x: Array) -> None:
        rows, columns = self.sides
        at, leaf, every = _find(rows, i, j)
        if not every:
            known = at >= 0
            if not known.any():
                self._put_inserted(i, j, x)
                return
            self._put_inserted(i[~known], j[~known], x[~known])
            i, j, x, at, leaf = i[known], j[known], x[known], at[known], leaf[known]
        if self.has_columns:
            across, leaf_across, every = _find(columns, j, i)
            refuse_unless(every)
            columns.data[across] = x
            renew(columns, self.view.scale, j, leaf_across)
        self.view.counters[NONZERO] += put(rows.data, at, x)
        renew(rows, NO_SCALE, i, leaf)

    def _put_inserted(self, i: Array, j: Array, x: Array) -> None:
        """Set entries that the compressed arrays do not have."""
        if self.inserted is None:
            if not x.any():
                return
            self._start_inserted()
        assert self.inserted is not None
        slots = self.inserted.enter(i, j, x, self.view.scale)
        held = slots >= 0
        i, j, x, slots = i[held], j[held], x[held], slots[held]
        self.view.counters[NONZERO] += put(self.inserted.values, slots, x)
        for pools, scale, s in ((self.inserted.rows, NO_SCALE, i), (self.inserted.columns, self.view.scale, j)):
            if pools.length.size:
                pools.forest.data[pools.place[slots]] = x
                pools.renew(scale, s, slots)

    def _start_inserted(self) -> None:
        self.inserted = InsertedEntries(*self.sides, self.shape[1])
        # Totals, and row weights for ``normalize=None``, are now sums of two tiers and need their own arrays.
        weights, totals = self.view.weights, self.view.totals
        if not self.l1:
            weights = weights._replace(data=weights.data.copy())
        self.view = self.view._replace(weights=weights, totals=totals._replace(data=totals.data.copy()))

    def _renew_columns(self, i: Array) -> Array:
        stored = self.rows(i, view=False)
        rows, j = np.repeat(i, np.diff(stored.indptr)), stored.indices.astype(np.int64)
        at, leaf, _ = _find(self.sides.columns, j, rows)
        known = at >= 0
        renew(self.sides.columns, self.view.scale, j[known], leaf[known])
        if self.inserted is not None:
            i, k = rows[~known], j[~known]
            slots = self.inserted.find(i, k)
            refuse_unless(within(slots, self.inserted.count))
            self.inserted.columns.renew(self.view.scale, k, slots)
        return j

    def _renew_totals(self, j: Array) -> None:
        if self.inserted is not None:
            self.view.totals.data[j] = self.sides.columns.sums[j] + self.inserted.columns.forest.sums[j]
        renew_tree(*self.view.totals, j)

    def _check_sides(self) -> None:
        """Raise where the columns have other entries than the rows."""
        rows, columns = self.sides
        turned = _csr_of(rows, self.shape).tocsc()
        pairs = [(turned.indptr[:-1], columns.begin), (turned.indices, columns.other), (turned.data, columns.data)]
        if not all(np.array_equal(found, kept) for found, kept in pairs):
            raise CorruptStoreError("the columns have other entries than the rows; restore it from a copy")

    def check(self) -> None:
        check_segments(self.sides.rows, self.shape[1], "rows")
        check_segments(self.sides.columns, self.shape[0], "columns")
        if self.has_columns:
            self._check_sides()
        tiers = [("rows", self.sides.rows, NO_SCALE), ("columns", self.sides.columns, self.view.scale)]
        if self.inserted is not None:
            tiers += [("new rows", self.inserted.rows.forest, NO_SCALE)]
            tiers += [("new columns", self.inserted.columns.forest, self.view.scale)]
        for name, forest, scale in tiers:
            fresh = without_sums(forest)
            build_forest(fresh, scale)
            check_forest(forest, fresh, name)
        inserted = self.inserted.columns.forest.sums if self.inserted is not None else 0.0
        check_view(self, self.sides.columns.sums + inserted)


def _csr_of(side: Forest, shape: tuple[int, int]) -> Rows:
    """The entries of a side whose segments have been checked, as CSR."""
    return sp.csr_array((side.data, side.other, np.append(side.begin, side.end[-1:])), shape=shape)


def check_segments(side: Forest, width: int, what: str) -> None:
    """Raise if segments or indices are out of order or outside the arrays; building the trees does not check them."""
    begin, end, other = side.begin, side.end, side.other
    if begin.size == 0:
        return
    length = end - begin
    whole = begin[0] == 0 and end[-1] == other.size and length.min() >= 0
    falls = np.flatnonzero(np.diff(other) <= 0) + 1  # where the next segment begins, and nowhere else
    if not whole or not within(other, width) or not np.isin(falls, begin).all():
        raise CorruptStoreError(f"the {what} are not a valid sparse matrix; restore it from a copy")
    kept = [side.nodes, *([side.l1_nodes] if side.l1_sums.size else [])]
    if length.max() > LEAF and min(nodes.size for nodes in kept) < other.size >> FAN_BITS:
        raise CorruptStoreError(f"the trees of the {what} are missing; restore it from a copy")


def _index_type(index: Array, bound: int) -> Array:
    """A copy as int32 if every number up to ``bound`` fits, else int64."""
    return index.astype(np.int32 if bound <= np.iinfo(np.int32).max else np.int64)


def _forest(indptr: Array, indices: Array, data: Array, *, l1: bool) -> Forest:
    segments, kept = len(indptr) - 1, (len(indptr) - 1 if l1 else 0)
    nodes, l1_nodes = fresh_nodes(len(data)), fresh_nodes(len(data) if l1 else 0)
    return Forest(indptr[:-1], indptr[1:], indices, data, nodes, np.zeros(segments), l1_nodes, np.zeros(kept))


def _find(forest: Forest, s: Array, other: Array) -> tuple[Array, Array, bool]:
    """Positions of entries (-1: not found), their leaf blocks, and whether all were found."""
    at, leaf = np.empty(len(s), np.int64), np.empty(len(s), np.int64)
    return at, leaf, find(forest.begin, forest.end, forest.other, s, other, at, leaf)


def _draw_tiers(base: Forest, pools: Pools, scale: Array, s: Array, r: Array, limit: int) -> Array:
    """Draw one entry of each segment ``s`` for the uniforms ``r``: first the tier, then the entry."""
    sums, inserted = base.sums[s], pools.forest.sums[s]
    u = r * (sums + inserted)
    is_inserted = (sums == 0) | ((u >= sums) & (inserted > 0))
    out = np.empty(len(s), np.int64)
    out[~is_inserted] = drawn(base, scale, s[~is_inserted], u[~is_inserted], limit)
    out[is_inserted] = drawn(pools.forest, scale, s[is_inserted], (u - sums)[is_inserted], limit)
    return out
