"""What a report says, computed once: the page only draws it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._rng import RngLike, as_generator
from .._validate import check_index
from ..anchors import Anchors
from ..encoder import encode
from ..errors import FastAnchorsError, InvalidInputError
from ..matrix.contract import Rows, SampleAccess
from ..rank import RankCurve, rank_curve
from ._text import clean
from .shares import Shares, anchor_shares, draw_by_norm, squared_norms

__all__ = ["KINDS", "Facts", "HeldBack", "Picture", "gather"]

KINDS = ("spectra", "features", "words")
_PICTURED = 600  # rows drawn in the simplex picture
_JUDGED = 2000  # rows that the curve and the held-back test look at
_TOP = 8  # heaviest features shown of an anchor
_SMOOTH = 0.9  # correlation of neighbouring columns from which rows look like spectra

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Picture:
    """Rows drawn evenly: their weights (each row sums to one), what is explained of each, and their names."""

    weights: _Array
    explained: _Array
    names: list[str]
    leads: _Array  # share of these rows in which each anchor is the heaviest


@dataclass(frozen=True)
class HeldBack:
    """Rows that took no part in a second search for the anchors: share of each that the anchors found there explain.

    ``total`` is the share of the squared length of all of them, ``total_kept`` that of the rows that took part but are
    no anchors: the measure of :class:`Shares`, without the anchors, which explain themselves.
    """

    explained: _Array
    total: float
    total_kept: float
    kept: int
    same: int  # anchors of the second search that are anchors of the first
    k: int


@dataclass(frozen=True)
class Facts:
    """Everything on the page."""

    title: str
    shape: tuple[int, int]
    normalize: str | None
    nonzeros: int
    anchors: Anchors
    seed: int | None
    names: list[str]
    named: bool  # whether rows have names of their own
    kind: str
    components: _Array
    features: list[list[tuple[str, float]]]
    column_names: list[str] | None
    shares: Shares
    own: float  # share of the squared length of the data that is in the anchors themselves
    picture: Picture
    curve: RankCurve
    held_back: HeldBack | None

    @property
    def k(self) -> int:
        return len(self.anchors)

    @property
    def spa_rows(self) -> int:
        """Rows that full SPA reads: one pass for the norms and one for each anchor."""
        return (self.k + 1) * self.shape[0]


def gather(
    A: Any,
    anchors: Anchors,
    *,
    title: str,
    row_names: Sequence[str] | None = None,
    column_names: Sequence[str] | None = None,
    normalize: str | None = None,
    kind: str = "auto",
    curve: RankCurve | None = None,
    solver: Any = None,
    seed: int | None = None,
) -> Facts:
    """Look at ``A`` (array, sparse matrix, ``SampleMatrix`` or store) through its ``anchors``.

    Reads a few thousand rows whatever the size of ``A``, besides the norms of the rows of a plain matrix. See
    :func:`fastanchors.report.write` for the parameters.
    """
    if kind not in ("auto", *KINDS):
        raise InvalidInputError(f"kind must be 'auto', {' or '.join(map(repr, KINDS))}, got {kind!r}")
    m, n = A.shape
    check_index(anchors.indices, m, name="anchor")
    rng = as_generator(seed)
    row_names = getattr(A, "row_names", None) if row_names is None else row_names
    column_names = getattr(A, "column_names", None) if column_names is None else column_names
    components = _dense(_take(A, anchors.indices)) if anchors.points is None else np.asarray(anchors.points)
    some = np.sort(rng.choice(m, min(m, _JUDGED), replace=False))
    sample = _take(A, some)
    if kind == "auto":
        spectral, words = _looks_spectral(sample, column_names), _looks_like_words(sample, column_names)
        kind = "spectra" if spectral else "words" if words else "features"
    return Facts(
        title=clean(title),
        shape=(m, n),
        normalize=normalize,
        nonzeros=int(A.nnz if hasattr(A, "nnz") else np.count_nonzero(A)),
        anchors=anchors,
        seed=seed,
        names=_row_names(row_names, anchors.indices),
        named=row_names is not None,
        kind=kind,
        components=components,
        features=_features(components, column_names),
        column_names=None if column_names is None or kind != "spectra" else [clean(name, 40) for name in column_names],
        shares=anchor_shares(A, components, rows=_JUDGED, rng=rng),
        own=_own(A, anchors),
        picture=_picture(sample, some, components, row_names, rng),
        curve=_curve(A, anchors, rng) if curve is None else curve,
        held_back=_held_back(sample, some, A, anchors, solver, rng),
    )


def _take(A: Any, indices: Any) -> Rows:
    return A.rows(indices) if isinstance(A, SampleAccess) else A[indices]


def _dense(block: Rows) -> _Array:
    return np.asarray(block.toarray() if sp.issparse(block) else block, dtype=np.float64)


def _stack(blocks: list[Rows]) -> Rows:
    return sp.vstack(blocks, format="csr") if sp.issparse(blocks[0]) else np.concatenate(blocks)


def _row_names(names: Sequence[str] | None, indices: Any) -> list[str]:
    """Names, or ``"row 7"`` where there is none or it is only the number of the row."""
    found = ["" if names is None else clean(names[int(i)]) for i in indices]
    return [f"row {int(i):,}" if name in ("", str(int(i))) else name for i, name in zip(indices, found, strict=True)]


def _own(A: Any, anchors: Anchors) -> float:
    total = float(A.frobenius_norm) ** 2 if isinstance(A, SampleAccess) else float(squared_norms(A).sum())
    return float(squared_norms(_take(A, anchors.indices)).sum()) / total if total else 0.0


def _features(components: _Array, names: Sequence[str] | None) -> list[list[tuple[str, float]]]:
    """Name and share of the row's total of the heaviest columns of each anchor."""
    features = []
    for row in components:
        total = float(np.abs(row).sum()) or 1.0
        top = np.argsort(-row, kind="stable")[:_TOP]
        features.append(
            [
                (f"column {int(j):,}" if names is None else clean(names[int(j)], 28), float(row[j]) / total)
                for j in top
                if row[j] > 0
            ]
        )
    return features


