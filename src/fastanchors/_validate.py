"""Validate arguments: each public function checks them once, and private functions compute on clean arrays."""

from __future__ import annotations

import contextlib
import datetime as dt
import numbers
import os
from collections.abc import Collection, Iterable, Mapping, Set
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ._tables import as_frame
from ._types import Rows
from .errors import InvalidInputError, InvalidTypeError, TooLargeError, one_line

__all__ = [
    "as_array",
    "as_csr",
    "as_matrix",
    "as_numbers",
    "as_numeric",
    "as_reals",
    "check_extent",
    "check_finite",
    "check_flag",
    "check_frame",
    "check_index",
    "check_number",
    "check_objects",
    "check_rank",
    "check_size",
    "check_sparse",
    "check_tolerance",
    "check_unmasked",
    "check_unrounded",
    "check_whole_objects",
    "csr_of",
    "is_canonical",
    "is_dask",
    "name_list",
    "numeric",
    "plain_dtype",
]

_LARGEST = 2**63 - 1
_WHOLE = 2**53  # up to here every integer is a float64
_CHUNK_ENTRIES = 1 << 22  # entries checked at a time, to bound the extra memory
_ANY_EXTENT = 1 << 25  # rows or columns that any sparse matrix may have, even an empty one
_EMPTY_PER_ENTRY = 256  # additional rows or columns allowed per entry; a larger size is taken for an error
_TIMES = (dt.date, dt.time, dt.timedelta)
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


def check_unmasked(A: Any, name: str) -> None:
    """Raise if entries of a masked array, or of a list of them, are masked: their values mean nothing."""
    parts = A if isinstance(A, list | tuple) else (A,)
    masked = sum(int(np.ma.getmaskarray(part).sum()) for part in parts if isinstance(part, np.ma.MaskedArray))
    if masked:
        raise InvalidInputError(f"{masked} entries of {name} are masked; fill them first, for example with .filled(0)")


def as_array(values: Any, name: str) -> NDArray[Any]:
    """``values`` as a plain array; raises if entries are masked, or if rows have different lengths.

    Also where NumPy would change columns of a frame or an Arrow table (:func:`check_frame`), and if it is packed.
    """
    check_unmasked(values, name)
    values = as_frame(values, name)
    check_frame(values, name)
    try:
        return np.asarray(values)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"{name} cannot be converted to an array: {one_line(str(error))}") from None


def as_numbers(values: Any, name: str) -> NDArray[Any]:
    """An argument beside the data, of any shape, as a plain array of an integer type, float32 or float64.

    For arguments that are used as float64: raises on masked entries, on text, complex numbers and dates, also among
    objects, and on integers that float64 would round. NaN and infinite entries are left to the caller.
    """
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
    if sp.issparse(A):
        matrix: Rows = _canonical(A, name)
    else:
        matrix = as_array(A, name)
        if matrix.ndim != 2:
            hint = "; use x.reshape(1, -1) for one row" if matrix.ndim == 1 else ""
            raise InvalidInputError(f"{name} must be two-dimensional, got shape {matrix.shape}{hint}")
    if 0 in matrix.shape:
        raise InvalidInputError(f"{name} is empty: shape {matrix.shape}; at least one row and one column are needed")
    matrix = as_numeric(matrix, name)
    if not sp.issparse(matrix):
        matrix = np.ascontiguousarray(matrix)
    if finite:
        check_finite(matrix, signed=signed, name=name)
    return matrix


def as_csr(A: Any, name: str) -> sp.csr_array:
    """A sparse matrix as CSR, its index arrays checked before SciPy uses them."""
    check_sparse(A, name)
    check_extent(A.shape, A.nnz, name)
    try:
        csr = sp.csr_array(A)
    except (ValueError, IndexError, TypeError) as error:
        raise InvalidInputError(f"{name} is damaged: {one_line(str(error))}") from None
    if A.format != "csr":  # formats that check_sparse does not cover, such as lil, are checked after conversion
        check_sparse(csr, name)
    return csr


