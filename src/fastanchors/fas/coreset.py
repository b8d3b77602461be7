"""Run SPA on the few rows that FAS keeps in memory, and derive the conditions that all other rows must satisfy.

SPA on some of the rows equals SPA on all of them exactly if, at each step, every other row is outside the tie band of
the largest residual, or is inside and loses by the tie rule (:func:`fastanchors.solvers.choose`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._distinct import distinct
from ..greedy.reader import Reader, too_large
from ..greedy.residuals import Residuals
from ..greedy.successive import default_tolerance
from ..greedy.ties import EQUAL, TIE, choose
from ..matrix import ArrayMatrix
from ..matrix.contract import DOUBLE, Rows, squared_norms_of
from ..matrix.metered import MeteredMatrix
from .bounds import Thresholds

__all__ = [
    "Coreset",
    "Decision",
    "Run",
    "common_length",
    "decide",
    "next_choice",
    "residual_bounds",
    "squared_norms_of",
]

#: An unknown row may exceed the largest known squared residual by this fraction and still change nothing.
_EXCESS = TIE / 4
_PIECE_BYTES = 1 << 22  # rows in double precision processed at a time
#: Relative difference between a squared residual here and in full SPA (each is accurate to 1e-9).
_DOUBT = 2e-9
#: The same for squared norms, which are accurate to about 1e-14 in double precision.
_NORM_DOUBT = 1e-9


@dataclass(frozen=True)
class Decision:
    """One choice of SPA among known rows: the chosen row, the tied rows, and the limits on all other rows."""

    place: int
    low: float
    high: float
    norm: float
    tied: NDArray[np.intp]


def decide(values: NDArray[np.float64], norms: NDArray[np.float64], doubt: float) -> Decision | None:
    """SPA's choice from squared residuals with a relative error of ``doubt``; None if that error could change it.

    ``values`` holds at least every row within TIE + 4·doubt of the largest, in increasing order of index.

    Full SPA has its own rounding, and unknown rows may be tied as well, each with a residual of at most ``high``, a
    norm of at most ``norm`` and an index larger than the chosen row's. So the tie band of full SPA begins between
    ``low`` and an edge, (1 − TIE) of the largest possible residual. Rows above the edge are certainly in the band; each
    row between may or may not be. Row p is the choice for every such band if and only if

    - p is certainly in it;
    - p is as long (up to EQUAL) as the longest row that may be in it, including unknown rows: hence ``norm``;
    - no row before p that may be in it is as long (up to EQUAL) as the longest that certainly is.
    """
    largest = float(values.max())
    place = choose(values, norms)
    begin = (1 - TIE) * largest
    tied = np.flatnonzero(values >= begin * (1 - 4 * doubt))  # rows that may be in the band
    lengths = norms[tied]
    equal = 1 - EQUAL + _NORM_DOUBT

    def certain(edge: float) -> bool:
        surely = values[tied] >= edge
        if values[place] < edge or norms[place] < equal * lengths.max():
            return False
        rivals = lengths[tied < place]
        return bool((rivals < (1 - EQUAL - _NORM_DOUBT) * lengths[surely].max()).all())

    if tied.size > 1 and not certain(begin * (1 + 4 * doubt)):
        return None
    tolerant = certain(begin * (1 + _EXCESS) * (1 + 4 * doubt))
    return Decision(
        place,
        low=math.sqrt(begin * (1 - 4 * doubt)),
        high=math.sqrt(largest * (1 + _EXCESS)) if tolerant else 0.0,
        norm=math.sqrt(norms[place] / (equal + _NORM_DOUBT)) if tolerant else 0.0,
        tied=tied,
    )


@dataclass(frozen=True)
class Run:
    """SPA on the coreset: the anchors, their residuals, the rows tied with each, and the conditions on all others.

    ``exhausted`` means that the run stopped because every residual on the coreset is zero.
    """

    indices: NDArray[np.int64]
    residuals: NDArray[np.float64]
    thresholds: Thresholds
    tied: tuple[NDArray[np.int64], ...]
    exhausted: bool = False

    def __len__(self) -> int:
        return len(self.indices)

    @classmethod
    def of(
        cls,
        found: list[int],
        sizes: list[float],
        basis: NDArray[np.float64],
        decisions: list[Decision],
        tied: list[NDArray[np.int64]],
        *,
        exhausted: bool,
    ) -> Run:
        """The run from the results of its steps."""
        indices = np.array(found, dtype=np.int64)
        low, high, norm = (np.array([getattr(d, name) for d in decisions]) for name in ("low", "high", "norm"))
        return cls(indices, np.array(sizes), Thresholds(basis, low, high, norm, indices), tuple(tied), exhausted)

    def followed_by(self, other: Run) -> Run:
        """This run followed by the steps of ``other``, whose basis covers both."""
        mine, theirs = self.thresholds, other.thresholds
        names = ("low", "high", "norm", "index")
        low, high, norm, index = (np.concatenate([getattr(mine, x), getattr(theirs, x)]) for x in names)
        return Run(
            np.concatenate([self.indices, other.indices]),
            np.concatenate([self.residuals, other.residuals]),
            Thresholds(theirs.basis, low, high, norm, index),
            self.tied + other.tied,
            other.exhausted,
        )

    def cut(self, steps: int) -> Run:
        """Its first steps."""
        if steps >= len(self):
            return self
        return Run(self.indices[:steps], self.residuals[:steps], self.thresholds.cut(steps), self.tied[:steps])


class Coreset:
    """Some rows of a matrix, in increasing order of index, in the data type of the matrix."""

    def __init__(self, indices: NDArray[np.int64], rows: Rows, squared_norms: NDArray[np.float64]) -> None:
        self.indices = indices
        self.rows = rows
        self.squared_norms = squared_norms

    @classmethod
    def read(cls, data: MeteredMatrix, indices: NDArray[np.int64]) -> Coreset:
        """Those rows of ``data``, read now."""
        indices = distinct(indices).astype(np.int64)
        rows = data.rows(indices)
        squared_norms = squared_norms_of(rows)
        beyond = indices[~np.isfinite(squared_norms)]
        if beyond.size:
            raise too_large(int(beyond[0]))
        return cls(indices, rows, squared_norms)

    def __len__(self) -> int:
        return len(self.indices)

    def merged(self, other: Coreset) -> Coreset:
        """The rows of both; if both have a row, that of ``other``."""
        mine = ~np.isin(self.indices, other.indices)
        indices = np.concatenate([self.indices[mine], other.indices])
        order = np.argsort(indices)
        if sp.issparse(self.rows):
            rows = sp.vstack([self.rows if mine.all() else self.rows[mine], other.rows], format="csr")[order]
        else:  # each row is copied to its place, without a copy of all rows in between
            rows = np.empty((len(order), self.rows.shape[1]), np.result_type(self.rows, other.rows))
            rows[np.searchsorted(indices[order], self.indices[mine])] = self.rows[mine]
            rows[np.searchsorted(indices[order], other.indices)] = other.rows
        return Coreset(indices[order], rows, np.concatenate([self.squared_norms[mine], other.squared_norms])[order])

    def points(self, indices: NDArray[np.int64]) -> NDArray[np.float64]:
        """The rows with those indices, dense."""
        rows = self.rows[np.searchsorted(self.indices, indices)]
        return np.asarray(rows.toarray() if sp.issparse(rows) else rows, dtype=np.float64)

    def _point(self, place: int) -> NDArray[np.float64]:
        """One of its rows, dense; SciPy's row access would take longer than the rest of a step."""
        if not sp.issparse(self.rows):
            return np.asarray(self.rows[place], dtype=np.float64)
        entries = slice(self.rows.indptr[place], self.rows.indptr[place + 1])
        point = np.zeros(self.rows.shape[1])
        point[self.rows.indices[entries]] = self.rows.data[entries]
        return point

    def take(self, keep: NDArray[np.bool_]) -> Coreset:
        """The marked rows."""
        return Coreset(self.indices[keep], self.rows[keep], self.squared_norms[keep])

    def run(self, steps: int, *, tol: float | None = None) -> Run:
        """SPA on these rows, up to the step at which rounding could change the choice or all residuals are zero."""
        residuals = Residuals(Reader(ArrayMatrix(self.rows), self.squared_norms), steps)
        n = self.rows.shape[1]
        floor = residuals.largest_norm * (default_tolerance(n) if tol is None else tol)
        found: list[int] = []
        sizes: list[float] = []
        decisions: list[Decision] = []
        tied: list[NDArray[np.int64]] = []
        exhausted = False
        while len(found) < min(steps, len(self)):
            step = next_choice(residuals, floor)
            if isinstance(step, str):
                exhausted = step == "zero"
                break
            place, decision, near = step
            q, size = residuals.direction(self._point(place))
            residuals.remove(q)
            residuals.bar(place)
            found.append(int(self.indices[place]))
            sizes.append(size)
            decisions.append(decision)
            tied.append(self.indices[near[decision.tied]])
        return Run.of(found, sizes, residuals.basis.copy(), decisions, tied, exhausted=exhausted)


