"""Open files and stores as matrices, for :func:`fastanchors.matrix.open_matrix` on a path, an address or a reader.

A store is opened. A ``.npy`` file is mapped. Any other file is read into memory, or built into a temporary store if it
is too large for that: most formats can only be read from their beginning.
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from .._validate import as_matrix
from ..io import Source, open_source
from ..io.addresses import exists, path_of
from ..io.numpy_files import map_npy
from ..io.row_source import block_bytes, split
from ..io.scratch import TemporaryFolder
from ..matrix.array import ArrayMatrix, LoadedMatrix
from ..matrix.contract import RowMatrix, Rows
from ..matrix.scaled import scale_rows
from ..store.manifest import MANIFEST
from .stores import build
from .stores import open as open_store

__all__ = ["IN_MEMORY", "open_file"]

IN_MEMORY = 1 << 30  # largest size in bytes of a file read into memory; a larger one becomes a temporary store
_PIECES = 8  # number of blocks in which a budget is read; none is started that might exceed it
_SMALLEST_ROW = 8  # bytes of a sparse row without entries


def open_file(
    source: Any,
    *,
    normalize: Literal["l1"] | None = None,
    signed: bool = False,
    checked: bool = True,
    budget: int | None = None,
    in_memory: int | None = None,
    **options: Any,
) -> RowMatrix:
    """The matrix in a file, a store or a reader.

    Parameters
    ----------
    source : path, address or Source
        A store has its own view; ``normalize`` only applies to other files.
    normalize, signed, checked
        As in :func:`fastanchors.matrix.open_matrix`.
    budget : int or None
        The largest number of rows to read. If the file has more, only its first rows are used.
    in_memory : int or None
        Bytes that a file may take in memory; by default 1 GiB.
    **options
        Options of the reader, such as ``variable`` or ``row_names``.
    """
    in_memory = IN_MEMORY if in_memory is None else in_memory
    if isinstance(source, Source):
        return _read(source, normalize, signed, budget, in_memory)
    path = path_of(source)
    if isinstance(path, Path) and exists(path / MANIFEST):
        return open_store(path, **options)
    if isinstance(path, Path) and path.suffix == ".npy" and normalize is None and not options and path.is_file():
        mapped = _mapped(path)
        if mapped is not None:
            if checked and budget is None:
                mapped.check_entries(signed=signed, name=str(path))
                mapped.checked = True  # signed entries were asked for
            return mapped
    if not isinstance(path, Path) and exists(path / MANIFEST):
        return open_store(str(path), **options)
    opened = open_source(path if isinstance(path, Path) else str(path), **options)
    return _read(opened, normalize, signed, budget, in_memory)


def _mapped(path: Path) -> ArrayMatrix | None:
    """A dense array in a file, mapped; None if the array needs conversion by the reader."""
    array = map_npy(path)
    if array.ndim != 2 or not array.flags.c_contiguous or array.dtype.kind not in "iuf":
        return None
    rows = as_matrix(np.asarray(array), finite=False)
    return ArrayMatrix(rows, provenance="streamed from the file", checked=False, on_disk=True)


def _read(
    source: Source, normalize: Literal["l1"] | None, signed: bool, budget: int | None, in_memory: int
) -> RowMatrix:
    fits = budget is None or (source.shape[0] is not None and source.shape[0] <= budget)
    most = sys.maxsize if budget is None or fits else budget
    row = _SMALLEST_ROW if source.is_sparse else source.dtype.itemsize * source.shape[1]
    blocks = source.blocks(min(1 << 26, max(1, most // _PIECES) * row), signed=signed, warn_gaps=True)
    held: deque[Rows] = deque()
    rows, size, largest = 0, 0, 1
    while rows + largest <= most:
        block = next(blocks, None)
        if block is None:
            return _loaded(source, held, normalize, signed)
        held.append(block)
        rows, size, largest = rows + block.shape[0], size + block_bytes(block), max(largest, block.shape[0])
        if size > in_memory:
            if fits:
                return _built(source, held, blocks, normalize)
            break
    return _loaded(source, held, normalize, signed, most, rows_in_file=source.shape[0] or sys.maxsize)


def _loaded(
    source: Source,
    held: deque[Rows],
    normalize: Literal["l1"] | None,
    signed: bool,
    most: int | None = None,
    *,
    rows_in_file: int | None = None,
) -> LoadedMatrix:
    whole = sp.vstack(held, format="csr") if source.is_sparse else np.concatenate(held)
    held.clear()
    data = as_matrix(whole[:most], signed=signed, name=source.matrix_name)
    return LoadedMatrix(
        scale_rows(data) if normalize == "l1" else data,
        row_names=source.row_names,
        column_names=source.column_names,
        normalize=normalize,
        rows_in_file=rows_in_file,
    )


def _built(source: Source, held: deque[Rows], rest: Iterator[Rows], normalize: Literal["l1"] | None) -> RowMatrix:
    """A temporary store, removed with the object. Blocks already read are written first, then released."""

    def blocks(max_bytes: int) -> Iterator[Rows]:
        while held:
            yield from split(held.popleft(), max_bytes)
        for block in rest:
            yield from split(block, max_bytes)

    names: dict[str, Any] = {"row_names": source.row_names, "column_names": source.column_names}
    again = Source(source.name, source.shape, source.dtype, source.is_sparse, blocks, **names)
    folder = TemporaryFolder()
    try:
        store = build(again, Path(folder.name) / "store", normalize=normalize, columns=False, sidecars=())
    except BaseException:
        folder.cleanup()
        raise
    weakref.finalize(store, folder.cleanup)
    store.provenance = "built into a temporary store"
    store.rows_read_on_opening = store.shape[0]
    return store
