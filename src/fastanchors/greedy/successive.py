"""Successive projection: choose the row farthest from the span of those chosen so far, k times."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..anchors import Certificate
from ..errors import RankError
from .lazy import Leaders
from .reader import DOUBLE, Reader
from .residuals import Residuals
from .ties import TIE, choose

__all__ = [
    "Path",
    "Rule",
    "Step",
    "certified",
    "default_tolerance",
    "farthest",
    "rank_error",
    "rounded_down",
    "rounded_up",
    "successive_projection",
]


@dataclass(frozen=True)
class Step:
    """The next anchor: a row, and the point it represents (itself, or the average of ``group``).

    ``projections`` are the products of every row with the point's unit residual, if already known. ``doubt`` is the
    fraction by which the chosen residual may fall short of the largest because of rounding: 0 means no doubt.
    """

    index: int
    point: NDArray[np.float64]
    projections: NDArray[np.float64] | None = None
    group: NDArray[np.intp] | None = None
    doubt: float = 0.0


#: Chooses the next row with a residual above a floor, or None if there is none.
Rule = Callable[[Residuals, float], Step | None]

_NOT_A_TIE = 1.5 * TIE


@dataclass(frozen=True)
class Path:
    """One run: its steps in order, the residual norm at each, and the final residual.

    ``remaining`` is the largest residual norm at the end, or a bound of it. ``looks`` is the total number of row
    updates, without the first pass.
    """

    steps: list[Step]
    residuals: list[float]
    remaining: float
    largest_norm: float
    looks: int

    @property
    def indices(self) -> list[int]:
        return [step.index for step in self.steps]

    @property
    def points(self) -> NDArray[np.float64]:
        """The anchors as points, one per row."""
        return np.array([step.point for step in self.steps])

    @property
    def doubts(self) -> list[float]:
        """The doubt of each choice: its residual is at least 1 − doubt of the largest at its step."""
        return [step.doubt for step in self.steps]


def default_tolerance(columns: int) -> float:
    """Relative residual that rounding alone can leave in double precision."""
    return max(1e-13, 2 * columns * DOUBLE)


def successive_projection(
    reader: Reader,
    k: int,
    *,
    tol: float | None = None,
    allow_fewer: bool = False,
    rule: Rule | None = None,
    outliers: Sequence[int] = (),
) -> Path:
    """SPA on any rows, including signed ones; the caller has checked them.

    ``rule`` chooses each row, by default the farthest. With a given rule, the residuals of all rows are kept up to
    date. ``outliers`` are rows that are not candidates.
    """
    with reader.quiet_blas():
        return _run(reader, k, tol, allow_fewer, rule, outliers)


def _run(
    reader: Reader, k: int, tol: float | None, allow_fewer: bool, rule: Rule | None, outliers: Sequence[int]
) -> Path:
    residuals = Residuals(reader, k, eager=rule is not None)
    if len(outliers):
        residuals.bar(np.asarray(outliers, dtype=np.intp))
    floor = residuals.largest_norm * (default_tolerance(reader.shape[1]) if tol is None else tol)
    choose_next = farthest if rule is None else rule
    steps: list[Step] = []
    sizes: list[float] = []
    while len(steps) < k:
        step = choose_next(residuals, floor)
        q, size = (None, 0.0) if step is None else residuals.direction(step.point)
        if step is None or q is None or size == 0:
            if allow_fewer and steps:
                break
            raise rank_error(len(steps), k, getattr(rule, "set_aside", ()))
        residuals.remove(q, step.projections)
        residuals.bar(step.index)
        steps.append(step if step.projections is None else replace(step, projections=None))
        sizes.append(size)
    return Path(steps, sizes, residuals.largest(), residuals.largest_norm, reader.looks)


def farthest(residuals: Residuals, floor: float) -> Step | None:
    """The next row by the rule of :func:`choose`; None if no residual is above ``floor``."""
    leaders = residuals.leaders(rough=True)
    if leaders.rows.size == 0:
        return None
    if leaders.rows.size == 1:
        if abs(leaders.values[0] - floor**2) <= leaders.errors[0]:
            leaders = residuals.exact(leaders.rows)
        index = int(leaders.rows[0])
        doubt = 1.0 if leaders.values[0] <= leaders.errors[0] else 0.0  # nothing but rounding, without a rival
        return Step(index, residuals.reader.row(index), doubt=doubt) if leaders.values[0] > floor**2 else None
    if leaders.values.max() <= floor**2:
        return None
    at = choose(leaders.values, leaders.norms)
    index = int(leaders.rows[at])
    return Step(index, residuals.reader.row(index), doubt=doubt_of(leaders, at))


def doubt_of(leaders: Leaders, at: int) -> float:
    """The fraction by which the chosen residual may fall short of the largest; 0 within a tie."""
    largest = float((leaders.values + leaders.errors).max())
    chosen = max(0.0, float(leaders.values[at] - leaders.errors[at]))
    return 0.0 if chosen >= (1 - _NOT_A_TIE) * largest else 1 - math.sqrt(chosen / largest)


def rank_error(rank: int, k: int, set_aside: Sequence[int] = ()) -> RankError:
    """The error if nothing is left to choose after ``rank`` anchors, with advice."""
    if rank == 0 and not len(set_aside):
        return RankError("every row of A is zero: it has no anchors", 0)
    if len(set_aside):
        cure = f"lower support, raise radius, or use k ≤ {rank}" if rank else "lower support or raise radius"
        aside = f"{len(set_aside)} rows were set aside: too few near neighbours"
        return RankError(
            f"only {rank} of {k} anchors found: {aside}, and nothing is left; {cure}", rank, len(set_aside)
        )
    cure = f"use k ≤ {rank}, or pass allow_fewer=True"
    return RankError(f"only {rank} of {k} anchors found: the residual is numerically zero at rank {rank}; {cure}", rank)


def rounded_down(bound: float) -> str:
    """A lower bound to three digits: never more than it is."""
    return f"{Decimal(bound).normalize(Context(prec=3, rounding=ROUND_FLOOR)):f}"


def rounded_up(bound: float) -> str:
    """An upper bound to three digits: never less than it is."""
    return f"{Decimal(bound).normalize(Context(prec=3, rounding=ROUND_CEILING)):f}"


def certified(doubts: Sequence[float], statement: str, details: dict[str, Any]) -> Certificate:
    """``exact``; ``near`` if rounding may have decided a choice; ``none`` if a residual is only rounding.

    ``doubts`` gives for each choice the fraction by which its residual may fall short of the largest.
    """
    eta = max(doubts, default=0.0)
    if eta == 0.0:
        return Certificate("exact", statement, details)
    first = next(at for at, doubt in enumerate(doubts) if doubt > 0) + 1
    which = f"from anchor {first} on residuals are so small that rounding decides among them"
    if eta < 1.0:
        words = f"every chosen residual is at least {rounded_down(1 - eta)} of the largest at its step; {which}"
        return Certificate("near", words, details | {"eta": eta})
    return Certificate("none", f"{which}: they are nothing but rounding errors", details)
