"""Update the index of FAS when rows change, reading only the changed rows.

Changed or new rows do not affect a proved sequence if they stay below every step's threshold and no row tied with
an anchor has changed. Otherwise SPA runs again on the coreset and the changed rows, and the tails prove the new
steps. For a row outside, with Q_t the old directions of the first t steps, Q′ the new ones, and P′ = I − Q′Q′ᵀ,

    ‖P′a‖ ≤ ‖(I − Q_tQ_tᵀ)a‖ + ‖P′Q_t‖·‖a‖ ≤ tail_t + ‖P′Q_t‖·(largest norm outside)    for every t,

so old tails remain useful if the new anchors span nearly the same space as the old ones. If the data lies near the hull
of its anchors, :mod:`~fastanchors.fas.hull` bounds the rows outside for any anchors.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..matrix.contract import DOUBLE
from ..matrix.metered import MeteredMatrix
from .coreset import Coreset, Run, common_length, residual_bounds
from .hull import Hull
from .index import Index

__all__ = ["absorb", "without"]

_CROWDED = 8192  # size of the coreset above which rows that no longer matter are dropped
_FRESH = 0.25  # share of the memory for rows that a batch of changed rows may take


def absorb(
    data: MeteredMatrix,
    index: Index,
    changed: NDArray[np.int64],
    *,
    tol: float | None = None,
    crowded: int = _CROWDED,
) -> Index:
    """The index after those rows have changed or been appended; fewer of its steps may be proved than before.

    Reads the changed rows, a bounded number at a time: each batch as if the later ones had not changed yet. Cost:
    O(changed·n·T), and SPA on the coreset if the sequence changes. The coreset is thinned if it has more than
    ``crowded`` rows, or more than fit into the memory for rows; up to 6 times as many are in memory at a time.
    """
    crowded = min(crowded, _CROWDED)
    step = _CROWDED if crowded == _CROWDED else max(1, crowded // 4)
    at = 0
    while at < changed.size:
        some = changed[at : at + step]
        some = some[: max(1, data.fitting(some, share=_FRESH))]
        index = _absorb(data, index, some, tol, crowded)
        at += some.size
    return index


def _absorb(data: MeteredMatrix, index: Index, changed: NDArray[np.int64], tol: float | None, crowded: int) -> Index:
    run, tails, proved = index.run, index.tails, index.proved
    fresh = Coreset.read(data, changed)
    bounds = residual_bounds(fresh.rows, fresh.squared_norms, run.thresholds.basis, len(run))
    norms = np.sqrt(fresh.squared_norms)
    stands = _undisturbed(run, fresh, norms, bounds)
    # A row that raises no tail may stay outside; a row of the coreset is replaced by its new value.
    outside = ~np.isin(fresh.indices, index.coreset.indices)
    outside &= (bounds <= tails).all(axis=1) & (stands == len(run))
    if index.hull is not None and outside.any():
        outside[outside] = index.hull.covers(fresh.rows[outside])
    coreset = index.coreset.merged(fresh.take(~outside))
    norm = max(index.norm, float(norms[outside].max(initial=0.0)) * (1 + 1e-12))
    if stands < len(run):
        new = coreset.run(len(run), tol=tol)
        tails, proved = _proved(run, new, tails, min(stands, proved), norm, index.hull)
        run = new
    stuck = index.stuck and proved >= index.proved
    result = Index(run, proved, coreset, tails, norm, data.shape[0], stuck, hull=index.hull)
    crowded = min(crowded, max(2 * len(run), data.fitting(coreset.indices)))
    return _thinned(result, crowded // 2) if len(coreset) > crowded else result


def without(
    index: Index, unread: NDArray[np.int64], norms: NDArray[np.float64], steps: int, *, tol: float | None = None
) -> Index:
    """The index after those rows have changed without being read: only their norms are known.

    They are no longer candidates, and stay outside the coreset with their norms as bounds. Reads nothing.
    """
    old = index.run
    coreset = index.coreset.take(~np.isin(index.coreset.indices, unread))
    touched = [bool(np.isin(tied, unread).any()) for tied in old.tied]
    stands = touched.index(True) if any(touched) else len(old)
    run = coreset.run(max(steps, len(old)), tol=tol) if len(coreset) else old.cut(0)
    tails, proved = _proved(old, run, index.tails, min(stands, index.proved), index.norm, index.hull)
    bounds = np.repeat(norms[:, None], len(run), axis=1)
    disturbed = run.thresholds.disturbed(unread, norms, bounds).any(axis=0)
    if disturbed.any():
        proved = min(proved, int(np.argmax(disturbed)))
    largest = float(norms.max(initial=0.0))
    return replace(
        index,
        run=run,
        proved=proved,
        coreset=coreset,
        tails=np.maximum(tails, largest),
        norm=max(index.norm, largest),
        stuck=True,
        complete=False,
        hull=None,
    )


def _undisturbed(run: Run, fresh: Coreset, norms: NDArray[np.float64], bounds: NDArray[np.float64]) -> int:
    """Number of leading steps that stay valid: no row tied at them has changed, and no changed row can affect them."""
    stands = len(run)
    for t, tied in enumerate(run.tied):
        if np.isin(tied, fresh.indices, assume_unique=True).any():
            stands = t
            break
    disturbed = run.thresholds.disturbed(fresh.indices, norms, bounds).any(axis=0)
    return min(stands, int(np.argmax(disturbed))) if disturbed.any() else stands


def _proved(
    old: Run, new: Run, tails: NDArray[np.float64], stands: int, norm: float, hull: Hull | None
) -> tuple[NDArray[np.float64], int]:
    """The tails of the new run, and how many of its steps they prove."""
    T = len(old)
    Q, N = old.thresholds.basis[:T], new.thresholds.basis
    overlap = np.cumsum(np.vstack([np.zeros((1, T)), (N @ Q.T) ** 2]), axis=0)[: len(new)]
    missing = np.maximum(1.0 - overlap, 0.0) + 64 * (T + 1) * (Q.shape[1] + 2) * DOUBLE  # ‖P′q_j‖² at each new step
    shared = common_length(old.indices[:stands], new.indices)
    for j in range(shared):
        missing[j + 1 :, j] = 0.0  # the same anchors gave the same directions
    spread = np.zeros_like(missing)  # ‖P′Q_t‖_F: column t is for the t directions before it
    spread[:, 1:] = np.sqrt(np.cumsum(missing[:, :-1], axis=1))
    new_tails = (tails[None, :] + spread * norm).min(axis=1, initial=norm) * (1 + 1e-12)
    if hull is not None:
        new_tails = np.minimum(new_tails, hull.tails(N, len(new)))
    new_tails[:shared] = tails[:shared]  # proved before, ties included
    unproved = np.flatnonzero(new_tails[shared:] >= new.thresholds.low[shared:])
    steps = shared + int(unproved[0]) if unproved.size else len(new)
    return new_tails, steps


def _thinned(index: Index, most: int) -> Index:
    """Drop the rows of the coreset that raise no bound outside it, and the hull if it retains too many rows.

    If more than ``most`` rows still remain, those not tied and not among the largest at any step are dropped too, and
    the tails rise to their bounds. A proved step does not need them: its choice stays valid while no tied row changes.
    """
    coreset, run, hull = index.coreset, index.run, index.hull
    bounds = residual_bounds(coreset.rows, coreset.squared_norms, run.thresholds.basis, len(run))
    tied = np.isin(coreset.indices, np.concatenate([np.zeros(0, np.int64), *run.tied]))
    needed = tied | np.asarray((bounds > index.tails).any(axis=1))
    keep, tails = needed, index.tails
    if hull is not None:
        keep = needed | ~hull.covers(coreset.rows)
        if np.count_nonzero(keep) > most:
            keep, hull = needed, None
    if np.count_nonzero(keep) > most:
        keep = tied
        for bound in bounds.T:
            keep[np.argpartition(-bound, most // len(bounds.T))[: most // len(bounds.T)]] = True
        tails = np.maximum(tails, bounds[~keep].max(axis=0, initial=0.0))
    norm = max(index.norm, float(np.sqrt(coreset.squared_norms[~keep].max(initial=0.0))) * (1 + 1e-12))
    return replace(index, coreset=coreset.take(keep), tails=tails, norm=norm, hull=hull)
