"""Read GeoTIFF images with many bands, line by line, with rasterio (extra ``geo``)."""

from __future__ import annotations

import warnings
import weakref
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import MissingExtraError, StoreError
from .chunked import by_chunks
from .row_source import Source, reading
from .scene import SceneInfo, is_wavelength_unit, scene_source

__all__ = ["read_geotiff"]

_CACHE = 1 << 22  # bytes of cached blocks of GDAL, instead of a part of the machine's memory


def read_geotiff(path: Path, *, row_names: Any = None, column_names: Any = None) -> Source:
    """A GeoTIFF as pixels × bands, line by line.

    No-data value, mask (in the file or beside it), scales, offsets, wavelengths (tags ``wavelength`` or GDAL's
    ``CENTRAL_WAVELENGTH_UM`` of the bands, or descriptions such as ``"412.5 nm"``), the coordinate system and the
    transform are kept in the source's ``scene``. An alpha band is a mask, not one of the bands.
    """
    try:
        import rasterio
    except ImportError as error:
        raise MissingExtraError("reading GeoTIFF needs rasterio: pip install 'fastanchors[geo]'") from error
    with reading(path), rasterio.Env(), warnings.catch_warnings():  # in an Env, GDAL prints nothing
        warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)  # a map position is not needed
        image = rasterio.open(path)
    try:
        with reading(path), rasterio.Env(GDAL_CACHEMAX=_CACHE):
            bands, valid = _bands(image)
            types = {image.dtypes[band - 1] for band in bands}
            dtype = np.result_type(*types)
            if dtype.kind not in "iuf":
                raise StoreError(f"{path} holds {', '.join(sorted(types))}, not real numbers")
            shape = (int(image.height), int(image.width), len(bands))
            given = [image.descriptions[band - 1] for band in bands]
            names = [text or f"band {band}" for band, text in zip(bands, given, strict=True)]

            cube = by_chunks(_Cube(image, bands, dtype), 1)

            def read_lines(first: int, last: int) -> NDArray[Any]:
                return np.moveaxis(cube[:, first:last], 0, -1)

            source = scene_source(
                str(path),
                read_lines,
                shape,
                dtype,
                _scene(image, bands, valid),
                stored=path.stat().st_size,
                chunk_lines=int(image.block_shapes[0][0]),
                row_names=row_names,
                column_names=column_names if column_names is not None else names if any(given) else None,
            )
    except BaseException:
        image.close()
        raise
    weakref.finalize(source, image.close)
    return source


class _Cube:
    """The bands of an image as an array of bands × lines × samples, with the blocks of the file as its chunks."""

    def __init__(self, image: Any, bands: list[int], dtype: np.dtype[Any]) -> None:
        self._image, self._bands, self.dtype = image, bands, dtype
        self.shape = len(bands), int(image.height), int(image.width)
        together = str(image.profile.get("interleave")).lower() == "pixel"  # a block has all bands
        self.chunks = len(bands) if together else 1, *map(int, image.block_shapes[0])

    def __getitem__(self, index: tuple[slice, ...]) -> NDArray[Any]:
        known = tuple(slice(*each.indices(size)) for each, size in zip(index, self.shape, strict=False))
        known += tuple(slice(0, size) for size in self.shape[len(known) :])
        part = np.empty([each.stop - each.start for each in known], self.dtype)
        self.read_direct(part, known, (slice(None),) * 3)
        return part

    def read_direct(self, out: NDArray[Any], source: tuple[slice, ...], dest: tuple[slice, ...]) -> None:
        """Read a part into a part of ``out``, as data sets of h5py do."""
        from rasterio import Env
        from rasterio.windows import Window

        bands, lines, samples = source
        window = Window(samples.start, lines.start, samples.stop - samples.start, lines.stop - lines.start)
        with Env(GDAL_CACHEMAX=_CACHE):
            self._image.read(self._bands[bands], window=window, out=out[dest])


def _scene(image: Any, bands: list[int], valid: NDArray[np.bool_] | None) -> SceneInfo:
    waves, units = _wavelengths(image, bands)
    scales, offsets = (np.array([each[band - 1] for band in bands], float) for each in (image.scales, image.offsets))
    place = {"transform": tuple(image.transform)[:6]} if not image.transform.is_identity else {}
    if image.crs is not None:
        place["crs"] = image.crs.to_wkt()
    return SceneInfo(
        (int(image.height), int(image.width)),
        "C",
        waves,
        units,
        None,
        None if image.nodata is None else float(image.nodata),
        None if (scales == 1).all() else scales,
        None if (offsets == 0).all() else offsets,
        place,
        valid,
    )


def _bands(image: Any) -> tuple[list[int], NDArray[np.bool_] | None]:
    """The bands without alpha bands, which GDAL uses as masks of RGB images only; which pixels no mask excludes."""
    from rasterio.enums import ColorInterp, MaskFlags

    alpha = [band for band, kind in enumerate(image.colorinterp, 1) if kind is ColorInterp.alpha]
    masks = [image.read(band) for band in alpha]
    if any(MaskFlags.per_dataset in flags for flags in image.mask_flag_enums):
        masks.append(image.dataset_mask())
    bands = [band for band in range(1, image.count + 1) if band not in alpha]
    return bands, np.all([mask > 0 for mask in masks], axis=0).reshape(-1) if masks else None


def _wavelengths(image: Any, bands: list[int]) -> tuple[NDArray[np.float64] | None, str | None]:
    """The wavelengths of the bands, from the first source that has them, and their unit."""
    tags = [image.tags(band) for band in bands]
    imagery = [image.tags(band, ns="IMAGERY").get("CENTRAL_WAVELENGTH_UM", "") for band in bands]
    words = [(image.descriptions[band - 1] or "").split() for band in bands]
    unit = words[0][1].strip("()") if len(words[0]) == 2 else ""
    described = [each[0] if len(each) == 2 and is_wavelength_unit(each[1].strip("()")) else "" for each in words]
    for texts, units in (
        ([tag.get("wavelength", "") for tag in tags], tags[0].get("wavelength_units")),
        (imagery, "Micrometers"),
        (described, unit),
    ):
        waves = [_number(text) for text in texts]
        if None not in waves:
            return np.array(waves, dtype=np.float64), units
    return None, None


def _number(text: str) -> float | None:
    try:
        return float(text.split()[0])
    except (ValueError, IndexError):
        return None
