"""The input of ``SeparableNMF``: every kind of matrix is opened, checked, and compared with the data of ``fit``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_array, validate_data

from .._validate import (
    as_array,
    as_matrix,
    check_finite,
    check_flag,
    check_frame,
    check_no_group,
    check_objects,
    check_unmasked,
    computed,
    is_anndata,
    is_dask,
    package,
)
from ..errors import FastAnchorsError, InvalidInputError, InvalidTypeError, one_line
from ..matrix import ArrayMatrix, RowMatrix, Rows, open_matrix
from ..matrix.columns import check_columns
from ..matrix.door import BlockSource
from ..matrix.frames import is_labelled, take_labels

__all__ = ["check_collection", "check_signs", "checked_matrix"]


def checked_matrix(model: Any, X: Any, *, reset: bool) -> RowMatrix:
    """Open the input of an estimator and check it, with scikit-learn's own checks for the types it supports.

    With ``reset`` the number and names of the columns are set in the ``model``, otherwise they must be those set.
    """
    check_flag(model.sum_to_one, name="sum_to_one")
    if is_dask(X):
        check_collection(model, X, reset=reset)
        return open_matrix(X, signed=not reset)
    check_no_group(X, "X")
    names, like = None, X
    if _unknown_to_sklearn(X) or model.layer is not None:
        matrix = open_matrix(X, signed=True, checked=False, name="X", layer=model.layer)
        like = X.var.iloc[:, :0].T if is_anndata(X) else None  # columns: genes
        _check_width(model, matrix.shape[1], like, reset=reset, names=matrix.column_names)
        if not isinstance(matrix, ArrayMatrix):
            return matrix
        X, names = matrix.data, matrix.row_names
    elif is_labelled(X):
        X, names = take_labels(X, name="X")
        check_frame(X, "X")
        like = X = _without_fill(X)
    elif sp.issparse(X):  # SciPy and scikit-learn use index arrays without a check
        X = like = as_matrix(X, finite=False, name="X")
    X = computed(X, "X") if isinstance(X, list | tuple) else X
    check_unmasked(X, "X")
    _check_kinds(X)
    options = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "order": "C", "ensure_all_finite": False}
    try:
        known = like is X
        data = validate_data(model, X, reset=reset, **options) if known else check_array(X, estimator=model, **options)
    except FastAnchorsError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise _as_own_error(error) from None
    if sp.issparse(data):
        data = sp.csr_array(data)
    check_finite(data, signed=True, name="X")
    if reset:
        check_signs(data)
    columns = model.__dict__.get("feature_names_in_")  # those of X, if it has any
    return ArrayMatrix(data, row_names=names, column_names=None if columns is None else columns.tolist())


def check_collection(model: Any, X: Any, *, reset: bool) -> None:
    """Check width and column names of a Dask collection, without computing anything."""
    from ..dask.collection import is_frame, layout

    columns = layout(X).columns
    _check_width(model, columns, X._meta if is_frame(X) else np.empty((0, columns)), reset=reset)


def _check_width(model: Any, columns: int, like: Any, *, reset: bool, names: Sequence[str] | None = None) -> None:
    """Check the number of columns, and their names if ``like`` has any, without reading the rows.

    ``like`` is None for files and stores, which scikit-learn does not know: they have ``names``.
    """
    if not reset and columns != model.n_features_in_:
        raise InvalidInputError(
            f"X has {columns} features, but SeparableNMF is expecting {model.n_features_in_} features"
        )
    try:
        if like is not None:
            if len(set(named := list(getattr(like, "columns", [])))) < len(named):  # not checked by older versions
                raise InvalidInputError("X must have unique column names; rename the columns that are alike")
            validate_data(model, like, reset=reset, skip_check_array=True)
        elif not reset:
            check_columns(model.__dict__.get("feature_names_in_"), names, "the data of fit", "X")
        else:
            validate_data(model, np.empty((0, columns)), reset=True, skip_check_array=True)
            if names is not None:
                model.feature_names_in_ = np.array(list(names), dtype=object)
    except (TypeError, ValueError) as error:  # such as column names that are not unique
        raise _as_own_error(error) from None


def check_signs(rows: Rows) -> None:
    """Raise on negative entries, with the message that scikit-learn's estimator checks expect."""
    try:
        check_finite(rows, name="X")
    except InvalidInputError as error:
        raise InvalidInputError(f"Negative values in data passed to SeparableNMF: {error}") from None


def _unknown_to_sklearn(X: Any) -> bool:
    """Whether scikit-learn's ``validate_data`` cannot handle ``X``."""
    return isinstance(X, RowMatrix | BlockSource | str | PathLike | Iterator) or is_anndata(X)


def _without_fill(X: Any) -> Any:
    """A frame of sparse pandas columns whose missing entries are not all zero as a dense one: SciPy has only zeros."""
    kinds = set(X.dtypes) if package(X) == "pandas" else set()
    fills = [kind.fill_value for kind in kinds if hasattr(kind, "fill_value")]
    return X.sparse.to_dense() if kinds and len(fills) == len(kinds) and any(fill != 0 for fill in fills) else X


def _as_own_error(error: TypeError | ValueError | OverflowError) -> FastAnchorsError:
    """What scikit-learn says about its input as an error of this library: on one line."""
    kind = InvalidTypeError if isinstance(error, TypeError) else InvalidInputError
    return kind(one_line(str(error)))


def _check_kinds(X: Any) -> None:
    """Raise on what scikit-learn would convert to numbers: text, dates, durations, records, and objects of these."""
    given: Any = X if hasattr(X, "dtype") or hasattr(X, "dtypes") else as_array(X, "X")
    for dtype in (given.dtype,) if hasattr(given, "dtype") else given.dtypes:
        if getattr(dtype, "kind", None) in ("m", "M", "S", "U", "T", "V"):
            raise InvalidTypeError(f"X must hold real numbers, got dtype {dtype}")
    if isinstance(given, np.ndarray) and given.dtype.kind == "O":
        check_objects(given, "X")
