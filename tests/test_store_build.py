"""Building a store: the same answers as the matrix in memory, bounded memory, atomic."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

import fastanchors as fa
from fastanchors.errors import InvalidInputError, InvalidTypeError, StoreError
from fastanchors.io.row_source import block_bytes
from fastanchors.store import Sidecar
from fastanchors.store.shard_rows import shard_bytes, shards_at_once

SMALL = 1 << 22  # the least memory limit: several shards even for small matrices


def sparse(m=4000, n=60, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    A = sp.random_array((m, n), density=0.2, rng=rng, format="csr")
    A.data = np.ceil(A.data * 50).astype(dtype)
    return A


def dense(m=2000, n=40, dtype=np.float64, seed=0):
    return np.ceil(np.random.default_rng(seed).random((m, n)) * 50).astype(dtype)


def stored(S):
    i, j = np.indices(S.shape)
    return S.raw(i, j)


@pytest.mark.parametrize("make", [sparse, dense])
def test_a_store_does_not_depend_on_the_number_of_threads(tmp_path, make):
    A = make(20_000 if make is sparse else 8_000)
    for threads in (1, 2, 5):
        fa.build(A, tmp_path / str(threads), memory_limit=SMALL, n_jobs=threads).close()
    files = [{file.name: file.read_bytes() for file in (tmp_path / str(threads)).iterdir()} for threads in (1, 2, 5)]
    assert files[0] == files[1] == files[2]
    with pytest.raises(InvalidInputError, match="n_jobs must not be 0"):
        fa.build(A, tmp_path / "none", n_jobs=0)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(("limit", "shards"), [(1 << 22, 2), (1 << 30, 4), (1 << 32, 20)])
def test_more_memory_gives_more_shards_at_a_time_not_larger_ones(limit, shards):
    assert shards_at_once(limit, 0) == shards
    assert shards_at_once(limit, 1 << 20) == max(2, min(shards, limit // (40 << 20)))
    assert shards * shard_bytes(limit) * 5 + 2 * shard_bytes(limit) <= limit
    assert shard_bytes(limit) <= 40 << 20


@pytest.mark.parametrize("normalize", ["l1", None])
@pytest.mark.parametrize("make", [sparse, dense])
def test_answers_of_a_store_are_those_of_the_matrix(tmp_path, make, normalize):
    A = make(20_000 if make is sparse else 8_000)
    S = fa.build(A, tmp_path / "s", normalize=normalize, memory_limit=SMALL)
    M = fa.SampleMatrix(A, normalize=normalize)
    assert len(S._blocks) > 3
    assert (S.shape, S.nnz, S.dtype, S.is_sparse) == (M.shape, M.nnz, M.dtype, M.is_sparse)
    assert isinstance(S, fa.SampleAccess)
    np.testing.assert_allclose(S.frobenius_norm, M.frobenius_norm, rtol=1e-14)
    rng = np.random.default_rng(1)
    i, j = rng.integers(0, A.shape[0], 300), rng.integers(0, A.shape[1], 300)
    np.testing.assert_array_equal(S[i, j], M[i, j])
    np.testing.assert_array_equal(S.row_norm(i), M.row_norm(i))
    np.testing.assert_allclose(S.column_norm(j), M.column_norm(j), rtol=1e-13)
    got, expected = S.rows(i), M.rows(i)
    np.testing.assert_array_equal(
        got.toarray() if S.is_sparse else got, expected.toarray() if S.is_sparse else expected
    )
    draws = S.sample_rows(100_000, rng=2)
    weights = M.row_norm(np.arange(A.shape[0])) ** 2
    expected_mean = np.average(np.arange(A.shape[0]), weights=weights)
    # The mean of 1e5 draws of a spread of at most m lies within 6 standard errors; false alarms below 1e-8.
    assert abs(draws.mean() - expected_mean) < 6 * A.shape[0] / np.sqrt(12 * 100_000)
    np.testing.assert_array_equal(S.sample_columns(1000, rng=3), fa.open(tmp_path / "s").sample_columns(1000, rng=3))
    assert (M.raw(S.sample_in_column(3, 50, rng=1), np.full(50, 3)) != 0).all()


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("make", [sparse, dense])
def test_types_are_kept(tmp_path, make, dtype):
    A = make(300, dtype=dtype)
    S = fa.build(A, tmp_path / "s")
    assert S.dtype == dtype
    np.testing.assert_array_equal(stored(S), A.toarray() if sp.issparse(A) else A)
    assert fa.open(tmp_path / "s").dtype == dtype


@pytest.mark.parametrize("columns", [True, False])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
@pytest.mark.parametrize("make", [sparse, dense])
def test_disk_space(tmp_path, make, dtype, columns):
    A = make(20_000, 300, dtype)
    fa.build(A, tmp_path / "s", columns=columns)
    used = sum(file.stat().st_size for file in (tmp_path / "s").iterdir())
    limit = 2.6 if columns else 1.5
    assert used <= limit * block_bytes(sp.csr_array(A))
    if make is dense and dtype != np.uint8:  # half a byte of sums per entry and tree matters more for one-byte entries
        assert used <= limit * A.nbytes


# Number of entries per row from which the limits hold (see docs/store.md): if no row has more than 32, and if one has.
ENOUGH = {np.float64: (6, 7), np.float32: (8, 11), np.int16: (11, 16), np.uint8: (13, 21)}


@pytest.mark.parametrize("columns", [True, False])
@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("dtype", list(ENOUGH))
def test_disk_space_of_short_rows(tmp_path, dtype, long, columns):
    counts = np.full(20_000, ENOUGH[dtype][long])
    if long:
        counts[0] = 33
    ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    indices = (np.arange(ends[-1]) * 7 % 300).astype(np.int32)
    A = sp.csr_array((np.arange(ends[-1]) % 100 + 1, indices, ends), shape=(20_000, 300)).astype(dtype)
    A.sort_indices()
    S = fa.build(A, tmp_path / "s", columns=columns, sidecars=())
    used = sum(file.stat().st_size for file in (tmp_path / "s").iterdir())
    assert used <= (2.6 if columns else 1.5) * block_bytes(A)
    assert (S.manifest.shards[0].data["arrays"]["row_nodes"]["shape"] == [0]) is not long
    fa.verify(tmp_path / "s")
    assert (A.toarray()[5, S.sample_in_row(5, 50, rng=0)] != 0).all()
    S[5, 1] = 3
    S[5, 2] = 0
    S.compact()
    assert S.raw([5, 5], [1, 2]).tolist() == [3, 0]
    fa.verify(tmp_path / "s")


@pytest.mark.parametrize("columns", [True, False])
@pytest.mark.parametrize(("n", "dtype"), [(9, np.float64), (17, np.float32), (33, np.float32)])
def test_disk_space_of_narrow_dense_matrices(tmp_path, n, dtype, columns):
    A = dense(20_000, n, dtype)
    fa.build(A, tmp_path / "s", columns=columns, sidecars=()).close()
    used = sum(file.stat().st_size for file in (tmp_path / "s").iterdir())
    assert used <= (2.6 if columns else 1.5) * A.nbytes
    fa.verify(tmp_path / "s")


@pytest.mark.parametrize(
    "call", [lambda A, path: fa.build(A, path, progress=1), lambda A, path: fa.verify(path, progress="x")]
)
def test_progress_must_be_a_function(call, tmp_path):
    with pytest.raises(InvalidTypeError, match="progress must be a function or None"):
        call(np.eye(3), tmp_path / "s")
    assert list(tmp_path.iterdir()) == []


def test_without_the_column_side(tmp_path):
    A = sparse()
    S = fa.build(A, tmp_path / "s", columns=False)
    for call in (lambda: S.column_norm(0), lambda: S.sample_columns(3), lambda: S.sample_in_column(0, 3)):
        with pytest.raises(InvalidInputError, match="columns=False"):
            call()
    S[5, 5] = 3
    S.append(A[:10])
    S.compact()
    assert S.raw(5, 5) == 3
    assert A.toarray()[3, S.sample_in_row(3, 20, rng=0)].all()
    fa.verify(tmp_path / "s")


def test_sources_and_names(tmp_path):
    A = dense(300, 5)
    rows, columns = [f"row {i} é" for i in range(300)], list("abcde")
    S = fa.build((A[i : i + 7] for i in range(0, 300, 7)), tmp_path / "s", row_names=rows, column_names=columns)
    np.testing.assert_array_equal(stored(S), A)
    assert S.row_names == rows
    assert S.column_names == columns
    assert S.row_names[-1] == "row 299 é"
    assert S.row_names[3:5] == rows[3:5]
    assert list(S.row_names) == rows
    assert rows[7] in S.row_names
    with pytest.raises(IndexError):
        S.row_names[300]
    path = tmp_path / "a.csv"
    path.write_text("name,x,y\nu,1,2\nv,3,4\n")
    S = fa.build(path, tmp_path / "csv")
    assert (stored(S).tolist(), list(S.row_names), list(S.column_names)) == ([[1, 2], [3, 4]], ["u", "v"], ["x", "y"])
    assert fa.build(A, tmp_path / "nameless").row_names is None


@pytest.mark.parametrize(
    ("value", "what"), [(-1.0, r"negative \(-1.0\)"), (np.nan, "NaN"), (np.inf, "infinite"), (1e-300, "square")]
)
@pytest.mark.parametrize("make", [sparse, dense])
def test_bad_entries_stop_the_build(tmp_path, make, value, what):
    A = make(20_000)
    if make is sparse:
        A = A.tolil()
    A[15_000, 7] = value
    with pytest.raises(InvalidInputError, match=rf"A\[15000, 7\].*{what}"):
        fa.build(A, tmp_path / "s", memory_limit=SMALL)
    assert os.listdir(tmp_path) == []


def test_invalid_input_is_refused(tmp_path):
    A = dense(10)
    fa.build(A, tmp_path / "s")
    with pytest.raises(StoreError, match="exists already; pass overwrite=True"):
        fa.build(A, tmp_path / "s")
    with pytest.raises(InvalidInputError, match="normalize"):
        fa.build(A, tmp_path / "t", normalize="l2")
    with pytest.raises(InvalidInputError, match="memory_limit must be at least"):
        fa.build(A, tmp_path / "t", memory_limit=1000)
    with pytest.raises(InvalidTypeError, match="columns must be True or False"):
        fa.build(A, tmp_path / "t", columns="no")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(StoreError, match="is not a store, so it is not overwritten"):
        fa.build(A, tmp_path / "mine", overwrite=True)
    np.testing.assert_array_equal(stored(fa.build(A + 1, tmp_path / "s", overwrite=True)), A + 1)
    assert sorted(os.listdir(tmp_path)) == ["mine", "s"]


def test_interrupted_build_leaves_nothing(tmp_path):
    A = dense(20_000)
    seen = []

    def interrupt(progress):
        seen.append(progress)
        if len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fa.build(A, tmp_path / "s", memory_limit=SMALL, progress=interrupt)
    assert os.listdir(tmp_path) == []
    assert seen[1].rows > seen[0].rows
    assert seen[0].total_rows == 20_000


def test_files_of_killed_builds_are_removed_and_of_running_ones_kept(tmp_path):
    from fastanchors.store.files import WriterLock

    for name in ("dead", "living"):
        folder = tmp_path / f".s.building-{name}"
        folder.mkdir()
        (folder / "shard-000000.bin").write_bytes(b"x")
    lock = WriterLock(tmp_path / ".s.building-living")
    fa.build(dense(10), tmp_path / "s")
    lock.release()
    assert sorted(os.listdir(tmp_path)) == [".s.building-living", "s"]


MEMORY = """
import sys
import numpy as np, scipy.sparse as sp
import fastanchors as fa
from fastanchors.store import Sidecar
kind, path, limit = sys.argv[1], sys.argv[2], int(sys.argv[3])

