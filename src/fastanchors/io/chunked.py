"""Read an array that is stored in compressed chunks by thin slices, with each chunk decoded once."""

from __future__ import annotations

import itertools
import math
import mmap
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .scratch import scratch_file

__all__ = ["by_chunks"]

_PIECE = 1 << 21  # bytes of small chunks that are read together


def by_chunks(array: Any, axis: int = 0) -> Any:
    """The array, to be read in order along ``axis`` by slices thinner than its chunks; itself if it has no such chunks.

    ``array`` is one of Zarr or HDF5, or has ``shape``, ``dtype``, ``chunks`` and ``read_direct`` as that of HDF5.
    """
    if not array.chunks or array.chunks[axis] == 1 or array.dtype.kind not in "biufS":
        return array
    return _ByChunks(array, axis)


class _ByChunks:
    """An array whose slices that end within a chunk come from a copy, in a temporary file, of a band of chunks.

    A band is all chunks with the same place on ``axis``. Slices of whole bands are read directly.
    """

    def __init__(self, array: Any, axis: int) -> None:
        self._array, self._axis = array, axis
        self.shape, self.ndim, self.dtype, self.chunks = array.shape, len(array.shape), array.dtype, array.chunks
        self._held: tuple[int, NDArray[Any]] | None = None  # number and entries of the last band that was copied

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_held": None}

    def __getitem__(self, index: slice | tuple[slice, ...]) -> NDArray[Any]:
        given = index if isinstance(index, tuple) else (index,)
        given += (slice(None),) * (self.ndim - len(given))
        known = [slice(*each.indices(size)) for each, size in zip(given, self.shape, strict=True)]
        size, step = self.shape[self._axis], self.chunks[self._axis]
        at, stop = known[self._axis].start, known[self._axis].stop
        whole = stop if stop == size else stop // step * step  # the end of whole bands
        parts = []
        while at < stop:
            band, begin = divmod(at, step)
            if begin == 0 and at < whole:
                end = whole
                known[self._axis] = slice(at, end)
                parts.append(np.asarray(self._array[tuple(known)]))
            else:
                end = min(stop, at - begin + step)
                known[self._axis] = slice(begin, begin + end - at)
                parts.append(np.array(self._band(band)[tuple(known)]))
            at = end
        if stop == size and all(
            known[axis].stop == self.shape[axis] for axis in range(self.ndim) if axis != self._axis
        ):
            self._held = None
        # NumPy concatenates arrays of the other byte order in that of the machine.
        return parts[0] if len(parts) == 1 else np.concatenate(parts, self._axis, dtype=self.dtype)

    def _band(self, number: int) -> NDArray[Any]:
        """A band in a mapped temporary file."""
        held = self._held
        if held is not None and held[0] == number:
            return held[1]
        self._held = None  # before another file is made
        step = self.chunks[self._axis]
        first = number * step
        shape = tuple(min(step, size - first) if axis == self._axis else size for axis, size in enumerate(self.shape))
        band = _mapped(shape, self.dtype)
        for there in itertools.product(*map(_slices, shape, self._piece())):
            here = list(there)
            here[self._axis] = slice(first, first + shape[self._axis])
            if hasattr(self._array, "get_basic_selection"):
                from zarr.buffer import cpu

                out = cpu.NDBuffer.from_numpy_array(band[there])
                self._array.get_basic_selection(tuple(here), out=out)
            else:
                self._array.read_direct(band, tuple(here), there)
        self._held = number, band
        return band

    def _piece(self) -> list[int]:
        """The size along each axis of what is read together: a chunk, or several if they are small."""
        sizes = list(self.chunks)
        for axis in reversed(range(self.ndim)):
            if axis != self._axis:
                sizes[axis] *= max(1, _PIECE // (math.prod(sizes) * self.dtype.itemsize))
        return sizes


def _slices(size: int, step: int) -> list[slice]:
    return [slice(start, min(size, start + step)) for start in range(0, size, step)]


def _mapped(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """A new array in a temporary file without a name."""
    size = math.prod(shape) * dtype.itemsize
    with scratch_file() as file:
        file.truncate(size)
        if hasattr(os, "posix_fallocate"):  # a page that finds no room on the disk would end the process
            os.posix_fallocate(file.fileno(), 0, size)
        return np.frombuffer(mmap.mmap(file.fileno(), size), dtype).reshape(shape)
