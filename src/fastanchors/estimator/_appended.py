"""The rows of ``partial_fit``: new ones are appended to those seen before if they are compatible."""

from __future__ import annotations

import numpy as np

from .._validate import check_finite
from ..errors import InvalidInputError
from ..matrix import ArrayMatrix
from ..matrix.scaled import row_sums
from ..sampling.matrix import SampleMatrix
from ._input import check_signs

__all__ = ["append_rows"]


def append_rows(seen: SampleMatrix, new: ArrayMatrix, normalize: str | None) -> None:
    """Append rows to those seen so far, after checking that they are compatible."""
    if seen.normalize != normalize:
        raise InvalidInputError(f"normalize was {seen.normalize!r} for the rows so far, now {normalize!r}")
    names = _joined_names(seen, new)
    check_signs(new.data)
    with np.errstate(over="ignore", under="ignore"):
        rows = new.data.astype(seen.dtype, copy=False)
    cure = "start with rows of float64, or multiply all rows by one number"
    why = f"in {seen.dtype}, the type of the rows so far; {cure}"
    try:
        check_finite(rows, name="X")
    except InvalidInputError as error:  # the rows given are finite
        raise InvalidInputError(f"{str(error).partition(';')[0]} {why}") from None
    vanished = (row_sums(rows) == 0) & (row_sums(new.data) > 0)
    if vanished.any():
        raise InvalidInputError(f"row {int(np.argmax(vanished))} of X is zero {why}")
    if names is not None and seen.row_names is None:
        seen.row_names = names[: seen.shape[0]]
    seen.append(rows, row_names=None if names is None else names[seen.shape[0] :])


def _joined_names(seen: SampleMatrix, new: ArrayMatrix) -> list[str] | None:
    """The names of the rows so far and of new ones, or None if these have none or are their numbers.

    Labels that are numbers, such as those of parts of a frame, can follow rows without names, which have their numbers.
    """
    first, last = seen.shape[0], seen.shape[0] + new.shape[0]
    given = seen.row_names, new.row_names
    if (given[0] is None) != (given[1] is None) and not all(map(_is_number, given[0] or given[1] or ())):
        before, now = ("no names", "names") if given[0] is None else ("names", "none")
        raise InvalidInputError(f"the rows so far have {before}, these have {now}; always pass frames with an index")
    numbers = [str(row) for row in range(last)]
    names = [*(given[0] or numbers[:first]), *(given[1] or numbers[first:])]
    return None if given[0] is None and names == numbers else names


def _is_number(name: str) -> bool:
    return name.removeprefix("-").isdecimal()
