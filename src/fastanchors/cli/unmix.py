"""``fastanchors unmix``: estimate the materials of a hyperspectral scene, their spectra and maps."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import numpy as np

from .._replacing import full_disk_errors, make_folder
from .._signals import deferred_signals
from .._text import plural
from .._validate import check_rank, check_size
from ..errors import MissingExtraError, StoreError
from ._files import replacing
from ._messages import shown_source
from ._options import SELECTION, FilePath, check_not_input, check_outside_inputs, check_outside_stores
from ._streams import SCENE
from ._terminal import working
from .app import emit, json_option, say

__all__ = ["unmix"]


_FILES = (
    *("abundances.npy", "abundances.img", "abundances.hdr", "endmembers.csv", "endmembers.sli", "endmembers.hdr"),
    *("residual.img", "residual.hdr", "abundances.tif", "residual.tif"),
    *("spectra.png", "abundances.png", "residual.png", "report.html"),
)


class _Number(click.IntRange):
    """A positive integer, or ``auto``."""

    def __init__(self) -> None:
        super().__init__(min=1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if value == "auto" else super().convert(value, param, ctx)


class _Shape(click.ParamType):  # type: ignore[type-arg]
    name = "HEIGHTxWIDTH"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        parts = str(value).lower().replace("×", "x").replace(",", "x").split("x")
        if len(parts) != 2 or not all(re.fullmatch(r"\s*[0-9]{1,9}\s*", part) and int(part) > 0 for part in parts):
            self.fail(f"{value!r} is not a size such as 95x95", param, ctx)
        return int(parts[0]), int(parts[1])


class _Bands(click.ParamType):  # type: ignore[type-arg]
    name = "BANDS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        bands: list[int] = []
        for part in str(value).split(","):
            found = re.fullmatch(r"\s*(\d{1,6})\s*(?:-\s*(\d{1,6})\s*)?", part)
            if found is None or int(found[2] or found[1]) < int(found[1]):
                self.fail(f"{part!r} is not a band or a range of them such as 1-5", param, ctx)
            bands.extend(range(int(found[1]), int(found[2] or found[1]) + 1))
        return bands


@click.command()
@click.argument("cube", type=SCENE)
@click.option(
    "-k", "k", type=_Number(), required=True, help="Number of materials, or 'auto': shows the evidence for each."
)
@click.option(
    "-o",
    "--out",
    "folder",
    type=FilePath(path_type=Path, file_okay=False),
    help="Output folder; by default CUBE-unmixed.",
)
@click.option("--variable", help="Variable of a .mat, .npz, netCDF or HDF5 file; by default the largest.")
@click.option("--shape", type=_Shape(), help="Size of the image if the file has a matrix, such as 95x95.")
@click.option(
    "--bands", type=click.Choice(["first", "middle", "last"]), help="Which axis of the array holds the bands."
)
@click.option("--order", type=click.Choice(["C", "F"]), help="Pixels of a matrix run along rows (C) or columns (F).")
@click.option(
    "--share",
    type=click.FloatRange(0, 1),
    help="Fraction of the pixels averaged for a spectrum; by default chosen by the residual.",
)
@click.option("--nodata", type=float, help="Value that marks missing data (NaN always does); nan for none.")
@click.option("--mask", type=SCENE, help="Image of the same size; pixels with 0 are left out.")
@click.option("--drop-bands", type=_Bands(), help="Bands to leave out, counted from 0, such as 1-5,103,144.")
@click.option("--clip", is_flag=True, help="Set negative values to zero instead of refusing them.")
@click.option("--keep-outliers", is_flag=True, help="Let single outlier pixels count as materials.")
@click.option(
    "--method",
    type=click.Choice(["auto", "groups"]),
    default="auto",
    help="groups: spectra are medians of pixels, also if all pixels are mixtures.",
)
@click.option(
    "--selection",
    type=SELECTION,
    default="auto",
    help="Rule that selects the materials; all but auto are for comparison.",
)
@click.option("--shadow", is_flag=True, help="Add a shadow: abundances sum to the lit share of a pixel.")
@click.option("--geotiff", is_flag=True, help="Also write the maps as GeoTIFF (extra geo).")
@click.option("--report", is_flag=True, help="Also write report.html, a page to explore the scene.")
@click.option("--no-pictures", is_flag=True, help="Write the numbers only.")
@json_option
def unmix(
    cube: Path,
    k: Any,
    folder: Path | None,
    variable: str | None,
    shape: tuple[int, int] | None,
    bands: Any,
    order: Any,
    geotiff: bool,
    report: bool,
    no_pictures: bool,
    as_json: bool,
    mask: Path | None,
    **options: Any,
) -> None:
    """Find the materials of a hyperspectral scene.

    CUBE is an ENVI image (.hdr or the file beside it), a GeoTIFF, netCDF or HDF5 file, a .mat file or an array in .npy
    or .npz.
    Spectra are written to endmembers.csv and the ENVI library endmembers.sli. The share of every material in every
    pixel is written to abundances.npy (height × width × k, or pixels × k if the size of the image is not known).
    Images for a GIS are abundances.img and residual.img, the residual of the mixtures (and .tif with --geotiff).
    Pictures are spectra.png, abundances.png and residual.png. With --report, report.html is a page to explore them.
    """
    from ..apps import read_cube, read_mask, save_maps, save_spectra

    if geotiff and find_spec("rasterio") is None:
        raise MissingExtraError("writing GeoTIFF needs rasterio: pip install 'fastanchors[geo]'")
    folder = folder or Path(f"{cube.stem}-unmixed")
    check_outside_stores(folder, "--out")
    check_outside_inputs(folder, "--out", cube)
    for name in _FILES:
        check_not_input(folder / name, "--out", cube, mask)
    with working(f"unmixing {cube.name}"):
        scene = read_cube(cube, variable=variable, shape=shape, bands=bands, order=order)
        if mask is not None:
            options["mask"] = read_mask(mask, scene)
        curve = _choose(scene, options) if k == "auto" else None
    with _replacing_together(folder) as place:
        with working(f"unmixing {cube.name}"):
            result = _run(scene, k if curve is None else curve.chosen, place, options)
        files = save_spectra(result, place)
        if scene.shape is not None:
            files += save_maps(result, place, geotiff=geotiff)
        pictures = [] if no_pictures else _pictures(result, place)
        if report:
            pictures.append(result.report(place / "report.html", title=cube.name))
    files, pictures = ([folder / path.name for path in some] for some in (files, pictures))
    _note_old_files(folder, ["abundances.npy", *(path.name for path in files + pictures)])
    positions = None if scene.shape is None else [list(place) for place in result.positions()]
    if as_json:
        extra = {} if curve is None else {"curve": curve.as_dict()}
        emit(_answer(result, folder, positions, files, pictures) | extra)
        return
    if curve is not None:
        print("\n".join(_curve_lines(curve)))
    _print_summary(result, positions)
    print(f"Written to {folder}: " + ", ".join(["abundances.npy", *(path.name for path in files + pictures)]))


def _note_old_files(folder: Path, written: list[str]) -> None:
    """Say which results in the folder are of another run."""
    old = [name for name in _FILES if name not in written and (folder / name).exists()]
    if old:
        say(f"note: {folder} also has results of an earlier run: {', '.join(old)}")


def _choose(scene: Any, options: dict[str, Any]) -> Any:
    """The curve over k; raises an error that shows the curve if it does not determine one number."""
    from ..apps import material_curve

    kept = {name: options[name] for name in ("nodata", "mask", "drop_bands", "clip") if options.get(name) is not None}
    curve = material_curve(scene, **kept)
    if curve.chosen is None:
        listed = "\n".join(_curve_lines(curve))
        raise click.UsageError(f"the number of materials is yours to choose, give -k:\n{listed}")
    return curve


def _curve_lines(curve: Any) -> list[str]:
    lines = ["materials  mixtures miss  found again  largest move"]
    for k, missed, firm, move in zip(curve.k, curve.missed, curve.firm, curve.moves, strict=True):
        lines.append(f"{k:9d}  {missed:13.2%}  {f'{firm} of {k}':>11}  {move:8.3f} rad")
    return [*lines, f"{curve.statement[0].upper()}{curve.statement[1:]}."]


def _run(scene: Any, k: int, folder: Path, options: dict[str, Any]) -> Any:
    """Unmix with the abundances in a file, which appears only when it is complete."""
    from ..apps import unmix as run

    k = check_rank(check_size(k, name="k"), scene.size)
    with replacing(folder / "abundances.npy") as partial:
        if scene.shape is not None and scene.order == "F":  # the file stores the image line by line
            result = run(scene, k, **options)
            with partial.open("wb") as file:
                np.save(file, result.maps)
            return result
        size = (scene.size[0], k) if scene.shape is None else (*scene.shape, k)
        stored = np.lib.format.open_memmap(partial, "w+", np.float64, size)
        if hasattr(os, "posix_fallocate"):  # a page that finds no room on the disk would end the process
            with partial.open("r+b") as file:
                os.posix_fallocate(file.fileno(), 0, os.fstat(file.fileno()).st_size)
        result = run(scene, k, out=stored.reshape(-1, k), **options)
        stored.flush()
        return result


@contextlib.contextmanager
def _replacing_together(folder: Path) -> Iterator[Path]:
    """A folder for the files of a result, which replace those in ``folder`` together at the end.

    So a result that is not complete leaves an earlier one as it was.
    """
    created = not folder.exists()
    make_folder(folder)
    place = None
    try:
        with full_disk_errors(folder), deferred_signals():
            place = Path(tempfile.mkdtemp(prefix=".unmixing-", dir=folder))
        yield place
        with full_disk_errors(folder), deferred_signals():
            for path in sorted(place.iterdir()):
                os.replace(path, folder / path.name)
    except StoreError as error:
        raise StoreError(str(error).replace(str(place), str(folder))) from error
    except PermissionError as error:
        raise StoreError(f"cannot write {folder}: {error.strerror}") from error
    finally:
        with deferred_signals(), contextlib.suppress(OSError):
            if place is not None:
                shutil.rmtree(place, ignore_errors=True)
            if created:
                folder.rmdir()  # if there is no result in it


def _answer(result: Any, folder: Path, positions: Any, files: list[Path], pictures: list[Path]) -> dict[str, Any]:
    scene = result.cube
    return {
        "endmembers": result.endmembers.tolist(),
        "wavelengths": None if scene.wavelengths is None else scene.wavelengths.tolist(),
        "wavelength_units": scene.info.units,
        "anchors": result.anchors.tolist(),
        "positions": positions,
        "method": result.method,
        "share": result.share.tolist(),
        "abundance_file": str(folder / "abundances.npy"),
        "endmember_file": str(folder / "endmembers.csv"),
        "files": [str(path) for path in files],
        "pictures": [str(path) for path in pictures],
        "shape": None if scene.shape is None else list(scene.shape),
        "pixel_order": scene.order,
        "bands": int(result.endmembers.shape[1]),
        "empty_pixels": int(result.empty.size),
        "incomplete_pixels": int(result.incomplete.size),
        "outlier_pixels": result.outliers.tolist(),
        "searched_pixels": result.searched,
        "dropped_bands": result.dropped_bands.tolist(),
        "dead_bands": result.dead_bands.tolist(),
        "hot_bands": result.hot_bands.tolist(),
        "bad_columns": result.bad_columns.tolist(),
        "relative_error": result.relative_error,
        "seconds": result.seconds,
    }


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


def _print_summary(result: Any, positions: list[list[int]] | None) -> None:
    pixels, bands = result.cube.size
    size = f"{pixels} pixels" if result.cube.shape is None else "×".join(map(str, result.cube.shape)) + " pixels"
    size += f", {bands} bands, {len(result.anchors)} materials"
    print(f"{shown_source(result.cube.name)}: {size} in {result.seconds:.1f} s")
    for material, anchor in enumerate(result.anchors):
        where = "" if positions is None else f" (row {positions[material][0]}, column {positions[material][1]})"
        print(f"  material {material + 1}: {result.share[material]:6.1%} of the scene, most like pixel {anchor}{where}")
    if result.has_shadow:
        print(f"  shadow: {1 - result.share.sum():6.1%} of the scene")
    print(f"Mixtures of these spectra miss {result.relative_error:.1%} of the scene.")
    if result.method == "refined":
        print("Spectra vary within the materials: the spectra are medians of groups of pixels, refined by all pixels.")
    if result.method == "vertices":
        print("The pixels are mixtures within their noise: the spectra are those that explain all of them best.")
    if result.method == "spa":
        print("The spectra are those of the pixels that plain SPA selects.")
    elif result.method not in ("refined", "vertices", "groups"):
        print(f"The spectra are vertices by the rule {result.method!r}.")
    if result.searched < pixels - result.left_out.size:
        print(f"The materials were estimated from {result.searched} pixels drawn evenly.")
    if result.empty.size:
        print(f"{plural(result.empty.size, 'pixel')} without data: abundances of zero.")
    if result.incomplete.size:
        print(f"{plural(result.incomplete.size, 'pixel')} without data in some bands: left out, abundances of zero.")
    if result.outliers.size:
        kept = "--keep-outliers lets them make a material"
        print(f"{plural(result.outliers.size, 'pixel')} excluded as outliers ({kept}).")
    if result.bad_columns.size:
        listed = ", ".join(map(str, result.bad_columns[:10])) + (", …" if result.bad_columns.size > 10 else "")
        columns = plural(result.bad_columns.size, "column")
        print(f"{columns} that differ from both neighbours: not used to find the materials: {listed}.")
    for bands, what in (
        (result.dropped_bands, "left out: zero in the spectra"),
        (result.dead_bands, "without data: zero in the spectra"),
        (result.hot_bands, "with errors or much noise, not used to find the materials"),
    ):
        if bands.size:
            listed = ", ".join(map(str, bands[:10])) + (", …" if bands.size > 10 else "")
            print(f"{plural(bands.size, 'band')} {what}: {listed}.")
