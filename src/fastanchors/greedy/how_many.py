"""Estimate the number of anchors: count the directions of the profiles that exceed the noise (parallel analysis)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .coordinates import Coordinates

__all__ = ["HowMany", "how_many"]

DIRECTIONS = 64  # to keep for this estimate: at least half must be noise
_NONE = 1e-12  # fraction of the variance that is rounding
_ROWS = 4000  # rows examined
_OUTLIER = 9.0  # rows whose noise variance exceeds this many times the median are ignored
_CAP = 16.0  # along a direction, no row counts for more than this many times the median
_BREAK = 1.5  # a drop by this factor between consecutive variances is a break…
_CLEAR = 4.0  # …and by this factor a clear one
_EDGE = 1.05  # a variance must exceed that of noise by this factor
_FLAT = 0.3  # noise variances decrease slowly: the last is at least this fraction of the edge

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class HowMany:
    """The estimated number and the reason.

    Attributes
    ----------
    k
        Number of anchors; None if it cannot be determined.
    reason
        The reason in one sentence.
    variances
        Variances of the rows along the leading directions; noisy rows have less weight.
    edges
        For each of them, the variance that noise alone would give.
    clear
        Whether a clear break separates signal and noise.
    """

    k: int | None
    reason: str
    variances: _Array
    edges: _Array
    clear: bool = False


def how_many(coordinates: Coordinates, *, rows: int = _ROWS) -> HowMany:
    """The number of directions that exceed the noise, plus one: mixtures of k anchors vary in k − 1 directions.

    Rows are divided by their noise and capped, so that a few rows cannot make a direction. Sorted variances of noise
    decrease slowly, at the edge like a − b·j^(2/3) (the Marchenko–Pastur law and its generalisations). A line fitted to
    the second half of the variances estimates the edge of the noise. Variances above the edge are signal up to
    the last break, if there is one; later ones are noise of uneven size. If the second half decreases fast and no break
    is clear, the number cannot be determined.
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
    squares = squares[noise <= _OUTLIER * np.median(noise)]
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
    shown = {0: "no direction stands", 1: "one direction stands"}.get(r, f"{r} directions stand")
    return HowMany(r + 1, f"{shown} out of the noise", variances, edges, clear)
