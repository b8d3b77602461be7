"""Build, sample model, seek and encode on Dask, with its scheduler in this process (workers: test_dask_cluster)."""

from __future__ import annotations

import asyncio
import shutil
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import dask
import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from dask.callbacks import Callback
from dask.utils import key_split
from distributed import Client
from hypothesis import given
from hypothesis import strategies as st

import fastanchors as fa
from fastanchors._parallel import one_thread, threads_allowed
from fastanchors.dask.remote_store import RemoteStore
from fastanchors.dask.sketches import Marks
from fastanchors.dask.tasks import Pool, calls
from fastanchors.fas import index as fas_index
from fastanchors.fas import seek as fas_seek
from fastanchors.fas import sidecar as fas_store
from fastanchors.matrix.contract import dense
from fastanchors.store.shard_rows import shard_bytes
from fastanchors.store.store import Store
from naive.fas import noisy, separable

LIMIT = 1 << 22
ROWS = shard_bytes(LIMIT) // 160  # rows of 20 doubles in one shard


def matrix(m=3 * ROWS, sparse=False, noise=False, seed=0):
    rng = np.random.default_rng(seed)
    A = separable(rng, m, 20, 6)
    A = noisy(rng, A) if noise else A
    return sp.csr_array(A * (A > 0.3)) if sparse else A


def lazy(A, rows=ROWS):
    """A Dask array in blocks of that many rows; sparse matrices give sparse blocks."""
    if not sp.issparse(A):
        return da.from_array(A, chunks=(rows, A.shape[1]))
    meta = sp.csr_array((0, A.shape[1]), dtype=A.dtype)
    blocks = [A[at : at + rows] for at in range(0, A.shape[0], rows)]
    return da.concatenate([da.from_delayed(dask.delayed(block), block.shape, meta=meta) for block in blocks])


def files(path):
    """The content of every file of a store."""
    return {file.name: file.read_bytes() for file in path.iterdir()}


@pytest.fixture
def keep_sketches(monkeypatch):
    """Keep sketches also for these narrow matrices, for which they would not pay off."""
    monkeypatch.setattr(fas_store, "_DENSE_SHARE", 10.0)
    monkeypatch.setattr(fas_store, "_SPARSE_SHARE", 10.0)


# --- build -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("normalize", ["l1", None])
def test_a_build_writes_the_same_files_as_a_local_one(tmp_path, normalize, keep_sketches):
    A = matrix()
    fa.build(A, tmp_path / "one", normalize=normalize, memory_limit=LIMIT)
    S = fa.build(lazy(A), tmp_path / "many", normalize=normalize, memory_limit=LIMIT)
    assert files(tmp_path / "many") == files(tmp_path / "one")
    assert len(S.manifest.shards) == 3
    assert S.cost.bytes_moved == 0  # threads
    fa.verify(tmp_path / "many")


def test_the_scheduler_does_not_matter(tmp_path):
    A = matrix(sparse=True)
    for scheduler in ("synchronous", "threads"):
        with dask.config.set(scheduler=scheduler):
            S = fa.build(lazy(A, 700), tmp_path / scheduler, memory_limit=LIMIT)
    assert files(tmp_path / "threads") == files(tmp_path / "synchronous")
    assert (S.rows(np.arange(A.shape[0])) != fa.SampleMatrix(A).rows(np.arange(A.shape[0]))).nnz == 0
    fa.verify(tmp_path / "threads")


def test_large_blocks_are_split_and_columns_joined(tmp_path):
    A = matrix()
    S = fa.build(da.from_array(A, chunks=(2 * ROWS, 7)), tmp_path / "s", memory_limit=LIMIT)
    assert [shard.rows for shard in S.manifest.shards] == [ROWS] * 3
    assert [shard.data["file"] for shard in S.manifest.shards] == [f"shard-00000{i}.bin" for i in range(3)]
    np.testing.assert_array_equal(S.raw(np.arange(len(A))[:, None], np.arange(20)), A)


def test_many_blocks_become_one_shard_each(tmp_path, monkeypatch):
    """If memory allows: a manifest of hundreds of thousands of shards would be slow to read."""
    monkeypatch.setattr(sys.modules["fastanchors.store.build"], "shard_bytes", lambda limit: 1 << 16)
    X = da.from_array(matrix(4000), chunks=(2000, 20))
    assert len(fa.build(X, tmp_path / "few", sidecars=()).manifest.shards) > 2
    monkeypatch.setattr(sys.modules["fastanchors.dask.build"], "_MANY", 2)
    assert len(fa.build(X, tmp_path / "many", sidecars=()).manifest.shards) == 2


def test_a_data_frame_provides_names(tmp_path):
    A = matrix(900)
    frame = pd.DataFrame(A, columns=[f"c{j}" for j in range(20)], index=[f"r{i:03d}" for i in range(900)])
    S = fa.build(dd.from_pandas(frame, npartitions=4), tmp_path / "s")
    whole = fa.build(frame, tmp_path / "whole")
    assert list(S.row_names) == list(whole.row_names)
    assert list(S.column_names) == list(whole.column_names)
    np.testing.assert_array_equal(S.rows(np.arange(900)), whole.rows(np.arange(900)))


def test_columns_of_partitions_are_matched_by_name(tmp_path):
    """They were taken by position, so that columns of one partition were exchanged; Dask itself puts them in order."""
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    whole = pd.DataFrame(np.arange(1.0, 22).reshape(7, 3), columns=["a", "b", "c"])

    def lazy(other):
        return dd.from_delayed([dask.delayed(whole[:4]), dask.delayed(other)], meta=whole[:0], verify_meta=False)

    turned = lazy(whole[4:][["c", "a", "b"]])
    np.testing.assert_array_equal(fa.open_matrix(turned).rows(np.arange(7)), whole)
    with fa.build(turned, tmp_path / "s", normalize=None) as S:
        np.testing.assert_array_equal(S.rows(np.arange(7)), whole)
    renamed = lazy(whole[4:].rename(columns={"a": "z"}))
    with pytest.raises(fa.errors.InvalidInputError, match="partition 1 has the columns z, b, c instead of a, b, c"):
        fa.open_matrix(renamed)


