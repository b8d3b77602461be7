"""SPA, the successive projection algorithm (Gillis and Vavasis 2014), the reference for other solvers."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from .._validate import check_choice, check_flag, check_tolerance
from ..anchors import Certificate
from ..greedy.reader import Reader
from ..greedy.successive import Path, certified, default_tolerance, successive_projection
from ..greedy.ties import EQUAL, TIE
from ..greedy.view_rounding import view_doubts
from ..matrix import ArrayMatrix, RowMatrix
from ._solver import Selection, Solver
from .robust import Robust, Supported, as_robust

__all__ = ["EQUAL", "SPA", "TIE", "certified"]

_METHODS = ("spa", "svd", "mve")  # of preconditioning


class SPA(Solver):
    """Select the row farthest from the span of the rows selected so far, k times.

    No residual matrix is formed. It keeps an orthonormal basis of the selected rows and an upper bound of each row's
    residual, and updates only rows that can still be selected (see :mod:`fastanchors.greedy.lazy`). The answer is that
    of exact arithmetic up to ties, for condition numbers of 10⁶ and beyond; if rounding decides, the certificate says
    so. Ties are broken by :func:`fastanchors.solvers.choose`. Cost: one pass for the norms, and about one more read of
    each row for all k steps; memory: 3 numbers per row.

    Parameters
    ----------
    precondition
        How to make the anchors well-conditioned before the final SPA on m×k points: None, ``"spa"`` (the pseudo-inverse
        of the anchors of a first SPA; Gillis and Ma 2015), ``"svd"`` (whitening by the leading k singular values; the
        same) or ``"mve"`` (the minimum-volume ellipsoid centred at the origin that contains the points; Gillis and
        Vavasis 2015). ``Anchors.residuals`` are then those of the preconditioned points.
    robust
        None, ``"neighbours"``, ``"average"``, ``"median"`` or a :class:`fastanchors.solvers.Robust`: candidates need
        near neighbours, so that isolated outliers are not selected. With ``precondition``, the rows set aside by a
        first robust SPA are excluded from the final one (but not from the singular vectors).
    tol
        A residual of at most ``tol`` times the largest row norm counts as zero; the default is the rounding level of
        double precision, which is also the least with ``precondition`` or ``robust``. Rows whose squares underflow
        (entries below about 1e-162) count as zero too.
    allow_fewer
        Return fewer than k anchors if the residual reaches zero, instead of raising ``RankError``.

    Examples
    --------
    >>> import fastanchors as fa
    >>> made = fa.datasets.separable(200, 10, 4, rng=0)
    >>> found = fa.SPA().seek(made.A, 4)
    >>> sorted(found.indices) == sorted(made.anchors)
    True
    >>> found.certificate.kind
    'exact'
    """

    name: ClassVar[str] = "spa"
    _draws: ClassVar[bool] = False

    def __init__(
        self,
        *,
        precondition: Literal["spa", "svd", "mve"] | None = None,
        robust: str | Robust | None = None,
        tol: float | None = None,
        allow_fewer: bool = False,
    ) -> None:
        check_choice(precondition, (None, *_METHODS), name="precondition")
        self.precondition = precondition
        self.robust = as_robust(robust)
        self.tol = check_tolerance(tol)
        self.allow_fewer = check_flag(allow_fewer, name="allow_fewer")

    def _select(self, data: RowMatrix, k: int, rng: np.random.Generator) -> Selection:
        if self.precondition is None:
            path, set_aside = self._path(Reader(data), k)
        else:
            path, set_aside = self._preconditioned(data, k)
        points = None
        if self.robust is not None and self.robust.averages:
            points = path.points
            if self.precondition is not None:  # the points of the path are preconditioned
                groups = [step.group for step in path.steps if step.group is not None]
                points = np.array([self.robust.average(data.dense_rows(group)) for group in groups])
        doubts = path.doubts
        if data.rounded and self.precondition is None:
            doubts = [max(each) for each in zip(doubts, view_doubts(np.array(path.residuals), lambda: path.points))]
        return Selection(path.indices, self._certificate(path, set_aside, doubts), path.residuals, points)

    def _checks(self) -> bool:
        return self.precondition is None or self.precondition == "spa" or self.robust is not None

    def _path(self, reader: Reader, k: int, outliers: list[int] | None = None) -> tuple[Path, list[int]]:
        """A run of SPA, and the rows it has set aside."""
        rule = None if self.robust is None else Supported(self.robust, outliers or [])
        tol = self.tol
        if tol is not None and (rule is not None or self.precondition is not None):
            tol = max(tol, default_tolerance(reader.shape[1]))  # rounding errors have no neighbours and no inverse
        path = successive_projection(
            reader, k, tol=tol, allow_fewer=self.allow_fewer, rule=rule, outliers=outliers or []
        )
        return path, [] if rule is None else rule.set_aside

    def _preconditioned(self, data: RowMatrix, k: int) -> tuple[Path, list[int]]:
        from .precondition import preconditioner  # start-up: plain SPA has no kernels

        assert self.precondition is not None
        anchors = None
        outliers: list[int] = []
        if self.precondition == "spa" or self.robust is not None:
            first, outliers = self._path(Reader(data), k)
            anchors = first.points  # in k dimensions an outlier is no longer isolated
        T = preconditioner(
            self.precondition, data, k, anchors=anchors, outliers=outliers, tol=self.tol, allow_fewer=self.allow_fewer
        )
        return self._path(Reader(ArrayMatrix(data.dot(T))), T.shape[1], outliers)

    def after_first(self, data: RowMatrix, k: int, anchors: NDArray[np.float64]) -> Selection:
        """The final SPA of ``precondition="spa"``, given the anchors of the first one."""
        from .precondition import preconditioner  # start-up: plain SPA has no kernels

        T = preconditioner("spa", data, k, anchors=anchors)
        path, _ = self._path(Reader(ArrayMatrix(data.dot(T))), T.shape[1])
        return Selection(path.indices, self._certificate(path, [], path.doubts), path.residuals)

    def _certificate(self, path: Path, set_aside: list[int], doubts: list[float]) -> Certificate:
        details: dict[str, Any] = {"largest_remaining_residual": path.remaining, "largest_norm": path.largest_norm}
        how = []
        if self.precondition is not None:
            details["precondition"] = self.precondition
            how.append(f"preconditioned by {self.precondition!r}")
        if self.robust is not None:
            details["set_aside"] = set_aside
            if set_aside or self.robust.averages:
                how.append(f"robust by {self.robust.kind!r} ({len(set_aside)} rows set aside)")
        if not how:
            return certified(doubts, "every choice was made over all rows: this is full SPA", details)
        return Certificate("none", f"SPA {' and '.join(how)}; plain SPA may select other rows", details)
