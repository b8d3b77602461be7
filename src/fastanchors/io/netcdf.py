"""Read scenes from netCDF 4 and HDF5 files: a cube with wavelengths, including EMIT and PRISMA products."""

from __future__ import annotations

import math
import weakref
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._packing import packing
from ..errors import InvalidInputError, StoreError
from .arrays import dense_source
from .chunked import by_chunks
from .hdf5 import check_stored, kind_of, open_hdf5, text_name
from .packed import unpacked
from .row_source import Source, read_names, reading
from .scene import (
    BAND_AXES,
    CHECKED_ENTRIES,
    MapAxis,
    SceneInfo,
    band_axes,
    declared_bands,
    doubt,
    is_turned,
    is_wavelength_unit,
    map_axis,
    placed,
    scene_source,
)

__all__ = ["read_netcdf"]

_MOST = 4096  # limit of data sets to examine
_PRISMA = ("VNIR", "SWIR")


def read_netcdf(
    path: Path,
    *,
    variable: str | None = None,
    bands: str | None = None,
    row_names: Any = None,
    column_names: Any = None,
) -> Source:
    """A cube of a netCDF 4 or HDF5 file as pixels × bands, line by line, or a data set with two axes as it is.

    ``variable`` is the path of a data set (or its last part); by default the largest with three axes (two, if there is
    none), and for PRISMA the bands of both detectors. The band axis of a cube is ``bands``: ``"first"``, ``"middle"``
    or ``"last"``. By default it is the one whose dimension is named ``band``, ``wavelength``, …, or else the one beside
    an x and a y axis, or else the one with the length of a data set of wavelengths, or else the last, with a warning if
    another axis looks more like the bands. ``_FillValue``, ``scale_factor``, ``add_offset``, wavelengths,
    ``good_wavelengths`` and the map position are stored in the source's ``scene``. If x is stored before y, the pixels
    run down the columns of the image.
    """
    with path.open("rb") as start:
        if start.read(3) == b"CDF":
            raise StoreError(f"{path} is netCDF 3; convert it to netCDF 4 with nccopy -k nc4")
    file = open_hdf5(path)
    try:
        with reading(path):
            sets = _data_sets(file, variable)
            if variable is None and all(f"{part}_Cube" in _last(sets) for part in _PRISMA):
                source = _prisma(path, file, sets, row_names, column_names)
            else:
                source = _cube(path, sets, variable, bands, row_names, column_names)
    except BaseException:
        file.close()
        raise
    weakref.finalize(source, file.close)
    return source


def _data_sets(file: Any, variable: str | None) -> dict[str, Any]:
    """All numeric data sets, by path; of those behind links only the requested one."""
    found: dict[str, Any] = {}

    def look(name: str | bytes, item: Any) -> bool | None:
        if kind_of(item) in ("i", "u", "f"):
            found[text_name(name)] = item
        return True if len(found) >= _MOST else None

    file.visititems(look)
    if variable is not None and variable not in found and variable in file:
        look(variable, file[variable])
    return found


def _last(sets: dict[str, Any]) -> dict[str, str]:
    """The last part of a path -> the path."""
    return {path.rpartition("/")[2]: path for path in sets}


def _cube(
    path: Path, sets: dict[str, Any], variable: str | None, bands: str | None, row_names: Any, column_names: Any
) -> Source:
    cubes = {name: item for name, item in sets.items() if item.ndim == 3 and min(item.shape) > 0}
    tables = {name: item for name, item in sets.items() if item.ndim == 2 and min(item.shape) > 0}
    if variable is None and "block1_values" in _last(tables):  # others hold the columns of other types
        raise InvalidInputError(f"{path} holds a frame that pandas wrote as several tables; write it with to_parquet")
    if bands in (None, "last") and (not cubes or not _named(cubes, variable)) and _named(tables, variable):
        return _matrix(path, tables, variable, row_names, column_names)
    key = _chosen(cubes, variable, path)
    item = cubes[key]
    waves = _wavelengths(sets, item.shape)
    if bands is None:
        bands = _band_axis(item, waves, f"{path}:{key}")
    lines, samples, band_axis = band_axes(bands, str(path))
    height, width, count = (int(item.shape[axis]) for axis in (lines, samples, band_axis))
    if waves is None or waves.size != count:
        waves = _coordinate(item, band_axis)
        waves = waves if waves is not None and is_wavelength_unit(waves.attrs.get("units")) else None
    facts = packing(item.attrs, item.dtype, f"{path}:{key}")
    axes = _map_axis(item, lines), _map_axis(item, samples)
    turned = is_turned(*axes)
    scene = SceneInfo(
        (width, height) if turned else (height, width),
        "F" if turned else "C",
        None if waves is None else _decoded(waves).astype(np.float64),
        None if waves is None else _text(waves.attrs.get("units")),
        _good_bands(sets, count),
        facts.missing[0] if facts.missing else None,
        None if facts.factor == 1 else np.full(count, facts.factor),
        None if facts.offset == 0 else np.full(count, facts.offset),
        placed(_grid_mapping(item, sets), *axes),
    )

    cube = by_chunks(item, lines)

    def read_lines(first: int, last: int) -> NDArray[Any]:
        index = [slice(None)] * 3
        index[lines] = slice(first, last)
        return np.transpose(facts.stored(cube[tuple(index)]), (lines, samples, band_axis))

    return scene_source(
        f"{path}:{key}",
        read_lines,
        (height, width, count),
        facts.dtype,
        scene,
        stored=int(item.id.get_storage_size()),
        chunk_lines=(item.chunks or (1, 1, 1))[lines],
        row_names=row_names,
        column_names=column_names,
    )


