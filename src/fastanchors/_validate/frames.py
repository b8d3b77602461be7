"""Check the columns of pandas and polars frames, before NumPy converts them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, NoReturn

import numpy as np

from ..errors import InvalidTypeError, one_line
from .entries import check_unrounded, check_whole_objects
from .kinds import package

__all__ = ["check_frame", "kind_of", "plain_dtype"]

_TIMES = (dt.date, dt.time, dt.timedelta)


def check_frame(frame: Any, name: str) -> None:
    """Raise on a column of a pandas or polars frame that NumPy would change; other objects are not checked.

    That is text and times, which would become numbers (text if it looks like them), and integers that would be rounded
    because other columns need float64. Columns of text that name the rows must be removed first. Frames of one numeric
    type are not read.
    """
    kind = package(frame)
    if kind == "pandas" and getattr(frame, "ndim", None) == 2:
        _check_pandas(frame, name)
    elif kind == "polars" and hasattr(frame, "get_columns"):
        _check_polars(frame, name)


def _check_pandas(frame: Any, name: str) -> None:
    kinds = list(frame.dtypes)
    different = set(kinds)
    other = {kind: what for kind in different if (what := _no_numbers(kind)) is not None}
    for place, kind in enumerate(kinds if other else ()):
        if kind in other:
            _refuse(frame.columns.tolist()[place], other[kind], name)
    if any(kind_of(kind) == "O" for kind in different):
        names = frame.columns.tolist()
        for place, kind in enumerate(kinds):
            if kind_of(kind) == "O":
                is_object = isinstance(kind, np.dtype) or _type_of(kind) is Decimal  # decimals of Arrow
                column = frame.iloc[:, place] if is_object else getattr(kind, "categories", None)
                _check_objects(() if column is None else column, _type_of(kind) in (str, bytes), names[place], name)
                if hasattr(kind, "pyarrow_dtype") and not is_object:
                    _refuse(names[place], f"values of type {one_line(str(kind), 60)}", name)
    plain = {kind: plain_dtype(kind) for kind in different}
    if plain and all(kind_of(kind) in "iu" for kind in plain) and np.result_type(*plain.values()).kind in "iu":
        nullable = any(hasattr(kind, "numpy_dtype") for kind in plain)  # sparse integers have no missing values
        if not nullable or not frame.isna().any(axis=None):
            return
    for kind in different:
        if kind_of(kind) in "iu" and plain[kind].itemsize == 8:
            columns = frame.iloc[:, [place for place, own in enumerate(kinds) if own == kind]]
            if isinstance(kind, np.dtype):
                check_unrounded(columns.to_numpy(), name)
            else:  # values may be missing
                for _, column in columns.items():
                    check_unrounded(column.dropna().to_numpy(dtype=plain[kind]), name)


def _no_numbers(dtype: Any) -> str | None:
    """What a pandas column of this type holds that NumPy could convert, though it is no number: times, or text."""
    categories = getattr(dtype, "categories", None)
    kind = kind_of(dtype if categories is None else categories.dtype)
    return "times" if kind in "mM" else "text" if kind == "S" else None  # bytes of Arrow


def plain_dtype(dtype: Any) -> Any:
    """The NumPy type of the values of a pandas column of numbers, which may be nullable or sparse."""
    if kind_of(dtype) == "O":  # an interval has a subtype too
        return dtype
    return getattr(dtype, "numpy_dtype", getattr(dtype, "subtype", dtype))


def kind_of(dtype: Any) -> str:
    """The letter of NumPy for the type of a pandas column; "O" if it has none, as some types of Arrow."""
    try:
        return str(getattr(dtype, "kind", "O"))
    except NotImplementedError:
        return "O"


def _type_of(dtype: Any) -> Any:
    """The class of the values of a pandas column; None if pandas does not know one for a type of Arrow."""
    try:
        return dtype.type
    except NotImplementedError:
        return None


def _check_polars(frame: Any, name: str) -> None:
    columns = frame.get_columns()
    for column in columns:
        kind = str(column.dtype).split("(")[0]
        if kind in ("Int128", "UInt128"):
            raise InvalidTypeError(f"{name}: column {column.name!r} is {kind}; cast it to Int64 or Float64 first")
        if column.dtype.is_nested():
            _refuse(column.name, f"values of type {one_line(str(column.dtype), 60)}", name)
        if column.dtype.is_temporal():
            _refuse(column.name, "times", name)
        text = kind in ("String", "Utf8", "Categorical", "Enum", "Binary")
        objects = kind == "Object" or (kind == "Decimal" and column.dtype.scale == 0)
        _check_objects(column.to_list() if objects else (), text, column.name, name)
    integers = [column for column in columns if column.dtype.is_integer()]
    signs = {column.dtype.is_signed_integer() for column in integers}
    if len(signs) > 1 or len(integers) < len(columns) or any(column.null_count() for column in integers):
        for column in integers:
            check_unrounded(column.drop_nulls().to_numpy(), name)


def _check_objects(values: Iterable[Any], text: bool, column: Any, name: str) -> None:
    """Raise if a column is ``text``, or holds text, times or integers that would be rounded, also as categories."""
    first = next((value for value in values if isinstance(value, (str, bytes, *_TIMES))), None)
    if text or first is not None:
        kind = "times" if isinstance(first, _TIMES) else "text"
        _refuse(column, kind if first is None else f"{kind}, such as {one_line(repr(first), 60)}", name)
    check_whole_objects(values, name)


def _refuse(column: Any, what: str, name: str) -> NoReturn:
    shown = one_line(repr(column), 60)
    raise InvalidTypeError(f"{name} must hold real numbers: column {shown} holds {what}; drop or convert it first")
