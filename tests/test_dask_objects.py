"""Stores in object storage: an S3 server in this process, and fsspec's file system in memory."""

from __future__ import annotations

import copy
import json
import logging
import multiprocessing
import os
import pickle
import shutil
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dask
import dask.array as da
import fsspec
import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner
from distributed import Client, LocalCluster

import fastanchors as fa
from fastanchors.cli.app import app
from fastanchors.dask import build, object_store
from fastanchors.fas.sidecar import FasSidecar
from fastanchors.store import file_cache, storage
from fastanchors.store.file_cache import FileCache
from fastanchors.store.storage import ObjectStorage
from naive.fas import noisy, separable
from processes import die_once_at, exit_codes


@pytest.fixture(scope="module")
def server():
    """An S3 server on a free port, and its bucket."""
    moto = pytest.importorskip("moto.server")
    pytest.importorskip("s3fs")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    settings = {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        fsspec.filesystem("s3").mkdir("bucket")
        yield
        fsspec.filesystem("s3").clear_instance_cache()
    server.stop()


@pytest.fixture(params=["memory", "s3"])
def address(request, tmp_path, monkeypatch):
    """The address of a store that does not exist yet; its cache is empty."""
    if request.param == "s3":
        request.getfixturevalue("server")
    monkeypatch.setenv("FASTANCHORS_CACHE", str(tmp_path / "cache"))
    name = request.node.name.translate(str.maketrans("[]-", "___"))
    yield f"{request.param}://bucket/{name}.store"
    if request.param == "memory":
        fsspec.filesystem("memory").store.clear()


def matrix(m=6000, sparse=False):
    rng = np.random.default_rng(0)
    A = noisy(rng, separable(rng, m, 20, 6))
    return sp.csr_array(A * (A > 0.3)) if sparse else A


def objects(address):
    system, root = fsspec.core.url_to_fs(address)
    return {name.rsplit("/", 1)[-1] for name in system.find(root)} if system.exists(root) else set()


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("lazy", [False, True])
def test_a_store_at_an_address_is_the_store_on_disk(address, tmp_path, sparse, lazy):
    A = matrix(sparse=sparse)
    names = [f"r{i}" for i in range(A.shape[0])]
    X = (
        da.from_array(A.toarray(), chunks=(2000, 20)).map_blocks(sp.csr_array)
        if sparse
        else da.from_array(A, (2000, 20))
    )
    with (
        fa.build(X if lazy else A, address, row_names=names) as S,
        fa.build(A, tmp_path / "local", row_names=names) as local,
    ):
        some = np.array([5999, 3, 3000])
        for ask in (
            lambda S: (S.shape, S.nnz, S.dtype, S.is_sparse, S.normalize),
            lambda S: S.sample_rows(200, rng=1) if not lazy else 0,  # blocks are other shards, and other draws
            lambda S: S.row_norm(some),
            lambda S: S.column_norm([0, 7]) if not lazy else 0,
            lambda S: S.row_names[3000],
            lambda S: S.raw(some, 3),
        ):
            np.testing.assert_array_equal(np.asarray(ask(S), object), np.asarray(ask(local), object))
        rows, expected = (T.rows(some).toarray() if sparse else T.rows(some) for T in (S, local))
        np.testing.assert_array_equal(rows, expected)
        found = fa.FAS().seek(S, 6, rng=0)
        assert found.indices.tolist() == fa.FAS().seek(local, 6, rng=0).indices.tolist()
        np.testing.assert_allclose(fa.encode(S, rows), fa.encode(local, rows), atol=1e-12)
        assert fa.verify(address)["rows"] == 6000
    with pytest.raises(fa.errors.StoreError, match="exists already"):
        fa.build(A, address)


@pytest.mark.parametrize("rows", [50, 4000])  # without an index, and with one
def test_a_data_frame_gives_its_names_to_a_store_at_an_address(address, tmp_path, rows):
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    index = [f"row {i}" for i in range(rows)]
    frame = pd.DataFrame(matrix(rows), columns=[f"band {j}" for j in range(20)], index=index)
    X = dd.from_pandas(frame, npartitions=2, sort=False)
    fa.build(X, address).close()
    local, S = fa.build(X, tmp_path / "local"), fa.open(address)
    assert list(S.column_names) == list(frame.columns)
    assert list(S.row_names) == index
    assert objects(address) == {*S.manifest.files(), "000001.json", "manifest.json"}
    for selection in ("spa", "auto"):
        assert fa.FAS(selection=selection).seek(S, 4) == fa.FAS(selection=selection).seek(local, 4)
    assert fa.verify(address)["rows"] == rows
    fa.build(da.from_array(matrix(rows)), address, overwrite=True, column_names=[*"abcdefghijklmnopqrst"]).close()
    assert list(fa.open(address).column_names) == [*"abcdefghijklmnopqrst"]


@pytest.mark.parametrize("sparse", [False, True])
def test_a_store_at_an_address_is_a_source(address, tmp_path, sparse):
    """Its stored entries and names, also for a build at the same address, which merges small shards."""
    A = matrix(900, sparse=sparse)
    first = [f"r{i}" for i in range(900)]
    columns = [f"c{j}" for j in range(20)]
    with fa.build(A, address, row_names=first, column_names=columns) as S:
        for i in range(3):
            S.append(A[i : i + 1])  # without names
    expected = sp.vstack([A, A[:3]], format="csr").toarray() if sparse else np.vstack([A, A[:3]])
    names = [*first, "900", "901", "902"]

    def check(copy):
        assert copy.is_sparse == sparse
        rows = copy.rows(np.arange(903))
        np.testing.assert_array_equal(rows.toarray() if sparse else rows, expected)
        assert list(copy.row_names) == names
        assert list(copy.column_names) == columns

    for i, source in enumerate((address, fa.open(address), fa.dask.connect(address))):
        with fa.build(source, tmp_path / f"copy{i}", normalize=None) as copy:
            check(copy)
    with fa.build(A[:3], tmp_path / "more", row_names=first[:3], column_names=columns) as more:
        more.append(address)
        assert more.shape == (906, 20)
    run = CliRunner().invoke(app, ["build", address, str(tmp_path / "command")], catch_exceptions=False)
    assert run.exit_code == 0, run.output
    assert fa.open(tmp_path / "command").shape == (903, 20)
    assert len(fa.open(address).manifest.shards) == 4
    with fa.build(address, address, normalize=None, overwrite=True) as merged:
        check(merged)
        assert len(merged.manifest.shards) == 1


@pytest.mark.parametrize("address", ["memory://", "memory:///", "s3://", "local://", "file://"])
def test_an_address_without_a_store_is_one_error(address, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for door in (fa.open, fa.verify, fa.dask.connect, lambda path: fa.build(np.eye(4), path)):
        with pytest.raises(fa.errors.StoreError, match=r"names no (store|path)"):
            door(address)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "wrong",
    [{"memory_limit": 5}, {"memory_limit": "1"}, {"n_jobs": "x"}, {"n_jobs": 0}, {"foo": 1}, {"variable": "x"}],
    ids=str,
)
def test_a_build_from_dask_checks_its_options_as_on_disk(tmp_path, wrong):
    """Some were ignored, and others raised a TypeError of Python."""
    raised = []
    for target in ("memory://bucket/options.store", tmp_path / "s"):
        with pytest.raises(fa.FastAnchorsError) as caught:
            fa.build(da.from_array(np.eye(4), (2, 4)), target, **wrong)
        raised.append(str(caught.value))
    assert raised[0] == raised[1]


def test_a_local_address_is_a_directory(tmp_path):
    fa.build(np.eye(4), f"local://{tmp_path}/x.store").close()
    assert fa.open(tmp_path / "x.store").shape == (4, 4)
    assert fa.verify(f"local://{tmp_path}/x.store")["rows"] == 4


@pytest.mark.parametrize("scheme", ["file", "local", "FILE"])
def test_a_store_at_a_local_address_is_a_source(tmp_path, scheme):
    """It was taken for a file, whose format could not be determined."""
    fa.build(np.eye(4), tmp_path / "a store", row_names=list("abcd")).close()
    with fa.build(f"{scheme}://{tmp_path}/a store", tmp_path / "copy") as S:
        S.append(f"{scheme}://{tmp_path}/a%20store")
        np.testing.assert_array_equal(S.rows(np.arange(8)), np.tile(np.eye(4), (2, 1)))
        assert list(S.row_names) == list("abcdabcd")


@pytest.mark.parametrize("lazy", [False, True])
def test_a_build_in_a_missing_bucket_says_so(server, tmp_path, monkeypatch, lazy):
    monkeypatch.setenv("FASTANCHORS_CACHE", str(tmp_path))
    with pytest.raises(fa.errors.StoreError, match=r"cannot write s3://nowhere/x.store/.*(bucket|exist)"):
        fa.build(da.from_array(np.eye(4), (2, 4)) if lazy else np.eye(4), "s3://nowhere/x.store")


@pytest.fixture
def calls(address, monkeypatch):
    """The calls that reach the file system; those of S3 as they go out to the server."""
    made = []
    if address.startswith("s3"):
        core = pytest.importorskip("s3fs.core")
        call = core.S3FileSystem._call_s3
        noted = lambda self, method, *rest, **more: made.append(method) or call(self, method, *rest, **more)  # noqa: E731
        monkeypatch.setattr(core.S3FileSystem, "_call_s3", noted)
    return made


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("selection", ["spa", "auto"])
def test_a_cold_seek_with_an_index_takes_few_requests(address, calls, tmp_path, selection, lazy):
    rng = np.random.default_rng(0)
    A = noisy(rng, separable(rng, 30_000, 150, 6))
    X = da.from_array(A, (3000, 150)) if lazy else A
    fa.build(X, address).close()
    with fa.build(X, tmp_path / "local") as local:
        expected = fa.FAS(selection=selection).seek(local, 6).indices.tolist()
    for opened in (fa.open, fa.dask.connect):
        shutil.rmtree(tmp_path / "cache", ignore_errors=True)
        calls.clear()
        S = opened(address)
        assert fa.FAS(selection=selection).seek(S, 6).indices.tolist() == expected
        assert 0 < S.storage.requests <= 10
        assert len(calls) <= 10, calls
        cached = sum(file.stat().st_size for file in (tmp_path / "cache").iterdir())
        assert cached < S.manifest.shards[0].data["bytes"]  # no shard was fetched


def test_append_and_commit(address):
    A = matrix()
    fa.build(A[:4000], address, normalize=None).close()
    reader = fa.open(address)
    with pytest.raises(fa.errors.StoreError, match="for reading"):
        reader.append(A[:3])
    with fa.open(address, mode="r+") as S:
        S.append(A[4000:5000])
        assert fa.open(address).shape == (4000, 20)
        S.commit()
        assert S.shape == fa.open(address).shape == (5000, 20)
        S.append(A[5000:])
    assert reader.shape == (4000, 20)  # stays at the state it has opened
    np.testing.assert_array_equal(reader.rows([0, 3999]), A[[0, 3999]])
    S = fa.open(address)
    np.testing.assert_array_equal(S.rows(np.arange(6000)), A)
    assert fa.FAS(selection="spa").seek(S, 6, rng=0).indices.tolist() == fa.SPA().seek(A, 6).indices.tolist()
    assert fa.verify(address)["generation"] == 3


@pytest.mark.parametrize("clean", [False, True])
def test_appended_rows_are_part_of_the_index(address, tmp_path, clean):
    """A cold seek after appends fetches no shard. It finds what SPA finds in the array, and by the default rule what
    a store on disk finds after the same appends."""
    rng = np.random.default_rng(0)
    A = separable(rng, 30_000, 150, 6)
    A = A if clean else noisy(rng, A)
    A[-1] = np.eye(150)[3]  # a new anchor, which breaks the proof of the index
    places = (address, tmp_path / "local")
    for place in places:
        fa.build(da.from_array(A[:28_000], (2000, 150)), place).close()
    for start, stop in ((28_000, 29_000), (29_000, 30_000)):
        for place in places:
            with fa.open(place, "r+") as S:
                S.append(A[start:stop])
        with fa.open(tmp_path / "local") as local:
            by_default = fa.FAS().seek(local, 6)
        by_spa = fa.SPA().seek(fa.SampleMatrix(A[:stop]), 6)
        for expected, selection in ((by_spa, "spa"), (by_default, "auto")):
            shutil.rmtree(tmp_path / "cache")
            S = fa.open(address)
            assert fa.FAS(selection=selection).seek(S, 6).indices.tolist() == expected.indices.tolist()
            assert 0 < S.storage.requests <= 10
    assert fa.verify(address)["rows"] == 30_000


@pytest.mark.parametrize("rows", [500, 2500])  # without an index, and with one
@pytest.mark.parametrize("selection", ["spa", "auto", "lifted"])
def test_a_writer_seeks_in_the_rows_it_has_committed(address, rows, selection):
    """What an earlier seek has left with the object is not valid for rows that the object appends later."""
    rng = np.random.default_rng(0)
    A, B = rng.random((rows, 40)), rng.random((700, 40)) * (rng.random((700, 40)) < 0.3)
    solver = fa.FAS(selection=selection)
    with fa.build(A, address) as S:
        solver.seek(S, 3)
        for part in (B[:400], B[400:]):
            S.append(part)
            S.commit()
            A = np.vstack([A, part])
            assert solver.seek(S, 3).indices.tolist() == solver.seek(fa.SampleMatrix(A), 3).indices.tolist()


def test_names_at_an_address_are_a_sequence(address):
    with fa.build(matrix()[:3], address, row_names=["a", "b", "c"]) as S:
        S.append(matrix()[:2])
        S.commit()
        assert list(S.row_names) == ["a", "b", "c", "3", "4"]
        assert S.row_names[-1] == "4"
        with pytest.raises(IndexError, match="out of range"):
            S.row_names[5]


@pytest.mark.parametrize("selection", ["spa", "auto"])
def test_a_cold_seek_of_many_small_shards_takes_few_requests(address, tmp_path, selection):
    rng = np.random.default_rng(0)
    A = noisy(rng, separable(rng, 20_000, 40, 6))
    fa.build(da.from_array(A, (800, 40)), address).close()
    for rows in (20_000, 20_100):
        shutil.rmtree(tmp_path / "cache", ignore_errors=True)
        S = fa.open(address, mode="r+")
        assert fa.FAS(selection=selection).seek(S, 6).indices.shape == (6,)
        assert len(S.manifest.shards) >= 25
        assert S.shape[0] == rows
        assert S.storage.requests <= 10
        S.append(A[:100])
        S.close()


def test_coordinates_left_out_at_an_address_are_a_warning(address):
    with pytest.warns(UserWarning, match=r"coordinates .* left out, .* memory_limit of 20000000 .*; [0-9]+ would do"):
        fa.build(matrix(300), address, memory_limit=20_000_000).close()


def test_a_commit_whose_index_is_not_stored_can_be_repeated(address, monkeypatch):
    """The state committed last stays, without further files; the second attempt has rows and index."""
    A = matrix()
    fa.build(A[:5000], address).close()
    with fa.open(address, mode="r+") as S:
        S.append(A[5000:])
        before, put = objects(address), S.storage.put

        def full(file, name):
            if "coordinates" in name:
                raise fa.errors.StoreError("the storage is full")
            put(file, name)

        monkeypatch.setattr(S.storage, "put", full)
        with pytest.raises(fa.errors.StoreError, match="storage is full"):
            S.commit()
        assert objects(address) == before
        assert fa.open(address).shape == (5000, 20)
        monkeypatch.undo()
    S = fa.open(address)
    assert {"fas.whole", "coordinates.whole"} <= S.manifest.extras.keys()
    assert fa.FAS(selection="spa").seek(S, 6).indices.tolist() == fa.SPA().seek(fa.SampleMatrix(A), 6).indices.tolist()
    assert fa.verify(address)["rows"] == 6000


def test_rows_are_committed_although_their_index_cannot_be_made(address, monkeypatch):
    A = matrix()
    fa.build(A[:5000], address).close()
    with fa.open(address, mode="r+") as S:
        S.append(A[5000:])
        monkeypatch.setattr(FasSidecar, "extend", lambda *_: 1 // 0)
        with pytest.warns(UserWarning, match=r"'fas' of .* is left out, so that seeks read all rows: .*zero"):
            S.commit()
        monkeypatch.undo()
    S = fa.open(address)
    assert "fas.whole" not in S.manifest.extras
    assert "coordinates.whole" in S.manifest.extras
    assert fa.FAS(selection="spa").seek(S, 6).indices.tolist() == fa.SPA().seek(fa.SampleMatrix(A), 6).indices.tolist()
    assert fa.verify(address)["rows"] == 6000


def test_entries_at_an_address_are_not_changed(address):
    fa.build(matrix(300), address).close()
    with fa.open(address, mode="r+") as S:
        for change in (lambda: S.__setitem__((0, 0), 1.0), lambda: S.update([0], [0], [1.0]), lambda: S.add(0, 0, 1.0)):
            with pytest.raises(fa.errors.StoreError, match="entries cannot be changed"):
                change()
    assert fa.open(address).generation == 1


def overtaken(address):
    """A writer with 20 rows to commit, after another one has committed 10."""
    one, two = (fa.open(address, mode="r+") for _ in range(2))
    two.append(matrix(20))
    one.append(matrix(10))
    one.close()
    return two


def test_the_second_of_two_writers_gets_an_error(address):
    A = matrix(900)
    fa.build(A, address).close()
    first = fa.open(address).manifest.files()
    two = overtaken(address)
    with pytest.raises(fa.errors.StoreError, match="another writer"):
        two.commit()
    two.close(commit=False)
    S = fa.open(address)
    assert S.shape == (910, 20)
    states = {"000001.json", "000002.json", "manifest.json"}
    assert objects(address) == first | S.manifest.files() | states  # the loser has removed its files


def test_a_refused_row_and_a_failed_build_leave_nothing(address):
    A = matrix(900)
    A[700, 3] = np.nan
    with pytest.raises(fa.errors.InvalidInputError, match=r"A\[700, 3\] is NaN"):
        fa.build(da.from_array(A, chunks=(300, 20)), address)
    for _ in range(200):  # a task that was still writing removes its file when it ends
        if not objects(address):
            break
        time.sleep(0.05)
    assert objects(address) == set()
    with pytest.raises(fa.errors.StoreError, match="is not a store"):
        fa.open(address)
    fa.build(A[:600], address).close()
    before = objects(address)
    with fa.open(address, mode="r+") as S, pytest.raises(fa.errors.InvalidInputError, match="NaN"):
        S.append(A[600:])
    assert objects(address) == before
    fa.build(A[:300], address, overwrite=True).close()
    assert fa.open(address).shape == (300, 20)


def test_tasks_that_outlive_a_failed_build_leave_nothing(address, monkeypatch):
    begun, ended, put, late = threading.Event(), threading.Event(), ObjectStorage.put, []

    def slow(self, file, name):
        if "block-000002" in name:
            begun.set()
            assert ended.wait(30)
            put(self, file, name)
            late.append(name)
        else:
            put(self, file, name)

    def bad(block, block_info):
        if block_info[0]["chunk-location"][0] == 1:
            assert begun.wait(30)
            return block * np.nan
        return block

    monkeypatch.setattr(ObjectStorage, "put", slow)
    X = da.from_array(matrix(900), chunks=(300, 20)).map_blocks(bad, dtype=float, meta=np.empty((0, 0)))
    with dask.config.set(scheduler="threads", num_workers=2):
        with pytest.raises(fa.errors.InvalidInputError, match=r"A\[300, 0\] is NaN"):
            fa.build(X, address, sidecars=())
        ended.set()
        for _ in range(50):
            time.sleep(0.1)
            if late and not objects(address):
                break
    assert late
    assert objects(address) == set()


def test_a_task_that_runs_again_after_the_commit_removes_nothing(address, monkeypatch):
    plans, real = [], build._check_running
    monkeypatch.setattr(build, "_check_running", lambda *plan: (plans.append(plan), real(*plan)))
    fa.build(da.from_array(matrix(900), chunks=(300, 20)), address).close()
    for plan in plans:
        with pytest.raises(fa.errors.StoreError, match="the build has ended meanwhile"):
            real(*plan)
    assert fa.verify(address)["rows"] == 900


def test_a_copy_on_disk_is_a_store(address, tmp_path):
    A = matrix(900)
    with fa.build(A, address, normalize=None) as S:
        S.append(A[:100])
    system, root = fsspec.core.url_to_fs(address)
    system.get(root, str(tmp_path / "copy"), recursive=True)
    with fa.open(tmp_path / "copy", mode="r+") as S:
        np.testing.assert_array_equal(S.rows(np.arange(1000)), np.concatenate([A, A[:100]]))
        S[3, 4] = 0.5
    assert fa.open(tmp_path / "copy").raw(3, 4) == 0.5


def test_the_cache_size_is_limited(address, tmp_path, monkeypatch):
    A = matrix(4000)
    fa.build(da.from_array(A, chunks=(500, 20)), address, sidecars=()).close()
    monkeypatch.setenv("FASTANCHORS_CACHE", str(tmp_path / "small"))
    monkeypatch.setenv("FASTANCHORS_CACHE_BYTES", "500000")
    S = fa.open(address)
    np.testing.assert_allclose(S.rows(np.arange(4000)).sum(axis=1), 1.0)
    sizes = [file.stat().st_size for file in (tmp_path / "small").iterdir()]
    assert 0 < sum(sizes) <= 500_000 < sum(shard.data["bytes"] for shard in S.manifest.shards)
    monkeypatch.setenv("FASTANCHORS_CACHE_BYTES", "5e5")
    with pytest.raises(fa.errors.InvalidInputError, match="number of bytes"):
        fa.open(address)


def test_copies_of_other_users_stay_in_a_shared_cache(tmp_path, monkeypatch):
    """Making room ended with a PermissionError."""

    def refused(path, **_):
        raise PermissionError(1, "Operation not permitted", str(path))

    (tmp_path / "theirs.bin").write_bytes(bytes(9))
    monkeypatch.setattr(Path, "unlink", refused)
    FileCache(tmp_path, 1).make_room(tmp_path / "ours.bin")
    assert (tmp_path / "theirs.bin").exists()


def _write_and_die(address, at, how):
    """Append to, or build, a store; killed at an upload of a shard or of an index, before the commit or after it."""
    at, _, file = at.partition(" ")
    dying, calls = getattr(ObjectStorage, at), []

    def last(self, *arguments):
        calls.append(at)
        if at == "put" and (file not in arguments[1] or len(calls) < 2):
            return dying(self, *arguments)
        if at == "remove_before":
            dying(self, *arguments)
        os.kill(os.getpid(), signal.SIGKILL)
        return None

    setattr(ObjectStorage, at, last)
    if how == "append":
        with fa.open(address, mode="r+") as S:
            S.append(matrix(500))
            S.append(matrix(500))
    else:
        fa.build(da.from_array(matrix(500), (250, 20)), address, overwrite=True)


@pytest.mark.parametrize("address", ["s3"], indirect=True)
def test_a_killed_writer_leaves_the_last_committed_state(address):
    A = matrix(900)
    fa.build(A, address).close()
    for how, at, rows in [
        ("append", "put shard", 900),
        ("append", "put whole", 900),
        ("append", "commit", 900),
        ("build", "put shard", 900),
        ("build", "commit", 900),
        ("build", "remove_before", 500),  # committed
    ]:
        writer = multiprocessing.get_context("spawn").Process(target=_write_and_die, args=(address, at, how))
        writer.start()
        writer.join(120)
        assert writer.exitcode == -signal.SIGKILL
        assert fa.open(address).shape == (rows, 20)
        assert fa.verify(address)["rows"] == rows
    with fa.open(address, mode="r+") as S:
        S.append(A[:50])
    assert fa.verify(address)["rows"] == 550


def _build(address, lazy):
    X = da.from_array(matrix(900), (300, 20)) if lazy else matrix(900)
    try:
        fa.build(X, address).close()
    except fa.errors.StoreError as error:
        told = ("exists already", "another writer")
        os._exit(3 if any(words in str(error) for words in told) else 4)


@pytest.mark.parametrize("address", ["s3"], indirect=True)
def test_two_processes_that_build_at_the_same_address(address):
    spawn = multiprocessing.get_context("spawn")
    builders = [spawn.Process(target=_build, args=(address, lazy)) for lazy in (False, True)]
    assert exit_codes(builders) == [0, 3]
    assert fa.verify(address)["rows"] == 900
    assert objects(address) == {*fa.open(address).manifest.files(), "000001.json", "manifest.json"}


@pytest.mark.parametrize("lost", [FileExistsError("answered twice"), OSError("no answer")])
def test_a_commit_whose_answer_is_lost_counts(address, monkeypatch, lost):
    """A repeated request finds the object that the first one has made: it is no other writer's."""
    A = matrix(900)
    fa.build(A, address).close()
    with fa.open(address, mode="r+") as S:
        S.append(A[:50])
        create = S.storage._system.pipe_file

        def unlucky(path, value, mode="overwrite", **more):
            create(path, value, mode=mode, **more)
            if mode == "create":
                raise lost

        monkeypatch.setattr(S.storage._system, "pipe_file", unlucky)
        S.commit()
        monkeypatch.undo()
        assert S.shape == (950, 20)
    assert fa.verify(address)["rows"] == 950


@pytest.mark.parametrize("share", [0, 0.5])
def test_half_an_answer_is_not_another_writer(address, monkeypatch, share):
    """The answer to a commit was lost and reading it back gave a part: the writer was told to repeat its changes."""
    A = matrix(900)
    fa.build(A, address).close()
    monkeypatch.setattr(storage, "_WAITS", (0,))
    with fa.open(address, mode="r+") as S:
        S.append(A[:50])
        system, create, read = S.storage._system, S.storage._system.pipe_file, S.storage._system.cat_file
        parts, tried = [], []

        def unlucky(path, value, mode="overwrite", **more):
            if mode == "create" and not tried:
                tried.append(path)
                parts.append(share)
                create(path, value, mode=mode, **more)
                raise OSError("no answer")
            create(path, value, mode=mode, **more)

        def half(path, *more, **options):
            content = read(path, *more, **options)
            return content[: int(len(content) * parts.pop())] if parts else content

        with monkeypatch.context() as patch:
            patch.setattr(system, "pipe_file", unlucky)
            patch.setattr(system, "cat_file", half)
            S.commit()
        assert (S.shape, parts, len(tried)) == ((950, 20), [], 1)
    assert fa.verify(address)["rows"] == 950


def test_a_commit_that_fails_keeps_its_files(address, monkeypatch):
    """Nobody knows whether the request will still arrive, so what it refers to stays."""
    A = matrix(900)
    fa.build(A, address).close()
    before = objects(address)
    with fa.open(address, mode="r+") as S:
        S.append(A[:50])

        def silent(path, value, mode="overwrite", **more):
            raise OSError("the network is down")

        monkeypatch.setattr(S.storage._system, "pipe_file", silent)
        with pytest.raises(fa.errors.StoreError, match=r"cannot know.*network is down"):
            S.commit()
        monkeypatch.undo()
        S.close(commit=False)
    assert objects(address) > before
    assert fa.verify(address)["rows"] == 900


@pytest.mark.parametrize("arrives", [True, False])
def test_a_commit_without_an_answer_can_be_repeated(address, monkeypatch, arrives):
    """The rows stay pending, also beside rows that are appended later, and are committed once."""
    A = matrix(900)
    fa.build(A, address, normalize=None).close()
    monkeypatch.setattr(storage, "_WAITS", ())
    with fa.open(address, mode="r+") as S:
        S.append(A[:50])
        system, create = S.storage._system, S.storage._system.pipe_file

        def lost(path, value, mode="overwrite", **more):
            if arrives:
                create(path, value, mode=mode, **more)
            raise OSError("the network is down")

        with monkeypatch.context() as patch:
            patch.setattr(system, "pipe_file", lost)
            patch.setattr(system, "cat_file", lost)
            with pytest.raises(fa.errors.StoreError):
                S.commit()
            if not arrives:
                with pytest.raises(fa.errors.StoreError):
                    S.commit()
        S.append(A[50:80])
        S.commit()
        assert S.shape == (980, 20)
    np.testing.assert_array_equal(fa.open(address).rows(np.arange(900, 980)), A[:80])
    assert fa.verify(address)["rows"] == 980


def test_an_overtaken_writer_raises_until_it_is_closed(address):
    A = matrix(900)
    fa.build(A, address).close()
    two = overtaken(address)
    for action in (two.commit, two.commit, lambda: two.append(A[:5]), two.close):
        with pytest.raises(fa.errors.StoreError, match=r"another writer.*open the store again"):
            action()
    two.close()
    assert fa.verify(address)["rows"] == 910


def test_a_closed_store_at_an_address_does_not_append(address):
    fa.build(matrix(300), address).close()
    S = fa.open(address, mode="r+")
    S.append(matrix(300)[:5])
    S.close(commit=False)
    with pytest.raises(fa.errors.StoreError, match="closed"):
        S.append(matrix(300)[:5])
    S.commit()  # nothing is pending
    assert fa.verify(address)["rows"] == 300


def test_threads_do_not_write_to_one_store_at_once(address):
    A = matrix(300)
    fa.build(A, address).close()
    refused = []

    def blocks():
        for change in (S.commit, lambda: S.append(A[:5])):
            thread = threading.Thread(target=attempt, args=(change,))
            thread.start()
            thread.join()
        yield A[:7]

    def attempt(change):
        with pytest.raises(fa.errors.ConcurrentAccessError) as caught:
            change()
        refused.append(str(caught.value))

    with fa.open(address, mode="r+") as S:
        S.append(blocks())
    assert len(refused) == 2
    assert all("nothing was changed" in message for message in refused)
    assert fa.verify(address)["rows"] == 307


def test_a_store_is_not_closed_while_another_thread_commits(address, monkeypatch):
    """It would remove the files that are about to become part of the store."""
    A = matrix(300)
    S, commit_files, refused = fa.build(A, address), object_store.commit_files, []

    def committed(*arguments):
        with ThreadPoolExecutor(1) as pool:
            for change in (S.close, lambda: S.close(commit=False), S.commit, lambda: S.append(A[:5])):
                refused.append(type(pool.submit(change).exception(timeout=60)))
            assert pool.submit(S.rows, [3]).result(timeout=60).shape == (1, 20)  # others may read
        commit_files(*arguments)

    S.append(A[:7])
    with monkeypatch.context() as patch:
        patch.setattr(object_store, "commit_files", committed)
        S.commit()
    assert refused == [fa.errors.ConcurrentAccessError] * 4
    np.testing.assert_array_equal(S.raw_rows([300, 306]), A[[0, 6]])
    S.close()
    assert fa.verify(address)["rows"] == 307


def test_a_commit_waits_for_threads_that_read(address):
    """A reader would take the shards of the new state for those of the old one."""
    A = matrix(300)
    with fa.build(A, address) as S, ThreadPoolExecutor(1) as pool:
        S.append(A[:7])
        with S.reading():
            committing = pool.submit(S.commit)
            while S.storage.generation() < 2:
                assert not committing.done()
            time.sleep(0.05)
            assert not committing.done()
            assert S.shape == (300, 20)
            np.testing.assert_array_equal(S.raw_rows([299]), A[[299]])
        committing.result(timeout=60)
        assert S.shape == (307, 20)


def test_nothing_is_built_inside_a_store_at_an_address(address):
    fa.build(matrix(300), address).close()
    for inside in ("inner.store", "generations", "a/b.store"):
        with pytest.raises(fa.errors.StoreError, match=f"is inside the store {address}; choose another address"):
            fa.build(matrix(300), f"{address}/{inside}")
    fa.build(matrix(300), address, overwrite=True).close()
    fa.build(matrix(300), f"{address}-beside").close()
    assert fa.verify(address)["rows"] == 300


def test_pending_rows_are_not_sent_elsewhere(address):
    fa.build(matrix(300), address).close()
    with fa.open(address, mode="r+") as S:
        assert pickle.loads(pickle.dumps(S)).shape == (300, 20)
        S.append(matrix(300)[:5])
        for copied in (pickle.dumps, copy.deepcopy):
            with pytest.raises(fa.errors.StoreError, match="commit before sending it elsewhere"):
                copied(S)
    assert fa.verify(address)["rows"] == 305


def test_a_writer_does_not_trust_an_old_listing(address, monkeypatch):
    """As in two processes: s3fs keeps the listing that a writer saw when it opened the store."""
    monkeypatch.setattr(storage, "_WAITS", ())
    A = matrix(900)
    fa.build(A, address).close()
    one, two = (fa.open(address, mode="r+") for _ in range(2))
    two.storage._system = type(one.storage._system)(skip_instance_cache=True)
    assert two.storage.generation() == 1
    one.append(A[:10])
    two.append(A[:20])
    one.close()
    with pytest.raises(fa.errors.StoreError, match="another writer has committed generation 2"):
        two.commit()
    two.close(commit=False)
    assert fa.verify(address)["rows"] == 910


def test_a_writer_of_a_removed_store_does_not_commit_to_a_new_one(address):
    A = matrix(900)
    fa.build(A, address).close()
    writer = fa.open(address, mode="r+")
    writer.append(A[:20])
    system, root = fsspec.url_to_fs(address)
    system.rm(root, recursive=True)
    with pytest.raises(fa.errors.StoreError, match="open it again"):
        writer.commit()
    fa.build(2 * A, address).close()
    with pytest.raises(fa.errors.StoreError, match="replaced since it was opened; open it again"):
        writer.commit()
    writer.close(commit=False)
    assert fa.verify(address)["rows"] == 900


def test_verify_at_an_address_needs_the_journal(address):
    fa.build(matrix(300), address).close()
    system, root = fsspec.url_to_fs(address)
    system.rm_file(f"{root}/{fa.open(address).manifest.journal}")
    with pytest.raises(fa.errors.CorruptStoreError, match=f"{address}/.*log is missing; restore it from a copy"):
        fa.verify(address)


def put(address, name, content):
    """Replace an object, or remove it."""
    system, root = fsspec.url_to_fs(address)
    if content is None:
        system.rm_file(f"{root}/{name}")
    else:
        system.pipe_file(f"{root}/{name}", content)


def test_verify_at_an_address_names_what_is_missing_cut_or_damaged(address):
    with fa.build(matrix(300), address) as S:
        shard = S.manifest.shards[0].data["file"]
    system, root = fsspec.url_to_fs(address)
    for name, words in ((shard, "instead of"), ("manifest.json", "manifest.json is (damaged|missing)")):
        whole = system.cat_file(f"{root}/{name}")
        for content, what in ((whole[:-9], words), (b"", words), (None, "is missing[;,]")):
            put(address, name, content)
            with pytest.raises(fa.errors.CorruptStoreError, match=what) as caught:
                fa.verify(address)
            assert f"{address}/{name}" in str(caught.value)
        system.pipe_file(f"{root}/{name}", whole)


@pytest.mark.parametrize("state", ["stale", "missing", "empty", "damaged"])
def test_a_bad_copy_of_the_manifest_is_named_and_renewed(address, state):
    """A writer was killed before it wrote the copy: fa.verify did not see that the last rows were not in it."""
    fa.build(matrix(300), address).close()
    first = ObjectStorage(address).read("manifest.json")
    with fa.open(address, mode="r+") as S:
        S.append(matrix(300)[:20])
    bad = {"stale": first, "missing": None, "empty": b"", "damaged": first[:-9]}[state]
    put(address, "manifest.json", bad)
    words = rf"{address}/manifest.json is {'damaged' if state == 'empty' else state if bad != first else 'a stale'}"
    fa.open(address).close()
    fa.open(address, mode="r+").close(commit=False)
    with pytest.raises(fa.errors.CorruptStoreError, match=f"{words}.*all else is sound: open .* which writes it again"):
        fa.verify(address)
    fa.open(address, mode="r+").close()
    assert fa.verify(address)["rows"] == 320


@pytest.fixture
def no_copy(monkeypatch):
    """Requests that write manifest.json fail as often as is said; those that were tried are noted."""
    monkeypatch.setattr(storage, "_WAITS", (0, 0))
    tried, write = [], ObjectStorage._put_copy

    def fail(times):
        def failing(self, content):
            tried.append(len(tried) + 1)
            if len(tried) <= times:
                raise fa.errors.StoreError("the network is down")
            write(self, content)

        monkeypatch.setattr(ObjectStorage, "_put_copy", failing)
        return tried

    return fail


def test_a_copy_of_the_manifest_is_tried_again(address, tmp_path, no_copy):
    """One request that failed was silent, and a copy of the prefix was the store without the last rows."""
    tried = no_copy(2)
    fa.build(matrix(300), address).close()
    assert tried == [1, 2, 3]
    tried.clear()
    with fa.open(address, mode="r+") as S:
        S.append(matrix(300)[:20])
    assert tried == [1, 2, 3]
    assert fa.verify(address)["rows"] == 320


@pytest.mark.parametrize("end", ["commit", "close", "rows"])
def test_a_copy_of_the_manifest_that_fails_is_a_warning_and_renewed(address, no_copy, end):
    told = rf"committed to {address} is stored, but manifest.json .* commit\(\) or close\(\) tries .*network is down"
    tried = no_copy(12)
    with pytest.warns(UserWarning, match=told):
        S = fa.build(matrix(300), address)
    with pytest.raises(fa.errors.CorruptStoreError, match=r"manifest.json is missing, .* all else is sound"):
        fa.verify(address)
    S.append(matrix(300)[:20])
    with pytest.warns(UserWarning, match=told):
        S.commit()
    assert fa.open(address).shape == S.shape == (320, 20)
    with pytest.warns(UserWarning, match=told):
        S.commit()
    tried += [0] * 12
    if end == "rows":
        S.append(matrix(300)[:5])
    (S.close if end == "close" else S.commit)()
    assert fa.verify(address)["rows"] == (325 if end == "rows" else 320)
    requests = S.storage.requests
    S.close()
    assert S.storage.requests == requests


def test_a_copy_of_the_manifest_is_that_of_the_newest_writer(address, no_copy):
    """The first one failed to write its copy; a second has committed since, or the store was removed."""
    fa.build(matrix(300), address).close()
    one = fa.open(address, mode="r+")
    one.append(matrix(300)[:20])
    no_copy(4)
    with pytest.warns(UserWarning, match="manifest.json"):
        one.commit()
    with fa.open(address, mode="r+") as two:
        two.append(matrix(300)[:10])
    one.close()
    assert fa.verify(address)["rows"] == 330
    three = fa.open(address, mode="r+")
    system, root = fsspec.url_to_fs(address)
    system.rm(root, recursive=True)
    three.close()
    assert objects(address) == set()


@pytest.mark.parametrize("times", [1, 2, 9])
def test_a_store_that_was_built_is_opened_although_reads_fail(address, monkeypatch, times):
    """The build raised "cannot read" although the store was committed."""
    monkeypatch.setattr(storage, "_WAITS", (0, 0))
    read, publish, failed = ObjectStorage._errors, object_store.publish, []

    def failing(self, doing, name=""):
        if failed and doing == "read" and failed.pop():
            raise fa.errors.StoreError(f"cannot read {name}: the network is down")
        return read(self, doing, name)

    def published(*arguments):
        manifest = publish(*arguments)
        failed.extend([True] * times)
        return manifest

    monkeypatch.setattr(ObjectStorage, "_errors", failing)
    monkeypatch.setattr(object_store, "publish", published)
    names = [f"c{j}" for j in range(20)]
    if times < 3:
        assert list(fa.build(matrix(300), address, column_names=names).column_names) == names
    else:
        with pytest.raises(fa.errors.StoreError, match=f"{address} was built, but .* use fa.open: cannot read"):
            fa.build(matrix(300), address, column_names=names)
    failed.clear()
    assert fa.verify(address)["rows"] == 300


def test_generations_are_what_their_names_say(address):
    fa.build(matrix(300), address).close()
    system, root = fsspec.url_to_fs(address)
    folder = f"{root}/generations"
    first = system.cat_file(f"{folder}/000001.json")
    for other in ("٣٣٣٣٣٣", "0000007", "abc", "9" * 23, "000002.json"):
        system.pipe_file(f"{folder}/{other}.json", first)
    assert fa.open(address).generation == 1
    system.pipe_file(f"{folder}/000007.json", first)
    for look in (fa.open, fa.verify, lambda path: fa.open(path, mode="r+")):
        with pytest.raises(fa.errors.CorruptStoreError, match=r"000007.json is the manifest of generation 1"):
            look(address)
    fa.build(matrix(400), address, overwrite=True).close()
    assert fa.open(address).shape[0] == 400
    assert fa.open(address).generation == 8


def test_a_store_at_an_address_is_not_compacted(address):
    fa.build(matrix(300), address).close()
    with fa.open(address, mode="r+") as S, pytest.raises(fa.errors.StoreError, match="nothing to compact"):
        S.compact()


@pytest.mark.parametrize("answer", [FileNotFoundError("gone"), OSError("lost"), b"short"])
def test_a_bad_answer_for_a_range_is_one_error(address, monkeypatch, answer):
    """fsspec returns the exceptions of single requests; nothing of it is kept."""
    A = matrix(3000)
    fa.build(A, address, normalize=None, sidecars=()).close()
    S = fa.open(address)
    with monkeypatch.context() as patch:
        patch.setattr(S.storage._system, "cat_ranges", lambda paths, *_, **__: [answer] * len(paths))
        with pytest.raises(fa.errors.StoreError, match=r"gone|lost|came|replaced"):
            S.rows([5])
    np.testing.assert_array_equal(S.rows([5]), A[[5]])


def test_a_damaged_piece_in_the_cache_is_fetched_again(address, tmp_path):
    A = matrix(3000)
    fa.build(A, address, normalize=None, sidecars=()).close()
    np.testing.assert_array_equal(fa.open(address).rows([5]), A[[5]])
    pieces = list((tmp_path / "cache").glob("*-*.bin"))
    assert pieces
    for piece in pieces:
        with open(piece, "r+b") as file:
            file.truncate(100)
    np.testing.assert_array_equal(fa.open(address).rows([5]), A[[5]])


def flip(file, share=0.5):
    """Change one bit of a file, as a disk would: its size and its times stay the same."""
    times, content = file.stat(), bytearray(file.read_bytes())
    content[int(share * len(content))] ^= 8
    file.write_bytes(content)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_a_flipped_bit_of_a_piece_in_the_cache_is_found(address, tmp_path):
    A = matrix(3000)
    fa.build(A, address, normalize=None, sidecars=()).close()
    np.testing.assert_array_equal(fa.open(address).rows([0]), A[[0]])
    (piece,) = (tmp_path / "cache").glob("*-*.bin")
    flip(piece, 7 / (1 << 18))  # in the exponent of the first entry
    np.testing.assert_array_equal(fa.open(address).rows([0]), A[[0]])


@pytest.mark.parametrize("how", ["another process", "written again", "verify"])
def test_a_flipped_bit_of_a_copy_in_the_cache_is_found(address, tmp_path, how):
    """When a process first uses the copy, or after it was written again; fa.verify removes it."""
    A = matrix(900)
    fa.build(A, address, normalize=None).close()

    def read(S):
        np.testing.assert_array_equal(S.rows(np.arange(900)), A)
        return fa.FAS(selection="spa").seek(S, 6)

    expected = read(fa.open(address))
    for cached in (tmp_path / "cache").glob("*.bin"):
        flip(cached)
        if how == "another process":
            file_cache._checked.clear()
        elif how == "written again":
            os.utime(cached)
        else:
            fa.verify(address)
        assert read(fa.open(address)) == expected
        assert cached.exists()  # fetched again


def test_damaged_objects_do_not_enter_the_cache(address, tmp_path):
    A = matrix(900)
    fa.build(A, address, normalize=None, sidecars=()).close()
    system, root = fsspec.url_to_fs(address)
    file = fa.open(address).manifest.shards[0].data["file"]
    content = bytearray(system.cat_file(f"{root}/{file}"))
    content[len(content) // 2] ^= 8
    system.pipe_file(f"{root}/{file}", bytes(content))
    with pytest.raises(fa.errors.CorruptStoreError, match=f"{address}/{file}: the checksum of array 'data'"):
        fa.open(address).rows(np.arange(900))
    assert not list((tmp_path / "cache").iterdir())


@pytest.mark.parametrize("kind", ["file", "dangling link"])
def test_an_unusable_cache_is_one_error(address, tmp_path, kind):
    A = matrix(900)
    fa.build(A, address).close()
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)
    if kind == "file":
        (tmp_path / "cache").touch()
    else:
        (tmp_path / "cache").symlink_to(tmp_path / "nowhere" / "there")
    for rows in ([5], np.arange(900)):
        with pytest.raises(fa.errors.StoreError, match=r"cannot use the cache .*FASTANCHORS_CACHE"):
            fa.open(address).rows(rows)


def test_the_default_cache_belongs_to_the_user(tmp_path, monkeypatch):
    monkeypatch.delenv("FASTANCHORS_CACHE", raising=False)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr("getpass.getuser", lambda: pytest.fail("users need no name"))
    cache = FileCache(None, 1000)
    cache.write(cache.path("a"), b"12345")
    assert cache.read(cache.path("a"), 5) == b"12345"
    assert cache.folder.stat().st_mode & 0o077 == 0
    owner = os.getuid()
    monkeypatch.setattr("os.getuid", lambda: owner + 1)
    cache.folder.rename(tmp_path / f"fastanchors-cache-{owner + 1}")
    planted = FileCache(None, 1000)
    with pytest.raises(fa.errors.StoreError, match="belongs to another user"):
        planted.read(planted.path("a"), 5)


@pytest.mark.parametrize("pointers", [(2**31 - 1,) * 2, (-5, None), (None, 2**31 - 1), (None, 0)])
def test_forged_row_pointers_at_an_address(address, pointers):
    """Row 5 is read by ranges, which follow the pointers."""
    A = sp.csr_array(matrix(3000))
    fa.build(A, address, sidecars=()).close()
    system, root = fsspec.url_to_fs(address)
    data = fa.open(address).manifest.shards[0].data
    place = data["arrays"]["indptr"]
    content = bytearray(system.cat_file(f"{root}/{data['file']}"))
    ends = np.frombuffer(content, place["dtype"], 7, place["offset"])
    for at, pointer in zip((5, 6), pointers):
        if pointer is not None:
            ends[at] = pointer
    system.pipe_file(f"{root}/{data['file']}", bytes(content))
    S = fa.open(address)
    with pytest.raises(fa.errors.CorruptStoreError, match="row pointers"):
        S.rows([5])
    assert S.storage.requests < 20


def test_a_damaged_copy_in_the_cache_is_fetched_again(address, tmp_path):
    A = matrix(900)
    fa.build(A, address, normalize=None, sidecars=()).close()
    np.testing.assert_array_equal(fa.open(address).rows(np.arange(900)), A)
    (cached,) = (tmp_path / "cache").glob("*.bin")
    with open(cached, "r+b") as file:
        file.truncate(1000)
    np.testing.assert_array_equal(fa.open(address).rows(np.arange(900)), A)


def test_verify_reads_what_is_stored_and_not_the_cache(address):
    with fa.build(matrix(900), address) as S:
        S.rows(np.arange(900))  # the whole shard is in the cache now
        file = S.manifest.shards[0].data["file"]
    system, root = fsspec.core.url_to_fs(address)
    content = bytearray(system.cat_file(f"{root}/{file}"))
    content[len(content) // 2] ^= 1
    system.pipe_file(f"{root}/{file}", bytes(content))
    with pytest.raises(fa.errors.CorruptStoreError):
        fa.verify(address)


@pytest.mark.parametrize("address", ["s3"], indirect=True)
def test_workers_build_and_answer_at_an_address(address, tmp_path):
    """One of them is killed in the middle of the build."""
    A = matrix()
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.ERROR) as cluster,
        Client(cluster),
    ):
        X = da.from_array(A, chunks=(1500, 20)).map_blocks(die_once_at, str(tmp_path / "flag"), meta=np.empty((0, 0)))
        fa.build(X, address, sidecars=())
        assert objects(address) == {*fa.open(address).manifest.files(), "000001.json", "manifest.json"}
        S = fa.dask.connect(address)
        found = fa.FAS(selection="spa").seek(S, 6, rng=0)
        assert found.indices.tolist() == fa.SPA().seek(fa.SampleMatrix(A), 6).indices.tolist()
        F = fa.encode(S.to_dask(), S.rows(np.arange(3)))
        assert F.compute().shape == (6000, 3)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("normalize", ["l1", None])
def test_few_rows_are_read_by_ranges(address, tmp_path, monkeypatch, sparse, normalize):
    """A row takes one or two requests and a small part of its shard, and equals the row of the whole shard."""
    monkeypatch.setattr(storage, "_PIECE", 1 << 12)
    A = matrix(sparse=sparse)
    fa.build(A, address, normalize=normalize, sidecars=()).close()
    some = [5999, 3, 3000, 3]
    S = fa.open(address)
    expected = fa.SampleMatrix(A, normalize).rows(some)
    opened = S.storage.requests
    for _ in range(2):
        found = S.rows(some)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found.toarray() if sparse else found, expected.toarray() if sparse else expected)
    assert S.storage.requests - opened <= 3 * (3 if sparse else 1)  # the second time they are in the cache
    cached = sum(file.stat().st_size for file in (tmp_path / "cache").iterdir())
    assert 0 < cached < S.manifest.shards[0].data["bytes"] // 4
    np.testing.assert_array_equal(
        abs(S.rows(np.arange(6000))).sum(), abs(fa.SampleMatrix(A, normalize).rows(np.arange(6000))).sum()
    )


