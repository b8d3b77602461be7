"""Estimate whether other data from the same source would give the same anchors.

The selection is repeated on two disjoint halves of the rows, and on all rows with additional noise of the estimated
size. The move of each anchor is measured between profiles, as an angle and as a distance in the units of the data.
Without noise the halves remain: rows that all are mixtures have no corner that other rows would show again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from .._equality import ComparedByValue
from ..errors import FastAnchorsError
from ..matrix import ArrayMatrix
from . import successive
from .anchoring import Found, WorkingRows, find_anchors, squared_distances
from .coordinates import Coordinates
from .how_many import how_many
from .noise import can_estimate
from .reader import Reader

__all__ = ["Moves", "Stability", "alike_halves", "compare", "no_noise", "stability", "without_noise"]

_FIRM, _LOOSE = 0.25, 0.5  # moves relative to the distance to the nearest other anchor
_FEW = 3  # an anchor supported by fewer rows than this gets a warning
_SAME = 1e-5  # without noise, anchors that differ by less than this angle are the same: coordinates are rounded
_ZERO = 1e-6  # residual, relative to the first, that counts as zero in rounded coordinates

_Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Stability(ComparedByValue):
    """How far each anchor moves if the data are drawn again.

    Attributes
    ----------
    noise
        Typical noise of a row, relative to the spread of the rows, both along the k − 1 leading directions (noise
        of the whole row is larger by about √(columns/(k − 1))); None if it is not known.
    angles
        For each anchor the root mean square angle by which it moved, in radians; without noise the largest.
    moves
        The same as a distance in the units of the data.
    relative
        Moves relative to the distance to the nearest other anchor.
    support
        Rows that are copies of each anchor; None if that is not known.
    verdicts
        For each anchor "firm", "loose" or "noise".
    shown
        Number of anchors that exceed the noise (:mod:`fastanchors.greedy.how_many`); None if it is not known.
    """

    noise: float | None
    angles: _Array
    moves: _Array
    relative: _Array
    support: NDArray[np.intp] | None
    verdicts: tuple[str, ...]
    shown: int | None = None

    @property
    def warnings(self) -> list[str]:
        """Doubts about the anchors and about their number, one sentence each."""
        warnings = []
        for kind, doubt in (("noise", "would not be found again"), ("loose", "would move far")):
            which = [j for j, verdict in enumerate(self.verdicts) if verdict == kind]
            if which:
                warnings.append(f"{_named(which)} {doubt} in other data from the same source")
        few = [j for j, count in enumerate(() if self.support is None else self.support) if count < _FEW]
        if few:
            warnings.append(f"{_named(few)} {'is' if len(few) == 1 else 'are'} supported by fewer than {_FEW} rows")
        k = len(self.verdicts)
        if self.shown is not None and self.shown < k > self.verdicts.count("firm"):
            warnings.append(f"{k} anchors are more than the data shows; {self.shown} stand out of the noise")
        return warnings

    @property
    def statement(self) -> str:
        """The result in one sentence."""
        firm, k = self.verdicts.count("firm"), len(self.verdicts)
        if self.noise == 0 and not self.angles.any():
            return "no noise is seen: other data from the same source would give the same anchors"
        farthest = f"the largest move is {float(self.angles.max()):.2g} rad"
        if self.noise is None:
            return f"firm when computed again from halves of the rows: {firm} of {k}; {farthest}"
        if self.noise == 0:
            return f"no noise is seen, but halves of the rows differ: {firm} of {k} anchors are firm, {farthest}"
        return f"noise is {self.noise:.2g} of the spread of the rows; {firm} of {k} anchors are firm, {farthest}"

    def as_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON."""
        return {
            "statement": self.statement,
            "noise": self.noise,
            "angles": [float(x) for x in self.angles],
            "moves": [float(x) for x in self.moves],
            "relative": [float(x) for x in self.relative],
            "support": None if self.support is None else [int(x) for x in self.support],
            "verdicts": list(self.verdicts),
            "shown": self.shown,
            "warnings": self.warnings,
        }


def _named(which: list[int]) -> str:
    """Anchors by their numbers, which start at 1."""
    numbers = [str(j + 1) for j in which]
    if len(numbers) == 1:
        return f"anchor {numbers[0]}"
    return f"anchors {', '.join(numbers[:-1])} and {numbers[-1]}"


