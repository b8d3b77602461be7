"""Factored vectors equal the dense vectors, and report how orthonormal they are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastanchors as fa
from fastanchors.errors import InvalidInputError, RankError, SamplingError
from naive import lowrank as naive
from naive.sampling import NaiveSampleMatrix


def make(seed: int = 0, side: str = "right", p: int = 6, k: int = 3, shape: tuple[int, int] = (13, 9), fast=False):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal(shape)
    A[rng.random(shape) < 0.3] = 0.0
    S = (fa.SampleMatrix if fast else NaiveSampleMatrix)(A, normalize=None)
    lines = rng.choice(shape[0] if side == "right" else shape[1], size=p, replace=False)
    coefficients = rng.standard_normal((p, k))
    whole = (A[lines].T if side == "right" else A[:, lines]) @ coefficients
    return S, fa.FactoredVectors(S, side, lines, coefficients), whole


@pytest.mark.parametrize("side", ["right", "left"])
@given(seed=st.integers(0, 10**6), p=st.integers(1, 8), k=st.integers(1, 5))
def test_query_gram_and_alpha_equal_the_whole_vectors(side, seed, p, k):
    _, V, whole = make(seed, side, p, k)
    assert V.shape == whole.shape
    places = np.random.default_rng(seed).integers(len(whole), size=7)
    assert np.allclose(V.query(places), whole[places])
    assert np.allclose(V.gram("exact"), whole.T @ whole)
    assert V.alpha("exact") == pytest.approx(naive.alpha(whole))


@pytest.mark.parametrize("side", ["right", "left"])
def test_query_costs_p_queries_per_index(side):
    S, V, _ = make(side=side)
    before = S.cost.copy()
    V.query([1, 2, 2])
    assert (S.cost - before).as_dict() == {"samples": 0, "queries": 3 * 6, "rows_read": 0, "bytes_moved": 0}


def test_query_of_one_index_and_of_none():
    _, V, whole = make()
    assert np.allclose(V.query(4), whole[[4]])
    assert V.query([]).shape == (0, 3)


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("method", ["exact", "sampled"])
def test_orthonormalize_keeps_the_span(side, method):
    _, V, whole = make(side=side, shape=(40, 30), p=10, fast=True)
    W = V.orthonormalize(method, draws=20_000, rng=3)
    mended = W.query(np.arange(W.shape[0]))
    projector = whole @ np.linalg.pinv(whole)
    assert np.allclose(projector @ mended, mended)
    # exact up to rounding; sampled up to the error of 20,000 draws (k·entry error; 0.15 is over 4 sigma)
    assert naive.alpha(mended) < (1e-10 if method == "exact" else 0.15)
    assert np.array_equal(W.indices, V.indices)


def test_orthonormalize_is_the_nearest_orthonormal_set():
    _, V, whole = make()
    left, _, right = np.linalg.svd(whole, full_matrices=False)
    assert np.allclose(V.orthonormalize().query(np.arange(9)), left @ right)


@pytest.mark.parametrize("side", ["right", "left"])
def test_sampled_gram_is_unbiased(side):
    _, V, whole = make(side=side, fast=True)
    exact = whole.T @ whole
    estimates = np.stack([V.gram("sampled", draws=50, rng=seed) for seed in range(400)])
    error = np.abs(estimates.mean(axis=0) - exact)
    spread = estimates.std(axis=0) / np.sqrt(len(estimates))
    assert (error < 4.5 * spread).all()  # nine entries at 4.5 sigma: false alarm below 1e-4


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("fast", [False, True])
def test_samples_follow_the_squared_entries(side, fast):
    _, V, whole = make(side=side, fast=fast)
    size = 20_000 if fast else 500
    for j in range(3):
        counts = np.bincount(V.sample(j, size, rng=j), minlength=len(whole))
        expected = size * naive.squared_distribution(whole[:, j])
        seen = expected > 0
        assert counts[~seen].sum() == 0
        chi2 = ((counts - expected)[seen] ** 2 / expected[seen]).sum()
        # chi-squared with at most 12 degrees of freedom exceeds 45 with probability below 2e-5
        assert chi2 < 45


def test_one_sample_is_an_int_and_seeds_repeat():
    _, V, _ = make()
    assert isinstance(V.sample(0, rng=1), int)
    assert np.array_equal(V.sample(1, 50, rng=5), V.sample(1, 50, rng=5))
    assert V.sample(1, 0, rng=5).shape == (0,)


def test_factored_vectors_follow_an_update_of_the_matrix():
    S, V, _ = make()
    i = V.indices[0]
    before = V.query(2)
    S[i, 2] = S[i, 2] + 1.0
    assert np.allclose(V.query(2) - before, V.coefficients[0])


def test_transform_composes():
    _, V, whole = make()
    T = np.random.default_rng(1).standard_normal((3, 2))
    assert np.allclose(V.transform(T).query(np.arange(9)), whole @ T)
    assert np.allclose(V.transform(T[:, 0]).query(np.arange(9))[:, 0], whole @ T[:, 0])


@pytest.mark.parametrize("size", [1e-170, 1e170])
@pytest.mark.parametrize("method", ["exact", "sampled"])
def test_vectors_of_any_size_are_orthonormalised(size, method):
    V = fa.fkv(np.random.default_rng(0).random((30, 8)), 3, rng=0)
    expected = V.orthonormalize(method, rng=0).query(np.arange(8))
    found = V.transform(size * np.eye(3)).orthonormalize(method, rng=0).query(np.arange(8))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_dependent_vectors_cannot_be_orthonormalised():
    _, V, _ = make()
    with pytest.raises(RankError, match="span only 1") as caught:
        V.transform(np.ones((3, 2))).orthonormalize()
    assert caught.value.rank == 1


def test_sampling_a_cancelling_combination_reports_the_rate():
    A = np.array([[1.0, 2.0], [1.0, 2.0]])
    V = fa.FactoredVectors(NaiveSampleMatrix(A, normalize=None), "right", [0, 1], [[1.0], [-1.0]])
    with pytest.raises(SamplingError, match=r"accepted 0 of 500 trials \(rate 0\)"):
        V.sample(0, 3, rng=0, max_trials=500)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("up", [0], [[1.0]]), "side must be"),
        (("right", [0, 1], [[1.0]]), "one row for each of the 2 indices"),
        (("right", [13], [[1.0]]), "row 13 is out of range"),
        (("left", [9], [[1.0]]), "column 9 is out of range"),
        (("right", [0], [[np.nan]]), "finite"),
    ],
)
def test_bad_factored_vectors_are_refused(arguments, message):
    S, _, _ = make()
    with pytest.raises(InvalidInputError, match=message):
        fa.FactoredVectors(S, *arguments)


def test_bad_arguments_are_refused():
    _, V, _ = make()
    with pytest.raises(InvalidInputError, match="index 9 is out of range"):
        V.query([9])
    with pytest.raises(InvalidInputError, match="one-dimensional"):
        V.query([[1]])
    with pytest.raises(InvalidInputError, match="vector 3 is out of range"):
        V.sample(3, 1)
    with pytest.raises(InvalidInputError, match="T must have 3 rows"):
        V.transform(np.ones((2, 2)))
    with pytest.raises(InvalidInputError, match="method must be"):
        V.gram("guess")  # type: ignore[arg-type]
