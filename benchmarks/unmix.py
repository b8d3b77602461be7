"""Compare unmixing with N-FINDR, PPI, VCA and SPA on nine scenes with known truth, on crops and on spoiled scenes.

``python benchmarks/unmix.py --data DIR`` reads ``DIR/hyperspectral`` (see ``_scenes.py``). The peers are implemented
here from their papers: N-FINDR (Winter 1999), PPI (Boardman, Kruse and Green 1995), VCA (Nascimento and Dias 2005, the
projected spectra that it returns). Random methods are run with several seeds; the mean is reported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fastanchors as fa
from _leave_one_out import leave_one_out
from _scenes import SCENES, SPOILED, TrueScene, altered, crops, load
from _table import Report, arguments

SEEDS = 5
CROPS = 10
ALTERED = range(16, 36)  # seeds; 0 to 15 were used in development
HELD_OUT = 4000  # pixels of each scene used to choose constants


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

    A pixel close to a selected one (spectral angle below 0.05) is skipped, as an analyst would do.
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
    pixel farthest along a random direction orthogonal to those selected."""
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


CROPPED = ("N-FINDR, raw pixels", "VCA", "SPA, raw pixels")  # peers on crops and spoiled scenes


def projected(X: np.ndarray, k: int) -> np.ndarray:
    """The pixels projected onto their k leading directions, from which VCA takes its spectra."""
    directions = np.linalg.eigh(X.T @ X)[1][:, : -k - 1 : -1]
    return (X @ directions) @ directions.T


def angle(scene: TrueScene, endmembers: np.ndarray) -> float:
    return fa.metrics.matched_spectral_angle(scene.spectra, endmembers).mean


def peer(method: str, scene: TrueScene, seeds: int) -> float:
    """Mean spectral angle over the seeds."""
    function, l1, random = METHODS[method]
    X, k = scaled(scene.X) if l1 else scene.X, len(scene.spectra)
    values = projected(scene.X, k) if method == "VCA" else scene.X
    runs = [function(X, k, np.random.default_rng(seed)) for seed in range(seeds if random else 1)]
    return float(np.mean([angle(scene, values[chosen]) for chosen in runs]))


def unmixed(scene: TrueScene, k: int, **options: Any) -> fa.apps.Unmixing:
    return fa.apps.unmix(scene.image(), k, **options)


def abundance_error(scene: TrueScene, result: fa.apps.Unmixing) -> float:
    match = fa.metrics.matched_spectral_angle(scene.spectra, result.endmembers)
    shares = scene.shares if scene.at is None else scene.shares[scene.at.ravel()]
    return fa.metrics.abundance_rmse(shares, result.abundances, match=match)


PARTS = ("scenes", "held-out", "spoiled", "crops", "altered")


def main() -> None:
    options = arguments(
        __doc__,
        only={"nargs": "*", "choices": PARTS, "default": PARTS, "help": "parts to make; each is a page of its own"},
        spoil={"nargs": "*", "choices": [name.replace(" ", "-") for name in SPOILED], "help": "only these, no page"},
    )
    folder = None if options.data is None else options.data / "hyperspectral"
    if folder is None or not folder.is_dir():
        print("the scenes are absent; give --data DIR with hyperspectral/Samson.mat and the others")
        return
    scenes = {name: load(name, folder) for name in SCENES}
    if options.spoil is not None:
        options.out = None  # do not save a partial table
        chosen = {name: spoil for name, spoil in SPOILED.items() if name.replace(" ", "-") in options.spoil}
        spoiled_scenes(Report("unmix", "Unmixing spoiled scenes", options), scenes, chosen)
        return
    seeds, count = (1, 2) if options.quick else (SEEDS, CROPS)
    for part in options.only:
        name = "unmix" if part == "scenes" else f"unmix_{part.replace('-', '_')}"
        report = Report(name, f"Unmixing scenes: {part}", options)
        if part == "scenes":
            nine_scenes(report, scenes, seeds)
        elif part == "held-out":
            held_out(report, scenes)
        elif part == "spoiled":
            spoiled_scenes(report, scenes, SPOILED)
        elif part == "crops":
            report.text(f"## {count} crops of 65 % of each scene: that ratio, mean and (worst)")
            some_scenes(report, {name: list(crops(scene, count)) for name, scene in scenes.items()})
        else:
            report.text(
                "## Real scenes altered (other gains, half of the bands, more noise): that ratio, mean and (worst)"
            )
            real, seeds_used = ("samson", "moffett"), ALTERED[:count] if options.quick else ALTERED
            some_scenes(report, {name: [altered(scenes[name], seed) for seed in seeds_used] for name in real})
        report.save()


