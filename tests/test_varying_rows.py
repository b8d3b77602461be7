"""Rows that vary by more than their noise, and columns that are far noisier than others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d

import fastanchors as fa
from fastanchors.greedy.anchoring import find_anchors
from fastanchors.greedy.coordinates import coordinates
from fastanchors.greedy.groups import VARIES, cores, group_medians, group_sizes, squared_residual, variance_beyond
from fastanchors.greedy.noise import excess_noise
from fastanchors.matrix import open_matrix
from naive.noise_aware import naive_excess_noise, naive_group_medians, naive_squared_residual

Array = NDArray[np.float64]


def varied(seed: int, *, k: int = 3, variation: float = 0.15, rows: int = 3000) -> tuple[Array, Array]:
    """Mixtures of spectra that vary smoothly from row to row, in many ways, and the spectra that they vary about."""
    rng = np.random.default_rng([seed, 99])
    H = np.exp(3 * gaussian_filter1d(rng.standard_normal((k, 150)), 8, axis=1))
    H /= H.sum(axis=1, keepdims=True)
    W = rng.dirichlet(np.full(k, 0.3), rows)
    ways = gaussian_filter1d(rng.standard_normal((k, 12, 150)), 4, axis=2)
    ways /= ways.std(axis=2, keepdims=True)
    sizes = 0.7 ** np.arange(12)
    sizes *= variation / np.linalg.norm(sizes)
    X = np.zeros((rows, 150))
    for j in range(k):
        X += W[:, [j]] * H[j] * np.exp((sizes * rng.standard_normal((rows, 12))) @ ways[j])
    return np.maximum(X + 0.02 * X.mean() * rng.standard_normal(X.shape), 0.0), H


def angle(H: Array, found: Array) -> float:
    return fa.metrics.matched_spectral_angle(H, found).mean


# --- groups -----------------------------------------------------------------------------------------------------------


def test_residual_is_that_of_all_supports() -> None:
    rng = np.random.default_rng(0)
    vertices = rng.standard_normal((4, 6))
    vertices -= vertices.mean(axis=0)  # dependent without a constant coordinate
    rows = rng.standard_normal((40, 6))
    assert squared_residual(rows, vertices) == pytest.approx(naive_squared_residual(rows, vertices))
    assert squared_residual(rng.dirichlet(np.ones(4), 40) @ vertices, vertices) < 1e-20


def test_medians_are_those_of_the_size_with_the_least_residual() -> None:
    X, _ = varied(1, rows=240)
    rows = coordinates(open_matrix(X)).values.astype(np.float64)
    vertices = np.zeros((3, rows.shape[1]))  # explain nothing
    sizes = [20, 10, 5]
    assert list(group_sizes(20, 20, 240, 2)) == sizes
    np.testing.assert_allclose(group_medians(rows, 3, vertices), naive_group_medians(rows, 3, sizes))


def test_no_medians_if_the_vertices_are_far_better() -> None:
    rng = np.random.default_rng(2)
    W = rng.dirichlet(np.full(3, 3.0), 600)  # no row is nearly pure
    vertices = np.column_stack([np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]]), np.zeros((3, 3))])
    rows = W @ vertices + 1e-3 * rng.standard_normal((600, 5))
    assert group_medians(rows, 3, vertices) is None


def test_a_group_keeps_its_purest_points_if_one_point_dominates_it() -> None:
    """Then the ninth of ten weights can be negative; half of it would be above it, and the group could be empty."""
    points = np.vstack([np.eye(2)[0] * np.append(np.full(9, -0.1), 11)[:, None], np.tile(np.eye(2)[1], (10, 1))])
    kept = cores(points, [np.arange(10), np.arange(10, 20)])
    assert all(len(group) for group in kept)


def test_variance_beyond_the_anchors() -> None:
    X, _ = varied(3)
    assert variance_beyond(coordinates(open_matrix(X)), 3) > 5 * VARIES
    rng = np.random.default_rng(3)
    H = rng.gamma(0.3, size=(4, 60))
    mixed = rng.dirichlet(np.ones(4), 2000) @ H
    noisy = mixed + 0.05 * mixed.mean() * rng.standard_normal(mixed.shape)
    at = coordinates(open_matrix(np.maximum(noisy, 0)))
    assert 0.5 < variance_beyond(at, 4) < 2
    assert variance_beyond(at, 3) > VARIES  # one anchor is missing
    found = find_anchors(at, 3)
    assert found is not None
    assert found.refined is not None
    assert "vary" not in found.refined.reason  # the rows show clearly that there are four anchors
    assert np.isnan(variance_beyond(at, at.shape[1] + 1))


# --- results ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [200, 201, 202])
def test_anchors_of_varying_rows_are_medians_of_groups(seed: int) -> None:
    X, H = varied(seed)
    found = fa.FAS().seek(X, 3)
    assert "vary" in found.certificate.details["refinement"]
    assert found.certificate.details["variation"] > 1
    assert found.certificate.kind == "exact"
    assert angle(H, found.points) < 0.3 * angle(H, X[fa.SPA().seek(X, 3).indices])


def test_rows_that_do_not_vary_are_refined() -> None:
    X, H = varied(200, variation=0.0)
    found = fa.FAS().seek(X, 3)
    assert found.certificate.details["refined"]
    assert angle(H, found.points) < 0.01


def test_a_store_gives_the_anchors_of_an_array(tmp_path: Path) -> None:
    X, _ = varied(204, rows=8000)
    fa.build(X, tmp_path / "store")
    with fa.open(tmp_path / "store") as store:
        kept = fa.FAS().seek(store, 3)
    now = fa.FAS().seek(X, 3)
    assert "vary" in now.certificate.details["refinement"]
    np.testing.assert_array_equal(kept.indices, now.indices)
    profiles = [found.points / found.points.sum(axis=1, keepdims=True) for found in (kept, now)]
    np.testing.assert_allclose(*profiles, rtol=1e-5)


# --- columns ----------------------------------------------------------------------------------------------------------


def test_noise_of_columns_is_that_of_least_squares() -> None:
    rng = np.random.default_rng(4)
    X = rng.dirichlet(np.ones(4), 500) @ rng.gamma(0.5, size=(4, 30)) + 0.01 * rng.standard_normal((500, 30))
    X[:, [3, 17]] += 0.2 * rng.standard_normal((500, 2))
    values, axes = np.linalg.eigh(X.T @ X)
    found = excess_noise(values[::-1], axes[:, ::-1], np.linalg.norm(X, axis=0), 500)
    assert np.flatnonzero(found > 1).tolist() == [3, 17]
    np.testing.assert_allclose(found, naive_excess_noise(X), rtol=1e-6)
    assert (excess_noise(values[::-1], axes[:, ::-1], np.linalg.norm(X, axis=0), 50) == 1).all()  # too few rows


def test_noisy_columns_are_scaled_down_and_others_are_not() -> None:
    rng = np.random.default_rng(5)
    H = rng.uniform(0.5, 1.5, (4, 60))
    mixed = rng.dirichlet(np.full(4, 0.3), 2000) @ H
    clean = mixed + 0.01 * rng.standard_normal(mixed.shape)
    noisy = clean.copy()
    noisy[:, [10, 40]] += 0.2 * rng.standard_normal((2000, 2))
    noisy = np.maximum(noisy, 0.0)
    assert (coordinates(open_matrix(clean)).frame.scale == 1).all()
    at = coordinates(open_matrix(noisy))
    assert np.flatnonzero(at.frame.scale < 1).tolist() == [10, 40]
    assert (at.frame.scale[[10, 40]] > 1 / 50).all()
    spiky = clean.copy()
    spiky[np.arange(60), rng.integers(60, size=60)] += 50  # errors of rows, not of columns
    assert (coordinates(open_matrix(spiky)).frame.scale == 1).all()
    found = find_anchors(at, 4)
    assert found is not None
    assert angle(H, found.profiles) < 0.02
