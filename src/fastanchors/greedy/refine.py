"""Vertices that fit all rows: a likelihood of points in a simplex with noise of known size, climbed from a good start.

Every row tells where the facets of the simplex are, not only the few near its corners. With vertices B (rows
(1, vertex)) the shares of point y are w = (1, y)·B⁻¹. Noise of standard deviation τ in y is noise of τ·‖a_j‖ in the
share of anchor j, a_j the j-th column of B⁻¹ without its first entry. A point is modelled as a mixture of

* mixtures of the anchors: |det B|⁻¹·Π_j p_j(w_j), where p_j is a decreasing density on [0, 1] (zero, or uniform on
  [0, a] for a few a, in shares that are estimated) smeared by the noise;
* copies of anchor j: a Gaussian about the vertex;
* odd rows: a Gaussian four times as wide as all points.

The determinant makes a larger simplex pay for its volume, so the likelihood of rows that were held out decides fairly
whether the refined vertices are better than those at the start. Least squares has no such price: its simplex grows
with the noise. Costs O(m·k²) per step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.optimize
from numpy.typing import NDArray
from scipy.special import ndtr

__all__ = ["Refined", "refine"]

_WIDTHS = np.array([0.0, 0.03, 0.1, 0.3, 1.0])  # of the uniform parts of p_j; zero: the share is zero
_TURNS, _STEPS = 3, 8  # of shares and vertices in turns; of the climb in each turn
_TINY = 1e-200
_FAR = 0.05  # a move by more than this part of an edge is believed only where…
_ODD = 0.02  # …no more rows than this are odd
_ROOT = np.sqrt(2 * np.pi)

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Refined:
    """What came of it.

    Attributes
    ----------
    vertices
        k × (k − 1): refined, or those of the start.
    kept
        Whether they were refined.
    gain
        Log-likelihood per row held out, gained by refining.
    odd
        Part of the rows that no mixture explains.
    copies
        For each anchor the part of the rows that are copies of it.
    reason
        Why, in one sentence.
    """

    vertices: _Array
    kept: bool
    gain: float
    odd: float
    copies: _Array
    reason: str


def refine(points: _Array, noise: _Array, start: _Array, rng: np.random.Generator, *, limit: int = 3000) -> Refined:
    """Refine vertices on two thirds of (at most ``limit``) points; keep them if the other third agrees.

    Parameters
    ----------
    points
        m × (k − 1) array
    noise
        m positive numbers Standard deviation of each point in each coordinate.
    start
        k × (k − 1) array Vertices to start from.
    """
    k = len(start)
    order = rng.permutation(len(points))[:limit]
    cut = max(1, len(order) // 3)
    held, used = order[:cut], order[cut:]
    nothing = np.zeros(k)
    if k < 2 or len(used) < 10 * k:
        return Refined(start, False, 0.0, 0.0, nothing, "too few rows to refine the vertices")
    if abs(np.linalg.det(_flat(start))) <= 0 or np.linalg.cond(_flat(start / np.abs(start).max())) > 1e8:
        return Refined(start, False, 0.0, 0.0, nothing, "the vertices at the start are dependent")
    model = _Mixture(points[used], noise[used])
    before = model.shares(start, _Shares.first(k), turns=8)
    vertices, after = start, before
    for _ in range(_TURNS):
        vertices = model.climb(vertices, after)
        after = model.shares(vertices, after)
    judge = _Mixture(points[held], noise[held])
    gain = float(np.mean(judge.log_likelihood(vertices, after)) - np.mean(judge.log_likelihood(start, before)))
    edges = np.linalg.norm(start[:, None] - start[None], axis=2)
    moved = float(np.linalg.norm(vertices - start, axis=1).max() / (edges.sum() / (k * (k - 1))))
    odd, copies = float(after.rows[0]), after.rows[2:]
    if not np.isfinite(gain) or gain <= 0:
        return Refined(start, False, gain, odd, copies, "rows held out are explained no better by refined vertices")
    if moved > _FAR and odd > _ODD:
        return Refined(start, False, gain, odd, copies, "the rows are not mixtures within their noise")
    return Refined(vertices, True, gain, odd, copies, "rows held out are explained better by refined vertices")


@dataclass(frozen=True)
class _Shares:
    """Of the rows: odd, mixed, copies of each anchor; and for each anchor of the parts of p_j."""

    rows: _Array
    parts: _Array

    @classmethod
    def first(cls, k: int) -> _Shares:
        rows = np.concatenate([[0.02, 0.9], np.full(k, 0.08 / k)])
        return cls(rows, np.full((k, len(_WIDTHS)), 1.0 / len(_WIDTHS)))


class _Mixture:
    """The likelihood of some points."""

    def __init__(self, points: _Array, noise: _Array) -> None:
        self.points, self.noise = points, noise
        self.flat = _flat(points)
        d = points.shape[1]
        spread = 4.0 * np.atleast_2d(np.cov(points.T)) + 1e-12 * np.trace(np.atleast_2d(np.cov(points.T))) * np.eye(d)
        off = points - np.median(points, axis=0)
        distances = np.einsum("ij,ij->i", off @ np.linalg.inv(spread), off)
        self.odd = -0.5 * (distances + np.linalg.slogdet(2 * np.pi * spread)[1])
        self.scale = float(points.std())

    def log_likelihood(self, vertices: _Array, shares: _Shares) -> _Array:
        return self._evaluate(vertices, shares)[0]

    def shares(self, vertices: _Array, shares: _Shares, turns: int = 3) -> _Shares:
        """Expectation–maximisation of the shares, vertices held."""
        for _ in range(turns):
            _, belongs, parts, density, _, _ = self._evaluate(vertices, shares)
            rows = belongs.sum(axis=0) + 1.0
            each = np.einsum("i,ijg->jg", belongs[:, 1], parts / density[:, :, None]) + 1.0
            shares = _Shares(rows / rows.sum(), each / each.sum(axis=1, keepdims=True))
        return shares

    def climb(self, vertices: _Array, shares: _Shares) -> _Array:
        """A few quasi-Newton steps of the vertices, shares held."""
        shape = vertices.shape

        def objective(x: _Array) -> tuple[float, _Array]:
            value, gradient = self._gradient(x.reshape(shape) * self.scale, shares)
            return -value, -gradient.ravel() * self.scale

        found = scipy.optimize.minimize(
            objective, vertices.ravel() / self.scale, jac=True, method="L-BFGS-B", options={"maxiter": _STEPS}
        )
        return np.asarray(found.x.reshape(shape) * self.scale)

    def _evaluate(
        self, vertices: _Array, shares: _Shares
    ) -> tuple[_Array, _Array, _Array, _Array, tuple[_Array, ...], _Array]:
        """Log-likelihoods, what each row belongs to, parts and whole of p_j; z, the bell at z and σ; B⁻¹."""
        B = _flat(vertices)
        A = np.linalg.inv(B)
        sigma = self.noise[:, None] * np.sqrt(np.einsum("ij,ij->j", A[1:], A[1:]))
        w = self.flat @ A
        z = w[:, :, None] / sigma[:, :, None] - _WIDTHS / sigma[:, :, None]
        bell = np.exp(-0.5 * z * z) / _ROOT
        below = ndtr(z)
        parts = np.empty_like(z)
        parts[:, :, 0] = bell[:, :, 0] / sigma
        parts[:, :, 1:] = (below[:, :, :1] - below[:, :, 1:]) / _WIDTHS[1:]
        parts *= shares.parts
        density = np.maximum(parts.sum(axis=2), _TINY)
        mixed = np.log(density).sum(axis=1) - np.linalg.slogdet(B)[1]
        d = vertices.shape[1]
        squares = np.einsum("ij,ij->i", self.points, self.points)[:, None] - 2 * self.points @ vertices.T
        squares += np.einsum("ij,ij->i", vertices, vertices)
        copy = -0.5 * squares / self.noise[:, None] ** 2 - d * np.log(self.noise[:, None] * _ROOT)
        each = np.log(shares.rows) + np.column_stack([self.odd, mixed, copy])
        top = each.max(axis=1, keepdims=True)
        exponentials = np.exp(each - top)
        sums = exponentials.sum(axis=1, keepdims=True)
        total = (top + np.log(sums)).reshape(-1)
        return total, exponentials / sums, parts, density, (z, bell, sigma), np.asarray(A, dtype=np.float64)

    def _gradient(self, vertices: _Array, shares: _Shares) -> tuple[float, _Array]:
        """Mean log-likelihood and its gradient by the vertices."""
        total, belongs, _, density, (z, bell, sigma), A = self._evaluate(vertices, shares)
        pi = shares.parts
        inside = pi[:, 1:] / _WIDTHS[1:]
        spike = pi[:, 0] * bell[:, :, 0] / sigma
        by_w = -z[:, :, 0] * spike / sigma
        by_w += (inside.sum(axis=1) * bell[:, :, 0] - np.einsum("ijg,jg->ij", bell[:, :, 1:], inside)) / sigma
        steep = bell * z
        by_log_sigma = (z[:, :, 0] ** 2 - 1.0) * spike
        by_log_sigma += np.einsum("ijg,jg->ij", steep[:, :, 1:], inside) - inside.sum(axis=1) * steep[:, :, 0]
        pull = (belongs[:, 1, None] / density) * by_w
        widen = ((belongs[:, 1, None] / density) * by_log_sigma).sum(axis=0)
        by_A = self.flat.T @ pull
        by_A[1:] += A[1:] * (widen / np.einsum("ij,ij->j", A[1:], A[1:]))
        by_A += belongs[:, 1].sum() * _flat(vertices).T
        by_B = -A.T @ by_A @ A.T
        copies = belongs[:, 2:] / self.noise[:, None] ** 2
        gradient = by_B[:, 1:] + copies.T @ self.points - copies.sum(axis=0)[:, None] * vertices
        return float(total.mean()), gradient / len(self.points)


def _flat(points: _Array) -> _Array:
    return np.column_stack([np.ones(len(points)), points])
