"""Select the words that show what a topic is about."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._validate import check_number

__all__ = [
    "POOL",
    "RELEVANCE",
    "SHOWN",
    "DescriptiveWords",
    "cooccurrence_scores",
    "descriptive_words",
    "order_by_cooccurrence",
    "relevant_words",
    "shared_documents",
]

RELEVANCE = 1 / 3
SHOWN = 10  # words shown for a topic
POOL = 25  # most relevant words from which they are chosen
RARE = 30.0  # tokens: a word seen less often may be in one topic only by chance
_CAUTION = 1.28  # standard errors subtracted from a count, a lower bound nine times out of ten


def relevant_words(
    topics: NDArray[np.float64],
    probability: NDArray[np.float64],
    tokens: float,
    count: int,
    relevance: float = RELEVANCE,
) -> NDArray[np.intp]:
    """k × count words of topics (distributions of words), most relevant first.

    The relevance of word w to topic t is λ·log P(w | t) + (1 − λ)·log(P(w | t)/P(w)) (Sievert and Shirley,
    *LDAvis: a method for visualizing and interpreting topics*, 2014). λ = 1 gives the most probable words, which
    are common words in every topic; λ = 0 gives words that hardly occur elsewhere. P(w) is computed as if the word had
    been seen 30 times more in the ``tokens`` of the corpus, because a rare word may be in one topic only by chance.
    """
    relevance = check_number(relevance, name="relevance", minimum=0.0, maximum=1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        score = np.log(topics) - (1 - relevance) * np.log(probability + RARE / tokens)
    score[(topics <= 0) | (probability <= 0)] = -np.inf  # LDA gives weight to words that occur nowhere
    return np.argsort(-score, axis=1, kind="stable")[:, :count]


class DescriptiveWords(NamedTuple):
    """Words that show what topics are about (k × 25), and the number of documents that each pair shares."""

    words: NDArray[np.intp]
    together: NDArray[np.float64]


def descriptive_words(
    counts: sp.csr_array, topics: NDArray[np.float64], probability: NDArray[np.float64], tokens: float
) -> DescriptiveWords:
    """The 25 most relevant words of topics: first the ten that co-occur most with each other, then the others.

    Relevance scores each word on its own, but a meaningful list has words that occur together. The word with the
    smallest total score (:func:`cooccurrence_scores`) is therefore dropped until ten remain (after Lau, Newman,
    Karimi and Baldwin, *Best topic word selection for topic labelling*, COLING 2010). Both parts are in the order of
    relevance.
    """
    words = relevant_words(topics, probability, tokens, POOL)
    together = shared_documents(counts, words)
    order = order_by_cooccurrence(together, counts.shape[0], np.take_along_axis(topics, words, axis=1) <= 0)
    turned = together[np.arange(len(words))[:, None, None], order[:, :, None], order[:, None, :]]
    return DescriptiveWords(np.take_along_axis(words, order, axis=1), turned)


def order_by_cooccurrence(together: NDArray[np.float64], documents: int, absent: NDArray[np.bool_]) -> NDArray[np.intp]:
    """For each topic the order of its words: first the ten that co-occur most; those ``absent`` from it go last."""
    scores = cooccurrence_scores(together, documents)
    topics, words = absent.shape
    kept = np.ones(absent.shape, dtype=bool)
    for _ in range(words - SHOWN):
        totals = np.einsum("tij,tj->ti", scores, kept.astype(np.float64))
        totals[absent] = -2.0 * words  # less than any sum of scores
        kept[np.arange(topics), np.argmin(np.where(kept, totals, np.inf), axis=1)] = False
    return np.argsort(~kept, axis=1, kind="stable")


def shared_documents(counts: sp.csr_array, words: NDArray[np.intp]) -> NDArray[np.float64]:
    """For each topic and each pair of its words the number of documents that contain both."""
    columns, place = np.unique(words, return_inverse=True)
    present = sp.csc_array(counts[:, columns] > 0).astype(np.float64)
    result = np.empty((*words.shape, words.shape[1]))
    for t, chosen in enumerate(place.reshape(words.shape)):
        part = present[:, chosen]
        result[t] = (part.T @ part).toarray()
    return result


def cooccurrence_scores(together: NDArray[np.float64], documents: int) -> NDArray[np.float64]:
    """Co-occurrence scores of words from the documents that each pair shares: conservative NPMI, −1 … 1; 0 with itself.

    Normalised pointwise mutual information of sharing a document, with j − 1.28·√j in place of the j shared documents:
    the standard error of a count is about its square root, and a single co-occurrence may be chance.
    """
    alone = np.diagonal(together, axis1=-2, axis2=-1)
    sure = together - _CAUTION * np.sqrt(together)
    with np.errstate(divide="ignore", invalid="ignore"):
        score = np.log(sure * documents / (alone[..., None] * alone[..., None, :])) / np.log(documents / sure)
    score[~(sure > 0)] = -1.0
    diagonal = np.arange(together.shape[-1])
    score[..., diagonal, diagonal] = 0.0
    return np.asarray(score)
