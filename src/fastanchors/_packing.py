"""Which values the CF attributes of an array give to its stored numbers: sign, factor, offset and fill values."""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .errors import InvalidInputError, one_line

__all__ = ["Packing", "check_unpacked", "packing", "packing_of_stored", "packing_of_xarray", "stored_values"]

_FILLS = ("_FillValue", "missing_value")


class Packing(NamedTuple):
    """How stored numbers are to be read: ``stored * factor + offset``, where ``missing`` ones are no numbers.

    ``dtype`` is the stored type with the sign that the attribute ``_Unsigned`` gives it.
    """

    dtype: np.dtype[Any]
    missing: tuple[float, ...]  # whole numbers are int, so that those beyond 2⁵³ are exact
    factor: float
    offset: float

    @property
    def is_plain(self) -> bool:
        """Whether the stored numbers are the values."""
        return (self.factor, self.offset) == (1.0, 0.0)

    def stored(self, block: NDArray[Any]) -> NDArray[Any]:
        """A block with the right sign, in which all missing entries are the first of the ``missing`` values."""
        signed = block
        if block.dtype.kind != self.dtype.kind:
            signed = block.view(self.dtype.newbyteorder(block.dtype.byteorder))
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


def packing(attributes: Mapping[Any, Any], dtype: Any, name: str, fills: tuple[str, ...] = _FILLS) -> Packing:
    """What the ``attributes`` of an array of type ``dtype`` say; ``fills`` are those of missing values.

    Raises if a factor or an offset is no number: the stored numbers alone would be other values.
    """
    plain = kept = np.dtype(dtype)
    sign = attributes.get("_Unsigned")
    word = str(sign.decode("latin-1") if isinstance(sign, bytes) else sign).lower()
    wanted = {"true": "u", "false": "i"}.get(word, kept.kind)
    if kept.kind in "iu" and wanted != kept.kind:
        kept = np.dtype(kept.str.replace(kept.kind, wanted))
    found = [value for key in fills for value in _fill_values(attributes.get(key), key == "missing_value")]
    if kept.kind in "iu":
        whole = [int(value) for value in found if math.isfinite(value) and value == int(value)]
        whole = [_in_sign(value, kept) for value in whole] if kept != plain else whole
        found = [value for value in whole if np.iinfo(kept).min <= value <= np.iinfo(kept).max]
    elif kept.kind == "f":
        with np.errstate(over="ignore"):
            found = [value for value in found if math.isinf(value) or np.isfinite(kept.type(value))]
    factor, offset = (_number(attributes.get(key), key, name) for key in ("scale_factor", "add_offset"))
    if factor == 0:
        raise InvalidInputError(f"{name}: its scale_factor is 0, which makes all values equal; correct the attribute")
    return Packing(
        kept, tuple(dict.fromkeys(found)), 1.0 if factor is None else factor, 0.0 if offset is None else offset
    )


def packing_of_stored(array: Any, name: str) -> Packing:
    """What an array of Zarr or h5py says about its numbers."""
    attributes = dict(array.attrs)
    if "_ARRAY_DIMENSIONS" in attributes:  # of xarray in Zarr 2, where the value is that of chunks not stored
        attributes.setdefault("_FillValue", getattr(array, "fill_value", None))
    return packing(attributes, array.dtype, name)


def stored_values(array: Any, name: str) -> NDArray[Any]:
    """The values of an array of Zarr or h5py; NaN where they are missing."""
    values = np.asarray(array)
    return packing_of_stored(array, name).values(values) if values.dtype.kind in "iuf" else values


def packing_of_xarray(array: Any, name: str) -> Packing:
    """What a ``DataArray`` of numbers says about them."""
    return packing(_attributes(array), array.dtype, name, (*_FILLS, "nodata"))


def check_unpacked(array: Any, values: NDArray[Any], name: str, first_row: int = 0) -> None:
    """Raise if a ``DataArray`` says that its ``values`` are others than those stored, or that one is missing.

    ``first_row`` is added to the reported row, for parts of a larger array.
    """
    known = _attributes(array)
    facts = packing(known, values.dtype, name)
    packed = {"scale_factor": facts.factor != 1, "add_offset": facts.offset != 0}
    packed["_Unsigned"] = facts.dtype != values.dtype
    for key in (key for key in packed if packed[key]):
        raise InvalidInputError(
            f"{name} is packed: its attribute {key} is {one_line(str(known[key]), 60)}; open it with "
            "mask_and_scale=True, or unpack it with xarray.decode_cf"
        )
    for key in (*_FILLS, "nodata") if values.dtype.kind in "iuf" else ():
        gone = np.isin(values, np.array(packing(known, values.dtype, name, (key,)).missing, values.dtype))
        if gone.any():
            place = np.argwhere(gone)[0]
            value = values[tuple(place)]
            where = ", ".join(map(str, [*(place[:1] + first_row), *place[1:]]))
            raise InvalidInputError(
                f"{name}{f'[{where}]' if where else ''} is missing: it is the {key} {value:g}; fill in a number, or "
                "leave the row out"
            )


def _attributes(array: Any) -> dict[Any, Any]:
    """The attributes of a ``DataArray``; the encoding of integers has the factor and offset that are not applied."""
    keys = ("scale_factor", "add_offset") if array.dtype.kind in "iu" else ()
    return {**{key: array.encoding[key] for key in keys if key in array.encoding}, **array.attrs}


def _in_sign(value: int, dtype: np.dtype[Any]) -> int:
    """A fill value of integers that was written with the other sign."""
    low, high = (int(end) for end in (np.iinfo(dtype).min, np.iinfo(dtype).max))
    if value < low and dtype.kind == "u":
        return value + high + 1
    return value - 2 * (high + 1) if value > high and dtype.kind == "i" else value


def _fill_values(value: Any, several: bool) -> list[float]:
    """The fill value of an attribute, or ``several``, without NaN; xarray writes a float in Zarr 3 as Base64."""
    if isinstance(value, str):
        try:
            value = struct.unpack("<d", base64.standard_b64decode(value))[0]
        except (ValueError, struct.error):
            return []
    found = _numbers(value)
    if found.size != 1 and not several:
        return []
    return [int(each) if found.dtype.kind in "iu" else float(each) for each in found if not np.isnan(each)]


def _number(value: Any, key: str, name: str) -> float | None:
    if value is None:
        return None
    found = _numbers(value)
    if found.size != 1 or not math.isfinite(found[0]):
        shown = one_line(str(value), 60)
        raise InvalidInputError(
            f"{name}: its {key} is {shown!r}, which is not one finite number; correct the attribute"
        )
    return float(found[0])


def _numbers(value: Any) -> NDArray[Any]:
    """The numbers of an attribute; none if it is something else."""
    try:
        found = np.ravel([] if value is None else value)
    except ValueError:  # lists of different lengths
        return np.empty(0)
    return found if found.dtype.kind in "iuf" else np.empty(0)
