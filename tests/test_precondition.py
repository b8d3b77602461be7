"""Preconditioned SPA: the maps against their definitions, the ellipsoid against its optimality conditions."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls

import fastanchors as fa
from fastanchors.errors import InvalidInputError, RankError
from fastanchors.solvers.precondition import minimum_volume_ellipsoid, preconditioner, singular_space
from matrices import metered
from naive import solvers as naive


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.1])
@pytest.mark.parametrize("seed", range(4))
def test_spa_preconditioning_equals_its_naive_twin(seed, noise):
    A, _ = naive.separable(np.random.default_rng(seed), 100, 25, 6, noise=noise)
    found = fa.SPA(precondition="spa").seek(A, 6)
    assert set(found.indices) == set(naive.preconditioned_spa(A, 6))  # the first anchors tie by construction
    assert found.certificate.kind == "none"


@pytest.mark.parametrize("method", ["spa", "svd", "mve"])
def test_anchors_are_found_without_noise(method):
    for seed in range(4):
        A, anchors = naive.separable(np.random.default_rng(seed), 200, 30, 8)
        assert set(fa.SPA(precondition=method).seek(A, 8).indices) == set(anchors)
        assert set(fa.SPA(precondition=method).seek(sp.csr_array(A), 8).indices) == set(anchors)


def test_preconditioning_survives_noise_that_plain_spa_does_not():
    """The ill-conditioned family of Gillis and Vavasis: middle points moved outwards, singular values 1 … 10⁻³."""
    k, n = 10, 10
    wins = dict.fromkeys(["plain", "spa", "svd", "mve"], 0)
    for seed in range(10):
        rng = np.random.default_rng(seed)
        U, _, V = np.linalg.svd(rng.random((k, n)))
        W = (U * np.geomspace(1, 1e-3, k)) @ V
        W = W - min(0.0, W.min())  # non-negative by a shift, which keeps it ill-conditioned
        pairs = np.array([(i, j) for i in range(k) for j in range(i)])
        middle = (W[pairs[:, 0]] + W[pairs[:, 1]]) / 2
        A = np.vstack([W, middle + 0.1 * (middle - W.mean(axis=0))])
        A = np.maximum(A, 0)
        for name in wins:
            found = fa.SPA(precondition=None if name == "plain" else name, allow_fewer=True).seek(A, k)
            wins[name] += set(found.indices) == set(range(k))
    assert wins["plain"] <= 5
    assert all(wins[name] >= 9 for name in ("spa", "svd", "mve"))


def test_singular_space_is_that_of_lapack():
    rng = np.random.default_rng(0)
    A = rng.random((80, 6)) @ (np.geomspace(1, 1e-5, 6)[:, None] * rng.random((6, 40)))
    for source in (A, sp.csr_array(A)):
        V, sigma = singular_space(metered(source), 6)
        np.testing.assert_allclose(sigma, np.linalg.svd(A, compute_uv=False)[:6], rtol=1e-8)
        np.testing.assert_allclose(V.T @ V, np.eye(6), atol=1e-12)
        np.testing.assert_allclose(np.linalg.norm(A @ V, axis=0), sigma, rtol=1e-8)


def test_whitening_whitens():
    A, _ = naive.separable(np.random.default_rng(1), 100, 40, 5, noise=0.1)
    Y = A @ preconditioner("svd", metered(A), 5)
    np.testing.assert_allclose(Y.T @ Y, np.eye(5), atol=1e-8)


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(0, 60))
def test_ellipsoid_meets_its_optimality_conditions(seed, d, more):
    """John's theorem: all points inside, and the identity is a positive combination of contact points' x·xᵀ."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((d + more, d)) * np.geomspace(1, 30, d)
    P = minimum_volume_ellipsoid(X)
    omega = np.einsum("ij,jk,ik->i", X, P, X)
    assert omega.max() <= 1 + 1e-12
    contact = X[omega > 1 - 1e-6]
    # The log-volume cannot fall: P⁻¹ / d lies in the cone of the contacts' x·xᵀ.
    L = np.linalg.cholesky(P)
    Z = contact @ L
    outer = np.einsum("ia,ib->iab", Z, Z).reshape(len(Z), -1)
    weights, gap = nnls(outer.T, np.eye(d).ravel())
    assert gap <= 1e-4
    assert weights.sum() == pytest.approx(d, rel=1e-4)


@pytest.mark.parametrize("d", [2, 3, 5])
def test_ellipsoid_equals_its_naive_twin_and_has_no_duality_gap(d):
    """Every design bounds the volume: log det P ≤ −d·log d − log det Σ λ_i·x_i·x_iᵀ for all P that hold the points."""
    X = np.random.default_rng(3).standard_normal((40, d))
    P = minimum_volume_ellipsoid(X)
    assert np.einsum("ij,jk,ik->i", X, P, X).max() <= 1 + 1e-12
    twin, weights = naive.minimum_volume_ellipsoid(X)
    np.testing.assert_allclose(P, twin, rtol=1e-5, atol=1e-6)
    bound = -d * np.log(d) - np.linalg.slogdet((X.T * weights) @ X)[1]
    assert 0 <= bound - np.linalg.slogdet(P)[1] + 1e-12 <= 1e-7


def test_ellipsoid_makes_separable_anchors_orthonormal():
    rng = np.random.default_rng(4)
    W = rng.random((5, 5))
    X = np.vstack([W, rng.dirichlet(np.ones(5), 200) @ W])
    Y = W @ np.linalg.cholesky(minimum_volume_ellipsoid(X))
    np.testing.assert_allclose(Y @ Y.T, np.eye(5), atol=1e-7)


@pytest.mark.parametrize("method", ["spa", "svd", "mve"])
def test_low_rank_is_an_error(method):
    rng = np.random.default_rng(5)
    A = rng.random((50, 3)) @ rng.random((3, 20))
    with pytest.raises(RankError, match="3") as caught:
        fa.SPA(precondition=method).seek(A, 5)
    assert caught.value.rank == 3
    assert len(fa.SPA(precondition=method, allow_fewer=True).seek(A, 5)) == 3


@pytest.mark.parametrize("method", ["svd", "mve"])
def test_entries_whose_squares_underflow_are_refused(method):
    A = fa.datasets.separable(60, 8, 4, rng=0).A * 2.0**-1030
    with pytest.raises(InvalidInputError, match="underflow"):
        fa.SPA(precondition=method).seek(A, 3)


@pytest.mark.parametrize("solver", [fa.FAS, fa.SPA])
@pytest.mark.parametrize("method", ["spa", "svd", "mve"])
@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf, 1.7e308])
def test_entries_are_checked(solver, method, value):
    A = fa.datasets.separable(30, 6, 3, noise=0.01, rng=0).A
    A[0, 0] = value
    for form in (A, sp.csr_array(A)):
        with pytest.raises(InvalidInputError, match=r"A\[0|overflow|rank 1"):
            solver(precondition=method).seek(form, 3)


def test_one_anchor_among_rows_of_nearly_equal_size():
    np.testing.assert_allclose(minimum_volume_ellipsoid(np.array([[0.5], [0.5 + 1e-7], [-0.25]])), [[4.0]], rtol=1e-6)
    A = scipy.linalg.circulant([1.0, 2, 0, 1, 2, 0, 0, 2, 2, 0, 0, 2, 2])
    for robust in (None, "average"):
        assert len(fa.SPA(precondition="mve", robust=robust).seek(A, 1)) == 1
