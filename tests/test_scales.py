"""Rows of extreme size: the answer does not depend on the unit, or one error says that squares over- or underflow."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import fastanchors as fa
from fastanchors.errors import InvalidInputError, InvalidTypeError

X = fa.datasets.separable(60, 10, 3, noise=0.02, rng=0).A


@pytest.mark.parametrize("power", [-1060, -1040, -600, 600])
def test_the_estimator_refuses_squares_that_underflow_or_overflow(power):
    Z, model = np.ldexp(X, power), fa.SeparableNMF(3)
    for fit in (model.fit, model.fit_transform):
        with pytest.raises(InvalidInputError, match=r"underflow|overflow"):
            fit(Z)


@pytest.mark.parametrize("power", [-300, 300])
def test_the_estimator_does_not_depend_on_the_unit(power):
    model, far = fa.SeparableNMF(3).fit(X), fa.SeparableNMF(3).fit(np.ldexp(X, power))
    assert far.score(np.ldexp(X, power)) == pytest.approx(model.score(X), rel=1e-12)
    assert np.ldexp(far.reconstruction_err_, -power) == pytest.approx(model.reconstruction_err_, rel=1e-12)


def test_a_score_of_rows_whose_squares_underflow_is_an_error():
    model = fa.SeparableNMF(3).fit(X)
    for tiny in (np.ldexp(X, -600), sp.csr_array(np.ldexp(X, -600))):
        with pytest.raises(InvalidInputError, match="underflow"):
            model.score(tiny)
    assert model.score(np.zeros_like(X)) == 0


def test_components_below_the_normal_numbers_are_refused():
    tiny = np.ldexp(X, -1060)
    with pytest.raises(InvalidInputError, match="components underflow"):
        fa.encode(tiny, tiny[:3])
    with pytest.raises(InvalidInputError, match="underflow"):
        fa.nmf(tiny, 3)
    np.testing.assert_array_equal(fa.encode(X, np.zeros((2, 10))), np.zeros((60, 2)))


@pytest.mark.parametrize("power", [-1000, -600, 600, 1000])
def test_angles_and_errors_do_not_depend_on_the_unit(power):
    far = np.ldexp(X, power)
    np.testing.assert_allclose(fa.metrics.spectral_angles(far[:3], X[3:6]), fa.metrics.spectral_angles(X[:3], X[3:6]))
    expected = fa.metrics.abundance_rmse(X[:, :3], X[:, 3:6])
    assert fa.metrics.abundance_rmse(far[:, :3], far[:, 3:6]) == np.ldexp(expected, power)


@pytest.mark.parametrize("power", [300, 600])
def test_a_scene_of_extreme_size_is_refused(power):
    with pytest.raises(InvalidInputError, match="overflow"):
        fa.apps.unmix(np.ldexp(X, power).reshape(6, 10, 10), 2)


@pytest.mark.parametrize("weights", [[["a", "b", "c"]], np.ones((2, 3)) * 1j])
def test_weights_that_are_not_real_numbers_are_refused(weights):
    with pytest.raises(InvalidTypeError, match="weights must hold real numbers"):
        fa.SeparableNMF(3).fit(X).inverse_transform(weights)
