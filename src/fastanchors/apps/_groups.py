"""Groups of pixels whose medians are the spectra of materials: several sets are tried, and the pixels judge them.

A set of groups is that of smoothed SPA (:func:`fastanchors.greedy.selection.smoothed_groups`) on pixels divided by
their brightness, or as they are. No one size of group and no one geometry suits all scenes, but what non-negative
mixtures of the spectra miss of the pixels tells which set is right: a false vertex takes the place of a material, and
the pixels of that material are then missed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import lsq_linear

from ..encoder import AnchorSystem, encode
from ..errors import RankError
from ..greedy.selection import smoothed_groups
from ._outliers import ScaledPixels
from ._smoothed import cores

__all__ = ["DARK", "Judge", "Pixels", "best_groups", "refined_spectra"]

DARK = 0.1  # pixels below this share of the median brightness are not scaled all the way up
_LARGEST = 2  # times the number of pixels asked for are the largest groups tried
_FINER = 4  # pixels of a rare material are sought in groups smaller by this factor
_GAIN = 0.05  # ... must explain all pixels better by so much...
_MISSED = 1.0  # ... and miss the simplex by more than this part of its least height
_FEWEST = 4  # points in a group that was not asked for...
_RAREST = 1e-3  # ... and part of all points
_JUDGES = 1 << 12  # pixels that judge
_BRIGHTER = 2.0  # times is the most that the brightness of a group may be off
_WORSE = 0.1  # by so much more may mixtures miss with another brightness
_TRIED = 1 << 14  # pixels on which sizes and geometries are compared

_Array = NDArray[np.float64]
_Groups = list[NDArray[np.intp]]


class Judge:
    """What mixtures of given spectra miss of some pixels, drawn evenly, over the ``sound`` bands."""

    def __init__(self, X: NDArray[Any], sound: NDArray[np.bool_]) -> None:
        some = X[:: -(-len(X) // _JUDGES)]
        self.pixels = (some if sound.all() else some[:, sound]).astype(np.float64)
        self._squares = np.maximum(np.einsum("ij,ij->i", self.pixels, self.pixels), np.finfo(np.float64).tiny)

    def missed(self, spectra: _Array, *, sum_to_one: bool = False) -> _Array:
        """For each pixel the part that no mixture explains, squared, of its square."""
        system = AnchorSystem(np.ascontiguousarray(spectra), sum_to_one)
        _, Y, F = system.solve(0, self.pixels)
        return system.squared_errors(self._squares, Y, F) / self._squares

    def as_bright(self, spectra: _Array) -> _Array:
        """Factors, k × 1, that make the shares of mixtures sum to one as nearly as may be.

        Groups without a pure pixel have the brightness of mixtures, and materials in shade that of the shade. All
        factors are one where mixtures whose shares do sum to one would then miss clearly more than before.
        """
        shares = encode(self.pixels, spectra)
        factors = 1 / lsq_linear(shares, np.ones(len(shares)), bounds=(1 / _BRIGHTER, _BRIGHTER)).x[:, None]
        before, after = (self.missed(each, sum_to_one=True).mean() for each in (spectra, spectra * factors))
        return np.asarray(factors if after <= (1 + _WORSE) ** 2 * before else np.ones_like(factors))


@dataclass(frozen=True)
class Pixels:
    """The pixels as they are, and as k numbers each in their leading directions.

    Attributes
    ----------
    X
        Pixels × bands.
    sound
        The bands that say where materials are.
    scaled
        The pixels over their brightness, down to a tenth of its median, in k directions.
    raw
        The pixels as they are, in the same directions.
    """

    X: NDArray[Any]
    sound: NDArray[np.bool_]
    scaled: _Array
    raw: _Array

    @classmethod
    def of(cls, X: NDArray[Any], sound: NDArray[np.bool_], pixels: ScaledPixels, k: int) -> Pixels:
        """Project the pixels on the directions of those scaled, dark ones left dark."""
        axes = pixels.axes(np.ones(len(X), dtype=bool))[1][:, :k]
        scaled = np.empty((len(X), k))
        for rows, block in pixels.blocks(DARK):
            scaled[rows] = block @ axes
        return cls(X, sound, scaled, scaled * pixels.divisors(DARK)[:, None])

    def some(self, most: int) -> Pixels:
        """At most so many of them, evenly."""
        step = -(-len(self.X) // most)
        return self if step == 1 else Pixels(self.X[::step], self.sound, self.scaled[::step], self.raw[::step])

    def spectra(self, groups: _Groups) -> _Array:
        """The medians of groups, band by band."""
        return np.array([np.median(self.X[group], axis=0) for group in groups], dtype=np.float64)


def best_groups(pixels: Pixels, k: int, count: int, *, exactly: bool = False) -> _Groups:
    """The k groups whose spectra explain the pixels best: of up to twice ``count`` pixels, or ``exactly`` so many.

    Each size is half of the one before, and is tried on the pixels scaled and raw. Of a material that is rarer than the
    groups are large, the pixels lie outside the simplex of the groups' means: those farthest from it, a quarter of
    a group and fewer, are at last tried in the place of each group, and stay where that explains the pixels better.
    """
    judge = Judge(pixels.X, pixels.sound)

    def missed(groups: _Groups) -> float:
        return float(np.sqrt(np.mean(judge.missed(pixels.spectra(groups)[:, pixels.sound]))))

    step = -(-len(pixels.X) // _TRIED)
    smoothed_groups(pixels.scaled[::step], k, 1)  # refuses pixels of a lower rank
    tried = []
    for size in [count] if exactly else _sizes(_LARGEST * count, count, len(pixels.X), 2):
        for points in (pixels.scaled, pixels.raw):
            found = _groups(points[::step], k, max(1, size // step))
            if found is not None:
                tried.append((missed([group * step for group in found]), size, points))
    _, size, points = min(tried, key=lambda each: each[0])
    groups = cores(points, smoothed_groups(points, k, size))
    if exactly or k == 1:
        return groups
    least = missed(groups)
    for rare in _sizes(size // _FINER, size // _FINER, len(points), _FINER):
        for other in _exchanged(pixels.scaled, groups, rare):
            if (now := missed(other)) < (1 - _GAIN) * least:
                least, groups = now, other
    return groups


def _sizes(first: int, surely: int, pixels: int, factor: int) -> Iterator[int]:
    """Sizes of groups, each smaller than the one before by a factor; below ``surely``, no group of a few pixels."""
    size = min(first, pixels)
    while size >= 1 and (size >= surely or size >= max(_FEWEST, _RAREST * pixels)):
        yield size
        size //= factor


def _groups(points: _Array, k: int, count: int) -> _Groups | None:
    try:
        return cores(points, smoothed_groups(points, k, count))
    except RankError:
        return None


def _exchanged(points: _Array, groups: _Groups, count: int) -> list[_Groups]:
    """The ``count`` points farthest outside the simplex of the means, in the place of each of the groups.

    None where they are nearer to it than the least of its vertices is to the others: spectra of a material vary.
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
    """The least distance of a vertex from the affine span of the others."""
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

    All pixels tell more than those of the groups, above all where none is pure. Brightness is divided out as for the
    groups, and dark pixels count less; pixels count so that every material has the same weight, however rare; and
    those of a group count once more, as pure. A second round would move on where spectra of a material vary.
    Returns the spectra, as bright as they were, and the shares of all pixels.
    """
    k, bands = spectra.shape
    sums = spectra.sum(axis=1, keepdims=True)
    start = spectra / np.where(sums > 0, sums, 1.0)
    light = np.minimum(1.0, pixels.brightness / np.median(pixels.brightness)) ** 2
    shares = np.empty((len(light), k))
    for rows, block in pixels.blocks(DARK):
        shares[rows] = encode(block, start, sum_to_one=True)
    main = shares.argmax(axis=1)
    common = np.bincount(main, minlength=k)
    weights = light * (len(light) / (k * np.maximum(common, 1)))[main]
    left, right = (shares * weights[:, None]).T @ shares, np.zeros((k, bands))
    for rows, block in pixels.blocks(DARK):
        right += (shares[rows] * weights[rows, None]).T @ block
    pure = np.array([weights[group].sum() for group in groups])
    found = np.maximum(np.linalg.lstsq(left + np.diag(pure), right + pure[:, None] * start, rcond=None)[0], 0.0)
    lengths = found.sum(axis=1, keepdims=True)
    return np.where(lengths > 0, found / np.where(lengths > 0, lengths, 1.0), start) * sums, shares
