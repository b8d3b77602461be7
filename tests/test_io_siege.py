"""Malicious files and matrices: one short error of the library, for any claimed size and content."""

from __future__ import annotations

import bz2
import csv
import io
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import fastanchors as fa
from fastanchors._validate import as_matrix, check_extent
from fastanchors.errors import (
    FastAnchorsError,
    InvalidInputError,
    InvalidTypeError,
    StoreError,
    TooLargeError,
    one_line,
)
from fastanchors.io import open_source, scratch
from fastanchors.io.records import record_chunks, split_fields
from fastanchors.io.scratch import TemporaryFolder
from fastanchors.io.text import read_texts

MARKET = "%%MatrixMarket matrix coordinate real general\n"
HUGE = 10**12


def whole(source, max_bytes=1 << 20):
    blocks = list(source.blocks(max_bytes))
    return sp.vstack(blocks).toarray() if source.is_sparse else np.concatenate(blocks)


# --- sparse matrices whose index arrays are wrong --------------------------------------------------------------------


def damaged(kind, part, value, at=0):
    A = getattr(sp, f"{kind}_array")(np.arange(1.0, 13).reshape(4, 3))
    getattr(A, part)[at] = value
    return A


DAMAGED = {
    "column beyond": lambda: damaged("csr", "indices", 10**8),
    "negative column": lambda: damaged("csr", "indices", -1),
    "row beyond": lambda: damaged("csc", "indices", 10**8),
    "pointer beyond": lambda: damaged("csr", "indptr", 10**6, -1),
    "pointers fall": lambda: damaged("csr", "indptr", 0, 2),
    "first pointer": lambda: damaged("csc", "indptr", 1),
    "triplet": lambda: damaged("coo", "row", 10**8),
    "negative triplet": lambda: damaged("coo", "col", -5),
    "block": lambda: damaged("bsr", "indices", 10**8),
    "list": lambda: damaged("lil", "rows", [0, 1, 10**7]),
    "short data": lambda: shortened(sp.csr_array(np.ones((4, 3)))),
}


def shortened(A):
    A.data = A.data[:5]
    return A


@pytest.mark.parametrize("case", DAMAGED)
@pytest.mark.parametrize("door", ["as_matrix", "seek", "build", "blocks"])
def test_no_kernel_sees_a_damaged_sparse_matrix(case, door, tmp_path):
    A = DAMAGED[case]()
    doors = {
        "as_matrix": lambda: as_matrix(A),
        "seek": lambda: fa.FAS(selection="spa").seek(A, 1),
        "build": lambda: fa.build(A, tmp_path / "s"),
        "blocks": lambda: whole(open_source(iter([A]))),
    }
    with pytest.raises(FastAnchorsError):
        doors[door]()


def test_a_stale_sorted_flag_is_ignored():
    A = sp.csr_array((np.array([1.0, 2.0, 3.0]), np.array([0, 1, 2]), np.array([0, 3])), shape=(1, 3))
    assert A.has_canonical_format
    A.indices[:] = [2, 0, 2]
    found = as_matrix(A)
    assert found.toarray().tolist() == [[2.0, 0.0, 4.0]]
    assert found.indices.tolist() == [0, 2]
    assert A.indices.tolist() == [2, 0, 2]


@pytest.mark.parametrize("kind", ["coo", "csr"])
def test_duplicates_of_small_integers_do_not_wrap(kind):
    values, where = np.array([200, 100, 7], np.uint8), np.array([0, 0, 1])
    A = sp.coo_array((values, (np.zeros(3, int), where)), shape=(1, 2))
    if kind == "csr":
        A = sp.csr_array((values, where, np.array([0, 3])), shape=(1, 2))
    assert as_matrix(A).toarray().tolist() == [[300, 7]]
    A = sp.coo_array((np.array([20, 10], np.uint8), (np.zeros(2, int), np.zeros(2, int))), shape=(1, 2))
    assert as_matrix(A).dtype == np.uint8


@given(st.lists(st.lists(st.integers(0, 9), max_size=6), min_size=1, max_size=5))
def test_canonical_form_is_detected_as_by_scipy(rows):
    indptr = np.cumsum([0, *map(len, rows)])
    indices = np.array([j for row in rows for j in row], dtype=np.int64)
    A = sp.csr_array((np.ones(indices.size), indices, indptr), shape=(len(rows), 10))
    expected = A.toarray()  # adds up
    found = as_matrix(A)
    assert np.array_equal(found.toarray(), expected)
    assert sp.csr_array((found.data, found.indices, found.indptr), shape=found.shape).has_canonical_format


