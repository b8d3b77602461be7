"""Counts of words, documents × words: those of a matrix as stored, blocks put together, documents of each word."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..errors import InvalidInputError
from ..matrix import ArrayMatrix, RowMatrix
from ..matrix.contract import SampleAccess

__all__ = ["check_whole", "document_counts", "stacked", "stored_counts"]

_ENTRIES = 1 << 22


def check_whole(counts: sp.csr_array) -> sp.csr_array:
    """The counts; raises unless they are whole numbers."""
    if counts.dtype.kind == "f" and (counts.data != np.floor(counts.data)).any():
        raise InvalidInputError("counts must be whole numbers of occurrences; weights such as tf-idf are not")
    return counts


def stored_counts(matrix: RowMatrix) -> sp.csr_array:
    """The counts of a matrix as stored; for an l1 view, the raw counts without normalisation."""
    if matrix.normalize is not None and not isinstance(matrix, SampleAccess):
        raise InvalidInputError(
            "the rows were divided by their sums when they were opened, so that the counts are no longer known; "
            "open them with normalize=None"
        )
    if isinstance(matrix, ArrayMatrix) and matrix.is_sparse and matrix.checked and matrix.normalize is None:
        return sp.csr_array(matrix.data)  # without a copy
    blocks = []
    for start, block in matrix.blocks():
        part = sp.csr_array(block)
        if matrix.normalize is not None:
            rows = start + np.repeat(np.arange(part.shape[0]), np.diff(part.indptr))
            raw = np.asarray(matrix.raw(rows, part.indices)) if part.nnz else part.data  # type: ignore[attr-defined]
            part = sp.csr_array((raw, part.indices, part.indptr), shape=part.shape)
        blocks.append(part)
    return stacked(blocks)


def stacked(blocks: list[sp.csr_array]) -> sp.csr_array:
    """The blocks stacked vertically; each is released as soon as it is copied."""
    if len(blocks) == 1:
        return blocks[0]
    rows, columns = sum(block.shape[0] for block in blocks), blocks[0].shape[1]
    entries = sum(block.nnz for block in blocks)
    small = max(entries, columns) < 2**31
    data = np.empty(entries, np.result_type(*[block.dtype for block in blocks]))
    indices = np.empty(entries, np.int32 if small else np.int64)
    indptr = np.zeros(rows + 1, indices.dtype)
    at = row = 0
    blocks.reverse()
    while blocks:
        block = blocks.pop()
        data[at : at + block.nnz] = block.data
        indices[at : at + block.nnz] = block.indices
        indptr[row + 1 : row + 1 + block.shape[0]] = block.indptr[1:] + at
        at, row = at + block.nnz, row + block.shape[0]
    return sp.csr_array((data, indices, indptr), shape=(rows, columns))


def document_counts(counts: sp.csr_array) -> NDArray[np.int64]:
    """The number of documents of each word; computed with a bounded number of entries at a time."""
    result = np.zeros(counts.shape[1], dtype=np.int64)
    for start in range(0, counts.nnz, _ENTRIES):
        at = slice(start, start + _ENTRIES)
        result += np.bincount(counts.indices[at][counts.data[at] > 0], minlength=counts.shape[1])
    return result
