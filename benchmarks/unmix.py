"""Unmixing of Samson and Moffett against their truth, beside N-FINDR, PPI, VCA and SPA.

``python benchmarks/unmix.py --data DIR`` reads ``DIR/hyperspectral/{Samson,moffett}.mat``. The peers are written here
from their papers: N-FINDR (Winter 1999), PPI (Boardman, Kruse and Green 1995), VCA (Nascimento and Dias 2005). Random
ones are run with ten seeds; mean and worst are shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

import fastanchors as fa
from _table import Report, arguments

SCENES = {"Samson": "Samson.mat", "Moffett": "moffett.mat"}
SEEDS = 10


def scaled(X: np.ndarray) -> np.ndarray:
    return X / np.maximum(X.sum(axis=1, keepdims=True), 1e-12)


def principal(X: np.ndarray, d: int) -> np.ndarray:
    """Coordinates of the centred rows in the leading d principal directions."""
    centred = X - X.mean(axis=0)
    return centred @ np.linalg.eigh(centred.T @ centred)[1][:, : -d - 1 : -1]


def nfindr(X: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """N-FINDR (Winter, SPIE 3753, 1999): exchange vertices for pixels while the volume of their simplex grows."""
    points = np.column_stack([np.ones(len(X)), principal(X, k - 1)])
    chosen = rng.choice(len(X), k, replace=False)
    volume = abs(np.linalg.det(points[chosen]))
    while True:
        before = volume
        for place in range(k):
            others = np.delete(points[chosen], place, axis=0)
            cofactors = np.array([(-1) ** (place + j) * np.linalg.det(np.delete(others, j, axis=1)) for j in range(k)])
            volumes = np.abs(points @ cofactors)
            best = int(np.argmax(volumes))
            if volumes[best] > volume * (1 + 1e-12):
                chosen[place], volume = best, volumes[best]
        if volume <= before:
            return chosen


def ppi(X: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """PPI (Boardman et al., JPL Airborne Geoscience Workshop 1995): the pixels most often extreme on random directions.

    A pixel close to one already taken (spectral angle below 0.05) is passed over, as an analyst would.
    """
    directions = rng.standard_normal((k - 1 + 3, 1000))
    values = principal(X, k - 1 + 3) @ directions
    hits = np.bincount(np.concatenate([values.argmax(axis=0), values.argmin(axis=0)]), minlength=len(X))
    chosen: list[int] = []
    for pixel in np.argsort(-hits, kind="stable"):
        if not chosen or fa.metrics.spectral_angles(X[[pixel]], X[chosen]).min() > 0.05:
            chosen.append(int(pixel))
        if len(chosen) == k:
            break
    return np.array(chosen)


def vca(X: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """VCA (Nascimento and Dias, IEEE TGRS 2005), for a good signal-to-noise ratio: projective projection, then the
    pixel farthest along a random direction orthogonal to those taken."""
    directions = np.linalg.eigh(X.T @ X)[1][:, : -k - 1 : -1]
    points = X @ directions
    points = points / (points @ points.mean(axis=0))[:, None]
    A = np.zeros((k, k))
    A[-1, 0] = 1.0
    chosen = []
    for i in range(k):
        w = rng.random(k)
        f = w - A @ (np.linalg.pinv(A) @ w)
        chosen.append(int(np.argmax(np.abs(points @ (f / np.linalg.norm(f))))))
        A[:, i] = points[chosen[-1]]
    return np.array(chosen)


def spa(X: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    return fa.SPA().seek(X, k).indices


METHODS: dict[str, tuple[Callable[..., np.ndarray], bool, bool]] = {  # function, l1 scaling first, random
    "SPA, raw pixels": (spa, False, False),
    "SPA, l1-scaled pixels": (spa, True, False),
    "N-FINDR, raw pixels": (nfindr, False, True),
    "N-FINDR, l1-scaled pixels": (nfindr, True, True),
    "PPI, raw pixels": (ppi, False, True),
    "PPI, l1-scaled pixels": (ppi, True, True),
    "VCA": (vca, False, True),
}


def errors_put_in(cube: fa.apps.Cube) -> dict[str, np.ndarray]:
    """The scene with errors of the instrument."""
    rng, X = np.random.default_rng(0), np.asarray(cube.pixels, dtype=float)
    pixels, bands = X.shape
    one, many, column = X.copy(), X.copy(), X.copy()
    one[rng.integers(pixels), rng.integers(bands)] = 20 * X.max()
    some = rng.choice(pixels, pixels // 25, replace=False)
    many[some, rng.integers(0, bands, some.size)] = 5 * X.max()
    column[: cube.shape[0], bands // 3] = 5 * X.max()  # pixels run down the columns
    return {
        "none": X,
        "one band of one pixel, 20 × the maximum": one,
        "one band of each of 4 % of the pixels, 5 × the maximum": many,
        "one band of a whole column, 5 × the maximum": column,
    }


def shapes_only(pixels: np.ndarray, endmembers: np.ndarray) -> np.ndarray:
    """Abundances by Samson's convention: spectra scaled to maximum one, weights to sum one afterwards."""
    weights = fa.encode(pixels, endmembers / endmembers.max(axis=1, keepdims=True))
    return weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-12)


