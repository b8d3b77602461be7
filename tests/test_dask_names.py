"""Row names of Dask data frames: labels name the rows unless they only count them, by every door."""

from __future__ import annotations

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import fastanchors as fa

A = np.random.default_rng(0).random((60, 4))
R = pd.RangeIndex
INDEXES = {
    "int64": [pd.Index(range(start + 20, start, -1)) for start in (100, 200, 300)],
    "Int64": [pd.Index(pd.array(range(start, start + 20), "Int64")) for start in (100, 200, 300)],
    "not from 0": [R(5, 25), R(25, 45), R(45, 65)],
    "steps": [R(0, 40, 2), R(40, 80, 2), R(80, 120, 2)],
    "text": [pd.Index([f"n{start + row}" for row in range(20)]) for start in (0, 20, 40)],
    "through all": [R(20), R(20, 40), R(40, 60)],
    "in each": [R(20), R(20), R(20)],
    "then labels": [R(20), R(20), R(900, 920)],
}


@pytest.fixture(autouse=True)
def synchronous():
    with dask.config.set(scheduler="synchronous"):
        yield


def frames(index):
    rows = np.split(A, 3)
    return [pd.DataFrame(part, labels, list("abcd")) for part, labels in zip(rows, index, strict=True)]


def lazy(index):
    parts = frames(index)
    return dd.from_delayed([dask.delayed(part) for part in parts], meta=parts[0][:0], verify_meta=False)


def names(source):
    return None if source.row_names is None else list(source.row_names)


@pytest.mark.parametrize("kind", INDEXES)
def test_labels_name_the_rows_unless_they_only_count_them(tmp_path, kind):
    """Integers were dropped, although the same pandas frame, and its parts one by one, name their rows by them."""
    index = INDEXES[kind]
    X, whole = lazy(index), pd.concat(frames(index))
    with fa.build(iter(frames(index)), tmp_path / "parts") as S:
        expected = names(S)
    if kind not in ("in each", "then labels"):  # as one frame the labels of these do not count
        assert names(fa.open_matrix(whole)) == expected
    assert (expected is None) == (kind in ("through all", "in each"))
    matrix = fa.open_matrix(X)
    assert names(matrix) == expected
    if expected is not None:
        assert [matrix.row_names[0], *matrix.row_names[18:22]] == [expected[0], *expected[18:22]]
    found = fa.SPA().seek(X, 3)
    assert found.names == (None if expected is None else tuple(expected[row] for row in found.indices))
    with fa.build(X, tmp_path / "s") as S:
        assert names(S) == expected
    with fa.build(lazy(index), tmp_path / "without", row_names=False) as S:
        assert names(S) is None


@pytest.mark.parametrize("kind", ["int64", "text", "through all", "then labels"])
def test_appended_partitions_bring_their_names(tmp_path, kind):
    """They were left out, also if they were text."""
    found = []
    for number, rows in enumerate((lazy(INDEXES[kind]), iter(frames(INDEXES[kind])))):
        with fa.build(A, tmp_path / f"s{number}", column_names=list("abcd")) as S:
            S.append(rows)
            found.append(names(S))
    assert found[0] == found[1]
    assert (found[0] is None) == (kind == "through all")


TABLE = pd.DataFrame([[1.0, 0, 0], [0, 2, 0], [0, 0, 3], [1, 2, 3]], index=list("wxyz"), columns=list("abc"))
TURNED = TABLE[["c", "a", "b"]]


def test_columns_of_lazy_arguments_are_matched_by_name():
    """Components and appended rows were computed as arrays, which have the columns in the order of the argument."""
    lazy = dd.from_pandas(TURNED, npartitions=2, sort=False)
    np.testing.assert_array_equal(fa.encode(TABLE, lazy, n_jobs=1), fa.encode(TABLE, TURNED, n_jobs=1))
    W = fa.encode(TABLE, TURNED)
    assert fa.metrics.reconstruction_error(TABLE, lazy, weights=W).relative < 1e-12
    match = fa.metrics.matched_spectral_angle(TABLE, lazy)
    assert match.mean < 1e-7
    S = fa.SampleMatrix(dd.from_pandas(TABLE, npartitions=2, sort=False), None)
    assert list(S.row_names) == list("wxyz")
    S.append(lazy)
    np.testing.assert_array_equal(S.raw_rows(np.arange(8)), np.concatenate([TABLE, TABLE]))


def test_long_lazy_frames_are_ratings():
    """They were taken for a matrix whose rows are users and whose columns are items: row numbers came out as items."""
    long = pd.DataFrame({"user": [7, 7, 9, 9, 11], "item": [31, 99, 31, 50, 50], "rating": [5.0, 1, 4, 2, 3]})
    found = fa.apps.recommend(dd.from_pandas(long, npartitions=2), [7, 11], 1, k=2, rng=0)
    np.testing.assert_array_equal(found, fa.apps.recommend(long, [7, 11], 1, k=2, rng=0))
    for column in ("user", "item", "rating"):
        with pytest.raises(fa.errors.InvalidInputError, match=f"2 columns '{column}'; keep one of them"):
            fa.apps.recommend(pd.concat([long, long[[column]]], axis=1), [7], 1)
