"""CUR against its formulas and against the truncated SVD."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import fastanchors as fa
from fastanchors.errors import InvalidInputError, InvalidTypeError, RankError, TooLargeError
from naive.family import cur_core, truncated
from naive.sampling import NaiveSampleMatrix


@pytest.fixture(scope="module")
def noisy():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((400, 6)) @ rng.standard_normal((6, 300))
    E = rng.standard_normal(A.shape)
    return A + 0.1 * np.linalg.norm(A) / np.linalg.norm(E) * E


@pytest.mark.parametrize("core", ["sampled", "exact"])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, NaiveSampleMatrix])
def test_core_is_that_of_the_formulas(make, core):
    rng = np.random.default_rng(1)
    A = rng.standard_normal((40, 30)) * (rng.random((40, 30)) < 0.7)
    S = NaiveSampleMatrix(A, normalize=None) if make is NaiveSampleMatrix else make(A)
    found = fa.cur(S, 3, rows=9, columns=11, core=core, rng=2)
    expected = A[:, found.columns] @ cur_core(A, found.rows, found.columns, 3, core) @ A[found.rows]
    np.testing.assert_allclose(found.query(np.arange(40), np.arange(30)), expected, atol=1e-9)
    np.testing.assert_allclose(found.query(5, [1, 2]), expected[5:6, 1:3], atol=1e-9)
    assert found.error() == pytest.approx(np.linalg.norm(A - expected) / np.linalg.norm(A))
    assert np.linalg.matrix_rank(expected) == 3
    assert len(found.rows) <= 9
    assert len(found.columns) <= 11
    assert found.shape == (40, 30)
    assert "columns and" in repr(found)


def test_error_is_close_to_that_of_the_truncated_svd(noisy):
    best = np.linalg.norm(noisy - truncated(noisy, 6)) / np.linalg.norm(noisy)
    few = fa.cur(noisy, 6, rows=30, columns=30, rng=3).error()
    many = fa.cur(noisy, 6, rng=3).error()
    exact = fa.cur(noisy, 6, core="exact", rng=3).error()
    assert best < exact < many < few < 3 * best
    assert many < 1.2 * best


def test_a_matrix_of_rank_k_is_recovered():
    rng = np.random.default_rng(4)
    A = rng.random((50, 3)) @ rng.random((3, 40))
    assert fa.cur(A, 3, rng=5).error() < 1e-10
    assert fa.lowrank.cur is fa.cur


def test_cost_does_not_grow_with_the_matrix():
    S = fa.SampleMatrix(np.random.default_rng(6).random((3000, 20)), normalize=None)
    before = S.cost.copy()
    fa.cur(S, 2, rows=10, columns=10, rng=7)
    assert (S.cost - before).queries <= 10 * 10 + 20
    assert (S.cost - before).rows_read == 0


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"k": 9}, InvalidInputError, "k = 9 is more than"),
        ({"k": 2, "rows": 1}, InvalidInputError, "must both be at least k = 2"),
        ({"k": 2, "rows": 10**12}, TooLargeError, "drawing 1e\\+12 rows and 40 columns"),
        ({"k": 2, "columns": 2.5}, InvalidTypeError, "columns must be an integer"),
        ({"k": 2, "core": "best"}, InvalidInputError, "core must be 'sampled' or 'exact'"),
        ({"k": 3}, RankError, "rank 2, below k = 3"),
    ],
)
def test_bad_input_is_one_clear_error(options, error, message):
    A = np.outer(np.arange(1.0, 9), np.arange(1.0, 9)) + np.eye(8)[:1].T @ np.ones((1, 8))
    with pytest.raises(error, match=message):
        fa.cur(A, rng=0, **options)


def test_bad_indices_and_zero_matrices():
    with pytest.raises(InvalidInputError, match="every entry"):
        fa.cur(np.zeros((4, 4)), 1)
    found = fa.cur(np.eye(4) + 1, 2, rng=0)
    with pytest.raises(InvalidInputError, match="row 4 is out of range"):
        found.query(4, 0)
    with pytest.raises(InvalidInputError, match="one-dimensional"):
        found.query([[0]], 0)


@pytest.mark.parametrize("kinds", [8, 15])
def test_the_exact_core_is_the_best_for_dependent_rows(kinds):
    """Directions that only rounding made took places among the k, and were then dropped."""
    gaps = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        A = rng.random((kinds, 40))[rng.choice(kinds, 200, p=rng.dirichlet(np.full(kinds, 0.4)))]
        k = 5
        try:
            found = fa.cur(A, k, core="exact", rng=seed)
        except RankError:
            continue
        C, R = A[:, found.columns], A[found.rows]
        U, s, _ = np.linalg.svd(C, full_matrices=False)
        _, t, Vt = np.linalg.svd(R, full_matrices=False)
        U, Vt = U[:, s > 1e-10 * s[0]], Vt[t > 1e-10 * t[0]]
        P, sigma, Qt = np.linalg.svd(U.T @ A @ Vt.T, full_matrices=False)
        best = U @ ((P[:, :k] * sigma[:k]) @ Qt[:k]) @ Vt
        gaps.append(found.error() / (np.linalg.norm(A - best) / np.linalg.norm(A)))
    assert len(gaps) > 5
    np.testing.assert_allclose(gaps, 1, rtol=1e-9)


@pytest.mark.parametrize("core", ["sampled", "exact"])
def test_draws_of_too_small_a_rank_are_refused(core):
    A = np.random.default_rng(0).random((2, 30))[np.arange(200) % 2]
    with pytest.raises(RankError, match="rank 2, below k = 4"):
        fa.cur(A, 4, core=core, rng=0)