def _canonical(A: Any, name: str) -> sp.csr_array:
    """A sparse matrix as CSR, its index arrays checked, every row sorted and without duplicates."""
    csr = as_csr(A, name)
    if csr.nnz == A.nnz and is_canonical(csr):
        return csr
    small = A.dtype.kind in "iu" and A.dtype.itemsize < 8  # sums of duplicates could overflow
    csr = sp.csr_array(A.astype(np.int64) if small else A, copy=True)
    csr.has_canonical_format = csr.has_sorted_indices = False  # flags copied from A may be stale
    csr.sum_duplicates()
    if small and csr.nnz:
        limits = np.iinfo(A.dtype)
        if limits.min <= csr.data.min() and csr.data.max() <= limits.max:
            csr.data = csr.data.astype(A.dtype)
    return csr


def check_sparse(A: Any, name: str = "A") -> None:
    """Raise unless the index arrays of a sparse matrix are valid: compiled code uses them without bounds checks.

    Takes a few vectorised passes over the indices, without copies.
    """
    if A.ndim != 2:
        raise InvalidInputError(f"{name} must be two-dimensional, got {A.ndim} dimension(s)")
    m, n = A.shape
    if A.format == "coo":
        _check_indices(A.row, m, "row", A.data.size, name)
        _check_indices(A.col, n, "column", A.data.size, name)
    elif A.format in ("csr", "csc", "bsr"):
        high, wide = (1, 1) if A.format != "bsr" else A.data.shape[1:] if A.data.ndim == 3 else (0, 0)
        if high < 1 or wide < 1 or (A.format != "bsr" and A.data.ndim != 1):
            raise InvalidInputError(f"{name} is damaged: its data has the shape {A.data.shape}")
        major, minor = (n, m) if A.format == "csc" else (m // high, n // wide)
        entries = _check_pointers(A.indptr, major, name)
        if entries > min(A.indices.size, len(A.data)):
            raise InvalidInputError(
                f"{name} is damaged: indptr ends at {entries}, but there are {A.indices.size} indices and "
                f"{len(A.data)} values"
            )
        _check_indices(A.indices[:entries], minor, "row" if A.format == "csc" else "column", entries, name)
    elif A.format == "dia" and (A.data.ndim != 2 or A.offsets.shape != A.data.shape[:1]):
        raise InvalidInputError(f"{name} is damaged: {A.offsets.size} offsets for data of shape {A.data.shape}")


def csr_of(parts: Iterable[NDArray[Any]], shape: tuple[int, int]) -> sp.csr_array:
    """CSR of data, indices and indptr from a file, which it must use in full; an error if they are damaged."""
    data, indices, indptr = parts
    if not indptr.size or not indptr[-1] == indices.size == data.size:
        raise InvalidInputError(f"the matrix is damaged: {indices.size} indices and {data.size} values")
    if max(shape) > np.iinfo(np.int64).max:
        raise InvalidInputError("the matrix is damaged: it has 2^63 rows or columns, or more")
    csr = sp.csr_array((data, indices, indptr), shape=shape)
    check_sparse(csr, "the matrix")
    return csr


def _check_pointers(indptr: NDArray[Any], major: int, name: str) -> int:
    """The number of entries that ``indptr`` refers to."""
    if indptr.dtype.kind not in "iu" or indptr.shape != (major + 1,):
        raise InvalidInputError(
            f"{name} is damaged: indptr must hold {major + 1} integers, got {indptr.dtype} of shape {indptr.shape}"
        )
    if indptr[0] != 0:
        raise InvalidInputError(f"{name} is damaged: indptr starts with {indptr[0]}, not 0")
    for start in range(0, major, _CHUNK_ENTRIES):
        falls = indptr[start + 1 : start + 1 + _CHUNK_ENTRIES] < indptr[start : start + _CHUNK_ENTRIES][: major - start]
        if falls.any():
            raise InvalidInputError(f"{name} is damaged: indptr decreases after position {start + int(falls.argmax())}")
    return int(indptr[-1])


def _check_indices(index: NDArray[Any], length: int, what: str, count: int, name: str) -> None:
    if index.dtype.kind not in "iu" or index.shape != (count,):
        raise InvalidInputError(
            f"{name} is damaged: expected {count} integer {what} indices, got {index.dtype} of shape {index.shape}"
        )
    # Viewed as unsigned, negative numbers are larger than all others.
    if count and int(index.view(index.dtype.str.replace("i", "u")).max()) >= length:
        bad = int(index.min()) if int(index.min()) < 0 else int(index.max())
        raise InvalidInputError(f"{name} is damaged: {what} index {bad} is outside 0 … {length - 1}")


def is_canonical(csr: sp.csr_array) -> bool:
    """Whether columns strictly increase within every row. SciPy's own flag may be stale."""
    indices, indptr = csr.indices[: csr.nnz], csr.indptr
    for start in range(0, indices.size - 1, _CHUNK_ENTRIES):
        part = indices[start : start + _CHUNK_ENTRIES + 1]
        fall = np.flatnonzero(part[1:] <= part[:-1]) + (start + 1)
        if fall.size and not np.array_equal(indptr[np.searchsorted(indptr, fall)], fall):  # not the start of a row
            return False
    return True


def check_extent(shape: tuple[int, int], entries: int, name: str) -> None:
    """Raise where a sparse matrix has so many empty rows or columns that its shape must be an error.

    Empty rows and columns cost memory and disk too, and a file of 60 bytes can claim 10¹² of them.
    """
    for size, what in zip(shape, ("rows", "columns"), strict=True):
        if size > _ANY_EXTENT + _EMPTY_PER_ENTRY * entries:
            raise TooLargeError(
                f"{name} claims {size:,} {what} but holds {entries:,} entries; if that is correct, remove the empty "
                f"{what}"
            )


def is_dask(A: Any) -> bool:
    """Whether ``A`` is a Dask array or data frame, determined from its attributes so that Dask is not imported."""
    return hasattr(A, "__dask_graph__") and hasattr(A, "to_delayed")


def numeric(values: NDArray[Any], name: str) -> NDArray[Any]:
    """The values in a supported native type: an integer type, float32 or float64; objects become float64."""
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
        check_objects(values, name)
        try:
            doubles = values.astype(np.float64)
        except (TypeError, ValueError, OverflowError):
            raise InvalidTypeError(_no_number(values, name)) from None
        return doubles
    raise InvalidTypeError(f"{name} must hold real numbers, got dtype {values.dtype}")


def as_numeric(matrix: Rows, name: str) -> Rows:
    """An array or CSR matrix with its values in a supported type (:func:`numeric`)."""
    if not sp.issparse(matrix):
        return numeric(matrix, name)
    values = numeric(matrix.data, name)
    if values is matrix.data:
        return matrix
    return sp.csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)


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


