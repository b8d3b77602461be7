"""Measure the cost of noise-aware anchors: from a store's sidecars, from an array, and for many numbers of anchors.

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

K = 10


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


def store(m: int, n: int) -> list[Any]:
    """Milliseconds for several k and for the stability of one; ratio of the peer's time to ours."""
    X = rows(m, n)
    with tempfile.TemporaryDirectory() as folder:
        S = fa.build(X, Path(folder) / "s")
        assert fresh(S, K).cost.rows_read == 0
        each = {k: processor(lambda k=k: fresh(S, k)) for k in (3, 6, K, 20)}
        both = processor(lambda: fresh(S, K, stability=True), 3)
        S.close()
    peer = processor(lambda: plain_spa(X, K), 1)
    return [f"{m:,} × {n}", *(1e3 * t for t in each.values()), 1e3 * (both - each[K]), peer / each[K]]


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
    report.text("No row is read. *SPA* is the peer on the rows in memory, for ten anchors.")
    sizes = [(20_000, 50)] if options.quick else [(100_000, 400), (1_000_000, 400)]
    names = [f"k = {k}, ms" for k in (3, 6, K, 20)]
    report.table(["store", *names, "stability, k = 10, ms", "SPA / k = 10"], [store(*size) for size in sizes])
    report.save()


if __name__ == "__main__":
    main()
