"""Kernels of the noise-aware selection against naive implementations: likelihood, neighbours, nearest mixtures."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fastanchors.greedy.corners import Hull, grown, nearest_mixtures
from fastanchors.greedy.likelihood import WIDTHS, Proportions, SimplexLikelihood
from fastanchors.greedy.likelihood_kernels import (
    chances,
    log_copies,
    mixed_densities,
    relative_logs,
    slopes,
    standardise,
)
from fastanchors.greedy.neighbours import smallest_of_rows
from fastanchors.greedy.nnls import NonnegativeSystem
from naive.noise_aware import naive_chances, naive_nearest_mixture, naive_slopes

SINGLE = np.float32
SEEDS = st.integers(0, 2**32 - 1)


# --- likelihood -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("k", "m"), [(2, 1), (3, 7), (5, 64), (12, 333)])
def test_kernels_of_the_likelihood_round_like_numpy(k: int, m: int) -> None:
    """The same operations in the same order as in NumPy, so equal to the last bit, whatever the vector length."""
    rng = np.random.default_rng(k)
    shares, precision, lengths = rng.normal(0.3, 0.5, (k, m)), rng.uniform(1, 90, m), rng.uniform(0.5, 2, k)
    widths = WIDTHS.astype(SINGLE)
    z, inverse, density = np.empty((3, k, m), SINGLE)
    bell, parts = np.empty((2, 5, k, m), SINGLE)
    standardise(shares, precision, lengths, widths, z, inverse, bell)
    np.exp(bell, out=bell)
    chances(z, inverse, widths, bell, parts)
    expected = naive_chances(shares, precision, lengths, widths)
    for found, naive in zip((z, inverse, bell, parts), expected, strict=True):
        np.testing.assert_array_equal(found, naive)

    weights = rng.dirichlet(np.ones(5), k).T.astype(SINGLE)
    mixed_densities(parts, weights, density)
    np.testing.assert_array_equal(density, np.maximum((parts * weights[:, :, None]).sum(axis=0), SINGLE(1e-30)))

    heights, first, mixtures = rng.normal(size=(5, k)).astype(SINGLE), weights[0].copy(), rng.random(m, SINGLE)
    by_w, by_sigma = np.empty((k, m)), np.empty((k, m), SINGLE)
    slopes(z, inverse, widths, bell, heights, first, mixtures, density, by_w, by_sigma)
    naive = naive_slopes(z, inverse, widths, bell, heights, first, mixtures, density)
    np.testing.assert_array_equal(by_w, naive[0])
    np.testing.assert_array_equal(by_sigma, naive[1])


@pytest.mark.parametrize(("k", "m"), [(2, 1), (12, 333)])
def test_logarithms_of_the_components(k: int, m: int) -> None:
    rng = np.random.default_rng(k)
    products, halves, precisions, constants = rng.normal(size=(k, m)), rng.random(k), 50 * rng.random(m), rng.random(m)
    copies, top, each = products.copy(), np.empty(m), np.empty((k + 2, m), SINGLE)
    log_copies(halves, precisions, constants, copies)
    np.testing.assert_array_equal(copies, (products - halves[:, None]) * precisions + constants)
    odd, mixed, shares = rng.normal(size=m), rng.normal(size=m), np.log(rng.dirichlet(np.ones(k + 2)))
    logs = np.vstack([odd, mixed, copies])
    relative_logs(logs, shares, top, each)
    logs += shares[:, None]
    np.testing.assert_array_equal(top, logs.max(axis=0))
    np.testing.assert_array_equal(each, (logs - logs.max(axis=0)).astype(SINGLE))


def test_models_that_share_their_arrays_do_not_disturb_each_other() -> None:
    rng = np.random.default_rng(2)
    corners, first = rng.normal(size=(4, 3)), Proportions.first(4)
    points, noise = rng.dirichlet(np.ones(4), 200) @ corners + 0.1 * rng.normal(size=(200, 3)), np.full(200, 0.1)
    one = SimplexLikelihood(points, noise)
    two = one.with_noise(2.0)
    for vertices in (corners, corners, 0.9 * corners, corners):
        for model, level in ((one, 1.0), (two, 2.0), (one, 1.0)):
            fresh = SimplexLikelihood(points, level * noise)
            found = model.proportions(vertices, first, 2)
            np.testing.assert_array_equal(found.parts, fresh.proportions(vertices, first, 2).parts)
            np.testing.assert_array_equal(model.gradient(vertices, found)[1], fresh.gradient(vertices, found)[1])
            np.testing.assert_array_equal(model.of_points(vertices, first), fresh.of_points(vertices, first))


# --- neighbours -------------------------------------------------------------------------------------------------------


@given(SEEDS, st.integers(2, 400), st.integers(1, 12), st.integers(1, 70))
@settings(max_examples=60, deadline=None)
def test_nearest_points_with_many_equal_distances(seed: int, rows: int, dimension: int, count: int) -> None:
    """Points on a coarse grid, whose distances are exact: of equal ones the lowest index comes first."""
    points = np.random.default_rng(seed).integers(-2, 3, (rows, dimension)).astype(np.float64)
    count = min(count, rows)
    distances, near = np.empty((rows, count)), np.empty((rows, count), dtype=np.intp)
    rough = ((points**2).sum(axis=1) - 2 * points @ points.T).astype(SINGLE)
    smallest_of_rows(rough, 0.0, points, points, distances, near)
    squares = ((points[:, None] - points) ** 2).sum(axis=2)
    np.testing.assert_array_equal(near, np.argsort(squares, axis=1, kind="stable")[:, :count])
    np.testing.assert_array_equal(distances, np.sort(squares, axis=1)[:, :count])


# --- nearest mixtures -------------------------------------------------------------------------------------------------


def nearest(corners: NDArray[np.float64], points: NDArray[np.float64], start: NDArray[np.float64], usable=None):
    shares, bounds = start.copy(), np.full(len(points), np.inf)
    examined = np.zeros(len(points), dtype=np.bool_)
    usable = np.ones(len(corners), dtype=np.bool_) if usable is None else usable
    for i in range(len(points)):  # one at a time: points below the largest distance would not be finished
        nearest_mixtures(corners, usable, points, np.array([i]), 0.0, shares, bounds, examined)
    assert examined.all()
    return shares, bounds


@given(SEEDS, st.integers(1, 6), st.integers(1, 12), st.sampled_from(["plain", "grid", "copies", "flat"]))
@settings(max_examples=80, deadline=None)
def test_nearest_mixtures_are_those_of_least_squares(seed: int, d: int, k: int, kind: str) -> None:
    """From no start, from any mixture and from the solution; corners may coincide or lie in a plane."""
    rng = np.random.default_rng(seed)
    corners = rng.normal(size=(k, d))
    if kind == "grid":
        corners = np.round(corners)
    elif kind == "copies":
        corners = corners[rng.integers(0, k, k)]
    elif kind == "flat":
        corners[:, -1] = 1.0
    inside = rng.dirichlet(np.ones(k), 10) @ corners
    points = np.vstack([inside, corners, 3 * rng.normal(size=(10, d))])
    mixed = rng.dirichlet(np.full(k, 0.3), len(points))
    expected = NonnegativeSystem(corners.T, sum_to=1.0).solve(points) @ corners
    shares, gaps = nearest(corners, points, np.zeros((len(points), k)))
    for start in (mixed, shares):
        again, same = nearest(corners, points, start)
        np.testing.assert_allclose(same, gaps, atol=1e-9)
        np.testing.assert_allclose(again @ corners, shares @ corners, atol=1e-6)
    assert shares.min() >= 0
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    np.testing.assert_allclose(shares @ corners, expected, atol=1e-6)
    np.testing.assert_allclose(gaps, np.linalg.norm(points - shares @ corners, axis=1), atol=1e-12)


def test_nearest_mixtures_of_the_naive_twin_without_some_corners() -> None:
    rng = np.random.default_rng(3)
    corners, points = rng.normal(size=(7, 3)), 2 * rng.normal(size=(12, 3))
    usable = np.array([True, True, False, True, False, True, True])
    shares, gaps = nearest(corners, points, np.zeros((12, 7)), usable)
    assert not shares[:, ~usable].any()
    for point, gap in zip(points, gaps, strict=True):
        assert gap == pytest.approx(naive_nearest_mixture(point, corners[usable])[1], abs=1e-5)


@given(SEEDS, st.integers(3, 6), st.integers(0, 6))
@settings(max_examples=40, deadline=None)
def test_corners_are_those_of_examining_every_point(seed: int, d: int, more: int) -> None:
    """Bounds save work and change nothing, while the hull grows and while corners are chosen again."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(60, d))  # most of them are corners of their hull, so distances are not zero
    chosen = list(rng.permutation(60)[: d + 1])
    k = d + 1 + more

    def farthest(corners: list[int]) -> int:
        return int(np.argmax(nearest(points[corners], points, np.zeros((60, len(corners))))[1]))

    found = grown(points, np.array(chosen), k)
    while len(chosen) < k:
        chosen.append(farthest(chosen))
    if more <= 4:
        for j in list(range(k)) * 2:
            chosen[j] = farthest(chosen[:j] + chosen[j + 1 :])
    assert found.tolist() == chosen


@given(SEEDS, st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_corners_inside_the_hull_are_not_chosen_by_rounding(seed: int, d: int, more: int) -> None:
    """If no point is outside the hull, the next corner is the one farthest from the others, in any unit and order."""
    rng = np.random.default_rng(seed)
    corners = np.vstack([np.zeros(d), np.eye(d)])
    points = np.vstack([corners, rng.dirichlet(np.ones(d + 1), 60) @ corners])
    k, first = d + 1 + more, np.arange(d + 1)
    expected = points[grown(points, first, k)]
    assert len(np.unique(expected, axis=0)) == k
    turned = points @ np.linalg.qr(rng.normal(size=(d, d)))[0]
    np.testing.assert_array_equal(points[grown(turned, first, k)], expected)
    np.testing.assert_array_equal(points[grown(points * 0.3, first, k)], expected)


def test_bounds_are_never_below_distances() -> None:
    rng = np.random.default_rng(5)
    points = rng.normal(size=(80, 3))
    hull = Hull(points, np.arange(4), 6)
    for at in (4, 5):
        exact = nearest(points[:at], points, np.zeros((80, at)))[1]
        assert (hull._bounds >= exact - 1e-12).all()
        assert hull.farthest() == np.argmax(exact)
        hull.put(at, at)
