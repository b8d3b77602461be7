"""Draw an unmixed scene: the spectra, a map of each material, and a map of the residual."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._replacing import make_folder, replacing
from ..errors import MissingExtraError
from ..io.addresses import local_path
from ._unmix import Unmixing, check_unmixing

__all__ = ["save_pictures"]

# Okabe and Ito's colours, which colour-blind readers can distinguish; further materials repeat them dashed.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
_STYLES = ("-", "--", ":")
_DRAWN = 1000  # lines and columns of an image that are drawn at most


def save_pictures(result: Unmixing, folder: str | Path) -> list[Path]:
    """Write ``spectra.png`` and, if the size of the image is known, ``abundances.png`` and ``residual.png``.

    Returns the files.

    Parameters
    ----------
    result
        The result of :func:`unmix`.
    folder
        The output folder; created if it does not exist.

    Examples
    --------
    >>> import tempfile
    >>> import fastanchors as fa
    >>> scene = fa.datasets.hyperspectral(12, 10, 30, 3, rng=0)
    >>> result = fa.apps.unmix(scene.A, 3, shape=(12, 10))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     print(sorted(path.name for path in fa.apps.save_pictures(result, folder)))
    ['abundances.png', 'residual.png', 'spectra.png']
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("pictures need matplotlib: pip install 'fastanchors[report]'") from error
    check_unmixing(result)
    folder = local_path(folder)
    make_folder(folder)
    files = [_spectra(result, Figure, folder / "spectra.png")]
    if result.cube.shape is not None:
        files.append(_maps(result, Figure, folder / "abundances.png"))
        files.append(_residual(result, Figure, folder / "residual.png"))
    return files


def _title(result: Unmixing, material: int) -> str:
    return f"material {material + 1}: {result.share[material]:.0%}"


def _spectra(result: Unmixing, figure_class: Any, path: Path) -> Path:
    figure = figure_class(figsize=(8, 4.5 + 0.25 * math.ceil(len(result.endmembers) / 3)), layout="constrained")
    axis = figure.subplots()
    waves = result.cube.wavelengths
    unit = f" ({result.cube.info.units})" if result.cube.info.units else ""
    x = np.arange(result.endmembers.shape[1]) if waves is None else waves
    gone = np.union1d(result.dead_bands, result.dropped_bands)
    for material, spectrum in enumerate(result.endmembers):
        style = _STYLES[material // len(_COLOURS) % len(_STYLES)]
        shown = np.where(np.isin(np.arange(spectrum.size), gone), np.nan, spectrum)
        label = f"{_title(result, material)} of the scene"
        axis.plot(x, shown, style, color=_COLOURS[material % len(_COLOURS)], lw=1.6, label=label)
    axis.set(xlabel="band" if waves is None else f"wavelength{unit}", ylabel="value, in the units of the data")
    axis.set_title("spectra of the materials", loc="left")
    axis.set_ylim(bottom=0)
    # Below the axes, so that it covers no curve.
    figure.legend(loc="outside lower left", ncols=min(3, len(result.endmembers)), frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    with replacing(path) as partial:
        figure.savefig(partial, dpi=120, format="png")
    return path


def _maps(result: Unmixing, figure_class: Any, path: Path) -> Path:
    maps = result.maps
    (height, width, k), nowhere = maps.shape, _excluded(result)
    columns = min(k, 4)
    rows = math.ceil(k / columns)
    tall = min(max(height / width, 0.4), 2.5)
    figure = figure_class(figsize=(2.6 * columns + 0.9, 2.6 * tall * rows + 0.3), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    picture = None
    for material, panel in enumerate(panels):
        panel.set_axis_off()
        if material >= k:
            continue
        picture = _show(panel, maps[:, :, material], nowhere, cmap="viridis", vmin=0, vmax=1)
        row, column = result.positions()[material]
        panel.plot(column, row, "o", mfc="none", mec="#ff3030", ms=8, mew=1.6)
        panel.set_title(_title(result, material), size=10)
    bar = figure.colorbar(picture, ax=list(panels), shrink=0.8, label="abundance")
    bar.outline.set_visible(False)
    with replacing(path) as partial:
        figure.savefig(partial, dpi=120, format="png")
    return path


def _residual(result: Unmixing, figure_class: Any, path: Path) -> Path:
    """Map of the residual; excluded pixels are blank, and the colour scale ends at the 99 % quantile."""
    image, nowhere = result.cube.image(result.residual), _excluded(result)
    tall = min(max(image.shape[0] / image.shape[1], 0.4), 2.5)
    figure = figure_class(figsize=(4.9, 4.0 * tall + 0.5), layout="constrained")
    axis = figure.subplots()
    axis.set_axis_off()
    seen = _thinned(image)[~_thinned(nowhere)]
    top = (float(np.quantile(seen, 0.99)) if seen.size else 0.0) or 1.0
    picture = _show(axis, image, nowhere, cmap="magma", vmin=0, vmax=top)
    axis.set_title("what the mixtures miss", size=10, loc="left")
    bar = figure.colorbar(
        picture, ax=axis, shrink=0.8, extend="max", label="root mean square, in the units of the data"
    )
    bar.outline.set_visible(False)
    with replacing(path) as partial:
        figure.savefig(partial, dpi=120, format="png")
    return path


def _thinned(image: NDArray[Any]) -> NDArray[Any]:
    """The image with every so many lines and columns, which is all that a picture can show of a large one."""
    down, across = (-(-size // _DRAWN) for size in image.shape)
    return image[::down, ::across]


def _excluded(result: Unmixing) -> NDArray[np.bool_]:
    """An image of which pixels are excluded."""
    gone = np.zeros(result.cube.size[0], dtype=bool)
    gone[result.left_out] = True
    return result.cube.image(gone)


def _show(axis: Any, image: NDArray[Any], blank: NDArray[np.bool_], **options: Any) -> Any:
    """Draw an image on an axis in units of its pixels, without the ``blank`` ones."""
    height, width = image.shape
    bounds = (-0.5, width - 0.5, height - 0.5, -0.5)
    shown = np.where(_thinned(blank), np.nan, _thinned(image))
    return axis.imshow(shown, interpolation="nearest", extent=bounds, **options)
