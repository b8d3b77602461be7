"""FAS(): SPA's anchors from an index, proved; the index is kept beside the matrix and follows its changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from .._validate import check_number, check_size
from ..anchors import Certificate
from ..errors import InvalidInputError
from ._rows import MatrixRows
from ._solver import Selection
from .fas_certify import near_or_sampled
from .fas_index import PILOT, Index, build_index, extend_index
from .fas_input import rows_of
from .fas_store import SMALL, Kept, keep, recall, renew_index
from .precondition import preconditioner
from .robust import Robust
from .spa import SPA, rank_error, successive_projection

__all__ = ["IndexedFAS"]

_SMALL_ARRAY = 1 << 21  # entries of an array on which SPA is quicker than an index that is not kept


@dataclass(frozen=True)
class IndexedFAS:
    """SPA's answer at a cost that hardly grows with the matrix, with a proof.

    The first seek on a matrix makes an index in one pass (a store brings it along): a coreset of a few hundred to a
    few thousand rows on which SPA gives SPA's answer, and bounds that prove it (:mod:`~fastanchors.solvers.fas_index`).
    Later seeks read the rows that have changed since and nothing else, unless the change is such that the
    proof breaks; then one more pass is made. Where bounds cannot tell rows apart (anchors at the level of the noise),
    full SPA goes on from the last proved anchor. The indices are those of ``SPA(tol=tol)`` whenever the
    certificate says ``"exact"``. An array is taken as it stands, in one pass, and nothing is kept.

    Parameters
    ----------
    budget : the largest number of rows to read; without one the search goes on until the answer is proved.
    precondition, robust : as in :class:`~fastanchors.SPA`, with its answers; the first SPA of
        ``precondition="spa"`` is taken from the index, all else takes the passes that SPA makes.
    tol, allow_fewer : as in :class:`~fastanchors.SPA`.
    delta : probability with which a ``"sampled"`` certificate may be wrong.
    """

    budget: int | None = None
    precondition: Literal["spa", "svd", "mve"] | None = None
    robust: str | Robust | None = None
    tol: float | None = None
    allow_fewer: bool = False
    delta: float = 0.01

    def __post_init__(self) -> None:
        if self.budget is not None:
            check_size(self.budget, name="budget")
            if self.precondition is not None or self.robust is not None:
                raise InvalidInputError("budget goes with neither precondition nor robust: these take whole passes")
        check_number(self.delta, name="delta", minimum=1e-300, maximum=0.5)
        self._spa()

    def _spa(self) -> SPA:
        return SPA(precondition=self.precondition, robust=self.robust, tol=self.tol, allow_fewer=self.allow_fewer)

    def prepare(self, A: Any) -> MatrixRows:
        """The rows of ``A``: a matrix of any kind, or the path of a store or a file."""
        return rows_of(A, one_pass=self.precondition is None and self.robust is None, small=_SMALL_ARRAY)

    def select(self, data: MatrixRows, k: int, rng: np.random.Generator) -> Selection:
        """The answer for one k."""
        found = self.select_many(data, [k], rng)
        return found if isinstance(found, Selection) else found[0]

    def select_many(
        self, data: MatrixRows, sizes: Sequence[int], rng: np.random.Generator
    ) -> Selection | list[Selection]:
        """The answer for the largest k, where the others are its beginnings; else one answer for each."""
        if self.robust is not None or self.precondition in ("svd", "mve"):
            return [self._spa()._select(data, k, rng) for k in sizes]
        if self.precondition == "spa":
            return [self._preconditioned(data, k, rng) for k in sizes]
        whole = _Seek(self, data, max(sizes), rng).run()
        if isinstance(whole, Selection):
            return whole
        assert self.budget is not None
        return near_or_sampled(data, whole, sizes, self.budget, self.delta, rng, self.tol)

    def _preconditioned(self, data: MatrixRows, k: int, rng: np.random.Generator) -> Selection:
        plain = replace(self, precondition=None)
        anchors = plain.select(data, k, rng)
        T = preconditioner("spa", data, k, anchors=data.rows(anchors.indices))
        points = data.dot(T)
        path = successive_projection(
            MatrixRows(points, points.shape), T.shape[1], tol=self.tol, allow_fewer=self.allow_fewer
        )
        return Selection(path.indices, self._spa()._certificate(path), path.residuals)


class _Seek:
    """One seek for k anchors."""

    def __init__(self, options: IndexedFAS, data: MatrixRows, k: int, rng: np.random.Generator) -> None:
        self.data, self.k, self.rng = data, k, rng
        self.tol, self.allow_fewer, self.budget = options.tol, options.allow_fewer, options.budget
        self.kept: Kept | None = None

    def run(self) -> Selection | Index | None:
        """The answer where it can be proved within the budget; else the index as far as it goes, or None."""
        m, n = self.data.shape
        keeps = self.data.sampled and hasattr(self.data.source, "watch")
        if m * n <= (SMALL if keeps else _SMALL_ARRAY) or m <= 8 * self.k:
            return self._small() if self._affords(m) else None
        if not keeps:
            if not self._affords(m + min(m, PILOT)):
                return None
            index = build_index(
                self.data, self.k, self.rng, tol=self.tol, keep=self.budget is not None, allowance=self._allowance(m)
            )
            return self._answer(index, "one pass over the rows")
        return self._from_kept()

    def _from_kept(self) -> Selection | Index | None:
        source, m = self.data.source, self.data.shape[0]
        kept = recall(source)
        how = "kept with the matrix"
        if kept is not None and kept.tol != self.tol:
            kept = None
        if kept is not None:
            pending = kept.pending(self.data).size
            if not self._affords(pending):
                return None
            kept.current(self.data)
            if pending:
                how += f"; {pending} rows that have changed were read"
        if kept is None or (kept.index.proved < self.k and not kept.index.stuck):
            if not self._affords(m + min(m, PILOT)):
                return None if kept is None else kept.index
            changes = source.watch()
            steps = self.k if kept is None else max(self.k, len(kept.index.run))
            index = renew_index(self.data, steps, self.rng, tol=self.tol, allowance=self._allowance(m))
            how = "made now from sketches"
            if index is None or (index.proved < self.k and self._affords(m + min(m, PILOT))):
                index = build_index(self.data, steps, self.rng, tol=self.tol, allowance=self._allowance(m))
                how = "made now in one pass"
            kept = keep(source, index, changes, self.tol)
        self.kept = kept
        return self._answer(kept.index, how)

    def _answer(self, index: Index, how: str) -> Selection | Index:
        """From the index; by passes of SPA beyond what it proves."""
        k, m = self.k, self.data.shape[0]
        proved = index.proved
        if proved < k:
            if self.kept is not None and k in self.kept.answers:
                return self.kept.answers[k]
            if not index.complete:
                if not self._affords((k - proved + 3) * m):
                    return index
                longer = extend_index(self.data, index, k, tol=self.tol)
                if longer is None:
                    answer = self._full("rounding could change a choice, so that bounds prove nothing")
                    if self.kept is not None:
                        self.kept.answers[k] = answer
                    return answer
                index = longer
                if self.kept is not None:
                    self.kept.index = index
        run = index.run.cut(min(k, index.proved))
        if len(run) < k and (not self.allow_fewer or len(run) == 0):
            raise rank_error(len(run), k, [])
        details: dict[str, Any] = {
            "index": how,
            "coreset": len(index.coreset),
            "proved_by_bounds": min(proved, k),
            "proved_by_passes": max(0, len(run) - proved),
        }
        if self.data.how is not None:
            details["source"] = self.data.how
        words = f"no row outside a coreset of {len(index.coreset)} can change a choice of SPA"
        if len(run) > proved:
            words = f"{words} up to anchor {proved}; from there every choice was made over all rows"
        return Selection(run.indices, Certificate("exact", f"{words} (index: {how})", details), run.residuals)

    def _small(self) -> Selection:
        """Read once, then SPA in memory."""
        rows = self.data.raw_rows(np.arange(self.data.shape[0]))
        return self._full("the matrix is small", MatrixRows(rows, rows.shape))

    def _full(self, why: str, data: MatrixRows | None = None) -> Selection:
        data = self.data if data is None else data
        path = successive_projection(data, self.k, tol=self.tol, allow_fewer=self.allow_fewer)
        details: dict[str, Any] = {"index": f"none: {why}", "largest_remaining_residual": path.remaining}
        if self.data.how is not None:
            details["source"] = self.data.how
        words = f"every choice was made over all rows: this is full SPA ({why})"
        return Selection(path.indices, Certificate("exact", words, details), path.residuals)

    def _affords(self, rows: int) -> bool:
        return self.budget is None or self.data.cost.rows_read + rows <= self.budget

    def _allowance(self, m: int) -> int | None:
        """Rows that may be read besides a pass and its pilot."""
        if self.budget is None:
            return None
        return self.budget - self.data.cost.rows_read - m - min(m, PILOT)
