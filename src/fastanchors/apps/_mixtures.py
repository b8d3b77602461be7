"""Fit mixtures of given distributions to counts by maximum likelihood, such as the topics of a document.

For a document with word counts h and word distributions φ_t (topics), the mixture c on the simplex maximises

    Σ_w h_w·log Σ_t c_t·φ_tw + Σ_t a_t·log c_t,

the multinomial log-likelihood with a Dirichlet prior of a_t pseudo-tokens. The objective is concave.
Expectation–maximisation multiplies c_t by G_t/Σ_u c_u·G_u, where G is the gradient. With factors raised to a power
below 2 it still converges, in fewer rounds. At any c the objective is at most max G − Σ c·G below its maximum; this is
the stopping criterion.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._jit import jit
from .._parallel import map_ranges

__all__ = ["PRIOR_TOKENS", "fit_proportions", "mixtures", "scaled_laws", "word_probabilities"]

PRIOR_TOKENS = 1.0  # weight of the prior of a document's mixture: one token of the whole corpus
_ROUNDS = 100
_GAP = 1e-2  # nats per token: how far below its maximum the log-likelihood may stay
_DOCUMENTS = 256  # smallest number of documents for a thread
_ENTRIES = 1 << 16  # non-zero counts processed together


def mixtures(
    counts: sp.csr_array,
    topics: NDArray[np.float64],
    share: NDArray[np.float64],
    *,
    gap: float = _GAP,
    start: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """documents × k, rows sum to one; zero rows for documents without any word of the topics.

    Parameters
    ----------
    counts
        Documents × words, a ``csr_array``.
    topics
        k × words, distributions of words.
    share
        Length k, sums to one; the prior is :data:`PRIOR_TOKENS` tokens in these proportions.
    gap : float
        How far below its maximum the log-likelihood may stay, per token.
    start : ndarray
        Mixtures of the first documents to start from; the others start from the shares.
    """
    laws = scaled_laws(topics)
    share = np.asarray(share, dtype=np.float64)
    result = np.tile(share, (counts.shape[0], 1))
    if start is not None and start.shape[1:] == share.shape:
        rows = np.flatnonzero(start.min(axis=1) > 0)  # a weight of zero would stay zero
        result[rows] = start[rows]
    prior = PRIOR_TOKENS * share

    def part(low: int, high: int) -> None:
        indptr = counts.indptr[low : high + 1]
        fit_proportions(indptr, counts.indices, counts.data, laws, prior, result[low:high], _ROUNDS, gap)

    map_ranges(part, counts.shape[0], smallest=_DOCUMENTS)
    return result


def scaled_laws(topics: NDArray[np.float64]) -> NDArray[np.float32]:
    """words × k: the probabilities of each word divided by its largest one, which does not change the proportions.

    Single precision halves the memory traffic, which is most of the cost of :func:`fit_proportions`.
    """
    largest = topics.max(axis=0)
    result = np.empty(topics.shape[::-1], np.float32)
    np.divide(topics.T, np.where(largest > 0, largest, 1.0)[:, None], out=result, casting="same_kind")
    return result


@jit
def fit_proportions(
    indptr: NDArray[Any],
    indices: NDArray[Any],
    data: NDArray[Any],
    laws: NDArray[np.float32],
    prior: NDArray[np.float64],
    weights: NDArray[np.float64],
    rounds: int,
    gap: float,
) -> None:
    """Improve the proportions ``weights`` (rows × k) of the :func:`scaled_laws` for each sparse row, in place.

    Words with probability zero in all laws are skipped; a row with no other words gets zero weights.
    """
    k = laws.shape[1]
    longest = 0
    for i in range(weights.shape[0]):
        longest = max(longest, indptr[i + 1] - indptr[i])
    all_laws, all_counts = np.empty((longest, k), np.float32), np.empty(longest, np.float32)
    c_single = np.empty(k, np.float32)
    for i in range(weights.shape[0]):
        length = 0
        tokens = 0.0
        for at in range(indptr[i], indptr[i + 1]):
            law = laws[indices[at]]
            if data[at] > 0 and law.max() > 0:
                all_laws[length] = law
                all_counts[length] = data[at]
                tokens += data[at]
                length += 1
        if length == 0:
            weights[i] = 0.0
            continue
        here, h, c = all_laws[:length], all_counts[:length], weights[i]
        total = tokens + prior.sum()
        for _ in range(rounds):
            for t in range(k):
                c_single[t] = c[t]
            ratios = np.dot(here, c_single)
            for j in range(length):
                ratios[j] = h[j] / max(ratios[j], np.float32(1e-30))
            gradient = np.dot(ratios, here)
            largest = 0.0
            sum_c = 0.0
            for t in range(k):
                if c[t] > 0:
                    factor = (gradient[t] + prior[t] / c[t]) / total
                    c[t] *= factor * math.sqrt(factor)
                    sum_c += c[t]
                else:
                    factor = gradient[t] / total
                largest = max(largest, factor)
            for t in range(k):
                c[t] /= sum_c
            if largest <= 1 + gap:
                break


def word_probabilities(
    counts: sp.csr_array, topics: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Σ_t c_dt·φ_tw for every stored entry (d, w) of the counts, in their order. Costs O(nnz·k)."""
    laws = np.ascontiguousarray(topics.T)
    documents = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    result = np.empty(counts.nnz)

    def part(low: int, high: int) -> None:
        for start in range(low, high, _ENTRIES):
            at = slice(start, min(start + _ENTRIES, high))
            result[at] = np.einsum("ij,ij->i", weights[documents[at]], laws[counts.indices[at]])

    map_ranges(part, counts.nnz, smallest=_ENTRIES)
    return result
