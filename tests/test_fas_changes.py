"""Updates, appends and seeks in any order: FAS answers as SPA would from scratch."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import fastanchors as fa
from fastanchors.errors import RankError
from fastanchors.fas import seek as fas_seek
from fastanchors.fas import sidecar as fas_store
from matrices import metered
from naive.fas import residual_norms, separable

COLUMNS = 9


def answer(solver, S, k):
    try:
        return solver.seek(S, k, rng=0).indices.tolist()
    except RankError as error:
        return f"rank {error.rank}"


class Interleaved(RuleBasedStateMachine):
    """The index is used although the matrix is small (`no_small` below); in memory, or in a store."""

    @initialize(
        seed=st.integers(0, 10**6),
        sparse=st.booleans(),
        single=st.booleans(),
        normalize=st.sampled_from(["l1", None]),
        rounded=st.booleans(),
        stored=st.booleans(),
    )
    def start(self, seed, sparse, single, normalize, rounded, stored):
        self.rng = np.random.default_rng(seed)
        A = separable(self.rng, 120, COLUMNS, 4)
        A = np.round(5 * A) if rounded else A
        A = A.astype(np.float32) if single else A
        A = sp.csr_array(A) if sparse else A
        self.folder = tempfile.TemporaryDirectory() if stored else None
        if stored:
            fa.build(A, self.path, normalize=normalize).close()
            self.S = fa.open(self.path, mode="r+")
        else:
            self.S = fa.SampleMatrix(A, normalize=normalize)
        self.found = answer(fa.FAS(selection="spa"), self.S, 3)

    @property
    def path(self):
        return Path(self.folder.name) / "store"

    def where(self):
        return self.rng.integers(self.S.shape[0], size=3), self.rng.integers(COLUMNS, size=3)

    @rule(size=st.sampled_from([0.0, 0.01, 1.0, 30.0]))
    def set_entries(self, size):
        self.S.update(*self.where(), np.round(size * self.rng.random(3), 3))

    @rule(value=st.sampled_from([0.0, 0.25, 4.0]))
    def change_an_anchor(self, value):
        if isinstance(self.found, list):
            self.S[self.rng.choice(self.found), self.rng.integers(COLUMNS)] = value

    @rule()
    def copy_an_anchor(self):
        if isinstance(self.found, list):
            row = self.S.raw(np.full(COLUMNS, self.found[0]), np.arange(COLUMNS))
            self.S.update(np.full(COLUMNS, self.rng.integers(self.S.shape[0])), np.arange(COLUMNS), row)

    @rule(size=st.sampled_from([0.1, 1.0, 3.0]))
    def append(self, size):
        self.S.append((size * self.rng.random((2, COLUMNS))).astype(self.S.dtype))

    @rule(k=st.integers(1, 7))
    def seek(self, k):
        self.found = answer(fa.FAS(selection="spa"), self.S, k)
        assert self.found == answer(fa.SPA(), self.S, k)

    @rule(k=st.integers(1, 7), tol=st.sampled_from([None, 1e-3, 0.1, 0.5]), allow_fewer=st.booleans())
    def seek_with_a_tolerance(self, k, tol, allow_fewer):
        options = {"tol": tol, "allow_fewer": allow_fewer}
        assert answer(fa.FAS(**{"selection": "spa", **options}), self.S, k) == answer(fa.SPA(**options), self.S, k)

    @rule(k=st.integers(1, 5), budget=st.sampled_from([3, 20, 130, 300, 2000]))
    def seek_within_a_budget(self, k, budget):
        try:
            found = fa.FAS(budget=budget, allow_fewer=True).seek(self.S, k, rng=0)
        except RankError:
            return
        assert found.cost.rows_read <= budget
        if found.certificate.kind == "exact":
            assert found.indices.tolist() == answer(fa.SPA(allow_fewer=True), self.S, k)

    @precondition(lambda self: self.folder is not None)
    @rule()
    def compact(self):
        self.S.compact()

    @precondition(lambda self: self.folder is not None)
    @rule()
    def reopen(self):
        self.S.commit()
        self.S.close()
        self.S = fa.open(self.path, mode="r+")

    def teardown(self):
        if hasattr(self, "S"):
            self.seek(4)
            if self.folder is not None:
                self.S.close()
                self.folder.cleanup()


@pytest.fixture(autouse=True)
def _no_small(monkeypatch):
    for module, name in ((fas_seek, "SMALL"), (fas_store, "SMALL")):
        monkeypatch.setattr(module, name, 0)


class TestInterleaved(Interleaved.TestCase):
    settings = settings(max_examples=30, stateful_step_count=12)


@pytest.mark.parametrize("seed", range(30))
def test_walk(seed):
    """The same steps, drawn uniformly: longer sequences than a search for the shortest counterexample makes."""
    rng = np.random.default_rng(seed)
    yes = [bool(x) for x in rng.integers(2, size=3)]
    stored = seed % 3 > 0
    machine = Interleaved()
    machine.start(seed, *yes[:2], [None, "l1"][seed % 2], yes[2], stored)
    moves = {
        machine.set_entries: [[0.0, 0.01, 1.0, 30.0]],
        machine.change_an_anchor: [[0.0, 0.25, 4.0]],
        machine.copy_an_anchor: [],
        machine.append: [[0.1, 1.0, 3.0]],
        machine.seek: [range(1, 8)],
        machine.seek_with_a_tolerance: [range(1, 8), [None, 0.1, 0.3, 0.5], [False, True]],
        machine.seek_within_a_budget: [range(1, 6), [3, 20, 130, 300, 2000]],
    }
    moves |= {machine.compact: [], machine.reopen: []} if stored else {}
    for at in rng.integers(len(moves), size=20):
        move, arguments = list(moves.items())[at]
        move(*(values[rng.integers(len(values))] for values in arguments))
    machine.teardown()


def test_only_changed_rows_are_read():
    rng = np.random.default_rng(0)
    S = fa.SampleMatrix(separable(rng, 5000, 20, 5))
    first = fa.FAS(selection="spa").seek(S, 5)
    assert first.cost.rows_read >= 5000
    again = fa.FAS(selection="spa").seek(S, 5)
    assert again.cost.rows_read == 0
    assert again.certificate.kind == "exact"
    rows = rng.choice(5000, 50, replace=False)
    S.update(rows, rng.integers(20, size=50), 1e-3 * rng.random(50))
    S.append(rng.dirichlet(np.ones(20), 7))
    third = fa.FAS(selection="spa").seek(S, 5)
    assert third.indices.tolist() == fa.SPA().seek(S, 5).indices.tolist()
    assert third.cost.rows_read == 57 or "pass" in third.certificate.details["index"]


def test_many_changes_do_not_enlarge_the_coreset(monkeypatch):
    from fastanchors.fas import changes as fas_changes
    from fastanchors.fas.sidecar import recall

    monkeypatch.setattr(fas_changes, "_CROWDED", 100)
    rng = np.random.default_rng(1)
    S = fa.SampleMatrix(separable(rng, 3000, 15, 4))
    fa.FAS(selection="spa").seek(S, 4)
    for _ in range(20):
        S.update(rng.integers(3000, size=50), rng.integers(15, size=50), 1e-2 * rng.random(50))
        assert fa.FAS(selection="spa").seek(S, 4).indices.tolist() == fa.SPA().seek(S, 4).indices.tolist()
    assert len(recall(S).index.coreset) <= 300


def test_changes_of_all_rows_do_not_enlarge_the_coreset(monkeypatch):
    from fastanchors.fas import changes as fas_changes
    from fastanchors.fas.sidecar import recall

    monkeypatch.setattr(fas_changes, "_CROWDED", 200)
    rng = np.random.default_rng(2)
    S = fa.SampleMatrix(separable(rng, 3000, 15, 4))
    data = metered(S)
    fa.FAS(selection="spa").seek(S, 4)
    before = len(recall(S).index.coreset)
    for A in (separable(rng, 3000, 15, 4), rng.random((3000, 15))):
        S.update(np.repeat(np.arange(3000), 15), np.tile(np.arange(15), 3000), A.ravel())
        kept = recall(S).current(data).index
        assert len(kept.coreset) <= max(before, 200)
        expected = fa.SPA().seek(S, 4).indices.tolist()
        assert kept.run.indices[: kept.proved].tolist() == expected[: kept.proved]
        outside = np.setdiff1d(np.arange(3000), kept.coreset.indices)
        residuals = residual_norms(S.rows(np.arange(3000)), kept.run.indices[:-1])[outside].max(axis=0)
        assert (residuals[: len(kept.tails)] <= kept.tails).all()
        assert fa.FAS(selection="spa").seek(S, 4).indices.tolist() == expected
