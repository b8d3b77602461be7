"""Concurrent readers and a writer; ``benchmarks/together.py`` runs them for minutes."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pytest

import fastanchors as fa
from fastanchors.errors import ConcurrentAccessError
from fastanchors.sampling.access_guard import AccessGuard, Reading, Writing
from fastanchors.store.manifest import Manifest
from fastanchors.store.store import Store
from fastanchors.store.writer import Writer
from together import one_matrix, together


@pytest.mark.parametrize("sparse", [True, False], ids=["sparse", "dense"])
def test_concurrent_readers_see_committed_states_only(tmp_path, sparse):
    states, looks, wrong = together(tmp_path / "s", 3, 1, 1.0, sparse=sparse)
    assert not wrong, wrong[0]
    assert states
    assert looks


def test_threads_on_one_matrix_see_one_state_or_are_refused():
    states, answers, wrong = one_matrix(0.7)
    assert not wrong, wrong[0]
    assert states + answers


def elsewhere(call: Any) -> Any:
    """What a call raises in another thread; None if nothing."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).exception(timeout=60)


CHANGES: dict[str, Any] = {
    "set": lambda S: S.__setitem__((2, 2), 9.0),
    "update": lambda S: S.update([2], [2], [9.0]),
    "add": lambda S: S.add([2], [2], [9.0]),
    "append": lambda S: S.append(np.eye(3)),
    "commit": lambda S: S.commit(),
    "compact": lambda S: S.compact(),
    "consolidate": lambda S: S.consolidate(),
    "close": lambda S: S.close(),
    "discard": lambda S: S.close(commit=False),
}


@pytest.mark.parametrize("first", ["set", "update", "add", "append", "compact"])
def test_one_thread_makes_the_first_change_of_a_built_store(tmp_path, monkeypatch, first):
    """It takes the lock and the journal: a second one would take them twice, and write over the first one's record."""
    S, start, refused = fa.build(np.eye(3), tmp_path / "s"), Writer.start, {}

    def started(self, manifest):
        refused.update({name: elsewhere(partial(change, S)) for name, change in CHANGES.items()})
        return start(self, manifest)

    with monkeypatch.context() as patch:
        patch.setattr(Writer, "start", started)
        CHANGES[first](S)
    assert {name: type(error) for name, error in refused.items()} == dict.fromkeys(CHANGES, ConcurrentAccessError)
    S.commit()
    S[0, 1] = 5.0
    S.commit()  # the object is as good as before
    S.close()
    fa.verify(tmp_path / "s")
    with fa.open(tmp_path / "s", "r+") as S:
        assert S.raw(0, 1) == 5.0
        assert S.raw(2, 2) == {"append": 1.0, "compact": 1.0, "add": 10.0}.get(first, 9.0)
        assert S.shape[0] == (6 if first == "append" else 3)


def test_threads_that_race_at_the_first_change_leave_a_store(tmp_path):
    for trial in range(5):
        S, barrier = fa.build(np.eye(3), tmp_path / f"s{trial}"), threading.Barrier(3)

        def change(t, S=S, barrier=barrier):
            barrier.wait()
            for value in range(5, 9):
                with suppress(ConcurrentAccessError):
                    S[t, t] = value
                    S.commit()

        with ThreadPoolExecutor(3) as pool:
            list(pool.map(change, range(3)))  # raises nothing else
        S[0, 2] = 1.5
        S.close()
        assert fa.verify(S.path)["rows"] == 3
        with fa.open(S.path, "r+") as S:
            assert S.raw(0, 2) == 1.5


