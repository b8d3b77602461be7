"""fa.encode against a loop over SciPy, for every kind of input."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from threadpoolctl import threadpool_info

import fastanchors as fa
from fastanchors import encoder
from fastanchors._parallel import one_blas_thread
from fastanchors.errors import InvalidInputError, InvalidTypeError
from fastanchors.matrix import ArrayMatrix
from fastanchors.matrix.columns import column_order
from naive.encode import encode as naive_encode
from naive.encode import encode_sum_to
from naive.sampling import NaiveSampleMatrix


@pytest.fixture
def problem():
    rng = np.random.default_rng(1)
    C = rng.random((5, 12)) * (rng.random((5, 12)) < 0.7)
    X = rng.dirichlet(np.full(5, 0.4), 60) @ C + 0.2 * rng.random((60, 12)) * (rng.random((60, 12)) < 0.5)
    return X, C


@pytest.mark.parametrize("kind", ["dense", "fortran", "csr", "csc", "coo", "sample access", "list"])
@pytest.mark.parametrize("sum_to_one", [False, True])
def test_every_kind_of_rows(problem, kind, sum_to_one):
    X, C = problem
    given = {
        "dense": X,
        "fortran": np.asfortranarray(X),
        "csr": sp.csr_array(X),
        "csc": sp.csc_matrix(X),
        "coo": sp.coo_array(X),
        "sample access": NaiveSampleMatrix(X, normalize=None),
        "list": X.tolist(),
    }[kind]
    F = fa.encode(given, C, sum_to_one=sum_to_one)
    expected = encode_sum_to(X, C) if sum_to_one else naive_encode(X, C)
    np.testing.assert_allclose(F, expected, rtol=1e-8, atol=1e-10)
    assert F.dtype == np.float64


def test_view_of_sample_access_is_what_is_encoded(problem):
    X, C = problem
    view = X / X.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(fa.encode(NaiveSampleMatrix(X), C), naive_encode(view, C), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.bool_])
def test_integers(dtype):
    rng = np.random.default_rng(2)
    X = rng.integers(0, 2, (20, 9)).astype(dtype)
    C = rng.integers(0, 2, (4, 9)).astype(dtype)
    F = fa.encode(X, C)
    np.testing.assert_allclose(F @ C, naive_encode(X.astype(float), C.astype(float)) @ C, rtol=0, atol=1e-9)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_float32_in_float32_out_computed_in_float64(problem, make):
    X, C = (array.astype(np.float32) for array in problem)
    F = fa.encode(make(X), make(C))
    assert F.dtype == np.float32
    np.testing.assert_array_equal(F, fa.encode(X.astype(np.float64), C.astype(np.float64)).astype(np.float32))


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_the_result_does_not_depend_on_workers_and_chunks(problem, make, monkeypatch):
    X, C = problem
    whole = fa.encode(make(X), C)
    monkeypatch.setattr(encoder, "_CHUNK_BYTES", 2000)
    assert encoder._chunk_rows(ArrayMatrix(make(X)), len(C)) < 9
    alone = fa.encode(make(X), C, n_jobs=1)
    np.testing.assert_array_equal(alone, fa.encode(make(X), C, n_jobs=3))
    np.testing.assert_allclose(alone, whole, rtol=0, atol=1e-14)


def test_blocks_are_bounded(monkeypatch):
    """No chunk exceeds its limit, for sparse and dense matrices."""
    monkeypatch.setattr(encoder, "_CHUNK_BYTES", 1 << 14)
    sparse = sp.random_array((500, 1000), density=0.01, rng=np.random.default_rng(3), format="csr")
    matrix = ArrayMatrix(sparse)
    sizes = [12 * block.nnz for _, block in matrix.blocks(encoder._chunk_rows(matrix, 3))]
    assert 2 < len(sizes) < 20
    assert max(sizes) < 1 << 15
    dense = ArrayMatrix(np.ones((500, 50)))
    assert all(block.nbytes <= 1 << 14 for _, block in dense.blocks(encoder._chunk_rows(dense, 3)))


def test_out_is_written_and_returned(problem, tmp_path):
    X, C = problem
    out = np.lib.format.open_memmap(tmp_path / "F.npy", mode="w+", dtype=np.float32, shape=(60, 5))
    assert fa.encode(X, C, out=out) is out
    np.testing.assert_array_equal(np.load(tmp_path / "F.npy"), fa.encode(X, C).astype(np.float32))


@pytest.mark.parametrize("place", [slice(None), slice(None, None, -1)])
def test_out_may_be_rows_of_the_input(place, monkeypatch):
    monkeypatch.setattr(encoder, "_CHUNK_BYTES", 1)  # a row at a time
    X = np.random.default_rng(0).random((20, 4))
    expected = fa.encode(X, X[:4].copy())
    np.testing.assert_array_equal(fa.encode(X, X[:4], out=X[place]), expected)


def test_error_equals_that_of_the_naive_version(problem):
    X, C = problem
    for rows in (X, sp.csr_array(X)):
        out = np.empty((60, 5))
        error = encoder.encode_rows(ArrayMatrix(rows), C, out, sum_to_one=False, error=True)
        assert error == pytest.approx(np.linalg.norm(out @ C - X), rel=1e-12)


def test_exact_mixtures_are_recovered(problem):
    _, C = problem
    F = np.random.default_rng(4).dirichlet(np.ones(5), 30)
    np.testing.assert_allclose(fa.encode(F @ C, C), F, rtol=0, atol=1e-13)
    np.testing.assert_allclose(fa.encode(F @ C, C, sum_to_one=True), F, rtol=0, atol=1e-13)


def test_collinear_anchors_agree_with_scipy():
    rng = np.random.default_rng(5)
    C = rng.random((7, 20))
    C[3], C[4], C[5] = 2 * C[0], C[1] + C[2], C[6] * (1 + 1e-13)
    X = np.vstack([rng.random((30, 20)), rng.dirichlet(np.ones(7), 30) @ C])
    error = np.linalg.norm(fa.encode(X, C) @ C - X, axis=1) / np.linalg.norm(X, axis=1)
    best = np.linalg.norm(naive_encode(X, C) @ C - X, axis=1) / np.linalg.norm(X, axis=1)
    np.testing.assert_allclose(error, best, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_bad_entry_is_named(problem, bad, make):
    X, C = problem
    X = X.copy()
    X[41, 3] = bad
    with pytest.raises(InvalidInputError, match=r"X\[41, 3\]"):
        fa.encode(make(X), C)
    with pytest.raises(InvalidInputError, match=r"components\[41, 3\]"):
        fa.encode(X[:, :12], make(X))


def test_other_bad_input(problem):
    X, C = problem
    with pytest.raises(InvalidInputError, match="12 columns, X has 11"):
        fa.encode(X[:, 1:], C)
    with pytest.raises(InvalidInputError, match="reshape"):
        fa.encode(X[0], C)
    with pytest.raises(InvalidInputError, match=r"norms of X overflow"):
        fa.encode(X * 1e200, C)
    with pytest.raises(InvalidInputError, match=r"norms of components overflow"):
        fa.encode(X, C * 1e200)
    with pytest.raises(InvalidInputError, match="out has shape"):
        fa.encode(X, C, out=np.empty((5, 60)))
    with pytest.raises(InvalidTypeError, match="floating"):
        fa.encode(X, C, out=np.empty((60, 5), dtype=int))
    with pytest.raises(InvalidInputError, match="n_jobs must not be 0"):
        fa.encode(X, C, n_jobs=0)


def test_blas_gets_its_threads_back(problem):
    X, C = problem
    before = [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: fa.encode(X, C), range(16)))
    with one_blas_thread(), one_blas_thread():
        assert all(library["num_threads"] == 1 for library in threadpool_info() if library["user_api"] == "blas")
    assert [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"] == before


def test_a_read_only_output_is_refused():
    X = np.random.default_rng(0).random((5, 3))
    out = np.zeros((5, 2))
    out.flags.writeable = False
    with pytest.raises(InvalidInputError, match="out is read-only"):
        fa.encode(X, X[:2], out=out)


@pytest.fixture
def frames():
    """Rows as a frame, and the same with its columns in another order."""
    pd = pytest.importorskip("pandas")
    X = fa.datasets.separable(80, 8, 3, noise=0.02, rng=0).A
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(8)], index=[f"r{i}" for i in range(80)])
    return frame, frame.iloc[:, ::-1]


def test_columns_of_frames_are_matched_by_name(frames):
    """Components were taken by position, as arrays are."""
    frame, other = frames
    C = frame.iloc[[3, 9, 20]]
    expected = fa.encode(frame.to_numpy(), C.to_numpy())
    for X, components in ((frame, C), (other, C), (fa.SampleMatrix(other, normalize=None), C), (frame.to_numpy(), C)):
        np.testing.assert_allclose(fa.encode(X, components), expected, atol=1e-12)
        assert fa.metrics.reconstruction_error(X, components).relative == pytest.approx(
            fa.metrics.reconstruction_error(frame.to_numpy(), C.to_numpy()).relative
        )
    with pytest.raises(InvalidInputError, match="column 2 is named 'c2' in the data and 'z' in the components"):
        fa.encode(frame, C.rename(columns={"c2": "z"}))
    with pytest.raises(InvalidInputError, match="components have 7 columns, X has 8"):
        fa.encode(frame, C.iloc[:, :7])


def test_columns_of_a_dask_frame_are_matched_by_name(frames):
    dd = pytest.importorskip("dask.dataframe")
    frame, other = (each.reset_index(drop=True) for each in frames)
    C = frame.iloc[[3, 9, 20]]
    lazy = fa.encode(dd.from_pandas(other, npartitions=2), C)
    np.testing.assert_allclose(lazy.compute(), fa.encode(frame, C), atol=1e-12)


def test_points_of_a_result_are_matched_by_name(frames, tmp_path):
    """Noise-aware anchors are points, in the order of the columns that they were found in."""
    frame, other = frames
    found = fa.FAS().seek(frame, 3, rng=0)
    assert found.points is not None
    assert found.column_names == tuple(frame.columns)
    expected = fa.encode(frame, found)
    np.testing.assert_allclose(fa.encode(other, found), expected, atol=1e-12)
    np.testing.assert_allclose(fa.encode(frame.to_numpy(), found), expected, atol=1e-12)
    with pytest.raises(InvalidInputError, match="column 1 is named 'z' in these data"):
        fa.encode(frame.rename(columns={"c1": "z"}), found)
    pages = [fa.report.gather(X, found, title="t", seed=0) for X in (frame, other)]
    np.testing.assert_allclose(pages[1].components, pages[0].components[:, ::-1])
    assert pages[1].shares.unexplained == pytest.approx(pages[0].shares.unexplained)


def test_rows_of_a_result_are_not_taken_from_rows_with_other_names(frames):
    frame, _ = frames
    found = fa.SPA().seek(frame, 3)
    assert found.points is None
    assert found.column_names is None
    with pytest.raises(InvalidInputError, match="these are other data"):
        fa.encode(frame.iloc[::-1], found)
    assert fa.encode(frame.to_numpy(), found).shape == (80, 3)


@pytest.mark.parametrize(
    ("known", "here", "order"),
    [
        ("abc", "abc", None),
        ("abc", "cab", [2, 0, 1]),
        ("abc", None, None),
        ("abc", "012", None),
        ("012", "210", [2, 1, 0]),
        (["450", "460"], ["450.01", "460.01"], None),
        (["2001", "2002"], ["2002", "2001"], [1, 0]),
        (["2001", "2002"], ["2002", "2003"], "no column '2001'"),
        ("abc", "abd", "no column 'c'"),
        ("aab", "aba", "column 1 is named 'b'"),
        (["nan", "1"], ["nan", "2"], "column 1"),
    ],
)
def test_names_of_columns_agree_differ_or_are_in_another_order(known, here, order):
    names = [None if each is None else list(each) for each in (known, here)]
    if isinstance(order, str):
        with pytest.raises(InvalidInputError, match=order):
            column_order(*names, "theirs", "ours")
    else:
        found = column_order(*names, "theirs", "ours")
        assert (found if found is None else found.tolist()) == order


def test_weights_that_the_type_of_the_result_cannot_hold_are_refused():
    X, C = np.array([[5e4, 1.0, 2.0], [1.0, 0.0, 1.0]]), np.eye(3) / 4
    for rows, components, out in (
        (X, C, np.zeros((2, 3), np.float16)),
        (X * 1e35, C, np.zeros((2, 3), np.float32)),
        (X.astype(np.float32), C * 1e-38, None),
        (X.astype(np.float32), C * 1e60, None),
    ):
        with pytest.raises(InvalidInputError, match="largest weight"):
            fa.encode(rows, components, out=out)
    model = fa.SeparableNMF(3, normalize=None, solver="spa").fit(C * 1e-38)
    with pytest.raises(InvalidInputError, match="largest weight"):
        model.transform(X.astype(np.float32))
    assert np.isfinite(model.transform(X)).all()
    assert fa.encode(np.zeros((2, 3), np.float32), C).tolist() == [[0.0] * 3] * 2
