"""Choose the number of anchors from curves of residuals, errors and singular values.

Anchors are selected greedily: each is the row farthest from the cone of those before it (as in SNPA and XRAY). The
curve therefore counts extreme rows, of which there may be more than the rank. While true anchors are missing, the
farthest row is far; once all are found, only noise is left and the curve drops to a flat floor. Where noise blurs this
drop, the singular values decide: it counts how many are larger than noise of the remaining energy would produce.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ._equality import ComparedByValue
from ._parallel import one_blas_thread
from ._rng import RngLike, as_generator
from ._validate import check_size
from .errors import RankError
from .greedy.cone import ConeDistances
from .greedy.coordinates import coordinates
from .greedy.how_many import DIRECTIONS, HowMany, how_many
from .greedy.reader import Reader
from .lowrank.sampled_svd import fkv
from .matrix import ArrayMatrix, RowMatrix, SampleAccess, open_matrix
from .matrix.contract import squared_norms_of
from .matrix.norm_draws import draw_rows
from .solvers.spa import SPA

__all__ = ["RankCurve", "rank_curve"]

_CLEAR = 2.0  # a drop of the residual by this factor is a gap
_STRONG = 10.0  # a gap of this factor overrides the singular values
_EDGE = 1.05  # a singular value must exceed the noise edge by this factor to count as signal
_JUDGED = 4000  # rows whose directions are compared with their noise
_DEPENDENT = 1e-12  # singular values below this fraction of the largest are rounding
_ZERO = 1e-13  # residuals below this fraction of the largest row are rounding

_Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RankCurve(ComparedByValue):
    """The curves behind a choice of rank; ``print`` shows them as a table.

    Attributes
    ----------
    k
        The rank chosen.
    reason
        Why, in one sentence.
    ks
        1, 2, … up to the largest number tried (fewer if the residual became zero).
    residuals
        For each k, the largest distance of a row from the cone of the first k anchors.
    errors
        For each k, ‖A − F·A_R‖_F / ‖A‖_F with the first k anchors and the best F ≥ 0.
    falls
        For each k, the factor by which the k-th anchor reduced ``residuals``.
    singular_values
        The leading singular values of A, exact or estimated.
    anchors
        Row indices, in the order of selection.
    rows
        Number of rows used.
    """

    k: int
    reason: str
    ks: NDArray[np.intp]
    residuals: _Array
    errors: _Array
    falls: _Array
    singular_values: _Array
    anchors: NDArray[np.intp]
    rows: int

    def __str__(self) -> str:
        lines = [f"k = {self.k}: {self.reason}", "", "    k   residual       falls by   error      singular value"]
        for at, k in enumerate(self.ks):
            value = f"{self.singular_values[at]:<14.4g}" if at < len(self.singular_values) else ""
            mark = "->" if k == self.k else "  "
            fall = f"{self.falls[at]:.3g}"
            lines.append(f"{mark} {k:>2}   {self.residuals[at]:<13.4g}  {fall:<9}  {self.errors[at]:<9.3g}  {value}")
        return "\n".join(line.rstrip() for line in lines)

    def as_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON."""
        result: dict[str, Any] = {"k": self.k, "reason": self.reason, "rows": self.rows}
        for name in ("ks", "residuals", "errors", "falls", "singular_values", "anchors"):
            result[name] = getattr(self, name).tolist()
        return result


