"""A writer keeps its memory limit between commits, however many entries it changes."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

import fastanchors as fa
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
    """Twenty thousand entries here and there: their pages alone would be 800 MiB."""
    run = [sys.executable, "-W", "ignore", "-c", WRITER, str(tmp_path / "s"), kind]
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


def test_a_compaction_leaves_no_crumbs(tmp_path):
    """A shard that has grown is written again as it is, or in equal parts; never with a few rows left over."""
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
