"""Images with many bands: ENVI by any of its files, GeoTIFF, netCDF and HDF5 with their metadata."""

from __future__ import annotations

import itertools
import re
import warnings

import numpy as np
import pytest
import scipy.io

import fastanchors as fa
from fastanchors.apps._cube import as_cube
from fastanchors.apps._scene_files import fit_mask
from fastanchors.errors import GuessWarning, InvalidInputError, StoreError, TooLargeError
from fastanchors.io import open_source
from fastanchors.io.scene import MapAxis, SceneInfo, placed

CUBE = np.random.default_rng(0).integers(1, 900, (4, 3, 5)).astype(np.int16)  # lines × samples × bands
WAVES = [400.0, 500.0, 600.0, 700.0, 800.0]
AXES = {"bsq": (2, 0, 1), "bil": (0, 2, 1), "bip": (0, 1, 2)}


def whole(source, max_bytes=1 << 20):
    return np.concatenate(list(source.blocks(max_bytes)))


def write_envi(folder, interleave="bsq", data="a.img", header="a.hdr", more=""):
    (folder / data).write_bytes(np.ascontiguousarray(CUBE.transpose(AXES[interleave])).tobytes())
    (folder / header).write_text(
        f"ENVI\nlines = 4\nsamples = 3\nbands = 5\ndata type = 2\ninterleave = {interleave}\n{more}"
    )
    return folder / data


@pytest.mark.parametrize("interleave", AXES)
@pytest.mark.parametrize("max_bytes", [1, 40, 1 << 20])
def test_envi_in_every_order_and_block(tmp_path, interleave, max_bytes):
    path = write_envi(tmp_path, interleave)
    source = open_source(path.with_suffix(".hdr"))
    assert np.array_equal(whole(source, max_bytes), CUBE.reshape(-1, 5))
    assert source.scene.shape == (4, 3)


@pytest.mark.parametrize(
    ("data", "header"),
    [
        ("a.img", "a.hdr"),
        ("a.dat", "a.hdr"),
        ("a.bsq", "a.bsq.hdr"),
        ("a", "a.hdr"),
        ("a.raw", "a.HDR"),
        ("a.x", "a.hdr"),
    ],
)
def test_envi_by_its_data_file(tmp_path, data, header):
    path = write_envi(tmp_path, data=data, header=header)
    assert np.array_equal(whole(open_source(path)), CUBE.reshape(-1, 5))
    with fa.build(path, tmp_path / "s") as S:
        assert S.shape == (12, 5)


SPECTRA = np.random.default_rng(1).integers(1, 100, (6, 40))


def write_library(folder, dtype="<f4", code=4, offset=0, more="file type = ENVI Spectral Library", data="lib.sli"):
    (folder / data).write_bytes(bytes(offset) + SPECTRA.astype(dtype).tobytes())
    (folder / "lib.hdr").write_text(
        f"ENVI\nsamples = 40\nlines = 6\nbands = 1\nheader offset = {offset}\ndata type = {code}\n"
        f"interleave = bsq\nbyte order = {int(dtype.startswith('>'))}\n{more}\n"
    )
    return folder / data


@pytest.mark.parametrize("given", ["lib.sli", "lib.hdr"])
@pytest.mark.parametrize(("dtype", "code", "offset"), [("<f4", 4, 0), (">f8", 5, 3), ("u1", 1, 7), (">i2", 2, 0)])
def test_a_spectral_library_is_spectra_by_bands(tmp_path, given, dtype, code, offset):
    names, waves = [f"s{i}" for i in range(6)], [str(400 + 10 * j) for j in range(40)]
    more = (
        f"file type = ENVI Spectral Library\nspectra names = {{{', '.join(names)}}}\nband names = {{Library}}\n"
        f"wavelength = {{{', '.join(waves)}}}\nwavelength units = Nanometers"
    )
    write_library(tmp_path, dtype, code, offset, more)
    source = open_source(tmp_path / given)
    assert (source.shape, list(source.row_names), list(source.column_names)) == ((6, 40), names, waves)
    np.testing.assert_array_equal(whole(source, 100), SPECTRA)
    assert (source.scene.shape, source.scene.units) == (None, "Nanometers")
    np.testing.assert_array_equal(source.pick(np.array([4, 1])), SPECTRA[[4, 1]])
    opened = fa.open_matrix(tmp_path / given)
    assert (opened.shape, list(opened.row_names)) == ((6, 40), names)
    with fa.build(tmp_path / given, tmp_path / "s", normalize=None) as S:
        np.testing.assert_array_equal(S.rows(range(6)), SPECTRA)


def test_a_spectral_library_beside_an_image_and_without_a_file_type(tmp_path):
    write_library(tmp_path)
    (tmp_path / "lib.img").write_bytes(bytes(10))
    assert open_source(tmp_path / "lib.hdr").shape == (6, 40)
    (tmp_path / "lib.img").unlink()
    write_library(tmp_path, more="")
    assert open_source(tmp_path / "lib.hdr").shape == (6, 40)
    for more, message in (("wavelength = {1, 2}", "has 2 wavelengths for 40 bands"), ("bands = 2", "must be 1, got 2")):
        with pytest.raises(StoreError, match=message):
            open_source(write_library(tmp_path, more=more))


def test_a_spectral_library_is_no_scene_to_unmix(tmp_path):
    write_library(tmp_path)
    for name in ("lib.sli", "lib.hdr"):
        with pytest.raises(InvalidInputError, match="is a spectral library, not a scene"):
            fa.apps.unmix(tmp_path / name, 2)


def test_a_spectrum_without_data_is_called_so(tmp_path):
    path = write_library(tmp_path, more=f"file type = ENVI Spectral Library\ndata ignore value = {SPECTRA[2, 0]}")
    with pytest.warns(GuessWarning, match="spectrum .* has no data by the header or mask of the file.*all others$"):
        fa.open_matrix(path)


