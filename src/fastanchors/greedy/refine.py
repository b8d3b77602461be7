"""Refine vertices by maximising the likelihood of all rows (:mod:`.likelihood`) from a good start.

Every row helps to locate the facets of the simplex, not only the few rows near its corners. The likelihood penalises
the volume of the simplex, so held-out rows are a fair test of whether the refined vertices are better than the start.
If many rows are not mixtures within their noise, they vary by more than the noise estimated beyond the leading
directions, as the materials of a scene do. The noise is then doubled as long as held-out rows become more likely.
Means of neighbours have no vertex at an anchor that is much rarer than others: where these are dense, the few rows near
it look isolated. The rows of a missed anchor are outliers of the fit, which is then repeated from another start.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from .likelihood import Proportions, SimplexLikelihood

__all__ = ["Refined", "refine"]

_TURNS, _STEPS = 2, 12  # alternations between vertices and proportions; optimiser steps in each
_LAST = 12  # optimiser steps on all rows
_FIRST, _AGAIN = 4, 2  # EM iterations of the proportions: at the start, and after each optimisation
_ENOUGH, _FINE = 1e-4, 1e-5  # relative gain at which the optimiser stops: on some rows, and on all rows
_SOME, _EACH = 1800, 200  # points, and points per vertex, that decide whether refined vertices are better
_FAR = 0.05  # a move by more than this fraction of an edge is accepted only if…
_MAX_OUTLIERS = 0.02  # …at most this fraction of the rows are outliers…
_MAX_OUTLIERS_NOISIER = 0.1  # …or this fraction, if the noise was doubled to explain held-out rows best
_MISSED = 0.005  # fraction of outliers above which the start may have missed an anchor…
_OTHER_KINDS = 0.08  # …and above which the rows are of more kinds than there are anchors
_CLEARLY = 1.0  # log-likelihood per row by which another start must beat the first
_DOUBLINGS = 4  # largest number of doublings of the noise

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Refined:
    """The result of the refinement.

    Attributes
    ----------
    vertices
        k × (k − 1): the refined vertices, or those of the start.
    kept
        Whether they were refined.
    gain
        Gain in log-likelihood per held-out row.
    outliers
        Fraction of the rows that no mixture explains.
    copies
        For each anchor the fraction of the rows that are copies of it.
    reason
        The reason in one sentence.
    variation
        Variation of the rows about mixtures, as a multiple of their noise.
    fitted
        Whether refined vertices were fitted and compared with the start; if not, ``outliers`` is not known.
    """

    vertices: _Array
    kept: bool
    gain: float
    outliers: float
    copies: _Array
    reason: str
    variation: float = 1.0
    fitted: bool = False


@dataclass(frozen=True)
class _Fit:
    """Vertices and proportions; mean log-likelihood of held-out rows, with these and with those at the start."""

    vertices: _Array
    proportions: Proportions
    held: float
    held_at_start: float
    variation: float

    @property
    def outliers(self) -> float:
        return float(self.proportions.rows[0])


def refine(points: _Array, noise: _Array, starts: _Array, rng: np.random.Generator, *, limit: int = 3000) -> Refined:
    """Refine vertices on two thirds of some points; if the other third agrees, continue on ``limit`` points.

    Parameters
    ----------
    points : m × (k − 1) array
        Rows in the leading coordinates.
    noise : m positive numbers
        Standard deviation of each point in each coordinate.
    starts : s × k × (k − 1) array
        Start vertices: the first is used unless the second makes the points clearly more likely. The third is used
        if the fit leaves outliers, and that from the third leaves at most half as many and explains held-out points
        better.
    rng : numpy.random.Generator
        Chooses the held-out rows.
    limit : int
        Largest number of points to use.
    """
    k = len(starts[0])
    order = rng.permutation(len(points))[:limit]
    some = order[: max(_SOME, _EACH * k)]
    cut = max(1, len(some) // 3)
    nothing = np.zeros(k)
    if k < 2 or len(some) - cut < 10 * k:
        return Refined(starts[0], False, 0.0, 0.0, nothing, "too few rows to refine the vertices")
    sound = [start for start in starts if _independent(start)]
    if not sound:
        return Refined(starts[0], False, 0.0, 0.0, nothing, "the vertices at the start are dependent")
    sides = [SimplexLikelihood(points[side], noise[side]) for side in (some[cut:], some[:cut])]
    start = _likeliest(sides[0], sound[:2])
    fit = _best_fit(_Fitting(sides[0], sides[1], start))
    if len(sound) > 2 and fit.variation == 1 and _MISSED < fit.outliers <= _OTHER_KINDS:
        again = _best_fit(_Fitting(sides[0], sides[1], sound[2]))
        if again.held > fit.held and again.outliers <= fit.outliers / 2:
            start, fit = sound[2], again
    gain = fit.held - fit.held_at_start
    edges = np.linalg.norm(start[:, None] - start[None], axis=2)
    moved = float(np.linalg.norm(fit.vertices - start, axis=1).max() / (edges.sum() / (k * (k - 1))))
    figures = (gain, fit.outliers, fit.proportions.rows[2:])
    if not np.isfinite(gain) or gain <= 0:
        why = "rows held out are explained no better by refined vertices"
        return Refined(start, False, *figures, why, fit.variation, fitted=True)
    if moved > _FAR and fit.outliers > (_MAX_OUTLIERS if fit.variation == 1 else _MAX_OUTLIERS_NOISIER):
        return Refined(
            start, False, *figures, "the rows are not mixtures within their noise", fit.variation, fitted=True
        )
    whole = SimplexLikelihood(points[order], fit.variation * noise[order])
    vertices = _climb(whole, fit.vertices, fit.proportions, _LAST, _FINE)
    reason = "rows held out are explained better by refined vertices"
    return Refined(vertices, True, *figures, reason, fit.variation, fitted=True)


def _independent(start: _Array) -> bool:
    flat = _flat(start)
    return abs(np.linalg.det(flat)) > 0 and np.linalg.cond(_flat(start / np.abs(start).max())) <= 1e8


def _likeliest(model: SimplexLikelihood, starts: list[_Array]) -> _Array:
    """The first start, or the one that makes the points clearly more likely."""
    if len(starts) == 1:
        return starts[0]
    likely = np.empty(len(starts))
    for at in reversed(range(len(starts))):  # the first one last: mostly it is used, and the model keeps its densities
        found = model.proportions(starts[at], Proportions.first(len(starts[at])), _AGAIN)
        likely[at] = model.of_points(starts[at], found).mean()
    best = int(np.argmax(likely))
    return starts[best if likely[best] > likely[0] + _CLEARLY else 0]


def _best_fit(fit: _Fitting) -> _Fit:
    """Fit with the given noise, or with the multiple of it that makes held-out rows most likely if many are outliers.

    The multiple is chosen with the vertices of the first turn, and once more with those of a turn with that multiple.
    """
    fit.turn()
    if fit.proportions.rows[0] > _MAX_OUTLIERS:
        fit.change_noise(2.0, _DOUBLINGS)
        if fit.variation > 1:
            fit.restart()
            fit.turn()
            fit.change_noise(0.5, 1)
    for _ in range(_TURNS - 1):
        fit.turn()
    return fit.result()


class _Fitting:
    """Fit vertices to the points of one model, and judge them by those of another, the held-out rows."""

    def __init__(self, fitted: SimplexLikelihood, held: SimplexLikelihood, start: _Array) -> None:
        self._start, self._fitted, self._held = start, fitted, held
        self.variation, self.vertices = 1.0, start
        self.proportions = self._before = self._fitted.proportions(start, Proportions.first(len(start)), _FIRST)

    def restart(self) -> None:
        """Return to the start vertices, and to their proportions with the present noise."""
        self.vertices, self.proportions = self._start, self._before

    def turn(self) -> None:
        """Improve the vertices, then the proportions."""
        self.vertices = _climb(self._fitted, self.vertices, self.proportions, _STEPS)
        self.proportions = self._fitted.proportions(self.vertices, self.proportions, _AGAIN)

    def change_noise(self, factor: float, times: int) -> None:
        """Multiply the noise while that makes held-out rows more likely with the present vertices."""
        before, best = self.variation, self._likelihood(self._held, self.proportions)
        for _ in range(times):
            fitted, held = self._fitted.with_noise(factor), self._held.with_noise(factor)
            proportions = fitted.proportions(self.vertices, self.proportions, _AGAIN)
            likelihood = self._likelihood(held, proportions)
            if not likelihood > best:
                break
            self.variation, best = factor * self.variation, likelihood
            self._fitted, self._held, self.proportions = fitted, held, proportions
        if self.variation != before:
            self._before = self._fitted.proportions(self._start, Proportions.first(len(self._start)), _FIRST)

    def _likelihood(self, held: SimplexLikelihood, proportions: Proportions) -> float:
        return float(held.of_points(self.vertices, proportions).mean())

    def result(self) -> _Fit:
        held_at_start = float(self._held.of_points(self._start, self._before).mean())
        held = self._likelihood(self._held, self.proportions)
        return _Fit(self.vertices, self.proportions, held, held_at_start, self.variation)


def _climb(
    model: SimplexLikelihood, vertices: _Array, proportions: Proportions, steps: int, enough: float = _ENOUGH
) -> _Array:
    """A few quasi-Newton steps of the vertices with fixed proportions."""
    shape = vertices.shape

    def objective(x: _Array) -> tuple[float, _Array]:
        value, gradient = model.gradient(x.reshape(shape) * model.scale, proportions)
        return -value, -gradient.ravel() * model.scale

    found = scipy.optimize.minimize(
        objective,
        vertices.ravel() / model.scale,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": steps, "ftol": enough},
    )
    return np.asarray(found.x.reshape(shape) * model.scale)


def _flat(points: _Array) -> _Array:
    return np.column_stack([np.ones(len(points)), points])
