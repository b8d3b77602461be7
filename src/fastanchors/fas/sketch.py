"""Sketch rows: coordinates in a few directions, the norm, and the norm of the part outside those directions.

Products are in double precision whatever the type of the rows. Rows of an l1 view are divided here, entry by entry and
with the rounding of the view, so that the rows need not be copied first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._jit import jit
from ..matrix.contract import DOUBLE, Rows

__all__ = [
    "Part",
    "basis_from",
    "compare_part",
    "empty_part",
    "padded",
    "part_from",
    "relative_error",
    "sketch_rows",
]

_NO_DIVISOR = np.zeros(0)
_LANES = 16  # numbers added together


class Part(NamedTuple):
    """The sketch of consecutive rows, from row ``start`` on.

    In units of ‖a‖, ‖coordinates‖² + left² = 1 up to the rounding of single precision.
    """

    start: int
    coordinates: NDArray[np.float32]  # of a/‖a‖
    left: NDArray[np.float32]  # of a/‖a‖, rounded up
    norms: NDArray[np.float64]

    def cut(self, low: int, high: int) -> Part:
        """The sketch of its rows ``low`` … ``high`` − 1."""
        here = slice(low, high)
        return Part(self.start + low, self.coordinates[here], self.left[here], self.norms[here])


def empty_part(rows: int, dimension: int, start: int = 0) -> Part:
    """A buffer for the sketch of that many rows."""
    return Part(start, np.zeros((rows, dimension), dtype=np.float32), np.zeros(rows, dtype=np.float32), np.zeros(rows))


def basis_from(shared: Mapping[str, Any], columns: int | None = None) -> NDArray[np.float64]:
    """The basis of the sketched space; raises ``ValueError`` if it is invalid, or not one of so many columns."""
    V = np.asarray(shared["V"])
    if V.ndim != 2 or (columns is not None and len(V) != columns) or V.dtype != np.float64:
        raise ValueError("its basis is not one of this store")
    if not (np.abs(V) <= 2).all() or not np.allclose(V.T @ V, np.eye(V.shape[1]), atol=1e-9):
        raise ValueError("its basis is not orthonormal")
    return V


def part_from(arrays: Mapping[str, Any], start: int, stop: int, V: Any) -> Part:
    """The sketch of a shard; raises ``ValueError`` if it is invalid."""
    part = Part(start, *(np.asarray(arrays[x]) for x in ("coordinates", "left", "norms")))
    m = stop - start
    want = ((m, V.shape[1]), np.float32), ((m,), np.float32), ((m,), np.float64)
    pairs: Any = zip(part[1:], want, strict=True)
    if any(found.shape != shape or found.dtype != dtype for found, (shape, dtype) in pairs):
        raise ValueError("a sketch is not that of its shard")
    return part


def compare_part(part: Part, fresh: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` if a sketch in a file differs from that of its rows by more than rounding."""
    for name, rounding in (("coordinates", 1e-5), ("left", 1e-3), ("norms", 0.0)):
        if not np.allclose(getattr(part, name), fresh[name], rtol=1e-9, atol=rounding):
            raise ValueError(f"the {name} of a sketch are not those of its rows")


def relative_error(terms: int, dimension: int) -> float:
    """The error of 1 − ‖coordinates‖², in units of ‖a‖², if each product sums ``terms`` terms."""
    return 4 * (terms + dimension + 4) * DOUBLE


