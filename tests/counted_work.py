"""Counts the entries and nodes that updates and draws touch; run by ``test_matrix.py`` with numba switched off.

An arrow (a full row and a full column) of n rows and columns has segments of length n on both sides. Work per update
and per draw may grow by a constant for each doubling of n, while the number of non-zeros doubles.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

import fastanchors as fa

SIZES = (2**8, 2**11, 2**14)
visits = 0


class Counted(np.ndarray):
    def __getitem__(self, key: Any) -> Any:
        global visits
        if isinstance(key, int | np.integer):
            visits += 1
        elif isinstance(key, np.ndarray):
            visits += key.size
        return super().__getitem__(key)


def counted(part: Any) -> Any:
    if isinstance(part, tuple):
        return type(part)(*map(counted, part))
    return part.view(Counted) if isinstance(part, np.ndarray) else part


def arrow(n: int, normalize: str | None, dense: bool) -> fa.SampleMatrix:
    A = sp.lil_array((n if not dense else 40, n))
    A[0, :] = 1.0
    A[:, 0] = 1.0
    S = fa.SampleMatrix(A.toarray() if dense else A.tocsr(), normalize=normalize)
    block = S._blocks[0]
    block.view, block.sides = counted(block.view), counted(block.sides)
    return S


def count(work: Any, *args: Any, **options: Any) -> int:
    before = visits
    work(*args, **options)
    return visits - before


def set_each(S: fa.SampleMatrix, columns: np.ndarray, values: np.ndarray, rng: Any = None) -> None:
    """Entries of row 0 one by one; with ``rng``, a column is drawn after each."""
    for j, x in zip(columns, values):
        S[0, j] = x
        if rng is not None:
            S.sample_columns(1, rng=rng)


def fill_row(S: fa.SampleMatrix, n: int) -> None:
    block = S._blocks[0]
    for j in range(1, n):
        block.sides, block.view = counted(block.sides), counted(block.view)
        if block.inserted is not None:
            for pools in (block.inserted.rows, block.inserted.columns):
                pools.forest = counted(pools.forest)
        S[0, j] = 1.0


def assert_logarithmic(name: str, counts: list[float]) -> None:
    """At most a constant for each doubling: 40 visits (a node of 16 children for 4 doublings, on a few trees)."""
    print(name, counts)
    for fewer, more in pairwise(counts):
        assert more - fewer <= 3 * 40, (name, counts)
    assert counts[-1] < 700, (name, counts)


def draws_and_updates(normalize: str | None, dense: bool) -> None:
    """One draw of each kind, and one update; the l1 norm of the row falls and rises a little."""
    rng = np.random.default_rng(0)
    kinds = ("rows", "columns", "in row", "in column", "update", "update and column draw")
    counts: dict[str, list[float]] = {kind: [] for kind in kinds}
    for n in SIZES:
        S = arrow(n, normalize, dense)
        counts["rows"].append(count(S.sample_rows, 50, rng=rng) / 50)
        counts["columns"].append(count(S.sample_columns, 50, rng=rng) / 50)
        counts["in row"].append(count(S.sample_in_row, 0, 50, rng=rng) / 50)
        counts["in column"].append(count(S.sample_in_column, 0, 50, rng=rng) / 50)
        places = rng.integers(1, n, 100)
        changes = rng.choice([0.5, 1.0, 1.5], 100)
        counts["update"].append(count(set_each, S, places[:50], changes[:50]) / 50)
        counts["update and column draw"].append(count(set_each, S, places[50:], changes[50:], rng) / 50)
    for kind, seen in counts.items():
        assert_logarithmic(f"{kind}, normalize={normalize}, {'dense' if dense else 'sparse'}", seen)


def new_non_zeros() -> None:
    """A row filled entry by entry under l1: its norm grows without bound, and yet the work is amortised."""
    per_entry = []
    for n in (2**6, 2**8, 2**10):
        S = fa.SampleMatrix(sp.csr_array(([1.0], ([1], [0])), shape=(2, n)))
        S[0, 0] = 1.0
        per_entry.append(count(fill_row, S, n) / n)
    print("new non-zeros", per_entry)
    assert per_entry[2] - per_entry[1] <= 2 * 120, per_entry
    assert per_entry[-1] < 1500, per_entry


if __name__ == "__main__":
    with np.errstate(over="ignore"):
        for normalize in ("l1", None):
            for dense in (False, True):
                draws_and_updates(normalize, dense)
        new_non_zeros()