@pytest.mark.parametrize("change", ["none", "some", "sum", "both"])
def test_partitions_that_are_other_names_of_tasks(tmp_path, change):
    """Dask loses them where it fuses them with further tasks; ``compute`` of the frame itself does not fuse."""
    whole = pd.DataFrame(matrix(300), columns=[f"c{j}" for j in range(20)])
    tasks = [dask.delayed(whole.iloc)[low : low + 100] for low in (0, 100, 200)]
    frame = dd.from_delayed(tasks, meta=whole[:0], verify_meta=False)
    change = {
        "none": lambda X: X,
        "some": lambda X: X[["c0", "c3", "c7", "c9"]],
        "sum": lambda X: X + 1,
        "both": lambda X: (dd if isinstance(X, dd.DataFrame) else pd).concat([X, X]),
    }[change]
    frame, whole = change(frame), change(whole)
    with fa.build(frame, tmp_path / "s", normalize=None) as S:
        np.testing.assert_array_equal(S.rows(np.arange(len(whole))), whole)
        S.append(frame)
        assert S.shape[0] == 2 * len(whole)
    found, expected = (fa.FAS(selection="spa").seek(X, 3) for X in (frame, whole))
    assert found.indices.tolist() == expected.indices.tolist()
    weights = fa.encode(frame, whole.to_numpy()[found.indices])
    np.testing.assert_allclose(weights.compute(), fa.encode(whole, whole.to_numpy()[found.indices]))


def test_integers_that_other_columns_would_round_are_refused(tmp_path):
    frame = pd.DataFrame({"a": [1, 2**53 + 1, 3, 4], "b": [0.5, 1.0, 1.0, 1.0]})
    with pytest.raises(fa.errors.InvalidInputError, match=r"block 0: the integer 9007199254740993 would be rounded"):
        fa.build(dd.from_pandas(frame, npartitions=2), tmp_path / "s")


def test_the_index_of_a_data_frame_names_the_anchors():
    frame = pd.DataFrame(matrix(600), columns=[f"c{j}" for j in range(20)], index=[f"n{i}" for i in range(600)])
    X = dd.from_pandas(frame, npartitions=3, sort=False)
    for selection in ("spa", "auto"):
        found = fa.FAS(selection=selection).seek(X, 4, rng=0)
        assert found.names == fa.FAS(selection=selection).seek(frame, 4, rng=0).names
    names = fa.open_matrix(X).row_names
    assert names[-1] == "n599"
    assert list(names) == list(frame.index)
    assert fa.FAS().seek(dd.from_pandas(frame.reset_index(drop=True), npartitions=3), 4).names is None


def test_column_names_of_a_data_frame_are_unique():
    frame = pd.DataFrame(matrix(100), columns=["a"] * 20)
    with pytest.raises(fa.errors.InvalidInputError, match="unique column names"):
        fa.SeparableNMF(3).fit(dd.from_pandas(frame, npartitions=2))


def test_an_asynchronous_client_is_refused(tmp_path):
    X = lazy(matrix(200), 100)
    fa.build(X, tmp_path / "s").close()

    async def ask():
        async with Client(processes=False, asynchronous=True, dashboard_address=":0", n_workers=1) as client:
            for call in (
                lambda: fa.FAS().seek(X, 3),
                lambda: fa.build(X, tmp_path / "t"),
                lambda: fa.dask.connect(tmp_path / "s", client),
            ):
                with pytest.raises(fa.errors.InvalidInputError, match="asynchronous"):
                    call()
            return fa.encode(X, matrix(200)[:3])  # nothing is computed

    assert asyncio.run(ask()).compute().shape == (200, 3)
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_names_and_blocks_of_unknown_length(tmp_path):
    A = matrix(900)
    X = lazy(A, 200)
    some = X[X[:, 0] > 0.2]
    expected = A[A[:, 0] > 0.2]
    assert np.isnan(some.shape[0])
    names = [f"r{i}" for i in range(len(expected))]
    S = fa.build(some, tmp_path / "s", row_names=names, normalize=None)
    np.testing.assert_array_equal(S.rows(np.arange(len(expected))), expected)
    assert S.row_names[7] == "r7"
    with pytest.raises(fa.errors.InvalidInputError, match="3 row names"):
        fa.build(X, tmp_path / "other", row_names=["a", "b", "c"])
    with pytest.raises(fa.errors.InvalidInputError, match="2 column names"):
        fa.open_matrix(X, column_names=["a", "b"])


def test_tasks_have_readable_names(tmp_path):
    seen = []
    with Callback(pretask=lambda key, *_: seen.append(key_split(key))):
        fa.build(lazy(matrix(900), 300), tmp_path / "s")
    for kind in ("prepare", "shard"):
        assert seen.count(f"fastanchors-{kind}") == (2 if kind == "shard" else 1)


def test_progress_reports_the_end(tmp_path):
    told = []
    fa.build(lazy(matrix(900), 300), tmp_path / "s", progress=told.append)
    assert [each.rows for each in told] == [900]


@pytest.mark.parametrize(("value", "what"), [(np.nan, "NaN"), (-1.0, "negative")])
def test_a_bad_entry_is_named_and_nothing_is_left(tmp_path, value, what):
    A = matrix(900)
    A[750, 3] = value
    with pytest.raises(fa.errors.InvalidInputError, match=rf"A\[750, 3\] is {what}"):
        fa.build(lazy(A, 300), tmp_path / "s")
    assert list(tmp_path.iterdir()) == []


def test_blocks_of_two_kinds_are_refused(tmp_path):
    A = matrix(400)
    blocks = [da.from_delayed(dask.delayed(x), (200, 20), dtype=float) for x in (A[:200], sp.csr_array(A[200:]))]
    with pytest.raises(fa.errors.InvalidTypeError, match="expected a dense block"):
        fa.build(da.concatenate(blocks), tmp_path / "s")
    with pytest.raises(fa.errors.InvalidInputError, match="two-dimensional"):
        fa.build(da.ones(5), tmp_path / "s")
    with pytest.raises(fa.errors.InvalidTypeError, match="no option"):
        fa.build(lazy(A), tmp_path / "s", variable="x")


