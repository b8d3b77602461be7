"""Random sequences of calls on a matrix or a store, compared with a plain array in exact arithmetic.

Entries are small integers and rows are often copies or multiples of each other, so that ties are common. Every rule,
budget, tolerance and certificate occurs. An ``exact`` answer must equal that of SPA in fractions, ``near`` must keep
its bound, and no budget may be exceeded. A noise-aware rule certified ``exact`` must find in a store, after any number
of changes, compactions and reopenings, what it finds in the plain array.
"""

from __future__ import annotations

import contextlib
import copy
import math
import pickle
import tempfile
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import fastanchors as fa
import fastanchors.store.store as store_module
from fastanchors.errors import RankError
from fastanchors.fas import seek as fas_seek
from fastanchors.fas import sidecar as fas_sidecar
from naive import exact

NOISE_RULES = ["auto", "smoothed", "smoothed-one", "pseudo-points", "lifted", "whitened"]


@contextlib.contextmanager
def small_matrices() -> Iterator[None]:
    """Inside, small matrices get an index too, and some appended rows get a separate shard."""
    places: list[tuple[Any, str, int]] = [
        (fas_seek, "SMALL", 0),
        (fas_sidecar, "SMALL", 0),
        (store_module, "_INLINE_ROWS", 1200),
    ]
    before = [getattr(module, name) for module, name, _ in places]
    try:
        for module, name, value in places:
            setattr(module, name, value)
        yield
    finally:
        for (module, name, _), value in zip(places, before, strict=True):
            setattr(module, name, value)


def _answer(solver: Any, S: Any, k: Any, rng: int = 0) -> Any:
    """The result of a seek, or the RankError that gives the number of anchors."""
    try:
        return solver.seek(S, k, rng=rng)
    except RankError as error:
        return error


