"""Gather rows from several blocks, in the requested order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .._jit import jit
from ..matrix.contract import Rows
from .row_block import refuse_unless
from .segment_trees import Array
from .sparse_kernels import count_rows, fill_rows

__all__ = ["Taken", "gathered", "in_order", "is_range"]


def is_range(rows: Array) -> bool:
    """Whether those are consecutive rows, in order."""
    return bool(rows.size > 0 and rows[-1] - rows[0] == rows.size - 1 and (rows[1:] - rows[:-1] == 1).all())


class Taken(NamedTuple):
    """Rows ``wanted[places]`` − ``first`` of compressed arrays, to become rows ``places`` of a matrix.

    Each is divided by its ``l1``, unless that is empty. Stored zeros are omitted; ``zeros`` says whether there are any.
    """

    begin: Array
    end: Array
    other: Array
    data: Array
    l1: Array
    wanted: Array
    first: int
    places: Array
    zeros: bool = True


def gathered(parts: Sequence[Taken], shape: tuple[int, int], dtype: np.dtype[Any]) -> Rows:
    """One canonical CSR matrix, with each row taken from one of ``parts``."""
    indptr = np.zeros(shape[0] + 1, np.int64)
    counts = indptr[1:]
    sound = True
    for begin, end, other, data, _, wanted, first, places, zeros in parts:
        sound &= count_rows(begin, end, len(other), data if zeros else data[:0], wanted, first, places, counts)
    refuse_unless(sound)
    np.cumsum(indptr, out=indptr)
    columns, values = np.empty(indptr[-1], parts[0].other.dtype), np.empty(indptr[-1], dtype)
    for part in parts:
        sound &= fill_rows(*part[:8], shape[1], indptr, columns, values)
    refuse_unless(sound)
    return _csr(values, columns, indptr, shape[1])


def _csr(values: Array, columns: Array, indptr: Array, n: int) -> Rows:
    if indptr[-1] <= np.iinfo(np.int32).max:
        indptr = indptr.astype(np.int32)
    made = sp.csr_array((values, columns, indptr), shape=(len(indptr) - 1, n), copy=False)
    made.has_canonical_format = True
    return made


def in_order(parts: Sequence[Rows], places: Sequence[Array], count: int) -> Rows:
    """One matrix of ``count`` rows: row r of ``parts[b]`` becomes row ``places[b][r]``.

    All are dense or all sparse. Its type holds the entries of all.
    """
    first, dtype = parts[0], np.result_type(*{part.dtype for part in parts})
    if not sp.issparse(first):
        out = np.empty((count, first.shape[1]), dtype)
        for part, at in zip(parts, places):
            out[at] = part
        return out
    lengths = np.zeros(count + 1, np.int64)
    for part, at in zip(parts, places):
        lengths[at + 1] = np.diff(part.indptr)
    indptr = np.cumsum(lengths)
    numbers = np.result_type(*{part.indices.dtype for part in parts})
    columns, data = np.empty(indptr[-1], numbers), np.empty(indptr[-1], dtype)
    for part, at in zip(parts, places):
        _place(part.indptr, part.indices, part.data, at, indptr, columns, data)
    taken = _csr(data, columns, indptr, first.shape[1])
    taken.has_canonical_format = all(part.has_canonical_format for part in parts)
    return taken


@jit
def _place(
    indptr: Array, indices: Array, values: Array, at: Array, out_indptr: Array, out_indices: Array, out_values: Array
) -> None:
    for r in range(at.size):
        put = out_indptr[at[r]]
        for k in range(indptr[r], indptr[r + 1]):
            out_indices[put] = indices[k]
            out_values[put] = values[k]
            put += 1
