"""Read documents for a topic model: count its words in texts, or match the columns of counts to them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..errors import InvalidInputError
from ..io.addresses import local_path
from ..io.text import Texts, holds_texts, read_texts
from ._corpus import Corpus, as_corpus, as_texts, beginnings, is_path, is_texts, read_corpus, refuse_vocabulary
from ._counts import check_whole
from ._stop_words import StopWords, stop_word_list
from ._tokens import Tokenizer, count_vocabulary, count_with, places_of

if TYPE_CHECKING:
    from ._topics import Topics

__all__ = ["Documents", "matched", "read_documents"]


class Documents(NamedTuple):
    """Counts of a model's words in documents, names and beginnings of the documents, and the number of replaced bytes.

    The names and texts are None if they are not known.
    """

    counts: sp.csr_array
    names: list[str] | None
    texts: list[str] | None
    replaced: int = 0


def read_documents(
    source: Any,
    model: Topics,
    *,
    column: str | int | None = None,
    title: str | int | None = None,
    header: bool | None = None,
    vocab: Any = None,
    format: str | None = None,
    encoding: str = "utf-8",
    errors: str = "strict",
    stop_words: StopWords = "english",
    ngrams: int = 1,
    html: bool = False,
    vectorizer: Any = None,
) -> Documents:
    """The counts of the words of ``model`` in texts, in the file or folder at a path, or in a corpus.

    Options are those of :func:`fastanchors.apps.read_corpus`. A ``vectorizer`` is the fitted one. All words of the
    model are counted, however rare, and no others.
    """
    options: Any = {"column": column, "title": title, "header": header, "encoding": encoding, "errors": errors}
    if is_texts(source):
        name, read = "the texts", Texts([], as_texts(source))
    elif is_path(source) and format is None and holds_texts(local_path(source), column):
        name = str(source)
        refuse_vocabulary(vocab, name)
        read = read_texts(local_path(source), **options)
    else:
        corpus = source
        if is_path(source):
            corpus = read_corpus(source, format=format, vocab=vocab, min_df=0, stop_words=None, **options)
        corpus = as_corpus(corpus)
        return Documents(matched(corpus, model), corpus.documents, corpus.texts)
    if vectorizer is not None:
        counts, words = count_with(vectorizer, read.texts, fit=False)
        own = model.vocabulary if words is not None else None
        if counts.shape[1] != model.topics.shape[1] or words != own:
            raise InvalidInputError("the vectoriser has other words than the model; pass the one it was fitted with")
    elif model.vocabulary is None or _are_columns(model.vocabulary):
        raise InvalidInputError(f"the model has no vocabulary, so the words of {name} cannot be counted")
    else:
        stop = stop_word_list(stop_words) if ngrams > 1 else frozenset[str]()  # else not among the words
        counts = count_vocabulary(read.texts, Tokenizer(stop, ngrams=ngrams, html=html), model.vocabulary)
    return Documents(counts, read.names or None, beginnings(read.texts, html), read.replaced)


def matched(corpus: Corpus, model: Topics) -> sp.csr_array:
    """The columns of the model's words: by name if both have names, by number if the model has numbers of columns."""
    check_whole(corpus.counts)
    words, own, count = model.topics.shape[1], corpus.vocabulary, corpus.counts.shape[1]
    if own is None and _are_columns(model.vocabulary):
        own = [str(j) for j in range(count)]
    if own is None or model.vocabulary is None:
        if count != words:
            raise InvalidInputError(f"{corpus.name} has {count} words, the model {words}; {_name_cure(model)}")
        return corpus.counts
    if own == model.vocabulary:
        return corpus.counts
    place = places_of(model.vocabulary)
    here = [(at, place[word]) for at, word in enumerate(own) if word in place]
    if not here:
        raise InvalidInputError(f"{corpus.name} has no word of the model")
    rows, columns = np.array(here).T
    turn = sp.csr_array((np.ones(len(here), np.int32), (rows, columns)), shape=(len(own), words))
    return sp.csr_array(corpus.counts @ turn)


def _name_cure(model: Topics) -> str:
    """What to do about counts of another number of words, which cannot be matched without names."""
    if model.vocabulary is None:
        return "the model has no names of words, so it needs counts of the same words in the same order"
    return (
        "if the model left out rare words, pass the words of the file with --column-names words.txt, in Python by "
        "read_corpus and its option vocab"
    )


def _are_columns(vocabulary: list[str] | None) -> bool:
    """Whether the words are numbers of columns, in order: those of counts without a vocabulary."""
    if vocabulary is None or not all(word.isascii() and word.isdigit() for word in vocabulary):
        return False
    return all(a < b for a, b in pairwise(map(int, vocabulary)))
