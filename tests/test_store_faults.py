"""Every call of the operating system that a store makes fails in turn; ``benchmarks/faults.py`` does it at length."""

from __future__ import annotations

import errno
import gc
import io
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastanchors as fa
from fastanchors.errors import ConcurrentAccessError, CorruptStoreError, StoreError
from fastanchors.store import arrays_file, files, journal, storage
from fastanchors.store.file_cache import FileCache
from fastanchors.store.manifest import Manifest
from fastanchors.store.object_files import upload
from fastanchors.store.storage import Directory
from store_trials import STEPS, check, contents, make, states, work

CALLS = [
    "_map",
    "open",
    "fdopen",
    "pwrite",
    "fsync",
    "fdatasync",
    "ftruncate",
    "replace",
    "unlink",
    "mkdir",
    "listdir",
    "stat",
    "fstat",
]


class Disk:
    """Counts the calls on files of one directory; from the chosen one on, ``times`` of them fail with ``code``."""

    def __init__(
        self, patch: pytest.MonkeyPatch, folder: Path, chosen: int, code: int, times: int, only: list[str] = CALLS
    ) -> None:
        self.folder, self.chosen, self.code, self.times, self.count = str(folder), chosen, code, times, 0
        for name in only:
            module: Any = os if hasattr(os, name) else arrays_file
            patch.setattr(module, name, self._failing(getattr(module, name)))

    def _failing(self, call: Any) -> Any:
        def failing(target: Any, *args: Any, **options: Any) -> Any:
            if self._ours(target):
                self.count += 1
                if self.chosen < self.count <= self.chosen + self.times:
                    raise OSError(self.code, os.strerror(self.code), str(target))
            return call(target, *args, **options)

        return failing

    def _ours(self, target: Any) -> bool:
        if isinstance(target, int):
            return target >= 0 and os.readlink(f"/proc/self/fd/{target}").startswith(self.folder)
        return os.fspath(target).startswith(self.folder)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("faults") / "s"
    make(path, sparse=True)
    return path


def trials(made: Path, folder: Path, code: int, times: int, step: int) -> Iterator[tuple[Path, dict[str, int]]]:
    """The store after each fault, and the steps that were tried and done."""
    for chosen in range(0, 10_000, step):
        path = folder / str(chosen)
        shutil.copytree(made, path)
        told = {"tried": 0, "done": 0}
        with pytest.MonkeyPatch.context() as patch:
            disk = Disk(patch, path, chosen, code, times)
            work(path, told.__setitem__)
        yield path, told
        shutil.rmtree(path)
        if disk.count <= chosen:
            assert told["done"] == len(STEPS)
            return


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="needs the names of open files")
@pytest.mark.parametrize(
    ("code", "times", "step"),
    [(errno.EIO, 1, 1), (errno.ENOSPC, 1000, 4), (errno.EMFILE, 2, 5)],
    ids=["input/output error once", "disk full from then on", "too many files twice"],
)
def test_a_fault_at_any_call_leaves_a_committed_state(made, tmp_path, code, times, step):
    count = 0
    for path, told in trials(made, tmp_path, code, times, step):
        check(path, told["done"], max(told.values()))
        count += 1
    assert count > 15


