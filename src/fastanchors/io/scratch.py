"""Where readers keep temporary files: beside what is being built, where the next build or writer finds dead ones."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import IO

__all__ = ["SCRATCH", "scratch_file", "scratch_folder", "scratch_in"]

SCRATCH = "scratch-"  # how the names of these directories begin
_PLACE: ContextVar[Path | None] = ContextVar("place of temporary files", default=None)


@contextmanager
def scratch_in(folder: Path) -> Iterator[None]:
    """Meanwhile, temporary files of readers are kept in ``folder``; otherwise where the system keeps them."""
    token = _PLACE.set(folder)
    try:
        yield
    finally:
        _PLACE.reset(token)


def scratch_file() -> IO[bytes]:
    """A new temporary file without a name, gone when it is closed or its process ends."""
    return tempfile.TemporaryFile(dir=_PLACE.get())


def scratch_folder() -> tempfile.TemporaryDirectory[str]:
    """A new directory for temporary files."""
    place = _PLACE.get()
    return tempfile.TemporaryDirectory(prefix="fastanchors-" if place is None else SCRATCH, dir=place)
