"""Noisy matrices with known components: the families of ``right.py``, and scenes with known materials.

A family is a function ``seed -> (rows, components)``. ``DEVELOPMENT`` names the families on which the default was
chosen, with seeds 100 and above; all others were only reported.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
from scipy.ndimage import gaussian_filter

import fastanchors as fa

Data = tuple[Any, np.ndarray]
Maker = Callable[[int], Data]

ROWS, COLUMNS, K, ALPHA = 3_000, 300, 6, 0.3
UNEQUAL = (3.0, 1.0, 0.3, 0.1, 0.1, 0.05)  # shares of components in rows: from two thirds to one in a hundred

SCENES = ("samson", "moffett", "urban", "apex", "wdc", "sim1", "sim2", "f1", "toy6")

DEVELOPMENT = (
    "no noise",
    "Gaussian 0.3",
    "Gaussian 1",
    "counts 3,000",
    "counts 500",
    "outliers 0.7 %, foreign",
    "rare, 10 copies",
    "Dirichlet 1",
    "k = 10",
    "k = 30",  # showed that means of neighbours are a poor start for many anchors
    "condition 10",
    "Dirichlet 2",
    "k = 20",
    "condition 300",
    "condition 3000",
    "scene samson",
    "scene moffett",
    "scene urban",
    "scene apex",
    "scene sim1",
    "scene toy6",
)


def mixtures(
    seed: int,
    *,
    k: int = K,
    alpha: float = ALPHA,
    copies: int = 1,
    largest: float = 1.0,
    condition: float | None = None,
    shares: tuple[float, ...] | None = None,
) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    """Noise-free rows with mean sum 1: ``copies`` of each component, then Dirichlet mixtures.

    Components are equally frequent, or as frequent as ``shares``.
    """
    rng = np.random.default_rng([seed, 2024])
    H = rng.gamma(0.3, size=(k, COLUMNS)) + 1e-6
    if condition is not None:
        U, s, V = np.linalg.svd(H, full_matrices=False)
        H = np.abs(U * np.geomspace(1.0, 1.0 / condition, k) @ V) * s[0]
    H /= H.sum(axis=1, keepdims=True)
    W = rng.dirichlet(np.full(k, alpha) if shares is None else alpha * np.array(shares), ROWS)
    over = W.max(axis=1) > largest
    W[over] = largest * W[over] + (1 - largest) / k
    W[: k * copies] = np.tile(np.eye(k), (copies, 1))
    return rng.permutation(W) @ H, H, rng


def gaussian(seed: int, level: float, **options: Any) -> Data:
    """Gaussian noise of ``level`` times the mean entry, clipped at zero."""
    X, H, rng = mixtures(seed, **options)
    return np.maximum(X + level * X.mean() * rng.standard_normal(X.shape), 0.0), H


def counts(seed: int, depth: float, spread: float = 0.5, **options: Any) -> Data:
    """Poisson counts with log-normal depth, ``depth`` per row."""
    X, H, rng = mixtures(seed, **options)
    drawn = rng.poisson(X * depth * rng.lognormal(0.0, spread, (len(X), 1))).astype(np.float64)
    return drawn[drawn.sum(axis=1) > 0], H


def multiplicative(seed: int, level: float) -> Data:
    X, H, rng = mixtures(seed)
    return X * rng.lognormal(0.0, level, X.shape), H


def outliers(seed: int, part: float, kind: str) -> Data:
    """A few outliers: foreign spectra, spikes, or dark rows that are mostly noise; little noise elsewhere."""
    X, H, rng = mixtures(seed)
    which = rng.choice(len(X), max(1, round(part * len(X))), replace=False)
    if kind == "foreign":
        X[which] = rng.dirichlet(np.full(COLUMNS, 0.05), len(which))
    elif kind == "spikes":
        X[which, rng.integers(COLUMNS, size=len(which))] += rng.uniform(1, 5, len(which))
    else:
        X[which] *= 0.02
    return np.maximum(X + 0.1 * X.mean() * rng.standard_normal(X.shape), 0.0), H


def documents(seed: int, length: float) -> Data:
    corpus = fa.datasets.topics(3_000, 1_000, 10, length=length, alpha=0.1, rng=seed)
    A = corpus.A
    return A[np.flatnonzero(np.asarray(A.sum(axis=1)).reshape(-1) > 0)], corpus.topics


def cells(seed: int) -> Data:
    """Counts of 3,000 cells in 2,000 genes, with log-normal depth."""
    rng = np.random.default_rng([seed, 7])
    H = rng.gamma(0.3, size=(6, 2_000)) + 1e-6
    H /= H.sum(axis=1, keepdims=True)
    W = rng.dirichlet(np.full(6, 0.3), 3_000)
    W[:6] = np.eye(6)
    drawn = rng.poisson(W @ H * 2_000 * rng.lognormal(0.0, 1.0, (3_000, 1))).astype(np.float64)
    return drawn[drawn.sum(axis=1) > 0], H


def families() -> dict[str, Maker]:
    chosen: dict[str, Maker] = {"no noise": partial(gaussian, level=0.0)}
    for level in (0.1, 0.3, 1.0, 3.0):
        chosen[f"Gaussian {level:g}"] = partial(gaussian, level=level)
    for depth in (300, 500, 3_000, 30_000):
        chosen[f"counts {depth:,}"] = partial(counts, depth=depth)
    chosen["counts of cells"] = cells
    for level in (0.3, 1.0):
        chosen[f"multiplicative {level:g}"] = partial(multiplicative, level=level)
    for part in (0.001, 0.007, 0.05):
        for kind in ("foreign", "spikes", "dark"):
            chosen[f"outliers {100 * part:g} %, {kind}"] = partial(outliers, part=part, kind=kind)
    for copies, name in ((1, "1 copy"), (10, "10 copies"), (30, "1 %")):
        chosen[f"rare, {name}"] = partial(gaussian, level=0.3, alpha=1.0, largest=0.7, copies=copies)
    for alpha in (0.1, 1.0, 3.0):
        chosen[f"Dirichlet {alpha:g}"] = partial(gaussian, level=0.3, alpha=alpha, copies=30)
    for k in (3, 10, 30):
        chosen[f"k = {k}"] = partial(gaussian, level=0.3, k=k)
    for condition in (10, 100, 1000):
        chosen[f"condition {condition}"] = partial(gaussian, level=0.1, condition=condition)
    for length in (100, 1_000):
        chosen[f"documents of {length} words"] = partial(documents, length=length)
    for depth in (500, 2_000):
        chosen[f"unequal counts {depth:,}"] = partial(counts, depth=depth, shares=UNEQUAL)
    chosen["unequal, Gaussian 0.1"] = partial(gaussian, level=0.1, shares=UNEQUAL)
    return chosen | variants()


def variants() -> dict[str, Maker]:
    """Variants of the reported families, used to choose constants instead of them."""
    return {
        "Dirichlet 2": partial(gaussian, level=0.3, alpha=2.0, copies=30),
        "k = 20": partial(gaussian, level=0.3, k=20),
        "condition 300": partial(gaussian, level=0.1, condition=300),
        "condition 3000": partial(gaussian, level=0.1, condition=3000),
    }


def scenes(folder: Path) -> dict[str, Maker]:
    return {f"scene {name}": partial(scene, name=name, folder=folder) for name in SCENES}


def scene(seed: int, name: str, folder: Path) -> Data:
    """Pixels and the spectra of their materials. Two scenes are real; others combine true maps and spectra, with noise
    of 30 dB (except toy6). In three of them the brightness of each material varies by a tenth."""

    def read(file: str) -> dict[str, Any]:
        return dict(scipy.io.loadmat(folder / "hyperspectral" / file))

    rng = np.random.default_rng(seed)
    if name in ("samson", "moffett"):
        found = read("Samson.mat" if name == "samson" else "moffett.mat")
        pixels, spectra = found["Y"].T, found["GT"]
    elif name == "toy6":
        found = read("sim/zy_toy_image.mat")
        pixels, spectra = found["I"].reshape(-1, 200), found["R_gt"]
    elif name in ("sim1", "sim2"):
        stem = f"sim/misic_{name.title()}_"
        spectra = read(stem + "E.mat")["E"].T
        pixels = with_noise(read(stem + "Y_clean.mat")["Y_clean"].reshape(-1, spectra.shape[1]), rng)
    elif name == "f1":
        spectra = read("sim/F1_A_9.mat")["A"].T
        pixels = with_noise(read("sim/F1_S_9.mat")["S"].reshape(-1, 9) @ spectra, rng)
    else:
        if name == "urban":
            urban = read("sim/mcc_Urban.mat")["Urban"][0, 0]
            spectra, maps = urban["lib"].T, urban["Xtrue"].T.reshape(256, 256, -1)
        else:
            stem = f"sim/misic_{'WDC' if name == 'wdc' else 'Apex'}_"
            spectra, maps = read(stem + "E.mat")["E"].T, read(stem + "A_true.mat")["A_true"].clip(0)
        light = np.stack([gaussian_filter(rng.standard_normal(maps.shape[:2]), 4) for _ in spectra], axis=-1)
        varied = maps * np.clip(1 + 0.1 * light / light.std(axis=(0, 1)), 0.7, 1.3)
        pixels = with_noise(varied.reshape(-1, len(spectra)) @ spectra, rng)
    pixels = np.maximum(np.asarray(pixels, dtype=np.float64), 0.0)
    return pixels[pixels.sum(axis=1) > 0], np.asarray(spectra, dtype=np.float64)


def with_noise(pixels: np.ndarray, rng: np.random.Generator, decibel: float = 30.0) -> np.ndarray:
    level = np.sqrt(np.mean(pixels**2) / 10 ** (decibel / 10))
    return pixels + level * rng.standard_normal(pixels.shape)
