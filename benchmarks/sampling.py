"""Compare the sample model with common alternatives: draws, updates, building, importing.

``python benchmarks/sampling.py [--quick]``. The full run needs about 5 GB of memory.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import scipy.sparse as sp

import fastanchors as fa
from _table import Report, arguments, in_turns, once
from fastanchors._jit import jit
from fastanchors.sampling.vector import _set_one

Row = tuple[Any, ...]


# ── a vector ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Searchsorted:
    """Binary search in the cumulative sum, with unsorted queries."""

    def __init__(self, weights: np.ndarray) -> None:
        self.cumulative = np.cumsum(weights)

    def sample(self, size: int, rng: np.random.Generator) -> np.ndarray:
        return np.searchsorted(self.cumulative, rng.random(size) * self.cumulative[-1], side="right")


class Choice:
    """``Generator.choice(n, p=p)``, which checks p and sums it in every call."""

    def __init__(self, weights: np.ndarray) -> None:
        self.p = weights / weights.sum()

    def sample(self, size: int, rng: np.random.Generator) -> np.ndarray:
        return rng.choice(self.p.size, size=size, p=self.p)


class Alias:
    """Walker's alias table (Vose's build): one uniform, two reads from the table, no updates."""

    def __init__(self, weights: np.ndarray) -> None:
        self.keep, self.other = _build_alias(weights)

    def sample(self, size: int, rng: np.random.Generator) -> np.ndarray:
        return _draw_alias(self.keep, self.other, rng.random(size))


@numba.njit
def _build_alias(weights):
    n = weights.size
    keep = weights * (n / weights.sum())
    other = np.arange(n).astype(np.uint32)
    small, large = np.empty(n, np.uint32), np.empty(n, np.uint32)
    smalls = larges = 0
    for i in range(n):
        if keep[i] < 1.0:
            small[smalls] = i
            smalls += 1
        else:
            large[larges] = i
            larges += 1
    while smalls and larges:
        smalls -= 1
        poor, rich = small[smalls], large[larges - 1]
        other[poor] = rich
        keep[rich] -= 1.0 - keep[poor]
        if keep[rich] < 1.0:
            larges -= 1
            small[smalls] = rich
            smalls += 1
    for k in range(smalls):
        keep[small[k]] = 1.0
    for k in range(larges):
        keep[large[k]] = 1.0
    return keep, other


@numba.njit
def _draw_alias(keep, other, u):
    drawn = np.empty(u.size, np.int64)
    for k in range(u.size):
        scaled = u[k] * keep.size
        i = min(np.int64(scaled), keep.size - 1)
        drawn[k] = i if scaled - i < keep[i] else other[i]
    return drawn


class PyPISumtree:
    """The package ``sumtree``: a binary tree in Rust, with its own generator; results are Python lists."""

    def __init__(self, weights: np.ndarray) -> None:
        from sumtree import SumTree

        self.tree = SumTree(weights.size)
        for start in range(0, weights.size, 1 << 20):
            part = weights[start : start + (1 << 20)]
            self.tree.update_batched(np.arange(start, start + part.size), part)
        self.tree.seed(0)

    def sample(self, size: int, rng: np.random.Generator) -> Any:
        return self.tree.sample(size)


@jit
def _one_by_one(values, nodes, offsets, indices, new):
    for k in range(indices.size):
        _set_one(values, nodes, offsets, indices[k], new[k])


def tree_and_search(x: np.ndarray, batch: int, rounds: int) -> tuple[list[Row], float]:
    """Time VectorSampler and searchsorted in turns; also return the seconds of searchsorted. Squares ``x`` in place."""
    rng = np.random.default_rng(1)
    v, built = once(lambda: fa.VectorSampler(x))
    np.square(x, out=x)
    search, summed = once(lambda: Searchsorted(x))
    draws = in_turns({"v": lambda: v.sample(batch, rng=rng), "s": lambda: search.sample(batch, rng)}, rounds)
    indices, new = rng.integers(0, x.size, batch), rng.standard_normal(batch)
    parts = (v._entries, v._nodes, v._offsets, indices, new)
    updates = in_turns(
        {
            "batch": lambda: v.update(indices, new),
            "compiled": lambda: _one_by_one(*parts),
            "python": lambda: [v.__setitem__(7, 1.0) for _ in range(1000)],
        },
        rounds,
    )
    n, mega = f"{x.size:,}", batch / 1e6
    rows: list[Row] = [
        (n, "VectorSampler", built, mega / draws["v"], draws["s"] / draws["v"], mega / updates["batch"]),
        (n, "– updates one by one, compiled loop", None, None, None, mega / updates["compiled"]),
        (n, "– updates one by one, `v[i] = x` in Python", None, None, None, 1e-3 / updates["python"]),
        (n, "numpy searchsorted on a cumulative sum", summed, mega / draws["s"], 1.0, None),
    ]
    return rows, draws["s"]


def static_row(name: str, method: Any, weights: np.ndarray, batch: int, rounds: int, base: float) -> Row:
    rng = np.random.default_rng(2)
    method(weights[:100]).sample(10, rng)  # compile
    peer, made = once(lambda: method(weights))
    taken = in_turns({name: lambda: peer.sample(batch, rng)}, rounds)[name]
    return (f"{weights.size:,}", name, made, batch / 1e6 / taken, base / taken, None)


def sumtree_row(weights: np.ndarray, batch: int, rounds: int, base: float) -> Row:
    n, name = f"{weights.size:,}", "PyPI sumtree"
    if weights.size > 10**7:
        return (n, f"{name}: not run, takes minutes to fill through its interface", None, None, None, None)
    try:
        peer, made = once(lambda: PyPISumtree(weights))
    except ImportError:
        return (n, f"{name}: not installed", None, None, None, None)
    rng = np.random.default_rng(3)
    indices, squares = rng.integers(0, weights.size, batch), rng.random(batch)
    seconds = in_turns(
        {"draw": lambda: peer.sample(batch, rng), "update": lambda: peer.tree.update_batched(indices, squares)}, rounds
    )
    mega = batch / 1e6
    return (n, name, made, mega / seconds["draw"], base / seconds["draw"], mega / seconds["update"])


def vector_section(report: Report, quick: bool) -> None:
    sizes = ((10**4, 7), (10**6, 7), (10**8, 3)) if not quick else ((10**4, 3), (10**5, 3))
    batch = 10**6 if not quick else 10**5
    fa.VectorSampler(np.ones(100)).sample(3)  # compile
    rows: list[Row] = []
    for n, rounds in sizes:
        x = np.random.default_rng(0).standard_normal(n)
        measured, base = tree_and_search(x, batch, rounds)
        rows += measured
        rows.append(static_row("numpy Generator.choice(p=…)", Choice, x, batch, rounds, base))
        rows.append(static_row("Walker alias table (numba)", Alias, x, batch, rounds, base))
        rows.append(sumtree_row(x, batch, rounds, base))
    report.text("## Vector: draws and updates")
    report.text(
        f"One thread, float64, squares of normal entries as weights, {batch:,} draws or updates in a call, at random "
        "places. Draws include their random numbers. Methods without updates (–) are built anew for any change."
    )
    columns = ("n", "method", "build s", "draws M/s", "draws against searchsorted", "updates M/s")
    report.table(columns, rows)


# ── a matrix ─────────────────────────────────────────────────────────────────────────────────────────────────────


def random_csr(m: int, n: int, per_row: int, rng: np.random.Generator) -> sp.csr_array:
    """``per_row`` entries in each row, one in each of as many equal ranges of columns: sorted and distinct."""
    width = n // per_row
    indices = rng.integers(0, width, size=(m, per_row), dtype=np.int32)
    indices += np.arange(per_row, dtype=np.int32) * width
    indptr = np.arange(0, m * per_row + 1, per_row, dtype=np.int32)
    return sp.csr_array((rng.random(m * per_row), indices.reshape(-1), indptr), shape=(m, n))


def tocsc_and_sums(A: sp.csr_array) -> tuple[Any, Any, Any]:
    """The same information from SciPy: the columns, and the squared norms of rows and columns."""
    columns = A.tocsc()
    squares = sp.csr_array((np.square(A.data), A.indices, A.indptr), shape=A.shape)
    return columns, squares.sum(axis=1), squares.sum(axis=0)


def matrix_section(report: Report, quick: bool) -> None:
    m, n, per_row, rounds = (10**6, 10**4, 50, 5) if not quick else (10**4, 10**3, 20, 3)
    batch = 10**6 if not quick else 10**5
    rng = np.random.default_rng(0)
    A = random_csr(m, n, per_row, rng)
    report.text("## Matrix: building, draws, updates")
    kinds: dict[str, Any] = {"None": None, '"l1"': "l1"}
    tasks: dict[str, Callable[[], Any]] = {"scipy": lambda: tocsc_and_sums(A) and None}
    tasks |= {
        kind: (lambda normalize=value: fa.SampleMatrix(A, normalize=normalize).nnz) for kind, value in kinds.items()
    }
    seconds = in_turns(tasks, rounds=rounds)
    report.text(
        f"{m:,}×{n:,}, {A.nnz:,} non-zeros (float64, CSR of {csr_bytes(A) / 1e6:,.0f} MB); medians of {rounds} rounds."
    )
    rows: list[Row] = [("SciPy: A.tocsc() and both sums of squares", seconds["scipy"], 1.0, None)]
    draws: list[Row] = []
    for kind, value in kinds.items():
        S = fa.SampleMatrix(A, normalize=value)
        label = f"SampleMatrix(A, normalize={kind})"
        rows.append((label, seconds[kind], seconds[kind] / seconds["scipy"], S.memory / csr_bytes(A)))
        draws += matrix_draws(S, label, batch, rounds, rng)
        del S
    report.table(("build", "seconds", "times SciPy's", "memory / CSR bytes"), rows)
    report.text(f"{batch:,} draws or updates in a call; rows, columns and places chosen uniformly at random.")
    report.table(("operation", "model", "million per second"), draws)


def csr_bytes(A: sp.csr_array) -> int:
    return int(A.data.nbytes + A.indices.nbytes + A.indptr.nbytes)


def matrix_draws(S: Any, label: str, batch: int, rounds: int, rng: np.random.Generator) -> list[Row]:
    m, n = S.shape
    rows, columns = rng.integers(0, m, batch), rng.integers(0, n, batch)
    seconds = in_turns(
        {
            "sample_rows": lambda: S.sample_rows(batch, rng=rng),
            "sample_columns": lambda: S.sample_columns(batch, rng=rng),
            "sample_in_row, a row each": lambda: S.sample_in_row(rows, rng=rng),
            "sample_in_column, a column each": lambda: S.sample_in_column(columns, rng=rng),
            "sample_in_row, one row": lambda: S.sample_in_row(int(rows[0]), batch, rng=rng),
            "sample_in_column, one column": lambda: S.sample_in_column(int(columns[0]), batch, rng=rng),
        },
        rounds=rounds,
    )
    rates: list[Row] = [(name, label, batch / 1e6 / taken) for name, taken in seconds.items()]
    return rates + matrix_updates(S, label, batch // 10, rng)


def matrix_updates(S: Any, label: str, count: int, rng: np.random.Generator) -> list[Row]:
    """Batched and single updates; then draws again, which under l1 now reject some."""
    m, n = S.shape
    S.update(rng.integers(0, m, 5000), rng.integers(0, n, 5000), 0.5)  # compile
    i = rng.integers(0, m, count)
    j = S.sample_in_row(i, rng=rng)  # stored entries
    fresh = rng.integers(0, n, count)
    x = rng.random(count) + 0.01
    rates: list[Row] = []
    for name, places, values in (
        ("update of stored entries", j, x),
        ("the same entries again", j, x[::-1]),
        ("update with new non-zeros", fresh, x),
    ):
        _, taken = once(lambda places=places, values=values: S.update(i, places, values))
        rates.append((f"{name} ({count:,} in a call)", label, count / 1e6 / taken))
    for name, places in (
        ("stored entries", j),
        ("new non-zeros", rng.permutation(fresh)),
    ):
        taken = one_by_one(S, i[:5000].tolist(), places[:5000].tolist())
        rates.append((f"`S[i, j] = x`, {name} (median {taken * 1e6:.0f} µs a call)", label, 1e-6 / taken))
    columns = rng.integers(0, n, count)
    for name, work in (
        ("sample_columns, after these updates", lambda: S.sample_columns(count, rng=rng)),
        ("sample_in_column, a column each, after these updates", lambda: S.sample_in_column(columns, rng=rng)),
    ):
        _, taken = once(work)
        rates.append((name, label, count / 1e6 / taken))
    return rates


def one_by_one(S: Any, rows: list[int], columns: list[int]) -> float:
    """Median seconds of setting one entry from Python."""
    taken = []
    for i, j in zip(rows, columns):
        start = time.perf_counter()
        S[i, j] = 0.7
        taken.append(time.perf_counter() - start)
    return float(np.median(taken))


# ── importing ────────────────────────────────────────────────────────────────────────────────────────────────────


def import_section(report: Report, quick: bool) -> None:
    base = "import numpy, scipy.sparse"
    codes = {
        base: base,
        f"{base}, fastanchors": f"{base}, fastanchors",
        f"{base}, fastanchors; fastanchors.VectorSampler": f"{base}, fastanchors; fastanchors.VectorSampler",
    }
    tasks = {
        name: (lambda code=code: subprocess.run([sys.executable, "-c", code], check=True))
        for name, code in codes.items()
    }
    seconds = in_turns(tasks, rounds=3 if quick else 15)
    report.text("## Importing")
    report.text("A fresh process each; the last row names a class, which loads numba but compiles nothing.")
    report.table(
        ("python -c", "seconds", "more than the first"),
        [(f"`{name}`", taken, taken - seconds[base]) for name, taken in seconds.items()],
    )


def main() -> None:
    options = arguments(__doc__)
    report = Report("sampling", "The sample model", options, packages=("sumtree",))
    import_section(report, options.quick)
    vector_section(report, options.quick)
    matrix_section(report, options.quick)
    report.save()


if __name__ == "__main__":
    main()
