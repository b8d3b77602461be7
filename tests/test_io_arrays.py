"""Arrays, archives and binary formats: the same matrix comes out of each, in bounded blocks, with names."""

from __future__ import annotations

import builtins
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

import fastanchors as fa
from fastanchors.errors import InvalidInputError, InvalidTypeError, MissingExtraError, StoreError
from fastanchors.io import open_source, register_object
from fastanchors.io.open import _OBJECTS
from fastanchors.io.row_grouper import RowGrouper
from fastanchors.io.row_source import block_bytes

h5py = pytest.importorskip("h5py", reason="extra io")
pd = pytest.importorskip("pandas", reason="extra dev")
pa = pytest.importorskip("pyarrow", reason="extra io")
pq = pytest.importorskip("pyarrow.parquet", reason="extra io")
zarr = pytest.importorskip("zarr", reason="extra io")


def whole(source, max_bytes=1 << 20):
    blocks = list(source.blocks(max_bytes))
    return sp.vstack(blocks).toarray() if source.is_sparse else np.concatenate(blocks)


def dense(m=37, n=11, dtype=np.float64):
    return (np.random.default_rng(0).random((m, n)) * 9).astype(dtype)


def sparse(m=53, n=19, dtype=np.float64):
    A = sp.random_array((m, n), density=0.3, rng=np.random.default_rng(0), format="csr")
    A.data = np.ceil(A.data * 20).astype(dtype)
    return A


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64, np.float32, np.float64, ">f4"])
@pytest.mark.parametrize("max_bytes", [1, 1000, 1 << 20])
def test_arrays_keep_their_type(tmp_path, dtype, max_bytes):
    A = dense(dtype=dtype)
    np.save(tmp_path / "a.npy", A)
    np.save(tmp_path / "f.npy", np.asfortranarray(A))
    np.savez_compressed(tmp_path / "a.npz", A)
    np.savez(tmp_path / "f.npz", np.asfortranarray(A))
    for source in (A, A[:, :], tmp_path / "a.npy", tmp_path / "f.npy", tmp_path / "a.npz", tmp_path / "f.npz"):
        opened = open_source(source)
        got = whole(opened, max_bytes)
        assert got.dtype == np.dtype(dtype).newbyteorder("=")
        assert opened.shape == A.shape
        np.testing.assert_array_equal(got, A)


@pytest.mark.parametrize("format", ["csr", "csc", "coo", "bsr", "dia"])
@pytest.mark.parametrize("max_bytes", [64, 5000, 1 << 20])
def test_sparse_matrices(tmp_path, format, max_bytes):
    A = sparse(dtype=np.float32)
    for compressed in (False, True):
        path = tmp_path / f"{compressed}.npz"
        sp.save_npz(path, A.asformat(format), compressed=compressed)
        for source in (A.asformat(format), path):
            opened = open_source(source)
            assert (opened.shape, opened.dtype, opened.is_sparse) == (A.shape, np.float32, True)
            np.testing.assert_array_equal(whole(opened, max_bytes), A.toarray())


def test_blocks_are_bounded():
    A, B = dense(1000, 10), sparse(2000, 50)
    for matrix in (A, B):
        sizes = [block_bytes(block) for block in open_source(matrix).blocks(4000)]
        assert len(sizes) > 5
        assert max(sizes) <= 4000
    # Tiny blocks of an iterator are joined, large ones split.
    stream = open_source([A[:700], *(A[i : i + 1] for i in range(700, 1000))])
    sizes = [block_bytes(block) for block in stream.blocks(8000)]
    assert max(sizes) <= 8000
    assert len(sizes) < 60
    assert stream.shape == (1000, 10)


def test_unsorted_and_duplicate_entries():
    A = sp.csr_array((np.array([1.0, 2, 3, 4]), np.array([2, 0, 1, 1]), np.array([0, 2, 4])), shape=(2, 3))
    (block,) = open_source(A).blocks()
    assert block.has_canonical_format
    assert block.toarray().tolist() == [[2, 0, 1], [0, 7, 0]]
    assert A.nnz == 4  # the caller's matrix is untouched


