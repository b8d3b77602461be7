"""Outputs of scene commands overwrite neither a file of their inputs nor that of another image, nor go into a store."""

from __future__ import annotations

import numpy as np
import pytest

import fastanchors as fa

pytest.importorskip("click", reason="extra cli")
pytest.importorskip("rich", reason="extra cli")

from click.testing import CliRunner

from fastanchors.cli.app import app

CUBE = fa.datasets.separable(60, 8, 3, noise=0.01, rng=0).A.reshape(6, 10, 8).astype("<f4")


def call(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


def write_scene(folder, raw, header, cube=CUBE):
    lines, samples, bands = cube.shape
    cube.tofile(folder / raw)
    text = f"ENVI\nsamples = {samples}\nlines = {lines}\nbands = {bands}\ndata type = 4\ninterleave = bip\n"
    (folder / header).write_text(text)


def write_spectra(path):
    rows = [f"{band}," + ",".join(map(str, CUBE.reshape(-1, 8)[[0, 9, 33], band])) for band in range(8)]
    path.write_text("\n".join(["band,material 1,material 2,material 3", *rows]) + "\n")


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("raw", "header", "given", "out"),
    [
        ("s.img", "s.hdr", "s.hdr", "s.img"),
        ("s.img", "s.hdr", "s.hdr", "s.IMG"),
        ("s.dat", "s.hdr", "s.dat", "s.img"),
        ("s.dat", "s.hdr", "s.hdr", "s.img"),
        ("s", "s.hdr", "s", "s.img"),
        ("s.bip", "s.bip.hdr", "s.bip.hdr", "s.bip.img"),
    ],
)
def test_abundances_do_not_overwrite_their_scene(tmp_path, raw, header, given, out):
    write_scene(tmp_path, raw, header)
    write_spectra(tmp_path / "e.csv")
    before = contents(tmp_path)
    result = call("encode", tmp_path / given, tmp_path / "e.csv", "-o", tmp_path / out)
    assert result.exit_code == 2
    assert "is an input of this command and would be overwritten" in result.stderr
    assert contents(tmp_path) == before


def test_abundances_do_not_overwrite_the_header_of_another_image(tmp_path):
    write_scene(tmp_path, "s.img", "s.hdr")
    write_scene(tmp_path, "other.dat", "other.hdr")
    write_spectra(tmp_path / "e.csv")
    before = contents(tmp_path)
    result = call("encode", tmp_path / "s.hdr", tmp_path / "e.csv", "-o", tmp_path / "other.img")
    assert result.exit_code == 2
    assert "other.hdr would be overwritten, and is the header of" in result.stderr
    assert contents(tmp_path) == before
    for _ in range(2):  # an image of the same command may be written again
        assert call("encode", tmp_path / "s.hdr", tmp_path / "e.csv", "-o", tmp_path / "new.img").exit_code == 0


def test_a_geotiff_leaves_the_image_of_the_same_name(tmp_path):
    pytest.importorskip("rasterio", reason="extra geo")
    write_scene(tmp_path, "s.img", "s.hdr")
    write_spectra(tmp_path / "e.csv")
    before = contents(tmp_path)
    assert call("encode", tmp_path / "s.img", tmp_path / "e.csv", "-o", tmp_path / "s.tif").exit_code == 0
    after = contents(tmp_path)
    assert set(after) - set(before) == {tmp_path / "s.tif"}
    assert {path: after[path] for path in before} == before


@pytest.mark.parametrize("raw", ["abundances.dat", "residual"])
@pytest.mark.parametrize("role", ["scene", "mask"])
def test_unmix_does_not_overwrite_the_header_of_its_inputs(tmp_path, raw, role):
    out = tmp_path / "out"
    out.mkdir()
    header = raw.partition(".")[0] + ".hdr"
    write_scene(out, raw, header, CUBE if role == "scene" else np.ones((6, 10, 1), "<f4"))
    write_scene(tmp_path, "s.img", "s.hdr")
    before = contents(tmp_path)
    inputs = [out / raw] if role == "scene" else [tmp_path / "s.hdr", "--mask", out / raw]
    result = call("unmix", *inputs, "-k", 2, "-o", out, "--no-pictures")
    assert result.exit_code == 2
    assert f"{header} is an input of this command" in result.stderr
    assert contents(tmp_path) == before


def test_no_store_is_built_inside_a_store(tmp_path):
    np.save(tmp_path / "a.npy", CUBE.reshape(-1, 8))
    assert call("build", tmp_path / "a.npy", tmp_path / "a.store").exit_code == 0
    for overwrite in ([], ["--overwrite"]):
        result = call("build", tmp_path / "a.npy", tmp_path / "a.store" / "b.store", *overwrite)
        assert result.exit_code == 2
        assert "is inside a store" in result.stderr
    assert call("build", tmp_path / "a.npy", tmp_path / "a.store", "--overwrite").exit_code == 0
