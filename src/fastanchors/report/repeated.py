"""Estimate the stability of the anchors, for every number of anchors and every solver.

Noise-aware results have their own estimate (:mod:`fastanchors.greedy.stability`). All other results are computed again
from two halves of the rows; for a large matrix, of its extreme rows and an even sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from ..anchors import Anchors
from ..errors import FastAnchorsError, RankError
from ..fas.noise_aware import summary_of
from ..greedy.stability import compare
from ..matrix.array import ArrayMatrix
from ..matrix.contract import RowMatrix, Rows
from ..solvers.spa import SPA
from .pool import Pool

__all__ = ["NestedRecomputed", "Recomputed", "stability_of", "stability_statements"]

_ALL = 6000  # rows up to which all take part
_ENTRIES = 1 << 25  # limit of the entries of dense rows that take part

_Array = NDArray[np.float64]


class Recomputed(Protocol):
    """Computes anchors again from some of the rows."""

    def rows(self, k: int) -> NDArray[np.intp]:
        """The rows whose halves are used, for ``k`` anchors."""

    def seek(self, some: NDArray[np.intp], ks: Sequence[int]) -> list[_Array | None]:
        """The points of k anchors of those rows, for several k; None if there are no anchors."""


class NestedRecomputed:
    """For nested anchors, where the first k are the answer for k: one search gives all."""

    def __init__(self, matrix: RowMatrix, solver: Any, rng: np.random.Generator) -> None:
        self._matrix, self._solver, self._rng = matrix, solver, rng

    def rows(self, k: int) -> NDArray[np.intp]:
        """All rows, or the extreme rows and an even sample."""
        m, n = self._matrix.shape
        most = _ALL if self._matrix.is_sparse else max(1, min(_ALL, _ENTRIES // n))
        if m <= most:
            return np.arange(m)
        try:
            notable = np.asarray(summary_of(self._matrix, min(k, m, n)).rows, dtype=np.intp)
        except (FastAnchorsError, np.linalg.LinAlgError):  # signed rows have no profiles
            notable = np.arange(m)
        return self._rng.choice(notable, most, replace=False) if len(notable) > most else notable

    def seek(self, some: NDArray[np.intp], ks: Sequence[int]) -> list[_Array | None]:
        rows = self._matrix.rows(some)
        try:
            found = self._found(rows, min(max(ks), *rows.shape))
        except FastAnchorsError:
            return [None] * len(ks)
        points = ArrayMatrix(rows).dense_rows(found.indices) if found.points is None else np.asarray(found.points)
        return [points[:k] for k in ks]

    def _found(self, rows: Rows, k: int) -> Anchors:
        solver = self._solver or SPA()
        try:
            return cast(Anchors, solver.seek(rows, k, rng=0))
        except RankError as error:  # half of the rows can span less than all of them
            return cast(Anchors, solver.seek(rows, max(1, error.rank), rng=0))


def stability_of(anchors: Anchors) -> dict[str, Any] | None:
    """The stability that the result itself has; None if it has none."""
    found = anchors.certificate.stability
    if found is None:
        return None
    return {"statement": found.statement, "verdicts": list(found.verdicts), "support": found.support.tolist()}


def stability_statements(
    pool: Pool, again: Recomputed | None, rng: np.random.Generator
) -> dict[int, dict[str, Any] | None]:
    """For every number of anchors a statement, a verdict for each anchor, and the rows that support it if known.

    Parameters
    ----------
    pool
        The anchors.
    again
        Computes the anchors again, for results without an estimate of their own; None if their method is not known.
    """
    known = {k: stability_of(pool.results[k]) for k in pool.chosen}
    ks = [k for k, found in known.items() if found is None]
    return known | (_in_halves(pool, ks, again, rng) if ks and again is not None else {})


def _in_halves(
    pool: Pool, ks: Sequence[int], again: Recomputed, rng: np.random.Generator
) -> dict[int, dict[str, Any] | None]:
    """Anchors computed from two halves of the rows, compared with those of all rows."""
    some = rng.permutation(again.rows(max(ks)))
    if len(some) < 4 * max(ks):
        return {}
    halves = [again.seek(np.sort(half), ks) for half in np.array_split(some, 2)]
    found: dict[int, dict[str, Any] | None] = {}
    for at, k in enumerate(ks):
        both = [half[at] for half in halves]
        profiles = [None if points is None else _profiles(points) for points in both]
        moved = compare(_profiles(pool.points[pool.chosen[k]]), profiles)
        firm = moved.verdicts.count("firm")
        found[k] = {
            "statement": f"firm when computed again from halves of the rows: {firm} of {k}; "
            f"the largest move is {float(moved.angles.max()):.2g} rad",
            "verdicts": list(moved.verdicts),
        }
    return found


def _profiles(points: Any) -> _Array:
    """Points scaled to sum one."""
    values = np.asarray(points, dtype=np.float64)
    sums = np.abs(values).sum(axis=1, keepdims=True)
    return np.divide(values, sums, out=np.zeros_like(values), where=sums > 0)
