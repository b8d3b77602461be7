"""Write every row as a non-negative mixture of the anchors: A ≈ F·A_R with F ≥ 0.

The anchors C = A_R are factored once, C = Rᵀ·Qᵀ. A row a enters only through its k coordinates y = Qᵀ·a, which take one
matrix product per chunk of rows: ‖f·C − a‖ and ‖R·f − y‖ have the same minimiser. Working with R instead of the Gram
matrix C·Cᵀ = Rᵀ·R avoids squaring the condition number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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
from .matrix import ArrayMatrix, RowMatrix, dense, open_matrix
from .matrix.columns import column_order
from .matrix.frames import in_memory
from .matrix.scaled import FEW_DIGITS, divided, unit_of

__all__ = ["AnchorSystem", "encode", "encode_rows", "error_norm"]

_CHUNK_BYTES = 1 << 23  # rows of one chunk as float64, and what is computed from them
_CANCELS = 1e-6  # squared errors below this fraction of the squared rows lose digits if they are differences of squares
_DENSE_ENTRIES = 1 << 17  # entries of sparse rows made dense at a time
_SMALLEST = 2.0**-1000  # anchors below this are scaled: subnormal numbers have few digits


def encode(
    X: Any, components: Any, sum_to_one: bool = False, *, out: Any = None, n_jobs: int | None = None
) -> NDArray[Any]:
    """The weights F ≥ 0 that minimise ‖F·components − X‖, row by row.

    Parameters
    ----------
    X : array, sparse matrix, frame, AnnData, SampleMatrix, store, path or Dask collection
        Rows of any sign; any source of :func:`fastanchors.open_matrix`. For a Dask array or data frame the result is a
        lazy Dask array. Arrays of xarray over Dask are loaded; pass their ``.data`` for a lazy result.
    components : array or frame of shape (k, n), or Anchors
        The anchors. For a solver's result these are its ``points``, or else its rows of ``X``. They may be linearly
        dependent. If both they and ``X`` have column names, columns are matched by name.
    sum_to_one : bool
        Require that every row of F sums to one exactly (fully constrained unmixing).
    out : floating array of shape (m, k) or None
        Array to write to, such as a memory map; by default a new array, float32 for float32 rows, else float64. The
        computation is always in float64. It is an error if the largest weight overflows or vanishes in that type.
    n_jobs : int or None
        Number of threads, as in scikit-learn. The result does not depend on it.

    Returns
    -------
    ndarray of shape (m, k)
        F; the same array as ``out`` if that was given.

    Notes
    -----
    Costs O(nnz·k) for the products and a few k³ operations per row. Besides the result it needs an n × k factor of the
    anchors and about 16 MB per thread (more if a single row is larger). The solution agrees with
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
            raise InvalidInputError("out and n_jobs are not supported for Dask collections; remove them")
        if isinstance(components, Anchors):
            components = components_of(open_matrix(X, signed=True), components)
        return _encode_lazily(X, components, sum_to_one)
    matrix = open_matrix(X, signed=True, checked=False, name="X")
    C = components_of(matrix, components)
    m, n = matrix.shape
    if C.shape[1] != n:
        raise InvalidInputError(f"components have {C.shape[1]} columns, X has {n}; they must agree")
    if out is None:
        out = np.empty((m, len(C)), dtype=np.float32 if matrix.dtype == np.float32 else np.float64)
    elif not isinstance(out, np.ndarray) or out.dtype.kind != "f":
        raise InvalidTypeError("out must be a floating-point array (a memory map is one)")
    elif out.shape != (m, len(C)):
        raise InvalidInputError(f"out has shape {out.shape}, the result {(m, len(C))}")
    elif not out.flags.writeable:
        raise InvalidInputError("out is read-only; pass an array that can be written to")
    written = np.empty(out.shape, out.dtype) if _overlap(out, matrix) else out
    with use_threads(n_jobs):
        encode_rows(matrix, C, written, sum_to_one=sum_to_one)
    if written is not out:
        out[...] = written
    return out


def _overlap(out: NDArray[Any], matrix: RowMatrix) -> bool:
    """Whether writing rows of ``out`` may change rows of an array that are still to be read."""
    rows = matrix.data if isinstance(matrix, ArrayMatrix) else None
    if not isinstance(rows, np.ndarray) or not np.may_share_memory(out, rows):
        return False
    return (out.ctypes.data, out.strides) != (rows.ctypes.data, rows.strides)


