"""FAS(budget=…): never reads more rows, always returns an answer, and does not affect later seeks."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import fastanchors as fa
from fastanchors.errors import InvalidInputError, InvalidTypeError, RankError
from fastanchors.fas import opening as fas_input
from fastanchors.fas import seek as fas_seek
from fastanchors.matrix import BudgetExceeded
from matrices import metered
from naive.fas import noisy, residual_norms, separable


@pytest.fixture(autouse=True, scope="module")
def _no_small():
    """Use the index also on small matrices, for which SPA would be used."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fas_seek, "SMALL", 0)
        patch.setattr(fas_seek, "_SMALL_ARRAY", 0)
        yield


def check(found, S, k, budget):
    """Check the certificate against SPA on the same matrix, and against all residuals."""
    assert found.cost.rows_read <= budget
    kind, details = found.certificate.kind, found.certificate.details
    if kind == "exact":
        assert found.indices.tolist() == fa.SPA().seek(S, k).indices.tolist()
        return
    words = found.certificate.statement
    assert "could not be settled" in words
    assert len(found) == k or f"{len(found)} of {k} anchors" in words
    proved = details["proved"]
    assert found.indices[:proved].tolist() == fa.SPA().seek(S, k).indices[:proved].tolist()
    if "eta" in details:
        view = S.rows(np.arange(S.shape[0])) if hasattr(S, "rows") else S
        view = np.asarray(view.toarray() if sp.issparse(view) else view, dtype=np.float64)
        residuals = residual_norms(view, found.indices)[:, : len(found)]
        chosen = residuals[found.indices, np.arange(len(found))]
        assert (chosen >= (1 - details["eta"]) * residuals.max(axis=0) * (1 - 1e-9)).all()


# --- the limit itself ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("sampled", [False, True])
def test_no_read_goes_beyond_the_limit(sparse, sampled):
    A = np.random.default_rng(0).random((30, 4))
    A = sp.csr_array(A) if sparse else A
    q = np.ones(4) / 2
    reads = [
        lambda data: data.rows(np.arange(20)),
        lambda data: list(data.blocks(7)),
        lambda data: list(data.blocks()),
        lambda data: data.project(np.arange(30), q[None]),
        lambda data: data.dot(q),
        lambda data: data.transposed_dot(np.ones((30, 1))),
        lambda data: data.squared_norms() if not sampled else data.rows(np.arange(30)),
    ]
    for read in reads:
        data = metered(fa.SampleMatrix(A) if sampled else A, budget=45)
        data.rows(np.arange(30))
        with pytest.raises(BudgetExceeded):
            read(data)
        assert (data.cost.rows_read, data.left) == (30, 15)
        data.rows(np.arange(15))
        assert data.left == 0


# --- budgets of all sizes -----------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    budget=st.one_of(st.integers(1, 60), st.integers(60, 3000), st.integers(3000, 12000)),
    k=st.integers(1, 9),
    kind=st.sampled_from(["array", "csr", "l1", "plain"]),
    noise=st.booleans(),
)
def test_any_budget_is_kept_and_answered(seed, budget, k, kind, noise):
    rng = np.random.default_rng(seed)
    A = separable(rng, 600, 10, 5)
    A = noisy(rng, A) if noise or k > 5 else A
    S = {
        "array": lambda: A,
        "csr": lambda: sp.csr_array(A),
        "l1": lambda: fa.SampleMatrix(A),
        "plain": lambda: fa.SampleMatrix(A, normalize=None),
    }[kind]()
    check(fa.FAS(budget=budget).seek(S, k, rng=seed), S, k, budget)
    if hasattr(S, "rows"):  # the index that it left
        after = fa.FAS(selection="spa").seek(S, k, rng=seed)
        assert after.indices.tolist() == fa.SPA().seek(S, k).indices.tolist()
        assert after.certificate.kind == "exact"


def test_the_cost_of_an_extension_includes_its_prefix():
    rng = np.random.default_rng(0)
    m, k = 4000, 60
    H, W = rng.dirichlet(np.ones(300), k), rng.dirichlet(np.full(k, 0.05), m)
    W[rng.choice(m, k, replace=False)] = np.eye(k)
    A = (W @ H + 0.001 * rng.random((m, 300))).astype(np.float32)
    S = fa.SampleMatrix(A)
    for budget in (2 * m + 2000, 5 * m):
        found = fa.FAS(budget=budget).seek(S, k + 2, rng=0)
        assert found.cost.rows_read <= budget
        assert len(found) == k + 2
    assert fa.FAS(selection="spa").seek(S, k + 2).indices.tolist() == fa.SPA().seek(S, k + 2).indices.tolist()


