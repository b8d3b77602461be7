"""What the explorer works with: the anchors for every k, and a sample of rows that stays in the page.

Of each kept row only its squared norm and its products with the anchors are there. With the products of the anchors
among themselves this is all that non-negative least squares needs, so the page can solve it for any choice of anchors.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..anchors import Anchors, Certificate
from ..matrix.array import ArrayMatrix
from ..matrix.contract import RowMatrix
from ..solvers.fas import FAS
from ._text import clean, sentence
from .drawn_anchors import cards, places_of_topics
from .kinds import names_of_rows, sizes_of
from .look import Look, names_of_anchors
from .scene import composite
from .shares import shares_of

__all__ = [
    "Kept",
    "Pool",
    "explorer_data",
    "keep",
    "packed",
    "pool_of",
    "prefixes",
    "results_for_every_k",
    "stability_of",
]

_NUMBERS = 220_000  # products of rows and anchors in the page, 4 bytes each
_ROWS, _PIXELS = 1500, 10_000  # rows kept at most
_FEWEST = 300
_SOUGHT = 50  # values of k for which noise-aware anchors are sought
_STEADY_ROWS, _STEADY_K = 2000, 15  # up to either, the stability for every k is looked at; beyond, for the chosen k
_FIRST = "the first of the anchors that were found for a larger number"
_POINTS = 400  # different anchors over all k
_TEXTS = 500_000  # characters of texts

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Kept:
    """Rows that stay in the page: their indices, and the grid they make where they are pixels of an image."""

    indices: NDArray[np.intp]
    rows: ArrayMatrix
    grid: tuple[int, int] | None


def results_for_every_k(matrix: RowMatrix, anchors: Anchors, seed: int | None) -> list[Anchors]:
    """Results for fewer anchors, ending with the one given: the first 1, 2, … of it, or sought where these differ.

    Noise-aware anchors are points that depend on k. They are sought for at most 50 values of k.
    """
    k = len(anchors)
    if anchors.solver != "fas" or anchors.points is None or anchors.support is None:
        return prefixes(anchors)
    rule = anchors.certificate.details.get("selection", "auto")
    fewer = np.unique(np.linspace(1 if rule == "auto" else 2, k, _SOUGHT).round().astype(int))
    fewer = fewer[fewer < k]
    return [*(FAS(selection=rule).seek(matrix, fewer.tolist(), rng=seed) if fewer.size else []), anchors]


def prefixes(anchors: Anchors) -> list[Anchors]:
    """The first 1, 2, … of the anchors: the results for every k, where these are nested."""
    given = anchors.certificate
    of_fewer = replace(given, evidence=None) if anchors.points is None else Certificate("none", _FIRST)
    return [
        Anchors(
            anchors.indices[:k],
            solver=anchors.solver,
            cost=anchors.cost,
            seconds=anchors.seconds,
            certificate=given if k == len(anchors) else of_fewer,
            names=None if anchors.names is None else anchors.names[:k],
            points=None if anchors.points is None else anchors.points[:k],
        )
        for k in range(1, len(anchors) + 1)
    ]


@dataclass(frozen=True)
class Pool:
    """The different anchors of the results for several k: their points, and which of them each k has."""

    points: _Array
    chosen: dict[int, list[int]]
    results: dict[int, Anchors]


def explorer_data(
    matrix: RowMatrix,
    pool: Pool,
    judged: tuple[ArrayMatrix, _Array],
    look: Look,
    *,
    noun: str = "anchor",
    stability: bool = True,
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
    look
        How rows and columns are shown; its kind is settled.
    noun
        What an anchor is called.
    stability
        Whether to look at how far the anchors move in other data; of many rows and anchors only for the largest k.
    """
    points = pool.points
    every = matrix.shape[0] <= _STEADY_ROWS or max(pool.chosen) <= _STEADY_K
    steady = {k for k in pool.chosen if stability and (every or k == max(pool.chosen))}
    kept = keep(matrix, look, len(points), rng)
    sampled = matrix.shape[0] > judged[0].shape[0]
    data: dict[str, Any] = {
        "kind": look.kind,
        "noun": noun,
        "shape": list(matrix.shape),
        "named": look.row_names is not None,
        "sampled": sampled,
        "anchors": _anchors(pool, look),
        "gram": packed(points @ points.T, np.float64),
        "sizes": packed(sizes_of(points, look.kind), np.float64),
        "rows": _rows(kept, points, look),
        "steps": [_step(pool, k, judged, sampled, look, k in steady) for k in pool.chosen],
    }
    chosen = list(pool.chosen.values())
    data |= cards(kept.rows, points, chosen, look)
    if look.kind == "words":
        for step, places in zip(data["steps"], places_of_topics(points, chosen), strict=True):
            step["map"] = _rounded(places)
    if kept.grid is not None:
        data["rows"] |= {"grid": list(kept.grid), **composite(kept.rows, look.column_names)}
    return data


def _step(
    pool: Pool, k: int, judged: tuple[ArrayMatrix, _Array], sampled: bool, look: Look, steady: bool
) -> dict[str, Any]:
    """What the page says of one number of anchors."""
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
    if steady:
        step["stability"] = stability_of(pool.results[k])
    return step


def stability_of(anchors: Anchors) -> dict[str, Any] | None:
    """How far the anchors move in other data from the same source, where the solver can tell."""
    found = anchors.certificate.stability
    if found is None:
        return None
    return {"statement": found.statement, "verdicts": list(found.verdicts), "support": found.support.tolist()}


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


def pool_of(matrix: RowMatrix, steps: Sequence[Anchors]) -> Pool:
    """The different points of results for rising k. Rows are read once."""
    numbers: dict[Any, int] = {}
    chosen: dict[int, list[int]] = {}
    points: list[_Array | None] = []
    for step in steps:
        ids = []
        for j, index in enumerate(step):
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
    chosen = _thinned(chosen)
    used = sorted({j for ids in chosen.values() for j in ids})
    place = {j: at for at, j in enumerate(used)}
    return Pool(
        np.array([points[j] for j in used]),
        {k: [place[j] for j in ids] for k, ids in chosen.items()},
        {len(step): step for step in steps},
    )


def _thinned(chosen: dict[int, list[int]]) -> dict[int, list[int]]:
    """Not every k, where anchors differ from one k to the next and would be too many for a page."""
    ks, step = list(chosen), 1
    while len({j for k in ks[::-step] for j in chosen[k]}) > _POINTS and step < len(ks):
        step += 1
    return {k: chosen[k] for k in ks[::-step][::-1]}


def _anchors(pool: Pool, look: Look) -> list[dict[str, Any]]:
    """Row and name of every anchor in the page."""
    found: dict[int, dict[str, Any]] = {}
    for k, ids in pool.chosen.items():
        step = pool.results[k]
        for j, index, name in zip(ids, step, names_of_anchors(step, look), strict=True):
            found.setdefault(j, {"row": index, "name": name, "point": step.points is not None})
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
