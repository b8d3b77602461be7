"""Recognise objects of other libraries that are no arrays, without importing these libraries."""

from __future__ import annotations

from typing import Any

from ..errors import InvalidTypeError, one_line

__all__ = ["check_no_group", "is_dask"]


def is_dask(A: Any) -> bool:
    """Whether ``A`` is a Dask array or data frame, determined from its attributes so that Dask is not imported."""
    return hasattr(A, "__dask_graph__") and hasattr(A, "to_delayed")


def check_no_group(source: Any, name: str) -> None:
    """Raise on a group of arrays of Zarr or h5py: NumPy would make an array of the names of its members."""
    if type(source).__module__.split(".")[0] in ("zarr", "h5py") and not hasattr(source, "ndim"):
        members = one_line(", ".join(repr(key) for key in sorted(map(str, source))), 200) or "nothing"
        raise InvalidTypeError(f"{name} is a group of arrays; pass one of them, such as group['X']; it has {members}")
