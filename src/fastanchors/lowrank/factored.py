"""Vectors in factored form: linear combinations of a few sampled rows or columns (Theorem 1 of the paper)."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._parallel import one_blas_thread
from .._rng import RngLike, as_generator
from .._validate import as_reals, check_choice, check_draws, check_index, check_one_index, check_size
from ..errors import InvalidInputError, RankError
from ..matrix.contract import SampleAccess
from ..matrix.norm_draws import draw_by_weight
from ..matrix.scaled import power_of_two
from ._layers import one_layer
from ._lines import Lines, Side, as_access, check_side

__all__ = ["FactoredVectors", "as_factored"]

GramMethod: TypeAlias = Literal["exact", "sampled"]

#: number of draws for an estimated Gram matrix; each costs one sample and p queries
GRAM_DRAWS = 8192


class FactoredVectors:
    """k vectors V̂^(1) … V̂^(k), each a combination of the same p rows (or columns) of a matrix.

    In the paper FKV's sampled rows are scaled, S_t = A_(i_t)/√(p·P_(i_t)), and V̂ = SᵀW with
    W = [u^(1)/σ_1, …, u^(k)/σ_k]. Here the scaling is part of the coefficients, and rows drawn more than once are
    merged, so that

        V̂ = Σ_t A_(indices[t]) · coefficients[t]        (p × k numbers, independent of m and n).

    :meth:`query`, :meth:`sample` and :meth:`transform` form no vector of length m or n. The rows are read from the
    matrix when needed, so a later update of an entry changes the vectors.

    Parameters
    ----------
    S
        An object with sample access, or an array.
    side
        ``"right"`` for combinations of rows (vectors of length n), ``"left"`` for columns (length m).
    indices
        The p rows or columns, distinct.
    coefficients
        p × k.
    singular_values
        The approximate singular values, if the vectors come from FKV.

    Examples
    --------
    >>> import fastanchors as fa
    >>> S = fa.SampleMatrix(fa.datasets.separable(300, 20, 3, rng=0).A, normalize=None)
    >>> V = fa.fkv(S, 3, rng=0)
    >>> V.query([0, 5]).shape
    (2, 3)
    >>> V.sample(0, 4, rng=0).shape
    (4,)
    """

    def __init__(
        self,
        S: Any,
        side: Side,
        indices: ArrayLike,
        coefficients: ArrayLike,
        singular_values: ArrayLike | None = None,
    ) -> None:
        access = as_access(S)
        count = access.shape[0] if check_side(side) == "right" else access.shape[1]
        lines = np.atleast_1d(check_index(indices, count, name="row" if side == "right" else "column"))
        table = as_reals(coefficients, "coefficients")
        if lines.ndim != 1 or table.ndim != 2 or len(table) != len(lines) or 0 in table.shape:
            raise InvalidInputError(
                f"coefficients must have one row for each of the {lines.size} indices and at least one column, "
                f"got shape {table.shape}"
            )
        self._lines = Lines(access, side, lines)
        self.coefficients: NDArray[np.float64] = table
        sigma = None if singular_values is None else as_reals(singular_values, "singular_values")
        if sigma is not None and sigma.ndim != 1:
            raise InvalidInputError(f"singular_values must be one-dimensional, got shape {sigma.shape}")
        self.singular_values: NDArray[np.float64] | None = sigma

    @property
    def S(self) -> SampleAccess:
        return self._lines.S

    @property
    def side(self) -> Side:
        return self._lines.side

    @property
    def indices(self) -> NDArray[np.intp]:
        """The sampled rows (right) or columns (left) that the vectors are combinations of."""
        return self._lines.indices

    @property
    def shape(self) -> tuple[int, int]:
        """(length of each vector, number of vectors)."""
        return self._lines.length, self.coefficients.shape[1]

    def __repr__(self) -> str:
        length, k = self.shape
        what = "rows" if self.side == "right" else "columns"
        return f"<FactoredVectors: {k} of length {length}, combinations of {len(self.indices)} {what}>"

    @one_blas_thread()  # the order of summation must not depend on the number of threads
    def query(self, indices: ArrayLike) -> NDArray[np.float64]:
        """Entries of all k vectors at ``indices``: a len(indices) × k array. Costs p queries per index."""
        places = np.atleast_1d(check_index(indices, self.shape[0], name="index"))
        if places.ndim != 1:
            raise InvalidInputError(f"indices must be an int or a one-dimensional array, got shape {places.shape}")
        result = np.empty((len(places), self.shape[1]))
        step = self._lines.batch
        for start in range(0, len(places), step):
            some = slice(start, start + step)
            result[some] = self._lines.entries(places[some]) @ self.coefficients
        return result

    def sample(self, j: int, size: int | None = None, *, rng: RngLike = None, max_trials: int = 10_000) -> Any:
        """Draw indices from D_{V̂^(j)}: s with probability V̂_sj²/‖V̂^(j)‖². Exact, by rejection over the p lines.

        Each trial costs one sample and p queries. More than ``max_trials`` trials per accepted draw raise
        ``SamplingError``.
        """
        vector = check_one_index(j, self.shape[1], name="vector")
        count = 1 if size is None else check_draws(size)
        w = self.coefficients[:, vector]
        drawn = one_layer(self._lines, w, count, as_generator(rng), check_size(max_trials, name="max_trials")).indices
        return int(drawn[0]) if size is None else drawn

    @one_blas_thread()  # the order of summation must not depend on the number of threads
    def transform(self, T: ArrayLike) -> FactoredVectors:
        """The vectors V̂·T for a k × l matrix T (or one vector V̂·y for a vector y), in the same factored form."""
        table = as_reals(T, "T")
        if table.ndim == 1:
            table = table[:, None]
        if table.ndim != 2 or len(table) != self.shape[1]:
            raise InvalidInputError(f"T must have {self.shape[1]} rows, got shape {table.shape}")
        return FactoredVectors(self.S, self.side, self.indices, self.coefficients @ table, self.singular_values)

    @one_blas_thread()  # the order of summation must not depend on the number of threads
    def gram(
        self, method: GramMethod | None = None, *, draws: int = GRAM_DRAWS, rng: RngLike = None
    ) -> NDArray[np.float64]:
        """V̂ᵀV̂, k × k.

        ``"exact"`` (the default for the right side) reads the p rows and needs memory for n × k numbers; for the left
        side it queries the p columns entry by entry, m·p queries. ``"sampled"`` (the default for the left side) draws
        positions s from the mixture q_s ∝ Σ_t ‖coefficients_t‖²·A_ts² and averages V̂_s V̂_sᵀ/q_s, which is unbiased:
        ``draws`` samples with p queries each, independent of m and n.
        """
        if method is None:
            method = "exact" if self.side == "right" else "sampled"
        check_choice(method, ("exact", "sampled"), name="method")
        if method == "exact":
            V = self._lines.combine(self.coefficients)
            return V.T @ V
        return self._sampled_gram(check_size(draws, name="draws"), as_generator(rng))

    def _sampled_gram(self, draws: int, rng: np.random.Generator) -> NDArray[np.float64]:
        lines, k = self._lines, self.shape[1]
        squares = (self.coefficients**2).sum(axis=1)
        weights = squares * lines.norms() ** 2
        if not weights.any():
            return np.zeros((k, k))
        total = weights.sum()
        gram = np.zeros((k, k))
        for start in range(0, draws, lines.batch):
            batch = min(lines.batch, draws - start)
            entries = lines.entries(lines.draw(draw_by_weight(weights, batch, rng), rng))
            V = entries @ self.coefficients
            gram += (V / (entries**2 @ squares)[:, None]).T @ V
        gram *= total / draws
        return (gram + gram.T) / 2

    def alpha(self, method: GramMethod | None = None, *, draws: int = GRAM_DRAWS, rng: RngLike = None) -> float:
        """The smallest α for which the vectors are α-approximately orthonormal: k·max|V̂ᵀV̂ − I|.

        Costs as much as :meth:`gram`. For raw FKV vectors Lemma 3 guarantees εk/16, at its sample size.
        """
        return float(self.shape[1] * np.abs(self.gram(method, draws=draws, rng=rng) - np.eye(self.shape[1])).max())

    @one_blas_thread()  # the order of summation must not depend on the number of threads
    def orthonormalize(
        self, method: GramMethod | None = None, *, draws: int = GRAM_DRAWS, rng: RngLike = None
    ) -> FactoredVectors:
        """Orthonormal vectors with the same span, in factored form: V̂·G^(−1/2) with G = V̂ᵀV̂.

        Of all orthonormal bases of the span this one is nearest to V̂ (the V of Lemma 2). Costs as much as
        :meth:`gram`; with ``"sampled"`` the result is orthonormal up to the error of the estimate. Raises ``RankError``
        if the vectors are linearly dependent.
        """
        near = self._of_ordinary_size()
        values, basis = np.linalg.eigh(near.gram(method, draws=draws, rng=rng))
        rank = int(np.count_nonzero(values > values[-1] * len(values) * np.finfo(float).eps))
        if rank < len(values):
            raise RankError(f"the {len(values)} factored vectors span only {rank} dimension(s)", rank)
        return near.transform((basis / np.sqrt(values)) @ basis.T)

    def _of_ordinary_size(self) -> FactoredVectors:
        """The vectors divided by powers of two, so that their squares neither overflow nor underflow."""
        units = power_of_two(float(np.abs(self.coefficients).max())), power_of_two(self.S.frobenius_norm)
        table = self.coefficients / units[0] / units[1]
        return FactoredVectors(self.S, self.side, self.indices, table, self.singular_values)


def as_factored(U: Any) -> FactoredVectors:
    """Factored vectors as they are, or the columns of an array or of a matrix with sample access."""
    if isinstance(U, FactoredVectors):
        return U
    S = as_access(U)
    return FactoredVectors(S, "left", np.arange(S.shape[1]), np.eye(S.shape[1]))
