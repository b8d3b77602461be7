"""Hyperspectral unmixing: the spectra of the materials of a scene, and how much of each is in every pixel."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._openers import opener
from .._validate import check_number, check_rank, check_size
from ..encoder import encode
from ..errors import InvalidInputError
from ..greedy.selection import smoothed_groups
from ._cube import Cube, as_cube
from ._odd import ScaledPixels, odd_places
from ._smoothed import cores, nearest_to_means

__all__ = ["Unmixing", "unmix"]

_CHUNK_BYTES = 1 << 25
_DARK = 0.1  # pixels below this share of the median brightness are not scaled all the way up


@dataclass(frozen=True)
class Unmixing:
    """What a scene consists of.

    Attributes
    ----------
    endmembers : k × bands, the spectra of the materials in the units of the data: medians of the pixels in ``groups``.
    anchors : for each material the pixel of its group that is most like the mean.
    groups : for each material the pixels that speak for it.
    abundances : pixels × k, the share of each material in each pixel; rows sum to one, those of empty pixels are zero.
    share : k, the mean abundance over the pixels that hold data.
    empty : pixels without data (zero, not a number or the ignored value in every band).
    odd : pixels that are like no others (hot in a band, say): they speak for no material, but have abundances.
    dead_bands : bands without data in every pixel; their value in ``endmembers`` is zero.
    hot_bands : bands whose errors would pass for a material; they have no say but in ``endmembers``.
    relative_error : ‖X − abundances·endmembers‖_F / ‖X‖_F over the pixels that hold data and are not odd, without
        the hot bands.
    cube : the scene: its ``shape`` (height, width) where known, the order of its pixels, its wavelengths.
    seconds : wall-clock time.
    """

    endmembers: NDArray[np.float64]
    anchors: NDArray[np.intp]
    groups: list[NDArray[np.intp]]
    abundances: NDArray[np.float64]
    share: NDArray[np.float64]
    empty: NDArray[np.intp]
    odd: NDArray[np.intp]
    dead_bands: NDArray[np.intp]
    hot_bands: NDArray[np.intp]
    relative_error: float
    cube: Cube
    seconds: float

    @property
    def maps(self) -> NDArray[np.float64]:
        """The abundances as height × width × k images."""
        return self.cube.image(self.abundances)

    def positions(self) -> list[tuple[int, int]]:
        """(row, column) in the image of every anchor."""
        if self.cube.shape is None:
            raise InvalidInputError("the size of the image is not known; give shape=(height, width)")
        rows, columns = np.unravel_index(self.anchors, self.cube.shape, order=self.cube.order)
        return [(int(row), int(column)) for row, column in zip(rows, columns)]

    def report(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write a page to explore the scene; options are those of :func:`fastanchors.report.write_unmixing`."""
        written: Path = opener("scene report")(path, self, **options)
        return written

    def _repr_html_(self) -> str:
        waves = self.cube.wavelengths
        head = "<tr><th>material</th><th>share</th><th>pixel</th><th>brightest at</th></tr>"
        rows = "".join(
            f"<tr><td>{j + 1}</td><td>{share:.1%}</td><td>{pixel}</td>"
            f"<td>{f'band {peak}' if waves is None else f'{waves[peak]:g}'}</td></tr>"
            for j, (share, pixel, peak) in enumerate(
                zip(self.share, self.anchors, self.endmembers.argmax(axis=1), strict=True)
            )
        )
        caption = f"{len(self.endmembers)} materials, relative error {self.relative_error:.3g}"
        return f"<table><caption>{caption}</caption>{head}{rows}</table>"


