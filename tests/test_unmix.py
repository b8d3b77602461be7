"""Unmixing: smoothed SPA against its naive twin; scenes with dark, outlier and empty pixels and dead bands; formats."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

import fastanchors as fa
from fastanchors.apps._cube import as_cube
from fastanchors.apps._outliers import ScaledPixels, find_outliers
from fastanchors.greedy.groups import cores
from fastanchors.greedy.selection import smoothed_groups
from naive.apps import leverages as naive_leverages
from naive.apps import smoothed_projection as naive_smoothed


@pytest.fixture(scope="module")
def scene():
    return fa.datasets.hyperspectral(24, 30, 40, 3, rng=1)


def angle(scene, result):
    return fa.metrics.matched_spectral_angle(scene.components, result.endmembers).mean


@pytest.mark.parametrize("seed", range(8))
def test_smoothed_projection_is_the_farthest_mean_of_all_groups(seed):
    points = np.random.default_rng(seed).random((14, 3))
    found = smoothed_groups(points, 3, 3)
    assert [group.tolist() for group in found] == naive_smoothed(points, 3, 3)


def test_one_point_per_group_is_spa():
    data = fa.datasets.separable(200, 10, 4, rng=0).A
    groups = smoothed_groups(data, 4, 1)
    assert [int(group[0]) for group in groups] == fa.SPA().seek(data, 4).indices.tolist()


def test_an_outlier_moves_a_mean_by_its_share_only(scene):
    points = scene.A / scene.A.sum(axis=1, keepdims=True)
    spoiled = np.vstack([points, 3 * np.eye(40)[:1]])
    groups = smoothed_groups(spoiled, 3, 20)
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
        own = scene.A[result.groups[material]]
        if result.method == "groups":
            np.testing.assert_allclose(result.endmembers[material], np.median(own, axis=0))
        true = scene.components[match.true[match.found.tolist().index(material)]]
        assert result.endmembers[material].sum() == pytest.approx(true.sum(), rel=0.005)
    gap = scene.A - result.abundances @ result.endmembers
    assert result.relative_error == pytest.approx(np.linalg.norm(gap) / np.linalg.norm(scene.A))


@pytest.mark.parametrize("seed", range(3))
def test_noisy_mixtures_are_distinguished_from_materials_that_vary(seed):
    """All pixels are used if they are mixtures; groups of pixels are used if each material has varying spectra."""
    made, rng = fa.datasets.hyperspectral(60, 60, 80, 4, snr=30.0, pure=1, rng=seed), np.random.default_rng(seed)
    auto, groups = fa.apps.unmix(made.cube, 4), fa.apps.unmix(made.cube, 4, method="groups")
    assert (auto.method, groups.method) == ("vertices", "groups")
    assert angle(made, auto) < 0.65 * angle(made, groups)  # smaller groups if a vertex would be missed
    bend = np.cumsum(rng.standard_normal((3600, 80)), axis=1) / 80  # smooth, different for every pixel
    gamma = np.exp(0.25 * rng.standard_normal((3600, 1)))
    for varied in (made.A * np.exp(bend), made.A**gamma):
        assert fa.apps.unmix(varied, 4).method == "refined"
    with pytest.raises(fa.errors.InvalidInputError, match="method must be"):
        fa.apps.unmix(made.cube, 4, method="best")


@pytest.mark.parametrize("rule", ["spa", "smoothed", "smoothed-one", "pseudo-points", "lifted", "whitened"])
def test_materials_by_a_named_rule(rule):
    made = fa.datasets.hyperspectral(40, 50, 60, 4, snr=50, rng=1)
    result = fa.apps.unmix(made.cube, 4, selection=rule)
    assert result.method == rule
    assert len(set(result.anchors.tolist())) == 4
    assert fa.metrics.matched_spectral_angle(made.components, result.endmembers).mean < 0.05
    if rule == "spa":
        assert result.anchors.tolist() == fa.SPA().seek(made.A, 4).indices.tolist()
        np.testing.assert_array_equal(result.endmembers, made.A[result.anchors])


@pytest.mark.parametrize("bands", [2, 38])
def test_a_single_material_is_the_same_by_every_noise_aware_rule(bands):
    """It was an error of NumPy: the pixels have no coordinates to compare."""
    cube = fa.datasets.hyperspectral(16, 15, bands=38, k=2, rng=0).cube[:, :, :bands]
    expected = fa.apps.unmix(cube, 1).endmembers
    for rule in ("smoothed", "smoothed-one", "pseudo-points", "lifted", "whitened"):
        np.testing.assert_array_equal(fa.apps.unmix(cube, 1, selection=rule).endmembers, expected)


def test_selection_is_a_known_rule_and_goes_without_a_method():
    made = fa.datasets.hyperspectral(12, 10, 30, 3, rng=0)
    with pytest.raises(fa.errors.InvalidInputError, match="selection must be one of 'auto', 'spa'"):
        fa.apps.unmix(made.cube, 3, selection="best")
    with pytest.raises(fa.errors.InvalidInputError, match="remove it"):
        fa.apps.unmix(made.cube, 3, selection="spa", method="groups")


@pytest.mark.parametrize("seed", range(3))
def test_dark_pixels_and_outliers_do_not_change_the_materials(seed):
    hard = fa.datasets.hyperspectral(40, 40, 60, 4, dark=60, outliers=15, snr=30.0, rng=seed)
    plain = hard.A[fa.SPA().seek(hard.A / hard.A.sum(axis=1, keepdims=True), 4).indices]
    assert angle(hard, fa.apps.unmix(hard.cube, 4)) < 0.03
    assert fa.metrics.matched_spectral_angle(hard.components, plain).mean > 0.3  # the purpose of the defaults


def test_leverages_equal_their_twin(scene):
    pixels = ScaledPixels(scene.A, np.arange(40))
    values, axes = pixels.axes(np.ones(720, dtype=bool))
    brightness = scene.A.sum(axis=1)
    rows = scene.A / np.maximum(brightness, np.median(brightness))[:, None]
    np.testing.assert_allclose(pixels.leverages(values[:9], axes[:, :9]), naive_leverages(rows, 9), atol=1e-10)


@pytest.mark.parametrize("spikes", [[(3, 4, 5, 20.0)], [(3, 4, 5, 20.0), (20, 1, 30, 300.0), (9, 9, 0, 7.0)]])
def test_a_spike_in_a_pixel_changes_nothing(scene, spikes):
    cube = scene.cube.copy()
    for row, column, band, value in spikes:
        cube[row, column, band] = value * scene.cube.max()
    clean, result = fa.apps.unmix(scene.cube, 3), fa.apps.unmix(cube, 3)
    assert sorted(result.outliers) == sorted(row * 30 + column for row, column, _, _ in spikes)
    assert clean.outliers.size == 0
    np.testing.assert_allclose(result.endmembers, clean.endmembers, atol=0.01)
    assert result.relative_error == pytest.approx(clean.relative_error, rel=0.05)
    np.testing.assert_allclose(result.abundances.sum(axis=1), 1.0, atol=1e-12)  # outlier pixels have abundances too


@pytest.mark.parametrize("seed", range(3))
def test_many_spiked_pixels_are_set_aside_and_no_others(seed):
    scene, rng = fa.datasets.hyperspectral(40, 40, 80, 4, rng=seed), np.random.default_rng(seed)
    X, at = scene.A.copy(), rng.choice(1600, 64, replace=False)
    X[at, rng.permutation(80)[:64]] = 5 * X.max()
    result = fa.apps.unmix(X, 4)
    assert sorted(result.outliers) == sorted(at)
    assert angle(scene, result) < 0.02


@pytest.mark.parametrize("seed", range(3))
def test_outliers_would_replace_materials_if_kept(seed):
    hard = fa.datasets.hyperspectral(20, 20, 30, 10, dark=60, outliers=15, rng=seed)
    result = fa.apps.unmix(hard.cube, 10)
    assert sorted(result.outliers) == sorted(hard.outliers)
    assert angle(hard, result) < 0.02
    assert angle(hard, fa.apps.unmix(hard.cube, 10, keep_outliers=True)) > 0.2  # the reason for setting them aside


def test_a_hot_band_of_a_whole_column_is_not_a_material(scene):
    cube = scene.cube.copy()
    cube[:, 7, 20] = 5 * cube.max()
    image, result = fa.apps.unmix(cube, 3), fa.apps.unmix(cube.reshape(-1, 40), 3)
    assert image.bad_columns.tolist() == [7]
    assert angle(scene, image) < 0.02
    assert result.hot_bands.tolist() == [20]  # without an image there are no columns
    assert angle(scene, result) < 0.02
    match = fa.metrics.matched_spectral_angle(scene.components, result.endmembers)
    assert fa.metrics.abundance_rmse(scene.weights, result.abundances, match=match) < 0.06


@pytest.mark.parametrize("share", [0.005, 0.01, 0.02])
@pytest.mark.parametrize("seed", range(3))
def test_a_rare_material_is_neither_an_outlier_nor_diluted(seed, share):
    made, rng = fa.datasets.hyperspectral(48, 50, 60, 4, rng=seed), np.random.default_rng(seed)
    weights = made.weights * [1, 1, 1, 0] + 1e-9
    weights /= weights.sum(axis=1, keepdims=True)
    weights[rng.choice(2400, int(share * 2400), replace=False)] = [0, 0, 0, 1]
    X = np.maximum(weights @ made.components + 0.005 * rng.standard_normal(made.A.shape), 0)
    result = fa.apps.unmix(X, 4)
    assert result.outliers.size == 0
    assert result.hot_bands.size == 0
    assert fa.metrics.matched_spectral_angle(made.components, result.endmembers).values.max() < 0.05


def test_cores_keep_similar_points_and_drop_others():
    rng = np.random.default_rng(0)
    pure = np.repeat(np.eye(3), [40, 40, 5], axis=0)
    points = np.vstack([pure, rng.dirichlet([1, 1], 60) @ np.eye(3)[:2]]) + 0.01 * rng.standard_normal((145, 3))
    groups = smoothed_groups(points, 3, 20)
    kept = {tuple(group) for group in cores(points, groups)}
    assert tuple(range(80, 85)) in kept
    assert sum(len(group) == 20 for group in kept) == 2


def test_groups_of_one_pixel_are_not_outliers_if_requested(scene):
    X = np.vstack([scene.A, 9 * np.eye(40)[:1]])
    assert find_outliers(X, 3, 30)[0].tolist() == [False] * 720 + [True]
    assert not find_outliers(X, 3, 1)[0].any()


def test_empty_pixels_and_dead_bands(scene):
    cube = scene.cube.copy()
    cube[:4] = 0.0
    cube[4] = np.nan
    cube[5, :, :] = -9999.0
    cube[:, :, 7] = np.nan
    cube[:4, :, 7] = 0.0
    result = fa.apps.unmix(cube, 3, nodata=-9999.0)
    assert result.empty.tolist() == list(range(6 * 30))
    assert result.dead_bands.tolist() == [7]
    assert np.all(result.abundances[result.empty] == 0)
    assert np.all(result.endmembers[:, 7] == 0)
    assert np.all(result.anchors >= 180)
    rest = np.delete(np.arange(40), 7)
    assert fa.metrics.matched_spectral_angle(scene.components[:, rest], result.endmembers[:, rest]).mean < 0.05
    assert np.isnan(cube[4]).all()  # the caller's data is as it was


def test_bands_of_zeros_are_dead_and_single_zeros_are_measured(scene):
    cube = scene.cube.copy()
    cube[:, :, 30:] = 0.0
    cube[2, 3, 4] = 0.0
    result = fa.apps.unmix(cube, 3, nodata=0)
    assert result.dead_bands.tolist() == list(range(30, 40))
    assert result.empty.size == 0


def test_pixels_with_gaps_are_left_out_and_counted(scene):
    counts = np.round(scene.cube * 1000).astype(np.uint16)
    counts[3, 4, 5] = 65535
    floats = scene.cube.copy()
    floats[3, 4, 5] = np.nan
    for cube, nodata in ((counts, 65535), (floats, None)):
        result = fa.apps.unmix(cube, 3, nodata=nodata)
        assert result.incomplete.tolist() == result.left_out.tolist() == [94]
        assert result.empty.size == result.outliers.size == 0
        assert np.all(result.abundances[94] == 0)
        assert result.share.sum() == pytest.approx(1)
        assert angle(scene, result) < 0.03
    assert fa.apps.unmix(counts, 3, nodata=float("nan")).outliers.tolist() == [94]
    counts[3, 4] = 65535
    assert fa.apps.unmix(counts, 3, nodata=65535).empty.tolist() == [94]
    floats[:20, :, 6] = np.nan
    with pytest.raises(fa.errors.InvalidInputError, match=r"600 of 720 pixels lack .* band 6 in 600 .*drop_bands="):
        fa.apps.unmix(floats, 3)
    assert fa.apps.unmix(floats, 3, drop_bands=[6]).incomplete.tolist() == [94]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16])
def test_a_clipped_border_without_data_is_not_a_material(scene, dtype):
    cube = (scene.cube * 1000).astype(dtype)
    framed = np.pad(cube, ((4, 4), (4, 4), (0, 0)), constant_values=-9999)
    inside = np.pad(np.ones((24, 30), bool), 4).ravel()
    plain = fa.apps.unmix(cube, 3)
    for options in ({"clip": True}, {"nodata": -9999}, {"nodata": -9999, "clip": True}):
        result = fa.apps.unmix(framed, 3, **options)
        np.testing.assert_array_equal(result.empty, np.flatnonzero(~inside))
        np.testing.assert_allclose(result.endmembers, plain.endmembers)
        np.testing.assert_allclose(result.share, plain.share)
    with pytest.raises(fa.errors.InvalidInputError, match=r"\(-9999\).*nodata=-9999$"):
        fa.apps.unmix(framed, 3)
    framed[0, 0, 3] = 7  # not entirely empty: clipping would hide that the rest is missing
    with pytest.raises(fa.errors.InvalidInputError, match=r"pixel 0 .*\(-9999\).*nodata=-9999$"):
        fa.apps.unmix(framed, 3, clip=True)
    assert fa.apps.unmix(framed, 3, clip=True, nodata=-9999).incomplete.tolist() == [0]


@pytest.mark.parametrize("dtype", [np.float32, np.uint16])
def test_masked_arrays_keep_their_mask(scene, dtype):
    cube = np.ma.masked_array((scene.cube * 1000).astype(dtype), mask=np.zeros(scene.cube.shape, bool))
    cube.data[:5] = 60_000  # masked values do not matter
    cube.mask[:5] = True
    cube.mask[10, 10, 3] = True
    result = fa.apps.unmix(cube, 3)
    assert result.empty.tolist() == list(range(150))
    assert result.incomplete.tolist() == [310]
    assert angle(scene, result) < 0.05
    lazy = pytest.importorskip("dask.array").from_array(cube, chunks=(8, 30, -1))
    np.testing.assert_array_equal(as_cube(lazy).pixels, result.cube.pixels)


def test_masks_and_dropped_bands(scene, tmp_path):
    mask = np.ones((24, 30), dtype=np.uint8)
    mask[:2] = 0
    cube = scene.cube.copy()
    cube[:2] = -5.0
    cube[:, :, 9] = -1.0
    result = fa.apps.unmix(cube, 3, mask=mask, drop_bands=[9])
    assert result.empty.tolist() == list(range(60))
    assert result.dropped_bands.tolist() == [9]
    assert np.all(result.endmembers[:, 9] == 0)
    np.save(tmp_path / "mask.npy", mask)
    np.testing.assert_array_equal(fa.apps.read_mask(tmp_path / "mask.npy", result.cube), mask.ravel() == 1)
    turned = fa.apps.unmix(scene.A, 3, shape=(24, 30), order="F").cube
    np.testing.assert_array_equal(fa.apps.read_mask(tmp_path / "mask.npy", turned), mask.ravel(order="F") == 1)
    with pytest.raises(fa.errors.InvalidInputError, match=r"\(30, 24\).*image of 24×30"):
        fa.apps.unmix(cube, 3, mask=mask.T)
    with pytest.raises(fa.errors.InvalidInputError, match="no band 40"):
        fa.apps.unmix(cube, 3, drop_bands=[40])
    with pytest.raises(fa.errors.InvalidInputError, match="all 40 bands"):
        fa.apps.unmix(cube, 3, drop_bands=range(40))


def test_large_scenes_are_searched_in_a_sample(scene, monkeypatch):
    monkeypatch.setattr("fastanchors.apps._unmix._SEARCHED", 400)
    monkeypatch.setattr("fastanchors.apps._cube._BLOCK_BYTES", 1 << 14)
    out = np.full((720, 3), 7, dtype=np.float32)
    result = fa.apps.unmix(scene.cube, 3, out=out)
    assert result.abundances is out
    assert result.searched == 400
    np.testing.assert_allclose(out.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(out, fa.encode(scene.A, result.endmembers, sum_to_one=True), atol=1e-6)
    assert angle(scene, result) < 0.03
    with pytest.raises(fa.errors.InvalidInputError, match=r"out must be .*\(720, 3\)"):
        fa.apps.unmix(scene.cube, 3, out=out[:9])


def test_integer_scenes_and_scale_do_not_matter(scene):
    counts = np.round(scene.cube * 10_000).astype(np.uint16)
    result, same = fa.apps.unmix(scene.cube, 3), fa.apps.unmix(counts, 3)
    assert fa.apps.unmix(scene.cube * 4096, 3).anchors.tolist() == result.anchors.tolist()
    groups = [fa.apps.unmix(cube, 3, method="groups").anchors.tolist() for cube in (scene.cube, counts)]
    assert groups[0] == groups[1]
    np.testing.assert_allclose(same.endmembers / 10_000, result.endmembers, atol=1e-4)


def test_bad_scenes_are_refused_with_the_place(scene):
    cube = scene.cube.copy()
    cube[3, 4, 5] = -1.0
    with pytest.raises(
        fa.errors.InvalidInputError, match=r"band 5 of pixel 94 \(row 3, column 4\) .*negative.*clip=True.*nodata="
    ):
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
    with pytest.raises(fa.errors.RankError, match=r"use k ≤ 1"):
        fa.apps.unmix(np.ones((4, 4, 3)), 2)


# --- files ---------------------------------------------------------------------------------------------------------


def test_mat_matrix_takes_orientation_and_shape_from_other_variables(tmp_path, scene):
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


def test_another_axis_that_looks_like_the_bands_is_named(tmp_path, scene):
    for axis, name in enumerate(["first", "middle"]):
        np.save(tmp_path / "x.npy", np.moveaxis(scene.cube, -1, axis))
        with pytest.warns(fa.errors.GuessWarning, match=f"the {name} axis looks like the bands.*bands='{name}'"):
            fa.apps.read_cube(tmp_path / "x.npy")
        cube = fa.apps.read_cube(tmp_path / "x.npy", bands=name)
        np.testing.assert_array_equal(cube.image(cube.pixels), scene.cube)
    with pytest.warns(fa.errors.GuessWarning, match="first axis looks like the bands"):
        fa.apps.unmix(np.moveaxis(scene.cube, -1, 0), 3)


def test_a_square_matrix_is_said_to_be_taken_as_pixels_and_bands(tmp_path, scene):
    np.save(tmp_path / "x.npy", scene.cube[:, :24, 0])
    with pytest.warns(fa.errors.GuessWarning, match="24 pixels with 24 bands each.*single band"):
        fa.apps.read_cube(tmp_path / "x.npy")
    with pytest.raises(fa.errors.InvalidInputError, match="no middle axis"):
        fa.apps.read_cube(tmp_path / "x.npy", bands="middle")


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
    assert read.info.ignore == -1
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
    with pytest.raises(fa.errors.StoreError, match="truncated: it has 7 bytes, the header requires 8"):
        fa.apps.read_cube(tmp_path / "b.hdr")
    (tmp_path / "b.hdr").write_text(text.format(1).replace("bands = 2\n", ""))
    with pytest.raises(fa.errors.StoreError, match="'bands' must be a whole number"):
        fa.apps.read_cube(tmp_path / "b.hdr")
    with pytest.raises(fa.errors.StoreError, match="does not exist"):
        fa.apps.read_cube(tmp_path / "none.hdr")


def test_header_fields_are_used_and_written(tmp_path, scene):
    """Bad bands, scale, no-data value, wavelengths and the place on the map."""
    stored = np.round(scene.cube * 10_000).astype(np.int16)
    stored[:, :, [3, 17]] = -50
    stored[0] = -9999
    stored.transpose(2, 0, 1).tofile(tmp_path / "x.img")
    good = [0 if band in (3, 17) else 1 for band in range(40)]
    place = "UTM, 1, 1, 500000, 4100000, 60, 60, 11, North, WGS-84, units=Meters"
    header = {
        "samples": 30,
        "lines": 24,
        "bands": 40,
        "data type": 2,
        "interleave": "bsq",
        "byte order": 0,
        "data ignore value": -9999,
        "reflectance scale factor": 10000,
        "wavelength units": "Nanometers",
        "wavelength": "{" + ", ".join(str(400.5 + 10 * band) for band in range(40)) + "}",
        "bbl": "{" + ", ".join(map(str, good)) + "}",
        "map info": "{" + place + "}",
    }
    (tmp_path / "x.hdr").write_text("ENVI\n" + "\n".join(f"{key} = {value}" for key, value in header.items()))
    result = fa.apps.unmix(fa.apps.read_cube(tmp_path / "x.img"), 3)
    assert result.dropped_bands.tolist() == [3, 17]
    assert result.empty.tolist() == list(range(30))
    rest = np.flatnonzero(good)
    np.testing.assert_allclose(
        result.endmembers[:, rest], fa.apps.unmix(scene.cube[1:][..., rest], 3).endmembers, atol=2e-4
    )
    fa.apps.save_spectra(result, tmp_path / "out")
    lines = (tmp_path / "out" / "endmembers.csv").read_text().splitlines()
    assert lines[0] == "wavelength (Nanometers),material1,material2,material3"
    assert lines[2].startswith("410.5,")
    library = fa.io.open_source(tmp_path / "out" / "endmembers.sli")
    np.testing.assert_allclose(next(library.blocks()).reshape(3, 40), result.endmembers, rtol=1e-6)
    fa.apps.save_maps(result, tmp_path / "out")
    maps = fa.io.open_source(tmp_path / "out" / "abundances.hdr")
    assert maps.scene.map_info["map info"] == place
    values = next(maps.blocks())
    assert maps.scene.no_data(values).nonzero()[0].tolist() == list(range(30))
    np.testing.assert_allclose(values[30:], result.abundances[30:], atol=1e-6)


def test_damaged_mat_files_are_refused(tmp_path, scene):
    """SciPy's reader may crash on such files; ours raises an error with the name of the file."""
    scipy.io.savemat(tmp_path / "x.mat", {"cube": scene.cube[:6, :7]}, do_compression=False)
    whole = (tmp_path / "x.mat").read_bytes()
    rng = np.random.default_rng(0)
    for size in (100, 130, 150, 180, len(whole) // 2):
        (tmp_path / "x.mat").write_bytes(whole[:size])
        with pytest.raises(fa.errors.FastAnchorsError, match=r"x\.mat"):
            fa.apps.unmix(fa.apps.read_cube(tmp_path / "x.mat"), 2)
    for _ in range(60):
        spoiled = bytearray(whole)
        spoiled[int(rng.integers(128, 190))] ^= int(rng.integers(1, 256))
        (tmp_path / "x.mat").write_bytes(spoiled)
        with contextlib.suppress(fa.errors.FastAnchorsError, fa.errors.GuessWarning):
            fa.apps.unmix(fa.apps.read_cube(tmp_path / "x.mat", bands="last"), 2)


def test_mat_structures_bring_wavelengths(tmp_path, scene):
    waves = 400.0 + 10 * np.arange(40)
    scipy.io.savemat(tmp_path / "s.mat", {"scene": {"cube": scene.cube, "wavelength": waves}})
    cube = fa.apps.read_cube(tmp_path / "s.mat")
    np.testing.assert_array_equal(cube.wavelengths, waves)
    np.testing.assert_array_equal(cube.image(cube.pixels), scene.cube)
    assert angle(scene, fa.apps.unmix(cube, 3)) < 0.03


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"share": 1.0}, "groups of 120 pixels have the same means"),
        ({"shape": (12,)}, "shape must be"),
        ({"shape": (12.0, 10.0)}, "shape must be"),
        ({"nodata": "x"}, "nodata must be a number"),
        ({"out": np.broadcast_to(0.0, (120, 3))}, "out is read-only"),
    ],
)
def test_options_that_fit_no_scene_are_refused(options, said):
    pixels = fa.datasets.hyperspectral(12, 10, 30, 3, rng=0).A
    with pytest.raises(fa.FastAnchorsError, match=said):
        fa.apps.unmix(pixels, 3, **options)


