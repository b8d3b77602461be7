"""``open_matrix``: the one door through which every kind of source becomes a :class:`RowMatrix`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from .._openers import opener
from .._validate import as_matrix, is_dask
from ..errors import InvalidInputError, InvalidTypeError, StoreError
from .array import ArrayMatrix
from .contract import RowMatrix, Rows

__all__ = ["BlockSource", "open_matrix", "row_labels"]


class BlockSource:
    """A file or stream that gives its rows in blocks, in order: base of the readers in :mod:`fastanchors.io`."""


def open_matrix(
    source: Any,
    normalize: Literal["l1"] | None = None,
    *,
    signed: bool = False,
    checked: bool = True,
    budget: int | None = None,
    name: str = "A",
    **options: Any,
) -> RowMatrix:
    """The matrix that ``source`` stands for.

    Parameters
    ----------
    source : array, sparse matrix, pandas or polars frame, AnnData, RowMatrix, store, path, address, or Dask collection
        A frame gives its row names (unless they are plain numbers) and column names. A path is that of a store or of
        any file that :mod:`fastanchors.io` reads. A file too large for memory is built into a temporary store.
    normalize : "l1" or None
        ``"l1"`` divides every row by its sum; a row of zeros stays zero. A sample matrix or a store has a view of its
        own and is taken as that shows it.
    signed : bool
        Whether negative entries are allowed.
    checked : bool
        False leaves NaN, infinite and negative entries of an array in memory to the first pass over it.
    budget : int or None
        The largest number of rows to read of a file that can only be read from its beginning.
    name : str
        What error messages call the matrix.
    **options
        Those of the reader of a file, or ``layer`` of an AnnData object.

    Examples
    --------
    >>> from fastanchors.matrix import open_matrix
    >>> open_matrix([[1.0, 3.0], [2.0, 0.0]], normalize="l1").rows([0])
    array([[0.25, 0.75]])
    """
    if normalize not in ("l1", None):
        raise InvalidInputError(f"normalize must be 'l1' or None, got {normalize!r}")
    if isinstance(source, RowMatrix):
        _no_options(options, source)
        return source
    if is_dask(source):
        matrix: RowMatrix = opener("dask")(source, normalize=normalize, signed=signed, **options)
        return matrix
    if isinstance(source, str | os.PathLike | BlockSource):
        opened: RowMatrix = opener("file")(source, normalize=normalize, signed=signed, budget=budget, **options)
        return opened
    if isinstance(source, Iterator):
        raise InvalidTypeError(
            f"{name} is an iterator, which can be read only once; build a store of its row blocks with "
            "fa.build(blocks, folder) and use that"
        )
    if _package(source) == "anndata" and source.isbacked:
        if not source.is_view:
            with contextlib.suppress(StoreError):  # a file that is open for writing cannot be opened once more
                backed: RowMatrix = opener("file")(
                    source.filename, normalize=normalize, signed=signed, budget=budget, format="h5ad", **options
                )
                return backed
        source = source.to_memory()
    values, row_names, column_names = _labelled(source, options)
    _no_options(options, source)
    matrix = ArrayMatrix(
        as_matrix(values, signed=signed, finite=checked, name=name),
        row_names=row_names,
        column_names=column_names,
        checked=checked,
    )
    return matrix.l1_scaled() if normalize == "l1" else matrix


def _no_options(options: dict[str, Any], source: Any) -> None:
    if options:
        raise InvalidTypeError(f"{next(iter(options))!r} is no option of a {type(source).__name__}")


def _labelled(source: Any, options: dict[str, Any]) -> tuple[Rows, list[str] | None, list[str] | None]:
    """The numbers of an array, frame or AnnData object, and the names of its rows and columns."""
    if isinstance(source, np.ndarray) or sp.issparse(source):
        return source, None, None
    package = _package(source)
    if package == "anndata":
        layer = options.pop("layer", None)
        if layer is not None and layer not in source.layers:
            raise InvalidInputError(
                f"there is no layer {layer!r}; the layers are: {', '.join(source.layers) or 'none'}"
            )
        values = source.X if layer is None else source.layers[layer]
        return values, [str(x) for x in source.obs_names], [str(x) for x in source.var_names]
    if package == "polars":
        return source.to_numpy(), None, [str(c) for c in source.columns]
    if package == "pandas" and getattr(source, "ndim", 0) == 2:
        return _frame_values(source), row_labels(source), [str(c) for c in source.columns]
    return source, None, None


def _package(source: Any) -> str:
    """The package that the type of an object comes from; told without importing it."""
    return type(source).__module__.split(".")[0]


def row_labels(source: Any) -> list[str] | None:
    """The row names of a pandas frame, unless they are numbers: those are places, not names."""
    if type(source).__module__.split(".")[0] != "pandas" or source.index.dtype.kind in "iu":
        return None
    return [str(label) for label in source.index]


def _frame_values(frame: Any) -> Rows:
    """The numbers of a pandas frame; nullable columns become float64 with NaN for what is missing."""
    if any(getattr(dtype, "na_value", None) is not None for dtype in frame.dtypes):
        return frame.to_numpy(dtype=np.float64, na_value=np.nan)
    return frame.to_numpy()
