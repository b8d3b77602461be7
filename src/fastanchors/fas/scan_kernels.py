"""Kernels of a scan: bound the residuals of sketched rows at every step, in single and in double precision.

The bound is that of :mod:`fastanchors.fas.bounds`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._jit import jit
from .sketch import Part

__all__ = ["Largest", "Steps", "bound_rows", "keep_largest", "mark_doubtful"]


class Steps(NamedTuple):
    """The steps as :func:`bound_rows` needs them: G, ω, the thresholds, and the allowances for rounding."""

    G: NDArray[np.float64]  # a column for each anchor
    omega: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    norm: NDArray[np.float64]
    row: NDArray[np.int64]
    slop: float
    slack: float


class Largest(NamedTuple):
    """The largest bounds of each step, the rows they belong to, and the largest bound of a row that loses a tie."""

    rows: NDArray[np.int64]
    bounds: NDArray[np.float64]
    tied: NDArray[np.float64]


@jit
def mark_doubtful(
    H: Any, left: Any, norms: Any, unit: float, omega: Any, slop: Any, slack: Any, limits: Any, floors: Any, some: Any
) -> None:
    """Mark the rows with b·‖a‖ ≥ limit and b ≥ floor at some step, b = √(1 − ‖G·c‖² + 2·l·cross) + slack.

    Each step is computed for all rows, so that it compiles to vector instructions.
    """
    m = norms.size
    zero, one, two = np.float32(0.0), np.float32(1.0), np.float32(2.0)
    removed = np.zeros(m, dtype=np.float32)
    scaled = np.empty(m, dtype=np.float32)
    for i in range(m):
        scaled[i] = np.float32(norms[i] * unit)
    for t in range(limits.size):
        if t > 0:
            h = H[t - 1]
            for i in range(m):
                removed[i] += h[i] * h[i]
        limit, floor, w = limits[t], floors[t], omega[t]
        for i in range(m):
            l = left[i]
            whole = one - removed[i]
            whole = (whole if whole > zero else zero) + slop
            inside = whole - l * l
            inside = np.sqrt(inside if inside > zero else zero)
            cross = w * np.sqrt(removed[i] + slop)
            cross = cross if cross < inside else inside
            bound = np.sqrt(whole + two * l * cross) + slack
            some[i] |= (not bound * scaled[i] < limit) & (bound >= floor)


@jit
def bound_rows(some: NDArray[np.int32], rows: Part, steps: Steps, first: NDArray[np.int16], largest: Largest) -> None:
    """Bound some rows of a scan: update the first doubtful step of each, and the largest bounds of each step."""
    start, C, left, norms = rows
    G, omega, low, high, norm_limit, index, slop, slack = steps
    top_rows, top_bounds, tied_bounds = largest
    T, top = top_rows.shape
    d = G.shape[0]
    h = np.empty(T - 1)
    for i in some:
        norm = norms[i]
        l = np.float64(left[i])
        h[:] = 0.0
        inside = 0.0
        for j in range(d):
            c = np.float64(C[i, j])
            inside += c * c
            for t in range(T - 1):
                h[t] += c * G[j, t]
        removed = 0.0
        for t in range(T):
            if t > 0:
                removed += h[t - 1] * h[t - 1]
            squared = max(0.0, inside - removed) + slop
            # (R + l)² ≤ 2·(R² + l²): enough for many rows, and no square root
            limit = min(low[t], top_bounds[t, top - 1]) / norm - slack
            if limit > 0.0 and 2.0 * (squared + l * l) < limit * limit:
                continue
            cross = min(np.sqrt(squared), omega[t] * np.sqrt(removed))
            bound = (np.sqrt(squared + l * l + 2.0 * l * cross) + slack) * norm * (1.0 + 1e-14)
            if bound >= low[t]:
                if bound <= high[t] and norm <= norm_limit[t] and start + i > index[t]:
                    tied_bounds[t] = max(tied_bounds[t], bound)
                    continue
                first[i] = min(first[i], t)
            if bound > top_bounds[t, top - 1]:
                keep_largest(top_bounds[t], top_rows[t], bound, start + i)


@jit
def keep_largest(values: NDArray[np.float64], rows: NDArray[np.int64], value: float, row: int) -> None:
    """Insert a value and its row into the largest, in descending order, replacing the last; ties go behind."""
    at = len(values) - 1
    while at > 0 and values[at - 1] < value:
        values[at] = values[at - 1]
        rows[at] = rows[at - 1]
        at -= 1
    values[at] = value
    rows[at] = row
