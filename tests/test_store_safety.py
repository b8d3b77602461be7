"""Files of others are not changed: replaced, moved, forked and forged stores."""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import zlib
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

import fastanchors as fa
from fastanchors.errors import CorruptStoreError, InvalidInputError, StoreError, StoreLockedError
from fastanchors.store import build_directory as place
from fastanchors.store import journal as journal_module
from fastanchors.store import store as store_module
from fastanchors.store.compact import compact
from fastanchors.store.files import WriterLock

A = np.arange(1.0, 241.0).reshape(60, 4)
B = A[:20] + 1000


def stored(path):
    with fa.open(path) as S:
        return S.raw(*np.indices(S.shape))


def is_whole(path, expected):
    fa.verify(path)
    np.testing.assert_array_equal(stored(path), expected)


# --- replacing a store -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ['{"name": "some web app"}', "[" * 200_000, "rubbish"])
def test_only_stores_are_overwritten(tmp_path, text):
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "manifest.json").write_text(text)
    (tmp_path / "app" / "index.html").write_text("precious")
    with pytest.raises(StoreError, match="is not a store, so it is not overwritten; remove it yourself"):
        fa.build(A, tmp_path / "app", overwrite=True)
    assert sorted(os.listdir(tmp_path / "app")) == ["index.html", "manifest.json"]


def test_a_damaged_store_and_an_empty_directory_are_overwritten(tmp_path):
    (tmp_path / "p").mkdir()
    fa.build(A, tmp_path / "p", overwrite=True).close()
    manifest = tmp_path / "p" / "manifest.json"
    manifest.write_bytes(manifest.read_bytes()[:-20])
    fa.build(B, tmp_path / "p", overwrite=True).close()
    is_whole(tmp_path / "p", B)
    assert os.listdir(tmp_path) == ["p"]


def test_a_store_with_a_writer_is_not_replaced(tmp_path):
    fa.build(A, tmp_path / "p").close()
    with fa.open(tmp_path / "p", mode="r+") as S:
        with pytest.raises(StoreLockedError, match="another writer has"):
            fa.build(B, tmp_path / "p", overwrite=True)
        S[50, 0] = 7
    expected = A.copy()
    expected[50, 0] = 7
    is_whole(tmp_path / "p", expected)
    assert os.listdir(tmp_path) == ["p"]


def test_a_writer_cannot_come_while_a_store_is_replaced(tmp_path):
    fa.build(A, tmp_path / "p").close()
    seen = []

    def blocks():
        with pytest.raises(StoreLockedError):
            fa.open(tmp_path / "p", mode="r+")
        seen.append(stored(tmp_path / "p"))  # readers may
        yield B

    fa.build(blocks(), tmp_path / "p", overwrite=True).close()
    np.testing.assert_array_equal(seen[0], A)
    is_whole(tmp_path / "p", B)


@pytest.mark.parametrize("replace", ["build", "move", "remove"])
def test_a_writer_notices_that_its_directory_is_another(tmp_path, replace):
    fa.build(A, tmp_path / "p").close()
    S = fa.open(tmp_path / "p", mode="r+")
    S[50, 0] = 7
    os.rename(tmp_path / "p", tmp_path / "away")
    if replace == "build":
        fa.build(B, tmp_path / "p").close()
    elif replace == "move":
        fa.build(A, tmp_path / "q").close()  # identical content, but another directory
        os.rename(tmp_path / "q", tmp_path / "p")
    for change in (S.commit, S.compact, lambda: S.append(A), S.close):
        with pytest.raises(StoreError, match="has been replaced or removed since it was opened; open it again"):
            change()
    is_whole(tmp_path / "away", A)
    if replace != "remove":
        is_whole(tmp_path / "p", B if replace == "build" else A)


@pytest.mark.parametrize("other", [B, A + 1, sp.csr_array(A)])
def test_a_replaced_store_cannot_be_written_to(tmp_path, other):
    S = fa.build(A, tmp_path / "p")
    fa.build(other, tmp_path / "p", overwrite=True).close()
    with pytest.raises(StoreError, match="has been changed since it was opened"):
        S[50, 0] = 7.0
    is_whole(tmp_path / "p", other.toarray() if sp.issparse(other) else other)
    fa.open(tmp_path / "p", mode="r+").close()  # its lock is free


