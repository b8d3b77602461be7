"""Build and seek on processes of a Dask cluster, some of which are killed: the results stay correct."""

from __future__ import annotations

import logging
import os
import time

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster

import fastanchors as fa
from fastanchors.dask.remote_store import RemoteStore
from fastanchors.fas import sidecar as fas_store
from fastanchors.store import Sidecar
from fastanchors.store.store import Store
from naive.fas import noisy, separable
from processes import die_once


@pytest.fixture(scope="module")
def cluster():
    """A cluster that waits for killed workers to come back: by default it gives them up after 15 seconds."""
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "300s"}),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def client(cluster):
    """Both workers are there again if the test before has killed one."""
    wait_for_workers(cluster)
    return cluster


@pytest.fixture(autouse=True)
def _keep_sketches(monkeypatch):
    """Keep sketches also for these narrow matrices, for which they would not pay off."""
    monkeypatch.setattr(fas_store, "_DENSE_SHARE", 10.0)


def matrix(m=6000):
    rng = np.random.default_rng(0)
    return noisy(rng, separable(rng, m, 20, 6))


def files(path):
    """The content of every file of a store."""
    return {file.name: file.read_bytes() for file in path.iterdir()}


class Deadly(Sidecar):
    """A sidecar that kills the worker between two files of the second shard."""

    name = "deadly"

    def __init__(self, flag):
        self.flag = str(flag)

    @classmethod
    def load(cls, shared):
        raise NotImplementedError

    def begin(self, block):
        return {"none": np.zeros(1)}

    def add_block(self, block, first_row):
        if first_row > 0:
            die_once(self.flag)
        return {"first": np.array([first_row])}


def pids(client):
    return set(client.run(os.getpid).values())


def wait_for_workers(client):
    client.wait_for_workers(2, timeout=120)


@pytest.mark.filterwarnings("ignore:Running on a single-machine scheduler")  # by Dask 2025.3, of what is meant here
def test_workers_give_the_store_of_one_process(client, tmp_path):
    A = matrix(24000)
    X = da.from_array(A, chunks=(6000, 20))
    S = fa.build(X, tmp_path / "many")
    assert S.cost.bytes_moved > 0
    with dask.config.set(scheduler="synchronous"):
        fa.build(X, tmp_path / "one")
    assert files(tmp_path / "many") == files(tmp_path / "one")
    np.testing.assert_array_equal(S.rows(np.arange(24000)), fa.SampleMatrix(A).rows(np.arange(24000)))
    fa.verify(tmp_path / "many")


