"""The tie rule of SPA: which of several equally distant rows is chosen."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["EQUAL", "TIE", "choose"]

#: Rows whose squared residual is within this fraction of the largest are tied (as in FastSepNMF of N. Gillis).
TIE = 1e-6

#: Squared norms closer than this fraction count as equal: copies of a row may differ by the rounding of a view.
EQUAL = 1e-6


def choose(squared_residuals: NDArray[np.float64], squared_norms: NDArray[np.float64]) -> int:
    """The position of the row to extract next.

    Among the rows whose squared residual is within ``TIE`` (relative) of the largest, the one with the largest
    squared norm in the original matrix; among those whose norms are ``EQUAL``, the first.

    A solver that examines fewer rows makes the same choice as full SPA if it passes, in increasing order of index,
    every row whose squared residual is at least (1 − TIE) times the largest.

    Parameters
    ----------
    squared_residuals
        Squared residuals of the candidates, in the order of their indices.
    squared_norms
        Squared norms of the same rows.

    Examples
    --------
    >>> import fastanchors as fa
    >>> import numpy as np
    >>> squared_residuals, squared_norms = np.array([1.0, 4.0, 4.0]), np.array([1.0, 5.0, 9.0])
    >>> fa.solvers.choose(squared_residuals, squared_norms)
    2
    """
    if len(squared_residuals) == 1:
        return 0
    tied = np.flatnonzero(squared_residuals >= (1 - TIE) * squared_residuals.max())
    norms = squared_norms[tied]
    return int(tied[np.argmax(norms >= (1 - EQUAL) * norms.max())])
