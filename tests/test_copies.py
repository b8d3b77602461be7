"""Copies and pickles of results are complete, and independent of the original."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import scipy.io

import fastanchors as fa
from fastanchors.errors import StoreError

ROWS = fa.datasets.separable(60, 8, 3, noise=0.02, rng=0).A


def test_a_copy_of_an_estimator_has_its_own_rows():
    model = fa.SeparableNMF(3).partial_fit(ROWS)
    other = copy.copy(model).partial_fit(ROWS)
    assert (other.n_samples_seen_, model.partial_fit(ROWS[:10]).n_samples_seen_) == (120, 70)
    assert copy.copy(fa.SeparableNMF(4)).n_components == 4


def test_a_copy_of_a_vector_has_its_own_entries():
    vector = fa.VectorSampler([1.0, 2.0])
    other = copy.copy(vector)
    other[0] = 5.0
    assert (vector[0], other[0], vector.norm, other.norm) == (1.0, 5.0, np.sqrt(5.0), np.sqrt(29.0))


def test_an_unmixing_of_an_array_can_be_pickled():
    result = fa.apps.unmix(ROWS, 3)
    again = pickle.loads(pickle.dumps(result))
    assert np.array_equal(again.abundances, result.abundances)
    assert np.array_equal(np.concatenate(list(again.cube.source.blocks(1000))), ROWS)


def scene_file(path):
    cube = ROWS.reshape(6, 10, 8)
    if path.suffix == ".npy":
        np.save(path, cube)
    elif path.suffix == ".npz":
        np.savez(path, cube=cube)
    elif path.suffix == ".mat":
        scipy.io.savemat(path, {"cube": cube})
    elif path.suffix == ".csv":
        np.savetxt(path, ROWS, delimiter=",", header=",".join("abcdefgh"), comments="")
    elif path.suffix == ".hdr":
        cube.tofile(path.with_suffix(".img"))
        size = "samples = 10\nlines = 6\nbands = 8\n"
        path.write_text(f"ENVI\n{size}data type = 5\ninterleave = bip\nbyte order = 0\n")
    else:
        with pytest.importorskip("h5py", reason="extra io").File(path, "w") as file:
            file["cube"] = cube if path.name == "cube.h5" else ROWS
    return path


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda result: pickle.loads(pickle.dumps(result))])
@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.mat", "x.csv", "x.hdr", "cube.h5", "rows.h5"])
def test_an_unmixing_of_a_file_is_copied_without_its_pixels_and_reads_them_from_the_file(
    tmp_path, monkeypatch, name, duplicate
):
    scene_file(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    result = fa.apps.unmix(name, 3)
    pixels = result.cube.pixels
    again = duplicate(result)
    monkeypatch.chdir("/")
    assert "pixels" not in vars(again.cube)
    assert np.array_equal(again.abundances, result.abundances)
    assert again.cube.shape == result.cube.shape
    assert np.array_equal(again.cube.pixels, pixels)
    assert np.array_equal(duplicate(again).cube.pixels, pixels)


def test_a_pickled_unmixing_whose_file_is_gone_or_has_changed_keeps_its_results(tmp_path):
    path = scene_file(tmp_path / "x.npy")
    pickled = pickle.dumps(fa.apps.unmix(path, 3))
    np.save(path, ROWS[:30])
    assert pickle.loads(pickled).maps.shape == (6, 10, 3)
    with pytest.raises(
        StoreError, match=r"x\.npy has changed: it is 30 pixels × 8 bands, and was 60 pixels × 8 bands; op"
    ):
        _ = pickle.loads(pickled).cube.pixels
    path.unlink()
    with pytest.raises(StoreError, match=r"x\.npy does not exist"):
        _ = pickle.loads(pickled).cube.pixels


@pytest.mark.parametrize("library", ["xarray", "spectral"])
def test_an_unmixing_of_an_image_object_can_be_pickled(tmp_path, library):
    module = pytest.importorskip(library, reason="extra dev")
    if library == "xarray":
        image = module.DataArray(ROWS.reshape(6, 10, 8), dims=("y", "x", "band"))
    else:
        image = module.open_image(str(scene_file(tmp_path / "x.hdr")))
    again = pickle.loads(pickle.dumps(fa.apps.unmix(image, 3)))
    assert np.array_equal(again.cube.pixels, ROWS)


def test_opened_files_are_read_as_advised(tmp_path):
    np.save(tmp_path / "rows.npy", ROWS)
    opened = fa.open_matrix(tmp_path / "rows.npy")
    assert fa.SampleMatrix(opened).shape == ROWS.shape
    assert fa.cur(opened, 2, rng=0).rows.tolist() == fa.cur(ROWS, 2, rng=0).rows.tolist()


def test_lazy_weights_become_a_polars_frame():
    da = pytest.importorskip("dask.array", reason="extra dask")
    pl = pytest.importorskip("polars", reason="extra dev")
    model = fa.SeparableNMF(3).set_output(transform="polars")
    lazy = da.from_array(ROWS, chunks=(20, 8))
    for weights in (model.fit_transform(lazy), model.transform(lazy)):
        assert isinstance(weights, pl.DataFrame)
        assert weights.shape == (60, 3)


def test_annotated_data_are_approximated():
    anndata = pytest.importorskip("anndata", reason="extra anndata")
    found = fa.cur(anndata.AnnData(ROWS), 2, rng=0)
    assert found.rows.tolist() == fa.cur(ROWS, 2, rng=0).rows.tolist()
