"""The LP of Arora et al.: corners against the naive version, copies, noise, and errors."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import fastanchors as fa
import naive.lp as naive
from fastanchors import datasets
from fastanchors._validate import memory
from fastanchors.errors import FastAnchorsError, InvalidInputError, RankError, TooLargeError
from fastanchors.metrics import anchor_recovery
from fastanchors.solvers import _lp
from fastanchors.solvers.arora_lp import distance_to_hull
from naive.sampling import NaiveSampleMatrix


@settings(max_examples=40)
@given(arrays(np.int64, st.tuples(st.integers(2, 9), st.integers(1, 3)), elements=st.integers(1, 4)))
def test_all_corners_of_small_grids(points):
    """Small integers give copies and points on edges; for all corners, both forms return exactly those."""
    A = points.astype(float)
    expected = naive.corners(A)
    if len(expected) == 0:
        return
    found = fa.AroraLP().seek(A, len(expected))
    assert sorted(found.indices) == expected
    exact = fa.AroraLP(radius=0.0).seek(A, len(expected))
    assert sorted(exact.indices) == expected
    if len(A) > len(expected):
        for radius in (None, 0.0):
            with pytest.raises(RankError) as caught:
                fa.AroraLP(radius=radius).seek(A, len(expected) + 1)
            assert caught.value.rank == len(expected) or "distinct" in str(caught.value)
            fewer = fa.AroraLP(radius=radius, allow_fewer=True).seek(A, len(expected) + 1)
            assert sorted(fewer.indices) == expected


def test_distance_against_the_twin():
    rng = np.random.default_rng(0)
    for _ in range(20):
        point, others = rng.random(4), rng.random((6, 4))
        distance, support = distance_to_hull(point, others)
        assert distance == pytest.approx(naive.l1_distance(point, others), abs=1e-9)
        assert len(support) <= 5  # a basic solution
        assert distance_to_hull(point, others[support])[0] == pytest.approx(distance, abs=1e-9)


@pytest.mark.parametrize("radius", [None, 0.02])
def test_noise_and_near_copies(radius):
    data = datasets.separable(60, 8, 4, copies=3, noise=0.01, alpha=0.5, rng=1)
    found = fa.AroraLP(radius=radius).seek(data.A, 4)
    if radius is None:
        assert anchor_recovery(found.indices, data.labels) == 1.0
    else:  # a nearly pure row within the radius may represent an anchor
        angles = fa.metrics.matched_spectral_angle(data.components, data.A[found.indices]).values
        assert angles.max() < 0.05
    assert np.all(found.residuals > 0)
    assert np.all(np.diff(found.residuals) <= 0)


def test_exact_anchors_with_copies_for_every_input_kind():
    data = datasets.separable(80, 12, 5, copies=3, sparse=0.3, rng=2)
    dense = data.A.toarray()
    for A in (dense, data.A, sp.csc_array(data.A), NaiveSampleMatrix(dense, normalize=None)):
        found = fa.AroraLP().seek(A, 5)
        assert sorted(found.indices) == sorted(data.anchors)  # the first copy of each


def test_more_anchors_than_columns():
    data = datasets.dirichlet(30, 5, 8, copies=2, rng=0)
    found = fa.AroraLP().seek(data.A, 8)
    assert sorted(found.indices) == sorted(data.anchors)


def test_rays_and_zero_rows():
    data = datasets.separable(50, 10, 4, copies=2, rng=3)
    A = data.A * np.random.default_rng(1).uniform(0.1, 10.0, (50, 1))
    A[0] = 0.0
    labels = np.where(np.arange(50) == 0, -1, data.labels)
    found = fa.AroraLP(geometry="cone").seek(A, 4)
    assert anchor_recovery(found.indices, labels) == 1.0
    assert 0 not in fa.AroraLP().seek(A, 4).indices


def test_invalid_input_is_refused(monkeypatch):
    A = np.random.default_rng(0).random((30, 5))
    with pytest.raises(RankError, match="every row of A is zero"):
        fa.AroraLP().seek(np.zeros((3, 2)), 1)
    with pytest.raises(RankError, match="only 1 distinct"):
        fa.AroraLP().seek(np.ones((3, 2)), 2)
    with pytest.raises(InvalidInputError, match="geometry"):
        fa.AroraLP(geometry="sphere").seek(A, 2)
    with pytest.raises(TooLargeError, match="max_work"):
        fa.AroraLP(max_work=100).seek(A, 2)
    with pytest.raises(TooLargeError, match="max_work"):
        fa.AroraLP().seek(sp.csr_array((10**6, 10**6)), 2)
    monkeypatch.setattr(memory, "available_memory", lambda: 1000)
    with pytest.raises(TooLargeError, match=r"GB of memory.*available"):
        fa.AroraLP().seek(A, 2)


def test_available_memory_is_a_size():
    assert 1 << 20 < memory.available_memory() <= memory.total_memory() < 1 << 50


def test_one_anchor():
    found = fa.AroraLP().seek(np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]), 1)
    assert found.indices.tolist() == [0]
    assert np.all(np.isfinite(found.residuals))


@pytest.mark.parametrize(("refusals", "works"), [(1, True), (2, False)])
def test_a_failed_program_is_solved_again_with_default_tolerances(monkeypatch, refusals, works):
    """Numerical difficulties (status 4) with tight tolerances: solved again with the defaults of HiGHS."""
    solve, asked = _lp.linprog, []

    def fussy(*args, options, **program):
        asked.append(options)
        solution = solve(*args, options=options, **program)
        if len(asked) <= refusals:
            solution.status = 4
        return solution

    monkeypatch.setattr(_lp, "linprog", fussy)
    point, others = np.array([0.0, 1.0]), np.eye(2)
    if works:
        assert distance_to_hull(point, others)[0] == pytest.approx(0.0, abs=1e-9)
    else:
        with pytest.raises(FastAnchorsError, match="could not solve a program of 6 variables"):
            distance_to_hull(point, others)
    assert len(asked) == 2
    assert list(asked[1]) == ["maxiter"]
    assert "maxiter" in asked[0]  # every call ends


def test_a_matrix_with_a_non_zero_row_has_an_anchor():
    """Of two rows that lie in each other's hull, within the tolerance, the larger one remains."""
    tiny = [[1e-8], [0.01], [1.0]]
    for allow_fewer in (False, True):
        assert fa.AroraLP(allow_fewer=allow_fewer).seek(tiny, 1).indices.tolist() == [2]
    loose = fa.AroraLP(tolerance=5.0, allow_fewer=True)
    assert loose.seek([[1.0, 0.0], [0.0, 2.0], [0.5, 0.5]], 2).indices.tolist() == [1]
    A = datasets.separable(20, 6, 3, noise=0.01, rng=0).A
    for radius in (None, 0.1):
        assert len(fa.AroraLP(radius=radius, tolerance=5.0, allow_fewer=True).seek(A, 3)) == 1
        with pytest.raises(RankError, match="use k ≤ 1"):
            fa.AroraLP(radius=radius, tolerance=5.0).seek(A, 3)