def test_an_extension_goes_as_far_as_the_budget():
    A = np.abs(np.random.default_rng(0).standard_normal((20_000, 40)))  # no clear anchors
    S = fa.SampleMatrix(A)
    expected = fa.SPA().seek(S, 12).indices.tolist()
    found = fa.FAS(budget=45_000).seek(S, 12, rng=0)
    check(found, S, 12, 45_000)
    proved = found.certificate.details["proved"]
    assert proved >= 2
    further = fa.FAS(budget=45_000).seek(S, 12, rng=0)
    assert further.certificate.kind == "exact"  # the next one continues from there and finishes
    assert further.indices.tolist() == expected
    assert fa.FAS(selection="spa").seek(S, 12, rng=0).indices.tolist() == expected


# --- effects on later seeks ---------------------------------------------------------------------------------------


def test_a_budgeted_seek_does_not_affect_later_ones():
    A = separable(np.random.default_rng(1), 20_000, 50, 10)
    alone = fa.FAS(selection="spa").seek(fa.SampleMatrix(A), 10, rng=0).cost.rows_read
    for budget in (20_300, 21_000, 22_000):
        S = fa.SampleMatrix(A)
        check(fa.FAS(budget=budget).seek(S, 10, rng=0), S, 10, budget)
        after = fa.FAS(selection="spa").seek(S, 10, rng=0)
        assert after.cost.rows_read <= alone + 500
        assert after.certificate.details["proved_by_bounds"] == 10


# --- more changes than may be read --------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [1, 10, 150, 199])
def test_an_index_stays_valid_if_more_rows_changed_than_the_budget(budget):
    rng = np.random.default_rng(2)
    A = separable(rng, 6000, 20, 6)
    S = fa.SampleMatrix(A)
    first = fa.FAS(selection="spa").seek(S, 6, rng=0).indices.tolist()
    changed = rng.choice(np.setdiff1d(np.arange(6000), first), 200, replace=False)
    S.update(np.repeat(changed, 20), np.tile(np.arange(20), 200), A[changed[::-1]].ravel())  # stays in the hull
    found = fa.FAS(budget=budget).seek(S, 6, rng=0)
    check(found, S, 6, budget)
    assert found.indices.tolist() == first
    assert found.certificate.kind == "exact" or "rows that have changed were not read" in found.certificate.statement
    after = fa.FAS(selection="spa").seek(S, 6, rng=0)
    assert after.cost.rows_read <= 200  # rows already read are not read again
    assert after.indices.tolist() == fa.SPA().seek(S, 6).indices.tolist()


def test_norms_bound_changes_that_are_not_read():
    rng = np.random.default_rng(3)
    A = separable(rng, 4000, 12, 4)
    S = fa.SampleMatrix(A, normalize=None)
    first = fa.FAS(selection="spa").seek(S, 4, rng=0).indices
    small = rng.choice(np.setdiff1d(np.arange(4000), first), 30, replace=False)
    for row in small:
        S.update(np.full(12, row), np.arange(12), 1e-6 * rng.random(12))
    found = fa.FAS(budget=8).seek(S, 4, rng=0)
    assert found.certificate.kind == "exact"
    assert found.cost.rows_read <= 8
    assert found.indices.tolist() == fa.SPA().seek(S, 4).indices.tolist()


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    rounds=st.lists(
        st.tuples(st.integers(1, 40), st.integers(1, 50), st.sampled_from([0.0, 0.01, 1.0, 20.0])),
        min_size=1,
        max_size=5,
    ),
    normalize=st.sampled_from(["l1", None]),
)
def test_changes_and_budgets_in_any_order(seed, rounds, normalize):
    rng = np.random.default_rng(seed)
    S = fa.SampleMatrix(separable(rng, 300, 9, 4), normalize=normalize)
    anchors = fa.FAS(selection="spa").seek(S, 4, rng=0).indices
    for count, budget, size in rounds:
        rows = np.append(rng.integers(S.shape[0], size=count), rng.choice(anchors))
        S.update(rows, rng.integers(9, size=count + 1), np.round(size * rng.random(count + 1), 3))
        S.append(0.5 * size * rng.random((2, 9)) + 1e-3)
        check(fa.FAS(budget=budget).seek(S, 4, rng=0), S, 4, budget)
        if rng.random() < 0.5:
            anchors = fa.FAS(selection="spa").seek(S, 4, rng=0).indices
            assert anchors.tolist() == fa.SPA().seek(S, 4).indices.tolist()
    assert fa.FAS(selection="spa").seek(S, 4, rng=0).indices.tolist() == fa.SPA().seek(S, 4).indices.tolist()


