"""Write files atomically: complete or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ._signals import deferred_signals, pass_on
from .errors import FastAnchorsError, StoreError

__all__ = ["DISK_REASONS", "check_target", "full_disk_errors", "make_folder", "partial_path", "replacing", "writing"]

_LONGEST = 200  # bytes of a name in that of its temporary file; file systems allow 255 in all
DISK_REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file would be too large for this disk or limit",
    errno.EROFS: "the disk is read-only",
}


@contextmanager
def full_disk_errors(path: Path | str) -> Iterator[None]:
    """Turn errors of a full or read-only disk into a ``StoreError`` that names the file."""
    try:
        yield
    except FastAnchorsError:
        raise
    except OSError as error:
        if error.errno not in DISK_REASONS:
            raise
        raise StoreError(f"cannot write {path}: {DISK_REASONS[error.errno]}") from error


def partial_path(path: Path) -> Path:
    """The temporary file of this process beside ``path``; a long name is shortened, so that the longer one is valid."""
    name = path.name
    if len(os.fsencode(name)) > _LONGEST:
        name = f"{name[:40]}-{zlib.crc32(os.fsencode(name)):08x}"
    return path.with_name(f".{name}.partial-{os.getpid()}")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary file beside ``path`` to write to; it replaces ``path`` at the end and is removed on an exception.

    If it cannot be written, a ``StoreError`` names ``path``.
    """
    partial = partial_path(path)
    try:
        with writing(path, partial):
            yield partial
            os.replace(partial, path)
    finally:
        with deferred_signals():
            _remove(partial)


@contextmanager
def writing(path: Path, partial: Path) -> Iterator[None]:
    """Turn errors of ``partial``, the temporary file of ``path``, into a ``StoreError`` that names ``path``.

    What is there and is no file, such as a device or a pipe, is refused: a file would take its place.
    """
    check_target(path)
    try:
        with full_disk_errors(path):
            yield
    except FastAnchorsError:
        raise
    except OSError as error:
        if os.fspath(error.filename or "") != str(partial):
            raise
        missing = isinstance(error, FileNotFoundError) and not path.parent.is_dir()
        reason = f"the folder {path.parent} does not exist" if missing else error.strerror
        raise StoreError(f"cannot write {path}: {reason}") from error


def check_target(path: Path) -> None:
    """Raise if ``path`` exists and is no regular file."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return  # nothing is there, or writing says why it is not a path
    if not stat.S_ISREG(mode):
        kind = "Is a directory" if stat.S_ISDIR(mode) else "it is a device or a pipe"
        raise StoreError(f"cannot write {path}: {kind}; pass the path of a file")


def make_folder(folder: Path) -> None:
    """Make a folder for results and its parents, if needed; a ``StoreError`` says why it cannot be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        pass_on(error)
        reason = DISK_REASONS.get(error.errno or 0, error.strerror)
        if isinstance(error, FileExistsError | NotADirectoryError):
            reason = "a file has that name; move it, or pass another folder"
        raise StoreError(f"cannot make the folder {folder}: {reason}") from error


def _remove(partial: Path) -> None:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        partial.unlink()
