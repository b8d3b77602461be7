"""Extract values and names from pandas and polars frames, Arrow tables, arrays of xarray and AnnData."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from .._tables import as_frame, is_arrow, is_named_array
from .._validate import check_frame, computed, is_anndata, is_dask, kind_of, package, plain_dtype
from ..errors import InvalidInputError, InvalidTypeError, one_line
from .contract import Rows

__all__ = [
    "Labelled",
    "column_labels",
    "frame_values",
    "holds_numbers",
    "in_memory",
    "is_labelled",
    "label_place",
    "labelled",
    "nullable_dtype",
    "take_labels",
    "without_column",
]


class Labelled(NamedTuple):
    """The values of a table, and the names of its rows and columns."""

    values: Rows
    row_names: list[str] | None
    column_names: list[str] | None


def is_labelled(source: Any) -> bool:
    """Whether this is a table with names: AnnData, a data frame (pandas, polars or similar), an Arrow table or batch.

    Also a ``DataArray`` of xarray with two axes, which are named by its coordinates.
    """
    kind = package(source)
    is_frame = hasattr(type(source), "columns") and (kind == "polars" or hasattr(source, "to_numpy"))
    return is_anndata(source) or (is_frame and not is_dask(source)) or is_arrow(source) or is_named_array(source)


def labelled(source: Any, *, layer: str | None = None, name: str = "A") -> Labelled:
    """Values and names of an object for which :func:`is_labelled` is true; ``layer`` is for AnnData."""
    if is_anndata(source):
        names = [str(x) for x in source.obs_names], [str(x) for x in source.var_names]
        return Labelled(_expression(source, layer), *names)
    frame, row_names = take_labels(source, name=name)
    return Labelled(frame_values(frame, name), row_names, column_labels(source, frame))


def in_memory(source: Any, name: str) -> Labelled:
    """Values and names of any matrix that has to be in memory: collections of Dask are computed."""
    source = computed(source, name)
    return labelled(source, name=name) if is_labelled(source) else Labelled(source, None, None)


def column_labels(source: Any, frame: Any) -> list[str] | None:
    """The names of the columns of a table, of which ``frame`` is the numeric part; None if an array has none."""
    counted = is_named_array(source) and source.dims[1] not in source.indexes
    return None if counted else [str(column) for column in frame.columns]


def take_labels(frame: Any, *, name: str = "A") -> tuple[Any, list[str] | None]:
    """The numeric part of a frame, and the names of its rows; Arrow tables and arrays of xarray become pandas frames.

    Row names are the index of a pandas frame, unless that is a range. Otherwise, and for polars, they are the first
    text column, which is removed from the values. Without one the labels of a range other than 0, 1, 2, … are names:
    pandas makes a range of any labels with even steps, such as those of ``frame[5:]``.
    """
    frame = as_frame(frame, name)
    if package(frame) == "polars" and not hasattr(frame, "to_numpy"):
        raise InvalidTypeError(f"{name} is a polars {type(frame).__name__}; collect() it first")
    place = label_place(frame)
    if place is not None:
        labels = frame.iloc[:, place] if hasattr(frame, "index") else frame[frame.columns[place]].to_list()
        return without_column(frame, place), [str(label) for label in labels]
    if not hasattr(frame, "index"):
        return frame, None
    is_range = type(frame.index).__name__ == "RangeIndex"
    counts = is_range and frame.index.start == 0 and frame.index.step == 1
    return frame, None if counts else [str(label) for label in frame.index]


def label_place(frame: Any) -> int | None:
    """The column of text that names the rows of a frame, or None."""
    if hasattr(frame, "index"):
        if type(frame.index).__name__ == "RangeIndex" and len(frame):
            for place, dtype in enumerate(frame.dtypes):
                if kind_of(dtype) in "OU" and isinstance(frame.iloc[0, place], str):
                    return place
    elif package(frame) == "polars":
        for place, dtype in enumerate(frame.dtypes):
            if str(dtype) in ("String", "Utf8", "Categorical") or str(dtype).startswith("Enum"):
                return place
    return None


def without_column(frame: Any, place: int) -> Any:
    """The frame of pandas or polars without one of its columns."""
    if not hasattr(frame, "index"):
        return frame.drop(frame.columns[place])
    return frame.iloc[:, [column for column in range(frame.shape[1]) if column != place]]


def _expression(adata: Any, layer: str | None) -> Rows:
    """The matrix of an AnnData object, or one of its layers."""
    listed = ", ".join(adata.layers) or "none"
    if layer is not None and layer not in adata.layers:
        raise InvalidInputError(f"there is no layer {layer!r}; the layers are: {listed}")
    if layer is None and adata.X is None:
        raise InvalidInputError(f"the AnnData object has no X; name one of its layers with layer=… (layers: {listed})")
    return adata.X if layer is None else adata.layers[layer]


def frame_values(frame: Any, name: str) -> Rows:
    """The values of a frame; nullable pandas columns become float64 with NaN for missing values, or stay integers."""
    check_frame(frame, name)
    if package(frame) == "pandas" and (known := nullable_dtype(frame.dtypes)) is not None:
        try:
            if known.kind in "iu" and not frame.isna().any(axis=None):
                return frame.to_numpy(dtype=known)
            return frame.to_numpy(dtype=np.float64, na_value=np.nan)
        except (ValueError, TypeError, OverflowError) as error:
            raise InvalidTypeError(f"{name} must hold real numbers: {one_line(str(error))}") from None
    return frame.to_numpy()


def holds_numbers(dtype: Any) -> bool:
    """Whether a pandas column of this type holds real numbers, perhaps nullable, sparse or as known categories."""
    categories = getattr(dtype, "categories", None)
    plain = plain_dtype(dtype if categories is None else categories.dtype)
    return isinstance(plain, np.dtype) and plain.kind in "biuf"


def nullable_dtype(dtypes: Iterable[Any]) -> np.dtype[Any] | None:
    """The type of the values of pandas columns, if none is missing; None if all columns are plain NumPy arrays."""
    kinds = list(dtypes)
    if all(getattr(kind, "na_value", None) is None for kind in kinds):
        return None
    plain = [plain_dtype(kind) for kind in kinds]
    whole = all(isinstance(kind, np.dtype) and kind.kind in "iu" for kind in plain) and np.result_type(*plain)
    return whole if whole and whole.kind in "iu" else np.dtype(np.float64)
