"""Changes of a store: commits, readers, one writer, recovery, compaction, a failing disk."""

from __future__ import annotations

import errno
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
import scipy.sparse as sp

import fastanchors as fa
import fastanchors.store.compact as compaction
import fastanchors.store.journal as journal_module
import fastanchors.store.store as store_module
from fastanchors.errors import InvalidInputError, StoreError, StoreLockedError
from fastanchors.sampling import write_log


def stored(S):
    i, j = np.indices(S.shape)
    return S.raw(i, j)


@pytest.fixture(params=["sparse", "dense"])
def made(request, tmp_path):
    A = np.random.default_rng(0).integers(0, 9, (60, 8)) * (np.random.default_rng(1).random((60, 8)) < 0.5)
    path = tmp_path / "s"
    fa.build(sp.csr_array(A) if request.param == "sparse" else A, path).close()
    return path, A


def test_only_committed_changes_are_visible(made):
    path, A = made
    S = fa.open(path, mode="r+")
    S[3, 2] = 7
    S.update([1, 1, 2], [0, 0, 5], [4, 5, 6])
    S.add([1, 1], [0, 0], [1, 1])
    assert stored(fa.open(path)).tolist() == A.tolist()
    S.commit()
    S[0, 0] = 9
    A[3, 2], A[1, 0], A[2, 5] = 7, 7, 6
    assert stored(fa.open(path)).tolist() == A.tolist()
    S.close(commit=False)
    assert stored(fa.open(path)).tolist() == A.tolist()
    with fa.open(path, mode="r+") as S:
        S[0, 0] = 9

    def spoiled():
        with fa.open(path, mode="r+") as S:
            S[0, 1] = 8
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        spoiled()
    A[0, 0] = 9
    assert stored(fa.open(path)).tolist() == A.tolist()
    fa.verify(path)


def test_appended_rows(made, monkeypatch):
    path, A = made
    monkeypatch.setattr(store_module, "_INLINE_ROWS", 6000)
    with fa.open(path, mode="r+") as S:
        S.append(A[:2], row_names=["u", "v"])
        S.append(np.tile(A, (20, 1)))  # a shard of its own
        S[61, 0] = 5
        S[70, 1] = 6
        S.append(A[:1])
        assert [shard is None for shard in S._mapped.shards] == [False, True, False, True]
    A = np.concatenate([A, A[:2], np.tile(A, (20, 1)), A[:1]])
    A[61, 0], A[70, 1] = 5, 6
    with fa.open(path, mode="r+") as S:
        assert stored(S).tolist() == A.tolist()
        assert S.row_names[59:63] == ["59", "u", "v", "62"]
        S.compact()
        assert stored(S).tolist() == A.tolist()
        assert S.row_names[59:63] == ["59", "u", "v", "62"]
        assert len(S._blocks) == 1
    fa.verify(path)
    kept = ["journal-000002.log", "lock", "manifest.json", "shard-000002.bin", "whole-000002.coordinates.bin"]
    assert sorted(os.listdir(path)) == kept


def test_append_is_all_or_nothing(made, monkeypatch):
    path, A = made
    monkeypatch.setattr(store_module, "_INLINE_ROWS", 100)
    before = sorted(os.listdir(path))
    with fa.open(path, mode="r+", memory_limit=1 << 22) as S:
        bad = np.zeros((200_000, 8), dtype=int)
        bad[150_000, 3] = -1
        for rows, message in (
            (bad, r"A\[150000, 3\] is negative"),
            (A[:, :5], "has 5 columns, the store has 8"),
            (A + 0.5, "is not a whole number"),
        ):
            with pytest.raises(InvalidInputError, match=message):
                S.append(rows)
        assert S.shape == (60, 8)
    assert sorted(os.listdir(path)) == before


def test_refused_updates_change_nothing(made):
    path, A = made
    with fa.open(path, mode="r+") as S:
        for value in (-1, 0.5, np.nan):
            with pytest.raises(InvalidInputError):
                S.update([0, 1], [0, 1], [3, value])
        assert not S._log.pending
    assert stored(fa.open(path)).tolist() == A.tolist()


