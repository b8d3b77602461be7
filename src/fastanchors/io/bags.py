"""Bags of words: LDA-C lines and UCI ``docword`` files, each with its vocabulary."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..errors import StoreError
from .market import as_table, check_entries
from .numbers import Numbers, line_chunks, malformed, open_bytes, parse_numbers
from .source import Source, read_names, rebatch
from .triplets import RowGrouper

__all__ = ["read_docword", "read_ldac"]


def read_ldac(
    path: Path, *, vocab: Any = None, row_names: Any = None, column_names: Any = None, n_columns: int | None = None
) -> Source:
    """LDA-C: one document per line, ``N word:count word:count …`` with 0-based words; counts become int32.

    The vocabulary is ``vocab``, else ``vocab.txt`` or ``<name>.vocab`` beside the file; without one (and without
    ``n_columns``) the file is read once more to find the largest word.
    """
    name = str(path)
    words = _vocabulary(path, vocab if vocab is not None else column_names, ["vocab.txt", f"{path.stem}.vocab"])
    if n_columns is None:
        n_columns = len(words) if words is not None else _largest_word(path, name) + 1
    width = n_columns

    def documents() -> Iterator[sp.csr_array]:
        with open_bytes(path) as file:
            for line, text in line_chunks(file, name):
                yield _documents(parse_numbers(text, separator=":", name=name, first_line=line), width, name, line)

    return Source(
        name,
        (None, width),
        np.int32,
        True,
        lambda max_bytes: rebatch(documents(), max_bytes),
        row_names=read_names(row_names, "row"),
        column_names=words,
    )


def _documents(numbers: Numbers, width: int | None, name: str, first_line: int) -> sp.csr_array:
    """The documents of a chunk; a line with only ``0`` is an empty document, a blank line is skipped."""
    counts = numbers.counts.astype(np.int64)
    lines = np.flatnonzero(counts)
    counts = counts[lines]
    starts = np.cumsum(counts) - counts
    said = numbers.values[starts]
    bad = counts != 2 * said + 1
    if bad.any():
        at = int(np.argmax(bad))
        raise malformed(
            name,
            first_line + int(lines[at]),
            f"says {said[at]:g} words but holds {(int(counts[at]) - 1) / 2:g} word:count pairs",
        )
    pairs = np.ones(numbers.values.size, dtype=bool)
    pairs[starts] = False
    table = numbers.values[pairs].reshape(-1, 2)
    words, values = table[:, 0], table[:, 1]
    largest = np.inf if width is None else width - 1
    bad = ~((words >= 0) & (words <= largest) & (words == np.floor(words)))
    bad |= ~((np.abs(values) < 2**31) & (values == np.floor(values)))
    if bad.any():
        at = int(np.argmax(bad))
        line = first_line + int(lines[np.searchsorted(np.cumsum(counts - 1), 2 * at, side="right")])
        known = "" if width is None else f" (the vocabulary has {width} words)"
        raise malformed(name, line, f"cannot take the pair {words[at]:g}:{values[at]:g}{known}")
    indptr = np.concatenate(([0], np.cumsum(said.astype(np.int64))))
    columns = width if width is not None else int(words.max(initial=-1)) + 1
    shape = (counts.size, columns)
    csr = sp.csr_array((values.astype(np.int32), words.astype(np.int64), indptr), shape=shape)
    csr.sum_duplicates()
    return csr


def _largest_word(path: Path, name: str) -> int:
    largest = -1
    with open_bytes(path) as file:
        for line, text in line_chunks(file, name):
            numbers = parse_numbers(text, separator=":", name=name, first_line=line)
            largest = max(largest, _documents(numbers, None, name, line).shape[1] - 1)
    return largest


def read_docword(path: Path, *, vocab: Any = None, row_names: Any = None, column_names: Any = None) -> Source:
    """UCI bag of words: lines D, W, NNZ, then ``document word count``, 1-based, in any order; counts become int32.

    The vocabulary is ``vocab``, else ``vocab.<rest>`` beside ``docword.<rest>``.
    """
    name = str(path)
    sizes = []
    with open_bytes(path) as file:
        for number in range(1, 4):
            line = file.readline().strip()
            if not line.isdigit():
                raise malformed(name, number, "expected one whole number (documents, words, non-zeros)")
            sizes.append(int(line))
    m, n, entries = sizes
    sibling = path.name.replace("docword", "vocab").removesuffix(".gz")
    words = _vocabulary(path, vocab if vocab is not None else column_names, [sibling, "vocab.txt"])

    def blocks(max_bytes: int) -> Iterator[sp.csr_array]:
        grouper = RowGrouper(m, n, np.int32, max_bytes, name=name, entries=entries)
        seen = 0
        try:
            with open_bytes(path) as file:
                for _ in range(3):
                    file.readline()
                for line, text in line_chunks(file, name, 4):
                    numbers = parse_numbers(text, name=name, first_line=line)
                    table = as_table(numbers, 3, name, line)
                    rows, columns = table[:, 0] - 1, table[:, 1] - 1
                    check_entries(table, (rows, columns), (m, n), np.dtype(np.int32), numbers.counts, name, line)
                    grouper.add(rows, columns, table[:, 2])
                    seen += rows.size
            if seen != entries:
                raise StoreError(f"{name}: the header promises {entries} entries, the file has {seen}: it is truncated")
            yield from grouper.blocks()
        finally:
            grouper.close()

    return Source(name, (m, n), np.int32, True, blocks, row_names=read_names(row_names, "row"), column_names=words)


def _vocabulary(path: Path, given: Any, siblings: list[str]) -> list[str] | None:
    if given is not None:
        return read_names(given, "column")
    for sibling in siblings:
        beside = path.with_name(sibling)
        if beside != path and beside.is_file():
            return read_names(beside, "column")
    return None
