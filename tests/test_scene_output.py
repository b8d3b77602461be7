"""Files that unmixing writes: georeferenced maps, residuals, spectra; and the scene encoded again."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

import fastanchors as fa
from fastanchors.apps._scene_place import write_geotiff
from fastanchors.cli.app import app
from fastanchors.errors import StoreError

UTM = (30.0, 0.0, 500_000.0, 0.0, -30.0, 4_100_000.0)


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def scene():
    return fa.datasets.hyperspectral(24, 30, 40, 3, shade=0.3, rng=1)


@pytest.fixture(scope="module")
def result(scene):
    cube = scene.cube.copy()
    cube[0] = 0.0
    return fa.apps.unmix(cube, 3)


def located(result, place):
    return replace(result, cube=replace(result.cube, info=replace(result.cube.info, map_info=place)))


def test_the_residual_is_that_of_each_pixels_mixture(scene, result):
    gap = scene.A - result.abundances @ result.endmembers
    np.testing.assert_allclose(result.residual[30:], np.sqrt((gap[30:] ** 2).mean(axis=1)), rtol=1e-4)
    assert np.all(result.residual[:30] == 0)


@pytest.mark.parametrize(
    ("place", "code"),
    [
        ({"map info": "UTM, 1, 1, 500000, 4100000, 30, 30, 11, North, WGS-84, units=Meters"}, 32611),
        ({"crs": "EPSG:32711", "transform": UTM}, 32711),
        ({"crs": "EPSG:3035", "transform": UTM}, 3035),
        ({"crs": "EPSG:4326", "transform": (0.01, 0.0, 10.5, 0.0, -0.01, 45.0)}, 4326),
    ],
)
def test_maps_have_the_georeference_of_the_scene(tmp_path, result, place, code):
    rasterio = pytest.importorskip("rasterio", reason="extra geo")
    files = fa.apps.save_maps(located(result, place), tmp_path, geotiff=True)
    stems = ("abundances", "residual")
    assert [path.name for path in files] == [f"{stem}.{end}" for stem in stems for end in ("img", "hdr", "tif")]
    for suffix in ("img", "tif"):
        with rasterio.open(tmp_path / f"abundances.{suffix}") as image:
            assert image.crs.to_epsg() == code
            assert tuple(image.transform)[:6] == pytest.approx(place.get("transform", UTM))
            assert image.nodata == -1
            assert image.descriptions == ("material 1", "material 2", "material 3")
            maps = np.moveaxis(image.read(), 0, 2)
            np.testing.assert_allclose(maps[1:], result.maps[1:], atol=1e-6)
            assert np.all(maps[0] == -1)
        with rasterio.open(tmp_path / f"residual.{suffix}") as image:
            np.testing.assert_array_equal(image.read(1)[1:], result.cube.image(result.residual)[1:])


def test_rotated_images_and_images_without_georeference(tmp_path, result):
    rasterio = pytest.importorskip("rasterio", reason="extra geo")
    turned = (30.0, 5.0, 500_000.0, 5.0, -30.0, 4_100_000.0)
    fa.apps.save_maps(located(result, {"crs": "EPSG:32633", "transform": turned}), tmp_path, geotiff=True)
    with rasterio.open(tmp_path / "abundances.tif") as image:
        assert tuple(image.transform)[:6] == turned
    assert "map info" not in (tmp_path / "abundances.hdr").read_text()
    fa.apps.save_maps(result, tmp_path, geotiff=True)
    with pytest.warns(rasterio.errors.NotGeoreferencedWarning):
        image = rasterio.open(tmp_path / "abundances.tif")
    with image:
        assert image.crs is None


def test_without_rasterio_the_extra_is_named(tmp_path, result, monkeypatch):
    monkeypatch.setitem(sys.modules, "rasterio", None)
    with pytest.raises(fa.errors.MissingExtraError, match=r"fastanchors\[geo\]"):
        fa.apps.save_maps(result, tmp_path, geotiff=True)


def test_a_shadow_fills_the_shares_up_to_one(tmp_path, scene):
    plain, lit = fa.apps.unmix(scene.cube, 3), fa.apps.unmix(scene.cube, 3, shadow=True)
    np.testing.assert_allclose(lit.abundances.sum(axis=1) + lit.shadow, 1.0, atol=1e-9)
    assert lit.shadow.min() >= 0
    assert np.all(plain.shadow == 0)
    match = fa.metrics.matched_spectral_angle(scene.components, lit.endmembers)
    proportions = lit.abundances / lit.abundances.sum(axis=1, keepdims=True)
    errors = [fa.metrics.abundance_rmse(scene.weights, each, match=match) for each in (plain.abundances, proportions)]
    assert errors[1] < 0.8 * errors[0]
    dark = np.zeros(720, dtype=bool)
    dark[scene.shaded] = True
    assert np.median(lit.shadow[dark]) > 0.2 > 4 * np.median(lit.shadow[~dark])
    assert lit.relative_error < plain.relative_error
    fa.apps.save_maps(lit, tmp_path)
    maps = fa.io.open_source(tmp_path / "abundances.img")
    assert maps.column_names == ["material 1", "material 2", "material 3", "shadow"]
    np.testing.assert_allclose(next(maps.blocks())[:, 3], lit.shadow, atol=1e-6)


def test_pictures_of_spectra_maps_and_residual(tmp_path, result):
    pytest.importorskip("matplotlib", reason="extra report")
    files = fa.apps.save_pictures(result, tmp_path)
    assert [path.name for path in files] == ["spectra.png", "abundances.png", "residual.png"]
    assert all(path.read_bytes()[:4] == b"\x89PNG" for path in files)


def test_the_advised_option_for_the_band_axis_works(tmp_path, scene):
    """The option that a message advises exists in the command."""
    np.save(tmp_path / "x.npy", np.moveaxis(scene.cube, 2, 0))
    for command in ("seek", "report", "explore"):
        more = ("--no-browser",) if command == "explore" else ("-k", 3, "-o", tmp_path / f"{command}.html")
        refused = run(command, tmp_path / "x.npy", *more[: 2 if command == "seek" else None])
        assert refused.exit_code == 1
        assert "pass the band axis: --bands 'last'" in str(refused.exception)
    found = json.loads(run("seek", tmp_path / "x.npy", "-k", 3, "--bands", "first", "--json").stdout)
    assert found["shape"] == [720, 40]
    assert run("report", tmp_path / "x.npy", "-k", 3, "-o", tmp_path / "r.html", "--bands", "first").exit_code == 0
    assert run("build", tmp_path / "x.npy", tmp_path / "store", "--bands", "first").exit_code == 0
    out = tmp_path / "out"
    assert run("unmix", tmp_path / "x.npy", "-k", 3, "-o", out, "--no-pictures", "--bands", "first").exit_code == 0
    encoded = ("encode", tmp_path / "x.npy", out / "endmembers.csv", "-o", tmp_path / "w.npy", "--sum-to-one")
    assert run(*encoded, "--bands", "first").exit_code == 0
    np.testing.assert_allclose(
        np.load(tmp_path / "w.npy").reshape(24, 30, 3), np.load(out / "abundances.npy"), atol=1e-5
    )


@pytest.mark.parametrize("rule", ["spa", "whitened"])
def test_the_selection_rule_is_reported(tmp_path, scene, rule):
    np.save(tmp_path / "x.npy", scene.cube)
    told = run("unmix", tmp_path / "x.npy", "-k", 3, "-o", tmp_path / "out", "--no-pictures", "--selection", rule)
    assert ("plain SPA selects" if rule == "spa" else "by the rule 'whitened'") in told.output


def test_a_scene_is_encoded_in_the_spectra_of_another(tmp_path, scene):
    cube = scene.cube.copy()
    cube[3, 4, 5] = np.nan
    cube[6, 7] = -0.01 + cube[6, 7]  # least squares does not need signs
    np.save(tmp_path / "x.npy", cube)
    out = tmp_path / "out"
    assert (
        run("unmix", tmp_path / "x.npy", "-k", 3, "-o", out, "--no-pictures", "--clip", "--drop-bands", 9).exit_code
        == 0
    )
    spectra = np.loadtxt(out / "endmembers.csv", delimiter=",", skiprows=1)[:, 1:].T
    kept = np.delete(np.arange(40), 9)
    flat = cube.reshape(-1, 40)[:, kept]
    expected = fa.encode(np.nan_to_num(flat), spectra[:, kept], sum_to_one=True)
    expected[94] = 0.0
    for anchors in ("endmembers.csv", "endmembers.sli", "endmembers.hdr"):
        answer = run("encode", tmp_path / "x.npy", out / anchors, "-o", tmp_path / "w.npy", "--sum-to-one", "--json")
        assert answer.exit_code == 0, answer.output
        found = json.loads(answer.stdout)
        assert found["shape"] == [720, 3]
        assert found["pixels_left_out"] == 1
        np.testing.assert_allclose(np.load(tmp_path / "w.npy"), expected, atol=1e-5)
    told = run("encode", tmp_path / "x.npy", out / "endmembers.csv", "-o", tmp_path / "w.img", "--sum-to-one")
    assert "720 pixels in 3 materials" in told.output
    read = fa.io.open_source(out / "endmembers.hdr")
    assert list(read.row_names) == ["material1", "material2", "material3"]
    np.testing.assert_allclose(next(read.blocks()), spectra, rtol=1e-6)
    image = fa.io.open_source(tmp_path / "w.hdr")
    expected[94] = -1.0
    np.testing.assert_allclose(next(image.blocks()), expected, atol=1e-5)
    assert (
        run("encode", tmp_path / "x.npy", out / "endmembers.csv", "-o", tmp_path / "w.npy", "--transpose").exit_code
        == 2
    )


def test_spectra_of_another_sensor_are_refused(tmp_path, scene):
    np.savez(tmp_path / "x.npz", cube=scene.cube, wavelength=400.0 + np.arange(40))
    assert run("unmix", tmp_path / "x.npz", "-k", 3, "-o", tmp_path / "out", "--no-pictures").exit_code == 0
    np.savez(tmp_path / "y.npz", cube=scene.cube, wavelength=500.0 + np.arange(40))
    np.save(tmp_path / "z.npy", scene.cube[:, :, :30])
    for name, message in (("y.npz", "is at 400 in .* and at 500"), ("z.npy", "have 40 bands, .* 30")):
        for anchors in ("endmembers.csv", "endmembers.sli"):
            command = ("encode", tmp_path / name, tmp_path / "out" / anchors, "-o", tmp_path / "w.npy")
            with pytest.raises(fa.errors.InvalidInputError, match=message):
                CliRunner().invoke(app, [*map(str, command)], catch_exceptions=False)
    (tmp_path / "bad.csv").write_text("band,material1\n0,x\n")
    with pytest.raises(fa.errors.StoreError, match=r"bad\.csv has a cell that is not a number"):
        CliRunner().invoke(
            app,
            ["encode", str(tmp_path / "z.npy"), str(tmp_path / "bad.csv"), "-o", str(tmp_path / "w.npy")],
            catch_exceptions=False,
        )


def test_encoding_excludes_what_unmixing_excludes(tmp_path, scene):
    """A border of no data is refused until its value is given; a single zero is data, also if 0 marks missing data."""
    stored = np.round(1000 * scene.cube + 5).astype(np.int16)
    np.save(tmp_path / "x.npy", stored)
    assert run("unmix", tmp_path / "x.npy", "-k", 3, "-o", tmp_path / "out", "--no-pictures").exit_code == 0
    stored[:2], stored[5, 5, 7] = -9999, 0
    np.save(tmp_path / "y.npy", stored)
    command = ("encode", tmp_path / "y.npy", tmp_path / "out" / "endmembers.csv", "-o", tmp_path / "w.npy")
    with pytest.raises(fa.errors.InvalidInputError, match="marks missing data, pass --nodata -9999"):
        CliRunner().invoke(app, [*map(str, command)], catch_exceptions=False)
    told = json.loads(run(*command, "--nodata", -9999, "--sum-to-one", "--json").stdout)
    assert told["pixels_left_out"] == 60
    weights = np.load(tmp_path / "w.npy")
    np.testing.assert_allclose(weights[60:].sum(axis=1), 1)
    assert not weights[:60].any()
    stored[:2] = 0
    np.save(tmp_path / "y.npy", stored)
    assert json.loads(run(*command, "--nodata", 0, "--json").stdout)["pixels_left_out"] == 60


def test_errors_of_tables_and_images_name_the_file(tmp_path, result):
    gone = tmp_path / "gone"
    pytest.importorskip("pyarrow")
    with pytest.raises(fa.errors.StoreError, match=r"cannot write \S*gone/t.parquet: the folder \S* does not exist"):
        fa.apps.save_table(np.ones((1, 1)), gone / "t.parquet", rows=["a"], columns=["b"])
    pytest.importorskip("rasterio")
    (image,) = (path for path in fa.apps.save_maps(result, tmp_path) if path.name == "abundances.img")
    with pytest.raises(fa.errors.StoreError, match=r"cannot write \S*gone/a.tif: the folder \S* does not exist"):
        write_geotiff(image, gone / "a.tif", result.cube.info, ["a", "b", "c"])


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_outputs_in_a_folder_whose_name_is_not_utf_8(tmp_path):
    """GDAL and Arrow take paths in UTF-8 only: a UnicodeEncodeError, and a scene without its residual."""
    pytest.importorskip("rasterio", reason="extra geo")
    pq = pytest.importorskip("pyarrow.parquet", reason="extra io")
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    result = fa.apps.unmix(fa.datasets.hyperspectral(8, 9, 20, 2, rng=0).A, 2, shape=(8, 9))
    with pytest.raises(StoreError, match=r"cannot write GeoTIFF to .*caf.*its path is not UTF-8"):
        fa.apps.save_maps(result, folder, geotiff=True)
    assert not folder.exists()
    assert len(fa.apps.save_maps(result, folder)) == 4
    fa.apps.save_table(np.eye(2), folder / "t.parquet", rows=["a", "\udce9"], columns=["x", "y\udc80"])
    with open(folder / "t.parquet", "rb") as file:
        table = pq.read_table(file)
    assert table.column_names == ["document", "x", "y\\udc80"]
    assert table.column(0).to_pylist() == ["a", "\\udce9"]
