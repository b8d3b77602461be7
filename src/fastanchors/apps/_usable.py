"""Determine which pixels and bands of a scene contain data, from the stored values before any of them is changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._parallel import map_ordered
from ..errors import InvalidInputError
from ._cube import Cube

__all__ = ["Usable", "check_sizes", "usable"]

# Negative values that producers write for missing data; atmospheric correction does not produce them.
_MARKS = (-9999.0, -999.0, -32768.0, -32767.0, -2147483648.0, -1e34, float(np.finfo(np.float32).min))
_LINE_BYTES = 1 << 25  # size of the part of an image that is read at a time
_SIZES = (1e-30, 1e36)  # largest entries of scenes whose residuals single precision can hold
_MOST = 0.5  # largest fraction of pixels with data that may have gaps; beyond it the bands are bad


@dataclass(frozen=True)
class Usable:
    """The part of a scene that is data.

    Attributes
    ----------
    cube
        The scene.
    bands
        The bands with data.
    held
        For each pixel, whether it has data in all of these bands.
    empty
        Pixels without data.
    incomplete
        Pixels with data in some of the bands only.
    dropped, dead
        Bands excluded by the header or the caller, and bands without data in any pixel.
    clip
        Whether negative values become zero.
    """

    cube: Cube
    bands: NDArray[np.intp]
    held: NDArray[np.bool_]
    empty: NDArray[np.intp]
    incomplete: NDArray[np.intp]
    dropped: NDArray[np.intp]
    dead: NDArray[np.intp]
    clip: bool

    def blocks(self) -> Iterator[tuple[NDArray[np.intp], NDArray[Any]]]:
        """Held pixels in order, a block at a time: their numbers, and their measurements in the bands with data."""
        for rows, stored in self.cube.blocks():
            held = np.flatnonzero(self.held[rows])
            if held.size:
                yield held + rows.start, self._measured(stored if held.size == len(stored) else stored[held])

    def take(self, chosen: NDArray[np.intp]) -> NDArray[Any]:
        """The ``chosen`` pixels, in at most one pass over the scene; they must be held and in increasing order."""
        if self.cube.source.pick is not None:
            pixels = self._measured(np.ascontiguousarray(self.cube.source.pick(chosen)))
        else:
            parts = []
            for rows, stored in self.cube.blocks():
                first, last = np.searchsorted(chosen, [rows.start, rows.stop])
                if last > first:
                    parts.append(self._measured(stored[chosen[first:last] - rows.start]))
            pixels = np.concatenate(parts)
        check_sizes(float(pixels.max(initial=0)))
        return pixels

    def _measured(self, stored: NDArray[Any]) -> NDArray[Any]:
        """The measurements of held pixels, none of which has the no-data value in the bands with data."""
        part = stored if self.bands.size == stored.shape[1] else stored[:, self.bands]
        values = self.cube.info.scaled(part, self.bands)
        return np.maximum(values, 0) if self.clip and values.dtype.kind != "u" else values


def usable(
    cube: Cube,
    *,
    mask: NDArray[np.bool_] | None = None,
    dropped: NDArray[np.intp] | None = None,
    clip: bool = False,
    signed: bool = False,
) -> Usable:
    """Read every pixel once, or twice if some bands are dead.

    A pixel is empty if it is masked, or zero, NaN or the no-data value in every band; with ``clip`` also if no band is
    positive. A pixel with a gap in a band that has data elsewhere is incomplete. Both are excluded. Negative values
    are rejected unless they are clipped or allowed by ``signed``; those that usually mark missing data always are.
    """
    ignore = cube.info.ignore
    if ignore is not None and (ignore == 0 or np.isnan(ignore)):  # 0 in all bands is no data, 0 in some is dark
        cube = replace(cube, info=replace(cube.info, ignore=None))
    if cube.info.valid is not None:
        mask = cube.info.valid if mask is None else mask & cube.info.valid
    count = cube.size[1]
    drop = np.zeros(count, dtype=bool)
    if cube.info.good_bands is not None:
        drop |= ~cube.info.good_bands
    if dropped is not None:
        drop[dropped] = True
    bands = np.flatnonzero(~drop)
    if bands.size == 0:
        raise InvalidInputError(f"{cube.name}: all {count} bands are to be left out")
    look = _Look(cube, bands, mask, clip, signed)
    if look.empty.all():
        raise InvalidInputError(
            f"{cube.name} holds no data: every pixel is masked, zero, NaN or the no-data value in all bands"
        )
    if not look.seen.all():
        bands = bands[look.seen]
        look = _Look(cube, bands, mask, clip, signed)
    look.check(bands)
    dead = np.setdiff1d(np.flatnonzero(~drop), bands)
    held = ~(look.empty | look.incomplete)
    empty, incomplete = np.flatnonzero(look.empty), np.flatnonzero(look.incomplete)
    return Usable(cube, bands, held, empty, incomplete, np.flatnonzero(drop), dead, clip)


def check_sizes(largest: float) -> None:
    """Raise if residuals in units of the data would overflow or underflow."""
    low, high = _SIZES
    if largest > high:
        raise InvalidInputError(f"residuals of a scene of size {largest:.0e} overflow; divide it by its largest value")
    if 0 < largest < low:
        raise InvalidInputError(f"residuals of a scene of size {largest:.0e} underflow; divide it by its largest value")


_Negative = tuple[int, int, float, bool]  # pixel, band, value, whether all bands have it


class _Look:
    """Results of one pass over some bands of the scene."""

    def __init__(
        self, cube: Cube, bands: NDArray[np.intp], mask: NDArray[np.bool_] | None, clip: bool, signed: bool
    ) -> None:
        self.cube, self.bands, self.mask, self.clip, self.signed = cube, bands, mask, clip, signed
        self.seen = np.zeros(bands.size, dtype=bool)
        self.gaps = np.zeros(bands.size, dtype=np.intp)  # in pixels with data
        self.empty = np.zeros(cube.size[0], dtype=bool)
        self.incomplete = np.zeros(cube.size[0], dtype=bool)
        self.negative: _Negative | None = None
        if mask is None and bands.size == cube.size[1] and self._plain():
            self.seen[:] = True
            return
        for seen, gaps, negative in map_ordered(self._block, cube.blocks()):
            self.seen |= seen
            self.gaps += gaps
            self.negative = self.negative or negative

    def _block(self, rows: slice, stored: NDArray[Any]) -> tuple[Any, Any, _Negative | None]:
        """Record empty and incomplete pixels; return which bands have data, their gaps, the first negative value."""
        part = stored if self.bands.size == stored.shape[1] else stored[:, self.bands]
        empty = self._clear(part)
        if empty is not None:
            self.empty[rows] = empty = empty if self.mask is None else empty | ~self.mask[rows]
            return not empty.all(), 0, None
        values = self.cube.info.values(stored)
        values = values if self.bands.size == values.shape[1] else values[:, self.bands]
        gone = ~np.isfinite(values) if values.dtype.kind == "f" else np.zeros(values.shape, dtype=bool)
        nothing = (part == 0) | gone
        empty = (nothing | (values < 0)).all(axis=1) if self.clip else nothing.all(axis=1)
        if self.mask is not None:
            empty |= ~self.mask[rows]
        gone &= ~empty[:, None]
        incomplete = gone.any(axis=1)
        self.empty[rows], self.incomplete[rows] = empty, incomplete
        negative = None
        if values.dtype.kind != "u":
            negative = self._find_negative(rows.start, values, ~(empty | incomplete))
        return ~(nothing | empty[:, None]).all(axis=0), gone.sum(axis=0), negative

    def _clear(self, part: NDArray[Any]) -> NDArray[np.bool_] | None:
        """Which pixels are empty, if all others have only positive measurements; else None.

        It is the usual case, and cheap: pixels without data in the first band are compared with the no-data value.
        """
        ignore = self.cube.info.ignore
        empty = part[:, 0] == (0 if ignore is None else ignore)
        if empty.any():
            gone = part[empty]
            if not (gone == gone[0, 0]).all():
                return None
            part = part[~empty]
        return empty if len(part) == 0 or self._all_positive(part) else None

    def _plain(self) -> bool:
        """Whether a memory-mapped image holds only positive measurements; read in the order of storage."""
        image = self.cube.source.mapped
        if image is None:
            return False
        step = max(1, _LINE_BYTES // (image[0].size * image.itemsize))
        parts = [(image[first : first + step],) for first in range(0, len(image), step)]
        ends = (parts[0], parts[-1])  # a border of missing data usually shows here
        return all(self._all_positive(*part) for part in ends) and all(map_ordered(self._all_positive, parts))

    def _all_positive(self, stored: NDArray[Any]) -> bool:
        """Whether every entry is a positive measurement: the usual case, tested by the minimum and maximum."""
        info, low, high = self.cube.info, stored.min(), stored.max()
        if not low > 0 or not np.isfinite(high) or info.offset is not None:
            return False
        return (info.ignore is None or not low <= info.ignore <= high) and (
            info.scale is None or bool((info.scale > 0).all())
        )

    def _find_negative(self, start: int, values: NDArray[Any], held: NDArray[np.bool_]) -> _Negative | None:
        """The first rejected value: any below zero; with ``clip`` or ``signed``, only one that marks missing data."""
        wrong = values < 0
        if (self.clip or self.signed) and wrong.any():
            wrong = np.isin(values, _marks(values.dtype))
        wrong = wrong & held[:, None]
        if not wrong.any():
            return None
        pixel, band = np.argwhere(wrong)[0]
        value = values[pixel, band]
        return start + int(pixel), int(band), float(value), bool((values[pixel] == value).all())

    def check(self, bands: NDArray[np.intp]) -> None:
        """Reject scenes with too many gaps or with negative values; the message states the remedy."""
        name, held = self.cube.name, np.count_nonzero(~self.empty)
        if np.count_nonzero(self.incomplete) > _MOST * held:
            worst = int(np.argmax(self.gaps))
            raise InvalidInputError(
                f"{name}: {np.count_nonzero(self.incomplete)} of {held} pixels lack data in some band, band "
                f"{bands[worst]} in {self.gaps[worst]} of them; leave out such bands with drop_bands=…"
            )
        if self.negative is None:
            return
        pixel, at, value, everywhere = self.negative
        place = f"{name}: band {bands[at]} of {self.cube.place(pixel)} is negative ({value:g})"
        if everywhere or np.float32(value) in _marks(np.dtype(np.float32)):
            raise InvalidInputError(f"{place}; if that value marks missing data, pass nodata={value:g}")
        raise InvalidInputError(
            f"{place}; pass clip=True to set negative values to zero, drop_bands=… if the band is bad, or "
            "nodata=… if the value marks missing data"
        )


def _marks(dtype: np.dtype[Any]) -> NDArray[Any]:
    if dtype.kind == "f":
        return np.array(_MARKS, dtype=dtype)
    return np.array([mark for mark in _MARKS if mark >= np.iinfo(dtype).min], dtype=dtype)
