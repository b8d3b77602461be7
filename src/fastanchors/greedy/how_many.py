"""How many anchors: how many directions of the profiles stand out of their noise (parallel analysis)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .coordinates import Coordinates

__all__ = ["HowMany", "how_many"]

DIRECTIONS = 64  # to keep for this question: the larger half must be noise
_NONE = 1e-12  # part of the variance that is rounding
_ROWS = 4000  # rows looked at
_ODD = 9.0  # rows whose noise variance is this many times the typical one are not looked at
_CAP = 16.0  # no row counts for more along a direction than this many times the median
_BREAK = 1.5  # a fall by this factor between two variances is a break
_CLEAR = 4.0  # ... and by this one beyond doubt
_EDGE = 1.05  # a variance must exceed that of noise by this factor
_FLAT = 0.3  # noise falls off slowly: the last variance is at least this part of the edge

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class HowMany:
    """The number chosen and why.

    Attributes
    ----------
    k
        Number of anchors; None where it cannot be told.
    reason
        In one sentence.
    variances
        Of the rows along the leading directions, noisy rows counted less.
    edges
        For each of them, what noise alone would give.
    """

    k: int | None
    reason: str
    variances: _Array
    edges: _Array


def how_many(coordinates: Coordinates, *, rows: int = _ROWS) -> HowMany:
    """Directions that stand out of the noise, and one: mixtures of k anchors vary in k − 1 directions.

    Rows are divided by their noise, and no few rows can make a direction. Sorted variances of noise fall off
    slowly, at the edge like a − b·j^(2/3) (the Marchenko–Pastur law and its generalisations). The line through the
    second half of the variances says what noise alone gives for the first. Those above it down to the last break are
    signal; what is above it without a break is noise of uneven size. Where the second half falls off fast and no
    break is beyond doubt, the number cannot be told.
    """
    usable = np.flatnonzero(coordinates.sums > 0)
    values, left = coordinates.leading(coordinates.shape[1], usable[:: max(1, len(usable) // rows)])
    nothing = np.zeros(values.shape[1])
    total = float(np.einsum("ij,ij->", values, values)) + float(left.sum())
    if total <= 1e-25 * len(values):
        return HowMany(1, "all rows are alike", nothing, nothing)
    variances = np.asarray(np.linalg.eigvalsh(values.T @ values / len(values))[::-1], dtype=np.float64)
    rank = int(np.count_nonzero(variances > _NONE * variances[0]))
    if float(left.sum()) <= _NONE * total and rank < len(variances):
        return HowMany(rank + 1, f"the rows vary in {rank} directions and no noise is seen", variances, nothing)
    d = min(len(variances), (len(coordinates.frame.centre) - 1) // 2, len(values) // 4)
    if d < 8:
        return HowMany(None, "too few columns or rows to separate signal from noise", variances, nothing)
    noise = left + np.einsum("ij,ij->i", values[:, d:], values[:, d:])
    if not np.median(noise) > 0:
        return HowMany(None, "most rows are without noise", variances, nothing)
    squares = values[:, :d] ** 2 / (noise + 0.1 * np.median(noise))[:, None]
    squares = squares[noise <= _ODD * np.median(noise)]
    capped = np.minimum(squares, _CAP * np.median(squares, axis=0))
    return _judged(np.sort(capped.mean(axis=0))[::-1])


def _judged(variances: _Array) -> HowMany:
    """The number that sorted variances indicate."""
    d = len(variances)
    place = np.arange(1, d + 1) ** (2 / 3)
    slope, edge = np.polyfit(place[d // 2 :], variances[d // 2 :], 1)
    edges = _EDGE * np.maximum(edge + slope * place, 0.0)
    above = int(np.count_nonzero(variances > _EDGE * edge))
    breaks = np.flatnonzero(variances[:above] >= _BREAK * variances[1 : above + 1]) + 1 if above < d else np.zeros(0)
    r = int(breaks[-1]) if len(breaks) else above
    clear = len(breaks) > 0 and variances[r - 1] >= _CLEAR * variances[r]
    if r >= d // 2 or (variances[-1] < _FLAT * edge and not clear):
        return HowMany(None, "the variances fall off without a break between signal and noise", variances, edges)
    return HowMany(r + 1, f"{r} directions stand out of the noise", variances, edges)
