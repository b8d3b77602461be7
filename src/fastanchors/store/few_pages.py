"""Read mapped rows without keeping many of their pages in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ..sampling.gather import is_range
from ..sampling.row_block import Block

__all__ = ["few_pages"]

_PAGES = 1 << 22  # bytes of mapped pages that reading one row may load, with the read-ahead of the system
_PAGES_SHARE = 4  # one part in this many of the memory limit is for mapped pages of rows that are read together
_ROW_ARRAYS = ("indptr", "indices", "data", "l1_sums")  # of a block, read for its rows


def few_pages(
    rows: NDArray[np.int64],
    holding: NDArray[np.int64],
    blocks: Sequence[Block],
    changed: set[int],
    memory_limit: int,
) -> Iterator[NDArray[np.int64]]:
    """Those rows in parts that load few mapped pages: at most those of the rows of their blocks.

    ``holding`` is the number of the block of each row. Pages of ``changed`` blocks are not released, so they do not
    count.
    """
    few = max(1, memory_limit // _PAGES)
    if rows.size <= few or is_range(rows):
        yield rows
        return
    sizes = np.zeros(len(blocks), dtype=np.int64)
    for number in set(holding.tolist()) - changed:
        arrays = blocks[number].arrays()
        sizes[number] = sum(arrays[name].nbytes for name in _ROW_ARRAYS if name in arrays)
    begins = np.flatnonzero(np.diff(holding, prepend=-1))  # of rows of one block
    order = np.arange(rows.size)
    order -= np.repeat(begins, np.diff(begins, append=rows.size))
    before = np.minimum(sizes[holding], _PAGES * order)  # loaded by the rows before it in the same block
    ends = np.cumsum(np.minimum(sizes[holding] - before, _PAGES))
    start = 0
    while start < rows.size:
        loaded = (ends[start - 1] if start else 0) - before[start]
        room = loaded + memory_limit // _PAGES_SHARE
        stop = max(start + few, int(np.searchsorted(ends, room, side="right")))
        yield rows[start:stop]
        start = stop
