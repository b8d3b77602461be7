"""Draw the figure of the README: a scene of four materials, its anchors, and every pixel as a mixture of them.

Run: python examples/picture.py [OUTPUT.png]   (needs the extra 'report')
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
    scene = fa.datasets.hyperspectral(80, 80, bands=150, k=4, rng=7)

    model = fa.SeparableNMF(n_components=4, sum_to_one=True)
    weights = model.fit_transform(scene.A)

    found = fa.metrics.matched_spectral_angle(scene.components, model.components_)
    figure = plt.figure(figsize=(11, 4.6), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[1.15, 1])
    axis = left.subplots()
    for material, anchor in enumerate(found.found):
        scale = model.components_[anchor].sum() / scene.components[material].sum()
        axis.plot(scale * scene.components[material], color=COLOURS[material], lw=5, alpha=0.25)
        label = f"pixel {model.anchors_[anchor]}"
        axis.plot(model.components_[anchor], color=COLOURS[material], lw=1.2, label=label)
    axis.set(xlabel="band", ylabel="reflectance", title="anchors (thin) over the true spectra (wide)")
    axis.legend(frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    for material, panel in enumerate(right.subplots(2, 2).ravel()):
        image = weights[:, found.found[material]].reshape(scene.height, scene.width)
        panel.imshow(image, cmap="gray", vmin=0, vmax=1)
        panel.set_xticks([])
        panel.set_yticks([])
        panel.set_title(f"share of pixel {model.anchors_[found.found[material]]}", color=COLOURS[material], size=10)
    figure.savefig(path, dpi=110)
    print(f"mean angle to the true spectra: {np.degrees(found.mean):.2f} degrees; picture in {path}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "picture.png")
