"""Validation of input: accepted values, their conversion, and error messages."""

from __future__ import annotations

import decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import fastanchors as fa
from fastanchors._validate import as_matrix, check_finite, check_index, check_number, check_rank, check_size
from fastanchors.errors import FastAnchorsError, InvalidInputError, InvalidTypeError

DENSE = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
FORMATS = ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int8, np.int64, np.uint8, np.uint32])
def test_types_and_values_are_kept(dtype):
    for given in (DENSE.astype(dtype), sp.csc_array(DENSE.astype(dtype))):
        taken = as_matrix(given)
        assert taken.dtype == dtype
        assert ((taken.toarray() if sp.issparse(taken) else taken) == DENSE).all()


@pytest.mark.parametrize(
    ("given", "became"), [(np.bool_, np.uint8), (np.float16, np.float32), (np.longdouble, np.float64), (">f8", "=f8")]
)
def test_unusual_types_become_the_nearest_standard_type(given, became):
    for matrix in (DENSE.astype(given), sp.csr_array(DENSE.astype(np.float64))):
        if sp.issparse(matrix):
            if given is np.float16:
                continue  # SciPy has no sparse float16
            matrix = sp.csr_array((matrix.data.astype(given), matrix.indices, matrix.indptr), shape=matrix.shape)
        taken = as_matrix(matrix)
        assert taken.dtype == np.dtype(became)
        assert taken.dtype.isnative
        assert ((taken.toarray() if sp.issparse(taken) else taken) == DENSE.astype(given).astype(became)).all()


def test_lists_objects_matrices_and_strides_become_c_ordered_arrays():
    objects = [[decimal.Decimal(1), 0, 2], [0, 3, 0]]
    for given in (
        DENSE.tolist(),
        objects,
        DENSE.view(np.matrix),
        np.asfortranarray(DENSE),
        np.repeat(DENSE, 2, axis=1)[:, ::2],
    ):
        taken = as_matrix(given)
        assert type(taken) is np.ndarray
        assert taken.flags.c_contiguous
        assert (taken == DENSE).all()


def test_a_clean_array_is_not_copied():
    assert as_matrix(DENSE) is DENSE
    sparse = sp.csr_array(DENSE)
    assert np.shares_memory(as_matrix(sparse).data, sparse.data)


@pytest.mark.parametrize("form", FORMATS)
def test_every_sparse_format_becomes_csr(form):
    for kind in (sp.coo_array, sp.coo_matrix):
        taken = as_matrix(kind(DENSE).asformat(form))
        assert isinstance(taken, sp.csr_array)
        assert taken.has_canonical_format
        assert (taken.toarray() == DENSE).all()


def test_duplicates_are_summed_and_indices_sorted_in_a_copy():
    given = sp.csr_array((np.array([1.0, 2.0, 4.0]), np.array([2, 0, 2]), np.array([0, 3, 3])), shape=(2, 3))
    taken = as_matrix(given)
    assert taken.toarray().tolist() == [[2, 0, 5], [0, 0, 0]]
    assert taken.indices.tolist() == [0, 2]
    assert given.data.tolist() == [1.0, 2.0, 4.0]
    assert given.indices.tolist() == [2, 0, 2]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -1.0])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_first_bad_entry_is_named(value, sparse):
    bad = np.ones((50, 7))
    bad[31, 5] = value
    bad[40, 1] = value
    bad[31, 2] = 0.0
    what = "NaN" if np.isnan(value) else "infinite" if np.isinf(value) else r"negative \(-1.0\)"
    with pytest.raises(InvalidInputError, match=rf"X\[31, 5\] is {what}; "):
        as_matrix(sp.csr_array(bad) if sparse else bad, name="X")


def test_bad_entries_behind_the_first_chunk_are_found():
    bad = np.zeros((5, 1 << 20), dtype=np.float32)
    bad[4, 17] = np.nan
    with pytest.raises(InvalidInputError, match=r"A\[4, 17\] is NaN"):
        as_matrix(bad)


def test_signed_matrices_are_accepted_on_request():
    assert as_matrix(-DENSE, signed=True).min() == -3
    assert as_matrix(np.array([[-1]]), signed=True)[0, 0] == -1
    with pytest.raises(InvalidInputError, match=r"A\[0, 0\] is negative \(-1\); clip or shift it"):
        as_matrix(np.array([[-1]]))


def test_check_finite_counts_rows_from_the_first_row():
    with pytest.raises(InvalidInputError, match=r"A\[101, 1\] is NaN; remove or impute it first"):
        check_finite(np.array([[0.0, 1.0], [2.0, np.nan]]), first_row=100)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ([1.0, 2.0], InvalidInputError, r"two-dimensional, got shape \(2,\); use x.reshape\(1, -1\) for one row"),
        (np.ones((2, 2, 2)), InvalidInputError, r"two-dimensional, got shape \(2, 2, 2\)"),
        (sp.coo_array(np.ones(3)), InvalidInputError, "two-dimensional, got 1 dimension"),
        (np.ones((0, 3)), InvalidInputError, r"empty: shape \(0, 3\)"),
        (sp.csr_array((3, 0)), InvalidInputError, r"empty: shape \(3, 0\)"),
        ([["a"]], InvalidTypeError, "real numbers, got dtype <U1"),
        ([[1j]], InvalidTypeError, "real numbers, got dtype complex128"),
        ([[None, {}]], InvalidTypeError, r"A\[0, 0\] is missing"),
        ([[1, {}]], InvalidTypeError, r"real numbers: A\[0, 1\] is {} \(dict\)"),
        (np.array([["2020-01-01"]], dtype="M8[D]"), InvalidTypeError, "real numbers"),
        (sp.csr_array([[1j]]), InvalidTypeError, "real numbers, got dtype complex128"),
    ],
)
def test_refused_matrices(given, error, message):
    with pytest.raises(error, match=message):
        as_matrix(given)