def _encode_lazily(X: Any, components: Any, sum_to_one: bool) -> Any:
    """The weights of a Dask array or data frame, as a lazy Dask array."""
    from .dask.blockwise import lazy_rows
    from .dask.collection import is_frame, layout

    known = layout(X)
    C = dense_components(components, [str(column) for column in X.columns] if is_frame(X) else None)
    if C.shape[1] != known.columns:
        raise InvalidInputError(f"components have {C.shape[1]} columns, X has {known.columns}; they must agree")
    dtype = np.dtype(np.float32 if known.dtype in (np.float32, np.float16) else np.float64)
    return lazy_rows("encode", _encode_lazy_block, X, len(C), dtype, (C, sum_to_one))


def _encode_lazy_block(rows: Rows, first_row: int, name: str, C: NDArray[np.float64], sum_to_one: bool) -> Rows:
    check_finite(rows, signed=True, name=name, first_row=first_row)
    return encode(rows, C, sum_to_one, n_jobs=1)


def dense_components(components: Any, column_names: Sequence[str] | None = None) -> NDArray[np.float64]:
    """The anchors as a dense array, checked; the columns of a frame are put in the order of ``column_names``."""
    components, _, names = in_memory(components, "components")
    C = dense(as_matrix(components, signed=True, name="components"))
    if names is not None and column_names is not None and len(names) == len(column_names):
        order = column_order(names, column_names, "the components", "the data")
        C = C if order is None else np.ascontiguousarray(C[:, order])
    if np.abs(C).max() > 1e150:
        raise InvalidInputError("the squared norms of components overflow; divide them by their largest entry")
    return C


def components_of(matrix: RowMatrix, components: Any) -> NDArray[np.float64]:
    """The given components, or for a solver's result the point of each anchor, or else its row of the matrix."""
    if isinstance(components, Anchors):
        return dense_components(components.points_in(matrix))
    return dense_components(components, matrix.column_names)


def encode_rows(
    matrix: RowMatrix, C: NDArray[np.float64], out: NDArray[Any], *, sum_to_one: bool, error: bool = False
) -> float:
    """:func:`encode` without validation; with ``error`` it returns ‖out·C − matrix‖_F, else 0."""
    sizes: list[float] = []

    def write(start: int, F: NDArray[np.float64]) -> None:
        with np.errstate(over="ignore", under="ignore"):
            out[start : start + len(F)] = F
        sizes.append(float(F.max(initial=0.0)))

    if not matrix.in_process:
        errors = []
        for found in matrix.map_parts(_part_weights, C, sum_to_one, error):
            for start, F, block_error in found:
                write(start, F)
                errors.append(block_error)
        _check_range(max(sizes, default=0.0), out.dtype)
        return math.hypot(*errors)
    with one_blas_thread():  # the order of summation must not depend on the number of threads
        system = AnchorSystem(C, sum_to_one)

        def solve(start: int, block: Rows) -> float:
            block, Y, F = system.solve(start, block)
            write(start, F)
            return system.error_norm(block, Y, F) if error else 0.0

        total = math.hypot(*matrix.map_blocks(solve, block_rows=_chunk_rows(matrix, len(C))))
    _check_range(max(sizes, default=0.0), out.dtype)
    return total


def _check_range(largest: float, dtype: np.dtype[Any]) -> None:
    """Raise if the largest weight overflows or vanishes in the type of the result."""
    with np.errstate(over="ignore", under="ignore"):
        written = float(np.asarray(largest).astype(dtype))
    if not math.isfinite(written) or (written == 0) != (largest == 0):
        raise InvalidInputError(
            f"the largest weight is {largest:.3g}, which {dtype} cannot hold; pass rows or out= of float64, or divide "
            "the rows and the components by their sizes"
        )


def _part_weights(
    part: RowMatrix, first: int, C: NDArray[np.float64], sum_to_one: bool, error: bool
) -> list[tuple[int, NDArray[np.float64], float]]:
    """The weights of rows on a worker: only there is known how many entries they have, so how many make a chunk."""

    def solve(start: int, block: Rows) -> tuple[int, NDArray[np.float64], float]:
        block, Y, F = system.solve(first + start, block)
        return first + start, F, system.error_norm(block, Y, F) if error else 0.0

    with one_blas_thread():
        system = AnchorSystem(C, sum_to_one)
        return part.map_blocks(solve, block_rows=_chunk_rows(part, len(C)))


def error_norm(matrix: RowMatrix, C: NDArray[np.float64], *, sum_to_one: bool, zero_rows: bool = True) -> float:
    """‖F·C − matrix‖_F for the best F ≥ 0, without rows of zeros if asked for. Workers return one number each."""
    return math.hypot(*matrix.map_parts(_part_error, C, sum_to_one, zero_rows))


