"""Changes that are not committed yet and that memory has no room for: the beginning of their record, in a file."""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from .._signals import pass_on
from ..errors import StoreError
from ..io.positions import write_all
from ..io.scratch import scratch_file, scratch_in
from ..sampling.access_guard import AccessGuard
from .files import disk_errors
from .mapped_matrix import CHANGED_ELSEWHERE
from .operations import Operation, encode

__all__ = ["PendingFile"]

_SHARE = 16  # one part in this many of the memory limit is for operations in memory


class PendingFile:
    """Takes operations that the next commit writes, encoded as in its record. No other process can see the file.

    Parameters
    ----------
    folder
        Directory of the file, which has no name.
    memory_limit
        Of the writer; determines :attr:`room`.
    guard
        Of the matrix: a fork would share the file, so it must not use the matrix.

    Attributes
    ----------
    room
        Bytes of operations that may stay in memory.
    """

    def __init__(self, folder: Path, memory_limit: int, guard: AccessGuard) -> None:
        self._folder, self._guard, self.room = folder, guard, memory_limit // _SHARE
        self._file: IO[bytes] | None = None
        self._end = self._last = 0  # of the operations, and of those before the last call of ``add``

    def __bool__(self) -> bool:
        return self._end > 0

    def add(self, operations: Sequence[Operation]) -> bool:
        """Write operations; False if that is not possible, and then they must stay in memory."""
        end = self._end
        try:
            if self._file is None:
                with scratch_in(self._folder):
                    self._file = scratch_file()
                weakref.finalize(self, self._file.close)
                self._guard.shared = StoreError(CHANGED_ELSEWHERE)
            for piece in encode(operations):
                end += write_all(self._file.fileno(), piece, end)
        except (OSError, MemoryError) as error:
            pass_on(error)
            return False
        self._last, self._end = self._end, end
        return True

    def withdraw(self) -> None:
        """Drop what the last call of :meth:`add` wrote."""
        self._end = self._last

    def parts(self) -> list[Any]:
        """The beginning of the record, mapped."""
        if self._file is None or not self._end:
            return []
        with disk_errors(self._folder, "write to"):
            return [mmap.mmap(self._file.fileno(), self._end, access=mmap.ACCESS_READ)]

    def clear(self) -> None:
        """Drop all operations."""
        if self._file is not None and self._end:
            self._end = self._last = 0
            with suppress(OSError):  # the next operations overwrite them
                os.ftruncate(self._file.fileno(), 0)

    def close(self) -> None:
        """Give the space of the file back; nothing can be added afterwards."""
        if self._file is not None:
            self._end = self._last = 0
            with suppress(OSError):
                self._file.close()
