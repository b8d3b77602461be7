"""Hyperspectral-like scenes: smooth spectra, smooth maps of materials, and what real scenes suffer from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from .._rng import RngLike, as_generator
from .._validate import check_number, check_size
from ..errors import InvalidInputError

__all__ = ["Scene", "hyperspectral"]


@dataclass(frozen=True)
class Scene:
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
        For each pixel the material it consists of wholly, −1 for a mixture, a dark or an odd pixel.
    anchors
        For each material its first pure pixel.
    dark
        Indices of the badly lit pixels.
    outliers
        Indices of the pixels that are no mixture of the materials.
    height, width
        Size of the image.
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
    rng: RngLike = None,
) -> Scene:
    """A scene of ``k`` materials under the linear mixing model.

    Spectra are a sloping base and a few Gaussian bumps between 0 and 1; abundances are a softmax of smooth random
    fields, so that neighbours resemble each other.

    Parameters
    ----------
    pure
        Pixels of each material (those richest in it) that are made wholly of it.
    snr
        Signal-to-noise ratio in dB of the Gaussian noise, clipped at zero; None for no noise.
    dark
        Pixels with 1 to 5 % of the light: after l1 scaling their noise makes them look extreme.
    outliers
        Pixels with a few bands far too high, as glint or dead detectors give.
    smoothness
        Correlation length of the maps, as a share of the image's longer side.
    """
    height, width, bands, k, pure = (
        check_size(value, name=name)
        for value, name in ((height, "height"), (width, "width"), (bands, "bands"), (k, "k"), (pure, "pure"))
    )
    dark = check_size(dark, name="dark", minimum=0)
    outliers = check_size(outliers, name="outliers", minimum=0)
    smoothness = check_number(smoothness, name="smoothness", minimum=0.0)
    pixels = height * width
    if k * pure + dark + outliers > pixels:
        raise InvalidInputError(
            f"{k}·{pure} pure, {dark} dark and {outliers} odd pixels do not fit into {pixels}; enlarge the scene"
        )
    rng = as_generator(rng)
    spectra = _smooth_spectra(k, bands, rng)
    weights = _smooth_maps(height, width, k, smoothness * max(height, width), rng)
    labels = np.full(pixels, -1, dtype=np.int32)
    for material in range(k):
        richest = np.argsort(np.where(labels < 0, -weights[:, material], np.inf), kind="stable")[:pure]
        labels[richest] = material
    weights[labels >= 0] = np.eye(k)[labels[labels >= 0]]
    A = weights @ spectra
    odd = rng.permutation(np.flatnonzero(labels < 0))[: dark + outliers]
    dark_pixels, odd_pixels = np.sort(odd[:dark]), np.sort(odd[dark:])
    A[dark_pixels] *= rng.uniform(0.01, 0.05, (dark, 1))
    spiked = np.argpartition(rng.random((outliers, bands)), min(3, bands) - 1, axis=1)[:, :3]
    A[odd_pixels[:, None], spiked] += rng.uniform(1.0, 3.0, spiked.shape)
    if snr is not None:
        power = np.mean((weights @ spectra) ** 2)
        A += np.sqrt(power * 10.0 ** (-check_number(snr, name="snr") / 10.0)) * rng.standard_normal(A.shape)
        np.maximum(A, 0.0, out=A)
    anchors = np.array([np.argmax(labels == material) for material in range(k)], dtype=np.intp)
    return Scene(A, spectra, weights, labels, anchors, dark_pixels, odd_pixels, height, width)


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
