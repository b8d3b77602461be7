"""The error of a matrix written as mixtures of components, on all rows or on a sample."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from .._parallel import one_blas_thread
from .._rng import RngLike, as_generator
from .._types import Rows
from .._validate import as_matrix, check_draws, check_number
from ..errors import InvalidInputError
from ..matrix import RowMatrix, dense, open_matrix
from ..matrix.contract import squared_norms_of
from ..matrix.norm_draws import draw_rows
from ..matrix.scaled import divided, norm, unit_of

__all__ = ["ReconstructionError", "blocks", "reconstruction_error"]

_CHUNK_ENTRIES = 1 << 22  # entries of a block
_LARGEST_SHARE = 1e75  # the fourth power of a relative error up to here is finite


@dataclass(frozen=True)
class ReconstructionError:
    """‖A − F·A_R‖_F, absolute and relative to ‖A‖_F; ``low`` … ``high`` is the confidence interval of ``relative``.

    Examples
    --------
    >>> import fastanchors as fa
    >>> fa.metrics.reconstruction_error([[1.0, 0.0], [0.0, 2.0]], [[1.0, 0.0]]).absolute
    2.0
    """

    absolute: float
    relative: float
    low: float
    high: float
    rows: int
    confidence: float

    def __float__(self) -> float:
        return self.relative


@one_blas_thread()  # so that no digit depends on the number of threads
def reconstruction_error(
    A: Any,
    components: Any,
    weights: Any = None,
    *,
    rows: int | None = None,
    sum_to_one: bool = False,
    confidence: float = 0.95,
    rng: RngLike = None,
) -> ReconstructionError:
    """The error of writing ``A`` in its anchors: of all rows, or estimated from ``rows`` sampled rows.

    Parameters
    ----------
    A
        Anything that :func:`fastanchors.open_matrix` opens.
    components
        Anchor rows, k×n. For a solver's result these are its ``points``, or else its rows of ``A``.
    weights
        F, m×k; None encodes the rows (non-negative least squares, with ``sum_to_one`` or without).
    rows
        How many rows to draw with replacement and probability ‖A_(i)‖²/‖A‖_F²; None uses every row.
    sum_to_one
        Whether the weights of a row must sum to one.
    confidence
        Confidence level of the interval ``low`` … ``high`` when sampling.
    rng
        A ``numpy.random.Generator``, an int seed or None.

    Notes
    -----
    For rows drawn this way the mean of ‖r_i‖²/‖A_(i)‖² is an unbiased estimate of the squared relative error, and each
    term is within [0, 1] for the best weights. The interval assumes a normal distribution of the mean. Sampling reads
    ``rows`` rows only (plus one pass for the norms if the matrix has no sample access).

    Examples
    --------
    >>> import fastanchors as fa
    >>> X = fa.datasets.separable(100, 8, 3, rng=0).A
    >>> round(fa.metrics.reconstruction_error(X, fa.SPA().seek(X, 3)).relative, 6)
    0.0
    """
    confidence = check_number(confidence, name="confidence", minimum=0.0, maximum=1.0 - 1e-12)
    from ..encoder import components_of  # start-up: other scores need no kernel

    matrix = open_matrix(A, signed=True)
    W = components_of(matrix, components)
    m, n = matrix.shape
    if W.shape[1] != n:
        raise InvalidInputError(f"components have {W.shape[1]} columns, A has {n}")
    F = None if weights is None else as_matrix(weights, signed=True, name="weights")
    if F is not None and F.shape != (m, len(W)):
        raise InvalidInputError(f"weights must be {m}×{len(W)} to go with A and components, got {F.shape}")
    if rows is None:
        lost = total = 0.0
        for start, block in matrix.blocks():
            at = None if F is None else F[start : start + block.shape[0]]
            lost = math.hypot(lost, *_lost(block, W, at, sum_to_one))
            total = math.hypot(total, norm(block))
        relative = lost / total if total else 0.0
        _check_range(lost, relative)
        return ReconstructionError(lost, relative, relative, relative, m, 1.0)
    return _sampled_error(
        matrix, W, F, check_draws(rows, name="rows", minimum=1), sum_to_one, confidence, as_generator(rng)
    )


def _sampled_error(
    matrix: RowMatrix,
    W: NDArray[np.float64],
    F: Any,
    size: int,
    sum_to_one: bool,
    confidence: float,
    rng: np.random.Generator,
) -> ReconstructionError:
    drawn, total = draw_rows(matrix, size, rng)
    if drawn.size == 0:
        return ReconstructionError(0.0, 0.0, 0.0, 0.0, 0, confidence)
    distinct, back = np.unique(drawn, return_inverse=True)
    block = matrix.rows(distinct)
    with np.errstate(over="ignore"):
        shares = _lost(block, W, None if F is None else F[distinct], sum_to_one) / np.sqrt(squared_norms_of(block))
    _check_range(shares)
    unit = unit_of(shares, largest=_LARGEST_SHARE)
    ratio = (divided(shares, unit) ** 2)[back]
    mean = float(ratio.mean())
    spread = float(ndtri(0.5 + confidence / 2) * ratio.std(ddof=min(1, size - 1)) / np.sqrt(size))
    low, high = unit * math.sqrt(max(mean - spread, 0.0)), unit * math.sqrt(mean + spread)
    relative = unit * math.sqrt(mean)
    absolute = relative * math.sqrt(total)
    _check_range(absolute, high)
    return ReconstructionError(absolute, relative, low, high, size, confidence)


def _check_range(*errors: Any) -> None:
    """Raise if an error is larger than any float64."""
    if not all(np.isfinite(each).all() for each in errors):
        raise InvalidInputError(
            "the error overflows; divide A, components and weights by their largest entries, or correct the weights"
        )


def _lost(block: Rows, W: NDArray[np.float64], F: Any, sum_to_one: bool) -> NDArray[np.float64]:
    """‖A_(i) − F_(i)·W‖ for the rows of a block."""
    if F is None:
        from ..encoder import encode  # start-up: other scores need no kernel

        F = encode(block, W, sum_to_one=sum_to_one)
    lost = np.empty(block.shape[0])
    for start, part in blocks(block):  # a few sparse rows at a time are made dense
        stop = start + part.shape[0]
        with np.errstate(over="ignore", invalid="ignore"):
            gap = dense(part) - F[start:stop] @ W
        _check_range(gap)
        unit = unit_of(gap)
        gap = divided(gap, unit)
        lost[start:stop] = unit * np.sqrt(np.einsum("ij,ij->i", gap, gap))
    return lost


def blocks(matrix: Rows) -> Iterator[tuple[int, Rows]]:
    """(first row, rows) of blocks of bounded size."""
    step = max(1, _CHUNK_ENTRIES // matrix.shape[1])
    for start in range(0, matrix.shape[0], step):
        yield start, matrix[start : start + step]
