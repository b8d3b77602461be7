"""Hyperspectral unmixing: the spectra of the materials of a scene, and how much of each is in every pixel."""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .._openers import opener
from .._validate import check_flag, check_number, check_rank, check_size
from ..errors import InvalidInputError
from ..greedy.selection import Selection, check_selection
from ._abundances import check_output, fill_abundances
from ._columns import find_bad_columns, pixels_in
from ._cube import Cube, as_cube
from ._materials import find_materials
from ._outliers import find_outliers
from ._scene_files import fit_mask, read_cube
from ._usable import Usable, usable

__all__ = ["Unmixing", "unmix"]

_SEARCHED = 1 << 17  # pixels in which materials are sought
_RANKED = 1 << 22  # pixels that are counted at a time


@dataclass(frozen=True)
class Unmixing:
    """What a scene consists of.

    Attributes
    ----------
    endmembers
        k × bands, the spectra of the materials in the units of the data.
    anchors
        For each material the pixel of its group that is most like it.
    groups
        For each material the pixels that speak for it.
    method
        ``"vertices"`` where the pixels are mixtures within their noise: spectra are the vertices that explain all
        pixels best, with the median brightness of their groups; else ``"refined"``: medians of the groups, refined once
        by all pixels; or ``"groups"``: these medians as they are, where the caller wanted them. With a ``selection``
        other than ``"auto"``, that rule.
    abundances
        Pixels × k, the share of each material in each pixel; rows sum to one (with a shadow, at most), those of pixels
        left out are zero.
    share
        k numbers, the mean abundance over the pixels that hold data.
    residual
        For each pixel the root mean square over the bands of what its mixture misses, in the units of the data; zero
        for pixels left out.
    empty
        Pixels without data (masked, zero, not a number or the no-data value in every band).
    incomplete
        Pixels without data in some bands; they are left out.
    outliers
        Pixels that are like no others (hot in a band, say): they speak for no material, but have abundances.
    searched
        The number of pixels in which materials were sought: all with data, or a sample of them.
    dropped_bands
        Bands that the header or the caller left out; their value in ``endmembers`` is zero.
    dead_bands
        Bands without data in every pixel; their value in ``endmembers`` is zero.
    hot_bands
        Bands whose errors would pass for a material, or that are far noisier than the others; they have no say but in
        ``endmembers``.
    bad_columns
        Columns of the image whose detectors differ from their neighbours'; their pixels speak for no material, but have
        abundances.
    relative_error
        ‖X − abundances·endmembers‖_F / ‖X‖_F over the pixels that hold data and are not outliers, without the hot
        bands.
    cube
        The scene: its ``shape`` (height, width) where known, the order of its pixels, its wavelengths.
    seconds
        Wall-clock time.
    has_shadow
        Whether a shadow was one more vertex.

    Examples
    --------
    >>> import fastanchors as fa
    >>> scene = fa.datasets.hyperspectral(12, 10, 30, 3, rng=0)
    >>> result = fa.apps.unmix(scene.A, 3, shape=(12, 10))
    >>> result.endmembers.shape, result.maps.shape
    ((3, 30), (12, 10, 3))
    """

    endmembers: NDArray[np.float64]
    anchors: NDArray[np.intp]
    groups: list[NDArray[np.intp]]
    method: str
    abundances: NDArray[Any]
    share: NDArray[np.float64]
    residual: NDArray[np.float32]
    empty: NDArray[np.intp]
    incomplete: NDArray[np.intp]
    outliers: NDArray[np.intp]
    searched: int
    dropped_bands: NDArray[np.intp]
    dead_bands: NDArray[np.intp]
    hot_bands: NDArray[np.intp]
    bad_columns: NDArray[np.intp]
    relative_error: float
    cube: Cube
    seconds: float
    has_shadow: bool = False

    @property
    def shadow(self) -> NDArray[Any]:
        """For each pixel the share of the shadow; zero without one, and for pixels left out."""
        dark = np.maximum(1.0 - self.abundances.sum(axis=1), 0.0) if self.has_shadow else np.zeros(self.cube.size[0])
        dark[self.left_out] = 0.0
        return np.asarray(dark)

    @property
    def left_out(self) -> NDArray[np.intp]:
        """Pixels without abundances: the empty and the incomplete."""
        return np.union1d(self.empty, self.incomplete)

    @property
    def maps(self) -> NDArray[Any]:
        """The abundances as height × width × k images."""
        return self.cube.image(self.abundances)

    def positions(self) -> list[tuple[int, int]]:
        """(row, column) in the image of every anchor."""
        if self.cube.shape is None:
            raise InvalidInputError("the size of the image is not known; give shape=(height, width)")
        rows, columns = np.unravel_index(self.anchors, self.cube.shape, order=self.cube.order)
        return [(int(row), int(column)) for row, column in zip(rows, columns)]

    def report(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write a page to explore the scene; options are those of :func:`fastanchors.report.write_unmixing`."""
        written: Path = opener("scene report")(path, self, **options)
        return written

    @property
    def brightest(self) -> list[str]:
        """The wavelength at which each material is brightest, or its band where wavelengths are not known."""
        waves, peaks = self.cube.wavelengths, self.endmembers.argmax(axis=1)
        return [f"band {peak}" if waves is None else f"{waves[peak]:g}" for peak in peaks]

    def __repr__(self) -> str:
        lines = [f"{len(self.endmembers)} materials, relative error {self.relative_error:.3g}"]
        for j, at in enumerate(self.brightest):
            lines.append(f"{j + 1:>3}  {self.share[j]:>6.1%}  pixel {self.anchors[j]}, brightest at {at}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return str(opener("notebook form")(self))


def unmix(
    scene: Any,
    k: int,
    *,
    shape: tuple[int, int] | None = None,
    bands: Literal["first", "middle", "last"] | None = None,
    order: Literal["C", "F"] | None = None,
    share: float | None = None,
    nodata: float | None = None,
    mask: Any = None,
    drop_bands: Any = None,
    clip: bool = False,
    keep_outliers: bool = False,
    method: str = "auto",
    selection: Selection = "auto",
    shadow: bool = False,
    out: NDArray[Any] | None = None,
) -> Unmixing:
    """The ``k`` materials of a scene under the linear mixing model, robust to dark pixels and outliers.

    Parameters
    ----------
    scene
        Height × width × bands array, pixels × bands array (masked ones too), an image of ``spectral.open_image``, an
        xarray ``DataArray``, the path of a file, or a :class:`Cube` (see :func:`read_cube`).
    k
        Number of materials; :func:`material_curve` helps to choose it.
    shape
        For pixels × bands: the size (height, width) of the image.
    bands
        Which axis of an array or file the bands are: ``"first"``, ``"middle"`` or ``"last"``; by default the last, or
        what the file tells.
    order
        For pixels × bands: whether the pixels run along the rows of the image (``"C"``, the default but for ``.mat``
        files) or down its columns (``"F"``, MATLAB's order).
    share
        A material is sought as the mean of this share of the pixels, between 0 and 1; by default 1/(4·k), a quarter of
        what a material would cover if all covered the same (about 8 % for three materials), and less where that
        explains the pixels better. Less finds rarer materials, more averages out more noise. Never less than one pixel.
    nodata
        The stored value that marks missing data, instead of the one in the header; NaN for none. Pixels that have it,
        NaN or 0 in all bands are empty; those that have it or NaN in some are incomplete. Both are left out.
    mask
        Height × width or one per pixel: pixels where it is 0 or False are left out.
    drop_bands
        Indices of bands to leave out, besides those that the header marks as bad.
    clip
        Set negative values, which atmospheric correction leaves behind, to zero instead of refusing them. Pixels
        without a positive value are empty.
    keep_outliers
        Let pixels that are like no others speak for a material too.
    method
        ``"auto"``, or ``"groups"`` to leave out steps 2 and 7 below.
    selection
        The rule that selects materials, as for :class:`fastanchors.FAS`: ``"auto"`` is the steps below. The others are
        for comparison, and replace steps 2 to 7: ``"spa"`` takes the pixels that plain SPA selects, as they are;
        ``"smoothed"``, ``"pseudo-points"``, ``"lifted"`` and ``"whitened"`` take vertices by these rules of the engine
        (:mod:`fastanchors.greedy.selection`), as bright as the median of the pixels near them.
    shadow
        Add a shadow, a spectrum of zeros, as one more vertex: the abundances of a pixel sum to what is lit, and
        ``result.shadow`` is the rest. A pixel in half the light of its material is then half shadow; without it, it is
        explained by darker materials.
    out
        Pixels × k array of floats to write the abundances to, such as a memory map.

    Notes
    -----
    How, and why:

    1. Pixels with a spike in a band, those that make a direction of the data with fewer than three others, bands that
       make one alone, have most of the spikes, or five times the noise of the median band, and columns of the image
       that differ from their neighbours along their whole length, are set aside (:mod:`fastanchors.apps._spikes`,
       :mod:`fastanchors.apps._outliers`, :mod:`fastanchors.apps._columns`): errors of the instrument. They say nothing
       in steps 2 to 7.
    2. The noise-aware engine (:mod:`fastanchors.greedy.anchoring`) looks for the k vertices that explain all pixels as
       mixtures with noise. They are the spectra (``method="vertices"``), with the median brightness of the pixels
       nearest to them, if what k directions leave is white noise, no more than 2 % of the pixels stay unexplained,
       and the pixels are explained no worse than by the spectra of steps 3 to 6. If not, which is the rule where
       spectra of a material vary, it is those of steps 3 to 7 (``method="refined"``).
    3. Pixels are divided by their l1 norm, so that a material in shade and in light is one point. Noise does not shrink
       with the light: scaled up, the darkest pixels would stick out everywhere. So brightness is divided out only
       down to a tenth of the median; what is darker stays short and is passed over.
    4. Spectra are projected on the leading k singular directions, where the mixtures lie; noise across them is
       dropped. The directions are those of the pixels scaled to at most unit l1 norm, dark ones left dark, so
       that noise of dark pixels does not choose them.
    5. Smoothed SPA (:mod:`fastanchors.greedy.selection`) picks k groups of pixels whose means are extreme: groups of
       several sizes, of the pixels as scaled in step 3 and as they are. Of these, the set is taken whose spectra miss
       least of the pixels. Where pixels lie farther outside the simplex of the means than the least of its vertices is
       high, they are tried in the place of each group: a rare material (:mod:`fastanchors.apps._groups`). Pixels
       without a group's material are dropped from it.
    6. A material's spectrum is the median, band by band, of the group's pixels as they are: what outliers got into
       the group have no say in it. Its anchor is the pixel of the group nearest to the group's mean.
    7. One round of least squares over all pixels refines the spectra, which matters where no pixel is pure. Vertices
       and refined spectra are then made as bright as lets the shares in mixtures sum to one, unless such mixtures
       explain the pixels clearly worse.
    8. Abundances are least squares that are non-negative and sum to one, as of :func:`fastanchors.encode`.

    Of a scene with more than 131,072 pixels, steps 1 to 7 see that many, drawn evenly with a fixed seed: the groups are
    shares of the pixels, and a sample has them too. Outliers are then listed among those only.

    Cost: three passes over the scene, one of which encodes; five over the pixels searched (three more for each round in
    which outliers are found), and k·(16 + 2·k) over k numbers of each. Memory: the pixels searched, about 4·k numbers
    for each, and the abundances, or no more than 1 GB with ``out`` on disk.

    Raises ``RankError`` when the scene holds fewer than k independent spectra.

    Examples
    --------
    >>> import fastanchors as fa
    >>> scene = fa.datasets.hyperspectral(12, 10, 30, 3, rng=0)
    >>> fa.apps.unmix(scene.A, 3, shape=(12, 10)).abundances.shape
    (120, 3)
    """
    started = time.perf_counter()
    k = check_size(k, name="k")
    check_flag(shadow, name="shadow")
    if method not in ("auto", "groups"):
        raise InvalidInputError(f"method must be 'auto' or 'groups', got {method!r}")
    rule = check_selection(selection)
    if rule != "auto" and method != "auto":
        raise InvalidInputError(f"method={method!r} is for selection='auto'; with selection={rule!r} leave it out")
    given = {"shape": shape, "bands": bands, "order": order, "nodata": nodata, "mask": mask}
    data = usable_pixels(scene, **given, drop_bands=drop_bands, clip=clip)
    cube = data.cube
    columns = np.zeros(0, dtype=np.intp) if keep_outliers else find_bad_columns(data)
    searched = sample_pixels(data.held & ~pixels_in(columns, cube), _SEARCHED)
    check_rank(k, (searched.size, data.bands.size))
    part = 1 / (8 * k) if share is None else check_number(share, name="share", minimum=0.0, maximum=1.0)
    count = max(1, math.ceil(part * searched.size))
    pixels = data.take(searched)
    outlier, hot = find_outliers(pixels, k, 1 if keep_outliers else count)
    used = searched[~outlier]
    if outlier.any():
        pixels = pixels[~outlier]
    found = find_materials(pixels, ~hot, k, min(used.size, count), method, selection=rule, exactly=share is not None)
    del pixels
    outliers = searched[outlier]
    abundances = check_output(out, (cube.size[0], k))
    filled = fill_abundances(data, found.spectra, ~hot, outliers, abundances, shadow=shadow)
    endmembers = np.zeros((k, cube.size[1]))
    endmembers[:, data.bands] = found.spectra
    return Unmixing(
        endmembers=endmembers,
        anchors=used[found.anchors],
        groups=[used[group] for group in found.groups],
        method=found.method,
        abundances=abundances,
        share=filled.total / np.count_nonzero(data.held),
        residual=filled.residual,
        empty=data.empty,
        incomplete=data.incomplete,
        outliers=outliers,
        searched=searched.size,
        dropped_bands=data.dropped,
        dead_bands=data.dead,
        hot_bands=data.bands[hot],
        bad_columns=columns,
        relative_error=filled.relative_error,
        cube=cube,
        seconds=time.perf_counter() - started,
        has_shadow=shadow,
    )


def usable_pixels(
    scene: Any,
    *,
    shape: tuple[int, int] | None = None,
    bands: Any = None,
    order: Any = None,
    nodata: float | None = None,
    mask: Any = None,
    drop_bands: Any = None,
    clip: bool = False,
) -> Usable:
    """The part of a scene that is data; the options are those of :func:`unmix`."""
    if isinstance(scene, str | os.PathLike):
        scene = read_cube(Path(scene), shape=shape, bands=bands, order=order)
        shape = bands = None
    cube = _with_nodata(as_cube(scene, shape=shape, bands=bands, order=order or "C"), nodata)
    dropped = None if drop_bands is None else check_bands(drop_bands, cube.size[1])
    return usable(cube, mask=None if mask is None else fit_mask(mask, cube), dropped=dropped, clip=clip)


def check_bands(bands: Any, count: int) -> NDArray[np.intp]:
    """Indices of bands."""
    at = np.atleast_1d(np.asarray(bands))
    if at.size and (at.dtype.kind not in "iu" or at.ndim != 1):
        raise InvalidInputError("drop_bands must be a list of whole numbers")
    wrong = at[(at < 0) | (at >= count)]
    if wrong.size:
        raise InvalidInputError(f"there is no band {wrong[0]} to leave out; the scene has bands 0 to {count - 1}")
    return at.astype(np.intp)


def _with_nodata(cube: Cube, nodata: float | None) -> Cube:
    ignore = cube.info.ignore if nodata is None else float(nodata)
    if ignore is not None and (ignore == 0 or math.isnan(ignore)):
        ignore = None  # in all bands, 0 is no data anyway; in some, it is a dark band
    return cube if ignore == cube.info.ignore else replace(cube, info=replace(cube.info, ignore=ignore))


def sample_pixels(held: NDArray[np.bool_], most: int) -> NDArray[np.intp]:
    """All pixels that are held, or ``most`` of them drawn evenly with a fixed seed; in rising order."""
    count = int(np.count_nonzero(held))
    if count <= most:
        return np.flatnonzero(held)
    ranks = np.sort(np.random.default_rng(0).choice(count, most, replace=False))
    found, before = [], 0
    for start in range(0, len(held), _RANKED):
        here = np.flatnonzero(held[start : start + _RANKED])
        first, last = np.searchsorted(ranks, [before, before + here.size])
        found.append(here[ranks[first:last] - before] + start)
        before += here.size
    return np.concatenate(found)