def nine_scenes(report: Report, scenes: dict[str, TrueScene], seeds: int) -> None:
    """Every unmodified scene, compared with the peers."""
    rows, ratios = [], []
    for name, scene in scenes.items():
        k, best = len(scene.spectra), angle(scene, scene.purest())
        found = unmixed(scene, k)
        groups = unmixed(scene, k, method="groups")
        ratios.append(angle(scene, found.endmembers) / best)
        peers = [peer(method, scene, seeds) for method in METHODS]
        own = (angle(scene, groups.endmembers), angle(scene, found.endmembers), ratios[-1], found.method)
        rows.append((name, k, *peers, *own, abundance_error(scene, found), found.seconds))
    report.text("## Nine scenes: mean spectral angle, radians")
    columns = ["scene", "k", *METHODS, "unmix, groups only", "unmix", "ratio", "method", "abundance RMSE", "seconds"]
    report.table(columns, rows)
    report.text(
        "Ratio: to the angle of the medians of the truly purest 1/(8·k) of the pixels; mean "
        f"{np.mean(ratios):.2f}, worst {np.max(ratios):.2f}. "
        "RMSE of abundances that are non-negative and sum to one; the truth of Samson follows another "
        "rule (spectra scaled to maximum one)."
    )


def some_scenes(report: Report, scenes: dict[str, list[TrueScene]]) -> None:
    """Several versions of each scene, compared with some peers."""
    rows = []
    for name, versions in scenes.items():
        vertices = 0
        tried: dict[str, list[float]] = {each: [] for each in ("unmix", *CROPPED)}
        for version in versions:
            best, found = angle(version, version.purest()), unmixed(version, len(version.spectra))
            tried["unmix"].append(angle(version, found.endmembers) / best)
            vertices += found.method == "vertices"
            for method in CROPPED:
                tried[method].append(peer(method, version, 1) / best)
        shown = [f"{np.mean(ratios):.2f} ({np.max(ratios):.2f})" for ratios in tried.values()]
        rows.append((name, *shown, f"{vertices} of {len(versions)}"))
        print(rows[-1], flush=True)
    report.table(["scene", "unmix", *CROPPED, "by vertices"], rows)


def spoiled_scenes(report: Report, scenes: dict[str, TrueScene], spoils: dict[str, Callable[..., TrueScene]]) -> None:
    """Add defects of real scenes to each scene."""
    report.text("## Spoiled scenes: angle of unmix, and of the best of N-FINDR (N), VCA (V) and SPA (S) on raw pixels")
    rows = []
    for name, scene in scenes.items():
        cells = []
        for spoil in spoils.values():
            case = spoil(scene, np.random.default_rng(0))
            own = angle(case, unmixed(case, len(scene.spectra)).endmembers)
            peers = {method[0]: peer(method, case, 1) for method in CROPPED}
            best = min(peers, key=lambda each: peers[each])
            shown = f"**{own:.3f}**" if own > peers[best] else f"{own:.3f}"
            cells.append(f"{shown} / {peers[best]:.3f} {best}")
        rows.append((name, *cells))
    report.table(["scene", *spoils], rows)
    report.text("Bold: a peer is better.")


def held_out(report: Report, scenes: dict[str, TrueScene]) -> None:
    """Report each scene with constants chosen on the other scenes."""
    rng = np.random.default_rng(0)
    small = {
        name: scene.only(np.sort(rng.choice(len(scene.X), min(len(scene.X), HELD_OUT), replace=False)))
        for name, scene in scenes.items()
    }

    def ratio(name: str) -> float:
        scene = small[name]
        return angle(scene, unmixed(scene, len(scene.spectra)).endmembers) / angle(scene, scene.purest())

    rows = leave_one_out(list(small), ratio)
    report.text("## Constants chosen on the other eight scenes: that ratio")
    report.table(["scene", "defaults", "chosen on the others", "other than the defaults"], rows)
    means, worst = (np.round(f([row[1:3] for row in rows], axis=0), 2) for f in (np.mean, np.max))
    report.text(
        f"Mean {means[0]} with the defaults and {means[1]} with the constants of the others; worst {worst[0]} and "
        f"{worst[1]}. {HELD_OUT} pixels of each scene, drawn evenly, without their image."
    )


if __name__ == "__main__":
    main()
