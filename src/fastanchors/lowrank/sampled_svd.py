"""FKV (Frieze, Kannan and Vempala): approximate singular vectors from a few sampled rows and columns (Theorem 1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._parallel import one_blas_thread
from .._rng import RngLike, as_generator
from .._validate import check_choice, check_number, check_rank, check_size
from ..errors import InvalidInputError, RankError, TooLargeError
from ..matrix.contract import SampleAccess
from ._lines import Lines, Side, as_access, check_side
from .factored import FactoredVectors

__all__ = ["SampleSize", "check_held", "fkv", "fkv_sample_size"]

PRACTICAL_FACTOR = 20  # rows and columns per unit of rank by default
MAX_ENTRIES = 1 << 27  # limit of the entries of the sampled submatrix: 1 GiB of float64


@dataclass(frozen=True)
class SampleSize:
    """Number of rows and columns that a theorem requires FKV to draw, and the theorem."""

    rows: int
    columns: int
    source: str

    @property
    def bytes(self) -> int:
        """Memory of the sampled submatrix in float64."""
        return 8 * self.rows * self.columns


def fkv_sample_size(k: int, eps: float, delta: float = 0.1, *, theorem: str = "span") -> SampleSize:
    """Rows and columns for which Theorem 1 is proved at rank k, error ε and failure probability δ.

    ``theorem="span"`` (used by :func:`fkv`): p = q = ⌈16·k·(1 + √(2·log(2/δ)))²/ε²⌉ gives, with probability 1 − δ,

        ‖A − A·Π‖_F² ≤ ‖A − A_k‖_F² + ε‖A‖_F²,

    Π the projector on the span of V̂, that is V̂V̂ᵀ after :meth:`FactoredVectors.orthonormalize`. Proof. Let
    Δ₁ = ‖AᵀA − SᵀS‖_F and Δ₂ = ‖SSᵀ − CCᵀ‖_F. Both are means of independent rank-one terms: E[Δ²] ≤ ‖A‖_F⁴/p
    (resp. q), and replacing one draw moves Δ by at most 2‖A‖_F²/p, so by McDiarmid each is at most
    (1 + √(2·log(2/δ)))·‖A‖_F²/√p with probability 1 − δ/2. The rows of U_kᵀS span the range of Π, so
    ‖SΠ‖_F² ≥ ‖U_kᵀS‖_F² ≥ Σ_{i≤k} σ_i²(C) − √k·Δ₂ ≥ Σ σ_i²(S) − 2√k·Δ₂ ≥ Σ σ_i²(A) − 2√k·Δ₂ − √k·Δ₁ (trace
    against a rank-k projector, and Hoffman–Wielandt), and ‖AΠ‖_F² ≥ ‖SΠ‖_F² − √k·Δ₁. Hence
    ‖A − AΠ‖_F² ≤ ‖A − A_k‖_F² + 2√k(Δ₁ + Δ₂). The method is that of Drineas, Kannan and Mahoney (SIAM J. Comput.
    36, 2006) for one-sided sampling; the raw V̂V̂ᵀ obeys no such bound at this size.

    ``theorem="fkv"``: the order max(k⁴/ε³, k²/ε⁴) of Frieze, Kannan and Vempala (J. ACM 51, 2004) for the raw
    vectors, with the leading constant of their proof taken as 1: a lower bound on what they require.

    Parameters
    ----------
    k
        Number of vectors.
    eps
        Allowed error.
    delta
        Allowed failure probability.
    theorem
        Which statement: ``"span"`` or ``"fkv"``.

    Examples
    --------
    >>> import fastanchors as fa
    >>> size = fa.fkv_sample_size(2, 0.5)
    >>> size.rows > 1000
    True
    """
    k = check_size(k, name="k")
    eps = _check_open_unit(eps, "eps")
    delta = _check_open_unit(delta, "delta")
    check_choice(theorem, ("span", "fkv"), name="theorem")
    if theorem == "span":
        p = _lines_for(16 * k * (1 + math.sqrt(2 * math.log(2 / delta))) ** 2, eps, 2)
        return SampleSize(p, p, "projector on the span, by McDiarmid (after Drineas, Kannan and Mahoney 2006)")
    p = max(_lines_for(k**4, eps, 3), _lines_for(k**2, eps, 4))
    return SampleSize(p, p, "raw vectors, order of Frieze, Kannan and Vempala 2004, constant taken as 1")


def fkv(
    S: Any,
    k: int,
    *,
    side: Side = "right",
    rows: int | None = None,
    columns: int | None = None,
    eps: float | None = None,
    delta: float | None = None,
    rng: RngLike = None,
) -> FactoredVectors:
    """Approximate top-k singular vectors of A, as combinations of a few of its rows (Theorem 1 of the paper).

    For ``side="right"``: p rows are drawn by squared norm and scaled, S_t = A_(i_t)/√(p·P_(i_t)); q columns are drawn
    by picking one of those rows uniformly and an entry of it by square, and scaled likewise into the p × q matrix C;
    with the SVD C = Σ_j σ_j u^(j)z^(j)ᵀ the vectors are V̂^(j) = Sᵀu^(j)/σ_j. ``side="left"`` does the same for Aᵀ.

    Parameters
    ----------
    S
        An object with sample access, or an array or sparse matrix of any sign.
    k
        Number of vectors.
    side
        ``"right"`` for vectors in the space of the rows, ``"left"`` for Û.
    rows, columns
        How many to draw. The default, 20·k of each, works in practice if the vectors are orthonormalised; it is much
        smaller than the theorem's size.
    eps, delta
        Use the size of :func:`fkv_sample_size` instead (δ = 0.1 by default).
    rng
        A ``numpy.random.Generator``, an int seed or None.

    Raises
    ------
    TooLargeError
        The sample size does not fit in memory; the message says how much is needed.
    RankError
        The sampled submatrix has rank below k.

    Notes
    -----
    Costs at most p·q queries and p norms, p + q samples, and the SVD of a p × q matrix; nothing grows with m or n.
    The vectors are far from orthonormal unless p is very large: see :meth:`FactoredVectors.orthonormalize`.

    Examples
    --------
    >>> import fastanchors as fa
    >>> import numpy as np
    >>> X = fa.datasets.separable(300, 20, 3, rng=0).A
    >>> V = fa.fkv(X, 3, rows=100, columns=20, rng=0)
    >>> bool(np.allclose(V.singular_values[0], np.linalg.svd(X)[1][0], rtol=0.1))
    True
    """
    access = as_access(S)
    side = check_side(side)
    k = check_rank(k, access.shape)
    p, q = _sizes(k, rows, columns, eps, delta)
    check_held(p, q, k, access.shape)
    if min(p, q) < k:
        raise InvalidInputError(f"rows = {p} and columns = {q} must both be at least k = {k}")
    if not access.frobenius_norm > 0:
        raise InvalidInputError("every entry of the matrix is zero: there is nothing to sample from")
    counts = (p, q) if side == "right" else (q, p)
    return _fkv(access, k, side, *counts, as_generator(rng))


@one_blas_thread()  # the order of summation must not depend on the number of threads
def _fkv(S: SampleAccess, k: int, side: Side, lines: int, places: int, rng: np.random.Generator) -> FactoredVectors:
    """FKV in the terms of ``side``: ``lines`` are the rows of Theorem 1 for the right side, columns for the left."""
    draw = S.sample_rows if side == "right" else S.sample_columns
    drawn = np.asarray(draw(lines, rng=rng), dtype=np.intp)
    at = Lines(S, side, drawn).draw(rng.integers(lines, size=places), rng)
    # A row drawn c times is used once, scaled by √c: CᵀC and V̂ are the same.
    distinct, repeats = np.unique(drawn, return_counts=True)
    at, at_repeats = np.unique(at, return_counts=True)
    sampled = Lines(S, side, distinct)
    total = S.frobenius_norm
    scale = total * np.sqrt(repeats / lines) / sampled.norms()  # 1/√(p·P_t)
    C = sampled.entries(at).T * scale[:, None]
    C *= total * np.sqrt(at_repeats / places) / np.linalg.norm(C, axis=0)  # 1/√(q·P'_u), P'_u = ‖S^(u)‖²/‖A‖_F²
    U, sigma, _ = np.linalg.svd(C, full_matrices=False)
    rank = int(np.count_nonzero(sigma > sigma[0] * max(C.shape) * np.finfo(float).eps))
    if rank < k:
        raise RankError(
            f"the {len(distinct)} × {len(at)} sampled submatrix has rank {rank}, below k = {k}; use a smaller k, or "
            "draw more rows and columns if the matrix has few distinct ones",
            rank,
        )
    return FactoredVectors(S, side, distinct, scale[:, None] * U[:, :k] / sigma[:k], sigma[:k])


def check_held(p: int, q: int, k: int, shape: tuple[int, int]) -> None:
    """Raise if the distinct rows and columns, or the draws, do not fit in memory."""
    entries = min(p, shape[0]) * min(q, shape[1])
    if max(entries, p + q) > MAX_ENTRIES:
        raise TooLargeError(
            f"drawing {p:.3g} rows and {q:.3g} columns needs {8 * max(entries, p + q) / 1e9:.3g} GB for the draws "
            f"alone, more than the limit of {8 * MAX_ENTRIES / 1e9:.2g} GB; pass rows=…, columns=… "
            f"({PRACTICAL_FACTOR}·k = {PRACTICAL_FACTOR * k} of each works in practice) or a larger eps"
        )


def _sizes(k: int, rows: int | None, columns: int | None, eps: float | None, delta: float | None) -> tuple[int, int]:
    if eps is None and delta is None:
        default = PRACTICAL_FACTOR * k
        return (
            default if rows is None else check_size(rows, name="rows"),
            default if columns is None else check_size(columns, name="columns"),
        )
    if rows is not None or columns is not None:
        raise InvalidInputError("pass either rows and columns or eps and delta, not both")
    if eps is None:
        raise InvalidInputError("delta needs eps: the theorem's size depends on both")
    size = fkv_sample_size(k, eps, 0.1 if delta is None else delta)
    return size.rows, size.columns


def _lines_for(factor: float, eps: float, power: int) -> int:
    """⌈factor/ε^power⌉."""
    divisor = eps**power
    if divisor == 0 or math.isinf(factor / divisor):
        raise TooLargeError(f"eps = {eps:.3g} needs more than 1e308 rows; use a larger eps")
    return math.ceil(factor / divisor)


def _check_open_unit(value: Any, name: str) -> float:
    value = check_number(value, name=name, minimum=0, maximum=1)
    if value in (0, 1):
        raise InvalidInputError(f"{name} must be strictly between 0 and 1, got {value}")
    return value
