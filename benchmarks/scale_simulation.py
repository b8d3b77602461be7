"""A build with its index on 1, 10 and 100 simulated workers: how rounds, messages and tasks grow, and what Dask adds.

    python benchmarks/scale_simulation.py
    python benchmarks/scale_simulation.py --quick

Workers are threads of this process and their work is sleep, so that one machine can hold a hundred of them. Every
worker answers for as many rows as each of the hundred machines of ``docs/scale.md``, so the work of a worker stays the
same and whatever is added comes from Dask. The questions, their order and the bytes of their answers are those of a
real build; how long each would take follows from the constants of ``benchmarks/results/scale.md``, scaled down.
"""

from __future__ import annotations

import logging
import tempfile
import time
from pathlib import Path

import dask
from distributed import Client, LocalCluster

import fastanchors as fa
from _table import Report, arguments
from fastanchors.dask.parts import HeldParts
from fastanchors.dask.tasks import Pool, calls
from scale import BLOCK, COLUMNS, CORES, MACHINES, ROWS, batches, lazy_matrix

FASTER = 20  # than the true work
EACH = ROWS // MACHINES  # rows of a worker
RATES = {"bounds": 1.78e6, "suspects": 1.78e6, "mixtures": 7.49e6, "part-look": 0.24e6}  # rows/s of a core
MAKING = 1.0 / 1e9 + 1.0 / 330e6 / CORES + 1.55 / 1e9  # seconds a byte and machine: read, make and write a shard


class Nothing:
    """A part without rows."""

    def open(self):
        return self


def answer(part, seconds, size):
    """What a worker does: nothing, for so long."""
    time.sleep(seconds)
    return bytes(size)


def questions():
    """(name, true seconds, bytes of an answer) of a build in this process, which is asked as one worker is."""
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


def simulate(workers, asked, blocks):
    """Seconds of the rounds, of the tasks that write shards, and of as many tasks that do nothing."""
    cluster = LocalCluster(
        n_workers=workers, threads_per_worker=1, processes=False, dashboard_address=None, silence_logs=logging.ERROR
    )
    with cluster, Client(cluster) as client:
        pool = Pool(client)
        parts = HeldParts(pool, [Nothing()] * workers, [EACH * w for w in range(workers + 1)])
        parts.each("first", answer, None, None, (0.0, 0))
        start = time.perf_counter()
        for name, seconds, size in asked:
            parts.each(name, answer, None, None, (seconds / FASTER, size))
        rounds = time.perf_counter() - start
        idle = timed_tasks(pool, blocks * workers, 0.0)
        work = timed_tasks(pool, blocks * workers, BLOCK * MAKING / FASTER)
    return rounds, work, idle


def timed_tasks(pool, count, seconds):
    tasks = calls("shard", answer, [None] * count, [()] * count, (seconds, 2_400))
    start = time.perf_counter()
    pool.compute(tasks)
    return time.perf_counter() - start


def main():
    options = arguments(__doc__)
    asked, blocks = questions(), 2 if options.quick else 16
    true_blocks = 4 * ROWS * COLUMNS / BLOCK
    ideal, task = sum(seconds for _, seconds, _ in asked) / FASTER, BLOCK * MAKING / FASTER
    report = Report("scale_simulation", "A build on simulated workers", options, ("dask", "distributed"))
    report.text(
        f"Each worker has {EACH:,} rows, and works {FASTER} times as fast as the constants say. An index takes "
        f"{len(asked)} rounds, in each of which every worker gets one message; a worker works {ideal:.2f} s for them. "
        f"It writes {blocks} blocks instead of {true_blocks / MACHINES:.0f}, each in {task:.3f} s."
    )
    rows, found = [], {}
    for workers in (1, 10) if options.quick else (1, 10, 100):
        rounds, work, idle = found[workers] = simulate(workers, asked, blocks)
        count = blocks * workers
        rows.append(
            (
                workers,
                len(asked),
                len(asked) * workers,
                rounds,
                1000 * (rounds - ideal) / len(asked) / workers,
                count,
                work,
                work / (blocks * task),
                1000 * idle / count,
            )
        )
    report.table(
        (
            "workers",
            "rounds",
            "messages",
            "all rounds, s",
            "added per message, ms",
            "tasks",
            "all tasks, s",
            "times the work",
            "a task without work, ms",
        ),
        rows,
    )
    workers = max(found)
    rounds, _, idle = found[workers]
    tasks_seconds, rounds_seconds = true_blocks * idle / blocks / workers, rounds - ideal
    report.text(
        f"At {ROWS:.0e} rows on {MACHINES} machines Dask would so take {tasks_seconds:.1f} s for {true_blocks:,.0f} "
        f"tasks, most of it while workers work, and {rounds_seconds:.1f} s for the rounds; measured on {workers}."
    )
    report.save()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
