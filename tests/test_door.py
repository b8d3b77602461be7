"""``open_matrix``: every kind of source becomes the same matrix, and the defaults of the interface equal NumPy."""

from __future__ import annotations

import errno
import os

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import fastanchors as fa
from fastanchors.errors import InvalidInputError, InvalidTypeError
from fastanchors.io import open_source
from fastanchors.matrix import ArrayMatrix, BudgetExceeded, MeteredMatrix, open_matrix
from fastanchors.matrix.array import all_rows

A = np.arange(1.0, 21.0).reshape(5, 4)


class Minimal(fa.RowMatrix):
    """Implements only the abstract methods of the interface."""

    shape = A.shape
    dtype = A.dtype
    is_sparse = False

    def __init__(self):
        self._cost = fa.Cost()

    @property
    def cost(self):
        return self._cost

    def rows(self, indices):
        self._cost.rows_read += len(indices)
        return A[indices]

    def blocks(self, block_rows=None):
        for start in range(0, len(A), block_rows or 2):
            yield start, self.rows(np.arange(start, min(len(A), start + (block_rows or 2))))


def sources(tmp_path):
    np.save(tmp_path / "a.npy", A)
    pd.DataFrame(A, columns=list("wxyz")).to_csv(tmp_path / "a.csv", index=False)
    fa.build(A, tmp_path / "a.store", normalize=None).close()
    return {
        "array": A,
        "list": A.tolist(),
        "sparse": sp.coo_array(A),
        "frame": pd.DataFrame(A),
        "nullable": pd.DataFrame(A).convert_dtypes(),
        "npy": tmp_path / "a.npy",
        "csv": str(tmp_path / "a.csv"),
        "store": tmp_path / "a.store",
        "sample": fa.SampleMatrix(A, normalize=None),
        "minimal": Minimal(),
    }


@pytest.mark.parametrize("kind", ["array", "list", "sparse", "frame", "nullable", "npy", "csv", "store", "sample"])
def test_every_source_gives_the_same_rows(kind, tmp_path):
    matrix = open_matrix(sources(tmp_path)[kind])
    assert matrix.shape == A.shape
    np.testing.assert_array_equal(matrix.dense_rows([3, 0]), A[[3, 0]])
    np.testing.assert_allclose(matrix.squared_norms(), (A**2).sum(axis=1), rtol=1e-14)
    np.testing.assert_allclose(matrix.dot(np.eye(4)), A, rtol=1e-14)
    assert [start for start, _ in matrix.blocks(2)] == [0, 2, 4]


@pytest.mark.parametrize("kind", ["array", "sparse", "npy", "csv"])
def test_l1_rows_sum_to_one(kind, tmp_path):
    matrix = open_matrix(sources(tmp_path)[kind], normalize="l1")
    assert matrix.normalize == "l1"
    np.testing.assert_allclose(matrix.dense_rows(np.arange(5)), A / A.sum(axis=1, keepdims=True), rtol=1e-15)


def test_the_smallest_implementation_of_the_contract_is_enough():
    np.testing.assert_array_equal(fa.encode(Minimal(), A[:2]), fa.encode(A, A[:2]))


@given(arrays(np.float64, st.tuples(st.integers(1, 30), st.integers(1, 6)), elements=st.floats(0, 9)), st.data())
def test_defaults_of_the_contract_equal_numpy(X, data):
    for matrix in (ArrayMatrix(X), ArrayMatrix(sp.csr_array(X))):
        step = data.draw(st.integers(1, len(X)))
        some = np.array(sorted(data.draw(st.sets(st.integers(0, len(X) - 1)))), dtype=np.int64)
        Q = np.eye(X.shape[1])[:2]
        np.testing.assert_allclose(matrix.project(some, Q), X[some] @ Q.T)
        np.testing.assert_allclose(matrix.transposed_dot(X), X.T @ X, atol=1e-9)
        np.testing.assert_allclose(matrix.row_sums(), X.sum(axis=1), atol=1e-12)
        sums = matrix.map_blocks(lambda start, block: (start, float(block.sum())), block_rows=step)
        assert [start for start, _ in sums] == list(range(0, len(X), step))
        np.testing.assert_allclose(sum(total for _, total in sums), X.sum(), atol=1e-9)