def test_iterators():
    A, B = dense(), sparse()
    np.testing.assert_array_equal(whole(open_source(iter([A[:10], A[10:]]))), A)
    np.testing.assert_array_equal(whole(open_source(B[i : i + 5] for i in range(0, 53, 5))), B.toarray())
    np.testing.assert_array_equal(whole(open_source([[1.0, 2.0], [3.0, 4.0]])), [[1, 2], [3, 4]])
    with pytest.raises(InvalidInputError, match=r"row block 1 \(at row 10\): expected 11 columns"):
        whole(open_source(iter([A[:10], A[:10, :5]])), 900)
    with pytest.raises(InvalidTypeError, match=r"row block 1 .* do not fit the first block's int64"):
        whole(open_source(iter([A[:10].astype(np.int64), A])), 900)
    with pytest.raises(InvalidInputError, match="empty"):
        open_source(iter([]))
    with pytest.raises(InvalidInputError, match="row block 1 must be two-dimensional"):
        whole(open_source(iter([A, A[0]])))


BLOCKS = {
    "continued": ((range(2), range(2, 4)), None),
    "each from 0": ((range(2), range(2)), None),
    "one row each": ((range(1), range(1, 2), range(2, 3)), None),
    "text": ((["a", "b"], ["c"]), ["a", "b", "c"]),
    "shifted": ((range(5, 7), range(2)), ["5", "6", "0", "1"]),
    "later": ((range(2), range(2, 4), [7, 9], [], range(6, 7)), ["0", "1", "2", "3", "7", "9", "6"]),
    "beside an array": ((["a"], None, ["b"]), ["a", "1", "b"]),
    "after an array": ((None, ["b"]), ["0", "b"]),
}


@pytest.mark.parametrize("kind", BLOCKS)
def test_indexes_of_blocks_name_the_rows_unless_they_count_them(kind, tmp_path):
    indexes, expected = BLOCKS[kind]
    blocks = [
        np.ones((1, 2))
        if index is None
        else pd.DataFrame(np.ones((len(index), 2)), index=pd.RangeIndex(index) if isinstance(index, range) else index)
        for index in indexes
    ]
    source = open_source(iter(blocks))
    rows = len(whole(source))
    assert (None if source.row_names is None else list(source.row_names)) == expected
    for given, found in ((None, expected), (False, None), ([f"r{i}" for i in range(rows)],) * 2):
        with fa.build(iter(blocks), tmp_path / "s", row_names=given, overwrite=True) as S:
            assert (None if S.row_names is None else list(S.row_names)) == found


def test_names_that_begin_after_the_first_shard(tmp_path):
    A = np.random.default_rng(0).random((70_000, 40))
    frame = pd.DataFrame(A)
    late = frame.iloc[60_000:].set_axis([f"r{i}" for i in range(60_000, 70_000)])
    blocks = [frame.iloc[start : start + 10_000] for start in range(0, 60_000, 10_000)]
    with fa.build(iter([*blocks, late]), tmp_path / "s", memory_limit=1 << 24, normalize=None) as S:
        assert len(S.manifest.shards) > 2
        assert list(S.row_names) == [*map(str, range(60_000)), *late.index]
        np.testing.assert_array_equal(S.rows([59_999, 60_000]), A[59_999:60_001])


def test_names(tmp_path):
    A = dense(3, 2)
    (tmp_path / "r.txt").write_text("a\nb\nc\n")
    source = open_source(A, row_names=tmp_path / "r.txt", column_names=[b"x", 7])
    whole(source)
    assert (source.row_names, source.column_names) == (["a", "b", "c"], ["x", "7"])
    with pytest.raises(InvalidInputError, match="3 rows but 2 row names"):
        whole(open_source(A, row_names=["a", "b"]))
    with pytest.raises(InvalidTypeError, match="did you mean 'row_names'"):
        open_source(A, row_name=["a"])


def test_a_data_frame_provides_names():
    pd = pytest.importorskip("pandas", reason="extra dev")
    source = open_source(pd.DataFrame({"u": [1.0, 2], "v": [3.0, 4]}, index=["a", "b"]))
    assert whole(source).tolist() == [[1, 3], [2, 4]]
    assert (source.row_names, source.column_names) == (["a", "b"], ["u", "v"])


@pytest.mark.parametrize("skew", [False, True])
def test_row_grouper_in_bounded_memory(skew):
    rng = np.random.default_rng(2)
    m, n, entries = 500, 40, 30_000
    rows = rng.integers(0, m, entries)
    if skew:
        rows = np.where(rng.random(entries) < 0.9, rows % 7, rows)  # nearly everything in one file
    columns, values = rng.integers(0, n, entries), rng.integers(1, 9, entries)
    grouper = RowGrouper(m, n, np.int64, 1 << 16, name="x")
    for start in range(0, entries, 1000):
        part = slice(start, start + 1000)
        grouper.add(rows[part], columns[part], values[part])
    folder = grouper._folder.name
    blocks = list(grouper.blocks())
    expected = sp.coo_array((values, (rows, columns)), shape=(m, n)).toarray()
    np.testing.assert_array_equal(sp.vstack(blocks).toarray(), expected)
    assert len(blocks) > 4
    assert not Path(folder).exists()


