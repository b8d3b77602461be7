"""Dask arrays whose blocks are of another kind than Dask declares: sparse where it says dense, and the other way."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

import fastanchors as fa
from fastanchors.matrix.array import all_rows
from fastanchors.report.facts import gather

A = np.random.default_rng(0).poisson(0.7, (400, 30)) + np.eye(400, 30, dtype=int)
DECLARED = {"sparse": np.zeros((0, 0), A.dtype), "dense": sp.csr_array((0, 30), dtype=A.dtype)}


@pytest.fixture(autouse=True)
def synchronous():
    with dask.config.set(scheduler="synchronous"):
        yield


def lazy(kind, made=None):
    """Four blocks of that kind, declared as the other; the numbers of those computed are added to ``made``."""

    def load(number):
        if made is not None:
            made.append(number)
        rows = A[100 * number : 100 * number + 100]
        return sp.csr_array(rows) if kind == "sparse" else rows

    blocks = [dask.delayed(load)(number) for number in range(4)]
    return da.concatenate([da.from_delayed(block, (100, 30), meta=DECLARED[kind]) for block in blocks])


def full(rows):
    return rows.toarray() if sp.issparse(rows) else rows


@pytest.mark.parametrize("kind", DECLARED)
def test_a_matrix_is_of_the_kind_of_its_blocks(kind):
    made = []
    matrix = fa.open_matrix(lazy(kind, made))
    assert matrix.is_sparse == (kind == "sparse")
    assert matrix.is_sparse == matrix.l1_scaled().is_sparse
    assert made == [0]  # once
    assert sp.issparse(matrix.rows([])) == sp.issparse(matrix.rows([3, 300])) == matrix.is_sparse
    rows = all_rows(matrix, "this")
    assert sp.issparse(rows) == matrix.is_sparse
    np.testing.assert_array_equal(full(rows), A)


@pytest.mark.parametrize("kind", DECLARED)
@pytest.mark.parametrize("store", [A, sp.csr_array(A)])
def test_append(tmp_path, kind, store):
    with fa.build(store, tmp_path / "s", normalize=None) as S:
        S.append(lazy(kind))
        np.testing.assert_array_equal(full(S.rows(np.arange(400, 800))), A)


@pytest.mark.parametrize("kind", DECLARED)
def test_all_doors_take_blocks_of_either_kind(kind):
    """These were raw errors of NumPy."""
    X, same = lazy(kind), sp.csr_array(A) if kind == "sparse" else A
    chosen, expected = (fa.apps.representatives(of, 3) for of in (X, same))
    assert list(chosen.indices) == list(expected.indices)
    found, expected = (fa.FAS(variant="paper").seek(of, 2, rng=0) for of in (X, same))
    assert list(found.indices) == list(expected.indices)


@pytest.mark.parametrize("kind", DECLARED)
def test_the_density_in_a_report(kind):
    X, same = lazy(kind), sp.csr_array(A)
    anchors = fa.SPA().seek(same, 3)
    found, expected = (gather(of, anchors, title="t", searched=False).density for of in (X, same))
    assert found == expected