def no_noise(
    coordinates: Coordinates,
    vertices: _Array,
    working: WorkingRows,
    *,
    support: NDArray[np.intp] | None = None,
    sums: _Array | None = None,
    rng: np.random.Generator | None = None,
) -> Stability:
    """The result if no noise is detected: plain SPA is repeated on halves of the working rows.

    Rows that are alike are divided between the halves, so anchors with several copies do not move.

    Parameters
    ----------
    vertices
        The anchors in the k − 1 leading coordinates.
    support
        Rows that are copies of each.
    sums
        The sum of each anchor's row, if SPA compares rows as they are; None if it compares profiles.
    """
    k = len(vertices)
    rng = np.random.default_rng(0) if rng is None else rng
    rows = np.union1d(working.candidates, working.sample)
    points, sizes = coordinates.leading(k - 1, rows)[0], coordinates.sums[rows]
    if sums is None:
        sizes = np.ones(len(rows))
    for vertex, size in zip(vertices, np.ones(k) if sums is None else sums):  # SPA's rows may not be among those kept
        if not ((points == vertex).all(axis=1) & (sizes == size)).any():
            points, sizes = np.vstack([points, vertex]), np.append(sizes, size)
    half = alike_halves(np.sqrt(squared_distances(points, vertices)), rng)
    frame = (
        coordinates.frame
    )  # a profile is (1, point)·plane, and in the coordinates of an orthonormal basis (1, point)·turn
    plane = np.vstack([frame.centre, frame.directions[:, : k - 1].T / frame.scale])
    turn = np.linalg.qr(plane.T)[1].T
    profiles, anchors = ((np.column_stack([np.ones(len(at)), at]) @ turn) for at in (points, vertices))
    again: list[_Array | None] = []
    for side in (half, ~half):
        chosen = _successive_rows(profiles[side] * sizes[side, None], k)
        again.append(profiles[side][chosen])
    return without_noise(anchors, again, support, np.ones(k) if sums is None else sums)


def without_noise(
    profiles: _Array, again: Sequence[_Array | None], support: NDArray[np.intp] | None, scale: _Array
) -> Stability:
    """Compare anchors of rows without noise with those of halves: the larger move counts, as one half has their rows.

    Moves within rounding are none. ``scale`` converts profiles to the units of the data.
    """
    each = [compare(profiles, [half]) for half in again]
    angles, distances, relative = (
        np.max([getattr(moved, name) for moved in each], axis=0) for name in ("angles", "distances", "relative")
    )
    same = angles <= _SAME
    angles[same], distances[same], relative[same] = 0.0, 0.0, 0.0
    return Stability(0.0, angles, distances * scale, relative, support, _verdicts(relative))


