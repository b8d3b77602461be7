"""Read image objects of other libraries: ``spectral.open_image`` (SPy), xarray's ``DataArray`` and ``Dataset``.

Neither library is imported: objects are recognised by the module of their class.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._packing import Packing, packing, packing_of_xarray
from .._validate import as_array
from ..errors import InvalidInputError
from .envi import header_scene
from .row_source import Source
from .scene import (
    MapAxis,
    SceneInfo,
    band_axes,
    check_pixels,
    declared_bands,
    is_turned,
    is_wavelength_unit,
    map_axis,
    placed,
    scene_source,
)

__all__ = ["is_scene_object", "is_turned_mask", "scene_object"]

_WAVE_NAMES = ("wavelength", "wavelengths", "center_wavelength", "central_wavelength", "wl", "wvl", "lambda")


def is_scene_object(source: Any) -> bool:
    """Whether ``source`` is an image of SPy, or an array or data set of xarray."""
    return _library(source) is not None


def scene_object(source: Any, *, bands: str | None = None) -> Source:
    """The object as pixels × bands; ``bands`` is the band axis if the object does not name it.

    The ``scene`` of an array of xarray with two axes has no shape.
    """
    if _library(source) != "xarray":
        return _from_spectral(source)
    return _from_xarray(_only_cube(source) if hasattr(source, "data_vars") else source, bands)


def is_turned_mask(mask: Any) -> bool:
    """Whether a mask is an array of xarray with two axes, of which the first is x."""
    if _library(mask) != "xarray" or len(mask.dims) != 2 or hasattr(mask, "data_vars"):
        return False
    return is_turned(*(_map_axis(mask, str(name)) for name in mask.dims))


def _library(source: Any) -> str | None:
    for each in type(source).__mro__:
        library, name = each.__module__.partition(".")[0], each.__name__
        if (library, name) in (("spectral", "Image"), ("xarray", "DataArray"), ("xarray", "Dataset")):
            return library
    return None


def _from_spectral(image: Any) -> Source:
    """An SPy image: a file is mapped; an image that was loaded was scaled by SPy."""
    fields = {
        str(key).lower(): ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        for key, value in (image.metadata or {}).items()
    }
    lines, samples, count = (int(size) for size in image.shape)
    loaded = isinstance(image, np.ndarray) or not hasattr(image, "open_memmap")
    info = header_scene(fields, (lines, samples), count, Path(str(getattr(image, "filename", None) or "the image")))
    waves, ignore, scale = info.wavelengths, info.ignore, info.scale
    if image.bands.centers is not None and len(image.bands.centers) == count:
        waves = np.asarray(image.bands.centers, dtype=np.float64)
    if loaded:
        cube = np.asarray(image if isinstance(image, np.ndarray) else image.load())
        if ignore is not None and scale is not None:
            ignore = float(cube.dtype.type(ignore * scale[0]))  # SPy divides by the reflectance scale factor
        scale = None
    else:
        cube = image.open_memmap(interleave="bip")
    scene = SceneInfo(
        (lines, samples),
        "C",
        waves,
        info.units or image.bands.band_unit or None,
        info.good_bands,
        ignore,
        scale,
        None if loaded else info.offset,
        info.map_info,
    )
    read_lines = partial(_lines_of_array, cube)  # no closure: results that keep it can be pickled
    return scene_source("the image", read_lines, (lines, samples, count), cube.dtype, scene)


def _lines_of_array(cube: NDArray[Any], first: int, last: int) -> NDArray[Any]:
    return cube[first:last]


def _only_cube(dataset: Any) -> Any:
    """The array of a ``Dataset`` that has three axes."""
    cubes = [str(name) for name, array in dataset.data_vars.items() if array.ndim == 3]
    if len(cubes) != 1:
        listed = ", ".join(cubes) or "none"
        raise InvalidInputError(
            f"a Dataset is a scene where one of its arrays has three axes; here: {listed}. Pass one"
        )
    return dataset[cubes[0]]


def _from_xarray(array: Any, bands: str | None) -> Source:
    """A cube with a band axis named ``band``, ``wavelength``, …, or beside axes x and y; or pixels × bands."""
    if array.ndim == 2:
        return _pixels_of_xarray(array, bands)
    if array.ndim != 3:
        listed = ", ".join(map(str, array.dims)) or "none"
        raise InvalidInputError(f"a scene has three axes, or two (pixels, bands); this DataArray has: {listed}")
    lines, samples, at = band_axes(bands or _band_axis(array), "the DataArray")
    line_name, sample_name, band_name = (str(array.dims[axis]) for axis in (lines, samples, at))
    height, width, count = (int(array.shape[axis]) for axis in (lines, samples, at))
    facts = packing_of_xarray(array, "the DataArray")
    axes = _map_axis(array, line_name), _map_axis(array, sample_name)
    turned = is_turned(*axes)
    scene = replace(
        _of_bands(array, band_name, facts),
        shape=(width, height) if turned else (height, width),
        order="F" if turned else "C",
        map_info=placed(_grid_mapping(array), *axes),
    )
    read_lines = partial(_lines_of_xarray, array, (line_name, sample_name, band_name), facts)
    return scene_source("the DataArray", read_lines, (height, width, count), facts.dtype, scene)


def _pixels_of_xarray(array: Any, bands: str | None) -> Source:
    """An array with two axes, pixels × bands like every matrix; raises if the names of its axes say otherwise."""
    names = [str(name) for name in array.dims]
    if bands == "middle":
        raise InvalidInputError("the DataArray is a matrix, which has no middle axis; pass bands='first' or 'last'")
    if bands is None:
        check_pixels((_map_axis(array, name) for name in names), "the DataArray")
    pixel_name, band_name = names[::-1] if bands == "first" else names
    facts, sizes = packing_of_xarray(array, "the DataArray"), array.sizes
    read_lines = partial(_lines_of_xarray, array, (pixel_name, band_name), facts)
    size = int(sizes[pixel_name]), 1, int(sizes[band_name])
    return scene_source("the DataArray", read_lines, size, facts.dtype, _of_bands(array, band_name, facts))


def _of_bands(array: Any, band_name: str, facts: Packing) -> SceneInfo:
    """What is known without the size of the image: wavelengths, no-data value, factors."""
    count = int(array.sizes[band_name])
    waves, units = _wavelengths(array, band_name)
    return SceneInfo(
        None,
        wavelengths=waves,
        units=units,
        ignore=facts.missing[0] if facts.missing else None,
        scale=None if facts.factor == 1 else np.full(count, facts.factor),
        offset=None if facts.offset == 0 else np.full(count, facts.offset),
    )


def _lines_of_xarray(array: Any, axes: tuple[str, ...], facts: Packing, first: int, last: int) -> NDArray[Any]:
    lines = array.isel({axes[0]: slice(first, last)}).transpose(*axes)
    return facts.stored(as_array(lines.data, "the DataArray"))


def _band_axis(array: Any) -> str:
    axes = [str(name) for name in array.dims]
    declared = declared_bands([{name.lower()} for name in axes], [_map_axis(array, name).role for name in axes])
    if declared is None:
        raise InvalidInputError(
            f"the axes of the DataArray are {', '.join(axes)}: pass the band axis as "
            "bands='first', 'middle' or 'last', or name it 'band', or the others 'y' and 'x'"
        )
    return declared


def _wavelengths(array: Any, band_name: str) -> tuple[NDArray[np.float64] | None, str | None]:
    """Those of a coordinate of that name, or else of the bands' own one if its unit is that of wavelengths."""
    along = {
        str(name): (values, values.attrs.get("units", array.attrs.get("wavelength_units")))
        for name, values in array.coords.items()
        if tuple(values.dims) == (band_name,) and values.dtype.kind in "iuf"
    }
    for name, (values, units) in along.items():
        if name.lower() in _WAVE_NAMES:
            return _decoded(values).astype(np.float64), None if units is None else str(units)
    values, units = along.get(band_name, (None, None))
    return (_decoded(values).astype(np.float64), str(units)) if is_wavelength_unit(units) else (None, None)


def _grid_mapping(array: Any) -> dict[str, Any]:
    """The attributes of ``spatial_ref`` (rioxarray), or of the grid mapping (CF)."""
    known = {**array.encoding, **array.attrs}
    mapping = array.coords.get(str(known.get("grid_mapping", "spatial_ref")))
    return {} if mapping is None else dict(mapping.attrs)


def _map_axis(array: Any, name: str) -> MapAxis:
    """An axis with its coordinates, if it has one of them per pixel."""
    found = array.coords.get(name)
    return map_axis([name], {}) if found is None or found.ndim != 1 else map_axis([name], found.attrs, _decoded(found))


def _decoded(array: Any) -> NDArray[Any]:
    """The values of coordinates, which are still packed if xarray was told so."""
    values = np.asarray(array.data)
    if values.dtype.kind not in "iuf":
        return values
    return packing(array.attrs, values.dtype, f"the coordinate {array.name}").values(values)
