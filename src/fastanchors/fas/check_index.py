"""Check that an index matches its matrix: one pass over all rows, for ``fa.verify``.

An index claims that its anchors are those that SPA chooses among all rows, and bounds the rows outside its coreset.
Both follow from the rows alone, so the file is not trusted: SPA runs again on the rows of the coreset, and every other
row is compared to the thresholds of that run and to the bounds in the file.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..greedy.successive import default_tolerance
from ..matrix.contract import DOUBLE, Rows
from .coreset import Run, residual_bounds, squared_norms_of
from .index import Index
from .read_once import ReadOnce

__all__ = ["check_index"]

_CLOSE = 1e-6  # relative tolerance: runs on a coreset that has grown since differ by rounding


def check_index(store: Any, index: Index) -> None:
    """Raise ``ValueError`` if ``index`` does not match the rows of ``store``."""
    core = index.coreset
    if index.rows != store.shape[0]:
        raise ValueError(f"it describes {index.rows} rows, the store has {store.shape[0]}")
    if len(core):
        rows = store.rows(core.indices)
        same = _same_rows(core.rows, rows, exact=store.normalize is None)
        if not same or not np.allclose(core.squared_norms, squared_norms_of(rows), rtol=_CLOSE, atol=0):
            raise ValueError("the rows of its coreset are not those of the store")
    again = core.run(index.proved) if index.proved else None
    if again is not None:
        _compare(again, index.run.cut(index.proved))
        _check_ties(again, index)
    outside = np.ones(index.rows, dtype=np.bool_)
    outside[core.indices] = False
    if index.complete:
        if index.proved < len(index.run):
            raise ValueError("it says that its anchors span all rows, but not all of them are proved")
        _check_span(index, _residuals(core.rows, core.squared_norms, index.run.thresholds.basis)[0])
    data = ReadOnce(store)
    for start, block in data.blocks(data.default_block_rows()):
        left = np.flatnonzero(outside[start : start + block.shape[0]])
        if left.size:
            _check_rows(index, again, start + left, block[left])


def _same_rows(held: Rows, rows: Rows, *, exact: bool) -> bool:
    """Whether the rows of a coreset are those of the store.

    Rows of an l1 view may differ by the rounding of their l1 norms: changes and compactions group the terms of a sum in
    other ways.
    """
    if exact:
        return bool((held != rows).nnz == 0 if sp.issparse(rows) else np.array_equal(held, rows))
    tolerance = 2 * (rows.shape[1] + 2) * float(np.finfo(rows.dtype).eps)
    excess = abs(held - rows) - tolerance * abs(rows)
    return bool(((excess.data if sp.issparse(excess) else excess) <= 0).all())


def _compare(again: Run, run: Run) -> None:
    """Check that the run in the file is that of the coreset."""
    if not np.array_equal(again.indices, run.indices):
        raise ValueError("its anchors are not those of its coreset")
    pairs = [(again.residuals, run.residuals)]
    pairs += [(getattr(again.thresholds, name), getattr(run.thresholds, name)) for name in ("low", "high", "norm")]
    if not all(np.allclose(fresh, kept[: len(fresh)], rtol=_CLOSE, atol=0) for fresh, kept in pairs):
        raise ValueError("its thresholds are not those of its anchors")
    basis = run.thresholds.basis[: len(again.thresholds.basis)]
    if basis.shape != again.thresholds.basis.shape or not np.allclose(basis, again.thresholds.basis, atol=_CLOSE):
        raise ValueError("its directions are not those of its anchors")


def _check_ties(again: Run, index: Index) -> None:
    """Check that the index names the rows whose change could change a choice: the anchors, and rows tied with them.

    Rows that joined the coreset later may be tied as well; they are not named, because they lose the tie by its rule.
    """
    core = index.coreset
    for step, (tied, kept) in enumerate(zip(again.tied, index.run.tied, strict=False)):
        at = np.searchsorted(core.indices, np.setdiff1d(tied, kept))
        if at.size:
            squares = core.squared_norms[at]
            bounds = residual_bounds(core.rows[at], squares, again.thresholds.basis, len(again))
            if again.thresholds.disturbed(core.indices[at], np.sqrt(squares), bounds)[:, step].any():
                raise ValueError("it does not name all rows that are tied with its anchors")


def _check_rows(index: Index, again: Run | None, numbers: NDArray[np.int64], rows: Rows) -> None:
    """Check that rows outside the coreset change no proved step and stay below the bounds."""
    squares = squared_norms_of(rows)
    norms = np.sqrt(squares)
    if not (norms <= index.norm * (1 + _CLOSE)).all() or not np.isfinite(index.norm):
        raise ValueError("a row is longer than it says")
    run = index.run
    low, high = _residuals(rows, squares, run.thresholds.basis)
    T = len(run)
    limits = [index.tails[:T]] + ([index.hull.tails(run.thresholds.basis, T)] if index.hull is not None else [])
    if not all((low[:, :T] <= (1 + _CLOSE) * limit).all() for limit in limits):
        raise ValueError("a row lies beyond its bounds")
    if index.complete:
        _check_span(index, low)
    if again is None:
        return
    limits_of_steps, steps = again.thresholds, len(again)
    doubtful = np.flatnonzero((high[:, :steps] * (1 + _CLOSE) >= limits_of_steps.low).any(axis=1))
    if doubtful.size:
        bounds = residual_bounds(rows[doubtful], squares[doubtful], limits_of_steps.basis, steps)
        if limits_of_steps.disturbed(numbers[doubtful], norms[doubtful], bounds).any():
            raise ValueError("SPA chooses other rows than its anchors")


def _check_span(index: Index, low: NDArray[np.float64]) -> None:
    """Check that rows are in the span of the anchors, given lower bounds of their residuals."""
    longest = np.sqrt(index.coreset.squared_norms.max(initial=0.0))
    if (low[:, -1] > (1 + _CLOSE) * default_tolerance(index.coreset.rows.shape[1]) * longest).any():
        raise ValueError("it says that its anchors span all rows, and they do not")


def _residuals(
    rows: Rows, squares: NDArray[np.float64], basis: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lower and upper bounds on the residuals before each step and after the last; sparse rows stay sparse."""
    products = np.asarray(rows @ basis.T, dtype=np.float64)
    removed = np.cumsum(np.concatenate([np.zeros((len(squares), 1)), products**2], axis=1), axis=1)
    error = 8 * (len(basis) + 2) * (rows.shape[1] + 2) * DOUBLE * squares[:, None]
    left = squares[:, None] - removed
    return np.sqrt(np.maximum(left - error, 0.0)), np.sqrt(np.maximum(left, 0.0) + error)