def test_npz_choice(tmp_path):
    path = tmp_path / "two.npz"
    np.savez(path, a=dense(), b=dense() + 1, c=np.arange(3))
    with pytest.raises(InvalidInputError, match="choose one of its arrays with variable=…: a, b"):
        open_source(path)
    np.testing.assert_array_equal(whole(open_source(path, variable="b")), dense() + 1)
    with pytest.raises(InvalidInputError, match="no two-dimensional array 'c'"):
        open_source(path, variable="c")


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.parquet", "a.h5ad", "a.mat"])
def test_truncated_files(tmp_path, name):
    path = tmp_path / name
    A = dense(200, 50)
    if name == "a.npy":
        np.save(path, A)
    elif name == "a.npz":
        sp.save_npz(path, sparse(500, 50))
    elif name == "a.parquet":
        pq.write_table(pa.table({f"c{j}": A[:, j] for j in range(50)}), path)
    elif name == "a.h5ad":
        write_h5ad(path, A)
    else:
        scipy.io.savemat(path, {"A": A}, do_compression=True)
    data = path.read_bytes()
    for keep in (0, 10, len(data) // 2, len(data) - 20):
        path.write_bytes(data[:keep])
        with pytest.raises(StoreError, match=name):
            whole(open_source(path))


@pytest.mark.parametrize("max_bytes", [500, 1 << 20])
def test_parquet(tmp_path, max_bytes):
    A = dense(100, 4, np.float32)
    path = tmp_path / "a.parquet"
    columns = {"cell": [f"r{i}" for i in range(100)]} | {f"c{j}": A[:, j] for j in range(4)}
    pq.write_table(pa.table(columns), path)
    source = open_source(path)
    np.testing.assert_array_equal(whole(source, max_bytes), A)
    assert source.dtype == np.float32
    assert source.row_names == columns["cell"]
    assert source.column_names == ["c0", "c1", "c2", "c3"]
    B = sparse(dtype=np.int32).tocsc().tocoo()
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"row": B.coords[0], "column": B.coords[1], "value": B.data}), path)
    source = open_source(path)
    np.testing.assert_array_equal(whole(source, max_bytes), B.toarray())
    assert source.dtype == np.int32
    assert whole(open_source(path, shape=(100, 30))).shape == (100, 30)
    with pytest.raises(StoreError, match="row index 52 is outside"):
        whole(open_source(path, shape=(50, 30)))
    assert whole(open_source(path, layout="dense")).shape == (B.nnz, 3)
    pq.write_table(pa.table({"a": [1.0, None, 2.0]}), path)
    with pytest.raises(InvalidInputError, match="row 1 of column 'a' is missing"):
        whole(open_source(path))
    pq.write_table(pa.table({"a": [1.0], "b": ["x"], "c": ["y"]}), path)
    with pytest.raises(InvalidTypeError, match="column 'c'"):
        open_source(path)


@pytest.mark.parametrize("max_bytes", [100, 1 << 20])
def test_parquet_of_pandas_has_its_index_as_row_names(tmp_path, max_bytes):
    pd = pytest.importorskip("pandas", reason="extra pandas")
    frame = pd.DataFrame(dense(6, 4), columns=list("abcd"))
    pairs = pd.MultiIndex.from_product([["x", "y"], [1, 2, 3]])
    kinds = {
        "filtered": frame.iloc[[0, 2, 5]],
        "range": frame,
        "later": frame.iloc[2:],
        "steps": frame.iloc[::2],
        "backward": frame.iloc[::-1],
        "later with text": frame.assign(label=list("uvwxyz")).iloc[2:],
        "named": frame.rename_axis("key").iloc[[1, 3, 0]],
        "text": frame.set_axis(list("uvwxyz")),
        "fractions": frame.set_axis(np.arange(6) / 2),
        "pairs": frame.set_axis(pairs),
        "dates": frame.set_axis(pd.date_range("2020-01-01", periods=6)),
        "text column": frame.assign(label=list("uvwxyz")),
        "wide": pd.DataFrame(dense(9, 200), columns=map(str, range(200))).iloc[::-1],
    }
    for kind, table in kinds.items():
        path = tmp_path / f"{kind}.parquet"
        table.to_parquet(path)
        source, expected = open_source(path), fa.open_matrix(table)
        np.testing.assert_array_equal(whole(source, max_bytes), expected.rows(np.arange(len(table))))
        names = source.row_names
        assert (None if names is None else list(names)) == expected.row_names, kind
        assert source.column_names == expected.column_names, kind
    source = open_source(tmp_path / "named.parquet", row_names=["p", "q", "r"])
    assert (source.shape, list(source.row_names)) == ((3, 4), ["p", "q", "r"])
    triplets = pd.DataFrame({"row": [0, 1, 1], "column": [0, 1, 0], "value": [5.0, 6.0, 7.0]}).iloc[[2, 0, 1]]
    triplets.to_parquet(tmp_path / "triplets.parquet")
    np.testing.assert_array_equal(whole(open_source(tmp_path / "triplets.parquet")), [[5, 0], [7, 6]])


