"""SPA, the successive projection algorithm (Gillis and Vavasis 2014): the reference that other answers are held to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from .._validate import check_number
from ..anchors import Certificate
from ..errors import InvalidInputError, InvalidTypeError, RankError
from ._residuals import TIE, Residuals, Step, choose
from ._rows import DOUBLE, MatrixRows, as_rows
from ._solver import Selection, Solver
from .precondition import METHODS, preconditioner
from .robust import Robust, as_robust, supported

__all__ = ["SPA", "TIE", "Path", "choose", "default_tolerance", "successive_projection"]


class SPA(Solver):
    """Take the row farthest from the span of those taken so far, k times.

    No residual matrix is kept: an orthonormal basis of the chosen rows and one squared residual per row are enough
    (see :mod:`fastanchors.solvers._residuals`), and the answer is that of exact arithmetic up to ties, for condition
    numbers of 10⁶ and beyond. Ties go by :func:`fastanchors.solvers.choose`.
    Cost: k + 1 passes over the matrix; memory: 4 numbers per row and k rows.

    Parameters
    ----------
    precondition : None, or what makes the anchors well-conditioned before the final SPA on m×k points:
        ``"spa"`` (the pseudo-inverse of a first SPA's anchors; Gillis and Ma 2015), ``"svd"`` (whitening by the leading
        k singular values; the same) or ``"mve"`` (the minimum-volume ellipsoid centred at the origin that holds the
        points; Gillis and Vavasis 2015). ``Anchors.residuals`` are then those of the preconditioned points.
    robust : None, ``"neighbours"``, ``"average"``, ``"median"`` or a :class:`fastanchors.solvers.Robust`:
        candidates need near neighbours, so that isolated outliers are passed over. With ``precondition`` too, the rows
        set aside by a first robust SPA stay out of the final one (the singular vectors still see them).
    tol : a residual below ``tol`` times the largest row norm counts as zero; the default is the rounding level
        of double precision.
    allow_fewer : return fewer than k anchors when the residual reaches zero, instead of raising ``RankError``.
    """

    name: ClassVar[str] = "spa"

    def __init__(
        self,
        *,
        precondition: Literal["spa", "svd", "mve"] | None = None,
        robust: str | Robust | None = None,
        tol: float | None = None,
        allow_fewer: bool = False,
    ) -> None:
        if precondition is not None and precondition not in METHODS:
            raise InvalidInputError(
                f"precondition must be None or one of {', '.join(map(repr, METHODS))}, got {precondition!r}"
            )
        if not isinstance(allow_fewer, bool | np.bool_):
            raise InvalidTypeError(f"allow_fewer must be True or False, got {allow_fewer!r}")
        if tol is not None and not 0 <= check_number(tol, name="tol") < 1:
            raise InvalidInputError(f"tol must lie between 0 and 1, got {tol}")
        self.precondition = precondition
        self.robust = as_robust(robust)
        self.tol = tol
        self.allow_fewer = allow_fewer

    def _select(self, matrix: Any, k: int, rng: np.random.Generator) -> Selection:
        data = as_rows(matrix)
        options: dict[str, Any] = {"tol": self.tol, "robust": self.robust, "allow_fewer": self.allow_fewer}
        if self.precondition is None:
            path = successive_projection(data, k, **options)
        else:
            path = self._preconditioned(data, k, options)
        points = None
        if self.robust is not None and self.robust.averages:
            points = path.points
            if self.precondition is not None:  # back to the coordinates of the matrix
                groups = [step.group for step in path.steps if step.group is not None]
                points = np.array([self.robust.average(data.rows(group)) for group in groups])
        return Selection(path.indices, self._certificate(path), path.residuals, points)

    def _preconditioned(self, data: MatrixRows, k: int, options: dict[str, Any]) -> Path:
        anchors, outliers = None, []
        if self.precondition == "spa" or self.robust is not None:
            first = successive_projection(data, k, **options)
            anchors, outliers = first.points, first.set_aside  # in k dimensions an outlier is no longer alone
        assert self.precondition is not None
        T = preconditioner(
            self.precondition, data, k, anchors=anchors, outliers=outliers, tol=self.tol, allow_fewer=self.allow_fewer
        )
        points = data.dot(T)
        return successive_projection(MatrixRows(points, points.shape), T.shape[1], outliers=outliers, **options)

    def _certificate(self, path: Path) -> Certificate:
        details: dict[str, Any] = {"largest_remaining_residual": path.remaining, "largest_norm": path.largest_norm}
        how = []
        if self.precondition is not None:
            details["precondition"] = self.precondition
            how.append(f"preconditioned by {self.precondition!r}")
        if self.robust is not None:
            details["set_aside"] = path.set_aside
            if path.set_aside or self.robust.averages:
                how.append(f"robust by {self.robust.kind!r} ({len(path.set_aside)} rows set aside)")
        if not how:
            return Certificate("exact", "every choice was made over all rows: this is full SPA", details)
        return Certificate("none", f"SPA {' and '.join(how)}; plain SPA may choose otherwise", details)


@dataclass(frozen=True)
class Path:
    """One run of SPA: its steps in order, the residual norm at each, and what is left.

    ``remaining`` is the largest residual norm at the end, ``set_aside`` the rows passed over as outliers.
    """

    steps: list[Step]
    residuals: list[float]
    remaining: float
    largest_norm: float
    set_aside: list[int]

    @property
    def indices(self) -> list[int]:
        return [step.index for step in self.steps]

    @property
    def points(self) -> NDArray[np.float64]:
        """The anchors as points, one per row."""
        return np.array([step.point for step in self.steps])


def default_tolerance(columns: int) -> float:
    """Relative residual that rounding alone can leave in double precision."""
    return max(1e-13, 2 * columns * DOUBLE)


def successive_projection(
    data: MatrixRows,
    k: int,
    *,
    tol: float | None = None,
    robust: Robust | None = None,
    allow_fewer: bool = False,
    outliers: Sequence[int] = (),
) -> Path:
    """SPA on any rows, signed ones too; the caller has checked them. ``outliers`` are known beforehand."""
    residuals = Residuals(data, k)
    residuals.bar(np.asarray(outliers, dtype=np.intp))
    floor = residuals.largest_norm * (default_tolerance(data.shape[1]) if tol is None else tol)
    set_aside = list(outliers)
    steps: list[Step] = []
    sizes: list[float] = []
    while len(steps) < k:
        step = _largest(residuals, floor) if robust is None else supported(residuals, robust, floor, set_aside)
        if step is None:
            if allow_fewer and steps:
                break
            raise rank_error(len(steps), k, set_aside)
        q, size = residuals.direction(step.point)
        residuals.remove(q, residuals.project(q) if step.projections is None else step.projections)
        residuals.bar(step.index)
        steps.append(replace(step, projections=None))
        sizes.append(size)
    return Path(steps, sizes, residuals.largest(), residuals.largest_norm, set_aside)


def _largest(residuals: Residuals, floor: float) -> Step | None:
    """The next row by the rule of :func:`choose`; None when every residual is zero."""
    leaders = residuals.leaders()
    if leaders.size == 0 or residuals.values[leaders].max() <= floor**2:
        return None
    index = int(leaders[choose(residuals.values[leaders], residuals.squared_norms[leaders])])
    return Step(index, residuals.data.rows([index])[0])


def rank_error(rank: int, k: int, set_aside: list[int]) -> RankError:
    """Nothing is left to choose after ``rank`` anchors: say so, and what to do about it."""
    if rank == 0 and not set_aside:
        return RankError("every row of A is zero: it has no anchors", 0)
    aside = f"{len(set_aside)} rows were set aside for want of near neighbours, and " if set_aside else ""
    cure = f"ask for k ≤ {rank}, or pass allow_fewer=True" if rank else "lower support or raise radius"
    return RankError(
        f"only {rank} of {k} anchors found: {aside}the residual is numerically zero at rank {rank}; {cure}", rank
    )
