"""Compare two topic models of a growing corpus."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from .._equality import ComparedByValue
from ..errors import InvalidInputError
from ._topic_update import OTHER, Fitted, check_fitted, same_words, total_variations

__all__ = ["TopicChanges", "topic_changes"]

_SAME = 0.25  # total variation up to which a topic is the same


@dataclass(frozen=True, eq=False)
class TopicChanges(ComparedByValue):
    """Topics of two models, matched.

    Attributes
    ----------
    same, moved
        Pairs (topic before, topic after); the words of moved topics have changed.
    new
        Topics of the later model without a similar earlier topic.
    gone
        Topics of the earlier model without a similar later topic.
    distances
        Total variation, 0 … 1, of each pair in ``same`` and ``moved``.

    Examples
    --------
    >>> import fastanchors as fa
    >>> counts = fa.datasets.topics(300, 80, 3, rng=0).A
    >>> model = fa.apps.topics(counts, 3)
    >>> fa.apps.topic_changes(model, model).same
    ((0, 0), (1, 1), (2, 2))
    """

    same: tuple[tuple[int, int], ...]
    moved: tuple[tuple[int, int], ...]
    new: tuple[int, ...]
    gone: tuple[int, ...]
    distances: dict[tuple[int, int], float]

    def __str__(self) -> str:
        moved = [f"{i} → {j} ({self.distances[i, j]:.2f})" for i, j in self.moved]
        listed = {"new": map(str, self.new), "gone": map(str, self.gone), "moved": moved}
        parts = [f"{what}: {', '.join(names) or 'none'}" for what, names in listed.items()]
        return f"{'; '.join(parts)}; {len(self.same)} the same"


def topic_changes(before: Fitted, after: Fitted) -> TopicChanges:
    """Match the topics of two models by the total variation of their word distributions.

    Words are matched by name; words that only one of the models has count in full as a difference.

    Parameters
    ----------
    before, after : Topics
        The two models.

    Examples
    --------
    >>> import fastanchors as fa
    >>> counts = fa.datasets.topics(300, 80, 3, rng=0).A
    >>> before, after = fa.apps.topics(counts, 3), fa.apps.topics(counts[:200], 3)
    >>> changes = fa.apps.topic_changes(before, after)
    >>> len(changes.same) + len(changes.moved) + len(changes.gone)
    3
    """
    check_fitted(before, "before")
    check_fitted(after, "after")
    sizes = (before.topics.shape[1], after.topics.shape[1])
    place = same_words(before.vocabulary, after.vocabulary, sizes)
    if place is None:
        raise InvalidInputError(f"the models have {sizes[0]} and {sizes[1]} words: they must be of one vocabulary")
    if not (place >= 0).any():
        raise InvalidInputError("the models have no word in common: they must be of one vocabulary")
    known = place >= 0
    laws = np.zeros((len(before.topics), sizes[1]))
    laws[:, place[known]] = before.topics[:, known]
    gaps = total_variations(laws, after.topics)
    old, new = linear_sum_assignment(gaps)
    pairs = {(int(i), int(j)): float(gaps[i, j]) for i, j in zip(old, new, strict=True) if gaps[i, j] < OTHER}
    same = tuple(pair for pair, gap in pairs.items() if gap <= _SAME)
    moved = tuple(pair for pair, gap in pairs.items() if gap > _SAME)
    return TopicChanges(
        same=same,
        moved=moved,
        new=tuple(j for j in range(len(after.topics)) if j not in {pair[1] for pair in pairs}),
        gone=tuple(i for i in range(len(before.topics)) if i not in {pair[0] for pair in pairs}),
        distances=pairs,
    )
