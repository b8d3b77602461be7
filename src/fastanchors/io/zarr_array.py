"""Read Zarr arrays, by whole chunks of rows, also packed by the CF conventions, and AnnData in Zarr groups."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from ..errors import InvalidInputError, MissingExtraError
from .arrays import dense_source
from .hdf5 import anndata_source
from .packed import unpacked
from .row_source import ANY_SIZE, Source, check_claim, read_names, reading

__all__ = ["read_zarr"]


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
        arrays = dict(node.arrays()) if hasattr(node, "arrays") else None
    if arrays is not None:
        fitting = [key for key, array in arrays.items() if array.ndim == 2]
        if variable is None and len(fitting) == 1:
            variable = fitting[0]
        inner = _inner(node, variable)
        if variable not in fitting and inner is None:
            raise InvalidInputError(f"{path}: choose an array with variable=…: {', '.join(fitting) or 'none'}")
        node = arrays[variable] if inner is None else inner
    return zarr_source(unpacked(node, str(path)), name=str(path), row_names=row_names, column_names=column_names)


def _inner(group: Any, variable: str | None) -> Any:
    """The two-dimensional array at a path of several parts in the group, or None."""
    if variable is None or "/" not in variable.strip("/"):
        return None
    found = group.get(variable.strip("/"))
    return found if getattr(found, "ndim", 0) == 2 else None


def zarr_source(array: Any, *, name: str = "the zarr array", row_names: Any = None, column_names: Any = None) -> Source:
    """A Zarr array object."""
    if array.ndim != 2:
        raise InvalidInputError(f"{name} must be two-dimensional, got shape {array.shape}")
    with reading(name):
        _check_stored(name, array)
    return dense_source(
        name,
        array,
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