@pytest.mark.parametrize("doing", ["compact", "renew"])
def test_one_thread_writes_the_files_of_a_store(tmp_path, monkeypatch, doing):
    """Each removes the files that its own manifest does not name: those of a second thread at the same work."""
    S, write, refused = fa.build(np.eye(3), tmp_path / "s"), Manifest.write, {}

    def written(self, folder):
        refused.update({name: elsewhere(partial(change, S)) for name, change in CHANGES.items()})
        assert elsewhere(lambda: S.rows([0, 1])) is None  # others may read
        write(self, folder)

    S[1, 1] = 5.0
    with monkeypatch.context() as patch:
        patch.setattr(Manifest, "write", written)
        S.compact() if doing == "compact" else S.commit()
    assert {name: type(error) for name, error in refused.items()} == dict.fromkeys(CHANGES, ConcurrentAccessError)
    S.close()
    fa.verify(tmp_path / "s")
    with fa.open(tmp_path / "s") as S:
        assert S.raw_rows([0, 1, 2]).tolist() == np.diag([1.0, 5.0, 1.0]).tolist()


def test_a_change_between_the_commit_of_a_compaction_and_its_files_is_refused(tmp_path, monkeypatch):
    """Rows appended there would be in the new shards, and once more in the next commit."""
    S, commit, refused = fa.build(np.eye(3), tmp_path / "s"), Store._commit, []

    def committed(self):
        commit(self)
        refused.append(elsewhere(lambda: S.append(np.eye(3))))

    with monkeypatch.context() as patch:
        patch.setattr(Store, "_commit", committed)
        S.compact()
    assert [type(error) for error in refused] == [ConcurrentAccessError]
    S.close()
    assert fa.verify(tmp_path / "s")["rows"] == 3


def test_a_commit_does_not_fail_after_its_record(tmp_path, monkeypatch):
    """While another thread changes the store, its index is left as it is: the commit itself is done."""
    S, commit = fa.build(np.eye(3), tmp_path / "s"), Store._commit
    begun, ended = threading.Event(), threading.Event()

    def change():
        with Writing(S._guard):
            begun.set()
            ended.wait(60)

    def committed(self):
        commit(self)
        thread.start()
        begun.wait(60)

    S[1, 1], thread = 5.0, threading.Thread(target=change)
    with monkeypatch.context() as patch:
        patch.setattr(Store, "_commit", committed)
        S.commit()
    ended.set()
    thread.join()
    S[2, 2] = 6.0
    S.close()
    with fa.open(tmp_path / "s") as S:
        assert S.raw([1, 2], [1, 2]).tolist() == [5.0, 6.0]
    fa.verify(tmp_path / "s")


def test_a_store_that_others_read_is_closed_unless_that_would_lose_changes(tmp_path):
    S = fa.build(np.eye(3), tmp_path / "s")
    S[1, 1] = 5.0
    with S.reading():
        assert isinstance(elsewhere(S.close), ConcurrentAccessError)  # a commit needs the store alone
    S.close()
    with fa.open(tmp_path / "s") as S:
        assert S.raw(1, 1) == 5.0
        with S.reading():
            assert elsewhere(S.close) is None


def test_readers_that_never_pause_let_a_writer_in():
    """A commit in object storage took as long as other threads read."""
    guard, written, seen = AccessGuard(), threading.Event(), []

    def read(start):
        time.sleep(start)  # so that one of the threads reads at any time
        for _ in range(200):
            with Reading(guard, lambda: None):
                time.sleep(0.004)
            seen.append(written.is_set())

    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(read, 0.001 * number) for number in range(4)]
        time.sleep(0.02)
        with Writing(guard, wait=True):
            written.set()
        for reader in readers:
            reader.result()
    assert sum(seen) > 400  # most reads came after


def test_a_writer_that_waits_does_not_stop_the_threads_of_a_reader():
    """A reader may wait for other threads that read for it, and the writer waits for the reader."""
    guard = AccessGuard()
    with ThreadPoolExecutor(2) as pool:
        with Reading(guard, lambda: None):
            writing = Writing(guard, wait=True)
            waiting = pool.submit(writing.__enter__)
            while not guard._waiting:
                time.sleep(0.001)
            pool.submit(Reading(guard, lambda: None).__enter__).result(timeout=60)
            assert not waiting.done()
        waiting.result(timeout=60)
