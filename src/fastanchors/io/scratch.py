"""Temporary files of readers, in the directory of a build, where later builds and writers remove leftovers.

Outside a build they are in directories ``fastanchors-…`` of the system's temporary directory. Each has a file that its
process holds locked, so that later processes can detect and remove those of killed processes.
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

from .._signals import deferred_signals

__all__ = ["SCRATCH", "TemporaryFolder", "scratch_file", "scratch_folder", "scratch_in"]

try:
    import fcntl
except ImportError:  # Windows: leftovers are not removed
    fcntl = None  # type: ignore[assignment]

SCRATCH = "scratch-"  # prefix of scratch directories in a build
_PREFIX, _ALIVE, _YOUNG = "fastanchors-", ".alive", 60  # seconds
_PLACE: ContextVar[Path | None] = ContextVar("place of temporary files", default=None)


@contextmanager
def scratch_in(folder: Path) -> Iterator[None]:
    """Inside this context, temporary files are created in ``folder`` instead of the system's temporary directory."""
    token = _PLACE.set(folder)
    try:
        yield
    finally:
        _PLACE.reset(token)


def scratch_file() -> IO[bytes]:
    """A new unnamed temporary file; it disappears when it is closed or its process ends."""
    return tempfile.TemporaryFile(dir=_PLACE.get())


def scratch_folder() -> tempfile.TemporaryDirectory[str]:
    """A new directory for temporary files."""
    place = _PLACE.get()
    return TemporaryFolder() if place is None else tempfile.TemporaryDirectory(prefix=SCRATCH, dir=place)


class TemporaryFolder(tempfile.TemporaryDirectory[str]):
    """A directory in the system's temporary directory; those of killed processes are removed first.

    Parameters
    ----------
    purpose : str
        Part of its name: ``fastanchors-purpose-…``.
    """

    def __init__(self, purpose: str = "") -> None:
        _remove_dead()
        with deferred_signals():  # a directory that is not locked yet would not be found by other processes
            super().__init__(prefix=f"{_PREFIX}{purpose}-" if purpose else _PREFIX)
            self._alive = _locked(Path(self.name), os.O_CREAT)

    def cleanup(self) -> None:
        """Remove the directory and its contents."""
        with deferred_signals():
            if self._alive is not None:
                self._alive.close()
            with suppress(OSError):
                super().cleanup()


def _locked(folder: Path, flags: int = 0) -> IO[bytes] | None:
    """Lock the file that marks a running process; None if that is not possible."""
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
    """Remove temporary directories of processes that have ended; errors are ignored."""
    with suppress(OSError):
        for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
            if folder.lstat().st_mtime > time.time() - _YOUNG:  # its process may be about to lock it
                continue
            alive = _locked(folder)
            if alive is not None:
                with alive:
                    shutil.rmtree(folder, ignore_errors=True)