def test_names_of_a_frame_survive():
    frame = pd.DataFrame(A, index=list("abcde"), columns=list("wxyz"))
    matrix = open_matrix(frame)
    assert (matrix.row_names, matrix.column_names) == (list("abcde"), list("wxyz"))
    assert open_matrix(pd.DataFrame(A)).row_names is None  # numbers are places …
    assert open_matrix(pd.DataFrame(A, index=[7, 3, 9, 1, 4])).row_names == ["7", "3", "9", "1", "4"]  # … or ids
    model = fa.SeparableNMF(2).fit(frame)
    assert model.result_.names == tuple("abcde"[i] for i in model.anchors_)


@pytest.mark.parametrize("rows", [slice(2, None), slice(None, None, 2), slice(None, None, -1), [4], [1, 2, 4]])
def test_the_labels_of_a_part_of_a_frame_name_its_rows(tmp_path, rows):
    """Whatever pandas makes of them: a range if they have even steps, which is then no column of a Parquet file."""
    part = pd.DataFrame(A, columns=list("wxyz")).iloc[rows]
    part.to_parquet(tmp_path / "part.parquet")
    names = [str(label) for label in part.index]
    for source in (part, tmp_path / "part.parquet"):
        assert list(open_matrix(source).row_names) == names
        with fa.build(source, tmp_path / "s", overwrite=True) as store:
            assert list(store.row_names) == names
            assert store.shape == part.shape
    text = part.assign(who=list("abcde")[: len(part)])  # takes precedence over a range, as over 0, 1, 2, …
    if isinstance(part.index, pd.RangeIndex):
        text.to_parquet(tmp_path / "text.parquet")
        for source in (text, tmp_path / "text.parquet"):
            assert list(open_matrix(source).row_names) == text["who"].tolist()


def frames():
    """Functions that make a frame with a text column and without an index."""
    polars = pytest.importorskip("polars", reason="polars is optional")
    columns = {"w": A[:, 0], "who": list("abcde"), "x": A[:, 1], "y": A[:, 2], "z": A[:, 3]}
    return [pd.DataFrame(columns), polars.DataFrame(columns)]


def test_a_column_of_text_names_the_rows_through_every_door(tmp_path):
    for place, frame in enumerate(frames()):
        store = fa.build(frame, tmp_path / str(place))
        for matrix in (open_matrix(frame), fa.SampleMatrix(frame, None), store):
            assert (list(matrix.row_names), list(matrix.column_names)) == (list("abcde"), list("wxyz"))
        np.testing.assert_array_equal(open_matrix(frame).data, A)
        model = fa.SeparableNMF(2, random_state=0).fit(frame)
        assert model.result_.names == tuple("abcde"[i] for i in model.anchors_)
        assert list(model.feature_names_in_) == list("wxyz")
        assert model.transform(frame).shape == (5, 2)
        store.close()


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_frames_go_in_and_out_of_the_estimator(container):
    polars = pytest.importorskip("polars", reason="polars is optional")
    for frame in (pd.DataFrame(A, columns=list("wxyz"), index=list("abcde")), polars.DataFrame(A, schema=list("wxyz"))):
        model = fa.SeparableNMF(2, random_state=0).set_output(transform=container)
        out = model.fit_transform(frame)
        assert type(out).__module__.split(".")[0] == container
        assert list(out.columns) == ["separablenmf0", "separablenmf1"]
        np.testing.assert_allclose(out.to_numpy(), fa.SeparableNMF(2, random_state=0).fit_transform(A), atol=1e-12)
        np.testing.assert_allclose(model.inverse_transform(out), out.to_numpy() @ model.components_)
        if container == "pandas" and hasattr(frame, "index"):
            assert list(out.index) == list("abcde")


def test_a_lazy_frame_gives_an_error_with_advice():
    lazy = frames()[1].lazy()
    for call in (open_matrix, fa.SampleMatrix, fa.SeparableNMF(2).fit, lambda X: fa.FAS().seek(X, 2)):
        with pytest.raises(InvalidTypeError, match=r"collect\(\) it first"):
            call(lazy)


def test_a_budget_is_never_exceeded():
    matrix = MeteredMatrix(ArrayMatrix(A), budget=6)
    matrix.rows([0, 1])
    assert (matrix.left, matrix.cost.rows_read) == (4, 2)
    for read in (matrix.squared_norms, lambda: matrix.dot(np.eye(4)), lambda: list(matrix.blocks()), matrix.row_sums):
        with pytest.raises(BudgetExceeded):
            read()
    assert matrix.cost.rows_read == 2
    matrix.rows(np.arange(4))
    with pytest.raises(BudgetExceeded):
        matrix.project(np.array([1]), np.eye(4)[:1])


