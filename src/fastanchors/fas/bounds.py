"""Bounds on the residual of every row from a few numbers per row, so that most rows need never be read again.

A sketch keeps, for each row a, its coordinates c = Vᵀa in a d-dimensional space that holds nearly all of the data,
and how much of the row that space leaves out, l = ‖a − V·c‖. For any orthonormal Q (directions of anchors) with
G = QᵀV and ω = ‖(I − VVᵀ)·Q‖,

    ‖a − QQᵀa‖² ≤ R² + l² + 2·l·min(R, ω·‖G·c‖),    R² = ‖c‖² − ‖G·c‖²,

because V·c and the rest are orthogonal and what Q mixes between them passes through ω. Where the anchors lie in the
sketched space the bound is the residual itself. One product of the m×d coordinates with Gᵀ bounds all rows at all
steps.

Rounding is part of the bound: coordinates are computed in double precision, divided by ‖a‖ and kept in single, and what
that loses, at most about 6e-8·‖a‖, is added. Norms are kept in double precision. A scan bounds all rows in single
precision first, with what that may lose added in turn; only the few that this does not clear are bounded in double.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._jit import jit
from .._maps import release_pages
from .._parallel import map_ordered
from .._validate import check_finite
from ..errors import InvalidTypeError
from ..matrix.array import ArrayMatrix
from ..matrix.contract import DOUBLE, SINGLE, RowMatrix, Rows
from ..matrix.metered import MeteredMatrix
from .sketch import Part, empty_part, padded, relative_error, sketch_rows

__all__ = [
    "Part",
    "Scan",
    "Sketch",
    "Thresholds",
    "empty_part",
    "keep_largest",
    "pass_in_cache",
    "row_space",
    "sketch_elsewhere",
    "sketch_rows",
]

_BLOCK_BYTES = 1 << 21  # a block in double precision and its coordinates stay in the cache
_SCAN_ROWS = 1 << 12  # rows bounded together: their products stay in the cache
_SCAN_CHUNK = 1 << 17  # rows one thread takes at a time
_FINE = 1 << 16  # rows up to which small residuals are told apart at a step that every row disturbs


def pass_in_cache(data: MeteredMatrix) -> Iterator[tuple[int, Rows]]:
    """One pass in order, in blocks that stay in the cache when threads convert them to double precision."""
    m, n = data.shape
    step = max(1, _BLOCK_BYTES * m // (12 * max(data.nnz, m))) if data.is_sparse else max(64, _BLOCK_BYTES // (8 * n))
    return data.blocks(step)


def row_space(rows: Rows, dimension: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """An orthonormal basis (n×d) of nearly the leading row space of some rows.

    Randomised subspace iteration; d falls short of ``dimension`` where the rest is rounding. A poor basis costs
    time, never truth.
    """
    p, n = rows.shape
    rows = rows.astype(np.float64)
    largest = float(max(rows.max(), -rows.min()))
    if largest > 0:
        rows = rows * 2.0 ** -np.frexp(largest)[1]  # neither overflows nor rounds
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
    """The sketch of rows that are held by other processes; who holds them registers how it is made there."""
    raise InvalidTypeError(f"the rows of a {type(matrix).__name__} cannot be sketched where they are")


@dataclass(frozen=True)
class Thresholds:
    """What an unread row must stay below at each of T steps, for the anchors chosen among the rows that were read.

    With ``low`` ≤ bound, a row may be tied with the chosen one or beat it. It does neither harm if in addition the
    bound is at most ``high``, its norm at most ``norm``, and its index larger than ``index`` (the rule of ties).
    At a step that every row disturbs, only those with bounds of at least ``worth`` are worth reading.
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

    def and_one_more(self, worth: float = 0.0) -> Thresholds:
        """With a step at the end that every row disturbs: for what is left when nothing known is, or none can tell."""
        low, high, norm = (np.append(x, 0.0) for x in (self.low, self.high, self.norm))
        return Thresholds(self.basis, low, high, norm, np.append(self.index, 0), worth)

    def lowered(self, factor: float) -> Thresholds:
        """Those that more rows disturb: all that come within ``factor`` of the thresholds, ties included."""
        nothing = np.zeros_like(self.low)
        return Thresholds(self.basis, self.low * factor, nothing, nothing, self.index, self.worth)

    def cut(self, steps: int) -> Thresholds:
        """Those of the first steps."""
        low, high, norm = (x[:steps] for x in (self.low, self.high, self.norm))
        return Thresholds(self.basis[:steps], low, high, norm, self.index[:steps])


