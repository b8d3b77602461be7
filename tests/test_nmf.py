"""NMF started from anchors: the start, scikit-learn's result from it, and other starts for comparison."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import NMF

import fastanchors as fa
from fastanchors.errors import FastAnchorsError, InvalidInputError, InvalidTypeError, RankError
from naive.encode import encode as naive_encode
from naive.family import hals


@pytest.fixture(scope="module")
def near_separable():
    return fa.datasets.separable(150, 20, 4, noise=0.02, rng=0).A


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_it_is_scikit_learn_from_the_anchors_and_their_encoding(near_separable, make):
    X = near_separable
    scaled = X / X.sum(axis=1, keepdims=True)
    anchors = fa.SPA().seek(scaled, 4).indices
    H = X[anchors]
    W = naive_encode(X, H)
    model = NMF(4, init="custom", max_iter=25, tol=0.0)
    expected = model.fit_transform(X, W=W.copy(), H=H.copy())
    found = fa.nmf(make(X), 4, anchor_solver="spa", max_iter=25, tol=0.0)
    assert found.anchors.tolist() == anchors.tolist()
    assert found.start_error == pytest.approx(np.linalg.norm(X - W @ H), rel=1e-6)
    np.testing.assert_allclose(found.W @ found.H, expected @ model.components_, atol=1e-6)
    assert found.iterations == 25
    assert not found.converged
    assert found.error == pytest.approx(np.linalg.norm(X - found.W @ found.H), rel=1e-6)
    assert found.error <= found.start_error


@pytest.mark.parametrize("noise", [0.02, 0.5])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_it_is_the_naive_twin_entry_by_entry(noise, make):
    X = fa.datasets.separable(40, 12, 3, noise=noise, rng=3).A
    found = fa.nmf(make(X), 3, max_iter=20, tol=0.0, rng=0)
    start = X[found.anchors]
    W, H, errors = hals(X, naive_encode(X, start), start, 20)
    assert found.start_error == pytest.approx(errors[0], rel=1e-6)
    np.testing.assert_allclose(found.W, W, atol=1e-6 * np.abs(W).max())
    np.testing.assert_allclose(found.H, H, atol=1e-6 * np.abs(H).max())
    assert found.error == pytest.approx(errors[-1], rel=1e-9)
    assert (np.diff(errors) <= 1e-12).all()


@pytest.mark.parametrize("solver", ["cd", "mu"])
def test_more_iterations_never_do_worse(near_separable, solver):
    errors = [fa.nmf(near_separable, 4, max_iter=n, tol=0.0, solver=solver, rng=0).error for n in (1, 5, 10, 40, 160)]
    assert (np.diff(errors) <= 1e-9).all()


def test_a_separable_matrix_is_solved_by_its_start():
    X = fa.datasets.separable(100, 15, 4, rng=1).A
    found = fa.nmf(X, 4, rng=0)
    assert found.start_error < 1e-6 * np.linalg.norm(X)
    assert found.error < 1e-6 * np.linalg.norm(X)
    assert found.converged
    assert found.iterations == 20
    W, H = found
    assert W.shape == (100, 4)
    assert H.shape == (4, 15)
    assert min(W.min(), H.min()) >= 0


def test_near_separable_takes_fewer_iterations_than_nndsvd(near_separable):
    anchored = fa.nmf(near_separable, 4, max_iter=5000, rng=0)
    assert anchored.converged
    for init in ("nndsvd", "nndsvda"):
        other = fa.nmf(near_separable, 4, init=init, max_iter=5000, rng=0)
        assert other.start_error is None
        assert other.anchors is None
        assert anchored.iterations < other.iterations
        assert anchored.error < 1.01 * other.error


def test_multiplicative_updates_are_not_stuck_in_zeros():
    X = np.random.default_rng(2).poisson(1.0, (60, 20)).astype(float)
    found = fa.nmf(X, 3, solver="mu", max_iter=2000, rng=0)
    best = fa.nmf(X, 3, max_iter=2000, rng=0)
    assert found.error < found.start_error
    assert found.error < 1.02 * best.error


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_types(near_separable, dtype):
    X = (1000 * near_separable).astype(dtype)
    before = X.copy()
    found = fa.nmf(X, 4, rng=0)
    assert found.W.dtype == (np.float32 if dtype == np.float32 else np.float64)
    assert found.error < 0.05 * np.linalg.norm(X)
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize(
    ("X", "k", "init", "error", "message"),
    [
        (np.ones((4, 3)) - 2, 1, "anchors", InvalidInputError, r"X\[0, 0\] is negative"),
        (np.full((4, 3), np.nan), 1, "anchors", InvalidInputError, r"X\[0, 0\] is NaN"),
        (np.ones((4, 3)), 4, "anchors", InvalidInputError, "k = 4 is more than"),
        (np.ones((4, 3)), 1.5, "anchors", InvalidTypeError, "k must be an integer"),
        (np.ones((4, 3)), 1, "pca", InvalidInputError, "init must be one of 'anchors'"),
        (np.ones((4, 3)), 2, "anchors", RankError, "init='nndsvda'"),
    ],
)
def test_bad_input_is_one_clear_error(X, k, init, error, message):
    with pytest.raises(error, match=message):
        fa.nmf(X, k, init=init)


def test_other_losses_and_bad_options():
    with pytest.raises(InvalidInputError, match="Frobenius norm"):
        fa.nmf(np.eye(3), 2, beta_loss="kullback-leibler", solver="mu")
    with pytest.raises(InvalidInputError, match="max_iter must be at least 1"):
        fa.nmf(np.eye(3), 2, max_iter=0)


@pytest.mark.parametrize("init", ["anchors", "nndsvd", "random"])
def test_a_zero_matrix_is_one_clear_error(init):
    for X in (np.zeros((5, 4)), sp.csr_array((5, 4))):
        with pytest.raises(fa.errors.RankError, match="every entry of X is zero"):
            fa.nmf(X, 2, init=init)


def test_sample_access_and_random_state_are_refused_by_name():
    A = fa.datasets.separable(20, 6, 3, rng=0).A
    with pytest.raises(fa.errors.InvalidTypeError, match="got SampleMatrix"):
        fa.nmf(fa.SampleMatrix(A), 3)
    with pytest.raises(fa.errors.InvalidInputError, match="rng"):
        fa.nmf(A, 3, random_state=0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"foo": 1}, "nmf has no option 'foo'"),
        ({"solver": "x"}, "solver must be"),
        ({"alpha_W": -1}, "alpha_W must be"),
        ({"l1_ratio": 5}, "l1_ratio must be"),
        ({"shuffle": "no"}, "shuffle must be"),
    ],
)
def test_options_of_scikit_learn_are_checked(options, said):
    with pytest.raises(FastAnchorsError, match=said):
        fa.nmf(np.eye(4), 2, **options)


@pytest.mark.parametrize("value", [1e155, 1e160, 1e300])
def test_an_entry_beside_which_all_squares_underflow_is_an_error(value):
    X = fa.datasets.separable(30, 6, 3, noise=0.01, rng=0).A
    X[0, 0] = value
    with pytest.raises(InvalidInputError, match="not finite"), np.errstate(all="ignore"):
        fa.nmf(X, 3, rng=0)


def test_sparse_rows_that_factor_exactly_have_a_small_error_not_none():
    """scikit-learn's error of sparse rows was the root of a number below zero, and the factors were refused."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        A = rng.random((40, 2)) @ rng.random((2, 30))
        dense, sparse = (fa.nmf(form, 2, rng=0, max_iter=60, tol=1e-4) for form in (A, sp.csr_array(A)))
        assert sparse.error == pytest.approx(np.linalg.norm(A - sparse.W @ sparse.H), rel=1e-6, abs=1e-13)
        assert sparse.error < dense.error + 1e-6
