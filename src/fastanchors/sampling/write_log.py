"""The write log: every change of a matrix in order, for any number of followers with cursors of their own.

A cursor is a number: how many writes were logged before it. Whoever derives something from the rows (an index) keeps
the cursor it was derived at beside it; the rows to look at again are those written since. The journal of a store
follows the same log: it asks for the operations themselves, and says when they are durable.

Entries set one by one are buffered and written together by the next call that reads. Writing one entry touches some ten
places in memory, each a cache miss or, in a mapped file, a page to be copied; a batch shares much of that.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Entries", "WriteLog", "joined"]

_TAIL = 1 << 16  # rows in the order they were written, after which repeats are removed
_BUFFER = 1 << 12  # entries set one by one that are written together
_APPENDED = -1  # in place of a row: rows were appended
_JOIN = 1 << 12  # operations after which neighbours are joined: few long arrays take less memory than many short ones


class Entries(NamedTuple):
    """Stored entries become these values; of several for one entry the last counts."""

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    values: NDArray[Any]


class WriteLog:
    """The log of one matrix.

    Memory: 16 bytes for each distinct row written since somebody follows, a bounded tail, and the operations that the
    journal has not made durable.

    Parameters
    ----------
    journaled : bool
        Whether operations are kept until :meth:`discard_operations`. Without a journal only rows are logged, from the
        first use of :attr:`end` on, since nobody can ask for what was written before.
    """

    def __init__(self, *, journaled: bool = False) -> None:
        self.lock = threading.RLock()
        self._journaled = self._following = journaled
        self._flushing = False
        self._start_buffer()
        # Writes before number ``_begin``: every distinct row with the number of its last write. Then all in order.
        self._begin, self._limit = 0, _TAIL
        self._rows, self._last = np.empty(0, np.int64), np.empty(0, np.int64)
        self._tail = array("q")
        self._append_numbers: list[int] = []  # of the writes that appended rows ...
        self._append_rows: list[int] = []  # ... and the first row that each appended
        self._operations: list[Any] = []
        self._logged = 0  # operations since the last join

    # --- entries set one by one -------------------------------------------------------------------------------------

    def _start_buffer(self) -> None:
        self._buffer = array("q"), array("q"), array("d")
        self.buffered = False

    def buffer(self, i: int, j: int, x: float) -> bool:
        """Take an entry that has been checked; returns whether it is time to flush."""
        rows, columns, values = self._buffer
        rows.append(i)
        columns.append(j)
        values.append(x)
        self.buffered = True
        return len(rows) >= _BUFFER

    def flush(self, write: Callable[[Entries], None]) -> None:
        """Have the buffered entries written. Should it be interrupted, they are written again: that changes nothing."""
        with self.lock:
            if not self.buffered or self._flushing:
                return
            self._flushing = True
            try:
                i, j, x = self._buffer
                entries = Entries(np.array(i, np.int64), np.array(j, np.int64), np.array(x, np.float64))
                self._log_rows(entries.rows)
                write(entries)
                self._start_buffer()
                self._log_operation(entries)
            finally:
                self._flushing = False

    # --- operations -------------------------------------------------------------------------------------------------

    def record(self, entries: Entries) -> None:
        """A batch of entries has been written, or is about to be."""
        with self.lock:
            self._log_rows(entries.rows)
            if self._journaled:
                self._log_operation(Entries(*(part.copy() for part in entries)))

    def record_append(self, first_row: int, operation: Any = None) -> None:
        """Rows from ``first_row`` on are new; ``operation`` is what the journal will be asked to write."""
        with self.lock:
            if self._following:
                self._append_numbers.append(self._end())
                self._append_rows.append(first_row)
                self._log_rows(np.array([_APPENDED]))
            self._log_operation(operation)

    def withdraw(self) -> None:
        """The last operation did not take place. Its rows remain logged: whoever follows looks at them in vain."""
        with self.lock:
            if self._operations:
                self._operations.pop()

    def _log_rows(self, rows: NDArray[np.int64]) -> None:
        if self._following:
            self._tail.frombytes(np.ascontiguousarray(rows, dtype=np.int64).tobytes())
            if len(self._tail) > self._limit:
                self._merge()

    def _log_operation(self, operation: Any) -> None:
        if not self._journaled:
            return
        if self._logged >= _JOIN:  # those before: the last one may be withdrawn
            self._operations, self._logged = joined(self._operations), 0
        self._operations.append(operation)
        self._logged += 1

    # --- followers --------------------------------------------------------------------------------------------------

    @property
    def end(self) -> int:
        """The cursor of the present state."""
        with self.lock:
            self._following = True
            return self._end()

    def _end(self) -> int:
        return self._begin + len(self._tail)

    def rows_since(self, cursor: int, rows: int) -> NDArray[np.int64]:
        """Rows written since that cursor, and those appended since, of a matrix that has ``rows`` now; sorted."""
        with self.lock:
            written = self.rows_written_since(cursor)
            at = bisect_left(self._append_numbers, cursor)
            new = self._append_rows[at] if at < len(self._append_rows) else rows
        return np.concatenate([written[written < new], np.arange(new, rows)])

    def rows_written_since(self, cursor: int) -> NDArray[np.int64]:
        """Rows of which entries were set since that cursor, sorted, each once."""
        with self.lock:
            rows = np.array(self._tail[max(0, cursor - self._begin) :], dtype=np.int64)
            if cursor < self._begin:
                rows = np.concatenate([self._rows[self._last >= cursor], rows])
        return np.unique(rows[rows != _APPENDED])

    def written_since(self, cursor: int) -> int:
        """How many row writes were logged since that cursor."""
        return self._end() - cursor

    def operations(self) -> list[Any]:
        """What the journal has not made durable, in order; neighbouring changes of entries as one."""
        with self.lock:
            self._operations, self._logged = joined(self._operations), 0
            return list(self._operations)

    def discard_operations(self) -> None:
        """The operations are durable, or never will be."""
        with self.lock:
            self._operations, self._logged = [], 0

    @property
    def pending(self) -> bool:
        """Whether there is something that the journal has not made durable."""
        return self.buffered or bool(self._operations)

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
        return {name: value for name, value in vars(self).items() if name != "lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.lock = threading.RLock()


def joined(operations: list[Any]) -> list[Any]:
    """The same operations with neighbouring changes of entries as one."""
    result: list[Any] = []
    run: list[Entries] = []
    for operation in [*operations, None]:
        if isinstance(operation, Entries):
            run.append(operation)
            continue
        if run:
            result.append(run[0] if len(run) == 1 else Entries(*(np.concatenate(parts) for parts in zip(*run))))
            run = []
        if operation is not None:
            result.append(operation)
    return result