@one_blas_thread()  # many small products, and sums whose order must not depend on the number of threads
def rank_curve(A: Any, k_max: int | None = None, *, rows: int = 2000, rng: RngLike = None) -> RankCurve:
    """Residuals, errors and singular values for 1 … ``k_max`` anchors of ``A``, and the number chosen.

    Parameters
    ----------
    A
        Anything that :func:`fastanchors.open_matrix` opens. An array or sparse matrix is used as it is; scale its rows
        first if their length has no meaning.
    k_max
        Largest number of anchors to try; by default 50, or the number of rows if that is smaller.
    rows
        Number of rows to use. From a larger matrix that many rows are drawn with probability ‖A_(i)‖²/‖A‖_F², and the
        anchors that SPA finds among all rows are added.
    rng
        A ``numpy.random.Generator``, an int seed or None.

    Notes
    -----
    Let e_k be the largest residual with k anchors. A drop e_(k−1)/e_k of at least 2 is a gap. The largest gap gives k,
    unless it is below 10 and the singular values indicate more anchors. The singular values are tested one by one: if
    the energy left after r of them were noise spread evenly over all entries, the next one would be about (√m + √n)
    times the standard deviation of that noise. The first r for which it is no larger is the rank (as in Kritchman and
    Nadler 2008). If there is neither a gap nor such an r, the largest drop is used, and ``reason`` says so.

    If the rows are noisy and their directions separate signal from noise (:mod:`fastanchors.greedy.how_many`), that
    estimate is used instead.

    A drop to rounding error ends the search, unless the anchors are dependent or all rows were selected: then noisy
    copies may have been selected one by one. In that case an earlier gap is used if the singular values agree with it,
    or if it is at least 10, the anchors are dependent and the singular values do not indicate more.

    For sample access with more than ``rows`` rows the singular values are those of :func:`fastanchors.fkv`. The cost is
    k_max non-negative least-squares problems for at most ``rows`` rows (a few seconds), and k_max + 2 passes over a
    larger matrix.

    Examples
    --------
    >>> import fastanchors as fa
    >>> X = fa.datasets.separable(100, 10, 4, rng=0).A
    >>> fa.rank_curve(X, 8).k
    4
    """
    data = open_matrix(A)
    m = data.shape[0]
    limit = check_size(rows, name="rows")
    K = min(m, 50) if k_max is None else min(m, check_size(k_max, name="k_max"))
    rng = as_generator(rng)
    if m <= limit:
        chosen, weights = np.arange(m), np.ones(m)
    else:
        chosen, weights = _draw(data, K, limit, rng)
    points = _points(data, chosen)
    if not points.any():
        raise RankError("every row of A is zero: it has no anchors", 0)
    taken, largest, errors = _extract(points, weights, K)
    if m > limit and isinstance(data, SampleAccess):
        values, energy, shape = _sampled_spectrum(data, K, rng)
    else:
        scaled = points * np.sqrt(weights)[:, None]
        values = np.asarray(np.linalg.svd(scaled, compute_uv=False), dtype=np.float64)
        energy, shape = float(np.sum(scaled**2)), (int(np.count_nonzero(weights)), data.shape[1])
    falls = largest[:-1] / np.maximum(largest[1:], _ZERO * largest[0])
    k, reason = _choose(
        falls,
        _above_noise(values, energy, shape, K),
        exhausted=bool(largest[-1] <= _ZERO * largest[0]),
        dependent=bool(len(taken) > np.count_nonzero(values > _DEPENDENT * values[0])),
        everything=len(taken) == m,
    )
    estimate = None if _settled(reason) else _by_directions(data, rng)
    if estimate is not None and estimate.k is not None and estimate.k <= len(taken):
        k, reason = estimate.k, f"{estimate.reason}: {estimate.k} anchor{'s' if estimate.k > 1 else ''}"
    return RankCurve(
        k=k,
        reason=reason,
        ks=np.arange(1, len(taken) + 1),
        residuals=largest[1:],
        errors=errors,
        falls=falls,
        singular_values=values[: K + 1],
        anchors=chosen[taken],
        rows=len(chosen),
    )


def _settled(reason: str) -> bool:
    """Whether only rounding error is left, so that there is no noise to estimate."""
    return "nothing but rounding" in reason


def _by_directions(data: RowMatrix, rng: np.random.Generator) -> HowMany | None:
    """The number of anchors estimated from the directions that exceed the noise; None if there is no noise."""
    m = data.shape[0]
    some = np.arange(m) if m <= _JUDGED else np.sort(rng.choice(m, _JUDGED, replace=False))
    at = coordinates(ArrayMatrix(data.rows(some)), DIRECTIONS)
    estimate = how_many(at)
    return estimate if float(at.left.sum()) > 0 and "no noise" not in estimate.reason else None


def _draw(data: RowMatrix, K: int, size: int, rng: np.random.Generator) -> tuple[NDArray[np.intp], _Array]:
    """Sampled rows with weights w such that E[Σ w_i·f(A_(i))] = Σ f(A_(i)), and SPA's anchors with weight 0."""
    drawn, total = draw_rows(data, size, rng)
    drawn = drawn if total > 0 else np.arange(size)
    rows, counts = np.unique(drawn, return_counts=True)
    squares = squared_norms_of(data.rows(rows))
    weights = counts * total / (size * np.maximum(squares, np.finfo(float).tiny))
    extreme = SPA(allow_fewer=True).seek(data, min(K, *data.shape)).indices
    extra = np.setdiff1d(extreme, rows)
    return np.concatenate([rows, extra]).astype(np.intp), np.concatenate([weights, np.zeros(len(extra))])