def unmix(
    scene: Any,
    k: int,
    *,
    shape: tuple[int, int] | None = None,
    order: str = "C",
    share: float | None = None,
    ignore: float | None = None,
    clip: bool = False,
    keep_odd: bool = False,
) -> Unmixing:
    """The ``k`` materials of a scene under the linear mixing model, robust to dark and odd pixels.

    Parameters
    ----------
    scene : height × width × bands array, pixels × bands array, or a :class:`Cube` (see :func:`read_cube`).
    k : number of materials.
    shape, order : for pixels × bands: the size (height, width) of the image and whether its pixels run along its rows
        (``"C"``) or down its columns (``"F"``, MATLAB's order).
    share : a material is sought as the mean of this share of the pixels, between 0 and 1; by default 1/(8·k), an
        eighth of what a material would cover if all covered the same (about 4 % for three materials). Less finds
        rarer materials, more averages out more noise. Never less than one pixel.
    ignore : a value that marks pixels without data when it stands in all their bands (NaN and 0 always do).
    clip : set negative values, which atmospheric correction leaves behind, to zero instead of refusing them.
    keep_odd : let pixels that are like no others speak for a material too.

    How, and why:

    1. Pixels that make a direction of the data with fewer than three others, and bands that make one alone, are set
       aside (:mod:`fastanchors.apps._odd`): errors of the instrument. They say nothing in steps 2 to 4.
    2. Pixels are divided by their l1 norm, so that a material in shade and in light is one point. Noise does not shrink
       with the light: scaled up, the darkest pixels would stick out everywhere. So brightness is divided out only
       down to a tenth of the median; what is darker stays short and is passed over.
    3. Spectra are projected on the leading k singular directions, where the mixtures lie; noise across them is
       dropped. The directions are those of the pixels scaled to at most unit l1 norm, dark ones left dark, so
       that noise of dark pixels does not choose them.
    4. Smoothed SPA (:mod:`fastanchors.greedy.selection`) picks k groups of pixels whose means are extreme. Where a
       material is rarer than the group is large, the pixels without it are dropped from the group.
    5. A material's spectrum is the median, band by band, of the group's pixels as they are: what odd pixels got into
       the group have no say in it. Its anchor is the pixel of the group nearest to the group's mean, and abundances
       come from :func:`fastanchors.encode` with ``sum_to_one=True``.

    Cost: five passes over the scene (three more for each round in which odd pixels are found), k·(16 + 2·k) over k
    numbers per pixel, and the encoding. Memory: the scene as it is, and about 4·k numbers per pixel.

    Raises ``RankError`` when the scene holds fewer than k independent spectra.
    """
    started = time.perf_counter()
    cube = as_cube(scene, shape=shape, order=order)
    k = check_size(k, name="k")
    pixels, empty, dead = _clean(cube, ignore, clip)
    held = np.setdiff1d(np.arange(cube.pixels.shape[0]), empty)
    if held.size == 0:
        raise InvalidInputError(f"{cube.name} holds no data: every pixel is zero, NaN or the ignored value")
    check_rank(k, (held.size, pixels.shape[1]))
    part = 1 / (8 * k) if share is None else check_number(share, name="share", minimum=0.0, maximum=1.0)
    count = max(1, math.ceil(part * held.size))
    odd, hot = odd_places(pixels, held, k, 1 if keep_odd else count)
    used = held[~odd]
    points = _points(pixels, used, np.flatnonzero(~hot), k)
    groups = cores(points, smoothed_groups(points, k, min(used.size, count)))
    endmembers = np.array([np.median(pixels[used[group]], axis=0) for group in groups], dtype=np.float64)
    sound = slice(None) if not hot.any() else ~hot
    abundances = np.asarray(encode(pixels[:, sound], endmembers[:, sound], sum_to_one=True), dtype=np.float64)
    abundances[empty] = 0.0
    return Unmixing(
        endmembers=endmembers,
        anchors=used[nearest_to_means(points, groups)],
        groups=[used[group] for group in groups],
        abundances=abundances,
        share=abundances[held].mean(axis=0),
        empty=empty,
        odd=held[odd],
        dead_bands=dead,
        hot_bands=np.flatnonzero(hot),
        relative_error=_relative_error(pixels[:, sound], used, abundances, endmembers[:, sound]),
        cube=cube,
        seconds=time.perf_counter() - started,
    )


