"""The tie rule of SPA for solvers of users, with checked arguments."""

from __future__ import annotations

from numpy.typing import ArrayLike

from .._validate import as_reals
from ..errors import InvalidInputError
from ..greedy import ties

__all__ = ["choose"]


def choose(squared_residuals: ArrayLike, squared_norms: ArrayLike) -> int:
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
    residuals, norms = as_reals(squared_residuals, "squared_residuals"), as_reals(squared_norms, "squared_norms")
    if residuals.ndim != 1 or residuals.shape != norms.shape or not residuals.size:
        raise InvalidInputError(
            "squared_residuals and squared_norms must be vectors with one entry for each candidate, at least one; got "
            f"the shapes {residuals.shape} and {norms.shape}"
        )
    if min(residuals.min(), norms.min()) < 0:
        raise InvalidInputError("squared_residuals and squared_norms must not be negative")
    return ties.choose(residuals, norms)
