"""Damaged and unusual files: one error that names the file, never wrong data; and files of other programs."""

from __future__ import annotations

import gzip
import io
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp

import fastanchors as fa
from fastanchors.errors import FastAnchorsError, InvalidInputError, StoreError
from fastanchors.io import open_source

COORDINATE = b"%%MatrixMarket matrix coordinate real general\n3 4 3\n1 1 1\n2 2 2\n3 4 3\n"
DOCWORD = b"3\n4\n3\n1 1 1\n2 2 2\n3 4 3\n"


def whole(source, max_bytes=1 << 20):
    blocks = list(source.blocks(max_bytes))
    return sp.vstack(blocks).toarray() if source.is_sparse else np.concatenate(blocks)


def sparse():
    A = sp.random_array((53, 19), density=0.3, rng=np.random.default_rng(0), format="csr")
    A.data = np.ceil(A.data * 20)
    return A


@pytest.mark.parametrize(("name", "text"), [("docword.x.txt.gz", DOCWORD), ("x.mtx.gz", COORDINATE)])
def test_every_damage_of_a_compressed_text_names_the_file(tmp_path, name, text):
    path = tmp_path / name
    good = gzip.compress(text, mtime=0)
    expected = [[1, 0, 0, 0], [0, 2, 0, 0], [0, 0, 0, 3]]
    for at in range(2, len(good)):
        for damaged in (good[:at], good[:at] + bytes([good[at] ^ 0x55]) + good[at + 1 :]):
            path.write_bytes(damaged)
            try:
                assert whole(open_source(path)).tolist() == expected  # an unused byte of gzip's header
            except FastAnchorsError as error:
                assert name in str(error)  # noqa: PT017 (either outcome is right)


def test_a_truncated_source_is_an_error_of_the_command_line(tmp_path, monkeypatch, capsys):
    pytest.importorskip("click", reason="extra cli")
    from fastanchors.cli import main

    path = tmp_path / "docword.x.txt.gz"
    path.write_bytes(gzip.compress(DOCWORD)[:14])
    monkeypatch.setattr("sys.argv", ["fastanchors", "build", str(path), str(tmp_path / "s")])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code not in (0, 130)
    assert "truncated or damaged" in capsys.readouterr().err


@pytest.mark.parametrize(
    "shape",
    ["(1000000000000000000, 3)", "(-2, 3)", "(3, -2)", "(1000000000000000000000, 3)", "(2, ", "'a'", "(2.5, 3)"],
)
def test_headers_of_npy(tmp_path, shape):
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (118 - len(header) - 1) + b"\n"
    npy = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + np.arange(6.0).tobytes()
    (tmp_path / "a.npy").write_bytes(npy)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("a.npy", npy)
    for name in ("a.npy", "a.npz"):
        with pytest.raises((StoreError, InvalidInputError), match=name):
            whole(open_source(tmp_path / name))


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        ("indices", lambda x: x + 0.5, "indices must hold whole numbers, got float64"),
        ("indptr", lambda x: x.astype(float), "indptr must hold whole numbers"),
        ("indptr", lambda x: np.minimum(x, x[-1] - 5), "indices holds more than the indptr says"),
        ("indptr", lambda x: np.append(x, x[-1]), "indptr holds more than the shape says"),
        ("data", lambda x: np.append(x, 1.0), "data holds more than the indptr says"),
        ("data", lambda x: x[:-1], "data is truncated"),
        ("indices", lambda x: x.reshape(1, -1), "a.npz"),
    ],
)
@pytest.mark.parametrize("format", ["csr", "csc"])
def test_inconsistent_sparse_archives(tmp_path, part, change, message, format):
    A = sparse().asformat(format)
    parts = {key: getattr(A, key) for key in ("indptr", "indices", "data")}
    parts[part] = change(parts[part])
    np.savez(tmp_path / "a.npz", format=format.encode(), shape=A.shape, **parts)
    if parts[part].ndim == 2:  # stored as one axis in the file
        np.testing.assert_array_equal(whole(open_source(tmp_path / "a.npz")), A.toarray())
        return
    with pytest.raises(StoreError, match=message):
        whole(open_source(tmp_path / "a.npz"))


def test_unused_capacity_of_a_sparse_matrix_is_ignored():
    A = sparse()
    roomy = sp.csr_array(A.shape)
    roomy.indptr, roomy.indices, roomy.data = A.indptr, np.append(A.indices, 0), np.append(A.data, 7.0)
    np.testing.assert_array_equal(whole(open_source(roomy)), A.toarray())


