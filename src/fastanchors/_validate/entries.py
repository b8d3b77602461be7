"""Check the entries of arrays: their type, whether float64 holds them, and whether they are finite."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._types import Rows
from ..errors import InvalidInputError, InvalidTypeError, one_line

__all__ = [
    "CHUNK_ENTRIES",
    "as_numeric",
    "check_finite",
    "check_objects",
    "check_unrounded",
    "check_unrounded_list",
    "check_whole_objects",
    "in_type",
    "numeric",
]

CHUNK_ENTRIES = 1 << 22  # entries checked at a time, to bound the extra memory
_WHOLE = 2**53  # up to here every integer is a float64
#: objects that NumPy converts to float64, though they are no real numbers (arrays may hold any of the others)
_NO_REALS = (
    type(None),
    str,
    bytes,
    bytearray,
    memoryview,
    np.complexfloating,
    np.datetime64,
    np.timedelta64,
    np.ndarray,
)


def numeric(values: NDArray[Any], name: str, *, first_row: int = 0) -> NDArray[Any]:
    """The values in a supported native type: an integer type, float32 or float64; objects become float64.

    ``first_row`` is added to the reported row, for blocks of a larger matrix.
    """
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
        check_objects(values, name, first_row)
        try:
            doubles = values.astype(np.float64)
        except (TypeError, ValueError, OverflowError):
            raise InvalidTypeError(_no_number(values, name, first_row)) from None
        return doubles
    raise InvalidTypeError(f"{name} must hold real numbers, got dtype {values.dtype}")


def in_type(matrix: Rows, dtype: np.dtype[Any], where: str, like: str) -> Rows:
    """An array or CSR matrix in the type ``dtype``, that of ``like``; raises if it does not hold every number."""
    if matrix.dtype == dtype:
        return matrix
    if sp.issparse(matrix):
        values = in_type(matrix.data, dtype, where, like)
        return sp.csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)
    values = matrix
    if dtype.kind in "biuf":
        values = numeric(values, where)
    if not np.can_cast(values.dtype, dtype, "safe"):
        raise InvalidTypeError(
            f"{where}: entries of type {values.dtype} do not fit {like} {dtype}; convert all blocks to one type"
        )
    if dtype.kind == "f":
        check_unrounded(values, where)
    return values.astype(dtype)


def as_numeric(matrix: Rows, name: str) -> Rows:
    """An array or CSR matrix with its values in a supported type (:func:`numeric`)."""
    if not sp.issparse(matrix):
        return numeric(matrix, name)
    values = numeric(matrix.data, name)
    if values is matrix.data:
        return matrix
    return sp.csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)


def check_finite(matrix: Rows, *, signed: bool = False, name: str = "A", first_row: int = 0) -> None:
    """Raise on the first entry (row-major) that is NaN, infinite or, unless ``signed``, negative.

    ``first_row`` is added to the reported row, for blocks of a larger matrix.
    """
    sparse = sp.issparse(matrix)
    flat = matrix.data if sparse else matrix.reshape(-1)
    kind = flat.dtype.kind
    if kind == "u" or (kind == "i" and signed):
        return
    for start in range(0, flat.size, CHUNK_ENTRIES):
        chunk = flat[start : start + CHUNK_ENTRIES]
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


def check_unrounded(values: NDArray[Any], name: str) -> None:
    """Raise on the first integer that float64 would round: beyond 2⁵³, those with too many binary digits."""
    if values.dtype.kind not in "iu" or values.dtype.itemsize < 8 or values.size == 0:
        return
    if int(values.min()) >= -_WHOLE and int(values.max()) <= _WHOLE:
        return
    size = np.abs(values).astype(np.uint64) if values.dtype.kind == "i" else values
    last = np.maximum(size & (~size + np.uint64(1)), np.uint64(1))  # the value of the last binary digit that is not 0
    bad = (size // last).reshape(-1) > np.uint64(_WHOLE)
    if bad.any():
        raise InvalidInputError(_rounded(values.reshape(-1)[int(np.argmax(bad))], name))


def check_unrounded_list(values: Any, array: NDArray[Any], name: str) -> None:
    """Raise on the first integer of a list, tuple or nest of these that its conversion to ``array`` has rounded."""
    if array.dtype.kind != "f":
        return
    high, low = (extreme.reduce(array, axis=None, initial=0) for extreme in (np.fmax, np.fmin))  # without any NaN
    if high >= _WHOLE or low <= -_WHOLE:  # else each of its integers is a float64
        for part in values if array.ndim > 1 else (values,):
            check_whole_objects(np.asarray(part, dtype=object).flat, name)


def check_objects(values: NDArray[Any], name: str, first_row: int = 0) -> None:
    """Raise on objects that NumPy would convert to other numbers: text, complex, dates, None, integers beyond 2⁵³."""
    kinds = set(map(type, values.flat))
    if any(issubclass(kind, _NO_REALS) for kind in kinds):
        raise InvalidTypeError(_no_number(values, name, first_row))
    if any(issubclass(kind, int | np.integer | Decimal) for kind in kinds):
        check_whole_objects(values.flat, name)


def check_whole_objects(values: Iterable[Any], name: str) -> None:
    """Raise on the first integer among objects that float64 would round; one that it cannot hold is left to others.

    A ``Decimal`` without an exponent is an integer too; decimal fractions are rounded, as those of text are.
    """
    for value in values:
        whole = isinstance(value, int | np.integer) or (isinstance(value, Decimal) and value.as_tuple().exponent == 0)
        if whole and not -_WHOLE <= value <= _WHOLE:
            with contextlib.suppress(OverflowError):
                if float(value) != int(value):
                    raise InvalidInputError(_rounded(value, name))


def _rounded(value: Any, name: str) -> str:
    return (
        f"{name}: the integer {value} would be rounded to float64; convert all entries to one integer type, or to "
        "float64 yourself if they may be rounded"
    )


def _no_number(values: NDArray[Any], name: str, first_row: int) -> str:
    """Error message that names the first object that is not a number."""
    for place, value in np.ndenumerate(values):
        try:
            if isinstance(value, _NO_REALS):
                raise TypeError
            float(value)
        except (TypeError, ValueError, OverflowError):
            where = f"[{place[0] + first_row}, {place[1]}]" if values.ndim == 2 else ""
            kind = type(value).__name__
            if kind in ("NAType", "NaTType", "NoneType"):
                return f"{name}{where} is missing; remove or impute it first"
            return f"{name} must hold real numbers: {name}{where} is {one_line(repr(value), 60)} ({kind})"
    return f"{name} must hold real numbers, got dtype object"
