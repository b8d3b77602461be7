"""Build, seek and encode on Dask clusters of 1 and 2 processes on this machine: speed-up, bytes moved, equal results.

    python benchmarks/scale.py            # 1,000,000 × 200 of single precision in 16 blocks
    python benchmarks/scale.py --quick

Each process has one thread. Both clusters are there all the time and take turns, and the best of the repeats counts.
Blocks are made on the workers, so that what is measured is the work on them and not the shipping of one array. The peer
is ``fa.build`` in this process with two threads. Every constant that the model of ``docs/scale.md`` uses is measured
here, and the model itself is worked out from them.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
import time
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

import fastanchors as fa
from _table import Report, arguments, peak_memory
from fastanchors._parallel import one_blas_thread, one_thread, use_threads
from fastanchors.dask.build import _Plan, _prepare, _write_block
from fastanchors.dask.parts import HeldParts, TaskParts
from fastanchors.dask.remote_store import RemoteStore
from fastanchors.dask.tasks import Pool, calls
from fastanchors.fas import sidecar as fas_store
from fastanchors.fas.bounds import Part, Sketch
from fastanchors.fas.coreset import Coreset
from fastanchors.fas.hull import mixtures
from fastanchors.greedy.summary import summarise
from fastanchors.matrix import ArrayMatrix, MeteredMatrix
from fastanchors.store.arrays_file import map_arrays
from fastanchors.store.shard_rows import shard_bytes

RANK = 10


def make_block(rows, columns, block):
    """Mixtures of the same ten profiles, a little noise; the pure ones are in the first block."""
    profiles = np.random.default_rng(0).dirichlet(np.full(columns, 0.1), RANK)
    rng = np.random.default_rng([1, block])
    weights = rng.dirichlet(np.full(RANK, 0.5), rows)
    if block == 0:
        weights[:RANK] = np.eye(RANK)
    return (weights @ profiles + 1e-5 * rng.random((rows, columns))).astype(np.float32)


def lazy_matrix(blocks, rows, columns):
    tasks = [dask.delayed(make_block)(rows, columns, b, dask_key_name=f"rows-{b}") for b in range(blocks)]
    return da.concatenate([da.from_delayed(task, (rows, columns), dtype=np.float32) for task in tasks])


def loop(which):
    """Nothing but computation: the speed-up that the machine itself has to give."""
    return sum(range(10_000_000 + which))


def timed(task):
    start = time.perf_counter()
    result = task()
    return result, time.perf_counter() - start


def same_files(a, b):
    """Whether two stores hold the same, byte by byte."""
    return contents(a) == contents(b)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@contextmanager
def batches(log):
    """Note every question to the workers: its name, how many were asked, the bytes that crossed, the rows named."""
    methods = [(HeldParts, "each"), (HeldParts, "keep"), (TaskParts, "each")]
    before = [getattr(kind, name) for kind, name in methods]

    def noting(method):
        def note(self, name, function, which=None, own=None, *rest):
            moved = self.cost.bytes_moved
            result = method(self, name, function, which, own, *rest)
            named = result if name == "suspects" else [x[1] for x in own] if name == "look" else []
            asked = len(self.starts) - 1 if which is None else len(which)
            log.append((name, asked, self.cost.bytes_moved - moved, sum(len(each) for each in named)))
            return result

        return note

    for (kind, name), method in zip(methods, before):
        setattr(kind, name, noting(method))
    try:
        yield
    finally:
        for (kind, name), method in zip(methods, before):
            setattr(kind, name, method)


def by_question(log):
    """(question, batches, tasks, bytes, rows) of such a log."""
    found = {}
    for name, *numbers in log:
        found[name] = [a + b for a, b in zip(found.get(name, [0] * 4), [1, *numbers], strict=True)]
    return [(name, *numbers) for name, numbers in found.items()]


def fresh_seek(store):
    """A seek that makes its index anew, from the sketches where the store has them, else in a pass."""
    read = RemoteStore.sidecar_arrays
    RemoteStore.sidecar_arrays = lambda store, name: None
    try:
        return fa.FAS(selection="spa").seek(store, RANK, rng=0)
    finally:
        RemoteStore.sidecar_arrays = read


class OnCluster:
    """The steps on a cluster of so many processes, each with the best of its times."""

    def __init__(self, processes, X, folder):
        self.cluster = LocalCluster(
            n_workers=processes, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.ERROR
        )
        self.client = Client(self.cluster, set_as_default=False)
        self.X, self.folder, self.path = X, folder, folder / f"p{processes}"
        self.seconds, self.busy, self.found = {}, {}, {"log": []}
        with self.client.as_current(), dask.config.set(scheduler=self.client):
            warm_up(folder / f"warm-{processes}")
            fa.build(X, self.path.with_suffix(".bare"), sidecars=())

    def steps(self):
        """Name and task of every step, in order."""
        found = self.found

        def build():
            found["log"] = []
            with batches(found["log"]):
                found["built"] = fa.build(self.X, self.path, overwrite=True)

        def connect():
            self.remote, self.bare = (fa.dask.connect(path) for path in (self.path, self.path.with_suffix(".bare")))

        def encode():
            return fa.encode(self.remote.to_dask(), self.remote.rows(found["kept"].indices)).sum().compute()

        return {
            "control: a loop, 8 tasks": lambda: dask.compute(*(dask.delayed(loop)(i) for i in range(8))),
            "control: making the blocks": lambda: self.X.sum().compute(),
            "build": build,
            "connect": connect,
            "seek, index kept": lambda: found.update(kept=fa.FAS(selection="spa").seek(self.remote, RANK, rng=0)),
            "seek without an index": lambda: found.update({"pass": fresh_seek(self.bare)}),
            "noise-aware coordinates": lambda: summarise(self.bare),
            "encode": encode,
        }

    def measure(self, name):
        """One step, once: seconds, and processor time of this process and of the busiest worker."""
        with self.client.as_current(), dask.config.set(scheduler=self.client):
            step, before, here = self.steps()[name], self.client.run(time.process_time), time.process_time()
            _, seconds = timed(step)
            here, after = time.process_time() - here, self.client.run(time.process_time)
        busy = here + max(after[worker] - before[worker] for worker in before)
        for kept, value in ((self.seconds, seconds), (self.busy, busy)):
            kept[name] = min(value, kept.get(name, value))

    def scheduler(self):
        """Seconds for a task that does nothing, of many, and for a question to all workers and back."""
        with self.client.as_current(), dask.config.set(scheduler=self.client):
            tasks = calls("nothing", nothing, [None] * 1000, [()] * 1000, ())
            per_task = min(timed(lambda: Pool().compute(tasks))[1] for _ in range(2)) / 1000
            parts = fa.dask.connect(self.path)._parts
            return per_task, min(timed(lambda: parts.each("nothing", nothing))[1] for _ in range(50))

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
    fa.encode(remote.to_dask(), C).sum().compute()


def main():
    options = arguments(__doc__, repeats={"type": int, "default": 3, "help": "times that each step is measured"})
    blocks, rows, columns = (4, 20_000, 200) if options.quick else (16, 62_500, 200)
    X = lazy_matrix(blocks, rows, columns)
    m, size = blocks * rows, 4 * blocks * rows * columns
    report = Report("scale", "Build, seek and encode on Dask", options, ("dask", "distributed"))
    report.text(f"Matrix: {m:,} × {columns}, float32, {size / 1e6:.0f} MB in {blocks} blocks; {RANK} anchors.")
    with tempfile.TemporaryDirectory() as place:
        measured = constants(Path(place))  # first, so that the peak of memory is its own
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        clusters = one, two = [OnCluster(p, X, folder) for p in (1, 2)]
        here = []
        for name in one.steps():
            for _ in range(options.repeats):
                for cluster in clusters:
                    cluster.measure(name)
                if name == "build":
                    with dask.config.set(scheduler="threads"), use_threads(2):
                        here.append(timed(lambda: fa.build(X, folder / "here", overwrite=True))[1])
        per_task, per_question = two.scheduler()
        for cluster in clusters:
            cluster.close()
        expected = fa.FAS(selection="spa").seek(fa.open(folder / "here"), RANK, rng=0)
        report.table(
            ("step", "1 process, s", "2 processes, s", "speed-up", "by processor time"),
            [
                (step, a, two.seconds[step], a / two.seconds[step], one.busy[step] / two.busy[step])
                for step, a in one.seconds.items()
            ],
        )
        report.text(
            "Processor time is that of this process, with Dask's scheduler in it, and of the busiest worker, one after "
            "the other: what other programs take from the machine is not in it, nor is waiting for the disk."
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
        "Dask's scheduler and two idle processes, ms a task": 1000 * per_task,
        "a question to two workers and back, ms": 1000 * per_question,
    }
    report.text("Constants; those of one core by processor time, without waiting for the disk:")
    report.table(("constant", "value"), measured.items())
    report.text(f"The model of docs/scale.md, {PAPER} from these constants:")
    report.table(("step", "what it takes", "seconds"), model(measured))
    report.save()
    return 0 if all(same.values()) else 1


def constants(folder):
    """Of one core, by its processor time: what the model of the documentation is made of."""
    rows = np.repeat(make_block(25_000, 200, 0), 12, axis=0)
    plan = _Plan(str(folder), "l1", True, 1 << 40, "the block", rows.shape[1], False, False)
    with one_thread(), one_blas_thread():
        head = _prepare(rows[:3000], plan, [fas_store.FasSidecar()])
        task = head._replace(shared={})
        _write_block(rows[:3000], 0, 0, 3000, None, plan, task)
        held = resident()
        shard, making = cpu(lambda: _write_block(rows, 1, 0, len(rows), None, plan, task)[0])
        memory = (peak_memory() - held) / rows.nbytes + 1
        arrays = map_arrays(folder, shard.extras["fas"])
        V = head.shared["fas"]["V"]
        sketch = Sketch(V, [Part(0, *(np.asarray(arrays[name]) for name in ("coordinates", "left", "norms")))])
        some = MeteredMatrix(ArrayMatrix(rows[:3000]))
        run = Coreset.read(some, np.arange(3000)).run(32)
        sketch.scan(run.thresholds, sketch.marks(), 33)
        points = np.asarray(rows[run.indices], dtype=np.float64)
        mixtures(sketch, points[:RANK], sketch.marks(), 257)
        _, mixing = cpu(lambda: mixtures(sketch, points[:RANK], sketch.marks(), 257))
        _, looking = cpu(lambda: sketch.scan(run.thresholds, sketch.marks(), 33))
        _, sketching = cpu(lambda: Sketch.of(MeteredMatrix(ArrayMatrix(rows)), V))
    m = len(rows)
    return {
        "making a shard and its sketch, MB/s of rows": rows.nbytes / making / 1e6,
        "memory of that task, bytes per byte of the block (at most)": memory,
        "shard, bytes a row": shard.data["bytes"] / m,
        f"sketch of {V.shape[1]} dimensions, bytes a row": shard.extras["fas"]["bytes"] / m,
        "record in the manifest, bytes": len(json.dumps(asdict(shard), indent=1)),
        "sketching in a pass, million rows/s": m / sketching / 1e6,
        "a look at a sketch for 32 anchors, million rows/s": m / looking / 1e6,
        "a look at mixtures of 10 anchors, million rows/s": m / mixing / 1e6,
        "a rename on this disk, ms": renaming(folder),
    }


def renaming(folder, files=1000):
    for i in range(files):
        (folder / f"rename-{i}").touch()
    _, seconds = timed(lambda: [os.replace(folder / f"rename-{i}", folder / f"renamed-{i}") for i in range(files)])
    return 1000 * seconds / files


def counts(asked, m):
    """What the model takes from the batches of a build."""
    found = {name: (batches, rows) for name, batches, _, _, rows in asked}
    looks = sum(found.get(name, (0, 0))[0] for name in ("bounds", "suspects"))
    return {
        "looks at bounds for an index": looks,
        "looks at mixtures for an index": found.get("mixtures", (0, 0))[0],
        "rounds of questions for an index": sum(found[name][0] for name in found if name not in ("prepare", "shard")),
        "rows near a threshold, %": 100 * found.get("suspects", (0, 0))[1] / m,
        "rows read again and checked exactly, %": 100 * found.get("look", (0, 0))[1] / m,
    }


# --- the model -------------------------------------------------------------------------------------------------------

ROWS, COLUMNS, MACHINES, CORES = 10**10, 200, 100, 16
BLOCK, LIMIT = 500e6, 7 * 10**9  # bytes of a block; the memory_limit, for which it is one shard
STORAGE, NETWORK = 1e9, 1.25e9  # bytes/s of each machine
RENAMING = 16
TASK, MESSAGE = 1e-3, 1e-3  # seconds of a busy scheduler; see benchmarks/scale_simulation.py
RENAME, SEEK = 1e-3, 1e-2  # seconds on shared storage: a rename, a row read alone
PAPER = f"{ROWS:.0e} rows of {COLUMNS} columns on {MACHINES} machines of {CORES} cores,"


def model(c):
    """(step, what it takes, seconds), nothing overlapping."""
    value = lambda start: next(v for k, v in c.items() if k.startswith(start))  # noqa: E731
    size, cores = 4 * ROWS * COLUMNS, MACHINES * CORES
    blocks, parts = size / BLOCK, MACHINES  # a task for each worker
    shard, sketch = ROWS * value("shard"), ROWS * value("sketch of")
    looks, mixes, steps = value("looks at bounds"), value("looks at mixtures"), value("rounds")
    manifest = blocks * value("record")
    largest = parts * 16 * (25 * 33 * looks + 33 * 257 * mixes)
    near = 8 * min(ROWS * value("rows near") / 100, 1 << 25)
    checked = min(ROWS * value("rows read again") / 100, LIMIT / (32 * COLUMNS))
    assert shard_bytes(LIMIT) >= BLOCK
    million = ROWS / cores / 1e6  # rows per core
    written = (shard + sketch) / MACHINES
    rows = [
        ("read the source", f"{size / MACHINES / 1e9:.0f} GB per machine", size / MACHINES / STORAGE),
        ("make shards and sketches", f"{size / cores / 1e9:.0f} GB per core", size / cores / value("making") / 1e6),
        ("write them", f"{written / 1e9:.0f} GB per machine", written / STORAGE),
        ("scheduler", f"{blocks:,.0f} tasks", blocks * TASK),
        ("renames by the client", f"{2 * blocks:,.0f} files, {RENAMING} at a time", 2 * blocks * RENAME / RENAMING),
        ("manifest", f"{manifest / 1e6:.0f} MB", manifest / STORAGE),
        ("read the sketches once", f"{sketch / MACHINES / 1e9:.0f} GB per machine", sketch / MACHINES / STORAGE),
        ("looks at bounds", f"{looks} · {million:.2f} million rows per core", looks * million / value("a look at a")),
        ("looks at mixtures", f"{mixes} · {million:.2f} million rows per core", mixes * million / value("a look at m")),
        ("questions to all workers", f"{steps} rounds of {parts:,} messages", steps * parts * MESSAGE),
        ("largest bounds and shares to the client", f"{largest / 1e9:.1f} GB", largest / NETWORK),
        ("numbers of rows near a threshold, there and back", f"{near / 1e9:.2f} GB", near / NETWORK),
        ("rows read again and checked", f"{checked:,.0f} rows over {MACHINES} machines", checked * SEEK / MACHINES),
    ]
    if sketch > shard / 10:  # then they serve the build alone
        rows.append(("removing the sketches", f"{blocks:,.0f} files", blocks * RENAME))
    return [*rows, ("**build, index included**", "", sum(seconds for *_, seconds in rows))]


def cpu(task):
    start = time.process_time()
    result = task()
    return result, time.process_time() - start


def resident():
    """Bytes this process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def ratio(size, found):
    return size / found.cost.bytes_moved if found.cost.bytes_moved else None


if __name__ == "__main__":
    raise SystemExit(main())
