"""How much of the data each anchor explains.

For the best weights f ≥ 0 of a row a in the anchors C, what is left is orthogonal to every anchor in use, so

    ‖a‖² = Σ_j f_j·⟨c_j, a⟩ + ‖a − f·C‖²,

every term non-negative: the squared norm splits into a share for each anchor and what none explains.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._rng import RngLike, as_generator
from ..encoder import encode
from ..matrix.contract import Rows, SampleAccess

__all__ = ["Shares", "anchor_shares", "draw_by_norm", "squared_norms"]

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Shares:
    """``shares`` (one per anchor) and ``unexplained`` sum to one; ``rows`` were looked at, ``sampled`` or all."""

    shares: _Array
    unexplained: float
    rows: int
    sampled: bool

    @property
    def error(self) -> float:
        """‖A − F·C‖_F / ‖A‖_F."""
        return float(np.sqrt(self.unexplained))


def anchor_shares(A: Any, components: _Array, *, rows: int = 1000, rng: RngLike = None) -> Shares:
    """Share of ‖A‖_F² that each anchor explains; of a larger matrix, from ``rows`` rows drawn by their squared norms.

    Drawn so, the mean of f_j·⟨c_j, a⟩/‖a‖² over the draws is an unbiased estimate, with a standard error below
    0.5/√rows. Reads those rows only, besides the norms.
    """
    block, weights, sampled = draw_by_norm(A, rows, as_generator(rng))
    products = np.asarray(block @ components.T)
    parts = np.maximum(encode(block, components) * products, 0.0)
    shares = weights @ parts
    return Shares(shares, float(max(1.0 - shares.sum(), 0.0)), block.shape[0], sampled)


def draw_by_norm(A: Any, size: int, rng: np.random.Generator) -> tuple[Rows, _Array, bool]:
    """Rows of ``A``, weights w with Σ w_i·f(a_i) an estimate of Σ f(a)/‖A‖_F², and whether they are a sample."""
    m = A.shape[0]
    if m <= size:
        block = A.rows(np.arange(m)) if isinstance(A, SampleAccess) else A
        total = float(squared_norms(block).sum())
        return block, np.full(m, 1.0 / total if total else 0.0), False
    if isinstance(A, SampleAccess):
        drawn, counts = np.unique(A.sample_rows(size, rng=rng), return_counts=True)
        block = A.rows(drawn)
    else:
        squares = squared_norms(A)
        drawn, counts = np.unique(rng.choice(m, size, p=squares / squares.sum()), return_counts=True)
        block = A[drawn]
    return block, counts / (size * squared_norms(block)), True


def squared_norms(block: Rows) -> _Array:
    """‖a‖² of each row."""
    if sp.issparse(block):
        exact = block.astype(np.float64)
        return np.asarray(exact.multiply(exact).sum(axis=1)).ravel()
    return np.asarray(np.einsum("ij,ij->i", block, block, dtype=np.float64))
