"""Help to choose the number of materials of a scene: a curve over k, with evidence from noise and stability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._equality import ComparedByValue
from .._validate import check_size
from ..encoder import encode
from ..errors import FastAnchorsError
from ..greedy.anchoring import find_anchors, working_rows
from ..greedy.coordinates import Coordinates, coordinates
from ..greedy.how_many import DIRECTIONS, HowMany, how_many
from ..greedy.stability import no_noise, stability
from ..matrix.array import ArrayMatrix
from ..solvers.spa import SPA
from ._outliers import find_outliers
from ._unmix import sample_pixels, usable_pixels

__all__ = ["MaterialCurve", "material_curve"]

_PIXELS = 1 << 13  # pixels that are examined
_JUDGES = 2048  # of these, pixels on which the residual is evaluated
_USUAL = 6  # number of materials assumed in outlier detection


@dataclass(frozen=True, eq=False)
class MaterialCurve(ComparedByValue):
    """The evidence for each number of materials.

    Attributes
    ----------
    k
        Numbers of materials, increasing.
    missed
        For each k, the residual of non-negative mixtures of the vertices for a typical pixel, relative to its norm.
    firm
        For each k, how many of its materials would be found again in other pixels of the scene.
    moves
        For each k, the largest angle by which a material moves when half of the pixels, or noise, are drawn again.
    suggested
        The number of directions with more variance than noise, plus one; None if it cannot be determined.
    statement
        The conclusion in words.

    Examples
    --------
    >>> import fastanchors as fa
    >>> scene = fa.datasets.hyperspectral(40, 40, 60, 4, snr=30, rng=0)
    >>> fa.apps.material_curve(scene.cube, 5).k.tolist()
    [2, 3, 4, 5]
    """

    k: NDArray[np.intp]
    missed: NDArray[np.float64]
    firm: NDArray[np.intp]
    moves: NDArray[np.float64]
    suggested: int | None
    statement: str

    @property
    def chosen(self) -> int | None:
        """The number determined from the noise, if all its materials are firm; else None: choose it by the curve."""
        if self.suggested is None or self.suggested not in self.k:
            return None
        at = int(np.flatnonzero(self.k == self.suggested)[0])
        return self.suggested if self.firm[at] == self.suggested else None

    def as_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON."""
        return {
            "k": self.k.tolist(),
            "missed": self.missed.tolist(),
            "firm": self.firm.tolist(),
            "moves": self.moves.tolist(),
            "suggested": self.suggested,
            "chosen": self.chosen,
            "statement": self.statement,
        }


def material_curve(scene: Any, most: int = 10, **options: Any) -> MaterialCurve:
    """Compute the evidence for 2, 3, … ``most`` materials in a scene.

    Parameters
    ----------
    scene
        As for :func:`unmix`.
    most
        The largest number to try.
    **options
        The options of :func:`unmix` that determine what is data: ``shape``, ``bands``, ``order``, ``nodata``,
        ``mask``, ``drop_bands``, ``clip``.

    Notes
    -----
    At most 8,192 pixels are used, drawn evenly. The number of directions above noise comes from
    :mod:`fastanchors.greedy.how_many`, the number of firm materials from :mod:`fastanchors.greedy.stability`, and the
    vertices from the noise-aware engine. Spectra of real materials vary, and each kind of variation is a direction too.
    If the curve keeps falling, the number of materials depends on how much detail is wanted, and no number is chosen.

    Examples
    --------
    >>> import fastanchors as fa
    >>> scene = fa.datasets.hyperspectral(40, 40, 60, 4, snr=30, rng=0)
    >>> fa.apps.material_curve(scene.cube, 6).chosen
    4
    """
    most = check_size(most, name="most", minimum=2)
    data = usable_pixels(scene, **options)
    pixels = data.take(sample_pixels(data.held, _PIXELS))
    outliers, hot = find_outliers(pixels, min(_USUAL, most, pixels.shape[1], len(pixels)), len(pixels))
    X = pixels[~outliers][:, ~hot].astype(np.float64)
    most = min(most, *X.shape)
    where = coordinates(ArrayMatrix(X), max(DIRECTIONS, most))
    estimate = how_many(where)
    numbers, missed, firm, moves = [], [], [], []
    some = X[:: -(-len(X) // _JUDGES)]
    sizes = np.linalg.norm(some, axis=1)
    for k in range(2, most + 1):
        try:
            profiles, count, move = _vertices(where, X, k)
        except FastAnchorsError:
            break
        gap = np.linalg.norm(some - encode(some, profiles) @ profiles, axis=1)
        numbers.append(k)
        missed.append(float(np.median(gap / sizes)))
        firm.append(count)
        moves.append(move)
    tried, firms = np.array(numbers, dtype=np.intp), np.array(firm, dtype=np.intp)
    statement = _statement(estimate, tried, firms)
    return MaterialCurve(tried, np.array(missed), firms, np.array(moves), estimate.k, statement)


def _vertices(where: Coordinates, X: NDArray[np.float64], k: int) -> tuple[NDArray[np.float64], int, float]:
    """The vertices as profiles, how many of them are firm, and the largest angle by which one moves."""
    working = working_rows(where)
    found = find_anchors(where, k, "auto", working=working)
    if found is None:  # no noise is detected
        rows = SPA().seek(X / X.sum(axis=1, keepdims=True), k).indices
        profiles, stable = X[rows], no_noise(where, where.leading(k - 1, rows)[0], working)
    else:
        profiles, stable = found.profiles, stability(where, found, working)
    return profiles, stable.verdicts.count("firm"), float(stable.angles.max())


def _statement(estimate: HowMany, k: NDArray[np.intp], firm: NDArray[np.intp]) -> str:
    all_firm = k[firm == k]
    known = (
        f"all materials are firm for k = {', '.join(map(str, all_firm))}" if all_firm.size else "for no k are all firm"
    )
    if estimate.k is None:
        return f"the number of materials cannot be determined: {estimate.reason}; {known}"
    suggestion = f"{estimate.reason}, which suggests {estimate.k} materials"
    if estimate.k not in k:
        return f"{suggestion}, more than were tried or than there are; {known}"
    count = int(firm[k == estimate.k][0])
    if count == estimate.k:
        return f"{suggestion}, and all of them would be found again; {known}"
    return f"{suggestion}, but only {count} of them would be found again: choose by the curve and the maps; {known}"