class Walk:
    """One walk; :meth:`run` takes the steps. ``seen`` counts the certificates."""

    def __init__(self, seed: int, seen: Counter[str] | None = None) -> None:
        self.rng = np.random.default_rng([2026, seed])
        self.seen = Counter() if seen is None else seen
        m, self.n = int(self.rng.integers(12, 36)), int(self.rng.integers(3, 8))
        self.normalize = "l1" if self.rng.random() < 0.6 else None
        self.A = self.rows(m)
        self.sparse, self.stored = bool(self.rng.integers(2)), seed % 3 > 0
        source = sp.csr_array(self.A) if self.sparse else self.A.copy()
        self.folder = tempfile.TemporaryDirectory(prefix="fastanchors-test-") if self.stored else None
        if self.folder is not None:
            self.path = Path(self.folder.name, "s")
            fa.build(source, self.path, normalize=self.normalize).close()
            self.S: Any = fa.open(self.path, mode="r+")
            self.committed = self.A.copy()
        else:
            self.S = fa.SampleMatrix(source, normalize=self.normalize)

    def rows(self, count: int) -> np.ndarray:
        """Rows of integers; most are corners, copies or multiples."""
        corners = self.rng.integers(0, 4, (4, self.n))
        made = corners[self.rng.integers(4, size=count)] * self.rng.integers(1, 3, (count, 1))
        mixed = self.rng.random(count) < 0.5
        made[mixed] = self.rng.integers(0, 4, (int(mixed.sum()), self.n))
        return made.astype(float)

    def run(self, steps: int, *, noise: bool) -> None:
        moves = [self.update, self.add, self.set_one, self.copy_row, self.set_row, self.append]
        moves += [self.commit, self.compact, self.reopen, self.crash, self.read_beside] if self.stored else [self.clone]
        moves += [self.seek, self.seek, self.seek_many, self.seek_within_a_budget, self.seek_with_a_tolerance]
        moves += [self.seek_by_noise] if noise else []
        try:
            for at in self.rng.integers(len(moves), size=steps):
                moves[at]()
            self.agree()
            self.seek()
            if self.stored:
                self.S.commit()
                fa.verify(self.path)
        finally:
            if self.stored:
                self.S.close(commit=False)
            if self.folder is not None:
                self.folder.cleanup()

    # --- changes ----------------------------------------------------------------------------------------------------

    def places(self, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rng = self.rng
        return rng.integers(len(self.A), size=count), rng.integers(self.n, size=count), rng.integers(0, 4, count) * 1.0

    def update(self) -> None:
        i, j, x = self.places(int(self.rng.integers(1, 9)))
        self.S.update(i, j, x)
        for row, column, value in zip(i, j, x, strict=True):
            self.A[row, column] = value

    def add(self) -> None:
        i, j, x = self.places(4)
        self.S.add(i, j, x)
        np.add.at(self.A, (i, j), x)

    def set_one(self) -> None:
        for i, j, x in zip(*self.places(2), strict=True):
            self.S[int(i), int(j)] = x
            self.A[i, j] = x

    def copy_row(self) -> None:
        i, j = self.rng.integers(len(self.A), size=2)
        self._set_row(j, self.A[i] * self.rng.integers(1, 3))

    def set_row(self) -> None:
        self._set_row(
            self.rng.integers(len(self.A)), self.rng.integers(0, 7) * np.eye(self.n)[self.rng.integers(self.n)]
        )

    def _set_row(self, i: int, row: np.ndarray) -> None:
        self.S.update(np.full(self.n, i), np.arange(self.n), row)
        self.A[i] = row

    def append(self) -> None:
        new = self.rows(int(self.rng.choice([1, 2, 12])))
        self.S.append(sp.csr_array(new) if self.rng.integers(2) else new)
        self.A = np.concatenate([self.A, new])

    # --- stores -----------------------------------------------------------------------------------------------------

    def commit(self) -> None:
        self.S.commit()
        self.committed = self.A.copy()

    def compact(self) -> None:
        self.S.compact()
        self.committed = self.A.copy()

    def reopen(self) -> None:
        self.S.close()
        self.committed = self.A.copy()
        self.S = fa.open(self.path, mode="r+")

    def crash(self) -> None:
        self.S.close(commit=False)
        self.A = self.committed.copy()
        self.S = fa.open(self.path, mode="r+")

    def read_beside(self) -> None:
        """A reader sees the committed state, and seeks in it."""
        with fa.open(self.path) as R:
            assert np.array_equal(R.raw(*np.indices(R.shape)), self.committed)
            self._check(R, self.committed, int(self.rng.integers(1, self.n)))

    def clone(self) -> None:
        """Continue with a copy instead of the original."""
        self.S = copy.deepcopy(self.S) if self.rng.integers(2) else pickle.loads(pickle.dumps(self.S))

    def agree(self) -> None:
        assert np.array_equal(self.S.raw(*np.indices(self.S.shape)), self.A)

    # --- seeks ------------------------------------------------------------------------------------------------------

    def view(self, A: np.ndarray) -> Any:
        """The rows that a seek sees, as fractions."""
        rows = [[Fraction(int(x)) for x in row] for row in A]
        if self.normalize is None:
            return rows
        return [[x / (sum(row) or 1) for x in row] for row in rows]

    def seek(self) -> None:
        self._check(self.S, self.A, int(self.rng.integers(1, min(6, self.n) + 1)))

    def _check(self, S: Any, A: np.ndarray, k: int) -> None:
        want = exact.spa_of(self.view(A), k)
        found = _answer(fa.FAS(selection="spa"), S, k)
        if isinstance(found, RankError):
            assert found.rank == len(want) < k
        else:
            self.certified(found, A, want)
            assert len(found.indices) == k

    def certified(self, found: Any, A: np.ndarray, want: list[int]) -> None:
        """Check that the certificate is true."""
        kind, indices = found.certificate.kind, found.indices.tolist()
        self.seen[kind] += 1
        assert len(set(indices)) == len(indices)
        if kind == "exact":
            assert indices == want[: len(indices)]
        elif "eta" in found.certificate.details:
            shortest = max(exact.shortfalls_of(self.view(A), indices))
            assert math.sqrt(max(0.0, 1 - shortest)) >= (1 - found.certificate.details["eta"]) * (1 - 1e-9)

    def seek_many(self) -> None:
        sizes = sorted({int(k) for k in self.rng.integers(1, min(5, self.n) + 1, size=3)})
        solver = fa.FAS(selection="spa", allow_fewer=True)
        answers = _answer(solver, self.S, sizes)
        if isinstance(answers, RankError):
            assert answers.rank == 0
            return
        want = exact.spa_of(self.view(self.A), max(sizes))
        for k, found in zip(sizes, answers, strict=True):
            self.certified(found, self.A, want[:k])
            assert len(found.indices) == min(k, len(want))

    def seek_within_a_budget(self) -> None:
        k, budget = int(self.rng.integers(1, min(5, self.n) + 1)), int(self.rng.choice([1, 3, 8, 20, 40, 200]))
        found = _answer(fa.FAS(budget=budget, allow_fewer=True), self.S, k, int(self.rng.integers(99)))
        if isinstance(found, RankError):
            return
        assert found.cost.rows_read <= budget
        self.certified(found, self.A, exact.spa_of(self.view(self.A), k))

    def seek_with_a_tolerance(self) -> None:
        tol, k = float(self.rng.choice([1e-3, 0.1, 0.3, 0.7])), int(self.rng.integers(1, min(6, self.n) + 1))
        options: dict[str, Any] = {"tol": tol, "allow_fewer": True}
        plain = self.A / np.maximum(self.A.sum(axis=1, keepdims=True), 1) if self.normalize == "l1" else self.A
        found = _answer(fa.FAS(selection="spa", **options), self.S, k)
        if isinstance(found, RankError):
            assert not self.A.any()
            return
        self.certified(found, self.A, exact.spa_of(self.view(self.A), k))
        assert found.indices.tolist() == fa.SPA(**options).seek(plain, k).indices.tolist()

    def seek_by_noise(self) -> None:
        """Seek by a noise-aware rule; an exact answer must equal that of the plain array."""
        rule, k = str(self.rng.choice(NOISE_RULES)), int(self.rng.integers(2, min(5, self.n) + 1))
        solver = fa.FAS(selection=rule)
        plain = fa.SampleMatrix(self.A, normalize=self.normalize)
        here, there = _answer(solver, self.S, k), _answer(solver, plain, k)
        if isinstance(here, RankError):
            assert isinstance(there, RankError), f"{here!r} in place of {there!r}"
            return
        self.seen[f"{rule}, {here.certificate.kind}"] += 1
        assert len(here.indices) == k
        assert 0 <= here.indices.min() <= here.indices.max() < len(self.A)
        if here.points is None and here.certificate.kind == "exact":
            assert here.indices.tolist() == exact.spa_of(self.view(self.A), k)
        elif here.certificate.kind == "exact":
            assert not isinstance(there, RankError), f"{here!r} in place of {there!r}"
            assert here.indices.tolist() == there.indices.tolist()
            assert there.points is not None
            np.testing.assert_allclose(here.points, there.points, rtol=1e-6, atol=1e-9)
