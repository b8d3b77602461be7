"""Rows of extreme size: the answer does not depend on the unit, or one error says that squares over- or underflow."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import fastanchors as fa
from fastanchors.errors import InvalidInputError, RankError
from fastanchors.matrix.scaled import scale_rows

X = fa.datasets.separable(60, 10, 3, noise=0.02, rng=0).A
LOST = 2.0**-30  # of the digits of numbers of size 2^-1040, which are multiples of 2^-1074


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("power", [-900, -600, -300, 300])
def test_the_estimator_does_not_depend_on_the_unit(power, make):
    Z, model, far = make(np.ldexp(X, power)), fa.SeparableNMF(3), fa.SeparableNMF(3)
    np.testing.assert_array_equal(far.fit_transform(Z), model.fit_transform(make(X)))
    for fitted in (far, far.fit(Z)):
        assert np.ldexp(fitted.reconstruction_err_, -power) == pytest.approx(model.reconstruction_err_, rel=1e-12)
    assert far.score(Z) == pytest.approx(model.score(make(X)), rel=1e-12)


@pytest.mark.parametrize("power", [600, 900])
def test_the_estimator_refuses_squares_that_overflow(power):
    with pytest.raises(InvalidInputError, match="overflow"):
        fa.SeparableNMF(3).fit(np.ldexp(X, power))


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("power", [-1000, -600])
def test_a_score_of_rows_whose_squares_underflow(power, make):
    model = fa.SeparableNMF(3).fit(X)
    tiny = make(np.ldexp(X, power))
    assert model.score(tiny) == pytest.approx(model.score(X), rel=1e-9)
    np.testing.assert_allclose(np.ldexp(model.transform(tiny), -power), model.transform(X), rtol=1e-9, atol=1e-12)
    assert model.score(np.zeros_like(X)) == 0


@pytest.mark.parametrize("sum_to_one", [False, True])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_numbers_below_the_normal_ones_are_encoded(make, sum_to_one):
    tiny, weights = np.ldexp(X, -1040), fa.encode(X, X[50:53], sum_to_one)
    np.testing.assert_allclose(fa.encode(make(tiny), tiny[50:53], sum_to_one), weights, atol=100 * LOST)
    model = fa.SeparableNMF(3, sum_to_one=sum_to_one)
    assert model.fit(make(tiny)).score(make(tiny)) == pytest.approx(model.fit(X).score(X), rel=100 * LOST)
    np.testing.assert_array_equal(fa.encode(X, np.zeros((2, 10))), np.zeros((60, 2)))


def test_tiny_anchors_of_large_rows_are_refused():
    with pytest.raises(InvalidInputError, match="overflow"):
        fa.encode(X, np.ldexp(X[:3], -1040))
    np.testing.assert_allclose(np.ldexp(fa.encode(X, np.ldexp(X[50:53], -600)), -600), fa.encode(X, X[50:53]))


@pytest.mark.parametrize("power", [-1000, -600, 600, 900])
def test_metrics_do_not_depend_on_the_unit(power):
    far, metrics = np.ldexp(X, power), fa.metrics
    np.testing.assert_allclose(metrics.spectral_angles(far[:3], X[3:6]), metrics.spectral_angles(X[:3], X[3:6]))
    expected = metrics.abundance_rmse(X[:, :3], X[:, 3:6])
    assert metrics.abundance_rmse(far[:, :3], far[:, 3:6]) == np.ldexp(expected, power)
    nothing = np.zeros((60, 3))
    assert metrics.abundance_rmse(nothing, far[:, :3]) == np.ldexp(metrics.abundance_rmse(nothing, X[:, :3]), power)
    for make in (np.asarray, sp.csr_array):
        copies = make(np.vstack([far, far[:3]]))
        assert metrics.anchor_labels(copies, [0, 1, 2])[-3:].tolist() == [0, 1, 2]


def test_reconstruction_errors_of_tiny_rows():
    tiny, measure = np.ldexp(X, -600), fa.metrics.reconstruction_error
    error, expected = measure(tiny, tiny[50:53]), measure(X, X[50:53])
    assert error.relative == pytest.approx(expected.relative, rel=1e-12)
    assert np.ldexp(error.absolute, 600) == pytest.approx(expected.absolute, rel=1e-12)
    with pytest.raises(InvalidInputError, match="underflow"):
        measure(tiny, tiny[50:53], rows=20, rng=0)
    assert measure(np.zeros((3, 10)), tiny[50:53], rows=20, rng=0).relative == 0


@pytest.mark.parametrize("init", ["anchors", "nndsvda"])
@pytest.mark.parametrize("power", [-900, -600, 600, 900])
def test_nmf_does_not_depend_on_the_unit(power, init):
    expected, found = (fa.nmf(Z, 3, init=init, max_iter=20, rng=0) for Z in (X, np.ldexp(X, power)))
    np.testing.assert_allclose(found.W @ np.ldexp(found.H, -power), expected.W @ expected.H, rtol=1e-9)
    assert np.ldexp(found.error, -power) == pytest.approx(expected.error, rel=1e-9)


@pytest.mark.parametrize("power", [-1040, -600, -300, 300, 600])
@pytest.mark.parametrize("bands", [None, "last"])
def test_a_scene_of_extreme_size_is_refused(power, bands):
    with pytest.raises(InvalidInputError, match=r"overflow|underflow"):
        fa.apps.unmix(np.ldexp(X, power).reshape(6, 10, 10), 2, bands=bands)
    with pytest.raises(InvalidInputError, match=r"overflow|underflow"):
        fa.apps.material_curve(np.ldexp(X, power).reshape(6, 10, 10), bands=bands)


def test_a_scene_with_one_extreme_pixel_is_refused():
    scene = np.tile(X, (20, 1))
    scene[7] *= 1e60
    with pytest.raises(InvalidInputError, match="overflow"):
        fa.apps.unmix(scene, 2)


def test_a_sum_that_overflows_names_the_row_of_the_whole_matrix():
    with pytest.raises(InvalidInputError, match="the sum of row 11 overflows"):
        scale_rows(np.array([[1.0, 2.0], [1.5e308, 1.5e308]]), first_row=10)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_sums_of_rows_that_overflow_are_one_error_without_a_warning(kind):
    with pytest.raises(InvalidInputError):
        fa.FAS().seek(kind([[1.0, 2.0], [1.5e308, 1.5e308]]), 1)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_rows_whose_squares_underflow_beside_others(make):
    A = np.array([[0, 2, 0, 2, 2, 1, 3], [3, 1, 1, 2, 2, 2, 2], [3, 2, 2, 2, 1, 2, 0], [3, 0, 2, 0, 1, 2, 0.0]])
    A = np.ldexp(A, [[-442], [-539], [-533], [-548]])
    found = fa.SPA(tol=0, allow_fewer=True).seek(make(A), 2)
    assert found.indices.tolist() == [0, 2]


def test_a_robust_seek_among_rows_of_extreme_sizes_is_one_error_without_a_warning():
    A = [[1.9e78, 0], [9e-44, 3.7e78], [1.8e-153, 0], [0, 0], [4.4e12, 1.4e-166]]
    with pytest.raises(RankError, match="set aside"):
        fa.SPA(robust="neighbours").seek(A, 2)
