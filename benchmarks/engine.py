"""Compare the greedy engine with a plain NumPy (or SciPy sparse) SPA: ratios of processor time in one run.

The peer keeps no residual matrix, only squared residuals, with one product A·q per anchor in the dtype of the array.
Processor time includes all threads of the process. Tasks take turns; each waits until the BLAS threads of the previous
one are asleep. The median of the rounds is reported.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import fastanchors as fa
from _seek import forget, streamed_spa
from _table import Report, arguments
from fastanchors._parallel import one_blas_thread
from fastanchors.fas.sidecar import FasSidecar
from fastanchors.greedy.reader import Reader
from fastanchors.greedy.successive import successive_projection
from fastanchors.matrix import open_matrix


def plain_spa(A: Any, k: int) -> list[int]:
    """SPA in ten lines of NumPy."""
    sparse = sp.issparse(A)
    squares = A.multiply(A).sum(axis=1) if sparse else np.einsum("ij,ij->i", A, A)
    Q, found = np.zeros((k, A.shape[1]), A.dtype), []
    for j in range(k):
        found.append(int(np.argmax(squares)))
        q = A[[found[-1]]].toarray()[0] if sparse else A[found[-1]].copy()
        q -= Q[:j].T @ (Q[:j] @ q)
        Q[j] = q / np.linalg.norm(q)
        squares -= (A @ Q[j]) ** 2
    return found


def processor_time(tasks: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Median processor seconds of each task; every round warms up first and repeats short tasks."""
    taken: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(rounds):
        for name, task in tasks.items():
            settle()
            calls, start = 0, time.perf_counter()
            while calls == 0 or time.perf_counter() - start < 0.01:
                task()
                calls += 1
            start = time.process_time()
            for _ in range(calls):
                task()
            taken[name].append((time.process_time() - start) / calls)
    return {name: statistics.median(each) for name, each in taken.items()}


def settle() -> None:
    """Wait until the BLAS threads sleep: they spin for 0.1 s after a product, which would slow the next task."""
    while True:
        before = time.process_time()
        time.sleep(0.005)
        if time.process_time() - before < 0.001:
            return


def mixtures(m: int, n: int, k: int, rng: np.random.Generator) -> np.ndarray:
    """Dirichlet(1) mixtures of k random components with 5 % noise, in single precision."""
    A = rng.dirichlet(np.ones(k, dtype=np.float32), m).astype(np.float32) @ rng.random((k, n), dtype=np.float32)
    A += np.abs(rng.standard_normal(A.shape, dtype=np.float32)) * np.float32(0.05 * A.mean())
    return A


def heavy_tails(m: int, n: int, density: float, rng: np.random.Generator) -> sp.csr_array:
    A = sp.random_array((m, n), density=density, rng=rng, format="csr", dtype=np.float32)
    A.data = (rng.pareto(1.5, A.nnz) + 0.01).astype(np.float32)
    return A


def main() -> None:
    parts = ("memory", "index", "file")
    options = arguments(
        __doc__,
        only={"choices": parts, "default": None, "help": "one part, saved as a page of its own"},
        gigabytes={"type": float, "default": None, "help": "size of the file (part file; left out without it)"},
        passes={"type": int, "default": 21, "help": "passes of full SPA that are timed; the others take as long"},
        folder={"type": Path, "default": None, "help": "where the file is made"},
    )
    name = "engine" if options.only is None else f"engine-{options.only}"
    report = Report(name, "The greedy engine against ten lines of NumPy", options)
    rng = np.random.default_rng(0)
    few = 20 if options.quick else 1
    if options.only in (None, "memory"):
        in_memory(report, rng, few)
    if options.only == "index" or (options.only is None and not options.quick):
        index_of_a_store(report, rng)
    if options.gigabytes is not None and options.only in (None, "file"):
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            out_of_core(report, Path(folder) / "rows.npy", options.gigabytes, options.passes)
    report.save()


