"""ENVI images: a text header (``.hdr``) beside a raw file in band-sequential, -by-line or -by-pixel order."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import StoreError
from .arrays import dense_source
from .row_source import Source, read_names

__all__ = ["EnviImage", "open_envi", "read_envi"]

_TYPES = {1: "u1", 2: "i2", 3: "i4", 4: "f4", 5: "f8", 12: "u2", 13: "u4", 14: "i8", 15: "u8"}
_SUFFIXES = ("", ".img", ".dat", ".raw", ".bin", ".bil", ".bip", ".bsq")
# Order of the axes in the file, and how to bring them to lines × samples × bands.
_INTERLEAVES = {
    "bsq": (("bands", "lines", "samples"), (1, 2, 0)),
    "bil": (("lines", "bands", "samples"), (0, 2, 1)),
    "bip": (("lines", "samples", "bands"), (0, 1, 2)),
}


@dataclass(frozen=True)
class EnviImage:
    """An image as its header describes it: ``cube`` is lines × samples × bands, mapped, not read."""

    cube: NDArray[Any]
    wavelengths: NDArray[np.float64] | None
    ignore: float | None
    band_names: list[str] | None


def read_envi(path: Path, *, row_names: Any = None, column_names: Any = None) -> Source:
    """An ENVI image as pixels × bands, pixels along its lines; ``path`` is the header."""
    image = open_envi(path)
    names = column_names if column_names is not None else image.band_names
    return dense_source(
        str(path), _Pixels(image.cube), row_names=read_names(row_names, "row"), column_names=read_names(names, "column")
    )


def open_envi(path: Path) -> EnviImage:
    """The image that the header ``path`` describes, memory-mapped."""
    fields = _fields(path)
    sizes = {key: _whole(fields, key, path) for key in ("lines", "samples", "bands")}
    offset = _whole(fields, "header offset", path, default=0, least=0)
    code = _whole(fields, "data type", path)
    if code not in _TYPES:
        raise StoreError(f"{path}: data type {code} is not one of real numbers ({', '.join(map(str, _TYPES))})")
    dtype = np.dtype((">" if _whole(fields, "byte order", path, default=0, least=0) else "<") + _TYPES[code])
    interleave = fields.get("interleave", "bsq").lower()
    if interleave not in _INTERLEAVES:
        raise StoreError(f"{path}: interleave {interleave!r} is unknown; it is one of {', '.join(_INTERLEAVES)}")
    axes, order = _INTERLEAVES[interleave]
    shape = tuple(sizes[axis] for axis in axes)
    data = _data_file(path)
    needed = offset + math.prod(shape) * dtype.itemsize
    if data.stat().st_size < needed:
        raise StoreError(f"{data} is truncated: {data.stat().st_size} bytes, the header asks for {needed}")
    cube = np.memmap(data, dtype=dtype, mode="r", offset=offset, shape=shape).transpose(order)
    wavelengths = _numbers(fields.get("wavelength"), sizes["bands"], path)
    ignore = _numbers(fields.get("data ignore value"), 1, path)
    names = fields.get("band names")
    listed = None if names is None else [name.strip() for name in names.split(",")]
    return EnviImage(
        cube,
        wavelengths,
        None if ignore is None else float(ignore[0]),
        listed if listed is not None and len(listed) == sizes["bands"] else None,
    )


def _fields(path: Path) -> dict[str, str]:
    """``key = value`` lines, values in braces over several of them."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from error
    if not text.lstrip("\ufeff").startswith("ENVI"):
        raise StoreError(f"{path} is not an ENVI header: its first line is not 'ENVI'")
    fields = {}
    for found in re.finditer(r"^[ \t]*([^=\n{}]+?)[ \t]*=[ \t]*(\{[^}]*\}|[^\n]*)", text, flags=re.MULTILINE):
        fields[" ".join(found[1].lower().split())] = found[2].strip().strip("{}").strip()
    return fields


def _whole(fields: dict[str, str], key: str, path: Path, *, default: int | None = None, least: int = 1) -> int:
    if key not in fields and default is not None:
        return default
    text = fields.get(key, "")
    if not text.isdigit() or len(text) > 15 or int(text) < least:
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
    for suffix in _SUFFIXES:
        for candidate in (header.with_suffix(suffix), header.with_suffix(suffix.upper())):
            if candidate != header and candidate.is_file():
                return candidate
    raise StoreError(f"no image file beside {header}: tried {header.stem} with {', '.join(filter(None, _SUFFIXES))}")


class _Pixels:
    """Pixels × bands of a mapped cube, sliced by pixels without reading it whole."""

    def __init__(self, cube: NDArray[Any]) -> None:
        lines, self.samples, bands = cube.shape
        self.cube, self.shape, self.dtype = cube, (lines * self.samples, bands), cube.dtype

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        start, stop, _ = rows.indices(self.shape[0])
        first, last = start // self.samples, -(-stop // self.samples)
        part = np.ascontiguousarray(self.cube[first:last]).reshape(-1, self.shape[1])
        return part[start - first * self.samples : stop - first * self.samples]
