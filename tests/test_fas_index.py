"""The index: bounds that hold, and proved anchors that are SPA's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import fastanchors as fa
from fastanchors.fas import bounds as fas_bounds
from fastanchors.fas import seek as fas_seek
from fastanchors.fas.bounds import Sketch, Thresholds, row_space
from fastanchors.fas.coreset import Coreset, decide, residual_bounds
from fastanchors.fas.index import build_index
from fastanchors.fas.lazy_index import extend_index
from fastanchors.greedy.reader import Reader
from fastanchors.greedy.successive import successive_projection
from fastanchors.matrix import open_matrix
from fastanchors.solvers import choose
from matrices import metered
from naive.fas import AWKWARD, residual_norms, separable


def spa(A, k):
    return successive_projection(Reader(open_matrix(A)), k, allow_fewer=True).indices


def case(kind, seed, sparse=False, single=False):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 30))
    A = separable(rng, int(rng.integers(60, 500)), n, int(rng.integers(2, min(n, 9))), rng.choice([0.05, 1]))
    A = AWKWARD[kind](rng, A)
    A = A.astype(np.float32) if single else A
    return sp.csr_array(A) if sparse else A


@pytest.mark.parametrize("kind", AWKWARD)
@pytest.mark.parametrize("seed", range(3))
def test_proved_anchors_are_those_of_spa_and_tails_hold(kind, seed):
    A = case(kind, seed, sparse=seed == 1, single=seed == 2)
    k = min(8, *A.shape)
    index = build_index(metered(A), k, np.random.default_rng(seed), pilot=(5, 20, 60)[seed])
    expected = spa(A, k)
    assert index.run.indices[: index.proved].tolist() == expected[: index.proved]
    true = residual_norms(A, index.run.indices)
    outside = np.setdiff1d(np.arange(A.shape[0]), index.coreset.indices)
    assert (true[outside, : len(index.run)].max(axis=0, initial=0) <= index.tails).all()
    assert true[outside, 0].max(initial=0) <= index.norm
    longer = extend_index(metered(A), index, k)
    if longer is not None:  # None: rounding could change a choice, and it says so
        assert longer.run.indices.tolist() == expected[: len(longer.run)]
        assert longer.complete == (len(expected) < k)
        assert len(longer.run) == len(expected)
        true = residual_norms(A, longer.run.indices)
        outside = np.setdiff1d(np.arange(A.shape[0]), longer.coreset.indices)
        assert (true[outside, : len(longer.run)].max(axis=0, initial=0) <= longer.tails).all()


@pytest.mark.parametrize("kind", ["copies", "near_ties", "noisy"])
def test_bounds_prove_the_anchors_of_separable_families(kind):
    """In these families every anchor is proved without passes of SPA, after reading a small part of the rows."""
    rng = np.random.default_rng(3)
    A = AWKWARD[kind](rng, separable(rng, 6000, 30, 6))
    data = metered(A)
    index = build_index(data, 6, rng, pilot=200, keep=False)
    assert index.proved == 6
    assert data.cost.rows_read <= 1.05 * len(A) + 200


@given(
    seed=st.integers(0, 10**6),
    m=st.integers(1, 60),
    n=st.integers(2, 12),
    d=st.integers(1, 6),
    sparse=st.booleans(),
    scale=st.sampled_from([1.0, 1e-30, 1e30]),
)
def test_bounds_hold_for_any_anchors(seed, m, n, d, sparse, scale):
    rng = np.random.default_rng(seed)
    A = rng.random((m, n)) * (rng.random((m, n)) < 0.6) * scale * 10.0 ** rng.uniform(-8, 8, (m, 1))
    T = min(4, n)
    basis = np.linalg.qr(rng.standard_normal((n, T)))[0].T
    V = row_space(rng.random((5, n)), min(d, n), rng)
    sketch = Sketch.of(metered(sp.csr_array(A) if sparse else A), V)
    zero = np.zeros(T)
    scan = sketch.scan(Thresholds(basis, zero, zero, zero, np.full(T, m)), np.zeros(m, bool), m)
    for t in range(T):
        rest = A.astype(np.longdouble)
        rest = rest - (rest @ basis[:t].T) @ basis[:t]
        true = np.sqrt((rest**2).sum(axis=1))
        bound = np.zeros(m)
        bound[scan.top_rows[t][scan.top_rows[t] >= 0]] = scan.top_bounds[t][scan.top_rows[t] >= 0]
        assert (bound >= true).all()
        norms = np.linalg.norm(A, axis=1)
        assert (bound <= 2 * (norms + 1e-300)).all()
        if V.shape[1] == n:  # nothing is outside: the bound equals the residual up to rounding
            np.testing.assert_allclose(bound / (norms + 1e-300), true / (norms + 1e-300), atol=2e-6)
    exact = residual_bounds(A, (A * A).sum(axis=1), basis, T)
    assert (exact[:, 0] >= np.linalg.norm(A, axis=1) * (1 - 1e-15)).all()


def test_scan_does_not_depend_on_chunks(monkeypatch):
    rng = np.random.default_rng(0)
    A = np.repeat(separable(rng, 300, 12, 5), 3, axis=0)
    data = metered(A)
    sketch = Sketch.of(data, row_space(A[:50], 8, rng))
    run = Coreset.read(data, np.arange(40)).run(5)
    known = np.zeros(len(A), bool)
    known[:40] = True
    whole = sketch.scan(run.thresholds, known, 6)
    monkeypatch.setattr(fas_bounds, "_SCAN_CHUNK", 64)
    monkeypatch.setattr(fas_bounds, "_SCAN_ROWS", 16)
    parts = sketch.scan(run.thresholds, known, 6)
    for a, b in zip((whole.first, whole.top_rows, whole.top_bounds), (parts.first, parts.top_rows, parts.top_bounds)):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("kind", ["copies", "noisy", "near_ties"])
@pytest.mark.parametrize("scale", [1.0, 1e-120, 1e120])
def test_single_precision_clears_no_row_that_double_does_not(kind, scale, monkeypatch):
    """The scan gives the same result with and without its first pass in single precision, for any scale."""
    rng = np.random.default_rng(5)
    A = AWKWARD[kind](rng, separable(rng, 3000, 20, 6)) * scale
    data = metered(A)
    sketch = Sketch.of(data, row_space(A[:60], 9, rng))
    run = Coreset.read(data, np.arange(300)).run(6)
    known = np.arange(len(A)) < 300
    for thresholds in (run.thresholds, run.thresholds.lowered(0.99), run.thresholds.cut(3).with_next_step()):
        with monkeypatch.context() as patch:
            quick = sketch.scan(thresholds, known, 5)
            patch.setattr(fas_bounds, "_single_slop", lambda *sizes: 1e30)  # clears nothing
            full = sketch.scan(thresholds, known, 5)
        for name in ("first", "top_rows", "top_bounds", "tied_bounds"):
            np.testing.assert_array_equal(getattr(quick, name), getattr(full, name))


def test_steps_at_the_noise_level_do_not_read_all_rows():
    """Beyond the true anchors the bounds prove nothing; a longer seek continues with passes."""
    rng = np.random.default_rng(7)
    A = fa.datasets.separable(30_000, 120, 5, noise=0.02, dtype=np.float32, rng=rng).A
    index = build_index(metered(A), 12, rng)
    assert index.proved == 5
    assert index.stuck
    assert len(index.run) < 12
    assert index.run.indices[:5].tolist() == spa(A, 5)
    assert extend_index(metered(A), index, 12).run.indices.tolist() == spa(A, 12)


def test_directions_the_pilot_does_not_have_are_found_in_a_large_matrix():
    """Rows outside the span of the coreset are read even if every row is in doubt."""
    rng = np.random.default_rng(8)
    A = separable(rng, 90_000, 12, 3).astype(np.float32)
    A[70_000:70_004] += 0.5 * rng.random((4, 12), dtype=np.float32)
    data = metered(A)
    index = build_index(data, 7, rng, pilot=50)
    assert index.run.indices.tolist() == spa(A, 7)
    assert index.proved == 7
    assert data.cost.rows_read < 1.5 * len(A)


def test_exact_residuals_are_tight():
    rng = np.random.default_rng(1)
    A = separable(rng, 200, 20, 6)
    anchors = spa(A, 6)
    run = Coreset.read(metered(A), np.arange(200)).run(6)
    assert run.indices.tolist() == anchors
    bounds = residual_bounds(A, (A * A).sum(axis=1), run.thresholds.basis, 6)
    true = residual_norms(A, anchors)[:, :6]
    assert (bounds >= true).all()
    np.testing.assert_allclose(bounds, true.astype(float), atol=1e-10)


def test_a_choice_that_rounding_could_change_is_rejected():
    norms = np.array([1.0, 2.0, 3.0])
    clear = decide(np.array([1.0, 0.5, 0.4]), norms, 4e-9)
    assert clear is not None
    assert clear.place == 0
    tied = decide(np.array([1.0, 1.0 - 5e-7, 0.4]), norms, 4e-9)
    assert tied is not None
    assert tied.place == 1  # the longer of the two
    assert tied.tied.tolist() == [0, 1]
    assert decide(np.array([1.0, 1.0 - 1e-6, 0.4]), norms, 4e-9) is None  # at the edge of the band
    assert decide(np.array([1.0, 1.0, 0.4]), np.array([1.0, 1.0 + 1e-6, 1.0]), 4e-9) is None  # equally long, or not
    near = decide(np.array([1.0, 1.0, 0.4]), np.array([1.0, 1.0 + 0.7e-6, 1.0]), 4e-9)
    assert near is not None  # certainly equal, but a longer unknown row could make them differ
    assert near.place == 0
    assert 1.0 + 0.99e-6 < near.norm**2 < 1.0 + 1e-6


def near_the_edges(rng, size, largest=1.0):
    """Squared residuals and norms for which rounding matters: at the edge of the tie band, with nearly equal norms."""
    values = 1 - rng.choice([0.0, 1e-6, 0.75e-6], size) + rng.uniform(-2e-8, 2e-8, size) * rng.choice([0, 0.1, 1], size)
    norms = 1 + rng.choice([0.0, 1e-6, -1e-6, 3e-6], size) + rng.uniform(-4e-9, 4e-9, size) * rng.choice([0, 1], size)
    return np.minimum(values, largest), norms


@pytest.mark.parametrize("seed", range(20))
def test_a_decision_is_robust_to_rounding_and_unknown_rows(seed):
    """Every row is moved by its largest error, one by one, and excluded rows are added that full SPA would see."""
    rng = np.random.default_rng(seed)
    decided = tolerant = 0
    for _ in range(300):
        size, doubt = int(rng.integers(1, 7)), rng.choice([2e-9, 6e-9])
        values, norms = near_the_edges(rng, size)
        values[rng.integers(size)] = 1.0
        decision = decide(values, norms, doubt)
        if decision is None:
            continue
        decided += 1
        tolerant += decision.high > 0
        index = rng.choice(1000, size, replace=False)
        index.sort()
        for _ in range(20):
            more, long = near_the_edges(rng, 4, largest=2.0)
            more += rng.choice([0.0, 0.25e-6, 1e-6])
            where = rng.integers(1000, 2000, 4)
            where[0] = rng.integers(1000)
            where[~np.isin(where, index, invert=True)] = 2000
            limits = [np.array([getattr(decision, name)]) for name in ("low", "high", "norm")]
            thresholds = Thresholds(np.zeros((1, 1)), *limits, np.array([index[decision.place]]))
            fine = ~thresholds.disturbed(where, np.sqrt(long), np.sqrt(more)[:, None])[:, 0]
            order = np.argsort(np.append(index, where[fine]), kind="stable")
            residuals = np.append(values, more[fine]) * (1 + doubt * rng.choice([-1, 0, 1], size + fine.sum()))
            chosen = choose(residuals[order], np.append(norms, long[fine])[order])
            assert order[chosen] == decision.place
    assert decided > 100
    assert tolerant > 20


def update_at_the_edge(offset, least=0.9e-6):
    A = 0.01 * np.random.default_rng(0).random((2000, 6))
    A[3] = [10, 0, 0, 0, 0, 0]
    A[5] = [0.1, 1, 0, 0, 0, 0]
    A[7] = [0.5, np.sqrt((1 - 1e-6) * (1 - offset)), 0, 0, 0, 0]
    S = fa.SampleMatrix(A, normalize=None)
    fa.FAS(selection="spa").seek(S, 3)
    S.update(np.full(6, 11), np.arange(6), [0.5, np.sqrt(1 - least), 0, 0, 0, 0])
    return S


@pytest.mark.parametrize("offset", [-6e-9, 0.0, 4.5e-9, 6e-9, 8e-9])
def test_a_row_just_below_the_tie_band_does_not_excuse_longer_ones(offset, monkeypatch):
    monkeypatch.setattr(fas_seek, "SMALL", 0)
    S = update_at_the_edge(offset)
    assert fa.FAS(selection="spa").seek(S, 3).indices.tolist() == fa.SPA().seek(S, 3).indices.tolist()


def test_the_tie_band_is_checked_for_every_possible_edge():
    """The second row is chosen from all three and when alone, but not if the last and longest has left the band."""
    norms = np.array([1 - 1.5e-6, 1 - 0.8e-6, 1.0])
    values = np.array([1 - 1e-6 + 4e-9, 1.0, 1 - 1e-6 + 1e-9])
    clear = decide(values, norms, 1e-10)
    assert clear.place == 1
    # If the largest residual were larger by 2e-9, the longest row would leave the band and the first be equal.
    assert clear.high == 0.0
    assert decide(values, norms, 1e-8) is None


def test_zero_matrix_and_zero_pilot():
    A = np.zeros((500, 8))
    assert build_index(metered(A), 3, np.random.default_rng(0), pilot=10).proved == 0
    A[-1, 2] = A[-2, 3] = 1.0
    index = build_index(metered(A), 2, np.random.default_rng(0), pilot=10)
    assert index.run.indices.tolist() == spa(A, 2)
    assert index.proved == 2


def test_no_row_in_doubt_after_the_warm_up():
    """All rows near a threshold may be known before the rounds on doubtful rows begin."""
    A = np.random.default_rng(0).random((20_000, 120), dtype=np.float32)
    S = fa.SampleMatrix(A)
    found = fa.FAS(selection="spa").seek(S, 3, rng=0)
    assert found.certificate.kind == "exact"
    assert np.array_equal(found.indices, fa.SPA().seek(S, 3).indices)
