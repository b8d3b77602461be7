"""Write every row as a non-negative mixture of the anchors: A ≈ F·A_R with F ≥ 0, all rows at once.

The anchors C = A_R are factored once, C = Rᵀ·Qᵀ; a row a then matters only through its k numbers y = Qᵀ·a, one
matrix product for a chunk of rows, and ‖f·C − a‖ is least where ‖R·f − y‖ is. Working with R instead of the Gram
matrix C·Cᵀ = Rᵀ·R keeps the condition number of the anchors instead of squaring it.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ._parallel import one_blas_thread
from ._validate import as_matrix, check_finite, check_size, is_dask
from .errors import InvalidInputError, InvalidTypeError
from .greedy.nnls import NonnegativeSystem
from .matrix.contract import Rows, SampleAccess

__all__ = ["encode", "encode_rows"]

_CHUNK_BYTES = 1 << 23  # rows of one chunk as float64, and what is computed from them


def encode(
    X: Any, components: Any, sum_to_one: bool = False, *, out: Any = None, workers: int | None = None
) -> NDArray[Any]:
    """The weights F ≥ 0 that minimise ‖F·components − X‖, row by row.

    Parameters
    ----------
    X : m × n array or sparse matrix of any sign, or an object with sample access (its view is encoded). For a Dask
        array or data frame the result is a lazy Dask array.
    components : k × n, the anchors; they may be dependent, then a row has a solution with independent anchors.
    sum_to_one : also ask that every row of F sums to one (fully constrained unmixing), exactly.
    out : m × k floating array to write to, such as a memory map; by default a new array, float32 for
        float32 rows and float64 otherwise. Either way the computation is in float64.
    workers : threads, each with a chunk of rows at a time; by default one per processor. The result does not
        depend on it.

    Returns
    -------
    F : m × k array (``out``, where given).

    Costs O(nnz·k) for the products and a few k³ flops per row. Besides the result it holds an n × k factor of the
    anchors and about 16 MB per worker (more only if a single row is larger).

    The solution agrees with :func:`scipy.optimize.nnls`; see :mod:`fastanchors.greedy.nnls` for how it is found.
    """
    if is_dask(X):
        from .dask.lazy import lazy_encode

        if out is not None or workers is not None:
            raise InvalidInputError("out and workers are for matrices of this process; a Dask array has its own")
        return lazy_encode(X, components, sum_to_one)
    C = dense_components(components)
    source = X if isinstance(X, SampleAccess) else as_matrix(X, signed=True, finite=False, name="X")
    m, n = source.shape
    if C.shape[1] != n:
        raise InvalidInputError(f"components have {C.shape[1]} columns, X has {n}; they must agree")
    workers = os.cpu_count() or 1 if workers is None else check_size(workers, name="workers")
    if out is None:
        single = getattr(source, "dtype", None) == np.float32
        out = np.empty((m, len(C)), dtype=np.float32 if single else np.float64)
    elif not isinstance(out, np.ndarray) or out.dtype.kind != "f":
        raise InvalidTypeError("out must be a floating-point array (a memory map is one)")
    elif out.shape != (m, len(C)):
        raise InvalidInputError(f"out has shape {out.shape}, the result {(m, len(C))}")
    encode_rows(source, C, out, sum_to_one=sum_to_one, workers=workers)
    return out


def dense_components(components: Any) -> NDArray[np.float64]:
    """The anchors, checked, as a dense array."""
    C = as_matrix(components, signed=True, name="components")
    C = np.asarray(C.toarray() if sp.issparse(C) else C, dtype=np.float64)
    if np.abs(C).max() > 1e150:
        raise InvalidInputError("components have entries so large that their squares overflow; rescale them")
    return C


def encode_rows(
    source: Any,
    C: NDArray[np.float64],
    out: NDArray[Any] | None,
    *,
    sum_to_one: bool,
    workers: int,
    error: bool = False,
) -> float:
    """The computing twin of :func:`encode` on clean input; with ``error`` also returns ‖out·C − source‖_F².

    For sparse rows the error is ‖a‖² − ‖y‖² + ‖R·f − y‖², which keeps them sparse and cannot tell less than
    about 1e-8·‖a‖ from zero.
    """
    step = _chunk_rows(source, len(C))
    with one_blas_thread():  # the same products in the same order, whatever the number of workers
        Q, R = np.linalg.qr(C.T)
        system = NonnegativeSystem(R, sum_to=1.0 if sum_to_one else None)

        def solve(start: int, block: Rows) -> float:
            block = block.astype(np.float64, copy=False)
            with np.errstate(all="ignore"):
                Y = block @ Q
                finite = np.isfinite(np.einsum("ij,ij->", Y, Y))
            if not finite:  # every bad entry of a row shows in its products
                check_finite(block, signed=True, name="X", first_row=start)
                raise InvalidInputError("X has entries so large that their squares overflow; rescale it")
            F = system.solve(Y)
            if out is not None:
                out[start : start + len(F)] = F
            return _squared_error(block, Y, F, R, C) if error else 0.0

        if workers == 1 or source.shape[0] <= step:
            return sum(solve(start, block) for start, block in _chunks(source, step))
        return _in_threads(solve, _chunks(source, step), workers)


def _in_threads(solve: Callable[[int, Rows], float], chunks: Iterator[tuple[int, Rows]], workers: int) -> float:
    """The sum of ``solve`` over the chunks, added in their order; few chunks wait at any time."""
    total = 0.0
    waiting: deque[Future[float]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for start, block in chunks:
                waiting.append(pool.submit(solve, start, block))
                if len(waiting) > 2 * workers:
                    total += waiting.popleft().result()
            while waiting:
                total += waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
    return total


def _chunk_rows(source: Any, k: int) -> int:
    """Rows of a chunk. It follows from the shape alone, so that rounding does not depend on anything else."""
    m, n = source.shape
    if sp.issparse(source) or (isinstance(source, SampleAccess) and source.nnz < m * n // 4):
        per_row = 16 * (source.nnz // m + 1)
    else:
        per_row = 8 * n
    return max(1, _CHUNK_BYTES // (per_row + 32 * k))


def _chunks(source: Any, step: int) -> Iterator[tuple[int, Rows]]:
    """Blocks of ``step`` rows in order."""
    if isinstance(source, SampleAccess):
        yield from source.blocks(step)
        return
    for start in range(0, source.shape[0], step):
        yield start, source[start : start + step]


def _squared_error(block: Rows, Y: Any, F: NDArray[np.float64], R: Any, C: Any) -> float:
    if sp.issparse(block):
        outside = block.multiply(block).sum(axis=1) - np.einsum("ij,ij->i", Y, Y)
        gap = Y - F @ R.T
        return float(np.maximum(outside + np.einsum("ij,ij->i", gap, gap), 0.0).sum())
    gap = block - F @ C
    return float(np.einsum("ij,ij->", gap, gap))
