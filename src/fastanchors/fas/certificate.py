"""Certify anchors that are not proved, by how near each choice is to the largest residual or by fresh draws.

``near``: at step t every row outside the coreset has a residual of at most tail_t, so the chosen residual is at least
1 − η of the largest, with η = max_t (1 − chosen_t / max(tail_t, largest known_t)).

``sampled``: N new rows are drawn after the anchors are fixed. If more than a share θ of the mass from which they
are drawn were farther than r from the hull, all N would be nearer with probability below (1 − θ)^N. With r the
largest distance observed and (1 − θ)^N = δ, the statement holds with probability 1 − δ whatever the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..anchors import Certificate, Selection
from ..errors import RankError
from ..greedy.nnls import NonnegativeSystem
from ..greedy.reader import Reader
from ..greedy.successive import Path, certified, rounded_down, rounded_up, successive_projection
from ..greedy.ties import TIE
from ..greedy.view_rounding import view_doubts
from ..matrix import ArrayMatrix, RowMatrix
from ..matrix.contract import Rows
from ..matrix.metered import MeteredMatrix
from .coreset import Coreset, common_length
from .index import Index, pilot_draws

__all__ = ["FEWEST", "largest_distance", "near_or_sampled", "of_prefix"]

_USEFUL = 0.5  # η above which fresh draws are more informative
FEWEST = 10  # smallest number of draws for a statement
_CHOICE = 4  # candidate rows per anchor to read before any are drawn for a statement
_REDRAWS = 4
_CHUNK_BYTES = 1 << 24


def near_or_sampled(
    data: MeteredMatrix,
    index: Index | None,
    sizes: Sequence[int],
    delta: float,
    rng: np.random.Generator,
    *,
    tol: float | None,
    note: str | None = None,
) -> list[Selection]:
    """The best anchors for each k within the rest of the budget, with their certificates.

    There are fewer than k if the rows that could be read support no more; the certificate says so. ``note`` is added.
    """
    k = max(sizes)
    coreset = index.coreset if index is not None and len(index.run) >= k else _pool(data, index, k, rng)
    path = _path(ArrayMatrix(coreset.rows), k, tol)
    anchors = coreset.indices[path.indices]
    residuals = np.array(path.residuals)
    proved, tails = 0, np.full(len(anchors), _largest_norm(data))
    if index is not None:
        # Proved anchors stay proved. A tail holds at a step if the anchors before it are those of the run, and also at
        # all later steps: removing more directions never makes a residual larger.
        proved = common_length(index.run.indices[: index.proved], anchors)
        same = min(common_length(index.run.indices, anchors) + 1, len(index.run), len(anchors))
        tails = np.minimum(tails, index.norm)
        tails[:same] = index.tails[:same]
        tails = np.minimum.accumulate(tails)
    # The chosen residual is within TIE of the largest known one, or as far below it as rounding may have put it.
    least = residuals * (1 - np.array(path.doubts))
    eta = np.maximum.accumulate(np.maximum(1 - least / np.maximum(tails, residuals * (1 + TIE)), 0.0))
    draws = _fresh(data, rng) if proved < len(anchors) and eta[-1] > _USEFUL else None
    points = coreset.points(anchors)
    doubts = view_doubts(residuals, lambda: points) if data.rounded else np.zeros(len(anchors))
    base: dict[str, Any] = {"budget": data.budget, "rows_read": data.cost.rows_read}
    selections = []
    for size in sizes:
        found = min(size, len(anchors))
        known = {**base, "asked": size, "proved": min(proved, found)}
        if doubts[:found].any():
            certificate = certified(doubts[:found].tolist(), "", known)
        else:
            certificate = _certificate(data, found, points[:found], float(eta[found - 1]), draws, delta, known, note)
        selections.append(Selection(anchors[:found], certificate, residuals[:found]))
    return selections


def of_prefix(data: MeteredMatrix, sizes: Sequence[int], *, budget: int | None, tol: float | None) -> list[Selection]:
    """SPA on the first rows of a file, if the budget allows no more: nothing is known about the others."""
    rows = data.shape[0]
    path = _path(data, min(max(sizes), rows), tol)
    words = (
        f"these are the anchors of the first {rows} rows, all that a budget of {budget} allows of a file that is read "
        "from its beginning; nothing is known of its other rows (a store, made by fa.build, can read any row)"
    )
    selections = []
    for size in sizes:
        found = min(size, len(path.indices))
        few = f"; {found} of {size} anchors were found, the rows that were read have no more" if found < size else ""
        details = {"budget": budget, "rows_read": rows, "asked": size, "proved": 0}
        certificate = Certificate("none", words + few, details)
        selections.append(Selection(path.indices[:found], certificate, path.residuals[:found]))
    return selections


def _path(known: RowMatrix, k: int, tol: float | None) -> Path:
    """SPA on the known rows, even if rounding could change a choice."""
    try:
        return successive_projection(Reader(known), k, tol=tol, allow_fewer=True)
    except RankError:
        raise RankError(f"all of the {known.shape[0]} rows within the budget are zero; raise the budget", 0) from None


def _pool(data: MeteredMatrix, index: Index | None, k: int, rng: np.random.Generator) -> Coreset:
    """Candidate rows: as many as may still be read, less half for fresh draws if that leaves enough candidates; and the
    coreset of the index, whose rows have not changed.
    """
    m, left = data.shape[0], data.left
    size = max(left // 2, min(left, _CHOICE * k))
    size = min(m, left if left - size < FEWEST else size)
    if size == 0 and index is not None:
        return index.coreset
    drawn = np.zeros(0, dtype=np.int64)
    for _ in range(_REDRAWS):  # draws by norm contain repeats
        drawn = np.union1d(drawn, pilot_draws(data, size, rng))
        if drawn.size >= size:
            break
    if drawn.size > size:
        drawn = rng.choice(drawn, size, replace=False)
    pool = Coreset.read(data, drawn)
    return pool if index is None else index.coreset.merged(pool)


def _largest_norm(data: MeteredMatrix) -> float:
    """A cheap bound on every residual: no row is read, and no norms of single rows are queried."""
    return np.inf if data.sampled is None else data.sampled.norm_bound() * (1 + 1e-6)


def _fresh(data: MeteredMatrix, rng: np.random.Generator) -> Rows | None:
    """New rows drawn from the same distribution as a pilot, including repeats."""
    size = data.left
    if size < FEWEST:
        return None
    m = data.shape[0]
    sampled = data.sampled
    if sampled is not None and sampled.frobenius_norm > 0:
        drawn = np.asarray(sampled.sample_rows(size, rng=rng))
    else:
        drawn = rng.integers(m, size=size)
    return data.rows(drawn)


def _certificate(
    data: MeteredMatrix,
    k: int,
    points: NDArray[np.float64],
    eta: float,
    draws: Rows | None,
    delta: float,
    details: dict[str, Any],
    note: str | None,
) -> Certificate:
    proved, asked, budget = details["proved"], details["asked"], details["budget"]
    unsettled = "" if note is None else f"{note}; "
    if k < asked:
        unsettled += f"{k} of {asked} anchors were found, the rows that could be read have no more; "
    if proved >= k:
        if k == asked:
            return Certificate("exact", "no row outside those that were read can change a choice of SPA", details)
        unsettled += f"whether there are others could not be settled within {budget} rows"
    else:
        what = f"anchor {k} is" if proved == k - 1 else f"anchors {proved + 1} to {k} are"
        unsettled += f"whether {what} full SPA's could not be settled within {budget} rows"
    if eta < 1:
        details["eta"] = eta
    if draws is not None:
        origin = data.normalize is None
        r = largest_distance(draws, points, origin=origin)
        theta = 1 - delta ** (1 / draws.shape[0])
        details |= {"theta": theta, "r": r, "delta": delta, "draws": draws.shape[0]}
        mass = "row mass (squared norms)" if data.sampled is not None else "rows"
        hull = "hull of the anchors and the origin" if origin else "hull of the anchors"
        words = f"at most {rounded_up(100 * theta)}% of the {mass} lies farther than {rounded_up(r)} from the {hull}"
        words = f"{words}, with probability {1 - delta:g}"
        return Certificate("sampled", f"{words}; {unsettled}", details)
    if eta < 1:
        words = f"every chosen residual is at least {rounded_down(1 - eta)} of the largest at its step"
        return Certificate("near", f"{words}; {unsettled}", details)
    return Certificate("none", unsettled, details)


def largest_distance(rows: Rows, points: NDArray[np.float64], *, origin: bool) -> float:
    """The largest distance of some rows from the hull of the points (and the origin)."""
    if origin:
        points = np.vstack([points, np.zeros((1, points.shape[1]))])
    Q, R = np.linalg.qr(points.T)
    system = NonnegativeSystem(R, sum_to=1.0)
    largest = 0.0
    step = max(1, _CHUNK_BYTES // (8 * points.shape[1]))
    for at in range(0, rows.shape[0], step):
        block = rows[at : at + step]
        block = np.asarray(block.toarray() if sp.issparse(block) else block, dtype=np.float64)
        rest = block - system.solve(block @ Q) @ points
        largest = max(largest, float(np.sqrt(np.einsum("ij,ij->i", rest, rest).max())))
    return largest * (1 + 1e-9)
