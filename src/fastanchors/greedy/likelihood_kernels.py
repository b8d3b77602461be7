"""The loops of :mod:`.likelihood`, in single precision: five parts of a density for each anchor j and point i.

Arrays of parts are 5 × k × m, those of anchors and points k × m. Every inner loop runs along the points of one row, so
that it is compiled to vector instructions. ``np.divide`` of two numbers does not check for zero, which would prevent
that. Exponentials are left to NumPy between the kernels. All operations are elementwise, in a fixed order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._jit import jit

__all__ = ["chances", "log_copies", "mixed_densities", "relative_logs", "slopes", "standardise"]

_ONE, _MINUS_HALF, _BELL = np.float32(1.0), np.float32(-0.5), np.float32(1.0 / np.sqrt(2 * np.pi))
_TINY = np.float32(1e-30)
# Abramowitz and Stegun 26.2.17
_P = np.float32(0.2316419)
_B5, _B4, _B3 = np.float32(1.330274429), np.float32(-1.821255978), np.float32(1.781477937)
_B2, _B1 = np.float32(-0.356563782), np.float32(0.319381530)


@jit
def standardise(shares: Any, precision: Any, lengths: Any, widths: Any, z: Any, inverse: Any, exponents: Any) -> None:
    """Shares in units of their noise, the inverse of that noise, and −z²/2 for the shares minus each width.

    The noise of share j of point i is ``lengths[j] / precision[i]``.
    """
    k, m = shares.shape
    for j in range(k):
        share, length, per_noise, at = shares[j], lengths[j], inverse[j], z[j]
        for i in range(m):
            per_noise[i] = np.float32(np.divide(precision[i], length))
        for i in range(m):
            at[i] = np.float32(share[i] * per_noise[i])
        for part in range(len(widths)):
            width, exponent = widths[part], exponents[part, j]
            for i in range(m):
                shifted = at[i] - per_noise[i] * width
                exponent[i] = shifted * shifted * _MINUS_HALF


@jit
def chances(z: Any, inverse: Any, widths: Any, bell: Any, parts: Any) -> None:
    """The density of each part at the shares, for uniform parts times their width; ``bell`` is exp(−z²/2) on entry, and
    the normal density on return.

    The tails of the normal distribution have small relative errors.
    """
    k, m = z.shape
    for j in range(k):
        at, per_noise = z[j], inverse[j]
        for part in range(len(widths)):
            width, height, below = widths[part], bell[part, j], parts[part, j]
            for i in range(m):
                shifted = at[i] - per_noise[i] * width
                height[i] *= _BELL
                t = np.divide(_ONE, abs(shifted) * _P + _ONE)
                tail = ((((t * _B5 + _B4) * t + _B3) * t + _B2) * t + _B1) * t * height[i]
                below[i] = _ONE - tail if shifted >= 0 else tail
        first, height = parts[0, j], bell[0, j]
        for part in range(1, len(widths)):
            below = parts[part, j]
            for i in range(m):
                below[i] = first[i] - below[i]
        for i in range(m):
            first[i] = height[i] * per_noise[i]


@jit
def mixed_densities(parts: Any, weights: Any, density: Any) -> None:
    """The sums of the parts times their weights (5 × k)."""
    count, k, m = parts.shape
    for j in range(k):
        total = density[j]
        total[:] = 0.0
        for at in range(count):
            part, weight = parts[at, j], weights[at, j]
            for i in range(m):
                total[i] += part[i] * weight
        for i in range(m):
            total[i] = _TINY if total[i] < _TINY else total[i]


@jit
def log_copies(halves: Any, precisions: Any, constants: Any, copies: Any) -> None:
    """Logarithms of Gaussians about the anchors, from the products of points and anchors in ``copies``."""
    k, m = copies.shape
    for j in range(k):
        half, copy = halves[j], copies[j]
        for i in range(m):
            copy[i] = (copy[i] - half) * precisions[i] + constants[i]


@jit
def relative_logs(logs: Any, shares: Any, top: Any, each: Any) -> None:
    """The logarithms of all components plus those of their shares, minus the largest of each point, ``top``."""
    count, m = logs.shape
    top[:] = -np.inf
    for c in range(count):
        own, share = logs[c], shares[c]
        for i in range(m):
            top[i] = own[i] + share if own[i] + share > top[i] else top[i]
    for c in range(count):
        own, share, relative = logs[c], shares[c], each[c]
        for i in range(m):
            relative[i] = np.float32(own[i] + share - top[i])


@jit
def slopes(
    z: Any,
    inverse: Any,
    widths: Any,
    bell: Any,
    heights: Any,
    first: Any,
    mixtures: Any,
    density: Any,
    by_w: Any,
    by_sigma: Any,
) -> None:
    """Derivatives of log p_j by the share and by its log noise, times the probability of a mixture.

    Those by the share are for products with the points: rounded to single precision, but stored in double precision.
    ``heights`` (5 × k) are the steps of p_j at the widths; ``first`` (k) the proportions of the part at zero.
    """
    k, m = z.shape
    room = np.empty((3, m), dtype=np.float32)
    step, slope, weight = room[0], room[1], room[2]
    for j in range(k):
        at, per_noise, total, share = z[j], inverse[j], density[j], first[j]
        of_w, of_sigma = by_w[j], by_sigma[j]
        room[:2] = 0.0
        for part in range(len(widths)):
            width, normal, height = widths[part], bell[part, j], heights[part, j]
            for i in range(m):
                inside = normal[i] * height
                step[i] += inside
                slope[i] += inside * (at[i] - per_noise[i] * width)
        normal = bell[0, j]
        for i in range(m):
            weight[i] = normal[i] * per_noise[i] * share
        for i in range(m):
            of_sigma[i] = (at[i] * at[i] - _ONE) * weight[i] - slope[i]
        for i in range(m):
            step[i] = (step[i] - weight[i] * at[i]) * per_noise[i]
        for i in range(m):
            weight[i] = np.divide(mixtures[i], total[i])
        for i in range(m):
            step[i] *= weight[i]
            of_w[i] = step[i]
            of_sigma[i] *= weight[i]
