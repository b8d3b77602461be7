"""FGNSR: the projection and the optimum against naive versions; anchors under noise, and from FAS's pool."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import fastanchors as fa
from fastanchors.errors import InvalidInputError, InvalidTypeError, RankError, TooLargeError
from fastanchors.solvers import fgnsr
from fastanchors.solvers.fgnsr import gains, project, self_expression
from naive.family import best_direction, project_on_omega, spread
from naive.family import self_expression as naive_self_expression


@settings(max_examples=60)
@given(st.integers(1, 6), st.integers(0, 2**32 - 1), st.floats(0.1, 8.0), st.floats(0.01, 10.0))
def test_projection_is_that_of_the_naive_twin(m, seed, k, size):
    rng = np.random.default_rng(seed)
    X, w = size * rng.standard_normal((m, m)), rng.uniform(0.5, 2.0, m)
    expected = project_on_omega(X, w, k)
    price = project(X, np.arange(m), w, k, guess=rng.choice([0.0, rng.random(), 10.0]))
    np.testing.assert_allclose(X, expected, atol=2e-6 * max(1.0, size))
    assert price >= 0
    assert np.trace(X) <= k * (1 + 1e-9)
    assert (X >= 0).all()
    bounds = w[None, :] / w[:, None] * np.diag(X)[:, None]
    assert (bounds - X >= -1e-12).all()


def test_projecting_twice_changes_nothing():
    rng = np.random.default_rng(0)
    X, w = 3 * rng.standard_normal((12, 12)), rng.uniform(0.5, 2.0, 12)
    project(X, np.arange(12), w, 3.0)
    again = X.copy()
    project(again, np.arange(12), w, 3.0)
    np.testing.assert_allclose(again, X, atol=1e-9)


def test_active_rows_are_projected_as_if_the_others_were_zero():
    rng = np.random.default_rng(1)
    active, w = np.array([7, 2, 5]), rng.uniform(0.5, 2.0, 9)
    X = np.zeros((9, 9))
    X[active] = rng.standard_normal((3, 9))
    some = X[active]
    project(X, np.arange(9), w, 1.0)
    project(some, active, w, 1.0)
    np.testing.assert_allclose(some, X[active], atol=1e-9)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_gap_is_the_best_a_linear_step_can_do(k, monkeypatch):
    monkeypatch.setattr("fastanchors.solvers.fgnsr._BLOCK_ENTRIES", 14)  # two rows at a time
    rng = np.random.default_rng(k)
    A, X = rng.random((7, 4)), rng.random((7, 7))
    w = A.sum(axis=1)
    project(X, np.arange(7), w, float(k))
    R = A - X.T @ A
    gap = np.maximum(np.sort(gains(A, R, w))[-k:], 0.0).sum() - np.vdot(A @ R.T, X)
    assert gap == pytest.approx(best_direction(A, X, k), rel=1e-7)


@pytest.mark.parametrize(("m", "n", "k"), [(6, 2, 1), (6, 30, 1), (7, 4, 2)])
def test_the_optimum_is_that_of_a_general_solver(m, n, k):
    A = np.random.default_rng(1).random((m, n))
    found = self_expression(A, k, 20_000, 1e-6)
    expected = naive_self_expression(A, k)
    assert expected.success
    assert found.gap <= 1e-6
    assert found.weight.sum() == pytest.approx(k, rel=1e-6)
    assert found.objective * spread(A) == pytest.approx(expected.fun, abs=1.1e-6 * spread(A))


def test_every_gap_is_a_bound_on_the_optimum():
    A = np.random.default_rng(4).random((30, 6))
    best = self_expression(A, 4, 50_000, 1e-5)
    for iterations in (1, 10, 60, 200):
        found = self_expression(A, 4, iterations, 0.0)
        assert found.iterations == iterations
        assert found.objective - found.gap <= best.objective <= found.objective + 1e-5


def test_noiseless_weight_goes_to_the_anchors():
    """At once, with the default options: SPA's choice is the optimum, and the first pass proves it."""
    made = fa.datasets.separable(400, 20, 6, rng=2)
    found = fa.FGNSR().seek(made.A, 6)
    assert fa.metrics.anchor_recovery(found.indices, made.labels) == 1.0
    np.testing.assert_allclose(found.certificate.details["weight"], 1.0, atol=1e-9)
    assert found.certificate.details["objective"] < 1e-12
    assert found.certificate.details["converged"]
    assert found.certificate.kind == "none"


