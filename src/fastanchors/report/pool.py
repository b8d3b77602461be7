"""Collect the anchors for every k: results for fewer anchors, and the distinct points of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..anchors import Anchors, Certificate
from ..errors import InvalidInputError
from ..matrix.array import ArrayMatrix
from ..matrix.contract import RowMatrix
from ..solvers.fas import FAS

__all__ = ["Pool", "numbers_up_to", "pool_of", "prefixes", "results_for_every_k"]

_SOUGHT, _FEWEST = 50, 8  # values of k for which anchors that are not nested are computed, and if they are many
_NUMBERS = 120_000  # coordinates of points in the page, 4 bytes each
_NEAR = 1e-6  # relative distance of a point from the span of the basis
_FIRST = "the first of the anchors that were found for a larger number"

_Array = NDArray[np.float64]


def results_for_every_k(matrix: RowMatrix, anchors: Anchors, seed: int | None) -> list[Anchors]:
    """Results for 1, 2, … anchors, ending with the given one: its first anchors, or computed again if not nested.

    Noise-aware anchors are points that depend on k. They are computed for at most 50 values of k. The given result is
    computed again if it comes from a file, without the data that its stability is computed from.
    """
    k = len(anchors)
    rule = anchors.certificate.details.get("selection")
    if anchors.solver != "fas" or anchors.points is None or rule is None:
        return prefixes(anchors)
    sizes = numbers_up_to(k, 1 if rule == "auto" else 2)
    known = anchors.certificate.evidence is not None
    found = FAS(selection=rule).seek(matrix, [size for size in sizes if size < k + (not known)] or [1], rng=seed)
    fewer = [step for step in found if len(step) < k]
    same = not known and np.array_equal(found[-1].indices, anchors.indices)
    return [*fewer, replace(anchors, certificate=found[-1].certificate) if same else anchors]


def numbers_up_to(most: int, first: int = 1) -> list[int]:
    """Values of k up to ``most``: all of them up to 50, fewer the larger they are, as their cost grows with k³."""
    count = min(_SOUGHT, max(_FEWEST, _SOUGHT**2 // most))
    return np.unique(np.linspace(first, most, count).round().astype(int)).tolist()


def prefixes(anchors: Anchors) -> list[Anchors]:
    """The first 1, 2, … of the anchors: the results for every k, if these are nested."""
    given = anchors.certificate
    of_fewer = replace(given, evidence=None) if anchors.points is None else Certificate("none", _FIRST)
    return [
        Anchors(
            anchors.indices[:k],
            solver=anchors.solver,
            cost=anchors.cost,
            seconds=anchors.seconds,
            certificate=given if k == len(anchors) else of_fewer,
            names=None if anchors.names is None else anchors.names[:k],
            points=None if anchors.points is None else anchors.points[:k],
        )
        for k in range(1, len(anchors) + 1)
    ]


@dataclass(frozen=True)
class Pool:
    """The distinct anchors of the results for several k.

    Attributes
    ----------
    points
        Points × columns.
    basis
        Directions × columns, orthonormal. All points lie in their span, so products of rows and points need only
        coordinates in it.
    chosen
        Indices of the points of each k.
    results
        The result for each k.
    """

    points: _Array
    basis: _Array
    chosen: dict[int, list[int]]
    results: dict[int, Anchors]

    @property
    def unit(self) -> float:
        """The norm of the longest point, the unit of length in the page: keeps single precision in range."""
        return float(np.linalg.norm(self.points, axis=1).max()) or 1.0

    def coordinates(self, rows: ArrayMatrix | _Array) -> _Array:
        """Coordinates of rows or points in the basis, in units of the longest point."""
        return np.asarray(rows.dot(self.basis.T / self.unit))


def pool_of(matrix: RowMatrix, steps: Sequence[Anchors]) -> Pool:
    """The distinct points of all results; some values of k are left out if the page would become too large."""
    steps, every = list(steps), 1
    while True:
        points, chosen = _different(matrix, steps[::-every][::-1])
        most = len(points) if every >= len(steps) else _NUMBERS // len(points)
        basis = _basis(points, most)
        if basis is not None:
            if not len(basis):
                raise InvalidInputError("the squares of the anchors overflow or vanish; divide A by its largest entry")
            return Pool(points, basis, chosen, {len(step): step for step in steps})
        every += 1


def _different(matrix: RowMatrix, steps: Sequence[Anchors]) -> tuple[_Array, dict[int, list[int]]]:
    """The points, and the indices of those of each k. Rows are read once."""
    numbers: dict[Any, int] = {}
    chosen: dict[int, list[int]] = {}
    points: list[_Array | None] = []
    for step in steps:
        ids = []
        for j, index in enumerate(step):
            key = index if step.points is None else step.points[j].tobytes()
            if key not in numbers:
                numbers[key] = len(points)
                points.append(None if step.points is None else np.asarray(step.points[j], dtype=np.float64))
            ids.append(numbers[key])
        chosen[len(step)] = ids
    unread = [key for key in numbers if isinstance(key, int)]
    if unread:
        for index, row in zip(unread, matrix.dense_rows(unread), strict=True):
            points[numbers[index]] = row
    return np.array(points), chosen


def _basis(points: _Array, most: int) -> _Array | None:
    """Orthonormal basis of the span of the points by greedy selection; None if it has more than ``most`` directions."""
    with np.errstate(over="ignore"):
        norms = np.linalg.norm(points, axis=1, keepdims=True)
    left = np.divide(points, norms, out=np.zeros_like(points), where=norms > 0)
    basis = np.empty((min(most, *points.shape), points.shape[1]))
    for count in range(len(basis) + 1):
        sizes = np.einsum("ij,ij->i", left, left)
        far = int(np.argmax(sizes))
        if sizes[far] <= _NEAR**2 or count == min(points.shape):
            return basis[:count]
        if count == len(basis):
            return None
        direction = left[far] - basis[:count].T @ (basis[:count] @ left[far])  # repeated because of rounding
        basis[count] = direction / np.linalg.norm(direction)
        left -= np.outer(left @ basis[count], basis[count])
    return None
