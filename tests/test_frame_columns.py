"""Columns of data frames that NumPy would change: text, rounded integers, and types that it does not have."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pytest

import fastanchors as fa
from fastanchors.errors import InvalidInputError, InvalidTypeError

pd = pytest.importorskip("pandas", reason="extra dev")
pl = pytest.importorskip("polars", reason="extra dev")
pa = pytest.importorskip("pyarrow", reason="extra io")
pq = pytest.importorskip("pyarrow.parquet", reason="extra io")

BIG = 2**53 + 1  # not a float64
ROWS = np.array([[1.0, 2.0], [3.0, 1.0], [1.0, 1.0]])
DOORS = {
    "seek": lambda X: fa.SPA().seek(X, 2),
    "encode": lambda X: fa.encode(X, np.ones((1, X.shape[1]))),
    "SampleMatrix": fa.SampleMatrix,
    "fit": lambda X: fa.SeparableNMF(2).fit(X),
    "partial_fit": lambda X: fa.SeparableNMF(2).partial_fit(X),
    "transform": lambda X: fa.SeparableNMF(2).fit(ROWS).transform(X),
    "score": lambda X: fa.SeparableNMF(2).fit(ROWS).score(X),
    "unmix": lambda X: fa.apps.unmix(X, 2),
    "cur": lambda X: fa.cur(X, 1, rng=0),
    "Recommender": lambda X: fa.apps.Recommender(X, 1, rng=0),
    "representatives": lambda X: fa.apps.representatives(X, 2),
}


@pytest.mark.filterwarnings("ignore:X has feature names")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_integers_beside_floats_are_not_rounded(frame, door):
    with pytest.raises(InvalidInputError, match=f"the integer {BIG} would be rounded"):
        DOORS[door](frame({"a": [BIG, 1, 2, 0], "b": [0.5, 1.0, 2.0, 1e15]}))


def test_integers_among_objects_are_not_rounded_by_the_estimator():
    objects = np.array([[BIG, 1], [1, 2], [2, 1]], dtype=object)
    for X in (objects, pd.DataFrame(objects, columns=["a", "b"])):
        with pytest.raises(InvalidInputError, match=f"the integer {BIG} would be rounded"):
            fa.SeparableNMF(2).fit(X)
    objects[0, 0] = 10**400
    with pytest.raises(InvalidInputError, match="too large"):
        fa.SeparableNMF(2).fit(objects)


def test_nullable_integers_with_missing_values_are_not_rounded():
    with pytest.raises(InvalidInputError, match="would be rounded"):
        fa.open_matrix(pd.DataFrame({"a": [BIG, None], "b": [1, 1]}, dtype="Int64"))
    with pytest.raises(InvalidInputError, match="would be rounded"):
        fa.open_matrix(pl.DataFrame({"a": [BIG, None], "b": [1, 1]}))


@pytest.mark.parametrize("kind", ["int64", "Int64", pd.SparseDtype("int64", 0)])
def test_frames_of_integers_stay_integers(kind):
    matrix = fa.open_matrix(pd.DataFrame({"a": [BIG, 0, 2], "b": [0, 1, 1]}).astype(kind))
    assert matrix.dtype == np.int64
    assert matrix.rows([0]).tolist() == [[BIG, 0]]


@pytest.mark.filterwarnings("ignore:pandas.DataFrame with sparse columns")
def test_sparse_columns_of_integers_beside_floats():
    frame = pd.DataFrame({"x": [0.5, 1.0, 2.0], "n": pd.arrays.SparseArray([0, 3, 0])})
    assert fa.open_matrix(frame).rows([1]).tolist() == [[1.0, 3.0]]
    assert fa.SeparableNMF(2).fit(frame).components_.shape == (2, 2)
    frame["n"] = pd.arrays.SparseArray([0, BIG, 0])
    with pytest.raises(InvalidInputError, match=f"the integer {BIG} would be rounded"):
        fa.open_matrix(frame)


@pytest.mark.parametrize("kind", ["object", "string", "category"])
@pytest.mark.parametrize("door", ["seek", "SampleMatrix", "fit", "cur", "unmix"])
def test_text_is_not_taken_for_numbers(door, kind):
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "zip": pd.Series(["01234", "90210", "10001"], dtype=kind)})
    frame.index = ["x", "y", "z"]  # names of the rows, so that the text is not
    with pytest.raises(InvalidTypeError, match="column 'zip' holds text"):
        DOORS[door](frame)


@pytest.mark.parametrize("kind", [pl.String, pl.Categorical])
@pytest.mark.parametrize("door", ["seek", "SampleMatrix", "fit"])
def test_text_of_polars_is_not_taken_for_numbers(door, kind):
    frame = pl.DataFrame({"town": ["x", "y", "z"], "a": [1.0, 2.0, 3.0], "zip": ["01234", "90210", "10001"]})
    with pytest.raises(InvalidTypeError, match="column 'zip' holds text"):
        DOORS[door](frame.with_columns(pl.col("zip").cast(kind)))


def test_text_in_blocks_of_frames_is_not_taken_for_numbers(tmp_path):
    for frame in (pd.DataFrame, pl.DataFrame):
        with pytest.raises(InvalidTypeError, match="row block 0 must hold real numbers: column 'zip' holds text"):
            fa.build(iter([frame({"a": [1.0], "zip": ["01234"]})]), tmp_path / "s")


DAY = dt.datetime(2020, 1, 1)
TIMES = {
    "date": [DAY.date()] * 3,
    "datetime": [DAY] * 3,
    "time": [dt.time(1)] * 3,
    "duration": [dt.timedelta(1)] * 3,
}


@pytest.mark.parametrize("kind", TIMES)
@pytest.mark.parametrize("door", ["seek", "SampleMatrix", "fit", "cur", "unmix"])
def test_times_of_polars_are_not_taken_for_numbers(door, kind):
    """They were read as days, microseconds or nanoseconds."""
    frame = pl.DataFrame({"a": [1.0, 2.0, 3.0], "b": [3.0, 1.0, 2.0], "t": TIMES[kind]})
    with pytest.raises(InvalidTypeError, match="column 't' holds times"):
        DOORS[door](frame)


@pytest.mark.parametrize("door", ["seek", "SampleMatrix", "fit"])
@pytest.mark.parametrize("kind", ["timestamp[us][pyarrow]", "duration[us][pyarrow]", "category", "datetime64[ns, UTC]"])
def test_times_of_pandas_are_not_taken_for_numbers(door, kind):
    """Those of Arrow, and as categories, were read as microseconds or nanoseconds."""
    times = pd.Series(TIMES["duration" if "duration" in kind else "datetime"])
    frame = pd.DataFrame({"a": pd.array([1.0, 2.0, 3.0], dtype="Float64"), "t": times})
    with pytest.raises(InvalidTypeError, match="real numbers"):
        DOORS[door](frame.assign(t=times.dt.tz_localize("UTC") if "UTC" in kind else times.astype(kind)))


def test_times_in_blocks_and_bytes_of_arrow_are_not_taken_for_numbers(tmp_path):
    frame = pl.DataFrame({"a": [1.0, 2.0, 3.0], "t": TIMES["date"]})
    with pytest.raises(InvalidTypeError, match="row block 0 must hold real numbers: column 't' holds times"):
        fa.build(iter([frame]), tmp_path / "s")
    letters = pd.DataFrame({"a": [1.0], "t": pd.Series([b"1"], dtype="binary[pyarrow]")}, index=["x"])
    with pytest.raises(InvalidTypeError, match="column 't' holds text"):
        fa.open_matrix(letters)


ARROW = {
    "bytes": ([b"1", b"2", b"3"], "column 't' holds text"),
    "text": (["1", "2", "3"], "column 't' holds text"),
    "rounded": ([BIG, None, 1], f"the integer {BIG} would be rounded"),
    "missing": ([1, None, 1], r"\[1, 1\] is nan|NaN"),
    **{kind: (times, "column 't' holds times") for kind, times in TIMES.items()},
}


@pytest.mark.parametrize("kind", ARROW)
def test_columns_of_arrow_tables_are_checked_like_those_of_frames(kind, tmp_path):
    """Bytes were read as numbers, and dates beside numbers ended in an error of NumPy."""
    column, message = ARROW[kind]
    table = pa.table({"a": [1.0, 2.0, 3.0], "t": column})
    if kind == "text":
        table = table.add_column(0, "name", [["x", "y", "z"]])
    doors = [DOORS[door] for door in ("seek", "encode", "SampleMatrix", "fit")]
    for door in (
        *doors,
        *([DOORS["cur"], DOORS["unmix"], _build(tmp_path / "s")] if kind in ("bytes", *TIMES) else ()),
    ):
        with pytest.raises((InvalidInputError, InvalidTypeError), match=message):
            door(table)
    with pytest.raises((InvalidInputError, InvalidTypeError), match=message):
        fa.build(table, tmp_path / "s")


def test_applications_read_arrow_tables():
    frame = pd.DataFrame({"a": [1.0, 3.0, 1.0], "b": [2.0, 1.0, 1.0], "note": ["x", "y", "z"]})
    table = pa.Table.from_pandas(frame)
    found = fa.apps.representatives(table, 2, columns=["a", "b"])
    assert (found.names, found.columns) == (fa.apps.representatives(frame, 2, columns=["a", "b"]).names, ["a", "b"])
    texts = pa.table({"text": ["cats purr", "dogs bark", "cats and dogs"], "n": [1, 2, 3]})
    assert fa.apps.as_corpus(texts, column="text", min_df=1).counts.shape == (3, 4)
    with pytest.raises(InvalidTypeError, match=r"the frame holds texts \('text'\)"):
        fa.apps.as_corpus(texts)
    long = {"user": ["u", "u", "v"], "item": ["i", "j", "i"], "rating": [1.0, 2.0, 3.0]}
    assert fa.apps.RatingsTable.from_frame(pa.table(long)).A.toarray().tolist() == [[1.0, 2.0], [3.0, 0.0]]


def test_text_that_names_the_rows_and_objects_that_are_numbers_are_kept():
    for frame in (pd.DataFrame, pl.DataFrame):
        matrix = fa.open_matrix(frame({"zip": ["01234", "90210"], "a": [1.0, 2.0]}))
        assert (list(matrix.row_names), list(matrix.column_names)) == (["01234", "90210"], ["a"])
    numbers = pd.DataFrame({"a": [Decimal("1.5"), 2], "b": [True, 0.5], "c": pd.Categorical([3, 4])})
    assert fa.open_matrix(numbers).rows([0, 1]).tolist() == [[1.5, 1.0, 3.0], [2.0, 0.5, 4.0]]


DECIMAL = {
    "pandas": lambda values, folder: pd.DataFrame({"a": values, "b": [0.5, 1.0, 2.0]}),
    "arrow in pandas": lambda values, folder: DECIMAL["arrow"](values, folder).to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda values, folder: pl.DataFrame({"a": values, "b": [0.5, 1.0, 2.0]}),
    "arrow": lambda values, folder: pa.table({"a": values, "b": [0.5, 1.0, 2.0]}),
    "blocks": lambda values, folder: fa.build(iter([DECIMAL["pandas"](values, folder)]), folder / "s", normalize=None),
    "parquet": lambda values, folder: pq.write_table(DECIMAL["arrow"](values, folder), folder / "x.parquet"),
}


@pytest.mark.parametrize("form", DECIMAL)
def test_decimals_are_rounded_as_those_of_text_and_whole_ones_are_not(form, tmp_path):
    def opened(*values):
        made = DECIMAL[form]([Decimal(value) for value in values], tmp_path)
        return fa.open_matrix(tmp_path / "x.parquet" if form == "parquet" else made)

    texts = ("0.1", "7.123456789012345678", "3.30")
    assert opened(*texts).rows(range(3))[:, 0].tolist() == [float(text) for text in texts]
    if form != "blocks":
        assert opened("3", str(2**53), "1").rows(range(3))[:, 0].tolist() == [3, 2**53, 1]
        with pytest.raises(InvalidInputError, match=f"the integer {BIG} would be rounded"):
            opened("3", str(BIG), "1").rows(range(3))


def test_triplets_and_gaps_of_decimals(tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"row": [0, 1], "column": [1, 0], "value": [Decimal("0.1"), Decimal("2.5")]}), path)
    assert fa.open_matrix(path).rows([0, 1]).toarray().tolist() == [[0, 0.1], [2.5, 0]]
    pq.write_table(pa.table({"a": [Decimal("0.1"), None]}), path)
    with pytest.raises(InvalidInputError, match="row 1 of column 'a' is missing"):
        fa.open_matrix(path)


@pytest.mark.parametrize("kind", ["Int128", "UInt128"])
def test_integers_of_128_bits_are_named(kind, tmp_path):
    if not hasattr(pl, kind):
        pytest.skip("this polars has no such type")
    frame = pl.DataFrame({"a": [1, 2, 3], "b": [3, 1, 2]}).with_columns(pl.col("b").cast(getattr(pl, kind)))
    for door in (*(DOORS[name] for name in ("seek", "fit", "representatives", "cur", "unmix")), _build(tmp_path / "s")):
        with pytest.raises(InvalidTypeError, match=f"column 'b' is {kind}; cast it to Int64"):
            door(frame)


def _build(path):
    return lambda frame: fa.build(iter([frame]), path)


def test_weights_beyond_float64_are_refused():
    with pytest.raises(InvalidTypeError, match="weights must hold real numbers"):
        fa.FAS(weights=[10**400] * 3).seek(ROWS, 1)


@pytest.mark.parametrize("fill", [1.0, np.nan])
def test_the_estimator_reads_sparse_columns_with_another_fill_value(fill):
    frame = pd.DataFrame({"a": [1.0, 3.0, 1.0], "b": [2.0, 1.0, 1.0]})
    found = fa.SeparableNMF(2, solver="spa").fit(frame.astype(pd.SparseDtype(float, fill)))
    assert found.components_.tolist() == fa.SeparableNMF(2, solver="spa").fit(frame).components_.tolist()


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_spectra_are_matched_by_the_names_of_their_columns(frame):
    spectra = pd.DataFrame(np.random.default_rng(0).random((3, 6)), columns=list("abcdef"))
    here, there = frame(spectra), frame(spectra[list("dbafec")])
    assert fa.metrics.matched_spectral_angle(here, there).mean < 1e-15
    assert fa.metrics.matched_spectral_angle(here, there.to_numpy()).mean > 0.1  # no names to match
    with pytest.raises(InvalidInputError, match="column 0 is named 'a' in X and 'D' in Y"):
        fa.metrics.spectral_angles(here, frame(spectra[list("dbafec")].rename(columns=str.upper)))


def test_a_plot_refuses_other_rows():
    plt = pytest.importorskip("matplotlib.pyplot", reason="extra report")
    rows = fa.datasets.separable(60, 6, 3, rng=0).A
    frame = pd.DataFrame(rows, index=[f"p{i}" for i in range(60)])
    found, before = fa.SPA().seek(frame, 3), plt.get_fignums()
    with pytest.raises(InvalidInputError, match="these are other data; pass the matrix in which they were found"):
        found.plot(frame.iloc[::-1])
    assert plt.get_fignums() == before
    ax = found.plot(frame)
    assert np.array_equal(ax.lines[0].get_ydata(), rows[found.indices[0]])
    plt.close(ax.figure)


def unknown_to_pandas():
    """Columns of Arrow types that have no type of NumPy."""
    small = pa.array([1, 0, 1], pa.int8())
    yield pa.array([bytes(16)] * 3, pa.binary(16)).cast(pa.uuid()) if hasattr(pa, "uuid") else pa.array([[1]] * 3)
    yield pa.ExtensionArray.from_storage(pa.bool8(), small) if hasattr(pa, "bool8") else pa.array([[1]] * 3)
    yield pa.array([(1, 2, 3)] * 3, pa.month_day_nano_interval())
    yield pa.array([[1], [2], [3]], pa.list_view(pa.int64()))
    yield pa.array([[1], [2], [3]])
    yield pa.array([{"a": 1}] * 3)
    yield pa.array([1, 2, 3], pa.time32("s"))
    yield pa.array([b"1", b"2", b"3"], pa.binary_view())


@pytest.mark.parametrize("values", list(unknown_to_pandas()), ids=lambda values: str(values.type)[:12])
def test_columns_of_arrow_types_that_are_no_numbers_are_named(values):
    """Some were a raw NotImplementedError."""
    column = pd.arrays.ArrowExtensionArray(pa.chunked_array([values]))
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": column})
    for door in DOORS.values():
        with pytest.raises(InvalidTypeError, match="'b'"):
            door(frame)
    with pytest.raises(fa.FastAnchorsError):
        fa.VectorSampler(frame["b"])
    ratings = pd.DataFrame({"user": [0, 0, 1], "item": [0, 1, 1], "rating": column})
    with pytest.raises(InvalidTypeError, match="column 'rating' holds"):
        fa.apps.RatingsTable.from_frame(ratings)


def test_names_of_rows_may_be_string_views():
    names = pd.arrays.ArrowExtensionArray(pa.chunked_array([pa.array(["x", "y", "z"], pa.string_view())]))
    matrix = fa.open_matrix(pd.DataFrame({"name": names, "a": [1.0, 2.0, 3.0]}))
    assert list(matrix.row_names) == ["x", "y", "z"]


@pytest.mark.parametrize("values", [[[1], [2], [3]], [{"a": 1}] * 3])
def test_nested_columns_of_polars_are_named(values):
    with pytest.raises(InvalidTypeError, match=r"column 'b' holds values of type (List|Struct)"):
        fa.SPA().seek(pl.DataFrame({"a": [1.0, 2.0, 3.0], "b": values}), 1)
    ratings = pl.DataFrame({"user": [0, 0, 1], "item": [0, 1, 1], "rating": values})
    with pytest.raises(InvalidTypeError, match="column 'rating' holds"):
        fa.apps.RatingsTable.from_frame(ratings)
    wide = ratings.with_columns(rating=pl.Series([1, 2, 3], dtype=pl.Int128))
    with pytest.raises(InvalidTypeError, match="column 'rating' is Int128"):
        fa.apps.RatingsTable.from_frame(wide)


def test_scenes_of_nullable_columns():
    """They were refused, though all other functions take them."""
    frame = pd.DataFrame({"a": pd.array([1, 3, 1], "Int64"), "b": pd.array([2.0, 1.0, 1.0], "Float64")})
    found, expected = (fa.apps.unmix(scene, 2) for scene in (frame, ROWS))
    np.testing.assert_array_equal(found.endmembers, expected.endmembers)
