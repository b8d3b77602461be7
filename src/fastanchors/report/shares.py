"""Estimate how much of the data each anchor explains.

For the best weights f ≥ 0 of a row a in the anchors C, the residual is orthogonal to every anchor with f_j > 0, so

    ‖a‖² = Σ_j f_j·⟨c_j, a⟩ + ‖a − f·C‖²,

where every term is non-negative: the squared norm is the sum of a share for each anchor and an unexplained share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._equality import ComparedByValue
from .._rng import RngLike, as_generator
from .._validate import check_size
from ..encoder import components_of, encode
from ..matrix.array import ArrayMatrix
from ..matrix.contract import RowMatrix
from ..matrix.door import open_matrix
from ..matrix.norm_draws import draw_rows

__all__ = ["Shares", "anchor_shares", "explained_parts", "rows_by_norm", "shares_of"]

_Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Shares(ComparedByValue):
    """``shares`` (one per anchor) and ``unexplained`` sum to one; ``rows`` rows were read, ``sampled`` or all.

    Examples
    --------
    >>> import fastanchors as fa
    >>> X = fa.datasets.separable(100, 8, 3, rng=0).A
    >>> found = fa.report.anchor_shares(X, X[fa.SPA().seek(X, 3)])
    >>> round(float(found.shares.sum() + found.unexplained), 6)
    1.0
    """

    shares: _Array
    unexplained: float
    rows: int
    sampled: bool

    @property
    def error(self) -> float:
        """‖A − F·C‖_F / ‖A‖_F."""
        return float(np.sqrt(self.unexplained))


def anchor_shares(A: Any, components: Any, *, rows: int = 1000, rng: RngLike = None) -> Shares:
    """Share of ‖A‖_F² that each anchor explains; of a larger matrix, from ``rows`` rows drawn by their squared norms.

    With these draws, the mean of f_j·⟨c_j, a⟩/‖a‖² over the draws is an unbiased estimate, with a standard error below
    0.5/√rows. Reads those rows only, besides the norms.

    Parameters
    ----------
    A
        Anything :func:`fastanchors.open_matrix` opens.
    components
        The anchors, k × n, or the result of a solver.
    rows
        Number of rows to read.
    rng
        A ``numpy.random.Generator``, an int seed or None.

    Examples
    --------
    >>> import fastanchors as fa
    >>> X = fa.datasets.separable(100, 8, 3, rng=0).A
    >>> fa.report.anchor_shares(X, X[fa.SPA().seek(X, 3)]).shares.shape
    (3,)
    """
    rows = check_size(rows, name="rows")
    matrix = open_matrix(A, signed=True)
    components = components_of(matrix, components)
    drawn, weights = rows_by_norm(matrix, rows, as_generator(rng))
    return shares_of(drawn, weights, components, sampled=matrix.shape[0] > rows)


def shares_of(drawn: ArrayMatrix, weights: _Array, components: _Array, sampled: bool) -> Shares:
    """The same as :func:`anchor_shares`, from rows that :func:`rows_by_norm` drew."""
    shares = weights @ explained_parts(drawn, components)
    return Shares(shares, float(max(1.0 - shares.sum(), 0.0)), drawn.shape[0], sampled)


def explained_parts(rows: ArrayMatrix, components: _Array) -> _Array:
    """f_j·⟨c_j, a⟩ for every row a and anchor c_j: the part of the squared norm that each anchor explains."""
    weights = encode(rows.data, components).astype(np.float64)
    return np.maximum(weights * rows.dot(components.T), 0.0)


def rows_by_norm(matrix: RowMatrix, size: int, rng: np.random.Generator) -> tuple[ArrayMatrix, _Array]:
    """Distinct rows drawn by their squared norms, and weights w with Σ w_i·f(a_i) an estimate of Σ f(a)/‖A‖_F².

    Returns all rows if there are at most ``size``.
    """
    m = matrix.shape[0]
    if m <= size:
        rows = ArrayMatrix(matrix.rows(np.arange(m)))
        total = float(rows.squared_norms().sum())
        return rows, np.full(m, 1.0 / total if total else 0.0)
    indices, counts = np.unique(draw_rows(matrix, size, rng)[0], return_counts=True)
    rows = ArrayMatrix(matrix.rows(indices))
    return rows, counts / (size * rows.squared_norms())