def test_metadata_of_an_envi_header(tmp_path):
    more = f"""wavelength = {{{", ".join(map(str, WAVES))}}}
wavelength units = Nanometers
bbl = {{1, 1, 0, 1,
 1}}
data ignore value = -9999
reflectance scale factor = 10000
band names = {{a, b, c, d, e}}
map info = {{UTM, 1, 1, 500000, 4000000, 30, 30, 33, North, WGS-84}}
"""
    source = open_source(write_envi(tmp_path, more=more))
    scene = source.scene
    assert scene.wavelengths.tolist() == WAVES
    assert scene.units == "Nanometers"
    assert scene.good_bands.tolist() == [True, True, False, True, True]
    assert scene.ignore == -9999
    assert scene.map_info["map info"].startswith("UTM, 1, 1, 500000")
    assert source.column_names == list("abcde")
    np.testing.assert_allclose(scene.values(whole(source)), CUBE.reshape(-1, 5) / 10000)
    gains = "data gain values = {1, 2, 3, 4, 5}\ndata offset values = {0, 1, 0, 1, 0}\n"
    scene = open_source(write_envi(tmp_path, more=gains)).scene
    np.testing.assert_allclose(
        scene.values(CUBE.reshape(-1, 5)), CUBE.reshape(-1, 5) * [1, 2, 3, 4, 5] + [0, 1, 0, 1, 0]
    )


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ("{a{1}, b{2}, c,\n d {x}, e}", ["a{1}", "b{2}", "c", "d {x}", "e"]),
        ("{a{1}, b, c, d, e{2}}", ["a{1}", "b", "c", "d", "e{2}"]),
        ("{a{1, b, c, d, e}", ["a{1", "b", "c", "d", "e"]),
        ("{{a, b, c, d, e}}", list("abcde")),
    ],
)
def test_names_in_an_envi_header_may_contain_braces(tmp_path, written, names):
    """The value ended at the first brace that closes: all names were dropped."""
    waves = ", ".join(map(str, WAVES))
    source = open_source(write_envi(tmp_path, more=f"band names = {written}\nwavelength = {{{waves}}}\n"))
    assert source.column_names == names
    assert source.scene.wavelengths.tolist() == WAVES


def test_fields_of_an_envi_header_whose_braces_do_not_close(tmp_path):
    """Each field after the last brace searched the rest of the file for one."""
    waves, more = ", ".join(map(str, WAVES)), "".join(f"field {i} = {{\n" for i in range(20_000))
    source = open_source(write_envi(tmp_path, more=f"wavelength = {{{waves}}} \n{more}data gain values = {{\n"))
    assert source.scene.wavelengths.tolist() == WAVES


def test_pixels_without_data_are_detected_before_scaling():
    scene = SceneInfo((1, 4), ignore=-9999, good_bands=np.array([True, False]), scale=np.array([0.1, 0.1]))
    block = np.array([[-9999, 5], [1, -9999], [np.nan, 1], [2, 3]])
    assert scene.no_data(block).tolist() == [True, False, True, False]
    np.testing.assert_allclose(scene.values(block), [[np.nan, 0.5], [0.1, np.nan], [np.nan, 0.1], [0.2, 0.3]])
    assert SceneInfo((1, 4)).values(block) is block
    assert SceneInfo((2, 1)).no_data(np.ones((2, 3), np.int16)).tolist() == [False, False]


@pytest.mark.parametrize(
    "more", ["file compression = 1", "major frame offsets = {10, 20}", "minor frame offsets = {0, 4}"]
)
def test_envi_with_a_layout_that_is_not_supported(tmp_path, more):
    path = write_envi(tmp_path, more=more + "\n")
    with pytest.raises(StoreError, match=f"'{more.split(' =')[0]}' is .* not supported"):
        open_source(path)
    zeros = re.sub(r"[1-9]\d*", "0", more)
    assert whole(open_source(write_envi(tmp_path, more=zeros + "\n"))).shape == (12, 5)


@pytest.mark.parametrize("value", [7, 0])
def test_pixels_without_data_are_reported_to_those_who_use_them_as_rows(tmp_path, value):
    path = write_envi(tmp_path, more=f"data ignore value = {value}\n")
    cube = CUBE.copy()
    cube[2, 1] = value
    path.write_bytes(np.ascontiguousarray(cube.transpose(AXES["bsq"])).tobytes())
    with pytest.warns(GuessWarning, match="pixel 7 has no data"):
        fa.open_matrix(path)
    with pytest.warns(GuessWarning, match="pixel 7 has no data"):
        fa.build(path, tmp_path / "a.store").close()
    assert fa.apps.unmix(path, 2).empty.tolist() == [7]


@pytest.mark.parametrize("kind", ["internal", "beside", "alpha"])
def test_a_mask_of_a_geotiff_leaves_pixels_out(tmp_path, kind):
    rasterio = pytest.importorskip("rasterio", reason="extra geo")
    cube = np.round(fa.datasets.hyperspectral(12, 10, bands=20, k=3, snr=40, rng=3).cube * 10000).astype("u2")
    cube[:2] = 1000 + 300 * np.arange(20)
    mask = np.full((12, 10), 255, np.uint8)
    mask[:2] = 0
    count = 21 if kind == "alpha" else 20
    with (
        warnings.catch_warnings(),
        rasterio.Env(GDAL_TIFF_INTERNAL_MASK=kind == "internal"),
    ):
        warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
        options = {"driver": "GTiff", "height": 12, "width": 10, "count": count, "dtype": "uint16"}
        with rasterio.open(tmp_path / "a.tif", "w", **options) as image:
            image.write(np.moveaxis(cube, 2, 0), range(1, 21))
            if kind == "alpha":
                image.write(mask.astype("u2") * 257, 21)
                image.colorinterp = [*image.colorinterp[:20], rasterio.enums.ColorInterp.alpha]
            else:
                image.write_mask(mask)
    found = fa.apps.unmix(tmp_path / "a.tif", 3)
    expected = fa.apps.unmix(cube, 3, mask=mask)
    assert found.empty.tolist() == list(range(20))
    np.testing.assert_allclose(found.endmembers, expected.endmembers, rtol=1e-6)  # by rounding of sums
    with pytest.warns(GuessWarning, match="pixel 0 has no data"):
        assert fa.open_matrix(tmp_path / "a.tif").shape == (120, 20)
    both = np.full((12, 10), True)
    both[5] = False
    assert fa.apps.unmix(tmp_path / "a.tif", 3, mask=both).empty.tolist() == [*range(20), *range(50, 60)]


