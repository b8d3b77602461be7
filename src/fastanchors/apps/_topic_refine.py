"""Refine topics by sweeps of expectation–maximisation, and score them by held-out likelihood."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._rng import RngLike, as_generator
from .._validate import check_size
from ..errors import InvalidInputError
from ._counts import check_whole
from ._mixtures import mixtures, word_probabilities

__all__ = ["best_sweeps", "completion", "document_scores", "refined"]

_SWEEPS = 20  # at most, for refine="auto"
_HELD = 0.1  # fraction of the documents held out to score them
_GAIN = 1e-4  # in log-likelihood per word, below which the sweeps stop
_PRIOR = 0.01  # mean pseudo-count of a word in a topic, so that no word gets probability zero

Laws = tuple[NDArray[np.float64], NDArray[np.float64]]


def completion(
    counts: sp.csr_array, topics: NDArray[np.float64], share: NDArray[np.float64], *, rng: RngLike = 0
) -> tuple[float, float]:
    """Log-likelihood per word of one half of each document, with the mixture estimated from its other half.

    The halves are drawn token by token. Returns the mean and its standard error over documents. Words that are in no
    topic are left out; raises if there are no others to score.
    """
    each, tokens = document_scores(counts, topics, share, rng=rng)
    if tokens.sum() == 0:
        raise InvalidInputError(
            "the documents have too few words of the model: one half of each determines its mixture, the other half "
            "is scored; give more or longer documents"
        )
    mean = float(each.sum() / tokens.sum())
    left = each - mean * tokens
    return mean, float(np.sqrt(left @ left) / tokens.sum())


def document_scores(
    counts: sp.csr_array, topics: NDArray[np.float64], share: NDArray[np.float64], *, rng: RngLike = 0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """For each document, the log-likelihood of the half of its tokens that is scored, and their number."""
    seen, hidden = _halves(counts, as_generator(rng))
    weights = mixtures(seen, topics, share)
    weights[~weights.any(axis=1)] = share
    known = topics.max(axis=0) > 0
    tokens = np.where(known[hidden.indices], hidden.data, 0).astype(np.float64)
    terms = tokens * np.log(np.maximum(word_probabilities(hidden, topics, weights), 1e-300))
    documents = np.repeat(np.arange(hidden.shape[0]), np.diff(hidden.indptr))
    each, many = (np.bincount(documents, part, minlength=hidden.shape[0]) for part in (terms, tokens))
    return each.astype(np.float64), many.astype(np.float64)


def _halves(counts: sp.csr_array, rng: np.random.Generator) -> tuple[sp.csr_array, sp.csr_array]:
    whole = check_whole(counts).data.astype(np.int64)
    first = rng.binomial(whole, 0.5)
    parts = [sp.csr_array((part, counts.indices, counts.indptr), shape=counts.shape) for part in (first, whole - first)]
    for at, part in enumerate(parts):
        parts[at] = part.copy()
        parts[at].eliminate_zeros()
    return parts[0], parts[1]


def best_sweeps(counts: sp.csr_array, fit: Callable[[sp.csr_array], Laws]) -> int:
    """The number of sweeps that maximises the likelihood of held-out documents.

    ``fit`` finds topics in nine tenths of the documents. Sweeps over these continue as long as the likelihood of the
    others (as in :func:`completion`) grows. On real texts, sweeps often increase the likelihood of the words but
    decrease the coherence of the top words.
    """
    held = np.random.default_rng(0).random(counts.shape[0]) < _HELD
    if not held.any() or held.all():
        return 0
    rest, unseen = counts[np.flatnonzero(~held)], counts[np.flatnonzero(held)]
    known = np.unique(rest.indices)  # the same words are scored after every sweep
    unseen, laws = sp.csr_array(unseen[:, known]), fit(rest)
    best = _score(unseen, laws, known)
    for sweep in range(_SWEEPS):
        laws = _sweep(rest, laws)
        score = _score(unseen, laws, known)
        if not score > best + _GAIN:
            return sweep
        best = score
    return _SWEEPS


def _score(unseen: sp.csr_array, laws: Laws, known: NDArray[np.intp]) -> float:
    each, tokens = document_scores(unseen, laws[0][:, known], laws[1])
    return float(each.sum() / tokens.sum()) if tokens.any() else 0.0  # without words to score there is no gain


def refined(counts: sp.csr_array, topics: NDArray[np.float64], share: NDArray[np.float64], sweeps: int) -> Laws:
    """Topics and shares after ``sweeps`` sweeps over the documents."""
    for _ in range(check_size(sweeps, name="refine", minimum=0)):
        topics, share = _sweep(counts, (topics, share))
    return topics, share


def _sweep(counts: sp.csr_array, laws: Laws) -> Laws:
    """One step: mixtures of the documents, then topics from the expected counts."""
    topics, share = laws
    weights = mixtures(counts, topics, share)
    ratios = counts.data / np.maximum(word_probabilities(counts, topics, weights), 1e-300)
    expected = sp.csr_array((ratios, counts.indices, counts.indptr), shape=counts.shape).T @ weights
    frequency = np.asarray(counts.sum(axis=0), dtype=np.float64).reshape(-1)
    joint = topics * expected.T
    share = joint.sum(axis=1)
    joint += _PRIOR * frequency.size * frequency / frequency.sum()
    return joint / joint.sum(axis=1, keepdims=True), share / share.sum()
