"""The thread pool: process blocks of rows in as many threads as the process may use.

Threads are never nested: work submitted from inside the pool, or inside :func:`one_thread`, runs in the calling thread.
Results do not depend on the number of threads: the caller fixes the pieces, and results keep their order.
"""

from __future__ import annotations

import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from numbers import Integral
from typing import Any, Generic, TypeVar

from threadpoolctl import ThreadpoolController

from ._signals import deferred_signals
from .errors import InvalidInputError, InvalidTypeError

__all__ = [
    "LargePieces",
    "ResetInForks",
    "SharedLock",
    "map_ordered",
    "map_ranges",
    "one_blas_thread",
    "one_thread",
    "thread_count",
    "threads_allowed",
    "use_threads",
]

_Result = TypeVar("_Result")

_here = threading.local()
_lock = threading.Lock()
_pools: dict[int, ThreadPoolExecutor] = {}
_inside_blas_limit = 0
_blas_limits: list[int | None] = []


def thread_count(n_jobs: int | None = None) -> int:
    """How many threads to use.

    Parameters
    ----------
    n_jobs : int or None
        As in scikit-learn: a number of threads, or a negative number that counts back from all cores (-1 is all of
        them). None means the cores that this process may use, or ``OMP_NUM_THREADS`` where it is set and smaller.
    """
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n_jobs is None:
        limit: int | None = getattr(_here, "limit", None)
        return limit or min(available, _limit_from_environment() or available)
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral):
        raise InvalidTypeError(f"n_jobs must be an integer or None, got {n_jobs!r}")
    if n_jobs == 0:
        raise InvalidInputError("n_jobs must not be 0; use -1 for all cores or None for the default")
    return int(n_jobs) if n_jobs > 0 else max(1, available + 1 + int(n_jobs))


@contextmanager
def use_threads(n_jobs: int | None) -> Iterator[None]:
    """Inside this context, the calling thread uses ``n_jobs`` threads (see :func:`thread_count`); None is no change."""
    before = getattr(_here, "limit", None)
    _here.limit = before if n_jobs is None else thread_count(n_jobs)
    try:
        yield
    finally:
        _here.limit = before


def _limit_from_environment() -> int | None:
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(first) if first.isdecimal() and int(first) > 0 else None


def threads_allowed() -> bool:
    """Whether the calling thread may hand work to the pool."""
    return not getattr(_here, "single", False)


@contextmanager
def one_thread() -> Iterator[None]:
    """Inside this context, the calling thread does all work itself. Results are the same."""
    before = getattr(_here, "single", False)
    _here.single = True
    try:
        yield
    finally:
        _here.single = before


def map_ordered(
    function: Callable[..., _Result], pieces: Iterable[tuple[Any, ...]], *, n_jobs: int | None = None
) -> list[_Result]:
    """``function(*piece)`` for every piece; results in the order of the pieces.

    At most two pieces per thread are queued, so ``pieces`` may be an iterator over a file larger than memory. The first
    exception stops the work and is raised here. BLAS uses one thread meanwhile.
    """
    threads = thread_count(n_jobs)
    if threads == 1 or not threads_allowed():
        return [function(*piece) for piece in pieces]
    results: list[_Result] = []
    waiting: deque[Future[_Result]] = deque()
    pool = _pool(threads)
    with one_blas_thread():
        try:
            for piece in pieces:
                with deferred_signals():  # see _pool
                    waiting.append(pool.submit(_alone, function, piece))
                if len(waiting) > 2 * threads:
                    results.append(waiting[0].result())
                    waiting.popleft()  # after its end: an interrupt of result() must not lose it
            while waiting:
                results.append(waiting[0].result())
                waiting.popleft()
        finally:
            _end(waiting, cancel=True)
    return results