def _indexes():
    days = pd.date_range("2020-01-01", periods=3)
    return {
        "period": days.to_period("M"),
        "interval": pd.interval_range(0, 3),
        "days": days,
        "zone": days.tz_localize("Europe/Berlin"),
        "gap": pd.DatetimeIndex([days[0], pd.NaT, days[2]]),
        "delta": pd.timedelta_range("1D", periods=3),
        "category": pd.CategoricalIndex(["a", "b", "a"]),
        "numbers": pd.Index([1.0, 2.5, np.nan]),
        "nullable": pd.Index([1, 2, None], dtype="Int64"),
        "texts": pd.Index(["a", "b", "c"]),
        "dates": pd.Index([day.date() for day in days]),
        "levels": pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)]),
        "times": pd.MultiIndex.from_arrays([["a", "b", "c"], days, days.to_period("D")]),
    }


@pytest.mark.parametrize("kind", _indexes())
def test_names_of_every_index_of_pandas_are_those_of_the_frame(tmp_path, kind):
    """A period was named by its number, an interval by a dictionary, and a missing number None."""
    frame = pd.DataFrame(np.eye(3) + 1, columns=list("abc"), index=_indexes()[kind])
    frame.to_parquet(tmp_path / "t.parquet")
    read = "import sys, json, fastanchors as fa; print(json.dumps(list(fa.open_matrix(sys.argv[1]).row_names)))"
    here = list(fa.open_matrix(tmp_path / "t.parquet").row_names)
    assert here == list(fa.open_matrix(frame).row_names)
    assert here == list(fa.open_matrix(pa.Table.from_pandas(frame)).row_names)
    if kind in ("period", "interval"):  # types of Arrow that pandas has not yet registered in another process
        found = subprocess.run([sys.executable, "-c", read, tmp_path / "t.parquet"], capture_output=True, check=True)
        assert json.loads(found.stdout) == here


def test_a_column_of_periods_in_parquet_is_not_numbers(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0], "p": pd.period_range("2020-01", periods=2, freq="M")})
    frame.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(InvalidTypeError, match="column 'p' does not hold numbers"):
        fa.open_matrix(tmp_path / "t.parquet")


def test_parquet_with_invalid_metadata_of_pandas(tmp_path):
    ranges = (
        [{"kind": "range", "start": 5, "stop": 9, "step": 1}],  # of a frame with more rows
        [{"kind": "range", "start": 5, "stop": 7, "step": 0}],
        [{"kind": "range", "start": 0.5, "stop": 2.5, "step": 1}],
        [{"kind": "range", "start": "5", "stop": "7", "step": "1"}],
        [{"kind": "range", "start": 0, "stop": 10**30, "step": 1}],
        [{"kind": "range", "start": 5}],
        [{"kind": "other", "start": 5, "stop": 7, "step": 1}],
        [{"kind": "range", "start": 5, "stop": 7, "step": 1}] * 2,
    )
    described = [json.dumps({"index_columns": each}).encode() for each in ranges]
    for text in (
        b"{",
        b"[]",
        b'{"index_columns": 3}',
        b'{"index_columns": ["absent", {}, 1]}',
        b"[" * 100_000,
        *described,
    ):
        table = pa.table({"a": [1.0, 2.0], "b": [3.0, 4.0]}).replace_schema_metadata({b"pandas": text})
        pq.write_table(table, tmp_path / "a.parquet")
        source = open_source(tmp_path / "a.parquet")
        assert (source.shape, source.row_names) == ((2, 2), None)


