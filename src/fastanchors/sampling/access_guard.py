"""Guard a matrix against concurrent access: many threads may read it, or one may write; anything else is an error.

Kernels run without the GIL and do not check indices. A concurrent write could crash the process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from ..errors import ConcurrentAccessError

__all__ = ["AccessGuard", "Reading", "reads", "writes"]

_PATIENCE = 0.001  # seconds between two attempts to write

_Method = TypeVar("_Method", bound=Callable[..., Any])


class AccessGuard:
    """Counts readers and writers by thread; a thread that writes may also read."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._readers: dict[int, int] = {}
        self._writer, self._depth = 0, 0

    def begin_read(self) -> None:
        me = threading.get_ident()
        with self.lock:
            if self._writer and self._writer != me:
                raise ConcurrentAccessError(
                    "another thread is changing this matrix; do not read while a thread writes, or give each thread "
                    "its own matrix (or store opened for reading)"
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
        """Like :meth:`begin_write`, but waits until the other threads have finished."""
        while True:
            try:
                return self.begin_write()
            except ConcurrentAccessError:
                time.sleep(_PATIENCE)

    def check_alone(self) -> None:
        """Raise if another thread reads or writes; the caller must hold the lock."""
        if not self._readers and not self._writer:
            return
        me = threading.get_ident()
        if (self._writer and self._writer != me) or any(reader != me for reader in self._readers):
            raise ConcurrentAccessError(
                "this matrix cannot be changed while another thread uses it: nothing was changed; wait for the other "
                "threads, or give each thread its own matrix (or store opened for reading)"
            )

    def end_write(self) -> None:
        with self.lock:
            self._depth -= 1
            if not self._depth:
                self._writer = 0

    def __reduce__(self) -> Any:
        return AccessGuard, ()


class Reading:
    """Context manager of a thread that reads; flushes buffered entries first."""

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
    """Decorator of a method that reads: raises while another thread writes."""

    @wraps(method)
    def guarded(self: Any, *args: Any, **options: Any) -> Any:
        with self.reading():
            return method(self, *args, **options)

    return guarded  # type: ignore[return-value]


def writes(method: _Method) -> _Method:
    """Decorator of a method that writes: raises while another thread reads or writes."""

    @wraps(method)
    def guarded(self: Any, *args: Any, **options: Any) -> Any:
        guard: AccessGuard = self._guard
        guard.begin_write()
        try:
            return method(self, *args, **options)
        finally:
            guard.end_write()

    return guarded  # type: ignore[return-value]