def test_a_sparse_scene_is_refused():
    with pytest.raises(fa.errors.InvalidTypeError, match="dense array"):
        fa.apps.unmix(sp.csr_array(np.eye(9)), 3)


@pytest.mark.parametrize("mask", [np.full((24, 30), "no"), np.full((24, 30), None), [[1, 2], [3]]])
def test_a_mask_that_is_not_of_numbers_is_refused(scene, mask):
    with pytest.raises((fa.errors.InvalidTypeError, fa.errors.InvalidInputError), match="the mask"):
        fa.apps.unmix(scene.cube, 3, mask=mask)


def test_an_order_of_pixels_that_an_image_does_not_have_is_refused(tmp_path, scene):
    np.save(tmp_path / "scene.npy", scene.cube)
    scipy.io.savemat(tmp_path / "scene.mat", {"cube": scene.cube})
    opened = fa.apps.read_cube(tmp_path / "scene.npy", bands="last")
    for form in (scene.cube, tmp_path / "scene.npy", opened):
        with pytest.raises(fa.errors.InvalidInputError, match="order 'C', not 'F'"):
            fa.apps.unmix(form, 3, order="F")
    with pytest.raises(fa.errors.InvalidInputError, match="order 'F', not 'C'"):
        fa.apps.read_cube(tmp_path / "scene.mat", order="C")
    assert fa.apps.read_cube(tmp_path / "scene.mat", order="F").shape == (24, 30)
    assert fa.apps.unmix(scene.cube, 3, order="C").maps.shape == (24, 30, 3)


def test_objects_that_are_no_arrays_are_named():
    with pytest.raises(fa.errors.InvalidTypeError, match="cannot read a scene from object; pass a path, an array"):
        fa.apps.unmix(object(), 2)
    with pytest.raises(fa.errors.InvalidInputError, match=r"got shape \(\): it is of type object"):
        fa.FAS().seek(object(), 2)
