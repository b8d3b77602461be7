"""Read dense text tables: ``.csv`` and ``.tsv``, optionally gzipped, with optional header and row names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInputError
from .decoding import check_encoding, decoded
from .market import first_misfit, line_of, misfit_text
from .name_spool import NameSpool
from .numbers import malformed, open_bytes, parse_numbers, piece_bytes
from .records import BLANKS, record_chunks, split_fields
from .row_source import Source, read_names, rebatch, requested_dtype
from .table_layout import Layout, layout

__all__ = ["read_table"]

_SAMPLE_LINES = 100  # lines that are examined to determine the layout
_SAMPLE_BYTES = 1 << 20  # limit of their total size, but at least two lines


def read_table(
    path: Path,
    *,
    separator: str | None = None,
    header: bool | None = None,
    row_names: Any = None,
    column_names: Any = None,
    encoding: str = "utf-8",
    dtype: Any = np.float64,
) -> Source:
    """A dense table, streamed.

    ``header`` is whether the first line has column names. ``row_names`` is the column with the row names: its heading,
    True for the first one, False for none (or the names themselves, or a file of them). By default both are determined
    from the cells, by the rules of :mod:`fastanchors.io.table_layout`. Numbers are float64, or ``dtype``.
    """
    name = str(path)
    separator = separator or ("\t" if ".tsv" in path.name.lower() else ",")
    if len(separator.encode()) != 1:
        raise InvalidInputError(f"separator must be one plain character such as ';', got {separator!r}")
    encoding = check_encoding(encoding)
    found = layout(name, _first_lines(path, name, separator, encoding), header, row_names)
    named = found.names_at is not None
    names = NameSpool() if named else None
    entry_type = requested_dtype(dtype)

    def blocks(max_bytes: int) -> Iterator[NDArray[Any]]:
        if names is not None:
            names.clear()
        size = piece_bytes(max_bytes)
        yield from rebatch(_pieces(path, name, separator, encoding, found, entry_type, names, size), max_bytes)

    return Source(
        name,
        (None, found.width),
        entry_type,
        False,
        blocks,
        row_names=names if named else read_names(row_names or None, "row"),
        column_names=found.column_names if column_names is None else read_names(column_names, "column"),
    )


def _pieces(
    path: Path,
    name: str,
    separator: str,
    encoding: str,
    found: Layout,
    dtype: np.dtype[Any],
    names: NameSpool | None,
    size: int,
) -> Iterator[NDArray[Any]]:
    width = found.width
    with open_bytes(path) as file:
        for line, text in record_chunks(file, name, separator, size):
            if line == 1 and found.header:
                line, text = 2, text.partition(b"\n")[2]
            if found.names_at is not None and names is not None:
                text, labels = _split_names(text, separator, encoding, found.names_at, name, line)
                names.extend(labels)
            numbers = parse_numbers(text, separator=separator, strict=True, name=name, first_line=line)
            bad = (numbers.counts != width) & (numbers.counts != 0)
            if bad.any():
                at = int(np.argmax(bad))
                raise malformed(name, line + at, f"expected {width} values, got {int(numbers.counts[at])}")
            table = numbers.values.reshape(-1, width)
            if (misfit := first_misfit(numbers.values, dtype)) is not None:
                place = line_of(misfit // width, numbers.counts, line)
                raise malformed(name, place, misfit_text(numbers.values[misfit], dtype))
            yield table.astype(dtype, copy=False)


def _split_names(
    text: bytes, separator: str, encoding: str, at: int, name: str, first_line: int
) -> tuple[bytes, list[str]]:
    """The text without field ``at`` of every line, and these fields; line numbers do not change."""
    mark = separator.encode()
    kept, names = [], []
    for number, line in enumerate(text.split(b"\n")[:-1], start=first_line):
        if not line.strip():
            kept.append(b"")
            continue
        where = f", line {number}"
        if b'"' in line:
            cells = split_fields(decoded(line, encoding, name, where), separator)
            fields, label = [cell.encode() for cell in cells], "".join(cells[at : at + 1])
            if any(separator in cell for column, cell in enumerate(cells) if column != at):
                raise malformed(name, number, f"a value in quotes contains {separator!r}; write numbers as 1.5")
        else:
            fields = line.split(mark, at + 1)
            label = decoded(b"".join(fields[at : at + 1]), encoding, name, where).removesuffix("\r").strip(BLANKS)
        if len(fields) < max(at + 1, 2):
            what = f"only one field, no {separator!r}" if len(fields) == 1 else f"only {len(fields)} fields"
            raise malformed(name, number, what)
        names.append(label)
        kept.append(mark.join(fields[:at] + fields[at + 1 :]))
    return b"\n".join(kept) + b"\n", names


def _first_lines(path: Path, name: str, separator: str, encoding: str) -> list[tuple[int, list[str]]]:
    """Numbers and cells of the first lines that are not blank."""
    lines: list[bytes] = []
    with open_bytes(path) as file:
        for _, chunk in record_chunks(file, name, separator):
            lines += chunk.split(b"\n", 2 * _SAMPLE_LINES)[: 2 * _SAMPLE_LINES]
            if sum(bool(line.strip()) for line in lines) > 1:  # lines may be longer than a chunk
                break
    if not lines:
        raise InvalidInputError(f"{name} is empty: a header or a row is needed")
    if not lines[0].strip():
        raise malformed(name, 1, "the file starts with a blank line; a header or a row is needed")
    shown: list[tuple[int, list[str]]] = []
    held = 0
    for number, line in enumerate(lines, start=1):
        if line.strip() and (len(shown) < 2 or (len(shown) < _SAMPLE_LINES and held < _SAMPLE_BYTES)):
            held += len(line)
            cells = split_fields(decoded(line, encoding, name, f", line {number}"), separator)
            shown.append((number, cells))
            if number == 1 and len(cells) == 1:
                _check_separator(cells[0], separator, name)
    return shown


def _check_separator(first: str, separator: str, name: str) -> None:
    for other in ";\t|,":
        if other != separator and other in first:
            raise malformed(name, 1, f"only one field; the separator seems to be {other!r}: pass separator={other!r}")
