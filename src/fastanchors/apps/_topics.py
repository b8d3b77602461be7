"""Topic models by anchor words: words that occur in one topic only, found as anchors of the word co-occurrence."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._equality import ComparedByValue
from .._openers import opener
from .._validate import check_choice, check_one_index, check_size
from ..errors import InvalidInputError
from ..greedy.nnls import NonnegativeSystem
from ..greedy.selection import Selection as SelectionRule
from ..greedy.selection import check_selection, groups_by_rule
from ..metrics._coherence import coherence_of, topic_uniqueness
from ._cooccurrence import Cooccurrence
from ._corpus import as_corpus
from ._counts import document_counts
from ._mixtures import fit_proportions, mixtures, scaled_laws
from ._smoothed import nearest_to_means
from ._topic_changes import TopicChanges, topic_changes
from ._topic_refine import best_sweeps, refined
from ._topic_update import Earlier, check_fitted, earlier
from ._topic_words import RELEVANCE, SHOWN, descriptive_words, relevant_words
from ._word_space import WordSpace, word_space

__all__ = ["Topics", "topics"]

_TOPICS = 20  # unless a number is given
_NOISE = 0.5  # largest noise of a candidate, as a standard deviation, relative to the spread of the words
_PRIOR_DOCUMENTS = 2.0  # a word's mixture is shrunk to that of all words, with the weight of this many documents
_ROUNDS = 60  # at most, in the recovery by divergence
_GAP = 1e-3  # how far above its minimum the divergence may stay, if the rounds suffice


@dataclass(frozen=True, eq=False)
class Topics(ComparedByValue):
    """Topics of a corpus.

    Attributes
    ----------
    topics
        k × words, the distribution of the words in each topic; rows sum to one.
    anchors
        The anchor word of each topic, in the order of extraction.
    groups
        k × support, the words whose mean row is the anchor; ``anchors`` holds the word nearest to the mean.
    share
        Length k, the fraction of the corpus that each topic makes up; sums to one.
    mixtures
        Documents × k, the topics of each document; rows sum to one, zero for documents without words.
    vocabulary
        The words, or None.
    documents
        Names of the documents, or None.
    tokens
        Number of tokens of the corpus.
    coherence
        Length k, UMass coherence of the ten words shown for each topic; higher is better, at best 0.
    npmi
        Length k, their normalised pointwise mutual information, −1 … 1.
    uniqueness
        Mean over these words of 1/(number of topics that show the word), 1/k … 1.
    min_documents
        The smallest number of documents of any candidate anchor; ``candidates`` is the number of candidates.
    descriptive
        k × 25, the words that :meth:`top` shows; see :func:`fastanchors.apps._topic_words.descriptive_words`.
    directions
        The subspace basis from which ``topics(..., since=...)`` starts.
    seconds
        Wall-clock time.
    changes
        Which topics are new, gone or moved since the model ``since``; None without one, and in a loaded model.

    Examples
    --------
    >>> import fastanchors as fa
    >>> counts = fa.datasets.topics(300, 80, 3, rng=0).A
    >>> model = fa.apps.topics(counts, 3, vocabulary=[f"word{j}" for j in range(80)])
    >>> len(model.words(5)), len(model.words(5)[0])
    (3, 5)
    >>> model.mixtures.shape
    (300, 3)
    """

    topics: NDArray[np.float64]
    anchors: NDArray[np.intp]
    groups: NDArray[np.intp]
    share: NDArray[np.float64]
    mixtures: NDArray[np.float64]
    vocabulary: list[str] | None
    documents: list[str] | None
    tokens: float
    coherence: NDArray[np.float64]
    npmi: NDArray[np.float64]
    uniqueness: float
    min_documents: int
    candidates: int
    descriptive: NDArray[np.intp]
    directions: NDArray[np.float64]
    seconds: float = field(compare=False)
    changes: TopicChanges | None = None

    def top(self, count: int = 10, relevance: float | None = None) -> NDArray[np.intp]:
        """k × count words that show what each topic is about.

        By default, relevant words that occur together, most relevant first. If ``relevance`` is a number, each word is
        ranked on its own: 1 gives the most probable words, 0 the words most specific to the topic. See
        :func:`~fastanchors.apps._topic_words.descriptive_words` and
        :func:`~fastanchors.apps._topic_words.relevant_words`.
        """
        count = check_size(count, name="count", minimum=0)
        if relevance is None and count <= self.descriptive.shape[1]:
            return self.descriptive[:, :count]
        at = RELEVANCE if relevance is None else relevance
        found = relevant_words(self.topics, self.share @ self.topics, self.tokens, count, at)
        if relevance is not None:
            return found
        pairs = zip(self.descriptive, found, strict=True)  # the descriptive words are among those found
        return np.array([np.concatenate([first, row[~np.isin(row, first)]]) for first, row in pairs])

    def name(self, word: int) -> str:
        """The name of a word, given by its column."""
        word = check_one_index(word, self.topics.shape[1], name="word")
        return str(word) if self.vocabulary is None else self.vocabulary[word]

    def words(self, count: int = 10, relevance: float | None = None) -> list[list[str]]:
        """The words of :meth:`top` by name."""
        return [[self.name(word) for word in row] for row in self.top(count, relevance)]

    def examples(self, count: int = 3) -> NDArray[np.intp]:
        """k × count documents that show each topic best: those with the largest share of it."""
        count = check_size(count, name="count", minimum=0)
        return np.argsort(-self.mixtures, axis=0, kind="stable")[:count].T

    def document(self, number: int) -> str:
        """The name of a document, given by its row."""
        number = check_one_index(number, len(self.mixtures), name="document")
        return str(number) if self.documents is None else self.documents[number]

    @property
    def anchor_words(self) -> list[str]:
        return [self.name(word) for word in self.anchors]

    def report(self, path: str | os.PathLike[str], counts: Any, **options: Any) -> Path:
        """Write a page to explore the topics; ``counts`` are the counts, texts or path that the model was fitted to.

        Options are those of :func:`fastanchors.report.write_topics`: ``title``, ``documents`` (names), ``texts``.
        """
        written: Path = opener("topics report")(path, self, counts, **options)
        return written

    def __repr__(self) -> str:
        lines = [f"{len(self.topics)} topics of {len(self.mixtures):,} documents"]
        for j, (share, words) in enumerate(zip(self.share, self.words(8), strict=True), start=1):
            lines.append(f"{j:>3}  {share:>6.1%}  {', '.join(words)}")
        if self.changes is not None:
            lines.append(str(self.changes))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return str(opener("notebook form")(self))


def topics(
    source: Any,
    k: int | None = None,
    *,
    vocabulary: Sequence[str] | Mapping[str, int] | None = None,
    min_documents: int | None = None,
    support: int = 3,
    selection: SelectionRule = "auto",
    recovery: Literal["l2", "kl"] = "l2",
    refine: int | Literal["auto"] = 0,
    since: Topics | None = None,
    **options: Any,
) -> Topics:
    """The anchor-word topic model of Arora et al. (ICML 2013), for vocabularies of any size.

    Parameters
    ----------
    source
        Documents × words, whole numbers: array, sparse, frame, store. Or texts: a list of strings, a column of a frame,
        a path; ``options`` are then those of :func:`fastanchors.apps.read_corpus`.
    k
        Number of topics; by default as many as ``since`` has, or 20.
    vocabulary
        A name for each word, in the order of the columns, or the column of each name, such as ``vocabulary_`` of
        scikit-learn's vectorisers, or a file with one name per line.
    min_documents
        Only words that occur in at least this many documents may be anchors. By default the candidates are the words
        whose row has a noise of at most half the spread of all words, or the 2·k least noisy words if there are fewer.
        The noise falls as one over the square root of a word's documents, and is larger in short documents. All other
        words still take part in the topics.
    support
        An anchor is the mean of the rows of this many words that are extreme together, so that a single outlier does
        not become a topic (smoothed SPA); 1 for single words.
    selection : "auto", "spa", "smoothed", "smoothed-one", "pseudo-points", "lifted" or "whitened"
        The rule that selects the anchors, as in :class:`fastanchors.FAS`. ``"auto"`` is ``"smoothed"``: the noise of a
        word's row is estimated from its documents, and words that are too noisy are not candidates.
    recovery
        How a word's row is written as a mixture of the anchors' rows: ``"l2"`` by least squares on the simplex, or
        ``"kl"`` by minimum Kullback–Leibler divergence over all words, which takes much longer.
    refine
        Number of sweeps of expectation–maximisation over the documents after that; ``"auto"`` continues as long as
        they increase the likelihood of held-out documents. They fit the documents better, but the top words of the
        topics are often less coherent.
    since
        A model of the same corpus before documents were appended. The search starts from its directions and mixtures,
        and topics keep their order. Its anchors are kept if the new documents are few and about as likely under the old
        topics as the old ones. ``changes`` of the result lists new, gone and moved topics.
    **options
        Options of :func:`read_corpus`, for texts and paths.

    Notes
    -----
    Smoothed SPA selects the anchors among the points of the candidates in the leading k directions of the scaled
    co-occurrence (see :mod:`fastanchors.apps._word_space`). Let C be the weights of the words' rows in the anchors.
    Bayes' rule gives the topics: P(word | topic) ∝ C·P(word). C is shrunk towards the topics' shares with the weight of
    two documents, which matters for rare words only. A document's mixture maximises the likelihood of its words, with
    a prior of one token (see :mod:`fastanchors.apps._mixtures`).

    Cost: two sparse products with the counts in each of 5 rounds. For a large corpus only 2 rounds use all documents;
    the others use a sample. Memory: at most three copies of the counts and some k numbers per word and per document;
    the words × words co-occurrence is never formed.

    Examples
    --------
    >>> import fastanchors as fa
    >>> counts = fa.datasets.topics(300, 80, 3, rng=0).A
    >>> fa.apps.topics(counts, 3).topics.shape
    (3, 80)
    """
    started = time.perf_counter()
    if since is not None:
        check_fitted(since, "since")
    corpus = as_corpus(source, vocabulary=vocabulary, **options)
    H, words = corpus.counts, corpus.vocabulary
    if k is None:
        k = _TOPICS if since is None else len(since.topics)
    k, support = check_size(k, name="k", minimum=2), check_size(support, name="support")
    check_choice(recovery, ("l2", "kl"), name="recovery")
    sweeps = None if isinstance(refine, str) and refine == "auto" else check_size(refine, name="refine", minimum=0)
    known = None if since is None else earlier(since, H, words, corpus.documents, (k, support))
    choices = (k, min_documents, support, check_selection(selection), recovery)
    found = _fit(H, *choices, known)
    if known is not None:
        found = found.ordered(known.order(found.law))
    law, share = found.law, found.share
    if sweeps is None:
        sweeps = best_sweeps(H, lambda rest: _fit(rest, *choices, known)[:2])
    if sweeps:
        law, share = refined(H, law, share, sweeps)
    tokens = float(H.data.sum(dtype=np.float64))
    descriptive = descriptive_words(H, law, share @ law, tokens)
    shown = descriptive.together[:, :SHOWN, :SHOWN]
    model = Topics(
        topics=law,
        anchors=found.space.words[found.anchors],
        groups=found.space.words[found.groups],
        share=share,
        mixtures=mixtures(H, law, share) if known is None else known.continued(H, law, share),
        vocabulary=words,
        documents=corpus.documents,
        tokens=tokens,
        coherence=np.array([coherence_of(each, H.shape[0], "umass") for each in shown]),
        npmi=np.array([coherence_of(each, H.shape[0], "npmi") for each in shown]),
        uniqueness=topic_uniqueness(descriptive.words[:, :SHOWN]),
        min_documents=found.min_documents,
        candidates=found.candidates,
        descriptive=descriptive.words,
        directions=found.space.directions,
        seconds=time.perf_counter() - started,
    )
    return model if since is None else replace(model, changes=topic_changes(since, model))


class _Fit(NamedTuple):
    """Topics from anchors; anchors and groups are positions in ``space.words``."""

    law: NDArray[np.float64]
    share: NDArray[np.float64]
    space: WordSpace
    anchors: NDArray[np.intp]
    groups: NDArray[np.intp]
    candidates: int
    min_documents: int

    def ordered(self, order: NDArray[np.intp]) -> _Fit:
        """The same topics in another order."""
        names = ("law", "share", "anchors", "groups")
        return self._replace(**{name: getattr(self, name)[order] for name in names})


def _fit(
    H: sp.csr_array,
    k: int,
    min_documents: int | None,
    support: int,
    selection: str,
    recovery: str,
    known: Earlier | None = None,
) -> _Fit:
    space = word_space(H, k) if known is None else word_space(H, k, known.directions, seen=known.seen)
    documents = document_counts(H)[space.words]
    candidates = _candidates(space, documents, k, min_documents)
    groups = None if known is None or known.groups is None else _places(space, known.groups)
    if groups is not None and known is not None:
        anchors = np.searchsorted(space.words, known.anchors)
    else:
        points = space.points[candidates]
        chosen = groups_by_rule(points, k, min(support, candidates.size), selection, starts="points")
        anchors, groups = candidates[nearest_to_means(points, chosen)], candidates[np.array(chosen)]
    weights = _recover(space, groups) if recovery == "l2" else _recover_divergence(H, space, groups)
    law, share = _bayes(space, weights)
    return _Fit(law, share, space, anchors, groups, candidates.size, int(documents[candidates].min()))


def _places(space: WordSpace, groups: NDArray[np.intp]) -> NDArray[np.intp] | None:
    """Words as positions in the space; None if one has no point."""
    return np.searchsorted(space.words, groups) if np.isin(groups, space.words).all() else None


def _candidates(space: WordSpace, documents: NDArray[np.intp], k: int, min_documents: int | None) -> NDArray[np.intp]:
    """The words (positions in ``space.words``) that may be anchors."""
    if min_documents is None:
        frequency = space.probability[space.words]
        spread = frequency @ np.sum((space.points - frequency @ space.points) ** 2, axis=1)
        limit = max(_NOISE**2 * float(spread), float(np.sort(space.noise)[min(2 * k, space.noise.size) - 1]))
        return np.flatnonzero(space.noise <= limit)
    least = check_size(min_documents, name="min_documents")
    candidates = np.flatnonzero(documents >= least)
    if candidates.size < k:
        cures = ["lower min_documents"] if candidates.size < documents.size else []  # a lower limit would give more
        cures += [f"use k ≤ {candidates.size}"] if candidates.size > 1 else ["give more documents"]
        raise InvalidInputError(
            f"only {candidates.size} words occur in at least {least} documents; {k} anchors need as many candidates: "
            f"{', or '.join(cures)}"
        )
    return candidates


def _recover(space: WordSpace, groups: NDArray[np.intp]) -> NDArray[np.float64]:
    """C: every word's point as a mixture of the anchors, on the simplex; anchors are means weighted by documents."""
    anchors = np.array([np.average(space.points[at], axis=0, weights=space.documents[at]) for at in groups])
    Q, R = np.linalg.qr(anchors.T)
    return NonnegativeSystem(R, sum_to=1.0).solve(space.points @ Q)


