"""Read ENVI images: a text header (``.hdr``) beside a raw file, interleaved by band, by line or by pixel.

A spectral library (``.sli``) is a file of the same form: its lines are spectra, and its samples their bands.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._signals import pass_on
from ..errors import StoreError
from .decoding import BOM
from .row_source import Source
from .scene import SceneInfo, scene_source

__all__ = ["EnviImage", "find_header", "header_scene", "image_files", "is_library", "open_envi", "read_envi"]

_TYPES = {1: "u1", 2: "i2", 3: "i4", 4: "f4", 5: "f8", 12: "u2", 13: "u4", 14: "i8", 15: "u8"}
_SUFFIXES = ("", ".img", ".dat", ".raw", ".bin", ".bil", ".bip", ".bsq")
_LIBRARY = ".sli"
_BRACES = r"\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}|\{[^}]*\}"  # pairs of braces in braces, or else up to the first that closes
_KEY = r"^[ \t]*([^=\n{}]+?)[ \t]*=[ \t]*"
_FIELD = re.compile(rf"{_KEY}({_BRACES}|[^\n]*)", re.MULTILINE)
_LINE = re.compile(rf"{_KEY}([^\n]*)", re.MULTILINE)
# Order of the axes in the file, and the transposition to lines × samples × bands.
_INTERLEAVES = {
    "bsq": (("bands", "lines", "samples"), (1, 2, 0)),
    "bil": (("lines", "bands", "samples"), (0, 2, 1)),
    "bip": (("lines", "samples", "bands"), (0, 1, 2)),
}


@dataclass(frozen=True)
class EnviImage:
    """An image with the data of its header: ``cube`` is lines × samples × bands, memory-mapped.

    The cube of a spectral library is spectra × 1 × bands, and its scene has no shape.
    """

    cube: NDArray[Any]
    wavelengths: NDArray[np.float64] | None
    ignore: float | None
    band_names: list[str] | None
    scene: SceneInfo = field(default_factory=lambda: SceneInfo(None))
    is_library: bool = False
    spectra_names: list[str] | None = None


def read_envi(path: Path, *, row_names: Any = None, column_names: Any = None) -> Source:
    """An ENVI image as pixels × bands, line by line, or a spectral library; ``path`` is the header or the raw file."""
    image = open_envi(path)
    if image.band_names is None and image.is_library and image.wavelengths is not None:
        image = replace(image, band_names=[f"{wave:.10g}" for wave in image.wavelengths])
    source = scene_source(
        str(path),
        lambda first, last: image.cube[first:last],
        image.cube.shape,
        image.cube.dtype,
        image.scene,
        row_names=row_names if row_names is not None else image.spectra_names,
        column_names=column_names if column_names is not None else image.band_names,
    )
    source.pick = lambda rows: _pick(image.cube, rows)
    source.mapped, source.is_library = image.cube, image.is_library
    return source


def _pick(cube: NDArray[Any], rows: NDArray[np.intp]) -> NDArray[Any]:
    """Some pixels; a band-sequential file is read band by band, because a pixel's bands are far apart in it."""
    lines, samples = np.divmod(rows, cube.shape[1])
    if cube.strides[2] < cube.strides[0]:
        return np.asarray(cube[lines, samples])
    picked = np.empty((rows.size, cube.shape[2]), dtype=cube.dtype)
    for band in range(cube.shape[2]):
        picked[:, band] = cube[lines, samples, band]
    return picked


def open_envi(path: Path) -> EnviImage:
    """The image or spectral library of a header, or of the raw file beside one, memory-mapped."""
    header = path if path.suffix.lower() == ".hdr" else find_header(path)
    if header is None:
        raise StoreError(f"no header beside {path}: tried {path.with_suffix('.hdr').name} and {path.name}.hdr")
    path, given = header, path
    fields = header_fields(path)
    sizes = {key: _whole(fields, key, path) for key in ("lines", "samples", "bands")}
    offset = _whole(fields, "header offset", path, default=0, least=0)
    code = _whole(fields, "data type", path)
    if code not in _TYPES:
        raise StoreError(f"{path}: data type {code} is not one of real numbers ({', '.join(map(str, _TYPES))})")
    dtype = np.dtype((">" if _whole(fields, "byte order", path, default=0, least=0) else "<") + _TYPES[code])
    interleave = fields.get("interleave", "bsq").lower()
    if interleave not in _INTERLEAVES:
        raise StoreError(f"{path}: interleave {interleave[:40]!r} is unknown; it is one of {', '.join(_INTERLEAVES)}")
    for key in ("file compression", "major frame offsets", "minor frame offsets"):
        if set(fields.get(key, "0").replace(",", " ").split()) - {"0"}:
            raise StoreError(
                f"{path}: '{key}' is {fields[key][:40]!r}, which is not supported; convert the image first"
            )
    axes, order = _INTERLEAVES[interleave]
    shape = tuple(sizes[axis] for axis in axes)
    data = _data_file(path) if given == path else given
    library = data.suffix.lower() == _LIBRARY or _is_library(fields)
    if library and sizes["bands"] != 1:
        raise StoreError(f"{path}: 'bands' of a spectral library must be 1, got {sizes['bands']}")
    needed = offset + math.prod(shape) * dtype.itemsize
    if data.stat().st_size < needed:
        raise StoreError(f"{data} is truncated: it has {data.stat().st_size} bytes, the header requires {needed}")
    cube = np.memmap(data, dtype=dtype, mode="r", offset=offset, shape=shape).transpose(order)
    if library:
        return _library(cube.transpose(0, 2, 1), fields, path)
    scene = header_scene(fields, (sizes["lines"], sizes["samples"]), sizes["bands"], path)
    return EnviImage(cube, scene.wavelengths, scene.ignore, _names(fields, "band names", sizes["bands"]), scene)


