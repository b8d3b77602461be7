"""``RowMatrix``, the interface of a matrix that is read by rows, and ``open_matrix``, which opens any source as one."""

from __future__ import annotations

from .array import ArrayMatrix
from .contract import Mutable, RowMatrix, Rows, SampleAccess, dense
from .cost import Cost
from .door import open_matrix
from .metered import BudgetExceeded, MeteredMatrix

__all__ = [
    "ArrayMatrix",
    "BudgetExceeded",
    "Cost",
    "MeteredMatrix",
    "Mutable",
    "RowMatrix",
    "Rows",
    "SampleAccess",
    "dense",
    "open_matrix",
]
