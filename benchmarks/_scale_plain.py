"""The work of ``scale.py`` in plain processes without Dask: the speed-up that the machine itself allows."""

from __future__ import annotations

import multiprocessing
import time
from itertools import pairwise

import dask
import numpy as np

import fastanchors as fa
from fastanchors._parallel import one_blas_thread, one_thread
from fastanchors.dask.matrix import DaskMatrix
from fastanchors.dask.sketches import sketched
from fastanchors.encoder import AnchorSystem
from fastanchors.greedy.summary import summarise
from fastanchors.store.shard_group import ShardGroup
from fastanchors.store.storage import storage_of

SKETCH = 24  # dimensions


def encoding(store, low, high, C):
    """Encode the shards one by one, as tasks do."""
    for shard in range(low, high):
        rows = store(shard, shard + 1)
        AnchorSystem(C, False).solve(0, rows.rows(np.arange(rows.shape[0])))


def sketching(store, low, high, V):
    sketched(store(low, high), V)


def summarising(store, low, high, starts, function, shared):
    function(store(low, high), starts[low], *shared)


def run(work, path, low, high, arguments):
    """Run some work on shards ``low`` to ``high`` − 1 in this process; returns its processor seconds."""
    storage = storage_of(path)
    manifest = storage.manifest()
    start = time.process_time()
    with one_thread(), one_blas_thread():
        work(lambda low, high: ShardGroup.of(storage, manifest, low, high).open(), low, high, *arguments)
    return time.process_time() - start


class PlainProcesses:
    """The steps on 1 and on 2 processes of a pool, with the best clock and processor time of each."""

    def __init__(self, path):
        self.path, self.shards = path, storage_of(path).manifest().shards
        starts = np.cumsum([0, *(shard.rows for shard in self.shards)]).tolist()
        with dask.config.set(scheduler="threads"):
            store = fa.dask.connect(path)
            C = np.asarray(store.rows(np.arange(10)), dtype=np.float64)
            V, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((store.shape[1], SKETCH)))
            self.work = {
                "control: sketching alone, no Dask": (sketching, (V,)),
                "control: the pass for coordinates alone, no Dask": (summarising, (starts, *pass_of(store))),
                "control: encoding alone, no Dask": (encoding, (C,)),
            }

    def measure(self, repeats):
        """name → (seconds of 1 process, of 2, processor seconds of 1, of the busier of 2)."""
        found = {name: np.full(4, np.inf) for name in self.work}
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            for name, (work, arguments) in [*self.work.items()] * (repeats + 1):  # the first compiles the kernels
                for at, processes in enumerate((1, 2)):
                    bounds = [len(self.shards) * p // processes for p in range(processes + 1)]
                    jobs = [(work, self.path, low, high, arguments) for low, high in pairwise(bounds)]
                    start = time.perf_counter()
                    busy = max(pool.starmap(run, jobs, chunksize=1))
                    seconds = time.perf_counter() - start
                    found[name][[at, 2 + at]] = np.minimum(found[name][[at, 2 + at]], (seconds, busy))
        return found


def pass_of(store):
    """The function that noise-aware coordinates apply to each part, and its arguments."""
    asked = []
    each = DaskMatrix.map_parts

    def noting(self, function, *shared):
        asked.append((function, shared))
        return each(self, function, *shared)

    DaskMatrix.map_parts = noting
    try:
        summarise(store)
    finally:
        DaskMatrix.map_parts = each
    return asked[0]
