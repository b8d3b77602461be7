"""Bound the residuals of rows outside the coreset for any anchors, by describing the rows as mixtures of a few points.

If a = Σ λ_j·p_j + e with λ ≥ 0 and Σ λ ≤ 1, then for every projection P, ‖P·a‖ ≤ Σ λ_j·‖P·p_j‖ + ‖e‖: apart from e,
no row is farther out than the points. With λ_j ≤ share_j for all rows outside, the sum is largest if the farthest
points take their full shares. The points are the anchors at the time the index was made. They need not be rows any
more, so the bound remains valid if the anchors change. It is useful if the data lies near its hull.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._jit import jit
from .._maps import release_pages
from .._parallel import map_ordered
from ..matrix.contract import DOUBLE, Rows
from .bounds import Sketch
from .coreset import pieces, residual_bounds
from .scan_kernels import keep_largest
from .sketch import Part

__all__ = ["Hull", "mixtures"]

_ROWS = 1 << 12
_CHUNK = 1 << 17
_ROUND = 1 + 1e-9


@dataclass(frozen=True)
class Hull:
    """Every row outside the coreset is Σ λ_j·points_j + e, with λ ≥ 0, Σλ ≤ 1, λ ≤ ``shares`` and ‖e‖ ≤ ``gap``."""

    points: NDArray[np.float64]
    shares: NDArray[np.float64]
    gap: float

    def tails(self, basis: NDArray[np.float64], steps: int) -> NDArray[np.float64]:
        """Upper bounds on the residuals of those rows at each step of any run of SPA."""
        squares = np.einsum("ij,ij->i", self.points, self.points)
        residuals = residual_bounds(self.points, squares, basis, steps)
        order = np.argsort(-residuals, axis=0)
        shares = np.cumsum(self.shares[order], axis=0)
        taken = np.diff(np.minimum(shares, 1.0), axis=0, prepend=0.0)
        return np.asarray((taken * np.take_along_axis(residuals, order, axis=0)).sum(axis=0) * _ROUND + self.gap)

    def covers(self, rows: Rows) -> NDArray[np.bool_]:
        """Which rows are mixtures within these limits."""
        inverse = np.asarray(np.linalg.pinv(self.points), dtype=np.float64)
        return np.concatenate([self._covers(rows[at], inverse) for at in pieces(rows.shape)])

    def _covers(self, rows: Rows, inverse: NDArray[np.float64]) -> NDArray[np.bool_]:
        dense = np.asarray(rows.toarray() if sp.issparse(rows) else rows, dtype=np.float64)
        shares = np.maximum(dense @ inverse, 0.0)
        shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1.0)
        rest = dense - shares @ self.points
        norms = np.sqrt(np.einsum("ij,ij->i", dense, dense))
        error = np.sqrt(np.einsum("ij,ij->i", rest, rest)) * _ROUND + 8 * (dense.shape[1] + 2) * DOUBLE * norms
        return np.asarray((error <= self.gap) & (shares * _ROUND <= self.shares).all(axis=1))


@singledispatch
def mixtures(
    sketch: Sketch, points: NDArray[np.float64], known: NDArray[np.bool_], top: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Fit all rows that are not ``known`` as mixtures of the points, and find the largest shares and errors.

    Returns rows and values, (points + 1) × top, largest first: the rows with the largest share of each point, and
    last those with the largest error. O(m·d·points), from the sketch alone.
    """
    p = len(points)
    unit = float(np.sqrt(np.einsum("ij,ij->i", points, points)).max())  # so that shares fit single precision
    points = points / unit
    H = points @ sketch.V
    off = points - H @ sketch.V.T
    off = np.sqrt(np.einsum("ij,ij->i", off, off)) * _ROUND + 1e-15
    M = np.linalg.pinv(H).astype(np.float32)  # any shares are valid, so rounding is harmless

    def work(part: Part, low: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        high = min(len(part.norms), low + _CHUNK)
        rows, values = np.full((p + 1, top), -1, dtype=np.int64), np.full((p + 1, top), -1.0)
        for at in range(low, high, _ROWS):
            some = part.cut(at, min(high, at + _ROWS))
            shares = np.maximum(some.coordinates @ M, np.float32(0))
            skipped = known[some.start : some.start + len(some.norms)]
            _mix(some, shares, shares @ H, skipped, off, sketch.slack, unit, rows, values)
        release_pages(part.norms)
        return rows, values

    pieces = ((part, low) for part in sketch.parts for low in range(0, len(part.norms), _CHUNK))
    each = map_ordered(work, pieces)
    rows = np.concatenate([rows for rows, _ in each], axis=1)
    values = np.concatenate([values for _, values in each], axis=1)
    order = np.lexsort((rows, -values), axis=1)[:, :top]
    return np.take_along_axis(rows, order, axis=1), np.take_along_axis(values, order, axis=1)


@jit
def _mix(
    some: Part, shares: Any, mixed: Any, known: Any, off: Any, slack: float, unit: float, rows: Any, values: Any
) -> None:
    """Fit some rows as mixtures: scale shares to a sum of at most one, and update the largest shares and errors."""
    start, C, left, norms = some
    p, d = shares.shape[1], C.shape[1]
    last = values.shape[1] - 1
    for i in range(norms.size):
        if known[i] or norms[i] == 0.0:
            continue
        squared, other, total, error = 0.0, 0.0, 0.0, np.float64(left[i]) + slack
        for j in range(0, d - 1, 2):  # two independent sums hide the latency of the additions
            x = np.float64(C[i, j]) - mixed[i, j]
            y = np.float64(C[i, j + 1]) - mixed[i, j + 1]
            squared += x * x
            other += y * y
        if d % 2:
            x = np.float64(C[i, d - 1]) - mixed[i, d - 1]
            squared += x * x
        for j in range(p):
            x = np.float64(shares[i, j])
            total += x
            error += x * off[j]
        error = (np.sqrt(squared + other) + error) * norms[i] * _ROUND
        scale = norms[i] / unit * _ROUND
        total = max(total * scale, 1.0)
        error += (1.0 - 1.0 / total) * (norms[i] + error)
        scale /= total
        for j in range(p + 1):
            value = np.float64(shares[i, j]) * scale if j < p else error
            if value > values[j, last]:
                keep_largest(values[j], rows[j], value, start + i)
