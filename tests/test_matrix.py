"""SampleMatrix: every call on dense and sparse input, its errors, its memory, its blocks."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import fastanchors as fa
from fastanchors.errors import InvalidInputError, InvalidTypeError
from fastanchors.sampling.dense_block import DenseBlock
from fastanchors.sampling.make_block import make_block
from fastanchors.sampling.sparse_block import SparseBlock
from naive.sampling import NaiveSampleMatrix

M, N = 50, 80


def example(seed: int = 0, shape: tuple[int, int] = (M, N)) -> np.ndarray:
    rng = np.random.default_rng(seed)
    A = rng.random(shape) * (rng.random(shape) < 0.5)
    A[3] = 0.0
    A[:, 5] = 0.0
    return A


@pytest.fixture(params=["dense", "sparse"])
def kind(request):
    return request.param


@pytest.fixture(params=["l1", None])
def normalize(request):
    return request.param


def made(A: np.ndarray, kind: str, normalize: str | None = "l1", **names: object) -> fa.SampleMatrix:
    return fa.SampleMatrix(sp.csr_array(A) if kind == "sparse" else A, normalize=normalize, **names)


def toarray(rows):
    return rows.toarray() if sp.issparse(rows) else rows


def test_implements_the_interface(kind, normalize):
    S, twin = made(example(), kind, normalize), NaiveSampleMatrix(example(), normalize)
    assert isinstance(S, fa.SampleAccess)
    assert (S.shape, S.nnz, S.dtype) == (twin.shape, twin.nnz, np.float64)
    assert (S.normalize, S.is_sparse) == (normalize, kind == "sparse")
    every_row, every_column = np.arange(M), np.arange(N)
    np.testing.assert_allclose(S.frobenius_norm, twin.frobenius_norm, rtol=1e-13)
    np.testing.assert_allclose(S.row_norm(every_row), twin.row_norm(every_row), rtol=1e-13)
    np.testing.assert_allclose(S.column_norm(every_column), twin.column_norm(every_column), rtol=1e-13)
    np.testing.assert_allclose(S.l1_norm(every_row), np.abs(twin.stored).sum(axis=1), rtol=1e-13)
    np.testing.assert_allclose(S[every_row[:, None], every_column], twin.view, rtol=1e-13)
    np.testing.assert_array_equal(S.raw(every_row[:, None], every_column), twin.stored)
    np.testing.assert_allclose(toarray(S.rows([7, 3, 7, 0])), twin.rows([7, 3, 7, 0]), rtol=1e-13)
    blocks = list(S.blocks(7))
    assert [start for start, _ in blocks] == list(range(0, M, 7))
    np.testing.assert_allclose(np.vstack([toarray(block) for _, block in blocks]), twin.view, rtol=1e-13)
    np.testing.assert_allclose(np.vstack([toarray(block) for _, block in S.blocks()]), twin.view, rtol=1e-13)
    S.check()


def test_scalars_and_shapes(kind):
    S = made(example(), kind)
    assert type(S[1, 2]) is float
    assert type(S.row_norm(1)) is float
    assert type(S.column_norm(1)) is float
    assert type(S.sample_rows(rng=0)) is int
    assert type(S.sample_columns(rng=0)) is int
    assert type(S.sample_in_row(0, rng=0)) is int
    assert type(S.sample_in_column(0, rng=0)) is int
    i = np.array([[0, 1, 2], [4, 5, 6]])
    assert S.row_norm(i).shape == (2, 3)
    assert S.sample_rows(0).shape == (0,)
    assert S.sample_rows(9).shape == (9,)
    assert S.sample_in_row(i).shape == (2, 3)
    assert S.sample_in_row(i, 4).shape == (2, 3, 4)
    assert S.sample_in_column(i[0][:2], 4).shape == (2, 4)
    assert S.sample_in_column(0, 4).shape == (4,)
    assert S.rows([]).shape == (0, N)
    assert "50×80" in repr(S)


def test_one_seed_one_answer(kind):
    S = made(example(), kind)
    for draw in (S.sample_rows, S.sample_columns):
        np.testing.assert_array_equal(draw(50, rng=3), draw(50, rng=3))
    np.testing.assert_array_equal(S.sample_in_row([1, 2], 9, rng=3), S.sample_in_row([1, 2], 9, rng=3))
    generator = np.random.default_rng(3)
    assert not np.array_equal(S.sample_rows(50, rng=generator), S.sample_rows(50, rng=generator))


def test_costs_are_counted(kind):
    S = made(example(), kind)
    before = S.cost.copy()
    S.sample_rows(10), S.sample_columns(10), S.sample_in_row([0, 1], 10), S.sample_in_column(0)
    S[0, 0], S[[0, 1], [0, 1]], S.row_norm([0, 1, 2]), S.column_norm(0)
    S.rows([0, 1])
    list(S.blocks(20))
    assert (S.cost - before).as_dict() == {"samples": 41, "queries": 7, "rows_read": 2 + M, "bytes_moved": 0}


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32, np.uint8, bool])
def test_types_are_kept(kind, dtype):
    A = (example() * 9).astype(dtype)
    S = made(A, kind)
    stored = np.uint8 if dtype is bool else dtype
    assert S.dtype == stored
    assert S.raw([0], [1]).dtype == stored
    assert S.rows([0]).dtype == (np.float32 if dtype is np.float32 else np.float64)
    plain = made(A, kind, None)
    assert plain.rows([0]).dtype == stored
    np.testing.assert_array_equal(toarray(plain.rows(np.arange(M))), A)


@pytest.mark.parametrize("form", ["csc", "coo", "lil", "dok", "bsr", "dia"])
def test_every_sparse_format(form):
    A = np.triu(np.tril(example() + np.eye(M, N), 2), -2)
    S = fa.SampleMatrix(sp.coo_array(A).asformat(form))
    assert S.is_sparse
    np.testing.assert_allclose(toarray(S.rows(np.arange(M))), NaiveSampleMatrix(A).view, rtol=1e-13)


def test_explicit_zeros_and_duplicates():
    A = sp.coo_array(([1.0, 2.0, 0.0, 4.0], ([0, 0, 1, 2], [1, 1, 0, 2])), shape=(3, 3))
    S = fa.SampleMatrix(A, normalize=None)
    assert S.nnz == 2
    assert S[0, 1] == 3.0
    assert set(S.sample_rows(100, rng=0)) == {0, 2}


def test_the_input_is_copied(kind):
    A = example()
    given = sp.csr_array(A) if kind == "sparse" else A.copy()
    S = fa.SampleMatrix(given)
    S.update(np.arange(M), 0, 7.0)
    np.testing.assert_array_equal(toarray(given), A)


def test_names_are_kept():
    S = made(example(), "dense", row_names=[f"r{i}" for i in range(M)], column_names=range(N))
    assert S.row_names[:2] == ["r0", "r1"]
    assert S.column_names[:2] == ["0", "1"]
    S.append(np.ones((1, N)), row_names=["last"])
    assert S.row_names[-1] == "last"
    assert made(example(), "dense").row_names is None
    with pytest.raises(fa.errors.InvalidInputError, match="row_names must have 50 names, got 1"):
        made(example(), "dense", row_names=["one"])
    with pytest.raises(fa.errors.InvalidInputError, match="pass row_names"):
        S.append(np.ones((1, N)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda S: S[0], "as in S"),
        (lambda S: S[-1, 0], "row -1 is out of range"),
        (lambda S: S[0, N], "column 80 is out of range"),
        (lambda S: S[0.5, 0], "row must be an integer"),
        (lambda S: S[[0, 1], [0, 1, 2]], "do not fit together"),
        (lambda S: S.row_norm(M), "row 50 is out of range"),
        (lambda S: S.column_norm(-1), "column -1 is out of range"),
        (lambda S: S.rows([0, M]), "row 50 is out of range"),
        (lambda S: S.sample_rows(-1), "size must be at least 0"),
        (lambda S: S.sample_rows(1.5), "size must be an integer"),
        (lambda S: S.sample_in_row(3, 2), "row 3 is zero"),
        (lambda S: S.sample_in_column([0, 5]), "column 5 is zero"),
        (lambda S: S.sample_rows(1, rng="x"), "rng must be"),
        (lambda S: list(S.blocks(0)), "block_rows must be at least 1"),
        (lambda S: S.update([0, M], [0, 0], 1.0), "row 50 is out of range"),
        (lambda S: S.update([0, 1], [0, 1, 2], 1.0), "do not fit together"),
        (lambda S: S.update([0, 1], [0, 1], [1.0, np.nan]), r"the value nan for entry \[1, 1\] is not finite"),
        (lambda S: S.update([0, 1], [0, 1], [1.0, np.inf]), "not finite"),
        (lambda S: S.update([0, 1], [0, 1], [1.0, -1.0]), "negative"),
        (lambda S: S.add([0, 1], [0, 1], [1.0, -9.0]), "negative"),
        (lambda S: S.update([0, 1], [0, 1], [1.0, 1e160]), "rescale"),
        (lambda S: S.update([0, 1], [0, 1], [1.0, 1e-160]), "rescale"),
        (lambda S: S.update(0, 0, "x"), "real numbers"),
        (lambda S: S.add(0, 0, 1j), "real numbers"),
        (lambda S: S.append(np.ones((1, N + 1))), "rows have 81 columns, the matrix has 80"),
        (lambda S: S.append(-np.ones((1, N))), "negative"),
    ],
)
def test_bad_calls_change_nothing(kind, call, message):
    S = made(example(), kind)
    with pytest.raises(fa.FastAnchorsError, match=message):
        call(S)
    assert S.shape == (M, N)
    np.testing.assert_array_equal(toarray(made(example(), kind, None).rows(np.arange(M))), example())
    np.testing.assert_array_equal(S.raw(np.arange(M)[:, None], np.arange(N)), example())
    S.check()


@pytest.mark.parametrize(
    ("A", "normalize", "message"),
    [
        (np.array([[1.0, np.nan]]), None, r"A\[0, 1\] is NaN"),
        (np.array([[1.0, -1.0]]), "l1", r"A\[0, 1\] is negative"),
        (np.array([[1.0, 1e200]]), None, r"A\[0, 1\] = 1e\+200"),
        (sp.csr_array([[0.0, 1e-200]]), None, r"A\[0, 1\] = 1e-200"),
        (np.full((1, 2), 1.0), "l2", "normalize must be"),
        (np.ones(3), None, "two-dimensional"),
        (np.ones((0, 3)), None, "empty"),
        (np.array([["a"]]), None, "real numbers"),
    ],
)
def test_bad_matrices(A, normalize, message):
    with pytest.raises(fa.FastAnchorsError, match=message):
        fa.SampleMatrix(A, normalize=normalize)


@pytest.mark.parametrize(
    ("x", "message"), [(1.5, "whole number"), (2**40, "does not fit into int32"), (-(2.0**40), "does not fit")]
)
def test_integer_matrices_refuse_values_out_of_range(kind, x, message):
    S = made((example() * 9).astype(np.int32), kind, None)
    before = S.raw(0, 0)
    with pytest.raises(fa.errors.InvalidInputError, match=message):
        S[0, 0] = x
    with pytest.raises(fa.errors.InvalidInputError, match=message):
        S.add([1, 0], [0, 0], [1, x])
    assert S.raw(0, 0) == before
    S[0, 0] = 3.0
    assert S.raw(0, 0) == 3


def test_a_total_that_overflows_is_refused():
    A = np.full((1 << 12, 1 << 12), 2.0**500)  # squares that sum to 2^1024
    with pytest.raises(fa.errors.InvalidInputError, match="the sum of the squares of A overflows"):
        fa.SampleMatrix(A, normalize=None)
    A[0, 0] = 0.0
    S = fa.SampleMatrix(A, normalize=None)
    with pytest.raises(fa.errors.InvalidInputError, match="the sum of the squares would overflow"):
        S[0, 0] = 2.0**500
    assert S.raw(0, 0) == 0.0


def test_zero_matrix(kind, normalize):
    S = made(np.zeros((3, 4)), kind, normalize)
    assert S.frobenius_norm == 0
    assert S.nnz == 0
    for draw in (S.sample_rows, S.sample_columns):
        with pytest.raises(fa.errors.InvalidInputError, match="every entry of the matrix is zero"):
            draw(3)
    S[1, 2] = 2.0
    assert (S.sample_rows(rng=0), S.sample_columns(rng=0), S.sample_in_row(1), S.sample_in_column(2)) == (1, 2, 2, 1)
    assert S[1, 2] == (2.0 if normalize is None else 1.0)
    S[1, 2] = 0.0
    assert S.frobenius_norm == 0
    assert S.nnz == 0


def test_last_duplicate_wins_and_add_sums_them(kind):
    S = made(example(), kind, None)
    S.update([0, 0, 0, 9], [5, 5, 5, 5], [1.0, 2.0, 3.0, 4.0])
    assert S.raw(0, 5) == 3.0
    S.add([0, 0, 9], [5, 5, 5], [1.0, 2.0, -4.0])
    assert (S.raw(0, 5), S.raw(9, 5)) == (6.0, 0.0)
    S.add([0, 0], [5, 5], [1e17, -1e17])  # not one after the other
    assert S.raw(0, 5) == 6.0
    S.check()


def test_many_new_non_zeros_are_consolidated():
    """More inserted entries than a block allows, in batches: the block is rebuilt, and nothing is lost."""
    shape = (300, 400)
    stored = example(1, shape) * (np.arange(shape[1]) % 9 == 0)
    S = fa.SampleMatrix(sp.csr_array(stored))
    base = S._blocks[0].sides.rows.data.size
    rng = np.random.default_rng(2)
    for _ in range(6):
        i, j, x = rng.integers(0, 300, 3000), rng.integers(0, 400, 3000), rng.integers(1, 9, 3000).astype(float)
        S.update(i, j, x)
        for a, b, v in zip(i, j, x):
            stored[a, b] = v
        S.check()
    np.testing.assert_array_equal(S.raw(np.arange(300)[:, None], np.arange(400)), stored)
    assert S._blocks[0].sides.rows.data.size > base
    np.testing.assert_allclose(S.column_norm(np.arange(400)), NaiveSampleMatrix(stored).column_norm(np.arange(400)))


def test_append_keeps_few_blocks(kind):
    A = example(3, (200, 30))
    S = made(A[:1], kind)
    for i in range(1, 200):
        S.append(sp.csr_array(A[i : i + 1]) if i % 2 else A[i : i + 1])
        assert len(S._blocks) <= 9
    np.testing.assert_allclose(toarray(S.rows(np.arange(200)[::-1])), NaiveSampleMatrix(A).view[::-1], rtol=1e-13)
    np.testing.assert_allclose(S.column_norm(np.arange(30)), NaiveSampleMatrix(A).column_norm(np.arange(30)))
    S.update([0, 199, 100], 5, 1.0)
    assert S.raw([0, 199, 100, 99], 5).tolist() == [1.0, 1.0, 1.0, 0.0]
    S.check()


@pytest.mark.parametrize("columns", [True, False])
def test_blocks_can_be_saved_and_mapped(kind, normalize, columns, tmp_path):
    """Saved and mapped copy-on-write they give the same answers, and updates do not change the files."""
    A = sp.csr_array(example()) if kind == "sparse" else example()
    block = make_block(A, l1=normalize is not None, columns=columns)
    mapped = {}
    for name, array in block.arrays().items():
        np.save(tmp_path / f"{name}.npy", array)
        mapped[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="c" if array.size else None)
    home = SparseBlock if kind == "sparse" else DenseBlock
    back = home.from_arrays(mapped, block.shape, l1=normalize is not None)
    assert (back.nnz, back.l1, back.has_columns, back.dtype) == (block.nnz, block.l1, columns, block.dtype)
    back.check()
    S, T = fa.SampleMatrix.from_blocks([block], normalize), fa.SampleMatrix.from_blocks([back], normalize)
    np.testing.assert_array_equal(S.sample_in_row([0, 1], 50, rng=1), T.sample_in_row([0, 1], 50, rng=1))
    T.update([0, 1, 1], [5, 6, 7], 2.0)
    T.check()
    assert T.raw(0, 5) == 2.0
    for name, array in block.arrays().items():
        np.testing.assert_array_equal(np.load(tmp_path / f"{name}.npy"), array)
    if columns:
        np.testing.assert_array_equal(
            S.sample_columns(50, rng=1), made(example(), kind, normalize).sample_columns(50, rng=1)
        )
    else:
        for call in (lambda: T.sample_columns(1), lambda: T.sample_in_column(0), lambda: T.column_norm(0)):
            with pytest.raises(fa.errors.InvalidInputError, match="without a column side"):
                call()


def test_check_finds_a_wrong_sum(kind):
    S = made(example(), kind)
    S._blocks[0].sides.columns.sums[7] *= 1 + 2**-50
    with pytest.raises(fa.errors.FastAnchorsError, match="columns"):
        S.check()


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32])
def test_memory_of_a_sparse_matrix(dtype, normalize):
    """At most 3 times the bytes of CSR, fresh and after many updates and new non-zeros."""
    A = sp.random_array((4000, 2000), density=0.01, rng=np.random.default_rng(0), format="csr")
    A = sp.csr_array(((A.data * 99 + 1).astype(dtype), A.indices.astype(np.int32), A.indptr.astype(np.int32)), A.shape)
    given = A.data.nbytes + A.indices.nbytes + A.indptr.nbytes
    S = fa.SampleMatrix(A, normalize=normalize)
    assert S.memory <= 3 * given
    rng = np.random.default_rng(1)
    S.update(rng.integers(0, 4000, 3000), rng.integers(0, 2000, 3000), 5)
    assert S.memory <= 3 * (given + 3000 * (A.data.itemsize + 4))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
def test_memory_of_a_dense_matrix(dtype, normalize):
    A = np.random.default_rng(0).integers(0, 99, (1000, 300)).astype(dtype)
    S = fa.SampleMatrix(A, normalize=normalize)
    assert S.memory <= 3 * A.nbytes
    S[1, 1] = 3
    assert S.memory <= 3 * A.nbytes


def test_wide_indices_are_kept_where_needed():
    A = sp.csr_array((np.ones(2), np.array([0, 2**31 + 5]), np.array([0, 1, 2])), shape=(2, 2**31 + 10))
    block = make_block(A, l1=True, columns=False)
    assert block.sides.rows.other.dtype == np.int64
    assert block.raw(np.array([1]), np.array([2**31 + 5])) == 1.0


def test_threads_may_read_together(kind):
    S = made(example(), kind)
    alone = S.sample_in_row(np.arange(10, 40), 200, rng=5)
    together = [None] * 4

    def read(k: int) -> None:
        together[k] = S.sample_in_row(np.arange(10, 40), 200, rng=5)

    threads = [threading.Thread(target=read, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for drawn in together:
        np.testing.assert_array_equal(drawn, alone)


def test_work_is_logarithmic():
    """Node visits are counted in the interpreter (numba switched off), in a separate process."""
    script = Path(__file__).parent / "counted_work.py"
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("names", [5, 1.5, "ab", True])
def test_row_names_that_are_no_names(names):
    S = fa.SampleMatrix(np.eye(2), row_names=["a", "b"])
    with pytest.raises(fa.errors.InvalidTypeError, match="sequence of 2 names"):
        S.append(np.eye(2), row_names=names)
    assert S.shape == (2, 2)


@pytest.mark.parametrize("normalize", ["l1", None])
def test_a_copy_shares_nothing(normalize):
    A = np.random.default_rng(0).random((40, 6))
    S = fa.SampleMatrix(A, normalize=normalize)
    fa.FAS(selection="spa").seek(S, 2)
    T = copy.copy(S)
    T[3, 2] = 50.0
    T.append(np.full((1, 6), 60.0))
    assert (S.raw(3, 2), S.shape) == (A[3, 2], (40, 6))
    assert (T.raw(3, 2), T.shape) == (50.0, (41, 6))
    S.check()
    T.check()


@pytest.mark.parametrize("cursor", ["a", 1.5, np.arange(3), None, True])
def test_a_cursor_that_is_no_integer_is_refused(cursor):
    with pytest.raises(fa.errors.InvalidTypeError, match="cursor must be an integer"):
        fa.SampleMatrix(np.eye(3)).changes_since(cursor)
    with pytest.raises(fa.errors.InvalidInputError, match="cursor must be at least 0"):
        fa.SampleMatrix(np.eye(3)).changes_since(-1)


def test_sums_of_single_precision_are_double_for_sparse_rows_too():
    A = np.random.default_rng(0).random((40, 700)).astype(np.float32)
    A[:, ::3] = 0
    exact = A.sum(axis=1, dtype=np.longdouble)
    stored = sp.csr_array(A)
    np.testing.assert_allclose(fa.open_matrix(stored).row_sums(), exact, rtol=1e-14)
    sums = fa.SampleMatrix(stored, normalize=None).l1_norm(np.arange(40))
    np.testing.assert_allclose(sums, exact, rtol=1e-14)
    scaled = [fa.open_matrix(form, normalize="l1").rows(np.arange(40)) for form in (A, stored)]
    np.testing.assert_array_equal(scaled[1].toarray(), scaled[0])


def test_appended_frames_are_matched_by_name():
    """Their columns were taken by position, unlike those appended to a store."""
    pd = pytest.importorskip("pandas")
    rows = np.arange(1.0, 13.0).reshape(3, 4)
    frame = pd.DataFrame(rows, columns=list("abcd"), index=list("xyz"))
    S = fa.SampleMatrix(frame, normalize=None)
    S.append(frame.iloc[:2, ::-1])
    np.testing.assert_array_equal(S.rows(np.arange(5)), rows[[0, 1, 2, 0, 1]])
    assert list(S.row_names) == list("xyzxy")
    sparse = fa.SampleMatrix(sp.csr_array(rows), normalize=None, column_names={"d": 3, "b": 1, "a": 0, "c": 2})
    assert list(sparse.column_names) == list("abcd")
    sparse.append(frame.iloc[:, ::-1])
    np.testing.assert_array_equal(sparse.rows(np.arange(3, 6)).toarray(), rows)
    with pytest.raises(InvalidInputError, match="column 1 is named 'b' in the matrix and 'z' in the rows"):
        S.append(frame.rename(columns={"b": "z"}))
    with pytest.raises(InvalidTypeError, match="no order"):
        fa.SampleMatrix(rows, row_names={"a", "b", "c"})


def test_values_do_not_enlarge_what_they_are_set_to():
    S = fa.SampleMatrix(example(), normalize=None)
    before = S.dense_rows(np.arange(M))
    for rows, columns, values in ((0, 0, []), (0, 0, [7.0, 8.0, 9.0]), ([0, 1], [0, 0], np.ones((3, 2)))):
        for write in (S.update, S.add):
            with pytest.raises(fa.errors.InvalidInputError, match="do not fit together"):
                write(rows, columns, values)
    with pytest.raises(fa.errors.InvalidInputError, match="do not fit together"):
        S[0, 0] = [7.0, 8.0]
    np.testing.assert_array_equal(S.dense_rows(np.arange(M)), before)
    S[0, 0] = [7.0]
    S.update([0, 1], [1, 1], [[5.0, 6.0]])
    assert (S[0, 0], S[0, 1], S[1, 1]) == (7.0, 5.0, 6.0)


def test_factors_of_products_are_checked():
    A = example()
    for matrix in (fa.SampleMatrix(A, normalize=None), fa.open_matrix(A), fa.open_matrix(sp.csr_array(A))):
        np.testing.assert_allclose(matrix.dot(np.ones(N)), A.sum(axis=1))
        for B in (np.ones((N + 1, 2)), np.ones((N - 1, 2)), "a", np.ones((N, 2, 2)), [[1.0], [1.0, 2.0]]):
            with pytest.raises(fa.FastAnchorsError, match=r"^B "):
                matrix.dot(B)
        for B in (np.ones((M + 1, 2)), np.ones((M - 1, 2)), np.ones(M)):
            with pytest.raises(fa.FastAnchorsError, match=r"^B "):
                matrix.transposed_dot(B)


def test_increments_that_double_precision_rounds_are_refused():
    S = fa.SampleMatrix(np.eye(2))
    with pytest.raises(InvalidInputError, match="9007199254740993 would be rounded"):
        S.add([0], [1], np.array([2**53 + 1]))
    assert S.raw(0, 1) == 0
