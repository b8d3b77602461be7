"""Hottopixx: optimum against the dense program, column generation, gathering of copies, errors."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import fastanchors as fa
import naive.lp as naive
from fastanchors import datasets
from fastanchors._validate import memory
from fastanchors.errors import FastAnchorsError, InvalidInputError, RankError, TooLargeError
from fastanchors.metrics import anchor_recovery
from fastanchors.solvers import _lp
from fastanchors.solvers.hottopixx import by_columns, gather, solve
from naive.sampling import NaiveSampleMatrix


def noisy(seed, mixtures=7, n=4, k=3, noise=0.05):
    data = datasets.dirichlet(mixtures, n, k, copies=1, noise=noise, rng=seed)
    return data, data.A / data.A.sum(axis=1).max()


@pytest.mark.parametrize("seed", range(4))
def test_least_residual_against_the_twin(seed):
    _, A = noisy(seed)
    objective, _ = naive.hottopixx(A, 3)
    whole = solve(A, np.arange(len(A)), 3)
    assert whole.objective == pytest.approx(objective, abs=1e-8)
    assert whole.diagonal.sum() == pytest.approx(3.0)
    generated = by_columns(A, 3, np.random.default_rng(seed))
    assert generated.objective == pytest.approx(objective, abs=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_published_program_against_the_twin(seed):
    _, A = noisy(seed)
    price = np.random.default_rng(seed).random(len(A))
    objective, diagonal = naive.hottopixx(A, 3, price=price, bound=0.2)
    program = solve(A, np.arange(len(A)), 3, price=price, bound=0.2)
    assert program.objective == pytest.approx(objective, abs=1e-7)
    np.testing.assert_allclose(program.diagonal, diagonal, atol=1e-5)


def test_column_generation_reaches_the_optimum_of_all_columns():
    _, A = noisy(9, mixtures=30, n=8, k=4, noise=0.1)
    generated = by_columns(A, 4, np.random.default_rng(0))
    whole = solve(A, np.arange(len(A)), 4)
    assert len(generated.columns) < len(A)
    assert generated.objective == pytest.approx(whole.objective, rel=1e-5)


@pytest.mark.parametrize("noise", [None, 0.0])
def test_exact_anchors_with_copies_for_every_input_kind(noise):
    data = datasets.separable(40, 10, 4, copies=3, sparse=0.3, rng=2)
    dense = data.A.toarray()
    for A in (dense, data.A, sp.csc_array(data.A), NaiveSampleMatrix(dense, normalize=None)):
        found = fa.Hottopixx(noise=noise).seek(A, 4, rng=0)
        assert sorted(found.indices) == sorted(data.anchors)  # the first copy of each
        np.testing.assert_allclose(found.certificate.details["diagonal"], 1.0, atol=1e-6)


def test_near_copies_are_one_anchor():
    data = datasets.dirichlet(30, 12, 4, copies=3, alpha=0.5, noise=0.02, rng=3)
    for noise in (None, 0.02, 0.05):
        found = fa.Hottopixx(noise=noise).seek(data.A, 4, rng=0)
        assert anchor_recovery(found.indices, data.labels) == 1.0
    first = fa.Hottopixx(noise=0.05, robust=False).seek(data.A, 4, rng=0)  # any cheap row within 2ε is accepted
    assert anchor_recovery(first.indices, data.labels) < 1.0


def test_more_anchors_than_columns():
    data = datasets.dirichlet(30, 5, 8, copies=2, noise=1e-3, rng=0)
    found = fa.Hottopixx().seek(data.A, 8, rng=0)
    assert anchor_recovery(found.indices, data.labels) == 1.0


def test_rays_and_zero_rows():
    data = datasets.separable(40, 8, 3, copies=2, rng=3)
    A = data.A * np.random.default_rng(1).uniform(0.1, 10.0, (40, 1))
    A[0] = 0.0
    labels = np.where(np.arange(40) == 0, -1, data.labels)
    assert anchor_recovery(fa.Hottopixx(geometry="cone").seek(A, 3, rng=0).indices, labels) == 1.0


def test_gather():
    points = np.array([[0.0], [0.01], [0.5], [0.98], [1.0]])
    weight = np.array([0.5, 0.5, 0.05, 0.35, 0.6])
    assert sorted(gather(points, weight, 2)) == [0, 4]  # the heaviest of each neighbourhood, ties the lowest
    assert gather(points, np.array([0.0, 1.0, 0.0, 0.0, 1.0]), 2).tolist() == [1, 4]
    spread = np.full(5, 0.4)  # no two neighbourhoods have weight 2/3 each before they merge
    assert len(set(gather(points, spread, 3))) == 3


def test_postprocessing_is_what_handles_copies():
    """Two near copies of each anchor with half the weight each: the largest entries alone would repeat an anchor."""
    points = np.array([[0.0, 0.0], [1e-3, 0.0], [1.0, 0.0], [1.0, 1e-3], [0.0, 1.0]])
    weight = np.array([0.6, 0.55, 0.45, 0.5, 0.9])
    assert sorted(gather(points, weight, 3)) == [0, 3, 4]
    assert sorted(np.argsort(-weight)[:3]) == [0, 1, 4]


def test_invalid_input_is_refused(monkeypatch):
    data = datasets.separable(20, 6, 3, rng=0)
    with pytest.raises(RankError, match="3 rows explain all") as caught:
        fa.Hottopixx().seek(data.A, 4, rng=0)
    assert caught.value.rank == 3
    assert sorted(fa.Hottopixx(allow_fewer=True).seek(data.A, 4, rng=0).indices) == sorted(data.anchors)
    with pytest.raises(InvalidInputError, match=r"2·noise"):
        fa.Hottopixx(noise=0.0, robust=False).seek(data.A, 2, rng=0)
    with pytest.raises(RankError, match="3 rows explain all"):
        fa.Hottopixx(noise=0.0).seek(data.A, 4, rng=0)
    with pytest.raises(InvalidInputError, match="noise"):
        fa.Hottopixx(noise=-1.0).seek(data.A, 2, rng=0)
    with pytest.raises(InvalidInputError, match="geometry"):
        fa.Hottopixx(geometry="sphere").seek(data.A, 2, rng=0)
    monkeypatch.setattr(memory, "available_memory", lambda: 10_000)
    with pytest.raises(TooLargeError, match=r"20×20 weights.*GB of memory"):
        fa.Hottopixx(noise=0.1).seek(data.A, 3, rng=0)


@pytest.mark.parametrize("noise", [None, 0.1])
def test_millions_of_rows_are_refused_before_they_are_used(noise):
    empty = sp.csr_array((10**6, 50))
    with pytest.raises(TooLargeError, match=r"1000000 rows and 50 columns: 5e\+13 entries, more than max_work.*sample"):
        fa.Hottopixx(noise=noise).seek(empty, 3)
    with pytest.raises(TooLargeError, match="max_work = 1e\\+03"):
        fa.Hottopixx(noise=noise, max_work=1e3).seek(datasets.separable(20, 6, 3, rng=0).A, 3)
    with pytest.raises(TooLargeError, match=r"holding 1000000 rows of 10000000 columns.*GB of memory"):
        fa.Hottopixx(noise=noise, max_work=np.inf).seek(sp.csr_array((10**6, 10**7)), 3)


def test_the_memory_of_all_programs_and_rates_is_computed_before_the_first():
    points = np.broadcast_to(np.ones(4) / 4, (10**6, 4))  # takes 32 bytes
    with pytest.raises(TooLargeError, match=r"1000000×6 weights and the rates of 1000000×1000000 .*2.4e\+04 GB"):
        by_columns(points, 2, np.random.default_rng(0))
    with pytest.raises(TooLargeError, match=r"1000000×1000000 weights.*GB of memory"):
        solve(points, np.arange(10**6), None, bound=0.1)


@pytest.mark.parametrize("noise", [None, 0.0])
def test_first_published_form(noise):
    data = datasets.separable(30, 6, 3, copies=2, rng=0)
    found = fa.Hottopixx(noise=noise, robust=False).seek(data.A, 3, rng=0)
    assert sorted(found.indices) == sorted(data.anchors)


@pytest.mark.parametrize(
    "A",
    [
        [[3.9e-07, 4.4e-07], [3.0e-07, 4.5e-09], [6.2e-08, 2.4e-08], [0.4, 0.22]],
        [
            [3.9105016714630013e-07, 4.394603594830023e-07],  # the interior-point method oscillates
            [2.962672355633481e-07, 4.535202013976281e-09],
            [6.201101770907441e-08, 2.442904276956139e-08],
            [0.4042666998580843, 0.21925689121681702],
        ],
        [[1000.0, 800.0], [1e-6, 3e-6], [2e-3, 4e-3], [1e-5, 6e-5]],  # HiGHS ignores entries below 1e-9
    ],
)
def test_rows_of_very_different_sizes(A):
    found = fa.Hottopixx(noise=0, allow_fewer=True).seek(A, 1, rng=0)
    assert found.indices.tolist() == [int(np.argmax(np.sum(A, axis=1)))]  # all have weight 1: the largest is first


def test_a_matrix_with_a_non_zero_row_has_an_anchor():
    for A in ([[1.0, 0], [0, 1], [1e-8, 1e-8]], [[1e-8], [0.01], [1.0]], [[1e-7, 2e-7], [1.0, 2.0], [0.5, 1.0]]):
        for robust in (True, False):
            assert len(fa.Hottopixx(robust=robust).seek(A, 1, rng=0)) == 1
    near = np.array([[1.0], [1.0 + 1e-13], [1.0 + 2e-13]])  # no k separate neighbourhoods at any radius
    assert len(gather(near, np.full(3, 0.5), 2)) == 2


def test_a_failed_program_is_solved_by_the_other_method(monkeypatch):
    solve_program, methods = _lp.linprog, []

    def fussy(*args, method, options, **program):
        methods.append(method)
        assert options["maxiter"] > 0
        solution = solve_program(*args, method=method, options=options, **program)
        if method == "highs-ipm" or refuse:
            solution.status = 1
        return solution

    monkeypatch.setattr(_lp, "linprog", fussy)
    refuse = False
    assert solve(np.eye(3), np.arange(3), 3).diagonal == pytest.approx([1.0, 1.0, 1.0])
    assert methods == ["highs-ipm", "highs-ipm", "highs-ds"]
    refuse = True
    with pytest.raises(FastAnchorsError, match=r"could not solve a program of 30 variables.*use SPA"):
        solve(np.eye(3), np.arange(3), 3)


def test_free_trace_against_the_twin():
    _, A = noisy(5)
    price = 1.0 + 0.01 * np.random.default_rng(5).random(len(A))
    program = solve(A, np.arange(len(A)), None, price=price, bound=0.1)
    objective, diagonal = naive.hottopixx(A, None, price=price, bound=0.1)
    assert program.objective == pytest.approx(objective, abs=1e-7)
    np.testing.assert_allclose(program.diagonal, diagonal, atol=1e-5)
