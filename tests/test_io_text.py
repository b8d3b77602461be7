"""Text formats: Matrix Market, tables, bags of words; every mistake is named with its line."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import fastanchors as fa
from fastanchors.errors import GuessWarning, InvalidInputError, InvalidTypeError, StoreError
from fastanchors.io import open_source
from fastanchors.io.numbers import line_chunks, parse_numbers
from fastanchors.io.records import record_chunks
from fastanchors.io.text import read_texts


def whole(source, max_bytes=1 << 20):
    blocks = list(source.blocks(max_bytes))
    return sp.vstack(blocks).toarray() if source.is_sparse else np.concatenate(blocks)


def random_sparse(m, n, density=0.2, seed=0, dtype=float):
    A = sp.random_array((m, n), density=density, rng=np.random.default_rng(seed))
    A.data = np.ceil(A.data * 50)
    return A.astype(dtype)


@given(
    st.lists(
        st.one_of(
            st.floats(allow_nan=False), st.integers(-(10**20), 10**20), st.floats(0, 1).map(lambda x: round(x, 4))
        ),
        min_size=1,
        max_size=30,
    )
)
def test_numbers_are_correctly_rounded(values):
    text = (" ".join(repr(value) for value in values) + "\n").encode()
    numbers = parse_numbers(text, name="t", first_line=1)
    assert numbers.counts.tolist() == [len(values)]
    assert numbers.values.tolist() == [float(repr(value)) for value in values]


def test_numbers_strict_tables_and_errors():
    numbers = parse_numbers(b'1, 2,3\r\n4,5 ,"6"\n', separator=",", strict=True, name="t", first_line=1)
    assert numbers.values.tolist() == [1, 2, 3, 4, 5, 6]
    for text, line, what in (
        (b"1,2\n3,,4\n", 8, "field 2: the value is missing"),
        (b"1,2\n3,\n", 8, "field 2: the value is missing"),
        (b"1,2\n3,x1\n", 8, "field 2: 'x1' is not a number"),
        (b",2\n", 7, "field 1: the value is missing"),
        (b"1 2,3\n", 7, "field 1: '1 2' is not a number"),
        (b"1,1e\n", 7, "'1e'"),
        (b"1,--3\n", 7, "'--3'"),
    ):
        with pytest.raises(StoreError, match=f"t, line {line}: .*{what}"):
            parse_numbers(text, separator=",", strict=True, name="t", first_line=7)


@pytest.mark.parametrize("line", [b",", b",,", b"1,\r,", b",\r", b'"",', b"1,,,,,,"])
def test_tables_of_empty_fields(line):
    with pytest.raises(StoreError, match=r"line 2: field [123]: "):
        parse_numbers(b"1,2,3\n" + line * 100_000 + b"\n", separator=",", strict=True, name="x", first_line=1)


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_line_chunks_keep_lines_whole(tmp_path, size):
    path = tmp_path / "x"
    text = b"a\n\nbbb\ncccccccccc\nlast"
    path.write_bytes(text)
    with open(path, "rb") as file:
        chunks = list(line_chunks(file, "x", 1, size))
    assert b"".join(chunk for _, chunk in chunks) == text + b"\n"
    assert all(chunk.endswith(b"\n") for _, chunk in chunks)
    lines = [1]
    for _, chunk in chunks:
        lines.append(lines[-1] + chunk.count(b"\n"))
    assert [line for line, _ in chunks] == lines[:-1]


@pytest.mark.parametrize("max_bytes", [1 << 12, 1 << 30])
@pytest.mark.parametrize("order", ["csr", "csc", "shuffled"])
def test_mtx_any_order(tmp_path, order, max_bytes):
    A = random_sparse(300, 70, 0.3)
    coo = A.tocsc().tocoo() if order == "csc" else A.tocsr().tocoo()
    if order == "shuffled":
        p = np.random.default_rng(1).permutation(coo.nnz)
        coo = sp.coo_array((coo.data[p], (coo.coords[0][p], coo.coords[1][p])), shape=A.shape)
    path = tmp_path / "a.mtx"
    lines = [f"{i + 1} {j + 1} {v}" for i, j, v in zip(*coo.coords, coo.data)]
    path.write_text("\n".join(["%%MatrixMarket matrix coordinate real general", "% c", f"300 70 {coo.nnz}", *lines]))
    source = open_source(path)
    assert source.shape == (300, 70)
    assert source.is_sparse
    np.testing.assert_array_equal(whole(source, max_bytes), A.toarray())
    np.testing.assert_array_equal(whole(source, max_bytes), A.toarray())  # a file can be read again


@pytest.mark.parametrize(
    ("matrix", "symmetry"),
    [
        (sp.coo_array(np.array([[1, 2], [2, 0]])), "symmetric"),
        (sp.coo_array(np.array([[0.5, 2], [0, 0.25]])), "general"),
        (np.arange(12.0).reshape(4, 3), "general"),
        (np.arange(12).reshape(4, 3), "general"),
    ],
)
def test_mtx_as_scipy_writes_it(tmp_path, matrix, symmetry):
    path = tmp_path / "a.mtx"
    scipy.io.mmwrite(path, matrix, symmetry=symmetry)
    path.with_suffix(".mtx.gz").write_bytes(gzip.compress(path.read_bytes()))
    expected = matrix.toarray() if sp.issparse(matrix) else matrix
    for p in (path, path.with_suffix(".mtx.gz")):
        source = open_source(p)
        got = whole(source)
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)


def test_mtx_pattern_and_skew(tmp_path):
    path = tmp_path / "a.mtx"
    path.write_text("%%MatrixMarket matrix coordinate pattern general\n2 2 2\n1 2\n2 1\n")
    assert whole(open_source(path)).tolist() == [[0, 1], [1, 0]]
    path.write_text("%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 1\n2 1 3\n")
    assert whole(open_source(path)).tolist() == [[0, -3], [3, 0]]


@pytest.mark.parametrize("layout", ["coordinate", "array"])
def test_mtx_skew_entries_are_never_wrapped(tmp_path, layout):
    path = tmp_path / "a.mtx"

    def read(kind, value, **options):
        entries = f"2 2 1\n2 1 {value}\n" if layout == "coordinate" else f"2 2\n{value}\n"
        path.write_text(f"%%MatrixMarket matrix {layout} {kind} skew-symmetric\n{entries}")
        return fa.build(path, tmp_path / "a.store", normalize=None, overwrite=True, **options)

    for kind, value, options in [
        ("pattern", "", {}),
        ("unsigned-integer", "3", {}),
        ("integer", "3", {"dtype": "uint8"}),
        ("integer", "-128", {"dtype": "int8"}),
    ]:
        with pytest.raises(StoreError, match=r"line \d: (a pattern|.*both signs|value 128 does not fit)"):
            read(kind, value, **options)
    assert read("integer", "-127", dtype="int8")[0, 1] == 127


HEADER = "%%MatrixMarket matrix coordinate integer general\n2 3 2\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("%%MatrixMarket tensor\n", "line 1"),
        ("%%MatrixMarket matrix coordinate complex general\n1 1 1\n", "line 1: .*complex"),
        ("%%MatrixMarket matrix coordinate real general\n% only comments\n", "line 3: the file ends inside its header"),
        ("%%MatrixMarket matrix coordinate real general\n1 x 1\n", "line 2: expected 3 sizes"),
        (HEADER + "1 1 1\n", "states 2 entries, the file has 1"),
        (HEADER + "1 1 1\n3 1 1\n", r"line 4: row 3 is not a whole number in 1 … 2"),
        (HEADER + "1 1 1\n\n1 0 1\n", r"line 5: column 0"),
        (HEADER + "1 1 1\n1 2\n", "line 4: expected 3 numbers, got 2"),
        (HEADER + "1 1 1\n1 2 0.5\n", "line 4: value 0.5 does not fit type int64"),
        (HEADER.replace("general", "symmetric") + "1 1 1\n1 3 1\n", "line 2: symmetric, but not square: 2 × 3"),
        (HEADER + "1 1 1\n1 2 oops\n", "line 4: field 3: 'oops' is not a number"),
    ],
)
def test_invalid_mtx_files(tmp_path, text, message):
    path = tmp_path / "a.mtx"
    path.write_text(text)
    with pytest.raises(StoreError, match=message) as caught:
        whole(open_source(path))
    assert str(path) in str(caught.value)


def test_truncated_gzip(tmp_path):
    path = tmp_path / "a.csv.gz"
    data = gzip.compress(b"a,b\n" + b"1,2\n" * 100_000)
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(StoreError, match=r"a.csv.gz, line .*truncated"):
        whole(open_source(path))


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz"])
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("header", [False, True])
def test_tables(tmp_path, suffix, named, header):
    rng = np.random.default_rng(0)
    A = rng.random((57, 5))
    mark = "\t" if suffix == ".tsv" else ","
    lines = [
        mark.join(([f'"r, {i}"' if i % 2 else f"r{i}"] if named else []) + [repr(float(x)) for x in row])
        for i, row in enumerate(A)
    ]
    if header:
        lines.insert(0, mark.join((["id"] if named else []) + [f"c{j}" for j in range(5)]))
    text = ("\n".join(lines) + "\n").encode()
    path = tmp_path / f"t{suffix}"
    path.write_bytes(gzip.compress(text) if suffix.endswith("gz") else text)
    source = open_source(path)
    for max_bytes in (100, 1 << 20):
        np.testing.assert_array_equal(whole(source, max_bytes), A)
    assert source.shape == (57, 5)
    assert source.column_names == ([f"c{j}" for j in range(5)] if header else None)
    assert source.row_names == ([f"r, {i}" if i % 2 else f"r{i}" for i in range(57)] if named else None)


def test_table_details(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\nx,1,2\ny,3,4\n")  # as R writes it: no name above the row names
    source = open_source(path)
    assert whole(source).tolist() == [[1, 2], [3, 4]]
    assert (source.row_names, source.column_names) == (["x", "y"], ["a", "b"])
    path.write_text("1,2\n3,4\n")
    assert whole(open_source(path, dtype=np.int32)).dtype == np.int32
    assert whole(open_source(path, header=True)).tolist() == [[3, 4]]
    assert whole(open_source(path, row_names=True)).tolist() == [[2], [4]]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("a,b\n1,2\n3\n", {}, "line 3: expected 2 values, got 1"),
        ("a,b\n1,2\n3,4,5\n", {}, "line 3: expected 2 values, got 3"),
        ("a,b\n1,2\n3,\n", {}, "line 3: field 2: the value is missing"),
        ("a,b,c,d\n1,2\n", {}, "line 1: the header has 4 fields"),
        ("\n1,2\n", {}, "line 1"),
        ("a,b\n1,2\n1.5,2\n", {"dtype": np.int64}, "line 3: value 1.5 does not fit type int64"),
    ],
)
def test_invalid_tables(tmp_path, text, options, message):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(StoreError, match=message):
        whole(open_source(path, **options))


@pytest.mark.parametrize("name", ["x.csv", "x.mtx", "y.mtx", "x.ldac", "x.docword", "x.parquet"])
def test_entries_of_a_requested_type(tmp_path, name):
    path = tmp_path / name
    texts = {
        "x.csv": "2,0\n0,3\n",
        "x.mtx": "%%MatrixMarket matrix array real general\n2 2\n2\n0\n0\n3\n",
        "y.mtx": "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 2\n2 2 3\n",
        "x.ldac": "1 0:2\n1 1:3\n",
        "x.docword": "2\n2\n2\n1 1 2\n2 2 3\n",
    }
    if name in texts:
        path.write_text(texts[name])
    else:
        pd.DataFrame({"a": [2, 0], "b": [0, 3]}).to_parquet(path)
    for kind in (bool, np.uint8, "f2", "<f8", ">i4"):
        np.testing.assert_array_equal(whole(open_source(path, dtype=kind)), [[2, 0], [0, 3]])
    for kind in (np, "zz", object, "U3", complex, [("a", "f8")], (float, (2,)), 3):
        with pytest.raises(InvalidTypeError, match="dtype must be a type of real numbers"):
            open_source(path, dtype=kind)


def test_header_without_rows(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n")
    with pytest.raises(InvalidInputError, match="no rows"):
        open_source(path)


def ldac(A):
    return "".join(
        f"{np.count_nonzero(row)} " + " ".join(f"{j}:{row[j]}" for j in np.flatnonzero(row)) + "\n" for row in A
    )


def test_ldac(tmp_path):
    A = random_sparse(40, 12, dtype=int).toarray()
    A[3] = 0
    A[0, 11] = 1
    path = tmp_path / "ap.dat"  # unknown suffix: detected from the content
    path.write_text(ldac(A))
    source = open_source(path)
    for max_bytes in (64, 1 << 20):
        np.testing.assert_array_equal(whole(source, max_bytes), A)
    assert source.dtype == np.int32
    assert source.column_names is None
    (tmp_path / "vocab.txt").write_text("".join(f"w{j}\n" for j in range(14)))
    source = open_source(path)
    assert source.shape == (None, 14)
    assert source.column_names == [f"w{j}" for j in range(14)]
    assert whole(source).shape == (40, 14)
    assert source.column_names_from == str(tmp_path / "vocab.txt")
    assert open_source(path, vocab=tmp_path / "vocab.txt").column_names_from is None
    (tmp_path / "vocab.txt").write_text("the words\nof another\ncorpus\n")
    with pytest.warns(GuessWarning, match=r"vocab.txt has 3 words where ap.dat needs 12: it is not used"):
        source = open_source(path)
    assert (source.column_names, source.column_names_from, source.shape) == (None, None, (None, 12))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 0:1\n2 0:1\n", "line 2: says 2 words but holds 1 "),
        ("1 0:1\n\n1 5:1\n", r"line 3: the pair 5:1 is not valid \(the vocabulary has 3 words\)"),
        ("1 2\n", "line 1: expected LDA-C"),
        ("1 0:1.5\n", "line 1: the pair 0:1.5"),
        ("0.5 2\n0.5 2\n", "line 1: expected LDA-C"),
        ("1 0:1\n1 a:1\n", "line 2: field 2: 'a' is not a number"),
    ],
)
def test_invalid_ldac_files(tmp_path, text, message):
    path = tmp_path / "x.ldac"
    path.write_text(text)
    with pytest.raises(StoreError, match=message):
        whole(open_source(path, vocab=["a", "b", "c"]))


def test_docword(tmp_path):
    A = random_sparse(30, 9, dtype=int)
    coo = A.tocoo()
    lines = [f"{i + 1} {j + 1} {v}" for i, j, v in zip(*coo.coords, coo.data)][::-1]
    path = tmp_path / "docword.x.txt.gz"
    path.write_bytes(gzip.compress("\n".join(["30", "9", str(coo.nnz), *lines, ""]).encode()))
    (tmp_path / "vocab.x.txt").write_text("".join(f"w{j}\n" for j in range(9)))
    source = open_source(path)
    np.testing.assert_array_equal(whole(source), A.toarray())
    assert source.column_names == [f"w{j}" for j in range(9)]
    (tmp_path / "vocab.x.txt").write_text("".join(f"w{j}\n" for j in range(10)))
    with pytest.warns(GuessWarning, match=r"vocab.x.txt has 10 words where docword.x.txt.gz needs 9"):
        assert open_source(path).column_names is None
    (tmp_path / "vocab.x.txt").unlink()
    path.write_bytes(gzip.compress("\n".join(["30", "9", str(coo.nnz + 1), *lines, ""]).encode()))
    with pytest.raises(StoreError, match="truncated"):
        whole(open_source(path))
    path.write_bytes(gzip.compress(b"30\nnine\n1\n"))
    with pytest.raises(StoreError, match="line 2"):
        open_source(path)


def table(path, text, **options):
    """Rows, names of the rows and of the columns, and messages about guesses."""
    path.write_text(text)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        source = open_source(path, **options)
    rows = whole(source).tolist()
    return rows, source.row_names, source.column_names, [str(warning.message) for warning in told]


def test_headers_of_pandas_and_r_are_recognised(tmp_path):
    path = tmp_path / "t.csv"
    rows, names, columns, told = table(path, ",0,1,2\n0,5.0,1.0,0.0\n1,2.0,0.5,1.0\n")  # DataFrame(A).to_csv()
    assert (rows, names, columns) == ([[5, 1, 0], [2, 0.5, 1]], ["0", "1"], ["0", "1", "2"])
    assert told == []
    rows, names, columns, told = table(path, '"","a","b"\n"1",5,1\n"2",2,0\n')  # write.csv
    assert (rows, names, columns, told) == ([[5, 1], [2, 0]], ["1", "2"], ["a", "b"], [])
    rows, names, columns, told = table(path, "a,b\n1,5,1\n2,2,0\n")  # write.table with numbers for row names
    assert (rows, names, columns, told) == ([[5, 1], [2, 0]], ["1", "2"], ["a", "b"], [])


@pytest.mark.parametrize(
    ("first", "second", "header", "told"),
    [
        ("2019,2020,2021", "1,0,5", True, "header=False"),
        ("0,1,2,3", "0.1,0.2,0.3,0.4", True, "header=False"),
        ("2021,2020,2019", "1,0,5", True, "header=False"),
        ("400.5,411.2,418.9,430.1,441.7,452", "1,0,5,2,2,9", True, "header=False"),
        ("0,1", "0.1,0.7", False, "header=True"),  # too few to decide
        ("1,2,3", "4,5,6", False, None),  # the next line is like it
        ("1,0,5", "2019,2020,2021", False, None),
        ("0.1,0.5,0.7", "0.2,0.1,0.1", False, None),
        ("7,7,7", "0,1,5", False, None),
    ],
)
def test_a_first_line_of_numbers(tmp_path, first, second, header, told):
    path = tmp_path / "t.csv"
    numbers = [[float(cell) for cell in line.split(",")] for line in (first, second)]
    rows, names, columns, said = table(path, f"{first}\n{second}\n")
    assert rows == numbers[header:]
    assert columns == (first.split(",") if header else None)
    assert names is None
    assert [told in message and str(path) in message for message in said] == ([] if told is None else [True])
    for wanted in (True, False):  # with the option there is no message
        rows, _, _, said = table(path, f"{first}\n{second}\n", header=wanted)
        assert (rows, said) == (numbers[wanted:], [])


@pytest.mark.parametrize(("corner", "names"), [("row", "01"), ("name", "ab"), ("Wavelength", "ab")])
def test_numbers_behind_a_heading_of_names_are_column_names(tmp_path, corner, names):
    text = f"{corner},119,102,168\n{names[0]},0.2,0.1,0.7\n{names[1]},0.3,0.5,0.2\n"  # what encode writes
    rows, found, columns, said = table(tmp_path / "t.csv", text)
    assert (rows, columns) == ([[0.2, 0.1, 0.7], [0.3, 0.5, 0.2]], ["119", "102", "168"])
    assert found == list(names)
    assert "the first line (119, 102, 168) is read as column names" in said[0]
    rows, found, _, _ = table(tmp_path / "t.csv", text, header=False)
    assert (len(rows), found[0]) == (3, corner)


def test_a_named_first_line_of_years(tmp_path):
    rows, names, columns, said = table(tmp_path / "t.csv", "country,2019,2020,2021\nA,4,1,1\nB,0,3,1\n")
    assert (rows, names, columns) == ([[4, 1, 1], [0, 3, 1]], ["A", "B"], ["2019", "2020", "2021"])
    assert len(said) == 1


def test_whole_numbers_that_name_the_rows(tmp_path):
    path = tmp_path / "t.csv"
    for heading in ("id", "ID", "row", "Index", "name"):
        rows, names, columns, said = table(path, f"{heading},a,b\n101,1,0\n105,0,2\n")
        assert (rows, names, columns) == ([[1, 0], [0, 2]], ["101", "105"], ["a", "b"])
        assert len(said) == 1
        assert "row_names=False" in said[0]
    rows, names, columns, said = table(path, "id,a,b\n101,1,0\n105,0,2\n", row_names=False)
    assert (rows, names, columns, said) == ([[101, 1, 0], [105, 0, 2]], None, ["id", "a", "b"], [])
    for text in ("id,a\n3,1\n3,2\n", "id,a\n0.5,1\n1.5,2\n", "age,a\n30,1\n40,2\n"):  # repeats; measures; no key
        rows, names, _, said = table(path, text)
        assert (len(rows[0]), names, said) == (2, None, [])


def test_any_column_can_name_the_rows(tmp_path):
    path = tmp_path / "t.csv"
    text = 'a,label,b\n1,x,0\n0,"y, z",2\n'
    rows, names, columns, _ = table(path, text, row_names="label")
    assert (rows, names, columns) == ([[1, 0], [0, 2]], ["x", "y, z"], ["a", "b"])
    path.write_text(text)
    with pytest.raises(StoreError, match=r"line 2: 'x' in column 'label' is not a number; .*row_names='label'"):
        open_source(path)
    with pytest.raises(InvalidInputError, match=r"no column 'lable'.*did you mean 'label'"):
        open_source(path, row_names="lable")
    path.write_text("a,b,label\n1,2,x\n3\n")
    with pytest.raises(StoreError, match="line 3: only one field"):
        whole(open_source(path, row_names="label"))


def test_text_that_is_not_utf_8_is_refused_or_decoded(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("Größe,b\nä,1\nö,2\n".encode("latin-1"))
    with pytest.raises(StoreError, match=r"t.csv, line 1, byte 3: 0xf6 is not utf-8 text; .*encoding='latin-1'"):
        open_source(path)
    path.write_bytes(b"name,b\n" + b"a,1\n" * 200 + "ö,2\n".encode("latin-1"))
    with pytest.raises(StoreError, match=r"t.csv, line 202, byte 1"):
        whole(open_source(path))
    source = open_source(path, encoding="latin-1")
    whole(source)
    assert source.row_names[-1] == "ö"
    path.write_bytes("a,b\n1,2\n".encode("utf-16"))
    with pytest.raises(StoreError, match="UTF-16; save it as UTF-8"):
        open_source(path)
    refused = [("utf-16", "cannot be read"), ("latin-99", "unknown encoding"), ("undefined", "cannot be read")]
    # The bytes of commas and quotes are parts of letters after a shift, so fields were split inside letters.
    refused += [(name, "cannot be read as a stream; save it as UTF-8") for name in ("iso2022-jp", "hz", "utf-7")]
    for encoding, message in refused:
        with pytest.raises(InvalidInputError, match=message):
            open_source(path, encoding=encoding)


@pytest.mark.parametrize("encoding", ["shift_jis", "euc-jp", "gb18030", "big5", "cp1252"])
def test_tables_in_encodings_without_shifts_are_read(tmp_path, encoding):
    path, name = tmp_path / "t.csv", "é" if encoding == "cp1252" else "山"
    path.write_bytes(f"name,{name}\n{name},1\nb,2\n".encode(encoding))
    source = open_source(path, encoding=encoding)
    assert whole(source).tolist() == [[1], [2]]
    assert (source.column_names, list(source.row_names)) == ([name], [name, "b"])


def test_other_separators_are_recognised_and_named(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a;b\n1;2\n")
    with pytest.raises(StoreError, match="pass separator=';'"):
        open_source(path)
    assert whole(open_source(path, separator=";")).tolist() == [[1, 2]]
    with pytest.raises(InvalidInputError, match="one plain character"):
        open_source(path, separator=";;")
    path.write_bytes(b"\xef\xbb\xbf0.5,1\n2,1\n")  # a mark before a table without a header
    assert whole(open_source(path)).tolist() == [[0.5, 1], [2, 1]]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("e.img", r"e\.hdr: 'lines' must be a whole number"),
        ("words.txt", r"format of .*words.txt; pass format"),
        ("x.foo", r"format of .*x.foo; pass format"),
        ("x.mtxx", r"did you mean \.mtx"),
    ],
)
def test_files_of_unknown_format(tmp_path, name, message):
    (tmp_path / "e.hdr").write_text("ENVI\n")
    (tmp_path / name).write_text("1 2\n")
    with pytest.raises(StoreError, match=message):
        open_source(tmp_path / name)


def test_lines_longer_than_what_is_read_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr("fastanchors.io.table.record_chunks", partial(record_chunks, size=16))
    path = tmp_path / "t.csv"
    path.write_text(",".join(f"column {j}" for j in range(9)) + "\n" + ",".join("123456789") + "\n")
    source = open_source(path)
    assert (source.shape, source.column_names[8]) == ((None, 9), "column 8")
    path.write_text("")
    with pytest.raises(InvalidInputError, match=r"t.csv is empty"):
        open_source(path)


@pytest.mark.parametrize("end", ["\x0b", "\x0c", "\x1c", "\x85", "\xa0", "\u2028"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_only_blanks_outside_quotes_are_removed_from_names(tmp_path, end, newline):
    path = tmp_path / "a.csv"
    lines = [
        f'name, {end}a{end}\t," b{end} " ,c',
        f" {end}x{end} ,1,2,3",
        f'" {end}y{end} "\t, 4 ,5,6',
        f'{end}z ,"7",8,9',
    ]
    path.write_bytes("".join(line + newline for line in lines).encode())
    source = open_source(path)
    assert whole(source).tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert source.column_names == [f"{end}a{end}", f" b{end} ", "c"]
    assert list(source.row_names) == [f"{end}x{end}", f" {end}y{end} ", f"{end}z"]


def test_names_in_the_last_column_have_no_line_ending(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,b,name\r\n1,2, x\xc2\xa0 \r\n3,4,y\r\n")
    source = open_source(path, row_names="name")
    assert whole(source).tolist() == [[1, 2], [3, 4]]
    assert list(source.row_names) == ["x\xa0", "y"]


def test_one_column_with_decimal_commas_gives_a_note(tmp_path):
    """``1,5`` under one heading was read as a row named 1 without a word."""
    path = tmp_path / "a.csv"
    path.write_text("value\n1,5\n2,25\n3,75\n")
    with pytest.warns(GuessWarning, match="decimal commas"):
        source = open_source(path)
    assert whole(source).tolist() == [[5], [25], [75]]
    path.write_text("value\na,5\nb,25\n")  # names without a heading, as R writes them
    assert whole(open_source(path)).tolist() == [[5], [25]]


@pytest.mark.parametrize("cells", [("NA", "NA"), ("NULL", "#N/A"), ("n.d.", "n.d."), ("NA", "3")])
def test_a_first_column_of_missing_values_is_not_row_names(tmp_path, cells):
    path = tmp_path / "a.csv"
    path.write_text("a,b\n" + "".join(f"{cell},1\n" for cell in cells))
    with pytest.raises((InvalidInputError, StoreError), match="is not a number"):
        whole(open_source(path))
    assert list(whole(open_source(path, row_names="a")).ravel()) == [1, 1]


def test_values_below_a_limit_give_a_note(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b\n<0.1,2\n<0.2,4\n")
    with pytest.warns(GuessWarning, match="signs such as"):
        open_source(path)


@pytest.mark.parametrize(("encoding", "words"), [("latin-1", "line 3: the byte 0xdf is not"), ("utf-16", "UTF-16")])
@pytest.mark.parametrize("name", ["docword.x.txt", "x.ldac"])
def test_a_vocabulary_in_another_encoding_is_one_error_that_says_how_to_convert_it(tmp_path, name, encoding, words):
    counts = "2\n3\n3\n1 1 2\n1 2 1\n2 3 4\n" if name.startswith("docword") else "2 0:1 1:2\n1 2:3\n"
    (tmp_path / name).write_text(counts)
    vocabulary = tmp_path / ("vocab.x.txt" if name.startswith("docword") else "x.vocab")
    vocabulary.write_bytes("eins\r\nzwei\ndreißig\n".encode(encoding))
    said = rf"{vocabulary.name}.*{words}.*iconv -f .* -t utf-8"
    for call in (
        lambda: fa.io.open_source(tmp_path / name),
        lambda: fa.build(tmp_path / name, tmp_path / "s.store"),
        lambda: fa.apps.topics(tmp_path / name, 2),
        lambda: fa.io.open_source(np.eye(3), column_names=vocabulary),
    ):
        with pytest.raises(StoreError, match=said):
            call()
    pytest.importorskip("click", reason="extra cli")
    commands = ("build {} s.store", "topics {} -k 2 --out m.npz", "encode {} 0,1 -o w.csv")
    for command in commands if (name, encoding) == ("x.ldac", "latin-1") else ():
        arguments = [sys.executable, "-m", "fastanchors", *command.format(name).split()]
        done = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
        assert re.search(said, done.stderr)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, vocabulary.name])


def test_texts_that_pandas_wrote_with_its_index_have_a_header(tmp_path):
    """The empty first cell made the header a record: "has no column 'text'; it has 0, 1, 2"."""
    (tmp_path / "t.csv").write_text(",title,text\n0,one,a b\n1,two,c d\n")
    found = read_texts(tmp_path / "t.csv", column="text", title="title")
    assert (found.names, found.texts) == (["one", "two"], ["a b", "c d"])


def test_an_index_of_several_levels_is_refused(tmp_path):
    """The second level was read as a column of data without a name."""
    (tmp_path / "t.csv").write_text(",,w,x\na,2019,1,2\na,2020,3,4\n")
    with pytest.raises(StoreError, match="line 1: the first two columns have no heading"):
        open_source(tmp_path / "t.csv")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_of_a_corpus_end_at_line_ends_only(tmp_path, end):
    """Form feeds, U+2028 and similar characters made further documents, so that rows were those of other lines."""
    lines = ["cats\u2028purr", "dogs\x85bark", "birds\x0cfly\x0b\x1c\x1d\x1e", "end\u2029"]
    (tmp_path / "t.txt").write_bytes(end.join([*lines, " ", ""]).encode())
    assert list(read_texts(tmp_path / "t.txt").texts) == lines
