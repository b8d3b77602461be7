"""MATLAB ``.mat`` files: matrices, sparse matrices, and rows × columns × bands cubes of images."""

from __future__ import annotations

import math
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..errors import InvalidInputError
from .arrays import dense_source, from_array
from .compressed import SliceReader, compressed_source
from .hdf5 import check_stored, open_hdf5
from .row_source import Source, read_names, reading

__all__ = ["choose_variable", "read_mat"]


def read_mat(
    path: Path,
    *,
    variable: str | None = None,
    transpose: bool = False,
    row_names: Any = None,
    column_names: Any = None,
) -> Source:
    """The largest numeric variable of a ``.mat`` file, or the one that ``variable`` names.

    A rows × columns × bands cube becomes pixels × bands, pixels in MATLAB's (column-major) order; ``transpose=True``
    turns a bands × pixels matrix. Version 5 files are read whole into memory, version 7.3 (HDF5) in pieces.
    """
    with open(path, "rb") as file:
        head = file.read(128)
    names = {"row_names": read_names(row_names, "row"), "column_names": read_names(column_names, "column")}
    if head.startswith(b"\x89HDF") or b"MATLAB 7.3" in head:
        return _read_hdf5(path, variable, transpose, names)
    from scipy.io.matlab import loadmat, whosmat

    with reading(path):
        sizes = {key: shape for key, shape, kind in whosmat(path) if kind not in ("cell", "struct", "char", "object")}
        key = choose_variable(sizes, variable, path)
        value = loadmat(path, variable_names=[key])[key]
    if not sp.issparse(value) and value.ndim == 3:
        value = value.reshape(-1, value.shape[2], order="F")
    return from_array(value.T if transpose else value, name=f"{path}:{key}", **names)


def choose_variable(sizes: dict[str, tuple[int, ...]], variable: str | None, path: Path) -> str:
    """The variable asked for, or the only one with the most entries."""
    fitting = {key: math.prod(shape) for key, shape in sizes.items() if len(shape) in (2, 3) and min(shape) > 0}
    listed = ", ".join(f"{key} {'×'.join(map(str, sizes[key]))}" for key in fitting) or "none"
    if variable is not None:
        if variable not in fitting:
            raise InvalidInputError(f"{path} has no matrix or cube {variable!r}; it has: {listed}")
        return variable
    largest = [key for key in fitting if fitting[key] == max(fitting.values())]
    if len(largest) != 1:
        raise InvalidInputError(f"{path}: choose a variable with variable=…; it has: {listed}")
    return largest[0]


def _read_hdf5(path: Path, variable: str | None, transpose: bool, names: dict[str, Any]) -> Source:
    file = open_hdf5(path)
    with reading(path):
        source = _choose_hdf5(path, file, variable, transpose, names)
    weakref.finalize(source, file.close)
    return source


def _choose_hdf5(path: Path, file: Any, variable: str | None, transpose: bool, names: dict[str, Any]) -> Source:
    arrays = {key: item for key, item in file.items() if hasattr(item, "dtype") and _is_numeric(item)}
    sparse = {key: item for key, item in file.items() if "MATLAB_sparse" in item.attrs}
    # MATLAB writes column-major, so HDF5 shows every shape reversed.
    sizes = {key: item.shape[::-1] for key, item in arrays.items()}
    sizes |= {key: (int(item.attrs["MATLAB_sparse"]), item["jc"].size - 1) for key, item in sparse.items()}
    key = choose_variable(sizes, variable, path)
    check_stored(f"{path}:{key}", file[key])
    if key in sparse:
        return _sparse_source(f"{path}:{key}", sparse[key], sizes[key], transpose, names)
    item = arrays[key]
    if item.ndim == 3:
        view: Any = _Pixels(item)
        view = _Turned(view) if transpose else view
    else:
        view = item if transpose else _Turned(item)
    return dense_source(f"{path}:{key}", view, **names)


def _is_numeric(item: Any) -> bool:
    """Whether a data set holds numbers; text is kept as numbers too, and so marked."""
    kind = item.attrs.get("MATLAB_class", b"")
    kind = kind.decode() if isinstance(kind, bytes) else str(kind)
    return item.dtype.kind in "iufb" and kind not in ("char", "cell", "string")


def _sparse_source(name: str, group: Any, shape: tuple[int, ...], transpose: bool, names: dict[str, Any]) -> Source:
    """A sparse matrix, kept by columns (jc, ir, data); an empty one has no ir and no data."""
    if "data" in group:
        data, rows = group["data"], group["ir"]
    else:
        data, rows = np.empty(0), np.empty(0, np.int64)
    m, n = shape
    return compressed_source(
        name,
        (n, m) if transpose else (m, n),
        data.dtype,
        lambda: (SliceReader(group["jc"]), SliceReader(rows), SliceReader(data)),
        entries=int(data.size),
        by_column=not transpose,
        **names,
    )


class _Turned:
    """The transpose of a two-dimensional data set, sliced by rows without reading it whole."""

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
        part = self.data[bands, first:last, :]
        return part.reshape(part.shape[0], -1)[:, start - first * self.rows : stop - first * self.rows].T