def test_a_store_after_a_compaction_by_another_writer(tmp_path):
    S = fa.build(A, tmp_path / "p")
    with fa.open(tmp_path / "p", mode="r+") as T:
        T[0, 0] = 5
        T.compact()
    with pytest.raises(StoreError, match="has been changed since it was opened"):
        S[1, 1] = 6
    fa.open(tmp_path / "p", mode="r+").close()


def test_replacing_through_a_link_keeps_the_link(tmp_path):
    fa.build(A, tmp_path / "real").close()
    os.symlink("real", tmp_path / "link")
    fa.build(B, tmp_path / "link", overwrite=True).close()
    assert (tmp_path / "link").is_symlink()
    is_whole(tmp_path / "real", B)
    assert sorted(os.listdir(tmp_path)) == ["link", "real"]


def without_exchange(monkeypatch):
    monkeypatch.setattr(place, "exchange", lambda one, other: False)


@pytest.mark.parametrize("exchange", [True, False])
def test_replacing_leaves_no_other_directory(tmp_path, monkeypatch, exchange):
    if not exchange:
        without_exchange(monkeypatch)
    fa.build(A, tmp_path / "p[1]").close()
    reader = fa.open(tmp_path / "p[1]")
    fa.build(B, tmp_path / "p[1]", overwrite=True).close()
    is_whole(tmp_path / "p[1]", B)
    np.testing.assert_array_equal(reader.raw(*np.indices(reader.shape)), A)
    assert os.listdir(tmp_path) == ["p[1]"]


@pytest.mark.parametrize("renames", [0, 1, 2])
def test_interrupted_while_replacing(tmp_path, monkeypatch, renames):
    """Without an atomic exchange, an interruption between two steps leaves one of the stores."""
    fa.build(A, tmp_path / "p").close()
    without_exchange(monkeypatch)
    real, done = os.rename, []

    def rename(one, other):
        if len(done) == renames:
            done.append("interrupted")
            raise KeyboardInterrupt
        done.append(one)
        real(one, other)

    monkeypatch.setattr(place.os, "rename", rename)
    with pytest.raises(KeyboardInterrupt):
        fa.build(B, tmp_path / "p", overwrite=True)
    monkeypatch.undo()
    is_whole(tmp_path / "p", B if renames == 2 else A)
    fa.build(B, tmp_path / "p", overwrite=True).close()
    assert os.listdir(tmp_path) == ["p"]


def test_a_store_is_restored_after_a_killed_replacement(tmp_path):
    """A build killed between two renames leaves the old store under another name; the next build restores it."""
    fa.build(A, tmp_path / "p").close()
    os.rename(tmp_path / "p", tmp_path / ".p.replaced-12345678")
    with pytest.raises(StoreError, match="exists already"):
        fa.build(B, tmp_path / "p")
    is_whole(tmp_path / "p", A)
    assert os.listdir(tmp_path) == ["p"]


def test_builds_of_one_path_at_once(tmp_path):
    """One of them wins, the others raise; none removes files of another."""
    outcomes = []

    def build():
        try:
            fa.build(A, tmp_path / "p", sidecars=()).close()
            outcomes.append("built")
        except StoreError as error:
            known = "exists already" in str(error) or "another build has created" in str(error)
            outcomes.append("late" if known else str(error))

    for _ in range(5):
        threads = [threading.Thread(target=build) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) == ["built"] + ["late"] * 5
        outcomes.clear()
        is_whole(tmp_path / "p", A)
        assert os.listdir(tmp_path) == ["p"]
        fa.build(B, tmp_path / "p", overwrite=True).close()
        os.rename(tmp_path / "p", tmp_path / "q")
        for file in (tmp_path / "q").iterdir():
            file.unlink()
        (tmp_path / "q").rmdir()


def test_a_fresh_folder_taken_for_a_dead_one(tmp_path, monkeypatch):
    """Another build locks and removes the folder before its owner has locked it; the owner makes another."""
    made = []

    class Late(WriterLock):
        def __init__(self, store):
            made.append(store)
            if len(made) == 1:
                store.rmdir()
            super().__init__(store)

    monkeypatch.setattr(place, "WriterLock", Late)
    fa.build(A, tmp_path / "p").close()
    assert len(made) == 2
    is_whole(tmp_path / "p", A)


