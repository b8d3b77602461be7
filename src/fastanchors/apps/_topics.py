"""Topics by anchor words: words that occur in one topic only, found as anchors of the words' co-occurrence."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._jit import jit
from .._parallel import one_blas_thread
from .._validate import as_matrix, check_size
from ..encoder import encode
from ..errors import InvalidInputError, RankError
from ..greedy.nnls import NonnegativeSystem
from ..metrics import topic_coherence, topic_uniqueness
from ..solvers.precondition import singular_space
from ._cooccurrence import Cooccurrence, CooccurrenceRows
from ._smoothed import nearest_to_means, smoothed_projection
from ._topic_words import RELEVANCE, relevant_words

__all__ = ["TopicModel", "topics"]

_ROUNDS = 60  # of the EM iteration of the KL recovery, at most
_GAP = 1e-3  # how far above its minimum the divergence may stay, where the rounds suffice
_STRIDE = 1.8  # exponent of the EM factors; below 2 it still converges, nearly twice as fast as with 1


@dataclass(frozen=True)
class TopicModel:
    """Topics of a corpus.

    Attributes
    ----------
    topics : k × words, the law of the words in each topic; rows sum to one.
    anchors : for each topic its anchor word, in the order of extraction.
    groups : k × support, the words whose mean row is the anchor; ``anchors`` has the one nearest to the mean.
    share : k, how much of the corpus each topic makes up; sums to one.
    mixtures : documents × k, the topics of each document; rows sum to one, zero for documents without words.
    vocabulary : the words, or None.
    coherence : k, UMass coherence of the ten most relevant words of each topic; higher is better, 0 the best.
    npmi : k, their normalised pointwise mutual information, −1 … 1.
    uniqueness : mean share of such a word that belongs to one topic alone, 1/k … 1.
    min_documents : in how many documents a word had to occur to be a candidate anchor; candidates, how many did.
    seconds : wall-clock time.
    """

    topics: NDArray[np.float64]
    anchors: NDArray[np.intp]
    groups: NDArray[np.intp]
    share: NDArray[np.float64]
    mixtures: NDArray[np.float64]
    vocabulary: list[str] | None
    coherence: NDArray[np.float64]
    npmi: NDArray[np.float64]
    uniqueness: float
    min_documents: int
    candidates: int
    seconds: float

    def top(self, count: int = 10, relevance: float = RELEVANCE) -> NDArray[np.intp]:
        """k × count words of each topic, most relevant first; with ``relevance=1`` the most probable ones.

        See :func:`fastanchors.apps._topic_words.relevant_words`.
        """
        return relevant_words(self.topics, self.share @ self.topics, count, relevance)

    def name(self, word: int) -> str:
        return str(word) if self.vocabulary is None else self.vocabulary[word]

    def words(self, count: int = 10, relevance: float = RELEVANCE) -> list[list[str]]:
        """The same by name."""
        return [[self.name(word) for word in row] for row in self.top(count, relevance)]

    @property
    def anchor_words(self) -> list[str]:
        return [self.name(word) for word in self.anchors]


def topics(
    counts: Any,
    k: int,
    *,
    vocabulary: Sequence[str] | None = None,
    min_documents: int | None = None,
    support: int = 3,
    recovery: Literal["l2", "kl"] = "l2",
) -> TopicModel:
    """The anchor-word topic model of Arora et al. (ICML 2013), for vocabularies of any size.

    Parameters
    ----------
    counts : documents × words, whole numbers, array or sparse.
    k : number of topics.
    vocabulary : a name for each word.
    min_documents : only words that occur in at least so many documents may be anchors: the company of a rare word is
        known from few documents, and its noise would make it an anchor. By default one document in fifty, but
        at least 5 (fewer where fewer than 2·k words reach it). All other words still take part in the topics.
    support : an anchor is the mean of the rows of so many words that are extreme together, so that one odd word
        makes no topic (smoothed SPA); 1 for single words.
    recovery : how a word's row is written as a mixture of the anchors' rows: ``"l2"`` by least squares on the simplex,
        or ``"kl"`` by least Kullback–Leibler divergence, which weighs rare company more and takes minutes where the
        other takes seconds.

    How: the anchors are those of smoothed SPA on the rows Q_w/s_w of the candidates, projected on their leading k
    singular directions (the rows of a k-topic model lie there; sampling noise, which does not, is dropped). With C the
    weights of the rows in the anchors, Bayes' rule gives the topics: P(word | topic) ∝ C·P(word). A document's
    mixture is its words' frequencies encoded in the topics with weights that sum to one.

    Cost: two sparse products with the counts for each of some 10 to 30 rounds of the singular directions, one for the
    recovery. Memory: a few copies of the counts and some k numbers per word and per document; the words × words
    co-occurrence is never formed (see :class:`fastanchors.apps._cooccurrence.Cooccurrence`).
    """
    started = time.perf_counter()
    H = sp.csr_array(as_matrix(counts, name="counts"))
    k = check_size(k, name="k", minimum=2)
    if recovery not in ("l2", "kl"):
        raise InvalidInputError(f"recovery must be 'l2' or 'kl', got {recovery!r}")
    if vocabulary is not None and len(vocabulary) != H.shape[1]:
        raise InvalidInputError(f"the vocabulary has {len(vocabulary)} words, the counts {H.shape[1]} columns")
    everything = Cooccurrence(H)
    limit, candidates = _candidates(H, everything.words, k, min_documents)
    support = min(check_size(support, name="support"), candidates.size)
    nearest, groups = _anchor_rows(Cooccurrence(H, candidates), k, support)
    weights = _recover(everything, np.searchsorted(everything.words, candidates[groups]), recovery)
    joint = np.zeros((k, H.shape[1]))
    joint[:, everything.words] = (weights * everything.word_probability[everything.words, None]).T
    share = joint.sum(axis=1)
    law = joint / share[:, None]
    top = relevant_words(law, everything.word_probability, 10)
    return TopicModel(
        topics=law,
        anchors=candidates[nearest],
        groups=candidates[groups],
        share=share / share.sum(),
        mixtures=_mixtures(H, law),
        vocabulary=None if vocabulary is None else [str(word) for word in vocabulary],
        coherence=topic_coherence(top, H),
        npmi=topic_coherence(top, H, measure="npmi"),
        uniqueness=topic_uniqueness(top),
        min_documents=limit,
        candidates=candidates.size,
        seconds=time.perf_counter() - started,
    )


def _candidates(
    H: sp.csr_array, words: NDArray[np.intp], k: int, min_documents: int | None
) -> tuple[int, NDArray[np.intp]]:
    documents = np.bincount(H.indices[H.data > 0], minlength=H.shape[1])[words]
    if min_documents is None:
        limit = max(5, math.ceil(H.shape[0] / 50))
        enough = np.sort(documents)[-min(2 * k, documents.size)]
        limit = int(min(limit, enough))
    else:
        limit = check_size(min_documents, name="min_documents")
    candidates = words[documents >= limit]
    if candidates.size < k:
        cure = f"ask for k={candidates.size} or fewer"
        if candidates.size < words.size:  # a lower limit would give more
            cure = f"lower min_documents, or {cure}"
        raise InvalidInputError(
            f"only {candidates.size} words occur in at least {limit} documents; {k} anchors need as many candidates: "
            f"{cure}"
        )
    return limit, candidates


def _anchor_rows(source: Cooccurrence, k: int, support: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Smoothed SPA on the rows of the candidates in their leading k singular directions: anchors and their groups."""
    rows = CooccurrenceRows(source)
    with one_blas_thread():  # many thin products: threads would wait for each other
        directions, values = singular_space(rows, k)
    rank = int(np.count_nonzero(values > 1e-12 * values[0]))
    if rank < k:
        raise RankError(f"the co-occurrence of the candidates has rank {rank}, below k = {k}; ask for k ≤ {rank}", rank)
    points = rows.dot(directions)
    groups = smoothed_projection(points, k, support)
    return nearest_to_means(points, groups), np.array(groups)


