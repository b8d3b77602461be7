"""Types that many modules share."""

from __future__ import annotations

from typing import Any, TypeAlias

__all__ = ["Rows"]

#: A block of rows: a dense 2-D array, or CSR where the matrix is sparse.
Rows: TypeAlias = Any
