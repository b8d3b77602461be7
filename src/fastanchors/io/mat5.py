"""Read MATLAB files of versions 4 to 7 piece by piece; all sizes and types are checked before they are used.

A level 5 file is a sequence of elements with a tag (type, size), some of them compressed. A matrix is an element that
contains elements (flags, shape, name, content), a structure one that contains matrices. Compressed elements are
unpacked into temporary files, so memory is bounded. The format is described in "MAT-File Format", MathWorks.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import StoreError
from .compressed import SliceReader
from .positions import read_bytes
from .scratch import scratch_file

__all__ = ["MatVariable", "read_variables"]

_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
_OLD_TYPES = {0: "f8", 1: "f4", 2: "i4", 3: "i2", 4: "u2", 5: "u1"}
_MATRIX, _COMPRESSED = 14, 15
_STRUCT, _CHAR, _SPARSE, _OPAQUE = 2, 4, 5, 17
_COMPLEX, _LOGICAL = 0x0800, 0x0200
_MOST_AXES, _MOST_FIELDS, _DEEPEST, _LONGEST_NAME = 32, 4096, 8, 4096
_PIECE = 1 << 20


class _Part(NamedTuple):
    """A range of bytes in a file."""

    file: IO[bytes]
    start: int
    size: int

    def read(self, at: int, count: int) -> bytes:
        """``count`` bytes from ``at`` on; raises if the range has fewer."""
        if at < 0 or count < 0 or at + count > self.size:
            raise ValueError(f"an element of {count} bytes does not fit into {self.size} bytes")
        data = read_bytes(self.file, self.start + at, count)
        if len(data) < count:
            raise ValueError("the file is truncated")
        return data

    def piece(self, at: int, size: int) -> _Part:
        """The sub-range of ``size`` bytes from ``at`` on."""
        return _Part(self.file, self.start + at, size)


class _Numbers:
    """A one-dimensional array in a file, read by slices."""

    def __init__(self, part: _Part, stored: np.dtype[Any], dtype: np.dtype[Any]) -> None:
        self.part, self.stored, self.dtype = part, stored, dtype
        self.size = part.size // stored.itemsize

    def __getitem__(self, index: slice) -> NDArray[Any]:
        start, stop, _ = index.indices(self.size)
        return self.take(start, max(0, stop - start))

    def take(self, first: int, count: int) -> NDArray[Any]:
        width = self.stored.itemsize
        data = self.part.read(first * width, count * width)
        return np.frombuffer(data, self.stored).astype(self.dtype, copy=False)


@dataclass
class MatVariable:
    """A variable (or ``structure.field``): its kind and shape, and access to its numbers if it has any.

    Attributes
    ----------
    kind
        "numbers", "sparse", "triplets" (sparse, of level 4), "text" or "other"
    shape
        Shape of the array, in MATLAB's order of axes.
    values
        Numbers in column-major order; the non-zeros of a sparse matrix.
    pointers, rows
        Column pointers and row indices of a sparse matrix; for triplets ``pointers`` are the column indices.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any] = field(default_factory=lambda: np.dtype("f8"))
    values: _Numbers | None = None
    pointers: _Numbers | None = None
    rows: _Numbers | None = None

    def array(self) -> NDArray[Any]:
        """All numbers, for small arrays."""
        assert self.values is not None
        return self.values[:].reshape(self.shape, order="F")

    def text(self) -> str:
        """The characters of a text."""
        assert self.values is not None
        codes = self.values[:]  # level 4 stores them as floating-point numbers
        return "".join(map(chr, codes[(codes > 0) & (codes < 0xD800)].astype(np.int64).tolist()))

    def readers(self) -> tuple[SliceReader, SliceReader, SliceReader]:
        """Readers of the three arrays of a sparse matrix."""
        return SliceReader(self.pointers), SliceReader(self.rows), SliceReader(self.values)

    def triplet_readers(self) -> tuple[SliceReader, SliceReader, SliceReader]:
        """Readers of the 0-based rows and columns and the values of triplets."""
        return _FromOne(self.rows), _FromOne(self.pointers), SliceReader(self.values)


class _FromOne(SliceReader):
    """Reads 1-based indices that are stored as floating-point numbers, as 0-based integers."""

    def read(self, count: int) -> NDArray[Any]:
        piece = super().read(count).astype(np.float64)
        if not (np.abs(piece) <= 1 << 53).all() or (piece != np.rint(piece)).any():
            raise ValueError("an index of a sparse matrix is not a whole number")
        return piece.astype(np.int64) - 1


