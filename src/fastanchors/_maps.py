"""Pages of mapped files: a process that has passed over a map need not go on holding it."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["release_pages"]


def release_pages(array: NDArray[Any]) -> None:
    """Give back the memory of the whole map that ``array`` lies in; nothing where it lies in no map.

    The pages stay in the cache of the system and come back when touched. Only for maps that were not written to: what
    was changed in a copy-on-write map would be lost.
    """
    base: Any = array
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)