def write_h5ad(path, X, layers=()):
    with h5py.File(path, "w") as file:
        for key in ("X", *layers):
            if sp.issparse(X):
                group = file.create_group(key)
                group.attrs["encoding-type"] = f"{X.format}_matrix"
                group.attrs["shape"] = X.shape
                for part in ("data", "indices", "indptr"):
                    group[part] = getattr(X, part)
            else:
                file.create_dataset(key, data=X, chunks=(min(7, X.shape[0]), X.shape[1]))
        for axis, size in (("obs", X.shape[0]), ("var", X.shape[1])):
            group = file.create_group(axis)
            group.attrs["_index"] = "name"
            group["name"] = [f"{axis}{i}".encode() for i in range(size)]


@pytest.mark.parametrize("kind", ["csr", "csc", "dense"])
@pytest.mark.parametrize("max_bytes", [600, 1 << 20])
def test_h5ad(tmp_path, kind, max_bytes):
    A = sparse(dtype=np.float32)
    path = tmp_path / "a.h5ad"
    write_h5ad(path, A.toarray() if kind == "dense" else A.asformat(kind), layers=("layers/counts",))
    for options in ({}, {"layer": "counts"}):
        source = open_source(path, **options)
        np.testing.assert_array_equal(whole(source, max_bytes), A.toarray())
        assert source.dtype == np.float32
        assert source.is_sparse == (kind != "dense")
        assert source.row_names[:2] == ["obs0", "obs1"]
        assert source.column_names[-1] == "var18"
    with pytest.raises(InvalidInputError, match="its layers are: counts"):
        open_source(path, layer="raw")


@pytest.mark.parametrize(
    ("parts", "error"),
    [
        ({"codes": [0, 1, 2], "categories": [b"a", b"b"]}, "codes of no category"),
        ({"codes": [0, -2, 1], "categories": [b"a", b"b"]}, "codes of no category"),
        ({"codes": [0.0, 1.0, 0.5], "categories": [b"a", b"b"]}, "codes of no category"),
        ({"codes": [0, 1], "categories": [b"a", b"b"]}, r"names of shape \(2,\) for 3"),
        ({"values": [b"a", b"b", b"c"], "mask": [True, False]}, r"names of shape \(2,\) for 3"),
        ({"values": [b"a", b"b", b"c"], "mask": [0, 1, 2]}, "mask that does not fit"),
        ({"odd": [1, 2, 3]}, "stored as a group, which cannot be read"),
    ],
)
def test_damaged_names_of_h5ad(tmp_path, parts, error):
    write_h5ad(tmp_path / "a.h5ad", np.ones((3, 2)))
    with h5py.File(tmp_path / "a.h5ad", "a") as file:
        del file["obs/name"]
        for name, values in parts.items():
            file[f"obs/name/{name}"] = values
    with pytest.raises(StoreError, match=error):
        open_source(tmp_path / "a.h5ad")


def test_zarr(tmp_path):
    A = dense(100, 6)
    path = tmp_path / "a.zarr"
    array = zarr.create_array(str(path), shape=A.shape, chunks=(16, 3), dtype=A.dtype)
    array[:] = A
    for source in (path, array):
        np.testing.assert_array_equal(whole(open_source(source), 1000), A)
    group = zarr.open_group(str(tmp_path / "g.zarr"), mode="w")
    for key in ("u", "v"):
        group.create_array(key, shape=A.shape, dtype=A.dtype)[:] = A
    with pytest.raises(InvalidInputError, match="choose an array"):
        open_source(tmp_path / "g.zarr")
    np.testing.assert_array_equal(whole(open_source(tmp_path / "g.zarr", variable="v")), A)


@pytest.mark.parametrize(("name", "module"), [("a.parquet", "pyarrow"), ("a.h5ad", "h5py"), ("a.zarr", "zarr")])
def test_missing_extra_is_named(tmp_path, monkeypatch, name, module):
    (tmp_path / name).write_bytes(b"x")
    real = builtins.__import__

    def refuse(target, *args, **kwargs):
        if target.split(".")[0] == module:
            raise ImportError(target)
        return real(target, *args, **kwargs)

    for key in [key for key in sys.modules if key.split(".")[0] == module]:
        monkeypatch.delitem(sys.modules, key)
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtraError, match=r"fastanchors\[io\]"):
        open_source(tmp_path / name)