@dataclass(frozen=True)
class Scan:
    """What one look at all sketched rows tells.

    ``first`` is, for every row, the first step at which it might change the choice (T where none); ``top_rows`` and
    ``top_bounds`` the rows with the largest bounds at each step, largest first (−1 where there are fewer), without
    those that are excused by the rule of ties; ``tied_bounds`` the largest bound of the latter at each step. At a step
    that every row disturbs, the top rows are some that are worth reading, if any are.
    """

    first: NDArray[np.int16]
    top_rows: NDArray[np.int64]
    top_bounds: NDArray[np.float64]
    tied_bounds: NDArray[np.float64]

    def counts(self) -> NDArray[np.int64]:
        """How many rows might change the choice at each step first."""
        T = len(self.top_rows)
        return np.bincount(self.first, minlength=T)[:T]

    def suspects(self, reach: int) -> NDArray[np.int64]:
        """The rows that might change a choice before step ``reach``."""
        return np.flatnonzero(self.first < reach)


class Sketch:
    """Coordinates of all rows in the space of ``V``, with what it leaves out: 4·(d + 1) + 8 bytes a row.

    Parts may be memory maps, of which no more is held than is being looked at.
    """

    def __init__(self, V: NDArray[np.float64], parts: list[Part]) -> None:
        n, d = V.shape
        self.V = V
        self.parts = parts
        self.rows = sum(len(part.norms) for part in parts)
        #: ‖c − c̃‖ in units of ‖a‖: rounding to single precision, and that of the products
        self.slack = 1.01 * SINGLE + 2 * np.sqrt(d) * (n + 2) * DOUBLE + 1e-15

    def __sizeof__(self) -> int:
        """With its arrays: who moves objects between processes should know."""
        return object.__sizeof__(self) + sum(int(array.nbytes) for part in self.parts for array in part[1:])

    @classmethod
    def of(cls, data: MeteredMatrix, V: NDArray[np.float64]) -> Sketch:
        """The sketch of all rows: one pass, O(nnz·d), where the rows are."""
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
        """The sketch of those rows (sorted), numbered anew."""
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
        steps = _Steps(np.ascontiguousarray(G.T), omega, *limits, slop, self.slack)

        def work(part: Part, low: int) -> _Largest:
            high = min(len(part.norms), low + _SCAN_CHUNK)
            largest = _Largest(np.full((T, top), -1, dtype=np.int64), np.full((T, top), -1.0), np.zeros(T))
            for at in range(low, high, _SCAN_ROWS):
                rows = part.cut(at, min(high, at + _SCAN_ROWS))
                there = slice(rows.start, rows.start + len(rows.norms))
                some = rough.doubtful(rows, known[there], largest.bounds[:, -1], first[there])
                _scan(some, rows, steps, first[there], largest)
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


class _Steps(NamedTuple):
    """What :func:`_scan` needs to know of the steps: G, ω, the thresholds, and what rounding adds."""

    G: NDArray[np.float64]  # a column for each anchor
    omega: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    norm: NDArray[np.float64]
    row: NDArray[np.int64]
    slop: float
    slack: float


class _Largest(NamedTuple):
    """The largest bounds of each step, the rows they belong to, and the largest bound of a row that loses a tie."""

    rows: NDArray[np.int64]
    bounds: NDArray[np.float64]
    tied: NDArray[np.float64]


def _single_slop(n: int, d: int, T: int) -> float:
    """What 1 − ‖G·c‖² may be too small by, computed in single precision for ‖c‖² + l² = 1 up to rounding.

    Each of the products is off by γ = (d + 4)·SINGLE at most, so that ‖G·c‖² is off by 2·√T·γ + T·γ² and by what
    adding up T squares loses; ‖c‖² + l² exceeds 1 by what keeping c and l in single precision does, and the error of
    what they were kept from.
    """
    product = 1.05 * (d + 4) * SINGLE
    return 1.1 * (2 * np.sqrt(T) * product + T * product**2 + (T + 32) * SINGLE + 2 * relative_error(n, d))


