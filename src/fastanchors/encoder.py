"""Write every row as a non-negative mixture of the anchors: A ≈ F·A_R with F ≥ 0, all rows at once.

The anchors C = A_R are factored once, C = Rᵀ·Qᵀ; a row a then matters only through its k numbers y = Qᵀ·a, one
matrix product for a chunk of rows, and ‖f·C − a‖ is least where ‖R·f − y‖ is. Working with R instead of the Gram
matrix C·Cᵀ = Rᵀ·R keeps the condition number of the anchors instead of squaring it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ._parallel import one_blas_thread, use_threads
from ._types import Rows
from ._validate import as_matrix, check_finite, check_flag, is_dask
from .anchors import Anchors
from .errors import InvalidInputError, InvalidTypeError
from .greedy.nnls import NonnegativeSystem
from .matrix import RowMatrix, open_matrix

__all__ = ["AnchorSystem", "encode", "encode_rows", "squared_error"]

_CHUNK_BYTES = 1 << 23  # rows of one chunk as float64, and what is computed from them


def encode(
    X: Any, components: Any, sum_to_one: bool = False, *, out: Any = None, n_jobs: int | None = None
) -> NDArray[Any]:
    """The weights F ≥ 0 that minimise ‖F·components − X‖, row by row.

    Parameters
    ----------
    X : array, sparse matrix, frame, AnnData, SampleMatrix, store, path or Dask collection
        Rows of any sign; whatever :func:`fastanchors.open_matrix` opens. For a Dask collection the result is a lazy
        Dask array.
    components : array of shape (k, n) or Anchors
        The anchors; a solver's result stands for its points, or for those rows of ``X``. They may be dependent, then a
        row has a solution with independent anchors.
    sum_to_one : bool
        Also ask that every row of F sums to one (fully constrained unmixing), exactly.
    out : floating array of shape (m, k) or None
        Where to write, such as a memory map; by default a new array, float32 for float32 rows and float64 otherwise.
        Either way the computation is in float64.
    n_jobs : int or None
        Threads, each with a chunk of rows at a time, as in scikit-learn. The result does not depend on it.

    Returns
    -------
    ndarray of shape (m, k)
        F, which is ``out`` where that was given.

    Notes
    -----
    Costs O(nnz·k) for the products and a few k³ operations per row. Besides the result it holds an n × k factor of the
    anchors and about 16 MB per thread (more only if a single row is larger). The solution agrees with
    :func:`scipy.optimize.nnls`.

    Examples
    --------
    >>> import fastanchors as fa
    >>> X = fa.datasets.separable(100, 8, 3, rng=0).A
    >>> fa.encode(X, fa.SPA().seek(X, 3)).shape
    (100, 3)
    """
    check_flag(sum_to_one, name="sum_to_one")
    if is_dask(X):
        if out is not None or n_jobs is not None:
            raise InvalidInputError("out and n_jobs are for matrices of this process; a Dask array has its own")
        if isinstance(components, Anchors):
            components = components_of(open_matrix(X, signed=True), components)
        return _encode_lazily(X, dense_components(components), sum_to_one)
    matrix = open_matrix(X, signed=True, checked=False, name="X")
    C = components_of(matrix, components) if isinstance(components, Anchors) else dense_components(components)
    m, n = matrix.shape
    if C.shape[1] != n:
        raise InvalidInputError(f"components have {C.shape[1]} columns, X has {n}; they must agree")
    if out is None:
        out = np.empty((m, len(C)), dtype=np.float32 if matrix.dtype == np.float32 else np.float64)
    elif not isinstance(out, np.ndarray) or out.dtype.kind != "f":
        raise InvalidTypeError("out must be a floating-point array (a memory map is one)")
    elif out.shape != (m, len(C)):
        raise InvalidInputError(f"out has shape {out.shape}, the result {(m, len(C))}")
    with use_threads(n_jobs):
        encode_rows(matrix, C, out, sum_to_one=sum_to_one)
    return out


def _encode_lazily(X: Any, C: NDArray[np.float64], sum_to_one: bool) -> Any:
    """The weights of a Dask array or data frame, as a lazy Dask array."""
    from .dask.blockwise import lazy_rows
    from .dask.collection import layout

    known = layout(X)
    if C.shape[1] != known.columns:
        raise InvalidInputError(f"components have {C.shape[1]} columns, X has {known.columns}; they must agree")
    dtype = np.dtype(np.float32 if known.dtype in (np.float32, np.float16) else np.float64)
    return lazy_rows("encode", _encode_lazy_block, X, len(C), dtype, (C, sum_to_one))


def _encode_lazy_block(rows: Rows, first_row: int, name: str, C: NDArray[np.float64], sum_to_one: bool) -> Rows:
    check_finite(rows, signed=True, name=name, first_row=first_row)
    return encode(rows, C, sum_to_one, n_jobs=1)


def dense_components(components: Any) -> NDArray[np.float64]:
    """The anchors, checked, as a dense array."""
    C = as_matrix(components, signed=True, name="components")
    C = np.asarray(C.toarray() if sp.issparse(C) else C, dtype=np.float64)
    if np.abs(C).max() > 1e150:
        raise InvalidInputError("components have entries so large that their squares overflow; rescale them")
    return C


def components_of(matrix: RowMatrix, anchors: Anchors) -> NDArray[np.float64]:
    """What stands for each anchor: its point, or its row of the matrix."""
    return dense_components(matrix.rows(anchors.indices) if anchors.points is None else anchors.points)


def encode_rows(
    matrix: RowMatrix, C: NDArray[np.float64], out: NDArray[Any], *, sum_to_one: bool, error: bool = False
) -> float:
    """The computing twin of :func:`encode` on clean input; with ``error`` also returns ‖out·C − matrix‖_F²."""
    step = _chunk_rows(matrix, len(C))
    if not matrix.in_process:
        total = 0.0
        for start, F, block_error in matrix.map_blocks(_block_weights, C, sum_to_one, error, block_rows=step):
            out[start : start + len(F)] = F
            total += block_error
        return total
    with one_blas_thread():  # the same products in the same order, whatever the number of threads
        system = AnchorSystem(C, sum_to_one)

        def solve(start: int, block: Rows) -> float:
            block, Y, F = system.solve(start, block)
            out[start : start + len(F)] = F
            return system.squared_error(block, Y, F) if error else 0.0

        return sum(matrix.map_blocks(solve, block_rows=step))


def _block_weights(
    start: int, block: Rows, C: NDArray[np.float64], sum_to_one: bool, error: bool
) -> tuple[int, NDArray[np.float64], float]:
    with one_blas_thread():
        system = AnchorSystem(C, sum_to_one)
        block, Y, F = system.solve(start, block)
        return start, F, system.squared_error(block, Y, F) if error else 0.0


def squared_error(matrix: RowMatrix, C: NDArray[np.float64], *, sum_to_one: bool) -> float:
    """‖F·C − matrix‖_F² for the best F ≥ 0. One number per block leaves the place where the rows are.

    For sparse rows the error is ‖a‖² − ‖y‖² + ‖R·f − y‖², which keeps them sparse and cannot tell less than
    about 1e-8·‖a‖ from zero.
    """
    with one_blas_thread():
        step = _chunk_rows(matrix, len(C))
        return float(sum(matrix.map_blocks(_block_error, C, sum_to_one, block_rows=step)))


def _block_error(start: int, block: Rows, C: NDArray[np.float64], sum_to_one: bool) -> float:
    system = AnchorSystem(C, sum_to_one)
    return system.squared_error(*system.solve(start, block))


class AnchorSystem:
    """The anchors factored once: C = Rᵀ·Qᵀ."""

    def __init__(self, C: NDArray[np.float64], sum_to_one: bool) -> None:
        self.C = C
        self.Q, self.R = np.linalg.qr(C.T)
        self.system = NonnegativeSystem(self.R, sum_to=1.0 if sum_to_one else None)

    def solve(self, start: int, block: Rows) -> tuple[Rows, NDArray[np.float64], NDArray[np.float64]]:
        """The block in float64, its coordinates Y and the weights F."""
        block = block.astype(np.float64, copy=False)
        with np.errstate(all="ignore"):
            Y = block @ self.Q
            finite = np.isfinite(np.einsum("ij,ij->", Y, Y))
        if not finite:  # every bad entry of a row shows in its products
            check_finite(block, signed=True, name="X", first_row=start)
            raise InvalidInputError("X has entries so large that their squares overflow; rescale it")
        return block, Y, self.system.solve(Y)

    def squared_error(self, block: Rows, Y: NDArray[np.float64], F: NDArray[np.float64]) -> float:
        if sp.issparse(block):
            squares = block.multiply(block).sum(axis=1)
            return float(self.squared_errors(np.asarray(squares).reshape(-1), Y, F).sum())
        gap = block - F @ self.C
        return float(np.einsum("ij,ij->", gap, gap))

    def squared_errors(
        self, squares: NDArray[np.float64], Y: NDArray[np.float64], F: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """‖a − f·C‖² of each row from its ``squares`` ‖a‖²: it reads no row, and cannot tell 1e-15·‖a‖² from zero."""
        gap = Y - F @ self.R.T
        outside = squares - np.einsum("ij,ij->i", Y, Y)
        return np.asarray(np.maximum(outside + np.einsum("ij,ij->i", gap, gap), 0.0))


def _chunk_rows(matrix: RowMatrix, k: int) -> int:
    """Rows of a chunk. It follows from the shape alone, so that rounding does not depend on anything else."""
    m, n = matrix.shape
    per_row = 16 * (matrix.nnz // m + 1) if matrix.is_sparse else 8 * n
    return max(1, _CHUNK_BYTES // (per_row + 32 * k))
