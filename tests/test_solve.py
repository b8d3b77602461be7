"""x = A⁺b in factored form: entries and draws against the full SVD."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.stats

import fastanchors as fa
from fastanchors.errors import InvalidInputError, InvalidTypeError, RankError
from naive.family import sampled_regression, truncated_pinv
from naive.sampling import NaiveSampleMatrix


def low_rank(m, n, k, condition, rng, noise=0.0):
    U = np.linalg.qr(rng.standard_normal((m, k)))[0]
    V = np.linalg.qr(rng.standard_normal((n, k)))[0]
    A = (U * np.geomspace(1.0, 1.0 / condition, k)) @ V.T
    E = rng.standard_normal((m, n))
    return A + noise * np.linalg.norm(A) / np.linalg.norm(E) * E


def error(x, expected):
    return np.linalg.norm(x.toarray() - expected) / np.linalg.norm(expected)


def as_published(A, b, k, samples, rng):
    """x from FKV's raw vectors, Σ_j V̂^(j)⟨V̂^(j), Aᵀb⟩/σ̂_j², even with the inner products exact."""
    V = fa.fkv(A, k, rows=samples, columns=samples, rng=rng)
    raw = V.query(np.arange(A.shape[1]))
    return raw @ (raw.T @ (A.T @ b) / V.singular_values**2)


@pytest.mark.parametrize("condition", [5, 50])
def test_ten_times_more_accurate_than_published_code(condition):
    """2000 × 1000, k = 5, 300 samples: the public figure is 0.77 at κ = 5, and failure at κ = 50."""
    rng = np.random.default_rng(0)
    A = low_rank(2000, 1000, 5, condition, rng)
    b = A @ rng.standard_normal(1000)
    x = fa.lowrank.solve(A, b, 5, rows=300, columns=300, rng=1)
    expected = np.linalg.pinv(A, rcond=1e-10) @ b
    assert error(x, expected) < 1e-9
    assert x.condition == pytest.approx(condition, rel=0.5)
    raw = np.linalg.norm(as_published(A, b, 5, 300, 1) - expected) / np.linalg.norm(expected)
    assert error(x, expected) < raw / 10
    assert condition < 50 or raw > 1.0  # worse than x = 0


@pytest.mark.parametrize("condition", [5, 50])
def test_for_any_right_side_after_one_pass(condition):
    """As much of b outside the range of A as in it, and noise in A: ten times more accurate with exact=True."""
    rng = np.random.default_rng(3)
    A = low_rank(2000, 1000, 5, condition, rng, noise=0.01)
    truth = truncated_pinv(A, 5)
    b = A @ (truth @ rng.standard_normal(2000))
    outside = rng.standard_normal(2000)
    b += np.linalg.norm(b) / np.linalg.norm(outside) * outside
    expected = truth @ b
    x = fa.lowrank.solve(A, b, 5, rows=300, columns=300, exact=True, rng=1)
    assert error(x, expected) < 0.077


def test_noise_in_the_matrix():
    rng = np.random.default_rng(2)
    A = low_rank(800, 400, 5, 5, rng, noise=0.05)
    truth = truncated_pinv(A, 5)
    b = A @ (truth @ rng.standard_normal(800))
    assert error(fa.lowrank.solve(A, b, 5, rows=300, columns=300, rng=3), truth @ b) < 0.077


def test_a_right_side_outside_the_range_costs_sampling_error_and_one_pass_removes_it():
    rng = np.random.default_rng(4)
    A = low_rank(600, 200, 4, 3, rng)
    b = A @ rng.standard_normal(200)
    outside = rng.standard_normal(600)
    b += np.linalg.norm(b) / np.linalg.norm(outside) * outside
    expected = truncated_pinv(A, 4) @ b
    sampled = fa.lowrank.solve(A, b, 4, rng=5)
    exact = fa.lowrank.solve(A, b, 4, exact=True, rng=5)
    assert 0.01 < error(sampled, expected) < 1.0
    assert error(exact, expected) < 1e-10
    assert exact.residual_norm == pytest.approx(np.linalg.norm(A @ expected - b))
    np.testing.assert_allclose(exact.singular_values, np.linalg.svd(A, compute_uv=False)[:4], rtol=1e-9)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, NaiveSampleMatrix])
