"""``open_source``: choose the reader of a source by type, suffix or first bytes."""

from __future__ import annotations

import contextlib
import difflib
import inspect
import os
import zlib
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._openers import opener
from .._signals import pass_on
from .._validate import check_no_group, is_anndata, is_dask
from ..errors import InvalidInputError, InvalidTypeError, StoreError
from ..matrix.frames import is_labelled, labelled
from . import arrays
from .addresses import STREAMED, RemotePath, exists, path_of
from .decoding import missing
from .envi import find_header
from .hdf5 import holds_anndata
from .numbers import open_bytes
from .row_source import Source, reading
from .scene_objects import is_scene_object, scene_object
from .tables import SlicedTable, from_table
from .zarr_array import zarr_source

__all__ = ["check_options", "format_of_content", "formats", "open_source", "register_object"]

# Format -> (module, function, suffixes). Modules are imported on use, because most need an extra.
_READERS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "npy": ("numpy_files", "read_npy", (".npy",)),
    "npz": ("numpy_files", "read_npz", (".npz",)),
    "mtx": ("market", "read_mtx", (".mtx", ".mtx.gz", ".mm")),
    "csv": ("table", "read_table", (".csv", ".csv.gz", ".tsv", ".tsv.gz")),
    "parquet": ("parquet", "read_parquet", (".parquet", ".pq")),
    "h5ad": ("hdf5", "read_h5ad", (".h5ad",)),
    "mat": ("matlab", "read_mat", (".mat",)),
    "envi": ("envi", "read_envi", (".hdr",)),
    "geotiff": ("geotiff", "read_geotiff", (".tif", ".tiff")),
    "netcdf": ("netcdf", "read_netcdf", (".nc", ".nc4", ".h5", ".he5", ".hdf5")),
    "zarr": ("zarr_array", "read_zarr", (".zarr",)),
    "ldac": ("bags", "read_ldac", (".ldac", ".lda-c")),
    "docword": ("bags", "read_docword", (".docword", ".docword.gz")),
}

# (test, reader) of further kinds of objects, registered by other modules.
_OBJECTS: list[tuple[Callable[[Any], bool], Callable[..., Source]]] = []


def formats() -> dict[str, tuple[str, ...]]:
    """Known file formats and their suffixes.

    Examples
    --------
    >>> import fastanchors as fa
    >>> fa.io.formats()["parquet"]
    ('.parquet', '.pq')
    """
    return {name: suffixes for name, (_, _, suffixes) in _READERS.items()}


def register_object(test: Callable[[Any], bool], reader: Callable[..., Source]) -> None:
    """Register a reader for a kind of object: :func:`open_source` then calls ``reader(object, **options)``.

    Parameters
    ----------
    test
        Returns whether an object is of that kind.
    reader
        Returns a :class:`Source` for it.

    Examples
    --------
    >>> import numpy as np
    >>> import fastanchors as fa
    >>> class Powers:
    ...     pass
    >>> read = lambda powers: fa.io.open_source(np.vander([2.0, 3.0], 3))
    >>> fa.io.register_object(lambda source: type(source).__name__ == "Powers", read)
    >>> fa.io.open_source(Powers()).shape
    (2, 3)
    """
    _OBJECTS.append((test, reader))


def open_source(source: Any, *, format: str | None = None, **options: Any) -> Source:
    """Open ``source`` to read its rows.

    Parameters
    ----------
    source
        A NumPy array, a SciPy sparse matrix, a pandas or polars frame, an Arrow table or batch, a two-dimensional
        xarray ``DataArray``, AnnData, a Zarr array, a Dask array or data frame, an image of ``spectral.open_image`` or
        an xarray cube (their pixels), a path, an iterator of row blocks, or a Source.
    format
        The file format (see :func:`formats`); by default it is determined from suffix and content.
    **options
        Options of the reader, such as ``row_names``, ``column_names``, ``variable``, ``layer``, ``vocab``.

    Examples
    --------
    >>> import numpy as np
    >>> import fastanchors as fa
    >>> source = fa.io.open_source(np.eye(3), row_names=["a", "b", "c"])
    >>> list(source.row_names)
    ['a', 'b', 'c']
    """
    if isinstance(source, Source):
        return source
    for test, reader in _OBJECTS:
        if test(source):
            if format is not None:
                raise InvalidInputError(f"{source} is not a file of some format; remove format=…")
            return _call(reader, source, options)
    if is_dask(source):
        return _call(opener("dask rows"), source, options)
    if isinstance(source, str | os.PathLike | RemotePath):
        path = path_of(source)
        with reading(path):
            if isinstance(path, Path) and path.is_fifo():  # readers seek or read twice; some libraries would never end
                raise StoreError(f"{path} is a pipe, which cannot be read twice; write it to a file first")
            kind = format or _format(path)
            if isinstance(path, RemotePath) and kind not in STREAMED:
                raise StoreError(f"{path}: {kind} is read from local files only; copy it first")
            found = _call(_reader(kind), path, options)
        found.is_file = True
        return found
    if is_scene_object(source) and not is_labelled(source):
        return _call(scene_object, source, options)
    check_no_group(source, "the source")
    if isinstance(source, memoryview):
        source = np.asarray(source)
    if isinstance(source, np.ndarray) or sp.issparse(source):
        return _call(arrays.from_array, source, options)
    if type(source).__module__.split(".")[0] == "zarr":
        return _call(zarr_source, source, options)
    if is_labelled(source):
        return _labelled_source(source, options)
    if isinstance(source, list | tuple) and source and arrays.is_row(source[0]):
        return _call(arrays.from_array, arrays.plain_rows(source), options)
    if isinstance(source, Iterable):
        return _call(arrays.from_blocks, source, options)
    raise InvalidTypeError(
        f"cannot read a matrix from {type(source).__name__}; pass an array, a sparse matrix, a path "
        "or an iterator of row blocks"
    )