@pytest.mark.parametrize("axes", [(2, 0, 1), (0, 2, 1), (0, 1, 2)])
@pytest.mark.parametrize("name", ["band", "Wavelength", "channel", None])
def test_the_band_axis_of_hdf5_is_named_or_doubted(tmp_path, axes, name):
    h5py = pytest.importorskip("h5py", reason="extra io")
    cube = fa.datasets.hyperspectral(20, 30, bands=40, k=3, rng=0).cube.transpose(axes)
    at = axes.index(2)
    with h5py.File(tmp_path / "a.nc", "w") as file:
        stored = file.create_dataset("radiance", data=cube)
        if name is not None:
            scale = file.create_dataset(name, data=np.arange(40.0))
            scale.make_scale(name)
            stored.dims[at].attach_scale(scale)
    if name is None and at < 2:
        with pytest.warns(GuessWarning, match=f"the {['first', 'middle'][at]} axis looks like the bands"):
            fa.apps.unmix(tmp_path / "a.nc", 3)
        with pytest.warns(GuessWarning, match="looks like the bands"):
            fa.open_matrix(tmp_path / "a.nc")
        return
    assert fa.apps.unmix(tmp_path / "a.nc", 3).maps.shape[:2] == (20, 30)
    assert fa.open_matrix(tmp_path / "a.nc").shape == (600, 40)


