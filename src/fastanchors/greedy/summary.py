"""Summarise a matrix for noise-aware selection: the coordinates of a few thousand rows, whatever its height."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._parallel import one_blas_thread
from ..matrix import RowMatrix
from .anchoring import (
    ALL,
    SAMPLE,
    TIE,
    Found,
    WorkingRows,
    copies,
    find_anchors,
    spread_of_noise,
    squared_distances,
    working_rows,
)
from .coordinates import DIRECTIONS, PILOT_ENTRIES, Coordinates, Frame, Weights, block_coordinates, pilot_frame
from .extremes import Extremes, towards
from .noise import Noise, estimate_noise
from .notable import filled_rows, notable_rows
from .principal import signs_of
from .stability import Stability, no_noise, stability

__all__ = ["Evidence", "Summary", "summarise"]

_KIND_ROWS, _KIND_ENTRIES = 256, 1 << 22  # rows of a new kind that are examined, entries that are read at a time
_KIND_DIRECTIONS = 8  # directions added at a time
_NEW, _MOST = 256, 1 << 13  # changed rows, and candidates, above which only the extreme candidates are kept
_ROUNDING = 1e-13  # variance along a direction that is rounding, relative to the first

_Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Summary:
    """Rows that may be anchors and a uniform sample of all rows, in coordinates that serve every k ≤ d + 1.

    Attributes
    ----------
    rows
        Indices of these rows in the matrix, sorted.
    coordinates
        Coordinates of those rows.
    candidates, sample
        Which of them may be vertices, and which are the sample (positions in ``rows``).
    total
        Number of rows of the matrix that are not zero.
    height
        Number of rows of the matrix.
    changed
        Number of rows that have changed or were appended since directions, candidates and sample were chosen.
    answers
        Cached results, by k and rule.
    """

    rows: NDArray[np.intp]
    coordinates: Coordinates
    candidates: NDArray[np.intp]
    sample: NDArray[np.intp]
    total: int
    height: int
    changed: int = 0
    answers: dict[tuple[int, str], Found | None] = field(default_factory=dict, repr=False)

    @property
    def working(self) -> WorkingRows:
        """The rows for the selection; candidates and sample are the same object if every row is both."""
        return WorkingRows(self.candidates, self.candidates if self.complete else self.sample)

    @property
    def complete(self) -> bool:
        """Whether these are all rows that are not zero."""
        return len(self.sample) == len(self.candidates) == self.total

    @property
    def cramped(self) -> bool:
        """Whether there are no more directions because the rows were too few, and not because fewer were asked for."""
        d = self.coordinates.shape[1]
        return self.total - 1 <= d < len(self.coordinates.frame.centre) - 1

    def find(self, k: int, rule: str = "auto") -> Found | None:
        """Find anchors by a rule; indices are rows of the matrix. None if the rule is "auto" and no noise is seen."""
        if (k, rule) not in self.answers:
            found = find_anchors(self.coordinates, k, rule, working=self.working, total=self.total)
            self.answers[k, rule] = None if found is None else replace(found, indices=self.rows[found.indices])
        return self.answers[k, rule]

    def noise(self, k: int) -> Noise:
        """Estimate the noise of the sample from its residual beyond the k − 1 leading directions."""
        points, left = self.coordinates.leading(k - 1, self.sample)
        return self._noise_of(points, left)

    def scale(self, found: Found) -> _Array:
        """Factor that makes each profile as large as the rows near it: the median of their sums."""
        points, _ = self.coordinates.leading(len(found.vertices) - 1, self.sample)
        sums = self.coordinates.sums[self.sample]
        return np.array([float(np.median(sums[near])) for near in _nearest(points, found.vertices, 25)])

    def support(self, indices: NDArray[np.intp]) -> NDArray[np.intp] | None:
        """How many rows are copies of those rows; None if they are not among the rows kept."""
        known = self.places(indices)
        return None if known is None else self.copies(known[0])

    def copies(self, vertices: _Array) -> NDArray[np.intp]:
        """How many rows are copies of k points in the k − 1 leading coordinates, at least those that are kept."""
        points, left = self.coordinates.leading(len(vertices) - 1, self.sample)
        found = copies(points, self._noise_of(points, left), vertices, self.total)
        if self.complete:
            return found
        points, left = self.coordinates.leading(len(vertices) - 1)
        return np.maximum(found, copies(points, self._noise_of(points, left), vertices, len(points)))

    def places(self, indices: NDArray[np.intp]) -> tuple[_Array, _Array] | None:
        """Those k rows in the k − 1 leading coordinates, and their sums; None if they are not among the rows kept."""
        at = np.minimum(np.searchsorted(self.rows, indices), len(self.rows) - 1)
        if not np.array_equal(self.rows[at], indices) or len(indices) - 1 > self.coordinates.shape[1]:
            return None
        return self.coordinates.leading(len(indices) - 1, at)[0], self.coordinates.sums[at]

    def places_of(self, rows: Any) -> tuple[_Array, _Array]:
        """The same for any k rows."""
        values, _, sums = block_coordinates(0, rows, self.coordinates.frame)
        return values[:, : len(values) - 1].astype(np.float64), sums

    def _noise_of(self, points: NDArray[np.float64], left: NDArray[np.float64]) -> Noise:
        frame = self.coordinates.frame
        return estimate_noise(points, left, len(frame.centre), frame.rounding)

    def with_rows(self, changed: NDArray[np.intp], read: Callable[[NDArray[np.intp]], Any], height: int) -> Summary:
        """The summary after those rows have changed or were appended; ``read`` returns their current content.

        Changed rows become candidates; appended rows enter the sample in proportion.
        """
        old = self.coordinates
        step = max(256, _KIND_ENTRIES // len(old.frame.centre))
        pieces = [changed[i : i + step] for i in range(0, len(changed), step)]
        blocks = [block_coordinates(0, read(piece), old.frame) for piece in pieces]
        at, left, sums = (np.concatenate(arrays) for arrays in zip(*blocks))
        stay = ~np.isin(self.rows, changed)
        rows = np.concatenate([self.rows[stay], changed])
        order = np.argsort(rows, kind="stable")
        rows = rows[order]
        pairs: list[tuple[Any, Any]] = [(old.values, at), (old.left, left), (old.sums, sums)]
        merged = [np.concatenate([before[stay], now])[order] for before, now in pairs]
        full = merged[2] > 0
        step = 1 if self.complete else max(1, round(self.total / max(1, len(self.sample))))
        new = np.isin(rows, changed)
        sampled = np.isin(rows, self.rows[self.sample]) | (
            new & ((rows >= self.height) | self.complete) & (rows % step == 0)
        )
        candidates = np.isin(rows, self.rows[self.candidates]) | new
        total = int(full.sum()) if self.complete else self.total + height - self.height
        return Summary(
            rows,
            Coordinates(old.frame, merged[0], merged[1], merged[2]),
            np.flatnonzero(candidates & full),
            np.flatnonzero(sampled & full),
            total,
            height,
            self.changed + len(changed),
        )

    def thinned(self, new: int) -> Summary:
        """The same with the extreme ones of the candidates only, if ``new`` rows have made them many.

        A sample that has grown gets its usual size, and so does that of a matrix of which all rows were kept.
        """
        at, candidates, sample = self.coordinates, self.candidates, self.sample
        if self.complete:
            if len(candidates) <= 2 * ALL:
                return self
            working = working_rows(at)
            candidates, sample = working.candidates, working.sample
        elif new > _NEW or len(candidates) > _MOST:
            extremes = Extremes(towards(at.values[sample]))
            extremes.look(at.values[candidates], spread_of_noise(at.frame, at.left[candidates]), candidates)
            candidates = extremes.rows()
            if len(sample) > 1.25 * SAMPLE:
                sample = np.sort(np.random.default_rng(0).choice(sample, SAMPLE, replace=False))
        else:
            return self
        kept = np.union1d(candidates, sample)
        at = Coordinates(at.frame, at.values[kept], at.left[kept], at.sums[kept])
        places = [np.searchsorted(kept, some) for some in (candidates, sample)]
        return replace(self, rows=self.rows[kept], coordinates=at, candidates=places[0], sample=places[1], answers={})

    def missed_directions(self, rows: NDArray[np.intp], read: Callable[[NDArray[np.intp]], Any]) -> _Array:
        """Directions that those rows would add if the coordinates were computed again, n × r.

        They are the principal directions of the residuals whose variance, averaged over all rows, exceeds the variance
        along the last direction. The two largest residuals do not count: a kind has at least three rows. Reads at most
        a few hundred of the rows.
        """
        frame = self.coordinates.frame
        most = max(16, min(_KIND_ROWS, _KIND_ENTRIES // len(frame.centre)))
        rest = frame.beyond(read(rows[:: -(-len(rows) // most)]))
        rest -= (rest @ frame.directions) @ frame.directions.T  # again, for orthogonality to rounding
        squares, turned = np.linalg.eigh(rest @ rest.T)
        squares, turned = squares[::-1][:_KIND_DIRECTIONS], turned[:, ::-1][:, :_KIND_DIRECTIONS]
        shared = np.sort(turned**2, axis=0)[:-2].sum(axis=0) * np.maximum(squares, 0.0)
        gained = shared * (len(rows) / len(rest)) / max(1, self.total)
        known = self._variances(rows)
        found = gained > max(known[-1], _ROUNDING * known[0])
        return np.asarray(rest.T @ (turned[:, found] / np.sqrt(squares[found])))

    def with_directions(self, new: _Array, rows: NDArray[np.intp], read: Callable[[NDArray[np.intp]], Any]) -> Summary:
        """The summary with new directions for those of its rows, in place of the last ones.

        The directions are the principal ones of the space of old and new directions: variances of the other rows along
        the old directions, plus the second moments of those rows. Reads all rows of the summary.
        """
        at, frame = self.coordinates, self.coordinates.frame
        n, d = frame.directions.shape
        step, only_new = max(256, _KIND_ENTRIES // n), replace(frame, directions=new)
        starts = range(0, len(self.rows), step)
        along = [block_coordinates(0, read(self.rows[i : i + step]), only_new)[0] for i in starts]
        values = np.hstack([at.values, np.concatenate(along)]).astype(np.float64)
        left = at.left - np.einsum("ij,ij->i", values[:, d:], values[:, d:])
        special = values[np.isin(self.rows, rows)]
        known = np.minimum.accumulate(self._variances(rows))  # keeps the order of the old directions
        second = np.diag(np.append(known, np.full(new.shape[1], known[-1]))) + special.T @ special / max(1, self.total)
        turn = np.linalg.eigh(second)[1][:, ::-1]
        turn = turn * signs_of(np.hstack([frame.directions, new]) @ turn)
        values = values @ turn
        left += np.einsum("ij,ij->i", values[:, d:], values[:, d:])
        directions = np.hstack([frame.directions, new]) @ turn[:, :d]
        frame = replace(frame, directions=directions, rank=min(d, frame.rank + new.shape[1]))
        at = Coordinates(frame, values[:, :d].astype(np.float32), np.maximum(left, 0.0), at.sums)
        return replace(self, coordinates=at, answers={})

    def _variances(self, without: NDArray[np.intp]) -> _Array:
        """Variance along each direction of the sampled rows, without some rows of the matrix."""
        sample = self.sample[~np.isin(self.rows[self.sample], without)]
        return np.asarray(np.mean(self.coordinates.values[sample].astype(np.float64) ** 2, axis=0))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays to store in a file."""
        frame = self.coordinates.frame
        return {
            "rows": self.rows.astype(np.int64),
            "values": self.coordinates.values,
            "left": self.coordinates.left,
            "sums": self.coordinates.sums,
            "candidates": self.candidates.astype(np.int64),
            "sample": self.sample.astype(np.int64),
            "numbers": np.array([self.total, self.height, frame.rank, self.changed], dtype=np.int64),
            "shares": np.array([frame.exponent, frame.zeros]),
            "centre": frame.centre,
            "scale": frame.scale,
            "directions": frame.directions,
        }

    @classmethod
    def load(cls, arrays: Any) -> Summary:
        """Load from a file; raises ``ValueError`` or ``KeyError`` if its arrays are inconsistent."""
        a = {name: np.asarray(arrays[name]) for name in arrays}
        exponent, zeros = (float(x) for x in a["shares"])
        total, height, rank, *changed = (int(x) for x in a["numbers"])
        frame = Frame(a["centre"], a["scale"], a["directions"], exponent, rank, zeros)
        at = Coordinates(frame, a["values"], a["left"], a["sums"])
        places = [a[name].astype(np.intp) for name in ("rows", "candidates", "sample")]
        summary = cls(places[0], at, places[1], places[2], total, height, sum(changed))
        summary._check()
        return summary

    def _check(self) -> None:
        """Raise ``ValueError`` if lengths, positions or numbers are not those of a summary."""
        at, frame, m = self.coordinates, self.coordinates.frame, len(self.rows)
        n, d = frame.directions.shape
        shapes: list[Any] = [(self.rows, (m,)), (at.values, (m, d)), (at.left, (m,)), (at.sums, (m,))]
        if any(array.shape != shape for array, shape in [*shapes, (frame.centre, (n,)), (frame.scale, (n,))]):
            raise ValueError("its arrays have other lengths than its rows")
        numbers: list[Any] = [at.values, at.left, at.sums, frame.centre, frame.scale, frame.directions, frame.exponent]
        if not all(np.isfinite(array).all() for array in numbers):
            raise ValueError("its coordinates are not finite")
        for places, end in ((self.rows, self.height), (self.candidates, m), (self.sample, m)):
            if places.ndim != 1 or not places.size or not 0 <= places.min() <= places.max() < end:
                raise ValueError("it names rows that there are not")
        in_order = bool((np.diff(self.rows) > 0).all())
        used = max(len(self.candidates), len(self.sample))  # of the rows, some may have become zero
        numbers_fit = used <= self.total <= self.height and m <= self.height and 0 <= frame.rank <= d
        if not in_order or not numbers_fit or self.changed < 0:
            raise ValueError("its numbers of rows are not those of a matrix")