def of_blocks(blocks, dtype=float):
    """A Dask array of blocks, whatever their types are."""
    parts = [dask.delayed(block, traverse=False) for block in blocks]
    return da.concatenate([da.from_delayed(part, b.shape, dtype) for part, b in zip(parts, blocks, strict=True)])


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("first", "second"), [(np.uint8, np.int64), (np.int32, np.float64), (np.float32, np.float64)])
def test_blocks_of_several_types_are_read_in_the_type_dask_knows(first, second, sparse):
    rng = np.random.default_rng(0)
    halves = np.ones((3000, 30)), rng.integers(0, 5000, (3000, 30)) / (1 if second == np.int64 else 7)
    parts = halves[0].astype(first) * rng.integers(1, 9, (3000, 1)).astype(first), halves[1].astype(second)
    whole = np.vstack(parts)
    X = of_blocks([sp.csr_array(part) if sparse else part for part in parts], second)
    A = sp.csr_array(whole) if sparse else whole
    matrix, some = fa.open_matrix(X), np.array([5, 5999, 0])
    assert matrix.rows(some).dtype == matrix.rows(some[:1]).dtype == matrix.dtype == second
    np.testing.assert_array_equal(dense(matrix.rows(some)), whole[some])
    for selection in ("spa", "auto"):
        assert fa.FAS(selection=selection).seek(X, 4, rng=0) == fa.FAS(selection=selection).seek(A, 4, rng=0)
    np.testing.assert_array_equal(fa.encode(X, whole[:3] + 1.0).compute(), fa.encode(A, whole[:3] + 1.0))


def test_blocks_that_do_not_fit_the_type_dask_knows_are_refused():
    A = matrix(400)
    for first, dtype in ((A[:200].astype(np.int32), np.int32), (A[:200].astype(np.float32), np.float32)):
        X = of_blocks([first, A[200:]], dtype)
        for seek in (fa.FAS().seek, fa.SPA().seek):
            with pytest.raises(fa.errors.InvalidTypeError, match=f"block 1: entries of type float64 .* {X.dtype};"):
                seek(X, 3)
        assert len(fa.FAS().seek(X.astype(float), 3)) == 3


def test_a_seek_refuses_blocks_of_two_kinds():
    A = matrix(400)
    full, sparse = A[:200], sp.csr_array(A[200:])
    for blocks in ([full, sparse], [sparse, full], [full] * 4 + [sparse]):
        for matrix_of in (lambda X: fa.FAS().seek(X, 3), lambda X: fa.open_matrix(X).rows([0, X.shape[0] - 1])):
            with pytest.raises(fa.errors.InvalidTypeError, match="some blocks are dense and others sparse"):
                matrix_of(of_blocks(blocks))


def test_empty_partitions_are_skipped(tmp_path):
    A = matrix(600)
    parts = [da.from_delayed(dask.delayed(x), (np.nan, 20), dtype=float) for x in (A[:0], A[:300], A[:0], A[300:])]
    X = da.concatenate(parts, allow_unknown_chunksizes=True)
    S = fa.build(X, tmp_path / "s", normalize=None)
    np.testing.assert_array_equal(S.rows(np.arange(600)), A)
    assert fa.FAS(selection="spa").seek(X, 4).indices.tolist() == fa.SPA().seek(A, 4).indices.tolist()


def test_append_reads_a_dask_array(tmp_path):
    A = matrix(600)
    with fa.build(A[:400], tmp_path / "s", normalize=None) as S:
        S.append(lazy(A[400:], 100))
    np.testing.assert_array_equal(fa.open(tmp_path / "s").rows(np.arange(600)), A)


# --- the sample model ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("rows", [400, 2000])
def test_a_connected_store_answers_as_the_store_does(tmp_path, sparse, rows):
    A = matrix(1900, sparse=sparse)
    names = [f"r{i}" for i in range(1900)]
    fa.build(lazy(A, rows), tmp_path / "s", row_names=names, column_names=[f"c{j}" for j in range(20)])
    with fa.dask.connect(tmp_path / "s") as remote, fa.open(tmp_path / "s") as local:
        some = np.array([1899, 3, 400, 3, 1200])
        assert isinstance(remote, fa.SampleAccess)
        for ask in (
            lambda S: (S.shape, S.nnz, S.frobenius_norm, S.dtype, S.is_sparse, S.normalize),
            lambda S: S.row_norm(some),
            lambda S: S.l1_norm(some),
            lambda S: S.column_norm(np.arange(20)),
            lambda S: S[some, [0, 3, 5, 7, 19]],
            lambda S: S[3, 4],
            lambda S: S.raw(some, 3),
            lambda S: S.sample_rows(300, rng=1),
            lambda S: S.sample_columns(300, rng=2),
            lambda S: S.sample_in_row(some, 9, rng=3),
            lambda S: S.sample_in_column([4, 9], 200, rng=4),
            lambda S: [S.row_names[1234], S.column_names[7], len(S.row_names), S.row_names[5:7]],
        ):
            np.testing.assert_array_equal(np.asarray(ask(remote), object), np.asarray(ask(local), object))
        for indices in (some, np.zeros(0, int)):
            a, b = remote.rows(indices), local.rows(indices)
            assert sp.issparse(a) == sp.issparse(b) == sparse
            np.testing.assert_array_equal(a.toarray() if sparse else a, b.toarray() if sparse else b)
        blocks = [remote.rows(np.arange(1900)), *[remote.to_dask().compute()]]
        assert abs(blocks[0] - blocks[1]).max() == 0
        remote.check()
        assert remote.cost.bytes_moved == 0
        assert remote.cost.samples == local.cost.samples


def test_a_connected_store_is_read_only(tmp_path):
    fa.build(matrix(900), tmp_path / "s").close()
    S = fa.dask.connect(tmp_path / "s")
    changes = (lambda: S.update([0], [0], [1.0]), lambda: S.__setitem__((0, 0), 1.0), lambda: S.append(matrix(9)))
    for change in changes:
        with pytest.raises(fa.errors.StoreError, match="for reading"):
            change()
    with fa.open(tmp_path / "s", mode="r+") as W:
        W[0, 0] = 0.5
    with pytest.raises(fa.errors.StoreError, match="journal"):
        fa.dask.connect(tmp_path / "s")
    with fa.open(tmp_path / "s", mode="r+") as W:
        W.compact()
    assert fa.dask.connect(tmp_path / "s").raw(0, 0) == 0.5
    assert S.raw(0, 0) != 0.5  # what a worker has mapped stays as it was
    (handle,) = S._parts._handles
    handle._holder = None  # another worker would map the files again
    with pytest.raises(fa.errors.StoreError, match="connected to again"):
        S.raw(0, 0)


