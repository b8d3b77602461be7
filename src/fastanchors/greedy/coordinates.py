"""Project every row on the leading principal directions of the profiles, where the signal-to-noise ratio is highest.

A row divided by its sum is its *profile*. Profiles of mixtures of k anchors lie in a simplex of k − 1 dimensions; noise
fills all dimensions. The principal directions of the profiles keep the simplex and drop most of the noise. Three steps
make the directions robust:

* Rows are weighted by their noise. The residual of a row beyond the leading directions estimates its noise, so the
  weights follow from the rows themselves (``weights="auto"``). A row that has pulled a direction towards itself has a
  small residual; its leverage corrects for that. ``"poisson"`` weights rows by their sums, as suits counts.
* Columns are scaled by the power of their mean that the noise follows (0: equal noise, 1: counts, 2: multiplicative).
  The power comes from a regression of each column's residual on its mean (after Landa, Zhang and Kluger,
  *Biwhitening*, SIAM J. Math. Data Sci. 2022). A column that is far noisier than that, such as a band in which the
  air absorbs nearly all light, is scaled down to the noise of the others.
* No row counts for more than a few typical rows, so outliers do not rotate the directions. Rows that lie together
  within their noise, such as copies of an anchor, keep their full weight.

Scaling a row changes none of this, so a matrix and its l1 view have the same coordinates. Directions come from a pilot
of at most 2²³ entries, coordinates from one pass over all rows. Coordinates in d directions serve any k ≤ d + 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._parallel import map_ordered
from ..errors import InvalidInputError, RankError
from ..matrix import RowMatrix, Rows
from ..matrix.contract import row_sums_of
from .noise import excess_noise
from .principal import CANCELS, GRAM_COLUMNS, NOT_FINITE, PIECE, covariance, pieces_of, principal_directions, signs_of

__all__ = [
    "DIRECTIONS",
    "PILOT_ENTRIES",
    "Coordinates",
    "Frame",
    "Weights",
    "block_coordinates",
    "check_not_negative",
    "coordinates",
    "coordinates_of",
    "fit_frame",
    "normalised",
    "pilot_frame",
    "products",
]

DIRECTIONS = 32  # kept by default
PILOT_ENTRIES = 1 << 23
_PILOT_ROWS = 2048  # at least
_FEW_ENTRIES = 1 << 20  # entries of the part of the pilot from which weights and scales are estimated
_SPECK = 1e-9  # coordinates below this part of the largest are zero: they could decide between equal distances
_ROUNDS = 3  # alternations between directions and weights
_ALIKE = 1e-22  # squared difference of rows, relative to their squared size, that is rounding
_ROUNDING = 1e-13  # a squared residual below this fraction of a row's size is none
_CAP = 4.0  # a row counts for at most this many typical rows
_NEIGHBOURS = 3  # neighbours that a row needs to keep its full weight…
_COMPARED = 1000  # …among at most this many rows
_FEW = 4096  # points processed together
_NEAR = 0.3  # neighbours are nearer than this fraction of the row's distance to the centre
_ITERATIONS = (8, 3)  # of subspace iteration: in the first round, and in later ones
_TOGETHER = 128  # rows multiplied together
_FLAT = 0.2  # noise exponents below this are set to zero
_SMALL = 1e-2  # of the mean column: added to each mean before scaling; smaller columns do not enter the regression

_Array = NDArray[np.float64]
Weights = Literal["auto", "poisson", "none"] | _Array


@dataclass(frozen=True)
class Frame:
    """The coordinate system: z = (profile − centre)·scale, y = z·directions.

    Attributes
    ----------
    centre, scale
        n numbers each.
    directions
        n × d, orthonormal.
    exponent
        Power of its mean that the noise variance of a column follows.
    rank
        Number of directions along which the pilot varies by more than rounding.
    zeros
        Fraction of the pilot's entries that are zero.
    """

    centre: _Array
    scale: _Array
    directions: _Array
    exponent: float
    rank: int
    zeros: float

    @property
    def rounding(self) -> float:
        """Squared distance from the centre, in the units of the coordinates, that is rounding."""
        return _ALIKE * float(np.sum((self.scale * self.centre) ** 2))

    def profiles(self, points: _Array) -> _Array:
        """Convert points in the first coordinates to profiles: non-negative, with sum one."""
        spread = points @ self.directions[:, : points.shape[1]].T / self.scale
        return normalised(self.centre + spread)

    def points(self, profiles: _Array, dimensions: int) -> _Array:
        """The first coordinates of profiles."""
        return np.asarray((profiles - self.centre) * self.scale @ self.directions[:, :dimensions])

    def beyond(self, rows: Rows) -> _Array:
        """The residual of rows beyond the directions: z − y·directionsᵀ."""
        profiles, _ = _profiles(rows)
        z = ((profiles.toarray() if sp.issparse(profiles) else profiles) - self.centre) * self.scale
        return np.asarray(z - (z @ self.directions) @ self.directions.T)


@dataclass(frozen=True)
class Coordinates:
    """All rows in the coordinates of a frame.

    Attributes
    ----------
    values
        m × d, single precision.
    left
        For each row ‖z‖² beyond the d directions.
    sums
        Row sums; a row with sum zero has no profile and is never an anchor.
    """

    frame: Frame
    values: NDArray[np.float32]
    left: _Array
    sums: _Array

    @property
    def shape(self) -> tuple[int, int]:
        m, d = self.values.shape
        return m, d

    def of_rows(self, rows: NDArray[np.intp]) -> Coordinates:
        """The coordinates of some rows."""
        return Coordinates(self.frame, self.values[rows], self.left[rows], self.sums[rows])

    def leading(self, dimensions: int, rows: NDArray[np.intp] | slice = slice(None)) -> tuple[_Array, _Array]:
        """The first coordinates of those rows, and the squared norm of each row's residual beyond them."""
        if dimensions > self.values.shape[1]:
            raise InvalidInputError(
                f"k = {dimensions + 1} needs {dimensions} directions and {self.values.shape[1]} are kept; use "
                f"k ≤ {self.values.shape[1] + 1}, or rebuild with directions={dimensions}"
            )
        values = self.values[rows].astype(np.float64)
        values[np.abs(values) < _SPECK * np.abs(values).max(initial=0.0)] = 0.0
        beyond = np.einsum("ij,ij->i", values[:, dimensions:], values[:, dimensions:])
        return values[:, :dimensions], self.left[rows] + beyond


