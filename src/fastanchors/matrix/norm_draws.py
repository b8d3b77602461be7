"""Draw rows by their squared norms from any matrix, with sample access or without."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._types import Rows
from ..errors import InvalidInputError
from .contract import RowMatrix, SampleAccess
from .scaled import FEW_DIGITS

__all__ = ["draw_by_weight", "draw_rows", "squared_frobenius_norm"]


def draw_by_weight(
    weights: NDArray[np.float64], size: int, rng: np.random.Generator, *, overwrite: bool = False
) -> NDArray[np.intp]:
    """Indices drawn with replacement and probability proportional to ``weights``, never one of weight zero."""
    last = len(weights) - 1 - int(np.argmax(weights[::-1] != 0))  # rounding may push a draw past the end
    cumulative = np.cumsum(weights, out=weights if overwrite else None)
    drawn = np.searchsorted(cumulative, rng.random(size) * cumulative[-1], side="right")
    return np.minimum(drawn, last).astype(np.intp, copy=False)


def squared_frobenius_norm(matrix: RowMatrix) -> float:
    """‖A‖_F², from sample access where there is any, else in one pass."""
    if isinstance(matrix, SampleAccess):
        return matrix.frobenius_norm**2
    return _finite(float(matrix.squared_norms().sum()))


def draw_rows(matrix: RowMatrix, size: int, rng: np.random.Generator) -> tuple[NDArray[np.intp], float]:
    """Row indices drawn with replacement and probability ‖A_(i)‖²/‖A‖_F², and ‖A‖_F².

    Returns no indices if the matrix is zero. Without sample access this takes one pass for the norms.
    """
    if isinstance(matrix, SampleAccess):
        total = matrix.frobenius_norm**2
        drawn = np.asarray(matrix.sample_rows(size, rng=rng)) if total > 0 else np.zeros(0)
        return drawn.astype(np.intp), total
    with np.errstate(over="ignore"):
        weights = matrix.squared_norms()
        total = _finite(float(np.cumsum(weights)[-1]))
    if total < FEW_DIGITS:
        if any(matrix.map_blocks(_has_entries)):
            raise InvalidInputError("the squares of A underflow; divide A by its largest entry")
        return np.zeros(0, dtype=np.intp), 0.0
    return draw_by_weight(weights, size, rng), total


def _finite(total: float) -> float:
    if not np.isfinite(total):
        raise InvalidInputError("the squared norms of A overflow; divide A by its largest entry")
    return total


def _has_entries(start: int, block: Rows) -> bool:
    return bool((block.data if sp.issparse(block) else block).any())
