"""Read arrays that are packed by the CF conventions, as xarray and netCDF write them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._packing import Packing, packing_of_stored
from ..errors import InvalidInputError
from .chunked import by_chunks
from .row_source import reading

__all__ = ["unpacked"]


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


def unpacked(array: Any, name: str) -> Any:
    """The two-dimensional Zarr or HDF5 array, with its entries as its attributes say that they are to be read."""
    with reading(name):
        facts = packing_of_stored(array, name)
    if facts == Packing(array.dtype, (), 1.0, 0.0):
        return by_chunks(array)
    return _Packed(by_chunks(array), name, facts)
