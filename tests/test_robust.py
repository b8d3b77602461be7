"""Robust selection: outliers without near neighbours are skipped, clean data is unaffected, averages are correct."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import scipy.sparse as sp

import fastanchors as fa
from fastanchors.errors import InvalidInputError, InvalidTypeError, RankError
from fastanchors.solvers import Robust
from naive import solvers as naive


def scene(seed, *, outliers=0, noise=0.0, copies=5, m=300, n=30, k=4):
    """Mixtures of k spectra with ``copies`` pure rows of each, then outliers."""
    rng = np.random.default_rng(seed)
    W = rng.dirichlet(np.full(n, 0.3), k)
    H = np.vstack([np.repeat(np.eye(k), copies, axis=0), rng.dirichlet(np.ones(k), m - copies * k)])
    A = H @ W + noise * rng.random((m, n)) / n
    spikes = np.zeros((outliers, n))
    spikes[np.arange(outliers), rng.permutation(n)[:outliers]] = 2.0
    order = rng.permutation(m + outliers)
    place = np.argsort(order)
    return np.vstack([A, spikes])[order], W, place[: copies * k].reshape(k, copies), place[m:]


@pytest.mark.parametrize("kind", ["neighbours", "average", "median"])
@pytest.mark.parametrize("outliers", [1, 5, 25])
def test_isolated_outliers_are_not_chosen(kind, outliers):
    A, _, pure, bad = scene(0, outliers=outliers)
    assert set(fa.SPA().seek(A, 4).indices) & set(bad), "the outliers must mislead plain SPA, or this test is void"
    found = fa.SPA(robust=Robust(kind, support=5)).seek(A, 4)
    assert not set(found.indices) & set(bad)
    assert all(len(set(group) & set(found.indices)) == 1 for group in pure)
    assert set(found.certificate.details["set_aside"]) <= set(bad)
    assert found.certificate.kind == "none"
    if kind != "neighbours":
        np.testing.assert_allclose(found.points, A[found.indices], atol=1e-12)


def test_clean_data_is_unaffected():
    for seed in range(5):
        A, *_ = scene(seed, noise=0.02)
        plain, robust = fa.SPA().seek(A, 4), fa.SPA(robust="neighbours").seek(A, 4)
        assert robust.indices.tolist() == plain.indices.tolist()
        assert robust.certificate.kind == "exact"
        assert robust.certificate.details["set_aside"] == []
        np.testing.assert_allclose(robust.residuals, plain.residuals, rtol=1e-12)
        assert robust.cost.rows_read <= plain.cost.rows_read + 50  # a test that succeeds takes no pass of its own


def test_a_near_neighbour_is_near_relative_to_the_residual():
    A = np.array([[4.0, 0, 0], [3.2, 0, 0], [0, 3, 0], [0, 1.4, 0], [0.1, 0.1, 1.0], [0.1, 0.1, 1.0]])
    # Row 0 has row 1 within 0.8 = 0.2·4; row 2 has nobody within 1.5; rows 4 and 5 have each other.
    found = fa.SPA(robust=Robust("neighbours", support=2, radius=0.5)).seek(A, 2)
    assert found.indices.tolist() == [0, 4]
    assert found.certificate.details["set_aside"] == [2, 3]
    assert fa.SPA(robust=Robust("neighbours", support=2, radius=0.55)).seek(A, 2).indices.tolist() == [0, 2]


def test_averaging_reduces_noise():
    """50 noisy copies of each spectrum: their mean is nearer to the truth than any single row, in all 10 scenes."""
    for seed in range(10):
        A, W, _, _ = scene(seed, noise=1.0, copies=50, m=600)
        W = W + 0.5 / W.shape[1]  # the noise has mean 1/(2n)
        errors = {}
        for robust in (None, "average", "median"):
            spa = fa.SPA(robust=None if robust is None else Robust(robust, support=40))
            found = spa.seek(A, 4)
            points = A[found.indices] if found.points is None else found.points
            errors[robust] = sum(np.linalg.norm(points - w, axis=1).min() for w in W)
        assert errors["average"] < 0.7 * errors[None]
        assert errors["median"] < 0.7 * errors[None]


def test_average_is_the_mean_of_rows_and_the_index_is_the_nearest_of_them():
    A, _, _, _ = scene(3, noise=0.5, copies=20)
    for kind, mean in (("average", np.mean), ("median", np.median)):
        found = fa.SPA(robust=Robust(kind, support=10)).seek(A, 1)
        first = fa.SPA().seek(A, 1).indices[0]
        group = np.argsort(np.linalg.norm(A - A[first], axis=1))[:10]
        np.testing.assert_allclose(found.points[0], mean(A[group], axis=0), rtol=1e-12)
        nearest = group[np.argmin(np.linalg.norm(A[group] - found.points[0], axis=1))]
        assert found.indices[0] == nearest


def test_anchors_stay_distinct_down_to_the_noise():
    """Beyond the true rank only noise is left, and groups overlap."""
    A, _, _, _ = scene(6, noise=1.0, m=60, copies=4, n=20)
    for kind in ("average", "median"):
        found = fa.SPA(robust=Robust(kind, support=3, radius=0.99), allow_fewer=True).seek(A, 15)
        assert len(found) > 4
        assert len(set(found.indices)) == len(found)


def test_the_mean_is_used_if_the_median_is_zero():
    """No entry is non-zero in more than two of the five neighbours: their median is zero."""
    A = np.vstack([np.ones(4), np.eye(4)])
    found = fa.SPA(robust=Robust("median", support=5, radius=0.9)).seek(A, 1)
    np.testing.assert_allclose(found.points, [[0.4, 0.4, 0.4, 0.4]])


def test_robust_selection_with_sparse_rows_and_preconditioning():
    A, _, _, bad = scene(1, outliers=5)
    for options in ({}, {"precondition": "spa"}, {"precondition": "mve"}):
        dense = fa.SPA(robust="neighbours", **options).seek(A, 4)
        sparse = fa.SPA(robust="neighbours", **options).seek(sp.csr_array(A), 4)
        assert dense.indices.tolist() == sparse.indices.tolist()
        assert not set(dense.indices) & set(bad), options
    assert fa.SPA(robust="average", precondition="spa").seek(A, 4).points.shape == (4, 30)


def test_more_outliers_than_a_batch_are_all_set_aside():
    rng = np.random.default_rng(5)
    A, _, pure, _ = scene(5, n=120)
    A = np.vstack([A, 2 * np.eye(120)[rng.permutation(120)[:90]]])
    found = fa.SPA(robust=Robust("neighbours", support=5, radius=0.3)).seek(A, 4)
    assert all(len(set(group) & set(found.indices)) == 1 for group in pure)


def test_an_error_if_all_rows_are_set_aside():
    A = np.eye(5)
    with pytest.raises(RankError, match=r"only 0 of 2 anchors.*5 rows were set aside: too few near neighbours"):
        fa.SPA(robust="neighbours").seek(A, 2)


def test_bad_options_are_named():
    with pytest.raises(InvalidInputError, match="robust must be one of 'neighbours', 'average', 'median'"):
        fa.SPA(robust="nearest")
    with pytest.raises(InvalidTypeError, match="robust must be None, a name or a Robust, got int"):
        fa.SPA(robust=3)
    for support in (0, 1, -2, 2.5):
        with pytest.raises(InvalidInputError, match="support must be None, a fraction or a count of at least 2"):
            Robust(support=support)
    with pytest.raises(InvalidInputError, match="radius must be strictly between 0 and 1, got 1"):
        Robust(radius=1)
    assert Robust(support=0.1).count(45) == 5
    assert Robust(support=7).count(45) == 7
    assert Robust().count(10_000) == 3
    assert Robust("average").count(10_000) == 100


def test_the_naive_twin_agrees_that_clean_choices_are_spa():
    A, *_ = scene(2)
    assert fa.SPA(robust="neighbours").seek(A, 4).indices.tolist() == naive.spa(A, 4)


def test_the_radius_follows_the_data_where_rows_lie_far_apart():
    rng = np.random.default_rng(0)
    anchors = rng.dirichlet(np.full(60, 0.2), 4)
    weights = rng.dirichlet(np.full(4, 0.15), 500)
    A = np.array([rng.multinomial(20, law / law.sum()) / 20 for law in weights @ anchors])  # rows with rough residuals
    with pytest.raises(fa.errors.RankError, match="set aside"):
        fa.SPA(robust=Robust("average", radius=0.5)).seek(A, 4)
    found = fa.SPA(robust="average").seek(A, 4)
    match = fa.metrics.matched_spectral_angle(anchors, found.points)
    assert match.mean < 0.5
    assert weights[found.indices].max(axis=1).min() > 0.7


@pytest.mark.parametrize("kind", ["neighbours", "average", "median"])
def test_no_anchor_is_rounding_error_and_none_is_found_twice(kind):
    for seed in range(30):
        rng = np.random.default_rng(seed)
        A = rng.random((10, 60))[np.append(np.repeat(np.arange(5), 3), rng.integers(5, 10, 8))]
        found = fa.SPA(robust=kind, allow_fewer=True).seek(A, 10)
        assert len(set(found.indices.tolist())) == len(found)
        assert found.residuals.min() > 1e-6


@pytest.mark.parametrize("options", [{"robust": "neighbours"}, {"robust": "average"}, {"precondition": "spa"}])
def test_tolerance_zero_is_the_rounding_level(options):
    rng = np.random.default_rng(0)
    for _ in range(20):
        A = np.repeat(rng.random((3, 2)) @ rng.random((2, 8)), 4, axis=0)
        found = fa.SPA(tol=0.0, allow_fewer=True, **options).seek(A, 6)
        assert found.indices.tolist() == fa.SPA(allow_fewer=True, **options).seek(A, 6).indices.tolist()
        assert len(found) == 2


@pytest.mark.parametrize("precondition", ["spa", "svd", "mve"])
@pytest.mark.parametrize("kind", ["neighbours", "average"])
def test_few_rows_are_left_for_the_preconditioned_run(precondition, kind):
    """The rows that are left may span too little, or have residuals that are rounding errors."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        A = rng.random((5, 8)) if seed % 2 else rng.random((30, 5)) * 10.0 ** rng.integers(-12, 12, (30, 1))
        with contextlib.suppress(RankError):
            found = fa.SPA(precondition=precondition, robust=kind, allow_fewer=True).seek(A, 4)
            assert len(set(found.indices.tolist())) == len(found)