# --- seek ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("noise", [False, True])
@pytest.mark.parametrize("extras", [True, False])
def test_a_seek_on_workers_finds_the_same_anchors(tmp_path, sparse, noise, extras, keep_sketches, monkeypatch):
    A = matrix(6000, sparse=sparse, noise=noise)
    fa.build(lazy(A, 1500), tmp_path / "s", **({} if extras else {"sidecars": ()}))
    local = fa.open(tmp_path / "s")
    if extras:
        for kind in (Store, RemoteStore):  # so that it is made from the sketches
            monkeypatch.setattr(kind, "sidecar_arrays", lambda store, name: None)
    remote = fa.dask.connect(tmp_path / "s")
    expected = fa.FAS(selection="spa").seek(local, 6, rng=3)
    found = fa.FAS(selection="spa").seek(remote, 6, rng=3)
    assert found.indices.tolist() == expected.indices.tolist() == fa.SPA().seek(local, 6).indices.tolist()
    assert found.certificate.kind == "exact"
    if extras:
        assert found.certificate.statement == expected.certificate.statement
        assert found.cost.rows_read == expected.cost.rows_read
    else:  # rows that are at hand may be read again, those on workers are read once
        assert "made now in one pass" in found.certificate.statement
    assert fa.FAS(selection="spa").seek(remote, 4, rng=0).indices.tolist() == expected.indices.tolist()[:4]


def test_full_passes_if_bounds_prove_nothing(tmp_path):
    """Rows of nearly equal norms in all directions: bounds cannot distinguish them."""
    rng = np.random.default_rng(5)
    A = rng.random((4000, 20)) + 5
    fa.build(lazy(A, 1000), tmp_path / "s")
    expected = fa.SPA().seek(fa.open(tmp_path / "s"), 12).indices.tolist()
    assert fa.FAS(selection="spa").seek(fa.dask.connect(tmp_path / "s"), 12, rng=0).indices.tolist() == expected
    assert fa.SPA().seek(fa.dask.connect(tmp_path / "s"), 12).indices.tolist() == expected


def test_a_budget_is_kept_on_workers(tmp_path):
    fa.build(lazy(matrix(6000, noise=True), 1500), tmp_path / "s", sidecars=())
    local, remote = fa.open(tmp_path / "s"), fa.dask.connect(tmp_path / "s")
    found, again = (fa.FAS(budget=500).seek(S, 6, rng=3) for S in (remote, fa.dask.connect(tmp_path / "s")))
    assert 0 < found.cost.rows_read <= 500
    assert found.indices.tolist() == again.indices.tolist()
    assert found.certificate.kind == "sampled"
    assert remote.norm_bound() == local.row_norm(np.arange(6000)).max()


@given(st.lists(st.integers(0, 49)), st.lists(st.integers(0, 49)), st.lists(st.integers(0, 49)))
def test_marks_are_an_array_of_booleans(first, second, asked):
    naive, marks = np.zeros(50, bool), Marks()
    for rows in (first, second):
        naive[np.array(rows, int)] = True
        marks[np.array(rows, np.int64)] = True
    copied = marks.copy()
    marks[np.arange(50)] = True
    assert copied[np.array(asked, np.int64)].tolist() == naive[np.array(asked, int)].tolist()
    assert copied.within(10, 30).tolist() == np.flatnonzero(naive[10:30]).tolist()


# --- Dask arrays as matrices -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("small", [0, 1 << 30])
def test_every_solver_takes_a_dask_array(sparse, small, monkeypatch):
    monkeypatch.setattr(fas_seek, "_SMALL_ARRAY", small)
    A = matrix(2000, sparse=sparse)
    X = lazy(A, 600)
    for solver in (fa.FAS(selection="spa"), fa.SPA(), fa.SNPA(), fa.XRAY()):
        found, expected = solver.seek(X, 5, rng=0), solver.seek(A, 5, rng=0)
        assert found.indices.tolist() == expected.indices.tolist(), solver
    assert (
        fa.SPA(precondition="svd").seek(X, 5).indices.tolist() == fa.SPA(precondition="svd").seek(A, 5).indices.tolist()
    )


def test_a_dask_array_is_checked_where_it_is_read():
    A = matrix(2000)
    A[1500, 2] = np.inf
    with pytest.raises(fa.errors.InvalidInputError, match=r"A\[1500, 2\] is infinite"):
        fa.SPA().seek(lazy(A, 600), 5)
    with pytest.raises(fa.errors.InvalidInputError, match=r"X\[1500, 2\] is infinite"):
        fa.encode(lazy(A, 600), A[:3]).compute()


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sum_to_one", [False, True])
def test_encode_is_lazy(sparse, dtype, sum_to_one):
    A = matrix(1000, sparse=sparse).astype(dtype)
    C = (A.toarray() if sparse else A)[:4]
    F = fa.encode(lazy(A, 300), C, sum_to_one)
    assert isinstance(F, da.Array)
    assert (F.shape, F.dtype, F.chunks[0]) == ((1000, 4), dtype, (300, 300, 300, 100))
    np.testing.assert_allclose(F.compute(), fa.encode(A, C, sum_to_one), rtol=1e-5, atol=1e-6)
    with pytest.raises(fa.errors.InvalidInputError, match="columns"):
        fa.encode(lazy(A, 300), C[:, :5])
    with pytest.raises(fa.errors.InvalidInputError, match="not supported for Dask collections"):
        fa.encode(lazy(A, 300), C, n_jobs=2)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("normalize", ["l1", None])
