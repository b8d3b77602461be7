"""``open_matrix``: open any kind of source as a :class:`RowMatrix`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any, Literal

from .._openers import opener
from .._validate import as_matrix, check_choice, check_flag, check_no_group, check_text, is_anndata, is_dask
from ..errors import InvalidTypeError, StoreError
from .array import ArrayMatrix
from .contract import RowMatrix
from .frames import is_labelled, labelled

__all__ = ["BlockSource", "open_matrix"]


class BlockSource:
    """A file or stream that yields its rows in blocks, in order: base class of the sources in :mod:`fastanchors.io`."""


def open_matrix(
    source: Any,
    normalize: Literal["l1"] | None = None,
    *,
    signed: bool = False,
    checked: bool = True,
    budget: int | None = None,
    name: str = "A",
    layer: str | None = None,
    **options: Any,
) -> RowMatrix:
    """Open ``source`` as a matrix that is read by rows.

    Parameters
    ----------
    source : array, sparse matrix, frame, Arrow table, AnnData, RowMatrix, store, path, address, or Dask collection
        Row names of a frame (pandas or polars) are its pandas index, unless that is a range, else its first text
        column, else the labels of a range that does not count from 0. An Arrow table or batch is read as the pandas
        frame that it converts to. The coordinates of a two-dimensional xarray ``DataArray`` are its names. A path is
        that of a store or of any file that :mod:`fastanchors.io` reads. A file too large for memory is built
        into a temporary store.
    normalize : "l1" or None
        ``"l1"`` divides every row by its sum; a row of zeros stays zero. It has no effect on a sample matrix or a
        store, which keep the normalisation they were built with.
    signed : bool
        Whether negative entries are allowed.
    checked : bool
        False defers the check for NaN, infinite and negative entries of an array in memory, or of a mapped ``.npy``
        file, to its first pass. A matrix for which it was deferred is checked when it is opened again with True.
    budget : int or None
        The largest number of rows to read from a file that is read sequentially.
    name : str
        What error messages call the matrix.
    layer : str or None
        Layer of AnnData (object or file) to read; None for its ``X``.
    **options
        Options of the reader of a file.

    Examples
    --------
    >>> from fastanchors.matrix import open_matrix
    >>> open_matrix([[1.0, 3.0], [2.0, 0.0]], normalize="l1").rows([0])
    array([[0.25, 0.75]])
    """
    check_choice(normalize, ("l1", None), name="normalize")
    signed, checked = check_flag(signed, name="signed"), check_flag(checked, name="checked")
    check_text(layer, name="layer", none=True)
    if layer is not None and not is_anndata(source):
        options["layer"] = layer
    if isinstance(source, RowMatrix):
        _no_options(options, source)
        if checked and budget is None:
            source.check_entries(signed=signed, name=name)
        return source
    if is_dask(source):
        matrix: RowMatrix = opener("dask")(source, normalize=normalize, signed=signed, **options)
        return matrix
    if isinstance(source, str | os.PathLike | BlockSource):
        given: Any = {"normalize": normalize, "signed": signed, "checked": checked, "budget": budget, **options}
        opened: RowMatrix = opener("file")(source, **given)
        return opened
    if isinstance(source, Iterator):
        raise InvalidTypeError(
            f"{name} is an iterator, which can be read only once; build a store from its row blocks with "
            "fa.build(blocks, folder) and pass the store"
        )
    if is_anndata(source) and source.isbacked:
        backed = _open_backed(source, normalize=normalize, signed=signed, budget=budget, layer=layer, **options)
        if backed is not None:
            return backed
        source = source.to_memory()
    check_no_group(source, name)
    if is_labelled(source):
        values, row_names, column_names = labelled(source, layer=layer, name=name)
    else:
        values, row_names, column_names = source, None, None
    _no_options(options, source)
    matrix = ArrayMatrix(
        as_matrix(values, signed=signed, finite=checked, name=name),
        row_names=row_names,
        column_names=column_names,
        checked=checked,
    )
    if normalize != "l1":
        return matrix
    matrix.check_entries(signed=signed, name=name)  # scaled rows hide what was wrong with them
    return matrix.l1_scaled()


def _open_backed(source: Any, **options: Any) -> RowMatrix | None:
    """The file of a backed AnnData object; None for a view, and if the file cannot be opened again."""
    if not source.is_view:
        with contextlib.suppress(StoreError):  # a file that is open for writing cannot be opened again
            matrix: RowMatrix = opener("file")(source.filename, format="h5ad", **options)
            return matrix
    return None


def _no_options(options: dict[str, Any], source: Any) -> None:
    if options:
        raise InvalidTypeError(f"{next(iter(options))!r} is not an option for a {type(source).__name__}")
