"""Scenes with known materials: two real, seven made from true spectra and maps; crops of them, and realistic defects.

Samson and Moffett are real. Urban, Apex and Washington DC are made from their known spectra and maps, with a
smooth brightness variation of ±10 % per material. The others come from published simulations. All made scenes except
toy6 get Gaussian noise of 30 dB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import loadmat
from scipy.ndimage import gaussian_filter

from fastanchors.datasets._disturbances import bad_columns, dim, shore_pixels, spiky_bands

SCENES = ("samson", "moffett", "urban", "apex", "wdc", "sim1", "sim2", "f1", "toy6")
_LARGEST_CROP = 20_000


@dataclass(frozen=True)
class TrueScene:
    """Pixels × bands, true spectra (k × bands), true shares (pixels × k), image of pixel indices (or None)."""

    X: np.ndarray
    spectra: np.ndarray
    shares: np.ndarray
    at: np.ndarray | None

    def only(self, pixels: np.ndarray) -> TrueScene:
        """A subset of the pixels; two-dimensional indices (height × width) keep it an image."""
        at = np.arange(pixels.size).reshape(pixels.shape) if pixels.ndim == 2 else None
        return replace(self, X=self.X[pixels.ravel()], shares=self.shares[pixels.ravel()], at=at)

    def image(self) -> np.ndarray:
        """Height × width × bands if the pixels form an image, else pixels × bands."""
        return self.X if self.at is None else self.X[self.at]

    def purest(self) -> np.ndarray:
        """Medians of the truly purest 1/(8·k) of the pixels: the best that averaging this many could reach."""
        k = len(self.spectra)
        count = max(1, -(-len(self.X) // (8 * k)))
        order = np.argsort(-self.shares, axis=0, kind="stable")[:count]
        return np.array([np.median(self.X[order[:, j]], axis=0) for j in range(k)])


def load(name: str, folder: Path) -> TrueScene:
    def read(file: str) -> Any:
        return loadmat(folder / file)

    order = "C"
    if name in ("samson", "moffett"):
        stored = read({"samson": "Samson.mat", "moffett": "moffett.mat"}[name])
        spectra, shape, order = stored["GT"].astype(float), stored["S_GT"].shape[:2], "F"
        shares = stored["S_GT"].reshape(-1, len(spectra), order="F").astype(float)
        X = stored["Y"].T.astype(float)
    elif name == "toy6":
        stored, shape = read("sim/zy_toy_image.mat"), (40, 40)
        X, spectra, shares = stored["I"].reshape(-1, 200), stored["R_gt"], stored["A_gt"].reshape(-1, 6).clip(0)
    elif name in ("sim1", "sim2"):
        file, shape = f"sim/misic_{name.title()}_", (105, 105)
        X = _noisy(read(file + "Y_clean.mat")["Y_clean"].reshape(-1, 224))
        spectra, shares = read(file + "E.mat")["E"].T, read(file + "A_true.mat")["A_true"].reshape(-1, 6)
    elif name == "f1":
        maps, spectra = read("sim/F1_S_9.mat")["S"], read("sim/F1_A_9.mat")["A"].T
        shape, shares = maps.shape[:2], maps.reshape(-1, 9)
        X = _noisy(shares @ spectra)
    else:
        if name == "urban":
            stored = read("sim/mcc_Urban.mat")["Urban"][0, 0]
            spectra, shares, shape = stored["lib"].T, stored["Xtrue"].T, (256, 256)
        else:
            file = f"sim/misic_{'WDC' if name == 'wdc' else name.title()}_"
            spectra, maps = read(file + "E.mat")["E"].T, read(file + "A_true.mat")["A_true"]
            shape, shares = maps.shape[:2], maps.reshape(-1, len(spectra)).clip(0)
        rng = np.random.default_rng(0)
        light = np.stack([gaussian_filter(rng.normal(size=shape), 4).ravel() for _ in spectra], -1)
        X = _noisy((shares * np.clip(1 + 0.1 * light / light.std(0), 0.7, 1.3)) @ spectra)
    return TrueScene(np.maximum(X, 0.0), spectra, shares, np.arange(len(X)).reshape(shape, order=order))


def _noisy(X: np.ndarray) -> np.ndarray:
    size = np.sqrt((X**2).mean() / 1000)
    return np.maximum(X + np.random.default_rng(1).normal(0, size, X.shape), 0)


def crops(scene: TrueScene, count: int) -> Iterator[TrueScene]:
    """Random crops of 65 % of the image; large crops are subsampled to 20,000 pixels."""
    rng = np.random.default_rng(0)
    height, width = scene.at.shape
    h, w = (int(np.ceil(size * np.sqrt(0.65))) for size in (height, width))
    for _ in range(count):
        top, left = rng.integers(height - h + 1), rng.integers(width - w + 1)
        pixels = scene.at[top : top + h, left : left + w]
        if pixels.size > _LARGEST_CROP:
            pixels = np.sort(rng.choice(pixels.ravel(), _LARGEST_CROP, replace=False))
        yield scene.only(pixels)


def altered(scene: TrueScene, seed: int) -> TrueScene:
    """A crop of 64 % of the image as another instrument might see it: in turn unchanged, with other gains of the bands,
    with half of the bands, and with noise of 2 % of the mean."""
    rng = np.random.default_rng(seed)
    height, width = scene.at.shape
    h, w = int(0.8 * height), int(0.8 * width)
    top, left = rng.integers(height - h + 1), rng.integers(width - w + 1)
    crop = scene.only(scene.at[top : top + h, left : left + w])
    X, spectra, bands = crop.X, crop.spectra, scene.X.shape[1]
    if seed % 4 == 1:
        gains = np.exp(0.5 * np.interp(np.linspace(0, 1, bands), np.linspace(0, 1, 6), rng.normal(size=6)))
        X, spectra = X * gains, spectra * gains
    elif seed % 4 == 2:
        half = slice(first := rng.integers(0, bands // 2), first + bands // 2)
        X, spectra = X[:, half], spectra[:, half]
    elif seed % 4 == 3:
        X = np.maximum(X + rng.normal(0, 0.02 * X.mean(), X.shape), 0)
    return replace(crop, X=X, spectra=spectra)


def _hot_pixels(scene: TrueScene, rng: np.random.Generator) -> TrueScene:
    X = scene.X.copy()
    some = rng.choice(len(X), len(X) // 25, replace=False)
    X[some, rng.integers(0, X.shape[1], some.size)] = 5 * X.max()
    return replace(scene, X=X)


def _hot_column(scene: TrueScene, rng: np.random.Generator) -> TrueScene:
    X = scene.X.copy()
    X[scene.at[:, scene.at.shape[1] // 2], X.shape[1] // 3] = 5 * X.max()
    return replace(scene, X=X)


def _spiky_bands(scene: TrueScene, rng: np.random.Generator) -> TrueScene:
    return replace(scene, X=spiky_bands(scene.X, 2, rng)[0])


def _dark_shore(scene: TrueScene, rng: np.random.Generator) -> TrueScene:
    """Dim 3 % of the pixels, all mixtures, to about a fifth of the median brightness; noise of 1 % of the mean."""
    pixels = shore_pixels(scene.shares, int(0.03 * len(scene.X)))
    return _noise_again(scene, dim(scene.X, pixels, rng.uniform(0.15, 0.25, pixels.size)), pixels, rng)


def _shade(scene: TrueScene, rng: np.random.Generator) -> TrueScene:
    """Dim a fifth of the pixels to 30–100 % of the light; noise of 1 % of the mean."""
    X, pixels = scene.X.copy(), rng.choice(len(scene.X), len(scene.X) // 5, replace=False)
    X[pixels] *= rng.uniform(0.3, 1.0, (pixels.size, 1))
    return _noise_again(scene, X, pixels, rng)


def _noise_again(scene: TrueScene, X: np.ndarray, pixels: np.ndarray, rng: np.random.Generator) -> TrueScene:
    """Restore the noise that dimming removed from those pixels."""
    noise = 0.01 * scene.X.mean() * rng.standard_normal((pixels.size, X.shape[1]))
    X[pixels] = np.maximum(X[pixels] + noise, 0)
    return replace(scene, X=X)


def _rare(scene: TrueScene, rng: np.random.Generator) -> TrueScene:
    """Remove pixels with more than 5 % of the rarest material until 0.5 % are left."""
    has = scene.shares[:, np.argmin(scene.shares.mean(axis=0))] > 0.05
    without = np.flatnonzero(~has)
    kept = rng.choice(np.flatnonzero(has), min(int(has.sum()), max(8, int(0.005 * without.size))), replace=False)
    return scene.only(np.sort(np.concatenate([without, kept])))


def _bad_columns(scene: TrueScene, rng: np.random.Generator) -> TrueScene:
    width = scene.at.shape[1]
    column_of = np.empty(len(scene.X), dtype=np.intp)
    column_of[scene.at] = np.arange(width)
    return replace(scene, X=bad_columns(scene.X, width, 2, rng, column_of)[0])


SPOILED: dict[str, Callable[[TrueScene, np.random.Generator], TrueScene]] = {
    "as it is": lambda scene, rng: scene,
    "4 % of pixels hot": _hot_pixels,
    "a column hot": _hot_column,
    "spiky bands": _spiky_bands,
    "dark shore": _dark_shore,
    "shade": _shade,
    "rare material": _rare,
    "bad columns": _bad_columns,
}
