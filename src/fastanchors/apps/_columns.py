"""Detect bad columns of an image: detectors whose gain differs from their neighbours'.

A push-broom instrument measures every column of its image with separate detectors. If one has a different gain, all
pixels of the column differ from their neighbours in the same way. Materials do not cause this: along a good column,
the median difference from the mean of both neighbours is zero up to noise in every band.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._cube import Cube
from ._usable import Usable

__all__ = ["bad_columns", "find_bad_columns", "pixels_in"]

_PIXELS = 1 << 16  # pixels that are read, in whole lines
_LINES = 16  # minimum number of lines
_FAR = 6.0  # threshold, as a multiple of the difference of the median column
_SLIGHT = 0.02  # relative differences below this are ignored
_MOST = 0.1  # largest fraction of bad columns; beyond it the differences belong to the scene


def find_bad_columns(data: Usable) -> NDArray[np.intp]:
    """The bad columns of the scene; none if the size of its image is not known or too small."""
    cube = data.cube
    if cube.shape is None or cube.shape[0] < _LINES or cube.shape[1] < 8:
        return np.zeros(0, dtype=np.intp)
    height, width = cube.shape
    lines = np.unique(np.linspace(0, height - 1, min(height, max(_LINES, _PIXELS // width))).astype(np.intp))
    at = lines[:, None] * width + np.arange(width) if cube.order == "C" else lines[:, None] + height * np.arange(width)
    used = data.held[at]
    chosen = np.sort(at[used])
    if chosen.size == 0:
        return np.zeros(0, dtype=np.intp)
    values = data.take(chosen)
    image = np.full((*at.shape, values.shape[1]), np.nan, dtype=np.float32)
    image[used] = values[np.searchsorted(chosen, at[used])]
    return bad_columns(image)


def bad_columns(image: NDArray[np.float32]) -> NDArray[np.intp]:
    """The columns that differ from both neighbours, in lines × columns × bands with NaN for missing data.

    The first and the last column are not tested.
    """
    image = image / np.nansum(image, axis=2, keepdims=True).clip(np.finfo(np.float32).tiny)
    typical = np.sqrt(np.nanmean(np.nanmean(image, axis=(0, 1)) ** 2)) if not np.isnan(image).all() else 1.0
    image -= (np.roll(image, 1, axis=1) + np.roll(image, -1, axis=1)) / 2
    image[:, [0, -1]] = np.nan  # they have only one neighbour, and composition changes from column to column
    known = ~np.isnan(image[:, :, 0])
    score = np.zeros(image.shape[1])
    for column in np.flatnonzero(np.count_nonzero(known, axis=0) >= _LINES):
        middle = np.median(image[known[:, column], column], axis=0)
        score[column] = np.sqrt(np.mean(middle**2)) / typical
    beside = np.maximum(np.roll(score, 1), np.roll(score, -1))
    bad = (score > max(_FAR * float(np.median(score)), _SLIGHT)) & (score >= beside)
    return np.flatnonzero(bad) if np.count_nonzero(bad) <= _MOST * len(score) else np.zeros(0, dtype=np.intp)


def pixels_in(columns: NDArray[np.intp], cube: Cube) -> NDArray[np.bool_]:
    """For each pixel of the scene, whether it lies in one of the columns."""
    if cube.shape is None or columns.size == 0:
        return np.zeros(cube.size[0], dtype=bool)
    image = np.zeros(cube.shape, dtype=bool)
    image[:, columns] = True
    return cube.flat(image)