def test_a_seek_moves_little_and_finds_the_same(client, tmp_path, monkeypatch):
    for kind in (Store, RemoteStore):  # so that it is made on the workers
        monkeypatch.setattr(kind, "sidecar_arrays", lambda store, name: None)
    moved = []
    for m in (24000, 96000):
        fa.build(da.from_array(matrix(m).astype(np.float32), chunks=(m // 4, 20)), tmp_path / str(m))
        local, remote = fa.open(tmp_path / str(m)), fa.dask.connect(tmp_path / str(m), client)
        assert remote.sample_rows(50, rng=1).tolist() == local.sample_rows(50, rng=1).tolist()
        expected, found = (fa.FAS(selection="spa").seek(S, 6, rng=2) for S in (local, remote))
        assert found.indices.tolist() == expected.indices.tolist()
        assert found.certificate.kind == expected.certificate.kind == "exact"
        assert expected.cost.bytes_moved == 0
        moved.append(found.cost.bytes_moved)
    assert 0 < moved[0] < 2_000_000
    assert moved[1] < 1.3 * moved[0]  # four times the rows: only lists of rows near a threshold grow


def wires(client):
    """Bytes that the workers have written to sockets since the first call."""
    return sum(client.run(_written).values())


def _written():
    from distributed.comm import tcp

    if not hasattr(tcp, "_written"):
        tcp._written = 0
        write = tcp.TCP.write

        async def counted(self, *arguments, **options):
            size = await write(self, *arguments, **options)
            tcp._written += size or 0
            return size

        tcp.TCP.write = counted
    return tcp._written


def make_block(rows, block):
    profiles = np.random.default_rng(0).dirichlet(np.full(60, 0.1), 6)
    rng = np.random.default_rng([1, block])
    weights = rng.dirichlet(np.full(6, 0.5), rows)
    if block == 0:
        weights[:6] = np.eye(6)
    return (weights @ profiles + 1e-5 * rng.random((rows, 60))).astype(np.float32)


def test_counted_bytes_match_what_workers_send(client, tmp_path):
    """Neither blocks nor sketches are sent: workers write little more than is counted, and far less than the matrix."""
    blocks, rows = 8, 16_000
    tasks = [dask.delayed(make_block)(rows, b) for b in range(blocks)]
    X = da.concatenate([da.from_delayed(task, (rows, 60), dtype=np.float32) for task in tasks])
    wires(client)
    size = 4 * blocks * rows * 60
    sketches = 4 * 25 * blocks * rows
    S = fa.build(X, tmp_path / "s", sidecars=())
    built = wires(client)
    assert S.cost.bytes_moved < 100_000
    assert built < 200_000 < size // 100
    found = fa.FAS(selection="spa").seek(fa.dask.connect(tmp_path / "s"), 6, rng=0)
    sought = wires(client) - built
    assert sought < found.cost.bytes_moved + 300_000  # includes heartbeats
    assert sought < sketches // 4
    fitted = fa.SeparableNMF(5, selection="spa", random_state=0).fit(X)
    fit = wires(client) - built - sought
    assert fit < 2 * fitted.result_.cost.bytes_moved + 500_000
    assert fit < size // 4


def test_a_restarted_cluster_is_used_again(client, tmp_path):
    fa.build(da.from_array(matrix(), chunks=(1500, 20)), tmp_path / "s")
    remote = fa.dask.connect(tmp_path / "s")
    expected = remote.row_norm(np.arange(9)).tolist()
    client.restart()
    assert remote.row_norm(np.arange(9)).tolist() == expected
    with fa.open(tmp_path / "s") as local:
        assert (
            fa.FAS(selection="spa").seek(remote, 4, rng=0).indices.tolist()
            == fa.FAS(selection="spa").seek(local, 4, rng=0).indices.tolist()
        )


def test_a_later_client_is_not_used_and_a_closed_one_raises(client, tmp_path):
    fa.build(matrix(900), tmp_path / "s").close()
    with dask.config.set(scheduler="threads"):
        remote = fa.dask.connect(tmp_path / "s")
    remote.row_norm(np.arange(900))
    assert remote.cost.bytes_moved == 0
    with Client(client.scheduler.address, set_as_default=False) as other:
        remote = fa.dask.connect(tmp_path / "s", other)
        remote.row_norm(3)
    with pytest.raises(fa.errors.StoreError, match="connect with another"):
        remote.row_norm(3)
    with pytest.raises(fa.errors.InvalidInputError, match="client is closed"):
        fa.dask.connect(tmp_path / "s", other)


def test_an_array_on_workers_is_processed_there(client):
    A = matrix()
    X = da.from_array(A, chunks=(1500, 20)).persist()
    model, twin = (fa.SeparableNMF(5, random_state=0).fit(each) for each in (X, A))
    assert model.anchors_.tolist() == twin.anchors_.tolist()
    # Points are refined by a likelihood in single precision, whose sums depend on the blocks of the rows.
    np.testing.assert_allclose(model.transform(X).compute(), twin.transform(A), rtol=0, atol=1e-6)


@pytest.mark.parametrize("sidecars", [None, ()])
def test_a_storage_that_workers_do_not_share_is_one_error(client, tmp_path, monkeypatch, sidecars):
    monkeypatch.setenv("FASTANCHORS_CACHE", str(tmp_path / "cache"))
    address = "memory://bucket/apart.store"
    with pytest.raises(fa.errors.StoreError, match="do not share this storage"):
        fa.build(da.from_array(matrix(400), chunks=(100, 20)), address, sidecars=sidecars)
    with pytest.raises(fa.errors.StoreError, match="is not a store"):
        fa.open(address)


def test_a_worker_killed_during_a_build(client, tmp_path):
    before = pids(client)
    A = matrix()
    X = da.from_array(A, chunks=(1500, 20))
    flag = tmp_path / "flag"
    S = fa.build(X, tmp_path / "killed", sidecars=[Deadly(flag)])
    assert flag.exists()
    wait_for_workers(client)
    assert not before <= pids(client)  # one of them is gone
    fa.build(X, tmp_path / "calm", sidecars=[Deadly(flag)])
    assert files(tmp_path / "killed") == files(tmp_path / "calm")
    np.testing.assert_allclose(S.rows(np.arange(6000)) @ np.ones(20), 1.0)
    fa.verify(tmp_path / "killed")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["calm", "flag", "killed"]


def _deadly_bounds(flag):
    """Let this worker die at the next request for bounds."""
    from fastanchors.fas.bounds import Sketch

    scan = Sketch.scan

    def deadly(self, *arguments):
        die_once(flag)
        return scan(self, *arguments)

    Sketch.scan = deadly


@pytest.mark.parametrize("extras", [None, ()])
def test_a_worker_killed_during_a_seek(client, tmp_path, extras, monkeypatch):
    """Another worker takes over its shards and their sketches."""
    fa.build(da.from_array(matrix(), chunks=(1500, 20)), tmp_path / "s", sidecars=extras)
    for kind in (Store, RemoteStore):
        monkeypatch.setattr(kind, "sidecar_arrays", lambda store, name: None)
    expected = fa.FAS(selection="spa").seek(fa.dask.connect(tmp_path / "s"), 6, rng=2)
    before = pids(client)
    flag = tmp_path / "flag"
    client.run(_deadly_bounds, str(flag))
    found = fa.FAS(selection="spa").seek(fa.dask.connect(tmp_path / "s"), 6, rng=2)
    assert flag.exists()
    assert found.indices.tolist() == expected.indices.tolist()
    assert found.certificate.statement == expected.certificate.statement
    deadline = time.monotonic() + 60
    while before <= pids(client) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not before <= pids(client)
