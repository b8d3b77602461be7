"""Give memory back to the system: resident pages of memory-mapped files, and what the allocator keeps."""

from __future__ import annotations

import ctypes
import mmap
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["release_freed", "release_pages"]


def release_freed() -> None:
    """Give back what was freed: glibc keeps it for each thread that has worked, as much as all of them ever held."""
    if sys.platform.startswith("linux"):
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # other C libraries have none, and keep less
        if trim is not None:
            trim(0)


def release_pages(array: NDArray[Any]) -> None:
    """Drop the resident pages of the whole memory map behind ``array``; do nothing if it is not mapped.

    The pages stay in the page cache and are loaded again on access. Use it only for maps that were not written to:
    changes in a copy-on-write map would be lost.
    """
    base: Any = array
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)
