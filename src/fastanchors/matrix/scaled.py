"""Rescale rows: by their sums (l1 scaling for everything but the sample model), or by one power of two.

Dividing by a power of two is exact. It keeps squares of very large or small numbers from overflow and underflow.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._types import Rows
from ..errors import InvalidInputError
from .contract import row_sums_of

__all__ = ["FEW_DIGITS", "divided", "finite", "norm", "power_of_two", "row_sums", "scale_rows", "unit_of"]

FEW_DIGITS = 1e-270  # sums of squares below this may have lost digits by underflow

_SMALLEST, _LARGEST = 2.0**-460, 2.0**460  # sums of squares of larger or smaller numbers may lose digits


def row_sums(block: Rows, first_row: int = 0) -> NDArray[np.float64]:
    """Σ_j A_ij in double precision; ``first_row`` is the number of the first row in error messages."""
    sums = row_sums_of(block)
    if not np.isfinite(sums).all():
        row = first_row + int(np.argmin(np.isfinite(sums)))
        raise InvalidInputError(f"the sum of row {row} overflows; divide the matrix by its largest entry")
    return sums


def finite(values: NDArray[np.float64], what: str = "sums of entries") -> NDArray[np.float64]:
    """The values, which are computed from finite entries of A; raises with the name ``what`` if some overflowed."""
    if not np.isfinite(values).all():
        raise InvalidInputError(f"{what} of A overflow; divide A by its largest entry")
    return values


def scale_rows(block: Rows, sums: NDArray[np.float64] | None = None, first_row: int = 0) -> Rows:
    """Each row divided by its sum; rows of zeros stay zero. float32 stays float32, integers become float64."""
    kind = np.float32 if block.dtype == np.float32 else np.float64
    sums = row_sums(block, first_row) if sums is None else sums
    divisor = np.where(sums > 0, sums, 1.0)
    if sp.issparse(block):
        data = (block.data / np.repeat(divisor, np.diff(block.indptr))).astype(kind, copy=False)
        return sp.csr_array((data, block.indices, block.indptr), shape=block.shape)
    scaled = np.empty(block.shape, dtype=kind)
    np.divide(block, divisor[:, None], out=scaled, casting="unsafe")  # rounded once, as in the sample model
    return scaled


def unit_of(values: Rows, smallest: float = _SMALLEST, largest: float = _LARGEST) -> float:
    """The power of two next to the largest absolute entry if that is not within the limits, else 1."""
    flat = values.data if sp.issparse(values) else values
    top = max(float(flat.max(initial=0)), -float(flat.min(initial=0)))
    if top == 0 or smallest <= top <= largest:
        return 1.0
    return power_of_two(top)


def power_of_two(size: float) -> float:
    """The largest power of two that is at most ``size``, which is positive."""
    return float(np.ldexp(1.0, int(np.frexp(size)[1]) - 1))


def divided(rows: Rows, unit: float) -> Rows:
    """The rows divided by a unit, without overflow of 1 / unit; the same object if the unit is 1."""
    if unit == 1:
        return rows
    if sp.issparse(rows):
        return sp.csr_array((rows.data / unit, rows.indices, rows.indptr), shape=rows.shape)
    return rows / unit


def norm(rows: Rows) -> float:
    """The Frobenius norm, also of entries whose squares overflow or underflow."""
    unit = unit_of(rows)
    values = divided(rows, unit)
    flat = np.asarray(values.data if sp.issparse(values) else values, dtype=np.float64).reshape(-1)
    return unit * float(np.sqrt(flat @ flat))
