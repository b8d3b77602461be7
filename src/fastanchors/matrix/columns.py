"""Match the columns of two tables by their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._tables import as_frame
from .._validate import is_dask
from ..errors import InvalidInputError, one_line
from .frames import is_labelled

__all__ = ["check_columns", "column_order", "put_in_order"]

_SAME = 0.1  # largest difference of names that are numbers, relative to the smallest gap between two of them


def column_order(
    known: Sequence[str] | None, here: Sequence[str] | None, theirs: str, ours: str
) -> NDArray[np.intp] | None:
    """For each name in ``here`` its position in ``known``; None if the columns are to be used in the order they have.

    That is so if the names agree, or if only one of the tables has names; the numbers 0, 1, 2, … are none. Names that
    are numbers, such as wavelengths, may differ slightly. If one of the tables has a column that the other has not, an
    error calls them ``theirs`` and ``ours``. The caller has checked that they have the same number of columns.
    """
    first = _first_difference(known, here)
    if first is None or known is None or here is None:
        return None
    place = {name: at for at, name in enumerate(known)}
    if len(place) == len(known) and place.keys() == set(here):
        return np.array([place[name] for name in here], dtype=np.intp)
    raise _difference(known, here, theirs, ours, first)


def check_columns(known: Sequence[str] | None, here: Sequence[str] | None, theirs: str, ours: str) -> None:
    """Raise if the columns have other names, or the same names in another order; as for :func:`column_order`."""
    first = _first_difference(known, here)
    if first is not None and known is not None and here is not None:
        raise _difference(known, here, theirs, ours, first)


def put_in_order(frame: Any, names: Sequence[str], what: str) -> Any:
    """A frame, or Arrow table, that has exactly these columns, in this order; everything else as it is."""
    frame = as_frame(frame, what)
    if not (is_labelled(frame) or is_dask(frame)):
        return frame
    here = list(getattr(frame, "columns", ()))
    return frame[list(names)] if len(here) == len(set(here)) == len(names) and set(here) == set(names) else frame


def _first_difference(known: Sequence[str] | None, here: Sequence[str] | None) -> int | None:
    """The first column whose names differ; None if the columns agree, as far as their names tell."""
    if known is None or here is None:
        return None
    known, here = list(known), list(here)
    if known == here:
        return None
    reordered = set(known) == set(here)
    if not reordered and (_are_numbered(known) or _are_numbered(here) or _close(known, here)):
        return None
    return next((at for at, (one, other) in enumerate(zip(known, here, strict=False)) if one != other), None)


def _are_numbered(names: list[str]) -> bool:
    """Whether the names are 0, 1, 2, …, as those of a frame without names are."""
    return all(name == str(at) for at, name in enumerate(names))


def _close(known: list[str], here: list[str]) -> bool:
    """Whether all names are numbers that differ by far less than two neighbours do."""
    try:
        one, other = np.array(known, dtype=np.float64), np.array(here, dtype=np.float64)
    except ValueError:
        return False
    gap = np.diff(np.sort(one)).min(initial=np.inf) if one.size > 1 else 0.0
    return bool(one.shape == other.shape and (np.abs(one - other) <= _SAME * gap).all())


def _difference(known: Sequence[str], here: Sequence[str], theirs: str, ours: str, first: int) -> InvalidInputError:
    present = set(here)
    missing = next((name for name in known if name not in present), None)
    found, wanted = one_line(here[first], 60), one_line(known[first], 60)
    where = f"column {first} is named {found!r} in {ours} and {wanted!r} in {theirs}"
    if missing is None:
        return InvalidInputError(f"{where}: put the columns in the same order")
    return InvalidInputError(f"{where}; {ours} has no column {one_line(missing, 60)!r}")