def next_choice(residuals: Residuals, floor: float) -> tuple[int, Decision, NDArray[np.intp]] | str:
    """The next row of SPA with its decision and the rows near it; or the reason why there is none.

    ``"zero"``: every residual is below the floor. ``"doubt"``: rounding could change the choice.
    """
    leaders = residuals.leaders()
    largest = float(leaders.values.max()) if leaders.rows.size else 0.0
    if largest <= floor**2 * (1 + 1e-3):
        return "zero" if largest <= floor**2 * (1 - 1e-3) else "doubt"
    # The error of projection in double precision, relative to the squared residual (see Residuals).
    doubt = _DOUBT + 16 * (residuals.reader.terms + 2) * DOUBLE * residuals.largest_norm / math.sqrt(largest)
    if doubt > TIE:
        return "doubt"
    near = residuals.leaders(within=TIE + 16 * doubt + 4 * _EXCESS)
    decision = decide(near.values, near.norms, doubt)
    if decision is None:
        return "doubt"
    return int(near.rows[decision.place]), decision, near.rows


def residual_bounds(
    rows: Rows, squared_norms: NDArray[np.float64], basis: NDArray[np.float64], steps: int
) -> NDArray[np.float64]:
    """Upper bounds, tight to about 1e-11·‖a‖, on the residual norms of some rows at each of ``steps`` steps.

    ‖a − Q_tQ_tᵀa‖² = ‖a − QQᵀa‖² + Σ_{j>t} (a·q_j)²: a sum of squares, so nothing cancels.
    """
    Q = basis[: max(steps - 1, 0)]
    return np.concatenate([_residual_bounds(rows[at], squared_norms[at], Q, steps) for at in pieces(rows.shape)])


