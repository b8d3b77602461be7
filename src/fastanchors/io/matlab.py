"""Read MATLAB ``.mat`` files: matrices, sparse matrices and image cubes (rows × columns × bands), in structures too."""

from __future__ import annotations

import math
import weakref
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInputError
from .arrays import dense_source, rows_of_columns
from .chunked import by_chunks
from .compressed import SliceReader, compressed_source, coo_source
from .hdf5 import check_stored, kind_of, open_hdf5, text_name
from .mat5 import MatVariable, read_variables
from .row_source import Source, read_names, reading
from .scene import SceneInfo

__all__ = ["MatArray", "MatFile", "choose_variable", "is_wavelengths", "open_mat", "read_mat", "wavelengths_in"]

_HDF5 = (b"\x00\x02IM", b"\x02\x00MI")  # version 2 of the format, at the end of the header
_DEEPEST = 8  # limit of nested structures
_INTEGERS = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_NUMERIC = {"", "double", "single", "logical", *_INTEGERS}  # classes of MATLAB; other programs may write none
_WAVELENGTHS = ("wavelength", "wave", "wvl", "wl", "lambda")


def read_mat(
    path: Path,
    *,
    variable: str | None = None,
    transpose: bool = False,
    row_names: Any = None,
    column_names: Any = None,
) -> Source:
    """The largest numeric variable of a ``.mat`` file, or the one named ``variable`` (also ``structure.field``).

    A rows × columns × bands cube becomes pixels × bands, with pixels in MATLAB's column-major order; ``transpose=True``
    transposes a bands × pixels matrix. All versions are read in pieces, compressed ones through a temporary file.
    """
    names = {"row_names": read_names(row_names, "row"), "column_names": read_names(column_names, "column")}
    file = open_mat(path)
    with _closing(file.opened), reading(path):
        key = choose_variable({name: array.shape for name, array in file.arrays.items()}, variable, path)
        source = file.arrays[key].source(f"{path}:{key}", transpose, names)
        shape = file.arrays[key].shape
        if len(shape) == 3 and not transpose:
            source.scene = SceneInfo((shape[0], shape[1]), "F", *wavelengths_in(file, shape[2]))
    weakref.finalize(source, file.close)
    return source


def wavelengths_in(file: MatFile, bands: int) -> tuple[NDArray[np.float64] | None, str | None]:
    """Wavelengths and their unit, if a variable with a usual name has one per band."""
    units = next((text for name, text in file.texts.items() if _plain(name) in ("unit", "wavelengthunit")), None)
    for name, array in file.arrays.items():
        if is_wavelengths(name) and math.prod(array.shape) == bands:
            return array.whole().astype(np.float64).ravel(), units
    return None, None


def is_wavelengths(name: str) -> bool:
    """Whether a variable has a usual name of wavelengths."""
    return _plain(name) in _WAVELENGTHS


def _plain(name: str) -> str:
    """The last part of a name in lower case, without underscores and a plural s."""
    return name.rpartition(".")[2].lower().replace("_", "").removesuffix("s")


def choose_variable(sizes: dict[str, tuple[int, ...]], variable: str | None, path: Path) -> str:
    """The requested variable, or the one with the most entries; raises if that is not unique."""
    fitting = {key: math.prod(shape) for key, shape in sizes.items() if len(shape) in (2, 3) and min(shape) > 0}
    if not fitting:
        raise InvalidInputError(f"{path} has no matrix or cube of real numbers")
    listed = ", ".join(f"{key} {'×'.join(map(str, sizes[key]))}" for key in fitting)
    if variable is not None:
        if variable not in fitting:
            raise InvalidInputError(f"{path} has no matrix or cube {variable!r}; it has: {listed}")
        return variable
    largest = [key for key in fitting if fitting[key] == max(fitting.values())]
    largest = [key for key in largest if "." not in key] or largest  # prefer variables to fields of structures
    if len(largest) != 1:
        raise InvalidInputError(f"{path}: choose a variable with variable=…; it has: {listed}")
    return largest[0]


class MatArray(ABC):
    """A numeric variable of a ``.mat`` file of any version.

    Attributes
    ----------
    shape
        Shape in MATLAB's order of axes.
    """

    shape: tuple[int, ...]

    @abstractmethod
    def whole(self) -> NDArray[Any]:
        """All numbers, in memory."""

    @abstractmethod
    def source(self, name: str, transpose: bool, names: dict[str, Any]) -> Source:
        """The rows; for a cube the pixels, down the columns of the image."""


