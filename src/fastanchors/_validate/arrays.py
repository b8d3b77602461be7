"""Convert arguments to arrays: matrices, other arrays of numbers, and indices."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._packing import stored_values
from .._tables import as_frame
from .._types import Rows
from ..errors import InvalidInputError, InvalidTypeError, one_line
from .entries import as_numeric, check_finite, check_unrounded, check_unrounded_list, numeric
from .frames import check_frame
from .kinds import check_no_group, computed, package
from .sparse import canonical

__all__ = ["as_array", "as_matrix", "as_numbers", "as_reals", "check_index", "check_one_index", "check_unmasked"]


def check_unmasked(A: Any, name: str) -> None:
    """Raise if entries of a masked array, or of a list of them, are masked: their values mean nothing."""
    parts = A if isinstance(A, list | tuple) else (A,)
    masked = sum(int(np.ma.getmaskarray(part).sum()) for part in parts if isinstance(part, np.ma.MaskedArray))
    if masked:
        raise InvalidInputError(f"{masked} entries of {name} are masked; fill them first, for example with .filled(0)")


def as_array(values: Any, name: str) -> NDArray[Any]:
    """``values`` as a plain array, computed if Dask has them; raises if entries are masked, or rows differ in length.

    Also if NumPy would round integers of a list that are beside floats (:func:`check_unrounded_list`), where it would
    change columns of a frame or an Arrow table (:func:`check_frame`), if the array is packed, and on groups of arrays
    (:func:`check_no_group`). Packed arrays of Zarr and h5py are unpacked.
    """
    check_no_group(values, name)
    values = computed(values, name)
    check_unmasked(values, name)
    if isinstance(values, list | tuple):  # rows that are taken from an array of xarray keep its attributes
        values = [as_frame(each, name) if hasattr(each, "attrs") else each for each in values]
    values = as_frame(values, name)
    check_frame(values, name)
    try:
        array = stored_values(values, name) if package(values) in ("zarr", "h5py") else np.asarray(values)
        if isinstance(values, list | tuple):
            check_unrounded_list(values, array, name)
        return array
    except InvalidInputError:
        raise
    except (TypeError, ValueError, OverflowError, NotImplementedError) as error:  # the last of types of Arrow
        raise InvalidInputError(f"{name} cannot be converted to an array: {one_line(str(error))}") from None


def as_numbers(values: Any, name: str) -> NDArray[Any]:
    """An argument beside the data, of any shape, as a plain array of an integer type, float32 or float64.

    For arguments that are used as float64: raises on masked entries, on text, complex numbers and dates, also among
    objects, and on integers that float64 would round. NaN and infinite entries are left to the caller.
    """
    values = computed(values, name)
    if sp.issparse(values):
        raise InvalidTypeError(f"{name} must be an array, got {type(values).__name__}; use {name}.toarray()")
    array = numeric(as_array(values, name), name)
    check_unrounded(array, name)
    return array


def as_reals(values: Any, name: str) -> NDArray[np.float64]:
    """:func:`as_numbers` as float64; raises on the first entry that is NaN or infinite."""
    array = as_numbers(values, name).astype(np.float64, copy=False)
    bad = ~np.isfinite(array)
    if bad.any():
        place = np.unravel_index(int(np.argmax(bad)), array.shape)
        where = f"[{', '.join(map(str, place))}]" if array.ndim else ""
        raise InvalidInputError(f"{name}{where} is {array[place]}; {name} must be finite")
    return array


def as_matrix(A: Any, *, signed: bool = False, finite: bool = True, name: str = "A") -> Rows:
    """``A`` as a C-ordered numeric 2-D array or as canonical CSR (sorted, no duplicates), checked.

    Sparse input stays sparse, and numeric types are kept (bool becomes uint8, float16 float32, objects float64).
    Raises on an empty or non-2-D shape and on the first NaN, infinite or, unless ``signed``, negative entry; the error
    names its row and column. The caller's data is never changed, and copied only where necessary. ``finite=False``
    skips the check of the entries, for callers that check them in their first pass (:func:`check_finite`).
    """
    if isinstance(A, str | os.PathLike):
        raise InvalidTypeError(
            f"{name} is a path, not a matrix: {os.fspath(A)!r}; load the matrix, or "
            "open the file with fa.open_matrix(path)"
        )
    A = computed(A, name)
    if sp.issparse(A):
        matrix: Rows = canonical(A, name)
    else:
        matrix = as_array(A, name)
        if matrix.ndim != 2:
            hints = {0: f": it is of type {type(A).__name__}", 1: "; use x.reshape(1, -1) for one row"}
            hint = hints.get(matrix.ndim, "")
            raise InvalidInputError(f"{name} must be two-dimensional, got shape {matrix.shape}{hint}")
    if 0 in matrix.shape:
        raise InvalidInputError(f"{name} is empty: shape {matrix.shape}; at least one row and one column are needed")
    matrix = as_numeric(matrix, name)
    if not sp.issparse(matrix):
        matrix = np.ascontiguousarray(matrix)
    if finite:
        check_finite(matrix, signed=signed, name=name)
    return matrix


def check_index(index: Any, length: int, *, name: str) -> NDArray[np.intp]:
    """``index`` (an int or array of ints) as an intp array of the same shape, each in 0 … length − 1."""
    array = as_array(index, name)
    if array.size == 0:
        return array.astype(np.intp)
    if array.dtype.kind not in "iu":
        raise InvalidTypeError(f"{name} must be an integer or an array of integers, got dtype {array.dtype}")
    low, high = array.min(), array.max()
    if low < 0 or high >= length:
        raise InvalidInputError(f"{name} {int(low if low < 0 else high)} is out of range 0 … {length - 1}")
    return array.astype(np.intp, copy=False)


def check_one_index(index: Any, length: int, *, name: str) -> int:
    """``index`` as one int in 0 … length − 1."""
    if isinstance(index, int | np.integer) and not isinstance(index, bool) and 0 <= index < length:
        return int(index)  # without an array, for callers with many of them
    place = check_index(index, length, name=name)
    if place.ndim:
        raise InvalidInputError(f"{name} must be one integer, got an array of shape {place.shape}")
    return int(place)
