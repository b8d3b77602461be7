"""Build and seek on a Dask cluster of 1 and of 2 processes on this machine: speed-up, bytes moved, equal results.

    python benchmarks/scale.py            # 400,000 × 200 of single precision in 16 blocks
    python benchmarks/scale.py --quick

Blocks are made on the workers, so that what is measured is the work on them and not the shipping of one array. The peer
is ``fa.build`` and ``FAS().seek`` in this process with all its threads. Every constant that the model of
``docs/scale.md`` uses is measured here, and the model itself is worked out from them.
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
from fastanchors._parallel import one_blas_thread, one_thread
from fastanchors.dask.build import _Plan, _prepare, _write_block
from fastanchors.dask.remote_store import RemoteStore
from fastanchors.dask.tasks import Pool
from fastanchors.fas import sidecar as fas_store
from fastanchors.fas.bounds import Part, Sketch
from fastanchors.fas.coreset import Coreset
from fastanchors.fas.hull import mixtures
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
    """Note every batch of tasks: its name, how many tasks, the bytes that crossed, the rows that were named."""
    each, keep = Pool.each, Pool.keep

    def noting(method):
        def note(self, name, function, parts, own=None, shared=(), **options):
            before = self.cost.bytes_moved
            result = method(self, name, function, parts, own, shared, **options)
            named = result if name == "suspects" else [x[1] for x in own] if name == "look" else []
            rows = sum(len(each) for each in named)
            log.append((name, len(parts), self.cost.bytes_moved - before, rows))
            return result

        return note

    Pool.each, Pool.keep = noting(each), noting(keep)
    try:
        yield
    finally:
        Pool.each, Pool.keep = each, keep


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


def on_cluster(processes, X, folder, name):
    """Seconds and results of every step on so many processes, each step once after one small warm-up."""
    found = {}
    with (
        LocalCluster(
            n_workers=processes, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.ERROR
        ) as cluster,
        Client(cluster),
    ):
        warm_up(folder / f"warm-{name}")
        found["control: a loop, 8 tasks"] = timed(lambda: dask.compute(*(dask.delayed(loop)(i) for i in range(8))))[1]
        idle = [timed(lambda: Pool().each("nothing", nothing, range(1000)))[1] for _ in range(2)]
        found["scheduler"] = min(idle) / 1000
        found["log"] = []
        with batches(found["log"]):
            S, found["build"] = timed(lambda: fa.build(X, folder / name))
        found["build bytes"] = S.cost.bytes_moved
        fa.build(X, folder / f"{name}-bare", sidecars=())
        remote, found["connect"] = timed(lambda: fa.dask.connect(folder / name))
        found["kept"], found["seek, index kept"] = timed(lambda: fa.FAS(selection="spa").seek(remote, RANK, rng=0))
        bare = fa.dask.connect(folder / f"{name}-bare")
        found["pass"], found["seek, one pass"] = timed(lambda: fresh_seek(bare))
        F = fa.encode(remote.to_dask(), remote.rows(found["kept"].indices))
        _, found["encode"] = timed(lambda: F.sum().compute())
    return found


def nothing(part):
    return None


def warm_up(path):
    """Compile every kernel that is used later, in every worker."""
    X = lazy_matrix(4, 20_000, 200)
    fa.build(X, path)
    remote = fa.dask.connect(path)
    C = remote.rows(fresh_seek(remote).indices)
    fa.encode(remote.to_dask(), C).sum().compute()


def main():
    options = arguments(__doc__)
    blocks, rows, columns = (4, 20_000, 200) if options.quick else (16, 25_000, 200)
    X = lazy_matrix(blocks, rows, columns)
    m, size = blocks * rows, 4 * blocks * rows * columns
    report = Report("scale", "Build and seek on Dask", options, ("dask", "distributed"))
    report.text(f"Matrix: {m:,} × {columns}, float32, {size / 1e6:.0f} MB in {blocks} blocks; {RANK} anchors.")
    with tempfile.TemporaryDirectory() as place:
        measured = constants(Path(place))  # first, so that the peak of memory is its own
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        one, two = (on_cluster(p, X, folder, f"p{p}") for p in (1, 2))
        A = X.compute(scheduler="synchronous")
        with dask.config.set(scheduler="threads"):
            _, here = timed(lambda: fa.build(X, folder / "here"))
        _, array = timed(lambda: fa.build(A, folder / "array"))
        expected = fa.FAS(selection="spa").seek(fa.open(folder / "here"), RANK, rng=0)
        steps = ("control: a loop, 8 tasks", "build", "seek, one pass", "encode", "connect", "seek, index kept")
        report.table(
            ("step", "1 process, s", "2 processes, s", "speed-up"),
            [(step, one[step], two[step], one[step] / two[step]) for step in steps],
        )
        report.text(
            f"Building the same in this process: {here:.2f} s by Dask's threads, {array:.2f} s from an array in "
            "memory. Blocks are made anew in each Dask build; shards are synced to disk in all of them."
        )
        report.table(
            (
                "what crosses between processes",
                "1 process, bytes",
                "2 processes, bytes",
                "matrix bytes, per byte",
            ),
            [
                ("build", one["build bytes"], two["build bytes"], size / two["build bytes"]),
                *(
                    (f"seek, {what}", one[key].cost.bytes_moved, two[key].cost.bytes_moved, ratio(size, two[key]))
                    for what, key in (("index kept", "kept"), ("one pass", "pass"))
                ),
            ],
        )
        same = {
            "stores of 1 process, 2 processes and threads, all files": same_files(folder / "p1", folder / "p2")
            and same_files(folder / "p1", folder / "here"),
            "anchors of every seek and of the local store": all(
                each[key].indices.tolist() == expected.indices.tolist()
                for each in (one, two)
                for key in ("kept", "pass")
            ),
            "every certificate is exact": all(
                each[key].certificate.kind == "exact" for each in (one, two) for key in ("kept", "pass")
            ),
        }
        report.table(("equal", "holds"), [(what, "yes" if holds else "NO") for what, holds in same.items()])
        whole = sum(path.stat().st_size for path in (folder / "p1").glob("whole-*"))
        report.text(f"Encoding on one process: {m / one['encode']:,.0f} rows/s; the index takes {whole / 1e6:.1f} MB.")
        report.text("What a build with its index asks of 2 processes, in how many batches of tasks:")
        asked = by_question(two["log"])
        report.table(("question", "batches", "tasks", "bytes", "rows named"), asked)
    measured |= counts(asked, m) | {"Dask's scheduler and one idle process, ms a task": 1000 * one["scheduler"]}
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
        "batches of tasks for an index": sum(batches for batches, _ in found.values()) - 2,  # but those of the shards
        "rows near a threshold, %": 100 * found.get("suspects", (0, 0))[1] / m,
        "rows read again and checked exactly, %": 100 * found.get("look", (0, 0))[1] / m,
    }


# --- the model -------------------------------------------------------------------------------------------------------

ROWS, COLUMNS, MACHINES, CORES = 10**10, 200, 100, 16
BLOCK, LIMIT = 500e6, 7 * 10**9  # bytes of a block; the memory_limit, for which it is one shard
STORAGE, NETWORK = 1e9, 1.25e9  # bytes/s of each machine
RENAMING = 16
TASK, RENAME, SEEK = 1e-3, 1e-3, 1e-2  # seconds: of a busy scheduler; on shared storage, a rename and a row read alone
PAPER = f"{ROWS:.0e} rows of {COLUMNS} columns on {MACHINES} machines of {CORES} cores,"


def model(c):
    """(step, what it takes, seconds), nothing overlapping."""
    value = lambda start: next(v for k, v in c.items() if k.startswith(start))  # noqa: E731
    size, cores = 4 * ROWS * COLUMNS, MACHINES * CORES
    blocks, parts = size / BLOCK, MACHINES  # a task for each worker
    shard, sketch = ROWS * value("shard"), ROWS * value("sketch of")
    looks, mixes, steps = value("looks at bounds"), value("looks at mixtures"), value("batches")
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
        ("scheduler", f"{steps} batches of {parts:,} tasks", steps * parts * TASK),
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
