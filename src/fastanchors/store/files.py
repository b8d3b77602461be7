"""Durable file operations, the writer's lock, and uniform errors for disk failures."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from .._replacing import DISK_REASONS
from .._signals import pass_on
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
    "content_state",
    "create_file",
    "directory_id",
    "disk_error",
    "disk_errors",
    "exchange",
    "open_file",
    "read_file",
    "remove_file",
    "replace_file",
    "state_of",
    "sync_directory",
]

_REASONS = {
    **DISK_REASONS,
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EIO: "the disk reports an input/output error",
    errno.ELOOP: "it is a symbolic link",
    errno.EMFILE: "this process has too many files open",
    errno.ENOMEM: "there is no memory left to map it",
}
# Flags that some systems do not have; 0 has no effect.
CLOSE_ON_EXEC, NO_LINKS, NO_WAIT = (getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK"))
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # constants of Linux


def check_platform() -> None:
    """Raise if the system has no POSIX file locks, which stores need to exclude a second writer."""
    if fcntl is None:
        raise StoreError(
            "a store needs the file locks and renames of Linux or macOS; on Windows use WSL (the Windows Subsystem for "
            "Linux). Arrays, frames, files that fit in memory and Dask collections work on Windows too"
        )


def absolute(path: str | os.PathLike[str]) -> Path:
    """The real path, so that an open store does not depend on the working directory or on symbolic links."""
    try:
        return Path(os.path.realpath(local_path(path)))
    except FileNotFoundError:
        raise StoreError(f"cannot find {path}: the working directory has been removed; pass an absolute path") from None


@contextmanager
def disk_errors(path: Path, doing: str) -> Iterator[None]:
    """Turn an ``OSError`` into a :class:`StoreError` with action, path and reason."""
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        raise disk_error(path, doing, error) from error


def disk_error(path: Path, doing: str, error: OSError) -> StoreError:
    """A :class:`StoreError` with action, path and reason; raises what a handler raised, such as a ``TimeoutError``."""
    pass_on(error)
    reason = _REASONS.get(error.errno or 0, error.strerror or str(error))
    if doing == "read":
        return StoreError(f"cannot read {error.filename or path}: {reason}")
    return StoreError(f"cannot {doing} {path}: {reason}; what was committed before is intact")


def directory_id(path: Path) -> tuple[int, int] | None:
    """Device and inode of the directory, to detect that it was replaced; None if it does not exist."""
    try:
        there = os.stat(path)
    except OSError as error:
        pass_on(error)
        return None
    return there.st_dev, there.st_ino


def state_of(there: os.stat_result) -> tuple[int, ...]:
    """What changes if a file is replaced or overwritten, also by a program that sets the time of the file back."""
    return there.st_dev, there.st_ino, there.st_size, there.st_mtime_ns, there.st_ctime_ns


def content_state(there: os.stat_result) -> tuple[int, ...]:
    """What changes if a file is replaced or written to, but not with its permissions, its owner or its links."""
    return there.st_ino, there.st_size, there.st_mtime_ns


def close_descriptor(descriptor: int) -> None:
    """Close a file whose content is synced. An error does not matter then, and the number is free in any case."""
    with suppress(OSError):
        os.close(descriptor)


def open_file(path: Path, *, write: bool = False) -> BinaryIO:
    """Open a file of a store to read it, or to change it too; it must be a regular file (not a link or a pipe)."""
    access = os.O_RDWR if write else os.O_RDONLY
    try:
        descriptor = os.open(path, access | CLOSE_ON_EXEC | NO_LINKS | NO_WAIT)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise CorruptStoreError(f"{path} is a symbolic link; the files of a store must be regular files") from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        close_descriptor(descriptor)
        raise CorruptStoreError(f"{path} is not a regular file")
    return os.fdopen(descriptor, "r+b" if write else "rb")


def read_file(path: Path) -> bytes:
    """The whole content of a file of a store."""
    with open_file(path) as file:
        content: bytes | None = file.read()
    if content is None:  # the disk has no answer yet
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), os.fspath(path))
    return content


def create_file(path: Path) -> BinaryIO:
    """Create a file of a store for writing; raises if the name exists already, as a file or as a link."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | CLOSE_ON_EXEC | NO_LINKS
    try:
        return os.fdopen(os.open(path, flags, 0o666), "wb")
    except FileExistsError:
        raise StoreError(
            f"{path} exists already, but the store does not refer to it; run fa.verify, and restore from a copy"
        ) from None


def remove_file(path: Path) -> None:
    """Remove a file that nothing refers to. If that fails, the next writer removes it."""
    with suppress(OSError):
        path.unlink(missing_ok=True)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        close_descriptor(descriptor)


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file atomically: after a crash it has either the old or the new content."""
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
    """Exchange the names of two directories in one step; False if the system or the disk does not support it."""
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
    """The exclusive lock of a writer; the system releases it when the process ends."""

    _descriptor: int | None = None

    def __init__(self, store: Path) -> None:
        self._store, self._process = store, os.getpid()
        self._path = store / "lock"
        with disk_errors(self._path, "take the writer's lock"):
            flags = os.O_RDWR | os.O_CREAT | CLOSE_ON_EXEC | NO_LINKS
            self._descriptor = os.open(self._path, flags, 0o666)
        _HELD.add(self)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.release()
            pass_on(error)
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise StoreError(f"cannot take the writer's lock {self._path}: {error.strerror}") from error
            raise StoreLockedError(
                f"another writer has {store} open; close it first, or open with mode='r' to read"
            ) from None

    def check(self) -> None:
        """Raise if this is not the process that took the lock, or if the store was replaced since then."""
        if self._process != os.getpid():
            raise StoreError(
                f"{self._store} was opened for writing by process {self._process}, and this process is a fork of it; "
                "write in that process, or open the store here after that process has closed it"
            )
        with disk_errors(self._path, "check the writer's lock"):
            held = None if self._descriptor is None else os.fstat(self._descriptor)
            try:
                there = os.stat(self._path, follow_symlinks=False)
            except (FileNotFoundError, NotADirectoryError):
                there = None
        if there is None or held is None or not os.path.samestat(there, held):
            raise StoreError(f"{self._store} has been replaced or removed since it was opened; open it again")

    def release(self) -> None:
        """Release the lock; further calls have no effect."""
        if self._descriptor is not None:
            if self._process == os.getpid():
                with suppress(OSError):  # closing the file releases it too, unless a fork has it open
                    fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            self.forget()

    def forget(self) -> None:
        """Close the file without releasing the lock: in a fork, so that only the original process holds it."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            close_descriptor(descriptor)

    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if not ending():  # then modules are empty already, and the system releases it
            self.release()


_HELD: weakref.WeakSet[WriterLock] = weakref.WeakSet()


def _forget_all() -> None:
    for lock in list(_HELD):
        lock.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
