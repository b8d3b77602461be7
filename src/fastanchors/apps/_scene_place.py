"""Convert the georeference of an image between ENVI headers and GeoTIFF."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

from .._replacing import replacing
from ..errors import MissingExtraError, StoreError
from ..io.scene import SceneInfo

__all__ = ["check_place", "envi_place", "write_geotiff"]

_ENVI = ("map info", "projection info", "coordinate system string")


def envi_place(info: SceneInfo) -> dict[str, str]:
    """The georeference as fields of an ENVI header; rotated images of other formats get no ``map info``."""
    place = info.map_info
    found = {key: f"{{{place[key]}}}" for key in _ENVI if key in place}
    turn, crs = place.get("transform"), str(place.get("crs", ""))
    if turn is not None and turn[1] == turn[3] == 0:
        corner = [1, 1, *(repr(float(value)) for value in (turn[2], turn[5], turn[0], -turn[4]))]
        name, rest = _projection(crs)
        found["map info"] = "{" + ", ".join(map(str, [name, *corner, *rest])) + "}"
    wkt = crs if "[" in crs else _wkt(crs)
    if wkt:
        found["coordinate system string"] = "{" + " ".join(wkt.split()) + "}"
    return found


def _projection(crs: str) -> tuple[str, list[str]]:
    """The first and last entries of ``map info``; other systems are described by the coordinate system string."""
    code = re.fullmatch(r"EPSG:32([67])(\d\d)", crs)
    named = re.match(r'PROJC[RS]{1,2}S?\["WGS 84 / UTM zone (\d+)([NS])"', crs)
    if code or named:
        zone, south = (int(code[2]), code[1] == "7") if code else (int(named[1]), named[2] == "S")  # type: ignore[index]
        return "UTM", [str(zone), "South" if south else "North", "WGS-84", "units=Meters"]
    if crs == "EPSG:4326" or re.match(r'GEOG(CS|CRS)\["WGS 84"', crs):
        return "Geographic Lat/Lon", ["WGS-84", "units=Degrees"]
    return "Arbitrary", []


def _wkt(crs: str) -> str:
    """The WKT of a code, or an empty string if rasterio is not installed or does not know the code."""
    if not crs:
        return ""
    try:
        from rasterio.crs import CRS
        from rasterio.errors import CRSError
    except ImportError:
        return ""
    try:
        return str(CRS.from_string(crs).to_wkt())
    except CRSError:
        return ""


def check_place(folder: Path) -> None:
    """Raise if GDAL, which takes paths in UTF-8 only, cannot write into ``folder``."""
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        raise StoreError(f"cannot write GeoTIFF to {folder}: its path is not UTF-8; pass another folder") from None


def write_geotiff(image: Path, path: Path, info: SceneInfo, names: list[str]) -> Path:
    """Convert a written ENVI image to a compressed GeoTIFF; GDAL reads an ENVI georeference from the header."""
    try:
        import rasterio
    except ImportError as error:
        raise MissingExtraError("writing GeoTIFF needs rasterio: pip install 'fastanchors[geo]'") from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)  # a georeference is optional
        with rasterio.open(image) as source, replacing(path) as partial:
            profile: dict[str, Any] = {
                "driver": "GTiff",
                "height": source.height,
                "width": source.width,
                "count": source.count,
                "dtype": "float32",
                "nodata": -1.0,
                "crs": source.crs,
                "transform": None if source.transform.is_identity else source.transform,
                "compress": "deflate",
                "BIGTIFF": "IF_SAFER",
            }
            if "transform" in info.map_info:
                profile["transform"] = rasterio.Affine(*info.map_info["transform"])
            if "crs" in info.map_info:
                profile["crs"] = info.map_info["crs"]
            partial.touch()  # an error of rasterio would not name the file
            with rasterio.open(partial, "w", **profile) as target:
                for band, name in enumerate(names, start=1):
                    target.write(source.read(band), band)
                    target.set_band_description(band, name)
    return path