def check_objects(values: NDArray[Any], name: str) -> None:
    """Raise on objects that NumPy would convert to other numbers: text, complex, dates, None, integers beyond 2⁵³."""
    kinds = set(map(type, values.flat))
    if any(issubclass(kind, _NO_REALS) for kind in kinds):
        raise InvalidTypeError(_no_number(values, name))
    if any(issubclass(kind, int | np.integer) for kind in kinds):
        check_whole_objects(values.flat, name)


def check_whole_objects(values: Iterable[Any], name: str) -> None:
    """Raise on the first integer among objects that float64 would round; one that it cannot hold is left to others."""
    for value in values:
        if isinstance(value, int | np.integer) and not -_WHOLE <= value <= _WHOLE:
            with contextlib.suppress(OverflowError):
                if float(value) != int(value):
                    raise InvalidInputError(_rounded(value, name))


def check_no_group(source: Any, name: str) -> None:
    """Raise on a group of arrays of Zarr or h5py: NumPy would make an array of the names of its members."""
    if type(source).__module__.split(".")[0] in ("zarr", "h5py") and not hasattr(source, "ndim"):
        members = one_line(", ".join(repr(key) for key in sorted(map(str, source))), 200) or "nothing"
        raise InvalidTypeError(f"{name} is a group of arrays; pass one of them, such as group['X']; it has {members}")


