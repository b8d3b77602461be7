"""The scikit-learn topic estimator, and the choice of the number of topics by held-out likelihood."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from .._rng import RngLike, as_generator
from .._validate import as_matrix
from ..errors import InvalidInputError, InvalidTypeError, RankError
from ..matrix.columns import check_columns, put_in_order
from ._corpus import Corpus, as_corpus, check_words, is_path, is_texts
from ._counts import check_whole
from ._documents import matched, read_documents
from ._mixtures import mixtures
from ._tokens import check_vectorizer
from ._topic_refine import completion
from ._topics import Topics, topics

__all__ = ["TopicCurve", "TopicModel", "topic_curve"]

_NUMBERS = (5, 10, 15, 20, 30, 40, 60, 80, 120, 160, 240, 320)
_HELD = 0.2


@dataclass(frozen=True)
class TopicCurve:
    """How likely unseen documents are with k topics.

    Attributes
    ----------
    numbers
        The values of k tried.
    scores
        Log-likelihood per word of a fifth of the documents (half of each gives its mixture, the other half is scored).
    errors
        Their standard errors.
    chosen
        The smallest k whose score is within one standard error of the best.

    Examples
    --------
    >>> import fastanchors as fa
    >>> counts = fa.datasets.topics(300, 80, 3, rng=0).A
    >>> curve = fa.apps.topic_curve(counts, (2, 3))
    >>> curve.numbers, len(curve.scores)
    ((2, 3), 2)
    """

    numbers: tuple[int, ...]
    scores: tuple[float, ...]
    errors: tuple[float, ...]
    chosen: int


def topic_curve(
    source: Any, numbers: tuple[int, ...] | None = None, *, rng: RngLike = 0, vocabulary: Any = None, **options: Any
) -> TopicCurve:
    """Fit topics to four fifths of the documents for several k, and score the others.

    Parameters
    ----------
    source
        As in :func:`fastanchors.apps.topics`.
    numbers
        The values of k to try; by default from 5 upwards until two in a row are no better than the best.
    rng
        Determines which documents are held out.
    vocabulary
        A name for each column of counts.
    **options
        Options of :func:`read_corpus`, for texts and paths.

    Examples
    --------
    >>> import fastanchors as fa
    >>> counts = fa.datasets.topics(300, 80, 3, rng=0).A
    >>> fa.apps.topic_curve(counts, (2, 3)).chosen in (2, 3)
    True
    """
    if numbers is not None and (not isinstance(numbers, Iterable) or getattr(numbers, "ndim", 1) != 1):
        raise InvalidTypeError(f"numbers must be values of k such as (5, 10, 20), got {numbers!r}")
    given = () if numbers is None else tuple(numbers)
    H = as_corpus(source, vocabulary=vocabulary, **options).counts
    generator = as_generator(rng)
    held = np.zeros(H.shape[0], dtype=bool)
    held[generator.permutation(H.shape[0])[: max(1, round(_HELD * H.shape[0]))]] = True
    rest, unseen = H[np.flatnonzero(~held)], H[np.flatnonzero(held)]
    tried: list[int] = []
    scores: list[tuple[float, float]] = []
    for k in given or _NUMBERS:
        try:
            model = topics(rest, k)
        except (RankError, InvalidInputError):
            if not tried:
                raise
            break
        tried.append(k)
        scores.append(completion(unseen, model.topics, model.share))
        best = int(np.argmax([score for score, _ in scores]))
        if numbers is None and len(scores) - best > 2:
            break
    limit = scores[best][0] - scores[best][1]
    chosen = next(k for k, (score, _) in zip(tried, scores, strict=True) if score >= limit)
    return TopicCurve(tuple(tried), tuple(s for s, _ in scores), tuple(e for _, e in scores), chosen)


class TopicModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Topics by anchor words, as a scikit-learn transformer of documents into mixtures of topics.

    Parameters
    ----------
    n_topics : int or "auto"
        Number of topics; ``"auto"`` takes the smallest number whose held-out likelihood is within one standard error
        of the best (:func:`fastanchors.apps.topic_curve`).
    support, min_documents, selection, recovery, refine
        As in :func:`fastanchors.apps.topics`.
    vectorizer
        A scikit-learn vectoriser that counts the words of texts; None for the library's own tokenizer.
    stop_words, min_df, max_df, ngrams, html
        For texts, as in :func:`fastanchors.apps.read_corpus`.

    Attributes
    ----------
    components_ : ndarray, topics × words
        The distribution of the words in each topic; rows sum to one.
    topics_ : Topics
        The whole result, with words, anchors, shares and coherence.
    vocabulary_
        The words, a list of str, or None.
    n_features_in_, feature_names_in_
        As in scikit-learn: the number of words, and the words if the model was fitted to counts with names of columns.
    curve_ : TopicCurve
        Only with ``n_topics="auto"``.

    Examples
    --------
    >>> import fastanchors as fa
    >>> corpus = fa.datasets.topics(300, 400, 4, rng=0)
    >>> model = fa.TopicModel(n_topics=4).fit(corpus.A)
    >>> model.transform(corpus.A[:2]).shape
    (2, 4)
    """

    def __init__(
        self,
        n_topics: int | str = 20,
        *,
        support: int = 3,
        min_documents: int | None = None,
        selection: str = "auto",
        recovery: str = "l2",
        refine: int | str = 0,
        vectorizer: Any = None,
        stop_words: Any = "english",
        min_df: int | None = None,
        max_df: float = 1.0,
        ngrams: int = 1,
        html: bool = False,
    ) -> None:
        self.n_topics = n_topics
        self.support = support
        self.min_documents = min_documents
        self.selection = selection
        self.recovery = recovery
        self.refine = refine
        self.vectorizer = vectorizer
        self.stop_words = stop_words
        self.min_df = min_df
        self.max_df = max_df
        self.ngrams = ngrams
        self.html = html

    def fit(self, X: Any, y: Any = None) -> TopicModel:
        """Find the topics of documents: texts, a path, or counts (array, sparse, frame, store). ``y`` is ignored."""
        check_words(self.min_df, self.max_df, self.ngrams, self.html)
        texts = is_texts(X) or is_path(X)
        vectorizer = None
        if texts and self.vectorizer is not None:
            check_vectorizer(self.vectorizer, fit=True)
            vectorizer = clone(self.vectorizer)
        corpus = self._corpus(X, vectorizer) if texts else as_corpus(X)
        k: Any = self.n_topics
        curve = topic_curve(corpus) if isinstance(k, str) and k == "auto" else None
        k = k if curve is None else curve.chosen
        choices: Any = {"selection": self.selection, "recovery": self.recovery, "refine": self.refine}
        found = topics(corpus, k, min_documents=self.min_documents, support=self.support, **choices)
        # Everything changes together: after a fit that failed, the model is the one before.
        for name in ("feature_names_in_", "curve_"):
            self.__dict__.pop(name, None)
        if corpus.vocabulary is not None and not texts:
            self.feature_names_in_ = np.array(corpus.vocabulary, dtype=object)
        if curve is not None:
            self.curve_ = curve
        self.topics_, self.vectorizer_ = found, vectorizer
        self._take(found)
        return self

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> NDArray[np.float64]:
        """:meth:`fit`, and the mixtures of the same documents."""
        return self.fit(X).topics_.mixtures

    def transform(self, X: Any) -> NDArray[np.float64]:
        """documents × topics: the mixture of each document; rows sum to one, zero for documents without known words.

        Documents are given as for :meth:`fit`. The words of texts and files are matched to those of the model. Counts
        in memory have the words of the model in the same order; names of columns that differ from ``feature_names_in_``
        are an error.
        """
        check_is_fitted(self)
        return mixtures(self._counts(X), self.components_, self.topics_.share)

    def inverse_transform(self, X: Any) -> NDArray[np.float64]:
        """The word distributions that correspond to mixtures; the columns of a frame as in :class:`SeparableNMF`."""
        check_is_fitted(self)
        X = put_in_order(X, self.get_feature_names_out().tolist(), "mixtures")
        F = as_matrix(X, signed=True, name="mixtures")
        if F.shape[1] != self._n_features_out:
            raise InvalidInputError(f"mixtures must have {self._n_features_out} columns, got shape {F.shape}")
        return np.asarray(F @ self.components_)

    def score(self, X: Any, y: Any = None) -> float:
        """Log-likelihood per word: one half of each document determines its mixture, the other half is scored.

        Documents without any word to score, such as empty ones alone, raise ``InvalidInputError``.
        """
        check_is_fitted(self)
        return completion(self._counts(X), self.components_, self.topics_.share)[0]

    def perplexity(self, X: Any) -> float:
        """exp(−:meth:`score`)."""
        return float(np.exp(-self.score(X)))

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def _take(self, found: Topics) -> None:
        self.components_ = found.topics
        self.vocabulary_ = found.vocabulary
        self.n_features_in_ = found.topics.shape[1]

    def _corpus(self, X: Any, vectorizer: Any) -> Corpus:
        return as_corpus(X, min_df=self.min_df, max_df=self.max_df, **self._splitting(vectorizer))

    def _splitting(self, vectorizer: Any) -> dict[str, Any]:
        """How texts are split into words."""
        return {
            "vectorizer": vectorizer,
            "stop_words": self.stop_words,
            "ngrams": self.ngrams,
            "html": self.html,
        }

    def _counts(self, X: Any) -> sp.csr_array:
        """Counts of the words of the model."""
        if is_texts(X) or is_path(X):
            return read_documents(X, self.topics_, **self._splitting(self.vectorizer_)).counts
        corpus = as_corpus(X)
        if corpus.vocabulary is not None and not hasattr(self, "feature_names_in_"):
            return matched(corpus, self.topics_)
        if corpus.counts.shape[1] != self.n_features_in_:
            raise InvalidInputError(f"the counts have {corpus.counts.shape[1]} words, the model {self.n_features_in_}")
        check_columns(self.vocabulary_, corpus.vocabulary, "the model", "the counts")
        return check_whole(corpus.counts)
