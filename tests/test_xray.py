"""XRAY against its naive twin, which keeps the residual matrix and calls SciPy's NNLS row by row."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import fastanchors as fa
from fastanchors.errors import InvalidInputError, RankError
from naive import solvers as naive


@pytest.mark.parametrize("selection", ["max", "dist", "greedy"])
@pytest.mark.parametrize("noise", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_equals_its_naive_twin(seed, noise, selection):
    A, _ = naive.separable(np.random.default_rng(seed), 60, 20, 7, noise=noise)
    found = fa.XRAY(selection=selection).seek(A, 7).indices.tolist()
    assert found == naive.xray(A, 7, selection)
    assert fa.XRAY(selection=selection).seek(sp.csr_array(A), 7).indices.tolist() == found


@pytest.mark.parametrize("selection", ["max", "rand", "dist"])
def test_extreme_rays_are_found_without_noise_whatever_the_lengths(selection):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        A, anchors = naive.separable(rng, 100, 15, 6)
        A *= rng.lognormal(sigma=2, size=(100, 1))
        assert set(fa.XRAY(selection=selection).seek(A, 6, rng=seed).indices) == set(anchors)


def test_rand_depends_on_the_seed_alone():
    A, _ = naive.separable(np.random.default_rng(5), 80, 20, 6, noise=0.3)
    runs = {seed: fa.XRAY(selection="rand").seek(A, 6, rng=seed).indices.tolist() for seed in range(6)}
    assert len({tuple(run) for run in runs.values()}) > 1
    for seed, run in runs.items():
        assert fa.XRAY(selection="rand").seek(A, 6, rng=np.random.default_rng(seed)).indices.tolist() == run


def test_rows_on_one_ray_go_to_the_lowest_index():
    A, anchors = naive.separable(np.random.default_rng(6), 30, 8, 4)
    many = np.vstack([A, 0.3 * A, 7 * A])
    assert set(fa.XRAY().seek(many, 4).indices) == set(anchors)


def test_more_extreme_rays_than_columns():
    angles = np.linspace(0, 2 * np.pi, 12, endpoint=False)
    circle = np.column_stack([np.cos(angles) + 2, np.sin(angles) + 2, np.ones(12)])
    A = np.vstack([circle, np.random.default_rng(7).dirichlet(np.ones(12), 50) @ circle])
    assert sorted(fa.XRAY().seek(A, 12).indices) == list(range(12))
    with pytest.raises(RankError, match="every row lies in the cone of these 12") as caught:
        fa.XRAY().seek(A, 13)
    assert caught.value.rank == 12
    assert len(fa.XRAY(allow_fewer=True).seek(A, 13)) == 12


def test_zero_rows_are_never_chosen():
    A = np.vstack([np.zeros((2, 4)), np.eye(4), np.zeros((2, 4))])
    for selection in ("max", "rand", "dist", "greedy"):
        assert sorted(fa.XRAY(selection=selection).seek(A, 4, rng=0).indices) == [2, 3, 4, 5]
    with pytest.raises(RankError, match="every row of A is zero"):
        fa.XRAY().seek(np.zeros((3, 3)), 1)


def test_residuals_are_the_largest_distances_from_the_cone():
    A, _ = naive.separable(np.random.default_rng(8), 40, 10, 5, noise=0.2)
    found = fa.XRAY().seek(A, 5)
    for j in range(1, 5):
        W = A[found.indices[:j]]
        assert found.residuals[j] == pytest.approx(max(naive.nnls(W.T, a)[1] for a in A), rel=1e-9)


def test_two_passes_per_anchor():
    A, _ = naive.separable(np.random.default_rng(9), 400, 20, 6, noise=0.05)
    assert fa.XRAY().seek(A, 6).cost.rows_read <= (2 + 2 * 6) * 400 + 60


def test_a_large_sparse_matrix_stays_sparse():
    """20,000 × 50,000 with 40,000 non-zeros: a dense residual would take 8 GB."""
    A = sp.random_array((20_000, 50_000), density=4e-5, rng=np.random.default_rng(10), format="csr")
    assert len(set(fa.XRAY().seek(A, 4).indices)) == 4


def test_bad_options_are_named():
    with pytest.raises(InvalidInputError, match="selection must be one of 'max', 'rand', 'dist', 'greedy', got 'best'"):
        fa.XRAY(selection="best")
    with pytest.raises(InvalidInputError, match="tol must be at least 0 and below 1"):
        fa.XRAY(tol=-0.1)


@pytest.mark.parametrize("selection", ["max", "dist", "greedy"])
@pytest.mark.parametrize("exponent", [-400, -300, 300, 480])
def test_anchors_do_not_depend_on_the_unit(selection, exponent):
    A = fa.datasets.separable(60, 8, 4, noise=0.02, rng=0).A
    expected = fa.XRAY(selection=selection).seek(A, 4)
    found = fa.XRAY(selection=selection).seek(A * 2.0**exponent, 4)
    np.testing.assert_array_equal(found.indices, expected.indices)