def test_unsupported_sources_are_refused():
    with pytest.raises(InvalidInputError, match="normalize must be 'l1' or None"):
        open_matrix(A, normalize="l2")
    with pytest.raises(InvalidTypeError, match=r"iterator.*fa\.build"):
        open_matrix(iter([A]))
    with pytest.raises(InvalidTypeError, match="'layer' is not an option for a ndarray"):
        open_matrix(A, layer="counts")
    with pytest.raises(InvalidInputError, match=r"A\[1, 2\] is negative"):
        open_matrix(np.where(A == 7, -1.0, A))
    assert open_matrix(-A, signed=True).dense_rows([0])[0, 0] == -1


def test_sparse_float32_rows_are_divided_by_sums_in_double_precision():
    D = np.random.default_rng(0).random((40, 300)).astype(np.float32)
    dense, sparse = (fa.open_matrix(form, normalize="l1") for form in (D, sp.csr_array(D)))
    np.testing.assert_array_equal(sparse.rows(np.arange(40)).toarray(), dense.rows(np.arange(40)))
    np.testing.assert_allclose(fa.open_matrix(sp.csr_array(D)).row_sums(), D.sum(axis=1, dtype=float), rtol=1e-14)
    lengths = fa.SampleMatrix(sp.csr_array(D), normalize=None).l1_norm(np.arange(40))
    np.testing.assert_allclose(lengths, D.sum(axis=1, dtype=float), rtol=1e-14)


def _stored(source, folder, **options):
    with fa.build(source, folder, normalize=None, overwrite=True, **options) as S:
        names = [None if names is None else list(names) for names in (S.row_names, S.column_names)]
        return (S.rows(np.arange(S.shape[0])), *names)


def _tables():
    """The rows of ``A`` with the names a … e and w … z, as each kind of table."""
    pa, xarray = (pytest.importorskip(library, reason="optional") for library in ("pyarrow", "xarray"))
    frame = pd.DataFrame(A, index=list("abcde"), columns=list("wxyz"))
    table = pa.Table.from_pandas(frame)
    texts = pa.table({"name": list("abcde"), **{column: frame[column].to_numpy() for column in frame}})
    array = xarray.DataArray(A, dims=("place", "band"), coords={"place": list("abcde"), "band": list("wxyz")})
    return {"table": table, "batch": table.to_batches()[0], "texts": texts, "array": array}


def test_arrow_tables_and_arrays_of_xarray_have_the_names_of_the_frame_at_every_door(tmp_path):
    frame = pd.DataFrame(A, index=list("abcde"), columns=list("wxyz"))
    fitted = fa.SeparableNMF(2, random_state=0).fit(frame)
    for X in _tables().values():
        matrix = open_matrix(X)
        assert (list(matrix.row_names), list(matrix.column_names)) == (list("abcde"), list("wxyz"))
        np.testing.assert_array_equal(matrix.rows(np.arange(5)), A)
        values, *names = _stored(X, tmp_path / "s")
        np.testing.assert_array_equal(values, A)
        assert names == [list("abcde"), list("wxyz")]
        sample = fa.SampleMatrix(X, normalize=None)
        assert (list(sample.row_names), list(sample.column_names)) == (list("abcde"), list("wxyz"))
        model = fa.SeparableNMF(2, random_state=0).fit(X)
        assert list(model.feature_names_in_) == list("wxyz")
        np.testing.assert_array_equal(model.components_, fitted.components_)
        np.testing.assert_array_equal(fitted.transform(X), fitted.transform(frame))
        assert fa.FAS().seek(X, 2, rng=0) == fa.FAS().seek(frame, 2, rng=0)
        np.testing.assert_array_equal(fa.encode(X, frame[list("zyxw")].iloc[:2]), fa.encode(frame, frame.iloc[:2]))


def test_columns_of_arrow_and_xarray_in_another_order_are_matched_or_refused():
    frame = pd.DataFrame(A, index=list("abcde"), columns=list("wxyz"))
    tables, fitted = _tables(), fa.SeparableNMF(2).fit(frame)
    turned = {"table": tables["table"].select(list("zyxw")), "array": tables["array"][:, ::-1]}
    for X in turned.values():
        np.testing.assert_array_equal(fa.encode(frame, X[:2]), fa.encode(frame, frame.iloc[:2]))
        with pytest.raises(InvalidInputError, match="feature names"):
            fitted.transform(X)


