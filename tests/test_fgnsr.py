"""FGNSR: the projection and the optimum against obvious twins; anchors under noise, and from FAS's pool."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastanchors as fa
from fastanchors.errors import InvalidInputError, InvalidTypeError, RankError
from fastanchors.solvers.fgnsr import project, self_expression
from naive.family import project_on_omega
from naive.family import self_expression as naive_self_expression


@settings(max_examples=60)
@given(st.integers(1, 6), st.integers(0, 2**32 - 1), st.floats(0.1, 8.0), st.floats(0.01, 10.0))
def test_projection_is_that_of_the_naive_twin(m, seed, k, size):
    rng = np.random.default_rng(seed)
    X, w = size * rng.standard_normal((m, m)), rng.uniform(0.5, 2.0, m)
    expected = project_on_omega(X, w, k)
    price = project(X, w, k, guess=rng.random())
    np.testing.assert_allclose(X, expected, atol=2e-6 * max(1.0, size))
    assert price >= 0
    assert np.trace(X) <= k * (1 + 1e-9)
    assert (X >= 0).all()
    bounds = w[None, :] / w[:, None] * np.diag(X)[:, None]
    assert (bounds - X >= -1e-12).all()


def test_projecting_twice_changes_nothing():
    rng = np.random.default_rng(0)
    X, w = 3 * rng.standard_normal((12, 12)), rng.uniform(0.5, 2.0, 12)
    project(X, w, 3.0)
    again = X.copy()
    project(again, w, 3.0)
    np.testing.assert_allclose(again, X, atol=1e-9)


@pytest.mark.parametrize("n", [2, 30])  # both ways of multiplying by the Gram matrix
def test_the_optimum_is_that_of_a_general_solver(n):
    A = np.random.default_rng(1).random((6, n))
    found = self_expression(A, 1, 20_000, 1e-10)
    expected = naive_self_expression(A, 1)
    assert expected.success
    assert found.weight.sum() == pytest.approx(1.0, rel=1e-6)
    assert found.objective == pytest.approx(expected.fun, rel=1e-6)


def test_noiseless_weight_goes_to_the_anchors():
    made = fa.datasets.separable(40, 8, 3, rng=2)
    found = fa.FGNSR(iterations=20_000, tol=1e-9).seek(made.A, 3)
    assert fa.metrics.anchor_recovery(found.indices, made.labels) == 1.0
    assert found.certificate.details["objective"] < 1e-6
    assert found.certificate.kind == "none"


@pytest.mark.parametrize("seed", range(4))
def test_a_little_noise_does_no_harm(seed):
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


def test_fewer_anchors_than_asked_for():
    A = np.vstack([np.eye(4)[:2], np.eye(4)[:2].mean(axis=0), np.eye(4)[:2]])
    with pytest.raises(RankError, match="only 2 of 3"):
        fa.FGNSR().seek(A, 3)
    assert fa.FGNSR(allow_fewer=True).seek(A, 3).indices.tolist() == [0, 1]


def test_the_certificate_says_whether_the_steps_sufficed():
    A = fa.datasets.separable(30, 8, 3, rng=0).A
    short = fa.FGNSR(iterations=2).seek(A, 3, rng=0).certificate
    assert not short.details["converged"]
    assert "stopped before tol" in short.statement
    loose = fa.FGNSR(tol=10.0).seek(A, 3, rng=0).certificate
    assert loose.details["converged"]
    assert "stopped" not in loose.statement
