"""The anchors as the explorer draws them: lines with a band of spread, words for every λ, or heaviest columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..apps._topic_words import RARE, relevant_words
from ..encoder import encode
from ..matrix.array import ArrayMatrix
from ..matrix.contract import dense
from ._text import clean
from .look import Look

__all__ = ["cards", "places_of_topics"]

_TOP = 24  # columns of an anchor: some are shown, all are compared
_LINE = 200  # places of a line
_RELEVANCES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)  # values of λ whose words are in the page
_PURE, _FEW = 0.8, 5  # rows that are mostly one anchor show its spread

_Array = NDArray[np.float64]


def cards(kept: ArrayMatrix, points: _Array, steps: Sequence[Sequence[int]], look: Look) -> dict[str, Any]:
    """What the page draws of every point, by the kind of data."""
    if look.kind in ("spectra", "scene"):
        return _lines(kept, points, steps, look)
    totals = np.abs(points).sum(axis=1, keepdims=True)
    shares = np.divide(points, totals, out=np.zeros_like(points), where=totals > 0)
    if look.kind == "words":
        return _words(kept, shares, look)
    top = np.argsort(-shares, axis=1, kind="stable")[:, :_TOP]
    return {"features": _listed(shares, top), "columns": _names(top, look)}


def _listed(shares: _Array, top: NDArray[np.intp]) -> list[list[list[float]]]:
    """[column, share] of the columns of each point that are not zero."""
    return [
        [[int(j), round(float(row[j]), 6)] for j in chosen if row[j] > 0]
        for row, chosen in zip(shares, top, strict=True)
    ]


def _names(columns: NDArray[np.intp], look: Look) -> dict[str, str]:
    """The names of those columns by their number."""
    some = np.unique(columns).tolist()
    return {str(j): f"column {j:,}" if look.column_names is None else clean(look.column_names[j], 40) for j in some}


def _words(kept: ArrayMatrix, shares: _Array, look: Look) -> dict[str, Any]:
    """The words that lead for some λ, with their share of all rows, for the page to order (see LDAvis)."""
    overall = _mean_row(kept)
    tokens = float(max(kept.nnz, 1))  # at least one for each stored entry
    lists = [relevant_words(shares, overall, tokens, _TOP // 2, relevance) for relevance in _RELEVANCES]
    top = [np.unique(row) for row in np.concatenate(lists, axis=1)]
    columns = np.unique(np.concatenate(top))
    return {
        "features": [
            [[int(j), round(float(row[j]), 8)] for j in chosen if row[j] > 0]
            for row, chosen in zip(shares, top, strict=True)
        ],
        "columns": _names(columns, look),
        "overall": {str(j): round(float(overall[j]), 9) for j in columns.tolist()},
        "rare": RARE / tokens,
    }


def _mean_row(kept: ArrayMatrix) -> _Array:
    """The mean of the rows after each is scaled to sum one."""
    sums = np.abs(kept.row_sums())
    weights = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0)
    return np.asarray(kept.transposed_dot(weights[:, None])).ravel() / max(1, int((sums > 0).sum()))


def _lines(kept: ArrayMatrix, points: _Array, steps: Sequence[Sequence[int]], look: Look) -> dict[str, Any]:
    """Values of every point over the columns, and the 10 % and 90 % quantiles of the rows that are mostly it."""
    n = points.shape[1]
    at = np.unique(np.linspace(0, n - 1, min(n, _LINE)).astype(int))
    spread: dict[int, list[list[float]] | None] = {}
    for ids in reversed(steps):
        if not all(j in spread for j in ids):
            weights = encode(kept.data, points[list(ids)]).astype(np.float64)
            for column, j in enumerate(ids):
                spread.setdefault(j, _spread(kept, points[j], weights, column, at))
    labels = None if look.column_names is None else [clean(look.column_names[j], 16) for j in at.tolist()]
    return {
        "axis": {"at": at.tolist(), "labels": labels},
        "dead": np.flatnonzero((points[:, at] == 0).all(axis=0)).tolist(),  # bands without data: gaps in the lines
        "lines": [_short(row[at]) for row in points],
        "spread": [spread.get(j) for j in range(len(points))],
    }


def _spread(
    kept: ArrayMatrix, point: _Array, weights: _Array, column: int, at: NDArray[np.intp]
) -> list[list[float]] | None:
    """Rows that are mostly this point, scaled to its length; None where there are too few."""
    total = weights.sum(axis=1)
    share = np.divide(weights[:, column], total, out=np.zeros_like(total), where=total > 0)
    like = np.flatnonzero(share > _PURE)
    if len(like) < _FEW:
        return None
    rows = dense(kept.rows(like))
    sums = rows.sum(axis=1, keepdims=True)
    scaled = rows * np.divide(point.sum(), sums, out=np.zeros_like(sums), where=sums > 0)
    return [_short(line) for line in np.quantile(scaled[:, at], (0.1, 0.9), axis=0)]


def _short(values: _Array) -> list[float]:
    return [float(f"{x:.4g}") for x in values.tolist()]


def places_of_topics(points: _Array, steps: Sequence[Sequence[int]]) -> list[_Array]:
    """For every step its topics in a plane, by classical scaling of the Jensen–Shannon distances between them."""
    totals = points.sum(axis=1, keepdims=True)
    laws = np.divide(points, totals, out=np.zeros_like(points), where=totals > 0)
    squares = np.full((len(points), len(points)), np.nan)
    for ids in steps:
        for i in ids:
            for j in ids:
                if np.isnan(squares[i, j]):
                    squares[i, j] = squares[j, i] = _jensen_shannon(laws[i], laws[j])
    return [_scaled_to_a_plane(squares[np.ix_(ids, ids)]) for ids in steps]


def _scaled_to_a_plane(squares: _Array) -> _Array:
    """Points whose squared distances are as near as may be to these."""
    centre = np.eye(len(squares)) - 1.0 / len(squares)
    values, vectors = np.linalg.eigh(-0.5 * centre @ squares @ centre)
    plane = vectors[:, ::-1][:, :2] * np.sqrt(np.maximum(values[::-1][:2], 0.0))
    plane *= np.where(plane[np.abs(plane).argmax(axis=0), range(plane.shape[1])] < 0, -1.0, 1.0)  # one of two signs
    return np.pad(plane, ((0, 0), (0, 2 - plane.shape[1])))


def _jensen_shannon(p: _Array, q: _Array) -> float:
    middle = (p + q) / 2
    return float(sum((x[x > 0] * np.log(x[x > 0] / middle[x > 0])).sum() for x in (p, q)) / 2)