def test_the_estimator_fits_a_dask_array(sparse, normalize):
    A = matrix(1500, sparse=sparse)
    X = lazy(A, 400)
    model, twin = (fa.SeparableNMF(5, normalize=normalize, random_state=0) for _ in range(2))
    twin.fit(A)
    assert model.fit(X) is model
    assert model.anchors_.tolist() == twin.anchors_.tolist()
    np.testing.assert_allclose(model.components_, twin.components_)
    np.testing.assert_allclose(model.reconstruction_err_, twin.reconstruction_err_, rtol=1e-6)
    assert model.n_features_in_ == 20
    F = model.transform(X)
    assert isinstance(F, da.Array)
    np.testing.assert_allclose(F.compute(), twin.transform(A), atol=1e-9)
    np.testing.assert_allclose(model.fit_transform(X).compute(), twin.transform(A), atol=1e-9)
    np.testing.assert_allclose(model.score(X), twin.score(A), rtol=1e-6)
    with pytest.raises(fa.errors.InvalidInputError, match="expecting 20 features"):
        model.transform(X[:, :7])


def test_the_estimator_fits_a_dask_data_frame_and_averages():
    A = matrix(800)
    whole = pd.DataFrame(A, columns=[f"c{j}" for j in range(20)])
    solver = fa.SPA(robust="average")
    model, twin = (fa.SeparableNMF(4, solver=solver).fit(X) for X in (dd.from_pandas(whole, npartitions=3), whole))
    np.testing.assert_allclose(model.components_, twin.components_, atol=1e-9)
    assert model.feature_names_in_.tolist() == twin.feature_names_in_.tolist()
    model.fit(lazy(A, 300))
    assert not hasattr(model, "feature_names_in_")


def test_a_missing_dask_names_the_extra(monkeypatch, tmp_path):
    X = lazy(matrix(60), 20)
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(fa.errors.MissingExtraError, match=r"fastanchors\[dask\]"):
        fa.build(X, tmp_path / "s")


def test_tasks_start_no_threads(monkeypatch):
    A = matrix(20000)
    expected = fa.SPA().seek(A, 5).indices.tolist()
    allowed = []
    Pool().compute(calls("look", lambda part: allowed.append(threads_allowed()), [None, None], [(), ()], ()))
    assert allowed == [False, False]
    assert threads_allowed()

    def refuse(*_, **__):
        raise AssertionError("a thread was started")

    monkeypatch.setattr(ThreadPoolExecutor, "submit", refuse)
    with one_thread():
        S = fa.SampleMatrix(A)
        assert fa.SPA().seek(A, 5).indices.tolist() == expected
        S.check()


# --- what is refused, and what is not computed -----------------------------------------------------------------------


def never(block):
    raise AssertionError("a block was computed")


def frame(A, **columns):
    """A Dask data frame of the leading columns a, b, c of A, and of more."""
    return dd.from_pandas(pd.DataFrame(A[:, :3], columns=list("abc")).assign(**columns), npartitions=3)


def test_nothing_is_computed_before_it_is_needed():
    A = matrix(600)
    model = fa.SeparableNMF(3, solver="spa").fit(A)
    X = lazy(A, 200)
    unknown = X[X[:, 0] > 0.2]
    kept = A[A[:, 0] > 0.2]
    for each, expected in ((X, A), (unknown, kept)):
        late = each.map_blocks(never, dtype=float, meta=np.empty((0, 20)))
        fa.encode(late, A[:3])
        model.inverse_transform(model.transform(late))
        F = model.transform(each)
        assert isinstance(F, da.Array)
        np.testing.assert_allclose(F.compute(), model.transform(expected), atol=1e-9)
        back = model.inverse_transform(F)
        assert isinstance(back, da.Array)
        np.testing.assert_allclose(back.compute(), model.inverse_transform(model.transform(expected)), atol=1e-9)
    with pytest.raises(fa.errors.InvalidInputError, match="3 columns"):
        model.inverse_transform(X)
    with pytest.raises(fa.errors.InvalidTypeError, match="must hold real numbers"):
        model.inverse_transform(F * 1j)
    with pytest.raises(fa.errors.InvalidInputError, match=r"weights\[\d+, 0\] is NaN"):
        model.inverse_transform(F * np.nan).compute()
    named = frame(A).map_partitions(never, meta=frame(A)._meta)
    assert np.isnan(fa.encode(named, A[:2, :3]).shape[0])
    bad = lazy(np.where(A[450, 1] == A, np.nan, A), 200)
    with pytest.raises(fa.errors.InvalidInputError, match=r"block 2 of X: X\[\d+, 1\] is NaN"):
        fa.encode(bad[X[:, 0] > -1], A[:3]).compute()


def test_names_of_a_data_frame_are_those_it_was_fitted_with():
    A = matrix(300)
    model = fa.SeparableNMF(2, solver="spa").fit(frame(A))
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    turned = frame(A)[["c", "a", "b"]]
    for X in (turned, turned.compute()):
        with pytest.raises(ValueError, match="feature names should match"):
            model.transform(X)
    with pytest.raises(ValueError, match="feature names should match"):
        model.score(turned)


def test_whole_numbers_give_components_in_double_precision():
    A = (100 * matrix(300)).astype(np.int64)
    found, expected = (fa.SeparableNMF(3, solver="spa").fit(X) for X in (lazy(A, 100), A))
    assert found.components_.dtype == expected.components_.dtype == np.float64
    np.testing.assert_array_equal(found.components_, expected.components_)


def test_collections_without_numeric_rows_are_refused(tmp_path):
    A = matrix(300)
    for X, error, words in (
        (db.from_sequence([1, 2]), fa.errors.InvalidTypeError, "dask Bag"),
        (dask.delayed(A), fa.errors.InvalidTypeError, "dask Delayed"),
        (frame(A)["a"], fa.errors.InvalidTypeError, "dask Series"),
        (frame(A, s="x"), fa.errors.InvalidTypeError, "column 's' has type str"),
        (frame(A, s=pd.Categorical(["x", "y"] * 150)), fa.errors.InvalidTypeError, "column 's' has type category"),
        (frame(A, s=pd.array(["1"] * 300, dtype="string")), fa.errors.InvalidTypeError, "column 's' has type string"),
        (da.from_delayed(dask.delayed(A), (300, np.nan), dtype=float), fa.errors.InvalidInputError, "of columns"),
        (lazy(A.astype(object), 100), fa.errors.InvalidTypeError, "real numbers"),
    ):
        for door in (lambda X: fa.build(X, tmp_path / "s"), lambda X: fa.encode(X, A[:3]), fa.SeparableNMF(2).fit):
            with pytest.raises(error, match=words):
                door(X)
    assert list(tmp_path.iterdir()) == []


