"""Build the index behind FAS(): a proved sequence of anchors, the rows of the proof, and bounds on all other rows.

It is built in one pass over the matrix:

1. A pilot of rows gives a basis V of nearly their row space. One pass sketches every row in it (``bounds``).
2. SPA on a small coreset gives a sequence of anchors. A scan of the sketch finds the rows that might change it.
   The most doubtful ones are read and join the coreset, and SPA runs again.
3. When reading the most doubtful rows no longer changes the sequence, all doubtful rows are read and checked exactly.

The size of the index does not grow with the matrix. It holds the coreset, the proved sequence with its thresholds, and
for each step a *tail*: an upper bound on the residual of every row outside the coreset. The sketch is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .._distinct import distinct
from .._parallel import one_blas_thread
from ..io.row_source import block_bytes
from ..matrix.contract import Rows
from ..matrix.metered import MeteredMatrix
from .bounds import Scan, Sketch, Thresholds, row_space
from .coreset import Coreset, Run, residual_bounds, squared_norms_of
from .hull import Hull, mixtures

__all__ = [
    "NARROW",
    "PILOT",
    "SPARE",
    "Index",
    "build_index",
    "index_of_sketch",
    "pilot_draws",
    "pilot_rows",
    "spare_rows",
]

PILOT = 2000  # rows read first
SPARE = 4  # dimensions of the sketch beyond the number of anchors
_JOIN = 8  # most doubtful rows per step that join the coreset in one round
_SPARES = (4, 32)  # rows per step kept beyond those the proof needs, so that small changes do not undo it
_MIXED = (8, 256)  # rows nearest to each anchor that are kept
_TRIES = 2  # rounds without another proved anchor before giving up, if more rows are in doubt than may be read
_WARM = 20_000  # number of rows from which rounds on a subset pay off
_NEAR = 0.99  # rows that reach this fraction of a threshold are in the subset
_MOST_NEAR = 1 << 25  # largest subset, so that one process can list it however large the matrix
_STANDS_OUT = 1.25  # a row is worth reading above this multiple of the largest sampled bound at the noise level
_FLAT = 1e-4  # anchors with residuals below this fraction of the first do not span a useful hull
NARROW = 0.01  # largest useful distance from the hull, as a fraction of the last residual
_CHECK_BYTES = 1 << 22  # rows checked exactly at a time, in each thread


@dataclass(frozen=True)
class Index:
    """Anchors proved equal to SPA's, and the data needed to keep the proof valid under changes.

    Attributes
    ----------
    run
        SPA on the coreset.
    proved
        Number of its leading steps that are proved to be those of full SPA.
    coreset
        Rows kept. Every row tied with a proved anchor is among them or loses the tie by its rule.
    tails
        For each step of the run, an upper bound on the residual norm of every row outside the coreset.
    norm
        An upper bound on the norms of those rows.
    rows
        Number of rows of the matrix when the index was made.
    stuck
        Bounds were tried beyond ``proved`` and could not distinguish the rows: only passes of SPA can. A proof that
        ended because no more rows could be read is not stuck.
    complete
        The residual of every row is zero after the run.
    hull
        The rows outside the coreset as mixtures of the anchors, if they nearly are.
    """

    run: Run
    proved: int
    coreset: Coreset
    tails: NDArray[np.float64]
    norm: float
    rows: int
    stuck: bool
    complete: bool = False
    hull: Hull | None = None


def build_index(
    data: MeteredMatrix,
    steps: int,
    rng: np.random.Generator,
    *,
    tol: float | None = None,
    keep: bool = True,
    pilot: int = PILOT,
    allowance: int | None = None,
) -> Index:
    """Prove as many of ``steps`` anchors as bounds can settle. Cost: one pass, O(nnz·(steps + 4)), and a few rows.

    Parameters
    ----------
    data, steps, rng
        The matrix, the number of anchors, and the generator that draws the pilot. The pilot affects which rows are
        read, never the answer.
    tol
        As in SPA.
    keep
        False omits what only later seeks need: spare rows and tails.
    pilot
        Number of rows drawn to find the sketched space.
    allowance
        Rows that may be read besides the pilot and the pass; by default a quarter of all rows.
    """
    first = pilot_rows(data, min(data.shape[0], pilot), rng)
    with one_blas_thread():
        V = row_space(first.rows, min(steps + SPARE, data.shape[1]), rng)
        sketch = Sketch.of(data, V)
    return index_of_sketch(data, sketch, first, steps, tol=tol, keep=keep, allowance=allowance)


def index_of_sketch(
    data: MeteredMatrix,
    sketch: Sketch,
    first: Coreset,
    steps: int,
    *,
    tol: float | None = None,
    keep: bool = True,
    allowance: int | None = None,
    changed: Coreset | None = None,
) -> Index:
    """Make the index from a sketch of all rows and a few initial rows.

    ``changed`` are rows whose sketch is stale: they all join the coreset.
    """
    m = data.shape[0]
    coreset = first.take(np.isin(first.indices, first.run(steps, tol=tol).indices))
    if changed is not None:
        coreset = coreset.merged(changed)
    proof = _Proof(data, sketch, coreset, steps, tol, max(4096, m // 4) if allowance is None else allowance)
    with one_blas_thread():
        proof.join(np.array([sketch.largest()]))
        proof.warm_up()
        top = spare_rows(m) + 1 if keep else _JOIN
        run, proved, checked, exact = proof.rounds(top)
        if keep:
            return proof.index(run, proved, checked, exact, top)
    return Index(run, proved, proof.coreset, np.full(len(run), np.inf), np.inf, m, proof.stuck)


def pilot_rows(data: MeteredMatrix, size: int, rng: np.random.Generator) -> Coreset:
    """Read the initial rows."""
    return Coreset.read(data, pilot_draws(data, size, rng))


def pilot_draws(data: MeteredMatrix, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw the initial rows: by squared norm if the source supports it, else uniformly."""
    if data.sampled is not None and data.sampled.frobenius_norm > 0:
        return np.asarray(data.sampled.sample_rows(size, rng=rng), dtype=np.int64)
    return rng.choice(data.shape[0], size, replace=False)


