"""The write log: which rows of a matrix have changed, in order, for any number of followers with their own cursors.

Whoever derives something from the rows (an index, a journal) keeps the cursor it was derived at beside it. The rows
that have to be looked at again are those that changed after that cursor; nobody has to be told, and nothing is cleared.
"""

from __future__ import annotations

import threading
from array import array
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Cursor", "WriteLog"]

_TAIL = 1 << 16  # rows in the order they changed, after which repeats are removed


class Cursor(NamedTuple):
    """A state of the rows: how many row writes had been logged, and how many rows there were."""

    writes: int
    rows: int


class WriteLog:
    """The rows written, numbered from 0 in order. Memory: 16 bytes for each distinct row, and a bounded tail.

    Logging starts with the first call of :meth:`end`, since nobody can ask for what changed before.
    """

    def __init__(self, *, following: bool = False) -> None:
        self._lock = threading.Lock()
        self._following = following
        # Writes before number ``_begin``: every distinct row with the number of its last write. Then all in order.
        self._begin, self._limit = 0, _TAIL
        self._rows, self._last = np.empty(0, np.int64), np.empty(0, np.int64)
        self._tail = array("q")

    def end(self) -> int:
        """The number that the next write will have."""
        with self._lock:
            self._following = True
            return self._begin + len(self._tail)

    def record(self, rows: NDArray[np.int64]) -> None:
        """Those rows are about to be written."""
        if not self._following:
            return
        with self._lock:
            self._tail.frombytes(np.ascontiguousarray(rows, dtype=np.int64).tobytes())
            if len(self._tail) > self._limit:
                self._merge()

    def since(self, number: int) -> NDArray[np.int64]:
        """The rows written by that write or a later one, sorted, each once."""
        with self._lock:
            tail = np.array(self._tail[max(0, number - self._begin) :], dtype=np.int64)
            if number < self._begin:
                tail = np.concatenate([self._rows[self._last >= number], tail])
        return np.unique(tail)

    def _merge(self) -> None:
        """Keep the last write of each row alone."""
        rows = np.concatenate([self._rows, np.array(self._tail, dtype=np.int64)])
        numbers = np.concatenate([self._last, self._begin + np.arange(len(self._tail))])
        self._begin += len(self._tail)
        self._rows, first = np.unique(rows[::-1], return_index=True)
        self._last = numbers[::-1][first]
        self._tail = array("q")
        self._limit = max(_TAIL, len(self._rows))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = threading.Lock()
