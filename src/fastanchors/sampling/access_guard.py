"""Guard a matrix against concurrent access: many threads may read it, or one may write; anything else is an error.

A thread that copies the matrix to other files lets others read meanwhile, but neither write nor do the same.

Kernels run without the GIL and do not check indices. A concurrent write could crash the process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeAlias, TypeVar
from weakref import ref

from .._parallel import ResetInForks
from ..errors import ConcurrentAccessError, FastAnchorsError

__all__ = ["AccessGuard", "Keeping", "Reading", "Writing", "reads", "writes"]

_PATIENCE = 0.001  # seconds between two attempts to write
_GIVE_WAY = 0.02  # seconds that a reader leaves to a writer that waits; more could be for ever: see give_way
_BEING_CHANGED = (
    "another thread is changing this matrix; do not read while a thread writes, or give each thread its own matrix (or "
    "store opened for reading)"
)
_IN_USE = (
    "this matrix cannot be changed while another thread uses it: nothing was changed; wait for the other threads, or "
    "give each thread its own matrix (or store opened for reading)"
)
_FORKED = (
    "this matrix was being changed when this process was forked, so its contents are lost here; make or open it again "
    "in this process"
)

_Uses: TypeAlias = "dict[int, tuple[ref[Reading] | ref[Writing] | ref[Keeping], int]]"
_Method = TypeVar("_Method", bound=Callable[..., Any])


class AccessGuard(ResetInForks):
    """The readers and writers of a matrix, with their threads; a thread that writes may also read.

    Attributes
    ----------
    shared
        If the matrix writes to memory that a fork would share: the error of a fork that uses it.
    lost
        The error of every use in this process: it is a fork, and the matrix is shared or another thread was writing.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        # The contexts that have begun, by identity, with their threads. One that an exception of a signal handler kept
        # from its end is no longer alive, and does not count.
        self._readers: _Uses = {}
        self._writers: _Uses = {}
        self._keepers: _Uses = {}  # also among the readers
        self._waiting: dict[int, ref[Writing]] = {}  # for other threads to finish
        self.shared: FastAnchorsError | None = None
        self.lost: FastAnchorsError | None = None
        self.reset_in_forks()

    def give_way(self) -> None:
        """Leave the matrix to a thread that waits to write; readers that never pause would keep it waiting.

        Only for a moment: a thread that reads may be waiting for this one, as for threads of the pool, and the writer
        for that thread.
        """
        if self._waiting:
            end, me = time.monotonic() + _GIVE_WAY, threading.get_ident()
            while time.monotonic() < end and self._must_wait(me):
                time.sleep(_PATIENCE)

    def _must_wait(self, me: int) -> bool:
        """Whether another thread waits to write; not for a thread that reads already: the writer waits for it."""
        waits = any(writing() is not None for writing in list(self._waiting.values()))
        return waits and not any(thread == me for _, thread in list(self._readers.values()))

    def begin_read(self, reading: Reading) -> None:
        me = threading.get_ident()
        with self.lock:
            self._check_fork()
            if self._writers and _others(self._writers, me):
                raise ConcurrentAccessError(_BEING_CHANGED)
            self._readers[id(reading)] = ref(reading), me

    def begin_keep(self, keeping: Keeping) -> None:
        me = threading.get_ident()
        with self.lock:
            self._check_fork()
            if _others(self._writers, me) or _others(self._keepers, me):
                raise ConcurrentAccessError(_IN_USE)
            self._readers[id(keeping)] = ref(keeping), me
            self._keepers[id(keeping)] = ref(keeping), me

    def begin_write(self, writing: Writing) -> None:
        with self.lock:
            self.check_alone()
            self._writers[id(writing)] = ref(writing), threading.get_ident()

    def end_read(self, reading: Reading) -> None:
        self._readers.pop(id(reading), None)

    def end_keep(self, keeping: Keeping) -> None:
        self._readers.pop(id(keeping), None)
        self._keepers.pop(id(keeping), None)

    def end_write(self, writing: Writing) -> None:
        self._writers.pop(id(writing), None)

    def check_alone(self) -> None:
        """Raise if another thread reads or writes; the caller must hold the lock."""
        self._check_fork()
        if not self._readers and not self._writers:
            return
        me = threading.get_ident()
        if _others(self._writers, me) or _others(self._readers, me):
            raise ConcurrentAccessError(_IN_USE)

    def _check_fork(self) -> None:
        if self.lost is not None:
            raise self.lost.with_traceback(None)

    def after_fork(self) -> None:
        """Only this thread exists in a forked process; what another one was writing is lost."""
        me = threading.get_ident()
        self.lock = threading.RLock()
        lost = ConcurrentAccessError(_FORKED) if _others(self._writers, me) else None
        self.lost = self.lost or self.shared or lost
        self._waiting = {}
        self._readers, self._writers, self._keepers = (
            {key: use for key, use in uses.items() if use[1] == me}
            for uses in (self._readers, self._writers, self._keepers)
        )

    def __reduce__(self) -> Any:
        return AccessGuard, ()


def _others(uses: _Uses, me: int) -> bool:
    """Whether other threads are among those that use the matrix."""
    return any(thread != me and use() is not None for use, thread in list(uses.values()))


class Reading:
    """Context manager of a thread that reads; flushes buffered entries first."""

    __slots__ = ("__weakref__", "_flush", "_guard")

    def __init__(self, guard: AccessGuard, flush: Callable[[], None]) -> None:
        self._guard, self._flush = guard, flush

    def __enter__(self) -> None:
        self._guard.give_way()
        with self._guard.lock:
            self._guard.begin_read(self)
            try:
                self._flush()
            except BaseException:
                self._guard.end_read(self)
                raise

    def __exit__(self, *_: object) -> None:
        self._guard.end_read(self)


class Writing:
    """Context manager of a thread that writes; with ``wait`` it waits until other threads have finished."""

    __slots__ = ("__weakref__", "_guard", "_wait")

    def __init__(self, guard: AccessGuard, *, wait: bool = False) -> None:
        self._guard, self._wait = guard, wait

    def __enter__(self) -> None:
        try:
            while True:
                try:
                    return self._begin()
                except ConcurrentAccessError:
                    if not self._wait or self._guard.lost:
                        raise
                    self._guard._waiting[id(self)] = ref(self)
                    time.sleep(_PATIENCE)
        finally:
            self._guard._waiting.pop(id(self), None)

    def _begin(self) -> None:
        self._guard.begin_write(self)

    def __exit__(self, *_: object) -> None:
        self._guard.end_write(self)


class Keeping(Writing):
    """Context manager of a thread that writes what is in memory elsewhere, or ends its use: others may only read.

    With ``wait`` it waits until other threads have finished writing, but not for those that read.
    """

    __slots__ = ()

    def _begin(self) -> None:
        self._guard.begin_keep(self)

    def __exit__(self, *_: object) -> None:
        self._guard.end_keep(self)


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
        with Writing(self._guard):
            return method(self, *args, **options)

    return guarded  # type: ignore[return-value]
