"""Arrays in compressed chunks that span many blocks: each chunk is decoded once, with the same entries."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import fastanchors as fa
from fastanchors.io.chunked import by_chunks


class Chunks:
    """An array in memory that is read as data sets of h5py are; counts how often each entry is read."""

    def __init__(self, array, chunks):
        self.array, self.chunks, self.shape, self.dtype = array, chunks, array.shape, array.dtype
        self.times = np.zeros(array.shape, int)

    def __getitem__(self, index):
        self.times[index] += 1
        return self.array[index]

    def read_direct(self, out, source, dest):
        out[dest] = self[source]


@given(st.data())
def test_chunks_are_read_once_by_slices_of_any_thickness(data):
    shape = data.draw(st.lists(st.integers(1, 9), min_size=2, max_size=3))
    chunks = tuple(data.draw(st.integers(1, size + 2)) for size in shape)
    axis, step = data.draw(st.integers(0, len(shape) - 1)), data.draw(st.integers(1, 10))
    A = Chunks(np.arange(np.prod(shape), dtype=data.draw(st.sampled_from(["<i4", ">i4"]))).reshape(shape), chunks)
    read = by_chunks(A, axis)
    before = (slice(None),) * axis
    parts = [read[(*before, slice(start, start + step))] for start in range(0, shape[axis], step)]
    np.testing.assert_array_equal(np.concatenate(parts, axis), A.array)
    assert {part.dtype for part in parts} == {A.dtype}
    assert (A.times == 1).all()
    if read is not A:
        assert read._held is None
        read[(*before, slice(0, 1))]
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(read))[before], A.array)


def rows_of(path, max_bytes=2000, **options):
    return np.concatenate(list(fa.io.open_source(path, **options).blocks(max_bytes)))


@pytest.mark.parametrize("chunks", [(300, 8), (300, 1), (100, 3), (7, 5)])
def test_matrices_of_zarr_and_hdf5(tmp_path, chunks):
    h5py = pytest.importorskip("h5py", reason="extra io")
    zarr = pytest.importorskip("zarr", reason="extra io")
    A = np.random.default_rng(0).integers(1, 99, (300, 8)).astype(np.int16)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("a", data=A, chunks=chunks, compression="gzip")
    with h5py.File(tmp_path / "a.h5ad", "w") as file:
        file.create_dataset("X", data=A, chunks=chunks, compression="gzip")
    with h5py.File(tmp_path / "a.mat", "w") as file:
        file.create_dataset("a", data=A.T, chunks=chunks[::-1], compression="gzip")
    zarr.create_array(str(tmp_path / "a.zarr"), data=A, chunks=chunks)
    for name in ("a.h5", "a.h5ad", "a.mat", "a.zarr"):
        np.testing.assert_array_equal(rows_of(tmp_path / name), A)
    np.testing.assert_array_equal(rows_of(tmp_path / "a.mat", transpose=True), A.T)


@pytest.mark.parametrize("chunks", [(5, 12, 9), (1, 12, 9), (2, 5, 4)])
def test_cubes_of_netcdf_and_matlab(tmp_path, chunks):
    h5py = pytest.importorskip("h5py", reason="extra io")
    cube = np.random.default_rng(0).integers(1, 99, (5, 12, 9)).astype(np.int16)
    for name in ("a.nc", "a.mat"):
        with h5py.File(tmp_path / name, "w") as file:
            file.create_dataset("a", data=cube, chunks=chunks, compression="gzip")
    expected = cube.reshape(5, -1).T
    for max_bytes in (40, 300, 1 << 20):
        np.testing.assert_array_equal(rows_of(tmp_path / "a.nc", max_bytes, bands="first"), expected)
        np.testing.assert_array_equal(rows_of(tmp_path / "a.mat", max_bytes), expected)
        np.testing.assert_array_equal(rows_of(tmp_path / "a.mat", max_bytes, transpose=True), expected.T)


@pytest.mark.parametrize("interleave", ["band", "pixel"])
@pytest.mark.parametrize("layout", [{}, {"blockysize": 70}, {"tiled": True, "blockxsize": 16, "blockysize": 32}])
@pytest.mark.filterwarnings("ignore:Dataset has no geotransform")
def test_layouts_of_geotiff(tmp_path, interleave, layout):
    rasterio = pytest.importorskip("rasterio", reason="extra geo")
    cube = np.random.default_rng(0).integers(1, 99, (5, 70, 40)).astype(np.uint16)
    size = {"count": 5, "height": 70, "width": 40, "dtype": "uint16"}
    with rasterio.open(tmp_path / "a.tif", "w", driver="GTiff", interleave=interleave, **size, **layout) as file:
        file.write(cube)
    for max_bytes in (100, 3000, 1 << 20):
        np.testing.assert_array_equal(rows_of(tmp_path / "a.tif", max_bytes), cube.reshape(5, -1).T)


def test_names_of_anndata_in_pieces(tmp_path, monkeypatch):
    h5py = pytest.importorskip("h5py", reason="extra io")
    path = tmp_path / "a.h5ad"
    names = [f"cell {i % 7}" for i in range(50)]
    texts = h5py.string_dtype()
    for kind in ("plain", "fixed", "categorical", "nullable", "table"):
        with h5py.File(path, "w") as file:
            file.create_dataset("X", data=np.ones((50, 2)))
            if kind == "table":
                file["obs"] = np.array([(name.encode(),) for name in names], [("index", "S9")])
                continue
            obs = file.create_group("obs")
            if kind == "plain":
                obs.create_dataset("_index", data=names, dtype=texts)
            elif kind == "fixed":
                obs.create_dataset("_index", data=np.array(names, "S9"), chunks=(50,), compression="gzip")
            elif kind == "categorical":
                obs["_index/codes"] = np.arange(50) % 7
                obs.create_dataset("_index/categories", data=names[:7], dtype=texts)
            else:
                obs.create_dataset("_index/values", data=names, dtype=texts)
                obs["_index/mask"] = np.arange(50) == 44
        monkeypatch.setattr("fastanchors.io.hdf5._NAMES", 9)
        read = fa.io.open_source(path).row_names
        assert list(read) == [*names[:44], "<NA>" if kind == "nullable" else names[44], *names[45:]]
        assert not isinstance(read, list)
        monkeypatch.setattr("fastanchors.io.hdf5._NAMES", 99)
        assert fa.io.open_source(path).row_names == list(read)


def test_big_endian_cubes_and_columns(tmp_path):
    """Pieces of two chunks were joined in the byte order of the machine, and taken for the one of the file."""
    h5py = pytest.importorskip("h5py", reason="extra io")
    A = np.random.default_rng(0).integers(1, 999, (40, 30, 6))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("cube", data=A.astype(">u2"), chunks=(30, 30, 6), compression="gzip")
    for max_bytes in (2500, 4000, 9000, 1 << 20):
        np.testing.assert_array_equal(rows_of(tmp_path / "a.h5", max_bytes, bands="last"), A.reshape(-1, 6))
    B = sp.csc_array(A[0].astype(np.float32))
    with h5py.File(tmp_path / "b.h5ad", "w") as file:
        X = file.create_group("X")
        X.attrs["encoding-type"], X.attrs["shape"] = "csc_matrix", B.shape
        X["data"], X["indices"], X["indptr"] = B.data.astype(">f4"), B.indices, B.indptr
    for max_bytes in (500, 1 << 20):
        blocks = fa.io.open_source(tmp_path / "b.h5ad").blocks(max_bytes)
        np.testing.assert_array_equal(sp.vstack(list(blocks)).toarray(), A[0])
