"""Rows and sketches that stay on workers, for the solvers: they ask, workers answer for their parts, this combines.

A *part* is a task whose result holds consecutive rows: some shards of a store, or a block of a Dask array. What crosses
per question is small: the few rows that were asked for, the largest bounds of each part, counts. Only where a solver
needs a number for every row (a full pass of SPA) does what crosses grow with the matrix, by 8 bytes a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..fas.bounds import Scan, Sketch, Thresholds
from ..fas.hull import mixtures
from ..matrix.contract import Rows
from ..sampling.gather import in_order
from ..solvers._rows import MatrixRows
from .blocks import as_block
from .crew import Crew, Mobile

__all__ = ["Marks", "RemoteRows", "RemoteSketch"]

Indices = NDArray[np.int64]


class RemoteRows(MatrixRows):
    """The rows of a matrix whose parts are on workers.

    Parameters
    ----------
    source : the store or the lazy matrix, with its ``shape``.
    crew, parts, starts : who works, the tasks, the first row of each part and the number of all rows.
    """

    def __init__(self, source: Any, crew: Crew, parts: list[Any], starts: list[int]) -> None:
        super().__init__(source, source.shape)
        self.crew, self.parts, self.starts = crew, parts, starts
        if not self._sampled:
            crew.cost = self._own_cost

    @property
    def terms(self) -> int:
        return self.shape[1]

    def raw_rows(self, indices: ArrayLike) -> Rows:
        indices = np.asarray(indices, dtype=np.int64)
        if self._sampled:
            self.spend(indices.size)
            return self.source.rows(indices)
        self._read(indices.size)
        asked = list(self._by_part(indices)) or [(0, np.zeros(0, np.int64))]  # no rows at all: of the right kind
        parts, own = [self.parts[p] for p, _ in asked], [(indices[at] - self.starts[p],) for p, at in asked]
        return in_order(self.crew.each("rows", _rows, parts, own), [at for _, at in asked], indices.size)

    def raw_blocks(self, step: int) -> Iterator[tuple[int, Rows]]:
        """One pass in order, part by part, through this process: for solvers that want the rows themselves."""
        self.spend(self.shape[0])
        for part, (start, stop) in zip(self.parts, pairwise(self.starts)):
            for low in range(start, stop, step):
                high = min(stop, low + step)
                self._read(high - low)
                yield low, self.crew.each("rows", _rows, [part], [(np.arange(low - start, high - start),)])[0]

    def blocks(self, *, nbytes: int = 1 << 25) -> Iterator[tuple[int, Rows]]:
        for start, block in self.raw_blocks(max(1, nbytes // (8 * self.shape[1]))):
            yield start, block.astype(np.float64, copy=False)

    def dot(self, V: NDArray[np.float64]) -> NDArray[np.float64]:
        self._read(self.shape[0])
        return np.concatenate(self.crew.each("dot", _dot, self.parts, shared=(V,)))

    def project(self, q: NDArray[np.float64]) -> NDArray[np.float64]:
        self._read(self.shape[0])
        return np.concatenate(self.crew.each("project", _project, self.parts, shared=(q,)))

    def transposed_dot(self, U: NDArray[np.float64]) -> NDArray[np.float64]:
        self._read(self.shape[0])
        own = [(U[start:stop],) for start, stop in pairwise(self.starts)]
        return np.asarray(sum(self.crew.each("transposed-dot", _transposed_dot, self.parts, own)))

    def squared_norms(self) -> NDArray[np.float64]:
        if not self._sampled or self._rounded:
            self._read(self.shape[0])
        return np.concatenate(self.crew.each("norms", _squared_norms, self.parts))

    def sketch(self, V: NDArray[np.float64]) -> RemoteSketch:
        """The sketch of all rows, each part's where the part is."""
        self._read(self.shape[0])
        kept = self.crew.keep("sketch", _sketched, self.parts, shared=(V,))
        return RemoteSketch(V, self.crew, kept, self.starts)

    def look(self, function: Callable[[Indices, Rows], Any], indices: Indices, size: int) -> list[Any]:
        """``function(row numbers, rows)`` for all those rows, ``size`` at a time, where the rows are."""
        self._read(indices.size)
        asked = list(self._by_part(indices))
        parts, own = [self.parts[p] for p, _ in asked], [(self.starts[p], indices[at]) for p, at in asked]
        return [x for each in self.crew.each("look", _look, parts, own, (function, size)) for x in each]

    def _by_part(self, indices: Indices) -> Iterator[tuple[int, Indices]]:
        """(part, places in ``indices`` of the rows it has)."""
        which = np.searchsorted(self.starts, indices, side="right") - 1
        order = np.argsort(which, kind="stable")
        for p in np.unique(which).tolist():
            low, high = np.searchsorted(which[order], [p, p + 1])
            yield p, order[low:high]

    def _read(self, rows: int) -> None:
        self.spend(rows)
        (self.source.cost if self._sampled else self._own_cost).rows_read += rows


