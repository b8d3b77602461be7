"""Dense tables as text: ``.csv`` and ``.tsv``, optionally gzipped, with a header and optional row names."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInputError
from .market import first_misfit, line_of
from .numbers import line_chunks, malformed, open_bytes, parse_numbers
from .source import Source, read_names, rebatch

__all__ = ["read_table"]


def read_table(
    path: Path,
    *,
    separator: str | None = None,
    header: bool | None = None,
    row_names: Any = None,
    column_names: Any = None,
    dtype: Any = np.float64,
) -> Source:
    """A dense table, streamed.

    ``header`` (column names in the first line) and ``row_names=True`` (the first column is names) are recognised by
    themselves where the cells are not numbers; numbers are float64 unless ``dtype`` says otherwise.
    """
    name = str(path)
    separator = separator or ("\t" if ".tsv" in path.suffixes else ",")
    first, second = _first_lines(path, name, separator)
    if header is None:
        header = not all(_is_number(cell) for cell in first[1:] or first)  # the first cell may be a row's name
    sample = second if header else first
    if not sample:
        raise InvalidInputError(f"{name} is empty: a header but no rows")
    named = row_names is True or (row_names is None and not _is_number(sample[0]))
    width = len(sample) - named
    if column_names is None and header:
        cells = first[1:] if named and len(first) == len(sample) else first
        if len(cells) != width:
            raise malformed(name, 1, f"the header has {len(first)} fields, the next line {len(sample)}")
        column_names = cells
    found: list[str] | None = [] if named else read_names(row_names or None, "row")
    entry_type = np.dtype(dtype)

    def blocks(max_bytes: int) -> Iterator[NDArray[Any]]:
        if named and found is not None:
            found.clear()
        pieces = _pieces(path, name, separator, header, width, entry_type, found if named else None)
        yield from rebatch(pieces, max_bytes)

    return Source(
        name,
        (None, width),
        entry_type,
        False,
        blocks,
        row_names=found,
        column_names=read_names(column_names, "column"),
    )


def _pieces(
    path: Path, name: str, separator: str, header: bool, width: int, dtype: np.dtype[Any], names: list[str] | None
) -> Iterator[NDArray[Any]]:
    with open_bytes(path) as file:
        if header:
            file.readline()
        for line, text in line_chunks(file, name, 1 + header):
            if names is not None:
                text = _split_names(text, separator, names, name, line)
            numbers = parse_numbers(text, separator=separator, strict=True, name=name, first_line=line)
            bad = (numbers.counts != width) & (numbers.counts != 0)
            if bad.any():
                at = int(np.argmax(bad))
                raise malformed(name, line + at, f"expected {width} values, got {int(numbers.counts[at])}")
            table = numbers.values.reshape(-1, width)
            if (misfit := first_misfit(numbers.values, dtype)) is not None:
                place = line_of(misfit // width, numbers.counts, line)
                raise malformed(name, place, f"value {numbers.values[misfit]:g} does not fit type {dtype}")
            yield table.astype(dtype, copy=False)


def _split_names(text: bytes, separator: str, names: list[str], name: str, first_line: int) -> bytes:
    """Take the first field of every line off into ``names``; line numbers stay."""
    mark = separator.encode()
    kept = []
    for at, line in enumerate(text.split(b"\n")[:-1]):
        if not line.strip():
            kept.append(b"")
            continue
        if line.startswith(b'"'):
            cells = next(csv.reader([line.decode("utf-8", "replace")], delimiter=separator))
            label, rest = cells[0], separator.join(cells[1:]).encode()
        else:
            raw, found, rest = line.partition(mark)
            label = raw.decode("utf-8", "replace").strip()
            if not found:
                raise malformed(name, first_line + at, f"only one field, no {separator!r}")
        names.append(label)
        kept.append(rest)
    return b"\n".join(kept) + b"\n"


def _first_lines(path: Path, name: str, separator: str) -> tuple[list[str], list[str]]:
    """The cells of the first line and of the first line after it that is not blank."""
    with open_bytes(path) as file:
        chunk = next((text for _, text in line_chunks(file, name)), b"")
    lines = chunk.split(b"\n")
    if not lines[0].strip():
        raise malformed(name, 1, "the file starts with a blank line; a header or a row is needed")
    following = next((line for line in lines[1:] if line.strip()), b"")
    if lines[0].startswith(b"\xef\xbb\xbf"):
        lines[0] = lines[0][3:]
    first, second = (
        next(csv.reader([line.decode("utf-8", "replace").rstrip("\r")], delimiter=separator), [])
        for line in (lines[0], following)
    )
    return [cell.strip() for cell in first], [cell.strip() for cell in second]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