def middle_points(k, n, push, seed):
    """k anchors close together and the middle points of all pairs, moved away from the mean (after Gillis and Luce)."""
    H = np.random.default_rng(seed).dirichlet(np.ones(n), k)
    H = 0.2 * H + 0.8 * H.mean(axis=0)
    i, j = np.triu_indices(k, 1)
    A = np.vstack([H, (H[i] + H[j]) / 2])
    outward = A - A.mean(axis=0)
    outward[:k] = 0.0
    return np.maximum(A + push * np.linalg.norm(A) / np.linalg.norm(outward) * outward, 0.0)


def test_weighing_all_rows_at_once_sees_what_greedy_steps_miss():
    found = {"fgnsr": 0.0, "spa": 0.0}
    for seed in range(5):
        A = middle_points(8, 20, 0.04, seed)
        found["fgnsr"] += np.isin(np.arange(8), fa.FGNSR().seek(A, 8).indices).mean() / 5
        found["spa"] += np.isin(np.arange(8), fa.SPA().seek(A, 8).indices).mean() / 5
    assert found["fgnsr"] > 0.9
    assert found["spa"] < 0.6


@pytest.mark.parametrize("seed", range(4))
def test_anchors_are_found_under_a_little_noise(seed):
    made = fa.datasets.separable(120, 20, 5, noise=0.05, rng=100 + seed)
    assert fa.metrics.anchor_recovery(fa.FGNSR().seek(made.A, 5).indices, made.labels) == 1.0


def test_large_matrices_are_cut_to_the_pool_of_fas():
    made = fa.datasets.separable(3000, 12, 4, noise=0.02, rng=3)
    found = fa.FGNSR(candidates=50).seek(made.A, 4, rng=4)
    assert fa.metrics.anchor_recovery(found.indices, made.labels) == 1.0
    assert found.certificate.details["candidates"] <= 50
    assert found.indices.tolist() == fa.FGNSR(candidates=50).seek(made.A, 4, rng=4).indices.tolist()
    few = fa.FGNSR(candidates=1).seek(made.A, 4, rng=4)  # never fewer than k
    assert few.certificate.details["candidates"] == 4
    sampled = fa.FGNSR(candidates=50).seek(fa.SampleMatrix(made.A, normalize=None), 4, rng=4)
    assert fa.metrics.anchor_recovery(sampled.indices, made.labels) == 1.0


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"candidates": 0}, InvalidInputError, "candidates must be at least 1"),
        ({"iterations": 1.5}, InvalidTypeError, "iterations must be an integer"),
        ({"tol": -1.0}, InvalidInputError, "tol must be"),
    ],
)
def test_bad_options_are_one_clear_error(options, error, message):
    with pytest.raises(error, match=message):
        fa.FGNSR(**options).seek(np.eye(3), 2)


def test_fewer_anchors_than_requested():
    A = np.vstack([np.eye(4)[:2], np.eye(4)[:2].mean(axis=0), np.eye(4)[:2]])
    with pytest.raises(RankError, match="only 2 of 3"):
        fa.FGNSR().seek(A, 3)
    assert fa.FGNSR(allow_fewer=True).seek(A, 3).indices.tolist() == [0, 1]


def test_the_certificate_says_whether_the_steps_sufficed():
    A = fa.datasets.separable(30, 8, 3, noise=0.2, rng=0).A
    short = fa.FGNSR(iterations=2, tol=1e-9).seek(A, 3, rng=0).certificate
    assert not short.details["converged"]
    assert short.details["iterations"] == 2
    assert "1e-09 was requested" in short.statement
    loose = fa.FGNSR(tol=10.0).seek(A, 3, rng=0).certificate
    assert loose.details["converged"]
    assert loose.details["gap"] <= 10.0
    assert "requested" not in loose.statement


def test_one_distinct_row():
    found = fa.FGNSR().seek(np.ones((3, 4)), 1)
    assert found.indices.tolist() == [0]
    assert found.certificate.details["converged"]


def test_a_row_that_is_as_good_as_zero_is_no_candidate():
    A = fa.datasets.separable(60, 8, 4, rng=0).A
    A[5] = 0
    expected = fa.FGNSR().seek(A, 4)
    A[5, 2] = 5e-324
    assert fa.FGNSR().seek(A, 4).indices.tolist() == expected.indices.tolist()


@pytest.mark.parametrize("rows", [10**6, 10**6 + 1])
def test_a_million_candidates_are_refused(rows, monkeypatch):
    monkeypatch.setattr(fgnsr, "nearest_to_chosen", None)  # not reached
    monkeypatch.setattr(
        fgnsr, "distinct_points", lambda *_: (np.arange(10**6), np.broadcast_to(np.ones(2), (10**6, 2)))
    )
    with pytest.raises(TooLargeError, match=r"1000000×1000000 weights.*4e\+04 GB of memory.*fewer candidates"):
        fa.FGNSR(candidates=10**6).seek(sp.csr_array((rows, 2)), 2)
