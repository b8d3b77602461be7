"""Results of unmixing as files that other programs read: spectra as CSV and ENVI library, maps as an ENVI image."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .._replacing import replacing
from ..io.scene import SceneInfo
from ._unmix import Unmixing

__all__ = ["save_maps", "save_spectra"]


def save_spectra(result: Unmixing, folder: str | Path) -> list[Path]:
    """Write ``endmembers.csv`` (a row per band) and the ENVI spectral library ``endmembers.sli`` with its header.

    Bands that were left out are zero; wavelengths are given where the scene has them, else the numbers of the bands.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    info, (k, bands) = result.cube.info, result.endmembers.shape
    names = [f"material{i + 1}" for i in range(k)]
    unit = f" ({info.units})" if info.units else ""
    first = np.arange(bands) if info.wavelengths is None else info.wavelengths
    head = ",".join(["band" if info.wavelengths is None else f"wavelength{unit}", *names])
    table, library = folder / "endmembers.csv", folder / "endmembers.sli"
    with replacing(table) as partial:
        np.savetxt(
            partial,
            np.column_stack([first, result.endmembers.T]),
            delimiter=",",
            header=head,
            comments="",
            fmt="%.10g",
            encoding="utf-8",
        )
    fields = {"file type": "ENVI Spectral Library", "spectra names": _listed(names), **_band_fields(info)}
    left_out = np.union1d(result.dropped_bands, result.dead_bands)
    if left_out.size:
        fields["bbl"] = _listed(np.where(np.isin(np.arange(bands), left_out), 0, 1))
    return [table, *_envi(library, result.endmembers[None], fields)]


def save_maps(result: Unmixing, folder: str | Path) -> list[Path]:
    """Write the abundances as the ENVI image ``abundances.img``, a band of float32 for each material, with its header.

    It lies on the map where the scene does. Pixels that were left out hold −1, which the header marks as no data.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    cube, k = result.cube, len(result.endmembers)
    gone = np.zeros(cube.size[0], dtype=bool)
    gone[result.left_out] = True
    nowhere = cube.image(gone)
    maps = (np.where(nowhere, np.float32(-1), cube.image(result.abundances[:, j])) for j in range(k))
    fields = {"file type": "ENVI Standard", "band names": _listed([f"material {j + 1}" for j in range(k)])}
    fields |= {"data ignore value": "-1", **_place(cube.info)}
    return _envi(folder / "abundances.img", maps, fields, shape=(k, *nowhere.shape))


def _envi(
    path: Path, bands: Any, fields: dict[str, str], shape: tuple[int, ...] | None = None, dtype: str = "<f4"
) -> list[Path]:
    """A band-sequential image, band after band, and its header."""
    count, lines, samples = bands.shape if shape is None else shape
    header = path.with_suffix(".hdr")
    sizes = {"samples": samples, "lines": lines, "bands": count, "header offset": 0, "data type": 4}
    text = ["ENVI", *(f"{key} = {value}" for key, value in sizes.items()), "interleave = bsq", "byte order = 0"]
    with replacing(path) as partial, replacing(header) as partial_header:
        with partial.open("wb") as file:
            for band in bands:
                np.ascontiguousarray(band, dtype=dtype).tofile(file)
        partial_header.write_text("\n".join([*text, *(f"{k} = {v}" for k, v in fields.items())]) + "\n", "utf-8")
    return [path, header]


def _band_fields(info: SceneInfo) -> dict[str, str]:
    if info.wavelengths is None:
        return {}
    return {"wavelength": _listed(info.wavelengths), **({"wavelength units": info.units} if info.units else {})}


def _place(info: SceneInfo) -> dict[str, str]:
    """Where the image lies on the map, in the words of an ENVI header; nothing for turned images of other formats."""
    place = info.map_info
    found = {
        key: f"{{{place[key]}}}" for key in ("map info", "projection info", "coordinate system string") if key in place
    }
    turn = place.get("transform")
    if turn is not None and turn[1] == turn[3] == 0:
        found["map info"] = _listed(["Arbitrary", 1, 1, repr(turn[2]), repr(turn[5]), repr(turn[0]), repr(-turn[4])])
    if "crs" in place:
        found["coordinate system string"] = f"{{{place['crs']}}}"
    return found


def _listed(values: Any) -> str:
    return "{" + ", ".join(str(value) for value in values) + "}"
