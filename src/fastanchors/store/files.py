"""Files that survive a crash, and errors of the disk in one voice."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from ..errors import CorruptStoreError, StoreError, StoreLockedError
from ..io.addresses import local_path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "WriterLock",
    "absolute",
    "check_platform",
    "create_file",
    "disk_error",
    "disk_errors",
    "exchange",
    "open_file",
    "remove_file",
    "replace_file",
    "sync_directory",
    "which_directory",
]

_REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the disk is read-only",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EFBIG: "the file would be too large for this disk or limit",
    errno.EIO: "the disk reports an input/output error",
    errno.ELOOP: "it is a symbolic link",
    errno.EMFILE: "this process has too many files open",
    errno.ENOMEM: "there is no memory left to map it",
}
# Flags that some systems lack; where there are no links or child processes to guard against, they are not needed.
CLOSE_ON_EXEC, NO_LINKS, NO_WAIT = (getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK"))
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # of Linux


def check_platform() -> None:
    """Raise where the system has no locks that die with their process: nothing would keep two writers apart."""
    if fcntl is None:
        raise StoreError(
            "a store needs the file locks and renames of Linux or macOS; on Windows use it in WSL (the Windows "
            "Subsystem for Linux). Arrays, frames, files that fit in memory and Dask collections work here too"
        )


def absolute(path: str | os.PathLike[str]) -> Path:
    """Where a path leads now: what is open stays open when the process changes its directory or a link is turned."""
    return Path(os.path.realpath(local_path(path)))


@contextmanager
def disk_errors(path: Path, doing: str) -> Iterator[None]:
    """Turn an ``OSError`` into one :class:`StoreError` that says what could not be done, where and why."""
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        raise disk_error(path, doing, error) from error


def disk_error(path: Path, doing: str, error: OSError) -> StoreError:
    """What could not be done, where and why."""
    reason = _REASONS.get(error.errno or 0, error.strerror or str(error))
    return StoreError(f"cannot {doing} {path}: {reason}; what was committed before is intact")


def which_directory(path: Path) -> tuple[int, int] | None:
    """What tells the directory that has this name now from one that had it before; None if there is none."""
    try:
        there = os.stat(path)
    except OSError:
        return None
    return there.st_dev, there.st_ino


def open_file(path: Path) -> BinaryIO:
    """A file of a store for reading: a regular file, not a link to one, nor a pipe that would wait for a writer."""
    try:
        descriptor = os.open(path, os.O_RDONLY | CLOSE_ON_EXEC | NO_LINKS | NO_WAIT)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise CorruptStoreError(f"{path}: it is a symbolic link; a store holds its files itself") from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise CorruptStoreError(f"{path} is not a regular file")
    return os.fdopen(descriptor, "rb")


def create_file(path: Path) -> BinaryIO:
    """A new file of a store for writing. What has the name already is never written to, be it a link or a file."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | CLOSE_ON_EXEC | NO_LINKS
    try:
        return os.fdopen(os.open(path, flags, 0o666), "wb")
    except FileExistsError:
        raise StoreError(
            f"{path} exists already, though the store takes the name for free; run fa.verify, and restore from a copy"
        ) from None


def remove_file(path: Path) -> None:
    """Remove a file that nothing refers to. Where that fails it stays, until the next writer comes by."""
    with suppress(OSError):
        path.unlink(missing_ok=True)


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
    temporary.unlink(missing_ok=True)  # left by a crash
    try:
        with create_file(temporary) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        remove_file(temporary)
        raise
    sync_directory(path.parent)


def exchange(one: Path, other: Path) -> bool:
    """Let two directories swap their names in one step; False where the system or the disk cannot."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
        return False
    raise OSError(code, os.strerror(code), os.fspath(other))


class WriterLock:
    """The right to change a store: one holder at a time; the system takes it back when a process dies."""

    def __init__(self, store: Path) -> None:
        self._store, self._process = store, os.getpid()
        self._path = store / "lock"
        with disk_errors(self._path, "take the writer's lock"):
            flags = os.O_RDWR | os.O_CREAT | CLOSE_ON_EXEC | NO_LINKS
            self._descriptor: int | None = os.open(self._path, flags, 0o666)
        _HELD.add(self)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.release()
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise StoreError(f"cannot take the writer's lock {self._path}: {error.strerror}") from error
            raise StoreLockedError(
                f"another writer has {store} open; close it first, or open with mode='r' to read"
            ) from None

    def check(self) -> None:
        """Raise if this is not the process that took the lock, or if the store is not the one it was taken for."""
        if self._process != os.getpid():
            raise StoreError(
                f"{self._store} was opened for writing by process {self._process}, of which this one is a fork; "
                "write from there, or open it again here when that one has closed it"
            )
        try:
            there = os.stat(self._path, follow_symlinks=False)
        except OSError:
            there = None
        if there is None or self._descriptor is None or not os.path.samestat(there, os.fstat(self._descriptor)):
            raise StoreError(f"{self._store} has been replaced or removed since it was opened; open it again")

    def release(self) -> None:
        """Give the right back; harmless when repeated."""
        if self._descriptor is not None:
            if self._process == os.getpid():
                with suppress(OSError):  # closing gives it back too, unless a fork holds it
                    fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            self.forget()

    def forget(self) -> None:
        """Close this process's hold: in a fork, so that the lock dies with the process that took it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


_HELD: weakref.WeakSet[WriterLock] = weakref.WeakSet()


def _forget_all() -> None:
    for lock in list(_HELD):
        lock.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
