"""The lazy engine: equal to exact arithmetic and to an eager evaluation, with few reads."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import fastanchors as fa
from fastanchors.errors import InvalidInputError, RankError
from fastanchors.greedy import lazy, reader, residuals
from fastanchors.greedy.cone import ConeDistances
from fastanchors.greedy.lazy import Leaders
from fastanchors.greedy.reader import Reader
from fastanchors.greedy.residuals import Residuals
from fastanchors.greedy.span import Span
from fastanchors.greedy.successive import rounded_down, rounded_up, successive_projection
from fastanchors.greedy.ties import choose
from fastanchors.matrix import ArrayMatrix, MeteredMatrix, open_matrix
from naive import exact
from naive import solvers as naive


@pytest.fixture
def lazily(monkeypatch):
    """Use the lazy code paths on matrices so small that they would be in the pool, widened, and in one block."""
    monkeypatch.setattr(residuals, "_SMALL", 0)
    monkeypatch.setattr(residuals, "_POOL", (8, 64))
    monkeypatch.setattr(reader, "_TINY", 0)
    monkeypatch.setattr(reader, "_BLOCK", 64)
    monkeypatch.setattr(lazy, "_SEEDS", 2)
    monkeypatch.setattr(lazy, "_BLOCK_ROWS", 4)
    monkeypatch.setattr(lazy, "_GROWTH", 2)
    monkeypatch.setattr(lazy, "_SAMPLE", 8)


def family(kind: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    m, n = int(rng.integers(5, 40)), int(rng.integers(3, 8))
    A = rng.random((m, n))
    if kind == "near ties":  # residuals that differ by a few parts in a million, about the width of the tie band
        A = np.abs(rng.permuted(np.tile(rng.random(n), (m, 1)), axis=1)) * (1 + 3e-6 * rng.random((m, 1)))
    elif kind == "huge":
        A *= 1e150 / n
    elif kind == "minute":
        A *= 1e-140
    elif kind == "scales":
        A *= 10.0 ** rng.integers(-6, 1, (m, 1))
    elif kind == "clusters":  # around a few points, in single precision
        centres = rng.random((4, n))
        A = centres[rng.integers(4, size=m)] * (1 + 10.0 ** rng.uniform(-8, -5) * rng.standard_normal((m, n)))
        A = np.abs(A).astype(np.float32)
    elif kind == "duplicates":
        A = A[rng.integers(max(2, m // 3), size=m)]
    elif kind == "zero rows":
        A[rng.random(m) < 0.5] = 0.0
        A[0] = rng.random(n)
    elif kind == "counts":
        A = rng.integers(0, 3, (m, n)).astype(np.uint8)
        A[0, 0] = 1
    elif kind == "single":
        A = A.astype(np.float32)
    return A


FAMILIES = (
    "plain", "near ties", "huge", "minute", "scales", "clusters", "duplicates", "zero rows", "counts", "single",
)  # fmt: skip


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kind", FAMILIES)
@pytest.mark.parametrize("seed", range(8))
def test_equals_exact_arithmetic(lazily, kind, seed, sparse):
    A = family(kind, seed)
    expected = exact.spa(A, 4)
    found = successive_projection(Reader(open_matrix(sp.csr_array(A) if sparse else A)), 4, allow_fewer=True)
    assert not any(found.doubts)
    if kind == "clusters":  # the last of four anchors may be one of many that differ by rounding of the input alone
        assert max(exact.shortfalls(A, found.indices)) <= 1.1e-6
    else:
        assert found.indices == expected[: len(found.indices)]
        assert len(found.indices) == len(expected)
    assert fa.SPA(allow_fewer=True).seek(A, min(4, *A.shape)).indices.tolist() == found.indices[: min(A.shape)]


@pytest.mark.parametrize("seed", range(20))
def test_choices_decided_by_rounding_are_not_exact(seed):
    """Residuals of about 1e-12 of the norm that differ by one part in ten thousand."""
    rng = np.random.default_rng(seed)
    m, n = int(rng.integers(60, 120)), int(rng.integers(3, 8))
    b = rng.random(n) + 0.5
    P = rng.standard_normal((m, n))
    P -= np.outer(P @ b, b) / (b @ b)
    P /= np.linalg.norm(P, axis=1)[:, None]
    level = 10.0 ** -rng.uniform(4, 13)
    A = b * (rng.random((m, 1)) * 0.01 + 1) + level * P * (1 + 10.0 ** rng.uniform(-5.5, -3) * rng.random((m, 1)))
    A[0] = b * 2
    for solver in (fa.SPA(allow_fewer=True), fa.FAS(allow_fewer=True)):
        found = solver.seek(A, 2)
        worst = max(exact.shortfalls(A, found.indices.tolist()))
        if found.certificate.kind == "exact":
            assert worst <= 2e-6
        elif found.certificate.kind == "near":
            assert 1 - np.sqrt(1 - worst) <= found.certificate.details["eta"]


def test_beyond_the_rank_nothing_is_exact():
    rng = np.random.default_rng(19)
    A = rng.random((700, 5)) @ rng.random((5, 20))
    for solver in (fa.SPA(tol=0.0, allow_fewer=True), fa.FAS(tol=0.0, allow_fewer=True)):
        assert solver.seek(A, 5).certificate.kind == "exact"
        found = solver.seek(A, 8)
        assert found.certificate.kind in ("near", "none")
        assert "rounding" in found.certificate.statement


@pytest.mark.parametrize("matrix", [np.asarray, lambda A: fa.SampleMatrix(A, normalize=None)], ids=["array", "sampled"])
def test_many_copies_of_few_rows_beyond_their_rank(matrix):
    """The unit residual of a row within the span was not orthogonal to the basis, and an assertion failed."""
    ended = set()
    for seed in range(12):
        rng = np.random.default_rng(seed)
        V = (rng.integers(0, 3, (14, 2)) @ rng.integers(0, 3, (2, 5))).astype(float)
        A = V[rng.integers(0, 14, 30_000)]
        for solver in (fa.SPA(tol=0), fa.FAS(selection="spa", tol=0)):
            try:
                ended.add(solver.seek(matrix(A), 5).certificate.kind)
            except RankError:
                ended.add("rank")
            found = type(solver)(**solver.get_params() | {"tol": 0, "allow_fewer": True}).seek(matrix(A), 2)
            assert found.certificate.kind == "exact"
    assert ended <= {"none", "rank"}


@pytest.mark.parametrize("residual", [0.0, 1e-16, 1e-13, 1e-8, 1.0])
def test_every_direction_is_orthogonal_to_the_basis(residual):
    """Also that of a point whose residual is rounding, or of one that has none at all."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        basis = np.linalg.qr(rng.standard_normal((6, 4)))[0].T
        span = Span(Reader(ArrayMatrix(rng.random((3, 6)))), 5)
        for q in basis[:3]:
            span.remove(q)
        q, _ = span.direction(rng.standard_normal(3) @ basis[:3] + residual * basis[3])
        if not q.any():
            assert residual <= 1e-16
        else:
            assert np.abs(basis[:3] @ q).max() < 1e-14
            assert np.isclose(q @ q, 1.0)


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(FAMILIES), st.booleans())
def test_lazy_equals_eager_for_a_span(seed, kind, sparse):
    A = family(kind, seed)
    matrix = sp.csr_array(A) if sparse else A
    k = min(5, *A.shape)
    eager = successive_projection(Reader(open_matrix(matrix)), k, allow_fewer=True)
    run = Residuals(Reader(ArrayMatrix(matrix)), k, lazy=True)
    for index in eager.indices:
        leaders = run.leaders()
        assert int(leaders.rows[choose(leaders.values, leaders.norms)]) == index
        q, _ = run.direction(run.reader.row(index))
        run.remove(q)
        run.bar(index)


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32 - 1), st.booleans(), st.booleans(), st.sampled_from([np.float32, np.float64]))
def test_lazy_equals_eager_for_a_cone_and_a_hull(seed, bounded, sparse, dtype):
    rng = np.random.default_rng(seed)
    A, _ = naive.separable(rng, 60, 6, 4, noise=float(rng.choice([0.0, 0.1])))
    A = A.astype(dtype)
    run = ConeDistances(Reader(ArrayMatrix(sp.csr_array(A) if sparse else A)), 4, bounded=bounded)
    taken: list[int] = []
    for _ in range(4):
        values = _distances(A.astype(float), A[taken].astype(float), bounded)
        values[taken] = -1.0
        leaders = run.leaders()
        assert set(np.flatnonzero(values >= (1 - 1e-7) * values.max())) <= set(leaders.rows.tolist())
        np.testing.assert_allclose(leaders.values, values[leaders.rows], rtol=1e-6, atol=1e-12)
        assert (np.abs(leaders.values - values[leaders.rows]) <= leaders.errors + 1e-12).all()
        taken.append(int(leaders.rows[choose(leaders.values, leaders.norms)]))
        run.add(taken[-1])


