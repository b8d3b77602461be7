"""Read HDF5: AnnData ``.h5ad`` in chunks (CSR, CSC or dense); also opens MATLAB 7.3 files for :mod:`.matlab`."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._validate import name_list
from ..errors import InvalidInputError, MissingExtraError, StoreError
from .arrays import dense_source
from .chunked import by_chunks
from .compressed import SliceReader, compressed_source
from .name_spool import NameSpool
from .row_source import Source, check_claim, read_names, reading, row_slices

__all__ = ["anndata_source", "check_stored", "holds_anndata", "kind_of", "open_hdf5", "read_h5ad", "text_name"]

_CACHE = 1 << 20  # bytes of cached chunks per data set; blocks are read in order, so more would not help
_NAMES = 1 << 14  # names that are objects of Python together
_LabelReader = Callable[[slice], NDArray[Any]]


def open_hdf5(path: Path) -> Any:
    """Open the file for reading."""
    try:
        import h5py
    except ImportError as error:
        raise MissingExtraError(f"reading {path.suffix} needs h5py: pip install 'fastanchors[io]'") from error
    with reading(path):
        return h5py.File(path, "r", rdcc_nbytes=_CACHE)


def text_name(name: str | bytes) -> str:
    """The name of an item as text: h5py gives bytes if it is not UTF-8, as some programs in C and Fortran write it."""
    return name.decode("latin-1") if isinstance(name, bytes) else name


def kind_of(item: Any) -> str:
    """The kind of the entries of a data set, as NumPy's ``dtype.kind``; empty for what holds no numbers.

    That is a group, a named type, such as those of flags in netCDF, a data set without a shape or of a type that NumPy
    lacks, categories (enumerations), and bit fields.
    """
    import h5py

    if getattr(item, "shape", None) is None or isinstance(item.id.get_type(), h5py.h5t.TypeBitfieldID):
        return ""
    try:
        dtype = item.dtype
    except (TypeError, ValueError):
        return ""
    return "" if h5py.check_enum_dtype(dtype) is not None else str(dtype.kind)


def holds_anndata(path: Path) -> bool:
    """Whether an HDF5 file has the groups of AnnData; otherwise it may be a scene or a table."""
    with open_hdf5(path) as file, reading(path):
        return any(key in file for key in ("X", "obs", "var"))


def read_h5ad(path: Path, *, layer: str | None = None, row_names: Any = None, column_names: Any = None) -> Source:
    """The matrix X of an AnnData file (or one of its ``layers``), with the names of observations and variables."""
    file = open_hdf5(path)
    with reading(path):
        source = anndata_source(path, file, layer, row_names, column_names, check_stored)
    weakref.finalize(source, file.close)
    return source


def anndata_source(
    path: Path,
    file: Any,
    layer: str | None,
    row_names: Any,
    column_names: Any,
    check: Callable[[str, Any], None],
) -> Source:
    """X, or a layer, of AnnData in an HDF5 file or a Zarr group; ``check`` raises if a claimed size is implausible."""
    key = "X" if layer is None else f"layers/{layer}"
    if key not in file:
        layers = ", ".join(file["layers"]) if "layers" in file else ""
        raise InvalidInputError(f"{path} has no {key}; its layers are: {layers or 'none'}")
    matrix = file[key]
    check(str(path), matrix)
    kind, shape = _kind_and_shape(matrix)
    if kind not in ("dense", "csr", "csc") or shape is None or len(shape) != 2:
        raise StoreError(f"{path}: {key} is neither an array nor a CSR or CSC matrix")
    m, n = (int(size) for size in shape)
    names = {
        "row_names": read_names(row_names, "row") if row_names is not None else _names(path, file, "obs", m, check),
        "column_names": read_names(column_names, "column")
        if column_names is not None
        else _names(path, file, "var", n, check),
    }
    if kind == "dense":
        return dense_source(str(path), by_chunks(matrix), chunk_rows=(matrix.chunks or (1,))[0], **names)
    return compressed_source(
        str(path),
        (m, n),
        matrix["data"].dtype,
        lambda: (SliceReader(matrix["indptr"]), SliceReader(matrix["indices"]), SliceReader(matrix["data"])),
        entries=int(matrix["data"].size),
        by_column=kind == "csc",
        **names,
    )


def _kind_and_shape(matrix: Any) -> tuple[str, Any]:
    if not hasattr(matrix, "keys"):
        return "dense", matrix.shape
    kind = str(matrix.attrs.get("encoding-type", matrix.attrs.get("h5sparse_format", "")))[:3]
    return kind, matrix.attrs.get("shape", matrix.attrs.get("h5sparse_shape"))


def check_stored(name: str, item: Any) -> None:
    """Raise if a data set, or one of a group, claims far more than the file stores (HDF5 fills in missing chunks)."""
    for part in item.values() if hasattr(item, "values") else (item,):
        if hasattr(part, "is_virtual") and not part.is_virtual:
            claimed = math.prod(map(int, part.shape or ())) * part.dtype.itemsize  # h5py's own product may overflow
            check_claim(name, claimed, int(part.id.get_storage_size()))


def _labels(name: str, column: Any, count: int | None, check: Callable[[str, Any], None]) -> _LabelReader:
    """The ``count`` values of a column of obs or var, by slices: plain, nullable (values, mask) or categorical.

    Missing ones are written as in memory.
    """
    if not hasattr(column, "keys"):
        if count not in (None, *column.shape) or len(column.shape) != 1:
            raise StoreError(f"{name} has names of shape {column.shape} for {count} of them")
        check(name, column)
        plain = by_chunks(column)
        return lambda part: np.asarray(plain[part])
    if "codes" in column and "categories" in column:
        codes, all_kinds = (
            _labels(name, column["codes"], count, check),
            _labels(name, column["categories"], None, check),
        )
        kinds = np.append(all_kinds(slice(None)).astype(object), "nan")

        def categorical(part: slice) -> NDArray[Any]:
            found = codes(part)
            if found.dtype.kind not in "iu" or found.min(initial=0) < -1 or found.max(initial=-1) >= len(kinds) - 1:
                raise StoreError(f"{name} has names with codes of no category; restore the file from a copy")
            return kinds[found]

        return categorical
    if "values" in column:
        values = _labels(name, column["values"], count, check)
        if "mask" not in column:
            return values
        mask = _labels(name, column["mask"], count, check)

        def nullable(part: slice) -> NDArray[Any]:
            gone = mask(part)
            if gone.dtype != bool:
                raise StoreError(f"{name} has a mask that does not fit its names; restore the file from a copy")
            return np.where(gone, "<NA>", np.array(name_list(values(part), name), dtype=object))

        return nullable
    kind = column.attrs.get("encoding-type", "a group")
    raise StoreError(f"{name} has names that are stored as {kind}, which cannot be read; pass names of your own")


def _names(path: Path, file: Any, axis: str, count: int, check: Callable[[str, Any], None]) -> Sequence[str] | None:
    """The ``count`` names of obs or var: a column of a group, or in older files a field of a table.

    Many names of obs are kept in a temporary file.
    """
    table = file.get(axis)
    if table is None:
        return None
    column: Any = table
    if hasattr(table, "keys"):
        column = table.get(table.attrs.get("_index", "_index"))
        if column is None:
            return None
        read = _labels(f"{path}:{axis}", column, count, check)
    else:
        fields = table.dtype.names or ()
        key = next((key for key in ("index", "_index") if key in fields), None)
        check(f"{path}:{axis}", table)
        if key is None:
            return None
        count, read = int(table.shape[0]), lambda part: table[part][key]
    if axis == "var" or count <= _NAMES:
        return name_list(read(slice(None)), f"{axis} names")
    names = NameSpool()
    chunk = (getattr(column, "chunks", None) or (1,))[0]  # texts of any length are decoded by whole chunks
    for start, stop in row_slices(count, 1, max(_NAMES, int(chunk))):
        values = read(slice(start, stop))
        for first, last in row_slices(len(values), 1, _NAMES):
            names.extend(name_list(values[first:last], f"{axis} names"))
    return names