def _looks_spectral(sample: Rows, names: Sequence[str] | None) -> bool:
    """Whether the columns are points of a scale: dense rows that change little from one column to the next.

    Column names that are rising numbers say so too.
    """
    n = sample.shape[1]
    if sp.issparse(sample) or n < 20:
        return False
    if names is not None:
        try:
            scale = np.array([float(name) for name in names])
        except ValueError:
            return False
        return bool((np.diff(scale) > 0).all())
    block = _dense(sample) - _dense(sample).mean(axis=0)
    size = np.sqrt(np.einsum("ij,ij->j", block, block))
    pair = np.einsum("ij,ij->j", block[:, 1:], block[:, :-1])
    scale = size[1:] * size[:-1]
    near = np.divide(pair, scale, out=np.zeros_like(pair), where=scale > 0)
    return bool(np.median(near) > _SMOOTH)


def _looks_like_words(sample: Rows, names: Sequence[str] | None) -> bool:
    """Whether the columns are words of a language: sparse rows, and names of letters alone, mostly small."""
    if names is None or not sp.issparse(sample) or len(names) < 50:
        return False
    some = [str(names[j]) for j in np.linspace(0, len(names) - 1, min(len(names), 500)).astype(int)]
    plain = sum(name.replace("'", "").replace("-", "").isalpha() and name == name.lower() for name in some)
    return plain >= 0.9 * len(some)


