"""Refuse requests that do not fit in memory, before anything is allocated."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from ..errors import TooLargeError
from .arguments import check_size

__all__ = ["available_memory", "check_draws", "check_memory", "total_memory"]

_SMALL = 1 << 23  # bytes that are always accepted: looking up the available memory takes longer than allocating them
_DRAW_BYTES = 16  # of an index and a uniform number
_UNKNOWN = 1 << 32  # bytes assumed if the system does not report its memory

_PROC = Path("/proc")
_GROUPS = Path("/sys/fs/cgroup")
#: For each version of control groups: its folder, files of limit and use, and what the names of numbers begin with.
_VERSIONS = {
    "": ("", "memory.max", "memory.current", ""),
    "memory": ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
}


def total_memory() -> int:
    """Bytes of memory of the machine, or of the container or address space that the process is limited to."""
    return min([_physical(), *(limit for limit, _ in _limits())])


def available_memory() -> int:
    """Bytes of memory that are available without swapping, within the limits of the container and the process."""
    known = _numbers(_PROC / "meminfo").get("MemAvailable:")
    free = _physical() if known is None else 1024 * known
    return min([free, *(max(0, limit - used) for limit, used in _limits())])


def _physical() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # no sysconf
        return _UNKNOWN


def _limits() -> Iterator[tuple[int, int]]:
    """Limits of the process in bytes, each with what is used of it."""
    yield from _limits_of_groups()
    try:
        import resource

        soft = resource.getrlimit(resource.RLIMIT_AS)[0]
        if soft != resource.RLIM_INFINITY:
            yield soft, 1024 * _numbers(_PROC / "self/status").get("VmSize:", 0)
    except (ImportError, AttributeError, ValueError, OSError):  # not on this system
        pass


def _limits_of_groups() -> Iterator[tuple[int, int]]:
    """Limits of the control groups (of containers and services) that the process is in, versions 1 and 2."""
    for line in _text(_PROC / "self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        kinds, _, path = rest.partition(":")
        for kind in set(kinds.split(",")) & set(_VERSIONS):
            folder, *names, prefix = _VERSIONS[kind]
            group = PurePosixPath(path.lstrip("/"))
            for place in (group, *group.parents):  # in a container, only the last may be visible
                found = [_text(_GROUPS / folder / place / name).strip() for name in names]
                if all(text.isdecimal() for text in found):  # "max": no limit
                    limit, used = map(int, found)
                    parts = _numbers(_GROUPS / folder / place / "memory.stat")
                    cached = sum(parts.get(f"{prefix}{state}_file", 0) for state in ("active", "inactive"))
                    yield limit, used - cached  # pages of files, such as mapped stores, can be freed


def _numbers(path: Path) -> dict[str, int]:
    """The first number after each word that begins a line."""
    lines = [line.split() for line in _text(path).splitlines()]
    return {line[0]: int(line[1]) for line in lines if len(line) > 1 and line[1].isdecimal()}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


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