def test_a_damaged_sparse_mat_file_does_not_end_the_process(tmp_path):
    path = tmp_path / "a.mat"
    scipy.io.savemat(path, {"S": sp.csc_array(np.arange(1.0, 49).reshape(12, 4))})
    raw = bytearray(path.read_bytes())
    at = raw.find(np.arange(3, dtype="i4").tobytes())
    raw[at : at + 4] = b"\xff\xff\xff\x7f"
    path.write_bytes(raw)
    for door in (lambda: fa.build(path, tmp_path / "s"), lambda: fa.FAS(selection="spa").seek(path, 2)):
        with pytest.raises(StoreError, match="an index near segment 0 is outside 0 … 11"):
            door()


# --- implausible sizes -----------------------------------------------------------------------------------------------


def write_market(folder):
    (folder / "a.mtx").write_text(MARKET + f"{HUGE} 3 1\n1 1 1\n")
    return folder / "a.mtx"


def write_market_columns(folder):
    (folder / "a.mtx").write_text(MARKET + f"3 {HUGE} 1\n1 1 1\n")
    return folder / "a.mtx"


def write_docword(folder):
    (folder / "docword.a.txt").write_text(f"{HUGE}\n3\n1\n1 1 1\n")
    return folder / "docword.a.txt"


def write_ldac(folder):
    (folder / "a.ldac").write_text(f"2 0:1 1:1\n1 {HUGE}:1\n")
    return folder / "a.ldac"


def write_parquet(folder):
    pa = pytest.importorskip("pyarrow", reason="extra io")
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"row": [0, 2**40], "column": [0, 1], "value": [1.0, 2.0]}), folder / "a.parquet")
    return folder / "a.parquet"


def write_zarr(folder):
    zarr = pytest.importorskip("zarr", reason="extra io")
    zarr.create_array(str(folder / "a.zarr"), shape=(10**8, 10**5), chunks=(1000, 1000), dtype="f8")
    return folder / "a.zarr"


def write_h5ad(folder):
    h5py = pytest.importorskip("h5py", reason="extra io")
    with h5py.File(folder / "a.h5ad", "w") as file:
        file.create_dataset("X", shape=(10**8, 10**5), dtype="f8", chunks=(1000, 1000))
    return folder / "a.h5ad"


def write_h5ad_whose_size_wraps(folder):
    h5py = pytest.importorskip("h5py", reason="extra io")
    with h5py.File(folder / "a.h5ad", "w") as file:
        file.create_dataset("X", shape=(2**32, 2**32), dtype="f8", chunks=(1000, 1000))
    return folder / "a.h5ad"


def write_sparse_h5ad(folder):
    h5py = pytest.importorskip("h5py", reason="extra io")
    with h5py.File(folder / "a.h5ad", "w") as file:
        group = file.create_group("X")
        group.attrs.update({"encoding-type": "csr_matrix", "shape": (HUGE, 3)})
        group.create_dataset("indptr", shape=(HUGE + 1,), dtype="i8", chunks=(1000,))
        group.create_dataset("indices", data=np.zeros(1, "i4"))
        group.create_dataset("data", data=np.ones(1))
    return folder / "a.h5ad"


def write_names_of_h5ad(folder):
    h5py = pytest.importorskip("h5py", reason="extra io")
    with h5py.File(folder / "a.h5ad", "w") as file:
        file["X"] = np.ones((3, 2))
        file.create_dataset("var", shape=(10**12,), dtype=[("index", "i8")], chunks=(1000,))
    return folder / "a.h5ad"


def write_npz(folder):
    coords = {"row": np.array([0]), "col": np.array([0]), "data": np.ones(1)}
    np.savez(folder / "a.npz", format=np.array(b"coo"), shape=np.array([HUGE, 3]), **coords)
    return folder / "a.npz"


CLAIMS = [value for name, value in sorted(globals().items()) if name.startswith("write_")]


@pytest.mark.parametrize("write", CLAIMS, ids=lambda write: write.__name__.removeprefix("write_"))
def test_a_tiny_file_that_claims_a_huge_matrix_is_refused_at_once(write, tmp_path):
    path = write(tmp_path)
    for door in (lambda: fa.build(path, tmp_path / "s"), lambda: fa.FAS(selection="spa").seek(path, 1)):
        with pytest.raises(TooLargeError, match="claims"):
            door()
    assert not (tmp_path / "s").exists()


