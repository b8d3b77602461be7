"""Saved topic models on the command line: ``encode`` for new documents, and ``report``."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from ..errors import InvalidInputError
from ._options import check_outside_inputs
from ._streams import as_lines
from ._terminal import working
from ._weights import WeightsFile
from .app import emit

if TYPE_CHECKING:
    from ..apps._documents import Documents

__all__ = ["UNUSED", "encode_documents", "is_topic_model", "report_topics", "text_column_options"]

# Options for rows of numbers, which texts and counts of words do not need.
UNUSED = ("normalize", "variable", "layer", "transpose", "row_names", "names_column", "separator", "bands")


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
        found = _read(Path(source), model, text_options(path), options)
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
    check_outside_inputs(out, "--out", source)
    given = {name: value for name, value in options.items() if value is not None}
    found = _read(source, model, kept, _recorded(source, kept.get("reading", {}), given) | given)
    weights = mixtures(found.counts, model.topics, model.share)
    shown = replace(model, mixtures=weights, documents=found.names)
    shown.report(out, found.counts, title=title or source.name, documents=found.names, texts=found.texts)
    return len(model.topics)


def _recorded(source: Path, reading: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """The options by which the documents of the model were read that this source has: it may be of another kind."""
    from ..io.text import holds_texts, options_of

    column = given.get("column") or reading.get("column")
    if (given.get("format") or reading.get("format")) is None and holds_texts(source, column):
        has = tuple("replace_errors" if name == "errors" else name for name in options_of(source))
    else:
        has = ("format", "vocab")
    return {name: value for name, value in reading.items() if name in has}


def _read(source: Path, model: Any, split: dict[str, Any], options: dict[str, Any]) -> Documents:
    """Read documents and split them into words in the same way as those of the model."""
    from ..apps._documents import read_documents

    given: dict[str, Any] = {name: options.get(name) for name in ("column", "title", "header", "format")}
    given |= {name: split[name] for name in ("stop_words", "ngrams", "html") if name in split}
    return read_documents(
        as_lines(source, given["column"]),
        model,
        **given,
        vocab=options.get("column_names") or options.get("vocab"),
        encoding=options.get("encoding") or "utf-8",
        errors="replace" if options.get("replace_errors") else "strict",
    )
