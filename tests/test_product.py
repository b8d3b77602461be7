"""The product estimate: unbiased, within its bound, and with the constants derived in its docstring."""

from __future__ import annotations

import numpy as np
import pytest

import fastanchors as fa
from fastanchors.errors import InvalidInputError, InvalidTypeError, TooLargeError
from fastanchors.lowrank.product import product_draws
from naive.sampling import NaiveSampleMatrix


def problem(seed: int = 0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((12, 8)) * (rng.random((12, 8)) < 0.7)
    return A, rng.standard_normal((3, 12)), rng.standard_normal((8, 2))


def access(kind: str, A: np.ndarray):
    return NaiveSampleMatrix(A, normalize=None) if kind == "naive" else fa.SampleMatrix(A, normalize=None)


@pytest.mark.parametrize("kind", ["naive", "dense"])
def test_unbiased(kind):
    A, L, R = problem()
    S = access(kind, A)
    estimates = np.stack([fa.estimate_product(L, S, R, draws=40, rng=seed) for seed in range(500)])
    error = np.abs(estimates.mean(axis=0) - L @ A @ R)
    assert (error < 4.5 * estimates.std(axis=0) / np.sqrt(500)).all()  # six entries at 4.5 sigma: below 1e-4


def test_one_draw_has_the_variance_the_bound_is_derived_from():
    A, L, R = problem()
    A = np.sign(A) * (0.5 + np.abs(A))  # away from zero, where single draws have heavy tails
    S = fa.SampleMatrix(A, normalize=None)
    estimates = np.stack([fa.estimate_product(L, S, R, draws=1, rng=seed) for seed in range(2000)])
    M = L @ A @ R
    seen = (A != 0).astype(float)  # zeros of A are never drawn
    exact = (A**2).sum() * (L**2 @ seen @ R**2) - M**2
    assert (exact <= (A**2).sum() * np.outer((L**2).sum(axis=1), (R**2).sum(axis=0))).all()
    # spread of a sample variance of 2000 values with kurtosis below 20: about 0.1
    assert np.allclose(estimates.var(axis=0), exact, rtol=0.45)


def test_within_the_bound_of_lemma_7():
    A, L, R = problem()
    S = fa.SampleMatrix(A, normalize=None)
    zeta, eta = 0.3, 0.2
    bound = zeta * np.linalg.norm(A) * np.linalg.norm(L) * np.linalg.norm(R)
    errors = [
        np.linalg.norm(fa.estimate_product(L, S, R, zeta=zeta, eta=eta, rng=seed) - L @ A @ R) for seed in range(20)
    ]
    # each fails with probability below 0.2 by the lemma; actually far below
    assert sum(e > bound for e in errors) == 0


@pytest.mark.parametrize(("left", "entries"), [(1e200, 1e-140), (1e-200, 1e140)])
def test_large_factors_of_small_entries_do_not_overflow(left, entries):
    A, L, R = np.full((20, 5), entries), np.full((1, 20), left), np.full((5, 2), 1 / left)
    found = fa.estimate_product(L, A, R, draws=10, rng=0)
    np.testing.assert_allclose(found, 100 * entries, rtol=1e-12)


def test_number_of_draws():
    groups, per_group = product_draws(entries=100, zeta=0.1, eta=0.05)
    assert per_group == 800
    assert groups % 2 == 1
    assert 100 * (7 / 16) ** (groups / 2) <= 0.05 < 100 * (7 / 16) ** ((groups - 2) / 2)


def test_median_of_means_counts_its_draws():
    A, L, R = problem()
    S = NaiveSampleMatrix(A, normalize=None)
    groups, per_group = product_draws(6, 0.5, 0.1)
    fa.estimate_product(L, S, R, zeta=0.5, eta=0.1, rng=0)
    assert S.cost.samples == 2 * groups * per_group
    assert S.cost.queries == groups * per_group


def test_factored_vectors_arrays_and_callables_agree():
    A, _, _ = problem()
    S = NaiveSampleMatrix(A, normalize=None)
    U, V = fa.fkv(S, 2, side="left", rng=0), fa.fkv(S, 2, rng=0)
    whole_U, whole_V = U.query(np.arange(12)), V.query(np.arange(8))
    expected = fa.estimate_product(whole_U.T, S, whole_V, draws=50, rng=1)
    assert np.allclose(fa.estimate_product(U, S, V, draws=50, rng=1), expected)
    called = fa.estimate_product(lambda i: whole_U[i], S, lambda j: whole_V[j], draws=50, rng=1)
    assert np.allclose(called, expected)


def test_same_seed_same_answer():
    A, L, R = problem()
    S = NaiveSampleMatrix(A, normalize=None)
    first, again = (fa.estimate_product(L, S, R, draws=100, rng=3) for _ in range(2))
    assert np.array_equal(first, again)


def test_too_many_draws_say_how_many():
    A, L, R = problem()
    with pytest.raises(TooLargeError, match=r"need 1\.04e\+10 draws"):
        fa.estimate_product(L, NaiveSampleMatrix(A, normalize=None), R, zeta=1e-4, eta=0.05)
    with pytest.raises(TooLargeError, match="needs more than 1e300 draws"):
        fa.estimate_product(L, A, R, zeta=1e-170)
    with pytest.raises(TooLargeError, match=r"^draws requests 1e\+08 draws"):
        fa.estimate_product(L, A, R, draws=10**8)


def test_all_zero_matrix_is_refused():
    with pytest.raises(InvalidInputError, match="every entry of the matrix is zero"):
        fa.estimate_product(np.ones((1, 3)), np.zeros((3, 2)), np.ones((2, 1)))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"zeta": 0.0}, InvalidInputError, "zeta must be positive"),
        ({"eta": 1.0}, InvalidInputError, "eta strictly between 0 and 1"),
        ({"eta": np.nan}, InvalidInputError, "eta must be a finite number"),
        ({"draws": 0, "zeta": None}, InvalidInputError, "draws must be at least 1"),
        ({"L": np.ones((12, 3))}, InvalidInputError, "L must have shape k × 12"),
        ({"R": np.ones((3, 8))}, InvalidInputError, "R must have shape 8 × k"),
        ({"R": np.full((8, 1), np.inf)}, InvalidInputError, "R must be finite"),
        ({"L": object()}, InvalidTypeError, "L must hold real numbers"),
        ({"R": lambda j: np.full((len(j), 2), np.nan)}, InvalidInputError, "the callable R must return finite values"),
        ({"L": lambda i: np.ones(3)}, InvalidInputError, "the callable L must return one row for each index"),
    ],
)
def test_bad_input_is_refused(change, error, message):
    A, L, R = problem()
    arguments = {"L": L, "R": R, "zeta": 0.5, **change}
    with pytest.raises(error, match=message):
        fa.estimate_product(arguments.pop("L"), NaiveSampleMatrix(A, normalize=None), arguments.pop("R"), **arguments)


def test_factored_vectors_of_the_wrong_side_are_refused():
    A, _, R = problem()
    S = NaiveSampleMatrix(A, normalize=None)
    with pytest.raises(InvalidInputError, match='L must describe vectors of length 12 \\(side="left"\\)'):
        fa.estimate_product(fa.fkv(S, 2, rng=0), S, R)


@pytest.mark.parametrize("given", [{"zeta": 0.1}, {"eta": 0.1}])
def test_draws_and_an_allowed_error_are_not_both_given(given):
    A, L, R = problem()
    with pytest.raises(InvalidInputError, match="either draws or zeta and eta"):
        fa.estimate_product(L, A, R, draws=5, **given)
