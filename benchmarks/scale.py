"""Benchmark build, seek and encode on local Dask clusters of 1 and 2 processes: speed-up, bytes moved, equal results.

    python benchmarks/scale.py            # 1,000,000 × 200 of single precision in 20 blocks, and four times the rows
    python benchmarks/scale.py --quick

Each process has one thread. Both clusters run all the time and take turns; the best of the repeats is reported, because
the first calls in a new worker are slower. Blocks are made on the workers, so that sending an array is not measured.
The peer is ``fa.build`` in this process with two threads; controls without Dask show what the machine allows. All
constants of the model in ``docs/scale.md`` are measured here, and the model is evaluated with them.
"""

from __future__ import annotations

import logging
import math
import tempfile
import time
from pathlib import Path

import dask
import dask.array as da
from distributed import Client, LocalCluster, wait

import fastanchors as fa
from _scale_model import PAPER, RANK, batches, by_question, constants, counts, cpu, lazy_matrix, model, timed
from _scale_plain import PlainProcesses
from _table import Report, arguments
from fastanchors._parallel import use_threads
from fastanchors.dask.remote_store import RemoteStore
from fastanchors.dask.tasks import Pool, on_blocks
from fastanchors.greedy.summary import summarise

LONG = {"control: making the blocks": 2, "build": 3} | {
    f"{step}, four times the rows": 2
    for step in ("build", "seek without an index", "noise-aware coordinates", "encode")
}  # steps that are repeated less often


def loop(which):
    """Pure computation, to measure the speed-up that the machine itself allows."""
    return sum(range(10_000_000 + which))


def same_files(a, b):
    """Whether the files of two stores are equal byte for byte."""
    return contents(a) == contents(b)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def fresh_seek(store):
    """A seek that builds its index again, from the sketches if the store has them, else in a pass."""
    read = RemoteStore.sidecar_arrays
    RemoteStore.sidecar_arrays = lambda store, name: None
    try:
        return fa.FAS(selection="spa").seek(store, RANK, rng=0)
    finally:
        RemoteStore.sidecar_arrays = read


class OnCluster:
    """The steps on a cluster of ``processes`` processes, with the best time of each."""

    def __init__(self, processes, X, larger, folder):
        self.cluster = LocalCluster(
            n_workers=processes, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.ERROR
        )
        self.client = Client(self.cluster, set_as_default=False)
        self.X, self.X4, self.path, self.larger = X, larger, folder / f"p{processes}", folder / "larger"
        self.seconds, self.busy, self.found = {}, {}, {"log": []}
        with self.client.as_current(), dask.config.set(scheduler=self.client):
            warm_up(folder / f"warm-{processes}")
            fa.build(X, self.path.with_suffix(".bare"), sidecars=())

    def build_larger(self):
        """Build the larger store that both clusters read."""
        with self.client.as_current(), dask.config.set(scheduler=self.client):
            fa.build(self.X4, self.larger, sidecars=()).close()

    def steps(self):
        """Name and task of every step, in order."""
        found = self.found

        def build():
            found["log"] = []
            with batches(found["log"]):
                found["built"] = fa.build(self.X, self.path, overwrite=True)

        def connect():
            self.remote = fa.dask.connect(self.path)

        def encode(store):
            """Leave the weights on the workers, as if they were to be written from there."""
            wait(fa.encode(store.to_dask(), self.remote.rows(found["kept"].indices)).persist())

        return {
            "control: a loop, 8 tasks": lambda: dask.compute(*(dask.delayed(loop)(i) for i in range(8))),
            "control: making the blocks": lambda: self.X.sum().compute(),
            "build": build,
            "connect": connect,
            "seek, index kept": lambda: found.update(kept=fa.FAS(selection="spa").seek(self.remote, RANK, rng=0)),
            "seek without an index": lambda: found.update({"pass": fresh_seek(self.bare)}),
            "noise-aware coordinates": lambda: summarise(self.bare),
            "encode": lambda: encode(self.remote),
            "build, four times the rows": lambda: fa.build(self.X4, self.path.with_suffix(".built"), overwrite=True),
            "seek without an index, four times the rows": lambda: fresh_seek(self.large),
            "noise-aware coordinates, four times the rows": lambda: summarise(self.large),
            "encode, four times the rows": lambda: encode(self.large),
        }

    def measure(self, name):
        """Run one step once: seconds, and processor time of this process plus the busiest worker."""
        with self.client.as_current(), dask.config.set(scheduler=self.client):
            self.bare = fa.dask.connect(self.path.with_suffix(".bare"))  # again: it caches earlier results
            self.large = fa.dask.connect(self.larger)
            step, before, here = self.steps()[name], self.client.run(time.process_time), time.process_time()
            _, seconds = timed(step)
            here, after = time.process_time() - here, self.client.run(time.process_time)
        busiest = max(after[worker] - before[worker] for worker in before)
        self.busy[name] = min((here + busiest, here), self.busy.get(name, (math.inf, 0)))
        self.seconds[name] = min(seconds, self.seconds.get(name, seconds))

    def scheduler(self, count=1000):
        """Processor seconds of this process (Dask client and scheduler) per empty task and per empty message."""
        with self.client.as_current(), dask.config.set(scheduler=self.client):
            X, parts = da.zeros((count, 1), chunks=(1, 1)), fa.dask.connect(self.path)._parts
            tasks = list(on_blocks("nothing", nothing, X, [()] * count, ()).to_delayed().reshape(-1))
            per_task = min(cpu(lambda: Pool().compute(tasks))[1] for _ in range(2)) / count
            _, asking = cpu(lambda: [parts.each("nothing", nothing) for _ in range(100)])
            return per_task, asking / 100 / (len(parts.starts) - 1)

    def close(self):
        self.client.close()
        self.cluster.close()


