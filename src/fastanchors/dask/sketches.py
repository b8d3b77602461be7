"""Sketches that stay on workers: each bounds its own rows, and the client merges the largest bounds.

Little data is sent per question: the largest bounds of each part, counts, and indices of rows near a threshold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..fas.bounds import Scan, Sketch, Thresholds
from ..fas.hull import mixtures
from ..fas.sidecar import FasSidecar
from ..fas.sketch import part_from
from ..matrix.contract import RowMatrix
from ..matrix.metered import MeteredMatrix
from ..store.shard_group import ShardMatrix
from .parts import Parts, Question

__all__ = ["Marks", "RemoteSketch", "mapped_sketch", "sketched"]

Indices = NDArray[np.int64]


class RemoteSketch(Sketch):
    """A sketch in parts: each bounds its own rows, and the client merges the largest bounds."""

    def __init__(self, V: NDArray[np.float64], parts: Parts) -> None:
        super().__init__(V, [])
        self.rows, self._parts, self._starts = parts.starts[-1], parts, parts.starts

    @classmethod
    def made(cls, parts: Parts, name: str, make: Callable[..., Sketch], V: NDArray[np.float64]) -> RemoteSketch:
        """The sketches ``make(part, V)``, each made and kept where its part is."""
        count = len(parts.starts) - 1
        return cls(V, parts.keep(Question(name, make, range(count), [()] * count, (V,)), parts.starts))

    def marks(self) -> Marks:
        return Marks()

    def gathered(self, rows: Indices) -> RemoteSketch:
        bounds = np.searchsorted(rows, self._starts)
        some = np.flatnonzero(np.diff(bounds))
        own = [(_short(rows[bounds[p] : bounds[p + 1]] - self._starts[p]),) for p in some]
        asked = Question("near", _gathered, some.tolist(), own, ())
        return RemoteSketch(self.V, self._parts.keep(asked, [0, *bounds[some + 1].tolist()]))

    def largest(self) -> int:
        found = self._parts.each("largest", _largest)
        best = max((norm, -start - row) for start, (norm, row) in zip(self._starts, found))
        return -best[1]

    def norm_outside(self, known: Any) -> float:
        return max(self._parts.each("norm-outside", _norm_outside, None, self._own(known)))

    def scan(self, thresholds: Thresholds, known: Any, top: int) -> RemoteScan:
        own = self._own(known)
        found = self._parts.each("bounds", _scan, None, own, (thresholds, top))
        rows, bounds = _largest_of([x[1] for x in found], [x[2] for x in found], top)
        counts = np.sum([x[0] for x in found], axis=0)
        tied = np.max([x[3] for x in found], axis=0)
        return RemoteScan(np.zeros(0, np.int16), rows, bounds, tied, counts, self, thresholds, own)

    def suspects(self, own: list[tuple[Any, ...]], thresholds: Thresholds, reach: int) -> Indices:
        """Rows whose bound is near a threshold."""
        found = self._parts.each("suspects", _suspects, None, own, (thresholds, reach))
        return np.concatenate([start + rows.astype(np.int64) for start, rows in zip(self._starts, found)])

    def mixed(self, points: NDArray[np.float64], known: Any, top: int) -> tuple[Indices, NDArray[np.float64]]:
        """As :func:`fastanchors.fas.hull.mixtures`, computed where each part is."""
        found = self._parts.each("mixtures", _mixtures, None, self._own(known), (points, top))
        return _largest_of([rows for rows, _ in found], [values for _, values in found], top)

    def _own(self, known: Any) -> list[tuple[Any, ...]]:
        """For each part, its first row and its known rows; ``known`` is marks or a boolean array."""
        known = known if isinstance(known, Marks) else Marks(np.flatnonzero(known))
        return [(start, known.within(start, stop)) for start, stop in pairwise(self._starts)]


mixtures.register(RemoteSketch)(RemoteSketch.mixed)


@dataclass(frozen=True)
class RemoteScan(Scan):
    """A scan whose per-row results stay on the workers."""

    first_counts: NDArray[np.int64]
    sketch: RemoteSketch
    thresholds: Thresholds
    own: list[tuple[Any, ...]]

    def counts(self) -> NDArray[np.int64]:
        return self.first_counts

    def suspects(self, reach: int) -> Indices:
        """Scan again: the suspects are few, and no per-row results need to be kept."""
        return self.sketch.suspects(self.own, self.thresholds, reach)


class Marks:
    """A sparse set of marked rows, instead of an array of m booleans."""

    def __init__(self, rows: Indices | None = None) -> None:
        self._rows = np.zeros(0, np.int64) if rows is None else rows

    def __getitem__(self, rows: Indices) -> NDArray[np.bool_]:
        return np.isin(rows, self._rows)

    def __setitem__(self, rows: Indices, value: bool) -> None:
        self._rows = np.union1d(self._rows, rows) if value else np.setdiff1d(self._rows, rows)

    def copy(self) -> Marks:
        return Marks(self._rows)

    def within(self, start: int, stop: int) -> Indices:
        """The marked rows among start … stop − 1, counted from start."""
        low, high = np.searchsorted(self._rows, [start, stop])
        return self._rows[low:high] - start


def _short(rows: Indices) -> NDArray[Any]:
    """Row indices of a part as uint32 if they fit: the only answer that grows with the matrix."""
    return rows.astype(np.uint32) if rows.size == 0 or rows[-1] < 2**32 else rows


def _largest_of(rows: list[Any], values: list[Any], top: int) -> tuple[Any, Any]:
    """Merge several lists into the ``top`` largest values, in descending order; ties go to the first row."""
    some, sizes = np.concatenate(rows, axis=1), np.concatenate(values, axis=1)
    order = np.lexsort((some, -sizes), axis=1)[:, :top]
    return np.take_along_axis(some, order, axis=1), np.take_along_axis(sizes, order, axis=1)


# --- on the worker ---------------------------------------------------------------------------------------------------


def sketched(matrix: RowMatrix, V: NDArray[np.float64]) -> Sketch:
    """The sketch of the rows of a part."""
    return Sketch.of(MeteredMatrix(matrix), V)


def mapped_sketch(part: ShardMatrix, V: NDArray[np.float64]) -> Sketch:
    """The sketch stored beside the shards of a part."""
    return Sketch(V, [part_from(arrays, start, stop, V) for start, stop, arrays in part.shard_arrays(FasSidecar.name)])


def _mask(sketch: Sketch, known: Indices) -> NDArray[np.bool_]:
    mask = sketch.marks()
    mask[known] = True
    return mask


def _gathered(sketch: Sketch, rows: NDArray[Any]) -> Sketch:
    return sketch.gathered(rows.astype(np.int64))


def _largest(sketch: Sketch) -> tuple[float, int]:
    row = sketch.largest()
    norms = next(p.norms[row - p.start] for p in sketch.parts if p.start <= row < p.start + len(p.norms))
    return float(norms), row


def _norm_outside(sketch: Sketch, start: int, known: Indices) -> float:
    return sketch.norm_outside(_mask(sketch, known))


def _scan_part(sketch: Sketch, start: int, known: Indices, thresholds: Thresholds, top: int) -> Scan:
    return sketch.scan(replace(thresholds, index=thresholds.index - start), _mask(sketch, known), top)


def _scan(sketch: Sketch, start: int, known: Indices, thresholds: Thresholds, top: int) -> tuple[Any, ...]:
    scan = _scan_part(sketch, start, known, thresholds, top)
    rows = np.where(scan.top_rows >= 0, scan.top_rows + start, -1)
    return scan.counts(), rows, scan.top_bounds, scan.tied_bounds


def _suspects(sketch: Sketch, start: int, known: Indices, thresholds: Thresholds, reach: int) -> NDArray[Any]:
    return _short(_scan_part(sketch, start, known, thresholds, 1).suspects(reach))


def _mixtures(
    sketch: Sketch, start: int, known: Indices, points: NDArray[np.float64], top: int
) -> tuple[Indices, NDArray[np.float64]]:
    rows, values = mixtures(sketch, points, _mask(sketch, known), top)
    return np.where(rows >= 0, rows + start, -1), values