def test_a_store_renews_its_index_from_sketches_within_a_budget(tmp_path, monkeypatch):
    from fastanchors.fas import sidecar as fas_store

    monkeypatch.setattr(fas_store, "_DENSE_SHARE", 10.0)
    rng = np.random.default_rng(0)
    fa.build(separable(rng, 6000, 20, 6), tmp_path / "store").close()
    with fa.open(tmp_path / "store", mode="r+") as S:
        first = fa.FAS(selection="spa").seek(S, 6).indices
        S.update(np.repeat(first[:3], 20), np.tile(np.arange(20), 3), np.ones(60))  # anchors move inside
        found = fa.FAS(budget=3000).seek(S, 6, rng=0)
        check(found, S, 6, 3000)
        assert found.certificate.kind == "exact"
        assert found.certificate.details["index"] == "made now from sketches"


# --- very small budgets -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [1, 2, 5, 8, 20])
@pytest.mark.parametrize("allow_fewer", [False, True])
def test_small_budgets_are_spent_on_anchors(budget, allow_fewer):
    A = separable(np.random.default_rng(0), 500, 12, 6)
    for S in (A, fa.SampleMatrix(A)):
        found = fa.FAS(budget=budget, allow_fewer=allow_fewer).seek(S, 6, rng=0)
        check(found, S, 6, budget)
        assert len(found) == min(budget, 6)
    several = fa.FAS(budget=budget).seek(A, [2, 6], rng=0)
    assert [len(each) for each in several] == [min(budget, 2), min(budget, 6)]


def test_nothing_but_zeros_within_the_budget():
    A = np.zeros((500, 5))
    A[77] = 1.0
    with pytest.raises(RankError, match="rows within the budget are zero"):
        fa.FAS(budget=3).seek(A, 2, rng=0)


@pytest.mark.parametrize("kind", ["tied", "zero"])
@pytest.mark.parametrize("budget", [5, 20])
def test_a_kept_index_without_steps_is_not_used_after_changes(kind, budget):
    """The changed rows that the budget allowed were read and forgotten: no row was left to choose from."""
    edge = 1 + np.tile([0, 1e-8, 3e-7, 5e-7, 1e-6], 400)[:, None]  # of the band of ties
    S = fa.SampleMatrix(np.repeat(np.eye(40), 50, axis=0) * (edge if kind == "tied" else 0), normalize=None)
    if kind == "tied":
        assert len(fa.FAS(selection="spa").seek(S, 5)) == 5
    else:
        with pytest.raises(RankError):
            fa.FAS(selection="spa").seek(S, 5)
    S.append(np.eye(40)[:20])
    before = S.cost.rows_read
    found = fa.FAS(selection="spa", budget=budget, allow_fewer=True).seek(S, 3, rng=0)
    assert len(found) == 3
    assert found.certificate.kind == "near"
    assert S.cost.rows_read - before <= budget


def test_residuals_that_are_only_rounding_support_no_bound():
    rng = np.random.default_rng(0)
    A = rng.integers(0, 5, (400, 2)) @ rng.integers(0, 5, (2, 30)) / rng.integers(1, 9, (400, 1))
    S = fa.SampleMatrix(A, None)
    options = {"selection": "spa", "tol": 0.0, "allow_fewer": True}
    fa.FAS(**options).seek(S, 2, rng=0)  # leaves an index
    found = fa.FAS(budget=8, **options).seek(S, 4, rng=0)
    assert len(found) == 4
    assert found.residuals[2] < 1e-13
    assert found.certificate.kind == "none"
    assert "eta" not in found.certificate.details


def test_norms_are_not_queried_row_by_row():
    for normalize in ("l1", None):
        S = fa.SampleMatrix(separable(np.random.default_rng(0), 3000, 12, 5), normalize=normalize)
        assert fa.FAS(budget=40).seek(S, 5, rng=0).cost.queries < 100


# --- files --------------------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path):
    A = np.round(separable(np.random.default_rng(0), 900, 8, 4), 6)
    np.save(tmp_path / "a.npy", A)
    np.save(tmp_path / "f.npy", np.asfortranarray(A))
    sp.save_npz(tmp_path / "s.npz", sp.csr_array(A))
    np.savetxt(tmp_path / "t.csv", A, delimiter=",", fmt="%.6f")
    return A, tmp_path


