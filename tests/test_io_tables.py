"""Tables in memory are read in slices of rows, with the values, names and errors of the whole table."""

from __future__ import annotations

import numpy as np
import pytest

import fastanchors as fa
from fastanchors.errors import InvalidInputError, InvalidTypeError
from fastanchors.io import open_source
from fastanchors.io.arrays import from_array
from fastanchors.matrix.frames import labelled

pd = pytest.importorskip("pandas", reason="extra dev")
pa = pytest.importorskip("pyarrow", reason="extra io")
pl = pytest.importorskip("polars", reason="extra dev")
xr = pytest.importorskip("xarray", reason="extra dev")

COLUMNS = {"a": np.arange(9) % 4, "b": np.arange(9) / 4, "c": np.arange(9, dtype=np.uint8)}
PLAIN = pd.DataFrame(COLUMNS)
TEXT = PLAIN.assign(label=list("stuvwxyzz"))
TABLES = {
    "two types": PLAIN,
    "integers": PLAIN[["a", "c"]],
    "truths": PLAIN.assign(d=PLAIN.a > 2),
    "only truths": PLAIN[["a", "c"]] > 2,
    "single": PLAIN.astype(np.float32),
    "half": PLAIN.astype(np.float16),
    "nullable": PLAIN.astype({"a": "Int64", "c": "UInt8"}),
    "whole nullable": PLAIN[["a", "c"]].astype({"a": "Int64", "c": "UInt8"}),
    "signs": pd.DataFrame({"a": np.arange(9), "b": np.arange(9, dtype=np.uint64)}),
    "text": TEXT,
    "text first": TEXT[["label", "a", "b"]],
    "index": TEXT.set_index("label"),
    "levels": TEXT.set_index(["label", "c"]),
    "level column": PLAIN.rename(columns={"c": "__index_level_0__"}),
    "range": PLAIN[2:],
    "steps": PLAIN[::2],
    "backward": PLAIN[::-1],
    "numbered": PLAIN.set_axis([3, 5, 8], axis=1),
    "pairs": PLAIN.set_axis(pd.MultiIndex.from_tuples([("x", 1), ("x", 2), ("y", 1)]), axis=1),
    "categories": PLAIN.astype({"a": "category"}),
    "objects": PLAIN.astype(object),
    "doubled": PLAIN.set_axis(["a", "b", "a"], axis=1),
    "arrow": pa.Table.from_pandas(PLAIN),
    "arrow text": pa.Table.from_pandas(TEXT),
    "arrow index": pa.Table.from_pandas(TEXT.set_index("label")),
    "arrow range": pa.Table.from_pandas(PLAIN[2:]),
    "arrow levels": pa.Table.from_pandas(TEXT.set_index(["label", "c"])),
    "arrow pairs": pa.Table.from_pandas(PLAIN.set_axis(pd.MultiIndex.from_tuples([(0, 1), (0, 2), (1, 1)]), axis=1)),
    "arrow chunks": pa.concat_tables([pa.table(COLUMNS), pa.table(COLUMNS)]),
    "batch": pa.RecordBatch.from_pandas(TEXT[2:]),
    "polars": pl.DataFrame(COLUMNS),
    "polars text": pl.DataFrame({"label": list("stuvwxyzz"), **COLUMNS}),
    "polars level": pl.DataFrame({**COLUMNS, "__index_level_0__": list("stuvwxyzz")}),
    "polars truths": pl.DataFrame({**COLUMNS, "d": [True, False, True] * 3}),
    "named array": xr.DataArray(PLAIN.to_numpy(), dims=("x", "y"), coords={"x": list("stuvwxyzz"), "y": list("abc")}),
    "array": xr.DataArray(PLAIN.to_numpy(), dims=("x", "y")),
}


@pytest.mark.parametrize("kind", TABLES)
def test_slices_of_a_table_are_those_of_its_array(kind):
    values, row_names, column_names = labelled(TABLES[kind])
    expected = from_array(values)
    for size in (1, 200, 1 << 20):
        source = open_source(TABLES[kind])
        blocks = list(source.blocks(size))
        assert (source.dtype, source.shape) == (expected.dtype, expected.shape)
        np.testing.assert_array_equal(np.concatenate(blocks), np.concatenate(list(expected.blocks())))
        assert source.row_names == row_names
        assert source.column_names == column_names
        assert len(blocks) > 1 or size > 1
    source = open_source(TABLES[kind], row_names=None, column_names=list(map(str, range(source.shape[1]))))
    assert source.row_names is None
    assert source.column_names[0] == "0"


def late(value, kind=None):
    """A column whose last of many numbers is ``value``."""
    return pd.Series([1] * 80_000 + [value], dtype=kind)


FAULTY = {
    "missing": ({"a": late(None, "Int64"), "b": late(2)}, InvalidInputError, r"A\[80000, 0\] is NaN"),
    "negative": ({"a": late(-3), "b": late(0.5)}, InvalidInputError, r"A\[80000, 0\] is negative"),
    "rounded": ({"a": late(2**53 + 1), "b": late(0.5)}, InvalidInputError, f"the integer {2**53 + 1} would be rounded"),
}


@pytest.mark.parametrize("library", ["pandas", "arrow", "polars"])
@pytest.mark.parametrize("kind", FAULTY)
def test_faults_of_later_slices_are_named(tmp_path, kind, library):
    columns, error, message = FAULTY[kind]
    table = pd.DataFrame(columns)
    if library != "pandas":
        table = pa.Table.from_pandas(table) if library == "arrow" else pl.from_pandas(table)
    with pytest.raises(error, match=message):
        fa.build(table, tmp_path / "s", memory_limit=1 << 22, sidecars=())
    assert not list(tmp_path.iterdir())


def test_places_of_missing_entries_count_all_rows():
    values = np.ones((9, 2))
    values[7, 1] = -9
    array = xr.DataArray(values, dims=("x", "y"), attrs={"_FillValue": -9.0})
    with pytest.raises(InvalidInputError, match=r"the matrix\[7, 1\] is missing"):
        list(open_source(array).blocks(1))
    truths = pa.table({"a": [True] * 8 + [None], "b": [True] * 9})
    with pytest.raises(InvalidTypeError, match=r"A\[8, 0\] is missing"):
        list(open_source(truths).blocks(1))
