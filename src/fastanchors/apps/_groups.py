"""Find groups of pixels whose medians are the spectra of materials; the set with the smallest residual is kept.

Candidate sets come from smoothed SPA (:func:`fastanchors.greedy.selection.smoothed_groups`) on pixels divided by their
brightness, or unscaled. No single group size or scaling suits all scenes. The residual of non-negative mixtures of the
spectra determines which set is best: a false vertex replaces a material, and the pixels of that material then have
large residuals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import lsq_linear

from ..encoder import AnchorSystem, encode
from ..errors import RankError
from ..greedy.groups import cores, group_sizes
from ..greedy.selection import smoothed_groups
from ._outliers import ScaledPixels

__all__ = ["DARK", "Judge", "Pixels", "best_groups", "refined_spectra"]

DARK = 0.1  # pixels below this fraction of the median brightness are not fully scaled up
_LARGEST = 2  # the largest groups tried, as a multiple of the requested number of pixels
_FINER = 4  # groups for rare materials are smaller by this factor
_GAIN = 0.05  # ... must reduce the residual of all pixels by this fraction...
_MISSED = 1.0  # ... and lie outside the simplex by more than this fraction of its least height
_SWAPPED = 0.1  # a group of another set must reduce the residual by this fraction
_APART = 0.03  # groups of other sets within this angle (radians) of one already listed are not tried
_POOL = 40  # largest number of groups of other sets that are tried
_GLANCED = 1 << 10  # pixels on which they are compared
_JUDGES = 1 << 12  # pixels on which residuals are evaluated
_BRIGHTER = 2.0  # largest factor by which the brightness of a group is corrected
_WORSE = 0.1  # a corrected brightness may increase the residual by this fraction
_EXACT, _TIE = 1e-7, 1e-6  # residuals below the one, and relative differences below the other, are rounding
_TRIED = 1 << 14  # pixels on which group sizes and scalings are compared

_Array = NDArray[np.float64]
_Groups = list[NDArray[np.intp]]


class Judge:
    """Residuals of mixtures of given spectra, on at most ``most`` evenly spaced pixels and the ``sound`` bands."""

    def __init__(self, X: NDArray[Any], sound: NDArray[np.bool_], most: int = _JUDGES) -> None:
        some = X[:: -(-len(X) // most)]
        self.pixels = (some if sound.all() else some[:, sound]).astype(np.float64)
        self._squares = np.maximum(np.einsum("ij,ij->i", self.pixels, self.pixels), np.finfo(np.float64).tiny)

    def missed(self, spectra: _Array, *, sum_to_one: bool = False) -> _Array:
        """For each pixel the squared residual of its best mixture, relative to its squared norm."""
        system = AnchorSystem(np.ascontiguousarray(spectra), sum_to_one)
        _, Y, F = system.solve(0, self.pixels)
        return system.squared_errors(self._squares, Y, F) / self._squares

    def error(self, spectra: _Array) -> float:
        """The root mean square of the relative residuals; what is rounding is the same for all spectra."""
        return max(float(np.sqrt(np.mean(self.missed(spectra)))), _EXACT)

    def as_bright(self, spectra: _Array) -> _Array:
        """Factors, k × 1, for which the shares of mixtures sum to one as closely as possible.

        Groups without a pure pixel have the brightness of mixtures, and groups in shade that of the shade. All
        factors are one if the residual of mixtures whose shares sum to one would otherwise clearly increase.
        """
        shares = encode(self.pixels, spectra)
        factors = 1 / lsq_linear(shares, np.ones(len(shares)), bounds=(1 / _BRIGHTER, _BRIGHTER)).x[:, None]
        before, after = (self.missed(each, sum_to_one=True).mean() for each in (spectra, spectra * factors))
        return np.asarray(factors if after <= (1 + _WORSE) ** 2 * before else np.ones_like(factors))


@dataclass(frozen=True)
class Pixels:
    """The unscaled pixels, and their coordinates in the k leading directions.

    Attributes
    ----------
    X
        Pixels × bands.
    sound
        The bands used to locate materials.
    scaled
        The pixels divided by their brightness, or by a tenth of its median if that is larger, in k directions.
    raw
        The unscaled pixels, in the same directions.
    """

    X: NDArray[Any]
    sound: NDArray[np.bool_]
    scaled: _Array
    raw: _Array

    @classmethod
    def of(cls, X: NDArray[Any], sound: NDArray[np.bool_], pixels: ScaledPixels, k: int) -> Pixels:
        """Project the pixels on the directions of the scaled pixels, in which dark pixels are not scaled up."""
        axes = pixels.axes(np.ones(len(X), dtype=bool))[1][:, :k]
        scaled = np.empty((len(X), k))
        for rows, block in pixels.blocks(DARK):
            scaled[rows] = block @ axes
        return cls(X, sound, scaled, scaled * pixels.divisors(DARK)[:, None])

    def some(self, most: int) -> Pixels:
        """At most ``most`` of the pixels, evenly spaced."""
        step = -(-len(self.X) // most)
        return self if step == 1 else Pixels(self.X[::step], self.sound, self.scaled[::step], self.raw[::step])

    def spectra(self, groups: _Groups) -> _Array:
        """The medians of groups, band by band."""
        return np.array([np.median(self.X[group], axis=0) for group in groups], dtype=np.float64)


def best_groups(pixels: Pixels, k: int, count: int, *, exactly: bool = False) -> _Groups:
    """The k groups whose spectra explain the pixels best, of at most 2·``count`` pixels, or ``exactly`` ``count``.

    Each size is half of the previous one, and is tried on the scaled and the raw pixels. Then groups of the other sets
    are tried in place of those of the best set. If a material has fewer pixels than a group, its pixels lie outside the
    simplex of the groups' means. The pixels farthest from it, a quarter of a group and fewer, are therefore tried last
    in place of each group, and kept if they explain the pixels better.
    """
    judge = Judge(pixels.X, pixels.sound)

    def missed(groups: _Groups) -> float:
        return judge.error(pixels.spectra(groups)[:, pixels.sound])

    step = -(-len(pixels.X) // _TRIED)
    smoothed_groups(pixels.scaled[::step], k, 1)  # rejects pixels of a lower rank
    tried: list[tuple[float, int, _Array]] = []
    pool: _Groups = []
    for size in [count] if exactly else group_sizes(_LARGEST * count, count, len(pixels.X), 2):
        for points in (pixels.scaled, pixels.raw):
            found = _groups(points[::step], k, max(1, size // step))
            if found is not None:
                here = [group * step for group in found]
                tried.append((missed(here), size, points))
                pool += here
    if not tried:
        raise RankError(f"groups of {count} pixels have the same means, not those of {k} materials; lower share", 1)
    most = np.hypot((1 + _TIE) * min(each[0] for each in tried), _EXACT)  # of equally good sets the first
    _, size, points = next(each for each in tried if each[0] <= most)
    groups = cores(points, smoothed_groups(points, k, size))
    if exactly or k == 1:
        return groups
    groups = _swapped(pixels, groups, pool)
    least = missed(groups)
    for rare in group_sizes(size // _FINER, size // _FINER, len(points), _FINER):
        for other in _exchanged(pixels.scaled, groups, rare):
            if (now := missed(other)) < (1 - _GAIN) * least:
                least, groups = now, other
    return groups


def _swapped(pixels: Pixels, groups: _Groups, pool: _Groups) -> _Groups:
    """Replace groups by those of a pool, the best exchange first, as long as one clearly reduces the residual.

    A set can have a false vertex although each material is a vertex of some set.
    """
    judge = Judge(pixels.X, pixels.sound, _GLANCED)
    pool = _distinct(pixels, pool)
    spectra, others = (pixels.spectra(some)[:, pixels.sound] for some in (groups, pool))
    least = judge.error(spectra)
    for _ in groups:
        errors = np.empty((len(others), len(groups)))
        for i, j in np.ndindex(errors.shape):
            trial = spectra.copy()
            trial[j] = others[i]
            errors[i, j] = judge.error(trial)
        if errors.min() >= (1 - _SWAPPED) * least:
            break
        least = errors.min()
        best, place = np.unravel_index(errors.argmin(), errors.shape)
        spectra[place] = others[best]
        groups = [pool[best] if at == place else group for at, group in enumerate(groups)]
    return groups


def _distinct(pixels: Pixels, pool: _Groups) -> _Groups:
    """The groups of a pool without those whose spectra are nearly equal to that of an earlier one."""
    spectra = pixels.spectra(pool)[:, pixels.sound]
    directions = spectra / np.maximum(np.linalg.norm(spectra, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    kept: list[int] = []
    for i, direction in enumerate(directions):
        if not np.any(directions[kept] @ direction > np.cos(_APART)):
            kept.append(i)
    return [pool[i] for i in kept[:_POOL]]


def _groups(points: _Array, k: int, count: int) -> _Groups | None:
    try:
        return cores(points, smoothed_groups(points, k, count))
    except RankError:
        return None


def _exchanged(points: _Array, groups: _Groups, count: int) -> list[_Groups]:
    """Replace each group in turn by the ``count`` points farthest outside the simplex of the means.

    Returns no sets if these points are nearer to the simplex than its least height: spectra of a material vary.
    """
    means = np.array([points[group].mean(axis=0) for group in groups])
    outside = points - encode(points, means, sum_to_one=True) @ means
    if not outside.any():
        return []
    far = smoothed_groups(outside, 1, count)[0]
    if np.linalg.norm(outside[far].mean(axis=0)) <= _MISSED * _least_height(means):
        return []
    return [cores(points, [far if i == j else group for i, group in enumerate(groups)]) for j in range(len(groups))]


def _least_height(vertices: _Array) -> float:
    """The smallest distance of a vertex from the affine span of the others."""
    heights = []
    for j in range(len(vertices)):
        first, *others = np.delete(vertices, j, axis=0)
        edges = np.array(others).reshape(-1, vertices.shape[1]) - first
        basis = np.linalg.qr(edges.T)[0]
        gap = vertices[j] - first
        heights.append(float(np.linalg.norm(gap - basis @ (basis.T @ gap))))
    return min(heights)


def refined_spectra(pixels: ScaledPixels, spectra: _Array, groups: list[NDArray[np.intp]]) -> tuple[_Array, _Array]:
    """One round of least squares from the spectra of groups: shares of all pixels, then the spectra that fit them best.

    All pixels carry more information than those of the groups, above all if none is pure. Brightness is divided out as
    for the groups, or down to the brightness of the darkest group if that is less. Pixels darker than their material
    have less weight; if a dark material were compared with the median brightness instead, its brightest pixels, which
    are mixtures, would determine its spectrum. Weights are balanced so that every material counts equally, however
    rare. Pixels of a group are added once more, as pure. A second round would drift if spectra of a material vary.
    Returns the spectra, with their brightness unchanged, and the shares of all pixels.
    """
    k, bands = spectra.shape
    sums = spectra.sum(axis=1, keepdims=True)
    start = spectra / np.where(sums > 0, sums, 1.0)
    brightness, middle = pixels.brightness, float(np.median(pixels.brightness))
    usual = np.minimum([np.median(brightness[group]) for group in groups], middle)
    floor = min(DARK, float(usual.min()) / max(middle, np.finfo(np.float64).tiny))
    shares = np.empty((len(brightness), k))
    for rows, block in pixels.blocks(floor):
        shares[rows] = encode(block, start, sum_to_one=True)
    main = shares.argmax(axis=1)
    common = np.bincount(main, minlength=k)
    light = np.minimum(1.0, brightness / np.maximum(usual, np.finfo(np.float64).tiny)[main]) ** 2
    weights = light * (len(light) / (k * np.maximum(common, 1)))[main]
    left, right = (shares * weights[:, None]).T @ shares, np.zeros((k, bands))
    for rows, block in pixels.blocks(floor):
        right += (shares[rows] * weights[rows, None]).T @ block
    pure = np.array([weights[group].sum() for group in groups])
    found = np.maximum(np.linalg.lstsq(left + np.diag(pure), right + pure[:, None] * start, rcond=None)[0], 0.0)
    lengths = found.sum(axis=1, keepdims=True)
    return np.where(lengths > 0, found / np.where(lengths > 0, lengths, 1.0), start) * sums, shares
