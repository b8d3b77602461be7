"""Files that survive a crash, and errors of the disk in one voice."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import StoreError, StoreLockedError

__all__ = ["WriterLock", "disk_errors", "replace_file", "sync_directory"]

_REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the disk is read-only",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EFBIG: "the file would be too large for this disk or limit",
    errno.EIO: "the disk reports an input/output error",
}


@contextmanager
def disk_errors(path: Path, doing: str) -> Iterator[None]:
    """Turn an ``OSError`` into one :class:`StoreError` that says what could not be done, where and why."""
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        reason = _REASONS.get(error.errno or 0, error.strerror or str(error))
        raise StoreError(f"cannot {doing} {path}: {reason}; what was committed before is intact") from error


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: Path, content: bytes) -> None:
    """Write a file so that after a crash it holds either the old content or the new, whole."""
    temporary = path.with_name(path.name + ".tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


class WriterLock:
    """The right to change a store: one holder at a time; the system takes it back when a process dies."""

    def __init__(self, store: Path) -> None:
        path = store / "lock"
        with disk_errors(path, "take the writer's lock"):
            self._descriptor: int | None = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.release()
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise StoreError(f"cannot take the writer's lock {path}: {error.strerror}") from error
            raise StoreLockedError(
                f"another writer has {store} open; close it first, or open with mode='r' to read"
            ) from None

    def release(self) -> None:
        """Give the right back; harmless when repeated."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
