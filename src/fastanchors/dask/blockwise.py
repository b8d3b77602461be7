"""Lazy results, a block for each block of rows: what ``fa.encode`` and ``transform`` make of a Dask array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInputError
from ..matrix.contract import Rows
from .collection import Collection, as_block, check_length, layout
from .tasks import Pool

__all__ = ["lazy_mixtures", "lazy_rows", "stacked"]


def lazy_rows(
    name: str, function: Callable[..., Rows], X: Any, columns: int, dtype: np.dtype[Any], shared: tuple[Any, ...]
) -> Any:
    """A lazy Dask array with as many rows as X: ``function(rows, first_row, matrix_name, *shared)`` of its blocks.

    Nothing is computed. Where Dask does not know the lengths of blocks, rows are counted from the block and
    ``matrix_name`` names it.
    """
    collection = Collection(X, Pool())
    lengths: Sequence[int | None] = collection.layout.lengths or [None] * collection.count
    starts = np.cumsum([0, *(length or 0 for length in lengths)], dtype=np.int64).tolist()
    own = [(i, start, length) for i, (start, length) in enumerate(zip(starts, lengths))]
    tasks = collection.tasks(name, _on_rows, range(collection.count), own, (function, shared, columns, dtype.str))
    shapes = [(np.nan if length is None else length, columns) for length in lengths]
    return stacked(tasks, shapes, np.empty((0, columns), dtype))


def lazy_mixtures(F: Any, C: NDArray[Any]) -> Any:
    """The rows F·C that lazy weights stand for, as a lazy Dask array."""
    known = layout(F)
    if known.columns != len(C):
        raise InvalidInputError(f"weights must have {len(C)} columns, got {known.columns}")
    return lazy_rows("mix", _mixed, F, C.shape[1], np.result_type(known.dtype, C.dtype), (C,))


def _mixed(F: Rows, first_row: int, name: str, C: NDArray[Any]) -> Rows:
    return F @ C


def stacked(tasks: Sequence[Any], shapes: Sequence[tuple[float, int]], meta: Any) -> Any:
    """A lazy Dask array whose blocks of rows are those tasks; ``meta`` is an empty block."""
    da = import_module("dask.array")
    blocks = [da.from_delayed(task, shape, meta=meta) for task, shape in zip(tasks, shapes, strict=True)]
    return da.concatenate(blocks, allow_unknown_chunksizes=True)


def _on_rows(
    block: Any,
    number: int,
    start: int,
    length: int | None,
    function: Callable[..., Rows],
    shared: tuple[Any, ...],
    columns: int,
    dtype: str,
) -> Rows:
    check_length(block, number, length, "X")
    rows = as_block(block)
    if rows.shape[0] == 0:
        return np.empty((0, columns), dtype)
    name = "X" if length is not None else f"block {number} of X: X"
    return function(rows, 0 if length is None else start, name, *shared).astype(dtype, copy=False)