def test_damaged_envi(tmp_path):
    path = write_envi(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(StoreError, match="truncated: it has 119 bytes, the header requires 120"):
        open_source(path)
    path.with_suffix(".hdr").write_text("not a header")
    with pytest.raises(StoreError, match="cannot determine the format"):
        open_source(path)
    with pytest.raises(StoreError, match="no header beside"):
        open_source(path, format="envi")


def test_geotiff(tmp_path):
    rasterio = pytest.importorskip("rasterio", reason="extra geo")
    path = tmp_path / "a.tif"
    profile = {"driver": "GTiff", "height": 4, "width": 3, "count": 5, "dtype": "int16", "nodata": -1}
    transform = rasterio.Affine(30, 0, 500000, 0, -30, 4000000)
    with rasterio.open(path, "w", crs="EPSG:32633", transform=transform, compress="deflate", **profile) as image:
        image.write(np.moveaxis(CUBE, 2, 0))
        image.scales, image.offsets = [0.5] * 5, [1.0] * 5
        for band, wave in enumerate(WAVES, start=1):
            image.set_band_description(band, f"b{band}")
            image.update_tags(band, wavelength=str(wave), wavelength_units="nm")
    for max_bytes in (1, 1 << 20):
        assert np.array_equal(whole(open_source(path), max_bytes), CUBE.reshape(-1, 5))
    source = open_source(path)
    assert source.column_names == ["b1", "b2", "b3", "b4", "b5"]
    scene = source.scene
    assert (scene.shape, scene.ignore, scene.units) == ((4, 3), -1, "nm")
    assert scene.wavelengths.tolist() == WAVES
    assert scene.map_info["transform"] == (30, 0, 500000, 0, -30, 4000000)
    assert "UTM zone 33N" in scene.map_info["crs"]
    np.testing.assert_allclose(scene.values(whole(source)), CUBE.reshape(-1, 5) * 0.5 + 1)


def test_damaged_geotiff(tmp_path):
    rasterio = pytest.importorskip("rasterio", reason="extra geo")
    path = tmp_path / "a.tif"
    profile = {"driver": "GTiff", "height": 64, "width": 64, "count": 5, "dtype": "int16"}
    with rasterio.open(path, "w", transform=rasterio.Affine(2, 0, 5, 0, -2, 5), **profile) as image:
        image.write(np.ones((5, 64, 64), np.int16))
    whole_file = path.read_bytes()
    for size in (10, 100, len(whole_file) // 2):
        path.write_bytes(whole_file[:size])
        with pytest.raises(StoreError, match="cannot read"):
            whole(open_source(path))


def test_emit_layout(tmp_path):
    h5py = pytest.importorskip("h5py", reason="extra io")
    path = tmp_path / "a.nc"
    with h5py.File(path, "w") as file:
        cube = file.create_dataset("reflectance", data=CUBE.astype("f4"), chunks=(2, 3, 5))
        cube.attrs["_FillValue"] = np.float32(-9999)
        file["sensor_band_parameters/wavelengths"] = np.array(WAVES, "f4")
        file["sensor_band_parameters/wavelengths"].attrs["units"] = "nm"
        file["sensor_band_parameters/good_wavelengths"] = np.array([1, 1, 0, 1, 1], "f4")
        file["location/lat"] = np.zeros((4, 3))
    for max_bytes in (1, 1 << 20):
        source = open_source(path)
        assert np.array_equal(whole(source, max_bytes), CUBE.reshape(-1, 5))
    scene = source.scene
    assert (scene.shape, scene.ignore, scene.units) == ((4, 3), -9999, "nm")
    assert scene.wavelengths.tolist() == WAVES
    assert scene.good_bands.tolist() == [True, True, False, True, True]


@pytest.mark.parametrize("bands", ["first", "middle", "last"])
def test_the_axis_of_the_bands(tmp_path, bands):
    h5py = pytest.importorskip("h5py", reason="extra io")
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["g/cube"] = np.moveaxis(CUBE, 2, ["first", "middle", "last"].index(bands))
        file["g/cube"].attrs.update({"scale_factor": 0.1, "add_offset": 2.0})
    assert np.array_equal(whole(open_source(path, bands=bands)), CUBE.reshape(-1, 5))
    with h5py.File(path, "r+") as file:
        file["wavelength"] = WAVES
    source = open_source(path, variable="cube")
    assert np.array_equal(whole(source), CUBE.reshape(-1, 5))
    np.testing.assert_allclose(source.scene.values(whole(source)), CUBE.reshape(-1, 5) * 0.1 + 2)
    with pytest.raises(InvalidInputError, match=r"no cube 'x'; it has: g/cube"):
        open_source(path, variable="x")


def test_prisma_layout(tmp_path):
    h5py = pytest.importorskip("h5py", reason="extra io")
    path = tmp_path / "a.he5"
    with h5py.File(path, "w") as file:
        for part, bands in (("VNIR", slice(0, 2)), ("SWIR", slice(2, 5))):
            field = f"HDFEOS/SWATHS/PRS_L2D_HCO/Data Fields/{part}_Cube"
            file[field] = np.moveaxis(CUBE[:, :, bands], 2, 1).astype("u2")
            label = part.capitalize()
            waves = np.array(WAVES[bands])
            waves[-1] = 0
            file.attrs[f"List_Cw_{label}"] = waves
            file.attrs[f"L2Scale{label}Min"], file.attrs[f"L2Scale{label}Max"] = 0.0, 0.5
    source = open_source(path)
    assert np.array_equal(whole(source), CUBE.reshape(-1, 5))
    scene = source.scene
    assert scene.shape == (4, 3)
    assert scene.good_bands.tolist() == [True, False, True, True, False]
    np.testing.assert_allclose(scene.values(whole(source)), CUBE.reshape(-1, 5) * (0.5 / 65535))


def test_other_hdf5_files(tmp_path):
    h5py = pytest.importorskip("h5py", reason="extra io")
    (tmp_path / "a.nc").write_bytes(b"CDF\x01" + bytes(50))
    with pytest.raises(StoreError, match="netCDF 3; convert it to netCDF 4"):
        open_source(tmp_path / "a.nc")
    with h5py.File(tmp_path / "b.nc", "w") as file:
        file.create_dataset("cube", shape=(10**5, 10**5, 300), dtype="f4", chunks=(10, 10, 300))
    with pytest.raises(TooLargeError, match="claims 12,000,000,000,000 bytes of data but stores 0"):
        open_source(tmp_path / "b.nc")
    with h5py.File(tmp_path / "c.nc", "w") as file:
        file["x"] = np.ones(3)
    with pytest.raises(InvalidInputError, match="choose a cube"):
        open_source(tmp_path / "c.nc")


@pytest.mark.parametrize("bands", ["first", "middle", "last"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_cubes_in_npy(tmp_path, bands, order):
    path = tmp_path / "a.npy"
    np.save(path, np.asarray(np.moveaxis(CUBE, 2, ["first", "middle", "last"].index(bands)), order=order))
    for max_bytes in (1, 1 << 20):
        source = open_source(path, bands=bands)
        assert np.array_equal(whole(source, max_bytes), CUBE.reshape(-1, 5))
        assert source.scene.shape == (4, 3)
    np.savez(tmp_path / "only.npz", cube=CUBE)
    with pytest.raises(
        InvalidInputError, match="no two-dimensional array; for a cube, pass the band axis: bands='last'"
    ):
        open_source(tmp_path / "only.npz")
    with pytest.raises(InvalidInputError, match="pass the band axis: bands='last'"):
        open_source(path)
    with pytest.raises(InvalidInputError, match="bands must be"):
        open_source(path, bands="x")
    np.save(path, np.ones((3, 2)))
    with pytest.raises(InvalidInputError, match="is not a cube"):
        open_source(path, bands="last")


def test_cubes_in_mat_files(tmp_path):
    path = tmp_path / "a.mat"
    scipy.io.savemat(path, {"scene": {"cube": CUBE, "wavelengths": np.array(WAVES), "units": "nm"}, "n": 3})
    source = open_source(path)
    assert np.array_equal(whole(source), CUBE.reshape(-1, 5, order="F"))
    assert (source.scene.shape, source.scene.order, source.scene.units) == ((4, 3), "F", "nm")
    assert source.scene.wavelengths.tolist() == WAVES


def test_wavelengths_of_a_geotiff_by_descriptions_and_by_gdal(tmp_path):
    rasterio = pytest.importorskip("rasterio", reason="extra geo")
    profile = {"driver": "GTiff", "height": 4, "width": 3, "count": 5, "dtype": "int16"}
    with rasterio.open(tmp_path / "a.tif", "w", transform=rasterio.Affine(2, 0, 5, 0, -2, 5), **profile) as image:
        image.write(np.moveaxis(CUBE, 2, 0))
        for band, wave in enumerate(WAVES, start=1):
            image.set_band_description(band, f"{wave:g} nm")
    scene = open_source(tmp_path / "a.tif").scene
    assert (scene.wavelengths.tolist(), scene.units) == (WAVES, "nm")
    with rasterio.open(tmp_path / "a.tif", "r+") as image:
        for band, wave in enumerate(WAVES, start=1):
            image.update_tags(band, ns="IMAGERY", CENTRAL_WAVELENGTH_UM=str(wave / 1000))
    scene = open_source(tmp_path / "a.tif").scene
    np.testing.assert_allclose(scene.wavelengths, np.array(WAVES) / 1000)
    assert scene.units == "Micrometers"


def test_coordinates_of_a_netcdf_place_the_image(tmp_path):
    h5py = pytest.importorskip("h5py", reason="extra io")
    path = tmp_path / "a.nc"
    with h5py.File(path, "w") as file:
        file["rad"] = CUBE
        file["x"], file["y"] = 500_015.0 + 30 * np.arange(3), 3_999_985.0 - 30 * np.arange(4)
        for axis, name in enumerate("yx"):
            file[name].make_scale(name)
            file["rad"].dims[axis].attach_scale(file[name])
        file["crs"] = 0
        file["crs"].attrs["crs_wkt"] = "EPSG:32633"
        file["rad"].attrs["grid_mapping"] = "crs"
    place = open_source(path).scene.map_info
    assert place == {"crs": "EPSG:32633", "transform": (30, 0, 500_000, 0, -30, 4_000_000)}
    with h5py.File(path, "r+") as file:
        file["x"][2] += 9  # a swath: no even steps
    assert open_source(path).scene.map_info == {"crs": "EPSG:32633"}


PLACE = {"crs": "EPSG:32633", "transform": (30, 0, 500_000, 0, -30, 4_000_000)}
COORDINATES = {"x": 500_015.0 + 30 * np.arange(3), "y": 3_999_985.0 - 30 * np.arange(4), "wavelength": np.array(WAVES)}


def write_netcdf(path, axes=("y", "x", "wavelength"), names=None, facts=None, coordinates=None, cube=CUBE):
    """A cube with axes in that order, called by other ``names`` or with the attributes ``facts`` of coordinates."""
    h5py = pytest.importorskip("h5py", reason="extra io")
    with h5py.File(path, "w") as file:
        file["rad"] = cube.transpose([("y", "x", "wavelength").index(axis) for axis in axes])
        for at, axis in enumerate(axes):
            name = (names or {}).get(axis, axis)
            file[name] = (coordinates or COORDINATES)[axis]
            file[name].make_scale(name)
            file[name].attrs.update((facts or {}).get(axis, {}))
            file["rad"].dims[at].attach_scale(file[name])
        file["crs"] = 0
        file["crs"].attrs["crs_wkt"] = "EPSG:32633"
        file["rad"].attrs["grid_mapping"] = "crs"
    return path


def as_xarray(axes, names=None, facts=None):
    xarray = pytest.importorskip("xarray", reason="not an extra: whoever has such an array has the library")
    called = {axis: (names or {}).get(axis, axis) for axis in axes}
    coords = {called[axis]: (called[axis], COORDINATES[axis], (facts or {}).get(axis, {})) for axis in axes}
    data = CUBE.transpose([("y", "x", "wavelength").index(axis) for axis in axes])
    array = xarray.DataArray(data, dims=list(called.values()), coords=coords)
    return array.assign_coords(spatial_ref=((), 0, {"crs_wkt": "EPSG:32633"}))


@pytest.mark.parametrize("axes", list(itertools.permutations(("y", "x", "wavelength"))))
@pytest.mark.parametrize("kind", ["netcdf", "xarray"])
@pytest.mark.parametrize(
    ("names", "facts"),
    [
        ({}, {}),
        ({"x": "lon", "y": "Latitude"}, {}),
        ({"x": "XDim:Grid", "y": "b"}, {}),
        ({"x": "a", "y": "b"}, {"x": {"standard_name": "projection_x_coordinate"}, "y": {"axis": "Y"}}),
        ({"x": "y", "y": "x"}, {"x": {"units": "degrees_east"}, "y": {"units": "degrees_north"}}),
    ],
)
def test_axes_of_an_image_are_known_by_name(tmp_path, kind, axes, names, facts):
    """Easting and northing were exchanged if x was stored before y."""
    source = write_netcdf(tmp_path / "a.nc", axes, names, facts) if kind == "netcdf" else as_xarray(axes, names, facts)
    source = open_source(source)
    scene = source.scene
    assert (scene.shape, scene.map_info) == ((4, 3), PLACE)
    np.testing.assert_array_equal(whole(source).reshape(4, 3, 5, order=scene.order), CUBE)


@pytest.mark.parametrize("unit", ["nm", "µm", "Micrometers", "nanometre", "m", None])
@pytest.mark.parametrize("band", ["band", "b"])
@pytest.mark.parametrize("kind", ["netcdf", "xarray"])
def test_coordinates_of_the_bands_in_the_unit_of_wavelengths_are_these(tmp_path, kind, band, unit):
    """They were known by the name alone."""
    given = ("x", "y", "wavelength"), {"wavelength": band}, {"wavelength": {} if unit is None else {"units": unit}}
    source = open_source(write_netcdf(tmp_path / "a.nc", *given) if kind == "netcdf" else as_xarray(*given))
    known = unit not in ("m", None)
    assert source.scene.units == (unit if known else None)
    np.testing.assert_array_equal(source.scene.wavelengths, COORDINATES["wavelength"] if known else None)


@pytest.mark.parametrize("axes", list(itertools.permutations(("y", "x", "wavelength"))))
@pytest.mark.parametrize("band", ["b", "time", "Feature No. 1"])
@pytest.mark.parametrize("kind", ["netcdf", "labels of hdf5", "xarray"])
def test_the_axis_beside_x_and_y_is_the_bands(tmp_path, monkeypatch, kind, axes, band):
    """It was guessed in files, where bands of random numbers were taken along the last axis, and refused in xarray."""
    monkeypatch.setattr("fastanchors.io.netcdf.doubt", None)  # nothing is guessed
    if kind == "labels of hdf5":
        h5py = pytest.importorskip("h5py", reason="extra io")
        given = tmp_path / "a.h5"
        with h5py.File(given, "w") as file:
            file["rad"] = CUBE.transpose([("y", "x", "wavelength").index(axis) for axis in axes])
            for at, axis in enumerate(axes):
                file["rad"].dims[at].label = band if axis == "wavelength" else axis
            file["other/wavelength"] = np.arange(3.0)  # of another cube: as many as there are pixels along x
    elif kind == "netcdf":
        given = write_netcdf(tmp_path / "a.nc", axes, {"wavelength": band})
    else:
        given = as_xarray(axes, {"wavelength": band})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        source = open_source(given)
        cube = as_cube(given) if kind == "xarray" else fa.apps.read_cube(given)
    assert source.scene.shape == (4, 3)
    np.testing.assert_array_equal(whole(source).reshape(4, 3, 5, order=source.scene.order), CUBE)
    np.testing.assert_array_equal(cube.image(cube.pixels), CUBE)


def test_axes_of_an_image_that_are_not_known_give_no_map_position(tmp_path):
    for names, facts in (({"x": "a", "y": "b"}, {}), ({"x": "x1", "y": "x2"}, {}), ({}, {"x": {"units": "rad"}})):
        for given in (
            write_netcdf(tmp_path / "a.nc", names=names, facts=facts),
            as_xarray(tuple(COORDINATES), names, facts),
        ):
            with pytest.warns(GuessWarning, match="the map position is not used"):
                assert open_source(given).scene.map_info == {"crs": "EPSG:32633"}


def test_masks_of_an_image_that_is_stored_by_columns(tmp_path):
    xarray = pytest.importorskip("xarray", reason="not an extra: whoever has such an array has the library")
    h5py = pytest.importorskip("h5py", reason="extra io")
    cube = fa.apps.read_cube(write_netcdf(tmp_path / "a.nc", ("x", "y", "wavelength")))
    mask = np.arange(12).reshape(4, 3) % 5 > 1
    with h5py.File(tmp_path / "m.nc", "w") as file:
        file["mask"] = mask.T.astype(np.uint8)
        for at, axis in enumerate("xy"):
            file["mask"].dims[at].label = axis
    np.save(tmp_path / "m.npy", mask)
    for path in (tmp_path / "m.nc", tmp_path / "m.npy"):
        np.testing.assert_array_equal(cube.image(fa.apps.read_mask(path, cube)), mask)
    turned = xarray.DataArray(mask.T, dims=("x", "y"))
    np.testing.assert_array_equal(cube.image(fit_mask(turned, cube)), mask)
    with pytest.raises(InvalidInputError, match="an image of 4×3; transpose it"):
        fit_mask(mask.T, cube)


def test_packed_coordinates_are_unpacked(tmp_path):
    """They were taken as they are stored: a map near (0, 0), and wavelengths 0, 1, 2, …"""
    packed = {axis: np.arange(len(values), dtype=np.int16) for axis, values in COORDINATES.items()}
    steps = {
        axis: {"scale_factor": values[1] - values[0], "add_offset": values[0]} for axis, values in COORDINATES.items()
    }
    scene = open_source(write_netcdf(tmp_path / "a.nc", facts=steps, coordinates=packed)).scene
    assert scene.map_info == PLACE
    assert scene.wavelengths.tolist() == WAVES
    array = as_xarray(tuple(COORDINATES))
    for axis, values in packed.items():
        array = array.assign_coords({axis: (axis, values, steps[axis])})
    scene = open_source(array).scene
    assert (scene.map_info, scene.wavelengths.tolist()) == (PLACE, WAVES)


UTM = 'PROJCS["UTM",GEOGCS["WGS 84",SPHEROID["WGS 84",6378137,298],UNIT["degree",0.0174]],UNIT["metre",1]]'
FEET = (
    'PROJCRS["NY",ELLIPSOID["GRS",6378137,298,LENGTHUNIT["metre",1]],LENGTHUNIT["US survey foot",0.3048006096012192]]'
)
DEGREES = 'GEOGCRS["WGS",ELLIPSOID["WGS",6378137,298,LENGTHUNIT["metre",1]]]'


@pytest.mark.parametrize(
    ("unit", "size", "crs"),
    [
        ("km", 1000, UTM),
        ("cm", 0.01, UTM),
        ("US_survey_foot", 1200 / 3937, UTM),
        ("m", 3937 / 1200, FEET),
        ("US_survey_foot", 1, FEET),
        ("degrees_east", 1, DEGREES),
    ],
)
def test_coordinates_in_another_unit_than_their_system_are_converted(unit, size, crs):
    x, y = (MapAxis(axis, axis, COORDINATES[axis] / size, unit) for axis in "xy")
    np.testing.assert_allclose(placed({"crs_wkt": crs}, y, x)["transform"], PLACE["transform"])


@pytest.mark.parametrize(
    ("unit", "crs"),
    [("radian", UTM), ("urad", UTM), ("degrees", UTM), ("Mm", UTM), ("m", DEGREES), ("arcsec", DEGREES)],
)
def test_coordinates_in_a_unit_that_is_not_known_give_no_position(unit, crs):
    """Radians and degrees were used as metres."""
    x, y = (MapAxis(axis, axis, COORDINATES[axis], unit) for axis in "xy")
    with pytest.warns(GuessWarning, match="convert their coordinates to that unit"):
        assert placed({"crs_wkt": crs}, y, x) == {"crs": crs}


def test_unsigned_cubes_in_signed_types(tmp_path):
    """200 was read as −56."""
    cube = np.where(CUBE > 200, CUBE % 200 + 40, CUBE).astype(np.uint8)
    cube[1, 2, 3], cube[2, 1, 0], cube[0, 0, 1] = 255, 254, 253
    path = write_netcdf(tmp_path / "a.nc", cube=cube.view(np.int8))
    h5py = pytest.importorskip("h5py", reason="extra io")
    with h5py.File(path, "r+") as file:
        facts = {"_Unsigned": "true", "_FillValue": np.int8(-1), "missing_value": np.array([-2, -3], np.int8)}
        file["rad"].attrs.update(facts)
    source = open_source(path)
    assert (source.dtype, source.scene.ignore) == (np.uint8, 255)
    np.testing.assert_array_equal(whole(source), np.where(cube > 252, 255, cube).reshape(-1, 5))


@pytest.mark.parametrize("value", [0.0, np.nan, np.array([0.1, 0.2]), "0.1"])
def test_factors_that_are_no_numbers_are_refused(tmp_path, value):
    h5py = pytest.importorskip("h5py", reason="extra io")
    path = write_netcdf(tmp_path / "a.nc")
    with h5py.File(path, "r+") as file:
        file["rad"].attrs["scale_factor"] = value
    with pytest.raises(InvalidInputError, match="its scale_factor is"):
        open_source(path)


def test_prisma_is_placed_by_its_corners(tmp_path):
    h5py = pytest.importorskip("h5py", reason="extra io")
    path = tmp_path / "a.he5"
    with h5py.File(path, "w") as file:
        for part, bands in (("VNIR", slice(0, 2)), ("SWIR", slice(2, 5))):
            file[f"HDFEOS/SWATHS/PRS_L2D_HCO/Data Fields/{part}_Cube"] = np.moveaxis(CUBE[:, :, bands], 2, 1)
        corners = {"ULcorner_easting": 500_015, "ULcorner_northing": 3_999_985}
        corners |= {"LRcorner_easting": 500_075, "LRcorner_northing": 3_999_895}
        file.attrs.update({f"Product_{name}": float(value) for name, value in corners.items()})
        file.attrs["Epsg_Code"] = 32633
    place = open_source(path).scene.map_info
    assert place == {"crs": "EPSG:32633", "transform": (30, 0, 500_000, 0, -30, 4_000_000)}


@pytest.mark.parametrize("bands", ["first", "middle", "last"])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("order", ["C", "F"])
def test_cubes_in_npz(tmp_path, bands, save, order):
    path = tmp_path / "a.npz"
    cube = np.asarray(np.moveaxis(CUBE, 2, ["first", "middle", "last"].index(bands)), order=order)
    save(path, scene=cube, wavelengths=WAVES, labels=np.ones((4, 3), int))
    source = open_source(path, bands=bands)
    assert np.array_equal(whole(source, 40), CUBE.reshape(-1, 5))
    read = fa.apps.read_cube(path, bands=bands)
    assert np.array_equal(read.image(read.pixels), CUBE)
    assert read.wavelengths.tolist() == WAVES
    with pytest.raises(InvalidInputError, match=r"choose one of its cubes with variable=.*: scene"):
        open_source(path, bands=bands, variable="labels")


def test_matrices_in_npz_take_the_image_size_from_other_arrays(tmp_path):
    np.savez(tmp_path / "a.npz", X=CUBE.reshape(-1, 5), height=4, width=3)
    read = fa.apps.read_cube(tmp_path / "a.npz")
    assert np.array_equal(read.image(read.pixels), CUBE)
    np.savez(tmp_path / "b.npz", X=CUBE.reshape(-1, 5).T, truth=np.ones((4, 3, 2)))
    read = fa.apps.read_cube(tmp_path / "b.npz")
    assert np.array_equal(read.image(read.pixels), CUBE)


@pytest.mark.parametrize("interleave", ["bsq", "bil", "bip"])
def test_images_of_spectral_python(tmp_path, interleave):
    spectral = pytest.importorskip("spectral", reason="not an extra: whoever has such an image has the library")
    more = "wavelength = {400, 500, 600, 700, 800}\nwavelength units = nm\nbbl = {1, 1, 0, 1, 1}\n"
    more += (
        "data ignore value = -9999\nreflectance scale factor = 10\nmap info = {UTM, 1, 1, 5, 4, 30, 30, 33, North}\n"
    )
    more += "byte order = 0\nheader offset = 0\n"
    write_envi(tmp_path, interleave, more=more)
    image = spectral.open_image(str(tmp_path / "a.hdr"))
    for each, scaled in ((image, 0.1), (image.load(), 1.0)):
        source = open_source(each)
        np.testing.assert_allclose(source.scene.values(whole(source)), CUBE.reshape(-1, 5) / 10, rtol=1e-6)
        assert source.scene.shape == (4, 3)
        assert source.scene.wavelengths.tolist() == WAVES
        assert source.scene.good_bands.tolist() == [True, True, False, True, True]
        assert source.scene.ignore == np.float32(-9999 * 0.1 / scaled)
        assert source.scene.units == "nm"
        assert source.scene.map_info["map info"].startswith("UTM")


def test_the_only_cube_of_a_dataset():
    xarray = pytest.importorskip("xarray", reason="not an extra: whoever has such an array has the library")
    array = xarray.DataArray(CUBE, dims=("y", "x", "band"))
    data = xarray.Dataset({"reflectance": array, "mask": array[:, :, 0]})
    np.testing.assert_array_equal(as_cube(data).pixels, as_cube(array).pixels)
    for wrong in (data.assign(other=array), data[["mask"]]):
        with pytest.raises(InvalidInputError, match=r"one of its arrays has three axes; here: (reflectance, oth|none)"):
            as_cube(wrong)


def test_arrays_of_xarray(tmp_path):
    xarray = pytest.importorskip("xarray", reason="not an extra: whoever has such an array has the library")
    coords = {
        "wavelength": ("band", WAVES, {"units": "nm"}),
        "x": 15.0 + 30 * np.arange(3),
        "y": 85.0 - 30 * np.arange(4),
    }
    array = xarray.DataArray(
        CUBE, dims=("y", "x", "band"), coords=coords, attrs={"_FillValue": -1, "scale_factor": 0.1}
    )
    array.coords["spatial_ref"] = ((), 0, {"crs_wkt": "EPSG:32633"})
    for turned in (array, array.transpose("band", "y", "x"), array.transpose("y", "band", "x")):
        source = open_source(turned)
        for max_bytes in (1, 1 << 20):
            assert np.array_equal(whole(source, max_bytes), CUBE.reshape(-1, 5))
        scene = source.scene
        assert (scene.shape, scene.units, scene.ignore) == ((4, 3), "nm", -1)
        assert scene.wavelengths.tolist() == WAVES
        assert scene.scale.tolist() == [0.1] * 5
        assert scene.map_info == {"crs": "EPSG:32633", "transform": (30, 0, 0, 0, -30, 100)}
    nameless = xarray.DataArray(np.moveaxis(CUBE, 2, 0))
    assert np.array_equal(whole(open_source(nameless, bands="first")), CUBE.reshape(-1, 5))
    with pytest.raises(InvalidInputError, match=r"axes of the DataArray are dim_0, .* bands='first'"):
        open_source(nameless)
    with pytest.raises(InvalidInputError, match="three axes"):
        fa.apps.unmix(nameless[0, 0], 2)


def test_an_array_of_xarray_with_two_axes_is_pixels_by_bands():
    """It was refused, though every other matrix is taken."""
    xarray = pytest.importorskip("xarray", reason="not an extra: whoever has such an array has the library")
    scene = fa.datasets.hyperspectral(12, 15, 20, 3, rng=0)
    waves = 400.0 + 10 * np.arange(20)
    array = xarray.DataArray(scene.A, dims=("pixel", "band"), coords={"wavelength": ("band", waves, {"units": "nm"})})
    plain = fa.apps.unmix(scene.A, 3, shape=(12, 15))
    stacked = xarray.DataArray(scene.cube, dims=("y", "x", "band")).stack(pixel=("y", "x")).transpose("pixel", "band")
    for given, options in (
        (array, {}),
        (stacked, {}),
        (array.T, {"bands": "first"}),
        (xarray.DataArray(scene.A), {}),
        (xarray.DataArray(scene.A, dims=("sample", "feature")), {}),
        (xarray.DataArray(scene.A, dims=("row", "column")), {"bands": "last"}),
        (xarray.DataArray(scene.A.T, dims=("row", "column")), {"bands": "first"}),
    ):
        result = fa.apps.unmix(given, 3, shape=(12, 15), **options)
        np.testing.assert_array_equal(result.endmembers, plain.endmembers)
        np.testing.assert_array_equal(result.maps, plain.maps)
    columns = np.ascontiguousarray(scene.cube.transpose(1, 0, 2)).reshape(-1, 20)
    turned = as_cube(xarray.DataArray(columns, dims=("pixel", "band")), shape=(12, 15), order="F")
    np.testing.assert_array_equal(turned.image(turned.pixels), scene.cube)
    cube = as_cube(array)
    assert (cube.shape, cube.size, cube.info.units, cube.wavelengths.tolist()) == (
        None,
        (180, 20),
        "nm",
        waves.tolist(),
    )


@pytest.mark.parametrize("axes", [("band", "pixel"), ("Wavelength", "p"), ("y", "x"), ("lat", "lon"), ("pixel", "x")])
def test_a_matrix_whose_axes_are_not_pixels_and_bands_is_refused(tmp_path, axes):
    xarray = pytest.importorskip("xarray", reason="not an extra: whoever has such an array has the library")
    h5py = pytest.importorskip("h5py", reason="extra io")
    values = CUBE.reshape(-1, 5)
    with h5py.File(tmp_path / "a.nc", "w") as file:
        file["a"] = values
        for at, axis in enumerate(axes):
            file["a"].dims[at].label = axis
    for given in (xarray.DataArray(values, dims=axes), tmp_path / "a.nc"):
        message = rf"(?i){', '.join(axes)}, .* pixels and bands: transpose it, pass bands='last'"
        with pytest.raises(InvalidInputError, match=message):
            fa.apps.unmix(given, 2)
        assert fa.apps.unmix(given, 2, bands="last").cube.size == (12, 5)
    assert open_source(tmp_path / "a.nc").shape == (12, 5)  # any matrix may be built into a store


def test_options_of_a_matrix_of_xarray():
    xarray = pytest.importorskip("xarray", reason="not an extra: whoever has such an array has the library")
    values = CUBE.reshape(-1, 5)
    array = xarray.DataArray(values, dims=("pixel", "band"))
    for options, message in (({"bands": "middle"}, "no middle axis"), ({"shape": (5, 5)}, "does not hold 12 pixels")):
        with pytest.raises(InvalidInputError, match=message):
            as_cube(array, **options)


def test_a_matrix_of_xarray_that_is_still_packed_is_unpacked():
    xarray = pytest.importorskip("xarray", reason="not an extra: whoever has such an array has the library")
    values = CUBE.reshape(-1, 5).copy()
    values[7, 2] = -1
    array = xarray.DataArray(values, dims=("pixel", "band"), attrs={"_FillValue": -1, "scale_factor": 0.5})
    expected = np.where(values == -1, np.nan, values * 0.5)
    np.testing.assert_array_equal(as_cube(array).pixels, expected)
    pytest.importorskip("dask", reason="extra dask")
    np.testing.assert_array_equal(as_cube(array.chunk({"pixel": 5})).pixels, expected)


def test_unmix_takes_paths_images_and_the_axis_of_the_bands(tmp_path):
    xarray = pytest.importorskip("xarray", reason="not an extra: whoever has such an array has the library")
    scene = fa.datasets.hyperspectral(12, 15, 20, 3, rng=0)
    plain = fa.apps.unmix(scene.cube, 3).endmembers
    np.save(tmp_path / "a.npy", scene.cube)
    first = np.moveaxis(scene.cube, 2, 0)
    named = xarray.DataArray(first, dims=("band", "y", "x"))
    for given, options in ((tmp_path / "a.npy", {}), (first, {"bands": "first"}), (named, {})):
        result = fa.apps.unmix(given, 3, **options)
        np.testing.assert_allclose(result.endmembers, plain)
        assert result.maps.shape == (12, 15, 3)
    flat = fa.apps.unmix(scene.A.T, 3, bands="first", shape=(12, 15))
    np.testing.assert_allclose(flat.endmembers, plain)
    for given, options, message in (
        (first, {"bands": "second"}, "bands must be"),
        (scene.A, {"bands": "middle"}, "no middle axis"),
        (named, {"shape": (3, 60)}, r"image of \(12, 15\)"),
        (flat.cube, {"bands": "first"}, "already states"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            fa.apps.unmix(given, 3, **options)


def test_labels_of_axes_in_every_form_of_text(tmp_path):
    """HDF5's own function for labels ended the process if they are texts of fixed length."""
    h5py = pytest.importorskip("h5py", reason="extra io")
    X = np.random.default_rng(0).random((12, 6, 7))
    for name, labels in (("fixed", np.array([b"band", b"y", b"x"])), ("variable", ["band", "y", "x"])):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file["X"] = X
            file["X"].attrs["DIMENSION_LABELS"] = labels
        np.testing.assert_array_equal(
            np.concatenate(list(open_source(tmp_path / f"{name}.h5").blocks())), X.reshape(12, 42).T
        )


def test_dimension_scales_that_were_left_behind(tmp_path):
    """A data set that h5py has copied refers to scales of the other file."""
    h5py = pytest.importorskip("h5py", reason="extra io")
    X = np.random.default_rng(0).random((6, 7, 12))
    with h5py.File(tmp_path / "a.h5", "w") as file, h5py.File(tmp_path / "b.h5", "w") as copy:
        file["X"] = X
        for axis, name in enumerate(("y", "x", "band")):
            file[name] = np.arange(X.shape[axis]) * 10.0
            file[name].make_scale(name)
            file["X"].dims[axis].attach_scale(file[name])
        file.copy("X", copy)
        del file["band"]
    for name in ("a", "b"):
        source = open_source(tmp_path / f"{name}.h5", variable="X", bands="last")
        np.testing.assert_array_equal(np.concatenate(list(source.blocks())), X.reshape(42, 12))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_data_behind_links_and_beside_arrays_of_unknown_kinds(tmp_path):
    """They are read if they are asked for."""
    h5py = pytest.importorskip("h5py", reason="extra io")
    zarr = pytest.importorskip("zarr", reason="extra io")
    X = np.random.default_rng(0).random((50, 12))
    with h5py.File(tmp_path / "a.h5", "w") as file, h5py.File(tmp_path / "b.h5", "w") as other:
        other["X"], file["X"] = X, h5py.ExternalLink("b.h5", "/X")
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=3)
    group.create_array("X", data=X)
    group.create_array("other", shape=(5, 2), dtype="f8")
    about = tmp_path / "a.zarr" / "other" / "zarr.json"
    about.write_text(about.read_text().replace("float64", "unknown64"))
    for name in ("a.h5", "a.zarr"):
        source = open_source(tmp_path / name, variable="X")
        np.testing.assert_array_equal(np.concatenate(list(source.blocks())), X)
    with pytest.raises(StoreError, match=r"a\.zarr"):
        open_source(tmp_path / "a.zarr")
