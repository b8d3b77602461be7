"""Check sparse matrices: their index arrays, which compiled code uses without bounds checks, and their shape."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..errors import InvalidInputError, TooLargeError, one_line
from .entries import CHUNK_ENTRIES

__all__ = ["as_csr", "canonical", "check_extent", "check_sparse", "csr_of", "is_canonical"]

_ANY_EXTENT = 1 << 25  # rows or columns that any sparse matrix may have, even an empty one
_EMPTY_PER_ENTRY = 256  # additional rows or columns allowed per entry; a larger size is taken for an error


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


def canonical(A: Any, name: str) -> sp.csr_array:
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


def _check_pointers(indptr: NDArray[Any], major: int, name: str) -> int:
    """The number of entries that ``indptr`` refers to."""
    if indptr.dtype.kind not in "iu" or indptr.shape != (major + 1,):
        raise InvalidInputError(
            f"{name} is damaged: indptr must hold {major + 1} integers, got {indptr.dtype} of shape {indptr.shape}"
        )
    if indptr[0] != 0:
        raise InvalidInputError(f"{name} is damaged: indptr starts with {indptr[0]}, not 0")
    for start in range(0, major, CHUNK_ENTRIES):
        falls = indptr[start + 1 : start + 1 + CHUNK_ENTRIES] < indptr[start : start + CHUNK_ENTRIES][: major - start]
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


def is_canonical(csr: sp.csr_array) -> bool:
    """Whether columns strictly increase within every row. SciPy's own flag may be stale."""
    indices, indptr = csr.indices[: csr.nnz], csr.indptr
    for start in range(0, indices.size - 1, CHUNK_ENTRIES):
        part = indices[start : start + CHUNK_ENTRIES + 1]
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
