"""SNPA against its naive twin, which tries every support of every row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastanchors as fa
from fastanchors.errors import InvalidInputError, RankError
from fastanchors.greedy.cone import ConeDistances
from fastanchors.greedy.reader import Reader
from fastanchors.matrix import open_matrix
from naive import solvers as naive


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("seed", range(4))
def test_equals_its_naive_twin(seed, noise):
    A, _ = naive.separable(np.random.default_rng(seed), 30, 8, 5, noise=noise)
    assert fa.SNPA().seek(A, 5).indices.tolist() == naive.snpa(A, 5)


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 4), st.booleans())
def test_distances_to_the_hull_are_those_of_the_naive_twin(seed, m, n, bounded):
    """For any anchors: dependent, repeated, more than columns, inside the hull of the others."""
    rng = np.random.default_rng(seed)
    A = rng.integers(0, 4, (m, n)).astype(float) if seed % 2 else rng.random((m, n))
    anchors = [int(i) for i in rng.permutation(m)[:4] if A[i].any()]
    hull = ConeDistances(Reader(open_matrix(A)), max(1, len(anchors)), bounded=bounded)
    for count, row in enumerate(anchors, start=1):
        hull.add(row)
        W = A[anchors[:count]]
        if bounded:
            assert (hull.coefficients() >= 0).all()
            assert hull.coefficients().sum(axis=1).max() <= 1 + 1e-12
            nearest = np.array([naive.project_on_hull(W, a) @ W for a in A])
        else:
            nearest = np.array([naive.nnls(W.T, a)[0] @ W for a in A])
        expected = ((A - nearest) ** 2).sum(axis=1)
        np.testing.assert_allclose(hull.all_values(), expected, atol=1e-10)
        np.testing.assert_allclose(hull.residual(0), A[0] - nearest[0], atol=1e-6)


def test_more_anchors_than_columns():
    """The rank-deficient family of Gillis 2014, section 4.1: 20 vertices in 10 dimensions; SPA must stop at 10."""
    rng = np.random.default_rng(0)
    W = rng.random((20, 10))
    A = np.vstack([np.eye(20), np.eye(20), rng.dirichlet(np.full(20, 0.5), 160)]) @ W
    found = fa.SNPA().seek(A, 20)
    assert sorted(found.indices) == list(range(20))
    with pytest.raises(RankError, match="every row lies in the convex hull of these 20") as caught:
        fa.SNPA().seek(A, 21)
    assert caught.value.rank == 20
    assert len(fa.SNPA(allow_fewer=True).seek(A, 30)) == 20


def test_residuals_are_the_distances():
    A, _ = naive.separable(np.random.default_rng(1), 25, 6, 4, noise=0.1)
    found = fa.SNPA().seek(A, 4)
    for j in range(1, 4):
        W = A[found.indices[:j]]
        i = found.indices[j]
        distance = np.linalg.norm(A[i] - naive.project_on_hull(W, A[i]) @ W)
        assert found.residuals[j] == pytest.approx(distance, rel=1e-9)
    assert found.residuals[0] == pytest.approx(np.linalg.norm(A[found.indices[0]]))
    assert found.certificate.kind == "none"
    assert found.certificate.details["largest_remaining_residual"] <= found.residuals[-1]


def test_one_pass_per_anchor():
    A, _ = naive.separable(np.random.default_rng(2), 400, 20, 6, noise=0.05)
    assert fa.SNPA().seek(A, 6).cost.rows_read <= 7 * 400 + 60


def test_zero_rows_and_duplicates_are_never_chosen():
    rng = np.random.default_rng(3)
    A = np.vstack([np.zeros((3, 5)), np.eye(5), np.eye(5), rng.dirichlet(np.ones(5), 20)])
    assert sorted(fa.SNPA().seek(A, 5).indices) == [3, 4, 5, 6, 7]
    with pytest.raises(RankError, match="every row of A is zero"):
        fa.SNPA().seek(np.zeros((3, 3)), 1)


def test_ill_conditioned_anchors():
    """The last anchors stand out by 1e-5 of the norm of the rows."""
    rng = np.random.default_rng(4)
    W = rng.random(12) + np.geomspace(1, 1e-5, 6)[:, None] * np.eye(6, 12)
    A = np.vstack([rng.dirichlet(np.ones(6), 100), np.eye(6)]) @ W
    assert set(fa.SNPA().seek(A, 6).indices) == set(range(100, 106))


def test_bad_options_are_named():
    with pytest.raises(InvalidInputError, match="tol must be at least 0 and below 1"):
        fa.SNPA(tol=2)
    with pytest.raises(InvalidInputError, match="k = 4 is more than the number of rows = 3"):
        fa.SNPA().seek(np.ones((3, 2)), 4)
