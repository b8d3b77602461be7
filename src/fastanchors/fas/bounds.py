"""Bound the residual of every row from a few numbers per row, so that most rows need never be read again.

A sketch keeps, for each row a, its coordinates c = Vᵀa in a d-dimensional space that contains nearly all of the data,
and the norm of the part outside that space, l = ‖a − V·c‖. For any orthonormal Q (directions of anchors) with
G = QᵀV and ω = ‖(I − VVᵀ)·Q‖,

    ‖a − QQᵀa‖² ≤ R² + l² + 2·l·min(R, ω·‖G·c‖),    R² = ‖c‖² − ‖G·c‖²,

because V·c and a − V·c are orthogonal and ω bounds how much Q mixes them. If the anchors lie in the sketched space,
the bound equals the residual. One product of the m×d coordinates with Gᵀ bounds all rows at all steps.

The bound includes rounding: coordinates are computed in double precision, divided by ‖a‖ and kept in single precision,
and the error of that, at most about 6e-8·‖a‖, is added. Norms are kept in double precision. A scan first bounds all
rows in single precision, with its rounding error added; only the few rows this does not clear are bounded in double.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._maps import release_pages
from .._parallel import map_ordered
from .._validate import check_finite
from ..errors import InvalidTypeError
from ..matrix.array import ArrayMatrix
from ..matrix.contract import DOUBLE, SINGLE, RowMatrix, Rows
from ..matrix.metered import MeteredMatrix
from ..matrix.scaled import divided, power_of_two
from .scan_kernels import Largest, Steps, bound_rows, mark_doubtful
from .sketch import Part, empty_part, padded, relative_error, sketch_rows

__all__ = [
    "Part",
    "Scan",
    "Sketch",
    "Thresholds",
    "empty_part",
    "pass_in_cache",
    "row_space",
    "sketch_elsewhere",
    "sketch_rows",
]

_BLOCK_BYTES = 1 << 21  # a block in double precision and its coordinates stay in the cache
_SCAN_ROWS = 1 << 12  # rows bounded together: their products stay in the cache
_SCAN_CHUNK = 1 << 17  # rows per task of a thread
_FINE = 1 << 16  # largest number of rows for which small residuals are distinguished at a step every row disturbs


def pass_in_cache(data: MeteredMatrix) -> Iterator[tuple[int, Rows]]:
    """One pass in order, in blocks that stay in the cache when threads convert them to double precision."""
    m, n = data.shape
    step = max(1, _BLOCK_BYTES * m // (12 * max(data.nnz, m))) if data.is_sparse else max(64, _BLOCK_BYTES // (8 * n))
    return data.blocks(step)


def row_space(rows: Rows, dimension: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """An orthonormal basis (n×d) of nearly the leading row space of some rows.

    Uses randomised subspace iteration. d is below ``dimension`` if the other directions are only rounding. A poor basis
    costs time, not correctness.
    """
    p, n = rows.shape
    rows = rows.astype(np.float64)
    largest = float(max(rows.max(), -rows.min()))
    if largest > 0:
        rows = divided(rows, power_of_two(largest))  # neither overflows nor rounds
    width = min(p, n, dimension + 8)
    Y = np.asarray(rows.T @ rng.standard_normal((p, width)), dtype=np.float64)
    for _ in range(2):
        Q, _ = np.linalg.qr(Y)
        Y = np.asarray(rows.T @ (rows @ Q), dtype=np.float64)
    Q, _ = np.linalg.qr(Y)
    B = np.asarray(rows @ Q, dtype=np.float64)
    values, vectors = np.linalg.eigh(B.T @ B)
    d = max(1, min(dimension, int(np.count_nonzero(values > 1e-13 * values[-1]))))
    V, _ = np.linalg.qr(Q @ vectors[:, ::-1][:, :d])
    return np.ascontiguousarray(V)


@singledispatch
def sketch_elsewhere(matrix: RowMatrix, V: NDArray[np.float64]) -> Sketch:
    """The sketch of rows held by other processes; matrix types of such rows register an implementation."""
    raise InvalidTypeError(f"the rows of a {type(matrix).__name__} cannot be sketched where they are")


@dataclass(frozen=True)
class Thresholds:
    """Limits on unread rows at each of T steps, under which the anchors chosen among the rows read are SPA's.

    If its bound is at least ``low``, a row may tie with the chosen row or beat it. It still does no harm if its bound
    is at most ``high``, its norm at most ``norm``, and its index larger than ``index`` (the tie rule).
    At a step that every row disturbs, only rows with bounds of at least ``worth`` are worth reading.
    """

    basis: NDArray[np.float64]  # T × n, orthonormal: Q_t is its first t rows
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    norm: NDArray[np.float64]
    index: NDArray[np.int64]
    worth: float = 0.0

    def __len__(self) -> int:
        return len(self.low)

    def disturbed(
        self, rows: NDArray[np.int64], norms: NDArray[np.float64], bounds: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """Which rows might change which steps, given bounds on their residuals at each (rows × steps)."""
        excused = (bounds <= self.high) & (norms[:, None] <= self.norm) & (rows[:, None] > self.index)
        return np.asarray((bounds >= self.low) & ~excused)

    def with_next_step(self, worth: float = 0.0) -> Thresholds:
        """With a last step that every row disturbs: for residuals beyond the run, if it ended at zero or in doubt."""
        low, high, norm = (np.append(x, 0.0) for x in (self.low, self.high, self.norm))
        return Thresholds(self.basis, low, high, norm, np.append(self.index, 0), worth)

    def lowered(self, factor: float) -> Thresholds:
        """Thresholds multiplied by ``factor``, without exceptions for ties, so that more rows disturb them."""
        nothing = np.zeros_like(self.low)
        return Thresholds(self.basis, self.low * factor, nothing, nothing, self.index, self.worth)

    def cut(self, steps: int) -> Thresholds:
        """The thresholds of the first steps."""
        low, high, norm = (x[:steps] for x in (self.low, self.high, self.norm))
        return Thresholds(self.basis[:steps], low, high, norm, self.index[:steps])


@dataclass(frozen=True)
class Scan:
    """The result of one scan of all sketched rows.

    ``first`` is, for every row, the first step at which it might change the choice (T if none). ``top_rows`` and
    ``top_bounds`` are the rows with the largest bounds at each step, largest first (−1 if there are fewer), without
    rows excused by the tie rule. ``tied_bounds`` is the largest bound of the excused rows at each step. At a step
    that every row disturbs, the top rows are some that are worth reading, if any are.
    """

    first: NDArray[np.int16]
    top_rows: NDArray[np.int64]
    top_bounds: NDArray[np.float64]
    tied_bounds: NDArray[np.float64]

    def counts(self) -> NDArray[np.int64]:
        """The number of rows for which each step is the first that they might change."""
        T = len(self.top_rows)
        parts = (self.first[at : at + _SCAN_CHUNK] for at in range(0, len(self.first), _SCAN_CHUNK))
        return sum((np.bincount(part, minlength=T)[:T] for part in parts), np.zeros(T, dtype=np.int64))

    def suspects(self, reach: int) -> NDArray[np.int64]:
        """The rows that might change a choice before step ``reach``."""
        return np.flatnonzero(self.first < reach)


class Sketch:
    """Coordinates of all rows in the space of ``V``, and the norm of the part outside it: 4·(d + 1) + 8 bytes a row.

    Parts may be memory maps; only the pages being read are held.
    """

    def __init__(self, V: NDArray[np.float64], parts: list[Part]) -> None:
        n, d = V.shape
        self.V = V
        self.parts = parts
        self.rows = sum(len(part.norms) for part in parts)
        #: ‖c − c̃‖ in units of ‖a‖: the rounding to single precision, and that of the products
        self.slack = 1.01 * SINGLE + 2 * np.sqrt(d) * (n + 2) * DOUBLE + 1e-15

    def __sizeof__(self) -> int:
        """The size including its arrays, for code that moves objects between processes."""
        return object.__sizeof__(self) + sum(int(array.nbytes) for part in self.parts for array in part[1:])

    @classmethod
    def of(cls, data: MeteredMatrix, V: NDArray[np.float64]) -> Sketch:
        """The sketch of all rows: one pass, O(nnz·d), in the processes that hold the rows."""
        data.check(data.shape[0])
        if not data.in_process:
            return sketch_elsewhere(data.matrix, V)
        whole = empty_part(data.shape[0], V.shape[1])
        wide = padded(V) if data.is_sparse else V
        unchecked = isinstance(data.matrix, ArrayMatrix) and not data.matrix.checked

        def work(start: int, block: Rows) -> None:
            if unchecked:
                check_finite(block, first_row=start)
            sketch_rows(block, wide, whole, start)

        map_ordered(work, pass_in_cache(data))
        return cls(V, [whole])

    def gathered(self, rows: NDArray[np.int64]) -> Sketch:
        """The sketch of those rows (sorted), renumbered from 0."""
        few = empty_part(len(rows), self.V.shape[1])
        for part in self.parts:
            low, high = np.searchsorted(rows, [part.start, part.start + len(part.norms)])
            at = rows[low:high] - part.start
            few.coordinates[low:high] = part.coordinates[at]
            few.left[low:high] = part.left[at]
            few.norms[low:high] = part.norms[at]
            release_pages(part.norms)
        return Sketch(self.V, [few])

    def marks(self) -> Any:
        """A mark for every row, none set."""
        return np.zeros(self.rows, dtype=np.bool_)

    def largest(self) -> int:
        """The row of largest norm."""
        best = (-1.0, 0)
        for part in self.parts:
            best = max(best, (float(part.norms.max()), -part.start - int(part.norms.argmax())))
            release_pages(part.norms)
        return -best[1]

    def norm_outside(self, known: NDArray[np.bool_]) -> float:
        """An upper bound on the norms of the rows that are not ``known``."""
        largest = 0.0
        for part in self.parts:
            outside = ~known[part.start : part.start + len(part.norms)]
            largest = max(largest, float(part.norms[outside].max(initial=0.0)))
            release_pages(part.norms)
        return largest * (1 + 1e-9)

    def scan(self, thresholds: Thresholds, known: NDArray[np.bool_], top: int) -> Scan:
        """Bound every row that is not ``known`` at every step: O(m·d·T), no row is read."""
        n, d = self.V.shape
        T = len(thresholds)
        G = thresholds.basis[: T - 1] @ self.V  # nothing is removed at the first step
        gram = np.eye(T - 1) - G @ G.T  # of (I − VVᵀ)·Q; its leading blocks have growing spectral norms
        omega = np.zeros(T)
        for t in range(1, T):
            omega[t] = np.sqrt(max(0.0, np.linalg.eigvalsh(gram[:t, :t])[-1]) + 64 * d * DOUBLE)
        slop = 4 * (d + T + 2) * DOUBLE
        rough = _Rough(G, omega, _single_slop(n, d, T), self.slack, thresholds, fine=self.rows <= _FINE)
        first = np.full(self.rows, T, dtype=np.int16)
        limits = (thresholds.low, thresholds.high, thresholds.norm, thresholds.index)
        steps = Steps(np.ascontiguousarray(G.T), omega, *limits, slop, self.slack)

        def work(part: Part, low: int) -> Largest:
            high = min(len(part.norms), low + _SCAN_CHUNK)
            largest = Largest(np.full((T, top), -1, dtype=np.int64), np.full((T, top), -1.0), np.zeros(T))
            for at in range(low, high, _SCAN_ROWS):
                rows = part.cut(at, min(high, at + _SCAN_ROWS))
                there = slice(rows.start, rows.start + len(rows.norms))
                some = rough.doubtful(rows, known[there], largest.bounds[:, -1], first[there])
                bound_rows(some, rows, steps, first[there], largest)
            release_pages(part.norms)
            return largest

        pieces = ((part, low) for part in self.parts for low in range(0, len(part.norms), _SCAN_CHUNK))
        found = map_ordered(work, pieces)
        rows = np.concatenate([each.rows for each in found], axis=1)
        bounds = np.concatenate([each.bounds for each in found], axis=1)
        order = np.lexsort((rows, -bounds), axis=1)[:, :top]
        return Scan(
            first,
            np.take_along_axis(rows, order, axis=1),
            np.take_along_axis(bounds, order, axis=1),
            np.max([each.tied for each in found], axis=0),
        )


def _single_slop(n: int, d: int, T: int) -> float:
    """By how much 1 − ‖G·c‖² may be too small, computed in single precision for ‖c‖² + l² = 1 up to rounding.

    Each product is off by at most γ = (d + 4)·SINGLE, so ‖G·c‖² is off by 2·√T·γ + T·γ² and the rounding error of
    summing T squares. ‖c‖² + l² exceeds 1 by the rounding of c and l to single precision, and by the error of the
    values before that.
    """
    product = 1.05 * (d + 4) * SINGLE
    return 1.1 * (2 * np.sqrt(T) * product + T * product**2 + (T + 32) * SINGLE + 2 * relative_error(n, d))


class _Rough:
    """Bounds in single precision, including slop, and the rows that they do not clear."""

    def __init__(
        self,
        G: NDArray[np.float64],
        omega: NDArray[np.float64],
        slop: float,
        slack: float,
        thresholds: Thresholds,
        *,
        fine: bool,
    ) -> None:
        self.G = G.astype(np.float32)
        largest = float(thresholds.low.max())
        self.unit = largest if largest > 0 else 1.0  # the unit of thresholds and norms, so that none overflows
        # A cross term is at most ω·‖G·c‖, rounded up.
        self.omega = (omega * (1 + 1e-6)).astype(np.float32)
        self.numbers = np.array([slop, slack * (1 + 1e-6)], dtype=np.float32)
        self.every = (thresholds.low == 0) & (thresholds.high == 0)  # steps that every row disturbs
        self.bottom = int(np.argmax(np.append(self.every, True)))
        self.low = np.where(self.every, np.inf, thresholds.low)
        self.worth = np.where(self.every, thresholds.worth, 0.0)
        self.floors = np.where(self.every & (not fine), 2 * np.sqrt(slop), 0.0).astype(np.float32)

    def doubtful(
        self, rows: Part, known: NDArray[np.bool_], least: NDArray[np.float64], first: NDArray[np.int16]
    ) -> NDArray[np.int32]:
        """The places of rows that may reach a threshold, or ``least``, the smallest bound of the top rows so far."""
        # A bound is off by a few roundings. If a limit is so small that products might underflow, nothing is cleared.
        scaled = np.maximum(np.minimum(self.low, least), self.worth) / self.unit * (1 - 2e-6)
        limits = np.where(scaled > 1e-30, scaled, 0.0).astype(np.float32)
        _, C, left, norms = rows
        some = np.zeros(len(norms), dtype=np.bool_)
        slop, slack = self.numbers
        mark_doubtful(self.G @ C.T, left, norms, 1 / self.unit, self.omega, slop, slack, limits, self.floors, some)
        present = (norms > 0) & ~known
        if self.bottom < len(self.low):
            first[present] = self.bottom
        return np.flatnonzero(some & present).astype(np.int32)