def test_a_reader_keeps_its_generation(made):
    path, A = made
    reader = fa.open(path)
    with fa.open(path, mode="r+") as S:
        S[0, 0] = 9
        S.commit()
        S.compact()
        S[0, 1] = 8
        S.commit()
        S.compact()
        assert S.generation == 3
    assert reader.generation == 1
    assert stored(reader).tolist() == A.tolist()
    assert reader.sample_rows(10, rng=0).shape == (10,)


def test_readers_open_while_a_writer_compacts(made):
    path, _ = made
    stop = threading.Event()
    failures, seen = [], set()

    def read():
        while not stop.is_set():
            try:
                with fa.open(path) as S:
                    seen.add(int(S.raw(0, 0)))
                    if int(S.raw(0, 0)) != int(S.raw(59, 7)):
                        failures.append("half a commit")
            except Exception as error:
                failures.append(error)

    with fa.open(path, mode="r+") as S:
        S.update([0, 59], [0, 7], [1, 1])
        S.commit()
        reader = threading.Thread(target=read)
        reader.start()
        for number in range(2, 60):
            S.update([0, 59], [0, 7], [number, number])
            S.commit()
            if number % 3 == 0:
                S.compact()
        stop.set()
        reader.join()
    assert failures == []
    assert len(seen) > 1


def test_one_writer(made):
    path, _ = made
    with fa.open(path, mode="r+"):
        with pytest.raises(StoreLockedError, match="another writer"):
            fa.open(path, mode="r+")
        fa.open(path)
    code = f"import fastanchors as fa, os, signal; S = fa.open({str(path)!r}, mode='r+'); os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", code], check=False)
    fa.open(path, mode="r+").close()  # a dead process holds no lock


def test_reading_mode_refuses_changes(made):
    path, A = made
    S = fa.open(path)
    for change in (lambda: S.update([0], [0], [1]), lambda: S.append(A[:1]), S.compact):
        with pytest.raises(StoreError, match=r"mode='r\+'"):
            change()
    with pytest.raises(InvalidInputError, match="mode must be"):
        fa.open(path, mode="w")


def test_the_store_returned_by_build_is_writable(tmp_path):
    A = np.eye(4) + 1
    S = fa.build(A, tmp_path / "s")
    T = fa.open(tmp_path / "s", mode="r+")  # building holds no lock
    with pytest.raises(StoreLockedError):
        S[0, 0] = 5
    T[0, 0] = 7
    T.close()
    with pytest.raises(StoreError, match="changed since it was opened"):
        S[0, 0] = 5
    S = fa.build(A, tmp_path / "s", overwrite=True)
    S[0, 0] = 5
    S.close()
    assert fa.open(tmp_path / "s").raw(0, 0) == 5


def test_closed_store(made):
    path, _ = made
    S = fa.open(path)
    S.close()
    S.close()
    assert "closed" in repr(S)
    for use in (lambda: S[0, 0], lambda: S.shape, lambda: S.sample_rows(3), lambda: S.__enter__(), lambda: S.nnz):
        with pytest.raises(StoreError, match="is closed"):
            use()


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="needs the names of mapped files")
@pytest.mark.parametrize("mode", ["r", "r+"])
def test_a_closed_store_that_is_still_referred_to_has_no_file_open(made, mode):
    path, A = made
    S = fa.open(path, mode, sidecars=())
    S.rows([3])
    if mode == "r+":
        S.append(A[:5])
        S.commit()
        S.compact()
        S.rows([3])
    S.close()
    with open("/proc/self/maps") as maps:
        assert str(path) not in maps.read()
    for use in (lambda: S.row_names, lambda: S.shared_arrays("fas"), lambda: S.sidecar_arrays("fas")):
        with pytest.raises(StoreError, match="is closed"):
            use()


def test_pickle_sends_the_path(made):
    path, _ = made
    with fa.open(path, mode="r+") as S:
        S[0, 0] = 5
        with pytest.raises(StoreError, match="not committed"):
            pickle.dumps(S)
        S.commit()
        copy = pickle.loads(pickle.dumps(S))
    assert copy.raw(0, 0) == 5
    assert copy.mode == "r"


