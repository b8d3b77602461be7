"""Update the topics of a corpus that has grown: determine what to reuse from a model of its first documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ._topic_refine import document_scores

__all__ = ["Earlier", "earlier", "same_words"]

_GROWN = 0.2  # new documents, relative to the old ones, above which anchors are computed again
_UNLIKELY = 0.05  # quantile of the likelihood of the old documents below which a document is unlikely
_MORE = 2.0  # anchors are computed again if the unlikely fraction of the new ones exceeds this multiple
_SURE = 3.0  # plus this many standard errors of it


class Fitted(Protocol):
    """The attributes used of the earlier model, a :class:`~fastanchors.apps.Topics`."""

    @property
    def topics(self) -> NDArray[np.float64]: ...
    @property
    def anchors(self) -> NDArray[np.intp]: ...
    @property
    def groups(self) -> NDArray[np.intp]: ...
    @property
    def share(self) -> NDArray[np.float64]: ...
    @property
    def mixtures(self) -> NDArray[np.float64]: ...
    @property
    def directions(self) -> NDArray[np.float64]: ...
    @property
    def vocabulary(self) -> list[str] | None: ...


class Earlier(NamedTuple):
    """The parts reused from a model of the first documents.

    Attributes
    ----------
    directions
        Starting basis for the directions of the words.
    groups, anchors
        Anchors as words of the vocabulary; ``groups`` is None if the old topics do not explain the new documents.
    mixtures
        Starting mixtures of the first documents.
    """

    directions: NDArray[np.float64]
    groups: NDArray[np.intp] | None
    anchors: NDArray[np.intp]
    mixtures: NDArray[np.float64]


def earlier(start: Fitted, counts: sp.csr_array, words: Sequence[str] | None) -> Earlier | None:
    """The parts of a model of the first documents to reuse for all documents; None if the words cannot be matched.

    Its anchors are kept if the new documents are few and about as likely under its topics as the old ones: a new topic
    makes some of them unlikely. Otherwise anchors are computed again. The mean likelihood cannot be compared, because
    documents that took part in a fit are slightly more likely than others.
    """
    place = same_words(start.vocabulary, words, (start.topics.shape[1], counts.shape[1]))
    if place is None:
        return None
    known = place >= 0
    directions = np.zeros((counts.shape[1], start.directions.shape[1]))
    directions[place[known]] = start.directions[known]
    groups, anchors = place[start.groups], place[start.anchors]
    kept = groups.min() >= 0 and anchors.min() >= 0 and _explained(start, counts, place)
    return Earlier(directions, groups if kept else None, anchors, start.mixtures[: counts.shape[0]])


def same_words(
    before: Sequence[str] | None, after: Sequence[str] | None, sizes: tuple[int, int]
) -> NDArray[np.intp] | None:
    """For each word of one vocabulary its position in another, −1 if it has none; None if that cannot be determined."""
    if before is None or after is None or before == after:
        return np.arange(sizes[0]) if sizes[0] == sizes[1] else None
    places = {word: at for at, word in enumerate(after)}
    return np.array([places.get(word, -1) for word in before], dtype=np.intp)


def _explained(start: Fitted, counts: sp.csr_array, place: NDArray[np.intp]) -> bool:
    """Whether the documents after the first ones are as likely under the old topics as those were."""
    old, new = len(start.mixtures), counts.shape[0] - len(start.mixtures)
    if new <= 0 or new > _GROWN * old:
        return new == 0
    laws = np.zeros((len(start.topics), counts.shape[1]))
    laws[:, place[place >= 0]] = start.topics[:, place >= 0]
    compared = np.sort(np.random.default_rng(0).choice(old, min(new, old), replace=False))
    before, after = (
        _per_word(sp.csr_array(counts[rows]), laws, start.share) for rows in (compared, np.arange(old, old + new))
    )
    if after.size == 0:
        return True
    unlikely = float(np.mean(after < np.quantile(before, _UNLIKELY))) if before.size else 1.0
    return unlikely <= _MORE * _UNLIKELY + _SURE * np.sqrt(_UNLIKELY / after.size)


def _per_word(counts: sp.csr_array, laws: NDArray[np.float64], share: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log-likelihood per word of the documents that have words to score."""
    scores, tokens = document_scores(counts, laws, share)
    return np.asarray(scores[tokens > 0] / tokens[tokens > 0])
