"""Non-negative anchor rows with a given condition number."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .._rng import RngLike, as_generator
from .._validate import check_memory, check_number, check_size
from ..errors import InvalidInputError

__all__ = ["nonnegative_components"]

_MAX_ROUNDS = 5000  # alternating projections converge within a few hundred


def nonnegative_components(
    k: int, n: int, *, condition: float | None = None, rng: RngLike = None
) -> NDArray[np.float64]:
    """``k`` anchor rows with ``n`` entries, uniform on [0, 1] or of a given condition number.

    With ``condition = κ`` the singular values are κ^(−(i−1)/(k−1)), i = 1 … k (Gillis 2014, §4.1: κ = 1000).
    Replacing the singular values of a random matrix gives negative entries, and clipping them would change the
    condition number (1000 becomes about 15). Therefore projections on the spectrum and on the non-negative matrices
    alternate until both hold. Costs a few hundred SVDs of a k×n matrix.

    Parameters
    ----------
    k, n
        Numbers of rows and columns.
    condition
        Condition number; None for uniform entries.
    rng
        A ``numpy.random.Generator``, an int seed or None.

    Examples
    --------
    >>> import fastanchors as fa
    >>> import numpy as np
    >>> C = fa.datasets.nonnegative_components(3, 8, condition=100, rng=0)
    >>> round(float(np.linalg.cond(C)))
    100
    """
    k, n = check_size(k, name="k"), check_size(n, name="n")
    check_memory(8 * k * n, f"{k:,} × {n:,} components", "use fewer")
    rng = as_generator(rng)
    W = rng.random((k, n))
    if condition is None:
        return W
    condition = check_number(condition, name="condition", minimum=1.0)
    if k > n:
        raise InvalidInputError(f"condition needs k ≤ n for anchors of full rank, got k = {k} and n = {n}")
    if k == 1:
        return W / np.linalg.norm(W)
    spectrum = condition ** (-np.arange(k) / (k - 1))
    tolerance = max(1e-8 / condition, 1e-13)  # clipping smaller entries changes the spectrum only by rounding
    for _ in range(_MAX_ROUNDS):
        U, _, Vt = np.linalg.svd(W, full_matrices=False)
        W = (U * spectrum) @ Vt
        if W.min() >= -tolerance:
            return np.maximum(W, 0.0)
        np.maximum(W, 0.0, out=W)
    raise InvalidInputError(
        f"no non-negative {k}×{n} matrix of condition number {condition:g} was found; use a larger condition"
    )