NULLABLE = {
    "Int64": "Int64",
    "UInt8": "UInt8",
    "Float64": "Float64",
    "boolean": "boolean",
    "mixed": {"c0": "Int64", "c1": "Float64", "c3": "category"},
    "integers": {"c0": "Int32", "c1": "int64", "c2": "uint8"},
    "category": "category",
    "sparse": pd.SparseDtype("float64", 0.0),
}


def whole_frame(kind):
    numbers = (matrix(300)[:, :4] > 0.3 if kind == "boolean" else (100 * matrix(300)[:, :4])).astype(np.int64)
    return pd.DataFrame(numbers, columns=[f"c{j}" for j in range(4)]).astype(NULLABLE[kind])


@pytest.mark.parametrize("kind", NULLABLE)
def test_nullable_and_numeric_categories_are_those_of_the_frame_in_memory(tmp_path, kind):
    whole = whole_frame(kind)
    X = dd.from_pandas(whole, npartitions=3)
    with fa.build(X, tmp_path / "s", normalize=None) as S, fa.build(whole, tmp_path / "whole", normalize=None) as T:
        assert S.dtype == T.dtype
        np.testing.assert_array_equal(S.rows(range(300)), T.rows(range(300)))
    found, expected = (fa.FAS(selection="spa").seek(each, 3).indices for each in (X, whole))
    np.testing.assert_array_equal(found, expected)
    C = whole.to_numpy(dtype=np.float64)[expected]
    np.testing.assert_allclose(fa.encode(X, C).compute(), fa.encode(whole, C), atol=1e-9)
    np.testing.assert_array_equal(*(fa.SeparableNMF(3, solver="spa").fit(each).anchors_ for each in (X, whole)))


def test_nullable_integers_beyond_doubles_are_exact(tmp_path):
    whole = pd.DataFrame({"a": [2**60 + 1, 1, 2, 3], "b": [0, 1, 2**62 - 1, 5]}, dtype="Int64")
    with fa.build(dd.from_pandas(whole, npartitions=2), tmp_path / "s", normalize=None) as S:
        np.testing.assert_array_equal(S.rows(range(4)), whole.to_numpy(dtype=np.int64))


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        ("Int64", r"block 1: row 20 \(index 120\) of column 'c1' is missing; remove or impute it first"),
        ("Float64", r"\[120, 1\] is NaN; remove or impute it first"),
        ("boolean", r"\[120, 1\] is NaN"),
        ("mixed", r"\[120, 1\] is NaN"),
        ("category", r"\[120, 1\] is NaN"),
    ],
)
def test_missing_values_of_nullable_columns_are_refused_with_their_place(tmp_path, kind, place):
    whole = whole_frame(kind)
    whole.iloc[120, 1] = None
    X = dd.from_pandas(whole, npartitions=3)
    for door in (lambda X: fa.build(X, tmp_path / "s"), fa.SeparableNMF(2).fit, lambda X: fa.FAS().seek(X, 2)):
        with pytest.raises(fa.errors.InvalidInputError, match=place):
            door(X)
    with pytest.raises(fa.errors.InvalidInputError, match=r"block 1.*(is NaN|is missing)"):
        fa.encode(X, np.eye(2, 4)).compute()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("length", [300, np.nan])
@pytest.mark.parametrize(
    ("second", "words"),
    [
        (matrix(250), "block 1 has 250 rows, but its chunk size is 300"),
        (matrix(300)[:, :3], "block 1 has 3 columns, but its chunk size is 20"),
        (matrix(300)[0], r"block 1 is an array of shape \(20,\), not a two-dimensional array"),
        (None, "block 1 is of type NoneType, not a two-dimensional array"),
        ("rows", "block 1 is of type str, not a two-dimensional array"),
    ],
)
def test_a_block_of_another_shape_than_declared_is_named(tmp_path, length, second, words):
    A = matrix(300)
    parts = [da.from_delayed(dask.delayed(x), (length, 20), dtype=float) for x in (A, second)]
    X = da.concatenate(parts, allow_unknown_chunksizes=True)
    if length != 300 and "rows" in words:
        assert fa.SPA().seek(X, 3).indices.shape == (3,)
        return
    for door in (
        lambda: fa.build(X, tmp_path / "s"),
        lambda: fa.FAS().seek(X, 3),
        lambda: fa.encode(X, A[:3]).compute(),
    ):
        with pytest.raises(fa.errors.FastAnchorsError, match=words):
            door()
    assert list(tmp_path.iterdir()) == []


def test_names_may_be_a_dask_array(tmp_path):
    names = np.array([f"r{i}" for i in range(600)])
    X = da.from_array(matrix(600), (200, 20))
    with fa.build(X, tmp_path / "s", row_names=da.from_array(names, 100)) as S:
        assert S.row_names[599] == "r599"
    with fa.build(matrix(600), tmp_path / "t", row_names=da.from_array(names, 100)) as S:
        assert S.row_names[599] == "r599"


def test_a_dask_array_without_columns_is_refused():
    for door in (fa.SeparableNMF(4).fit, lambda X: fa.FAS().seek(X, 4), lambda X: fa.build(X, "nowhere")):
        with pytest.raises(fa.errors.InvalidInputError, match="the dask array has no columns; at least one is needed"):
            door(da.zeros((5, 0)))


# --- life of a connection --------------------------------------------------------------------------------------------


def test_a_closed_connection_and_a_wrong_client_raise(tmp_path):
    fa.build(matrix(900), tmp_path / "s").close()
    S = fa.dask.connect(tmp_path / "s")
    S.close()
    S.close()
    C = np.ones((1, S.shape[1]))
    for ask in (
        lambda: S.row_norm(3),
        lambda: S.rows([3]),
        lambda: fa.SPA().seek(S, 3),
        lambda: fa.encode(S, C),
        S.to_dask,
    ):
        with pytest.raises(fa.errors.StoreError, match="connect again"):
            ask()
    with pytest.raises(fa.errors.InvalidTypeError, match=r"distributed\.Client"):
        fa.dask.connect(tmp_path / "s", "tcp://127.0.0.1:8786")