def read_variables(path: Path, file: IO[bytes], opened: list[IO[bytes]]) -> dict[str, MatVariable]:
    """All variables of a file of level 4 or 5; temporary files are appended to ``opened``."""
    whole = _Part(file, 0, path.stat().st_size)
    head = whole.read(0, 4)
    if 0 in head:
        return {found.name: found for found in _level_4(whole)}
    mark = whole.read(126, 2)
    if mark not in (b"IM", b"MI"):
        raise StoreError(f"{path} is not a .mat file: it has neither the header of version 4 nor of version 5")
    reader = _Level5("<" if mark == b"IM" else ">", opened)
    return {found.name: found for found in reader.variables(whole)}


# --- level 5 ---------------------------------------------------------------------------------------------------------


class _Level5:
    def __init__(self, order: str, opened: list[IO[bytes]]) -> None:
        self.order, self.opened = order, opened

    def variables(self, whole: _Part) -> Iterator[MatVariable]:
        at = 128
        while at + 8 <= whole.size:
            kind, part, at = self.element(whole, at)
            if kind == _COMPRESSED:
                part = self.unpacked(part)
                kind, part, _ = self.element(part, 0)
            if kind == _MATRIX:  # one without a name is MATLAB's storage of functions and objects
                yield from (found for found in self.matrix(part) if found.name.partition(".")[0])

    def element(self, within: _Part, at: int) -> tuple[int, _Part, int]:
        """(type, content, start of the next element) of the element at ``at``."""
        first, size = np.frombuffer(within.read(at, 8), f"{self.order}u4").tolist()
        if first >> 16:  # a small element: size, type and up to four bytes
            if first >> 16 > 4:
                raise ValueError(f"a small element of {first >> 16} bytes")
            return first & 0xFFFF, _Part(within.file, within.start + at + 4, first >> 16), at + 8
        if at + 8 + size > within.size:
            raise ValueError(f"an element of {size} bytes does not fit into the remaining {within.size - at - 8} bytes")
        after = at + 8 + (size if first == _COMPRESSED else -(-size // 8) * 8)
        return first, _Part(within.file, within.start + at + 8, size), after

    def unpacked(self, part: _Part) -> _Part:
        file = scratch_file()
        self.opened.append(file)
        unpack = zlib.decompressobj()
        size = 0
        for at in range(0, part.size, _PIECE):
            data = part.read(at, min(_PIECE, part.size - at))
            while data:
                piece = unpack.decompress(data, _PIECE)
                size += file.write(piece)
                data = unpack.unconsumed_tail
        size += file.write(unpack.flush())
        if not unpack.eof:
            raise ValueError("a compressed element is truncated")
        file.flush()
        return _Part(file, 0, size)

    def numbers(self, within: _Part, at: int, dtype: str | None = None) -> tuple[_Numbers, int]:
        """The numbers of an element, in the stored type or as ``dtype``."""
        kind, part, after = self.element(within, at)
        if kind not in _NUMBERS:
            raise ValueError(f"numbers of unknown type {kind}")
        stored = np.dtype(self.order + _NUMBERS[kind])
        return _Numbers(part, stored, np.dtype(dtype or _NUMBERS[kind])), after

    def name(self, part: _Part, at: int) -> tuple[str, int]:
        """The name in the element at ``at``."""
        _, text, after = self.element(part, at)
        return text.read(0, min(text.size, _LONGEST_NAME)).decode("utf-8", "replace"), after

    def matrix(self, part: _Part, prefix: str = "", depth: int = 0) -> Iterator[MatVariable]:
        """The variable of a matrix element, or those of the fields of a structure."""
        if part.size == 0:  # an empty field
            return
        flags, at = self.numbers(part, 0)
        flag, *_ = flags[:2].tolist()
        number = flag & 0xFF
        if number == _OPAQUE:  # an object such as a string or a table: it has no shape here
            yield MatVariable(prefix or self.name(part, at)[0], "other", ())
            return
        axes, at = self.numbers(part, at)
        if not 2 <= axes.size <= _MOST_AXES:
            raise ValueError(f"a matrix of {axes.size} axes")
        shape = tuple(int(size) for size in axes[:].tolist())
        if min(shape) < 0:
            raise ValueError(f"a matrix of shape {shape}")
        text, at = self.name(part, at)
        name = prefix or text
        if number in _CLASSES and not flag & _COMPLEX:
            values, _ = self.numbers(part, at, _CLASSES[number])
            yield _array(name, "numbers", shape, values)
        elif number == _CHAR:
            kind, content, _ = self.element(part, at)
            width = {16: "u1", 17: "u2", 18: "u4"}.get(kind, _NUMBERS.get(kind, "u1"))
            stored = np.dtype(self.order + width)
            yield MatVariable(name, "text", shape, stored, _Numbers(content, stored, stored))
        elif number == _SPARSE and not flag & _COMPLEX and len(shape) == 2:
            rows, at = self.numbers(part, at)
            pointers, at = self.numbers(part, at)
            values, _ = self.numbers(part, at, "f8")
            yield _sparse(name, shape, rows, pointers, values, bool(flag & _LOGICAL))
        elif number == _STRUCT and math.prod(shape) == 1 and depth < _DEEPEST:
            yield from self.fields(part, at, name, depth)
        else:
            yield MatVariable(name, "other", shape)

    def fields(self, part: _Part, at: int, name: str, depth: int) -> Iterator[MatVariable]:
        """The fields of a structure as ``name.field``."""
        length, at = self.numbers(part, at)
        width = int(length[:1].tolist()[0])
        _, texts, at = self.element(part, at)
        if not 0 < width <= _LONGEST_NAME or texts.size > width * _MOST_FIELDS:
            raise ValueError(f"a structure whose names are {width} of {texts.size} bytes")
        for index in range(texts.size // width):
            label = texts.read(index * width, width).split(b"\0")[0].decode("utf-8", "replace")
            kind, content, at = self.element(part, at)
            if kind == _MATRIX:
                yield from self.matrix(content, f"{name}.{label}", depth + 1)


def _array(name: str, kind: str, shape: tuple[int, ...], values: _Numbers) -> MatVariable:
    if values.size != math.prod(shape):
        raise ValueError(f"{name!r} has the shape {shape} but holds {values.size} numbers")
    return MatVariable(name, kind, shape, values.dtype, values)


def _sparse(
    name: str, shape: tuple[int, ...], rows: _Numbers, pointers: _Numbers, values: _Numbers, logical: bool
) -> MatVariable:
    """A sparse matrix; its arrays may be longer than the number of entries, which is the last pointer."""
    if pointers.size != shape[1] + 1:
        raise ValueError(f"{name!r} has {shape[1]} columns but {pointers.size} pointers")
    entries = int(pointers[shape[1] :].tolist()[0])
    if logical and values.size < entries:  # MATLAB writes bytes and calls them doubles
        values = _Numbers(values.part, np.dtype("u1"), values.dtype)
    if not 0 <= entries <= min(rows.size, values.size):
        raise ValueError(f"{name!r} claims {entries} entries but holds {min(rows.size, values.size)}")
    rows.size = values.size = entries
    return MatVariable(name, "sparse", shape, values.dtype, values, pointers, rows)


# --- level 4 ---------------------------------------------------------------------------------------------------------


def _level_4(whole: _Part) -> Iterator[MatVariable]:
    """The matrices of a level 4 file: five numbers, a name, the entries by columns."""
    order = "<" if int.from_bytes(whole.read(0, 4), "little") < 5000 else ">"
    at = 0
    while at < whole.size:
        kind, m, n, is_complex, length = np.frombuffer(whole.read(at, 20), f"{order}i4").tolist()
        number, what = kind // 10 % 10, kind % 10
        if not 0 <= kind < 5000 or number not in _OLD_TYPES or min(m, n) < 0 or not 0 < length <= _LONGEST_NAME:
            raise ValueError("the header of a matrix is not valid")
        name = whole.read(at + 20, length).split(b"\0")[0].decode("latin-1")
        stored = np.dtype(order + _OLD_TYPES[number])
        start, size = at + 20 + length, m * n * stored.itemsize
        if start + size > whole.size:
            raise ValueError(f"{name!r} of {m} × {n} does not fit into the remaining {whole.size - start} bytes")
        values = _Numbers(_Part(whole.file, start, size), stored, stored.newbyteorder("="))
        at = start + size * (2 if is_complex else 1)
        if what == 0 and not is_complex:
            yield MatVariable(name, "numbers", (m, n), values.dtype, values)
        elif what == 1:
            yield MatVariable(name, "text", (m, n), values.dtype, values)
        elif what == 2 and not is_complex and n == 3 and m > 0:
            yield _triplets(name, values, m)
        else:
            yield MatVariable(name, "other", (m, n))


def _triplets(name: str, numbers: _Numbers, lines: int) -> MatVariable:
    """A sparse matrix of level 4: a line (row, column, value) per entry, and a last line with the shape."""
    rows, columns, values = (
        _Numbers(numbers.part.piece(at * width, width), numbers.stored, numbers.dtype)
        for width in [lines * numbers.stored.itemsize]
        for at in range(3)
    )
    m, n = (float(side[lines - 1 :].tolist()[0]) for side in (rows, columns))
    if not (0 <= m <= 1 << 53 and 0 <= n <= 1 << 53 and m.is_integer() and n.is_integer()):
        raise ValueError(f"the sparse matrix {name!r} claims {m} × {n}")
    for side in (rows, columns, values):
        side.size = lines - 1
    return MatVariable(name, "triplets", (int(m), int(n)), values.dtype, values, columns, rows)
