"""Rows taken from several blocks, put into the order they were asked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from .._jit import jit
from .access import Rows
from .forest import Array

__all__ = ["in_order"]


def in_order(parts: Sequence[Rows], places: Sequence[Array], count: int) -> Rows:
    """One matrix of ``count`` rows: row r of ``parts[b]`` becomes row ``places[b][r]``. All of one kind and type."""
    first = parts[0]
    if not sp.issparse(first):
        out = np.empty((count, first.shape[1]), first.dtype)
        for part, at in zip(parts, places):
            out[at] = part
        return out
    lengths = np.zeros(count + 1, np.int64)
    for part, at in zip(parts, places):
        lengths[at + 1] = np.diff(part.indptr)
    indptr = np.cumsum(lengths)
    columns, data = np.empty(indptr[-1], first.indices.dtype), np.empty(indptr[-1], first.dtype)
    for part, at in zip(parts, places):
        _place(part.indptr, part.indices, part.data, at, indptr, columns, data)
    if indptr[-1] <= np.iinfo(np.int32).max:
        indptr = indptr.astype(np.int32)
    taken = sp.csr_array((data, columns, indptr), shape=(count, first.shape[1]), copy=False)
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
