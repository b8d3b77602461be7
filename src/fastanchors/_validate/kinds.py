"""Recognise objects of other libraries that are no arrays, without importing these libraries."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..errors import FastAnchorsError, InvalidInputError, InvalidTypeError, one_line
from .entries import in_type
from .sparse import as_csr

__all__ = ["check_no_group", "computed", "is_anndata", "is_dask", "package"]

# Other libraries derive classes from those of these: a frame of GeoPandas or of a view of AnnData is one of pandas.
_BASES = ("numpy", "scipy", "pandas", "polars", "pyarrow", "xarray")


def package(source: Any) -> str:
    """The package whose kind of object this is, determined without importing it: that of a base class, if known."""
    libraries = [each.__module__.partition(".")[0] for each in type(source).__mro__]
    return next((library for library in libraries if library in _BASES), libraries[0])


def is_anndata(source: Any) -> bool:
    """Whether this is an AnnData object, and not a matrix or frame of one, whose class may come from anndata too."""
    return any(
        each.__name__ == "AnnData" and each.__module__.partition(".")[0] == "anndata" for each in type(source).__mro__
    )


def is_dask(A: Any) -> bool:
    """Whether ``A`` is a Dask array or data frame, determined from its attributes so that Dask is not imported."""
    return hasattr(A, "__dask_graph__") and hasattr(A, "to_delayed")


def computed(values: Any, name: str) -> Any:
    """The values of a Dask collection, also in a list of them; all other objects as they are.

    To be called before NumPy converts ``values``: blocks may be masked arrays, whose mask the conversion drops. Raises
    on blocks of an array that are not what Dask declares: Dask would convert them to the type of the first block.
    """
    if isinstance(values, list | tuple) and any(map(is_dask, values)):
        return [computed(each, name) for each in values]
    if not is_dask(values):
        return values
    try:
        if hasattr(type(values), "chunks") and values.ndim:
            options = {"dtype": values.dtype, "meta": values._meta}
            values = values.map_blocks(_as_declared, name, values.dtype, values.chunks, **options)
        return values.compute()
    except FastAnchorsError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"{name} cannot be converted to an array: {one_line(str(error))}") from None


def _as_declared(
    block: Any, name: str, dtype: np.dtype[Any], chunks: tuple[Any, ...], block_id: tuple[int, ...] = ()
) -> Any:
    """A block of a Dask array in the type that Dask declares; raises if its shape or type does not fit."""
    number = ", ".join(str(at) for at, sizes in zip(block_id, chunks, strict=True) if len(sizes) > 1) or "0"
    place = f"{name}: block {number}"
    shape = getattr(block, "shape", None)
    if not isinstance(shape, tuple) or len(shape) != len(chunks):
        kind = f"an array of shape {shape}" if isinstance(shape, tuple) else f"of type {type(block).__name__}"
        raise InvalidTypeError(f"{place} is {kind}, not an array of {len(chunks)} dimension(s); correct its task")
    known = tuple(sizes[at] for at, sizes in zip(block_id, chunks, strict=True))
    if any(size != length for length, size in zip(shape, known, strict=True) if size == size):
        raise InvalidInputError(
            f"{place} has the shape {shape}, but its chunk size is {known}; call X.compute_chunk_sizes(), or pass the "
            "right shape"
        )
    if not isinstance(getattr(block, "dtype", None), np.dtype):  # such as a frame
        block = np.asarray(block)
    if 0 in shape:  # an empty one may have any type
        return block.astype(dtype)
    if sp.issparse(block) and block.dtype != dtype:
        block = as_csr(block, place)
    return in_type(block, dtype, place, "the dtype of the Dask array,")


def check_no_group(source: Any, name: str) -> None:
    """Raise on a group of arrays of Zarr or h5py: NumPy would make an array of the names of its members.

    Also on the parts of AnnData that are no arrays: ``adata.raw``, and the matrices of a file that is not in memory.
    """
    kind = package(source)
    if kind == "anndata" and not is_anndata(source) and not is_dask(source):
        raise InvalidTypeError(
            f"{name} is a {type(source).__name__} of anndata, which is no matrix in memory; pass the AnnData object "
            "(with layer=… for a layer), the path of its file, or adata.raw.to_adata() for its raw counts"
        )
    if kind in ("zarr", "h5py") and not hasattr(source, "ndim"):
        members = one_line(", ".join(repr(key) for key in sorted(map(str, source))), 200) or "nothing"
        raise InvalidTypeError(f"{name} is a group of arrays; pass one of them, such as group['X']; it has {members}")
