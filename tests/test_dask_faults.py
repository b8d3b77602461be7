"""Faults on a cluster of processes: no partial result is visible, and there is at most one clear error."""

from __future__ import annotations

import errno
import logging
import multiprocessing
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster

import fastanchors as fa
from fastanchors.dask import parts
from fastanchors.dask.tasks import Pool
from fastanchors.store import Sidecar
from processes import die_once_at, exit_codes

A = np.random.default_rng(0).random((4000, 20))


@pytest.fixture(scope="module")
def cluster():
    """A cluster that waits for killed workers to come back: by default it gives them up after 15 seconds."""
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "300s"}),
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL) as made,
        Client(made) as client,
    ):
        yield client


@pytest.fixture
def client(cluster):
    """Both workers are there again if the test before has killed one."""
    cluster.wait_for_workers(2, timeout=120)
    return cluster


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
    """Wait to be killed, once; the flag tells who waits."""
    try:
        with open(flag, "x") as told:
            told.write(str(os.getpid()))
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


def _limit_files(size):
    """Let this process write no file beyond that size; returns the limit it had."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    return before[0]


def test_a_worker_that_cannot_write_its_shard(client, tmp_path):
    """The system itself stops the writing in the middle of a file."""
    one = next(iter(client.nthreads()))
    before = client.run(_limit_files, 50_000, workers=[one])[one]
    try:
        with pytest.raises(fa.errors.StoreError, match="cannot write"):
            fa.build(lazy(), tmp_path / "s")
    finally:
        client.run(_limit_files, before, workers=[one])
    assert left(tmp_path) == []
    fa.build(lazy(), tmp_path / "s").close()
    fa.verify(tmp_path / "s")


def test_a_worker_that_stands_still_during_a_seek(client, tmp_path, monkeypatch):
    """It is waited for, longer than the client looks for an answer before it asks whether the worker lives."""
    monkeypatch.setattr(parts, "_LOOK", 0.1)
    fa.build(A, tmp_path / "s", sidecars=()).close()
    expected = fa.FAS(selection="spa").seek(fa.open(tmp_path / "s"), 6, rng=0).indices.tolist()
    remote = fa.dask.connect(tmp_path / "s")
    pid = next(iter(client.run(os.getpid).values()))
    os.kill(pid, signal.SIGSTOP)
    waking = threading.Timer(1.0, os.kill, (pid, signal.SIGCONT))
    waking.start()
    start = time.monotonic()
    found = fa.FAS(selection="spa").seek(remote, 6, rng=0)
    assert time.monotonic() - start > 0.5
    waking.join()
    assert found.indices.tolist() == expected


def test_a_worker_killed_during_encode(client, tmp_path):
    fa.build(lazy(), tmp_path / "s", sidecars=()).close()
    remote, flag = fa.dask.connect(tmp_path / "s"), tmp_path / "flag"
    F = fa.encode(remote.to_dask().map_blocks(die_once_at, str(flag), meta=np.empty((0, 0))), A[:3])
    np.testing.assert_allclose(F.compute(), fa.encode(A / A.sum(axis=1, keepdims=True), A[:3]), atol=1e-12)
    assert flag.exists()


def die(block):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_block_that_kills_every_worker(client, tmp_path, monkeypatch):
    monkeypatch.setattr(client.cluster.scheduler, "allowed_failures", 0)
    with pytest.raises(fa.errors.StoreError, match="workers or their scheduler were lost"):
        fa.build(lazy().map_blocks(die, meta=np.empty((0, 0))), tmp_path / "s")
    assert left(tmp_path) == []
    fa.build(lazy(), tmp_path / "s").close()
    fa.verify(tmp_path / "s")


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
    arguments = (client.scheduler.address, str(tmp_path / "s"), str(flag))
    builder = spawn.Process(target=_build, args=arguments, daemon=True)
    builder.start()
    deadline = time.monotonic() + 60
    while not (flag.exists() and flag.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(builder.pid, signal.SIGKILL)
    builder.join()
    assert not (tmp_path / "s").exists()
    os.kill(int(flag.read_text()), signal.SIGKILL)  # the worker whose task sleeps
    fa.build(lazy(), tmp_path / "s").close()
    fa.verify(tmp_path / "s")
    assert left(tmp_path) == ["flag", "s"]  # the files of the dead build are removed


def test_two_clients_that_build_the_same_path(client, tmp_path):
    spawn = multiprocessing.get_context("spawn")
    path = str(tmp_path / "s")
    arguments = (client.scheduler.address, path, None)
    builders = [spawn.Process(target=_build, args=arguments, daemon=True) for _ in range(2)]
    assert exit_codes(builders) == [0, 3]
    assert fa.verify(path)["rows"] == 4000
    assert left(tmp_path) == ["s"]


def _ask(address, path):
    with Client(address, set_as_default=False) as client:
        fa.dask.connect(path, client).row_norm([0])


def test_a_client_that_is_not_the_default(client, tmp_path):
    """In a process of its own, where no other client can take its place."""
    fa.build(A, tmp_path / "s").close()
    arguments = (client.scheduler.address, str(tmp_path / "s"))
    asking = multiprocessing.get_context("spawn").Process(target=_ask, args=arguments, daemon=True)
    asking.start()
    asking.join(120)
    assert asking.exitcode == 0


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
    cluster = spawn.Process(target=_cluster, args=(there,), daemon=True)
    cluster.start()
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "5s", "distributed.comm.retry.count": 0}),
        Client(here.recv(), set_as_default=False) as client,
    ):
        remote = fa.dask.connect(tmp_path / "s", client)
        expected = remote.row_norm([0, 3]).tolist()
        cluster.kill()
        cluster.join()
        with pytest.raises(fa.errors.StoreError, match=r"lost|closed"):
            remote.row_norm([0, 3])
    assert fa.dask.connect(tmp_path / "s").row_norm([0, 3]).tolist() == expected


@contextmanager
def processes(*commands):
    """Commands of Dask, each in a process of its own that can import this module, killed at the end."""
    path = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    options = {"stderr": subprocess.DEVNULL, "env": {**os.environ, "PYTHONPATH": path}}
    made = [
        subprocess.Popen([sys.executable, "-m", f"distributed.cli.dask_{name}", *rest], **options)
        for name, *rest in commands
    ]
    try:
        yield made
    finally:
        for process in made:
            process.kill()
            process.wait()


def a_cluster(port):
    """The commands of a scheduler and a worker."""
    scheduler = ("scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard")
    worker = ("worker", f"tcp://127.0.0.1:{port}", "--nthreads", "1", "--no-dashboard", "--no-nanny")
    return scheduler, worker


def wait_here(block, flag):
    open(flag, "a").close()
    time.sleep(60)
    return block


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def test_no_worker_is_left(tmp_path, monkeypatch):
    """Dask waits for a worker as long as its scheduler is told to; then there is one error."""
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__NO_WORKERS_TIMEOUT", "1s")
    monkeypatch.setattr(parts, "_LOOK", 0.5)
    fa.build(A, tmp_path / "old").close()
    port = free_port()
    with processes(*a_cluster(port)) as (_, worker), Client(f"tcp://127.0.0.1:{port}", timeout=60) as client:
        client.wait_for_workers(1, timeout=60)
        remote = fa.dask.connect(tmp_path / "old")
        worker.kill()
        worker.wait()
        with pytest.raises(fa.errors.StoreError, match="lost"):
            remote.row_norm([0, 3999])
        with pytest.raises(fa.errors.StoreError, match="lost"):
            fa.build(lazy(), tmp_path / "new")
    assert left(tmp_path) == ["old"]


def test_a_scheduler_that_is_restarted(tmp_path, monkeypatch):
    """A build in the middle of it ends with one error; a connected store is asked again, of the new workers."""
    port = free_port()
    monkeypatch.setattr(parts, "_LOOK", 0.5)
    fa.build(A, tmp_path / "old").close()
    flag = tmp_path / "flag"
    X = lazy().map_blocks(wait_here, str(flag), meta=np.empty((0, 0)))
    with processes(*a_cluster(port)) as first, Client(f"tcp://127.0.0.1:{port}", timeout=60) as client:
        remote = fa.dask.connect(tmp_path / "old")
        expected = remote.row_norm([0, 3999]).tolist()

        def kill():
            deadline = time.monotonic() + 60
            while not flag.exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            for process in first:
                process.kill()
                process.wait()

        killing = threading.Thread(target=kill)
        killing.start()
        with pytest.raises(fa.errors.StoreError, match="workers or their scheduler were lost"):
            fa.build(X, tmp_path / "new")
        killing.join()
        assert left(tmp_path) == ["flag", "old"]
        scheduler, worker = a_cluster(port)
        with processes(scheduler):
            deadline = time.monotonic() + 60
            while client.status != "running" and time.monotonic() < deadline:
                time.sleep(0.1)
            # Asked for an actor on a worker that is gone, while there is no other: Dask alone would wait for ever.
            gone = remote._parts._handles[0]._worker
            alive = Pool.workers
            seen = iter([{gone: 1}])
            monkeypatch.setattr(Pool, "workers", lambda pool: next(seen, None) or alive(pool))
            starting = threading.Timer(1.0, lambda: second.enter_context(processes(worker)))
            with ExitStack() as second:
                starting.start()
                assert remote.row_norm([0, 3999]).tolist() == expected
                starting.join()
                fa.build(lazy(), tmp_path / "new").close()
    fa.verify(tmp_path / "new")