@dataclass
class MatFile:
    """An open file: its numeric variables and its texts by name; fields of structures as ``structure.field``."""

    arrays: dict[str, MatArray]
    texts: dict[str, str]
    opened: list[Any]

    def close(self) -> None:
        """Close the file and its temporary files."""
        for file in self.opened:
            file.close()

    def __enter__(self) -> MatFile:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def open_mat(path: Path) -> MatFile:
    """The variables of a ``.mat`` file of any version."""
    with reading(path), path.open("rb") as file:
        head = file.read(128)
    if head.startswith(b"\x89HDF") or head[124:] in _HDF5 or b"MATLAB 7.3" in head:
        stored = open_hdf5(path)
        with _closing([stored]), reading(path):
            return _from_hdf5(path, stored)
    opened: list[IO[bytes]] = []
    with _closing(opened), reading(path):
        opened.append(path.open("rb"))
        found = read_variables(path, opened[0], opened)
        arrays: dict[str, MatArray] = {
            name: _Stored(each) for name, each in found.items() if each.kind in ("numbers", "sparse", "triplets")
        }
        texts = {name: each.text() for name, each in found.items() if each.kind == "text" and each.shape[0] == 1}
        return MatFile(arrays, texts, opened)


class _closing:
    """Context manager that closes files, but only after an exception."""

    def __init__(self, opened: list[Any]) -> None:
        self.opened = opened

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is not None:
            for file in self.opened:
                file.close()


class _Stored(MatArray):
    """A variable of a file of version 4 to 7, stored column by column."""

    def __init__(self, variable: MatVariable) -> None:
        self.variable, self.shape = variable, variable.shape

    def whole(self) -> NDArray[Any]:
        if self.variable.kind == "numbers":
            return self.variable.array()
        source = self.source(self.variable.name, False, {})
        return np.concatenate([block.toarray() for block in source.blocks()])

    def source(self, name: str, transpose: bool, names: dict[str, Any]) -> Source:
        variable = self.variable
        if variable.kind == "sparse":
            m, n = self.shape
            assert variable.values is not None
            return compressed_source(
                name,
                (n, m) if transpose else (m, n),
                variable.dtype,
                variable.readers,
                entries=variable.values.size,
                by_column=not transpose,
                **names,
            )
        if variable.kind == "triplets":
            return self._triplets(name, transpose, names)
        rows, columns = math.prod(self.shape[:-1]), self.shape[-1]  # a cube has the same layout as pixels × bands
        assert variable.values is not None
        if transpose:
            return dense_source(name, _ByColumn(variable, (columns, rows)), **names)
        read = partial(rows_of_columns, variable.values.take, (rows, columns), variable.dtype)
        return Source(name, (rows, columns), variable.dtype, False, read, **names)

    def _triplets(self, name: str, transpose: bool, names: dict[str, Any]) -> Source:
        variable = self.variable
        assert variable.values is not None

        def readers() -> tuple[SliceReader, SliceReader, SliceReader]:
            rows, columns, values = variable.triplet_readers()
            return (columns, rows, values) if transpose else (rows, columns, values)

        shape = (self.shape[1], self.shape[0]) if transpose else (self.shape[0], self.shape[1])
        return coo_source(name, shape, variable.dtype, readers, entries=variable.values.size, **names)


class _ByColumn:
    """The transpose of a column-major array, sliced by rows."""

    def __init__(self, variable: MatVariable, shape: tuple[int, int]) -> None:
        self.values, self.shape, self.dtype = variable.values, shape, variable.dtype

    def __getitem__(self, index: slice) -> NDArray[Any]:
        start, stop, _ = index.indices(self.shape[0])
        width = self.shape[1]
        assert self.values is not None
        return self.values.take(start * width, (stop - start) * width).reshape(-1, width)


# --- version 7.3: HDF5 -----------------------------------------------------------------------------------------------


def _from_hdf5(path: Path, file: Any) -> MatFile:
    arrays: dict[str, MatArray] = {}
    texts: dict[str, str] = {}
    _collect(file, "", arrays, texts, 0)
    return MatFile(arrays, texts, [file])


