"""Low-rank linear systems: x = A⁺b as a combination of a few sampled rows.

A. Gilyén, S. Lloyd and E. Tang, "Quantum-inspired low-rank stochastic regression with logarithmic dependence on the
dimension", 2018; N.-H. Chia, H.-H. Lin and C. Wang, "Quantum-inspired sublinear classical algorithms for solving
low-rank linear systems", 2018.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from .._parallel import one_blas_thread
from .._rng import RngLike
from .._validate import as_numbers, check_flag, check_index
from ..errors import InvalidInputError, InvalidTypeError, RankError
from ..matrix.contract import Rows, SampleAccess
from ..matrix.scaled import norm, unit_of
from ..sampling.vector import VectorSampler
from ._lines import BATCH_ENTRIES, as_access
from .factored import FactoredVectors
from .rejection import expected_trials
from .sampled_svd import PRACTICAL_FACTOR, fkv

__all__ = ["LinearSolution", "solve"]


class LinearSolution:
    """x = V·y as a combination of p rows of A: entries can be queried and drawn without forming x.

    Attributes
    ----------
    vectors
        V, orthonormal :class:`~fastanchors.FactoredVectors`.
    y
        The k coefficients of x in them.
    singular_values
        Singular values of A·V: those of A if A has rank k and the regression was exact, estimates otherwise.
    residual_norm
        ‖A·x − b‖, an estimate unless the regression was exact.

    Examples
    --------
    >>> import fastanchors as fa
    >>> import numpy as np
    >>> A = fa.datasets.separable(300, 20, 3, rng=0).A
    >>> x = fa.lowrank.solve(A, A @ np.ones(20), 3, rng=0)
    >>> x.query([0, 7]).shape, x.sample(5, rng=0).shape
    ((2,), (5,))
    """

    def __init__(
        self, vectors: FactoredVectors, y: NDArray[np.float64], singular_values: NDArray[np.float64], residual: float
    ) -> None:
        self.vectors = vectors
        self.y = y
        self.singular_values = singular_values
        self.residual_norm = residual
        self._x = vectors.transform(y)

    def __len__(self) -> int:
        return self.vectors.shape[0]

    def __repr__(self) -> str:
        k, p = len(self.y), len(self.vectors.indices)
        return f"<LinearSolution: length {len(self)}, rank {k}, κ = {self.condition:.3g}, described by {p} rows>"

    @property
    def norm(self) -> float:
        """‖x‖ = ‖y‖, because V is orthonormal."""
        return norm(self.y)

    @property
    def condition(self) -> float:
        """Condition number κ of A on the k directions that are inverted."""
        return float(self.singular_values[0] / self.singular_values[-1])

    @property
    def trials_per_draw(self) -> float:
        """Expected trials of :meth:`sample` per accepted draw; up to order κ² if x depends on small singular values."""
        if not self.norm > 0:
            return float("inf")
        return expected_trials(self.vectors.transform(self.y / self.norm), [1.0], gram=[[1.0]])

    def query(self, indices: ArrayLike) -> NDArray[np.float64]:
        """x at ``indices``, an array of that length. Costs p queries per index."""
        return self._x.query(indices)[:, 0]

    def __getitem__(self, index: int) -> float:
        """One entry of x."""
        at = check_index(index, len(self), name="index")
        if at.ndim:
            raise InvalidTypeError("x[index] takes one index; x.query(indices) takes many")
        return float(self.query(int(at))[0])

    def sample(self, size: int | None = None, *, rng: RngLike = None, max_trials: int = 1_000_000) -> Any:
        """Draw indices with probability x_j²/‖x‖². Exact; one sample and p queries per trial."""
        if not self.norm > 0:
            raise InvalidInputError("x is the zero vector: there is nothing to sample from")
        return self._x.sample(0, size, rng=rng, max_trials=max_trials)

    def toarray(self) -> NDArray[np.float64]:
        """x as an array: reads the p rows, O(p·n)."""
        return self._x._lines.combine(self._x.coefficients)[:, 0]


@one_blas_thread()  # the order of summation must not depend on the number of threads
def solve(
    S: Any,
    b: Any,
    k: int,
    *,
    rows: int | None = None,
    columns: int | None = None,
    exact: bool = False,
    rng: RngLike = None,
) -> LinearSolution:
    """x = A_k⁺·b in factored form: the least-squares solution of A·x ≈ b on the k leading directions of A.

    The problem of Gilyén, Lloyd and Tang (2018) and of Chia, Lin and Wang (2018).

    FKV approximates the row space of A by p sampled rows. Its raw vectors are far from orthonormal, and the published
    algorithms lose accuracy when they invert the approximate singular values. Here the vectors are orthonormalised, and
    the k coefficients solve a small least-squares problem on the same p rows, weighted by their probability of being
    drawn (Drineas, Mahoney and Muthukrishnan, SODA 2006). Only a k × k triangle is inverted.

    Parameters
    ----------
    S
        An object with sample access, or an array or sparse matrix of any sign.
    b
        The right-hand side, m numbers. An array in memory is checked for NaN and infinities; a memory map or a
        ``VectorSampler`` is read and checked only at the sampled rows.
    k
        Rank of the system to invert. Further directions are ignored, as in ``numpy.linalg.pinv`` with a cutoff.
    rows, columns
        How many FKV draws; by default 20·k of each.
    exact
        Solve the regression on all rows, in one pass over A and b, instead of the sampled rows.
    rng
        A ``numpy.random.Generator``, an int seed or None.

    Raises
    ------
    RankError
        Fewer than k directions were found; use a smaller k.

    Notes
    -----
    Cost: p + q samples, p·q queries and the p rows read twice, O(p·nnz(row)·k) time; memory O(n·k + p·q). No part of it
    grows with m, unless ``exact``. Each entry of x then costs p queries; a draw costs a number of trials that grows
    with κ² (:attr:`LinearSolution.trials_per_draw`).

    Error: if A has rank k and b lies in its range, x is A⁺b up to rounding for any κ. Noise in A of spectral norm ν
    rotates the k directions by about ν/σ_k. A part r of b outside the range is averaged over p rows only, which gives
    an error of the order √(k/p)·‖r‖/σ_k; no method that reads p of the m entries of b can do much better.
    ``exact=True`` removes this error at the cost of a pass, and ``residual_norm`` estimates ‖r‖.

    Examples
    --------
    >>> import fastanchors as fa
    >>> import numpy as np
    >>> A = fa.datasets.separable(300, 20, 3, rng=0).A
    >>> b = A @ np.ones(20)
    >>> x = fa.lowrank.solve(A, b, 3, exact=True, rng=0)
    >>> bool(np.linalg.norm(A @ x.query(np.arange(20)) - b) < 0.1 * np.linalg.norm(b))
    True
    """
    access = as_access(S)
    exact = check_flag(exact, name="exact")
    right = _Right(b, access.shape[0])
    vectors = fkv(access, k, rows=rows, columns=columns, rng=rng)
    # QR of the vectors rather than of their Gram matrix, which would square the condition number.
    whole = vectors._lines.combine(vectors.coefficients)
    _, T = np.linalg.qr(whole)
    _check_rank(np.linalg.svd(T, compute_uv=False), len(T))
    inverse = np.linalg.inv(T)
    basis = whole @ inverse
    if exact:
        triangle = _triangle(_all_rows(access, right), basis)
    else:
        drawn = PRACTICAL_FACTOR * k if rows is None else rows
        triangle = _triangle(_sampled_rows(access, right, vectors.indices, drawn), basis)
    R, c = triangle[:-1, :-1], triangle[:-1, -1]
    sigma = np.asarray(np.linalg.svd(R, compute_uv=False))
    _check_rank(sigma, len(R))
    y = np.asarray(np.linalg.solve(R, c), dtype=np.float64) * right.unit
    if not np.isfinite(y).all():
        raise InvalidInputError("x overflows; divide b by its largest entry")
    return LinearSolution(vectors.transform(inverse), y, sigma, float(abs(triangle[-1, -1])) * right.unit)


def _triangle(weighted: Iterator[tuple[Rows, NDArray[np.float64]]], basis: NDArray[np.float64]) -> NDArray[np.float64]:
    """The R factor of [A·V, b], computed block by block; it contains the regression and its residual."""
    size = basis.shape[1] + 1
    triangle: NDArray[np.float64] = np.zeros((size, size))
    for block, b in weighted:
        part = np.column_stack([block @ basis, b])
        triangle = np.asarray(np.linalg.qr(np.vstack([triangle, part]), mode="r"))
    return triangle


def _sampled_rows(
    S: SampleAccess, b: _Right, indices: NDArray[np.intp], drawn: int
) -> Iterator[tuple[Rows, NDArray[np.float64]]]:
    """The rows that FKV drew and their entries of b, divided by √π, where π is the probability of being drawn.

    With these weights sums of squares over the sample are unbiased for those over all rows (Horvitz and Thompson).
    """
    step = max(1, BATCH_ENTRIES // S.shape[1])
    for start in range(0, len(indices), step):
        some = indices[start : start + step]
        share = np.minimum((np.asarray(S.row_norm(some)) / S.frobenius_norm) ** 2, 1.0)
        weight = 1.0 / np.sqrt(-np.expm1(drawn * np.log1p(-np.minimum(share, 1 - 1e-16))))
        block = S.rows(some)
        block = sp.diags_array(weight) @ block if sp.issparse(block) else block * weight[:, None]
        yield block, weight * b.at(some)


def _all_rows(S: SampleAccess, b: _Right) -> Iterator[tuple[Rows, NDArray[np.float64]]]:
    for start, block in S.blocks():
        yield block, b.at(np.arange(start, start + block.shape[0]))


class _Right:
    """The right-hand side b in units of ``unit``: checked completely if it is in memory, and at every read."""

    def __init__(self, b: Any, m: int) -> None:
        in_memory = not isinstance(b, VectorSampler | np.memmap)
        if in_memory:
            b = as_numbers(b, "b")
        elif isinstance(b, np.memmap):
            as_numbers(b[:0], "b")  # its type
        shape = (len(b),) if isinstance(b, VectorSampler) else b.shape
        if shape != (m,):
            raise InvalidInputError(f"b must hold one number for each of the {m} rows of A, got shape {shape}")
        self.values = b
        self.unit = 1.0
        if in_memory:
            for start in range(0, m, BATCH_ENTRIES):
                self.at(np.arange(start, min(start + BATCH_ENTRIES, m)))
            self.unit = unit_of(np.asarray(b, dtype=np.float64))

    def at(self, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        values = as_numbers(self.values[rows], "b").astype(np.float64, copy=False)
        if not np.isfinite(values).all():
            row = int(rows[np.argmin(np.isfinite(values))])
            raise InvalidInputError(f"b[{row}] is not finite; remove or impute it first")
        return values / self.unit


def _check_rank(sigma: NDArray[np.float64], k: int) -> None:
    rank = int(np.count_nonzero(sigma > sigma[0] * 1e-12))
    if rank < k:
        raise RankError(f"the sampled rows span only {rank} direction(s), k = {k} were requested; use k ≤ {rank}", rank)
