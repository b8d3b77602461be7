"""A dense block: one C-ordered array of the user's type, and sum trees over its rows and columns.

Columns are read from the same array with a stride; there is no transposed copy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..matrix.contract import Rows
from .dense_kernels import build_column_leaves
from .gather import is_range
from .l1_view import NONZERO, fresh_view, view_dtype, view_scale, view_weights
from .row_block import (
    Block,
    Sides,
    build_forest,
    check_forest,
    check_view,
    lift_forest,
    view_arrays,
    view_from_arrays,
    view_of_arrays,
    without_sums,
)
from .segment_trees import LEAF_BITS, NO_INDEX, NO_SCALE, Array, Forest, fresh_nodes, renew
from .sparse_kernels import put
from .threads import in_threads, shares
from .tree import fresh_tree

__all__ = ["DenseBlock"]


class DenseBlock(Block):
    """See :mod:`fastanchors.sampling.row_block`."""

    is_sparse = False

    @classmethod
    def build(cls, A: Rows, *, l1: bool, columns: bool = True) -> DenseBlock:
        m, n = A.shape
        rows_kept, columns_kept = (m if l1 else 0), (n if columns else 0)
        sums = {
            "row_nodes": fresh_nodes(m * n),
            "row_sums": np.zeros(m),
            "l1_nodes": fresh_nodes(rows_kept * n),
            "l1_sums": np.zeros(rows_kept),
            "column_nodes": fresh_nodes(m * columns_kept),
            "column_sums": np.zeros(columns_kept),
        }
        sides = _sides(np.array(A).reshape(-1), sums, (m, n))
        build_forest(sides.rows, NO_SCALE)
        scale = view_scale(sides.rows.l1_sums)
        _build_columns(sides.columns, scale)
        weights = fresh_tree(view_weights(sides.rows.sums, sides.rows.l1_sums))
        view = fresh_view(weights, fresh_tree(sides.columns.sums), scale, int(np.count_nonzero(sides.rows.data)))
        return cls((m, n), view, sides)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], shape: tuple[int, int], *, l1: bool) -> DenseBlock:
        arrays = {name: np.asarray(array) for name, array in arrays.items()}
        sides = _sides(arrays["data"].reshape(-1), arrays, shape)
        return cls(shape, view_from_arrays(arrays, sides.rows.sums, sides.columns.sums), sides)

    def arrays(self) -> dict[str, Array]:
        if not self.pristine:
            raise ValueError("arrays() needs a pristine block; call rebuilt() first")
        return self._arrays()

    def _arrays(self) -> dict[str, Array]:
        rows, columns = self.sides
        arrays = {"data": rows.data, "row_nodes": rows.nodes, "row_sums": rows.sums}
        if self.l1:
            arrays |= {"l1_nodes": rows.l1_nodes, "l1_sums": rows.l1_sums}
        if self.has_columns:
            arrays |= {"column_nodes": columns.nodes, "column_sums": columns.sums}
        kept = {name: array for name, array in arrays.items() if array.size or name == "row_nodes"}
        return kept | view_arrays(self.view, own_weights=self.l1)

    def rebuilt(self) -> DenseBlock:
        return self.build(self._matrix, l1=self.l1, columns=self.has_columns)

    def moved(self, move: Callable[[dict[str, Array]], Mapping[str, Array]]) -> DenseBlock:
        """Stale scales stay stale: a block of many rows, which takes much memory to rebuild, can be moved."""
        view = self.view
        arrays = move(self._arrays() | {"mark": view.mark, "drifted": view.drifted})
        sides = _sides(arrays["data"].reshape(-1), arrays, self.shape)
        made = view_of_arrays(arrays, sides.rows.sums, sides.columns.sums)
        made = made._replace(mark=arrays["mark"], drifted=arrays["drifted"], bound=view.bound)
        return DenseBlock(self.shape, made, sides)

    @property
    def _matrix(self) -> Array:
        return self.sides.rows.data.reshape(self.shape)

    @property
    def nbytes(self) -> int:
        rows, columns = self.sides
        arrays = [*rows[3:8], *columns[3:8], *self.view.weights, *self.view.totals, *self.view[2:]]
        return sum({id(a): a.nbytes for a in arrays}.values())

    def raw(self, i: Array, j: Array) -> Array:
        return self._matrix[i, j]

    def rows(self, indices: Array, *, view: bool) -> Array:
        in_order = is_range(indices)
        taken = self._matrix[indices[0] : indices[-1] + 1].copy() if in_order else self._matrix[indices]
        if not (view and self.l1):
            return taken
        taken = taken.astype(view_dtype(self.dtype), copy=False)
        l1 = self.l1_norms(indices)
        # The quotient is computed in double precision for every type of the result.
        np.divide(taken, np.where(l1 > 0, l1, 1.0)[:, None], out=taken, casting="same_kind")
        return taken

    def _put(self, i: Array, j: Array, x: Array) -> None:
        rows, columns = self.sides
        self.view.counters[NONZERO] += put(rows.data, i * self.shape[1] + j, x)
        renew(rows, NO_SCALE, i, j >> LEAF_BITS)
        if self.has_columns:
            renew(columns, self.view.scale, j, i >> LEAF_BITS)

    def _renew_columns(self, i: Array) -> Array:
        row, j = np.nonzero(self._matrix[i])
        renew(self.sides.columns, self.view.scale, j, i[row] >> LEAF_BITS)
        return j

    def _column_square(self, j: int) -> float:
        return float(((self._matrix[:, j] * view_scale(self.sides.rows.l1_sums)) ** 2).sum())

    def check(self) -> None:
        rows, columns = map(without_sums, self.sides)
        build_forest(rows, NO_SCALE)
        check_forest(self.sides.rows, rows, "rows")
        _build_columns(columns, self.view.scale)
        check_forest(self.sides.columns, columns, "columns")
        check_view(self, columns.sums)


def _sides(data: Array, sums: Mapping[str, Array], shape: tuple[int, int]) -> Sides:
    m, n = shape
    part: Any = {name: sums.get(name, NO_SCALE) for name in ("l1_nodes", "l1_sums", "column_nodes", "column_sums")}
    none = (NO_INDEX, NO_INDEX, NO_INDEX)
    rows = Forest(
        *none, data, sums.get("row_nodes", NO_SCALE), sums["row_sums"], part["l1_nodes"], part["l1_sums"], n, 1
    )
    columns = Forest(*none, data, part["column_nodes"], part["column_sums"], NO_SCALE, NO_SCALE, m, n)
    return Sides(rows, columns)


def _build_columns(columns: Forest, scale: Array) -> None:
    """Build the trees of all columns; threads work on ranges of columns."""
    m, n, kept = columns.width, columns.step, len(columns.sums)

    def work(low: int, high: int) -> None:
        build_column_leaves(columns.data, scale, m, n, columns.nodes, columns.sums, low, high)
        lift_forest(columns, low, high)

    in_threads(work, shares(kept, 1))
