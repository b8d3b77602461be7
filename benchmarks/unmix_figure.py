"""Draw the figure of three unmixed scenes in ``docs/unmix.md``: estimated and true spectra, and maps.

``python benchmarks/unmix_figure.py --data DIR`` reads ``DIR/hyperspectral`` as ``unmix.py`` does.
"""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

import fastanchors as fa
from _scenes import load
from _table import arguments

SHOWN = {"samson": "Samson, real", "moffett": "Moffett, real", "apex": "Apex, made"}
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
FIGURE = Path(__file__).parent.parent / "docs" / "figures" / "unmix_scenes.png"


def main() -> None:
    options = arguments(__doc__)
    folder = None if options.data is None else options.data / "hyperspectral"
    if folder is None or not folder.is_dir():
        print("the scenes are absent; give --data DIR with hyperspectral/Samson.mat and the others")
        return
    figure = Figure(figsize=(11.5, 8.2), layout="constrained")
    rows = figure.subfigures(len(SHOWN), 1)
    for part, (name, title) in zip(rows, SHOWN.items(), strict=True):
        scene = load(name, folder)
        k = len(scene.spectra)
        result = fa.apps.unmix(scene.image(), k)
        match = fa.metrics.matched_spectral_angle(scene.spectra, result.endmembers)
        panels = part.subplots(1, k + 1, width_ratios=[1.7] + [1] * k)
        for j, colour in zip(range(k), COLOURS):
            found = result.endmembers[match.found[list(match.true).index(j)]]
            true = scene.spectra[j] * (found @ scene.spectra[j]) / (scene.spectra[j] @ scene.spectra[j])
            panels[0].plot(true, "--", color=colour, lw=1.2, alpha=0.8)
            panels[0].plot(found, color=colour, lw=1.5)
            panels[j + 1].imshow(
                result.maps[:, :, match.found[list(match.true).index(j)]], cmap="viridis", vmin=0, vmax=1
            )
            panels[j + 1].set_title(f"material {j + 1}", size=9, color=colour)
            panels[j + 1].set_axis_off()
        panels[0].set_title(f"{title}: {match.mean:.3f} rad", loc="left", size=10)
        panels[0].set(xlabel="band", ylabel="value")
        panels[0].spines[["top", "right"]].set_visible(False)
    figure.suptitle(
        "Spectra found (lines) and true (dashed, scaled to the same size), and maps of the abundances", size=11
    )
    figure.savefig(FIGURE, dpi=90)
    print(f"written: {FIGURE.name}")


if __name__ == "__main__":
    main()
