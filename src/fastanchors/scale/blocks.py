"""The blocks of rows of a Dask array or data frame: one task each, and how many rows each has."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..errors import InvalidInputError
from ..io.source import Source, read_names
from ..sampling.access import Rows
from .crew import Crew

__all__ = ["DaskSource", "as_block", "dask_source", "row_blocks"]


def row_blocks(lazy: Any) -> list[Any]:
    """A task for each block of rows, whole rows together."""
    if hasattr(lazy, "npartitions") and hasattr(lazy, "columns"):
        return list(lazy.to_delayed())
    if lazy.ndim != 2:
        raise InvalidInputError(f"the dask array must be two-dimensional, got {lazy.ndim} dimension(s)")
    if lazy.numblocks[1] > 1:
        lazy = lazy.rechunk({1: -1})
    return list(lazy.to_delayed().reshape(-1))


def as_block(block: Any) -> Rows:
    """What a task of Dask gives, as an array or CSR."""
    if hasattr(block, "to_scipy_sparse"):
        block = block.to_scipy_sparse()
    if sp.issparse(block):
        return sp.csr_array(block)
    return np.asarray(block.to_numpy() if hasattr(block, "to_numpy") else block)


def starts_of(lazy: Any, blocks: list[Any], crew: Crew) -> list[int]:
    """The first row of each block, and the number of all rows; where Dask does not know, one more look at each."""
    chunks = getattr(lazy, "chunks", None)
    lengths = chunks[0] if chunks is not None and not np.isnan(sum(chunks[0])) else None
    if lengths is None:
        lengths = crew.each("length", _length, blocks)
    return [0, *np.cumsum([int(length) for length in lengths]).tolist()]


def _length(block: Any) -> int:
    return int(block.shape[0])


class DaskSource(Source):
    """The rows of a Dask array or data frame.

    Attributes
    ----------
    tasks : a task for each block of rows.
    starts : the first row of each block, and the number of all rows.
    names_inside : whether the index of each partition names its rows.
    """

    def __init__(self, lazy: Any, row_names: Any, column_names: Any) -> None:
        self.crew = Crew()
        self.tasks = row_blocks(lazy)
        self.starts = starts_of(lazy, self.tasks, self.crew)
        frame = hasattr(lazy, "npartitions") and hasattr(lazy, "columns")
        name = "the dask data frame" if frame else "the dask array"
        self.names_inside = frame and row_names is None and lazy._meta.index.dtype.kind not in "iu"
        if frame and column_names is None:
            column_names = [str(column) for column in lazy.columns]
        dtype = lazy._meta.to_numpy().dtype if frame else lazy.dtype
        names = {"row_names": read_names(row_names, "row"), "column_names": read_names(column_names, "column")}
        for what, count in (("row", self.starts[-1]), ("column", lazy.shape[1])):
            given = names[f"{what}_names"]
            if given is not None and len(given) != count:
                raise InvalidInputError(f"{name} has {count} {what}s but {len(given)} {what} names were given")
        sparse = sp.issparse(getattr(lazy, "_meta", None))
        super().__init__(name, (self.starts[-1], int(lazy.shape[1])), dtype, sparse, self._stream, **names)

    def _stream(self, max_bytes: int) -> Iterator[Rows]:
        """The blocks one after the other, in this process: for whoever does not work where the blocks are."""
        for task in self.tasks:
            yield as_block(self.crew.each("block", _itself, [task])[0])

    def names_of(self, at: int) -> list[str] | None:
        """The names given for the rows of a block."""
        return None if self.row_names is None else self.row_names[self.starts[at] : self.starts[at + 1]]

    def bounds(self) -> list[tuple[int, int]]:
        """(first row, last row + 1) of each block."""
        return list(pairwise(self.starts))

    @property
    def builder(self) -> Any:
        """What builds a store of this source."""
        from .build import DaskBuild

        return DaskBuild


def _itself(block: Any) -> Any:
    return block


def dask_source(lazy: Any, *, row_names: Any = None, column_names: Any = None) -> DaskSource:
    """The rows of a Dask array (dense or sparse blocks) or data frame (whose index names the rows, unless integers)."""
    return DaskSource(lazy, row_names, column_names)