@pytest.mark.parametrize("matrix", [np.asarray, lambda A: A.astype(int), lambda A: fa.SampleMatrix(A, normalize=None)])
def test_neighbours_at_the_radius_itself_count(matrix):
    """Rounding decided whether rows at exactly that distance are near, so that doors gave other anchors."""
    A = np.zeros((9, 12))
    A[:5, :8] = 1
    for j in range(1, 5):
        A[j, 2 * (j - 1) : 2 * j] = 0
    A[5:, 8:11] = 1
    solver = fa.SPA(robust=fa.solvers.Robust("neighbours", support=3, radius=0.5))
    assert solver.seek(matrix(A), 2).indices.tolist() == [0, 5]


@pytest.mark.parametrize("kind", ["neighbours", "average", "median"])
def test_ties_among_neighbours_are_not_decided_by_rounding(kind):
    for seed in range(150):
        rng = np.random.default_rng(seed)
        A = rng.integers(0, 3, (int(rng.integers(8, 16)), int(rng.integers(3, 6)))).astype(float)
        answers = []
        for X in (A, 3 * A, fa.SampleMatrix(A, normalize=None)):
            try:
                answers.append(fa.SPA(robust=kind, allow_fewer=True).seek(X, 3).indices.tolist())
            except RankError:
                answers.append([])
        assert answers[0] == answers[1] == answers[2], seed
