"""Coherence and uniqueness of the top words of topics."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from .._validate import as_array, as_matrix, check_choice, check_index, check_size
from ..errors import InvalidInputError, InvalidTypeError
from ..matrix import dense

__all__ = ["coherence_of", "topic_coherence", "topic_uniqueness"]


def topic_coherence(
    topics: ArrayLike, counts: Any, *, measure: Literal["umass", "npmi"] = "umass", top: int = 10
) -> NDArray[np.float64]:
    """Coherence of each topic from the co-occurrence of its top words in documents; higher is better.

    Parameters
    ----------
    topics
        k × words, weights of the words in each topic (ties go to the lowest index); or an integer array k × t of the
        words themselves, best first.
    counts
        Documents × words, array or sparse; only whether a word occurs in a document matters.
    measure
        ``"umass"`` (Mimno et al. 2011): mean over pairs i > j of log((D(w_i, w_j) + 1)/D(w_j)); ``"npmi"`` (Bouma
        2009): mean over pairs of log(p(i,j)/(p(i)p(j)))/−log p(i,j), −1 for pairs that never co-occur.
    top
        Number of top words used in each topic.

    Examples
    --------
    >>> import fastanchors as fa
    >>> counts = [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]
    >>> topics = [[0.5, 0.5, 0.0, 0.0], [0.0, 0.5, 0.5, 0.0]]
    >>> good, bad = fa.metrics.topic_coherence(topics, counts, measure="npmi", top=2)
    >>> bool(good > bad)
    True
    """
    check_choice(measure, ("umass", "npmi"), name="measure")
    matrix = as_matrix(counts, name="counts")
    words = _top_words(topics, matrix.shape[1], check_size(top, name="top", minimum=2))
    if words.shape[1] < 2:
        raise InvalidInputError("topics have one word each; coherence is that of pairs, so give two or more")
    present = sp.csc_array(sp.csr_array(matrix) > 0).astype(np.float64)
    documents = matrix.shape[0]
    score = np.empty(len(words))
    for t, chosen in enumerate(words):
        columns = present[:, chosen]
        together = dense(columns.T @ columns)
        alone = np.diag(together)
        if np.any(alone == 0):
            raise InvalidInputError(f"word {chosen[np.argmin(alone)]} of topic {t} occurs in no document")
        score[t] = coherence_of(together, documents, measure)
    return score


def coherence_of(together: NDArray[np.float64], documents: int, measure: str) -> float:
    """Coherence from co-document counts of word pairs; the diagonal holds the document counts of the words."""
    alone = np.maximum(np.diag(together), 1.0)  # avoids division by zero for words that occur nowhere
    later, earlier = np.tril_indices(len(together), -1)
    pair = together[later, earlier]
    if measure == "umass":
        return float(np.mean(np.log((pair + 1.0) / alone[earlier])))
    return float(np.mean(_npmi(pair / documents, alone[later] / documents, alone[earlier] / documents)))


def _npmi(joint: NDArray[np.float64], p: NDArray[np.float64], q: NDArray[np.float64]) -> NDArray[np.float64]:
    result = np.full(joint.shape, -1.0)
    result[joint == 1.0] = 1.0  # both words in every document
    inside = (joint > 0) & (joint < 1)
    result[inside] = np.log(joint[inside] / (p[inside] * q[inside])) / -np.log(joint[inside])
    return result


def topic_uniqueness(topics: ArrayLike, *, top: int = 10) -> float:
    """Mean over topics and their top words of 1/(number of topics that have this top word): between 1/k and 1.

    Parameters
    ----------
    topics
        Topics × words.
    top
        Number of top words of a topic, those of largest weight.

    Examples
    --------
    >>> import fastanchors as fa
    >>> fa.metrics.topic_uniqueness([[0.6, 0.4, 0.0], [0.0, 0.4, 0.6]], top=2)
    0.75
    """
    words = _top_words(topics, None, check_size(top, name="top"))
    _, back, shared = np.unique(words, return_inverse=True, return_counts=True)
    return float(np.mean(1.0 / shared[back]))


def _top_words(topics: ArrayLike, vocabulary: int | None, top: int) -> NDArray[np.intp]:
    """k × top words: an integer array as it is, weights sorted by decreasing weight, then by index."""
    array = as_array(topics, "topics")
    if array.ndim != 2 or 0 in array.shape:
        raise InvalidInputError(f"topics must be two-dimensional and not empty, got shape {array.shape}")
    if array.dtype.kind in "iu":
        limit = int(array.max()) + 1 if vocabulary is None else vocabulary
        words = check_index(array[:, :top], limit, name="topics")
        if any(len(set(row)) < len(row) for row in words.tolist()):
            raise InvalidInputError("topics name a word twice in one topic")
        return words
    if array.dtype.kind == "O":
        raise InvalidTypeError("topics must be weights or integers, got dtype object; convert it to one of the two")
    if vocabulary is not None and array.shape[1] != vocabulary:
        raise InvalidInputError(f"topics have {array.shape[1]} words, counts {vocabulary}")
    weights = dense(as_matrix(array, signed=True, name="topics"))
    return np.argsort(-weights, axis=1, kind="stable")[:, :top]
