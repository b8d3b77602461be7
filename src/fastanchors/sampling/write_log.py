"""The write log of a matrix: all changes in order, for any number of readers with their own cursors.

A cursor is the number of writes logged before it. Derived data (an index) is stored with the cursor of its state; the
rows written since then are those to update it from. The journal of a store uses the same log: it reads the operations,
and discards them when they are durable.

Entries set one by one are buffered and written together before the next read. Writing one entry touches about ten
places in memory, each a cache miss or, in a mapped file, a page to copy; a batch shares much of that.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from .._distinct import distinct, left_out, places
from .._parallel import ResetInForks
from .._signals import deferred_signals

__all__ = ["Entries", "Overflow", "WriteLog", "joined"]

_TAIL = 1 << 16  # length of the tail at which repeated rows are merged, ...
_TAIL_SHARE = 4  # ... or this part of the rows that were merged before, if that is more
_BUFFER = 1 << 12  # size of the buffer of single entries
_APPENDED = -1  # in place of a row number: rows were appended
_JOIN = 1 << 12  # operations after which neighbours are joined, because few long arrays take less memory


class Entries(NamedTuple):
    """New values of stored entries; of several for one entry the last wins."""

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    values: NDArray[Any]

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.rows.nbytes + self.columns.nbytes + self.values.nbytes


class Overflow(Protocol):
    """Where a log puts operations that exceed ``room`` bytes, such as a file."""

    room: int

    def add(self, operations: list[Any], /) -> bool:
        """Take operations; False if they must stay in memory."""

    def withdraw(self) -> None:
        """Drop those of the last call of :meth:`add`."""

    def clear(self) -> None:
        """Drop all."""

    def __bool__(self) -> bool:
        """Whether there are any."""


class WriteLog(ResetInForks):
    """The log of one matrix.

    Memory: 16 bytes for each distinct row written since the first cursor was taken, a bounded tail, and the operations
    that are not durable yet, as far as :attr:`overflow` has room for them.

    Parameters
    ----------
    journaled : bool
        Whether operations are kept until :meth:`discard_operations`. Without a journal only rows are logged, and only
        after the first use of :attr:`end`, because no earlier cursor exists.

    Attributes
    ----------
    overflow
        Takes the operations that are more than its ``room``; with None all stay in memory.
    """

    def __init__(self, *, journaled: bool = False) -> None:
        self.lock = threading.RLock()
        self._journaled = self._following = journaled
        self._flushing = False
        self._start_buffer()
        # Writes before ``_begin`` are stored as distinct rows with the number of their last write, later ones in order.
        self._begin, self._limit = 0, _TAIL
        self._rows, self._last = np.empty(0, np.int64), np.empty(0, np.int64)
        self._tail = array("q")
        self._append_numbers: list[int] = []  # of the writes that appended rows ...
        self._append_rows: list[int] = []  # ... and the first row that each appended
        self._operations: list[Any] = []
        self._logged = self._size = 0  # operations since the last join, and bytes of all
        self.overflow: Overflow | None = None
        self.reset_in_forks()

    # --- entries set one by one -------------------------------------------------------------------------------------

    def _start_buffer(self) -> None:
        self._buffer: list[tuple[int, int, float]] = []
        self.buffered = False

    def buffer(self, i: int, j: int, x: float) -> bool:
        """Add a validated entry to the buffer; returns whether the buffer is full."""
        self.buffered = True
        self._buffer.append((i, j, x))  # one step, which no exception of a signal handler can divide
        return len(self._buffer) >= _BUFFER

    def flush(self, write: Callable[[Entries], None]) -> None:
        """Write the buffered entries. If it fails, they stay in the buffer; writing them twice is harmless."""
        with self.lock:
            if not self._buffer or self._flushing:
                return
            with deferred_signals():
                self._flushing = True
                try:
                    i, j, x = zip(*self._buffer, strict=True)
                    entries = Entries(np.array(i, np.int64), np.array(j, np.int64), np.array(x, np.float64))
                    self._log_rows(entries.rows)
                    write(entries)
                    self._start_buffer()
                    self._log_operation(entries, entries.nbytes)
                finally:
                    self._flushing = False

    # --- operations -------------------------------------------------------------------------------------------------

    def record(self, entries: Entries) -> None:
        """Log a batch of entries that was written or is about to be written."""
        with self.lock:
            self._log_rows(entries.rows)
            self._log_operation(entries, entries.nbytes)

    def record_append(self, first_row: int, operation: Any = None, nbytes: int = 0) -> None:
        """Log that rows from ``first_row`` on were appended; ``operation`` is the record for the journal."""
        with self.lock:
            if self._following:
                self._append_numbers.append(self._end())
                self._append_rows.append(first_row)
                self._log_rows(np.array([_APPENDED]))
            self._log_operation(operation, nbytes)

    def withdraw(self) -> None:
        """Remove the last operation, which failed. Its rows remain logged, which costs readers time only."""
        with self.lock:
            if self._operations:
                self._operations.pop()
            elif self.overflow is not None:
                self.overflow.withdraw()

    def _log_rows(self, rows: NDArray[np.int64]) -> None:
        if self._following:
            for start in range(0, len(rows), _TAIL):  # few at a time, because merging takes many times their memory
                self._tail.frombytes(np.ascontiguousarray(rows[start : start + _TAIL], dtype=np.int64).tobytes())
                if len(self._tail) > self._limit:
                    self._merge()

    def _log_operation(self, operation: Any, nbytes: int) -> None:
        if not self._journaled or self._overflows(operation, nbytes):
            return
        if isinstance(operation, Entries):
            operation = Entries(*(part.copy() for part in operation))
        if self._logged >= _JOIN:  # before appending, because the last operation may be withdrawn
            self._operations, self._logged = joined(self._operations), 0
        self._operations.append(operation)
        self._logged += 1
        self._size += nbytes

    def _overflows(self, operation: Any, nbytes: int) -> bool:
        """Make room for an operation by the overflow of those in memory; returns whether it went there too."""
        if self.overflow is None or self._size + nbytes <= self.overflow.room:
            return False
        if self._operations:
            if not self.overflow.add(joined(self._operations)):
                return False
            self._drop_operations()
        return nbytes > self.overflow.room and self.overflow.add([operation])

    def _drop_operations(self) -> None:
        self._operations, self._logged, self._size = [], 0, 0

    # --- followers --------------------------------------------------------------------------------------------------

    @property
    def end(self) -> int:
        """The cursor of the current state."""
        with self.lock:
            self._following = True
            return self._end()

    def _end(self) -> int:
        return self._begin + len(self._tail)

    def rows_since(self, cursor: int, rows: int) -> NDArray[np.int64]:
        """Rows written or appended since ``cursor``, sorted; ``rows`` is the current number of rows."""
        with self.lock:
            written = self.rows_written_since(cursor)
            at = bisect_left(self._append_numbers, cursor)
            new = self._append_rows[at] if at < len(self._append_rows) else rows
        written = written[: np.searchsorted(written, new)]
        return np.concatenate([written, np.arange(new, rows)]) if new < rows else written

    def rows_written_since(self, cursor: int) -> NDArray[np.int64]:
        """Distinct rows with entries set since ``cursor``, sorted."""
        with self.lock:
            rows = distinct(np.array(self._tail[max(0, cursor - self._begin) :], dtype=np.int64))
            if cursor < self._begin:
                before = self._rows[self._last >= cursor]  # distinct too, and often most of the rows of the matrix
                rows = np.concatenate([before, left_out(rows, before)])
                rows.sort()
        return rows[np.searchsorted(rows, 0) :]  # without _APPENDED

    def written_since(self, cursor: int) -> int:
        """Number of row writes logged since ``cursor``."""
        return self._end() - cursor

    def operations(self) -> list[Any]:
        """The operations that are neither durable nor in the overflow; neighbouring changes of entries are joined."""
        with self.lock:
            self._operations, self._logged = joined(self._operations), 0
            return list(self._operations)

    def discard_operations(self) -> None:
        """Drop the operations, because they are durable or abandoned."""
        with self.lock:
            self._drop_operations()
            if self.overflow is not None:
                self.overflow.clear()

    @property
    def pending(self) -> bool:
        """Whether there are changes that are not durable yet."""
        return bool(self._buffer) or bool(self._operations) or bool(self.overflow)

    @property
    def nbytes(self) -> int:
        """Bytes of the rows that are logged; the operations are not counted."""
        return self._rows.nbytes + self._last.nbytes + len(self._tail) * self._tail.itemsize

    def _merge(self) -> None:
        """Keep only the last write of each row."""
        tail = np.array(self._tail, dtype=np.int64)
        order = np.argsort(tail, kind="stable")
        ends = np.append(tail[order[1:]] != tail[order[:-1]], True)  # the last write of each row of the tail
        order = order[ends]
        rows, numbers = tail[order], self._begin + order
        at, known = places(rows, self._rows)
        self._last[at[known]] = numbers[known]  # readers find these rows in the tail as well
        at, rows, numbers = at[~known], rows[~known], numbers[~known]
        rows, last = np.insert(self._rows, at, rows), np.insert(self._last, at, numbers)
        with deferred_signals():
            self._rows, self._last = rows, last
            self._begin += len(tail)
            self._tail = array("q")
            self._limit = max(_TAIL, len(rows) // _TAIL_SHARE)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.after_fork()
        self.reset_in_forks()

    def after_fork(self) -> None:
        self.lock = threading.RLock()
        self._flushing = False  # another thread was, and the entries are still in the buffer


def joined(operations: list[Any]) -> list[Any]:
    """The same operations, with neighbouring changes of entries joined."""
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