def _nearest(points: _Array, places: _Array, count: int) -> list[NDArray[np.intp]]:
    """The ``count`` points nearest to each place, and all that are equally near: no choice among copies.

    Distances from products of points are wrong by less than a tie; those that matter are computed again.
    """
    tie, at = TIE * np.abs(points).max(initial=0.0), min(count, len(points)) - 1
    found = []
    for place, rough in zip(places, np.sqrt(squared_distances(places, points))):
        near = np.flatnonzero(rough <= np.partition(rough, at)[at] + 3 * tie)
        distances = np.linalg.norm(points[near] - place, axis=1)
        found.append(near[distances <= np.partition(distances, at)[at] + tie])
    return found


@dataclass
class Evidence:
    """The data from which the stability of a result is computed on request.

    Without noise there is no ``found``, but the ``places`` of SPA's rows in the leading coordinates; ``scale`` is then
    None if the rows were divided by their sums, else their sums.
    """

    summary: Summary
    found: Found | None
    rule: str
    scale: _Array | None
    support: NDArray[np.intp]
    places: _Array | None = None
    _known: Stability | None = None

    @property
    def stability(self) -> Stability:
        if self._known is None:
            at, working = self.summary.coordinates, self.summary.working
            with one_blas_thread():  # many small products
                if self.found is not None:
                    self._known = stability(at, self.found, working, rule=self.rule, scale=self.scale)
                else:
                    assert self.places is not None
                    self._known = no_noise(at, self.places, working, support=self.support, sums=self.scale)
        return self._known