def test_processes_of_dask_itself_are_counted_too(tmp_path):
    A = matrix(900)
    with dask.config.set(scheduler="processes", num_workers=2):
        S = fa.build(lazy(A, 450), tmp_path / "many")
        remote = fa.dask.connect(tmp_path / "many")  # without a client this process answers
        assert remote.row_norm(np.arange(900)).tolist() == S.row_norm(np.arange(900)).tolist()
    assert S.cost.bytes_moved > 0
    with dask.config.set(scheduler="synchronous"):
        fa.build(lazy(A, 450), tmp_path / "one")
    assert files(tmp_path / "many") == files(tmp_path / "one")


def test_a_directory_that_vanishes_does_not_hide_the_cause(tmp_path):
    def vanish(block):
        for folder in tmp_path.glob(".s.building-*"):
            shutil.rmtree(folder)
        return block

    X = lazy(matrix(900), 300).map_blocks(vanish, dtype=float, meta=np.empty((0, 20)))
    with pytest.raises(fa.errors.StoreError, match="all workers share"):
        fa.build(X, tmp_path / "s")


@pytest.mark.parametrize("limit", [LIMIT, 1 << 27])
def test_the_memory_limit_has_the_same_effect_with_and_without_workers(tmp_path, limit):
    """The index of a wide matrix does not fit a small limit: it is omitted or made in the same cases."""
    A = np.random.default_rng(0).random((300, 2000))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the index of FAS")
        fa.build(A, tmp_path / "one", memory_limit=limit)
        fa.build(da.from_array(A, chunks=(10, 2000)), tmp_path / "many", memory_limit=limit)
        with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0"):
            fa.build(da.from_array(A, chunks=(10, 2000)), tmp_path / "client", memory_limit=limit)
    names = [{file.name for file in (tmp_path / x).glob("whole*")} for x in ("one", "many", "client")]
    assert names == [set() if limit == LIMIT else {"whole-000001.fas.bin"}] * 3


def test_the_index_of_a_huge_store_is_not_refused(tmp_path):
    """The memory for marked rows is bounded: 10¹⁰ rows fit the default limit."""
    fa.build(lazy(matrix(900), 300), tmp_path / "s", sidecars=()).close()
    store = fa.dask.connect(tmp_path / "s")
    huge = (10**10, 200)
    assert 2 * fas_store._index_bytes((min(huge[0], store.rows_marked), huge[1])) < store.memory_limit
    assert store.rows_marked >= fas_index._MOST_NEAR


def test_a_block_and_the_question_about_it_are_one_task(tmp_path):
    """Otherwise a scheduler could move the block between workers."""
    seen = []
    A = matrix(1200)
    X = lazy(A, 300) + 1
    with Callback(pretask=lambda key, *_: seen.append(key)):
        fa.build(X, tmp_path / "s", normalize=None, sidecars=())
        fa.SPA().seek(X, 3)
    kinds = {key_split(key) for key in seen}
    assert {"fastanchors-prepare", "fastanchors-shard", "fastanchors-map-removed"} <= kinds
    assert all("fastanchors-" in kind for kind in kinds)  # the tasks of the array are fused into one
    np.testing.assert_array_equal(fa.open(tmp_path / "s").rows(np.arange(1200)), A + 1)


def test_a_shared_block_stays_a_separate_task():
    loaded = []

    def load():
        loaded.append(1)
        return np.ones((4, 3))

    block = dask.delayed(load)()
    double = [dask.delayed(np.multiply)(block, x) for x in (2, 3)]
    with dask.config.set(scheduler="sync"):
        pool = Pool()
    assert [x.sum() for x in pool.compute(calls("twice", lambda part: part, double, [(), ()], ()))] == [24, 36]
    assert len(loaded) == 1


def test_kept_results_are_released_with_their_sketch(tmp_path):
    fa.build(lazy(matrix(900), 300), tmp_path / "s")
    remote = fa.dask.connect(tmp_path / "s")
    V = np.linalg.qr(np.random.default_rng(0).random((20, 4)))[0]
    whole = remote.sketch(V)
    few = whole.gathered(np.array([3, 5, 700]))
    made = remote._parts._handles[0]._holder._made
    assert [key.rpartition("-")[0] for key in made] == ["", "sketch", "near"]
    assert few.largest() == np.argmax(remote.row_norm([3, 5, 700]))
    del whole, few
    remote.row_norm(3)
    assert list(made) == [""]


@pytest.mark.parametrize("kind", ["csc", "coo"])
def test_blocks_that_are_damaged_or_masked_are_refused(kind):
    rows = np.random.default_rng(0).random((12, 5))
    damaged = sp.csr_array(rows).asformat(kind)
    if kind == "coo":
        damaged.coords = (damaged.coords[0] + 10**8, damaged.coords[1])
    else:
        damaged.indices = damaged.indices + 10**8
    lazy = da.from_array(rows, chunks=(12, 5))
    with dask.config.set(scheduler="synchronous"):
        with pytest.raises(fa.errors.InvalidInputError, match="damaged"):
            fa.SPA().seek(lazy.map_blocks(lambda block: damaged, dtype=float, meta=sp.csr_array((0, 5))), 2)
        with pytest.raises(fa.errors.InvalidInputError, match="masked"):
            fa.SPA().seek(da.ma.masked_greater(lazy, 0.9), 2)


def masked(values, place):
    """A Dask array with blocks of masked arrays, of which one entry is masked."""
    values = np.asarray(values)
    mask = np.zeros(values.shape, bool)
    mask[place] = True
    return da.from_array(np.ma.array(values, mask=mask), chunks=2)


