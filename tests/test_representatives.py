"""Representatives: names from frames, columns of any scale, clear errors."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import fastanchors as fa


@pytest.fixture(scope="module")
def frame():
    """Mixtures of three corners, in columns of very different scale, one of them signed."""
    rng = np.random.default_rng(0)
    corners = np.array([[0.0, -1e-3, 1e6], [10.0, -1e-3, 0.0], [0.0, 2e-3, 0.0]])
    weights = np.vstack([rng.dirichlet(np.ones(3), 60), np.eye(3)])
    index = [f"row{i}" for i in range(60)] + ["north", "east", "south"]
    return pd.DataFrame(weights @ corners, index=index, columns=["a", "b", "c"]), weights


def test_corners_are_found_by_name_with_their_share(frame):
    table, weights = frame
    found = fa.apps.representatives(table, 3)
    assert set(found.names) == {"north", "east", "south"}
    share = dict(zip(found.names, found.share))
    np.testing.assert_allclose([share["north"], share["east"], share["south"]], weights.mean(axis=0), atol=1e-9)
    assert found.share.sum() == pytest.approx(1)
    assert found.relative_error < 1e-9
    assert found.columns == ["a", "b", "c"]
    assert len(found) == 3
    assert found.nearest()[found.indices].tolist() == [0, 1, 2]
    assert "north" in str(found)
    assert "%" in str(found)


def test_scale_and_offset_of_columns_do_not_matter(frame):
    table, _ = frame
    moved = table * [1e4, 3.0, 1e-9] + [5.0, -7.0, 0.0]
    assert fa.apps.representatives(moved, 3).names == fa.apps.representatives(table, 3).names


def test_arrays_and_sparse_give_row_numbers():
    data = fa.datasets.separable(80, 12, 4, rng=2)
    dense = fa.apps.representatives(data.A, 4, scale="none")
    assert fa.metrics.anchor_recovery(dense.indices, data.labels) == 1
    assert dense.names == dense.indices.tolist()
    sparse = fa.apps.representatives(sp.csr_array(data.A), 4, scale="none")
    assert sparse.names == dense.names
    assert sparse.relative_error == pytest.approx(dense.relative_error, abs=1e-9)
    np.testing.assert_allclose(sparse.weights.sum(axis=1), 1.0)
    scaled = fa.apps.representatives(sp.csr_array(data.A * np.geomspace(1, 1e6, 12)), 4)
    assert fa.metrics.anchor_recovery(scaled.indices, data.labels) == 1


def test_other_solvers(frame):
    table, _ = frame
    assert set(fa.apps.representatives(table, 3, solver=fa.XRAY()).names) <= set(table.index)


def test_constant_columns_and_more_representatives_than_columns():
    table = pd.DataFrame({"x": [0.0, 1, 0, 1, 0.5], "y": [0.0, 0, 1, 1, 0.5], "same": 7.0})
    found = fa.apps.representatives(table, 3)
    assert 4 not in found.names


def test_invalid_tables_are_refused(frame):
    table, _ = frame
    mixed = table.assign(kind="x", when=pd.Timestamp("2020-01-01"))
    with pytest.raises(fa.errors.InvalidTypeError, match=r"'kind', 'when' do not hold numbers.*non_numeric='drop'"):
        fa.apps.representatives(mixed, 3)
    assert fa.apps.representatives(mixed, 3, non_numeric="drop").columns == ["a", "b", "c"]
    assert fa.apps.representatives(mixed, 2, columns=["a", "c"]).columns == ["a", "c"]
    with pytest.raises(fa.errors.InvalidInputError, match="no column 'z'"):
        fa.apps.representatives(table, 3, columns=["z"])
    holes = table.copy()
    holes.loc["row7", "b"] = np.nan
    with pytest.raises(fa.errors.InvalidInputError, match="row 'row7', column 'b' is nan"):
        fa.apps.representatives(holes, 3)
    with pytest.raises(fa.errors.InvalidInputError, match="no column of the table holds numbers"):
        fa.apps.representatives(mixed[["kind"]], 1, non_numeric="drop")
    with pytest.raises(fa.errors.InvalidInputError, match="negative"):
        fa.apps.representatives(table, 3, scale="none")
    with pytest.raises(fa.errors.InvalidInputError, match="k = 64 is more than the number of rows"):
        fa.apps.representatives(table, 64)
    with pytest.raises(fa.errors.InvalidInputError, match="scale must be"):
        fa.apps.representatives(table, 3, scale="log")


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("solver", ["snpa", "xray", "spa", "fas"])
def test_a_row_that_is_lowest_everywhere_can_be_chosen(solver, form):
    rng = np.random.default_rng(0)
    corners = np.vstack([np.zeros(5), 0.2 + rng.random((2, 5))])
    table = np.vstack([corners, rng.dirichlet(np.ones(3), 80) @ corners])
    found = fa.apps.representatives(form(table), 3, solver=solver)
    assert sorted(found.indices) == [0, 1, 2]
    assert found.relative_error < 1e-9


def test_one_row_and_equal_rows():
    for table in (np.ones((4, 3)), np.zeros((4, 3)), [[1.0, 2.0, 3.0]]):
        found = fa.apps.representatives(table, 1)
        assert found.indices.tolist() == [0]
        np.testing.assert_allclose(found.weights, 1.0)
    with pytest.raises(fa.errors.RankError, match="only 1 of 2"):
        fa.apps.representatives(np.ones((4, 3)), 2)


def test_a_series_is_no_table():
    with pytest.raises(fa.errors.InvalidInputError, match="two-dimensional"):
        fa.apps.representatives(pd.Series([1.0, 2.0, 3.0]), 1)


@pytest.mark.parametrize("density", [1.0, 0.5])
def test_a_sparse_table_gives_the_result_of_the_dense_one(density):
    rng = np.random.default_rng(0)
    table = (1 + rng.random((60, 6))) * (rng.random((60, 6)) < density)
    table[:, 2] = 3.0  # constant: no information
    dense, sparse = (fa.apps.representatives(form, 4) for form in (table, sp.csr_array(table)))
    np.testing.assert_array_equal(sparse.indices, dense.indices)
    np.testing.assert_allclose(sparse.weights, dense.weights, atol=1e-12)


def test_columns_of_stored_zeros_and_of_extreme_range():
    table = np.random.default_rng(0).random((20, 3))
    stored = sp.csr_array(table)
    stored.data[stored.indices == 1] = 0
    expected = fa.apps.representatives(stored.toarray(), 2)
    np.testing.assert_array_equal(fa.apps.representatives(stored, 2).indices, expected.indices)
    wide = np.where(table > 0.5, 1.5e308, -1.5e308)
    np.testing.assert_array_equal(
        fa.apps.representatives(wide, 2).indices, fa.apps.representatives(wide / 4, 2).indices
    )
