"""The greedy engine against a plain NumPy (or SciPy sparse) SPA: processor time in one run, as ratios.

The peer keeps no residual matrix: squared residuals, one product A·q per anchor, in the type of the array. Processor
time counts all threads of the process; tasks take turns, each once the threads of BLAS that the one before has woken
are asleep again, and the median of the rounds counts.
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
from _table import Report, arguments
from fastanchors._parallel import one_blas_thread
from fastanchors.fas.coreset import Coreset, Run
from fastanchors.fas.index import Index, extend_index
from fastanchors.fas.read_once import ReadOnce
from fastanchors.fas.sidecar import FasSidecar
from fastanchors.greedy.reader import Reader
from fastanchors.greedy.successive import successive_projection
from fastanchors.matrix import open_matrix


def plain_spa(A: Any, k: int) -> list[int]:
    """Ten lines of NumPy."""
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
    """Median processor seconds of each task; short ones are repeated in every round, and called unmeasured first."""
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
    """Wait until the threads of BLAS sleep: they spin for 0.1 s after a product, at the expense of who comes next."""
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
    options = arguments(__doc__)
    report = Report("engine", "The greedy engine against ten lines of NumPy", options)
    rng = np.random.default_rng(0)
    few = 20 if options.quick else 1
    in_memory(report, rng, few)
    if not options.quick:
        index_of_a_store(report, rng)
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


def lazy_index(data: ReadOnce, steps: int) -> Index | None:
    """The index by one run of the lazy engine over all rows, whose bounds are the tails: no sketch, no hull.

    Cheap where norms are known and few rows need a look, as in sparse matrices with heavy tails. None where rounding
    could change a choice.
    """
    n = data.shape[1]
    nothing = Coreset(np.zeros(0, np.int64), data.rows(np.zeros(0, np.int64)), np.zeros(0))
    run = Run.of([], [], np.zeros((0, n)), [], [], exhausted=False)
    empty = Index(run, 0, nothing, np.zeros(0), np.inf, data.shape[0], False)
    return extend_index(data, empty, steps)


def index_of_a_store(report: Report, rng: np.random.Generator) -> None:
    """What the index adds to a build, and what one lazy run over the store costs in its place."""
    rows = []
    for name, A in (
        ("dense 400,000 × 200", mixtures(400_000, 200, 20, rng)),
        ("sparse 400,000 × 5,000", heavy_tails(400_000, 5000, 0.004, rng)),
    ):
        with tempfile.TemporaryDirectory() as place:
            taken: dict[str, list[float]] = {"with": [], "without": [], "run": []}
            for _ in range(4):
                for label, sidecars in (("with", [FasSidecar()]), ("without", ())):
                    start = time.process_time()
                    fa.build(A, Path(place) / label, normalize=None, sidecars=sidecars, overwrite=True).close()
                    taken[label].append(time.process_time() - start)
                with fa.open(Path(place) / "without") as store:
                    start = time.process_time()
                    lazy_index(ReadOnce(store), 20)
                    taken["run"].append(time.process_time() - start)
        seconds = {label: statistics.median(each[1:]) for label, each in taken.items()}  # the first compiles
        build = seconds["without"]
        rows.append([name, build, seconds["with"] / build - 1, seconds["run"] / build])
    report.text(
        "Processor seconds of a build, what its index by sketches adds, and what one lazy run takes, as shares of it."
    )
    report.table(["store", "build, s", "index by sketches", "lazy run"], rows)


if __name__ == "__main__":
    main()
