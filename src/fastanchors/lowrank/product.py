"""Estimate the small product M = L·A·R from a few sampled entries of A (Lemma 7 of the paper)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .._parallel import one_blas_thread
from .._rng import RngLike, as_generator
from .._validate import as_numbers, as_reals, check_number, check_size
from ..errors import InvalidInputError, TooLargeError
from ..matrix.contract import SampleAccess
from ._lines import as_access
from .factored import FactoredVectors

__all__ = ["estimate_product", "product_draws"]

MAX_DRAWS = 10_000_000
_BATCH = 1 << 15  # draws processed at a time

_Lookup: TypeAlias = Callable[[NDArray[np.intp]], NDArray[np.float64]]


def product_draws(entries: int, zeta: float, eta: float) -> tuple[int, int]:
    """(groups, draws per group) of the median of means for ``entries`` = k₁·k₂ numbers, error ζ, failure η.

    One draw (i, j) with probability A_ij²/‖A‖_F² gives X = L^(i)·(‖A‖_F²/A_ij)·R_(j), with E[X] = L·A·R and
    Var[X_ab] ≤ ‖A‖_F²‖L_(a)‖²‖R^(b)‖². By Chebyshev the mean of b = ⌈8/ζ²⌉ draws misses an entry by more than
    ζ‖A‖_F‖L_(a)‖‖R^(b)‖ with probability at most 1/8. The median of g groups misses only if half of them do:
    at most exp(−g·KL(½‖⅛)) = (7/16)^(g/2) by Chernoff. With g = ⌈2·log(k₁k₂/η)/log(16/7)⌉ (made odd) a union bound
    over the entries gives η, and summing squares over the entries gives the lemma. All entries use the same draws, so
    the total, about 19.4·log(k₁k₂/η)/ζ², does not have the factor k₁k₂ of the paper.
    """
    if zeta < 1e-150:
        raise TooLargeError(f"zeta = {zeta:.3g} needs more than 1e300 draws; use a larger zeta")
    per_group = math.ceil(8 / min(zeta, 1e150) ** 2)
    groups = math.ceil(2 * (math.log(entries) - math.log(eta)) / math.log(16 / 7))
    groups = max(1, groups)
    return groups + 1 - groups % 2, per_group


def estimate_product(
    L: Any,
    S: Any,
    R: Any,
    *,
    zeta: float | None = None,
    eta: float | None = None,
    draws: int | None = None,
    rng: RngLike = None,
    max_draws: int = MAX_DRAWS,
) -> NDArray[np.float64]:
    """Estimate M = L·A·R (k₁ × k₂) so that ‖M − M̃‖_F ≤ ζ‖A‖_F‖L‖_F‖R‖_F with probability 1 − η (Lemma 7).

    Median of means over entries of A drawn by their squares; every mean is unbiased. See :func:`product_draws` for the
    constants. If ``draws`` is given, the result is one plain mean, which is unbiased and has root-mean-square error at
    most ‖A‖_F‖L‖_F‖R‖_F/√draws.

    Parameters
    ----------
    L
        A k₁ × m array; factored vectors Û of the left side, for L = Ûᵀ; or a callable that takes row indices of A and
        returns len(indices) × k₁ values.
    S
        An object with sample access to A, or an array or sparse matrix.
    R
        An n × k₂ array; factored vectors of the right side; or a callable that takes column indices and returns
        len(indices) × k₂ values.
    zeta
        Allowed error, relative to ‖A‖_F‖L‖_F‖R‖_F; 0.1 by default.
    eta
        Allowed failure probability; 0.1 by default.
    draws
        Number of draws, instead of ``zeta`` and ``eta``; they cannot be given together.
    rng
        A ``numpy.random.Generator``, an int seed or None.
    max_draws
        Raise if more draws would be needed.

    Notes
    -----
    Costs two samples and one query per draw, and one lookup of L and of R (p queries for factored vectors) per
    distinct index in each batch. Raises ``TooLargeError`` above ``max_draws`` draws.

    Examples
    --------
    >>> import fastanchors as fa
    >>> import numpy as np
    >>> X = np.ones((50, 30))
    >>> left, right = np.ones((1, 50)), np.ones((30, 1))
    >>> estimate = fa.estimate_product(left, X, right, draws=100, rng=0)
    >>> round(float(estimate[0, 0]))
    1500
    """
    if draws is not None and (zeta is not None or eta is not None):
        raise InvalidInputError("pass either draws or zeta and eta, not both")
    access = as_access(S)
    if not access.frobenius_norm > 0:
        raise InvalidInputError("every entry of the matrix is zero: there is nothing to sample from")
    generator = as_generator(rng)
    m, n = access.shape
    left, right = _lookup(L, "left", m), _lookup(R, "right", n)
    shape = (left(np.zeros(1, dtype=np.intp)).shape[1], right(np.zeros(1, dtype=np.intp)).shape[1])
    if draws is not None:
        groups, per_group = 1, check_size(draws, name="draws")
    else:
        zeta = check_number(0.1 if zeta is None else zeta, name="zeta", minimum=0)
        eta = check_number(0.1 if eta is None else eta, name="eta", minimum=0, maximum=1)
        if zeta == 0 or eta in (0, 1):
            raise InvalidInputError(f"zeta must be positive and eta strictly between 0 and 1, got {zeta} and {eta}")
        groups, per_group = product_draws(shape[0] * shape[1], zeta, eta)
    if groups * per_group > check_size(max_draws, name="max_draws"):
        requested = f"zeta = {zeta:.3g} and eta = {eta:.3g} need" if draws is None else "draws requests"
        cure = "use a larger zeta" if draws is None else "use fewer"
        raise TooLargeError(
            f"{requested} {groups * per_group:.3g} draws, more than max_draws = {max_draws:.3g}; {cure}, or increase "
            "max_draws"
        )
    means = np.stack([_mean(left, access, right, shape, per_group, generator) for _ in range(groups)])
    return np.asarray(np.median(means, axis=0))


@one_blas_thread()  # the order of summation must not depend on the number of threads
def _mean(
    left: _Lookup, S: SampleAccess, right: _Lookup, shape: tuple[int, int], draws: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """The plain mean of ``draws`` unbiased estimates."""
    total = np.zeros(shape)
    size = S.frobenius_norm  # entries are divided by it, so that their inverses and its square stay in range
    for start in range(0, draws, _BATCH):
        rows = np.asarray(S.sample_rows(min(_BATCH, draws - start), rng=rng), dtype=np.intp)
        columns = np.asarray(S.sample_in_row(rows, rng=rng), dtype=np.intp)
        values = np.asarray(S[rows, columns], dtype=np.float64)
        total += (_each(left, rows) / (values / size)[:, None]).T @ _each(right, columns)
    return total / draws * size


def _each(lookup: _Lookup, indices: NDArray[np.intp]) -> NDArray[np.float64]:
    """The values at ``indices``, each distinct index looked up once."""
    distinct, where = np.unique(indices, return_inverse=True)
    return lookup(distinct)[where]


def _lookup(vectors: Any, side: str, length: int) -> _Lookup:
    """A function from indices to len(indices) × k values, for any of the accepted kinds of L or R."""
    name = "L" if side == "left" else "R"
    if isinstance(vectors, FactoredVectors):
        if vectors.side != side or vectors.shape[0] != length:
            raise InvalidInputError(
                f'{name} must describe vectors of length {length} (side="{side}"), got side="{vectors.side}" and '
                f"length {vectors.shape[0]}"
            )
        return vectors.query
    if callable(vectors):
        return lambda indices: _checked(vectors(indices), len(indices), name)
    array = as_reals(vectors, name)
    expected = f"k × {length}" if side == "left" else f"{length} × k"
    if array.ndim != 2 or array.shape[1 if side == "left" else 0] != length or 0 in array.shape:
        raise InvalidInputError(f"{name} must have shape {expected}, got {array.shape}")
    table = array.T if side == "left" else array
    return lambda indices: table[indices]


def _checked(found: Any, count: int, name: str) -> NDArray[np.float64]:
    values = as_numbers(found, f"the result of the callable {name}").astype(np.float64, copy=False)
    if values.ndim != 2 or len(values) != count:
        raise InvalidInputError(
            f"the callable {name} must return one row for each index: {count} × k, got {values.shape}"
        )
    if not np.isfinite(values).all():
        raise InvalidInputError(f"the callable {name} must return finite values")
    return values
