"""Find the rows that may be vertices: those farthest along many directions of the coordinates, in one pass."""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._distinct import distinct
from ..matrix.contract import SINGLE
from .coordinates import products

__all__ = ["Extremes", "extreme_rows", "towards"]

_DIRECTIONS = 256
_DEPTH = 16  # rows kept at each end of each direction
_BLOCK = 1 << 11  # rows per block: their products with all directions stay in the cache
_FIRST = 1 << 10  # rows that set the first threshold for the following ones
_WAITING = 1 << 14  # entries noted before the farthest are chosen again
_RANKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_SHORT = (4, 8)  # few rows are long enough in this many coordinates to reach far along directions in them

_Floats = NDArray[np.float32]
_Rows = NDArray[np.int64]


def towards(values: _Floats, directions: int = _DIRECTIONS, *, among: int | None = None) -> _Floats:
    """Unit vectors to project on, at most ``directions`` × d; both ends of each are of interest.

    They lie in the first 1, 2, 3, 4, 6, … coordinates (of the first ``among``), half of them whitened by the spread of
    ``values``.
    """
    m, d = values.shape
    rng = np.random.default_rng(0)
    most = d if among is None else min(d, among)
    ranks = [r for r in _RANKS if r < most] + [most]
    spread = np.maximum(values[:: max(1, m // 4096)].astype(np.float64).std(axis=0), 1e-100)
    U = np.zeros((directions, d), np.float32)
    for j in range(directions):
        r = ranks[j % len(ranks)]
        u = rng.standard_normal(r) / (spread[:r] if j // len(ranks) % 2 else spread[0])
        U[j, :r] = u / np.linalg.norm(u)
    once = np.arange(directions) < len(ranks)
    return U[once | (U[:, 1:] != 0).any(axis=1)]  # in one coordinate there is only one


class Extremes:
    """The ``depth`` rows that reach farthest along each direction and its opposite, among those seen.

    The reach of a row is its projection minus its noise, so noisy rows are not preferred. Ties go to the rows with the
    lowest index, so the order in which rows are seen does not matter. Several threads may call :meth:`look` at once,
    and parts of a matrix can be merged.

    Parameters
    ----------
    directions : array
        One per row, as returned by :func:`towards`.
    depth : int
        Rows kept at each end of each direction.
    """

    def __init__(self, directions: _Floats, depth: int = _DEPTH) -> None:
        self.directions, self.depth = directions, depth
        self._across = np.ascontiguousarray(directions.T)
        widths = directions.shape[1] - np.argmax(directions[:, ::-1] != 0, axis=1)
        ends = [*(end for end in _SHORT if end < directions.shape[1]), directions.shape[1]]
        groups = [np.flatnonzero((low < widths) & (widths <= high)) for low, high in pairwise([0, *ends])]
        self._groups = [(g, np.ascontiguousarray(directions[g, :r].T)) for g, r in zip(groups, ends) if g.size]
        # smallest reach of a row that is kept, along each direction, then along their opposites
        self.floor = np.full(2 * len(directions), -np.inf, np.float32)
        self._noted: list[tuple[_Rows, _Rows, _Floats]] = []  # (direction, row, reach)
        self._waiting = 0
        self._lock = threading.Lock()

    def within_reach(self, values: _Floats, allowance: NDArray[Any]) -> NDArray[np.bool_]:
        """Which rows may be among the farthest, if the reach of each is at most its projection plus its allowance.

        Costs m·d·``directions`` products. The rounding of projections is allowed for.
        """
        found = np.zeros(len(values), np.bool_)
        rounding = 2 * (values.shape[1] + 4) * SINGLE * np.sqrt(np.vecdot(values, values))
        allowance = (allowance + rounding).astype(np.float32)
        for group, across in self._groups:
            floor = self.floor.reshape(2, -1)[:, group]
            some = values[:, : len(across)]
            rows = np.flatnonzero(np.sqrt(np.vecdot(some, some)) + allowance >= floor.min())
            for low in range(0, len(rows), _BLOCK):
                at = rows[low : low + _BLOCK]
                far = _far(products(some[at], across), allowance[at], floor)
                found[at[far]] = True
        return found

    def look(self, values: _Floats, noise: NDArray[np.float64], rows: _Rows) -> NDArray[np.bool_]:
        """Note those of these rows (with indices ``rows``) that are among the farthest so far; return which may be."""
        noted = np.zeros(len(values), np.bool_)
        for low in range(0, len(values), _BLOCK):
            piece = slice(low, low + _BLOCK)
            along = products(values[piece], self._across)
            reach = np.concatenate([along, -along], axis=1) - noise[piece, None].astype(np.float32)
            self._raise_floor(reach)
            flat = np.flatnonzero(reach >= self.floor)
            at, direction = np.divmod(flat, reach.shape[1])
            noted[low + at] = True
            self._note(direction, rows[low + at], reach.reshape(-1)[flat])
        return noted

    def _raise_floor(self, reach: _Floats) -> None:
        """Set the threshold from the first rows: without it all of them would be kept."""
        if self.floor[0] == -np.inf and len(reach) > self.depth:
            lowest = np.partition(reach[:_FIRST], -self.depth, axis=0)[-self.depth]
            with self._lock:
                self.floor = np.maximum(self.floor, lowest)

    def _note(self, along: _Rows, rows: _Rows, reach: _Floats) -> None:
        with self._lock:
            self._noted.append((along, rows, reach))
            self._waiting += len(along)
            if self._waiting > _WAITING:
                self._choose()

    def _choose(self) -> None:
        along, rows, reach = (np.concatenate(arrays) for arrays in zip(*self._noted))
        order = np.lexsort((rows, -reach, along))
        along = along[order]
        place = np.arange(len(along)) - np.searchsorted(along, along)  # the farthest of each direction has place 0
        last = order[place == self.depth - 1]
        floor = self.floor.copy()
        floor[along[place == self.depth - 1]] = reach[last]
        self.floor = np.maximum(self.floor, floor)
        keep = order[place < self.depth]
        self._noted = [(along[place < self.depth], rows[keep], reach[keep])]
        self._waiting = 0

    def merge(self, other: Extremes) -> None:
        """Add the rows kept from another part of the matrix."""
        self._noted += other._noted
        self._choose()

    def rows(self) -> _Rows:
        """The rows chosen, sorted."""
        if not self._noted:
            return np.zeros(0, np.int64)
        self._choose()
        return distinct(self._noted[0][1])

    def __getstate__(self) -> dict[str, object]:
        return {key: value for key, value in self.__dict__.items() if key != "_lock"}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()


def _far(along: _Floats, allowance: _Floats, floor: _Floats) -> _Rows:
    """Positions of rows whose projections on some direction or its opposite, plus their allowances, reach its floor."""
    least = floor - allowance.max()
    far = []
    for sign, hits, ends in ((1, along >= least[0], floor[0]), (-1, along <= -least[1], floor[1])):
        at, direction = np.divmod(np.flatnonzero(hits), along.shape[1])
        far.append(at[sign * along[at, direction] + allowance[at] >= ends[direction]])
    return np.concatenate(far)


def extreme_rows(
    values: _Floats, noise: NDArray[np.float64], *, directions: int = _DIRECTIONS, depth: int = _DEPTH
) -> NDArray[np.intp]:
    """The extreme rows, sorted: at most 2·``directions``·``depth``, whatever the number of rows."""
    extremes = Extremes(towards(values, directions), depth)
    extremes.look(values, noise, np.arange(len(values)))
    return extremes.rows().astype(np.intp, copy=False)
