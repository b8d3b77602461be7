"""Write files atomically: complete or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import FastAnchorsError, StoreError

__all__ = ["DISK_REASONS", "full_disk_errors", "partial_path", "replacing"]

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
        with full_disk_errors(path):
            yield partial
            os.replace(partial, path)
    except FastAnchorsError:
        raise
    except OSError as error:
        if error.filename != str(partial):
            raise
        missing = isinstance(error, FileNotFoundError) and not path.parent.is_dir()
        reason = f"the folder {path.parent} does not exist" if missing else error.strerror
        raise StoreError(f"cannot write {path}: {reason}") from error
    finally:
        _remove(partial)


def _remove(partial: Path) -> None:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        partial.unlink()
