"""Render a scene in natural colours, as far as its bands allow."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import numpy as np

from ..matrix.array import ArrayMatrix
from ..matrix.contract import dense

__all__ = ["composite"]

_COLOURS = (650.0, 550.0, 450.0)  # red, green and blue, in nanometres
_OUTER = (0.02, 0.98)  # quantiles that become black and full colour


def composite(pixels: ArrayMatrix, column_names: Sequence[str] | None) -> dict[str, str]:
    """Red, green and blue of every pixel as bytes in base64, from the bands nearest to these colours; and a caption."""
    bands, natural = _bands(pixels.shape[1], column_names)
    values = dense(pixels.data)[:, bands]
    low, high = np.quantile(values, _OUTER, axis=0)
    scaled = np.divide(values - low, high - low, out=np.zeros_like(values), where=high > low)
    colours = base64.b64encode(np.round(255 * scaled.clip(0, 1)).astype(np.uint8).tobytes()).decode("ascii")
    shown = ", ".join(str(band) for band in bands)
    return {"composite": colours, "colours": "Natural colours" if natural else f"Bands {shown}"}


def _bands(n: int, names: Sequence[str] | None) -> tuple[list[int], bool]:
    """The bands nearest to the three colours, and True; if that is not known, three evenly spaced bands and False."""
    across = [3 * n // 4, n // 2, n // 4]
    try:
        waves = np.array([float(name) for name in names or ()])
    except ValueError:
        return across, False
    if not waves.size:
        return across, False
    if waves.max() < 100:  # micrometres
        waves = 1000 * waves
    if waves.min() > _COLOURS[-1] + 50 or waves.max() < _COLOURS[0] - 50:
        return across, False
    return [int(np.abs(waves - colour).argmin()) for colour in _COLOURS], True
