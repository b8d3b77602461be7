"""Validate entries before they are written to a matrix: all of them are checked before any is written."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from .._jit import jit
from .._validate import as_array, check_index, check_unrounded
from ..errors import InvalidInputError, InvalidTypeError
from ..matrix.contract import Rows
from .segment_trees import Array

__all__ = ["LARGEST", "SMALLEST", "as_entries", "as_values", "check_squares", "is_plain", "summed"]

SMALLEST, LARGEST = 2.0**-511, 2.0**500  # squares in this range, and sums of millions of them, are normal doubles
_PLAIN_SMALLEST, _PLAIN_LARGEST = 2.0**-400, 2.0**400  # one such square cannot make a finite sum infinite


def as_entries(rows: ArrayLike, columns: ArrayLike, values: ArrayLike, shape: tuple[int, int]) -> tuple[Array, ...]:
    """Row indices, column indices and values, flattened; indices in range, values broadcast to them as in NumPy."""
    i = check_index(rows, shape[0], name="row")
    j = check_index(columns, shape[1], name="column")
    x = as_array(values, "values")
    try:
        if not i.shape == j.shape == x.shape:
            places = np.broadcast_shapes(i.shape, j.shape)
            while x.ndim > len(places) and len(x) == 1:
                x = x.reshape(x.shape[1:])
            i, j, x = (np.array(np.broadcast_to(a, places)) for a in (i, j, x))  # copies: kernels take writable arrays
    except ValueError:
        raise InvalidInputError(
            f"rows, columns and values do not fit together: shapes {i.shape}, {j.shape} and {x.shape}"
        ) from None
    return (*(np.ascontiguousarray(a, np.int64).reshape(-1) for a in (i, j)), x.reshape(-1))


def as_values(x: Array, i: Array, j: Array, dtype: np.dtype[Any], *, signed: bool) -> Array:
    """``x`` converted to the type of the matrix; raises on the first value that does not fit."""
    if x.size == 0:
        return x.astype(dtype)
    if x.dtype.kind == "b":
        x = x.astype(np.uint8)
    if x.dtype.kind not in "iuf":
        raise InvalidTypeError(f"values must be real numbers, got dtype {x.dtype}")
    if x.dtype.kind == "f":
        _refuse(~np.isfinite(x), x, i, j, "is not finite; remove or impute it first")
    if not signed:
        _refuse(x < 0, x, i, j, "is negative; normalize='l1' needs non-negative entries (or use normalize=None)")
    if dtype.kind in "iu":
        if x.dtype.kind == "f":
            _refuse(x != np.floor(x), x, i, j, f"is not a whole number, but the matrix holds {dtype}")
        limits = np.iinfo(dtype)
        # Compared as Python integers: int64 and uint64 have no common NumPy integer type.
        if int(x.min()) < limits.min or int(x.max()) > limits.max:
            outside = np.array([not limits.min <= int(v) <= limits.max for v in x])
            _refuse(outside, x, i, j, f"does not fit into {dtype}")
        return np.ascontiguousarray(x.astype(dtype))
    check_unrounded(x, "the values")
    with np.errstate(over="ignore", under="ignore"):
        kept = np.ascontiguousarray(x.astype(dtype))
    size = np.abs(kept.astype(np.float64, copy=False))
    lost = (kept == 0) & (x != 0)
    outside = lost | ((size != 0) & ~((size >= SMALLEST) & (size <= LARGEST)))
    if outside.any():
        _refuse(outside, x, i, j, _out_of_range(dtype))
    return kept


def is_plain(i: Any, j: Any, x: Any, shape: tuple[int, int], *, signed: bool) -> bool:
    """Whether index and value are valid for a float64 matrix without any further check."""
    return (
        type(i) is int
        and type(j) is int
        and type(x) is float
        and 0 <= i < shape[0]
        and 0 <= j < shape[1]
        and (x == 0.0 or _PLAIN_SMALLEST <= (abs(x) if signed else x) <= _PLAIN_LARGEST)
    )


def _out_of_range(dtype: np.dtype[Any]) -> str:
    return (
        f"has a square that under- or overflows as {dtype}; magnitudes must be 0 or between 2^-511 and 2^500: rescale "
        "the matrix"
    )


def _refuse(bad: Array, x: Array, i: Array, j: Array, why: str) -> None:
    if bad.any():
        at = int(np.argmax(bad))
        raise InvalidInputError(f"the value {x[at]} for entry [{i[at]}, {j[at]}] {why}")


def summed(old: Array, deltas: Array, i: Array, j: Array, inverse: Array, dtype: np.dtype[Any]) -> Array:
    """``old`` plus the sum of the deltas of each entry; ``inverse`` maps deltas to entries.

    In double precision, in int64 for integer matrices.
    """
    if deltas.dtype.kind not in "iufb":
        raise InvalidTypeError(f"deltas must be real numbers, got dtype {deltas.dtype}")
    if dtype.kind in "iu":
        if deltas.dtype.kind == "f":
            _refuse(~np.isfinite(deltas), deltas, i, j, "is not finite; remove or impute it first")
            _refuse(deltas != np.floor(deltas), deltas, i, j, f"is not a whole number, but the matrix holds {dtype}")
        rough = old.astype(np.float64)
        np.add.at(rough, inverse, np.abs(deltas.astype(np.float64)))
        _refuse(np.abs(rough)[inverse] >= 2.0**62, deltas, i, j, "takes the entry beyond 2^62")
        total = old.astype(np.int64)
        np.add.at(total, inverse, deltas.astype(np.int64))
        return total
    check_unrounded(deltas, "the deltas")
    return old + np.bincount(inverse, deltas.astype(np.float64), len(old))


@jit
def _first_outside(values: Array) -> int:
    for k in range(values.size):
        x = abs(np.float64(values[k]))
        if x != 0.0 and not SMALLEST <= x <= LARGEST:
            return k
    return -1


def check_squares(A: Rows, *, first_row: int = 0) -> None:
    """Raise on the first entry whose square over- or underflows; only float64 matrices can have one."""
    values = A.data if sp.issparse(A) else A.reshape(-1)
    if values.dtype != np.float64:
        return
    at = _first_outside(values)
    if at < 0:
        return
    if sp.issparse(A):
        row, column = int(np.searchsorted(A.indptr, at, side="right")) - 1, int(A.indices[at])
    else:
        row, column = divmod(at, A.shape[1])
    raise InvalidInputError(f"A[{row + first_row}, {column}] = {values[at]} {_out_of_range(values.dtype)}")