def _band_axis(item: Any, waves: Any, name: str) -> str:
    """The axis that is declared as that of the bands, or else has the length of the wavelengths, or else the last."""
    declared = declared_bands(
        [_axis_names(item, axis) for axis in range(3)], [map_axis(*_declared(item, axis)).role for axis in range(3)]
    )
    if declared is not None:
        return declared
    as_long = [axis for axis in range(3) if waves is not None and item.shape[axis] == waves.size]
    if len(as_long) == 1:
        return list(BAND_AXES)[as_long[0]]
    if item.size <= CHECKED_ENTRIES:
        doubt(item, name)
    return "last"


def _axis_names(item: Any, axis: int) -> set[str]:
    """The label of an axis, and the names of its dimension scales, in lower case."""
    labels = np.ravel(item.attrs.get("DIMENSION_LABELS", ()))  # HDF5's own function ends the process for some types
    label = (_text(labels[axis]) or "") if labels.size == item.ndim else ""
    scales = [str(scale.name).rpartition("/")[2] for scale in _scales(item, axis)]
    return {text.lower() for text in (label, *scales)}


def _scales(item: Any, axis: int) -> list[Any]:
    """The data sets that are attached to an axis; HDF5's own functions may end the process if one is damaged.

    Those that are not there any more are left out: a data set can be copied or kept without its scales.
    """
    attached = np.ravel(item.attrs.get("DIMENSION_LIST", ()))
    found = []
    for reference in np.ravel(attached[axis]) if attached.size == item.ndim else ():
        with suppress(ValueError, KeyError, TypeError, RuntimeError):
            found.append(item.file[reference])
    return [scale for scale in found if kind_of(scale)]


def _named(sets: dict[str, Any], variable: str | None) -> list[str]:
    """The data sets of that path, or last part of a path; all if None is given."""
    return [name for name in sets if variable in (None, name, name.rpartition("/")[2])]


def _matrix(path: Path, tables: dict[str, Any], variable: str | None, row_names: Any, column_names: Any) -> Source:
    """A data set with two axes: rows and columns."""
    key = _chosen(tables, variable, path, "table")
    check_stored(f"{path}:{key}", tables[key])
    array = unpacked(tables[key], f"{path}:{key}")
    names = {"row_names": read_names(row_names, "row"), "column_names": read_names(column_names, "column")}
    source = dense_source(f"{path}:{key}", array, chunk_rows=(array.chunks or (1,))[0], **names)
    source.axes = _map_axis(tables[key], 0), _map_axis(tables[key], 1)
    source.is_turned = is_turned(*source.axes)
    return source


def _grid_mapping(item: Any, sets: dict[str, Any]) -> dict[str, Any]:
    """The attributes of the grid mapping of a cube (CF conventions)."""
    mapping = (_text(item.attrs.get("grid_mapping")) or "").partition(":")[0]
    facts = next((dict(each.attrs) for name, each in sets.items() if mapping == name.rpartition("/")[2]), {})
    return {key: value for key, value in facts.items() if isinstance(value, str | bytes)}


def _map_axis(item: Any, axis: int) -> MapAxis:
    """An axis with its coordinate variable, if it has one (not the case for EMIT)."""
    names, facts = _declared(item, axis)
    scale = _coordinate(item, axis)
    return map_axis(names, facts, None if scale is None else _decoded(scale))


def _declared(item: Any, axis: int) -> tuple[list[str], Mapping[str, Any]]:
    """The names of an axis, and the attributes of its coordinate variable."""
    scale = _coordinate(item, axis)
    return sorted(_axis_names(item, axis)), {} if scale is None else scale.attrs


def _coordinate(item: Any, axis: int) -> Any:
    """The only data set that is attached to an axis and has a number for each place on it, or None."""
    scales = _scales(item, axis)
    if len(scales) != 1 or scales[0].shape != (item.shape[axis],):
        return None
    only_named = (_text(scales[0].attrs.get("NAME")) or "").startswith("This is a netCDF dimension")
    return None if only_named else scales[0]