def _clean(cube: Cube, ignore: float | None, clip: bool) -> tuple[NDArray[Any], NDArray[np.intp], NDArray[np.intp]]:
    """The pixels with zeros where there is no data, the empty pixels, the dead bands; other bad values are refused."""
    X = cube.pixels
    ignore = cube.ignore if ignore is None else ignore
    ignore = None if ignore == 0 else ignore  # in all bands, 0 is no data anyway; in some, it is a dark band
    seen = np.zeros(X.shape[1], dtype=bool)
    empty = np.zeros(X.shape[0], dtype=bool)
    bad = negative = False
    for rows in _slices(*X.shape):
        block = X[rows]
        missing = _missing(block, ignore)
        nothing = missing | (block == 0)
        empty[rows] = nothing.all(axis=1)
        seen |= ~nothing.all(axis=0)
        bad = bad or bool(np.any(missing & ~empty[rows, None]))
        negative = negative or bool(np.any((block < 0) & ~missing & ~empty[rows, None]))
    at, dead = np.flatnonzero(empty), np.flatnonzero(~seen)
    if not (bad or negative or (at.size and np.any(X[at] != 0))):
        return X, at, dead
    X = np.array(X, dtype=X.dtype if X.dtype.kind == "f" else np.float64)
    X[at] = 0.0
    X[:, dead] = 0.0
    for rows in _slices(*X.shape):
        block = X[rows]
        wrong = _missing(block, ignore)
        if wrong.any():
            pixel, band = np.argwhere(wrong)[0]
            place = f"{cube.name}: band {band} of {cube.place(rows.start + int(pixel))}"
            if not np.isfinite(block[pixel, band]):
                raise InvalidInputError(
                    f"{place} has no data ({block[pixel, band]}) while other bands have; fill it, "
                    "or set the whole pixel or band to NaN to leave it out"
                )
            raise InvalidInputError(
                f"{place} is {ignore:g}, the value that marks missing data, while other bands have data; fill it, set "
                f"all bands of the pixel to {ignore:g} to leave it out, or pass ignore=nan if {ignore:g} is measured"
            )
        if clip:
            np.maximum(block, 0.0, out=block)
        elif (block < 0).any():
            pixel, band = np.argwhere(block < 0)[0]
            raise InvalidInputError(
                f"{cube.name}: band {band} of {cube.place(rows.start + int(pixel))} is negative "
                f"({block[pixel, band]:g}); pass clip=True to set negative values to zero, or "
                "ignore=… if it marks missing data"
            )
    return X, at, dead


def _missing(block: NDArray[Any], ignore: float | None) -> NDArray[np.bool_]:
    missing = ~np.isfinite(block) if block.dtype.kind == "f" else np.zeros(block.shape, dtype=bool)
    return missing if ignore is None else missing | (block == ignore)


def _points(X: NDArray[Any], used: NDArray[np.intp], bands: NDArray[np.intp], k: int) -> NDArray[np.float64]:
    """Steps 2 and 3: the pixels as k numbers each."""
    pixels = ScaledPixels(X, used, bands)
    axes = pixels.axes(np.ones(used.size, dtype=bool))[1][:, :k]
    points = np.empty((used.size, k))
    for rows, block in pixels.blocks(_DARK):
        points[rows] = block @ axes
    return points


def _relative_error(
    X: NDArray[Any], used: NDArray[np.intp], abundances: NDArray[np.float64], endmembers: NDArray[np.float64]
) -> float:
    lost = total = 0.0
    for rows in _slices(used.size, X.shape[1]):
        block = X[used[rows]].astype(np.float64)
        lost += float(np.sum((block - abundances[used[rows]] @ endmembers) ** 2))
        total += float(np.sum(block**2))
    return math.sqrt(lost / total)


def _slices(pixels: int, bands: int) -> Iterator[slice]:
    """A bounded number of pixels at a time."""
    step = max(1, _CHUNK_BYTES // (8 * bands))
    for start in range(0, pixels, step):
        yield slice(start, min(start + step, pixels))