def normalised(rows: _Array) -> _Array:
    """Rows without their negative entries, divided by their sums."""
    found = np.maximum(rows, 0.0)
    sums = found.sum(axis=1, keepdims=True)
    return np.asarray(found / np.where(sums > 0, sums, 1.0))


def coordinates(
    matrix: RowMatrix,
    directions: int = DIRECTIONS,
    *,
    weights: Weights = "auto",
    pilot_entries: int = PILOT_ENTRIES,
    rng: np.random.Generator | None = None,
) -> Coordinates:
    """Compute the coordinates of all rows: a pilot, then one pass.

    Parameters
    ----------
    matrix : RowMatrix
        Non-negative. Its rows may be scaled or not.
    directions : int
        How many to keep; fewer if the matrix has fewer columns or rows.
    weights : "auto", "poisson", "none" or m numbers
        Weight of each row in the directions: by its estimated noise, by its sum, equal, or as given.
    pilot_entries : int
        Largest number of entries of the pilot, at most 2²³; the pilot has at least 2048 rows.
    rng : numpy.random.Generator
        Draws the pilot if the matrix is larger than a pilot.
    """
    frame = pilot_frame(matrix, directions, weights=weights, pilot_entries=pilot_entries, rng=rng)[0]
    return coordinates_of(matrix, frame)


