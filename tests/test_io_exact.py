"""Values are read exactly: sums of duplicates, large integers, reused buffers, columns in another order."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import fastanchors as fa
from fastanchors.errors import InvalidInputError, InvalidTypeError, StoreError
from fastanchors.io import open_source
from fastanchors.io.row_grouper import RowGrouper, unsummed_csr

COORDINATE = "%%MatrixMarket matrix coordinate "


def whole(source, max_bytes=1 << 20, **options):
    blocks = list(source.blocks(max_bytes, **options))
    return sp.vstack(blocks).toarray() if source.is_sparse else np.concatenate(blocks)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 255)), min_size=1, max_size=40))
def test_unsummed_csr_keeps_every_entry(entries):
    rows, columns, values = (np.array(part) for part in zip(*entries, strict=True))
    csr = unsummed_csr(rows, columns, values.astype(np.uint8), (4, 5))
    assert csr.nnz == len(entries)
    assert csr.has_sorted_indices
    got = [(i, int(j), int(x)) for i in range(4) for j, x in zip(csr[[i]].indices, csr[[i]].data, strict=True)]
    assert sorted(got) == sorted(entries)


@given(
    st.sampled_from([np.uint8, np.int16, np.int64, np.uint64, np.float32]),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 90)), min_size=1, max_size=30),
)
def test_duplicates_add_up_exactly_or_are_refused(dtype, entries):
    exact = np.zeros((3, 3), object)
    for i, j, x in entries:
        exact[i, j] += x
    rows, columns, values = (np.array(part) for part in zip(*entries, strict=True))
    source = open_source(sp.coo_array((values.astype(dtype), (rows, columns)), shape=(3, 3)))
    if dtype == np.uint8 and exact.max() > 255:
        with pytest.raises(InvalidInputError, match=r"A\[\d, \d\] occurs several times .* does not fit uint8"):
            whole(source)
    else:
        assert whole(source).tolist() == exact.tolist()
        assert source.dtype == dtype


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_duplicates_at_the_end_of_64_bits(dtype):
    largest = int(np.iinfo(dtype).max)
    data = np.array([largest // 4 + 1] * 3 + [largest // 2, largest - largest // 4], dtype)
    A = sp.csr_array((data, np.array([0, 0, 0, 1, 1]), np.array([0, 3, 5])), shape=(2, 2))
    assert whole(open_source(A[[0]])).tolist() == [[3 * (largest // 4 + 1), 0]]  # beyond 2⁵³, to the last digit
    with pytest.raises(InvalidInputError, match=r"A\[1, 1\] occurs several times"):
        whole(open_source(A))


def test_duplicates_in_files(tmp_path):
    path = tmp_path / "p.mtx"
    path.write_text(COORDINATE + "pattern general\n1 2 300\n" + "1 1\n" * 300)
    with pytest.raises(InvalidInputError, match=r"p\.mtx: A\[0, 0\] .* 300, which does not fit uint8; .*dtype"):
        fa.build(path, tmp_path / "s")
    assert fa.build(path, tmp_path / "s", dtype="int32").raw(0, 0) == 300
    docword = tmp_path / "docword.v.txt"
    docword.write_text("3\n4\n2\n1 1 2147483647\n1 1 2147483647\n")
    ldac = tmp_path / "x.ldac"
    ldac.write_text("2 0:2147483647 0:2147483647\n")
    for path in (docword, ldac):
        with pytest.raises(InvalidInputError, match=r"A\[0, 0\] .* adds up to 4294967294, which does not fit int32"):
            fa.build(path, tmp_path / "t")
        assert whole(open_source(path, dtype=np.int64))[0, 0] == 4294967294


def test_duplicates_of_parquet_triplets(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="extra io")
    pq = pytest.importorskip("pyarrow.parquet", reason="extra io")
    path = tmp_path / "t.parquet"
    triplets = {"row": [0, 0, 1], "column": [0, 0, 1], "value": pa.array([200, 100, 1], pa.uint8())}
    pq.write_table(pa.table(triplets), path)
    with pytest.raises(InvalidInputError, match=r"A\[0, 0\] .* adds up to 300, which does not fit uint8"):
        fa.build(path, tmp_path / "s")
    assert fa.build(path, tmp_path / "s", dtype=np.uint16).raw(0, 0) == 300


def test_a_negative_duplicate_stops_the_build(tmp_path):
    path = tmp_path / "n.mtx"
    path.write_text(COORDINATE + "real general\n3 2 3\n1 1 1\n3 1 -3\n3 1 5\n")
    with pytest.raises(InvalidInputError, match=r"n\.mtx: A\[2, 0\] is negative \(-3"):
        fa.build(path, tmp_path / "s")
    assert fa.build(path, tmp_path / "s", normalize=None).raw(2, 0) == 2
    S = fa.build(np.ones((2, 2)), tmp_path / "t")
    with pytest.raises(InvalidInputError, match=r"n\.mtx: A\[2, 0\] is negative"):
        S.append(path)


def test_row_grouper_gives_bounded_blocks_of_many_empty_rows():
    m = 1_000_000
    grouper = RowGrouper(m, 3, np.uint8, 1 << 16, name="x")
    rows = np.array([999_999, 5, 5, 400_000])
    grouper.add(rows, np.array([0, 1, 1, 2]), np.array([1, 2, 3, 4]))
    count = entries = 0
    for block in grouper.blocks():
        assert block.indptr.nbytes <= 1 << 13
        for i in np.flatnonzero(np.diff(block.indptr)).tolist():
            assert count + i in rows
        count += block.shape[0]
        entries += block.nnz
    assert (count, entries) == (m, 4)


def test_whole_numbers_beyond_float64_are_refused(tmp_path):
    path = tmp_path / "a.mtx"
    path.write_text(COORDINATE + "integer general\n1 2 2\n1 1 9007199254740991\n1 2 9007199254740993\n")
    with pytest.raises(StoreError, match=r"a\.mtx, line 4: value 9007199254740992 does not fit type int64 .*2⁵³"):
        whole(open_source(path))
    path.write_text(COORDINATE + "integer general\n1 2 1\n1 1 9007199254740991\n")
    assert whole(open_source(path))[0, 0] == 9007199254740991


BIG = 2**53 + 1  # not a float64


def rounding_sources():
    """Integers together with what makes them float64."""
    pd = pytest.importorskip("pandas")
    nullable = pd.DataFrame({"a": pd.array([BIG, 1], "Int64"), "b": pd.array([0.5, None], "Float64")})
    yield "nullable", nullable.fillna(1.0)
    yield "uint64", pd.DataFrame({"a": np.array([BIG, 1]), "b": np.array([1, 1], "u8")})
    yield "float64", pd.DataFrame({"a": [BIG, 1], "b": [0.5, 1.0]})
    yield "objects", np.array([[BIG, 1], [1, 0.5]], object)
    yield "blocks", iter([np.array([[0.5, 1.0]]), np.array([[BIG, 1]])])
    yield "sparse blocks", iter([sp.csr_array([[0.5, 1.0]]), sp.csr_array([[BIG, 1]])])
    yield "frames", iter([pd.DataFrame({"a": [1, BIG], "b": [0.5, 1.0]})])
    pl = pytest.importorskip("polars")
    yield "polars", pl.DataFrame({"a": [BIG, 1], "b": [0.5, 1.0]})


def test_integers_that_other_entries_would_round_are_refused(tmp_path):
    for name, source in rounding_sources():
        with pytest.raises(InvalidInputError, match=f"integer {BIG} would be rounded"):
            fa.build(source, tmp_path / name, normalize=None)


@pytest.mark.parametrize(
    "rows",
    [
        [[2**53 + 1, 1.5]],
        [[1.5, -(2**53) - 1]],
        [[2**63 + 1, -1]],
        [(2**53 + 1, 0), (0.5, 1)],
        ((float("nan"), 1), (2**53 + 1, 0)),
        [np.array([2**53 + 1, 0]), np.array([0.5, 1])],
        [np.array([2**63 + 1, 0], np.uint64), np.array([1, 2])],
        [[np.int64(2**53 + 1), np.float32(1.5)]],
    ],
)
def test_integers_of_lists_that_floats_beside_them_would_round_are_refused(tmp_path, rows):
    """NumPy makes float64 of such a list."""
    calls = [
        lambda: fa.open_matrix(rows, signed=True),
        lambda: list(fa.io.open_source(rows).blocks(1 << 20)),
        lambda: fa.build(rows, tmp_path / "s", normalize=None),
        lambda: fa.build(iter([rows]), tmp_path / "t", normalize=None),
        lambda: fa.encode(rows, [[1.0, 2.0]]),
        lambda: fa.encode([[1.0, 2.0]], rows),
        lambda: fa.SPA().seek(rows, 1),
    ]
    for call in calls:
        with pytest.raises(fa.errors.InvalidInputError, match=r"the integer -?9\d+ would be rounded to float64"):
            call()


def test_integers_of_lists_of_series_are_not_rounded():
    pd = pytest.importorskip("pandas")
    with pytest.raises(fa.errors.InvalidInputError, match="the integer 9007199254740993 would be rounded"):
        fa.open_matrix([pd.Series([2**53 + 1, 0]), pd.Series([0.5, 1])])


def test_large_numbers_of_lists_that_float64_holds_are_accepted():
    assert fa.open_matrix([[2**60, 1.5], [1e300, 2**53]]).rows([0, 1]).tolist() == [[2.0**60, 1.5], [1e300, 2.0**53]]
    assert fa.open_matrix([[2**53 + 1, 1]]).rows([0]).tolist() == [[2**53 + 1, 1]]  # integers alone


def test_integers_are_not_rounded_by_a_store_of_float64(tmp_path):
    for S in (fa.build(np.array([[0.5, 1.0]]), tmp_path / "s"), fa.SampleMatrix([[0.5, 1.0]])):
        for change in (lambda S: S.append([[BIG, 1]]), lambda S: S.update([0], [0], [BIG])):
            with pytest.raises(InvalidInputError, match=f"integer {BIG} would be rounded"):
                change(S)
        S.append(np.array([[2**60, 2**53 - 1]]))  # these are float64
        assert S.raw_rows([0, 1]).tolist() == [[0.5, 1.0], [2.0**60, 2.0**53 - 1]]
    with fa.build(np.array([[-(2**63), 2**62 + 2**10]]), tmp_path / "t", normalize=None) as S:
        assert S.dtype == np.int64
        fa.build(iter([np.array([[0.5, 1.0]]), S.raw_rows([0])]), tmp_path / "u", normalize=None).close()


def test_nullable_integers_stay_integers(tmp_path):
    pd = pytest.importorskip("pandas")
    whole = pd.DataFrame({"a": pd.array([BIG, 1], "Int64"), "b": pd.array([3, 1], "Int32")})
    with fa.build(whole, tmp_path / "s") as S:
        assert S.dtype == np.int64
        assert S.raw_rows([0, 1]).tolist() == [[BIG, 3], [1, 1]]
    whole.loc[1, "b"] = pd.NA
    with pytest.raises(InvalidInputError, match="rounded"):
        fa.build(whole, tmp_path / "t")
    whole.loc[0, "a"] = 7
    with pytest.raises(InvalidInputError, match=r"NaN|nan|finite"):
        fa.build(whole, tmp_path / "t")


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, sp.coo_array])
@pytest.mark.parametrize("rows", [10, 3000])  # blocks to be joined, and to be split
def test_an_iterator_may_reuse_its_buffer(tmp_path, kind, rows):
    def blocks():
        buffer = kind(np.ones((rows, 30)))
        for i in range(5):
            (buffer if kind is np.asarray else buffer.data)[...] = i + 1
            yield buffer

    S = fa.build(blocks(), tmp_path / "s", normalize=None, memory_limit=1 << 22)
    expected = np.repeat(np.arange(1.0, 6.0), rows)
    got = S.rows(np.arange(5 * rows))
    np.testing.assert_array_equal((got.toarray() if sp.issparse(got) else got)[:, 7], expected)


@pytest.mark.parametrize(
    ("second", "error", "message"),
    [
        (sp.csr_array(np.ones((2, 3))), InvalidTypeError, r"row block 1 \(at row 2\): expected a dense block"),
        (np.ones((2, 4)), InvalidInputError, r"row block 1 \(at row 2\): expected 3 columns, got shape \(2, 4\)"),
        (np.ones(3), InvalidInputError, "row block 1 must be two-dimensional"),
        ([[1, 2, 3], [4]], InvalidInputError, "row block 1 cannot be converted to an array"),
        (np.array([["a", "b", "c"]]), InvalidTypeError, r"row block 1 \(at row 2\) must hold real numbers"),
        (np.ones((1, 3), complex), InvalidTypeError, r"row block 1 \(at row 2\) must hold real numbers"),
    ],
)
def test_mixed_and_ragged_iterators(tmp_path, second, error, message):
    with pytest.raises(error, match=message):
        fa.build(iter([np.ones((2, 3)), second]), tmp_path / "s")
    if sp.issparse(second):
        with pytest.raises(error, match=r"row block 1 \(at row 2\): expected a sparse block"):
            fa.build(iter([second, np.ones((2, 3))]), tmp_path / "s")


def test_ragged_rows(tmp_path):
    with pytest.raises(InvalidInputError, match="row 1 has 1 numbers, row 0 has 2"):
        open_source([[1, 2], [3]])


def test_append_matches_columns_by_name(tmp_path):
    (tmp_path / "a.csv").write_text("id,apple,pear,plum\nx,1,2,3\n")
    (tmp_path / "b.csv").write_text("id,plum,apple,pear\ny,6,4,5\n")
    S = fa.build(tmp_path / "a.csv", tmp_path / "s", normalize=None)
    S.append(tmp_path / "b.csv")
    assert S.rows([0, 1]).tolist() == [[1, 2, 3], [4, 5, 6]]
    assert list(S.row_names) == ["x", "y"]
    S.append(np.array([[7.0, 8, 9]]))  # no names: in the store's order
    assert S.rows([2]).tolist() == [[7, 8, 9]]
    (tmp_path / "c.csv").write_text("id,plum,kiwi,pear\nz,6,4,5\n")
    with pytest.raises(InvalidInputError, match=r"c\.csv has no column 'apple', but the store has; .*column_names="):
        S.append(tmp_path / "c.csv")
    S.append(tmp_path / "c.csv", column_names=S.column_names)
    assert S.rows([3]).tolist() == [[6, 4, 5]]
    with pytest.raises(InvalidInputError, match=r"has no column 'pear'"):
        S.append(np.ones((1, 3)), column_names=["apple", "plum", "plum"])


def test_append_of_sparse_rows_matches_columns_by_name(tmp_path):
    A = sp.random_array((40, 25), density=0.3, rng=np.random.default_rng(0), format="csr")
    names = [f"c{j}" for j in range(25)]
    order = np.random.default_rng(1).permutation(25)
    S = fa.build(A, tmp_path / "s", normalize=None, column_names=names)
    new = A[:, order].sorted_indices()
    for array in (new.data, new.indices, new.indptr):
        array.flags.writeable = False  # the entries of the caller were put into the order of the store
    S.append(new, column_names=[names[j] for j in order])
    S.compact()
    np.testing.assert_array_equal(S.rows(np.arange(40, 80)).toarray(), A.toarray())
    np.testing.assert_array_equal(new.toarray(), A.toarray()[:, order])
    fa.verify(tmp_path / "s")


def test_append_of_a_sparse_file_matches_columns_by_name(tmp_path):
    """The mapped arrays of the file are read-only: a raw ValueError of NumPy."""
    A = sp.random_array((40, 25), density=0.3, rng=np.random.default_rng(0), format="csr")
    names = [f"c{j}" for j in range(25)]
    S = fa.build(A, tmp_path / "s", normalize=None, column_names=names)
    sp.save_npz(tmp_path / "a.npz", A[:, ::-1].sorted_indices(), compressed=False)
    S.append(tmp_path / "a.npz", column_names=names[::-1])
    np.testing.assert_array_equal(S.rows(np.arange(40, 80)).toarray(), A.toarray())
