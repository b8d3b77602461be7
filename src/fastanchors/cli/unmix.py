"""``fastanchors unmix``: the materials of a hyperspectral scene, their spectra and maps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from ..errors import MissingExtraError
from ._count import Count
from ._options import same_file
from ._terminal import working
from .app import emit, json_option, say

__all__ = ["unmix"]


_ADVICE = "no rule finds it reliably on real scenes; try a few and look at the maps and at what the mixtures miss"


class _Shape(click.ParamType):  # type: ignore[type-arg]
    name = "HEIGHTxWIDTH"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        parts = str(value).lower().replace("×", "x").replace(",", "x").split("x")
        if len(parts) != 2 or not all(part.strip().isdigit() and int(part) > 0 for part in parts):
            self.fail(f"{value!r} is not a size such as 95x95", param, ctx)
        return int(parts[0]), int(parts[1])


@click.command()
@click.argument("cube", type=click.Path(path_type=Path))
@click.option("-k", "k", type=Count(1, "materials", _ADVICE), required=True, help="Number of materials.")
@click.option(
    "-o", "--out", "folder", type=click.Path(path_type=Path, file_okay=False), help="Folder to write to; CUBE-unmixed."
)
@click.option("--variable", help="Which variable of a .mat file; the largest if not given.")
@click.option("--shape", type=_Shape(), help="Size of the image where the file holds a matrix, such as 95x95.")
@click.option(
    "--bands", type=click.Choice(["first", "middle", "last"]), help="Which axis of the array holds the bands."
)
@click.option("--order", type=click.Choice(["C", "F"]), help="Pixels of a matrix run along rows (C) or columns (F).")
@click.option("--share", type=click.FloatRange(0, 1), help="Share of the pixels averaged for a spectrum; 1/(8·k).")
@click.option("--ignore", type=float, help="Value of pixels without data (NaN and 0 always are); nan for none.")
@click.option("--clip", is_flag=True, help="Set negative values to zero instead of refusing them.")
@click.option("--keep-odd", is_flag=True, help="Let single pixels that are like no others make a material.")
@click.option("--report", is_flag=True, help="Also write report.html, a page to explore the scene.")
@click.option("--no-pictures", is_flag=True, help="Write the numbers only.")
@json_option
def unmix(
    cube: Path,
    k: int,
    folder: Path | None,
    variable: str | None,
    shape: tuple[int, int] | None,
    bands: Any,
    order: Any,
    share: float | None,
    ignore: float | None,
    clip: bool,
    keep_odd: bool,
    report: bool,
    no_pictures: bool,
    as_json: bool,
) -> None:
    """Find the materials of a hyperspectral scene.

    CUBE is a .mat file, an ENVI header (.hdr) or a .npy array. Spectra go to endmembers.csv, the share of every
    material in every pixel to abundances.npy (height × width × k, or pixels × k where the size of the image is
    not known), pictures of both to spectra.png and abundances.png; with --report, a page to explore them.
    """
    from ..apps import read_cube
    from ..apps import unmix as run

    folder = folder or Path(f"{cube.stem}-unmixed")
    for name in ("abundances.npy", "endmembers.csv", "spectra.png", "abundances.png", "report.html"):
        if same_file(folder / name, cube):
            raise click.BadParameter(f"{folder / name} is the scene, and would be overwritten", param_hint="--out")
    with working(f"unmixing {cube.name}"):
        scene = read_cube(cube, variable=variable, shape=shape, bands=bands, order=order)
        result = run(scene, k, share=share, ignore=ignore, clip=clip, keep_odd=keep_odd)
    folder.mkdir(parents=True, exist_ok=True)
    abundance_file = folder / "abundances.npy"
    np.save(abundance_file, result.abundances if scene.shape is None else result.maps)
    _write_spectra(folder / "endmembers.csv", result)
    pictures = [] if no_pictures else _pictures(result, folder)
    if report:
        pictures.append(result.report(folder / "report.html", title=cube.name))
    positions = None if scene.shape is None else [list(place) for place in result.positions()]
    if as_json:
        emit(
            {
                "endmembers": result.endmembers.tolist(),
                "anchors": result.anchors.tolist(),
                "positions": positions,
                "share": result.share.tolist(),
                "abundance_file": str(abundance_file),
                "endmember_file": str(folder / "endmembers.csv"),
                "pictures": [str(path) for path in pictures],
                "shape": None if scene.shape is None else list(scene.shape),
                "pixel_order": scene.order,
                "bands": int(result.endmembers.shape[1]),
                "empty_pixels": int(result.empty.size),
                "odd_pixels": result.odd.tolist(),
                "dead_bands": result.dead_bands.tolist(),
                "hot_bands": result.hot_bands.tolist(),
                "relative_error": result.relative_error,
                "seconds": result.seconds,
            }
        )
        return
    _tell(result, positions)
    print(f"Written to {folder}: " + ", ".join(["abundances.npy", "endmembers.csv", *(path.name for path in pictures)]))


def _pictures(result: Any, folder: Path) -> list[Path]:
    from ..apps import save_pictures

    try:
        pictures = save_pictures(result, folder)
    except MissingExtraError as error:
        say(f"fastanchors: no pictures: {error}")
        return []
    if result.cube.shape is None:
        say("fastanchors: no maps: the size of the image is not known; give --shape HEIGHTxWIDTH")
    return pictures


def _write_spectra(path: Path, result: Any) -> None:
    """One row per band, one column per material."""
    waves = result.cube.wavelengths
    first = np.arange(result.endmembers.shape[1]) if waves is None else waves
    names = ["band" if waves is None else "wavelength", *(f"material{i + 1}" for i in range(len(result.endmembers)))]
    table = np.column_stack([first, result.endmembers.T])
    np.savetxt(path, table, delimiter=",", header=",".join(names), comments="", fmt="%.10g")


def _tell(result: Any, positions: list[list[int]] | None) -> None:
    pixels, bands = result.cube.pixels.shape
    size = f"{pixels} pixels" if result.cube.shape is None else "×".join(map(str, result.cube.shape)) + " pixels"
    print(f"{result.cube.name}: {size}, {bands} bands, {len(result.anchors)} materials in {result.seconds:.1f} s")
    for material, anchor in enumerate(result.anchors):
        where = "" if positions is None else f" (row {positions[material][0]}, column {positions[material][1]})"
        print(f"  material {material + 1}: {result.share[material]:6.1%} of the scene, most like pixel {anchor}{where}")
    print(f"Mixtures of these spectra miss {result.relative_error:.1%} of the scene.")
    if result.empty.size:
        print(f"{_some(result.empty.size, 'pixel')} without data: abundances of zero.")
    if result.odd.size:
        print(f"{_some(result.odd.size, 'pixel')} like no others (--keep-odd lets them make a material): set aside.")
    if result.dead_bands.size:
        print(f"{_some(result.dead_bands.size, 'band')} without data: zero in the spectra.")
    if result.hot_bands.size:
        listed = ", ".join(map(str, result.hot_bands[:10])) + (", …" if result.hot_bands.size > 10 else "")
        print(f"{_some(result.hot_bands.size, 'band')} with errors, not used to find the materials: {listed}.")


def _some(count: int, thing: str) -> str:
    return f"{count} {thing}{'' if count == 1 else 's'}"
