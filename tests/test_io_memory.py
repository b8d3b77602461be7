"""Memory of readers: names on disk, empty rows in pieces, and an error if a limit cannot be kept."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import fastanchors as fa
from fastanchors.errors import TooLargeError
from fastanchors.io.name_spool import NameSpool
from fastanchors.io.row_source import block_bytes, rebatch, split

HEADER = "%%MatrixMarket matrix coordinate integer general\n"


@given(st.lists(st.lists(st.text(max_size=5), max_size=4), max_size=5), st.integers(-3, 21), st.integers(-3, 21))
def test_names_on_disk_are_a_sequence(pieces, start, stop):
    spool = NameSpool()
    for piece in pieces:
        spool.extend(piece)
    names = [name for piece in pieces for name in piece]
    assert spool == names
    assert len(spool) == len(names)
    assert spool[start:stop] == names[start:stop]
    assert spool[::-2] == names[::-2]
    assert [spool[i] for i in range(-len(names), len(names))] == names + names
    for index in (len(names), -len(names) - 1):
        with pytest.raises(IndexError):
            spool[index]
    spool.clear()
    assert list(spool) == []
    spool.extend(["ä"])
    assert list(spool) == ["ä"]


def peak_of_build(source, path, **options):
    """Peak memory of Python and NumPy during a build without sidecars."""
    tracemalloc.start()
    try:
        fa.build(source, path, sidecars=(), **options).close()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_names_of_a_table_take_bounded_memory(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id,a,b\n" + "".join(f"a-rather-long-name-{i:09d},{i % 7},{i % 5 + 1}\n" for i in range(60_000)))
    few = tmp_path / "few.csv"
    few.write_text("id,a,b\nx,1,2\n")
    fa.build(few, tmp_path / "few")  # compiles
    limit = 1 << 22  # the names alone, as a list of strings, are more
    assert peak_of_build(path, tmp_path / "s", memory_limit=limit) < limit
    with fa.open(tmp_path / "s") as S:
        assert S.row_names[34_567] == "a-rather-long-name-000034567"


def test_empty_rows_take_bounded_memory(tmp_path):
    path = tmp_path / "a.mtx"
    path.write_text(HEADER + "2000000 5 2\n7 1 3\n1999999 5 4\n")
    fa.build(sp.eye_array(5, dtype=np.int64, format="csr"), tmp_path / "few")  # compiles
    limit = 1 << 23
    assert peak_of_build(path, tmp_path / "s", memory_limit=limit) < limit
    with fa.open(tmp_path / "s") as S:
        assert (S.shape, S.nnz, S.raw(1_999_998, 4)) == ((2_000_000, 5), 2, 4)


def test_pages_of_parquet_are_counted(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="extra io")
    pq = pytest.importorskip("pyarrow.parquet", reason="extra io")
    path = tmp_path / "a.parquet"
    rng = np.random.default_rng(0)
    pq.write_table(pa.table({f"c{j}": rng.integers(0, 90_000, 130_000) / 7 for j in range(60)}), path)
    code = """
