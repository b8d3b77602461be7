"""SPA against its naive twin, and difficult cases: conditioning, ties, duplicates, low rank."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import fastanchors as fa
from fastanchors import solvers
from fastanchors.errors import InvalidInputError, InvalidTypeError, RankError
from fastanchors.greedy.reader import Reader
from fastanchors.greedy.residuals import Residuals
from fastanchors.matrix import open_matrix
from naive import solvers as naive


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.1, 0.5])
@pytest.mark.parametrize("seed", range(5))
def test_equals_its_naive_twin(seed, noise):
    rng = np.random.default_rng(seed)
    A, _ = naive.separable(rng, 120, 30, 8, noise=noise)
    assert fa.SPA().seek(A, 8).indices.tolist() == naive.spa(A, 8)


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 8))
def test_equals_its_naive_twin_on_small_counts(seed, m, n):
    """Small integers: many ties, zero rows, duplicates."""
    A = np.random.default_rng(seed).integers(0, 3, (m, n))
    rank = np.linalg.matrix_rank(A)
    if rank == 0:
        with pytest.raises(RankError, match="every row of A is zero"):
            fa.SPA().seek(A, 1)
        return
    found = fa.SPA().seek(A, int(rank)).indices.tolist()
    assert found == naive.spa(A, int(rank))
    assert len(set(found)) == rank
    assert A[found].any(axis=1).all()


@pytest.mark.parametrize("condition", [1e2, 1e4, 1e6, 1e8])
def test_ill_conditioned_anchors(condition):
    """The distance of the last anchor from the span of the others is the first norm over ``condition``."""
    rng = np.random.default_rng(7)
    k, n = 8, 20
    base = rng.random(n)
    W = base + np.geomspace(1, 1 / condition, k)[:, None] * np.eye(k, n)
    H = np.vstack([rng.dirichlet(np.ones(k), 300), np.eye(k)])
    A = H @ W
    found = fa.SPA().seek(A, k)
    assert set(found.indices) == set(range(300, 308))
    assert found.indices.tolist() == naive.spa(A, k)
    exact = [np.linalg.norm(W[0])]
    order = found.indices - 300
    for j in range(1, k):
        Q, _ = np.linalg.qr(W[order[:j]].T)
        r = W[order[j]] - Q @ (Q.T @ W[order[j]])
        exact.append(np.linalg.norm(r - Q @ (Q.T @ r)))
    np.testing.assert_allclose(found.residuals[1:], exact[1:], rtol=1e-6)


def test_the_sizes_reported_are_the_residual_norms():
    A, _ = naive.separable(np.random.default_rng(1), 60, 12, 5, noise=0.2)
    found = fa.SPA().seek(A, 5)
    R = A.copy()
    for i, size in zip(found.indices, found.residuals):
        assert size == pytest.approx(np.linalg.norm(R[i]), rel=1e-12)
        q = R[i] / np.linalg.norm(R[i])
        R = R - np.outer(R @ q, q)
    assert found.certificate.kind == "exact"
    assert found.certificate.details["largest_remaining_residual"] == pytest.approx(
        np.linalg.norm(R, axis=1).max(), rel=1e-9
    )


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(2, 30), st.sampled_from([0, 4, 8]))
def test_the_error_bound_of_a_residual_holds(seed, m, n, decades):
    """Compared with distances to the span in extended precision; leaders are updated in between, as in SPA."""
    rng = np.random.default_rng(seed)
    A = rng.random((m, 3)) @ rng.random((3, n)) + 10.0**-decades * rng.random((m, n))
    residuals = Residuals(Reader(open_matrix(A)), min(m, n))
    rest = A.astype(np.longdouble)
    span: list[np.ndarray] = []
    for _ in range(min(m, n, 6)):
        leaders = residuals.leaders()
        if leaders.values[0] <= 1e-24 * residuals.squared_norms.max():
            break
        q, _ = residuals.direction(A[leaders.rows[0]])
        residuals.remove(q)
        q = q.astype(np.longdouble)
        for p in span + span:
            q = q - (q @ p) * p
        span.append(q / np.sqrt(q @ q))
        for p in span:
            rest = rest - np.outer(rest @ p, p)
        truth = (rest**2).sum(axis=1)
        everyone = np.arange(m)
        values, errors = residuals._rough(everyone, 0.0)
        assert (np.abs(values - truth) <= errors + 1e-31).all()
        looked = residuals.exact(everyone)
        assert (np.abs(looked.values - truth) <= looked.errors + 1e-31).all()
        near = residuals.leaders(within=0.5)
        assert (np.abs(near.values - truth[near.rows]) <= near.errors + 1e-31).all()


def test_a_small_matrix_is_read_once_per_anchor():
    A, _ = naive.separable(np.random.default_rng(2), 500, 20, 6, noise=0.05)
    cost = fa.SPA().seek(A, 6).cost
    assert 7 * 500 <= cost.rows_read <= 7 * 500 + 60  # the norms, six directions, and a few rows read again


def test_nothing_is_read_again_only_to_report_rounding():
    """Without noise the residuals of 10,000 rows are rounding errors: a bound is reported, and no row is read again."""
    A, _ = naive.separable(np.random.default_rng(9), 10_000, 10, 3)
    found = fa.SPA().seek(A, 3)
    assert found.cost.rows_read <= 4 * 10_000 + 60
    assert 0 < found.certificate.details["largest_remaining_residual"] < 1e-6 * found.residuals[0]


def test_ties_go_to_the_largest_norm_then_the_lowest_index():
    # After the first row is selected, the residuals of rows 1, 2 and 3 are equal within 1e-6; row 2 is the longest.
    A = np.array([[10.0, 0, 0], [1, 1, 0], [2, 0, 1 - 1e-8], [1, 0, 1]])
    assert fa.SPA().seek(A, 3).indices.tolist() == [0, 2, 1]
    assert fa.SPA().seek(np.ones((4, 3)), 1).indices.tolist() == [0]
    residuals, norms = np.array([1.0, 1 - 9e-7, 1 - 2e-6]), np.array([5.0, 6.0, 7.0])
    assert solvers.choose(residuals, norms) == 1
    assert solvers.choose(residuals[::-1].copy(), norms[::-1].copy()) == 1
    assert solvers.choose(np.ones(3), np.array([4.0, 4 + 1e-8, 3.0])) == 0  # equal up to the rounding of a view
    assert solvers.TIE == solvers.EQUAL == 1e-6


def test_duplicates_are_selected_once():
    A, _ = naive.separable(np.random.default_rng(3), 40, 10, 4)
    twice = np.vstack([A, A])
    found = fa.SPA().seek(twice, 4).indices
    assert found.tolist() == fa.SPA().seek(A, 4).indices.tolist()


def test_the_error_states_the_rank():
    rng = np.random.default_rng(4)
    A = rng.random((50, 3)) @ rng.random((3, 20))
    with pytest.raises(RankError, match=r"only 3 of 5 anchors found.*zero at rank 3.*allow_fewer=True") as caught:
        fa.SPA().seek(A, 5)
    assert caught.value.rank == 3
    fewer = fa.SPA(allow_fewer=True).seek(A, 5)
    assert len(fewer) == 3
    assert fewer.indices.tolist() == fa.SPA().seek(A, 3).indices.tolist()
    with pytest.raises(RankError, match="every row of A is zero"):
        fa.SPA(allow_fewer=True).seek(np.zeros((4, 3)), 2)


def test_tol_is_the_threshold_for_zero():
    rng = np.random.default_rng(5)
    A = rng.random((50, 3)) @ rng.random((3, 20)) + 1e-6 * rng.random((50, 20))
    assert len(fa.SPA().seek(A, 5)) == 5
    assert len(fa.SPA(tol=1e-4, allow_fewer=True).seek(A, 5)) == 3


def test_scale_does_not_matter():
    A, _ = naive.separable(np.random.default_rng(6), 80, 15, 6, noise=0.1)
    expected = naive.spa(A, 6)
    for scale in (2.0**-400, 2.0**400):
        assert fa.SPA().seek(A * scale, 6).indices.tolist() == expected
    with pytest.raises(InvalidInputError, match=r"squared norm of A\[\d+\] overflows"):
        fa.SPA().seek(A * 2.0**600, 6)


@pytest.mark.parametrize("solver", [fa.SPA(), fa.SNPA(), fa.XRAY()])
def test_underflowing_squares_are_not_treated_as_zeros(solver):
    with pytest.raises(InvalidInputError, match="the squares of A underflow"):
        solver.seek(1e-200 * np.eye(3), 2)
    with pytest.raises(RankError, match="every row of A is zero"):
        solver.seek(np.zeros((3, 3)), 2)


def test_a_large_sparse_matrix_stays_sparse():
    """10⁵ × 10⁵: dense, it would take 80 GB."""
    rng = np.random.default_rng(8)
    A = sp.random_array((100_000, 100_000), density=2e-5, rng=rng, format="csr")
    found = fa.SPA().seek(A, 5)
    assert len(set(found.indices)) == 5
    norms = np.sqrt(A.multiply(A).sum(axis=1))
    assert norms[found.indices[0]] == norms.max()


@pytest.mark.parametrize(
    ("A", "k", "error", "message"),
    [
        (np.ones((3, 2)), 3, InvalidInputError, "k = 3 is more than min"),
        (np.ones((3, 2)), 0, InvalidInputError, "k must be at least 1"),
        (np.ones((3, 2)), 1.5, InvalidTypeError, "k must be an integer"),
        (np.ones(3), 1, InvalidInputError, "two-dimensional"),
        (np.array([[1.0, np.nan]]), 1, InvalidInputError, r"A\[0, 1\] is NaN"),
        (np.array([[1.0], [-1.0]]), 1, InvalidInputError, r"A\[1, 0\] is negative"),
        (sp.csr_array(np.array([[1.0, 0], [0, np.inf]])), 1, InvalidInputError, r"A\[1, 1\] is infinite"),
    ],
)
def test_bad_input_is_named(A, k, error, message):
    with pytest.raises(error, match=message):
        fa.SPA().seek(A, k)


def test_bad_options_are_named():
    with pytest.raises(InvalidInputError, match="precondition must be one of None, 'spa', 'svd', 'mve', got 'pca'"):
        fa.SPA(precondition="pca")
    with pytest.raises(InvalidInputError, match="tol must be at least 0 and below 1"):
        fa.SPA(tol=-1.0)
    with pytest.raises(InvalidInputError, match=r"below 1, got 1\.0"):
        fa.SPA(tol=1.0)


@pytest.mark.parametrize("seed", range(10))
def test_beyond_the_rank_no_row_is_selected_twice(seed):
    rng = np.random.default_rng(seed)
    A = rng.random((8, 2)) @ rng.random((2, 7))
    for rows in (A, sp.csr_array(A), fa.SampleMatrix(A)):
        found = fa.SPA(tol=0).seek(rows, 7)
        assert len(set(found.indices)) == 7
        assert found.certificate.kind == "none"


def test_solvers_by_name():
    assert isinstance(solvers.get("spa"), fa.SPA)
    assert isinstance(solvers.get(fa.SPA), fa.SPA)
    mine = fa.SPA(precondition="svd")
    assert solvers.get(mine) is mine
    assert solvers.SOLVERS["xray"] is fa.XRAY
    assert list(solvers.SOLVERS) == ["fas", "spa", "snpa", "xray", "dca", "arora-lp", "hottopixx", "qdca", "fgnsr"]
    with pytest.raises(InvalidInputError, match="unknown solver 'SNAP'; did you mean 'snpa'"):
        solvers.get("SNAP")
    with pytest.raises(InvalidInputError, match=r"unknown solver .nmf. .solvers: fas, spa"):
        solvers.get("nmf")
    with pytest.raises(InvalidTypeError, match=r"a solver must be a name or an object with .seek"):
        solvers.get(3)


def test_repr_shows_the_options():
    assert repr(fa.SPA(precondition="mve")) == "SPA(precondition='mve', robust=None, tol=None, allow_fewer=False)"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("options", [{"tol": 0}, {"tol": 0, "allow_fewer": True}])
@pytest.mark.parametrize("solver", [fa.SPA, fa.FAS])
def test_residuals_of_rounding_are_not_certified(solver, options):
    A = np.array(
        [[0, 0, 0, 0, 0, 0], [0, 0, 1, 0, 0, 1], [0, 0, 0, 0, 1, 0], [1, 1, 0, 1, 0, 0], [0, 0, 1, 0, 1, 1]],
        dtype=float,
    )
    found = solver(**options).seek(A, 4)  # its rank is 3
    assert len(found) == 3 or found.certificate.kind == "none"
    B = np.array([[0, 6, 2, 0], [3, 12, 12, 3], [2, 2, 6, 2], [1, 4, 4, 1], [1, 7, 5, 1], [3, 3, 9, 3]], dtype=float)
    with contextlib.suppress(RankError):  # its rank is 2
        found = solver(**options).seek(B, 4)
        assert len(found) == 2 or found.certificate.kind == "none"