@pytest.mark.parametrize("cut", [1, 20, 40])
def test_torn_end_of_the_journal_is_ignored(made, cut):
    path, _ = made
    log = path / "journal-000001.log"
    with fa.open(path, mode="r+") as S:
        S[0, 0] = 5
        S.commit()
        whole = log.read_bytes()
        S[0, 0] = 6
    torn = log.read_bytes()[: len(whole) + cut]
    log.write_bytes(whole[:128] + torn[128:])  # the head before the second commit
    assert fa.open(path).raw(0, 0) == 5
    assert fa.verify(path)["uncommitted_bytes"] == cut
    with fa.open(path, mode="r+") as S:
        S[0, 1] = 4
    assert log.read_bytes()[: len(whole)][128:] == whole[128:]
    assert fa.open(path).raw([0, 0], [0, 1]).tolist() == [5, 4]
    fa.verify(path)


def test_compaction_is_automatic(made, monkeypatch):
    path, A = made
    monkeypatch.setattr(compaction, "_JOURNAL_LIMIT", 3000)
    with fa.open(path, mode="r+") as S:
        for number in range(100):
            S[number % 60, number % 8] = number % 7
            A[number % 60, number % 8] = number % 7
            S.commit()
        assert S.generation > 2
        assert stored(S).tolist() == A.tolist()
    monkeypatch.setattr(compaction, "_JOURNAL_LIMIT", 1 << 26)
    monkeypatch.setattr(compaction, "DIRTY_BYTES", 1 << 20)
    with monkeypatch.context() as patch, fa.open(path, mode="r+", memory_limit=1 << 22) as S:
        patch.setattr(type(S), "memory", property(lambda self: 1 << 40))
        S.compact()
        before = S.generation
        for number in range(9):
            S[number, 0] = 3
            S.commit()
        assert S.generation == before + 1
    monkeypatch.setattr(compaction, "_MANY_BLOCKS", 5)
    monkeypatch.setattr(store_module, "_INLINE_ROWS", 0)
    with fa.open(path, mode="r+") as S:
        for _ in range(9):
            S.append(A[:3])
            S.commit()
        assert len(S._blocks) <= 6
        assert S.shape[0] == 60 + 27
    fa.verify(path)


def fail(monkeypatch, module, name, error, after):
    """Let the calls of an ``os`` function fail from the ``after``-th on."""
    real = getattr(os, name)
    calls = []

    def failing(*arguments, **options):
        calls.append(name)
        if len(calls) > after:
            raise OSError(error, os.strerror(error))
        return real(*arguments, **options)

    monkeypatch.setattr(module.os, name, failing)


@pytest.mark.parametrize(
    ("error", "message"), [(errno.ENOSPC, "the disk is full"), (errno.EROFS, "the disk is read-only")]
)
@pytest.mark.parametrize(("name", "after"), [("pwrite", 0), ("pwrite", 1), ("fdatasync", 0)])
def test_failing_disk_at_commit(made, monkeypatch, name, after, error, message):
    path, A = made
    S = fa.open(path, mode="r+")
    S[0, 0] = 5
    S.commit()
    S[0, 1] = 6
    with monkeypatch.context() as patch:
        fail(patch, journal_module, name, error, after)
        with pytest.raises(StoreError, match=message):
            S.commit()
    A[0, 0] = 5
    assert stored(fa.open(path)).tolist() == A.tolist()
    fa.verify(path)
    S.commit()  # once there is room again, nothing is lost
    A[0, 1] = 6
    assert stored(fa.open(path)).tolist() == A.tolist()
    S.close()
    fa.verify(path)