def test_replacing_a_store_removes_the_old_one(address):
    A = matrix(900)
    with fa.build(A, address) as S:
        S.append(A[:100])
    fa.build(A[:300], address, overwrite=True).close()
    S = fa.open(address)
    assert S.generation == 3
    assert objects(address) == {*S.manifest.files(), "000003.json", "manifest.json"}
    assert fa.verify(address)["rows"] == 300


def test_stores_at_addresses_on_the_command_line(address, tmp_path):
    A = matrix()
    np.save(tmp_path / "x.npy", A)
    np.save(tmp_path / "more.npy", A[:50])

    def run(*arguments):
        result = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    assert run("build", tmp_path / "x.npy", address, "--json")["rows"] == 6000
    found = run("seek", address, "-k", 6, "--json")
    assert found["anchors"] == fa.FAS().seek(fa.open(address), 6).indices.tolist()
    (tmp_path / "anchors.json").write_text(json.dumps(found))
    run("encode", address, tmp_path / "anchors.json", "-o", tmp_path / "weights.npy", "--json")
    assert np.load(tmp_path / "weights.npy").shape == (6000, 6)
    assert run("append", address, tmp_path / "more.npy", "--json")["rows"] == 6050
    assert run("verify", address, "--json")["rows"] == 6050
    assert run("info", address, "--json")["rows"] == 6050
    assert fa.FAS(selection="spa").seek(address, 3).indices.shape == (3,)
