"""Sweeps of expectation–maximisation that improve topics by the likelihood, and what they are judged by."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._rng import RngLike, as_generator
from .._validate import check_size
from ._mixtures import mixtures, word_probabilities

__all__ = ["best_sweeps", "completion", "document_scores", "refined"]

_SWEEPS = 20  # of refine="auto", at most
_HELD = 0.1  # share of the documents it is judged on
_GAIN = 1e-4  # in log-likelihood per word, that is worth another sweep
_PRIOR = 0.01  # counts of every word in every topic, on average: no word becomes impossible

Laws = tuple[NDArray[np.float64], NDArray[np.float64]]


def completion(
    counts: sp.csr_array, topics: NDArray[np.float64], share: NDArray[np.float64], *, rng: RngLike = 0
) -> tuple[float, float]:
    """Log-likelihood per word of one half of each document, with the mixture told by its other half.

    The halves are drawn word by word. Returns the mean and its standard error over documents. Words that no topic has
    are left out.
    """
    each, tokens = document_scores(counts, topics, share, rng=rng)
    if tokens.sum() == 0:
        return float("nan"), float("nan")
    mean = float(each.sum() / tokens.sum())
    left = each - mean * tokens
    return mean, float(np.sqrt(left @ left) / tokens.sum())


def document_scores(
    counts: sp.csr_array, topics: NDArray[np.float64], share: NDArray[np.float64], *, rng: RngLike = 0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """For each document the log-likelihood of the half of its words that is scored, and how many these are."""
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
    whole = counts.data.astype(np.int64)
    first = rng.binomial(whole, 0.5)
    parts = [sp.csr_array((part, counts.indices, counts.indptr), shape=counts.shape) for part in (first, whole - first)]
    for at, part in enumerate(parts):
        parts[at] = part.copy()
        parts[at].eliminate_zeros()
    return parts[0], parts[1]


def best_sweeps(counts: sp.csr_array, fit: Callable[[sp.csr_array], Laws]) -> int:
    """How many sweeps make unseen documents most likely.

    ``fit`` finds topics in nine tenths of the documents, which are swept over as long as the likelihood of the others
    (:func:`completion`) grows. The likelihood of words and the coherence of top words are not the same thing: on real
    texts sweeps often gain one and cost the other.
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
    return completion(unseen, laws[0][:, known], laws[1])[0]


def refined(counts: sp.csr_array, topics: NDArray[np.float64], share: NDArray[np.float64], sweeps: int) -> Laws:
    """Topics and shares after so many sweeps over the documents."""
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
