"""The write log: changes since a cursor, for any number of readers."""

from __future__ import annotations

import copy
import pickle
import threading

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import fastanchors as fa
from fastanchors._distinct import left_out
from fastanchors.errors import ConcurrentAccessError
from fastanchors.sampling import write_log
from fastanchors.sampling.matrix import SampleMatrix
from fastanchors.sampling.write_log import Entries, WriteLog


def entries(rows):
    rows = np.array(rows, np.int64)
    return Entries(rows, rows, rows.astype(float))


@given(st.lists(st.lists(st.integers(0, 9), max_size=6), max_size=30), st.data())
def test_it_equals_a_plain_list(batches, data):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(write_log, "_TAIL", 8)
        log, plain, rows = WriteLog(journaled=True), [], 10
        for batch in batches:
            if batch:
                log.record(entries(batch))
                plain += batch
            else:
                log.record_append(rows, "appended")
                plain.append(None)
                rows += 1
            cursor = data.draw(st.integers(0, len(plain)))
            written = {row for row in plain[cursor:] if row is not None}
            appended = set(range(rows - plain[cursor:].count(None), rows))
            assert log.rows_written_since(cursor).tolist() == sorted(written)
            assert log.rows_since(cursor, rows).tolist() == sorted(written | appended)
        assert log.end == len(plain)
        whole = [op for op in log.operations() if op != "appended"]
        assert [row for op in whole for row in op.rows] == [row for row in plain if row is not None]


@given(st.sets(st.integers(-1, 9)), st.sets(st.integers(-1, 9)))
def test_numbers_left_out_are_a_difference_of_sets(some, others):
    numbers, without = (np.array(sorted(each), np.int64) for each in (some, others))
    assert left_out(numbers, without).tolist() == sorted(some - others)


def test_repeats_take_no_memory(monkeypatch):
    monkeypatch.setattr(write_log, "_TAIL", 10)
    log = WriteLog(journaled=True)
    for _ in range(300):
        log.record(entries([3, 1, 3]))
    assert len(log._tail) <= 13
    assert log._rows.tolist() == [1, 3]
    assert log.rows_since(log.end, 10).size == 0


def test_nothing_is_logged_before_there_is_a_reader():
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
    expected = fa.FAS(selection="spa").seek(S, 3).indices.tolist()
    T = duplicate(S)
    T.append(np.eye(20)[:3])
    T[5001, 0] = 1.0
    assert fa.FAS(selection="spa").seek(T, 3).indices.tolist() == fa.SPA().seek(T, 3).indices.tolist()
    found = fa.FAS(selection="spa").seek(S, 3)
    assert (found.indices.tolist(), found.cost.rows_read) == (expected, 0)


def test_recording_and_reading_in_several_threads():
    log, done = WriteLog(journaled=True), threading.Event()
    sizes = []

    def ask():
        while not done.is_set():
            sizes.append(log.rows_written_since(0).size)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for at in range(200):
        log.record(entries(np.arange(100 * at, 100 * at + 100)))
    done.set()
    for thread in threads:
        thread.join()
    assert all(size % 100 == 0 for size in sizes)  # a batch is applied entirely or not at all
    assert log.rows_written_since(0).size == 20_000


def test_only_the_last_operation_is_withdrawn(monkeypatch):
    monkeypatch.setattr(write_log, "_JOIN", 2)
    log = WriteLog(journaled=True)
    for row in range(5):
        log.record(entries([row]))
        if row == 3:
            log.withdraw()
    assert np.concatenate([op.rows for op in log.operations()]).tolist() == [0, 1, 2, 4]


class Taking:
    """An overflow that refuses operations at will."""

    room = 100

    def __init__(self):
        self.taken, self.refuses = [], False

    def add(self, operations):
        if not self.refuses:
            self.taken.append([Entries(*(part.copy() for part in each)) for each in operations])
        return not self.refuses

    def withdraw(self):
        self.taken.pop()

    def clear(self):
        self.taken = []

    def __bool__(self):
        return bool(self.taken)


def test_operations_that_exceed_the_room_go_to_the_overflow():
    rng = np.random.default_rng(0)
    for _ in range(100):
        log, overflow, expected = WriteLog(journaled=True), Taking(), []
        log.overflow = overflow
        for row in range(20):
            overflow.refuses = bool(rng.integers(2))
            some = entries([row] * int(rng.integers(1, 8)))  # of 24 bytes each
            log.record(some)
            some.rows[:] = -5  # the caller's arrays
            if rng.random() < 0.2:
                log.withdraw()
            else:
                expected += [row] * len(some.rows)
        assert log.pending
        kept = [op for operations in [*overflow.taken, log.operations()] for op in operations]
        assert np.concatenate([op.rows for op in kept]).tolist() == expected
        log.discard_operations()
        assert not log.pending


@pytest.mark.parametrize("sparse", [False, True])
def test_a_writer_with_concurrent_readers_is_refused(sparse):
    """It would change arrays that kernels in other threads are reading."""
    rng = np.random.default_rng(0)
    A = rng.random((300, 30))
    S = fa.SampleMatrix(sp.csr_array(A) if sparse else A)
    inside, go_on = threading.Event(), threading.Event()

    class Slow(SampleMatrix):
        def _gather(self, rows, *, view):
            inside.set()
            assert go_on.wait(10)
            return super()._gather(rows, view=view)

    S.__class__ = Slow
    found = []
    reader = threading.Thread(target=lambda: found.append(S.rows([1, 2])))
    reader.start()
    assert inside.wait(10)
    changes = [
        lambda: S.update([1], [2], [3.0]),
        lambda: S.add([1], [2], [3.0]),
        lambda: S.append(A[:2]),
        lambda: S.consolidate(),
        lambda: S.__setitem__((1, 2), 3.0),
        lambda: S.__setitem__((1, 2), 3),
    ]
    for change in changes:
        with pytest.raises(ConcurrentAccessError, match="nothing was changed"):
            change()
    S.row_norm(3)  # reading is allowed
    go_on.set()
    reader.join()
    S.__class__ = SampleMatrix
    np.testing.assert_allclose(found[0].toarray() if sparse else found[0], A[[1, 2]] / A[[1, 2]].sum(1, keepdims=True))
    np.testing.assert_array_equal(S.raw(*np.indices((300, 30))), A)
    S.update([1], [2], [3.0])
    S.check()


def test_a_reader_with_a_concurrent_writer_is_refused(monkeypatch):
    S = fa.SampleMatrix(np.ones((300, 30)))
    inside, go_on = threading.Event(), threading.Event()
    write = S._write

    def slow(*entries):
        inside.set()
        assert go_on.wait(10)
        write(*entries)

    monkeypatch.setattr(S, "_write", slow)
    writer = threading.Thread(target=lambda: S.update([1], [2], [3.0]))
    writer.start()
    assert inside.wait(10)
    reads = [
        lambda: S.rows([1]),
        lambda: S[1, 2],
        lambda: S.row_norm(1),
        lambda: S.sample_rows(10, rng=0),
        lambda: S.sample_in_column(2, 3, rng=0),
        lambda: S.frobenius_norm,
        lambda: S.cursor,
    ]
    for read in reads:
        with pytest.raises(ConcurrentAccessError, match="another thread"):
            read()
    go_on.set()
    writer.join()
    assert S.raw(1, 2) == 3.0
    S.check()
