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
anchor. They depend on the vertices only, so they are kept while the proportions change, and are computed in single
precision, in preallocated arrays (:mod:`.likelihood_kernels`); sums over points are in double precision.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .likelihood_kernels import chances, log_copies, mixed_densities, relative_logs, slopes, standardise

__all__ = ["WIDTHS", "Proportions", "SimplexLikelihood"]

WIDTHS = np.array([0.0, 0.03, 0.1, 0.3, 1.0])  # of the uniform parts of p_j; zero: the share is zero
_WIDTHS = WIDTHS.astype(np.float32)
_ROOT = float(np.sqrt(2 * np.pi))

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
        self._squares = np.einsum("ij,ij->i", points, points)
        cov = np.atleast_2d(np.cov(points.T))
        spread = 4.0 * cov + 1e-12 * np.trace(cov) * np.eye(d)
        off = points - np.median(self._flat[1:], axis=1)
        distances = np.einsum("ij,ij->i", off @ np.linalg.inv(spread), off)
        self._room = _Room(d + 1, m)
        self._room.logs[0] = -0.5 * (distances + np.linalg.slogdet(2 * np.pi * spread)[1])
        self._set_noise(noise)

    def _set_noise(self, noise: _Array) -> None:
        d = len(self._flat) - 1
        self._noise, self._precision = noise, 1.0 / noise
        self._precisions = self._precision**2
        self._copy = -0.5 * self._squares * self._precisions - d * np.log(noise * _ROOT)

    def with_noise(self, factor: float) -> SimplexLikelihood:
        """The likelihood of the same points with a multiple of the noise; both work in the same arrays."""
        other = copy.copy(self)
        other._set_noise(factor * self._noise)
        return other

    def of_points(self, vertices: _Array, proportions: Proportions) -> _Array:
        """The log-likelihood of each point."""
        return self._evaluate(vertices, proportions)

    def proportions(self, vertices: _Array, start: Proportions, turns: int) -> Proportions:
        """Expectation–maximisation of the proportions with fixed vertices."""
        found, room = start, self._room
        for _ in range(turns):
            self._evaluate(vertices, found)
            rows = room.belongs.sum(axis=1, dtype=np.float64) + 1.0
            np.divide(room.belongs[1], room.density, out=room.spare)
            np.multiply(room.parts, _weights(found)[:, :, None], out=room.weighted)
            each = np.einsum("gjm,jm->jg", room.weighted, room.spare).astype(np.float64) + 1.0
            found = Proportions(rows / rows.sum(), each / each.sum(axis=1, keepdims=True))
        return found

    def gradient(self, vertices: _Array, proportions: Proportions) -> tuple[float, _Array]:
        """Mean log-likelihood over the points, and its gradient with respect to the vertices."""
        total, room = self._evaluate(vertices, proportions), self._room
        A = room.inverse_of_B
        widen = self._slopes(proportions).sum(axis=1, dtype=np.float64)
        np.multiply(room.belongs[2:], self._precisions, out=room.by_copies)
        sums = self._flat @ room.sloping.T  # one product for the mixtures and the copies
        by_A, copies = sums[:, : len(A)], sums[:, len(A) :].T
        by_A[1:] += A[1:] * (widen / np.einsum("ij,ij->j", A[1:], A[1:]))
        by_A += room.belongs[1].sum(dtype=np.float64) * _flat(vertices).T
        by_B = -A.T @ by_A @ A.T
        gradient = by_B[:, 1:] + copies[:, 1:] - copies[:, :1] * vertices
        return float(total.mean()), gradient / len(total)

    def _evaluate(self, vertices: _Array, proportions: Proportions) -> _Array:
        """Log-likelihoods; stores the responsibilities of each point, the densities and their parts in the arrays."""
        self._place(vertices)
        room = self._room
        mixed_densities(room.parts, _weights(proportions), room.density)
        np.log(room.density, out=room.spare)
        np.add.reduce(room.spare, axis=0, dtype=np.float64, out=room.logs[1])
        room.logs[1] -= room.log_volume
        relative_logs(room.logs, np.log(proportions.rows), room.top, room.belongs)
        np.exp(room.belongs, out=room.belongs)
        sums = room.belongs.sum(axis=0)
        room.belongs /= sums
        return np.asarray(room.top + np.log(sums))

    def _place(self, vertices: _Array) -> None:
        """What depends on the vertices and not on the proportions, unless the arrays hold it already."""
        room = self._room
        if room.model is self._precision and np.array_equal(room.vertices, vertices):
            return
        B = _flat(vertices)
        A = np.asarray(np.linalg.inv(B), dtype=np.float64)
        lengths = np.sqrt(np.einsum("ij,ij->j", A[1:], A[1:]))
        copies = room.logs[2:]
        shares = np.matmul(A.T, self._flat, out=copies)
        standardise(shares, self._precision, lengths, _WIDTHS, room.z, room.inverse, room.bell)
        np.exp(room.bell, out=room.bell)
        chances(room.z, room.inverse, _WIDTHS, room.bell, room.parts)
        np.matmul(vertices, self._flat[1:], out=copies)
        log_copies(0.5 * np.einsum("ij,ij->i", vertices, vertices), self._precisions, self._copy, copies)
        room.model, room.vertices = self._precision, vertices.copy()
        room.inverse_of_B, room.log_volume = A, float(np.linalg.slogdet(B)[1])

    def _slopes(self, proportions: Proportions) -> _Single:
        """Derivatives of log p_j by the share, in ``by_w``, and by its log noise, times the responsibility of the
        mixtures."""
        room = self._room
        heights = np.empty((len(WIDTHS), len(room.density)), dtype=np.float32)
        heights[1:] = -proportions.parts.T[1:] / WIDTHS[1:, None]
        heights[0] = -heights[1:].sum(axis=0)
        first = proportions.parts[:, 0].astype(np.float32)
        by_log_sigma, mixtures = room.spare, room.belongs[1]
        known = (room.z, room.inverse, _WIDTHS, room.bell)
        slopes(*known, heights, first, mixtures, room.density, room.by_w, by_log_sigma)
        return by_log_sigma


class _Room:
    """The arrays of an evaluation, and the model and the vertices for which they were computed."""

    def __init__(self, k: int, m: int) -> None:
        self.bell, self.parts, self.weighted = np.empty((3, len(WIDTHS), k, m), dtype=np.float32)
        self.z, self.inverse, self.density, self.spare = np.empty((4, k, m), dtype=np.float32)
        self.logs, self.belongs = np.empty((k + 2, m)), np.empty((k + 2, m), dtype=np.float32)
        self.top, self.sloping = np.empty(m), np.empty((2 * k, m))
        self.by_w, self.by_copies = self.sloping[:k], self.sloping[k:]
        self.model: _Array | None = None
        self.vertices = self.inverse_of_B = np.empty((0, 0))
        self.log_volume = 0.0


def _weights(proportions: Proportions) -> _Single:
    """The weights of the parts of each p_j, 5 × k: proportions divided by the widths."""
    weights = np.ascontiguousarray(proportions.parts.T, dtype=np.float32)
    weights[1:] /= _WIDTHS[1:, None]
    return weights


def _flat(points: _Array) -> _Array:
    return np.column_stack([np.ones(len(points)), points])
