"""Which words show what a topic is about."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .._validate import check_number

__all__ = ["RELEVANCE", "relevant_words"]

RELEVANCE = 1 / 3
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
