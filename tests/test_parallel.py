"""The one thread pool: order, bounds, limits, errors, forks."""

from __future__ import annotations

import os
import threading

import pytest

from fastanchors import _parallel
from fastanchors._parallel import map_ordered, map_ranges, one_thread, thread_count, threads_allowed, use_threads
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