class _Rough:
    """The bounds in single precision, slop included: which rows they do not clear."""

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
        self.unit = largest if largest > 0 else 1.0  # thresholds and norms are taken in this, so that none overflows
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
        """The places of rows that may reach a threshold, or a place among the top rows, whose ``least`` is given."""
        # A bound is off by a few roundings; where a limit is so small that products might vanish, nothing is cleared.
        scaled = np.maximum(np.minimum(self.low, least), self.worth) / self.unit * (1 - 2e-6)
        limits = np.where(scaled > 1e-30, scaled, 0.0).astype(np.float32)
        _, C, left, norms = rows
        some = np.zeros(len(norms), dtype=np.bool_)
        slop, slack = self.numbers
        _rough(self.G @ C.T, left, norms, 1 / self.unit, self.omega, slop, slack, limits, self.floors, some)
        present = (norms > 0) & ~known
        if self.bottom < len(self.low):
            first[present] = self.bottom
        return np.flatnonzero(some & present).astype(np.int32)


@jit
def _rough(
    H: Any, left: Any, norms: Any, unit: float, omega: Any, slop: Any, slack: Any, limits: Any, floors: Any, some: Any
) -> None:
    """Mark the rows with b·‖a‖ ≥ limit and b ≥ floor at some step, b = √(1 − ‖G·c‖² + 2·l·cross) + slack.

    Step by step for all rows, so that it compiles to vector instructions.
    """
    m = norms.size
    zero, one, two = np.float32(0.0), np.float32(1.0), np.float32(2.0)
    removed = np.zeros(m, dtype=np.float32)
    scaled = np.empty(m, dtype=np.float32)
    for i in range(m):
        scaled[i] = np.float32(norms[i] * unit)
    for t in range(limits.size):
        if t > 0:
            h = H[t - 1]
            for i in range(m):
                removed[i] += h[i] * h[i]
        limit, floor, w = limits[t], floors[t], omega[t]
        for i in range(m):
            l = left[i]
            whole = one - removed[i]
            whole = (whole if whole > zero else zero) + slop
            inside = whole - l * l
            inside = np.sqrt(inside if inside > zero else zero)
            cross = w * np.sqrt(removed[i] + slop)
            cross = cross if cross < inside else inside
            bound = np.sqrt(whole + two * l * cross) + slack
            some[i] |= (not bound * scaled[i] < limit) & (bound >= floor)


@jit
def _scan(some: NDArray[np.int32], rows: Part, steps: _Steps, first: NDArray[np.int16], largest: _Largest) -> None:
    """Some of the rows of a scan: the first doubtful step of each, the largest bounds of each step so far."""
    start, C, left, norms = rows
    G, omega, low, high, norm_limit, index, slop, slack = steps
    top_rows, top_bounds, tied_bounds = largest
    T, top = top_rows.shape
    d = G.shape[0]
    h = np.empty(T - 1)
    for i in some:
        norm = norms[i]
        l = np.float64(left[i])
        h[:] = 0.0
        inside = 0.0
        for j in range(d):
            c = np.float64(C[i, j])
            inside += c * c
            for t in range(T - 1):
                h[t] += c * G[j, t]
        removed = 0.0
        for t in range(T):
            if t > 0:
                removed += h[t - 1] * h[t - 1]
            squared = max(0.0, inside - removed) + slop
            # (R + l)² ≤ 2·(R² + l²): enough for many rows, and no square root
            limit = min(low[t], top_bounds[t, top - 1]) / norm - slack
            if limit > 0.0 and 2.0 * (squared + l * l) < limit * limit:
                continue
            cross = min(np.sqrt(squared), omega[t] * np.sqrt(removed))
            bound = (np.sqrt(squared + l * l + 2.0 * l * cross) + slack) * norm * (1.0 + 1e-14)
            if bound >= low[t]:
                if bound <= high[t] and norm <= norm_limit[t] and start + i > index[t]:
                    tied_bounds[t] = max(tied_bounds[t], bound)
                    continue
                first[i] = min(first[i], t)
            if bound > top_bounds[t, top - 1]:
                keep_largest(top_bounds[t], top_rows[t], bound, start + i)


@jit
def keep_largest(values: NDArray[np.float64], rows: NDArray[np.int64], value: float, row: int) -> None:
    """Put a value and its row among the largest, in descending order, in the place of the last; ties behind."""
    at = len(values) - 1
    while at > 0 and values[at - 1] < value:
        values[at] = values[at - 1]
        rows[at] = rows[at - 1]
        at -= 1
    values[at] = value
    rows[at] = row
