"""The likelihood of points in a simplex with noise of known size, and its gradient with respect to the vertices.

With vertices B (rows (1, vertex)) the shares of point y are w = (1, y)·B⁻¹. Noise of standard deviation τ in y is noise
of τ·‖a_j‖ in the share of anchor j, where a_j is the j-th column of B⁻¹ without its first entry. The density of a point
has three kinds of components:

* mixtures of the anchors: |det B|⁻¹·Π_j p_j(w_j), where p_j is a decreasing density on [0, 1] (zero, or uniform on
  [0, a] for a few a, in estimated proportions) convolved with the noise;
* copies of anchor j: a Gaussian about the vertex;
* outliers: a Gaussian with four times the covariance of all points.

The determinant penalises the volume of the simplex. Least squares has no such penalty: its simplex grows with the
noise. An evaluation costs O(m·k²). Most of it goes into the densities p_j, with five exponentials for each point and
anchor. They are computed in single precision, in preallocated arrays; sums over points are in double precision.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["WIDTHS", "Proportions", "SimplexLikelihood"]

WIDTHS = np.array([0.0, 0.03, 0.1, 0.3, 1.0])  # of the uniform parts of p_j; zero: the share is zero
_INNER = WIDTHS[1:].astype(np.float32)
_TINY = np.float32(1e-30)
_ROOT = float(np.sqrt(2 * np.pi))
_TAIL = (1.330274429, -1.821255978, 1.781477937, -0.356563782, 0.319381530)  # Abramowitz and Stegun 26.2.17

_Array = NDArray[np.float64]
_Single = NDArray[np.float32]


@dataclass(frozen=True)
class Proportions:
    """Proportions of the rows (outliers, mixtures, copies of each anchor) and, for each anchor, of the parts of p_j."""

    rows: _Array
    parts: _Array

    @classmethod
    def first(cls, k: int) -> Proportions:
        rows = np.concatenate([[0.02, 0.9], np.full(k, 0.08 / k)])
        return cls(rows, np.full((k, len(WIDTHS)), 1.0 / len(WIDTHS)))


class SimplexLikelihood:
    """The likelihood of m points in k − 1 coordinates; arrays are k × m, so that sums over anchors are fast.

    Parameters
    ----------
    points : m × (k − 1) array
        The points that the vertices must explain.
    noise : m positive numbers
        Standard deviation of each point in each coordinate.
    """

    def __init__(self, points: _Array, noise: _Array) -> None:
        m, d = points.shape
        self.scale = float(points.std())
        self._flat = np.ones((d + 1, m))
        self._flat[1:] = points.T
        self._precision = 1.0 / noise
        self._precisions = self._precision**2
        cov = np.atleast_2d(np.cov(points.T))
        spread = 4.0 * cov + 1e-12 * np.trace(cov) * np.eye(d)
        off = points - np.median(points, axis=0)
        distances = np.einsum("ij,ij->i", off @ np.linalg.inv(spread), off)
        self._odd = -0.5 * (distances + np.linalg.slogdet(2 * np.pi * spread)[1])
        self._copy = -0.5 * np.einsum("ij,ij->i", points, points) * self._precisions - d * np.log(noise * _ROOT)
        self._room = np.empty((4, len(WIDTHS), d + 1, m), dtype=np.float32)
        self._inverse, self._density, self._spare = np.empty((3, d + 1, m), dtype=np.float32)
        self._logs, self._belongs = np.empty((d + 3, m)), np.empty((d + 3, m), dtype=np.float32)

    def of_points(self, vertices: _Array, proportions: Proportions) -> _Array:
        """The log-likelihood of each point."""
        return self._evaluate(vertices, proportions)[0]

    def proportions(self, vertices: _Array, start: Proportions, turns: int) -> Proportions:
        """Expectation–maximisation of the proportions with fixed vertices."""
        found = start
        for _ in range(turns):
            self._evaluate(vertices, found)
            rows = self._belongs.sum(axis=1, dtype=np.float64) + 1.0
            np.divide(self._belongs[1], self._density, out=self._spare)
            each = np.einsum("gjm,jm->jg", self._room[3], self._spare).astype(np.float64) + 1.0
            found = Proportions(rows / rows.sum(), each / each.sum(axis=1, keepdims=True))
        return found

    def gradient(self, vertices: _Array, proportions: Proportions) -> tuple[float, _Array]:
        """Mean log-likelihood over the points, and its gradient with respect to the vertices."""
        total, A = self._evaluate(vertices, proportions)
        by_w, by_log_sigma = self._slopes(proportions)
        widen = by_log_sigma.sum(axis=1, dtype=np.float64)
        by_A = self._flat @ by_w.T
        by_A[1:] += A[1:] * (widen / np.einsum("ij,ij->j", A[1:], A[1:]))
        by_A += self._belongs[1].sum(dtype=np.float64) * _flat(vertices).T
        by_B = -A.T @ by_A @ A.T
        copies = self._belongs[2:] * self._precisions
        gradient = by_B[:, 1:] + copies @ self._flat[1:].T - copies.sum(axis=1)[:, None] * vertices
        return float(total.mean()), gradient / len(total)

    def _evaluate(self, vertices: _Array, proportions: Proportions) -> tuple[_Array, _Array]:
        """Log-likelihoods and B⁻¹; stores the responsibilities of each point, the densities and their parts in self."""
        B = _flat(vertices)
        A = np.asarray(np.linalg.inv(B), dtype=np.float64)
        z, bell, below, parts = self._room
        np.divide(self._precision, np.sqrt(np.einsum("ij,ij->j", A[1:], A[1:]))[:, None], out=self._inverse)
        np.multiply(A.T @ self._flat, self._inverse, out=z[0], casting="same_kind")
        np.multiply(self._inverse, _INNER[:, None, None], out=z[1:])
        np.subtract(z[0], z[1:], out=z[1:])
        _normal(z, bell, below, parts)
        pi = proportions.parts.T.astype(np.float32)
        pi[1:] /= _INNER[:, None]
        np.multiply(bell[0], self._inverse, out=parts[0])
        np.subtract(below[0], below[1:], out=parts[1:])
        parts *= pi[:, :, None]
        np.add.reduce(parts, axis=0, out=self._density)
        np.maximum(self._density, _TINY, out=self._density)
        logs, each = self._logs, self._belongs
        logs[0] = self._odd
        np.log(self._density, out=self._spare)
        np.add.reduce(self._spare, axis=0, dtype=np.float64, out=logs[1])
        logs[1] -= np.linalg.slogdet(B)[1]
        copies = logs[2:]
        np.matmul(vertices, self._flat[1:], out=copies)
        copies -= 0.5 * np.einsum("ij,ij->i", vertices, vertices)[:, None]
        copies *= self._precisions
        copies += self._copy
        logs += np.log(proportions.rows)[:, None]
        top = logs.max(axis=0)
        np.subtract(logs, top, out=each, casting="same_kind")
        np.exp(each, out=each)
        sums = each.sum(axis=0)
        each /= sums
        return top + np.log(sums), A

    def _slopes(self, proportions: Proportions) -> tuple[_Single, _Single]:
        """Derivatives of log p_j by the share and by its log noise, times the responsibility of the mixtures."""
        z, bell, inside, parts = self._room
        by_w, by_log_sigma, weight = parts[0], parts[1], self._spare
        heights = np.empty((len(WIDTHS), len(by_w), 1), dtype=np.float32)
        heights[1:, :, 0] = -proportions.parts.T[1:] / WIDTHS[1:, None]
        heights[0] = -heights[1:].sum(axis=0)
        np.multiply(bell, heights, out=inside)
        np.multiply(bell[0], self._inverse, out=weight)  # the part at zero
        weight *= proportions.parts[:, :1].astype(np.float32)
        np.multiply(z[0], z[0], out=by_log_sigma)
        by_log_sigma -= np.float32(1.0)
        by_log_sigma *= weight
        weight *= z[0]
        np.subtract(np.add.reduce(inside, axis=0, out=by_w), weight, out=by_w)
        inside *= z
        by_log_sigma -= np.add.reduce(inside, axis=0, out=weight)
        by_w *= self._inverse
        np.divide(self._belongs[1], self._density, out=weight)
        by_w *= weight
        by_log_sigma *= weight
        return by_w, by_log_sigma


def _normal(z: _Single, bell: _Single, below: _Single, room: _Single) -> None:
    """The normal density at z and the probability below z; its tails have small relative errors."""
    np.multiply(z, z, out=bell)
    bell *= np.float32(-0.5)
    np.exp(bell, out=bell)
    bell *= np.float32(1.0 / _ROOT)
    np.abs(z, out=room)
    room *= np.float32(0.2316419)
    room += np.float32(1.0)
    np.reciprocal(room, out=room)
    np.multiply(room, np.float32(_TAIL[0]), out=below)
    for coefficient in _TAIL[1:]:
        below += np.float32(coefficient)
        below *= room
    below *= bell
    np.copysign(below, z, out=below)
    np.copysign(np.float32(0.5), z, out=room)
    room += np.float32(0.5)
    np.subtract(room, below, out=below)


def _flat(points: _Array) -> _Array:
    return np.column_stack([np.ones(len(points)), points])
