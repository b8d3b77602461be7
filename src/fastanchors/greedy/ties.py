"""The tie rule of SPA: which of several equally distant rows is chosen."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["EQUAL", "TIE", "choose", "smallest"]

#: Rows whose squared residual is within this fraction of the largest are tied (as in FastSepNMF of N. Gillis).
TIE = 1e-6

#: Squared norms closer than this fraction count as equal: copies of a row may differ by the rounding of a view.
EQUAL = 1e-6


def choose(squared_residuals: NDArray[np.float64], squared_norms: NDArray[np.float64]) -> int:
    """The position of the row to extract next, for checked arrays; see :func:`fastanchors.solvers.choose`."""
    if len(squared_residuals) == 1:
        return 0
    tied = np.flatnonzero(squared_residuals >= (1 - TIE) * squared_residuals.max())
    norms = squared_norms[tied]
    return int(tied[np.argmax(norms >= (1 - EQUAL) * norms.max())])


def smallest(values: NDArray[np.float64], count: int, tie: float) -> NDArray[np.intp]:
    """Positions of the ``count`` smallest values, in increasing order of position.

    Of those that differ from the last one by at most ``tie``, which may be rounding, the first are taken.
    """
    last = np.partition(values, count - 1)[count - 1]
    surely = np.flatnonzero(values < last - tie)
    tied = np.flatnonzero((values >= last - tie) & (values <= last + tie))
    return np.sort(np.concatenate([surely, tied[: count - surely.size]]))