def test_an_array_of_xarray_without_coordinates_has_no_names(tmp_path):
    xarray = pytest.importorskip("xarray", reason="optional")
    plain, half = xarray.DataArray(A), xarray.DataArray(A, dims=("r", "c"), coords={"r": list("abcde")})
    for X, rows in ((plain, None), (half, list("abcde"))):
        matrix = open_matrix(X)
        assert (matrix.row_names, matrix.column_names) == (rows, None)
        assert _stored(X, tmp_path / "s")[1:] == (rows, None)
        assert _stored(iter([X[:2], X[2:]]), tmp_path / "s")[1:] == (rows, None)
        assert not hasattr(fa.SeparableNMF(2).fit(X), "feature_names_in_")


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"scale_factor": 0.5}, "is packed: its attribute scale_factor is 0.5"),
        ({"add_offset": 3}, "is packed: its attribute add_offset is 3"),
        ({"_Unsigned": "true"}, "is packed: its attribute _Unsigned is true"),
        ({"_FillValue": 7, "scale_factor": 1.0}, r"\[1, 2\] is missing: it is the _FillValue 7"),
        ({"missing_value": [99, 7]}, r"\[1, 2\] is missing: it is the missing_value 7"),
    ],
)
def test_an_array_of_xarray_that_is_still_packed_is_refused(attributes, message, tmp_path):
    xarray = pytest.importorskip("xarray", reason="optional")
    packed = xarray.DataArray(A.astype(np.int16), attrs=attributes)
    doors = [open_matrix, lambda X: fa.build(X, tmp_path / "s"), fa.SeparableNMF(2).fit, lambda X: fa.cur(X, 1)]
    for door in (*doors, lambda X: fa.build(iter([X]), tmp_path / "s"), lambda X: fa.SPA().seek(X, 2)):
        with pytest.raises(InvalidInputError, match=message):
            door(packed)
    packed.attrs = {"scale_factor": 1.0, "add_offset": 0.0, "_FillValue": -1}  # as rioxarray leaves them
    assert open_matrix(packed).dtype == np.int16


def _lost_indexes(folder, levels):
    """Tables with levels of an index that pandas has written, without its note that they are the index."""
    pa, pl = (pytest.importorskip(library, reason="optional") for library in ("pyarrow", "polars"))
    pq = pytest.importorskip("pyarrow.parquet", reason="extra io")
    columns = {column: A[:, at] for at, column in enumerate("wxyz")}
    columns |= {f"__index_level_{at}__": list(labels) for at, labels in enumerate(levels)}
    columns["w"] = columns.pop("w")  # the index is not the last column
    table = pa.table(columns)
    pq.write_table(table, folder / "lost.parquet")
    pd.DataFrame(columns).to_parquet(folder / "kept.parquet")  # with a note that the index is a range
    return {
        "table": table,
        "batch": table.to_batches()[0],
        "parquet": folder / "lost.parquet",
        "parquet of a range": folder / "kept.parquet",
        "pandas": pd.DataFrame(columns),
        "polars": pl.DataFrame(columns),
    }


@pytest.mark.parametrize("labels", [(7, 3, 9, 1, 4), (0, 1, 2, 3, 4), (0.5, 1.5, 2.5, 0.25, 4.0), "abcde"])
def test_an_index_that_pandas_has_written_is_never_data(tmp_path, labels):
    """Without the metadata of pandas the integers of ``__index_level_0__`` were a column of data."""
    names, columns = [str(label) for label in labels], list("xyzw")
    expected = pd.DataFrame(A, columns=list("wxyz"), index=list(labels))[columns]
    fitted = fa.SeparableNMF(2, random_state=0).fit(expected)
    for kind, X in _lost_indexes(tmp_path, [labels]).items():
        matrix = open_matrix(X)
        assert (list(matrix.row_names), list(matrix.column_names)) == (names, columns), kind
        np.testing.assert_array_equal(matrix.rows(np.arange(5)), expected)
        values, *found = _stored(X, tmp_path / "s")
        np.testing.assert_array_equal(values, expected)
        assert found == [names, columns], kind
        np.testing.assert_array_equal(fitted.transform(X), fitted.transform(expected))
        assert fa.FAS().seek(X, 2, rng=0) == fa.FAS().seek(expected, 2, rng=0)
        assert [str(name) for name in fa.apps.representatives(X, 2).names] == [
            str(name) for name in fa.apps.representatives(expected, 2).names
        ]
        if "parquet" not in kind:
            assert _stored(iter([X]), tmp_path / "s")[1:] == (names, columns)
            np.testing.assert_array_equal(fa.encode(expected, X), fa.encode(expected, expected))
            np.testing.assert_array_equal(fa.SampleMatrix(X, normalize=None).rows(np.arange(5)), expected)
    source = open_source(tmp_path / "lost.parquet", row_names=list("pqrst"))
    assert (source.shape, list(source.row_names)) == ((5, 4), list("pqrst"))


