"""Faults on a cluster of processes: no partial result is visible, and there is at most one clear error."""

from __future__ import annotations

import errno
import logging
import multiprocessing
import os
import signal
import time

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster

import fastanchors as fa
from fastanchors.store import Sidecar

A = np.random.default_rng(0).random((4000, 20))


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL) as made,
        Client(made) as client,
    ):
        yield client


def lazy():
    return da.from_array(A, chunks=(1000, 20))


class Trouble(Sidecar):
    """A sidecar that runs an action on the worker that makes the third shard."""

    name = "trouble"

    def __init__(self, what, *arguments):
        self.what, self.arguments = what, arguments

    @classmethod
    def load(cls, shared):
        raise NotImplementedError

    def begin(self, block):
        return {"none": np.zeros(1)}

    def add_block(self, block, first_row):
        if first_row == 2000:
            self.what(*self.arguments)
        return {"first": np.array([first_row])}


def full_disk():
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def slow(flag):
    open(flag, "x").close()
    time.sleep(2)


def stopped(flag):
    """Wait to be killed, once."""
    try:
        open(flag, "x").close()
    except FileExistsError:
        return
    time.sleep(60)


def left(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_full_disk_on_one_worker(client, tmp_path):
    with pytest.raises(fa.errors.StoreError, match="disk is full"):
        fa.build(lazy(), tmp_path / "s", sidecars=[Trouble(full_disk)])
    assert left(tmp_path) == []
    fa.build(lazy(), tmp_path / "s")  # the cluster goes on
    fa.verify(tmp_path / "s")


def test_a_slow_worker_is_waited_for(client, tmp_path):
    flag = tmp_path / "flag"
    S = fa.build(lazy(), tmp_path / "s", sidecars=[Trouble(slow, str(flag))])
    assert flag.exists()
    np.testing.assert_allclose(S.rows([2000]), A[[2000]] / A[2000].sum())
    assert left(tmp_path) == ["flag", "s"]


def _build(address, path, flag):
    """Build a store, as a client in a separate process."""
    with Client(address):
        try:
            fa.build(lazy(), path, sidecars=[Trouble(stopped, flag)] if flag else None).close()
        except fa.errors.StoreError as error:
            # Before it has begun, or just before the rename.
            told = ("exists already", "another build has created")
            os._exit(3 if any(words in str(error) for words in told) else 4)


def test_a_killed_client_leaves_no_visible_files(client, tmp_path):
    flag = tmp_path / "flag"
    spawn = multiprocessing.get_context("spawn")
    builder = spawn.Process(target=_build, args=(client.scheduler.address, str(tmp_path / "s"), str(flag)))
    builder.start()
    deadline = time.monotonic() + 60
    while not flag.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(builder.pid, signal.SIGKILL)
    builder.join()
    assert not (tmp_path / "s").exists()
    client.restart()  # the task that sleeps
    fa.build(lazy(), tmp_path / "s").close()
    fa.verify(tmp_path / "s")
    assert left(tmp_path) == ["flag", "s"]  # the files of the dead build are removed


def test_two_clients_that_build_the_same_path(client, tmp_path):
    spawn = multiprocessing.get_context("spawn")
    path = str(tmp_path / "s")
    builders = [spawn.Process(target=_build, args=(client.scheduler.address, path, None)) for _ in range(2)]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join(120)
    assert sorted(builder.exitcode for builder in builders) == [0, 3]
    assert fa.verify(path)["rows"] == 4000
    assert left(tmp_path) == ["s"]


def _cluster(pipe):
    options = {"processes": False, "protocol": "tcp://", "dashboard_address": None}
    with LocalCluster(n_workers=1, threads_per_worker=1, **options) as cluster:
        pipe.send(cluster.scheduler_address)
        time.sleep(300)


def test_a_killed_cluster(tmp_path):
    """Scheduler and worker run in a process that is killed: one error, and the store is usable by another cluster."""
    fa.build(A, tmp_path / "s").close()
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    cluster = spawn.Process(target=_cluster, args=(there,))
    cluster.start()
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "1s", "distributed.comm.retry.count": 0}),
        Client(here.recv(), set_as_default=False) as client,
    ):
        remote = fa.dask.connect(tmp_path / "s", client)
        expected = remote.row_norm([0, 3]).tolist()
        cluster.kill()
        cluster.join()
        with pytest.raises(fa.errors.StoreError, match=r"lost|closed"):
            remote.row_norm([0, 3])
    assert fa.dask.connect(tmp_path / "s").row_norm([0, 3]).tolist() == expected