def _recover_divergence(H: sp.csr_array, space: WordSpace, groups: NDArray[np.intp]) -> NDArray[np.float64]:
    """C that minimises the Kullback–Leibler divergence of whole rows, from a start inside the simplex."""
    weights = 0.95 * _recover(space, groups) + 0.05 / len(groups)
    source = Cooccurrence(H, space.words)
    rows = np.array([np.average(source.rows(at).toarray(), axis=0, weights=space.documents[at]) for at in groups])
    laws, prior = scaled_laws(rows), np.zeros(len(groups))
    for start, block in source.blocks():
        part = weights[start : start + block.shape[0]]
        fit_proportions(block.indptr, block.indices, block.data, laws, prior, part, _ROUNDS, _GAP)
    return weights


def _bayes(space: WordSpace, weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Topics (k × vocabulary) and their shares from the words' mixtures."""
    frequency = space.probability[space.words]
    share = frequency @ weights
    documents = space.documents[:, None]
    shrunk = (documents * weights + _PRIOR_DOCUMENTS * share) / (documents + _PRIOR_DOCUMENTS)
    joint = np.zeros((weights.shape[1], space.probability.size))
    joint[:, space.words] = (shrunk * frequency[:, None]).T
    share = joint.sum(axis=1)
    return joint / np.where(share > 0, share, 1.0)[:, None], share / share.sum()  # a topic without words stays zero