def test_an_all_zero_sparse_matrix_is_accepted():
    assert as_matrix(sp.csr_array((2, 3))).nnz == 0


def test_check_rank():
    assert check_rank(np.int64(2), (2, 5)) == 2
    with pytest.raises(InvalidInputError, match=r"k = 3 is more than min\(rows, columns\) = 2"):
        check_rank(3, (2, 5))
    assert check_rank(4, (4, 2), limit="rows") == 4
    with pytest.raises(InvalidInputError, match=r"k = 5 is more than the number of rows = 4"):
        check_rank(5, (4, 2), limit="rows")


@pytest.mark.parametrize("value", [0.5, np.float32(0.5), Fraction(1, 2)])
def test_check_number(value):
    assert check_number(value, name="x", minimum=0, maximum=1) == 0.5
    assert type(check_number(value, name="x")) is float


@pytest.mark.parametrize("value", [-0.1, 1.1, 2, np.nan, np.inf, 10**400])
def test_check_number_out_of_bounds(value):
    with pytest.raises(InvalidInputError, match="x must be a finite number between 0 and 1, got"):
        check_number(value, name="x", minimum=0, maximum=1)


@pytest.mark.parametrize("value", [True, "1", None, 1j, [0.5]])
def test_check_number_of_the_wrong_kind(value):
    with pytest.raises(InvalidTypeError, match="x must be a real number, got"):
        check_number(value, name="x")


def test_entries_may_be_left_unread():
    assert np.isnan(as_matrix(np.array([[np.nan]]), finite=False)[0, 0])


def test_check_size():
    assert check_size(np.uint8(3), name="s") == 3
    assert type(check_size(np.uint8(3), name="s")) is int
    assert check_size(0, name="s", minimum=0) == 0
    for wrong in (0, -1):
        with pytest.raises(InvalidInputError, match=f"s must be at least 1, got {wrong}"):
            check_size(wrong, name="s")
    for wrong in (2.0, True, "2", None, [2]):
        with pytest.raises(InvalidTypeError, match="s must be an integer"):
            check_size(wrong, name="s")


def test_check_index():
    assert check_index(3, 5, name="row").shape == ()
    taken = check_index([[0, 4]], 5, name="row")
    assert taken.dtype == np.intp
    assert taken.tolist() == [[0, 4]]
    assert check_index(np.array([], dtype=float), 5, name="row").dtype == np.intp
    for wrong, named in (
        (-1, -1),
        (5, 5),
        ([0, 7], 7),
        ([9, -2], -2),
        (2**63, 2**63),
        (np.uint64(2**64 - 1), 2**64 - 1),
    ):
        with pytest.raises(InvalidInputError, match=f"row {named} is out of range 0 … 4"):
            check_index(wrong, 5, name="row")
    for wrong in (1.0, True, "a", [None], [0.5]):
        with pytest.raises(InvalidTypeError, match="row must be an integer or an array of integers"):
            check_index(wrong, 5, name="row")


@pytest.mark.parametrize("path", ["data.csv", Path("data.csv")])
def test_a_path_is_not_a_matrix(path):
    with pytest.raises(
        InvalidTypeError, match=r"A is a path, not a matrix: 'data.csv'; load the matrix, or open the file"
    ):
        as_matrix(path)


def test_a_size_beyond_all_indices_is_one_clear_error():
    assert check_size(2**63 - 1, name="s") == 2**63 - 1
    for wrong in (2**63, 10**400, 10**5000):  # the last has more digits than Python prints
        with pytest.raises(InvalidInputError, match=r"s must be below 2\^63, got an integer of \d+ bits"):
            check_size(wrong, name="s")


@pytest.mark.parametrize("path", [None, 3, [], np.ones((2, 2)), b"x", "a\0b", "\ud800"], ids=repr)
def test_invalid_paths_are_refused_everywhere(path):
    for door in (fa.open, fa.verify, lambda path: fa.build(np.eye(3), path)):
        with pytest.raises(FastAnchorsError, match="path"):
            door(path)


def test_rows_of_different_lengths_are_refused():
    for A in ([[1, 2], [3]], [[1.0], [[2.0]]]):
        with pytest.raises(InvalidInputError, match="A cannot be converted to an array"):
            fa.FAS().seek(A, 1)


def test_numbers_below_the_smallest_normal_one_are_encoded():
    A = np.full((4, 3), 5e-324)
    assert np.isfinite(fa.encode(A, A[:1])).all()


def test_a_dok_matrix_with_entries_outside_its_shape_is_refused():
    A = sp.dok_array(np.eye(3))
    A._dict[(10**7, 10**7)] = 1.0
    with pytest.raises(InvalidInputError, match="is damaged"):
        as_matrix(A)