def _picture(
    sample: Rows, some: NDArray[Any], components: _Array, names: Sequence[str] | None, rng: np.random.Generator
) -> Picture:
    at = np.sort(rng.choice(len(some), min(len(some), _PICTURED), replace=False))
    block = sample[at]
    F = encode(block, components).astype(np.float64)
    explained = _explained(block, F, components)
    # A weight times the anchor's length is what it contributes; for rows of unit sum the two are the same.
    mass = F * np.abs(components).sum(axis=1)
    total = mass.sum(axis=1, keepdims=True)
    weights = np.divide(mass, total, out=np.zeros_like(mass), where=total > 0)
    shown = total.ravel() > 0
    leads = np.bincount(weights[shown].argmax(axis=1), minlength=len(components)) / max(1, int(shown.sum()))
    chosen = _row_names(names, some[at][shown])
    return Picture(weights[shown], explained[shown], chosen, leads)


def _explained(block: Rows, F: _Array, components: _Array) -> _Array:
    """Share of each row's squared norm that its mixture explains; 1 for zero rows."""
    squares = squared_norms(block)
    parts = np.maximum(F * np.asarray(block @ components.T), 0.0).sum(axis=1)
    return np.minimum(np.divide(parts, squares, out=np.ones_like(squares), where=squares > 0), 1.0)


def _mean(values: _Array, weights: _Array) -> float:
    total = float(weights.sum())
    return float(values @ weights) / total if total else 1.0


def _curve(A: Any, anchors: Anchors, rng: RngLike) -> RankCurve:
    """From rows drawn by their norms and the anchors: the same whatever the size of the matrix."""
    block, _, sampled = draw_by_norm(A, _JUDGED, as_generator(rng))
    if sampled:
        block = _stack([block, _take(A, anchors.indices)])
    return rank_curve(block, k_max=min(block.shape[0], len(anchors) + 5), rows=block.shape[0], rng=rng)


def _held_back(
    sample: Rows, some: NDArray[Any], A: Any, anchors: Anchors, solver: Any, rng: np.random.Generator
) -> HeldBack | None:
    """Hold a fifth of the sample back, search again without it, and rebuild it; None where there is too little.

    The second search sees the rest of the sample and those anchors of the first that were not held back. (Removing
    rows that SPA did not choose does not change its choice, so for a proved answer the other rows are not missed.)
    """
    if len(some) < 10:
        return None
    held = np.zeros(len(some), dtype=bool)
    held[rng.choice(len(some), len(some) // 5, replace=False)] = True
    others = np.setdiff1d(anchors.indices, some)
    pool = _stack([sample[np.flatnonzero(~held)], _take(A, others)]) if others.size else sample[np.flatnonzero(~held)]
    index = np.concatenate([some[~held], others])
    if solver is None:
        from ..solvers.spa import SPA

        solver = SPA(allow_fewer=True)
    try:
        again = solver.seek(pool, min(len(anchors), *pool.shape), rng=rng)
    except FastAnchorsError:  # too few independent rows without those held back
        return None
    points = _dense(pool[again.indices]) if again.points is None else np.asarray(again.points)
    rows = sample[np.flatnonzero(held)]
    rows = rows[np.flatnonzero(squared_norms(rows) > 0)]
    if rows.shape[0] == 0:
        return None
    explained = _explained(rows, encode(rows, points).astype(np.float64), points)
    others = pool[np.setdiff1d(np.arange(pool.shape[0]), again.indices)]
    kept = _explained(others, encode(others, points).astype(np.float64), points)
    return HeldBack(
        explained=explained,
        total=_mean(explained, squared_norms(rows)),
        total_kept=_mean(kept, squared_norms(others)),
        kept=int(pool.shape[0]),
        same=int(np.isin(index[again.indices], anchors.indices).sum()),
        k=len(again),
    )


def curve_of(record: Mapping[str, Any]) -> RankCurve:
    """A :class:`RankCurve` from what its ``as_dict`` gave."""
    arrays: dict[str, Any] = {}
    for name in ("ks", "residuals", "errors", "falls", "singular_values", "anchors"):
        arrays[name] = np.asarray(record[name], dtype=np.intp if name in ("ks", "anchors") else np.float64)
    return RankCurve(k=int(record["k"]), reason=str(record["reason"]), rows=int(record["rows"]), **arrays)