def blocks(count):
    rng = np.random.default_rng(0)
    for _ in range(count):
        if kind == "dense":
            block = rng.random((2000, 500), dtype=np.float32)
            block[np.arange(40), rng.integers(0, 500, 40)] = 500  # rows to seek, spread over all shards
            yield block
        else:
            columns = (rng.integers(0, 1000, (4000, 1)) + 12 * np.arange(80)) % 1000  # 80 different ones in each row
            data = rng.random(columns.size)
            yield sp.csr_array((data, columns.reshape(-1), np.arange(0, columns.size + 1, 80)), shape=(4000, 1000))

def peak():  # of this process alone: the maximum that getrusage tells begins with that of the one that started it
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) * 1024

fa.build(blocks(2) if kind != "mtx" else path + ".few.mtx", path + ".warm", memory_limit=limit).close()
before = peak()
source = path + ".mtx" if kind == "mtx" else blocks(60 if kind == "dense" else 36)
fa.build(source, path, memory_limit=limit).close()
print(peak() - before)
print("fas.whole" in fa.open(path).manifest.extras)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the peak of one process")
@pytest.mark.parametrize("kind", ["dense", "sparse", "mtx"])
def test_memory_stays_below_the_limit(tmp_path, kind):
    limit = 64 << 20
    if kind == "mtx":  # parsing text and sorting its entries need memory too
        limit = 48 << 20
        rng = np.random.default_rng(0)
        columns = (rng.integers(0, 1000, (135_000, 1)) + 12 * np.arange(60)) % 1000
        starts = np.arange(0, columns.size + 1, 60)
        A = sp.csr_array((rng.integers(1, 999, columns.size) + 0.5, columns.reshape(-1), starts), shape=(135_000, 1000))
        scipy.io.mmwrite(tmp_path / "s.mtx", A)
        scipy.io.mmwrite(tmp_path / "s.few.mtx", A[:1000])
    result = subprocess.run(
        [sys.executable, "-c", MEMORY, kind, str(tmp_path / "s"), str(limit)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    size = sum(file.stat().st_size for file in (tmp_path / "s").iterdir())
    assert size > 4 * limit
    growth, indexed = result.stdout.split()
    assert 0 < int(growth) < limit
    assert indexed == "True"  # made within the limit too: random reads load pages of the mapped shards
    with fa.open(tmp_path / "s") as S:
        assert len(S._blocks) > 10


def test_an_index_that_does_not_fit_is_left_out_with_a_warning(tmp_path):
    """The store is complete without it, seeks give the same result, and a writer with more memory makes it."""
    rng = np.random.default_rng(3)
    A = np.vstack([np.eye(5), rng.dirichlet(np.ones(5), 995)]) @ rng.random((5, 2000))
    with pytest.warns(
        UserWarning, match=r"the index of FAS\(\) is left out.*memory_limit of 4194304 bytes is too small"
    ):
        fa.build(A, tmp_path / "s", memory_limit=SMALL).close()
    fa.verify(tmp_path / "s")
    with fa.open(tmp_path / "s", mode="r+") as S:
        assert "fas.whole" not in S.manifest.extras
        np.testing.assert_array_equal(S.raw(*np.indices(A.shape)), A)
        assert sorted(fa.FAS(selection="spa").seek(S, 5).indices) == [0, 1, 2, 3, 4]
        S.compact()
        assert "fas.whole" in S.manifest.extras
        assert sorted(fa.FAS(selection="spa").seek(S, 5).indices) == [0, 1, 2, 3, 4]


class RowSums(Sidecar):
    """A sidecar for tests: the sum of each row, and the number of columns shared by all shards."""

    name = "sums"

    @classmethod
    def load(cls, shared):
        assert shared["columns"].tolist() == [20]
        return cls()

    def begin(self, block):
        return {"columns": np.array([block.shape[1]])}

    def add_block(self, block, first_row):
        rows = block.rows(np.arange(block.shape[0]), view=False)
        return {"sums": np.asarray(rows.sum(axis=1)).reshape(-1), "first": np.array([first_row])}


def test_sidecars_are_made_and_kept_up(tmp_path):
    A = dense(3000, 20)
    S = fa.build(A, tmp_path / "s", memory_limit=SMALL, sidecars=[RowSums()])
    fa.verify(tmp_path / "s")

    def sums(S):
        return [(None if arrays is None else arrays["sums"]) for _, _, arrays in S.shard_arrays("sums")]

    np.testing.assert_array_equal(np.concatenate(sums(S)), A.sum(axis=1))
    S[7, 3] = 100
    S.append(A[:5])
    assert S.changed_rows.tolist() == [7, 3000, 3001, 3002, 3003, 3004]
    S.compact()
    assert S.changed_rows.size == 0
    expected = np.concatenate([A, A[:5]])
    expected[7, 3] = 100
    np.testing.assert_array_equal(np.concatenate(sums(S)), expected.sum(axis=1))
    fa.verify(tmp_path / "s")
    S.close()
    # a writer that does not know the sidecar leaves it out
    with fa.open(tmp_path / "s", mode="r+") as T:
        T[0, 0] = 1
        T.compact()
        assert sums(T)[0] is None
    fa.verify(tmp_path / "s")


@pytest.mark.parametrize("kind", ["path", "store", "changed", "memory"])
@pytest.mark.parametrize("make", [sparse, dense])
def test_a_store_as_a_source(tmp_path, make, kind):
    A = make(3000, dtype=np.int32)
    expected = A.toarray() if sp.issparse(A) else A.copy()
    names = [f"r{i}" for i in range(3000)]
    S = fa.build(A, tmp_path / "s", row_names=names, column_names=[f"c{j}" for j in range(A.shape[1])])
    if kind == "changed":
        S[7, 3] = expected[7, 3] = 99
    source = {"path": str(tmp_path / "s"), "memory": fa.SampleMatrix(A)}.get(kind, S)
    T = fa.build(source, tmp_path / "t", normalize=None, columns=False, memory_limit=SMALL)
    np.testing.assert_array_equal(stored(T), expected)
    assert (T.dtype, T.is_sparse, T.normalize) == (np.int32, make is sparse, None)
    if kind != "memory":
        assert (T.row_names, T.column_names) == (S.row_names, S.column_names)
    T.append(source)
    T.close()
    np.testing.assert_array_equal(stored(fa.open(tmp_path / "t")), np.concatenate([expected, expected]))
    fa.verify(tmp_path / "t")


@pytest.mark.parametrize("metadata", [[1], "text", 5])
def test_metadata_must_be_a_dict(tmp_path, metadata):
    with pytest.raises(fa.errors.InvalidTypeError, match="metadata must be a dict"):
        fa.build(np.eye(3), tmp_path / "s", metadata=metadata)


@pytest.mark.parametrize("sidecars", [("x",), "index", 5, [None]])
@pytest.mark.parametrize("address", [False, True])
def test_sidecars_must_be_sidecars(tmp_path, sidecars, address):
    path = f"memory://bucket/{tmp_path.name}.store" if address else tmp_path / "s"
    with pytest.raises(InvalidTypeError, match="sidecars must be a sequence of sidecars"):
        fa.build(np.eye(3), path, sidecars=sidecars)
    with pytest.raises(InvalidTypeError, match="sidecars must be a sequence of classes of sidecars"):
        fa.open(path, sidecars=sidecars)


def test_metadata_that_is_nested_too_deeply_is_refused(tmp_path):
    deep = {}
    for _ in range(100_000):
        deep = {"a": deep}
    with pytest.raises(fa.errors.InvalidInputError, match=r"metadata\['a'\] cannot be written as JSON"):
        fa.build(np.eye(3), tmp_path / "s", metadata=deep)


def test_no_store_is_built_inside_a_store(tmp_path):
    fa.build(dense(), tmp_path / "a.store").close()
    (tmp_path / "link").symlink_to(tmp_path / "a.store")
    for place in ("a.store/sub.store", "a.store/deep/sub.store", "link/sub.store"):
        with pytest.raises(StoreError, match="is inside the store"):
            fa.build(dense(), tmp_path / place)
    assert not (tmp_path / "a.store" / "deep").exists()
    fa.build(dense(), tmp_path / "a.store", overwrite=True).close()


@pytest.mark.parametrize("make", [sparse, dense])
def test_raw_rows_are_those_of_the_matrix(tmp_path, make):
    A, at = make(), [5, 0, 5, 1999]
    with fa.build(A, tmp_path / "s") as store:
        rows, expected = store.raw_rows(at), fa.SampleMatrix(A).raw_rows(at)
        assert rows.dtype == expected.dtype
        np.testing.assert_array_equal(*(each.toarray() if sp.issparse(each) else each for each in (rows, expected)))


@pytest.mark.parametrize("kind", ["path", "open store", "address", "connected", "command", "to an address"])
def test_a_copy_of_a_store_keeps_its_settings(tmp_path, kind):
    """A copy of a store without normalisation became an l1 view, whose anchors are others."""
    rng = np.random.default_rng(0)
    A = rng.random((200, 8)).astype(np.float32) * np.arange(1, 201, dtype=np.float32)[:, None]
    address = f"memory://copies-{tmp_path.name}/x.store"
    place = address if kind == "address" else tmp_path / "x.store"
    if kind in ("connected", "to an address", "address"):
        pytest.importorskip("fsspec")
    given = {"row_names": [f"r{i}" for i in range(200)], "column_names": list("abcdefgh"), "directions": 5}
    made = fa.build(A, place, normalize=None, columns=False, metadata={"unit": "m"}, **given)
    target = address if kind == "to an address" else tmp_path / "copy.store"
    if kind == "command":
        pytest.importorskip("click")
        from click.testing import CliRunner

        from fastanchors.cli.store import build

        ran = CliRunner().invoke(build, [str(place), str(target)])
        assert ran.exit_code == 0, ran.output
    elif kind == "connected":
        pytest.importorskip("dask")
        fa.build(fa.dask.connect(place), target).close()
    else:
        fa.build(made if kind == "open store" else place, target).close()
    with fa.open(target) as copy:
        np.testing.assert_array_equal(copy.rows(np.arange(200)), A)
        assert (copy.normalize, copy.dtype, copy.is_sparse) == (None, A.dtype, False)
        assert (copy.manifest.column_side, copy.manifest.metadata) == (False, {"unit": "m"})
        assert (list(copy.row_names), list(copy.column_names)) == (given["row_names"], given["column_names"])
        arrays, _ = copy.sidecar_arrays("coordinates")
        assert arrays["values"].shape[1] == 5
    with fa.build(place, tmp_path / "l1", normalize="l1", columns=True, metadata={}, directions=6) as other:
        assert (other.normalize, other.manifest.column_side, other.manifest.metadata) == ("l1", True, {})
        assert other.sidecar_arrays("coordinates")[0]["values"].shape[1] == 6


def test_a_sample_matrix_and_a_signed_store_keep_their_normalisation(tmp_path):
    A = np.random.default_rng(0).normal(size=(30, 4))
    with fa.build(fa.SampleMatrix(A, normalize=None), tmp_path / "a") as S, fa.build(S, tmp_path / "b") as copy:
        assert S.normalize is copy.normalize is None
        np.testing.assert_array_equal(copy.rows(np.arange(30)), A)
    with fa.build(fa.SampleMatrix(abs(A), normalize="l1"), tmp_path / "c") as S, fa.build(S, tmp_path / "d") as copy:
        assert S.normalize == copy.normalize == "l1"
    with fa.build(abs(A), tmp_path / "e") as S:
        assert S.normalize == "l1"


def test_a_store_with_damaged_coordinates_can_be_copied(tmp_path):
    fa.build(np.random.default_rng(0).random((200, 8)), tmp_path / "a", directions=5).close()
    (file,) = (tmp_path / "a").glob("whole-*.coordinates.bin")
    file.write_bytes(bytes(len(file.read_bytes())))
    with fa.build(tmp_path / "a", tmp_path / "b") as copy:
        assert copy.shape == (200, 8)
        fa.verify(tmp_path / "b")


def test_metadata_in_other_kinds_of_dict(tmp_path):
    """They were copied as if their class took the items of a dict."""
    given = {"a": Counter("aab"), "b": defaultdict(list, {"c": (1, 2)})}
    for name, metadata in (("plain", given), ("other", defaultdict(int, given))):
        with fa.build(np.ones((3, 2)), tmp_path / name, metadata=metadata) as S:
            assert S.manifest.metadata == {"a": {"a": 2, "b": 1}, "b": {"c": [1, 2]}}
