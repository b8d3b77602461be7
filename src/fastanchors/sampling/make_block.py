"""Make a dense or sparse block from rows."""

from __future__ import annotations

import scipy.sparse as sp

from ..matrix.contract import Rows
from .dense_block import DenseBlock
from .row_block import Block
from .sparse_block import SparseBlock

__all__ = ["make_block"]


def make_block(A: Rows, *, l1: bool, columns: bool = True) -> Block:
    """A dense or sparse block with a copy of a validated C-ordered array or CSR matrix."""
    return (SparseBlock if sp.issparse(A) else DenseBlock).build(A, l1=l1, columns=columns)