class RemoteSketch(Sketch):
    """A sketch in parts: each bounds its rows, the largest bounds are merged here."""

    def __init__(self, V: NDArray[np.float64], crew: Crew, parts: list[Any], starts: list[int]) -> None:
        super().__init__(V, [])
        self.rows = starts[-1]
        self.crew, self.places, self.starts = crew, parts, starts

    def marks(self) -> Marks:
        return Marks()

    def gathered(self, rows: Indices) -> RemoteSketch:
        bounds = np.searchsorted(rows, self.starts)
        some = np.flatnonzero(np.diff(bounds))
        own = [(_short(rows[bounds[p] : bounds[p + 1]] - self.starts[p]),) for p in some]
        kept = self.crew.keep("near", _gathered, [self.places[p] for p in some], own)
        return RemoteSketch(self.V, self.crew, kept, [0, *bounds[some + 1].tolist()])

    def largest(self) -> int:
        found = self.crew.each("largest", _largest, self.places)
        best = max((norm, -start - row) for start, (norm, row) in zip(self.starts, found))
        return -best[1]

    def norm_outside(self, known: Any) -> float:
        return max(self.crew.each("norm-outside", _norm_outside, self.places, self._own(known)))

    def scan(self, thresholds: Thresholds, known: Any, top: int) -> RemoteScan:
        own = self._own(known)
        found = self.crew.each("bounds", _scan, self.places, own, (thresholds, top))
        rows, bounds = _largest_of([x[1] for x in found], [x[2] for x in found], top)
        counts = np.sum([x[0] for x in found], axis=0)
        tied = np.max([x[3] for x in found], axis=0)
        return RemoteScan(np.zeros(0, np.int16), rows, bounds, tied, counts, self, thresholds, own)

    def mixtures(self, points: NDArray[np.float64], known: Any, top: int) -> tuple[Indices, NDArray[np.float64]]:
        found = self.crew.each("mixtures", _mixtures, self.places, self._own(known), (points, top))
        return _largest_of([rows for rows, _ in found], [values for _, values in found], top)

    def _own(self, known: Any) -> list[tuple[Any, ...]]:
        """For each part its first row, and which of its rows are known (marks, or an array of booleans)."""
        known = known if isinstance(known, Marks) else Marks(np.flatnonzero(known))
        return [(start, known.within(start, stop)) for start, stop in pairwise(self.starts)]


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
        found = sketch.crew.each("suspects", _suspects, sketch.places, self.own, (self.thresholds, reach))
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


def _matrix(part: Any) -> MatrixRows:
    """The rows of a part, which number them from 0."""
    if hasattr(part, "matrix_rows"):
        return part.matrix_rows()
    block = as_block(part)
    return MatrixRows(block, block.shape)


class Held(Mobile):
    """The sketch of some rows of a part, kept by the worker that made it.

    Where the rows are those of shards, what Dask moves to another worker is only how to make it again: the names of the
    files, the sketched space, the row numbers. A sketch of a block that nobody stores moves itself.
    """

    def __init__(self, part: Any, V: NDArray[np.float64] | None, rows: NDArray[Any] | None, sketch: Sketch) -> None:
        self.part = part if isinstance(part, Mobile) else None
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


def _rows(part: Any, indices: Indices) -> Rows:
    return _matrix(part).raw_rows(indices)


def _dot(part: Any, V: NDArray[np.float64]) -> NDArray[np.float64]:
    return _matrix(part).dot(V)


def _project(part: Any, q: NDArray[np.float64]) -> NDArray[np.float64]:
    return _matrix(part).project(q)


def _transposed_dot(part: Any, U: NDArray[np.float64]) -> NDArray[np.float64]:
    return _matrix(part).transposed_dot(U)


def _squared_norms(part: Any) -> NDArray[np.float64]:
    return _matrix(part).squared_norms()


def _sketch(part: Any, V: NDArray[np.float64]) -> Sketch:
    return Sketch.of(_matrix(part), V)


def _sketched(part: Any, V: NDArray[np.float64]) -> Held:
    return Held(part, V, None, _sketch(part, V))


def _look(part: Any, start: int, indices: Indices, function: Callable[[Indices, Rows], Any], size: int) -> list[Any]:
    data = _matrix(part)
    pieces = (indices[at : at + size] for at in range(0, indices.size, size))
    return [function(piece, data.raw_rows(piece - start)) for piece in pieces]


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
