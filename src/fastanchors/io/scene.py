"""Images with many bands as pixels × bands: shared by the readers of ENVI, GeoTIFF, netCDF, HDF5 and arrays.

A reader returns a :class:`~fastanchors.io.row_source.Source` whose rows are pixels and whose ``scene`` has the
metadata: the size of the image, wavelengths, bad bands, no-data value, scale factors, map position. The rows are the
stored numbers; :meth:`SceneInfo.values` scales them.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._equality import ComparedByValue
from ..errors import GuessWarning, InvalidInputError
from ..matrix.scaled import divided, unit_of
from .arrays import dense_source
from .row_source import Source, check_claim, read_names

__all__ = [
    "BAND_AXES",
    "BAND_NAMES",
    "CHECKED_ENTRIES",
    "MapAxis",
    "SceneInfo",
    "band_axes",
    "check_pixels",
    "cube_source",
    "declared_bands",
    "doubt",
    "is_turned",
    "is_wavelength_unit",
    "map_axis",
    "placed",
    "scene_source",
]

BAND_AXES = {"first": 0, "middle": 1, "last": 2}
BAND_NAMES = ("band", "bands", "wavelength", "wavelengths", "wl", "wvl", "lambda", "spectral", "channel", "channels")
CHECKED_ENTRIES = 1 << 25  # a cube up to this size is read to check the axis of the bands
# How the axes of an image are called: words at the start of the names, or attributes of their coordinates (CF).
_WORDS = {
    "x": {
        "x",
        "xc",
        "xdim",
        "lon",
        "long",
        "longitude",
        "east",
        "easting",
        "eastings",
        "col",
        "cols",
        "column",
        "columns",
    }
    | {"sample", "samples", "width", "crosstrack", "west"},
    "y": {"y", "yc", "ydim", "lat", "latitude", "north", "northing", "northings", "row", "rows", "line", "lines"}
    | {"height", "downtrack", "alongtrack", "south"},
}
_STANDARD = {
    "x": {"projection_x_coordinate", "projection_x_angular_coordinate", "longitude", "grid_longitude"},
    "y": {"projection_y_coordinate", "projection_y_angular_coordinate", "latitude", "grid_latitude"},
}
_DEGREES = {"x": re.compile(r"degrees?_?e(ast)?", re.I), "y": re.compile(r"degrees?_?n(orth)?", re.I)}
_METRES = {
    name: metres
    for metres, names in {
        1.0: "m meter meters metre metres",
        1000.0: "km kilometer kilometers kilometre kilometres 1000_m",
        0.1: "dm decimeter decimeters decimetre decimetres",
        0.01: "cm centimeter centimeters centimetre centimetres",
        0.001: "mm millimeter millimeters millimetre millimetres",
        0.3048: "ft foot feet international_foot international_feet",
        1200 / 3937: "us_survey_foot us_survey_feet ft_us us-ft",
    }.items()
    for name in names.split()
}
_GEOGRAPHIC = re.compile(r"\s*(GEOG|GEOD)", re.I)  # the start of the WKT of longitudes and latitudes
_UNIT = re.compile(r"UNIT\s*\[\s*\"([^\"]*)\"\s*,\s*([-+.eE\d]*\d)", re.I)
_ANGLE = re.compile("deg|rad|grad|arc|unity", re.I)
_WAVE_UNITS = re.compile("nm|[uµμ]m|(nano|micro)met(er|re)s?|microns?", re.I)
_MATERIALS = 5  # number of spectra whose mixtures approximate the pixels of any scene
_CLEARLY = 3.0  # factor by which another axis must fit better as the bands before a warning

ReadLines = Callable[[int, int], NDArray[Any]]


@dataclass(frozen=True, eq=False)
class SceneInfo(ComparedByValue):
    """Metadata of a scene.

    Attributes
    ----------
    shape
        (height, width) of the image, or None if it is not known.
    order
        "C" if pixels run along the lines of the image, "F" if they run down its columns.
    wavelengths
        One for each band, or None.
    units
        Unit of the wavelengths, such as ``"Nanometers"``, or None.
    good_bands
        False for bands that the header marks as bad; None if it marks none.
    ignore
        The stored value of pixels without data, or None.
    scale, offset
        Per band; the measured value is ``stored * scale + offset``. None means no scaling.
    valid
        False for pixels that a mask in the file excludes, in the order of the pixels; None without a mask.
    map_info
        Map position: ENVI's ``"map info"`` and ``"coordinate system string"``; for other formats ``"crs"`` (WKT, or a
        code such as ``"EPSG:32633"``) and ``"transform"``, six numbers t: the corner of a pixel is at
        x = t[0]·column + t[1]·row + t[2], y = t[3]·column + t[4]·row + t[5].
    """

    shape: tuple[int, int] | None
    order: Literal["C", "F"] = "C"
    wavelengths: NDArray[np.float64] | None = None
    units: str | None = None
    good_bands: NDArray[np.bool_] | None = None
    ignore: float | None = None
    scale: NDArray[np.float64] | None = None
    offset: NDArray[np.float64] | None = None
    map_info: Mapping[str, Any] = field(default_factory=dict)
    valid: NDArray[np.bool_] | None = None

    def no_data(self, block: NDArray[Any], first: int = 0) -> NDArray[np.bool_]:
        """Which pixels of a block, as stored, are masked, or NaN or the ignored value in some good band.

        ``first`` is the number of the first pixel. Zero as the ignored value counts in all good bands only: in some it
        is a dark pixel.
        """
        gone = np.zeros(len(block), np.bool_) if self.valid is None else ~self.valid[first : first + len(block)]
        used = block if self.good_bands is None else block[:, self.good_bands]
        if used.dtype.kind == "f":
            gone |= np.isnan(used).any(axis=1)
        if self.ignore is not None:
            ignored = used == self.ignore
            gone |= ignored.all(axis=1) if self.ignore == 0 else ignored.any(axis=1)
        return gone

    def values(self, block: NDArray[Any]) -> NDArray[Any]:
        """The measured values, in float64 if there are scale factors; ignored entries become NaN."""
        if self.ignore is None:
            return self.scaled(block, slice(None))
        measured = self.scaled(block.astype(np.float64), slice(None))
        measured[block == self.ignore] = np.nan
        return measured

    def scaled(self, block: NDArray[Any], bands: Any) -> NDArray[Any]:
        """The measured values in some ``bands``, whose stored numbers are the columns of ``block``."""
        if self.scale is None and self.offset is None:
            return block
        measured = block.astype(np.float64)
        if self.scale is not None:
            measured *= self.scale[bands]
        if self.offset is not None:
            measured += self.offset[bands]
        return measured


class _Pixels:
    """Pixels × bands of an image that is read by lines."""

    def __init__(self, read_lines: ReadLines, shape: tuple[int, int, int], dtype: Any) -> None:
        lines, self.samples, bands = shape
        self.read_lines, self.shape, self.dtype = read_lines, (lines * self.samples, bands), np.dtype(dtype)
        self.held: tuple[int, NDArray[Any]] | None = None  # number and pixels of a line that is longer than a block

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        start, stop, _ = rows.indices(self.shape[0])
        first, last = start // self.samples, -(-stop // self.samples)
        if self.held is not None and self.held[0] == first and last - first == 1:
            part = self.held[1]
        else:
            self.held = None
            part = np.ascontiguousarray(self.read_lines(first, last)).reshape(-1, self.shape[1])
            if last - first == 1 and stop < last * self.samples:
                self.held = first, part
        return part[start - first * self.samples : stop - first * self.samples]


def scene_source(
    name: str,
    read_lines: ReadLines,
    shape: tuple[int, int, int],
    dtype: Any,
    scene: SceneInfo,
    *,
    stored: int | None = None,
    chunk_lines: int = 1,
    row_names: Any = None,
    column_names: Any = None,
) -> Source:
    """The pixels of an image of ``shape`` (lines, samples, bands); ``read_lines(first, last)`` reads lines.

    ``stored`` is the size of its data in the file, for formats that omit empty chunks.
    """
    if min(shape) < 1:
        raise InvalidInputError(f"{name} is empty: {shape[0]} lines, {shape[1]} samples, {shape[2]} bands")
    if stored is not None:
        check_claim(name, int(np.prod(shape, dtype=object)) * np.dtype(dtype).itemsize, stored)
    source = dense_source(
        name,
        _Pixels(read_lines, shape, dtype),
        chunk_rows=shape[1] * max(1, chunk_lines),
        row_names=read_names(row_names, "row"),
        column_names=read_names(column_names, "column"),
    )
    source.scene = scene
    return source


def cube_source(
    name: str, open_cube: Callable[[], Any], bands: str, row_names: Any = None, column_names: Any = None
) -> Source:
    """The pixels of a cube with the band axis ``bands``; ``open_cube()`` returns an array that can be sliced."""
    axes = band_axes(bands, name)
    cube = open_cube()
    if len(cube.shape) != 3:
        raise InvalidInputError(f"{name} is not a cube: it has the shape {tuple(cube.shape)}; remove bands=…")
    lines, samples, count = (int(cube.shape[axis]) for axis in axes)

    def read_lines(first: int, last: int) -> NDArray[Any]:
        index = [slice(None)] * 3
        index[axes[0]] = slice(first, last)
        return np.transpose(np.asarray(open_cube()[tuple(index)]), axes)

    info = SceneInfo((lines, samples))
    return scene_source(
        name, read_lines, (lines, samples, count), cube.dtype, info, row_names=row_names, column_names=column_names
    )


def band_axes(bands: str, name: str) -> tuple[int, int, int]:
    """The axes of lines, samples and bands of a cube whose bands are ``"first"``, ``"middle"`` or ``"last"``."""
    if bands not in BAND_AXES:
        raise InvalidInputError(f"bands must be 'first', 'middle' or 'last', got {bands!r} for {name}")
    at = BAND_AXES[bands]
    lines, samples = (axis for axis in range(3) if axis != at)
    return lines, samples, at


class MapAxis(NamedTuple):
    """An axis of an image: its name, whether it is the x or the y axis of a map, and its coordinates, if known."""

    name: str
    role: Literal["x", "y"] | None
    coordinates: NDArray[Any] | None = None
    units: str = ""


def map_axis(names: Iterable[str], facts: Mapping[str, Any], coordinates: NDArray[Any] | None = None) -> MapAxis:
    """An axis with these ``names``, whose coordinates have the attributes ``facts``; the attributes take precedence."""
    known = [str(name) for name in names if name]
    said = {key: _text(facts.get(key)).strip() for key in ("axis", "standard_name", "units")}
    words = {re.split(r"[^a-z]", name.lower())[0] for name in known}
    roles: tuple[Literal["x", "y"], ...] = ("x", "y")
    found = [role for role in roles if said["axis"].lower() == role or said["standard_name"] in _STANDARD[role]]
    found = found or [role for role in roles if _DEGREES[role].fullmatch(said["units"])]
    found = found or [role for role in roles if words & _WORDS[role]]
    return MapAxis(known[0] if known else "", found[0] if len(found) == 1 else None, coordinates, said["units"])


def declared_bands(names: Sequence[Collection[str]], roles: Sequence[str | None]) -> str | None:
    """The band axis of a cube, given the names in lower case and the roles of its axes; None if they do not say.

    It is the only axis that is named as one of bands, or else the one beside an x and a y axis, whatever its name.
    """
    found = [axis for axis, known in enumerate(names) if not set(BAND_NAMES).isdisjoint(known)]
    if len(found) != 1 and sorted(map(str, roles)) == ["None", "x", "y"]:
        found = [roles.index(None)]
    return list(BAND_AXES)[found[0]] if len(found) == 1 else None


def is_wavelength_unit(unit: Any) -> bool:
    """Whether coordinates of bands in this unit are wavelengths, whatever their name."""
    return _WAVE_UNITS.fullmatch(_text(unit).strip()) is not None


def check_pixels(axes: Iterable[MapAxis], name: str) -> None:
    """Raise if the two axes of a matrix are named otherwise: the first as one of bands, or the second as x or y."""
    pixels, bands = axes
    if pixels.name.lower() in BAND_NAMES or bands.role is not None:
        raise InvalidInputError(
            f"the axes of {name} are {pixels.name}, {bands.name}, but those of a matrix are pixels and bands: "
            "transpose it, pass bands='last' if that is what they are, or pass a cube with three axes"
        )


def is_turned(first: MapAxis, second: MapAxis) -> bool:
    """Whether the first of two axes of an image is x: its height is then the size of the second one."""
    return first.role != second.role and (first.role == "x" or second.role == "y")


def placed(facts: Mapping[str, Any], first: MapAxis, second: MapAxis) -> dict[str, Any]:
    """The map position, from the attributes of a CF grid mapping and the two axes of an image, in any order."""
    place: dict[str, Any] = {}
    crs = next((_text(facts[name]) for name in ("crs_wkt", "spatial_ref") if facts.get(name) is not None), None)
    if crs is not None:
        place["crs"] = crs
    across, down = (first, second) if is_turned(first, second) else (second, first)
    steps = _even_step(across.coordinates), _even_step(down.coordinates)
    if steps[0] is None or steps[1] is None:
        return place
    x, y = (_in_unit_of(crs, axis) for axis in (across, down))
    if across.role == down.role or x is None or y is None:
        if crs is not None:
            warnings.warn(
                f"the map position is not used: it is not known which of the axes {down.name!r} and {across.name!r} of "
                "the image is x and which is y, in the unit of the coordinate system; name them y and x, and convert "
                "their coordinates to that unit",
                GuessWarning,
                stacklevel=4,
            )
        return place
    dx, dy = (float(axis[-1] - axis[0]) / (len(axis) - 1) for axis in (x.astype(np.float64), y.astype(np.float64)))
    place["transform"] = (dx, 0.0, float(x[0]) - dx / 2, 0.0, dy, float(y[0]) - dy / 2)
    return place


def _in_unit_of(crs: str | None, axis: MapAxis) -> NDArray[Any] | None:
    """The coordinates in the unit of the coordinate system (WKT); None if they cannot be converted."""
    unit = axis.units if len(axis.units) < 3 else axis.units.lower().replace(" ", "_")  # Mm is not mm
    if axis.coordinates is None or not unit or crs is None:
        return axis.coordinates
    if unit.startswith("deg") or _GEOGRAPHIC.match(crs):
        degrees = _GEOGRAPHIC.match(crs) or "[" not in crs  # a code does not say
        return axis.coordinates if unit.startswith("deg") and degrees else None
    lengths = [float(size) for name, size in _UNIT.findall(crs) if not _ANGLE.match(name)]
    metres = _METRES.get(unit)
    if metres is None or (lengths and not lengths[-1] > 0):
        return None
    factor = metres / (
        lengths[-1] if lengths else 1.0
    )  # the unit of a projection is stated after that of its ellipsoid
    return axis.coordinates if abs(factor - 1) < 1e-9 else axis.coordinates * factor


def _text(value: Any) -> str:
    return "" if value is None else value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _even_step(axis: NDArray[Any] | None) -> float | None:
    """The step between the centres of pixels if it is constant, else None."""
    if axis is None or axis.ndim != 1 or axis.size < 2 or axis.dtype.kind not in "iuf":
        return None
    steps = np.diff(axis.astype(np.float64))
    step = (float(axis[-1]) - float(axis[0])) / (axis.size - 1)
    even = step != 0 and bool(np.all(np.abs(steps - step) <= 1e-3 * abs(step)))
    return step if even else None


def doubt(array: NDArray[Any], name: str) -> None:
    """Warn if another axis looks like the bands.

    The spectra of all pixels are mixtures of a few spectra; the rows and columns of an image are not. So spectra along
    the right axis have far less energy outside their leading directions. About 50 × 50 × 250 entries are examined.
    """
    missed = [_outside(array, axis) for axis in range(3)]
    best = int(np.argmin(missed))
    if min(array.shape) > _MATERIALS and missed[best] * _CLEARLY < missed[2]:
        (height, width, bands), axis = array.shape, list(BAND_AXES)[best]
        warnings.warn(
            f"{name} is taken as {height}×{width} pixels with {bands} bands, but the {axis} axis looks like the "
            f"bands; if it is, give bands={axis!r}, or move it to the end of an array",
            GuessWarning,
            stacklevel=4,
        )


def _outside(array: NDArray[Any], axis: int) -> float:
    steps = [-(-size // (250 if i == axis else 50)) for i, size in enumerate(array.shape)]
    some = np.nan_to_num(array[tuple(slice(None, None, step) for step in steps)].astype(np.float64), posinf=0, neginf=0)
    rows = np.moveaxis(divided(some, unit_of(some)), axis, -1).reshape(-1, some.shape[axis])
    values = np.linalg.eigvalsh(rows.T @ rows)
    return float(values[:-_MATERIALS].clip(0).sum() / values.sum()) if values.sum() > 0 else 0.0