@pytest.mark.parametrize("name", ["fsync", "replace"])
@pytest.mark.parametrize("after", [0, 1, 2, 3, 4])
def test_failing_disk_at_compaction_and_append(made, monkeypatch, name, after):
    import fastanchors.store.arrays_file as arrays_file

    path, A = made
    monkeypatch.setattr(store_module, "_INLINE_ROWS", 0)
    S = fa.open(path, mode="r+")
    S[0, 0] = 5
    S.commit()
    A[0, 0] = 5
    messages = []
    for step in (lambda S: S.compact(), lambda S: S.append(A[:5])):
        with monkeypatch.context() as patch:
            fail(patch, arrays_file, name, errno.ENOSPC, after)
            try:
                step(S)
            except StoreError as error:
                messages.append(str(error))
        if "closed" in repr(S):  # the new generation was in place before its directory could be synced
            S = fa.open(path, mode="r+")
    assert all("the disk is full" in message for message in messages)
    assert len(messages) == {"fsync": [2, 2, 1, 1, 1], "replace": [1, 0, 0, 0, 0]}[name][after]
    S.close(commit=False)
    assert stored(fa.open(path)).tolist() == A.tolist()
    fa.verify(path)
    fa.open(path, mode="r+").close()
    assert len(os.listdir(path)) == 5  # manifest, journal, lock, a shard and the sidecar of coordinates


def test_failing_disk_at_build(tmp_path, monkeypatch):
    import fastanchors.store.arrays_file as arrays_file

    fail(monkeypatch, arrays_file, "fsync", errno.ENOSPC, 1)
    with pytest.raises(StoreError, match="the disk is full"):
        fa.build(np.ones((100_000, 9)), tmp_path / "s", memory_limit=1 << 22)
    assert os.listdir(tmp_path) == []


def test_single_updates_of_python_floats(tmp_path):
    """Python floats in a float64 store have a fast path, which must be recorded in the journal too."""
    A = np.random.default_rng(0).random((30_000, 8))
    fa.build(A, tmp_path / "s", memory_limit=1 << 22).close()
    with pytest.raises(StoreError, match=r"mode='r\+'"):
        fa.open(tmp_path / "s")[0, 0] = 0.5
    with fa.open(tmp_path / "s", mode="r+") as S:
        assert len(S._blocks) > 3
        for i in (0, 17_000, 29_999):
            S[i, 3] = A[i, 3] = 0.25
            assert S.raw(i, 3) == 0.25
        assert S.changed_rows.tolist() == [0, 17_000, 29_999]
    assert np.array_equal(stored(fa.open(tmp_path / "s")), A)
    fa.verify(tmp_path / "s")


MANY = """
import resource, sys
import numpy as np
import fastanchors as fa
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (40, hard))
fa.build(np.ones((60_000, 60)), sys.argv[1], memory_limit=1 << 22, sidecars=()).close()
with fa.open(sys.argv[1]) as S:
    print(len(S._blocks), S.nnz)
"""


def test_more_shards_than_open_files(tmp_path):
    done = subprocess.run([sys.executable, "-c", MANY, str(tmp_path / "s")], check=True, capture_output=True, text=True)
    blocks, nonzeros = map(int, done.stdout.split())
    assert blocks > 60
    assert nonzeros == 60_000 * 60


def test_many_single_updates_are_joined(tmp_path, monkeypatch):
    monkeypatch.setattr(write_log, "_JOIN", 16)
    A = np.random.default_rng(0).random((40, 8))
    with fa.build(A, tmp_path / "s") as S:
        S.append(A[:3])
        A = np.concatenate([A, A[:3]])
        rng = np.random.default_rng(1)
        for number in range(100):
            i, j, x = int(rng.integers(43)), int(rng.integers(8)), float(rng.random())
            S[i, j] = A[i, j] = x
            if number % 30 == 29:
                S.update([1, 2], [3, 4], [0.5, x])
                A[1, 3], A[2, 4] = 0.5, x
        assert len(S._log._operations) < 40
    assert np.array_equal(stored(fa.open(tmp_path / "s")), A)


def test_a_writer_that_outlives_the_modules_ends_in_silence(made):
    """What ``sys`` refers to is deleted last, after the names of all modules: two tracebacks were printed."""
    code = "import sys, fastanchors as fa; sys.excepthook = [fa.open(sys.argv[1], mode='r+')].append"
    run = [sys.executable, "-c", code, str(made[0])]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    fa.open(made[0], mode="r+").close()