def map_ranges(
    function: Callable[[int, int], _Result], count: int, *, smallest: int = 1, n_jobs: int | None = None
) -> list[_Result]:
    """``function(low, high)`` over equal ranges of ``count`` items, one per thread.

    A range has at least ``smallest`` items, so a small amount of work stays in this thread. The result for an item must
    not depend on its range.
    """
    parts = max(1, min(thread_count(n_jobs), count // max(1, smallest)))
    bounds = [count * part // parts for part in range(parts + 1)]
    return map_ordered(function, [pair for pair in pairwise(bounds) if pair[0] < pair[1]], n_jobs=parts)


class LargePieces(Generic[_Result]):
    """Process pieces of which only a few fit in memory: a piece is submitted when there is room for it.

    Use it in a ``with`` statement, which waits for all running pieces at its end; on an exception, pieces that have not
    started are cancelled. With one thread, each piece is processed when it is submitted.

    Parameters
    ----------
    most : int
        How many pieces may run at a time; never more than there are threads.
    room : int or None
        How many bytes they may have together; a larger piece runs alone.
    """

    def __init__(self, most: int, room: int | None = None) -> None:
        self.threads = thread_count() if threads_allowed() else 1
        self.most, self.room = max(1, min(most, self.threads)), room
        self.under_way: dict[Future[_Result], int] = {}

    def __enter__(self) -> LargePieces[_Result]:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        _end(self.under_way, cancel=kind is not None)

    def submit(self, size: int, function: Callable[..., _Result], *arguments: Any) -> Future[_Result]:
        """Submit a piece of ``size`` bytes; call :meth:`finished` first to make room for it."""
        future: Future[_Result]
        if self.threads > 1:
            with deferred_signals():  # see _pool
                future = _pool(self.threads).submit(_alone, function, arguments)
                self.under_way[future] = size
            return future
        future = Future()
        try:
            result = function(*arguments)
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(result)
        self.under_way[future] = size
        return future

    def finished(self, size: int | None = None) -> list[Future[_Result]]:
        """Wait until there is room for ``size`` bytes (None: until all are done); return what finished meanwhile."""
        ended: list[Future[_Result]] = []
        while self.under_way and (size is None or self._is_full(size)):
            done, _ = wait(self.under_way, return_when=FIRST_COMPLETED)
            for future in done:
                del self.under_way[future]
            ended += done
        return ended

    def _is_full(self, size: int) -> bool:
        if len(self.under_way) >= self.most:
            return True
        return self.room is not None and sum(self.under_way.values()) + size > self.room


def _end(futures: Collection[Future[_Result]], *, cancel: bool) -> None:
    """Wait until no piece runs, because the caller cleans up after them, even if a signal handler raises meanwhile."""
    try:
        _stop(futures, cancel)
    except BaseException:
        with deferred_signals():
            _stop(futures, True)
        raise


def _stop(futures: Collection[Future[_Result]], cancel: bool) -> None:
    """Wait for the pieces that run; ``cancel`` those that have not started."""
    if cancel:
        for future in futures:
            future.cancel()
    wait(futures)


def _alone(function: Callable[..., _Result], piece: tuple[Any, ...]) -> _Result:
    with one_thread():
        return function(*piece)


def _pool(threads: int) -> ThreadPoolExecutor:
    """The pool with that many threads, made once. A forked child starts with none.

    Signal handlers must wait while work is submitted to it. If one raised after a thread was started and before the
    pool knew of it, the end of the process would wait for that thread without end. If one raised before the caller had
    the future, nobody would wait for the work.
    """
    with _lock:
        if threads not in _pools:
            _pools[threads] = ThreadPoolExecutor(threads, thread_name_prefix="fastanchors")
        return _pools[threads]


class ResetInForks(ABC):
    """An object with locks: a forked process has only one thread, so nobody would release what others have locked."""

    @abstractmethod
    def after_fork(self) -> None:
        """Called in a forked process."""

    def reset_in_forks(self) -> None:
        """Have :meth:`after_fork` called; once, when the object is made."""
        _WITH_LOCKS.add(self)


class SharedLock(ResetInForks):
    """A re-entrant lock for module-level data; free in a forked process."""

    def __init__(self) -> None:
        self.after_fork()
        self.reset_in_forks()

    def after_fork(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


_WITH_LOCKS: weakref.WeakSet[ResetInForks] = weakref.WeakSet()


def _after_fork() -> None:
    global _lock, _inside_blas_limit
    _lock = threading.Lock()
    _pools.clear()
    for item in list(_WITH_LOCKS):
        item.after_fork()
    before, _inside_blas_limit = _inside_blas_limit, getattr(_here, "inside_blas_limit", 0)
    if before and not _inside_blas_limit:  # only other threads were inside, and this process does not have them
        _set_blas_threads(_blas_limits)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@cache
def _blas() -> list[Any]:
    """The loaded BLAS libraries. Finding them takes milliseconds, so it is done once."""
    return [library for library in ThreadpoolController().lib_controllers if library.user_api == "blas"]


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread while any thread of the process is inside this context; then restore its limit.

    More BLAS threads would compete with ours for cores, and the order of summation would depend on their number.
    """
    global _inside_blas_limit, _blas_limits
    inside = False
    try:
        with deferred_signals(), _lock:
            if _inside_blas_limit == 0:
                _blas_limits = [library.get_num_threads() for library in _blas()]
                _set_blas_threads([count and 1 for count in _blas_limits])
            _inside_blas_limit += 1
            _here.inside_blas_limit = getattr(_here, "inside_blas_limit", 0) + 1
            inside = True
        yield
    finally:
        with deferred_signals(), _lock:
            if inside:
                _inside_blas_limit -= 1
                _here.inside_blas_limit -= 1
                if _inside_blas_limit == 0:
                    _set_blas_threads(_blas_limits)


def _set_blas_threads(counts: Sequence[int | None]) -> None:
    for library, count in zip(_blas(), counts):
        if count is not None:  # None: the library does not report its number of threads
            _take_control(library)
            library.set_num_threads(count)
            _take_control(library)  # other threads of the program may set it, too


def _take_control(library: Any) -> None:
    """Let this thread set the number of threads: threadpoolctl 3.8 ignores all but the first that sets it."""
    clear = getattr(library, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)
