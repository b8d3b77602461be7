"""The guard of a matrix: any number of threads may read it, or one may write; anything else is an error.

Kernels run without the interpreter's lock and do not check indices. A write beside them would have them read arrays in
the middle of a change, which costs the process and not just the answer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from ..errors import ConcurrentAccessError

__all__ = ["AccessGuard", "Reading", "reads", "writes"]

_PATIENCE = 0.001  # seconds between two looks

_Method = TypeVar("_Method", bound=Callable[..., Any])


class AccessGuard:
    """Counts who reads and who writes, by thread; a thread that writes may also read."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._readers: dict[int, int] = {}
        self._writer, self._depth = 0, 0

    def begin_read(self) -> None:
        me = threading.get_ident()
        with self.lock:
            if self._writer and self._writer != me:
                raise ConcurrentAccessError(
                    "another thread is changing this matrix; let one thread write while no other reads, "
                    "or give each thread a matrix (or a store opened for reading) of its own"
                )
            self._readers[me] = self._readers.get(me, 0) + 1

    def end_read(self) -> None:
        me = threading.get_ident()
        with self.lock:
            self._readers[me] -= 1
            if not self._readers[me]:
                del self._readers[me]

    def begin_write(self) -> None:
        me = threading.get_ident()
        with self.lock:
            self.check_alone()
            self._writer, self._depth = me, self._depth + 1

    def wait_to_write(self) -> None:
        """As :meth:`begin_write`, when the other threads have finished."""
        while True:
            try:
                return self.begin_write()
            except ConcurrentAccessError:
                time.sleep(_PATIENCE)

    def check_alone(self) -> None:
        """Raise where another thread reads or writes; the caller holds the lock."""
        if not self._readers and not self._writer:
            return
        me = threading.get_ident()
        if (self._writer and self._writer != me) or any(reader != me for reader in self._readers):
            raise ConcurrentAccessError(
                "this matrix cannot be changed while another thread uses it: nothing was changed; let the other "
                "threads finish first, or give them a matrix (or a store opened for reading) of their own"
            )

    def end_write(self) -> None:
        with self.lock:
            self._depth -= 1
            if not self._depth:
                self._writer = 0

    def __reduce__(self) -> Any:
        return AccessGuard, ()


class Reading:
    """A context of one thread that reads. What is buffered is flushed first."""

    __slots__ = ("_flush", "_guard")

    def __init__(self, guard: AccessGuard, flush: Callable[[], None]) -> None:
        self._guard, self._flush = guard, flush

    def __enter__(self) -> None:
        with self._guard.lock:
            self._guard.begin_read()
            try:
                self._flush()
            except BaseException:
                self._guard.end_read()
                raise

    def __exit__(self, *_: object) -> None:
        self._guard.end_read()


def reads(method: _Method) -> _Method:
    """A method that reads: where the matrix can be changed, not while another thread does so."""

    @wraps(method)
    def guarded(self: Any, *args: Any, **options: Any) -> Any:
        with self.reading():
            return method(self, *args, **options)

    return guarded  # type: ignore[return-value]


def writes(method: _Method) -> _Method:
    """A method that writes: refused while another thread reads or writes."""

    @wraps(method)
    def guarded(self: Any, *args: Any, **options: Any) -> Any:
        guard: AccessGuard = self._guard
        guard.begin_write()
        try:
            return method(self, *args, **options)
        finally:
            guard.end_write()

    return guarded  # type: ignore[return-value]
