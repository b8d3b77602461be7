"""Blocks from rows: dense from arrays, sparse from compressed rows."""

from __future__ import annotations

import scipy.sparse as sp

from ..matrix.contract import Rows
from .dense_block import DenseBlock
from .row_block import Block
from .sparse_block import SparseBlock

__all__ = ["make_block"]


def make_block(A: Rows, *, l1: bool, columns: bool = True) -> Block:
    """A block that owns its arrays, from a checked CSR or C-ordered array (which is copied)."""
    return (SparseBlock if sp.issparse(A) else DenseBlock).build(A, l1=l1, columns=columns)