def score(pixels: np.ndarray, spectra: np.ndarray, truth: np.ndarray, endmembers: np.ndarray) -> tuple[float, ...]:
    match = fa.metrics.matched_spectral_angle(spectra, endmembers)
    fully = fa.metrics.abundance_rmse(truth, fa.encode(pixels, endmembers, sum_to_one=True), match=match)
    return match.mean, fully, fa.metrics.abundance_rmse(truth, shapes_only(pixels, endmembers), match=match)


def main() -> None:
    options = arguments(__doc__)
    if options.data is None or not (options.data / "hyperspectral").is_dir():
        print("the scenes are absent; give --data DIR with hyperspectral/Samson.mat and moffett.mat")
        return
    from scipy.io import loadmat

    report = Report("unmix", "Unmixing real scenes", options)
    for name, file in SCENES.items():
        path = options.data / "hyperspectral" / file
        stored, cube = loadmat(path), fa.apps.read_cube(path)
        spectra = stored["GT"].astype(float)
        truth = stored["S_GT"].reshape(-1, len(spectra), order="F").astype(float)
        k, rows = len(spectra), []
        for method, (function, l1, random) in METHODS.items():
            X = scaled(cube.pixels) if l1 else np.asarray(cube.pixels, dtype=float)
            scores, start = [], time.perf_counter()
            runs = (2 if options.quick else SEEDS) if random else 1
            for seed in range(runs):
                chosen = function(X, k, np.random.default_rng(seed))
                scores.append(score(cube.pixels, spectra, truth, cube.pixels[chosen]))
            seconds = (time.perf_counter() - start) / runs
            mean = np.mean(scores, axis=0)
            rows.append((method, mean[0], float(np.max(scores, axis=0)[0]), mean[1], mean[2], seconds))
        start = time.perf_counter()
        result = fa.apps.unmix(cube, k)
        seconds = time.perf_counter() - start
        own = score(cube.pixels, spectra, truth, result.endmembers)
        rows.append(("fastanchors unmix, defaults", own[0], own[0], own[1], own[2], seconds))
        ideal = score(cube.pixels, spectra, truth, spectra)
        rows.append(("(the true spectra themselves)", 0.0, 0.0, ideal[1], ideal[2], None))
        report.text(f"## {name}: {len(cube.pixels)} pixels, {cube.pixels.shape[1]} bands, {k} materials")
        columns = ["method", "spectral angle", "worst seed", "RMSE, sum to one", "RMSE, shapes only", "seconds"]
        report.table(columns, rows)
        peers = ["SPA, l1-scaled pixels", "N-FINDR, raw pixels", "VCA"]
        report.text(f"## {name} with errors put in: mean spectral angle")
        rows = []
        for error, X in errors_put_in(cube).items():
            found = []
            for peer in peers:
                function, l1, _ = METHODS[peer]
                found.append(function(scaled(X) if l1 else X, k, np.random.default_rng(0)))
            angles = [fa.metrics.matched_spectral_angle(spectra, X[chosen]).mean for chosen in found]
            result = fa.apps.unmix(X, k)
            own_angle = fa.metrics.matched_spectral_angle(spectra, result.endmembers).mean
            aside = f"{result.outliers.size} pixels, {result.hot_bands.size} bands"
            rows.append((error, *angles, own_angle, aside))
        report.table(["error", *peers, "fastanchors unmix, defaults", "set aside"], rows)
    report.text(
        "Spectral angle: mean over the matched materials, radians. RMSE of abundances against the truth by two rules: "
        "non-negative and summing to one with the spectra at the scale of the data (what `unmix` returns), and, as "
        "the truth of Samson was made, from spectra scaled to maximum one, weights divided by their sum afterwards. "
        "The last line shows which rule a scene's truth follows. Seconds include both encodings."
    )
    report.save()


if __name__ == "__main__":
    main()
