"""Checks at the door: each public function validates once, here, and computes on clean arrays afterwards."""

from __future__ import annotations

import numbers
import os
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ._types import Rows
from .errors import InvalidInputError, InvalidTypeError

__all__ = ["as_matrix", "check_finite", "check_index", "check_number", "check_rank", "check_size", "is_dask"]

_LARGEST = 2**63 - 1
_CHUNK_ENTRIES = 1 << 22  # entries looked at together, so that checking needs little extra memory


def as_matrix(A: Any, *, signed: bool = False, finite: bool = True, name: str = "A") -> Rows:
    """``A`` as a C-ordered numeric 2-D array or as canonical CSR (sorted, no duplicates), checked.

    Sparse input stays sparse, numeric types are kept (bool becomes uint8, float16 float32, objects are refused).
    Raises on NaN, infinities, an empty or non-2-D shape and, unless ``signed``, on negative entries, with the
    row and column of the first offender. The caller's data is never changed; it is copied only where it must be.
    ``finite=False`` leaves the entries unread, for callers whose first pass over them tells (:func:`check_finite`).
    """
    if isinstance(A, str | os.PathLike):
        raise InvalidTypeError(
            f"{name} is a path, not a matrix: {os.fspath(A)!r}; load the matrix, or build a store of the file with "
            "fa.build(path, folder) where one is taken"
        )
    if sp.issparse(A):
        if A.ndim != 2:
            raise InvalidInputError(f"{name} must be two-dimensional, got {A.ndim} dimension(s)")
        matrix: Rows = sp.csr_array(A)
        if not matrix.has_canonical_format:
            if matrix.data is A.data or np.shares_memory(matrix.data, getattr(A, "data", matrix.data)):
                matrix = matrix.copy()
            matrix.sum_duplicates()
        values = matrix.data
    else:
        if isinstance(A, np.matrix):
            A = np.asarray(A)
        if isinstance(A, np.ma.MaskedArray) and np.ma.is_masked(A):
            raise InvalidInputError(
                f"{int(np.ma.getmaskarray(A).sum())} entries of {name} are masked, and what lies under the mask is not "
                f"to be taken for numbers; fill them first, with {name}.filled(0) for example"
            )
        matrix = np.asarray(A)
        if matrix.ndim != 2:
            hint = "; use x.reshape(1, -1) for one row" if matrix.ndim == 1 else ""
            raise InvalidInputError(f"{name} must be two-dimensional, got shape {matrix.shape}{hint}")
        values = matrix
    if 0 in matrix.shape:
        raise InvalidInputError(f"{name} is empty: shape {matrix.shape}; at least one row and one column are needed")
    converted = _numeric(values, name)
    if converted is not values:
        matrix = (
            sp.csr_array((converted, matrix.indices, matrix.indptr), shape=matrix.shape)
            if sp.issparse(matrix)
            else converted
        )
    if not sp.issparse(matrix):
        matrix = np.ascontiguousarray(matrix)
    if finite:
        check_finite(matrix, signed=signed, name=name)
    return matrix


def is_dask(A: Any) -> bool:
    """Whether ``A`` is a Dask array or data frame; told by its looks, so that Dask is not imported."""
    return hasattr(A, "__dask_graph__") and hasattr(A, "to_delayed")


def _numeric(values: NDArray[Any], name: str) -> NDArray[Any]:
    kind = values.dtype.kind
    if kind == "b":
        return values.astype(np.uint8)
    if kind == "f" and values.dtype.itemsize == 2:
        return values.astype(np.float32)
    if kind == "f" and values.dtype.itemsize > 8:
        return values.astype(np.float64)
    if kind in "iuf":
        return values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))
    if kind == "O":
        try:
            return values.astype(np.float64)
        except (TypeError, ValueError):
            pass
    raise InvalidTypeError(f"{name} must hold real numbers, got dtype {values.dtype}")


def check_finite(matrix: Rows, *, signed: bool = False, name: str = "A", first_row: int = 0) -> None:
    """Raise on the first entry (row-major) that is NaN, infinite or, unless ``signed``, negative.

    ``first_row`` is added to the reported row, for blocks of a larger matrix.
    """
    sparse = sp.issparse(matrix)
    flat = matrix.data if sparse else matrix.reshape(-1)
    kind = flat.dtype.kind
    if kind == "u" or (kind == "i" and signed):
        return
    for start in range(0, flat.size, _CHUNK_ENTRIES):
        chunk = flat[start : start + _CHUNK_ENTRIES]
        low = chunk.min()
        if np.isfinite(low) and np.isfinite(chunk.max()) and (signed or low >= 0):
            continue
        bad = ~np.isfinite(chunk)
        if not signed:
            bad |= chunk < 0
        at = start + int(np.argmax(bad))
        value = flat[at]
        if sparse:
            row = int(np.searchsorted(matrix.indptr, at, side="right")) - 1
            column = int(matrix.indices[at])
        else:
            row, column = divmod(at, matrix.shape[1])
        what = "NaN" if np.isnan(value) else "infinite" if np.isinf(value) else f"negative ({value})"
        cure = (
            "clip or shift it: anchors need non-negative entries" if np.isfinite(value) else "remove or impute it first"
        )
        raise InvalidInputError(f"{name}[{row + first_row}, {column}] is {what}; {cure}")


def check_rank(k: Any, shape: tuple[int, int], *, limit: str = "rank", name: str = "k") -> int:
    """``k`` as an int with 1 ≤ k ≤ min(m, n), or 1 ≤ k ≤ m when ``limit`` is ``"rows"``."""
    k = check_size(k, name=name)
    bound, what = (shape[0], "the number of rows") if limit == "rows" else (min(shape), "min(rows, columns)")
    if k > bound:
        raise InvalidInputError(f"{name} = {k} is more than {what} = {bound}; choose a smaller {name}")
    return k


def check_size(value: Any, *, name: str, minimum: int = 1) -> int:
    """``value`` as an int of at least ``minimum`` that an index can hold."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise InvalidTypeError(f"{name} must be an integer, got {value!r}")
    if value < minimum:
        raise InvalidInputError(f"{name} must be at least {minimum}, got {value}")
    if int(value) > _LARGEST:
        raise InvalidInputError(f"{name} must be below 2^63, got an integer of {int(value).bit_length()} bits")
    return int(value)


def check_number(value: Any, *, name: str, minimum: float = -np.inf, maximum: float = np.inf) -> float:
    """``value`` as a finite float with minimum ≤ value ≤ maximum."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InvalidTypeError(f"{name} must be a real number, got {value!r}")
    try:
        number = float(value)
    except OverflowError:  # an integer beyond all doubles
        number = np.inf
    if not (np.isfinite(number) and minimum <= number <= maximum):
        raise InvalidInputError(f"{name} must be a finite number between {minimum:g} and {maximum:g}, got {value}")
    return number


def check_index(index: Any, length: int, *, name: str) -> NDArray[np.intp]:
    """``index`` (an int or array of ints) as an intp array of the same shape, each in 0 … length − 1."""
    array = np.asarray(index)
    if array.size == 0:
        return array.astype(np.intp)
    if array.dtype.kind not in "iu":
        raise InvalidTypeError(f"{name} must be an integer or an array of integers, got dtype {array.dtype}")
    low, high = array.min(), array.max()
    if low < 0 or high >= length:
        raise InvalidInputError(f"{name} {int(low if low < 0 else high)} is out of range 0 … {length - 1}")
    return array.astype(np.intp, copy=False)
