"""The least-squares kernels against SciPy and against exhaustive search, degenerate problems included."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastanchors as fa
from fastanchors.greedy.growing_set import growing_sets
from fastanchors.greedy.nnls import NonnegativeSystem, principal_pivot
from naive.encode import encode, encode_sum_to


def rows_of(C, rng, m=40):
    """Rows inside and outside the cone, and of any sign, including a vertex and zero."""
    k, n = C.shape
    inside = rng.dirichlet(np.full(k, 0.4), m) @ C
    return np.vstack([inside, inside + 0.3 * rng.random((m, n)), rng.standard_normal((m, n)), C[:1], np.zeros((1, n))])


def relative_errors(X, approximation):
    size = np.linalg.norm(X, axis=1)
    return np.linalg.norm(approximation - X, axis=1) / np.where(size > 0, size, 1)


def components_of(kind, rng, k=8, n=30):
    C = rng.random((k, n))
    if kind == "duplicates":
        C[5], C[6], C[7] = 3 * C[0], C[1], C[1]
    elif kind == "dependent":
        C[5], C[6] = 0.3 * C[0] + 0.7 * C[1], C[2] + C[3] + C[4]
    elif kind.startswith("nearly dependent"):
        near = float(kind.split()[-1])
        C[5], C[6] = C[0] + near * rng.random(n), C[1] + C[2] + near * rng.standard_normal(n)
    elif kind == "more anchors than features":
        C = rng.random((n, k))
    elif kind == "hilbert":
        C = 1 / (1 + np.arange(k)[:, None] + np.arange(n)[None])
    elif kind == "badly scaled":
        C *= 10.0 ** rng.uniform(-9, 9, (k, 1))
    elif kind == "zero anchor":
        C[3] = 0
    elif kind == "signed":
        C = rng.standard_normal((k, n))
    return C


UNIQUE = ["random", "signed", "badly scaled", "zero anchor", "nearly dependent 1e-4"]
DEGENERATE = [
    "duplicates",
    "dependent",
    "nearly dependent 1e-6",
    "nearly dependent 1e-9",
    "nearly dependent 1e-12",
    "more anchors than features",
    "hilbert",
]


@pytest.mark.parametrize("few", [0, 1000])
@pytest.mark.parametrize("kind", UNIQUE + DEGENERATE)
def test_factor_form_agrees_with_scipy(kind, few):
    rng = np.random.default_rng(5)
    C = components_of(kind, rng)
    X = rows_of(C, rng)
    Q, R = np.linalg.qr(C.T)
    W, expected = NonnegativeSystem(R, few=few).solve(X @ Q), encode(X, C)
    assert (W >= 0).all()
    errors, best = relative_errors(X, W @ C), relative_errors(X, expected @ C)
    np.testing.assert_allclose(errors, best, rtol=1e-8, atol=1e-12)
    if kind in UNIQUE:
        unit = np.linalg.norm(C, axis=1) / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9)
        np.testing.assert_allclose(W * unit, expected * unit, rtol=0, atol=1e-8)


@pytest.mark.parametrize("kind", ["random", "signed", "zero anchor", "duplicates", "dependent", "few features"])
@pytest.mark.parametrize(("total", "few"), [(1.0, 0), (2.5, 0), (2.5, 1000)])
def test_fixed_sum_agrees_with_exhaustive_search(kind, total, few):
    rng = np.random.default_rng(7)
    C = rng.random((6, 3)) if kind == "few features" else components_of(kind, rng)[[0, 1, 2, 3, 5, 6]]
    X = total * rows_of(C, rng, m=8)
    Q, R = np.linalg.qr(C.T)
    W, expected = NonnegativeSystem(R, sum_to=total, few=few).solve(X @ Q), encode_sum_to(X, C, total)
    assert (W >= 0).all()
    np.testing.assert_allclose(W.sum(axis=1), total, rtol=1e-15)
    errors, best = relative_errors(X, W @ C), relative_errors(X, expected @ C)
    np.testing.assert_allclose(errors, best, rtol=1e-8, atol=1e-12)
    if kind in {"random", "signed", "zero anchor"}:
        np.testing.assert_allclose(W, expected, rtol=0, atol=1e-9)


def test_at_most_one_by_an_anchor_at_the_origin():
    rng = np.random.default_rng(8)
    C = rng.random((4, 6))
    X = np.vstack([rng.dirichlet(np.ones(4), 10) @ C * rng.random((10, 1)), rng.random((10, 6))])
    with_origin = np.vstack([C, np.zeros(6)])
    Q, R = np.linalg.qr(with_origin.T)
    W = NonnegativeSystem(R, sum_to=1.0).solve(X @ Q)
    np.testing.assert_allclose(W, encode_sum_to(X, with_origin), rtol=0, atol=1e-9)


def test_fixed_sum_for_rows_far_beyond_all_anchors():
    """The gain of one anchor over another is below the rounding of y; any vertex is valid, NaN is not."""
    C = np.zeros((4, 3))
    C[2] = 1e-17
    W = NonnegativeSystem(np.linalg.qr(C.T)[1], sum_to=1.0).solve(np.full((2, 3), 100.0))
    np.testing.assert_allclose(W.sum(axis=1), 1.0)
    assert (W >= 0).all()


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e140])
def test_scale_of_the_anchors_does_not_matter(scale):
    rng = np.random.default_rng(13)
    C, X = rng.random((5, 12)), rng.random((20, 12))
    for d in (np.full(5, scale), np.array([1.0, scale, 1.0, 1.0, scale])):
        W = fa.encode(X, C * d[:, None])
        np.testing.assert_allclose(W * d, fa.encode(X, C), rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        fa.encode(X * scale, C * scale, sum_to_one=True), fa.encode(X, C, sum_to_one=True), rtol=0, atol=1e-12
    )
    far = fa.encode(X, C * 1e-200, sum_to_one=True)  # rows beyond all anchors: the vertex farthest along the row
    np.testing.assert_array_equal(far.argmax(axis=1), (X @ C.T).argmax(axis=1))
    np.testing.assert_allclose(far.sum(axis=1), 1.0)


@pytest.mark.parametrize("few", [0, 1000])
@pytest.mark.parametrize("sum_to", [None, 1.0])
def test_active_set_gives_the_same_result(sum_to, few, monkeypatch):
    """Well-conditioned problems use pivoting, so the active set, by kernel or by SciPy, is called here directly."""
    rng = np.random.default_rng(9)
    C = rng.random((9, 40))
    X = rows_of(C, rng)
    Q, R = np.linalg.qr(C.T)
    system = NonnegativeSystem(R, sum_to=sum_to, few=few)
    expected = system.solve(X @ Q)
    nothing = np.zeros((len(X), 9)), np.zeros(len(X), dtype=bool)
    monkeypatch.setattr(system, "_pivot", lambda *_: nothing)
    np.testing.assert_allclose(system.solve(X @ Q), expected, rtol=0, atol=1e-12)


def test_bound_and_free_systems_give_the_same():
    rng = np.random.default_rng(12)
    C = rng.random((10, 40))
    X = rows_of(C, rng)
    Q, R = np.linalg.qr(C.T)
    for sum_to in (None, 1.0):
        system = NonnegativeSystem(R, sum_to=sum_to)
        assert system._trusted
        expected = system.solve(X @ Q)
        assert 0 < np.sum((expected > 0).sum(axis=1) > 5) < len(X)  # both systems have been the smaller one
        system._trusted = False
        np.testing.assert_allclose(system.solve(X @ Q), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("sum_to", [None, 1.0])
def test_start_does_not_matter(sum_to):
    rng = np.random.default_rng(10)
    C = rng.random((7, 12))
    X = rows_of(C, rng)
    Q, R = np.linalg.qr(C.T)
    system, Y = NonnegativeSystem(R, sum_to=sum_to), X @ Q
    expected = system.solve(Y)
    start = rng.standard_normal(expected.shape)
    kept = start.copy()
    for X0 in (start, np.zeros_like(expected), np.ones_like(expected), expected):
        np.testing.assert_allclose(system.solve(Y, X0), expected, rtol=0, atol=1e-11)
    np.testing.assert_array_equal(start, kept)


def test_single_exchanges_converge():
    """Many nearly parallel anchors make block exchanges stall; the answer must not be affected."""
    rng = np.random.default_rng(11)
    k = 30
    C = np.exp(-0.5 * ((np.arange(60)[None] - 2 * np.arange(k)[:, None]) / 4.0) ** 2)
    X = rng.random((50, 60))
    Q, R = np.linalg.qr(C.T)
    np.testing.assert_allclose(
        np.linalg.norm(NonnegativeSystem(R).solve(X @ Q) @ C - X, axis=1),
        np.linalg.norm(encode(X, C) @ C - X, axis=1),
        rtol=1e-8,
    )


@settings(max_examples=60)
@given(
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(0, 2**32 - 1),
    st.sampled_from([None, 1.0]),
    st.sampled_from([0, 1000]),
)
def test_optimality_conditions_on_small_integers(k, n, seed, sum_to, few):
    """Integers give ties, zero columns and dependent anchors. The KKT conditions prove the optimum."""
    rng = np.random.default_rng(seed)
    C = rng.integers(0, 3, (k, n)).astype(float)
    X = rng.integers(-1, 4, (5, n)).astype(float)
    Q, R = np.linalg.qr(C.T)
    W = NonnegativeSystem(R, sum_to=sum_to, few=few).solve(X @ Q)
    gradient = (X - W @ C) @ C.T
    if sum_to is not None:
        np.testing.assert_allclose(W.sum(axis=1), 1.0, rtol=1e-14)
        gradient -= np.einsum("ij,ij->i", gradient, W)[:, None]
    assert (W >= 0).all()
    assert gradient.max() < 1e-11
    assert np.abs(gradient * W).max() < 1e-11


@pytest.mark.parametrize("sides", [1, 2])
def test_principal_pivot_solves_on_every_set(sides):
    rng = np.random.default_rng(14)
    k, m = 6, 40
    matrices = np.array([S @ S.T for S in rng.standard_normal((2, k, k))])
    sets, which = rng.random((m, k)) < 0.5, rng.random(m) < 0.5
    sets[:2] = [[False], [True]]
    given = rng.standard_normal((m, sides, k))
    U, smallest = given.copy(), np.empty(m)
    principal_pivot(matrices, which, sets, U, np.empty((k + 2, k)), np.empty(k, dtype=np.intp), smallest)
    for before, after, S, second, low in zip(given, U, sets, which, smallest):
        M = matrices[int(second)]
        if second:
            np.testing.assert_array_equal(after[1:], before[1:])
            before, after = before[:1], after[:1]
        z = np.linalg.solve(M[np.ix_(S, S)], before[:, S].T).T
        np.testing.assert_allclose(after[:, S], z, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(after[:, ~S], before[:, ~S] - z @ M[np.ix_(S, ~S)], rtol=1e-9, atol=1e-9)
        pivots = np.diag(np.linalg.cholesky(M[np.ix_(S, S)])) ** 2
        assert low == pytest.approx(pivots.min(initial=np.inf))


def test_pivots_detect_dependent_columns():
    ones, smallest = np.ones((2, 2, 2)), np.empty(1)
    U = np.ones((1, 1, 2))
    principal_pivot(
        ones, np.zeros(1, dtype=bool), np.ones((1, 2), dtype=bool), U, np.empty((4, 2)), np.empty(2, int), smallest
    )
    assert abs(smallest[0]) < 1e-15
    assert np.isfinite(U).all()


@pytest.mark.parametrize("kind", UNIQUE + DEGENERATE)
@pytest.mark.parametrize("sum_to", [None, 1.0])
def test_growing_sets_give_the_same_in_every_case(kind, sum_to, monkeypatch):
    rng = np.random.default_rng(11)
    C = components_of(kind, rng)
    X = rows_of(C, rng)
    Q, R = np.linalg.qr(C.T)
    cut = NonnegativeSystem(R, sum_to=sum_to).solve(X @ Q)
    monkeypatch.setattr("fastanchors.greedy.nnls._MANY", 2)
    grown = NonnegativeSystem(R, sum_to=sum_to).solve(X @ Q)
    errors, expected = (np.linalg.norm(W @ C - X, axis=1) for W in (grown, cut))
    size, largest = np.linalg.norm(X, axis=1), np.linalg.norm(C, axis=1).max()
    rounding = np.finfo(np.float64).eps * (largest if sum_to else 0.0)  # of mixtures that the largest anchor may be in
    assert (np.abs(errors - expected) <= 1e-6 * expected + 1e-9 * np.where(size > 0, size, 1) + rounding).all()


def test_small_anchors_beside_large_ones_keep_their_digits():
    """Mixtures of two anchors of 1e-8, beside one of 1e5: rounding is relative to the distance, not to the largest."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        C = rng.random((5, 12)) * np.array([1e-8, 3e-8, 1.0, 1e-3, 1e5])[:, None]
        shares = np.vstack([np.eye(2), rng.dirichlet(np.ones(2), 5)])
        Q, R = np.linalg.qr(C.T)
        system = NonnegativeSystem(R, sum_to=1.0)
        rows = np.hstack([shares @ C[:2] @ Q / system._unit, np.full((7, 1), system._lift)])
        W = np.array([system._nnls(row) for row in rows]) * system._scale
        np.testing.assert_allclose(W, np.hstack([shares, np.zeros((7, 3))]), rtol=0, atol=1e-7)


@pytest.mark.parametrize("total", [np.nan, 1.0])
def test_growing_sets_alone_are_optimal(total):
    rng = np.random.default_rng(12)
    R = rng.random((90, 80))
    R /= np.linalg.norm(R, axis=0)
    Y = np.vstack([rng.dirichlet(np.full(80, 0.05), 30) @ R.T, rng.standard_normal((30, 90))])
    e = rng.uniform(0.5, 2.0, 80)
    found = growing_sets(R.T @ R, Y @ R, e, total, np.full(len(Y), 1e-12))
    assert found.min() >= 0
    gradient = (Y - found @ R.T) @ R
    multiplier = np.zeros((len(Y), 1))
    if total == total:
        np.testing.assert_allclose(found @ e, total)
        taken = found > 0
        multiplier = (np.where(taken, gradient / e, 0).sum(axis=1) / taken.sum(axis=1))[:, None]
    np.testing.assert_allclose(np.where(found > 0, gradient - multiplier * e, 0), 0, atol=1e-9)
    assert (gradient - multiplier * e).max() <= 1e-9
