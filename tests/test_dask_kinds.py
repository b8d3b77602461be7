"""Dask arrays whose blocks are of another kind than Dask declares: sparse where it says dense, and the other way."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

import fastanchors as fa
from fastanchors import encoder
from fastanchors.errors import FastAnchorsError, InvalidInputError, TooLargeError
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


def very_sparse():
    """Six rows of 2²⁵ columns with one entry each, declared dense: as dense rows they would take 1.6 GB."""
    width = 1 << 25
    blocks = [
        dask.delayed(sp.csr_array)((np.array([2.0]), np.array([row]), np.array([0, 1])), shape=(1, width))
        for row in range(6)
    ]
    return da.concatenate([da.from_delayed(block, (1, width), meta=np.empty((0, width))) for block in blocks])


def test_sparse_blocks_are_loaded_if_their_entries_fit(monkeypatch):
    """Their size was taken for that of dense rows, because Dask does not know the number of entries."""
    matrix = fa.open_matrix(very_sparse())
    rows = all_rows(matrix, "this")
    assert rows.nnz == 6
    np.testing.assert_array_equal(rows.indices, np.arange(6))
    monkeypatch.setattr("fastanchors.matrix.array._IN_MEMORY", 80)
    with pytest.raises(TooLargeError, match="this needs all rows in memory: 96 bytes"):
        all_rows(matrix, "this")


def test_the_error_of_sparse_blocks_is_computed_in_few_chunks(monkeypatch):
    """Chunks were as short as those of dense rows, and the anchors were factored again for each: 40,000 times."""
    made = []
    original = encoder.AnchorSystem

    def counted(*given):
        made.append(1)
        return original(*given)

    monkeypatch.setattr(encoder, "AnchorSystem", counted)
    monkeypatch.setattr(encoder, "_CHUNK_BYTES", 1 << 10)
    matrix = fa.open_matrix(lazy("sparse"))
    C = A[:3]
    with dask.config.set(scheduler="synchronous"):
        error = encoder.error_norm(matrix, C, sum_to_one=False)
        weights = fa.encode(matrix, C)
    assert len(made) == 8  # one for each block, twice
    assert error == pytest.approx(np.linalg.norm(A - fa.encode(A, C) @ C))
    np.testing.assert_allclose(weights, fa.encode(A, C), atol=1e-12)


def test_empty_blocks_before_others_may_be_of_another_kind():
    """A source of sparse blocks that Dask declares dense was refused where the first one is empty."""
    blocks = [dask.delayed(sp.csr_array)(A[:stop]) for stop in (0, 40, 0)]
    X = da.concatenate(
        [da.from_delayed(block, (np.nan, 30), meta=DECLARED["sparse"]) for block in blocks],
        allow_unknown_chunksizes=True,
    )
    (rows,) = fa.io.open_source(X).blocks()
    np.testing.assert_array_equal(full(rows), A[:40])


def test_masked_blocks_are_named():
    X = da.ma.masked_greater(da.from_array(np.arange(12.0).reshape(4, 3), chunks=(2, 3)), 10)
    with pytest.raises(InvalidInputError, match="1 entries of X: block 1 are masked"):
        fa.SPA().seek(X, 1)


GOOD = np.random.default_rng(0).random((4, 3))
BAD = {
    "complex": (GOOD + 5j, "must hold real numbers"),
    "text": (GOOD.astype(str), "must hold real numbers"),
    "dates": ((GOOD * 9e9).astype("M8[s]"), "must hold real numbers"),
    "complex objects": (GOOD.astype(object) * 1j, "must hold real numbers"),
    "one axis": (GOOD[0], r"is an array of shape \(3,\)"),
    "a list": (GOOD.tolist(), "is of type list"),
    "nothing": (None, "is of type NoneType"),
    "a number": (3.0, "is of type float"),
    "one column": (GOOD[:, :1], r"has the shape \(4, 1\)"),
}
COMPUTING = {
    "samples": lambda X: fa.SampleMatrix(X, normalize=None),
    "cur": lambda X: fa.cur(X, 1, rng=0),
    "labels": lambda X: fa.metrics.anchor_labels(X, [0, 3]),
}


def declared(blocks, shape=(4, 3), dtype=float):
    made = [da.from_delayed(dask.delayed(lambda number: blocks[number])(at), shape, dtype) for at in range(len(blocks))]
    return da.concatenate(made)


@pytest.mark.parametrize("door", COMPUTING)
@pytest.mark.parametrize("kind", BAD)
def test_blocks_of_another_kind_are_refused_where_all_are_computed(kind, door):
    """Dask converted them to the type of the first block in silence, or raised an IndexError."""
    block, message = BAD[kind]
    for blocks in ([GOOD, block], [block, GOOD], [block]):
        place = next(at for at, each in enumerate(blocks) if each is block)
        with pytest.raises(FastAnchorsError, match=rf"[AS]: block {place}\b.*{message}"):
            COMPUTING[door](declared(blocks))


def test_blocks_of_other_numbers_are_computed_in_the_type_that_dask_declares():
    """They were truncated to the type of the first block."""
    whole = np.arange(12).reshape(4, 3)
    samples = fa.SampleMatrix(declared([whole, GOOD]), normalize=None)
    np.testing.assert_array_equal(samples.rows(range(8)), np.concatenate([whole, GOOD]))
    with pytest.raises(FastAnchorsError, match="A: block 1: entries of type float64 do not fit the dtype of the Dask"):
        fa.SampleMatrix(declared([whole, GOOD], dtype=int), normalize=None)


def test_blocks_of_arrays_of_one_axis_and_of_xarray():
    with pytest.raises(FastAnchorsError, match="block 1 must hold real numbers, got dtype complex128"):
        fa.metrics.anchor_labels(np.eye(3) + 1, declared([np.array([0]), np.array([1j])], (1,), int))
    xr = pytest.importorskip("xarray")
    for door in COMPUTING.values():
        with pytest.raises(FastAnchorsError, match="block 1 must hold real numbers, got dtype complex128"):
            door(xr.DataArray(declared([GOOD, GOOD + 5j])))
