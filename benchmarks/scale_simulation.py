"""Rounds of questions to 1, 10 and 100 simulated workers: what Dask's scheduler adds to the work.

    python benchmarks/scale_simulation.py
    python benchmarks/scale_simulation.py --quick

Workers are threads of this process and their work is sleep, so that one machine can hold a hundred of them. A round is
one question to all workers, as a seek asks some thirty of them; its work is shared equally. The peer is one task for
each of sixteen shards of a worker instead of one task for each worker.
"""

from __future__ import annotations

import logging
import time

from distributed import Client, LocalCluster

from _table import Report, arguments
from fastanchors.dask.tasks import Pool

SHARDS = 16  # of each worker


def work(part, seconds):
    """What a worker does: nothing, for so long."""
    time.sleep(seconds)


def rounds(pool, tasks, count, seconds):
    """Seconds of a round with so many tasks, each of which sleeps so long."""
    pool.each("work", work, range(tasks), None, (0.0,))
    start = time.perf_counter()
    for _ in range(count):
        pool.each("work", work, range(tasks), None, (seconds,))
    return (time.perf_counter() - start) / count


def main():
    options = arguments(__doc__)
    count, total = (2, 2.0) if options.quick else (10, 20.0)
    report = Report("scale_simulation", "Rounds on simulated workers", options, ("dask", "distributed"))
    report.text(f"Each round is {total:.0f} s of work, shared equally; mean of {count} rounds.")
    found = []
    for workers in (1, 10, 100):
        cluster = LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=False, dashboard_address=None, silence_logs=logging.ERROR
        )
        with cluster, Client(cluster) as client:
            pool = Pool(client)
            ideal = total / workers
            one = rounds(pool, workers, count if workers > 1 else 1, ideal)
            many = rounds(pool, SHARDS * workers, count if workers > 1 else 1, ideal / SHARDS)
            per_task = 1000 * (one - ideal) / workers
            found.append((workers, ideal, one, one - ideal, per_task, many, many - ideal))
    report.table(
        (
            "workers",
            "work of a worker, s",
            "round, a task per worker, s",
            "added, s",
            "added per task, ms",
            f"round, {SHARDS} tasks per worker, s",
            "added, s",
        ),
        found,
    )
    report.save()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
