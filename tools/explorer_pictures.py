"""Make the pictures of the explorer on the documentation's first page, in Chromium.

Run: python tools/explorer_pictures.py   (needs Chromium and the extra 'demo'; writes docs/figures/explorer-*.png)
"""

from __future__ import annotations

import base64
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

import fastanchors as fa

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from browser import Browser  # noqa: E402

PICK = "document.querySelectorAll('button.pick')[{}].click();"


def scene(folder: Path) -> Path:
    """The materials of a scene that is made here."""
    made = fa.datasets.hyperspectral(90, 120, bands=120, k=6, snr=35.0, rng=2)
    found = fa.apps.unmix(made.cube, 6)
    info = replace(found.cube.info, wavelengths=np.linspace(400, 1000, 120))
    return replace(found, cube=replace(found.cube, info=info)).report(folder / "scene.html", title="a scene")


def topics(folder: Path) -> Path:
    """Topics of 395 Reuters stories."""
    from lda import datasets

    counts, titles = datasets.load_reuters(), list(datasets.load_reuters_titles())
    found = fa.apps.topics(counts, 9, vocabulary=list(datasets.load_reuters_vocab()))
    return found.report(folder / "topics.html", counts, title="Reuters stories", documents=titles)


def table(folder: Path) -> Path:
    """A table with names."""
    A = fa.datasets.separable(600, 24, 5, noise=0.02, rng=4).A
    A = A / A.sum(axis=1, keepdims=True)
    names, columns = [f"sample {i}" for i in range(600)], [f"element {j + 1}" for j in range(24)]
    anchors = fa.FAS().seek(A, 5, rng=0)
    return anchors.report(folder / "table.html", A, row_names=names, column_names=columns, kind="features", seed=0)


VIEWS = {
    "scene": (scene, PICK.format(1), "#cards", 1110, "light"),
    "topics": (topics, PICK.format(2) + "document.querySelector('#typical button').click();", "#explore", 920, "light"),
    "rows": (
        table,
        "document.querySelectorAll('#worst button')[4].click();",
        "#plot-heading",
        880,
        "dark",
    ),
}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, Browser(Path(folder) / "profile") as browser:
        for name, (make, script, top, height, scheme) in VIEWS.items():
            browser.size(900, 800)
            browser.media(scheme)
            browser.open(make(Path(folder)).as_uri())
            browser.ask(script)
            start = browser.ask(f"document.querySelector('{top}').getBoundingClientRect().top + scrollY - 12")
            clip = {"x": 0, "y": start, "width": 900, "height": height, "scale": 1}
            shot = browser.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
            picture = ROOT / "docs" / "figures" / f"explorer-{name}.png"
            picture.write_bytes(base64.b64decode(shot["data"]))
            print(picture.relative_to(ROOT), browser.problems)


if __name__ == "__main__":
    main()
