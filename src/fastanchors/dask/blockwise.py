"""Lazy blockwise results of ``fa.encode`` and ``transform`` for a Dask array: one block per block of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._validate import check_finite
from ..errors import InvalidInputError
from ..matrix.contract import Rows
from .collection import Collection, as_block, as_declared, layout
from .tasks import Pool, on_blocks

__all__ = ["lazy_mixtures", "lazy_rows"]


def lazy_rows(
    name: str, function: Callable[..., Rows], X: Any, columns: int, dtype: np.dtype[Any], shared: tuple[Any, ...]
) -> Any:
    """Apply ``function(rows, first_row, matrix_name, *shared)`` to each block of X, as a lazy Dask array.

    Nothing is computed. If Dask does not know the block lengths, ``first_row`` counts from the start of the block
    and ``matrix_name`` names the block.
    """
    made = Collection(X, Pool())
    lengths: Sequence[int | None] = made.layout.lengths or [None] * made.count
    own = list(zip(range(made.count), made.starts, lengths))
    empty = np.empty((0, columns), dtype)
    known = [np.nan if length is None else length for length in lengths]
    common = (made.layout.columns, made.layout.dtype, function, shared, empty)
    return on_blocks(name, _on_rows, made.blocks, own, common, known, empty)


def lazy_mixtures(F: Any, C: NDArray[Any]) -> Any:
    """The rows F·C for lazy weights F, as a lazy Dask array."""
    known = layout(F)
    if known.columns != len(C):
        raise InvalidInputError(f"weights must have {len(C)} columns, got {known.columns}")
    return lazy_rows("mix", _mixed, F, C.shape[1], np.result_type(known.dtype, C.dtype), (C,))


def _mixed(F: Rows, first_row: int, name: str, C: NDArray[Any]) -> Rows:
    check_finite(F, signed=True, name=name.replace("X", "weights"), first_row=first_row)
    return F @ C


def _on_rows(
    block: Any,
    number: int,
    start: int,
    length: int | None,
    columns: int,
    dtype: np.dtype[Any],
    function: Callable[..., Rows],
    shared: tuple[Any, ...],
    empty: NDArray[Any],
) -> Rows:
    rows = as_block(block, number, length, columns)
    if rows.shape[0] == 0:
        return empty
    if np.can_cast(rows.dtype, dtype, "safe"):  # otherwise it is solved in its own type, which has no fewer digits
        rows = as_declared(rows, dtype, number)
    name = "X" if length is not None else f"block {number} of X: X"
    return function(rows, start, name, *shared).astype(empty.dtype, copy=False)
