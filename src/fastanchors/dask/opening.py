"""Opens a Dask array or data frame as a matrix; :func:`fastanchors.open_matrix` calls it."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from ..errors import InvalidInputError
from ..io.row_source import numeric_dtype, read_names
from ..matrix.contract import RowMatrix
from .collection import Collection, is_frame
from .matrix import BlockParts, DaskMatrix
from .tasks import Pool

__all__ = ["open_collection"]


def open_collection(
    source: Any,
    *,
    normalize: Literal["l1"] | None = None,
    signed: bool = False,
    row_names: Any = None,
    column_names: Any = None,
) -> RowMatrix:
    """The rows of a Dask array or data frame, which stay where they are.

    Parameters
    ----------
    source : Dask array or data frame
        Blocks may be dense or sparse.
    normalize : "l1" or None
        ``"l1"`` divides every row by its sum, block by block.
    signed : bool
        Whether negative entries are allowed.
    row_names, column_names : sequence of str, path or None
        Names of rows and columns. By default those of a data frame's columns.
    """
    collection = Collection(source, Pool())
    known = collection.layout
    parts = BlockParts(collection, signed=signed, l1=normalize == "l1")
    if parts.starts[-1] == 0:
        raise InvalidInputError(f"{known.name} has no rows; at least one is needed")
    if column_names is None and is_frame(source):
        column_names = [str(column) for column in source.columns]
    dtype = numeric_dtype(known.dtype, known.name)
    if normalize == "l1":
        dtype = np.dtype(np.float32 if dtype == np.float32 else np.float64)
    sparse = sp.issparse(getattr(source, "_meta", None))
    names = read_names(row_names, "row"), read_names(column_names, "column")
    return DaskMatrix(parts, known.columns, dtype, sparse, normalize, *names)
