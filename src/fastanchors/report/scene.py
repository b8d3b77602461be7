"""A scene in natural colours, as far as its bands allow."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..matrix.array import ArrayMatrix
from ..matrix.contract import dense

__all__ = ["composite"]

_COLOURS = (650.0, 550.0, 450.0)  # red, green and blue, in nanometres
_OUTER = (0.02, 0.98)  # quantiles that become black and full colour


def composite(pixels: ArrayMatrix, column_names: Sequence[str] | None) -> str:
    """Red, green and blue of every pixel as bytes in base64, from the bands nearest to these colours."""
    values = dense(pixels.data)[:, _bands(pixels.shape[1], column_names)]
    low, high = np.quantile(values, _OUTER, axis=0)
    scaled = np.divide(values - low, high - low, out=np.zeros_like(values), where=high > low)
    return base64.b64encode(np.round(255 * scaled.clip(0, 1)).astype(np.uint8).tobytes()).decode("ascii")


def _bands(n: int, names: Sequence[str] | None) -> NDArray[np.intp]:
    """The bands nearest to the three colours; where wavelengths are not known, at 3/4, 1/2 and 1/4 of the columns."""
    plain = np.array([3 * n // 4, n // 2, n // 4], dtype=np.intp).clip(0, n - 1)
    if names is None:
        return plain
    try:
        waves = np.array([float(name) for name in names])
    except ValueError:
        return plain
    if waves.max() < 100:  # micrometres
        waves = 1000 * waves
    if waves.min() > _COLOURS[-1] + 50 or waves.max() < _COLOURS[0] - 50:
        return plain
    return np.array([int(np.abs(waves - colour).argmin()) for colour in _COLOURS], dtype=np.intp)
