"""The thread pool: order, bounds, limits, errors, forks."""

from __future__ import annotations

import os
import signal
import sys
import threading
from concurrent.futures import thread as executors
from contextlib import nullcontext

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import fastanchors as fa
from fastanchors import _parallel
from fastanchors._parallel import (
    LargePieces,
    map_ordered,
    map_ranges,
    one_thread,
    thread_count,
    threads_allowed,
    use_threads,
)
from fastanchors.errors import InvalidInputError, InvalidTypeError


def test_results_are_in_order_and_few_pieces_wait():
    drawn = []

    def pieces():
        for i in range(100):
            drawn.append(i)
            yield (i,)

    ahead = []
    assert map_ordered(lambda i: ahead.append(drawn[-1] - i) or i * i, pieces(), n_jobs=3) == [
        i * i for i in range(100)
    ]
    assert max(ahead) <= 8


def test_threads_are_never_nested():
    def inner(i):
        return threads_allowed(), threading.current_thread().name

    def outer(i):
        own = threading.current_thread().name
        return all((allowed, name) == (False, own) for allowed, name in map_ordered(inner, [(j,) for j in range(5)]))

    assert all(map_ordered(outer, [(i,) for i in range(8)], n_jobs=2))
    assert threads_allowed()
    with one_thread():
        assert map_ordered(inner, [(0,)], n_jobs=2) == [(False, threading.current_thread().name)]


def test_the_first_error_ends_the_work():
    done = []

    def work(i):
        if i == 3:
            raise RuntimeError("three")
        done.append(i)

    with pytest.raises(RuntimeError, match="three"):
        map_ordered(work, ((i,) for i in range(10_000)), n_jobs=2)
    assert len(done) < 100


def test_ranges_cover_all_items_once():
    for count in (0, 1, 7, 1000):
        for smallest in (1, 100):
            found = map_ranges(lambda low, high: list(range(low, high)), count, smallest=smallest, n_jobs=4)
            assert [x for part in found for x in part] == list(range(count))
    assert len(map_ranges(lambda low, high: None, 150, smallest=100, n_jobs=4)) == 1


def test_number_of_threads(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    cores = thread_count()
    assert cores == thread_count(-1) >= 1
    assert thread_count(7) == 7
    monkeypatch.setenv("OMP_NUM_THREADS", "1,2")
    assert thread_count() == 1
    assert thread_count(5) == 5
    with use_threads(3):
        assert thread_count() == 3
        with use_threads(None):
            assert thread_count() == 3
    assert thread_count() == 1
    assert thread_count(np.int64(3)) == 3
    with pytest.raises(InvalidInputError, match="n_jobs must not be 0"):
        thread_count(0)
    with pytest.raises(InvalidTypeError, match="n_jobs must be an integer"):
        thread_count(1.5)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks are of POSIX systems")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_starts_its_own_pool():
    map_ordered(abs, [(-1,)] * 4, n_jobs=2)
    child = os.fork()
    if child == 0:
        os._exit(0 if _parallel.map_ordered(abs, [(-2,)] * 4, n_jobs=2) == [2] * 4 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize(
    ("threads", "most", "room", "wanted"), [(1, 4, None, 1), (3, 8, None, 3), (4, 2, None, 2), (4, 4, 25, 2)]
)
def test_large_pieces_wait_for_room(threads, most, room, wanted):
    """Pieces of 10 bytes: as many at a time as threads, number and bytes allow, and all are processed."""
    under_way, done = [], []
    with use_threads(threads), LargePieces(most, room) as pieces:
        for i in range(20):
            done += [future.result() for future in pieces.finished(10)]
            pieces.submit(10, lambda i: (i, threads_allowed()), i)
            under_way.append(len(pieces.under_way))
        done += [future.result() for future in pieces.finished()]
    assert sorted(i for i, _ in done) == list(range(20))
    assert all(allowed is (threads == 1) for _, allowed in done)
    assert max(under_way) == wanted


def test_a_piece_larger_than_the_limit_is_processed_alone():
    with use_threads(2), LargePieces(2, 10) as pieces:
        for size in (50, 5):
            pieces.finished(size)
            assert not pieces.under_way
            pieces.submit(size, int)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_failing_piece_raises_and_stops_the_others(threads):
    running, gate = [], threading.Event()

    def work(i):
        running.append(i)
        if i == 1:
            gate.set()
            raise RuntimeError("one")
        if threads > 1:
            gate.wait(10)
        running.remove(i)

    def all_of_them():
        with use_threads(threads), LargePieces(2) as pieces:
            for i in range(10):
                for future in pieces.finished(0):
                    future.result()
                pieces.submit(0, work, i)

    with pytest.raises(RuntimeError, match="one"):
        all_of_them()
    assert running == [1]


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="no such signals here")
@pytest.mark.parametrize("after", [1, 2, 3])
def test_no_piece_runs_any_more_when_an_interrupt_comes_out(after):
    """A signal at one of the first steps of the end came out while a piece was still writing."""
    begun, go, ended, steps = threading.Event(), threading.Event(), [], []

    def piece():
        begun.set()
        go.wait()
        ended.append(1)

    def interrupt(*_):
        threading.Timer(0.05, go.set).start()
        raise KeyboardInterrupt

    def trace(frame, event, argument):
        if os.path.basename(frame.f_code.co_filename) == "_signals.py" or frame.f_code.co_name == "_stop":
            steps.append(frame.f_lineno)
            if len(steps) == after:
                sys.settrace(None)
                signal.raise_signal(signal.SIGALRM)
        return trace

    def run():
        with use_threads(2), LargePieces(2) as pieces:
            pieces.submit(1, piece)
            begun.wait()  # a piece that has not begun is cancelled
            sys.settrace(trace)

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            run()
    finally:
        sys.settrace(None)
        signal.signal(signal.SIGALRM, before)
    assert ended == [1]


def test_an_interrupt_while_a_result_is_kept_comes_out_as_it_is():
    """The future had its result already and refused the exception: InvalidStateError came out."""

    class Interrupted(Exception):
        pass

    def interrupt(*_):
        raise Interrupted

    def trace(frame, event, argument):
        if frame.f_code.co_name == "notify_all":
            sys.settrace(None)
            signal.raise_signal(signal.SIGALRM)

    def run():
        with use_threads(1), LargePieces(2) as pieces:
            sys.settrace(trace)
            pieces.submit(1, len, "")

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(Interrupted):
            run()
    finally:
        sys.settrace(None)
        signal.signal(signal.SIGALRM, before)


def test_results_do_not_depend_on_the_threads_of_blas():
    A = fa.datasets.separable(9000, 30, 6, noise=0.05, rng=0).A

    def results():
        for method in ("svd", "mve"):
            yield fa.SPA(precondition=method).seek(A, 5).residuals
        for core in ("sampled", "exact"):
            yield fa.cur(A, 3, rng=0, core=core).core
        yield fa.cur(A, 20, rng=0).query(np.arange(9000), np.arange(30))
        yield fa.fkv(A, 20, side="left", rng=0).gram("exact")
        vectors = fa.fkv(A, 3, rng=0)
        yield vectors.gram("sampled", rng=0)
        yield fa.open_matrix(A).transposed_dot(A[:, :20])
        yield fa.lowrank.solve(A, A.sum(axis=1), 3, exact=True, rng=0).toarray()
        for init in ("anchors", "nndsvda"):
            yield fa.nmf(A, 3, init=init, max_iter=10, rng=0).W
        yield fa.rank_curve(A, 8, rng=0).errors
        yield np.array([fa.metrics.reconstruction_error(A, A[:5], rows=rows, rng=0).relative for rows in (None, 100)])

    with threadpool_limits(1, "blas"):
        alone = list(results())
    with threadpool_limits(4, "blas"):
        together = list(results())
    for one, many in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, many)