def _points(data: RowMatrix, chosen: NDArray[np.intp]) -> _Array:
    """The chosen rows; if there are many more columns than rows, in coordinates with the same inner products."""
    m, n = len(chosen), data.shape[1]
    if n <= 2 * m:
        return data.dense_rows(chosen)
    block = data.rows(chosen).astype(np.float64, copy=False)
    gram = block @ block.T
    values, vectors = np.linalg.eigh(gram.toarray() if sp.issparse(gram) else gram)
    keep = values > len(values) * np.finfo(np.float64).eps * max(values[-1], 0.0)
    return np.asarray(vectors[:, keep] * np.sqrt(values[keep]))


def _extract(points: _Array, weights: _Array, K: int) -> tuple[NDArray[np.intp], _Array, _Array]:
    """Anchors by largest distance from the cone of those before; e_0, e_1, …; and the relative error after each."""
    cone = ConeDistances(Reader(ArrayMatrix(points)), K, bounded=False)
    energy = float(weights @ cone.squared_norms)
    residuals = np.sqrt(cone.squared_norms)
    largest = [float(residuals.max())]
    errors: list[float] = []
    taken: list[int] = []
    while len(taken) < K and largest[-1] > _ZERO * largest[0]:
        taken.append(int(np.argmax(residuals)))
        cone.add(taken[-1])
        residuals = np.sqrt(cone.all_values())
        residuals[taken] = 0.0
        largest.append(float(residuals.max()))
        errors.append(float(np.sqrt(weights @ residuals**2 / energy)))
    return np.array(taken, dtype=np.intp), np.array(largest), np.array(errors)


def _sampled_spectrum(S: SampleAccess, K: int, rng: np.random.Generator) -> tuple[_Array, float, tuple[int, int]]:
    """FKV's singular values, ‖A‖_F², and the shape of the sampled matrix."""
    k = min(K + 1, *S.shape)
    size = max(20 * k, 200)
    while True:
        try:
            values = fkv(S, k, rows=size, columns=size, rng=rng).singular_values
            return np.asarray(values), float(S.frobenius_norm) ** 2, (size, size)
        except RankError as error:
            k = max(1, min(error.rank, k - 1))


def _above_noise(values: _Array, energy: float, shape: tuple[int, int], K: int) -> int | None:
    """How many singular values exceed noise with the energy of the rest; None if that cannot be determined."""
    m, n = shape
    for r in range(1, min(K + 1, len(values))):
        rest = max(energy - float(np.sum(values[:r] ** 2)), 0.0)
        entries = (m - r) * (n - r)  # degrees of freedom of what r components leave
        if entries <= 0 or min(m, n) - r < 3:
            return None
        edge = np.sqrt(rest / entries) * (np.sqrt(m) + np.sqrt(n))
        if values[r] <= _EDGE * edge:
            return r
    return None


def _leave(k: int) -> str:
    return "1 anchor leaves" if k == 1 else f"{k} anchors leave"


def _choose(
    falls: _Array, above: int | None, *, exhausted: bool, dependent: bool = False, everything: bool = False
) -> tuple[int, str]:
    """The rank and the reason.

    ``exhausted``: the last drop was to rounding error. ``dependent``: the anchors are linearly dependent.
    ``everything``: all rows were selected.
    """
    elsewhere = "more than anywhere else"
    if exhausted and (dependent or everything) and len(falls) > 1:
        earlier = int(np.argmax(falls[:-1])) + 1
        gap = falls[earlier - 1]
        if (gap >= _CLEAR and above == earlier) or (gap >= _STRONG and dependent and (above or 0) < earlier):
            elsewhere = f"more than anywhere before {_leave(len(falls))} nothing"
            falls, exhausted = falls[:-1], False
    steepest = int(np.argmax(falls)) + 1
    fall = falls[steepest - 1]
    if exhausted and steepest == len(falls):
        doubt = ", but they are all rows: this cannot tell whether fewer would do" if everything else ""
        return steepest, f"{_leave(steepest)} nothing but rounding{doubt}"
    more = above is not None and above > steepest
    if fall >= (_STRONG if more else _CLEAR):
        return steepest, f"the residual falls by a factor of {fall:.3g} with anchor {steepest}, {elsewhere}"
    if above is not None:
        return above, (
            f"{above} singular values stand out of the noise; the residual has no clear gap "
            f"(its largest fall is a factor of {fall:.3g} at {steepest})"
        )
    return steepest, (
        f"no clear gap: the residual falls most, by a factor of {fall:.3g}, with anchor {steepest}, and the singular "
        "values do not separate signal from noise; inspect the curve, or increase k_max"
    )
