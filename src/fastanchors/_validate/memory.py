"""Refuse requests that do not fit in memory, before anything is allocated."""

from __future__ import annotations

import os
from typing import Any

from ..errors import TooLargeError
from .arguments import check_size

__all__ = ["available_memory", "check_draws", "check_memory"]

_SMALL = 1 << 23  # bytes that are always accepted: looking up the available memory takes longer than allocating them
_DRAW_BYTES = 16  # of an index and a uniform number


def available_memory() -> int:
    """Bytes of memory that are available without swapping."""
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # no sysconf: assume 4 GB
        return 1 << 32


def check_memory(needed: int, what: str, cure: str) -> None:
    """Raise :class:`TooLargeError` if ``what`` needs more bytes than are available."""
    available = available_memory()
    if needed > available:
        raise TooLargeError(
            f"{what} would need about {needed / 1e9:.3g} GB of memory, {available / 1e9:.3g} GB are available; {cure}"
        )


def check_draws(size: Any, *, name: str = "size", minimum: int = 0, each: int = 1) -> int:
    """``size`` as a number of draws, ``each`` times as many in all, that fit in memory."""
    count = check_size(size, name=name, minimum=minimum)
    needed = _DRAW_BYTES * count * each
    if needed > _SMALL:
        check_memory(needed, f"{count * each:,} draws", f"use a smaller {name}")
    return count