def alike_halves(distances: _Array, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Divide rows at random into halves that both have rows like each anchor, if there are several.

    ``distances`` are those of each row from each anchor. Of each two successive rows in the order of their distance
    from the nearest anchor, one is in each half.
    """
    m = len(distances)
    nearest = np.argmin(distances, axis=1)
    order = np.lexsort((distances.min(axis=1), nearest))
    starts = np.searchsorted(nearest[order], np.arange(distances.shape[1]))
    place = np.arange(m) - starts[nearest[order]]  # among the rows nearest to the same anchor
    coin = rng.random(m) < 0.5
    half = np.empty(m, dtype=np.bool_)
    half[order] = coin[np.arange(m) - place % 2] ^ (place % 2 == 1)
    return half


def _successive_rows(points: _Array, k: int) -> NDArray[np.intp]:
    """The rows that SPA chooses, fewer than k if the points have fewer dimensions."""
    if not len(points):
        return np.zeros(0, dtype=np.intp)
    try:
        path = successive.successive_projection(
            Reader(ArrayMatrix(points)), min(k, len(points)), tol=_ZERO, allow_fewer=True
        )
    except FastAnchorsError:
        return np.zeros(0, dtype=np.intp)
    return np.array(path.indices, dtype=np.intp)


def stability(
    coordinates: Coordinates,
    found: Found,
    working: WorkingRows,
    *,
    rule: str = "auto",
    scale: _Array | None = None,
    rng: np.random.Generator | None = None,
) -> Stability:
    """Repeat the selection on halves of the working rows and with noise drawn again, and compare.

    Parameters
    ----------
    scale
        Factors that convert the k profiles to the units of the data; 1 by default.
    """
    rng = np.random.default_rng(0) if rng is None else rng
    scale = np.ones(len(found.vertices)) if scale is None else scale
    moved = compare(found.profiles, _repeated(coordinates, found, working, rule, rng))
    k = len(found.vertices)
    known = k > 1 and can_estimate(len(coordinates.frame.centre), k - 1)  # one anchor leaves no spread to compare with
    return Stability(
        found.noise.relative if known else None,
        moved.angles,
        moved.distances * scale,
        moved.relative,
        found.support,
        moved.verdicts,
        how_many(coordinates.of_rows(working.sample)).k,
    )


@dataclass(frozen=True)
class Moves:
    """How far each anchor moved in the repetitions: root mean square angles and distances, and a verdict."""

    angles: _Array
    distances: _Array
    relative: _Array  # to the distance to the nearest other anchor
    verdicts: tuple[str, ...]


def compare(profiles: _Array, again: Sequence[_Array | None]) -> Moves:
    """Compare anchors with those of several repetitions, which may have found fewer anchors, or none."""
    k = len(profiles)
    angles, distances = [], []
    for found in again:
        others = _matched(profiles[:0] if found is None else found, profiles)
        distances.append(np.linalg.norm(others - profiles, axis=1))
        angles.append(_angles(others, profiles))
    between = np.linalg.norm(profiles[:, None] - profiles[None], axis=2) + np.diag(np.full(k, np.inf))
    nearest = between.min(axis=1) if k > 1 else np.linalg.norm(profiles, axis=1)  # a single anchor has no other
    move = np.sqrt(np.mean(np.square(distances), axis=0))
    move = np.where(np.isnan(move), np.inf, move)
    angle = np.sqrt(np.mean(np.square(angles), axis=0))
    relative = move / np.maximum(nearest, 1e-300)
    return Moves(np.where(np.isnan(angle), np.pi / 2, angle), move, relative, _verdicts(relative))


def _verdicts(relative: _Array) -> tuple[str, ...]:
    return tuple("firm" if r <= _FIRM else "loose" if r <= _LOOSE else "noise" for r in relative)


def _repeated(
    coordinates: Coordinates, found: Found, working: WorkingRows, rule: str, rng: np.random.Generator
) -> list[_Array | None]:
    """Profiles of the anchors of two halves, and of all working rows with noise added."""
    half = rng.random(coordinates.shape[0]) < 0.5
    same = working.candidates is working.sample
    results: list[_Array | None] = []
    for side in (half, ~half):
        some = working.candidates[side[working.candidates]]
        part = WorkingRows(some, some if same else working.sample[side[working.sample]])
        results.append(_profiles(coordinates, len(found.vertices), part, rule, rng))
    union = np.union1d(working.candidates, working.sample)
    at, left = coordinates.leading(coordinates.shape[1], union)
    each = np.sqrt(left / max(1, len(coordinates.frame.centre) - 1 - coordinates.shape[1]))
    shaken = (at + each[:, None] * rng.standard_normal(at.shape)).astype(np.float32)
    again = Coordinates(coordinates.frame, shaken, 2 * left, coordinates.sums[union])
    candidates = np.searchsorted(union, working.candidates)
    moved = WorkingRows(candidates, candidates if same else np.searchsorted(union, working.sample))
    results.append(_profiles(again, len(found.vertices), moved, rule, rng))
    return results


def _profiles(
    coordinates: Coordinates, k: int, working: WorkingRows, rule: str, rng: np.random.Generator
) -> _Array | None:
    try:
        found = find_anchors(coordinates, k, rule, working=working, rng=rng)
    except (FastAnchorsError, np.linalg.LinAlgError):
        return None
    return None if found is None else found.profiles


def _matched(profiles: _Array, to: _Array) -> _Array:
    """Match profiles to ``to`` with the least total distance, in the order of ``to``; NaN if there are fewer."""
    distances = np.linalg.norm(profiles[:, None] - to[None], axis=2)
    rows, columns = linear_sum_assignment(distances)
    matched = np.full_like(to, np.nan)
    matched[columns] = profiles[rows]
    return matched


def _angles(these: _Array, those: _Array) -> _Array:
    dots = np.einsum("ij,ij->i", these, those)
    lengths = np.linalg.norm(these, axis=1) * np.linalg.norm(those, axis=1)
    return np.asarray(np.arccos(np.clip(dots / lengths, -1.0, 1.0)))