class _Proof:
    """The rounds: run SPA on the coreset, find rows that might change the run, read them."""

    def __init__(
        self, data: MeteredMatrix, sketch: Sketch, coreset: Coreset, steps: int, tol: float | None, allowance: int
    ) -> None:
        self.data, self.sketch, self.coreset, self.steps, self.tol = data, sketch, coreset, steps, tol
        self.noise = self.worth = 0.0  # residuals that bounds cannot distinguish, and the level above that
        self.known = sketch.marks()
        self.known[coreset.indices] = True
        self.allowance = allowance  # rows that are still worth reading
        self.stuck = False
        self.scan: Scan

    @property
    def room(self) -> int:
        """Number of rows that may still be read: the allowance, limited by the budget."""
        return min(self.allowance, self.data.left)

    def join(self, rows: NDArray[np.int64]) -> bool:
        """Read those rows into the coreset, up to the allowance and the memory; False if these were too small."""
        rows = distinct(rows[~self.known[rows]])
        fits = min(self.room, self.data.fitting(rows, block_bytes(self.coreset.rows)))
        enough = rows.size <= fits
        rows = rows[:fits]
        if rows.size:
            self.coreset = self.coreset.merged(Coreset.read(self.data, rows))
            self.known[rows] = True
            self.allowance -= rows.size
        return enough

    def warm_up(self) -> None:
        """Run rounds on a subset of the rows, those near a threshold, to find better candidates before the full scans.

        The noise level is estimated on a sample: there, many rows stay in doubt although those that might change the
        run were read. The scans of all rows only look for residuals above it.
        """
        if self.sketch.rows < _WARM:
            return
        some = np.arange(0, self.sketch.rows, max(2, self.sketch.rows // _WARM))
        scan = self._rounds_among(some)
        run = self._run()
        if scan is not None:
            doubtful = np.cumsum(scan.counts())[: len(run)]
            above = max(1, int(np.searchsorted(doubtful, some.size // 4, side="right")))
            if above < len(run):
                self.noise, self.worth = (
                    float(run.thresholds.low[above]),
                    _STANDS_OUT * float(scan.top_bounds[above, 0]),
                )
                run = self._run()
        if len(run) == 0:
            return
        scan = self.sketch.scan(run.thresholds.lowered(_NEAR), self.known, _JOIN)
        here = self.data.most_compared() if self.data.in_process else _MOST_NEAR  # whose sketches are copied
        most = min(self.sketch.rows // 4, _MOST_NEAR, here)
        reach = int(np.searchsorted(np.cumsum(scan.counts()), most, side="right"))
        self.join(scan.top_rows[scan.top_bounds >= run.thresholds.low[:, None]])
        if reach:
            self._rounds_among(scan.suspects(reach))

    def _run(self) -> Run:
        """SPA on the coreset, down to the noise level."""
        run = self.coreset.run(self.steps, tol=self.tol)
        return run.cut(int(np.argmin(np.append(run.thresholds.low > self.noise, False))))

    def _thresholds(self, run: Run) -> Thresholds:
        """The thresholds of a scan, with one more step if the run is shorter than ``steps``."""
        return run.thresholds if len(run) == self.steps else run.thresholds.with_next_step(self.worth)

    def _rounds_among(self, near: NDArray[np.int64]) -> Scan | None:
        """Read the most doubtful of those rows while that changes the run; return the last scan of them."""
        if near.size == 0:
            return None
        few = self.sketch.gathered(near)
        last = np.zeros(0, dtype=np.int64)
        scan = None
        while True:
            run = self._run()
            if len(run) == 0 or np.array_equal(run.indices, last):
                return scan
            last = run.indices
            places = np.searchsorted(near, run.indices, side="right") - 1
            thresholds = self._thresholds(replace(run, thresholds=replace(run.thresholds, index=places)))
            scan = few.scan(thresholds, self.known[near], _JOIN)
            if not self.join(near[scan.top_rows[scan.top_bounds >= thresholds.low[:, None]]]):
                return None

    def rounds(self, top: int) -> tuple[Run, int, NDArray[np.int64], NDArray[np.float64]]:
        """The run, its number of proved steps, the rows outside the coreset checked exactly, and their residuals."""
        run, proved, checked, exact, doubtful = self._rounds(top)
        if proved < self.steps:  # because of the noise level, or of the budget?
            self.stuck = self.allowance <= self.data.left or bool(np.any(doubtful[proved:][:1] > self.allowance))
        return run, proved, checked, exact

    def _rounds(self, top: int) -> tuple[Run, int, NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
        none = np.zeros(0, dtype=np.int64)
        last, reached, tries = none, -1, 0
        while True:
            run = self._run()
            thresholds = self._thresholds(run)
            scan = self.scan = self.sketch.scan(thresholds, self.known, top)
            doubtful = np.cumsum(scan.counts())
            proved = min(int(np.searchsorted(doubtful, 0, side="right")), len(run))
            ended = run, proved, none, np.zeros(proved), doubtful
            if proved == self.steps:
                return ended
            if proved > reached or not np.array_equal(run.indices[: proved + 1], last[: proved + 1]):
                # Reading the most doubtful rows still changes the run: continue with the next ones, unless nearly
                # every row is in doubt at the noise level and stays so.
                tries = 0 if proved > reached or doubtful[proved] <= self.room else tries + 1
                if tries == _TRIES:
                    return ended
                last, reached = run.indices, proved
                worst = scan.top_rows[:, :_JOIN]
                before = len(self.coreset)
                if not self.join(worst[scan.top_bounds[:, :_JOIN] >= thresholds.low[:, None]]):
                    return ended
                if len(self.coreset) > before:
                    continue
            reach = min(int(np.searchsorted(doubtful, self.room, side="right")), len(run))
            if reach <= proved:
                return ended
            suspects = scan.suspects(reach)
            self.allowance -= suspects.size
            winners, exact = self._check(run.cut(reach), suspects)
            if winners.size == 0:
                return run, reach, suspects, exact, doubtful
            if not self.join(winners):
                return ended

    def _check(self, run: Run, suspects: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Read the suspects. Return those that violate the run most, and the largest residual at each step."""
        T = len(run)
        per_row = 8 * (self.data.shape[1] + 3 * T)
        size = max(16, _CHECK_BYTES // per_row)

        def look(rows: NDArray[np.int64], block: Rows) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
            squared = squared_norms_of(block)
            bounds = residual_bounds(block, squared, run.thresholds.basis, T)
            bad = run.thresholds.disturbed(rows, np.sqrt(squared), bounds)
            worst = np.argsort(np.where(bad, -bounds, 0.0), axis=0, kind="stable")[:_JOIN]
            return rows[worst[np.take_along_axis(bad, worst, axis=0)]], bounds.max(axis=0)

        looks = self.data.map_rows(look, suspects, block_rows=size)
        return np.concatenate([rows for rows, _ in looks]), np.max([bounds for _, bounds in looks], axis=0)

    def index(self, run: Run, proved: int, checked: NDArray[np.int64], exact: NDArray[np.float64], top: int) -> Index:
        """Add spare rows, and bound the residuals of all other rows at every step of the run."""
        scan = self.scan  # of this run and coreset
        tails = np.maximum(scan.top_bounds[:, 0], scan.tied_bounds)[: len(run)]
        if proved:
            if checked.size:  # their exact residuals are known
                hidden = self.known.copy()
                hidden[checked] = True
                scan = self.sketch.scan(run.thresholds.cut(proved), hidden, top)
            rows = scan.top_rows[:proved, :-1]
            enough = self.join(rows[rows >= 0])
            left = scan.top_bounds[:proved, -1 if enough else 0]
            tails[:proved] = np.max([left, scan.tied_bounds[:proved], exact], axis=0)
        hull = self._hull(run.cut(proved))
        norm = self.sketch.norm_outside(self.known)
        m = self.data.shape[0]
        return Index(run, proved, self.coreset, np.maximum(tails, 0.0), norm, m, self.stuck, hull=hull)

    def _hull(self, run: Run) -> Hull | None:
        """The rows outside as mixtures of the anchors; those nearest an anchor or worst fitted join the coreset."""
        vertices = run.cut(int(np.count_nonzero(run.residuals > _FLAT * run.residuals[:1])))
        if not 1 < len(vertices) <= self.sketch.V.shape[1]:
            return None
        points = self.coreset.points(vertices.indices)
        spares = int(np.clip(self.data.shape[0] // 400, *_MIXED))
        if not self._near_hull(points, NARROW * vertices.residuals[-1]):
            return None
        rows, values = mixtures(self.sketch, points, self.known, spares + 1)
        gap = float(values[-1, -1])
        if gap > NARROW * vertices.residuals[-1]:
            return None
        wanted = rows[:, :-1][values[:, :-1] > np.append(np.full(len(points), 0.5), gap)[:, None]]
        enough = self.join(wanted)
        shares = np.maximum(values[:-1, -1 if enough else 0], 0.5)
        return Hull(points, shares, max(gap if enough else float(values[-1, 0]), 0.0))

    def _near_hull(self, points: NDArray[np.float64], gap: float) -> bool:
        """Check a few rows first, to avoid a useless scan of all rows."""
        if self.sketch.rows < _WARM:
            return True
        some = np.unique(np.linspace(0, self.sketch.rows - 1, 1000).astype(np.int64))
        _, values = mixtures(self.sketch.gathered(some), points, np.zeros(len(some), dtype=np.bool_), len(some) // 2)
        return bool(values[-1, -1] <= gap)


def spare_rows(m: int) -> int:
    """Number of spare rows per step: few for a small matrix, so that its index is small in comparison."""
    return int(np.clip(m // 4000, *_SPARES))
