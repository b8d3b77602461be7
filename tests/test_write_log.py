"""The write log: what has changed since a cursor, for any number of followers."""

from __future__ import annotations

import copy
import pickle
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastanchors as fa
from fastanchors.sampling import write_log
from fastanchors.sampling.write_log import WriteLog


@given(st.lists(st.lists(st.integers(0, 9), max_size=6), max_size=30), st.data())
def test_it_equals_a_plain_list(batches, data):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(write_log, "_TAIL", 8)
        log, plain = WriteLog(following=True), []
        for batch in batches:
            log.record(np.array(batch, np.int64))
            plain += batch
            cursor = data.draw(st.integers(0, len(plain)))
            assert log.since(cursor).tolist() == sorted(set(plain[cursor:]))
        assert log.end() == len(plain)


def test_repeats_take_no_memory(monkeypatch):
    monkeypatch.setattr(write_log, "_TAIL", 10)
    log = WriteLog(following=True)
    for _ in range(300):
        log.record(np.array([3, 1, 3]))
    assert len(log._tail) <= 13
    assert log._rows.tolist() == [1, 3]
    assert log.since(log.end()).size == 0


def test_nothing_is_logged_before_somebody_follows():
    S = fa.SampleMatrix(np.eye(4))
    S.update([1], [2], [3.0])
    assert len(S._log._tail) == 0
    start = S.cursor
    S[2, 1] = 5.0
    S.update([0], [1], [1.0])
    assert S.changes_since(start).tolist() == [0, 2]
    assert S.changes_since(S.cursor).size == 0


def test_rows_appended_and_changed_are_changes():
    S = fa.SampleMatrix(np.eye(4))
    start = S.cursor
    S.append(np.ones((2, 4)))
    S[5, 1] = 3.0
    middle = S.cursor
    S[1, 1] = 2.0
    assert S.changes_since(start).tolist() == [1, 4, 5]
    assert S.changes_since(middle).tolist() == [1]


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda S: pickle.loads(pickle.dumps(S))])
def test_a_copy_after_a_seek_has_a_log_of_its_own(duplicate):
    A = np.random.default_rng(0).random((5000, 20))
    S = fa.SampleMatrix(A)
    expected = fa.FAS().seek(S, 3).indices.tolist()
    T = duplicate(S)
    T.append(np.eye(20)[:3])
    T[5001, 0] = 1.0
    assert fa.FAS().seek(T, 3).indices.tolist() == fa.SPA().seek(T, 3).indices.tolist()
    found = fa.FAS().seek(S, 3)
    assert (found.indices.tolist(), found.cost.rows_read) == (expected, 0)


def test_recording_and_asking_in_several_threads():
    log, done = WriteLog(following=True), threading.Event()
    sizes = []

    def ask():
        while not done.is_set():
            sizes.append(log.since(0).size)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for at in range(200):
        log.record(np.arange(100 * at, 100 * at + 100))
    done.set()
    for thread in threads:
        thread.join()
    assert all(size % 100 == 0 for size in sizes)  # a batch is there whole or not at all
    assert log.since(0).size == 20_000
