"""Sketches that stay on workers: each bounds the rows it is made of, the largest bounds are merged here.

A *part* is a task whose result holds consecutive rows: some shards of a store, or a block of a Dask array. What crosses
per question is small: the largest bounds of each part, counts, numbers of rows near a threshold.
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
from ..matrix.contract import RowMatrix
from ..matrix.metered import MeteredMatrix
from .shards import Shards
from .tasks import Kept, Pool

__all__ = ["Held", "Marks", "RemoteSketch", "sketched"]

Indices = NDArray[np.int64]


class RemoteSketch(Sketch):
    """A sketch in parts: each bounds its rows, the largest bounds are merged here."""

    def __init__(
        self, V: NDArray[np.float64], pool: Pool, parts: list[Any], starts: list[int], threads: int = 1
    ) -> None:
        super().__init__(V, [])
        self.rows, self.threads = starts[-1], threads
        self.pool, self.places, self.starts = pool, parts, starts

    def marks(self) -> Marks:
        return Marks()

    def gathered(self, rows: Indices) -> RemoteSketch:
        bounds = np.searchsorted(rows, self.starts)
        some = np.flatnonzero(np.diff(bounds))
        own = [(_short(rows[bounds[p] : bounds[p + 1]] - self.starts[p]),) for p in some]
        kept = self.pool.keep("near", _gathered, [self.places[p] for p in some], own)
        return RemoteSketch(self.V, self.pool, kept, [0, *bounds[some + 1].tolist()], self.threads)

    def largest(self) -> int:
        found = self._ask("largest", _largest)
        best = max((norm, -start - row) for start, (norm, row) in zip(self.starts, found))
        return -best[1]

    def norm_outside(self, known: Any) -> float:
        return max(self._ask("norm-outside", _norm_outside, self._own(known)))

    def scan(self, thresholds: Thresholds, known: Any, top: int) -> RemoteScan:
        own = self._own(known)
        found = self._ask("bounds", _scan, own, (thresholds, top))
        rows, bounds = _largest_of([x[1] for x in found], [x[2] for x in found], top)
        counts = np.sum([x[0] for x in found], axis=0)
        tied = np.max([x[3] for x in found], axis=0)
        return RemoteScan(np.zeros(0, np.int16), rows, bounds, tied, counts, self, thresholds, own)

    def mixed(self, points: NDArray[np.float64], known: Any, top: int) -> tuple[Indices, NDArray[np.float64]]:
        """As :func:`fastanchors.fas.hull.mixtures`, of each part where it is."""
        found = self._ask("mixtures", _mixtures, self._own(known), (points, top))
        return _largest_of([rows for rows, _ in found], [values for _, values in found], top)

    def _ask(self, name: str, function: Callable[..., Any], own: Any = None, shared: tuple[Any, ...] = ()) -> list[Any]:
        return self.pool.each(name, function, self.places, own, shared, threads=self.threads)

    def _own(self, known: Any) -> list[tuple[Any, ...]]:
        """For each part its first row, and which of its rows are known (marks, or an array of booleans)."""
        known = known if isinstance(known, Marks) else Marks(np.flatnonzero(known))
        return [(start, known.within(start, stop)) for start, stop in pairwise(self.starts)]


mixtures.register(RemoteSketch)(RemoteSketch.mixed)


@dataclass(frozen=True)
class RemoteScan(Scan):
    """A scan whose row by row part has stayed where it was made."""

    first_counts: NDArray[np.int64]
    sketch: RemoteSketch
    thresholds: Thresholds
    own: list[tuple[Any, ...]]

    def counts(self) -> NDArray[np.int64]:
        return self.first_counts

    def suspects(self, reach: int) -> Indices:
        """Asked for anew: the rows themselves are few, and nothing needs to be kept for them."""
        sketch = self.sketch
        found = sketch._ask("suspects", _suspects, self.own, (self.thresholds, reach))
        return np.concatenate([start + rows.astype(np.int64) for start, rows in zip(sketch.starts, found)])


class Marks:
    """Marks on rows, of which few are set: in place of an array of m booleans."""

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
    """Row numbers of a part in four bytes each, where they fit: the one answer that grows with the matrix."""
    return rows.astype(np.uint32) if rows.size == 0 or rows[-1] < 2**32 else rows


def _largest_of(rows: list[Any], values: list[Any], top: int) -> tuple[Any, Any]:
    """The ``top`` largest of several lists, each by falling value; of equal ones the first row."""
    some, sizes = np.concatenate(rows, axis=1), np.concatenate(values, axis=1)
    order = np.lexsort((some, -sizes), axis=1)[:, :top]
    return np.take_along_axis(some, order, axis=1), np.take_along_axis(sizes, order, axis=1)


# --- on the worker ---------------------------------------------------------------------------------------------------


class Held(Kept):
    """The sketch of some rows of a part, kept by the worker that made it.

    Where the rows are those of shards, what Dask moves to another worker is only how to make it again: the names of the
    files, the sketched space, the row numbers. A sketch of a block that nobody stores moves itself.
    """

    def __init__(self, part: Any, V: NDArray[np.float64] | None, rows: NDArray[Any] | None, sketch: Sketch) -> None:
        self.part = part if isinstance(part, Shards) else None
        self.V, self.rows = V, rows
        self.sketch: Sketch | None = sketch
        self.bytes = sum(int(array.nbytes) for part in sketch.parts for array in part[1:])

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | ({} if self.part is None else {"sketch": None})

    def get(self) -> Sketch:
        if self.sketch is None:  # it has moved
            whole = _sketch_of(self.part) if self.V is None else _sketch(self.part, self.V)
            self.sketch = whole if self.rows is None else whole.gathered(self.rows.astype(np.int64))
        return self.sketch

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.bytes


def _sketch_of(part: Any) -> Sketch:
    """The sketch of a part: itself, or the one kept beside its shards."""
    return part.get() if isinstance(part, Held) else part.kept_sketch()


def _sketch(part: Any, V: NDArray[np.float64]) -> Sketch:
    matrix: RowMatrix = part.matrix if isinstance(part, Shards) else part
    return Sketch.of(MeteredMatrix(matrix), V)


def sketched(part: Any, V: NDArray[np.float64]) -> Held:
    """The sketch of the rows of a part: shards, or a block as a matrix."""
    return Held(part, V, None, _sketch(part, V))


def _mask(sketch: Sketch, known: Indices) -> NDArray[np.bool_]:
    mask = sketch.marks()
    mask[known] = True
    return mask


def _gathered(part: Any, rows: NDArray[Any]) -> Held:
    """Of a part or of a whole sketch; those gathered are not gathered from again."""
    some = _sketch_of(part).gathered(rows.astype(np.int64))
    if isinstance(part, Held):
        return Held(part.part, part.V, rows, some)
    return Held(part, None, rows, some)


def _largest(part: Any) -> tuple[float, int]:
    sketch = _sketch_of(part)
    row = sketch.largest()
    norms = next(p.norms[row - p.start] for p in sketch.parts if p.start <= row < p.start + len(p.norms))
    return float(norms), row


def _norm_outside(part: Any, start: int, known: Indices) -> float:
    sketch = _sketch_of(part)
    return sketch.norm_outside(_mask(sketch, known))


def _scan_part(part: Any, start: int, known: Indices, thresholds: Thresholds, top: int) -> Scan:
    sketch = _sketch_of(part)
    return sketch.scan(replace(thresholds, index=thresholds.index - start), _mask(sketch, known), top)


def _scan(part: Any, start: int, known: Indices, thresholds: Thresholds, top: int) -> tuple[Any, ...]:
    scan = _scan_part(part, start, known, thresholds, top)
    rows = np.where(scan.top_rows >= 0, scan.top_rows + start, -1)
    return scan.counts(), rows, scan.top_bounds, scan.tied_bounds


def _suspects(part: Any, start: int, known: Indices, thresholds: Thresholds, reach: int) -> NDArray[Any]:
    return _short(_scan_part(part, start, known, thresholds, 1).suspects(reach))


def _mixtures(
    part: Any, start: int, known: Indices, points: NDArray[np.float64], top: int
) -> tuple[Indices, NDArray[np.float64]]:
    sketch = _sketch_of(part)
    rows, values = mixtures(sketch, points, _mask(sketch, known), top)
    return np.where(rows >= 0, rows + start, -1), values