def test_parquet_files_of_other_programs(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="extra io")
    pq = pytest.importorskip("pyarrow.parquet", reason="extra io")
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table([pa.array([1.0]), pa.array([2.0])], names=["a", "a"]), path)
    with pytest.raises(InvalidInputError, match=r"a\.parquet: two columns are named 'a'"):
        open_source(path)
    names = pa.array(["r0", "r1", "r0"]).dictionary_encode()
    pq.write_table(pa.table({"cell": names, "a": [1.0, 2.0, 3.0]}), path)
    source = open_source(path)
    assert whole(source).tolist() == [[1], [2], [3]]
    assert source.row_names == ["r0", "r1", "r0"]
    pq.write_table(pa.table({c: np.random.default_rng(0).random(5000) for c in "abcd"}), path, use_dictionary=False)
    data = bytearray(path.read_bytes())
    data[4:40] = bytes(range(200, 236))
    path.write_bytes(data)
    with pytest.raises(StoreError, match=r"cannot read .*a\.parquet"):
        whole(open_source(path))


def test_checksums_of_parquet_are_verified(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="extra io")
    pq = pytest.importorskip("pyarrow.parquet", reason="extra io")
    path = tmp_path / "a.parquet"
    table = pa.table({"a": np.random.default_rng(0).random(5000)})
    pq.write_table(table, path, use_dictionary=False, compression="none", write_page_checksum=True)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(StoreError, match=r"cannot read .*a\.parquet"):
        whole(open_source(path))


def test_parquet_integers_are_never_rounded(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="extra io")
    pq = pytest.importorskip("pyarrow.parquet", reason="extra io")
    path = tmp_path / "a.parquet"
    small, large = pa.array([2**53 + 1, 3]), pa.array([5, 2**63 + 1], pa.uint64())
    pq.write_table(pa.table({"a": small, "b": pa.array([7, 2**63 - 1], pa.uint64())}), path)
    source = open_source(path)
    assert (source.dtype, whole(source).tolist()) == (np.int64, [[2**53 + 1, 7], [3, 2**63 - 1]])
    pq.write_table(pa.table({"a": small, "b": large}), path)
    with pytest.raises(InvalidInputError, match="row 1 of column 'b' is 9223372036854775809, which does not fit int64"):
        whole(open_source(path))
    pq.write_table(pa.table({"a": small, "b": [0.5, 1.5]}), path)
    with pytest.raises(InvalidInputError, match="row 0 of column 'a' is 9007199254740993, which does not fit float64"):
        whole(open_source(path))
    pq.write_table(pa.table({"a": pa.array([3, 2**40]), "b": [0.5, 1.5]}), path)
    assert whole(open_source(path)).tolist() == [[3, 0.5], [2**40, 1.5]]


def test_parquet_pages_that_do_not_fit(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="extra io")
    pq = pytest.importorskip("pyarrow.parquet", reason="extra io")
    path = tmp_path / "a.parquet"
    columns = {f"c{j}": np.random.default_rng(j).random(2000) for j in range(600)}
    expected = np.column_stack(list(columns.values()))
    for names in ({}, {"name": [f"row {i}" for i in range(2000)]}):
        for rows in (2000, 300):
            pq.write_table(pa.table(names | columns), path, row_group_size=rows)
            source = open_source(path)
            assert np.array_equal(whole(source, 1 << 18), expected)  # a few columns at a time
            assert names == {} or list(source.row_names) == names["name"]
    assert fa.build(path, tmp_path / "s", memory_limit=1 << 22).shape == (2000, 600)
    columns["c599"][1234] = np.inf
    pq.write_table(pa.table(columns | {"c3": pa.array([None, *range(1999)])}), path)
    with pytest.raises(InvalidInputError, match="row 0 of column 'c3' is missing"):
        whole(open_source(path), 1 << 18)


