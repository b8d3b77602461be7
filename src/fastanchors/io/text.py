"""Read texts of documents: folders, lines, tables, JSON and Parquet, compressed or not."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._signals import pass_on
from .._validate import check_choice
from ..errors import InvalidInputError, InvalidTypeError, MissingExtraError, StoreError, TooLargeError
from .addresses import exists
from .decoding import BOM, check_encoding, decoded, did_you_mean, json_value
from .numbers import malformed
from .row_source import reading

__all__ = ["Texts", "cell_texts", "holds_texts", "options_of", "read_texts"]

_LINES = (".txt", ".text", ".md")
_TABLES = {".csv": ",", ".tsv": "\t"}
_JSON = (".jsonl", ".ndjson", ".json")
_PARQUET = (".parquet", ".pq")
_COLUMNS, _DECODING = ("column", "title"), ("encoding", "errors")  # options
_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_FEW = 10  # columns of numbers, too few for a vocabulary
_ANY_TEXT, _BEST_RATIO = 1 << 26, 1032  # limit of the unpacked size: a constant, and a factor of the packed size
_LONGEST = 1 << 24  # bytes of a line that is examined
_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$")
_HEADING = re.compile(r"[^\W\d_][\w .:/()-]{0,40}$")  # a plausible column name


@dataclass(frozen=True)
class Texts:
    """Names and texts of documents, and ``notes`` for the user.

    ``replaced`` is the number of invalid bytes that were replaced.
    """

    names: list[str]
    texts: list[str]
    replaced: int = 0
    notes: tuple[str, ...] = ()


def suffix_of(path: Path) -> str:
    """The suffix of the format, in lower case, without a suffix of compression."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _OPENERS:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def holds_texts(path: Path, column: Any = None) -> bool:
    """Whether the name says texts, or of a table its columns: see :func:`_columns_of_text`, :func:`_is_of_counts`."""
    if path.is_dir():
        return not exists(path / "manifest.json") and path.suffix.lower() not in (".zarr", ".parquet")
    if path.name.lower().startswith("docword."):
        return False
    suffix = suffix_of(path)
    if suffix in _PARQUET:
        return column is not None or _columns_of_text(path)
    if suffix in _TABLES and column is None and _is_of_counts(path, _TABLES[suffix]):
        return False
    return suffix in (*_TABLES, *_LINES, *_JSON)


