"""Split texts into words, remove stop words, and count the words."""

from __future__ import annotations

import html as entities
import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._validate import as_matrix
from ..errors import InvalidInputError, InvalidTypeError

__all__ = ["Tokenizer", "count_texts", "count_vocabulary", "count_with", "places_of", "strip_html"]

_WORD = re.compile(r"[^\W\d_](?:[\w'-]*[^\W_])?")
_CONTRACTION = re.compile(r"(?:n't|'ll|'re|'ve|'m|'d)$")  # don't, we'll: made of stop words only
_HIDDEN = re.compile(r"<(script|style)\b.*?</\1\s*>|<!--.*?-->", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"</?[a-zA-Z!][^<>]*>")


def strip_html(text: str) -> str:
    """The text without tags, scripts, styles and comments; entities as characters."""
    return entities.unescape(_TAG.sub(" ", _HIDDEN.sub(" ", text)))


def _composed(text: str) -> str:
    return text if unicodedata.is_normalized("NFC", text) else unicodedata.normalize("NFC", text)


class Tokenizer:
    """Splits a text into lower-case words of two letters or more.

    Letters with marks are composed (NFC), because marks of their own would end a word. A possessive ``'s`` is removed
    (``labour's`` is ``labour``). Words of the ``stop`` list are removed, as are contractions of such words
    (``don't``, ``it's``). With ``ngrams`` = n, runs of up to n remaining words count too.
    """

    def __init__(self, stop: frozenset[str] = frozenset(), *, ngrams: int = 1, html: bool = False) -> None:
        self.stop, self.ngrams, self.html = stop, ngrams, html

    def __call__(self, text: str) -> list[str]:
        if self.html:
            text = strip_html(text)
        words = [word.removesuffix("'s") for word in _WORD.findall(_composed(text).lower().replace("’", "'"))]
        words = [word for word in words if len(word) > 1]
        if self.stop:
            words = [word for word in words if word not in self.stop and not _CONTRACTION.search(word)]
        runs = [" ".join(words[at : at + n]) for n in range(2, self.ngrams + 1) for at in range(len(words) - n + 1)]
        return words + runs


def count_texts(
    texts: Sequence[str], analyzer: Callable[[str], list[str]], name: str
) -> tuple[sp.csr_array, list[str]]:
    """Counts (documents × words) and the words, sorted."""
    from sklearn.feature_extraction.text import CountVectorizer

    counter = CountVectorizer(analyzer=analyzer, dtype=np.int32)
    try:
        counts = sp.csr_array(counter.fit_transform(texts))
    except ValueError as error:
        raise InvalidInputError(f"there are no words in {name}") from error
    return counts, list(counter.get_feature_names_out())


def count_vocabulary(
    texts: Sequence[str], analyzer: Callable[[str], list[str]], vocabulary: Sequence[str]
) -> sp.csr_array:
    """Counts of the words of ``vocabulary`` only."""
    from sklearn.feature_extraction.text import CountVectorizer

    counter = CountVectorizer(analyzer=analyzer, dtype=np.int32, vocabulary=places_of(vocabulary))
    return sp.csr_array(counter.transform(texts))


def places_of(vocabulary: Sequence[str]) -> dict[str, int]:
    """The position of each word; raises if a word occurs twice."""
    places = {word: place for place, word in enumerate(vocabulary)}
    if len(places) < len(vocabulary):
        twice = next(word for place, word in enumerate(vocabulary) if places[word] != place)
        raise InvalidInputError(f"the vocabulary has {twice!r} twice, so words cannot be counted by it")
    return places


def check_vectorizer(vectorizer: Any, *, fit: bool) -> None:
    """Raise unless texts can be counted with it, after a ``fit`` to them or as it is."""
    if isinstance(vectorizer, type):
        raise InvalidTypeError(f"vectorizer must be an object, such as {vectorizer.__name__}(), not the class itself")
    if not callable(getattr(vectorizer, "fit_transform" if fit else "transform", None)):
        raise InvalidTypeError(f"vectorizer must be a scikit-learn vectoriser, got {type(vectorizer).__name__}")


def count_with(vectorizer: Any, texts: Sequence[str], *, fit: bool) -> tuple[sp.csr_array, list[str] | None]:
    """Counts by a scikit-learn vectoriser; for one with weights (tf-idf), the unweighted counts."""
    from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer

    check_vectorizer(vectorizer, fit=fit)
    if isinstance(vectorizer, HashingVectorizer) and (vectorizer.alternate_sign or vectorizer.norm is not None):
        raise InvalidInputError("a HashingVectorizer counts words with alternate_sign=False and norm=None only")
    if isinstance(vectorizer, CountVectorizer):  # includes TfidfVectorizer
        counted = (CountVectorizer.fit_transform if fit else CountVectorizer.transform)(vectorizer, texts)
    else:
        counted = vectorizer.fit_transform(texts) if fit else vectorizer.transform(texts)
    try:
        words = [str(word) for word in vectorizer.get_feature_names_out()]
    except (AttributeError, NotImplementedError):  # HashingVectorizer has no words
        words = None
    return sp.csr_array(as_matrix(counted, name="the vectoriser's counts")), words
