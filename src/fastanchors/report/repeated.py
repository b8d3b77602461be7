"""Estimate the stability of the anchors, for every number of anchors and every solver.

Noise-aware results have their own estimate (:mod:`fastanchors.greedy.stability`). All other results are computed again
from two halves of the rows; for a large matrix, of its extreme rows and an even sample. Their noise, and how many rows
are copies of an anchor, are estimated in the leading directions of the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from ..anchors import Anchors
from ..errors import FastAnchorsError, RankError
from ..fas.noise_aware import summary_of, why_plain
from ..greedy.how_many import how_many
from ..greedy.stability import Stability, alike_halves, compare, without_noise
from ..greedy.summary import Summary
from ..matrix.array import ArrayMatrix
from ..matrix.contract import RowMatrix, Rows
from ..matrix.door import open_matrix
from ..solvers.spa import SPA
from .pool import Pool

__all__ = ["Known", "NestedRecomputed", "Recomputed", "stability_record", "stability_statements"]

_ALL = 6000  # rows up to which all take part
_ENTRIES = 1 << 25  # limit of the entries of dense rows that take part
_PER_ANCHOR = 4  # rows per anchor that there must be for a comparison of halves

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Known:
    """What the rows say about anchors, besides halves of them: noise, copies of each, number that stands out of it."""

    noise: float | None = None
    support: NDArray[np.intp] | None = None
    shown: int | None = None


class Recomputed(Protocol):
    """Computes anchors again from some of the rows."""

    def rows(self, k: int) -> NDArray[np.intp]:
        """The rows whose halves are used, for ``k`` anchors."""

    def seek(self, some: NDArray[np.intp], ks: Sequence[int]) -> list[_Array | None]:
        """The points of k anchors of those rows, for several k; None if there are no anchors."""

    def known(self, indices: NDArray[np.intp]) -> Known:
        """The noise of the rows and the support of these anchors, as far as they are known."""

    def likeness(self, some: NDArray[np.intp], points: _Array) -> _Array:
        """The distance of the profiles of those rows from the profile of each anchor."""


class NestedRecomputed:
    """For nested anchors, where the first k are the answer for k: one search gives all."""

    def __init__(self, matrix: RowMatrix, solver: Any, rng: np.random.Generator) -> None:
        self._matrix, self._solver, self._rng = matrix, solver, rng
        self._summary: Summary | None = None
        self._most = 0  # anchors that the summary was made for

    def rows(self, k: int) -> NDArray[np.intp]:
        """All rows, or the extreme rows and an even sample."""
        m, n = self._matrix.shape
        summary = self._summary_for(k)
        most = _ALL if self._matrix.is_sparse else max(1, min(_ALL, _ENTRIES // n))
        if m <= most:
            return np.arange(m)
        notable = np.arange(m) if summary is None else np.asarray(summary.rows, dtype=np.intp)
        return self._rng.choice(notable, most, replace=False) if len(notable) > most else notable

    def seek(self, some: NDArray[np.intp], ks: Sequence[int]) -> list[_Array | None]:
        rows = self._matrix.rows(some)
        try:
            found = self._found(rows, min(max(ks), *rows.shape))
        except FastAnchorsError:
            return [None] * len(ks)
        points = ArrayMatrix(rows).dense_rows(found.indices) if found.points is None else np.asarray(found.points)
        return [points[:k] for k in ks]

    def known(self, indices: NDArray[np.intp]) -> Known:
        k, summary = len(indices), self._summary_for(len(indices))
        if summary is None or k < 2 or why_plain(self._matrix.shape, k) or k > summary.coordinates.shape[1] + 1:
            return Known()
        noise = summary.noise(k)
        shown = how_many(summary.coordinates.of_rows(summary.sample)).k if noise.seen else None
        return Known(noise.relative, summary.support(indices), shown)

    def likeness(self, some: NDArray[np.intp], points: _Array) -> _Array:
        rows, anchors = ArrayMatrix(self._matrix.rows(some)), _profiles(points)
        sums = rows.row_sums()
        factor = np.divide(1.0, sums, out=np.zeros(len(some)), where=sums > 0)
        squares = rows.squared_norms()[:, None] * factor[:, None] ** 2 - 2 * factor[:, None] * (rows.data @ anchors.T)
        return np.asarray(np.sqrt(np.maximum(squares + np.einsum("ij,ij->i", anchors, anchors), 0.0)))

    def _summary_for(self, k: int) -> Summary | None:
        """The coordinates of the most notable rows; None for rows that have none, such as signed ones."""
        if k > self._most:
            self._most = k
            try:
                self._summary = summary_of(self._matrix, min(k, *self._matrix.shape))
            except (FastAnchorsError, np.linalg.LinAlgError):
                self._summary = None
        return self._summary

    def _found(self, rows: Rows, k: int) -> Anchors:
        solver = self._solver or SPA()
        try:
            return cast(Anchors, solver.seek(rows, k, rng=0))
        except RankError as error:  # half of the rows can span less than all of them
            return cast(Anchors, solver.seek(rows, max(1, error.rank), rng=0))


def stability_record(A: Any, anchors: Anchors, solver: Any, rng: np.random.Generator) -> dict[str, Any]:
    """The stability of a result as JSON values; ``statement`` is None and ``reason`` says why if it is not known."""
    found = anchors.certificate.stability
    if found is None:
        matrix = open_matrix(A, signed=True)
        points = matrix.dense_rows(anchors.indices) if anchors.points is None else anchors.points
        again = NestedRecomputed(matrix, solver, rng)
        compared = _in_halves({len(anchors): (anchors.indices, points)}, again, rng)
        if isinstance(compared, str):
            return {"statement": None, "reason": compared, "warnings": []}
        found = compared[len(anchors)]
    return cast(dict[str, Any], found.as_dict())


def stability_statements(
    pool: Pool, again: Recomputed | None, rng: np.random.Generator
) -> dict[int, dict[str, Any] | None]:
    """For every number of anchors a statement, a verdict for each anchor, warnings, and the rows that support each.

    Parameters
    ----------
    pool
        The anchors.
    again
        Computes the anchors again, for results without an estimate of their own; None if their method is not known.
    """
    known = {k: pool.results[k].certificate.stability for k in pool.chosen}
    unknown = {k: (pool.results[k].indices, pool.points[pool.chosen[k]]) for k, found in known.items() if found is None}
    if unknown and again is not None:
        compared = _in_halves(unknown, again, rng)
        known |= {} if isinstance(compared, str) else compared
    return {k: _shown(found) for k, found in known.items()}


def _shown(found: Stability | None) -> dict[str, Any] | None:
    """The part of it that the page shows."""
    if found is None:
        return None
    support = {} if found.support is None else {"support": found.support.tolist()}
    return {"statement": found.statement, "verdicts": list(found.verdicts), "warnings": found.warnings, **support}


def _in_halves(
    results: Mapping[int, tuple[NDArray[np.intp], _Array]], again: Recomputed, rng: np.random.Generator
) -> dict[int, Stability] | str:
    """Anchors computed from two halves of the rows, compared with those of all rows; or why that is not possible."""
    ks = list(results)
    some = rng.permutation(again.rows(max(ks)))
    if len(some) < _PER_ANCHOR * max(ks):
        return f"{len(some)} rows are too few for anchors of halves of them; k = {max(ks)} needs {_PER_ANCHOR} · k rows"
    known = {k: again.known(indices) for k, (indices, _) in results.items()}
    sides = np.array_split(some, 2)
    if known[max(ks)].noise == 0:  # copies of an anchor are divided between the halves
        half = alike_halves(again.likeness(some, results[max(ks)][1]), rng.spawn(1)[0])
        sides = [some[half], some[~half]]
    halves = [again.seek(np.sort(half), ks) for half in sides]
    found: dict[int, Stability] = {}
    for at, (k, (_, points)) in enumerate(results.items()):
        both = [half[at] for half in halves]
        parts = [None if part is None else _profiles(part) for part in both]
        profiles, scale, told = _profiles(points), np.abs(points).sum(axis=1), known[k]
        if told.noise == 0:
            found[k] = without_noise(profiles, parts, told.support, scale)
            continue
        moved = compare(profiles, parts)
        found[k] = Stability(
            told.noise, moved.angles, moved.distances * scale, moved.relative, told.support, moved.verdicts, told.shown
        )
    return found


def _profiles(points: Any) -> _Array:
    """Points scaled to sum one."""
    values = np.asarray(points, dtype=np.float64)
    sums = np.abs(values).sum(axis=1, keepdims=True)
    return np.divide(values, sums, out=np.zeros_like(values), where=sums > 0)
