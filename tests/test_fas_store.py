"""The index of a store: available on opening, valid under changes, renewed by compaction."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp

import fastanchors as fa
from fastanchors.fas import sidecar as fas_store
from fastanchors.store.manifest import Manifest
from fastanchors.store.store import Store
from matrices import metered
from naive.fas import noisy, separable


def matrix(m=6000, sparse=False, noise=False, seed=0):
    rng = np.random.default_rng(seed)
    A = separable(rng, m, 20, 6)
    A = noisy(rng, A) if noise else A
    return sp.csr_array(A * (A > 0.3)) if sparse else A.astype(np.float32)


@pytest.fixture(autouse=True)
def _keep_sketches(monkeypatch):
    """Keep sketches also for these narrow matrices, for which they would not pay off."""
    monkeypatch.setattr(fas_store, "_DENSE_SHARE", 10.0)
    monkeypatch.setattr(fas_store, "_SPARSE_SHARE", 10.0)


def check(S, k=5, reads=None):
    found = fa.FAS(selection="spa").seek(S, k, rng=0)
    assert found.indices.tolist() == fa.SPA().seek(S, k).indices.tolist()
    assert found.certificate.kind == "exact"
    if reads is not None:
        assert found.cost.rows_read == reads
    return found


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("noise", [False, True])
def test_a_build_writes_an_index_that_needs_no_row(tmp_path, sparse, noise):
    fa.build(matrix(sparse=sparse, noise=noise), tmp_path / "s", memory_limit=1 << 22)
    S = fa.open(tmp_path / "s")
    check(S, 5, reads=0)
    check(S, 3, reads=0)
    fa.verify(tmp_path / "s")


def test_changes_before_and_after_opening(tmp_path):
    S = fa.build(matrix(), tmp_path / "s")
    S[17, 3] = 0.5
    S.append(matrix(m=10, seed=1)[:3])
    S.commit()
    S.close()
    with fa.open(tmp_path / "s", mode="r+") as S:
        check(S, 5, reads=4)
        S[18, 3] = 0.25
        check(S, 5, reads=1)
        anchor = int(fa.FAS(selection="spa").seek(S, 1).indices[0])
        S.update(np.full(20, anchor), np.arange(20), np.zeros(20))  # the first anchor disappears
        check(S, 5)
        S[anchor, 2] = 7.0
        check(S, 5)


def test_compaction_renews_the_index(tmp_path):
    S = fa.build(matrix(), tmp_path / "s", memory_limit=1 << 22)
    found = fa.FAS(selection="spa").seek(S, 5)
    S[int(found.indices[0]), 1] = 9.0
    S[40, 2] = 0.5
    S.append(matrix(m=10, seed=2))
    S.compact()
    check(S, 5)
    S.close()
    S = fa.open(tmp_path / "s")
    assert S.changed_rows.size == 0
    check(S, 5, reads=0)
    fa.verify(tmp_path / "s")
    whole = sorted(path.name for path in (tmp_path / "s").glob("whole-*"))
    assert whole == ["whole-000002.fas.bin"]


@pytest.mark.parametrize("change", ["to zero", "from zero"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_verify_accepts_the_index_after_changes_and_a_compaction(tmp_path, change, dtype):
    """A compaction groups the terms of an l1 norm in another way, so the rows of the view differ in the last bit."""
    rng = np.random.default_rng(1)
    A = (rng.random((7000, 60)) * (rng.random((7000, 60)) < 0.8)).astype(dtype)
    fa.build(sp.csr_array(A), tmp_path / "s").close()
    with fa.open(tmp_path / "s", "r+") as S:
        anchors = fa.FAS(selection="spa").seek(S, 20).indices
        rows, columns = np.nonzero((A[anchors] != 0) == (change == "to zero"))
        rows, columns = anchors[rows[::7]], columns[::7]
        S.update(rows, columns, np.full(len(rows), 0.0 if change == "to zero" else 0.003, dtype))
        S.compact()
    assert fa.verify(tmp_path / "s")["rows"] == 7000
    with fa.open(tmp_path / "s") as S:
        check(S)


def test_a_seek_with_a_tolerance_leaves_the_index_of_the_store_alone(tmp_path):
    S = fa.build(matrix() * np.linspace(1, 0.2, 20, dtype=np.float32), tmp_path / "s")
    expected = fa.SPA().seek(S, 6).indices.tolist()
    assert len(fa.FAS(tol=0.5, allow_fewer=True).seek(S, 6)) < 6
    check(S, 6, reads=0)  # the previous index is still there
    S[40, 2] = 1e-3
    fa.FAS(tol=0.5, allow_fewer=True).seek(S, 6)
    S.compact()
    check(S, 6)
    S.close()
    with fa.open(tmp_path / "s") as S:
        assert fa.FAS(selection="spa").seek(S, 6).indices.tolist() == expected
        check(S, 6, reads=0)


def test_an_index_larger_than_its_store_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(fas_store, "_SPARSE_SHARE", 0.02)
    A = sp.random_array((2000, 40_000), density=5e-4, rng=0, format="csr")
    S = fa.build(A, tmp_path / "s")
    assert not list((tmp_path / "s").glob("*fas*"))
    assert fa.FAS(selection="spa").seek(S, 5, rng=0).indices.tolist() == fa.SPA().seek(S, 5).indices.tolist()


def test_an_invalid_proof_is_renewed_from_sketches(tmp_path):
    S = fa.build(matrix(), tmp_path / "s")
    assert any(arrays is not None for _, _, arrays in S.shard_arrays("fas"))
    anchors = fa.FAS(selection="spa").seek(S, 5).indices
    S.update(np.repeat(anchors[:2], 20), np.tile(np.arange(20), 2), np.ones(40, dtype=np.float32))
    found = check(S, 5)
    assert found.certificate.details["index"] == "made now from sketches"
    assert found.cost.rows_read < 4000


def test_large_sketches_are_removed_after_the_build(tmp_path, monkeypatch):
    monkeypatch.setattr(fas_store, "_DENSE_SHARE", 0.0)
    S = fa.build(matrix(), tmp_path / "s", memory_limit=1 << 22)
    assert not list((tmp_path / "s").glob("shard-*.fas.bin"))
    check(S, 5, reads=0)
    S[int(fa.FAS(selection="spa").seek(S, 1).indices[0]), 1] = 9.0
    check(S, 5)
    S.compact()
    S.close()
    check(fa.open(tmp_path / "s"), 5, reads=0)
    fa.verify(tmp_path / "s")


def test_without_the_index(tmp_path):
    S = fa.build(matrix(), tmp_path / "s", sidecars=())
    assert not list((tmp_path / "s").glob("*fas*"))
    check(S, 5)
    check(S, 5, reads=0)


def test_sorted_rows_and_a_first_shard_unlike_the_rest(tmp_path):
    A = matrix()
    A[:2000] = A[0]
    S = fa.build(A, tmp_path / "s", memory_limit=1 << 22)
    check(S, 5)
    check(S, 6)


def test_an_index_is_read_as_it_was_written(tmp_path):
    S = fa.build(matrix(sparse=True), tmp_path / "s")
    index = fas_store.recall(S).index
    again = fas_store.decode_index(fas_store.encode_index(index), S.shape)
    for name in ("proved", "norm", "rows", "stuck", "complete"):
        assert getattr(again, name) == getattr(index, name)
    np.testing.assert_array_equal(again.tails, index.tails)
    np.testing.assert_array_equal(again.coreset.rows.toarray(), index.coreset.rows.toarray())
    assert [x.tolist() for x in again.run.tied] == [x.tolist() for x in index.run.tied]


@pytest.mark.parametrize("k", [5, 12])
def test_a_reader_continues_after_a_compaction(tmp_path, k):
    """It shows the rows it was opened with, with an index that it had not read before or has to make now."""
    A = noisy(np.random.default_rng(0), matrix())
    fa.build(A, tmp_path / "s", memory_limit=1 << 22).close()

    with fa.open(tmp_path / "s") as old, fa.open(tmp_path / "s", mode="r+") as S:
        for value in (5.0, 7.0):
            S[3, 2] = value
            S.compact()
        assert check(old, k).indices.tolist() != check(S, k).indices.tolist()


def one_word_documents():
    """Rows tied at norm 1, so that a change of the first anchor invalidates every proof."""
    A = sp.random_array((5000, 60), density=0.1, rng=np.random.default_rng(0), format="lil")
    for i in range(600):
        A[i] = 0
        A[i, i % 60] = 3.0
    return sp.csr_array(A)


def test_an_index_that_compaction_cannot_renew_is_removed(tmp_path, monkeypatch):
    monkeypatch.undo()  # sketches are removed after the build, as by default
    S = fa.build(one_word_documents(), tmp_path / "s")
    assert S.manifest.extras.keys() == {"fas.whole"}
    S[0, 1] = 3.0  # document 0 is a mixture now
    S.commit()
    S.close()
    with fa.open(tmp_path / "s", mode="r+") as S:
        S.compact()
        check(S, 3)
    with fa.open(tmp_path / "s") as S:
        check(S, 3)
    fa.verify(tmp_path / "s")


def test_a_writer_without_memory_for_the_index_removes_it(tmp_path, monkeypatch):
    monkeypatch.undo()
    A = sp.random_array((20_000, 2000), density=0.005, rng=np.random.default_rng(0), format="lil")
    A[5] = A[5] * 5
    A[6] = A[6] * 4
    fa.build(sp.csr_array(A), tmp_path / "s", normalize=None).close()
    with fa.open(tmp_path / "s", mode="r+", memory_limit=1 << 22) as S:
        S.update(np.full(2000, 5), np.arange(2000), np.zeros(2000))
        with pytest.warns(UserWarning, match="index of FAS"):
            S.compact()
    with fa.open(tmp_path / "s") as S:
        check(S, 3)
    assert not list((tmp_path / "s").glob("*fas*"))


@pytest.mark.parametrize("told", [True, False])
def test_an_index_of_another_generation_is_refused(tmp_path, told):
    """Also in stores of earlier releases, which have the generation only in the name of the file."""
    S = fa.build(matrix(), tmp_path / "s")
    old = S.manifest.extras["fas.whole"]
    kept = (tmp_path / "s" / old["file"]).read_bytes()
    S[int(fa.FAS(selection="spa").seek(S, 1).indices[0]), 1] = 9.0
    S.compact()
    S.close()
    manifest = Manifest.read(tmp_path / "s")
    manifest.extras["fas.whole"] = old if told else {key: old[key] for key in ("file", "bytes", "arrays")}
    manifest.write(tmp_path / "s")
    (tmp_path / "s" / old["file"]).write_bytes(kept)
    with fa.open(tmp_path / "s") as S:
        assert S.sidecar_arrays("fas") is None
        check(S, 5)


def test_the_first_seek_of_several_threads_includes_the_journal(tmp_path, monkeypatch):
    """An index is never used without the changes that it does not include."""
    S = fa.build(matrix(m=20_000), tmp_path / "s", normalize=None)
    before = fa.FAS(selection="spa").seek(S, 3).indices.tolist()
    S.update(np.full(20, 7), np.arange(20), np.full(20, 50.0))  # row 7 is by far the longest now
    S.commit()
    S.close()
    with fa.open(tmp_path / "s") as S:
        expected = fa.SPA().seek(S, 3).indices.tolist()
    assert expected != before

    def slow(ask):
        def asked(*args, **options):
            time.sleep(0.05)
            return ask(*args, **options)

        return asked

    monkeypatch.setattr(Store, "changed_rows", property(slow(Store.changed_rows.fget)))
    monkeypatch.setattr(Store, "changes_since", slow(Store.changes_since))
    monkeypatch.setattr(fas_store, "decode_index", slow(fas_store.decode_index))
    monkeypatch.setattr(fas_store, "absorb", slow(fas_store.absorb))
    for _ in range(3):
        with fa.open(tmp_path / "s") as S, ThreadPoolExecutor(4) as pool:
            found = list(
                pool.map(lambda at, S=S: (time.sleep(0.02 * at), fa.FAS(selection="spa").seek(S, 3))[1], range(4))
            )
        assert [each.indices.tolist() for each in found] == [expected] * 4


@pytest.mark.parametrize("last", ["part", "whole"])
def test_a_published_index_keeps_its_own_pending_changes(last):
    """One thread includes part of the changes (its budget allows no more), another all of them."""
    S = fa.SampleMatrix(matrix(m=20_000), normalize=None)
    fa.FAS(selection="spa").seek(S, 3)
    S.update([3, 4, 5], [1, 2, 3], np.array([0.1, 20.0, 30.0], np.float32))
    data, kept = metered(S), fas_store.recall(S)
    states = {"part": kept.take_in(data, np.array([3])), "whole": kept.current(data)}
    assert states["part"].pending(data).tolist() == [4, 5]
    assert states["whole"].pending(data).size == 0
    for name in sorted(states, key=lambda name: name == last):
        fas_store.keep(S, states[name])
    assert kept.pending(data).tolist() == [3, 4, 5]  # the index of a third thread is still valid
    check(S, 3)


@pytest.mark.parametrize("rows", [700, 3000, 20_000])
@pytest.mark.parametrize("solver", [fa.FAS(selection="spa", allow_fewer=True), fa.SPA(allow_fewer=True)])
def test_anchors_that_the_rounding_of_a_view_chose_are_not_called_exact(tmp_path, rows, solver):
    """Sums and products of small integers have rank 5; divided and rounded to single precision they have more."""
    rng = np.random.default_rng(rows)
    A = (rng.integers(1, 9, (rows, 5)) @ rng.integers(0, 30, (5, 20))).astype(np.float32)
    with fa.build(A, tmp_path / "s") as S:
        for data in (S, fa.SampleMatrix(A)):
            assert solver.seek(data, 5).certificate.kind == "exact"
            for k in (6, 9):
                found = solver.seek(data, k)
                assert len(found) == k
                assert found.certificate.kind == "none"
                assert "from anchor 6 on" in found.certificate.statement
        five, nine = fa.FAS(selection="spa").seek(S, [5, 9])
        assert (five.certificate.kind, nine.certificate.kind) == ("exact", "none")
        with_budget = fa.FAS(budget=3 * rows).seek(S, 8)
        assert len(with_budget) < 6 or with_budget.certificate.kind == "none"
    with fa.build(A.astype(np.float64), tmp_path / "double") as S:
        assert len(solver.seek(S, 9)) == 5  # and nothing is left in double precision


@pytest.mark.parametrize("rows", [700, 20_000])
def test_small_residuals_that_a_view_shows_exactly_stay_exact(tmp_path, rows):
    """Small entries are as accurate as large ones: residuals along a column of small entries are no rounding."""
    rng = np.random.default_rng(0)
    A = (rng.dirichlet(np.ones(3), rows) @ np.eye(3, 6)).astype(np.float32)
    A[:, 4] = 1e-9 * rng.random(rows)
    A[:, 5] = 1e-5 * rng.random(rows)
    S = fa.SampleMatrix(A)
    found = fa.FAS(selection="spa").seek(S, 5)
    assert found.residuals[-1] < 1e-8
    assert found.certificate.kind == "exact"
    assert found.indices.tolist() == fa.SPA().seek(S.rows(np.arange(rows)), 5).indices.tolist()
