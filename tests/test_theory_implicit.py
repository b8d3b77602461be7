"""The implicit matrix of the experiments has exactly the sample access of the matrix it represents."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import fastanchors as fa
from naive.sampling import NaiveSampleMatrix

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks" / "theory"))
from implicit import ImplicitSeparable


@pytest.fixture(scope="module")
def pair():
    A = ImplicitSeparable(103, 6, 3, mixtures=10, seed=1)
    return A, NaiveSampleMatrix(A.rows(np.arange(103)), normalize=None)


def test_entries_norms_and_anchors(pair):
    A, whole = pair
    i, j = np.arange(103)[:, None], np.arange(6)[None, :]
    assert isinstance(A, fa.SampleAccess)
    assert np.array_equal(A[i, j], whole[i, j])
    assert np.allclose(whole.view.sum(axis=1), 1.0)
    assert np.allclose(A.row_norm(np.arange(103)), whole.row_norm(np.arange(103)))
    assert np.allclose(A.column_norm(np.arange(6)), whole.column_norm(np.arange(6)))
    assert A.frobenius_norm == pytest.approx(whole.frobenius_norm)
    assert A.nnz == whole.nnz
    assert np.allclose(A.singular_values, np.linalg.svd(whole.view, compute_uv=False)[:3])
    for anchor in A.anchors:
        assert (whole.view == whole.view[anchor]).all(axis=1).sum() == 1
    assert sum(len(block) for _, block in A.blocks(20)) == 103


@pytest.mark.parametrize("what", ["rows", "columns", "in row", "in column"])
def test_draws_follow_the_squared_entries(pair, what):
    A, whole = pair
    size = 40_000
    squares = whole.view**2
    if what == "rows":
        drawn, weights = A.sample_rows(size, rng=0), squares.sum(axis=1)
    elif what == "columns":
        drawn, weights = A.sample_columns(size, rng=0), squares.sum(axis=0)
    elif what == "in row":
        drawn, weights = A.sample_in_row(A.anchors[1], size, rng=0), squares[A.anchors[1]]
    else:
        drawn, weights = A.sample_in_column(np.full(size, 2), rng=0), squares[:, 2]
    expected = size * weights / weights.sum()
    counts = np.bincount(drawn, minlength=len(weights))
    kept = expected > 0
    assert counts[~kept].sum() == 0
    chi2 = ((counts - expected)[kept] ** 2 / expected[kept]).sum()
    # 102 degrees of freedom at most: above 170 with probability below 3e-5
    assert chi2 < 170
