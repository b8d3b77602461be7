"""``fastanchors encode`` with the spectra of ``unmix``: abundances of another scene."""

from __future__ import annotations

import csv
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInputError, StoreError
from ..io.envi import image_files, is_library, open_envi
from ..io.row_source import reading
from ..io.scratch import TemporaryFolder, scratch_file
from ._options import check_output
from ._terminal import working
from ._weights import SUFFIXES, WeightsFile
from .app import emit

__all__ = ["encode_scene", "is_endmembers"]

_IMAGES = (".img", ".tif")
_LIBRARY = (".sli", ".hdr")
_BLOCK = 1 << 16  # pixels whose weights are written at a time
_OPTIONS = ("variable", "bands")  # options of the reader that apply to scenes


def is_endmembers(anchors: str) -> bool:
    """Whether the file has spectra written by ``unmix``: ``endmembers.csv`` or an ENVI spectral library."""
    path = Path(anchors)
    if not os.path.isfile(path):  # of a list of row numbers that is too long for a name, pathlib would raise
        return False
    if path.suffix.lower() in _LIBRARY:
        return is_library(path)
    if path.suffix.lower() != ".csv":
        return False
    with path.open("rb") as file:
        head = file.readline(1 << 16).decode("utf-8", "replace").split(",")
    return len(head) > 1 and (head[0] == "band" or head[0].startswith("wavelength")) and head[1].startswith("material")


def encode_scene(
    source: Path,
    anchors: str,
    out: Path,
    sum_to_one: bool,
    escape: bool,
    as_json: bool,
    options: dict[str, Any],
    *,
    nodata: float | None = None,
) -> None:
    """Write the abundances of every pixel of the scene: pixels × k, or an image if ``out`` has such a suffix."""
    from ..apps._abundances import fill_abundances
    from ..apps._scene_files import read_cube
    from ..apps._usable import usable

    _check_image(out, source, anchors)
    given = [name for name, value in options.items() if value not in (None, ()) and name not in _OPTIONS]
    if given:
        raise click.UsageError(f"--{given[0].replace('_', '-')} cannot be used for scenes")
    start = time.perf_counter()
    spectra, waves = _spectra(Path(anchors))
    names = [f"material {j + 1}" for j in range(len(spectra))]
    with working(f"encoding {source.name}"), scratch_file() as room:
        cube = read_cube(source, variable=options.get("variable"), bands=options.get("bands"))
        if nodata is not None:
            cube = replace(cube, info=replace(cube.info, ignore=nodata))
        _check_bands(cube, spectra, waves, anchors)
        dropped = np.flatnonzero(~spectra.any(axis=0))  # bands that unmix left out are zero
        data = usable(cube, dropped=dropped, signed=True)
        weights: Any = np.memmap(room, np.float64, "w+", shape=(cube.size[0], len(spectra)))
        nothing = np.zeros(0, dtype=np.intp)
        used = np.ones(data.bands.size, dtype=bool)
        filled = fill_abundances(data, spectra[:, data.bands], used, nothing, weights, sum_to_one=sum_to_one)
        left_out = np.flatnonzero(~data.held)
        if out.suffix.lower() in _IMAGES:
            maps = {name: weights[:, j] for j, name in enumerate(names)}
            _save_image(out, cube, maps, left_out)
        else:
            with WeightsFile(out, np.float64, names, escape=escape) as file:
                for first in range(0, len(weights), _BLOCK):
                    file.write(np.asarray(weights[first : first + _BLOCK]))
        pixels = len(weights)
        del weights
    seconds, error = time.perf_counter() - start, filled.relative_error
    if as_json:
        emit(
            {
                "path": str(out),
                "shape": [pixels, len(spectra)],
                "relative_error": error,
                "pixels_left_out": int(left_out.size),
                "sum_to_one": sum_to_one,
                "seconds": seconds,
            }
        )
        return
    click.echo(f"{pixels} pixels in {len(spectra)} materials: relative error {error:.1%}")
    if left_out.size:
        click.echo(f"{left_out.size} pixels have no data in some or all bands: their weights are zero")
    click.echo(f"weights in {out} ({seconds:.1f} s)")


def _check_image(out: Path, source: Path, anchors: str) -> None:
    """Check the output; the header beside an ENVI image must not be that of another file."""
    beside = (".hdr",) if out.suffix.lower() == ".img" else ()
    check_output(out, (*SUFFIXES, *_IMAGES), "--out", source, anchors, beside=beside)
    for header in (out.with_suffix(suffix) for suffix in beside):
        *_, data = image_files(header)
        if data not in (header, out):
            raise click.BadParameter(f"{header} would be overwritten, and is the header of {data}", param_hint="--out")


def _save_image(out: Path, cube: Any, maps: dict[str, NDArray[Any]], left_out: NDArray[np.intp]) -> None:
    """Write an ENVI image, or a GeoTIFF by way of a temporary one."""
    from ..apps._scene_output import save_image
    from ..apps._scene_place import write_geotiff

    if out.suffix.lower() == ".img":
        save_image(out, cube, maps, left_out)
        return
    with TemporaryFolder("image") as folder:
        image = Path(folder) / "image.img"
        save_image(image, cube, maps, left_out)
        write_geotiff(image, out, cube.info, list(maps))


def _check_bands(cube: Any, spectra: NDArray[np.float64], waves: NDArray[np.float64] | None, anchors: str) -> None:
    if cube.size[1] != spectra.shape[1]:
        raise InvalidInputError(f"the spectra in {anchors} have {spectra.shape[1]} bands, {cube.name} {cube.size[1]}")
    if waves is not None and waves.size != spectra.shape[1]:
        raise InvalidInputError(f"{anchors} has {waves.size} wavelengths for {spectra.shape[1]} bands")
    if waves is not None and cube.wavelengths is not None and not np.allclose(waves, cube.wavelengths, rtol=1e-3):
        band = int(np.argmax(np.abs(waves - cube.wavelengths)))
        raise InvalidInputError(
            f"band {band} is at {waves[band]:g} in {anchors} and at {cube.wavelengths[band]:g} in {cube.name}: "
            "the spectra are from another sensor, or the units differ"
        )


def _spectra(path: Path) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Spectra (k × bands) and wavelengths, from a table with a row per band or an ENVI spectral library."""
    if path.suffix.lower() in _LIBRARY:
        with reading(path):
            library = open_envi(path)
            spectra = library.scene.values(np.asarray(library.cube[:, 0], dtype=np.float64))
        if not np.isfinite(spectra).all():
            raise StoreError(f"{path} has a value that is not finite")
        return spectra, library.wavelengths
    with reading(path), path.open(encoding="utf-8", newline="") as file:
        head, *rows = list(csv.reader(file))
    try:
        table = np.array([[float(cell) for cell in row] for row in rows])
    except ValueError as error:
        raise StoreError(f"{path} has a cell that is not a number: {error}") from None
    if table.ndim != 2 or table.shape[1] != len(head) or not np.isfinite(table).all():
        raise StoreError(f"{path} must have a row of {len(head)} finite numbers for each band")
    return np.ascontiguousarray(table[:, 1:].T), table[:, 0] if head[0].startswith("wavelength") else None