def test_every_thread_may_limit_blas_and_restore_it():
    """threadpoolctl ignores all threads but the first that has set a number."""

    def threads():
        return {library.get_num_threads() for library in _parallel._blas()}

    def elsewhere():
        with _parallel.one_blas_thread():
            inside.set()
            found.append(threads())
            assert go_on.wait(10)

    for main_too in (False, True):
        found, inside, go_on = [], threading.Event(), threading.Event()
        with threadpool_limits(2, "blas"):
            with _parallel.one_blas_thread() if main_too else nullcontext():
                other = threading.Thread(target=elsewhere)
                other.start()
                assert inside.wait(10)
            assert threads() == {1}
            go_on.set()
            other.join()
            assert (found, threads()) == ([{1}], {2})


class Interrupted(Exception):
    """Raised by the handler of a signal."""


@pytest.fixture
def interrupt(monkeypatch):
    """A function that interrupts the main thread by a signal whose handler raises; the pools are new ones."""

    def raising(*_):
        raise Interrupted

    monkeypatch.setattr(_parallel, "_pools", {})
    before = signal.signal(signal.SIGINT, raising)
    yield lambda: signal.raise_signal(signal.SIGINT)
    signal.signal(signal.SIGINT, before)


def map_one(work):
    return map_ordered(work, [(1,)], n_jobs=2)


def submit_one(work):
    with use_threads(2), LargePieces(2) as pieces:
        pieces.submit(1, work, 1)


@pytest.mark.parametrize("run", [map_one, submit_one])
def test_a_signal_at_the_start_of_a_thread_leaves_no_thread_that_nobody_ends(run, interrupt, monkeypatch):
    start, begun, done = threading.Thread.start, [], []

    def start_and_interrupt(self):
        start(self)
        begun.append(self)
        interrupt()

    monkeypatch.setattr(threading.Thread, "start", start_and_interrupt)
    with pytest.raises(Interrupted):
        run(done.append)
    assert len(begun) == 1
    assert begun[0] in executors._threads_queues  # else the end of the process waits for it without end
    assert done in ([], [1])


def test_no_piece_runs_after_an_interrupt_of_the_wait_for_it(interrupt, monkeypatch):
    result, ended = _parallel.Future.result, threading.Event()
    begun, go_on = threading.Event(), threading.Event()

    def work(_):
        begun.set()
        go_on.wait()
        ended.set()

    def interrupted_result(self):
        begun.wait()
        monkeypatch.setattr(_parallel.Future, "result", result)
        threading.Timer(0.05, go_on.set).start()
        interrupt()

    monkeypatch.setattr(_parallel.Future, "result", interrupted_result)
    with pytest.raises(Interrupted):
        map_ordered(work, [(1,)], n_jobs=2)
    assert ended.is_set()


@pytest.mark.parametrize("moment", [0, 1])
def test_an_interrupt_does_not_leave_blas_with_one_thread(interrupt, monkeypatch, moment):
    """A handler that raises as the limit is set, or as it is restored."""
    limits = []

    def set_threads(counts):
        limits.append(list(counts))
        if len(limits) == moment + 1:
            interrupt()

    monkeypatch.setattr(_parallel, "_set_blas_threads", set_threads)
    with pytest.raises(Interrupted), _parallel.one_blas_thread():
        pass
    assert _parallel._inside_blas_limit == 0
    assert len(limits) == 2
    assert limits[1] == _parallel._blas_limits
