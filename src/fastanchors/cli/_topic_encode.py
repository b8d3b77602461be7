"""Saved topic models on the command line: ``encode`` for new documents, and ``report``."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
import scipy.sparse as sp

from ..errors import InvalidInputError
from ..io.text import holds_texts, read_texts
from ._streams import as_lines
from ._terminal import working
from ._weights import WeightsFile
from .app import emit

__all__ = ["encode_documents", "is_topic_model", "report_topics", "text_column_options"]


class _Documents(NamedTuple):
    """Counts of a model's words in documents, names and texts of the documents, and the number of replaced bytes."""

    counts: Any
    names: Any
    texts: Any
    replaced: int = 0


def text_column_options(command: Any) -> Any:
    """Options for the columns of the texts and titles of documents."""
    for option in (
        click.option("--replace-errors", is_flag=True, help="With a topic model: replace bytes that are not text."),
        click.option("--title", help="With a topic model: the column with the names of the documents."),
        click.option("--column", help="With a topic model: the column of a table with the texts, or its number."),
    ):
        command = option(command)
    return command


def is_topic_model(anchors: str) -> bool:
    """Whether the file is a topic model written by ``topics --out``."""
    if not anchors.lower().endswith(".npz"):
        return False
    from ..apps._topic_files import is_topics

    return is_topics(anchors)


def encode_documents(source: Any, path: Path, out: Path, escape: bool, as_json: bool, options: dict[str, Any]) -> None:
    """Write the topic mixtures of the documents in ``source`` (texts or counts) to ``out``."""
    from ..apps._mixtures import mixtures
    from ..apps._topic_files import load_topics, text_options

    start = time.perf_counter()
    model = load_topics(path)
    with working(f"encoding {source.name}"):
        found = _documents(Path(source), model, text_options(path), options)
        weights = mixtures(found.counts, model.topics, model.share)
    topics = [f"{number}: {word}" for number, word in enumerate(model.anchor_words)]
    with WeightsFile(out, np.float64, topics, escape=escape) as file:
        file.write(weights, found.names)
    seconds = time.perf_counter() - start
    unknown = int(np.count_nonzero(~weights.any(axis=1)))
    if as_json:
        record = {"path": str(out), "shape": list(weights.shape), "without_words": unknown, "seconds": seconds}
        emit(record | {"replaced_bytes": found.replaced})
        return
    click.echo(f"{len(weights)} documents in {len(topics)} topics; {unknown} have no word of the model")
    if found.replaced:
        click.echo(f"{found.replaced} {'byte was' if found.replaced == 1 else 'bytes were'} not text and replaced")
    click.echo(f"mixtures in {out} ({seconds:.1f} s)")


def report_topics(path: Path, out: Path, data: Path | None, title: str | None, options: dict[str, Any]) -> int:
    """Write the report of a saved model and its documents, or those in ``data``; returns the number of topics."""
    from ..apps._mixtures import mixtures
    from ..apps._topic_files import load_topics, text_options

    model, kept = load_topics(path), text_options(path)
    recorded = kept.get("source") if data is None else data
    if recorded is None:
        raise InvalidInputError(f"{path} does not have the path of its documents; pass it with --data")
    source = Path(recorded)
    if not source.exists():
        raise InvalidInputError(f"the documents of {path} are no longer at {source}; pass their path with --data")
    given = {name: value for name, value in options.items() if value not in (None, False)}
    found = _documents(source, model, kept, kept.get("reading", {}) | given)
    weights = mixtures(found.counts, model.topics, model.share)
    shown = replace(model, mixtures=weights, documents=found.names)
    shown.report(out, found.counts, title=title or source.name, documents=found.names, texts=found.texts)
    return len(model.topics)


def _documents(source: Path, model: Any, split: dict[str, Any], options: dict[str, Any]) -> _Documents:
    """Read documents and split them into words in the same way as those of the model."""
    from ..apps import read_corpus
    from ..apps._corpus import beginnings
    from ..apps._stop_words import stop_word_list
    from ..apps._tokens import Tokenizer, count_vocabulary

    column = options.get("column")
    source = as_lines(source, column)
    if options.get("format") is None and holds_texts(source, column):
        if model.vocabulary is None or _are_columns(model.vocabulary):
            raise InvalidInputError(f"the model has no vocabulary, so the words of {source} cannot be counted")
        read = read_texts(
            source,
            column=column,
            title=options.get("title"),
            header=options.get("header"),
            encoding=options.get("encoding") or "utf-8",
            errors="replace" if options.get("replace_errors") else "strict",
        )
        ngrams, html = split.get("ngrams", 1), split.get("html", False)
        stop = stop_word_list(split.get("stop_words")) if ngrams > 1 else frozenset()  # else not among the words
        counts = count_vocabulary(read.texts, Tokenizer(stop, ngrams=ngrams, html=html), model.vocabulary)
        return _Documents(counts, read.names, beginnings(read.texts, html), read.replaced)
    if column is not None:
        raise InvalidInputError(f"{source} has counts, not texts; remove --column")
    vocab = options.get("column_names") or options.get("vocab")
    reading: dict[str, Any] = {"format": options.get("format"), "vocab": vocab}
    corpus = read_corpus(source, min_df=0, stop_words=None, **reading)
    return _Documents(_matched(corpus, model, source), corpus.documents, None)


def _matched(corpus: Any, model: Any, source: Path) -> Any:
    """The columns of the model's words: by name if both have names, by number if the model has numbers of columns."""
    words, own = model.topics.shape[1], corpus.vocabulary
    if own is None and _are_columns(model.vocabulary):
        own = [str(j) for j in range(corpus.counts.shape[1])]
    if own is None or model.vocabulary is None:
        if corpus.counts.shape[1] != words:
            raise InvalidInputError(
                f"{source} has {corpus.counts.shape[1]} words, the model {words}; {_name_cure(model)}"
            )
        return corpus.counts
    place = {word: at for at, word in enumerate(model.vocabulary)}
    here = [(at, place[word]) for at, word in enumerate(own) if word in place]
    if not here:
        raise InvalidInputError(f"{source} has no word of the model")
    rows, columns = np.array(here).T
    turn = sp.csr_array((np.ones(len(here), np.int32), (rows, columns)), shape=(len(own), words))
    return sp.csr_array(corpus.counts @ turn)


def _name_cure(model: Any) -> str:
    """What to do about counts of another number of words, which cannot be matched without names."""
    if model.vocabulary is None:
        return "the model has no names of words, so it needs counts of the same words in the same order"
    return "if the model left out rare words, pass the words of the file with --column-names words.txt"


def _are_columns(vocabulary: list[str] | None) -> bool:
    """Whether the words are numbers of columns, in order: those of counts without a vocabulary."""
    if vocabulary is None or not all(word.isascii() and word.isdigit() for word in vocabulary):
        return False
    return all(a < b for a, b in pairwise(map(int, vocabulary)))
