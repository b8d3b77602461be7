"""Code shared by ``scale.py`` and ``scale_simulation.py``: a blocked matrix, a log of questions, the cost model."""

from __future__ import annotations

import itertools
import json
import math
import os
import sys
import time
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import dask
import dask.array as da
import numpy as np

from _table import peak_memory
from fastanchors._parallel import one_blas_thread, one_thread
from fastanchors.dask.build import _Plan, _prepare, _write_block
from fastanchors.dask.parts import HeldParts, Parts
from fastanchors.fas import sidecar as fas_store
from fastanchors.fas.bounds import Part, Sketch
from fastanchors.fas.coreset import Coreset
from fastanchors.fas.hull import mixtures
from fastanchors.matrix import ArrayMatrix, MeteredMatrix
from fastanchors.store.arrays_file import map_arrays
from fastanchors.store.shard_rows import shard_bytes

RANK = 10


def make_block(rows, columns, block):
    """Mixtures of the same ten profiles with a little noise; the pure rows are in the first block."""
    profiles = np.random.default_rng(0).dirichlet(np.full(columns, 0.1), RANK)
    rng = np.random.default_rng([1, block])
    weights = rng.dirichlet(np.full(RANK, 0.5), rows)
    if block == 0:
        weights[:RANK] = np.eye(RANK)
    return (weights @ profiles + 1e-5 * rng.random((rows, columns))).astype(np.float32)


def lazy_matrix(blocks, rows, columns):
    tasks = [dask.delayed(make_block)(rows, columns, b, dask_key_name=f"rows-{b}") for b in range(blocks)]
    return da.concatenate([da.from_delayed(task, (rows, columns), dtype=np.float32) for task in tasks])


def timed(task):
    start = time.perf_counter()
    result = task()
    return result, time.perf_counter() - start


@contextmanager
def batches(log):
    """Log every question to the workers: its name, parts asked, bytes moved, rows named."""
    each, keep = Parts.each, HeldParts.keep

    def note_each(self, name, function, which=None, own=None, *rest):
        moved = self.cost.bytes_moved
        result = each(self, name, function, which, own, *rest)
        named = result if name == "suspects" else [x[1] for x in own] if name == "look" else []
        asked = len(self.starts) - 1 if which is None else len(which)
        log.append((name, asked, self.cost.bytes_moved - moved, sum(len(each) for each in named)))
        return result

    def note_keep(self, asked, starts):
        moved = self.cost.bytes_moved
        kept = keep(self, asked, starts)
        log.append((asked.name, len(asked.which), self.cost.bytes_moved - moved, 0))
        return kept

    Parts.each, HeldParts.keep = note_each, note_keep
    try:
        yield
    finally:
        Parts.each, HeldParts.keep = each, keep


def by_question(log):
    """Sum such a log by question: (question, batches, tasks, bytes, rows)."""
    found = {}
    for name, *numbers in log:
        found[name] = [a + b for a, b in zip(found.get(name, [0] * 4), [1, *numbers], strict=True)]
    return [(name, *numbers) for name, numbers in found.items()]


# --- constants of one core -------------------------------------------------------------------------------------------


def cpu(task):
    start = time.process_time()
    result = task()
    return result, time.process_time() - start


