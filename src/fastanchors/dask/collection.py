"""Access a Dask array or data frame as blocks of rows: their layout, and tasks on each block."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._tables import is_index_level
from .._validate import as_array, as_csr, as_numeric, in_type, package
from ..errors import InvalidInputError, InvalidTypeError, one_line
from ..io.arrays import counted_from
from ..io.row_source import numeric_dtype, read_names
from ..matrix.contract import Rows
from ..matrix.frames import frame_values, holds_numbers, nullable_dtype
from .parts import Question, TaskParts
from .tasks import Pool, calls, on_blocks

__all__ = ["Collection", "as_block", "as_declared", "is_frame", "layout", "stacked"]


def is_frame(lazy: Any) -> bool:
    """Whether it is a data frame. The class is examined, because a ``Delayed`` object has every attribute."""
    kind = type(lazy)
    return hasattr(kind, "npartitions") and hasattr(kind, "columns") and lazy.ndim == 2


class Layout(NamedTuple):
    """What Dask knows about an array or data frame without computing anything."""

    name: str
    columns: int
    dtype: np.dtype[Any]
    lengths: list[int] | None  # of the blocks of rows; None if unknown


def layout(lazy: Any) -> Layout:
    """The layout; raises if ``lazy`` does not have rows of numbers."""
    if is_frame(lazy):
        for column, dtype in lazy.dtypes.items():
            if is_index_level(column):
                raise InvalidInputError(
                    f"the dask data frame: column {column!r} is an index that pandas has written, not data; drop it, "
                    "or make it the index with X.set_index"
                )
            if not holds_numbers(dtype):
                raise InvalidTypeError(
                    f"the dask data frame: column {column!r} has type {dtype}, not plain numbers; drop it, or convert "
                    "it: X.astype({" + f"{column!r}: 'float64'" + "})"
                )
        nullable = nullable_dtype(lazy.dtypes)
        return Layout("the dask data frame", len(lazy.columns), nullable or lazy.values.dtype, None)
    if not hasattr(type(lazy), "chunks"):
        kind = type(lazy).__name__
        raise InvalidTypeError(f"expected a dask array or data frame, got a dask {kind}; convert it first")
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


def as_block(block: Any, number: int, length: int | None, columns: int, name: str = "X") -> Rows:
    """The result of a Dask task as a NumPy or CSR array of numbers; raises if its shape is not the one Dask knows."""
    shape = getattr(block, "shape", None)
    if not isinstance(shape, tuple) or len(shape) != 2:
        kind = f"an array of shape {shape}" if isinstance(shape, tuple) else f"of type {type(block).__name__}"
        raise InvalidTypeError(f"{name}: block {number} is {kind}, not a two-dimensional array; correct its task")
    for what, found, known in (("rows", shape[0], length), ("columns", shape[1], columns)):
        if known is not None and found != known:
            raise InvalidInputError(
                f"{name}: block {number} has {found} {what}, but its chunk size is {known}; "
                "call X.compute_chunk_sizes(), or pass the right shape"
            )
    if hasattr(block, "to_scipy_sparse"):
        block = block.to_scipy_sparse()
    place = f"{name}: block {number}"
    if sp.issparse(block):
        rows: Rows = as_csr(block, place)
    elif not hasattr(block, "to_numpy"):
        rows = as_array(block, place)
    else:
        rows = as_array(frame_values(block, place), place)
        if package(block) == "pandas" and rows.dtype.kind == "f":
            _check_whole(block, rows, place)
    return as_numeric(rows, place) if rows.shape[0] else rows  # an empty one may have any type


def _check_whole(block: Any, values: NDArray[Any], name: str) -> None:
    """Raise if a value of nullable integers is missing: Dask knows them as integers, which have no NaN."""
    known = nullable_dtype(block.dtypes)
    if known is not None and known.kind in "iu":
        row, column = np.argwhere(np.isnan(values))[0]
        place = f"row {row} (index {one_line(repr(block.index[row]), 60)})"
        heading = one_line(repr(block.columns[column]), 60)
        raise InvalidInputError(f"{name}: {place} of column {heading} is missing; remove or impute it first")


def as_declared(rows: Rows, dtype: Any, number: int, name: str = "X") -> Rows:
    """The block in the type that Dask knows, so that all blocks have one; raises if its entries do not fit."""
    return in_type(rows, numeric_dtype(dtype, name), f"{name}: block {number}", "the dtype of the Dask array,")


def stacked(blocks: Sequence[Any], shapes: Sequence[tuple[float, int]], meta: Any) -> Any:
    """Stack tasks that return blocks of rows into a lazy Dask array; ``meta`` is an empty block."""
    da = import_module("dask.array")
    made = [da.from_delayed(block, shape, meta=meta) for block, shape in zip(blocks, shapes, strict=True)]
    return da.concatenate(made, allow_unknown_chunksizes=True)


class Collection(TaskParts):
    """A Dask array or data frame as blocks of whole rows, computed again for every question.

    Attributes
    ----------
    layout
        Layout
    count : int
        Number of blocks.
    blocks : Dask array
        The blocks of rows; those of a data frame are frames.
    is_sparse : bool
        Whether Dask says that blocks are sparse.
    row_names, column_names : sequence of str or None
        The given ones; by default the columns of a data frame.
    named_from : int or None
        The first partition of a data frame whose index names its rows, as those after it do; known once the rows are
        counted. Before it, an index is only a range that counts from 0, in each partition or through all.
    """

    def __init__(self, lazy: Any, pool: Pool, row_names: Any = None, column_names: Any = None) -> None:
        self.layout = known = layout(lazy)
        if known.columns == 0:
            raise InvalidInputError(f"{known.name} has no columns; at least one is needed")
        self.is_sparse = not is_frame(lazy) and sp.issparse(import_module("dask.array.utils").meta_from_array(lazy))
        if is_frame(lazy) and column_names is None:
            column_names = [str(column) for column in lazy.columns]
        self.named_from: int | None = None
        self._labelled = is_frame(lazy) and row_names is None
        self.row_names, self.column_names = read_names(row_names, "row"), read_names(column_names, "column")
        if is_frame(lazy):
            own = [(number,) for number in range(lazy.npartitions)]
            parts = calls("columns", _in_order, _partitions(lazy), own, (list(lazy.columns),))
            lazy = stacked(parts, [(np.nan, known.columns)] * len(parts), np.empty((0, known.columns), known.dtype))
        self.blocks = lazy.rechunk({1: -1}) if lazy.numblocks[1] > 1 else lazy
        self.count: int = lazy.numblocks[0]
        super().__init__(pool, _starts(known.lengths or [0] * self.count))

    def count_rows(self) -> None:
        """Count the rows of the blocks if their lengths are unknown; raises if there are not as many names."""
        if self.layout.lengths is None:
            own = [(number, None, self.layout.columns) for number in range(self.count)]
            found = self.each("length", _measured, own=own)
            self.starts = _starts([length for length, _ in found])
            named = (p for p, (_, first) in enumerate(found) if first not in (0, self.starts[p]))
            self.named_from = next(named, None) if self._labelled else None
        known = ("row", self.row_names, self.starts[-1]), ("column", self.column_names, self.layout.columns)
        for what, names, count in known:
            if names is not None and len(names) != count:
                raise InvalidInputError(
                    f"{self.layout.name} has {count} {what}s but {len(names)} {what} names were given"
                )

    def tasks(self, asked: Question) -> list[Any]:
        blocks = self.blocks if len(asked.which) == self.count else self.blocks.blocks[list(asked.which)]
        return list(on_blocks(asked.name, asked.function, blocks, asked.own, asked.shared).to_delayed().reshape(-1))


def _partitions(frame: Any) -> list[Any]:
    """The partitions of a data frame as tasks.

    Partitions of ``from_delayed(verify_meta=False)`` are aliases that have the name of their target instead of their
    own. Dask can compute them, but loses them where it fuses them with further tasks. Here each has its own name.
    """
    parts = list(frame.to_delayed())
    graph = dict(parts[0].__dask_graph__())  # of all partitions
    lost = {key: task.target for key, task in graph.items() if hasattr(task, "target") and task.key != key}
    if not lost:
        return parts
    delayed, name = import_module("dask.delayed"), f"fastanchors-{parts[0].key[0]}"
    layers = import_module("dask.highlevelgraph").HighLevelGraph.from_collections(name, graph | lost)
    return [delayed.Delayed(part.key, layers, layer=name) for part in parts]


def _in_order(frame: Any, number: int, columns: list[Any]) -> Any:
    """The partition with the columns in the order that Dask knows; a task can return them in another one."""
    own = list(getattr(frame, "columns", columns))
    if own == columns:
        return frame
    if len(own) == len(columns) == len(set(own)) and set(own) == set(columns):
        return frame[columns]
    found, known = (one_line(", ".join(map(str, names)), 60) for names in (own, columns))
    raise InvalidInputError(
        f"the dask data frame: partition {number} has the columns {found} instead of {known}; correct its task"
    )


def _measured(block: Any, *known: Any) -> tuple[int, int | None]:
    """The number of rows, and the number from which their labels only count, or None."""
    labels = getattr(block, "index", None)
    return int(as_block(block, *known).shape[0]), 0 if labels is None else counted_from(labels)


def _starts(lengths: Sequence[int]) -> list[int]:
    return [0, *np.cumsum(lengths, dtype=np.int64).tolist()]
