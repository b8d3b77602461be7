"""Algorithm 2: the distribution, the expected number of trials, and the limit of trials."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastanchors as fa
from fastanchors.errors import InvalidInputError, SamplingError
from fastanchors.lowrank.rejection import draw_combination, expected_trials
from naive import lowrank as naive
from naive.sampling import NaiveSampleMatrix

WAYS = [{}, {"weights": "squared"}, {"layers": "two"}]


def described(seed: int = 0, side: str = "left", k: int = 3, kind: str = "naive"):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((25, k + 2)) @ rng.standard_normal((k + 2, 18))
    S = NaiveSampleMatrix(A, normalize=None) if kind == "naive" else fa.SampleMatrix(A, normalize=None)
    U = fa.fkv(S, k, side=side, rows=20, columns=20, rng=seed)
    return U, rng.standard_normal(k)


def chi_squared(counts: np.ndarray, probabilities: np.ndarray) -> float:
    expected = counts.sum() * probabilities
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("kind", ["naive", "dense"])
def test_draws_follow_the_combination(way, side, kind):
    U, y = described(side=side, kind=kind)
    whole = U.query(np.arange(U.shape[0])) @ y
    drawn = draw_combination(U, y, 5000 if kind == "dense" else 500, rng=2, **way)
    counts = np.bincount(drawn.indices, minlength=len(whole))
    # at most 24 degrees of freedom: above 65 with probability below 2e-5; twelve cases
    assert chi_squared(counts, naive.squared_distribution(whole)) < 65
    assert np.allclose(drawn.values, whole[drawn.indices])


@pytest.mark.parametrize("way", WAYS)
def test_expected_trials_are_the_trials_seen(way):
    U, y = described(1, kind="dense")
    expected = expected_trials(U, y, gram=U.gram("exact"), **way)
    drawn = draw_combination(U, y, 3000, rng=0, **way)
    # geometric trials: relative spread 1/√3000 = 0.018; 0.09 is five sigma
    assert drawn.trials_per_draw == pytest.approx(expected, rel=0.09)


@given(seed=st.integers(0, 10**6), k=st.integers(1, 4))
def test_one_layer_never_needs_more_trials_than_two(seed, k):
    U, y = described(seed, k=k)
    gram = U.gram("exact")
    norm, squared, two = (expected_trials(U, y, gram=gram, **way) for way in WAYS)
    assert 1 - 1e-9 <= norm <= squared * (1 + 1e-9) <= two * (1 + 1e-9) ** 2


def test_plain_matrix_is_the_algorithm_of_the_paper():
    rng = np.random.default_rng(0)
    U = np.linalg.qr(rng.standard_normal((10, 3)))[0]
    y = np.array([1.0, -2.0, 0.5])
    S = NaiveSampleMatrix(U, normalize=None)
    drawn = draw_combination(S, y, 4000, rng=1, weights="squared")
    twin_rng = np.random.default_rng(1)
    twin = [naive.algorithm_2(U, y, twin_rng) for _ in range(1000)]
    target = naive.squared_distribution(U @ y)
    # nine degrees of freedom: above 37 with probability below 3e-5
    assert chi_squared(np.bincount(drawn.indices, minlength=10), target) < 37
    assert chi_squared(np.bincount([s for s, _ in twin], minlength=10), target) < 37
    # orthonormal vectors take k trials: spread of the mean 2.4/√n, five sigma
    assert drawn.trials_per_draw == pytest.approx(3.0, abs=0.2)
    assert np.mean([t for _, t in twin]) == pytest.approx(3.0, abs=0.4)


def test_the_printed_acceptance_ratio_is_not_a_probability():
    """Without the square the ratio of Algorithm 2 leaves [0, 1], so the printed formula is wrong."""
    U = np.linalg.qr(np.random.default_rng(0).standard_normal((10, 3)))[0]
    y = np.array([1.0, -2.0, 0.5])
    printed = (U @ y) ** 2 / (3 * (U @ y))
    corrected = (U @ y) ** 2 / (3 * (U**2 @ y**2))
    assert printed.min() < 0
    assert corrected.min() >= 0
    assert corrected.max() <= 1


def test_arrays_are_taken_as_columns():
    U = np.random.default_rng(0).standard_normal((6, 2))
    assert set(fa.sample_combination(U, [1.0, 0.0], 50, rng=0).tolist()) <= set(range(6))
    assert isinstance(fa.sample_combination(U, [1.0, 2.0], rng=0), int)


def test_each_trial_costs_one_sample_and_p_queries():
    U, y = described()
    p = len(U.indices)
    before = U.S.cost.copy()
    fa.sample_combination(U, y, 100, rng=0)
    spent = U.S.cost - before
    assert spent.queries == p * (spent.samples + 1)  # the norms of the p lines, once


def test_same_seed_same_draws():
    U, y = described()
    assert np.array_equal(fa.sample_combination(U, y, 64, rng=9), fa.sample_combination(U, y, 64, rng=9))


@pytest.mark.parametrize("way", WAYS)
def test_trials_are_bounded_and_the_rate_is_reported(way):
    columns = np.array([[1.0, 1.0], [2.0, 2.0 + 1e-9]])  # U·(1, −1) all but cancels
    with pytest.raises(SamplingError, match=r"accepted 0 of 300 trials \(rate 0\), below one in max_trials = 300"):
        fa.sample_combination(NaiveSampleMatrix(columns, normalize=None), [1.0, -1.0], 5, rng=0, max_trials=300, **way)


@pytest.mark.parametrize(
    ("y", "options", "message"),
    [
        ([0.0, 0.0, 0.0], {}, "y is zero"),
        ([1.0, 2.0], {}, "y must hold 3 numbers"),
        ([1.0, np.nan, 0.0], {}, "y must be finite"),
        ([1.0, 1.0, 1.0], {"layers": "three"}, "layers must be"),
        ([1.0, 1.0, 1.0], {"weights": "cubed"}, "weights must be"),
        ([1.0, 1.0, 1.0], {"max_trials": 0}, "max_trials must be at least 1"),
        ([1.0, 1.0, 1.0], {"size": -1}, "size must be at least 0"),
    ],
)
def test_bad_input_is_refused(y, options, message):
    U, _ = described()
    with pytest.raises(InvalidInputError, match=message):
        fa.sample_combination(U, y, **{"size": 3, **options})


@pytest.mark.parametrize("way", WAYS)
def test_a_combination_of_zero_lines_is_refused(way):
    U = fa.FactoredVectors(NaiveSampleMatrix(np.eye(3)[:, :2], normalize=None), "right", [2], [[1.0]])
    with pytest.raises(InvalidInputError, match="zero vector"):
        fa.sample_combination(U, [1.0], 1, rng=0, **way)


def test_gram_of_the_wrong_shape_is_refused():
    U, y = described()
    with pytest.raises(InvalidInputError, match="gram must have shape"):
        expected_trials(U, y, gram=np.eye(2))


def test_non_numeric_coefficients():
    with pytest.raises(fa.errors.InvalidTypeError, match="y must hold real numbers"):
        fa.sample_combination(np.eye(3), ["a", "b", "c"], 2)


@pytest.mark.parametrize("layers", ["one", "two"])
@pytest.mark.parametrize(("size", "power"), [(0, 900), (0, -900), (450, 450), (-450, -450)])
def test_the_unit_of_a_combination_does_not_matter(layers, size, power):
    U, y = np.random.default_rng(0).standard_normal((30, 3)), np.array([1.0, -2.0, 0.5])
    expected = fa.sample_combination(U, y, 200, rng=1, layers=layers)
    drawn = fa.sample_combination(np.ldexp(U, size), np.ldexp(y, power), 200, rng=1, layers=layers)
    np.testing.assert_array_equal(drawn, expected)