def in_memory(report: Report, rng: np.random.Generator, few: int) -> None:
    report.text(
        "Processor time as a multiple of the plain SPA's, medians; looks are rows brought up to date per row, for all "
        "k steps (plain SPA: k), besides the first look that finds the norms and checks the entries. First with as "
        "many threads of BLAS as it takes by itself, then with one: waiting threads count as processor time, and the "
        "plain SPA has more of them, the busier the machine."
    )
    cases = [
        ("1,000 × 50, mixtures", lambda: mixtures(1000, 50, 10, rng), 10, 101, (3, 3, None, None)),
        ("10,000 × 50, mixtures", lambda: mixtures(10_000, 50, 10, rng), 10, 51, (1.5, 1.5, None, None)),
        ("100,000 × 100, mixtures", lambda: mixtures(100_000 // few, 100, 10, rng), 10, 11, (0.6, 0.6, 5, 10)),
        ("500,000 × 200, mixtures", lambda: mixtures(500_000 // few, 200, 20, rng), 20, 5, (0.4, 0.4, None, None)),
        (
            "60,000 × 60, half-normal noise",
            lambda: np.abs(rng.standard_normal((60_000 // few, 60), dtype=np.float32)),
            40,
            11,
            (0.5, 0.5, None, None),
        ),
        ("300,000 × 5,000 CSR", lambda: heavy_tails(300_000 // few, 5000, 0.004, rng), 20, 5, (0.5, 0.5, None, None)),
    ]
    rows, alone = [], []
    for name, make, k, rounds, goals in cases:
        A = make()
        solvers = {"SPA()": fa.SPA(), "FAS()": fa.FAS(selection="spa"), "SNPA()": fa.SNPA(), "XRAY()": fa.XRAY()}
        asked = {label: solver for (label, solver), goal in zip(solvers.items(), goals) if goal is not None}
        tasks: dict[str, Callable[[], Any]] = {"plain": lambda A=A, k=k: plain_spa(A, k)}
        tasks |= {label: lambda s=solver, A=A, k=k: s.seek(A, k) for label, solver in asked.items()}
        looks = successive_projection(Reader(open_matrix(A)), k).looks / A.shape[0]
        goal = ", ".join(str(g) for g in dict.fromkeys(g for g in goals if g is not None))
        for table, threads in ((rows, nullcontext()), (alone, one_blas_thread())):
            with threads:
                seconds = processor_time(tasks, rounds)
            ratios = [seconds[label] / seconds["plain"] if label in seconds else None for label in solvers]
            table.append([name, str(k), 1e3 * seconds["plain"], *ratios, looks, goal])
    columns = ["matrix", "k", "plain SPA, ms", "SPA()", "FAS()", "SNPA()", "XRAY()", "looks per row", "goal"]
    report.table(columns, rows)
    report.text("BLAS with one thread:")
    report.table(columns, alone)


class SketchedSidecar(FasSidecar):
    """An index that always uses sketches, even for a small store."""

    @property
    def rows_at_hand(self) -> bool:
        return False

    @rows_at_hand.setter
    def rows_at_hand(self, value: bool) -> None:
        pass


def index_of_a_store(report: Report, rng: np.random.Generator) -> None:
    """Cost that the index, an index by sketches, and all sidecars add to a build."""
    clean = rng.dirichlet(np.ones(20, dtype=np.float32), 400_000).astype(np.float32)
    cases = (
        ("dense 400,000 × 200, noise 5 %", lambda: mixtures(400_000, 200, 20, rng), None),
        ("the same, rows of sum one", lambda: mixtures(400_000, 200, 20, rng), "l1"),
        ("dense 400,000 × 200, no noise", lambda: clean @ rng.random((20, 200), dtype=np.float32), None),
        ("sparse 400,000 × 5,000, heavy tails", lambda: heavy_tails(400_000, 5000, 0.004, rng), None),
        ("the same, rows of sum one", lambda: heavy_tails(400_000, 5000, 0.004, rng), "l1"),
    )
    ways: dict[str, Callable[[], Any]] = {
        "without": lambda: (),
        "index": lambda: [FasSidecar()],
        "sketches": lambda: [SketchedSidecar()],
        "all": lambda: None,
    }
    rows = []
    for name, make, normalize in cases:
        A = make()
        taken: dict[str, list[float]] = {label: [] for label in ways}
        with tempfile.TemporaryDirectory() as place:
            for turn in range(11):
                for label, sidecars in ways.items():
                    if turn > 4 and label in ("sketches", "all"):
                        continue
                    start = time.process_time()
                    store = Path(place) / label
                    fa.build(A, store, normalize=normalize, sidecars=sidecars(), overwrite=True).close()
                    taken[label].append(time.process_time() - start)
        seconds = {label: min(each[1:]) for label, each in taken.items()}  # the first compiles
        build = seconds.pop("without")
        rows.append([name, build, *(each / build - 1 for each in seconds.values())])
    report.text(
        "Processor seconds of a build (the least of ten: writing takes more on a busy machine), and what the index "
        "adds to it as a share of that: as it is made, by sketches, and together with the coordinates of "
        "noise-aware seeks (the default of `fa.build`). Goals: 0.15 dense, 0.3 sparse."
    )
    report.table(["store", "build, s", "index", "index by sketches", "index and coordinates"], rows)


def bytes_from_disk() -> int:
    """Bytes this process has read from the disk so far."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes"))


def out_of_core(report: Report, path: Path, gigabytes: float, passes: int, k: int = 20, n: int = 400) -> None:
    """Seconds and bytes read from disk by FAS() and by full SPA, which starts every pass with a cold file."""
    m = int(gigabytes * 1e9 / (4 * n))
    target = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(m, n))
    rng = np.random.default_rng(1)
    step = 100_000
    parts = rng.random((k, n), dtype=np.float32)
    noise = np.abs(rng.standard_normal((step + 1) * n, dtype=np.float32)) * np.float32(0.02 * parts.mean())
    for at in range(0, m, step):
        shares = rng.standard_exponential((min(step, m - at), k), dtype=np.float32)
        rows = (shares / shares.sum(axis=1, keepdims=True)) @ parts
        begin = int(rng.integers(n))  # reuse the noise, shifted and permuted: drawing more takes too long
        rows += noise[begin : begin + rows.size].reshape(rows.shape)[rng.permutation(len(rows))]
        target[at : at + step] = rows
    target.flush()
    del target
    ways: dict[str, Callable[[], Any]] = {
        "FAS(), a cold file": lambda: fa.FAS(selection="spa").seek(path, k, rng=0).indices.tolist(),
        f"full SPA, {k + 1} passes, each over a cold file": lambda: streamed_spa(path, passes - 1, cold=True),
    }
    rows, answers = [], []
    for name, way in ways.items():
        forget(path)
        read, start, used = bytes_from_disk(), time.perf_counter(), time.process_time()
        answers.append(way())
        seconds, used = time.perf_counter() - start, time.process_time() - used
        rows.append([name, seconds, used, (bytes_from_disk() - read) / path.stat().st_size])
    rows[1][1:] = [x * (k + 1) / passes for x in rows[1][1:]]
    few = "" if passes > k else f" (of whose passes {passes} were timed, as if the others took as long)"
    agreed = sum(a == b for a, b in zip(*answers))
    report.text(
        f"A file of {path.stat().st_size / 1e9:.1f} GB, {m:,} × {n} float32, mixtures with 2 % noise, k = {k}; the "
        f"system is asked to drop what it holds of the file first, and before every pass of full SPA{few}. FAS() is "
        f"{rows[1][1] / rows[0][1]:.1f} times as fast (goal: 9); {agreed} of {len(answers[1])} choices agree."
    )
    report.table(["way", "seconds", "processor seconds", "times the file was fetched from the disk"], rows)


if __name__ == "__main__":
    main()
