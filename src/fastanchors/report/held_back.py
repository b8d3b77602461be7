"""Test whether anchors generalise: hold rows back, compute anchors without them, and reconstruct those rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._equality import ComparedByValue
from ..anchors import Anchors
from ..errors import FastAnchorsError
from ..matrix.array import ArrayMatrix
from ..matrix.contract import RowMatrix
from ..solvers.spa import SPA
from .shares import explained_parts

__all__ = ["HeldBack", "explained_shares", "hold_back"]

_Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class HeldBack(ComparedByValue):
    """For each held-back row, the share explained by the anchors of a second search without these rows.

    ``total`` is the share of the squared norm of all of them. ``total_kept`` is that of the rows that took part but are
    not anchors: the measure of :class:`Shares`, without the anchors, which explain themselves.
    """

    explained: _Array
    total: float
    total_kept: float
    kept: int
    same: int  # number of anchors that both searches found
    k: int


def explained_shares(rows: ArrayMatrix, points: _Array) -> _Array:
    """Share of each row's squared norm that its mixture explains; 1 for zero rows."""
    squares = rows.squared_norms()
    parts = explained_parts(rows, points).sum(axis=1)
    return np.minimum(np.divide(parts, squares, out=np.ones_like(squares), where=squares > 0), 1.0)


def hold_back(
    matrix: RowMatrix, some: NDArray[np.intp], anchors: Anchors, solver: Any, rng: np.random.Generator
) -> HeldBack | None:
    """Hold back a fifth of the rows ``some``, search again without it, and reconstruct it; None if there are too few.

    The second search uses the rest of the rows and the anchors of the first that were not held back. (Removing rows
    that SPA did not select does not change its selection, so for a proved result the other rows are not needed.)
    """
    if len(some) < 10:
        return None
    held = np.zeros(len(some), dtype=bool)
    held[rng.choice(len(some), len(some) // 5, replace=False)] = True
    index = np.concatenate([some[~held], np.setdiff1d(anchors.indices, some)])
    pool = matrix.rows(index)
    try:
        again = (solver or SPA(allow_fewer=True)).seek(pool, min(len(anchors), *pool.shape), rng=rng)
    except FastAnchorsError:  # too few independent rows without those held back
        return None
    points = ArrayMatrix(pool).dense_rows(again.indices) if again.points is None else np.asarray(again.points)
    rows = ArrayMatrix(matrix.rows(some[held]))
    rows = ArrayMatrix(rows.rows(np.flatnonzero(rows.squared_norms() > 0)))
    if rows.shape[0] == 0:
        return None
    others = ArrayMatrix(pool[np.setdiff1d(np.arange(pool.shape[0]), again.indices)])
    explained = explained_shares(rows, points)
    return HeldBack(
        explained=explained,
        total=_mean(explained, rows),
        total_kept=_mean(explained_shares(others, points), others),
        kept=int(pool.shape[0]),
        same=int(np.isin(index[again.indices], anchors.indices).sum()),
        k=len(again),
    )


def _mean(values: _Array, rows: ArrayMatrix) -> float:
    """The mean weighted by the squared norms of the rows."""
    squares = rows.squared_norms()
    total = float(squares.sum())
    return float(values @ squares) / total if total else 1.0
