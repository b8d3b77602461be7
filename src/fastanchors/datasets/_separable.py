"""Random separable matrices of any size with known anchors, generated in blocks of rows: A = F·A_R plus noise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from .._equality import ComparedByValue
from .._rng import RngLike, as_generator
from .._validate import check_dtype, check_flag, check_number, check_one_index, check_size
from ..errors import InvalidInputError, InvalidTypeError, TooLargeError
from ..matrix.contract import Rows
from ._components import nonnegative_components

__all__ = ["Separable", "SeparableBlocks", "separable", "separable_blocks"]

_BLOCK_ENTRIES = 1 << 22  # entries of a block of dense rows


@dataclass(frozen=True, eq=False)
class Separable(ComparedByValue):
    """A near-separable matrix with its true anchors and weights.

    Attributes
    ----------
    A
        The data, m×n, non-negative; an array or CSR.
    anchors
        For each anchor the first row that is a copy of it, k indices.
    labels
        For each row the number of the anchor it is a copy of (before noise), −1 for a mixture.
    components
        The anchor rows without noise, k×n.
    weights
        F of A = F·A_R, m×k, rows on the simplex; an array or CSR, or None if it was not kept.

    Examples
    --------
    >>> import fastanchors as fa
    >>> made = fa.datasets.separable(100, 8, 3, rng=0)
    >>> made.anchors.shape, made.weights.shape
    ((3,), (100, 3))
    """

    A: Rows
    anchors: NDArray[np.intp]
    labels: NDArray[np.int32]
    components: Rows
    weights: Rows = None


@dataclass(frozen=True, eq=False)
class SeparableBlocks(ComparedByValue):
    """A separable matrix that is generated block by block; it can be iterated several times.

    Every pass yields the same rows. ``components``, ``anchors`` and ``labels`` are as in :class:`Separable`;
    ``copies[a]`` are the rows that are copies of anchor a, sorted.

    Examples
    --------
    >>> import fastanchors as fa
    >>> blocks = fa.datasets.separable_blocks(1000, 8, 3, rng=0)
    >>> blocks.shape, sum(len(block) for block in blocks)
    ((1000, 8), 1000)
    """

    shape: tuple[int, int]
    components: Rows
    copies: NDArray[np.intp]
    near_pure: NDArray[np.intp]
    noise: float
    alpha: float
    mixing: int | None
    dtype: np.dtype[Any]
    block_rows: int
    _seed: tuple[int, ...] = field(repr=False)

    @property
    def anchors(self) -> NDArray[np.intp]:
        return self.copies[:, 0].copy()

    @property
    def labels(self) -> NDArray[np.int32]:
        labels = np.full(self.shape[0], -1, dtype=np.int32)
        labels[self.copies] = np.arange(len(self.copies), dtype=np.int32)[:, None]
        return labels

    def __len__(self) -> int:
        return -(-self.shape[0] // self.block_rows)

    def __iter__(self) -> Iterator[Rows]:
        for b in range(len(self)):
            yield self.block(b)[0]

    def block(self, b: int) -> tuple[Rows, Rows]:
        """The rows of block ``b``, and their weights."""
        b, m = check_one_index(b, len(self), name="block"), self.shape[0]
        first = b * self.block_rows
        rows = min(self.block_rows, m - first)
        rng = np.random.default_rng(np.random.SeedSequence(self._seed, spawn_key=(b,)))
        F = _weights(rows, len(self.copies), self.alpha, self.mixing, rng)
        for marked, impurity in ((self.near_pure, 0.05), (self.copies, 0.0)):
            a, c = np.nonzero((marked >= first) & (marked < first + rows))
            at = marked[a, c] - first
            F[at] *= impurity
            F[at, a] += 1.0 - impurity
        if sp.issparse(self.components):
            return self._sparse_rows(F, rng)
        A = F @ self.components
        if self.noise:
            A += (self.noise * self._scale()) * rng.standard_normal(A.shape)
            np.maximum(A, 0.0, out=A)
        return self._typed(A), F.astype(self.dtype, copy=False)

    def _typed(self, A: Rows) -> Rows:
        """The rows in the type that was asked for, which must hold their noise."""
        with np.errstate(over="ignore"):
            rows = A.astype(self.dtype, copy=False)
        if self.noise and not np.isfinite((rows.data if sp.issparse(rows) else rows).max(initial=0.0)):
            raise InvalidInputError(
                f"noise = {self.noise:g} gives entries that {self.dtype} cannot hold; pass less noise, or dtype='f8'"
            )
        return rows

    def _sparse_rows(self, F: NDArray[np.float64], rng: np.random.Generator) -> tuple[Rows, Rows]:
        weights = sp.csr_array(F)
        A = sp.csr_array(weights @ self.components)
        A.sort_indices()
        if self.noise:  # relative to each entry, so that zeros stay zero
            A.data *= np.maximum(1.0 + self.noise * rng.standard_normal(A.nnz), 0.0)
        return self._typed(A), weights.astype(self.dtype, copy=False)

    def _scale(self) -> float:
        """Root mean square of an entry of a mixture, from E(f·fᵀ) of the Dirichlet distribution."""
        k, n = self.components.shape
        total = k * self.alpha
        gram = self.components @ self.components.T
        square = (self.alpha * np.trace(gram) + self.alpha**2 * gram.sum()) / (total * (total + 1.0))
        return float(np.sqrt(square / n))


def _weights(rows: int, k: int, alpha: float, mixing: int | None, rng: np.random.Generator) -> NDArray[np.float64]:
    """Rows on the simplex, Dirichlet(α) over all anchors or over ``mixing`` of them chosen at random."""
    if mixing is None or mixing == k:
        return rng.dirichlet(np.full(k, alpha), rows)
    F = np.zeros((rows, k))
    chosen = np.argpartition(rng.random((rows, k)), mixing - 1, axis=1)[:, :mixing]
    np.put_along_axis(F, chosen, rng.dirichlet(np.full(mixing, alpha), rows), axis=1)
    return F


def separable_blocks(
    m: int,
    n: int,
    k: int,
    *,
    noise: float = 0.0,
    condition: float | None = None,
    copies: int = 1,
    near_pure: int = 0,
    alpha: float = 1.0,
    mixing: int | None = None,
    sparse: float | None = None,
    dtype: DTypeLike = np.float64,
    rng: RngLike = None,
) -> SeparableBlocks:
    """A separable m×n matrix as a re-iterable sequence of blocks of rows, for sizes that exceed memory.

    Parameters
    ----------
    m, n, k
        Numbers of rows, columns and anchors.
    noise
        Standard deviation of the Gaussian noise on every row, including anchors, relative to the root mean square of
        the clean entries (for ``sparse``: relative to each non-zero). Negative results are clipped at zero.
    condition
        Condition number of the anchors; None for uniform entries.
    copies
        Number of exact copies of each anchor (before noise), at random positions.
    near_pure
        Number of further rows for each anchor that are 95 % of it and 5 % of a mixture.
    alpha
        Dirichlet parameter of the mixtures.
    mixing
        Number of anchors in one mixture; None means all of them (3 for ``sparse``).
    sparse
        Fraction of non-zeros of an anchor; the blocks are then CSR. None for dense.
    dtype
        Type of the entries, ``float64``, ``float32`` or (dense only) ``float16``.
    rng
        A ``numpy.random.Generator``, an int seed or None.

    Notes
    -----
    A pass costs O(m·k·n) for dense anchors, and memory for one block of 4 million entries.

    Examples
    --------
    >>> import fastanchors as fa
    >>> blocks = fa.datasets.separable_blocks(1000, 8, 3, rng=0)
    >>> next(iter(blocks)).shape[1]
    8
    """
    m, n, k = (check_size(value, name=name) for value, name in ((m, "m"), (n, "n"), (k, "k")))
    copies, near_pure = check_size(copies, name="copies"), check_size(near_pure, name="near_pure", minimum=0)
    noise = check_number(noise, name="noise", minimum=0.0, maximum=1e30)
    alpha = check_number(alpha, name="alpha", minimum=np.finfo(float).tiny, maximum=1e30)
    marked = k * (copies + near_pure)
    if marked > m:
        raise InvalidInputError(f"{k} anchors × {copies + near_pure} copies need {marked} rows, but m = {m}")
    if mixing is None and sparse is not None:
        mixing = min(3, k)
    if mixing is not None and check_size(mixing, name="mixing") > k:
        raise InvalidInputError(f"mixing = {mixing} is more than the number of anchors k = {k}")
    rng = as_generator(rng)
    entry_type = check_dtype(dtype, fractions=True)
    if sparse is not None and entry_type.itemsize < 4:
        raise InvalidTypeError(f"SciPy has no sparse matrices of {entry_type}; pass dtype='f4', or sparse=None")
    if sparse is None:
        components: Rows = nonnegative_components(k, n, condition=condition, rng=rng)
    else:
        if condition is not None:
            raise InvalidInputError("condition and sparse cannot be combined: sparse anchors are nearly orthogonal")
        components = _sparse_components(k, n, check_number(sparse, name="sparse", minimum=0.0, maximum=1.0), rng)
    places = rng.choice(m, marked, replace=False).reshape(k, copies + near_pure)
    per_row = n if sparse is None else max(k, (mixing or k) * components.nnz // k)
    block_rows = max(1, _BLOCK_ENTRIES // per_row)
    return SeparableBlocks(
        shape=(m, n),
        components=components,
        copies=np.sort(places[:, :copies], axis=1),
        near_pure=places[:, copies:],
        noise=noise,
        alpha=alpha,
        mixing=mixing,
        dtype=entry_type,
        block_rows=block_rows,
        _seed=tuple(rng.integers(2**63, size=2).tolist()),
    )


def _sparse_components(k: int, n: int, density: float, rng: np.random.Generator) -> Rows:
    """Sparse anchors with non-zeros between 0.5 and 1; each has a column that no other has, so all are extreme."""
    if k > n:
        raise InvalidInputError(f"each sparse anchor needs its own column: k = {k} is more than n = {n}")
    order = rng.permutation(n)
    own, shared = order[:k], order[k:]
    others = min(max(1, round(density * n)) - 1, shared.size)
    columns = np.stack([np.append(rng.choice(shared, others, replace=False), own[a]) for a in range(k)])
    columns.sort(axis=1)
    values = 0.5 + 0.5 * rng.random(columns.size)
    return sp.csr_array((values, columns.reshape(-1), np.arange(k + 1) * (others + 1)), shape=(k, n))


def separable(
    m: int,
    n: int,
    k: int,
    *,
    noise: float = 0.0,
    condition: float | None = None,
    copies: int = 1,
    near_pure: int = 0,
    alpha: float = 1.0,
    mixing: int | None = None,
    sparse: float | None = None,
    dtype: DTypeLike = np.float64,
    keep_weights: bool = True,
    rng: RngLike = None,
) -> Separable:
    """The matrix of :func:`separable_blocks` (the same seed gives the same rows) in memory, with its weights.

    Parameters
    ----------
    m, n, k
        Numbers of rows, columns and anchors.
    noise, condition, copies, near_pure, alpha, mixing, sparse, dtype
        As in :func:`separable_blocks`.
    keep_weights
        Whether the result has the weights F.
    rng
        A ``numpy.random.Generator``, an int seed or None.

    Examples
    --------
    >>> import fastanchors as fa
    >>> import numpy as np
    >>> made = fa.datasets.separable(100, 8, 3, rng=0)
    >>> bool(np.allclose(made.weights @ made.A[made.anchors], made.A))
    True
    """
    m, n, k = (check_size(value, name=name) for value, name in ((m, "m"), (n, "n"), (k, "k")))
    keep_weights = check_flag(keep_weights, name="keep_weights")
    A: Rows = None
    F: Rows = None
    if sparse is None:
        entry_type = check_dtype(dtype, fractions=True)
        A = _reserved(m, n, entry_type)
        F = _reserved(m, k, entry_type) if keep_weights else None
    source = separable_blocks(
        m,
        n,
        k,
        noise=noise,
        condition=condition,
        copies=copies,
        near_pure=near_pure,
        alpha=alpha,
        mixing=mixing,
        sparse=sparse,
        dtype=dtype,
        rng=rng,
    )
    if sparse is not None:
        blocks, weights = zip(*(source.block(b) for b in range(len(source))))
        A = sp.csr_array(sp.vstack(blocks, format="csr"))
        if keep_weights:
            F = sp.csr_array(sp.vstack(weights, format="csr"))
    else:
        for b in range(len(source)):
            at = slice(b * source.block_rows, (b + 1) * source.block_rows)
            rows, block_weights = source.block(b)
            A[at] = rows
            if keep_weights:
                F[at] = block_weights
    return Separable(A, source.anchors, source.labels, source.components, F)


def _reserved(m: int, n: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """An m × n array that is not yet filled; the error names the size that does not fit in memory."""
    try:
        return np.empty((m, n), dtype=dtype)
    except (MemoryError, ValueError) as error:  # ValueError: more bytes than an address can count
        raise TooLargeError(
            f"{m} × {n} entries of type {dtype} need {m * n * dtype.itemsize / 1e9:.3g} GB of memory; use fewer, or "
            "separable_blocks, which generates the rows in blocks"
        ) from error
