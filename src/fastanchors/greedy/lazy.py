"""Lazily evaluated distances for greedy selection: each row's distance is computed only when it can affect the choice.

Distances to a span, a cone or a hull only decrease when an anchor is added, so the last known value of a row remains an
upper bound. Each row has that bound and the number of the step at which it was read. :meth:`Distances.leaders` first
updates a few rows with the largest bounds. The best of them determines which other rows can still matter; only those
are read, once for all the anchors they have missed. In total each row is read about once in a run.

Distances of many rows are computed roughly (in single precision if the matrix is stored in it) with an error bound. The
few rows that may be the farthest within that error are computed again in double precision.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .reader import Reader
from .ties import TIE

__all__ = ["MAX_REREAD_ROWS", "Distances", "Leaders", "exact_leaders", "level", "seeds"]

_SEEDS = 64  # rows with the largest bounds, read first
_BLOCK_ROWS = 256  # from each block of this many rows, only the one with the largest bound may be a seed
_MARGIN = 1e-5  # rows within this fraction of the largest squared distance are updated: ties and a little more
MAX_REREAD_ROWS = 4096  # at most this many rows are read again only to report a distance
_SAMPLE = 1024  # smallest number of bounds from which a level is estimated
_HITS = 64  # smallest number of these bounds above the level
_GROWTH = 16  # contenders are compared in groups that grow by this factor, farthest first


class Leaders(NamedTuple):
    """Rows that may be the farthest, in increasing order: their squared distances, error bounds and squared norms."""

    rows: NDArray[np.intp]
    values: NDArray[np.float64]
    errors: NDArray[np.float64]
    norms: NDArray[np.float64]

    def take(self, some: NDArray[np.intp] | NDArray[np.bool_]) -> Leaders:
        """A subset of them."""
        return Leaders(self.rows[some], self.values[some], self.errors[some], self.norms[some])


class Distances(ABC):
    """Squared distances of the rows of a matrix to a growing set. Memory: two numbers per row."""

    _most = 0.95  # if at least this fraction of the rows must be read, all are

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.squared_norms = reader.squared_norms
        self.largest_norm = reader.largest
        self._upper = self.squared_norms * (1 + reader.norm_error)
        self._upper[self.squared_norms == 0] = -np.inf  # no candidates
        self._seen = np.zeros(reader.shape[0], dtype=np.int32)
        self._step = 0

    @abstractmethod
    def _rough(self, rows: NDArray[np.intp] | None, floor: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Squared distances of many rows (None: all) and error bounds; far below ``floor`` they may be inaccurate."""

    @abstractmethod
    def exact(self, rows: NDArray[np.intp]) -> Leaders:
        """Those rows with distances accurate to double precision."""

    def bar(self, rows: NDArray[np.intp] | int) -> None:
        """Exclude those rows from the candidates."""
        self._upper[rows] = -np.inf

    def leaders(self, within: float = TIE, *, rough: bool = False) -> Leaders:
        """Every row that may be ``within`` that fraction of the largest, with accurate distances.

        The default covers the rows that :func:`~fastanchors.greedy.ties.choose` may compare. With ``rough`` the
        distance of a row without a rival may be less accurate, as its error bound states.
        """
        return self._exact_leaders(self._bring_up_to_date(self._first_floor()), within)

    def largest(self) -> float:
        """The largest distance left among the candidates, or a bound of it.

        If many rows would have to be read only for this, the largest of the known bounds is returned.
        """
        floor = self._first_floor()
        if np.count_nonzero(self._upper >= (1 - TIE) * floor) > MAX_REREAD_ROWS:
            return math.sqrt(self._upper.max())
        values = self._exact_leaders(self._bring_up_to_date(floor), TIE).values
        return math.sqrt(values.max()) if values.size else 0.0

    def _first_floor(self) -> float:
        """A lower bound of the largest squared distance, from reading a few rows with the largest bounds."""
        if self._step == 0:
            return max(0.0, float(self._upper.max())) * (1 - 2.5 * self.reader.norm_error)
        rows = seeds(self._upper)
        if rows.size == 0:
            return 0.0
        known = self._note(self.exact(rows))
        return max(0.0, float((known.values - known.errors).max()))

    def _bring_up_to_date(self, floor: float) -> float:
        """Read all rows that have missed a step and may be tied with the largest; return the new floor.

        Rows with the largest bounds come first, in growing groups; they may rule out the others unread.
        """
        size, upper = _SEEDS, self._upper
        rows = np.flatnonzero((upper >= (1 - _MARGIN) * floor) & (self._seen < self._step))
        while rows.size:
            size *= _GROWTH
            known = upper[rows]
            if rows.size >= self._most * upper.size:
                return self._bring_all_up_to_date(floor)
            in_groups = 16 * size < rows.size and self._step > 1  # the first direction is common to all rows
            some = rows[known >= level(known, size)] if in_groups else rows
            values, errors = self._rough(some, floor)
            self._seen[some] = self._step
            upper[some] = np.maximum(values + errors, 0.0)
            floor = max(floor, float((values - errors).max()))
            if some is rows:
                break
            rows = rows[(known >= (1 - _MARGIN) * floor) & (self._seen[rows] < self._step)]
        return floor

    def _bring_all_up_to_date(self, floor: float) -> float:
        """Read all rows: cheaper than skipping a few."""
        barred = np.flatnonzero(self._upper == -np.inf)
        values, errors = self._rough(None, floor)
        self._seen[:] = self._step
        values[barred] = -np.inf
        np.add(values, errors, out=self._upper)
        values -= errors
        np.maximum(self._upper, 0.0, out=self._upper)
        self._upper[barred] = -np.inf
        return max(floor, float(values[values.argmax()]))

    def _exact_leaders(self, floor: float, within: float) -> Leaders:
        """The rows within that fraction of the largest, compared in double precision, farthest first."""
        pending = np.flatnonzero(self._upper >= (1 - within) * floor)
        return exact_leaders(pending, self._upper[pending], lambda rows: self._note(self.exact(rows)), floor, within)

    def _note(self, known: Leaders) -> Leaders:
        """Store the result of an exact evaluation."""
        self._upper[known.rows] = known.values + known.errors
        self._seen[known.rows] = self._step
        return known