def nothing(part):
    return None


def warm_up(path):
    """Compile every kernel that is used later, in every worker."""
    X = lazy_matrix(4, 20_000, 200)
    fa.build(X, path)
    remote = fa.dask.connect(path)
    C = remote.rows(fresh_seek(remote).indices)
    summarise(remote)
    wait(fa.encode(remote.to_dask(), C).persist())


def main():
    options = arguments(__doc__, repeats={"type": int, "default": 5, "help": "times that each step is measured"})
    blocks, rows, columns = (4, 20_000, 200) if options.quick else (20, 50_000, 200)
    X, larger = lazy_matrix(blocks, rows, columns), lazy_matrix(4 * blocks, rows, columns)
    m, size = blocks * rows, 4 * blocks * rows * columns
    report = Report("scale", "Build, seek and encode on Dask", options, ("dask", "distributed"))
    report.text(f"Matrix: {m:,} × {columns}, float32, {size / 1e6:.0f} MB in {blocks} blocks; {RANK} anchors.")
    with tempfile.TemporaryDirectory() as place:
        measured = constants(Path(place))  # first, so that it determines the peak memory
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        clusters = one, two = [OnCluster(p, X, larger, folder) for p in (1, 2)]
        two.build_larger()
        here = []
        for name in one.steps():
            for _ in range(min(options.repeats, LONG.get(name, options.repeats))):
                for cluster in clusters:
                    cluster.measure(name)
                if name == "build":
                    with dask.config.set(scheduler="threads"), use_threads(2):
                        here.append(timed(lambda: fa.build(X, folder / "here", overwrite=True))[1])
        per_task, per_message = two.scheduler()
        for cluster in clusters:
            cluster.close()
        plain = PlainProcesses(folder / "p1.bare").measure(min(options.repeats, 3))
        expected = fa.FAS(selection="spa").seek(fa.open(folder / "here"), RANK, rng=0)
        report.table(
            ("step", "1 process, s", "2 processes, s", "speed-up", "by processor time", "client's processor time, s"),
            [
                *((step, a, b, a / b, c / d, None) for step, (a, b, c, d) in plain.items()),
                *(
                    (step, a, two.seconds[step], a / two.seconds[step], one.busy[step][0] / busy, client)
                    for (step, a), (busy, client) in zip(one.seconds.items(), two.busy.values(), strict=True)
                ),
            ],
        )
        report.text(
            "Processor time is that of this process, with Dask's scheduler in it (last column: for 2 processes), and "
            "of the busiest worker, one after the other: what other programs take from the machine is not in it, nor "
            "is waiting for the disk. Controls without Dask are plain processes that do the same with the same shards."
        )
        report.text(
            f"Building the same in this process with 2 threads: {min(here):.2f} s, so that 2 processes reach "
            f"{min(here) / two.seconds['build']:.2f} of its speed. Blocks are made anew in each build; shards are "
            "synced to disk in all of them."
        )
        report.table(
            (
                "what crosses between processes",
                "1 process, bytes",
                "2 processes, bytes",
                "matrix bytes, per byte",
            ),
            [
                (what, *(each.found[key].cost.bytes_moved for each in clusters), ratio(size, two.found[key]))
                for what, key in (("build", "built"), ("seek, index kept", "kept"), ("seek without an index", "pass"))
            ],
        )
        sought = [each.found[key] for each in clusters for key in ("kept", "pass")]
        same = {
            "stores of 1 process, 2 processes and threads, all files": same_files(folder / "p1", folder / "p2")
            and same_files(folder / "p1", folder / "here"),
            "anchors of every seek and of the local store": all(
                each.indices.tolist() == expected.indices.tolist() for each in sought
            ),
            "every certificate is exact": all(each.certificate.kind == "exact" for each in sought),
        }
        report.table(("equal", "holds"), [(what, "yes" if holds else "NO") for what, holds in same.items()])
        whole = sum(path.stat().st_size for path in (folder / "p1").glob("whole-*"))
        report.text(
            f"Encoding on one process: {m / one.seconds['encode']:,.0f} rows/s; the index takes {whole / 1e6:.1f} MB."
        )
        report.text("What a build with its index asks of 2 processes, in how many rounds:")
        asked = by_question(two.found["log"])
        report.table(("question", "rounds", "messages", "bytes", "rows named"), asked)
    measured |= counts(asked, m) | {
        "Dask's client and scheduler, ms of processor a task": 1000 * per_task,
        "the same, ms a message to one of two actors and back": 1000 * per_message,
    }
    report.text("Constants; those of one core by processor time, without waiting for the disk:")
    report.table(("constant", "value"), measured.items())
    report.text(f"The model of docs/scale.md, {PAPER} from these constants:")
    report.table(("step", "what it takes", "seconds"), model(measured))
    report.save()
    return 0 if all(same.values()) else 1


def ratio(size, found):
    return size / found.cost.bytes_moved if found.cost.bytes_moved else None


if __name__ == "__main__":
    raise SystemExit(main())