def test_wrong_number_of_names(tmp_path):
    h5py = pytest.importorskip("h5py", reason="extra io")
    with h5py.File(tmp_path / "a.h5ad", "w") as file:
        file["X"] = np.ones((3, 2))
        file.create_dataset("obs/_index", shape=(10**12,), dtype="i8", chunks=(1000,))
    with pytest.raises(StoreError, match=r"obs has names of shape \(1000000000000,\) for 3 of them"):
        open_source(tmp_path / "a.h5ad")


def test_sparse_matrices_with_implausible_shapes():
    A = sp.coo_array((np.ones(1), (np.zeros(1, int), np.zeros(1, int))), shape=(HUGE, 3))
    for door in (as_matrix, open_source, lambda A: fa.FAS(selection="spa").seek(A, 1)):
        with pytest.raises(TooLargeError, match="claims 1,000,000,000,000 rows but holds 1 entries"):
            door(A)
    check_extent((10**9, 10**6), 10**8, "a large matrix")


@pytest.mark.parametrize(
    ("name", "text"), [("a.mtx", MARKET + f"9 9 {HUGE}\n1 1 1\n"), ("docword.a.txt", f"9\n9\n{HUGE}\n1 1 1\n")]
)
def test_more_entries_than_the_file_can_hold(name, text, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(StoreError, match=f"states {HUGE} entries, more than the file can hold"):
        open_source(tmp_path / name)


def test_indices_that_overflow(tmp_path):
    texts = {
        "a.ldac": "2 0:1 1:1\n1 99999999999999999999:1\n",
        "b.mtx": MARKET + "99999999999999999999 3 1\n1 1 1\n",
        "docword.c.txt": "99999999999999999999\n3\n1\n1 1 1\n",
        "d.hdr": "ENVI\nsamples = 99999999999999999999\nlines = 6\nbands = 4\ndata type = 4\n",
        "e.hdr": "ENVI\nsamples = 999999999999999\nlines = 999999999999999\nbands = 4\ndata type = 4\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).with_suffix(".img").write_bytes(bytes(480))
        with pytest.raises(StoreError):
            whole(open_source(tmp_path / name))


# --- .npy: every damage is a StoreError, through every entry point ---------------------------------------------------


def npy(header):
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + header.ljust(117) + b"\n"


NPY = {
    "empty": b"",
    "text": b"hello",
    "bad header": npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (2,2,}"),
    "huge": npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (9999999999999999999999, 2), }"),
    "objects": npy(b"{'descr': '|O', 'fortran_order': False, 'shape': (2, 2), }") + bytes(32),
    "negative": npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (-2, -2), }") + bytes(32),
    "truncated": npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }") + bytes(31),
}


@pytest.mark.parametrize("case", NPY)
def test_damaged_npy_files(case, tmp_path):
    path = tmp_path / "a.npy"
    path.write_bytes(NPY[case])
    for door in (lambda: fa.build(path, tmp_path / "s"), lambda: fa.FAS(selection="spa").seek(path, 1)):
        with pytest.raises(StoreError, match=r"a\.npy"):
            door()


# --- tables: records over several lines, old line endings, long cells ------------------------------------------------

CELLS = st.text(st.sampled_from('ab",\n\r x'), max_size=6)


def records(text, separator=",", size=1 << 20):
    chunks = list(record_chunks(io.BytesIO(text.encode()), "t", separator, size=size))
    lines = b"".join(chunk for _, chunk in chunks).decode().split("\n")[:-1]
    numbers = {}
    for first, chunk in chunks:
        for number, line in enumerate(chunk.decode().split("\n")[:-1], start=first):
            numbers.setdefault(number, line)
    assert [numbers[i] for i in range(1, len(lines) + 1)] == lines  # line numbers do not change
    return [split_fields(line, separator) for line in lines if line]


@given(st.lists(st.lists(CELLS, min_size=1, max_size=4), min_size=1, max_size=5), st.integers(1, 9))
def test_records_are_read_as_the_csv_module_writes_them(rows, size):
    file = io.StringIO(newline="")
    csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([["first", *row] for row in rows])
    assert records(file.getvalue(), size=size) == [["first", *row] for row in rows]


@given(st.text(st.sampled_from('ab",\n'), max_size=30))
def test_records_are_read_as_the_csv_module_reads_them(text):
    *expected, last = [row for row in csv.reader(io.StringIO(text + "\nz\n", newline="")) if row]
    if last == ["z"]:
        assert records(text) == expected
    else:  # an unclosed quote: csv reads the rest of the file as one field
        with pytest.raises(StoreError, match="never closed"):
            records(text)