def _decoded(item: Any) -> NDArray[Any]:
    """The values of a data set with one axis, such as coordinates, which may be packed."""
    values = np.asarray(item[()])
    return packing(item.attrs, values.dtype, str(item.name)).values(values) if values.dtype.kind in "iuf" else values


def _chosen(cubes: dict[str, Any], variable: str | None, path: Path, kind: str = "cube") -> str:
    listed = ", ".join(f"{name} {'×'.join(map(str, item.shape))}" for name, item in list(cubes.items())[:8]) or "none"
    if variable is not None:
        found = _named(cubes, variable)
        if len(found) != 1:
            raise InvalidInputError(f"{path} has no {kind} {variable!r}; it has: {listed}")
        return found[0]
    sizes = {name: math.prod(item.shape) for name, item in cubes.items()}
    largest = [name for name in sizes if sizes[name] == max(sizes.values())]
    if len(largest) != 1:
        raise InvalidInputError(f"{path}: choose a {kind} with variable=…; it has: {listed}")
    return largest[0]


def _wavelengths(sets: dict[str, Any], shape: tuple[int, ...]) -> Any:
    """The data set of wavelengths with the length of an axis."""
    for name, item in sets.items():
        if item.ndim == 1 and item.size in shape and name.rpartition("/")[2].lower() in ("wavelengths", "wavelength"):
            return item
    return None


def _good_bands(sets: dict[str, Any], count: int) -> NDArray[np.bool_] | None:
    for name, item in sets.items():
        if item.ndim == 1 and item.size == count and name.rpartition("/")[2].lower() == "good_wavelengths":
            return _decoded(item) == 1
    return None


def _attribute(item: Any, *names: str) -> float | None:
    for name in names:
        value = np.ravel(item.attrs.get(name, []))
        if value.size == 1 and value.dtype.kind in "iuf":
            return float(value[0])
    return None


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _prisma(path: Path, file: Any, sets: dict[str, Any], row_names: Any, column_names: Any) -> Source:
    """Both cubes of a PRISMA file (lines × bands × samples), concatenated along the bands."""
    names = _last(sets)
    parts = [sets[names[f"{part}_Cube"]] for part in _PRISMA]
    if any(part.ndim != 3 for part in parts) or parts[0].shape[::2] != parts[1].shape[::2]:
        raise StoreError(f"{path}: the cubes of VNIR and SWIR do not cover the same image")
    counts = [int(part.shape[1]) for part in parts]
    waves, good, scale, offset = [], [], [], []
    for name, count in zip(_PRISMA, counts, strict=True):
        label = name.capitalize()
        listed = np.ravel(file.attrs.get(f"List_Cw_{label}", np.zeros(0))).astype(np.float64)
        if listed.size != count:
            listed = np.zeros(count)
        flags = np.ravel(file.attrs.get(f"List_Cw_{label}_Flags", listed > 0))
        low, high = (_attribute(file, f"L2Scale{label}{end}") for end in ("Min", "Max"))
        waves.append(listed)
        good.append((listed > 0) & (flags != 0) if flags.size == count else listed > 0)
        scale.append(np.full(count, 1.0 if low is None or high is None else (high - low) / 65535))
        offset.append(np.full(count, 0.0 if low is None else low))
    scene = SceneInfo(
        (int(parts[0].shape[0]), int(parts[0].shape[2])),
        "C",
        np.concatenate(waves),
        "Nanometers",
        np.concatenate(good),
        None,
        np.concatenate(scale),
        np.concatenate(offset),
        _prisma_place(file, int(parts[0].shape[0]), int(parts[0].shape[2])),
    )

    cubes = [by_chunks(part) for part in parts]

    def read_lines(first: int, last: int) -> NDArray[Any]:
        return np.concatenate([np.moveaxis(cube[first:last], 1, 2) for cube in cubes], axis=2)

    return scene_source(
        str(path),
        read_lines,
        (int(parts[0].shape[0]), int(parts[0].shape[2]), sum(counts)),
        np.result_type(*(part.dtype for part in parts)),
        scene,
        stored=sum(int(part.id.get_storage_size()) for part in parts),
        chunk_lines=(parts[0].chunks or (1,))[0],
        row_names=row_names,
        column_names=column_names,
    )


def _prisma_place(file: Any, lines: int, samples: int) -> dict[str, Any]:
    """The map position of an orthorectified (L2D) image: from its corners (centres of pixels) and its EPSG code."""
    corners = [
        _attribute(file, f"Product_{corner}corner_{axis}")
        for corner in ("UL", "LR")
        for axis in ("easting", "northing")
    ]
    code = _attribute(file, "Epsg_Code")
    if code is None or None in corners or min(lines, samples) < 2:
        return {}
    left, top, right, bottom = (float(corner) for corner in corners if corner is not None)
    x, y = np.linspace(left, right, samples), np.linspace(top, bottom, lines)
    return placed({"spatial_ref": f"EPSG:{int(code)}"}, MapAxis("northing", "y", y), MapAxis("easting", "x", x))
