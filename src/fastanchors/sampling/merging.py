"""Merge the inserted entries of a sparse block with its others, a few rows at a time, in arrays made by the caller.

A block that has gained many entries can be larger than the memory that there is to rebuild it; its new arrays may then
be maps of a file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from .._jit import jit
from ..matrix.contract import Rows
from .row_block import Block, refuse_unless
from .segment_trees import Array

__all__ = ["MakeArrays", "by_column", "in_memory", "merged"]

_AT_ONCE, _PARTS = 1 << 17, 32  # entries merged at a time, or one part in this many of all

#: Makes arrays of given lengths and types, whose content does not matter.
MakeArrays: TypeAlias = Callable[[Sequence[tuple[int, Any]]], list[Array]]


def in_memory(wanted: Sequence[tuple[int, Any]]) -> list[Array]:
    """Arrays in memory, as :data:`MakeArrays`."""
    return [np.empty(length, dtype) for length, dtype in wanted]


def by_column(A: Rows, columns: bool) -> Rows:
    """CSR as CSC; without ``columns`` one that has none."""
    return A.tocsc() if columns else sp.csc_array((A.data[:0], A.indices[:0], A.indptr[:1]), shape=(A.shape[0], 0))


def merged(block: Block, make: MakeArrays) -> tuple[Rows, Rows]:
    """The stored rows of a sparse block as CSR, and as CSC (without columns if the block has no column side)."""
    (m, n), count, index = block.shape, block.nnz, block.sides.rows.other.dtype
    kept = count if block.has_columns else 0
    indices, data, across, across_data = make(
        [(count, index), (count, block.dtype), (kept, index), (kept, block.dtype)]
    )
    indptr = np.zeros(m + 1, np.int32 if count <= np.iinfo(np.int32).max else np.int64)
    step, done = max(1, m * _AT_ONCE // max(1, count), m // _PARTS), 0
    for start in range(0, m, step):
        part = block.rows(np.arange(start, min(m, start + step)), view=False)
        end = done + part.nnz
        refuse_unless(end <= count)
        indices[done:end], data[done:end] = part.indices, part.data
        indptr[start + 1 : start + part.shape[0] + 1] = part.indptr[1:] + done
        done = end
    refuse_unless(done == count)
    ends = np.zeros(n + 1 if block.has_columns else 1, indptr.dtype)
    if block.has_columns:
        _transpose(indptr, indices, data, ends, across, across_data)
    rows = sp.csr_array((data, indices, indptr), shape=(m, n), copy=False)
    return rows, sp.csc_array((across_data, across, ends), shape=(m, len(ends) - 1), copy=False)


@jit
def _transpose(indptr: Array, indices: Array, data: Array, ends: Array, across: Array, across_data: Array) -> None:
    """Fill the arrays of CSC from those of CSR; ``ends``, its pointers, are zeros before."""
    for k in range(indices.size):
        ends[indices[k] + 1] += 1
    for j in range(1, ends.size):
        ends[j] += ends[j - 1]
    at = ends.copy()
    for i in range(indptr.size - 1):
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            across[at[j]] = i
            across_data[at[j]] = data[k]
            at[j] += 1
