"""Threads are never nested: what runs as one of many tasks already starts none of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["one_thread", "threads_allowed"]

_here = threading.local()


def threads_allowed() -> bool:
    """Whether code of this thread may start others."""
    return not getattr(_here, "single", False)


@contextmanager
def one_thread() -> Iterator[None]:
    """Inside, code of this thread does its work alone. Results are the same either way."""
    before = getattr(_here, "single", False)
    _here.single = True
    try:
        yield
    finally:
        _here.single = before