def _labelled_source(source: Any, options: dict[str, Any]) -> Source:
    """A table or an AnnData object with its names; a backed AnnData object is read from its file."""
    layer = options.pop("layer", None) if is_anndata(source) else None
    if is_anndata(source) and source.isbacked:
        if not source.is_view:
            with contextlib.suppress(StoreError):  # a file that is open for writing cannot be opened again
                return open_source(source.filename, format="h5ad", layer=layer, **options)
        source = source.to_memory()
    table = SlicedTable.of(source, "the matrix")
    if table is None:
        values, row_names, column_names = labelled(source, layer=layer, name="the matrix")
    else:
        values, row_names, column_names = table, table.row_names(), table.column_names
    options.setdefault("row_names", row_names)
    options.setdefault("column_names", column_names)
    return _call(arrays.from_array if table is None else from_table, values, options)


def _reader(name: str) -> Callable[..., Source]:
    if name not in _READERS:
        close = difflib.get_close_matches(name, _READERS, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise StoreError(f"unknown format {name!r}{hint} (known: {', '.join(_READERS)})")
    module, function, _ = _READERS[name]
    reader: Callable[..., Source] = getattr(import_module(f".{module}", __package__), function)
    return reader


def _call(reader: Callable[..., Source], source: Any, options: dict[str, Any]) -> Source:
    check_options(options, reader)
    return reader(source, **options)


def check_options(options: Iterable[str], reader: Callable[..., Any], whose: str = "this source has") -> None:
    """Raise if the reader does not have one of these options; they are its arguments by keyword only."""
    accepted = [p.name for p in inspect.signature(reader).parameters.values() if p.kind is p.KEYWORD_ONLY]
    for option in options:
        if option not in accepted:
            close = difflib.get_close_matches(option, accepted, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise InvalidTypeError(f"{whose} no option {option!r}{hint} (options: {', '.join(accepted)})")


def _format(path: Any) -> str:
    if not exists(path):
        if isinstance(path, RemotePath):
            raise StoreError(f"{path} does not exist")
        raise missing(path)
    lower = path.name.lower()
    if lower.startswith("docword."):
        return "docword"
    suffixes = {suffix: name for name, (_, _, known) in _READERS.items() for suffix in known}
    for suffix in sorted(suffixes, key=len, reverse=True):
        if lower.endswith(suffix):
            return suffixes[suffix]
    if isinstance(path, Path) and path.is_file() and find_header(path) is not None:
        return "envi"
    if found := format_of_content(path):
        return found
    hint = _hint(path, list(suffixes))
    raise StoreError(f"cannot determine the format of {path}{hint}; pass format=…, one of {', '.join(_READERS)}")


def _hint(path: Any, suffixes: list[str]) -> str:
    """A hint on similar suffixes, for a misspelt one."""
    if path.suffix.lower() in ("", ".txt", ".dat"):
        return ""
    close = difflib.get_close_matches(path.suffix.lower(), suffixes, n=3, cutoff=0.6)
    return f" (did you mean {' or '.join(close)}?)" if close else ""


def format_of_content(path: Any) -> str | None:
    """The format according to the first bytes, or None."""
    if path.is_dir():
        if isinstance(path, RemotePath):
            raise StoreError(f"{path} is a directory; pass the address of one of its files")
        if any(exists(path / name) for name in ("zarr.json", ".zarray", ".zgroup")):
            return "zarr"
        return "parquet" if next(path.glob("*.parquet"), None) is not None else None
    with open_bytes(path) as file:
        try:
            head = file.read(4096)
        except (OSError, EOFError, zlib.error) as error:
            pass_on(error)
            return None
    for magic, name in (
        (b"\x93NUMPY", "npy"),
        (b"PK\x03\x04", "npz"),
        (b"%%MatrixMarket", "mtx"),
        (b"PAR1", "parquet"),
        (b"MATLAB", "mat"),
        (b"\x89HDF", "h5ad"),
        (b"II*\0", "geotiff"),
        (b"MM\0*", "geotiff"),
    ):
        if head.startswith(magic):
            return "netcdf" if name == "h5ad" and isinstance(path, Path) and not holds_anndata(path) else name
    lines = head.split(b"\n")
    words = lines[0].split()
    pairs = words[1:] if len(lines) > 1 else words[1:-1]  # the last word of a long line may be incomplete
    if pairs and words[0].isdigit() and all(word.count(b":") == 1 for word in pairs):
        return "ldac"
    if len(lines) > 4 and all(line.strip().isdigit() for line in lines[:3]) and len(lines[3].split()) == 3:
        return "docword"
    return None