def test_levels_of_a_lost_index_are_pairs_and_another_index_takes_precedence(tmp_path):
    tables = _lost_indexes(tmp_path, ["uvwxy", (1, 2, 1, 2, 1)])
    for X in tables.values():
        matrix = open_matrix(X)
        assert list(matrix.row_names) == [str(pair) for pair in zip("uvwxy", (1, 2, 1, 2, 1))]
        assert list(matrix.column_names) == list("xyzw")
    both = tables["pandas"].set_axis(list("abcde"))
    both.to_parquet(tmp_path / "both.parquet")
    for X in (both, tmp_path / "both.parquet"):
        matrix = open_matrix(X)
        assert (list(matrix.row_names), list(matrix.column_names)) == (list("abcde"), list("xyzw"))


@pytest.mark.parametrize(("labels", "missing"), [((7, None, 9), "<NA>"), ((0.5, None, 2.0), "nan"), ("a c", "None")])
def test_missing_labels_of_a_lost_index_are_named_as_pandas_shows_them(tmp_path, labels, missing):
    pa, pl = (pytest.importorskip(library, reason="optional") for library in ("pyarrow", "polars"))
    pq = pytest.importorskip("pyarrow.parquet", reason="extra io")
    labels = [None if label == " " else label for label in labels]
    table = pa.table({"__index_level_0__": labels, "w": [1.0, 2.0, 3.0], "x": [2.0, 1.0, 1.0]})
    pq.write_table(table, tmp_path / "lost.parquet")
    for X in (table, pl.from_arrow(table), tmp_path / "lost.parquet"):
        assert list(open_matrix(X).row_names) == [str(labels[0]), missing, str(labels[2])]


def test_a_lost_index_in_text_tables_and_dask_frames(tmp_path):
    frame = _lost_indexes(tmp_path, [(7, 3, 9, 1, 4)])["pandas"]
    frame.columns = ["400", "500", "600", "__index_level_0__", "700"]
    for place in (frame.columns, ["__index_level_0__", "400", "500", "600", "700"]):
        frame[list(place)].to_csv(tmp_path / "a.csv", index=False)
        for options in ({}, {"row_names": "__index_level_0__"}):
            source = open_source(tmp_path / "a.csv", **options)
            np.testing.assert_array_equal(np.concatenate(list(source.blocks())), frame.iloc[:, [0, 1, 2, 4]])
            assert list(source.row_names) == ["7", "3", "9", "1", "4"]
            assert source.column_names == ["400", "500", "600", "700"]
        with pytest.raises(InvalidInputError, match="'__index_level_0__' is an index that pandas has written"):
            open_source(tmp_path / "a.csv", row_names=list("abcde"))
    dd = pytest.importorskip("dask.dataframe", reason="extra dask")
    with pytest.raises(InvalidInputError, match="'__index_level_0__' is an index that pandas has written"):
        open_matrix(dd.from_pandas(frame, npartitions=2))


