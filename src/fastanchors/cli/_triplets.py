"""Parse lines of row, column and value for ``fastanchors update``, by index or by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any

import numpy as np

from ..errors import InvalidInputError
from ..io.decoding import BOM
from ..io.market import as_table
from ..io.numbers import line_chunks, malformed, parse_numbers
from ..store import Store

__all__ = ["indexed_triplets", "named_triplets"]

Triplets = tuple[int, Any, Any, Any]  # number of the first line, rows, columns, values
_LARGEST = 2.0**53  # all integers up to it are exact in float64


class _Available:
    """Reads the bytes of standard input that are available, without waiting for a slow pipe or a byte-order mark."""

    def __init__(self, file: IO[bytes]) -> None:
        self._read = getattr(file, "read1", file.read)
        self._first = True

    def read(self, size: int) -> bytes:
        data: bytes = self._read(size)
        if self._first and data:
            self._first, data = False, data.removeprefix(BOM) or self._read(size)
        return data


def indexed_triplets(file: IO[bytes], name: str, most: int | None) -> Iterator[Triplets]:
    """The changes of each piece of the input, at most ``most`` at a time; rows and columns are indices."""
    for line, text in line_chunks(_Available(file), name):  # type: ignore[arg-type]
        numbers = parse_numbers(text, separator=",", name=name, first_line=line)
        table = as_table(numbers, 3, name, line)
        index = table[:, :2]
        bad = ~((index >= 0) & (index <= _LARGEST) & (index == np.floor(index))).all(axis=1)
        if bad.any():
            at = line + int(np.flatnonzero(numbers.counts)[np.argmax(bad)])
            raise malformed(name, at, "row and column must be integers of at least 0")
        rows, columns = index.astype(np.int64).T
        yield from _pieces(line, rows, columns, table[:, 2], most)


def _pieces(line: int, rows: Any, columns: Any, values: Any, most: int | None) -> Iterator[Triplets]:
    step = most or max(1, len(rows))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        yield line, rows[part].copy(), columns[part].copy(), values[part].copy()


def named_triplets(file: IO[bytes], name: str, most: int | None, store: Store) -> Iterator[Triplets]:
    """Like :func:`indexed_triplets`, with rows and columns by their names in the store.

    The separator is a tab if the line has one, else a comma, else blanks. A side without names uses indices.
    """
    if store.row_names is None and store.column_names is None:
        raise InvalidInputError(f"{store.path} has no names; use indices of rows and columns, without --names")
    find = [
        _finder(names, length, what)
        for names, length, what in zip(
            (store.row_names, store.column_names), store.shape, ("row", "column"), strict=True
        )
    ]
    for line, text in line_chunks(_Available(file), name):  # type: ignore[arg-type]
        rows, columns, values = [], [], []
        for number, raw in enumerate(text.decode("utf-8", "replace").split("\n"), line):
            if not raw.strip():
                continue
            fields = _fields(raw)
            if len(fields) != 3:
                raise malformed(name, number, f"expected row, column and value, found {len(fields)} fields")
            try:
                rows.append(find[0](fields[0]))
                columns.append(find[1](fields[1]))
                values.append(_number(fields[2]))
            except LookupError as error:
                raise malformed(name, number, error.args[0]) from None
        if rows:
            yield from _pieces(line, np.array(rows), np.array(columns), np.array(values), most)


def _fields(line: str) -> list[str]:
    separator = next((mark for mark in "\t," if mark in line), None)
    return [field.strip() for field in line.split(separator)]


def _number(text: str) -> float:
    try:
        if "_" in text or not text.isascii():  # Python reads 1_0 and digits of every script
            raise ValueError(text)
        return float(text)
    except ValueError:
        raise LookupError(f"{text!r} is not a number") from None


def _finder(names: Iterable[str] | None, length: int, what: str) -> Callable[[str], int]:
    """A function from names to indices."""
    if names is None:

        def by_index(text: str) -> int:
            digits = text.lstrip("0") or text[-1:]  # Python refuses to read integers of thousands of digits
            if not (text.isascii() and text.isdigit() and len(digits) < 20 and int(digits) < length):
                raise LookupError(f"{what}s have no names, and {text!r} is not an index of 0 … {length - 1}")
            return int(digits)

        return by_index
    place: dict[str, int] = {}
    for index, name in enumerate(names):
        place[name] = -1 if name in place else index

    def by_name(text: str) -> int:
        index = place.get(text)
        if index is None:
            raise LookupError(f"no {what} is named {text!r}")
        if index < 0:
            raise LookupError(f"several {what}s are named {text!r}; use indices, without --names")
        return index

    return by_name