@one_blas_thread()  # many small products, and sums whose order must not depend on the number of threads
def summarise(
    matrix: RowMatrix,
    directions: int = DIRECTIONS,
    *,
    weights: Weights = "auto",
    pilot_entries: int = PILOT_ENTRIES,
    pilot_rows: int = PILOT_ENTRIES,
    most_drawn: int = sys.maxsize,
) -> Summary:
    """Summarise the coordinates of all rows: a pilot, then one pass, run where the rows are stored.

    Each part of a large matrix returns only its extreme rows and its sampled rows, whatever its height. Raises if any
    entry is negative.
    """
    frame, pilot, filled = pilot_frame(
        matrix, directions, weights=weights, pilot_entries=pilot_entries, pilot_rows=pilot_rows
    )
    m = matrix.shape[0]
    if m > ALL:
        notable = notable_rows(matrix, frame, pilot, filled, most_drawn=most_drawn)
        if notable.filled > ALL:
            places = [np.searchsorted(notable.rows, some) for some in (notable.extremes.rows(), notable.sample())]
            return Summary(notable.rows, notable.coordinates(frame), places[0], places[1], notable.filled, m)
    parts = matrix.map_blocks(filled_rows, frame)
    rows, values, left, sums = (np.concatenate([part[i] for part in parts]) for i in range(4))
    every = np.arange(len(rows))
    return Summary(rows, Coordinates(frame, values, left, sums), every, every, len(rows), m)