def test_batches_of_a_reader_are_built_into_a_store_and_refused_where_rows_are_read_twice(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="extra io")
    table = _tables()["table"]

    def reader():
        return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=2))

    values, *names = _stored(reader(), tmp_path / "s")
    np.testing.assert_array_equal(values, A)
    assert names == [list("abcde"), list("wxyz")]
    for door in (open_matrix, fa.SeparableNMF(2).fit, lambda X: fa.FAS().seek(X, 2), lambda X: fa.encode(X, A[:1])):
        with pytest.raises(InvalidTypeError, match=r"iterator.*fa\.build"):
            door(reader())


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
def test_the_entries_of_a_mapped_file_are_checked_as_those_of_an_array(tmp_path, bad):
    """Functions that do not check themselves gave answers for missing values."""
    A = np.random.default_rng(0).random((30, 4))
    A[17, 2] = bad
    np.save(tmp_path / "a.npy", A)
    calls = [lambda A: fa.open_matrix(A), lambda A: fa.DCA().seek(A, 2), lambda A: fa.rank_curve(A, 2)]
    if not bad < 0:  # representatives may be signed
        calls.append(lambda A: fa.apps.representatives(A, 2))
    for call in calls:
        with pytest.raises(InvalidInputError, match=r"\[17, 2\] is"):
            call(A)
        with pytest.raises(InvalidInputError, match=r"\[17, 2\] is"):
            call(tmp_path / "a.npy")
    assert fa.open_matrix(tmp_path / "a.npy", checked=False).shape == (30, 4)
    if bad < 0:
        assert fa.open_matrix(tmp_path / "a.npy", signed=True).row_sums()[17] == A[17].sum()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
@pytest.mark.parametrize("kind", ["array", "sparse", "npy", "metered"])
def test_a_deferred_check_is_made_for_those_that_do_not_check(tmp_path, kind, bad):
    A = np.abs(np.sin(np.arange(1.0, 121.0))).reshape(30, 4)
    A[17, 2] = bad
    np.save(tmp_path / "a.npy", A)
    source = {"sparse": sp.csr_array(A), "npy": tmp_path / "a.npy"}.get(kind, A)

    def deferred():
        matrix = open_matrix(source, checked=False)
        return MeteredMatrix(matrix) if kind == "metered" else matrix

    solvers = [fa.DCA(), fa.QDCA(), fa.SPA(precondition="svd"), fa.AroraLP(), fa.Hottopixx(), fa.FGNSR()]
    solvers.append(fa.FAS(variant="paper"))
    calls = [open_matrix, *(lambda X, s=s: s.seek(X, 2) for s in solvers), lambda X: fa.rank_curve(X, 2)]
    if not bad < 0:
        calls += [lambda X: fa.apps.representatives(X, 2), lambda X: all_rows(X, "a test")][: 1 + (kind != "metered")]
    for call in calls:
        with pytest.raises(InvalidInputError, match=r"\[17, 2\] is"):
            call(deferred())
    if kind != "metered":
        with pytest.raises(InvalidInputError, match=r"\[17, 2\] is"):
            open_matrix(source, normalize="l1", checked=False).rows([17])


def test_a_check_of_signed_entries_is_no_check_of_their_signs():
    A = np.arange(-1.0, 11.0).reshape(4, 3)
    matrix = open_matrix(A, checked=False)
    assert open_matrix(matrix, signed=True) is matrix
    read = matrix.cost.rows_read
    assert open_matrix(matrix, signed=True).cost.rows_read == read  # not checked again
    with pytest.raises(InvalidInputError, match=r"A\[0, 0\] is negative"):
        open_matrix(matrix)
    with pytest.raises(InvalidInputError, match=r"\[0, 0\] is negative"):
        fa.DCA().seek(matrix, 2)
    assert len(fa.DCA().seek(open_matrix(A, signed=True), 2, rng=0)) == 2
    good = open_matrix(np.abs(A), checked=False)
    assert open_matrix(good, budget=2).cost.rows_read == 0  # a budget defers it further
    assert open_matrix(open_matrix(good)).cost.rows_read == 4


@pytest.mark.parametrize("refused", ["lstat", "stat"])
def test_a_folder_that_is_closed_to_the_user_is_one_error(tmp_path, monkeypatch, refused):
    np.save(tmp_path / "a.npy", np.eye(3))
    ask = getattr(os, refused)

    def closed(path, *given, **more):
        if os.fspath(path).startswith(str(tmp_path)):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return ask(path, *given, **more)

    monkeypatch.setattr(os, refused, closed)
    calls = [fa.open_matrix, fa.open, fa.io.open_source, fa.apps.read_cube, fa.apps.read_corpus]
    for call in [*calls, lambda path: fa.SPA().seek(path, 1), lambda path: fa.build(path, tmp_path / "s")]:
        with pytest.raises(fa.FastAnchorsError, match=r"(?i)permission denied"):
            call(tmp_path / "a.npy")
