"""A writer keeps its memory limit between commits, however many entries it changes."""

from __future__ import annotations

import errno
import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

import fastanchors as fa
from fastanchors.errors import StoreError
from fastanchors.store import mapped_matrix

LIMIT = 1 << 22

WRITER = """
import sys, threading
import numpy as np, scipy.sparse as sp, fastanchors as fa
from fastanchors._maps import release_freed

def held():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon"))

def blocks(rows, columns):
    for k in range(10):
        yield sp.random_array((rows, columns), density=0.01, rng=k, format="csr") if sparse else rng.random((rows, 100))

path, sparse, limit, rng = sys.argv[1], sys.argv[2] == "sparse", 64 << 20, np.random.default_rng(0)
fa.build(blocks(10_000 if sparse else 3600, 4000), path, memory_limit=limit).close()
with fa.build(blocks(500, 300), path + ".small") as S:  # every kernel is compiled
    for _ in range(2):
        S.update(rng.integers(0, 5000, 3000), rng.integers(0, 100, 3000), rng.random(3000))
        S.compact()
release_freed()
with fa.open(path, mode="r+", memory_limit=limit) as S:
    m, n = S.shape
    before, most, done = held(), [0], threading.Event()

    def watch():
        while not done.wait(0.002):
            most[0] = max(most[0], held())

    watcher = threading.Thread(target=watch)
    watcher.start()
    for _ in range(2):
        S.update(rng.integers(0, m, 20_000), rng.integers(0, n, 20_000), rng.random(20_000))
        S.row_norm(rng.integers(0, m, 100))
        S.commit()
    done.set()
    watcher.join()
    print((most[0] - before) * 1024 / limit)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_many_random_updates_stay_below_the_limit(tmp_path, kind):
    """20,000 random entries: their pages alone would be 800 MiB."""
    run = [sys.executable, "-W", "ignore", "-c", WRITER, str(tmp_path / "s"), kind]
    done = subprocess.run(run, capture_output=True, text=True, check=True, timeout=300)
    assert float(done.stdout) < 1


CHANGED = WRITER.replace("(rows, 100)", "(rows, 200)").replace("3600", "10_000").replace("64 << 20", "48 << 20")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_an_index_that_takes_in_many_changed_rows_stays_below_the_limit(tmp_path):
    """Random entries of 18,000 of 100,000 rows (160 MB of data): the index read up to 16,384 of them at a time."""
    run = [sys.executable, "-W", "ignore", "-c", CHANGED, str(tmp_path / "s"), "dense"]
    done = subprocess.run(run, capture_output=True, text=True, check=True, timeout=300)
    assert float(done.stdout) < 1


@pytest.mark.parametrize("normalize", ["l1", None])
@pytest.mark.parametrize("sparse", [False, True])
def test_moved_blocks_are_the_same_matrix(tmp_path, sparse, normalize, monkeypatch):
    rng = np.random.default_rng(0)
    A = rng.random((3000, 40)) * (rng.random((3000, 40)) < 0.3)
    moved = []
    move = mapped_matrix.MappedMatrix._moved
    monkeypatch.setattr(
        mapped_matrix.MappedMatrix, "_moved", lambda self, block: (moved.append(1), move(self, block))[1]
    )
    with fa.build(sp.csr_array(A) if sparse else A, tmp_path / "s", normalize=normalize, memory_limit=LIMIT) as S:
        S._matrix._limit = 1 << 18
        for round_ in range(6):
            i, j, x = rng.integers(0, len(A), 400), rng.integers(0, 40, 400), rng.random(400)
            S.update(i, j, x)
            for each in zip(i, j, x, strict=True):
                A[each[0], each[1]] = each[2]
            S[round_, 3] = A[round_, 3] = 0.25
            if round_ == 3:
                S.append(A[:5])
                A = np.concatenate([A, A[:5]])
            np.testing.assert_array_equal(S.raw(*np.indices(A.shape)), A)
            S.check()
        assert moved
        assert not list((tmp_path / "s").glob("scratch-*"))
    with fa.open(tmp_path / "s") as S:
        np.testing.assert_array_equal(S.raw(*np.indices(A.shape)), A)
    fa.verify(tmp_path / "s")


def test_a_block_moves_to_a_scratch_file_once(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    A = sp.random_array((20_000, 40), density=0.3, rng=rng, format="csr")
    moved = []
    move = mapped_matrix.MappedMatrix._moved
    monkeypatch.setattr(
        mapped_matrix.MappedMatrix, "_moved", lambda self, block: (moved.append(1), move(self, block))[1]
    )
    with fa.build(A, tmp_path / "s", memory_limit=LIMIT, sidecars=()) as S:
        rows = np.repeat(np.arange(20_000), np.diff(A.indptr))
        for _ in range(20):
            some = rng.integers(0, A.nnz, 2000)
            A.data[some] = rng.random(2000)
            S.update(rows[some], A.indices[some], A.data[some])
        assert 0 < len(moved) <= len(S._blocks)
        np.testing.assert_array_equal(S.raw(rows, A.indices), A.data)
        S.check()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_does_not_read_what_its_parent_is_changing(tmp_path):
    with fa.build(np.random.default_rng(0).random((2000, 40)), tmp_path / "s", memory_limit=LIMIT) as S:
        S._matrix._limit = 1 << 18
        for _ in range(3):
            S.update(np.arange(0, 2000, 5), np.zeros(400, int), np.full(400, 0.5))
        child = os.fork()
        if not child:
            try:
                S.row_norm([0])
            except StoreError as error:
                os._exit(7 if "open it again" in str(error) else 8)
            os._exit(9)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert S.raw([0], [0]) == [0.5]


def test_a_compaction_leaves_no_tiny_shards(tmp_path):
    """A shard that has grown is rewritten as it is, or in equal parts; never with a small remainder."""
    rng = np.random.default_rng(0)
    A = sp.random_array((20_000, 50), density=0.3, rng=rng, format="csr")
    with fa.build(A, tmp_path / "s", memory_limit=1 << 23, sidecars=()) as S:
        before = len(S.manifest.shards)
        for _ in range(2):
            S.update(rng.integers(0, 20_000, 4000), rng.integers(0, 50, 4000), rng.random(4000))
            S.compact()
        sizes = [shard.rows for shard in S.manifest.shards]
    assert len(sizes) <= 2 * before
    assert min(sizes) > max(sizes) / 4
    fa.verify(tmp_path / "s")


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("written", [0, 1, 2])
def test_an_update_that_finds_the_disk_full_midway_sets_nothing(tmp_path, sparse, written, monkeypatch):
    rng = np.random.default_rng(0)
    A = rng.random((20_000, 40)) * (rng.random((20_000, 40)) < 0.3)
    i, j, x = rng.integers(0, len(A), 3000), rng.integers(0, 40, 3000), rng.random(3000)
    write, left = mapped_matrix.write_arrays, [written]

    def full(path, *args, **options):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return write(path, *args, **options)

    source = sp.csr_array(A) if sparse else A
    with fa.build(source, tmp_path / "s", normalize=None, memory_limit=LIMIT, sidecars=()) as S:
        assert len(S._blocks) > 2
        S[0, 0] = A[0, 0] = 0.75
        monkeypatch.setattr(mapped_matrix, "write_arrays", full)
        with pytest.raises(StoreError, match="the disk is full"):
            S.update(i, j, x)
        assert left == [-1]
        monkeypatch.undo()
        np.testing.assert_array_equal(S.raw(*np.indices(A.shape)), A)
        S.check()
        S.commit()
        with fa.open(tmp_path / "s") as R:
            np.testing.assert_array_equal(R.raw(*np.indices(A.shape)), A)
        S.update(i, j, x)  # again, with room
        for row, column, value in zip(i, j, x, strict=True):
            A[row, column] = value
        S.check()
    fa.verify(tmp_path / "s")
    with fa.open(tmp_path / "s") as R:
        np.testing.assert_array_equal(R.raw(*np.indices(A.shape)), A)
