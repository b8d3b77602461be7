"""CUR decomposition: approximate a matrix by a few of its columns and rows.

M. W. Mahoney and P. Drineas, "CUR matrix decompositions for improved data analysis", PNAS 106, 2009; P. Drineas,
R. Kannan and M. W. Mahoney, "Fast Monte Carlo algorithms for matrices III", SIAM J. Comput. 36, 2006, for rows and
columns drawn by squared length.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._distinct import distinct
from .._parallel import one_blas_thread
from .._rng import RngLike, as_generator
from .._validate import check_choice, check_index, check_rank, check_size
from ..errors import InvalidInputError, RankError
from ..matrix.contract import SampleAccess, dense
from ._lines import BATCH_ENTRIES, as_access
from .sampled_svd import PRACTICAL_FACTOR, check_held

__all__ = ["CUR", "cur"]

Core: TypeAlias = Literal["sampled", "exact"]


class CUR:
    """A ≈ C·U·R with C some columns of A, R some rows of A and U of rank k.

    Attributes
    ----------
    rows, columns
        Indices of the rows of R and the columns of C, distinct and increasing.
    core
        U, len(columns) × len(rows).

    Examples
    --------
    >>> import fastanchors as fa
    >>> X = fa.datasets.separable(300, 20, 3, rng=0).A
    >>> found = fa.cur(X, 3, rows=40, columns=15, rng=0)
    >>> found.shape
    (300, 20)
    """

    def __init__(
        self,
        S: SampleAccess,
        rows: NDArray[np.intp],
        columns: NDArray[np.intp],
        core: NDArray[np.float64],
    ) -> None:
        self.S = S
        self.rows = rows
        self.columns = columns
        self.core = core

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of A."""
        return self.S.shape

    def __repr__(self) -> str:
        return f"<CUR: {self.shape[0]} × {self.shape[1]} by {len(self.columns)} columns and {len(self.rows)} rows>"

    @one_blas_thread()  # the order of summation must not depend on the number of threads
    def query(self, i: ArrayLike, j: ArrayLike) -> NDArray[np.float64]:
        """The entries (C·U·R)_ij for all i × all j, as an array. Costs len(i)·c + len(j)·r queries."""
        at = np.atleast_1d(check_index(i, self.shape[0], name="row"))
        to = np.atleast_1d(check_index(j, self.shape[1], name="column"))
        if at.ndim != 1 or to.ndim != 1:
            raise InvalidInputError("i and j must be ints or one-dimensional arrays")
        left = np.asarray(self.S[at[:, None], self.columns[None, :]], dtype=np.float64)
        right = np.asarray(self.S[self.rows[:, None], to[None, :]], dtype=np.float64)
        return left @ self.core @ right

    @one_blas_thread()  # the order of summation must not depend on the number of threads
    def error(self) -> float:
        """‖A − C·U·R‖_F / ‖A‖_F, exact, in one pass over A: O(m·n·r) time and memory for one block of rows."""
        R = dense(self.S.rows(self.rows))
        total = 0.0
        step = max(1, BATCH_ENTRIES // self.shape[1])
        for _, block in self.S.blocks(step):
            part = dense(block)
            gap = part - (part[:, self.columns] @ self.core) @ R
            total += float(np.einsum("ij,ij->", gap, gap))
        return float(np.sqrt(total) / self.S.frobenius_norm)


def cur(
    S: Any,
    k: int,
    *,
    rows: int | None = None,
    columns: int | None = None,
    core: Core = "sampled",
    rng: RngLike = None,
) -> CUR:
    """Approximate A by C·U·R with sampled columns and rows, and a core U of rank k.

    Mahoney and Drineas, PNAS 2009; draws by squared length as in Drineas, Kannan and Mahoney, 2006.

    Parameters
    ----------
    S
        An object with sample access, or an array or sparse matrix of any sign.
    k
        Rank of the core.
    rows, columns
        How many to draw, by squared length, with replacement; by default 20·k of each.
    core
        ``"sampled"`` inverts the intersection W of the sampled rows and columns, scaled to unit lengths and truncated
        to rank k: U = D_c·(D_r·W·D_c)_k⁺·D_r. ``"exact"`` is the best core of rank k for these rows and columns,
        U = C⁺·(Q_C·Q_Cᵀ·A·Q_R·Q_Rᵀ)_k·R⁺ in one pass over A, with bases Q_C of the columns and Q_R of the rows drawn.
    rng
        A ``numpy.random.Generator``, an int seed or None.

    Raises
    ------
    RankError
        The sampled rows and columns have rank below k.

    Notes
    -----
    Costs r + c samples and r·c queries for ``"sampled"``, independent of m and n; ``"exact"`` takes O(nnz·r) time and
    memory for (m + n)·max(r, c) numbers. Unlike singular vectors, the factors are rows and columns of the data: they
    keep its sparsity, signs and names.

    Examples
    --------
    >>> import fastanchors as fa
    >>> import numpy as np
    >>> X = fa.datasets.separable(300, 20, 3, rng=0).A
    >>> found = fa.cur(X, 3, rng=0)
    >>> approximation = X[:, found.columns] @ found.core @ X[found.rows]
    >>> bool(np.linalg.norm(X - approximation) < 0.1 * np.linalg.norm(X))
    True
    """
    access = as_access(S)
    k = check_rank(k, access.shape)
    r = PRACTICAL_FACTOR * k if rows is None else check_size(rows, name="rows")
    c = PRACTICAL_FACTOR * k if columns is None else check_size(columns, name="columns")
    check_held(r, c, k, access.shape)
    if min(r, c) < k:
        raise InvalidInputError(f"rows = {r} and columns = {c} must both be at least k = {k}")
    check_choice(core, ("sampled", "exact"), name="core")
    if not access.frobenius_norm > 0:
        raise InvalidInputError("every entry of the matrix is zero: there is nothing to sample from")
    generator = as_generator(rng)
    I = distinct(np.asarray(access.sample_rows(r, rng=generator), dtype=np.intp))
    J = distinct(np.asarray(access.sample_columns(c, rng=generator), dtype=np.intp))
    make = _sampled_core if core == "sampled" else _exact_core
    return CUR(access, I, J, make(access, I, J, k))


@one_blas_thread()  # the order of summation must not depend on the number of threads
def _sampled_core(S: SampleAccess, I: NDArray[np.intp], J: NDArray[np.intp], k: int) -> NDArray[np.float64]:
    scale_rows = 1.0 / np.asarray(S.row_norm(I), dtype=np.float64)
    scale_columns = 1.0 / np.asarray(S.column_norm(J), dtype=np.float64)
    W = np.asarray(S[I[:, None], J[None, :]], dtype=np.float64)
    P, sigma, Qt = np.linalg.svd(scale_rows[:, None] * W * scale_columns, full_matrices=False)
    _check_core(sigma, W.shape, k)
    return scale_columns[:, None] * ((Qt[:k].T / sigma[:k]) @ P[:, :k].T) * scale_rows


@one_blas_thread()  # the order of summation must not depend on the number of threads
def _exact_core(S: SampleAccess, I: NDArray[np.intp], J: NDArray[np.intp], k: int) -> NDArray[np.float64]:
    Pr, sr, Qr = _thin_svd(dense(S.rows(I)))  # R = Pr·sr·Qr
    m = S.shape[0]
    C, AQ = np.empty((m, len(J))), np.empty((m, len(Qr)))
    step = max(1, BATCH_ENTRIES // S.shape[1])
    for start, block in S.blocks(step):
        part = slice(start, start + block.shape[0])
        C[part] = dense(block[:, J])
        AQ[part] = block @ Qr.T
    Pc, sc, Qc = _thin_svd(C)
    X, sigma, Yt = np.linalg.svd(Pc.T @ AQ, full_matrices=False)
    _check_core(sigma, (len(I), len(J)), k)
    best = (X[:, :k] * sigma[:k]) @ Yt[:k]
    return np.asarray((Qc.T / sc) @ best @ (Pr / sr).T)


def _thin_svd(A: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """The singular value decomposition without directions that only rounding makes: bases of what A spans."""
    P, sigma, Qt = np.linalg.svd(A, full_matrices=False)
    rank = _rank(sigma)
    return P[:, :rank], sigma[:rank], Qt[:rank]


def _rank(sigma: NDArray[np.float64]) -> int:
    """How many singular values are above the rounding level."""
    return int(np.count_nonzero(sigma > sigma[0] * 1e-12))


def _check_core(sigma: NDArray[np.float64], shape: tuple[int, int], k: int) -> None:
    rank = _rank(sigma)
    if rank < k:
        raise RankError(
            f"the intersection of the {shape[0]} rows and {shape[1]} columns drawn has rank {rank}, below k = {k}; use "
            "a smaller k, or draw more of them",
            rank,
        )
