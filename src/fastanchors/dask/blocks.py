"""The blocks of rows of a Dask array or data frame: one task each, and how many rows each has."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..errors import InvalidInputError, InvalidTypeError
from ..io.row_source import Source, read_names
from ..matrix.contract import Rows
from .crew import Crew

__all__ = ["DaskSource", "as_block", "check_length", "dask_source", "is_frame", "layout", "row_blocks"]


def is_frame(lazy: Any) -> bool:
    """Whether it is a data frame. Classes are asked: a ``Delayed`` has every attribute."""
    kind = type(lazy)
    return hasattr(kind, "npartitions") and hasattr(kind, "columns") and lazy.ndim == 2


class Layout(NamedTuple):
    """What Dask tells of an array or data frame without computing anything."""

    name: str
    columns: int
    dtype: np.dtype[Any]
    lengths: list[int] | None  # of the blocks of rows; None where not known


def layout(lazy: Any) -> Layout:
    """The layout, or one clear error where this is nothing with rows of numbers."""
    if is_frame(lazy):
        for column, dtype in lazy._meta.dtypes.items():
            if not isinstance(dtype, np.dtype) or dtype.kind not in "biuf":
                raise InvalidTypeError(
                    f"the dask data frame: column {column!r} has type {dtype}, not plain numbers; drop it, or convert "
                    "it: X.astype({" + f"{column!r}: 'float64'" + "})"
                )
        return Layout("the dask data frame", len(lazy.columns), lazy._meta.to_numpy().dtype, None)
    if not hasattr(type(lazy), "chunks"):
        kind = type(lazy).__name__
        raise InvalidTypeError(f"expected a dask array or data frame, got a dask {kind}; make one of it first")
    if lazy.ndim != 2:
        raise InvalidInputError(f"the dask array must be two-dimensional, got {lazy.ndim} dimension(s)")
    if np.isnan(lazy.shape[1]):
        raise InvalidInputError(
            "the dask array does not know its number of columns; call X.compute_chunk_sizes() first"
        )
    if lazy.dtype.kind not in "biuf":
        raise InvalidTypeError(
            f"the dask array must hold real numbers, got dtype {lazy.dtype}; convert it: X.astype(float)"
        )
    lengths = None if np.isnan(lazy.shape[0]) else [int(length) for length in lazy.chunks[0]]
    return Layout("the dask array", int(lazy.shape[1]), lazy.dtype, lengths)


def row_blocks(lazy: Any) -> list[Any]:
    """A task for each block of rows, whole rows together."""
    if is_frame(lazy):
        return list(lazy.to_delayed())
    if lazy.numblocks[1] > 1:
        lazy = lazy.rechunk({1: -1})
    return list(lazy.to_delayed().reshape(-1))


def check_length(block: Any, number: int, length: int | None, name: str) -> None:
    """Raise where a block has not as many rows as Dask was told."""
    if length is not None and block.shape[0] != length:
        raise InvalidInputError(
            f"{name}: block {number} has {block.shape[0]} rows, where its chunks say {length}; "
            "call X.compute_chunk_sizes(), or give the right shape"
        )


def as_block(block: Any) -> Rows:
    """What a task of Dask gives, as an array or CSR."""
    if hasattr(block, "to_scipy_sparse"):
        block = block.to_scipy_sparse()
    if sp.issparse(block):
        return sp.csr_array(block)
    return np.asarray(block.to_numpy() if hasattr(block, "to_numpy") else block)


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
        known = layout(lazy)
        name, frame = known.name, is_frame(lazy)
        self.tasks = row_blocks(lazy)
        lengths = known.lengths
        if lengths is None:  # Dask does not know: one more look at each block
            lengths = self.crew.each("length", _length, self.tasks)
        self.starts = [0, *np.cumsum(lengths, dtype=np.int64).tolist()]
        self.names_inside = frame and row_names is None and lazy._meta.index.dtype.kind not in "iu"
        if frame and column_names is None:
            column_names = [str(column) for column in lazy.columns]
        names = {"row_names": read_names(row_names, "row"), "column_names": read_names(column_names, "column")}
        for what, count in (("row", self.starts[-1]), ("column", known.columns)):
            given = names[f"{what}_names"]
            if given is not None and len(given) != count:
                raise InvalidInputError(f"{name} has {count} {what}s but {len(given)} {what} names were given")
        sparse = sp.issparse(getattr(lazy, "_meta", None))
        super().__init__(name, (self.starts[-1], known.columns), known.dtype, sparse, self._stream, **names)

    def _stream(self, max_bytes: int) -> Iterator[Rows]:
        """The blocks one after the other, in this process: for whoever does not work where the blocks are."""
        for task in self.tasks:
            yield as_block(self.crew.each("block", _itself, [task])[0])

    def names_of(self, at: int) -> list[str] | None:
        """The names given for the rows of a block."""
        return None if self.row_names is None else list(self.row_names[self.starts[at] : self.starts[at + 1]])

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