def _collect(group: Any, prefix: str, arrays: dict[str, MatArray], texts: dict[str, str], depth: int) -> None:
    """All numeric data sets and sparse groups, those of structures as ``structure.field``."""
    for key, item in ((text_name(key), item) for key, item in group.items()):
        name = f"{prefix}{key}"
        if key.startswith("#") or item is None:
            continue
        if "MATLAB_sparse" in item.attrs:
            arrays[name] = _SparseGroup(item)
        elif hasattr(item, "keys"):
            if depth < _DEEPEST:
                _collect(item, f"{name}.", arrays, texts, depth + 1)
        elif _class_of(item) == "char":
            if kind_of(item) == "u" and 0 < item.size <= 4096:
                texts[name] = "".join(chr(code) for code in np.ravel(item[()]).tolist() if 0 < code < 0xD800)
        elif "MATLAB_empty" in item.attrs:  # its numbers are its shape
            continue
        elif kind_of(item) in ("i", "u", "f", "b") and _class_of(item) in _NUMERIC:
            arrays[name] = _DataSet(item)


def _class_of(item: Any) -> str:
    kind = item.attrs.get("MATLAB_class", b"")
    return kind.decode("latin-1") if isinstance(kind, bytes) else str(kind)


class _DataSet(MatArray):
    """A data set; MATLAB writes column-major, so HDF5 shows every shape reversed."""

    def __init__(self, item: Any) -> None:
        self.item, self.shape = item, tuple(int(size) for size in item.shape[::-1])

    def whole(self) -> NDArray[Any]:
        check_stored(str(self.item.name), self.item)
        return np.asarray(self.item[()]).T

    def source(self, name: str, transpose: bool, names: dict[str, Any]) -> Source:
        check_stored(name, self.item)
        if self.item.ndim == 3:
            view: Any = _Pixels(by_chunks(self.item, 0 if transpose else 1))
            view = _Transposed(view) if transpose else view
        else:
            view = by_chunks(self.item) if transpose else _Transposed(by_chunks(self.item, 1))
        return dense_source(name, view, **names)


class _SparseGroup(MatArray):
    """A sparse matrix, stored by columns (jc, ir, data); an empty one has no ir and no data."""

    def __init__(self, group: Any) -> None:
        self.group = group
        jc = group.get("jc")
        if not hasattr(jc, "size") or jc.ndim != 1 or jc.size < 2:
            raise ValueError(f"the sparse matrix {group.name!r} has no pointers")
        self.shape = (int(group.attrs["MATLAB_sparse"]), int(jc.size) - 1)

    def whole(self) -> NDArray[Any]:
        return np.concatenate([block.toarray() for block in self.source(str(self.group.name), False, {}).blocks()])

    def source(self, name: str, transpose: bool, names: dict[str, Any]) -> Source:
        check_stored(name, self.group)
        if "data" in self.group:
            data, rows = self.group["data"], self.group["ir"]
        else:
            data, rows = np.empty(0), np.empty(0, np.int64)
        m, n = self.shape
        return compressed_source(
            name,
            (n, m) if transpose else (m, n),
            data.dtype,
            lambda: (SliceReader(self.group["jc"]), SliceReader(rows), SliceReader(data)),
            entries=int(data.size),
            by_column=not transpose,
            **names,
        )


class _Transposed:
    """The transpose of a two-dimensional data set, sliced by rows without reading all of it."""

    def __init__(self, data: Any) -> None:
        self.data, self.shape, self.dtype = data, data.shape[::-1], data.dtype

    def __getitem__(self, rows: slice) -> Any:
        return self.data[:, rows].T


class _Pixels:
    """A bands × columns × rows data set as pixels × bands; pixels run down the columns of the image."""

    def __init__(self, data: Any) -> None:
        bands, self.columns, self.rows = data.shape
        self.data, self.shape, self.dtype = data, (self.columns * self.rows, bands), data.dtype

    def __getitem__(self, index: Any) -> Any:
        rows, bands = index if isinstance(index, tuple) else (index, slice(None))
        start, stop, _ = rows.indices(self.shape[0])
        first, last = start // self.rows, -(-stop // self.rows)
        if last - first == 1:  # a column may be longer than a block
            return self.data[bands, first:last, start - first * self.rows : stop - first * self.rows][:, 0].T
        part = self.data[bands, first:last, :]
        return part.reshape(part.shape[0], -1)[:, start - first * self.rows : stop - first * self.rows].T