def test_line_breaks_inside_quotes(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('"the\nname","width\n(cm)",b\n"two\nlines",1,2\nplain,3,4\n"a ""quoted"", one",5,6\n')
    source = open_source(path)
    assert whole(source).tolist() == [[1, 2], [3, 4], [5, 6]]
    assert list(source.row_names) == ["two\nlines", "plain", 'a "quoted", one']
    assert source.column_names == ["width\n(cm)", "b"]
    path.write_text('name,a,b\n"two\nlines",1,2\nplain,3,x\n')
    with pytest.raises(StoreError, match=r"line 4: field 2: 'x'"):
        whole(open_source(path))


def test_a_quote_inside_a_field_is_literal(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('pipe,a,b\n5" steel,1,2\n6" steel,3,4\n')
    assert list_names(path) == ['5" steel', '6" steel']


def list_names(path):
    source = open_source(path)
    whole(source)
    return list(source.row_names)


@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
def test_every_end_of_line(end, tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(end.join(["a,b", "1,2", "3,4", ""]).encode())
    assert whole(open_source(path)).tolist() == [[1, 2], [3, 4]]


def test_long_cells_and_open_quotes(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f'name,a,b\n"{"x" * 200_000}",1,2\n')
    assert list_names(path) == ["x" * 200_000]
    path.write_text(f'a,b\n"{"x" * 200_000},2\n')
    with pytest.raises(StoreError, match="line 2: a quote is opened in this line and never closed"):
        open_source(path)
    path.write_text('name,a,b\nx,1,2\ny,"1,5",3\n')
    with pytest.raises(StoreError, match=r"line 3: a value in quotes contains ','"):
        whole(open_source(path))
    path.write_text('a,b,c\n1,2,3\n"1,5",3\n')
    with pytest.raises(StoreError, match="line 3: field 1"):
        whole(open_source(path))


# --- errors are short and on one line; frames that others take -------------------------------------------------------


def test_errors_are_one_short_line():
    error = StoreError(f"cannot read \x1b[31m{'x' * 10_000}\n\udc80; give --cure")
    assert len(str(error)) < 500
    assert str(error).startswith(r"cannot read \x1b[31mxxx")
    assert str(error).endswith(r"\udc80; give --cure")
    assert str(error).isprintable()
    assert one_line("a  b\tc\u202e") == r"a b c\u202e"


def test_errors_about_many_names_are_short(tmp_path):
    np.savez(tmp_path / "a.npz", **{f"an array with a long name {i}": np.ones((2, 2)) for i in range(500)})
    with pytest.raises(InvalidInputError, match="choose one of its arrays") as raised:
        open_source(tmp_path / "a.npz")
    assert len(str(raised.value)) < 500


def test_frames_of_objects_and_of_nullable_integers(tmp_path):
    pd = pytest.importorskip("pandas", reason="extra dev")
    for kind in ("object", "Int64", "Float64", "boolean"):
        frame = pd.DataFrame({"a": [1, 0, 1], "b": [1, 1, 0]}).astype(kind)
        with fa.build(frame, tmp_path / kind) as S:
            assert S.shape == (3, 2)
            assert list(S.column_names) == ["a", "b"]
    with pytest.raises((InvalidTypeError, InvalidInputError), match=r"\[1, 0\] is (missing|NaN)"):
        fa.build(pd.DataFrame({"a": [1, None], "b": [1, 1]}, dtype="Int64"), tmp_path / "s")
    with pytest.raises(InvalidTypeError, match="column 'b' holds text, such as 'x'"):
        fa.build(pd.DataFrame({"a": [1, 2], "b": [1, "x"]}), tmp_path / "s")


# --- texts -----------------------------------------------------------------------------------------------------------


def test_compressed_texts_with_implausible_size(tmp_path):
    path = tmp_path / "a.txt.bz2"
    path.write_bytes(bz2.compress(bytes(1 << 27)))
    with pytest.raises(TooLargeError, match="unpacks to more than"):
        read_texts(path)


def test_hostile_texts(tmp_path):
    deep, long = tmp_path / "deep.json", tmp_path / "long.csv"
    deep.write_text("[" * 100_000)
    with pytest.raises(StoreError, match="not JSON"):
        read_texts(deep)
    long.write_text("text\n" + "x" * 200_000 + "\n")
    limit = csv.field_size_limit()
    assert read_texts(long).texts == ["x" * 200_000]
    assert csv.field_size_limit() == limit  # of the whole process
    (tmp_path / "a.json").write_text('{"text": ["a", "b"], "title": ["c"]}')
    with pytest.raises(StoreError, match="2 texts but 1 titles"):
        read_texts(tmp_path / "a.json", column="text", title="title")
    with pytest.raises(InvalidInputError, match="no column '²'"):
        read_texts(tmp_path / "a.json", column="²")
    for name in ("a.txt.gz", "a.txt.xz", "a.txt.bz2", "a.parquet"):
        (tmp_path / name).write_bytes(b"\x1f\x8bPAR1 nothing of the kind")
        with pytest.raises(StoreError, match="cannot read"):
            read_texts(tmp_path / name)


def test_temporary_directories_of_killed_processes_are_removed_by_the_next(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    code = "import os, signal; from fastanchors.io.scratch import TemporaryFolder as T; t = T()"
    code += "; print(t.name, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    killed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    left = Path(killed.stdout.strip())
    assert left.parent == tmp_path
    foreign = tmp_path / "fastanchors-of-somebody"
    foreign.mkdir()
    with TemporaryFolder() as living:
        assert left.exists()  # it may be about to be locked
        os.utime(left, (1, 1))
        os.utime(living, (1, 1))
        with TemporaryFolder() as other:
            assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
                [Path(living).name, Path(other).name, foreign.name]
            )
    assert list(tmp_path.iterdir()) == [foreign]


def test_a_new_temporary_directory_is_locked_by_its_process_only(tmp_path, monkeypatch):
    """One that another process locked meanwhile would have no lock of its own, and be removed later."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    new, old = tmp_path / "fastanchors-new", tmp_path / "fastanchors-old"
    for folder in (new, old):
        folder.mkdir()
        (folder / ".alive").touch()
    os.utime(old, (1, 1))
    tried, locked = [], scratch._locked
    monkeypatch.setattr(scratch, "_locked", lambda folder, *flags: tried.append(folder) or locked(folder, *flags))
    with TemporaryFolder() as own:
        assert tried == [old, Path(own)]
    assert list(tmp_path.iterdir()) == [new]


@pytest.mark.parametrize("use", [lambda path: fa.SPA().seek(path, 2), fa.io.open_source, fa.open, fa.verify])
@pytest.mark.parametrize("name", ["x" * 5000, "y/" * 3000])
def test_a_path_that_is_too_long_is_one_short_error(use, name):
    with pytest.raises(FastAnchorsError, match="longer than") as caught:
        use(name)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("change", ["update", "add"])
def test_masked_and_ragged_changes_are_refused(change):
    S = fa.SampleMatrix(np.eye(3), normalize=None)
    masked = np.ma.array([1, 2], mask=[False, True])
    for entries in ((masked, [0, 1], [5.0, 6.0]), ([0, 1], masked, [5.0, 6.0]), ([0, 1], [0, 1], masked * 1.5)):
        with pytest.raises(InvalidInputError, match=r"1 entries of .* are masked"):
            getattr(S, change)(*entries)
    with pytest.raises(InvalidInputError, match="values cannot be converted to an array"):
        getattr(S, change)([0, 1], [0, 1], [[1.0], [2.0, 3.0]])
    np.testing.assert_array_equal(S.rows([0, 1, 2]), np.eye(3))


def test_columns_of_lists_are_refused():
    pd, pa = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    lists = pd.array([[1.0], [2.0]], dtype=pd.ArrowDtype(pa.list_(pa.float64())))
    for read in (fa.io.open_source, lambda frame: fa.SPA().seek(frame, 1)):
        with pytest.raises(InvalidTypeError, match="must hold real numbers"):
            read(pd.DataFrame({"a": lists, "b": [1.0, 2.0]}))


def test_a_memoryview_is_an_array(tmp_path):
    A = np.arange(6.0).reshape(3, 2)
    with fa.build(memoryview(A), tmp_path / "s", normalize=None) as S:
        np.testing.assert_array_equal(S.rows([0, 1, 2]), A)


def test_a_build_refuses_masked_entries(tmp_path):
    A = np.random.default_rng(0).random((20, 5))
    with pytest.raises(FastAnchorsError, match="masked"):
        fa.build(np.ma.masked_array(A, A > 0.9), tmp_path / "s")
    fa.build(np.ma.masked_array(A), tmp_path / "s").close()  # nothing is masked