def padded(V: NDArray[np.float64]) -> NDArray[np.float64]:
    """V with columns of zeros appended, up to a width at which products with sparse rows are fastest."""
    n, d = V.shape
    wide = np.zeros((n, -(-d // _LANES) * _LANES))
    wide[:, :d] = V
    return wide


def sketch_rows(
    block: Rows, V: NDArray[np.float64], part: Part, at: int, divisor: NDArray[np.float64] = _NO_DIVISOR
) -> None:
    """Sketch a block of rows, each divided by its ``divisor`` if there are any, into ``part`` from place ``at`` on.

    V may be :func:`padded`. Blocks may come in any order and from any thread.
    """
    place = slice(at, at + block.shape[0])
    coordinates, left, norms = part.coordinates[place], part.left[place], part.norms[place]
    d = coordinates.shape[1]
    single = block.dtype == np.float32
    if sp.issparse(block):
        longest = int(np.diff(block.indptr).max(initial=0))
        error = relative_error(longest, d)
        entries = block.indptr, block.indices, block.data
        _sketch_csr(*entries, divisor, single, V, longest, error, coordinates, left, norms)
        return
    wide, squared = np.empty(block.shape), np.empty(block.shape[0])
    if divisor.size:
        _divide(block, divisor, single, wide)
    else:
        wide[...] = block
    _squares(wide, squared)
    _keep(wide @ V, squared, relative_error(block.shape[1], d), coordinates, left, norms)


@jit
def _divide(A: Any, divisor: Any, single: bool, wide: Any) -> None:
    """Rows of an l1 view in double precision; those of a view in single precision are rounded to it."""
    for i in range(A.shape[0]):
        by = divisor[i] if divisor[i] > 0 else 1.0
        if single:
            for j in range(A.shape[1]):
                wide[i, j] = np.float32(A[i, j] / by)
        else:
            for j in range(A.shape[1]):
                wide[i, j] = A[i, j] / by


@jit
def _squares(wide: Any, squared: Any) -> None:
    """Squared norms; eight independent sums hide the latency of the additions."""
    n = wide.shape[1]
    whole = n - n % 8
    for i in range(wide.shape[0]):
        a = b = c = d = e = f = g = h = 0.0
        row = wide[i]
        for j in range(0, whole, 8):
            a += row[j] * row[j]
            b += row[j + 1] * row[j + 1]
            c += row[j + 2] * row[j + 2]
            d += row[j + 3] * row[j + 3]
            e += row[j + 4] * row[j + 4]
            f += row[j + 5] * row[j + 5]
            g += row[j + 6] * row[j + 6]
            h += row[j + 7] * row[j + 7]
        total = ((a + b) + (c + d)) + ((e + f) + (g + h))
        for j in range(whole, n):
            total += row[j] * row[j]
        squared[i] = total


@jit
def _keep_row(c: Any, squared: float, error: float, coordinates: Any, left: Any, norms: Any, i: int) -> None:
    """Store coordinates in units of the norm, and the norm of the part outside, rounded up."""
    if squared <= 0.0:
        return
    norm = np.sqrt(squared)
    inside = 0.0
    for j in range(coordinates.shape[1]):
        x = c[j] / norm
        inside += x * x
        coordinates[i, j] = np.float32(x)
    norms[i] = norm
    left[i] = np.float32(np.sqrt(max(0.0, 1.0 - inside) + error) * (1.0 + 1.2e-7))


@jit
def _keep(C: Any, squared: Any, error: float, coordinates: Any, left: Any, norms: Any) -> None:
    for i in range(C.shape[0]):
        _keep_row(C[i], squared[i], error, coordinates, left, norms, i)


@jit
def _entries(data: Any, by: float, single: bool, x: Any) -> float:
    """Write the entries of a row of the view into ``x``; return their sum of squares."""
    if by == 0.0:
        for at in range(data.size):
            x[at] = data[at]
    elif single:
        for at in range(data.size):
            x[at] = np.float32(data[at] / by)
    else:
        for at in range(data.size):
            x[at] = data[at] / by
    total = 0.0
    for at in range(data.size):
        total += x[at] * x[at]
    return total


@jit
def _sketch_csr(
    indptr: Any,
    indices: Any,
    data: Any,
    divisor: Any,
    single: bool,
    V: Any,
    longest: int,
    error: float,
    coordinates: Any,
    left: Any,
    norms: Any,
) -> None:
    d = V.shape[1]
    c, x = np.empty(d), np.empty(longest)
    for i in range(norms.size):
        row, columns = data[indptr[i] : indptr[i + 1]], indices[indptr[i] : indptr[i + 1]]
        squared = _entries(row, divisor[i] if divisor.size > 0 else 0.0, single, x)
        c[:] = 0.0
        fours = row.size - row.size % 4
        for at in range(0, fours, 4):  # four rows of V for each load of the sums
            y, z, u, w = x[at], x[at + 1], x[at + 2], x[at + 3]
            p, q, r, s = V[columns[at]], V[columns[at + 1]], V[columns[at + 2]], V[columns[at + 3]]
            for j in range(d):
                c[j] += (y * p[j] + z * q[j]) + (u * r[j] + w * s[j])
        for at in range(fours, row.size):
            y, p = x[at], V[columns[at]]
            for j in range(d):
                c[j] += y * p[j]
        _keep_row(c, squared, error, coordinates, left, norms, i)