def check_frame(frame: Any, name: str) -> None:
    """Raise on a column of a pandas or polars frame that NumPy would change; other objects are not checked.

    That is text and times, which would become numbers (text if it looks like them), and integers that would be rounded
    because other columns need float64. Columns of text that name the rows must be removed first. Frames of one numeric
    type are not read.
    """
    kind = type(frame).__module__.split(".")[0]
    if kind == "pandas" and getattr(frame, "ndim", None) == 2:
        _check_pandas(frame, name)
    elif kind == "polars" and hasattr(frame, "get_columns"):
        _check_polars(frame, name)


def _check_pandas(frame: Any, name: str) -> None:
    kinds = list(frame.dtypes)
    different = set(kinds)
    other = {kind: what for kind in different if (what := _no_numbers(kind)) is not None}
    for place, kind in enumerate(kinds if other else ()):
        if kind in other:
            _refuse(frame.columns.tolist()[place], other[kind], name)
    if any(kind.kind == "O" for kind in different):
        names = frame.columns.tolist()
        for place, kind in enumerate(kinds):
            if kind.kind == "O":
                column = frame.iloc[:, place] if isinstance(kind, np.dtype) else getattr(kind, "categories", None)
                _check_objects(() if column is None else column, kind.type in (str, bytes), names[place], name)
    plain = {kind: plain_dtype(kind) for kind in different}
    if plain and all(kind.kind in "iu" for kind in plain) and np.result_type(*plain.values()).kind in "iu":
        nullable = any(hasattr(kind, "numpy_dtype") for kind in plain)  # sparse integers have no missing values
        if not nullable or not frame.isna().any(axis=None):
            return
    for kind in different:
        if kind.kind in "iu" and plain[kind].itemsize == 8:
            columns = frame.iloc[:, [place for place, own in enumerate(kinds) if own == kind]]
            options = {} if isinstance(kind, np.dtype) else {"dtype": plain[kind], "na_value": 0}
            check_unrounded(columns.to_numpy(**options), name)


def _no_numbers(dtype: Any) -> str | None:
    """What a pandas column of this type holds that NumPy could convert, though it is no number: times, or text."""
    categories = getattr(dtype, "categories", None)
    kind = getattr(dtype if categories is None else categories.dtype, "kind", "O")
    return "times" if kind in "mM" else "text" if kind == "S" else None  # bytes of Arrow


def plain_dtype(dtype: Any) -> Any:
    """The NumPy type of the values of a pandas column of numbers, which may be nullable or sparse."""
    if dtype.kind == "O":  # an interval has a subtype too
        return dtype
    return getattr(dtype, "numpy_dtype", getattr(dtype, "subtype", dtype))


def _check_polars(frame: Any, name: str) -> None:
    columns = frame.get_columns()
    for column in columns:
        kind = str(column.dtype).split("(")[0]
        if kind in ("Int128", "UInt128"):
            raise InvalidTypeError(f"{name}: column {column.name!r} is {kind}; cast it to Int64 or Float64 first")
        if column.dtype.is_temporal():
            _refuse(column.name, "times", name)
        text = kind in ("String", "Utf8", "Categorical", "Enum", "Binary")
        _check_objects(column.to_list() if kind == "Object" else (), text, column.name, name)
    integers = [column for column in columns if column.dtype.is_integer()]
    signs = {column.dtype.is_signed_integer() for column in integers}
    if len(signs) > 1 or len(integers) < len(columns) or any(column.null_count() for column in integers):
        for column in integers:
            check_unrounded(column.drop_nulls().to_numpy(), name)


def _check_objects(values: Iterable[Any], text: bool, column: Any, name: str) -> None:
    """Raise if a column is ``text``, or holds text, times or integers that would be rounded, also as categories."""
    first = next((value for value in values if isinstance(value, (str, bytes, *_TIMES))), None)
    if text or first is not None:
        kind = "times" if isinstance(first, _TIMES) else "text"
        _refuse(column, kind if first is None else f"{kind}, such as {one_line(repr(first), 60)}", name)
    check_whole_objects(values, name)