def exact_leaders(
    rows: NDArray[np.intp],
    upper: NDArray[np.float64],
    exact: Callable[[NDArray[np.intp]], Leaders],
    floor: float,
    within: float,
) -> Leaders:
    """Those of the rows that may be within that fraction of the largest, evaluated exactly, farthest first.

    ``upper`` bounds their squared distances; the largest distance is at least ``floor``. The first rows evaluated may
    rule out the others unread.
    """
    if rows.size > _SEEDS:
        order = np.argsort(-upper, kind="stable")
        rows, upper = rows[order], upper[order]
    found: list[Leaders] = []
    size = _SEEDS
    while rows.size:
        known = exact(np.sort(rows[:size]))
        found.append(known)
        floor = max(floor, float((known.values - known.errors).max()))
        left = np.flatnonzero(upper[size:] >= (1 - within) * floor) + size
        rows, upper = rows[left], upper[left]
        size *= _GROWTH
    if not found:
        return Leaders(rows, *(np.zeros(0),) * 3)
    leaders = found[0] if len(found) == 1 else Leaders(*(np.concatenate(each) for each in zip(*found)))
    near = np.flatnonzero(leaders.values + leaders.errors >= (1 - within) * floor)
    if near.size < leaders.rows.size or len(found) > 1:
        leaders = leaders.take(near[np.argsort(leaders.rows[near])])
    return leaders


def seeds(upper: NDArray[np.float64]) -> NDArray[np.intp]:
    """Some rows with large bounds: the row with the largest bound in each of the highest blocks."""
    if upper.size <= 4 * _BLOCK_ROWS:
        rows = upper.argpartition(max(0, upper.size - _SEEDS))[-_SEEDS:]
    else:
        whole = upper.size - upper.size % _BLOCK_ROWS
        rows = upper[:whole].reshape(-1, _BLOCK_ROWS).argmax(axis=1)
        rows += np.arange(0, whole, _BLOCK_ROWS)
        if whole < upper.size:
            rows = np.append(rows, whole + upper[whole:].argmax())
        if rows.size > _SEEDS:
            rows = rows[upper[rows].argpartition(rows.size - _SEEDS)[-_SEEDS:]]
    return np.sort(rows[upper[rows] > -np.inf])


def level(values: NDArray[np.float64], count: int) -> float:
    """Estimate the ``count``-th largest value from a subset."""
    if count >= values.size:
        return -np.inf
    some = values[:: max(1, values.size // max(_SAMPLE, _HITS * values.size // count))]
    at = min(max(1, count * some.size // values.size), some.size)
    return float(np.partition(some, some.size - at)[some.size - at])