def test_unknown_sources(tmp_path):
    (tmp_path / "a.csx").write_text("hello")
    with pytest.raises(StoreError, match=r"did you mean \.csv"):
        open_source(tmp_path / "a.csx")
    with pytest.raises(StoreError, match=r"does not exist; did you mean .*a\.csx"):
        open_source(tmp_path / "a.csv")
    with pytest.raises(StoreError, match="did you mean 'parquet'"):
        open_source(tmp_path / "a.csx", format="parket")
    with pytest.raises(InvalidTypeError, match="cannot read a matrix from int"):
        open_source(7)
    with pytest.raises(InvalidTypeError, match="complex"):
        open_source(np.ones((2, 2), dtype=complex))
    with pytest.raises(InvalidInputError, match="empty"):
        open_source(np.ones((0, 2)))


def test_registered_objects(monkeypatch):
    class Ones:
        pass

    monkeypatch.setattr("fastanchors.io.open._OBJECTS", list(_OBJECTS))
    register_object(lambda x: isinstance(x, Ones), lambda x, *, rows=2: open_source(np.ones((rows, 2))))
    assert whole(open_source(Ones(), rows=3)).shape == (3, 2)


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8"])
def test_triplets_of_parquet_with_every_type_of_index(tmp_path, dtype):
    """Unsigned row numbers, as polars writes them, were refused."""
    rows, columns = np.arange(100).repeat(2)[::-1], np.tile([1, 120], 100)
    table = {"row": rows.astype(dtype), "column": columns.astype(dtype), "value": np.arange(200.0)}
    pq.write_table(pa.table(table), tmp_path / "t.parquet", row_group_size=30)
    expected = np.zeros((100, 121))
    expected[rows, columns] = np.arange(200.0)
    source = open_source(tmp_path / "t.parquet")
    np.testing.assert_array_equal(sp.vstack(list(source.blocks(1000))).toarray(), expected)


@pytest.mark.parametrize("kind", ["string", "large_string", "string_view", "dictionary"])
def test_every_kind_of_text_names_the_rows_of_parquet(tmp_path, kind):
    """Views of strings, the text of polars as an Arrow table, were refused."""
    names = pa.array(["a", "b"])
    try:
        names = names.dictionary_encode() if kind == "dictionary" else names.cast(getattr(pa, kind)())
        pq.write_table(pa.table({"who": names, "x": [1.0, 2.0]}), tmp_path / "t.parquet")
    except pa.ArrowNotImplementedError:
        pytest.skip("this version of Arrow cannot write views of strings")
    assert list(fa.open_matrix(tmp_path / "t.parquet").row_names) == ["a", "b"]


@pytest.mark.parametrize("kind", ["pandas", "arrow"])
def test_blocks_with_names_keep_their_columns_apart(kind, tmp_path):
    """Later blocks with the same columns in another order were read by position, and appended in the wrong columns."""
    pd = pytest.importorskip("pandas", reason="extra io")
    make = pd.DataFrame if kind == "pandas" else pa.record_batch
    one, other = make({"a": [1.0, 2.0], "b": [0.5, 0.5]}), make({"b": [0.5, 0.5], "a": [1.0, 2.0]})
    source = open_source(iter([one, one]))
    assert list(source.column_names) == ["a", "b"]
    np.testing.assert_array_equal(whole(source), [[1, 0.5], [2, 0.5]] * 2)
    with pytest.raises(InvalidInputError, match="row block 1 has the column 'b' where the first block has 'a'"):
        whole(open_source(iter([one, other])))
    with fa.build(iter([one]), tmp_path / "s") as S:
        S.append(iter([other]))
        np.testing.assert_array_equal(S.raw_rows([2, 3]), [[1, 0.5], [2, 0.5]])
    assert open_source(iter([one]), column_names=["x", "y"]).column_names == ["x", "y"]


@pytest.mark.parametrize("version", [2, 3])
def test_zarr_arrays_of_the_cf_conventions_are_unpacked(tmp_path, version):
    """As xarray writes them: the offset was lost, and a missing value was read as 65535."""
    packed = np.arange(60, dtype=np.uint16).reshape(12, 5)
    fill = {"fill_value": 65535} if version == 2 else {}
    attributes = {"scale_factor": 0.5, "add_offset": -10.0}
    attributes |= {"_ARRAY_DIMENSIONS": ["t", "b"]} if version == 2 else {"_FillValue": 65535}
    options = {"shape": packed.shape, "chunks": (4, 5), "dtype": packed.dtype, "zarr_format": version, **fill}
    array = zarr.create_array(str(tmp_path / "a.zarr"), **options)
    array[:] = packed
    array.attrs.update(attributes)
    source = open_source(tmp_path / "a.zarr")
    assert source.dtype == np.float64
    np.testing.assert_array_equal(whole(source), packed * 0.5 - 10)
    array[7, 2] = 65535
    with pytest.raises(InvalidInputError, match=r"A\[7, 2\] is missing: it is the fill value 65535"):
        whole(open_source(tmp_path / "a.zarr"))


