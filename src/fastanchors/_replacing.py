"""Write files atomically: complete or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import FastAnchorsError, StoreError

__all__ = ["DISK_REASONS", "full_disk_errors", "replacing"]

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


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary file beside ``path`` to write to; it replaces ``path`` at the end and is removed on an exception."""
    partial = path.with_name(f".{path.name}.partial-{os.getpid()}")
    try:
        with full_disk_errors(path):
            yield partial
            os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