@pytest.mark.parametrize("name", ["a.npy", "f.npy", "s.npz", "t.csv"])
@pytest.mark.parametrize("options", [{}, {"budget": 50}, {"budget": 3}, {"budget": 4000}, {"precondition": "svd"}])
def test_certificates_of_files_state_how_they_were_read(files, name, options):
    A, folder = files
    found = fa.FAS(**{"selection": "spa", **options}).seek(folder / name, 4, rng=0)
    source = found.certificate.details["source"]
    assert source == ("streamed from the file" if name == "a.npy" else "read into memory")
    assert found.certificate.statement.endswith(f"its rows were {source}")
    budget = options.get("budget", np.inf)
    assert 0 < found.cost.rows_read <= budget
    if source == "read into memory" and budget >= 900:
        assert found.cost.rows_read == 900
    if "precondition" not in options and budget >= 900:
        assert found.certificate.kind == "exact"
        assert found.indices.tolist() == fa.SPA().seek(A, 4).indices.tolist()
    if budget <= 50:
        assert found.certificate.kind != "exact"
        if name != "a.npy":
            assert f"first {found.cost.rows_read} rows" in found.certificate.statement
            assert found.cost.rows_read > 0.7 * budget - 1
            assert found.indices.tolist() == fa.SPA().seek(A[: found.cost.rows_read], len(found)).indices.tolist()


def test_a_temporary_store_counts_the_file_and_reads_it_once(files, monkeypatch):
    A, folder = files
    monkeypatch.setattr(fas_input, "IN_MEMORY", 1000)
    reads = []
    plain = fas_input.open_source

    def counted(path):
        source = plain(path)
        reader = source._reader
        source._reader = lambda size: (reads.append(len(b)) or b for b in reader(min(size, 4000)))
        return source

    monkeypatch.setattr(fas_input, "open_source", counted)
    found = fa.FAS(selection="spa").seek(folder / "t.csv", 4, rng=0)
    assert found.certificate.details["source"] == "built into a temporary store"
    assert found.indices.tolist() == fa.SPA().seek(A, 4).indices.tolist()
    assert sum(reads) == 900
    assert found.cost.rows_read >= 900
    few = fa.FAS(budget=50).seek(folder / "t.csv", 4, rng=0)
    assert few.cost.rows_read <= 50
    assert few.certificate.kind == "none"


def test_a_source_with_options(tmp_path):
    from scipy.io import savemat

    A = separable(np.random.default_rng(0), 300, 8, 4)
    savemat(tmp_path / "x.mat", {"noise": np.eye(3), "X": A})
    source = fa.io.open_source(tmp_path / "x.mat", variable="X")
    assert fa.FAS(selection="spa").seek(source, 4, rng=0).indices.tolist() == fa.SPA().seek(A, 4).indices.tolist()


# --- accepted and refused arguments -------------------------------------------------------------------------------


def test_sources_that_can_be_read_once_are_refused_with_advice():
    with pytest.raises(InvalidTypeError, match=r"fa\.build"):
        fa.FAS(selection="spa").seek((np.eye(3) for _ in range(2)), 2)


def test_invalid_arguments():
    A = separable(np.random.default_rng(0), 100, 8, 4)
    assert len(fa.FAS(selection="spa").seek(A, np.array(3))) == 3
    assert [len(each) for each in fa.FAS(selection="spa").seek(A, np.array([2, 3]))] == [2, 3]
    for k in (np.array(2.5), np.array([[2, 3]]), np.array([2.5])):
        with pytest.raises(InvalidTypeError, match="k must be an integer"):
            fa.FAS(selection="spa").seek(A, k)
    for solver in (fa.FAS, fa.SPA):
        with pytest.raises(InvalidTypeError, match="tol must be a real number"):
            solver(tol="a")
        with pytest.raises(InvalidTypeError, match="allow_fewer must be True or False"):
            solver(allow_fewer="no")


def test_masked_arrays():
    A = np.ma.MaskedArray(np.random.default_rng(0).random((50, 5)))
    assert fa.FAS(selection="spa").seek(A, 2).indices.tolist() == fa.SPA().seek(A.data, 2).indices.tolist()
    A[3, 2] = np.ma.masked
    with pytest.raises(InvalidInputError, match=r"1 entries of A are masked.*filled"):
        fa.FAS(selection="spa").seek(A, 2)


def test_names_of_a_data_frame():
    pandas = pytest.importorskip("pandas")  # an extra
    frame = pandas.DataFrame(np.eye(4) + 0.1, index=list("abcd"))
    found = fa.FAS(selection="spa").seek(frame, 2)
    assert found.names == tuple("abcd"[i] for i in found.indices)
    assert fa.FAS(selection="spa").seek(pandas.DataFrame(np.eye(4)), 2).names is None
