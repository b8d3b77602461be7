"""A dense block: one C-ordered array of the user's type, and sum trees over its rows and columns.

Columns are read from the same array with a stride; there is no transposed copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .access import Rows
from .block import THREADS, Block, check_equal, check_tree, in_threads, view_arrays, view_from_arrays
from .dense_kernels import Dense, build_columns, build_rows, column_squares, write
from .forest import Array, draw_many, fresh_nodes, fresh_tree
from .view import View, fresh_view, view_dtype, view_scale, view_weights, with_marks

__all__ = ["DenseBlock"]

_NO_INDEX = np.zeros(0, np.int32)
_NONE = np.zeros(0)


class DenseBlock(Block):
    """See :mod:`fastanchors.sampling.block`."""

    def __init__(self, shape: tuple[int, int], view: View, dense: Dense) -> None:
        super().__init__(shape, view)
        self.dense = dense

    @classmethod
    def build(cls, A: Rows, *, l1: bool, columns: bool = True) -> DenseBlock:
        m, n = A.shape
        rows_kept, columns_kept = (m if l1 else 0), (n if columns else 0)
        dense = Dense(
            np.array(A).reshape(-1),
            fresh_nodes(m * n),
            np.zeros(m),
            fresh_nodes(rows_kept * n),
            np.zeros(rows_kept),
            fresh_nodes(m * columns_kept),
            np.zeros(columns_kept),
        )
        halves = [m * t // THREADS for t in range(THREADS + 1)]
        nonzero = sum(in_threads(lambda low, high: build_rows(dense, _NO_INDEX, n, low, high), halves))
        scale = view_scale(dense.l1_sums)
        if columns:
            halves = [n * t // THREADS for t in range(THREADS + 1)]
            in_threads(lambda low, high: build_columns(dense, scale, m, n, low, high), halves)
        weights = view_weights(dense.row_sums, dense.l1_sums)
        return cls((m, n), fresh_view(fresh_tree(weights), fresh_tree(dense.column_sums), scale, nonzero), dense)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], shape: tuple[int, int], *, l1: bool) -> DenseBlock:
        arrays = {name: np.asarray(array) for name, array in arrays.items()}
        parts = {name: arrays.get(name, _NONE) for name in Dense._fields}
        parts["data"] = arrays["data"].reshape(-1)
        dense = Dense(**parts)
        return cls(shape, view_from_arrays(arrays, dense.row_sums, dense.column_sums), dense)

    def arrays(self) -> dict[str, Array]:
        if not self.pristine:
            raise ValueError("arrays() is of a pristine block: use rebuilt() first")
        arrays = {name: array for name, array in self.dense._asdict().items() if array.size or name == "row_nodes"}
        return arrays | view_arrays(self.view, own_weights=self.l1)

    def rebuilt(self) -> DenseBlock:
        return self.build(self._matrix, l1=self.l1, columns=self.has_columns)

    @property
    def _matrix(self) -> Array:
        return self.dense.data.reshape(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.dense.data.dtype

    @property
    def nbytes(self) -> int:
        arrays = [*self.dense, *self.view.weights, *self.view.totals, *self.view[2:]]
        return sum({id(a): a.nbytes for a in arrays}.values())

    def raw(self, i: Array, j: Array) -> Array:
        return self._matrix[i, j]

    def l1_norms(self, i: Array) -> Array:
        return self.dense.l1_sums[i]

    def squares(self, i: Array) -> Array:
        return self.dense.row_sums[i]

    def column_squares(self, j: Array) -> Array:
        out = np.empty(len(j))
        column_squares(self.dense, self.view, *self.shape, j, out)
        return out

    def draw_in_row(self, i: Array, r: Array) -> Array:
        n = self.shape[1]
        p, out = i * n, np.empty(len(i), np.int64)
        u = r * self.dense.row_sums[i]
        draw_many(self.dense.data, _NO_INDEX, _NONE, 1, 2, self.dense.row_nodes, p, np.full_like(p, n), p, u, out)
        return out

    def draw_in_column(self, j: Array, r: Array) -> Array:
        m, n = self.shape
        p, out = j * m, np.empty(len(j), np.int64)
        u = r * self.dense.column_sums[j]
        nodes, scale = self.dense.column_nodes, self.view.scale
        draw_many(self.dense.data, _NO_INDEX, scale, n, 2, nodes, p, np.full_like(p, m), j, u, out)
        return out

    def write(self, i: Array, j: Array, x: Array) -> None:
        self.view = with_marks(self.view)
        write(self.dense, self.view, _NO_INDEX, *self.shape, i, j, x)

    def rows(self, indices: Array, *, view: bool) -> Array:
        taken = self._matrix[indices]
        if not (view and self.l1):
            return taken
        taken = taken.astype(view_dtype(self.dtype), copy=False)
        l1 = self.l1_norms(indices)
        # The quotient is taken in double precision whatever the type of the result.
        np.divide(taken, np.where(l1 > 0, l1, 1.0)[:, None], out=taken, casting="same_kind")
        return taken

    def check(self) -> None:
        m, n = self.shape
        d = self.dense
        fresh = d._replace(**{name: np.zeros_like(getattr(d, name)) for name in Dense._fields if name != "data"})
        build_rows(fresh, _NO_INDEX, n, 0, m)
        check_equal("rows", *zip(d[1:5], fresh[1:5]))
        if self.has_columns:
            build_columns(fresh, self.view.scale, m, n, 0, n)
            check_equal("columns", *zip(d[5:], fresh[5:]))
            check_tree(self.view.totals, "column totals")
        check_equal("row weights", (self.view.weights.data, view_weights(d.row_sums, d.l1_sums)))
        check_tree(self.view.weights, "row weights")