def pilot_frame(
    matrix: RowMatrix,
    directions: int = DIRECTIONS,
    *,
    weights: Weights = "auto",
    pilot_entries: int = PILOT_ENTRIES,
    pilot_rows: int = PILOT_ENTRIES,
    rng: np.random.Generator | None = None,
) -> tuple[Frame, Rows, float]:
    """The frame of a pilot of the matrix; the rows of the pilot that are not zero; the fraction of rows that are not.

    If nearly all rows are zero, a pass finds the others, from which the pilot is drawn. Parameters as for
    :func:`coordinates`; ``pilot_rows`` is the largest number of rows of a pilot that has more than 2048.
    """
    rng = np.random.default_rng(0) if rng is None else rng
    m, n = matrix.shape
    width = max(1, matrix.nnz // max(m, 1) if matrix.is_sparse else n)
    size = max(_PILOT_ROWS, min(min(pilot_entries, PILOT_ENTRIES) // width, pilot_rows))
    chosen = np.arange(m) if m <= size else np.sort(rng.choice(m, size, replace=False))
    rows = matrix.rows(chosen)
    full = row_sums_of(rows) != 0
    filled = float(full.mean())
    if full.sum() < min(m, _PILOT_ROWS) and len(chosen) < m:
        every = np.flatnonzero(matrix.row_sums() > 0)
        filled = len(every) / m
        chosen = every if len(every) <= size else np.sort(rng.choice(every, size, replace=False))
        rows = matrix.rows(chosen)
    elif not full.all():
        chosen, rows = chosen[full], rows[full]
    given = np.asarray(weights, dtype=np.float64)[chosen] if not isinstance(weights, str) else weights
    return fit_frame(rows, directions, weights=given, rng=rng), rows, filled


def coordinates_of(matrix: RowMatrix, frame: Frame) -> Coordinates:
    """Compute the coordinates of all rows in a given frame: one pass."""
    parts = matrix.map_blocks(block_coordinates, frame)
    values, left, sums = (np.concatenate([part[i] for part in parts]) for i in range(3))
    return Coordinates(frame, values, left, sums)


def block_coordinates(start: int, block: Rows, frame: Frame) -> tuple[NDArray[np.float32], _Array, _Array]:
    """Coordinates, squared residuals and sums of the rows of a block, in pieces that stay in the cache."""
    m, d = block.shape[0], frame.directions.shape[1]
    values, left, sums = np.empty((m, d), np.float32), np.empty(m), np.empty(m)
    for at in pieces_of(block, _TOGETHER):
        profiles, sums[at] = _profiles(block[at])
        along, squares = _centred(profiles, frame.centre, frame.scale, frame.directions, overwrite=True)
        left[at] = np.maximum(squares - np.einsum("ij,ij->i", along, along), 0.0)
        values[at] = along
    empty = sums <= 0
    values[empty], left[empty] = 0.0, 0.0
    return values, left, sums


def check_not_negative(rows: Rows) -> None:
    """Raise if an entry is negative: such rows have no profiles."""
    entries = rows.data if sp.issparse(rows) else rows
    if entries.dtype.kind != "u" and entries.min(initial=0) < 0:
        raise InvalidInputError("A has negative entries; clip or shift them: anchors need non-negative entries")


def fit_frame(
    rows: Rows, directions: int = DIRECTIONS, *, weights: Weights = "auto", rng: np.random.Generator | None = None
) -> Frame:
    """Fit a frame to a pilot of rows."""
    check_not_negative(rows)
    profiles, sums = _profiles(rows)
    full = sums > 0
    if not full.any():
        raise RankError("every row of A is zero: it has no anchors", 0)
    if not full.all():
        profiles, sums = profiles[full], sums[full]
    m, n = profiles.shape
    d = max(1, min(directions, n - 1, m - 1))
    noisy = max(1, min(DIRECTIONS, d, n // 2, m // 4))  # the residual beyond these is noise
    rng = np.random.default_rng(0) if rng is None else rng
    nonzero = int(np.count_nonzero(profiles.data if sp.issparse(profiles) else profiles))
    width = min(n, d + 8)
    profiles, columns = _filled_columns(profiles, max(width, GRAM_COLUMNS + 1))
    scale, V, exponent = np.ones(len(columns)), _random_rows(rng, (n, width), columns), 0.0
    given = weights[full] if not isinstance(weights, str) else sums if weights == "poisson" else np.ones(m)
    step = min(max(1, nonzero // _FEW_ENTRIES), max(1, m // _PILOT_ROWS))  # the same for dense and sparse rows
    centre, values = _mean(profiles[::step], given[::step]), np.zeros(d)
    for turn in range(_ROUNDS):  # the last round uses all rows, earlier rounds a subset
        some = slice(None, None, step if turn < _ROUNDS - 1 else 1)
        part, base = profiles[some], given[some]
        known, at_a_time = V[:, : noisy if turn else 0], pieces_of(part, 32 * _TOGETHER)
        made = map_ordered(_centred, ((part[x], centre, scale, known) for x in at_a_time))
        at, squares = made[0] if len(made) == 1 else (np.concatenate(found) for found in zip(*made))
        del made, known  # the old directions are not kept beside the new ones
        left = np.maximum(squares - np.einsum("ij,ij->i", at, at), 0.0)
        size = float(np.sum((scale * centre) ** 2))
        if turn and isinstance(weights, str) and weights == "auto":
            left[left < _ROUNDING * (squares + size)] = 0.0  # weights are not for rounding
            left /= (1.0 - _leverage(at)) ** 2
            base = 1.0 / (left + 0.1 * np.median(left) + 1e-12 * np.median(squares) + _ROUNDING * size)
            base /= base.mean()
        alike = squares <= _ALIKE * size  # rows at the centre, whose rounding must not be the typical size
        squares[alike], at[alike] = 0.0, 0.0
        w = _capped(base, squares, at, float(np.median(left)) / max(1, n - 1 - noisy))
        centre = _mean(part, w)
        values, V, spread = principal_directions(part, w, centre, scale, V, d, _ITERATIONS[min(turn, 1)])
        if turn == 0:
            rest = spread - np.einsum("ij,ij,j->i", V[:, :noisy], V[:, :noisy], values[:noisy])
            exponent, scale = _noise_law(centre, rest, float(spread.sum()), n)
            usual = squares <= _CAP * np.median(squares)  # errors in a few rows are not noise of columns
            excess = _excess_noise(part[usual], w[usual], scale)
            if excess.max() > 1:  # columns far above the law of the others do not determine it
                exponent, scale = _noise_law(centre, np.where(excess > 1, 0.0, rest), float(spread.sum()), n)
                scale /= excess
        del at, left, part  # before the next ones are made
    least = max(1e-13 * float(values[0]), _ALIKE * float(np.sum((scale * centre) ** 2)))
    rank = int(np.count_nonzero(values > least))
    frame = np.zeros(n), np.full(n, _SMALL ** (-exponent / 2)), np.zeros((n, d))
    V = V[:, :d]
    V *= signs_of(V)
    for every, found in zip(frame, (centre, scale, V)):
        every[columns] = found
    return Frame(*frame, exponent, rank, 1.0 - nonzero / (m * n))


def _filled_columns(profiles: Any, least: int) -> tuple[Any, NDArray[np.intp]]:
    """Sparse profiles without the columns that are zero, but with at least that many; and the columns that are left."""
    n = profiles.shape[1]
    if not sp.issparse(profiles) or n <= least:
        return profiles, np.arange(n)
    filled = np.zeros(n, np.bool_)
    filled[profiles.indices] = True
    filled[np.flatnonzero(~filled)[: max(0, least - np.count_nonzero(filled))]] = True
    return _in_columns(profiles, filled), np.flatnonzero(filled)


def _in_columns(profiles: Any, chosen: NDArray[np.bool_]) -> Any:
    """The chosen columns of sparse profiles, whose other columns are zero."""
    place = np.cumsum(chosen, dtype=profiles.indices.dtype) - 1
    shape = (profiles.shape[0], int(np.count_nonzero(chosen)))
    return sp.csr_array((profiles.data, place[profiles.indices], profiles.indptr), shape=shape)


def _random_rows(rng: np.random.Generator, shape: tuple[int, int], rows: NDArray[np.intp]) -> _Array:
    """Those rows of a matrix of normal numbers, of which only a part is in memory at a time."""
    if len(rows) == shape[0]:
        return rng.standard_normal(shape)
    found, step = np.empty((len(rows), shape[1])), max(1, PIECE // shape[1])
    for start in range(0, shape[0], step):
        here = slice(*np.searchsorted(rows, [start, start + step]))
        found[here] = rng.standard_normal((min(step, shape[0] - start), shape[1]))[rows[here] - start]
    return found


def _capped(base: _Array, squares: _Array, points: _Array, variance: float) -> _Array:
    """Cap the weights so that no row counts for more than a few typical rows, except rows with near neighbours.

    The cap applies to the whole row and to its projection on the leading directions, ``points``.
    """
    times = _times_typical(base * squares)
    if points.shape[1]:
        times = np.maximum(times, _times_typical(base * np.einsum("ij,ij->i", points, points)))
    w: _Array = base * np.minimum(1.0, _CAP / np.maximum(times, 1e-300))
    far = np.flatnonzero(times > _CAP)
    if points.shape[1] and len(far) > _NEIGHBOURS:
        far = _with_neighbours(points, far, variance)
        w[far] = base[far]
    return w


def _times_typical(energy: _Array) -> _Array:
    """Each value as a multiple of the median; zeros if the median is zero."""
    typical = float(np.median(energy))
    return energy / typical if typical > 0 else np.zeros_like(energy)


def _leverage(points: _Array) -> _Array:
    """How far each row has pulled the directions towards itself: 0 for not at all, near 1 if one is its own."""
    total, found = np.zeros(points.shape[1]), np.empty(len(points))
    parts = [slice(at, at + _FEW) for at in range(0, len(points), _FEW)]
    for at in parts:
        total = np.add.reduce(np.vstack([total, points[at] ** 2]), axis=0)
    inverse = 1.0 / np.maximum(total, 1e-300)
    for at in parts:
        found[at] = np.einsum("ij,j->i", points[at] ** 2, inverse)
    return np.minimum(found, 0.99)


def _with_neighbours(points: _Array, far: NDArray[np.intp], variance: float) -> NDArray[np.intp]:
    """Those of the ``far`` points that have a few neighbours among them: near relative to their size, and in the noise.

    The noise has that variance.
    """
    others = points[far[:: -(-len(far) // _COMPARED)]]
    lengths = np.einsum("ij,ij->i", others, others)

    def look(some: NDArray[np.intp]) -> NDArray[np.intp]:
        mine = points[some]
        sizes = np.einsum("ij,ij->i", mine, mine)
        squares = 2 * mine @ others.T
        np.subtract(sizes[:, None], squares, out=squares)
        squares += lengths
        near = np.minimum(4 * points.shape[1] * variance, _NEAR**2 * sizes)
        return some[np.sum(squares <= near[:, None], axis=1) > _NEIGHBOURS]

    # Not all at once, nor in threads: there are up to a thousand numbers for each point.
    return np.concatenate([look(far[at : at + _FEW]) for at in range(0, len(far), _FEW)])


def _profiles(rows: Rows) -> tuple[Any, _Array]:
    """Rows divided by their sums (zero rows stay zero), dense or CSR, in double precision."""
    profiles = rows.astype(np.float64)
    sums = row_sums_of(profiles)
    if not np.isfinite(sums).all():
        raise InvalidInputError(NOT_FINITE)
    with np.errstate(over="ignore"):
        inverse = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0)
    if not np.isfinite(inverse).all():
        raise InvalidInputError("the sums of rows of A underflow; divide A by its largest entry")
    if sp.issparse(profiles):
        return sp.csr_array(sp.diags_array(inverse) @ profiles), sums
    profiles *= inverse[:, None]
    return profiles, sums


def _mean(profiles: Any, w: _Array) -> _Array:
    return np.asarray(profiles.T @ w).reshape(-1) / w.sum()


def _centred(
    profiles: Any, centre: _Array, scale: _Array, V: _Array, *, overwrite: bool = False
) -> tuple[_Array, _Array]:
    """z·V and ‖z‖² for z = (profile − centre)·scale; sparse profiles stay sparse, dense ones may be overwritten.

    Rows near the centre would lose digits in differences of products; for them z is formed, a piece at a time.
    """
    if sp.issparse(profiles) and profiles.nnz < len(centre):  # only some columns of the directions are copied
        filled = np.zeros(len(centre), np.bool_)
        filled[profiles.indices] = True
        scaled = V[filled]
        scaled *= scale[filled, None]
        values = products(_in_columns(profiles, filled), scaled)
    else:
        values = products(profiles, scale[:, None] * V)
    values -= (centre * scale) @ V
    size = float(np.sum((scale * centre) ** 2))
    if sp.issparse(profiles):
        squared = profiles.multiply(profiles)
        squares = np.asarray(squared @ scale**2 - 2 * (profiles @ (scale**2 * centre))).reshape(-1) + size
        near = np.flatnonzero(squares < CANCELS * size)
        step = max(1, PIECE // len(centre))
        for start in range(0, len(near), step):
            some = near[start : start + step]
            z = (profiles[some].toarray() - centre) * scale
            values[some], squares[some] = products(z, V), np.einsum("ij,ij->i", z, z)
        return values, squares
    squares = np.empty(len(profiles))
    for at in pieces_of(profiles):
        z = np.subtract(profiles[at], centre, out=profiles[at] if overwrite else None)
        z *= scale
        squares[at] = np.einsum("ij,ij->i", z, z)
        near = np.flatnonzero(squares[at] < CANCELS * size)
        if near.size:
            values[at.start + near] = products(z[near], V)
    return values, squares


def products(rows: Any, W: NDArray[Any]) -> NDArray[Any]:
    """The product rows · W, in pieces of one shape: so the result for a row does not depend on the rows beside it."""
    if sp.issparse(rows):
        return np.asarray(rows @ W)
    (m, n), width = rows.shape, W.shape[1]
    found = np.empty((m, width), dtype=rows.dtype)
    times, rest = divmod(m, _TOGETHER)
    whole = m - rest
    np.matmul(rows[:whole].reshape(times, _TOGETHER, n), W, out=found[:whole].reshape(times, _TOGETHER, width))
    if rest:
        last = np.zeros((_TOGETHER, n), dtype=rows.dtype)
        last[:rest] = rows[whole:]
        found[whole:] = (last @ W)[:rest]
    return found


def _excess_noise(profiles: Any, w: _Array, scale: _Array) -> _Array:
    """How many times noisier than the median each scaled column is, if it is far noisier; otherwise 1.

    Profiles have sum one, so each column follows from the others; variance along that direction, where there is none,
    makes their covariance regular. It takes all columns, so very many columns are not compared.
    """
    m, n = profiles.shape
    if n > GRAM_COLUMNS:
        return np.ones(n)
    centre = _mean(profiles, w)
    gram = covariance(profiles, w, centre)
    along = scale[:, None] * gram * scale
    total = 1.0 / scale
    values, axes = np.linalg.eigh(along + np.trace(along) / (total @ total) * np.outer(total, total))
    return excess_noise(values[::-1], axes[:, ::-1], scale * np.sqrt(np.diag(gram) + centre**2), m)


def _noise_law(centre: _Array, rest: _Array, total: float, n: int) -> tuple[float, _Array]:
    """The exponent of the noise and the scale of each column that makes the noise of all n columns equal.

    Columns that are zero in all rows may have been left out.
    """
    mean = float(centre.sum()) / n
    exponent = _noise_exponent(centre, mean, rest, total)
    return exponent, (centre / mean + _SMALL) ** (-exponent / 2)


def _noise_exponent(centre: _Array, mean: float, rest: _Array, total: float) -> float:
    """Slope of log noise variance against log mean over the columns; zero if no noise is detected."""
    seen = (centre > _SMALL * mean) & (rest > 0)
    if seen.sum() < 8 or rest.sum() < 1e-10 * total:
        return 0.0
    x, y = np.log(centre[seen]), np.log(rest[seen])
    x -= x.mean()
    if x @ x < 1e-6 * len(x):
        return 0.0
    slope = float(np.clip((x @ y) / (x @ x), 0.0, 2.0))
    return slope if slope >= _FLAT else 0.0
