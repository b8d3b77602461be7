"""Hyperspectral unmixing: the spectra of the materials of a scene, and how much of each is in every pixel."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._validate import check_number, check_rank, check_size
from ..encoder import encode
from ..errors import InvalidInputError
from ._cube import Cube, as_cube
from ._smoothed import nearest_to_means, smoothed_projection

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
    groups : k × count, the pixels that speak for each material.
    abundances : pixels × k, the share of each material in each pixel; rows sum to one, those of empty pixels are zero.
    share : k, the mean abundance over the pixels that hold data.
    empty : pixels without data (zero, not a number or the ignored value in every band).
    dead_bands : bands without data in every pixel; their value in ``endmembers`` is zero.
    relative_error : ‖X − abundances·endmembers‖_F / ‖X‖_F over the pixels that hold data.
    cube : the scene: its ``shape`` (height, width) where known, the order of its pixels, its wavelengths.
    seconds : wall-clock time.
    """

    endmembers: NDArray[np.float64]
    anchors: NDArray[np.intp]
    groups: NDArray[np.intp]
    abundances: NDArray[np.float64]
    share: NDArray[np.float64]
    empty: NDArray[np.intp]
    dead_bands: NDArray[np.intp]
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


def unmix(
    scene: Any,
    k: int,
    *,
    shape: tuple[int, int] | None = None,
    order: str = "C",
    share: float | None = None,
    ignore: float | None = None,
    clip: bool = False,
) -> Unmixing:
    """The ``k`` materials of a scene under the linear mixing model, robust to dark and odd pixels.

    Parameters
    ----------
    scene : height × width × bands array, pixels × bands array, or a :class:`Cube` (see :func:`read_cube`).
    k : number of materials.
    shape, order : for pixels × bands: the size (height, width) of the image and whether its pixels run along its rows
        (``"C"``) or down its columns (``"F"``, MATLAB's order).
    share : each spectrum is the median of this share of the pixels, between 0 and 1; by default 1/(8·k), an
        eighth of what a material would cover if all covered the same (about 4 % for three materials). Less finds
        rarer materials, more averages out more noise. Never less than one pixel.
    ignore : a value that marks pixels without data when it stands in all their bands (NaN and 0 always do).
    clip : set negative values, which atmospheric correction leaves behind, to zero instead of refusing them.

    How, and why:

    1. Pixels are divided by their l1 norm, so that a material in shade and in light is one point. Noise does not shrink
       with the light: scaled up, the darkest pixels would stick out everywhere. So brightness is divided out only
       down to a tenth of the median; what is darker stays short and is passed over.
    2. Spectra are projected on the leading k singular directions, where the mixtures lie; noise across them is
       dropped. The directions are those of the pixels scaled to at most unit l1 norm, dark ones left dark, so
       that noise of dark pixels does not choose them.
    3. Smoothed SPA (:mod:`fastanchors.apps._smoothed`) picks k groups of pixels whose means are extreme.
    4. A material's spectrum is the median, band by band, of the group's pixels as they are: what odd pixels got into
       the group have no say in it. Its anchor is the pixel of the group nearest to the group's mean, and abundances
       come from :func:`fastanchors.encode` with ``sum_to_one=True``.

    Cost: two passes over the scene, k·(16 + 2·k) over k numbers per pixel, and the encoding. Memory: the scene
    as it is, and about 4·k numbers per pixel.

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
    points = _points(pixels, held, k)
    groups = smoothed_projection(points, k, min(held.size, max(1, math.ceil(part * held.size))))
    endmembers = np.array([np.median(pixels[held[group]], axis=0) for group in groups], dtype=np.float64)
    abundances = np.asarray(encode(pixels, endmembers, sum_to_one=True), dtype=np.float64)
    abundances[empty] = 0.0
    return Unmixing(
        endmembers=endmembers,
        anchors=held[nearest_to_means(points, groups)],
        groups=held[np.array(groups)],
        abundances=abundances,
        share=abundances[held].mean(axis=0),
        empty=empty,
        dead_bands=dead,
        relative_error=_relative_error(pixels, held, abundances, endmembers),
        cube=cube,
        seconds=time.perf_counter() - started,
    )


def _clean(cube: Cube, ignore: float | None, clip: bool) -> tuple[NDArray[Any], NDArray[np.intp], NDArray[np.intp]]:
    """The pixels with zeros where there is no data, the empty pixels, the dead bands; other bad values are refused."""
    X = cube.pixels
    ignore = cube.ignore if ignore is None else ignore
    missing_in = np.zeros(X.shape[1], dtype=np.int64)
    empty = np.zeros(X.shape[0], dtype=bool)
    bad = negative = False
    for rows, block in _blocks(X):
        missing = ~np.isfinite(block) if block.dtype.kind == "f" else np.zeros(block.shape, dtype=bool)
        if ignore is not None:
            missing |= block == ignore
        empty[rows] = np.all(missing | (block == 0), axis=1)
        missing[empty[rows]] = False
        missing_in += missing.sum(axis=0)
        bad = bad or bool(missing.any())
        negative = negative or bool(np.any((block < 0) & ~missing & ~empty[rows, None]))
    dead = np.flatnonzero((missing_in > 0) & (missing_in == np.count_nonzero(~empty)))
    at = np.flatnonzero(empty)
    if not (bad or negative or (at.size and np.any(X[at] != 0))):
        return X, at, dead
    X = np.array(X, dtype=X.dtype if X.dtype.kind == "f" else np.float64)
    X[at] = 0.0
    X[:, dead] = 0.0
    for rows, block in _blocks(X):
        wrong = ~np.isfinite(block) if ignore is None else ~np.isfinite(block) | (block == ignore)
        if wrong.any():
            pixel, band = np.argwhere(wrong)[0]
            raise InvalidInputError(
                f"{cube.name}: band {band} of {cube.place(rows.start + int(pixel))} has no data ({block[pixel, band]}) "
                "while other bands have; fill it, or set the whole pixel or band to NaN to leave it out"
            )
        if clip:
            np.maximum(block, 0.0, out=block)
        elif (block < 0).any():
            pixel, band = np.argwhere(block < 0)[0]
            raise InvalidInputError(
                f"{cube.name}: band {band} of {cube.place(rows.start + int(pixel))} is negative "
                f"({block[pixel, band]:g}); pass clip=True (--clip) to set negative values to zero, or "
                "ignore=… (--ignore) if it marks missing data"
            )
    return X, at, dead


def _points(X: NDArray[Any], held: NDArray[np.intp], k: int) -> NDArray[np.float64]:
    """Steps 1 and 2: the pixels as k numbers each."""
    brightness = X.sum(axis=1, dtype=np.float64)[held]
    median = float(np.median(brightness))
    gram = np.zeros((X.shape[1], X.shape[1]))
    for rows, block in _blocks(X, held):
        scaled = block / np.maximum(brightness[rows], median)[:, None]
        gram += scaled.T @ scaled
    axes = np.linalg.eigh(gram)[1][:, : -k - 1 : -1]
    points = np.empty((held.size, k))
    for rows, block in _blocks(X, held):
        points[rows] = (block @ axes) / np.maximum(brightness[rows], _DARK * median)[:, None]
    return points


def _relative_error(
    X: NDArray[Any], held: NDArray[np.intp], abundances: NDArray[np.float64], endmembers: NDArray[np.float64]
) -> float:
    lost = total = 0.0
    for rows, block in _blocks(X, held):
        lost += float(np.sum((block - abundances[held[rows]] @ endmembers) ** 2))
        total += float(np.sum(block**2))
    return math.sqrt(lost / total)


def _blocks(X: NDArray[Any], held: NDArray[np.intp] | None = None) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Views of all pixels, a bounded number at a time; or copies of the ``held`` ones in float64."""
    step = max(1, _CHUNK_BYTES // (8 * X.shape[1]))
    for start in range(0, X.shape[0] if held is None else held.size, step):
        if held is None:
            rows = slice(start, min(start + step, X.shape[0]))
            yield rows, X[rows]
        else:
            rows = slice(start, min(start + step, held.size))
            yield rows, X[held[rows]].astype(np.float64)
