"""Prepare the anchors for the explorer: lines with a band of spread, words for every λ, or heaviest columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._text import clean
from ..apps._topic_words import RARE, relevant_words
from ..encoder import encode
from ..matrix.array import ArrayMatrix
from ..matrix.contract import dense
from .display import Display
from .script import packed

__all__ = ["cards", "document_labels", "topic_positions"]

_TOP = 24  # columns of an anchor: some are shown, all are compared
_LISTED = 9600  # columns listed for all anchors together; each anchor keeps some
_BANDS = 200_000  # numbers in the bands of spread, two bytes each
_NAMING, _RELEVANCE = 3, 0.35  # words that name an anchor, and the λ by which they are chosen
_LINE = 200  # points of a line
_RELEVANCES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)  # values of λ for which the page has the words
_PURE, _FEW = 0.8, 5  # rows that are mostly one anchor show its spread

_Array = NDArray[np.float64]


def cards(kept: ArrayMatrix, points: _Array, steps: Sequence[Sequence[int]], display: Display) -> dict[str, Any]:
    """The data that the page draws for every point, by the kind of data."""
    if display.kind in ("spectra", "scene"):
        return _lines(kept, points, steps, display)
    totals = np.abs(points).sum(axis=1, keepdims=True)
    shares = np.divide(points, totals, out=np.zeros_like(points), where=totals > 0)
    if display.kind == "words":
        return _words(kept, shares, display)
    top = np.argsort(-shares, axis=1, kind="stable")[:, : _room(points, _TOP, 8)]
    return {"features": _listed(shares, top), "columns": _names(top, display)}


def _room(points: _Array, usual: int, fewest: int) -> int:
    """Number of columns listed for each anchor: fewer if there are very many anchors."""
    return max(fewest, min(usual, _LISTED // len(points)))


def document_labels(kept: ArrayMatrix, points: _Array, display: Display) -> list[str]:
    """The most relevant words of anchors if they are documents without names; else empty strings."""
    if (
        display.kind != "words"
        or display.row_names is not None
        or display.column_names is None
        or display.named_anchors
    ):
        return [""] * len(points)
    totals = points.sum(axis=1, keepdims=True)
    shares = np.divide(points, totals, out=np.zeros_like(points), where=totals > 0)
    best = relevant_words(shares, _mean_row(kept), float(max(kept.nnz, 1)), _NAMING, _RELEVANCE)
    return [", ".join(clean(display.column_names[j], 24) for j in row) for row in np.asarray(best).tolist()]


def _listed(shares: _Array, top: NDArray[np.intp]) -> list[list[list[float]]]:
    """[column, share] of the columns of each point that are not zero."""
    return [
        [[int(j), round(float(row[j]), 6)] for j in chosen if row[j] > 0]
        for row, chosen in zip(shares, top, strict=True)
    ]


def _names(columns: NDArray[np.intp], display: Display) -> dict[str, str]:
    """The names of the columns by number."""
    some = np.unique(columns).tolist()
    return {
        str(j): f"column {j:,}" if display.column_names is None else clean(display.column_names[j], 40) for j in some
    }


def _words(kept: ArrayMatrix, shares: _Array, display: Display) -> dict[str, Any]:
    """The top words for each λ, with their share of all rows, for the page to order (see LDAvis)."""
    overall = _mean_row(kept)
    tokens = float(max(kept.nnz, 1))  # at least one for each stored entry
    count = _room(shares, _TOP // 2, 5)
    lists = [relevant_words(shares, overall, tokens, count, relevance) for relevance in _RELEVANCES]
    top = [np.unique(row) for row in np.concatenate(lists, axis=1)]
    columns = np.unique(np.concatenate(top))
    return {
        "features": [
            [[int(j), round(float(row[j]), 8)] for j in chosen if row[j] > 0]
            for row, chosen in zip(shares, top, strict=True)
        ],
        "columns": _names(columns, display),
        "overall": {str(j): round(float(overall[j]), 9) for j in columns.tolist()},
        "rare": RARE / tokens,
    }


def _mean_row(kept: ArrayMatrix) -> _Array:
    """The mean of the rows after each is scaled to sum one."""
    sums = np.abs(kept.row_sums())
    weights = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0)
    return np.asarray(kept.transposed_dot(weights[:, None])).ravel() / max(1, int((sums > 0).sum()))


def _lines(kept: ArrayMatrix, points: _Array, steps: Sequence[Sequence[int]], display: Display) -> dict[str, Any]:
    """Values of every point over the columns, and the 10 % and 90 % quantiles of the rows that are mostly it.

    If there are very many points, only those of the largest k have such a band.
    """
    n = points.shape[1]
    at = np.unique(np.linspace(0, n - 1, min(n, _LINE)).astype(int))
    spread: dict[int, _Array | None] = {}
    for ids in reversed(steps):
        new = [j for j in ids if j not in spread]
        if new and 2 * len(at) * (len(spread) + len(new)) <= _BANDS:
            weights = encode(kept.data, points[list(ids)]).astype(np.float64)
            spread |= {j: _spread(kept, points[j], weights, ids.index(j), at) for j in new}
    labels = None if display.column_names is None else [clean(display.column_names[j], 16) for j in at.tolist()]
    bands = {j: band for j, band in spread.items() if band is not None}
    shown = [points[:, at], *bands.values()]
    top = float(max(np.abs(values).max() for values in shown)) or 1.0
    return {
        "axis": {"at": at.tolist(), "labels": labels, "unit": unit_of_columns(display.column_names)},
        "dead": np.flatnonzero((points[:, at] == 0).all(axis=0)).tolist(),  # bands without data: gaps in the lines
        "top": top,
        "lines": packed(np.round(32767 / top * points[:, at]), np.int16),
        "spread": {str(j): packed(np.round(32767 / top * band), np.int16) for j, band in bands.items()},
    }


def unit_of_columns(names: Sequence[str] | None) -> str:
    """What the columns of spectra are: wavelengths if their names are numbers in the range of light."""
    try:
        low, high = (float(names[j]) for j in (0, -1)) if names is not None else (0.0, 0.0)
    except ValueError:
        return ""
    if 100 <= low < high <= 30_000:
        return "wavelength, nm"
    return "wavelength, µm" if 0.1 <= low < high <= 30 and high - low < len(names or ()) else ""


def _spread(kept: ArrayMatrix, point: _Array, weights: _Array, column: int, at: NDArray[np.intp]) -> _Array | None:
    """10 % and 90 % quantiles of the rows that are mostly this point, scaled to its sum; None if they are too few."""
    total = weights.sum(axis=1)
    share = np.divide(weights[:, column], total, out=np.zeros_like(total), where=total > 0)
    like = np.flatnonzero(share > _PURE)
    if len(like) < _FEW:
        return None
    rows = dense(kept.rows(like))
    sums = rows.sum(axis=1, keepdims=True)
    scaled = rows * np.divide(point.sum(), sums, out=np.zeros_like(sums), where=sums > 0)
    return np.asarray(np.quantile(scaled[:, at], (0.1, 0.9), axis=0))


def topic_positions(points: _Array, steps: Sequence[Sequence[int]]) -> list[_Array]:
    """Positions of the topics of every step in a plane, by classical scaling of their Jensen–Shannon distances."""
    totals = points.sum(axis=1, keepdims=True)
    laws = np.divide(points, totals, out=np.zeros_like(points), where=totals > 0)
    squares = np.full((len(points), len(points)), np.nan)
    for ids in steps:
        for i in ids:
            for j in ids:
                if np.isnan(squares[i, j]):
                    squares[i, j] = squares[j, i] = _jensen_shannon(laws[i], laws[j])
    return [_classical_scaling(squares[np.ix_(ids, ids)]) for ids in steps]


def _classical_scaling(squares: _Array) -> _Array:
    """Points in a plane whose squared distances approximate the given ones."""
    centre = np.eye(len(squares)) - 1.0 / len(squares)
    values, vectors = np.linalg.eigh(-0.5 * centre @ squares @ centre)
    plane = vectors[:, ::-1][:, :2] * np.sqrt(np.maximum(values[::-1][:2], 0.0))
    plane *= np.where(plane[np.abs(plane).argmax(axis=0), range(plane.shape[1])] < 0, -1.0, 1.0)  # fix the sign
    return np.pad(plane, ((0, 0), (0, 2 - plane.shape[1])))


def _jensen_shannon(p: _Array, q: _Array) -> float:
    middle = (p + q) / 2
    return float(sum((x[x > 0] * np.log(x[x > 0] / middle[x > 0])).sum() for x in (p, q)) / 2)
