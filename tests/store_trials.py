"""Operations on a store that may fail at any system call, and a check of the store afterwards; for injected faults.

A sequence of steps, each of which is one commit (or a compaction, which changes nothing). A failed step is tried once
more, on the same object if it is still open, as a program would do. The caller learns which step was tried and which
was done. Afterwards the store must have the state of the last step done, or of the one that was tried.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import fastanchors as fa
import fastanchors.store.store as store_module
from fastanchors.errors import StoreError
from fastanchors.store.manifest import Manifest

COLUMNS = 6
Told = Callable[[str, int], None]  # "tried" or "done", and the number of the step


def first_state() -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.integers(0, 9, (40, COLUMNS)) * (rng.random((40, COLUMNS)) < 0.5)


def make(path: Path, *, sparse: bool) -> None:
    """The store before any step, with an index."""
    A = first_state()
    parts = [A[:25], A[25:]]
    fa.build(iter([sp.csr_array(part) for part in parts] if sparse else parts), path).close()


def _update(A: Any) -> None:
    A[3, 2], A[30, 1], A[7, 0] = 50, 7, 0


def _append_rows(A: Any) -> Any:
    return np.arange(2 * COLUMNS).reshape(2, COLUMNS)


def _append_shard(A: Any) -> Any:
    return np.random.default_rng(1).integers(0, 5, (60, COLUMNS))


def _late(A: Any) -> None:
    A[41, 3], A[50, 0], A[0, 5] = 9, 90, 4


def _last(A: Any) -> None:
    A[1, 1] = 77


COMPACT = "compact"
STEPS: list[Any] = [_update, _append_rows, _append_shard, COMPACT, _late, _last]


def states() -> list[np.ndarray]:
    """The contents before all steps, and after each step."""
    found = [first_state()]
    for step in STEPS:
        A = found[-1].copy()
        more = None if step == COMPACT else step(A)
        found.append(A if more is None else np.concatenate([A, more]))
    return found


def work(path: Path, told: Told) -> None:
    """Run all steps on the store that :func:`make` wrote to ``path``. Errors that are not ours propagate."""
    inline, store_module._INLINE_ROWS = store_module._INLINE_ROWS, 2000  # so that both ways of appending occur
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "committed, but not (compacted|renewed its sidecars)")
            _work(path, told)
    finally:
        store_module._INLINE_ROWS = inline


def _work(path: Path, told: Told) -> None:
    S = None
    number = 0
    failures = 0
    wanted = states()
    applied = False
    while number < len(STEPS):
        step = STEPS[number]
        try:
            if S is None:
                S, applied = fa.open(path, mode="r+"), False
                if np.array_equal(contents(S), wanted[number + 1]) and step != COMPACT:
                    number += 1  # the failed step was durable
                    told("done", number)
                    continue
            told("tried", number + 1)
            if step == COMPACT:
                S.compact()
            else:
                if not applied:
                    more = step(S)
                    if more is not None:
                        S.append(more)
                    applied = True
                S.commit()
            applied = False
            number += 1
            told("done", number)
        except StoreError:
            failures += 1
            if failures > 3:
                break
            if S is not None and S._closed:
                S = None
    if S is not None:
        S.close(commit=False)


def contents(S: fa.Store) -> np.ndarray:
    return S.raw(*np.indices(S.shape))


def check(path: Path, low: int, high: int) -> None:
    """Raise unless the store is valid, in the state of a step from ``low`` to ``high``, and no other file is left."""
    fa.verify(path)
    with fa.open(path) as S:
        found = contents(S)
        answer = fa.FAS(selection="spa").seek(S, 3)
    expected = [state for state in states()[low : high + 1] if np.array_equal(state, found)]
    assert expected, f"the store has {found.shape[0]} rows and is in no state from {low} to {high}"
    want = fa.SPA().seek(sp.csr_array(found / np.maximum(found.sum(axis=1, keepdims=True), 1)), 3)
    assert answer.indices.tolist() == want.indices.tolist(), "the index is of another state"
    with fa.open(path, mode="r+") as S:
        known = {"lock", "manifest.json"} | S._mapped.files()
    assert Manifest.read(path).files() <= known
    left = set(os.listdir(path))
    assert left == known, f"left behind: {sorted(left - known)}, missing: {sorted(known - left)}"