def test_short_writes_are_completed(made, tmp_path, monkeypatch):
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: write(file, data[: max(1, len(data) // 2)], at))
    shutil.copytree(made, tmp_path / "s")
    told: dict[str, int] = {}
    work(tmp_path / "s", told.__setitem__)
    assert told["done"] == len(STEPS)
    check(tmp_path / "s", told["done"], told["done"])


def test_short_reads_of_the_journal_are_completed(made, tmp_path, monkeypatch):
    """A short answer was compared with the slots of the journal, and every further commit refused."""
    path, pread = tmp_path / "s", os.pread
    shutil.copytree(made, path)
    with fa.open(path, mode="r+") as S:
        monkeypatch.setattr(os, "pread", lambda file, length, at: pread(file, (length + 1) // 2, at))
        for value in (5.0, 6.0):
            S[1, 1] = value
            S.commit()
    with fa.open(path) as S:
        assert S.raw(1, 1) == 6


class NoAnswer(io.RawIOBase):
    """A file whose reads would have to wait."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> None:
        return None


@pytest.mark.parametrize("works", [0, 1], ids=["manifest", "journal"])
def test_a_read_that_has_no_answer_yet_is_an_error_of_the_disk(made, monkeypatch, works):
    """It gives None, which became a TypeError."""
    opened, count = os.fdopen, [0]

    def waits(descriptor: int, *mode: str) -> object:
        count[0] += 1
        if count[0] <= works:
            return opened(descriptor, *mode)
        os.close(descriptor)
        return io.BufferedReader(NoAnswer())

    monkeypatch.setattr(files.os, "fdopen", waits)
    with pytest.raises(StoreError, match=r"cannot read .*: Resource temporarily unavailable"):
        Directory(made).manifest()
    assert count[0] > works


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="needs the names of open files")
@pytest.mark.parametrize("code", [errno.EIO, errno.EMFILE, errno.EACCES])
@pytest.mark.parametrize("name", ["stat", "lstat", "fstat", "open"])
@pytest.mark.parametrize("file", ["journal-000001.log", "shard-000000.bin"])
def test_a_failing_disk_is_not_damage(made, monkeypatch, file, name, code):
    """A file was called corrupt or missing, or an error of the system came out."""
    disk = Disk(monkeypatch, made / file, 0, code, 10**6, only=[name])
    for look in (fa.verify, lambda path: Directory(path).manifest()):
        disk.count = 0
        try:
            look(made)
        except StoreError as error:
            found: tuple[type, str] | None = type(error), str(error)[:12]
        else:
            found = None
        assert found == ((StoreError, "cannot read ") if disk.count else None)


def test_local_folders_of_object_storage_that_cannot_be_looked_at(tmp_path, monkeypatch):
    """A folder of the cache that cannot be listed, and a new file: errors of the system came out."""

    def fails(*_: object, **__: object) -> Any:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(Path, "exists", fails)
    monkeypatch.setattr(Path, "glob", fails)
    FileCache(tmp_path, 0).make_room(tmp_path / "new.bin")
    with pytest.raises(StoreError, match=r"cannot read .*x\.bin: the disk reports"):
        upload(storage.ObjectStorage.__new__(storage.ObjectStorage), tmp_path, [{"file": "x.bin"}])


def test_a_directory_whose_journal_is_missing_is_refused(made, tmp_path):
    """For workers, as by fa.open; it was a FileNotFoundError."""
    shutil.copytree(made, tmp_path / "s")
    (journal,) = (tmp_path / "s").glob("journal-*")
    journal.unlink()
    with pytest.raises(CorruptStoreError, match=r"journal-000001.log is missing; restore it from a copy"):
        Directory(tmp_path / "s").manifest()


def test_a_worker_with_too_many_open_files_says_so(made, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files", "shard-000000.bin")

    monkeypatch.setattr(storage, "map_arrays", full)
    with pytest.raises(StoreError, match=r"cannot read shard-000000.bin: this process has too many files open"):
        Directory(made).map({"file": "shard-000000.bin"})


def test_a_copy_that_is_removed_before_it_is_mapped_is_fetched_again(made, monkeypatch):
    """Another process makes room in the cache; it was a FileNotFoundError."""
    fetched: list[Path] = []
    elsewhere = storage.ObjectStorage.__new__(storage.ObjectStorage)
    monkeypatch.setattr(
        elsewhere, "fetch", lambda _: fetched.append(made / "removed.bin") or fetched[-1], raising=False
    )
    with pytest.raises(StoreError, match=r"cannot read .*removed\.bin: No such file"):
        elsewhere.map({"file": "x", "bytes": 8, "arrays": {}})
    assert len(fetched) == 2


def test_errors_of_close_change_nothing_and_no_number_is_closed_twice(made, tmp_path, monkeypatch):
    """The lock has no content and the journal is synced; another file may have the number already."""
    path, close, failed = tmp_path / "s", os.close, []

    def fails(descriptor: int) -> None:
        assert descriptor not in failed, "closed twice"
        held = os.fstat(descriptor)
        close(descriptor)
        if any(os.path.samestat(held, entry.stat()) for entry in path.iterdir()):
            failed.append(descriptor)
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    shutil.copytree(made, path)
    S = fa.open(path, mode="r+")
    S[1, 1] = 5.0
    S.commit()
    with monkeypatch.context() as patch:
        patch.setattr(os, "close", fails)
        S.close()
        del S
        gc.collect()
    assert len(failed) == 2  # the journal and the lock
    with fa.open(path, mode="r+") as S:
        assert S.raw(1, 1) == 5


def test_a_store_that_cannot_follow_its_compaction_is_closed(made, tmp_path, monkeypatch):
    """It would continue to write to the journal of the old generation, which is no longer read."""
    path = tmp_path / "s"
    shutil.copytree(made, path)
    S = fa.open(path, mode="r+")
    S[1, 1] = 5
    Disk(monkeypatch, path / "shard-000001.bin", 0, errno.ENOMEM, 1, only=["_map"])
    with pytest.raises(StoreError, match="no memory left to map it; what was committed before is intact"):
        S.compact()
    monkeypatch.undo()
    with pytest.raises(StoreError, match="is closed; open it again"):
        S[2, 2] = 6
    with fa.open(path) as T:
        assert T.generation == 2
        assert T.raw(1, 1) == 5


def test_appending_is_all_or_nothing_where_a_new_shard_cannot_be_mapped(made, tmp_path, monkeypatch):
    path = tmp_path / "s"
    shutil.copytree(made, path)
    monkeypatch.setattr("fastanchors.store.store._INLINE_ROWS", 0)
    with fa.open(path, mode="r+", memory_limit=1 << 22) as S:
        before = sorted(os.listdir(path))
        with monkeypatch.context() as patch:
            Disk(patch, path / "shard-000002.bin", 0, errno.ENOMEM, 1, only=["_map"])  # the second piece
            rows = states()[0][[1] * 40_000]
            with pytest.raises(StoreError, match="cannot append to"):
                S.append(rows)
        assert S.shape == (40, 6)
        assert sorted(os.listdir(path)) == before
        S.append(rows)
        assert S.shape == (40_040, 6)
    with fa.open(path) as S:
        assert contents(S)[:40].tolist() == states()[0].tolist()
        assert S.shape == (40_040, 6)


def test_a_write_between_the_rewriting_and_the_following_of_a_compaction_is_refused(made, tmp_path, monkeypatch):
    """It would be in neither generation: the new shards are written, and the old journal is not read again."""
    path, raised = tmp_path / "s", []
    shutil.copytree(made, path)
    write = Manifest.write

    def written(self, folder):
        def change(call):
            with pytest.raises(ConcurrentAccessError, match="nothing was changed"):
                call()
            raised.append(call)

        calls = [
            lambda: S.update([3], [3], [9.0]),
            lambda: S.__setitem__((3, 3), 9.0),
            lambda: S.append(states()[0][:1]),
            S._commit,
        ]
        for call in calls:
            thread = threading.Thread(target=change, args=(call,))
            thread.start()
            thread.join()
        write(self, folder)

    with fa.open(path, mode="r+") as S:
        S[1, 1] = 5
        before = contents(S).tolist()
        with monkeypatch.context() as patch:
            patch.setattr(Manifest, "write", written)
            S.compact()
        assert len(raised) == 4
        assert S.generation == 2
        assert contents(S).tolist() == before
        S[3, 3] = 9
    with fa.open(path) as S:
        assert S.raw(1, 1) == 5
        assert S.raw(3, 3) == 9
        assert S.shape == (40, 6)
    fa.verify(path)


@pytest.mark.parametrize("torn", [0, 8, 16])
def test_a_slot_of_the_journal_that_was_cut_short(tmp_path, monkeypatch, torn):
    """The commit was confirmed and readers saw it, but ``fa.verify`` said to restore the journal from a copy."""
    fa.build(np.ones((5, 3)), tmp_path / "s").close()
    write, slots = journal.write_all, []

    def fails(file, piece, at):
        if at < journal.START and len(slots) < 1:
            slots.append(write(file, piece[:torn] + bytes(torn % 3), at))
            raise OSError(errno.EIO, "Input/output error")
        return write(file, piece, at)

    monkeypatch.setattr(journal, "write_all", fails)
    with fa.open(tmp_path / "s", "r+") as S:
        S[0, 0] = 5.0
        S.commit()
        whole = torn == 0  # nothing was written: the slot of an earlier commit is still there
        with nullcontext() if whole else pytest.raises(CorruptStoreError, match="one of two slots"):
            fa.verify(tmp_path / "s")
        S[0, 0] = 6.0
    assert slots
    assert fa.verify(tmp_path / "s")["commits"] == 2
    slots.clear()
    with fa.open(tmp_path / "s", "r+") as S:
        S[0, 0] = 7.0
    fa.open(tmp_path / "s", "r+").close()
    assert fa.verify(tmp_path / "s")["commits"] == 3
    with fa.open(tmp_path / "s") as S:
        assert S.raw(0, 0) == 7.0