@pytest.mark.parametrize("kind", ["zarr", "h5"])
@pytest.mark.parametrize(
    ("facts", "error"),
    [
        ({"_FillValue": -2}, None),
        ({"_FillValue": -6}, r"A\[1, 0\] is missing: it is the fill value 250"),
        ({"missing_value": [7, 6]}, r"A\[1, 2\] is missing"),
        ({"scale_factor": 0}, "its scale_factor is 0"),
        ({"add_offset": "10"}, "its add_offset is '10', which is not one finite number"),
    ],
)
def test_unsigned_tables_in_signed_types(tmp_path, kind, facts, error):
    """200 was read as −56, and with an offset without any error."""
    h5py = pytest.importorskip("h5py", reason="extra io")
    rows = np.array([[1, 200, 3], [250, 5, 6]], np.uint8)
    path = tmp_path / f"a.{kind}"
    if kind == "h5":
        with h5py.File(path, "w") as file:
            file["v"] = rows.view(np.int8)
            file["v"].attrs.update({"_Unsigned": "true", **facts})
    else:
        zarr.create_array(str(path), data=rows.view(np.int8)).attrs.update({"_Unsigned": "true", **facts})
    if error is None:
        source = open_source(path)
        assert source.dtype == np.uint8
        np.testing.assert_array_equal(whole(source), rows)
    else:
        with pytest.raises(InvalidInputError, match=error):
            whole(open_source(path))


def test_fill_values_of_zarr_that_are_no_numbers_or_not_used_change_nothing(tmp_path):
    rows = np.arange(12.0).reshape(4, 3)
    array = zarr.create_array(str(tmp_path / "a.zarr"), data=rows)  # its fill value is 0, of chunks that are not stored
    np.testing.assert_array_equal(whole(open_source(tmp_path / "a.zarr")), rows)
    for value in ("AAAAAAAA+H8=", "none", [1, 2], {"a": 1}):  # NaN as xarray writes it, and what is no number
        array.attrs["_FillValue"] = value
        np.testing.assert_array_equal(whole(open_source(tmp_path / "a.zarr")), rows)
    array.attrs["_FillValue"] = "AAAAAAAAJEA="  # 10.0 as xarray writes it
    with pytest.raises(InvalidInputError, match=r"A\[3, 1\] is missing"):
        whole(open_source(tmp_path / "a.zarr"))


def test_an_array_in_a_group_of_a_zarr_group_is_read_by_its_path(tmp_path):
    rows = np.arange(12.0).reshape(4, 3)
    group = zarr.open_group(str(tmp_path / "g.zarr"), mode="w")
    group.create_group("sub").create_array("c", data=rows)
    np.testing.assert_array_equal(whole(open_source(tmp_path / "g.zarr", variable="sub/c")), rows)
    for absent in ("sub/d", "sub", "other/c"):
        with pytest.raises(InvalidInputError, match=f"has no array '{absent}'; choose one by variable"):
            open_source(tmp_path / "g.zarr", variable=absent)


def test_a_table_of_an_hdf5_file_is_read(tmp_path):
    """It was refused: "choose a cube with variable=…; it has: none"."""
    h5py = pytest.importorskip("h5py", reason="extra io")
    rows = np.arange(12, dtype=np.int16).reshape(4, 3)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["group/d"] = rows
        file["group/d"].attrs["add_offset"] = 1.5
    for variable in (None, "d", "group/d"):
        np.testing.assert_array_equal(whole(open_source(tmp_path / "a.h5", variable=variable)), rows + 1.5)
    with h5py.File(tmp_path / "a.h5", "a") as file:
        file["e"] = rows
    with pytest.raises(InvalidInputError, match="choose a table with variable=…; it has: e 4×3, group/d 4×3"):
        open_source(tmp_path / "a.h5")
    np.testing.assert_array_equal(whole(open_source(tmp_path / "a.h5", variable="e")), rows)