import sys, pyarrow, fastanchors as fa
for _ in fa.io.open_source(sys.argv[1]).blocks(64 * 2**20 // 12): pass
print(pyarrow.default_memory_pool().max_memory())
"""
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 32 << 20  # all dictionaries and pages together are 100 MiB


def test_more_columns_than_memory_are_refused_at_once(tmp_path):
    path = tmp_path / "a.mtx"
    path.write_text(HEADER + "5 20000000 1\n1 7 3\n")
    with pytest.raises(TooLargeError, match=r"20,000,000 columns.*pass at least memory_limit=\d+, or columns=False"):
        fa.build(path, tmp_path / "s", memory_limit=1 << 25)
    with pytest.raises(TooLargeError, match=r"1,000,000 columns.* or make it sparse"):
        fa.build(np.ones((1, 1_000_000)), tmp_path / "s", memory_limit=1 << 25)
    assert os.listdir(tmp_path) == ["a.mtx"]
    S = fa.build(path, tmp_path / "s", memory_limit=1 << 25, columns=False, sidecars=())
    assert (S.shape, S.raw(0, 6)) == ((5, 20_000_000), 3)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_the_memory_of_a_row_is_counted(kind):
    A = np.random.default_rng(0).random((500, 3))
    blocks = [kind(A[:400]), kind(A[400:410]), kind(A[410:])]
    pieces = list(rebatch(blocks, 20_000, row_bytes=100))
    assert all(block_bytes(piece) + 100 * piece.shape[0] <= 10_000 for piece in pieces)
    joined = sp.vstack(pieces).toarray() if kind is sp.csr_array else np.concatenate(pieces)
    np.testing.assert_array_equal(joined, A)
    parts = [part.shape[0] for part in split(kind(A[:410]), 10_000, 100)]
    assert min(parts) > 0.9 * max(parts)  # none is left with a few rows


PEAKS = """
import shutil, sys, tempfile, threading, time, warnings
import fastanchors as fa
warnings.simplefilter("ignore")
def held():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon")) >> 10
def watch():
    global peak
    while running:
        peak = max(peak, held())
        time.sleep(0.002)
def build(path):
    with tempfile.TemporaryDirectory(dir=sys.argv[1]) as folder:
        fa.build(path, folder + "/s", memory_limit=32 << 20, normalize=None, n_jobs=1, sidecars=()).close()
path = sys.argv[1] + "/" + sys.argv[2]
build(path.replace("large", "small"))
before, peak, running = held(), 0, True
thread = threading.Thread(target=watch)
thread.start()
try:
    build(path)
finally:
    running = False
    thread.join()
print(peak - before)
"""


def write_tiles(path, rows):
    rasterio = pytest.importorskip("rasterio", reason="extra geo")
    shape = (20, rows // 400, 400)
    size = dict(zip(("count", "height", "width"), shape, strict=True), dtype="float64", interleave="band")
    tiles = {"tiled": True, "blockxsize": 256, "blockysize": 256, "compress": "deflate", "zlevel": 1}
    with rasterio.open(path, "w", driver="GTiff", **size, **tiles) as file:
        file.write((np.arange(np.prod(shape)).reshape(shape) % 251).astype(float))


def write_columns(path, rows):
    zarr = pytest.importorskip("zarr", reason="extra io")
    A = (np.arange(rows * 24).reshape(rows, -1) % 251).astype(float)
    zarr.create_array(str(path), data=A, chunks=(rows, 2))


def write_names(path, rows):
    pa = pytest.importorskip("pyarrow", reason="extra io")
    pq = pytest.importorskip("pyarrow.parquet", reason="extra io")
    pq.write_table(pa.table({"id": [f"{i:0200d}" for i in range(rows)], "a": np.ones(rows)}), path)


def write_anndata(path, rows):
    h5py = pytest.importorskip("h5py", reason="extra io")
    with h5py.File(path, "w") as file:
        X = file.create_group("X")
        X.attrs.update({"encoding-type": "csr_matrix", "shape": (rows, 3)})
        X["data"], X["indices"], X["indptr"] = np.ones(rows), np.arange(rows) % 3, np.arange(rows + 1)
        file["obs/_index"] = np.array([f"{i:065d}" for i in range(rows)], "S65")


@pytest.mark.filterwarnings("ignore:Dataset has no geotransform")
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="memory is read from /proc")
@pytest.mark.parametrize(
    ("name", "write", "rows"),
    [
        ("large.tif", write_tiles, 256_000),
        ("large.zarr", write_columns, 250_000),
        ("large.parquet", write_names, 200_000),
        ("large.h5ad", write_anndata, 300_000),
    ],
)
def test_builds_stay_within_the_limit(tmp_path, name, write, rows):
    write(tmp_path / name, rows)
    write(tmp_path / name.replace("large", "small"), 2000)
    done = subprocess.run([sys.executable, "-c", PEAKS, tmp_path, name], capture_output=True, text=True, check=True)
    print("PEAK", name, done.stdout)
    assert int(done.stdout) < 40  # MiB; allocators keep some of what was released
