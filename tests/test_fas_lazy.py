"""The engine on matrices with known norms: few rows are read, and the kept bounds hold for all others."""

from __future__ import annotations

import os

import numpy as np
import pytest
import scipy.sparse as sp

import fastanchors as fa
from fastanchors.fas import seek as fas_seek
from fastanchors.fas import sidecar as fas_sidecar
from fastanchors.fas.lazy_index import lazy_index
from fastanchors.greedy import reader
from fastanchors.greedy.reader import Reader
from fastanchors.greedy.successive import successive_projection
from fastanchors.matrix import MeteredMatrix
from fastanchors.sampling.gather import is_range
from naive.fas import separable


def mixtures(m=6000, n=60, k=8, seed=0, dtype=np.float32):
    """Mixtures with 5 % noise."""
    rng = np.random.default_rng(seed)
    A = rng.dirichlet(np.ones(k), m) @ rng.random((k, n))
    return (A + 0.05 * A.mean() * np.abs(rng.standard_normal(A.shape))).astype(dtype)


def heavy_tails(m=20_000, n=400, seed=0):
    rng = np.random.default_rng(seed)
    A = sp.random_array((m, n), density=0.02, rng=rng, format="csr", dtype=np.float32)
    A.data = (rng.pareto(1.5, A.nnz) + 0.01).astype(np.float32)
    return A


def dense(A):
    return A.toarray() if sp.issparse(A) else A


def spa(A, k):
    return fa.FAS(selection="spa").seek(A, k, rng=0)


@pytest.mark.parametrize("normalize", [None, "l1"])
def test_few_rows_are_read_if_norms_are_heavy_tailed(tmp_path, normalize):
    A = heavy_tails()
    S = fa.SampleMatrix(A, normalize)
    view = S.rows(np.arange(S.shape[0]))
    expected = fa.SPA().seek(view, 12).indices.tolist()
    with fa.build(A, tmp_path / "s", normalize=normalize, sidecars=(), memory_limit=1 << 22) as store:
        assert len(store.manifest.shards) > 1
        for matrix in (fa.SampleMatrix(A, normalize), store):
            data = MeteredMatrix(matrix)
            assert successive_projection(Reader(data), 12).indices == expected
            assert data.cost.rows_read < 0.15 * S.shape[0]


def test_a_sparse_matrix_knows_its_longest_row():
    A = sp.csr_array(np.eye(50, 40))
    S = fa.SampleMatrix(A, None)
    assert S.terms == 1
    S.update(np.full(7, 3), np.arange(10, 17), np.ones(7))
    assert 8 <= S.terms <= 40
    S.append(sp.csr_array(np.ones((1, 40))))
    assert S.terms == 40
    assert fa.SampleMatrix(np.eye(50, 40)).terms == 40


@pytest.mark.parametrize("normalize", [None, "l1"])
@pytest.mark.parametrize("sparse", [False, True])
def test_stored_rows_equal_those_of_the_view(tmp_path, normalize, sparse):
    A = mixtures(3000)
    A[7] = 0
    with fa.build(sp.csr_array(A) if sparse else A, tmp_path / "s", normalize=normalize, memory_limit=1 << 22) as store:
        assert len(store.manifest.shards) > 1
        store.update([5, 2900], [3, 4], [9.0, 8.0])
        store.append(A[:30])
        for matrix in (store, MeteredMatrix(store)):
            before = store.cost.rows_read
            parts = matrix.map_stored(lambda *piece: piece, block_rows=170)
            assert store.cost.rows_read - before == 3030
            starts = [start for start, _, _ in parts]
            rows = [dense(b) if s is None else dense(b) / np.where(s > 0, s, 1)[:, None] for _, b, s in parts]
            assert starts == np.cumsum([0, *(len(part) for part in rows)]).tolist()[:-1]
            np.testing.assert_allclose(np.concatenate(rows), dense(store.rows(np.arange(3030))), rtol=1e-6)


@pytest.mark.parametrize("scale", [1.0, 1e30, 1e-30])
def test_an_l1_view_is_read_without_dividing_its_rows(scale, monkeypatch):
    """For any row sums, products of stored rows neither overflow nor underflow."""
    monkeypatch.setattr(reader, "_TINY", 0)
    A = mixtures(3000, dtype=np.float64)
    A *= np.random.default_rng(1).uniform(0.5, 2.0, (len(A), 1)) * scale
    S = fa.SampleMatrix(A.astype(np.float32))
    found = Reader(S)
    assert found.single
    view = S.rows(np.arange(len(A))).astype(np.float64)
    squares = np.einsum("ij,ij->i", view, view)
    np.testing.assert_allclose(found.squared_norms, squares, rtol=found.norm_error)
    Q = np.linalg.qr(np.random.default_rng(2).standard_normal((60, 3)))[0].T
    _, removed = found.removed(None, Q, single=True)
    error = 2 * np.sqrt(3) * (found.terms + 4) * 2.0**-24
    assert (np.abs(removed - ((view @ Q.T) ** 2).sum(axis=1)) <= error * squares).all()
    assert successive_projection(found, 6).indices == fa.SPA().seek(view, 6).indices.tolist()


