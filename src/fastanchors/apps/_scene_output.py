"""Write unmixing results for other programs: spectra as CSV and ENVI library, maps as ENVI and GeoTIFF."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._replacing import make_folder, replacing
from .._validate import check_flag
from ..io.addresses import local_path
from ..io.scene import SceneInfo
from ._cube import Cube
from ._scene_place import check_place, envi_place, write_geotiff
from ._unmix import Unmixing, check_unmixing

__all__ = ["save_image", "save_maps", "save_spectra"]

_PIECE = 1 << 20  # pixels written at a time


def save_spectra(result: Unmixing, folder: str | Path) -> list[Path]:
    """Write ``endmembers.csv`` (a row per band) and the ENVI spectral library ``endmembers.sli`` with its header.

    Excluded bands are zero. Wavelengths are written if the scene has them, otherwise band numbers.

    Parameters
    ----------
    result
        The result of :func:`unmix`.
    folder
        The output folder; created if it does not exist.

    Examples
    --------
    >>> import tempfile
    >>> import fastanchors as fa
    >>> scene = fa.datasets.hyperspectral(12, 10, 30, 3, rng=0)
    >>> result = fa.apps.unmix(scene.A, 3, shape=(12, 10))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     print(sorted(path.name for path in fa.apps.save_spectra(result, folder)))
    ['endmembers.csv', 'endmembers.hdr', 'endmembers.sli']
    """
    check_unmixing(result)
    folder = local_path(folder)
    make_folder(folder)
    info, (k, bands) = result.cube.info, result.endmembers.shape
    names = [f"material{i + 1}" for i in range(k)]
    unit = f" ({info.units})" if info.units else ""
    first = np.arange(bands) if info.wavelengths is None else info.wavelengths
    head = ",".join(["band" if info.wavelengths is None else f"wavelength{unit}", *names])
    table, library = folder / "endmembers.csv", folder / "endmembers.sli"
    with replacing(table) as partial:
        np.savetxt(
            partial,
            np.column_stack([first, result.endmembers.T]),
            delimiter=",",
            header=head,
            comments="",
            fmt="%.10g",
            encoding="utf-8",
        )
    fields = {"file type": "ENVI Spectral Library", "spectra names": _listed(names), **_band_fields(info)}
    left_out = np.union1d(result.dropped_bands, result.dead_bands)
    if left_out.size:
        fields["bbl"] = _listed(np.where(np.isin(np.arange(bands), left_out), 0, 1))
    return [table, *_envi(library, [result.endmembers], fields, (1, k, bands))]


def save_maps(result: Unmixing, folder: str | Path, *, geotiff: bool = False) -> list[Path]:
    """Write the abundances and the residual as images with the georeference of the scene.

    ``abundances.img`` has a band of float32 for each material (and for the shadow). ``residual.img`` has one band: the
    root mean square of the residual of each pixel, in the units of the data. Both are ENVI images with headers.
    Excluded pixels have the value −1, which the headers mark as no data.

    Parameters
    ----------
    result
        The result of :func:`unmix`; the size of its image must be known.
    folder
        The output folder; created if it does not exist.
    geotiff
        Also write ``abundances.tif`` and ``residual.tif``; needs rasterio (extra ``geo``).

    Returns
    -------
    list of Path
        The files.

    Examples
    --------
    >>> import tempfile
    >>> import fastanchors as fa
    >>> scene = fa.datasets.hyperspectral(12, 10, 30, 3, rng=0)
    >>> result = fa.apps.unmix(scene.A, 3, shape=(12, 10))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     print(sorted(path.name for path in fa.apps.save_maps(result, folder)))
    ['abundances.hdr', 'abundances.img', 'residual.hdr', 'residual.img']
    """
    check_unmixing(result)
    folder = local_path(folder)
    check_flag(geotiff, name="geotiff")
    if geotiff:
        check_place(folder)
    make_folder(folder)
    maps = {f"material {j + 1}": result.abundances[:, j] for j in range(len(result.endmembers))}
    if result.has_shadow:
        maps["shadow"] = result.shadow
    files = save_image(folder / "abundances.img", result.cube, maps, result.left_out, geotiff)
    residual = {"residual": result.residual}
    return files + save_image(folder / "residual.img", result.cube, residual, result.left_out, geotiff)


def save_image(
    path: Path, cube: Cube, maps: Mapping[str, NDArray[Any]], left_out: NDArray[np.intp], geotiff: bool = False
) -> list[Path]:
    """Write a value per pixel for each name as an ENVI image with the georeference of the scene, or also as GeoTIFF."""
    gone = np.zeros(cube.size[0], dtype=bool)
    gone[left_out] = True
    nowhere, names = cube.image(gone), list(maps)
    step = max(1, _PIECE // nowhere.shape[1])

    def pieces() -> Iterator[NDArray[Any]]:
        for values in maps.values():
            image = cube.image(values)
            for first in range(0, len(image), step):
                lines = slice(first, first + step)
                yield np.where(nowhere[lines], np.float32(-1), image[lines])

    fields = {"file type": "ENVI Standard", "band names": _listed(names), "data ignore value": "-1"}
    files = _envi(path, pieces(), fields | envi_place(cube.info), (len(names), *nowhere.shape))
    return [*files, write_geotiff(path, path.with_suffix(".tif"), cube.info, names)] if geotiff else files


def _envi(
    path: Path, pieces: Iterable[NDArray[Any]], fields: dict[str, str], shape: tuple[int, int, int]
) -> list[Path]:
    """Write a band-sequential image of ``shape`` (bands, lines, samples), in consecutive pieces, and its header."""
    count, lines, samples = shape
    header = path.with_suffix(".hdr")
    sizes = {"samples": samples, "lines": lines, "bands": count, "header offset": 0, "data type": 4}
    text = ["ENVI", *(f"{key} = {value}" for key, value in sizes.items()), "interleave = bsq", "byte order = 0"]
    with replacing(path) as partial, replacing(header) as partial_header:
        with partial.open("wb") as file:
            for piece in pieces:
                file.write(np.ascontiguousarray(piece, dtype="<f4").data)  # tofile hides the reason of an error
        partial_header.write_text("\n".join([*text, *(f"{k} = {v}" for k, v in fields.items())]) + "\n", "utf-8")
    return [path, header]


def _band_fields(info: SceneInfo) -> dict[str, str]:
    if info.wavelengths is None:
        return {}
    return {"wavelength": _listed(info.wavelengths), **({"wavelength units": info.units} if info.units else {})}


def _listed(values: Any) -> str:
    return "{" + ", ".join(str(value) for value in values) + "}"