def _refuse(column: Any, what: str, name: str) -> NoReturn:
    shown = one_line(repr(column), 60)
    raise InvalidTypeError(f"{name} must hold real numbers: column {shown} holds {what}; drop or convert it first")


def _rounded(value: Any, name: str) -> str:
    return (
        f"{name}: the integer {value} would be rounded to float64; convert all entries to one integer type, or to "
        "float64 yourself if they may be rounded"
    )


def _no_number(values: NDArray[Any], name: str) -> str:
    """Error message that names the first object that is not a number."""
    for place, value in np.ndenumerate(values):
        try:
            if isinstance(value, _NO_REALS):
                raise TypeError
            float(value)
        except (TypeError, ValueError, OverflowError):
            where = f"[{', '.join(map(str, place))}]" if values.ndim == 2 else ""
            kind = type(value).__name__
            if kind in ("NAType", "NaTType", "NoneType"):
                return f"{name}{where} is missing; remove or impute it first"
            return f"{name} must hold real numbers: {name}{where} is {one_line(repr(value), 60)} ({kind})"
    return f"{name} must hold real numbers, got dtype object"


def check_flag(value: Any, *, name: str) -> bool:
    """``value`` as a bool; anything but True and False is refused."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidTypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def check_choice(value: Any, choices: Collection[str | None], *, name: str) -> None:
    """Raise unless ``value`` is one of the strings ``choices``, or None if that is among them."""
    if not (value is None or isinstance(value, str)) or value not in choices:
        listed = [repr(each) for each in choices]
        allowed = " or ".join(listed) if len(listed) == 2 else f"one of {', '.join(listed)}"
        raise InvalidInputError(f"{name} must be {allowed}, got {value!r}")


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
    except OverflowError:  # an integer larger than any float
        number = np.inf
    if not (np.isfinite(number) and minimum <= number <= maximum):
        raise InvalidInputError(f"{name} must be a finite number between {minimum:g} and {maximum:g}, got {value}")
    return number


def check_tolerance(tol: Any) -> float | None:
    """``tol`` as a number from 0 up to but not including 1, or None."""
    if tol is None:
        return None
    if not 0 <= check_number(tol, name="tol") < 1:
        raise InvalidInputError(f"tol must lie between 0 and 1, got {tol}")
    return float(tol)


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


def name_list(names: Any, what: str) -> list[str]:
    """Names in the order of what they name, as a list of text; ``what`` is their role in error messages.

    A mapping gives the number of each name, as ``vocabulary_`` of scikit-learn's vectorisers does, or the name of each
    number. A set has no order, and a single text would be taken for its letters: both are refused.
    """
    if isinstance(names, Mapping):
        return _names_by_number(names, what)
    if isinstance(names, Set):
        raise InvalidTypeError(f"{what} are a {type(names).__name__}, which has no order; pass a list in order")
    if isinstance(names, str | bytes) or not isinstance(names, Iterable) or getattr(names, "ndim", 1) == 0:
        raise InvalidTypeError(f"{what} must be a sequence of names, got {one_line(repr(names), 60)}")
    return [name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name) for name in names]


def _names_by_number(names: Mapping[Any, Any], what: str) -> list[str]:
    """The names of a mapping from names to numbers, or from numbers to names, in the order of the numbers."""
    numbered = all(isinstance(number, numbers.Integral) for number in names.values())
    pairs = names.items() if numbered else [(name, number) for number, name in names.items()]
    found = {int(number): str(name) for name, number in pairs if isinstance(number, numbers.Integral)}
    if found.keys() != set(range(len(names))):
        raise InvalidInputError(
            f"{what} are a mapping of {len(names)} names, but not from each name to its number 0 … {len(names) - 1}; "
            "pass a list in order"
        )
    return [found[number] for number in range(len(found))]
