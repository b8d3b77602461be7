"""Arrays and sparse matrices in memory, iterators of row blocks, ``.npy`` (mapped) and ``.npz`` (streamed)."""

from __future__ import annotations

import itertools
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..errors import InvalidInputError, InvalidTypeError, StoreError
from .compressed import SliceReader, compressed_source, coo_source
from .remote import openable
from .source import Source, read_names, rebatch, row_slices, split
from .triplets import unsummed_csr

__all__ = ["dense_source", "from_array", "from_blocks", "plain_rows", "read_npy", "read_npz"]


def dense_source(name: str, array: Any, *, chunk_rows: int = 1, **names: Any) -> Source:
    """Rows of anything two-dimensional that can be sliced; slices are multiples of ``chunk_rows`` where they can be."""
    m, n = (int(size) for size in array.shape)

    def blocks(max_bytes: int) -> Iterator[NDArray[Any]]:
        row_bytes = n * array.dtype.itemsize
        step = max(1, max_bytes // row_bytes)
        step = step // chunk_rows * chunk_rows or step
        for start, stop in row_slices(m, 1, step):
            yield np.asarray(array[start:stop])

    return Source(name, (m, n), array.dtype, False, blocks, **names)


def from_array(A: Any, *, row_names: Any = None, column_names: Any = None, name: str = "the matrix") -> Source:
    """A NumPy array or a SciPy sparse matrix (kept sparse)."""
    if sp.issparse(A):
        csr = _as_csr(A)
        source = compressed_source(
            name,
            csr.shape,
            csr.data.dtype,
            lambda: _array_readers(csr),
            row_names=read_names(row_names, "row"),
            column_names=read_names(column_names, "column"),
        )
        return source
    array = np.asarray(A)
    if array.ndim != 2:
        raise InvalidInputError(f"{name} must be two-dimensional, got shape {array.shape}")
    if array.dtype.kind == "O":
        raise InvalidTypeError(f"{name} must hold real numbers, got dtype object")
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
    return SliceReader(csr.indptr), SliceReader(csr.indices), SliceReader(csr.data)


def _as_csr(A: Any) -> sp.csr_array:
    """``A`` as CSR, with duplicates left for :class:`Source` to add up (SciPy's sums would wrap in small types)."""
    csr = sp.csr_array(A)
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
        matrix = _as_csr(block) if sp.issparse(block) else np.asarray(block)
    except ValueError as error:
        raise InvalidInputError(f"row block {index} is not an array: {error}") from error
    if matrix.ndim != 2:
        raise InvalidInputError(f"row block {index} must be two-dimensional, got shape {matrix.shape}")
    return matrix


def read_npy(path: Path, *, row_names: Any = None, column_names: Any = None) -> Source:
    """A dense ``.npy`` array, memory-mapped anew for each block, so that pages read do not pile up."""
    if not isinstance(path, Path):
        return _remote_npy(path, read_names(row_names, "row"), read_names(column_names, "column"))
    array = _mapped(path)
    if array.ndim != 2:
        raise InvalidInputError(f"{path} must hold a two-dimensional array, got shape {array.shape}")
    (m, n), dtype, offset = array.shape, array.dtype, array.offset
    by_column = array.flags.f_contiguous and not array.flags.c_contiguous
    del array

    def blocks(max_bytes: int) -> Iterator[NDArray[Any]]:
        if by_column:
            with open(path, "rb") as file:
                yield from _rows_of_columns(file, offset, (m, n), dtype, max_bytes)
            return
        for start, stop in row_slices(m, n * dtype.itemsize, max_bytes):
            yield np.array(_mapped(path)[start:stop])

    names = {"row_names": read_names(row_names, "row"), "column_names": read_names(column_names, "column")}
    return Source(str(path), (m, n), dtype, False, blocks, **names)


def _remote_npy(path: Any, row_names: Any, column_names: Any) -> Source:
    """The same from another file system, by a read for each block."""
    try:
        with path.open("rb") as file:
            version = np.lib.format.read_magic(file)
            header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, by_column, dtype = header(file)
            offset = file.tell()
    except (ValueError, EOFError, OSError) as error:
        raise StoreError(f"cannot read {path}: {error}") from error
    if len(shape) != 2 or dtype.hasobject:
        raise InvalidInputError(f"{path} must hold a two-dimensional array of numbers, got {dtype} of shape {shape}")

    def blocks(max_bytes: int) -> Iterator[NDArray[Any]]:
        with path.open("rb") as file:
            if by_column:
                yield from _rows_of_columns(file, offset, shape, dtype, max_bytes)
                return
            file.seek(offset)
            row_bytes = shape[1] * dtype.itemsize
            for start, stop in row_slices(shape[0], row_bytes, max_bytes):
                data = file.read((stop - start) * row_bytes)
                yield np.frombuffer(data[: len(data) // row_bytes * row_bytes], dtype).reshape(-1, shape[1])

    return Source(str(path), shape, dtype, False, blocks, row_names=row_names, column_names=column_names)


def _mapped(path: Path) -> Any:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise StoreError(f"cannot read {path}: {error}") from error


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
            yield from _spooled_columns(stream, (m, n), dtype, max_bytes)
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
        return from_array(sp.load_npz(openable(path)), name=name, **names)
    if not set(keys) <= members.keys() or len(shape) != 2:
        raise StoreError(f"{name}: not a two-dimensional sparse matrix as scipy.sparse.save_npz writes it")

    def readers() -> Any:
        first, second, third = (_Member(path, key) for key in keys)
        if keys[0] == "coords":  # one 2 × nnz array: the second reader starts half-way
            second.read(second.size // 2)
            first.size //= 2
        return first, second, third

    if kind == "coo":
        return coo_source(name, shape, dtype, readers, **names)
    return compressed_source(name, shape, dtype, readers, by_column=kind == "csc", **names)


def _npz_members(path: Path) -> dict[str, tuple[tuple[int, ...], bool, np.dtype[Any]]]:
    """Shape, order and type of every array in the archive."""
    try:
        with zipfile.ZipFile(openable(path)) as archive:
            keys = [info.filename.removesuffix(".npy") for info in archive.infolist()]
    except (OSError, zipfile.BadZipFile) as error:
        raise StoreError(f"cannot read {path}: {error}") from error
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
        try:
            self._archive = zipfile.ZipFile(openable(path))
            self._file: IO[bytes] = self._archive.open(f"{key}.npy")
            version = np.lib.format.read_magic(self._file)
            header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            self.shape, self.fortran, self.dtype = header(self._file)
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise StoreError(f"cannot read {self.place}: {error}") from error
        if self.dtype.hasobject:
            raise StoreError(f"{self.place} holds Python objects, not numbers")
        self.size = int(np.prod(self.shape, dtype=np.int64))

    def read(self, count: int) -> NDArray[Any]:
        count = min(count, self.size)
        if count == 0:
            return np.empty(0, self.dtype)
        try:
            data = self._file.read(count * self.dtype.itemsize)
        except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise StoreError(f"cannot read {self.place}: {error}") from error
        self.size -= count
        if self.size == 0:
            self.close()
        return np.frombuffer(data[: len(data) // self.dtype.itemsize * self.dtype.itemsize], dtype=self.dtype)

    def close(self) -> None:
        self._file.close()
        self._archive.close()


def _spooled_columns(stream: Any, shape: tuple[int, int], dtype: Any, max_bytes: int) -> Iterator[NDArray[Any]]:
    """Row blocks of a stream that comes column by column, by way of a temporary file."""
    m, n = shape
    with tempfile.TemporaryFile(prefix="fastanchors-") as spool:
        left = m * n
        while left:
            piece = stream.read(min(left, max(1, max_bytes // dtype.itemsize)))
            if piece.size == 0:
                break
            piece.astype(dtype, copy=False).tofile(spool)
            left -= piece.size
        spool.flush()
        if left:
            raise StoreError(f"{stream.place} is truncated: {left} of {m * n} entries are missing")
        yield from _rows_of_columns(spool, 0, shape, dtype, max_bytes)


def _rows_of_columns(
    file: IO[bytes], offset: int, shape: tuple[int, int], dtype: Any, max_bytes: int
) -> Iterator[NDArray[Any]]:
    """Row blocks of an array that lies in a file column by column, by a read per column and block."""
    m, n = shape
    for start, stop in row_slices(m, n * dtype.itemsize, max_bytes):
        block = np.empty((stop - start, n), dtype)
        for j in range(n):
            file.seek(offset + (j * m + start) * dtype.itemsize)
            block[:, j] = np.frombuffer(file.read((stop - start) * dtype.itemsize), dtype)
        yield block
