"""Read bags of words: LDA-C and UCI ``docword`` files, with their vocabularies."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._validate import check_extent, check_size
from ..errors import GuessWarning
from .market import as_table, check_count, check_entries, first_misfit
from .numbers import (
    Numbers,
    check_line_count,
    line_chunks,
    malformed,
    open_bytes,
    parse_numbers,
    piece_bytes,
    read_line,
)
from .row_grouper import RowGrouper
from .row_source import Source, read_names, rebatch, requested_dtype

__all__ = ["read_docword", "read_ldac", "vocabulary_of"]

_LARGEST = 2**53 - 1  # numbers of words are read as float64


def read_ldac(
    path: Path,
    *,
    vocab: Any = None,
    row_names: Any = None,
    column_names: Any = None,
    n_columns: int | None = None,
    dtype: Any = np.int32,
) -> Source:
    """LDA-C: one document per line, ``N word:count word:count …`` with 0-based words.

    Counts become int32, or ``dtype``; repeated words of a document are added up. The vocabulary is ``vocab``, else
    ``<name>.vocab`` or ``vocab.txt`` beside the file if it has a word for every number that occurs. Unless ``vocab`` or
    ``n_columns`` is given, the file is read twice, first to find the largest number.
    """
    name = str(path)
    given, known = vocab if vocab is not None else column_names, n_columns
    if given is None and known is None:
        known, entries = _largest_word(path, name)
        check_extent((1, known), entries, name)
    elif known is not None:
        known = check_size(known, name="n_columns")
    words, beside = vocabulary_of(path, given, (f"{path.stem}.vocab", "vocab.txt"), known, n_columns is not None)
    if n_columns is None:
        n_columns = known if words is None else len(words)
        assert n_columns is not None
    width, count_type = n_columns, requested_dtype(dtype)

    def documents(size: int) -> Iterator[sp.csr_array]:
        with open_bytes(path) as file:
            for line, text in line_chunks(file, name, size=size):
                numbers = parse_numbers(text, separator=":", name=name, first_line=line)
                yield _documents(numbers, width, count_type, name, line)

    source = Source(
        name,
        (None, width),
        count_type,
        True,
        lambda max_bytes: rebatch(documents(piece_bytes(max_bytes)), max_bytes),
        row_names=read_names(row_names, "row"),
        column_names=words,
    )
    source.column_names_from = beside
    return source


def _documents(numbers: Numbers, width: int | None, dtype: np.dtype[Any], name: str, first_line: int) -> sp.csr_array:
    """The documents of a chunk; a line with only ``0`` is an empty document, a blank line is skipped.

    Repeated words of a document are kept; :class:`Source` adds them up.
    """
    counts = numbers.counts.astype(np.int64)
    lines = np.flatnonzero(counts)
    counts = counts[lines]
    starts = np.cumsum(counts) - counts
    stated = numbers.values[starts]
    bad = (counts != 2 * stated + 1) | (stated != np.floor(stated))
    if bad.any():
        at = int(np.argmax(bad))
        what = f"says {stated[at]:g} words but holds {int(counts[at]) // 2} word:count pairs"
        if counts[at] % 2 == 0 or stated[at] != np.floor(stated[at]):
            what = "expected LDA-C: a number of words, then that many pairs word:count"
        raise malformed(name, first_line + int(lines[at]), what)
    pairs = np.ones(numbers.values.size, dtype=bool)
    pairs[starts] = False
    table = numbers.values[pairs].reshape(-1, 2)
    words, values = table[:, 0], table[:, 1]
    largest = _LARGEST if width is None else width - 1
    bad = ~((words >= 0) & (words <= largest) & (words == np.floor(words)))
    bad |= (np.abs(values) >= 2**53) | (values != np.floor(values))
    if (misfit := first_misfit(values, dtype)) is not None:
        bad[misfit] = True
    if bad.any():
        at = int(np.argmax(bad))
        line = first_line + int(lines[np.searchsorted(np.cumsum(counts - 1), 2 * at, side="right")])
        known = "" if width is None else f" (the vocabulary has {width} words)"
        raise malformed(name, line, f"the pair {words[at]:g}:{values[at]:g} is not valid{known}")
    indptr = np.concatenate(([0], np.cumsum(stated.astype(np.int64))))
    columns = width if width is not None else int(words.max(initial=-1)) + 1
    shape = (counts.size, columns)
    return sp.csr_array((values.astype(dtype), words.astype(np.int64), indptr), shape=shape)


def _largest_word(path: Path, name: str) -> tuple[int, int]:
    """The largest word number plus one, and the number of pairs."""
    width = entries = 0
    with open_bytes(path) as file:
        for line, text in line_chunks(file, name):
            numbers = parse_numbers(text, separator=":", name=name, first_line=line)
            documents = _documents(numbers, None, np.dtype(np.int64), name, line)
            width, entries = max(width, documents.shape[1]), entries + documents.nnz
    return width, entries


def read_docword(
    path: Path, *, vocab: Any = None, row_names: Any = None, column_names: Any = None, dtype: Any = np.int32
) -> Source:
    """UCI bag of words: lines D, W, NNZ, then ``document word count``, 1-based, in any order.

    Counts become int32, or ``dtype``; repeated pairs are added up. The vocabulary is ``vocab``, else ``vocab.<rest>``
    beside ``docword.<rest>``.
    """
    name = str(path)
    sizes = []
    with open_bytes(path) as file:
        for number in range(1, 4):
            line = read_line(file, name, number).strip()
            if not line.isdigit() or len(line) > 15:
                raise malformed(name, number, "expected one whole number (documents, words, non-zeros)")
            sizes.append(int(line))
    m, n, entries = sizes
    check_line_count(path, entries, 6, name)
    check_extent((m, n), entries, name)
    count_type = requested_dtype(dtype)
    sibling = path.name.replace("docword", "vocab").removesuffix(".gz")
    given = vocab if vocab is not None else column_names
    words, beside = vocabulary_of(path, given, (sibling, "vocab.txt"), n, True)

    def blocks(max_bytes: int) -> Iterator[sp.csr_array]:
        grouper = RowGrouper(m, n, count_type, max_bytes, name=name, entries=entries)
        seen = 0
        try:
            with open_bytes(path) as file:
                for number in range(1, 4):
                    read_line(file, name, number)
                for line, text in line_chunks(file, name, 4, piece_bytes(max_bytes)):
                    numbers = parse_numbers(text, name=name, first_line=line)
                    table = as_table(numbers, 3, name, line)
                    rows, columns = table[:, 0] - 1, table[:, 1] - 1
                    check_entries(table, (rows, columns), (m, n), count_type, numbers.counts, name, line)
                    grouper.add(rows, columns, table[:, 2])
                    seen += rows.size
            check_count(name, entries, seen)
            yield from grouper.blocks()
        finally:
            grouper.close()

    source = Source(name, (m, n), count_type, True, blocks, row_names=read_names(row_names, "row"), column_names=words)
    source.column_names_from = beside
    return source


def vocabulary_of(
    path: Path, given: Any, siblings: tuple[str, ...], width: int | None, exact: bool
) -> tuple[Sequence[str] | None, str | None]:
    """The words, and the file they were found in, or None if they were given.

    A file with fewer than ``width`` words (``exact``: not exactly ``width``) is not used, with a warning.
    """
    if given is not None or width is None:
        return read_names(given, "column"), None
    for sibling in siblings:
        beside = path.with_name(sibling)
        if beside == path or not beside.is_file():
            continue
        words = read_names(beside, "column") or []
        if len(words) == width or (len(words) > width and not exact):
            return words, str(beside)
        warnings.warn(
            f"{beside} has {len(words)} words where {path.name} needs {width}: it is not used; "
            "give vocab=… if the words are in another file",
            GuessWarning,
            stacklevel=5,
        )
    return None, None