def test_the_regression_is_that_of_the_naive_twin(make):
    rng = np.random.default_rng(6)
    A = rng.standard_normal((60, 25)) * (rng.random((60, 25)) < 0.6)
    b = rng.standard_normal(60)
    S = make(A) if make is not NaiveSampleMatrix else NaiveSampleMatrix(A, normalize=None)
    x = fa.lowrank.solve(S, b, 3, rows=40, columns=30, rng=7)
    V = x.vectors.query(np.arange(25))
    np.testing.assert_allclose(V.T @ V, np.eye(3), atol=1e-12)
    expected = V @ sampled_regression(A, b, V, x.vectors.indices, 40)
    np.testing.assert_allclose(x.query(np.arange(25)), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(x.toarray(), expected, rtol=1e-9, atol=1e-12)
    assert x[3] == pytest.approx(expected[3])
    assert x.norm == pytest.approx(np.linalg.norm(expected))
    assert len(x) == 25
    assert "rank 3" in repr(x)


def test_draws_follow_the_squares_of_x():
    """Chi-square at a false-alarm rate of 1e-4, seed fixed."""
    rng = np.random.default_rng(8)
    A = low_rank(300, 30, 4, 5, rng)
    x = fa.lowrank.solve(A, A @ rng.standard_normal(30), 4, rng=9)
    draws = 20_000
    counts = np.bincount(x.sample(draws, rng=10), minlength=30)
    expected = x.toarray() ** 2 / x.norm**2 * draws
    assert scipy.stats.chisquare(counts, expected).pvalue > 1e-4
    assert isinstance(x.sample(rng=11), int)
    assert 1 <= x.trials_per_draw < 100


def test_cost_does_not_grow_with_the_rows():
    rng = np.random.default_rng(12)
    read = []
    for m in (500, 4000):
        S = fa.SampleMatrix(low_rank(m, 50, 3, 2, rng), normalize=None)
        before = S.cost.copy()
        fa.lowrank.solve(S, np.ones(m), 3, rows=60, columns=40, rng=13)
        read.append((S.cost - before).rows_read)
    assert max(read) <= 2 * 60


def test_a_sampled_vector_and_single_rows_serve_as_right_side():
    rng = np.random.default_rng(14)
    A = low_rank(100, 20, 2, 2, rng)
    b = A @ rng.standard_normal(20)
    plain = fa.lowrank.solve(A, b, 2, rng=15)
    np.testing.assert_array_equal(fa.lowrank.solve(A, fa.VectorSampler(b), 2, rng=15).toarray(), plain.toarray())
    heavy = np.zeros((5, 4))
    heavy[2, 1] = 3.0  # one row has the whole norm
    assert fa.lowrank.solve(heavy, np.arange(5.0), 1, rng=16).toarray() == pytest.approx([0, 2 / 3, 0, 0])


def test_all_of_a_right_side_in_memory_is_checked_and_a_memory_map_where_it_is_read(tmp_path):
    A = np.zeros((1000, 3))
    A[0] = [1.0, 2.0, 3.0]  # the only row that can be drawn
    b = np.ones(1000)
    b[777] = np.inf
    with pytest.raises(InvalidInputError, match=r"b\[777\] is not finite"):
        fa.lowrank.solve(A, b, 1, rng=0)
    np.save(tmp_path / "b.npy", b)
    mapped = np.load(tmp_path / "b.npy", mmap_mode="r")
    np.testing.assert_allclose(fa.lowrank.solve(A, mapped, 1, rng=0).toarray(), A[0] / 14)
    b[0] = np.nan
    np.save(tmp_path / "b.npy", b)
    with pytest.raises(InvalidInputError, match=r"b\[0\] is not finite"):
        fa.lowrank.solve(A, np.load(tmp_path / "b.npy", mmap_mode="r"), 1, rng=0)


def test_a_zero_solution_cannot_be_sampled():
    x = fa.lowrank.solve(np.eye(3) + 1.0, np.zeros(3), 2, rng=0)
    assert not x.query([0, 1, 2]).any()
    with pytest.raises(InvalidInputError, match="zero vector"):
        x.sample(3)


@pytest.mark.parametrize(
    ("b", "k", "error", "message"),
    [
        (np.ones(5), 2, InvalidInputError, "one number for each of the 6 rows"),
        (np.ones((6, 1)), 2, InvalidInputError, "one number for each of the 6 rows"),
        (np.full(6, np.nan), 2, InvalidInputError, r"b\[\d\] is not finite"),
        ([[1.0], [1.0, 2.0]], 2, InvalidInputError, "b cannot be converted to an array"),
        (sp.csr_array(np.ones((6, 1))), 2, InvalidTypeError, "got csr_array"),
        (np.full(6, "a"), 2, InvalidTypeError, "b must hold real numbers"),
        (np.ones(6), 5, InvalidInputError, "k = 5 is more than"),
        (np.ones(6), 3, RankError, "rank"),
    ],
)
def test_bad_input_is_one_clear_error(b, k, error, message):
    A = np.outer(np.arange(1.0, 7), np.arange(1.0, 5)) + np.outer(np.ones(6), [1.0, 0, 0, 0])
    with pytest.raises(error, match=message):
        fa.lowrank.solve(A, b, k, rng=0)


def test_lowrank_offers_its_names():
    assert set(fa.lowrank.__all__) <= set(dir(fa.lowrank))
    with pytest.raises(AttributeError, match="nonsense"):
        fa.lowrank.nonsense  # noqa: B018


def test_one_index_at_a_time():
    x = fa.lowrank.solve(np.eye(4), np.arange(4), 4, rng=0)
    with pytest.raises(fa.errors.InvalidTypeError, match="query"):
        x[[1, 2]]


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("power", [-1000, -600, 600, 990])
def test_the_unit_of_the_right_hand_side_does_not_matter(exact, power):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((60, 3)) @ rng.standard_normal((3, 20))
    b = rng.standard_normal(60)
    plain, scaled = (fa.lowrank.solve(A, np.ldexp(b, p), 3, exact=exact, rng=0) for p in (0, power))
    np.testing.assert_allclose(np.ldexp(scaled.query(range(20)), -power), plain.query(range(20)), rtol=1e-9)
    assert np.ldexp(scaled.norm, -power) == pytest.approx(plain.norm)
    assert np.ldexp(scaled.residual_norm, -power) == pytest.approx(plain.residual_norm)
    assert scaled.trials_per_draw == pytest.approx(plain.trials_per_draw)
    np.testing.assert_array_equal(scaled.sample(50, rng=1), plain.sample(50, rng=1))
