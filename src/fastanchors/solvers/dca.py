"""DCA, divide-and-conquer anchoring: anchors by votes of many random projections.

T. Zhou, W. Bian and D. Tao, "Divide-and-conquer anchoring for near-separable nonnegative matrix factorization and
completion in high dimensions", ICDM 2013; T. Zhou, J. Bilmes and C. Guestrin, "Divide-and-conquer learning by
anchoring a conical hull", NIPS 2014.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from .._validate import check_choice, check_flag, check_number, check_size
from ..anchors import Certificate
from ..errors import InvalidInputError, RankError, TooLargeError
from ..greedy.nnls import NonnegativeSystem
from ..matrix import RowMatrix
from ..matrix.scaled import finite
from ._solver import Selection, Solver
from ._votes import Corners, Ends, Votes

__all__ = ["DCA"]

_PROJECTED_ENTRIES = 1 << 22  # entries of the projected block held at a time
_PILOT_ROWS = 2000
_PILOT_ENTRIES = 1 << 20
_MOST_ENTRIES = 1 << 31  # of the directions
# Projections closer than this, relative to the largest, are equal, and the lower row wins: copies of a row may differ
# by rounding, of the product or of a view in single precision.
_TIE = 1e-11
_TIE_ROUNDED = 1e-6
_HEAD = 64  # candidates whose distance to the hull is computed at a time
_ROUNDS = 4  # largest number of rounds of projections while fewer than k distinct rows have votes


class DCA(Solver):
    """Divide-and-conquer anchoring (DCA).

    If the rows are projected to a line, the two ends are projections of anchors; if they are projected to a plane, all
    corners of the hull are. Each random projection therefore votes for a few anchors, and O(k·log k) projections find
    all anchors that are extreme often enough. Takes one pass over the data, with one matrix product per block.

    Parameters
    ----------
    projections
        Number s of projections; None means ⌈3·k·log(k/δ)⌉ for lines and half of it for planes. An anchor that is an end
        of a random line with probability at least 1/k is then missed with probability at most δ/k, so all are found
        with probability 1 − δ.
    dimension
        2 for planes, 1 for lines. The votes of a corner in a plane are the fraction of the plane's directions in which
        it is an end, the expectation of its votes on lines, for one sort per plane.
    geometry
        ``"hull"`` treats rows as points, ``"cone"`` as rays: projections are divided by the row's sum, which is the
        same as scaling all rows to unit l1 norm. Zero rows are never anchors.
    directions
        ``"gaussian"`` as published; ``"row-space"`` draws them in the span of the k leading right singular vectors of a
        sample of at most 2000 rows; ``"whitened"`` also divides by the singular values, so that ill-conditioned anchors
        are as extreme as the others; ``"mixed"`` draws half of them gaussian, half whitened.
    delta
        Probability δ of missing an anchor, for the default of ``projections``.
    allow_fewer
        Return fewer than k anchors when fewer rows are extreme, instead of raising ``RankError``.

    Notes
    -----
    The k anchors are chosen among the rows with votes: first the row with most votes, then repeatedly the row with the
    largest √votes × squared distance to the convex hull of the rows chosen so far. (Counting votes alone fails when
    they are split over copies of an anchor. Here copies of a chosen row have distance zero and are never chosen.) If
    fewer than k rows with votes lie outside each other's hull, further rounds of s mixed projections follow; after the
    fourth round :class:`RankError` is raised.

    No number of directions is enough for every matrix: an anchor that is barely extreme is an end of very few lines,
    and if noise gives votes to other rows, nothing shows that it is missing. Lines in gaussian directions, as
    published, missed an anchor in 29 of 320 matrices of the rank-deficient and the ill-conditioned families
    (:mod:`fastanchors.datasets`, k = 20, low noise), because it had no votes. Mixed directions missed one in 4 of them
    on lines, and in none on planes. That is the default; ``dimension=1`` is two to three times faster on small
    matrices. Time O(nnz·s); memory: one block of rows, 32 MB of projections and the rows with votes (at most 2s for
    lines).

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
        if not isinstance(dimension, int | np.integer) or dimension not in (1, 2):
            raise InvalidInputError(f"dimension must be 1 or 2, got {dimension!r}")
        check_choice(geometry, ("hull", "cone"), name="geometry")
        check_choice(directions, ("gaussian", "row-space", "whitened", "mixed"), name="directions")
        self.projections = None if projections is None else check_size(projections, name="projections")
        self.dimension = dimension
        self.geometry = geometry
        self.directions = directions
        self.delta = check_number(delta, name="delta", minimum=1e-300, maximum=1.0)
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
                    f"only {len(chosen)} distinct extreme rows were found in {done} projections, k = {k} were "
                    f"requested; use k ≤ {len(chosen)}, more projections, or allow_fewer=True",
                    rank=len(chosen),
                )
            # Anchors missed in the first round are barely extreme in the requested directions: use both kinds now.
            kind = self.directions if done == 0 else "mixed"
            for row, weight in self._collect_votes(data, self._draw(kind, data, k, s * self.dimension, rng), rng):
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
        if number * n > _MOST_ENTRIES:
            raise TooLargeError(
                f"{number // self.dimension:,} projections of {n:,} columns are too many for the memory; use fewer"
            )
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
        pilot /= max(float(pilot.max()), np.finfo(float).tiny)  # squares must not overflow or vanish
        _, sigma, Vt = np.linalg.svd(pilot, full_matrices=False)
        rank = min(k, int(np.count_nonzero(sigma > 1e-10 * sigma[0])))
        if rank == 0:  # all sampled rows are zero
            return rng.standard_normal((n, number))
        x = rng.standard_normal((rank, number))
        if kind == "whitened":
            x *= sigma[0] / sigma[:rank, None]
        return np.asarray(Vt[:rank].T @ x)

    def _collect_votes(
        self, data: RowMatrix, directions: NDArray[np.float64], rng: np.random.Generator
    ) -> Iterator[tuple[int, float]]:
        """(row, votes) of one pass over the data; ``rng`` is for subclasses whose votes are random."""
        number = directions.shape[1]
        tie = _TIE_ROUNDED if data.rounded else _TIE
        votes: Votes = Ends(number, tie) if self.dimension == 1 else Corners(number // 2, tie)
        for rows, P in projected(data, directions, cone=self.geometry == "cone"):
            votes.add(rows, P)
        return votes.votes()

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
    """(rows, projections) of the non-zero rows in one pass, a bounded number at a time; ``cone``: rows as rays."""
    step = max(1, _PROJECTED_ENTRIES // directions.shape[1])
    for start, block in data.blocks():
        for first in range(0, block.shape[0], step):
            part = block[first : first + step]
            rows = start + first + np.arange(part.shape[0], dtype=np.intp)
            with np.errstate(over="ignore", invalid="ignore"):
                P = finite(np.asarray(part @ directions), "the projections")
                sums = finite(np.asarray(part.sum(axis=1)).ravel())
            alive = sums > 0
            if not alive.all():
                rows, P, sums = rows[alive], P[alive], sums[alive]
            if cone:
                P /= sums[:, None]
            if rows.size:
                yield rows, P


def choose(points: NDArray[np.float64], votes: NDArray[np.float64], k: int) -> NDArray[np.intp]:
    """Up to k positions: most votes first, then the largest √votes × squared distance to the hull of those chosen.

    Fewer than k if all others lie in the hull. Ties go to the lowest position. Distances only decrease as the hull
    grows, so old ones are upper bounds, and new distances are computed only for the points with the largest scores.
    """
    if not len(points):
        return np.empty(0, dtype=np.intp)
    points = points / max(float(np.abs(points).max()), np.finfo(float).tiny)  # squares must not over- or underflow
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