def _part_error(part: RowMatrix, first: int, C: NDArray[np.float64], sum_to_one: bool, zero_rows: bool) -> float:
    def error(start: int, block: Rows) -> float:
        if not zero_rows:
            block = block[np.asarray(abs(block).sum(axis=1)).reshape(-1) > 0]
        return system.error_norm(*system.solve(first + start, block))

    with one_blas_thread():
        system = AnchorSystem(C, sum_to_one)
        return math.hypot(*part.map_blocks(error, block_rows=_chunk_rows(part, len(C))))


class AnchorSystem:
    """The anchors factored once: C = Rᵀ·Qᵀ. All is in units of ``unit``, which is 1 unless the anchors are tiny."""

    def __init__(self, C: NDArray[np.float64], sum_to_one: bool) -> None:
        self.unit = unit_of(C, _SMALLEST, np.inf)
        self.C = divided(C, self.unit)
        self.Q, self.R = np.linalg.qr(self.C.T)
        self.system = NonnegativeSystem(self.R, sum_to=1.0 if sum_to_one else None)

    def solve(self, start: int, block: Rows) -> tuple[Rows, NDArray[np.float64], NDArray[np.float64]]:
        """The block in float64, its coordinates Y and the weights F; block and Y are in units of ``unit``."""
        given = block.astype(np.float64, copy=False)
        with np.errstate(all="ignore"):
            block = divided(given, self.unit)
            Y = block @ self.Q
            finite = np.isfinite(np.einsum("ij,ij->", Y, Y))
        if not finite:  # a NaN or infinite entry makes a product of its row NaN or infinite
            check_finite(given, signed=True, name="X", first_row=start)
            raise InvalidInputError("the squared norms of X overflow; divide X by its largest entry")
        return block, Y, self.system.solve(Y)

    def error_norm(self, block: Rows, Y: NDArray[np.float64], F: NDArray[np.float64]) -> float:
        """‖F·C − block‖_F of a solved block, in the units of the data."""
        error = self._squared_error(block, Y, F)
        size = unit_of(block) if error < FEW_DIGITS else 1.0
        if size != 1:
            error = self._squared_error(divided(block, size), Y / size, F / size)
        return self.unit * (size * math.sqrt(error))

    def _squared_error(self, block: Rows, Y: NDArray[np.float64], F: NDArray[np.float64]) -> float:
        if sp.issparse(block):
            squares = np.asarray(block.multiply(block).sum(axis=1)).reshape(-1)
            return float(self.squared_errors(squares, Y, F, block).sum())
        gap = block - F @ self.C
        return float(np.einsum("ij,ij->", gap, gap))

    def squared_errors(
        self, squares: NDArray[np.float64], Y: NDArray[np.float64], F: NDArray[np.float64], rows: Rows | None = None
    ) -> NDArray[np.float64]:
        """‖a − f·C‖² of each row as ‖a‖² − ‖y‖² + ‖R·f − y‖², from its ``squares`` ‖a‖².

        That is accurate to about 1e-15·‖a‖². If the errors are small compared with the ``rows``, and these are given,
        small ones are computed from them.
        """
        gap = Y - F @ self.R.T
        outside = squares - np.einsum("ij,ij->i", Y, Y)
        errors = np.maximum(outside + np.einsum("ij,ij->i", gap, gap), 0.0)
        if rows is not None and errors.sum() < _CANCELS * squares.sum():
            near = np.flatnonzero(errors < _CANCELS * squares)
            errors[near] = self._near_errors(rows[near], F[near])
        return np.asarray(errors)

    def _near_errors(self, rows: Rows, F: NDArray[np.float64]) -> NDArray[np.float64]:
        """‖a − f·C‖² of each row; sparse rows are made dense in the columns of the anchors, a few at a time."""
        errors, C = np.zeros(len(F)), self.C
        if sp.issparse(rows):
            within = C.any(axis=0)
            other = np.where(within[rows.indices], 0.0, rows.data)
            np.add.at(errors, np.repeat(np.arange(len(F)), np.diff(rows.indptr)), other**2)
            columns = np.flatnonzero(within)
            C, rows = C[:, columns], rows[:, columns]
        step = max(1, _DENSE_ENTRIES // max(1, C.shape[1]))
        for start in range(0, len(F), step):
            gap = dense(rows[start : start + step]) - F[start : start + step] @ C
            errors[start : start + step] += np.einsum("ij,ij->i", gap, gap)
        return errors


def _chunk_rows(matrix: RowMatrix, k: int) -> int:
    """Rows of a chunk. It depends on the matrix only, so that rounding does not depend on the number of threads."""
    m, n = matrix.shape
    per_row = 16 * (matrix.nnz // m + 1) if matrix.is_sparse else 8 * n
    return max(1, _CHUNK_BYTES // (per_row + 32 * k))
