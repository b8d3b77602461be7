"""A process that is forked while other threads use a matrix: locks of threads that are not there hold nobody up."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import nullcontext

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import fastanchors as fa
from fastanchors import _parallel
from fastanchors._cached import cached
from fastanchors._parallel import SharedLock, one_blas_thread
from fastanchors.errors import ConcurrentAccessError, StoreError
from fastanchors.sampling.access_guard import Writing
from fastanchors.sampling.write_log import WriteLog

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")


def in_a_fork(work) -> int:
    """The exit code of a fork that does the work: 0, 1 after an exception, negative if it hangs."""
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Elsewhere:
    """Another thread that stays inside a context until the end of this one."""

    def __init__(self, *contexts):
        self._inside, self._leave = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._stay, args=(contexts,))

    def _stay(self, contexts):
        for context in contexts:
            context.__enter__()
        self._inside.set()
        self._leave.wait()
        for context in contexts[::-1]:
            context.__exit__(None, None, None)

    def __enter__(self):
        self._thread.start()
        self._inside.wait()

    def __exit__(self, *_):
        self._leave.set()
        self._thread.join()


@pytest.fixture(scope="module")
def S():
    matrix = fa.SampleMatrix(np.eye(6) + 1.0)
    matrix.update([0], [1], [2.0])  # compiles the kernels
    matrix.check()
    return matrix


def test_a_fork_may_write_what_another_thread_was_reading(S):
    def work():
        S.update([1], [2], [3.0])
        S.check()

    with Elsewhere(S.reading()):
        with pytest.raises(ConcurrentAccessError):
            work()
        assert in_a_fork(work) == 0


@pytest.mark.parametrize("which", ["guard", "log"])
def test_locks_of_other_threads_are_free_in_a_fork(S, which):
    with Elsewhere(S._guard.lock if which == "guard" else S._log.lock):
        assert in_a_fork(lambda: S.update([1], [2], [3.0])) == 0


def test_a_shared_lock_is_free_in_a_fork():
    lock = SharedLock()

    def work():
        with lock, lock:
            pass

    with Elsewhere(lock):
        assert in_a_fork(work) == 0


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_fork_limits_blas_and_restores_its_threads(inside, elsewhere):
    """Whether its thread was inside the limit, or another one, which does not exist in the fork."""

    def threads():
        return {library.get_num_threads() for library in _parallel._blas()}

    def check():
        assert threads() == {2}
        with one_blas_thread():
            assert threads() == {1}
        assert threads() == {2}

    def leave():
        assert threads() == {1}
        limit.__exit__(None, None, None)
        check()

    with threadpool_limits(2, "blas"), Elsewhere(*[one_blas_thread()] * elsewhere):
        limit = one_blas_thread() if inside else nullcontext()
        with limit:
            assert in_a_fork(leave if inside else check) == 0
        assert threads() == {1 if elsewhere else 2}


def test_entries_that_another_thread_was_about_to_write_are_written_in_a_fork():
    log, inside, go_on, written = WriteLog(), threading.Event(), threading.Event(), []
    log.buffer(0, 1, 2.0)

    def slow(_):
        inside.set()
        assert go_on.wait(10)

    def work():
        log.flush(written.append)
        assert written[0].values.tolist() == [2.0]

    thread = threading.Thread(target=log.flush, args=(slow,))
    thread.start()
    assert inside.wait(10)
    assert in_a_fork(work) == 0
    go_on.set()
    thread.join()


def test_what_another_thread_was_writing_is_refused_in_a_fork(S):
    def work():
        for use in (lambda: S.row_norm(1), lambda: S.update([1], [2], [3.0]), lambda: S.consolidate()):
            with pytest.raises(ConcurrentAccessError, match="when this process was forked"):
                use()

    with Elsewhere(Writing(S._guard)):
        assert in_a_fork(work) == 0
    S.row_norm(1)


def test_a_fork_does_not_write_to_memory_that_it_shares(tmp_path):
    """Changed blocks are in a scratch file, whose pages parent and child share."""
    with fa.build(np.random.default_rng(0).random((2000, 40)), tmp_path / "s", memory_limit=1 << 22) as store:
        store._matrix._limit = 1 << 18
        for _ in range(3):
            store.update(np.arange(0, 2000, 5), np.zeros(400, int), np.full(400, 0.5))

        def work():
            rows = np.arange(0, 2000, 5)
            for use in (lambda: store.update(rows, np.zeros(400, int), np.ones(400)), lambda: store.raw([0], [0])):
                with pytest.raises(StoreError, match="open it again"):
                    use()

        assert in_a_fork(work) == 0
        assert store.raw([0], [0]) == [0.5]
        store.check()


def test_a_fork_while_another_thread_computes_a_property():
    """With the lock of ``functools.cached_property`` it waited without end before Python 3.12."""
    inside, leave = threading.Event(), threading.Event()

    class Slow:
        def __init__(self, waits):
            self.waits, self.computed = waits, 0

        @cached
        def value(self):
            if self.waits:
                inside.set()
                leave.wait()
            self.computed += 1
            return 7

    one, other = Slow(True), Slow(False)
    thread = threading.Thread(target=lambda: one.value)
    thread.start()
    inside.wait()
    try:
        assert in_a_fork(lambda: other.value) == 0
    finally:
        leave.set()
        thread.join()
    assert (one.value, one.value, one.computed) == (7, 7, 1)
    assert Slow.value.__doc__ is None
