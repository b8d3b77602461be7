"""Compare topics with those of scikit-learn's NMF and LDA by the coherence of their top words."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._rng import RngLike, as_generator
from .._validate import as_matrix
from ..errors import InvalidInputError
from ..matrix.columns import check_columns
from ..matrix.frames import in_memory
from ..metrics import topic_coherence, topic_uniqueness
from ._topic_update import check_fitted
from ._topic_words import RELEVANCE, relevant_words
from ._topics import Topics

__all__ = ["TopicScores", "compare_topics"]

_TOP = 10  # top words that are scored


@dataclass(frozen=True)
class TopicScores:
    """Scores of the ten top words of a method's topics, averaged over the topics; ``seconds`` is the time of the fit.

    Examples
    --------
    >>> import fastanchors as fa
    >>> scores = fa.apps.TopicScores("anchors", coherence=-120.0, npmi=0.3, uniqueness=0.9, seconds=1.0)
    >>> scores.npmi
    0.3
    """

    method: str
    coherence: float
    npmi: float
    uniqueness: float
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def compare_topics(model: Topics, counts: Any, *, rng: RngLike = 0) -> list[TopicScores]:
    """Compare a model with scikit-learn's NMF and LatentDirichletAllocation, with as many topics of the same counts.

    NMF factors tf-idf weights, as in scikit-learn's own example of topic extraction; its top words have the largest
    weights. The other two give distributions of words, whose top words are taken by relevance and by probability. For
    the model itself, the words that :meth:`Topics.top` shows are scored too.
    The cost is that of the two fits. LDA makes ten passes of online variational Bayes and usually takes longest.

    Parameters
    ----------
    model
        The result of :func:`topics`.
    counts
        The counts that it was fitted to, documents × words.
    rng
        A ``numpy.random.Generator``, an int seed or None.

    Examples
    --------
    >>> import fastanchors as fa
    >>> counts = fa.datasets.topics(200, 60, 3, rng=0).A
    >>> scores = fa.apps.compare_topics(fa.apps.topics(counts, 3), counts)
    >>> scores[0].method
    'anchor words'
    """
    check_fitted(model, "model")
    counts, _, words = in_memory(counts, "counts")
    H = sp.csr_array(as_matrix(counts, name="counts"))
    if H.shape[1] != model.topics.shape[1]:
        raise InvalidInputError(f"counts have {H.shape[1]} words, the model {model.topics.shape[1]}; they must agree")
    check_columns(model.vocabulary, words, "the model", "the counts")
    probability = np.asarray(H.sum(axis=0), dtype=np.float64) / H.sum()
    seed = int(as_generator(rng).integers(1 << 31))
    k = len(model.topics)

    def scores(method: str, words: NDArray[np.intp], seconds: float) -> TopicScores:
        means = [float(topic_coherence(words, H, measure=measure).mean()) for measure in ("umass", "npmi")]
        return TopicScores(method, means[0], means[1], topic_uniqueness(words), seconds)

    def law_scores(method: str, topics: NDArray[np.float64], relevance: float, seconds: float) -> TopicScores:
        return scores(method, relevant_words(topics, probability, float(H.sum()), _TOP, relevance), seconds)

    nmf, nmf_seconds = _timed(lambda: _nmf(H, k, seed))
    lda, lda_seconds = _timed(lambda: _lda(H, k, seed))
    laws = lda / lda.sum(axis=1, keepdims=True)
    return [
        scores("anchor words", model.top(_TOP), model.seconds),
        law_scores("anchor words, most relevant words", model.topics, RELEVANCE, model.seconds),
        law_scores("anchor words, most probable words", model.topics, 1.0, model.seconds),
        scores("scikit-learn NMF, tf-idf", np.argsort(-nmf, axis=1, kind="stable")[:, :_TOP], nmf_seconds),
        law_scores("scikit-learn LDA", laws, RELEVANCE, lda_seconds),
        law_scores("scikit-learn LDA, most probable words", laws, 1.0, lda_seconds),
    ]


def _timed(fit: Callable[[], NDArray[np.float64]]) -> tuple[NDArray[np.float64], float]:
    start = time.perf_counter()
    return fit(), time.perf_counter() - start


def _nmf(H: sp.csr_array, k: int, seed: int) -> NDArray[np.float64]:
    from sklearn.decomposition import NMF
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.feature_extraction.text import TfidfTransformer

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = NMF(k, init="nndsvd", random_state=seed).fit(TfidfTransformer().fit_transform(H))
    return np.asarray(model.components_)


def _lda(H: sp.csr_array, k: int, seed: int) -> NDArray[np.float64]:
    from sklearn.decomposition import LatentDirichletAllocation

    model = LatentDirichletAllocation(k, learning_method="online", max_iter=10, random_state=seed)
    return np.asarray(model.fit(H).components_)
