"""Compare found anchors, spectra and abundances with the true ones.

Results in unknown order are matched with the true ones by the Hungarian algorithm, which costs O(k³).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment

from .._equality import ComparedByValue
from .._validate import as_array, as_matrix, check_index, check_number
from ..errors import InvalidInputError, InvalidTypeError
from ..matrix import dense
from ..matrix.columns import column_order
from ..matrix.contract import squared_norms_of
from ..matrix.frames import in_memory
from ..matrix.scaled import FEW_DIGITS, divided, unit_of
from ._reconstruction import blocks

__all__ = ["Match", "abundance_rmse", "anchor_labels", "anchor_recovery", "matched_spectral_angle", "spectral_angles"]


def anchor_recovery(found: ArrayLike, labels: ArrayLike) -> float:
    """Fraction of the true anchors among the found rows; any copy of an anchor counts as that anchor, once.

    ``labels`` gives for every row the number of the anchor it is a copy of, −1 for other rows
    (``datasets.Separable.labels``, or :func:`anchor_labels`). 1.0 is full recovery.

    Parameters
    ----------
    found
        Indices of the rows found.
    labels
        For each row the number of the anchor it is a copy of, or −1.

    Examples
    --------
    >>> import fastanchors as fa
    >>> fa.metrics.anchor_recovery([3, 1], [0, -1, 1, 0])
    0.5
    """
    label_of = as_array(labels, "labels")
    if label_of.ndim != 1 or label_of.dtype.kind not in "iu":
        raise InvalidInputError("labels must be a one-dimensional array of integers, one for each row")
    true = np.unique(label_of[label_of >= 0])
    if true.size == 0:
        raise InvalidInputError("labels mark no anchor: all are negative")
    hit = np.unique(label_of[check_index(found, label_of.size, name="found")])
    return float(np.count_nonzero(hit >= 0) / true.size)


def anchor_labels(A: Any, anchors: ArrayLike, *, tolerance: float = 0.0) -> NDArray[np.int32]:
    """For each row of ``A`` the nearest anchor row within ``tolerance`` (Euclidean, relative to the anchor's norm).

    Zero tolerance finds copies that are exact up to rounding. Costs O(m·n·k), in blocks.

    Parameters
    ----------
    A
        Array or sparse matrix.
    anchors
        Indices of the anchor rows.
    tolerance
        Distance up to which a row counts as a copy of its anchor; −1 marks the other rows.

    Examples
    --------
    >>> import fastanchors as fa
    >>> fa.metrics.anchor_labels([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0], [1.0, 0.0]], [0, 2]).tolist()
    [0, -1, 1, 0]
    """
    matrix = as_matrix(A, signed=True)
    tolerance = check_number(tolerance, name="tolerance", minimum=0.0)
    at = check_index(anchors, matrix.shape[0], name="anchors").reshape(-1)
    if at.size == 0:
        raise InvalidInputError("anchors is empty; pass the index of at least one anchor row")
    matrix = divided(matrix, unit_of(matrix))
    W = dense(matrix[at])
    squares = np.einsum("ij,ij->i", W, W)
    lost = (squares < FEW_DIGITS) & W.any(axis=1)
    if lost.any():
        raise InvalidInputError(
            f"the squares of anchor row {at[np.argmax(lost)]} underflow beside those of the largest entry of A; remove "
            "or clip that entry"
        )
    limit = (min(max(tolerance, 1e-7), 1e150) ** 2) * np.maximum(squares, np.finfo(float).tiny)
    labels = np.full(matrix.shape[0], -1, dtype=np.int32)
    for start, block in blocks(matrix):
        own = squared_norms_of(block)
        gap = np.maximum(own[:, None] + squares - 2.0 * (block @ W.T), 0.0)
        near = np.argmin(gap / limit, axis=1)
        close = gap[np.arange(len(near)), near] <= limit[near]
        labels[start : start + len(near)][close] = near[close]
    labels[at] = np.arange(at.size)
    return labels


@dataclass(frozen=True, eq=False)
class Match(ComparedByValue):
    """A one-to-one matching: ``found[p]`` is matched with ``true[p]`` at the score ``values[p]``.

    Examples
    --------
    >>> import fastanchors as fa
    >>> match = fa.metrics.matched_spectral_angle([[1, 0], [0, 1]], [[0, 2], [3, 0]])
    >>> match.true.tolist(), match.found.tolist()
    ([0, 1], [1, 0])
    """

    true: NDArray[np.intp]
    found: NDArray[np.intp]
    values: NDArray[np.float64]

    @property
    def mean(self) -> float:
        return float(self.values.mean())


def spectral_angles(X: ArrayLike, Y: ArrayLike) -> NDArray[np.float64]:
    """Angles in radians between every row of ``X`` and every row of ``Y``; the angle to a zero row is π/2.

    Computed from the chord between unit vectors, 2·arcsin(‖x − y‖/2), which is accurate for small angles, where the
    arc cosine loses half of the digits.

    Parameters
    ----------
    X, Y
        Spectra, one in each row. Columns of data frames are matched by name.

    Examples
    --------
    >>> import fastanchors as fa
    >>> fa.metrics.spectral_angles([[1.0, 0.0]], [[2.0, 0.0], [0.0, 1.0]]).round(4).tolist()
    [[0.0, 1.5708]]
    """
    (x, known), (y, here) = _units(X, "X"), _units(Y, "Y")
    if x.shape[1] != y.shape[1]:
        raise InvalidInputError(f"spectra differ in length: X has {x.shape[1]} columns, Y {y.shape[1]}")
    order = column_order(here, known, "Y", "X")
    y = y if order is None else y[:, order]
    angles = np.empty((len(x), len(y)))
    for j, spectrum in enumerate(y):
        chord = np.linalg.norm(x - spectrum, axis=1)
        angles[:, j] = 2.0 * np.arcsin(np.minimum(chord / 2.0, 1.0))
    angles[~x.any(axis=1)] = np.pi / 2
    angles[:, ~y.any(axis=1)] = np.pi / 2
    return angles


def matched_spectral_angle(true: ArrayLike, found: ArrayLike) -> Match:
    """Spectral angles (radians) of the best one-to-one matching of found spectra (rows) with true ones.

    ``match.mean`` is the usual score. If the numbers differ, every spectrum of the smaller set is matched.

    Parameters
    ----------
    true, found
        Spectra, one in each row. Columns of data frames are matched by name.

    Examples
    --------
    >>> import fastanchors as fa
    >>> fa.metrics.matched_spectral_angle([[1, 0], [0, 1]], [[0, 2], [3, 0]]).values.tolist()
    [0.0, 0.0]
    """
    angles = spectral_angles(true, found)
    rows, columns = linear_sum_assignment(angles)
    return Match(rows.astype(np.intp), columns.astype(np.intp), angles[rows, columns])


def abundance_rmse(true: ArrayLike, found: ArrayLike, *, match: Match | None = None) -> float:
    """Root mean square error of abundances (rows × k), after matching the materials.

    Parameters
    ----------
    true, found
        Abundances, rows × k.
    match
        Matching of the materials, from :func:`matched_spectral_angle`; by default the one with the least error.

    Examples
    --------
    >>> import fastanchors as fa
    >>> fa.metrics.abundance_rmse([[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]])
    0.0
    """
    t, f = as_matrix(true, signed=True, name="true"), as_matrix(found, signed=True, name="found")
    t, f = dense(t), dense(f)
    if t.shape[0] != f.shape[0]:
        raise InvalidInputError(f"abundances differ in rows: true has {t.shape[0]}, found {f.shape[0]}")
    unit = unit_of(np.array([[np.abs(t).max(), np.abs(f).max()]]))
    t, f = divided(t, unit), divided(f, unit)
    if match is None:
        gap = np.stack([np.mean((t - column[:, None]) ** 2, axis=0) for column in f.T], axis=1)
        rows, columns = linear_sum_assignment(gap)
    else:
        if not isinstance(match, Match):
            raise InvalidTypeError(f"match must be a Match, from matched_spectral_angle, got {type(match).__name__}")
        rows = check_index(match.true, t.shape[1], name="match.true")
        columns = check_index(match.found, f.shape[1], name="match.found")
        if rows.ndim != 1 or rows.shape != columns.shape or not rows.size:
            raise InvalidInputError(f"match pairs materials {rows.shape} with {columns.shape}; it must have pairs")
    return unit * float(np.sqrt(np.mean((t[:, rows] - f[:, columns]) ** 2)))


def _units(X: Any, name: str) -> tuple[NDArray[np.float64], list[str] | None]:
    """The rows of ``X`` with unit length, and the names of its columns."""
    X, _, columns = in_memory(X, name)
    x = dense(as_matrix(X, signed=True, name=name))
    x = np.ldexp(x, -np.frexp(np.abs(x).max(axis=1, keepdims=True))[1])  # squares neither overflow nor underflow
    length = np.linalg.norm(x, axis=1, keepdims=True)
    return np.divide(x, length, out=np.zeros_like(x), where=length > 0), columns
