"""``fastanchors encode`` with a topic model: the mixtures of new documents."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click
import numpy as np

from ..errors import InvalidInputError
from ._terminal import working
from ._weights import WeightsFile
from .app import emit

__all__ = ["encode_documents", "is_topic_model"]


def is_topic_model(anchors: str) -> bool:
    """Whether the file is a topic model that ``topics --out`` wrote."""
    if not anchors.lower().endswith(".npz"):
        return False
    from ..apps._topic_files import is_topics

    return is_topics(anchors)


def encode_documents(source: Any, path: Path, out: Path, escape: bool, as_json: bool, options: dict[str, Any]) -> None:
    """Write the topic mixtures of the documents in ``source``, texts or counts, to ``out``."""
    from ..apps._mixtures import mixtures
    from ..apps._topic_files import load_topics, text_options

    start = time.perf_counter()
    model = load_topics(path)
    with working(f"encoding {source.name}"):
        counts, names = _counts(Path(source), model, text_options(path), options)
        weights = mixtures(counts, model.topics, model.share)
    topics = [f"{number}: {word}" for number, word in enumerate(model.anchor_words)]
    with WeightsFile(out, np.float64, topics, escape=escape) as file:
        file.write(weights, names)
    seconds = time.perf_counter() - start
    unknown = int(np.count_nonzero(~weights.any(axis=1)))
    if as_json:
        emit({"path": str(out), "shape": list(weights.shape), "without_words": unknown, "seconds": seconds})
        return
    click.echo(f"{len(weights)} documents in {len(topics)} topics; {unknown} hold no word of the model")
    click.echo(f"mixtures in {out} ({seconds:.1f} s)")


def _counts(source: Path, model: Any, split: dict[str, Any], options: dict[str, Any]) -> tuple[Any, Any]:
    """Counts of the model's words in new documents, and the names of these."""
    from ..apps import read_corpus
    from ..apps._stop_words import stop_word_list
    from ..apps._tokens import Tokenizer, count_vocabulary
    from ..io.text import holds_texts, read_texts

    if options.get("format") is None and holds_texts(source):
        if model.vocabulary is None:
            raise InvalidInputError(f"the model knows no words: texts such as {source} cannot be counted for it")
        read = read_texts(source, encoding=options.get("encoding") or "utf-8")
        stop = stop_word_list(split.get("stop_words"))
        tokenizer = Tokenizer(stop, ngrams=split.get("ngrams", 1), html=split.get("html", False))
        return count_vocabulary(read.texts, tokenizer, model.vocabulary), read.names
    reading: dict[str, Any] = {"format": options.get("format"), "vocab": options.get("column_names")}
    corpus = read_corpus(source, min_df=0, stop_words=None, **reading)
    return _matched(corpus, model, source), corpus.documents


def _matched(corpus: Any, model: Any, source: Path) -> Any:
    """The columns of the model's words, by name where both have names."""
    words = model.topics.shape[1]
    if corpus.vocabulary is None or model.vocabulary is None:
        if corpus.counts.shape[1] != words:
            raise InvalidInputError(f"{source} has {corpus.counts.shape[1]} words, the model {words}")
        return corpus.counts
    place = {word: at for at, word in enumerate(model.vocabulary)}
    here = [(at, place[word]) for at, word in enumerate(corpus.vocabulary) if word in place]
    if not here:
        raise InvalidInputError(f"{source} has no word of the model")
    import scipy.sparse as sp

    rows, columns = np.array(here).T
    turn = sp.csr_array((np.ones(len(here), np.int32), (rows, columns)), shape=(len(corpus.vocabulary), words))
    return sp.csr_array(corpus.counts @ turn)
