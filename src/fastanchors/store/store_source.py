"""A store or a sample matrix as a source of rows, to copy it with other options or to append it to another store."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from .._maps import release_pages
from .._openers import opener
from ..io import Source, formats
from ..io.addresses import RemotePath, is_address, is_local, local_path, path_of
from ..io.row_source import read_names, reading, row_slices
from ..matrix.contract import Rows
from ..sampling.matrix import SampleMatrix
from .manifest import MANIFEST
from .shard_rows import SMALLEST_LIMIT
from .sidecars import SidecarHost
from .storage import is_object_address
from .store import Store, open

__all__ = ["is_matrix", "matrix_source"]


def is_matrix(source: Any) -> bool:
    """Whether this is a sample matrix, a store, or the path or address of a store."""
    if is_address(source) and is_local(source):
        source = local_path(source)
    if isinstance(source, str | os.PathLike) and not is_address(source):
        return os.path.isfile(os.path.join(source, MANIFEST))  # False too where there can be no such path
    if isinstance(source, RemotePath) or is_object_address(source):
        suffixes = tuple(suffix for known in formats().values() for suffix in known)
        with reading(source):
            return not str(source).lower().endswith(suffixes) and bool((path_of(source) / MANIFEST).exists())
    return isinstance(source, SampleMatrix | SidecarHost)


def matrix_source(source: Any, *, row_names: Any = None, column_names: Any = None) -> Source:
    """The stored entries (not the view) and the names of a sample matrix, of a store, or of the store at a path.

    Uncommitted changes of an open store are included, but not the pending rows of one in object storage.
    """
    matrix: Any = source
    if isinstance(source, RemotePath) or is_object_address(source):
        matrix = opener("object store")(str(source), memory_limit=SMALLEST_LIMIT, sidecars=())
    elif not isinstance(source, SampleMatrix | SidecarHost):
        matrix = open(source)
    names: dict[str, Any] = {}
    for what, given in (("row", row_names), ("column", column_names)):
        own = getattr(matrix, f"{what}_names", None)
        names[f"{what}_names"] = own if given is None else read_names(given, what)
    if isinstance(matrix, SampleMatrix | Store):
        name, blocks = str(matrix.path) if isinstance(matrix, Store) else "the sample matrix", _blocks_of(matrix)
    else:
        name, blocks = str(matrix.storage), _blocks_elsewhere(matrix)
    found = Source(name, matrix.shape, matrix.dtype, matrix.is_sparse, blocks, **names)
    found.matrix = matrix
    return found


def _blocks_of(matrix: SampleMatrix | Store) -> Callable[[int], Iterator[Rows]]:
    def blocks(max_bytes: int) -> Iterator[Rows]:
        unchanged = isinstance(matrix, Store) and not matrix.changed_rows.size
        for block in matrix._blocks:
            for start, stop in row_slices(block.shape[0], block.nbytes // block.shape[0], max_bytes):
                yield block.rows(np.arange(start, stop), view=False)
            if unchanged:  # changed pages must not be dropped
                release_pages(next(iter(block.arrays().values())))

    return blocks


def _blocks_elsewhere(store: Any) -> Callable[[int], Iterator[Rows]]:
    """The same for a store whose shards are in object storage or on workers."""

    def blocks(max_bytes: int) -> Iterator[Rows]:
        shards = store.manifest.shards
        for (begin, _), shard in zip(pairwise(store._starts.tolist()), shards):
            for start, stop in row_slices(shard.rows, shard.data["bytes"] // shard.rows, max_bytes):
                yield store._gather(np.arange(begin + start, begin + stop), view=False)

    return blocks
