"""Prepare the data of the explorer: the anchors for every k, and a sample of rows that is stored in the page.

For each row and each anchor the page has its coordinates in the span of the anchors, and its squared norm. This is all
that non-negative least squares needs, so the page can solve it for any choice of anchors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._text import clean, sentence
from ..matrix.array import ArrayMatrix
from ..matrix.contract import RowMatrix
from .display import Display, PixelNames, names_of_anchors
from .drawn_anchors import cards, document_labels, topic_positions
from .kinds import names_of_rows, sizes_of
from .page_rows import PageRows, choose_page_rows
from .pool import Pool
from .scene import composite
from .script import packed
from .shares import shares_of

__all__ = ["explorer_data"]

_TEXTS = 500_000  # characters of texts
_ROW_NOUNS = {"scene": "pixel", "words": "document", "cells": "cell"}  # what a row is called

_Array = NDArray[np.float64]


def explorer_data(
    matrix: RowMatrix,
    pool: Pool,
    judged: tuple[ArrayMatrix, _Array],
    display: Display,
    *,
    noun: str = "anchor",
    stability: Mapping[int, Any] | None = None,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """All that the page needs, as plain values ready for JSON.

    Parameters
    ----------
    matrix
        The rows.
    pool
        The anchors, from :func:`pool_of`.
    judged
        Rows drawn by their norms and weights, from ``rows_by_norm``: shares are estimated from them.
    display
        How rows and columns are shown; its kind is not ``"auto"``.
    noun
        What an anchor is called.
    stability
        For each k how far the anchors move in other data; None if a served page requests this later.
    """
    points, chosen = pool.points, list(pool.chosen.values())
    kept = choose_page_rows(matrix, display, pool, rng, worst=stability is not None)
    sampled = matrix.shape[0] > judged[0].shape[0]
    data: dict[str, Any] = {
        "kind": display.kind,
        "noun": noun,
        "rowNoun": _ROW_NOUNS.get(display.kind, "row"),
        "shape": list(matrix.shape),
        "named": display.row_names is not None,
        "sampled": sampled,
        "anchors": _anchors(pool, display, kept),
        "points": packed(pool.coordinates(points), np.float32),
        "sizes": packed(sizes_of(points, display.kind), np.float64),
        "rows": _rows(kept, pool, display),
        "steps": [_step(pool, k, judged, sampled, stability or {}) for k in pool.chosen],
    }
    data |= cards(kept.sample, points, chosen, display)
    if display.kind == "words":
        for step, places in zip(data["steps"], topic_positions(points, chosen), strict=True):
            step["map"] = _rounded(places)
    if kept.grid is not None and display.image is not None:
        image = {"grid": list(kept.grid), "image": list(display.image), "order": display.order}
        data["rows"] |= image | composite(kept.sample, display.column_names)
    return data


def _step(
    pool: Pool, k: int, judged: tuple[ArrayMatrix, _Array], sampled: bool, stability: Mapping[int, Any]
) -> dict[str, Any]:
    """The data of the page for one number of anchors."""
    ids = pool.chosen[k]
    found = shares_of(*judged, pool.points[ids], sampled)
    certificate = pool.results[k].certificate
    step = {
        "k": k,
        "anchors": ids,
        "shares": _rounded(found.shares),
        "left": _rounded(found.unexplained),
        "certificate": {"kind": certificate.kind, "statement": clean(sentence(certificate.statement), 400)},
    }
    if stability.get(k) is not None:
        step["stability"] = stability[k]
    return step


def _anchors(pool: Pool, display: Display, kept: PageRows) -> list[dict[str, Any]]:
    """Row and name of every anchor in the page."""
    words = document_labels(kept.sample, pool.points, display)
    found: dict[int, dict[str, Any]] = {}
    for k, ids in pool.chosen.items():
        step = pool.results[k]
        for j, index, name in zip(ids, step, names_of_anchors(step, display), strict=True):
            anchor = {"row": index, "name": words[j] or name, "point": step.points is not None}
            if display.named_anchors and display.image is not None:
                anchor["place"] = PixelNames(display.image, display.order)[index]
            found.setdefault(j, anchor)
    return [found[at] for at in range(len(found))]


def _rows(kept: PageRows, pool: Pool, display: Display) -> dict[str, Any]:
    rows: dict[str, Any] = {
        "index": kept.indices.tolist(),
        "even": kept.even,
        "searched": kept.searched,
        "squares": packed(kept.rows.squared_norms() / pool.unit**2, np.float64),
        "coordinates": packed(pool.coordinates(kept.rows), np.float32),
    }
    if display.row_names is not None:
        rows["name"] = [clean(name, 80) for name in names_of_rows(display.row_names, kept.indices)]
    if display.embedding is not None:
        rows["place"] = packed(display.embedding[kept.indices], np.float32)
    if display.texts is not None:
        width = max(40, min(400, _TEXTS // len(kept.indices)))
        rows["text"] = [clean(display.texts[i], width) for i in kept.indices.tolist()]
    return rows


def _rounded(values: Any) -> Any:
    return np.round(np.asarray(values, dtype=np.float64), 6).tolist()
