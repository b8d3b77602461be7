"""Recommendation: draws, rankings, new ratings, files; against the dense approximation."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.stats

import fastanchors as fa
from fastanchors.errors import InvalidInputError, InvalidTypeError
from naive.family import best_unseen
from naive.sampling import NaiveSampleMatrix


@pytest.fixture(scope="module")
def ratings():
    return fa.datasets.ratings(200, 60, 4, per_user=12, rng=0).A


def conditional(scores, seen):
    """The distribution D of a row of scores, given that the item is unseen."""
    weights = scores**2
    weights[seen] = 0.0
    return weights / weights.sum()


@pytest.mark.parametrize("exclude_seen", [True, False])
def test_draws_follow_the_row_of_the_approximation(ratings, exclude_seen):
    """Chi-square, false-alarm rate 1e-4, seeds fixed."""
    model = fa.apps.Recommender(ratings, 4, rng=1)
    dense = ratings.toarray()
    seen = dense[7] != 0 if exclude_seen else np.zeros(60, bool)
    expected = conditional((dense @ model.tastes @ model.tastes.T)[7], seen)
    draws = 20_000
    items = model.sample(7, draws, exclude_seen=exclude_seen, rng=2)
    counts = np.bincount(items, minlength=60)
    assert not counts[seen].any()
    common = expected * draws >= 5
    wanted = np.append(expected[common], expected[~common].sum()) * draws
    found = np.append(counts[common], counts[~common].sum())
    keep = wanted > 0
    assert scipy.stats.chisquare(found[keep], wanted[keep]).pvalue > 1e-4
    assert isinstance(model.sample(7, rng=3), int)
    assert len(model.sample(7, 0)) == 0


@pytest.mark.parametrize("exclude_seen", [True, False])
@pytest.mark.parametrize("make", [sp.csr_array, lambda A: A.toarray(), lambda A: NaiveSampleMatrix(A.toarray(), None)])
def test_top_n_is_that_of_the_naive_twin(ratings, make, exclude_seen):
    model = fa.apps.Recommender(make(ratings), 4, rng=4)
    found = model.top_n(np.arange(0, 200, 17), 5, exclude_seen=exclude_seen)
    for user, items in zip(range(0, 200, 17), found):
        assert items.tolist() == best_unseen(ratings.toarray(), model.tastes, user, 5, exclude_seen)
    assert model.top_n(17, 5, exclude_seen=exclude_seen).tolist() == found[1].tolist()


def test_batches_do_not_matter(ratings, monkeypatch):
    model = fa.apps.Recommender(ratings, 4, rng=4)
    together = model.top_n(np.arange(50), 5)
    monkeypatch.setattr("fastanchors.apps._recommend._BATCH_SCORES", 7 * 60)
    np.testing.assert_array_equal(model.top_n(np.arange(50), 5), together)


def test_enough_draws_rank_like_all_scores(ratings):
    model = fa.apps.Recommender(ratings, 4, rng=5)
    users = np.array([3, 4])
    np.testing.assert_array_equal(model.top_n(users, 3, draws=20_000, rng=6), model.top_n(users, 3))
    few = model.top_n(users, 10, draws=2, rng=7)
    assert (few[:, 2:] == -1).all()
    np.testing.assert_array_equal(few, model.top_n(users, 10, draws=2, rng=7))


def test_passes_lead_to_the_truncated_svd(ratings):
    _, _, Vt = np.linalg.svd(ratings.toarray(), full_matrices=False)
    best = Vt[:4].T

    def distance(passes):
        V = fa.apps.Recommender(ratings, 4, passes=passes, rng=8).tastes
        np.testing.assert_allclose(V.T @ V, np.eye(4), atol=1e-12)
        energy = np.linalg.norm(ratings @ best) ** 2
        return energy - np.linalg.norm(ratings @ V) ** 2

    assert distance(0) > distance(1) > distance(30) >= -1e-9
    assert distance(30) < 0.01 * distance(0)


def test_a_new_rating_counts_at_once_and_tastes_follow(ratings):
    S = fa.SampleMatrix(ratings, normalize=None)
    model = fa.apps.Recommender(S, 4, refresh=0.05, rng=9)
    before = model.tastes
    item = int(model.top_n(11, 1)[0])
    y = model.coordinates(11)[0]
    model.rate([11], [item], [5.0])
    assert S[11, item] == 5.0
    np.testing.assert_allclose(model.coordinates(11)[0], y + 5.0 * model.tastes[item], atol=1e-12)
    assert item not in model.top_n(11, 20)
    assert model.tastes is before  # one user does not have enough weight
    S.add(np.arange(40), np.zeros(40, int), np.ones(40))  # without the recommender
    model.top_n(0, 1)
    assert model.tastes is not before


def test_users_without_ratings_get_popular_items(ratings):
    A = sp.vstack([ratings, sp.csr_array((1, 60))], format="csr")
    model = fa.apps.Recommender(A, 4, rng=10)
    norms = np.linalg.norm(A.toarray(), axis=0)
    assert model.top_n(200, 3).tolist() == np.argsort(-norms, kind="stable")[:3].tolist()
    drawn = np.bincount(model.sample(200, 5000, rng=11), minlength=60)
    assert scipy.stats.chisquare(drawn, 5000 * norms**2 / (norms**2).sum()).pvalue > 1e-4  # false alarms: 1e-4
    assert model.top_n([200], 3, draws=500, rng=12)[0, 0] == np.argmax(norms)


def test_recommend_in_one_call(ratings):
    expected = fa.apps.Recommender(ratings, 4, passes=1, rng=13).top_n([1, 2], 4)
    np.testing.assert_array_equal(fa.apps.recommend(ratings, [1, 2], 4, k=4, passes=1, rng=13), expected)
    assert set(fa.apps.__all__) <= set(dir(fa.apps))


def test_users_who_have_seen_everything():
    A = np.ones((5, 4)) + np.eye(5, 4)
    model = fa.apps.Recommender(A, 2, rng=0)
    assert model.top_n(0, 3).tolist() == [-1, -1, -1]
    with pytest.raises(InvalidInputError, match="already rated"):
        model.sample(0, 5)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m: m.top_n(200), InvalidInputError, "user 200 is out of range"),
        (lambda m: m.top_n([[1]]), InvalidInputError, "one-dimensional"),
        (lambda m: m.top_n(1, 0), InvalidInputError, "n must be at least 1"),
        (lambda m: m.top_n([1], 3, draws=0), InvalidInputError, "draws must be at least 1"),
        (lambda m: m.top_n("x"), InvalidTypeError, "user must be an integer"),
        (lambda m: m.sample([1, 2]), InvalidInputError, "sample takes one user"),
        (lambda m: m.rate([1], [99], [2.0]), InvalidInputError, "99"),
        (lambda m: fa.apps.Recommender(m.S, 4, passes=-1), InvalidInputError, "passes must be at least 0"),
        (lambda m: fa.apps.Recommender(m.S, 4, refresh=-1), InvalidInputError, "refresh must be"),
        (lambda m: fa.apps.Recommender(m.S, 99), InvalidInputError, "k = 99 is more than"),
        (lambda m: fa.apps.nonsense, AttributeError, "nonsense"),
    ],
)
def test_bad_input_is_one_clear_error(ratings, call, error, message):
    model = fa.apps.Recommender(fa.SampleMatrix(ratings, normalize=None), 4, rng=0)
    with pytest.raises(error, match=message):
        call(model)


def test_top_n_of_draws_ends_in_minus_one_for_a_user_who_rated_everything():
    A = fa.datasets.ratings(50, 30, 3, per_user=10, rng=0).A.toarray()
    A[1] = 1.0
    model = fa.apps.Recommender(A, 5, rng=0)
    found = model.top_n([0, 1], 3, draws=20, rng=0)
    assert (found[1] == -1).all()
    assert (found[0] >= 0).any()
    with pytest.raises(fa.errors.InvalidInputError, match="already rated"):
        model.sample(1, 3, rng=0)


def test_recommend_takes_draws_and_a_seed():
    A = fa.datasets.ratings(50, 30, 3, per_user=10, rng=0).A
    first = fa.apps.recommend(A, [0, 1], 3, k=5, draws=40, rng=0)
    assert np.array_equal(first, fa.apps.recommend(A, [0, 1], 3, k=5, draws=40, rng=0))
    assert not A.toarray()[[[0], [1]], first].any()


def test_the_default_number_of_tastes_fits_small_tables():
    A = np.random.default_rng(0).integers(1, 6, (6, 4)) * 1.0
    A[0, 1] = A[2, 3] = 0.0
    assert fa.apps.recommend(A, [0, 2], 1, rng=0).tolist() == [[1], [3]]
    flat = np.ones((6, 5))  # of rank one
    flat[0, 2] = 0.0
    assert fa.apps.recommend(flat, [0], 1, rng=0).tolist() == [[2]]
    with pytest.raises(fa.errors.RankError, match="below k = 5"):
        fa.apps.recommend(np.ones((6, 5)), [0], 1, k=5, rng=0)
    with pytest.raises(InvalidInputError, match="k = 20 is more than"):
        fa.apps.recommend(A, [0], 1, k=20)


def test_options_are_checked_without_users(ratings):
    model = fa.apps.Recommender(ratings, 4, rng=0)
    assert model.top_n([], 3).shape == (0, 3)
    assert model.top_n([], 3, draws=5).shape == (0, 3)
    with pytest.raises(InvalidInputError, match="draws must be at least 1"):
        model.top_n([], 3, draws=-1)


def test_small_sparse_tables_are_recommended_from_with_the_default_number_of_tastes():
    """The second draws can have a lower rank than the first: 16 of 200 such tables were refused."""
    for seed in range(200):
        rng = np.random.default_rng(seed)
        A = rng.integers(1, 6, (17, 26)) * (rng.random((17, 26)) < 0.1) * 1.0
        fa.apps.recommend(A[A.any(axis=1)][:, A.any(axis=0)], [0], 3, rng=0)
