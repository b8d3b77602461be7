"""Noise-aware selection: from coordinates, by noise estimate, rule and refinement, to the anchors' rows and points."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInputError
from .clipping import Unclipped, clipped_noise
from .coordinates import DIRECTIONS, Coordinates, Frame
from .extremes import extreme_rows
from .groups import VARIES, group_medians, variance_beyond
from .hidden import dense_groups_for_hidden
from .how_many import how_many
from .noise import ROUNDING, Noise, estimate_noise
from .refine import Refined, refine
from .selection import RULES, select

__all__ = [
    "ALL",
    "SAMPLE",
    "TIE",
    "Found",
    "WorkingRows",
    "copies",
    "find_anchors",
    "spread_of_noise",
    "squared_distances",
    "working_rows",
]

ALL = 6_000  # up to this many rows, every row is a candidate and in the sample
SAMPLE = 6_000  # sampled rows of a larger matrix, besides the extreme ones
_CLEAN = 3.0  # rows more than this many times as noisy as typical ones are outliers, not candidates…
_FEW = 0.1  # …if less than this fraction of the rows is so noisy
_ENOUGH = 0.25  # sampled rows are candidates if fewer extreme ones than this fraction of the sample are usable
_EVEN = 2.0  # noise is even if the residuals of most rows agree within this factor
_FLAT = 1e-12  # variance, relative to the squared size of the points, that is rounding of single precision
_STANDS, _BEYOND = 1.1, 4  # smallest variance of a signal direction, relative to the mean of this many later ones
_TAILS = 4.0  # kurtosis above which the variation along a direction is not noise: that of a Gaussian is 3
_REFINED = 3_000  # rows whose clipping is undone to refine vertices; as many as are used
TIE = 1e-6  # distances and noise that differ by less, relative to the largest coordinate, are equal
_NEAR = 0.05  # copies of an anchor are this near, in edge lengths, besides their noise

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class WorkingRows:
    """The rows that the selection works on; their number does not grow with the matrix.

    Attributes
    ----------
    candidates
        Rows that may be vertices, sorted.
    sample
        Rows drawn uniformly, sorted; all rows if there are few.
    """

    candidates: NDArray[np.intp]
    sample: NDArray[np.intp]


@dataclass(frozen=True)
class Found:
    """Anchors found in coordinates.

    Attributes
    ----------
    indices
        The row nearest to each vertex, k distinct ones.
    vertices
        k × (k − 1).
    profiles
        The vertices as profiles, k × n, each with sum one.
    support
        Number of rows that are copies of each anchor within their noise.
    noise
        Noise estimated on the sample.
    neighbours
        How many points were averaged.
    refined
        Result of the refinement; None for rules without it.
    """

    indices: NDArray[np.intp]
    vertices: _Array
    profiles: _Array
    support: NDArray[np.intp]
    noise: Noise
    neighbours: int
    refined: Refined | None

    def details(self) -> dict[str, Any]:
        """Figures for a certificate."""
        figures: dict[str, Any] = {"neighbours": self.neighbours}
        if len(self.vertices) > 1:  # one anchor leaves no spread to compare the noise with
            figures["noise"] = self.noise.relative
        if self.refined is not None:
            figures |= {
                "refined": self.refined.kept,
                "refinement": self.refined.reason,
                "outliers": self.refined.outliers,
            }
            figures["variation"] = self.refined.variation
        return figures


def working_rows(coordinates: Coordinates, rng: np.random.Generator | None = None) -> WorkingRows:
    """Choose the rows to work on: all of them, or the extreme ones and a uniform sample."""
    usable = np.flatnonzero(coordinates.sums > 0)
    if len(usable) <= ALL:
        return WorkingRows(usable, usable)
    rng = np.random.default_rng(0) if rng is None else rng
    candidates = extreme_rows(coordinates.values, spread_of_noise(coordinates.frame, coordinates.left))
    return WorkingRows(candidates, np.sort(rng.choice(usable, SAMPLE, replace=False)))


def spread_of_noise(frame: Frame, left: _Array) -> _Array:
    """The noise of each row along a direction, from its residual beyond the directions."""
    n, d = frame.directions.shape
    return np.asarray(np.sqrt(left / max(1, n - 1 - d)))


def find_anchors(
    coordinates: Coordinates,
    k: int,
    rule: str = "auto",
    *,
    working: WorkingRows | None = None,
    neighbours: int | None = None,
    total: int | None = None,
    rng: np.random.Generator | None = None,
) -> Found | None:
    """Find anchors by a rule; None if no noise is detected and the rule is ``"auto"`` or k = 1: then use SPA's rows.

    Parameters
    ----------
    coordinates
        Coordinates of the rows.
    k
        Number of anchors.
    rule : "auto", "smoothed", "smoothed-one", "pseudo-points", "lifted" or "whitened"
        ``"auto"`` takes pseudo-points, or single rows if these make the sample clearly more likely. It enlarges their
        simplex, and refines it if held-out rows agree. If that leaves outliers, it starts from means of the rows near
        single rows within their noise, which also find anchors that are much rarer than others. If the rows show fewer
        than k − 1 directions, dense groups of rows take the place of vertices that the noise may have made. If they
        vary by more than their noise, also beyond k − 1 directions, medians of groups of rows take the place of the
        vertices (:mod:`.groups`). A single anchor is the centre of the rows without outliers, by every rule.
    working : WorkingRows
        Which rows to work on; :func:`working_rows` by default.
    neighbours : int
        How many points to average; determined from the noise by default.
    total : int
        How many rows the sample represents; by default the nonzero rows of ``coordinates``.
    """
    if rule not in RULES or rule == "spa":
        raise InvalidInputError(f"selection on coordinates must be one of {RULES}, without 'spa', got {rule!r}")
    rng = np.random.default_rng(0) if rng is None else rng
    working = working_rows(coordinates) if working is None else working
    columns = len(coordinates.frame.centre)
    if k == 1:
        return _centre(coordinates, working, total)
    sample, left_of_sample = coordinates.leading(k - 1, working.sample)
    noise = estimate_noise(sample, left_of_sample, columns, coordinates.frame.rounding)
    if rule == "auto" and not noise.seen:
        return None
    points, each, rows = _candidates(coordinates, k, working, noise)
    count = noise.neighbours(len(points), k) if neighbours is None else neighbours
    precision = 1.0 / np.maximum(each, 0.1 * noise.typical) ** 2 if noise.seen else np.ones(len(points))
    shown = _directions_shown(coordinates, working.sample, noise, k) if rule == "auto" else k - 1
    unclipped = _unclipped(coordinates.frame, noise, sample, left_of_sample)
    vertices = np.zeros((k, k - 1))
    vertices[:, :shown] = select(points[:, :shown], k, rule, neighbours=count, precision=precision)
    refined: Refined | None = None
    if rule == "auto" and shown == k - 1:
        starts = _starts(points, each, precision, vertices, count)
        refined, profiles = _refined(sample, noise.each, starts, unclipped, rng)
        if refined.variation > 1 and _vary(coordinates, k, working.sample):
            refined, profiles = _of_varying_rows(coordinates, working.sample, noise, refined, profiles)
        vertices = refined.vertices
    else:
        if shown < k - 1:
            sound = sample[noise.each <= _CLEAN * noise.typical, :shown]
            vertices[:, :shown] = dense_groups_for_hidden(vertices[:, :shown], sound, noise.typical)
        why = f"the rows show {shown} of {k - 1} directions"
        refined = Refined(vertices, False, 0.0, 0.0, np.zeros(k), why) if rule == "auto" else None
        profiles = unclipped.profiles(unclipped.points(vertices))
    return Found(
        indices=_nearest_rows(points, rows, each, vertices),
        vertices=vertices,
        profiles=profiles,
        support=copies(
            sample, noise, vertices, int(np.count_nonzero(coordinates.sums > 0)) if total is None else total
        ),
        noise=noise,
        neighbours=count,
        refined=refined,
    )


def _centre(coordinates: Coordinates, working: WorkingRows, total: int | None) -> Found | None:
    """The only anchor of noisy rows: their mean, by precision and without outliers. None if no noise is detected.

    For one anchor all variation of the rows is noise. Noise fills all directions: rows without it leave nothing beyond
    fewer directions than there are.
    """
    sample, columns, frame = working.sample, len(coordinates.frame.centre), coordinates.frame
    fewer = min(coordinates.shape[1], columns - 2, len(sample) - 2)
    if fewer < 1 or not estimate_noise(*coordinates.leading(fewer, sample), columns, frame.rounding).seen:
        return None
    noise = estimate_noise(*coordinates.leading(0, sample), columns)
    usable = noise.each <= _CLEAN * noise.typical
    if usable.mean() <= 1 - _FEW:
        usable = np.ones(len(sample), dtype=np.bool_)
    values, _ = coordinates.leading(coordinates.shape[1], sample[usable])
    precision = 1.0 / np.maximum(noise.each[usable], 0.1 * noise.typical) ** 2
    centre = precision @ values / precision.sum()
    rows = np.union1d(working.candidates, sample)
    values, left = coordinates.leading(coordinates.shape[1], rows)
    distances = np.sqrt(np.sum((values - centre) ** 2, axis=1) + left)
    nearest = np.argmax(distances <= distances.min() + TIE * np.abs(values).max(initial=0.0))
    total = int(np.count_nonzero(coordinates.sums > 0)) if total is None else total
    return Found(
        indices=rows[[nearest]],
        vertices=np.zeros((1, 0)),
        profiles=frame.profiles(centre[None]),
        support=np.rint([usable.mean() * total]).astype(np.intp),
        noise=noise,
        neighbours=int(usable.sum()),
        refined=None,
    )


def _candidates(
    coordinates: Coordinates, k: int, working: WorkingRows, noise: Noise
) -> tuple[_Array, _Array, NDArray[np.intp]]:
    """The leading coordinates, the noise and the indices of the rows that may be vertices: no outliers.

    If outliers are many, the farthest rows are outliers only, and in few columns they are few. Then the sampled rows
    are candidates too. They are not always, because the cost of neighbours grows with their number.
    """
    few = float(np.mean(noise.each > _CLEAN * noise.typical)) < _FEW  # more are a group of their own, not outliers
    columns, rounding = len(coordinates.frame.centre), coordinates.frame.rounding
    both = [working.candidates]
    if working.candidates is not working.sample:
        both.append(np.union1d(working.candidates, working.sample))
    for rows in both:
        points, left = coordinates.leading(k - 1, rows)
        each = estimate_noise(points, left, columns, rounding).each
        usable = each <= _CLEAN * noise.typical + TIE * np.abs(points).max() if few else np.ones(len(rows), np.bool_)
        if usable.sum() >= _ENOUGH * len(working.sample):
            break
    if usable.all() or usable.sum() <= 4 * k or not _span(points[usable], points, rounding):
        return points, each, rows
    return points[usable], each[usable], rows[usable]


def _span(some: _Array, points: _Array, rounding: float) -> bool:
    """Whether some of the points vary along every coordinate; if not, the others are not outliers but the signal.

    So it is if most rows are copies of one row, whose residual is rounding.
    """
    moved = some - some.mean(axis=0)
    variances = np.linalg.eigvalsh(moved.T @ moved / len(moved))
    size = float(np.einsum("ij,ij->", points, points)) / len(points)
    return bool(variances[0] > max(rounding, _FLAT * size))


def _directions_shown(coordinates: Coordinates, sample: NDArray[np.intp], noise: Noise, k: int) -> int:
    """How many of the k − 1 leading directions exceed the noise; k − 1 if that cannot be determined.

    Noise alone gives about equal variance along the following directions, and a Gaussian along each. If these have long
    tails, as in texts, they are not noise and cannot serve for comparison.
    """
    values = coordinates.values[sample, : k - 1 + _BEYOND].astype(np.float64)
    if values.shape[1] < k or not noise.seen:
        return k - 1
    beyond = (values[:, k - 1 :] / noise.each[:, None]) ** 2
    sizes = np.mean(beyond, axis=0)
    if not sizes.all() or np.median(np.mean(beyond**2, axis=0) / sizes**2) > _TAILS:
        return k - 1
    typical = np.minimum(1.0, noise.typical / np.maximum(noise.each, 1e-300)) ** 2
    variances = typical @ values**2
    below = np.flatnonzero(variances[: k - 1] <= _STANDS * variances[k - 1 :].mean())
    return int(below[0]) if len(below) and below[0] > 0 else k - 1


def _unclipped(frame: Frame, noise: Noise, sample: _Array, left: _Array) -> Unclipped:
    """Coordinates without clipping; the same coordinates unless the noise is even and was clipped at zero."""
    low, middle, high = np.quantile(left, [0.1, 0.5, 0.9])
    rounding = noise.relative <= 2 * ROUNDING  # of most rows: zeros are then no sign of clipping
    if not noise.seen or rounding or np.ptp(frame.scale) > 0 or high > _EVEN * low:
        return Unclipped(frame, sample, 0.0)
    (m, d), columns = sample.shape, len(frame.centre)
    some = frame.profiles(sample[:: max(1, m // 64)])
    sigma = clipped_noise(some, frame.zeros, middle * (columns - 1) / (columns - 1 - d))
    return Unclipped(frame, sample[noise.each <= _CLEAN * noise.typical], sigma)


def _starts(points: _Array, each: _Array, precision: _Array, vertices: _Array, count: int) -> list[_Array]:
    """The vertices; if they are means of neighbours also single rows, and means of the rows near these within noise.

    Means of ``count`` neighbours have no vertex at an anchor that fewer rows are near to.
    """
    if count < 2:
        return [vertices]
    single = select(points, len(vertices), "auto", neighbours=1)
    distances = squared_distances(points, single)
    reach = 2 * vertices.shape[1] * each[:, None] ** 2  # the expected squared distance between copies
    weights = np.where(distances <= np.maximum(reach, distances.min(axis=0)), precision[:, None], 0.0)
    return [vertices, single, weights.T @ points / weights.sum(axis=0)[:, None]]


def _refined(
    sample: _Array, noise: _Array, starts: list[_Array], unclipped: Unclipped, rng: np.random.Generator
) -> tuple[Refined, _Array]:
    """Vertices refined on the sample, in coordinates without clipping, and their profiles."""
    if unclipped.sigma > 0:
        some = rng.permutation(len(sample))[:_REFINED]
        sample, noise = unclipped.points(sample[some]), noise[some]
    refined = refine(sample, noise, np.array([unclipped.points(start) for start in starts]), rng)
    return replace(refined, vertices=unclipped.clipped(refined.vertices)), unclipped.profiles(refined.vertices)


def _vary(coordinates: Coordinates, k: int, sample: NDArray[np.intp]) -> bool:
    """Whether rows vary beyond k − 1 directions, without a clear number of directions: these would be more anchors."""
    if not variance_beyond(coordinates, k, sample) > VARIES:
        return False
    shown = how_many(coordinates)
    return not (shown.clear and shown.k is not None and shown.k > k)


def _of_varying_rows(
    coordinates: Coordinates, sample: NDArray[np.intp], noise: Noise, refined: Refined, profiles: _Array
) -> tuple[Refined, _Array]:
    """Medians of groups in place of refined vertices, and their profiles, unless they explain the rows far worse."""
    k, d = len(profiles), min(coordinates.shape[1], max(DIRECTIONS, len(profiles) - 1))
    clean = noise.each <= _CLEAN * noise.typical
    some = sample[clean] if clean.mean() > 1 - _FEW else sample
    medians = group_medians(coordinates.leading(d, some)[0], k, coordinates.frame.points(profiles, d))
    if medians is None:
        return refined, profiles
    why = "the rows vary by more than their noise: anchors are medians of groups of rows"
    return (
        replace(refined, vertices=medians[:, : k - 1], kept=False, reason=why),
        coordinates.frame.profiles(medians),
    )


def _nearest_rows(points: _Array, rows: NDArray[np.intp], noise: _Array, vertices: _Array) -> NDArray[np.intp]:
    """For each vertex the nearest row, counting its noise, that is not assigned to an earlier vertex.

    Of rows that are equally near, such as copies, the first, whatever their rounding.
    """
    distances = np.sqrt(squared_distances(points, vertices) + vertices.shape[1] * noise[:, None] ** 2)
    tie = TIE * np.abs(points).max(initial=0.0)
    taken: list[int] = []
    for j in range(len(vertices)):
        distances[taken, j] = np.inf
        taken.append(int(np.argmax(distances[:, j] <= distances[:, j].min() + tie)))
    return np.asarray(rows[taken], dtype=np.intp)


def copies(points: _Array, noise: Noise, vertices: _Array, total: int) -> NDArray[np.intp]:
    """How many of all rows are copies of each vertex: near it within their noise, and nearer than to any other."""
    k = len(vertices)
    distances = np.sqrt(squared_distances(points, vertices))
    edges = np.sqrt(squared_distances(vertices, vertices)).sum() / max(1, k * (k - 1))
    reach = np.minimum(_NEAR * edges + 2 * noise.each * np.sqrt(max(1, k - 1)), edges / 2)
    near = (distances <= reach[:, None]) & (np.argmin(distances, axis=1)[:, None] == np.arange(k))
    return np.rint(near.sum(axis=0) * (total / len(points))).astype(np.intp)


def squared_distances(points: _Array, others: _Array) -> _Array:
    """The squared distance of every point from each of the others, from their products."""
    squares = np.einsum("ij,ij->i", points, points)[:, None] - 2 * points @ others.T
    return np.asarray(np.maximum(squares + np.einsum("ij,ij->i", others, others), 0.0))
