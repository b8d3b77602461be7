"""Read Zarr arrays, by whole chunks of rows, also packed by the CF conventions, and AnnData in Zarr groups."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .._signals import ignored_errors
from ..errors import InvalidInputError, MissingExtraError, one_line
from .arrays import dense_source
from .hdf5 import anndata_source
from .packed import unpacked
from .row_source import ANY_SIZE, Source, check_claim, read_names, reading

__all__ = ["read_zarr"]

_MATRIX = "a matrix has two axes: reshape it to rows × columns; if it is a scene, pass the opened array to unmix"


def read_zarr(
    path: Path,
    *,
    variable: str | None = None,
    layer: str | None = None,
    row_names: Any = None,
    column_names: Any = None,
) -> Source:
    """A two-dimensional Zarr array, ``variable`` of a Zarr group, or the matrix X (or a ``layer``) of AnnData.

    ``variable`` may be a path such as ``group/array``. The attributes ``scale_factor`` and ``add_offset`` of the CF
    conventions, as xarray writes them, are applied; an entry that is the ``_FillValue`` is missing, which is an error.
    """
    try:
        import zarr
    except ImportError as error:
        raise MissingExtraError("reading Zarr needs zarr: pip install 'fastanchors[io]'") from error
    with reading(path):
        node = zarr.open(str(path), mode="r")
        if node.attrs.get("encoding-type") == "anndata" and variable is None:
            return anndata_source(path, node, layer, row_names, column_names, _check_stored)
        if layer is not None:
            raise InvalidInputError(f"{path} is not AnnData and has no layers; choose an array with variable=…")
        arrays = _arrays(node, variable) if hasattr(node, "arrays") else None
    if arrays is not None:
        node = arrays[_chosen(path, arrays, variable)]
    elif variable is not None:
        raise InvalidInputError(f"{path} is one array and has no variable {variable!r}; remove variable=…")
    return zarr_source(node, name=str(path), row_names=row_names, column_names=column_names)


def _arrays(group: Any, variable: str | None) -> dict[str, Any]:
    """The arrays of a group by path, or only the requested one: others may be of kinds that Zarr cannot read."""
    if variable is not None:
        with ignored_errors():
            found = group[variable.strip("/")]
            if not hasattr(found, "arrays"):
                return {variable.strip("/"): found}
    return dict(_nested(group))


def _nested(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """The arrays of a group and of the groups in it, by path, those at the top first."""
    for key, array in sorted(group.arrays()):
        yield before + key, array
    for key, inner in sorted(group.groups()):
        yield from _nested(inner, f"{before}{key}/")


def _chosen(path: Path, arrays: dict[str, Any], variable: str | None) -> str:
    """The array to read: ``variable``, or the only one with two axes at the top of the group."""
    sizes = {key: "×".join(map(str, array.shape)) for key, array in arrays.items()}
    listed = one_line(", ".join(f"{key} {size}" for key, size in sizes.items()), 200) or "nothing"
    if variable is None:
        fitting = [key for key in arrays if "/" not in key and arrays[key].ndim == 2]
        if len(fitting) != 1:
            raise InvalidInputError(f"{path}: choose an array with two axes by variable=…; the group has: {listed}")
        return fitting[0]
    key = variable.strip("/")
    if key not in arrays:
        raise InvalidInputError(f"{path} has no array {variable!r}; choose one by variable=…; the group has: {listed}")
    if arrays[key].ndim != 2:
        raise InvalidInputError(f"{path}: {key} has the shape {arrays[key].shape}; {_MATRIX}")
    return key


def zarr_source(array: Any, *, name: str = "the zarr array", row_names: Any = None, column_names: Any = None) -> Source:
    """A Zarr array object, unpacked as its attributes say."""
    if array.ndim != 2:
        raise InvalidInputError(f"{name} has the shape {array.shape}; {_MATRIX}")
    with reading(name):
        _check_stored(name, array)
    return dense_source(
        name,
        unpacked(array, name),
        chunk_rows=int(array.chunks[0]),
        row_names=read_names(row_names, "row"),
        column_names=read_names(column_names, "column"),
    )


def _check_stored(name: str, item: Any) -> None:
    """Raise if an array, or one of a group, claims far more than is stored (Zarr fills in missing chunks)."""
    for array in dict(item.arrays()).values() if hasattr(item, "arrays") else (item,):
        claimed = math.prod(map(int, array.shape)) * array.dtype.itemsize
        if claimed > ANY_SIZE:  # nbytes_stored() lists every chunk
            check_claim(name, claimed, int(array.nbytes_stored()))
