"""FAS(selection="spa"): the anchors of SPA for every kind of matrix, and certificates that are true."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import fastanchors as fa
from fastanchors.errors import InvalidInputError, InvalidTypeError, RankError
from fastanchors.fas import certificate as fas_certify
from fastanchors.fas import opening as fas_input
from fastanchors.fas import seek as fas_seek
from naive.fas import noisy, residual_norms, separable
from naive.sampling import NaiveSampleMatrix
from naive.solvers import project_on_hull

KINDS = ["array", "float32", "csr", "uint8", "sample", "sample sparse", "naive", "store"]


@pytest.fixture(autouse=True)
def _no_small(monkeypatch):
    """Use the index also on small matrices, for which SPA would be used."""
    monkeypatch.setattr(fas_seek, "SMALL", 0)
    monkeypatch.setattr(fas_seek, "_SMALL_ARRAY", 0)


def held(A, kind, tmp_path):
    match kind:
        case "array":
            return A
        case "float32":
            return A.astype(np.float32)
        case "csr":
            return sp.csr_array(A * (A > 0.2))
        case "uint8":
            return np.round(200 * A / A.max()).astype(np.uint8)
        case "sample":
            return fa.SampleMatrix(A)
        case "sample sparse":
            return fa.SampleMatrix(sp.csr_array(A * (A > 0.2)))
        case "naive":
            return NaiveSampleMatrix(A)
        case "store":
            return fa.build(A.astype(np.float32), tmp_path / "store")
    raise AssertionError(kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("noise", [False, True])
def test_equals_spa(kind, noise, tmp_path):
    rng = np.random.default_rng(5)
    A = separable(rng, 3000, 25, 6)
    A = noisy(rng, A) if noise else A
    S = held(A, kind, tmp_path)
    found = fa.FAS(selection="spa").seek(S, 6, rng=1)
    expected = fa.SPA().seek(S, 6)
    assert found.indices.tolist() == expected.indices.tolist()
    np.testing.assert_allclose(found.residuals, expected.residuals, rtol=1e-9)
    assert found.certificate.kind == "exact"
    assert found.solver == "fas"


@pytest.mark.parametrize("name", fa.datasets.FAMILIES)
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_equals_spa_on_the_families(name, noise):
    A = fa.datasets.family(name, noise=noise, rng=2).A
    k = min(20, *A.shape)
    assert answer(fa.FAS(selection="spa"), A, k) == answer(fa.SPA(), A, k)


def answer(solver, A, k):
    try:
        return solver.seek(A, k, rng=0).indices.tolist()
    except RankError as error:
        return f"rank {error.rank}"


def test_an_array_is_read_about_twice():
    A = separable(np.random.default_rng(0), 20_000, 30, 8)
    found = fa.FAS(selection="spa").seek(A, 8, rng=0)
    assert found.cost.rows_read <= 3 * 20_000  # one first pass and fewer than two more; SPA takes nine passes
    assert found.certificate.kind == "exact"
    assert found.indices.tolist() == fa.SPA().seek(A, 8).indices.tolist()


def test_anchors_below_the_noise_are_those_of_spa():
    rng = np.random.default_rng(0)
    A = np.abs(rng.standard_normal((3000, 40)))  # no clear anchors
    found = fa.FAS(selection="spa").seek(A, 12, rng=0)
    assert found.indices.tolist() == fa.SPA().seek(A, 12).indices.tolist()
    S = fa.SampleMatrix(A)
    expected = fa.SPA().seek(S, 12).indices.tolist()
    assert fa.FAS(selection="spa").seek(S, 12, rng=0).indices.tolist() == expected
    again = fa.FAS(selection="spa").seek(S, 12)
    assert again.indices.tolist() == expected
    assert again.cost.rows_read == 0


def test_a_larger_k_later():
    A = separable(np.random.default_rng(1), 2000, 20, 9)
    S = fa.SampleMatrix(A)
    for k in (2, 5, 9, 3):
        assert fa.FAS(selection="spa").seek(S, k).indices.tolist() == fa.SPA().seek(S, k).indices.tolist()


def test_several_k_at_once():
    A = separable(np.random.default_rng(1), 2000, 20, 9)
    several = fa.FAS(selection="spa").seek(A, [3, 9, 5], rng=0)
    assert [len(each) for each in several] == [3, 9, 5]
    whole = fa.SPA().seek(A, 9).indices.tolist()
    assert all(each.indices.tolist() == whole[: len(each)] for each in several)
    assert several[0].residuals.shape == (3,)


@pytest.mark.parametrize("sizes", [range(1, 10), range(9, 0, -2)])
def test_a_range_of_k_gives_for_each_what_it_gives_alone(sizes):
    S = fa.SampleMatrix(separable(np.random.default_rng(1), 4000, 20, 9))
    fa.FAS(selection="spa").seek(S, 9)  # makes the index
    for k, found in zip(sizes, fa.FAS(selection="spa").seek(S, sizes), strict=True):
        alone = fa.FAS(selection="spa").seek(S, k)
        assert found.indices.tolist() == alone.indices.tolist()
        assert found.residuals.tolist() == alone.residuals.tolist()
        assert (found.certificate.kind, found.solver, found.cost) == ("exact", "fas", alone.cost)
    with pytest.raises(InvalidInputError, match="k = 21"):
        fa.FAS(selection="spa").seek(S, range(1, 22))
    with pytest.raises(InvalidInputError, match="k must be at least 1"):
        fa.FAS(selection="spa").seek(S, range(3))


@pytest.mark.parametrize("options", [{"precondition": "spa"}, {"precondition": "svd"}, {"robust": "neighbours"}])
def test_options_of_spa(options):
    rng = np.random.default_rng(4)
    A = noisy(rng, separable(rng, 600, 15, 4, alpha=0.3))
    for S in (A, fa.SampleMatrix(A)):
        found, expected = fa.FAS(**options).seek(S, 4, rng=0), fa.SPA(**options).seek(S, 4)
        assert found.indices.tolist() == expected.indices.tolist()
        assert found.certificate.kind == expected.certificate.kind


@pytest.mark.parametrize("shape", [(50, 30), (7, 4), (3, 3), (1, 5), (40, 1)])
def test_small_matrices_of_unusual_shapes(shape, monkeypatch):
    A = np.random.default_rng(0).random(shape)
    k = min(3, *shape)
    expected = fa.SPA().seek(A, k).indices.tolist()
    assert fa.FAS(selection="spa").seek(A, k, rng=0).indices.tolist() == expected
    monkeypatch.undo()
    found = fa.FAS(selection="spa").seek(A, k, rng=0)
    assert found.indices.tolist() == expected
    assert found.cost.rows_read == shape[0]
    assert fa.FAS(selection="spa").seek(fa.SampleMatrix(A, normalize=None), k).indices.tolist() == expected


def test_rank_below_k():
    A = separable(np.random.default_rng(0), 1500, 12, 4)
    for S in (A, fa.SampleMatrix(A)):
        with pytest.raises(RankError, match="only 4 of 6") as raised:
            fa.FAS(selection="spa").seek(S, 6, rng=0)
        assert raised.value.rank == 4
        fewer = fa.FAS(allow_fewer=True).seek(S, 6, rng=0)
        assert fewer.indices.tolist() == fa.SPA().seek(S, 4).indices.tolist()
    with pytest.raises(RankError, match="zero"):
        fa.FAS(selection="spa").seek(np.zeros((2000, 5)), 2)


def test_same_seed_same_reads():
    A = noisy(np.random.default_rng(0), separable(np.random.default_rng(0), 2500, 20, 5))
    one, two = (fa.FAS(selection="spa").seek(A, 5, rng=7) for _ in range(2))
    assert one.cost == two.cost
    assert one.certificate == two.certificate


# --- bad input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "what"), [(np.nan, "NaN"), (np.inf, "infinite"), (-1.0, "negative")])
@pytest.mark.parametrize("row", [0, 1234, 4999])
def test_bad_entries_are_found_in_the_pass(value, what, row):
    A = separable(np.random.default_rng(0), 5000, 20, 4)
    A[row, 3] = value
    A[4999, 5] = value
    with pytest.raises(InvalidInputError, match=rf"A\[{row}, 3\] is {what}"):
        fa.FAS(selection="spa").seek(A, 4, rng=0)


def test_bad_options():
    A = np.eye(5)
    with pytest.raises(InvalidInputError, match="budget"):
        fa.FAS(budget=0)
    with pytest.raises(InvalidInputError, match="cannot be combined"):
        fa.FAS(budget=10, robust="average")
    with pytest.raises(InvalidInputError, match="precondition"):
        fa.FAS(precondition="magic")
    with pytest.raises(InvalidInputError, match="delta"):
        fa.FAS(delta=0.9)
    with pytest.raises(InvalidInputError, match="k = 6"):
        fa.FAS(selection="spa").seek(A, 6)
    with pytest.raises(InvalidInputError, match="k is empty"):
        fa.FAS(selection="spa").seek(A, [])
    with pytest.raises(InvalidInputError, match="k = 9"):
        fa.FAS(selection="spa").seek(A, [2, 9])
    with pytest.raises(InvalidTypeError, match="one k at a time"):
        fa.FAS(variant="paper").seek(A, [2, 3])
    with pytest.raises(TypeError, match="turbo"):
        fa.FAS(turbo=True)


# --- budgets ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [40, 300, 1200, 2100, 4100, 6000, 9000])
@pytest.mark.parametrize("kind", ["array", "sample", "csr", "noise"])
def test_a_budget_is_kept_and_the_certificate_is_true(budget, kind, tmp_path):
    rng = np.random.default_rng(budget)
    A = separable(rng, 2000, 12, 5)
    if kind == "noise":
        A, kind = noisy(rng, A), "sample"
    S = held(A, kind, tmp_path)
    found = fa.FAS(budget=budget).seek(S, 5, rng=0)
    assert found.cost.rows_read <= budget
    expected = fa.SPA().seek(S, 5).indices.tolist()
    details = found.certificate.details
    view = np.vstack([np.asarray(b.toarray() if sp.issparse(b) else b) for _, b in blocks(S)])
    match found.certificate.kind:
        case "exact":
            assert found.indices.tolist() == expected
        case "near":
            check_near(view, found, details["eta"])
        case "sampled":
            assert "could not be settled" in found.certificate.statement
            check_sampled(view, found, details, cone=kind in ("array", "csr"), by_norm=kind == "sample")
        case other:
            raise AssertionError(other)
    if budget >= 9000:
        assert found.certificate.kind == "exact"


def blocks(S):
    return S.blocks(500) if hasattr(S, "blocks") else [(0, S)]


def check_near(view, found, eta):
    residuals = residual_norms(view, found.indices)[:, : len(found)]
    chosen = residuals[found.indices, np.arange(len(found))]
    assert (chosen >= (1 - eta) * residuals.max(axis=0) * (1 - 1e-12)).all()


def check_sampled(view, found, details, cone, by_norm):
    """The share beyond r, by brute force. One seed in a hundred may fail; the seeds are fixed."""
    distances = np.array([distance(view[found.indices], a, cone) for a in view[::10]])
    weights = (view[::10] ** 2).sum(axis=1) if by_norm else np.ones(len(distances))
    share = weights[distances > details["r"]].sum() / weights.sum()
    # Estimated from every tenth row: three standard errors.
    assert share <= details["theta"] + 3 * np.sqrt(details["theta"] / len(distances))


def distance(anchors, a, cone):
    if not cone:  # Σ = 1: the origin is not a vertex
        anchors, a = anchors - anchors[-1], a - anchors[-1]
        anchors = anchors[:-1]
    return np.linalg.norm(project_on_hull(anchors, a)[: len(anchors)] @ anchors - a)


def test_near_if_the_budget_is_too_small_to_renew_the_proof():
    rng = np.random.default_rng(0)
    S = fa.SampleMatrix(separable(rng, 2000, 12, 5))
    first = fa.FAS(selection="spa").seek(S, 5)
    S.update(np.full(12, first.indices[1]), np.arange(12), np.full(12, 0.5))  # an anchor moves inside
    found = fa.FAS(budget=100).seek(S, 5, rng=0)
    assert found.cost.rows_read <= 100
    assert found.certificate.kind in ("near", "sampled")
    assert "could not be settled" in found.certificate.statement
    if found.certificate.kind == "near":
        check_near(np.asarray(S.rows(np.arange(2000))), found, found.certificate.details["eta"])
    mended = fa.FAS(selection="spa").seek(S, 5, rng=0)
    assert mended.certificate.kind == "exact"
    assert mended.indices.tolist() == fa.SPA().seek(S, 5).indices.tolist()


def test_largest_distance_is_that_of_the_naive_twin():
    rng = np.random.default_rng(2)
    points, rows = rng.random((4, 6)), rng.random((30, 6))
    for origin in (True, False):
        expected = max(distance(points, a, origin) for a in rows)
        assert fas_certify.largest_distance(rows, points, origin=origin) == pytest.approx(expected, rel=1e-6)
        assert fas_certify.largest_distance(sp.csr_array(rows), points, origin=origin) == pytest.approx(expected)


def test_a_small_budget_gives_fewer_anchors_and_states_it():
    found = fa.FAS(budget=4).seek(separable(np.random.default_rng(0), 500, 12, 5), 5)
    assert 1 <= len(found) <= 4
    assert found.cost.rows_read <= 4
    assert "of 5 anchors were found" in found.certificate.statement


# --- files --------------------------------------------------------------------------------------------------------


def test_files(tmp_path, monkeypatch):
    A = separable(np.random.default_rng(0), 2000, 15, 5)
    expected = fa.SPA().seek(A, 5).indices.tolist()
    np.save(tmp_path / "a.npy", A)
    found = fa.FAS(selection="spa").seek(tmp_path / "a.npy", 5, rng=0)
    assert found.indices.tolist() == expected
    assert found.certificate.details["source"] == "streamed from the file"
    np.save(tmp_path / "f.npy", np.asfortranarray(A))
    sp.save_npz(tmp_path / "s.npz", sp.csr_array(A))
    for name in ("f.npy", "s.npz"):
        found = fa.FAS(selection="spa").seek(str(tmp_path / name), 5, rng=0)
        assert found.indices.tolist() == expected
        assert found.certificate.details["source"] == "read into memory"
    monkeypatch.setattr(fas_input, "IN_MEMORY", 1000)
    found = fa.FAS(selection="spa").seek(tmp_path / "f.npy", 5, rng=0)
    assert found.indices.tolist() == expected
    assert found.certificate.details["source"] == "built into a temporary store"
    fa.build(A, tmp_path / "store")
    assert fa.FAS(selection="spa").seek(tmp_path / "store", 5).certificate.kind == "exact"


def test_largest_entries_whose_squares_are_finite():
    A = np.random.default_rng(0).random((5000, 20)) * 1e153
    assert fa.FAS(selection="spa").seek(A, 4, rng=0).indices.tolist() == fa.SPA().seek(A, 4).indices.tolist()
    A = np.random.default_rng(0).random((5000, 20))
    A[3777, 2] = 1e160
    for solver in (fa.SPA(), fa.FAS(selection="spa")):
        with pytest.raises(InvalidInputError, match=r"squared norm of A\[3777\] overflows"):
            solver.seek(A, 4, rng=0)


def full_rank_by_passes():
    """A matrix that needs full SPA: at step 2 a residual is at the edge of the tie band."""
    A = 1e-3 * np.random.default_rng(0).random((400, 6))
    A[3] = [10, 0, 0, 0, 0, 0]
    A[5] = [0.1, 1, 0, 0, 0, 0]
    A[7] = [0.5, np.sqrt(1 - 1e-6), 0, 0, 0, 0]
    return A


def test_fewer_anchors_are_returned_only_if_allowed():
    S = fa.SampleMatrix(full_rank_by_passes(), normalize=None)
    fewer = fa.FAS(tol=0.01, allow_fewer=True).seek(S, 5)
    assert len(fewer) == 2
    assert "full SPA" in fewer.certificate.statement
    for solver in (fa.FAS(tol=0.01), fa.SPA(tol=0.01)):
        with pytest.raises(RankError, match="only 2 of 5"):
            solver.seek(S, 5)
    assert fa.FAS(tol=0.01, allow_fewer=True).seek(S, 5).cost.rows_read == 0


@pytest.mark.parametrize("by_passes", [False, True])
def test_each_of_a_list_has_the_certificate_of_its_own_k(by_passes):
    A = full_rank_by_passes() if by_passes else np.random.default_rng(0).random((3000, 30))
    S = fa.SampleMatrix(A, normalize=None)
    few, some, many = fa.FAS(selection="spa").seek(S, [1, 2, 5], rng=0)
    for found in (few, some, many):
        details = found.certificate.details
        if by_passes:
            remaining = fa.SPA().seek(S, len(found)).certificate.details["largest_remaining_residual"]
            assert details["largest_remaining_residual"] == pytest.approx(remaining, rel=1e-5)
        else:
            assert details["proved_by_bounds"] + details["proved_by_passes"] == len(found)
            assert ("up to anchor" in found.certificate.statement) == (details["proved_by_passes"] > 0)