def _recover(source: Cooccurrence, groups: NDArray[np.intp], recovery: str) -> NDArray[np.float64]:
    """C: every row of the co-occurrence as a mixture of the anchors (mean rows of the groups), on the simplex."""
    S = np.array([source.rows(group).mean(axis=0) for group in groups])
    Q, R = np.linalg.qr(S.T)
    weights = NonnegativeSystem(R, sum_to=1.0).solve(source.dot(Q))
    if recovery == "l2":
        return weights
    weights = 0.95 * weights + 0.05 / len(S)  # a start near the answer, but inside: EM never leaves a zero
    transposed = np.ascontiguousarray(S.T)
    for start, block in source.blocks():
        part = weights[start : start + block.shape[0]]
        _least_divergence(block.indptr, block.indices, block.data, transposed, part, _ROUNDS, _GAP, _STRIDE)
    return weights


@jit
def _least_divergence(
    indptr: NDArray[Any],
    indices: NDArray[Any],
    data: NDArray[np.float64],
    S: NDArray[np.float64],
    weights: NDArray[np.float64],
    rounds: int,
    limit: float,
    stride: float,
) -> None:
    """EM for mixture proportions, c_t ← c_t·g_t with g_t = Σ_j q_j·S_jt/(S·c)_j, for the least KL(q ‖ S·c).

    The divergence is convex in c with gradient −g and Σ c·g = 1, so it is at most max g − 1 above its minimum.
    """
    k = S.shape[1]
    for i in range(weights.shape[0]):
        c = weights[i]
        for _ in range(rounds):
            gain = np.zeros(k)
            seen = 0.0
            for at in range(indptr[i], indptr[i + 1]):
                law = S[indices[at]]
                mixed = 0.0
                for t in range(k):
                    mixed += c[t] * law[t]
                if mixed > 0:  # company that no anchor has says nothing about the mixture
                    ratio = data[at] / mixed
                    seen += data[at]
                    for t in range(k):
                        gain[t] += ratio * law[t]
            if seen == 0:
                break
            if gain.max() <= (1 + limit) * seen:
                break
            total = 0.0
            for t in range(k):
                c[t] *= (gain[t] / seen) ** stride
                total += c[t]
            for t in range(k):
                c[t] /= total


def _mixtures(H: sp.csr_array, law: NDArray[np.float64]) -> NDArray[np.float64]:
    lengths = np.asarray(H.sum(axis=1, dtype=np.float64))
    frequencies = H.astype(np.float64)
    frequencies.data /= np.repeat(lengths, np.diff(H.indptr)) if H.nnz else 1.0
    mixtures = encode(frequencies, law, sum_to_one=True)
    mixtures[lengths == 0] = 0.0
    return mixtures
