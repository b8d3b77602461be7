"""Update the topics of a corpus that has grown: determine what to reuse from a model of its first documents."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from ..errors import InvalidTypeError
from ._mixtures import mixtures
from ._topic_refine import document_scores

__all__ = ["OTHER", "Earlier", "Fitted", "check_fitted", "earlier", "same_words", "total_variations"]

OTHER = 0.6  # total variation from which two topics are different ones

_GROWN = 0.2  # new documents, relative to the old ones, above which anchors are computed again
_UNLIKELY = 0.05  # quantile of the likelihood of the old documents below which a document is unlikely
_MORE = 2.0  # anchors are computed again if the unlikely fraction of the new ones exceeds this multiple
_UNMOVED = 0.02  # total variation of topics up to which mixtures of old documents are kept
_FLOOR = 1e-3  # weight of the shares in a starting mixture: a weight of zero would stay zero
_SURE = 3.0  # plus this many standard errors of it


@runtime_checkable
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
    @property
    def documents(self) -> list[str] | None: ...


def check_fitted(model: object, name: str) -> None:
    """Raise unless ``model`` is a topic model."""
    if not isinstance(model, Fitted):
        raise InvalidTypeError(
            f"{name} must be the result of fa.apps.topics or the topics_ of a TopicModel, got {type(model).__name__}"
        )


class Earlier(NamedTuple):
    """The parts reused from a model of the first documents.

    Attributes
    ----------
    laws
        Its topics, over the present words.
    directions
        Starting basis for the directions of the words.
    groups, anchors
        Anchors as words of the vocabulary; ``groups`` is None if the old topics do not explain the new documents.
    mixtures
        Mixtures of the first documents, as far as these are the same.
    """

    laws: NDArray[np.float64]
    directions: NDArray[np.float64]
    groups: NDArray[np.intp] | None
    anchors: NDArray[np.intp]
    mixtures: NDArray[np.float64]

    @property
    def seen(self) -> int:
        """The number of first documents whose directions are taken as they are: all of them if the anchors are kept."""
        return len(self.mixtures) if self.groups is None else sys.maxsize

    def order(self, laws: NDArray[np.float64]) -> NDArray[np.intp]:
        """The order in which topics ``laws`` follow the earlier ones that they resemble, those without any last."""
        _, new = linear_sum_assignment(total_variations(self.laws, laws))
        return np.concatenate([new, np.setdiff1d(np.arange(len(laws)), new)])

    def continued(
        self, counts: sp.csr_array, laws: NDArray[np.float64], share: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Mixtures of all documents. The first ones start from their old mixtures, or keep them if no topic moved."""
        gaps = total_variations(self.laws, laws)
        old, new = linear_sum_assignment(gaps)
        if gaps.shape[0] == gaps.shape[1] and gaps[old, new].max() <= _UNMOVED:
            late = mixtures(sp.csr_array(counts[len(self.mixtures) :]), laws, share)
            return np.concatenate([self.mixtures[:, old[np.argsort(new)]], late])
        start = np.tile(_FLOOR * share, (len(self.mixtures), 1))
        alike = gaps[old, new] < OTHER
        start[:, new[alike]] += self.mixtures[:, old[alike]]
        return mixtures(counts, laws, share, start=start / start.sum(axis=1, keepdims=True))


def total_variations(before: NDArray[np.float64], after: NDArray[np.float64]) -> NDArray[np.float64]:
    """The total variation of each pair of topics; words that are missing from ``before`` count in full."""
    lost = 1 - before.sum(axis=1, keepdims=True)
    return np.asarray((cdist(before, after, "cityblock") + lost) / 2)


def earlier(
    since: Fitted,
    counts: sp.csr_array,
    words: Sequence[str] | None,
    documents: Sequence[str] | None,
    shape: tuple[int, int],
) -> Earlier | None:
    """The parts of a model of the first documents to reuse for all documents; None if the words cannot be matched.

    ``shape`` is the number of topics and of words to an anchor that are wanted; anchors of another shape are not kept.

    Its anchors are kept if the new documents are few and about as likely under its topics as the old ones: a new topic
    makes some of them unlikely. Otherwise anchors are computed again. The mean likelihood cannot be compared, because
    documents that took part in a fit are slightly more likely than others.
    """
    place = same_words(since.vocabulary, words, (since.topics.shape[1], counts.shape[1]))
    if place is None:
        return None
    known = place >= 0
    directions = np.zeros((counts.shape[1], since.directions.shape[1]))
    directions[place[known]] = since.directions[known]
    laws = np.zeros((len(since.topics), counts.shape[1]))
    laws[:, place[known]] = since.topics[:, known]
    groups, anchors = place[since.groups], place[since.anchors]
    possible = groups.shape == shape and groups.min() >= 0 and anchors.min() >= 0
    same = _same_documents(since, documents, counts.shape[0])
    kept = possible and same == len(since.mixtures) and _explained(since, counts, laws)
    return Earlier(laws, directions, groups if kept else None, anchors, since.mixtures[:same])


def _same_documents(since: Fitted, documents: Sequence[str] | None, rows: int) -> int:
    """How many documents at the beginning are those of the model, by their names if both have names.

    New files of a folder come between the old ones, in the order of their names.
    """
    count = min(len(since.mixtures), rows)
    if since.documents is None or documents is None:
        return count
    pairs = zip(since.documents[:count], documents[:count], strict=True)
    return next((at for at, (before, now) in enumerate(pairs) if before != now), count)


def same_words(
    before: Sequence[str] | None, after: Sequence[str] | None, sizes: tuple[int, int]
) -> NDArray[np.intp] | None:
    """For each word of one vocabulary its position in another, −1 if it has none; None if that cannot be determined."""
    if before is None or after is None or before == after:
        return np.arange(sizes[0]) if sizes[0] == sizes[1] else None
    places = {word: at for at, word in enumerate(after)}
    return np.array([places.get(word, -1) for word in before], dtype=np.intp)


def _explained(since: Fitted, counts: sp.csr_array, laws: NDArray[np.float64]) -> bool:
    """Whether the documents after the first ones are as likely under the old topics as those were."""
    old, new = len(since.mixtures), counts.shape[0] - len(since.mixtures)
    if new <= 0 or new > _GROWN * old:
        return new == 0
    compared = np.sort(np.random.default_rng(0).choice(old, min(new, old), replace=False))
    before, after = (
        _per_word(sp.csr_array(counts[rows]), laws, since.share) for rows in (compared, np.arange(old, old + new))
    )
    if after.size == 0:
        return True
    unlikely = float(np.mean(after < np.quantile(before, _UNLIKELY))) if before.size else 1.0
    return unlikely <= _MORE * _UNLIKELY + _SURE * np.sqrt(_UNLIKELY / after.size)


def _per_word(counts: sp.csr_array, laws: NDArray[np.float64], share: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log-likelihood per word of the documents that have words to score."""
    scores, tokens = document_scores(counts, laws, share)
    return np.asarray(scores[tokens > 0] / tokens[tokens > 0])