def test_a_folder_of_parquet_files_is_one_error(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow", reason="extra io")
    for folder in ("parts", "parts.parquet"):
        (tmp_path / folder).mkdir()
        pandas.DataFrame({"a": [1.0, 2.0]}).to_parquet(tmp_path / folder / "part.0.parquet")
        with pytest.raises(StoreError, match="is a directory of files; build a store from the first file"):
            open_source(tmp_path / folder)


def test_zarr_groups_cubes_and_nested_arrays_are_named_in_errors(tmp_path):
    A = dense(6, 4)
    path = tmp_path / "g.zarr"
    group = zarr.open_group(str(path), mode="w")
    group["cube"] = A.reshape(3, 2, 4)
    group.create_group("inner")["A"] = A
    zarr.save_array(str(tmp_path / "cube.zarr"), A.reshape(3, 2, 4))
    zarr.save_array(str(tmp_path / "a.zarr"), A)
    np.testing.assert_array_equal(whole(open_source(path, variable="inner/A")), A)
    for source, options, error, words in (
        (path, {}, InvalidInputError, r"g\.zarr: choose an array with two axes .* has: cube 3×2×4, inner/A 6×4$"),
        (path, {"variable": "A"}, InvalidInputError, r"g\.zarr has no array 'A'; .* has: cube 3×2×4, inner/A 6×4$"),
        (path, {"variable": "inner"}, InvalidInputError, r"g\.zarr has no array 'inner'"),
        (path, {"variable": "cube"}, InvalidInputError, r"zarr: cube has the shape \(3, 2, 4\); .* reshape it"),
        (tmp_path / "cube.zarr", {}, InvalidInputError, r"cube\.zarr has the shape \(3, 2, 4\); .* unmix"),
        (tmp_path / "a.zarr", {"variable": "A"}, InvalidInputError, r"a\.zarr is one array and has no variable 'A'"),
        (group, {}, InvalidTypeError, "is a group of arrays; pass one of them, such as .* it has 'cube', 'inner'"),
    ):
        with pytest.raises(error, match=words):
            open_source(source, **options)


@pytest.mark.parametrize("library", ["zarr", "h5py"])
def test_a_group_of_arrays_is_no_matrix(tmp_path, library):
    module = pytest.importorskip(library, reason="extra io")
    group = module.open_group(str(tmp_path / "g"), mode="w") if library == "zarr" else module.File(tmp_path / "g", "w")
    group["A"] = dense(6, 4)
    for call in (open_source, lambda X: fa.FAS().seek(X, 2), fa.SeparableNMF(2).fit, lambda X: fa.apps.unmix(X, 2)):
        with pytest.raises(InvalidTypeError, match=r"is a group of arrays; pass one of them, .* it has 'A'"):
            call(group)


def test_python_objects_beside_a_matrix(tmp_path):
    """Names that pandas keeps as objects made a file unreadable, though nobody asked for them."""
    X = np.arange(20.0).reshape(5, 4)
    np.savez(tmp_path / "a.npz", X=X, names=np.array(list("abcd"), object), more=np.array([["a"]], object))
    for options in ({}, {"variable": "X"}):
        np.testing.assert_array_equal(whole(open_source(tmp_path / "a.npz", **options)), X)
    with pytest.raises(StoreError, match="'more' holds Python objects"):
        open_source(tmp_path / "a.npz", variable="more")
    np.savez(tmp_path / "b.npz", more=np.array([["a"]], object))
    with pytest.raises(StoreError, match="'more' holds Python objects"):
        open_source(tmp_path / "b.npz")


def test_layouts_of_other_packages_are_no_matrix(tmp_path):
    """The positions of the entries, or the columns of one type, were read as the matrix."""
    coords, data = np.array([[0, 1, 4], [1, 0, 3]]), np.ones(3)
    np.savez(tmp_path / "a.npz", data=data, coords=coords, shape=np.array([5, 4]), fill_value=np.array(0.0))
    with pytest.raises(InvalidInputError, match="sparse array of the package sparse"):
        open_source(tmp_path / "a.npz")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["df/block0_values"], file["df/block1_values"] = dense(5, 6), np.ones((5, 2), int)
    with pytest.raises(InvalidInputError, match="pandas wrote as several tables"):
        open_source(tmp_path / "a.h5")
    np.testing.assert_array_equal(whole(open_source(tmp_path / "a.h5", variable="block0_values")), dense(5, 6))
