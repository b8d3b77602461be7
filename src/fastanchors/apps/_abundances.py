"""Compute the abundances of every pixel of a scene from the spectra of its materials."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._parallel import map_ordered, one_blas_thread
from ..encoder import AnchorSystem
from ..errors import InvalidInputError
from ._usable import Usable, check_sizes

__all__ = ["Filled", "check_output", "fill_abundances"]

_CHUNK_BYTES = 1 << 22  # size of the pixels, in double precision, that are encoded at a time


@dataclass(frozen=True)
class Filled:
    """Statistics collected while the abundances were written.

    Attributes
    ----------
    relative_error
        ‖X − F·S‖_F / ‖X‖_F without outliers.
    total
        Sum of the abundances of each material.
    residual
        For each pixel the root mean square of the residual of its mixture, in the units of the data.
    """

    relative_error: float
    total: Any
    residual: NDArray[np.float32]


def check_output(out: NDArray[Any] | None, shape: tuple[int, int]) -> NDArray[Any]:
    """The array for the abundances, set to zero."""
    if out is None:
        return np.zeros(shape)
    if not isinstance(out, np.ndarray) or out.dtype.kind != "f" or out.shape != shape:
        raise InvalidInputError(f"out must be a floating-point array of shape {shape}")
    if not out.flags.writeable:
        raise InvalidInputError("out is read-only; pass an array that can be written to")
    out[:] = 0
    return out


def fill_abundances(
    data: Usable,
    spectra: NDArray[np.float64],
    sound: NDArray[np.bool_],
    outliers: NDArray[np.intp],
    abundances: NDArray[Any],
    *,
    sum_to_one: bool = True,
    shadow: bool = False,
) -> Filled:
    """Write the abundances of all held pixels, in threads, a block at a time; with ``shadow`` they sum to at most one.

    A shadow is an additional spectrum of zeros. Its share is not written: it is one minus the sum of the others.
    """
    k = len(spectra)
    check_sizes(float(np.abs(spectra).max()))
    if shadow:
        spectra = np.vstack([spectra, np.zeros((1, spectra.shape[1]))])
    with one_blas_thread():
        system = AnchorSystem(np.ascontiguousarray(spectra[:, sound]), sum_to_one)
        residual = np.zeros(len(abundances), dtype=np.float32)
        width = int(np.count_nonzero(sound))

        def solve(at: NDArray[np.intp], pixels: NDArray[Any]) -> tuple[float, float, NDArray[np.float64]]:
            lost = squares = 0.0
            total = np.zeros(k)
            step = max(1, _CHUNK_BYTES // (8 * width))
            for start in range(0, len(at), step):
                here, part = at[start : start + step], pixels[start : start + step]
                block, Y, F = system.solve(start, (part if sound.all() else part[:, sound]).astype(np.float64))
                sizes = np.einsum("ij,ij->i", block, block)
                missed = system.squared_errors(sizes, Y, F, block)
                where: Any = slice(here[0], here[-1] + 1) if here[-1] - here[0] + 1 == here.size else here
                errors = np.sqrt(missed / width)
                check_sizes(max(1.0, float(errors.max())))  # a single pixel may be far larger than the spectra
                abundances[where], residual[where] = F[:, :k], errors
                total += F[:, :k].sum(axis=0)
                usual = np.ones(here.size, dtype=bool)
                usual[np.searchsorted(here, outliers[(outliers >= here[0]) & (outliers <= here[-1])])] = False
                lost, squares = lost + float(missed[usual].sum()), squares + float(sizes[usual].sum())
            return lost, squares, total

        parts = map_ordered(solve, data.blocks())
    lost, squares = sum(part[0] for part in parts), sum(part[1] for part in parts)
    return Filled(math.sqrt(lost / squares) if squares else 0.0, sum((part[2] for part in parts), 0.0), residual)
