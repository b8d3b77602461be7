"""Embed words by their co-occurring words, and estimate the error of each word's coordinates.

Each word is a point: its row of the co-occurrence (:mod:`fastanchors.apps._cooccurrence`), the distribution of its
co-occurring words, in k coordinates. In a model of k topics the points lie in a simplex with anchor words as vertices.

*Scale.* The co-occurrence count of two words has a variance near its mean, which grows with the counts s of both words.
In D^(−1/2)·Q·D^(−1/2) with D = diag(s) all entries therefore have about the same noise, and its leading k eigenvectors
separate topics from noise best. Without regularisation rare words would dominate the result: words that occur in one
document only co-occur with nothing outside it. A constant, a small multiple of the mean of s, is therefore added to s,
as is usual in spectral clustering (Amini, Chen, Bickel and Levina, *Pseudo-likelihood methods for community detection*,
Ann. Statist. 2013).

*Noise.* A row is a mean over the documents of its word. The variance of one document's contribution, pooled over all
words and divided by the number of a word's documents, is the squared error of its point. Short documents carry less
information about co-occurrence; the pooled variance includes this effect.

*Cost.* Two sparse products with the counts for each round of subspace iteration. In large corpora the rounds use a
sample of the documents, drawn with probability proportional to their squared norms (Frieze, Kannan and Vempala, J. ACM
2004), and one last round uses all of them. Memory: a second copy of the counts, transposed, and some k numbers for
each word and each document.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._parallel import map_ordered, one_blas_thread
from ..errors import InvalidInputError, RankError

__all__ = ["WordSpace", "word_space"]

_REGULARIZATION = 4.0  # times the mean count of a word
_OVERSAMPLING = 10
_ROUNDS = 4
_SAMPLE_ENTRIES = 1 << 22  # non-zero counts in the sample that the rounds use
_PIECE = 1 << 20  # non-zero counts processed together
_DOCUMENTS = 1 << 13  # documents processed together
_INDEPENDENT = 1e-4  # smallest Cholesky pivot, relative to the largest, that gives an orthonormal basis
_ZERO = 1e-9  # relative eigenvalue that counts as zero


@dataclass(frozen=True)
class WordSpace:
    """Points of the words.

    Attributes
    ----------
    words
        The words that have a point: those of documents with two tokens or more.
    points
        Array of ``len(words)`` × k.
    noise
        Expected squared error of each point.
    probability
        Relative frequency of every word of the vocabulary in these documents.
    documents
        Effective number of documents of each of ``words``: (Σh)²/Σh² of its counts h, smaller if it occurs in bursts.
    eigenvalues
        Length k, in decreasing order.
    directions
        An orthonormal basis of the space, words of the vocabulary × (k + 10).
    """

    words: NDArray[np.intp]
    points: NDArray[np.float64]
    noise: NDArray[np.float64]
    probability: NDArray[np.float64]
    documents: NDArray[np.float64]
    eigenvalues: NDArray[np.float64]
    directions: NDArray[np.float64]


class _Cooccurrence:
    """The regularised D^(−1/2)·Q·D^(−1/2) of weighted documents, as a linear operator.

    Attributes
    ----------
    weights
        Weights of the documents, 1/(length − 1).
    scale
        Scale of the words, 1/sqrt(s + constant).
    diagonal
        The pairs of a token with itself, subtracted from the diagonal of Q.
    """

    def __init__(
        self, counts: sp.csr_array, transposed: sp.csr_array, weights: NDArray[np.float64], scale: NDArray[np.float64]
    ) -> None:
        self.counts, self.transposed, self.weights, self.scale = counts, transposed, weights, scale
        self.diagonal = _product(transposed, weights[:, None])[:, 0]

    def raw(self, B: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Q·B, and H·B times the weights of the documents, from which it is computed."""
        documents = _product(self.counts, B, keep=True)
        documents *= self.weights[:, None].astype(documents.dtype)
        rows = _product(self.transposed, documents)
        rows -= self.diagonal[:, None] * B
        return rows, documents

    def dot(self, B: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.raw(B * self.scale[:, None])[0] * self.scale[:, None]


def word_space(H: sp.csr_array, k: int, directions: NDArray[np.float64] | None = None, *, seen: int = 0) -> WordSpace:
    """Points of the words of a corpus (documents × words, whole numbers) in k coordinates.

    ``directions`` are those of the first ``seen`` documents: only directions of the others are added, and the rounds
    are saved. Random draws have a fixed seed: the same counts give the same points.
    """
    if H.data.dtype.kind == "f" and np.any(H.data != np.floor(H.data)):
        raise InvalidInputError("counts must be whole numbers of occurrences; weights such as tf-idf are not")
    if (largest := H.data.max(initial=0)) >= 2**63:
        raise InvalidInputError(f"counts must be below 2^63, the largest is {largest:.3g}; divide them")
    lengths = _product(H, np.ones((H.shape[1], 1)), exact=True)[:, 0]  # H.sum would make a copy
    paired = lengths >= 2
    if not paired.any():
        raise InvalidInputError("no document has two words or more: there is no co-occurrence")
    weights = np.divide(1.0, lengths - 1, out=np.zeros(lengths.size), where=paired)
    transposed = _transposed(H)
    sums = _product(transposed, paired[:, None].astype(np.float64), exact=True)[:, 0]
    words = np.flatnonzero(sums > 0)
    _check_rank(min(int(np.count_nonzero(paired)), words.size), k, "at most ")
    scale = np.zeros(sums.size)
    scale[words] = 1 / np.sqrt(sums[words] + _REGULARIZATION * sums[words].mean())
    with one_blas_thread():  # for many thin products BLAS threads would wait for each other
        operator = _Cooccurrence(H, transposed, weights, scale)
        width = min(H.shape[1], k + _OVERSAMPLING)
        basis = None if directions is None else _grown(operator, directions, seen)
        if basis is None or basis.shape[1] < width:
            basis = _subspace(operator, k)
        values, B, rows, norms, basis = _leading(operator, basis, k)
    points = rows[words] / sums[words, None]
    squares = _squares(operator, norms, B)[words]
    effective = sums[words] ** 2 / squares[:, 1]
    scatter = squares[:, 0] / sums[words] ** 2 - np.einsum("ij,ij->i", points, points) / effective
    one_document = float(np.maximum(scatter, 0.0) * effective @ sums[words] / sums.sum())
    return WordSpace(words, points, one_document / effective, sums / sums.sum(), effective, values, basis)


def _transposed(H: sp.csr_array) -> sp.csr_array:
    """Words × documents, with counts in the smallest type that holds them: usually one byte each."""
    small = H.data.astype(np.min_scalar_type(int(H.data.max())), copy=False)
    return sp.csr_array(sp.csr_array((small, H.indices, H.indptr), shape=H.shape).T)


def _check_rank(rank: int, k: int, about: str = "") -> None:
    if rank < k:
        cure = f"use k ≤ {rank}" if rank > 1 else "topics need more documents, with different words"
        raise RankError(f"the co-occurrence of the words has rank {about}{rank}, below k = {k}; {cure}", rank)


def _subspace(operator: _Cooccurrence, k: int) -> NDArray[np.float64]:
    """An orthonormal basis close to the leading k + 10 eigenvectors, by subspace iteration."""
    rng = np.random.default_rng(0)
    part = _sampled(operator, rng)
    width = min(operator.scale.size, k + _OVERSAMPLING)
    basis = rng.standard_normal((operator.scale.size, width))
    for _ in range(_ROUNDS):
        basis = _orthonormal(part.dot(basis))
    if part is operator:
        return basis
    del part  # free memory for the product with all documents
    return _orthonormal(operator.dot(basis))


def _grown(operator: _Cooccurrence, directions: NDArray[np.float64], seen: int) -> NDArray[np.float64]:
    """Known directions with ten more: the leading ones of the documents after the first ``seen`` outside their span."""
    known = _orthonormal(directions)
    if seen >= operator.counts.shape[0]:
        return known
    part = operator.counts[seen:]
    late = _Cooccurrence(part, sp.csr_array(part.T), operator.weights[seen:], operator.scale)
    added = np.random.default_rng(0).standard_normal((len(known), min(_OVERSAMPLING, part.shape[0])))
    for _ in range(_ROUNDS):
        added = late.dot(added)
        added = _orthonormal(added - known @ (known.T @ added))
    return _orthonormal(np.column_stack([known, added]))


def _orthonormal(B: NDArray[np.float64]) -> NDArray[np.float64]:
    """An orthonormal basis of the columns of B, by Cholesky if they are well enough conditioned, else by QR."""
    try:
        factor = np.linalg.cholesky(B.T @ B)
    except np.linalg.LinAlgError:
        return np.linalg.qr(B)[0]
    pivots = np.diag(factor)
    if pivots.min() < _INDEPENDENT * pivots.max():
        return np.linalg.qr(B)[0]
    return np.asarray(B @ np.linalg.inv(factor).T)


def _sampled(operator: _Cooccurrence, rng: np.random.Generator) -> _Cooccurrence:
    """A sample of documents with some millions of counts, weighted so that products are unbiased."""
    counts = operator.counts
    if counts.nnz <= _SAMPLE_ENTRIES:
        return operator
    squares = _product(counts, operator.scale[:, None] ** 2, squared=True)[:, 0] * operator.weights
    cumulative = np.cumsum(squares)
    size = counts.shape[0] * _SAMPLE_ENTRIES // counts.nnz
    drawn = np.searchsorted(cumulative, rng.random(size) * cumulative[-1], side="right")
    documents, times = np.unique(drawn, return_counts=True)
    weights = operator.weights[documents] * times * cumulative[-1] / (size * squares[documents])
    part = counts[documents]
    return _Cooccurrence(part, sp.csr_array(part.T), weights, operator.scale)


def _leading(operator: _Cooccurrence, basis: NDArray[np.float64], k: int) -> tuple[NDArray[np.float64], ...]:
    """The leading k eigenvalues, their scaled vectors B, Q·B and squared norms of the weighted H·B (Rayleigh–Ritz).

    Last come the leading k + 10 vectors, unscaled.
    """
    scaled = basis * operator.scale[:, None]
    rows, documents = operator.raw(scaled)
    inner = scaled.T @ rows
    values, turn = np.linalg.eigh((inner + inner.T) / 2)
    present = np.abs(values) > _ZERO * np.abs(values).max()
    _check_rank(int(np.count_nonzero(present)), k)
    order = np.argsort(np.where(present, -values, np.inf), kind="stable")  # negative values only in tiny corpora
    directions = basis @ turn[:, order[: k + _OVERSAMPLING]]
    order = order[:k]
    turn = turn[:, order]
    lengths = np.empty(len(documents))
    for start in range(0, len(documents), _DOCUMENTS):
        part = documents[start : start + _DOCUMENTS] @ turn.astype(documents.dtype)
        lengths[start : start + _DOCUMENTS] = np.einsum("ij,ij->i", part, part)
    return values[order], scaled @ turn, rows @ turn, lengths, directions


def _squares(operator: _Cooccurrence, lengths: NDArray[np.float64], B: NDArray[np.float64]) -> NDArray[np.float64]:
    """For every word Σ_d h²·‖z_d‖² and Σ_d h², where z_d is the document's point without one token of the word itself.

    ``lengths`` are the squared norms of the weighted documents.
    """
    paired = (operator.weights > 0).astype(np.float64)
    sums = _product(operator.transposed, np.column_stack([lengths, operator.weights**2, paired]), squared=True)
    own = np.einsum("ij,ij->i", B, B)
    return np.column_stack([np.maximum(sums[:, 0] - own * sums[:, 1], 0.0), sums[:, 2]])


def _product(
    matrix: sp.csr_array, B: NDArray[Any], *, squared: bool = False, exact: bool = False, keep: bool = False
) -> NDArray[Any]:
    """The matrix, or the squares of its entries, times B; a bounded number of entries at a time, in threads.

    For a large corpus, products are in single precision unless ``squared`` or ``exact``: sampling errors are far above
    its rounding errors. The result is converted to double precision unless ``keep`` is set.
    """
    kind = np.float32 if matrix.nnz > _SAMPLE_ENTRIES and not squared and not exact else np.float64
    B = B.astype(kind, copy=False)
    result = np.empty((matrix.shape[0], B.shape[1]), kind if keep else np.float64)
    steps = np.arange(_PIECE, matrix.nnz, _PIECE)
    bounds = np.unique(np.concatenate([[0], np.searchsorted(matrix.indptr, steps), [matrix.shape[0]]]))

    def part(low: int, high: int) -> None:
        at = slice(matrix.indptr[low], matrix.indptr[high])
        data = matrix.data[at].astype(kind)
        indptr = matrix.indptr[low : high + 1] - matrix.indptr[low]
        piece = sp.csr_array((data**2 if squared else data, matrix.indices[at], indptr), (high - low, matrix.shape[1]))
        result[low:high] = piece @ B

    map_ordered(part, [(int(low), int(high)) for low, high in pairwise(bounds)])
    return result