def pieces(shape: tuple[int, int]) -> list[slice]:
    """Slices of the rows of a matrix of that shape, small enough to be made dense."""
    step = max(1, _PIECE_BYTES // (8 * shape[1]))
    return [slice(at, at + step) for at in range(0, max(1, shape[0]), step)]


def _residual_bounds(
    rows: Rows, squared_norms: NDArray[np.float64], Q: NDArray[np.float64], steps: int
) -> NDArray[np.float64]:
    dense = np.asarray(rows.toarray() if sp.issparse(rows) else rows, dtype=np.float64)
    P = dense @ Q.T
    rest = dense - P @ Q
    rest -= (rest @ Q.T) @ Q
    squares = np.concatenate([P * P, np.einsum("ij,ij->i", rest, rest)[:, None]], axis=1)
    values = np.cumsum(squares[:, ::-1], axis=1)[:, ::-1]
    error = 4 * (steps + 2) * (dense.shape[1] + 2) * DOUBLE
    norms = np.sqrt(squared_norms)[:, None]
    return np.asarray(np.minimum(np.sqrt(values) + error * norms, norms * (1 + error)))


def common_length(a: NDArray[np.int64], b: NDArray[np.int64]) -> int:
    """Length of the common prefix."""
    shortest = min(len(a), len(b))
    return int(np.argmin(np.append(a[:shortest] == b[:shortest], False)))
