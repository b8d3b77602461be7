"""Synthetic hyperspectral scenes: smooth spectra, smooth maps of materials, and disturbances of real scenes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from .._equality import ComparedByValue
from .._rng import RngLike, as_generator
from .._validate import check_memory, check_number, check_size
from ..errors import InvalidInputError
from ._disturbances import bad_columns as spoil_columns
from ._disturbances import dim, rare_weights, shore_pixels, spiky_bands

__all__ = ["Scene", "hyperspectral"]

_SHORE = 0.2  # brightness of the dark shore, relative to the median
_SHADE = (0.3, 1.0)  # range of the light in the shade


@dataclass(frozen=True, eq=False)
class Scene(ComparedByValue):
    """A scene whose pixels are mixtures of known materials.

    Attributes
    ----------
    A
        Pixels × bands, row-major order of pixels, non-negative.
    components
        k × bands, the spectra of the materials.
    weights
        Pixels × k, the abundances; rows on the simplex.
    labels
        For each pixel its material if it is pure, −1 for a mixture, a dark pixel or an outlier.
    anchors
        For each material its first pure pixel.
    dark
        Indices of the dark pixels.
    outliers
        Indices of the pixels that are not mixtures of the materials.
    height, width
        Size of the image.
    shore, shaded
        Indices of the pixels of the dark shore, and of those in shade.
    spiky_bands, bad_columns
        Bands with heavy-tailed noise; columns of the image with another gain in half of the bands.

    Examples
    --------
    >>> import fastanchors as fa
    >>> made = fa.datasets.hyperspectral(12, 10, 30, 3, rng=0)
    >>> made.A.shape, made.height, made.width
    ((120, 30), 12, 10)
    """

    A: NDArray[np.float64]
    components: NDArray[np.float64]
    weights: NDArray[np.float64]
    labels: NDArray[np.int32]
    anchors: NDArray[np.intp]
    dark: NDArray[np.intp]
    outliers: NDArray[np.intp]
    height: int
    width: int
    shore: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    shaded: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    spiky_bands: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    bad_columns: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, dtype=np.intp))

    @property
    def cube(self) -> NDArray[np.float64]:
        """The data as height × width × bands."""
        return self.A.reshape(self.height, self.width, -1)

    @property
    def maps(self) -> NDArray[np.float64]:
        """The abundances as height × width × k."""
        return self.weights.reshape(self.height, self.width, -1)


def hyperspectral(
    height: int = 60,
    width: int = 60,
    bands: int = 150,
    k: int = 4,
    *,
    pure: int = 3,
    snr: float | None = 40.0,
    dark: int = 0,
    outliers: int = 0,
    smoothness: float = 0.06,
    spiky_gaps: int = 0,
    shore: float = 0.0,
    shade: float = 0.0,
    rare: float | None = None,
    bad_columns: int = 0,
    rng: RngLike = None,
) -> Scene:
    """A scene of ``k`` materials under the linear mixing model, with optional disturbances.

    Spectra are a sloping base plus a few Gaussian bumps, between 0 and 1; abundances are a softmax of smooth random
    fields, so neighbouring pixels are similar.

    Parameters
    ----------
    height, width, bands, k
        Size of the image, numbers of bands and materials.
    pure
        Number of pure pixels of each material (those with most of it).
    snr
        Signal-to-noise ratio in dB of the Gaussian noise, clipped at zero; None for no noise.
    dark
        Number of pixels with 1 to 5 % of the light; after l1 scaling their noise makes them extreme.
    outliers
        Number of pixels with a few bands that are far too high, as from glint or dead detectors.
    smoothness
        Correlation length of the maps, relative to the longer side of the image.
    spiky_gaps
        Number of gaps of removed bands (for example water vapour); the three bands on each side of a gap have
        heavy-tailed noise of a tenth of their mean.
    shore
        Fraction of the pixels that are a dark shore: mixtures at the boundary of the most common material, with a fifth
        of the median brightness.
    shade
        Fraction of the pixels that have 30 to 100 % of the light.
    rare
        Fraction of the pixels that have any of the last material, such as 0.005.
    bad_columns
        Number of columns of the image with another gain (0.7 or 1.3) in half of the bands.
    rng
        A ``numpy.random.Generator``, an int seed or None.

    Examples
    --------
    >>> import fastanchors as fa
    >>> scene = fa.datasets.hyperspectral(40, 40, 60, 3, spiky_gaps=2, shore=0.03, rare=0.005, rng=0)
    >>> len(scene.shore), len(scene.spiky_bands), int((scene.weights[:, 2] > 0).sum())
    (48, 12, 8)
    """
    height, width, bands, k, pure = (
        check_size(value, name=name)
        for value, name in ((height, "height"), (width, "width"), (bands, "bands"), (k, "k"), (pure, "pure"))
    )
    dark, outliers, spiky_gaps, bad_columns = (
        check_size(value, name=name, minimum=0)
        for value, name in (
            (dark, "dark"),
            (outliers, "outliers"),
            (spiky_gaps, "spiky_gaps"),
            (bad_columns, "bad_columns"),
        )
    )
    shore = check_number(shore, name="shore", minimum=0.0, maximum=1.0)
    shade = check_number(shade, name="shade", minimum=0.0, maximum=1.0)
    smoothness = check_number(smoothness, name="smoothness", minimum=0.0, maximum=100.0)
    pixels = height * width
    if k * pure + dark + outliers > pixels:
        raise InvalidInputError(
            f"{k}·{pure} pure, {dark} dark and {outliers} outlier pixels do not fit into {pixels}; enlarge the scene"
        )
    if spiky_gaps > bands:
        raise InvalidInputError(f"spiky_gaps is {spiky_gaps}, but there are {bands} bands")
    if rare is not None and k < 2:
        raise InvalidInputError("rare needs another material in the other pixels: choose k of 2 or more")
    if bad_columns > width:
        raise InvalidInputError(f"bad_columns is {bad_columns}, but the image is {width} columns wide")
    size = 16 * (pixels + k) * (bands + k)
    check_memory(size, f"a scene of {height:,} × {width:,} pixels and {bands:,} bands", "use a smaller one")
    rng = as_generator(rng)
    spectra = _smooth_spectra(k, bands, rng)
    weights = _smooth_maps(height, width, k, smoothness * max(height, width), rng)
    if rare is not None:
        weights = rare_weights(weights, check_number(rare, name="rare", minimum=0.0, maximum=1.0), k - 1)
    labels = _make_pure(weights, pure)
    A = weights @ spectra
    clean_power = np.mean(A**2)
    dark_pixels, outlier_pixels = _add_outliers(A, np.flatnonzero(labels < 0), dark, outliers, rng)
    shore_at = np.setdiff1d(shore_pixels(weights, round(shore * pixels)), [*dark_pixels, *outlier_pixels])
    labels[shore_at] = -1
    A = dim(A, shore_at, np.full(shore_at.size, _SHORE))
    shaded = np.sort(rng.choice(pixels, round(shade * pixels), replace=False)) if shade else np.zeros(0, dtype=np.intp)
    A[shaded] *= rng.uniform(*_SHADE, (shaded.size, 1))
    if snr is not None:
        size = np.sqrt(clean_power * 10.0 ** (-check_number(snr, name="snr", minimum=-300.0) / 10.0))
        A = np.maximum(A + size * rng.standard_normal(A.shape), 0.0)
    spiky = columns = np.zeros(0, dtype=np.intp)
    if spiky_gaps:
        A, spiky = spiky_bands(A, spiky_gaps, rng)
    if bad_columns:
        A, columns = spoil_columns(A, width, bad_columns, rng)
    anchors = np.array([np.argmax(labels == material) for material in range(k)], dtype=np.intp)
    return Scene(
        A=A,
        components=spectra,
        weights=weights,
        labels=labels,
        anchors=anchors,
        dark=dark_pixels,
        outliers=outlier_pixels,
        height=height,
        width=width,
        shore=shore_at,
        shaded=shaded,
        spiky_bands=spiky,
        bad_columns=columns,
    )


def _add_outliers(
    A: NDArray[np.float64], mixed: NDArray[np.intp], dark: int, outliers: int, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Make some of the ``mixed`` pixels dark, and others outliers with three bands that are too high, in place."""
    bands = A.shape[1]
    chosen = rng.permutation(mixed)[: dark + outliers]
    dark_pixels, outlier_pixels = np.sort(chosen[:dark]), np.sort(chosen[dark:])
    A[dark_pixels] *= rng.uniform(0.01, 0.05, (dark, 1))
    spiked = np.argpartition(rng.random((outliers, bands)), min(3, bands) - 1, axis=1)[:, :3]
    A[outlier_pixels[:, None], spiked] += rng.uniform(1.0, 3.0, spiked.shape)
    return dark_pixels, outlier_pixels


