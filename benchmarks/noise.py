"""Measure the cost of noise-aware anchors: from a store's sidecars, from an array, after changes, for many k.

``python benchmarks/noise.py [--quick]`` writes ``benchmarks/results/noise.md``. Figures are processor time, the
least of up to five calls. The peer is SPA in NumPy without a residual matrix, in the same run.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import fastanchors as fa
from _seek import plain_spa
from _table import Report, arguments
from fastanchors.fas.noise_aware import summary_of
from fastanchors.greedy.summary import summarise

K = 10
SEVERAL = (3, 6, 9, K, 12, 13, 14, 15, 20, 32)
MOST = 32  # anchors that a store keeps directions for


def rows(m: int, n: int, k: int = K, level: float = 0.3) -> np.ndarray:
    """Dirichlet mixtures with noise of ``level`` times the mean entry, in blocks."""
    rng = np.random.default_rng(0)
    H = rng.gamma(0.3, size=(k, n)) + 1e-6
    H /= H.sum(axis=1, keepdims=True)
    X = np.empty((m, n), dtype=np.float32)
    for start in range(0, m, 50_000):
        part = rng.dirichlet(np.full(k, 0.3), min(50_000, m - start)) @ H
        X[start : start + len(part)] = np.maximum(part + level / n * rng.standard_normal(part.shape), 0)
    return X


def processor(task: Callable[[], Any], rounds: int = 5) -> float:
    """Least processor seconds, after one unmeasured call."""
    task()
    taken = []
    for _ in range(rounds):
        start = time.process_time()
        task()
        taken.append(time.process_time() - start)
    return min(taken)


def fresh(S: Any, k: int, stability: bool = False) -> Any:
    """A seek that cannot reuse an earlier answer."""
    summary_of(S, k).answers.clear()
    found = fa.FAS().seek(S, k)
    return found.certificate.stability if stability else found


def store(m: int, n: int, anchors: int = K) -> list[Any]:
    """Milliseconds for several k, for the slowest, and for the stability of one; ratio of the peer's time to ours."""
    X = rows(m, n, anchors)
    with tempfile.TemporaryDirectory() as folder:
        S = fa.build(X, Path(folder) / "s")
        each = {k: processor(lambda k=k: fresh(S, k), 5 if k in SEVERAL else 2) for k in range(2, MOST + 1)}
        assert all(fresh(S, k).cost.rows_read == 0 for k in SEVERAL)
        both = processor(lambda: fresh(S, K, stability=True), 3)
        S.close()
    peer = processor(lambda: plain_spa(X, K), 1)
    slowest = max(each, key=lambda k: each[k])
    figures = [*(f"{1e3 * each[k]:.0f}" for k in SEVERAL), f"{1e3 * each[slowest]:.0f} (k = {slowest})"]
    return [f"{m:,} × {n}", str(anchors), *figures, 1e3 * (both - each[K]), peer / each[K]]


def renewed(m: int, n: int, new: int = 50) -> list[Any]:
    """Milliseconds of two commits and of the first seek of a reader after them; ratio of a pass to the last."""
    rng = np.random.default_rng(1)
    X = rows(m, n)
    kind = np.zeros((new, n), dtype=np.float32)
    kind[:, : n // 20] = rng.gamma(1.0, size=n // 20)
    kind = np.abs(kind / kind.sum(axis=1, keepdims=True) + 0.3 / n * rng.standard_normal(kind.shape))
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "s"
        fa.build(X, place).close()
        spent = []
        with fa.open(place, "r+") as S:
            for part in (X[:1], X[:new], kind):  # the first commit loads code
                S.append(part)
                start = time.process_time()
                S.commit()
                spent.append(time.process_time() - start)

        def read() -> None:
            with fa.open(place) as S:
                fa.FAS().seek(S, K)

        first = processor(read, 3)
        with fa.open(place) as S:
            whole = processor(lambda: summarise(S), 1)
    return [f"{m:,} × {n}", 1e3 * spent[1], 1e3 * spent[2], 1e3 * first, 1e3 * whole, whole / first]


def array(m: int, n: int) -> list[Any]:
    """Seconds for ten anchors by three methods, and for all k up to ten without and with stability."""
    X = rows(m, n)
    one = processor(lambda: fa.FAS().seek(X, K), 3)
    plain = processor(lambda: fa.FAS(selection="spa").seek(X, K), 3)
    peer = processor(lambda: plain_spa(X, K), 3)
    many = processor(lambda: fa.FAS().seek(X, range(1, K + 1)), 1)
    told = processor(lambda: [each.certificate.stability for each in fa.FAS().seek(X, range(1, K + 1))], 1)
    return [f"{m:,} × {n}", one, plain, peer, many, told]


def main() -> None:
    options = arguments(__doc__)
    report = Report("noise", "What noise-aware anchors cost", options)
    report.text("## From an array, at once")
    sizes = [(10_000, 50)] if options.quick else [(20_000, 100), (100_000, 100)]
    report.table(
        ["array", "k = 10, s", 'selection="spa", s', "SPA in NumPy, s", "all k = 1…10, s", "with stability, s"],
        [array(*size) for size in sizes],
    )
    report.text("## From what a store keeps")
    report.text(
        "Milliseconds. No row is read. *Anchors*: how many the rows were mixed from; if k is larger, the rows show "
        "fewer directions than k needs, and vertices are corners of the hull in these. *Slowest*: of all k from 2 to "
        "32. *SPA* is the peer on the rows in memory, for ten anchors."
    )
    sizes = [(20_000, 50)]
    if not options.quick:
        sizes = [(100_000, 400), (1_000_000, 400), (1_000_000, 40), (10_000_000, 40), (200_000, 400, MOST)]
    names = [*(f"k = {k}" for k in SEVERAL), "slowest", "stability, k = 10", "SPA / k = 10"]
    report.table(["store", "anchors", *names], [store(*size) for size in sizes])
    report.text("## After 50 rows of a new kind were appended to a store")
    report.text(
        "The commit that brings them adds directions to the kept coordinates and writes them once. *Reader*: open the "
        "store and seek ten anchors. *Pass*: compute the coordinates of all rows again."
    )
    sizes = [(20_000, 50)] if options.quick else [(300_000, 400)]
    names = ["commit of 50 usual rows, ms", "of 50 new ones, ms", "reader, ms", "pass, ms", "pass / reader"]
    report.table(["store", *names], [renewed(*size) for size in sizes])
    report.save()


if __name__ == "__main__":
    main()