def test_damaged_chunks(tmp_path):
    h5py = pytest.importorskip("h5py", reason="extra io")
    zarr = pytest.importorskip("zarr", reason="extra io")
    A = np.random.default_rng(0).random((300, 50))
    with h5py.File(tmp_path / "a.h5ad", "w") as file:
        file.create_dataset("X", data=A, chunks=(100, 50), compression="gzip")
    data = bytearray((tmp_path / "a.h5ad").read_bytes())
    data[len(data) // 2] ^= 0x55
    (tmp_path / "a.h5ad").write_bytes(data)
    array = zarr.create_array(str(tmp_path / "a.zarr"), shape=A.shape, chunks=(100, 50), dtype=A.dtype)
    array[:] = A
    next(path for path in (tmp_path / "a.zarr").rglob("*") if path.is_file() and "json" not in path.name).write_bytes(
        b"xx"
    )
    for name in ("a.h5ad", "a.zarr"):
        with pytest.raises(StoreError, match=f"cannot read .*{name}"):
            whole(open_source(tmp_path / name), 50_000)


def test_nullable_names_of_h5ad(tmp_path):
    h5py = pytest.importorskip("h5py", reason="extra io")
    with h5py.File(tmp_path / "a.h5ad", "w") as file:
        file["X"] = np.ones((3, 2))
        index = file.create_group("obs").create_group("_index")
        file["obs"].attrs["_index"] = "_index"
        index.attrs["encoding-type"] = "nullable-string-array"
        index["values"], index["mask"] = [b"a", b"b", b"c"], np.zeros(3, bool)
    assert open_source(tmp_path / "a.h5ad").row_names == ["a", "b", "c"]


def test_mat_73_text_and_sparse(tmp_path):
    h5py = pytest.importorskip("h5py", reason="extra io")
    path = tmp_path / "a.mat"
    cube = np.random.default_rng(0).random((4, 5, 3))
    with h5py.File(path, "w") as file:
        file["cube"], file["notes"] = cube.T, np.full((500, 1), 65, np.uint16)
        file["notes"].attrs["MATLAB_class"] = np.bytes_("char")
    np.testing.assert_array_equal(whole(open_source(path)), cube.reshape(20, 3, order="F"))
    A = sparse().tocsc()
    with h5py.File(path, "w") as file:
        for key, matrix in (("A", A), ("empty", sp.csc_array((2, 3)))):
            group = file.create_group(key)
            group.attrs["MATLAB_sparse"] = np.uint64(matrix.shape[0])
            group["jc"] = matrix.indptr.astype(np.uint64)
            if matrix.nnz:
                group["ir"], group["data"] = matrix.indices.astype(np.uint64), matrix.data
    for max_bytes in (500, 1 << 20):
        np.testing.assert_array_equal(whole(open_source(path), max_bytes), A.toarray())
        np.testing.assert_array_equal(whole(open_source(path, transpose=True), max_bytes), A.toarray().T)
    assert whole(open_source(path, variable="empty")).tolist() == [[0] * 3] * 2


def test_tables_of_other_programs(tmp_path):
    path = tmp_path / "a.TSV"
    path.write_text("a\tb\n1\t2\n")
    assert whole(open_source(path)).tolist() == [[1, 2]]
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbf1,7\r\n3,5\r\n")
    assert whole(open_source(path)).tolist() == [[1, 7], [3, 5]]
    path.write_text("id,a,b\n1_1,1,2\n1_2,3,4\n")
    source = open_source(path)
    whole(source)
    assert source.row_names == ["1_1", "1_2"]
    path.write_text("a,b\n1,2\n1_0,4\n")
    with pytest.raises(StoreError, match=r"'1_0'.* is not a number"):
        whole(open_source(path))


def test_a_bad_entry_is_named_with_its_file(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,2\n3,-4\n")
    with pytest.raises(InvalidInputError, match=r"a\.csv: A\[1, 1\] is negative"):
        fa.build(path, tmp_path / "s")
    with pytest.raises(InvalidInputError, match=r"^A\[0, 1\] is NaN"):
        fa.build(np.array([[1.0, np.nan]]), tmp_path / "s")


def test_array_market_files(tmp_path):
    path = tmp_path / "a.mtx"
    head = "%%MatrixMarket matrix array real "
    path.write_text(head + "general\n2 3\n" + "1\n" * 8)
    with pytest.raises(StoreError, match=r"a\.mtx holds more than the 6 entries of its shape"):
        whole(open_source(path))
    path.write_text(head + "general\n2 3\n" + "1\n" * 5)
    with pytest.raises(StoreError, match="1 of 6 entries are missing"):
        whole(open_source(path))
    coordinate = tmp_path / "c.mtx"
    coordinate.write_text("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 1\n2 2 1\n")
    with pytest.raises(StoreError, match="states 1 entries, the file has 2: there are more"):
        whole(open_source(coordinate))


@pytest.mark.parametrize("symmetry", ["symmetric", "skew-symmetric"])
@pytest.mark.parametrize("max_bytes", [1, 200, 1 << 20])
def test_symmetric_array_market_files(tmp_path, symmetry, max_bytes):
    path, size = tmp_path / "a.mtx", 9
    lower = np.tril(np.random.default_rng(0).random((size, size)), 0 if symmetry == "symmetric" else -1)
    full = lower + np.tril(lower, -1).T if symmetry == "symmetric" else lower - lower.T
    text = io.StringIO()
    text.write(f"%%MatrixMarket matrix array real {symmetry}\n{size} {size}\n")
    for j in range(size):
        for i in range(j + (symmetry != "symmetric"), size):
            text.write(f"{float(lower[i, j])!r}\n")
    path.write_text(text.getvalue())
    np.testing.assert_array_equal(whole(open_source(path), max_bytes), full)
    path.write_text(f"%%MatrixMarket matrix array real {symmetry}\n2 3\n1\n")
    with pytest.raises(StoreError, match="not square"):
        whole(open_source(path))
