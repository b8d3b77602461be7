"""Draw the figure of docs/cells.md: archetypes of 2,000 cells that mix four expression programmes.

Run: python examples/cells.py [OUTPUT.png]   (needs the extra 'report')
"""

from __future__ import annotations

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import fastanchors as fa

COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7"]


def main(path: str) -> None:
    cells = fa.datasets.cells(2000, 500, 4, rng=0)
    matrix = fa.open_matrix(cells.A, normalize="l1")
    found = fa.FAS().seek(matrix, 4, rng=0)
    shares = fa.encode(matrix, found, sum_to_one=True)
    programme = cells.labels[found.indices]

    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.4), layout="constrained")
    centred = matrix.rows(np.arange(2000)).toarray()
    centred -= centred.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    places = centred @ axes[:2].T
    nearest = shares.argmax(axis=1)
    left.scatter(*places.T, s=4, c=[COLOURS[j] for j in nearest], alpha=0.5, linewidths=0)
    for j, row in enumerate(found.indices):
        left.scatter(*places[row], s=130, marker="*", color=COLOURS[j], edgecolors="black", zorder=3)
    left.locator_params(axis="x", nbins=5)
    left.set(title="cells by their nearest archetype (stars)", xlabel="first principal axis", ylabel="second")
    for j in range(4):
        right.scatter(cells.weights[:, programme[j]], shares[:, j], s=4, color=COLOURS[j], alpha=0.4, linewidths=0)
    right.plot([0, 1], [0, 1], color="black", lw=0.8)
    right.set(title="share of each archetype against the truth", xlabel="true share", ylabel="found share")
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
    error = np.abs(shares - cells.weights[:, programme]).mean()
    print(f"programmes found: {sorted(programme.tolist())}; mean error of a share: {error:.3f}; picture in {path}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "cells.png")
