"""Seek SPA's anchors with FAS(): proved by an index that is kept with the matrix and updated when rows change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._cached import cached
from .._rng import as_generator
from .._validate import check_number, check_size, total_memory
from ..anchors import Certificate, Selection
from ..greedy.reader import Reader
from ..greedy.successive import certified, rank_error, successive_projection
from ..greedy.view_rounding import view_doubts
from ..matrix import ArrayMatrix, Mutable, RowMatrix, open_matrix
from ..matrix.array import LoadedMatrix
from ..matrix.metered import BudgetExceeded, MeteredMatrix
from .certificate import FEWEST, near_or_sampled, of_prefix
from .changes import without
from .index import PILOT, Index, build_index
from .lazy_index import extend_index, lazy_index
from .sidecar import SMALL, Kept, keep, mutable, noisy, recall, renew_index, some_rows

__all__ = ["IndexedFAS"]

_SMALL_ARRAY = 1 << 21  # entries of an array on which SPA is faster than an index that is not kept
_FEW_OF = 64  # the budget must cover one in this many rows, so that using all norms pays off
_LEAST = 32  # rows per anchor that the engine needs if the budget does not allow a pass
_LEAST_PILOT = 4  # rows per anchor that the pilot of a pass needs


@dataclass(frozen=True)
class IndexedFAS:
    """SPA's answer with a proof, at a cost that hardly grows with the matrix.

    The first seek on a matrix makes an index in one pass (a store already contains it): a coreset of a few hundred to
    a few thousand rows on which SPA gives the answer of full SPA, and bounds that prove it
    (:mod:`~fastanchors.fas.index`). Later seeks read only the rows that have changed since. If the changes break the
    proof, one more pass is made. If bounds cannot distinguish rows (anchors at the noise level), full SPA continues
    from the last proved anchor. The indices are those of ``SPA(tol=tol)`` whenever the certificate says ``"exact"``.
    An array is used as it is, in one pass, and nothing is kept.

    Parameters
    ----------
    budget
        The largest number of rows to read; without one the search continues until the answer is proved. The answer is
        the best that this many rows allow, with fewer than k anchors if they support no more. The certificate states
        what could not be settled. Rows that are not read are not checked: they may contain a NaN. A file that can only
        be read from its beginning, such as a text table, is read up to the budget; its rows count once.
    tol, allow_fewer
        As in :class:`~fastanchors.SPA`.
    delta
        Probability that a ``"sampled"`` certificate is wrong.
    """

    budget: int | None = None
    tol: float | None = None
    allow_fewer: bool = False
    delta: float = 0.01

    def __post_init__(self) -> None:
        if self.budget is not None:
            check_size(self.budget, name="budget")
        check_number(self.delta, name="delta", minimum=1e-300, maximum=0.5)

    def prepare(self, A: Any) -> MeteredMatrix:
        """The rows of ``A``: a matrix of any kind, or the path of a store or a file."""
        return MeteredMatrix(open_matrix(A, checked=False, budget=self.budget), self.budget)

    def select(self, data: MeteredMatrix, k: int, rng: np.random.Generator | None) -> Selection:
        """The answer for one k."""
        found = self.select_many(data, [k], rng)
        return found if isinstance(found, Selection) else found[0]

    def select_many(
        self, data: MeteredMatrix, sizes: Sequence[int], rng: np.random.Generator | None
    ) -> Selection | list[Selection]:
        """The answer for the largest k if the others are its prefixes; else one answer for each k."""
        if isinstance(data.matrix, LoadedMatrix) and data.matrix.rows_in_file is not None:
            return of_prefix(data, sizes, budget=self.budget, tol=self.tol)
        seek = _Seek(self, data, max(sizes), rng)
        try:
            whole = seek.run()
        except BudgetExceeded:  # by an unforeseen cost, such as very many ties
            whole = None if seek.kept is None else seek.kept.index
        if isinstance(whole, Selection):
            return whole
        assert self.budget is not None
        return near_or_sampled(data, whole, sizes, self.delta, seek.rng, tol=self.tol, note=seek.note)


class _Seek:
    """One seek for k anchors."""

    def __init__(self, options: IndexedFAS, data: MeteredMatrix, k: int, rng: np.random.Generator | None) -> None:
        self.data, self.k, self._rng = data, k, rng
        self.tol, self.allow_fewer = options.tol, options.allow_fewer
        self.kept: Kept | None = None
        self.note: str | None = None  # an additional statement for the certificate

    @cached
    def rng(self) -> np.random.Generator:
        """The random generator."""
        return as_generator(self._rng)

    def run(self) -> Selection | Index | None:
        """The answer if it can be proved within the budget; else the index as far as it was built, or None."""
        m, n = self.data.shape
        keeps = isinstance(self.data.matrix, Mutable)
        if m * n <= (SMALL if keeps else _SMALL_ARRAY) or m <= 8 * self.k:
            return self._full("the matrix is small", self._at_hand()) if m <= self.data.left else None
        if not keeps and self.data.in_process and self.data.budget is None and not _beyond_memory(self.data.matrix):
            return self._full("nothing is kept with an array")
        if keeps:
            found = self._from_kept()
            # More anchors than a pilot can supply: there is no index, and the engine answers.
            return self._full("too many anchors for an index") if found is None and self.data.budget is None else found
        index = self._in_one_pass(self.k, keep=self.data.budget is not None)
        return None if index is None else self._answer(index, "one pass over the rows")

    def _from_kept(self) -> Selection | Index | None:
        source = mutable(self.data)
        kept = recall(source, self.tol)
        how = "kept with the matrix"
        if kept is not None:
            pending = kept.pending(self.data)
            if pending.size and not len(kept.index.run):
                kept = None  # without steps it says nothing about other rows
            elif pending.size > self.data.left:
                return self._with_some_unread(kept, pending)
            elif pending.size:
                kept = keep(source, kept.current(self.data))
                how += f"; {pending.size} rows that have changed were read"
        if kept is None or (kept.index.proved < self.k and not kept.index.stuck):
            cursor = source.cursor
            steps = self.k if kept is None else max(self.k, len(kept.index.run))
            index = renew_index(self.data, steps, self.rng, tol=self.tol)
            made = "made now from sketches"
            if index is None or index.proved < self.k:
                index, made = self._made_now(steps) or (index, made)
            if index is not None and (kept is None or index.proved > kept.index.proved):
                kept, how = keep(source, Kept(index, cursor, self.tol)), made
            elif index is not None and kept is not None:  # no better; ``stuck`` says whether only passes can prove more
                kept = keep(source, replace(kept, index=replace(kept.index, stuck=index.stuck)))
        self.kept = kept
        return None if kept is None else self._answer(kept.index, how)

    def _made_now(self, steps: int) -> tuple[Index, str] | None:
        """An index made now, and how; None if the budget is too small.

        The engine makes it if the rows are noisy and cheap to read, or if a pass exceeds the budget and norms are
        known: it starts with the largest and may need few rows. One pass is better for rows that are too many to read
        twice or have a hull.
        """
        data, m = self.data, self.data.shape[0]
        if data.budget is None and data.at_hand and noisy(data.shape, lambda: data.rows(some_rows(m))):
            return lazy_index(data, steps, tol=self.tol), "made now by the engine"
        index = self._in_one_pass(steps)
        if index is not None:
            return index, "made now in one pass"
        if not data.norms_known or not data.in_process or data.left < max(m // _FEW_OF, _LEAST * steps):
            return None
        part = MeteredMatrix(data.matrix, data.left // 2)  # the other half is for draws
        index = lazy_index(part, steps, tol=self.tol)
        return (index, "made now by the engine") if index.proved else None

    def _in_one_pass(self, steps: int, *, keep: bool = True) -> Index | None:
        """An index made now; None if the budget does not cover a pass, a pilot and as many doubtful rows."""
        m = self.data.shape[0]
        pilot = min(m, PILOT, (self.data.left - m) // 2)
        if pilot < min(m, _LEAST_PILOT * steps):
            return None
        return build_index(self.data, steps, self.rng, tol=self.tol, keep=keep, pilot=pilot)

    def _with_some_unread(self, kept: Kept, pending: NDArray[np.int64]) -> Selection | Index:
        """If more rows have changed than may be read, read those that matter most and bound the others by their norms.

        A quarter of the budget is reserved for fresh draws if that is enough for a statement: they are more
        informative if the bounds are weak.
        """
        norms = np.asarray(mutable(self.data).row_norm(pending)) * (1 + 1e-6)
        known = np.isin(pending, kept.index.coreset.indices)
        order = np.lexsort((-norms, ~known))
        quarter = self.data.left // 4
        most = self.data.left - (quarter if quarter >= FEWEST else 0)
        some, others = np.sort(order[:most]), np.sort(order[most:])
        kept = keep(self.data.matrix, kept.take_in(self.data, pending[some]))
        index = without(kept.index, pending[others], norms[others], self.k, tol=self.tol)
        self.note = f"{others.size} of {pending.size} rows that have changed were not read"
        if index.proved < self.k:
            return index
        return self._answer(index, f"kept with the matrix; {self.note}, their norms are too small to matter")

    def _answer(self, index: Index, how: str) -> Selection | Index:
        """The answer from the index, continued by passes of SPA beyond what it proves."""
        k, m = self.k, self.data.shape[0]
        proved = index.proved
        if proved < k:
            if self.kept is not None and k in self.kept.answers:
                return self._enough(self.kept.answers[k])
            if not index.complete:
                longer = self._extended(index)
                if longer is None:
                    if (k + 2) * m > self.data.left:
                        return index
                    answer = self._full("rounding could change a choice, so that bounds prove nothing")
                    if self.kept is not None:
                        self.kept.answers[k] = answer
                    return answer
                index = longer
                if self.kept is not None:
                    self.kept = keep(self.data.matrix, replace(self.kept, index=index))
                if index.proved < k and not index.complete:
                    return index
        run = index.run.cut(min(k, index.proved))
        base: dict[str, Any] = {"index": how, "coreset": len(index.coreset)}
        doubts = self._view_doubts(run.residuals, lambda: index.coreset.points(run.indices))
        by_bounds = f"no row outside a coreset of {len(index.coreset)} can change a choice of SPA"
        by_passes = f"{by_bounds} up to anchor {proved}; from there every choice was made over all rows (index: {how})"
        by_bounds = f"{by_bounds} (index: {how})"

        def prefix_certificate(k: int) -> Certificate:
            shares = {"proved_by_bounds": min(proved, k), "proved_by_passes": max(0, k - proved)}
            return certified(doubts[:k], by_bounds if k <= proved else by_passes, base | shares)

        return self._enough(
            Selection(run.indices, prefix_certificate(len(run)), run.residuals, prefix_certificate=prefix_certificate)
        )

    def _enough(self, answer: Selection) -> Selection:
        """The answer, if it has as many anchors as requested or fewer are allowed; else raise."""
        found = len(np.asarray(answer.indices))
        if found < self.k and (not self.allow_fewer or found == 0):
            raise rank_error(found, self.k, [])
        return answer

    def _extended(self, index: Index) -> Index | None:
        """Extend the index by passes of SPA, as far as the budget allows; None if only full SPA can decide."""
        try:
            return extend_index(self.data, index, self.k, tol=self.tol)
        except BudgetExceeded:
            return index

    def _view_doubts(
        self, residuals: NDArray[np.float64], points: Callable[[], NDArray[np.float64]]
    ) -> Sequence[float]:
        """Which choices the rounding of the view itself may have made."""
        return view_doubts(residuals, points).tolist() if self.data.rounded else [0.0] * len(residuals)

    def _at_hand(self) -> RowMatrix:
        """A small matrix in memory, read once."""
        data = self.data
        if not isinstance(data.matrix, ArrayMatrix):
            return ArrayMatrix(data.rows(np.arange(data.shape[0])))
        data.check(data.shape[0])
        data.matrix.cost.rows_read += data.shape[0]
        return ArrayMatrix(data.matrix.data, checked=data.matrix.checked)

    def _full(self, why: str, matrix: RowMatrix | None = None) -> Selection:
        """The answer of the engine, over all rows."""
        reader = Reader(self.data if matrix is None else matrix)
        path = successive_projection(reader, self.k, tol=self.tol, allow_fewer=self.allow_fewer)
        base: dict[str, Any] = {"index": f"none: {why}"}
        words = f"every choice was made over all rows: this is full SPA ({why})"
        remaining = [*path.residuals, path.remaining]
        ours = self._view_doubts(np.array(path.residuals), lambda: path.points)
        doubts = [max(each) for each in zip(path.doubts, ours)]

        def prefix_certificate(k: int) -> Certificate:
            return certified(doubts[:k], words, base | {"largest_remaining_residual": remaining[k]})

        certificate = prefix_certificate(len(path.indices))
        return Selection(path.indices, certificate, path.residuals, prefix_certificate=prefix_certificate)


def _beyond_memory(matrix: RowMatrix) -> bool:
    """Whether every pass reads the rows from disk because the file is too large for the system's page cache."""
    if not isinstance(matrix, ArrayMatrix) or not matrix.on_disk:
        return False
    return bool(matrix.data.nbytes > total_memory() // 2)
