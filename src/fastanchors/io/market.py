"""Read Matrix Market files (``.mtx[.gz]``) as a stream; entries may be in any order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from .._validate import check_extent
from ..errors import StoreError
from .arrays import spooled, spooled_columns
from .numbers import check_line_count, line_chunks, malformed, open_bytes, parse_numbers, piece_bytes, read_line
from .row_grouper import RowGrouper
from .row_source import Source, read_names, requested_dtype, row_slices

__all__ = ["read_mtx"]

_TYPES: dict[str, Any] = {
    "real": np.float64,
    "double": np.float64,
    "integer": np.int64,
    "unsigned-integer": np.uint64,
    "pattern": np.uint8,
}
_EXACT = float(2**53)
_SIZES = 200  # largest length of the line of sizes, in bytes
_LARGEST = 2**53  # limit of sizes, because indices are read as float64


def read_mtx(path: Path, *, row_names: Any = None, column_names: Any = None, dtype: Any = None) -> Source:
    """A Matrix Market file: coordinate or array; real, integer or pattern; general, symmetric or skew-symmetric."""
    name = str(path)
    with open_bytes(path) as file:
        layout, kind, symmetry, sizes, _ = _header(file, name)
    m, n = sizes[:2]
    if layout == "coordinate":
        check_line_count(path, sizes[2], 4, name)
        check_extent((m, n), sizes[2] * (1 + (symmetry != "general")), name)
    entry_type = requested_dtype(_TYPES[kind] if dtype is None else dtype)
    if symmetry == "skew-symmetric" and entry_type.kind == "u":
        raise malformed(name, 1, f"{symmetry} entries have both signs, and {entry_type} has none; pass dtype='float64'")
    reader = _coordinates if layout == "coordinate" else _array

    def blocks(max_bytes: int) -> Iterator[Any]:
        with open_bytes(path) as file:
            *_, first_line = _header(file, name)
            yield from reader(file, name, sizes, kind, symmetry, entry_type, first_line, max_bytes)

    names = {"row_names": read_names(row_names, "row"), "column_names": read_names(column_names, "column")}
    return Source(name, (m, n), entry_type, layout == "coordinate", blocks, **names)


def _header(file: IO[bytes], name: str) -> tuple[str, str, str, list[int], int]:
    """(layout, field, symmetry, sizes, number of the first line of data)."""
    words = read_line(file, name, 1).decode("latin-1").lower().split()
    if len(words) != 5 or words[0] != "%%matrixmarket" or words[1] != "matrix":
        raise malformed(name, 1, "expected '%%MatrixMarket matrix <layout> <field> <symmetry>'")
    layout, kind, symmetry = words[2:]
    if layout not in ("coordinate", "array") or kind not in _TYPES:
        raise malformed(name, 1, f"cannot read layout {layout!r} with field {kind!r}")
    if symmetry not in ("general", "symmetric", "skew-symmetric"):
        raise malformed(name, 1, f"cannot read symmetry {symmetry!r}")
    if kind == "pattern" and (layout == "array" or symmetry == "skew-symmetric"):
        raise malformed(name, 1, f"a pattern cannot be {'an array' if layout == 'array' else symmetry}")
    number = 2
    while (line := read_line(file, name, number)).startswith(b"%") or not line.strip():
        number += 1
    wanted = 3 if layout == "coordinate" else 2
    try:
        sizes = [int(word) for word in line[:_SIZES].split()]
    except ValueError:
        sizes = []
    if len(sizes) != wanted or min(sizes) < 0 or max(sizes) >= _LARGEST:
        raise malformed(name, number, f"expected {wanted} sizes, got {line[:40].decode('latin-1').strip()!r}")
    if symmetry != "general" and sizes[0] != sizes[1]:
        raise malformed(name, number, f"{symmetry}, but not square: {sizes[0]} × {sizes[1]}")
    return layout, kind, symmetry, sizes, number + 1


def _coordinates(
    file: IO[bytes],
    name: str,
    sizes: list[int],
    kind: str,
    symmetry: str,
    dtype: np.dtype[Any],
    first_line: int,
    max_bytes: int,
) -> Iterator[Any]:
    m, n, entries = sizes
    width = 2 if kind == "pattern" else 3
    mirrored = symmetry != "general"
    grouper = RowGrouper(m, n, dtype, max_bytes, name=name, entries=entries * (1 + mirrored))
    seen = 0
    try:
        for line, text in line_chunks(file, name, first_line, piece_bytes(max_bytes)):
            numbers = parse_numbers(text, name=name, first_line=line)
            table = as_table(numbers, width, name, line)
            rows, columns = table[:, 0] - 1, table[:, 1] - 1
            check_entries(table, (rows, columns), (m, n), dtype, numbers.counts, name, line)
            if symmetry == "skew-symmetric":
                check_entries(table * (1, 1, -1), (rows, columns), (m, n), dtype, numbers.counts, name, line)
            values = table[:, 2] if width == 3 else np.ones(rows.size)
            grouper.add(rows, columns, values)
            if mirrored:
                off = rows != columns
                grouper.add(columns[off], rows[off], -values[off] if symmetry == "skew-symmetric" else values[off])
            seen += rows.size
        check_count(name, entries, seen)
        yield from grouper.blocks()
    finally:
        grouper.close()


def _array(
    file: IO[bytes],
    name: str,
    sizes: list[int],
    kind: str,
    symmetry: str,
    dtype: np.dtype[Any],
    first_line: int,
    max_bytes: int,
) -> Iterator[Any]:
    stream = _ValueStream(file, name, first_line, dtype, (1, -1) if symmetry == "skew-symmetric" else (1,))
    if symmetry == "general":
        yield from spooled_columns(stream, (sizes[0], sizes[1]), dtype, max_bytes)
    else:
        yield from _triangle(stream, sizes[0], dtype, max_bytes, skew=symmetry != "symmetric")


def _triangle(stream: _ValueStream, n: int, dtype: np.dtype[Any], max_bytes: int, *, skew: bool) -> Iterator[Any]:
    """Row blocks of a symmetric array, stored as its lower triangle by columns (without the diagonal if ``skew``).

    Row i consists of the i-th entries of the columns before i, and of column i below the diagonal.
    """
    size = n * (n - 1) // 2 if skew else n * (n + 1) // 2
    with spooled(stream, size, dtype, max_bytes) as read:
        for start, stop in row_slices(n, n * dtype.itemsize, max_bytes):
            block = np.zeros((stop - start, n), dtype)
            for j in range(stop):
                # (i, j) is stored at begin + i, for i from j (or j + 1) on.
                begin = j * n - j * (j + 1) // 2 - (j + 1) * skew
                first = j + skew
                if j >= start:
                    column = read(begin + first, n - first)
                    block[j - start, first:] = -column if skew else column
                low = max(start, first)
                if low < stop:
                    block[low - start :, j] = read(begin + low, stop - low)
            yield block


class _ValueStream:
    """The values of an array file, one per line, read in pieces; with each of the ``signs`` they must fit the type."""

    def __init__(
        self, file: IO[bytes], name: str, first_line: int, dtype: np.dtype[Any], signs: tuple[int, ...]
    ) -> None:
        self.place, self.dtype, self._signs = name, dtype, signs
        self._chunks = line_chunks(file, name, first_line)

    def read(self, count: int) -> NDArray[Any]:
        for line, text in self._chunks:
            numbers = parse_numbers(text, name=self.place, first_line=line)
            if numbers.values.size:
                for values in (sign * numbers.values for sign in self._signs):
                    if (misfit := first_misfit(values, self.dtype)) is not None:
                        raise malformed(self.place, line + misfit, misfit_text(values[misfit], self.dtype))
                return numbers.values.astype(self.dtype)
        return np.empty(0, self.dtype)


def check_count(name: str, stated: int, seen: int) -> None:
    """Raise unless a file has as many entries as its header states."""
    if seen != stated:
        why = "it is truncated" if seen < stated else "there are more"
        raise StoreError(f"{name}: the header states {stated} entries, the file has {seen}: {why}")


def as_table(numbers: Any, width: int, name: str, first_line: int) -> NDArray[np.float64]:
    """The numbers as rows of ``width``; blank lines are skipped, lines of another width are errors."""
    bad = (numbers.counts != width) & (numbers.counts != 0)
    if bad.any():
        at = int(np.argmax(bad))
        raise malformed(name, first_line + at, f"expected {width} numbers, got {int(numbers.counts[at])}")
    return numbers.values.reshape(-1, width)


def line_of(entry: int, counts: NDArray[np.int32], first_line: int) -> int:
    """The line number of the ``entry``-th non-blank line of a chunk."""
    return first_line + int(np.flatnonzero(counts)[entry])


def check_entries(
    table: NDArray[np.float64],
    indices: tuple[NDArray[np.float64], NDArray[np.float64]],
    shape: tuple[int, int],
    dtype: np.dtype[Any],
    counts: NDArray[np.int32],
    name: str,
    first_line: int,
) -> None:
    """Raise unless every 1-based index is whole and within the shape and every value fits the type."""
    for what, index, size in zip(("row", "column"), indices, shape, strict=True):
        bad = ~((index >= 0) & (index < size) & (index == np.floor(index)))
        if bad.any():
            at = int(np.argmax(bad))
            raise malformed(
                name, line_of(at, counts, first_line), f"{what} {index[at] + 1:g} is not a whole number in 1 … {size}"
            )
    if table.shape[1] == 3 and (misfit := first_misfit(table[:, 2], dtype)) is not None:
        line = line_of(misfit, counts, first_line)
        raise malformed(name, line, misfit_text(table[misfit, 2], dtype))


def first_misfit(values: NDArray[np.float64], dtype: np.dtype[Any]) -> int | None:
    """Index of the first value that does not fit an integer ``dtype``, or that float64 may have rounded."""
    if dtype.kind not in "iu":
        return None
    info = np.iinfo(dtype)
    # From 2⁵³ on float64 is not exact: 9007199254740993 would be read as …992.
    bad = ~((values >= info.min) & (values <= info.max) & (np.abs(values) < _EXACT) & (values == np.floor(values)))
    return int(np.argmax(bad)) if bad.any() else None


def misfit_text(value: float, dtype: np.dtype[Any]) -> str:
    """Error message for a value that :func:`first_misfit` found."""
    why = " (integers from 2⁵³ on are not read exactly; dtype='float64' reads them rounded)"
    return f"value {value:.17g} does not fit type {dtype}{why if abs(value) >= _EXACT else ''}"
