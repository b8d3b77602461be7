"""Unpack arrays of the CF conventions, as xarray and netCDF write them: factor, offset and fill value."""

from __future__ import annotations

import base64
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInputError
from .row_source import reading

__all__ = ["unpacked"]


class _Packed:
    """An array of the CF conventions: its entries times a factor plus an offset; one value marks missing entries."""

    def __init__(self, array: Any, name: str, missing: float | None, factor: float, offset: float) -> None:
        self._array, self._name, self._missing = array, name, missing
        self._factor, self._offset = factor, offset
        self.shape, self.ndim, self.chunks = array.shape, array.ndim, array.chunks
        self._plain = (factor, offset) == (1.0, 0.0)
        self.dtype = array.dtype if self._plain else np.dtype(np.float64)

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        block = np.asarray(self._array[rows])
        if self._missing is not None and (gone := block == self._missing).any():
            row, column = np.argwhere(gone)[0]
            raise InvalidInputError(
                f"{self._name}: A[{row + (rows.start or 0)}, {column}] is missing: it is the fill value "
                f"{self._missing:g}; fill in a number, or leave the row out"
            )
        return block if self._plain else block * self._factor + self._offset

    def nbytes_stored(self) -> int:
        return int(self._array.nbytes_stored())


def unpacked(array: Any, name: str) -> Any:
    """The two-dimensional Zarr or HDF5 array, with its entries as its attributes say that they are to be read."""
    with reading(name):
        attributes = dict(array.attrs)
        values = [attributes.get(key) for key in ("_FillValue", "missing_value")]
        if "_ARRAY_DIMENSIONS" in attributes:  # of xarray in Zarr 2, where the value is that of chunks not stored
            values.append(array.fill_value)
        missing = next((number for number in map(_number, values) if number is not None), None)
        factor, offset = (_number(attributes.get(key)) for key in ("scale_factor", "add_offset"))
    if missing is None and factor is None and offset is None:
        return array
    return _Packed(array, name, missing, 1.0 if factor is None else factor, 0.0 if offset is None else offset)


def _number(value: Any) -> float | None:
    """A number of the attributes; xarray writes floating-point fill values in Zarr 3 as Base64."""
    if isinstance(value, str):
        try:
            value = struct.unpack("<d", base64.standard_b64decode(value))[0]
        except (ValueError, struct.error):
            return None
    found = np.ravel([] if value is None else value)
    if found.size != 1 or found.dtype.kind not in "iuf" or np.isnan(found[0]):
        return None
    return float(found[0])
