"""Where readers keep temporary files: beside what is being built, where the next build or writer finds dead ones.

Elsewhere they are in directories ``fastanchors-…`` of the system's temporary directory. Each holds a locked file as
long as its process lives, so that the next process can tell the dead from the living and removes them.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import IO

__all__ = ["SCRATCH", "TemporaryFolder", "scratch_file", "scratch_folder", "scratch_in"]

try:
    import fcntl
except ImportError:  # no POSIX system: the system's own cleaning must do
    fcntl = None  # type: ignore[assignment]

SCRATCH = "scratch-"  # how the names of these directories begin
_PREFIX, _ALIVE, _YOUNG = "fastanchors-", ".alive", 60  # seconds
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
    return TemporaryFolder() if place is None else tempfile.TemporaryDirectory(prefix=SCRATCH, dir=place)


class TemporaryFolder(tempfile.TemporaryDirectory[str]):
    """A directory in the system's temporary directory; those of processes that were killed are removed first.

    Parameters
    ----------
    purpose : str
        What its name says besides: ``fastanchors-purpose-…``.
    """

    def __init__(self, purpose: str = "") -> None:
        _remove_dead()
        super().__init__(prefix=f"{_PREFIX}{purpose}-" if purpose else _PREFIX)
        self._alive = _locked(Path(self.name), os.O_CREAT)

    def cleanup(self) -> None:
        """Remove it, and what it holds."""
        if self._alive is not None:
            self._alive.close()
        with suppress(OSError):
            super().cleanup()


def _locked(folder: Path, flags: int = 0) -> IO[bytes] | None:
    """The file that a living process holds locked, now locked by this one; None where that cannot be."""
    if fcntl is None:
        return None
    try:
        file = os.fdopen(os.open(folder / _ALIVE, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | flags, 0o600), "rb")
    except OSError:
        return None
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    return file


def _remove_dead() -> None:
    """Remove temporary directories of ours whose processes are gone, as far as that succeeds."""
    with suppress(OSError):
        for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
            alive = _locked(folder)
            if alive is not None:
                with alive:
                    if folder.stat().st_mtime < time.time() - _YOUNG:  # a younger one may be about to be locked
                        shutil.rmtree(folder, ignore_errors=True)
