"""What can be said of anchors that are not proved: how near each choice is, or what fresh draws show.

``near``: at step t every row outside the coreset has a residual of at most tail_t, so the chosen one is at least
1 − η of the largest with η = max_t (1 − chosen_t / max(tail_t, largest known_t)).

``sampled``: N rows are drawn afresh, after the anchors are fixed. If more than a share θ of the mass from which they
are drawn lay farther than r from the hull, all N would have been nearer with probability below (1 − θ)^N. Taking r
as the largest distance seen and (1 − θ)^N = δ, the statement holds with probability 1 − δ whatever the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._nnls import NonnegativeSystem
from ..anchors import Certificate
from ..errors import RankError
from ..sampling.access import Rows
from ._residuals import TIE
from ._rows import MatrixRows
from ._solver import Selection
from .fas_coreset import Coreset, common_length
from .fas_index import Index, pilot_rows

__all__ = ["largest_distance", "near_or_sampled"]

_USEFUL = 0.5  # η above which fresh draws say more
_FEWEST = 10  # draws that make a statement
_CHUNK_BYTES = 1 << 24


def near_or_sampled(
    data: MatrixRows,
    index: Index | None,
    sizes: Sequence[int],
    budget: int,
    delta: float,
    rng: np.random.Generator,
    tol: float | None,
) -> list[Selection]:
    """The best anchors for each k within what is left of the budget, and what can be said of them."""
    k = max(sizes)
    if index is None or len(index.run) < k:
        coreset = _pool(data, index, budget, rng)
        run, proved = coreset.run(k, tol=tol), 0
        tails = np.full(len(run), _largest_norm(data))
        if index is not None:  # what was proved stays so
            proved = common_length(index.run.indices[: index.proved], run.indices)
            tails[:proved] = index.tails[:proved]
    else:
        coreset, run, proved, tails = index.coreset, index.run.cut(k), index.proved, index.tails[:k]
    if len(run) < k:
        raise RankError(
            f"the rows within the budget of {budget} have {len(run)} independent anchors, {k} were asked for; "
            f"raise the budget or ask for fewer",
            len(run),
        )
    eta = 1 - run.residuals / np.maximum(tails, run.thresholds.low * (1 + TIE))
    eta = np.maximum.accumulate(np.maximum(eta, 0.0))
    draws = _fresh(data, budget, rng) if eta[k - 1] > _USEFUL else None
    points = coreset.points(run.indices)
    base = {"budget": budget, "rows_read": data.cost.rows_read}
    selections = []
    for size in sizes:
        known = {**base, "proved": min(proved, size)}
        certificate = _certificate(data, size, points[:size], float(eta[size - 1]), draws, delta, known)
        selections.append(Selection(run.indices[:size], certificate, run.residuals[:size]))
    return selections


def _pool(data: MatrixRows, index: Index | None, budget: int, rng: np.random.Generator) -> Coreset:
    """Rows to choose from: half of what may still be read, and what the index has of rows that have not changed."""
    size = max(1, min(data.shape[0], (budget - data.cost.rows_read) // 2))
    pool = pilot_rows(data, size, rng)
    return pool if index is None else index.coreset.merged(pool)


def _largest_norm(data: MatrixRows) -> float:
    """A bound on every residual: the largest norm, where norms can be asked for without reading rows."""
    if not data.sampled:
        return np.inf
    if hasattr(data.source, "largest_norm"):  # of rows held elsewhere
        return float(data.source.largest_norm()) * (1 + 1e-6)
    return float(np.max(data.source.row_norm(np.arange(data.shape[0])))) * (1 + 1e-6)


def _fresh(data: MatrixRows, budget: int, rng: np.random.Generator) -> Rows | None:
    """Rows drawn anew by the same distribution as a pilot, repeats included."""
    size = budget - data.cost.rows_read
    if size < _FEWEST:
        return None
    m = data.shape[0]
    by_norm = data.sampled and data.source.frobenius_norm > 0
    drawn = np.asarray(data.source.sample_rows(size, rng=rng)) if by_norm else rng.integers(m, size=size)
    return data.raw_rows(drawn)


def _certificate(
    data: MatrixRows,
    k: int,
    points: NDArray[np.float64],
    eta: float,
    draws: Rows | None,
    delta: float,
    details: dict[str, Any],
) -> Certificate:
    proved = details["proved"]
    if proved >= k:
        return Certificate("exact", "no row outside those that were read can change a choice of SPA", details)
    what = f"anchor {k} is" if proved == k - 1 else f"anchors {proved + 1} to {k} are"
    unsettled = f"whether {what} full SPA's could not be settled within {details['budget']} rows"
    if eta < 1:
        details["eta"] = eta
    if draws is not None:
        origin = getattr(data.source, "normalize", None) is None
        r = largest_distance(draws, points, origin=origin)
        theta = 1 - delta ** (1 / draws.shape[0])
        details |= {"theta": theta, "r": r, "delta": delta, "draws": draws.shape[0]}
        mass = "row mass (squared norms)" if data.sampled else "rows"
        hull = "hull of the anchors and the origin" if origin else "hull of the anchors"
        words = f"at most {theta:.2%} of the {mass} lies farther than {r:.3g} from the {hull}"
        words = f"{words}, with probability {1 - delta:g}"
        return Certificate("sampled", f"{words}; {unsettled}", details)
    if eta < 1:
        words = f"every chosen residual is at least {1 - eta:.3g} of the largest at its step"
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