def _columns_of_text(path: Path) -> bool:
    """Whether a Parquet file has texts: no numbers, several columns of text, or one beside too few numbers for counts.

    False also if it cannot be read; its reader then raises.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq

        kinds = pq.read_schema(_unpacked(path)).types
    except (ImportError, OSError, ValueError, StoreError) as error:
        pass_on(error)
        return False
    strings = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    texts = sum(any(test(kind) for test in strings) for kind in kinds)
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_nested)
    others = sum(any(test(kind) for test in tests) for kind in kinds)
    return others == 0 or texts > 1 or (texts == 1 and others < _FEW)


def _is_of_counts(path: Path, separator: str) -> bool:
    """Whether the second line of a table has enough numbers for counts, with at most one text: the same rule."""
    try:
        with _OPENERS.get(path.suffix.lower(), open)(path, "rb") as file:
            lines = [file.readline(_LONGEST).decode("latin-1") for _ in range(2)]
        cells = next(csv.reader(lines[1:], delimiter=separator), [])
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError, csv.Error) as error:
        pass_on(error)
        return False
    numbers = sum(bool(_NUMBER.match(cell)) for cell in cells)
    return numbers >= _FEW and len(cells) - numbers <= 1


def _unpacked(path: Path) -> Any:
    """What libraries that know no compression read: the path, or the content of a compressed file."""
    return io.BytesIO(_content(path)) if path.suffix.lower() in _OPENERS else path


def _content(path: Path) -> bytes:
    """The bytes of a file, unpacked."""
    most = _ANY_TEXT + _BEST_RATIO * path.stat().st_size
    with reading(path), _OPENERS.get(path.suffix.lower(), open)(path, "rb") as file:
        data: bytes = file.read(most + 1)
    if len(data) > most:
        raise TooLargeError(f"{path} unpacks to more than {most:,} bytes, which is not plausible for its size")
    return data


def options_of(path: Path) -> tuple[str, ...]:
    """The options of :func:`read_texts` that have an effect on a source of this kind."""
    suffix = suffix_of(path)
    if path.is_dir() or suffix in ("", *_LINES):
        return _DECODING
    if suffix in _PARQUET:
        return _COLUMNS
    return (*_COLUMNS, *_DECODING, "header") if suffix in _TABLES else (*_COLUMNS, *_DECODING)


def read_texts(
    path: Path,
    *,
    column: str | int | None = None,
    title: str | int | None = None,
    header: bool | None = None,
    encoding: str = "utf-8",
    errors: str = "strict",
) -> Texts:
    """The documents of a folder (one per file), of a text file (one per line), or of a column of a table.

    Parameters
    ----------
    path : Path
        A folder, ``.txt``, ``.csv``, ``.tsv``, ``.jsonl``, ``.json`` or ``.parquet``; also with ``.gz``, ``.bz2`` or
        ``.xz``.
    column, title : str, int or None
        The columns of texts and of names, by name or 0-based number. Not needed for a table of one column.
    header : bool or None
        Whether the first line of a ``.csv`` or ``.tsv`` file has column names; None determines it from that line.
    encoding : str
        Encoding of all formats but Parquet.
    errors : "strict" or "replace"
        What to do with invalid bytes: raise an error, or replace each by U+FFFD and count them.

    Options that a source of this kind does not have are an error.
    """
    check_choice(errors, ("strict", "replace"), name="errors")
    given = {"column": column, "title": title, "header": header, "encoding": encoding, "errors": errors}
    has = options_of(path)
    for name, value in given.items():
        if name not in has and value not in (None, "utf-8", "strict"):
            raise InvalidTypeError(f"{path} has no option {name!r} (options: {', '.join(has)})")
    decoder = _Decoder(check_encoding(encoding, whole=True), errors)
    with reading(path):
        names, texts, notes = _read(path, column, title, header, decoder)
    if not texts:
        raise InvalidInputError(f"{path} holds no documents")
    return Texts(names, texts, decoder.replaced, notes)


def _read(
    path: Path, column: str | int | None, title: str | int | None, header: bool | None, decoder: _Decoder
) -> tuple[list[str], list[str], tuple[str, ...]]:
    """Names, texts and notes."""
    suffix, notes = suffix_of(path), ()  # type: tuple[str, tuple[str, ...]]
    if path.is_dir():
        files, notes = _folder(path)
        names, texts = [str(file.relative_to(path)) for file in files], [decoder.read(file) for file in files]
    elif suffix in _LINES or suffix == "":
        lines = io.StringIO(decoder.read(path), newline=None)  # `splitlines` also splits at form feeds and U+2028
        texts = [line.rstrip("\n") for line in lines if line.strip()]
        names = [str(number) for number in range(len(texts))]
    else:
        if suffix in _TABLES:
            columns = _table(path, decoder.read(path), _TABLES[suffix], header)
        elif suffix in _PARQUET:
            columns = _parquet(path)
        else:
            columns = _json(path, decoder.read(path), lines=suffix != ".json")
        texts = cell_texts(_chosen(path, columns, column), f"{path}: text")
        if title is None:
            names = [str(number) for number in range(len(texts))]
        else:
            names = cell_texts(_chosen(path, columns, title), f"{path}: title")
            if len(names) != len(texts):
                raise StoreError(f"{path} has {len(texts)} texts but {len(names)} titles")
    return names, texts, notes


def cell_texts(cells: Iterable[Any], what: str) -> list[str]:
    """Cells as texts: empty if missing (null, NaN), bytes as UTF-8; lists and records are refused.

    Writers that are older than the text type of Parquet, such as those of Spark and Hive, have texts as bytes.
    """
    return [cell if isinstance(cell, str) else _as_text(cell, f"{what} {at}") for at, cell in enumerate(cells)]


def _as_text(cell: Any, place: str) -> str:
    if cell is None or type(cell).__name__ in ("NAType", "NaTType") or (isinstance(cell, float) and cell != cell):
        return ""
    if isinstance(cell, bytes):
        try:
            return cell.decode()
        except UnicodeDecodeError as error:
            raise StoreError(f"{place}: {cell[error.start]:#04x} is not UTF-8 text; write the column as text") from None
    if hasattr(cell, "__len__"):
        raise InvalidTypeError(f"{place} is of type {type(cell).__name__}, not text; join its parts to one text first")
    return str(cell)


class _Decoder:
    """Reads files as text, and counts the replaced bytes."""

    def __init__(self, encoding: str, errors: str) -> None:
        self.encoding, self.errors, self.replaced = encoding, errors, 0

    def read(self, path: Path) -> str:
        data = _content(path).removeprefix(BOM)
        if self.errors == "strict":
            also = "; or replace such bytes: errors='replace'"
            return decoded(data, self.encoding, str(path), also=also)
        text = data.decode(self.encoding, "replace")
        mark = "\N{REPLACEMENT CHARACTER}"
        if mark in text:
            own = data.count(mark.encode(self.encoding)) if self.encoding.lower().startswith("utf") else 0
            self.replaced += text.count(mark) - own
        return text


def _folder(path: Path) -> tuple[list[Path], tuple[str, ...]]:
    """The text files of a folder, or all its files if none is one, and a note if others are left out.

    Hidden files, and those in hidden folders, are not documents.
    """
    seen = [file for file in path.rglob("*") if not any(part[0] == "." for part in file.relative_to(path).parts)]
    files = sorted(file for file in seen if file.is_file())
    others = [file for file in seen if not file.exists()]  # links to files that are gone
    read = [file for file in files if suffix_of(file) in _LINES] or files
    if not read:
        raise InvalidInputError(f"{path} holds no files")
    left = len(files) + len(others) - len(read)
    note = f"{left} {'file is' if left == 1 else 'files are'} left out: not {', '.join(_LINES)}, or a link to nothing"
    return read, (note,) if left else ()


def _table(path: Path, text: str, separator: str, header: bool | None) -> dict[str | int, Sequence[Any]]:
    head = _records(path, text, separator, most=1)
    if not head:
        raise InvalidInputError(f"{path} is empty")
    if separator == "," and len(head[0]) == 1 and ";" in head[0][0] and _headings(head[0][0].split(";")):
        separator = ";"
    rows = _records(path, text, separator)
    first = rows[0]
    header = _headings(first) if header is None else header
    names: list[str | int] = list(first) if header else list(range(len(first)))
    body = rows[1:] if header else rows
    for number, row in enumerate(body, start=2 if header else 1):
        if len(row) > len(first):
            cure = f"texts that hold {separator!r} must be in quotes"
            raise StoreError(f"{path}, record {number}: {len(row)} fields where the first has {len(first)}; {cure}")
    return {name: [row[at] if at < len(row) else "" for row in body] for at, name in enumerate(names)}


def _records(path: Path, text: str, separator: str, most: int | None = None) -> list[list[str]]:
    """The first ``most`` records of a table that are not empty; raises if the last one ends inside a quote."""
    begun = 0  # line in which a record began that has not ended

    def lines() -> Iterator[str]:
        nonlocal begun
        for number, line in enumerate(io.StringIO(text, newline=""), start=1):
            begun = begun or number
            yield line
        if begun:
            raise malformed(str(path), begun, "a quote is opened in this line and never closed")

    rows: list[list[str]] = []
    before = csv.field_size_limit(1 << 30)
    try:
        for row in csv.reader(lines(), delimiter=separator):
            begun = 0
            if row:
                rows.append(row)
            if len(rows) == most:
                break
        return rows
    except csv.Error as error:
        raise StoreError(f"{path}: {error}") from error
    finally:
        csv.field_size_limit(before)


def _headings(cells: list[str]) -> bool:
    """Whether the cells of a record look like column names; the first is empty over an index, as pandas writes it."""
    cells = cells[1:] if len(cells) > 1 and not cells[0] else cells
    return len(set(cells)) == len(cells) and all(_HEADING.match(cell) and cell.count(" ") < 3 for cell in cells)


def _json(path: Path, text: str, *, lines: bool) -> dict[str | int, Sequence[Any]]:
    if lines:
        numbered = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
        records: Any = [_parsed(line, f"{path}, line {number}") for number, line in numbered]
    else:
        records = _parsed(text, str(path))
    if isinstance(records, dict) and records and all(isinstance(column, list) for column in records.values()):
        return dict(records)
    if isinstance(records, dict) and records and all(isinstance(column, dict) for column in records.values()):
        index = list(dict.fromkeys(key for column in records.values() for key in column))  # as pandas writes a frame
        return {name: [column.get(key) for key in index] for name, column in records.items()}
    if isinstance(records, list) and all(isinstance(record, str) for record in records):
        return {"text": records}
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise StoreError(f"{path}: expected a list of texts, a list of objects, or an object of columns")
    keys: dict[str, None] = {}
    for record in records:
        keys.update(dict.fromkeys(record))
    return {key: [record.get(key) for record in records] for key in keys}


def _parsed(text: str, place: str) -> Any:
    try:
        return json_value(text)
    except ValueError as error:
        raise StoreError(f"{place}: not JSON: {error}") from error


def _parquet(path: Path) -> dict[str | int, Sequence[Any]]:
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError("reading Parquet needs pyarrow: pip install 'fastanchors[io]'") from error
    with reading(path):
        table = pq.read_table(_unpacked(path))
    if len(set(table.column_names)) < table.num_columns:
        raise StoreError(f"{path}: two columns have the same name; rename one")
    return {name: table.column(name).to_pylist() for name in table.column_names}


def _chosen(path: Path, columns: dict[str | int, Sequence[Any]], column: str | int | None) -> Sequence[Any]:
    """One column, by name or by number."""
    names = list(columns)
    listed = ", ".join(map(repr, names)) or "none"
    if column is None:
        if len(names) == 1:
            return columns[names[0]]
        raise InvalidInputError(f"{path}: choose the column of the texts (--column); it has {listed}")
    if column in columns:
        return columns[column]
    place = int(str(column)[:9]) if str(column).isascii() and str(column).isdigit() else -1
    if 0 <= place < len(names):
        return columns[names[place]]
    raise InvalidInputError(f"{path} has no column {column!r}; it has {listed}{did_you_mean(str(column), names)}")
