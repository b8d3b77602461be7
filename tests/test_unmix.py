"""Unmixing: smoothed SPA against its naive twin, scenes with dark, odd, empty pixels and dead bands, every format."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.io

import fastanchors as fa
from fastanchors.apps._smoothed import smoothed_projection
from naive.apps import smoothed_projection as naive_smoothed


@pytest.fixture(scope="module")
def scene():
    return fa.datasets.hyperspectral(24, 30, 40, 3, rng=1)


def angle(scene, result):
    return fa.metrics.matched_spectral_angle(scene.components, result.endmembers).mean


@pytest.mark.parametrize("seed", range(8))
def test_smoothed_projection_is_the_farthest_mean_of_all_groups(seed):
    points = np.random.default_rng(seed).random((14, 3))
    found = smoothed_projection(points, 3, 3)
    assert [group.tolist() for group in found] == naive_smoothed(points, 3, 3)


def test_one_point_per_group_is_spa():
    data = fa.datasets.separable(200, 10, 4, rng=0).A
    groups = smoothed_projection(data, 4, 1)
    assert [int(group[0]) for group in groups] == fa.SPA().seek(data, 4).indices.tolist()


def test_an_outlier_moves_a_mean_by_its_share_only(scene):
    points = scene.A / scene.A.sum(axis=1, keepdims=True)
    spoiled = np.vstack([points, 3 * np.eye(40)[:1]])
    groups = smoothed_projection(spoiled, 3, 20)
    means = np.array([np.delete(spoiled, 720, axis=0)[group[group < 720]].mean(axis=0) for group in groups])
    assert fa.metrics.matched_spectral_angle(scene.components, means).mean < 0.03


def test_finds_materials_and_abundances(scene):
    result = fa.apps.unmix(scene.cube, 3)
    match = fa.metrics.matched_spectral_angle(scene.components, result.endmembers)
    assert match.mean < 0.03
    assert fa.metrics.abundance_rmse(scene.weights, result.abundances, match=match) < 0.06
    np.testing.assert_allclose(result.abundances.sum(axis=1), 1.0, atol=1e-12)
    assert result.maps.shape == (24, 30, 3)
    assert result.share.sum() == pytest.approx(1)
    for material, (row, column) in enumerate(result.positions()):
        assert row * 30 + column == result.anchors[material]
        assert result.anchors[material] in result.groups[material]
        np.testing.assert_allclose(result.endmembers[material], np.median(scene.A[result.groups[material]], axis=0))
    gap = scene.A - result.abundances @ result.endmembers
    assert result.relative_error == pytest.approx(np.linalg.norm(gap) / np.linalg.norm(scene.A))


@pytest.mark.parametrize("seed", range(3))
def test_dark_and_odd_pixels_do_not_mislead(seed):
    hard = fa.datasets.hyperspectral(40, 40, 60, 4, dark=60, outliers=15, snr=30.0, rng=seed)
    plain = hard.A[fa.SPA().seek(hard.A / hard.A.sum(axis=1, keepdims=True), 4).indices]
    assert angle(hard, fa.apps.unmix(hard.cube, 4)) < 0.03
    assert fa.metrics.matched_spectral_angle(hard.components, plain).mean > 0.3  # what the defaults are for


def test_empty_pixels_and_dead_bands(scene):
    cube = scene.cube.copy()
    cube[:4] = 0.0
    cube[4] = np.nan
    cube[5, :, :] = -9999.0
    cube[:, :, 7] = np.nan
    cube[:4, :, 7] = 0.0
    result = fa.apps.unmix(cube, 3, ignore=-9999.0)
    assert result.empty.tolist() == list(range(6 * 30))
    assert result.dead_bands.tolist() == [7]
    assert np.all(result.abundances[result.empty] == 0)
    assert np.all(result.endmembers[:, 7] == 0)
    assert np.all(result.anchors >= 180)
    rest = np.delete(np.arange(40), 7)
    assert fa.metrics.matched_spectral_angle(scene.components[:, rest], result.endmembers[:, rest]).mean < 0.05
    assert np.isnan(cube[4]).all()  # the caller's data is as it was


def test_integer_scenes_and_scale_do_not_matter(scene):
    counts = np.round(scene.cube * 10_000).astype(np.uint16)
    result, same = fa.apps.unmix(scene.cube, 3), fa.apps.unmix(counts, 3)
    assert same.anchors.tolist() == result.anchors.tolist()
    np.testing.assert_allclose(same.endmembers / 10_000, result.endmembers, atol=1e-4)


def test_bad_scenes_are_refused_with_the_place(scene):
    cube = scene.cube.copy()
    cube[3, 4, 5] = np.nan
    with pytest.raises(fa.errors.InvalidInputError, match=r"band 5 of pixel 94 \(row 3, column 4\) has no data"):
        fa.apps.unmix(cube, 3)
    cube[3, 4, 5] = -1.0
    with pytest.raises(fa.errors.InvalidInputError, match=r"band 5 of pixel 94 .*negative.*clip=True"):
        fa.apps.unmix(cube, 3)
    assert fa.apps.unmix(cube, 3, clip=True).empty.size == 0
    with pytest.raises(fa.errors.InvalidInputError, match="holds no data"):
        fa.apps.unmix(np.zeros((3, 3, 4)), 2)
    with pytest.raises(fa.errors.InvalidInputError, match="k = 41 is more than"):
        fa.apps.unmix(scene.cube, 41)
    with pytest.raises(fa.errors.InvalidInputError, match="does not hold 720 pixels"):
        fa.apps.unmix(scene.A, 3, shape=(7, 7))
    with pytest.raises(fa.errors.InvalidInputError, match=r"shape=\(height, width\)"):
        _ = fa.apps.unmix(scene.A, 3).maps
    with pytest.raises(fa.errors.RankError, match=r"ask for k ≤ 1"):
        fa.apps.unmix(np.ones((4, 4, 3)), 2)


# --- files ---------------------------------------------------------------------------------------------------------


def test_mat_matrix_takes_orientation_and_shape_from_its_neighbours(tmp_path, scene):
    flat = np.asfortranarray(scene.cube).reshape(-1, 40, order="F")
    scipy.io.savemat(tmp_path / "a.mat", {"Y": flat.T, "S_GT": scene.maps})
    scipy.io.savemat(tmp_path / "b.mat", {"Y": flat.T, "nRow": 24, "nCol": 30, "maxValue": 1.0})
    scipy.io.savemat(tmp_path / "c.mat", {"cube": scene.cube, "small": np.ones((2, 2))})
    scipy.io.savemat(tmp_path / "d.mat", {"Y": flat.T})
    for name in "abc":
        cube = fa.apps.read_cube(tmp_path / f"{name}.mat")
        assert cube.shape == (24, 30)
        np.testing.assert_array_equal(cube.image(cube.pixels), scene.cube)
    plain = fa.apps.read_cube(tmp_path / "d.mat")
    assert plain.shape is None
    assert plain.pixels.shape == (720, 40)
    given = fa.apps.read_cube(tmp_path / "d.mat", shape=(24, 30))
    np.testing.assert_array_equal(given.image(given.pixels), scene.cube)
    with pytest.raises(fa.errors.InvalidInputError, match="has no matrix or cube 'X'"):
        fa.apps.read_cube(tmp_path / "a.mat", variable="X")


def test_mat_7_3(tmp_path, scene):
    h5py = pytest.importorskip("h5py")  # the extra 'io'
    with h5py.File(tmp_path / "new.mat", "w", userblock_size=512) as file:
        file["cube"] = scene.cube.T
    with open(tmp_path / "new.mat", "r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file")
    cube = fa.apps.read_cube(tmp_path / "new.mat")
    np.testing.assert_array_equal(cube.image(cube.pixels), scene.cube)


def test_npy_with_bands_first(tmp_path, scene):
    np.save(tmp_path / "x.npy", np.moveaxis(scene.cube, -1, 0))
    cube = fa.apps.read_cube(tmp_path / "x.npy", bands="first")
    np.testing.assert_array_equal(cube.image(cube.pixels), scene.cube)


@pytest.mark.parametrize("interleave", ["bsq", "bil", "bip"])
@pytest.mark.parametrize(("code", "dtype"), [(4, "<f4"), (12, ">u2")])
def test_envi(tmp_path, scene, interleave, code, dtype):
    cube = (scene.cube * 1000).astype(np.dtype(dtype).newbyteorder("="))
    axes = {"bsq": (2, 0, 1), "bil": (0, 2, 1), "bip": (0, 1, 2)}[interleave]
    raw = np.ascontiguousarray(cube.transpose(axes)).astype(dtype)
    (tmp_path / "x.img").write_bytes(b"????????" + raw.tobytes())
    header = [
        "ENVI",
        "description = {a scene,",
        "  in two lines}",
        "samples = 30",
        "lines   = 24",
        "bands   = 40",
        "header offset = 8",
        f"data type = {code}",
        f"interleave = {interleave}",
        f"byte order = {int(dtype[0] == '>')}",
        "data ignore value = -1",
        "wavelength = {" + ", ".join(str(400 + 10 * band) for band in range(40)) + "}",
    ]
    (tmp_path / "x.hdr").write_text("\n".join(header) + "\n")
    read = fa.apps.read_cube(tmp_path / "x.hdr")
    np.testing.assert_array_equal(read.image(read.pixels), cube)
    assert read.wavelengths[1] == 410
    assert read.ignore == -1
    source = fa.io.open_source(tmp_path / "x.hdr")
    np.testing.assert_array_equal(np.vstack(list(source.blocks(1 << 12))), cube.reshape(-1, 40))


def test_envi_refuses_what_it_cannot_read(tmp_path):
    (tmp_path / "a.hdr").write_text("something else")
    with pytest.raises(fa.errors.StoreError, match="not an ENVI header"):
        fa.apps.read_cube(tmp_path / "a.hdr")
    text = "ENVI\nsamples = 2\nlines = 2\nbands = 2\ndata type = {}\ninterleave = bil\n"
    (tmp_path / "b.hdr").write_text(text.format(6))
    with pytest.raises(fa.errors.StoreError, match="data type 6"):
        fa.apps.read_cube(tmp_path / "b.hdr")
    (tmp_path / "b.hdr").write_text(text.format(1))
    with pytest.raises(fa.errors.StoreError, match="no image file beside"):
        fa.apps.read_cube(tmp_path / "b.hdr")
    (tmp_path / "b.raw").write_bytes(b"1234567")
    with pytest.raises(fa.errors.StoreError, match="truncated: 7 bytes, the header asks for 8"):
        fa.apps.read_cube(tmp_path / "b.hdr")
    (tmp_path / "b.hdr").write_text(text.format(1).replace("bands = 2\n", ""))
    with pytest.raises(fa.errors.StoreError, match="'bands' must be a whole number"):
        fa.apps.read_cube(tmp_path / "b.hdr")
    with pytest.raises(fa.errors.StoreError, match="does not exist"):
        fa.apps.read_cube(tmp_path / "none.hdr")
