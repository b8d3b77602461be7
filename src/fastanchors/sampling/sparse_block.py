"""A sparse block: the matrix by row and by column (CSR and CSC), and a forest of sum trees over each side.

The two sides hold the same entries, so that drawing inside a column is as fast as inside a row. Neither ever moves:
an entry set to zero keeps its place with weight zero, a new non-zero goes to the loose tier (:mod:`.loose`), and when
that has grown to 1/16 of the block, the block is rebuilt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from .access import Rows
from .block import THREADS, Block, check_equal, check_tree, in_threads, view_arrays, view_from_arrays
from .forest import Array, Forest, build_segments, draw_many, fresh_nodes, fresh_tree
from .loose import ENTRIES, fresh_loose, grow_loose, no_loose
from .sparse_kernels import (
    Sides,
    column_squares,
    count_rows,
    fill_rows,
    lookup,
    put,
    put_loose,
    renew_rows,
    renew_totals,
    rescale,
    rescale_loose,
)
from .view import NONZERO, View, fresh_view, view_dtype, view_scale, view_weights, with_marks

__all__ = ["SparseBlock"]

_NONE = np.zeros(0)
_LOOSE_AT_LEAST = 4096
_LOOSE_SHARE = 16  # rebuild when there is one loose entry to this many others


class SparseBlock(Block):
    """See :mod:`fastanchors.sampling.block`."""

    def __init__(self, shape: tuple[int, int], view: View, sides: Sides, indptrs: tuple[Array, Array]) -> None:
        super().__init__(shape, view)
        self.sides = sides
        self._indptrs = indptrs
        self.loose = no_loose(*sides)

    @classmethod
    def build(cls, A: Rows, *, l1: bool, columns: bool = True) -> SparseBlock:
        """From canonical CSR (sorted, no duplicates)."""
        indptr, indices = _index_type(A.indptr, A.nnz), _index_type(A.indices, max(A.shape))
        owned = sp.csr_array((A.data.copy(), indices, indptr), shape=A.shape, copy=False)
        return cls._adopt(owned, l1=l1, columns=columns)

    @classmethod
    def _adopt(cls, A: Rows, *, l1: bool, columns: bool) -> SparseBlock:
        rows = _forest(A.indptr, A.indices, A.data, l1=l1)
        _build(rows, _NONE)
        scale = view_scale(rows.l1_sums)
        C = A.tocsc() if columns else sp.csc_array((A.data[:0], A.indices[:0], A.indptr[:1]), shape=(A.shape[0], 0))
        other = _forest(C.indptr, C.indices, C.data, l1=False)
        _build(other, scale)
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
            arrays["row_nodes"],
            arrays["row_sums"],
            arrays.get("l1_nodes", _NONE),
            arrays.get("l1_sums", _NONE),
        )
        across = arrays.get("column_indptr", indptr[:1])
        columns = Forest(
            across[:-1],
            across[1:],
            arrays.get("column_indices", rows.other[:0]),
            arrays.get("column_data", rows.data[:0]),
            arrays.get("column_nodes", _NONE),
            arrays.get("column_sums", _NONE),
            _NONE,
            _NONE,
        )
        view = view_from_arrays(arrays, rows.sums, columns.sums)
        return cls(shape, view, Sides(rows, columns), (indptr, across))

    def arrays(self) -> dict[str, Array]:
        if not self.pristine:
            raise ValueError("arrays() is of a pristine block: use rebuilt() first")
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
        return not (self.drifted or self._has_loose)

    @property
    def _has_loose(self) -> bool:
        return self.loose.keys.size > 0

    def rebuilt(self) -> SparseBlock:
        stored = self.rows(np.arange(self.shape[0]), view=False)
        return self._adopt(stored, l1=self.l1, columns=self.has_columns)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.sides.rows.data.dtype

    @property
    def nbytes(self) -> int:
        held = {id(a): a.nbytes for a in _flat((self.sides, self.view, self.loose))}
        # ``end`` is ``begin`` moved by one: the same memory.
        return sum(held.values()) - self.sides.rows.end.nbytes - self.sides.columns.end.nbytes

    def raw(self, i: Array, j: Array) -> Array:
        out = np.empty(len(i), self.dtype)
        lookup(self.sides.rows, self.loose, self.shape[1], i, j, out)
        return out

    def l1_norms(self, i: Array) -> Array:
        sums = self.sides.rows.l1_sums[i]
        return sums + self.loose.rows.l1_sums[i] if self._has_loose else sums

    def squares(self, i: Array) -> Array:
        sums = self.sides.rows.sums[i]
        return sums + self.loose.rows.sums[i] if self._has_loose else sums

    def column_squares(self, j: Array) -> Array:
        out = np.empty(len(j))
        column_squares(self.sides, self.view, self.loose, self.shape[1], j, out)
        return out

    def draw_in_row(self, i: Array, r: Array) -> Array:
        return _draw(self.sides.rows, self.loose.rows, _NONE, i, r)

    def draw_in_column(self, j: Array, r: Array) -> Array:
        return _draw(self.sides.columns, self.loose.columns, self.view.scale, j, r)

    def write(self, i: Array, j: Array, x: Array) -> None:
        self.view = with_marks(self.view)
        for start in range(0, len(i), self._loose_limit):
            at = slice(start, start + self._loose_limit)
            self._write(i[at], j[at], x[at])
            if self.loose.used[ENTRIES] > self._loose_limit:
                fresh = self.rebuilt()
                self.sides, self.view, self.loose = fresh.sides, with_marks(fresh.view), fresh.loose
                self._indptrs = fresh._indptrs

    @property
    def _loose_limit(self) -> int:
        return max(_LOOSE_AT_LEAST, len(self.sides.rows.data) // _LOOSE_SHARE)

    def _write(self, i: Array, j: Array, x: Array) -> None:
        """Side by side, then the loose tier, then what depends on the sums of rows and of columns."""
        rows, columns = self.sides
        found = np.empty(len(i), np.bool_)
        self.view.counters[NONZERO] += put(rows, _NONE, i, j, x, found)
        if self.has_columns:
            put(columns, self.view.scale, j, i, x, found)
        if not found.all():
            self._write_loose(i[~found], j[~found], x[~found])
        stale = np.empty(len(i), np.bool_)
        renew_rows(self.view, rows, self.loose, i, stale)
        if self.has_columns:
            renew_totals(self.view, columns, self.loose.columns, j)
            if stale.any():
                self._rescale(i[stale])

    def _write_loose(self, i: Array, j: Array, x: Array) -> None:
        if not self._has_loose and not x.any():
            return
        done, n = 0, self.shape[1]
        while (done := put_loose(self.loose, self.view, n, i, j, x, done)) < len(i):
            if self._has_loose:
                self.loose = grow_loose(self.loose)
                continue
            self.loose = fresh_loose(*self.sides)
            # The totals now have two parts, and so do the row weights of ``normalize=None``: no longer the sums' array.
            weights, totals = self.view.weights, self.view.totals
            self.view = self.view._replace(
                weights=weights._replace(data=weights.data.copy()), totals=totals._replace(data=totals.data.copy())
            )

    def _rescale(self, i: Array) -> None:
        """Renew the column trees above the entries of rows whose scale has changed."""
        rows, columns = self.sides
        rescale(rows, columns, self.view.scale, i)
        if self._has_loose:
            rescale_loose(self.loose, self.view.scale, self.shape[1], i)
        j = np.unique(self.rows(i, view=False).indices).astype(np.int64)
        renew_totals(self.view, columns, self.loose.columns, j)

    def rows(self, indices: Array, *, view: bool) -> Rows:
        divide = view and self.l1
        indptr = np.empty(len(indices) + 1, np.int64)
        count_rows(self.sides.rows, self.loose, indices, indptr)
        columns = np.empty(indptr[-1], self.sides.rows.other.dtype)
        data = np.empty(indptr[-1], view_dtype(self.dtype) if divide else self.dtype)
        fill_rows(self.sides.rows, self.loose, indices, indptr, columns, data, divide)
        indptr = _index_type(indptr, int(indptr[-1]))
        taken = sp.csr_array((data, columns, indptr), shape=(len(indices), self.shape[1]), copy=False)
        if self._has_loose:
            taken.has_sorted_indices = False
            taken.sort_indices()
        taken.has_canonical_format = True
        return taken

    def check(self) -> None:
        scale = self.view.scale
        tiers = [("rows", self.sides.rows, _NONE), ("columns", self.sides.columns, scale)]
        tiers += [("new rows", self.loose.rows, _NONE), ("new columns", self.loose.columns, scale)]
        for name, forest, factor in tiers:
            sums = {part: np.zeros_like(getattr(forest, part)) for part in ("nodes", "sums", "l1_nodes", "l1_sums")}
            fresh = forest._replace(**sums)
            _build(fresh, factor)
            check_equal(name, (forest.sums, fresh.sums), (forest.l1_sums, fresh.l1_sums))
            if forest is self.sides.rows or forest is self.sides.columns:
                check_equal(name, (forest.nodes, fresh.nodes), (forest.l1_nodes, fresh.l1_nodes))
                continue
            for s in np.flatnonzero(forest.end - forest.begin > 32):  # pools move, and leave old nodes behind
                at = slice(forest.begin[s] >> 4, forest.end[s] >> 4)
                check_equal(name, (forest.nodes[at], fresh.nodes[at]), (forest.l1_nodes[at], fresh.l1_nodes[at]))
        every = np.arange(self.shape[0])
        l1 = self.l1_norms(every) if self.l1 else _NONE
        check_equal("row weights", (self.view.weights.data, view_weights(self.squares(every), l1)))
        check_tree(self.view.weights, "row weights")
        if self.has_columns:
            totals = self.sides.columns.sums + (self.loose.columns.sums if self._has_loose else 0.0)
            check_equal("column totals", (self.view.totals.data, totals))
            check_tree(self.view.totals, "column totals")


def _index_type(index: Array, bound: int) -> Array:
    """A copy as int32 where every number up to ``bound`` fits, else int64."""
    return index.astype(np.int32 if bound <= np.iinfo(np.int32).max else np.int64)


def _forest(indptr: Array, indices: Array, data: Array, *, l1: bool) -> Forest:
    segments, kept = len(indptr) - 1, (len(indptr) - 1 if l1 else 0)
    nodes, l1_nodes = fresh_nodes(len(data)), fresh_nodes(len(data) if l1 else 0)
    return Forest(indptr[:-1], indptr[1:], indices, data, nodes, np.zeros(segments), l1_nodes, np.zeros(kept))


def _build(forest: Forest, scale: Array) -> None:
    """Every tree of a forest, by segments in threads."""
    begin, end, other, data, nodes, sums, l1_nodes, l1_sums = forest
    if len(sums) == 0:
        return
    shares = [len(data) * t // THREADS for t in range(1, THREADS)] if len(data) > 1 << 16 else []
    bounds = [0, *(int(np.searchsorted(begin, share)) for share in shares), len(sums)]

    def work(low: int, high: int) -> None:
        build_segments(data, other, scale, 2, nodes, begin, end, sums, low, high)
        if l1_sums.size > 0:
            build_segments(data, other, scale, 1, l1_nodes, begin, end, l1_sums, low, high)

    in_threads(work, bounds)


def _draw(base: Forest, loose: Forest, scale: Array, s: Array, r: Array) -> Array:
    """One entry of each segment ``s``, by the uniforms ``r``: first the tier, then the entry. Returns other indices."""
    sums = base.sums[s]
    if loose.sums.size == 0:
        return _draw_tier(base, scale, s, r * sums)
    u = r * (sums + loose.sums[s])
    in_loose = (sums == 0) | ((u >= sums) & (loose.sums[s] > 0))
    out = np.empty(len(s), np.int64)
    out[~in_loose] = _draw_tier(base, scale, s[~in_loose], u[~in_loose])
    out[in_loose] = _draw_tier(loose, scale, s[in_loose], (u - sums)[in_loose])
    return out


def _draw_tier(forest: Forest, scale: Array, s: Array, u: Array) -> Array:
    p = forest.begin[s].astype(np.int64)
    length = forest.end[s] - p
    out = np.empty(len(s), np.int64)
    draw_many(forest.data, forest.other, scale, 1, 2, forest.nodes, p, length, p, u, out)
    return forest.other[p + out].astype(np.int64)


def _flat(parts: Any) -> Iterator[Array]:
    for part in parts:
        if isinstance(part, tuple):
            yield from _flat(part)
        else:
            yield part
