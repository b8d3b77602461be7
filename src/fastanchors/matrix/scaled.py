"""Divide rows by their sums: l1 scaling for everything but the sample model."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._types import Rows
from ..errors import InvalidInputError

__all__ = ["row_sums", "scale_rows"]


def row_sums(block: Rows) -> NDArray[np.float64]:
    """Σ_j A_ij in double precision."""
    sums = np.asarray(block.sum(axis=1, dtype=np.float64)).reshape(-1)
    if not np.isfinite(sums).all():
        row = int(np.argmin(np.isfinite(sums)))
        raise InvalidInputError(f"the sum of row {row} overflows; divide the matrix by its largest entry")
    return sums


def scale_rows(block: Rows, sums: NDArray[np.float64] | None = None) -> Rows:
    """Each row divided by its sum; rows of zeros stay zero. float32 stays float32, integers become float64."""
    kind = np.float32 if block.dtype == np.float32 else np.float64
    sums = row_sums(block) if sums is None else sums
    divisor = np.where(sums > 0, sums, 1.0)
    if sp.issparse(block):
        data = (block.data / np.repeat(divisor, np.diff(block.indptr))).astype(kind, copy=False)
        return sp.csr_array((data, block.indices, block.indptr), shape=block.shape)
    scaled = np.empty(block.shape, dtype=kind)
    np.divide(block, divisor[:, None], out=scaled, casting="unsafe")  # rounded once, as in the sample model
    return scaled
