"""Hyperspectral unmixing: estimate the spectra of the materials of a scene and their abundances in every pixel."""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .._equality import ComparedByValue
from .._openers import opener
from .._validate import as_array, check_choice, check_flag, check_number, check_rank, check_size
from ..errors import InvalidInputError, InvalidTypeError
from ..greedy.selection import Selection, check_selection
from ._abundances import check_output, fill_abundances
from ._columns import find_bad_columns, pixels_in
from ._cube import Cube, as_cube
from ._materials import find_materials
from ._outliers import find_outliers
from ._scene_files import fit_mask, read_cube
from ._usable import Usable, usable

__all__ = ["Unmixing", "unmix"]

_SEARCHED = 1 << 17  # largest number of pixels searched for materials
_RANKED = 1 << 22  # pixels counted at a time


@dataclass(frozen=True, eq=False)
class Unmixing(ComparedByValue):
    """The result of :func:`unmix`: spectra, abundances, and the pixels and bands that were excluded.

    Attributes
    ----------
    endmembers
        k × bands, the spectra of the materials in the units of the data.
    anchors
        For each material the pixel of its group that is most similar to it.
    groups
        For each material the pixels that represent it.
    method
        ``"vertices"`` if the pixels are mixtures within their noise: the spectra are the vertices that explain all
        pixels best, with the median brightness of their groups. Otherwise ``"refined"``: medians of the groups, refined
        once with all pixels. ``"groups"``: the unrefined medians, if the caller asked for them. With a ``selection``
        other than ``"auto"``, the name of that rule.
    abundances
        Pixels × k, the share of each material in each pixel. Rows sum to one (with a shadow, to at most one); rows of
        excluded pixels are zero.
    share
        k numbers, the mean abundance over the pixels that hold data.
    residual
        For each pixel the root mean square over the bands of the residual of its mixture, in the units of the data;
        zero for excluded pixels.
    empty
        Pixels without data (masked, zero, not a number or the no-data value in every band).
    incomplete
        Pixels without data in some bands; they are excluded.
    outliers
        Outlier pixels, for example hot in one band: they represent no material, but have abundances.
    searched
        The number of pixels searched for materials: all with data, or a sample of them.
    dropped_bands
        Bands that the header or the caller excluded; their value in ``endmembers`` is zero.
    dead_bands
        Bands without data in every pixel; their value in ``endmembers`` is zero.
    hot_bands
        Bands whose errors would look like a material, or that are far noisier than the others. They are used only in
        ``endmembers``.
    bad_columns
        Columns of the image whose detectors differ from their neighbours'. Their pixels represent no material, but have
        abundances.
    relative_error
        ‖X − abundances·endmembers‖_F / ‖X‖_F over the pixels that hold data and are not outliers, without the hot
        bands.
    cube
        The scene: its ``shape`` (height, width) if known, the order of its pixels, its wavelengths.
    seconds
        Wall-clock time.
    has_shadow
        Whether a shadow was used as an additional vertex.

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
    cube: Cube = field(compare=False)
    seconds: float = field(compare=False)
    has_shadow: bool = False

    def _compared(self) -> dict[str, Any]:
        return {**super()._compared(), "info": self.cube.info}  # the pixels may be in a file that is closed

    @property
    def shadow(self) -> NDArray[Any]:
        """For each pixel the share of the shadow; zero without a shadow and for excluded pixels."""
        if not self.has_shadow:
            return np.zeros(self.cube.size[0])
        lit = np.asarray(self.abundances.sum(axis=1))
        dark = np.subtract(1.0, lit, out=lit)
        dark[self.left_out] = 0.0
        return np.maximum(dark, 0.0, out=dark)

    @property
    def left_out(self) -> NDArray[np.intp]:
        """Pixels without abundances: the empty and the incomplete ones."""
        return np.union1d(self.empty, self.incomplete)

    @property
    def maps(self) -> NDArray[Any]:
        """The abundances as height × width × k images."""
        return self.cube.image(self.abundances)

    def positions(self) -> list[tuple[int, int]]:
        """(row, column) in the image of every anchor."""
        if self.cube.shape is None:
            raise InvalidInputError("the size of the image is not known; pass shape=(height, width)")
        rows, columns = np.unravel_index(self.anchors, self.cube.shape, order=self.cube.order)
        return [(int(row), int(column)) for row, column in zip(rows, columns)]

    def report(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write an HTML page to explore the scene; options are those of :func:`fastanchors.report.write_unmixing`."""
        written: Path = opener("scene report")(path, self, **options)
        return written

    @property
    def brightest(self) -> list[str]:
        """The wavelength at which each material is brightest, or the band if wavelengths are not known."""
        waves, peaks = self.cube.wavelengths, self.endmembers.argmax(axis=1)
        return [f"band {peak}" if waves is None else f"{waves[peak]:g}" for peak in peaks]

    def __repr__(self) -> str:
        lines = [f"{len(self.endmembers)} materials, relative error {self.relative_error:.3g}"]
        for j, at in enumerate(self.brightest):
            lines.append(f"{j + 1:>3}  {self.share[j]:>6.1%}  pixel {self.anchors[j]}, brightest at {at}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return str(opener("notebook form")(self))


def check_unmixing(result: object) -> None:
    """Raise unless ``result`` is that of :func:`unmix`."""
    if not isinstance(result, Unmixing):
        raise InvalidTypeError(f"result must be that of fa.apps.unmix, got {type(result).__name__}")


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
    """Estimate the ``k`` materials of a scene under the linear mixing model, robust to dark pixels and outliers.

    Parameters
    ----------
    scene
        Height × width × bands array, pixels × bands array (masked ones too), an image of ``spectral.open_image``, an
        xarray ``DataArray``, the path of a file, or a :class:`Cube` (see :func:`read_cube`). The rows of a
        ``DataArray`` with two axes are pixels too; it is refused if its first axis is named as one of bands, or its
        second as x or y, unless ``bands`` is given.
    k
        Number of materials; :func:`material_curve` helps to choose it.
    shape
        For pixels × bands: the size (height, width) of the image.
    bands
        Which axis of an array or file holds the bands: ``"first"``, ``"middle"`` or ``"last"``; by default the last, or
        the one the file states.
    order
        For pixels × bands: whether the pixels run along the rows of the image (``"C"``, the default except for ``.mat``
        files) or down its columns (``"F"``, MATLAB's order). Another order than that of an image is refused.
    share
        The fraction of the pixels, between 0 and 1, that are averaged to estimate a material. By default 1/(4·k), a
        quarter of the equal share of a material (about 8 % for three materials), or less if that explains the pixels
        better. A smaller share finds rarer materials, a larger one averages out more noise. At least one pixel is used.
    nodata
        The stored value that marks missing data, instead of the one in the header; NaN for none. Pixels that have it,
        NaN or 0 in all bands are empty; those that have it or NaN in some are incomplete. Both are excluded.
    mask
        Height × width or one per pixel: pixels where it is 0 or False are excluded.
    drop_bands
        Indices of bands to exclude, in addition to those that the header marks as bad.
    clip
        Set negative values, which atmospheric correction can produce, to zero instead of rejecting them. Pixels
        without a positive value are empty.
    keep_outliers
        Let outlier pixels represent a material too.
    method
        ``"auto"``, or ``"groups"`` to skip steps 2 and 7 below.
    selection
        The rule that selects materials, as for :class:`fastanchors.FAS`: ``"auto"`` runs the steps below. The others
        are for comparison and replace steps 2 to 7: ``"spa"`` takes the pixels that plain SPA selects, unchanged;
        ``"smoothed"``, ``"smoothed-one"``, ``"pseudo-points"``, ``"lifted"`` and ``"whitened"`` take vertices by these
        rules of the engine (:mod:`fastanchors.greedy.selection`), with the median brightness of the pixels near them.
    shadow
        Add a shadow, a spectrum of zeros, as an additional vertex: the abundances of a pixel sum to its lit fraction,
        and ``result.shadow`` is the rest. A pixel in half the light of its material is then half shadow. Without this
        option it is explained by darker materials.
    out
        Pixels × k array of floats to write the abundances to, such as a memory map.

    Notes
    -----
    The steps and their reasons:

    1. Instrument errors are set aside and not used in steps 2 to 7: pixels with a spike in a band; pixels that share a
       direction of the data with fewer than three others; bands that form a direction alone, have most of the spikes,
       or five times the noise of the median band; and columns of the image that differ from their neighbours along
       their whole length (:mod:`fastanchors.apps._spikes`, :mod:`fastanchors.apps._outliers`,
       :mod:`fastanchors.apps._columns`).
    2. The noise-aware engine (:mod:`fastanchors.greedy.anchoring`) estimates the k vertices that explain all pixels as
       mixtures with noise. They become the spectra (``method="vertices"``), with the median brightness of the pixels
       nearest to them, if the residual of k − 1 directions is white noise, at most 2 % of the pixels are unexplained,
       and they explain the pixels better than the spectra of steps 3 to 6. Otherwise, which is usual if the spectra
       of a material vary, the spectra are those of steps 3 to 7 (``method="refined"``).
    3. Pixels are divided by their l1 norm, so that a material in shade and in light is one point. Noise does not shrink
       with the light: if scaled up fully, the darkest pixels would be extreme in many directions. So brightness is
       divided out only down to a tenth of the median; darker pixels stay short and are not selected.
    4. Spectra are projected on the leading k singular directions, which contain the mixtures; noise orthogonal to them
       is removed. The directions are computed from the pixels scaled to at most unit l1 norm. Dark pixels are not
       scaled up for this, so that their noise does not determine the directions.
    5. Smoothed SPA (:mod:`fastanchors.greedy.selection`) selects k groups of pixels whose means are extreme. Groups of
       several sizes are tried, on the pixels scaled as in step 3 and unscaled. The set of groups with the smallest
       residual is taken. Pixels that lie farther outside the simplex of the means than its least height may be a rare
       material; they are tried in place of each group (:mod:`fastanchors.apps._groups`). Pixels without a group's
       material are removed from it.
    6. A material's spectrum is the median, band by band, of the group's unscaled pixels, so outliers in the group do
       not affect it. Its anchor is the pixel of the group nearest to the group's mean.
    7. One round of least squares over all pixels refines the spectra, which matters if no pixel is pure. Vertices and
       refined spectra are then rescaled so that the shares in mixtures sum to one, unless such mixtures explain the
       pixels clearly worse.
    8. Abundances are the least-squares solution that is non-negative and sums to one, as in :func:`fastanchors.encode`.

    For a scene with more than 131,072 pixels, steps 1 to 7 use a sample of that many, drawn evenly with a fixed seed.
    Groups are shares of the pixels, so the sample contains them too. Only outliers in the sample are then listed.

    Cost: three passes over the scene, including the encoding; five over the pixels searched (three more for each round
    in which outliers are found), and k·(16 + 2·k) over k numbers of each. Memory: the pixels searched, about 4·k
    numbers for each, and the abundances, or no more than 1 GB with ``out`` on disk.

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
    check_flag(clip, name="clip")
    check_flag(keep_outliers, name="keep_outliers")
    check_choice(method, ("auto", "groups"), name="method")
    rule = check_selection(selection)
    if rule != "auto" and method != "auto":
        raise InvalidInputError(f"method={method!r} is for selection='auto'; with selection={rule!r} remove it")
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
    """Determine the part of a scene that is data; the options are those of :func:`unmix`."""
    if isinstance(scene, str | os.PathLike):
        scene = read_cube(scene, shape=shape, bands=bands, order=order)
        shape = bands = order = None
    cube = _with_nodata(as_cube(scene, shape=shape, bands=bands, order=order), nodata)
    if cube.source.is_library:
        raise InvalidInputError(
            f"{cube.name} is a spectral library, not a scene: its spectra are materials already, of no image. Find "
            "those that make up the others with fa.seek, or write the pixels of a scene in them with fa.encode"
        )
    dropped = None if drop_bands is None else check_bands(drop_bands, cube.size[1])
    check_flag(clip, name="clip")
    return usable(cube, mask=None if mask is None else fit_mask(mask, cube), dropped=dropped, clip=clip)


def check_bands(bands: Any, count: int) -> NDArray[np.intp]:
    """Validate indices of bands."""
    at = np.atleast_1d(as_array(bands, "drop_bands"))
    if at.size and (at.dtype.kind not in "iu" or at.ndim != 1):
        raise InvalidInputError("drop_bands must be a list of whole numbers")
    wrong = at[(at < 0) | (at >= count)]
    if wrong.size:
        raise InvalidInputError(f"there is no band {wrong[0]} to leave out; the scene has bands 0 to {count - 1}")
    return at.astype(np.intp)


def _with_nodata(cube: Cube, nodata: float | None) -> Cube:
    return cube if nodata is None else replace(cube, info=replace(cube.info, ignore=_as_number(nodata)))


def _as_number(nodata: Any) -> float:
    if isinstance(nodata, (bool, np.bool_)) or not isinstance(nodata, (int, float, np.integer, np.floating)):
        raise InvalidTypeError(f"nodata must be a number, got {nodata!r}")
    try:
        return float(nodata)
    except OverflowError:
        raise InvalidInputError("nodata is an integer that no data can hold; pass the value in the data") from None


def sample_pixels(held: NDArray[np.bool_], most: int) -> NDArray[np.intp]:
    """All pixels that are held, or ``most`` of them drawn uniformly with a fixed seed; in increasing order."""
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
