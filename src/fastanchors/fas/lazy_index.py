"""Build or extend the index of FAS() by the lazy engine: no sketch, and rows that matter may be read more than once."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..greedy.lazy import level
from ..greedy.reader import Reader
from ..greedy.residuals import Residuals
from ..greedy.successive import default_tolerance
from ..io.row_source import block_bytes
from ..matrix.metered import BudgetExceeded, MeteredMatrix
from .coreset import Coreset, Decision, Run, next_choice
from .index import Index, spare_rows

__all__ = ["extend_index", "lazy_index"]


def lazy_index(data: MeteredMatrix, steps: int, *, tol: float | None = None) -> Index:
    """Make the index in one run of the lazy engine: no sketch, no hull; rows that matter are read more than once.

    Cheap if norms are known and rows are cheap to read. Stops if rounding could change a choice, or if the budget or
    the memory for rows ends.
    """
    n = data.shape[1]
    nothing = Coreset(np.zeros(0, np.int64), data.rows(np.zeros(0, np.int64)), np.zeros(0))
    run = Run.of([], [], np.zeros((0, n)), [], [], exhausted=False)
    return _extended(data, Index(run, 0, nothing, np.zeros(0), np.inf, data.shape[0], False), steps, tol)[0]


def extend_index(data: MeteredMatrix, index: Index, steps: int, *, tol: float | None = None) -> Index | None:
    """Continue from the proved prefix with full SPA: one pass for the norms, and reads of rows that may matter.

    With a budget, goes as far as it allows and starts no step that it cannot finish. None if rounding could change a
    choice: then only SPA itself can determine its choice.
    """
    longer, doubtful = _extended(data, index, steps, tol)
    return None if doubtful else longer


def _extended(data: MeteredMatrix, index: Index, steps: int, tol: float | None) -> tuple[Index, bool]:
    """The extended index, and whether it ended because rounding could change the next choice."""
    run = index.run.cut(index.proved)
    basis = run.thresholds.basis[: len(run)]
    if not data.norms_known and 2 * data.shape[0] > data.left:
        return index, False
    residuals = Residuals(Reader(data), steps)
    floor = residuals.largest_norm * (default_tolerance(data.shape[1]) if tol is None else tol)
    for q in basis:
        residuals.remove(q)
    residuals.bar(run.indices)
    coreset = index.coreset
    outside = np.ones(data.shape[0], dtype=np.bool_)
    outside[coreset.indices] = False
    found: list[int] = []
    sizes: list[float] = []
    decisions: list[Decision] = []
    tied: list[NDArray[np.int64]] = []
    ends: list[float] = []
    spares: list[NDArray[np.intp]] = []  # rows that join the coreset, read together if there is no budget
    held = block_bytes(coreset.rows)
    exhausted = doubtful = False
    q = np.zeros(0)
    while len(run) + len(found) < steps:
        try:
            if found:
                residuals.remove(q)
            step = next_choice(residuals, floor)
            if isinstance(step, str):
                exhausted, doubtful = step == "zero", step == "doubt"
                break
            place, decision, near = step
            rows, upper, others = residuals.front(outside)
            ties = near[decision.tied][outside[near[decision.tied]]]
            held += decision.tied.nbytes
            if decision.tied.size > data.most_compared(held) or data.fitting(ties, held) < ties.size:
                break
            spare = np.setdiff1d(rows[_largest(upper, spare_rows(data.shape[0]))], ties)
            share = (len(run) + len(found) + 1) / steps  # so that later steps have room too
            spare = np.union1d(ties, spare[: data.fitting(spare, held + data.weight(ties), share)])
            held += data.weight(spare)
            q, size = residuals.direction(residuals.reader.row(place))
            if data.budget is not None:  # so that a step that is started can be finished
                coreset = coreset.merged(Coreset.read(data, spare))
        except BudgetExceeded:
            break
        spares.append(spare)
        outside[spare] = False
        ends.append(math.sqrt(max(others, upper[outside[rows]].max(initial=0.0))) * (1 + 1e-12))
        residuals.bar(place)
        found.append(place)
        sizes.append(size)
        tied.append(near[decision.tied].astype(np.int64))
        decisions.append(replace(decision, tied=decision.tied[:0].copy()))
    if not (found or exhausted):
        return index, doubtful
    if spares and data.budget is None:
        coreset = coreset.merged(Coreset.read(data, np.concatenate(spares)))
    Q = np.vstack([residuals.basis, q])[: len(run) + len(found)] if found else residuals.basis.copy()
    more = Run.of(found, sizes, Q, decisions, tied, exhausted=exhausted)
    whole = run.followed_by(more)
    tails = np.append(index.tails[: len(run)], ends)
    largest = residuals.squared_norms[outside].max(initial=0.0) * (1 + residuals.reader.norm_error)
    norm = min(index.norm, math.sqrt(largest) * (1 + 1e-9))
    return Index(whole, len(whole), coreset, tails, norm, index.rows, True, whole.exhausted, index.hull), doubtful


def _largest(values: NDArray[np.float64], count: int) -> NDArray[np.intp]:
    """The places of about the ``count`` largest positive values."""
    if values.size <= count:
        return np.flatnonzero(values > 0)
    likely = np.flatnonzero(values >= level(values, 4 * count))
    if count < likely.size < values.size:
        return likely[_largest(values[likely], count)]
    some = np.argpartition(values, values.size - count)[values.size - count :]
    return some[values[some] > 0]
