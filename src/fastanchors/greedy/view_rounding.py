"""Find the anchors of a rounded view that nothing but its rounding has chosen.

An l1 view of float32 shows quotients rounded to single precision: entry a_ij is off by at most u·a_ij, u = 2⁻²⁴. Rows
that span r dimensions before the division span more afterwards, and SPA finds anchors among the rounding errors.

Let p_t = Σ_l c_l·p_l + s_t·q_t be the t-th anchor in terms of those before it, with residual s_t and unit direction
q_t. If it were in their span before rounding, with these coefficients, then s_t = (δ_t − Σ_l c_l·δ_l)·q_t for the
rounding errors δ, so that s_t ≤ u·(|p_t| + Σ_l |c_l|·|p_l|)·|q_t|. A residual up to that bound may be rounding
alone. The bound is per entry: small residuals along columns of small entries, which are as accurate as large ones, are
far above it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..matrix.contract import SINGLE

__all__ = ["view_doubts"]

_SMALL = 1e-4  # residuals above this part of the first are not rounding
_SLACK = 1.01  # for the rounding of the bound itself


def view_doubts(residuals: NDArray[np.float64], points: Callable[[], NDArray[np.float64]]) -> NDArray[np.float64]:
    """For each anchor of SPA on a rounded view: 1 if its residual may be nothing but the rounding of the view, else 0.

    ``points`` returns the anchors; it is called if there are small residuals. All anchors after one that rounding chose
    are in doubt too.
    """
    sizes = np.asarray(residuals, dtype=np.float64)
    doubts = np.zeros(len(sizes))
    small = np.flatnonzero(sizes <= _SMALL * sizes.max(initial=0.0))
    if small.size == 0:
        return doubts
    P = points()
    P = P / np.abs(P).max()
    Q, R = np.linalg.qr(P.T)
    reach = np.abs(P) @ np.abs(Q)  # of anchor l along direction t
    for t in range(int(small[0]), len(sizes)):
        parts = np.abs(scipy.linalg.solve_triangular(R[:t, :t], R[:t, t], check_finite=False))
        level = reach[t, t] + parts @ reach[:t, t]
        if not abs(R[t, t]) > _SLACK * SINGLE * level:
            doubts[t:] = 1.0
            break
    return doubts
