"""Dask arrays as matrices: what solvers, ``fa.encode`` and ``SeparableNMF`` make of them, rows left in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._validate import as_matrix, check_finite
from ..encoder import dense_components, encode, squared_error
from ..errors import InvalidInputError
from ..io.row_source import numeric_dtype
from ..matrix.array import ArrayMatrix
from ..matrix.contract import Rows
from .blocks import DaskSource, Layout, as_block, check_length, layout, row_blocks
from .crew import Crew, stacked
from .rows import RemoteRows

__all__ = ["LazyMatrix", "lazy_encode", "lazy_mixtures"]


class LazyMatrix:
    """A Dask array (or data frame) of non-negative numbers, each block checked whenever it is computed.

    Blocks are computed anew for every pass unless the array was persisted: ``X = X.persist()`` where the workers'
    memory holds it.
    """

    def __init__(self, lazy: Any, *, signed: bool = False) -> None:
        source = DaskSource(lazy, None, None)
        if source.starts[-1] == 0:
            raise InvalidInputError(f"{source.name} has no rows; at least one is needed")
        keep = [i for i, (low, high) in enumerate(source.bounds()) if high > low]
        self.shape: tuple[int, int] = (source.starts[-1], source.shape[1])
        self.dtype = source.dtype
        self.starts = [*(source.starts[i] for i in keep), source.starts[-1]]
        self._crew = source.crew
        places = [(i, source.starts[i], source.starts[i + 1] - source.starts[i], signed) for i in keep]
        self._parts = [self._crew.later("check", _checked, source.tasks[i], *at) for i, at in zip(keep, places)]

    def as_rows(self) -> RemoteRows:
        """The rows as solvers read them."""
        return RemoteRows(self, self._crew.again(), self._parts, self.starts)

    def __getitem__(self, indices: Any) -> Rows:
        """Those rows, here."""
        return self.as_rows().raw_rows(indices)

    def l1_scaled(self) -> tuple[LazyMatrix, _Lengths]:
        """The rows scaled to sum one, zero rows as they are, and their sums."""
        scaled = object.__new__(LazyMatrix)
        scaled.__dict__.update(self.__dict__)
        scaled._parts = [self._crew.later("scale", _scaled, part) for part in self._parts]
        return scaled, _Lengths(self)

    @property
    def frobenius_norm(self) -> float:
        """‖X‖_F, in one pass."""
        return float(np.sqrt(sum(self._crew.each("norm", _squared_norm, self._parts))))

    def squared_error(self, C: NDArray[np.float64], *, sum_to_one: bool) -> float:
        """‖F·C − X‖_F² for the best F ≥ 0; one number crosses for each block."""
        return float(sum(self._crew.each("error", _squared_error, self._parts, shared=(C, sum_to_one))))


class _Lengths:
    """The l1 norms of rows, computed for those asked for."""

    def __init__(self, matrix: LazyMatrix) -> None:
        self._matrix = matrix

    def __getitem__(self, index: Any) -> NDArray[np.float64]:
        rows, *rest = index if isinstance(index, tuple) else (index,)
        return _sums(self._matrix[rows])[(slice(None), *rest)]


def lazy_encode(X: Any, components: Any, sum_to_one: bool = False) -> Any:
    """``fa.encode`` of a Dask array: a lazy Dask array of the weights, block by block."""
    C = dense_components(components)
    known = layout(X)
    if C.shape[1] != known.columns:
        raise InvalidInputError(f"components have {C.shape[1]} columns, X has {known.columns}; they must agree")
    kind = numeric_dtype(known.dtype, known.name)
    dtype = np.dtype(np.float32 if kind == np.float32 else np.float64)
    return _block_by_block("encode", _encode, X, known, len(C), dtype, (C, sum_to_one, dtype.str))


def lazy_mixtures(F: Any, C: NDArray[Any]) -> Any:
    """The rows F·C of lazy weights, as a lazy Dask array."""
    known = layout(F)
    if known.columns != len(C):
        raise InvalidInputError(f"weights must have {len(C)} columns, got {known.columns}")
    dtype = np.result_type(known.dtype, C.dtype)
    return _block_by_block("mix", _mixed, F, known, C.shape[1], dtype, (C,))


def _block_by_block(
    name: str, function: Any, X: Any, known: Layout, columns: int, dtype: np.dtype[Any], shared: tuple[Any, ...]
) -> Any:
    """A lazy array of one block for each of X, which has as many rows; nothing is computed."""
    blocks = row_blocks(X)
    lengths = [None] * len(blocks) if known.lengths is None else known.lengths
    starts = lengths if known.lengths is None else np.cumsum([0, *known.lengths], dtype=np.int64).tolist()
    own = [(i, start, length) for i, (start, length) in enumerate(zip(starts, lengths))]
    tasks = Crew().tasks(name, function, blocks, own, shared)
    shapes = [(np.nan if length is None else length, columns) for length in lengths]
    return stacked(tasks, shapes, np.empty((0, columns), dtype))


# --- on the worker ---------------------------------------------------------------------------------------------------


def _checked(block: Any, number: int, start: int, length: int, signed: bool) -> Rows:
    check_length(block, number, length, "X")
    rows = as_matrix(as_block(block), finite=False, name="the block")
    check_finite(rows, signed=signed, first_row=start)
    return rows


def _sums(rows: Rows) -> NDArray[np.float64]:
    return np.asarray(rows.sum(axis=1, dtype=np.float64)).reshape(-1)


def _scaled(rows: Rows) -> Rows:
    lengths = _sums(rows)
    dtype = rows.dtype if rows.dtype.kind == "f" else np.dtype(np.float64)
    inverse = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0).astype(dtype)
    if not sp.issparse(rows):
        return rows * inverse[:, None]
    return sp.csr_array((rows.data * np.repeat(inverse, np.diff(rows.indptr)), rows.indices, rows.indptr), rows.shape)


def _squared_norm(rows: Rows) -> float:
    values = (rows.data if sp.issparse(rows) else rows.reshape(-1)).astype(np.float64)
    return float(values @ values)


def _squared_error(rows: Rows, C: NDArray[np.float64], sum_to_one: bool) -> float:
    return squared_error(ArrayMatrix(rows), C, sum_to_one=sum_to_one)


def _encode(
    block: Any, number: int, start: int | None, length: int | None, C: NDArray[np.float64], sum_to_one: bool, dtype: str
) -> NDArray[Any]:
    check_length(block, number, length, "X")
    rows = as_block(block)
    if rows.shape[0] == 0:
        return np.empty((0, len(C)), dtype)
    # Where lengths are not known, rows are counted from the block.
    name = "X" if start is not None else f"block {number} of X: X"
    check_finite(rows, signed=True, name=name, first_row=start or 0)
    return encode(rows, C, sum_to_one, n_jobs=1).astype(dtype, copy=False)


def _mixed(block: Any, number: int, start: int | None, length: int | None, C: NDArray[Any]) -> NDArray[Any]:
    rows = as_block(block)
    return np.asarray(rows @ C)
