"""SampleMatrix on 1,000,000 × 10,000 with 5e7 non-zeros: build against SciPy, and draws per second.

    python benchmarks/sample_matrix.py [--quick]

Prints a Markdown table and writes it to benchmarks/results/sample_matrix.md. The peer of the build is ``A.tocsc()``
plus the sums of squares of all rows and all columns, in the same run. Kernels are compiled before the clock starts.
Needs some 2.5 GB (``--quick``: a hundredth).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import fastanchors as fa


def matrix(m: int, n: int, per_row: int) -> sp.csr_array:
    """Distinct sorted columns in each row, one drawn in each of ``per_row`` equal stretches; float32 values."""
    rng = np.random.default_rng(0)
    width = n // per_row
    indices = rng.integers(0, width, (m, per_row), dtype=np.int32)
    indices += np.arange(per_row, dtype=np.int32) * width
    data = rng.random(m * per_row, dtype=np.float32) + np.float32(0.01)
    indptr = np.arange(m + 1, dtype=np.int32) * np.int32(per_row)
    return sp.csr_array((data, indices.reshape(-1), indptr), shape=(m, n))


def seconds(work: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    best, result = np.inf, None
    for _ in range(repeats):
        result = None
        start = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - start)
    return best, result


def peer(A: sp.csr_array) -> tuple[Any, Any, Any]:
    C = A.tocsc()
    squares = A.data.astype(np.float64) ** 2
    rows = np.add.reduceat(squares, A.indptr[:-1])
    columns = np.add.reduceat(C.data.astype(np.float64) ** 2, C.indptr[:-1])
    return C, rows, columns


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="10,000 rows instead of a million")
    quick = parser.parse_args().quick
    m, n, per_row, draws = (10_000 if quick else 1_000_000), 10_000, 50, (10**5 if quick else 10**6)
    warm = fa.SampleMatrix(matrix(1000, n, per_row))
    warm.sample_in_row([0], 2), warm.sample_in_column([0], 2), warm.sample_columns(2), warm.sample_rows(2)
    for x in (1.0, 0.001, 9.0):  # old and new entries, up and down: every kernel of an update
        warm.update(np.arange(1000), np.arange(1000), x)
        warm.update(0, np.arange(n // 2), x)
    warm.sample_columns(2)
    A = matrix(m, n, per_row)
    theirs, _ = seconds(lambda: peer(A), 2)
    ours, S = seconds(lambda: fa.SampleMatrix(A), 2)
    rng = np.random.default_rng(1)
    rows, columns = rng.integers(0, m, draws), rng.integers(0, n, draws)
    given = A.data.nbytes + A.indices.nbytes + A.indptr.nbytes
    lines = [
        f"SampleMatrix, {m:,} × {n:,}, {A.nnz:,} non-zeros, float32, normalize='l1'",
        "",
        "| what | figure |",
        "| --- | --- |",
        f"| `A.tocsc()` plus both sums of squares | {theirs:.2f} s |",
        f"| build of SampleMatrix | {ours:.2f} s ({ours / theirs:.2f} times) |",
        f"| memory | {S.memory / given:.2f} times CSR |",
    ]
    for name, work in (
        ("draws of rows", lambda: S.sample_rows(draws, rng=2)),
        ("draws of columns", lambda: S.sample_columns(draws, rng=2)),
        ("draws inside random rows", lambda: S.sample_in_row(rows, rng=2)),
        ("draws inside random columns", lambda: S.sample_in_column(columns, rng=2)),
        ("updates of random existing entries, one batch", lambda: S.update(rows, A.indices[rows * per_row + 7], 0.7)),
        ("the same again", lambda: S.update(rows, A.indices[rows * per_row + 7], 0.6)),
        ("new non-zeros, one batch", lambda: S.update(rows[: draws // 10], columns[: draws // 10], 0.7)),
        ("draws of columns, after all these", lambda: S.sample_columns(draws, rng=2)),
    ):
        took, _ = seconds(work)
        count = draws // 10 if name.startswith("new") else draws
        lines.append(f"| {name} | {count / took / 1e6:.2f} million per second |")
    table = "\n".join(lines) + "\n"
    print(table)
    out = Path(__file__).parent / "results" / "sample_matrix.md"
    out.parent.mkdir(exist_ok=True)
    out.write_text(table)


if __name__ == "__main__":
    main()
