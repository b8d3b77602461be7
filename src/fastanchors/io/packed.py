"""Unpack arrays of the CF conventions, as xarray and netCDF write them: sign, factor, offset and fill values."""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInputError, one_line
from .row_source import reading

__all__ = ["Packing", "packing", "unpacked"]


class Packing(NamedTuple):
    """How stored numbers are to be read: ``stored * factor + offset``, where ``missing`` ones are no numbers.

    ``dtype`` is the stored type with the sign that the attribute ``_Unsigned`` gives it.
    """

    dtype: np.dtype[Any]
    missing: tuple[float, ...]
    factor: float
    offset: float

    @property
    def is_plain(self) -> bool:
        """Whether the stored numbers are the values."""
        return (self.factor, self.offset) == (1.0, 0.0)

    def stored(self, block: NDArray[Any]) -> NDArray[Any]:
        """A block with the right sign, in which all missing entries are the first of the ``missing`` values."""
        signed = block if block.dtype == self.dtype else block.view(self.dtype)
        for other in self.missing[1:]:
            signed = np.where(signed == other, signed.dtype.type(self.missing[0]), signed)
        return signed

    def values(self, block: NDArray[Any]) -> NDArray[Any]:
        """The values of a block; NaN where they are missing."""
        stored = self.stored(block)
        gone = None if not self.missing else stored == self.missing[0]
        if self.is_plain and (gone is None or not gone.any()):
            return stored
        values = stored * self.factor + self.offset
        return values if gone is None else np.where(gone, np.nan, values)


class _Packed:
    """A two-dimensional array with a :class:`Packing`; reading a missing entry is an error."""

    def __init__(self, array: Any, name: str, facts: Packing) -> None:
        self._array, self._name, self._facts = array, name, facts
        self.shape, self.ndim, self.chunks = array.shape, array.ndim, array.chunks
        self.dtype = facts.dtype if facts.is_plain else np.dtype(np.float64)

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        facts = self._facts
        block = facts.stored(np.asarray(self._array[rows]))
        if facts.missing and (gone := block == facts.missing[0]).any():
            row, column = np.argwhere(gone)[0]
            raise InvalidInputError(
                f"{self._name}: A[{row + (rows.start or 0)}, {column}] is missing: it is the fill value "
                f"{facts.missing[0]:g}; fill in a number, or leave the row out"
            )
        return block if facts.is_plain else block * facts.factor + facts.offset

    def nbytes_stored(self) -> int:
        return int(self._array.nbytes_stored())


def unpacked(array: Any, name: str) -> Any:
    """The two-dimensional Zarr or HDF5 array, with its entries as its attributes say that they are to be read."""
    with reading(name):
        attributes = dict(array.attrs)
        if "_ARRAY_DIMENSIONS" in attributes:  # of xarray in Zarr 2, where the value is that of chunks not stored
            attributes.setdefault("_FillValue", array.fill_value)
    facts = packing(attributes, array.dtype, name)
    if facts == Packing(array.dtype, (), 1.0, 0.0):
        return array
    return _Packed(array, name, facts)


def packing(
    attributes: Mapping[Any, Any], dtype: Any, name: str, fills: tuple[str, ...] = ("_FillValue", "missing_value")
) -> Packing:
    """What the ``attributes`` of an array of type ``dtype`` say; ``fills`` are those of missing values.

    Raises if a factor or an offset is no number: the stored numbers alone would be other values.
    """
    with reading(name):
        plain = kept = np.dtype(dtype)
        sign = attributes.get("_Unsigned")
        word = str(sign.decode("latin-1") if isinstance(sign, bytes) else sign).lower()
        wanted = {"true": "u", "false": "i"}.get(word, kept.kind)
        if kept.kind in "iu" and wanted != kept.kind:
            kept = np.dtype(kept.str.replace(kept.kind, wanted))
        found = [value for key in fills for value in _fill_values(attributes.get(key), key == "missing_value")]
        if kept != plain:
            found = [_in_sign(value, kept) for value in found]
        if kept.kind in "iu":
            found = [value for value in found if np.iinfo(kept).min <= value <= np.iinfo(kept).max]
        factor, offset = (_number(attributes.get(key), key, name) for key in ("scale_factor", "add_offset"))
    if factor == 0:
        raise InvalidInputError(f"{name}: its scale_factor is 0, which makes all values equal; correct the attribute")
    return Packing(
        kept, tuple(dict.fromkeys(found)), 1.0 if factor is None else factor, 0.0 if offset is None else offset
    )


def _in_sign(value: float, dtype: np.dtype[Any]) -> float:
    """A fill value of integers that was written with the other sign."""
    low, high = (int(end) for end in (np.iinfo(dtype).min, np.iinfo(dtype).max))
    if value < low and dtype.kind == "u":
        return value + high + 1
    return value - 2.0 * (high + 1) if value > high and dtype.kind == "i" else value


def _fill_values(value: Any, several: bool) -> list[float]:
    """The fill value of an attribute, or ``several``, without NaN; xarray writes a float in Zarr 3 as Base64."""
    if isinstance(value, str):
        try:
            value = struct.unpack("<d", base64.standard_b64decode(value))[0]
        except (ValueError, struct.error):
            return []
    found = np.ravel([] if value is None else value)
    if found.dtype.kind not in "iuf" or (found.size != 1 and not several):
        return []
    return [float(each) for each in found if not np.isnan(each)]


def _number(value: Any, key: str, name: str) -> float | None:
    if value is None:
        return None
    found = np.ravel(value)
    if found.size != 1 or found.dtype.kind not in "iuf" or not math.isfinite(found[0]):
        shown = one_line(str(value), 60)
        raise InvalidInputError(
            f"{name}: its {key} is {shown!r}, which is not one finite number; correct the attribute"
        )
    return float(found[0])
