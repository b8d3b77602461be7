"""Divide-and-conquer anchoring: anchors by votes of many random projections.

T. Zhou, W. Bian and D. Tao, "Divide-and-conquer anchoring for near-separable nonnegative matrix factorization and
completion in high dimensions", ICDM 2013; T. Zhou, J. Bilmes and C. Guestrin, "Divide-and-conquer learning by
anchoring a conical hull", NIPS 2014.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from .._validate import check_flag, check_number, check_size
from ..anchors import Certificate
from ..errors import InvalidInputError, RankError
from ..greedy.nnls import NonnegativeSystem
from ..matrix import RowMatrix
from ._polls import Corners, Ends, Poll
from ._solver import Selection, Solver

__all__ = ["DCA"]

_PROJECTED_ENTRIES = 1 << 22  # entries of the projected block held at a time
_PILOT_ROWS = 2000
_PILOT_ENTRIES = 1 << 20
# Projections closer than this, relative to the largest, count as equal, and the lower row wins: copies of a row may
# differ by the rounding of a product, or of a view in single precision.
_TIE = 1e-11
_TIE_ROUNDED = 1e-6
_HEAD = 64  # candidates held against the hull at a time
_ROUNDS = 4  # rounds of projections, at most, while fewer than k distinct rows have votes


class DCA(Solver):
    """Divide-and-conquer anchoring (DCA).

    Projected to a line, the two ends of the data are projections of anchors; projected to a plane, so are all corners
    of the hull. Each random projection therefore names a few anchors, and O(k·log k) of them name all those that are
    extreme often enough. One pass over the data, all directions in one matrix product per block.

    Parameters
    ----------
    projections
        Number s of sub-problems; None takes ⌈3·k·log(k/δ)⌉ for lines and half of it for planes. An anchor that is an
        end of a random line with probability at least 1/k is then missed with probability at most δ/k (so all are found
        with probability 1 − δ; s = 3·k·log k alone would make that bound trivial).
    dimension
        2 for planes, 1 for lines. A corner of a plane's hull votes with the share of the plane's directions in which it
        is an end: the expectation of the votes on lines, at one sort per plane.
    geometry
        ``"hull"`` takes rows as points; ``"cone"`` as rays: projections are divided by the row's sum, which is the same
        as scaling all rows to unit l1 norm. Zero rows are mixtures of nothing and never anchors.
    directions
        ``"gaussian"`` as published; ``"row-space"`` draws them in the span of the k leading right singular vectors of a
        pilot of at most 2000 rows; ``"whitened"`` also divides by the singular values, so that ill-conditioned anchors
        stick out as much as the others; ``"mixed"`` draws half of them gaussian, half whitened.
    delta
        Probability δ of missing an anchor, for the default of ``projections``.
    allow_fewer
        Return fewer than k anchors when fewer rows are extreme, instead of raising ``RankError``.

    Notes
    -----
    Choice of k among the rows with votes (counting alone fails when votes split over copies of an anchor): the row with
    most votes first, then each time the row with the largest √votes × squared distance to the convex hull of the rows
    chosen so far. Copies of a chosen row have distance zero and are never chosen; if fewer than k rows with votes
    stand outside each other's hull, further rounds of s projections follow, mixed, and after the fourth
    :class:`RankError`.

    No number of directions is enough for every matrix: an anchor that hardly sticks out is an end of hardly any line,
    and where noise gives other rows votes nothing shows that it is missing. Lines in gaussian directions, as published,
    lost an anchor in 29 of 320 matrices of the rank-deficient and the ill-conditioned families
    (:mod:`fastanchors.datasets`, k = 20, low noise), always because an anchor got no vote: a flat hull hides anchors
    from gaussian directions, and whitened ones, as good as their pilot, look away from others. Both together lost
    one in 4, and on planes, which show an anchor in any of their directions, in none. That is the default;
    ``dimension=1`` is two to three times faster on small matrices.
    Time O(nnz·s); memory one block of rows, 32 MB of projections and the rows with votes (at most 2s for lines).

    Examples
    --------
    >>> import fastanchors as fa
    >>> X = fa.datasets.separable(200, 10, 4, rng=0).A
    >>> len(fa.DCA().seek(X, 4, rng=0))
    4
    """

    name: ClassVar[str] = "dca"
    _limit: ClassVar[Literal["rank", "rows"]] = "rows"

    def __init__(
        self,
        projections: int | None = None,
        *,
        dimension: Literal[1, 2] = 2,
        geometry: Literal["hull", "cone"] = "hull",
        directions: Literal["gaussian", "row-space", "whitened", "mixed"] = "mixed",
        delta: float = 0.01,
        allow_fewer: bool = False,
    ) -> None:
        if dimension not in (1, 2):
            raise InvalidInputError(f"dimension must be 1 or 2, got {dimension!r}")
        if geometry not in ("hull", "cone"):
            raise InvalidInputError(f"geometry must be 'hull' or 'cone', got {geometry!r}")
        if directions not in ("gaussian", "row-space", "whitened", "mixed"):
            raise InvalidInputError(
                f"directions must be 'gaussian', 'row-space', 'whitened' or 'mixed', got {directions!r}"
            )
        check_number(delta, name="delta", minimum=1e-300, maximum=1.0)
        if projections is not None:
            check_size(projections, name="projections")
        self.projections = projections
        self.dimension = dimension
        self.geometry = geometry
        self.directions = directions
        self.delta = delta
        self.allow_fewer = check_flag(allow_fewer, name="allow_fewer")

    def _select(self, data: RowMatrix, k: int, rng: np.random.Generator) -> Selection:
        s = self._count(k)
        votes: dict[int, float] = {}
        chosen = np.empty(0, dtype=np.intp)
        done = 0
        while len(chosen) < k:
            if done == _ROUNDS * s:
                if self.allow_fewer and len(chosen):
                    break
                if not votes:
                    raise RankError("every row of A is zero: it has no anchors", rank=0)
                raise RankError(
                    f"only {len(chosen)} distinct extreme rows were found in {done} projections, k = {k} were asked "
                    f"for; ask for k ≤ {len(chosen)}, raise projections, or pass allow_fewer=True",
                    rank=len(chosen),
                )
            # What the first round misses sticks out too little for the directions asked for: try both from then on.
            kind = self.directions if done == 0 else "mixed"
            for row, weight in self._ballot(data, self._draw(kind, data, k, s * self.dimension, rng), rng):
                votes[row] = votes.get(row, 0.0) + weight
            done += s
            candidates = np.array(sorted(votes), dtype=np.intp)
            if candidates.size:  # none when all rows are zero
                points = data.dense_rows(candidates)
                if self.geometry == "cone":
                    points /= points.sum(axis=1, keepdims=True)
                weights = np.array([votes[row] for row in candidates.tolist()])
                chosen = choose(points, weights, k)
        return Selection(candidates[chosen], self._certificate(k, done, len(candidates), weights[chosen]))

    def _count(self, k: int) -> int:
        if self.projections is not None:
            return self.projections
        return int(np.ceil(3.0 / self.dimension * k * max(1.0, np.log(k / self.delta))))

    def _draw(self, kind: str, data: RowMatrix, k: int, number: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Random directions as columns; the two of a plane are of one kind."""
        m, n = data.shape
        if kind == "mixed":
            half = number // (2 * self.dimension) * self.dimension
            kinds = (("gaussian", number - half), ("whitened", half))
            return np.hstack([self._draw(one, data, k, some, rng) for one, some in kinds if some])
        if kind == "gaussian":
            return rng.standard_normal((n, number))
        size = min(m, max(4 * k, min(_PILOT_ROWS, _PILOT_ENTRIES // n)))
        pilot = data.dense_rows(np.sort(rng.choice(m, size, replace=False)))
        if self.geometry == "cone":
            pilot /= np.maximum(pilot.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        _, sigma, Vt = np.linalg.svd(pilot, full_matrices=False)
        rank = min(k, int(np.count_nonzero(sigma > 1e-10 * sigma[0])))
        if rank == 0:  # an all-zero pilot tells nothing
            return rng.standard_normal((n, number))
        x = rng.standard_normal((rank, number))
        if kind == "whitened":
            x /= sigma[:rank, None]
        return np.asarray(Vt[:rank].T @ x)

    def _ballot(
        self, data: RowMatrix, directions: NDArray[np.float64], rng: np.random.Generator
    ) -> Iterator[tuple[int, float]]:
        """(row, votes) of one pass over the data; the generator is for heirs that vote by chance."""
        number = directions.shape[1]
        tie = _TIE_ROUNDED if data.rounded else _TIE
        poll: Poll = Ends(number, tie) if self.dimension == 1 else Corners(number // 2, tie)
        for rows, P in projected(data, directions, cone=self.geometry == "cone"):
            poll.add(rows, P)
        return poll.votes()

    def _certificate(self, k: int, s: int, candidates: int, votes: NDArray[np.float64]) -> Certificate:
        share = 1.0 - (self.delta / k) ** (1.0 / s)  # k·(1 − share)^s = δ
        return Certificate(
            "sampled" if candidates == k else "none",
            f"{s} projections voted for {candidates} rows; with probability {1 - self.delta:g} they include every "
            f"anchor that is extreme in at least {share:.2g} of all projections",
            {"projections": s, "candidates": candidates, "votes": votes, "share": share, "delta": self.delta},
        )


def projected(
    data: RowMatrix, directions: NDArray[np.float64], *, cone: bool
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.float64]]]:
    """(rows, their projections) in one pass, a bounded number at a time, without the zero rows; ``cone``: as rays."""
    step = max(1, _PROJECTED_ENTRIES // directions.shape[1])
    for start, block in data.blocks():
        for first in range(0, block.shape[0], step):
            part = block[first : first + step]
            rows = start + first + np.arange(part.shape[0], dtype=np.intp)
            P = np.asarray(part @ directions)
            sums = np.asarray(part.sum(axis=1)).ravel()
            alive = sums > 0
            if not alive.all():
                rows, P, sums = rows[alive], P[alive], sums[alive]
            if cone:
                P /= sums[:, None]
            if rows.size:
                yield rows, P


def choose(points: NDArray[np.float64], votes: NDArray[np.float64], k: int) -> NDArray[np.intp]:
    """Up to k positions: most votes first, then the largest √votes × squared distance to the hull of those chosen.

    Fewer than k when all others lie in the hull. Ties go to the lowest position. Distances only fall as the hull
    grows, so those of earlier steps are upper bounds, and only the points at the head are held against the new hull.
    """
    if not len(points):
        return np.empty(0, dtype=np.intp)
    points = points / max(float(np.abs(points).max()), np.finfo(float).tiny)  # no square overflows or vanishes
    if points.shape[1] > len(points):  # the same distances in fewer coordinates
        points = np.asarray(np.linalg.qr(points.T, mode="r")).T
    negligible = 1e-20 * float(np.max(np.einsum("ij,ij->i", points, points)))
    chosen = [int(np.argmax(votes))]
    score = np.full(len(points), np.inf)
    while len(chosen) < k:
        hull = points[chosen]
        basis, corners = np.linalg.qr(hull.T)
        system = NonnegativeSystem(corners, sum_to=1.0)
        stale = np.ones(len(points), dtype=bool)
        score[chosen] = 0.0
        while stale[best := int(np.argmax(score))] and score[best] > 0.0:
            head = np.argsort(np.where(stale, -score, np.inf), kind="stable")[:_HEAD]
            gap = points[head] - system.solve(points[head] @ basis) @ hull
            distance = np.einsum("ij,ij->i", gap, gap)
            score[head] = np.where(distance > negligible, np.sqrt(votes[head]) * distance, 0.0)
            stale[head] = False
        if score[best] <= 0.0:
            break
        chosen.append(best)
    return np.array(chosen, dtype=np.intp)