def resident():
    """Resident bytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def constants(folder):
    """The constants of the documented model, measured as processor time of one core."""
    rows = np.repeat(make_block(25_000, 200, 0), 12, axis=0)
    plan = _Plan(str(folder), "l1", True, 1 << 40, "the block", rows.shape[1], False, False)
    with one_thread(), one_blas_thread():
        head = _prepare(rows[:3000], plan, [fas_store.FasSidecar()])
        task = head._replace(shared={})
        _write_block(rows[:3000], 0, 0, 3000, None, plan, task)
        held = resident()
        make = lambda: cpu(lambda: _write_block(rows, 1, 0, len(rows), None, plan, task)[0])  # noqa: E731
        shard, making = make()
        memory = (peak_memory() - held) / rows.nbytes + 1
        making = min(making, make()[1], make()[1])  # the first call includes page allocation
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
    """The counts that the model takes from the batches of a build."""
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
BLOCK, LIMIT = 500e6, 7 * 10**9  # bytes of a block; the memory_limit
MESSAGE = 1e-3  # client seconds per message, with a hundred workers: see scale_simulation.py
STORAGE, NETWORK = 1e9, 1.25e9  # bytes/s of each machine
RENAMING = 16
RENAME, SEEK = 1e-3, 1e-2  # seconds on shared storage: a rename, a single-row read
PAPER = f"{ROWS:.0e} rows of {COLUMNS} columns on {MACHINES} machines of {CORES} cores,"


def stored_constants(path=Path(__file__).parent / "results" / "scale.md"):
    """The constants in the table that ``scale.py`` wrote last: name → value."""
    lines = path.read_text(encoding="utf-8").partition("| constant | value |")[2].splitlines()[2:]
    cells = itertools.takewhile(lambda cells: len(cells) == 4, (line.split("|") for line in lines))
    return {name.strip(): float(value.replace(",", "")) for _, name, value, _ in cells}


def model(c):
    """(step, its work, seconds), assuming no overlap."""
    value = lambda start: next(v for k, v in c.items() if k.startswith(start))  # noqa: E731
    size, cores = 4 * ROWS * COLUMNS, MACHINES * CORES
    blocks, parts = size / BLOCK, MACHINES  # one part per worker
    task, shards = value("Dask's") / 1000, blocks * math.ceil(BLOCK / shard_bytes(LIMIT, sys.maxsize))
    shard, sketch = ROWS * value("shard"), ROWS * value("sketch of")
    looks, mixes, steps = value("looks at bounds"), value("looks at mixtures"), value("rounds")
    manifest = shards * value("record")
    largest = parts * 16 * (25 * 33 * looks + 33 * 257 * mixes)
    near = 8 * min(ROWS * value("rows near") / 100, 1 << 25)
    checked = min(ROWS * value("rows read again") / 100, LIMIT / (32 * COLUMNS))
    million = ROWS / cores / 1e6  # rows per core
    written = (shard + sketch) / MACHINES
    rows = [
        ("read the source", f"{size / MACHINES / 1e9:.0f} GB per machine", size / MACHINES / STORAGE),
        ("make shards and sketches", f"{size / cores / 1e9:.0f} GB per core", size / cores / value("making") / 1e6),
        ("write them", f"{written / 1e9:.0f} GB per machine", written / STORAGE),
        ("scheduler", f"{blocks:,.0f} tasks", blocks * task),
        ("renames by the client", f"{2 * shards:,.0f} files, {RENAMING} at a time", 2 * shards * RENAME / RENAMING),
        ("manifest", f"{manifest / 1e6:.0f} MB", manifest / STORAGE),
        ("read the sketches once", f"{sketch / MACHINES / 1e9:.0f} GB per machine", sketch / MACHINES / STORAGE),
        ("looks at bounds", f"{looks} · {million:.2f} million rows per core", looks * million / value("a look at a")),
        ("looks at mixtures", f"{mixes} · {million:.2f} million rows per core", mixes * million / value("a look at m")),
        ("questions to all workers", f"{steps} rounds of {parts:,} messages", steps * parts * MESSAGE),
        ("largest bounds and shares to the client", f"{largest / 1e9:.1f} GB", largest / NETWORK),
        ("numbers of rows near a threshold, there and back", f"{near / 1e9:.2f} GB", near / NETWORK),
        ("rows read again and checked", f"{checked:,.0f} rows over {MACHINES} machines", checked * SEEK / MACHINES),
    ]
    if sketch > shard / 10:  # then they are used by the build only
        rows.append(("removing the sketches", f"{shards:,.0f} files", shards * RENAME))
    whole = sum(seconds for *_, seconds in rows)
    dask_share = (blocks * task + steps * parts * MESSAGE) / whole
    return [*rows, ("**build, index included**", f"scheduler and messages: {100 * dask_share:.0f} %", whole)]
