"""Arrays and sparse matrices in memory, iterators of row blocks, ``.npy`` (mapped) and ``.npz`` (streamed)."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._validate import check_extent, check_sparse, numeric
from ..errors import InvalidInputError, StoreError
from .addresses import openable
from .compressed import SliceReader, compressed_source, coo_source
from .row_source import Source, read_names, reading, rebatch, row_slices, split
from .scratch import scratch_file
from .triplets import unsummed_csr

__all__ = [
    "dense_source",
    "from_array",
    "from_blocks",
    "map_npy",
    "plain_rows",
    "read_at",
    "read_npy",
    "read_npz",
    "rows_of_columns",
    "spooled",
    "spooled_columns",
]


def dense_source(name: str, array: Any, *, chunk_rows: int = 1, **names: Any) -> Source:
    """Rows of anything two-dimensional that can be sliced; slices are multiples of ``chunk_rows`` where they can be."""
    m, n = (int(size) for size in array.shape)

    def blocks(max_bytes: int) -> Iterator[NDArray[Any]]:
        row_bytes = n * array.dtype.itemsize
        step = max(1, max_bytes // row_bytes)
        step = step // chunk_rows * chunk_rows or step
        for start, stop in row_slices(m, 1, step):
            with reading(name):
                block = np.asarray(array[start:stop])
            yield block

    return Source(name, (m, n), array.dtype, False, blocks, **names)


def from_array(A: Any, *, row_names: Any = None, column_names: Any = None, name: str = "the matrix") -> Source:
    """A NumPy array or a SciPy sparse matrix (kept sparse)."""
    if sp.issparse(A):
        csr = _as_csr(A, name)
        source = compressed_source(
            name,
            csr.shape,
            csr.data.dtype,
            lambda: _array_readers(csr),
            entries=int(csr.nnz),
            row_names=read_names(row_names, "row"),
            column_names=read_names(column_names, "column"),
        )
        return source
    array = np.asarray(A)
    if array.ndim != 2:
        raise InvalidInputError(f"{name} must be two-dimensional, got shape {array.shape}")
    if array.dtype.kind == "O":
        array = numeric(array, "A" if name.startswith("the ") else f"{name}: A")
    return dense_source(
        name, array, row_names=read_names(row_names, "row"), column_names=read_names(column_names, "column")
    )


def plain_rows(rows: Any) -> NDArray[Any]:
    """A list of rows of plain numbers as an array."""
    for i, row in enumerate(rows):
        if np.shape(row) != np.shape(rows[0]):
            raise InvalidInputError(f"row {i} has {np.size(row)} numbers, row 0 has {np.size(rows[0])}")
    return np.asarray(rows)


def _array_readers(csr: sp.csr_array) -> Any:
    # SciPy allows room for more entries at the end than there are.
    return SliceReader(csr.indptr), SliceReader(csr.indices[: csr.nnz]), SliceReader(csr.data[: csr.nnz])


def _as_csr(A: Any, name: str = "the matrix") -> sp.csr_array:
    """``A`` as CSR, with duplicates left for :class:`Source` to add up (SciPy's sums would wrap in small types)."""
    check_sparse(A, name)
    check_extent(A.shape, A.nnz, name)
    csr = sp.csr_array(A)
    if A.format != "csr":  # lists of Python numbers, say, are checked as what they became
        check_sparse(csr, name)
    if A.format == "coo" and csr.nnz < A.nnz:
        return unsummed_csr(A.row, A.col, A.data, A.shape)
    return csr


def from_blocks(blocks: Iterable[Any], *, row_names: Any = None, column_names: Any = None) -> Source:
    """Any iterator of row blocks (arrays or sparse matrices of one width); it is consumed once.

    Blocks are copied as they come, so the iterator may use its buffer again.
    """
    iterator = (_as_block(block, index) for index, block in enumerate(blocks))
    first = next(iterator, None)
    if first is None:
        raise InvalidInputError("the iterator of row blocks is empty; at least one block is needed")
    pending = itertools.chain([first], iterator)

    def parts(max_bytes: int) -> Iterator[Any]:
        row = 0
        for index, block in enumerate(pending):
            block = source.fitted(block, f"row block {index} (at row {row})")
            for part in split(block, max_bytes // 2):
                yield part.copy()
            row += block.shape[0]

    source = Source(
        "the row blocks",
        (None, first.shape[1]),
        first.dtype,
        sp.issparse(first),
        lambda max_bytes: rebatch(parts(max_bytes), max_bytes),
        row_names=read_names(row_names, "row"),
        column_names=read_names(column_names, "column"),
    )
    return source


def _as_block(block: Any, index: int) -> Any:
    try:
        matrix = _as_csr(block, f"row block {index}") if sp.issparse(block) else np.asarray(block)
    except ValueError as error:
        raise InvalidInputError(f"row block {index} is not an array: {error}") from error
    if matrix.ndim != 2:
        raise InvalidInputError(f"row block {index} must be two-dimensional, got shape {matrix.shape}")
    return matrix


def read_npy(path: Path, *, row_names: Any = None, column_names: Any = None) -> Source:
    """A dense ``.npy`` array, memory-mapped anew for each block, so that pages read do not pile up."""
    if not isinstance(path, Path):
        return _remote_npy(path, read_names(row_names, "row"), read_names(column_names, "column"))
    array = map_npy(path)
    if array.ndim != 2:
        raise InvalidInputError(f"{path} must hold a two-dimensional array, got shape {array.shape}")
    (m, n), dtype, offset = array.shape, array.dtype, array.offset
    by_column = array.flags.f_contiguous and not array.flags.c_contiguous
    del array

    def blocks(max_bytes: int) -> Iterator[NDArray[Any]]:
        if by_column:
            with open(path, "rb") as file:
                yield from rows_of_columns(functools.partial(read_at, file, offset, dtype), (m, n), dtype, max_bytes)
            return
        for start, stop in row_slices(m, n * dtype.itemsize, max_bytes):
            yield np.array(map_npy(path)[start:stop])

    names = {"row_names": read_names(row_names, "row"), "column_names": read_names(column_names, "column")}
    return Source(str(path), (m, n), dtype, False, blocks, **names)


def _remote_npy(path: Any, row_names: Any, column_names: Any) -> Source:
    """The same from another file system, by a read for each block."""
    with reading(path), path.open("rb") as file:
        shape, by_column, dtype = _npy_header(file)
        offset = file.tell()
    if len(shape) != 2 or dtype.hasobject:
        raise InvalidInputError(f"{path} must hold a two-dimensional array of numbers, got {dtype} of shape {shape}")

    def blocks(max_bytes: int) -> Iterator[NDArray[Any]]:
        with path.open("rb") as file:
            if by_column:
                yield from rows_of_columns(functools.partial(read_at, file, offset, dtype), shape, dtype, max_bytes)
                return
            file.seek(offset)
            row_bytes = shape[1] * dtype.itemsize
            for start, stop in row_slices(shape[0], row_bytes, max_bytes):
                data = file.read((stop - start) * row_bytes)
                if len(data) < row_bytes:
                    return  # truncated, as the number of rows will show
                yield np.frombuffer(data[: len(data) // row_bytes * row_bytes], dtype).reshape(-1, shape[1])

    return Source(str(path), shape, dtype, False, blocks, row_names=row_names, column_names=column_names)


def map_npy(path: Path) -> Any:
    """The array of a ``.npy`` file, mapped into memory, or a StoreError that says what is wrong with the file."""
    with reading(path), path.open("rb") as file:
        shape, by_column, dtype = _npy_header(file)
        if dtype.hasobject:
            raise StoreError(f"{path} holds Python objects, not numbers")
        if 0 in shape:
            raise InvalidInputError(f"{path} is empty: shape {shape}; at least one row and one column are needed")
        offset, needed, size = file.tell(), math.prod(shape) * dtype.itemsize, path.stat().st_size
        if offset + needed > size:
            raise StoreError(f"{path} is truncated: its header gives the shape {shape}, {needed} bytes of {size}")
        return np.memmap(file, dtype, "r", offset, shape, "F" if by_column else "C")


def _npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether it lies column by column, and type of the array that follows."""
    version = np.lib.format.read_magic(file)
    header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = header(file)
    if any(size < 0 for size in shape):
        raise ValueError(f"its header gives the shape {shape}")
    return shape, fortran, dtype


def read_npz(path: Path, *, variable: str | None = None, row_names: Any = None, column_names: Any = None) -> Source:
    """``.npz`` of ``scipy.sparse.save_npz`` or of ``numpy.savez`` (``variable`` chooses among several arrays).

    Members are streamed out of the archive, compressed or not, so that memory stays bounded.
    """
    names = {"row_names": read_names(row_names, "row"), "column_names": read_names(column_names, "column")}
    name = str(path)
    members = _npz_members(path)
    if variable is None and {"format", "shape", "data"} <= members.keys():
        return _sparse_npz(path, members, names)
    candidates = [key for key in members if len(members[key][0]) == 2]
    if variable is not None and variable not in candidates:
        raise InvalidInputError(f"{name} has no two-dimensional array {variable!r}; it has {', '.join(candidates)}")
    if variable is None and len(candidates) != 1:
        raise InvalidInputError(f"{name}: choose one of its arrays with variable=…: {', '.join(candidates) or 'none'}")
    key = variable or candidates[0]
    (m, n), fortran, dtype = members[key]

    def blocks(max_bytes: int) -> Iterator[NDArray[Any]]:
        stream = _Member(path, key)
        if fortran:
            yield from spooled_columns(stream, (m, n), dtype, max_bytes)
            return
        for start, stop in row_slices(m, n * dtype.itemsize, max_bytes):
            piece = stream.read((stop - start) * n)
            yield piece[: piece.size // n * n].reshape(-1, n)

    return Source(name, (m, n), dtype, False, blocks, **names)


def _sparse_npz(path: Path, members: dict[str, Any], names: dict[str, Any]) -> Source:
    name = str(path)
    kind = np.ravel(_Member(path, "format").read(1))[0]
    kind = kind.decode() if isinstance(kind, bytes) else str(kind)
    shape = tuple(int(size) for size in _Member(path, "shape").read(2))
    dtype = members["data"][2]
    if kind in ("csr", "csc"):
        keys = ("indptr", "indices", "data")
    elif kind == "coo":
        keys = ("row", "col", "data") if "row" in members else ("coords", "coords", "data")
    else:  # bsr and dia are read whole: they have no order that could be streamed
        with reading(path):
            matrix = sp.load_npz(openable(path))
        return from_array(matrix, name=name, **names)
    if not set(keys) <= members.keys() or len(shape) != 2:
        raise StoreError(f"{name}: not a two-dimensional sparse matrix as scipy.sparse.save_npz writes it")

    entries = math.prod(members["data"][0])

    def readers() -> Any:
        first, second, third = (_Member(path, key) for key in keys)
        if keys[0] == "coords":  # one 2 × nnz array: the second reader starts half-way
            second.read(second.size // 2)
            first.size //= 2
        return first, second, third

    if kind == "coo":
        return coo_source(name, shape, dtype, readers, entries=entries, **names)
    return compressed_source(name, shape, dtype, readers, entries=entries, by_column=kind == "csc", **names)


def _npz_members(path: Path) -> dict[str, tuple[tuple[int, ...], bool, np.dtype[Any]]]:
    """Shape, order and type of every array in the archive."""
    with reading(path), zipfile.ZipFile(openable(path)) as archive:
        keys = [info.filename.removesuffix(".npy") for info in archive.infolist() if info.filename.endswith(".npy")]
    members = {}
    for key in keys:
        member = _Member(path, key)
        members[key] = (member.shape, member.fortran, member.dtype)
        member.close()
    return members


class _Member:
    """One array of an ``.npz`` archive, read from its beginning."""

    def __init__(self, path: Path, key: str) -> None:
        self.place = f"{path}, array {key!r}"
        with reading(self.place):
            self._archive = zipfile.ZipFile(openable(path))
            self._file: IO[bytes] = self._archive.open(f"{key}.npy")
            self.shape, self.fortran, self.dtype = _npy_header(self._file)
        if self.dtype.hasobject:
            raise StoreError(f"{self.place} holds Python objects, not numbers")
        self.size = math.prod(self.shape)
        if self.size * self.dtype.itemsize > self._archive.getinfo(f"{key}.npy").file_size:
            raise StoreError(f"{self.place} is truncated: its header gives the shape {self.shape}")

    def read(self, count: int) -> NDArray[Any]:
        count = min(count, self.size)
        if count == 0:
            return np.empty(0, self.dtype)
        with reading(self.place):
            data = self._file.read(count * self.dtype.itemsize)
        self.size -= count
        if self.size == 0:
            self.close()
        return np.frombuffer(data[: len(data) // self.dtype.itemsize * self.dtype.itemsize], dtype=self.dtype)

    def close(self) -> None:
        self._file.close()
        self._archive.close()


@contextlib.contextmanager
def spooled(stream: Any, size: int, dtype: Any, max_bytes: int) -> Iterator[Callable[[int, int], NDArray[Any]]]:
    """The ``size`` entries of a stream by way of a temporary file: ``read(first, count)`` gives them in any order."""
    with scratch_file() as file:
        left = size
        while left > 0:
            piece = stream.read(min(left, max(1, max_bytes // dtype.itemsize)))
            if piece.size == 0:
                break
            piece.astype(dtype, copy=False).tofile(file)
            left -= piece.size
        if left > 0:
            raise StoreError(f"{stream.place} is truncated: {left} of {size} entries are missing")
        if left < 0 or stream.read(1).size:
            raise StoreError(f"{stream.place} holds more than the {size} entries of its shape")
        yield functools.partial(read_at, file, 0, dtype)


def read_at(file: IO[bytes], offset: int, dtype: Any, first: int, count: int) -> NDArray[Any]:
    file.seek(offset + first * dtype.itemsize)
    return np.frombuffer(file.read(count * dtype.itemsize), dtype)


def spooled_columns(stream: Any, shape: tuple[int, int], dtype: Any, max_bytes: int) -> Iterator[NDArray[Any]]:
    """Row blocks of a stream that comes column by column, by way of a temporary file."""
    with spooled(stream, shape[0] * shape[1], dtype, max_bytes) as read:
        yield from rows_of_columns(read, shape, dtype, max_bytes)


def rows_of_columns(
    read: Callable[[int, int], NDArray[Any]], shape: tuple[int, int], dtype: Any, max_bytes: int
) -> Iterator[NDArray[Any]]:
    """Row blocks of an array that lies column by column, by a read per column and block."""
    m, n = shape
    for start, stop in row_slices(m, n * dtype.itemsize, max_bytes):
        block = np.empty((stop - start, n), dtype)
        for j in range(n):
            block[:, j] = read(j * m + start, stop - start)
        yield block