def _library(cube: NDArray[Any], fields: dict[str, str], path: Path) -> EnviImage:
    """A spectral library: wavelengths and so on are listed for its samples."""
    spectra, _, bands = cube.shape
    scene = header_scene(fields, None, bands, path)
    listed = fields.get("wavelength", "").replace(",", " ").split()
    if listed and scene.wavelengths is None:
        raise StoreError(f"{path} has {len(listed)} wavelengths for {bands} bands")
    return EnviImage(
        cube,
        scene.wavelengths,
        scene.ignore,
        _names(fields, "band names", bands),
        scene,
        True,
        _names(fields, "spectra names", spectra),
    )


def _is_library(fields: dict[str, str]) -> bool:
    return "spectral library" in " ".join(fields.get("file type", "").lower().split())


def _names(fields: dict[str, str], key: str, count: int) -> list[str] | None:
    """The names in a field, if there are ``count`` of them."""
    names = [name.strip() for name in fields.get(key, "").split(",")]
    return names if key in fields and len(names) == count else None


def header_scene(fields: dict[str, str], shape: tuple[int, int] | None, bands: int, path: Path) -> SceneInfo:
    """Bands, no-data value, scale and map position from the header."""
    ignore = _numbers(fields.get("data ignore value"), 1, path)
    good = _numbers(fields.get("bbl"), bands, path)
    scale = _numbers(fields.get("data gain values"), bands, path)
    factor = _numbers(fields.get("reflectance scale factor"), 1, path)
    if scale is None and factor is not None and np.isfinite(factor[0]) and factor[0] > 0 and factor[0] != 1:
        scale = np.full(bands, 1 / factor[0])
    return SceneInfo(
        shape,
        "C",
        _numbers(fields.get("wavelength"), bands, path),
        fields.get("wavelength units"),
        None if good is None else good != 0,
        None if ignore is None else float(ignore[0]),
        scale,
        _numbers(fields.get("data offset values"), bands, path),
        {key: fields[key] for key in ("map info", "coordinate system string", "projection info") if key in fields},
    )


def find_header(path: Path) -> Path | None:
    """The ENVI header beside a raw file: ``x.hdr`` or ``x.img.hdr`` for ``x.img``; None if there is none."""
    for suffix in (".hdr", ".HDR"):
        for header in (path.with_name(f"{path.name}{suffix}"), path.with_suffix(suffix)):
            if header != path and header.is_file() and _begins(header).removeprefix(BOM).startswith(b"ENVI"):
                return header
    return None


def image_files(path: Path) -> list[Path]:
    """The header and the raw file of the ENVI image that ``path`` names; ``path`` alone if it names none."""
    try:
        other = _data_file(path) if path.suffix.lower() == ".hdr" else find_header(path)
    except (OSError, ValueError) as error:  # StoreError is an OSError
        pass_on(error)
        other = None
    return [path] if other is None else [path, other]


def is_library(path: Path) -> bool:
    """Whether ``path`` is the header or the raw file of a spectral library."""
    header, *data = sorted(image_files(path), key=lambda file: file.suffix.lower() != ".hdr")
    with contextlib.suppress(StoreError):
        return len(data) == 1 and (data[0].suffix.lower() == _LIBRARY or _is_library(header_fields(header)))
    return False


def _begins(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(16)
    except OSError as error:
        pass_on(error)
        return b""


def header_fields(path: Path) -> dict[str, str]:
    """The fields ``key = value``; a value in braces may span several lines, and contain pairs of braces."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        pass_on(error)
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from error
    if not text.lstrip("\ufeff").startswith("ENVI"):
        raise StoreError(f"{path} is not an ENVI header: its first line is not 'ENVI'")
    fields = {}
    head, brace, tail = text.rpartition("}")
    line, _, rest = tail.partition("\n")  # no brace closes in the rest, and it is not searched for one at each field
    for found in itertools.chain(_FIELD.finditer(head + brace + line), _LINE.finditer(rest)):
        value = found[2].strip()
        inner = value.strip("{}")
        if "{" in inner or "}" in inner:  # braces of the value itself
            inner = value.removeprefix("{").removesuffix("}")
        fields[" ".join(found[1].lower().split())] = inner.strip()
    return fields


def _whole(fields: dict[str, str], key: str, path: Path, *, default: int | None = None, least: int = 1) -> int:
    if key not in fields and default is not None:
        return default
    text = fields.get(key, "")
    if not (text.isascii() and text.isdigit()) or len(text) > 15 or int(text) < least:
        raise StoreError(f"{path}: '{key}' must be a whole number of at least {least}, got {text[:40]!r}")
    return int(text)


def _numbers(text: str | None, count: int, path: Path) -> NDArray[np.float64] | None:
    if text is None:
        return None
    try:
        values = np.array([float(word) for word in text.replace(",", " ").split()])
    except ValueError:
        raise StoreError(f"{path}: expected numbers, got {text[:40]!r}") from None
    return values if values.size == count else None


def _data_file(header: Path) -> Path:
    """The raw file beside the header: ``x``, ``x.img``, … for ``x.hdr``; ``x.img`` for ``x.img.hdr``."""
    suffixes = (*_SUFFIXES, _LIBRARY)
    with contextlib.suppress(StoreError):  # the header is needed only where both kinds of files are beside it
        suffixes = (_LIBRARY, *_SUFFIXES) if _is_library(header_fields(header)) else suffixes
    for suffix in suffixes:
        for candidate in (header.with_suffix(suffix), header.with_suffix(suffix.upper())):
            if candidate != header and candidate.is_file():
                return candidate
    raise StoreError(f"no image file beside {header}: tried {header.stem} with {', '.join(filter(None, suffixes))}")
