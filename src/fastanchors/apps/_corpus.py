"""Corpora: word counts with their vocabulary, from text or from files that hold counts already."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..errors import InvalidInputError, StoreError
from ..io import open_source
from ..io.row_source import read_names
from ..io.words import BOM, check_encoding, decoded, did_you_mean, missing

__all__ = ["Corpus", "read_corpus"]

_TEXT = (".txt", ".text", ".md")
_TABLES = {".csv": ",", ".tsv": "\t"}


@dataclass(frozen=True)
class Corpus:
    """Counts (documents × words, CSR), the words, and names of the documents where there are any."""

    counts: Any
    vocabulary: list[str] | None
    documents: list[str] | None
    name: str
    notes: tuple[str, ...] = ()  # what a reader should know: where the words come from, documents without any


def read_corpus(
    path: str | Path,
    *,
    column: str | None = None,
    vocab: Any = None,
    format: str | None = None,
    encoding: str = "utf-8",
    min_df: int = 1,
    max_df: float = 1.0,
    stop_words: str | Path | None = "english",
) -> Corpus:
    """Word counts of a corpus.

    Parameters
    ----------
    path : a folder of text files, one document each (``.txt``, ``.text``, ``.md``, or all if it has none of these); a
        ``.txt`` file with one document per line; a ``.csv`` or ``.tsv`` file with the text in ``column``; or counts
        that :func:`fastanchors.io.open_source` reads (LDA-C, docword, Matrix Market, ``.npz``).
    vocab : for counts, the words: a file with one per line, or a sequence. Without it the file of the usual name beside
        the counts is taken (``vocab.txt``, ``<name>.vocab``, ``vocab.<rest>`` of ``docword.<rest>``) if its words fit
        the counts; the ``notes`` of the corpus tell.
    encoding : of texts and tables; text that is not in it is refused.
    min_df, max_df : words in fewer than ``min_df`` documents, or in more than the share ``max_df``, are left out.
    stop_words : ``"english"`` (scikit-learn's list), a file with one word per line, or None. They are left out, of
        counts too where the words are known.

    Text is split by scikit-learn's ``CountVectorizer``: lower case, words of two letters or more.
    """
    path = Path(path)
    if not path.exists():
        raise missing(path)
    stop = _stop_words(stop_words)
    text = path.suffix.lower() in (*_TABLES, ".txt") and not path.name.lower().startswith("docword.")
    if format is None and (path.is_dir() or text):
        documents: list[str] | None
        words: list[str] | None
        documents, texts = _texts(path, column, check_encoding(encoding))
        counts, words = _count(texts, str(path))
        empty = int(np.count_nonzero(np.diff(counts.indptr) == 0))
        notes = [f"{empty} of {len(texts)} documents hold no words"] if empty else []
    else:
        if column is not None:
            raise InvalidInputError(f"{path} holds counts: there is no column of text to choose")
        options = {} if vocab is None else {_vocab_option(path, format): vocab}
        source = open_source(path, format=format, **options)
        blocks = [sp.csr_array(block) for block in source.blocks()]
        counts = sp.csr_array(sp.vstack(blocks))
        words, documents = (None if known is None else list(known) for known in (source.column_names, source.row_names))
        found = getattr(source, "column_names_from", None)
        notes = [] if found is None else [f"words from {found}"]
    keep = _kept(counts, words, stop, min_df, max_df, str(path))
    words = None if words is None else [words[j] for j in keep]
    return Corpus(sp.csr_array(counts[:, keep]), words, documents, str(path), tuple(notes))


def _vocab_option(path: Path, format: str | None) -> str:
    bags = format in ("ldac", "docword") or "docword" in path.name or path.suffix in (".dat", ".ldac", ".lda-c")
    return "vocab" if bags else "column_names"


def _stop_words(stop_words: str | Path | None) -> frozenset[str]:
    if stop_words is None:
        return frozenset()
    if stop_words == "english":
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        return frozenset(ENGLISH_STOP_WORDS)
    return frozenset(word.strip().lower() for word in read_names(Path(stop_words), "stop word") or [])


def _texts(path: Path, column: str | None, encoding: str) -> tuple[list[str], list[str]]:
    """Names and texts of the documents."""
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file() and not file.name.startswith("."))
        files = [file for file in files if file.suffix.lower() in _TEXT] or files
        if not files:
            raise InvalidInputError(f"{path} holds no files")
        return [str(file.relative_to(path)) for file in files], [_read(file, encoding) for file in files]
    if path.suffix.lower() == ".txt":
        lines = [line for line in _read(path, encoding).splitlines() if line.strip()]
        return [str(number) for number in range(len(lines))], lines
    texts = list(_column(path, column, encoding))
    return [str(number) for number in range(len(texts))], texts


def _read(path: Path, encoding: str) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from error
    return decoded(data.removeprefix(BOM), encoding, str(path))


def _column(path: Path, column: str | None, encoding: str) -> Iterator[str]:
    csv.field_size_limit(1 << 30)
    with io.StringIO(_read(path, encoding), newline="") as file:
        reader = csv.DictReader(file, delimiter=_TABLES[path.suffix.lower()])
        listed = ", ".join(map(repr, reader.fieldnames or [])) or "none"
        if column is None:
            raise InvalidInputError(f"{path}: say which column holds the text (--column); it has {listed}")
        if column not in (reader.fieldnames or []):
            hint = did_you_mean(column, reader.fieldnames or [])
            raise InvalidInputError(f"{path} has no column {column!r}; it has {listed}{hint}")
        for row in reader:
            yield row[column] or ""


def _count(texts: list[str], name: str) -> tuple[Any, list[str]]:
    from sklearn.feature_extraction.text import CountVectorizer

    counter = CountVectorizer(token_pattern=r"(?u)\b[^\W\d_][\w'’-]*[^\W_]\b")
    try:
        counts = sp.csr_array(counter.fit_transform(texts))
    except ValueError as error:
        raise InvalidInputError(f"{name} holds no words") from error
    return counts, list(counter.get_feature_names_out())


def _kept(counts: Any, words: list[str] | None, stop: frozenset[str], min_df: int, max_df: float, name: str) -> Any:
    documents = np.bincount(counts.indices[counts.data > 0], minlength=counts.shape[1])
    keep = (documents >= max(1, min_df)) & (documents <= max_df * counts.shape[0])
    if words is not None and stop:
        keep &= np.array([word.lower() not in stop for word in words])
    if not keep.any():
        raise InvalidInputError(f"no word of {name} is left by min_df={min_df}, max_df={max_df} and the stop words")
    return np.flatnonzero(keep)
