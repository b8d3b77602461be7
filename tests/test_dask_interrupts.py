"""A signal handler that raises, in builds on Dask and in the writer of a store in object storage."""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import suppress
from functools import partial

import dask
import dask.array as da
import fsspec
import numpy as np
import pytest

import fastanchors as fa
from fastanchors.dask import object_store
from fastanchors.store.object_files import OvertakenError
from fastanchors.store.storage import ObjectStorage
from interrupts import Interrupted, interrupted_at

pytestmark = [
    pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="no such signals here"),
    # What is opened when a handler raises is closed when it is collected.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

A = np.arange(80).reshape(20, 4) % 7 + 1.0
BAD = np.where(np.arange(80).reshape(20, 4) < 79, A, np.nan)
ADDRESS = "memory://bucket/interrupted.store"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Tasks in this thread, where handlers run; an empty storage and cache."""
    monkeypatch.setenv("FASTANCHORS_CACHE", str(tmp_path / "cache"))
    with dask.config.set(scheduler="sync"):
        yield
    fsspec.filesystem("memory").store.clear()


def objects():
    return {name.rsplit("/", 1)[-1] for name in fsspec.filesystem("memory").store}


def signals_in(patch, owner, name):
    """Each call of a function that cleans up raises a signal before it does anything."""
    function = getattr(owner, name)
    patch.setattr(owner, name, lambda *given, **more: (signal.raise_signal(signal.SIGALRM), function(*given, **more)))


def test_the_removal_of_a_failed_build_is_not_interrupted(tmp_path, monkeypatch):
    """The directory had been renamed, and was left."""
    with interrupted_at(10**9), monkeypatch.context() as patch:
        signals_in(patch, shutil, "rmtree")
        with pytest.raises(Interrupted):
            fa.build(da.from_array(BAD, (7, 4)), tmp_path / "x" / "s")
    assert os.listdir(tmp_path / "x") == []


def test_the_removal_of_objects_is_not_interrupted(monkeypatch):
    with interrupted_at(10**9), monkeypatch.context() as patch:
        signals_in(patch, ObjectStorage, "remove")
        with pytest.raises(Interrupted):
            fa.build(da.from_array(BAD, (7, 4)), ADDRESS)
        assert objects() == set()
        S = fa.build(A, ADDRESS)
        before = objects()
        S.memory_limit = 1 << 25
        with pytest.raises(Interrupted):
            S.append(iter([A, BAD]))
        assert objects() == before
        S.append(A)
        with pytest.raises(Interrupted):
            S.close(commit=False)
        assert objects() == before


def test_a_writer_goes_on_after_an_interrupt_at_any_line_after_the_commit(monkeypatch):
    """Rows that were appended next were lost, or the writer had overtaken itself."""
    wanted, commit = np.concatenate([A, A[:3] + 1, A[:2] + 2]), ObjectStorage.commit
    for chosen in range(1, 160, 12):
        fsspec.filesystem("memory").store.clear()
        with (
            monkeypatch.context() as patch,
            fa.build(A, ADDRESS, normalize=None, sidecars=(), column_names=list("abcd")) as S,
            interrupted_at(10**9) as lines,
        ):

            def committed(storage, manifest, lines=lines, chosen=chosen):
                done = commit(storage, manifest)
                lines.chosen = min(lines.chosen, lines.count + chosen)
                return done

            patch.setattr(ObjectStorage, "commit", committed)
            for stop in (23, 25):
                while S.shape[0] < stop:
                    try:
                        if not S._pending:
                            S.append(wanted[S.shape[0] : stop])
                        S.commit()
                    except OvertakenError:
                        pytest.fail(f"interrupted at {lines.place}")
                    except (Interrupted, fa.errors.StoreError):  # requests turn exceptions into errors
                        pass
            assert S.column_names is not None
            assert list(S.column_names) == list("abcd")
        assert lines.place is not None
        np.testing.assert_array_equal(fa.open(ADDRESS).rows(np.arange(25)), wanted, lines.place)


@pytest.mark.parametrize("dask_source", [True, False], ids=["dask", "array"])
def test_a_build_at_an_address_that_is_interrupted_while_it_is_published_leaves_no_objects(monkeypatch, dask_source):
    """Shards that workers had written, and the journal, were left."""
    source, publish, seen = da.from_array(A, (7, 4)) if dask_source else A, object_store.publish, []
    for chosen in range(0, 10_000, 3):
        fsspec.filesystem("memory").store.clear()
        with monkeypatch.context() as patch, interrupted_at(10**9) as lines:

            def published(*given, lines=lines, chosen=chosen):
                seen.append(given[0])
                lines.chosen = lines.count + chosen
                publish(*given)

            patch.setattr(object_store, "publish", published)
            with suppress(Interrupted, fa.errors.StoreError):
                fa.build(source, ADDRESS, sidecars=()).close()
        if seen[-1].kept:  # the objects may be part of a store
            break
        assert objects() == set(), lines.place
    assert chosen > 60


def test_a_commit_that_is_interrupted_before_it_is_tried_leaves_no_journal(monkeypatch):
    with fa.build(A, ADDRESS, sidecars=()) as S:
        before, journal = objects(), object_store.with_journal
        S.append(A[:3])
        with_shard = objects()
        with monkeypatch.context() as patch:
            patch.setattr(object_store, "with_journal", lambda *given: (journal(*given), signal.raise_signal(2)))
            with pytest.raises(KeyboardInterrupt):
                S.commit()
        assert objects() == with_shard
        S.commit()
        assert len(objects() - before) > 1
    fa.verify(ADDRESS)


class Late(Exception):
    """A timeout of the caller."""


class Timeout:
    """A handler that is no function."""

    def __call__(self, *_):
        raise Late


@pytest.mark.parametrize("handler", [Timeout(), Timeout().__call__, partial(Timeout.__call__, None)])
@pytest.mark.parametrize("call", ["cat_file", "rm_file", "pipe_file"])
def test_a_timeout_in_a_request_is_not_an_error_of_the_storage(monkeypatch, call, handler):
    """It came out as a StoreError, which says to try again, or was ignored where files are removed."""
    with fa.build(A, ADDRESS) as S:
        doing = {
            "cat_file": S.storage.manifest,
            "rm_file": lambda: S.storage.remove(["manifest.json"]),
            "pipe_file": lambda: S.storage.mark("building"),
        }
        monkeypatch.setattr(S.storage._system, call, lambda *_, **__: signal.raise_signal(signal.SIGALRM))
        before = signal.signal(signal.SIGALRM, handler)
        try:
            with pytest.raises(Late):
                doing[call]()
        finally:
            signal.signal(signal.SIGALRM, before)
            monkeypatch.undo()


def test_a_timeout_in_a_question_is_not_the_loss_of_a_worker(tmp_path, monkeypatch):
    """The question was asked again, up to four times, and the timeout lost."""
    fa.build(A, tmp_path / "s").close()
    handle = fa.dask.connect(tmp_path / "s")._parts._handles[0]
    monkeypatch.setattr(handle, "_wait", lambda _: signal.raise_signal(signal.SIGALRM))
    before = signal.signal(signal.SIGALRM, Timeout())
    try:
        with pytest.raises(Late):
            handle.finish((None,), None)
    finally:
        signal.signal(signal.SIGALRM, before)