@pytest.mark.parametrize("make", [mixtures, heavy_tails])
@pytest.mark.parametrize("normalize", [None, "l1"])
def test_the_index_of_a_lazy_run_holds_for_all_rows(make, normalize):
    S = fa.SampleMatrix(make(), normalize)
    index = lazy_index(MeteredMatrix(S), 10)
    assert index.proved == len(index.run) == 10
    A = dense(S.rows(np.arange(S.shape[0]))).astype(np.float64)
    assert index.run.indices.tolist() == fa.SPA().seek(A, 10).indices.tolist()
    outside = np.setdiff1d(np.arange(len(A)), index.coreset.indices)
    rest = A[outside]
    assert np.linalg.norm(rest, axis=1).max() <= index.norm
    for t, q in enumerate(index.run.thresholds.basis):
        assert np.linalg.norm(rest, axis=1).max() <= index.tails[t] * (1 + 1e-12)
        rest = rest - np.outer(rest @ q, q)


@pytest.mark.parametrize("make", [mixtures, heavy_tails])
def test_a_build_of_noisy_rows_keeps_an_index_and_no_sketches(tmp_path, make):
    A = make()
    fa.build(A, tmp_path / "s", normalize=None).close()
    assert not [name for name in os.listdir(tmp_path / "s") if name.endswith(".fas.bin") and name.startswith("shard")]
    with fa.open(tmp_path / "s", mode="r+") as S:
        found = spa(S, 10)
        assert found.cost.rows_read == 0
        assert found.certificate.kind == "exact"
        assert found.indices.tolist() == fa.SPA().seek(A, 10).indices.tolist()
        first = int(found.indices[0])
        S.update(np.full(A.shape[1], first), np.arange(A.shape[1]), np.zeros(A.shape[1]))  # the first anchor disappears
        again = spa(S, 10)
        assert again.certificate.kind == "exact"
        assert again.indices.tolist() == fa.SPA().seek(S, 10).indices.tolist()
        assert first not in again.indices
    fa.verify(tmp_path / "s")


def test_rows_that_are_nearly_mixtures_keep_their_hull(tmp_path):
    A = separable(np.random.default_rng(0), 6000, 60, 8)
    with fa.build(A, tmp_path / "s", normalize=None) as S:
        spa(S, 5)
        kept = fas_sidecar.recall(S)
        assert kept is not None
        assert kept.index.hull is not None


def test_a_noisy_sample_matrix_is_answered_by_the_engine():
    A = mixtures()
    S = fa.SampleMatrix(A, None)
    found = spa(S, 8)
    assert "by the engine" in found.certificate.details["index"]
    assert found.cost.rows_read < 4 * len(A)
    assert found.indices.tolist() == fa.SPA().seek(A, 8).indices.tolist()
    assert spa(S, 8).cost.rows_read == 0
    S[11, 5] = 0.01
    assert spa(S, 8).cost.rows_read == 1


def test_known_norms_prove_more_than_a_budget_has_rows():
    A = heavy_tails()
    m = A.shape[0]
    found = fa.FAS(budget=m // 4).seek(fa.SampleMatrix(A, None), 10, rng=0)
    assert found.certificate.kind == "exact"
    assert found.cost.rows_read <= m // 4
    assert found.indices.tolist() == fa.SPA().seek(A, 10).indices.tolist()


@pytest.mark.parametrize("budget", [400, 1500, 4000])
def test_a_budget_that_the_engine_exceeds_is_kept(budget):
    S = fa.SampleMatrix(mixtures(), None)
    found = fa.FAS(budget=budget).seek(S, 8, rng=0)
    assert found.cost.rows_read <= budget
    assert len(found) == 8
    expected = fa.SPA().seek(S, 8).indices
    proved = found.certificate.details["proved"]
    assert found.indices[:proved].tolist() == expected[:proved].tolist()


def test_a_file_beyond_memory_is_read_once(tmp_path, monkeypatch):
    A = mixtures(60_000, 40)
    np.save(tmp_path / "a.npy", A)
    expected = fa.SPA().seek(A, 8).indices.tolist()
    found = spa(tmp_path / "a.npy", 8)
    assert found.indices.tolist() == expected
    assert found.cost.rows_read > 1.5 * len(A)
    monkeypatch.setattr(fas_seek, "_beyond_memory", lambda matrix: matrix.on_disk)
    found = spa(tmp_path / "a.npy", 8)
    assert found.indices.tolist() == expected
    assert found.certificate.kind == "exact"
    assert found.cost.rows_read < 1.3 * len(A)


def test_consecutive_rows():
    assert is_range(np.arange(5, 9))
    assert is_range(np.array([3]))
    assert not any(is_range(np.array(rows, dtype=np.int64)) for rows in ([], [1, 3], [2, 1], [0, 2, 1, 3], [1, 1]))
