"""Robust selection: anchors need near neighbours, so that isolated outliers are not selected.

SPA selects the row farthest from the span of the anchors so far, so it selects any bad row (a dead pixel, a dark pixel
amplified by l1 scaling). Real anchors have near neighbours. At each step the residuals r_j of all rows are compared
with that of the candidate i; its *near neighbours* are the rows with

    ‖r_i − r_j‖ ≤ radius·‖r_i‖.

``"neighbours"`` selects the candidate only if it has at least ``support`` of them (itself included); otherwise the row
is excluded from then on and the next largest is tried. ``"average"`` and ``"median"`` also replace the candidate by the
mean (or the entry-wise median) of its ``support`` nearest neighbours, which reduces the noise: the smoothed SPA of
Nadisic, Gillis and Kervazo (2023), after Bhattacharyya and Kannan's latent k-simplex (2020).

The distances need only the products a_j·r_i, which SPA computes anyway for the row it selects: a test that succeeds is
free, a candidate that fails costs a fraction of one more pass (candidates are then tested in batches).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .._validate import check_choice, check_number
from ..errors import InvalidInputError, InvalidTypeError
from ..greedy.residuals import Residuals
from ..greedy.successive import Step
from ..greedy.ties import TIE, choose, smallest

__all__ = ["Robust", "Supported", "as_robust"]

_KINDS = ("neighbours", "average", "median")
_LEAST, _MOST = 0.5, 0.95  # range of a radius that is chosen from the data
_FEWEST = 3  # smallest default number of neighbours
_ROOM = 1.25  # the radius is this factor times that of the median row
_RADIUS_SAMPLE = 32  # rows the radius is estimated from
_BATCH = 32  # candidates tested in one pass after the first has failed


@dataclass(frozen=True)
class Robust:
    """How many near neighbours an anchor needs.

    Parameters
    ----------
    kind
        ``"neighbours"`` (the anchor is the candidate row), ``"average"`` or ``"median"`` (of its nearest neighbours;
        ``Anchors.points`` holds these points, ``Anchors.indices`` the row of the group nearest to each).
    support
        Number of near neighbours, the candidate included, or if below 1 a fraction of the rows (at least 2). None: 3
        for ``"neighbours"``, and for the averages 1 % of the rows but at least 3; or 3 if the rows are so far apart
        that the median row has fewer neighbours at any radius below 0.95. An anchor with fewer copies counts as an
        outlier.
    radius
        Largest distance of a near neighbour, relative to the residual of the candidate; between 0 and 1. At 0.5 only
        isolated rows are set aside. None estimates it from some rows: 1.25 times the radius that the median row needs,
        between 0.5 and 0.95, because rows of noisy or sparse data are far apart.

    Examples
    --------
    >>> import fastanchors as fa
    >>> import numpy as np
    >>> X = np.repeat(np.eye(4), 5, axis=0)
    >>> X[0] = [0, 9, 9, 9]  # an outlier
    >>> plain, robust = fa.SPA(), fa.SPA(robust=fa.solvers.Robust(support=3))
    >>> 0 in plain.seek(X, 3).indices, 0 in robust.seek(X, 3).indices
    (True, False)
    """

    kind: Literal["neighbours", "average", "median"] = "neighbours"
    support: float | None = None
    radius: float | None = None

    def __post_init__(self) -> None:
        check_choice(self.kind, _KINDS, name="robust")
        for name in ("support", "radius"):
            if getattr(self, name) is not None:
                check_number(getattr(self, name), name=name)
        if self.support is not None and not 0 < self.support < 1 and (self.support < 2 or self.support % 1):
            raise InvalidInputError(f"support must be None, a fraction or a count of at least 2, got {self.support}")
        if self.radius is not None and not 0 < self.radius < 1:
            raise InvalidInputError(f"radius must be strictly between 0 and 1, got {self.radius}")

    def count(self, rows: int) -> int:
        """``support`` as a number of rows."""
        if self.support is None:
            return max(3, math.ceil(0.01 * rows)) if self.averages else 3
        return max(2, math.ceil(self.support * rows)) if self.support < 1 else int(self.support)

    @property
    def averages(self) -> bool:
        """Whether anchors are averages rather than rows."""
        return self.kind != "neighbours"

    def average(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """The mean or median of a group of rows."""
        return np.median(rows, axis=0) if self.kind == "median" else rows.mean(axis=0)


def as_robust(robust: Any) -> Robust | None:
    """None, a kind by name, or a :class:`Robust`."""
    if robust is None or isinstance(robust, Robust):
        return robust
    if isinstance(robust, str):
        return Robust(robust)  # type: ignore[arg-type]  # __post_init__ checks the name
    raise InvalidTypeError(f"robust must be None, a name or a Robust, got {type(robust).__name__}")


class Supported:
    """Selection rule: the largest residual with near neighbours. Rows without them are added to ``set_aside``."""

    def __init__(self, robust: Robust, outliers: Sequence[int] = ()) -> None:
        self.robust = robust
        self.set_aside = list(outliers)
        self._radius = robust.radius
        self._count: int | None = None

    def __call__(self, residuals: Residuals, floor: float) -> Step | None:
        robust = self.robust
        count = self._count or robust.count(residuals.values.size)
        batch = 1
        while True:
            rows = _largest(residuals, batch, floor)
            if not rows:
                return None
            batch = _BATCH
            rests = residuals.off_basis(residuals.reader.rows(np.array(rows)))
            for row, rest, products in zip(rows, rests, _products(residuals, rests).T):
                size = float(np.linalg.norm(rest))
                if size <= floor:  # only the first of the rows has an accurate value
                    residuals.bar(row)
                    continue
                squared = residuals.values + size**2 - 2 * products
                near = self._near(squared, size)
                if near.size < count and self._radius is None:  # the row is isolated, or all rows are far apart
                    count = self._settle(residuals, count)
                    near = self._near(squared, size)
                if near.size >= count:
                    nearest = near[smallest(squared[near], count, TIE * size**2)]
                    return _step(residuals, robust, self._radius or _LEAST, row, size, nearest, products / size)
                residuals.bar(row)
                self.set_aside.append(row)

    def _near(self, squared: NDArray[np.float64], size: float) -> NDArray[np.intp]:
        """The rows within the radius of a residual of that size; at the radius itself rounding does not decide."""
        return np.flatnonzero(squared <= (((self._radius or _LEAST) * size) ** 2 + TIE * size**2))

    def _settle(self, residuals: Residuals, count: int) -> int:
        """Estimate the radius from the data; reduce a default number of neighbours that no radius reaches."""
        self._radius = _usual_radius(residuals, count)
        if self._radius == _MOST and self.robust.support is None and count > _FEWEST:
            count = _FEWEST
            self._radius = _usual_radius(residuals, count)
        self._count = count
        return count


def _step(
    residuals: Residuals,
    robust: Robust,
    radius: float,
    row: int,
    size: float,
    group: NDArray[np.intp],
    projections: NDArray[np.float64],
) -> Step:
    if not robust.averages:
        return Step(row, residuals.reader.row(row), projections, group)
    rows = residuals.reader.rows(group)
    point = robust.average(rows)
    if np.linalg.norm(residuals.off_basis(point)) < (1 - radius - TIE) * size:
        point = rows.mean(axis=0)  # a median of sparse rows may be zero; the mean keeps 1 − radius of the residual
    distances = np.linalg.norm(rows - point, axis=1)
    distances[residuals.candidates()[group] < 0] = np.inf  # rows that are anchors already
    nearest = np.argmax(distances <= distances.min() + TIE * size)  # the first of those that are equally near
    return Step(int(group[nearest]), point, None, group)


def _usual_radius(residuals: Residuals, count: int) -> float:
    """A little more than the median row needs for ``count`` neighbours, from rows spread evenly over the matrix."""
    rounding = residuals.slack(single=False) * residuals.squared_norms
    full = np.flatnonzero(residuals.values > rounding)
    if full.size <= count:
        return _LEAST
    some = full[np.unique(np.linspace(0, full.size - 1, _RADIUS_SAMPLE).astype(np.intp))]
    rests = residuals.off_basis(residuals.reader.rows(some))
    sizes = np.einsum("ij,ij->i", rests, rests)
    squared = residuals.values[:, None] + sizes - 2 * _products(residuals, rests)
    with np.errstate(over="ignore"):  # beside rows of another size
        reach = np.sqrt(np.maximum(np.partition(squared, count - 1, axis=0)[count - 1] / sizes, 0.0))
    return float(np.clip(_ROOM * np.median(reach), _LEAST, _MOST))


def _largest(residuals: Residuals, batch: int, floor: float) -> list[int]:
    """The row that plain SPA would select, and up to ``batch`` − 1 further rows by size of residual."""
    leaders = residuals.leaders()
    if leaders.rows.size == 0 or leaders.values.max() <= floor**2:
        return []
    first = int(leaders.rows[choose(leaders.values, leaders.norms)])
    if batch == 1:
        return [first]
    values = residuals.candidates()
    top = smallest(-values, min(batch, values.size), TIE * max(0.0, float(values.max())))
    top = top[(values[top] > floor**2) & (top != first)]
    order = []
    while top.size:
        at = choose(values[top], residuals.squared_norms[top])
        order.append(int(top[at]))
        top = np.delete(top, at)
    return [first, *order]


def _products(residuals: Residuals, rests: NDArray[np.float64]) -> NDArray[np.float64]:
    """a_j·r for every row j and each rest r, in one pass."""
    if len(rests) == 1:
        size = float(np.linalg.norm(rests[0]))
        return (residuals.reader.project_all(rests[0] / size) * size)[:, None]
    return residuals.reader.project(None, rests, single=False)