def _make_pure(weights: NDArray[np.float64], pure: int) -> NDArray[np.int32]:
    """Make the pixels with most of each material pure, in place; returns the material of each, -1 for a mixture."""
    k = weights.shape[1]
    labels = np.full(len(weights), -1, dtype=np.int32)
    for material in range(k):
        richest = np.argsort(np.where(labels < 0, -weights[:, material], np.inf), kind="stable")[:pure]
        labels[richest] = material
    weights[labels >= 0] = np.eye(k)[labels[labels >= 0]]
    return labels


def _smooth_spectra(k: int, bands: int, rng: np.random.Generator) -> NDArray[np.float64]:
    x = np.linspace(0.0, 1.0, bands)
    spectra = 0.1 + 0.3 * rng.random((k, 1)) + 0.2 * (rng.random((k, 1)) - 0.5) * x
    for _ in range(4):
        centre, spread = rng.random((k, 1)), 0.03 + 0.15 * rng.random((k, 1))
        spectra += 0.5 * rng.random((k, 1)) * np.exp(-(((x - centre) / spread) ** 2) / 2)
    return np.asarray(np.clip(spectra, 0.0, None) / max(1.0, spectra.max()))


def _smooth_maps(height: int, width: int, k: int, sigma: float, rng: np.random.Generator) -> NDArray[np.float64]:
    fields = np.stack(
        [gaussian_filter(rng.standard_normal((height, width)), sigma, mode="wrap") for _ in range(k)], axis=-1
    )
    fields = fields.reshape(-1, k)
    fields *= 3.0 / np.maximum(fields.std(axis=0), 1e-12)
    weights = np.exp(fields - fields.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
