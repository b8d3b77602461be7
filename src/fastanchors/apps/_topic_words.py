"""Which words show what a topic is about."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._validate import check_number

__all__ = ["RELEVANCE", "company_of", "relevant_words", "telling_words"]

RELEVANCE = 1 / 3
_SHOWN = 10  # words that stand for a topic, chosen among twice as many
RARE = 30.0  # tokens: a word seen less often than this is not yet known to belong to one topic


def relevant_words(
    topics: NDArray[np.float64],
    probability: NDArray[np.float64],
    tokens: float,
    count: int,
    relevance: float = RELEVANCE,
) -> NDArray[np.intp]:
    """k × count words of topics (laws of words), most relevant first.

    The relevance of word w to topic t is λ·log P(w | t) + (1 − λ)·log(P(w | t)/P(w)) (Sievert and Shirley,
    *LDAvis: a method for visualizing and interpreting topics*, 2014): with λ = 1 the most probable words, which common
    words lead in every topic; with λ = 0 those that hardly occur elsewhere. P(w) is taken as if the word had been seen
    30 times more in the ``tokens`` of the corpus: a rare word is in one topic alone by chance.
    """
    relevance = check_number(relevance, name="relevance", minimum=0.0, maximum=1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        score = np.log(topics) - (1 - relevance) * np.log(probability + RARE / tokens)
    score[(topics <= 0) | (probability <= 0)] = -np.inf  # LDA gives weight to words that occur nowhere
    return np.argsort(-score, axis=1, kind="stable")[:, :count]


def telling_words(
    counts: sp.csr_array, topics: NDArray[np.float64], probability: NDArray[np.float64], tokens: float
) -> NDArray[np.intp]:
    """k × 20 words of topics: of the 20 most relevant first the ten that keep each other's company, then the others.

    Relevance looks at one word at a time. A list that makes sense has words that occur together, so the word with the
    least :func:`company_of` those that are left is dropped until ten are (after Lau, Newman, Karimi and Baldwin, *Best
    topic word selection for topic labelling*, COLING 2010). Both parts are in the order of relevance.
    """
    words = relevant_words(topics, probability, tokens, 2 * _SHOWN)
    scores = company_of(counts, words)
    absent = np.take_along_axis(topics, words, axis=1) <= 0
    kept = np.ones(words.shape, dtype=bool)
    every = np.arange(len(words))
    for _ in range(words.shape[1] - _SHOWN):
        company = np.einsum("tij,tj->ti", scores, kept.astype(np.float64))
        company[absent] = -2.0 * words.shape[1]  # less than any company
        kept[every, np.argmin(np.where(kept, company, np.inf), axis=1)] = False
    order = np.argsort(~kept, axis=1, kind="stable")
    return np.take_along_axis(words, order, axis=1)


def company_of(counts: sp.csr_array, words: NDArray[np.intp]) -> NDArray[np.float64]:
    """k × n × n, how much company any two of a topic's words keep: a cautious NPMI, −1 … 1; 0 of a word with itself.

    Normalised pointwise mutual information of sharing a document, with j − √j in place of the j shared documents: a
    number of meetings is known to about its root, and one meeting may be chance.
    """
    columns, place = np.unique(words, return_inverse=True)
    present = sp.csc_array(counts[:, columns] > 0).astype(np.float64)
    result = np.empty((*words.shape, words.shape[1]))
    for t, chosen in enumerate(place.reshape(words.shape)):
        part = present[:, chosen]
        together = (part.T @ part).toarray()
        alone = np.diag(together)
        sure = together - np.sqrt(together)
        with np.errstate(divide="ignore", invalid="ignore"):
            score = np.log(sure * counts.shape[0] / np.outer(alone, alone)) / np.log(counts.shape[0] / sure)
        result[t] = np.where(sure > 0, score, -1.0)
        np.fill_diagonal(result[t], 0.0)
    return result
