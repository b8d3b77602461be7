"""Compare the store with SciPy, NumPy and the in-memory matrix: build, open, draws, rows, updates, commits.

    python benchmarks/store.py            # 2,000,000 × 20,000 with 1e8 non-zeros; needs 6 GB of memory and 6 GB of disk
    python benchmarks/store.py --quick    # a tenth of the rows

The peer of the build is ``A.tocsc()`` plus writing the same number of bytes with ``numpy.save`` (no sync); the peer of
draws and rows is ``SampleMatrix`` on the same matrix. Everything is measured in one run, files cached.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import fastanchors as fa
from _table import Report, arguments, in_turns

PER_ROW, COLUMNS = 50, 20_000


def make_matrix(rows, rng):
    """CSR with 50 distinct columns per row, some columns much heavier than others; float64 and int32."""
    start = (rng.random((rows, 1)) ** 2 * COLUMNS).astype(np.int32)
    columns = (start + 397 * np.arange(PER_ROW, dtype=np.int32)) % COLUMNS
    columns.sort(axis=1)
    indptr = np.arange(0, rows * PER_ROW + 1, PER_ROW, dtype=np.int32)
    return sp.csr_array((rng.random(rows * PER_ROW) + 0.1, columns.reshape(-1), indptr), shape=(rows, COLUMNS))


class AnonymousMemory:
    """Measure the peak growth of this process's anonymous memory (no mapped files) while the block runs."""

    def __enter__(self):
        self.start = self.peak = self._now()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self):
        while not self._stop.wait(0.01):
            self.peak = max(self.peak, self._now())

    def _now(self):
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("RssAnon"))

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()
        self.grown = self.peak - self.start


def seconds(function, repeat=1):
    """The median time of ``repeat`` calls."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def measure_build(A, path, table):
    tocsc = seconds(lambda: A.tocsc())
    with AnonymousMemory() as memory:
        build = seconds(lambda: fa.build(A, path, sidecars=()).close())
    size = sum(file.stat().st_size for file in path.iterdir())
    content = np.ones(size // 8)
    write = seconds(lambda: np.save(path.with_name("peer.npy"), content))
    path.with_name("peer.npy").unlink()
    csr = A.data.nbytes + A.indices.nbytes + A.indptr.nbytes
    what = f"build of {A.shape[0]:,} × {A.shape[1]:,}, {A.nnz:,} non-zeros"
    peer = f"tocsc {tocsc:.1f} s + write {write:.1f} s"
    table += [
        (what, f"{build:.1f} s", peer, f"{build / (tocsc + write):.2f} times", "≤ 2.5"),
        ("peak memory of the build (limit 1 GiB)", f"{memory.grown / 2**20:.0f} MiB", "", "", "< 1024 MiB"),
        ("space, both sides", f"{size / 1e9:.2f} GB", f"CSR {csr / 1e9:.2f} GB", f"{size / csr:.2f} times", "≤ 2.6"),
    ]


def measure_draws(S, M, table, count):
    rng = np.random.default_rng(1)
    rows, columns = M.sample_rows(count, rng=rng), M.sample_columns(count, rng=rng)
    some = M.sample_rows(500, rng=rng)
    for name, call, number in (
        ("draws of rows", lambda X: X.sample_rows(count, rng=2), count),
        ("draws of columns", lambda X: X.sample_columns(count, rng=2), count),
        ("draws in rows", lambda X: X.sample_in_row(rows, rng=2), count),
        ("draws in columns", lambda X: X.sample_in_column(columns, rng=2), count),
        ("random rows gathered, 500 at a time", lambda X: X.rows(some), 500),
    ):
        taken = in_turns({"store": lambda call=call: call(S), "matrix": lambda call=call: call(M)})
        ours, theirs = number / taken["store"] / 1e6, number / taken["matrix"] / 1e6
        table.append(
            (name, f"{ours:.2f} M/s", f"SampleMatrix {theirs:.2f} M/s", f"{100 * ours / theirs:.0f} %", "≥ 60 %")
        )


def measure_updates(path, A, table, count):
    rng = np.random.default_rng(3)
    with fa.open(path, mode="r+", memory_limit=4 << 30) as S:
        entry = rng.integers(0, A.nnz, count)
        i, j = np.searchsorted(A.indptr, entry, side="right") - 1, A.indices[entry].astype(np.int64)
        x = rng.random(count)
        S.update(i[:1000], j[:1000], x[:1000])
        single = []
        for row, column, value in zip(i[:5000].tolist(), j[:5000].tolist(), x[:5000].tolist(), strict=True):
            start = time.perf_counter()
            S[row, column] = value
            single.append(time.perf_counter() - start)
        written = sum(single) + seconds(lambda: S.frobenius_norm)  # single entries are buffered until the next read
        S.commit()
        batches = np.array_split(np.arange(count), max(1, count // 20_000))
        batch = seconds(lambda: [S.update(i[b], j[b], x[b]) for b in batches])
        large = seconds(S.commit)
        again = seconds(lambda: [S.update(i[b], j[b], 1 - x[b]) for b in batches])
        S.commit()
        commits = []
        for _ in range(100):
            S.update(i[:10], j[:10], x[:10])
            commits.append(seconds(S.commit))
        table += [
            ("one `S[i, j] = x`, median, no commit", f"{1e6 * np.median(single):.1f} µs", "", "", "< 30 µs"),
            ("the same with what the next reader writes, mean", f"{1e6 * written / 5000:.1f} µs", "", "", ""),
            ("updates of entries, batches of 20,000", f"{count / batch / 1e3:.0f} k/s", "", "", "> 500 k/s"),
            ("the same entries again: no page is copied", f"{count / again / 1e3:.0f} k/s", "", "", ""),
            ("commit of 10 changes, median", f"{1e3 * np.median(commits):.2f} ms", "", "", ""),
            (f"commit of {count:,} changes", f"{1e3 * large:.0f} ms", "", "", ""),
        ]
    replay = seconds(lambda: fa.open(path).close())
    table.append((f"open with {2 * count + 7_000:,} changes in the journal", f"{1e3 * replay:.0f} ms", "", "", ""))
    with fa.open(path, mode="r+") as S:
        table.append(("compaction after changes in every shard", f"{seconds(S.compact):.1f} s", "", "", ""))


def main():
    options = arguments(
        __doc__,
        rows={"type": int, "help": "number of rows, 50 non-zeros each"},
        scratch={"type": Path, "help": "a directory with room for the store"},
    )
    rows = options.rows or (200_000 if options.quick else 2_000_000)
    count = 100_000 if options.quick else 1_000_000
    report = Report("store", "The store", options)
    table = []
    folder = Path(tempfile.mkdtemp(prefix="fastanchors-bench-", dir=options.scratch))
    try:
        path = folder / "store"
        A = make_matrix(rows, np.random.default_rng(0))
        fa.build(A[:1000], path, sidecars=()).close()  # compiles
        shutil.rmtree(path)
        measure_build(A, path, table)
        table.append(("open", f"{1e3 * seconds(lambda: fa.open(path).close(), 20):.1f} ms", "", "", "< 50 ms"))
        with fa.open(path) as S:
            table.append(("shards", str(len(S._blocks)), "", "", ""))
            measure_draws(S, fa.SampleMatrix(A), table, count)
        measure_updates(path, A, table, count)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    report.table(["what", "here", "peer", "ratio", "reach"], table)
    report.save()


if __name__ == "__main__":
    main()
