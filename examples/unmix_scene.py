"""Unmix a scene with dark pixels and outliers, compare with the truth, and draw spectra and maps.

Run: python examples/unmix_scene.py [OUTPUT_FOLDER] [--data FILE -k K]   (pictures need the extra 'report')
Without --data the scene is made by fastanchors.datasets; with it, FILE is a .mat, ENVI .hdr or .npy scene.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import fastanchors as fa


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", default="unmixed")
    parser.add_argument("--data", type=Path, help="a scene of your own")
    parser.add_argument("-k", type=int, default=4, help="number of materials")
    options = parser.parse_args()
    if options.data is not None:
        result = fa.apps.unmix(fa.apps.read_cube(options.data), options.k)
    else:
        scene = fa.datasets.hyperspectral(80, 100, bands=120, k=options.k, dark=150, outliers=40, snr=35.0, rng=2)
        result = fa.apps.unmix(scene.cube, options.k)
        match = fa.metrics.matched_spectral_angle(scene.components, result.endmembers)
        plain = fa.SeparableNMF(options.k, solver="spa").fit(scene.A).components_
        print(f"mean angle to the true spectra: {match.mean:.3f} rad, by plain SPA", end=" ")
        print(f"{fa.metrics.matched_spectral_angle(scene.components, plain).mean:.3f} rad")
        error = fa.metrics.abundance_rmse(scene.weights, result.abundances, match=match)
        print(f"error of the abundances: {error:.3f}")
    for material, (row, column) in enumerate(result.positions()):
        where = f"purest at row {row}, column {column}"
        print(f"material {material + 1}: {result.share[material]:.0%} of the scene, {where}")
    for picture in fa.apps.save_pictures(result, options.folder):
        print(f"picture: {picture}")


if __name__ == "__main__":
    main()
