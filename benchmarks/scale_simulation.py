"""Simulate a build with its index on 1, 10 and 100 workers: growth of rounds, messages and tasks, and Dask's overhead.

    python benchmarks/scale_simulation.py
    python benchmarks/scale_simulation.py --quick

Workers are threads of this process and their work is sleep, so that one machine can run a hundred of them. Every
worker has as many rows as each of the hundred machines of ``docs/scale.md``. The work per worker is constant, so any
increase comes from Dask. The questions, their order and the bytes of their answers are those of a real build. Their
durations follow from the constants of ``benchmarks/results/scale.md``, scaled down.

Because work is sleep, the processor time of this process is that of Dask: client, scheduler and all workers in one
interpreter. The cost per message and per task is therefore an upper bound for a scheduler in its own process.
"""

from __future__ import annotations

import logging
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

import fastanchors as fa
from _scale_model import BLOCK, COLUMNS, CORES, MACHINES, ROWS, STORAGE, batches, lazy_matrix, stored_constants
from _table import Report, arguments
from fastanchors.dask.parts import HeldParts
from fastanchors.dask.tasks import Pool, on_blocks

FASTER = 50  # than the real work
EACH = ROWS // MACHINES  # rows per worker
TASKS = 4 * ROWS * COLUMNS / BLOCK  # blocks of the whole matrix
TOGETHER = ("rows", "_drawn")  # answers of fixed total size, shared among the workers
CONSTANTS = stored_constants()
LOOKS = 1e6 * CONSTANTS["a look at a sketch for 32 anchors, million rows/s"]
MIXES = 1e6 * CONSTANTS["a look at mixtures of 10 anchors, million rows/s"]
RATES = {"bounds": LOOKS, "suspects": LOOKS, "mixtures": MIXES, "part-look": 0.24e6}  # rows/s per core
SPEED = 1e6 * CONSTANTS["making a shard and its sketch, MB/s of rows"]
WRITTEN = (CONSTANTS["shard, bytes a row"] + CONSTANTS["sketch of 24 dimensions, bytes a row"]) / (4 * COLUMNS)
MAKING = 1 / STORAGE + 1 / SPEED / CORES + WRITTEN / STORAGE  # seconds per byte on a machine: read, make and write

# A hundred workers in one process would each monitor the memory of all, pause, and collect garbage all the time;
# profilers of their stacks and of the system would use most of the interpreter.
QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.admin.tick.interval": "1s",
}


class Nothing:
    """A part without rows."""

    def open(self):
        return self


def answer(part, seconds, size):
    """The work of a worker: sleep for ``seconds``."""
    time.sleep(seconds)
    return np.zeros(size, np.uint8)


def questions():
    """(name, real seconds, bytes of an answer) for each question of a build in this process, as to one worker."""
    log, sizes = [], []
    count = Pool.count

    def counting(self, *moved):
        sizes.append(sum(getattr(each, "nbytes", 0) for each in flat(moved[-1])))
        count(self, *moved)

    Pool.count = counting
    try:
        with tempfile.TemporaryDirectory() as place, dask.config.set(scheduler="threads"), batches(log):
            fa.build(lazy_matrix(4, 20_000, COLUMNS), Path(place) / "s")
    finally:
        Pool.count = count
    return [
        (name, EACH / CORES / RATES[name] if name in RATES else 0.0, size)
        for (name, *_), size in zip(log, sizes, strict=True)
        if name not in ("prepare", "shard")
    ]


def flat(answers):
    """The arrays in nested tuples and lists."""
    for each in answers:
        if isinstance(each, (tuple, list)):
            yield from flat(each)
        else:
            yield each


class Took(NamedTuple):
    """Elapsed seconds, and processor seconds (used by Dask)."""

    seconds: float
    processor: float


def took(step):
    start, processor = time.perf_counter(), time.process_time()
    step()
    return Took(time.perf_counter() - start, time.process_time() - processor)


def simulate(workers, asked, blocks):
    """The time of all rounds, and of the tasks that write shards."""
    options = {"n_workers": workers, "threads_per_worker": 1, "processes": False, "memory_limit": 0}
    with (
        dask.config.set(QUIET),
        LocalCluster(**options, dashboard_address=None, silence_logs=logging.ERROR) as cluster,
        Client(cluster) as client,
    ):
        pool = Pool(client)
        parts = HeldParts.of(pool, [EACH * w for w in range(workers + 1)], [Nothing()] * workers)

        def rounds():
            for name, seconds, size in asked:
                size = size // workers if name in TOGETHER else size
                parts.each(name, answer, None, None, (seconds / FASTER, size))

        def tasks():
            count = blocks * workers
            X = da.zeros((count, 1), chunks=(1, 1))
            asked = on_blocks("shard", answer, X, [()] * count, (BLOCK * MAKING / FASTER, 2_400))
            pool.compute(list(asked.to_delayed().reshape(-1)))

        parts.each("first", answer, None, None, (0.0, 0))  # starts the actors
        return took(rounds), took(tasks)


def simulation(report, sizes, blocks):
    """Add the tables to a report; returns Dask's seconds per message and per task with the most workers."""
    asked = questions()
    work = sum(seconds for _, seconds, _ in asked)
    report.text(
        f"A build on simulated workers. Each has {EACH:,} rows, and works {FASTER} times as fast as the constants say. "
        f"An index takes {len(asked)} rounds, in each of which every worker gets one message; a worker works "
        f"{work / FASTER:.2f} s for them. It writes {blocks} blocks instead of {TASKS / MACHINES:.0f}, each in "
        f"{BLOCK * MAKING / FASTER:.3f} s, {blocks * BLOCK * MAKING / FASTER:.2f} s together."
    )
    found = {workers: simulate(workers, asked, blocks) for workers in sizes}
    report.table(
        (
            "workers",
            "rounds",
            "messages",
            "all rounds, s",
            "Dask, ms of processor a message",
            "tasks",
            "all tasks, s",
            "Dask, ms of processor a task",
        ),
        [
            (
                workers,
                len(asked),
                len(asked) * workers,
                rounds.seconds,
                1000 * rounds.processor / len(asked) / workers,
                blocks * workers,
                tasks.seconds,
                1000 * tasks.processor / blocks / workers,
            )
            for workers, (rounds, tasks) in found.items()
        ],
    )
    workers, (rounds, tasks) = max(found.items())
    message, task = rounds.processor / len(asked) / workers, tasks.processor / blocks / workers
    scheduler = TASKS * task + len(asked) * MACHINES * message
    true = TASKS / MACHINES * BLOCK * MAKING + work
    report.text(
        f"With a message and a task as on {workers} workers, Dask would need {scheduler:.0f} s for the {TASKS:,.0f} "
        f"tasks and {len(asked)} rounds of {ROWS:.0e} rows on {MACHINES} machines, during which a worker works "
        f"{true:.0f} s: client, scheduler and workers share one interpreter here, so this is an upper bound."
    )
    return message, task


def main():
    options = arguments(__doc__)
    report = Report("scale_simulation", "A build on simulated workers", options, ("dask", "distributed"))
    simulation(report, *(((1, 10), 2) if options.quick else ((1, 10, 100), 16)))
    report.save()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
