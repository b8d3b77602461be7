"""Single entries set in a float64 store are buffered, and included in every commit, close and compaction."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import fastanchors as fa
import fastanchors.store.compact as compaction
from fastanchors._parallel import LargePieces, use_threads
from fastanchors.errors import StoreError
from fastanchors.sampling.write_log import Entries, joined
from fastanchors.store.operations import AppendRows


@pytest.fixture(params=["sparse", "dense"])
def made(request, tmp_path):
    rng = np.random.default_rng(0)
    A = rng.random((60, 8)) * (rng.random((60, 8)) < 0.5)
    path = tmp_path / "s"
    fa.build(sp.csr_array(A) if request.param == "sparse" else A, path).close()
    return path, A


def stored(path):
    with fa.open(path) as S:
        return S.raw(*np.indices(S.shape))


def test_commit_and_close_write_buffered_entries_and_an_exception_discards_them(made):
    path, A = made
    with fa.open(path, mode="r+") as S:
        S[3, 2], A[3, 2] = 7.0, 7.0
        assert S._log.buffered
        S.commit()
        np.testing.assert_array_equal(stored(path), A)
        S[4, 1], A[4, 1] = 0.5, 0.5
        assert S._log.buffered
    np.testing.assert_array_equal(stored(path), A)

    def spoiled():
        with fa.open(path, mode="r+") as S:
            S[0, 1] = 8.0
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        spoiled()
    S = fa.open(path, mode="r+")
    S[0, 1] = 9.0
    S.close(commit=False)
    with pytest.raises(StoreError, match="closed"):
        S[0, 1] = 9.0
    np.testing.assert_array_equal(stored(path), A)
    fa.verify(path)


def test_buffered_entries_keep_their_order_in_the_journal(made):
    """The last change of an entry wins, by any way of writing."""
    path, A = made
    with fa.open(path, mode="r+") as S:
        S[1, 1] = 1.0
        S.update([1], [1], [2.0])
        S.update([2], [2], [3.0])
        S[2, 2] = 4.0
        S.append(A[:3])
        S[60, 0] = 5.0
        S.append(A[:1])
        S[60, 0] = 6.0
    A = np.concatenate([A, A[:3], A[:1]])
    A[1, 1], A[2, 2], A[60, 0] = 2.0, 4.0, 6.0
    np.testing.assert_array_equal(stored(path), A)
    fa.verify(path)


def test_buffered_entries_count_as_changes(made):
    path, A = made
    with fa.open(path, mode="r+") as S:
        S[5, 5] = 2.0
        with pytest.raises(StoreError, match="not committed"):
            pickle.dumps(S)
        assert S.changed_rows.tolist() == [5]
        S[7, 0] = 3.0
        S.compact()
        assert S.generation == 2
        assert S.changed_rows.tolist() == []
        S[6, 6] = 4.0
        S.commit()
        assert pickle.loads(pickle.dumps(S)).raw(6, 6) == 4.0
    A[5, 5], A[7, 0], A[6, 6] = 2.0, 3.0, 4.0
    np.testing.assert_array_equal(stored(path), A)


def test_a_reader_refuses_single_entries_at_once(made):
    path, _ = made
    with fa.open(path) as S:
        with pytest.raises(StoreError, match="open for reading"):
            S[0, 0] = 1.0
        assert not S._log.buffered


def test_joined_keeps_the_order_and_lets_the_last_win():
    def entry(x):
        return Entries(np.array([0]), np.array([x]), np.array([float(x)]))

    rows = AppendRows(np.ones((1, 2)), None)
    got = joined([entry(1), entry(2), rows, entry(3), rows, rows, entry(4), entry(5), entry(6)])
    assert [len(part.values) if isinstance(part, Entries) else None for part in got] == [2, None, 1, None, None, 3]
    assert got[-1].columns.tolist() == [4, 5, 6]


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("bytes_per_shard", [None, 48_000, 1 << 14])
@pytest.mark.parametrize("every", [1, 1500])  # with every row changed, the changed pages take all the memory
def test_compaction_makes_several_shards_at_a_time_where_there_is_room(
    tmp_path, every, bytes_per_shard, threads, monkeypatch
):
    A = sp.csr_array(sp.random_array((6000, 60), density=0.4, rng=np.random.default_rng(1)))
    fa.build(A, tmp_path / "s", memory_limit=1 << 22, sidecars=()).close()
    making = []
    submit = LargePieces.submit

    def watched(self, size, *work):
        making.append([*self.under_way.values(), size])
        return submit(self, size, *work)

    monkeypatch.setattr(LargePieces, "submit", watched)
    with use_threads(threads), fa.open(tmp_path / "s", mode="r+", memory_limit=1 << 22) as S:
        assert len(S._mapped.shards) > 4
        S.update(np.arange(0, 6000, every), 3, 2.0)
        if bytes_per_shard is not None:
            monkeypatch.setattr(compaction, "shard_bytes", lambda limit: bytes_per_shard)
        S.compact()
        assert max(map(len, making)) == (min(threads, 2) if every > 1 else 1)  # the limit on memory is small
        room = 5 * compaction.shard_bytes(S.memory_limit) // 2
        assert all(len(sizes) == 1 or sum(sizes) <= room for sizes in making)
        assert sum(shard.rows for shard in S._mapped.shards) == 6000
    want = A.toarray()
    want[::every, 3] = 2.0
    np.testing.assert_array_equal(stored(tmp_path / "s"), want)
    fa.verify(tmp_path / "s")


def test_a_shard_that_fails_in_compaction_leaves_nothing(tmp_path, monkeypatch):
    A = sp.csr_array(sp.random_array((6000, 60), density=0.4, rng=np.random.default_rng(1)))
    fa.build(A, tmp_path / "s", memory_limit=1 << 22, sidecars=()).close()
    write = compaction.write_shard

    def failing(folder, number, *arguments):
        if number % 4 == 3:
            raise StoreError("the disk is full")
        return write(folder, number, *arguments)

    with fa.open(tmp_path / "s", mode="r+", memory_limit=1 << 22) as S:
        S.update(np.arange(6000), 3, 2.0)
        before = sorted(path.name for path in S.path.iterdir())
        with monkeypatch.context() as patch:
            patch.setattr(compaction, "write_shard", failing)
            with pytest.raises(StoreError, match="the disk is full"):
                S.compact()
        assert sorted(path.name for path in S.path.iterdir()) == before
        S.compact()
    fa.verify(tmp_path / "s")
