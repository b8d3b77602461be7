"""The blocks of rows of a Dask array or data frame: how many there are, and tasks on each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..errors import InvalidInputError, InvalidTypeError
from ..matrix.contract import Rows
from .tasks import Arguments, Pool, need_dask, pickled_bytes, run, token

__all__ = ["Collection", "as_block", "check_length", "is_frame", "layout"]

_SMALL = 1 << 23  # bytes of arguments that travel with the tasks of a batch, all together


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


class Collection:
    """A Dask array or data frame as blocks of whole rows.

    Attributes
    ----------
    layout
        Layout
    count : int
        Number of blocks.
    """

    def __init__(self, lazy: Any, pool: Pool) -> None:
        self.layout, self.pool = layout(lazy), pool
        self._frame = is_frame(lazy)
        self._lazy = lazy.to_delayed() if self._frame else lazy.rechunk({1: -1}) if lazy.numblocks[1] > 1 else lazy
        self.count: int = len(self._lazy) if self._frame else lazy.numblocks[0]

    def starts(self) -> list[int]:
        """The first row of each block, and the number of all rows; blocks of unknown length are counted."""
        lengths = self.layout.lengths
        if lengths is None:
            lengths = self.each("length", _length)
        return [0, *np.cumsum(lengths, dtype=np.int64).tolist()]

    def each(
        self,
        name: str,
        function: Callable[..., Any],
        which: Sequence[int] | None = None,
        own: Sequence[tuple[Any, ...]] | None = None,
        shared: tuple[Any, ...] = (),
    ) -> list[Any]:
        """``function(block, *own[i], *shared)`` for those blocks (all of them by default); results in order."""
        return self.pool.compute(self.tasks(name, function, which, own, shared), (own, shared))

    def tasks(
        self,
        name: str,
        function: Callable[..., Any],
        which: Sequence[int] | None = None,
        own: Sequence[tuple[Any, ...]] | None = None,
        shared: tuple[Any, ...] = (),
    ) -> list[Any]:
        """A task for each of those blocks; nothing is computed.

        With small arguments Dask makes one task of a block and the function, so that no block waits to be moved. Large
        arguments that all share are a node of their own, sent once to each worker.
        """
        if self._frame:
            parts = self._lazy if which is None else [self._lazy[i] for i in which]
            return self.pool.tasks(name, function, parts, own, shared)
        blocks = self._lazy if which is None else self._lazy.blocks[list(which)]
        count, mark = blocks.numblocks[0], token()
        common: Any = Arguments(function, (own, shared))
        if count * pickled_bytes((own, shared)) > _SMALL:
            common = need_dask().delayed(common, name=f"fastanchors-shared-{mark}", traverse=False)
        made = blocks.map_blocks(
            _on_block,
            common=common,
            name=f"fastanchors-{name}-{mark}",
            dtype=object,
            meta=np.empty((0, 0), object),
            chunks=((1,) * count, (1,)),
        )
        return list(made.to_delayed().reshape(-1))


def _on_block(block: Any, common: Arguments, block_id: tuple[int, ...] = (0, 0)) -> Any:
    own, shared = common.values
    return run(block, Arguments(common.function, shared), Arguments(None, own[block_id[0]] if own else ()))


def _length(block: Any) -> int:
    return int(block.shape[0])