def test_relative_paths_do_not_follow_the_working_directory(tmp_path, monkeypatch):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        fa.build(A, "p").close()
    monkeypatch.chdir(tmp_path / "one")
    built = fa.build(A, "q")
    S = fa.open("p", mode="r+")
    reader = fa.open("p")
    monkeypatch.chdir(tmp_path / "two")
    S[0, 0] = 7
    S.close()
    built[0, 0] = 7
    built.close()
    assert reader.path == tmp_path / "one" / "p"
    is_whole(tmp_path / "two" / "p", A)
    assert stored(tmp_path / "one" / "p")[0, 0] == stored(tmp_path / "one" / "q")[0, 0] == 7
    assert os.listdir(tmp_path / "two") == ["p"]


def test_a_removed_working_directory(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for use in (fa.open, fa.verify, lambda path: fa.build(A, path)):
        with pytest.raises(StoreError, match=r"working directory has been removed|does not exist"):
            use("p")


# --- other files in place of those of the store ----------------------------------------------------------------------


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_nothing_is_committed_to_a_journal_that_is_no_longer_read(tmp_path, how):
    """For example after a copy was restored over an open store: the commit would be confirmed and lost."""
    fa.build(A, tmp_path / "p").close()
    journal = tmp_path / "p" / "journal-000001.log"
    before = journal.read_bytes()
    S = fa.open(tmp_path / "p", mode="r+")
    S[0, 0] = 7
    journal.rename(tmp_path / "aside")
    if how == "replaced":
        journal.write_bytes(before)
    for change in (S.commit, S.compact, lambda: S.append(B)):
        with pytest.raises(StoreError, match="has been replaced or removed since it was opened"):
            change()
    S.close(commit=False)
    journal.write_bytes(before)
    is_whole(tmp_path / "p", A)


def copied_over(source: Path, target: Path) -> None:
    """Write the files of a directory into those of another, as ``cp -r source/. target`` does: same inodes."""
    for file in source.iterdir():
        (target / file.name).write_bytes(file.read_bytes())


@pytest.mark.parametrize("compacted", [False, True])
def test_a_backup_restored_under_a_writer_is_not_changed(tmp_path, compacted):
    """The commit would be written behind the end of a shorter journal, or to one that the manifest does not name."""
    fa.build(np.eye(4), tmp_path / "p", normalize=None).close()
    with fa.open(tmp_path / "p", mode="r+") as S:
        S[0, 1] = 2.0
    shutil.copytree(tmp_path / "p", tmp_path / "backup")
    writer = fa.open(tmp_path / "p", mode="r+")
    for j in (2, 3):
        writer[0, j] = 3.0
        writer.commit()
    if compacted:
        writer.compact()
    copied_over(tmp_path / "backup", tmp_path / "p")
    writer[1, 0] = 5.0
    for action in (writer.commit, writer.compact, lambda: writer.append(np.eye(4)), writer.close):
        with pytest.raises(StoreError, match=r"another program has changed .*; open (it|the store) again"):
            action()
    assert fa.verify(tmp_path / "p")["commits"] == 1
    with fa.open(tmp_path / "p", mode="r+") as S:
        assert S.raw(0, 1) == 2.0
        assert S.raw(1, 0) == S.raw(0, 2) == 0.0
        S[3, 0] = 1.0
    assert fa.verify(tmp_path / "p")["commits"] == 2


@pytest.mark.parametrize("how", ["written again", "shorter", "replaced", "removed"])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_a_writer_whose_shards_are_overwritten_writes_nothing(tmp_path, kind, how):
    """Its changed pages are dropped with the old content, so a compaction wrote values from before a commit."""
    fa.build(kind(A), tmp_path / "p").close()
    writer = history(tmp_path / "p", 7.0)
    (shard,) = (tmp_path / "p").glob("shard-*.bin")
    content, files = shard.read_bytes(), set(os.listdir(tmp_path / "p"))
    if how in ("replaced", "removed"):
        shard.rename(tmp_path / "aside")
    if how != "removed":
        overwritten(shard, content[:-64] if how == "shorter" else content)
    writer[3, 3] = 9.0
    for action in (writer.commit, writer.compact, lambda: writer.append(kind(B)), writer.close):
        with pytest.raises(StoreError, match=r"another program has changed .*\.bin since it was opened"):
            action()
    shard.write_bytes(content)
    expected = A.copy()
    expected[0, 0] = 7
    is_whole(tmp_path / "p", expected)
    assert set(os.listdir(tmp_path / "p")) == files


def test_a_shard_that_is_overwritten_while_a_compaction_reads_it_is_kept(tmp_path, monkeypatch):
    fa.build(A, tmp_path / "p").close()
    writer = history(tmp_path / "p", 7.0)
    (shard,) = (tmp_path / "p").glob("shard-*.bin")

    def compacted(store):
        overwritten(shard, shard.read_bytes())
        return compact(store)

    monkeypatch.setattr(store_module, "compact", compacted)
    with pytest.raises(StoreError, match="another program has changed"):
        writer.compact()
    writer.close()
    expected = A.copy()
    expected[0, 0] = 7
    is_whole(tmp_path / "p", expected)


def test_a_writer_goes_on_if_its_shards_are_read_linked_or_overwritten_unchanged(tmp_path):
    """Only blocks that have changes lose them; programs that copy a store change no content."""
    fa.build(np.vstack([A, A]), tmp_path / "p").close()
    writer = history(tmp_path / "p", 7.0)
    writer.append(np.tile(B, (4000, 1)))  # in files
    writer[60 + 5, 1] = 3.0
    shutil.copytree(tmp_path / "p", tmp_path / "backup")
    for shard in (tmp_path / "p").glob("shard-*.bin"):
        os.link(shard, tmp_path / shard.name)
        shard.chmod(0o600)
    writer.commit()
    expected = writer.raw(*np.indices(writer.shape))
    writer.compact()
    for shard in (tmp_path / "p").glob("shard-*.bin"):
        overwritten(shard, shard.read_bytes())
    writer.append(B)
    writer.close()
    is_whole(tmp_path / "p", np.vstack([expected, B]))


def history(path: Path, *values: float) -> fa.Store:
    """A writer after one commit for each value."""
    S = fa.open(path, mode="r+")
    for value in values:
        S[0, 0] = value
        S.commit()
    return S


def overwritten(journal: Path, content: bytes) -> None:
    """Another program writes to the file, at another time."""
    journal.write_bytes(content)
    os.utime(journal, ns=(0, journal.stat().st_mtime_ns + 1))


@pytest.mark.parametrize("piece", [7, 1 << 20])
@pytest.mark.parametrize("at", ["another history", 20, 128 + 5, 128 + 22, 128 + 24 + 3])
def test_nothing_is_committed_to_a_journal_that_was_overwritten(tmp_path, monkeypatch, at, piece):
    """Inode, length, slots and the last record are the same: the commit was confirmed, and committed data was lost."""
    monkeypatch.setattr(journal_module, "_PIECE", piece)
    fa.build(A, tmp_path / "p").close()
    shutil.copytree(tmp_path / "p", tmp_path / "q")
    history(tmp_path / "q", 2.0, 8.0).close()
    writer = history(tmp_path / "p", 7.0, 8.0)
    journal = tmp_path / "p" / "journal-000001.log"
    before = journal.read_bytes()
    other = (tmp_path / "q" / "journal-000001.log").read_bytes()
    assert (other[:128], other[-24:], len(other)) == (before[:128], before[-24:], len(before))
    if at != "another history":
        other = before[:at] + bytes([before[at] ^ 1]) + before[at + 1 :]
    overwritten(journal, other)
    writer[3, 3] = 9.0
    for action in (writer.commit, writer.compact, lambda: writer.append(B)):
        with pytest.raises(StoreError, match=r"another program has changed .*\.log since it was opened"):
            action()
    assert journal.read_bytes() == other
    overwritten(journal, before)  # the same content of another time is the same journal
    writer.close()
    expected = A.copy()
    expected[0, 0], expected[3, 3] = 8, 9
    is_whole(tmp_path / "p", expected)


def test_a_journal_overwritten_at_the_same_time_has_another_last_record(tmp_path, monkeypatch):
    """Clocks of files may have steps of milliseconds or seconds."""
    monkeypatch.setattr(journal_module, "state_of", lambda there: (there.st_ino,))
    fa.build(A, tmp_path / "p").close()
    shutil.copytree(tmp_path / "p", tmp_path / "q")
    history(tmp_path / "q", 2.0).close()
    journal = tmp_path / "p" / "journal-000001.log"
    writer = history(tmp_path / "p", 7.0)
    other = (tmp_path / "q" / "journal-000001.log").read_bytes()
    journal.write_bytes(other)
    writer[3, 3] = 9.0
    with pytest.raises(StoreError, match="another program has changed"):
        writer.close()
    assert journal.read_bytes() == other


def test_a_touched_journal_is_read_once_and_a_failing_read_changes_nothing(tmp_path, monkeypatch):
    fa.build(A, tmp_path / "p").close()
    writer, count, pread = history(tmp_path / "p", 7.0, 8.0), [], os.pread
    journal = tmp_path / "p" / "journal-000001.log"

    def counted(file, length, at):
        count.append(at)
        if len(count) == 2:
            raise OSError(errno.EIO, "Input/output error")
        return pread(file, length, at)

    os.utime(journal)
    writer[0, 1] = 9.0
    monkeypatch.setattr(os, "pread", counted)
    with pytest.raises(StoreError, match=r"cannot write to .*: the disk reports an input/output error"):
        writer.commit()
    for reads in ({0, 128}, {0}):  # the head and all records, then the head and the last record
        count[2:] = []
        writer[1, 1] = len(reads)
        writer.commit()
        assert (128 in count[2:]) == (128 in reads)
    writer.close()
    expected = A.copy()
    expected[0, :2], expected[1, 1] = (8, 9), 1
    is_whole(tmp_path / "p", expected)


@pytest.mark.parametrize("content", [None, b"other"])
def test_nothing_is_committed_without_the_manifest(tmp_path, content):
    fa.build(np.eye(4), tmp_path / "p").close()
    manifest = tmp_path / "p" / "manifest.json"
    with fa.open(tmp_path / "p", mode="r+") as S:
        S[0, 1] = 2.0
        before = manifest.read_bytes()
        manifest.unlink()
        if content is not None:
            manifest.write_bytes(content)
        with pytest.raises(StoreError):
            S.commit()
        manifest.write_bytes(before)  # the same content in another file is the same store
        S.commit()
    assert fa.verify(tmp_path / "p")["commits"] == 1


def test_a_copy_by_hard_links_is_not_changed(tmp_path):
    fa.build(A, tmp_path / "p").close()
    (tmp_path / "copy").mkdir()
    S = fa.open(tmp_path / "p", mode="r+")
    for file in (tmp_path / "p").iterdir():
        os.link(file, tmp_path / "copy" / file.name)
    S[0, 0] = 7
    for change in (S.commit, S.compact):
        with pytest.raises(StoreError, match="has hard links, whose content a commit would change too"):
            change()
    is_whole(tmp_path / "copy", A)
    (tmp_path / "copy" / "journal-000001.log").unlink()
    S.close()
    assert stored(tmp_path / "p")[0, 0] == 7


@pytest.mark.parametrize("name", ["scratch-x", "journal-000002.log", "shard-000001.bin", "manifest.json.tmp"])
def test_a_pipe_in_place_of_a_leftover_does_not_stop_a_writer(tmp_path, name):
    fa.build(A, tmp_path / "p").close()
    os.mkfifo(tmp_path / "p" / name)
    change = "import sys, fastanchors as fa; S = fa.open(sys.argv[1], 'r+'); S[0, 0] = 7; S.compact(); S.close()"
    subprocess.run([sys.executable, "-c", change, str(tmp_path / "p")], timeout=60, check=True)
    fa.verify(tmp_path / "p")
    assert stored(tmp_path / "p")[0, 0] == 7


def test_verify_of_a_journal_that_cannot_be_opened(tmp_path, monkeypatch):
    fa.build(A, tmp_path / "p").close()
    (tmp_path / "p" / "journal-000001.log").unlink()
    monkeypatch.chdir(tmp_path / "p")  # paths of sockets must be short
    with socket.socket(socket.AF_UNIX) as other:
        other.bind("journal-000001.log")
        with pytest.raises(StoreError, match=r"journal-000001\.log"):
            fa.verify(tmp_path / "p")


def test_verify_of_files_that_are_removed_meanwhile(tmp_path):
    fa.build(A, tmp_path / "p").close()
    shard = tmp_path / "p" / "shard-000000.bin"
    with pytest.raises(StoreError, match=r"shard-000000\.bin was removed meanwhile, .*; verify it again"):
        fa.verify(tmp_path / "p", progress=lambda done, total: shard.unlink())


# --- appended rows ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sparse", [False, True])
def test_a_buffer_may_be_used_again_after_append(tmp_path, sparse):
    fa.build(sp.csr_array(A) if sparse else A, tmp_path / "p").close()
    rows = sp.csr_array(B) if sparse else B.copy()
    with fa.open(tmp_path / "p", mode="r+") as S:
        for _ in range(3):
            S.append(rows)
            if sparse:
                rows.data += 1
            else:
                rows += 1
        if sparse:
            rows.indices[:] = 0  # the journal would be refused
    is_whole(tmp_path / "p", np.vstack([A, B, B + 1, B + 2]))


# --- forks -----------------------------------------------------------------------------------------------------------

FORKED = """
import os, sys
import fastanchors as fa
S = fa.open(sys.argv[1], mode="r+")
S[0, 0] = 5
S.commit()
child = os.fork()
if child == 0:
    said = []
    S[1, 0] = 6
    for change in (S.commit, S.compact, lambda: S.append([[1.0, 2, 3, 4]])):
        try:
            change()
        except fa.errors.StoreError as error:
            said.append("this process is a fork of it" in str(error))
    S.close(commit=False)
    os._exit(0 if said == [True] * 3 else 1)
assert os.waitpid(child, 0)[1] == 0
try:
    fa.open(sys.argv[1], mode="r+")
except fa.errors.StoreLockedError:
    print("locked")  # what the child closed was its own
S[2, 0] = 7
S.close()
"""


def test_a_fork_does_not_write(tmp_path):
    fa.build(A, tmp_path / "p").close()
    done = subprocess.run([sys.executable, "-c", FORKED, str(tmp_path / "p")], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "locked\n"), done.stderr
    expected = A.copy()
    expected[0, 0], expected[2, 0] = 5, 7
    is_whole(tmp_path / "p", expected)


ORPHAN = """
import os, sys, time
import fastanchors as fa
S = fa.open(sys.argv[1], mode="r+")
if os.fork() == 0:
    print("alive", flush=True)
    time.sleep(60)
    os._exit(0)
time.sleep(60)
"""


def test_a_dead_writer_whose_fork_lives_keeps_no_lock(tmp_path):
    fa.build(A, tmp_path / "p").close()
    code = [sys.executable, "-c", ORPHAN, str(tmp_path / "p")]
    with subprocess.Popen(code, stdout=subprocess.PIPE, start_new_session=True) as writer:
        try:
            assert writer.stdout.readline() == b"alive\n"
            with pytest.raises(StoreLockedError):
                fa.open(tmp_path / "p", mode="r+")
            writer.kill()
            writer.wait()
            fa.open(tmp_path / "p", mode="r+").close()
        finally:
            os.killpg(writer.pid, 9)


# --- readers ---------------------------------------------------------------------------------------------------------


def test_a_reader_seeks_in_its_generation_after_compactions(tmp_path):
    rng = np.random.default_rng(0)
    W = rng.dirichlet(np.ones(5), 3000)
    W[:5] = np.eye(5)
    M = W @ rng.random((5, 40))
    fa.build(M, tmp_path / "p").close()
    readers = [fa.open(tmp_path / "p") for _ in range(3)]
    expected = fa.FAS(selection="spa").seek(readers[0], 5).indices
    with fa.open(tmp_path / "p", mode="r+") as S:
        for _ in range(2):
            S[7, 3] = 100.0
            S.compact()
    assert readers[1].sidecar_arrays("fas") is not None
    np.testing.assert_array_equal(fa.FAS(selection="spa").seek(readers[1], 5).indices, expected)
    assert len(readers[2].shard_arrays("fas")) == 1


def test_a_missing_extra_is_named(tmp_path):
    M = np.random.default_rng(0).random((3000, 40))
    fa.build(M, tmp_path / "p").close()
    (extra,) = (tmp_path / "p").glob("whole-*.fas.bin")
    content = extra.read_bytes()
    extra.write_bytes(content[:-64])
    with pytest.raises(CorruptStoreError, match=rf"{extra.name} has .* truncated or foreign"):
        fa.open(tmp_path / "p")
    extra.unlink()
    with pytest.raises(CorruptStoreError, match=f"{extra.name} is missing"):
        fa.open(tmp_path / "p")


# --- forged manifests and journals -----------------------------------------------------------------------------------


def forge(path, change):
    """Change the manifest, with a right checksum."""
    file = path / "manifest.json"
    content = json.loads(file.read_text())
    del content["crc32"]
    change(content)
    content["crc32"] = "0" * 8
    raw = (json.dumps(content, indent=1) + "\n").encode()
    file.write_bytes(raw[:-12] + f'{zlib.crc32(raw):08x}"\n}}\n'.encode())


def first(content):
    return content["shards"][0]["data"]


FORGERIES = {
    "file of a neighbour": lambda c: first(c).update(file="../other/shard-000000.bin"),
    "absolute file": lambda c: first(c).update(file="/etc/passwd"),
    "journal with a name that no file can have": lambda c: c.update(journal="é" * 300),
    "journal of a neighbour": lambda c: c.update(journal="../victim.log"),
    "names elsewhere": lambda c: c["names"].update(file=".."),
    "extra elsewhere": lambda c: c["extras"].update(fas={"file": "../x", "bytes": 0, "arrays": {}}),
    "extras of another kind": lambda c: c.update(extras=40),
    "many columns": lambda c: c.update(columns=10**12),
    "many rows": lambda c: (c.update(rows=10**9), c["shards"][0].update(rows=10**9)),
    "rows that do not add up": lambda c: c.update(rows=10**9),
    "negative rows": lambda c: (c.update(rows=-1), c["shards"][0].update(rows=-1)),
    "no shards": lambda c: c.update(rows=0, shards=[]),
    "shards of another kind": lambda c: c.update(shards={"a": 1}),
    "shard with more": lambda c: c["shards"][0].update(colour="red"),
    "version as text": lambda c: c.update(version="1"),
    "version 0": lambda c: c.update(version=0),
    "version true": lambda c: c.update(version=True),
    "objects": lambda c: first(c)["arrays"]["row_sums"].update(dtype="|O"),
    "entries of objects": lambda c: c.update(dtype="|O"),
    "sums of another type": lambda c: first(c)["arrays"]["row_sums"].update(dtype="<i8"),
    "negative offset": lambda c: first(c)["arrays"]["row_sums"].update(offset=-64),
    "offset beyond": lambda c: first(c)["arrays"]["row_sums"].update(offset=10**15),
    "missing array": lambda c: first(c)["arrays"].pop("row_sums"),
    "missing indptr": lambda c: first(c)["arrays"].pop("indptr"),
    "short array": lambda c: first(c)["arrays"]["scale"].update(shape=[3]),
    "missing key": lambda c: c.pop("next_shard"),
    "names of other length": lambda c: c["names"]["arrays"]["names.ends"].update(shape=[2]),
    "normalize": lambda c: c.update(normalize="l2"),
    "generation": lambda c: c.update(generation=1.5),
    "metadata": lambda c: c.update(metadata=[1]),
}


@pytest.mark.parametrize("forgery", list(FORGERIES))
def test_forged_manifests(tmp_path, forgery):
    for name in ("p", "other"):
        fa.build(sp.csr_array(A), tmp_path / name, column_names=list("abcd")).close()
    (tmp_path / "victim.log").write_bytes((tmp_path / "p" / "journal-000001.log").read_bytes() + b"precious")
    forge(tmp_path / "p", FORGERIES[forgery])
    for use in (fa.open, fa.verify, lambda path: fa.open(path, mode="r+")):
        with pytest.raises(CorruptStoreError, match="is not a manifest of version 1: "):
            use(tmp_path / "p")
    assert (tmp_path / "victim.log").read_bytes().endswith(b"precious")


def test_a_manifest_with_more_keys_opens(tmp_path):
    fa.build(A, tmp_path / "p").close()
    forge(tmp_path / "p", lambda c: c.update(colour="red"))
    is_whole(tmp_path / "p", A)


@pytest.mark.parametrize("name", ["lock", "journal-000001.log"])
def test_links_in_a_store_are_not_followed_by_writers(tmp_path, name):
    fa.build(A, tmp_path / "p").close()
    victim = tmp_path / "victim"
    os.rename(tmp_path / "p" / name, victim)
    with victim.open("ab") as file:
        file.write(b"precious")
    os.symlink("../victim", tmp_path / "p" / name)
    with pytest.raises(StoreError, match="is a symbolic link"):
        fa.open(tmp_path / "p", mode="r+")
    assert victim.read_bytes().endswith(b"precious")


@pytest.mark.parametrize("sparse", [True, False])
def test_the_journal_of_another_store(tmp_path, sparse):
    def made(matrix, name, change):
        with fa.build(sp.csr_array(matrix) if sparse else matrix, tmp_path / name) as S:
            change(S)
        return tmp_path / name / "journal-000001.log"

    mine = made(B, "p", lambda S: None)
    for number, (matrix, change) in enumerate(
        [
            (A, lambda S: S.update([50], [0], [7])),
            (A[:, :2], lambda S: S.append(A[:1, :2])),
            (A.astype(np.int32), lambda S: S.update([1], [0], [7])),
            (A.astype(np.int32), lambda S: S.append(A[:1].astype(np.int32))),
        ]
    ):
        mine.write_bytes(made(matrix, f"q{number}", change).read_bytes())
        for use in (fa.open, fa.verify):
            with pytest.raises(CorruptStoreError, match="does not belong to this store"):
                use(tmp_path / "p")


def test_metadata_is_validated_before_the_build(tmp_path):
    def never():
        raise AssertionError("the source was read")
        yield

    for value in (np.int64(1), {1, 2}, float("nan")):
        with pytest.raises(InvalidInputError, match=r"metadata\['a'\] cannot be written as JSON"):
            fa.build(never(), tmp_path / "p", metadata={"a": value})
    with fa.build(A, tmp_path / "p", metadata={"a": [1, None]}) as S:
        assert S.manifest.metadata == {"a": [1, None]}


def test_exchange_reports_what_went_wrong(tmp_path):
    from fastanchors.store.files import exchange

    (tmp_path / "one").mkdir()
    with pytest.raises(OSError) as caught:
        exchange(tmp_path / "one", tmp_path / "nothing")
    assert caught.value.errno == errno.ENOENT


# --- temporary files of readers --------------------------------------------------------------------------------------

KILLED = """
import os, sys
import fastanchors as fa
import fastanchors.io.row_grouper as triplets
real = triplets.RowGrouper.blocks

def blocks(self):
    print(self._folder.name, flush=True)
    os.kill(os.getpid(), 9)

triplets.RowGrouper.blocks = blocks
if sys.argv[1] == "build":
    fa.build(sys.argv[2], sys.argv[3], memory_limit=1 << 22)
else:
    fa.open(sys.argv[3], mode="r+", memory_limit=1 << 22).append(sys.argv[2])
"""


@pytest.mark.parametrize("what", ["build", "append"])
def test_files_of_a_killed_reader_are_removed_later(tmp_path, what):
    rng = np.random.default_rng(0)
    M = sp.coo_array((rng.random(40_000), (rng.integers(0, 900, 40_000), rng.integers(0, 50, 40_000))), shape=(900, 50))
    scipy.io.mmwrite(tmp_path / "m.mtx", M)
    if what == "append":
        fa.build(M.tocsr(), tmp_path / "p").close()
    code = [sys.executable, "-c", KILLED, what, str(tmp_path / "m.mtx"), str(tmp_path / "p")]
    done = subprocess.run(code, capture_output=True, text=True)
    assert done.returncode == -9, done.stderr
    folder = Path(done.stdout.strip())
    assert folder.exists()
    assert tmp_path in folder.parents
    if what == "build":
        fa.build(A, tmp_path / "p").close()
    else:
        fa.open(tmp_path / "p", mode="r+").close()
        fa.verify(tmp_path / "p")
    assert not folder.exists()
    assert sorted(os.listdir(tmp_path)) == ["m.mtx", "p"]