def _distances(A: np.ndarray, W: np.ndarray, bounded: bool) -> np.ndarray:
    from scipy.optimize import nnls

    if len(W) == 0:
        return (A**2).sum(axis=1)
    if bounded:
        return np.array([((a - naive.project_on_hull(W, a) @ W) ** 2).sum() for a in A])
    return np.array([nnls(W.T, a)[1] ** 2 for a in A])


# --- number of reads -----------------------------------------------------


def mixtures(m: int, n: int, k: int, noise: float = 0.05) -> np.ndarray:
    rng = np.random.default_rng(3)
    A = rng.dirichlet(np.ones(k), m) @ rng.random((k, n))
    A += noise * A.mean() * np.abs(rng.standard_normal(A.shape))
    return A.astype(np.float32)


def plain_spa(A: np.ndarray, k: int) -> list[int]:
    rest, found = A.copy(), []
    for _ in range(k):
        found.append(int(np.argmax((rest**2).sum(axis=1))))
        q = rest[found[-1]] / np.linalg.norm(rest[found[-1]])
        rest -= np.outer(rest @ q, q)
    return found


def test_each_row_is_read_about_once_for_all_steps():
    A = mixtures(40_000, 40, 10)
    path = successive_projection(Reader(open_matrix(A)), 10)
    assert path.indices == plain_spa(A.astype(float), 10)
    assert path.looks <= 2.5 * len(A)  # SPA: 10
    noise = np.abs(np.random.default_rng(4).standard_normal((20_000, 40))).astype(np.float32)
    path = successive_projection(Reader(open_matrix(noise)), 30)
    assert path.looks <= 4 * len(noise)  # SPA: 30
    tails = sp.random_array((100_000, 400), density=0.02, rng=np.random.default_rng(5), format="csr")
    tails.data = (np.random.default_rng(6).pareto(1.5, tails.nnz) + 0.01).astype(np.float32)
    path = successive_projection(Reader(open_matrix(tails)), 20)
    assert path.looks <= 0.2 * tails.shape[0]  # SPA: 20


