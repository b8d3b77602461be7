"""What the explorer works with: the anchors for every k, and a sample of rows that stays in the page.

Of each kept row only its squared norm and its products with the anchors are there. With the products of the anchors
among themselves this is all that non-negative least squares needs, so the page can solve it for any choice of anchors.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..anchors import Anchors
from ..matrix.array import ArrayMatrix
from ..matrix.contract import RowMatrix
from ._text import clean, sentence
from .drawn_anchors import cards, places_of_topics
from .kinds import anchor_names, names_of_rows
from .look import Look
from .scene import composite
from .shares import shares_of

__all__ = ["Kept", "explorer_data", "keep", "prefixes"]

_NUMBERS = 220_000  # products of rows and anchors in the page, 4 bytes each
_ROWS, _PIXELS = 1500, 16384  # rows kept at most
_FEWEST = 300
_POINTS = 400  # different anchors over all k
_TEXTS = 500_000  # characters of texts

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Kept:
    """Rows that stay in the page: their indices, and the grid they make where they are pixels of an image."""

    indices: NDArray[np.intp]
    rows: ArrayMatrix
    grid: tuple[int, int] | None


def prefixes(anchors: Anchors) -> list[Anchors]:
    """The first 1, 2, … of the anchors: the results for every k, where these are nested."""
    return [
        Anchors(
            anchors.indices[:k],
            solver=anchors.solver,
            cost=anchors.cost,
            seconds=anchors.seconds,
            certificate=anchors.certificate,
            names=None if anchors.names is None else anchors.names[:k],
            points=None if anchors.points is None else anchors.points[:k],
        )
        for k in range(1, len(anchors) + 1)
    ]


def explorer_data(
    matrix: RowMatrix,
    steps: Sequence[Anchors],
    judged: tuple[ArrayMatrix, _Array],
    look: Look,
    *,
    title: str,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """All that the page needs, as plain values ready for JSON.

    Parameters
    ----------
    matrix : the rows.
    steps : results for rising k; the last one is the one chosen.
    judged : rows drawn by their norms and weights, from ``rows_by_norm``: shares are estimated from them.
    look : how rows and columns are shown; its kind is settled.
    """
    points, chosen = _pool(matrix, steps)
    chosen = _thinned(chosen)
    used = sorted({j for ids in chosen.values() for j in ids})
    points, place = points[used], {j: at for at, j in enumerate(used)}
    kept = keep(matrix, look, len(points), rng)
    sampled = matrix.shape[0] > judged[0].shape[0]
    by_k = {len(step): step for step in steps}
    anchors = _anchors(by_k, chosen, place, look)
    data: dict[str, Any] = {
        "title": title,
        "kind": look.kind,
        "shape": list(matrix.shape),
        "named": look.row_names is not None,
        "anchors": anchors,
        "gram": packed(points @ points.T, np.float64),
        "sizes": packed(np.abs(points).sum(axis=1), np.float64),
        "rows": _rows(kept, points, look),
        "steps": [],
    }
    for k, ids in chosen.items():
        here = [place[j] for j in ids]
        found = shares_of(*judged, points[here], sampled)
        step = {"k": k, "anchors": here, "shares": _rounded(found.shares), "left": _rounded(found.unexplained)}
        step["certificate"] = {
            "kind": by_k[k].certificate.kind,
            "statement": clean(sentence(by_k[k].certificate.statement), 400),
        }
        if look.kind == "words":
            step["map"] = _rounded(places_of_topics(points[here]))
        data["steps"].append(step)
    data["sampled"] = sampled
    data |= cards(kept.rows, points, [step["anchors"] for step in data["steps"]], look)
    if kept.grid is not None:
        data["rows"]["grid"] = list(kept.grid)
        data["rows"]["composite"] = composite(kept.rows, look.column_names)
    return data


def keep(matrix: RowMatrix, look: Look, anchors: int, rng: np.random.Generator) -> Kept:
    """Rows drawn evenly, or a grid of the pixels of an image; fewer where there are many anchors."""
    m = matrix.shape[0]
    room = max(_FEWEST, _NUMBERS // anchors)
    if look.image is None:
        indices = np.sort(rng.choice(m, min(m, _ROWS, room), replace=False))
        return Kept(indices, ArrayMatrix(matrix.rows(indices)), None)
    stride = max(1, int(np.ceil(np.sqrt(m / min(_PIXELS, room)))))
    ys, xs = (np.arange(0, size, stride) for size in look.image)
    indices = np.ravel_multi_index(np.meshgrid(ys, xs, indexing="ij"), look.image, order=look.order).ravel()
    return Kept(indices, ArrayMatrix(matrix.rows(indices)), (len(ys), len(xs)))


def _pool(matrix: RowMatrix, steps: Sequence[Anchors]) -> tuple[_Array, dict[int, list[int]]]:
    """The different points of all results, and which of them each k has. Rows are read once."""
    numbers: dict[Any, int] = {}
    chosen: dict[int, list[int]] = {}
    points: list[_Array | None] = []
    for step in steps:
        ids = []
        for j, index in enumerate(step.indices.tolist()):
            key = index if step.points is None else step.points[j].tobytes()
            if key not in numbers:
                numbers[key] = len(points)
                points.append(None if step.points is None else np.asarray(step.points[j], dtype=np.float64))
            ids.append(numbers[key])
        chosen[len(step)] = ids
    unread = [key for key in numbers if isinstance(key, int)]
    if unread:
        for index, row in zip(unread, matrix.dense_rows(unread), strict=True):
            points[numbers[index]] = row
    return np.array(points), chosen


def _thinned(chosen: dict[int, list[int]]) -> dict[int, list[int]]:
    """Not every k, where anchors differ from one k to the next and would be too many for a page."""
    ks, step = list(chosen), 1
    while len({j for k in ks[::-step] for j in chosen[k]}) > _POINTS and step < len(ks):
        step += 1
    return {k: chosen[k] for k in ks[::-step][::-1]}


def _anchors(
    by_k: dict[int, Anchors], chosen: dict[int, list[int]], place: dict[int, int], look: Look
) -> list[dict[str, Any]]:
    """Row and name of every anchor in the page."""
    found: dict[int, dict[str, Any]] = {}
    for k, ids in chosen.items():
        for j, index, name in zip(ids, by_k[k], anchor_names(by_k[k], look.row_names), strict=True):
            found.setdefault(place[j], {"row": index, "name": name})
    return [found[at] for at in range(len(found))]


def _rows(kept: Kept, points: _Array, look: Look) -> dict[str, Any]:
    rows: dict[str, Any] = {
        "index": kept.indices.tolist(),
        "squares": packed(kept.rows.squared_norms(), np.float32),
        "products": packed(kept.rows.dot(points.T), np.float32),
    }
    if look.row_names is not None:
        rows["name"] = [clean(name, 80) for name in names_of_rows(look.row_names, kept.indices)]
    if look.embedding is not None:
        rows["place"] = packed(look.embedding[kept.indices], np.float32)
    if look.texts is not None:
        width = max(40, min(400, _TEXTS // len(kept.indices)))
        rows["text"] = [clean(look.texts[i], width) for i in kept.indices.tolist()]
    return rows


def packed(values: NDArray[Any], kind: Any) -> str:
    """Numbers in little-endian order as base64 text."""
    numbers = np.ascontiguousarray(values, dtype=np.dtype(kind).newbyteorder("<"))
    return base64.b64encode(numbers.tobytes()).decode("ascii")


def _rounded(values: Any) -> Any:
    return np.round(np.asarray(values, dtype=np.float64), 6).tolist()
