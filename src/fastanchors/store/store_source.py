"""A store or a sample matrix as a source of rows, to copy it with other options or to append it to another store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from .._maps import release_pages
from ..io import Source
from ..io.addresses import is_address
from ..io.row_source import read_names, row_slices
from ..matrix.contract import Rows
from ..sampling.matrix import SampleMatrix
from .manifest import MANIFEST
from .store import Store, open

__all__ = ["is_matrix", "matrix_source"]


def is_matrix(source: Any) -> bool:
    """Whether this is a sample matrix, or the path of a store."""
    if isinstance(source, str | os.PathLike) and not is_address(source):
        return os.path.isfile(os.path.join(source, MANIFEST))  # False too where there can be no such path
    return isinstance(source, SampleMatrix | Store)


def matrix_source(source: Any, *, row_names: Any = None, column_names: Any = None) -> Source:
    """The stored entries (not the view) and the names of a sample matrix, of a store, or of the store at a path.

    Uncommitted changes of an open store are included.
    """
    matrix: SampleMatrix | Store = source if isinstance(source, SampleMatrix | Store) else open(source)
    names: dict[str, Any] = {}
    for what, given in (("row", row_names), ("column", column_names)):
        own = getattr(matrix, f"{what}_names", None)
        names[f"{what}_names"] = own if given is None else read_names(given, what)
    name = str(matrix.path) if isinstance(matrix, Store) else "the sample matrix"

    def blocks(max_bytes: int) -> Iterator[Rows]:
        unchanged = isinstance(matrix, Store) and not matrix.changed_rows.size
        for block in matrix._blocks:
            for start, stop in row_slices(block.shape[0], block.nbytes // block.shape[0], max_bytes):
                yield block.rows(np.arange(start, stop), view=False)
            if unchanged:  # changed pages must not be dropped
                release_pages(next(iter(block.arrays().values())))

    return Source(name, matrix.shape, matrix.dtype, matrix.is_sparse, blocks, **names)
