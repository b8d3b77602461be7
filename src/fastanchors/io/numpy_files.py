"""Read NumPy files: ``.npy`` (mapped) and ``.npz`` (streamed), dense and sparse."""

from __future__ import annotations

import functools
import math
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..errors import InvalidInputError, StoreError
from .addresses import openable
from .arrays import from_array, read_at, rows_of_columns, spooled_columns
from .compressed import compressed_source, coo_source
from .row_source import Source, read_names, reading, row_slices
from .scene import cube_source
from .scratch import scratch_file

__all__ = ["NpzFile", "map_npy", "read_npy", "read_npz"]

_PYDATA = {"coords", "data", "shape", "fill_value"}  # as sparse.save_npz names its arrays
_COPIED = 1 << 24  # bytes of an array copied at a time


def read_npy(path: Path, *, bands: str | None = None, row_names: Any = None, column_names: Any = None) -> Source:
    """A dense ``.npy`` array, mapped again for each block, so that the memory of mapped pages is bounded.

    ``bands`` is the band axis of a cube, ``"first"``, ``"middle"`` or ``"last"``; its rows are then pixels.
    """
    if bands is not None:
        return cube_source(str(path), lambda: map_npy(path), bands, row_names, column_names)
    if not isinstance(path, Path):
        return _remote_npy(path, read_names(row_names, "row"), read_names(column_names, "column"))
    array = map_npy(path)
    if array.ndim != 2:
        hint = "; for a cube, pass the band axis: bands='last'" if array.ndim == 3 else ""
        raise InvalidInputError(f"{path} must hold a two-dimensional array, got shape {array.shape}{hint}")
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
    """A ``.npy`` array on another file system, with one read per block."""
    with reading(path), path.open("rb") as file:
        shape, by_column, dtype = npy_header(file)
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
                    return  # truncated; Source.blocks raises for the missing rows
                yield np.frombuffer(data[: len(data) // row_bytes * row_bytes], dtype).reshape(-1, shape[1])

    return Source(str(path), shape, dtype, False, blocks, row_names=row_names, column_names=column_names)


def map_npy(path: Path) -> Any:
    """The array of a ``.npy`` file, mapped into memory; raises a StoreError if the file is damaged."""
    with reading(path), path.open("rb") as file:
        shape, by_column, dtype = npy_header(file)
        if dtype.hasobject:
            raise StoreError(f"{path} holds Python objects, not numbers")
        if 0 in shape:
            raise InvalidInputError(f"{path} is empty: shape {shape}; at least one row and one column are needed")
        offset, needed, size = file.tell(), math.prod(shape) * dtype.itemsize, path.stat().st_size
        if offset + needed > size:
            raise StoreError(f"{path} is truncated: its header gives the shape {shape}, {needed} bytes of {size}")
        return np.memmap(file, dtype, "r", offset, shape, "F" if by_column else "C")


def npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether it is column-major, and type of the array that follows."""
    version = np.lib.format.read_magic(file)
    header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = header(file)
    if any(size < 0 for size in shape):
        raise ValueError(f"its header gives the shape {shape}")
    return shape, fortran, dtype


def read_npz(
    path: Path,
    *,
    variable: str | None = None,
    bands: str | None = None,
    row_names: Any = None,
    column_names: Any = None,
) -> Source:
    """``.npz`` of ``scipy.sparse.save_npz`` or of ``numpy.savez`` (``variable`` chooses among several arrays).

    Arrays are streamed from the archive, compressed or not, so that memory is bounded. ``bands`` is the band axis of a
    cube, ``"first"``, ``"middle"`` or ``"last"``; its rows are then pixels.
    """
    if bands is not None:
        return _npz_cube(path, variable, bands, row_names, column_names)
    names = {"row_names": read_names(row_names, "row"), "column_names": read_names(column_names, "column")}
    name = str(path)
    members = _npz_members(path)
    if variable is None and {"format", "shape", "data"} <= members.keys():
        return _sparse_npz(path, members, names)
    if variable is None and members.keys() >= _PYDATA:
        cure = "write array.to_scipy_sparse() with scipy.sparse.save_npz"
        raise InvalidInputError(f"{name} holds a sparse array of the package sparse; {cure}")
    tables = [key for key in members if len(members[key][0]) == 2]
    candidates = [key for key in tables if not members[key][2].hasobject]
    if variable in set(tables) - set(candidates) or (variable is None and tables and not candidates):
        raise StoreError(f"{name}, array {variable or tables[0]!r} holds Python objects, not numbers")
    if variable is not None and variable not in candidates:
        raise InvalidInputError(f"{name} has no two-dimensional array {variable!r}; it has {', '.join(candidates)}")
    if variable is None and len(candidates) != 1:
        if {"topics", "mixtures"} <= set(candidates):
            cure = "use it with fastanchors encode DOCUMENTS MODEL, or read it with fa.apps.load_topics"
            raise InvalidInputError(f"{name} is a saved topic model: {cure}; or choose an array with variable=…")
        if candidates:
            raise InvalidInputError(f"{name}: choose one of its arrays with variable=…: {', '.join(candidates)}")
        cubes = any(len(shape) == 3 for shape, *_ in members.values())
        hint = "; for a cube, pass the band axis: bands='last'" if cubes else ""
        raise InvalidInputError(f"{name} holds no two-dimensional array{hint}")
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


class NpzFile:
    """The numeric arrays of an ``.npz`` file: their shapes, and each of them on demand."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.shapes = {key: shape for key, (shape, _, dtype) in _npz_members(path).items() if dtype.kind in "iufb"}

    @property
    def has_arrays(self) -> bool:
        """Whether any of them has two or three axes."""
        return any(len(shape) in (2, 3) for shape in self.shapes.values())

    def whole(self, key: str) -> NDArray[Any]:
        """An array in memory, for small ones."""
        member = _Member(self.path, key)
        return member.read(member.size).reshape(member.shape, order="F" if member.fortran else "C")

    def mapped(self, key: str) -> NDArray[Any]:
        """An array, copied to a temporary file and mapped from there."""
        member = _Member(self.path, key)
        with scratch_file() as file:
            while member.size:
                file.write(member.read(max(1, _COPIED // member.dtype.itemsize)).tobytes())
            file.flush()
            with reading(member.place):
                return np.memmap(file, member.dtype, "r", 0, member.shape, "F" if member.fortran else "C")


def _npz_cube(path: Path, variable: str | None, bands: str, row_names: Any, column_names: Any) -> Source:
    file = NpzFile(path)
    cubes = [key for key, shape in file.shapes.items() if len(shape) == 3 and min(shape) > 0]
    if variable not in cubes and (variable is not None or len(cubes) != 1):
        raise InvalidInputError(f"{path}: choose one of its cubes with variable=…: {', '.join(cubes) or 'none'}")
    cube = file.mapped(variable or cubes[0])
    return cube_source(str(path), lambda: cube, bands, row_names, column_names)


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
    else:  # bsr and dia cannot be streamed by rows
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
    """Shape, order and type of every array in the archive; those that hold Python objects are refused when read."""
    with reading(path), zipfile.ZipFile(openable(path)) as archive:
        keys = [info.filename.removesuffix(".npy") for info in archive.infolist() if info.filename.endswith(".npy")]
    members = {}
    for key in keys:
        member = _Member(path, key)
        members[key] = (member.shape, member.fortran, member.dtype)
        member.close()
    return members


class _Member:
    """One array of an ``.npz`` archive, read sequentially."""

    def __init__(self, path: Path, key: str) -> None:
        self.place = f"{path}, array {key!r}"
        with reading(self.place):
            self._archive = zipfile.ZipFile(openable(path))
            self._file: IO[bytes] = self._archive.open(f"{key}.npy")
            self.shape, self.fortran, self.dtype = npy_header(self._file)
        self.size = math.prod(self.shape)
        if not self.dtype.hasobject and self.size * self.dtype.itemsize > self._archive.getinfo(f"{key}.npy").file_size:
            raise StoreError(f"{self.place} is truncated: its header gives the shape {self.shape}")

    def read(self, count: int) -> NDArray[Any]:
        if self.dtype.hasobject:
            raise StoreError(f"{self.place} holds Python objects, not numbers")
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