MASKED_DOORS = {
    "SampleMatrix": lambda table, line, store: fa.SampleMatrix(table),
    "VectorSampler": lambda table, line, store: fa.VectorSampler(line),
    "components of encode": lambda table, line, store: fa.encode(np.eye(3), table),
    "row blocks": lambda table, line, store: fa.build(iter([table]), store.path.parent / "other"),
    "a list of rows": lambda table, line, store: fa.open_matrix([line, line]),
    "append of blocks": lambda table, line, store: store.append([table]),
    "append of rows": lambda table, line, store: fa.SampleMatrix(np.eye(3)).append(table),
    "new values": lambda table, line, store: store.update([0, 1, 2], [0, 1, 2], line),
    "places of new values": lambda table, line, store: store.add(line, [0, 1, 2], 1.0),
    "numbers of rows": lambda table, line, store: fa.open_matrix(np.eye(3)).rows(line),
    "users": lambda table, line, store: fa.apps.recommend(
        fa.apps.RatingsTable(np.eye(2), ["1", "2"], ["a", "b"]), line, 1, k=1
    ),
    "ratings": lambda table, line, store: fa.apps.recommend(table, [0], 1, k=1),
    "cur": lambda table, line, store: fa.cur(table, 1),
    "fkv": lambda table, line, store: fa.fkv(table, 1),
    "metrics": lambda table, line, store: fa.metrics.matched_spectral_angle(table, np.eye(3)),
    "a list for the estimator": lambda table, line, store: fa.SeparableNMF(1).fit([line, line]),
    "the mask of a scene": lambda table, line, store: fa.apps.unmix(np.eye(3)[:, :, None] + [1, 2], 1, mask=table),
}


@pytest.mark.parametrize("door", MASKED_DOORS)
def test_the_mask_of_blocks_is_not_dropped_where_arrays_are_wanted(tmp_path, door):
    with dask.config.set(scheduler="synchronous"), fa.build(np.eye(3), tmp_path / "s", normalize=None) as store:
        with pytest.raises(fa.errors.InvalidInputError, match=r"entries of .* are masked"):
            MASKED_DOORS[door](masked(np.eye(3) + 1, (1, 2)), masked([1, 2, 0], 2), store)
        np.testing.assert_array_equal(store.rows([0, 1, 2]), np.eye(3))


@pytest.mark.parametrize("kind", [float, np.float32, int])
def test_the_mask_of_blocks_is_not_dropped_in_tables_of_xarray(tmp_path, kind):
    xr = pytest.importorskip("xarray")
    blocks = da.ones((6, 4), dtype=kind, chunks=3).map_blocks(
        lambda block, block_info: np.ma.array(
            block, mask=np.eye(*block.shape) * (block_info[0]["chunk-location"] == (1, 0))
        ),
        dtype=kind,
        meta=np.empty((0, 0), dtype=kind),  # of a plain array
    )
    for door in (lambda table: fa.SPA().seek(table, 2), lambda table: fa.build(table, tmp_path / "s")):
        with pytest.raises(fa.errors.InvalidInputError, match=r"\[3, 0\] is NaN"):
            door(xr.DataArray(blocks))


def test_the_mask_of_blocks_is_not_dropped_in_scenes_of_xarray():
    xr = pytest.importorskip("xarray")  # replaces masked entries by NaN only if Dask knows of masks
    lazy = da.ones((4, 5, 6), chunks=2).map_blocks(
        lambda block: np.ma.array(block, mask=True), meta=np.empty((0, 0, 0))
    )
    scene = xr.DataArray(lazy, dims=("y", "x", "band"))
    error = pytest.raises(fa.errors.InvalidInputError, match="120 entries of the DataArray are masked")
    with dask.config.set(scheduler="synchronous"), error:
        fa.apps.unmix(scene, 2)


def test_averages_of_integer_blocks_are_not_truncated():
    A = np.random.default_rng(3).poisson(3, (150, 9)).astype(np.int32)
    expected = fa.SeparableNMF(3).fit(A)
    assert np.any(expected.components_ % 1)
    found = fa.SeparableNMF(3).fit(da.from_array(A, chunks=(40, 9)))
    np.testing.assert_allclose(found.components_, expected.components_, rtol=1e-9)


_OTHER_BLOCKS = {
    "text": lambda block: block.astype(str),
    "objects of text": lambda block: block.astype(str).astype(object),
    "None": lambda block: np.full(block.shape, None),
    "complex": lambda block: block + 1j,
    "complex and sparse": lambda block: sp.csr_array(block + 1j),
    "dates": lambda block: (100 * block).astype("M8[s]"),
    "records": lambda block: block.astype([("a", float)]),
    "masked": lambda block: np.ma.array(block, mask=block > np.median(block)),
    "integers beyond 2**53": lambda block: block.astype(np.int64) + 2**53 + 1,
}


@pytest.mark.parametrize("kind", _OTHER_BLOCKS)
def test_blocks_that_are_not_what_dask_was_told_are_one_clear_error_everywhere(kind, tmp_path):
    A = fa.datasets.separable(40, 5, 2, rng=0).A
    model = fa.SeparableNMF(2).fit(A)

    def blocks(values):
        made = da.from_array(values, chunks=(10, values.shape[1]))
        return made.map_blocks(_OTHER_BLOCKS[kind], dtype=float, meta=np.zeros((0, 0)))

    for call in (
        lambda: fa.SPA().seek(blocks(A), 2),
        lambda: fa.encode(blocks(A), A[:2]).compute(),
        lambda: model.transform(blocks(A)).compute(),
        lambda: model.inverse_transform(blocks(A[:, :2])).compute(),
        lambda: model.score(blocks(A)),
        lambda: fa.SeparableNMF(2).fit(blocks(A)),
        lambda: fa.build(blocks(A), tmp_path / "s"),
    )[: 6 if kind.startswith("integers") else 7]:  # a store keeps the integers of its first block
        with warnings.catch_warnings():
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            with pytest.raises((fa.errors.InvalidTypeError, fa.errors.InvalidInputError)):
                call()


def test_objects_of_numbers_and_other_types_in_blocks_are_encoded():
    A = np.round(100 * fa.datasets.separable(40, 5, 2, rng=0).A)
    model = fa.SeparableNMF(2, normalize=None).fit(A)
    for change in (lambda block: block.astype(object), lambda block: block.astype(np.int16), sp.csr_array):
        X, F = (
            da.from_array(values, chunks=(10, values.shape[1])).map_blocks(change, dtype=float, meta=np.zeros((0, 0)))
            for values in (A, A[:, :2])
        )
        np.testing.assert_allclose(fa.encode(X, A[:2]).compute(), fa.encode(A, A[:2]), atol=1e-9)
        np.testing.assert_allclose(model.inverse_transform(F).compute(), model.inverse_transform(A[:, :2]))