@pytest.mark.parametrize("bounded", [False, True])
def test_about_one_least_squares_problem_per_row_for_all_steps(bounded):
    A = mixtures(5_000, 30, 8)
    run = ConeDistances(Reader(open_matrix(A)), 8, bounded=bounded)
    solved = 0
    solve = run._solve

    def counted(Y):
        nonlocal solved
        solved += len(Y)
        return solve(Y)

    run._solve = counted
    for _ in range(8):
        leaders = run.leaders()
        run.add(int(leaders.rows[choose(leaders.values, leaders.norms)]))
    assert solved <= 2.5 * len(A)  # at every step: 7


def test_reads_are_counted_and_kept_within_a_budget():
    A = mixtures(5_000, 40, 5)
    data = MeteredMatrix(open_matrix(A))
    path = successive_projection(Reader(data), 5)
    assert len(A) + path.looks <= data.cost.rows_read <= len(A) + path.looks + 20_000
    from fastanchors.matrix.metered import BudgetExceeded

    with pytest.raises(BudgetExceeded):
        successive_projection(Reader(MeteredMatrix(open_matrix(A), budget=5_500)), 5)


# --- the first pass ------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_first_pass_finds_bad_entries(dtype, sparse):
    A = np.ones((3000, 30), dtype=dtype)
    wrongs = [(-1, "negative")] if A.dtype.kind == "i" else [(-1, "negative"), (np.nan, "NaN"), (np.inf, "infinite")]
    for value, what in wrongs:
        B = A.copy()
        B[2711, 17] = value
        with pytest.raises(InvalidInputError, match=rf"A\[2711, 17\] is {what}"):
            Reader(open_matrix(sp.csr_array(B) if sparse else B, checked=False))


def test_double_precision_is_used_if_squares_exceed_single():
    A = mixtures(3000, 30, 5)
    expected = successive_projection(Reader(open_matrix(A)), 5).indices
    for scale in (2.0**80, 2.0**-80):
        look = Reader(open_matrix((A * np.float32(scale)).astype(np.float32)))
        assert not look.single
        assert successive_projection(look, 5).indices == expected
    with pytest.raises(InvalidInputError, match=r"squared norm of A\[\d+\] overflows"):
        Reader(open_matrix(A.astype(float) * 1e300))


def test_leaders_without_candidates():
    with pytest.raises(RankError, match="every row of A is zero"):
        successive_projection(Reader(open_matrix(np.zeros((5000, 40)))), 2)
    run = Residuals(Reader(open_matrix(np.zeros((5000, 40)))), 2)
    assert isinstance(run.leaders(), Leaders)
    assert run.largest() == 0.0


def test_k_is_limited_by_the_matrix_only():
    A = np.random.default_rng(0).random((1200, 510))
    found = fa.FAS(selection="spa").seek(A, 505)
    assert found.certificate.kind == "exact"
    assert len(set(found.indices)) == 505
    by_default = fa.FAS().seek(A, 505)  # so many anchors are left to SPA
    np.testing.assert_array_equal(by_default.indices, found.indices)


@given(st.floats(1e-12, 1e12))
def test_bounds_in_sentences_are_rounded_to_the_safe_side(bound):
    assert 0.99 * bound <= float(rounded_down(bound)) <= bound <= float(rounded_up(bound)) <= 1.01 * bound
