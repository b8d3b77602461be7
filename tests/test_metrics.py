"""Scores against naive versions, and cases with known values."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import fastanchors as fa
import naive.metrics as naive
from fastanchors import datasets, metrics
from fastanchors.errors import FastAnchorsError, InvalidInputError, InvalidTypeError
from fastanchors.metrics import _reconstruction
from naive.sampling import NaiveSampleMatrix


def test_recovery_counts_each_anchor_once():
    labels = np.array([-1, 0, 0, 1, 2, -1, 2])
    assert metrics.anchor_recovery([1, 3, 4], labels) == 1.0
    assert metrics.anchor_recovery([1, 2, 4], labels) == pytest.approx(2 / 3)  # two copies of anchor 0
    assert metrics.anchor_recovery([0, 5, 6], labels) == pytest.approx(1 / 3)
    assert metrics.anchor_recovery([], labels) == 0.0
    with pytest.raises(InvalidInputError, match="found"):
        metrics.anchor_recovery([7], labels)
    with pytest.raises(InvalidInputError, match="no anchor"):
        metrics.anchor_recovery([0], [-1, -1])


@pytest.mark.parametrize("sparse", [None, 0.2])
def test_anchor_labels_find_the_copies(sparse, monkeypatch):
    monkeypatch.setattr(_reconstruction, "_CHUNK_ENTRIES", 300)
    data = datasets.separable(200, 30, 5, copies=3, sparse=sparse, rng=1)
    np.testing.assert_array_equal(metrics.anchor_labels(data.A, data.anchors), data.labels)
    near = datasets.separable(200, 30, 5, copies=3, noise=1e-3, sparse=sparse, rng=1)
    assert np.sum(metrics.anchor_labels(near.A, near.anchors) >= 0) == 5
    np.testing.assert_array_equal(metrics.anchor_labels(near.A, near.anchors, tolerance=0.02), data.labels)


def test_matched_angle_is_the_best_matching():
    rng = np.random.default_rng(0)
    for _ in range(10):
        true, found = rng.random((5, 7)), rng.random((5, 7))
        match = metrics.matched_spectral_angle(true, found)
        assert match.mean == pytest.approx(naive.best_mean_angle(true, found), rel=1e-9)
        assert sorted(match.found) == list(range(5))


def test_angle_is_exact_when_small_and_ignores_scale():
    x = np.array([[1.0, 0.0]])
    for angle in (1e-9, 1e-3, 1.0, np.pi / 2):
        y = 7.0 * np.array([[np.cos(angle), np.sin(angle)]])
        assert metrics.spectral_angles(x, y)[0, 0] == pytest.approx(angle, rel=1e-6)
    assert metrics.spectral_angles(x, [[0.0, 0.0]])[0, 0] == pytest.approx(np.pi / 2)
    match = metrics.matched_spectral_angle(np.eye(3), np.eye(3)[[2, 0]])  # one true spectrum stays unmatched
    assert match.mean == 0.0
    assert match.true.tolist() == [0, 2]
    with pytest.raises(InvalidInputError, match="differ in length"):
        metrics.spectral_angles(np.eye(3), np.eye(2))


def test_abundance_rmse():
    rng = np.random.default_rng(3)
    true, found = rng.dirichlet(np.ones(4), 50), rng.dirichlet(np.ones(4), 50)
    assert metrics.abundance_rmse(true, found) == pytest.approx(naive.best_rmse(true, found))
    order = [2, 0, 3, 1]
    assert metrics.abundance_rmse(true, true[:, order]) == 0.0
    spectra = rng.random((4, 9))
    match = metrics.matched_spectral_angle(spectra, spectra[order])
    assert metrics.abundance_rmse(true, true[:, order], match=match) == 0.0
    with pytest.raises(InvalidInputError, match="rows"):
        metrics.abundance_rmse(true, found[:10])


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, sp.csc_array])
def test_reconstruction_error_on_all_rows(kind, monkeypatch):
    monkeypatch.setattr(_reconstruction, "_CHUNK_ENTRIES", 100)
    data = datasets.separable(80, 12, 4, noise=0.2, rng=2)
    error = metrics.reconstruction_error(kind(data.A), data.components, data.weights)
    expected = np.linalg.norm(data.A - data.weights @ data.components)
    assert error.absolute == pytest.approx(expected)
    assert float(error) == pytest.approx(expected / np.linalg.norm(data.A))
    assert error.low == error.relative == error.high


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, lambda A: NaiveSampleMatrix(A, normalize=None)])
def test_sampled_error_covers_the_truth(kind):
    data = datasets.separable(500, 12, 4, noise=0.3, rng=2)
    A = kind(data.A)
    truth = metrics.reconstruction_error(A, data.components, data.weights).relative
    sampled = [
        metrics.reconstruction_error(A, data.components, data.weights, rows=100, rng=seed) for seed in range(200)
    ]
    covered = sum(error.low <= truth <= error.high for error in sampled)
    # 190 of 200 expected; below 175 has probability under 1e-4 if the interval is correct
    assert covered >= 175
    assert all(error.low < error.high for error in sampled)
    squares = np.mean([error.relative**2 for error in sampled])
    assert squares == pytest.approx(truth**2, rel=0.02)  # unbiased; the mean's standard error is about 0.5 %


def test_reconstruction_error_of_a_zero_matrix():
    zero = np.zeros((3, 2))
    assert metrics.reconstruction_error(zero, np.ones((1, 2)), np.zeros((3, 1))).relative == 0.0
    assert metrics.reconstruction_error(zero, np.ones((1, 2)), np.zeros((3, 1)), rows=5, rng=0).relative == 0.0
    with pytest.raises(InvalidInputError, match="columns"):
        metrics.reconstruction_error(zero, np.ones((1, 3)))
    with pytest.raises(InvalidInputError, match="weights"):
        metrics.reconstruction_error(zero, np.ones((1, 2)), np.zeros((2, 1)))


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_coherence_against_the_twin(kind):
    corpus = datasets.topics(300, 60, 4, length=20, rng=1)
    counts = corpus.A.toarray()
    score = metrics.topic_coherence(corpus.topics, kind(counts), top=6)
    words = np.argsort(-corpus.topics, axis=1)[:, :6]
    np.testing.assert_allclose(score, [naive.umass(row, counts) for row in words])
    np.testing.assert_allclose(metrics.topic_coherence(words, kind(counts), top=6), score)
    score = metrics.topic_coherence(words, kind(counts), measure="npmi", top=6)
    np.testing.assert_allclose(score, [naive.npmi(row, counts) for row in words])


def test_npmi_at_its_limits():
    counts = np.array([[1, 1, 0], [2, 3, 0], [1, 1, 1]])
    assert metrics.topic_coherence(np.array([[0, 1]]), counts, measure="npmi")[0] == 1.0
    counts = np.array([[1, 0], [0, 1]])
    assert metrics.topic_coherence(np.array([[0, 1]]), counts, measure="npmi")[0] == -1.0


def test_true_topics_cohere_better_than_random_words():
    corpus = datasets.topics(2000, 300, 5, contrast=3.0, rng=0)
    seen = np.flatnonzero(corpus.A.sum(axis=0) > 0)
    random = np.random.default_rng(0).choice(seen, (5, 10), replace=False)
    for measure in ("umass", "npmi"):
        true = metrics.topic_coherence(corpus.topics, corpus.A, measure=measure).mean()
        assert true > metrics.topic_coherence(random, corpus.A, measure=measure).mean()


def test_coherence_refuses():
    counts = np.array([[1, 1, 0], [1, 0, 0]])
    with pytest.raises(InvalidInputError, match="word 2 of topic 0 occurs in no document"):
        metrics.topic_coherence(np.array([[0, 2]]), counts)
    with pytest.raises(InvalidInputError, match="measure"):
        metrics.topic_coherence(np.array([[0, 1]]), counts, measure="cv")
    with pytest.raises(InvalidInputError, match="twice"):
        metrics.topic_coherence(np.array([[0, 0]]), counts)
    with pytest.raises(InvalidInputError, match="words"):
        metrics.topic_coherence(np.ones((1, 2)), counts)


def test_uniqueness():
    assert metrics.topic_uniqueness(np.array([[0, 1], [2, 3]])) == 1.0
    assert metrics.topic_uniqueness(np.array([[0, 1], [0, 1]])) == 0.5
    assert metrics.topic_uniqueness(np.array([[0, 1], [0, 2]])) == pytest.approx(0.75)
    weights = np.array([[0.6, 0.3, 0.1], [0.1, 0.3, 0.6]])
    assert metrics.topic_uniqueness(weights, top=1) == 1.0
    assert metrics.topic_uniqueness(weights, top=2) == pytest.approx(0.75)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, lambda A: NaiveSampleMatrix(A, normalize=None)])
@pytest.mark.parametrize("sum_to_one", [False, True])
def test_rows_are_encoded_where_no_weights_are_given(kind, sum_to_one):
    data = datasets.separable(120, 12, 4, rng=2)
    clean = metrics.reconstruction_error(kind(data.A), data.components, sum_to_one=sum_to_one)
    assert clean.relative < 1e-7
    some = metrics.reconstruction_error(kind(data.A), data.components, sum_to_one=sum_to_one, rows=20, rng=0)
    assert some.high < 1e-7
    worse = metrics.reconstruction_error(kind(data.A), data.components[:2], sum_to_one=sum_to_one)
    best = fa.encode(data.A, data.components[:2], sum_to_one=sum_to_one) @ data.components[:2]
    assert worse.absolute == pytest.approx(np.linalg.norm(data.A - best))


@pytest.mark.parametrize("topics", [[[np.nan, 1.0], [1.0, 0.0]], [[np.inf, 1.0], [1.0, 0.0]], [["a", "b"]]])
def test_topics_that_are_not_finite_numbers_are_refused(topics):
    for score in (metrics.topic_uniqueness, lambda t, top: metrics.topic_coherence(t, np.ones((3, 2)), top=top)):
        with pytest.raises(FastAnchorsError, match="topics"):
            score(topics, top=2)


def test_a_matching_that_does_not_fit_is_refused():
    F = np.eye(3)
    with pytest.raises(InvalidTypeError, match=r"match must be a Match, .* got str"):
        metrics.abundance_rmse(F, F, match="x")
    far = metrics.Match(np.array([0, 3]), np.array([0, 1]), np.zeros(2))
    with pytest.raises(InvalidInputError, match=r"match\.true"):
        metrics.abundance_rmse(F, F, match=far)


@pytest.mark.parametrize("value", [1e155, 1.7e308])
def test_a_sampled_error_is_refused_if_squared_norms_overflow(value):
    X = datasets.separable(30, 6, 3, noise=0.01, rng=0).A
    H = X[:3].copy()
    X[0, 0] = value
    for rows in (None, 5):
        with pytest.raises(InvalidInputError, match="overflow"):
            metrics.reconstruction_error(X, H, rows=rows, rng=0)


def test_labels_of_anchors_whose_squares_underflow_are_refused():
    X = datasets.separable(30, 6, 3, noise=0.01, rng=0).A
    X[0, 0] = 1.7e308
    with pytest.raises(InvalidInputError, match="anchor row 1 underflow"):
        metrics.anchor_labels(X, [0, 1])
    assert metrics.anchor_labels(X, [0]).tolist() == [0] + [-1] * 29  # the other rows are far from it


def test_arguments_that_are_not_arrays():
    ragged = [[1], [2, 3]]
    for call in (
        lambda: metrics.anchor_labels(np.eye(3), []),
        lambda: metrics.anchor_recovery([0], ragged),
        lambda: metrics.anchor_recovery(ragged, [0, 1]),
        lambda: metrics.topic_coherence(ragged, np.eye(3)),
        lambda: metrics.topic_uniqueness(ragged),
        lambda: metrics.topic_uniqueness(3.0),
    ):
        with pytest.raises(InvalidInputError):
            call()


def test_errors_far_from_one():
    """The squares of relative errors overflowed: a warning of NumPy, and an infinite or undefined result."""
    A = np.random.default_rng(0).random((20, 4))
    for size in (1e150, 1e200, 1e300):
        weights = np.full((20, 2), size)
        whole = metrics.reconstruction_error(A, A[:2], weights)
        drawn = metrics.reconstruction_error(A, A[:2], weights, rows=200, rng=0)
        assert drawn.relative == pytest.approx(whole.relative, rel=0.2)
        assert drawn.low < drawn.relative < drawn.high < np.inf
        assert drawn.absolute == pytest.approx(whole.absolute, rel=0.2)
    for rows in (None, 10):
        with pytest.raises(InvalidInputError, match="the error overflows"):
            metrics.reconstruction_error(A, 1e150 * A[:2], weights, rows=rows, rng=0)
    with pytest.raises(InvalidInputError, match="the error overflows"):
        metrics.reconstruction_error(A * 1e-320, A[:2], np.ones((20, 2)))
